//! When each physical pod was first seen as an orphan (decision S6).
//!
//! A plain value: each step gets the time as an argument. It is bounded, and it forgets: a pod that is no orphan any more,
//! one that an orphan of another kind has become, and one that was not looked at for an hour begin anew.
//!
//! What goes wrong: more orphans than there is room for. Those that find none are not remembered, so they stay where they
//! are until others are done. After a restart, a new list, or a server that was set back the caller calls
//! [`Looks::clear`]: a first look at what a dead cache showed is no look.

use std::collections::HashMap;
use std::time::Duration;

use super::{Facts, PodDecision, decide};
use topoloom_core::names::Uid;

/// After what time without a look a pod is forgotten. The caller looks again after the orphan delay; one that does not
/// for so long has lost sight of the pod.
pub const FORGET: Duration = Duration::from_secs(3600);
/// How often those that were forgotten make room: each time reads all entries, so it must not be done for each pod.
const SWEEP: Duration = Duration::from_secs(60);

/// The first look at an orphan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// When, by a clock that never goes back.
    pub first: Duration,
    /// As an orphan of which row of section 8.
    pub row: u8,
}

/// The first looks at all pods that are orphans now.
#[derive(Debug, Clone)]
pub struct Looks {
    room: usize,
    known: HashMap<Uid, Seen>,
    swept: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    look: Look,
    last: Duration,
}

impl Looks {
    /// A memory with room for so many pods.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self { room, known: HashMap::new(), swept: None }
    }

    /// The first look at a pod, unless it was forgotten.
    #[must_use]
    pub fn first(&self, pod: &Uid, now: Duration) -> Option<Look> {
        let seen = self.known.get(pod)?;
        (now.saturating_sub(seen.last) < FORGET).then_some(seen.look)
    }

    /// Decides on a pod with what is remembered of it, and remembers what follows. `facts.look` is not read.
    pub fn decide(&mut self, facts: &Facts<'_>, now: Duration) -> PodDecision {
        let Some(pod) = facts.pod else { return decide(facts, now) };
        let decision = decide(&Facts { look: self.first(&pod.uid, now), ..*facts }, now);
        match &decision {
            PodDecision::LookAgain { why, .. } => self.enter(&pod.uid, why.row(), now),
            PodDecision::AskVirtualPod { why, .. } | PodDecision::Delete { why, .. } => {
                self.touch(&pod.uid, why.row(), now)
            }
            // Nothing was seen.
            PodDecision::Retry | PodDecision::AskBinding(_) => {}
            // A state in which nothing may be judged: what was seen before it stays as good as it was.
            PodDecision::Withheld { .. } => {}
            PodDecision::Nothing(_) | PodDecision::Leave(_) | PodDecision::Synchronise(_) => self.forget(&pod.uid),
        }
        decision
    }

    /// A pod is gone.
    pub fn forget(&mut self, pod: &Uid) {
        self.known.remove(pod);
    }

    /// All that was seen counts no more.
    pub fn clear(&mut self) {
        self.known.clear();
        self.swept = None;
    }

    /// How many pods are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no pod is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    fn touch(&mut self, pod: &Uid, row: u8, now: Duration) {
        if let Some(seen) = self.known.get_mut(pod).filter(|seen| seen.look.row == row) {
            seen.last = now;
        }
    }

    fn enter(&mut self, pod: &Uid, row: u8, now: Duration) {
        let new = Seen { look: Look { first: now, row }, last: now };
        if let Some(seen) = self.known.get_mut(pod) {
            let stands = seen.look.row == row && now.saturating_sub(seen.last) < FORGET;
            *seen = if stands { Seen { look: seen.look, last: now } } else { new };
            return;
        }
        if self.known.len() >= self.room && self.swept.is_none_or(|swept| now.saturating_sub(swept) >= SWEEP) {
            self.swept = Some(now);
            self.known.retain(|_, seen| now.saturating_sub(seen.last) < FORGET);
        }
        if self.known.len() < self.room {
            self.known.insert(pod.clone(), new);
        }
    }
}
