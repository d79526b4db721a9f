//! The store: applies node events to the columns that consumers asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::table::{NameRef, RowEffect, Table};
use super::{Change, ColumnKey, LabelKeys, NodeMeta, View};
use crate::names::NodeName;

/// The nodes of the cluster, under the keys that consumers asked for.
#[derive(Debug, Default)]
pub struct Store {
    wanted: BTreeSet<ColumnKey>,
    /// The contents that views show. It has a column for each wanted key that a relist has read on every node, and no
    /// other.
    live: Table,
    /// The running relist. It has a column for each key that was wanted when it began and still is.
    staging: Option<Table>,
    /// Which label keys nodes have, wanted or not, and those that the running relist has read so far.
    labels: Arc<LabelKeys>,
    met: LabelKeys,
    synced: bool,
    generation: u64,
}

impl Store {
    /// An empty store without wanted keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds keys and returns those that are new. They need a relist that begins from now on: until it is committed they
    /// are [`pending`](Self::pending).
    pub fn require(&mut self, keys: impl IntoIterator<Item = ColumnKey>) -> Vec<ColumnKey> {
        keys.into_iter().filter(|key| self.wanted.insert(key.clone())).collect()
    }

    /// Drops keys and their columns; views taken earlier keep theirs.
    pub fn forget<'k>(&mut self, keys: impl IntoIterator<Item = &'k ColumnKey>) {
        for key in keys {
            self.wanted.remove(key);
            self.live.drop_column(key);
            if let Some(staging) = &mut self.staging {
                staging.drop_column(key);
            }
        }
    }

    /// The wanted keys, in order.
    pub fn required(&self) -> impl Iterator<Item = &ColumnKey> {
        self.wanted.iter()
    }

    /// The wanted keys that have no column yet. If this is not empty after a commit, keys were added while the relist
    /// was running, and another relist is needed.
    #[must_use]
    pub fn pending(&self) -> Vec<ColumnKey> {
        self.wanted.iter().filter(|key| self.live.column(key).is_none()).cloned().collect()
    }

    /// Whether a relist was ever committed. Before that the store has no data, which does not mean an empty cluster.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// A node was added or changed. A running relist takes the event in too.
    pub fn apply<'a, L, A>(&mut self, node: NodeMeta<'a, L, A>) -> Change
    where
        L: IntoIterator<Item = (&'a str, &'a str)>,
        A: IntoIterator<Item = (&'a str, &'a str)>,
    {
        if self.staging.is_none() {
            return self.apply_live(node);
        }
        let labels: Vec<_> = node.labels.into_iter().collect();
        let annotations: Vec<_> = node.annotations.into_iter().collect();
        let again =
            || NodeMeta { name: node.name, labels: labels.iter().copied(), annotations: annotations.iter().copied() };
        let change = self.apply_live(again());
        self.relist(again());
        change
    }

    /// A node was deleted. A running relist takes the event in too.
    pub fn remove(&mut self, name: &str) -> Change {
        let mut writer = TableWriter::new(&mut self.live);
        writer.remove(name);
        let change = writer.change();
        if let Some(staging) = &mut self.staging {
            staging.remove(name);
        }
        self.count(change)
    }

    /// A relist starts; one that is still running is dropped.
    pub fn begin_relist(&mut self) {
        self.staging = Some(Table::with_keys(&self.wanted));
        self.met = LabelKeys::default();
    }

    /// One node of the running relist. Views do not show it before the commit.
    pub fn relist<'a, L, A>(&mut self, node: NodeMeta<'a, L, A>)
    where
        L: IntoIterator<Item = (&'a str, &'a str)>,
        A: IntoIterator<Item = (&'a str, &'a str)>,
    {
        let Some(staging) = &mut self.staging else { return };
        let met = &mut self.met;
        let labels = node.labels.into_iter().inspect(|(key, _)| met.add(key));
        let values = staging.pick(labels, node.annotations);
        // The name's text is shared with the live table, or a relist would double the memory of all names.
        let stored = self.live.names.find(node.name).and_then(|row| self.live.names.get(row));
        let name = stored.map_or(NameRef::Read(node.name), NameRef::Stored);
        staging.upsert(&name, &values);
    }

    /// The relist is complete: nodes that it did not contain are removed. Does nothing without a running relist.
    pub fn commit_relist(&mut self) -> Change {
        let Some(staging) = self.staging.take() else { return Change::default() };
        self.synced = true;
        self.labels = Arc::new(std::mem::take(&mut self.met));
        let mut completed: Vec<ColumnKey> = staging
            .columns()
            .iter()
            .map(|column| &column.key)
            .filter(|key| self.live.column(key).is_none())
            .cloned()
            .collect();
        completed.sort_unstable();
        let mut change =
            if self.live.names.len() == 0 { self.replace(staging) } else { self.merge(staging, &completed) };
        change.completed = completed;
        self.count(change)
    }

    /// The present contents under these keys; later events do not change it.
    #[must_use]
    pub fn view(&self, keys: &[ColumnKey]) -> View {
        View::of(&self.live, keys, self.generation, &self.labels)
    }

    /// Grows with every change.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    fn apply_live<'a, L, A>(&mut self, node: NodeMeta<'a, L, A>) -> Change
    where
        L: IntoIterator<Item = (&'a str, &'a str)>,
        A: IntoIterator<Item = (&'a str, &'a str)>,
    {
        let known = &mut self.labels;
        let labels = node.labels.into_iter().inspect(|(key, _)| {
            if known.lacks(key) {
                Arc::make_mut(known).add(key);
            }
        });
        let values = self.live.pick(labels, node.annotations);
        let mut writer = TableWriter::new(&mut self.live);
        writer.upsert(&NameRef::Read(node.name), &values);
        let change = writer.change();
        self.count(change)
    }

    /// The first list: there is nothing to compare it with, so the relisted table becomes the live one.
    fn replace(&mut self, mut staging: Table) -> Change {
        staging.shrink_to_fit();
        staging.take_touched();
        self.live = staging;
        let with_values = self.live.columns().iter().filter(|column| column.has_values());
        Change {
            added: self.live.names.list().to_vec(),
            keys: with_values.map(|column| column.key.clone()).collect(),
            ..Change::default()
        }
    }

    /// Writes a relist into the live table as events, so that what did not change stays shared with views.
    fn merge(&mut self, staging: Table, completed: &[ColumnKey]) -> Change {
        for key in completed {
            self.live.add_column(key);
        }
        let gone: Vec<NodeName> =
            self.live.names.list().iter().filter(|name| staging.names.find(name).is_none()).cloned().collect();
        let mut writer = TableWriter::new(&mut self.live);
        for name in &gone {
            writer.remove(name);
        }
        // Both tables now have the same keys in the same order: keys that were dropped have left both, and keys that
        // were added since the relist began are in neither.
        let mut values = Vec::with_capacity(staging.columns().len());
        for (row, name) in (0u32..).zip(staging.names.list()) {
            values.clear();
            values.extend(staging.columns().iter().map(|column| column.column().value(row)));
            writer.upsert(&NameRef::Stored(name), &values);
        }
        let change = writer.change();
        self.live.shrink_to_fit();
        change
    }

    fn count(&mut self, change: Change) -> Change {
        if !change.is_empty() {
            self.generation += 1;
        }
        change
    }
}

/// Writes to a table and remembers what that changed.
struct TableWriter<'t> {
    table: &'t mut Table,
    change: Change,
}

impl<'t> TableWriter<'t> {
    fn new(table: &'t mut Table) -> Self {
        Self { table, change: Change::default() }
    }

    fn upsert(&mut self, name: &NameRef<'_>, values: &[Option<&str>]) {
        match self.table.upsert(name, values) {
            RowEffect::Same => {}
            RowEffect::Added(name) => self.change.added.push(name),
            RowEffect::Changed(name) => self.change.changed.push(name),
        }
    }

    fn remove(&mut self, name: &str) {
        self.change.removed.extend(self.table.remove(name));
    }

    fn change(mut self) -> Change {
        self.change.keys = self.table.take_touched();
        self.change
    }
}
