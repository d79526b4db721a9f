//! What a sweeper remembers of the nodes that it has looked at: the state of their locks, since when, and what it has
//! reported.
//!
//! A plain value, like everything here: each step gets the time as an argument. A sweep of one node does not look at
//! the others.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::holder::{LockState, Why};
use super::sweep::{FoundLock, Mode};
use crate::names::{LockValue, NodeName};

/// How long a device plugin that has answered may take to give a lock back itself.
pub const LINGER: Duration = Duration::from_secs(1);

/// How nodes were found.
#[derive(Debug, Default)]
pub struct Watchlist {
    known: HashMap<NodeName, WatchedNode>,
    /// Locks by their word.
    counts: BTreeMap<&'static str, usize>,
    /// Nodes with a stuck lock, and since when it has been seen.
    stuck: BTreeMap<NodeName, Duration>,
}

/// What follows from a sweep.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SweepVerdict {
    /// What has to be reported, each state once.
    pub report: Vec<FoundLock>,
    /// How long a device plugin still has to give a lock back before it may be removed.
    pub linger: Option<Duration>,
}

/// What is known of a node since it was looked at first.
#[derive(Debug, Default)]
struct WatchedNode {
    stands: Vec<FoundLock>,
    values: HashMap<LockValue, WatchedValue>,
}

/// What is known of a value.
#[derive(Debug, Clone, Copy)]
struct WatchedValue {
    seen: Duration,
    /// Since when no pod holds it.
    leaked: Option<Duration>,
    /// The word under which it was reported last.
    reported: Option<&'static str>,
}

impl Watchlist {
    /// Whether anything is known of a node.
    #[must_use]
    pub fn knows(&self, node: &str) -> bool {
        self.known.contains_key(node)
    }

    /// A sweep has found this on a node.
    pub fn enter(&mut self, node: &NodeName, stands: &[FoundLock], mode: Mode, now: Duration) -> SweepVerdict {
        self.uncount(node);
        let mut verdict = SweepVerdict::default();
        if stands.is_empty() {
            self.known.remove(node);
            return verdict;
        }
        let known = self.known.entry(node.clone()).or_default();
        known.stands = stands.to_vec();
        known.values.retain(|value, _| stands.iter().any(|stands| stands.value.as_ref() == Some(value)));
        for stands in stands {
            let Some(value) = &stands.value else { continue };
            let first = WatchedValue { seen: now, leaked: None, reported: None };
            let entry = known.values.entry(value.clone()).or_insert(first);
            match &stands.state {
                LockState::Held(_) => entry.leaked = None,
                LockState::Over(reason) => {
                    let since = *entry.leaked.get_or_insert(now);
                    let left = (since + LINGER).saturating_sub(now);
                    if reason.may_be_given_back() && !left.is_zero() {
                        verdict.linger = Some(left.max(verdict.linger.unwrap_or_default()));
                        continue;
                    }
                }
            }
            if is_worth_reporting(&stands.state, mode) && entry.reported != Some(stands.word()) {
                entry.reported = Some(stands.word());
                verdict.report.push(stands.clone());
            }
        }
        self.count(node);
        verdict
    }

    /// How many locks each word has, for every word that was ever seen.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, usize)> {
        self.counts.iter().map(|(word, count)| (*word, *count))
    }

    /// For how long the lock has been seen that has been stuck for longest.
    #[must_use]
    pub fn longest_stuck(&self, now: Duration) -> Duration {
        self.stuck.values().min().map_or(Duration::ZERO, |since| now.saturating_sub(*since))
    }

    /// A node is about to be known otherwise: it counts no more.
    fn uncount(&mut self, node: &str) {
        for stands in self.known.get(node).into_iter().flat_map(|known| &known.stands) {
            if let Some(count) = self.counts.get_mut(stands.word()) {
                *count = count.saturating_sub(1);
            }
        }
        self.stuck.remove(node);
    }

    /// It counts as it is known now.
    fn count(&mut self, node: &NodeName) {
        let Some(known) = self.known.get(node) else { return };
        for stands in &known.stands {
            *self.counts.entry(stands.word()).or_default() += 1;
        }
        let stuck = known.stands.iter().filter(|stands| stands.word() == Why::Stuck.word());
        let seen = stuck.filter_map(|stands| Some(known.values.get(stands.value.as_ref()?)?.seen)).min();
        if let Some(seen) = seen {
            self.stuck.insert(node.clone(), seen);
        }
    }
}

fn is_worth_reporting(state: &LockState, mode: Mode) -> bool {
    match state {
        LockState::Held(held) => matches!(held.why, Why::Stuck | Why::Unparsable),
        // What is removed is reported when it is.
        LockState::Over(_) => mode == Mode::Report,
    }
}

#[cfg(test)]
mod tests {
    use super::super::holder::{LockHeld, OrphanReason};
    use super::super::sweep::LEAKED;
    use super::*;

    const LONG_AGO: Duration = Duration::from_secs(100);

    fn held(why: Why) -> LockState {
        LockState::Held(LockHeld { holder: None, left: None, why })
    }

    fn found(found: &[(&str, &LockState)]) -> Vec<FoundLock> {
        let stands = |(value, state): &(&str, &LockState)| FoundLock {
            key: 0,
            value: Some((*value).into()),
            pod: None,
            state: (*state).clone(),
        };
        found.iter().map(stands).collect()
    }

    #[test]
    fn a_node_counts_as_it_was_found_last() {
        let (stuck, leaked) = (held(Why::Stuck), LockState::Over(OrphanReason::Gone));
        let mut list = Watchlist::default();
        let mut enter = |node: &str, what: &[(&str, &LockState)], seconds: u64| {
            let now = Duration::from_secs(seconds);
            let _ = list.enter(&node.into(), &found(what), Mode::Repair, now);
            let count = |of: &str| list.counts().find(|(word, _)| *word == of).map_or(0, |(_, count)| count);
            (count(LEAKED), count("stuck"), list.longest_stuck(LONG_AGO).as_secs())
        };
        assert_eq!(enter("b", &[("2", &stuck)], 3), (0, 1, 97));
        assert_eq!(enter("a", &[("1", &stuck)], 7), (0, 2, 97));
        assert_eq!(enter("c", &[("3", &leaked), ("4", &leaked)], 9), (2, 2, 97));
        // Looked at again, it counts once, and is as old as it was.
        assert_eq!(enter("c", &[("3", &leaked)], 9), (1, 2, 97));
        assert_eq!(enter("a", &[("1", &stuck)], 50), (1, 2, 97));
        assert_eq!(enter("b", &[("2", &leaked)], 60), (2, 1, 93));
        assert_eq!(enter("a", &[], 70), (2, 0, 0));
        assert!(!list.knows("a") && list.knows("b"));
        let _ = list.enter(&"b".into(), &[], Mode::Repair, LONG_AGO);
        let _ = list.enter(&"c".into(), &[], Mode::Repair, LONG_AGO);
        assert!(list.counts().all(|(_, count)| count == 0), "{list:?}");
    }

    #[test]
    fn each_state_of_a_value_is_reported_once_and_what_is_repaired_is_not_reported_before() {
        let (stuck, leaked) = (held(Why::Stuck), LockState::Over(OrphanReason::Gone));
        let node: NodeName = "n".into();
        let mut list = Watchlist::default();
        let mut reported = |what: &[(&str, &LockState)], mode| {
            let verdict = list.enter(&node, &found(what), mode, LONG_AGO);
            assert_eq!(verdict.linger, None);
            verdict.report.iter().map(FoundLock::word).collect::<Vec<_>>()
        };
        assert_eq!(reported(&[("1", &held(Why::Binding))], Mode::Report), [""; 0]);
        assert_eq!(reported(&[("1", &stuck)], Mode::Report), ["stuck"]);
        assert_eq!(reported(&[("1", &stuck)], Mode::Report), [""; 0]);
        assert_eq!(reported(&[("1", &leaked)], Mode::Report), [LEAKED]);
        assert_eq!(reported(&[("1", &leaked), ("2", &held(Why::Unparsable))], Mode::Report), ["unparsable"]);
        // Another value is another lock, also the same one after it was gone.
        assert_eq!(reported(&[("3", &stuck)], Mode::Report), ["stuck"]);
        assert_eq!(reported(&[("1", &leaked)], Mode::Report), [LEAKED]);
        assert_eq!(reported(&[("4", &leaked), ("5", &stuck)], Mode::Repair), ["stuck"]);
    }

    #[test]
    fn a_device_plugin_that_has_answered_has_a_moment_to_give_its_lock_back() {
        let node: NodeName = "n".into();
        let mut list = Watchlist::default();
        let mut enter = |state: &LockState, millis: u64| {
            let verdict = list.enter(&node, &found(&[("1", state)]), Mode::Report, Duration::from_millis(millis));
            (verdict.linger.map(|left| left.as_millis()), verdict.report.len())
        };
        let started = LockState::Over(OrphanReason::Started);
        assert_eq!(enter(&started, 1_000), (Some(1_000), 0));
        assert_eq!(enter(&started, 1_999), (Some(1), 0));
        // Held again in between, it has as long again.
        assert_eq!(enter(&held(Why::Allocating), 1_999), (None, 0));
        assert_eq!(enter(&started, 2_500), (Some(1_000), 0));
        assert_eq!(enter(&started, 3_500), (None, 1));
        // No plugin releases the lock of a pod that is gone.
        assert_eq!(enter(&LockState::Over(OrphanReason::Gone), 3_500), (None, 0));
    }
}
