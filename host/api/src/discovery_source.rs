//! `DiscoverySource`, `topoloom.dev/v1alpha1`: what one source is doing.
//!
//! Owns: the shape of the object and its definition. It has no spec: the ConfigMap has what a source should do, and an
//! operator writes only annotations here ([`crate::names`]). Cluster-scoped, one per source.
//!
//! The status says what an operator asks first: which plugin, in which state, how many nodes, since when, and why not.
//! It holds no list that grows with the cluster; details come from the command line and the admin endpoint.
//!
//! Failure story: version N − 1 reads what version N wrote, so unknown words read as their `Unknown` and missing fields
//! as empty.

mod definition;
mod name;
mod status;

pub use definition::definition;
pub use name::object_name;
pub use status::{
    CandidateStatus, ComparisonStatus, Diagnostic, DiscoverySourceStatus, Held, HeldRule, KeptPlugin, LostNodes,
    NodeCoverage, OnRemoval, PluginOrigin, PluginStatus, RefusalStatus, State, TierConflict, TierGroups,
};

use crate::lenient;
use crate::names::{CONFIRM_ANNOTATION, GROUP};
use crate::resource::cluster_resource;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// API version of the resource.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` of every object.
pub const API_VERSION: &str = "topoloom.dev/v1alpha1";
/// `kind` of every object.
pub const KIND: &str = "DiscoverySource";
/// The plural, as in URLs.
pub const PLURAL: &str = "discoverysources";
/// The short name; `ds` belongs to DaemonSets.
pub const SHORT_NAME: &str = "dsrc";

/// What one source of the configuration is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DiscoverySource {
    /// Always [`API_VERSION`]; items of a list come without it.
    #[serde(default = "api_version")]
    pub api_version: String,
    /// Always [`KIND`]; items of a list come without it.
    #[serde(default = "kind")]
    pub kind: String,
    /// Standard metadata; the name comes from [`object_name`].
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// All there is to say.
    #[serde(default, deserialize_with = "lenient::null_is_default", skip_serializing_if = "is_empty")]
    pub status: DiscoverySourceStatus,
}

impl DiscoverySource {
    /// The object of that source, with an empty status that only names it.
    #[must_use]
    pub fn new(source: &str) -> Self {
        Self {
            api_version: api_version(),
            kind: kind(),
            metadata: ObjectMeta { name: Some(object_name(source)), ..ObjectMeta::default() },
            status: DiscoverySourceStatus { source: source.to_owned(), ..DiscoverySourceStatus::default() },
        }
    }

    /// The result hash that the operator confirmed, if any.
    #[must_use]
    pub fn confirmed(&self) -> Option<&str> {
        self.annotation(CONFIRM_ANNOTATION)
    }

    /// The value of one annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

cluster_resource!(DiscoverySource, GROUP);

fn is_empty(status: &DiscoverySourceStatus) -> bool {
    *status == DiscoverySourceStatus::default()
}
