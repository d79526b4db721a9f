//! HyperNodes: observed, written, counted.
//!
//! Owns the watch on HyperNodes, the execution of plans and the status writer. Never decides what the topology should
//! be (`topoloom_core::topology`) and never talks to a plugin (`discovery`).

pub mod apply;
pub mod convert;
pub mod metrics;
pub mod observe;
pub mod refusals;
mod rewrites;
pub mod rival;
pub mod status;
pub mod writers;
