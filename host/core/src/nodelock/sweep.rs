//! One look at one node's locks: those that nobody holds are removed, and nothing is ever claimed.

use std::sync::Arc;

use super::attempt::{Answer, Node, Order};
use super::decide::unconfirmed;
use super::holder::{Clock, Held, Holder, Pod, Reason, Standing, Takeover, Why};
use super::record::PodKey;

/// What a sweep found about one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The position of the key.
    pub key: usize,
    /// The value.
    pub value: Arc<str>,
    /// Why nobody holds it.
    pub reason: Reason,
}

/// How one key stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stands {
    /// The position of the key.
    pub key: usize,
    /// The value; `None` where a pod is bound here without one.
    pub value: Option<Arc<str>>,
    /// The pod that it is about, as far as it is known.
    pub pod: Option<PodKey>,
    /// How.
    pub standing: Standing,
}

/// One sweep of one node.
#[derive(Debug, Clone)]
pub struct Sweep {
    node: Arc<str>,
    ttl: std::time::Duration,
    takeover: Takeover,
    /// Only look.
    report: bool,
    step: Step,
    findings: Vec<Finding>,
    stands: Vec<Stands>,
    removed: bool,
    asked: Vec<PodKey>,
    listed: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Look,
    AskHolder {
        pod: PodKey,
        value: Arc<str>,
    },
    AskWaiting,
    /// From the last to the first; then the keys are removed from the node in that version.
    Revoke {
        from: Vec<(Pod, Arc<str>)>,
        version: Arc<str>,
        keys: Vec<usize>,
    },
    End,
}

impl Sweep {
    /// Begins one.
    #[must_use]
    pub fn new(node: Arc<str>, ttl: std::time::Duration, takeover: Takeover, report: bool) -> Self {
        Self {
            node,
            ttl,
            takeover,
            report,
            step: Step::Look,
            findings: Vec::new(),
            stands: Vec::new(),
            removed: false,
            asked: Vec::new(),
            listed: false,
        }
    }

    /// What was found.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How every key stood that is held by somebody, or was.
    #[must_use]
    pub fn stands(&self) -> &[Stands] {
        &self.stands
    }

    /// Whether what was found is removed.
    #[must_use]
    pub fn removed(&self) -> bool {
        self.removed
    }

    /// What to do now; `None` at the end. Whatever fails is left to the next sweep.
    #[must_use]
    pub fn next(&self) -> Option<Order> {
        Some(match self.step.clone() {
            Step::Look => Order::Look { live: false },
            Step::AskHolder { pod, value } => Order::AskHolder { pod, value },
            Step::AskWaiting => Order::AskWaiting,
            Step::Revoke { mut from, version, keys } => match from.pop() {
                Some((pod, value)) => Order::Revoke { pod, value },
                None => Order::Release { version, keys },
            },
            Step::End => return None,
        })
    }

    /// The node, as it was seen.
    pub fn looked(&mut self, clock: Clock, node: Option<Node>) {
        self.step = Step::End;
        let Some(node) = node else { return };
        self.findings.clear();
        self.stands.clear();
        let mut from = Vec::new();
        for (key, sight) in node.keys.iter().enumerate() {
            let Some(standing) = sight.standing(&self.node, clock, self.ttl, self.takeover) else { continue };
            let value = sight.lock.as_ref().map(|lock| Arc::clone(&lock.value));
            let named = match &sight.holder {
                Holder::Seen(pod) => Some(pod.key.clone()),
                _ => sight.lock.as_ref().and_then(|lock| lock.pod().cloned()),
            };
            let held = match &standing {
                Standing::Held(held) => held.holder.clone(),
                Standing::Over(_) => None,
            };
            self.stands.push(Stands { key, value: value.clone(), pod: named.or(held), standing: standing.clone() });
            let Some(value) = value else { continue };
            match standing {
                Standing::Held(Held { why: Why::Unlisted, .. }) if !self.listed => {
                    self.listed = true;
                    self.step = Step::AskWaiting;
                    return;
                }
                Standing::Held(held) => {
                    if let Some(pod) = unconfirmed(&held).filter(|pod| !self.asked.contains(pod)) {
                        self.asked.push(pod.clone());
                        self.step = Step::AskHolder { pod: pod.clone(), value };
                        return;
                    }
                }
                Standing::Over(reason) => {
                    if let (true, Holder::Seen(pod)) = (reason.revokes(), &sight.holder) {
                        from.push((pod.clone(), Arc::clone(&value)));
                    }
                    self.findings.push(Finding { key, value, reason });
                }
            }
        }
        if self.report || self.findings.is_empty() {
            return;
        }
        let keys = self.findings.iter().map(|finding| finding.key).collect();
        self.step = Step::Revoke { from, version: node.version, keys };
    }

    /// The pod that a lock names, or the pods of the node, were asked for: the next look knows.
    pub fn holder_asked(&mut self) {
        self.step = Step::Look;
    }

    /// The answer to a write.
    pub fn answered(&mut self, answer: &Answer) {
        self.step = match (std::mem::replace(&mut self.step, Step::End), answer) {
            (Step::Revoke { mut from, version, keys }, Answer::Done(_)) if !from.is_empty() => {
                from.pop();
                Step::Revoke { from, version, keys }
            }
            // What was known of the pod does not hold: the next sweep has to know better.
            (Step::Revoke { mut from, .. }, _) if !from.is_empty() => {
                match from.pop().filter(|(pod, _)| !self.asked.contains(&pod.key)) {
                    Some((pod, value)) => {
                        self.asked.push(pod.key.clone());
                        Step::AskHolder { pod: pod.key, value }
                    }
                    None => Step::End,
                }
            }
            (Step::Revoke { .. }, Answer::Done(_)) => {
                self.removed = true;
                Step::End
            }
            _ => Step::End,
        };
    }
}
