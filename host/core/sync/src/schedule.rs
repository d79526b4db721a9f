//! The time windows of a policy in a time zone: whether they are open, and when that changes next (`bottomup-syncer.md`
//! 6.4, decisions D9, D10, S18).
//!
//! Owns the reading of an instant. It is converted to local wall time, and its weekday and minute decide, nothing else. So
//! a window that lies in the hour that a zone skips does not open that day, an hour that a zone repeats counts twice, and
//! no instant is ambiguous. The room never polls: between two changes of the offset local time runs evenly, so the next
//! boundary is looked up in the week of the union of all windows.
//!
//! Nothing here fails: a schedule is made of what was checked. Without windows it is always open.

use std::fmt;

use jiff::civil::Weekday;
use jiff::{SignedDuration, Timestamp};

use super::window::{DAY, DaysApplyTo, MinuteOfDay, TimeWindow, day_name};
use super::zone::Zone;
use week::Week;

mod week;

/// How far ahead a boundary is looked for. The windows repeat each week; the day more is for a change of the offset.
pub const HORIZON: SignedDuration = SignedDuration::from_hours(8 * 24);

const SECONDS_OF_DAY: i64 = 24 * 60 * 60;
const SECONDS_OF_WEEK: i64 = 7 * SECONDS_OF_DAY;
/// 1970 began on a Thursday: seconds from a Monday's midnight to that.
const MONDAY_TO_EPOCH: i64 = 3 * SECONDS_OF_DAY;

/// The windows of a policy in its zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    windows: Vec<TimeWindow>,
    zone: Zone,
    reading: DaysApplyTo,
    week: Week,
}

/// Whether a schedule is open, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Openness {
    /// It has no windows.
    Always,
    /// A window accepts the time; the first one that does.
    Open {
        /// Its place in the policy.
        window: usize,
    },
    /// No window accepts the time.
    Closed,
}

impl Openness {
    /// Whether it is open.
    #[must_use]
    pub fn is_open(self) -> bool {
        self != Self::Closed
    }
}

impl fmt::Display for Openness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always open, there are no time windows"),
            Self::Open { window } => write!(f, "open by timeWindows[{window}]"),
            Self::Closed => f.write_str("closed, no time window is open"),
        }
    }
}

/// A minute of the week in local time. Prints as `Monday 07:59`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocalMinute {
    /// The day.
    pub day: Weekday,
    /// The minute of that day.
    pub minute: MinuteOfDay,
}

impl fmt::Display for LocalMinute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", day_name(self.day), self.minute)
    }
}

impl Schedule {
    /// A schedule. Without windows it is always open.
    #[must_use]
    pub fn new(windows: Vec<TimeWindow>, zone: Zone, reading: DaysApplyTo) -> Self {
        let week = Week::new(&windows, reading);
        Self { windows, zone, reading, week }
    }

    /// Its windows.
    #[must_use]
    pub fn windows(&self) -> &[TimeWindow] {
        &self.windows
    }

    /// The zone in which they are read.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Which days the days of overnight windows name.
    #[must_use]
    pub fn days_apply_to(&self) -> DaysApplyTo {
        self.reading
    }

    /// The local time that decides at an instant.
    #[must_use]
    pub fn local(&self, now: Timestamp) -> LocalMinute {
        let second = second_of_week(now, self.zone.offset(now));
        let minute = u16::try_from(second % SECONDS_OF_DAY / 60).ok().and_then(MinuteOfDay::new);
        let day = i8::try_from(second / SECONDS_OF_DAY).ok().and_then(|day| Weekday::from_monday_zero_offset(day).ok());
        LocalMinute { day: day.unwrap_or(Weekday::Monday), minute: minute.unwrap_or(MinuteOfDay::FIRST) }
    }

    /// Whether it is open at an instant, and which window accepts it.
    #[must_use]
    pub fn is_open(&self, now: Timestamp) -> Openness {
        if self.windows.is_empty() {
            return Openness::Always;
        }
        let LocalMinute { day, minute } = self.local(now);
        let accepts = |window: &TimeWindow| window.accepts(day, minute, self.reading);
        self.windows.iter().position(accepts).map_or(Openness::Closed, |window| Openness::Open { window })
    }

    /// The first instant after `now` at which the union of the windows opens or closes, at most [`HORIZON`] later. `None`
    /// where there is none: it is always open, or the only boundary of a week lies in an hour that its zone skips.
    #[must_use]
    pub fn next_transition(&self, now: Timestamp) -> Option<Timestamp> {
        let horizon = now.checked_add(HORIZON).unwrap_or(Timestamp::MAX);
        let (mut from, mut offset) = (now, self.zone.offset(now));
        let open = self.week.is_open(second_of_week(from, offset));
        let mut changes = self.zone.changes(now);
        loop {
            // Later than the last one, so that a zone whose changes did not advance would end the loop.
            let change = changes.next().filter(|change| from < change.at && change.at <= horizon);
            let boundary = self.week.until_change(second_of_week(from, offset));
            let boundary = boundary.and_then(|left| Timestamp::from_second(floor(from).checked_add(left)?).ok());
            match (boundary, change) {
                (Some(boundary), None) if boundary <= horizon => return Some(boundary),
                (_, None) => return None,
                (Some(boundary), Some(change)) if boundary < change.at => return Some(boundary),
                (_, Some(change)) if self.week.is_open(second_of_week(change.at, change.offset)) != open => {
                    return Some(change.at);
                }
                (_, Some(change)) => (from, offset) = (change.at, change.offset),
            }
        }
    }
}

impl Schedule {
    /// When the union of the windows closed last, at most [`HORIZON`] before `now`. `None` where it is open, or did not close
    /// for so long.
    #[must_use]
    pub fn last_closing(&self, now: Timestamp) -> Option<Timestamp> {
        if self.is_open(now).is_open() {
            return None;
        }
        let begin = now.checked_sub(HORIZON).unwrap_or(Timestamp::MIN);
        let transitions = std::iter::successors(self.next_transition(begin), |at| self.next_transition(*at));
        // They alternate, so the last one before a time at which it is closed is a closing.
        transitions.take_while(|at| *at <= now).last()
    }
}

/// The whole second in which an instant lies, also before 1970.
fn floor(at: Timestamp) -> i64 {
    if at.subsec_nanosecond() < 0 { at.as_second().saturating_sub(1) } else { at.as_second() }
}

/// Seconds of local wall time since the last Monday's midnight.
fn second_of_week(at: Timestamp, offset: i64) -> i64 {
    floor(at).saturating_add(offset).saturating_add(MONDAY_TO_EPOCH).rem_euclid(SECONDS_OF_WEEK)
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
