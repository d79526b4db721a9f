//! The chart on a real API server, which takes it and does what it says. What is rendered needs none (`component/chart.rs`).

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
