//! What a guard has allowed, as one process leaves it to the next (decision S9).
//!
//! Owns how the rest of a batch that was allowed or confirmed is known among what is asked for: by the kind of an act and
//! its node, and of pods by their number. A mark on a virtual node is no sign of it. A node is marked at once, whatever the guard says,
//! and users of the virtual cluster may write marks too.

use std::collections::{BTreeMap, BTreeSet};

use topoloom_core::names::NodeName;

use super::{Act, Spent};

/// Which kind an act is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActKind {
    /// [`Act::NoExecute`].
    NoExecute,
    /// [`Act::RemovePod`].
    RemovePod,
    /// [`Act::RemoveOrphan`].
    RemoveOrphan,
    /// [`Act::DeleteNode`].
    DeleteNode,
}

impl ActKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::NoExecute, Self::RemovePod, Self::RemoveOrphan, Self::DeleteNode];

    /// Its word in the status of a binding.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::NoExecute => "NoExecute",
            Self::RemovePod => "RemovePod",
            Self::RemoveOrphan => "RemoveOrphan",
            Self::DeleteNode => "DeleteNode",
        }
    }

    /// The kind of that word.
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    /// Whether it is about single pods, of which the number alone is known.
    pub(super) fn is_of_pods(self) -> bool {
        match self {
            Self::RemovePod | Self::RemoveOrphan => true,
            Self::NoExecute | Self::DeleteNode => false,
        }
    }
}

/// Acts that a process has allowed, and that are wanted still.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedActs {
    /// Their kind.
    pub kind: ActKind,
    /// Whether they are a part of what is [committed](super::Guard::committed) and have not happened yet. What an operator confirmed
    /// never counts, and what has happened is counted apart from what is wanted still.
    pub is_counted: bool,
    /// Their nodes.
    pub nodes: BTreeSet<NodeName>,
    /// How many pods of these nodes; none, where it is about the nodes themselves.
    pub pods: usize,
}

/// The nodes and the number of pods, by kind and by whether they count.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<(ActKind, bool), (BTreeSet<NodeName>, usize)>);

impl Groups {
    pub(super) fn add(&mut self, act: &Act, is_counted: bool) {
        let (nodes, pods) = self.0.entry((act.kind(), is_counted)).or_default();
        nodes.insert(act.node().clone());
        *pods += usize::from(act.kind().is_of_pods());
    }

    pub(super) fn add_all(&mut self, acts: &GrantedActs) {
        let (nodes, pods) = self.0.entry((acts.kind, acts.is_counted)).or_default();
        nodes.extend(acts.nodes.iter().cloned());
        *pods += acts.pods;
    }

    pub(super) fn into_acts(self) -> Vec<GrantedActs> {
        let acts = |((kind, is_counted), (nodes, pods))| GrantedActs { kind, is_counted, nodes, pods };
        self.0.into_iter().map(acts).collect()
    }
}

/// What an earlier process has allowed, and was not asked for again yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Unasked(Vec<GrantedActs>);

impl Unasked {
    pub(super) fn new(mut grants: Vec<GrantedActs>) -> Self {
        grants.retain(|acts| !acts.nodes.is_empty());
        Self(grants)
    }

    /// Takes an act out, where it is one of these. Returns whether it counts.
    pub(super) fn take(&mut self, act: &Act) -> Option<bool> {
        let acts = self.0.iter_mut().find(|acts| acts.has(act))?;
        match act {
            Act::NoExecute(node) | Act::DeleteNode(node) => {
                acts.nodes.remove(node);
            }
            Act::RemovePod { .. } | Act::RemoveOrphan { .. } => {
                acts.pods = acts.pods.saturating_sub(1);
                if acts.pods == 0 {
                    acts.nodes.clear();
                }
            }
        }
        let is_counted = acts.is_counted;
        self.0.retain(|acts| !acts.nodes.is_empty());
        Some(is_counted)
    }

    /// All acts of a node that are wanted were asked for, but for orphans: their two looks may not be over. Returns what of the others
    /// counted.
    pub(super) fn decided(&mut self, node: &NodeName) -> Spent {
        let mut dropped = Spent::default();
        for acts in self.0.iter_mut().filter(|acts| acts.kind != ActKind::RemoveOrphan) {
            let is_counted = acts.nodes.remove(node) && acts.is_counted;
            match acts.kind {
                // How many of the pods were on this node is not known.
                ActKind::RemovePod if is_counted && acts.nodes.is_empty() => dropped.pods += acts.pods,
                ActKind::NoExecute | ActKind::DeleteNode if is_counted => dropped.nodes += 1,
                ActKind::NoExecute | ActKind::RemovePod | ActKind::RemoveOrphan | ActKind::DeleteNode => {}
            }
        }
        self.0.retain(|acts| !acts.nodes.is_empty());
        dropped
    }

    /// What of it counts.
    pub(super) fn counted(&self) -> Spent {
        let counted = || self.0.iter().filter(|acts| acts.is_counted);
        let nodes = counted().filter(|acts| !acts.kind.is_of_pods()).flat_map(|acts| &acts.nodes);
        Spent { nodes: nodes.collect::<BTreeSet<_>>().len(), pods: counted().map(|acts| acts.pods).sum() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What of it counts is not known any more.
    pub(super) fn forget_counted(&mut self) {
        self.0.retain(|acts| !acts.is_counted);
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &GrantedActs> {
        self.0.iter()
    }
}

impl GrantedActs {
    fn has(&self, act: &Act) -> bool {
        let is_left = !self.kind.is_of_pods() || self.pods > 0;
        is_left && self.kind == act.kind() && self.nodes.contains(act.node())
    }
}
