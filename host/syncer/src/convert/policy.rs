//! ResourceLeasingPolicies: their spec, and their status in both directions.
//!
//! What one direction writes the other reads as it was. Conditions of other programs are written as they were stored, also where
//! we cannot read their times: a list of conditions is written whole.

use topoloom_api::condition::Condition;
use topoloom_api::resource_leasing_policy::{
    ClosingStatus, PolicyPhase, ResourceLeasingPolicySpec, ResourceLeasingPolicyStatus, ResourceLimitSpec,
    TimeWindowSpec,
};
use topoloom_api::{Part, ResourceLeasingPolicy, Unreadable};
use topoloom_sync::policy::announced::Announcement;
use topoloom_sync::policy::object::PolicyObject;
use topoloom_sync::policy::spec::{LimitSpec, PolicySpec, Whom, WindowSpec};
use topoloom_sync::policy::status::{Phase, PolicyCondition, PolicyStatus};
use topoloom_sync::truth::Truth;

use super::{selector, time, written};

/// A policy, as a binding of this name takes it: one whose `spec.cluster` cannot be read could be meant for it.
#[must_use]
pub fn object(policy: &ResourceLeasingPolicy, binding: &str) -> PolicyObject {
    let metadata = &policy.metadata;
    let status = read_status(&policy.status);
    let (spec, unreadable) = match &policy.spec {
        Ok(spec) => (read_spec(spec), None),
        Err(why) => (parts(why, binding), Some(why.to_string())),
    };
    PolicyObject {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.as_deref().unwrap_or_default().into(),
        generation: metadata.generation.unwrap_or_default(),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        deleting: metadata.deletion_timestamp.is_some(),
        spec,
        unreadable,
        announced: status.announced(),
        last_valid: status.last_valid,
    }
}

/// Whether a policy may be for a binding of this name, before it is judged: its spec is, or the last valid one, which may be in force
/// in its place. All that is for that binding once it is judged may be.
#[must_use]
pub fn may_be_for(policy: &ResourceLeasingPolicy, binding: &str, virtual_cluster: &str) -> bool {
    let is_for =
        |cluster: &str, named: Option<&str>| Whom { cluster, virtual_cluster: named }.is(binding, virtual_cluster);
    let is_spec_for = |spec: &ResourceLeasingPolicySpec| is_for(&spec.cluster, spec.virtual_cluster.as_deref());
    let is_present_for = match &policy.spec {
        Ok(spec) => is_spec_for(spec),
        Err(why) => {
            let (cluster, named) = whom(why, binding);
            is_for(&cluster, named.as_deref())
        }
    };
    is_present_for || policy.status.last_valid.as_ref().is_some_and(is_spec_for)
}

/// For whom a policy is whose spec cannot be read as a whole: the binding, and the virtual cluster where it names one.
fn whom(why: &Unreadable, binding: &str) -> (String, Option<String>) {
    let cluster = match why.part::<String>("cluster") {
        Part::Read(cluster) => cluster,
        Part::Absent | Part::Unreadable => binding.to_owned(),
    };
    // One that cannot be read names no virtual cluster, so it could be for ours.
    let virtual_cluster = match why.part("virtualCluster") {
        Part::Read(named) => Some(named),
        Part::Absent | Part::Unreadable => None,
    };
    (cluster, virtual_cluster)
}

/// What can be read of a spec that cannot be read as a whole: for whom it is, and which nodes it selects.
fn parts(why: &Unreadable, binding: &str) -> PolicySpec {
    let (cluster, virtual_cluster) = whom(why, binding);
    let node_selector = match why.part("nodeSelector") {
        Part::Read(written) => Some(selector::read(&written)),
        Part::Absent => None,
        Part::Unreadable => Some(selector::unreadable()),
    };
    let priority = priority(why.part("priority").or_default());
    PolicySpec { cluster, virtual_cluster, node_selector, priority, ..PolicySpec::default() }
}

/// A spec as it stands in an object.
#[must_use]
pub fn read_spec(written: &ResourceLeasingPolicySpec) -> PolicySpec {
    let window = |window: &TimeWindowSpec| {
        let TimeWindowSpec { start, end, days } = window.clone();
        WindowSpec { start, end, days }
    };
    let limit = |limit: &ResourceLimitSpec| {
        let ResourceLimitSpec { resource, quantity, percent } = limit.clone();
        LimitSpec { resource, quantity, percent }
    };
    PolicySpec {
        cluster: written.cluster.clone(),
        virtual_cluster: written.virtual_cluster.clone(),
        priority: priority(written.priority.unwrap_or_default()),
        node_selector: written.node_selector.as_ref().map(selector::read),
        time_zone: written.time_zone.clone(),
        days_apply_to: written.days_apply_to.clone(),
        time_windows: written.time_windows.iter().map(window).collect(),
        resource_limits: written.resource_limits.iter().map(limit).collect(),
        force_reclaim: written.force_reclaim,
        graceful_reclaim_period_seconds: written.graceful_reclaim_period_seconds,
        reclaim_via: written.reclaim_via.clone(),
    }
}

/// The same as an object has it.
#[must_use]
pub fn write_spec(spec: &PolicySpec) -> ResourceLeasingPolicySpec {
    let window = |window: &WindowSpec| {
        let WindowSpec { start, end, days } = window.clone();
        TimeWindowSpec { start, end, days }
    };
    let limit = |limit: &LimitSpec| {
        let LimitSpec { resource, quantity, percent } = limit.clone();
        ResourceLimitSpec { resource, quantity, percent }
    };
    ResourceLeasingPolicySpec {
        cluster: spec.cluster.clone(),
        virtual_cluster: spec.virtual_cluster.clone(),
        priority: (spec.priority != 0).then(|| spec.priority.into()),
        node_selector: spec.node_selector.as_ref().map(selector::write),
        time_zone: spec.time_zone.clone(),
        days_apply_to: spec.days_apply_to.clone(),
        time_windows: spec.time_windows.iter().map(window).collect(),
        resource_limits: spec.resource_limits.iter().map(limit).collect(),
        force_reclaim: spec.force_reclaim,
        graceful_reclaim_period_seconds: spec.graceful_reclaim_period_seconds,
        reclaim_via: spec.reclaim_via.clone(),
    }
}

/// The nearest one that there is: the definition allows no other, and the order stays.
fn priority(written: i64) -> i32 {
    i32::try_from(written).unwrap_or(if written < 0 { i32::MIN } else { i32::MAX })
}

/// A status as it stands in an object.
#[must_use]
pub fn read_status(written: &ResourceLeasingPolicyStatus) -> PolicyStatus {
    let closing = |closing: &ClosingStatus| {
        let (at, since) = (time(Some(&closing.at))?, time(Some(&closing.announced_since))?);
        Some(Announcement { at, since })
    };
    PolicyStatus {
        phase: written.phase.and_then(|phase| Phase::parse(phase.as_str())),
        active_time_window: written.active_time_window.unwrap_or_default(),
        conditions: written.conditions.iter().map(read_condition).collect(),
        last_applied_time: time(written.last_applied_time.as_deref()),
        observed_generation: written.observed_generation,
        next_transition: time(written.next_transition.as_deref()),
        next_transition_since: time(written.next_transition_since.as_deref()),
        last_closing: written.last_closing.as_ref().and_then(closing),
        time_zone: written.time_zone.clone(),
        last_valid: written.last_valid.as_ref().map(read_spec),
    }
}

/// The same as an object has it, in place of the one that is stored there.
#[must_use]
pub fn write_status(status: &PolicyStatus, stored: &ResourceLeasingPolicyStatus) -> ResourceLeasingPolicyStatus {
    let closing = |closing: Announcement| ClosingStatus {
        at: closing.at.to_string(),
        announced_since: closing.since.to_string(),
    };
    ResourceLeasingPolicyStatus {
        observed_generation: status.observed_generation,
        phase: status.phase.map(write_phase),
        active_time_window: Some(status.active_time_window),
        conditions: status.conditions.iter().map(|condition| write_condition(condition, &stored.conditions)).collect(),
        last_applied_time: written(status.last_applied_time),
        next_transition: written(status.next_transition),
        next_transition_since: written(status.next_transition_since),
        last_closing: status.last_closing.map(closing),
        time_zone: status.time_zone.clone(),
        last_valid: status.last_valid.as_ref().map(write_spec),
    }
}

fn write_phase(phase: Phase) -> PolicyPhase {
    match phase {
        Phase::Pending => PolicyPhase::Pending,
        Phase::Active => PolicyPhase::Active,
        Phase::Inactive => PolicyPhase::Inactive,
        Phase::Failed => PolicyPhase::Failed,
    }
}

fn read_condition(written: &Condition) -> PolicyCondition {
    PolicyCondition {
        kind: written.type_.clone(),
        status: Truth::from(written.status.as_str()),
        observed_generation: written.observed_generation,
        last_transition_time: time(Some(&written.last_transition_time)),
        reason: written.reason.clone(),
        message: written.message.clone(),
    }
}

fn write_condition(condition: &PolicyCondition, stored: &[Condition]) -> Condition {
    // One that stays is written with its time as it was spelled.
    if let Some(same) = stored.iter().find(|stored| read_condition(stored) == *condition) {
        return same.clone();
    }
    Condition {
        type_: condition.kind.clone(),
        status: condition.status.word().to_owned(),
        observed_generation: condition.observed_generation,
        last_transition_time: written(condition.last_transition_time).unwrap_or_default(),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::option::of;
    use proptest::prelude::*;
    use serde_json::json;
    use topoloom_sync::policy::object::{Judgement, Policy};

    use super::super::selector::tests::selectors;
    use topoloom_sync::texts::TextMap;

    use super::*;

    fn texts() -> impl Strategy<Value = String> + Clone {
        "[a-zA-Z0-9:/ ]{0,8}"
    }

    fn specs() -> impl Strategy<Value = PolicySpec> {
        let windows = (texts(), texts(), prop::collection::vec(texts(), 0..3))
            .prop_map(|(start, end, days)| WindowSpec { start, end, days });
        let limits = (texts(), of(texts()), of(any::<i64>())).prop_map(|(resource, quantity, percent)| LimitSpec {
            resource,
            quantity,
            percent,
        });
        let lists = (prop::collection::vec(windows, 0..3), prop::collection::vec(limits, 0..3), of(selectors()));
        let words = (of(texts()), of(texts()), of(texts()), of(texts()));
        (texts(), any::<i32>(), lists, words, any::<bool>(), of(any::<i64>())).prop_map(
            |(cluster, priority, lists, words, force_reclaim, grace)| PolicySpec {
                cluster,
                virtual_cluster: words.0,
                priority,
                node_selector: lists.2,
                time_zone: words.1,
                days_apply_to: words.2,
                time_windows: lists.0,
                resource_limits: lists.1,
                force_reclaim,
                graceful_reclaim_period_seconds: grace,
                reclaim_via: words.3,
            },
        )
    }

    fn times() -> impl Strategy<Value = Timestamp> + Clone {
        (0..4_000_000_000_i64).prop_map(|second| Timestamp::from_second(second).unwrap())
    }

    fn statuses() -> impl Strategy<Value = PolicyStatus> {
        let condition = (texts(), "(True|False|Unknown|Partly)", of(0..9_i64), times(), texts(), texts()).prop_map(
            |(kind, status, observed_generation, since, reason, message)| PolicyCondition {
                kind,
                status: Truth::from(status.as_str()),
                observed_generation,
                last_transition_time: Some(since),
                reason,
                message,
            },
        );
        let phases = prop::sample::select(Phase::ALL.to_vec());
        let closing = (times(), times()).prop_map(|(at, since)| Announcement { at, since });
        let lists = (prop::collection::vec(condition, 0..4), of(specs()), of(closing));
        let all_times = (of(times()), of(times()), of(times()));
        (of(phases), any::<bool>(), lists, all_times, of(0..9_i64), of(texts())).prop_map(
            |(phase, active_time_window, lists, times, observed_generation, time_zone)| PolicyStatus {
                phase,
                active_time_window,
                conditions: lists.0,
                last_applied_time: times.0,
                observed_generation,
                next_transition: times.1,
                next_transition_since: times.2,
                last_closing: lists.2,
                time_zone,
                last_valid: lists.1,
            },
        )
    }

    proptest! {
        #[test]
        fn s8_a_spec_that_is_written_is_read_as_it_was(spec in specs()) {
            let stored = serde_json::to_value(write_spec(&spec)).unwrap();
            prop_assert_eq!(read_spec(&serde_json::from_value(stored).unwrap()), spec);
        }

        #[test]
        fn s8_a_status_that_is_written_is_read_as_it_was(status in statuses(), stored in statuses()) {
            let stored = write_status(&stored, &ResourceLeasingPolicyStatus::default());
            let written = serde_json::to_value(write_status(&status, &stored)).unwrap();
            prop_assert_eq!(read_status(&serde_json::from_value(written).unwrap()), status);
        }
    }

    fn stored(policy: serde_json::Value) -> ResourceLeasingPolicy {
        serde_json::from_value(policy).unwrap()
    }

    #[test]
    fn what_matters_of_an_object_is_read() {
        let read = object(
            &stored(json!({
                "metadata": {
                    "name": "nights", "uid": "p1", "generation": 4, "creationTimestamp": "2026-01-01T00:00:00Z",
                    "deletionTimestamp": "2026-02-01T00:00:00Z",
                },
                "spec": {"cluster": "east", "priority": 7, "resourceLimits": [{"resource": "cpu", "quantity": 4}]},
                "status": {
                    "nextTransition": "2026-03-01T00:00:00Z", "nextTransitionSince": "2026-02-28T00:00:00Z",
                    "lastValid": {"cluster": "west"},
                },
            })),
            "east",
        );
        assert_eq!((read.name.as_str(), &*read.uid, read.generation, read.deleting), ("nights", "p1", 4, true));
        assert_eq!(read.created, Some("2026-01-01T00:00:00Z".parse().unwrap()));
        assert_eq!((read.spec.priority, read.spec.resource_limits[0].quantity.as_deref()), (7, Some("4")));
        assert_eq!(read.last_valid.unwrap().cluster, "west");
        let since = read.announced.next.map(|next| next.since);
        assert_eq!(since, Some("2026-02-28T00:00:00Z".parse().unwrap()));
        let far = stored(json!({"metadata": {}, "spec": {"cluster": "east", "priority": 1e30}}));
        assert_eq!(object(&far, "east").spec.priority, i32::MAX);
    }

    #[test]
    fn s8_a_policy_whose_spec_cannot_be_read_exists_and_lends_nothing() {
        let windows = json!({"cluster": "east", "nodeSelector": {"nodeSelectorTerms": []}, "timeWindows": "always"});
        let policy = Policy::new(object(&stored(json!({"metadata": {"name": "p"}, "spec": windows})), "west"));
        let Judgement::NeverValid { problems } = policy.judgement() else { panic!("{:?}", policy.judgement()) };
        assert!(problems.to_string().starts_with("spec.timeWindows cannot be read: "), "{problems}");
        let labels = TextMap::default();
        assert!(policy.concerns("east", "vc", "w1", &labels) && !policy.concerns("west", "vc", "w1", &labels));
        // Nothing is known of what these select, or of whom they are for: so they could be for every binding and every node.
        for spec in [json!({"cluster": 5}), json!({"cluster": "west", "nodeSelector": 5}), json!("all"), json!(null)] {
            let policy = Policy::new(object(&stored(json!({"metadata": {"name": "p"}, "spec": spec})), "west"));
            assert!(policy.terms().is_none() && policy.concerns("west", "vc", "w1", &labels), "{spec}");
        }
        // Its last valid version stays in force.
        let status = json!({"lastValid": {"cluster": "east"}});
        let last =
            stored(json!({"metadata": {"name": "p"}, "spec": {"cluster": "east", "timeZone": 1}, "status": status}));
        assert!(Policy::new(object(&last, "east")).terms().is_some());
    }

    #[test]
    fn s7_for_whom_a_policy_may_be_is_known_before_it_is_judged() {
        let invalid = |cluster: &str| json!({"cluster": cluster, "timeZone": "Nowhere"});
        let policies = [
            (json!({"cluster": "east"}), json!(null), true),
            (json!({"cluster": "west"}), json!(null), false),
            (json!({}), json!(null), false),
            (json!({"cluster": "east", "virtualCluster": "vc"}), json!(null), true),
            (json!({"cluster": "east", "virtualCluster": "another"}), json!(null), false),
            (json!({"cluster": "east", "virtualCluster": ""}), json!(null), true),
            // The last valid version of an invalid one is in force.
            (invalid("west"), json!({"cluster": "east"}), true),
            (invalid("west"), json!({"cluster": "east", "virtualCluster": "another"}), false),
            (invalid("east"), json!({"cluster": "west"}), true),
            // What cannot be read could be anything.
            (json!({"cluster": 5}), json!(null), true),
            (json!("all"), json!(null), true),
            (json!({"cluster": "west", "timeWindows": 5}), json!(null), false),
            (json!({"cluster": "west", "timeWindows": 5}), json!({"cluster": "east"}), true),
            (json!({"cluster": "east", "virtualCluster": 5}), json!(null), true),
            (json!({"cluster": "east", "virtualCluster": "another", "timeWindows": 5}), json!(null), false),
        ];
        for (spec, last_valid, is_for) in policies {
            let object = json!({"metadata": {"name": "p"}, "spec": spec, "status": {"lastValid": last_valid}});
            let policy = stored(object.clone());
            let judged = Policy::new(super::object(&policy, "east"));
            assert_eq!(may_be_for(&policy, "east", "vc"), is_for, "{object}");
            assert_eq!(judged.is_for("east", "vc"), is_for, "{object}");
        }
        // Whether a spec is valid is not known yet: this one was given to another binding a moment ago.
        let status = json!({"lastValid": {"cluster": "east"}});
        let moved = stored(json!({"metadata": {"name": "p"}, "spec": {"cluster": "west"}, "status": status}));
        assert!(may_be_for(&moved, "east", "vc") && !Policy::new(object(&moved, "east")).is_for("east", "vc"));
    }

    #[test]
    fn conditions_of_others_are_written_as_they_are_stored() {
        let conditions = json!([
            {"type": "Audited", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "yesterday"},
            {"type": "Seen", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T02:00:00+02:00"},
        ]);
        let stored: ResourceLeasingPolicyStatus = serde_json::from_value(json!({"conditions": conditions})).unwrap();
        let written = write_status(&read_status(&stored), &stored);
        assert_eq!(serde_json::to_value(written.conditions).unwrap(), conditions);
    }
}
