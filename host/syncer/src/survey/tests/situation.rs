//! Random situations: machines and their pods, and what a binding and its policies say before and after an edit.

use proptest::prelude::*;
use serde_json::{Value, json};
use topoloom_sync::keys;

/// What there is, and what is edited.
#[derive(Debug, Clone)]
pub(super) struct Situation {
    pub(super) machines: Vec<Machine>,
    pub(super) before: TermsKind,
    pub(super) after: TermsKind,
    /// Another process serves the binding after the edit.
    pub(super) is_restarted: bool,
}

/// A machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Machine {
    pub(super) pool: u8,
    pub(super) cpu: u8,
    pub(super) gpus: u8,
    /// 0: Ready is True, 1: False, 2: Unknown.
    pub(super) ready: u8,
    pub(super) is_cordoned: bool,
    /// Another virtual cluster claims it.
    pub(super) is_claimed: bool,
    /// A node of another has the name of its virtual one.
    pub(super) is_name_taken: bool,
    /// What pods of the lender request.
    pub(super) usage: u8,
    /// Lent pods on it.
    pub(super) pods: Vec<PodKind>,
}

/// A lent pod.
#[derive(Debug, Clone, Default)]
pub(super) struct PodKind {
    /// 0: not at all, 1: for ever, 2: for half a minute.
    pub(super) tolerates: u8,
    pub(super) is_of_daemon_set: bool,
    pub(super) has_ended: bool,
    /// So much more is requested by its physical pod.
    pub(super) excess: u8,
}

/// What a binding says, and its policies.
#[derive(Debug, Clone, Default)]
pub(super) struct TermsKind {
    /// 0: all nodes, 1: those of pool 0, 2: none.
    pub(super) selector: u8,
    pub(super) withdraws: bool,
    pub(super) has_no_taint: bool,
    pub(super) has_no_claims: bool,
    pub(super) has_no_evictions: bool,
    pub(super) has_no_limits: bool,
    /// 0: none, 1: all nodes, 2: the first one.
    pub(super) drains: u8,
    pub(super) is_paused: bool,
    pub(super) observes: bool,
    pub(super) policies: Vec<PolicyKind>,
}

/// A policy.
#[derive(Debug, Clone, Default)]
pub(super) struct PolicyKind {
    /// 0: all nodes, 1: those of pool 0, 2: those of pool 1.
    pub(super) pool: u8,
    pub(super) priority: u8,
    /// 0: always, 1: open until the evening, 2: closed since noon.
    pub(super) window: u8,
    /// 0: no limit.
    pub(super) percent: u8,
    pub(super) force: bool,
    pub(super) grace: u16,
    pub(super) evicts: bool,
    pub(super) is_invalid: bool,
    /// Its status announced the closing that is running.
    pub(super) is_announced: bool,
}

pub(super) fn situations() -> impl Strategy<Value = Situation> {
    let machines = prop::collection::vec(machine(), 1..5);
    (machines, terms(), terms(), any::<bool>()).prop_map(|(machines, mut before, after, is_restarted)| {
        // What was before is at rest when the edit comes: nothing of it is held or forbidden.
        before = TermsKind { drains: 0, is_paused: false, observes: false, has_no_limits: true, ..before };
        // What the guard of a running process allowed and still wants is in the status of its binding, and that is empty here. So a
        // plan asks again, as the next process does.
        let is_reclaiming = before.policies.iter().any(|policy| policy.window == 2 && policy.force);
        let is_restarted = is_restarted || is_reclaiming;
        Situation { machines, before, after, is_restarted }
    })
}

fn machine() -> impl Strategy<Value = Machine> {
    let rare = || prop::bool::weighted(0.1);
    let pods = prop::collection::vec(pod(), 0..4);
    (0..2_u8, 1..16_u8, 0..3_u8, 0..3_u8, (rare(), rare(), rare()), 0..4_u8, pods).prop_map(
        |(pool, cpu, gpus, ready, (is_cordoned, is_claimed, is_name_taken), usage, pods)| Machine {
            pool,
            cpu,
            gpus,
            ready,
            is_cordoned,
            is_claimed,
            is_name_taken,
            usage,
            pods,
        },
    )
}

fn pod() -> impl Strategy<Value = PodKind> {
    (0..3_u8, prop::bool::weighted(0.1), prop::bool::weighted(0.1), 0..2_u8).prop_map(
        |(tolerates, is_of_daemon_set, has_ended, excess)| PodKind { tolerates, is_of_daemon_set, has_ended, excess },
    )
}

fn terms() -> impl Strategy<Value = TermsKind> {
    let (often, rare) = (any::<bool>, || prop::bool::weighted(0.1));
    let policies = prop::collection::vec(policy(), 0..3);
    let flags = (often(), rare(), rare(), rare(), often());
    (
        prop::sample::select(vec![0_u8, 0, 1, 2]),
        flags,
        prop::sample::select(vec![0_u8, 0, 0, 1, 2]),
        rare(),
        rare(),
        policies,
    )
        .prop_map(|(selector, flags, drains, is_paused, observes, policies)| TermsKind {
            selector,
            withdraws: flags.0,
            has_no_taint: flags.1,
            has_no_claims: flags.2,
            has_no_evictions: flags.3,
            has_no_limits: flags.4,
            drains,
            is_paused,
            observes,
            policies,
        })
}

fn policy() -> impl Strategy<Value = PolicyKind> {
    let graces = prop::sample::select(vec![0_u16, 60, 600]);
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.15), any::<bool>());
    (0..3_u8, 0..2_u8, 0..3_u8, prop::sample::select(vec![0_u8, 30, 80]), graces, flags).prop_map(
        |(pool, priority, window, percent, grace, (force, evicts, is_invalid, is_announced))| PolicyKind {
            pool,
            priority,
            window,
            percent,
            force,
            grace,
            evicts,
            is_invalid,
            is_announced,
        },
    )
}

fn of_pool(pool: u8) -> Value {
    let requirement = json!({"key": "pool", "operator": "In", "values": [pool.to_string()]});
    json!({"nodeSelectorTerms": [{"matchExpressions": [requirement]}]})
}

impl TermsKind {
    /// The binding with its UID.
    pub(super) fn binding(&self) -> Value {
        let mut spec = json!({"clusterID": "east", "secretRef": {"name": "east"}, "mountNamespace": "lent"});
        match self.selector {
            0 => {}
            1 => spec["nodeSelector"] = of_pool(0),
            _ => spec["nodeSelector"] = of_pool(9),
        }
        if self.withdraws {
            spec["noPolicy"] = "Withdraw".into();
        }
        if self.has_no_claims {
            spec["physicalWrites"] = "none".into();
        }
        if self.has_no_limits {
            spec["safety"] = json!({"maxEvictPercent": 100, "maxNodesPercent": 100});
        }
        if self.observes {
            spec["mode"] = "observe".into();
        }
        spec["disableNodeDefaultTaint"] = self.has_no_taint.into();
        json!({"metadata": {"name": "east", "uid": "b1", "resourceVersion": "3", "generation": 1}, "spec": spec})
    }

    /// Its policies as they are stored.
    pub(super) fn stored_policies(&self) -> Vec<Value> {
        self.policies.iter().enumerate().map(|(index, policy)| policy.stored(index)).collect()
    }
}

impl PolicyKind {
    fn stored(&self, index: usize) -> Value {
        let mut spec = json!({
            "cluster": "east", "priority": self.priority, "forceReclaim": self.force,
            "gracefulReclaimPeriodSeconds": self.grace,
        });
        if self.pool > 0 {
            spec["nodeSelector"] = of_pool(self.pool - 1);
        }
        match self.window {
            0 => {}
            1 => spec["timeWindows"] = json!([{"start": "06:00", "end": "20:00"}]),
            _ => spec["timeWindows"] = json!([{"start": "20:00", "end": "11:59"}]),
        }
        if self.percent > 0 {
            spec["resourceLimits"] = json!([{"resource": "cpu", "percent": self.percent}]);
        }
        if self.evicts {
            spec["reclaimVia"] = "eviction".into();
        }
        if self.is_invalid {
            spec["timeZone"] = "Europe/Berln".into();
        }
        let mut status = json!({});
        if self.is_announced && self.window == 2 {
            status["lastClosing"] = json!({"at": "2026-08-03T12:00:00Z", "announcedSince": "2026-08-03T01:00:00Z"});
        }
        let metadata = json!({
            "name": format!("p{index}"), "uid": format!("policy-{index}"), "resourceVersion": "4", "generation": 1,
            "creationTimestamp": "2026-08-01T00:00:00Z",
        });
        json!({"metadata": metadata, "spec": spec, "status": status})
    }
}

impl Machine {
    /// The physical node.
    pub(super) fn node(&self, index: usize) -> Value {
        let mut annotations = json!({});
        if self.is_claimed {
            annotations[keys::LEASED_BY] = "another/b9".into();
        }
        let ready = ["True", "False", "Unknown"][usize::from(self.ready.min(2))];
        json!({
            "metadata": {
                "name": format!("w{index}"), "uid": format!("u{index}"), "annotations": annotations,
                "labels": {"pool": self.pool.to_string(), "rack": format!("r{}", index % 2)},
            },
            "spec": {"unschedulable": self.is_cordoned, "taints": [{"key": "lender", "value": "x", "effect": "PreferNoSchedule"}]},
            "status": {
                "allocatable": {
                    "cpu": self.cpu.to_string(), "memory": "16Gi", "pods": "110", "nvidia.com/gpu": self.gpus.to_string(),
                },
                "conditions": [{"type": "Ready", "status": ready, "reason": "Kubelet", "message": "m"}],
                "addresses": [{"type": "InternalIP", "address": format!("10.0.0.{index}")}],
                "nodeInfo": {"kubeletVersion": "v1.36.3"},
            },
        })
    }

    /// The pod of the lender on it.
    pub(super) fn own_pod(&self, index: usize) -> Option<Value> {
        (self.usage > 0).then(|| {
            json!({
                "metadata": {"namespace": "lender", "name": format!("own-w{index}"), "uid": format!("own-{index}")},
                "spec": {"nodeName": format!("w{index}"), "containers": [container(self.usage)]},
                "status": {"phase": "Running"},
            })
        })
    }
}

fn container(cpu: u8) -> Value {
    json!({"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu.to_string()}}})
}

impl PodKind {
    /// The virtual pod, and its physical one with these labels.
    pub(super) fn pair(&self, machine: usize, index: usize, labels: &Value) -> (Value, Value) {
        let (name, uid) = (format!("p-w{machine}-{index}"), format!("v-{machine}-{index}"));
        let twin = format!("t-{name}");
        let phase = if self.has_ended { "Succeeded" } else { "Running" };
        let mut tolerations = json!([]);
        if self.tolerates > 0 {
            let mut toleration =
                json!({"key": keys::OUT_OF_WINDOWS_TAINT, "operator": "Exists", "effect": "NoExecute"});
            if self.tolerates > 1 {
                toleration["tolerationSeconds"] = 30.into();
            }
            tolerations = json!([toleration]);
        }
        let mut metadata = json!({
            "namespace": "shop", "name": name, "uid": uid,
            "annotations": {keys::PHYSICAL_POD_NAMESPACE: "lent", keys::PHYSICAL_POD_NAME: twin},
        });
        if self.is_of_daemon_set {
            metadata["ownerReferences"] =
                json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]);
        }
        let spec = json!({
            "nodeName": format!("vnode-east-w{machine}"), "containers": [container(1)], "tolerations": tolerations,
        });
        let pod = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}});
        let annotations = json!({
            keys::VIRTUAL_POD_NAMESPACE: "shop", keys::VIRTUAL_POD_NAME: name, keys::VIRTUAL_POD_UID: uid,
        });
        let physical = json!({
            "metadata": {
                "namespace": "lent", "name": twin, "uid": twin, "labels": labels, "annotations": annotations,
            },
            "spec": {"nodeName": format!("w{machine}"), "containers": [container(1 + self.excess)]},
            "status": {"phase": phase},
        });
        (pod, physical)
    }
}
