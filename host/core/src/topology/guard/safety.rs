//! The `safety:` section of an entry.

use std::time::Duration;

/// The limits of the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Safety {
    /// `maxDeletePercent`, 0 to 100: at most this share of the source's objects is deleted at once. 100 switches it
    /// off.
    pub max_delete_percent: u8,
    /// `maxLosePercent`, 0 to 100: at most this share of the placed Nodes loses all places at once. 100 switches it
    /// off.
    pub max_lose_percent: u8,
    /// `confirmations`, 2 to 10: how many rounds have to agree, the first one included.
    pub confirmations: u32,
    /// `holdFor`, 1 s to 7 days: the least time between agreeing rounds.
    pub hold_for: Duration,
    /// `allowEmpty`: an empty result is no reason to hold. The other rules still count its deletions and losses.
    pub allow_empty: bool,
}

/// A limit out of its range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("safety.{field} is {value}, allowed is {allowed}")]
pub struct SafetyError {
    /// The key in the entry.
    pub field: &'static str,
    /// The configured value.
    pub value: String,
    /// The range.
    pub allowed: &'static str,
}

impl Safety {
    /// `holdFor` of a source that only reads nodes: long enough for a controller that removed its labels to set them
    /// again.
    pub const HOLD_FOR: Duration = Duration::from_secs(600);
    /// `holdFor` of a source that calls endpoints: long enough for an operator to check a fabric manager.
    pub const HOLD_FOR_REMOTE: Duration = Duration::from_secs(3600);

    /// All limits that are out of range.
    ///
    /// # Errors
    ///
    /// One for each limit out of range; the host does not use the entry until they are corrected.
    pub fn check(&self) -> Result<(), Vec<SafetyError>> {
        let percent = |field, value: u8| (field, value <= 100, value.to_string(), "0 to 100");
        let checks = [
            percent("maxDeletePercent", self.max_delete_percent),
            percent("maxLosePercent", self.max_lose_percent),
            // One would apply at once what was just held. To switch a rule off, set its percentage to 100.
            ("confirmations", (2..=10).contains(&self.confirmations), self.confirmations.to_string(), "2 to 10"),
            (
                "holdFor",
                (Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600)).contains(&self.hold_for),
                format!("{:?}", self.hold_for),
                "1s to 168h",
            ),
        ];
        let wrong = checks.into_iter().filter(|(_, ok, ..)| !ok);
        let errors: Vec<_> = wrong.map(|(field, _, value, allowed)| SafetyError { field, value, allowed }).collect();
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

impl Default for Safety {
    fn default() -> Self {
        Self {
            max_delete_percent: 50,
            max_lose_percent: 30,
            confirmations: 2,
            hold_for: Self::HOLD_FOR,
            allow_empty: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_in_range() {
        assert_eq!(Safety::default().check(), Ok(()));
        assert_eq!(Safety { hold_for: Safety::HOLD_FOR_REMOTE, ..Safety::default() }.check(), Ok(()));
    }

    #[test]
    fn every_limit_out_of_range_is_named() {
        let hold_for = Duration::from_millis(1);
        let all =
            Safety { max_delete_percent: 101, max_lose_percent: 200, confirmations: 1, hold_for, allow_empty: false };
        let said: Vec<String> = all.check().unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            said,
            [
                "safety.maxDeletePercent is 101, allowed is 0 to 100",
                "safety.maxLosePercent is 200, allowed is 0 to 100",
                "safety.confirmations is 1, allowed is 2 to 10",
                "safety.holdFor is 1ms, allowed is 1s to 168h",
            ]
        );
    }
}
