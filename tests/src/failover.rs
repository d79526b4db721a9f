//! How failover tests are judged: by the records of the servers and by the times at which the machine stood still.

pub mod log;
pub mod proof;
pub mod stalls;
pub mod tenures;

use std::time::Instant;

use jiff::Timestamp;

/// A fault that a leader met.
#[derive(Debug)]
pub struct Met {
    /// The name of the leader.
    pub leader: String,
    /// The time by the wall clock, which the API server has too.
    pub at: Timestamp,
    /// The time by a clock that does not jump.
    pub began: Instant,
}
