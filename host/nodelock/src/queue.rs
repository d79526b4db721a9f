//! Which attempt of this process is next on a node: in the order of arrival, for each key.
//!
//! Only an optimisation, and a courtesy: what keeps two pods apart is the write on the node, between processes too. Without
//! it, all that wait would wake at once, and all but one would have written for nothing (requirement R19).

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use topoloom_core::nodelock::needs::LockKey;

/// What a queue is for: a node, or a pod.
pub trait Id: Clone + Eq + Hash + Send {}

impl<K: Clone + Eq + Hash + Send> Id for K {}

type QueuePlace<K> = (K, LockKey);

type All<K> = HashMap<QueuePlace<K>, Arc<Turn<()>>>;

/// The queues of all nodes, or of all pods.
pub struct Queues<K> {
    turns: Mutex<All<K>>,
}

impl<K> Default for Queues<K> {
    fn default() -> Self {
        Self { turns: Mutex::default() }
    }
}

/// It is the attempt's turn, on all of its keys, until this is dropped.
pub struct Turns<'a, K: Id> {
    queues: &'a Queues<K>,
    held: Vec<(QueuePlace<K>, Option<OwnedMutexGuard<()>>)>,
}

impl<K: Id> Queues<K> {
    /// Waits for the turn on these keys of a node, in their order, so that no two wait for each other. Dropped while it waits,
    /// its place is given up.
    pub async fn turn(&self, node: &K, keys: &[LockKey]) -> Turns<'_, K> {
        let mut turns = Turns { queues: self, held: Vec::with_capacity(keys.len()) };
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        for key in keys {
            let place = (node.clone(), key);
            let turn = Arc::clone(self.lock().entry(place.clone()).or_default());
            turns.held.push((place, None));
            let guard = turn.lock_owned().await;
            if let Some((_, held)) = turns.held.last_mut() {
                *held = Some(guard);
            }
        }
        turns
    }

    /// How many nodes' queues are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none waits or works.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, All<K>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Id> Drop for Turns<'_, K> {
    fn drop(&mut self) {
        let mut turns = self.queues.lock();
        for (place, guard) in self.held.drain(..) {
            drop(guard);
            // No other waits or works: those that do have it in their hands.
            if turns.get(&place).is_some_and(|turn| Arc::strong_count(turn) == 1) {
                turns.remove(&place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const BOTH: [LockKey; 2] = LockKey::ALL;

    #[tokio::test]
    async fn r19_each_has_its_turn_in_the_order_in_which_they_came() {
        let (queues, node) = (Arc::new(Queues::default()), Arc::<str>::from("n"));
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = queues.turn(&node, &[LockKey::Shared]).await;
        let mut waiting = Vec::new();
        for number in 0..64 {
            let (queues, node, order) = (Arc::clone(&queues), Arc::clone(&node), Arc::clone(&order));
            let mut waits = Box::pin(async move {
                let _turn = queues.turn(&node, &[LockKey::Shared]).await;
                order.lock().unwrap().push(number);
            });
            assert_eq!((&mut waits).now_or_never(), None);
            waiting.push(waits);
        }
        // Some give up while they wait.
        drop(waiting.remove(10));
        drop(first);
        futures::future::join_all(waiting).await;
        let wanted: Vec<i32> = (0..64).filter(|number| *number != 10).collect();
        assert_eq!(*order.lock().unwrap(), wanted);
        assert!(queues.is_empty(), "nothing is kept of a node without waiters");
    }

    #[tokio::test]
    async fn other_nodes_and_other_keys_do_not_wait() {
        let (queues, one, two) = (Queues::default(), Arc::<str>::from("one"), Arc::<str>::from("two"));
        let shared = queues.turn(&one, &[LockKey::Shared]).await;
        let other = queues.turn(&one, &[LockKey::Cambricon]).now_or_never().expect("another key");
        let _there = queues.turn(&two, &BOTH).now_or_never().expect("another node");
        assert!(queues.turn(&one, &BOTH).now_or_never().is_none());
        drop(shared);
        assert!(queues.turn(&one, &BOTH).now_or_never().is_none());
        drop(other);
        assert!(queues.turn(&one, &BOTH).now_or_never().is_some());
    }
}
