//! What is known of the placeholders for host ports of a binding (`bottomup-syncer.md` 11.2, decision S3).
//!
//! Owns the cache of placeholders, and which virtual nodes have to be looked at because of host ports. Which ports pods of the lender
//! hold, the [`Ledger`](crate::ledger::Ledger) knows. The facts for a decision are put together here, and
//! [`ports`] makes it.
//!
//! # Failure story
//!
//! Nothing follows until the virtual nodes and pods were listed, and no port is held or given up until all physical pods were, and
//! those of the node are in the ledger. While host ports are not mirrored nothing is looked at but what is left of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::Notify;
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::version::ResourceVersion;
use topoloom_sync::csi::Presence;
use topoloom_sync::deletion::Existence;
use topoloom_sync::keys;
use topoloom_sync::naming::virtual_node_name;
use topoloom_sync::node::LentNode;
use topoloom_sync::ports::{
    self, Facts, Guarding, HoldingNode, HostPort, Mirroring, Placeholder, PortOrder, Stay, left_out,
};
use topoloom_sync::resources::ResourceError;
use topoloom_sync::texts::TextMap;

use super::{Part, View};
use crate::ledger::{PhysicalName, PodWatch, Touched};
use crate::slices::pod::{Commons, KnownPod, PodSlice};

/// What is known of the placeholders of a binding.
#[derive(Debug, Default)]
pub struct PortView {
    mirroring: Mirroring,
    /// Those on each virtual node, also those of others.
    placeholders: HashMap<NodeName, BTreeMap<Uid, Placeholder>>,
    /// The node of each.
    nodes: HashMap<Uid, NodeName>,
    /// Names that pods of others have, and the UID of each.
    taken: BTreeMap<String, Uid>,
    due: BTreeSet<NodeName>,
    news: Arc<Notify>,
}

/// What a controller read live for a decision about placeholders.
#[derive(Debug, Clone, Default)]
pub struct PortEvidence {
    /// Of the virtual node.
    pub node: Presence,
    /// The pod that has the name of a new placeholder.
    pub existing: Option<Placeholder>,
    /// The UIDs of all ClusterBindings.
    pub bindings: Option<BTreeSet<Uid>>,
}

/// What a controller has to do about the placeholders of a virtual node.
#[derive(Debug, Clone, PartialEq)]
pub struct PortWork {
    /// The UID of the virtual node, where there is one.
    pub node: Option<Uid>,
    /// What to do.
    pub order: PortOrder,
    /// How many ports are not held because there are too many, at least.
    pub left_out: usize,
}

impl PortView {
    /// Is notified when a virtual node has to be looked at because of host ports.
    #[must_use]
    pub fn news(&self) -> Arc<Notify> {
        Arc::clone(&self.news)
    }

    /// The virtual nodes that have to be looked at: those since the last call.
    pub fn take_due(&mut self) -> BTreeSet<NodeName> {
        std::mem::take(&mut self.due)
    }

    /// A pod of others was found under this name. Whether that is new.
    pub fn name_taken(&mut self, name: &str, uid: &Uid) -> bool {
        self.taken.insert(name.to_owned(), uid.clone()).as_ref() != Some(uid)
    }

    /// No pod of others is under this name any more.
    pub fn name_free(&mut self, name: &str) {
        self.taken.remove(name);
    }

    fn look_at(&mut self, name: &NodeName) {
        self.due.insert(name.clone());
        self.news.notify_one();
    }

    /// A placeholder is as it is now. Whether that is new: an event that is older than the answer to our own write is not.
    fn put(&mut self, node: &NodeName, placeholder: Placeholder) -> bool {
        let uid = placeholder.uid.clone();
        let known = self.placeholders.get(node).and_then(|known| known.get(&uid));
        let is_known = known.is_some_and(|known| {
            known.version == placeholder.version || placeholder.version.is_older_than(&known.version)
        });
        if is_known {
            return false;
        }
        self.nodes.insert(uid.clone(), node.clone());
        self.placeholders.entry(node.clone()).or_default().insert(uid, placeholder);
        true
    }

    /// A pod is gone, or is no placeholder any more. Returns the node on which it was one.
    fn remove(&mut self, uid: &Uid) -> Option<NodeName> {
        let node = self.nodes.remove(uid)?;
        if let Some(placeholders) = self.placeholders.get_mut(&node) {
            placeholders.remove(uid);
            if placeholders.is_empty() {
                self.placeholders.remove(&node);
            }
        }
        Some(node)
    }
}

/// What became of pods. The nodes that are touched are those of the [`Ledger`](crate::ledger::Ledger).
impl View {
    /// A pod of the physical cluster is as it is now.
    ///
    /// # Errors
    /// One of its amounts is no quantity: the pod counts as it did before.
    pub fn physical_pod(&mut self, slice: &PodSlice) -> Result<Touched, ResourceError> {
        let touched = self.ledger.physical_pod(slice);
        self.look_at_port_news();
        touched
    }

    /// A watch shows a pod of the physical cluster as it is now.
    pub fn pod_shown(&mut self, watch: PodWatch, pod: &Arc<KnownPod>) -> Touched {
        let touched = self.ledger.shown(watch, pod);
        self.look_at_port_news();
        touched
    }

    /// The same of an event: a pod of ours that is new may come before what its virtual pod says of it.
    pub fn pod_came(&mut self, watch: PodWatch, pod: &Arc<KnownPod>) -> Touched {
        let is_new = !self.ledger.knows(pod.uid());
        let touched = self.pod_shown(watch, pod);
        if is_new {
            self.ledger.came(pod.uid());
        }
        touched
    }

    /// A watch does not show a pod any more.
    pub fn pod_hidden(&mut self, watch: PodWatch, uid: &Uid) -> Touched {
        let touched = self.ledger.hidden(watch, uid);
        self.look_at_port_news();
        touched
    }

    /// A watch has listed all pods.
    pub fn pods_listed(&mut self, watch: PodWatch, seen: &HashSet<Uid>) -> Touched {
        let touched = self.ledger.listed(watch, seen);
        self.look_at_port_news();
        touched
    }

    /// A watch has given up a list that has shown these.
    pub fn pods_given_up(&mut self, watch: PodWatch, seen: &HashSet<Uid>) -> Touched {
        let touched = self.ledger.given_up(watch, seen);
        self.look_at_port_news();
        touched
    }

    /// A pod of the physical cluster is gone.
    pub fn physical_pod_gone(&mut self, uid: &Uid) -> Touched {
        let touched = self.ledger.physical_pod_gone(uid);
        self.look_at_port_news();
        touched
    }

    /// A pod of the virtual cluster that is bound to a node is as it is now.
    ///
    /// # Errors
    /// One of its amounts is no quantity: the pod counts as it did before.
    pub fn lent_pod(&mut self, slice: PodSlice) -> Result<Touched, ResourceError> {
        let pod = Arc::new(KnownPod::of_virtual(&slice, &mut Commons::default())?);
        Ok(self.lent_pod_shown(&pod))
    }

    /// The same of one that others know, too.
    pub fn lent_pod_shown(&mut self, pod: &Arc<KnownPod>) -> Touched {
        let placeholder = pod.lending().and_then(|lending| lending.placeholder.as_deref());
        match pod.node().zip(placeholder) {
            Some((node, placeholder)) => self.placeholder(&Arc::clone(node).into(), placeholder.clone()),
            None if self.ports.nodes.is_empty() => {}
            None => self.placeholder_gone(pod.uid()),
        }
        self.ledger.lent_pod(pod)
    }

    /// A pod of the virtual cluster is gone.
    pub fn lent_pod_gone(&mut self, uid: &Uid) -> Touched {
        self.placeholder_gone(uid);
        self.ledger.virtual_pod_gone(uid)
    }

    /// All pods of the virtual cluster were listed: a placeholder that is not among these is gone.
    pub fn lent_pods_listed(&mut self, seen: &HashSet<Uid>) {
        let gone: Vec<Uid> = self.ports.nodes.keys().filter(|uid| !seen.contains(*uid)).cloned().collect();
        gone.iter().for_each(|uid| self.placeholder_gone(uid));
    }

    /// A placeholder is as it is now: its watch shows it, or the answer to a write.
    pub fn placeholder(&mut self, node: &NodeName, placeholder: Placeholder) {
        if self.ports.put(node, placeholder) {
            self.ports.look_at(node);
        }
    }

    /// A placeholder is gone.
    pub fn placeholder_gone(&mut self, uid: &Uid) {
        if let Some(node) = self.ports.remove(uid) {
            self.ports.look_at(&node);
        }
    }
}

impl View {
    /// Host ports are mirrored from now on, or not any more.
    pub fn set_host_ports(&mut self, mirroring: Mirroring) {
        if std::mem::replace(&mut self.ports.mirroring, mirroring) != mirroring {
            self.look_at_ports();
        }
    }

    /// Every virtual node that there is something to decide about.
    #[must_use]
    pub fn all_ports(&self) -> BTreeSet<NodeName> {
        let lent = self.lent.keys().filter(|_| self.ports.mirroring == Mirroring::On);
        lent.chain(self.ports.placeholders.keys()).cloned().collect()
    }

    /// Every one of them is looked at: what allows or forbids writes has changed, or what is known.
    pub fn look_at_ports(&mut self) {
        for name in self.all_ports() {
            self.ports.look_at(&name);
        }
    }

    /// A virtual node came, changed or went. Its placeholders are looked at where that matters for them, and not after each status.
    pub(super) fn ports_of(&mut self, name: &NodeName, before: Option<&LentNode>, now: Option<&LentNode>) {
        if before.map(matters) != now.map(matters) {
            self.look_at_ports_of(name);
        }
    }

    /// The virtual API server was set back: a placeholder that is shown next counts, whatever its version is.
    pub(super) fn forget_versions_of_ports(&mut self) {
        let all = self.ports.placeholders.values_mut().flat_map(BTreeMap::values_mut);
        all.for_each(|placeholder| placeholder.version = ResourceVersion::default());
    }

    pub(super) fn look_at_port_news(&mut self) {
        for physical in self.ledger.take_port_news() {
            if let Ok(name) = virtual_node_name(&self.binding.cluster, &physical) {
                self.look_at_ports_of(&name);
            }
        }
    }

    pub(super) fn look_at_ports_of(&mut self, name: &NodeName) {
        let may_hold = self.ports.mirroring == Mirroring::On && self.lent.contains_key(name);
        if may_hold || self.ports.placeholders.contains_key(name) {
            self.ports.look_at(name);
        }
    }

    /// Decides about the placeholders of a virtual node, under what was read live for it; nothing while virtual nodes or pods are not
    /// listed.
    #[must_use]
    pub fn decide_ports(&self, name: &NodeName, evidence: &PortEvidence, now: Timestamp) -> Option<PortWork> {
        if !self.is_lent_listed || !self.recall.has(Part::LentPods) {
            return None;
        }
        let lent = self.lent.get(name).map(Arc::as_ref);
        let physical = self.physical_of_ports(name, lent);
        let is_listed = self.recall.has(Part::OurPods) && self.recall.has(Part::OtherPods);
        let counted = physical.as_deref().filter(|physical| is_listed && self.ledger.counts(physical));
        let held: Option<Vec<&[HostPort]>> = counted.map(|physical| self.ledger.host_ports(physical));
        let known = self.ports.placeholders.get(name);
        let unknown = evidence.existing.as_ref().filter(|it| known.is_none_or(|known| !known.contains_key(&it.uid)));
        let placeholders: Vec<&Placeholder> = known.into_iter().flat_map(BTreeMap::values).chain(unknown).collect();
        let guarding = physical.as_deref().filter(|physical| self.is_held(physical));
        let facts = Facts {
            identity: &self.binding.identity,
            cluster: &self.binding.cluster,
            name,
            mirroring: self.ports.mirroring,
            node: lent.map(|lent| HoldingNode { uid: &lent.uid, labels: &lent.metadata.labels, stay: stay(lent) }),
            live: evidence.node,
            physical: physical.as_deref(),
            held: held.as_deref(),
            placeholders: &placeholders,
            bindings: evidence.bindings.as_ref(),
            bars: &self.bars,
            guard: if guarding.is_some() { Guarding::Holds } else { Guarding::Free },
        };
        let order = ports::decide(&facts, now);
        let left_out = held.as_deref().map(left_out).unwrap_or_default();
        Some(PortWork { node: lent.map(|lent| lent.uid.clone()), order, left_out })
    }

    /// The physical node of a virtual one: the one that gives its name. What the node says of it may have been edited.
    fn physical_of_ports(&self, name: &NodeName, lent: Option<&LentNode>) -> Option<PhysicalName> {
        match lent {
            Some(lent) => self.physical_of(name, lent),
            None => self.ledger.physical_of(name).cloned(),
        }
    }
}

/// Whether a virtual node stays.
fn stay(lent: &LentNode) -> Stay {
    let is_marked = lent.metadata.taints.iter().any(|taint| taint.key == keys::DELETING_TAINT);
    if is_marked || lent.existence == Existence::Terminating { Stay::Leaves } else { Stay::Lent }
}

/// What of a virtual node its placeholders depend on.
fn matters(lent: &LentNode) -> (&Uid, &TextMap, Stay) {
    (&lent.uid, &lent.metadata.labels, stay(lent))
}

#[cfg(test)]
mod tests;
