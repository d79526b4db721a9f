//! The index: takes events, answers with the counts that changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::snapshot::{Change, ColumnKey, View};
use crate::topology::Object;

/// What `status` says about one HyperNode.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeCount {
    /// Distinct existing Nodes below it, at every tier.
    pub nodes: u64,
    /// Its own exact Node members that do not exist.
    pub missing: Missing,
}

/// Exact Node members that do not exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Missing {
    /// How many there are.
    pub count: u64,
    /// The first of them by name, at most 10.
    pub first: Vec<Arc<str>>,
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
    /// The first of them by name, at most 10, each with two HyperNodes of that tier that hold it.
    pub first: Vec<(Arc<str>, [Arc<str>; 2])>,
}

/// Counts Nodes below HyperNodes, incrementally.
#[derive(Debug, Default)]
pub struct StatusIndex {}

impl StatusIndex {
    /// An index of an empty cluster.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A HyperNode was added or changed.
    pub fn put(&mut self, _object: &Object) {}

    /// A HyperNode was deleted.
    pub fn delete(&mut self, _name: &str) {}

    /// Nodes appeared, went or changed.
    pub fn nodes(&mut self, _change: &Change) {}

    /// The label keys that stored `labelMatch` members read: the view given to [`settle`](Self::settle) must hold them.
    #[must_use]
    pub fn keys_used(&self) -> Vec<ColumnKey> {
        Vec::new()
    }

    /// The HyperNodes whose count changed since the last call, by name.
    pub fn settle(&mut self, _view: &View) -> Vec<Settled> {
        Vec::new()
    }

    /// The last settled count.
    #[must_use]
    pub fn get(&self, _name: &str) -> Option<&NodeCount> {
        None
    }

    /// Nodes in two HyperNodes of one tier, among the HyperNodes of these sources, by tier.
    #[must_use]
    pub fn overlaps(&self, _sources: &BTreeSet<Arc<str>>) -> Vec<Overlap> {
        Vec::new()
    }
}
