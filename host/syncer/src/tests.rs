//! The words of `topoloom_sync`, which takes only keys from `topoloom_api`, beside those that `topoloom_api` declares: this is
//! the lowest crate that has both.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use topoloom_api::cluster_binding::{self, MAX_PERCENT, times};
use topoloom_api::resource_leasing_policy::PolicyPhase;
use topoloom_api::{ConditionStatus, ConditionType, Reason};
use topoloom_sync::bars::Bar;
use topoloom_sync::conditions::{self, ConditionFacts, LeaseState, NodeCondition, conditions};
use topoloom_sync::deletion::DeletionTiming;
use topoloom_sync::guard::{BrokenLimit, HeldBatch, Safety, Size, Spent};
use topoloom_sync::liveness::ContactTiming;
use topoloom_sync::policy::announced::Announced;
use topoloom_sync::policy::object::{Policy, PolicyObject};
use topoloom_sync::policy::shadow::Shadowing;
use topoloom_sync::policy::spec::{LimitSpec, PolicySpec, WindowSpec};
use topoloom_sync::policy::status::{self, PolicyStatus, decide_status};
use topoloom_sync::resources::read_list;
use topoloom_sync::sizes::overcommit::Overcommitted;
use topoloom_sync::truth::Truth;

fn now() -> Timestamp {
    "2026-08-03T12:00:00Z".parse().unwrap()
}

/// The types and reasons of the conditions of a policy with this spec and this last valid one.
fn of_policy(spec: PolicySpec, last_valid: Option<PolicySpec>, shadowing: &Shadowing) -> Vec<(String, String)> {
    let object = PolicyObject {
        name: "night".to_owned(),
        uid: "u".into(),
        generation: 1,
        created: None,
        deleting: false,
        spec,
        unreadable: None,
        last_valid,
        announced: Announced::default(),
    };
    let status = decide_status(&PolicyStatus::default(), &Policy::new(object), shadowing, now()).unwrap();
    status.conditions.into_iter().map(|condition| (condition.kind, condition.reason)).collect()
}

fn words<const N: usize>(of: [(ConditionType, Reason); N]) -> Vec<(String, String)> {
    of.map(|(kind, reason)| (kind.as_str().to_owned(), reason.as_str().to_owned())).into()
}

#[test]
fn the_conditions_of_a_policy_have_the_words_of_the_api() {
    use ConditionType::{Active, Shadowed, Valid};
    let valid = || PolicySpec { cluster: "east".to_owned(), ..PolicySpec::default() };
    let closed = || {
        let window = WindowSpec { start: "13:00".to_owned(), end: "13:01".to_owned(), days: Vec::new() };
        PolicySpec { time_windows: vec![window], ..valid() }
    };
    let broken = || {
        let limit = LimitSpec { resource: "cpu".to_owned(), quantity: None, percent: Some(101) };
        PolicySpec { resource_limits: vec![limit], ..valid() }
    };
    let passed = (Valid, Reason::ValidationPassed);
    assert_eq!(
        of_policy(valid(), None, &Shadowing::InForce),
        words([passed, (Active, Reason::ActiveTimeWindow), (Shadowed, Reason::InForce)])
    );
    assert_eq!(
        of_policy(closed(), None, &Shadowing::SelectsNone),
        words([passed, (Active, Reason::InactiveTimeWindow), (Shadowed, Reason::SelectsNoNode)])
    );
    assert_eq!(of_policy(valid(), None, &Shadowing::By("day".to_owned()))[2..], words([(Shadowed, Reason::Shadowed)]));
    let error = Reason::ValidationError;
    assert_eq!(
        of_policy(broken(), None, &Shadowing::Unknown),
        words([(Valid, error), (Active, error), (Shadowed, error)])
    );
    assert_eq!(
        of_policy(broken(), Some(valid()), &Shadowing::InForce),
        words([(Valid, error), (Active, error), (Shadowed, Reason::InForce)])
    );
    let types = [(status::VALID, Valid), (status::ACTIVE, Active), (status::SHADOWED, Shadowed)];
    for (ours, declared) in types {
        assert_eq!(ours, declared.as_str());
    }
    // The API has one more: a word of a later version.
    let phases: BTreeSet<&str> = status::Phase::ALL.iter().map(|phase| phase.word()).collect();
    let declared = PolicyPhase::ALL.iter().filter(|phase| **phase != PolicyPhase::Unknown);
    assert_eq!(phases, declared.map(|phase| phase.as_str()).collect::<BTreeSet<_>>());
}

#[test]
fn the_conditions_of_a_virtual_node_have_the_words_of_the_api() {
    let overcommitted = |requested: &str| {
        Overcommitted::of(&read_list([("cpu", requested)]).unwrap(), &read_list([("cpu", "2")]).unwrap())
    };
    let written = |requested: &str, lease: LeaseState| -> Vec<NodeCondition> {
        let facts = ConditionFacts {
            physical: &[],
            existing: &[],
            mirrored: &BTreeSet::new(),
            lease,
            overcommitted: &overcommitted(requested),
        };
        conditions(&facts, now()).write.unwrap()
    };
    let reason = |conditions: &[NodeCondition], kind: ConditionType| {
        conditions.iter().find(|condition| condition.kind == kind.as_str()).map(|found| found.reason.clone())
    };
    let fits = written("1", LeaseState::Renewed);
    assert_eq!(reason(&fits, ConditionType::Overcommitted).as_deref(), Some(Reason::Fits.as_str()));
    let short = written("3", LeaseState::Overdue);
    let lent_less = Reason::LentLessThanRequested.as_str();
    assert_eq!(reason(&short, ConditionType::Overcommitted).as_deref(), Some(lent_less));
    let unreachable = Reason::PhysicalClusterUnreachable.as_str();
    assert_eq!(reason(&short, ConditionType::Ready).as_deref(), Some(unreachable));
    assert_eq!(conditions::UNREACHABLE_REASON, unreachable);
    for (ours, declared) in [
        (Truth::True, ConditionStatus::True),
        (Truth::False, ConditionStatus::False),
        (Truth::Unknown, ConditionStatus::Unknown),
    ] {
        assert_eq!(ours.word(), declared.as_str());
    }
}

/// The type or the reason by which the API says that a bar is in force, where it has the word of the bar.
fn said_as(bar: Bar) -> Option<&'static str> {
    Some(match bar {
        Bar::Suspect => Reason::PhysicalClusterSuspect.as_str(),
        Bar::Unreachable => Reason::PhysicalClusterUnreachable.as_str(),
        // No condition can be written then.
        Bar::VirtualUnreachable => return None,
        Bar::Restored => ConditionType::Restored.as_str(),
        Bar::ClusterChanged => ConditionType::PhysicalClusterChanged.as_str(),
        Bar::Conflict => ConditionType::Conflict.as_str(),
        Bar::Paused => ConditionType::Paused.as_str(),
        // The reason is what is wrong with the spec, or that there is no binding: then there is no condition either.
        Bar::Invalid | Bar::Orphaned => return None,
        Bar::Observing => Reason::Observing.as_str(),
        Bar::ReadOnly => Reason::ReadOnly.as_str(),
    })
}

#[test]
fn a_bar_has_one_word_in_metrics_and_in_conditions() {
    for bar in Bar::ALL {
        let Some(said) = said_as(bar) else { continue };
        assert!(said.to_lowercase().ends_with(&bar.word().replace('-', "")), "{bar:?} {said}");
    }
}

#[test]
fn the_guard_names_the_limits_and_has_the_defaults_of_the_definition() {
    let limits = [
        (BrokenLimit::Pods { percent: 20 }, "maxEvictPercent", Reason::TooManyPodsRemoved),
        (BrokenLimit::Nodes { percent: 20 }, "maxNodesPercent", Reason::TooManyNodesRemoved),
    ];
    let definition = cluster_binding::definition();
    let safety = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/safety/properties";
    let safety = definition.pointer(safety).unwrap();
    for (broken, field, reason) in limits {
        let batch = HeldBatch {
            hash: "h".to_owned(),
            nodes: 1,
            pods: 1,
            size: Size::default(),
            spent: Spent::default(),
            causes: BTreeMap::new(),
            broken: vec![broken],
        };
        assert!(batch.to_string().contains(&format!("safety.{field} allows 20 %")), "{batch}");
        assert!(safety.get(field).is_some(), "{safety}");
        // The field says of what too many would go, and so does the reason.
        let what = if field.contains("Nodes") { "Nodes" } else { "Pods" };
        assert!(reason.as_str().contains(what), "{reason}");
    }
    let ours = Safety::default();
    assert_eq!(
        (i64::from(ours.max_evict_percent), i64::from(ours.max_nodes_percent), ours.announce),
        (MAX_PERCENT, MAX_PERCENT, times::ANNOUNCE.default)
    );
}

#[test]
fn s28_times_have_the_defaults_of_the_definition() {
    let contact = ContactTiming::default();
    assert_eq!(
        [contact.suspect, contact.unreachable, contact.empty],
        [times::SUSPECT.default, times::UNREACHABLE.default, times::EMPTY.default]
    );
    let deletion = DeletionTiming::default();
    assert_eq!(
        [deletion.recheck, deletion.eviction_deadline],
        [times::RECHECK.default, times::EVICTION_DEADLINE.default]
    );
}
