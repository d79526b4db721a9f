//! Guest time: how long a call has computed, waiting not counted (decision P3).
//!
//! A call is a future, and it computes exactly while it is polled: a guest that waits in a host function has returned
//! the thread. So the budget runs from the beginning of a poll to its end, and the epoch callback, which is called in
//! the middle of one, can ask how much is used up to this moment.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The guest time of one call.
#[derive(Debug)]
pub(super) struct Budget {
    limit: Duration,
    origin: Instant,
    /// Nanoseconds of all polls that have ended.
    spent: AtomicU64,
    /// Start of the running poll in nanoseconds since `origin`, plus one; 0 between polls.
    since: AtomicU64,
}

impl Budget {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, origin: Instant::now(), spent: AtomicU64::new(0), since: AtomicU64::new(0) }
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// Guest time used up to now.
    pub(super) fn used(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed) + self.running())
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.used() >= self.limit
    }

    /// Runs a future on this budget.
    pub(super) async fn meter<F: Future>(&self, inner: F) -> F::Output {
        let mut inner = pin!(inner);
        poll_fn(|context| {
            self.since.store(self.now() + 1, Ordering::Relaxed);
            let poll = inner.as_mut().poll(context);
            self.spent.fetch_add(self.running(), Ordering::Relaxed);
            self.since.store(0, Ordering::Relaxed);
            poll
        })
        .await
    }

    fn running(&self) -> u64 {
        match self.since.load(Ordering::Relaxed) {
            0 => 0,
            since => (self.now() + 1).saturating_sub(since),
        }
    }

    /// Nanoseconds since the call began; a u64 of them lasts 584 years.
    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_is_not_counted() {
        let budget = Budget::new(Duration::from_secs(1));
        let started = Instant::now();
        budget.meter(tokio::time::sleep(Duration::from_millis(50))).await;
        assert!(started.elapsed() >= Duration::from_millis(50));
        assert!(budget.used() < Duration::from_millis(40), "{:?}", budget.used());
    }

    #[test]
    fn computing_is_counted_while_it_goes_on() {
        let budget = Budget::new(Duration::from_millis(5));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let computing = std::pin::pin!(budget.meter(async {
            while !budget.is_exhausted() {
                std::hint::spin_loop();
            }
        }));
        assert!(computing.poll(&mut context).is_ready());
        assert!(budget.used() >= Duration::from_millis(5));
    }
}
