//! How a call ends without an answer.

use std::fmt;
use std::time::Duration;

use super::imports::ImportSet;
use super::model::{Failure, Problem};
use crate::limits::{Limit, LimitSet};
use crate::rules::form::Malformed;

/// Why a call has no answer. Printing it prints the whole error chain, once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The discoverer reports why.
    #[error(transparent)]
    Failure(Failure),
    /// `configure` found mistakes.
    #[error("the configuration has {}: {}", mistakes(.0.len()), join(.0))]
    InvalidConfig(Vec<Problem>),
    /// The guest crashed.
    #[error("the plugin crashed ({kind}): {report}{}", advice(kind.limit()))]
    Trap {
        /// What the engine reported.
        kind: TrapKind,
        /// Where, and the last log lines of the plugin.
        report: Box<TrapReport>,
    },
    /// The guest computed for longer than it may.
    #[error("the plugin used more processor time than its limit of {limit:?}{}{}", report.place(), advice(Some(*row)))]
    CpuDeadline {
        /// Which budget it was.
        row: Limit,
        /// Guest time used, waiting not counted.
        used: Duration,
        /// The limit.
        limit: Duration,
        /// What it was doing.
        report: Box<TrapReport>,
    },
    /// The call took longer than it may, waiting included.
    #[error("the call did not end within its limit of {limit:?}{}{}", report.last_line(), advice(Some(Limit::Wall)))]
    WallClock {
        /// Guest time used.
        used: Duration,
        /// The limit.
        limit: Duration,
        /// Its last log lines. A call that exceeds its elapsed time has no place in the code.
        report: Box<TrapReport>,
    },
    /// The guest asked for more memory than it may have and gave up.
    #[error(
        "the plugin needs more than {limit} bytes of memory (it asked for {asked}): {report}{}",
        advice(Some(Limit::Memory))
    )]
    OutOfMemory {
        /// The limit on all memories together.
        limit: usize,
        /// The sum that it asked for.
        asked: usize,
        /// Where.
        report: Box<TrapReport>,
    },
    /// The guest ran into a limit on something other than memory and time.
    #[error("the plugin exceeded a limit: {what}{}{}", report.place(), advice(Some(*row)))]
    LimitExceeded {
        /// Which.
        row: Limit,
        /// Which limit, with both numbers.
        what: String,
        /// Where; without functions if the answer exceeds the limit.
        report: Box<TrapReport>,
    },
    /// What the guest sent is larger than it may be.
    #[error("{what} is larger than {limit} bytes{}{}", report.place(), advice(Some(what.limit())))]
    TooLarge {
        /// What.
        what: Transfer,
        /// The limit.
        limit: usize,
        /// Where; without functions if the answer is too large.
        report: Box<TrapReport>,
    },
    /// The answer does not have the form that the interface requires.
    #[error("the answer is not valid: {0}")]
    InvalidResult(String),
    /// The plugin could not be started although it was loaded.
    #[error("the plugin could not be started: {0}")]
    Start(String),
    /// The host's own fault: a bug. The call is over, the host continues.
    #[error("the host failed while it ran the plugin: {0}")]
    Host(String),
}

impl From<Malformed> for CallError {
    fn from(malformed: Malformed) -> Self {
        match malformed {
            Malformed::TooMuch { bound, what } => {
                Self::LimitExceeded { row: Limit::bounding(bound), what, report: Box::default() }
            }
            Malformed::State { limit } => Self::TooLarge { what: Transfer::State, limit, report: Box::default() },
            Malformed::Invalid(what) => Self::InvalidResult(what),
        }
    }
}

/// The end of a sentence about a limit: what an operator can do.
fn advice(limit: Option<Limit>) -> String {
    limit.map(Limit::advice).unwrap_or_default()
}

/// What was too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfer {
    /// The arguments of one host call, or the answer.
    Message,
    /// The state of an answer.
    State,
}

impl Transfer {
    /// The row of the table.
    #[must_use]
    pub const fn limit(self) -> Limit {
        match self {
            Self::Message => Limit::Transfer,
            Self::State => Limit::State,
        }
    }
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message => "what the plugin sent in one piece",
            Self::State => "the state of the answer",
        })
    }
}

/// What kind of crash it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrapKind {
    /// `unreachable`: a panic or an abort.
    Unreachable,
    /// Access outside its memory. A Rust guest that recurses too deep runs into this first.
    Memory,
    /// The engine's stack is full.
    Stack,
    /// Arithmetic: division by zero, overflow, bad conversion.
    Arithmetic,
    /// A call through a table that leads nowhere.
    Table,
    /// A rule of the component model was broken: bad pointer, bad string, bad handle.
    Abi,
    /// Anything else.
    Other,
}

impl TrapKind {
    /// The row of the table, for a crash by a limit.
    #[must_use]
    pub const fn limit(self) -> Option<Limit> {
        match self {
            Self::Stack => Some(Limit::Stack),
            _ => None,
        }
    }

    /// The word for logs and sentences.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Memory => "memory",
            Self::Stack => "stack",
            Self::Arithmetic => "arithmetic",
            Self::Table => "table",
            Self::Abi => "abi",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for TrapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// How many functions a sentence about a crash names.
const SHOWN_FRAMES: usize = 3;

/// What is known about a guest that stopped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrapReport {
    /// The cause: the innermost message of the error chain.
    pub message: String,
    /// Guest functions, innermost first, at most 20.
    pub frames: Vec<String>,
    /// The last lines that the plugin wrote, oldest first, at most 5: a Rust panic arrives this way.
    pub log_tail: Vec<String>,
    /// How much of its budget it used.
    pub spent: Spent,
}

/// What a guest had used when it stopped, and what it was allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// Time in which it computed.
    pub cpu: Duration,
    /// The limit on that.
    pub cpu_limit: Duration,
    /// The most memory that it held, bytes.
    pub peak_memory: usize,
    /// The limit on that.
    pub memory_limit: usize,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cpu_limit, peak_memory, memory_limit } = self;
        write!(
            f,
            "it had used {} ms of {} of processor time and at most {} KiB of {} of memory",
            cpu.as_millis(),
            cpu_limit.as_millis(),
            peak_memory >> 10,
            memory_limit >> 10
        )
    }
}

impl TrapReport {
    /// The innermost functions, as the end of a sentence.
    fn place(&self) -> String {
        let shown = self.frames.get(..SHOWN_FRAMES).unwrap_or(&self.frames);
        if shown.is_empty() { String::new() } else { format!("; in {}", shown.join(" < ")) }
    }

    /// The plugin's last log line, as the end of a sentence.
    fn last_line(&self) -> String {
        self.log_tail.last().map(|last| format!("; its last log line: {last}")).unwrap_or_default()
    }
}

impl fmt::Display for TrapReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The last log line helps the plugin's author most; of the functions, the innermost are enough for a sentence.
        if let Some(last) = self.log_tail.last() {
            write!(f, "its last log line: {last}; ")?;
        }
        f.write_str(&self.message)?;
        f.write_str(&self.place())?;
        if self.spent != Spent::default() {
            write!(f, "; {}", self.spent)?;
        }
        Ok(())
    }
}

/// Whether another try can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// The cause may pass by itself: try again with the usual pauses, not before the given time if there is one.
    Later(Option<Duration>),
    /// A person has to act outside the cluster first: more tries than usual would not help.
    AtInterval,
    /// The same inputs end the same way: try again only with other bytes, configuration, grants or nodes.
    OnChange,
}

impl CallError {
    /// The word for conditions, events and metric labels.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Failure(Failure::Config(_)) => "ConfigFailure",
            Self::Failure(Failure::Denied(_)) => "Denied",
            Self::Failure(Failure::Credentials(_)) => "CredentialsMissing",
            Self::Failure(Failure::Unauthorized(_)) => "Unauthorized",
            Self::Failure(Failure::Upstream { .. }) => "Upstream",
            Self::Failure(Failure::Internal(_)) => "PluginFault",
            Self::InvalidConfig(_) => "InvalidConfig",
            Self::Trap { .. } => "Trap",
            Self::CpuDeadline { .. } => "CpuDeadline",
            Self::WallClock { .. } => "Timeout",
            Self::OutOfMemory { .. } => "OutOfMemory",
            Self::LimitExceeded { .. } => "LimitExceeded",
            Self::TooLarge { .. } => "TooLarge",
            Self::InvalidResult(_) => "InvalidResult",
            Self::Start(_) => "StartFailed",
            Self::Host(_) => "HostFault",
        }
    }

    /// The word for metrics, from a closed set: coarser than [`Self::reason`].
    #[must_use]
    pub const fn outcome(&self) -> &'static str {
        match self {
            Self::Failure(Failure::Config(_)) | Self::InvalidConfig(_) => "config",
            Self::Failure(Failure::Denied(_) | Failure::Credentials(_) | Failure::Unauthorized(_)) => "denied",
            Self::Failure(Failure::Upstream { .. }) => "upstream",
            Self::Failure(Failure::Internal(_)) => "fault",
            Self::Trap { .. } => "trap",
            Self::CpuDeadline { .. } | Self::WallClock { .. } => "timeout",
            Self::OutOfMemory { .. } => "memory",
            Self::LimitExceeded { .. } | Self::TooLarge { .. } => "limit",
            Self::InvalidResult(_) => "invalid-result",
            Self::Start(_) | Self::Host(_) => "host",
        }
    }

    /// The row of the table that ended the call, if one did.
    #[must_use]
    pub const fn limit(&self) -> Option<Limit> {
        match self {
            Self::CpuDeadline { row, .. } | Self::LimitExceeded { row, .. } => Some(*row),
            Self::WallClock { .. } => Some(Limit::Wall),
            Self::OutOfMemory { .. } => Some(Limit::Memory),
            Self::TooLarge { what, .. } => Some(what.limit()),
            Self::Trap { kind, .. } => kind.limit(),
            Self::Failure(_) | Self::InvalidConfig(_) | Self::InvalidResult(_) | Self::Start(_) | Self::Host(_) => None,
        }
    }

    /// Why the host stopped the guest before its end, in one word; `None` when the guest ended by itself.
    #[must_use]
    pub const fn stopped_by(&self) -> Option<&'static str> {
        match self {
            Self::CpuDeadline { .. } => Some("interrupt"),
            Self::WallClock { .. } => Some("clock"),
            Self::OutOfMemory { .. } => Some("memory"),
            Self::LimitExceeded { .. } | Self::TooLarge { .. } => Some("host-refused"),
            Self::Trap { kind, .. } => Some(kind.word()),
            Self::Failure(_) | Self::InvalidConfig(_) | Self::InvalidResult(_) | Self::Start(_) | Self::Host(_) => None,
        }
    }

    /// What is known about a guest that was stopped.
    #[must_use]
    pub fn report(&self) -> Option<&TrapReport> {
        match self {
            Self::Trap { report, .. }
            | Self::CpuDeadline { report, .. }
            | Self::WallClock { report, .. }
            | Self::OutOfMemory { report, .. }
            | Self::LimitExceeded { report, .. }
            | Self::TooLarge { report, .. } => Some(report),
            Self::Failure(_) | Self::InvalidConfig(_) | Self::InvalidResult(_) | Self::Start(_) | Self::Host(_) => None,
        }
    }

    /// Adds the report about the guest to an error about an answer that was found too large after the guest had ended.
    #[must_use]
    pub fn reported(mut self, known: impl FnOnce() -> Box<TrapReport>) -> Self {
        if let Self::LimitExceeded { report, .. } | Self::TooLarge { report, .. } = &mut self
            && **report == TrapReport::default()
        {
            *report = known();
        }
        self
    }

    /// Whether another try can help. A discoverer is a function of its inputs, but those include the services behind
    /// its endpoints and the load of this machine. An error is final only if the configuration alone decides it.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match self {
            Self::Failure(Failure::Config(_)) | Self::InvalidConfig(_) => Retry::OnChange,
            // A locked account is worse than a late topology.
            Self::Failure(Failure::Unauthorized(_) | Failure::Credentials(_)) => Retry::AtInterval,
            Self::Failure(Failure::Upstream { retry_after, .. }) => Retry::Later(*retry_after),
            // The address may be what is denied, and the name may resolve to another one later.
            Self::Failure(Failure::Denied(_) | Failure::Internal(_))
            | Self::Trap { .. }
            | Self::CpuDeadline { .. }
            | Self::WallClock { .. }
            | Self::OutOfMemory { .. }
            | Self::LimitExceeded { .. }
            | Self::TooLarge { .. }
            | Self::InvalidResult(_)
            | Self::Start(_)
            | Self::Host(_) => Retry::Later(None),
        }
    }

    /// Whether the plugin is at fault, and not its configuration or its environment: only such errors count against it.
    #[must_use]
    pub fn is_fault_of_plugin(&self) -> bool {
        match self {
            Self::Failure(Failure::Internal(_)) => true,
            Self::Failure(_) | Self::InvalidConfig(_) | Self::Host(_) => false,
            // Other calls held the memory, or the operator allows less to all calls than to this one.
            Self::LimitExceeded { row: Limit::ProcessMemory, .. } => false,
            _ => true,
        }
    }
}

/// What one call used, however it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Time until the call started.
    pub queued: Duration,
    /// Elapsed time from its start to its end.
    pub wall: Duration,
    /// Time in which the guest computed.
    pub cpu: Duration,
    /// The most memory that the guest held, bytes.
    pub peak_memory: usize,
    /// Log lines written.
    pub log_lines: usize,
    /// Log lines beyond the limit, not written.
    pub log_dropped: usize,
    /// Bytes that the host gave to the guest.
    pub received: usize,
    /// Bytes that the guest gave to the host, log lines included.
    pub sent: usize,
    /// HTTP requests.
    pub requests: usize,
    /// Limits that took effect without ending the call: it had to wait for its start, or lost log lines.
    pub met: LimitSet,
    /// Functions of the host that the guest called.
    pub called: ImportSet,
}

fn mistakes(count: usize) -> String {
    if count == 1 { "a mistake".to_owned() } else { format!("{count} mistakes") }
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_malformed_answer_has_the_words_that_its_author_read_in_a_test() {
        let what = || "it has 2 groups and may have 1".to_owned();
        for malformed in [
            Malformed::TooMuch { bound: crate::rules::bounds::Bound::Groups, what: what() },
            Malformed::State { limit: 7 },
            Malformed::Invalid(what()),
        ] {
            assert_eq!(CallError::from(malformed.clone()).to_string(), malformed.to_string());
        }
    }

    #[test]
    fn each_failure_has_its_pause() {
        let said = String::new;
        let asked = Some(Duration::from_secs(70));
        for (failure, retry) in [
            (Failure::Upstream { message: said(), retry_after: asked }, Retry::Later(asked)),
            (Failure::Upstream { message: said(), retry_after: None }, Retry::Later(None)),
            (Failure::Unauthorized(said()), Retry::AtInterval),
            (Failure::Credentials(said()), Retry::AtInterval),
            (Failure::Denied(said()), Retry::Later(None)),
            (Failure::Internal(said()), Retry::Later(None)),
            (Failure::Config(said()), Retry::OnChange),
        ] {
            let error = CallError::Failure(failure);
            assert_eq!(error.retry(), retry, "{error:?}");
        }
        assert_eq!(CallError::InvalidConfig(Vec::new()).retry(), Retry::OnChange);
        assert_eq!(CallError::InvalidResult(said()).retry(), Retry::Later(None));
        assert_eq!(CallError::Host(said()).retry(), Retry::Later(None));
    }
}
