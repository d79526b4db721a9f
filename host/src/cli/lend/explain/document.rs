//! Explanations for programs. The text is made of them alone.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::lend::amounts::{Amounts, Moment};
use crate::cli::lend::parts::{BarInForce, Windows};
use crate::cli::output::Document;

/// Why a node lends as much as it does, or what becomes of a pod.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct LendExplanation {
    /// The time of the explanation, by the clock of the virtual API server.
    pub(super) time: String,
    /// The node under each binding that knows it.
    pub(super) nodes: Vec<NodeExplained>,
    /// The pod, with its twin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) pod: Option<PodExplained>,
    /// What could not be read, each in a sentence.
    pub(super) remarks: Vec<String>,
}

impl Document for LendExplanation {
    const KIND: &'static str = "LendExplanation";
}

/// One physical node under one binding.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeExplained {
    /// The physical node.
    pub(super) node: String,
    /// Its virtual node; absent where its name gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) virtual_node: Option<String>,
    /// Whether that exists.
    pub(super) lent: bool,
    /// The ClusterBinding.
    pub(super) binding: String,
    /// What the node is, in a sentence.
    pub(super) state: String,
    /// Why less is written than everything.
    pub(super) bars: Vec<BarInForce>,
    /// More about that, and what the guard holds, each in a sentence.
    pub(super) why: Vec<String>,
    pub(super) policies: PoliciesOfNode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) windows: Option<Windows>,
    /// When windows or a grace make something of the node next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<Moment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<SizeExplained>,
    /// Every taint, with its reason.
    pub(super) taints: Vec<TaintExplained>,
    /// Taints of the physical node that are not copied.
    pub(super) left_out: Vec<TaintExplained>,
    /// Labels and annotations of the physical node that are not copied, each in a sentence.
    pub(super) not_copied: Vec<String>,
    /// What happens to pods outside of the windows, each in a sentence.
    pub(super) reclaim: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease: Option<LeaseExplained>,
    /// What other clients changed, each in a sentence.
    pub(super) notes: Vec<String>,
    /// When the virtual node was written last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_write: Option<Moment>,
    /// What follows now, each in a sentence. Whether the guard allows it depends on all nodes, which only `lend plan` looks at.
    pub(super) follows: Vec<String>,
}

/// The policies of a node.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PoliciesOfNode {
    /// What is in force, in a sentence.
    pub(super) in_force: String,
    /// The policy in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    /// Policies that select the node and come after the one in force, in their order.
    pub(super) shadowed: Vec<String>,
    /// Invalid policies that select the node, each with what is wrong.
    pub(super) invalid: Vec<String>,
}

/// The size of a node, step by step.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SizeExplained {
    /// The field of the physical node that the size is computed from.
    pub(super) base: &'static str,
    /// Each resource of the physical node.
    pub(super) resources: Vec<ResourceExplained>,
    /// Limits on resources that the node does not have, each in a sentence.
    pub(super) skipped: Vec<String>,
    /// The pods that use most of the node, the largest first.
    pub(super) pods: Vec<UsingPod>,
    /// The other pods that use some of it.
    pub(super) other_pods: OtherPods,
    /// Why the virtual node is not as large yet as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) waits: Option<String>,
    /// That its pods request more than it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) overcommitted: Option<String>,
}

/// One resource of a node.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceExplained {
    pub(super) resource: String,
    /// What the physical node has.
    pub(super) base: String,
    /// What pods use of it that the virtual cluster does not count.
    pub(super) used: String,
    /// What is left of it.
    pub(super) left: String,
    /// Each limit of the policy on it, in their order.
    pub(super) limits: Vec<LimitExplained>,
    /// What is lent.
    pub(super) lends: String,
    /// What the virtual node shows now; absent where it does not show it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shows: Option<String>,
    /// What was rounded down to a whole number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rounded: Option<String>,
}

/// One limit of a policy on one resource.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LimitExplained {
    /// What it does, in a sentence.
    pub(super) sentence: String,
    /// Whether it decides the size: it is the last one that cuts something off.
    pub(super) decides: bool,
}

/// A physical pod that uses some of a node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsingPod {
    pub(super) namespace: String,
    pub(super) name: String,
    /// How much of it counts.
    pub(super) uses: Amounts,
    /// How it counts, in a sentence.
    pub(super) counts: String,
}

/// Pods that are not listed one by one.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OtherPods {
    /// So many.
    pub(super) pods: usize,
    /// What they use together.
    pub(super) uses: Amounts,
    /// Pods on the node of which nothing counts.
    pub(super) without_use: usize,
}

/// A taint, with a reason.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct TaintExplained {
    /// `key=value:effect`.
    pub(super) taint: String,
    pub(super) reason: String,
    /// Whether it is on the virtual node.
    pub(super) there: bool,
}

/// The lease of a virtual node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct LeaseExplained {
    /// Whether it is renewed, and why not, in a sentence.
    pub(super) sentence: String,
    /// When it was renewed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) renewed: Option<Moment>,
    /// Whether it should be renewed. The sentence says it.
    #[serde(skip)]
    pub(super) wanted: bool,
}

/// A pod and its twin in the other cluster.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodExplained {
    /// The ClusterBinding; absent where none has to do with the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) binding: Option<String>,
    #[serde(rename = "virtual", skip_serializing_if = "Option::is_none")]
    pub(super) lent: Option<OnePod>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) physical: Option<OnePod>,
    /// Whether it is not known that there is a physical pod, because its cluster was not read. The state says why. Absent where it is
    /// known.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) unread: bool,
    /// What follows for it, by the table of cases in the documentation of pods, in a sentence.
    pub(super) state: String,
    /// When the status of the virtual pod was written last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_write: Option<Moment>,
}

/// One of the two pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct OnePod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// The node that it is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    pub(super) phase: String,
    /// Whether it is being deleted.
    pub(super) terminating: bool,
}
