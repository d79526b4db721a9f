//! Which key is worked on next, and when one that failed is tried again (`node-lock-and-bind.md` B11 to B13, with
//! R7 to R10).
//!
//! Owns the order of work and nothing else: [`Queue`] decides which key is next, [`Limiter`] how long a failed one
//! waits, [`Requeue`] when it is dropped, [`shard()`] which of several queues has a key. [`Keyed`] keeps the last
//! request about each key. Never does the work, never reads a clock: time is a `Duration` since an origin that the
//! caller chose, and never goes back.
//!
//! A key is in one place at a time:
//!
//! ```text
//!            add                next              done
//!   resting ─────▶ waiting ─────────▶ processing ──────▶ resting
//!                     ▲  added meanwhile │  │ failed too often
//!                     └──────────────────┘  └──────────────────▶ dropped ──▶ waiting (revive, add)
//! ```
//!
//! Beside that a key may have one time at which it is added again. Work that succeeds ends a time that was set before it: it has
//! judged anew when there is something to do, and a key about which nothing is left to do is forgotten.
//!
//! [`shard()`] and [`Keyed`] have no user yet: they are for the controllers of the bottom-up syncer, which read requests
//! about the nodes and pods of another cluster.
//!
//! Failure story: a limit on the number of keys bounds the memory. A key for which there is no room is refused with
//! [`NotAdded::Full`] and counted. The caller has a list of all its keys and adds them again at its next resync. A
//! dropped key stays known until it is revived. No key is lost without a trace.

mod answer;
mod backoff;
mod bucket;
#[cfg(test)]
mod histories;
mod keyed;
mod limiter;
mod line;
mod requeue;
mod shard;

pub use answer::{Added, Next, NotAdded, QueueCounts, RetryVerdict, RunningWork};
pub use backoff::Backoff;
pub use bucket::Bucket;
pub use keyed::Keyed;
pub use limiter::Limiter;
pub use line::Queue;
pub use requeue::{Requeue, RequeueDecision};
pub use shard::{fnv1, shard};
