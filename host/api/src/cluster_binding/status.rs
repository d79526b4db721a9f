//! What is known of a ClusterBinding, and what must outlive the process that knows it.
//!
//! Four parts are the memory of the guard and of identity: which cluster this is (`physicalClusterUID`), how much was
//! disrupted lately (`spent`), what may be disrupted already (`granted`), and what is held with what was confirmed of it. A process that takes over reads them
//! before it writes anything. One part keeps other installations away (`lease`). Everything else is for people. A field
//! that cannot be read reads as absent, alone.

use crate::condition::Condition;
use crate::lenient;
use serde::{Deserialize, Serialize};

/// What is known of a ClusterBinding. Every field may be absent; an absent one was not known when the status was
/// written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterBindingStatus {
    /// The `metadata.generation` that was looked at.
    #[serde(deserialize_with = "lenient::optional_integer", skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How it is doing, in one word.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub phase: Option<BindingPhase>,
    /// The reason for the phase, in one sentence.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Conditions, one per type.
    #[serde(deserialize_with = "lenient::readable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The physical cluster that this binding borrows from: the UID of its namespace `kube-system`, from the first
    /// contact on.
    #[serde(
        rename = "physicalClusterUID",
        deserialize_with = "lenient::or_default",
        skip_serializing_if = "Option::is_none"
    )]
    pub physical_cluster_uid: Option<String>,
    /// Another physical cluster that answers in its place, until an operator confirms it.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub other_cluster: Option<OtherClusterStatus>,
    /// A cluster that was set back to an earlier state, until an operator confirms it.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoredStatus>,
    /// The batch that waits for confirmation.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldBatchStatus>,
    /// What was disrupted lately; it counts against `spec.safety`, also in a process that takes over.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub spent: Option<SpentStatus>,
    /// What the guard allowed or an operator confirmed, as far as it is wanted still: a process that takes over continues with it.
    #[serde(deserialize_with = "lenient::readable", skip_serializing_if = "Vec::is_empty")]
    pub granted: Vec<GrantedStatus>,
    /// What operators confirmed, newest first: a hash confirms once.
    #[serde(deserialize_with = "lenient::readable", skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<ConfirmedStatus>,
    /// The connection to the physical cluster.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionStatus>,
    /// The replica that serves this binding.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// The Lease that replicas stand for to serve it, as namespace and name with a slash: another installation, whose leases have
    /// other names, stays away (decision S11).
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// Its nodes, counted.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeCounts>,
    /// Its pods, counted.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodCounts>,
    /// The leases of its virtual nodes, counted.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub leases: Option<LeaseCounts>,
    /// When the windows of its policies open or close next, RFC 3339.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub next_transition: Option<String>,
    /// When this status was written last, RFC 3339. It changes with another change only.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub last_sync_time: Option<String>,
}

impl ClusterBindingStatus {
    /// How many entries `confirmed` has at most, in the definition too.
    pub const CONFIRMED_MAX: usize = 16;
    /// How many entries `granted` has at most, in the definition too.
    pub const GRANTED_MAX: usize = 16;
    /// How many nodes an entry of `granted` names at most, in the definition too. What it does not name is judged again by a process
    /// that takes over.
    pub const GRANTED_NODES_MAX: usize = 1000;
    /// How many hashes `held.earlier` has at most, in the definition too.
    pub const EARLIER_MAX: usize = 100;

    /// The same, said of that generation of the object.
    #[must_use]
    pub fn observed(mut self, generation: Option<i64>) -> Self {
        self.observed_generation = generation;
        self.conditions.iter_mut().for_each(|condition| condition.observed_generation = generation);
        self
    }

    /// The same, written at this time.
    #[must_use]
    pub fn written(mut self, at: String) -> Self {
        self.granted.iter_mut().for_each(|granted| granted.at.clone_from(&at));
        self.last_sync_time = Some(at);
        self
    }

    /// What of `granted` was written with the rest of the status. A version that does not know `granted` writes the status, and leaves it
    /// as it was.
    pub fn granted_now(&self) -> impl Iterator<Item = &GrantedStatus> {
        self.granted.iter().filter(move |granted| self.last_sync_time.as_ref() == Some(&granted.at))
    }
}

/// How a binding is doing, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BindingPhase {
    /// Not there yet: no contact with the physical cluster, or no holder.
    Pending,
    /// It serves.
    Ready,
    /// It cannot serve until a person changes something.
    Failed,
    /// A word of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl BindingPhase {
    /// All phases.
    pub const ALL: &'static [Self] = &[Self::Pending, Self::Ready, Self::Failed, Self::Unknown];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Ready => "Ready",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}

/// Another physical cluster than the one that this binding borrows from (decision S6).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OtherClusterStatus {
    /// The UID of its namespace `kube-system`.
    pub uid: String,
    /// What an operator confirms.
    pub hash: String,
    /// Since when it answers, RFC 3339.
    pub since: String,
}

/// A cluster that was set back to an earlier state (decision S25).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RestoredStatus {
    /// Which one.
    pub cluster: Side,
    /// How that was seen.
    pub sentence: String,
    /// What an operator confirms.
    pub hash: String,
    /// When that was seen, RFC 3339.
    pub since: String,
}

/// One of the two clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Side {
    /// The one with the virtual nodes.
    Virtual,
    /// The one that lends.
    Physical,
    /// A word of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

/// How many nodes and pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Extent {
    /// Nodes.
    #[serde(deserialize_with = "lenient::integer")]
    pub nodes: i64,
    /// Pods.
    #[serde(deserialize_with = "lenient::integer")]
    pub pods: i64,
}

/// A batch of disruptive acts that is not carried out until it is confirmed (decision S9).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldBatchStatus {
    /// What an operator confirms. A batch that only became smaller keeps it.
    pub hash: String,
    /// The hashes of the last ten minutes, before something came to the batch, newest first: each confirms what it was shown with.
    #[serde(deserialize_with = "lenient::readable", skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<String>,
    /// What would be disrupted, why, and which limit that breaks, with numbers.
    pub sentence: String,
    /// Since when, RFC 3339.
    pub since: String,
    /// What would be disrupted, with what was before.
    #[serde(deserialize_with = "lenient::or_default")]
    pub extent: Extent,
    /// The size of the binding that the limits refer to. It does not grow while the batch is held.
    #[serde(deserialize_with = "lenient::or_default")]
    pub size: Extent,
    /// What counted against the limits when the batch was held. It does not shrink with time while the batch is held.
    #[serde(deserialize_with = "lenient::or_default")]
    pub spent: Extent,
}

/// What was disrupted lately (decision S9).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpentStatus {
    /// Nodes that were taken away or emptied.
    #[serde(deserialize_with = "lenient::integer")]
    pub nodes: i64,
    /// Pods that were removed.
    #[serde(deserialize_with = "lenient::integer")]
    pub pods: i64,
    /// When the last of it happened, RFC 3339.
    #[serde(deserialize_with = "lenient::or_default")]
    pub at: String,
}

/// Disruptive acts of one kind that may happen already, or have happened, and are wanted still (decision S9).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrantedStatus {
    /// The kind: `NoExecute`, `RemovePod`, `RemoveOrphan` or `DeleteNode`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub act: String,
    /// Whether they count against the limits and have not happened yet; `spent` has them then.
    #[serde(deserialize_with = "lenient::or_default")]
    pub counts: bool,
    /// The virtual nodes.
    #[serde(deserialize_with = "lenient::readable")]
    pub nodes: Vec<String>,
    /// How many pods of these nodes.
    #[serde(deserialize_with = "lenient::integer")]
    pub pods: i64,
    /// The `lastSyncTime` of the status that they were written with, RFC 3339. In a status that was written at another time they count
    /// no more.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "String::is_empty")]
    pub at: String,
}

/// A confirmation that was carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfirmedStatus {
    /// What was confirmed.
    pub hash: String,
    /// When, RFC 3339.
    #[serde(deserialize_with = "lenient::or_default")]
    pub at: String,
}

/// The connection to the physical cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionStatus {
    /// How it is doing.
    #[serde(deserialize_with = "lenient::or_default")]
    pub state: ConnectionState,
    /// Since when, RFC 3339.
    #[serde(deserialize_with = "lenient::or_default")]
    pub since: String,
    /// The version of its API server.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub server_version: Option<String>,
    /// When the certificate or token of the kubeconfig ends, RFC 3339; absent where that is not known.
    #[serde(deserialize_with = "lenient::or_default", skip_serializing_if = "Option::is_none")]
    pub credentials_end: Option<String>,
}

/// How the connection to the physical cluster is doing (decision S5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConnectionState {
    /// It has not been made yet.
    Connecting,
    /// The API server answers.
    Reachable,
    /// The API server may be gone.
    Suspect,
    /// The API server does not answer.
    Unreachable,
    /// A word of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl ConnectionState {
    /// All states.
    pub const ALL: &'static [Self] =
        &[Self::Connecting, Self::Reachable, Self::Suspect, Self::Unreachable, Self::Unknown];

    /// The word on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connecting => "Connecting",
            Self::Reachable => "Reachable",
            Self::Suspect => "Suspect",
            Self::Unreachable => "Unreachable",
            Self::Unknown => "Unknown",
        }
    }
}

/// The nodes of a binding, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCounts {
    /// Physical nodes that the binding selects.
    #[serde(deserialize_with = "lenient::integer")]
    pub selected: i64,
    /// Virtual nodes.
    #[serde(deserialize_with = "lenient::integer")]
    pub lent: i64,
    /// Of these, those that are Ready.
    #[serde(deserialize_with = "lenient::integer")]
    pub ready: i64,
    /// Of these, those outside of the windows of their policy.
    #[serde(deserialize_with = "lenient::integer")]
    pub outside_windows: i64,
    /// Of these, those whose pods request more than is lent.
    #[serde(deserialize_with = "lenient::integer")]
    pub overcommitted: i64,
    /// Of these, those that are being taken away.
    #[serde(deserialize_with = "lenient::integer")]
    pub leaving: i64,
    /// Physical nodes that an invalid policy keeps as they are.
    #[serde(deserialize_with = "lenient::integer")]
    pub frozen: i64,
    /// Physical nodes that another binding or borrower has claimed.
    #[serde(deserialize_with = "lenient::integer")]
    pub claimed_by_others: i64,
}

/// The pods of a binding, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodCounts {
    /// Virtual pods that are bound to its nodes and have not ended.
    #[serde(deserialize_with = "lenient::integer")]
    pub bound: i64,
    /// Of these, those that are running.
    #[serde(deserialize_with = "lenient::integer")]
    pub running: i64,
    /// Physical pods of ours without a virtual pod.
    #[serde(deserialize_with = "lenient::integer")]
    pub orphans: i64,
}

/// The leases of the virtual nodes of a binding, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeaseCounts {
    /// Those that are renewed.
    #[serde(deserialize_with = "lenient::integer")]
    pub renewed: i64,
    /// Those that are not: their kubelet does not report, or the physical cluster is unreachable.
    #[serde(deserialize_with = "lenient::integer")]
    pub stopped: i64,
}
