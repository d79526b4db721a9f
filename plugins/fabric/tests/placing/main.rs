//! Fabrics in, answers out, through the public interface only.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "what prepares a test panics as a test does")]

mod dead_links;
mod edges;
mod example;
mod fabric;
mod fading;
mod halves;
mod memory;
mod missing;
mod names;
mod properties;
mod reports;
mod round;
mod size;
mod tiers;
mod volcano;
