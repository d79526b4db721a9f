//! The `safety:` section of an entry.

use std::time::Duration;

/// The limits of the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Safety {
    /// `maxDeletePercent`, 0 to 100.
    pub max_delete_percent: u8,
    /// `maxLosePercent`, 0 to 100.
    pub max_lose_percent: u8,
    /// `confirmations`, 2 to 10.
    pub confirmations: u32,
    /// `holdFor`.
    pub hold_for: Duration,
    /// `allowEmpty`.
    pub allow_empty: bool,
}

impl Safety {
    /// `holdFor` of a source that only reads nodes.
    pub const HOLD_FOR: Duration = Duration::from_secs(600);
    /// `holdFor` of a source that calls endpoints.
    pub const HOLD_FOR_REMOTE: Duration = Duration::from_secs(3600);
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
