//! Why a request has no answer, in words for the plugin and for metrics.

use std::fmt;
use std::time::Duration;

use topoloom_core::plugin::Method;

/// What was not granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Denial {
    /// No such endpoint.
    Endpoint,
    /// The method.
    Method,
    /// The path.
    Path,
    /// A header.
    Header,
    /// A body where none belongs.
    Body,
    /// The address behind the name.
    Address,
    /// More answers open at one time than a plugin may have.
    Connections,
    /// The credential that the endpoint needs is not there.
    Credential,
}

impl Denial {
    pub(super) const ALL: [Self; 8] = [
        Self::Endpoint,
        Self::Method,
        Self::Path,
        Self::Header,
        Self::Body,
        Self::Address,
        Self::Connections,
        Self::Credential,
    ];

    /// Of its word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|denial| denial.word() == word)
    }

    /// The word for metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Endpoint => "endpoint",
            Self::Method => "method",
            Self::Path => "path",
            Self::Header => "header",
            Self::Body => "body",
            Self::Address => "address",
            Self::Connections => "connections",
            Self::Credential => "credential",
        }
    }
}

/// Why a request has no answer, or an answer no end. No variant carries a header or a body of a server, or anything of a
/// Secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not granted.
    #[error("{message}")]
    Denied {
        /// What.
        denial: Denial,
        /// The sentence.
        message: String,
    },
    /// No connection: name, route, refused, TLS.
    #[error("{0}")]
    Connect(String),
    /// A connection that ended before it said anything.
    #[error("{0}")]
    Closed(String),
    /// A time limit.
    #[error("{what} took longer than {limit:?}")]
    Timeout {
        /// What took so long.
        what: Wait,
        /// How long it may take.
        limit: Duration,
    },
    /// A size limit.
    #[error("{0}")]
    TooLarge(String),
    /// The other side does not speak HTTP, or stopped in the middle.
    #[error("{0}")]
    Protocol(String),
}

/// What a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Name, TCP and TLS.
    Connection,
    /// The first byte of the answer.
    FirstByte,
    /// The last byte of the answer.
    Body,
}

impl Wait {
    pub(super) const ALL: [Self; 3] = [Self::Connection, Self::FirstByte, Self::Body];

    /// The word for recordings: that of the entry's `timeouts`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Connection => "connect",
            Self::FirstByte => "firstByte",
            Self::Body => "total",
        }
    }

    /// Of its word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wait| wait.word() == word)
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connection => "the connection",
            Self::FirstByte => "the first byte of the answer",
            Self::Body => "the answer up to its last byte",
        })
    }
}

impl Error {
    /// A refusal.
    #[must_use]
    pub fn denied(denial: Denial, message: impl Into<String>) -> Self {
        Self::Denied { denial, message: message.into() }
    }

    /// The word for metrics.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Denied { .. } => "denied",
            Self::Connect(_) | Self::Closed(_) => "connect",
            Self::Timeout { .. } => "timeout",
            Self::TooLarge(_) => "too-large",
            Self::Protocol(_) => "protocol",
        }
    }

    /// Whether another server of the same pair may do better. What may have reached this one is not sent twice, unless it
    /// only asks.
    #[must_use]
    pub fn passes_to_the_next(&self, method: Method) -> bool {
        let only_asks = matches!(method, Method::Get | Method::Head);
        match self {
            Self::Connect(_) | Self::Timeout { what: Wait::Connection, .. } => true,
            Self::Closed(_) | Self::Timeout { what: Wait::FirstByte, .. } => only_asks,
            _ => false,
        }
    }
}
