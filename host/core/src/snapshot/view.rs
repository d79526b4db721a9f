//! One consistent state of the store, for as long as a reader keeps it.

use std::sync::Arc;

use super::column::Column;
use super::names::Names;
use super::table::Table;
use super::{ColumnKey, LabelKeys, Packed};
use crate::names::NodeName;

/// The contents of the store at one moment, under the keys it was made for. Taking and cloning it copies no column;
/// while a reader keeps it, the first later change of a column copies that column once.
#[derive(Debug, Clone)]
pub struct View {
    generation: u64,
    names: Arc<Names>,
    columns: Vec<(ColumnKey, Column)>,
    missing: Vec<ColumnKey>,
    labels: Arc<LabelKeys>,
}

impl View {
    pub(super) fn of(table: &Table, keys: &[ColumnKey], generation: u64, labels: &Arc<LabelKeys>) -> Self {
        let (names, labels) = (Arc::clone(&table.names), Arc::clone(labels));
        let mut view = Self { generation, names, columns: Vec::new(), missing: Vec::new(), labels };
        let mut keys: Vec<&ColumnKey> = keys.iter().collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            match table.column(key) {
                Some(column) => view.columns.push((key.clone(), column.clone())),
                None => view.missing.push(key.clone()),
            }
        }
        view
    }

    /// The generation of the store at that moment.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// How many nodes there are.
    #[must_use]
    pub fn rows(&self) -> u32 {
        self.names.len()
    }

    /// The names by row, in no particular order.
    #[must_use]
    pub fn names(&self) -> &[NodeName] {
        self.names.list()
    }

    /// The names by row as one text; made once for all views of the same set of names.
    #[must_use]
    pub fn packed_names(&self) -> &Packed {
        self.names.packed()
    }

    /// The keys that this view has no column for: they are not wanted, or no relist has read them yet. A round must
    /// wait for them, since a missing column looks like deleted labels.
    #[must_use]
    pub fn missing(&self) -> &[ColumnKey] {
        &self.missing
    }

    /// The column of a key that the view was made for.
    #[must_use]
    pub fn column(&self, key: &ColumnKey) -> Option<&Column> {
        let at = self.columns.binary_search_by(|(other, _)| other.cmp(key)).ok()?;
        self.columns.get(at).map(|(_, column)| column)
    }

    /// The same moment under fewer keys.
    #[must_use]
    pub fn under(&self, keys: &[ColumnKey]) -> Self {
        let wanted = |key: &ColumnKey| keys.contains(key);
        Self {
            generation: self.generation,
            names: Arc::clone(&self.names),
            columns: self.columns.iter().filter(|(key, _)| wanted(key)).cloned().collect(),
            missing: self.missing.iter().filter(|key| wanted(key)).cloned().collect(),
            labels: Arc::clone(&self.labels),
        }
    }

    /// Which label keys nodes have, in a view that was made for some label.
    #[must_use]
    pub fn labels(&self) -> &LabelKeys {
        &self.labels
    }

    /// The row of a node.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u32> {
        self.names.find(name)
    }

    /// The value of a key in a row. `None` also where the view has no such column.
    #[must_use]
    pub fn value(&self, row: u32, key: &ColumnKey) -> Option<&str> {
        self.column(key)?.value(row)
    }
}
