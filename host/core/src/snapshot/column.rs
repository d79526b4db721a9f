//! One key over all rows: what readers hold, and what the writer knows beside it.

use std::sync::Arc;

use super::index::Index;
use super::{ColumnKey, Packed};

/// One key over all rows. Cloning it copies no data.
#[derive(Debug, Clone, Default)]
pub struct Column {
    // Two allocations: a node that takes an existing value changes the codes alone, so a baseline that is kept for
    // hours usually shares its dictionary.
    dictionary: Arc<Packed>,
    codes: Arc<Vec<u32>>,
}

impl Column {
    /// The distinct values; one that no node has any more may still be listed.
    #[must_use]
    pub fn dictionary(&self) -> &Packed {
        &self.dictionary
    }

    /// One code per row: 0 = the node lacks the key, n = dictionary entry n-1.
    #[must_use]
    pub fn codes(&self) -> &[u32] {
        &self.codes
    }

    /// The value in that row.
    #[must_use]
    pub fn value(&self, row: u32) -> Option<&str> {
        let code = *self.codes.get(row as usize)?;
        self.dictionary.get(code.checked_sub(1)? as usize)
    }
}

/// Whether a write changed a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Same,
    Changed,
}

/// A column with the writer's data about it.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) key: ColumnKey,
    column: Column,
    index: Index,
    /// How many rows have each dictionary entry.
    users: Vec<u32>,
    /// How many dictionary entries no row has.
    garbage: usize,
    /// Whether a value was changed since the last `take_touched`.
    touched: bool,
}

/// Unused dictionary entries that are not worth a compaction, which walks all rows: a few hundred short strings.
const GARBAGE_FLOOR: usize = 256;

impl Tracked {
    /// A column without any value.
    pub(super) fn new(key: ColumnKey, rows: u32) -> Self {
        let column = Column { dictionary: Arc::default(), codes: Arc::new(vec![0; rows as usize]) };
        Self { key, column, index: Index::default(), users: Vec::new(), garbage: 0, touched: false }
    }

    pub(super) fn column(&self) -> &Column {
        &self.column
    }

    pub(super) fn has_values(&self) -> bool {
        self.users.len() > self.garbage
    }

    /// Adds a last row.
    pub(super) fn push(&mut self, value: Option<&str>) -> Effect {
        let code = self.take(value);
        Arc::make_mut(&mut self.column.codes).push(code);
        self.touched |= code != 0;
        if code == 0 { Effect::Same } else { Effect::Changed }
    }

    /// Writes a row. An equal value needs no look-up and no copy for readers.
    pub(super) fn set(&mut self, row: u32, value: Option<&str>) -> Effect {
        if self.column.value(row) == value {
            return Effect::Same;
        }
        let old = self.column.codes.get(row as usize).copied().unwrap_or(0);
        let new = self.take(value);
        if new == old {
            return Effect::Same;
        }
        if let Some(code) = Arc::make_mut(&mut self.column.codes).get_mut(row as usize) {
            *code = new;
        }
        self.give_back(old);
        self.touched = true;
        Effect::Changed
    }

    /// Takes a row out; the last row takes its place.
    pub(super) fn swap_remove(&mut self, row: u32) {
        if (row as usize) < self.column.codes.len() {
            let old = Arc::make_mut(&mut self.column.codes).swap_remove(row as usize);
            self.give_back(old);
            self.touched |= old != 0;
        }
    }

    /// The key, if a value was changed since the last call.
    pub(super) fn take_touched(&mut self) -> Option<ColumnKey> {
        std::mem::take(&mut self.touched).then(|| self.key.clone())
    }

    /// Releases what growing reserved, unless a reader holds it.
    pub(super) fn shrink_to_fit(&mut self) {
        if let Some(dictionary) = Arc::get_mut(&mut self.column.dictionary) {
            dictionary.shrink_to_fit();
        }
        if let Some(codes) = Arc::get_mut(&mut self.column.codes) {
            codes.shrink_to_fit();
        }
        self.users.shrink_to_fit();
    }

    /// The code of a value, with one more user.
    fn take(&mut self, value: Option<&str>) -> u32 {
        let Some(value) = value else { return 0 };
        let code = match self.index.find(value, &*self.column.dictionary) {
            Some(entry) => entry + 1,
            None => match Arc::make_mut(&mut self.column.dictionary).push(value) {
                Ok(code) => {
                    self.index.insert(code - 1, value);
                    self.users.push(0);
                    self.garbage += 1;
                    code
                }
                // 4 GiB of distinct values under one key: the API server's own limits are far lower. Such a node lacks
                // the key; the guard then holds the result and does not let the topology shrink.
                Err(_) => return 0,
            },
        };
        if let Some(users) = self.users.get_mut(code as usize - 1) {
            if *users == 0 {
                self.garbage -= 1;
            }
            *users += 1;
        }
        code
    }

    /// One user less. Without users the entry is garbage, and too much garbage is compacted.
    fn give_back(&mut self, code: u32) {
        let Some(users) = code.checked_sub(1).and_then(|entry| self.users.get_mut(entry as usize)) else { return };
        *users = users.saturating_sub(1);
        if *users == 0 {
            self.garbage += 1;
            if self.garbage > GARBAGE_FLOOR && self.garbage * 2 > self.users.len() {
                self.compact();
            }
        }
    }

    /// Rewrites dictionary and codes without the entries that no row has. Values stay, codes do not.
    fn compact(&mut self) {
        let mut dictionary = Packed::default();
        let mut users = Vec::with_capacity(self.users.len() - self.garbage);
        let mut index = Index::default();
        let codes_by_old: Vec<u32> = self
            .column
            .dictionary
            .iter()
            .zip(&self.users)
            .map(|(value, &count)| {
                // What fitted before fits now.
                let code = if count == 0 { 0 } else { dictionary.push(value).unwrap_or(0) };
                if code != 0 {
                    users.push(count);
                    index.insert(code - 1, value);
                }
                code
            })
            .collect();
        dictionary.shrink_to_fit();
        let new_code = |code: &u32| match code.checked_sub(1) {
            Some(entry) => codes_by_old.get(entry as usize).copied().unwrap_or(0),
            None => 0,
        };
        let codes = self.column.codes.iter().map(new_code).collect();
        self.index = index;
        self.column = Column { dictionary: Arc::new(dictionary), codes: Arc::new(codes) };
        self.users = users;
        self.garbage = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// In this test a compaction may happen at any moment; in production it waits for enough garbage.
        #[test]
        fn a_column_is_a_list_of_values(
            steps in prop::collection::vec((0..5u8, any::<prop::sample::Index>(), prop::option::of(0..6u8)), 0..80),
        ) {
            let mut column = Tracked::new(ColumnKey::label("k"), 0);
            let mut model: Vec<Option<String>> = Vec::new();
            let mut held: Vec<(Column, Vec<Option<String>>)> = Vec::new();
            for (step, row, value) in steps {
                let value = value.map(|v| format!("v{v}"));
                let before = model.clone();
                match step {
                    0 | 1 => {
                        column.push(value.as_deref());
                        model.push(value);
                    }
                    2 if !model.is_empty() => {
                        let row = row.index(model.len());
                        column.set(row as u32, value.as_deref());
                        model[row] = value;
                    }
                    3 if !model.is_empty() => {
                        let row = row.index(model.len());
                        column.swap_remove(row as u32);
                        model.swap_remove(row);
                    }
                    4 => {
                        column.compact();
                        prop_assert_eq!(column.garbage, 0);
                        held.push((column.column().clone(), model.clone()));
                    }
                    _ => {}
                }
                let expect_touched = match step {
                    3 => before.iter().flatten().count() != model.iter().flatten().count(),
                    4 => false,
                    _ => before.len() == model.len() && before != model
                        || before.len() < model.len() && model.last().is_some_and(Option::is_some),
                };
                prop_assert_eq!(column.take_touched().is_some(), expect_touched);
                prop_assert_eq!(&values(column.column(), model.len()), &model);
                prop_assert_eq!(column.has_values(), model.iter().any(Option::is_some));
                let users: u32 = column.users.iter().sum();
                prop_assert_eq!(users as usize, model.iter().flatten().count());
                prop_assert_eq!(column.garbage, column.users.iter().filter(|users| **users == 0).count());
            }
            for (column, model) in held {
                prop_assert_eq!(values(&column, model.len()), model);
            }
        }
    }

    fn values(column: &Column, rows: usize) -> Vec<Option<String>> {
        assert_eq!(column.codes().len(), rows);
        (0..rows as u32).map(|row| column.value(row).map(str::to_owned)).collect()
    }

    #[test]
    fn churn_does_not_grow_the_dictionary() {
        let mut column = Tracked::new(ColumnKey::label("k"), 0);
        for row in 0..10 {
            column.push(Some(&format!("start-{row}")));
        }
        for i in 0..100_000 {
            column.set(i % 10, Some(&format!("value-{i}")));
            assert!(column.column().dictionary().len() <= 2 * 10 + GARBAGE_FLOOR + 2, "step {i}");
        }
        for row in 0..10 {
            assert_eq!(column.column().value(row), Some(&*format!("value-{}", 99_990 + row)));
        }
    }

    #[test]
    fn a_value_that_comes_back_takes_its_old_entry() {
        let mut column = Tracked::new(ColumnKey::label("k"), 1);
        for _ in 0..1000 {
            column.set(0, Some("a"));
            column.set(0, Some("b"));
        }
        assert_eq!(column.column().dictionary().len(), 2);
    }

    #[test]
    fn an_edit_to_a_known_value_copies_no_dictionary() {
        let mut column = Tracked::new(ColumnKey::label("k"), 2);
        column.set(0, Some("a"));
        column.set(1, Some("b"));
        let held = column.column().clone();
        column.set(1, Some("a"));
        assert!(Arc::ptr_eq(&held.dictionary, &column.column.dictionary));
        assert_eq!(held.value(1), Some("b"));
    }
}
