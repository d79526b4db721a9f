//! The typed resources of topoloom and every name the cluster sees.
//!
//! Owns: the shape of [`HyperNode`] (Volcano's) and [`DiscoverySource`] (ours), the CustomResourceDefinitions of both,
//! the keys of labels and annotations, the types and reasons of conditions. Never: a client, a clock, a decision.
//!
//! | room | owns |
//! |---|---|
//! | [`names`] | labels, annotations, taints, field manager, event component; each once |
//! | [`rules`] | what Kubernetes accepts as a name, a label key, a label value |
//! | [`condition`] | a condition that reads anything legal, its types and reasons |
//! | [`hyper_node`] | `topology.volcano.sh/v1alpha1`, accepted and refused exactly as Volcano's |
//! | [`discovery_source`] | `topoloom.dev/v1alpha1`, what one source is doing |
//! | [`crd`] | both definitions as data and as YAML |
//!
//! Failure story: an object that the API server accepted must never fail to deserialize here, since one object that
//! fails would stop the watch of all. So reading is lenient in every field, and judging is left to the rooms above.

pub mod condition;
pub mod crd;
pub mod discovery_source;
pub mod hyper_node;
pub mod names;
pub mod rules;

mod lenient;

pub use condition::{Condition, ConditionStatus, ConditionType, Reason};
pub use crd::crds;
pub use discovery_source::{DiscoverySource, DiscoverySourceStatus, object_name};
pub use hyper_node::{HyperNode, HyperNodeSpec, HyperNodeStatus};
