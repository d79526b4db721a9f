//! Whole rounds against fake UFMs.

mod edges;
mod fabrics;
mod mutations;
mod net;
mod requests;
mod rounds;
