//! What a rehearsal gives: the writes of each node, in the stages in which they come.
//!
//! Values alone. Nothing here decides anything.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use topoloom_core::names::NodeName;
use topoloom_sync::bars::Bar;
use topoloom_sync::guard::{HeldBatch, Size};
use topoloom_sync::merge::Cordon;
use topoloom_sync::node::{NodeOrder, PhysicalChange, RemovalMeans, Window};
use topoloom_sync::reclaim::PodRef;
use topoloom_sync::resources::ResourceList;
use topoloom_sync::taints::Taint;

use crate::ledger::PhysicalName;

/// What would be written for a binding.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Every node that there is something to say about, by name.
    pub nodes: Vec<PlannedNode>,
    /// The times that were looked at, in order. The first one is now.
    pub instants: Vec<Instant>,
    /// How large the binding was at first.
    pub size: Size,
    /// Nodes for which decisions did not come to an end, which is a mistake of topoloom.
    pub restless: Vec<PhysicalName>,
}

/// A time at which something may change.
#[derive(Debug, Clone, PartialEq)]
pub struct Instant {
    /// When.
    pub at: Timestamp,
    /// The policies whose windows open then, or close.
    pub turns: Vec<Turn>,
    /// What the guard holds then.
    pub held: Option<HeldBatch>,
}

/// The windows of a policy open or close.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// Which policy.
    pub policy: String,
    /// Which of the two.
    pub to: TurnTo,
}

/// Whether windows open or close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnTo {
    /// They open.
    Open,
    /// They close.
    Closed,
}

/// When something would be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stage {
    /// At this time.
    pub at: Timestamp,
    /// Whether it waits for pods.
    pub pods: LeavingPods,
}

/// Whether the pods that go are there still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeavingPods {
    /// They are, or there are none.
    There,
    /// They have ended.
    Gone,
}

/// What becomes of a node.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedNode {
    /// The physical node.
    pub name: PhysicalName,
    /// Its virtual node; nothing where its name gives none.
    pub lent: Option<NodeName>,
    /// In a word.
    pub fate: Fate,
    /// In a sentence.
    pub sentence: String,
    /// The policy in force.
    pub policy: Option<String>,
    /// Whether its windows are open.
    pub window: Option<Window>,
    /// The virtual node as it is.
    pub before: Option<Shape>,
    /// The virtual node after what is written now.
    pub after: Option<Shape>,
    /// What is not written yet of its size.
    pub later: Option<LaterSize>,
    /// The guard holds what would follow now.
    pub is_held: bool,
    /// What keeps something from being written.
    pub barred: Vec<Bar>,
    /// What is written, stage by stage.
    pub steps: Vec<NodeStep>,
}

/// What becomes of a node now, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Its virtual node is made.
    Created,
    /// Its virtual node goes.
    TakenAway,
    /// Its virtual node has another size.
    Resized,
    /// Something else of its virtual node changes.
    Changed,
    /// It is lent, and nothing changes.
    Unchanged,
    /// An invalid policy, or one that cannot be read, keeps it as it is.
    Frozen,
    /// Another binding or borrower has it, or an object with the name of its virtual node.
    Anothers,
    /// It would be lent, and something forbids that.
    Barred,
    /// It is not lent.
    NotLent,
}

impl Fate {
    /// All of them, in the order in which they are counted.
    pub const ALL: [Self; 9] = [
        Self::Created,
        Self::TakenAway,
        Self::Resized,
        Self::Changed,
        Self::Unchanged,
        Self::Frozen,
        Self::Anothers,
        Self::Barred,
        Self::NotLent,
    ];

    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::TakenAway => "taken away",
            Self::Resized => "resized",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Frozen => "frozen",
            Self::Anothers => "another's",
            Self::Barred => "barred",
            Self::NotLent => "not lent",
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A virtual node, as far as plans show it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shape {
    /// What it lends.
    pub size: ResourceList,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Whether it takes pods.
    pub cordon: Cordon,
}

/// A size that is written later.
#[derive(Debug, Clone, PartialEq)]
pub struct LaterSize {
    /// The whole of it.
    pub size: ResourceList,
    /// In how much time, where time alone decides that.
    pub after: Option<Duration>,
    /// Why not now.
    pub why: String,
}

/// What is written about a node in one stage.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeStep {
    /// When.
    pub stage: Stage,
    /// The virtual node before it.
    pub before: Option<Shape>,
    /// The virtual node after it.
    pub after: Option<Shape>,
    /// The writes, in their order.
    pub writes: Vec<Write>,
    /// The pods that go.
    pub pods: Vec<LeavingPod>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// What kind of write.
    pub kind: WriteKind,
    /// In words.
    pub line: String,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WriteKind {
    /// The claim on the physical node, with the label of its policy.
    Claim,
    /// That label alone, written or taken off: the claim stays as it is.
    Label,
    /// The virtual node is made.
    Create,
    /// Its status and its metadata.
    Status,
    /// Its taints, its cordon, and the metadata that goes with them.
    Spec,
    /// Pods are removed.
    Pods,
    /// It is deleted.
    Delete,
    /// Our finalizer goes.
    Finalizer,
    /// The claim on the physical node goes, and the label of its policy.
    Release,
}

impl WriteKind {
    /// The kind of an order; nothing where it writes nothing.
    #[must_use]
    pub fn of(order: &NodeOrder) -> Option<Self> {
        if let Some(PhysicalChange::Label(_)) = order.physical_change() {
            return Some(Self::Label);
        }
        Some(match order {
            NodeOrder::Ask(_) | NodeOrder::StopLease(_) => return None,
            NodeOrder::PatchPhysical { .. } => Self::Claim,
            NodeOrder::Create { .. } => Self::Create,
            NodeOrder::PatchStatus { .. } => Self::Status,
            NodeOrder::PatchSpec { .. } => Self::Spec,
            NodeOrder::RemovePods(_) => Self::Pods,
            NodeOrder::Delete { .. } => Self::Delete,
            NodeOrder::RemoveFinalizer { .. } => Self::Finalizer,
            NodeOrder::ReleasePhysical { .. } => Self::Release,
        })
    }

    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Label => "label",
            Self::Create => "create",
            Self::Status => "status",
            Self::Spec => "taints",
            Self::Pods => "pods",
            Self::Delete => "delete",
            Self::Finalizer => "finalizer",
            Self::Release => "release",
        }
    }
}

/// A virtual pod that goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeavingPod {
    /// Which one.
    pub pod: PodRef,
    /// How.
    pub means: RemovalMeans,
}

impl Plan {
    /// Whether the guard would hold something, now or at one of the times after it.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.instants.iter().any(|instant| instant.held.is_some())
    }

    /// How many nodes have each fate; those that none has are left out.
    #[must_use]
    pub fn counts(&self) -> Vec<(Fate, usize)> {
        let count = |fate: Fate| self.nodes.iter().filter(|node| node.fate == fate).count();
        Fate::ALL.into_iter().map(|fate| (fate, count(fate))).filter(|(_, count)| *count > 0).collect()
    }

    /// Whether nothing is written at any of its times.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.iter().all(|node| node.steps.is_empty())
    }
}
