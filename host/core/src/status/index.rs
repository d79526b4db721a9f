//! The index: takes events and returns the counts that changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::graph::{Dynamic, Graph, GraphEntry, Walks};
use super::nodes::NodeNumbers;
use super::{Missing, NodeCount, Overlap, Settled, SharedNode, first_named};
use crate::names::{NodeName, SourceName};
use crate::snapshot::{Change, ColumnKey, View};
use crate::topology::select::Chooser;
use crate::topology::{Object, Spec};

/// Patterns that stay compiled. One takes 10 to 20 KiB and 20 to 50 µs to compile. Beyond this many, the memory costs
/// more than the time, which is only spent when Nodes appear.
const COMPILED: usize = 256;

/// Counts Nodes below HyperNodes, incrementally.
#[derive(Debug, Default)]
pub struct StatusIndex {
    nodes: NodeNumbers,
    graph: Graph,
    /// HyperNodes whose own members changed.
    dirty: BTreeSet<u32>,
    /// Nodes that appeared or were deleted since the last settling.
    flipped: Vec<u32>,
    /// Nodes with another value under a key that a selector reads.
    relabelled: Vec<u32>,
    /// How many selectors read each key.
    keys: BTreeMap<ColumnKey, usize>,
    compiled: usize,
    walks: Walks,
}

impl StatusIndex {
    /// An index of an empty cluster.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A HyperNode was added or changed. One with unchanged members costs no counting.
    pub fn put(&mut self, object: &Object) {
        let id = self.graph.intern(&object.name);
        let mut entry = self.read(&object.spec);
        entry.tier = object.spec.tier;
        entry.source.clone_from(&object.source);
        let mut same = false;
        if let Some(old) = self.graph.entry_mut(id) {
            entry.settled = old.settled.take();
            // A selector that was evaluated before is not evaluated again.
            for dynamic in &mut entry.dynamic {
                if let Some(known) = old.dynamic.iter_mut().find(|known| known.selector == dynamic.selector) {
                    dynamic.chosen = known.chosen.take();
                }
            }
            let selectors = |entry: &GraphEntry| entry.dynamic.iter().map(|d| d.selector.clone()).collect::<Vec<_>>();
            same = old.exact == entry.exact && old.children == entry.children && selectors(old) == selectors(&entry);
        }
        let old = self.graph.replace(id, Some(entry));
        self.release(old);
        if !same {
            self.dirty.insert(id);
        }
    }

    /// A HyperNode was deleted.
    pub fn delete(&mut self, name: &str) {
        let Some(id) = self.graph.find(name) else { return };
        let old = self.graph.replace(id, None);
        if old.is_some() {
            self.dirty.insert(id);
        }
        self.release(old);
    }

    /// Nodes appeared, changed or were deleted. Takes every change of the snapshot, in order.
    pub fn nodes(&mut self, change: &Change) {
        let flips = change.removed.iter().map(|name| (name, false)).chain(change.added.iter().map(|name| (name, true)));
        for (name, exists) in flips {
            self.flipped.extend(self.nodes.set_existence(name, exists));
        }
        if change.concerns(self.keys.keys()) {
            self.relabelled.extend(change.changed.iter().filter_map(|name| self.nodes.find(name)));
        }
    }

    /// The label columns that stored selectors read. The host adds them to the snapshot and passes a view with them to
    /// [`settle`](Self::settle).
    pub fn keys_used(&self) -> impl Iterator<Item = &ColumnKey> {
        self.keys.keys()
    }

    /// The HyperNodes of these names that are known, and everything above them.
    #[must_use]
    pub fn with_ancestors(&mut self, names: &BTreeSet<Arc<str>>) -> BTreeSet<Arc<str>> {
        if names.is_empty() {
            return BTreeSet::new();
        }
        let ids: Vec<u32> = names.iter().filter_map(|name| self.graph.find(name)).collect();
        let found = self.graph.with_ancestors(ids, &mut self.walks.graph);
        found.into_iter().filter_map(|id| self.graph.name(id).cloned()).collect()
    }

    /// Whether there is something to settle.
    #[cfg(test)]
    pub(super) fn is_dirty(&self) -> bool {
        !(self.dirty.is_empty() && self.flipped.is_empty() && self.relabelled.is_empty())
    }

    /// The HyperNodes whose count changed since the last call, by name, including new ones.
    ///
    /// The view must contain the last change that was passed to [`nodes`](Self::nodes). A HyperNode above a selector
    /// whose column the view lacks is left for a later call.
    pub fn settle(&mut self, view: &View) -> Vec<Settled> {
        self.mark_listed();
        self.choose(view);
        let mut settled = Vec::new();
        let dirty = std::mem::take(&mut self.dirty);
        for id in self.graph.with_ancestors(dirty, &mut self.walks.graph) {
            let Some(entry) = self.graph.entry(id) else { continue };
            let mut nodes = 0;
            if self.graph.nodes_below(id, &self.nodes, &mut self.walks, |_| nodes += 1).is_none() {
                self.dirty.insert(id);
                continue;
            }
            let count = NodeCount { nodes, missing: self.missing(entry) };
            if entry.settled.as_ref() != Some(&count) {
                settled
                    .extend(self.graph.name(id).map(|name| Settled { name: Arc::clone(name), count: count.clone() }));
                if let Some(entry) = self.graph.entry_mut(id) {
                    entry.settled = Some(count);
                }
            }
        }
        self.graph.sweep();
        self.nodes.sweep();
        settled.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        settled
    }

    /// The last settled count; `None` for a HyperNode that is not stored or not settled yet.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&NodeCount> {
        self.graph.entry(self.graph.find(name)?)?.settled.as_ref()
    }

    /// Nodes in two HyperNodes of one tier, among the HyperNodes of these sources, by tier. Walks all of them: for a
    /// condition after a round, not for every event.
    pub fn overlaps(&mut self, sources: &BTreeSet<SourceName>) -> Vec<Overlap> {
        let mut tiers: BTreeMap<u32, Vec<(&Arc<str>, u32)>> = BTreeMap::new();
        for (name, id, entry) in self.graph.by_name() {
            if entry.source.as_ref().is_some_and(|source| sources.contains(source)) {
                tiers.entry(entry.tier).or_default().push((name, id));
            }
        }
        let mut overlaps = Vec::new();
        for (tier, members) in tiers {
            let mut first_holder: Vec<Option<&Arc<str>>> = vec![None; self.nodes.bound()];
            let mut shared: BTreeMap<u32, [&Arc<str>; 2]> = BTreeMap::new();
            for (name, id) in members {
                // A selector without its column hides only the Nodes that it would choose.
                let _ = self.graph.nodes_below(id, &self.nodes, &mut self.walks, |node| {
                    match first_holder.get_mut(node as usize) {
                        Some(Some(first)) => {
                            shared.entry(node).or_insert([*first, name]);
                        }
                        Some(holder) => *holder = Some(name),
                        None => {}
                    }
                });
            }
            let nodes = shared.len() as u64;
            let named = |(node, names): (u32, [&Arc<str>; 2])| {
                Some(SharedNode { node: self.nodes.name(node).cloned()?, hyper_nodes: names.map(Arc::clone) })
            };
            if nodes > 0 {
                overlaps.push(Overlap {
                    tier,
                    nodes,
                    first: first_named(shared.into_iter().filter_map(named).collect()),
                });
            }
        }
        overlaps
    }

    /// Numbers and choosers for the members of a spec.
    fn read(&mut self, spec: &Spec) -> GraphEntry {
        let mut exact: Vec<u32> = Vec::new();
        for name in spec.exact_nodes() {
            exact.push(self.nodes.refer(name));
        }
        exact.sort_unstable();
        // Each number is referenced once, so the second mention of a name releases its own reference here.
        exact.dedup_by(|later, first| {
            let same = later == first;
            if same {
                self.nodes.release(*later);
            }
            same
        });
        let mut children: Vec<u32> = spec.children().map(|name| self.graph.intern(name)).collect();
        children.sort_unstable();
        children.dedup();
        let mut dynamic: Vec<Dynamic> = Vec::new();
        for member in &spec.members {
            if dynamic.iter().any(|known| known.selector == member.selector) {
                continue;
            }
            let Some(mut chooser) = Chooser::of(member) else { continue };
            for key in chooser.keys() {
                *self.keys.entry(key.clone()).or_default() += 1;
            }
            if let Chooser::Name(pattern) = &mut chooser {
                if self.compiled >= COMPILED {
                    pattern.forget_compiled();
                } else {
                    self.compiled += 1;
                }
            }
            dynamic.push(Dynamic { selector: member.selector.clone(), chooser, chosen: None });
        }
        GraphEntry { tier: 0, source: None, exact, dynamic, children, settled: None }
    }

    /// Releases the references that [`read`](Self::read) made.
    fn release(&mut self, entry: Option<GraphEntry>) {
        let Some(entry) = entry else { return };
        entry.exact.iter().for_each(|id| self.nodes.release(*id));
        for dynamic in entry.dynamic {
            for key in dynamic.chooser.keys() {
                if let Some(count) = self.keys.get_mut(key) {
                    *count -= 1;
                    if *count == 0 {
                        self.keys.remove(key);
                    }
                }
            }
            if matches!(&dynamic.chooser, Chooser::Name(pattern) if pattern.is_compiled()) {
                self.compiled = self.compiled.saturating_sub(1);
            }
        }
    }

    /// Marks the HyperNodes that list a Node which appeared or was deleted. One pass over every list for all such Nodes
    /// together is cheaper than an index from each Node to its HyperNodes.
    fn mark_listed(&mut self) {
        if self.flipped.is_empty() {
            return;
        }
        let marks = &mut self.walks.nodes;
        marks.start(self.nodes.bound());
        self.flipped.retain(|id| marks.is_first(*id));
        for (id, entry) in self.graph.entries_mut() {
            if entry.exact.iter().any(|node| marks.contains(*node)) {
                self.dirty.insert(id);
            }
        }
    }

    /// Updates what selectors choose and marks the HyperNodes for which that changed something.
    fn choose(&mut self, view: &View) {
        let flipped = std::mem::take(&mut self.flipped);
        let mut concerned = std::mem::take(&mut self.relabelled);
        concerned.extend(&flipped);
        concerned.sort_unstable();
        concerned.dedup();
        for (id, entry) in self.graph.entries_mut() {
            for dynamic in &mut entry.dynamic {
                let asked = if matches!(dynamic.chooser, Chooser::Name(_)) { &flipped } else { &concerned };
                if dynamic.refresh(asked, &self.nodes, view) {
                    self.dirty.insert(id);
                }
            }
        }
    }

    /// How many numbers of Nodes and HyperNodes exist.
    #[cfg(test)]
    pub(super) fn numbers(&self) -> (usize, usize) {
        (self.nodes.bound(), self.graph.bound())
    }

    fn missing(&self, entry: &GraphEntry) -> Missing {
        let absent = entry.exact.iter().filter(|id| !self.nodes.exists(**id));
        let names: Vec<NodeName> = absent.filter_map(|id| self.nodes.name(*id)).cloned().collect();
        Missing { count: names.len() as u64, first: first_named(names) }
    }
}

impl Dynamic {
    /// Evaluates these Nodes again, or all when there is no answer yet. Returns whether the answer may differ.
    fn refresh(&mut self, asked: &[u32], nodes: &NodeNumbers, view: &View) -> bool {
        if self.chosen.is_some() && asked.is_empty() {
            return false;
        }
        if !self.chooser.can_read(view) {
            return self.chosen.take().is_some();
        }
        // Columns answer for all rows at once; a quarter of the Nodes one by one costs more.
        let few = asked.len() * 4 <= view.rows() as usize;
        match &mut self.chosen {
            Some(chosen) if few => {
                let chooser = self.chooser.prepared();
                let mut changed = false;
                for id in asked {
                    let row = nodes.name(*id).filter(|_| nodes.exists(*id)).and_then(|name| view.find(name));
                    let is_chosen = row.is_some_and(|row| chooser.chooses(view, row));
                    match chosen.binary_search(id) {
                        Ok(at) if !is_chosen => _ = chosen.remove(at),
                        Err(at) if is_chosen => chosen.insert(at, *id),
                        _ => continue,
                    }
                    changed = true;
                }
                changed
            }
            _ => {
                let rows = self.chooser.rows(view).unwrap_or_default();
                let names = rows.iter().filter_map(|row| view.names().get(*row as usize));
                let mut all: Vec<u32> =
                    names.filter_map(|name| nodes.find(name)).filter(|id| nodes.exists(*id)).collect();
                all.sort_unstable();
                let changed = self.chosen.as_ref() != Some(&all);
                self.chosen = Some(all);
                changed
            }
        }
    }
}
