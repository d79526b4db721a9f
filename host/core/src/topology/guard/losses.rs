//! Nodes that lost their place within `holdFor`. The guard counts them together with those that the next result would
//! take.
//!
//! While the process runs they are known by name, so a Node that returns or is deleted no longer counts. Across a
//! restart only numbers by time are kept ([`Bucket`]), which fit into a status even if the cluster is large. After a
//! restart any Node without a place may be one of them: rather too many are counted than too few.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::Safety;
use crate::names::NodeName;

/// This many lost Nodes are few in every cluster.
pub const FEW: u64 = 10;

/// How many buckets one `holdFor` has, and how many are read at most.
const BUCKETS: u64 = 8;
const READ: usize = 64;

/// What happens to the reference in one round.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Loss {
    /// Existing Nodes that have a place, or had one within the last `holdFor`.
    pub reference: u64,
    /// Those of them that the result places nowhere.
    pub lost: u64,
    /// Those of `lost` that have a place as long as this result is not written.
    pub fresh: u64,
    /// The lost Nodes, as far as their names are known.
    pub names: Vec<NodeName>,
    /// A result is held already. Then any lost Node holds the next one: while labels return, fewer and fewer Nodes are
    /// missing, and the objects of the last ones must not be deleted.
    pub is_held: bool,
}

impl Loss {
    /// How many Nodes may be lost without a hold.
    #[must_use]
    pub fn limit(&self, safety: &Safety) -> u64 {
        share(self.reference, safety.max_lose_percent).max(FEW)
    }

    /// Whether the lost Nodes are few enough to be written.
    #[must_use]
    pub fn is_few(&self, safety: &Safety) -> bool {
        !self.is_held && self.lost <= self.limit(safety)
    }
}

/// So many percent of the reference, rounded down.
pub(super) fn share(reference: u64, percent: u8) -> u64 {
    u64::try_from(u128::from(reference) * u128::from(percent) / 100).unwrap_or(u64::MAX)
}

/// How many Nodes lost their place at about this time, rather later than earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// When the last of them lost its place.
    pub at: Timestamp,
    /// How many.
    pub nodes: u64,
}

/// The Nodes whose place was taken by results that were written within the last `holdFor`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Losses {
    named: BTreeMap<NodeName, Timestamp>,
    /// From before a restart.
    unnamed: Vec<Bucket>,
    is_held: bool,
}

impl Losses {
    /// What was kept across a restart. If a result was held before the restart, it counts as held now.
    #[must_use]
    pub fn remembered(kept: impl IntoIterator<Item = Bucket>, held_until_now: Option<Timestamp>) -> Self {
        let since = |bucket: Bucket| Bucket { at: held_until_now.unwrap_or(bucket.at), ..bucket };
        let unnamed = kept.into_iter().take(READ).map(since).collect();
        Self { named: BTreeMap::new(), unnamed, is_held: held_until_now.is_some() }
    }

    /// Forgets losses older than `holdFor`. While a result is held nothing is forgotten: labels that are removed over a
    /// longer time than the wait must not count as a small loss.
    pub fn pass(&mut self, now: Timestamp, safety: &Safety) {
        let times = self.named.values_mut().chain(self.unnamed.iter_mut().map(|bucket| &mut bucket.at));
        // The clock went back. How long ago the loss was is unknown, so its time starts again now.
        times.for_each(|at| *at = (*at).min(now));
        if !self.is_held {
            let counts = |at: &Timestamp| at.checked_add(safety.hold_for).map_or(true, |until| until > now);
            self.named.retain(|_, at| counts(at));
            self.unnamed.retain(|bucket| counts(&bucket.at));
        }
    }

    /// The last result is held.
    pub fn hold(&mut self) {
        self.is_held = true;
    }

    /// The last result is not held.
    pub fn release(&mut self) {
        self.is_held = false;
    }

    /// Notes the loss of a result that passed and is about to be written.
    pub fn take_in(&mut self, loss: &Loss, now: Timestamp) {
        // A Node that is not lost any more has returned or is gone.
        let known = std::mem::take(&mut self.named);
        let lost = loss.names.iter().map(|name| (name.clone(), known.get(name).copied().unwrap_or(now)));
        self.named = lost.collect();
    }

    /// A held result is confirmed: the Nodes that it places are the reference from here on.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// What is kept across a restart: few numbers, however many Nodes were lost.
    #[must_use]
    pub fn buckets(&self, safety: &Safety) -> Vec<Bucket> {
        let width = i64::try_from((safety.hold_for.as_secs() / BUCKETS).max(1)).unwrap_or(i64::MAX);
        let mut buckets: BTreeMap<i64, Bucket> = BTreeMap::new();
        let named = self.named.values().map(|at| Bucket { at: *at, nodes: 1 });
        for lost in named.chain(self.unnamed.iter().copied()) {
            let bucket = buckets.entry(lost.at.as_second().div_euclid(width)).or_insert(Bucket { nodes: 0, ..lost });
            bucket.at = bucket.at.max(lost.at);
            bucket.nodes = bucket.nodes.saturating_add(lost.nodes);
        }
        buckets.into_values().collect()
    }

    /// When the last loss is forgotten, if nothing else happens.
    #[must_use]
    pub fn until(&self, hold_for: Duration) -> Option<Timestamp> {
        let times = self.named.values().copied().chain(self.unnamed.iter().map(|bucket| bucket.at));
        times.max()?.checked_add(hold_for).ok()
    }

    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.named.keys()
    }

    /// How many of them are known by number only.
    pub(super) fn unnamed(&self) -> u64 {
        self.unnamed.iter().fold(0, |sum, bucket| sum.saturating_add(bucket.nodes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).expect("a time")
    }

    fn loss(names: &[&str]) -> Loss {
        Loss { names: names.iter().map(|name| (*name).into()).collect(), ..Loss::default() }
    }

    fn names(losses: &Losses) -> Vec<&str> {
        losses.names().map(|name| &**name).collect()
    }

    #[test]
    fn a_loss_counts_for_as_long_as_a_result_would_be_held() {
        let safety = Safety::default();
        let mut losses = Losses::default();
        losses.take_in(&loss(&["a"]), at(0));
        losses.take_in(&loss(&["a", "b"]), at(300));
        losses.pass(at(599), &safety);
        assert_eq!(names(&losses), ["a", "b"]);
        assert_eq!(losses.until(safety.hold_for), Some(at(900)));
        losses.pass(at(600), &safety);
        assert_eq!(names(&losses), ["b"]);
        losses.pass(at(900), &safety);
        assert_eq!(losses, Losses::default());
    }

    #[test]
    fn nothing_is_forgotten_while_a_result_is_held() {
        let safety = Safety::default();
        let mut losses = Losses::default();
        losses.take_in(&loss(&["a"]), at(0));
        losses.hold();
        losses.pass(at(6000), &safety);
        assert_eq!(names(&losses), ["a"]);
        losses.release();
        losses.pass(at(6000), &safety);
        assert_eq!(names(&losses), [""; 0]);
    }

    #[test]
    fn a_node_that_returns_or_is_gone_counts_no_more() {
        let mut losses = Losses::default();
        losses.take_in(&loss(&["a", "b"]), at(0));
        losses.take_in(&loss(&["b"]), at(1));
        assert_eq!(losses.buckets(&Safety::default()), [Bucket { at: at(0), nodes: 1 }]);
    }

    #[test]
    fn a_clock_that_goes_back_restarts_the_wait() {
        let safety = Safety::default();
        let mut losses = Losses::remembered([Bucket { at: at(5000), nodes: 3 }], None);
        losses.pass(at(0), &safety);
        losses.pass(at(599), &safety);
        assert_eq!(losses.unnamed(), 3);
        losses.pass(at(600), &safety);
        assert_eq!(losses.unnamed(), 0);
    }

    #[test]
    fn a_restart_keeps_few_numbers_of_many_nodes_and_none_of_them_earlier() {
        let safety = Safety::default();
        let mut losses = Losses::default();
        let all: Vec<String> = (0..6000).map(|n| format!("node-{n:05}")).collect();
        for (n, _) in all.iter().enumerate() {
            if n % 100 == 0 {
                let so_far: Vec<&str> = all[..n + 100].iter().map(String::as_str).collect();
                losses.take_in(&loss(&so_far), at(i64::try_from(n / 10).unwrap()));
            }
        }
        let kept = losses.buckets(&safety);
        assert!(kept.len() <= 9, "{kept:?}");
        assert_eq!(kept.iter().map(|bucket| bucket.nodes).sum::<u64>(), 6000);
        let again = Losses::remembered(kept, None);
        assert_eq!(again.until(safety.hold_for), losses.until(safety.hold_for));
        let left = |losses: &Losses, second| {
            let mut losses = losses.clone();
            losses.pass(at(second), &safety);
            losses.unnamed() + losses.names().count() as u64
        };
        for second in (600..1300).step_by(50) {
            assert!(left(&again, second) >= left(&losses, second), "at {second}");
        }
        assert_eq!(left(&again, 1200), 0);
    }

    #[test]
    fn few_are_ten_or_a_share_of_the_reference() {
        let safety = Safety::default();
        let lost = |lost, reference| Loss { reference, lost, ..Loss::default() }.is_few(&safety);
        assert!(lost(10, 10) && lost(10, 12) && !lost(11, 12));
        assert!(lost(30, 100) && !lost(31, 100) && lost(6000, 20_000) && !lost(6001, 20_000));
    }
}
