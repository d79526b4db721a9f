//! Versions of a node that a read or a list has passed over: a lock may have come and gone in them (R18).

use super::super::attempt::{AttemptOrder, Sight};
use super::super::needs::LockKey;
use super::super::sightings::{LiveReads, NodeRead, PodSighting};
use super::*;

const NOW: Duration = Duration::from_secs(7);

fn node(version: &str, lock: Option<&str>) -> NodeRead {
    let lock = lock.map(|value| (LockKey::Shared, Lock::read(value, Some(note(value, "u1")))));
    let locks = lock.into_iter().collect();
    NodeRead { version: version.into(), uid: Some("node-uid".into()), locks, ..NodeRead::default() }
}

/// What is known after the watches have listed one node and no pods.
fn listed(read: NodeRead) -> Sightings {
    let mut known = Sightings::default();
    let _ = known.relisted_nodes([(NODE.into(), read)], NOW);
    known.lists_pods();
    let _ = known.relisted_pods([], &"10".into());
    known
}

fn sight(known: &Sightings, reads: &LiveReads) -> Sight {
    known.sight(NODE, &[LockKey::Shared], reads).unwrap().keys.remove(0)
}

/// Whether versions were passed over, and the value of the lock that disappeared.
fn seen(known: &Sightings) -> (bool, Option<String>) {
    let Sight { missed, left, .. } = sight(known, &LiveReads::default());
    (missed, left.map(|lock| lock.value.to_string()))
}

fn waits(name: &str, uid: &str) -> PodSighting {
    PodSighting { pod: bound(name, uid, NODE), keys: vec![LockKey::Shared] }
}

#[test]
fn a_read_passes_over_versions_until_the_watch_has_shown_them_and_the_locks_that_came_and_went() {
    let mut known = listed(node("10", None));
    assert_eq!(seen(&known), (false, None));
    let _ = known.read(&NODE.into(), node("10", None), NOW);
    assert_eq!(seen(&known), (false, None), "the same version");
    let _ = known.read(&NODE.into(), node("20", None), NOW);
    assert_eq!(seen(&known), (true, None));
    let _ = known.node(&NODE.into(), node("12", Some(FRESH)), NOW);
    assert_eq!(seen(&known), (true, Some(FRESH.to_owned())));
    let _ = known.node(&NODE.into(), node("15", None), NOW);
    assert_eq!(seen(&known), (true, Some(FRESH.to_owned())));
    assert_eq!(known.sizes().named, 1);
    // A version of this process, after that.
    let _ = known.written(&NODE.into(), &"20".into(), node("21", None), NOW);
    let _ = known.node(&NODE.into(), node("20", None), NOW);
    assert_eq!(seen(&known), (false, Some(FRESH.to_owned())));
    // From then on that lock is one that disappeared as any other.
    let _ = known.pod(waits("p1", "u1"));
    assert_eq!((seen(&known), known.sizes().named), ((false, None), 0));
    assert_eq!(sight(&known, &LiveReads::default()).waiting.len(), 1);
}

#[test]
fn a_lock_that_was_passed_over_and_whose_pod_is_known_to_be_bound_needs_no_read() {
    let mut known = listed(node("10", None));
    let _ = known.read(&NODE.into(), node("20", None), NOW);
    let _ = known.pod(waits("p1", "u1"));
    let _ = known.node(&NODE.into(), node("12", Some(FRESH)), NOW);
    let _ = known.node(&NODE.into(), node("22", None), NOW);
    assert_eq!(seen(&known), (false, None));
}

#[test]
fn what_the_watch_shows_and_what_this_process_writes_passes_over_nothing() {
    let mut known = listed(node("10", None));
    let _ = known.node(&NODE.into(), node("20", None), NOW);
    let _ = known.written(&NODE.into(), &"20".into(), node("30", Some(FRESH)), NOW);
    let _ = known.written(&NODE.into(), &"30".into(), node("40", None), NOW);
    assert_eq!(seen(&known), (false, Some(FRESH.to_owned())));
    let _ = known.pod(waits("p1", "u1"));
    assert_eq!(seen(&known), (false, None));
    // The watch has shown a version meanwhile that is not the one that was written over.
    let _ = known.written(&NODE.into(), &"45".into(), node("50", None), NOW);
    assert_eq!(seen(&known), (true, None));
    // A new node, shown by the watch from its beginning.
    let _ = known.node_gone(NODE);
    let _ = known.node(&NODE.into(), node("60", None), NOW);
    assert_eq!(seen(&known), (false, None));
    // The same node, where a request comes first.
    let _ = known.node_gone(NODE);
    let _ = known.read(&NODE.into(), node("70", None), NOW);
    assert_eq!(seen(&known), (true, None));
    let _ = known.node(&NODE.into(), node("65", None), NOW);
    assert_eq!(seen(&known), (true, None));
    let _ = known.node(&NODE.into(), node("70", None), NOW);
    assert_eq!(seen(&known), (false, None));
}

#[test]
fn a_list_of_its_pods_counts_if_it_was_asked_for_after_the_node_was_read() {
    let mut known = listed(node("10", None));
    let (mut reads, before) = (LiveReads::default(), known.moment());
    let _ = known.read(&NODE.into(), node("20", None), NOW);
    reads.listed(vec![], before);
    assert!(sight(&known, &reads).missed);
    reads.listed(vec![waits("p1", "u1")], known.moment());
    let Sight { missed, waiting, .. } = sight(&known, &reads);
    assert_eq!((missed, waiting), (false, vec![bound("p1", "u1", NODE)]));
    // For the node as it was then, and for this attempt.
    assert!(seen(&known).0);
    let _ = known.read(&NODE.into(), node("30", None), NOW);
    assert!(sight(&known, &reads).missed);
}

#[test]
fn a_list_of_nodes_passes_over_what_changed_until_all_pods_were_listed_after_it() {
    let relisted = |known: &mut Sightings, version: &str| {
        let _ = known.relisted_nodes([(NODE.into(), node(version, None))], NOW);
    };
    let mut known = listed(node("10", None));
    relisted(&mut known, "10");
    assert!(!seen(&known).0, "it has not changed");
    known.lists_pods();
    relisted(&mut known, "20");
    assert!(seen(&known).0);
    // The watch goes on from that list, and never shows what was before.
    let _ = known.node(&NODE.into(), node("30", None), NOW);
    assert!(seen(&known).0);
    let _ = known.read(&NODE.into(), node("40", None), NOW);
    let _ = known.node(&NODE.into(), node("40", None), NOW);
    assert!(seen(&known).0);
    // This list of pods began before.
    let _ = known.relisted_pods([], &"10".into());
    assert!(seen(&known).0);
    let _ = known.relisted_pods([], &"10".into());
    assert!(seen(&known).0, "and it is not known when this one did");
    known.lists_pods();
    let _ = known.relisted_pods([], &"10".into());
    assert!(!seen(&known).0);
    // A list shows the version that was read, and the watch never one before it.
    let _ = known.read(&NODE.into(), node("50", None), NOW);
    relisted(&mut known, "50");
    let _ = known.node(&NODE.into(), node("60", None), NOW);
    assert!(seen(&known).0);
}

#[test]
fn a_lock_that_names_a_pod_was_written_on_better_knowledge_and_one_without_says_nothing() {
    let mut known = listed(node("10", None));
    let _ = known.read(&NODE.into(), node("20", Some(FRESH)), NOW);
    assert!(!seen(&known).0);
    let _ = known.read(&NODE.into(), node("30", None), NOW);
    assert!(seen(&known).0);
    let _ = known.read(&NODE.into(), node("40", Some("lock")), NOW);
    let _ = known.read(&NODE.into(), node("50", None), NOW);
    assert!(seen(&known).0);
    let _ = known.written(&NODE.into(), &"50".into(), node("60", Some(OLD)), NOW);
    assert!(!seen(&known).0);
}

#[test]
fn r18_an_attempt_on_a_node_that_was_passed_over_lists_its_pods_before_it_claims() {
    let other = pod("p2", "u2");
    let world = |waiting| World { missed: true, waiting, ..World::new(Holder::Unconfirmed) };
    assert_eq!(held(&world(vec![]).decide(None, &other)), Some((Why::Unlisted, None)));
    assert_eq!(held(&world(vec![bound("p1", "u1", NODE)]).decide(None, &other)), Some((Why::Unrecorded, None)));

    let with = |missed, waiting: Vec<Pod>| {
        let mut node = node_with("7", None, Holder::Unconfirmed, waiting).unwrap();
        node.keys.iter_mut().for_each(|sight| sight.missed = missed);
        Some(node)
    };
    for waiting in [vec![], vec![bound("p1", "u1", NODE)]] {
        let mut attempt = attempt_of(MINE, Duration::from_secs(28));
        attempt.looked(clock(BEGIN), with(true, vec![]), None);
        assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::AskWaiting);
        attempt.holder_asked();
        assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Look { live: false });
        attempt.looked(clock(BEGIN), with(false, waiting.clone()), None);
        let next = attempt.next(BEGIN, 0.0);
        if waiting.is_empty() {
            assert_eq!(next, AttemptOrder::Claim { version: "7".into() });
        } else {
            assert!(matches!(&next, AttemptOrder::Wait { held, .. } if held.why == Why::Unrecorded), "{next:?}");
        }
    }
}
