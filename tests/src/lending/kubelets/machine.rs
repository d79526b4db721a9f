//! One node as its kubelet sees it, and what the kubelet writes of it.
//!
//! What a node has is what its `status.allocatable` holds; where that is empty the kubelet fills it in. So a test changes the
//! size of a machine with one patch.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference, Time};
use kube::api::ObjectMeta;
use serde_json::{Value, json};

use super::amounts::{Amounts, amounts};
use super::{Health, Pressure};

/// The namespace of the leases of nodes.
pub(super) const LEASES: &str = "kube-node-lease";
/// A kubelet renews the lease four times in its duration.
const LEASE: SignedDuration = SignedDuration::from_secs(40);
const RENEWALS: i32 = 4;
/// The port of a kubelet.
const PORT: u16 = 10_250;
/// Into how many parts the first interval is divided.
const SPREAD: u32 = 16;
/// The same of the interval between two statuses, which is longer; a number without a divisor in common with it spreads machines that
/// follow one another.
const STATUS_SPREAD: u32 = 128;
const STATUS_STEP: u32 = 79;
/// How often the status is written although nothing has changed.
const STATUS: SignedDuration = SignedDuration::from_mins(5);

/// How a kubelet is, by order of the test. It outlives the Node object.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing {
    pub(super) health: Health,
    pub(super) pressures: BTreeSet<Pressure>,
    /// When it was ordered.
    pub(super) since: Option<Timestamp>,
}

pub(super) struct Machine {
    pub(super) name: Arc<str>,
    pub(super) uid: String,
    /// Its addresses, IPv4 first.
    pub(super) addresses: Vec<String>,
    /// Where it serves logs, if it does.
    streams: Option<u16>,
    pub(super) allocatable: Amounts,
    pub(super) taints: Vec<Taint>,
    /// Status and time of the conditions that the API server has.
    conditions: BTreeMap<String, (String, Option<Timestamp>)>,
    /// What the Node lacks.
    gaps: Gaps,
    born: Timestamp,
    /// Which part of the first interval passes before the second renewal.
    first: Option<f64>,
    /// The same before the second status.
    first_status: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Gaps {
    amounts: bool,
    addresses: bool,
    labels: bool,
}

/// Whether a Node is a virtual one, which has no kubelet.
pub(super) fn is_virtual(node: &Node) -> bool {
    let labels = node.metadata.labels.iter().flatten();
    labels.into_iter().any(|(key, value)| key == "type" && value == "virtual-kubelet")
}

impl Machine {
    /// The machine of a Node; without a status it has `usual`, and the addresses of this number.
    pub(super) fn new(node: &Node, number: u32, usual: &Amounts, now: Timestamp) -> Self {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let mut machine = Self {
            name: name.into(),
            uid: node.metadata.uid.clone().unwrap_or_default(),
            addresses: address(64, number),
            streams: None,
            allocatable: usual.clone(),
            taints: Vec::new(),
            conditions: BTreeMap::new(),
            gaps: Gaps::default(),
            born: now,
            first: Some(f64::from(number % SPREAD + 1) / f64::from(SPREAD)),
            first_status: Some(
                f64::from((number % STATUS_SPREAD * STATUS_STEP) % STATUS_SPREAD + 1) / f64::from(STATUS_SPREAD),
            ),
        };
        machine.see(node);
        machine
    }

    /// The Node as the API server has it now.
    pub(super) fn see(&mut self, node: &Node) {
        let status = node.status.clone().unwrap_or_default();
        let found = amounts(status.allocatable.as_ref());
        let internal = status.addresses.iter().flatten().filter(|address| address.type_ == "InternalIP");
        let internal: Vec<String> = internal.map(|address| address.address.clone()).collect();
        let labels = node.metadata.labels.as_ref();
        self.gaps = Gaps {
            amounts: found.is_empty(),
            addresses: internal.is_empty(),
            labels: labels.is_none_or(|labels| !labels.contains_key("kubernetes.io/hostname")),
        };
        if !found.is_empty() {
            self.allocatable = found;
        }
        if !internal.is_empty() {
            self.addresses = internal;
        }
        self.taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let time = |time: Option<Time>| time.map(|time| time.0);
        let conditions = status.conditions.unwrap_or_default().into_iter();
        self.conditions = conditions.map(|it| (it.type_, (it.status, time(it.last_transition_time)))).collect();
    }

    /// It serves logs on this port of this machine. Unless the Node has addresses, it gets a loopback one, and no host name: API
    /// servers would try to resolve that first.
    pub(super) fn serves_streams(&mut self, port: u16) {
        self.streams = Some(port);
        if self.gaps.addresses {
            for address in &mut self.addresses {
                if let Some(rest) = address.strip_prefix("10.") {
                    *address = format!("127.{rest}");
                }
            }
        }
    }

    /// Which part of the interval passes before the next renewal: not all of it the first time, so that machines that were
    /// made together do not renew together for ever.
    pub(super) fn part(&mut self) -> f64 {
        self.first.take().unwrap_or(1.0)
    }

    /// The same before the next status: thousands of machines that were made within seconds would all write it within seconds, every
    /// five minutes.
    pub(super) fn status_part(&mut self) -> f64 {
        self.first_status.take().unwrap_or(1.0)
    }

    /// Whether the API server has something else than this kubelet says.
    pub(super) fn differs(&self, standing: &Standing) -> bool {
        let has = |kind: &str, status: &str| self.conditions.get(kind).is_some_and(|(found, _)| found == status);
        self.gaps != Gaps::default()
            || !has("Ready", ready(standing).0)
            || Pressure::ALL.into_iter().any(|pressure| !has(pressure.condition(), under(standing, pressure)))
    }

    /// The patch of the status of the Node.
    pub(super) fn status(&self, standing: &Standing, usual: &Value, now: Timestamp) -> Value {
        let (status, reason, message) = ready(standing);
        let mut conditions = vec![self.condition("Ready", status, reason, message, standing, now)];
        conditions.extend(Pressure::ALL.into_iter().map(|pressure| {
            let (kind, status) = (pressure.condition(), under(standing, pressure));
            let reason = if status == "True" { pressure.reasons().1 } else { pressure.reasons().0 };
            self.condition(kind, status, reason, "", standing, now)
        }));
        let mut metadata = json!({"uid": self.uid});
        let mut status = json!({
            "conditions": conditions,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.streams.unwrap_or(PORT)}},
            "nodeInfo": {
                "machineID": &*self.name, "systemUUID": self.uid, "bootID": self.uid, "kernelVersion": "6.12.0",
                "osImage": "test", "containerRuntimeVersion": "test://1", "kubeletVersion": "v1.36.3",
                "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
            },
        });
        if self.gaps.amounts {
            (status["capacity"], status["allocatable"]) = (usual.clone(), usual.clone());
        }
        if self.gaps.addresses {
            let internal = self.addresses.iter().map(|ip| json!({"type": "InternalIP", "address": ip}));
            let host = self.streams.is_none().then(|| json!({"type": "Hostname", "address": &*self.name}));
            // As a kubelet says it: the list is merged by the type of an address otherwise, and here are two of one type.
            let whole = json!({"$patch": "replace"});
            status["addresses"] = internal.chain(host).chain([whole]).collect();
        }
        if self.gaps.labels {
            let name = &*self.name;
            metadata["labels"] =
                json!({"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
        }
        json!({"metadata": metadata, "status": status})
    }

    fn condition(
        &self,
        kind: &str,
        status: &str,
        reason: &str,
        message: &str,
        standing: &Standing,
        now: Timestamp,
    ) -> Value {
        let changed = match self.conditions.get(kind) {
            Some((found, Some(since))) if found == status => *since,
            Some(_) => now,
            None => standing.since.unwrap_or(self.born),
        };
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": Time(now), "lastTransitionTime": Time(changed),
        })
    }

    /// The lease, renewed now.
    pub(super) fn lease(&self, faster: i32, now: Timestamp) -> Lease {
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.name.to_string(),
            uid: self.uid.clone(),
            ..OwnerReference::default()
        };
        let seconds = i32::try_from((LEASE / faster).as_secs()).unwrap_or_default().max(1);
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name.to_string()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.name.to_string()),
                lease_duration_seconds: Some(seconds),
                renew_time: Some(MicroTime(now)),
                ..LeaseSpec::default()
            }),
        }
    }
}

/// How often the lease is renewed.
pub(super) fn renewal(faster: i32) -> SignedDuration {
    LEASE / RENEWALS / faster
}

/// How often the status is written.
pub(super) fn heartbeat(faster: i32) -> SignedDuration {
    STATUS / faster
}

/// The addresses of a number below 4 million, IPv4 first. Machines and pods have networks of their own.
pub(super) fn address(network: u8, number: u32) -> Vec<String> {
    let [_, b, c, d] = number.to_be_bytes();
    let [high, low] = [number >> 16, number & 0xffff].map(|half| u16::try_from(half).unwrap_or_default());
    let four = Ipv4Addr::new(10, network.wrapping_add(b), c, d);
    let six = Ipv6Addr::new(0xfd00, network.into(), 0, 0, 0, 0, high, low);
    vec![four.to_string(), six.to_string()]
}

fn ready(standing: &Standing) -> (&'static str, &'static str, &'static str) {
    match standing.health {
        Health::Ready | Health::Silent => ("True", "KubeletReady", "kubelet is posting ready status"),
        Health::NotReady => ("False", "KubeletNotReady", "container runtime is down"),
    }
}

fn under(standing: &Standing, pressure: Pressure) -> &'static str {
    if standing.pressures.contains(&pressure) { "True" } else { "False" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_785_564_600 + second).unwrap()
    }

    fn node(labels: Value, status: Value) -> Node {
        serde_json::from_value(json!({"metadata": {"name": "w1", "uid": "U1", "labels": labels}, "status": status}))
            .unwrap()
    }

    fn machine(node: &Node) -> Machine {
        Machine::new(node, 258, &Amounts::from([("cpu".to_owned(), 32_000)]), at(0))
    }

    fn standing(health: Health, pressures: &[Pressure]) -> Standing {
        Standing { health, pressures: pressures.iter().copied().collect(), since: Some(at(5)) }
    }

    /// Status and reason of a condition in a patch.
    fn condition(patch: &Value, kind: &str) -> (String, String) {
        let conditions = patch["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|condition| condition["type"] == kind).unwrap();
        let text = |key: &str| found[key].as_str().unwrap().to_owned();
        (text("status"), text("reason"))
    }

    #[test]
    fn a_virtual_node_has_no_kubelet() {
        assert!(is_virtual(&node(json!({"type": "virtual-kubelet"}), Value::Null)));
        assert!(!is_virtual(&node(json!({"type": "other"}), Value::Null)));
        assert!(!is_virtual(&node(Value::Null, Value::Null)));
    }

    #[test]
    fn an_empty_node_is_filled_in_and_a_full_one_is_obeyed() {
        let usual = json!({"cpu": "32"});
        let empty = machine(&node(Value::Null, Value::Null));
        let patch = empty.status(&Standing::default(), &usual, at(9));
        assert_eq!(patch["status"]["allocatable"], usual);
        assert_eq!(patch["status"]["addresses"][0]["address"], "10.64.1.2");
        assert_eq!(patch["metadata"]["labels"]["kubernetes.io/hostname"], "w1");
        assert_eq!(empty.allocatable.get("cpu"), Some(&32_000));

        let full = machine(&node(
            json!({"kubernetes.io/hostname": "w1"}),
            json!({"allocatable": {"cpu": "4"}, "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}]}),
        ));
        let patch = full.status(&Standing::default(), &usual, at(9));
        assert!(patch["status"].get("allocatable").is_none() && patch["status"].get("addresses").is_none());
        assert!(patch["metadata"].get("labels").is_none());
        assert_eq!(full.allocatable.get("cpu"), Some(&4000));
        assert_eq!(full.addresses, ["192.0.2.7"]);
    }

    #[test]
    fn a_machine_that_serves_logs_says_where_and_can_be_reached() {
        let mut machine = machine(&node(Value::Null, Value::Null));
        machine.serves_streams(4711);
        let patch = machine.status(&Standing::default(), &Value::Null, at(9));
        assert_eq!(patch["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], 4711);
        let addresses = json!([
            {"type": "InternalIP", "address": "127.64.1.2"}, {"type": "InternalIP", "address": "fd00:40::102"},
            {"$patch": "replace"},
        ]);
        assert_eq!(patch["status"]["addresses"], addresses);
        assert_eq!(machine.addresses[0], "127.64.1.2");
    }

    #[test]
    fn conditions_follow_the_order_of_the_test() {
        let machine = machine(&node(Value::Null, Value::Null));
        let patch = |standing: Standing| machine.status(&standing, &Value::Null, at(9));
        let is = |status: &str, reason: &str| (status.to_owned(), reason.to_owned());
        let ready = patch(Standing::default());
        assert_eq!(condition(&ready, "Ready"), is("True", "KubeletReady"));
        assert_eq!(condition(&ready, "MemoryPressure"), is("False", "KubeletHasSufficientMemory"));
        let bad = patch(standing(Health::NotReady, &[Pressure::Disk]));
        assert_eq!(condition(&bad, "Ready"), is("False", "KubeletNotReady"));
        assert_eq!(condition(&bad, "DiskPressure"), is("True", "KubeletHasDiskPressure"));
    }

    #[test]
    fn a_transition_keeps_its_time_until_the_next_one() {
        let since = |status: &str, health| {
            let conditions = json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-08-01T06:10:01Z"}]);
            let machine = machine(&node(Value::Null, json!({"conditions": conditions})));
            let patch = machine.status(&standing(health, &[]), &Value::Null, at(9));
            patch["status"]["conditions"][0]["lastTransitionTime"].as_str().unwrap().to_owned()
        };
        assert_eq!(since("True", Health::Ready), "2026-08-01T06:10:01Z");
        assert_eq!(since("Unknown", Health::Ready), "2026-08-01T06:10:09Z");
        assert_eq!(since("True", Health::NotReady), "2026-08-01T06:10:09Z");
    }

    #[test]
    fn only_what_this_kubelet_says_makes_a_difference() {
        let with = |ready: &str| {
            let kinds =
                [("Ready", ready), ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False")];
            let mut conditions: Vec<Value> =
                kinds.iter().map(|(kind, status)| json!({"type": kind, "status": status})).collect();
            conditions.push(json!({"type": "x.io/Other", "status": "True"}));
            let status = json!({
                "allocatable": {"cpu": "4"}, "conditions": conditions,
                "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
            });
            machine(&node(json!({"kubernetes.io/hostname": "w1"}), status))
        };
        assert!(!with("True").differs(&Standing::default()));
        assert!(with("Unknown").differs(&Standing::default()));
        assert!(with("True").differs(&standing(Health::NotReady, &[])));
        assert!(with("True").differs(&standing(Health::Ready, &[Pressure::Memory])));
        assert!(machine(&node(Value::Null, Value::Null)).differs(&Standing::default()));
    }

    #[test]
    fn times_are_those_of_a_kubelet_or_faster() {
        assert_eq!((renewal(1), heartbeat(1)), (SignedDuration::from_secs(10), SignedDuration::from_secs(300)));
        assert_eq!((renewal(100), heartbeat(100)), (SignedDuration::from_millis(100), SignedDuration::from_secs(3)));
        let machine = machine(&node(Value::Null, Value::Null));
        let seconds = |faster| machine.lease(faster, at(0)).spec.unwrap().lease_duration_seconds;
        assert_eq!((seconds(1), seconds(10), seconds(1000)), (Some(40), Some(4), Some(1)));
    }

    #[test]
    fn machines_that_are_made_together_renew_apart() {
        let node = node(Value::Null, Value::Null);
        let mut machines = (0..160).map(|number| Machine::new(&node, number, &Amounts::new(), at(0)));
        let parts: std::collections::BTreeSet<_> = machines.by_ref().map(|mut it| it.part().to_bits()).collect();
        assert_eq!(parts.len(), 16);
        let mut machine = machine(&node);
        let parts = [machine.part(), machine.part()];
        assert!(parts[0] > 0.0 && parts[0] < 1.0 && parts[1] >= 1.0, "{parts:?}");
    }

    #[test]
    fn machines_that_follow_one_another_write_their_status_apart() {
        let node = node(Value::Null, Value::Null);
        let parts = (0..256).map(|number| Machine::new(&node, number, &Amounts::new(), at(0)).status_part());
        let parts: Vec<f64> = parts.collect();
        let different: std::collections::BTreeSet<u64> = parts.iter().map(|part| part.to_bits()).collect();
        assert_eq!(different.len(), 128);
        assert!(parts.iter().all(|part| *part > 0.0 && *part <= 1.0), "{parts:?}");
        assert!(parts.windows(2).all(|two| (two[0] - two[1]).abs() > 0.3), "{parts:?}");
        let mut machine = machine(&node);
        let parts = [machine.status_part(), machine.status_part()];
        assert!(parts[0] < 1.0 && parts[1] >= 1.0, "{parts:?}");
    }

    #[test]
    fn no_two_have_one_address() {
        assert_eq!(address(64, 1), ["10.64.0.1", "fd00:40::1"]);
        let all = (0..70_000).flat_map(|number| address(128, number));
        let different: std::collections::HashSet<String> = all.collect();
        assert_eq!(different.len(), 140_000);
    }
}
