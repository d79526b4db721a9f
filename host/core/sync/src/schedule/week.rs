//! The union of time windows over a week of local time, as the seconds at which it opens and closes.
//!
//! Windows may overlap in any way and number; here each boundary of their union stands once. So the next one is found by
//! bisection, and ten thousand windows cost no more than one.

use super::{DAY, DaysApplyTo, SECONDS_OF_WEEK, TimeWindow};

/// Minutes of a week.
const WEEK: u16 = 7 * DAY;

/// The union of windows over a week that repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Week {
    /// It is never closed.
    Open,
    /// It opens and closes by turns, in the order of the seconds. Not empty.
    Changes(Vec<Change>),
}

/// A second of the week from which on the union is open or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    second: i64,
    opens: bool,
}

impl Week {
    /// The union of those windows. None are always open.
    pub(super) fn new(windows: &[TimeWindow], reading: DaysApplyTo) -> Self {
        let mut pieces: Vec<(u16, u16)> = windows.iter().flat_map(|window| pieces(window, reading)).collect();
        pieces.sort_unstable();
        let mut union: Vec<(u16, u16)> = Vec::new();
        for (from, to) in pieces {
            match union.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => union.push((from, to)),
            }
        }
        if windows.is_empty() || union == [(0, WEEK)] {
            return Self::Open;
        }
        let change = |minute: u16, opens| Change { second: i64::from(minute) * 60, opens };
        let mut changes: Vec<Change> =
            union.iter().flat_map(|(from, to)| [change(*from, true), change(*to, false)]).collect();
        let ends_with_the_week = union.last().is_some_and(|(_, to)| *to == WEEK);
        let begins_with_it = union.first().is_some_and(|(from, _)| *from == 0);
        if ends_with_the_week {
            // It stays open over the end of the week, or closes with the first second of the next one.
            changes.pop();
            if begins_with_it {
                changes.remove(0);
            } else {
                changes.insert(0, change(0, false));
            }
        }
        Self::Changes(changes)
    }

    /// Whether it is open at a second of the week.
    pub(super) fn is_open(&self, second: i64) -> bool {
        let Self::Changes(changes) = self else { return true };
        let passed = changes.partition_point(|change| change.second <= second);
        // Before the first change of this week the last one of the week before counts.
        let last = passed.checked_sub(1).map_or(changes.last(), |last| changes.get(last));
        last.is_some_and(|change| change.opens)
    }

    /// Seconds from a second of the week to the next change, never 0.
    pub(super) fn until_change(&self, second: i64) -> Option<i64> {
        let Self::Changes(changes) = self else { return None };
        let passed = changes.partition_point(|change| change.second <= second);
        let this_week = changes.get(passed).map(|change| change.second);
        let next = this_week.or_else(|| Some(changes.first()?.second.saturating_add(SECONDS_OF_WEEK)))?;
        Some(next.saturating_sub(second))
    }
}

/// The minutes of the week that a window accepts, each piece within one day: its first minute, and the one after its last.
fn pieces(window: &TimeWindow, reading: DaysApplyTo) -> impl Iterator<Item = (u16, u16)> {
    let (start, end) = (window.start().get(), window.end().get().saturating_add(1));
    let overnight = window.is_overnight();
    window.days().iter().flat_map(move |day| {
        let of = |day: jiff::civil::Weekday| u16::from(day.to_monday_zero_offset().unsigned_abs()).saturating_mul(DAY);
        let piece = |day, from: u16, to: u16| (of(day).saturating_add(from), of(day).saturating_add(to));
        let morning = match reading {
            DaysApplyTo::Calendar => day,
            DaysApplyTo::Start => day.next(),
        };
        if overnight {
            [Some(piece(day, start, DAY)), Some(piece(morning, 0, end))]
        } else {
            [Some(piece(day, start, end)), None]
        }
        .into_iter()
        .flatten()
    })
}
