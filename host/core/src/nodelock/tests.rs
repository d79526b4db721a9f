//! The state table of A10 as decisions N5 and N6 change it, the examples of AX that are decisions, and what is no evidence.

mod lent;
mod passed_over;
mod refused;
mod relisted;

use std::time::Duration;

use jiff::Timestamp;

use super::*;

const TTL: Duration = Duration::from_secs(300);
const NODE: &str = "gpu-1";
const NOW: &str = "2026-08-01T06:10:00Z";

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn key(name: &str, uid: &str) -> PodId {
    PodId { namespace: "default".into(), name: name.into(), uid: uid.into() }
}

/// A pod that was created long ago and is not bound.
fn pod(name: &str, uid: &str) -> Pod {
    Pod {
        key: key(name, uid),
        version: "7".into(),
        created: time("2026-08-01T05:00:00Z"),
        node: None,
        finished: false,
        started: false,
        deleting: false,
        revoked: None,
    }
}

fn bound(name: &str, uid: &str, node: &str) -> Pod {
    Pod { node: Some(node.into()), ..pod(name, uid) }
}

fn note(value: &str, uid: &str) -> Note {
    Note {
        value: value.into(),
        uid: uid.into(),
        pod: None,
        attempt: "a1".into(),
        instance: "replica-1".into(),
        deadline: time(NOW),
    }
}

/// What is known, with the value first seen now.
struct World {
    holder: Holder,
    confirmed: bool,
    waiting: Vec<Pod>,
    listed: bool,
    left: Option<PodKey>,
    missed: bool,
    seen_for: Duration,
    now: Timestamp,
    takeover: Takeover,
}

impl World {
    fn new(holder: Holder) -> Self {
        Self {
            holder,
            confirmed: true,
            waiting: Vec::new(),
            listed: true,
            left: None,
            missed: false,
            seen_for: Duration::ZERO,
            now: time(NOW),
            takeover: Takeover::State,
        }
    }

    fn decide(&self, lock: Option<&Lock>, claimant: &Pod) -> ClaimDecision {
        let steady = Duration::from_secs(100_000);
        let facts = Facts {
            node: NODE,
            holder: &self.holder,
            confirmed: self.confirmed,
            waiting: &self.waiting,
            listed: self.listed,
            left: self.left.as_ref(),
            missed: self.missed,
            first_seen: steady - self.seen_for,
            clock: Clock { wall: self.now, steady },
            ttl: TTL,
            takeover: self.takeover,
        };
        decide(lock, claimant, &facts)
    }
}

fn held(decision: &ClaimDecision) -> Option<(Why, Option<Duration>)> {
    match decision {
        ClaimDecision::HeldBy(held) => Some((held.why, held.left)),
        _ => None,
    }
}

fn taken(decision: &ClaimDecision) -> Option<(OrphanReason, bool)> {
    match decision {
        ClaimDecision::TakeOver { reason, revoke } => Some((*reason, revoke.is_some())),
        _ => None,
    }
}

const FRESH: &str = "2026-08-01T06:08:00Z,default,p1";
const OLD: &str = "2026-08-01T06:00:00Z,default,p1";

fn gone(for_seconds: u64) -> Holder {
    Holder::Gone { since: Duration::from_secs(100_000 - for_seconds) }
}

/// The table of A10: the lock, what is known of its pod, what another claimant does.
#[test]
fn a10_every_row_for_another_claimant() {
    let other = pod("p2", "u2");
    let held_for = |why, left: Option<u64>| (Some((why, left.map(Duration::from_secs))), None);
    let taken_for = |reason, revokes| (None, Some((reason, revokes)));
    let ended = |end: fn(&mut Pod)| {
        let mut pod = bound("p1", "u1", NODE);
        end(&mut pod);
        Holder::Seen(pod)
    };
    let unbound = |end: fn(&mut Pod)| {
        let mut pod = pod("p1", "u1");
        end(&mut pod);
        Holder::Seen(pod)
    };
    let rows = [
        // A pod that is being bound.
        (FRESH, unbound(|_| {}), held_for(Why::Binding, Some(180))),
        (OLD, unbound(|_| {}), taken_for(OrphanReason::Expired, true)),
        (FRESH, unbound(|pod| pod.deleting = true), taken_for(OrphanReason::Terminating, false)),
        (FRESH, unbound(|pod| pod.finished = true), taken_for(OrphanReason::Finished, false)),
        (FRESH, unbound(|pod| pod.revoked = Some(FRESH.into())), taken_for(OrphanReason::Revoked, false)),
        (FRESH, unbound(|pod| pod.revoked = Some(OLD.into())), held_for(Why::Binding, Some(180))),
        (FRESH, unbound(|pod| pod.started = true), held_for(Why::Binding, Some(180))),
        // A pod that waits for its device plugin.
        (FRESH, ended(|_| {}), held_for(Why::Allocating, Some(180))),
        (OLD, ended(|_| {}), held_for(Why::Stuck, None)),
        (FRESH, ended(|pod| pod.deleting = true), held_for(Why::Allocating, Some(180))),
        (FRESH, ended(|pod| pod.started = true), taken_for(OrphanReason::Started, false)),
        (FRESH, ended(|pod| pod.finished = true), taken_for(OrphanReason::Finished, false)),
        (FRESH, ended(|pod| pod.node = Some("gpu-2".into())), taken_for(OrphanReason::Elsewhere, false)),
        // A pod that is not there.
        (FRESH, Holder::Unconfirmed, held_for(Why::Unconfirmed, None)),
        (OLD, Holder::Unconfirmed, held_for(Why::Unconfirmed, None)),
        (FRESH, gone(0), held_for(Why::Vanished, Some(5))),
        (FRESH, gone(5), taken_for(OrphanReason::Gone, false)),
        // A value without a pod.
        ("2026-08-01T06:08:00Z", Holder::Unconfirmed, held_for(Why::Nameless, Some(180))),
        ("2026-08-01T06:08:00Z,,", Holder::Unconfirmed, held_for(Why::Nameless, Some(180))),
        ("2026-08-01T06:00:00Z", Holder::Unconfirmed, taken_for(OrphanReason::Nameless, false)),
        // A value that cannot be read.
        ("lock", Holder::Unconfirmed, held_for(Why::Unparsable, Some(300))),
        ("", Holder::Unconfirmed, held_for(Why::Unparsable, Some(300))),
    ];
    for (value, holder, wanted) in rows {
        let decision = World::new(holder.clone()).decide(Some(&Lock::read(value, None)), &other);
        assert_eq!((held(&decision), taken(&decision)), wanted, "{value} {holder:?}");
    }
    assert_eq!(World::new(Holder::Unconfirmed).decide(None, &other), ClaimDecision::Acquire);
}

#[test]
fn a10_the_pod_that_it_names_takes_it_whatever_its_age_and_replaces_the_value() {
    let mine = pod("p1", "u1");
    for (value, noted) in [(FRESH, true), (OLD, true), (FRESH, false)] {
        let lock = Lock::read(value, noted.then(|| note(value, "u1")));
        for holder in [Holder::Unconfirmed, Holder::Seen(mine.clone())] {
            assert_eq!(World::new(holder).decide(Some(&lock), &mine), ClaimDecision::AlreadyMine { noted }, "{value}");
        }
    }
}

#[test]
fn r4_a_pod_of_the_same_name_is_another_one() {
    let again = pod("p1", "u9");
    // With a note, the UID decides.
    let lock = Lock::read(FRESH, Some(note(FRESH, "u1")));
    assert_eq!(
        held(&World::new(Holder::Seen(again.clone())).decide(Some(&lock), &again)),
        Some((Why::Unconfirmed, None))
    );
    assert_eq!(taken(&World::new(gone(5)).decide(Some(&lock), &again)), Some((OrphanReason::Gone, false)));
    // Without one it is too young to be meant.
    let young = Pod { created: time("2026-08-01T06:08:06Z"), ..again.clone() };
    let foreign = Lock::read(FRESH, None);
    assert_eq!(
        held(&World::new(Holder::Seen(young.clone())).decide(Some(&foreign), &young)),
        Some((Why::Unconfirmed, None))
    );
    let skewed = Pod { created: time("2026-08-01T06:08:05Z"), ..again };
    assert_eq!(
        World::new(Holder::Unconfirmed).decide(Some(&foreign), &skewed),
        ClaimDecision::AlreadyMine { noted: false }
    );
    // A note about another value is void.
    let stale = Lock::read(FRESH, Some(note(OLD, "u1")));
    assert_eq!(stale.pod().unwrap().uid, None);
}

#[test]
fn ax_2_a_live_holder_is_named_in_the_refusal() {
    let decision = World::new(Holder::Seen(pod("p1", "u1"))).decide(Some(&Lock::read(FRESH, None)), &pod("p2", "u2"));
    let ClaimDecision::HeldBy(held) = decision else { panic!("{decision:?}") };
    let refusal = attempt::BindFailure::Held { node: NODE.into(), ttl: TTL, held }.to_string();
    assert!(
        refusal.starts_with("node lock contention: node gpu-1 has been locked within 5m0s by default/p1: "),
        "{refusal}"
    );
}

#[test]
fn a11_contention_is_one_class_and_everything_else_another() {
    use attempt::{BindFailure, Full, What};
    let held = LockHeld { holder: None, left: None, why: Why::Nameless };
    let crowded = |full| BindFailure::Crowded { node: NODE.into(), full, held: Some(held.clone()) };
    let contention = [
        crowded(Full::Node(64)),
        crowded(Full::Waiting(256)),
        crowded(Full::UnderWay(384)),
        BindFailure::Held { node: NODE.into(), ttl: TTL, held: held.clone() },
        BindFailure::Behind { node: NODE.into(), held: Some(held.clone()) },
    ];
    let others = [
        BindFailure::PodGone,
        BindFailure::PodReplaced("u9".into()),
        BindFailure::PodElsewhere("gpu-2".into()),
        BindFailure::PodTerminating,
        BindFailure::PodFinished,
        BindFailure::NodeGone,
        BindFailure::Lost,
        BindFailure::GaveUp(None),
        BindFailure::Stopping,
        BindFailure::TooLate,
        BindFailure::Refused(What::Claim, "no".into()),
        BindFailure::Unanswered(What::Bind, 5, "no".into()),
        BindFailure::Broke,
    ];
    let mut words = std::collections::BTreeSet::new();
    for (all, is_contention) in [(&contention[..], true), (&others[..], false)] {
        for failure in all {
            let said = failure.to_string();
            assert_eq!(failure.is_contention(), is_contention, "{said}");
            // What callers of the original look for.
            assert_eq!(said.starts_with("node lock contention: node "), is_contention, "{said}");
            words.insert(failure.word());
        }
    }
    assert_eq!(words, BindFailure::WORDS.into());
}

/// When attempts here begin.
const BEGIN: Duration = Duration::from_secs(100_000);

/// An attempt of p2 that has this long.
fn attempt_of(value: &str, time: Duration) -> attempt::Attempt {
    let request = attempt::Request {
        pod: key("p2", "u2"),
        node: NODE.into(),
        values: vec![value.into()],
        deadline: BEGIN + time,
        ttl: TTL,
        takeover: Takeover::State,
        retry: Retry::CLASSIC,
    };
    attempt::Attempt::new(request, Some(pod("p2", "u2")))
}

fn node_with(version: &str, lock: Option<Lock>, holder: Holder, waiting: Vec<Pod>) -> Option<attempt::ObservedNode> {
    let sight = attempt::Sight {
        lock,
        holder,
        confirmed: true,
        waiting,
        listed: true,
        left: None,
        missed: false,
        first_seen: BEGIN,
    };
    Some(attempt::ObservedNode { version: version.into(), kind: needs::NodeKind::Machine, keys: vec![sight] })
}

fn clock(steady: Duration) -> Clock {
    Clock { wall: time(NOW), steady }
}

/// The value of the attempt.
const MINE: &str = "2026-08-01T06:10:00.000000007Z,default,p2";

/// Its time ends while it waits, and it is woken after that.
#[test]
fn ax_14_an_attempt_that_waited_until_the_end_failed_by_contention() {
    use attempt::{AttemptOrder, AttemptOutcome, BindFailure};
    let end = BEGIN + Duration::from_millis(300);
    let mut attempt = attempt_of(MINE, Duration::from_millis(300));
    let node = || node_with("7", Some(Lock::read(FRESH, None)), Holder::Seen(pod("p1", "u1")), vec![]);
    let mut now = BEGIN;
    for _ in 0..3 {
        assert_eq!(attempt.next(now, 0.0), AttemptOrder::Look { live: false });
        attempt.looked(clock(now), node(), None);
        assert!(matches!(attempt.next(now, 0.0), AttemptOrder::Wait { until, .. } if until == end), "{now:?}");
        now += Duration::from_millis(100);
        attempt.woken();
    }
    let AttemptOrder::End(AttemptOutcome { result: Err(failure), kept: false }) = attempt.next(now, 0.0) else {
        panic!("{:?}", attempt.next(now, 0.0))
    };
    assert!(matches!(&failure, BindFailure::Held { held, .. } if held.why == Why::Binding), "{failure}");
}

/// The node is free, and its time ends before it has written anything: others had the node for all of it.
#[test]
fn ax_14_an_attempt_whose_turn_comes_after_its_time_failed_by_contention_and_one_that_has_begun_did_not() {
    use attempt::{AttemptOrder, AttemptOutcome, BindFailure, WriteOutcome};
    let held = || node_with("7", Some(Lock::read(FRESH, None)), Holder::Seen(pod("p1", "u1")), vec![]);
    let free = || node_with("8", None, Holder::Unconfirmed, vec![]);
    let (late, end) = (Duration::from_secs(28), BEGIN + Duration::from_secs(28));
    let turn = || {
        let mut attempt = attempt_of(MINE, late);
        attempt.looked(clock(BEGIN), held(), None);
        attempt.woken();
        attempt.looked(clock(BEGIN), free(), None);
        attempt
    };
    let AttemptOrder::End(AttemptOutcome { result: Err(failure), .. }) = turn().next(end, 0.0) else {
        panic!("it goes on")
    };
    assert!(matches!(&failure, BindFailure::Held { held, .. } if held.why == Why::Binding), "{failure}");
    assert!(failure.to_string().contains("by default/p1"), "{failure}");
    // An attempt that has written its lock in time, and waits for the API server, would have needed more time.
    let mut begun = turn();
    assert_eq!(begun.next(BEGIN, 0.0), AttemptOrder::Claim { version: "8".into() });
    begun.answered(WriteOutcome::Done("9".into()));
    assert!(matches!(begun.next(end, 0.0), AttemptOrder::Fence { .. }));
    begun.answered(WriteOutcome::Done("8".into()));
    assert_eq!(begun.next(end, 0.0), AttemptOrder::Look { live: true });
    begun.looked(clock(end), free(), None);
    assert_eq!(
        begun.next(end, 0.0),
        AttemptOrder::End(AttemptOutcome { result: Err(BindFailure::TooLate), kept: false })
    );
    let (node, within) = (NodeName::from(NODE), Duration::from_secs(28));
    let called = |waited: u64| BindFailure::TooLate.after(Duration::from_secs(waited), within, &node).word();
    assert_eq!((called(27), called(14), called(0)), ("contention", "too-late", "too-late"));
}

/// The Event of a caller that left names the holders of the node.
#[test]
fn the_failure_for_a_caller_that_left_names_the_holder_of_the_node() {
    use attempt::{AttemptOrder, AttemptOutcome};
    let mut attempt = attempt_of(MINE, Duration::from_secs(28));
    let node = node_with("7", Some(Lock::read(FRESH, None)), Holder::Seen(pod("p1", "u1")), vec![]);
    attempt.looked(clock(BEGIN), node, None);
    attempt.give_up();
    let AttemptOrder::End(AttemptOutcome { result: Err(failure), .. }) = attempt.next(BEGIN, 0.0) else {
        panic!("it goes on")
    };
    assert_eq!(failure.to_string(), "the caller gave up; it is held by default/p1: its pod is being bound");
    assert_eq!(failure.word(), "gave-up");
}

/// A claim that another one won has taken nothing.
#[test]
fn r20_a_lock_counts_as_taken_when_the_write_that_took_it_is_confirmed_and_not_before() {
    use attempt::{AttemptOrder, WriteOutcome};
    let dead = || {
        let gone = Holder::Gone { since: BEGIN - GRACE - GRACE };
        node_with("7", Some(Lock::read(FRESH, None)), gone, vec![])
    };
    let mut attempt = attempt_of(MINE, Duration::from_secs(28));
    for answer in [WriteOutcome::Conflict, WriteOutcome::Unknown("no answer".into())] {
        attempt.looked(clock(BEGIN), dead(), None);
        assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Claim { version: "7".into() });
        attempt.answered(answer);
        assert_eq!(attempt.took(), [], "the write is not confirmed");
        assert!(matches!(attempt.next(BEGIN, 0.0), AttemptOrder::Pause(_)));
    }
    // What had no answer was applied.
    attempt.looked(clock(BEGIN), node_with("8", Some(Lock::read(MINE, None)), Holder::Unconfirmed, vec![]), None);
    assert_eq!(attempt.took(), [OrphanReason::Gone]);
    let mut attempt = attempt_of(MINE, Duration::from_secs(28));
    attempt.looked(clock(BEGIN), dead(), None);
    assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Claim { version: "7".into() });
    attempt.answered(WriteOutcome::Done("8".into()));
    assert_eq!(attempt.took(), [OrphanReason::Gone]);
}

/// Several processes that wait for one node all write when it is free, and all but one are too late. That is no
/// failure.
#[test]
fn n2_tries_that_others_won_do_not_count_after_a_wait() {
    use attempt::{AttemptOrder, WriteOutcome};
    let mut attempt = attempt_of(MINE, Duration::from_secs(28));
    let held = || node_with("7", Some(Lock::read(FRESH, None)), Holder::Seen(pod("p1", "u1")), vec![]);
    for turn in 0..2 * Retry::CLASSIC.tries {
        attempt.looked(clock(BEGIN), node_with("7", None, Holder::Unconfirmed, vec![]), None);
        assert!(matches!(attempt.next(BEGIN, 0.0), AttemptOrder::Claim { .. }), "{turn}");
        attempt.answered(WriteOutcome::Conflict);
        assert!(matches!(attempt.next(BEGIN, 0.0), AttemptOrder::Pause(_)), "{turn}");
        assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Look { live: true }, "{turn}");
        attempt.looked(clock(BEGIN), held(), None);
        assert!(matches!(attempt.next(BEGIN, 0.0), AttemptOrder::Wait { .. }), "{turn}");
        attempt.woken();
    }
}

/// The process that takes the lock has marked the pod, and may write the node at any moment.
#[test]
fn n5_an_attempt_ends_when_its_pod_was_marked_while_the_binding_was_under_way() {
    use attempt::{AttemptOrder, AttemptOutcome, BindFailure, WriteOutcome};
    let marked =
        |version: &str, mark: &str| Pod { version: version.into(), revoked: Some(mark.into()), ..pod("p2", "u2") };
    for answer in [WriteOutcome::Conflict, WriteOutcome::Unknown("no answer".into())] {
        // By its own value; by that of another attempt, which may have taken the place of its own.
        for (mark, fences) in [(MINE, false), ("2026-08-01T06:09:00.000000003Z,default,p2", true)] {
            let mut attempt = attempt_of(MINE, Duration::from_secs(28));
            attempt.looked(clock(BEGIN), node_with("7", None, Holder::Unconfirmed, vec![]), None);
            assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Claim { version: "7".into() });
            attempt.answered(WriteOutcome::Done("8".into()));
            assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Bind { version: "7".into() });
            attempt.answered(answer.clone());
            assert!(matches!(attempt.next(BEGIN, 0.0), AttemptOrder::Pause(_)));
            assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::AskPod);
            attempt.asked(Some(marked("9", mark)));
            if fences {
                assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Fence { version: "9".into(), value: MINE.into() });
                attempt.answered(WriteOutcome::Done("10".into()));
            }
            assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Look { live: true }, "{mark}");
            attempt.looked(
                clock(BEGIN),
                node_with("8", Some(Lock::read(MINE, None)), Holder::Unconfirmed, vec![]),
                None,
            );
            assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Release { version: "8".into(), keys: vec![0] });
            attempt.answered(WriteOutcome::Done("11".into()));
            let over = AttemptOutcome { result: Err(BindFailure::Lost), kept: false };
            assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::End(over));
        }
    }
    // A pod that another change made newer is bound in that version.
    let mut attempt = attempt_of(MINE, Duration::from_secs(28));
    attempt.looked(clock(BEGIN), node_with("7", None, Holder::Unconfirmed, vec![]), None);
    attempt.next(BEGIN, 0.0);
    attempt.answered(WriteOutcome::Done("8".into()));
    attempt.answered(WriteOutcome::Conflict);
    attempt.next(BEGIN, 0.0);
    attempt.asked(Some(Pod { version: "9".into(), ..pod("p2", "u2") }));
    assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Look { live: true });
    attempt.looked(clock(BEGIN), node_with("8", Some(Lock::read(MINE, None)), Holder::Unconfirmed, vec![]), None);
    assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Bind { version: "9".into() });
}

/// The lock of a pod that lost it is restored five seconds after that was seen, if the API server confirms it; and if
/// the present lock is that of a pod that may still be bound, that pod is marked before.
#[test]
fn n6_a_lock_is_restored_after_its_pod_was_asked_for_and_over_no_lock_that_may_still_bind() {
    use attempt::{Attempt, AttemptOrder, WriteOutcome};
    const OTHER: &str = "2026-08-01T06:09:00.000000003Z,default,p2";
    const OLD_OF_P3: &str = "2026-08-01T06:00:00Z,default,p3";
    let waits = || bound("p1", "u1", NODE);
    let look = |attempt: &mut Attempt, lock: Option<&str>, holder: &Holder, at: Duration| {
        attempt.looked(
            clock(at),
            node_with("7", lock.map(|it| Lock::read(it, None)), holder.clone(), vec![waits()]),
            None,
        );
    };
    let asks = AttemptOrder::AskUnrecorded { pod: key("p1", "u1") };
    let restores = AttemptOrder::Restore { version: "7".into(), key: 0, pod: key("p1", "u1") };
    let revoked = Pod { revoked: Some(OLD_OF_P3.into()), ..pod("p3", "u3") };
    let cases = [
        (None, Holder::Unconfirmed, None),
        // An earlier attempt of the same pod may be under way in another process.
        (Some(OTHER), Holder::Unconfirmed, Some(pod("p2", "u2"))),
        (Some(OLD_OF_P3), Holder::Seen(pod("p3", "u3")), Some(pod("p3", "u3"))),
        (Some(OLD_OF_P3), Holder::Seen(revoked), None),
        (Some(OLD_OF_P3), Holder::Seen(bound("p3", "u3", "gpu-2")), None),
        (Some(OLD_OF_P3), gone(9), None),
    ];
    for (lock, holder, marks) in cases {
        let mut attempt = attempt_of(MINE, Duration::from_secs(28));
        look(&mut attempt, lock, &holder, BEGIN);
        let until = BEGIN + GRACE;
        assert!(matches!(attempt.next(BEGIN, 0.0), AttemptOrder::Wait { until: it, .. } if it == until), "{lock:?}");
        attempt.woken();
        look(&mut attempt, lock, &holder, until);
        assert_eq!(attempt.next(until, 0.0), asks, "{lock:?}");
        // The cache was behind: nothing is written, and the pod is read again after the same time.
        attempt.unrecorded_asked(Some(&Pod { started: true, ..waits() }));
        assert_eq!(attempt.next(until, 0.0), AttemptOrder::Look { live: false });
        look(&mut attempt, lock, &holder, until);
        assert!(
            matches!(attempt.next(until, 0.0), AttemptOrder::Wait { until: it, .. } if it == until + GRACE),
            "{lock:?}"
        );
        attempt.woken();
        look(&mut attempt, lock, &holder, until + GRACE);
        assert_eq!(attempt.next(until + GRACE, 0.0), asks, "{lock:?}");
        attempt.unrecorded_asked(Some(&waits()));
        if let Some(pod) = marks {
            let order = AttemptOrder::Revoke { pod, value: lock.unwrap_or_default().into() };
            assert_eq!(attempt.next(until + GRACE, 0.0), order, "{lock:?}");
            attempt.answered(WriteOutcome::Done("9".into()));
        }
        assert_eq!(attempt.next(until + GRACE, 0.0), restores, "{lock:?}");
    }
}

/// A foreign scheduler's locks under both keys are looked up once for each.
#[test]
fn n6_the_name_of_the_claimant_under_two_keys_is_asked_about_twice_and_no_more() {
    use attempt::{Attempt, AttemptOrder, ObservedNode, Request};
    let values = vec![MINE.into(), "2026-08-01T06:10:00.000000007Z".into()];
    let (takeover, retry) = (Takeover::State, Retry::CLASSIC);
    let deadline = BEGIN + Duration::from_secs(28);
    let request = Request { pod: key("p2", "u2"), node: NODE.into(), values, deadline, ttl: TTL, takeover, retry };
    let mut attempt = Attempt::new(request, Some(pod("p2", "u2")));
    let keys = ["2026-08-01T06:08:00Z,default,p2", "2026-08-01T06:07:00Z,default,p2"].into_iter();
    let sights =
        keys.flat_map(|it| node_with("7", Some(Lock::read(it, None)), Holder::Unconfirmed, vec![]).unwrap().keys);
    let node = ObservedNode { version: "7".into(), kind: needs::NodeKind::Machine, keys: sights.collect() };
    for _ in 0..2 {
        assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Look { live: false });
        attempt.looked(clock(BEGIN), Some(node.clone()), None);
        assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::AskPod);
        attempt.asked(Some(pod("p2", "u2")));
    }
    attempt.looked(clock(BEGIN), Some(node), None);
    assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Claim { version: "7".into() });
}

/// Of two vendors one may give a shared lock back too early (R18), and the watch of pods may not have shown the Binding.
#[test]
fn n6_r18_node_stays_held_until_outcome_of_last_holder_is_known() {
    use attempt::{AttemptOrder, Sight};
    let (left, other) = (key("p1", "u1").named(), pod("p2", "u2"));
    let world = |left, waiting| World { left, waiting, ..World::new(Holder::Unconfirmed) };
    assert_eq!(held(&world(Some(left.clone()), vec![]).decide(None, &other)), Some((Why::Unconfirmed, None)));
    let waits = world(Some(left), vec![bound("p1", "u1", NODE)]).decide(None, &other);
    assert_eq!(held(&waits), Some((Why::Unrecorded, None)));
    // A pod knows its own outcome.
    assert_eq!(world(Some(key("p2", "u2").named()), vec![]).decide(None, &other), ClaimDecision::Acquire);

    let mut attempt = attempt_of(MINE, Duration::from_secs(28));
    let Some(mut node) = node_with("7", None, Holder::Unconfirmed, vec![]) else { return };
    let left = Some(Lock::read(FRESH, Some(note(FRESH, "u1"))));
    node.keys = node.keys.into_iter().map(|sight| Sight { left: left.clone(), ..sight }).collect();
    attempt.looked(clock(BEGIN), Some(node), None);
    assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::AskHolder { pod: key("p1", "u1").named(), value: FRESH.into() });
    attempt.holder_asked();
    attempt.looked(clock(BEGIN), node_with("7", None, Holder::Unconfirmed, vec![]), None);
    assert_eq!(attempt.next(BEGIN, 0.0), AttemptOrder::Claim { version: "7".into() });
}

#[test]
fn ax_3_a_lock_expires_when_it_is_older_than_the_timeout_and_not_at_it() {
    let lock = Lock::read("2026-08-01T06:05:00Z", None);
    let at =
        |now: &str| World { now: time(now), ..World::new(Holder::Unconfirmed) }.decide(Some(&lock), &pod("p2", "u2"));
    assert_eq!(held(&at("2026-08-01T06:10:00Z")), Some((Why::Nameless, Some(Duration::ZERO))));
    assert_eq!(taken(&at("2026-08-01T06:10:00.001Z")), Some((OrphanReason::Nameless, false)));
}

#[test]
fn r5_a_claim_whose_process_died_before_the_binding_is_taken_a_moment_after_its_deadline() {
    let until = |deadline: &str| Note { deadline: time(deadline), ..note(FRESH, "u1") };
    let decided = |now: &str, seen_for: u64, note: Option<Note>, holder: Pod| {
        let world =
            World { now: time(now), seen_for: Duration::from_secs(seen_for), ..World::new(Holder::Seen(holder)) };
        let decision = world.decide(Some(&Lock::read(FRESH, note)), &pod("p2", "u2"));
        (held(&decision), taken(&decision))
    };
    let deadline = until("2026-08-01T06:08:28Z");
    let held_for = |why, millis| (Some((why, Some(Duration::from_millis(millis)))), None);
    let abandoned = (None, Some((OrphanReason::Abandoned, true)));
    let unbound = pod("p1", "u1");
    let rows = [
        // The deadline is by another clock, which may be five seconds apart.
        ("2026-08-01T06:08:10Z", 10, held_for(Why::Binding, 23_000)),
        ("2026-08-01T06:08:28Z", 28, held_for(Why::Binding, 5_000)),
        ("2026-08-01T06:08:32.999Z", 32, held_for(Why::Binding, 1)),
        ("2026-08-01T06:08:33Z", 33, abandoned),
        // That clock may be wrong altogether: a value is looked at for a moment before it counts as left behind.
        ("2026-08-01T06:09:00Z", 0, held_for(Why::Binding, 5_000)),
        ("2026-08-01T06:09:00Z", 4, held_for(Why::Binding, 1_000)),
        ("2026-08-01T06:09:00Z", 5, abandoned),
        // Older than any lock is older than that.
        ("2026-08-01T06:13:00.001Z", 0, (None, Some((OrphanReason::Expired, true)))),
    ];
    for (now, seen_for, wanted) in rows {
        assert_eq!(decided(now, seen_for, Some(deadline.clone()), unbound.clone()), wanted, "{now} {seen_for}");
    }
    // A clock that is ahead keeps a node for no longer than a lock lasts.
    let far = until("9999-12-30T22:00:00Z");
    assert_eq!(decided(NOW, 120, Some(far), unbound.clone()), held_for(Why::Binding, 180_000));
    assert_eq!(decided(NOW, 120, Some(until("-009999-01-02T02:00:00Z")), unbound.clone()), abandoned);
    // A lock without a note has no deadline, and the kubelet of a bound pod requests its devices, however late it is.
    assert_eq!(decided(NOW, 120, None, unbound), held_for(Why::Binding, 180_000));
    assert_eq!(decided(NOW, 120, Some(deadline), bound("p1", "u1", NODE)), held_for(Why::Allocating, 180_000));
}

/// A Binding of the dead process may still be on its way.
#[test]
fn r5_what_was_left_behind_is_taken_from_its_pod_before_the_node_is_written() {
    let lock = Lock::read(FRESH, Some(Note { deadline: time("2026-08-01T06:08:28Z"), ..note(FRESH, "u1") }));
    let node = || node_with("41", Some(lock.clone()), Holder::Seen(pod("p1", "u1")), vec![]);
    let steady = BEGIN + GRACE;
    let mut attempt = attempt_of(MINE, Duration::from_secs(28));
    assert!(matches!(attempt.next(steady, 0.0), attempt::AttemptOrder::Look { live: false }));
    attempt.looked(clock(steady), node(), None);
    let revoke = attempt.next(steady, 0.0);
    assert!(
        matches!(&revoke, attempt::AttemptOrder::Revoke { pod, value } if pod.key == key("p1", "u1") && **value == *FRESH)
    );
    attempt.answered(attempt::WriteOutcome::Done("8".into()));
    assert!(matches!(attempt.next(steady, 0.0), attempt::AttemptOrder::Claim { version } if *version == *"41"));

    let mut sweep = sweep::Sweep::new(NODE.into(), TTL, Takeover::State, sweep::Mode::Repair);
    sweep.looked(clock(steady), node());
    let attempt::AttemptOrder::Revoke { pod: from, value } = revoke else { return };
    assert_eq!(sweep.next(), Some(sweep::SweepOrder::Revoke { pod: from, value }));
    sweep.answered(&attempt::WriteOutcome::Done("8".into()));
    assert_eq!(sweep.next(), Some(sweep::SweepOrder::Release { version: "41".into(), keys: vec![0] }));
    sweep.answered(&attempt::WriteOutcome::Done("42".into()));
    assert!(sweep.removed() && sweep.findings().iter().all(|finding| finding.reason == OrphanReason::Abandoned));
}

#[test]
fn r11_r12_what_cannot_be_dated_is_as_old_as_it_was_seen() {
    for value in ["lock", "2026-08-01T07:10:00Z", "9999-12-31T23:59:59Z,default,p1"] {
        let lock = Lock::read(value, None);
        let after = |seconds| {
            let world = World { seen_for: Duration::from_secs(seconds), ..World::new(Holder::Seen(pod("p1", "u1"))) };
            world.decide(Some(&lock), &pod("p2", "u2"))
        };
        assert_eq!(held(&after(300)).unwrap().1, Some(Duration::ZERO), "{value}");
        assert!(taken(&after(301)).is_some(), "{value}");
    }
}

#[test]
fn n6_a_pod_of_the_cache_is_no_proof_against_a_value_that_has_only_its_name() {
    let started = Pod { started: true, ..bound("p1", "u1", NODE) };
    let decided = |confirmed, noted: bool| {
        let lock = Lock::read(FRESH, noted.then(|| note(FRESH, "u1")));
        World { confirmed, ..World::new(Holder::Seen(started.clone())) }.decide(Some(&lock), &pod("p2", "u2"))
    };
    assert_eq!(held(&decided(false, false)), Some((Why::Unconfirmed, None)));
    for (confirmed, noted) in [(true, false), (false, true), (true, true)] {
        assert_eq!(taken(&decided(confirmed, noted)), Some((OrphanReason::Started, false)));
    }
}

/// A watch that was not read for longer than a lock lasts (the process was frozen) proves nothing about age.
#[test]
fn n6_a_lock_that_names_no_pod_is_taken_for_its_age_only_after_the_pods_of_the_node_were_listed() {
    for value in ["lock", "", "2026-08-01T06:00:00Z", "2026-08-01T06:00:00Z,,"] {
        let lock = Lock::read(value, None);
        let world = |listed, waiting| World { listed, waiting, seen_for: TTL * 2, ..World::new(Holder::Unconfirmed) };
        let decided = |listed, waiting| world(listed, waiting).decide(Some(&lock), &pod("p2", "u2"));
        assert_eq!(held(&decided(false, vec![])), Some((Why::Unlisted, None)), "{value}");
        assert!(taken(&decided(true, vec![])).is_some(), "{value}");
        for listed in [false, true] {
            let waits = decided(listed, vec![bound("p1", "u1", NODE)]);
            assert_eq!(held(&waits), Some((Why::Unrecorded, None)), "{value}");
        }
    }
}

#[test]
fn n6_a_free_node_is_not_free_while_a_pod_waits_there_for_its_device_plugin() {
    let waits = bound("p1", "u1", NODE);
    let world = |waiting: Vec<Pod>, holder| World { waiting, ..World::new(holder) };
    let other = pod("p2", "u2");
    assert_eq!(
        held(&world(vec![waits.clone()], Holder::Unconfirmed).decide(None, &other)),
        Some((Why::Unrecorded, None))
    );
    // Nor under an orphaned lock, nor under an unnamed one, nor under the claimant's own.
    let dead = Lock::read(FRESH.replace("p1", "p3").as_str(), None);
    assert_eq!(held(&world(vec![waits.clone()], gone(9)).decide(Some(&dead), &other)), Some((Why::Unrecorded, None)));
    let mine = Lock::read(FRESH.replace("p1", "p2").as_str(), None);
    assert_eq!(
        held(&world(vec![waits.clone()], Holder::Unconfirmed).decide(Some(&mine), &other)),
        Some((Why::Unrecorded, None))
    );
    for over in [
        Pod { started: true, ..waits.clone() },
        Pod { finished: true, ..waits.clone() },
        Pod { node: Some("gpu-2".into()), ..waits.clone() },
        pod("p1", "u1"),
    ] {
        assert_eq!(
            world(vec![over.clone()], Holder::Unconfirmed).decide(None, &other),
            ClaimDecision::Acquire,
            "{over:?}"
        );
    }
}

#[test]
fn n6_a_lock_of_a_bound_pod_is_taken_over_for_age_only_where_that_is_configured() {
    let world = |value: &str, takeover| {
        let world = World {
            takeover,
            waiting: vec![bound("p1", "u1", NODE)],
            ..World::new(Holder::Seen(bound("p1", "u1", NODE)))
        };
        world.decide(Some(&Lock::read(value, None)), &pod("p2", "u2"))
    };
    assert_eq!(held(&world(OLD, Takeover::State)), Some((Why::Stuck, None)));
    assert_eq!(taken(&world(OLD, Takeover::Age)), Some((OrphanReason::Age, false)));
    assert_eq!(held(&world(FRESH, Takeover::Age)), Some((Why::Allocating, Some(Duration::from_secs(180)))));
}

#[test]
fn ax_8_only_the_exact_value_is_given_back() {
    let lock = Lock::read(FRESH, None);
    assert_eq!(release(Some(&lock), FRESH), Release::Remove);
    assert_eq!(release(Some(&lock), OLD), Release::NotMine, "a later attempt of the same pod");
    assert_eq!(release(None, FRESH), Release::Absent);
}

#[test]
fn a_bare_value_with_a_note_names_its_pod() {
    let value: LockValue = bare(time("2026-08-01T06:08:00.5Z")).into();
    let pod = Some(("default".into(), "p1".into()));
    let lock = Lock::read(&value, Some(Note { pod, ..note(&value, "u1") }));
    assert_eq!(lock.pod(), Some(&key("p1", "u1").named()));
    assert_eq!(Lock::read(&value, Some(note(&value, "u1"))).pod(), None);
}
