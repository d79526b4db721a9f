//! The pauses of a watch that breaks: short at first, half a minute at most.
//!
//! Trying again costs the API server one list of the whole kind and is paid by every replica, so a watch that stays
//! refused must become quiet. The pauses restart when a list succeeded and the watch after it lasted for a moment: an
//! API server that answers lists and ends every watch at once, with an error or without a word, is as broken as one that
//! answers nothing.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

/// After the first failure.
const FIRST: Duration = Duration::from_millis(200);
/// At most, also where the API server asks for more: a right that was given is noticed within this time.
pub const LONGEST: Duration = Duration::from_secs(30);
/// By how much of itself a pause may be shorter, so that watches that broke at the same time do not retry at the same
/// time.
const SPREAD: f64 = 0.25;
/// So long after a list that succeeded a failure is the first one again.
const STOOD: Duration = Duration::from_secs(1);

/// Pauses that double between 200 ms and 30 s, each up to a quarter shorter.
#[derive(Debug, Clone, Default)]
pub struct Pauses {
    /// In a row.
    failures: u32,
    /// Since when it works.
    works: Option<Instant>,
    spread: RandomState,
}

impl Pauses {
    /// The API server answered with what was asked for: a whole list, an event, or a watch that lasted.
    pub fn succeeded(&mut self, now: Instant) {
        let _ = self.works.get_or_insert(now);
    }

    /// It failed, or a watch ended at once; how long to wait now, and no less than what the API server asked for.
    pub fn failed(&mut self, now: Instant, asked: Option<Duration>) -> Duration {
        if self.works.take().is_some_and(|since| now.saturating_duration_since(since) >= STOOD) {
            self.failures = 0;
        }
        let doubled = FIRST.saturating_mul(1 << self.failures.min(8)).min(LONGEST);
        #[allow(clippy::cast_possible_truncation, reason = "half of the hash is random enough")]
        let part = f64::from(self.spread.hash_one(self.failures) as u32) / f64::from(u32::MAX);
        self.failures = self.failures.saturating_add(1);
        doubled.mul_f64(SPREAD.mul_add(-part, 1.0)).max(asked.unwrap_or_default()).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(pauses: &mut Pauses, now: Instant, count: usize) -> Vec<u128> {
        (0..count).map(|_| pauses.failed(now, None).as_millis()).collect()
    }

    #[track_caller]
    fn within(found: &[u128], longest: &[u128]) {
        assert_eq!(found.len(), longest.len());
        let fits = |(found, longest): (&u128, &u128)| *found <= *longest && *found >= longest * 3 / 4;
        assert!(found.iter().zip(longest).all(fits), "{found:?} for {longest:?}");
    }

    #[test]
    fn pauses_double_up_to_half_a_minute_and_begin_anew_when_a_list_succeeded() {
        let (mut pauses, now) = (Pauses::default(), Instant::now());
        let doubled = [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000];
        within(&millis(&mut pauses, now, 10), &doubled);
        pauses.succeeded(now);
        pauses.succeeded(now + STOOD / 2);
        within(&millis(&mut pauses, now + STOOD, 2), &[200, 400]);
    }

    #[test]
    fn lists_that_succeed_do_not_count_while_every_watch_behind_them_breaks_at_once() {
        let (mut pauses, now) = (Pauses::default(), Instant::now());
        let found: Vec<u128> = (0..10)
            .map(|_| {
                pauses.succeeded(now);
                pauses.failed(now + STOOD / 2, None).as_millis()
            })
            .collect();
        within(&found, &[200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
    }

    #[test]
    fn a_watch_that_works_for_a_second_begins_anew() {
        for (works, second) in [(999, 400), (1000, 200)] {
            let (mut pauses, now) = (Pauses::default(), Instant::now());
            let first = pauses.failed(now, None).as_millis();
            pauses.succeeded(now);
            within(&[first, pauses.failed(now + Duration::from_millis(works), None).as_millis()], &[200, second]);
        }
    }

    #[test]
    fn what_the_api_server_asks_for_is_waited_and_never_more_than_the_longest() {
        let (mut pauses, now) = (Pauses::default(), Instant::now());
        assert_eq!(pauses.failed(now, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(pauses.failed(now, Some(Duration::from_secs(86_400))), LONGEST);
        assert!(pauses.failed(now, Some(Duration::ZERO)) >= 2 * FIRST);
    }

    #[test]
    fn two_that_broke_together_come_back_apart() {
        let now = Instant::now();
        let sums: std::collections::BTreeSet<Duration> = (0..8)
            .map(|_| {
                let mut pauses = Pauses::default();
                (0..9).map(|_| pauses.failed(now, None)).sum()
            })
            .collect();
        assert!(sums.len() > 4, "{sums:?}");
    }
}
