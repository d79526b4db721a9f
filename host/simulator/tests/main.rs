//! The simulator against plain clients.
//!
//! What is promised here: a fabric never disagrees with itself, whatever is done to it; the APIs behave as their
//! documents say; every fault of the table can be seen from outside; nothing stays when a simulator is gone.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code: a panic is the report of a failed test"
)]

mod api;
mod client;
mod document;
mod fabric;
mod faults;
mod life;
mod raw;
mod standalone;
