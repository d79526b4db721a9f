//! A look-up table from text to the position of an entry that is stored elsewhere.
//!
//! Four bytes per slot instead of a second copy of every string: at 20 000 nodes that is what keeps names and
//! dictionaries small, and it makes the copy of a table for a view that is still held a plain memory copy.
//!
//! Open addressing with linear probing; removal shifts back, so there are no tombstones and churn does not fill the
//! table. The hash has fixed keys: the same history gives the same table.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::Packed;

/// Where the texts of an [`Index`] are.
pub(crate) trait Entries {
    /// The text at that position.
    fn entry(&self, at: u32) -> Option<&str>;
}

impl Entries for Packed {
    fn entry(&self, at: u32) -> Option<&str> {
        self.get(at as usize)
    }
}

impl Entries for Vec<Arc<str>> {
    fn entry(&self, at: u32) -> Option<&str> {
        self.get(at as usize).map(AsRef::as_ref)
    }
}

/// Positions by text. The texts come with every call and must be the same ones each time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// 0 = free, n = position n-1. The length is zero or a power of two.
    slots: Vec<u32>,
    used: usize,
}

impl Index {
    /// The position of that text.
    pub(crate) fn find(&self, text: &str, entries: &impl Entries) -> Option<u32> {
        let slot = self.probe(hash(text), |at| entries.entry(at) == Some(text))?;
        self.slots.get(slot)?.checked_sub(1)
    }

    /// Adds a position whose text is in `entries` already and not in the table yet.
    pub(crate) fn insert(&mut self, at: u32, entries: &impl Entries) {
        // Three quarters full: beyond that, linear probing walks long runs.
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.grow(entries);
        }
        self.place(at, entries);
        self.used += 1;
    }

    /// Takes a position out; its text must still be in `entries`.
    pub(crate) fn remove(&mut self, at: u32, entries: &impl Entries) {
        let Some(mut hole) = entries.entry(at).and_then(|text| self.probe(hash(text), |other| other == at)) else {
            return;
        };
        let mask = self.slots.len().wrapping_sub(1);
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let Some(entry) = self.slots.get(next).and_then(|slot| slot.checked_sub(1)) else { break };
            // An entry may move back into the hole unless its own run begins after it.
            let home = entries.entry(entry).map_or(next, |text| hash(text) as usize & mask);
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.set(hole, entry + 1);
                hole = next;
            }
        }
        self.set(hole, 0);
        self.used = self.used.saturating_sub(1);
    }

    /// The text at position `from` moves to position `to`; call it while `entries` still has it at `from`.
    pub(crate) fn renumber(&mut self, from: u32, to: u32, entries: &impl Entries) {
        let slot = entries.entry(from).and_then(|text| self.probe(hash(text), |other| other == from));
        if let Some(slot) = slot {
            self.set(slot, to + 1);
        }
    }

    /// Forgets everything and indexes positions 0 to `count` - 1.
    pub(crate) fn rebuild(count: u32, entries: &impl Entries) -> Self {
        let mut index = Self { slots: vec![0; capacity(count as usize)], used: count as usize };
        for at in 0..count {
            index.place(at, entries);
        }
        index
    }

    fn grow(&mut self, entries: &impl Entries) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![0; capacity(self.used + 1)];
        for at in old.into_iter().filter_map(|slot| slot.checked_sub(1)) {
            self.place(at, entries);
        }
    }

    fn place(&mut self, at: u32, entries: &impl Entries) {
        let Some(text) = entries.entry(at) else { return };
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = hash(text) as usize & mask;
        while self.slots.get(slot).is_some_and(|used| *used != 0) {
            slot = (slot + 1) & mask;
        }
        self.set(slot, at + 1);
    }

    fn probe(&self, hash: u64, mut wanted: impl FnMut(u32) -> bool) -> Option<usize> {
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = hash as usize & mask;
        loop {
            let at = self.slots.get(slot)?.checked_sub(1)?;
            if wanted(at) {
                return Some(slot);
            }
            slot = (slot + 1) & mask;
        }
    }

    fn set(&mut self, slot: usize, value: u32) {
        if let Some(place) = self.slots.get_mut(slot) {
            *place = value;
        }
    }
}

/// The table size for that many entries: at least a quarter stays free, so every probe ends.
fn capacity(entries: usize) -> usize {
    (entries * 4 / 3 + 1).next_power_of_two().max(8)
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_index_answers_like_a_map(steps in prop::collection::vec((0..60u32, any::<bool>()), 0..200)) {
            let texts: Vec<Arc<str>> = (0..60).map(|i| format!("entry-{i}").into()).collect();
            let mut index = Index::default();
            let mut model = BTreeMap::new();
            for (at, add) in steps {
                if add && model.insert(at, ()).is_none() {
                    index.insert(at, &texts);
                } else if !add && model.remove(&at).is_some() {
                    index.remove(at, &texts);
                }
                for (i, text) in (0u32..).zip(&texts) {
                    prop_assert_eq!(index.find(text, &texts), model.contains_key(&i).then_some(i));
                }
            }
        }
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        assert_eq!(Index::default().find("a", &Vec::<Arc<str>>::new()), None);
        assert_eq!(Index::rebuild(0, &Vec::<Arc<str>>::new()).find("a", &Vec::<Arc<str>>::new()), None);
    }
}
