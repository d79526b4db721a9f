//! Texts of strangers, made fit for a log, a status and a terminal.

use std::any::Any;

/// Whether the value of a switch annotation means yes. People write `True`, `yes` or `1`; only an empty value and
/// `false` mean no.
#[must_use]
pub fn says_yes(value: Option<&str>) -> bool {
    value.map(str::trim).is_some_and(|value| !value.is_empty() && !value.eq_ignore_ascii_case("false"))
}

/// The text on one line of at most `max` bytes: everything that could move a cursor, end a line or turn the direction
/// of writing is escaped.
#[must_use]
pub fn line(text: &str, max: usize) -> String {
    let mut line = String::with_capacity(text.len().min(max));
    for c in text.chars() {
        let before = line.len();
        if is_unsafe(c) {
            line.extend(c.escape_default())
        } else {
            line.push(c)
        }
        if line.len() > max {
            line.truncate(before);
            line.push('…');
            break;
        }
    }
    line
}

/// The longest word, in bytes: hashes and digests have 71 at most.
const WORD: usize = 100;

/// A word that a person says in an annotation or an entry, where a hash or a digest is expected: fit for a log, and as good as it was,
/// since what is too long is neither.
#[must_use]
pub fn word(text: &str) -> String {
    line(text, WORD)
}

/// The longest name of a holder of a lease, in bytes: a name of a pod has 253 at most, and 37 follow.
const HOLDER: usize = 300;

/// The holder of a lease, as it calls itself: every client that may write the lease may write any text there.
#[must_use]
pub fn holder(text: &str) -> String {
    line(text, HOLDER)
}

/// What a panic says, on one line and of bounded length.
#[must_use]
pub fn of_panic(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    line(text.unwrap_or("a value that is not text"), 1000)
}

/// The whole text as one word of a shell: within quotes as it is, or with escapes where a terminal would act on it (`$'…'`, POSIX
/// Issue 8, 2.2.4; known to bash, zsh, ksh and busybox).
#[must_use]
pub fn shell_word(text: &str) -> String {
    if !text.chars().any(is_unsafe) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let mut word = "$'".to_owned();
    for c in text.chars() {
        match c {
            '\'' | '\\' => word.extend(['\\', c]),
            // Three digits always: no digit that follows is taken for one of them.
            _ if is_unsafe(c) => {
                word.extend(c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\{byte:03o}")));
            }
            _ => word.push(c),
        }
    }
    word + "'"
}

/// The text, cut to at most `max` bytes and the sign that something is missing.
#[must_use]
pub fn clip(mut text: String, max: usize) -> String {
    if text.len() > max {
        let end = (0..=max).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The text as a whole sentence: with a full stop behind it, unless it ends like a sentence already. What servers and errors say ends
/// in either way.
#[must_use]
pub fn ended(text: &str) -> String {
    let stop = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{text}{stop}")
}

/// Whether a terminal would act on it, or it would be invisible: control characters, what turns the direction of writing,
/// line breaks of any kind, and characters without a width.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_on_unless_it_says_no() {
        for yes in ["true", "True", "yes", "1", "on", "since tuesday"] {
            assert!(says_yes(Some(yes)), "{yes}");
        }
        for no in [None, Some(""), Some(" "), Some("false"), Some("False")] {
            assert!(!says_yes(no), "{no:?}");
        }
    }

    #[test]
    fn a_sentence_ends_once() {
        for (text, whole) in
            [("no", "no."), ("no.", "no."), ("why?", "why?"), ("no!", "no!"), ("(why?)", "(why?)."), ("", ".")]
        {
            assert_eq!(ended(text), whole);
        }
    }

    #[test]
    fn a_line_stays_a_line() {
        assert_eq!(line("a\nb\u{1b}[31m\u{202e}é", 100), "a\\nb\\u{1b}[31m\\u{202e}é");
    }

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        for c in
            ['\u{61c}', '\u{200b}', '\u{200c}', '\u{200d}', '\u{2060}', '\u{feff}', '\u{ad}', '\u{e0041}', '\u{fe0f}']
        {
            assert_eq!(line(&format!("a{c}b"), 100), format!("a{}b", c.escape_default()), "{c:?}");
        }
        for text in ["é ß 漢字 עברית العربية", "e\u{301}", "→…✓"] {
            assert_eq!(line(text, 100), text);
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a real shell judges what is written for one")]
    fn a_shell_makes_of_a_word_what_it_was() {
        for text in ["", "a'b c", "$(id) `id` \\", "a\nb\t'\u{1b}[31m1\u{202e}é\\ 7", "\u{1}1\u{7f}"] {
            let word = shell_word(text);
            assert!(!word.chars().any(is_unsafe), "{word}");
            let said = std::process::Command::new("bash").args(["-c", &format!("printf %s {word}")]).output().unwrap();
            assert_eq!(String::from_utf8(said.stdout).unwrap(), text, "{word}");
        }
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(line("ééé", 5), "éé…");
        assert_eq!(line("abcdef", 5), "abcde…");
        assert_eq!(line("abcde", 5), "abcde");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(clip("ééé".to_owned(), 5), "éé…");
        assert_eq!(clip("a\nb".to_owned(), 3), "a\nb");
        assert_eq!(clip("a\nb".to_owned(), 0), "…");
    }
}
