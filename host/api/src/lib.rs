//! The typed resources of topoloom and every name the cluster sees.
//!
//! Owns: the shape of [`HyperNode`] (Volcano's) and of [`DiscoverySource`], [`ClusterBinding`] and
//! [`ResourceLeasingPolicy`] (ours), the CustomResourceDefinitions of all, the keys of labels and annotations, the
//! types and reasons of conditions. Never: a client, a clock, a decision.
//!
//! | room | owns |
//! |---|---|
//! | [`names`] | labels, annotations, taints, field manager, event component; each once |
//! | [`rules`] | what Kubernetes accepts as a name, a label key, a label value |
//! | [`condition`] | a condition that reads anything legal, its types and reasons |
//! | [`hyper_node`] | `topology.volcano.sh/v1alpha1`, accepted and refused exactly as Volcano's |
//! | [`discovery_source`] | `topoloom.dev/v1alpha1`, what one source is doing |
//! | [`cluster_binding`] | `topoloom.dev/v1alpha1`, a physical cluster that lends nodes |
//! | [`resource_leasing_policy`] | `topoloom.dev/v1alpha1`, what a lender lends, and when |
//! | [`crd`] | all definitions as data and as YAML |
//!
//! Failure story: an object that the API server accepted must never fail to deserialize here, since one object that
//! fails would stop the watch of all. So reading is lenient in every field, and judging is left to the rooms above.
//! Where a default would lend more than was meant, a spec that cannot be read is an error in its object ([`Stored`]).

pub mod cluster_binding;
pub mod condition;
pub mod crd;
pub mod discovery_source;
pub mod hyper_node;
pub mod names;
pub mod resource_leasing_policy;
pub mod rules;

mod lenient;
mod node_selector;
mod resource;
mod stored;
mod words;

pub use cluster_binding::{ClusterBinding, ClusterBindingSpec, ClusterBindingStatus};
pub use condition::{Condition, ConditionStatus, ConditionType, Reason};
pub use crd::crds;
pub use discovery_source::{DiscoverySource, DiscoverySourceStatus, object_name};
pub use hyper_node::{HyperNode, HyperNodeSpec, HyperNodeStatus};
pub use resource_leasing_policy::{ResourceLeasingPolicy, ResourceLeasingPolicySpec, ResourceLeasingPolicyStatus};
pub use stored::{Part, Stored, Unreadable};
pub use words::{UnknownWord, Word, Words};
