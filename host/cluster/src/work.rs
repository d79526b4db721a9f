//! Keys that wait for work, and the workers that take them.
//!
//! Owns the tasks and the clock around [`topoloom_core::queue`], which decides everything: a [`WorkQueue`] hands out a
//! key to one worker at a time, [`run_workers`] runs so many workers over it, [`Shards`] splits the keys over queues of
//! one worker each (no user yet: it is for the bottom-up syncer). Never knows what the work is: that is a [`Work`].
//!
//! There are two ways to an end. Cancelling `stop` takes no new key: what is under way is finished, what waits stays in
//! the queue. [`WorkQueue::shut_down`] serves what waits first and takes nothing new. Either way the future ends when
//! the last worker has; dropping it cuts the workers off, and their keys are in the queue again.
//!
//! # Failure story
//!
//! Work that fails is tried again after a pause of its own, so it delays no other key; work that panics has failed, and
//! its worker continues. A key that failed too often is dropped, the [`Work`] is notified, and the next resync or
//! caller adds it again. If a queue is full, the caller gets an error, and the resync adds what [`Work::all`] names.

mod metrics;
mod queue;
mod shards;
#[cfg(test)]
mod tests;
mod workers;

pub use metrics::Metrics;
pub use queue::{WorkKey, WorkQueue};
pub use shards::{Shards, run_shards};
pub use workers::{Work, WorkFailure, WorkOutcome, run_workers};

use std::num::NonZeroUsize;
use std::time::Duration;

use topoloom_core::queue::Requeue;

/// How a queue is worked on.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many keys are worked on at once. (Shards have one worker each.)
    pub workers: NonZeroUsize,
    /// When a key is dropped that keeps failing.
    pub requeue: Requeue,
    /// How often what was dropped or refused is added again; at least a second.
    pub resync: Duration,
    /// Where keys are counted.
    pub metrics: Metrics,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // As many as the reference has for most of its controllers.
            workers: const { NonZeroUsize::new(5).unwrap() },
            requeue: Requeue::default(),
            // Longer than a key is tried by default (2 min 44 s), so that a drop is a rest.
            resync: Duration::from_secs(300),
            metrics: Metrics::default(),
        }
    }
}
