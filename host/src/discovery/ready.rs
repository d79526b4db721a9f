//! `Ready`: whether a source serves what its entry asks for.
//!
//! The one condition that programs wait for which know nothing of topologies: `kubectl wait`, Argo CD, Flux. It follows from
//! the rest of the status and from whether what runs is what the entry asks for. Pure.

use jiff::Timestamp;
use topoloom_api::condition::{Condition, ConditionStatus, ConditionType, Reason, set_condition};
use topoloom_api::discovery_source::{DiscoverySourceStatus, State};

/// What runs, measured by the present entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    /// The present entry, and a round of it gave what is in force.
    AsAsked,
    /// Nothing, or an earlier version of the entry.
    Otherwise,
}

/// What has to be true, in the order of a round.
pub(crate) const PARTS: [ConditionType; 4] =
    [ConditionType::Configured, ConditionType::Loaded, ConditionType::Discovered, ConditionType::Applied];

/// Puts `Ready` into a status that is complete otherwise.
pub(crate) fn set(status: &mut DiscoverySourceStatus, runs: Runs, now: Timestamp) {
    let (holds, reason) = of(status, runs);
    let message = match (status.state, runs) {
        (Some(State::Serving), Runs::Otherwise) if reason == Reason::Pending => {
            "the entry is not in force yet: its first round is under way".to_owned()
        }
        _ => status.message.clone(),
    };
    let condition = Condition::new(ConditionType::Ready, holds, reason, message);
    set_condition(&mut status.conditions, condition, &seconds(now));
}

fn of(status: &DiscoverySourceStatus, runs: Runs) -> (ConditionStatus, Reason) {
    let find = |type_: ConditionType| status.conditions.iter().find(|condition| condition.type_ == type_.as_str());
    let broken = || PARTS.into_iter().filter_map(find).find(|condition| condition.status == "False");
    let why = || {
        let held = || [ConditionType::Held, ConditionType::Stale].into_iter().find_map(find);
        let word = &broken().or_else(held)?.reason;
        Reason::ALL.iter().find(|reason| reason.as_str() == word).copied()
    };
    let no = |reason| (ConditionStatus::False, reason);
    match status.state.unwrap_or_default() {
        State::Serving if broken().is_none() && runs == Runs::AsAsked => (ConditionStatus::True, Reason::Ok),
        State::Serving | State::Held | State::Stale | State::Failed => no(why().unwrap_or(Reason::Pending)),
        State::Waiting => no(Reason::Pending),
        State::Paused => no(Reason::Paused),
        State::Observing => no(Reason::Observing),
        State::Disabled => no(Reason::Disabled),
        State::Stopped => (ConditionStatus::Unknown, Reason::HostStopped),
        State::Unknown => (ConditionStatus::Unknown, Reason::Pending),
    }
}

/// A time as Kubernetes writes it.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: State, conditions: &[(ConditionType, bool, Reason)]) -> DiscoverySourceStatus {
        let conditions =
            conditions.iter().map(|(type_, holds, reason)| Condition::new(*type_, (*holds).into(), *reason, "m"));
        DiscoverySourceStatus { state: Some(state), conditions: conditions.collect(), ..Default::default() }
    }

    fn ready(mut status: DiscoverySourceStatus, runs: Runs) -> String {
        set(&mut status, runs, Timestamp::UNIX_EPOCH);
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready").expect("it is always there");
        format!("{} {}", ready.status, ready.reason)
    }

    #[test]
    fn a_source_is_ready_only_while_it_serves_what_its_entry_asks_for() {
        use ConditionType::{Applied, Configured, Discovered, Held, Loaded, Stale};
        let good = [Configured, Loaded, Discovered, Applied].map(|type_| (type_, true, Reason::Ok));
        let but = |type_, reason| {
            let mut conditions = good.to_vec();
            conditions.retain(|(known, ..)| *known != type_);
            conditions.push((type_, false, reason));
            conditions
        };
        for (state, conditions, runs, wanted) in [
            (State::Serving, good.to_vec(), Runs::AsAsked, "True Ok"),
            (State::Serving, good.to_vec(), Runs::Otherwise, "False Pending"),
            // The active plugin continues while the one that the entry names waits for a person.
            (State::Serving, but(Loaded, Reason::CanaryHeld), Runs::AsAsked, "False CanaryHeld"),
            (State::Serving, but(Loaded, Reason::Untrusted), Runs::Otherwise, "False Untrusted"),
            (State::Held, but(Applied, Reason::EmptyResult), Runs::AsAsked, "False EmptyResult"),
            (State::Held, vec![(Held, true, Reason::TooManyDeletions)], Runs::AsAsked, "False TooManyDeletions"),
            (State::Stale, but(Configured, Reason::InvalidConfig), Runs::Otherwise, "False InvalidConfig"),
            (State::Stale, but(Discovered, Reason::Upstream), Runs::AsAsked, "False Upstream"),
            (State::Stale, vec![(Stale, true, Reason::Deadline)], Runs::AsAsked, "False Deadline"),
            (State::Failed, but(Configured, Reason::InvalidDocument), Runs::Otherwise, "False InvalidDocument"),
            (State::Failed, Vec::new(), Runs::Otherwise, "False Pending"),
            (State::Waiting, Vec::new(), Runs::Otherwise, "False Pending"),
            (State::Paused, good.to_vec(), Runs::AsAsked, "False Paused"),
            (State::Observing, but(Applied, Reason::Observing), Runs::AsAsked, "False Observing"),
            (State::Disabled, good.to_vec(), Runs::AsAsked, "False Disabled"),
            (State::Stopped, good.to_vec(), Runs::AsAsked, "Unknown HostStopped"),
            (State::Unknown, good.to_vec(), Runs::AsAsked, "Unknown Pending"),
        ] {
            let said = format!("{state:?} {conditions:?} {runs:?}");
            assert_eq!(ready(status(state, &conditions), runs), wanted, "{said}");
        }
    }

    #[test]
    fn whatever_the_state_ready_is_said_and_true_in_one_alone() {
        for state in State::ALL {
            for runs in [Runs::AsAsked, Runs::Otherwise] {
                let is_true = ready(status(*state, &[]), runs).starts_with("True");
                assert_eq!(is_true, *state == State::Serving && runs == Runs::AsAsked, "{state:?} {runs:?}");
            }
        }
    }
}
