//! What a plugin says: lines for the host's log.
//!
//! A line is data of a stranger. It is cut to its length, cannot break out of its line, and there is an end to their
//! number; what is dropped is counted and reported in one line.

use std::collections::VecDeque;
use std::sync::Arc;

use topoloom_core::names::SourceName;
use topoloom_core::plugin::{CallLimits, Limit, LimitSet};

use topoloom_core::text;

/// Lines kept for a trap report: a Rust panic is two.
const TAIL: usize = 5;

/// How a line ends that was cut.
const CUT: char = '…';

/// How important a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// The lines of one call.
#[derive(Debug)]
pub(super) struct Voice {
    speaker: Speaker,
    max_lines: usize,
    max_line: usize,
    lines: usize,
    dropped: usize,
    met: LimitSet,
    tail: VecDeque<String>,
}

/// Under which name a call logs.
#[derive(Debug, Clone)]
pub(super) struct Speaker {
    /// The source that asked.
    pub(super) source: SourceName,
    /// What the plugin calls itself.
    pub(super) plugin: Arc<str>,
    /// Its short digest.
    pub(super) digest: Arc<str>,
    /// The number of the call in this process.
    pub(super) call: u64,
}

impl Voice {
    pub(super) fn new(speaker: Speaker, limits: &CallLimits) -> Self {
        let (max_lines, max_line) = (limits.log_lines, limits.log_line);
        Self { speaker, max_lines, max_line, lines: 0, dropped: 0, met: LimitSet::default(), tail: VecDeque::new() }
    }

    /// One line. Dropped when the plugin has had its say; the tail keeps it, since the last words matter most.
    pub(super) fn log(&mut self, level: LineLevel, message: &str) {
        let line = text::line(message, self.max_line);
        if line.ends_with(CUT) && !message.ends_with(CUT) {
            self.met.insert(Limit::LogLine);
        }
        if self.lines < self.max_lines {
            self.lines += 1;
            let Speaker { source, plugin, digest, call } = &self.speaker;
            let (source, plugin, digest, call) = (&**source, &**plugin, &**digest, *call);
            match level {
                LineLevel::Debug => tracing::debug!(source, plugin, digest, call, line, "log line of the plugin"),
                LineLevel::Info => tracing::info!(source, plugin, digest, call, line, "log line of the plugin"),
                LineLevel::Warn => tracing::warn!(source, plugin, digest, call, line, "log line of the plugin"),
                LineLevel::Error => tracing::error!(source, plugin, digest, call, line, "log line of the plugin"),
            }
        } else {
            self.dropped += 1;
            self.met.insert(Limit::LogLines);
        }
        if self.tail.len() == TAIL {
            self.tail.pop_front();
        }
        self.tail.push_back(line);
    }

    /// The call is over: says how much was dropped. Returns lines written and dropped.
    pub(super) fn end(&self) -> (usize, usize) {
        if self.dropped > 0 {
            let Speaker { source, plugin, digest, call } = &self.speaker;
            let (source, plugin, digest) = (&**source, &**plugin, &**digest);
            tracing::warn!(source, plugin, digest, call, dropped = self.dropped, "the plugin logs more than its limit");
        }
        (self.lines, self.dropped)
    }

    /// The limits that acted.
    pub(super) fn met(&self) -> LimitSet {
        self.met
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
        let mut voice = Voice::new(speaker(), &limits);
        for i in 0..10 {
            voice.log(LineLevel::Info, &format!("line {i}"));
        }
        assert_eq!(voice.end(), (2, 8));
        assert_eq!(voice.tail(), ["line 5", "line 6", "line 7", "line 8", "line 9"]);
        assert_eq!(voice.met().iter().collect::<Vec<_>>(), [Limit::LogLines]);
    }

    #[test]
    fn a_line_that_was_cut_is_noticed() {
        let mut voice = Voice::new(speaker(), &CallLimits { log_line: 10, ..CallLimits::default() });
        voice.log(LineLevel::Info, "0123456789");
        assert_eq!(voice.met(), LimitSet::default());
        voice.log(LineLevel::Info, "01234567890");
        assert_eq!(voice.met().iter().collect::<Vec<_>>(), [Limit::LogLine]);
    }

    fn speaker() -> Speaker {
        Speaker { source: "s".parse().unwrap(), plugin: "p".into(), digest: "d".into(), call: 1 }
    }
}
