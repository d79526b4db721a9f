//! What can be wrong with a fabric manager, by switch.
//!
//! Owns the list of faults, their words and where they act. `server` carries them out. A fault is about a connection (it
//! acts before a request is read) or about an answer (it acts on the paths of its rule).

mod board;
mod rule;
mod text;

pub(crate) use board::Board;
pub use rule::FaultRule;
pub use text::FaultHelp;
use text::HELP;

use std::time::Duration;

/// One thing that is wrong. Written as in [`Fault::all`], such as `status:429:30`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The answer begins only after this time.
    SlowHeaders(Duration),
    /// The body arrives one byte at a time, with this pause after each.
    Drip(Duration),
    /// The headers arrive, the body never does.
    StallAfterHeaders,
    /// Half of the body arrives, the rest never does.
    StallInBody,
    /// This status instead of an answer.
    Status {
        /// The status.
        code: u16,
        /// Seconds of a `Retry-After`.
        retry_after: Option<u32>,
    },
    /// A login page with status 200.
    Html,
    /// A redirect to this target.
    Redirect(String),
    /// Half of the body, ended as if it were whole.
    Truncated,
    /// Half of the body, then the connection breaks.
    Reset,
    /// Of a hundred records so many have wrong types in needed fields.
    WrongTypes(u8),
    /// Of a hundred records so many have numbers that JSON does not know.
    NotNumbers(u8),
    /// Of a hundred records so many are in the list twice.
    Twice(u8),
    /// A well-formed list of nothing.
    EmptyList,
    /// A well-formed list of the first half.
    HalfList,
    /// The body `{}`.
    EmptyObject,
    /// The right body under the type of another.
    WrongContentType,
    /// A list that never ends.
    Endless,
    /// A small gzip body that unpacks to so many MiB, whatever the client accepts.
    Bomb(u32),
    /// Every page after the first comes from a changed fabric.
    ChangedBetweenPages,
    /// The server shows a certificate of the past.
    ExpiredCertificate,
    /// The server shows a certificate of an authority that no client knows.
    UntrustedCertificate,
    /// The server shows a certificate for another name.
    WrongNameCertificate,
    /// Connections are accepted and never answered.
    StallHandshake,
    /// Connections are accepted and closed.
    Closed,
    /// The address has no listener.
    Refused,
}

impl Fault {
    /// Every fault with its words and one sentence, for help and documents.
    pub fn all() -> &'static [FaultHelp] {
        HELP
    }

    /// Whether it acts on connections, before any request is read.
    pub fn is_of_connections(&self) -> bool {
        matches!(
            self,
            Self::ExpiredCertificate
                | Self::UntrustedCertificate
                | Self::WrongNameCertificate
                | Self::StallHandshake
                | Self::Closed
                | Self::Refused
        )
    }
}
