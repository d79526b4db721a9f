//! A node that another cluster lends: no device plugin is there that would release a lock, so nothing is locked (decision
//! S27).

use super::super::attempt::{AttemptOrder, AttemptOutcome, BindFailure, Bound, ObservedNode, What, WriteOutcome};
use super::super::needs::{LockKey, NodeKind};
use super::super::sightings::{Blocks, LiveReads, NodeRead, PodSighting};
use super::*;

const SEEN: Duration = Duration::from_secs(7);

fn lent(lock: Option<&str>, waiting: Vec<Pod>) -> Option<ObservedNode> {
    let node = node_with("41", lock.map(|value| Lock::read(value, None)), Holder::Seen(pod("p1", "u1")), waiting);
    node.map(|node| ObservedNode { kind: NodeKind::Virtual, ..node })
}

/// An attempt that is about to bind its pod to a lent node, whatever is there.
fn binds(lock: Option<&str>, waiting: Vec<Pod>) -> attempt::Attempt {
    let mut attempt = attempt_of(MINE, Duration::from_secs(28));
    assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Look { live: false });
    attempt.looked(clock(BEGIN), lent(lock, waiting), None);
    assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Bind { version: "7".into() }, "{lock:?}");
    assert_eq!(attempt.node(), NodeKind::Virtual);
    attempt
}

#[test]
fn s27_a_pod_that_needs_a_lock_is_bound_to_a_virtual_node_without_one_whatever_others_left_there() {
    for (lock, waiting) in
        [(None, vec![]), (Some(FRESH), vec![]), (Some("?"), vec![]), (None, vec![bound("p3", "u3", NODE)])]
    {
        let mut attempt = binds(lock, waiting);
        attempt.answered(WriteOutcome::Done("8".into()));
        let bound = AttemptOutcome { result: Ok(Bound::Now), kept: false };
        assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::End(bound));
        assert!(attempt.took().is_empty(), "no lock of others is taken over");
    }
}

#[test]
fn s27_an_attempt_that_fails_on_a_virtual_node_has_nothing_to_undo() {
    let mut refused = binds(Some(FRESH), vec![]);
    refused.answered(WriteOutcome::Refused("a policy says no".into()));
    let result = Err(BindFailure::Refused(What::Bind, "a policy says no".into()));
    assert_eq!(refused.next(BEGIN, 0.0), AttemptOrder::End(AttemptOutcome { result, kept: false }));
    // Without an answer the pod is read, and then bound as before.
    let mut unsure = binds(Some(FRESH), vec![]);
    unsure.answered(WriteOutcome::Unknown("no answer".into()));
    assert!(matches!(unsure.next(BEGIN, 0.0), AttemptOrder::Pause(_)));
    assert_eq!(unsure.next(BEGIN, 0.0), AttemptOrder::AskPod);
    unsure.asked(Some(Pod { version: "9".into(), ..pod("p2", "u2") }));
    assert_eq!(unsure.next(BEGIN, 0.0), AttemptOrder::Look { live: false });
    unsure.looked(clock(BEGIN), lent(Some(FRESH), vec![]), None);
    assert_eq!(unsure.next(BEGIN, 0.0), AttemptOrder::Bind { version: "9".into() });
}

/// What is known of one node, with a lock that its pod holds.
fn locked(kind: NodeKind) -> Sightings {
    let lock = (LockKey::Shared, Lock::read(FRESH, Some(note(FRESH, "u1"))));
    let mut known = Sightings::default();
    let read = NodeRead { version: "10".into(), kind, locks: vec![lock], ..NodeRead::default() };
    let _ = known.relisted_nodes([(NODE.into(), read)], SEEN);
    known.lists_pods();
    let holder = PodSighting { pod: pod("p1", "u1"), keys: vec![LockKey::Shared] };
    let _ = known.relisted_pods([holder], &"10".into());
    known
}

#[test]
fn s27_a_lock_on_a_virtual_node_keeps_no_pod_away() {
    for (kind, blocks) in [(NodeKind::Machine, true), (NodeKind::Virtual, false)] {
        let known = locked(kind);
        let terms = (TTL, Takeover::State);
        let held = known.blocked(NODE, &[LockKey::Shared], clock(SEEN), terms, Blocks::Held);
        assert_eq!(held.is_some(), blocks, "{kind:?}");
        // The sweeper still judges it: another program wrote it, and no device plugin releases it.
        assert_eq!(known.locked(), [NodeName::from(NODE)], "{kind:?}");
    }
}

#[test]
fn s27_a_pod_that_is_bound_to_a_virtual_node_waits_for_no_device_plugin_there() {
    for (kind, waits) in [(NodeKind::Machine, 1), (NodeKind::Virtual, 0)] {
        let mut known = Sightings::default();
        let read = NodeRead { version: "10".into(), kind, ..NodeRead::default() };
        let _ = known.relisted_nodes([(NODE.into(), read)], SEEN);
        let _ = known.pod(PodSighting { pod: bound("p1", "u1", NODE), keys: vec![LockKey::Shared] });
        let seen = known.sight(NODE, &[LockKey::Shared], &LiveReads::default()).unwrap();
        assert_eq!((seen.kind, seen.keys[0].waiting.len()), (kind, waits));
        assert_eq!((known.concerns(NODE), known.concerned().len()), (waits == 1, waits));
    }
}
