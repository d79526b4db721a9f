//! The same texts through this reader and through `serde_json`: both accept with the same value, or both refuse.

mod maker;

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Debug;

use super::*;
use crate::Problem;
use crate::json::Value;
use maker::Maker;

/// One field of every kind.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    name: String,
    count: Option<u8>,
    share: Option<f64>,
    small: Option<f32>,
    below: Option<i64>,
    huge: Option<u128>,
    deep: Option<i128>,
    #[serde(default)]
    levels: Vec<Level>,
    kind: Option<Kind>,
    #[serde(default)]
    by: BTreeMap<u16, bool>,
    #[serde(default)]
    flags: BTreeMap<bool, Option<Word>>,
    pair: Option<(i8, char)>,
    nothing: Option<()>,
    wrapped: Option<Wrapped>,
    free: Option<Value>,
    shape: Option<Shape>,
    either: Option<Either>,
}

/// A mapping that may have more keys.
#[derive(Debug, PartialEq, Deserialize)]
struct Level {
    level: u8,
    names: Option<Vec<String>>,
}

#[derive(Debug, PartialEq, Deserialize)]
enum Kind {
    Auto,
    Named(String),
    Pair(u8, u8),
    Full { a: u8 },
}

#[derive(Debug, PartialEq, PartialOrd, Eq, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Up,
    Down,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Wrapped(u16);

#[derive(Debug, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Shape {
    Ring { size: u8 },
    Line,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Either {
    Number(i32),
    Fraction(f64),
    Text(String),
    List(Vec<Either>),
    Level(Level),
}

fn ours<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    from_str(text).map_err(Problem::from)
}

/// Compares the readers.
fn check<T: DeserializeOwned + PartialEq + Debug>(text: &str) {
    match (ours::<T>(text), serde_json::from_str::<T>(text)) {
        (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{text}"),
        (Err(_), Err(_)) => {}
        // serde_json reads a list of values as a struct; here a struct is a mapping.
        (Err(problem), Ok(_))
            if problem.message.starts_with("expected struct ") && problem.message.ends_with(", got a list") => {}
        (ours, theirs) => panic!("{text}\n{ours:?}\n{theirs:?}"),
    }
}

fn check_all(text: &str) {
    check::<Config>(text);
    check::<Value>(text);
    check::<Option<Vec<Kind>>>(text);
    check::<BTreeMap<Word, Either>>(text);
    match serde_json::from_str(text) {
        Ok(theirs) => assert_eq!(Value::parse(text).map(with_floats), Ok(theirs), "{text}"),
        // Beyond what a float holds, but it is JSON.
        Err(error) if error.to_string().starts_with("number out of range") => {}
        Err(_) => assert!(Value::parse(text).is_err(), "{text}"),
    }
}

/// The value as serde gives it, where other numbers than those of 64 bits are floats.
fn with_floats(value: Value) -> Value {
    match value {
        Value::Number(text) if text.parse::<u64>().is_err() && text.parse::<i64>().is_err() => {
            Value::Number(text.parse::<f64>().unwrap().to_string())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(with_floats).collect()),
        Value::Object(entries) => {
            Value::Object(entries.into_iter().map(|(key, value)| (key, with_floats(value))).collect())
        }
        other => other,
    }
}

#[test]
fn whole_and_cut_texts_are_read_as_serde_json_reads_them() {
    let mut accepted = 0;
    for seed in 0..400 {
        let text = Maker::new(seed).config();
        accepted += usize::from(ours::<Config>(&text).is_ok());
        check_all(&text);
        for (cut, _) in text.char_indices() {
            check_all(&text[..cut]);
        }
    }
    assert!(accepted > 100, "{accepted} texts of 400 are valid: the others prove little");
}

#[test]
fn texts_with_another_byte_are_read_as_serde_json_reads_them() {
    for seed in 0..400 {
        let mut maker = Maker::new(seed);
        let text = if seed % 2 == 0 { maker.config() } else { maker.value(3) };
        for _ in 0..20 {
            let mut changed = text.clone().into_bytes();
            maker.change(&mut changed);
            if let Ok(changed) = String::from_utf8(changed) {
                check_all(&changed);
            }
        }
    }
}

#[test]
fn any_value_is_read_as_serde_json_reads_it() {
    for seed in 0..2000 {
        check_all(&Maker::new(seed).value(4));
    }
}

#[test]
fn strings_and_escapes_are_those_of_the_standard() {
    for inside in [
        "",
        "a",
        "zürich",
        "\\n\\t\\r\\b\\f\\/\\\\\\\"",
        "\\u0041",
        "\\u00fC",
        "\\uD834\\uDD1E",
        "a\\ud834\\udd1eb",
        "\\ud834",
        "\\ud834x",
        "\\ud834\\n",
        "\\ud834\\u0041",
        "\\udd1e",
        "\\udd1e\\ud834",
        "\\ud834\\ud834",
        "\\u12",
        "\\u12g4",
        "\\u+123",
        "\\x",
        "\\",
        "\\u0000",
        "\u{7f}",
        "\n",
        "\t",
        "\u{1f}",
        "\\ü",
        "\\uü",
    ] {
        let text = format!("\"{inside}\"");
        check::<String>(&text);
        check_all(&text);
        check::<BTreeMap<String, u8>>(&format!("{{{text}: 1}}"));
    }
    for text in ["\"", "\"a", "'a'", "\"\\", "\"\\u", "\"\\ud834", "\"\\ud834\\", "\"\\ud834\\u", "\"a\"b", "a"] {
        check::<String>(text);
    }
}

#[test]
fn numbers_keep_to_their_ranges() {
    for text in [
        "0",
        "-0",
        "1",
        "-1",
        "127",
        "128",
        "-128",
        "-129",
        "255",
        "256",
        "65535",
        "65536",
        "4294967295",
        "4294967296",
        "2147483647",
        "-2147483648",
        "-2147483649",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "340282366920938463463374607431768211455",
        "340282366920938463463374607431768211456",
        "-170141183460469231731687303715884105728",
        "1.0",
        "1.5",
        "-1.5",
        "1e2",
        "1E+2",
        "1e-2",
        "00",
        "01",
        "-01",
        "+1",
        ".5",
        "1.",
        "1.e2",
        "1e",
        "1e+",
        "-",
        "--1",
        "0x1",
        "1_0",
        "NaN",
        "Infinity",
        "0.1",
        "1e400",
        "-1e400",
        "0.0",
        "1 ",
        " 1",
        "1 1",
        "1,",
    ] {
        check::<u8>(text);
        check::<u16>(text);
        check::<u32>(text);
        check::<u64>(text);
        check::<u128>(text);
        check::<i8>(text);
        check::<i16>(text);
        check::<i32>(text);
        check::<i64>(text);
        check::<i128>(text);
        check::<f64>(text);
        check::<Either>(text);
        let key = format!("{{\"{text}\": 1}}");
        check::<BTreeMap<u8, u8>>(&key);
        check::<BTreeMap<i64, u8>>(&key);
        check::<BTreeMap<String, u8>>(&key);
    }
    assert_eq!(ours::<f32>("0.1"), Ok(0.1));
    assert_eq!(ours::<f32>("1e39").unwrap_err().message, "expected f32, got number 1e39");
}

#[test]
fn a_number_in_a_value_is_the_text_without_zeros_behind_it() {
    for (text, expected) in [
        ("42", "42"),
        ("100", "100"),
        ("1.0", "1"),
        ("1.50", "1.5"),
        ("-10.00", "-10"),
        ("-0", "-0"),
        ("0.0", "0"),
        ("1e3", "1e3"),
        ("1.0e10", "1.0e10"),
        ("1e999", "1e999"),
        ("18446744073709551616", "18446744073709551616"),
    ] {
        assert_eq!(Value::parse(text), Ok(Value::Number(expected.to_owned())));
    }
}

#[test]
fn depth_has_a_limit() {
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    check_all(&nested(127));
    check_all(&nested(128));
    assert!(Value::parse(&nested(127)).is_ok());
    let beyond = Problem::new("", "not JSON at line 1, column 128: more than 127 lists and mappings within each other");
    assert_eq!(Value::parse(&nested(128)), Err(vec![beyond.clone()]));
    for bomb in ["[".repeat(1_000_000), "{\"a\":".repeat(1_000_000)] {
        assert!(Value::parse(&bomb).is_err());
        assert!(ours::<Value>(&bomb).is_err());
        assert!(ours::<serde::de::IgnoredAny>(&bomb).is_err());
        assert!(ours::<Level>(&format!("{{\"level\": 1, \"more\": {bomb}")).is_err());
        assert!(ours::<Either>(&bomb).is_err());
    }
    // What is closed does not count.
    let wide = format!("[{}[]]", "[],".repeat(1000));
    check_all(&wide);
    assert!(Value::parse(&wide).is_ok());
}

#[test]
fn a_key_that_occurs_twice_is_judged_by_the_type() {
    let twice = r#"{"level": 1, "level": 2}"#;
    assert_eq!(ours::<Level>(twice).unwrap_err().message, "duplicate field `level`");
    assert_eq!(ours::<BTreeMap<String, u8>>(twice), Ok(BTreeMap::from([("level".to_owned(), 2)])));
    let Ok(Value::Object(entries)) = Value::parse(twice) else { panic!("no mapping") };
    assert_eq!(entries.len(), 2);
}

#[test]
fn a_string_without_escapes_is_not_copied() {
    assert_eq!(<&str>::deserialize(&mut Reader::new(r#""zürich""#)).unwrap(), "zürich");
    let error = <&str>::deserialize(&mut Reader::new(r#""z\u00fcrich""#)).unwrap_err();
    assert_eq!(error.to_string(), r#"expected a borrowed string, got string "zürich""#);
    let (bytes, list) = (&mut Reader::new(r#""ab""#), &mut Reader::new("[7]"));
    assert_eq!(<&[u8]>::deserialize(bytes).unwrap(), b"ab");
    assert_eq!(Vec::<u8>::deserialize(list).unwrap(), [7]);
}

#[test]
fn every_mistake_has_its_place_and_words() {
    let cases = [
        ("{}", "", "missing field `name`"),
        ("[]", "", "expected struct Config, got a list"),
        ("null", "", "expected struct Config, got null"),
        (r#"{"name": true}"#, "name", "expected a string, got true"),
        (r#"{"nmae": "x"}"#, "nmae", ""),
        (r#"{"name": "x", "count": 256}"#, "count", "expected u8, got number 256"),
        (r#"{"name": "x", "count": -1}"#, "count", "expected u8, got number -1"),
        (r#"{"name": "x", "count": 1.50}"#, "count", "expected u8, got number 1.50"),
        (r#"{"name": "x", "count": "1"}"#, "count", r#"expected u8, got string "1""#),
        (r#"{"name": "x", "share": 1e999}"#, "share", "expected f64, got number 1e999"),
        (r#"{"name": "x", "levels": {}}"#, "levels", "expected a sequence, got a mapping"),
        (r#"{"name": "x", "levels": [{"level": 1}, {"names": []}]}"#, "levels[1]", "missing field `level`"),
        (
            r#"{"name": "x", "levels": [{"level": 1, "names": ["a", 7]}]}"#,
            "levels[0].names[1]",
            "expected a string, got number 7",
        ),
        (r#"{"name": "x", "by": {"7": true, "8": 1}}"#, "by.8", "expected a boolean, got number 1"),
        (r#"{"name": "x", "by": {"x": true}}"#, "by.x", r#"expected u16, got string "x""#),
        (r#"{"name": "x", "flags": {"no": null}}"#, "flags.no", r#"expected a boolean, got string "no""#),
        (
            r#"{"name": "x", "flags": {"true": "left"}}"#,
            "flags.true",
            "unknown variant `left`, expected `up` or `down`",
        ),
        (
            r#"{"name": "x", "kind": "Other"}"#,
            "kind",
            "unknown variant `Other`, expected `Auto`, `Named`, `Pair` or `Full`",
        ),
        (r#"{"name": "x", "kind": "Named"}"#, "kind", "expected a variant with a value, got a variant without content"),
        (r#"{"name": "x", "kind": {"Named": 7}}"#, "kind.Named", "expected a string, got number 7"),
        (r#"{"name": "x", "kind": {"Pair": [1, "b"]}}"#, "kind.Pair[1]", r#"expected u8, got string "b""#),
        (r#"{"name": "x", "kind": {"Full": {}}}"#, "kind.Full", "missing field `a`"),
        (r#"{"name": "x", "kind": {"Auto": 1}}"#, "kind.Auto", "expected unit, got number 1"),
        (r#"{"name": "x", "kind": {}}"#, "kind", "expected enum Kind, got an empty mapping"),
        (
            r#"{"name": "x", "kind": {"Named": "a", "Auto": null}}"#,
            "kind",
            "expected one variant, got a mapping of several",
        ),
        (r#"{"name": "x", "pair": [1]}"#, "pair", "expected a tuple of size 2, got a list of 1"),
        (r#"{"name": "x", "pair": [1, "a", 2]}"#, "pair", "expected a list of 2, got a longer one"),
        (r#"{"name": "x", "pair": [1, "ab"]}"#, "pair[1]", r#"expected a character, got string "ab""#),
        (r#"{"name": "x", "wrapped": null, "nothing": 0}"#, "nothing", "expected unit, got number 0"),
        (r#"{"name": "x", "wrapped": []}"#, "wrapped", "expected u16, got a list"),
        (
            r#"{"name": "x", "shape": {"type": "ring", "size": 1.5}}"#,
            "shape",
            "expected u8, got a number with a fraction",
        ),
        (r#"{"name": "x", "shape": {"size": 1}}"#, "shape", "missing field `type`"),
        (r#"{"name": "x", "either": {}}"#, "either", "data did not match any variant of untagged enum Either"),
        ("", "", "not JSON at line 1, column 1: the text ends too early"),
        (
            "{\n  \"name\": \"zürich\" \"x\"}",
            "",
            "not JSON at line 2, column 20: expected a comma or the closing bracket",
        ),
        (r#"{"name": "x", "levels": [tru]}"#, "", "not JSON at line 1, column 26: expected a value"),
        (r#"{"name": "x",}"#, "", "not JSON at line 1, column 14: expected a key in quotes"),
        (r#"{"name" "x"}"#, "", "not JSON at line 1, column 9: expected a colon"),
        (r#"{"name": "x"}}"#, "", "not JSON at line 1, column 14: something follows the value"),
        (r#"{"name": "\ud800"}"#, "", "not JSON at line 1, column 17: half of a surrogate pair"),
        (r#"{"name": "\q"}"#, "", "not JSON at line 1, column 12: this is not an escape"),
        (r#"{"name": 1.}"#, "", "not JSON at line 1, column 12: expected a digit"),
        ("{\"name\": \"a\nb\"}", "", "not JSON at line 1, column 12: a control character in a string"),
    ];
    for (text, path, message) in cases {
        let problem = ours::<Config>(text).unwrap_err();
        assert_eq!(problem.path, path, "{text}: {problem}");
        let is_listed =
            message.is_empty() && problem.message.starts_with("unknown field `nmae`, expected `name`, `count`, ");
        assert!(is_listed || problem.message == message, "{text}: {problem}");
    }
    let none = <Error as serde::de::Error>::unknown_field("a", &[]);
    assert_eq!(none.to_string(), "unknown field `a`, expected none");
    let one = <Error as serde::de::Error>::unknown_field("a", &["b"]);
    assert_eq!(one.to_string(), "unknown field `a`, expected `b`");
}
