//! One attempt to bind a pod, from the first look to the answer: what to ask, what to write, and what to believe.
//!
//! Talks to nobody. It gives one [`Order`] at a time and is told what became of it. Whoever carries orders out may be
//! slow, may be frozen in between, and may not know whether a write was applied ([`Answer::Unknown`]); the attempt never
//! takes silence for a no.
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
//! # Why nobody is bound under a lock that is somebody else's
//!
//! * Whoever takes the value of this attempt away without the pod being dead has marked the pod with it first (revoke,
//!   fence), and a Binding carries a version of the pod that was read without that mark. A mark that came later than that
//!   read has changed the version, so the Binding is refused, and the next read, which finds that mark or another that
//!   was not there before, ends the attempt.
//! * That holds for several attempts of one pod, too: the later one replaces the value before it can fence.

mod failure;

use std::sync::Arc;
use std::time::Duration;

pub use failure::{Failure, Full, What};

use super::decide::{Decision, Release, decide, release, unconfirmed};
use super::holder::{
    Clock, Facts, GRACE, Held, Holder, Pod, Reason, Standing, Takeover, Why, is_owner, judge, judge_absent,
};
use super::record::{Lock, Named, PodKey};
use super::retry::Retry;

/// How one key stands, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sight {
    /// What stands there.
    pub lock: Option<Lock>,
    /// The pod that it names.
    pub holder: Holder,
    /// Whether the API server was asked for that pod.
    pub confirmed: bool,
    /// Pods bound here that need this key and wait for their device plugin.
    pub waiting: Vec<Pod>,
    /// Whether the API server was asked for those.
    pub listed: bool,
    /// The lock that stood there last, where none does and nobody has told yet what became of the pod that it names.
    pub left: Option<Lock>,
    /// When exactly this value was first seen.
    pub first_seen: Duration,
}

impl Sight {
    /// What a judgement of it rests on.
    #[must_use]
    pub fn facts<'a>(&'a self, node: &'a str, clock: Clock, ttl: Duration, takeover: Takeover) -> Facts<'a> {
        Facts {
            node,
            holder: &self.holder,
            confirmed: self.confirmed,
            waiting: &self.waiting,
            listed: self.listed,
            left: self.left.as_ref().and_then(Lock::pod),
            first_seen: self.first_seen,
            clock,
            ttl,
            takeover,
        }
    }

    /// How it stands; `None` where it is free.
    #[must_use]
    pub fn standing(&self, node: &str, clock: Clock, ttl: Duration, takeover: Takeover) -> Option<Standing> {
        let facts = self.facts(node, clock, ttl, takeover);
        match &self.lock {
            Some(lock) => Some(judge(lock, &facts)),
            None => judge_absent(&facts).map(Standing::Held),
        }
    }
}

/// A node, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The version that this was read from.
    pub version: Arc<str>,
    /// The keys of the attempt, in their order.
    pub keys: Vec<Sight>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Look at the node: at the API server if `live`, otherwise at what a watch told last.
    Look {
        /// Whether it has to be the present.
        live: bool,
    },
    /// Ask the API server for the pod of this attempt.
    AskPod,
    /// Ask the API server for the pod that a lock names. That it was found counts for the looks until the next wait or the
    /// end; that it was not found, and since when, counts for as long as that value stands.
    AskHolder {
        /// The pod.
        pod: PodKey,
        /// The value that names it.
        value: Arc<str>,
    },
    /// Ask the API server for the pods that are bound to the node. It counts for the looks until the next wait or the end.
    AskWaiting,
    /// Wait until the node or the holder changes, and no longer than this.
    Wait {
        /// Who holds it.
        held: Held,
        /// By the steady clock.
        until: Duration,
    },
    /// Take the lock from a pod that is not bound: it can then no longer be bound under that value.
    Revoke {
        /// The pod, in the version that this was decided on.
        pod: Pod,
        /// The value.
        value: Arc<str>,
    },
    /// Ask the API server for a pod that a cache has bound there without a lock.
    AskUnrecorded {
        /// The pod.
        pod: PodKey,
    },
    /// Write a lock for a pod that is bound there and has none, if the node still is that version.
    Restore {
        /// The version.
        version: Arc<str>,
        /// The position of the key.
        key: usize,
        /// The pod.
        pod: PodKey,
    },
    /// Write the values of this attempt onto the node, if it still is that version.
    Claim {
        /// The version.
        version: Arc<str>,
    },
    /// Bind the pod, if it still is that version.
    Bind {
        /// The version.
        version: Arc<str>,
    },
    /// Mark the pod so that this attempt can no longer bind it, if it still is that version.
    Fence {
        /// The version.
        version: Arc<str>,
    },
    /// Remove these keys from the node, if it still is that version.
    Release {
        /// The version.
        version: Arc<str>,
        /// Positions in the keys of the attempt.
        keys: Vec<usize>,
    },
    /// Wait this long before the next try.
    Pause(Duration),
    /// It is over.
    End(Outcome),
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was applied; with the new version of what was written.
    Done(Arc<str>),
    /// It was refused, because what it names is not that version, or not in that state.
    Conflict,
    /// It was refused, because what it names is not there.
    Absent,
    /// It was refused for another reason, which trying again does not change.
    Refused(Arc<str>),
    /// Nobody knows. It may be applied later, too.
    Unknown(Arc<str>),
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the pod is bound to the node.
    pub result: Result<Bound, Failure>,
    /// A lock of this attempt may be left on the node: it could not be proved that the pod will not be bound under it, or
    /// it could not be removed. The sweeper resolves it.
    pub kept: bool,
}

/// How a pod came to be bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// By this attempt, or by another one meanwhile.
    Now,
    /// It was bound to this node before.
    Before,
}

/// What an attempt is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The pod, with its UID.
    pub pod: PodKey,
    /// The node.
    pub node: Arc<str>,
    /// The values of this attempt, one for each key; none where the pod needs no lock.
    pub values: Vec<Arc<str>>,
    /// When it gives up, by the steady clock.
    pub deadline: Duration,
    /// When locks of others expire.
    pub ttl: Duration,
    /// Whom age alone robs.
    pub takeover: Takeover,
    /// How API errors are tried again.
    pub retry: Retry,
}

/// One attempt.
#[derive(Debug, Clone)]
pub struct Attempt {
    request: Request,
    /// The claimant's pod, as it was judged last.
    pod: Option<Pod>,
    step: Step,
    /// Why it is undone.
    failure: Option<Failure>,
    /// The values may stand on the node.
    written: bool,
    /// A Binding was sent.
    bound: bool,
    /// One was not answered, so that the pod may have been bound by this attempt before it vanished.
    unsure: bool,
    /// The lock was that of an earlier attempt, which may have bound the pod before it vanished.
    adopts: bool,
    /// The version of a claim that may be applied late.
    late: Option<Arc<str>>,
    /// Tries of the present kind that did not succeed.
    tries: u32,
    pause: bool,
    given_up: Option<Failure>,
    /// Values of foreign schedulers that have the name of this attempt's pod, one for each key at most, and whether the API
    /// server was asked for the pod after they were seen: only then is it this pod that they mean, and not a younger one of
    /// that name.
    vouched: Vec<(Arc<str>, bool)>,
    /// A pod that is bound here without a lock, the position of its key, and since when that is known.
    unrecorded: Option<(PodKey, usize, Duration)>,
    /// Who held the node at the last look, until this attempt has tried to write its lock: a time that ends before is
    /// contention, also where it ends between the look that finds the node free and that write.
    held: Option<Held>,
    /// Why locks of others are taken by the claim that is under way.
    taking: Vec<Reason>,
    /// Why they were taken by claims that are confirmed.
    took: Vec<Reason>,
}

#[derive(Debug, Clone)]
enum Step {
    AskPod,
    Look {
        live: bool,
    },
    AskHolder {
        pod: PodKey,
        value: Arc<str>,
    },
    AskWaiting,
    Wait {
        held: Held,
        until: Duration,
    },
    /// From the last to the first; then the node is written in the version that this was decided on.
    Revoke {
        from: Vec<(Pod, Arc<str>)>,
        then: Box<Step>,
    },
    /// Then its lock is restored.
    AskUnrecorded {
        pod: PodKey,
        then: Box<Step>,
    },
    Restore {
        version: Arc<str>,
        key: usize,
        pod: PodKey,
    },
    Claim {
        version: Arc<str>,
    },
    Bind {
        version: Arc<str>,
    },
    Fence {
        version: Arc<str>,
    },
    Release {
        version: Arc<str>,
        keys: Vec<usize>,
    },
    End(Outcome),
}

impl Attempt {
    /// An attempt for a pod as a cache has it, or not at all.
    #[must_use]
    pub fn new(request: Request, cached: Option<Pod>) -> Self {
        let mut attempt = Self {
            request,
            pod: None,
            step: Step::AskPod,
            failure: None,
            written: false,
            bound: false,
            unsure: false,
            adopts: false,
            late: None,
            tries: 0,
            pause: false,
            given_up: None,
            vouched: Vec::new(),
            unrecorded: None,
            held: None,
            taking: Vec::new(),
            took: Vec::new(),
        };
        // A cache without it, or with another pod of that name, may be behind: that is asked. What it says of the end of
        // the right one is for good.
        if let Some(pod) = cached.filter(|pod| pod.key == attempt.request.pod) {
            attempt.asked(Some(pod));
        }
        attempt
    }

    /// What to do now. `random` is from 0 up to 1 and spreads pauses.
    pub fn next(&mut self, now: Duration, random: f64) -> Order {
        if std::mem::take(&mut self.pause)
            && let Some(pause) = self.request.retry.pause(self.tries, random)
        {
            return Order::Pause(pause);
        }
        let over = self.given_up.clone().or_else(|| (now >= self.request.deadline).then_some(Failure::TooLate));
        if let (Some(over), None) = (over, &self.failure) {
            self.stop(over);
        }
        match self.step.clone() {
            Step::AskPod => Order::AskPod,
            Step::Look { live } => Order::Look { live },
            Step::AskHolder { pod, value } => Order::AskHolder { pod, value },
            Step::AskWaiting => Order::AskWaiting,
            Step::Wait { held, until } => Order::Wait { held, until: until.min(self.request.deadline) },
            Step::Revoke { mut from, then } => match from.pop() {
                Some((pod, value)) => Order::Revoke { pod, value },
                None => {
                    self.step = *then;
                    self.next(now, random)
                }
            },
            Step::AskUnrecorded { pod, .. } => Order::AskUnrecorded { pod },
            Step::Restore { version, key, pod } => Order::Restore { version, key, pod },
            Step::Claim { version } => Order::Claim { version },
            Step::Bind { version } => Order::Bind { version },
            Step::Fence { version } => Order::Fence { version },
            Step::Release { version, keys } => Order::Release { version, keys },
            Step::End(outcome) => Order::End(outcome),
        }
    }

    /// The caller does not wait any more. What is under way is brought to its end.
    pub fn give_up(&mut self) {
        self.given_up.get_or_insert(Failure::GaveUp(None));
    }

    /// What it is about.
    #[cfg(test)]
    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    /// Why locks of others were taken.
    #[must_use]
    pub fn took(&self) -> &[Reason] {
        &self.took
    }

    /// The answer to [`Order::AskPod`].
    pub fn asked(&mut self, pod: Option<Pod>) {
        let judged = judge_own(&self.request, pod.as_ref());
        match (judged, &self.failure) {
            // It is bound here, whatever was to be undone: the device plugin needs the lock.
            (Own::Here, _) => self.end(Ok(if self.bound { Bound::Now } else { Bound::Before })),
            // A kubelet may know it as bound, and ask for its devices for some time yet: the lock stays.
            (Own::Over(failure @ (Failure::PodGone | Failure::PodReplaced(_))), _) if self.unsure || self.adopts => {
                let failure = self.failure.take().unwrap_or(failure);
                self.end(Err(failure));
            }
            (Own::Over(failure), None) => self.undo(failure, false),
            (Own::Over(_) | Own::Free, Some(_)) if self.is_keyless() => self.fail(),
            (Own::Over(_), Some(_)) => self.release_after(),
            (Own::Free, None) if self.is_marked_anew(pod.as_ref()) => {
                self.pod = pod;
                self.undo(Failure::Lost, true);
            }
            (Own::Free, None) => {
                self.pod = pod;
                self.vouched.iter_mut().for_each(|(_, asked)| *asked = true);
                self.step = Step::Look { live: self.written };
            }
            (Own::Free, Some(_)) => {
                self.pod = pod;
                self.fence();
            }
        }
    }

    /// The answer to [`Order::Look`]; `pod` is this attempt's, where a cache has a later version of it.
    pub fn looked(&mut self, clock: Clock, node: Option<Node>, pod: Option<Pod>) {
        let Some(node) = node else {
            self.written = false;
            return match self.failure.take() {
                Some(failure) => self.end(Err(failure)),
                None if self.bound => self.undo(Failure::NodeGone, true),
                None => self.end(Err(Failure::NodeGone)),
            };
        };
        let values = self.request.values.iter();
        let mine: Vec<bool> = node
            .keys
            .iter()
            .zip(values)
            .map(|(key, value)| release(key.lock.as_ref(), value) == Release::Remove)
            .collect();
        if self.failure.is_some() {
            let keys: Vec<usize> = mine.iter().enumerate().filter_map(|(at, mine)| mine.then_some(at)).collect();
            if keys.is_empty() {
                // A claim that was decided on this very version may still be applied.
                self.written &= self.late.as_ref() == Some(&node.version);
                self.fail();
            } else {
                self.step = Step::Release { version: node.version, keys };
            }
            return;
        }
        // A pod that needs no key is bound without one.
        if mine.iter().all(|mine| *mine) {
            self.written = !self.is_keyless();
            // A claim without an answer was applied after all.
            self.took.append(&mut self.taking);
            self.held = None;
            return self.bind();
        }
        if self.bound {
            return self.undo(Failure::Lost, true);
        }
        // The lock is not ours yet, so a later version of the pod is as good as the one before.
        if let Some(pod) = pod.filter(|pod| pod.key == self.request.pod) {
            match judge_own(&self.request, Some(&pod)) {
                Own::Free => self.pod = Some(pod),
                Own::Here => return self.end(Ok(Bound::Before)),
                Own::Over(failure) => return self.undo(failure, false),
            }
        }
        self.claim(clock, node);
    }

    fn claim(&mut self, clock: Clock, node: Node) {
        let Some(claimant) = self.pod.clone() else {
            self.step = Step::AskPod;
            return;
        };
        let mut adopts = false;
        let mut revokes = Vec::new();
        let mut reasons = Vec::new();
        for (at, sight) in node.keys.iter().enumerate() {
            let facts = sight.facts(&self.request.node, clock, self.request.ttl, self.request.takeover);
            match decide(sight.lock.as_ref(), &claimant, &facts) {
                Decision::Acquire => {}
                Decision::AlreadyMine { noted: false } if !self.vouches(sight.lock.as_ref()) => {
                    return self.step = Step::AskPod;
                }
                Decision::AlreadyMine { .. } => adopts = true,
                Decision::HeldBy(Held { why: Why::Unlisted, .. }) => return self.step = Step::AskWaiting,
                Decision::HeldBy(held) => {
                    self.held = Some(held.clone());
                    self.step = match unconfirmed(&held).zip(sight.lock.as_ref().or(sight.left.as_ref())) {
                        Some((pod, lock)) => Step::AskHolder { pod: pod.clone(), value: Arc::clone(&lock.value) },
                        None => self.held(clock, held, at, sight, &claimant, node.version.clone()),
                    };
                    return;
                }
                Decision::TakeOver { reason, revoke: from } => {
                    reasons.push(reason);
                    if let (Some(_), Holder::Seen(pod), Some(lock)) = (from, &sight.holder, &sight.lock) {
                        revokes.push((pod.clone(), Arc::clone(&lock.value)));
                    }
                }
            }
        }
        self.taking = reasons;
        self.adopts = adopts;
        self.step = revoked(revokes, Step::Claim { version: node.version });
    }

    /// Whether a value without a note means this pod; if that is not known yet, it is to be asked for.
    fn vouches(&mut self, lock: Option<&Lock>) -> bool {
        let value = lock.map(|lock| Arc::clone(&lock.value)).unwrap_or_default();
        match self.vouched.iter().find(|(known, _)| *known == value) {
            Some((_, asked)) => *asked,
            None => {
                self.vouched.truncate(self.request.values.len().saturating_sub(1));
                self.vouched.insert(0, (value, false));
                false
            }
        }
    }

    /// Waits for whoever holds a key. A pod that is bound there without a lock has its own restored, so that everybody else
    /// sees it, too (decision N6); not at once, since a device plugin that has just answered gives the lock back a moment
    /// before the kubelet says so.
    /// The cache that says so may be behind, so that pod is asked for first; and where the lock of a pod stands that may still
    /// be bound under it, that is taken from it first.
    fn held(&mut self, clock: Clock, held: Held, at: usize, sight: &Sight, claimant: &Pod, version: Arc<str>) -> Step {
        let until = held.left.map_or(Duration::MAX, |left| clock.steady.saturating_add(left));
        self.tries = 0;
        let (Why::Unrecorded, Some(pod)) = (held.why, held.holder.clone()) else {
            self.unrecorded = None;
            return Step::Wait { held, until };
        };
        let since = match self.unrecorded.take() {
            Some((known, key, since)) if known == pod && key == at => since,
            _ => clock.steady,
        };
        if clock.steady.saturating_sub(since) >= GRACE {
            let lock = sight.lock.as_ref();
            let bindable = lock.and_then(|lock| bindable(lock, &sight.holder, claimant).map(|pod| (lock, pod)));
            let from = bindable.map(|(lock, pod)| (pod.clone(), Arc::clone(&lock.value))).into_iter().collect();
            let restore = Step::Restore { version, key: at, pod: pod.clone() };
            return Step::AskUnrecorded { pod, then: Box::new(revoked(from, restore)) };
        }
        self.unrecorded = Some((pod, at, since));
        Step::Wait { held, until: until.min(since + GRACE) }
    }

    /// The pod that a lock names, or the pods of the node, were asked for: the next look knows.
    pub fn holder_asked(&mut self) {
        self.step = Step::Look { live: false };
    }

    /// The answer to [`Order::AskUnrecorded`].
    pub fn unrecorded_asked(&mut self, read: Option<&Pod>) {
        let Step::AskUnrecorded { pod, then } = self.step.clone() else { return };
        let waits = read.is_some_and(|read| read.key == pod && read.waits_on(&self.request.node));
        // Where it does not, the watch is behind and will say so. Whoever waits for that asks again after as long a time.
        self.step = if waits { *then } else { Step::Look { live: false } };
    }

    /// Something changed, or the time to wait is over.
    pub fn woken(&mut self) {
        if matches!(self.step, Step::Wait { .. }) {
            self.step = Step::Look { live: false };
        }
    }

    /// It may not wait: that is its end.
    pub fn turned_away(&mut self, failure: Failure) {
        if matches!(self.step, Step::Wait { .. }) && self.failure.is_none() {
            self.undo(failure, true);
        }
    }

    /// A read had no answer.
    pub fn unread(&mut self, why: Arc<str>) {
        self.again(What::Read, why, None);
    }

    /// The answer to a write.
    pub fn answered(&mut self, answer: Answer) {
        if matches!(self.step, Step::Claim { .. }) {
            self.held = None;
        }
        match (self.step.clone(), answer) {
            (Step::Claim { .. }, Answer::Done(_)) => {
                self.written = true;
                self.late = None;
                self.tries = 0;
                self.took.append(&mut self.taking);
                self.bind();
            }
            (Step::Claim { .. }, Answer::Conflict) => {
                self.again(What::Claim, "the node changed".into(), Some(Step::Look { live: true }))
            }
            (Step::Claim { .. }, Answer::Absent) => self.end(Err(Failure::NodeGone)),
            (Step::Claim { .. }, Answer::Refused(why)) => self.undo(Failure::Refused(What::Claim, why), false),
            (Step::Claim { version }, Answer::Unknown(why)) => {
                self.written = true;
                self.late = Some(version);
                self.again(What::Claim, why, Some(Step::Look { live: true }));
            }

            // The node is still to be that version, on which all of this was decided.
            (Step::Revoke { mut from, then }, Answer::Done(_)) => {
                // An earlier attempt of this very pod may lose its lock, too.
                if from.pop().is_some_and(|(pod, _)| pod.key == self.request.pod) {
                    self.pod = None;
                }
                self.step = revoked(from, *then);
            }
            (Step::Revoke { .. }, Answer::Refused(why)) => self.undo(Failure::Refused(What::Revoke, why), false),
            (Step::Revoke { mut from, .. }, answer) => {
                let why = match answer {
                    Answer::Unknown(why) => why,
                    _ => "the pod changed".into(),
                };
                self.again(What::Revoke, why, from.pop().map(|(pod, value)| Step::AskHolder { pod: pod.key, value }));
            }

            // Whatever became of it: the next look shows it.
            (Step::Restore { .. }, Answer::Done(_)) => self.step = Step::Look { live: true },
            (Step::Restore { .. }, Answer::Refused(why)) => self.undo(Failure::Refused(What::Restore, why), false),
            (Step::Restore { .. }, answer) => {
                let why = match answer {
                    Answer::Unknown(why) => why,
                    _ => "the node changed".into(),
                };
                self.again(What::Restore, why, Some(Step::Look { live: true }));
            }

            (Step::Bind { .. }, Answer::Done(_)) => self.end(Ok(Bound::Now)),
            (Step::Bind { .. }, Answer::Conflict) => {
                self.again(What::Bind, "the pod changed".into(), Some(Step::AskPod))
            }
            (Step::Bind { .. }, Answer::Absent) => self.asked(None),
            (Step::Bind { .. }, Answer::Refused(why)) => self.undo(Failure::Refused(What::Bind, why), true),
            (Step::Bind { .. }, Answer::Unknown(why)) => {
                self.unsure = true;
                self.again(What::Bind, why, Some(Step::AskPod));
            }

            (Step::Fence { .. }, Answer::Done(_)) => self.release_after(),
            (Step::Fence { .. }, Answer::Absent) => self.asked(None),
            (Step::Fence { .. }, Answer::Conflict) => {
                self.again(What::Fence, "the pod changed".into(), Some(Step::AskPod))
            }
            (Step::Fence { .. }, Answer::Unknown(why)) => self.again(What::Fence, why, Some(Step::AskPod)),
            (Step::Fence { .. }, Answer::Refused(_)) => self.fail(),

            (Step::Release { .. }, Answer::Done(_) | Answer::Absent) => {
                self.written = false;
                self.fail();
            }
            (Step::Release { .. }, Answer::Conflict) => {
                self.again(What::Release, "the node changed".into(), Some(Step::Look { live: true }))
            }
            (Step::Release { .. }, Answer::Unknown(why)) => {
                self.again(What::Release, why, Some(Step::Look { live: true }))
            }
            (Step::Release { .. }, Answer::Refused(_)) => self.fail(),

            // Nothing was asked.
            (_, _) => {}
        }
    }

    /// The next try, or the end of trying.
    fn again(&mut self, what: What, why: Arc<str>, step: Option<Step>) {
        self.tries += 1;
        if self.tries < self.request.retry.tries {
            self.pause = true;
            if let Some(step) = step {
                self.step = step;
            }
        } else if self.failure.is_some() {
            self.fail();
        } else {
            self.undo(Failure::Unanswered(what, self.tries, why), true);
        }
    }

    /// The lock is ours: bind what was judged before.
    fn bind(&mut self) {
        self.step = match (&self.pod, &self.given_up) {
            (Some(pod), None) => {
                self.bound = true;
                Step::Bind { version: Arc::clone(&pod.version) }
            }
            _ => Step::AskPod,
        };
    }

    /// It is over before its time: what was written is undone.
    fn stop(&mut self, over: Failure) {
        if matches!(self.step, Step::End(_)) {
            return;
        }
        let failure = match (self.held.take(), over) {
            (Some(held), Failure::TooLate) => {
                Failure::Held { node: Arc::clone(&self.request.node), ttl: self.request.ttl, held }
            }
            (held @ Some(_), Failure::GaveUp(_)) => Failure::GaveUp(held),
            (_, over) => over,
        };
        self.undo(failure, true);
    }

    /// `fence`: the pod might still be bound by this attempt.
    fn undo(&mut self, failure: Failure, fence: bool) {
        let keyless = self.is_keyless();
        if !self.written && !self.bound || keyless && !self.unsure {
            return self.end(Err(failure));
        }
        self.failure = Some(failure);
        self.tries = 0;
        self.pause = false;
        match (keyless, fence) {
            // Nothing to take back; one more look at whether it is bound after all.
            (true, _) => self.step = Step::AskPod,
            (false, true) => self.fence(),
            (false, false) => self.release_after(),
        }
    }

    fn fence(&mut self) {
        self.step = match self.pod.take() {
            Some(pod) => Step::Fence { version: pod.version },
            None => Step::AskPod,
        };
    }

    fn release_after(&mut self) {
        self.tries = 0;
        self.step = Step::Look { live: true };
    }

    /// Somebody has marked the pod while this attempt had the lock. There is room for one mark, so one with the value of this
    /// attempt may have stood there in between.
    fn is_marked_anew(&self, now: Option<&Pod>) -> bool {
        let before = self.pod.as_ref().filter(|_| self.written);
        before.zip(now).is_some_and(|(before, now)| before.revoked != now.revoked)
    }

    fn is_keyless(&self) -> bool {
        self.request.values.is_empty()
    }

    fn fail(&mut self) {
        if let Some(failure) = self.failure.take() {
            self.end(Err(failure));
        }
    }

    fn end(&mut self, result: Result<Bound, Failure>) {
        let kept = result.is_err() && self.written;
        self.step = Step::End(Outcome { result, kept });
    }
}

/// Writes the node after locks were taken from these.
fn revoked(from: Vec<(Pod, Arc<str>)>, then: Step) -> Step {
    if from.is_empty() { then } else { Step::Revoke { from, then: Box::new(then) } }
}

/// The pod that may still be bound under a lock by an attempt that is under way, this pod's own earlier one included.
fn bindable<'a>(lock: &Lock, holder: &'a Holder, claimant: &'a Pod) -> Option<&'a Pod> {
    let Named::Pod { pod, time, note } = &lock.named else { return None };
    let pod = match holder {
        _ if is_owner(pod, *time, note.is_some(), claimant) => claimant,
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
    Over(Failure),
}

fn judge_own(request: &Request, pod: Option<&Pod>) -> Own {
    let Some(pod) = pod else { return Own::Over(Failure::PodGone) };
    match pod.node.as_ref() {
        _ if pod.key != request.pod => Own::Over(Failure::PodReplaced(pod.key.uid.clone().unwrap_or_default())),
        Some(node) if *node == request.node => Own::Here,
        Some(node) => Own::Over(Failure::PodElsewhere(Arc::clone(node))),
        None if pod.deleting => Own::Over(Failure::PodTerminating),
        None if pod.finished => Own::Over(Failure::PodFinished),
        // By this attempt or by whoever took the lock: no Binding in a later version than the mark is ever sent.
        None if pod.revoked.as_ref().is_some_and(|revoked| request.values.contains(revoked)) => {
            Own::Over(Failure::Lost)
        }
        None => Own::Free,
    }
}
