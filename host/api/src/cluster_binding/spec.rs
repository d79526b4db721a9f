//! What an operator wants of a ClusterBinding.
//!
//! Every field may be absent here, also those that the definition requires: what is stored is read, and judged above.
//! Times are texts ([`times`](super::times)), choices are [`Word`]s.

use super::times::{TimeError, Times};
use crate::lenient;
use crate::words::{Word, words};
use k8s_openapi::api::core::v1::NodeSelector;
use serde::{Deserialize, Serialize};

/// What is borrowed from one physical cluster, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterBindingSpec {
    /// Part of the name of every virtual node. Never changes.
    #[serde(rename = "clusterID", skip_serializing_if = "String::is_empty")]
    pub cluster_id: String,
    /// The Secret with the kubeconfig of the physical cluster.
    #[serde(skip_serializing_if = "SecretRef::is_empty")]
    pub secret_ref: SecretRef,
    /// The namespace of the physical cluster that all pods are in. Never changes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mount_namespace: String,
    /// Which physical nodes may be borrowed; absent, or without terms: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<NodeSelector>,
    /// What a node without a policy lends.
    #[serde(skip_serializing_if = "Word::is_absent")]
    pub no_policy: Word<NoPolicy>,
    /// In which cluster the policies are.
    #[serde(skip_serializing_if = "Word::is_absent")]
    pub policy_source: Word<PolicySource>,
    /// Whether anything is written.
    #[serde(skip_serializing_if = "Word::is_absent")]
    pub mode: Word<Mode>,
    /// What becomes of the nodes while the physical cluster does not answer.
    #[serde(skip_serializing_if = "Word::is_absent")]
    pub on_unreachable: Word<OnUnreachable>,
    /// For how long, with `onUnreachable: hold`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold_for: Option<String>,
    /// How much may be disrupted at once.
    #[serde(skip_serializing_if = "SafetySpec::is_empty")]
    pub safety: SafetySpec,
    /// What is copied from one cluster to the other beside what always is.
    #[serde(skip_serializing_if = "CopySpec::is_empty")]
    pub copy: CopySpec,
    /// Times.
    #[serde(skip_serializing_if = "TimingSpec::is_empty")]
    pub timing: TimingSpec,
    /// Whether host ports that are taken on a physical node are taken on its virtual one.
    #[serde(skip_serializing_if = "Word::is_absent")]
    pub host_ports: Word<HostPorts>,
    /// Whether physical nodes are labelled and claimed.
    #[serde(skip_serializing_if = "Word::is_absent")]
    pub physical_writes: Word<PhysicalWrites>,
    /// Whether a kubeconfig may switch off the check of the server's certificate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_insecure: bool,
    /// Whether virtual nodes of another topoloom are borrowed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_chained: bool,
    /// Whether virtual nodes come without the taint `topoloom.dev/vnode`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_node_default_taint: bool,
}

impl ClusterBindingSpec {
    /// Its times; an absent one has its default.
    ///
    /// # Errors
    /// Every time that cannot be used; never none.
    pub fn times(&self) -> Result<Times, Vec<TimeError>> {
        Times::read(self)
    }
}

/// A Secret, in the namespace of the syncer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretRef {
    /// Its name.
    pub name: String,
}

impl SecretRef {
    fn is_empty(&self) -> bool {
        self.name.is_empty()
    }
}

/// How much may be disrupted at once (decision S9).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SafetySpec {
    /// Percent of the running pods, which are those that are bound to its nodes and have not ended, without those of DaemonSets; 100 is
    /// all. Absent is [`MAX_PERCENT`].
    #[serde(deserialize_with = "lenient::number", skip_serializing_if = "Option::is_none")]
    pub max_evict_percent: Option<i64>,
    /// Percent of the nodes; 100 is all. Absent is [`MAX_PERCENT`].
    #[serde(deserialize_with = "lenient::number", skip_serializing_if = "Option::is_none")]
    pub max_nodes_percent: Option<i64>,
    /// For how long the end of a window has to be announced, for evictions at that end to be free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub announce: Option<String>,
}

/// The default of both percents of [`SafetySpec`].
pub const MAX_PERCENT: i64 = 20;

impl SafetySpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is copied from one cluster to the other beside what always is (decisions S13, S16).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CopySpec {
    /// Labels of physical nodes.
    #[serde(skip_serializing_if = "KeysSpec::is_empty")]
    pub labels: KeysSpec,
    /// Annotations of physical nodes.
    #[serde(skip_serializing_if = "KeysSpec::is_empty")]
    pub annotations: KeysSpec,
    /// Keys of labels and annotations of physical pods that their virtual pods get.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pod_metadata: Vec<String>,
}

impl CopySpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which keys are copied and which are not. An entry is a key, a prefix such as `example.com/*`, or `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeysSpec {
    /// Copied, although they are not otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Not copied, although they are otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

impl KeysSpec {
    fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }
}

/// Times as they are written (decision S28); [`ClusterBindingSpec::times`] reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TimingSpec {
    /// [`LEASE`](super::times::LEASE).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// [`SUSPECT`](super::times::SUSPECT).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspect: Option<String>,
    /// [`UNREACHABLE`](super::times::UNREACHABLE).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<String>,
    /// [`EMPTY`](super::times::EMPTY).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub empty: Option<String>,
    /// [`RECHECK`](super::times::RECHECK).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recheck: Option<String>,
    /// [`ORPHAN_DELAY`](super::times::ORPHAN_DELAY).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub orphan_delay: Option<String>,
    /// [`EVICTION_DEADLINE`](super::times::EVICTION_DEADLINE).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_deadline: Option<String>,
    /// [`GROW`](super::times::GROW).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grow: Option<String>,
}

impl TimingSpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

words! {
    /// What a node that no policy selects lends (decisions D1, S8).
    pub enum NoPolicy {
        /// Everything that is left.
        LeaseAll = "LeaseAll",
        /// Nothing: it has no virtual node.
        Withdraw = "Withdraw",
    }
}

words! {
    /// In which cluster the policies are (decision D2).
    pub enum PolicySource {
        /// In the physical one: the lender decides.
        Physical = "physical",
        /// In the virtual one.
        Virtual = "virtual",
    }
}

words! {
    /// Whether anything is written (decision S23).
    pub enum Mode {
        /// Everything that is decided.
        Enforce = "enforce",
        /// Nothing but the status of the binding.
        Observe = "observe",
    }
}

words! {
    /// What becomes of the nodes while the physical cluster does not answer (decision S5).
    pub enum OnUnreachable {
        /// Their leases stop, and they become Unknown.
        Unknown = "unknown",
        /// Their leases are renewed for `holdFor`.
        Hold = "hold",
    }
}

words! {
    /// Whether host ports that are taken on a physical node are taken on its virtual one (decision S3).
    pub enum HostPorts {
        /// They are not.
        Off = "off",
        /// A placeholder pod takes them.
        Mirror = "mirror",
    }
}

words! {
    /// Whether physical nodes are labelled and claimed (decision S19).
    pub enum PhysicalWrites {
        /// They are.
        All = "all",
        /// No node of the physical cluster is written.
        None = "none",
    }
}
