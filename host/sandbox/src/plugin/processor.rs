//! Processor time of a thread: what it computed, not what passed meanwhile. On a loaded machine the two differ by any factor.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What this thread has computed since it began. Comparable only with other answers to the same thread.
pub(super) fn of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
