//! How a virtual node is taken away, step by step (section 6.9, decisions D4, S10 and S22).
//!
//! Owns the order of the steps. Each call looks at what is there now and says the next step, so a process that starts in the
//! middle continues where the last one stopped. Never: decides that a node has to go, or that a disruption is allowed; the
//! first is an argument ([`DeletionCause`]), the second too ([`Leave`]).
//!
//! ```text
//! mark (taint, cordon, time) ─► remove pods ─► look every 10 s ─► stop the lease, DELETE ─► remove the finalizer ─► release the claim
//! ```
//!
//! # Failure story
//!
//! Until the DELETE a node whose cause went is an ordinary node again: the merge of its metadata drops the mark. After the
//! DELETE Kubernetes has no undo; the finalizer keeps the object until its pods are finished. A claim that cannot be
//! released blocks nothing: it is tried again beside everything else.

use std::fmt;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::bars::{Bar, Bars, Doing};
use super::merge::Cordon;
use super::phase::Phase;
use super::precondition::Precondition;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;

/// The times of a deletion (decision S28).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletionTiming {
    /// How often pods that are still there are looked at.
    pub recheck: Duration,
    /// For how long pods are evicted, which honours their disruption budgets, before they are deleted.
    pub eviction_deadline: Duration,
}

impl Default for DeletionTiming {
    fn default() -> Self {
        Self { recheck: Duration::from_secs(10), eviction_deadline: Duration::from_secs(300) }
    }
}

/// So much time a pod has at most to end, from the request to delete it on, where its node has to be empty (decisions S10 and S17). It
/// is the tenant who chooses the grace of a pod, and one of a year would keep the machine for a year. Few pods need more than minutes.
pub const LONGEST_GRACE: Duration = Duration::from_secs(3_600);

/// Whether a pod that is being deleted has more time than [`LONGEST_GRACE`].
#[must_use]
pub fn is_slow(grace: Option<Duration>) -> bool {
    grace.is_some_and(|grace| grace > LONGEST_GRACE)
}

/// Why a virtual node has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeletionCause {
    /// The physical node does not exist any more, or is being deleted.
    NodeGone,
    /// The physical node has another UID: another machine has the name.
    NodeReplaced,
    /// The selector of the binding does not select the physical node.
    Selector,
    /// No policy lends the physical node, and the binding has `noPolicy: Withdraw`.
    Withdrawn,
    /// The binding is being deleted.
    BindingDeleted,
    /// An operator asked for it.
    Operator,
    /// Another client deleted the virtual node.
    DeletedByOthers,
    /// Another borrower, or another binding, claims the physical node, and the one that holds the claim lends it.
    Claimed,
}

impl DeletionCause {
    /// The word of metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NodeGone => "node-gone",
            Self::NodeReplaced => "node-replaced",
            Self::Selector => "selector",
            Self::Withdrawn => "withdrawn",
            Self::BindingDeleted => "binding-deleted",
            Self::Operator => "operator",
            Self::DeletedByOthers => "deleted-by-others",
            Self::Claimed => "claimed",
        }
    }

    /// Whether the machine is gone, so that its pods are gone too.
    #[must_use]
    pub fn is_final(self) -> bool {
        matches!(self, Self::NodeGone | Self::NodeReplaced)
    }
}

impl fmt::Display for DeletionCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodeGone => "the physical node is gone",
            Self::NodeReplaced => "the physical node was replaced by another one of the same name",
            Self::Selector => "the selector of the binding does not select the physical node",
            Self::Withdrawn => "no policy lends the physical node",
            Self::BindingDeleted => "the binding is being deleted",
            Self::Operator => "an operator asked for it",
            Self::DeletedByOthers => "another client deleted the virtual node",
            Self::Claimed => "another borrower or binding claims the physical node",
        })
    }
}

/// The virtual node, as far as its deletion is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedNode {
    /// Its UID.
    pub uid: Uid,
    /// Its version.
    pub version: ResourceVersion,
    /// Since when it is marked: the annotation `deletion-taint-time` beside the taint, where both are there.
    pub marked: Option<Timestamp>,
    /// Whether it is cordoned.
    pub cordon: Cordon,
    /// Whether the API server was asked to delete it.
    pub existence: Existence,
    /// Whether our finalizer is on it.
    pub finalizer: Finalizer,
}

/// Whether an object lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existence {
    /// It does.
    Alive,
    /// It has a deletion timestamp, and stays until its finalizers are gone.
    Terminating,
}

/// Whether our finalizer is on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finalizer {
    /// It is.
    Present,
    /// It is not.
    Absent,
}

/// What kind of pod it is: some block the deletion of their node and some do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodClass {
    /// A pod of a tenant.
    Ordinary,
    /// A pod of a DaemonSet, which would be made again for as long as the node is there.
    DaemonSet,
    /// The mirror of a static pod.
    Mirror,
    /// A placeholder of ours for host ports.
    Placeholder,
    /// A pod of a system namespace.
    System,
}

impl PodClass {
    /// Whether the guard counts such a pod, both where it goes and where it is one of those that the binding runs (decision S9). Pods of
    /// a DaemonSet are made again wherever their node is, and one that is never started stays Pending for as long as its node is there:
    /// with those a limit would allow more than it says. A placeholder is ours, and runs nowhere.
    #[must_use]
    pub fn counts(self) -> bool {
        match self {
            Self::Ordinary | Self::Mirror | Self::System => true,
            Self::DaemonSet | Self::Placeholder => false,
        }
    }
}

/// A pod that is bound to the virtual node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPod {
    /// Its UID.
    pub uid: Uid,
    /// Its class.
    pub class: PodClass,
    /// Its phase.
    pub phase: Phase,
    /// Whether it is being deleted.
    pub existence: Existence,
    /// When the API server refused its eviction last, and how often in a row.
    pub refused: Option<RefusedEviction>,
    /// How long it has to end from the request to delete it on, where it is being deleted.
    pub grace: Option<Duration>,
}

/// An eviction that a disruption budget did not allow (429).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedEviction {
    /// When.
    pub at: Timestamp,
    /// How often in a row.
    pub times: u32,
}

/// Whether the disruptive steps may be taken: the answer of the guard to everything that follows from the cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// The guard allows it, since this time.
    Given {
        /// Since when. After a restart it is the restart: a deadline becomes longer, never shorter.
        since: Timestamp,
    },
    /// The guard gathers acts until this time.
    Gathering {
        /// Until when.
        until: Timestamp,
    },
    /// The guard holds it.
    Held,
}

/// Everything that the next step depends on.
#[derive(Debug, Clone)]
pub struct DeletionFacts<'a> {
    /// Why the node has to go.
    pub cause: DeletionCause,
    /// The node; `None`: it is gone.
    pub node: Option<&'a DeletedNode>,
    /// The pods that are bound to it.
    pub pods: &'a [BoundPod],
    /// What may be written at all.
    pub bars: &'a Bars,
    /// The answer of the guard.
    pub leave: Leave,
    /// Whether pods are evicted before they are deleted (`syncer.evictions`).
    pub evictions: Evictions,
    /// The times.
    pub timing: DeletionTiming,
}

/// Whether the syncer may use the Eviction API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evictions {
    /// It may.
    Allowed,
    /// It may not: it waits for the deadline and deletes then.
    Off,
}

/// How a pod is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// Through the Eviction API, which honours disruption budgets.
    Evict,
    /// By a DELETE with its UID and the pod's own grace.
    Delete,
    /// It is being deleted with more than [`LONGEST_GRACE`]: by a DELETE with its UID and that grace.
    Shorten,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeletionStep {
    /// Write taint, cordon and time in one write. It moves no pod.
    Mark,
    /// Wait.
    Wait {
        /// What for.
        why: Waiting,
        /// Look again then; `None`: something has to change before.
        until: Option<Timestamp>,
    },
    /// Remove these pods, and look again.
    Remove {
        /// The pods, each with how.
        pods: Vec<(Uid, Removal)>,
        /// Look again then.
        look: Timestamp,
    },
    /// Stop the lease, then delete the node.
    Delete {
        /// What the request must carry.
        precondition: Precondition,
    },
    /// Stop the lease, then remove the finalizer.
    RemoveFinalizer {
        /// What the request must carry.
        precondition: Precondition,
    },
    /// Nothing of ours keeps the node any more; the API server removes it when the finalizers of others are gone.
    LeftToOthers,
    /// The node is gone: release the claim on the physical one.
    ReleaseClaim,
}

/// What a deletion waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting {
    /// Something forbids it.
    Barred(Bar),
    /// The guard gathers acts.
    Gathering,
    /// The guard holds the batch until an operator confirms it.
    Held,
    /// Pods are still there.
    Pods {
        /// How many block it.
        blocking: usize,
    },
    /// The UID or version of the node is not known, so no safe request can be made.
    Unguarded,
}

/// The next step.
#[must_use]
pub fn next_step(facts: &DeletionFacts<'_>, now: Timestamp) -> DeletionStep {
    let Some(node) = facts.node else { return DeletionStep::ReleaseClaim };
    let wait = |why, until| DeletionStep::Wait { why, until };
    if node.marked.is_none() || node.cordon == Cordon::Open {
        // At once, whatever the guard says: it moves no pod, and kube-scheduler binds to a node that is being deleted.
        return match facts.bars.forbid(Doing::Protect) {
            Some(bar) => wait(Waiting::Barred(bar), None),
            None => DeletionStep::Mark,
        };
    }
    if let Some(bar) = facts.bars.forbid(Doing::Disrupt) {
        return wait(Waiting::Barred(bar), None);
    }
    let since = match facts.leave {
        Leave::Given { since } => since,
        Leave::Gathering { until } => return wait(Waiting::Gathering, Some(until)),
        Leave::Held => return wait(Waiting::Held, None),
    };
    let look = after(now, facts.timing.recheck);
    let (pods, again) = removals(facts, node, since, now);
    if !pods.is_empty() {
        return DeletionStep::Remove { pods, look };
    }
    let blocking = facts.pods.iter().filter(|pod| blocks(pod, facts.cause)).count();
    if blocking > 0 {
        return wait(Waiting::Pods { blocking }, Some(again.map_or(look, |again| again.min(look))));
    }
    match (node.existence, node.finalizer, Precondition::of(&node.uid, &node.version)) {
        (Existence::Terminating, Finalizer::Absent, _) => DeletionStep::LeftToOthers,
        (_, _, None) => wait(Waiting::Unguarded, None),
        (Existence::Alive, _, Some(precondition)) => DeletionStep::Delete { precondition },
        (Existence::Terminating, Finalizer::Present, Some(precondition)) => {
            DeletionStep::RemoveFinalizer { precondition }
        }
    }
}

/// Whether the node waits for this pod. Where another machine has taken the name, its new virtual node must not appear while a
/// pod of the old one is there, of whichever class.
#[must_use]
pub fn blocks(pod: &BoundPod, cause: DeletionCause) -> bool {
    let is_of_old_machine = cause == DeletionCause::NodeReplaced;
    !pod.phase.is_final() && (pod.class == PodClass::Ordinary || is_of_old_machine)
}

/// The pods to remove now, and when the next one is due.
fn removals(
    facts: &DeletionFacts<'_>,
    node: &DeletedNode,
    since: Timestamp,
    now: Timestamp,
) -> (Vec<(Uid, Removal)>, Option<Timestamp>) {
    let deadline = after(since, facts.timing.eviction_deadline);
    let is_over = facts.cause.is_final() || now >= deadline;
    let mut again = None;
    let mut removals = Vec::new();
    // An ended pod holds nothing, and has a result: its owner, or pod garbage collection, removes it.
    for pod in facts.pods.iter().filter(|pod| !pod.phase.is_final()) {
        if pod.existence == Existence::Terminating {
            // A node whose deletion was requested does not come back, so nothing is left to wait for.
            if is_slow(pod.grace) && (is_over || node.existence == Existence::Terminating) {
                removals.push((pod.uid.clone(), Removal::Shorten));
            }
            continue;
        }
        if is_over {
            removals.push((pod.uid.clone(), Removal::Delete));
            continue;
        }
        let due = match (facts.evictions, pod.refused) {
            (Evictions::Off, _) => deadline,
            (Evictions::Allowed, None) => now,
            (Evictions::Allowed, Some(refused)) => after(refused.at, pause(refused.times)).min(deadline),
        };
        if due <= now {
            removals.push((pod.uid.clone(), Removal::Evict));
        } else {
            again = Some(again.map_or(due, |again: Timestamp| again.min(due)));
        }
    }
    (removals, again)
}

/// The pause after an eviction was refused so often in a row: 1 s, doubling to half a minute.
fn pause(times: u32) -> Duration {
    Duration::from_secs(1_u64.checked_shl(times.saturating_sub(1)).unwrap_or(u64::MAX).clamp(1, 30))
}

/// A later time; the last there is, where there is none.
fn after(time: Timestamp, pause: Duration) -> Timestamp {
    SignedDuration::try_from(pause).ok().and_then(|pause| time.checked_add(pause).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
