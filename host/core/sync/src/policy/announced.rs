//! Since when the status of a policy has announced that its windows close (decision S9).
//!
//! Owns what the status says of the next boundary and of the closing that is running, and for how long a closing had been
//! announced when it came. An announcement is what stands in the stored object: anyone could read it there, whether a syncer
//! ran or not. Never: what follows from it; a closing that was announced for long enough is free for the
//! [guard](crate::guard).
//!
//! # Failure story
//!
//! A policy is edited, and its windows close at another time than before, or at once. That time was not announced, so it
//! begins to be announced now, and a closing that has no announcement counts as announced for no time at all. An edit that is
//! taken back is announced from then on, too. A status that was never written announces nothing.

use std::time::Duration;

use jiff::Timestamp;

use crate::schedule::Schedule;

/// A boundary that a status announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// When it is.
    pub at: Timestamp,
    /// Since when the status says so.
    pub since: Timestamp,
}

/// What the status of a policy announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Announced {
    /// The next boundary, of either kind: `nextTransition` with `nextTransitionSince`.
    pub next: Option<Announcement>,
    /// The closing since which the windows are closed, where that was announced: `lastClosing`.
    pub closing: Option<Announcement>,
}

impl Announced {
    /// What the status has to announce, where it announced this before. `written` is now, as the object keeps times.
    #[must_use]
    pub fn follow(self, schedule: Option<&Schedule>, now: Timestamp, written: Timestamp) -> Self {
        let Some(schedule) = schedule else { return Self::default() };
        let next = schedule.next_transition(now).map(|at| {
            let known = self.next.filter(|known| known.at == at);
            known.unwrap_or(Announcement { at, since: written })
        });
        // Where the windows are open there is none. What was announced as the next boundary may have come.
        let closing = schedule.last_closing(now).and_then(|at| self.of(at));
        Self { next, closing }
    }

    /// For how long the closing at this time had been announced when it came.
    #[must_use]
    pub fn before(self, closing: Timestamp) -> Duration {
        let time = self.of(closing).map(|announced| closing.duration_since(announced.since));
        time.and_then(|time| Duration::try_from(time).ok()).unwrap_or_default()
    }

    fn of(self, at: Timestamp) -> Option<Announcement> {
        [self.closing, self.next].into_iter().flatten().find(|announced| announced.at == at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{policy, window};
    use super::super::object::Policy;
    use super::*;

    fn at(time: &str) -> Timestamp {
        format!("2026-06-01T{time}Z").parse().unwrap()
    }

    /// Open until that minute, in UTC.
    fn until(end: &str) -> Schedule {
        let mut object = policy("p");
        object.spec.time_windows = vec![window("06:00", end, &[])];
        Policy::new(object).terms().unwrap().schedule.clone()
    }

    fn follow(announced: Announced, schedule: &Schedule, now: &str) -> Announced {
        announced.follow(Some(schedule), at(now), at(now))
    }

    #[test]
    fn s9_a_closing_is_announced_since_the_status_first_named_its_time_and_stays_so_while_it_runs() {
        let day = until("19:59");
        let morning = follow(Announced::default(), &day, "08:00:00");
        assert_eq!(morning.next, Some(Announcement { at: at("20:00:00"), since: at("08:00:00") }));
        assert_eq!(follow(morning, &day, "19:59:59"), morning, "nothing is written while nothing differs");
        // The closing has come, and the status says still what it said.
        assert_eq!(morning.before(at("20:00:00")), Duration::from_secs(12 * 3600));
        let evening = follow(morning, &day, "20:00:01");
        assert_eq!(evening.closing, morning.next);
        assert_eq!(evening.before(at("20:00:00")), Duration::from_secs(12 * 3600));
        assert_eq!(follow(evening, &day, "23:00:00"), evening);
        // It opens again.
        let tomorrow: Timestamp = "2026-06-02T06:00:00Z".parse().unwrap();
        assert_eq!(evening.next.unwrap().at, tomorrow);
        assert_eq!(evening.follow(Some(&day), tomorrow, tomorrow).closing, None);
    }

    #[test]
    fn s9_a_closing_that_an_edit_causes_was_not_announced() {
        let announced = follow(Announced::default(), &until("19:59"), "08:00:00");
        let sooner = until("12:04");
        // It is closed at once.
        let closed = follow(announced, &sooner, "13:00:00");
        assert_eq!((closed.closing, closed.before(at("12:05:00"))), (None, Duration::ZERO));
        // It closes soon.
        let soon = follow(announced, &sooner, "12:00:00");
        assert_eq!(soon.before(at("12:05:00")), Duration::from_secs(300));
        // The edit is taken back: what was announced before it counts no more.
        assert_eq!(follow(soon, &until("19:59"), "12:01:00").next.unwrap().since, at("12:01:00"));
    }

    #[test]
    fn s9_what_announces_nothing_announced_nothing_and_a_time_that_is_later_than_the_closing_is_none() {
        assert_eq!(Announced::default().before(at("20:00:00")), Duration::ZERO);
        let late = Announcement { at: at("20:00:00"), since: at("21:00:00") };
        assert_eq!(Announced { next: Some(late), closing: None }.before(at("20:00:00")), Duration::ZERO);
        let announced = follow(Announced::default(), &until("19:59"), "08:00:00");
        assert_eq!(announced.follow(None, at("09:00:00"), at("09:00:00")), Announced::default());
    }
}
