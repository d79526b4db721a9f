//! How long one key waits after it failed.

use std::time::Duration;

/// A pause that doubles with each failure up to a longest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// What the reference uses for work items (B11).
    pub const STANDARD: Self = Self { first: Duration::from_millis(5), longest: Duration::from_secs(1000) };
    /// What the reference uses for the resync of pods and the clean-up of jobs (B11).
    pub const SHORT: Self = Self { first: Duration::from_millis(5), longest: Duration::from_secs(180) };

    /// Of the first pause and the longest.
    #[must_use]
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after this many earlier failures.
    #[must_use]
    pub fn pause(self, failures: u32) -> Duration {
        let mut pause = self.first;
        for _ in 0..failures {
            if pause.is_zero() || pause >= self.longest {
                break;
            }
            pause = pause.saturating_mul(2);
        }
        pause.min(self.longest)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::STANDARD
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_are_those_of_the_reference() {
        let milliseconds: Vec<u128> = (0..20).map(|failures| Backoff::STANDARD.pause(failures).as_millis()).collect();
        assert_eq!(
            milliseconds,
            [
                5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10_240, 20_480, 40_960, 81_920, 163_840, 327_680,
                655_360, 1_000_000, 1_000_000
            ]
        );
        let fifteen: Duration = (0..15).map(|failures| Backoff::STANDARD.pause(failures)).sum();
        assert_eq!(fifteen, Duration::from_millis(163_835));
    }

    #[test]
    fn no_number_of_failures_makes_a_pause_longer_than_the_longest_or_wrap() {
        for failures in [31, 32, 33, 63, 64, 1000, u32::MAX] {
            assert_eq!(Backoff::STANDARD.pause(failures), Duration::from_secs(1000), "{failures}");
            assert_eq!(Backoff::SHORT.pause(failures), Duration::from_secs(180), "{failures}");
        }
        assert_eq!(Backoff::new(Duration::ZERO, Duration::ZERO).pause(40), Duration::ZERO);
    }
}
