//! The bodies of requests about nodes (6.6, decision S12): only what changes, what goes as an explicit null, and the
//! resourceVersion that it was computed from.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::facts::{KubeletEndpoint, LentNode};
use crate::conditions::NodeCondition;
use crate::keys;
use crate::merge::{Cordon, MetadataPatch, Wanted, encode};
use crate::resources::ResourceList;
use crate::taints::Taint;
use crate::texts::Document;
use topoloom_core::address::place;
use topoloom_core::names::NodeName;
use topoloom_core::version::ResourceVersion;

/// The status that a virtual node should have.
pub(super) struct Status<'a> {
    /// Its capacity and its allocatable.
    pub(super) size: &'a ResourceList,
    /// All its conditions; empty where they do not change.
    pub(super) conditions: &'a [NodeCondition],
    /// `status.addresses`.
    pub(super) addresses: &'a Value,
    /// The port of the kubelet's API.
    pub(super) port: Option<u16>,
    /// `status.nodeInfo`.
    pub(super) info: &'a Document,
}

/// The addresses of a virtual node: one InternalIP and no Hostname, which an API server would prefer and cannot resolve
/// (decision S26). Without an endpoint it is that of the machine, where it may be shown.
pub(super) fn addresses(endpoint: Option<&KubeletEndpoint>, physical: Option<&str>) -> Value {
    let of_machine = physical.filter(|address| may_be_shown(address));
    let address = endpoint.map(|endpoint| endpoint.address.as_str()).or(of_machine);
    Value::from_iter(address.map(|address| json!({"type": "InternalIP", "address": address})))
}

/// Whether clients of the virtual cluster may learn this address of a machine. The lender writes it, and monitoring sends a token
/// to the address of each node. So it is never a name, which a resolver would decide, nor what leads such a client to its own
/// machine or to a metadata service.
fn may_be_shown(address: &str) -> bool {
    address.parse::<IpAddr>().is_ok_and(|address| place(address).is_in_a_network())
}

/// The object of a new virtual node.
pub(super) fn create(name: &NodeName, wanted: &Wanted, status: &Status<'_>) -> Value {
    let mut annotations = wanted.annotations.clone();
    annotations.insert(keys::EXPECTED_METADATA.to_owned(), encode(wanted));
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": &**name,
            "labels": wanted.labels,
            "annotations": annotations,
            "finalizers": [keys::VNODE_FINALIZER],
        },
        "spec": {"taints": taints(&wanted.taints)},
        "status": {
            "capacity": amounts(status.size),
            "allocatable": amounts(status.size),
            "conditions": conditions(status.conditions),
            "addresses": status.addresses,
        },
    });
    let port = status.port.map(daemon_endpoints);
    let info = Some(status.info.value()).filter(Value::is_object);
    for (key, value) in [("daemonEndpoints", port), ("nodeInfo", info)] {
        if let (Some(value), Some(Value::Object(status))) = (value, object.get_mut("status")) {
            status.insert(key.to_owned(), value);
        }
    }
    object
}

/// What of the status changes; `None` where nothing does.
pub(super) fn status_changes(lent: &LentNode, wanted: &Status<'_>) -> Option<Map<String, Value>> {
    let mut changes = Map::new();
    let mut set = |key: &str, value: Value| changes.insert(key.to_owned(), value);
    if let Some(capacity) = difference(&lent.capacity, wanted.size) {
        set("capacity", capacity);
    }
    if let Some(allocatable) = difference(&lent.allocatable, wanted.size) {
        set("allocatable", allocatable);
    }
    if !wanted.conditions.is_empty() {
        set("conditions", conditions(wanted.conditions));
    }
    if lent.addresses.value() != *wanted.addresses {
        set("addresses", wanted.addresses.clone());
    }
    if let Some(port) = wanted.port.filter(|port| lent.port != Some(*port)) {
        set("daemonEndpoints", daemon_endpoints(port));
    }
    let info = (lent.info != *wanted.info).then(|| wanted.info.value()).filter(Value::is_object);
    if let Some(info) = info.and_then(|info| changed(&lent.info.value(), &info)) {
        set("nodeInfo", info);
    }
    (!changes.is_empty()).then_some(changes)
}

/// The conditions alone.
pub(super) fn conditions_only(all: &[NodeCondition]) -> Map<String, Value> {
    Map::from_iter([("conditions".to_owned(), conditions(all))])
}

/// The patch of a virtual node's status with its metadata.
pub(super) fn status_patch(
    lent: &LentNode,
    metadata: Option<&MetadataPatch>,
    riders: &BTreeMap<String, Option<String>>,
    status: Option<Map<String, Value>>,
) -> Value {
    let mut body = metadata_of(Some(&lent.version), metadata);
    if metadata.is_none() {
        annotate(&mut body, riders);
    }
    if lent.finalizer() == crate::deletion::Finalizer::Absent && lent.existence == crate::deletion::Existence::Alive {
        let all = lent.finalizers.iter().map(String::as_str).chain([keys::VNODE_FINALIZER]);
        body.insert("finalizers".to_owned(), Value::from_iter(all));
    }
    let mut patch = json!({"metadata": body});
    if let (Some(status), Value::Object(patch)) = (status, &mut patch) {
        patch.insert("status".to_owned(), Value::Object(status));
    }
    patch
}

/// The patch of a virtual node's spec with all metadata of the change, or with what [`MetadataPatch::in_two`] leaves for it.
pub(super) fn spec_patch(version: Option<&ResourceVersion>, change: &MetadataPatch) -> Value {
    let mut spec = Map::new();
    if let Some(all) = &change.taints {
        spec.insert("taints".to_owned(), taints(all));
    }
    if let Some(cordon) = change.cordon {
        spec.insert("unschedulable".to_owned(), (cordon == Cordon::Cordoned).into());
    }
    let mut patch = Map::from_iter([("metadata".to_owned(), Value::Object(metadata_of(version, Some(change))))]);
    if !spec.is_empty() {
        patch.insert("spec".to_owned(), Value::Object(spec));
    }
    Value::Object(patch)
}

/// The patch of all taints of a virtual node.
pub(super) fn taints_patch(version: Option<&ResourceVersion>, all: &[Taint]) -> Value {
    let mut change = MetadataPatch::default();
    change.taints = Some(all.to_vec());
    spec_patch(version, &change)
}

/// What is stored of all that is written here, in the same form.
pub(super) fn stored(lent: &LentNode) -> Map<String, Value> {
    let metadata = &lent.metadata;
    let parts = [
        (
            "metadata",
            json!({
                "labels": metadata.labels,
                "annotations": metadata.annotations,
                "finalizers": lent.finalizers,
            }),
        ),
        ("spec", json!({"taints": taints(&metadata.taints), "unschedulable": metadata.cordon == Cordon::Cordoned})),
        (
            "status",
            json!({
                "capacity": amounts(&lent.capacity),
                "allocatable": amounts(&lent.allocatable),
                "conditions": conditions(&lent.conditions),
                "addresses": lent.addresses.value(),
                "daemonEndpoints": lent.port.map(daemon_endpoints),
                "nodeInfo": lent.info.value(),
            }),
        ),
    ];
    parts.into_iter().map(|(part, fields)| (part.to_owned(), fields)).collect()
}

/// The patch that takes our finalizer off.
pub(super) fn without_finalizer(lent: &LentNode) -> Value {
    let others: Vec<&str> =
        lent.finalizers.iter().map(String::as_str).filter(|finalizer| *finalizer != keys::VNODE_FINALIZER).collect();
    json!({"metadata": {"resourceVersion": &*lent.version, "finalizers": others}})
}

/// The patch of a physical node. `label`: what [`keys::POLICY_APPLIED`] becomes, where it changes.
pub(super) fn claim(version: &ResourceVersion, claim: Option<String>, label: Option<Option<String>>) -> Value {
    let mut metadata = Map::from_iter([("resourceVersion".to_owned(), (**version).into())]);
    if let Some(claim) = claim {
        metadata.insert("annotations".to_owned(), json!({keys::LEASED_BY: claim}));
    }
    if let Some(label) = label {
        metadata.insert("labels".to_owned(), json!({keys::POLICY_APPLIED: label}));
    }
    json!({"metadata": metadata})
}

/// The patch that takes what is ours off a physical node.
pub(super) fn release(version: &ResourceVersion, also_claim: bool) -> Value {
    let mut metadata = Map::from_iter([("resourceVersion".to_owned(), (**version).into())]);
    metadata.insert("labels".to_owned(), json!({keys::POLICY_APPLIED: null}));
    if also_claim {
        metadata.insert("annotations".to_owned(), json!({keys::LEASED_BY: null}));
    }
    json!({"metadata": metadata})
}

fn metadata_of(version: Option<&ResourceVersion>, change: Option<&MetadataPatch>) -> Map<String, Value> {
    let mut metadata = Map::new();
    if let Some(version) = version {
        metadata.insert("resourceVersion".to_owned(), (**version).into());
    }
    if let Some(change) = change {
        if !change.labels.is_empty() {
            metadata.insert("labels".to_owned(), json!(change.labels));
        }
        annotate(&mut metadata, &change.annotations);
    }
    metadata
}

fn annotate(metadata: &mut Map<String, Value>, annotations: &BTreeMap<String, Option<String>>) {
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), json!(annotations));
    }
}

/// The amounts that change; those that go are null.
fn difference(there: &ResourceList, wanted: &ResourceList) -> Option<Value> {
    let set = wanted.iter().filter(|(name, amount)| there.get(&**name) != Some(amount));
    let mut changes: Map<String, Value> =
        set.map(|(name, amount)| (name.to_string(), amount.to_string().into())).collect();
    let gone = there.keys().filter(|name| !wanted.contains_key(&**name));
    changes.extend(gone.map(|name| (name.to_string(), Value::Null)));
    (!changes.is_empty()).then_some(Value::Object(changes))
}

/// What of a value changes, as a merge patch: members that go are null, and one that is null is absent.
fn changed(there: &Value, wanted: &Value) -> Option<Value> {
    let Value::Object(members) = wanted else { return (there != wanted).then(|| wanted.clone()) };
    let none = Map::new();
    let before = there.as_object().unwrap_or(&none);
    let of = |members: &Map<String, Value>, key: &str| members.get(key).cloned().unwrap_or_default();
    let keys: BTreeSet<&String> = before.keys().chain(members.keys()).collect();
    let change = |key: &String| Some((key.clone(), changed(&of(before, key), &of(members, key))?));
    let changes: Map<String, Value> = keys.into_iter().filter_map(change).collect();
    (!there.is_object() || !changes.is_empty()).then_some(Value::Object(changes))
}

fn amounts(list: &ResourceList) -> Value {
    Value::Object(list.iter().map(|(name, amount)| (name.to_string(), amount.to_string().into())).collect())
}

fn taints(all: &[Taint]) -> Value {
    let taint = |taint: &Taint| {
        let mut object = json!({"key": taint.key, "effect": taint.effect.word()});
        if let Value::Object(object) = &mut object {
            if !taint.value.is_empty() {
                object.insert("value".to_owned(), taint.value.as_str().into());
            }
            if let Some(time) = taint.time_added {
                object.insert("timeAdded".to_owned(), seconds(time).into());
            }
        }
        object
    };
    Value::from_iter(all.iter().map(taint))
}

fn conditions(all: &[NodeCondition]) -> Value {
    let condition = |condition: &NodeCondition| {
        let mut object = Map::new();
        let mut set = |key: &str, value: Value| object.insert(key.to_owned(), value);
        set("type", condition.kind.as_str().into());
        set("status", condition.status.word().into());
        for (key, text) in [("reason", &condition.reason), ("message", &condition.message)] {
            if !text.is_empty() {
                set(key, text.as_str().into());
            }
        }
        let times =
            [("lastHeartbeatTime", condition.last_heartbeat), ("lastTransitionTime", condition.last_transition)];
        for (key, time) in times {
            if let Some(time) = time {
                set(key, seconds(time).into());
            }
        }
        Value::Object(object)
    };
    Value::from_iter(all.iter().map(condition))
}

fn daemon_endpoints(port: u16) -> Value {
    json!({"kubeletEndpoint": {"Port": port}})
}

/// A time as the API server stores it.
fn seconds(time: jiff::Timestamp) -> String {
    format!("{time:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn internal(address: &str) -> Value {
        json!([{"type": "InternalIP", "address": address}])
    }

    #[test]
    fn s26_of_a_machine_only_an_address_in_a_network_is_shown() {
        for address in ["10.0.0.1", "192.168.7.1", "100.64.0.1", "8.8.8.8", "fd00::1", "2606:4700::1"] {
            assert_eq!(addresses(None, Some(address)), internal(address));
        }
        for refused in [
            "169.254.169.254",
            "100.100.100.200",
            "fd00:ec2::254",
            "127.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "169.254.1.1",
            "fe80::1",
            "fe80::1%eth0",
            "224.0.0.1",
            "0.0.0.0",
            "::",
            "255.255.255.255",
            "192.0.2.7",
            "2001:db8::1",
            "localhost",
            "metadata.google.internal",
            "10.0.0.1:80",
            "10.1",
            "0x7f.0.0.1",
            "",
        ] {
            assert_eq!(addresses(None, Some(refused)), json!([]), "{refused}");
        }
        assert_eq!(addresses(None, None), json!([]));
    }

    #[test]
    fn s26_the_address_of_the_endpoint_is_the_operators_and_comes_first() {
        let endpoint = KubeletEndpoint { address: "127.0.0.1".into(), port: 10_250 };
        assert_eq!(addresses(Some(&endpoint), Some("10.0.0.1")), internal("127.0.0.1"));
        assert_eq!(addresses(Some(&endpoint), Some("169.254.169.254")), internal("127.0.0.1"));
    }
}
