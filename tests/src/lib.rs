//! The harness of the end-to-end and component tests.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "test code: a panic is the report of a failed test, and progress goes to the terminal"
)]

pub mod architecture;
pub mod arrows;
pub mod builtins;
pub mod chart;
pub mod collector;
pub mod controlplane;
pub mod device_plugin;
pub mod dice;
pub mod doctests;
pub mod failed;
pub mod failover;
pub mod faults;
mod gomodule;
pub mod guest;
pub mod hami;
pub mod helm;
pub mod host;
pub mod image;
pub mod lending;
pub mod limits;
pub mod lock_order;
pub mod once;
pub mod pages;
pub mod registry;
pub mod scene;
pub mod schema;
pub mod show;
pub mod slowest;
pub mod soak;
pub mod terminal;
pub mod timed;
pub mod tools;
pub mod vendor;
pub mod volcano_chart;
pub mod words;
