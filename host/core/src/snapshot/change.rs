//! What an event or a relist changed, by value.

use std::collections::BTreeSet;

use super::ColumnKey;
use crate::names::NodeName;

/// The difference between two states of the store. A node that does not exist counts as one without any value, so a
/// node that appears with a value changes that key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Change {
    /// Nodes that appeared.
    pub added: Vec<NodeName>,
    /// Nodes that were deleted.
    pub removed: Vec<NodeName>,
    /// Nodes that existed before and after, with another value under at least one of `keys`.
    pub changed: Vec<NodeName>,
    /// The keys under which at least one node has another value than before.
    pub keys: BTreeSet<ColumnKey>,
    /// Keys that had no column before this relist and have one now.
    pub completed: Vec<ColumnKey>,
}

impl Change {
    /// Whether nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.names_changed() && self.changed.is_empty() && self.keys.is_empty() && self.completed.is_empty()
    }

    /// Whether the set of node names differs.
    #[must_use]
    pub fn names_changed(&self) -> bool {
        !self.added.is_empty() || !self.removed.is_empty()
    }

    /// Whether a value differs under one of these keys.
    pub fn concerns<'a>(&self, keys: impl IntoIterator<Item = &'a ColumnKey>) -> bool {
        !self.keys.is_empty() && keys.into_iter().any(|key| self.keys.contains(key))
    }
}
