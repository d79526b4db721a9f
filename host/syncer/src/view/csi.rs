//! What is known of the CSINodes of a binding (`bottomup-syncer.md` section 9, decisions S13 and S22).
//!
//! Owns the caches of CSINodes of both clusters, which of them have to be looked at, and what the process remembers of them.
//! The facts for a decision are put together here, and [`csi`] makes it.
//!
//! # Failure story
//!
//! Three lists lead to a decision: the CSINodes of both clusters and the virtual nodes. Until each of them was read to its end
//! nothing follows: what is not known is not gone. So a right that is missing, or was lost, deletes nothing and changes nothing.
//! The labels that make volumes reachable stay on the nodes meanwhile: until
//! physical CSINodes are known they follow from the virtual ones, which say what was known last; and until those are known,
//! too, what a node has got stays.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::Notify;
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::csi::{
    self, CountEdits, CsiOrder, Driver, Facts, Live, OwningNode, PhysicalCsiNode, VirtualCsiNode,
};
use topoloom_sync::identity::{Earlier, Identity, Ownership};
use topoloom_sync::naming::virtual_node_name;
use topoloom_sync::node::LentNode;

use super::View;
use crate::ledger::{PhysicalName, Touched};

/// What is known of the CSINodes of both clusters.
#[derive(Debug, Default)]
pub struct CsiView {
    physical: HashMap<PhysicalName, Arc<PhysicalCsiNode>>,
    physical_known: Known,
    lent: HashMap<NodeName, Arc<VirtualCsiNode>>,
    is_lent_listed: bool,
    /// Names under which another's CSINode was found, and its UID. No watch shows those.
    taken: BTreeMap<NodeName, Uid>,
    counts: CountEdits,
    due: Touched,
    news: Arc<Notify>,
}

/// Whether the physical CSINodes are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Known {
    /// They were never listed.
    #[default]
    Never,
    /// They were, and are being listed anew: the cluster or its history may have been another one meanwhile.
    Before,
    /// They are.
    Now,
}

/// What a controller read live for a decision about a CSINode.
#[derive(Debug, Clone, Default)]
pub struct CsiEvidence {
    /// Of what the caches lack.
    pub live: Live,
    /// The virtual CSINode, where it was read because none was known.
    pub existing: Option<VirtualCsiNode>,
    /// The UIDs of all ClusterBindings.
    pub bindings: Option<BTreeSet<Uid>>,
}

/// What a controller has to do about the CSINode of a virtual node.
#[derive(Debug, Clone, PartialEq)]
pub struct CsiWork {
    /// The virtual node, and its CSINode.
    pub lent: NodeName,
    /// The UID of the virtual node, where there is one.
    pub node: Option<Uid>,
    /// The UID of the CSINode, where there is one.
    pub existing: Option<Uid>,
    /// Whether another's CSINode was found under this name before.
    pub was_taken: bool,
    /// What to do.
    pub order: CsiOrder,
}

impl CsiView {
    /// A physical CSINode of the cache.
    #[must_use]
    pub fn physical(&self, name: &str) -> Option<&Arc<PhysicalCsiNode>> {
        self.physical.get(name)
    }

    /// A virtual CSINode of the cache.
    #[must_use]
    pub fn lent(&self, name: &str) -> Option<&Arc<VirtualCsiNode>> {
        self.lent.get(name)
    }

    /// A list of physical CSINodes begins: until it is whole, what is known may be old.
    pub fn begins(&mut self) {
        if self.physical_known == Known::Now {
            self.physical_known = Known::Before;
        }
    }

    /// The API server refused to change the number of volumes of a driver in place.
    pub fn count_edit_refused(&mut self) {
        self.counts = CountEdits::Refused;
    }

    /// Another's CSINode was found under this name. Whether that is new.
    pub fn name_taken(&mut self, name: &NodeName, uid: &Uid) -> bool {
        self.taken.insert(name.clone(), uid.clone()).as_ref() != Some(uid)
    }

    /// No other's CSINode is under this name any more.
    pub fn name_free(&mut self, name: &str) {
        self.taken.remove(name);
    }

    /// Is notified when a CSINode has to be looked at.
    #[must_use]
    pub fn news(&self) -> Arc<Notify> {
        Arc::clone(&self.news)
    }

    /// The CSINodes that have to be looked at, by physical node: those since the last call.
    pub fn take_due(&mut self) -> Touched {
        std::mem::take(&mut self.due)
    }

    fn look_at(&mut self, names: impl IntoIterator<Item = PhysicalName>) {
        self.due.extend(names);
        if !self.due.is_empty() {
            self.news.notify_one();
        }
    }

    fn is_listed(&self) -> bool {
        self.physical_known == Known::Now && self.is_lent_listed
    }
}

/// What became of the CSINodes of the physical cluster. The nodes that are touched are those whose topology keys changed.
impl View {
    /// A physical CSINode is as it is now.
    pub fn physical_csi_node(&mut self, name: &PhysicalName, node: PhysicalCsiNode) -> Touched {
        self.machine_csi_node(name, Arc::new(node))
    }

    /// The same of one that others know, too.
    pub fn machine_csi_node(&mut self, name: &PhysicalName, node: Arc<PhysicalCsiNode>) -> Touched {
        let is_same = keys_of(&self.csi.physical, name) == topology_keys(&node.drivers);
        self.csi.physical.insert(Arc::clone(name), node);
        self.csi.look_at([Arc::clone(name)]);
        if is_same { Touched::new() } else { [Arc::clone(name)].into() }
    }

    /// A physical CSINode is gone.
    pub fn physical_csi_node_gone(&mut self, name: &str) -> Touched {
        let Some((name, before)) = self.csi.physical.remove_entry(name) else { return Touched::new() };
        self.csi.look_at([Arc::clone(&name)]);
        if topology_keys(&before.drivers).is_empty() { Touched::new() } else { [name].into() }
    }

    /// All physical CSINodes were listed: what is not among these is gone.
    pub fn physical_csi_nodes(&mut self, nodes: HashMap<PhysicalName, PhysicalCsiNode>) -> Touched {
        self.machine_csi_nodes(nodes.into_iter().map(|(name, node)| (name, Arc::new(node))).collect())
    }

    /// The same of CSINodes that others know, too.
    pub fn machine_csi_nodes(&mut self, nodes: HashMap<PhysicalName, Arc<PhysicalCsiNode>>) -> Touched {
        let is_first = self.csi.physical_known == Known::Never;
        self.csi.physical_known = Known::Now;
        let before = std::mem::replace(&mut self.csi.physical, nodes);
        self.look_at_csi_nodes();
        if is_first {
            // What their labels followed from was something else.
            return self.all();
        }
        let differs = |name: &&PhysicalName| keys_of(&before, name) != keys_of(&self.csi.physical, name);
        before.keys().chain(self.csi.physical.keys()).filter(differs).cloned().collect()
    }
}

/// What became of the CSINodes of the virtual cluster. Nodes are touched only where their labels follow from these.
impl View {
    /// A virtual CSINode is as it is now.
    pub fn lent_csi_node(&mut self, name: &NodeName, node: VirtualCsiNode) -> Touched {
        self.lent_machine_csi_node(name, Arc::new(node))
    }

    /// The same of one that others know, too. Nothing has to be looked at where our own write has shown this version, or a later
    /// one.
    pub fn lent_machine_csi_node(&mut self, name: &NodeName, node: Arc<VirtualCsiNode>) -> Touched {
        let is_known =
            |known: &Arc<VirtualCsiNode>| known.version == node.version || node.version.is_older_than(&known.version);
        if self.csi.lent.get(name).is_some_and(is_known) {
            return Touched::new();
        }
        let physical = self.physical_of_csi(name, &node);
        self.csi.lent.insert(name.clone(), node);
        self.csi.look_at(physical);
        Touched::new()
    }

    /// A virtual CSINode is gone.
    pub fn lent_csi_node_gone(&mut self, name: &str) -> Touched {
        let Some((name, node)) = self.csi.lent.remove_entry(name) else { return Touched::new() };
        let physical = self.physical_of_csi(&name, &node);
        self.csi.look_at(physical);
        Touched::new()
    }

    /// All virtual CSINodes were listed: what is not among these is gone.
    pub fn lent_csi_nodes(&mut self, nodes: HashMap<NodeName, VirtualCsiNode>) -> Touched {
        self.lent_machine_csi_nodes(nodes.into_iter().map(|(name, node)| (name, Arc::new(node))).collect())
    }

    /// The same of CSINodes that others know, too.
    pub fn lent_machine_csi_nodes(&mut self, nodes: HashMap<NodeName, Arc<VirtualCsiNode>>) -> Touched {
        // What is gone is looked at, too: its physical node may be known by nothing else.
        self.look_at_csi_nodes();
        self.csi.is_lent_listed = true;
        self.csi.lent = nodes;
        self.look_at_csi_nodes();
        if self.csi.physical_known == Known::Never { self.all() } else { Touched::new() }
    }

    /// Every CSINode that there is something to decide about, by physical node.
    #[must_use]
    pub fn all_csi_nodes(&self) -> Touched {
        let lent = self.csi.lent.iter().filter_map(|(name, node)| self.physical_of_csi(name, node));
        self.csi.physical.keys().cloned().chain(lent).collect()
    }

    /// Every CSINode is looked at: what allows or forbids writes has changed.
    pub fn look_at_csi_nodes(&mut self) {
        let all = self.all_csi_nodes();
        self.csi.look_at(all);
    }

    /// A virtual node is as it is now. Its CSINode is looked at where that matters for it, and not after each status.
    pub(super) fn owner(&mut self, physical: Option<&PhysicalName>, before: Option<&LentNode>, now: &LentNode) {
        let is_same = |before: &LentNode| before.uid == now.uid && before.metadata.labels == now.metadata.labels;
        if !before.is_some_and(is_same) {
            self.csi.look_at(physical.cloned());
        }
    }

    /// A virtual node is gone.
    pub(super) fn owner_gone(&mut self, physical: Option<&PhysicalName>, name: &str) {
        self.csi.name_free(name);
        self.csi.look_at(physical.cloned());
    }

    /// Decides about the CSINode of a virtual node, under what was read live for it; nothing while something is not listed.
    #[must_use]
    pub fn decide_csi_node(&self, name: &PhysicalName, evidence: &CsiEvidence, now: Timestamp) -> Option<CsiWork> {
        if !self.csi.is_listed() || !self.is_lent_listed {
            return None;
        }
        let lent = virtual_node_name(&self.binding.cluster, name).ok()?;
        let owning = |node: &Arc<LentNode>| OwningNode { uid: node.uid.clone(), labels: node.metadata.labels.clone() };
        let node = self.lent.get(&lent).map(owning);
        let existing = self.csi.lent.get(&lent).map(Arc::as_ref).or(evidence.existing.as_ref());
        let identity = &self.binding.identity;
        let facts = Facts {
            identity,
            cluster: &self.binding.cluster,
            physical_name: name,
            name: &lent,
            physical: self.csi.physical.get(name).map(Arc::as_ref),
            node: node.as_ref(),
            live: evidence.live,
            existing,
            earlier: earlier(existing, identity, evidence.bindings.as_ref()),
            counts: self.csi.counts,
            bars: &self.bars,
        };
        let order = csi::decide(&facts, now);
        let existing = existing.map(|existing| existing.uid.clone());
        let was_taken = self.csi.taken.contains_key(&lent);
        Some(CsiWork { node: node.map(|node| node.uid), existing, was_taken, order, lent })
    }

    /// The keys that the `topologyKeys` of the CSINode of a physical node name, as far as that is known.
    pub(super) fn topology_keys(&self, name: &str, lent: Option<(&NodeName, &LentNode)>) -> BTreeSet<String> {
        let owned = |drivers: &[Driver]| topology_keys(drivers).into_iter().map(str::to_owned).collect();
        if self.csi.physical_known != Known::Never {
            return self.csi.physical.get(name).map(|node| owned(&node.drivers)).unwrap_or_default();
        }
        let Some((lent_name, lent)) = lent else { return BTreeSet::new() };
        if self.csi.is_lent_listed {
            return self.csi.lent.get(lent_name).map(|node| owned(&node.drivers)).unwrap_or_default();
        }
        lent.metadata.base().map(|base| base.labels).unwrap_or_default()
    }

    /// The physical node of a virtual CSINode: the one whose virtual node has this name. What the object says of it may have
    /// been edited.
    fn physical_of_csi(&self, name: &str, node: &VirtualCsiNode) -> Option<PhysicalName> {
        self.machine_named(name, [&node.annotations, &node.labels])
    }
}

fn topology_keys(drivers: &[Driver]) -> BTreeSet<&str> {
    drivers.iter().flat_map(|driver| &driver.topology_keys).map(String::as_str).collect()
}

fn keys_of<'a>(nodes: &'a HashMap<PhysicalName, Arc<PhysicalCsiNode>>, name: &str) -> BTreeSet<&'a str> {
    nodes.get(name).map(|node| topology_keys(&node.drivers)).unwrap_or_default()
}

/// What a live list of the bindings shows of the one that a CSINode names, where that is an earlier one.
fn earlier(existing: Option<&VirtualCsiNode>, us: &Identity, bindings: Option<&BTreeSet<Uid>>) -> Earlier {
    let (Some(existing), Some(bindings)) = (existing, bindings) else { return Earlier::Unlisted };
    match Ownership::of(&existing.labels, us) {
        Ownership::OursOfEarlierBinding(uid) if bindings.contains(&uid) => Earlier::Stands,
        Ownership::OursOfEarlierBinding(_) => Earlier::Gone,
        Ownership::Ours | Ownership::Foreign(_) | Ownership::None => Earlier::Unlisted,
    }
}

#[cfg(test)]
mod tests;
