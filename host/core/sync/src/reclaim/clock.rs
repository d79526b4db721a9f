//! The clock of a closing, as it stands on the virtual node: read, and corrected where it cannot be right.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Facts, Reason, STEP, moved, whole_seconds};
use crate::keys;
use crate::merge::Stamp;
use crate::taints::Effect;

/// The taint that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// None, or one of an earlier closing.
    Nothing,
    /// One with a time.
    NoSchedule,
    /// One without.
    NoScheduleWithoutTime,
    /// One that evicts.
    NoExecute,
}

/// The clock of the present closing, as it stands on the virtual node.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) start: Timestamp,
    pub(super) stamp: Stamp,
    pub(super) found: Found,
    pub(super) promised: Option<Duration>,
    pub(super) reasons: Vec<Reason>,
}

impl Clock {
    /// One that starts now.
    pub(super) fn fresh(now: Timestamp) -> Self {
        let start = whole_seconds(now);
        Self { start, stamp: Stamp::Keep, found: Found::Nothing, promised: None, reasons: Vec::new() }
    }

    pub(super) fn read(facts: &Facts<'_>, now: Timestamp) -> Self {
        let mut clock = Self::fresh(now);
        let fresh = clock.start;
        let taints = || facts.taints.iter().filter(|taint| taint.key == keys::OUT_OF_WINDOWS_TAINT);
        if taints().next().is_none() {
            return clock;
        }
        let added = taints().filter_map(|taint| taint.time_added).min();
        clock.found = if taints().any(|taint| taint.effect == Effect::NoExecute) {
            Found::NoExecute
        } else if added.is_some() {
            Found::NoSchedule
        } else {
            Found::NoScheduleWithoutTime
        };
        if let Some(added) = added {
            clock.start = added;
            if let Some(by) = facts.step() {
                clock.start = whole_seconds(moved(added, by));
                clock.stamp = Stamp::Replace;
                clock.reasons.push(Reason::Stepped(by));
            }
            if clock.start > fresh {
                clock.reasons.push(Reason::Future(clock.start));
                clock.start = fresh;
                clock.stamp = Stamp::Replace;
            }
        }
        clock.promised = facts.annotations.get(keys::RECLAIM_GRACE).and_then(|text| {
            let seconds = text.parse::<u64>();
            if seconds.is_err() {
                clock.reasons.push(Reason::Unreadable(keys::RECLAIM_GRACE));
            }
            seconds.ok().map(Duration::from_secs)
        });
        match facts.closed {
            Some(closed) if added.is_some() && clock.start < closed && closed <= now => clock.closed_again(closed),
            _ => clock,
        }
    }

    /// The windows opened and closed again. What is left of an earlier grace still counts: it may be the edit of a policy
    /// that looks like an opening.
    fn closed_again(mut self, closed: Timestamp) -> Self {
        let start = whole_seconds(closed);
        let passed = Duration::try_from(start.duration_since(self.start)).unwrap_or_default();
        let left = self.promised.map(|promised| promised.saturating_sub(passed)).filter(|left| !left.is_zero());
        self.reasons.push(Reason::MissedOpening(closed));
        Self { start, stamp: Stamp::Replace, found: Found::Nothing, promised: left, reasons: self.reasons }
    }

    /// Since when the effect is NoExecute.
    pub(super) fn since(&mut self, facts: &Facts<'_>, now: Timestamp) -> Timestamp {
        let text = facts.annotations.get(keys::RECLAIM_SINCE);
        let since = text.and_then(|text| text.parse::<Timestamp>().ok());
        if text.is_some() && since.is_none() {
            self.reasons.push(Reason::Unreadable(keys::RECLAIM_SINCE));
        }
        let since = since.map(|since| facts.step().map_or(since, |by| moved(since, by)));
        since.filter(|since| *since <= now).unwrap_or_else(|| {
            self.reasons.push(Reason::SinceNow);
            now
        })
    }
}

impl Facts<'_> {
    /// A step of the clock that counts.
    fn step(&self) -> Option<SignedDuration> {
        (self.stepped.unsigned_abs() >= STEP.unsigned_abs()).then_some(self.stepped)
    }
}
