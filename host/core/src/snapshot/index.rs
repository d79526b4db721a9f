//! A look-up table from text to the position of an entry that is stored elsewhere.
//!
//! Eight bytes per slot instead of a second copy of every string. At 20 000 nodes that keeps names and dictionaries
//! small, and makes the copy of a table for a view that is still in use a plain memory copy. Half of a slot is the
//! hash: with it, other texts are recognised and the table grows without reading text, which is cold memory.
//!
//! Open addressing with linear probing; removal shifts back, so there are no tombstones and churn does not fill the
//! table. The hash has fixed keys, so the same history gives the same table. A client that can write node names and
//! labels freely can make the table slow; such a client can do worse damage.

use super::Packed;
use crate::names::NodeName;

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

impl Entries for Vec<NodeName> {
    fn entry(&self, at: u32) -> Option<&str> {
        self.get(at as usize).map(|name| &**name)
    }
}

impl Entries for Vec<Option<NodeName>> {
    fn entry(&self, at: u32) -> Option<&str> {
        self.get(at as usize)?.as_deref()
    }
}

/// Positions by text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Index {
    /// The length is zero or a power of two.
    slots: Vec<IndexSlot>,
    used: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct IndexSlot {
    hash: u32,
    /// 0 = free, n = position n-1.
    code: u32,
}

impl Index {
    /// The position of that text.
    pub(crate) fn find(&self, text: &str, entries: &impl Entries) -> Option<u32> {
        let slot = self.probe(hash(text), |at| entries.entry(at) == Some(text))?;
        self.slots.get(slot)?.code.checked_sub(1)
    }

    /// Adds the position of a text that is not in the table yet.
    pub(crate) fn insert(&mut self, at: u32, text: &str) {
        // Three quarters full: beyond that, linear probing needs many steps.
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            let old = std::mem::take(&mut self.slots);
            self.slots = vec![IndexSlot::default(); (old.len() * 2).max(8)];
            old.into_iter().filter(|slot| slot.code != 0).for_each(|slot| self.place(slot));
        }
        self.place(IndexSlot { hash: hash(text), code: at + 1 });
        self.used += 1;
    }

    /// Takes a position out, given its text.
    pub(crate) fn remove(&mut self, at: u32, text: &str) {
        let Some(mut hole) = self.probe(hash(text), |other| other == at) else { return };
        let mask = self.mask();
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let Some(slot) = self.slots.get(next).copied().filter(|slot| slot.code != 0) else { break };
            // An entry may move back into the hole unless its own run begins after it.
            let home = slot.hash as usize & mask;
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.set(hole, slot);
                hole = next;
            }
        }
        self.set(hole, IndexSlot::default());
        self.used = self.used.saturating_sub(1);
    }

    /// The text at position `from` is at position `to` from now on.
    pub(crate) fn renumber(&mut self, from: u32, to: u32, text: &str) {
        let hash = hash(text);
        if let Some(slot) = self.probe(hash, |other| other == from) {
            self.set(slot, IndexSlot { hash, code: to + 1 });
        }
    }

    fn place(&mut self, entry: IndexSlot) {
        let mask = self.mask();
        let mut at = entry.hash as usize & mask;
        while self.slots.get(at).is_some_and(|slot| slot.code != 0) {
            at = (at + 1) & mask;
        }
        self.set(at, entry);
    }

    /// At least a quarter of the slots is free, so every probe ends.
    fn probe(&self, hash: u32, mut is_wanted: impl FnMut(u32) -> bool) -> Option<usize> {
        let mask = self.mask();
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots.get(at)?;
            let position = slot.code.checked_sub(1)?;
            if slot.hash == hash && is_wanted(position) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn mask(&self) -> usize {
        self.slots.len().wrapping_sub(1)
    }

    fn set(&mut self, at: usize, entry: IndexSlot) {
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = entry;
        }
    }
}

/// Eight bytes at a time, folded by a wide multiplication: names differ in a digit or two, and every bit of the product
/// depends on all of them.
fn hash(text: &str) -> u32 {
    // Odd numbers with about as many ones as zeros, from the digits of pi and e.
    const PI: u64 = 0x243f_6a88_85a3_08d3;
    const E: u64 = 0xb7e1_5162_8aed_2a6b;
    let fold = |a: u64, b: u64| {
        let wide = u128::from(a) * u128::from(b);
        (wide as u64) ^ ((wide >> 64) as u64)
    };
    let mut state = E ^ text.len() as u64;
    let mut chunks = text.as_bytes().chunks_exact(8);
    for chunk in &mut chunks {
        state = fold(state ^ chunk.try_into().map_or(0, u64::from_le_bytes), PI);
    }
    let rest = chunks.remainder().iter().fold(0, |rest, byte| rest << 8 | u64::from(*byte));
    let state = fold(state ^ rest, PI);
    (state ^ state >> 32) as u32
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_index_answers_like_a_map(steps in prop::collection::vec((0..60u32, any::<bool>()), 0..200)) {
            let texts: Vec<NodeName> = (0..60).map(|i| format!("entry-{i}").into()).collect();
            let mut index = Index::default();
            let mut model = BTreeMap::new();
            for (at, add) in steps {
                if add && model.insert(at, ()).is_none() {
                    index.insert(at, &texts[at as usize]);
                } else if !add && model.remove(&at).is_some() {
                    index.remove(at, &texts[at as usize]);
                }
                for (i, text) in (0u32..).zip(&texts) {
                    prop_assert_eq!(index.find(text, &texts), model.contains_key(&i).then_some(i));
                }
            }
        }
    }

    #[test]
    fn an_empty_index_finds_nothing() {
        assert_eq!(Index::default().find("a", &Vec::<NodeName>::new()), None);
    }

    #[test]
    fn similar_names_do_not_crowd() {
        for pattern in ["node-", "10-0-", "ip-10-1-2-3.region.compute.internal-", "a"] {
            let mut buckets = vec![0u32; 1 << 12];
            for i in 0..1 << 12 {
                buckets[hash(&format!("{pattern}{i:05}")) as usize & 0xfff] += 1;
            }
            // With one entry per bucket on average a random function gives about 7 at most.
            assert!(buckets.iter().all(|count| *count < 12), "{pattern}: {:?}", buckets.iter().max());
        }
    }
}
