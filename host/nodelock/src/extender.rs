//! The second half of a scheduler extender: it binds pods, one at a time to a node where they need a device
//! (`node-lock-and-bind.md` A16 to A20, decisions N5 to N8).
//!
//! `wire` is what kube-scheduler sends and receives, `bodies` limits its size, `serve` has the pages, `tls` the
//! certificate, `clients` the accepted clients, and `announce` the Events.

pub mod announce;
pub mod bodies;
pub mod clients;
pub mod options;
pub mod serve;
pub mod tls;
pub mod wire;

pub use options::{ExtenderOptions, Filter, ServingFiles};
