//! What follows when the API server refuses a write: an admission policy, a rule of access, or a quota says no. Trying
//! again does not help, and what was written before is removed, or reported as kept.

use super::super::attempt::{Attempt, AttemptOrder, AttemptOutcome, BindFailure, ObservedNode, What, WriteOutcome};
use super::super::sweep::{self, Sweep};
use super::*;

fn refused() -> WriteOutcome {
    WriteOutcome::Refused("a policy says no".into())
}

fn done() -> WriteOutcome {
    WriteOutcome::Done("99".into())
}

fn free(version: &str) -> Option<ObservedNode> {
    node_with(version, None, Holder::Unconfirmed, vec![])
}

fn mine(version: &str) -> Option<ObservedNode> {
    node_with(version, Some(Lock::read(MINE, Some(note(MINE, "u2")))), Holder::Unconfirmed, vec![])
}

/// The next order that is no pause.
fn order(attempt: &mut Attempt) -> AttemptOrder {
    match attempt.next(BEGIN, 0.0) {
        AttemptOrder::Pause(_) => attempt.next(BEGIN, 0.0),
        order => order,
    }
}

/// An attempt that is about to claim a free node.
fn claims() -> Attempt {
    let mut attempt = attempt_of(MINE, Duration::from_secs(28));
    assert_eq!(order(&mut attempt), AttemptOrder::Look { live: false });
    attempt.looked(clock(BEGIN), free("41"), None);
    assert_eq!(order(&mut attempt), AttemptOrder::Claim { version: "41".into() });
    attempt
}

/// An attempt whose Binding is under way.
fn binds() -> Attempt {
    let mut attempt = claims();
    attempt.answered(done());
    assert_eq!(order(&mut attempt), AttemptOrder::Bind { version: "7".into() });
    attempt
}

/// An attempt that was refused the Binding and is about to release the lock.
fn releases() -> Attempt {
    let mut attempt = binds();
    attempt.answered(refused());
    assert_eq!(
        order(&mut attempt),
        AttemptOrder::Fence { version: "7".into(), value: MINE.into() },
        "an earlier Binding may be under way"
    );
    attempt.answered(done());
    assert_eq!(order(&mut attempt), AttemptOrder::Look { live: true });
    attempt.looked(clock(BEGIN), mine("42"), None);
    assert_eq!(order(&mut attempt), AttemptOrder::Release { version: "42".into(), keys: vec![0] });
    attempt
}

/// It has ended because this was refused.
fn assert_ended(attempt: &mut Attempt, what: What, kept: bool) {
    let result = Err(BindFailure::Refused(what, "a policy says no".into()));
    assert_eq!(order(attempt), AttemptOrder::End(AttemptOutcome { result, kept }));
}

#[test]
fn a_refused_claim_ends_the_attempt_which_has_nothing_to_take_back() {
    let mut attempt = claims();
    attempt.answered(refused());
    assert_ended(&mut attempt, What::Claim, false);
}

#[test]
fn a_refused_claim_takes_back_an_earlier_one_without_an_answer_and_needs_no_fence_for_that() {
    let late = || {
        let mut attempt = claims();
        attempt.answered(WriteOutcome::Unknown("no answer".into()));
        assert_eq!(order(&mut attempt), AttemptOrder::Look { live: true });
        attempt.looked(clock(BEGIN), free("41"), None);
        assert_eq!(order(&mut attempt), AttemptOrder::Claim { version: "41".into() });
        attempt.answered(refused());
        assert_eq!(order(&mut attempt), AttemptOrder::Look { live: true });
        attempt
    };
    // It was applied meanwhile.
    let mut attempt = late();
    attempt.looked(clock(BEGIN), mine("42"), None);
    assert_eq!(order(&mut attempt), AttemptOrder::Release { version: "42".into(), keys: vec![0] });
    attempt.answered(done());
    assert_ended(&mut attempt, What::Claim, false);
    // It may still be.
    let mut attempt = late();
    attempt.looked(clock(BEGIN), free("41"), None);
    assert_ended(&mut attempt, What::Claim, true);
    // It cannot be any more: the node has another version.
    let mut attempt = late();
    attempt.looked(clock(BEGIN), free("43"), None);
    assert_ended(&mut attempt, What::Claim, false);
}

#[test]
fn a_refused_revocation_ends_the_attempt_and_the_lock_stays_where_it_is() {
    let mut attempt = attempt_of(MINE, Duration::from_secs(28));
    attempt.looked(clock(BEGIN), node_with("41", Some(expired()), Holder::Seen(pod("p1", "u1")), vec![]), None);
    assert_eq!(order(&mut attempt), AttemptOrder::Revoke { pod: pod("p1", "u1"), value: OLD.into() });
    attempt.answered(refused());
    assert_ended(&mut attempt, What::Revoke, false);
}

fn expired() -> Lock {
    Lock::read(OLD, Some(note(OLD, "u1")))
}

#[test]
fn a_refused_restoration_ends_the_attempt() {
    let waits = bound("p1", "u1", NODE);
    let look = |attempt: &mut Attempt, now| {
        attempt.looked(clock(now), node_with("41", None, Holder::Unconfirmed, vec![waits.clone()]), None);
    };
    let mut attempt = attempt_of(MINE, Duration::from_secs(28));
    look(&mut attempt, BEGIN);
    attempt.woken();
    look(&mut attempt, BEGIN + GRACE);
    assert_eq!(order(&mut attempt), AttemptOrder::AskUnrecorded { pod: key("p1", "u1") });
    attempt.unrecorded_asked(Some(&waits));
    assert_eq!(order(&mut attempt), AttemptOrder::Restore { version: "41".into(), key: 0, pod: key("p1", "u1") });
    attempt.answered(refused());
    assert_ended(&mut attempt, What::Restore, false);
}

#[test]
fn a_refused_binding_is_undone_by_a_fence_and_then_a_release() {
    let mut attempt = releases();
    attempt.answered(done());
    assert_ended(&mut attempt, What::Bind, false);
}

#[test]
fn a_refused_fence_keeps_the_lock_since_the_pod_may_still_be_bound() {
    let mut attempt = binds();
    attempt.answered(refused());
    assert_eq!(order(&mut attempt), AttemptOrder::Fence { version: "7".into(), value: MINE.into() });
    attempt.answered(WriteOutcome::Refused("nor this".into()));
    assert_ended(&mut attempt, What::Bind, true);
}

#[test]
fn a_refused_release_keeps_the_lock() {
    let mut attempt = releases();
    attempt.answered(WriteOutcome::Refused("nor this".into()));
    assert_ended(&mut attempt, What::Bind, true);
}

#[test]
fn a_sweep_that_is_refused_removes_nothing() {
    let begun = || {
        let mut sweep = Sweep::new(NODE.into(), TTL, Takeover::State, sweep::Mode::Repair);
        sweep.looked(clock(BEGIN), node_with("41", Some(expired()), Holder::Seen(pod("p1", "u1")), vec![]));
        assert!(matches!(sweep.next(), Some(sweep::SweepOrder::Revoke { .. })), "{sweep:?}");
        sweep
    };
    let mut sweep = begun();
    sweep.answered(&refused());
    // The pod is read once, since what was known of it may be old.
    assert_eq!(sweep.next(), Some(sweep::SweepOrder::AskHolder { pod: key("p1", "u1").named(), value: OLD.into() }));
    sweep.holder_asked();
    sweep.looked(clock(BEGIN), node_with("41", Some(expired()), Holder::Seen(pod("p1", "u1")), vec![]));
    sweep.answered(&refused());
    assert_eq!((sweep.next(), sweep.removed()), (None, false));

    let mut sweep = begun();
    sweep.answered(&done());
    assert_eq!(sweep.next(), Some(sweep::SweepOrder::Release { version: "41".into(), keys: vec![0] }));
    sweep.answered(&refused());
    assert_eq!((sweep.next(), sweep.removed()), (None, false));
}
