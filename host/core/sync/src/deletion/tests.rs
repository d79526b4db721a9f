use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn node() -> DeletedNode {
    DeletedNode {
        uid: "u1".into(),
        version: "7".into(),
        marked: Some(at(0)),
        cordon: Cordon::Cordoned,
        existence: Existence::Alive,
        finalizer: Finalizer::Present,
    }
}

fn pod(uid: &str) -> BoundPod {
    BoundPod {
        uid: uid.into(),
        class: PodClass::Ordinary,
        phase: Phase::Running,
        existence: Existence::Alive,
        refused: None,
        grace: None,
    }
}

/// A step as one word or two.
fn step(cause: DeletionCause, node: Option<&DeletedNode>, pods: &[BoundPod], leave: Leave, now: Timestamp) -> String {
    said(&facts(cause, node, pods, &Bars::default(), leave), now)
}

fn facts<'a>(
    cause: DeletionCause,
    node: Option<&'a DeletedNode>,
    pods: &'a [BoundPod],
    bars: &'a Bars,
    leave: Leave,
) -> DeletionFacts<'a> {
    DeletionFacts { cause, node, pods, bars, leave, evictions: Evictions::Allowed, timing: DeletionTiming::default() }
}

fn said(facts: &DeletionFacts<'_>, now: Timestamp) -> String {
    let second = |time: Timestamp| time.as_second() - 1_800_000_000;
    match next_step(facts, now) {
        DeletionStep::Mark => "mark".into(),
        DeletionStep::Wait { why, until } => format!("wait {why:?} {:?}", until.map(second)),
        DeletionStep::Remove { pods, look } => {
            let pods: Vec<_> = pods.iter().map(|(uid, how)| format!("{how:?} {uid}")).collect();
            format!("{}, look {}", pods.join(", "), second(look))
        }
        DeletionStep::Delete { precondition } => format!("delete {}", carried(&precondition)),
        DeletionStep::RemoveFinalizer { precondition } => format!("finalizer {}", carried(&precondition)),
        DeletionStep::LeftToOthers => "left".into(),
        DeletionStep::ReleaseClaim => "release".into(),
    }
}

fn carried(precondition: &Precondition) -> String {
    format!("{}@{}", precondition.uid(), precondition.version())
}

const GIVEN: fn(i64) -> Leave = |since| Leave::Given { since: at(since) };

#[test]
fn s10_the_steps_are_mark_remove_look_delete_finalizer_release() {
    use DeletionCause::Selector;
    let unmarked = DeletedNode { marked: None, cordon: Cordon::Open, ..node() };
    let pods = [pod("a"), pod("b")];
    let leaving = [BoundPod { existence: Existence::Terminating, ..pod("a") }];
    let terminating = DeletedNode { existence: Existence::Terminating, ..node() };
    assert_eq!(step(Selector, Some(&unmarked), &pods, GIVEN(0), at(0)), "mark");
    assert_eq!(step(Selector, Some(&node()), &pods, GIVEN(0), at(1)), "Evict a, Evict b, look 11");
    assert_eq!(step(Selector, Some(&node()), &leaving, GIVEN(0), at(11)), "wait Pods { blocking: 1 } Some(21)");
    assert_eq!(step(Selector, Some(&node()), &[], GIVEN(0), at(21)), "delete u1@7");
    assert_eq!(step(Selector, Some(&terminating), &[], GIVEN(0), at(22)), "finalizer u1@7");
    let without = DeletedNode { finalizer: Finalizer::Absent, ..terminating };
    assert_eq!(step(Selector, Some(&without), &[], GIVEN(0), at(22)), "left");
    assert_eq!(step(Selector, None, &[], GIVEN(0), at(23)), "release");
}

#[test]
fn s10_a_node_that_another_client_deletes_is_marked_at_once_and_keeps_its_finalizer_while_pods_are_there() {
    let deleted = DeletedNode { marked: None, existence: Existence::Terminating, ..node() };
    let cause = DeletionCause::DeletedByOthers;
    assert_eq!(step(cause, Some(&deleted), &[pod("a")], Leave::Held, at(0)), "mark");
    let marked = DeletedNode { marked: Some(at(0)), ..deleted };
    assert_eq!(step(cause, Some(&marked), &[pod("a")], Leave::Held, at(1)), "wait Held None");
    assert_eq!(step(cause, Some(&marked), &[pod("a")], GIVEN(1), at(1)), "Evict a, look 11");
    assert_eq!(step(cause, Some(&marked), &[], GIVEN(1), at(20)), "finalizer u1@7");
}

#[test]
fn s10_a_node_without_uid_or_version_is_neither_deleted_nor_let_go() {
    for existence in [Existence::Alive, Existence::Terminating] {
        for node in [DeletedNode { uid: "".into(), ..node() }, DeletedNode { version: "".into(), ..node() }] {
            let node = DeletedNode { existence, ..node };
            assert_eq!(step(DeletionCause::NodeGone, Some(&node), &[], GIVEN(0), at(0)), "wait Unguarded None");
        }
    }
}

#[test]
fn s10_a_cordon_that_was_taken_off_is_repaired() {
    let open = DeletedNode { cordon: Cordon::Open, ..node() };
    assert_eq!(step(DeletionCause::Selector, Some(&open), &[], GIVEN(0), at(0)), "mark");
}

#[test]
fn s10_pods_of_a_machine_that_is_gone_are_deleted_at_once_and_others_are_evicted_until_the_deadline() {
    let pods = [pod("a")];
    for (cause, first) in [
        (DeletionCause::NodeGone, "Delete a, look 10"),
        (DeletionCause::NodeReplaced, "Delete a, look 10"),
        (DeletionCause::Selector, "Evict a, look 10"),
        (DeletionCause::Withdrawn, "Evict a, look 10"),
        (DeletionCause::BindingDeleted, "Evict a, look 10"),
        (DeletionCause::Operator, "Evict a, look 10"),
        (DeletionCause::DeletedByOthers, "Evict a, look 10"),
    ] {
        assert_eq!(step(cause, Some(&node()), &pods, GIVEN(0), at(0)), first, "{cause:?}");
        assert_eq!(step(cause, Some(&node()), &pods, GIVEN(0), at(300)), "Delete a, look 310", "{cause:?}");
    }
}

#[test]
fn s10_an_eviction_that_is_refused_is_tried_again_less_and_less_often_until_the_deadline() {
    let refused = |at, times| [BoundPod { refused: Some(RefusedEviction { at, times }), ..pod("a") }];
    let said = |pods: &[BoundPod], now| step(DeletionCause::Selector, Some(&node()), pods, GIVEN(0), at(now));
    assert_eq!(said(&refused(at(20), 1), 20), "wait Pods { blocking: 1 } Some(21)");
    assert_eq!(said(&refused(at(20), 1), 21), "Evict a, look 31");
    assert_eq!(said(&refused(at(20), 4), 21), "wait Pods { blocking: 1 } Some(28)");
    assert_eq!(said(&refused(at(20), 900), 21), "wait Pods { blocking: 1 } Some(31)", "it looks every 10 s in between");
    assert_eq!(said(&refused(at(20), 900), 50), "Evict a, look 60");
    assert_eq!(
        said(&refused(at(299), 900), 300),
        "Delete a, look 310",
        "a budget without a controller answers 429 for ever"
    );
}

#[test]
fn s10_a_pod_that_is_being_deleted_with_the_grace_of_a_year_has_an_hour_once_the_deadline_is_over() {
    use DeletionCause::{DeletedByOthers, NodeGone, Selector};
    let (hour, year) = (Some(LONGEST_GRACE), Some(Duration::from_secs(31_536_000)));
    let said = |cause, node: &DeletedNode, grace, now| {
        let leaving = [BoundPod { existence: Existence::Terminating, grace, ..pod("a") }];
        step(cause, Some(node), &leaving, GIVEN(0), at(now))
    };
    assert_eq!(said(Selector, &node(), year, 299), "wait Pods { blocking: 1 } Some(309)");
    assert_eq!(said(Selector, &node(), year, 300), "Shorten a, look 310");
    assert_eq!(said(Selector, &node(), year, 3_900), "Shorten a, look 3910");
    assert_eq!(said(Selector, &node(), hour, 3_900), "wait Pods { blocking: 1 } Some(3910)", "it has had that");
    assert_eq!(said(NodeGone, &node(), year, 0), "Shorten a, look 10");
    let terminating = DeletedNode { existence: Existence::Terminating, ..node() };
    assert_eq!(said(DeletedByOthers, &terminating, year, 0), "Shorten a, look 10", "it does not come back");
    let ended = BoundPod { existence: Existence::Terminating, grace: year, phase: Phase::Failed, ..pod("a") };
    assert_eq!(step(Selector, Some(&node()), &[ended], GIVEN(0), at(300)), "delete u1@7");
}

#[test]
fn s10_without_the_right_to_evict_pods_are_deleted_after_the_deadline() {
    let (node, pods, bars) = (node(), [pod("a")], Bars::default());
    let facts = DeletionFacts {
        evictions: Evictions::Off,
        ..facts(DeletionCause::Selector, Some(&node), &pods, &bars, GIVEN(0))
    };
    assert_eq!(said(&facts, at(295)), "wait Pods { blocking: 1 } Some(300)");
    assert_eq!(said(&facts, at(300)), "Delete a, look 310");
}

#[test]
fn s10_a_deadline_begins_when_the_guard_allows_it_and_not_when_the_node_was_marked() {
    assert_eq!(
        step(DeletionCause::Selector, Some(&node()), &[pod("a")], GIVEN(4_000), at(4_000)),
        "Evict a, look 4010"
    );
}

#[test]
fn s10_pods_that_do_not_block_are_removed_and_not_waited_for() {
    for class in [PodClass::DaemonSet, PodClass::Mirror, PodClass::Placeholder, PodClass::System] {
        let alive = [BoundPod { class, ..pod("a") }];
        assert_eq!(
            step(DeletionCause::Selector, Some(&node()), &alive, GIVEN(0), at(0)),
            "Evict a, look 10",
            "{class:?}"
        );
        let leaving = [BoundPod { class, existence: Existence::Terminating, ..pod("a") }];
        assert_eq!(step(DeletionCause::Selector, Some(&node()), &leaving, GIVEN(0), at(0)), "delete u1@7", "{class:?}");
    }
    for phase in Phase::ALL {
        let step = step(DeletionCause::NodeGone, Some(&node()), &[BoundPod { phase, ..pod("a") }], GIVEN(0), at(0));
        // An ended one has a result.
        assert_eq!(step, if phase.is_final() { "delete u1@7" } else { "Delete a, look 10" }, "{phase}");
    }
}

#[test]
fn s22_no_pod_of_the_old_machine_is_left_when_another_machine_has_its_name() {
    let leaving = [BoundPod { class: PodClass::DaemonSet, existence: Existence::Terminating, ..pod("a") }];
    let said = step(DeletionCause::NodeReplaced, Some(&node()), &leaving, GIVEN(0), at(0));
    assert_eq!(said, "wait Pods { blocking: 1 } Some(10)");
}

#[test]
fn s5_s9_nothing_is_removed_while_something_forbids_it_or_the_guard_does_not_allow_it() {
    let (node, pods) = (node(), [pod("a")]);
    let gathering = Leave::Gathering { until: at(5) };
    assert_eq!(step(DeletionCause::Selector, Some(&node), &pods, gathering, at(0)), "wait Gathering Some(5)");
    assert_eq!(
        step(DeletionCause::Selector, Some(&node), &[], Leave::Held, at(0)),
        "wait Held None",
        "nor is the node"
    );
    for bar in Bar::ALL {
        let bars: Bars = [bar].into_iter().collect();
        let facts = facts(DeletionCause::NodeGone, Some(&node), &pods, &bars, GIVEN(0));
        assert_eq!(said(&facts, at(0)), format!("wait Barred({bar:?}) None"));
    }
}

#[test]
fn s5_a_node_is_marked_also_while_its_cluster_is_silent_and_not_where_nothing_may_be_written() {
    let unmarked = DeletedNode { marked: None, ..node() };
    for (bar, expected) in [
        (Bar::Suspect, "mark"),
        (Bar::Paused, "mark"),
        (Bar::ReadOnly, "wait Barred(ReadOnly) None"),
        (Bar::Observing, "wait Barred(Observing) None"),
    ] {
        let bars: Bars = [bar].into_iter().collect();
        let facts = facts(DeletionCause::DeletedByOthers, Some(&unmarked), &[], &bars, GIVEN(0));
        assert_eq!(said(&facts, at(0)), expected, "{bar:?}");
    }
}

#[test]
fn times_at_the_end_of_time_do_not_overflow() {
    assert_eq!(after(Timestamp::MAX, Duration::MAX), Timestamp::MAX);
    assert_eq!(pause(u32::MAX), Duration::from_secs(30));
}
