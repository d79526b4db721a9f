//! How long each test took, from what a test binary prints while it runs.
//!
//! libtest prints when a test ends and not when it begins. It begins them in the order of their names, as many at a
//! time as it has threads, and the next one when one has ended: so each beginning is known from the ends before it.

use std::fmt;
use std::time::Duration;

/// A test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its name.
    pub name: String,
    /// When it ended, since the start of the binary.
    pub at: Duration,
}

/// How long a test took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Took {
    /// The name of its binary.
    pub binary: String,
    /// Its name.
    pub test: String,
    /// From its beginning to its end.
    pub time: Duration,
}

/// The name of the test whose result a line has.
#[must_use]
pub fn result(line: &str) -> Option<&str> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let is_result = ["ok", "FAILED", "ignored"].iter().any(|word| result.starts_with(word));
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    is_result.then_some(name)
}

/// How long the tests of a binary took that runs `threads` tests at a time; `ended` is in the order of their ends.
#[must_use]
pub fn times(binary: &str, threads: usize, ended: &[Ended]) -> Vec<Took> {
    let mut names: Vec<&str> = ended.iter().map(|ended| ended.name.as_str()).collect();
    names.sort_unstable();
    ended
        .iter()
        .map(|Ended { name, at }| {
            let place = names.binary_search(&name.as_str()).unwrap_or_default();
            let began =
                place.checked_sub(threads).and_then(|freed| ended.get(freed)).map_or(Duration::ZERO, |it| it.at);
            Took { binary: binary.to_owned(), test: name.clone(), time: at.saturating_sub(began) }
        })
        .collect()
}

/// The slowest tests, the slowest first.
#[must_use]
pub fn slowest(mut all: Vec<Took>, most: usize) -> Vec<Took> {
    all.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.test.cmp(&b.test)));
    all.truncate(most);
    all
}

impl Took {
    /// Reads a line as [`Display`](fmt::Display) writes it.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let time = Duration::try_from_secs_f64(words.next()?.parse().ok()?).ok()?;
        let ("s", binary, test, None) = (words.next()?, words.next()?, words.next()?, words.next()) else {
            return None;
        };
        Some(Self { binary: binary.to_owned(), test: test.to_owned(), time })
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7.2} s  {} {}", self.time.as_secs_f64(), self.binary, self.test)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_results_name_a_test() {
        for (line, wanted) in [
            ("test names::a_name ... ok", Some("names::a_name")),
            ("test a ... FAILED", Some("a")),
            ("test a ... ignored, it needs a disk", Some("a")),
            ("test tests::it_panics - should panic ... ok", Some("tests::it_panics")),
            ("test result: ok. 3 passed; 0 failed", None),
            ("test a has been running for over 60 seconds", None),
            ("running 3 tests", None),
            ("a line of a test ... ok", None),
        ] {
            assert_eq!(result(line), wanted, "{line}");
        }
    }

    /// Two at a time: a and b begin at once, c when b has ended, d when a has.
    #[test]
    fn a_test_begins_when_one_has_ended_before_it() {
        let ended: Vec<Ended> = [("b", 2), ("a", 5), ("c", 6), ("d", 15)]
            .map(|(name, at)| Ended { name: name.to_owned(), at: Duration::from_secs(at) })
            .into();
        let took = times("e2e", 2, &ended);
        let seconds: Vec<_> = took.iter().map(|took| (took.test.as_str(), took.time.as_secs())).collect();
        assert_eq!(seconds, [("b", 2), ("a", 5), ("c", 4), ("d", 10)]);
        let alone: Vec<_> = times("e2e", 1, &ended[2..]).iter().map(|took| took.time.as_secs()).collect();
        assert_eq!(alone, [6, 9]);
        let lines: Vec<_> = slowest(took, 2).iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["  10.00 s  e2e d", "   5.00 s  e2e a"]);
    }

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let took = Took { binary: "core".into(), test: "a::b".into(), time: Duration::from_millis(1250) };
        assert_eq!(Took::parse(&took.to_string()), Some(took));
        for wrong in ["", "1.00 s core", "x s core a", "-1 s core a", "1 m core a", "1 s core a b"] {
            assert_eq!(Took::parse(wrong), None, "{wrong}");
        }
    }
}
