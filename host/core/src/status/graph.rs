//! The HyperNodes, their members, and the HyperNodes that list each of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::NodeCount;
use super::nodes::{Marks, NodeNumbers};
use crate::names::SourceName;
use crate::topology::Selector;
use crate::topology::select::Chooser;

/// HyperNodes by number, including those that are listed but not stored.
#[derive(Debug, Default)]
pub(super) struct Graph {
    slots: Vec<GraphSlot>,
    by_name: BTreeMap<Arc<str>, u32>,
    free: Vec<u32>,
    /// Numbers that may be neither stored nor listed any more.
    doubtful: Vec<u32>,
}

#[derive(Debug, Default)]
struct GraphSlot {
    name: Arc<str>,
    entry: Option<GraphEntry>,
    /// The HyperNodes that list it, each once.
    parents: Vec<u32>,
}

/// One stored HyperNode.
#[derive(Debug)]
pub(super) struct GraphEntry {
    pub(super) tier: u32,
    pub(super) source: Option<SourceName>,
    /// Exact Node members: distinct numbers, ascending.
    pub(super) exact: Vec<u32>,
    /// Node members by pattern or labels.
    pub(super) dynamic: Vec<Dynamic>,
    /// Exact HyperNode members: distinct numbers, ascending.
    pub(super) children: Vec<u32>,
    /// The count that was reported last.
    pub(super) settled: Option<NodeCount>,
}

/// A selector with the Nodes that it chose.
#[derive(Debug)]
pub(super) struct Dynamic {
    /// As stored, to recognise it when the object is written again.
    pub(super) selector: Selector,
    pub(super) chooser: Chooser,
    /// Ascending numbers; `None` before it could be evaluated.
    pub(super) chosen: Option<Vec<u32>>,
}

impl Graph {
    /// All numbers are smaller.
    pub(super) fn bound(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(super) fn intern(&mut self, name: &Arc<str>) -> u32 {
        if let Some(id) = self.find(name) {
            return id;
        }
        let slot = GraphSlot { name: Arc::clone(name), ..GraphSlot::default() };
        let id = match self.free.pop() {
            Some(id) => {
                if let Some(place) = self.slots.get_mut(id as usize) {
                    *place = slot;
                }
                id
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.by_name.insert(Arc::clone(name), id);
        self.doubtful.push(id);
        id
    }

    pub(super) fn name(&self, id: u32) -> Option<&Arc<str>> {
        self.slots.get(id as usize).map(|slot| &slot.name)
    }

    pub(super) fn entry(&self, id: u32) -> Option<&GraphEntry> {
        self.slots.get(id as usize)?.entry.as_ref()
    }

    pub(super) fn entry_mut(&mut self, id: u32) -> Option<&mut GraphEntry> {
        self.slots.get_mut(id as usize)?.entry.as_mut()
    }

    /// All stored HyperNodes.
    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = (u32, &mut GraphEntry)> {
        (0u32..).zip(&mut self.slots).filter_map(|(id, slot)| slot.entry.as_mut().map(|entry| (id, entry)))
    }

    /// All stored HyperNodes by name.
    pub(super) fn by_name(&self) -> impl Iterator<Item = (&Arc<str>, u32, &GraphEntry)> {
        self.by_name.iter().filter_map(|(name, id)| self.entry(*id).map(|entry| (name, *id, entry)))
    }

    /// Replaces an entry and returns the old one.
    pub(super) fn replace(&mut self, id: u32, entry: Option<GraphEntry>) -> Option<GraphEntry> {
        let old = self.slots.get_mut(id as usize).and_then(|slot| slot.entry.take());
        for child in old.iter().flat_map(|entry| &entry.children) {
            if let Some(slot) = self.slots.get_mut(*child as usize) {
                slot.parents.retain(|parent| *parent != id);
                self.doubtful.push(*child);
            }
        }
        for child in entry.iter().flat_map(|entry| &entry.children) {
            if let Some(slot) = self.slots.get_mut(*child as usize) {
                slot.parents.push(id);
            }
        }
        if let Some(slot) = self.slots.get_mut(id as usize) {
            slot.entry = entry;
        }
        self.doubtful.push(id);
        old
    }

    /// These and everything above them, each once.
    pub(super) fn with_ancestors(&self, of: impl IntoIterator<Item = u32>, marks: &mut Marks) -> Vec<u32> {
        marks.start(self.bound());
        let mut found: Vec<u32> = of.into_iter().filter(|id| marks.is_first(*id)).collect();
        let mut next = 0;
        while let Some(slot) = found.get(next).and_then(|id| self.slots.get(*id as usize)) {
            found.extend(slot.parents.iter().filter(|parent| marks.is_first(**parent)));
            next += 1;
        }
        found
    }

    /// Calls `visit` once for every distinct existing Node at or below a HyperNode. `None` when a selector there cannot
    /// be evaluated yet.
    pub(super) fn nodes_below(
        &self,
        top: u32,
        nodes: &NodeNumbers,
        marks: &mut Walks,
        mut visit: impl FnMut(u32),
    ) -> Option<()> {
        marks.graph.start(self.bound());
        marks.nodes.start(nodes.bound());
        marks.graph.is_first(top);
        let mut open = vec![top];
        while let Some(id) = open.pop() {
            let Some(entry) = self.entry(id) else { continue };
            let mut count = |id: &u32| {
                if nodes.exists(*id) && marks.nodes.is_first(*id) {
                    visit(*id);
                }
            };
            entry.exact.iter().for_each(&mut count);
            for dynamic in &entry.dynamic {
                dynamic.chosen.as_ref()?.iter().for_each(&mut count);
            }
            open.extend(entry.children.iter().filter(|child| marks.graph.is_first(**child)));
        }
        Some(())
    }

    /// Frees the numbers that are no longer used.
    pub(super) fn sweep(&mut self) {
        for id in std::mem::take(&mut self.doubtful) {
            let Some(slot) = self.slots.get_mut(id as usize) else { continue };
            // A slot that was freed before has lost its name: the map no longer leads to it.
            let is_known = self.by_name.get(&slot.name) == Some(&id);
            if is_known && slot.entry.is_none() && slot.parents.is_empty() {
                self.by_name.remove(&slot.name);
                *slot = GraphSlot::default();
                self.free.push(id);
            }
        }
    }
}

/// The marks of a walk downwards.
#[derive(Debug, Default)]
pub(super) struct Walks {
    pub(super) graph: Marks,
    pub(super) nodes: Marks,
}
