//! The chart: what it renders, what it refuses, and that a real API server takes it and does what it says.

mod access;
mod config_maps;
mod helm;
mod hyper_nodes;
mod matrix;
mod nodes;
mod pods;
mod policies;
mod protection;
mod refused;
mod restricted;
mod rights;
mod rolling;
mod values;
