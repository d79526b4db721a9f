//! The answers of a queue.

use std::time::Duration;

/// What happened to a key that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It waits in the queue, or will at its time.
    Queued,
    /// It waits already, or is added at an earlier time.
    Known,
}

/// Why a key was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAdded {
    /// The queue has as many keys as it may have. Add the key again at the next resync.
    #[error("the queue is full")]
    Full,
    /// The queue was shut down.
    #[error("the queue is shut down")]
    Closed,
}

/// What a worker does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<K> {
    /// Work on this key and end with [`Queue::done`](super::Queue::done) or [`Queue::failed`](super::Queue::failed).
    Take(K),
    /// There is no work before this time, or before a key is added.
    Wait(Option<Duration>),
    /// There will be no more work.
    Closed,
}

/// What happens to a key that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryVerdict {
    /// It is tried again after this pause.
    AgainAfter(Duration),
    /// It failed too often and is dropped; its count starts again. It stays known, and
    /// [`Queue::revive`](super::Queue::revive) adds it again.
    Dropped,
    /// The queue was shut down: no key is tried again.
    Closed,
}

/// How full a queue is, and how often each event happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Keys that wait for a worker.
    pub waiting: usize,
    /// Keys that are added later, at a set time.
    pub later: usize,
    /// Keys that are worked on.
    pub processing: usize,
    /// Keys that failed too often and wait to be revived.
    pub dropped_now: usize,
    /// How often a key was put in the queue.
    pub adds: u64,
    /// How often a failed key was put in the queue again.
    pub retries: u64,
    /// How often a key was dropped.
    pub drops: u64,
    /// How often there was no room for a key.
    pub refusals: u64,
}

/// The work that is under way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunningWork {
    /// The time since the oldest work began.
    pub longest: Duration,
    /// The sum of the times of all work.
    pub total: Duration,
}

impl QueueCounts {
    /// The sums over two queues.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            waiting: self.waiting + other.waiting,
            later: self.later + other.later,
            processing: self.processing + other.processing,
            dropped_now: self.dropped_now + other.dropped_now,
            adds: self.adds + other.adds,
            retries: self.retries + other.retries,
            drops: self.drops + other.drops,
            refusals: self.refusals + other.refusals,
        }
    }
}

impl RunningWork {
    /// The same for two queues together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { longest: self.longest.max(other.longest), total: self.total.saturating_add(other.total) }
    }
}
