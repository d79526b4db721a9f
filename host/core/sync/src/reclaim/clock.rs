//! The clock of a closing, as it stands on the virtual node or is remembered: read, and corrected where it cannot be right.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Facts, Reason, STEP, added, moved, started, whole_seconds};
use crate::keys;
use crate::merge::Stamp;
use crate::taints::Effect;

/// The taint that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// None, or one of an earlier closing.
    Nothing,
    /// One whose time is known.
    NoSchedule,
    /// One whose time is not known.
    NoScheduleWithoutTime,
    /// One that evicts.
    NoExecute,
}

/// The clock of the present closing.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) start: Timestamp,
    /// By which time the windows were judged closed then.
    pub(super) marked: Timestamp,
    pub(super) stamp: Stamp,
    pub(super) found: Found,
    pub(super) promised: Option<Duration>,
    /// Whether it had started before this look.
    pub(super) has_run: bool,
    /// Since when the process remembers the node to evict.
    pub(super) evicted: Option<Timestamp>,
    pub(super) reasons: Vec<Reason>,
}

impl Clock {
    /// One that starts now.
    pub(super) fn fresh(facts: &Facts<'_>, now: Timestamp) -> Self {
        let start = whole_seconds(now);
        // Two decisions at the same moment read the clock one after the other.
        let is_later = facts.judged.duration_since(now) >= SignedDuration::from_secs(1);
        let marked = if is_later { whole_seconds(facts.judged) } else { start };
        Self {
            start,
            marked,
            stamp: Stamp::Keep,
            found: Found::Nothing,
            promised: None,
            has_run: false,
            evicted: None,
            reasons: Vec::new(),
        }
    }

    pub(super) fn read(facts: &Facts<'_>, now: Timestamp) -> Self {
        let mut clock = Self::fresh(facts, now);
        let fresh = clock.start;
        let stands = started(facts.taints, facts.annotations);
        let remembered = facts.remembered.filter(|_| added(facts.taints).is_none());
        let start = remembered.map(|closing| closing.start).or(stands);
        clock.found = facts.found(start.is_some());
        if let Some(start) = start {
            clock.has_run = true;
            clock.run(facts, start);
        } else {
            clock.check(facts, keys::RECLAIM_STARTED);
        }
        if clock.found == Found::Nothing && !clock.has_run {
            return clock;
        }
        let written = facts.annotations.text(keys::RECLAIM_GRACE).and_then(|text| {
            let seconds = text.parse::<u64>();
            if seconds.is_err() {
                clock.reasons.push(Reason::Unreadable(keys::RECLAIM_GRACE));
            }
            seconds.ok().map(Duration::from_secs)
        });
        clock.promised = written.max(facts.remembered.and_then(|closing| closing.promised));
        clock.evicted = facts.remembered.and_then(|closing| closing.since);
        match facts.closed {
            Some(closed) if clock.has_run && clock.marked < closed && closed <= facts.judged => {
                clock.closed_again(closed, fresh)
            }
            _ => clock,
        }
    }

    /// It started then. What stands on the node is of the clock that was there when it was written; what is remembered is of ours.
    fn run(&mut self, facts: &Facts<'_>, start: Timestamp) {
        let (fresh, fresh_mark) = (self.start, self.marked);
        let is_there = added(facts.taints).is_some();
        self.start = start;
        self.marked = super::marked(facts.taints, facts.annotations, facts.remembered).unwrap_or(start);
        if !is_there {
            self.reasons.push(Reason::Missing(start));
        }
        if is_there || facts.remembered.is_none() {
            self.check(facts, keys::RECLAIM_MARKED);
            if let Some(by) = facts.step() {
                self.start = whole_seconds(moved(start, by));
                self.stamp = Stamp::Replace;
                self.reasons.push(Reason::Stepped(by));
            }
        }
        if self.start > fresh {
            self.reasons.push(Reason::Future(self.start));
            (self.start, self.marked) = (fresh, fresh_mark);
            self.stamp = Stamp::Replace;
        }
    }

    /// An annotation that is no time is reported.
    fn check(&mut self, facts: &Facts<'_>, key: &'static str) {
        if facts.annotations.text(key).is_some_and(|text| text.parse::<Timestamp>().is_err()) {
            self.reasons.push(Reason::Unreadable(key));
        }
    }

    /// The windows opened and closed again. What is left of an earlier grace still counts: it may be the edit of a policy
    /// that looks like an opening. A start that was moved is not moved back: it may be the clock that makes it look so.
    fn closed_again(self, closed: Timestamp, fresh: Timestamp) -> Self {
        let marked = whole_seconds(closed);
        let start = marked.max(self.start).min(fresh);
        let passed = Duration::try_from(start.duration_since(self.start)).unwrap_or_default();
        let left = self.promised.map(|promised| promised.saturating_sub(passed)).filter(|left| !left.is_zero());
        let mut reasons = self.reasons;
        reasons.push(Reason::MissedOpening(closed));
        Self {
            start,
            marked,
            stamp: Stamp::Replace,
            found: Found::Nothing,
            promised: left,
            has_run: true,
            evicted: None,
            reasons,
        }
    }

    /// Since when the effect is NoExecute, where the taint says so.
    pub(super) fn since(&mut self, facts: &Facts<'_>, now: Timestamp) -> Timestamp {
        let text = facts.annotations.text(keys::RECLAIM_SINCE);
        let since = text.and_then(|text| text.parse::<Timestamp>().ok());
        if text.is_some() && since.is_none() {
            self.reasons.push(Reason::Unreadable(keys::RECLAIM_SINCE));
        }
        let since = since.map(|since| facts.step().map_or(since, |by| moved(since, by)));
        since.filter(|since| *since <= now).or(self.evicted_before(now)).unwrap_or_else(|| {
            self.reasons.push(Reason::SinceNow);
            now
        })
    }

    /// Since when the process remembers the node to evict.
    pub(super) fn evicted_before(&self, now: Timestamp) -> Option<Timestamp> {
        self.evicted.filter(|since| *since <= now)
    }
}

impl Facts<'_> {
    /// A step of the clock that counts.
    fn step(&self) -> Option<SignedDuration> {
        (self.stepped.unsigned_abs() >= STEP.unsigned_abs()).then_some(self.stepped)
    }

    fn found(&self, is_time_known: bool) -> Found {
        let taints = || self.taints.iter().filter(|taint| taint.key == keys::OUT_OF_WINDOWS_TAINT);
        if taints().next().is_none() {
            Found::Nothing
        } else if taints().any(|taint| taint.effect == Effect::NoExecute) {
            Found::NoExecute
        } else if is_time_known {
            Found::NoSchedule
        } else {
            Found::NoScheduleWithoutTime
        }
    }
}
