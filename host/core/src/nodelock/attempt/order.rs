//! What an attempt is given, what it asks for, and what it is answered.

use std::sync::Arc;
use std::time::Duration;

use super::super::holder::{Clock, Facts, Holder, LockHeld, LockState, Pod, Takeover, judge, judge_absent};
use super::super::needs::NodeKind;
use super::super::record::{Lock, PodId, PodKey};
use super::super::retry::Retry;
use super::BindFailure;
use crate::names::{LockValue, NodeName};
use crate::version::ResourceVersion;

/// The state of one key, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sight {
    /// The lock on the node.
    pub lock: Option<Lock>,
    /// The pod that it names.
    pub holder: Holder,
    /// Whether the API server was asked for that pod.
    pub confirmed: bool,
    /// Pods bound here that need this key and wait for their device plugin.
    pub waiting: Vec<Pod>,
    /// Whether the API server was asked for those.
    pub listed: bool,
    /// The last lock of a key that has none now, until the outcome of the pod that it names is known.
    pub left: Option<Lock>,
    /// Whether versions of the node were passed over in which a lock may have come and gone, and its pods were not listed
    /// since.
    pub missed: bool,
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
            missed: self.missed,
            first_seen: self.first_seen,
            clock,
            ttl,
            takeover,
        }
    }

    /// Its state; `None` if it is free.
    #[must_use]
    pub fn state(&self, node: &str, clock: Clock, ttl: Duration, takeover: Takeover) -> Option<LockState> {
        let facts = self.facts(node, clock, ttl, takeover);
        match &self.lock {
            Some(lock) => Some(judge(lock, &facts)),
            None => judge_absent(&facts).map(LockState::Held),
        }
    }
}

/// A node, as it was seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObservedNode {
    /// The version that this was read from.
    pub version: ResourceVersion,
    /// What it is.
    pub kind: NodeKind,
    /// The keys of the attempt, in their order.
    pub keys: Vec<Sight>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AttemptOrder {
    /// Look at the node: at the API server if `live`, otherwise at what a watch showed last.
    Look {
        /// Whether it has to be the present.
        live: bool,
    },
    /// Ask the API server for the pod of this attempt.
    AskPod,
    /// Ask the API server for the pod that a lock names. A pod that was found counts until the next wait or the end; a
    /// pod that was not found, and since when, counts until that value is replaced.
    AskHolder {
        /// The pod.
        pod: PodKey,
        /// The value that names it.
        value: LockValue,
    },
    /// Ask the API server for the pods that are bound to the node. It counts for the looks until the next wait or the end.
    AskWaiting,
    /// Wait until the node or the holder changes, and no longer than this.
    Wait {
        /// The holder.
        held: LockHeld,
        /// By the steady clock.
        until: Duration,
    },
    /// Take the lock from a pod that is not bound: it can then no longer be bound under that value.
    Revoke {
        /// The pod, in the version that this was decided on.
        pod: Pod,
        /// The value.
        value: LockValue,
    },
    /// Ask the API server for a pod that a cache has bound there without a lock.
    AskUnrecorded {
        /// The pod.
        pod: PodId,
    },
    /// Write a lock for a pod that is bound there and has none, if the node still is that version.
    Restore {
        /// The version.
        version: ResourceVersion,
        /// The position of the key.
        key: usize,
        /// The pod.
        pod: PodId,
    },
    /// Write the values of this attempt onto the node, if it still is that version.
    Claim {
        /// The version.
        version: ResourceVersion,
    },
    /// Bind the pod, if it still is that version.
    Bind {
        /// The version.
        version: ResourceVersion,
    },
    /// Mark the pod so that this attempt can no longer bind it, if it still is that version.
    Fence {
        /// The version.
        version: ResourceVersion,
        /// A value of this attempt.
        value: LockValue,
    },
    /// Remove these keys from the node, if it still is that version.
    Release {
        /// The version.
        version: ResourceVersion,
        /// Positions in the keys of the attempt.
        keys: Vec<usize>,
    },
    /// Wait this long before the next try.
    Pause(Duration),
    /// It is over.
    End(AttemptOutcome),
}

/// The outcome of a write.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WriteOutcome {
    /// It was applied; with the new version of what was written.
    Done(ResourceVersion),
    /// It was refused, because what it names is not that version, or not in that state.
    Conflict,
    /// It was refused, because what it names is not there.
    Absent,
    /// It was refused for another reason, which trying again does not change.
    Refused(Arc<str>),
    /// It is not known. It may be applied later, too.
    Unknown(Arc<str>),
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AttemptOutcome {
    /// Whether the pod is bound to the node.
    pub result: Result<Bound, BindFailure>,
    /// A lock of this attempt may be left on the node: it could not be proved that the pod will not be bound under it, or
    /// it could not be removed. The sweeper resolves it.
    pub kept: bool,
}

/// When a pod was bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Bound {
    /// By this attempt, or by another one meanwhile.
    Now,
    /// It was bound to this node before.
    Before,
}

/// What an attempt is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Request {
    /// The pod.
    pub pod: PodId,
    /// The node.
    pub node: NodeName,
    /// The values of this attempt, one for each key; none where the pod needs no lock.
    pub values: Vec<LockValue>,
    /// When it gives up, by the steady clock.
    pub deadline: Duration,
    /// When locks of others expire.
    pub ttl: Duration,
    /// Whose locks are taken over for their age alone.
    pub takeover: Takeover,
    /// How API errors are tried again.
    pub retry: Retry,
}
