//! How many existing Nodes are below each HyperNode (decision H5).
//!
//! Owns the path from Nodes to the HyperNodes above them, for every HyperNode in the cluster, no matter which program
//! wrote it. [`StatusIndex`] takes HyperNode and Node events as they come, marks what they may concern, and counts once
//! when it is asked to settle. So a burst of events below one root counts that root once.
//!
//! Never writes a status and never reads the stored one: [`StatusIndex::settle`] returns the new counts, and the status
//! writer of the host compares and writes.
//!
//! # Failure story
//!
//! Nothing that is stored in a HyperNode can make counting fail. An invalid pattern or selector, an unknown operator, a
//! member without selector and a HyperNode member without a name choose nothing. Cycles, self references, two parents
//! and children that do not exist are counted as they are stored. A label without a column is not guessed: the
//! HyperNodes above such a selector keep their last count until the column exists.

mod graph;
#[cfg(test)]
mod histories;
mod index;
mod nodes;

use std::sync::Arc;

use crate::names::NodeName;

pub use index::StatusIndex;

/// What the status of one HyperNode contains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeCount {
    /// Distinct existing Nodes below it, at every tier.
    pub nodes: u64,
    /// Its own exact Node members that do not exist; those of HyperNodes below are in their counts.
    pub missing: Missing,
}

/// Exact Node members that do not exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Missing {
    /// How many there are.
    pub count: u64,
    /// The first of them by name, at most [`NAMED`].
    pub first: Vec<NodeName>,
}

/// A HyperNode whose count is new since the last settling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The HyperNode.
    pub name: Arc<str>,
    /// Its count now.
    pub count: NodeCount,
}

/// Nodes that sit in two HyperNodes of one tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The tier.
    pub tier: u32,
    /// How many Nodes.
    pub nodes: u64,
    /// The first of them by name, at most [`NAMED`].
    pub first: Vec<SharedNode>,
}

/// A Node in two HyperNodes of one tier.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SharedNode {
    /// The Node.
    pub node: NodeName,
    /// The first two of them by name.
    pub hyper_nodes: [Arc<str>; 2],
}

/// How many names a condition lists: enough to start a search, and few enough for one line.
pub const NAMED: usize = 10;

/// The first names in order, at most as many as a condition lists.
fn first_named<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    if all.len() > NAMED {
        all.select_nth_unstable(NAMED);
        all.truncate(NAMED);
    }
    all.sort_unstable();
    all
}
