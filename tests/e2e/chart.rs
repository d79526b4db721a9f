//! The chart on a real API server, which accepts the objects and enforces them. Tests of the rendered text need no API
//! server (`component/chart.rs`).

mod access;
mod config_maps;
mod helm;
mod hyper_nodes;
mod nodes;
mod pods;
mod policies;
mod protection;
mod restricted;
mod rights;
mod rolling;
mod syncer;
