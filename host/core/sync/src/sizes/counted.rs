//! Which pods of a physical node that is lent count, and how much of each (decision S14).
//!
//! A pod of the virtual cluster is subtracted by that cluster's own scheduler; so its physical pod is left out, but only while
//! that scheduler really does subtract it: it is known there under the same UID, has not ended, and is bound to this very
//! node. Where the physical pod requests more than the virtual one (a sidecar was injected, it was resized), that
//! scheduler does not know of the excess, and it counts. In every other case the pod uses room that no one else subtracts.
//!
//! Owns: that verdict, with its reason. It never reads a pod: it is given facts, and
//! [`requests`](crate::requests) computes the totals among them.
//!
//! Failure story: what is not known counts. A node that looks smaller than it is lends less for a moment; one that looks
//! larger gets pods that its kubelet refuses.

use std::fmt;

use crate::phase::Phase;
use crate::quantity::Quantity;
use crate::resources::{ResourceList, ResourceName};
use topoloom_core::names::{NodeName, Uid};

/// Whose pod it is, by identity (decision S6): the label `managed-by` alone is not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PodOwner {
    /// This binding's.
    Ours,
    /// Anyone else's.
    Foreign,
}

/// What matters of a pod of the physical node. That it is being deleted does not matter: it uses its room until it is gone.
#[derive(Debug, Clone, Copy)]
pub struct PhysicalPod<'a> {
    /// Whose it is.
    pub owner: PodOwner,
    /// The UID of its virtual pod, as its annotation has it.
    pub virtual_uid: Option<&'a str>,
    /// Its phase.
    pub phase: Phase,
    /// What it requests in total.
    pub requests: &'a ResourceList,
}

/// What matters of a virtual pod.
#[derive(Debug, Clone, Copy)]
pub struct VirtualPod<'a> {
    /// Its UID.
    pub uid: &'a Uid,
    /// Its phase.
    pub phase: Phase,
    /// The virtual node that it is bound to.
    pub node: Option<&'a NodeName>,
    /// What it requests in total.
    pub requests: &'a ResourceList,
}

/// How much of a pod counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// All of it.
    Whole(WholeReason),
    /// What it requests beyond its virtual pod.
    Excess {
        /// How much that is; never empty.
        over: ResourceList,
    },
    /// Nothing.
    Not(NotReason),
}

/// Why all of a pod counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WholeReason {
    /// It is not ours.
    Foreign,
    /// It is ours, and no virtual pod is known that names it.
    NoVirtualPod,
    /// It is ours, and the virtual pod of that name is another one.
    OtherUid,
    /// It is ours, and its virtual pod has ended: the virtual scheduler counts it no more.
    VirtualPodEnded,
    /// It is ours, and its virtual pod is bound to another node or to none.
    BoundElsewhere,
    /// It is a virtual pod, in the sum of its own node.
    Virtual,
}

/// Why nothing of a pod counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotReason {
    /// It has succeeded or failed.
    Ended,
    /// It is ours, and the virtual scheduler counts all of it.
    CountedThere,
}

/// How a pod counts, without the amounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CountedAs {
    /// All of it.
    Whole(WholeReason),
    /// What it requests beyond its virtual pod.
    Excess,
    /// Nothing.
    Not(NotReason),
}

/// How much of a physical pod counts on the node that is lent as `node`. `twin` is the virtual pod that its annotations name,
/// where the cache has one that names it, too: a lender may have copied a manifest with all of its annotations.
#[must_use]
pub fn counted(pod: &PhysicalPod<'_>, twin: Option<&VirtualPod<'_>>, node: &NodeName) -> Counted {
    if pod.phase.is_final() {
        return Counted::Not(NotReason::Ended);
    }
    if pod.owner == PodOwner::Foreign {
        return Counted::Whole(WholeReason::Foreign);
    }
    let (Some(twin), Some(uid)) = (twin, pod.virtual_uid) else {
        return Counted::Whole(WholeReason::NoVirtualPod);
    };
    if &**twin.uid != uid {
        return Counted::Whole(WholeReason::OtherUid);
    }
    if twin.phase.is_final() {
        return Counted::Whole(WholeReason::VirtualPodEnded);
    }
    if twin.node != Some(node) {
        return Counted::Whole(WholeReason::BoundElsewhere);
    }
    let excess = |(name, requested): (&ResourceName, &Quantity)| {
        let there = twin.requests.get(name).copied().unwrap_or_default().max(Quantity::ZERO);
        let over = requested.saturating_sub(there);
        (!over.is_zero()).then(|| (name.clone(), over))
    };
    let over: ResourceList = pod.requests.iter().filter_map(excess).collect();
    if over.is_empty() { Counted::Not(NotReason::CountedThere) } else { Counted::Excess { over } }
}

/// How much of a virtual pod counts in the sum of the virtual node that it is bound to.
#[must_use]
pub fn counted_there(pod: &VirtualPod<'_>) -> Counted {
    if pod.phase.is_final() { Counted::Not(NotReason::Ended) } else { Counted::Whole(WholeReason::Virtual) }
}

impl Counted {
    /// How the pod counts, without the amounts.
    #[must_use]
    pub fn summary(&self) -> CountedAs {
        match self {
            Self::Whole(why) => CountedAs::Whole(*why),
            Self::Excess { .. } => CountedAs::Excess,
            Self::Not(why) => CountedAs::Not(*why),
        }
    }
}

impl fmt::Display for CountedAs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Whole(WholeReason::Foreign) => "counts: it is not ours",
            Self::Whole(WholeReason::NoVirtualPod) => "counts: no virtual pod is known that it names and that names it",
            Self::Whole(WholeReason::OtherUid) => "counts: the virtual pod of that name has another UID",
            Self::Whole(WholeReason::VirtualPodEnded) => "counts: its virtual pod has ended, and this one has not",
            Self::Whole(WholeReason::BoundElsewhere) => "counts: its virtual pod is not bound to this virtual node",
            Self::Whole(WholeReason::Virtual) => "counts: it is bound to this virtual node",
            Self::Excess => "counts with what it requests beyond its virtual pod",
            Self::Not(NotReason::Ended) => "does not count: it has ended",
            Self::Not(NotReason::CountedThere) => "does not count: the virtual scheduler counts its virtual pod",
        })
    }
}

#[cfg(test)]
mod tests;
