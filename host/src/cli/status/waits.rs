//! What of a source waits, and the command that lets it continue.

use schemars::JsonSchema;
use serde::Serialize;
use topoloom_api::condition::{ConditionType, Reason};
use topoloom_api::discovery_source::{DiscoverySourceStatus, State};

use super::advice::Configuration;

/// One thing that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(in crate::cli) struct Waiting {
    /// What waits, and for whom.
    pub(super) what: String,
    /// What to do, a command if there is one; empty if it continues by itself, or if the cause is elsewhere.
    pub(super) command: String,
}

/// Everything of a source that waits.
pub(super) fn of(status: &DiscoverySourceStatus, configuration: &Configuration<'_>) -> Vec<Waiting> {
    let source = &status.source;
    let mut waits = Vec::new();
    if let Some(held) = &status.held {
        let by_time = held.next_round.as_ref().map_or_else(
            || "only a person confirms it".to_owned(),
            |next| format!("{} agreeing so far, the next round is at {next}", held.confirmations),
        );
        // A source without an entry has no plan.
        let is_removal = status.conditions.iter().any(|condition| condition.reason == Reason::EmptyDocument.as_str());
        let plan = if is_removal { String::new() } else { format!("topoloom plan --source {source}; ") };
        waits.push(Waiting {
            what: format!("a result is held since {}: {}; {by_time}", held.since, held.sentence),
            command: format!("{plan}topoloom confirm {source}"),
        });
    }
    if let Some(candidate) = status.candidate.as_ref().filter(|candidate| candidate.stage == "Held") {
        let name = candidate.name.as_deref().unwrap_or("a plugin");
        let version = candidate.version.as_deref().unwrap_or_default();
        let how =
            candidate.comparison.as_ref().map_or(String::new(), |comparison| format!(": {}", comparison.sentence));
        waits.push(Waiting {
            what: format!("{name} {version} waits for activation{how}"),
            command: format!("topoloom plugin continue {source}"),
        });
    }
    let condition =
        |wanted: ConditionType| status.conditions.iter().find(|condition| condition.type_ == wanted.as_str());
    let second = condition(ConditionType::SecondWriter).filter(|condition| condition.status == "True");
    waits.extend(second.map(|second| Waiting { what: second.message.clone(), command: String::new() }));
    match status.state.unwrap_or_default() {
        State::Paused => waits.push(Waiting {
            what: "paused: no rounds, no writes".to_owned(),
            command: format!("topoloom source pause {source} --resume"),
        }),
        State::Failed | State::Stale | State::Waiting => {
            let broken = status.conditions.iter().filter(|condition| condition.status == "False");
            // The first in the order of a round is the cause of the others.
            let order =
                [ConditionType::Configured, ConditionType::Loaded, ConditionType::Discovered, ConditionType::Applied];
            let place = |type_: &str| order.iter().position(|known| known.as_str() == type_).unwrap_or(order.len());
            let cause = broken.min_by_key(|condition| place(&condition.type_));
            waits.extend(cause.map(|cause| Waiting {
                what: format!("{}: {}", cause.reason, cause.message),
                command: configuration.about(cause, status),
            }));
        }
        State::Serving | State::Held | State::Disabled | State::Observing | State::Stopped | State::Unknown => {}
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Load, Location};
    use serde_json::json;

    fn waits(status: serde_json::Value) -> Vec<(String, String)> {
        let status: DiscoverySourceStatus = serde_json::from_value(status).unwrap();
        let (location, load) = (Location::new("ns", "map"), Ok(Load::NoConfigMap));
        let configuration = Configuration { location: &location, load: &load };
        of(&status, &configuration).into_iter().map(|waiting| (waiting.what, waiting.command)).collect()
    }

    #[test]
    fn what_is_held_says_the_command_that_lets_it_go_on() {
        let held = json!({"rule": "Empty", "sentence": "everything would go", "hash": "abc", "since": "T1", "confirmations": 1});
        let found = waits(json!({"source": "label", "state": "Held", "held": held}));
        let what = "a result is held since T1: everything would go; only a person confirms it";
        assert_eq!(found, [(what.to_owned(), "topoloom plan --source label; topoloom confirm label".to_owned())]);
        let candidate = json!({"digest": "sha256:0", "name": "acme", "version": "2", "stage": "Held"});
        let found = waits(json!({"source": "a", "state": "Serving", "candidate": candidate}));
        assert_eq!(found, [("acme 2 waits for activation".to_owned(), "topoloom plugin continue a".to_owned())]);
        let paused = waits(json!({"source": "a", "state": "Paused"}));
        assert_eq!(paused.first().map(|(_, command)| command.as_str()), Some("topoloom source pause a --resume"));
    }

    #[test]
    fn of_several_broken_steps_the_first_is_the_cause() {
        let broken =
            |type_: &str, reason: &str| json!({"type": type_, "status": "False", "reason": reason, "message": "m"});
        let conditions = json!([broken("Applied", "Pending"), broken("Discovered", "Upstream")]);
        let found = waits(json!({"source": "ufm", "state": "Failed", "conditions": conditions}));
        assert_eq!(found, [("Upstream: m".to_owned(), "topoloom source run ufm".to_owned())]);
        assert_eq!(waits(json!({"source": "ufm", "state": "Serving", "conditions": conditions})), []);
        // After a restart with a bad entry nothing is to be run: the entry is to be corrected.
        let conditions = json!([broken("Configured", "InvalidConfig"), broken("Discovered", "Pending")]);
        let found = waits(json!({"source": "ufm", "state": "Failed", "conditions": conditions}));
        assert_eq!(found, [("InvalidConfig: m".to_owned(), "kubectl edit configmap map --namespace ns".to_owned())]);
    }
}
