//! What can be wrong: with the whole document ([`Error`]), or with one place in it ([`ConfigProblem`]).

use std::fmt;
use topoloom_api::Reason;

/// One place of the document and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigProblem {
    /// The place, as a path from the top: `networkTopologyDiscovery[1].interval`.
    pub path: String,
    /// Its line, from 1.
    pub line: usize,
    /// What is there and what may be there.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.path, self.message)
    }
}

/// Why nothing can be said about any entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More text than a ConfigMap can hold.
    #[error("the document has {bytes} bytes, at most {} are read", super::MAX_BYTES)]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// No YAML.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What the parser expected.
        message: String,
    },
    /// Lists and mappings inside each other without end.
    #[error("line {line}: more than {} levels of lists and mappings", super::yaml::MAX_DEPTH)]
    TooDeep {
        /// Where the last allowed level is left.
        line: usize,
    },
    /// Aliases or merges that multiply the document.
    #[error("line {line}: aliases make the document larger than {} bytes", super::yaml::MAX_WEIGHT)]
    TooManyAliases {
        /// The line that crosses the bound.
        line: usize,
    },
    /// The top level, or the list of entries, has the wrong shape.
    #[error("line {line}: {path} must be {wanted}, not {found}")]
    Shape {
        /// The line, from 1.
        line: usize,
        /// The place.
        path: &'static str,
        /// What belongs there.
        wanted: &'static str,
        /// What is there.
        found: &'static str,
    },
}

impl Error {
    /// The word for conditions, Events and metrics.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        Reason::InvalidDocument
    }
}
