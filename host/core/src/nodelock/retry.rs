//! How often something is tried again after an API error or a conflict, and after how long (`node-lock-and-bind.md` A6).
//! The wait for a lock that is held is not bounded by this.

use std::hash::{Hash, Hasher};
use std::time::Duration;

/// A preset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retry {
    /// Tries in all.
    pub tries: u32,
    /// The first pause.
    pub base: Duration,
    /// By how much each pause is longer than the one before.
    pub factor: f64,
    /// By what part of it a pause may be longer, at random.
    pub jitter: f64,
}

impl Eq for Retry {}

impl Hash for Retry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.tries, self.base, self.factor.to_bits(), self.jitter.to_bits()).hash(state);
    }
}

impl Retry {
    /// The constants of the original document.
    pub const CLASSIC: Self = Self { tries: 5, base: Duration::from_millis(100), factor: 1.0, jitter: 0.1 };
    /// Those of HAMi 2.10.
    pub const HAMI_2_10: Self = Self { tries: 5, base: Duration::from_millis(100), factor: 2.0, jitter: 0.5 };
    /// Their names.
    pub const PRESETS: [(&'static str, Self); 2] = [("classic", Self::CLASSIC), ("hami-2.10", Self::HAMI_2_10)];

    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::PRESETS.into_iter().find(|(preset, _)| *preset == name).map(|(_, retry)| retry)
    }

    /// The pause after so many failed tries, with a random number from 0 up to 1; `None` when it is not tried again.
    #[must_use]
    pub fn pause(&self, failed: u32, random: f64) -> Option<Duration> {
        if failed == 0 || failed >= self.tries {
            return None;
        }
        let exponent = i32::try_from(failed - 1).unwrap_or(i32::MAX);
        Some(self.base.mul_f64(self.factor.powi(exponent) * (1.0 + random.clamp(0.0, 1.0) * self.jitter)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of A6.
    #[test]
    fn a6_the_pauses_of_both_generations() {
        let sum = |retry: Retry, random: f64| (1..).map_while(|failed| retry.pause(failed, random)).sum::<Duration>();
        let all = |retry: Retry, random: f64| -> Vec<u128> {
            (1..).map_while(|failed| retry.pause(failed, random)).map(|pause| pause.as_millis()).collect()
        };
        assert_eq!(all(Retry::CLASSIC, 0.0), [100, 100, 100, 100]);
        assert_eq!(all(Retry::CLASSIC, 1.0), [110, 110, 110, 110]);
        assert_eq!(all(Retry::HAMI_2_10, 0.0), [100, 200, 400, 800]);
        assert_eq!(all(Retry::HAMI_2_10, 1.0), [150, 300, 600, 1200]);
        assert_eq!((sum(Retry::CLASSIC, 0.0).as_millis(), sum(Retry::CLASSIC, 1.0).as_millis()), (400, 440));
        assert_eq!((sum(Retry::HAMI_2_10, 0.0).as_millis(), sum(Retry::HAMI_2_10, 1.0).as_millis()), (1500, 2250));
        assert_eq!(Retry::named("hami-2.10"), Some(Retry::HAMI_2_10));
        assert_eq!((Retry::named("Classic"), Retry::CLASSIC.pause(0, 0.0)), (None, None));
    }
}
