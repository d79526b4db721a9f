//! One attempt to bind a pod, from the first look to the answer: what to ask, what to write, and what to believe.
//!
//! It does no I/O. It returns one [`AttemptOrder`] at a time and gets its answer. The carrier of the orders may be slow, may
//! be frozen in between, and may not know whether a write was applied ([`WriteOutcome::Unknown`]); the attempt never takes a
//! missing answer for a refusal.
//!
//! ```text
//!            look ──held──► wait                       ┌── conflict, unknown: pod, then node, read live ──┐
//!             │ ▲ conflict, unknown                    ▼                                                  │
//!  pod ─────► │ └───────────── claim ──confirmed──► bind ────────────────────────────────────────────────┘
//!             └─expired─► revoke ─┘                    │ done              │ refused, lost, too late
//!                                                      ▼                   ▼
//!                                                   bound        fence ──confirmed──► release ──► failed
//!                                                                  └─unconfirmed─────────────────► failed, lock kept
//! ```
//!
//! Everything to the left of the fence is `Phase::Doing`, everything from it on is `Phase::Undoing`. What has to be
//! undone follows from what was sent: `Claimed` says which of its values may be on the node, `Binding` whether the pod
//! may be bound.
//!
//! # Why no pod is bound under the lock of another one
//!
//! * A process that takes the value of this attempt away, while its pod is alive, has marked the pod with that value first
//!   (revoke, fence), and a Binding carries a version of the pod that was read without that mark. A mark that came later
//!   than that read has changed the version, so the Binding is refused, and the next read, which finds that mark or another
//!   that was not there before, ends the attempt.
//! * That holds for several attempts of one pod, too: the later one replaces the value before it can fence.
//!
//! # A virtual node
//!
//! Nothing is locked there, since no device plugin would release it: the attempt goes on as one of a pod that needs no
//! lock, whatever locks others have left on the node.

mod failure;
mod order;

use std::sync::Arc;
use std::time::Duration;

pub use failure::{BindFailure, Full, What};
pub use order::{AttemptOrder, AttemptOutcome, Bound, ObservedNode, Request, Sight, WriteOutcome};

use super::decide::{ClaimDecision, Release, decide, release, unconfirmed};
use super::holder::{Clock, GRACE, Holder, LockHeld, OrphanReason, Pod, Why, is_owner};
use super::needs::NodeKind;
use super::record::{Lock, NamedHolder, PodId, PodKey};
use crate::names::LockValue;
use crate::version::ResourceVersion;

/// One attempt.
#[derive(Debug, Clone, Hash)]
pub struct Attempt {
    request: Request,
    /// The pod of this attempt, as it was judged last.
    pod: Option<Pod>,
    phase: Phase,
    /// The order that is under way, last, and before it those that follow without another decision.
    plan: Vec<AttemptOrder>,
    claimed: Claimed,
    binding: Binding,
    caller: Caller,
    /// What the claim that is under way takes over.
    taking: Taking,
    /// Why locks of others were taken over by claims that are confirmed.
    took: Vec<OrphanReason>,
    /// Tries of the present kind that did not succeed.
    tries: u32,
    /// The next try follows after a pause.
    pause: bool,
    /// Values of foreign schedulers that have the name of this attempt's pod, one for each key at most, and whether the API
    /// server was asked for the pod after they were seen: only then is it this pod that they mean, and not a younger one of
    /// that name.
    vouched: Vec<(LockValue, bool)>,
    /// A pod that is bound here without a lock, the position of its key, and since when that is known.
    unrecorded: Option<(PodId, usize, Duration)>,
    /// The holder of the node at the last look, until this attempt has tried to write its lock: a deadline before that
    /// is contention, also between the look that finds the node free and that write.
    held: Option<LockHeld>,
    /// What the node was at the last look.
    node: NodeKind,
}

/// Which way the attempt goes.
#[derive(Debug, Clone, Hash)]
enum Phase {
    /// Towards a bound pod.
    Doing,
    /// Back, because of this.
    Undoing {
        /// Why.
        failure: BindFailure,
    },
}

/// Which of this attempt's values may be on the node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Claimed {
    /// Nothing.
    No,
    /// A claim was not answered: it is applied, or may be for as long as the node is this version.
    Unanswered {
        /// The version that it was decided on.
        version: ResourceVersion,
    },
    /// They do.
    Yes,
}

/// Whether this attempt may have bound the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Binding {
    /// No Binding was sent.
    No,
    /// One was sent, and each was answered.
    Sent,
    /// One was not answered: the pod may have been bound by it before it vanished.
    Unanswered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Caller {
    Waits,
    Gone,
}

/// What a claim takes over.
#[derive(Debug, Clone, Default, Hash)]
struct Taking {
    reasons: Vec<OrphanReason>,
    /// A lock of an earlier attempt, which may have bound the pod before it vanished.
    own: bool,
}

impl Attempt {
    /// An attempt for a pod as a cache has it, or not at all.
    #[must_use]
    pub fn new(request: Request, cached: Option<Pod>) -> Self {
        let mut attempt = Self {
            request,
            pod: None,
            phase: Phase::Doing,
            plan: vec![AttemptOrder::AskPod],
            claimed: Claimed::No,
            binding: Binding::No,
            caller: Caller::Waits,
            taking: Taking::default(),
            took: Vec::new(),
            tries: 0,
            pause: false,
            vouched: Vec::new(),
            unrecorded: None,
            held: None,
            node: NodeKind::Machine,
        };
        // A cache without the pod, or with another pod of that name, may be behind: the API server decides. If the
        // cache shows that the right pod has ended, that is final.
        if let Some(pod) = cached.filter(|pod| pod.key == attempt.request.pod) {
            attempt.asked(Some(pod));
        }
        attempt
    }

    /// What to do now. `random` is from 0 up to 1 and spreads pauses.
    pub fn next(&mut self, now: Duration, random: f64) -> AttemptOrder {
        if std::mem::take(&mut self.pause)
            && let Some(pause) = self.request.retry.pause(self.tries, random)
        {
            return AttemptOrder::Pause(pause);
        }
        match self.caller {
            Caller::Gone => self.stop(BindFailure::GaveUp(None)),
            Caller::Waits if now >= self.request.deadline => self.stop(BindFailure::TooLate),
            Caller::Waits => {}
        }
        match self.plan.last().cloned() {
            Some(AttemptOrder::Wait { held, until }) => {
                AttemptOrder::Wait { held, until: until.min(self.request.deadline) }
            }
            Some(order) => order,
            // A plan always ends with what decides on the next one.
            None => AttemptOrder::AskPod,
        }
    }

    /// The caller does not wait any more. What is under way is brought to its end.
    pub fn give_up(&mut self) {
        self.caller = Caller::Gone;
    }

    /// What it is about.
    #[cfg(test)]
    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// Why locks of others were taken over.
    #[must_use]
    pub fn took(&self) -> &[OrphanReason] {
        &self.took
    }

    /// What the node was at the last look; a machine before the first.
    #[must_use]
    pub fn node(&self) -> NodeKind {
        self.node
    }

    /// The answer to [`AttemptOrder::AskPod`].
    pub fn asked(&mut self, pod: Option<Pod>) {
        let own = judge_own(&self.request, pod.as_ref());
        if matches!(own, Own::Here) {
            // The pod is bound here, so nothing is undone: the device plugin needs the lock.
            let how = if self.binding == Binding::No { Bound::Before } else { Bound::Now };
            return self.end(Ok(how));
        }
        if let Own::Over(failure @ (BindFailure::PodGone | BindFailure::PodReplaced(_))) = &own
            && (self.binding == Binding::Unanswered || self.taking.own)
        {
            // A kubelet may know it as bound, and ask for its devices for some time yet: the lock stays.
            let failure = self.failure().unwrap_or(failure).clone();
            return self.end(Err(failure));
        }
        match (&self.phase, own) {
            (Phase::Doing, Own::Over(failure)) => self.undo_unfenced(failure),
            (Phase::Doing, _) if self.is_marked_anew(pod.as_ref()) => {
                self.pod = pod;
                self.undo(BindFailure::Lost);
            }
            (Phase::Doing, _) => {
                self.pod = pod;
                self.vouched.iter_mut().for_each(|(_, asked)| *asked = true);
                self.plan = vec![AttemptOrder::Look { live: self.claimed != Claimed::No }];
            }
            (Phase::Undoing { .. }, _) if self.is_keyless() => self.fail(),
            (Phase::Undoing { .. }, Own::Over(_)) => self.look_and_release(),
            (Phase::Undoing { .. }, _) => {
                self.pod = pod;
                self.fence();
            }
        }
    }

    /// The answer to [`AttemptOrder::Look`]; `pod` is this attempt's, where a cache has a later version of it.
    pub fn looked(&mut self, clock: Clock, node: Option<ObservedNode>, pod: Option<Pod>) {
        let Some(node) = node else { return self.node_gone() };
        self.node = node.kind;
        let values = node.keys.iter().zip(&self.request.values);
        let mine: Vec<bool> = values.map(|(key, value)| release(key.lock.as_ref(), value) == Release::Remove).collect();
        if matches!(self.phase, Phase::Undoing { .. }) {
            return self.release(node.version, &mine);
        }
        // A pod that needs no key is bound without one.
        if mine.iter().all(|mine| *mine) {
            if !self.is_keyless() {
                self.claimed = Claimed::Yes;
            }
            // A claim without an answer was applied after all.
            self.took.append(&mut self.taking.reasons);
            self.held = None;
            return self.bind();
        }
        if self.binding != Binding::No {
            return self.undo(BindFailure::Lost);
        }
        // The lock is not ours yet, so a later version of the pod is as good as the one before.
        if let Some(pod) = pod.filter(|pod| pod.key == self.request.pod) {
            match judge_own(&self.request, Some(&pod)) {
                Own::Free => self.pod = Some(pod),
                Own::Here => return self.end(Ok(Bound::Before)),
                Own::Over(failure) => return self.undo_unfenced(failure),
            }
        }
        self.claim(clock, node);
    }

    fn node_gone(&mut self) {
        self.claimed = Claimed::No;
        match self.phase {
            Phase::Undoing { .. } => self.fail(),
            Phase::Doing => self.undo(BindFailure::NodeGone),
        }
    }

    fn claim(&mut self, clock: Clock, node: ObservedNode) {
        if node.kind == NodeKind::Virtual {
            return self.bind_unlocked();
        }
        let Some(claimant) = self.pod.clone() else {
            self.plan = vec![AttemptOrder::AskPod];
            return;
        };
        let mut taking = Taking::default();
        let mut plan = vec![AttemptOrder::Claim { version: node.version.clone() }];
        for (at, sight) in node.keys.iter().enumerate() {
            let facts = sight.facts(&self.request.node, clock, self.request.ttl, self.request.takeover);
            match decide(sight.lock.as_ref(), &claimant, &facts) {
                ClaimDecision::Acquire => {}
                ClaimDecision::AlreadyMine { noted: false } if !self.vouches(sight.lock.as_ref()) => {
                    return self.plan = vec![AttemptOrder::AskPod];
                }
                ClaimDecision::AlreadyMine { .. } => taking.own = true,
                ClaimDecision::HeldBy(LockHeld { why: Why::Unlisted, .. }) => {
                    return self.plan = vec![AttemptOrder::AskWaiting];
                }
                ClaimDecision::HeldBy(held) => {
                    self.held = Some(held.clone());
                    let lock = sight.lock.as_ref().or(sight.left.as_ref());
                    self.plan = match unconfirmed(&held).zip(lock) {
                        Some((pod, lock)) => {
                            vec![AttemptOrder::AskHolder { pod: pod.clone(), value: lock.value.clone() }]
                        }
                        None => self.held(clock, held, at, sight, &claimant, node.version.clone()),
                    };
                    return;
                }
                ClaimDecision::TakeOver { reason, revoke } => {
                    taking.reasons.push(reason);
                    if let (Some(_), Holder::Seen(pod), Some(lock)) = (revoke, &sight.holder, &sight.lock) {
                        plan.push(AttemptOrder::Revoke { pod: pod.clone(), value: lock.value.clone() });
                    }
                }
            }
        }
        self.taking = taking;
        self.plan = plan;
    }

    /// Whether a value without a note means this pod; if that is not known yet, it is to be asked for.
    fn vouches(&mut self, lock: Option<&Lock>) -> bool {
        let Some(value) = lock.map(|lock| lock.value.clone()) else { return false };
        match self.vouched.iter().find(|(known, _)| *known == value) {
            Some((_, asked)) => *asked,
            None => {
                self.vouched.truncate(self.request.values.len().saturating_sub(1));
                self.vouched.insert(0, (value, false));
                false
            }
        }
    }

    /// Waits for the holder of a key. A pod that is bound there without a lock gets its own lock again, so that every
    /// other process sees it, too (decision N6); not at once, since a device plugin that has just answered releases the
    /// lock a moment before the kubelet reports it. The cache may be behind, so that pod is read live first; and if the
    /// present lock is that of a pod that may still be bound under it, it is revoked first.
    fn held(
        &mut self,
        clock: Clock,
        held: LockHeld,
        at: usize,
        sight: &Sight,
        claimant: &Pod,
        version: ResourceVersion,
    ) -> Vec<AttemptOrder> {
        let until = held.left.map_or(Duration::MAX, |left| clock.steady.saturating_add(left));
        self.tries = 0;
        let (Why::Unrecorded, Some(pod)) = (held.why, held.holder.as_ref().and_then(PodKey::id)) else {
            self.unrecorded = None;
            return vec![AttemptOrder::Wait { held, until }];
        };
        let since = match self.unrecorded.take() {
            Some((known, key, since)) if known == pod && key == at => since,
            _ => clock.steady,
        };
        if clock.steady.saturating_sub(since) < GRACE {
            self.unrecorded = Some((pod, at, since));
            return vec![AttemptOrder::Wait { held, until: until.min(since + GRACE) }];
        }
        let mut plan = vec![AttemptOrder::Restore { version, key: at, pod: pod.clone() }];
        if let Some(lock) = &sight.lock
            && let Some(bindable) = bindable(lock, &sight.holder, claimant)
        {
            plan.push(AttemptOrder::Revoke { pod: bindable.clone(), value: lock.value.clone() });
        }
        plan.push(AttemptOrder::AskUnrecorded { pod });
        plan
    }

    /// The pod that a lock names, or the pods of the node, were asked for: the next look knows.
    pub fn holder_asked(&mut self) {
        self.plan = vec![AttemptOrder::Look { live: false }];
    }

    /// The answer to [`AttemptOrder::AskUnrecorded`].
    pub fn unrecorded_asked(&mut self, read: Option<&Pod>) {
        let Some(AttemptOrder::AskUnrecorded { pod }) = self.plan.last() else { return };
        if read.is_some_and(|read| read.key == *pod && read.waits_on(&self.request.node)) {
            self.plan.pop();
        } else {
            // The watch is behind and will show it. If this attempt has to wait for that, it asks again after as long a time.
            self.plan = vec![AttemptOrder::Look { live: false }];
        }
    }

    /// Something changed, or the time to wait is over.
    pub fn woken(&mut self) {
        if matches!(self.plan.last(), Some(AttemptOrder::Wait { .. })) {
            self.plan = vec![AttemptOrder::Look { live: false }];
        }
    }

    /// It may not wait: that is its end.
    pub fn turned_away(&mut self, failure: BindFailure) {
        if matches!((self.plan.last(), &self.phase), (Some(AttemptOrder::Wait { .. }), Phase::Doing)) {
            self.undo(failure);
        }
    }

    /// A read had no answer.
    pub fn unread(&mut self, why: Arc<str>) {
        self.again(What::Read, why, None);
    }

    /// The answer to a write.
    pub fn answered(&mut self, answer: WriteOutcome) {
        let Some(order) = self.plan.last().cloned() else { return };
        match order {
            AttemptOrder::Claim { version } => self.claim_answered(version, answer),
            AttemptOrder::Revoke { pod, value } => self.revoke_answered(pod, value, answer),
            AttemptOrder::Restore { .. } => self.restore_answered(answer),
            AttemptOrder::Bind { .. } => self.bind_answered(answer),
            AttemptOrder::Fence { .. } => self.fence_answered(answer),
            AttemptOrder::Release { .. } => self.release_answered(answer),
            // These are no writes: nothing was asked.
            AttemptOrder::Look { .. }
            | AttemptOrder::AskPod
            | AttemptOrder::AskHolder { .. }
            | AttemptOrder::AskWaiting
            | AttemptOrder::AskUnrecorded { .. }
            | AttemptOrder::Wait { .. }
            | AttemptOrder::Pause(_)
            | AttemptOrder::End(_) => {}
        }
    }

    fn claim_answered(&mut self, version: ResourceVersion, answer: WriteOutcome) {
        self.held = None;
        match answer {
            WriteOutcome::Done(_) => {
                self.claimed = Claimed::Yes;
                self.tries = 0;
                self.took.append(&mut self.taking.reasons);
                self.bind();
            }
            WriteOutcome::Conflict => {
                self.again(What::Claim, NODE_CHANGED.into(), Some(AttemptOrder::Look { live: true }))
            }
            WriteOutcome::Absent => self.end(Err(BindFailure::NodeGone)),
            // No Binding was sent, so there is no pod to fence.
            WriteOutcome::Refused(why) => self.undo_unfenced(BindFailure::Refused(What::Claim, why)),
            WriteOutcome::Unknown(why) => {
                self.claimed = Claimed::Unanswered { version };
                self.again(What::Claim, why, Some(AttemptOrder::Look { live: true }));
            }
        }
    }

    fn revoke_answered(&mut self, pod: Pod, value: LockValue, answer: WriteOutcome) {
        let why = match answer {
            // The node still has to be the version on which all of this was decided.
            WriteOutcome::Done(_) => {
                // An earlier attempt of this very pod may lose its lock, too.
                if pod.key == self.request.pod {
                    self.pod = None;
                }
                self.plan.pop();
                return;
            }
            WriteOutcome::Refused(why) => return self.undo_unfenced(BindFailure::Refused(What::Revoke, why)),
            WriteOutcome::Conflict | WriteOutcome::Absent => POD_CHANGED.into(),
            WriteOutcome::Unknown(why) => why,
        };
        self.again(What::Revoke, why, Some(AttemptOrder::AskHolder { pod: pod.key.named(), value }));
    }

    fn restore_answered(&mut self, answer: WriteOutcome) {
        let why = match answer {
            WriteOutcome::Done(_) => return self.plan = vec![AttemptOrder::Look { live: true }],
            WriteOutcome::Refused(why) => return self.undo_unfenced(BindFailure::Refused(What::Restore, why)),
            WriteOutcome::Conflict | WriteOutcome::Absent => NODE_CHANGED.into(),
            WriteOutcome::Unknown(why) => why,
        };
        // Whether it was applied: the next look shows it.
        self.again(What::Restore, why, Some(AttemptOrder::Look { live: true }));
    }

    fn bind_answered(&mut self, answer: WriteOutcome) {
        match answer {
            WriteOutcome::Done(_) => self.end(Ok(Bound::Now)),
            WriteOutcome::Conflict => self.again(What::Bind, POD_CHANGED.into(), Some(AttemptOrder::AskPod)),
            WriteOutcome::Absent => self.asked(None),
            // An earlier Binding of this attempt may still be on its way.
            WriteOutcome::Refused(why) => self.undo(BindFailure::Refused(What::Bind, why)),
            WriteOutcome::Unknown(why) => {
                self.binding = Binding::Unanswered;
                self.again(What::Bind, why, Some(AttemptOrder::AskPod));
            }
        }
    }

    fn fence_answered(&mut self, answer: WriteOutcome) {
        match answer {
            WriteOutcome::Done(_) => self.look_and_release(),
            WriteOutcome::Absent => self.asked(None),
            WriteOutcome::Conflict => self.again(What::Fence, POD_CHANGED.into(), Some(AttemptOrder::AskPod)),
            WriteOutcome::Unknown(why) => self.again(What::Fence, why, Some(AttemptOrder::AskPod)),
            // It is not proved that the pod will not be bound, so the lock is kept.
            WriteOutcome::Refused(_) => self.fail(),
        }
    }

    fn release_answered(&mut self, answer: WriteOutcome) {
        match answer {
            WriteOutcome::Done(_) | WriteOutcome::Absent => {
                self.claimed = Claimed::No;
                self.fail();
            }
            WriteOutcome::Conflict => {
                self.again(What::Release, NODE_CHANGED.into(), Some(AttemptOrder::Look { live: true }))
            }
            WriteOutcome::Unknown(why) => self.again(What::Release, why, Some(AttemptOrder::Look { live: true })),
            // The lock is kept; the sweeper removes it.
            WriteOutcome::Refused(_) => self.fail(),
        }
    }

    /// The next try, or the end of trying.
    fn again(&mut self, what: What, why: Arc<str>, order: Option<AttemptOrder>) {
        self.tries += 1;
        if self.tries < self.request.retry.tries {
            self.pause = true;
            if let Some(order) = order {
                self.plan = vec![order];
            }
            return;
        }
        match self.phase {
            Phase::Doing => self.undo(BindFailure::Unanswered(what, self.tries, why)),
            Phase::Undoing { .. } => self.fail(),
        }
    }

    /// The lock is ours: bind what was judged before.
    fn bind(&mut self) {
        self.plan = match (&self.pod, self.caller) {
            (Some(pod), Caller::Waits) => {
                if self.binding == Binding::No {
                    self.binding = Binding::Sent;
                }
                vec![AttemptOrder::Bind { version: pod.version.clone() }]
            }
            _ => vec![AttemptOrder::AskPod],
        };
    }

    /// From here on it is the attempt of a pod that needs no lock.
    fn bind_unlocked(&mut self) {
        self.request.values.clear();
        self.held = None;
        self.bind();
    }

    /// It is over before its time: what was written is undone.
    fn stop(&mut self, over: BindFailure) {
        if matches!(self.plan.last(), Some(AttemptOrder::End(_))) || matches!(self.phase, Phase::Undoing { .. }) {
            return;
        }
        let failure = match (self.held.take(), over) {
            (Some(held), BindFailure::TooLate) => {
                BindFailure::Held { node: self.request.node.clone(), ttl: self.request.ttl, held }
            }
            (held @ Some(_), BindFailure::GaveUp(_)) => BindFailure::GaveUp(held),
            (_, over) => over,
        };
        self.undo(failure);
    }

    /// Undoes what was done, where the pod may still be bound by this attempt: it is fenced first.
    fn undo(&mut self, failure: BindFailure) {
        if self.begin_undoing(failure) {
            self.fence();
        }
    }

    /// Undoes what was done, where the pod can no longer be bound by this attempt, or was not sent a Binding.
    fn undo_unfenced(&mut self, failure: BindFailure) {
        if self.begin_undoing(failure) {
            self.look_and_release();
        }
    }

    /// Whether there is a lock to remove. Without one, the attempt ends, or reads once more whether the pod is bound.
    fn begin_undoing(&mut self, failure: BindFailure) -> bool {
        let nothing = match (&self.claimed, self.binding) {
            _ if self.is_keyless() => self.binding != Binding::Unanswered,
            (Claimed::No, Binding::No) => true,
            (Claimed::No | Claimed::Unanswered { .. } | Claimed::Yes, _) => false,
        };
        if nothing {
            self.end(Err(failure));
            return false;
        }
        self.phase = Phase::Undoing { failure };
        self.tries = 0;
        self.pause = false;
        if self.is_keyless() {
            self.plan = vec![AttemptOrder::AskPod];
        }
        !self.is_keyless()
    }

    fn fence(&mut self) {
        self.plan = match (self.pod.take(), self.request.values.first()) {
            (Some(pod), Some(value)) => vec![AttemptOrder::Fence { version: pod.version, value: value.clone() }],
            _ => vec![AttemptOrder::AskPod],
        };
    }

    fn look_and_release(&mut self) {
        self.tries = 0;
        self.plan = vec![AttemptOrder::Look { live: true }];
    }

    /// Removes those keys that have this attempt's value.
    fn release(&mut self, version: ResourceVersion, mine: &[bool]) {
        let keys: Vec<usize> = mine.iter().enumerate().filter_map(|(at, mine)| mine.then_some(at)).collect();
        if !keys.is_empty() {
            self.plan = vec![AttemptOrder::Release { version, keys }];
            return;
        }
        // A claim that was decided on this very version may still be applied.
        if self.claimed != (Claimed::Unanswered { version }) {
            self.claimed = Claimed::No;
        }
        self.fail();
    }

    /// Another process has marked the pod while this attempt had the lock. There is room for one mark, so a mark with
    /// the value of this attempt may have been there in between.
    fn is_marked_anew(&self, now: Option<&Pod>) -> bool {
        let before = self.pod.as_ref().filter(|_| self.claimed != Claimed::No);
        before.zip(now).is_some_and(|(before, now)| before.revoked != now.revoked)
    }

    fn is_keyless(&self) -> bool {
        self.request.values.is_empty()
    }

    fn failure(&self) -> Option<&BindFailure> {
        match &self.phase {
            Phase::Doing => None,
            Phase::Undoing { failure } => Some(failure),
        }
    }

    /// Undoing is over.
    fn fail(&mut self) {
        if let Some(failure) = self.failure().cloned() {
            self.end(Err(failure));
        }
    }

    fn end(&mut self, result: Result<Bound, BindFailure>) {
        let kept = result.is_err() && self.claimed != Claimed::No;
        self.plan = vec![AttemptOrder::End(AttemptOutcome { result, kept })];
    }
}

const NODE_CHANGED: &str = "the node changed";
const POD_CHANGED: &str = "the pod changed";

/// The pod that may still be bound under a lock by an attempt that is under way, this pod's own earlier one included.
fn bindable<'a>(lock: &Lock, holder: &'a Holder, claimant: &'a Pod) -> Option<&'a Pod> {
    let NamedHolder::Pod { pod, time, .. } = &lock.named else { return None };
    let pod = match holder {
        _ if is_owner(pod, *time, claimant) => claimant,
        Holder::Seen(seen) => seen,
        Holder::Unconfirmed | Holder::Gone { .. } => return None,
    };
    let dead = pod.node.is_some() || pod.finished || pod.deleting || pod.revoked.as_ref() == Some(&lock.value);
    (!dead).then_some(pod)
}

enum Own {
    /// It can be bound.
    Free,
    /// It is bound to this node.
    Here,
    /// It cannot be bound to this node any more.
    Over(BindFailure),
}

fn judge_own(request: &Request, pod: Option<&Pod>) -> Own {
    let Some(pod) = pod else { return Own::Over(BindFailure::PodGone) };
    match pod.node.as_ref() {
        _ if pod.key != request.pod => Own::Over(BindFailure::PodReplaced(pod.key.uid.clone())),
        Some(node) if *node == request.node => Own::Here,
        Some(node) => Own::Over(BindFailure::PodElsewhere(node.clone())),
        None if pod.deleting => Own::Over(BindFailure::PodTerminating),
        None if pod.finished => Own::Over(BindFailure::PodFinished),
        // By this attempt or by the process that took the lock: no Binding in a later version than the mark is ever sent.
        None if pod.revoked.as_ref().is_some_and(|revoked| request.values.contains(revoked)) => {
            Own::Over(BindFailure::Lost)
        }
        None => Own::Free,
    }
}
