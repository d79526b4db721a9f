use super::super::examples::{broken, invalid, policy, window};
use super::super::object::PolicyObject;
use super::*;

/// A Monday.
const NOON: &str = "2026-06-01T12:00:00Z";
const EVENING: &str = "2026-06-01T20:00:00.75Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Open from 18:00 to 23:59, in Kolkata from 12:30 UTC on.
fn evenings(zone: Option<&str>) -> PolicyObject {
    let object = policy("evenings");
    let spec = PolicySpec {
        time_windows: vec![window("18:00", "23:59", &[])],
        time_zone: zone.map(str::to_owned),
        ..object.spec
    };
    PolicyObject { spec, ..object }
}

fn decide(current: &PolicyStatus, object: &PolicyObject, now: &str) -> Option<PolicyStatus> {
    decide_status(current, &Policy::new(object.clone()), &Shadowing::InForce, at(now))
}

fn first(object: &PolicyObject, now: &str) -> PolicyStatus {
    decide(&PolicyStatus::default(), object, now).unwrap()
}

/// Type, status and reason of each condition.
fn conditions(status: &PolicyStatus) -> Vec<String> {
    let word =
        |condition: &PolicyCondition| format!("{} {} {}", condition.kind, condition.status.word(), condition.reason);
    status.conditions.iter().map(word).collect()
}

fn condition<'a>(status: &'a PolicyStatus, kind: &str) -> &'a PolicyCondition {
    status.conditions.iter().find(|condition| condition.kind == kind).unwrap()
}

#[test]
fn table_of_10_phase_window_and_conditions() {
    let rows = [
        (broken("bad"), NOON, Phase::Failed, false, "Valid False ValidationError", "Active False ValidationError"),
        (evenings(None), EVENING, Phase::Active, true, "Valid True ValidationPassed", "Active True ActiveTimeWindow"),
        (
            evenings(None),
            NOON,
            Phase::Inactive,
            false,
            "Valid True ValidationPassed",
            "Active False InactiveTimeWindow",
        ),
        (policy("always"), NOON, Phase::Active, true, "Valid True ValidationPassed", "Active True ActiveTimeWindow"),
    ];
    for (object, now, phase, active, valid, is_active) in rows {
        let status = first(&object, now);
        assert_eq!((status.phase, status.active_time_window), (Some(phase), active), "{object:?}");
        assert_eq!(conditions(&status)[..2], [valid, is_active]);
        assert!(status.conditions.iter().all(|condition| condition.observed_generation == Some(1)));
        assert_eq!(status.observed_generation, Some(1));
    }
}

#[test]
fn table_of_10_a_status_is_written_only_where_something_differs() {
    for object in [evenings(None), policy("always"), broken("bad")] {
        let status = first(&object, NOON);
        for later in ["2026-06-01T12:00:00.5Z", "2026-06-01T17:59:59Z"] {
            assert_eq!(decide(&status, &object, later), None, "{}", object.name);
        }
    }
    // A clock that is set back changes nothing either, within the same state.
    assert_eq!(decide(&first(&evenings(None), NOON), &evenings(None), "2026-06-01T03:00:00Z"), None);
    let going = PolicyObject { deleting: true, ..evenings(None) };
    assert_eq!(decide(&PolicyStatus::default(), &going, NOON), None);
}

#[test]
fn table_of_10_the_times_move_with_what_they_are_about() {
    let object = evenings(None);
    let noon = first(&object, NOON);
    assert_eq!(noon.last_applied_time, Some(at(NOON)));
    let evening = decide(&noon, &object, EVENING).unwrap();
    // Whole seconds, as the object keeps them.
    let written = Some(at("2026-06-01T20:00:00Z"));
    assert_eq!(evening.last_applied_time, written);
    assert_eq!(condition(&evening, ACTIVE).last_transition_time, written);
    assert_eq!(condition(&evening, VALID).last_transition_time, Some(at(NOON)));
    // Another generation that says the same: seen, and nothing moves.
    let edited = PolicyObject { generation: 2, ..object };
    let seen = decide(&evening, &edited, "2026-06-01T21:00:00Z").unwrap();
    assert_eq!((seen.observed_generation, seen.last_applied_time), (Some(2), written));
    assert_eq!(condition(&seen, ACTIVE).last_transition_time, written);
    assert_eq!(condition(&seen, VALID).observed_generation, Some(2));
    // From one failure to another the phase stays; a change of the reason of Valid alone moves its time.
    let failed = first(&broken("bad"), NOON);
    let mut other = broken("bad");
    other.spec.time_zone = Some("Nowhere".to_owned());
    let again = decide(&failed, &other, EVENING).unwrap();
    assert_eq!(again.last_applied_time, Some(at(NOON)));
    assert_eq!(condition(&again, VALID).last_transition_time, Some(at(NOON)));
    assert!(condition(&again, VALID).message.contains("spec.timeZone must be"));
    let mut renamed = failed.clone();
    renamed.conditions[0].reason = "Other".to_owned();
    renamed.conditions[1].reason = "Other".to_owned();
    let corrected = decide(&renamed, &broken("bad"), EVENING).unwrap();
    assert_eq!(condition(&corrected, VALID).last_transition_time, written);
    assert_eq!(condition(&corrected, ACTIVE).last_transition_time, Some(at(NOON)));
}

#[test]
fn d5_the_message_of_an_invalid_policy_names_problem_value_and_place() {
    let mut object = broken("bad");
    object.spec.time_windows = vec![window("00:00", "23:59", &[]), window("00:00", "24:00", &[])];
    let status = first(&object, NOON);
    assert_eq!(
        condition(&status, VALID).message,
        "The spec is invalid: spec.timeWindows[1].end must be a time of the day as HH:MM from 00:00 to 23:59, got \"24:00\" \
         (did you mean \"23:59\"?); spec.resourceLimits[0].percent must be from 1 to 100, got 101. No valid version is known: \
         nodes that only this policy selects keep their size and taints."
    );
}

#[test]
fn s8_the_last_valid_spec_stands_in_the_status_and_is_kept_through_mistakes() {
    let good = evenings(Some("Asia/Kolkata"));
    let status = first(&good, NOON);
    assert_eq!(status.last_valid.as_ref(), Some(&good.spec));
    let bad = PolicyObject {
        generation: 2,
        spec: invalid(PolicySpec { time_zone: None, ..good.spec.clone() }),
        last_valid: status.last_valid.clone(),
        ..good.clone()
    };
    let failed = decide(&status, &bad, NOON).unwrap();
    assert_eq!(failed.last_valid.as_ref(), Some(&good.spec));
    assert_eq!((failed.phase, failed.active_time_window), (Some(Phase::Failed), false));
    assert!(condition(&failed, VALID).message.ends_with(". The last valid version stays in force."));
    // What is in force still closes, and that is announced in its own zone.
    assert_eq!((failed.next_transition, failed.time_zone.as_deref()), (status.next_transition, Some("Asia/Kolkata")));
    let open = decide(&failed, &bad, "2026-06-01T13:00:00Z").unwrap();
    assert_eq!(open.phase, Some(Phase::Failed));
    assert_eq!(
        condition(&open, ACTIVE).message,
        "The spec is invalid. Of the last valid version: A time window is open."
    );
    // Corrected, the present spec takes its place.
    let mended = PolicyObject { generation: 3, spec: evenings(None).spec, ..bad };
    let valid = decide(&failed, &mended, NOON).unwrap();
    assert_eq!((valid.phase, valid.last_valid), (Some(Phase::Inactive), Some(mended.spec)));
    // One that was never valid has none, and announces nothing.
    let never = first(&broken("bad"), NOON);
    assert_eq!((never.last_valid, never.next_transition, never.time_zone), (None, None, None));
}

#[test]
fn s18_the_status_has_the_zone_and_the_next_transition() {
    let status = first(&evenings(None), NOON);
    assert_eq!((status.time_zone.as_deref(), status.next_transition), (Some("UTC"), Some(at("2026-06-01T18:00:00Z"))));
    let status = first(&evenings(Some("asia/kolkata")), NOON);
    assert_eq!(status.time_zone.as_deref(), Some("Asia/Kolkata"));
    assert_eq!(status.next_transition, Some(at("2026-06-01T12:30:00Z")));
    let open = decide(&status, &evenings(Some("asia/kolkata")), "2026-06-01T12:30:00Z").unwrap();
    assert_eq!(open.next_transition, Some(at("2026-06-01T18:30:00Z")));
    assert_eq!(first(&policy("always"), NOON).next_transition, None);
}

#[test]
fn s9_the_status_says_since_when_it_announces_a_closing_and_keeps_that_while_the_windows_are_closed() {
    let object = evenings(None);
    let noon = first(&object, NOON);
    assert_eq!((noon.next_transition_since, noon.last_closing), (Some(at(NOON)), None));
    let open = decide(&noon, &object, "2026-06-01T18:00:00Z").unwrap();
    assert_eq!((open.next_transition, open.last_closing), (Some(at("2026-06-02T00:00:00Z")), None));
    let closed = decide(&open, &object, "2026-06-02T00:00:00.5Z").unwrap();
    let announced = closed.last_closing.unwrap();
    assert_eq!((announced.at, announced.since), (at("2026-06-02T00:00:00Z"), at("2026-06-01T18:00:00Z")));
    assert_eq!(decide(&closed, &object, "2026-06-02T12:00:00Z"), None, "it is at rest");
    // An earlier version wrote no such time: it is announced from now on.
    let earlier = PolicyStatus { next_transition_since: None, ..noon };
    assert_eq!(
        decide(&earlier, &object, "2026-06-01T13:00:00Z").unwrap().next_transition_since,
        Some(at("2026-06-01T13:00:00Z"))
    );
}

#[test]
fn s8_a_spec_that_cannot_be_read_is_invalid_and_says_why() {
    let why = "spec.timeWindows cannot be read: it is no list";
    let never = PolicyObject { unreadable: Some(why.to_owned()), ..policy("odd") };
    let status = first(&never, NOON);
    assert_eq!((status.phase, status.last_valid), (Some(Phase::Failed), None));
    assert!(condition(&first(&never, NOON), VALID).message.contains(why));
    let last = PolicyObject { last_valid: Some(evenings(None).spec), ..never };
    let before = PolicyStatus { last_valid: last.last_valid.clone(), ..PolicyStatus::default() };
    let failed = decide(&before, &last, EVENING).unwrap();
    assert_eq!(failed.last_valid, last.last_valid, "what cannot be read does not become the last valid spec");
    assert_eq!(failed.next_transition, Some(at("2026-06-02T00:00:00Z")));
}

#[test]
fn s18_a_policy_in_force_nowhere_names_what_shadows_it() {
    let decide = |current: &PolicyStatus, object: PolicyObject, shadowing: Shadowing| {
        decide_status(current, &Policy::new(object), &shadowing, at(NOON))
    };
    let new = PolicyStatus::default();
    let shadowed = decide(&new, policy("x"), Shadowing::By("night".to_owned())).unwrap();
    assert_eq!(conditions(&shadowed)[2], "Shadowed True Shadowed");
    assert!(condition(&shadowed, SHADOWED).message.contains("policy night comes before it"));
    // While it is not known, it stays as it is.
    assert_eq!(decide(&shadowed, policy("x"), Shadowing::Unknown), None);
    let in_force = decide(&shadowed, policy("x"), Shadowing::InForce).unwrap();
    assert_eq!(conditions(&in_force)[2], "Shadowed False InForce");
    let nowhere = decide(&shadowed, policy("x"), Shadowing::SelectsNone).unwrap();
    assert_eq!(conditions(&nowhere)[2], "Shadowed False SelectsNoNode");
    let bad = decide(&new, broken("bad"), Shadowing::SelectsNone).unwrap();
    assert_eq!(conditions(&bad)[2], "Shadowed False ValidationError");
    assert_eq!(decide(&new, policy("x"), Shadowing::Unknown).unwrap().conditions.len(), 2);
}

#[test]
fn conditions_of_other_programs_stay_and_ours_stand_once() {
    let object = policy("always");
    let mut status = first(&object, NOON);
    let (kind, word) = ("Audited".to_owned(), Truth::from("Partly"));
    let foreign = PolicyCondition { kind, status: word, ..status.conditions[0].clone() };
    let twice = status.conditions[0].clone();
    status.conditions.insert(0, foreign.clone());
    status.conditions.push(PolicyCondition { status: Truth::Unknown, ..twice });
    let corrected = decide(&status, &object, EVENING).unwrap();
    assert_eq!(corrected.conditions.len(), 4);
    assert_eq!(corrected.conditions[0], foreign);
    assert_eq!(condition(&corrected, VALID).last_transition_time, Some(at(NOON)));
    // A time that cannot be read is written.
    status.conditions[1].last_transition_time = None;
    let corrected = decide(&status, &object, EVENING).unwrap();
    assert_eq!(condition(&corrected, VALID).last_transition_time, Some(at("2026-06-01T20:00:00Z")));
    for phase in Phase::ALL {
        assert_eq!(Phase::parse(phase.word()), Some(phase));
    }
}
