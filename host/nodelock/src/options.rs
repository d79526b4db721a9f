//! How the lock is kept: what the extender, the sweeper and the view judge locks by.

use std::time::Duration;

use topoloom_core::nodelock::{Retry, Takeover};

/// How the lock is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// When locks expire whose state does not decide (10 s to 24 h, and at least twice the time of a Bind; decision N3).
    pub ttl: Duration,
    /// Whose locks are taken over for their age alone.
    pub takeover: Takeover,
    /// How the node lock retries after API errors and conflicts.
    pub retry: Retry,
}
