//! Which changes of the status of a binding have an Event (`bottomup-syncer.md` section 12).
//!
//! Owns what a person has to know at once: a cluster that does not answer, and that it answers again, what belongs to another, what
//! was set back, and what only a person can correct. A function of two statuses: what is stored is what was notified, so neither a
//! restart nor another replica says it a second time, and numbers that change are no news.

use topoloom_api::cluster_binding::{BindingPhase, ClusterBindingStatus, ConnectionState};
use topoloom_api::condition::{Condition, ConditionType, Reason};
use topoloom_cluster::events::Urgency;

/// One Event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct News {
    pub(super) urgency: Urgency,
    pub(super) reason: String,
    pub(super) note: String,
}

/// What holds up a binding until a person does something, while it is True.
const WRONG: [ConditionType; 3] =
    [ConditionType::Conflict, ConditionType::PhysicalClusterChanged, ConditionType::Restored];

/// What is news in the second status.
pub(super) fn news(before: &ClusterBindingStatus, after: &ClusterBindingStatus) -> Vec<News> {
    let mut all: Vec<News> = connection(before, after).into_iter().collect();
    for kind in WRONG {
        let is_news = |now: &&Condition| now.status == "True" && !is_same(condition(before, kind), now);
        all.extend(condition(after, kind).filter(is_news).map(warning));
    }
    let expiring = |now: &&Condition| now.reason == Reason::CredentialsExpiring.as_str();
    let expires = condition(after, ConditionType::Connected).filter(expiring);
    all.extend(expires.filter(|now| !is_same(condition(before, ConditionType::Connected), now)).map(warning));
    if after.phase == Some(BindingPhase::Failed)
        && let Some(ready) = condition(after, ConditionType::Ready)
        && !is_same(condition(before, ConditionType::Ready), ready)
        // A condition of its own says so.
        && !WRONG.into_iter().any(|kind| condition(after, kind).is_some_and(|other| other.reason == ready.reason))
    {
        all.push(warning(ready));
    }
    all
}

/// That the physical cluster does not answer, or answers again.
fn connection(before: &ClusterBindingStatus, after: &ClusterBindingStatus) -> Option<News> {
    let state = |status: &ClusterBindingStatus| status.connection.as_ref().map(|connection| connection.state);
    let was_gone = state(before) == Some(ConnectionState::Unreachable);
    let (urgency, reason, note) = match (was_gone, state(after)?) {
        (false, ConnectionState::Unreachable) => (
            Urgency::Warning,
            Reason::PhysicalClusterUnreachable,
            "The physical API server does not answer; what follows is spec.onUnreachable.",
        ),
        (true, ConnectionState::Reachable | ConnectionState::Suspect) => {
            (Urgency::Normal, Reason::PhysicalClusterReachable, "The physical API server answers again.")
        }
        (true, ConnectionState::Unreachable | ConnectionState::Connecting | ConnectionState::Unknown)
        | (
            false,
            ConnectionState::Reachable
            | ConnectionState::Suspect
            | ConnectionState::Connecting
            | ConnectionState::Unknown,
        ) => return None,
    };
    Some(News { urgency, reason: reason.as_str().to_owned(), note: note.to_owned() })
}

fn condition(status: &ClusterBindingStatus, kind: ConditionType) -> Option<&Condition> {
    status.conditions.iter().find(|condition| condition.type_ == kind.as_str())
}

/// Whether a condition says nothing new. Its sentence may have other numbers.
fn is_same(before: Option<&Condition>, now: &Condition) -> bool {
    before.is_some_and(|before| before.status == now.status && before.reason == now.reason)
}

fn warning(condition: &Condition) -> News {
    News { urgency: Urgency::Warning, reason: condition.reason.clone(), note: condition.message.clone() }
}

#[cfg(test)]
mod tests {
    use topoloom_api::cluster_binding::ConnectionStatus;
    use topoloom_api::condition::ConditionStatus;

    use super::*;

    fn status(
        state: ConnectionState,
        phase: BindingPhase,
        conditions: &[(ConditionType, bool, Reason)],
    ) -> ClusterBindingStatus {
        let condition = |(kind, holds, reason): &(ConditionType, bool, Reason)| {
            Condition::new(*kind, ConditionStatus::from(*holds), *reason, format!("{reason}, 3 of them"))
        };
        ClusterBindingStatus {
            phase: Some(phase),
            conditions: conditions.iter().map(condition).collect(),
            connection: Some(ConnectionStatus { state, ..ConnectionStatus::default() }),
            ..ClusterBindingStatus::default()
        }
    }

    fn reasons(before: &ClusterBindingStatus, after: &ClusterBindingStatus) -> Vec<String> {
        news(before, after).into_iter().map(|news| format!("{:?} {}", news.urgency, news.reason)).collect()
    }

    const READY: BindingPhase = BindingPhase::Ready;

    #[test]
    fn s5_a_cluster_that_goes_and_comes_back_is_news_once_each() {
        let of = |state| status(state, READY, &[]);
        let (there, suspect, gone) =
            (of(ConnectionState::Reachable), of(ConnectionState::Suspect), of(ConnectionState::Unreachable));
        assert_eq!(reasons(&there, &suspect), [""; 0]);
        assert_eq!(reasons(&suspect, &gone), ["Warning PhysicalClusterUnreachable"]);
        assert_eq!(reasons(&gone, &gone), [""; 0], "another replica took over meanwhile");
        assert_eq!(reasons(&gone, &suspect), ["Normal PhysicalClusterReachable"]);
        assert_eq!(reasons(&suspect, &there), [""; 0]);
        // Another Secret is tried: nothing answers yet.
        assert_eq!(reasons(&gone, &of(ConnectionState::Connecting)), [""; 0]);
        assert_eq!(reasons(&ClusterBindingStatus::default(), &gone), ["Warning PhysicalClusterUnreachable"]);
    }

    #[test]
    fn what_is_wrong_is_news_when_it_begins_and_when_it_is_another_mistake() {
        let of = |kind, holds, reason| status(ConnectionState::Reachable, READY, &[(kind, holds, reason)]);
        let well = of(ConditionType::Conflict, false, Reason::Ok);
        let claimed = of(ConditionType::Conflict, true, Reason::NodesClaimed);
        assert_eq!(reasons(&well, &claimed), ["Warning NodesClaimed"]);
        let mut more = claimed.clone();
        more.conditions[0].message = "4 of them".to_owned();
        assert_eq!(reasons(&claimed, &more), [""; 0], "numbers are no news");
        assert_eq!(
            reasons(&claimed, &of(ConditionType::Conflict, true, Reason::ClusterIdTaken)),
            ["Warning ClusterIdTaken"]
        );
        assert_eq!(reasons(&claimed, &well), [""; 0]);
        let expiring = of(ConditionType::Connected, true, Reason::CredentialsExpiring);
        assert_eq!(reasons(&well, &expiring), ["Warning CredentialsExpiring"]);
        assert_eq!(reasons(&expiring, &expiring), [""; 0]);
    }

    #[test]
    fn what_only_a_person_can_correct_is_news_under_one_reason() {
        let failed = |conditions: &[_]| status(ConnectionState::Reachable, BindingPhase::Failed, conditions);
        let ready = |reason| (ConditionType::Ready, false, reason);
        let well = status(ConnectionState::Reachable, READY, &[(ConditionType::Ready, true, Reason::Ok)]);
        let forbidden = failed(&[ready(Reason::Forbidden)]);
        assert_eq!(reasons(&well, &forbidden), ["Warning Forbidden"]);
        assert_eq!(reasons(&forbidden, &forbidden), [""; 0]);
        let restored = (ConditionType::Restored, true, Reason::PhysicalClusterRestored);
        let both = failed(&[ready(Reason::PhysicalClusterRestored), restored]);
        assert_eq!(reasons(&well, &both), ["Warning PhysicalClusterRestored"], "it is one Event");
        // It waits, and continues by itself.
        let waits = status(ConnectionState::Connecting, BindingPhase::Pending, &[ready(Reason::Pending)]);
        assert_eq!(reasons(&well, &waits), [""; 0]);
    }
}
