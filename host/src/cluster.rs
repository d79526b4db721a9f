//! The edge to the API server: how we connect, and what its refusals mean.
//!
//! Owns the client's settings and [`Refusal`], the one reading of an API error in this program. Never decides what to
//! write. A refusal carries a word for metrics and conditions, a sentence for a person (with the missing RBAC rule where
//! that is the reason), and whether and when it makes sense to try again.

pub mod client;
pub mod events;
pub mod refusal;
pub mod single;

pub use client::{ConnectError, Connection, connect};
pub use refusal::{Reason, Refusal};
