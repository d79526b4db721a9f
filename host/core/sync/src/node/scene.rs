//! One node of each cluster for tests: what the API servers would keep, and what a controller would do with the orders.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::*;
use crate::bars::{Bar, Bars};
use crate::conditions::NodeCondition;
use crate::copied::{ANNOTATIONS_MAX, annotation_bytes};
use crate::deletion::{Existence, PodClass};
use crate::keys;
use crate::liveness::Reach;
use crate::merge::{Cordon, Metadata};
use crate::phase::Phase;
use crate::policy::examples;
use crate::policy::in_force::{Policies, Synced};
use crate::policy::object::PolicyObject;
use crate::reclaim::PodRef;
use crate::resources::{self, ResourceList, WrittenList};
use crate::taints::{Effect, Taint};
use crate::texts::TextMap;
use crate::truth::Truth;

/// Everything that a decision about the node `w1` follows from, with the API servers behind it.
pub(super) struct Scene {
    pub(super) binding: Binding,
    /// The physical node as its API server keeps it.
    pub(super) physical: Option<Value>,
    /// The virtual node as its API server keeps it.
    pub(super) lent: Option<Value>,
    pub(super) is_listed: bool,
    pub(super) live: LiveNode,
    pub(super) live_lent: LiveLent,
    /// The UID of the virtual node that its watch shows no more.
    pub(super) known: Option<Uid>,
    pub(super) pods_by: PodsBy,
    pub(super) bindings: Option<BTreeSet<Uid>>,
    pub(super) policies: Policies,
    pub(super) usage: ResourceList,
    pub(super) requested: ResourceList,
    pub(super) pods: Vec<LentPod>,
    pub(super) bars: Bars,
    pub(super) reach: Reach,
    pub(super) verb: VerbOnNode,
    pub(super) memory: Memory,
    pub(super) unstored: RefCell<Unstored>,
    /// What a webhook makes of each physical node that is written.
    pub(super) lender: fn(&mut Value),
    /// What a webhook, or a server that is older than a field, makes of each virtual node that is written.
    pub(super) borrower: fn(&mut Value),
    pub(super) leave: Leave,
    pub(super) now: Now,
    version: u64,
    /// What was sent, in words.
    pub(super) sent: Vec<String>,
}

pub(super) fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

pub(super) fn amounts(list: &[(&str, &str)]) -> ResourceList {
    resources::read_list(list.iter().copied()).unwrap()
}

impl Scene {
    pub(super) fn new() -> Self {
        let mut policies = Policies::new("vc-1");
        policies.set_synced(Synced::Yes);
        let wall = at("2026-08-03T12:00:00Z");
        Self {
            binding: super::examples::binding(),
            physical: Some(machine("w1", "u1")),
            lent: None,
            is_listed: true,
            live: LiveNode::Unasked,
            live_lent: LiveLent::Unasked,
            known: None,
            pods_by: PodsBy::Watch,
            bindings: None,
            policies,
            usage: ResourceList::new(),
            requested: ResourceList::new(),
            pods: Vec::new(),
            bars: Bars::default(),
            reach: Reach::Reachable,
            verb: VerbOnNode::None,
            memory: Memory::default(),
            unstored: RefCell::default(),
            lender: |_| {},
            borrower: |_| {},
            leave: Leave::Given { since: wall },
            now: Now { wall, steady: Duration::from_secs(1_000) },
            version: 100,
            sent: Vec::new(),
        }
    }

    /// With a node that is lent and at rest.
    pub(super) fn lent() -> Self {
        let mut scene = Self::new();
        scene.settle();
        scene.sent.clear();
        scene
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now.wall = self.now.wall.checked_add(time).unwrap();
        self.now.steady += time;
    }

    pub(super) fn policy(&mut self, edit: impl FnOnce(&mut PolicyObject)) {
        let mut object = examples::policy("night");
        edit(&mut object);
        self.policies.insert(crate::policy::object::Policy::new(object));
    }

    pub(super) fn bar(&mut self, bars: &[Bar]) {
        self.bars = bars.iter().copied().collect();
    }

    /// A pod on the virtual node.
    pub(super) fn pod(&mut self, name: &str) -> &mut LentPod {
        self.pods.push(LentPod {
            pod: PodRef { namespace: "team".into(), name: name.into(), uid: name.into() },
            version: "1".into(),
            class: PodClass::Ordinary,
            phase: Phase::Running,
            existence: Existence::Alive,
            tolerations: Vec::new(),
            refused: None,
            grace: None,
        });
        self.pods.last_mut().unwrap()
    }

    /// The orders, and what else is decided, with nothing carried out.
    pub(super) fn look<T>(&self, see: impl FnOnce(&Draft<'_>, NodeDecision<'_>) -> T) -> T {
        let physical = self.physical.as_ref().map(read_physical);
        let lent = self.lent.as_ref().map(read_lent);
        let facts = Facts {
            binding: &self.binding,
            name: "w1",
            physical: match &physical {
                _ if !self.is_listed => Physical::Unlisted,
                None => Physical::Absent,
                Some(physical) => Physical::Present(physical),
            },
            live: &self.live,
            lent: lent.as_ref(),
            live_lent: &self.live_lent,
            known: self.known.as_ref(),
            bindings: self.bindings.as_ref(),
            policies: &self.policies,
            usage: &self.usage,
            requested: &self.requested,
            pods: &self.pods,
            pods_by: self.pods_by,
            topology_keys: &BTreeSet::new(),
            bars: &self.bars,
            reach: self.reach,
            verb: self.verb,
            memory: &self.memory,
        };
        let mut decision = draft(&facts, self.now).conclude(self.leave);
        self.unstored.borrow_mut().sift(&facts, &mut decision, self.now.steady);
        see(&draft(&facts, self.now), decision)
    }

    /// What is ordered, in words.
    pub(super) fn ordered(&self) -> Vec<String> {
        self.look(|_, decision| decision.orders.iter().map(ToString::to_string).collect())
    }

    pub(super) fn state(&self) -> String {
        self.look(|_, decision| decision.state.to_string())
    }

    pub(super) fn lease(&self) -> Option<Lease> {
        self.look(|_, decision| decision.lease)
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.look(|_, decision| decision.next)
    }

    pub(super) fn acts(&self) -> Option<(Cause, Vec<Act>)> {
        self.look(|draft, _| draft.acts())
    }

    pub(super) fn details(&self) -> Details {
        self.look(|_, decision| *decision.details.unwrap())
    }

    /// What is left out because it is not stored, in words.
    pub(super) fn left_out(&self) -> Vec<String> {
        self.look(|_, decision| decision.left_out.iter().map(ToString::to_string).collect())
    }

    /// Decides and carries out until nothing is ordered. At most twenty times: a decision that never rests is a mistake.
    pub(super) fn settle(&mut self) {
        for _ in 0..20 {
            if !self.step() {
                return;
            }
        }
        panic!("it does not come to rest: {:#?}", self.sent);
    }

    /// One look, carried out. Whether anything was ordered.
    pub(super) fn step(&mut self) -> bool {
        let orders = self.look(|_, decision| decision.orders);
        let is_ordered = !orders.is_empty();
        for order in orders {
            self.carry(order.clone());
            self.answer(&order);
            // What is not claimed is not lent.
            let machine = self.physical.as_ref().map(read_physical);
            if machine.is_some_and(|machine| !order.is_claimed_in(&machine)) {
                break;
            }
        }
        is_ordered
    }

    /// The answer to an order.
    fn answer(&self, order: &NodeOrder) {
        let (physical, lent) = (self.physical.as_ref().map(read_physical), self.lent.as_ref().map(read_lent));
        let answer = match order.physical_change() {
            Some(_) => physical.as_ref().map(Answer::Physical),
            None => lent.as_ref().map(Answer::Lent),
        };
        if let Some(answer) = answer {
            self.unstored.borrow_mut().answered(order, answer, self.now.steady);
        }
    }

    fn carry(&mut self, order: NodeOrder) {
        self.sent.push(order.to_string());
        if order.is_write() {
            // What was read was read for the decision before.
            (self.live_lent, self.pods_by) = (LiveLent::Unasked, PodsBy::Watch);
        }
        match order {
            NodeOrder::Ask(Question::PhysicalNode) => {
                let uid = self.physical.as_ref().map(|node| node["metadata"]["uid"].as_str().unwrap().into());
                self.live = uid.map_or(LiveNode::Gone, LiveNode::Found);
            }
            NodeOrder::Ask(Question::Binding(_)) => self.bindings = Some(["b-1".into()].into()),
            NodeOrder::Ask(Question::LentNode) => {
                let found = self.lent.as_ref().map(|node| Arc::new(read_lent(node)));
                self.live_lent = found.map_or(LiveLent::Gone, LiveLent::Found);
            }
            NodeOrder::Ask(Question::PodsOfNode) => self.pods_by = PodsBy::List,
            NodeOrder::PatchPhysical { body, .. } | NodeOrder::ReleasePhysical { body } => {
                self.version += 1;
                patch_stored(self.physical.as_mut().unwrap(), &body, self.version, self.lender);
            }
            NodeOrder::Create { body, .. } => {
                assert!(self.lent.is_none());
                self.version += 1;
                let mut node = body;
                node["metadata"]["uid"] = format!("v{}", self.version).into();
                node["metadata"]["resourceVersion"] = self.version.to_string().into();
                (self.borrower)(&mut node);
                self.lent = Some(node);
            }
            NodeOrder::PatchStatus { body, .. } => {
                self.version += 1;
                // The server ignores the spec here.
                assert!(body.get("spec").is_none(), "{body}");
                patch_stored(self.lent.as_mut().unwrap(), &body, self.version, self.borrower);
                assert_room(self.lent.as_ref().unwrap());
            }
            NodeOrder::PatchSpec { mut body, version, .. } => {
                self.version += 1;
                let node = self.lent.as_mut().unwrap();
                if version.is_none() {
                    assert!(body["metadata"].get("resourceVersion").is_none(), "{body}");
                    body["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"].clone();
                }
                assert!(body.get("status").is_none(), "{body}");
                patch_stored(node, &body, self.version, self.borrower);
                assert_room(node);
            }
            NodeOrder::RemovePods(removals) => {
                self.pods.retain(|pod| !removals.iter().any(|removal| removal.pod == pod.pod));
            }
            NodeOrder::StopLease(_) => {}
            NodeOrder::Delete { precondition, .. } => {
                let node = self.lent.as_mut().unwrap();
                assert_eq!(node["metadata"]["uid"], **precondition.uid());
                assert_eq!(node["metadata"]["resourceVersion"], **precondition.version());
                self.version += 1;
                node["metadata"]["deletionTimestamp"] = self.now.wall.to_string().into();
                node["metadata"]["resourceVersion"] = self.version.to_string().into();
            }
            NodeOrder::RemoveFinalizer { body, .. } => {
                self.version += 1;
                patch_stored(self.lent.as_mut().unwrap(), &body, self.version, self.borrower);
                let is_free = self.lent.as_ref().unwrap()["metadata"]["finalizers"] == json!([]);
                if is_free {
                    self.lent = None;
                }
            }
        }
    }

    /// A change by another client.
    pub(super) fn edit_lent(&mut self, patch: Value) {
        self.version += 1;
        let version = self.version;
        let node = self.lent.as_mut().unwrap();
        apply(node, &patch);
        node["metadata"]["resourceVersion"] = version.to_string().into();
    }

    /// A change of the physical node.
    pub(super) fn edit_physical(&mut self, patch: Value) {
        self.version += 1;
        let version = self.version;
        let node = self.physical.as_mut().unwrap();
        apply(node, &patch);
        node["metadata"]["resourceVersion"] = version.to_string().into();
    }

    /// A field of the virtual node, by a JSON pointer.
    pub(super) fn of_lent(&self, pointer: &str) -> Value {
        self.lent.as_ref().and_then(|node| node.pointer(pointer)).cloned().unwrap_or_default()
    }

    /// An annotation of the virtual node.
    pub(super) fn annotation(&self, key: &str) -> Option<String> {
        let annotations = self.of_lent("/metadata/annotations");
        annotations.get(key).and_then(Value::as_str).map(str::to_owned)
    }

    /// The taints of the virtual node, as `kubectl taint` writes them.
    pub(super) fn taints(&self) -> Vec<String> {
        let node = self.lent.as_ref().map(read_lent).unwrap();
        node.metadata.taints.iter().map(ToString::to_string).collect()
    }

    /// An annotation of the physical node.
    pub(super) fn claim(&self) -> Value {
        self.physical.as_ref().unwrap()["metadata"]["annotations"][keys::LEASED_BY].clone()
    }
}

/// A machine with four processors.
pub(crate) fn machine(name: &str, uid: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": uid, "resourceVersion": "7",
            "labels": {"kubernetes.io/hostname": name, "pool": "gpu", "rack": "r1"},
            "annotations": {"vendor.io/serial": "4711"},
        },
        "spec": {},
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"},
            "capacity": {"cpu": "5", "memory": "17Gi", "pods": "110"},
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
                "lastHeartbeatTime": "2026-08-03T11:59:00Z", "lastTransitionTime": "2026-08-01T00:00:00Z",
            }],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3", "architecture": "amd64"},
        },
    })
}

/// A JSON merge patch, as an API server applies one: a version that is not the present one is refused. Where a webhook takes the
/// whole change out again, nothing is written, and the version stays.
fn patch_stored(node: &mut Value, patch: &Value, version: u64, webhook: fn(&mut Value)) {
    let judged = &patch["metadata"]["resourceVersion"];
    assert_eq!(*judged, node["metadata"]["resourceVersion"], "409: {patch}");
    let before = node.clone();
    apply(node, patch);
    node["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    assert_ne!(*node, before, "a write that changes nothing: {patch}");
    webhook(node);
    if *node != before {
        node["metadata"]["resourceVersion"] = version.to_string().into();
    }
}

/// An API server refuses an object with more annotations.
fn assert_room(node: &Value) {
    let bytes = annotation_bytes(&map::<TextMap>(&node["metadata"]["annotations"]));
    assert!(bytes <= ANNOTATIONS_MAX, "422: the annotations have {bytes} bytes");
}

pub(crate) fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            apply(&mut target[key.as_str()], value);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn map<M: FromIterator<(String, String)>>(value: &Value) -> M {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
}

fn list(value: &Value) -> ResourceList {
    let all: BTreeMap<String, String> = map(value);
    resources::read_list(all.iter().map(|(key, value)| (key.as_str(), value.as_str()))).unwrap()
}

fn written(value: &Value) -> Arc<WrittenList> {
    Arc::new(list(value).into())
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().map(|time| time.parse().unwrap())
}

fn existence(node: &Value) -> Existence {
    if node["metadata"]["deletionTimestamp"].is_string() { Existence::Terminating } else { Existence::Alive }
}

fn taints(node: &Value) -> Vec<Taint> {
    let taint = |taint: &Value| Taint {
        time_added: time(&taint["timeAdded"]),
        ..Taint::new(&text(&taint["key"]), &text(&taint["value"]), Effect::from(taint["effect"].as_str().unwrap()))
    };
    node["spec"]["taints"].as_array().into_iter().flatten().map(taint).collect()
}

fn conditions(node: &Value) -> Vec<NodeCondition> {
    let condition = |condition: &Value| NodeCondition {
        kind: text(&condition["type"]).into(),
        status: Truth::from(condition["status"].as_str().unwrap()),
        reason: text(&condition["reason"]).into(),
        message: text(&condition["message"]).into(),
        last_heartbeat: time(&condition["lastHeartbeatTime"]),
        last_transition: time(&condition["lastTransitionTime"]),
    };
    node["status"]["conditions"].as_array().into_iter().flatten().map(condition).collect()
}

pub(crate) fn read_physical(node: &Value) -> PhysicalNode {
    PhysicalNode {
        uid: text(&node["metadata"]["uid"]).into(),
        version: text(&node["metadata"]["resourceVersion"]).into(),
        existence: existence(node),
        labels: map(&node["metadata"]["labels"]),
        annotations: map(&node["metadata"]["annotations"]),
        taints: taints(node),
        conditions: conditions(node),
        allocatable: written(&node["status"]["allocatable"]),
        capacity: written(&node["status"]["capacity"]),
        internal_ip: node["status"]["addresses"][0]["address"].as_str().map(str::to_owned),
        info: node["status"]["nodeInfo"].clone().into(),
    }
}

pub(crate) fn read_lent(node: &Value) -> LentNode {
    let finalizers = node["metadata"]["finalizers"].as_array().into_iter().flatten().map(text).collect();
    LentNode {
        uid: text(&node["metadata"]["uid"]).into(),
        version: text(&node["metadata"]["resourceVersion"]).into(),
        existence: existence(node),
        finalizers,
        metadata: Metadata {
            labels: map(&node["metadata"]["labels"]),
            annotations: map(&node["metadata"]["annotations"]),
            taints: taints(node),
            cordon: if node["spec"]["unschedulable"] == json!(true) { Cordon::Cordoned } else { Cordon::Open },
        },
        conditions: conditions(node),
        allocatable: written(&node["status"]["allocatable"]),
        capacity: written(&node["status"]["capacity"]),
        addresses: node["status"].get("addresses").cloned().unwrap_or_else(|| json!([])).into(),
        port: node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64().map(|port| port as u16),
        info: node["status"]["nodeInfo"].clone().into(),
    }
}
