//! How the stories of a failover are judged: by the records of the servers and by the times at which the machine was
//! frozen.

pub mod log;
pub mod proof;
pub mod stalls;

use std::time::Instant;

use jiff::Timestamp;

/// A leader meets a fault.
#[derive(Debug)]
pub struct Met {
    /// Its name.
    pub leader: String,
    /// By the wall clock, which the API server has too.
    pub at: Timestamp,
    /// By a clock that does not jump.
    pub began: Instant,
}
