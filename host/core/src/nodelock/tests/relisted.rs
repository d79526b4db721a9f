//! A list of pods that is older than what a request has shown of a pod.

use super::super::needs::LockKey;
use super::super::sightings::{LiveReads, NodeRead, PodSighting};
use super::*;

const NOW: Duration = Duration::from_secs(7);

fn sighting(pod: Pod, version: &str) -> PodSighting {
    PodSighting { pod: Pod { version: version.into(), ..pod }, keys: vec![LockKey::Shared] }
}

fn node(version: &str, locks: &[&str]) -> NodeRead {
    let lock = |value: &&str| (LockKey::Shared, Lock::read(value, Some(note(value, "u1"))));
    let locks = locks.iter().map(lock).collect();
    NodeRead { version: version.into(), uid: Some("node-uid".into()), locks, ..NodeRead::default() }
}

/// A lock has disappeared, and a request has shown that its pod is bound and waits: the watch of pods is behind.
fn waits() -> Sightings {
    let mut known = Sightings::default();
    let _ = known.relisted_nodes([(NODE.into(), node("10", &[FRESH]))], NOW);
    let _ = known.relisted_pods([sighting(pod("p1", "u1"), "7")], &"10".into());
    let _ = known.node(&NODE.into(), node("14", &[]), NOW);
    assert_eq!(known.sight(NODE, &[LockKey::Shared], &LiveReads::default()).unwrap().keys[0].waiting, []);
    let _ = known.pod_read(sighting(bound("p1", "u1", NODE), "12"));
    known
}

/// How many pods wait on the node, and whether the pod of the lock that disappeared is still looked for.
fn seen(known: &Sightings) -> (usize, bool) {
    let sight = known.sight(NODE, &[LockKey::Shared], &LiveReads::default()).unwrap().keys.remove(0);
    (sight.waiting.len(), sight.left.is_some())
}

#[test]
fn r18_a_pod_that_a_request_has_shown_as_waiting_still_waits_after_an_older_list() {
    let mut known = waits();
    assert_eq!(seen(&known), (1, false));
    let _ = known.relisted_pods([sighting(pod("p1", "u1"), "7")], &"11".into());
    assert_eq!(seen(&known), (1, false));
    // A list from before the pod was created.
    let _ = known.relisted_pods([], &"6".into());
    assert_eq!(seen(&known), (1, false));
    assert_eq!(known.sizes().pods, 1);
}

#[test]
fn a_list_that_is_not_older_replaces_what_a_request_has_shown() {
    let mut known = waits();
    let started = Pod { started: true, ..bound("p1", "u1", NODE) };
    let _ = known.relisted_pods([sighting(started, "13")], &"13".into());
    assert_eq!((seen(&known), known.sizes().pods), ((0, false), 1));
    let mut known = waits();
    let _ = known.relisted_pods([], &"12".into());
    assert_eq!((seen(&known), known.sizes().pods), ((0, false), 0));
    // Versions that have no order.
    let mut known = waits();
    let _ = known.relisted_pods([], &"of another kind".into());
    assert_eq!((seen(&known), known.sizes().pods), ((0, false), 0));
}

#[test]
fn after_a_restore_a_list_replaces_everything() {
    let mut known = waits();
    known.forget_pods();
    let _ = known.relisted_pods([], &"3".into());
    assert_eq!((seen(&known), known.sizes().pods), ((0, false), 0));
}
