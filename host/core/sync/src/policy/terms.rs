//! What a valid policy says, in types that cannot hold anything else.
//!
//! Only [`validate`](super::validate) makes one.

use std::time::Duration;

use crate::quantity::{Percent, Quantity};
use crate::resources::ResourceName;
use crate::schedule::Schedule;
use crate::selector::NodeSelector;

/// The terms of a valid policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyTerms {
    /// The name of the ClusterBinding that it lends to.
    pub cluster: String,
    /// The virtual cluster that it lends to, where it names one.
    pub virtual_cluster: Option<String>,
    /// A higher one comes first.
    pub priority: i32,
    /// Which nodes.
    pub selector: NodeSelector,
    /// During which hours.
    pub schedule: Schedule,
    /// How much, in the order in which limits are applied.
    pub limits: Vec<Limit>,
    /// What becomes of pods when the windows close.
    pub on_close: OnClose,
}

impl PolicyTerms {
    /// Whether it is for a binding of a virtual cluster.
    #[must_use]
    pub fn is_for(&self, binding: &str, virtual_cluster: &str) -> bool {
        self.cluster == binding && self.virtual_cluster.as_deref().is_none_or(|named| named == virtual_cluster)
    }
}

/// A limit on one resource. The same resource may have several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// The resource. Its name is legal.
    pub resource: ResourceName,
    /// The most that is lent of it.
    pub value: LimitValue,
}

/// The most that is lent of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitValue {
    /// So much. Zero lends nothing (decision D6).
    Quantity(Quantity),
    /// A share of what is left.
    Share(Percent),
    /// The smaller of both.
    Both(Quantity, Percent),
}

impl LimitValue {
    /// What is written of the two; `None` where neither is: that limits nothing.
    #[must_use]
    pub fn new(quantity: Option<Quantity>, share: Option<Percent>) -> Option<Self> {
        match (quantity, share) {
            (Some(quantity), Some(share)) => Some(Self::Both(quantity, share)),
            (Some(quantity), None) => Some(Self::Quantity(quantity)),
            (None, Some(share)) => Some(Self::Share(share)),
            (None, None) => None,
        }
    }

    /// The quantity, if there is one.
    #[must_use]
    pub fn quantity(self) -> Option<Quantity> {
        match self {
            Self::Quantity(quantity) | Self::Both(quantity, _) => Some(quantity),
            Self::Share(_) => None,
        }
    }

    /// The share, if there is one.
    #[must_use]
    pub fn share(self) -> Option<Percent> {
        match self {
            Self::Share(percent) | Self::Both(_, percent) => Some(percent),
            Self::Quantity(_) => None,
        }
    }
}

/// What becomes of pods when the windows close (decision S17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnClose {
    /// They stay until they end: `forceReclaim` is not set. No other pod is scheduled to the node.
    Keep,
    /// They go.
    Reclaim {
        /// How long they have.
        grace: Duration,
        /// How they leave.
        via: ReclaimVia,
    },
}

/// How pods leave a node whose grace is running (decision S17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReclaimVia {
    /// They may stay until it is over, and are deleted then. PodDisruptionBudgets are not honoured.
    #[default]
    Delete,
    /// During its second half they are evicted by the Eviction API, which honours PodDisruptionBudgets. What is left is
    /// deleted.
    Eviction,
}

impl ReclaimVia {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Delete, Self::Eviction];

    /// The word in a policy.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::Eviction => "eviction",
        }
    }

    /// Reads the word of a policy.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|via| via.word() == text)
    }
}
