//! `ClusterBinding`, `topoloom.dev/v1alpha1`: a physical cluster that lends nodes to this one (`bottomup-syncer.md`
//! 2.1, decisions S2 to S28).
//!
//! Owns: the shape of the object and its definition, its words and its times. Cluster-scoped, in the virtual cluster.
//! An operator writes the spec and annotations as verbs ([`crate::names`]); the syncer writes the status.
//!
//! `clusterID` and `mountNamespace` never change: the names of nodes and the place of pods follow from them. The
//! selector and the rules of `copy` are not judged by the definition, and a binding with a mistake in them exists and
//! says so.
//!
//! Failure story: a stored object that fits no longer is read as far as it can be. A spec that cannot be read is an
//! error ([`crate::Stored`]) and never the default; a field of the status that cannot be read is absent.

mod definition;
mod spec;
mod status;
pub mod times;

pub use definition::definition;
pub use spec::{
    ClusterBindingSpec, CopySpec, HostPorts, KeysSpec, MAX_PERCENT, Mode, NoPolicy, OnUnreachable, PhysicalWrites,
    PolicySource, SafetySpec, SecretRef, TimingSpec,
};
pub use status::{
    BindingPhase, ClusterBindingStatus, ConfirmedStatus, ConnectionState, ConnectionStatus, Extent, GrantedStatus,
    HeldBatchStatus, LeaseCounts, NodeCounts, OtherClusterStatus, PodCounts, RestoredStatus, Side, SpentStatus,
};

use crate::names::GROUP;
use crate::resource::cluster_resource;
use crate::stored::{self, Stored, Unreadable};
use crate::{lenient, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// API version of the resource.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of every object.
pub const API_VERSION: &str = "topoloom.dev/v1alpha1";
/// `kind` of every object.
pub const KIND: &str = "ClusterBinding";
/// The plural, as in URLs.
pub const PLURAL: &str = "clusterbindings";
/// The short name.
pub const SHORT_NAME: &str = "cb";

/// A physical cluster that lends nodes to this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterBinding {
    /// Always [`API_VERSION`]; items of a list come without it.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// Always [`KIND`]; items of a list come without it.
    #[serde(default = "kind")]
    pub kind: String,
    /// Standard metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is borrowed, and how; or why that cannot be read.
    #[serde(default = "missing", deserialize_with = "stored::read", serialize_with = "stored::write")]
    pub spec: Stored<ClusterBindingSpec>,
    /// What is known of it.
    #[serde(default, deserialize_with = "lenient::or_default", skip_serializing_if = "is_empty")]
    pub status: ClusterBindingStatus,
}

impl ClusterBinding {
    /// An object of that name with that spec and nothing else.
    #[must_use]
    pub fn new(name: &str, spec: ClusterBindingSpec) -> Self {
        Self {
            api_version: api_version(),
            kind: kind(),
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            spec: Ok(spec),
            status: ClusterBindingStatus::default(),
        }
    }

    /// The hash that the operator confirms, if any.
    #[must_use]
    pub fn confirmed(&self) -> Option<&str> {
        self.annotation(names::CONFIRM_ANNOTATION)
    }

    /// The value of one annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

cluster_resource!(ClusterBinding, GROUP);

fn missing() -> Stored<ClusterBindingSpec> {
    Err(Unreadable::missing())
}

fn is_empty(status: &ClusterBindingStatus) -> bool {
    *status == ClusterBindingStatus::default()
}
