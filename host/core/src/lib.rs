//! The rooms that decide and touch nothing.
//!
//! What is here is a function of its arguments: no Kubernetes client, no wasm engine, no clock, no environment, no
//! randomness, no threads (`clippy.toml` beside this crate makes the compiler say so). Time is always an argument.
//!
//! | room | owns |
//! |---|---|
//! | [`topology`] | what a discoverer answered, what the cluster holds, and the plan that leads from one to the other |
//! | [`snapshot`] | the nodes of the cluster as dictionary-coded columns |
//! | [`status`] | how many existing Nodes are below each HyperNode |
//! | [`plugin`] | what a plugin may do, how it ended, and when it is tried again |

pub mod plugin;
pub mod snapshot;
pub mod status;
pub mod topology;
