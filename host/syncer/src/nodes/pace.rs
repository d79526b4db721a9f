//! How fast the nodes of physical clusters that do not answer are tainted (decision S5).
//!
//! A cluster that goes takes all its nodes with it at one moment. Leases are renewed on other connections, but the API server of the
//! virtual cluster is one, and it has the taints of all bindings to take.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use topoloom_core::queue::Bucket;

/// How many nodes per second.
const PER_SECOND: u32 = 100;

/// The pace of all bindings of a process. Clones are the same.
#[derive(Debug, Clone)]
pub struct Pace(Arc<Mutex<Bucket>>);

impl Default for Pace {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Bucket::new(Duration::from_secs(1) / PER_SECOND, 1))))
    }
}

impl Pace {
    /// After how long the next node may be tainted, by a clock that cannot be set. It has its turn then.
    pub(super) fn reserve(&self, now: Duration) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).reserve(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_a_hundred_nodes_are_tainted_in_a_second_whichever_bindings_they_are_of() {
        let (one, begin) = (Pace::default(), Duration::from_secs(1_000));
        let other = one.clone();
        let waits: Vec<Duration> = (0..250).flat_map(|_| [&one, &other].map(|pace| pace.reserve(begin))).collect();
        for second in 0..5 {
            assert_eq!(waits.iter().filter(|wait| wait.as_secs() == second).count(), 100, "second {second}");
        }
        // What was not used is not made up for.
        assert_eq!(one.reserve(begin + Duration::from_secs(60)), Duration::ZERO);
        assert_eq!(one.reserve(begin + Duration::from_secs(60)), Duration::from_millis(10));
    }
}
