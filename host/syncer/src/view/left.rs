//! Virtual nodes of ours that a person has to look at: those that lack labels of identity, those that lead to no physical node, and those
//! of an earlier `clusterID` ([`earlier`](super::earlier)) (decisions S1, S6 and S22).
//!
//! Owns what is known of a virtual node that its watch shows no more: its UID, what a live read has shown of it, and how long that is
//! good, since no watch shows what becomes of it. Such a node keeps its lease until a live read has found that it is gone, has another UID
//! or names another: the decision is made with all others ([`decide`](View::decide)). Where no machine is known for it, it is made here,
//! under its own name.
//!
//! # Failure story
//!
//! A label of identity that is taken off looks like the end of the node, to the watches and to each list by labels. So neither ends
//! anything. What cannot be read stays as it is. A process that takes over knows such a node by its Lease, which has labels of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::deletion::Existence;
use topoloom_sync::identity::{Owner, lacking, names_binding};
use topoloom_sync::keys;
use topoloom_sync::liveness::judge_alone;
use topoloom_sync::naming::{ClusterId, label_value, virtual_node_name};
use topoloom_sync::node::{
    Astray, LentNode, LiveLent, NodeOrder, NodeState, Now, PodsBy, Question, Rest, leave_astray,
};

use super::{Evidence, NodeWork, Remark, VerbOnBinding, View};
use crate::ledger::{PhysicalName, Touched};

/// How long a live read of a node that no watch shows is good.
const GOOD: Duration = Duration::from_secs(60);

/// A virtual node that was ours, and that its watch shows no more.
#[derive(Debug)]
pub(super) struct Left {
    uid: Uid,
    /// As it was known last; nothing where only its Lease is known.
    node: Option<Arc<LentNode>>,
    /// When it was read since it left, by the steady clock.
    read: Option<Duration>,
}

/// What a decision says of a node that its watch shows no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Nothing yet.
    Open,
    /// It is there, and ours.
    Kept,
    /// It is gone, is another one, or names another; or its watch shows it.
    Over,
}

impl Fate {
    pub(super) fn of(state: &NodeState<'_>, known: Option<&Uid>) -> Self {
        match state {
            NodeState::Asking(_) => Self::Open,
            NodeState::Rest(Rest::Stripped(_)) => Self::Kept,
            NodeState::Rest(Rest::CacheBehind) if known.is_some() => Self::Kept,
            NodeState::Rest(_) | NodeState::Lent | NodeState::Leaving(_) => Self::Over,
        }
    }
}

/// Virtual nodes of a binding that a person has to look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Strays {
    /// Those that lack labels of identity, and which.
    pub stripped: BTreeMap<NodeName, Vec<&'static str>>,
    /// Those that lead to no physical node.
    pub astray: BTreeSet<NodeName>,
    /// Those that an earlier binding of this name made under another `clusterID`, and under which.
    pub earlier: BTreeMap<NodeName, ClusterId>,
    /// The name of the binding.
    pub binding: String,
    /// The labels of identity as a person writes them again.
    pub labels: String,
}

impl View {
    /// The watch of the virtual nodes shows this one no more: it is gone, or its labels were changed.
    pub fn lent_node_left(&mut self, name: &str) -> Touched {
        let Some(node) = self.lent.get(name).cloned() else { return Touched::new() };
        // Whose it was is known as long as it may be there.
        let earlier = self.earlier.remove_entry(name);
        let mut touched = self.lent_node_gone(name);
        self.earlier.extend(earlier);
        touched.insert(self.key_of(name, &node));
        let left = Left { uid: node.uid.clone(), node: Some(node), read: None };
        self.left.insert(name.into(), left);
        touched
    }

    /// The Leases of these virtual nodes are ours, and no list of nodes by their labels shows them.
    pub fn left_behind(&mut self, nodes: impl IntoIterator<Item = (NodeName, Uid)>) -> Touched {
        let mut touched = Touched::new();
        for (name, uid) in nodes {
            if !self.lent.contains_key(&name) {
                let left = Left { uid, node: None, read: None };
                touched.insert(self.machine_of_left(&name, &left).unwrap_or_else(|| own(&name)));
                self.left.insert(name, left);
            }
        }
        touched
    }

    /// Whether there is no virtual node of the binding, as far as is known: neither one that a watch shows nor one that may have lost its
    /// labels.
    #[must_use]
    pub fn lends_nothing(&self) -> bool {
        self.is_lent_listed && self.lent.is_empty() && self.left.is_empty()
    }

    /// The UID of a virtual node of ours, also of one that its watch shows no more.
    #[must_use]
    pub fn uid_of_lent(&self, name: &str) -> Option<Uid> {
        let left = || self.left.get(name).map(|left| left.uid.clone());
        self.lent.get(name).map(|lent| lent.uid.clone()).or_else(left)
    }

    /// The virtual nodes of the binding that a person has to look at.
    #[must_use]
    pub fn strays(&self) -> Strays {
        let identity = &self.binding.identity;
        let stripped = self.left.iter().filter_map(|(name, left)| {
            let node = left.node.as_ref().filter(|_| left.read.is_some())?;
            Some((name.clone(), lacking(&node.metadata.labels, identity)?))
        });
        let leads_nowhere =
            |(name, node): &(&NodeName, &Arc<LentNode>)| self.is_astray(name, node) && !self.is_under_earlier_id(name);
        let alone = self.lent.iter().filter(leads_nowhere).map(|(name, _)| name.clone());
        let remembered = self.remembered.iter().filter(|(_, remembered)| remembered.standing.is_astray());
        let under_machines =
            remembered.filter_map(|(machine, _)| virtual_node_name(&self.binding.cluster, machine).ok());
        let (cluster, binding) = (&**identity.virtual_cluster(), label_value(identity.binding()));
        Strays {
            stripped: stripped.collect(),
            astray: alone.chain(under_machines).collect(),
            earlier: self.under_earlier_ids(),
            binding: identity.binding().to_string(),
            labels: format!("{}={cluster} {}={binding}", keys::VIRTUAL_CLUSTER, keys::BINDING),
        }
    }

    /// The virtual nodes that are looked at under their own names, because no machine is known for them.
    #[must_use]
    pub fn alone(&self) -> Touched {
        let lent = self.lent.iter().filter(|(name, node)| self.physical_of(name, node).is_none());
        let left = self.left.iter().filter(|(name, left)| self.machine_of_left(name, left).is_none());
        lent.map(|(name, _)| name).chain(left.map(|(name, _)| name)).map(own).collect()
    }

    /// The machines of virtual nodes that their watch shows no more.
    pub(super) fn machines_of_left(&self) -> impl Iterator<Item = PhysicalName> {
        self.left.iter().filter_map(|(name, left)| self.machine_of_left(name, left))
    }

    fn machine_of_left(&self, name: &str, left: &Left) -> Option<PhysicalName> {
        match &left.node {
            Some(node) => self.physical_of(name, node),
            None => self.ledger.physical_of(name).cloned(),
        }
    }

    /// Under which name a virtual node is looked at: that of its machine, or its own where it leads to none.
    pub(super) fn key_of(&self, name: &str, node: &LentNode) -> PhysicalName {
        self.physical_of(name, node).unwrap_or_else(|| name.into())
    }

    /// What is known of a virtual node that its watch shows no more: its UID, and what a live read that is good still has shown.
    pub(super) fn known_of_left(&self, name: Option<&NodeName>, now: Now) -> (Option<Uid>, Option<Arc<LentNode>>) {
        let Some(left) = name.and_then(|name| self.left.get(name)) else { return (None, None) };
        let is_good = left.read.is_some_and(|read| now.steady < read.saturating_add(self.good()));
        (Some(left.uid.clone()), left.node.clone().filter(|_| is_good))
    }

    /// A deletion waits for such a node.
    fn good(&self) -> Duration {
        match self.binding.existence {
            Existence::Alive => GOOD,
            Existence::Terminating => self.binding.deletion.recheck,
        }
    }

    /// A decision was made about a node that its watch may show no more. `read`: what a live read has shown now. Returns how long what was
    /// read is good.
    pub(super) fn settle_left(
        &mut self,
        name: &NodeName,
        fate: Fate,
        read: Option<Arc<LentNode>>,
        now: Now,
    ) -> Option<Duration> {
        match fate {
            Fate::Open => return None,
            Fate::Over => {
                if self.left.remove(name).is_some() {
                    let touched = self.forget_earlier(name);
                    self.look_later(touched);
                }
                return None;
            }
            Fate::Kept => {}
        }
        if let Some(node) = read {
            let missing = lacking(&node.metadata.labels, &self.binding.identity);
            let left = Left { uid: node.uid.clone(), node: Some(node), read: Some(now.steady) };
            let is_news = self.left.insert(name.clone(), left).is_none_or(|before| before.read.is_none());
            if let (true, Some(missing)) = (is_news, missing) {
                tracing::warn!(node = %name, ?missing, "a virtual node lacks labels of identity: only its lease is renewed");
            }
        }
        let until = self.left.get(name)?.read?.saturating_add(self.good());
        Some(until.saturating_sub(now.steady))
    }

    /// Whether no machine gives the name of a virtual node, and nothing that it says of one leads back to it.
    fn is_astray(&self, name: &str, node: &LentNode) -> bool {
        let is_known = self.is_listed && !self.is_outdated() && !self.is_empty_in_doubt;
        // Of a cluster that is gone for good no machine will be listed.
        (is_known || self.verb == VerbOnBinding::Detach) && self.physical_of(name, node).is_none()
    }

    /// Decides about a virtual node under its own name, where no machine gives that; nothing where it is the name of a machine.
    pub(super) fn decide_alone(&mut self, name: &PhysicalName, evidence: &Evidence, now: Now) -> Option<NodeWork> {
        let of_machine = virtual_node_name(&self.binding.cluster, name);
        let has_node = |lent: NodeName| self.lent.contains_key(&lent) || self.left.contains_key(&lent);
        if self.physical.contains_key(name) || of_machine.is_ok_and(has_node) {
            return None;
        }
        let lent_name = NodeName::from(Arc::clone(name));
        if let Some(node) = self.lent.get(&lent_name).cloned() {
            if let Some(work) = self.decide_earlier(&lent_name, &node, evidence, now) {
                return Some(work);
            }
            let is_astray = self.is_astray(&lent_name, &node);
            return Some(if is_astray { self.astray(lent_name, &node, evidence) } else { NodeWork::elsewhere() });
        }
        let left = self.left.get(&lent_name)?;
        if self.machine_of_left(&lent_name, left).is_some() {
            return Some(NodeWork::elsewhere());
        }
        Some(self.left_alone(lent_name, evidence, now))
    }

    /// One that its watch shows.
    pub(super) fn astray(&self, name: NodeName, lent: &LentNode, evidence: &Evidence) -> NodeWork {
        let (pods, pods_by) = match &evidence.pods {
            Some(live) => (self.ledger.remembering(&name, live.clone()), PodsBy::List),
            None => (self.ledger.pods(&name), PodsBy::Watch),
        };
        let owner = Owner::of_node(&lent.metadata.labels, &self.binding.identity, evidence.bindings.as_ref());
        let bars = &self.bars;
        let orders = leave_astray(&Astray { name: &name, lent, owner, pods: &pods, pods_by, bars });
        let again = (lent.existence == Existence::Terminating).then_some(self.binding.deletion.recheck);
        NodeWork { again, ..NodeWork::alone(name, orders, "the virtual node leads to no physical node") }
    }

    /// One that its watch shows no more.
    fn left_alone(&mut self, name: NodeName, evidence: &Evidence, now: Now) -> NodeWork {
        let (known, good) = self.known_of_left(Some(&name), now);
        let (found, read) = match (&evidence.live_lent, good) {
            (LiveLent::Unasked, None) => {
                let orders = vec![NodeOrder::Ask(Question::LentNode)];
                return NodeWork::alone(name, orders, "the virtual node is read");
            }
            (LiveLent::Unasked, Some(good)) => (Some(good), None),
            (LiveLent::Gone, _) => (None, None),
            (LiveLent::Found(node), _) => (Some(Arc::clone(node)), Some(Arc::clone(node))),
        };
        let identity = &self.binding.identity;
        let is_ours = |node: Arc<LentNode>| {
            let labels = &node.metadata.labels;
            known.as_ref() == Some(&node.uid)
                && (names_binding(labels, identity) || lacking(labels, identity).is_some())
        };
        if !found.is_some_and(is_ours) {
            self.settle_left(&name, Fate::Over, None, now);
            return NodeWork::alone(name, Vec::new(), "the virtual node is gone, or another's");
        }
        let again = self.settle_left(&name, Fate::Kept, read, now);
        // What was read may name its machine.
        let machine = self.left.get(&name).and_then(|left| self.machine_of_left(&name, left));
        self.look_later(machine.into_iter().collect());
        let work = NodeWork::alone(
            name,
            Vec::new(),
            "the virtual node lacks labels of identity, and no machine is known for it",
        );
        let lease = judge_alone(self.reach, self.binding.on_unreachable, now.steady);
        NodeWork { lease: Some(lease), again, ..work }
    }
}

impl NodeWork {
    /// What is done about a virtual node under its own name.
    pub(super) fn alone(name: NodeName, orders: Vec<NodeOrder>, state: &str) -> Self {
        Self { lent: Some(name), orders, state: state.to_owned(), ..Self::elsewhere() }
    }

    /// Nothing: it is decided about under the name of its machine, or when the machines are listed.
    fn elsewhere() -> Self {
        Self {
            lent: None,
            orders: Vec::new(),
            reads: None,
            lease: None,
            again: None,
            state: "the virtual node is looked at with its machine".to_owned(),
            why: "rest",
            leaving: None,
            cause: None,
            conflict: None,
            remark: Remark::Unknown,
            left_out: Vec::new(),
            unstored: Remark::Unknown,
            grows: false,
        }
    }
}

/// The name under which a virtual node is looked at where it leads to no machine.
fn own(name: &NodeName) -> PhysicalName {
    name.into()
}

#[cfg(test)]
mod tests;
