//! Fabrics in, answers out, through the public face only.

mod dead_links;
mod edges;
mod example;
mod fabric;
mod memory;
mod names;
mod properties;
mod reports;
mod round;
mod speed;
mod tiers;
mod volcano;
