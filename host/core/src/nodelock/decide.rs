//! Whether a claimant takes a lock, and what it has to do before.

use super::holder::{Facts, LockHeld, LockState, OrphanReason, Pod, Why, is_owner, judge, judge_absent};
use super::record::{Lock, NamedHolder, PodKey};

/// What a claimant does about one key of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimDecision {
    /// It is free: it is written.
    Acquire,
    /// It names the claimant already, by an earlier attempt: it is replaced by the value of this one.
    AlreadyMine {
        /// By its UID. A name alone may be that of a younger pod, which only the API server knows yet.
        noted: bool,
    },
    /// Another pod holds it.
    HeldBy(LockHeld),
    /// No pod holds the present lock: it is replaced, in one write that names exactly that value.
    TakeOver {
        /// Why none does.
        reason: OrphanReason,
        /// The pod from which it is revoked first, so that this pod can no longer be bound under it.
        revoke: Option<PodKey>,
    },
}

/// Decides for a claimant whose pod was judged to be unbound, alive and the one that was asked for.
#[must_use]
pub fn decide(lock: Option<&Lock>, claimant: &Pod, facts: &Facts<'_>) -> ClaimDecision {
    let Some(lock) = lock else {
        // The pod of the last lock may be bound here and wait for the device plugin of another vendor, and a watch that is
        // behind does not know it.
        let left = facts.left.filter(|pod| !pod.may_be(&claimant.key));
        let left = left.map(|pod| LockHeld { holder: Some(pod.clone()), left: None, why: Why::Unconfirmed });
        // The same may be true of the pod of a lock that was never seen here.
        let missed = facts.missed.then_some(LockHeld { holder: None, left: None, why: Why::Unlisted });
        return judge_absent(facts).or(left).or(missed).map_or(ClaimDecision::Acquire, ClaimDecision::HeldBy);
    };
    if let NamedHolder::Pod { pod, time, note } = &lock.named {
        let noted = note.is_some();
        if is_owner(pod, *time, claimant) {
            return judge_absent(facts).map_or(ClaimDecision::AlreadyMine { noted }, ClaimDecision::HeldBy);
        }
    }
    match judge(lock, facts) {
        LockState::Held(held) => ClaimDecision::HeldBy(held),
        LockState::Over(reason) => {
            let revoke = lock.pod().filter(|_| reason.revokes()).cloned();
            ClaimDecision::TakeOver { reason, revoke }
        }
    }
}

/// What a process that may only release locks does about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It is exactly the value that was written: it is removed.
    Remove,
    /// It is the lock of another pod, or was replaced by a later attempt: nothing is left to do.
    NotMine,
    /// It is not there: nothing is left to do.
    Absent,
}

/// Decides for a holder of exactly this value. Never by the name in it.
#[must_use]
pub fn release(lock: Option<&Lock>, value: &str) -> Release {
    match lock {
        None => Release::Absent,
        Some(lock) if *lock.value == *value => Release::Remove,
        Some(_) => Release::NotMine,
    }
}

/// Whether a lock waits for a live look at its pod and nothing else.
#[must_use]
pub fn unconfirmed(held: &LockHeld) -> Option<&PodKey> {
    held.holder.as_ref().filter(|_| held.why == Why::Unconfirmed)
}
