//! Two answers as text, and the first lines in which they differ. Pure.

use std::collections::BTreeMap;
use std::fmt;

/// Characters of a line that are shown where it differs, and how many of them stand before that place: groups have many
/// members, and a terminal has 200 columns at most.
const SHOWN: usize = 160;
const BEFORE: usize = 60;

/// How an answer is different from what was expected: the first line that is on one side only, of each side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What was expected and is not there.
    pub expected: Option<String>,
    /// What is there and was not expected.
    pub found: Option<String>,
    /// How many more lines are on one side only.
    pub more: usize,
}

impl Difference {
    /// Compares two texts by their lines, whose order does not count: both are sorted where it could.
    #[must_use]
    pub fn of(expected: &str, found: &str) -> Option<Self> {
        // How much more often a line is on the left than on the right.
        let mut lines: BTreeMap<&str, i64> = BTreeMap::new();
        for line in expected.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            *lines.entry(line).or_default() += 1;
        }
        for line in found.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            *lines.entry(line).or_default() -= 1;
        }
        let only = |is_it: fn(i64) -> bool| {
            let lines = lines.iter().filter(move |(_, count)| is_it(**count));
            lines.map(|(line, _)| (*line).to_owned()).collect::<Vec<_>>()
        };
        let (lost, new) = (only(|count| count > 0), only(|count| count < 0));
        let total = lost.len() + new.len();
        if total == 0 {
            return None;
        }
        let (expected, found) = pair(lost, new);
        let shown = usize::from(expected.is_some()) + usize::from(found.is_some());
        Some(Self { expected, found, more: total - shown })
    }
}

/// The first line of each side; where a line of the other side is about the same group, that one.
fn pair(lost: Vec<String>, new: Vec<String>) -> (Option<String>, Option<String>) {
    let Some(first) = lost.into_iter().next() else { return (None, new.into_iter().next()) };
    let about = |line: &str| line.split('|').nth(1).map(|id| id.trim().to_owned());
    let at = new.iter().position(|line| about(line).is_some() && about(line) == about(&first)).unwrap_or(0);
    let found = new.into_iter().nth(at);
    (Some(first), found)
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = match (&self.expected, &self.found) {
            (Some(expected), Some(found)) => expected.chars().zip(found.chars()).take_while(|(a, b)| a == b).count(),
            _ => 0,
        };
        let line = |sign: &str, line: Option<&String>| match line {
            Some(line) => format!("{sign} {}", around(line, from)),
            None => format!("{sign} (nothing)"),
        };
        write!(f, "{}\n{}", line("-", self.expected.as_ref()), line("+", self.found.as_ref()))?;
        match self.more {
            0 => Ok(()),
            1 => f.write_str("\nand 1 more line"),
            more => write!(f, "\nand {more} more lines"),
        }
    }
}

/// The line, or what is around this place of it if it is too long.
fn around(line: &str, at: usize) -> String {
    let length = line.chars().count();
    if length <= SHOWN {
        return line.to_owned();
    }
    let from = at.saturating_sub(BEFORE).min(length - SHOWN);
    let (head, tail) = (if from == 0 { "" } else { "…" }, if from + SHOWN < length { "…" } else { "" });
    let shown: String = line.chars().skip(from).take(SHOWN).collect();
    format!("{head}{shown}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(expected: &str, found: &str) -> String {
        Difference::of(expected, found).map(|difference| difference.to_string()).unwrap_or_default()
    }

    #[test]
    fn what_is_the_same_up_to_order_and_white_space_is_no_difference() {
        assert_eq!(text("a\nb\n", "b\na\n"), "");
        assert_eq!(text("a\n\nb  \n", "a\nb"), "");
        assert_eq!(text("", ""), "");
    }

    #[test]
    fn a_difference_prints_both_lines_about_one_group() {
        let (old, new) =
            ("tier 1 r | a | x | m1\ntier 1 r | b | x | m2\n", "tier 1 r | 0 | x | m9\ntier 1 r | a | x | m1 m2\n");
        assert_eq!(text(old, new), "- tier 1 r | a | x | m1\n+ tier 1 r | a | x | m1 m2\nand 2 more lines");
        assert_eq!(text("a\n", ""), "- a\n+ (nothing)");
        assert_eq!(text("", "a\na\n"), "- (nothing)\n+ a");
    }

    #[test]
    fn of_a_long_line_the_place_that_differs_is_shown() {
        let members: String = (0..200).map(|i| format!(" m{i:03}")).collect();
        let said = text(&format!("g |{members}"), &format!("g |{}", members.replace("m150", "m999")));
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].contains("m150") && lines[1].contains("m999"), "{said}");
        assert!(lines.iter().all(|line| line.chars().count() <= SHOWN + 4 && line.contains('…')), "{said}");
    }
}
