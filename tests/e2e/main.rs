//! End to end: the real binary on a real kube-apiserver and etcd, one control plane for each test while it runs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code: a panic is the report of a failed test"
)]

mod access;
mod adoption;
mod chart;
mod configuration;
mod drift;
mod examples;
mod fabric;
mod failover;
mod failures;
mod flags;
mod guard;
mod harness;
mod languages;
mod lending;
mod locks;
mod names;
mod night;
mod pages;
mod plugins;
mod process;
mod registry;
mod requests;
mod restored;
mod schema;
mod standby;
mod swaps;
mod traces;
mod verbs;
mod volcano;
