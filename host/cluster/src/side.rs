//! Which of the two API servers of lending is meant.
//!
//! A host that lends nodes talks to two API servers, and every right, every refusal and every budget belongs to one of them. Owns
//! the word. It cannot fail.

use std::fmt;

/// One of the two clusters of a binding. Where only one is in sight, it is the virtual one: the cluster that the host runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The cluster that pods are submitted to.
    Virtual,
    /// The cluster that lends nodes.
    Physical,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Virtual => "the virtual cluster",
            Self::Physical => "the physical cluster",
        })
    }
}
