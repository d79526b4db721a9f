//! What the controller has to do for a node, as requests that it can send as they are.

use std::fmt;

use serde_json::Value;

use super::{LentPod, Question};
use crate::keys;
use crate::precondition::Precondition;
use crate::reclaim::PodRef;
use topoloom_core::names::NodeName;
use topoloom_core::version::ResourceVersion;

/// One thing to do. All patches are JSON merge patches.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeOrder {
    /// Read something live, and decide again with the answer.
    Ask(Question),
    /// Patch the physical node: the claim and the label of the policy.
    PatchPhysical {
        /// The version that was judged; the body carries it.
        version: ResourceVersion,
        /// The patch.
        body: Value,
    },
    /// Make the virtual node. Where one of that name exists: read it live, and decide again.
    Create {
        /// Its name.
        name: NodeName,
        /// The whole object with its status.
        body: Value,
    },
    /// Patch `status` of the virtual node, with its metadata.
    PatchStatus {
        /// Its name.
        name: NodeName,
        /// The version that was judged; the body carries it.
        version: ResourceVersion,
        /// The patch.
        body: Value,
        /// Whether node-lifecycle had set the node to Unknown: then the status of each of its pods is written again.
        heals: bool,
    },
    /// Patch `spec` of the virtual node, with the metadata that belongs to it.
    PatchSpec {
        /// Its name.
        name: NodeName,
        /// The version that was judged; the body carries it. `None`: the one that the request before this returned, which
        /// the controller writes into the body.
        version: Option<ResourceVersion>,
        /// The patch.
        body: Value,
    },
    /// Remove these virtual pods.
    RemovePods(Vec<PodRemoval>),
    /// Renew its lease no more.
    StopLease(NodeName),
    /// Delete the virtual node in exactly this version.
    Delete {
        /// Its name.
        name: NodeName,
        /// What the request must carry.
        precondition: Precondition,
    },
    /// Take our finalizer off the virtual node.
    RemoveFinalizer {
        /// Its name.
        name: NodeName,
        /// The patch, which carries the version.
        body: Value,
    },
    /// Take our label, or label and claim, off the physical node. A failure holds up nothing.
    ReleasePhysical {
        /// The patch, which carries the version.
        body: Value,
    },
}

/// A virtual pod that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRemoval {
    /// Which one.
    pub pod: PodRef,
    /// What the request must carry.
    pub precondition: Precondition,
    /// How.
    pub means: RemovalMeans,
}

/// How a virtual pod is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemovalMeans {
    /// By the Eviction API. Its refusal (429) is remembered.
    Eviction,
    /// By DELETE, with the grace of the pod.
    Delete,
}

impl PodRemoval {
    /// Of this pod; `None` where its UID or version is not known, so that no request can be made that meets no other.
    pub(super) fn of(pod: &LentPod, means: RemovalMeans) -> Option<Self> {
        let precondition = Precondition::of(&pod.pod.uid, &pod.version)?;
        Some(Self { pod: pod.pod.clone(), precondition, means })
    }
}

impl NodeOrder {
    /// Whether it is a request that changes what is stored: then there is more to decide afterwards.
    #[must_use]
    pub fn is_write(&self) -> bool {
        !matches!(self, Self::Ask(_) | Self::StopLease(_))
    }

    /// Whether it changes the claim on the physical node, and not the label of the policy alone.
    #[must_use]
    pub fn moves_claim(&self) -> bool {
        match self {
            Self::PatchPhysical { body, .. } | Self::ReleasePhysical { body } => {
                body.pointer("/metadata/annotations").is_some_and(|all| all.get(keys::LEASED_BY).is_some())
            }
            Self::Ask(_)
            | Self::Create { .. }
            | Self::PatchStatus { .. }
            | Self::PatchSpec { .. }
            | Self::RemovePods(_)
            | Self::StopLease(_)
            | Self::Delete { .. }
            | Self::RemoveFinalizer { .. } => false,
        }
    }

    /// Whether the orders behind it are carried out although it failed.
    #[must_use]
    pub fn may_fail(&self) -> bool {
        matches!(self, Self::ReleasePhysical { .. })
    }
}

impl fmt::Display for NodeOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask(question) => question.fmt(f),
            Self::PatchPhysical { .. } if !self.moves_claim() => {
                f.write_str("change the label of the policy on the physical node")
            }
            Self::PatchPhysical { .. } => f.write_str("claim the physical node"),
            Self::Create { name, .. } => write!(f, "create node {name}"),
            Self::PatchStatus { name, .. } => write!(f, "patch status of node {name}"),
            Self::PatchSpec { name, .. } => write!(f, "patch node {name}"),
            Self::RemovePods(pods) => {
                f.write_str("remove")?;
                for (index, removal) in pods.iter().enumerate() {
                    let means = match removal.means {
                        RemovalMeans::Eviction => "by eviction",
                        RemovalMeans::Delete => "by deletion",
                    };
                    write!(f, "{} pod {} {means}", if index == 0 { "" } else { "," }, removal.pod)?;
                }
                Ok(())
            }
            Self::StopLease(name) => write!(f, "stop the lease of node {name}"),
            Self::Delete { name, .. } => write!(f, "delete node {name}"),
            Self::RemoveFinalizer { name, .. } => write!(f, "remove the finalizer of node {name}"),
            Self::ReleasePhysical { .. } if !self.moves_claim() => {
                f.write_str("take the label of the policy off the physical node, which stays claimed")
            }
            Self::ReleasePhysical { .. } => f.write_str("release the physical node"),
        }
    }
}
