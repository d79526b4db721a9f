//! The plugin runtime against malicious guests.
//!
//! These tests prove that every limit acts, that each end of a call has its own type, that a bad plugin harms only
//! itself, and that the host refuses a file that is no plugin with a message that helps. Guests are source in
//! `tests/guests`: `villain` is a discoverer that does what its configuration says; none of our tools would build the
//! `.wat` files.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code: a panic is the report of a failed test"
)]

mod alike;
mod baseline;
mod cache;
mod chart;
mod desk;
mod endpoints;
mod ends;
mod examples;
mod fabric;
mod files;
mod guests;
mod image;
mod kept;
mod kit;
mod kubeconfig;
mod limits;
mod load;
mod metrics;
mod migration;
mod neighbours;
mod observability;
mod options;
mod packages;
mod pages;
mod registry;
mod rounds;
mod secrets;
mod servers;
mod tools;
mod traces;
mod volumes;
