//! A plan: writes with the order that keeps the scheduler's tree sound at every moment (decision H7).
//!
//! A [`Plan`] is a value: it is printed, compared and executed by others. Its steps stand in an order in which they can
//! be executed one by one. Whoever executes several at once waits for exactly the steps named in [`Step::after`], and
//! leaves out every step that comes (directly or not) after one that failed. Every state that can be reached in this
//! way is sound: the order in [`Step::after`] keeps apart every two states of two objects that must not meet.

mod show;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::model::Spec;
use crate::version::ResourceVersion;

/// Writes that lead from what is stored to what is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The writes, in an order in which they can be executed one by one.
    pub steps: Vec<Step>,
    /// What is wanted and cannot be written, sorted by object.
    pub blocked: Vec<Blocked>,
}

/// The position of a step in its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub usize);

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
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
        part: Part,
    },
    /// The object exists as the base says.
    Update {
        /// What is written.
        write: Write,
        /// The version that it was decided on.
        base: Base,
        /// What differs from that version.
        changes: Changes,
    },
    /// The object exists as the base says and goes.
    Delete {
        /// The version that it was decided on.
        base: Base,
        /// Whether it stays away, or is created again under its name by a later step.
        part: Part,
    },
}

/// Everything of ours that an object carries after a write. A server-side apply states all of it: what it leaves out
/// and our field manager owns is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The spec.
    pub spec: Spec,
    /// Our labels, without the source label (which every write carries too).
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Label keys that another manager owns and that must go, by a merge patch *before* the apply: once the apply has
    /// written our annotation, nobody can tell any more that Volcano wrote them.
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
        uid: Arc<str>,
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
    /// Whether this is only a part of what the object becomes, because a cycle forces a second write.
    pub part: Part,
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
    /// They are right already.
    #[default]
    Same,
    /// At least one is written.
    Written,
}

/// Whether a write is all that its object needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Part {
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
    /// The earlier one takes this child from its old parent; a child has one parent at every moment.
    Releases(Arc<str>),
    /// The earlier one creates this child.
    Creates(Arc<str>),
    /// The earlier one is the last that makes this object unlisted, and only then it may go.
    Unlists(Arc<str>),
    /// Otherwise this parent would not be above this child for a moment.
    Tier {
        /// The parent.
        parent: Arc<str>,
        /// The child.
        child: Arc<str>,
    },
}

/// Something that is wanted and cannot be written.
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
    /// It is written without this child.
    Child(Arc<str>),
}

/// Why something cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Obstacle {
    /// An object that we cannot change lists it.
    ListedBy(Arc<str>),
    /// An object that we cannot change lists it and would not be above it.
    BelowForeign(Arc<str>),
    /// This child does not exist and cannot be created now.
    Missing(Arc<str>),
    /// This child keeps a tier that is not below, because it cannot be written.
    TierOf(Arc<str>),
    /// No member is left that it may have.
    NoMembers,
    /// An object of that name belongs to somebody else.
    Foreign,
    /// No order was found. This does not happen; it is here so that an error would be seen and nothing unsafe written.
    NoOrder,
}

impl Plan {
    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}
