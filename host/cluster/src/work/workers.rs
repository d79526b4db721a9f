//! Workers: each takes a key, does its work, reports the outcome, and takes the next.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_core::queue::{NotAdded, Requeue, RetryVerdict};
use topoloom_core::text;

use super::{Metrics, Options, WorkKey, WorkQueue};
use crate::client::chain;

/// The least time between two resyncs: they must not be all that is done.
const LEAST_RESYNC: Duration = Duration::from_secs(1);

/// What is done about a key. Never about one key twice at the same time.
pub trait Work<K>: Send + Sync + 'static {
    /// Why it failed.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Does it. What fails or panics is tried again until [`Work::dropped`].
    fn work(&self, key: &K) -> impl Future<Output = Result<WorkOutcome, Self::Error>> + Send;

    /// A key failed too often and rests until the next resync. This is the place for an event about it.
    fn dropped(&self, key: &K, failure: &WorkFailure<Self::Error>);

    /// Every key that there should be, for the resync: keys that a full queue refused are added again this way.
    fn all(&self) -> Vec<K> {
        Vec::new()
    }
}

/// How work ended that did not fail. Of an earlier [`WorkOutcome::Again`] about the key, and of the pause after a failure, nothing is
/// left then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkOutcome {
    /// There is nothing more to do.
    Done,
    /// There is something to do after this time.
    Again(Duration),
}

/// Why work failed.
#[derive(Debug, thiserror::Error)]
pub enum WorkFailure<E: std::error::Error> {
    /// The work returned this error.
    #[error(transparent)]
    Error(E),
    /// It panicked with this message.
    #[error("it panicked: {0}")]
    Panic(String),
}

/// Works until `stop` is cancelled or the queue is shut down and served, and until the last work under way is done.
///
/// # Panics
/// Where a worker itself panics, which is a mistake in this room: its owner ends with it.
pub async fn run_workers<K: WorkKey, W: Work<K>>(
    queue: WorkQueue<K>,
    options: Options,
    work: Arc<W>,
    stop: CancellationToken,
) {
    options.metrics.show(&queue);
    let mut crew = JoinSet::new();
    for _ in 0..options.workers.get() {
        let worker = Worker {
            queue: queue.clone(),
            work: Arc::clone(&work),
            requeue: options.requeue,
            metrics: options.metrics.clone(),
        };
        crew.spawn(worker.run(stop.clone()));
    }
    let ended = async {
        while let Some(ended) = crew.join_next().await {
            if let Err(error) = ended
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        }
    };
    tokio::select! {
        () = ended => {}
        () = resync(&queue, &*work, options.resync) => {}
    }
}

/// Adds what was dropped, and what should be there, again and again.
async fn resync<K: WorkKey, W: Work<K>>(queue: &WorkQueue<K>, work: &W, pause: Duration) {
    loop {
        tokio::time::sleep(pause.max(LEAST_RESYNC)).await;
        let revived = queue.revive();
        // A key that finds no room is counted, and the next resync adds it again.
        let refused = work.all().into_iter().filter(|key| queue.add(key.clone()) == Err(NotAdded::Full)).count();
        if refused > 0 {
            tracing::warn!(queue = queue.name(), refused, "the queue is full; the rest waits for a resync");
        }
        if revived > 0 {
            tracing::info!(queue = queue.name(), revived, "dropped keys are tried again");
        }
    }
}

struct Worker<K, W> {
    queue: WorkQueue<K>,
    work: Arc<W>,
    requeue: Requeue,
    metrics: Metrics,
}

impl<K: WorkKey, W: Work<K>> Worker<K, W> {
    async fn run(self, stop: CancellationToken) {
        loop {
            let key = tokio::select! {
                biased;
                // First, so that nothing is begun after it.
                () = stop.cancelled() => return,
                key = self.queue.next() => key,
            };
            let Some(key) = key else { return };
            self.take(key).await;
        }
    }

    async fn take(&self, key: K) {
        let held = WorkGuard { queue: &self.queue, key: Some(key.clone()) };
        let started = Instant::now();
        // What is seen after a panic is what the work itself shares; the queue was not touched meanwhile.
        let ended = AssertUnwindSafe(async { self.work.work(&key).await }).catch_unwind().await;
        self.metrics.worked(self.queue.name(), started.elapsed());
        let failure = match ended {
            Ok(Ok(outcome)) => {
                self.queue.succeeded(&key);
                if let WorkOutcome::Again(pause) = outcome
                    && let Err(why) = self.queue.add_after(key.clone(), pause)
                {
                    tracing::debug!(queue = self.queue.name(), %key, %why, "there will be no other time");
                }
                held.done();
                return;
            }
            Ok(Err(error)) => WorkFailure::Error(error),
            Err(panic) => {
                let panic = text::of_panic(&*panic);
                tracing::error!(queue = self.queue.name(), %key, panic, "work panicked; it counts as failed");
                WorkFailure::Panic(panic)
            }
        };
        self.failed(held, &key, &failure);
    }

    fn failed(&self, held: WorkGuard<'_, K>, key: &K, failure: &WorkFailure<W::Error>) {
        let tries = self.queue.requeues(key).saturating_add(1);
        let verdict = held.failed(self.requeue);
        let (queue, error) = (self.queue.name(), chain(failure));
        match verdict {
            RetryVerdict::AgainAfter(pause) => {
                tracing::debug!(queue, %key, tries, pause = ?pause, error, "work failed; it is tried again");
            }
            RetryVerdict::Closed => tracing::debug!(queue, %key, tries, error, "work failed while the process stopped"),
            RetryVerdict::Dropped => {
                tracing::warn!(queue, %key, tries, error, "work failed too often; it is dropped until the next resync");
                let ended = std::panic::catch_unwind(AssertUnwindSafe(|| self.work.dropped(key, failure)));
                if let Err(panic) = ended {
                    tracing::error!(queue, %key, panic = text::of_panic(&*panic), "the controller panicked while it reported work that failed too often");
                }
            }
        }
    }
}

/// A key that is worked on. If the work is cut off, the key is in the queue again.
struct WorkGuard<'a, K: WorkKey> {
    queue: &'a WorkQueue<K>,
    key: Option<K>,
}

impl<K: WorkKey> WorkGuard<'_, K> {
    fn done(mut self) {
        if let Some(key) = self.key.take() {
            self.queue.done(&key);
        }
    }

    fn failed(mut self, requeue: Requeue) -> RetryVerdict {
        self.key.take().map_or(RetryVerdict::Closed, |key| self.queue.failed(&key, requeue))
    }
}

impl<K: WorkKey> Drop for WorkGuard<'_, K> {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            // Refused only where the queue is shut down: then no worker is left to serve it.
            let _ = self.queue.add(key.clone());
            self.queue.done(&key);
        }
    }
}
