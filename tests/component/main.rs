//! The plugin runtime against guests that mean harm.
//!
//! What is promised here: every limit acts; each end of a call has its own type; a bad plugin harms only itself; what
//! is not a plugin is refused in words that help. Guests are source in `tests/guests`: `villain` is a discoverer that
//! does what its configuration says, the `.wat` files are what no tool of ours would build.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code: a panic is the report of a failed test"
)]

mod cache;
mod chart;
mod desk;
mod endpoints;
mod ends;
mod fabric;
mod files;
mod guests;
mod image;
mod kept;
mod kubeconfig;
mod limits;
mod load;
mod metrics;
mod migration;
mod neighbours;
mod observability;
mod options;
mod pages;
mod secrets;
mod servers;
mod traces;
mod volumes;
