//! What a call has of the memory of all plugins, and how it waits for more.
//!
//! `core::plugin::memory` decides which call gets memory; this waits, for a bounded time. A waiting call has released
//! its thread, and does not compute.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use topoloom_core::plugin::memory::{Growth, Memory};

/// How long a call waits for memory that others hold: a call of the builtin plugins takes less, and what waits longer
/// is better shown to the operator.
pub(super) const WAIT: Duration = Duration::from_secs(30);

/// The memory of all calls.
#[derive(Debug)]
pub(super) struct Shares {
    state: Mutex<ShareState>,
}

#[derive(Debug)]
struct ShareState {
    memory: Memory,
    /// Those that wait.
    waiting: HashMap<u64, oneshot::Sender<()>>,
}

impl ShareState {
    /// Notifies those that got something meanwhile.
    fn settle(&mut self) {
        for call in self.memory.settle() {
            if let Some(waiting) = self.waiting.remove(&call) {
                // A caller that has stopped waiting releases it itself.
                let _ = waiting.send(());
            }
        }
    }
}

/// How a wish for more ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grown {
    /// It was there.
    AtOnce,
    /// Others released it.
    AfterWaiting,
    /// No other call did in time.
    Late,
    /// It is more than all plugins together may hold.
    Never,
}

impl Shares {
    pub(super) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(ShareState { memory: Memory::new(total), waiting: HashMap::new() }) })
    }

    /// What the call of this number has, and may have at most.
    pub(super) fn of(self: &Arc<Self>, call: u64, most: usize) -> Share {
        Share { shares: Arc::clone(self), call, most }
    }

    /// The most that all calls held at one time.
    pub(super) fn peak(&self) -> usize {
        self.state().memory.peak()
    }

    fn state(&self) -> MutexGuard<'_, ShareState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory of one call. It is released when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    shares: Arc<Shares>,
    call: u64,
    most: usize,
}

impl Share {
    /// What all calls may hold together.
    pub(super) fn total(&self) -> usize {
        self.shares.state().memory.total()
    }

    /// Waits until the call may hold this sum.
    pub(super) async fn grow(&self, sum: usize) -> Grown {
        let granted = {
            let mut state = self.shares.state();
            match state.memory.ask(self.call, self.most, sum) {
                Growth::Granted => return Grown::AtOnce,
                Growth::Never => return Grown::Never,
                Growth::Waits => {
                    let (grant, granted) = oneshot::channel();
                    state.waiting.insert(self.call, grant);
                    granted
                }
            }
        };
        if let Ok(Ok(())) = tokio::time::timeout(WAIT, granted).await {
            return Grown::AfterWaiting;
        }
        let mut state = self.shares.state();
        // It may have been granted at this very moment.
        if state.waiting.remove(&self.call).is_none() {
            return Grown::AfterWaiting;
        }
        state.memory.give_up(self.call);
        state.settle();
        Grown::Late
    }

    /// The call holds no more than this: it could not grow.
    pub(super) fn give_back(&self, sum: usize) {
        let mut state = self.shares.state();
        state.memory.give_back(self.call, sum);
        state.settle();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.shares.state();
        state.waiting.remove(&self.call);
        state.memory.leave(self.call);
        state.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_until_another_one_ends_and_no_longer_than_its_time() {
        let shares = Shares::new(100);
        let first = shares.of(1, 80);
        assert_eq!(first.grow(80).await, Grown::AtOnce);
        let second = shares.of(2, 80);
        let began = tokio::time::Instant::now();
        assert_eq!(second.grow(50).await, Grown::Late);
        assert_eq!(began.elapsed(), WAIT);
        let (grown, ()) = tokio::join!(second.grow(50), async {
            tokio::task::yield_now().await;
            drop(first);
        });
        assert_eq!(grown, Grown::AfterWaiting);
        assert_eq!(second.grow(101).await, Grown::Never);
        assert_eq!(shares.peak(), 80);
    }

    #[tokio::test]
    async fn a_call_that_stops_waiting_leaves_nothing_behind() {
        let shares = Shares::new(100);
        let first = shares.of(1, 100);
        assert_eq!(first.grow(60).await, Grown::AtOnce);
        let second = shares.of(2, 60);
        let mut waits = Box::pin(second.grow(60));
        assert!(futures::poll!(&mut waits).is_pending());
        drop(waits);
        drop(second);
        assert_eq!(first.grow(100).await, Grown::AtOnce);
        drop(first);
        let state = shares.state();
        assert_eq!((state.memory.held(), state.waiting.len()), (0, 0));
    }
}
