//! Numbers for Node names: of Nodes that exist and of those that a HyperNode lists.

use std::sync::Arc;

use crate::names::NodeName;
use crate::snapshot::index::Index;

/// Names by number. A number stays the same for as long as the Node exists or is referenced. Rows of a view do not,
/// since the last row takes the place of a deleted one.
#[derive(Debug, Default)]
pub(super) struct NodeNumbers {
    /// A freed number has none.
    names: Vec<Option<NodeName>>,
    index: Index,
    exists: Vec<bool>,
    references: Vec<u32>,
    /// Numbers that may have lost their last reference. Only [`sweep`](Self::sweep) frees numbers, so that no list that
    /// is still to be updated suddenly means another Node.
    doubtful: Vec<u32>,
    free: Vec<u32>,
}

impl NodeNumbers {
    /// All numbers are smaller.
    pub(super) fn bound(&self) -> usize {
        self.names.len()
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.index.find(name, &self.names)
    }

    pub(super) fn name(&self, id: u32) -> Option<&NodeName> {
        self.names.get(id as usize)?.as_ref()
    }

    pub(super) fn exists(&self, id: u32) -> bool {
        self.exists.get(id as usize).copied().unwrap_or(false)
    }

    /// The number of a name, with one more reference.
    pub(super) fn refer(&mut self, name: &Arc<str>) -> u32 {
        let id = self.intern(name, || Arc::clone(name).into());
        if let Some(references) = self.references.get_mut(id as usize) {
            *references += 1;
        }
        id
    }

    /// One reference less.
    pub(super) fn release(&mut self, id: u32) {
        if let Some(references) = self.references.get_mut(id as usize) {
            *references = references.saturating_sub(1);
            self.doubtful.push(id);
        }
    }

    /// Notes that a Node appeared or was deleted; returns its number if that is new.
    pub(super) fn set_existence(&mut self, name: &NodeName, exists: bool) -> Option<u32> {
        let id = if exists { self.intern(name, || name.clone()) } else { self.find(name)? };
        let flag = self.exists.get_mut(id as usize)?;
        let news = *flag != exists;
        *flag = exists;
        if !exists {
            self.doubtful.push(id);
        }
        news.then_some(id)
    }

    /// Frees the numbers that are no longer used. Call it when no list holds the number of a deleted Node.
    pub(super) fn sweep(&mut self) {
        for id in std::mem::take(&mut self.doubtful) {
            let used = self.exists(id) || self.references.get(id as usize).is_none_or(|references| *references > 0);
            if used {
                continue;
            }
            if let Some(name) = self.names.get_mut(id as usize).and_then(Option::take) {
                self.index.remove(id, &name);
                self.free.push(id);
            }
        }
    }

    fn intern(&mut self, name: &str, own: impl FnOnce() -> NodeName) -> u32 {
        if let Some(id) = self.find(name) {
            return id;
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.names.push(None);
                self.exists.push(false);
                self.references.push(0);
                u32::try_from(self.names.len() - 1).unwrap_or(u32::MAX)
            }
        };
        if let Some(place) = self.names.get_mut(id as usize) {
            *place = Some(own());
        }
        self.index.insert(id, name);
        // It will be referenced or declared to exist, or swept.
        self.doubtful.push(id);
        id
    }
}

/// Which numbers were seen in this walk; starting a new walk costs nothing.
#[derive(Debug, Default)]
pub(super) struct Marks {
    walk: u32,
    seen: Vec<u32>,
}

impl Marks {
    /// Starts a walk over numbers below `bound`.
    pub(super) fn start(&mut self, bound: usize) {
        self.walk = self.walk.wrapping_add(1);
        if self.walk == 0 {
            self.seen.fill(0);
            self.walk = 1;
        }
        if self.seen.len() < bound {
            self.seen.resize(bound, 0);
        }
    }

    /// Whether this walk meets the number for the first time.
    pub(super) fn is_first(&mut self, id: u32) -> bool {
        let walk = self.walk;
        self.seen.get_mut(id as usize).is_some_and(|seen| std::mem::replace(seen, walk) != walk)
    }

    /// Whether this walk has met the number.
    pub(super) fn contains(&self, id: u32) -> bool {
        self.seen.get(id as usize) == Some(&self.walk)
    }
}
