//! The queue that tasks share.

use std::fmt;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use topoloom_core::queue::{Added, Limiter, Next, NotAdded, Queue, QueueCounts, Requeue, RetryVerdict, RunningWork};

/// What names a piece of work.
pub trait WorkKey: Ord + Clone + fmt::Display + Send + Sync + 'static {}

impl<K: Ord + Clone + fmt::Display + Send + Sync + 'static> WorkKey for K {}

/// A queue of keys. Clones are the same queue.
#[derive(Debug)]
pub struct WorkQueue<K> {
    shared: Arc<Shared<K>>,
}

#[derive(Debug)]
pub(super) struct Shared<K> {
    name: &'static str,
    /// What the times of the line are counted from.
    origin: Instant,
    line: Mutex<Queue<K>>,
    /// One worker at a time looks at what changed and passes it on (see [`WorkQueue::next`]).
    changed: Notify,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: WorkKey> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, Queue<K>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Does something with the line at the present time, and has a worker look at it.
    fn change<T>(&self, act: impl FnOnce(&mut Queue<K>, Duration) -> T) -> T {
        let done = {
            // The time is read under the lock: it must not go back.
            let mut line = self.lock();
            let now = self.now();
            act(&mut line, now)
        };
        self.changed.notify_one();
        done
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn sizes(&self) -> (QueueCounts, RunningWork) {
        let line = self.lock();
        (line.counts(), line.running(self.now()))
    }
}

impl<K: WorkKey> WorkQueue<K> {
    /// An empty queue for at most so many keys. The name is for logs and metrics.
    #[must_use]
    pub fn new(name: &'static str, capacity: NonZeroUsize, limiter: Limiter) -> Self {
        let line = Mutex::new(Queue::new(capacity, limiter));
        Self { shared: Arc::new(Shared { name, origin: Instant::now(), line, changed: Notify::new() }) }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.shared.name
    }

    pub(super) fn shared(&self) -> &Arc<Shared<K>> {
        &self.shared
    }

    /// See [`Queue::add`].
    ///
    /// # Errors
    /// See [`NotAdded`].
    pub fn add(&self, key: K) -> Result<Added, NotAdded> {
        self.shared.change(|line, now| line.add(key, now))
    }

    /// See [`Queue::add_after`].
    ///
    /// # Errors
    /// See [`NotAdded`].
    pub fn add_after(&self, key: K, pause: Duration) -> Result<Added, NotAdded> {
        self.shared.change(|line, now| line.add_after(key, pause, now))
    }

    /// See [`Queue::add_rate_limited`].
    ///
    /// # Errors
    /// See [`NotAdded`].
    pub fn add_rate_limited(&self, key: K) -> Result<Duration, NotAdded> {
        self.shared.change(|line, now| line.add_rate_limited(key, now))
    }

    /// Waits for the next key; nothing once the queue is shut down and served. The key is the caller's until
    /// [`WorkQueue::done`] or [`WorkQueue::failed`]. Dropping the future before it is ready takes no key.
    pub async fn next(&self) -> Option<K> {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // From here on nothing that changes is missed.
            changed.as_mut().enable();
            let (next, has_more) = {
                let mut line = self.shared.lock();
                let now = self.shared.now();
                (line.next(now), line.has_more())
            };
            match next {
                Next::Take(key) => {
                    if has_more {
                        // Another worker waits for the remaining keys, or for the time at which one is due.
                        self.shared.changed.notify_one();
                    }
                    return Some(key);
                }
                Next::Closed => return None,
                // A time that no clock reaches is none.
                Next::Wait(at) => match at.and_then(|at| self.shared.origin.checked_add(at)) {
                    // The end of the time is no news; then the line is looked at again.
                    Some(at) => drop(tokio::time::timeout_at(at, changed).await),
                    None => changed.await,
                },
            }
        }
    }

    /// See [`Queue::done`].
    pub fn done(&self, key: &K) {
        self.shared.change(|line, now| line.done(key, now));
    }

    /// See [`Queue::failed`].
    pub fn failed(&self, key: &K, requeue: Requeue) -> RetryVerdict {
        self.shared.change(|line, now| line.failed(key, requeue, now))
    }

    /// See [`Queue::succeeded`].
    pub fn succeeded(&self, key: &K) {
        let mut line = self.shared.lock();
        let now = self.shared.now();
        // The end of the work follows, and has a worker look at what came due.
        line.succeeded(key, now);
    }

    /// See [`Queue::forget`].
    pub fn forget(&self, key: &K) {
        self.shared.lock().forget(key);
    }

    /// See [`Queue::requeues`].
    #[must_use]
    pub fn requeues(&self, key: &K) -> u32 {
        self.shared.lock().requeues(key)
    }

    /// See [`Queue::revive`].
    pub fn revive(&self) -> usize {
        self.shared.change(Queue::revive)
    }

    /// See [`Queue::shut_down`].
    pub fn shut_down(&self) -> Vec<K> {
        let later = self.shared.change(Queue::shut_down);
        self.shared.changed.notify_waiters();
        later
    }

    /// How full it is, and what happened so far.
    #[must_use]
    pub fn counts(&self) -> QueueCounts {
        self.shared.sizes().0
    }

    /// How long the work under way has been running.
    #[must_use]
    pub fn running(&self) -> RunningWork {
        self.shared.sizes().1
    }
}
