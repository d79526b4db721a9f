//! Which node is in which row.

use std::sync::OnceLock;

use super::Packed;
use super::index::Index;
use crate::names::NodeName;

/// The names by row, dense and in no particular order, and the row of each name.
#[derive(Debug, Default)]
pub(super) struct Names {
    list: Vec<NodeName>,
    index: Index,
    /// Made when the first guest asks; valid until a node appears or is deleted.
    packed: OnceLock<Packed>,
}

impl Clone for Names {
    /// A clone is made only to be changed, so a copy of the packed form would be useless.
    fn clone(&self) -> Self {
        Self { list: self.list.clone(), index: self.index.clone(), packed: OnceLock::new() }
    }
}

impl Names {
    pub(super) fn list(&self) -> &[NodeName] {
        &self.list
    }

    pub(super) fn len(&self) -> u32 {
        // Bounded by `push`.
        u32::try_from(self.list.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn packed(&self) -> &Packed {
        self.packed.get_or_init(|| self.list.iter().map(|name| &**name).collect())
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        self.index.find(name, &self.list)
    }

    pub(super) fn get(&self, row: u32) -> Option<&NodeName> {
        self.list.get(row as usize)
    }

    /// Adds a name that is not there yet as the last row.
    pub(super) fn push(&mut self, name: NodeName) {
        self.packed.take();
        self.index.insert(self.len(), &name);
        self.list.push(name);
    }

    /// Takes a row out; the last row takes its place.
    pub(super) fn swap_remove(&mut self, row: u32) {
        let (Some(name), Some(last)) = (self.list.get(row as usize), self.list.last()) else { return };
        self.packed.take();
        self.index.remove(row, name);
        if row + 1 != self.len() {
            self.index.renumber(self.len() - 1, row, last);
        }
        self.list.swap_remove(row as usize);
    }
}
