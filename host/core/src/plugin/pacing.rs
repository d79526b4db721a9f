//! When the next round of a source is due.
//!
//! A change that matters starts a round at once; what happens while it runs collapses into one further round. A plugin
//! may ask for a pause between such rounds, an operator for time to settle, and after a failure nothing but the
//! operator starts a round before the back-off is over.
//!
//! Time and chance are arguments.

use std::time::Duration;

use super::rollout::Time;
use super::{Retry, Trigger};

/// Changes that never stop are looked at after this many settle times.
const SETTLE_PATIENCE: u32 = 10;

/// First pause after a failure.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// A source that calls endpoints is never asked more often than this after a failure (`topology-sources.md` 6).
const FIRST_REMOTE_BACKOFF: Duration = Duration::from_secs(10);
/// The longest pause after a failure (`wasm-plugins.md` 7).
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);

/// Pauses after failures differ by a fifth of themselves at most, so that sources that failed together do not ask
/// together (`topology-sources.md` 6).
const SPREAD: u32 = 5;

/// What a revision asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rhythm {
    /// Column changes start a round; rounds lie this far apart at least.
    pub columns: Option<Duration>,
    /// Names that appear or go start a round.
    pub names: Option<Duration>,
    /// A round this long after the last one.
    pub timer: Option<Duration>,
    /// Column changes must have stopped for this long.
    pub settle: Duration,
    /// What the source asks beside the cluster.
    pub reach: Reach,
}

/// What a source asks beside the cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// Nothing.
    #[default]
    Cluster,
    /// Services behind endpoints.
    Endpoints,
}

impl Rhythm {
    /// Of the triggers that a plugin requires and the entry's interval and settle time.
    #[must_use]
    pub fn new(triggers: &[Trigger], interval: Duration, settle: Duration, reach: Reach) -> Self {
        let mut rhythm = Self { settle, reach, ..Self::default() };
        for trigger in triggers {
            match *trigger {
                Trigger::Columns(pause) => rhythm.columns = Some(pause),
                Trigger::Names(pause) => rhythm.names = Some(pause),
                Trigger::Timer(pause) => rhythm.timer = Some(interval.max(pause)),
            }
        }
        rhythm
    }
}

/// The state: what waits, and since when.
#[derive(Debug, Clone, Default)]
pub struct Pacing {
    rhythm: Rhythm,
    columns: Option<ChangesWaiting>,
    names: bool,
    asked: bool,
    extra: Option<Time>,
    last_start: Option<Time>,
    failures: u32,
    blocked: bool,
    not_before: Option<Time>,
    /// A Secret or a document changed.
    outside: bool,
    /// The last round failed in a way that such a change may mend.
    mendable: bool,
}

#[derive(Debug, Clone, Copy)]
struct ChangesWaiting {
    first: Time,
    last: Time,
}

impl Pacing {
    /// A new revision: its first round is due at once.
    pub fn restart(&mut self, rhythm: Rhythm) {
        *self = Self { rhythm, asked: true, ..Self::default() };
    }

    /// A required column changed.
    pub fn columns_changed(&mut self, now: Time) {
        let first = self.columns.map_or(now, |waiting| waiting.first);
        self.columns = Some(ChangesWaiting { first, last: now });
    }

    /// A node appeared or disappeared.
    pub fn names_changed(&mut self) {
        self.names = true;
    }

    /// A round is asked for: by the operator, or by a change of what the source runs on. Ends a back-off.
    pub fn ask(&mut self) {
        self.asked = true;
        self.blocked = false;
        self.not_before = None;
    }

    /// A Secret or a document behind an endpoint changed. Ends only a wait for exactly that, and shortens no other
    /// wait.
    pub fn outside_changed(&mut self) {
        self.outside = true;
    }

    /// A round at this time in any case (a held result that time may confirm).
    pub fn at(&mut self, when: Option<Time>) {
        self.extra = when;
    }

    /// When the next round is due; `None`: not before something happens.
    #[must_use]
    pub fn due(&self, now: Time) -> Option<Time> {
        let outside = self.outside.then(|| self.last_start.map_or(now, |last| last + FIRST_REMOTE_BACKOFF));
        if self.mendable && outside.is_some() {
            return outside;
        }
        if self.blocked {
            return None;
        }
        let paused = |pause: Duration| self.last_start.map_or(now, |last| last + pause);
        let columns = match (self.rhythm.columns, self.columns) {
            (Some(pause), Some(waiting)) => {
                let patience = waiting.first + self.rhythm.settle * SETTLE_PATIENCE;
                Some((waiting.last + self.rhythm.settle).min(patience).max(paused(pause)))
            }
            _ => None,
        };
        let names = self.rhythm.names.filter(|_| self.names).map(paused);
        let timer = self.rhythm.timer.and_then(|interval| Some(self.last_start? + interval));
        let retry = self.not_before.filter(|_| self.failures > 0);
        let asked = self.asked.then_some(now);
        let earliest = [columns, names, timer, retry, asked, outside, self.extra].into_iter().flatten().min()?;
        Some(self.not_before.map_or(earliest, |not_before| earliest.max(not_before)))
    }

    /// A round starts: it sees everything that waited.
    pub fn started(&mut self, now: Time) {
        self.columns = None;
        self.names = false;
        self.asked = false;
        self.extra = None;
        self.not_before = None;
        self.outside = false;
        self.mendable = false;
        self.last_start = Some(now);
    }

    /// The round worked.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The round failed. Answers when it is tried again; `wait` is what the other side asked for, and `chance`, any
    /// number, spreads the pause.
    pub fn failed(&mut self, now: Time, wait: Option<Duration>, chance: u32) -> Time {
        let first = match self.rhythm.reach {
            Reach::Cluster => FIRST_BACKOFF,
            Reach::Endpoints => FIRST_REMOTE_BACKOFF,
        };
        let doubled = first.saturating_mul(1 << self.failures.min(9));
        self.failures = self.failures.saturating_add(1);
        let wait = wait.unwrap_or_default().min(LONGEST_BACKOFF);
        let pause = doubled.min(LONGEST_BACKOFF).max(wait);
        // Never less than what was asked for, never more than the longest.
        let room = pause / SPREAD;
        let part = room.mul_f64(f64::from(chance) / f64::from(u32::MAX));
        let least = pause.min(LONGEST_BACKOFF - room).max(wait);
        let when = now + (least + part).min(LONGEST_BACKOFF);
        self.not_before = Some(when);
        when
    }

    /// A round failed, and `retry` says what can help. Returns when it is tried again, if time alone decides that.
    pub fn failed_for(&mut self, now: Time, retry: Retry, chance: u32) -> Option<Time> {
        match retry {
            Retry::Later(wait) => Some(self.failed(now, wait, chance)),
            Retry::AtInterval => Some(self.failed_until_interval(now)),
            Retry::OnChange => {
                self.failed_until_changed();
                None
            }
        }
    }

    /// No round before this time, unless one is requested.
    pub fn rest(&mut self, until: Time) {
        self.failures = self.failures.max(1);
        self.blocked = false;
        self.not_before = Some(until);
    }

    /// The round failed in a way that has to be mended outside: it is tried again when the interval has passed.
    fn failed_until_interval(&mut self, now: Time) -> Time {
        self.failures = self.failures.saturating_add(1);
        let interval = self.rhythm.timer.map_or(LONGEST_BACKOFF, |interval| interval.max(FIRST_REMOTE_BACKOFF));
        let when = self.last_start.unwrap_or(now) + interval;
        self.not_before = Some(when);
        self.mendable = true;
        when
    }

    /// The round failed in a way that only a change can mend.
    fn failed_until_changed(&mut self) {
        self.blocked = true;
        self.failures = 0;
        self.not_before = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);
    const NOW: Time = Duration::from_secs(1000);

    fn pacing(triggers: &[Trigger], settle: Duration) -> (Pacing, Time) {
        let mut pacing = Pacing::default();
        pacing.restart(Rhythm::new(triggers, 600 * S, settle, Reach::Cluster));
        let now = NOW;
        assert_eq!(pacing.due(now), Some(now), "the first round is due at once");
        pacing.started(now);
        pacing.succeeded();
        (pacing, now)
    }

    #[test]
    fn a_change_is_due_at_once_and_a_burst_is_one_round() {
        let (mut pacing, now) = pacing(&[Trigger::Columns(Duration::ZERO)], Duration::ZERO);
        assert_eq!(pacing.due(now), None);
        pacing.columns_changed(now + S);
        pacing.columns_changed(now + S);
        assert_eq!(pacing.due(now + S), Some(now + S));
        pacing.started(now + S);
        assert_eq!(pacing.due(now + S), None);
    }

    #[test]
    fn names_wake_only_who_asked_for_them() {
        let (mut pacing, now) = pacing(&[Trigger::Columns(Duration::ZERO)], Duration::ZERO);
        pacing.names_changed();
        assert_eq!(pacing.due(now), None);
    }

    #[test]
    fn settling_waits_for_rest_but_not_for_ever() {
        let (mut pacing, now) = pacing(&[Trigger::Columns(Duration::ZERO)], 2 * S);
        pacing.columns_changed(now);
        pacing.columns_changed(now + S);
        assert_eq!(pacing.due(now + S), Some(now + 3 * S));
        for i in 0..100 {
            pacing.columns_changed(now + i * S);
        }
        assert_eq!(pacing.due(now + 100 * S), Some(now + 20 * S));
    }

    #[test]
    fn the_timer_and_the_minimum_pause_hold() {
        let (mut pacing, now) = pacing(&[Trigger::Timer(5 * S), Trigger::Columns(30 * S)], Duration::ZERO);
        assert_eq!(pacing.due(now), Some(now + 600 * S));
        pacing.columns_changed(now + S);
        assert_eq!(pacing.due(now + S), Some(now + 30 * S));
    }

    #[test]
    fn failures_back_off_and_the_operator_ends_the_back_off() {
        let (mut pacing, now) = pacing(&[Trigger::Columns(Duration::ZERO)], Duration::ZERO);
        assert_eq!(pacing.failed(now, None, 0), now + S);
        assert_eq!(pacing.due(now), Some(now + S));
        pacing.columns_changed(now);
        assert_eq!(pacing.due(now), Some(now + S), "a change does not cut the back-off short");
        pacing.started(now + S);
        assert_eq!(pacing.failed(now + S, None, 0), now + 3 * S);
        pacing.ask();
        assert_eq!(pacing.due(now + S), Some(now + S));
        for _ in 0..20 {
            pacing.started(now);
            pacing.failed(now, None, u32::MAX);
        }
        assert_eq!(pacing.due(now), Some(now + LONGEST_BACKOFF));
    }

    fn remote() -> (Pacing, Time) {
        let mut pacing = Pacing::default();
        pacing.restart(Rhythm::new(&[Trigger::Timer(Duration::ZERO)], 600 * S, Duration::ZERO, Reach::Endpoints));
        let now = NOW;
        pacing.started(now);
        (pacing, now)
    }

    #[test]
    fn an_endpoint_is_never_asked_again_within_ten_seconds_and_is_waited_for_at_most_five_minutes() {
        let (mut pacing, now) = remote();
        assert_eq!(pacing.failed(now, None, 0), now + 10 * S);
        pacing.started(now);
        assert_eq!(pacing.failed(now, None, 0), now + 20 * S);
        pacing.started(now);
        assert_eq!(pacing.failed(now, Some(70 * S), 0), now + 70 * S, "it asked for that");
        pacing.started(now);
        assert_eq!(pacing.failed(now, Some(7000 * S), 0), now + 300 * S);
        assert_eq!(pacing.due(now), Some(now + 300 * S));
    }

    #[test]
    fn what_failed_is_tried_again_as_it_deserves() {
        let (mut pacing, now) = remote();
        for (retry, due) in [
            (Retry::Later(None), Some(now + 10 * S)),
            (Retry::Later(Some(70 * S)), Some(now + 70 * S)),
            (Retry::AtInterval, Some(now + 600 * S)),
            (Retry::OnChange, None),
        ] {
            pacing.started(now);
            assert_eq!(pacing.failed_for(now, retry, 0), due, "{retry:?}");
            assert_eq!(pacing.due(now), due, "{retry:?}");
        }
    }

    #[test]
    fn pauses_are_spread_within_their_bounds() {
        let now = NOW;
        let timer = Rhythm::new(&[Trigger::Timer(Duration::ZERO)], 600 * S, Duration::ZERO, Reach::Endpoints);
        let mut seen = std::collections::BTreeSet::new();
        for hundredth in 0..=100 {
            let mut pacing = Pacing::default();
            pacing.restart(timer.clone());
            for (wait, least, most) in [
                (None, 10 * S, 12 * S),
                (None, 20 * S, 24 * S),
                (Some(100 * S), 100 * S, 120 * S),
                (Some(7000 * S), 300 * S, 300 * S),
                (Some(280 * S), 280 * S, 300 * S),
                (None, 240 * S, 300 * S),
            ] {
                pacing.started(now);
                let pause = pacing.failed(now, wait, u32::MAX / 100 * hundredth) - now;
                assert!(pause >= least && pause <= most, "{pause:?} of {wait:?}");
                seen.insert(pause);
            }
        }
        assert!(seen.len() > 400, "{} different pauses", seen.len());
    }

    #[test]
    fn a_refused_credential_waits_for_the_interval_or_another_secret() {
        let (mut pacing, now) = remote();
        assert_eq!(pacing.failed_until_interval(now + S), now + 600 * S);
        assert_eq!(pacing.due(now + S), Some(now + 600 * S));
        pacing.outside_changed();
        assert_eq!(pacing.due(now + S), Some(now + 10 * S), "a Secret that flaps makes no hurry");
        pacing.started(now + 10 * S);
        pacing.outside_changed();
        assert_eq!(pacing.due(now + 11 * S), Some(now + 20 * S));
        // Short intervals do not shorten it either.
        let mut pacing = Pacing::default();
        pacing.restart(Rhythm::new(&[Trigger::Timer(Duration::ZERO)], S, Duration::ZERO, Reach::Endpoints));
        pacing.started(now);
        assert_eq!(pacing.failed_until_interval(now), now + 10 * S);
    }

    #[test]
    fn another_secret_does_not_end_a_wait_for_something_else() {
        let (mut pacing, now) = remote();
        pacing.failed(now, Some(60 * S), 0);
        pacing.outside_changed();
        assert_eq!(pacing.due(now), Some(now + 60 * S));
        pacing.ask();
        assert_eq!(pacing.due(now), Some(now));
    }
}
