//! The plugin runtime: discoverers are strangers' programs, and this room lets them compute and nothing else.
//!
//! Owns the one engine, the way from bytes to a [`Plugin`] (bounds, scan, compile, link), and the way from a call to
//! its one typed end: an answer or a [`CallError`](topoloom_core::plugin::CallError), each with what it used.
//!
//! Never decides when a plugin runs, whether its answer is valid, or what follows from an invalid one: the supervisor
//! does. Never gives a plugin WASI, a clock, a file, a socket, a credential or a second call in the same instance.
//!
//! ```text
//! bytes ─► digest ─► scan ─► compile (child process) ─► link ─► Plugin ─┬─ describe
//!                                                                      ├─ configure ─► Requirements ─► core::grant
//!                                                                      └─ discover  ─► Answer
//! ```
//!
//! # Failure story
//!
//! What fails on the way to a [`Plugin`] is a [`LoadError`] and affects no other plugin. What fails in a call ends that
//! call: its store is dropped and never used again, its turn goes to the next one. A guest that computes yields its
//! thread every 10 ms, so it cannot block others; one that waits is ended by its elapsed time. The compiler runs in a
//! process of its own, so what breaks it breaks that process. A [`cache`] that is broken costs a compile.

mod anatomy;
mod bindings;
mod budget;
pub mod builtin;
pub mod cache;
mod call;
mod compile;
pub mod compile_child;
mod components;
mod confine;
mod engine;
mod guest;
mod limiter;
mod load;
mod maker;
mod metrics;
mod processor;
mod runtime;
mod scan;
mod share;
mod trap;
pub mod trust;
mod voice;

pub use anatomy::{Anatomy, anatomy, measure};
pub use call::{Call, RoundInput};
pub use compile::Compiler;
pub use topoloom_core::plugin::Digest;

pub use load::{LoadError, Needs};
pub use maker::Maker;
pub use metrics::Metrics;
pub use processor::of_ended_children;
pub use runtime::{Codegen, Load, Options, Plugin, Runtime, StartError};
pub use voice::{LineLevel, LogLine, LogLines};

/// The whole error chain in one line: the engine's outermost message holds frames, the cause is at its end.
fn chain(error: &wasmtime::Error) -> String {
    error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
