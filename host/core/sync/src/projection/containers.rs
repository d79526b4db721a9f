//! The statuses of the containers of a virtual pod (decision S16).
//!
//! Only containers of the virtual spec have one. A container that ended and never restarts keeps its end: a status that
//! takes it back is not copied, and the API server would refuse it. Whether a container can restart follows from the
//! virtual spec as the API server reads it: rules of the container, its own policy, that of the pod.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::json;

/// One of the three lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Containers,
    Init,
    Ephemeral,
}

impl List {
    pub(super) const ALL: [Self; 3] = [Self::Containers, Self::Init, Self::Ephemeral];

    /// The field of the status.
    pub(super) fn statuses(self) -> &'static str {
        match self {
            Self::Containers => "containerStatuses",
            Self::Init => "initContainerStatuses",
            Self::Ephemeral => "ephemeralContainerStatuses",
        }
    }

    /// The field of the spec.
    fn spec(self) -> &'static str {
        match self {
            Self::Containers => "containers",
            Self::Init => "initContainers",
            Self::Ephemeral => "ephemeralContainers",
        }
    }
}

/// The whole list, and the containers whose status differs from what the virtual pod has; if none does, the list is that of
/// the virtual pod.
pub(super) struct Merged {
    pub(super) wanted: Vec<Value>,
    pub(super) changed: Vec<String>,
}

pub(super) fn merge(list: List, physical: &Value, twin: &Value, spec: &Value) -> Merged {
    let containers: BTreeMap<&str, &Value> = named(json::list(spec, list.spec())).collect();
    let before = json::list(twin, list.statuses());
    let known: BTreeMap<&str, &Value> = named(before).collect();
    let restarts_all = can_restart_all(spec);
    let is_final = |name: &str, status: &Value| {
        let end = status.get("state").and_then(|state| state.get("terminated")).filter(|end| end.is_object());
        let container = containers.get(name);
        end.is_some_and(|end| {
            let code = end.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
            list == List::Ephemeral || !(restarts_all || container.is_some_and(|it| can_restart(it, spec, code)))
        })
    };
    let ended = |status: &Value| {
        status.get("state").and_then(|state| state.get("terminated")).is_some_and(|end| !end.is_null())
    };

    let mut merged = Merged { wanted: Vec::new(), changed: Vec::new() };
    let mut seen = BTreeSet::new();
    for (name, status) in named(json::list(physical, list.statuses())) {
        if !containers.contains_key(name) || !seen.insert(name) {
            continue;
        }
        match known.get(name) {
            Some(known) if json::same(known, status) || (is_final(name, known) && !ended(status)) => {
                merged.wanted.push((*known).clone());
            }
            _ => {
                merged.wanted.push(status.clone());
                merged.changed.push(name.to_owned());
            }
        }
    }
    // The physical pod does not report them any more, and their end is final.
    for (name, status) in named(before) {
        if containers.contains_key(name) && is_final(name, status) && seen.insert(name) {
            merged.wanted.push(status.clone());
        }
    }
    if merged.changed.is_empty() && !names(&merged.wanted).eq(names(before)) {
        merged.changed = names(before).filter(|name| !seen.contains(name)).map(str::to_owned).collect();
        // Another order, or one container twice.
        if merged.changed.is_empty() {
            merged.changed = names(before).map(str::to_owned).collect();
        }
    }
    merged
}

/// The entries that have a name, with it; of equal names the map of them keeps the last.
fn named(entries: &[Value]) -> impl Iterator<Item = (&str, &Value)> {
    entries.iter().filter_map(|entry| Some((entry.get("name")?.as_str()?, entry)))
}

fn names(entries: &[Value]) -> impl Iterator<Item = &str> {
    entries.iter().map(|entry| entry.get("name").and_then(Value::as_str).unwrap_or_default())
}

/// Whether a container has a rule that restarts all of them: then none has ended for good.
fn can_restart_all(spec: &Value) -> bool {
    let all = [List::Init, List::Containers].into_iter().flat_map(|list| json::list(spec, list.spec()));
    all.flat_map(|container| json::list(container, "restartPolicyRules"))
        .any(|rule| rule.get("action").and_then(Value::as_str) == Some("RestartAllContainers"))
}

fn can_restart(container: &Value, pod: &Value, code: i64) -> bool {
    let by = |policy: &str| match policy {
        "Always" => Some(true),
        "OnFailure" => Some(code != 0),
        "Never" => Some(false),
        _ => None,
    };
    let policy = |of: &Value| of.get("restartPolicy").and_then(Value::as_str).map(str::to_owned);
    let own = policy(container).and_then(|own| {
        let restarts = json::list(container, "restartPolicyRules").iter().find(|rule| applies(rule, code));
        let restarts = restarts.and_then(|rule| rule.get("action")?.as_str());
        if restarts == Some("Restart") { Some(true) } else { by(&own) }
    });
    // Without a policy a pod has the default, `Always`.
    own.or_else(|| policy(pod).and_then(|policy| by(&policy))).unwrap_or(true)
}

fn applies(rule: &Value, code: i64) -> bool {
    let Some(codes) = rule.get("exitCodes") else { return false };
    let has = json::list(codes, "values").iter().any(|value| value.as_i64() == Some(code));
    match codes.get("operator").and_then(Value::as_str) {
        Some("In") => has,
        Some("NotIn") => !has,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn s16_whether_a_container_can_restart_follows_from_rules_container_and_pod() {
        let rule = |action: &str, operator: &str, values: &[i64]| json!({"action": action, "exitCodes": {"operator": operator, "values": values}});
        let table = [
            (json!({}), json!({"restartPolicy": "Always"}), 0, true),
            (json!({}), json!({}), 0, true),
            (json!({}), json!({"restartPolicy": "Never"}), 1, false),
            (json!({}), json!({"restartPolicy": "OnFailure"}), 0, false),
            (json!({}), json!({"restartPolicy": "OnFailure"}), 137, true),
            (json!({"restartPolicy": "Always"}), json!({"restartPolicy": "Never"}), 0, true),
            (json!({"restartPolicy": "Never"}), json!({"restartPolicy": "Always"}), 0, false),
            (
                json!({"restartPolicy": "Never", "restartPolicyRules": [rule("Restart", "In", &[42])]}),
                json!({}),
                42,
                true,
            ),
            (
                json!({"restartPolicy": "Never", "restartPolicyRules": [rule("Restart", "In", &[42])]}),
                json!({}),
                1,
                false,
            ),
            (
                json!({"restartPolicy": "Never", "restartPolicyRules": [rule("Restart", "NotIn", &[42])]}),
                json!({}),
                1,
                true,
            ),
            // Without a policy of its own the rules of a container do not count.
            (
                json!({"restartPolicyRules": [rule("Restart", "In", &[42])]}),
                json!({"restartPolicy": "Never"}),
                42,
                false,
            ),
        ];
        for (container, pod, code, wanted) in table {
            assert_eq!(can_restart(&container, &pod, code), wanted, "{container} in {pod}, exit code {code}");
        }
        let all = json!({"containers": [{}, {"restartPolicyRules": [rule("RestartAllContainers", "In", &[1])]}]});
        assert!(can_restart_all(&all) && !can_restart_all(&json!({"containers": [{}]})));
    }
}
