//! How many existing Nodes are below each HyperNode (decision H5).
//!
//! Owns the index from Nodes to the HyperNodes above them, for every HyperNode in the cluster, whoever wrote it. Never
//! writes a status: [`StatusIndex::settle`] says which counts are new, somebody else compares them with what is stored.

mod index;
pub mod pattern;

pub use index::{Missing, NodeCount, Overlap, Settled, StatusIndex};
