//! Small maps of which there are thousands, such as the pods of each node.
//!
//! Owns [`SortedMap`]: all entries are one allocation, in the order of their keys. A map of the standard library has room for eleven
//! entries from the first one on. An entry is found by binary search, and a new one moves all that stand behind it: it is no map for
//! what has many thousands of entries.

/// Up to so many entries no room is held for more.
const EXACT: usize = 16;

/// Of so many places one at least is in use.
const SPARSE: usize = 4;

/// A map in one allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortedMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K, V> SortedMap<K, V> {
    /// Whether it has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All entries, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// All keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.0.iter().map(|(key, _)| key)
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    fn place(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(key))
    }

    /// The value under this key.
    #[must_use]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.0.get(self.place(key).ok()?).map(|(_, value)| value)
    }

    /// The value under this key, to be changed. The key is held from now on instead of the equal one, as with [`Self::insert`].
    pub fn renew(&mut self, key: &K) -> Option<&mut V>
    where
        K: Clone,
    {
        let place = self.place(key).ok()?;
        let (known, value) = self.0.get_mut(place)?;
        known.clone_from(key);
        Some(value)
    }

    /// Sets a value. Returns the one that was there. The key is held instead of the equal one: it shares its text with all else that
    /// came with it, and the text of the other one may have no other use.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(place) => self.0.get_mut(place).map(|entry| std::mem::replace(entry, (key, value)).1),
            Err(place) => {
                if self.0.len() < EXACT {
                    self.0.reserve_exact(1);
                }
                self.0.insert(place, (key, value));
                None
            }
        }
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.place(key).ok()?;
        let (_, value) = self.0.remove(place);
        let len = self.0.len();
        if len <= self.0.capacity() / SPARSE {
            // For twice as many: the next entries find room.
            self.0.shrink_to(len.saturating_mul(2));
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    /// A change of a map: a value under a key, or none.
    fn changes() -> impl Strategy<Value = Vec<(u8, Option<u8>)>> {
        prop::collection::vec((0..40_u8, prop::option::weighted(0.6, any::<u8>())), 0..200)
    }

    proptest! {
        #[test]
        fn it_is_at_any_time_as_a_map_of_the_standard_library(history in changes()) {
            let mut map: SortedMap<u8, u8> = SortedMap::default();
            let mut wanted: BTreeMap<u8, u8> = BTreeMap::new();
            for (key, value) in history {
                prop_assert_eq!(map.renew(&key).copied(), wanted.get(&key).copied());
                match value {
                    Some(value) => prop_assert_eq!(map.insert(key, value), wanted.insert(key, value)),
                    None => prop_assert_eq!(map.remove(&key), wanted.remove(&key)),
                }
                prop_assert_eq!(map.get(&key), wanted.get(&key));
                prop_assert_eq!(map.is_empty(), wanted.is_empty());
                prop_assert!(map.iter().eq(wanted.iter()));
                prop_assert!(map.keys().eq(wanted.keys()));
            }
        }
    }

    #[test]
    fn a_few_entries_have_no_room_for_more_and_the_room_of_many_goes_with_them() {
        let mut map = SortedMap::default();
        for number in 0..3_u16 {
            map.insert(number, ());
        }
        assert_eq!(map.0.capacity(), 3);
        for number in 3..1_000_u16 {
            map.insert(number, ());
        }
        for number in 2..1_000_u16 {
            map.remove(&number);
        }
        assert!(map.0.capacity() < 2 * SPARSE, "{}", map.0.capacity());
        for number in 0..2_u16 {
            map.remove(&number);
        }
        assert_eq!((map.is_empty(), map.0.capacity()), (true, 0));
    }

    #[test]
    fn of_two_equal_keys_the_last_one_is_held() {
        let [first, second, third]: [Arc<str>; 3] = ["a", "a", "a"].map(Arc::from);
        let mut map = SortedMap::default();
        map.insert(Arc::clone(&first), 1);
        assert_eq!(map.insert(Arc::clone(&second), 2), Some(1));
        assert!(map.keys().all(|key| Arc::ptr_eq(key, &second)));
        assert_eq!(map.renew(&third), Some(&mut 2));
        assert!(map.keys().all(|key| Arc::ptr_eq(key, &third)));
    }
}
