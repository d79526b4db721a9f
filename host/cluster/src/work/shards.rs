//! Keys split over queues of one worker each (`node-lock-and-bind.md` B13).

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio_util::sync::CancellationToken;
use topoloom_core::queue::{Added, Limiter, NotAdded, shard};

use super::{Options, Work, WorkFailure, WorkKey, WorkOutcome, WorkQueue, run_workers};

/// How long a key waits in a wrong queue while its own is full.
const NO_ROOM: Duration = Duration::from_secs(1);

/// Queues of one name; each key has its own among them by its hash. Clones are the same queues.
#[derive(Debug)]
pub struct Shards<K> {
    queues: Arc<[WorkQueue<K>]>,
}

impl<K> Clone for Shards<K> {
    fn clone(&self) -> Self {
        Self { queues: Arc::clone(&self.queues) }
    }
}

impl<K: WorkKey + AsRef<str>> Shards<K> {
    /// Empty queues, each for at most so many keys and with limits of its own.
    #[must_use]
    pub fn new(name: &'static str, workers: NonZeroUsize, capacity: NonZeroUsize, limiter: Limiter) -> Self {
        Self { queues: (0..workers.get()).map(|_| WorkQueue::new(name, capacity, limiter)).collect() }
    }

    /// The number of a key's queue.
    #[must_use]
    pub fn shard(&self, key: &K) -> usize {
        NonZeroUsize::new(self.queues.len()).map_or(0, |workers| shard(key.as_ref(), workers))
    }

    /// A key's queue.
    #[must_use]
    pub fn of(&self, key: &K) -> &WorkQueue<K> {
        self.queues.get(self.shard(key)).expect("a shard is below the number of queues, which is not 0")
    }

    /// All of them, by number.
    #[must_use]
    pub fn queues(&self) -> &[WorkQueue<K>] {
        &self.queues
    }

    /// Adds a key to its queue.
    ///
    /// # Errors
    /// See [`NotAdded`].
    pub fn add(&self, key: K) -> Result<Added, NotAdded> {
        self.of(&key).add(key)
    }

    /// Shuts down every queue; returns the keys that were due later.
    pub fn shut_down(&self) -> Vec<K> {
        self.queues.iter().flat_map(WorkQueue::shut_down).collect()
    }
}

/// Works with one worker per shard; see [`run_workers`]. The number of workers in the options does not count.
pub async fn run_shards<K: WorkKey + AsRef<str>, W: Work<K>>(
    shards: Shards<K>,
    options: Options,
    work: Arc<W>,
    stop: CancellationToken,
) {
    let crews = shards.queues.iter().enumerate().map(|(number, queue)| {
        let options = Options { workers: NonZeroUsize::MIN, ..options.clone() };
        let own = OwnKeys { shards: shards.clone(), number, work: Arc::clone(&work) };
        run_workers(queue.clone(), options, Arc::new(own), stop.clone())
    });
    join_all(crews).await;
}

/// The work of one shard: a key of another is passed on and not worked on here.
struct OwnKeys<K, W> {
    shards: Shards<K>,
    number: usize,
    work: Arc<W>,
}

impl<K: WorkKey + AsRef<str>, W: Work<K>> Work<K> for OwnKeys<K, W> {
    type Error = W::Error;

    async fn work(&self, key: &K) -> Result<WorkOutcome, W::Error> {
        let own = self.shards.shard(key);
        if own == self.number {
            return self.work.work(key).await;
        }
        let queue = self.shards.of(key);
        tracing::warn!(queue = queue.name(), %key, shard = self.number, own, "a key was in the wrong shard; it is \
            passed on");
        Ok(match queue.add(key.clone()) {
            Err(NotAdded::Full) => WorkOutcome::Again(NO_ROOM),
            _ => WorkOutcome::Done,
        })
    }

    fn dropped(&self, key: &K, failure: &WorkFailure<W::Error>) {
        self.work.dropped(key, failure);
    }

    fn all(&self) -> Vec<K> {
        self.work.all().into_iter().filter(|key| self.shards.shard(key) == self.number).collect()
    }
}
