//! HyperNode topologies: from the answer of a discoverer to a plan of writes.
//!
//! ```text
//! Topology ─► validate ─► Forest ─► merge ─► name ─► Named ─► guard ─► diff ─► Plan
//!  (answer)               (sound)  (additions (names and     (H6)            (H7)
//!                                   only)      adoption)
//! ```
//!
//! Owns the types on that line and the functions between them. Never reads or writes the cluster: [`Object`] is a copy
//! of what somebody else observed, [`Plan`](plan) a value that somebody else executes.

pub mod guard;
pub mod model;

pub use model::{
    Coverage, Diagnostic, Group, LabelOperator, LabelRequirement, LabelSelector, Member, MemberKind, Members, Object,
    Selector, Spec, Subject, Topology,
};
