//! When the machine stood still. A virtual machine may get no processor for seconds; then no process on it is on time,
//! and that is no mistake of the host. Stalls are measured on every processor while a test runs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// How long a thread rests between two reads of the clock.
const REST: Duration = Duration::from_millis(20);
/// Waiting for a busy processor takes less than this: a thread whose rest took this much longer had no processor.
const STALL: Duration = Duration::from_millis(100);

/// Reads the clock on every processor until it is dropped.
#[derive(Debug)]
pub struct Watch {
    seen: Arc<Seen>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    stalls: Mutex<Vec<Stall>>,
    has_ended: AtomicBool,
}

/// A time in which a processor did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stall {
    from: Timestamp,
    to: Timestamp,
}

impl Watch {
    /// Starts one thread for each processor.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn begin() -> Result<Self> {
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
                seen.look(rest);
            })?);
        }
        Ok(Self { seen, threads })
    }

    /// The stalls so far.
    #[must_use]
    pub fn stalls(&self) -> Stalls {
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

#[allow(
    clippy::disallowed_methods,
    reason = "it waits for nothing: that it rests longer than it said is what is measured"
)]
/// Rests, and returns how much longer it took than it should.
fn rest() -> Duration {
    let began = Instant::now();
    thread::sleep(REST);
    began.elapsed().saturating_sub(REST)
}

impl Seen {
    /// Reads the clock after each rest; `rests` returns how much longer a rest took than it should.
    fn look(&self, mut rests: impl FnMut() -> Duration) {
        while !self.has_ended.load(Ordering::Relaxed) {
            let more = rests();
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
pub struct Stalls(Vec<Stall>);

impl Stalls {
    /// For tests of the code that judges by stalls.
    #[cfg(test)]
    pub(super) fn of(stalls: impl IntoIterator<Item = (Timestamp, Timestamp)>) -> Self {
        Self(stalls.into_iter().map(|(from, to)| Stall { from, to }).collect())
    }

    /// For how long any of the processors stood still between these times.
    #[must_use]
    pub fn between(&self, from: Timestamp, to: Timestamp) -> SignedDuration {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    fn stalls(all: &[(i64, i64)]) -> Stalls {
        Stalls::of(all.iter().map(|(from, to)| (at(*from), at(*to))))
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
    fn who_rested_for_too_long_stood_still_and_who_did_not_ran() {
        let seen = Seen::default();
        let mut rests = [0, 99, 100, 2500].map(Duration::from_millis).into_iter();
        seen.look(|| {
            let more = rests.next().unwrap();
            seen.has_ended.store(rests.len() == 0, Ordering::Relaxed);
            more
        });
        let stalls = seen.stalls.lock().unwrap();
        let lengths: Vec<_> = stalls.iter().map(|stall| stall.to.duration_since(stall.from).as_millis()).collect();
        assert_eq!(lengths, [100, 2500]);
    }

    #[test]
    fn a_watch_ends_with_its_value() {
        let watch = Watch::begin().unwrap();
        assert!(!watch.threads.is_empty(), "there is a processor");
        let seen = Arc::downgrade(&watch.seen);
        drop(watch);
        assert_eq!(seen.strong_count(), 0, "a thread still runs");
    }
}
