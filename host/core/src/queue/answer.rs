//! What a queue answers.

use std::time::Duration;

/// What became of a key that was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// It stands in the line, or will at its time.
    Queued,
    /// It stood there already, or is due sooner.
    Known,
}

/// Why a key was not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There are as many keys as there may be. Add it again at the next resync.
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
    /// There is nothing before this time, or before something is added.
    Wait(Option<Duration>),
    /// There will never be anything.
    Closed,
}

/// What became of a key that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is tried again after this pause.
    AgainAfter(Duration),
    /// It failed too often; its count begins anew. It stays known, and [`Queue::revive`](super::Queue::revive) adds it
    /// again.
    Dropped,
    /// The queue was shut down: nothing is tried again.
    Closed,
}

/// How full a queue is, and what happened to it so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Keys that wait for a worker.
    pub waiting: usize,
    /// Keys that are added later, at a set time.
    pub later: usize,
    /// Keys that are worked on.
    pub processing: usize,
    /// Keys that failed too often and wait to be revived.
    pub dropped_now: usize,
    /// How often a key was put in the line.
    pub adds: u64,
    /// How often a failed key was given another try.
    pub retries: u64,
    /// How often a key was dropped.
    pub drops: u64,
    /// How often a key found no room.
    pub refusals: u64,
}

/// What is worked on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Running {
    /// The time since the oldest of it began.
    pub longest: Duration,
    /// The times of all of it together.
    pub total: Duration,
}

impl Counts {
    /// Of two queues together.
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

impl Running {
    /// Of two queues together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { longest: self.longest.max(other.longest), total: self.total.saturating_add(other.total) }
    }
}
