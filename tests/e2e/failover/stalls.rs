//! When the machine stood still. A virtual machine may get no processor for seconds; then nobody on it is on time, and that
//! is no mistake of the host. What counts as that is measured on every processor, beside the story.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How long somebody rests between two looks at the clock.
const REST: Duration = Duration::from_millis(20);
/// Who rested longer than that by so much stood in no line of a busy machine.
const STALL: Duration = Duration::from_millis(100);

/// Looks at the clock on every processor, as long as it lives.
pub(super) struct Watch {
    seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    stalls: Mutex<Vec<Stall>>,
    has_ended: AtomicBool,
}

/// From when to when a processor did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stall {
    from: Timestamp,
    to: Timestamp,
}

impl Watch {
    pub(super) fn begin() -> Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let seen = Arc::new(Seen::default());
        let mut threads = Vec::new();
        for processor in (0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)) {
            let seen = Arc::clone(&seen);
            threads.push(thread::Builder::new().name(format!("clock-{processor}")).spawn(move || {
                let mut only = CpuSet::new();
                only.set(processor);
                // A processor that was taken away meanwhile is watched from another one.
                let _ = sched_setaffinity(None, &only);
                seen.look();
            })?);
        }
        Ok(Self { seen, threads })
    }

    /// What there was so far.
    pub(super) fn stalls(&self) -> Stalls {
        let mut stalls = self.seen.stalls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stalls.sort_unstable();
        Stalls(stalls)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.seen.has_ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Seen {
    #[allow(
        clippy::disallowed_methods,
        reason = "it waits for nothing: that it rests longer than it said is what is measured"
    )]
    fn look(&self) {
        while !self.has_ended.load(Ordering::Relaxed) {
            let began = Instant::now();
            thread::sleep(REST);
            let more = began.elapsed().saturating_sub(REST);
            if more >= STALL {
                let to = Timestamp::now();
                let stall = Stall { from: to - more, to };
                self.stalls.lock().unwrap_or_else(PoisonError::into_inner).push(stall);
            }
        }
    }
}

/// In the order of their beginnings.
#[derive(Debug, Default)]
pub(super) struct Stalls(Vec<Stall>);

impl Stalls {
    /// For how long any of the processors stood still between these times.
    pub(super) fn between(&self, from: Timestamp, to: Timestamp) -> SignedDuration {
        let mut all = SignedDuration::ZERO;
        let mut counted = from;
        for stall in &self.0 {
            let begins = stall.from.max(counted);
            let ends = stall.to.min(to);
            if begins < ends {
                all += ends.duration_since(begins);
                counted = ends;
            }
        }
        all
    }

    /// The most of it in any stretch of this length that begins after `since`.
    pub(super) fn worst(&self, since: Timestamp, length: SignedDuration) -> SignedDuration {
        let begins = self.0.iter().map(|stall| stall.from.max(since)).chain([since]);
        begins.map(|begins| self.between(begins, begins + length)).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    fn stalls(all: &[(i64, i64)]) -> Stalls {
        Stalls(all.iter().map(|(from, to)| Stall { from: at(*from), to: at(*to) }).collect())
    }

    #[test]
    fn stalls_of_two_processors_at_once_count_once() {
        let stalls = stalls(&[(100, 300), (150, 200), (200, 400), (1000, 1100)]);
        for (from, to, wanted) in [(0, 2000, 400), (0, 350, 250), (250, 1050, 200), (400, 1000, 0), (500, 400, 0)] {
            let between = stalls.between(at(from), at(to)).as_millis();
            assert_eq!(between, wanted, "from {from} to {to}");
        }
    }

    #[test]
    fn the_worst_stretch_begins_with_a_stall_or_where_it_may_begin_first() {
        let stalls = stalls(&[(0, 900), (2000, 2300), (2500, 3000), (9000, 9400)]);
        for (since, length, wanted) in
            [(0, 1000, 900), (100, 1000, 800), (500, 1000, 800), (950, 1000, 800), (4000, 500, 400)]
        {
            let worst = stalls.worst(at(since), SignedDuration::from_millis(length)).as_millis();
            assert_eq!(worst, wanted, "since {since}");
        }
        assert_eq!(stalls.worst(at(9500), SignedDuration::from_secs(5)), SignedDuration::ZERO);
    }

    /// The test process is the machine: its threads rest as long as they say, or a little longer.
    #[test]
    fn a_watch_ends_with_its_value() {
        let watch = Watch::begin().unwrap();
        assert!(!watch.threads.is_empty(), "there is a processor");
        let seen = Arc::downgrade(&watch.seen);
        let stalls = watch.stalls();
        assert!(stalls.between(Timestamp::MIN, Timestamp::MAX) >= SignedDuration::ZERO);
        drop(watch);
        assert_eq!(seen.strong_count(), 0, "a thread still runs");
    }
}
