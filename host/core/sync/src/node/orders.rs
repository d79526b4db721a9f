//! What the controller has to do for a node, as requests that it can send as they are.

use std::fmt;

use serde_json::Value;

use super::{LentPod, PhysicalNode, Question};
use crate::deletion::LONGEST_GRACE;
use crate::keys;
use crate::precondition::Precondition;
use crate::reclaim::PodRef;
use crate::taints::Effect;
use crate::texts::Keyed;
use topoloom_core::names::NodeName;
use topoloom_core::version::ResourceVersion;

/// One thing to do. All patches are JSON merge patches.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeOrder {
    /// Read something live, and decide again with the answer.
    Ask(Question),
    /// Patch the physical node: the claim and the label of the policy, or one of the two.
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
    /// Patch `status` of the virtual node, with its metadata. Also metadata alone.
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
    /// Patch `spec` of the virtual node, with its metadata; behind a patch of its status, with what of the metadata belongs to
    /// the spec.
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

/// What of a physical node a request of ours changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhysicalChange<'a> {
    /// The claim, and the label of the policy where that differs, too.
    Claim,
    /// The label alone; nothing: it is taken off.
    Label(Option<&'a str>),
}

impl<'a> PhysicalChange<'a> {
    /// Of this patch.
    fn of(body: &'a Value) -> Self {
        let part = |map: &str, key: &str| body.get("metadata")?.get(map)?.get(key);
        match part("annotations", keys::LEASED_BY) {
            Some(_) => Self::Claim,
            None => Self::Label(part("labels", keys::POLICY_APPLIED).and_then(Value::as_str)),
        }
    }
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
    /// By DELETE, with [`LONGEST_GRACE`]: it is being deleted already, and has more time than that.
    Shorten,
}

impl RemovalMeans {
    /// The `gracePeriodSeconds` of the request; `None`: that of the pod.
    #[must_use]
    pub fn grace(self) -> Option<u32> {
        match self {
            Self::Eviction | Self::Delete => None,
            Self::Shorten => u32::try_from(LONGEST_GRACE.as_secs()).ok(),
        }
    }
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

    /// What it changes of the physical node; nothing where it is about something else.
    #[must_use]
    pub fn physical_change(&self) -> Option<PhysicalChange<'_>> {
        match self {
            Self::PatchPhysical { body, .. } | Self::ReleasePhysical { body } => Some(PhysicalChange::of(body)),
            Self::Ask(_)
            | Self::Create { .. }
            | Self::PatchStatus { .. }
            | Self::PatchSpec { .. }
            | Self::RemovePods(_)
            | Self::StopLease(_)
            | Self::Delete { .. }
            | Self::RemoveFinalizer { .. } => None,
        }
    }

    /// Whether it writes the taint that evicts the pods of a node whose windows are closed: the act that the guard is asked for.
    #[must_use]
    pub fn is_no_execute(&self) -> bool {
        let Self::PatchSpec { body, .. } = self else { return false };
        let has = |taint: &Value, field: &str, word: &str| taint.get(field).and_then(Value::as_str) == Some(word);
        let taints = body.pointer("/spec/taints").and_then(Value::as_array);
        taints.into_iter().flatten().any(|taint| {
            has(taint, "key", keys::OUT_OF_WINDOWS_TAINT) && has(taint, "effect", Effect::NoExecute.word())
        })
    }

    /// Whether a physical node has the claim that this writes; also where it writes none.
    #[must_use]
    pub fn is_claimed_in(&self, node: &PhysicalNode) -> bool {
        let Self::PatchPhysical { body, .. } = self else { return true };
        let wanted = body.pointer("/metadata/annotations").and_then(|annotations| annotations.get(keys::LEASED_BY));
        let there = node.annotations.text(keys::LEASED_BY);
        wanted.is_none_or(|wanted| wanted.as_str() == there)
    }

    /// The same made from this version, where it waits for the answer to the request before it.
    pub(super) fn judged_in(self, version: &ResourceVersion) -> Self {
        match self {
            Self::PatchSpec { name, version: None, mut body } => {
                if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
                    metadata.insert("resourceVersion".to_owned(), (**version).into());
                }
                Self::PatchSpec { name, version: Some(version.clone()), body }
            }
            other => other,
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
            Self::PatchPhysical { body, .. } => match PhysicalChange::of(body) {
                PhysicalChange::Claim => f.write_str("claim the physical node"),
                PhysicalChange::Label(label) => write_label(f, label),
            },
            Self::Create { name, .. } => write!(f, "create node {name}"),
            Self::PatchStatus { name, .. } => write!(f, "patch status of node {name}"),
            Self::PatchSpec { name, .. } => write!(f, "patch node {name}"),
            Self::RemovePods(pods) => {
                f.write_str("remove")?;
                for (index, removal) in pods.iter().enumerate() {
                    let means = match removal.means {
                        RemovalMeans::Eviction => "by eviction",
                        RemovalMeans::Delete => "by deletion",
                        RemovalMeans::Shorten => "within an hour",
                    };
                    write!(f, "{} pod {} {means}", if index == 0 { "" } else { "," }, removal.pod)?;
                }
                Ok(())
            }
            Self::StopLease(name) => write!(f, "stop the lease of node {name}"),
            Self::Delete { name, .. } => write!(f, "delete node {name}"),
            Self::RemoveFinalizer { name, .. } => write!(f, "remove the finalizer of node {name}"),
            Self::ReleasePhysical { body } => match PhysicalChange::of(body) {
                PhysicalChange::Claim => f.write_str("release the physical node"),
                PhysicalChange::Label(label) => write_label(f, label),
            },
        }
    }
}

fn write_label(f: &mut fmt::Formatter<'_>, label: Option<&str>) -> fmt::Result {
    match label {
        Some(policy) => write!(f, "label the physical node with the policy {policy}"),
        None => f.write_str("remove the label of a policy from the physical node, and leave its claim as it is"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn s7_a_patch_of_the_label_alone_is_not_called_a_claim_or_a_release() {
        let claims =
            |metadata: Value| NodeOrder::PatchPhysical { version: "7".into(), body: json!({"metadata": metadata}) };
        let releases = |metadata: Value| NodeOrder::ReleasePhysical { body: json!({"metadata": metadata}) };
        let (claim, none) = (json!({keys::LEASED_BY: "vc/b"}), json!({keys::LEASED_BY: null}));
        let (label, no_label) = (json!({keys::POLICY_APPLIED: "nights"}), json!({keys::POLICY_APPLIED: null}));
        let taken_off = "remove the label of a policy from the physical node, and leave its claim as it is";
        for (order, said, is_claim) in [
            (claims(json!({"annotations": claim, "labels": label})), "claim the physical node", true),
            (claims(json!({"annotations": claim})), "claim the physical node", true),
            (claims(json!({"labels": label})), "label the physical node with the policy nights", false),
            (claims(json!({"labels": no_label})), taken_off, false),
            (releases(json!({"annotations": none, "labels": no_label})), "release the physical node", true),
            (releases(json!({"labels": no_label})), taken_off, false),
        ] {
            assert_eq!(order.to_string(), said);
            assert_eq!(order.physical_change() == Some(PhysicalChange::Claim), is_claim, "{said}");
        }
        assert_eq!(NodeOrder::StopLease("n".into()).physical_change(), None);
    }

    #[test]
    fn s9_of_all_patches_only_that_of_the_taint_of_closed_windows_to_no_execute_is_what_the_guard_is_asked_for() {
        let patches = |spec: Value| {
            let body = json!({"metadata": {"resourceVersion": "7"}, "spec": spec});
            NodeOrder::PatchSpec { name: "n".into(), version: Some("7".into()), body }
        };
        let taint = |key: &str, effect: &str| json!({"key": key, "value": "true", "effect": effect});
        let (closed, lent) = (keys::OUT_OF_WINDOWS_TAINT, taint(keys::VNODE_TAINT, "NoSchedule"));
        for (spec, is_no_execute) in [
            (json!({"taints": [lent, taint(closed, "NoExecute")]}), true),
            (json!({"taints": [lent, taint(closed, "NoSchedule")]}), false),
            (json!({"taints": [taint("gpu", "NoExecute")]}), false),
            (json!({"unschedulable": true}), false),
        ] {
            assert_eq!(patches(spec.clone()).is_no_execute(), is_no_execute, "{spec}");
        }
    }
}
