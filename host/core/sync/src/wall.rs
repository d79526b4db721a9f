//! How far the wall clock is trusted (decisions S17, S18 and S24).
//!
//! Owns two answers to a clock that is wrong, was set, or differs from that of an earlier process: by which time windows are
//! [judged](Judged), and how far the times that an earlier process wrote are from [ours](TakeOver). Never a clock: times are arguments.
//!
//! # What goes wrong
//!
//! * The clock is set back, or the clock of a new leader is behind: windows that closed would open, take pods, and close again. So the
//!   time by which windows are judged never goes back, but stands still until the clock is there. By more than [`MOST`] it is the earlier
//!   clock that was wrong, and standing still would keep windows as they are for days: then our own clock counts at once.
//! * The clock of a new leader is ahead: a grace that runs would be over at once. Its leases show what the earlier clock was when they
//!   were renewed last. What ours shows more is either a difference of the clocks, or time in which no process looked, and these two
//!   cannot be told apart. Therefore a grace goes on from where it was at that renewal: it is longer by what no process saw, and is
//!   never shortened.
//! * A lease may carry a later time than the clock of the process that renewed it ([`crate::renewal`]). Such a lease says what that
//!   clock was beside it; the caller reads it.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// Less than this, the wall clock was slewed and not set (decision S18): it is drift, which a grace of minutes may have.
pub const STEP: SignedDuration = SignedDuration::from_secs(5);
/// The longest time since the last renewal that is an orderly take-over, or one after a crash.
pub const GAP: SignedDuration = SignedDuration::from_secs(60);
/// For how long the time by which windows are judged stands still at most.
pub const MOST: SignedDuration = SignedDuration::from_hours(2);

/// By which time windows are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Judged {
    latest: Option<Timestamp>,
}

impl Judged {
    /// An earlier process has judged windows by this time.
    pub fn was(&mut self, earlier: Timestamp) {
        self.latest = Some(self.latest.map_or(earlier, |latest| latest.max(earlier)));
    }

    /// By which time windows are judged while the clock shows this: by it, or by the latest one so far.
    pub fn at(&mut self, wall: Timestamp) -> Timestamp {
        let stands = self.latest.filter(|latest| *latest > wall && latest.duration_since(wall) <= MOST);
        *self.latest.insert(stands.unwrap_or(wall))
    }
}

/// What the leases of an earlier process show of its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeOver {
    /// What that clock showed when a lease was renewed last.
    pub earlier: Timestamp,
    /// The latest time that any lease carries.
    pub latest: Timestamp,
    /// What our clock shows, read after the leases.
    pub now: Timestamp,
}

/// How our clock differs from that of an earlier process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Difference {
    /// It is behind by as much, or more.
    Behind(SignedDuration),
    /// It is ahead by this, or no process renewed a lease for as long.
    Ahead(SignedDuration),
}

impl TakeOver {
    /// How far our clock is from that one, if that is more than an ordinary take-over explains.
    #[must_use]
    pub fn difference(&self) -> Option<Difference> {
        let ahead = self.now.duration_since(self.earlier);
        if ahead > GAP {
            Some(Difference::Ahead(ahead))
        } else {
            let behind = self.earlier.duration_since(self.now);
            (behind > STEP).then_some(Difference::Behind(behind))
        }
    }
}

impl Difference {
    /// By how much times of the earlier process have to be moved, so that no grace that it began becomes shorter.
    #[must_use]
    pub fn shift(self) -> SignedDuration {
        match self {
            Self::Behind(by) => SignedDuration::ZERO.saturating_sub(by),
            Self::Ahead(by) => by,
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind(by) => write!(
                f,
                "the clock of this replica is {} s behind the one that renewed the leases of virtual nodes last: windows do not open \
                 a second time, and graces that run continue",
                by.as_secs()
            ),
            Self::Ahead(by) => write!(
                f,
                "by the clock of this replica the leases of virtual nodes were renewed {} s ago: no replica did, or this clock is \
                 ahead. Graces that run continue from where they were then",
                by.as_secs()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_772_352_000 + second).unwrap()
    }

    #[test]
    fn s18_windows_are_judged_by_the_clock_and_by_an_earlier_time_while_it_is_behind() {
        let mut judged = Judged::default();
        assert_eq!(judged.at(at(0)), at(0));
        assert_eq!(judged.at(at(60)), at(60));
        // It is set back by an hour.
        assert_eq!(judged.at(at(-3_540)), at(60));
        assert_eq!(judged.at(at(59)), at(60));
        assert_eq!(judged.at(at(61)), at(61));
        // An earlier process was ahead.
        judged.was(at(3_661));
        judged.was(at(30));
        assert_eq!(judged.at(at(61)), at(3_661));
        // Far ahead: that clock was wrong.
        judged.was(at(100_000));
        assert_eq!(judged.at(at(61)), at(61));
        assert_eq!(judged.at(at(60)), at(61));
    }

    #[test]
    fn s17_a_take_over_without_a_delay_or_a_wrong_clock_moves_nothing() {
        let difference = |now: i64| TakeOver { earlier: at(0), latest: at(0), now: at(now) }.difference();
        for now in [-5, 0, 30, 60] {
            assert_eq!(difference(now), None, "{now}");
        }
        assert_eq!(difference(61).map(Difference::shift), Some(SignedDuration::from_secs(61)));
        assert_eq!(difference(-6), Some(Difference::Behind(SignedDuration::from_secs(6))));
        assert_eq!(difference(-3_600).map(Difference::shift), Some(SignedDuration::from_secs(-3_600)));
        for (now, said) in [(3_600, "3600 s ago"), (-3_600, "3600 s behind")] {
            assert!(difference(now).unwrap().to_string().contains(said), "{now}");
        }
        let extreme = TakeOver { earlier: Timestamp::MIN, latest: Timestamp::MAX, now: Timestamp::MAX };
        assert!(extreme.difference().unwrap().shift().is_positive());
        let extreme = TakeOver { earlier: Timestamp::MAX, now: Timestamp::MIN, ..extreme };
        assert!(extreme.difference().unwrap().shift().is_negative());
    }

    proptest! {
        #[test]
        fn s18_the_time_by_which_windows_are_judged_goes_back_only_for_a_clock_that_was_far_ahead(
            clock in proptest::collection::vec(-10_000_i64..10_000, 1..30)
        ) {
            let mut judged = Judged::default();
            let mut before: Option<Timestamp> = None;
            for second in clock {
                let wall = at(second);
                let now = judged.at(wall);
                prop_assert!(now >= wall && now.duration_since(wall) <= MOST, "{now} at {wall}");
                if let Some(before) = before {
                    let is_far = before.duration_since(wall) > MOST;
                    prop_assert!(now >= before || (is_far && now == wall), "{before}, then {now} at {wall}");
                    prop_assert!(now == before || now == wall);
                }
                before = Some(now);
            }
        }
    }
}
