//! Discovery: from nodes and configuration to a topology that is in force.
//!
//! | room | owns |
//! |---|---|
//! | [`metrics`] | what is counted of rounds and swaps |
//! | [`revision`] | an entry made ready: bytes, configuration, grants |
//! | [`decide`] | one answer, judged: the host's side of `topoloom_core::topology::decide` |
//! | [`oneshot`] | one round of every entry without a supervisor, for the command line |
//! | `ready` | whether a source serves what its entry asks for. Pure |
//! | [`supervisor`] | one source: its rounds, its state, its writes |
//! | `shown` | what a plugin sees of the objects that its source made. Pure |
//! | [`report`] | what every source is doing, in memory and as DiscoverySource objects |
//!
//! One bad, slow or changed entry never disturbs another: each source has its own task, state and back-off, and shares
//! only what never waits for it.

pub mod compat;
pub mod decide;
pub mod metrics;
pub mod oneshot;
mod ready;
pub mod report;
pub mod revision;
mod shown;
pub mod supervisor;
