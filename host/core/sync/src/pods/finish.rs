//! Who finishes a virtual pod that terminates (decision S10, last sentences).
//!
//! Owns when the syncer does it in place of the top-down half, and what it writes before. Never touches a pod on a node
//! that is not ours, and never one whose physical pod may still run.
//!
//! What goes wrong: the top-down half is gone, and a virtual pod terminates for ever, because no kubelet answers for it.
//! A minute after the pod should have ended the syncer reads both sides live, and only where the physical pod, or the whole
//! physical node, is gone it writes a final phase and then deletes with grace 0. The order matters: a Job counts a pod
//! that is deleted while it runs as failed, whatever it did.
//!
//! A `deletionTimestamp` is a time of the API server's clock, and no clock of ours is compared with it: one that is ahead would
//! leave the top-down half no time at all, and one that is behind would keep the pod for as long as it is behind. What counts is
//! how long the pod has been seen to terminate, by a clock that cannot be set. A process that takes over begins to count anew: it
//! waits longer, and never less.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::bars::{Bar, Bars, Doing};
use crate::identity::mapping::PhysicalPodRef;
use crate::identity::{Owner, WhyForeign};
use crate::phase::Phase;
use crate::precondition::Precondition;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;

/// How long after the end of its grace the top-down half has for a pod before the syncer finishes it.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The grace of a pod that says none, although it terminates: what Kubernetes gives one that asks for nothing.
const USUAL_GRACE: Duration = Duration::from_secs(30);
/// The reason of a final phase that is written because no real one is known. Part of the contract with the top-down half.
pub const PHYSICAL_POD_LOST: &str = "PhysicalPodLost";

/// What matters of a virtual pod that terminates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndingPod {
    /// Its UID.
    pub uid: Uid,
    /// The version that this was read from.
    pub version: ResourceVersion,
    /// Its phase; `None` where it is none that Kubernetes knows.
    pub phase: Option<Phase>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its `deletionTimestamp`, by the clock of the API server: with one it terminates.
    pub deletion: Option<Timestamp>,
    /// Its `deletionGracePeriodSeconds`: with 0 only finalizers keep it.
    pub grace: Option<i64>,
}

/// What a live read showed of the physical pod that the virtual one names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodEvidence {
    /// It was not read.
    Unasked,
    /// There is no pod of that namespace and name.
    Absent,
    /// There is one, with this UID.
    Present(Uid),
}

/// What a live read showed of the physical node, by its UID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeEvidence {
    /// It was not read.
    Unasked,
    /// No node with that UID exists.
    Gone,
    /// It exists.
    Present,
}

/// What a decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct EndFacts<'a> {
    /// The virtual pod.
    pub pod: &'a EndingPod,
    /// For how long this process has seen it terminate, by a clock that cannot be set.
    pub terminating_for: Duration,
    /// Whose the virtual node is that it is bound to.
    pub node: &'a Owner,
    /// Its physical pod.
    pub physical: &'a PodEvidence,
    /// The physical node.
    pub physical_node: NodeEvidence,
    /// A physical pod of the cache that names this virtual one, by its UID. The virtual one may name another, since its
    /// annotations were edited: what runs for it runs all the same.
    pub bearer: Option<&'a Uid>,
    /// The phase that the physical pod was last seen in. Only a final one says how the pod ended.
    pub seen: Option<Phase>,
    /// What forbids writes now.
    pub bars: &'a Bars,
}

/// Why a virtual pod may be finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyFinished {
    /// Its physical pod is gone.
    PodGone(PhysicalPodRef),
    /// Its physical node is gone.
    NodeGone,
}

/// What follows for a virtual pod.
#[derive(Debug, Clone, PartialEq)]
pub enum EndDecision {
    /// Nothing.
    Nothing(WhyNotFinished),
    /// Look again after this time.
    Wait {
        /// How much is left of the time of the top-down half.
        left: Duration,
    },
    /// Read this physical pod live, and decide again.
    AskPhysicalPod(PhysicalPodRef),
    /// Read the physical node live, and decide again.
    AskPhysicalNode,
    /// Write this to `pods/status`, as a JSON merge patch, and decide again with the answer.
    WriteFinalPhase {
        /// Why.
        why: WhyFinished,
        /// The patch, which carries the resourceVersion.
        patch: Value,
    },
    /// Delete it with grace 0.
    Delete {
        /// Why.
        why: WhyFinished,
        /// What the request must carry.
        precondition: Precondition,
    },
    /// It would be finished, and this forbids it now.
    Withheld(Bar),
}

/// Why a virtual pod is not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNotFinished {
    /// It does not terminate.
    NotTerminating,
    /// It is bound to a node that is not ours.
    Foreign(WhyForeign),
    /// It is not known yet whose its node is, or the node has to be adopted first.
    NodeUnknown,
    /// Its physical pod may still run.
    Lives,
    /// Only its finalizers keep it.
    Finalizers,
    /// Its UID or version is not known, so no safe request can be made.
    Unguarded,
}

impl EndingPod {
    /// How long it may take to end, and the top-down half to finish it, from the request to delete it on.
    fn patience(&self) -> Duration {
        let grace =
            self.grace.map_or(USUAL_GRACE, |grace| Duration::from_secs(u64::try_from(grace).unwrap_or_default()));
        grace.saturating_add(PATIENCE)
    }
}

/// What follows for a virtual pod on one of our nodes.
#[must_use]
pub fn decide(facts: &EndFacts<'_>) -> EndDecision {
    let pod = facts.pod;
    if pod.deletion.is_none() {
        return EndDecision::Nothing(WhyNotFinished::NotTerminating);
    }
    match facts.node {
        Owner::Ours => {}
        Owner::Foreign(why) => return EndDecision::Nothing(WhyNotFinished::Foreign(why.clone())),
        Owner::Adoptable(_) | Owner::Unknown(_) => return EndDecision::Nothing(WhyNotFinished::NodeUnknown),
    }
    let left = pod.patience().saturating_sub(facts.terminating_for);
    if !left.is_zero() {
        return EndDecision::Wait { left };
    }
    if let Some(bar) = facts.bars.forbid(Doing::Disrupt) {
        return EndDecision::Withheld(bar);
    }
    let why = match gone(facts) {
        Ok(why) => why,
        Err(decision) => return decision,
    };
    let Some(precondition) = Precondition::of(&pod.uid, &pod.version) else {
        return EndDecision::Nothing(WhyNotFinished::Unguarded);
    };
    if !pod.phase.is_some_and(Phase::is_final) {
        let patch = patch(&pod.version, facts.seen);
        return EndDecision::WriteFinalPhase { why, patch };
    }
    if pod.grace == Some(0) {
        return EndDecision::Nothing(WhyNotFinished::Finalizers);
    }
    EndDecision::Delete { why, precondition }
}

/// Why the physical pod cannot run any more, or what has to be done to know.
fn gone(facts: &EndFacts<'_>) -> Result<WhyFinished, EndDecision> {
    let named = PhysicalPodRef::read(&facts.pod.annotations).ok();
    match (named, facts.physical) {
        // Whatever it names, another one runs for it: only the end of the machine is its end.
        (_, PodEvidence::Absent | PodEvidence::Present(_)) if facts.bearer.is_some() => {}
        (Some(named), PodEvidence::Absent) => return Ok(WhyFinished::PodGone(named)),
        // Where the virtual pod names no UID, the pod of that name may be its own.
        (Some(named), PodEvidence::Present(found)) if named.uid.as_ref().is_some_and(|uid| uid != found) => {
            return Ok(WhyFinished::PodGone(named));
        }
        (Some(named), PodEvidence::Unasked) if facts.physical_node != NodeEvidence::Gone => {
            return Err(EndDecision::AskPhysicalPod(named));
        }
        _ => {}
    }
    match facts.physical_node {
        NodeEvidence::Gone => Ok(WhyFinished::NodeGone),
        NodeEvidence::Unasked => Err(EndDecision::AskPhysicalNode),
        NodeEvidence::Present => Err(EndDecision::Nothing(WhyNotFinished::Lives)),
    }
}

fn patch(version: &ResourceVersion, seen: Option<Phase>) -> Value {
    let status = match seen.filter(|seen| seen.is_final()) {
        Some(ended) => json!({ "phase": ended.word() }),
        None => json!({
            "phase": Phase::Failed.word(),
            "reason": PHYSICAL_POD_LOST,
            "message": "The physical pod is gone, and how it ended is not known.",
        }),
    };
    json!({ "metadata": { "resourceVersion": &**version }, "status": status })
}

impl fmt::Display for WhyFinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodGone(named) => write!(f, "its physical pod {named} is gone"),
            Self::NodeGone => f.write_str("its physical node is gone"),
        }
    }
}

impl fmt::Display for WhyNotFinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTerminating => f.write_str("it does not terminate"),
            Self::Foreign(why) => write!(f, "its node is not ours: {why}"),
            Self::NodeUnknown => f.write_str("it is not known whose its node is"),
            Self::Lives => f.write_str("its physical pod may still run"),
            Self::Finalizers => f.write_str("only its finalizers keep it"),
            Self::Unguarded => f.write_str("its UID or resourceVersion is not known"),
        }
    }
}

impl fmt::Display for EndDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(why) => write!(f, "nothing: {why}"),
            Self::Wait { left } => write!(f, "the top-down half has {} s more to finish it", left.as_secs()),
            Self::AskPhysicalPod(named) => write!(f, "its physical pod {named} is read"),
            Self::AskPhysicalNode => f.write_str("its physical node is read"),
            Self::WriteFinalPhase { why, .. } => write!(f, "a final phase is written: {why}"),
            Self::Delete { why, .. } => write!(f, "it is deleted with grace 0: {why}"),
            Self::Withheld(bar) => write!(f, "not finished, because {bar}"),
        }
    }
}
