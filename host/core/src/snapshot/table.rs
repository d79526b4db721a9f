//! Names and columns together: rows that are added, changed and removed.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ColumnKey;
use super::column::{Column, Effect, Tracked};
use super::names::Names;
use crate::names::NodeName;

/// Nodes under a set of keys.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) names: Arc<Names>,
    /// In the order of [`rank`].
    columns: Vec<Tracked>,
}

/// What a write did to a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowEffect {
    Same,
    Added(NodeName),
    Changed(NodeName),
}

impl Table {
    pub(super) fn with_keys<'k>(keys: impl IntoIterator<Item = &'k ColumnKey>) -> Self {
        let mut table = Self::default();
        for key in keys {
            table.add_column(key);
        }
        table
    }

    pub(super) fn columns(&self) -> &[Tracked] {
        &self.columns
    }

    pub(super) fn column(&self, key: &ColumnKey) -> Option<&Column> {
        let at = self.columns.binary_search_by(|column| rank(&column.key).cmp(&rank(key))).ok()?;
        self.columns.get(at).map(Tracked::column)
    }

    /// Adds a column without any value; an existing column stays.
    pub(super) fn add_column(&mut self, key: &ColumnKey) {
        if let Err(at) = self.columns.binary_search_by(|column| rank(&column.key).cmp(&rank(key))) {
            self.columns.insert(at, Tracked::new(key.clone(), self.names.len()));
        }
    }

    pub(super) fn drop_column(&mut self, key: &ColumnKey) {
        self.columns.retain(|column| column.key != *key);
    }

    /// The values of a node under the keys of this table, in the order of the columns.
    pub(super) fn pick<'a, L, A>(&self, labels: L, annotations: A) -> Vec<Option<&'a str>>
    where
        L: IntoIterator<Item = (&'a str, &'a str)>,
        A: IntoIterator<Item = (&'a str, &'a str)>,
    {
        let split = self.columns.partition_point(|column| matches!(column.key, ColumnKey::Label(_)));
        let (label_columns, annotation_columns) = self.columns.split_at(split);
        let mut values = vec![None; self.columns.len()];
        let (label_values, annotation_values) = values.split_at_mut(split);
        pick_one_kind(label_columns, label_values, labels);
        pick_one_kind(annotation_columns, annotation_values, annotations);
        values
    }

    /// Writes one node; the values are in the order of the columns.
    pub(super) fn upsert(&mut self, name: &NameRef<'_>, values: &[Option<&str>]) -> RowEffect {
        let row = self.names.find(name.as_str());
        let mut changed = false;
        for (column, value) in self.columns.iter_mut().zip(values) {
            let effect = match row {
                Some(row) => column.set(row, *value),
                None => column.push(*value),
            };
            changed |= effect == Effect::Changed;
        }
        match row {
            None => {
                let name = name.to_name();
                Arc::make_mut(&mut self.names).push(name.clone());
                RowEffect::Added(name)
            }
            Some(row) if changed => self.names.get(row).cloned().map_or(RowEffect::Same, RowEffect::Changed),
            Some(_) => RowEffect::Same,
        }
    }

    /// Takes one node out and returns its name if it was there.
    pub(super) fn remove(&mut self, name: &str) -> Option<NodeName> {
        let row = self.names.find(name)?;
        let name = self.names.get(row).cloned()?;
        self.columns.iter_mut().for_each(|column| column.swap_remove(row));
        Arc::make_mut(&mut self.names).swap_remove(row);
        Some(name)
    }

    /// The keys under which a value was changed since the last call.
    pub(super) fn take_touched(&mut self) -> BTreeSet<ColumnKey> {
        self.columns.iter_mut().filter_map(Tracked::take_touched).collect()
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.columns.iter_mut().for_each(Tracked::shrink_to_fit);
    }
}

/// A name that may be stored already, so that one node has one allocation for its name in all tables.
#[derive(Debug)]
pub(super) enum NameRef<'a> {
    Stored(&'a NodeName),
    Read(&'a str),
}

impl NameRef<'_> {
    fn as_str(&self) -> &str {
        match self {
            Self::Stored(name) => name,
            Self::Read(name) => name,
        }
    }

    fn to_name(&self) -> NodeName {
        match self {
            Self::Stored(name) => (*name).clone(),
            Self::Read(name) => NodeName::from(*name),
        }
    }
}

/// Labels first, then by length: most keys of a node have the length of no wanted key. Their text, which is cold
/// memory, is then not read.
fn rank(key: &ColumnKey) -> (bool, (usize, &str)) {
    (matches!(key, ColumnKey::Annotation(_)), by_length(key.text()))
}

fn by_length(text: &str) -> (usize, &str) {
    (text.len(), text)
}

fn pick_one_kind<'a>(
    columns: &[Tracked],
    values: &mut [Option<&'a str>],
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    if columns.is_empty() {
        return;
    }
    for (key, value) in pairs {
        let at = columns.binary_search_by(|column| by_length(column.key.text()).cmp(&by_length(key)));
        if let Some(place) = at.ok().and_then(|at| values.get_mut(at)) {
            *place = Some(value);
        }
    }
}
