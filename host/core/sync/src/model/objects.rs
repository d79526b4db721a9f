//! What the two API servers store, in the forms in which production's rooms take it.

use super::*;
use crate::deletion::{Existence, PodClass, RefusedEviction};
use crate::node::LentPod;
use crate::pods::finish::EndingPod;
use crate::pods::{PhysicalPod, VirtualPod};
use crate::reclaim::PodRef;
use crate::taints::Toleration;

/// Labels or annotations.
pub(super) type Keys = BTreeMap<String, String>;

/// A pod of either cluster.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: Uid,
    pub(super) version: u64,
    pub(super) labels: Keys,
    pub(super) annotations: Keys,
    /// The node that it is bound to.
    pub(super) node: String,
    pub(super) phase: Phase,
    /// Its deletionTimestamp.
    pub(super) deletion: Option<Timestamp>,
    /// Its deletionGracePeriodSeconds.
    pub(super) grace: Option<i64>,
    /// How many cores it requests.
    pub(super) cpu: u32,
    /// No field of the object: the binding whose virtual node it was bound to.
    pub(super) bound_by: Option<usize>,
}

/// A policy with its status.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredPolicy {
    pub(super) object: PolicyObject,
    pub(super) status: PolicyStatus,
    pub(super) version: u64,
}

impl Pod {
    /// How the maps of pods are keyed.
    pub(super) fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }

    pub(super) fn requests(&self) -> ResourceList {
        cores(self.cpu)
    }

    pub(super) fn physical(&self) -> PhysicalPod {
        PhysicalPod {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            version: self.resource_version(),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            deleting: self.deletion.is_some(),
        }
    }

    pub(super) fn twin(&self) -> VirtualPod {
        VirtualPod {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            annotations: self.annotations.clone(),
        }
    }

    pub(super) fn side(&self) -> PodSide<'_> {
        PodSide { namespace: &self.namespace, name: &self.name, uid: &self.uid, annotations: &self.annotations }
    }

    /// Its class as a virtual pod.
    pub(super) fn class(&self) -> PodClass {
        if self.is_of(DAEMON) { PodClass::DaemonSet } else { PodClass::Ordinary }
    }

    /// Whether it is the virtual pod of a slot.
    fn is_of(&self, slot: usize) -> bool {
        self.name == pods::twin_name(slot)
    }

    /// As the pod of a virtual node. `existence` is what the process knows of it.
    pub(super) fn lent(&self, existence: Existence, refused: Option<RefusedEviction>) -> LentPod {
        let tolerates = Toleration {
            key: keys::OUT_OF_WINDOWS_TAINT.to_owned(),
            operator: "Exists".into(),
            seconds: i64::try_from(TOLERATED.as_secs()).ok(),
            ..Toleration::default()
        };
        LentPod {
            pod: PodRef { namespace: self.namespace.clone(), name: self.name.clone(), uid: self.uid.clone() },
            version: self.resource_version(),
            class: self.class(),
            phase: self.phase,
            existence,
            tolerations: if self.is_of(TOLERANT) { vec![tolerates] } else { Vec::new() },
            refused,
            grace: self.grace.and_then(|grace| u64::try_from(grace).ok()).map(Duration::from_secs),
        }
    }

    pub(super) fn ending(&self) -> EndingPod {
        EndingPod {
            uid: self.uid.clone(),
            version: self.resource_version(),
            phase: Some(self.phase),
            annotations: self.annotations.clone(),
            deletion: self.deletion,
            grace: self.grace,
        }
    }

    pub(super) fn resource_version(&self) -> ResourceVersion {
        self.version.to_string().into()
    }
}

/// How the maps of pods are keyed.
pub(super) fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// So many cores.
pub(super) fn cores(count: u32) -> ResourceList {
    let text = count.to_string();
    resources::read_list([(CPU, text.as_str())]).unwrap()
}

/// Whether a pod is of a binding, by its labels: also of one that had its name, since that one is gone.
pub(super) fn is_ours(labels: &Keys, us: &Identity) -> bool {
    match Ownership::of(labels, us) {
        Ownership::Ours | Ownership::OursOfEarlierBinding(_) => true,
        Ownership::Foreign(_) | Ownership::None => false,
    }
}

/// The labels of a node.
pub(super) fn labels_of(node: &Value) -> Keys {
    map_of(&node["metadata"]["labels"])
}

fn map_of(value: &Value) -> Keys {
    let text = |(key, value): (&String, &Value)| (key.clone(), value.as_str().unwrap_or_default().to_owned());
    value.as_object().into_iter().flatten().map(text).collect()
}

/// An annotation of a node.
pub(super) fn annotation<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node["metadata"]["annotations"][key].as_str()
}

/// The taints of a node with this key.
pub(super) fn taints_of<'a>(node: &'a Value, key: &'a str) -> impl Iterator<Item = &'a Value> {
    node["spec"]["taints"].as_array().into_iter().flatten().filter(move |taint| taint["key"] == key)
}

/// Whether a virtual node is closed. That a user takes the taint off opens nothing.
pub(super) fn is_closed(node: &Value) -> bool {
    taints_of(node, keys::OUT_OF_WINDOWS_TAINT).next().is_some() || annotation(node, keys::RECLAIM_STARTED).is_some()
}

/// The status of its Ready condition.
pub(super) fn ready_of(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    ready.and_then(|ready| ready["status"].as_str()).unwrap_or_default()
}

/// The patch that gives the Ready condition of a node another status.
pub(super) fn with_ready(node: &Value, status: &str, reason: &str) -> Value {
    let mut conditions = node["status"]["conditions"].clone();
    for condition in conditions.as_array_mut().into_iter().flatten() {
        if condition["type"] == "Ready" {
            condition["status"] = status.into();
            condition["reason"] = reason.into();
        }
    }
    json!({"status": {"conditions": conditions}})
}

/// A virtual node that no syncer made. It carries our names, and the identity of another virtual cluster.
pub(super) fn look_alike(lent: &str, machine: &str) -> Value {
    json!({
        "metadata": {
            "name": lent,
            "labels": {
                keys::MANAGED_BY_LABEL: keys::MANAGED_BY,
                keys::VIRTUAL_CLUSTER: "vc-2",
                keys::BINDING: NAMES[EAST],
                keys::BINDING_UID: "b-9",
                keys::CLUSTER_BINDING: NAMES[EAST],
                keys::PHYSICAL_CLUSTER_ID: NAMES[EAST],
                keys::PHYSICAL_NODE_NAME: machine,
                "type": "virtual-kubelet",
            },
            "annotations": {keys::PHYSICAL_NODE_NAME: machine},
        },
        "spec": {},
        "status": {"allocatable": {"cpu": "1"}, "conditions": [{"type": "Ready", "status": "True", "reason": "Made"}]},
    })
}
