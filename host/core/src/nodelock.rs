//! Which pod holds a node between a Binding and the device plugin's answer (`node-lock-and-bind.md` part A, decisions N1 to N9).
//!
//! A kubelet asks a device plugin for devices without saying for which pod. So only one pod at a time may be on its way to
//! a node, and an annotation on the Node names it: a lock, and the plugin's source for the pod that it serves.

pub mod attempt;
mod decide;
pub mod go_duration;
mod holder;
#[cfg(test)]
mod model;
pub mod needs;
mod record;
mod retry;
pub mod sightings;
pub mod sweep;
pub mod table;
#[cfg(test)]
mod tests;
mod value;
pub mod watchlist;

pub use decide::{ClaimDecision, Release, decide, release, unconfirmed};
pub use holder::{
    Clock, Facts, GRACE, Holder, LockHeld, LockState, OrphanReason, Pod, SKEW, Takeover, Why, confirm, is_owner, judge,
    judge_absent,
};
pub use record::{Lock, NamedHolder, Note, PodId, PodKey};
pub use retry::Retry;
pub use sightings::Sightings;
pub use value::{ParsedValue, ValueError, bare};

pub use crate::names::{LockValue, NodeName, Uid};
