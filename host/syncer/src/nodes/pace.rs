//! How fast what is due for many nodes at one moment is done.
//!
//! Owns two rates over all bindings of a process, whose virtual API server is one, and which nodes of a binding wait for their turn in one
//! of them:
//!
//! * the taint of physical clusters that do not answer (decision S5): a cluster that goes takes all its nodes with it;
//! * the removal of pods (decisions S10 and S17): a window that closes, or a binding that goes, has pods on all its nodes.
//!
//! A node that waits holds up no other: no worker waits with it. It is looked at again when its turn comes, and decided about anew then.
//!
//! # Failure story
//!
//! A turn that comes when nothing is to be done any more is lost, and so is the rest of one whose requests fail: the node stands in line
//! again, behind the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use topoloom_core::queue::Bucket;

use crate::ledger::PhysicalName;

/// How many nodes are tainted per second.
const TAINTS: u32 = 100;
/// How many pods are removed per second: three quarters of what their lane takes ([`lanes`](crate::lanes)), so that the other writes in it
/// do not wait behind them.
const REMOVALS: u32 = 150;
/// And so many at once after a pause: those of one node begin at once.
const REMOVALS_AT_ONCE: u32 = 50;

/// The rates of all bindings of a process. Clones are the same.
#[derive(Debug, Clone)]
pub struct Pace(Arc<Mutex<Buckets>>);

#[derive(Debug)]
struct Buckets {
    taints: Bucket,
    removals: Bucket,
}

impl Default for Pace {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Buckets {
            taints: Bucket::new(Duration::from_secs(1) / TAINTS, 1),
            removals: Bucket::new(Duration::from_secs(1) / REMOVALS, REMOVALS_AT_ONCE),
        })))
    }
}

impl Pace {
    fn buckets(&self) -> MutexGuard<'_, Buckets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After how long the next node may be tainted, by a clock that cannot be set. It has its turn then.
    pub(super) fn taint(&self, now: Duration) -> Duration {
        self.buckets().taints.reserve(now)
    }

    /// After how long the removal of so many pods may begin. They have their turn then.
    pub(super) fn removal(&self, pods: usize, now: Duration) -> Duration {
        let mut buckets = self.buckets();
        let begins = buckets.removals.reserve(now);
        for _ in 1..pods {
            buckets.removals.reserve(now);
        }
        begins
    }
}

/// The nodes of a binding that wait for their turn, and when it comes.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<PhysicalName, Duration>>);

impl Turns {
    fn turns(&self) -> MutexGuard<'_, HashMap<PhysicalName, Duration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long this node waits. Without a place in the line it gets one. When its turn has come it has none any more.
    pub(super) fn left(&self, name: &PhysicalName, now: Duration, reserve: impl FnOnce() -> Duration) -> Duration {
        let mut turns = self.turns();
        let due = turns.remove(name).unwrap_or_else(|| now.saturating_add(reserve()));
        let left = due.saturating_sub(now);
        if !left.is_zero() {
            turns.insert(Arc::clone(name), due);
        }
        left
    }

    /// This node has nothing to wait for.
    pub(super) fn forget(&self, name: &PhysicalName) {
        self.turns().remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Duration = Duration::from_secs(1_000);

    #[test]
    fn s5_a_hundred_nodes_are_tainted_in_a_second_whichever_bindings_they_are_of() {
        let one = Pace::default();
        let other = one.clone();
        let waits: Vec<Duration> = (0..250).flat_map(|_| [&one, &other].map(|pace| pace.taint(BEGIN))).collect();
        for second in 0..5 {
            assert_eq!(waits.iter().filter(|wait| wait.as_secs() == second).count(), 100, "second {second}");
        }
        // What was not used is not made up for.
        assert_eq!(one.taint(BEGIN + Duration::from_secs(60)), Duration::ZERO);
        assert_eq!(one.taint(BEGIN + Duration::from_secs(60)), Duration::from_millis(10));
    }

    #[test]
    fn s21_pods_of_many_nodes_are_removed_at_a_rate_and_those_of_one_node_begin_at_once() {
        let pace = Pace::default();
        assert_eq!(pace.removal(110, BEGIN), Duration::ZERO, "a full node");
        // The turn of each next node comes when all pods before it have gone: 60 of the first are ahead, then ten of each.
        let waits: Vec<u128> = (0..16).map(|_| pace.removal(10, BEGIN).as_millis()).collect();
        assert!((390..=420).contains(&waits[0]), "{waits:?}");
        assert!((1_390..=1_420).contains(&waits[15]), "{waits:?}");
        assert_eq!(pace.taint(BEGIN), Duration::ZERO, "taints have a rate of their own");
    }

    #[test]
    fn a_node_keeps_its_place_until_its_turn_and_stands_in_line_again_afterwards() {
        let (turns, node): (_, PhysicalName) = (Turns::default(), "w1".into());
        let second = Duration::from_secs(1);
        let reserve = |wait: Duration| move || wait;
        let never = || -> Duration { panic!("it has a place") };
        assert_eq!(turns.left(&node, BEGIN, reserve(2 * second)), 2 * second);
        assert_eq!(turns.left(&node, BEGIN + second, never), second);
        assert_eq!(turns.left(&node, BEGIN + 3 * second, never), Duration::ZERO);
        assert_eq!(turns.left(&node, BEGIN + 3 * second, reserve(second)), second);
        turns.forget(&node);
        assert_eq!(turns.left(&node, BEGIN + 3 * second, reserve(Duration::ZERO)), Duration::ZERO);
        assert!(turns.turns().is_empty(), "of a node that does not wait nothing is kept");
    }
}
