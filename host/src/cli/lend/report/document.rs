//! The report for programs. The text is made of it alone.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::lend::amounts::{Amounts, Moment};
use crate::cli::lend::parts::{BarInForce, Held};
use crate::cli::output::Document;

/// What is lent, used and idle, and what waits.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct LendReport {
    /// The time of the report, by the clock of the virtual API server.
    pub(super) time: String,
    pub(super) bindings: Vec<BindingReport>,
    /// Virtual nodes whose binding does not exist any more.
    pub(super) orphans: Vec<OrphanNode>,
    /// What could not be read, each in a sentence.
    pub(super) remarks: Vec<String>,
}

impl Document for LendReport {
    const KIND: &'static str = "LendReport";
}

/// What one binding lends.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BindingReport {
    /// The ClusterBinding.
    pub(super) binding: String,
    /// Why nothing is known of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// Why less is written than everything.
    pub(super) bars: Vec<BarInForce>,
    /// More about that, each in a sentence.
    pub(super) why: Vec<String>,
    /// What could not be read of it, each in a sentence.
    pub(super) remarks: Vec<String>,
    /// Its virtual nodes.
    pub(super) virtual_nodes: usize,
    /// Pods on these nodes that have not ended.
    pub(super) running_pods: usize,
    pub(super) total: Share,
    /// The same by policy: that of a node is the one under which its size was written last.
    pub(super) policies: Vec<PolicyShare>,
    /// Virtual nodes whose pods request more than they have.
    pub(super) overcommitted: Vec<NodeRemark>,
    /// Virtual nodes with pods that have to go and are there still.
    pub(super) waiting: Vec<WaitingNode>,
    /// What the guard holds, by the status of the binding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held: Option<Held>,
    pub(super) leases: Leases,
    /// When the windows of a policy open or close next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next_transition: Option<Moment>,
    /// Physical nodes that are selected, and that another binding or borrower claims.
    pub(super) claimed_by_others: Vec<NodeRemark>,
    /// Physical nodes with the claim of a binding of this virtual cluster that does not exist any more.
    pub(super) stale_claims: Vec<NodeRemark>,
}

/// Nodes, and what they have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Share {
    /// Virtual nodes.
    pub(super) nodes: usize,
    /// What they have.
    pub(super) lent: Amounts,
    /// What their pods request.
    pub(super) used: Amounts,
    /// What is left.
    pub(super) idle: Amounts,
}

/// What is lent under one policy.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PolicyShare {
    /// Its name; absent for nodes without a policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<String>,
    #[serde(flatten)]
    pub(super) share: Share,
}

/// A node, and what there is to say about it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeRemark {
    pub(super) node: String,
    pub(super) sentence: String,
}

/// A virtual node with pods that have to go.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct WaitingNode {
    pub(super) node: String,
    /// How many pods.
    pub(super) pods: usize,
    /// Why, in a sentence.
    pub(super) why: String,
    /// Whether the guard holds it.
    pub(super) held: bool,
}

/// The leases of the virtual nodes.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Leases {
    /// The one whose renewal is the longest ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) oldest: Option<OldestLease>,
    /// Virtual nodes without a lease.
    pub(super) missing: usize,
}

/// The lease of a virtual node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OldestLease {
    pub(super) node: String,
    pub(super) renewed: Moment,
}

/// A virtual node whose binding does not exist any more.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OrphanNode {
    pub(super) node: String,
    /// The name of that binding.
    pub(super) binding: String,
    /// Its UID.
    pub(super) binding_uid: String,
    /// Whether a binding of that name exists, which adopts the node.
    pub(super) adoptable: bool,
}
