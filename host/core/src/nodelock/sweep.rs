//! One sweep of one node: the locks that no pod holds are found, and removed if that is wanted. A sweep claims nothing.

use std::time::Duration;

use super::attempt::{ObservedNode, WriteOutcome};
use super::decide::unconfirmed;
use super::holder::{Clock, Holder, LockHeld, LockState, OrphanReason, Pod, Takeover, Why};
use super::record::PodKey;
use crate::names::{LockValue, NodeName};
use crate::version::ResourceVersion;

/// The word of a lock that no pod holds, where those that are held have that of [`Why`].
pub const LEAKED: &str = "leaked";

/// What happens to a lock that no pod holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It is reported.
    Report,
    /// It is removed.
    Repair,
}

/// What a sweep found about one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SweepFinding {
    /// The position of the key.
    pub key: usize,
    /// The value.
    pub value: LockValue,
    /// Why no pod holds it.
    pub reason: OrphanReason,
}

/// The state of one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FoundLock {
    /// The position of the key.
    pub key: usize,
    /// The value; `None` where a pod is bound here without one.
    pub value: Option<LockValue>,
    /// The pod that it is about, as far as it is known.
    pub pod: Option<PodKey>,
    /// How.
    pub state: LockState,
}

impl FoundLock {
    /// The word of metrics, Events and the command line.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match &self.state {
            LockState::Held(held) => held.why.word(),
            LockState::Over(_) => LEAKED,
        }
    }
}

/// What a sweep needs next. There is no other thing that it could ask for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SweepOrder {
    /// Look at the node, as the watch showed it last.
    Look,
    /// Ask the API server for the pod that a lock names.
    AskHolder {
        /// The pod.
        pod: PodKey,
        /// The value that names it.
        value: LockValue,
    },
    /// Ask the API server for the pods that are bound to the node.
    AskWaiting,
    /// Take the lock from a pod that is not bound: it can then no longer be bound under that value.
    Revoke {
        /// The pod, in the version that this was decided on.
        pod: Pod,
        /// The value.
        value: LockValue,
    },
    /// Remove these keys from the node, if it still is that version.
    Release {
        /// The version.
        version: ResourceVersion,
        /// Positions in the keys of the node.
        keys: Vec<usize>,
    },
}

/// One sweep of one node.
#[derive(Debug, Clone, Hash)]
pub struct Sweep {
    node: NodeName,
    ttl: Duration,
    takeover: Takeover,
    mode: Mode,
    step: SweepStep,
    findings: Vec<SweepFinding>,
    stands: Vec<FoundLock>,
    removed: bool,
    asked: Vec<PodKey>,
    listed: bool,
}

#[derive(Debug, Clone, Hash)]
enum SweepStep {
    Ask(SweepOrder),
    /// From the last to the first; then the keys are removed from the node in that version.
    Revoke {
        from: Vec<(Pod, LockValue)>,
        version: ResourceVersion,
        keys: Vec<usize>,
    },
    End,
}

impl Sweep {
    /// Begins one.
    #[must_use]
    pub fn new(node: NodeName, ttl: Duration, takeover: Takeover, mode: Mode) -> Self {
        Self {
            node,
            ttl,
            takeover,
            mode,
            step: SweepStep::Ask(SweepOrder::Look),
            findings: Vec::new(),
            stands: Vec::new(),
            removed: false,
            asked: Vec::new(),
            listed: false,
        }
    }

    /// What was found.
    #[must_use]
    pub fn findings(&self) -> &[SweepFinding] {
        &self.findings
    }

    /// The state of every key that has a lock, or a pod that waits without one.
    #[must_use]
    pub fn stands(&self) -> &[FoundLock] {
        &self.stands
    }

    /// Whether what was found is removed.
    #[must_use]
    pub fn removed(&self) -> bool {
        self.removed
    }

    /// What to do now; `None` at the end. Whatever fails is left to the next sweep.
    #[must_use]
    pub fn next(&self) -> Option<SweepOrder> {
        match &self.step {
            SweepStep::Ask(order) => Some(order.clone()),
            SweepStep::Revoke { from, version, keys } => Some(match from.last() {
                Some((pod, value)) => SweepOrder::Revoke { pod: pod.clone(), value: value.clone() },
                None => SweepOrder::Release { version: version.clone(), keys: keys.clone() },
            }),
            SweepStep::End => None,
        }
    }

    /// The node, as it was seen.
    pub fn looked(&mut self, clock: Clock, node: Option<ObservedNode>) {
        self.step = SweepStep::End;
        let Some(node) = node else { return };
        self.findings.clear();
        self.stands.clear();
        let mut from = Vec::new();
        for (key, sight) in node.keys.iter().enumerate() {
            let Some(state) = sight.state(&self.node, clock, self.ttl, self.takeover) else { continue };
            let value = sight.lock.as_ref().map(|lock| lock.value.clone());
            let named = match &sight.holder {
                Holder::Seen(pod) => Some(pod.key.named()),
                Holder::Unconfirmed | Holder::Gone { .. } => sight.lock.as_ref().and_then(|lock| lock.pod().cloned()),
            };
            let held = match &state {
                LockState::Held(held) => held.holder.clone(),
                LockState::Over(_) => None,
            };
            self.stands.push(FoundLock { key, value: value.clone(), pod: named.or(held), state: state.clone() });
            let Some(value) = value else { continue };
            match state {
                LockState::Held(LockHeld { why: Why::Unlisted, .. }) if !self.listed => {
                    self.listed = true;
                    self.step = SweepStep::Ask(SweepOrder::AskWaiting);
                    return;
                }
                LockState::Held(held) => {
                    if let Some(pod) = unconfirmed(&held).filter(|pod| !self.asked.contains(pod)) {
                        self.ask(pod.clone(), value);
                        return;
                    }
                }
                LockState::Over(reason) => {
                    if let (true, Holder::Seen(pod)) = (reason.revokes(), &sight.holder) {
                        from.push((pod.clone(), value.clone()));
                    }
                    self.findings.push(SweepFinding { key, value, reason });
                }
            }
        }
        if self.mode == Mode::Report || self.findings.is_empty() {
            return;
        }
        let keys = self.findings.iter().map(|finding| finding.key).collect();
        self.step = SweepStep::Revoke { from, version: node.version, keys };
    }

    fn ask(&mut self, pod: PodKey, value: LockValue) {
        self.asked.push(pod.clone());
        self.step = SweepStep::Ask(SweepOrder::AskHolder { pod, value });
    }

    /// The pod that a lock names, or the pods of the node, were asked for: the next look knows.
    pub fn holder_asked(&mut self) {
        self.step = SweepStep::Ask(SweepOrder::Look);
    }

    /// The answer to a write.
    pub fn answered(&mut self, answer: &WriteOutcome) {
        let SweepStep::Revoke { mut from, version, keys } = std::mem::replace(&mut self.step, SweepStep::End) else {
            return;
        };
        match (from.pop(), answer) {
            (Some(_), WriteOutcome::Done(_)) => self.step = SweepStep::Revoke { from, version, keys },
            // What was known of the pod may no longer be true. It is read once; then the next sweep has newer facts.
            (
                Some((pod, value)),
                WriteOutcome::Conflict | WriteOutcome::Absent | WriteOutcome::Refused(_) | WriteOutcome::Unknown(_),
            ) => {
                let named = pod.key.named();
                if !self.asked.contains(&named) {
                    self.ask(named, value);
                }
            }
            (None, WriteOutcome::Done(_)) => self.removed = true,
            (
                None,
                WriteOutcome::Conflict | WriteOutcome::Absent | WriteOutcome::Refused(_) | WriteOutcome::Unknown(_),
            ) => {}
        }
    }
}
