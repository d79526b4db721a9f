//! Lending nodes of a physical cluster to a virtual one: everything that is decided (`bottomup-syncer.md`, decisions D1 to
//! D15 and S1 to S28).
//!
//! Each room is a function of facts and of the time: the syncer's controllers, `lend plan` and `lend explain` call the very
//! same ones.
//!
//! | room | owns |
//! |---|---|
//! | [`keys`] | labels, annotations, taints and finalizers, each once |
//! | [`copied`] | what a virtual node gets of the labels, annotations and taints of its physical one |
//! | [`taints`] | taints, which tolerations match them and for how long, and the taints that a virtual node should have |
//! | [`merge`] | what of labels, annotations, taints and the cordon is ours to change on a virtual node |
//! | [`conditions`] | the conditions of a virtual node, and which of them are left to others |
//! | [`reclaim`] | when pods leave a node whose windows are closed |
pub mod conditions;
pub mod copied;
pub mod keys;
pub mod merge;
pub mod reclaim;
pub mod taints;
