//! ClusterBindings: how each is doing, what of it waits for a person, and the command that lets it continue.
//!
//! Owns the way from a stored status to these; the syncer decided and wrote it.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_api::ClusterBinding;
use topoloom_api::cluster_binding::{BindingPhase, ClusterBindingStatus, ConnectionState};
use topoloom_api::condition::{Condition, ConditionType, Reason};

use super::waits::Waiting;

/// One ClusterBinding.
#[derive(Debug, Default, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Binding {
    pub(super) binding: String,
    /// `Pending`, `Ready`, `Failed`, or `Unknown` before the syncer has written it.
    pub(super) phase: &'static str,
    /// The connection to the physical cluster: `Connecting`, `Reachable`, `Suspect`, `Unreachable` or `Unknown`.
    pub(super) connection: &'static str,
    /// Seconds since the connection is in this state.
    pub(super) connection_seconds: Option<i64>,
    pub(super) nodes: Option<LentNodes>,
    /// Virtual pods on its nodes that have not ended.
    pub(super) pods: Option<i64>,
    /// The replica that serves it.
    pub(super) holder: Option<String>,
    pub(super) message: String,
    /// What is unreachable, held or wrong.
    pub(super) waits: Vec<Waiting>,
}

/// The virtual nodes of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct LentNodes {
    /// Those that are Ready.
    pub(super) ready: i64,
    /// All of them.
    pub(super) lent: i64,
    /// Physical nodes that the binding selects.
    pub(super) selected: i64,
}

/// A binding as it is stored.
pub(super) fn binding(object: &ClusterBinding, now: Timestamp) -> Binding {
    let (name, status) = (object.metadata.name.clone().unwrap_or_default(), &object.status);
    let connection = status.connection.as_ref();
    let since: Option<Timestamp> = connection.and_then(|connection| connection.since.parse().ok());
    Binding {
        phase: status.phase.unwrap_or_default().as_str(),
        connection: connection.map_or(ConnectionState::Unknown, |connection| connection.state).as_str(),
        connection_seconds: since.map(|since| now.duration_since(since).as_secs().max(0)),
        nodes: status.nodes.map(|nodes| LentNodes { ready: nodes.ready, lent: nodes.lent, selected: nodes.selected }),
        pods: status.pods.map(|pods| pods.bound),
        holder: status.holder.clone(),
        message: status.message.clone(),
        waits: waits(&name, status),
        binding: name,
    }
}

fn waits(name: &str, status: &ClusterBindingStatus) -> Vec<Waiting> {
    let mut waits = Vec::new();
    let confirm = |hash: &str| format!("topoloom lend confirm {name} {hash}");
    if let Some(held) = &status.held {
        waits.push(Waiting {
            what: format!("held since {}: {}", held.since, held.sentence),
            command: format!("topoloom lend plan; {}", confirm(&held.hash)),
        });
    }
    if let Some(restored) = &status.restored {
        let what = format!("set back, seen at {}: {}", restored.since, restored.sentence);
        waits.push(Waiting { what, command: confirm(&restored.hash) });
    }
    if let Some(other) = &status.other_cluster {
        let what = format!("another physical cluster answers since {}, with the UID {}", other.since, other.uid);
        waits.push(Waiting { what, command: format!("correct the Secret, or {}", confirm(&other.hash)) });
    }
    for kind in [ConditionType::Conflict, ConditionType::Connected, ConditionType::Paused, ConditionType::Ready] {
        let Some(wrong) = condition(status, kind).filter(|condition| is_wrong(kind, condition)) else { continue };
        if is_said(kind, wrong, status) {
            continue;
        }
        waits.push(Waiting { what: format!("{}: {}", wrong.reason, wrong.message), command: command(name, wrong) });
    }
    waits
}

/// Whether a condition says that something has to be done.
fn is_wrong(kind: ConditionType, condition: &Condition) -> bool {
    match (kind, condition.status.as_str()) {
        (ConditionType::Conflict | ConditionType::Paused, status) => status == "True",
        // The connection works, and its Secret is not used as it is, or ends soon.
        (ConditionType::Connected, "True") => condition.reason != Reason::Ok.as_str(),
        (_, status) => status == "False",
    }
}

/// Whether another line says it, or it continues by itself.
fn is_said(kind: ConditionType, condition: &Condition, status: &ClusterBindingStatus) -> bool {
    let is = |reason: Reason| condition.reason == reason.as_str();
    match kind {
        ConditionType::Ready => {
            // The binding serves, and loses with its process what is not stored.
            (status.phase != Some(BindingPhase::Failed) && !is(Reason::WriteNotStored))
                || is(Reason::AnotherCluster)
                || is(Reason::VirtualClusterRestored)
                || is(Reason::PhysicalClusterRestored)
                || [ConditionType::Conflict, ConditionType::Connected]
                    .into_iter()
                    .any(|other| self::condition(status, other).is_some_and(|other| other.reason == condition.reason))
        }
        ConditionType::Connected => is(Reason::Pending) || is(Reason::AnotherCluster),
        // A mode that was chosen waits for no one.
        ConditionType::Paused => is(Reason::Observing),
        _ => false,
    }
}

/// What to type about a condition; empty: its sentence says what to do, or it continues by itself.
fn command(name: &str, condition: &Condition) -> String {
    let Some(reason) = Reason::ALL.iter().find(|reason| reason.as_str() == condition.reason) else {
        return String::new();
    };
    match reason {
        Reason::ValidationError | Reason::SameCluster | Reason::ClusterIdTaken | Reason::BorrowerLeaseTaken => {
            format!("kubectl edit clusterbinding {name}")
        }
        Reason::CredentialsMissing | Reason::CredentialsInvalid | Reason::Unauthorized => {
            format!("correct the Secret that {name} names; a new kubeconfig is used without a restart")
        }
        Reason::CredentialsExpiring => {
            format!("ask the lender for a new kubeconfig (topoloom lend kubeconfig), for the Secret that {name} names")
        }
        Reason::Forbidden | Reason::NamespaceMissing | Reason::DefinitionMissing => {
            "topoloom preflight; in the physical cluster the lender applies `topoloom lend grant`".to_owned()
        }
        Reason::Paused => format!("topoloom lend resume {name}"),
        Reason::ClaimsUnreadable => "topoloom lend report".to_owned(),
        Reason::NodesClaimed => format!("topoloom lend report; kubectl edit clusterbinding {name}"),
        _ => String::new(),
    }
}

fn condition(status: &ClusterBindingStatus, kind: ConditionType) -> Option<&Condition> {
    status.conditions.iter().find(|condition| condition.type_ == kind.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(status: &Value) -> Binding {
        let object = json!({"metadata": {"name": "east"}, "spec": {}, "status": status});
        let object: ClusterBinding = serde_json::from_value(object).unwrap();
        binding(&object, "2026-08-03T12:00:00Z".parse().unwrap())
    }

    fn said(status: &Value) -> Vec<(String, String)> {
        seen(status).waits.into_iter().map(|waiting| (waiting.what, waiting.command)).collect()
    }

    fn is(kind: &str, status: &str, reason: &str) -> Value {
        json!({"type": kind, "status": status, "reason": reason, "message": "m"})
    }

    #[test]
    fn a_binding_that_serves_waits_for_no_one() {
        let status = json!({
            "phase": "Ready", "message": "all is well", "holder": "topoloom-0",
            "connection": {"state": "Reachable", "since": "2026-08-03T11:59:00Z"},
            "nodes": {"selected": 4, "lent": 4, "ready": 3}, "pods": {"bound": 7},
            "conditions": [is("Ready", "True", "Ok"), is("Conflict", "False", "Ok"), is("Connected", "True", "Ok")],
        });
        let binding = seen(&status);
        assert_eq!((binding.phase, binding.connection, binding.connection_seconds), ("Ready", "Reachable", Some(60)));
        assert_eq!(binding.nodes, Some(LentNodes { ready: 3, lent: 4, selected: 4 }));
        assert_eq!((binding.pods, binding.waits), (Some(7), vec![]));
        let new = seen(&json!({}));
        assert_eq!((new.phase, new.connection, new.waits), ("Unknown", "Unknown", vec![]));
    }

    #[test]
    fn what_is_held_and_what_was_set_back_come_with_the_hash_that_confirms_it() {
        let held = json!({"hash": "abc", "sentence": "6 of 10 nodes", "since": "T1"});
        let status =
            json!({"phase": "Ready", "held": held, "conditions": [is("Ready", "False", "TooManyNodesRemoved")]});
        let wanted = ("held since T1: 6 of 10 nodes", "topoloom lend plan; topoloom lend confirm east abc");
        assert_eq!(said(&status), [(wanted.0.to_owned(), wanted.1.to_owned())]);
        let restored = json!({"cluster": "Physical", "sentence": "a counter", "hash": "def", "since": "T2"});
        let conditions = json!([is("Ready", "False", "PhysicalClusterRestored")]);
        let status = json!({"phase": "Failed", "restored": restored, "conditions": conditions});
        let [(what, command)] = said(&status).try_into().unwrap();
        assert!(what.contains("a counter") && command == "topoloom lend confirm east def", "{what} {command}");
        let other = json!({"uid": "c2", "hash": "012", "since": "T3"});
        let conditions = json!([is("Ready", "False", "AnotherCluster"), is("Connected", "False", "AnotherCluster")]);
        let status = json!({"phase": "Failed", "otherCluster": other, "conditions": conditions});
        let [(what, command)] = said(&status).try_into().unwrap();
        assert!(what.contains("c2") && command.ends_with("topoloom lend confirm east 012"), "{what} {command}");
    }

    #[test]
    fn what_is_wrong_is_one_line_with_what_to_type() {
        for (phase, conditions, wanted) in [
            ("Pending", json!([is("Connected", "False", "PhysicalClusterUnreachable")]), Some("")),
            ("Pending", json!([is("Ready", "False", "Pending"), is("Connected", "False", "Pending")]), None),
            ("Failed", json!([is("Ready", "False", "ValidationError")]), Some("kubectl edit clusterbinding east")),
            (
                "Failed",
                json!([is("Ready", "False", "ClusterIdTaken"), is("Conflict", "True", "ClusterIdTaken")]),
                Some("kubectl edit clusterbinding east"),
            ),
            (
                "Failed",
                json!([is("Ready", "False", "CredentialsMissing"), is("Connected", "False", "CredentialsMissing")]),
                Some("correct the Secret that east names; a new kubeconfig is used without a restart"),
            ),
            (
                "Ready",
                json!([is("Ready", "True", "Ok"), is("Connected", "True", "CredentialsExpiring")]),
                Some("ask the lender for a new kubeconfig (topoloom lend kubeconfig), for the Secret that east names"),
            ),
            (
                "Ready",
                json!([is("Ready", "True", "Ok"), is("Connected", "True", "CredentialsInvalid")]),
                Some("correct the Secret that east names; a new kubeconfig is used without a restart"),
            ),
            ("Pending", json!([is("Connected", "Unknown", "PhysicalClusterSuspect")]), None),
            ("Ready", json!([is("Paused", "True", "Paused")]), Some("topoloom lend resume east")),
            ("Ready", json!([is("Paused", "True", "Observing")]), None),
            ("Ready", json!([is("Ready", "False", "Draining")]), None),
            ("Ready", json!([is("Ready", "False", "WriteNotStored")]), Some("")),
            ("Failed", json!([is("Ready", "False", "of a later version")]), Some("")),
        ] {
            let said = said(&json!({"phase": phase, "conditions": conditions}));
            let commands: Vec<&str> = said.iter().map(|(_, command)| command.as_str()).collect();
            assert_eq!(commands, wanted.into_iter().collect::<Vec<_>>(), "{conditions}");
        }
    }
}
