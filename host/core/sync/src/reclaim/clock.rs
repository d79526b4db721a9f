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
    /// By which time the windows were judged closed then.
    pub(super) marked: Timestamp,
    pub(super) stamp: Stamp,
    pub(super) found: Found,
    pub(super) promised: Option<Duration>,
    pub(super) reasons: Vec<Reason>,
}

impl Clock {
    /// One that starts now.
    pub(super) fn fresh(facts: &Facts<'_>, now: Timestamp) -> Self {
        let start = whole_seconds(now);
        // Two decisions at the same moment read the clock one after the other.
        let is_later = facts.judged.duration_since(now) >= SignedDuration::from_secs(1);
        let marked = if is_later { whole_seconds(facts.judged) } else { start };
        Self { start, marked, stamp: Stamp::Keep, found: Found::Nothing, promised: None, reasons: Vec::new() }
    }

    pub(super) fn read(facts: &Facts<'_>, now: Timestamp) -> Self {
        let mut clock = Self::fresh(facts, now);
        let Self { start: fresh, marked: fresh_mark, .. } = clock;
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
            let mark = facts.annotations.get(keys::RECLAIM_MARKED);
            if mark.is_some_and(|text| text.parse::<Timestamp>().is_err()) {
                clock.reasons.push(Reason::Unreadable(keys::RECLAIM_MARKED));
            }
            clock.start = added;
            clock.marked = super::marked(facts.taints, facts.annotations).unwrap_or(added);
            if let Some(by) = facts.step() {
                clock.start = whole_seconds(moved(added, by));
                clock.stamp = Stamp::Replace;
                clock.reasons.push(Reason::Stepped(by));
            }
            if clock.start > fresh {
                clock.reasons.push(Reason::Future(clock.start));
                (clock.start, clock.marked) = (fresh, fresh_mark);
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
            Some(closed) if added.is_some() && clock.marked < closed && closed <= facts.judged => {
                clock.closed_again(closed, fresh)
            }
            _ => clock,
        }
    }

    /// The windows opened and closed again. What is left of an earlier grace still counts: it may be the edit of a policy
    /// that looks like an opening. A start that was moved is not moved back: it may be the clock that makes it look so.
    fn closed_again(mut self, closed: Timestamp, fresh: Timestamp) -> Self {
        let marked = whole_seconds(closed);
        let start = marked.max(self.start).min(fresh);
        let passed = Duration::try_from(start.duration_since(self.start)).unwrap_or_default();
        let left = self.promised.map(|promised| promised.saturating_sub(passed)).filter(|left| !left.is_zero());
        self.reasons.push(Reason::MissedOpening(closed));
        Self { start, marked, stamp: Stamp::Replace, found: Found::Nothing, promised: left, reasons: self.reasons }
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
