//! Whole rounds against fake UFMs.

mod edges;
mod fabrics;
mod mutations;
mod net;
mod pages;
mod quirks;
mod refusals;
mod requests;
mod restarts;
mod rounds;
mod tiers;
