//! The edge to the API server: how we connect, what its refusals mean, what is watched, and which workers act on it.
//!
//! Owns the client's settings, the [`gate`] that writes go through, the metrics of requests, every watch ([`watches`],
//! [`single`], [`nodes`]), and [`Refusal`], the one reading of an API error in this program. A refusal has a word for
//! metrics and conditions, a sentence for a person (with the missing RBAC rule if that is the reason), and whether and
//! when it makes sense to try again. [`work`] runs workers over keys, as every controller does.
//!
//! Never decides what to write, knows no controller, no plugin and no command line.
//!
//! # Failure story
//!
//! A request that fails is a [`Refusal`], and the caller decides. A watch that breaks is opened again with back-off,
//! and its last contents stay readable meanwhile. A write that is not allowed any more is refused by the gate before a
//! byte of it leaves.

pub mod check;
pub mod client;
pub mod deadline;
pub mod dial;
pub mod events;
pub mod eviction;
pub mod gate;
pub mod hyper_nodes;
pub mod lanes;
pub mod leases;
pub mod node_watch;
pub mod nodes;
pub mod pages;
pub mod pause;
pub mod rate;
pub mod refusal;
pub mod requests;
pub mod restores;
pub mod side;
pub mod single;
pub mod watched;
pub mod watches;
pub mod work;

pub use check::{Check, Judge};
pub use client::{ConnectError, Connection, ServerProof, connect};
pub use refusal::{Refusal, RefusalReason, found};
pub use restores::Restores;
pub use side::Side;

/// Which of several replicas this is: the name of the pod, which is its host name. It is in the identity of leases, in
/// the user agent of requests, so that an audit log tells replicas apart, and in Events.
#[must_use]
pub fn instance() -> String {
    let given = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    given.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}
