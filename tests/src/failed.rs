//! Which tests failed and why, from what a test binary prints at its end: `make test` says it last, where a person and the log of
//! a CI look first.

use std::fmt;

/// Lines of one test that are kept, from the panic on.
const LINES: usize = 12;
/// Bytes of one line that are kept.
const WIDTH: usize = 400;

/// A test that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The name of its binary.
    pub binary: String,
    /// Its name.
    pub test: String,
    /// The end of what it printed, or the begin of its panic.
    pub said: Vec<String>,
}

/// Reads the lines of one test binary.
#[derive(Debug)]
pub struct Reader {
    binary: String,
    failed: Vec<Failed>,
    of_test: bool,
    has_panicked: bool,
}

impl Reader {
    /// For the binary of this name.
    #[must_use]
    pub fn new(binary: &str) -> Self {
        Self { binary: binary.to_owned(), failed: Vec::new(), of_test: false, has_panicked: false }
    }

    /// The next line, without its end.
    pub fn line(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----")) {
            self.failed.push(Failed { binary: self.binary.clone(), test: test.to_owned(), said: Vec::new() });
            (self.of_test, self.has_panicked) = (true, false);
            return;
        }
        if line == "failures:" {
            self.of_test = false;
        }
        let Some(Failed { said, .. }) = self.failed.last_mut().filter(|_| self.of_test) else { return };
        if line.is_empty() {
            return;
        }
        if !self.has_panicked {
            self.has_panicked = line.starts_with("thread '") && line.contains(" panicked at ");
            if self.has_panicked {
                said.clear();
            } else if said.len() == LINES {
                said.remove(0);
            }
        }
        if said.len() < LINES {
            said.push(line[..line.floor_char_boundary(WIDTH)].to_owned());
        }
    }

    /// What failed, in the order in which it was printed.
    #[must_use]
    pub fn end(self) -> Vec<Failed> {
        self.failed
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FAILED {} {}", self.binary, self.test)?;
        self.said.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let mut reader = Reader::new("e2e");
        text.lines().for_each(|line| reader.line(line));
        reader.end().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_test_that_failed_is_shown_from_its_panic_on() {
        let text = "\
test a ... ok
test b ... FAILED

failures:

---- b stdout ----
a line of the log

thread 'b' (17) panicked at tests/e2e/b.rs:3:5:
assertion failed: left == right
note: run with `RUST_BACKTRACE=1`

---- c::d stdout ----
Error: no plane

failures:
    b
    c::d

test result: FAILED. 1 passed; 2 failed";
        assert_eq!(
            read(text),
            [
                "FAILED e2e b\n    thread 'b' (17) panicked at tests/e2e/b.rs:3:5:\n    assertion failed: left == right\n    \
                 note: run with `RUST_BACKTRACE=1`",
                "FAILED e2e c::d\n    Error: no plane",
            ]
        );
        assert_eq!(read("test a ... ok\n\ntest result: ok. 1 passed"), [""; 0]);
    }

    /// The end of a log, the begin of a panic, and lines of a width that a terminal can show.
    #[test]
    fn what_a_test_printed_is_bounded() {
        let log: String = (0..50).map(|line| format!("line {line}\n")).collect();
        let shown = read(&format!("---- a stdout ----\n{log}"));
        assert_eq!(shown[0].lines().count(), 1 + LINES);
        assert!(shown[0].ends_with("line 49"), "{shown:?}");
        let panic = "thread 'a' (1) panicked at a.rs:1:1:\n";
        let shown = read(&format!("---- a stdout ----\n{log}{panic}{log}"));
        assert_eq!(shown[0].lines().count(), 1 + LINES);
        assert!(shown[0].contains("panicked") && shown[0].ends_with("line 10"), "{shown:?}");
        let wide = "ä".repeat(WIDTH);
        let shown = read(&format!("---- a stdout ----\n{wide}"));
        assert!(shown[0].len() < 2 * WIDTH, "{shown:?}");
    }
}
