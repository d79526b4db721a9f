//! What is to be looked at, now or at a time, each key once and never twice at the same time.
//!
//! Owns the order only. A look decides by itself what is to be done; to look once too often is no mistake, so nothing is ever
//! taken off the list. A key that is put down while its work is under way is looked at again after that.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::Hash;

use jiff::Timestamp;

pub(super) struct Agenda<K> {
    due: BinaryHeap<Reverse<(Timestamp, K)>>,
    /// The time that counts: what else the heap has of a key is void.
    planned: HashMap<K, Timestamp>,
    ready: VecDeque<K>,
    waiting: HashSet<K>,
    busy: HashSet<K>,
    /// Put down while busy.
    again: HashSet<K>,
}

impl<K> Default for Agenda<K>
where
    K: Ord,
{
    fn default() -> Self {
        Self {
            due: BinaryHeap::new(),
            planned: HashMap::new(),
            ready: VecDeque::new(),
            waiting: HashSet::new(),
            busy: HashSet::new(),
            again: HashSet::new(),
        }
    }
}

impl<K> Agenda<K>
where
    K: Clone + Ord + Hash,
{
    /// It is to be looked at.
    pub(super) fn now(&mut self, key: K) {
        if self.busy.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// It is to be looked at at this time, or earlier.
    pub(super) fn at(&mut self, key: K, when: Timestamp) {
        if self.planned.get(&key).is_none_or(|planned| when < *planned) {
            self.planned.insert(key.clone(), when);
            self.due.push(Reverse((when, key)));
        }
    }

    /// What is due becomes ready.
    pub(super) fn wake(&mut self, now: Timestamp) {
        while let Some(Reverse((when, _))) = self.due.peek()
            && *when <= now
            && let Some(Reverse((when, key))) = self.due.pop()
        {
            if self.planned.get(&key) == Some(&when) {
                self.planned.remove(&key);
                self.now(key);
            }
        }
    }

    /// When to wake next.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.due.peek().map(|Reverse((when, _))| *when)
    }

    /// The next one; it is busy until it is [done](Self::done).
    pub(super) fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.busy.insert(key.clone());
        Some(key)
    }

    pub(super) fn done(&mut self, key: &K) {
        self.busy.remove(key);
        if let Some(key) = self.again.take(key) {
            self.now(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn taken(agenda: &mut Agenda<char>) -> String {
        std::iter::from_fn(|| agenda.take()).collect()
    }

    #[test]
    fn each_is_taken_once_in_the_order_of_arrival() {
        let mut agenda = Agenda::default();
        "abab".chars().for_each(|key| agenda.now(key));
        assert_eq!(taken(&mut agenda), "ab");
    }

    #[test]
    fn what_is_busy_is_taken_again_when_it_is_done() {
        let mut agenda = Agenda::default();
        agenda.now('a');
        assert_eq!(agenda.take(), Some('a'));
        agenda.now('a');
        agenda.now('a');
        assert_eq!(agenda.take(), None);
        agenda.done(&'a');
        assert_eq!(taken(&mut agenda), "a");
        agenda.done(&'a');
        assert_eq!(agenda.take(), None);
    }

    #[test]
    fn the_earliest_time_counts() {
        let mut agenda = Agenda::default();
        agenda.at('a', second(9));
        agenda.at('a', second(5));
        agenda.at('a', second(7));
        agenda.at('b', second(6));
        assert_eq!(agenda.next(), Some(second(5)));
        agenda.wake(second(4));
        assert_eq!(taken(&mut agenda), "");
        agenda.wake(second(6));
        assert_eq!(taken(&mut agenda), "ab");
        agenda.done(&'a');
        agenda.wake(second(60));
        assert_eq!(taken(&mut agenda), "", "the other times of a are void");
        agenda.at('a', second(70));
        agenda.wake(second(70));
        assert_eq!(taken(&mut agenda), "a");
    }
}
