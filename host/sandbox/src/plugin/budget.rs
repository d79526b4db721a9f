//! Guest time: how long a call has computed, waiting not counted (decision P3).
//!
//! A call is a future, and it computes exactly while it is polled: a guest that waits in a host function has returned
//! the thread. So the budget runs from the beginning of a poll to its end, and the epoch callback, which is called in
//! the middle of one, can ask how much is used up to this moment. What is counted is the processor time of the thread:
//! where a machine has more to do than processors, a guest that has the thread may still wait for one, and that is not
//! its fault.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::processor;

/// The guest time of one call.
#[derive(Debug)]
pub(super) struct Budget {
    limit: Duration,
    /// Nanoseconds of all polls that have ended.
    spent: AtomicU64,
    /// Processor time of the polling thread at the start of the running poll, in nanoseconds, plus one; 0 between polls.
    since: AtomicU64,
}

impl Budget {
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, spent: AtomicU64::new(0), since: AtomicU64::new(0) }
    }

    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// Guest time used up to now. While it is polled, only the thread that polls it may ask.
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
            self.since.store(now() + 1, Ordering::Relaxed);
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
            since => (now() + 1).saturating_sub(since),
        }
    }
}

/// Processor time of this thread in nanoseconds; a u64 of them lasts 584 years.
fn now() -> u64 {
    u64::try_from(processor::of_this_thread().as_nanos()).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

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
    fn a_thread_that_waits_for_a_processor_does_not_compute() {
        let budget = Budget::new(Duration::from_millis(20));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        // As if others had the processor: the thread blocks in the middle of a poll.
        let (_sender, nothing) = std::sync::mpsc::channel::<()>();
        let polled = std::pin::pin!(budget.meter(async {
            let _ = nothing.recv_timeout(Duration::from_millis(100));
            assert!(!budget.is_exhausted(), "{:?}", budget.used());
        }));
        let began = Instant::now();
        assert!(polled.poll(&mut context).is_ready());
        assert!(
            began.elapsed() >= Duration::from_millis(100) && budget.used() < Duration::from_millis(20),
            "{budget:?}"
        );
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
