//! A plan: writes, and the order that keeps the stored HyperNodes a valid forest at every moment (decision H7).
//!
//! A [`Plan`] is a value: the host prints, compares and executes it. Its steps are listed in an order in which they can
//! be executed one by one. An executor that runs several steps at once waits for exactly the steps named in
//! [`PlanStep::after`], and skips every step that depends, directly or not, on one that failed. Every state that can be
//! reached in this way is valid: [`PlanStep::after`] keeps apart every two states of two objects that must not meet.

mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::model::Spec;
use crate::names::Uid;
use crate::version::ResourceVersion;

/// Writes that lead from what is stored to what is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The writes, in an order in which they can be executed one by one.
    pub steps: Vec<PlanStep>,
    /// What is wanted but cannot be written, sorted by object.
    pub blocked: Vec<Blocked>,
}

/// The position of a step in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub usize);

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanStep {
    /// The object.
    pub name: Arc<str>,
    /// What is done to it.
    pub action: Action,
    /// The steps that must have succeeded before, in ascending order, each with one reason.
    pub after: Vec<Dependency>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// The object does not exist and must not exist yet.
    Create {
        /// What is written.
        write: Write,
        /// Whether that is all of it.
        part: WritePart,
    },
    /// The object exists as `base` says.
    Update {
        /// What is written.
        write: Write,
        /// The version that it was decided on.
        base: Base,
        /// What differs from that version.
        changes: Changes,
    },
    /// The object exists as `base` says, and is deleted.
    Delete {
        /// The version that it was decided on.
        base: Base,
        /// Whether a later step creates it again under its name.
        part: WritePart,
    },
}

/// Everything of ours that an object carries after a write. A server-side apply states all of it: the API server
/// removes what our field manager owns and the apply leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The spec.
    pub spec: Spec,
    /// Our labels, without the source label (which every write carries too).
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Label keys that another field manager owns and that must be removed, by a merge patch *before* the apply. After
    /// the apply the object has our annotation, and nothing shows any more that Volcano wrote these labels.
    pub remove_labels: BTreeSet<Arc<str>>,
    /// The annotation `topoloom.dev/group-id`.
    pub group_id: Option<Arc<str>>,
    /// The annotation `topoloom.dev/split-from`.
    pub split_from: Option<Arc<str>>,
    /// The annotation `topoloom.dev/description`.
    pub description: Option<Arc<str>>,
}

/// The version of an object that a write is decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Base {
    /// As it was observed.
    Observed {
        /// `metadata.uid`.
        uid: Uid,
        /// `metadata.resourceVersion`.
        resource_version: ResourceVersion,
    },
    /// As an earlier step of this plan left it: uid and resourceVersion are in the answer to that step.
    Step(StepId),
}

/// How an update differs from the version before it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// HyperNode children that are added, sorted.
    pub claims: Vec<Arc<str>>,
    /// HyperNode children that are dropped, sorted.
    pub releases: Vec<Arc<str>>,
    /// How many other members are added.
    pub added: usize,
    /// How many other members are dropped.
    pub dropped: usize,
    /// The tier before and after.
    pub tier: Option<Changed<u32>>,
    /// The tier's name before and after.
    pub tier_name: Option<Changed<Option<Arc<str>>>>,
    /// Label keys that are set, changed or removed, sorted.
    pub labels: Vec<Arc<str>>,
    /// Whether one of our annotations changes.
    pub annotations: Annotations,
    /// Whether a later step completes the object, because a cycle forces a second write.
    pub part: WritePart,
}

/// A value before and after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed<T> {
    /// What it was.
    pub from: T,
    /// What it becomes.
    pub to: T,
}

/// Whether one of our annotations changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Annotations {
    /// They are as wanted already.
    #[default]
    Same,
    /// At least one is written.
    Written,
}

/// Whether a write is all that its object needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WritePart {
    /// Afterwards the object is as wanted.
    #[default]
    Whole,
    /// A later step of this plan completes it.
    First,
}

/// A step that must have succeeded before another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// That step.
    pub step: StepId,
    /// Why it comes first.
    pub because: Because,
}

/// Why one step comes after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Because {
    /// Both write the same object.
    SameObject,
    /// The earlier step takes this child from its old parent. A child has at most one parent at every moment.
    Releases(Arc<str>),
    /// The earlier step creates this child.
    Creates(Arc<str>),
    /// After the earlier step no object lists this one any more, so it may be deleted.
    Unlists(Arc<str>),
    /// In the other order this parent would, for a moment, not have a higher tier than this child.
    Tier {
        /// The parent.
        parent: Arc<str>,
        /// The child.
        child: Arc<str>,
    },
}

/// Something that is wanted but cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocked {
    /// The object that is not, or not fully, as wanted.
    pub name: Arc<str>,
    /// What is not done.
    pub what: Withheld,
    /// Why.
    pub why: Obstacle,
}

/// What is not done to an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Withheld {
    /// It is not created.
    Create,
    /// It is not updated at all.
    Update,
    /// It is not deleted.
    Delete,
    /// It is written, but without this child.
    Child(Arc<str>),
}

/// Why something cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// An object that this source cannot change lists it.
    ListedBy(Arc<str>),
    /// An object that this source cannot change lists it and would not have a higher tier.
    BelowForeign(Arc<str>),
    /// This child does not exist and cannot be created now.
    Missing(Arc<str>),
    /// This child cannot be written, so it keeps a tier that is not lower.
    TierOf(Arc<str>),
    /// None of its members may be listed.
    NoMembers,
    /// An object of that name does not belong to this source.
    Foreign,
    /// No order was found. This does not happen; if it does, the plan reports it and writes nothing unsafe.
    NoOrder,
}

impl Plan {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}
