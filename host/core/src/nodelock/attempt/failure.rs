//! Why a pod is not bound: contention, and everything else (`node-lock-and-bind.md` A11).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::super::go_duration::Go;
use super::LockHeld;
use crate::names::{NodeName, Uid};

/// Why a pod is not bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Hash)]
pub enum BindFailure {
    /// There is no pod of that name.
    #[error("the pod is gone")]
    PodGone,
    /// The pod of that name is another one.
    #[error("a pod of that name has the UID {0} now")]
    PodReplaced(Uid),
    /// It is bound to another node.
    #[error("the pod is bound to node {0}")]
    PodElsewhere(NodeName),
    /// It has a deletionTimestamp.
    #[error("the pod is being deleted")]
    PodTerminating,
    /// It has succeeded or failed.
    #[error("the pod has already finished")]
    PodFinished,
    /// There is no node of that name.
    #[error("failed to get node: no node has that name")]
    NodeGone,
    /// Another pod holds the lock, and did until the end.
    #[error("node lock contention: node {node} has been locked within {} {}{}", Go(*ttl), Whose(held), held.why)]
    Held {
        /// The node.
        node: NodeName,
        /// How long locks last.
        ttl: Duration,
        /// The holder.
        held: LockHeld,
    },
    /// Others of this process that came earlier wait for the same node, and did until the end.
    #[error(
        "node lock contention: node {node} was not free in time: other pods were ahead in its queue{}",
        Meanwhile(held.as_ref())
    )]
    Behind {
        /// The node.
        node: NodeName,
        /// The holder of the node, if it is known.
        held: Option<LockHeld>,
    },
    /// So many wait already that this one was refused.
    #[error("node lock contention: node {node} is not free, and {full}{}", Meanwhile(held.as_ref()))]
    Crowded {
        /// The node.
        node: NodeName,
        /// Where there was no room.
        full: Full,
        /// The holder of the node, if it is known.
        held: Option<LockHeld>,
    },
    /// The lock was taken away before the pod was bound.
    #[error("another client took the lock from this attempt before the pod was bound")]
    Lost,
    /// The caller does not wait any more.
    #[error("the caller gave up{}", Meanwhile(.0.as_ref()))]
    GaveUp(Option<LockHeld>),
    /// This process is about to end, and this attempt still waits.
    #[error("this replica of the extender stops; another replica takes the next try")]
    Stopping,
    /// There was no time left.
    #[error("the time for this Bind was too short")]
    TooLate,
    /// The API server refuses something.
    #[error("{0} was refused: {1}")]
    Refused(What, Arc<str>),
    /// The API server did not answer, or took too many tries.
    #[error("{0} did not succeed in {1} tries, the last one: {2}")]
    Unanswered(What, u32, Arc<str>),
    /// The attempt crashed, which is a defect. The text of a crash may hold anything, so only the log has it.
    #[error("internal error in topoloom; see its log (please report it)")]
    Broke,
}

impl BindFailure {
    /// Whether another pod held the node until the end (A11): it may be tried again, and nothing is wrong.
    #[must_use]
    pub fn is_contention(&self) -> bool {
        matches!(self, Self::Held { .. } | Self::Behind { .. } | Self::Crowded { .. })
    }

    /// Names a lack of time: contention, if the attempt waited for others for most of it. `TooLate` means that more
    /// time would have been enough.
    #[must_use]
    pub fn after(self, waited: Duration, within: Duration, node: &NodeName) -> Self {
        match self {
            Self::TooLate if waited > within / 2 => Self::Behind { node: node.clone(), held: None },
            other => other,
        }
    }

    /// The word of metrics.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::PodGone => "pod-gone",
            Self::PodReplaced(_) => "pod-replaced",
            Self::PodElsewhere(_) => "pod-elsewhere",
            Self::PodTerminating => "pod-terminating",
            Self::PodFinished => "pod-finished",
            Self::NodeGone => "node-gone",
            Self::Held { .. } | Self::Behind { .. } => "contention",
            Self::Crowded { .. } => "crowded",
            Self::Lost => "lost",
            Self::GaveUp(_) => "gave-up",
            Self::Stopping => "stopping",
            Self::TooLate => "too-late",
            Self::Refused(..) => "refused",
            Self::Unanswered(..) => "unanswered",
            Self::Broke => "broke",
        }
    }

    /// Every word there is.
    pub const WORDS: [&str; 15] = [
        "pod-gone",
        "pod-replaced",
        "pod-elsewhere",
        "pod-terminating",
        "pod-finished",
        "node-gone",
        "contention",
        "crowded",
        "lost",
        "gave-up",
        "stopping",
        "too-late",
        "refused",
        "unanswered",
        "broke",
    ];
}

/// Where there was no room for one more Bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Hash)]
pub enum Full {
    /// As many as may wait for this node.
    #[error("{0} Binds wait for it already, which is the limit")]
    Node(usize),
    /// As many as may wait at all.
    #[error("{0} Binds wait already, which is the limit")]
    Waiting(usize),
    /// As many as may be under way at all.
    #[error("{0} Binds are under way already, which is the limit")]
    UnderWay(usize),
}

/// What was asked of the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// The lock on the node.
    Claim,
    /// The mark on a pod that loses its lock.
    Revoke,
    /// The Binding.
    Bind,
    /// The mark on the pod of this attempt.
    Fence,
    /// The removal of the lock.
    Release,
    /// The lock of a pod that had lost it.
    Restore,
    /// A read.
    Read,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claim => "writing the lock onto the node",
            Self::Revoke => "revoking the lock from the pod that held it",
            Self::Bind => "the Binding",
            Self::Fence => "marking the pod as not bound",
            Self::Release => "removing the lock from the node",
            Self::Restore => "writing a lock for the pod that is bound to the node and has none",
            Self::Read => "reading",
        })
    }
}

/// The holder of a node, if it is known.
struct Meanwhile<'a>(Option<&'a LockHeld>);

impl fmt::Display for Meanwhile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(held) => write!(f, "; it is held {}{}", Whose(held), held.why),
            None => Ok(()),
        }
    }
}

struct Whose<'a>(&'a LockHeld);

impl fmt::Display for Whose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.holder {
            Some(pod) => write!(f, "by {pod}: "),
            None => f.write_str("by an unknown holder: "),
        }
    }
}
