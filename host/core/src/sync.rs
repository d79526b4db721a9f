//! Lending nodes of a physical cluster to a virtual one: everything that is decided (`bottomup-syncer.md`, decisions D1 to
//! D15 and S1 to S28).
//!
//! Each room is a function of facts and of the time: the syncer's controllers, `lend plan` and `lend explain` call the very
//! same ones.
//!
//! | room | owns |
//! |---|---|
//! | [`csi`] | the CSINode of a virtual node |
//! | [`identity`] | whose an object is, claims, and which physical pod belongs to which virtual one |
//! | [`keys`] | labels, annotations, taints and finalizers, each once |
//! | [`naming`] | the names that lending gives, and label values made of long ones |
//! | [`pods`] | what follows from one physical pod, and who finishes a virtual one |
//! | [`projection`] | the status of a virtual pod, made of that of its physical one |
pub mod csi;
pub mod identity;
pub mod keys;
pub mod naming;
pub mod pods;
pub mod projection;
