//! Virtual nodes that an earlier binding of our name made under another `clusterID` (decisions S4 to S7 and S22).
//!
//! Owns which of them there are, whose they are, in which physical cluster their machines were, and the work on one, which is its lease.
//! While one is there its machine is lent under another name than ours, so no further machine is lent; what is lent already goes on.
//! Nothing is written on one: no name that this binding gives leads to it.
//!
//! # Failure story
//!
//! A ClusterBinding was deleted by force, and applied again with a typing error in its `clusterID`. A lease that stops evicts every pod
//! of its node, so leases are renewed where the machine lives, as long as a person needs to decide. A binding may exist that has the UID
//! which a node says: then the node is that one's, and only a live list shows it. A node that its watch shows no more is there until a
//! live read has found that it is gone.
//!
//! A machine that is gone would stay Ready for ever, and pods would be sent to it: its lease stops once a live read has found no such
//! machine. But the binding may borrow from another cluster now than the earlier one did, and there no machine of that one is. No virtual
//! node says where its machine was. So absence counts where a machine of the same binding was seen by its UID since the connection leads
//! to this cluster, or where the Lease of a binding of our name in this cluster has that `clusterID`: that is so also after a restart.
//! Otherwise the virtual node itself says whether it lives.

use std::collections::BTreeMap;
use std::time::Duration;

use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::deletion::Existence;
use topoloom_sync::identity::Earlier;
use topoloom_sync::liveness::{Lease, NotAlive};
use topoloom_sync::naming::ClusterId;
use topoloom_sync::node::{EarlierId, LentNode, LifeFacts, NodeOrder, Now, Physical, Question, Traces, Whereabouts};

use super::{Evidence, NodeWork, View};
use crate::ledger::{PhysicalName, Touched};

/// All of them, by their names.
pub(super) type EarlierNodes = BTreeMap<NodeName, EarlierNode>;

/// One of them.
#[derive(Debug)]
pub(super) struct EarlierNode {
    /// What it says of itself.
    id: EarlierId,
    /// What is known of the binding that made it.
    maker: Earlier,
    /// Since when its lease has not been renewed.
    unrenewed_since: Option<Duration>,
    /// Its machine was seen in the physical cluster that is connected now.
    is_seen: bool,
}

/// The physical cluster that is connected now, as far as it matters for the machines of these nodes.
#[derive(Debug, Default)]
pub(super) struct Connected {
    /// Its UID; nothing before the first connection.
    cluster: Option<Uid>,
    /// Its machines were listed: none that is cached is of an earlier one.
    is_listed: bool,
    /// The cluster in which a Lease of a binding of our name was found, and the `clusterID` in that.
    lease: Option<(Uid, String)>,
}

impl EarlierNode {
    fn new(id: EarlierId) -> Self {
        let maker = if id.binding.is_some() { Earlier::Unlisted } else { Earlier::Gone };
        Self { id, maker, unrenewed_since: None, is_seen: false }
    }

    /// Whether it is that of no binding that exists, as far as is known.
    fn is_left_over(&self) -> bool {
        self.maker != Earlier::Stands
    }
}

impl View {
    /// The virtual nodes that an earlier binding of our name made under another `clusterID`, and under which.
    #[must_use]
    pub fn under_earlier_ids(&self) -> BTreeMap<NodeName, ClusterId> {
        let left = self.earlier.iter().filter(|(_, node)| node.is_left_over());
        left.map(|(name, node)| (name.clone(), node.id.cluster.clone())).collect()
    }

    /// Whether this is one of them.
    pub(super) fn is_under_earlier_id(&self, name: &str) -> bool {
        self.earlier.get(name).is_some_and(EarlierNode::is_left_over)
    }

    /// Whether there is no virtual node of the binding, as far as is known, but for those that stay when it goes: an earlier binding
    /// made them under another `clusterID`.
    #[must_use]
    pub fn leaves_nothing(&self) -> bool {
        self.is_lent_listed && self.lent.keys().chain(self.left.keys()).all(|name| self.is_under_earlier_id(name))
    }

    /// Whether no machine may be lent anew. A binding that is being deleted lends none.
    fn is_in_the_way(&self) -> bool {
        self.binding.existence == Existence::Alive && self.earlier.values().any(EarlierNode::is_left_over)
    }

    /// What may not be written about a machine, which has no virtual node yet or has one.
    pub(super) fn bars_of(&self, is_new: bool) -> Bars {
        if is_new && self.is_in_the_way() { self.bars.with(Bar::Conflict) } else { self.bars.clone() }
    }

    /// A virtual node is as it is now. Returns what has to be looked at because of what it says of itself.
    pub(super) fn note_earlier(&mut self, name: &NodeName, node: &LentNode) -> Touched {
        let was_in_the_way = self.is_in_the_way();
        let (metadata, binding) = (&node.metadata, &self.binding);
        let id = EarlierId::of(name, &metadata.labels, &metadata.annotations, &binding.identity, &binding.cluster);
        match id {
            None => drop(self.earlier.remove(name)),
            Some(id) if self.earlier.get(name).is_some_and(|known| known.id == id) => {}
            Some(id) => drop(self.earlier.insert(name.clone(), EarlierNode::new(id))),
        }
        self.see_machine_of(name);
        self.new_ways(was_in_the_way)
    }

    /// A virtual node is gone, or none of ours.
    pub(super) fn forget_earlier(&mut self, name: &str) -> Touched {
        let was_in_the_way = self.is_in_the_way();
        self.earlier.remove(name);
        self.new_ways(was_in_the_way)
    }

    /// The virtual API server was set back: a binding that was gone may exist.
    pub(super) fn forget_makers(&mut self) {
        let mut touched = Touched::new();
        for (name, node) in self.earlier.iter_mut().filter(|(_, node)| node.id.binding.is_some()) {
            node.maker = Earlier::Unlisted;
            touched.insert(name.into());
        }
        self.look_later(touched);
    }

    /// Machines that may be lent by now, or may not any more, are looked at.
    fn new_ways(&self, was_in_the_way: bool) -> Touched {
        if self.is_in_the_way() == was_in_the_way { Touched::new() } else { self.all() }
    }

    /// Those that name this machine, which may be seen now: what becomes of their leases depends on it.
    pub(super) fn earlier_on(&mut self, machine: &str) -> Touched {
        let on = self.earlier.iter().filter(|(_, node)| node.id.machine == machine);
        let on: Vec<NodeName> = on.map(|(name, _)| name.clone()).collect();
        on.iter().for_each(|name| self.see_machine_of(name));
        on.iter().map(PhysicalName::from).collect()
    }

    /// Remembers of one of them that its machine is in the physical cluster that is connected now, where it is.
    fn see_machine_of(&mut self, name: &NodeName) {
        let Some(known) = self.earlier.get_mut(name).filter(|known| !known.is_seen) else { return };
        let (lent, machine) = (self.lent.get(name), self.physical.get(known.id.machine.as_str()));
        if let (true, Some(lent), Some(machine)) = (self.connected.is_listed, lent, machine) {
            known.is_seen = known.id.is_machine(lent, machine, &self.binding.identity);
        }
    }

    /// The machines that are cached are those of the physical cluster that is connected now.
    pub(super) fn machines_are_its_own(&mut self) {
        self.connected.is_listed = true;
    }

    /// The connection leads to the physical cluster with this UID. What was seen in another one does not count there.
    pub fn leads_to(&mut self, cluster: &Uid) {
        let before = self.connected.cluster.replace(cluster.clone());
        if before.is_some_and(|before| before != *cluster) {
            self.connected.is_listed = false;
            self.earlier.values_mut().for_each(|node| node.is_seen = false);
        }
    }

    /// In the physical cluster with this UID there is a Lease of a binding of our name, with this `clusterID`. Returns what has to be looked
    /// at.
    pub fn was_lent_from(&mut self, cluster: &Uid, id: &str) -> Touched {
        let found = Some((cluster.clone(), id.to_owned()));
        if self.connected.lease == found {
            return Touched::new();
        }
        self.connected.lease = found;
        self.earlier.keys().map(PhysicalName::from).collect()
    }

    /// Whether the machine of such a node was in the physical cluster that is connected now, as far as is known.
    fn is_home_of(&self, id: &EarlierId) -> bool {
        let Connected { cluster, lease, .. } = &self.connected;
        let has_lease = lease.as_ref().is_some_and(|(of, said)| cluster.as_ref() == Some(of) && **said == *id.cluster);
        let is_of_same = |node: &EarlierNode| node.id.cluster == id.cluster && node.id.binding == id.binding;
        has_lease || self.earlier.values().any(|node| node.is_seen && is_of_same(node))
    }

    /// Decides about one of them under its own name; nothing where it is none, or a machine gives its name: that one is asked then.
    pub(super) fn decide_earlier(
        &mut self,
        name: &NodeName,
        lent: &LentNode,
        evidence: &Evidence,
        now: Now,
    ) -> Option<NodeWork> {
        if self.physical_of(name, lent).is_some() {
            return None;
        }
        let was_in_the_way = self.is_in_the_way();
        let known = self.earlier.get_mut(name)?;
        // No later binding can have the UID of one that is gone.
        if let (Some(binding), false) = (&known.id.binding, known.maker == Earlier::Gone) {
            if evidence.bindings.is_none() {
                let orders = vec![NodeOrder::Ask(Question::Binding(binding.clone()))];
                return Some(NodeWork::alone(name.clone(), orders, "it is looked up whose the virtual node is"));
            }
            known.maker = Earlier::of(binding, evidence.bindings.as_ref());
        }
        let (id, is_left_over, since) = (known.id.clone(), known.is_left_over(), known.unrenewed_since);
        let touched = self.new_ways(was_in_the_way);
        self.look_later(touched);
        if !is_left_over {
            return Some(NodeWork::alone(name.clone(), Vec::new(), "the virtual node is that of another binding"));
        }
        let traces = Traces {
            lent,
            physical: match self.physical.get(id.machine.as_str()) {
                _ if !self.is_listed || self.is_outdated() => Physical::Unlisted,
                Some(machine) => Physical::Present(machine),
                None => Physical::Absent,
            },
            live: &evidence.live,
            is_home: self.is_home_of(&id),
            reach: self.reach,
            bars: &self.bars,
        };
        let (lease, next) = match id.find(&traces, &self.binding.identity) {
            Whereabouts::Unread => {
                let orders = vec![NodeOrder::Ask(Question::PhysicalNode)];
                let work = NodeWork::alone(name.clone(), orders, "the machine of the virtual node is read");
                return Some(NodeWork { reads: Some(id.machine.as_str().into()), ..work });
            }
            Whereabouts::Gone => (Lease::Stop(NotAlive::MachineGone), None),
            Whereabouts::Known(physical) => {
                let (reach, on_unreachable) = (self.reach, self.binding.on_unreachable);
                let facts = LifeFacts { lent: Some(lent), physical, reach, on_unreachable, unrenewed_since: since };
                let life = facts.judge(now.steady);
                (life.lease, life.next)
            }
        };
        if let Some(known) = self.earlier.get_mut(name) {
            known.unrenewed_since = match lease {
                Lease::Stop(_) => since.or(Some(now.steady)),
                Lease::Renew => None,
            };
        }
        // A person has deleted it, and then our finalizer goes.
        let work = self.astray(name.clone(), lent, evidence);
        let next = next.map(|at| at.saturating_sub(now.steady));
        Some(NodeWork {
            lease: work.orders.is_empty().then_some(lease),
            again: [work.again, next].into_iter().flatten().min(),
            state: format!(
                "only the lease of the virtual node is renewed: it was made under the clusterID {}",
                id.cluster
            ),
            ..work
        })
    }
}

#[cfg(test)]
mod tests;
