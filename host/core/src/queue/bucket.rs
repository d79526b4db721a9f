//! The rate at which keys of all kinds are tried again.

use std::time::Duration;

/// A bucket of tokens, full at first; one token is added per interval. A caller that finds it empty reserves a future
/// token and gets the time that it has to wait.
///
/// Stored as the time at which the bucket would be full again. That is equivalent, without fractions of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    interval: Duration,
    burst: u32,
    full_at: Duration,
}

impl Bucket {
    /// Ten per second, a hundred at once (B11).
    pub const STANDARD: Self = Self { interval: Duration::from_millis(100), burst: 100, full_at: Duration::ZERO };

    /// `interval` is the time in which one token is added, `burst` the most tokens that there are.
    #[must_use]
    pub fn new(interval: Duration, burst: u32) -> Self {
        Self { interval, burst, full_at: Duration::ZERO }
    }

    /// Reserves the next token and returns how long it takes until that token is there.
    pub fn reserve(&mut self, now: Duration) -> Duration {
        self.full_at = self.full_at.max(now).saturating_add(self.interval);
        (self.full_at - now).saturating_sub(self.interval.saturating_mul(self.burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_secs(3600);

    #[test]
    fn a_hundred_wait_for_nothing_and_the_others_for_their_turn() {
        let mut bucket = Bucket::STANDARD;
        for i in 1..=250_u64 {
            let wanted = Duration::from_millis(i.saturating_sub(100) * 100);
            assert_eq!(bucket.reserve(AT), wanted, "item {i}");
        }
    }

    #[test]
    fn tokens_come_back_one_by_one_and_never_more_than_the_burst() {
        let mut bucket = Bucket::new(Duration::from_millis(100), 2);
        assert_eq!([bucket.reserve(AT), bucket.reserve(AT)], [Duration::ZERO; 2]);
        let later = AT + Duration::from_millis(150);
        assert_eq!(bucket.reserve(later), Duration::ZERO, "one and a half came back");
        assert_eq!(bucket.reserve(later), Duration::from_millis(50), "the half is not lost");
        let much_later = AT * 10;
        assert_eq!([bucket.reserve(much_later), bucket.reserve(much_later)], [Duration::ZERO; 2]);
        assert_eq!(bucket.reserve(much_later), Duration::from_millis(100));
    }

    #[test]
    fn an_end_of_time_is_no_panic() {
        let mut bucket = Bucket::new(Duration::MAX, 1);
        assert_eq!(bucket.reserve(AT), Duration::ZERO);
        bucket.reserve(Duration::MAX);
        bucket.reserve(AT);
    }
}
