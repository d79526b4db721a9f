//! The dialect as tables: what Go's `regexp` package answers for the same pattern and text.

use proptest::prelude::*;

use super::*;

fn matches(pattern: &str, text: &str) -> Option<bool> {
    compile(pattern).ok().map(|regex| regex.is_match(text))
}

#[test]
fn patterns_match_as_in_go() {
    let table = [
        ("k[12]", "rack2x", true),
        ("^k[12]$", "rack2x", false),
        ("", "anything", true),
        (r"^\d+$", "12", true),
        (r"^\d+$", "\u{0661}", false),
        (r"^\w+$", "é", false),
        (r"^\W+$", "é", true),
        (r"^\s$", "\u{b}", false),
        (r"^[[:space:]]$", "\u{b}", true),
        (r"^\s$", "\u{a0}", false),
        (r"\bk1\b", "é.k1", true),
        (r"ék1\b", "ék1", true),
        (r"é\bk1", "ék1", true),
        (r"a\Bb", "ab", true),
        (r"^\Qa.b\E+$", "a.bbb", true),
        (r"^\Qa.b\E+$", "axb", false),
        (r"\Q.*", ".*", true),
        (r"a\Q\E*$", "aaa", true),
        (r"^\<a\>$", "<a>", true),
        (r"^\_\-$", "_-", true),
        ("a$", "a\n", false),
        ("(?m)a$", "a\nb", true),
        ("a.b", "a\nb", false),
        ("(?s)a.b", "a\nb", true),
        ("(?i)K1", "k1", true),
        ("(?i)a(?-i)B", "Ab", false),
        ("a(?i)b|C", "c", true),
        ("(?i:a)B", "Ab", false),
        ("(?ii-i)a", "A", false),
        ("^x{2,3}$", "xx", true),
        ("^x{2,3}$", "xxxx", false),
        ("^x{0}$", "", true),
        ("x{,2}", "x{,2}", true),
        ("x{,2}", "xx", false),
        ("x{ 2}", "x{ 2}", true),
        ("x{01}", "x{01}", true),
        (r"\b{start}", "a{start}", true),
        ("a#b c", "a#b c", true),
        ("[]a]", "]", true),
        ("[^]a]", "b", true),
        ("[a-]", "-", true),
        ("[a-c-e]", "-", true),
        ("[a-c-e]", "d", false),
        ("[[a]", "[", true),
        ("^[a&&b]+$", "&ab", true),
        ("^[a~~b]$", "~", true),
        (r"^[\d-]+$", "1-2", true),
        (r"^[^\D]$", "1", true),
        (r"^[\W]$", ".", true),
        ("[[:^alpha:]]", "a", false),
        ("[[:alpha]", ":", true),
        (r"\x41\x{42}\103", "ABC", true),
        (r"\0", "\0", true),
        (r"\01", "\u{1}", true),
        (r"\p{Greek}\pL\P{Lu}\p{^Nd}", "αaax", true),
        ("(?P<rack>k)1(?<n>2)", "k12", true),
        ("(?<n>a)(?P<n>b)", "ab", true),
        ("a||b", "zzz", true),
        ("()", "", true),
        ("^*a", "a", true),
        ("a(?i)*$", "aaa", true),
        ("^a+(?i)?$", "", true),
        ("a*?b", "aab", true),
        ("]}", "]}", true),
        ("(?)a", "a", true),
    ];
    for (pattern, text, expected) in table {
        assert_eq!(matches(pattern, text), Some(expected), "{pattern:?} on {text:?}: {:?}", compile(pattern));
    }
}

#[test]
fn patterns_that_go_refuses_are_refused() {
    let table = [
        "a(b",
        "a)b",
        "a(?i",
        "x**",
        "x*+",
        "x??*",
        "x{2}{3}",
        "*a",
        "(*)",
        "a|*",
        "(?x)a b",
        "(?u)a",
        "(?R)a",
        "(?-)a",
        "(?i-)a",
        "(?--i)a",
        "(?=a)",
        "(?!a)",
        "(?<=a)",
        "(?<!a)",
        "(?>a)",
        "(?#c)",
        "(?P=n)",
        "(?P<1n)",
        "(?<>a)",
        "(?P<n-x>a)",
        "x{1001}",
        "x{1,1001}",
        "x{1001,}",
        "x{3,2}",
        "x{99999999999}",
        "(x{500}){3}",
        "((x{10}){10}y){11}",
        "[a",
        "[]",
        "[^]",
        "[b-a]",
        r"[a-\d]",
        "[[:foo:]]",
        r"[\b]",
        r"[\Qa\E]",
        r"\1",
        r"\8",
        r"\Z",
        r"\G",
        r"\C",
        r"\E",
        r"\h",
        r"\R",
        r"\X",
        r"\é",
        r"\",
        r"[\",
        r"\x4",
        r"\x{}",
        r"\x{110000}",
        r"\xé1",
        r"\x{41",
        r"\p{Foo}",
        r"\p{Alphabetic}",
        r"\p{Script=Greek}",
        r"\p",
        r"\p{Lu",
        r"\pQ",
    ];
    for pattern in table {
        assert!(compile(pattern).is_err(), "{pattern:?} became {:?}", translate(pattern));
    }
}

#[test]
fn repetitions_up_to_the_bound_are_accepted() {
    for pattern in ["x{1000}", "(x{500}){2}", "((x{10}){10}){10}", "((x{500}){0}){3}", "(x{500})*", "(x{1000})?y{1000}"]
    {
        assert!(compile(pattern).is_ok(), "{pattern:?}: {:?}", compile(pattern));
    }
}

#[test]
fn an_error_has_its_position() {
    assert_eq!(
        compile("ab**").map_err(|e| e.to_string()).unwrap_err(),
        "not a Go regular expression: a repetition of a repetition at byte 4"
    );
}

proptest! {
    /// All that the translator accepts is an expression of the crate (or too large): nothing is lost between the
    /// dialects.
    #[test]
    fn a_translation_always_parses(pattern in r"([ab0(|)*+?{},\[\]^$.\\dwsbBQEpPLux:<>=!imsU\-0-9é&~]){0,16}") {
        if let Ok(translated) = translate(&pattern) {
            let built = build(&translated);
            prop_assert!(built.is_ok(), "{:?} became {:?}", pattern, translated);
        }
    }

    #[test]
    fn quoted_text_means_itself(text in "[ -~]{1,12}") {
        prop_assume!(!text.contains("\\E"));
        let pattern = format!("^\\Q{text}\\E$");
        prop_assert_eq!(matches(&pattern, &text), Some(true));
    }

    /// Names of nodes under patterns that both dialects share.
    #[test]
    fn plain_patterns_pass_unchanged(pattern in "[ab1.(|)*+?-]{1,10}", name in "[ab1.-]{0,6}") {
        if let (Ok(ours), Ok(plain)) = (compile(&pattern), regex::Regex::new(&pattern)) {
            prop_assert_eq!(ours.is_match(&name), plain.is_match(&name), "{}", pattern);
        }
    }
}
