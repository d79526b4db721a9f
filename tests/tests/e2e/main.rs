//! End to end: the real binary on a real kube-apiserver and etcd, one control plane per test.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "test code: a panic is the report of a failed test")]

mod adoption;
mod configuration;
mod drift;
mod examples;
mod failures;
mod guard;
mod verbs;
