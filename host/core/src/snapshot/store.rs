//! The store: applies node events to the columns that somebody asked for.

use super::{Change, ColumnKey, NodeMeta, View};

/// The nodes of the cluster, as far as somebody asked.
#[derive(Debug, Default)]
pub struct Store {}

impl Store {
    /// An empty store that wants no key.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds keys. Returns those that have no column yet: they need a relist before a view shows them.
    pub fn want(&mut self, keys: impl IntoIterator<Item = ColumnKey>) -> Vec<ColumnKey> {
        keys.into_iter().collect()
    }

    /// Drops keys and their columns; views taken earlier keep theirs.
    pub fn forget<'k>(&mut self, _keys: impl IntoIterator<Item = &'k ColumnKey>) {}

    /// The wanted keys that have no column yet; not empty after a commit means: list again.
    #[must_use]
    pub fn pending(&self) -> Vec<ColumnKey> {
        Vec::new()
    }

    /// Whether a relist was ever committed. Before that the store knows nothing, which is not an empty cluster.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        false
    }

    /// A node was added or changed.
    pub fn apply<'a, L, A>(&mut self, _node: NodeMeta<'a, L, A>) -> Change
    where
        L: IntoIterator<Item = (&'a str, &'a str)>,
        A: IntoIterator<Item = (&'a str, &'a str)>,
    {
        Change::default()
    }

    /// A node was deleted.
    pub fn remove(&mut self, _name: &str) -> Change {
        Change::default()
    }

    /// A relist starts; one that is still running is forgotten.
    pub fn begin_relist(&mut self) {}

    /// One node of the running relist.
    pub fn relist<'a, L, A>(&mut self, _node: NodeMeta<'a, L, A>)
    where
        L: IntoIterator<Item = (&'a str, &'a str)>,
        A: IntoIterator<Item = (&'a str, &'a str)>,
    {
    }

    /// The relist is complete: what it did not mention is gone. Without a running relist nothing happens.
    pub fn commit_relist(&mut self) -> Change {
        Change::default()
    }

    /// The present contents under these keys; later events do not change it.
    #[must_use]
    pub fn view(&self, keys: &[ColumnKey]) -> View {
        View::empty(keys)
    }

    /// Grows with every change.
    #[must_use]
    pub fn generation(&self) -> u64 {
        0
    }
}
