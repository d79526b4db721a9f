//! The bars that the status of a binding says are in force, and the nodes of which only leases are written, for a command that reads
//! nothing else of it (decision S23).
//!
//! Owns the step from conditions back to both. Never decides what follows from them.
//!
//! # Failure story
//!
//! A status is as old as the last write of the replica that serves the binding. A condition that is not there, or that this version
//! does not know, is no bar. What annotations and the spec ask for is not read here: the object says it sooner than its status.

use topoloom_api::cluster_binding::ClusterBindingStatus;
use topoloom_api::condition::{Condition, ConditionStatus, ConditionType, Reason};
use topoloom_sync::bars::Bar;

use super::report::EARLIER;

/// The bars that a status says are in force, each with the sentence that says it.
pub fn stated(status: &ClusterBindingStatus) -> impl Iterator<Item = (Bar, &str)> {
    status.conditions.iter().filter_map(|condition| Some((bar(condition)?, condition.message.as_str())))
}

/// The sentence about virtual nodes that only a person can set right. Until then they are neither emptied nor taken away.
#[must_use]
pub fn unclear(status: &ClusterBindingStatus) -> Option<&str> {
    let is_unclear = |condition: &&Condition| {
        condition.type_ == ConditionType::Conflict.as_str()
            && condition.status == ConditionStatus::True.as_str()
            && condition.reason == Reason::NodesUnclear.as_str()
    };
    status.conditions.iter().find(is_unclear).map(|condition| condition.message.as_str())
}

fn bar(condition: &Condition) -> Option<Bar> {
    let kind = ConditionType::ALL.iter().copied().find(|kind| kind.as_str() == condition.type_)?;
    let is = |status: ConditionStatus| condition.status == status.as_str();
    let names = |reason: Reason| condition.reason == reason.as_str();
    match kind {
        ConditionType::Connected if is(ConditionStatus::True) => None,
        ConditionType::Connected if names(Reason::PhysicalClusterUnreachable) => Some(Bar::Unreachable),
        // Without a connection nothing is known of the cluster.
        ConditionType::Connected => Some(Bar::Suspect),
        // The other reasons are about single nodes.
        ConditionType::Conflict if names(Reason::BorrowerLeaseTaken) || names(Reason::ClusterIdTaken) => {
            is(ConditionStatus::True).then_some(Bar::Conflict)
        }
        ConditionType::PhysicalClusterChanged => is(ConditionStatus::True).then_some(Bar::ClusterChanged),
        ConditionType::Restored => is(ConditionStatus::True).then_some(Bar::Restored),
        ConditionType::Ready if names(Reason::ReadOnly) => Some(Bar::ReadOnly),
        ConditionType::Ready if names(Reason::ValidationError) && !condition.message.ends_with(EARLIER) => {
            Some(Bar::Invalid)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(all: &[(ConditionType, ConditionStatus, Reason, &str)]) -> Vec<Bar> {
        let conditions =
            all.iter().map(|(kind, status, reason, message)| Condition::new(*kind, *status, *reason, *message));
        let status = ClusterBindingStatus { conditions: conditions.collect(), ..ClusterBindingStatus::default() };
        stated(&status).map(|(bar, _)| bar).collect()
    }

    #[test]
    fn s23_the_conditions_of_a_binding_say_which_bars_are_in_force() {
        use ConditionStatus::{False, True, Unknown};
        use ConditionType::{Conflict, Connected, PhysicalClusterChanged, Ready, Restored};
        let earlier = format!("The spec is invalid: x. {EARLIER}");
        for (kind, status, reason, message, bar) in [
            (Connected, False, Reason::PhysicalClusterUnreachable, "m", Some(Bar::Unreachable)),
            (Connected, False, Reason::CredentialsMissing, "m", Some(Bar::Suspect)),
            (Connected, Unknown, Reason::PhysicalClusterSuspect, "m", Some(Bar::Suspect)),
            (Connected, True, Reason::CredentialsExpiring, "m", None),
            (Conflict, True, Reason::BorrowerLeaseTaken, "m", Some(Bar::Conflict)),
            (Conflict, True, Reason::ClusterIdTaken, "m", Some(Bar::Conflict)),
            (Conflict, True, Reason::NodesClaimed, "m", None),
            (Conflict, True, Reason::NodesUnclear, "m", None),
            (Conflict, False, Reason::Ok, "m", None),
            (PhysicalClusterChanged, True, Reason::AnotherCluster, "m", Some(Bar::ClusterChanged)),
            (PhysicalClusterChanged, False, Reason::Ok, "m", None),
            (Restored, True, Reason::VirtualClusterRestored, "m", Some(Bar::Restored)),
            (Restored, False, Reason::Ok, "m", None),
            (Ready, False, Reason::ValidationError, "The spec is invalid: x.", Some(Bar::Invalid)),
            // Its verbs are obeyed.
            (Ready, False, Reason::ValidationError, earlier.as_str(), None),
            (Ready, False, Reason::ReadOnly, "m", Some(Bar::ReadOnly)),
            (Ready, False, Reason::Draining, "m", None),
        ] {
            assert_eq!(bars(&[(kind, status, reason, message)]), Vec::from_iter(bar), "{kind} {status:?} {reason}");
        }
        assert_eq!(bars(&[]), []);
    }

    #[test]
    fn s6_s23_nodes_that_only_a_person_can_set_right_are_said_while_there_are_any() {
        use ConditionStatus::{False, True};
        use ConditionType::{Conflict, Ready};
        for (kind, status, reason, said) in [
            (Conflict, True, Reason::NodesUnclear, Some("m")),
            (Conflict, False, Reason::NodesUnclear, None),
            (Conflict, True, Reason::NodesClaimed, None),
            (Ready, False, Reason::NodesUnclear, None),
        ] {
            let conditions = vec![Condition::new(kind, status, reason, "m")];
            let status = ClusterBindingStatus { conditions, ..ClusterBindingStatus::default() };
            assert_eq!(unclear(&status), said, "{kind} {reason}");
        }
    }

    #[test]
    fn several_conditions_are_several_bars_each_with_its_sentence() {
        let unreachable = Condition::new(
            ConditionType::Connected,
            ConditionStatus::False,
            Reason::PhysicalClusterUnreachable,
            "The physical API server does not answer.",
        );
        let restored = Condition::new(
            ConditionType::Restored,
            ConditionStatus::True,
            Reason::PhysicalClusterRestored,
            "It was set back.",
        );
        let foreign = Condition { type_: "Ours".to_owned(), status: "True".to_owned(), ..Condition::default() };
        let status = ClusterBindingStatus {
            conditions: vec![foreign, unreachable, restored],
            ..ClusterBindingStatus::default()
        };
        let said: Vec<(Bar, &str)> = stated(&status).collect();
        assert_eq!(
            said,
            [(Bar::Unreachable, "The physical API server does not answer."), (Bar::Restored, "It was set back."),]
        );
    }
}
