//! The rooms that decide and touch nothing.
//!
//! What is here is a function of its arguments: no Kubernetes client, no wasm engine, no clock, no environment, no
//! randomness, no threads (`clippy.toml` beside this crate enforces it). Time is always an argument.
//!
//! | room | owns |
//! |---|---|
//! | [`address`] | what kind of place an IP address is |
//! | [`certificate`] | the dates of a certificate |
//! | [`controllers`] | which controllers of the process run |
//! | [`election`] | which of several replicas writes, and until when |
//! | [`nodelock`] | which pod a node is locked for, between its Binding and the answer of the device plugin |
//! | [`topology`] | what a discoverer answered, what the cluster holds, and the plan that leads from one to the other |
//! | [`snapshot`] | the nodes of the cluster as dictionary-coded columns |
//! | [`status`] | how many existing Nodes are below each HyperNode |
//! | [`limits`] | how much a plugin may have, and what to do when it is not enough |
//! | [`names`] | names that look alike and must not be exchanged |
//! | [`near`] | which of the known texts a text with a typing error meant |
//! | [`plugin`] | what a plugin may do, how it ended, and when it is tried again |
//! | [`queue`] | which key is worked on next, and when one that failed is tried again |
//! | [`size`] | numbers of bytes as Kubernetes writes them |
//! | [`text`] | texts of strangers, made fit for a log, a status and a terminal |
//! | [`rules`] | what a name, a label and a tier in a Kubernetes object may be, and what an answer may say: shared with the SDK |
//! | [`seldom`] | when a line of the log that others could repeat without end is written again |
//! | [`version`] | the order of resourceVersions |

pub mod address;
pub mod certificate;
#[cfg(test)]
mod chance;
pub mod controllers;
pub mod election;
pub mod limits;
pub mod names;
pub mod near;
pub mod nodelock;
pub mod plugin;
pub mod queue;
// One text of the rules: the SDK has it, too, so that a native test of a plugin judges as the host does.
#[path = "../../../sdk/src/rules.rs"]
pub mod rules;
pub mod seldom;
pub mod size;
pub mod snapshot;
pub mod status;
pub mod text;
pub mod topology;
pub mod version;
