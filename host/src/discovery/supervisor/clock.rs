//! The clock of one source, and chance: what the machines of core take as arguments.

use std::hash::{BuildHasher as _, RandomState};

use tokio::time::Instant;
use topoloom_core::plugin::rollout::Time;

/// Time since the source started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    began: Instant,
}

impl Clock {
    /// Begins to count.
    pub(super) fn start() -> Self {
        Self { began: Instant::now() }
    }

    /// Now.
    pub(super) fn now(self) -> Time {
        self.began.elapsed()
    }

    /// A moment of the process, as this clock counts.
    pub(super) fn time(self, moment: Instant) -> Time {
        moment.saturating_duration_since(self.began)
    }

    /// The moment of a time.
    pub(super) fn moment(self, time: Time) -> Instant {
        self.began + time
    }
}

/// A number that differs between sources and calls.
pub(super) fn chance() -> u32 {
    let bytes = RandomState::new().hash_one(()).to_le_bytes();
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
