//! The conditions of a virtual pod (decision S16).
//!
//! `PodScheduled`, `DisruptionTarget` and the readiness gates of the virtual spec stay as the virtual side has them, and so
//! does each condition that only the virtual side has: users and controllers set them. The one exception are the types of
//! a kubelet: where the physical kubelet does not report one any more (a resize that has ended), the virtual pod does not
//! keep it. All other conditions are those of the physical pod, without observedGeneration, which counts generations of
//! another object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::json;

/// What a kubelet reports and takes back. Without `PodScheduled`, which a scheduler reports.
const KUBELET: [&str; 7] = [
    "AllContainersRestarting",
    "ContainersReady",
    "Initialized",
    "PodReadyToStartContainers",
    "PodResizeInProgress",
    "PodResizePending",
    "Ready",
];

/// The field that is the virtual side's.
const GENERATION: &str = "observedGeneration";

/// The whole list, and the types that differ from what the virtual pod has; if none does, the list is that of the virtual
/// pod.
pub(super) struct Merged {
    pub(super) wanted: Vec<Value>,
    pub(super) changed: Vec<String>,
}

pub(super) fn merge(physical: &Value, twin: &Value, spec: &Value) -> Merged {
    let gates: BTreeSet<&str> =
        json::list(spec, "readinessGates").iter().filter_map(|gate| gate.get("conditionType")?.as_str()).collect();
    let stays = |of: &str| matches!(of, "PodScheduled" | "DisruptionTarget") || gates.contains(of);

    let mut mirrored: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut order = Vec::new();
    for condition in json::list(physical, "conditions") {
        let Some(kind) = kind(condition).filter(|kind| !kind.is_empty() && !stays(kind)) else { continue };
        mirrored.entry(kind).or_insert_with(|| {
            order.push(kind);
            condition
        });
    }

    let mut merged = Merged { wanted: Vec::new(), changed: Vec::new() };
    let mut seen = BTreeSet::new();
    for condition in json::list(twin, "conditions") {
        let kind = kind(condition).unwrap_or_default();
        let physical = mirrored.get(kind);
        if !seen.insert(kind) || (physical.is_none() && KUBELET.contains(&kind)) {
            merged.changed.push(kind.to_owned());
            continue;
        }
        match physical {
            Some(physical) if !json::same_but(physical, condition, GENERATION) => {
                merged.wanted.push(without_generation(physical));
                merged.changed.push(kind.to_owned());
            }
            _ => merged.wanted.push(condition.clone()),
        }
    }
    for kind in order.into_iter().filter(|kind| !seen.contains(kind)) {
        merged.wanted.extend(mirrored.get(kind).map(|condition| without_generation(condition)));
        merged.changed.push(kind.to_owned());
    }
    merged
}

fn kind(condition: &Value) -> Option<&str> {
    condition.get("type").and_then(Value::as_str)
}

fn without_generation(condition: &Value) -> Value {
    let mut condition = condition.clone();
    if let Some(members) = condition.as_object_mut() {
        members.remove(GENERATION);
    }
    condition
}
