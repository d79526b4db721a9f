//! What a plugin says: lines for the host's log.
//!
//! A line is data of a stranger. It is cut to its length, cannot break out of its line, and there is an end to their
//! number; what is dropped is counted and reported in one line.

use std::collections::VecDeque;
use std::sync::Arc;

use topoloom_core::plugin::CallLimits;

use crate::text;

/// Lines kept for a trap report: a Rust panic is two.
const TAIL: usize = 5;

/// How important a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// The lines of one call.
#[derive(Debug)]
pub(super) struct Voice {
    source: Arc<str>,
    digest: Arc<str>,
    call: u64,
    max_lines: usize,
    max_line: usize,
    lines: usize,
    dropped: usize,
    tail: VecDeque<String>,
}

impl Voice {
    pub(super) fn new(source: Arc<str>, digest: Arc<str>, call: u64, limits: &CallLimits) -> Self {
        let (max_lines, max_line) = (limits.log_lines, limits.log_line);
        Self { source, digest, call, max_lines, max_line, lines: 0, dropped: 0, tail: VecDeque::new() }
    }

    /// One line. Dropped when the plugin has had its say; the tail keeps it, since the last words matter most.
    pub(super) fn say(&mut self, level: Level, message: &str) {
        let line = text::line(message, self.max_line);
        if self.lines < self.max_lines {
            self.lines += 1;
            let (source, digest, call) = (&*self.source, &*self.digest, self.call);
            match level {
                Level::Debug => tracing::debug!(source, digest, call, line, "plugin says"),
                Level::Info => tracing::info!(source, digest, call, line, "plugin says"),
                Level::Warn => tracing::warn!(source, digest, call, line, "plugin says"),
                Level::Error => tracing::error!(source, digest, call, line, "plugin says"),
            }
        } else {
            self.dropped += 1;
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// The call is over: says how much was dropped. Returns lines written and dropped.
    pub(super) fn end(&self) -> (usize, usize) {
        if self.dropped > 0 {
            let (source, digest, call) = (&*self.source, &*self.digest, self.call);
            tracing::warn!(source, digest, call, dropped = self.dropped, "plugin says more than it may");
        }
        (self.lines, self.dropped)
    }

    /// The last lines, oldest first.
    pub(super) fn tail(&self) -> Vec<String> {
        self.tail.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted_and_the_last_words_kept() {
        let limits = CallLimits { log_lines: 2, ..CallLimits::default() };
        let mut voice = Voice::new("s".into(), "d".into(), 1, &limits);
        for i in 0..10 {
            voice.say(Level::Info, &format!("line {i}"));
        }
        assert_eq!(voice.end(), (2, 8));
        assert_eq!(voice.tail(), ["line 5", "line 6", "line 7", "line 8", "line 9"]);
    }
}
