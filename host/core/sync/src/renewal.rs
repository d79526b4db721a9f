//! When the lease of a virtual node is renewed, and with which time (section 7, decisions S21 and S24).
//!
//! Owns the time that a renewal carries and the turn of each lease: a [`Wheel`] on which all leases of a process are spread
//! evenly. Never: a client, a clock. Times of day are arguments, turns are measured by a clock that cannot be set.
//!
//! # Failure story
//!
//! node-lifecycle counts a renewal only if its time is later than the last one that it saw, whatever its own clock shows. So
//! the time of a renewal never goes back, even where the clock does: a successor whose clock is an hour behind renews with
//! the stored time and a microsecond more.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use topoloom_core::names::NodeName;

/// The smallest step of a time in a Lease.
const MICROSECOND: SignedDuration = SignedDuration::from_micros(1);
/// Clocks of one cluster that differ by less than this are as good as equal.
const TOLERATED_SKEW: SignedDuration = SignedDuration::from_secs(2);

/// The time of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenewTime {
    /// What to write, in whole microseconds.
    pub time: Timestamp,
    /// How far the stored time is ahead of our clock, where that is too far to be a delay: one of the two clocks is wrong.
    pub skew: Option<SignedDuration>,
}

/// The time of the next renewal: now, or just after the stored one where that is later.
#[must_use]
pub fn renew_time(now: Timestamp, stored: Option<Timestamp>) -> RenewTime {
    let now = whole_micros(now);
    let Some(stored) = stored else { return RenewTime { time: now, skew: None } };
    // A stored time of another program may have nanoseconds: the next whole microsecond is later all the same.
    let next = whole_micros(stored).checked_add(MICROSECOND).unwrap_or(Timestamp::MAX);
    let ahead = stored.duration_since(now);
    RenewTime { time: now.max(next), skew: (ahead > TOLERATED_SKEW).then_some(ahead) }
}

/// Without what is finer than a microsecond: a Lease cannot hold it.
fn whole_micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}

/// The turns of all leases, spread evenly over the interval between two renewals.
///
/// The interval is cut into slots. A new lease gets the slot with the fewest leases, so that no second has much more work than
/// another, however the nodes came: all at once, one by one, or in the order of their names.
#[derive(Debug)]
pub struct Wheel {
    interval: Duration,
    /// The leases of each slot. A slot has its turn where [`slot_of`] says.
    slots: Vec<BTreeSet<NodeName>>,
    /// Slots by how many leases they have, and then by their number.
    by_load: BTreeSet<(usize, usize)>,
    places: BTreeMap<NodeName, usize>,
    /// How many slots have had their turn since the clock began.
    turned: u64,
}

/// How many slots a wheel has: twenty turns a second with the usual interval of ten.
const SLOTS: usize = 200;
/// Slots are filled in the order of their numbers, and the turn of number `n` is this many turns after that of `n - 1`: nearly
/// the golden ratio of all, so that the first ten leases are spread over the interval as the first hundred are.
const STRIDE: u64 = 123;
/// What undoes it: `STRIDE * UNSTRIDE % SLOTS == 1`.
const UNSTRIDE: u64 = 187;

/// The slot that has this turn.
fn slot_of(turn: u64) -> Option<usize> {
    let slots = u64::try_from(SLOTS).ok()?;
    usize::try_from((turn.checked_rem(slots)? * UNSTRIDE).checked_rem(slots)?).ok()
}

const _: () = assert!(STRIDE * UNSTRIDE % 200 == 1 && SLOTS == 200, "each slot has one turn in every interval");

impl Wheel {
    /// A wheel without leases. `interval` is the time between two renewals of one lease; it is at least a second.
    #[must_use]
    pub fn new(interval: Duration, now: Duration) -> Self {
        let interval = interval.max(Duration::from_secs(1));
        let mut wheel = Self {
            interval,
            slots: vec![BTreeSet::new(); SLOTS],
            by_load: (0..SLOTS).map(|slot| (0, slot)).collect(),
            places: BTreeMap::new(),
            turned: 0,
        };
        wheel.turned = wheel.turns(now);
        wheel
    }

    /// How long a slot lasts.
    fn step(&self) -> Duration {
        self.interval / u32::try_from(SLOTS).unwrap_or(u32::MAX)
    }

    /// How many slots have begun at this time.
    fn turns(&self, now: Duration) -> u64 {
        let turns = now.as_nanos().checked_div(self.step().as_nanos()).unwrap_or_default();
        u64::try_from(turns).unwrap_or(u64::MAX)
    }

    /// Adds a lease, which has its turns from now on. One that is not known to be fresh the caller renews at once. Returns whether it is
    /// new.
    pub fn insert(&mut self, node: &NodeName) -> Inserted {
        if self.places.contains_key(node) {
            return Inserted::Known;
        }
        let Some((load, slot)) = self.by_load.pop_first() else { return Inserted::Known };
        self.by_load.insert((load + 1, slot));
        if let Some(leases) = self.slots.get_mut(slot) {
            leases.insert(node.clone());
        }
        self.places.insert(node.clone(), slot);
        Inserted::New
    }

    /// Removes a lease.
    pub fn remove(&mut self, node: &str) {
        let Some(slot) = self.places.remove(node) else { return };
        let Some(leases) = self.slots.get_mut(slot) else { return };
        let load = leases.len();
        leases.remove(node);
        self.by_load.remove(&(load, slot));
        self.by_load.insert((leases.len(), slot));
    }

    /// How long it takes until a lease has its turn, less than an interval; nothing of one that has none.
    #[must_use]
    pub fn until(&self, node: &str) -> Option<Duration> {
        let (slot, slots) = (u64::try_from(*self.places.get(node)?).ok()?, u64::try_from(SLOTS).ok()?);
        let turn = (slot * STRIDE).checked_rem(slots)?;
        let ahead = (turn + slots - self.turned.checked_rem(slots)?).checked_rem(slots)?;
        Some(self.step() * u32::try_from(ahead).ok()?)
    }

    /// How many leases it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The leases whose turn came since the last call, each once. A process that was held up for longer than the interval
    /// renews each lease once, and not once for every turn that it missed.
    pub fn due(&mut self, now: Duration) -> Vec<NodeName> {
        let turns = self.turns(now);
        let slots = u64::try_from(SLOTS).unwrap_or(u64::MAX);
        let first = self.turned.max(turns.saturating_sub(slots));
        self.turned = self.turned.max(turns);
        (first..turns)
            .filter_map(|turn| self.slots.get(slot_of(turn)?))
            .flat_map(|leases| leases.iter().cloned())
            .collect()
    }

    /// When the next slot has its turn.
    #[must_use]
    pub fn next(&self) -> Duration {
        // In nanoseconds: the turns of a machine that was not restarted for a year may be more than 32 bits hold.
        let step = u64::try_from(self.step().as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(step.saturating_mul(self.turned.saturating_add(1)))
    }
}

/// Whether a lease was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// It is new.
    New,
    /// It has its turns already.
    Known,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn s24_a_renewal_is_now_where_nothing_later_is_stored() {
        let now = at("2026-11-25T10:00:00.123456789Z");
        let micros = at("2026-11-25T10:00:00.123456Z");
        assert_eq!(renew_time(now, None), RenewTime { time: micros, skew: None });
        assert_eq!(renew_time(now, Some(at("2026-11-25T09:59:50Z"))), RenewTime { time: micros, skew: None });
    }

    #[test]
    fn s24_a_renewal_is_later_than_a_stored_one_of_the_future_and_says_how_far_that_is() {
        let now = at("2026-11-25T10:00:00Z");
        let hour = at("2026-11-25T11:00:00Z");
        let renewal = renew_time(now, Some(hour));
        assert_eq!(renewal.time, at("2026-11-25T11:00:00.000001Z"));
        assert_eq!(renewal.skew, Some(SignedDuration::from_hours(1)));
        assert_eq!(renew_time(now, Some(at("2026-11-25T10:00:01Z"))).skew, None, "a second is a delay");
        assert_eq!(renew_time(now, Some(Timestamp::MAX)).time.as_microsecond(), Timestamp::MAX.as_microsecond());
    }

    proptest! {
        #[test]
        fn a_lease_has_its_turn_when_the_wheel_says_so(leases in 1_usize..300, begin in 0_u64..30_000) {
            let (interval, begin) = (Duration::from_secs(10), Duration::from_millis(begin));
            let mut wheel = Wheel::new(interval, begin);
            let names: Vec<NodeName> = (0..leases).map(|number| format!("n{number}").as_str().into()).collect();
            names.iter().for_each(|name| assert_eq!(wheel.insert(name), Inserted::New));
            let until: BTreeMap<&NodeName, Duration> = names.iter().map(|name| (name, wheel.until(name).unwrap())).collect();
            prop_assert!(until.values().all(|until| *until < interval));
            prop_assert_eq!(wheel.until("other"), None);
            for step in 0..SLOTS {
                let passed = wheel.step() * u32::try_from(step).unwrap();
                // A slot has had its turn once the next one has begun.
                for name in wheel.due(begin + passed + wheel.step()) {
                    prop_assert_eq!(until.get(&name).copied(), Some(passed));
                }
            }
        }

        #[test]
        fn s24_a_renewal_never_goes_back(now in 0_i64..4_000_000_000_000_000, stored in 0_i64..4_000_000_000_000_000_000) {
            let stored = Timestamp::from_nanosecond(i128::from(stored)).unwrap();
            let renewal = renew_time(Timestamp::from_microsecond(now).unwrap(), Some(stored));
            prop_assert!(renewal.time > stored);
            prop_assert!(renewal.time >= Timestamp::from_microsecond(now).unwrap());
            prop_assert_eq!(renewal.time.as_nanosecond() % 1000, 0);
        }

        #[test]
        fn every_lease_has_one_turn_in_every_interval(
            names in proptest::collection::btree_set("[a-c]{1,4}", 0..40),
            pauses in proptest::collection::vec(0_u64..4_000, 1..40),
        ) {
            let interval = Duration::from_secs(10);
            let mut wheel = Wheel::new(interval, Duration::ZERO);
            for name in &names {
                wheel.insert(&name.as_str().into());
            }
            let mut last: BTreeMap<String, (Duration, Duration)> = BTreeMap::new();
            let mut now = Duration::ZERO;
            for pause in pauses {
                let before = now;
                now += Duration::from_millis(pause);
                for name in wheel.due(now) {
                    // The turn lay somewhere since the call before.
                    if let Some((last, since)) = last.insert(name.to_string(), (now, before)) {
                        prop_assert!(now - since >= interval, "{name} had its turn twice, at {last:?} and {now:?}");
                    }
                }
                for (name, (last, _)) in &last {
                    prop_assert!(now - *last <= interval + Duration::from_secs(4), "{name} waits");
                }
            }
        }
    }

    #[test]
    fn leases_are_spread_evenly_also_after_some_went() {
        let mut wheel = Wheel::new(Duration::from_secs(10), Duration::ZERO);
        for index in 0..5000 {
            assert_eq!(wheel.insert(&format!("n{index}").into()), Inserted::New);
        }
        assert_eq!(wheel.insert(&"n7".into()), Inserted::Known);
        for index in 0..2500 {
            wheel.remove(&format!("n{index}"));
        }
        for index in 5000..7500 {
            wheel.insert(&format!("n{index}").into());
        }
        assert_eq!(wheel.len(), 5000);
        let per_second: Vec<usize> = (1..=10).map(|second| wheel.due(Duration::from_secs(second)).len()).collect();
        assert_eq!(per_second.iter().sum::<usize>(), 5000);
        assert!(per_second.iter().all(|count| (400..=600).contains(count)), "{per_second:?}");
    }

    #[test]
    fn few_leases_are_spread_over_the_interval_too() {
        for count in [10, 20, 40, 100, 200, 300] {
            let mut wheel = Wheel::new(Duration::from_secs(10), Duration::ZERO);
            for index in 0..count {
                wheel.insert(&format!("n{index}").into());
            }
            let turns: Vec<usize> = (1..=200).map(|turn| wheel.due(Duration::from_millis(50 * turn)).len()).collect();
            assert_eq!(turns.iter().sum::<usize>(), count);
            let busiest = turns.windows(20).map(|second| second.iter().sum::<usize>()).max().unwrap();
            assert!(busiest * 10 <= 2 * count, "{busiest} of {count} in one second: {turns:?}");
        }
    }

    #[test]
    fn the_next_turn_is_ahead_also_on_a_machine_that_runs_for_years() {
        let year = Duration::from_secs(365 * 86_400);
        for now in [year, 10 * year] {
            let mut wheel = Wheel::new(Duration::from_secs(1), now);
            assert!(wheel.next() > now && wheel.next() <= now + Duration::from_millis(5));
            wheel.insert(&"n".into());
            assert_eq!(wheel.due(now + Duration::from_secs(1)).len(), 1);
            assert!(wheel.next() > now + Duration::from_secs(1));
        }
    }

    #[test]
    fn a_process_that_stood_still_renews_each_lease_once() {
        let mut wheel = Wheel::new(Duration::from_secs(10), Duration::from_secs(1_000));
        for index in 0..10 {
            wheel.insert(&format!("n{index}").into());
        }
        assert_eq!(wheel.due(Duration::from_secs(1_000)).len(), 0);
        assert_eq!(wheel.due(Duration::from_secs(5_000)).len(), 10);
        assert!(wheel.next() > Duration::from_secs(5_000) && wheel.next() <= Duration::from_millis(5_000_050));
        assert!(!wheel.is_empty());
    }
}
