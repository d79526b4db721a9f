//! How long a failed key waits: the longer of its own pause and its turn in the common rate.

use std::time::Duration;

use super::{Backoff, Bucket};

/// The limits of one queue: a pause per key and a rate for all of them together (B11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limiter {
    backoff: Backoff,
    bucket: Bucket,
}

impl Limiter {
    /// A limiter made of both.
    #[must_use]
    pub fn new(backoff: Backoff, bucket: Bucket) -> Self {
        Self { backoff, bucket }
    }

    /// How long a key waits that has failed this often before. Takes a token.
    pub fn pause(&mut self, failures: u32, now: Duration) -> Duration {
        self.backoff.pause(failures).max(self.bucket.reserve(now))
    }
}

impl Default for Limiter {
    fn default() -> Self {
        Self { backoff: Backoff::STANDARD, bucket: Bucket::STANDARD }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_250_that_fail_at_once_a_hundred_wait_for_themselves_and_the_others_for_the_rate() {
        let mut limiter = Limiter::default();
        let pauses: Vec<Duration> = (0..250).map(|_| limiter.pause(0, Duration::ZERO)).collect();
        assert!(pauses[..100].iter().all(|pause| *pause == Duration::from_millis(5)), "{pauses:?}");
        assert_eq!(pauses[100], Duration::from_millis(100));
        assert_eq!(pauses[249], Duration::from_secs(15));
    }

    #[test]
    fn the_longer_of_both_counts() {
        let mut limiter = Limiter::new(Backoff::STANDARD, Bucket::new(Duration::from_secs(1), 1));
        assert_eq!(limiter.pause(0, Duration::ZERO), Duration::from_millis(5));
        assert_eq!(limiter.pause(0, Duration::ZERO), Duration::from_secs(1));
        assert_eq!(limiter.pause(12, Duration::ZERO), Duration::from_millis(20_480));
    }
}
