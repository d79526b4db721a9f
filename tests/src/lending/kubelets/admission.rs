//! Whether a kubelet takes a pod: amounts, host ports, taints that evict, and pressure. The words are those of the real
//! kubelet (`pkg/kubelet/lifecycle/predicate.go`, `pkg/kubelet/eviction`).
//!
//! Not looked at: node selectors and affinity, devices. The real kubelet refuses these, too.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSpec, Taint, Toleration};

use super::Pressure;
use super::amounts::{Amounts, PODS, is_sidecar, requested};

/// The address of a host port that is taken on all addresses.
const EVERYWHERE: &str = "0.0.0.0";

/// Why a pod is refused: `reason` and `message` of its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) reason: String,
    pub(super) message: String,
}

/// A port of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPort {
    address: String,
    protocol: String,
    number: i32,
}

impl HostPort {
    fn collides(&self, other: &Self) -> bool {
        let is_everywhere = self.address == EVERYWHERE || other.address == EVERYWHERE;
        self.number == other.number
            && self.protocol == other.protocol
            && (is_everywhere || self.address == other.address)
    }
}

/// The ports of its machine that a pod takes. Init containers that end take none.
pub(super) fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars = spec.init_containers.iter().flatten().filter(|container| is_sidecar(container));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let or = |text: &Option<String>, usual: &str| {
        text.clone().filter(|text| !text.is_empty()).unwrap_or_else(|| usual.to_owned())
    };
    let taken = ports.filter_map(|port| {
        let number = port.host_port.filter(|number| *number > 0)?;
        Some(HostPort { address: or(&port.host_ip, EVERYWHERE), protocol: or(&port.protocol, "TCP"), number })
    });
    taken.collect()
}

/// What a kubelet knows of its node when a pod arrives.
pub(super) struct Room<'a> {
    pub(super) allocatable: &'a Amounts,
    /// What the pods request that it has taken and that have not ended.
    pub(super) used: &'a Amounts,
    /// The host ports of the same pods.
    pub(super) ports: &'a [HostPort],
    pub(super) taints: &'a [Taint],
    pub(super) pressures: &'a BTreeSet<Pressure>,
}

impl Room<'_> {
    /// Takes a pod, or refuses it.
    pub(super) fn admit(&self, spec: &PodSpec) -> Result<(), Refusal> {
        self.no_pressure(spec)?;
        self.tolerated(spec)?;
        self.fits(&requested(spec))?;
        self.has_ports(&host_ports(spec))
    }

    fn has_ports(&self, wanted: &[HostPort]) -> Result<(), Refusal> {
        if !wanted.iter().any(|port| self.ports.iter().any(|taken| taken.collides(port))) {
            return Ok(());
        }
        let message =
            "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
        Err(Refusal { reason: "NodePorts".to_owned(), message: message.to_owned() })
    }

    fn fits(&self, wanted: &Amounts) -> Result<(), Refusal> {
        let first = [PODS, "cpu", "memory", "ephemeral-storage"];
        let others = wanted.keys().map(String::as_str).filter(|name| !first.contains(name));
        for name in first.into_iter().chain(others) {
            let amount = |list: &Amounts| list.get(name).copied().unwrap_or_default();
            // An extended resource that no device plugin has registered is another program's matter.
            let is_known = self.allocatable.contains_key(name) || !name.contains('/');
            let (wanted, used, capacity) = (amount(wanted), amount(self.used), amount(self.allocatable));
            if is_known && wanted > 0 && used + wanted > capacity {
                let shown = |milli: i128| if name == "cpu" { milli } else { milli / 1000 };
                let message = format!(
                    "Pod was rejected: Node didn't have enough resource: {name}, requested: {}, used: {}, capacity: {}",
                    shown(wanted),
                    shown(used),
                    shown(capacity)
                );
                return Err(Refusal { reason: format!("OutOf{name}"), message });
            }
        }
        Ok(())
    }

    fn tolerated(&self, spec: &PodSpec) -> Result<(), Refusal> {
        let tolerations = spec.tolerations.as_deref().unwrap_or_default();
        let is_tolerated = |taint: &Taint| tolerations.iter().any(|toleration| tolerates(toleration, taint));
        if self.taints.iter().filter(|taint| taint.effect == "NoExecute").all(is_tolerated) {
            return Ok(());
        }
        let message =
            "Pod was rejected: Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
        Err(Refusal { reason: "TaintToleration".to_owned(), message: message.to_owned() })
    }

    fn no_pressure(&self, spec: &PodSpec) -> Result<(), Refusal> {
        let keeps_out = |pressure: &&Pressure| match pressure {
            // Pods that request some memory are still taken.
            Pressure::Memory => is_best_effort(spec),
            Pressure::Disk | Pressure::Pids => true,
        };
        match self.pressures.iter().find(keeps_out) {
            None => Ok(()),
            Some(pressure) => {
                let message = format!("Pod was rejected: The node had condition: [{}]. ", pressure.condition());
                Err(Refusal { reason: "Evicted".to_owned(), message })
            }
        }
    }
}

fn is_best_effort(spec: &PodSpec) -> bool {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    containers.filter_map(|container| container.resources.as_ref()).all(|resources| {
        let named = [&resources.requests, &resources.limits].into_iter().flatten().flat_map(|list| list.keys());
        named.filter(|name| *name == "cpu" || *name == "memory").count() == 0
    })
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let is =
        |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|text| text.is_empty() || text == found);
    let exists = toleration.operator.as_deref() == Some("Exists");
    let value = |text: &Option<String>| text.clone().unwrap_or_default();
    is(&toleration.effect, &taint.effect)
        && (is(&toleration.key, &taint.key))
        && (exists || value(&toleration.value) == value(&taint.value))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn amounts(list: &[(&str, i128)]) -> Amounts {
        list.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect()
    }

    fn requests(list: Value) -> PodSpec {
        serde_json::from_value(json!({"containers": [{"name": "c", "resources": {"requests": list}}]})).unwrap()
    }

    /// A node with this much, of which nothing is used.
    fn empty<'a>(allocatable: &'a Amounts, used: &'a Amounts, pressures: &'a BTreeSet<Pressure>) -> Room<'a> {
        Room { allocatable, used, ports: &[], taints: &[], pressures }
    }

    /// The reason of the refusal, or nothing.
    fn reason(used: &[(&str, i128)], spec: &PodSpec) -> String {
        let allocatable = amounts(&[("cpu", 4000), ("memory", 8000), ("pods", 2000), ("x.io/gpu", 1000)]);
        let (used, pressures) = (amounts(used), BTreeSet::new());
        let room = empty(&allocatable, &used, &pressures);
        room.admit(spec).err().map(|refusal| refusal.reason).unwrap_or_default()
    }

    #[test]
    fn a_pod_has_to_fit_into_what_is_left() {
        assert_eq!(reason(&[], &requests(json!({"cpu": "4", "memory": "8"}))), "");
        assert_eq!(reason(&[("cpu", 1)], &requests(json!({"cpu": "4"}))), "OutOfcpu");
        assert_eq!(reason(&[("cpu", 4000)], &requests(json!({"memory": "8"}))), "");
        assert_eq!(reason(&[], &requests(json!({"memory": "9"}))), "OutOfmemory");
        assert_eq!(reason(&[], &requests(json!({"cpu": "9", "memory": "9"}))), "OutOfcpu");
        assert_eq!(reason(&[("pods", 2000)], &requests(json!({}))), "OutOfpods");
        assert_eq!(reason(&[], &requests(json!({"x.io/gpu": "2"}))), "OutOfx.io/gpu");
        assert_eq!(reason(&[], &requests(json!({"y.io/gpu": "2"}))), "", "no plugin has registered it");
        assert_eq!(reason(&[], &requests(json!({"hugepages-2Mi": "2Mi"}))), "OutOfhugepages-2Mi");
    }

    #[test]
    fn the_message_has_the_numbers() {
        let (allocatable, used) = (amounts(&[("pods", 2000), ("cpu", 4000)]), amounts(&[("cpu", 500)]));
        let pressures = BTreeSet::new();
        let room = empty(&allocatable, &used, &pressures);
        let message = room.admit(&requests(json!({"cpu": "3600m"}))).unwrap_err().message;
        assert!(message.ends_with("cpu, requested: 3600, used: 500, capacity: 4000"), "{message}");
    }

    #[test]
    fn a_host_port_is_taken_by_one_pod_at_a_time() {
        let spec = |ports: Value| -> PodSpec {
            serde_json::from_value(json!({"containers": [{"name": "c", "ports": ports}]})).unwrap()
        };
        let port = |port: Value| spec(json!([port]));
        let (allocatable, used, pressures) = (amounts(&[("pods", 9000)]), Amounts::new(), BTreeSet::new());
        let taken = host_ports(&spec(json!([
            {"containerPort": 80, "hostPort": 8080},
            {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
            {"containerPort": 90},
        ])));
        assert_eq!(taken.len(), 2);
        let reason = |spec: &PodSpec| {
            let room = Room { ports: &taken, ..empty(&allocatable, &used, &pressures) };
            room.admit(spec).err().map(|refusal| refusal.reason).unwrap_or_default()
        };
        for (wanted, refusal) in [
            (json!({"containerPort": 1, "hostPort": 8080}), "NodePorts"),
            (json!({"containerPort": 1, "hostPort": 8080, "hostIP": "10.0.0.9", "protocol": "TCP"}), "NodePorts"),
            (json!({"containerPort": 1, "hostPort": 8080, "protocol": "UDP"}), ""),
            (json!({"containerPort": 1, "hostPort": 8081}), ""),
            (json!({"containerPort": 8080}), ""),
            (json!({"containerPort": 1, "hostPort": 53, "protocol": "UDP"}), "NodePorts"),
            (json!({"containerPort": 1, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.2"}), ""),
        ] {
            assert_eq!(reason(&port(wanted.clone())), refusal, "{wanted}");
        }
        // A sidecar keeps its port, and an init container that ends has none.
        let init = |policy: Value| -> PodSpec {
            let init = json!({"name": "i", "restartPolicy": policy, "ports": [{"containerPort": 1, "hostPort": 8080}]});
            serde_json::from_value(json!({"containers": [], "initContainers": [init]})).unwrap()
        };
        assert_eq!((reason(&init(json!("Always"))), reason(&init(Value::Null))), ("NodePorts".into(), String::new()));
    }

    #[test]
    fn a_taint_that_evicts_has_to_be_tolerated() {
        let taint = |effect: &str| Taint {
            key: "k".into(),
            value: Some("v".into()),
            effect: effect.into(),
            ..Taint::default()
        };
        let admits = |effect: &str, tolerations: Value| {
            let spec = json!({"containers": [], "tolerations": tolerations});
            let (allocatable, used) = (amounts(&[("pods", 1000)]), Amounts::new());
            let (taints, pressures) = ([taint(effect)], BTreeSet::new());
            let room = Room { taints: &taints, ..empty(&allocatable, &used, &pressures) };
            room.admit(&serde_json::from_value(spec).unwrap()).is_ok()
        };
        assert!(admits("NoSchedule", json!([])));
        assert!(!admits("NoExecute", json!([])));
        assert!(admits("NoExecute", json!([{"operator": "Exists"}])));
        assert!(admits("NoExecute", json!([{"key": "k", "value": "v", "effect": "NoExecute"}])));
        assert!(admits("NoExecute", json!([{"key": "k", "operator": "Exists"}])));
        assert!(!admits("NoExecute", json!([{"key": "k", "value": "w"}, {"key": "l", "operator": "Exists"}])));
        assert!(!admits("NoExecute", json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}])));
    }

    #[test]
    fn under_pressure_fewer_pods_are_taken() {
        let admits = |pressure, requests_of: Value| {
            let (allocatable, used) = (amounts(&[("pods", 1000), ("memory", 8000)]), Amounts::new());
            let pressures = BTreeSet::from([pressure]);
            empty(&allocatable, &used, &pressures).admit(&requests(requests_of)).is_ok()
        };
        assert!(!admits(Pressure::Memory, json!({})));
        assert!(admits(Pressure::Memory, json!({"memory": "1"})));
        assert!(!admits(Pressure::Disk, json!({"memory": "1"})));
    }
}
