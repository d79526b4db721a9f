//! What a plugin says: lines for the host's log.
//!
//! A line is data of a stranger. It is cut to its length, cannot break out of its line, and there is an end to their
//! number; what is dropped is counted and reported in one line. At a desk a caller may want the lines themselves
//! ([`LogLines`]): then the host's log has none of them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use topoloom_core::names::SourceName;
use topoloom_core::plugin::{CallLimits, Limit, LimitSet};

use topoloom_core::text;

/// Lines kept for a trap report: a Rust panic is two.
const TAIL: usize = 5;

/// How a line ends that was cut.
const CUT: char = '…';

/// How important a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineLevel {
    /// For the author.
    Debug,
    /// What happens.
    Info,
    /// What a person may have to look at.
    Warn,
    /// What went wrong.
    Error,
}

impl LineLevel {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// One line, as a log may show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How important the plugin calls it.
    pub level: LineLevel,
    /// The text: cut to its length, without control characters.
    pub text: String,
}

/// Where the lines of calls are written, in place of the host's log. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct LogLines(Arc<Mutex<Vec<LogLine>>>);

impl LogLines {
    /// The lines since they were last taken.
    #[must_use]
    pub fn take(&self) -> Vec<LogLine> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, line: LogLine) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
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
    /// Who wants the lines, in place of the log.
    pub(super) lines: Option<LogLines>,
}

impl Speaker {
    fn write(&self, level: LineLevel, line: &str) {
        let Self { source, plugin, digest, call, lines } = self;
        if let Some(lines) = lines {
            lines.push(LogLine { level, text: line.to_owned() });
            return;
        }
        let (source, plugin, digest, call) = (&**source, &**plugin, &**digest, *call);
        match level {
            LineLevel::Debug => tracing::debug!(source, plugin, digest, call, line, "log line of the plugin"),
            LineLevel::Info => tracing::info!(source, plugin, digest, call, line, "log line of the plugin"),
            LineLevel::Warn => tracing::warn!(source, plugin, digest, call, line, "log line of the plugin"),
            LineLevel::Error => tracing::error!(source, plugin, digest, call, line, "log line of the plugin"),
        }
    }
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
            self.speaker.write(level, &line);
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
        if self.dropped > 0 && self.speaker.lines.is_none() {
            let Speaker { source, plugin, digest, call, .. } = &self.speaker;
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

    #[test]
    fn a_caller_that_wants_the_lines_gets_those_that_a_log_would_have() {
        let lines = LogLines::default();
        let speaker = Speaker { lines: Some(lines.clone()), ..speaker() };
        let mut voice = Voice::new(speaker, &CallLimits { log_lines: 2, ..CallLimits::default() });
        for said in ["one\ntwo", "three", "four"] {
            voice.log(LineLevel::Warn, said);
        }
        assert_eq!(voice.end(), (2, 1));
        let taken = lines.take();
        assert_eq!(taken.iter().map(|line| line.level.as_str()).collect::<Vec<_>>(), ["warn", "warn"]);
        assert!(!taken[0].text.contains('\n') && taken[1].text == "three", "{taken:?}");
        assert_eq!(lines.take(), []);
    }

    fn speaker() -> Speaker {
        Speaker { source: "s".parse().unwrap(), plugin: "p".into(), digest: "d".into(), call: 1, lines: None }
    }
}
