//! The two clocks: one that cannot be set, for turns and ages, and the time of day, for what is written.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use topoloom_cluster::gate::boot_time;

/// Both clocks. Clones read the same ones.
#[derive(Clone)]
pub struct Clock {
    boot: Arc<dyn Fn() -> Duration + Send + Sync>,
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Clock {
    /// Those of this machine: its boot-time clock, which also runs while it sleeps, and its time of day.
    #[must_use]
    pub fn machine() -> Self {
        Self::new(boot_time, Timestamp::now)
    }

    /// Other ones. The first never goes back.
    #[must_use]
    pub fn new(
        boot: impl Fn() -> Duration + Send + Sync + 'static,
        wall: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        Self { boot: Arc::new(boot), wall: Arc::new(wall) }
    }

    /// The time since the machine was started.
    #[must_use]
    pub fn boot(&self) -> Duration {
        (self.boot)()
    }

    /// The time of day.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        (self.wall)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("boot", &self.boot()).field("wall", &self.wall()).finish()
    }
}
