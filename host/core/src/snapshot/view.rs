//! One consistent state of the store, as long as somebody holds it.

use std::sync::Arc;

use super::{ColumnKey, Packed};

/// One key over all rows.
#[derive(Debug, Clone, Default)]
pub struct Column {
    dictionary: Arc<Packed>,
    codes: Arc<Vec<u32>>,
}

impl Column {
    /// The distinct values; one that no node has any more may still be listed.
    #[must_use]
    pub fn dictionary(&self) -> &Packed {
        &self.dictionary
    }

    /// One code per row: 0 = the node lacks the key, n = dictionary entry n-1.
    #[must_use]
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// The value in that row.
    #[must_use]
    pub fn value(&self, _row: u32) -> Option<&str> {
        None
    }
}

/// The contents of the store at one moment, under the keys it was made for. Cheap to take and to clone.
#[derive(Debug, Clone)]
pub struct View {
    missing: Vec<ColumnKey>,
    names: Packed,
}

impl View {
    pub(super) fn empty(keys: &[ColumnKey]) -> Self {
        Self { missing: keys.to_vec(), names: Packed::default() }
    }

    /// The generation of the store at that moment.
    #[must_use]
    pub fn generation(&self) -> u64 {
        0
    }

    /// How many nodes there are.
    #[must_use]
    pub fn rows(&self) -> u32 {
        0
    }

    /// The names by row, in no particular order.
    #[must_use]
    pub fn names(&self) -> &[Arc<str>] {
        &[]
    }

    /// The names by row as one text; made once for all views of the same set of names.
    #[must_use]
    pub fn packed_names(&self) -> &Packed {
        &self.names
    }

    /// The keys that this view has no column for, because no relist has seen them yet. A round must wait for them.
    #[must_use]
    pub fn missing(&self) -> &[ColumnKey] {
        &self.missing
    }

    /// The column of a key that the view was made for.
    #[must_use]
    pub fn column(&self, _key: &ColumnKey) -> Option<&Column> {
        None
    }

    /// The row of a node.
    #[must_use]
    pub fn find(&self, _name: &str) -> Option<u32> {
        None
    }

    /// The value of a key in a row.
    #[must_use]
    pub fn value(&self, _row: u32, _key: &ColumnKey) -> Option<&str> {
        None
    }
}
