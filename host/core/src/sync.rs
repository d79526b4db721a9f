//! Lending nodes of a physical cluster to a virtual one: everything that is decided (`bottomup-syncer.md`, decisions D1 to
//! D15 and S1 to S28).
//!
//! Each room is a function of facts and of the time: the syncer's controllers, `lend plan` and `lend explain` call the very
//! same ones.
//!
//! | room | owns |
//! |---|---|
//! | [`keys`] | labels, annotations, taints and finalizers, each once |
//! | [`given`] | a text that cannot be used, as messages show it |
//! | [`selector`] | which nodes a policy or a binding selects, and why one is not |
//! | [`zone`] | time zones by their IANA names, compiled in |
//! | [`window`] | one time window of a policy, as it is written |
//! | [`schedule`] | whether the windows of a policy are open, and when that changes next |
//! | [`policy`] | whether a policy is valid, which one is in force on a node, and its status |

pub mod given;
pub mod keys;
pub mod policy;
pub mod schedule;
pub mod selector;
pub mod window;
pub mod zone;
