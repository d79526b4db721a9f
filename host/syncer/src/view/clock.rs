//! The wall clock as decisions see it: how far it was set, how far it is from that of an earlier process, and by which time windows
//! are judged.
//!
//! Owns the offsets. What follows from them for a closing is [`topoloom_sync::reclaim`]'s, and what may be concluded from leases
//! [`topoloom_sync::wall`]'s. Both clocks are compared with each decision, so that none is made between a step and its discovery.
//!
//! # Failure story
//!
//! A process may end before it has moved all times that an earlier one wrote: the next one sees its leases, and not those of the
//! earlier one. If its clock was ahead, only a time of our future is surely its own, and is moved back; all others stay as they are.
//! A grace may be longer by the difference of the two clocks then, and is never shorter.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use topoloom_sync::node::Now;
use topoloom_sync::wall::{Difference, Judged, STEP, TakeOver};

use super::View;

/// What is known of the wall clock.
#[derive(Debug)]
pub(super) struct Clocks {
    /// What the next look is compared with.
    last: Now,
    /// How far it was set since the view was made.
    pub(super) steps: SignedDuration,
    /// The same when the leases of an earlier process were taken over.
    taken: SignedDuration,
    /// By how much the times of that process are moved, so that they are of our clock.
    shift: SignedDuration,
    judged: Judged,
    /// How far it was set since [`View::tick`] said so.
    unsaid: SignedDuration,
    difference: Option<Difference>,
}

/// What a person should know of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockNews {
    /// It was set by so much.
    Set(SignedDuration),
    /// It is not that of the process that served the binding before.
    TakenOver(Difference),
}

impl fmt::Display for ClockNews {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(by) => {
                write!(f, "the wall clock of this replica was set by {} s: every window is judged again", by.as_secs())
            }
            Self::TakenOver(difference) => difference.fmt(f),
        }
    }
}

impl Clocks {
    pub(super) fn new(now: Now) -> Self {
        let zero = SignedDuration::ZERO;
        let judged = Judged::default();
        Self { last: now, steps: zero, taken: zero, shift: zero, judged, unsaid: zero, difference: None }
    }

    /// How far it had been set, as it is counted here, when an earlier process wrote `time`; `wall` is what the clock shows now.
    pub(super) fn of_earlier(&self, time: Timestamp, wall: Timestamp) -> SignedDuration {
        // A clock that was ahead wrote times of our future. What is not may be of a process before that one, which had no time to
        // move it; moved back now, it would end a grace too early. Nothing else that the node shows says which of the two wrote it:
        // the last write of a node may be older or younger than the time in its taint.
        let wall = wall.saturating_sub(self.steps.saturating_sub(self.taken)).unwrap_or(wall);
        // Times in taints are rounded up to whole seconds; and what is less than a step of the clock is no difference.
        let may_be_of_another = self.shift.is_negative() && time.duration_since(wall) <= STEP;
        if may_be_of_another { self.taken } else { self.taken.saturating_sub(self.shift) }
    }

    /// By how much the wall clock was set since the last look, if it was.
    fn look(&mut self, now: Now) -> Option<SignedDuration> {
        let by = now.stepped_since(self.last)?;
        self.last = now;
        self.steps = self.steps.saturating_add(by);
        self.unsaid = self.unsaid.saturating_add(by);
        Some(by)
    }

    /// By which time windows are judged now.
    pub(super) fn judged(&mut self, wall: Timestamp) -> Timestamp {
        self.judged.at(wall)
    }
}

impl View {
    /// The leases of the binding's nodes were taken over, and show this of the clock of an earlier process. Before the first decision.
    pub fn took_over(&mut self, take_over: &TakeOver) {
        let Clocks { steps, taken, shift, judged, difference, .. } = &mut self.clocks;
        judged.was(take_over.latest);
        *difference = take_over.difference();
        *taken = *steps;
        *shift = difference.map_or(SignedDuration::ZERO, Difference::shift);
    }

    /// By which time windows are judged while the clock shows this: it never goes back, unless the clock was far ahead.
    pub fn judged(&mut self, wall: Timestamp) -> Timestamp {
        self.clocks.judged(wall)
    }

    /// Compares the clocks, as every decision does. A slow drift is no step, so the caller asks every few seconds. After news of
    /// the clock every node has to be looked at.
    pub fn tick(&mut self, now: Now) -> Vec<ClockNews> {
        self.notice(now);
        let Clocks { last, unsaid, difference, .. } = &mut self.clocks;
        *last = now;
        let set = Some(std::mem::take(unsaid)).filter(|by| !by.is_zero()).map(ClockNews::Set);
        difference.take().map(ClockNews::TakenOver).into_iter().chain(set).collect()
    }

    /// The clocks show this, and neither was set. For times that are played and do not pass: there the guard gathers by the steady
    /// clock, while the wall clock stands still.
    pub(crate) fn played(&mut self, now: Now) {
        self.clocks.last = now;
    }

    /// Compares the clocks. A deadline that an earlier decision set moves with the clock, and so does what is remembered of a closing.
    pub(super) fn notice(&mut self, now: Now) {
        let Some(by) = self.clocks.look(now) else { return };
        for remembered in self.remembered.values_mut() {
            remembered.memory.closing.stepped(by);
            remembered.asked.stepped(by);
        }
        self.orphans.values_mut().for_each(|asked| asked.stepped(by));
    }
}

#[cfg(test)]
pub(super) mod tests;
