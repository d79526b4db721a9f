//! `ResourceLeasingPolicy`, `topoloom.dev/v1alpha1`: what a lender lends, and when (`bottomup-syncer.md` 2.2, decisions
//! D2, D5, S2, S7, S8, S17 and S18).
//!
//! Owns: the shape of the object and its definition. Cluster-scoped, in the cluster that `policySource` of the binding
//! names. A lender writes the spec; the syncer writes the status, with the last spec that was valid.
//!
//! The definition judges words and sizes. Windows, days, percents, amounts, time zones and selectors are judged by the
//! syncer: a policy with a mistake in them exists, says so, and its last valid version stays in force. Sizes keep the
//! object with both of its specs below half of what etcd takes.
//!
//! Failure story: a spec that cannot be read is an error ([`crate::Stored`]) and never the default, which would lend
//! everything at all times. A last valid spec that cannot be read is none.

mod definition;
mod spec;
mod status;

pub use definition::definition;
pub use spec::{ResourceLeasingPolicySpec, ResourceLimitSpec, TimeWindowSpec};
pub use status::{ClosingStatus, PolicyPhase, ResourceLeasingPolicyStatus};

use crate::lenient;
use crate::names::GROUP;
use crate::resource::cluster_resource;
use crate::stored::{self, Stored, Unreadable};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// API version of the resource.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of every object.
pub const API_VERSION: &str = "topoloom.dev/v1alpha1";
/// `kind` of every object.
pub const KIND: &str = "ResourceLeasingPolicy";
/// The plural, as in URLs.
pub const PLURAL: &str = "resourceleasingpolicies";
/// The short name.
pub const SHORT_NAME: &str = "rlp";

/// What a lender lends, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLeasingPolicy {
    /// Always [`API_VERSION`]; items of a list come without it.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// Always [`KIND`]; items of a list come without it.
    #[serde(default = "kind")]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is lent, and when; or why that cannot be read.
    #[serde(default = "missing", deserialize_with = "stored::read", serialize_with = "stored::write")]
    pub spec: Stored<ResourceLeasingPolicySpec>,
    /// What is known of it.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_empty")]
    pub status: ResourceLeasingPolicyStatus,
}

impl ResourceLeasingPolicy {
    /// An object of that name with that spec and nothing else.
    #[must_use]
    pub fn new(name: &str, spec: ResourceLeasingPolicySpec) -> Self {
        Self {
            api_version: api_version(),
            kind: kind(),
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec: Ok(spec),
            status: ResourceLeasingPolicyStatus::default(),
        }
    }
}

cluster_resource!(ResourceLeasingPolicy, GROUP);

fn missing() -> Stored<ResourceLeasingPolicySpec> {
    Err(Unreadable::missing())
}

fn is_empty(status: &ResourceLeasingPolicyStatus) -> bool {
    *status == ResourceLeasingPolicyStatus::default()
}
