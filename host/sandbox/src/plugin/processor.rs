//! Processor time of a thread or of child processes: what they computed, not what passed meanwhile. On a loaded machine the
//! two differ by any factor.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What this thread has computed since it began. Comparable only with other answers to the same thread.
pub(super) fn of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Parts of a second in which Linux counts for programs, on every processor that we build for.
const TICKS: u32 = 100;

/// What all child processes that have ended have computed. At a desk, where one thing happens at a time, the difference
/// before and after a load is what the compiler took.
#[must_use]
pub fn of_ended_children() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    children_in(&stat).map_or(Duration::ZERO, |ticks| Duration::from_secs(ticks) / TICKS)
}

/// Fields 16 and 17 of `proc_pid_stat(5)`: user and system time. The second field, in parentheses, may have any bytes in it.
fn children_in(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_read_behind_any_name() {
        let stat = "4 (a ) b) S 1 2 3 0 -1 4194560 100 200 0 0 11 12 1850 35 20 0 1 0 9 1 2";
        assert_eq!(children_in(stat), Some(1_885));
        assert_eq!(children_in("4 (cut) S 1 2"), None);
        assert_eq!(children_in(""), None);
    }
}
