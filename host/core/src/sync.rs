//! Lending nodes of a physical cluster to a virtual one: everything that is decided (`bottomup-syncer.md`, decisions D1 to
//! D15 and S1 to S28).
//!
//! Each room is a function of facts and of the time: the syncer's controllers, `lend plan` and `lend explain` call the very
//! same ones.
//!
//! | room | owns |
//! |---|---|
//! | [`keys`] | labels, annotations, taints and finalizers, each once |
//! | [`quantity`] | amounts of resources as Kubernetes writes them, exact |
//! | [`requests`] | what a pod requests in total |
//! | [`resources`] | names of resources, and lists of amounts |
//! | [`sizes`] | how large a virtual node is and why, and when that is written |
//! | [`summary`] | the numbers of a virtual node in one line |
pub mod keys;
pub mod quantity;
pub mod requests;
pub mod resources;
pub mod sizes;
pub mod summary;
