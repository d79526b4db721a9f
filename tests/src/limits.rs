//! The tables of limits in the documentation, made from the one in the code.

use std::fmt::Write;

use topoloom_core::plugin::{Limit, LimitSetting};

/// The mark before a generated table.
const BEGIN: &str = "<!-- limits: written by `xtask generate` -->";
/// The mark after it.
const END: &str = "<!-- /limits -->";

/// The readers of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Operators: what they may set, and what a refusal can be about.
    Operator,
    /// Authors: what their plugin has to live with.
    Author,
}

/// The text with its table replaced by the present one; none if it has no place for a table.
#[must_use]
pub fn renewed(text: &str, reader: Reader) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    // Without the blank line, the table would be read as part of the comment.
    Some(format!("{before}{BEGIN}\n\n{}\n{END}{after}", table(reader)))
}

fn table(reader: Reader) -> String {
    let mut text = String::from(match reader {
        Reader::Operator => {
            "| limit | default | `large` | key of `limits` | range |\n| --- | --- | --- | --- | --- |\n"
        }
        Reader::Author => "| limit | default | `large` |\n| --- | --- | --- |\n",
    });
    for limit in Limit::ALL {
        let row = limit.row();
        let (standard, large) = (row.standard, row.large);
        let large = if standard == large { String::new() } else { large.to_string() };
        let meaning = row.meaning.trim().trim_end_matches('.');
        let _ = write!(text, "| {meaning} (`{}`) | {standard} | {large} |", row.word);
        if reader == Reader::Operator {
            let (key, range) = match row.setting {
                LimitSetting::Entry { key, low, high } => (format!("`{key}`"), format!("{low} to {high}")),
                LimitSetting::Host { flag, low, high } => (format!("(host: `{flag}`)"), format!("{low} to {high}")),
                LimitSetting::Endpoint { key } => (format!("`{key}` of the endpoint"), String::new()),
                LimitSetting::With(other) => (format!("`{}`", other.key().unwrap_or_default()), String::new()),
                LimitSetting::Fixed => (String::new(), String::new()),
            };
            let _ = write!(text, " {key} | {range} |");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let text = format!("before\n{BEGIN}\nan older table\n{END}\nafter\n");
        let new = renewed(&text, Reader::Operator).unwrap();
        assert!(new.starts_with("before\n") && new.ends_with("\nafter\n") && !new.contains("older"), "{new}");
        assert!(new.contains("(`memory`) | 256Mi |  | `memory` | 1Mi to 4Gi |"), "{new}");
        assert_eq!(renewed(&new, Reader::Operator).as_ref(), Some(&new));
        assert_eq!(renewed("no marks", Reader::Author), None);
    }
}
