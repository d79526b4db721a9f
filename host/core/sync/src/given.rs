//! A text that cannot be used, as messages show it: escaped, bounded, and with what was probably meant.
//!
//! Owns the one form in which the rooms of lending show what a person wrote into a policy or a binding. It never judges a
//! text. It cannot fail.

use std::fmt;

use topoloom_core::near;
use topoloom_core::text;

/// How many suggestions a message has at most: a longer list is no help.
const MEANT_MAX: usize = 3;

/// What was written where something else is allowed. Prints as `"mon" (did you mean "Monday"?)`: in
/// parentheses, so that a sentence can continue or end behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    text: String,
    meant: Vec<String>,
}

impl Given {
    /// A text without a suggestion.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text::word(text), meant: Vec::new() }
    }

    /// With what was probably meant, the most likely first. What is beyond the third is left out.
    #[must_use]
    pub fn or<'a>(mut self, meant: impl IntoIterator<Item = &'a str>) -> Self {
        let room = MEANT_MAX.saturating_sub(self.meant.len());
        self.meant.extend(meant.into_iter().take(room).map(str::to_owned));
        self
    }

    /// A text in place of one of the known ones, with the one that is nearest to it.
    #[must_use]
    pub fn instead_of<'a>(text: &str, known: impl Iterator<Item = &'a str> + Clone) -> Self {
        Self::new(text).or(near::nearest(text, known))
    }
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.text)?;
        for (index, meant) in self.meant.iter().enumerate() {
            write!(f, "{} \"{meant}\"", if index == 0 { " (did you mean" } else { " or" })?;
        }
        if self.meant.is_empty() { Ok(()) } else { f.write_str("?)") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_text_is_shown_in_quotes_with_at_most_three_suggestions() {
        assert_eq!(Given::new("x").to_string(), "\"x\"");
        assert_eq!(Given::new("").to_string(), "\"\"");
        assert_eq!(Given::new("x").or(["a"]).to_string(), "\"x\" (did you mean \"a\"?)");
        let many = Given::new("x").or(["a", "b"]).or(["c", "d"]);
        assert_eq!(many.to_string(), "\"x\" (did you mean \"a\" or \"b\" or \"c\"?)");
        let near = Given::instead_of("strat", ["calendar", "start"].into_iter());
        assert_eq!(near.to_string(), "\"strat\" (did you mean \"start\"?)");
    }

    #[test]
    fn a_given_text_stays_on_one_short_line() {
        let shown = Given::new(&format!("a\n\u{202e}{}", "b".repeat(100_000))).to_string();
        assert!(shown.starts_with("\"a\\n\\u{202e}b"), "{shown}");
        assert!(shown.len() < 120, "{}", shown.len());
    }
}
