//! What the pods of both clusters mean for the nodes of one binding: how much of a physical node is used, which of its ports pods of
//! others hold, what the pods of a virtual node request in sum, and which pods those are (decisions S14 and S15). Placeholders for
//! host ports are in no sum, since they use nothing.
//!
//! Owns the sums, kept as pods come, change and go, in the time that one pod takes; and which nodes have to be looked at
//! after each event. It is a plain value: watches feed it, controllers read it. Never decides what counts:
//! [`counted`](topoloom_sync::sizes::counted) does.
//!
//! # Failure story
//!
//! Events come late, twice, and in any order between the two clusters. A physical pod whose virtual pod is not known counts
//! as used: the node looks smaller for a moment, never larger. So does one that its virtual pod does not name, and one outside of
//! the namespace of the binding, whatever their labels are: a lender may have copied a manifest with all of them. A pod with an amount that cannot be read counts with what was
//! read of it before, and its node is reported.

mod ports;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::deletion::{Existence, PodClass};
use topoloom_sync::identity::mapping::{PhysicalPodRef, VirtualPodRef};
use topoloom_sync::identity::{Identity, Ownership};
use topoloom_sync::naming::{ClusterId, virtual_node_name};
use topoloom_sync::node::LentPod;
use topoloom_sync::phase::Phase;
use topoloom_sync::ports::HostPort;
use topoloom_sync::quantity::Quantity;
use topoloom_sync::resources::{ResourceError, ResourceList, ResourceName};
use topoloom_sync::sizes::counted::{PhysicalPod, PodOwner, VirtualPod, counted, counted_there};
use topoloom_sync::sizes::usage::{NodeUsage, PodUse, UsageChange};

use self::ports::HeldPorts;
use crate::slices::pod::PodSlice;

/// How many UIDs of bindings that are gone are remembered.
const GONE_BINDINGS: usize = 100;

/// The name of a physical node.
pub type PhysicalName = Arc<str>;

/// The physical nodes that have to be looked at.
pub type Touched = BTreeSet<PhysicalName>;

/// The pods of a binding's nodes, in both clusters.
#[derive(Debug)]
pub struct Ledger {
    identity: Identity,
    cluster: ClusterId,
    /// `spec.mountNamespace`: where its physical pods are.
    mount: String,
    /// What is used of each physical node.
    used: HashMap<PhysicalName, NodeUsage>,
    physical_pods: HashMap<Uid, PhysicalRow>,
    /// Which host ports of them pods of others hold.
    ports: HeldPorts,
    /// The physical pods that name a virtual one, by the UID of the virtual one: more than one, where a manifest was copied.
    twins: HashMap<Uid, Vec<Uid>>,
    virtual_pods: HashMap<Uid, VirtualRow>,
    /// Pods of the virtual cluster whose removal its API server took, and that are not known to be gone.
    removed: HashSet<Uid>,
    /// The pods of each virtual node.
    lent: HashMap<NodeName, LentRow>,
    /// The physical node of each virtual one that was looked at.
    names: HashMap<NodeName, PhysicalName>,
    /// How many pods of those virtual nodes have not ended: it is asked for with each decision.
    running: usize,
    /// Bindings of our name that a live list did not have: what they made is ours (decision S6).
    gone_bindings: BTreeSet<Uid>,
}

/// A pod of the physical cluster.
#[derive(Debug)]
struct PhysicalRow {
    node: PhysicalName,
    phase: Phase,
    /// What it requests, where that is needed again: of pods that are ours.
    ours: Option<OurPod>,
}

#[derive(Debug)]
struct OurPod {
    /// Its name; it is in the namespace of the binding.
    name: String,
    /// The binding that made it, where that was an earlier one of our name.
    earlier: Option<Uid>,
    /// The virtual pod that it names.
    names: Option<VirtualPodRef>,
    requests: ResourceList,
}

/// A pod of the virtual cluster.
#[derive(Debug)]
struct VirtualRow {
    node: NodeName,
    class: PodClass,
    phase: Phase,
    requests: ResourceList,
    /// The physical pod that it names.
    names: Option<PhysicalPodRef>,
}

#[derive(Debug, Default)]
struct LentRow {
    requested: NodeUsage,
    pods: BTreeMap<Uid, LentPod>,
}

impl Ledger {
    /// An empty one of a binding whose physical pods are in this namespace.
    #[must_use]
    pub fn new(identity: Identity, cluster: ClusterId, mount: &str) -> Self {
        Self {
            identity,
            cluster,
            mount: mount.to_owned(),
            used: HashMap::new(),
            physical_pods: HashMap::new(),
            ports: HeldPorts::default(),
            twins: HashMap::new(),
            virtual_pods: HashMap::new(),
            removed: HashSet::new(),
            lent: HashMap::new(),
            names: HashMap::new(),
            running: 0,
            gone_bindings: BTreeSet::new(),
        }
    }

    /// A physical node has this virtual one: pods of the one mean something for the other from now on.
    pub fn node(&mut self, physical: &PhysicalName) -> Option<NodeName> {
        let name = virtual_node_name(&self.cluster, physical).ok()?;
        if let Entry::Vacant(entry) = self.names.entry(name.clone()) {
            entry.insert(Arc::clone(physical));
            let pods = self.lent.get(&name).into_iter().flat_map(|row| row.pods.values());
            self.running += pods.filter(|pod| is_running(pod.class, pod.phase)).count();
        }
        Some(name)
    }

    /// A node is in neither cluster any more. Where pods are bound to its virtual node still, its name is kept until they are gone: the
    /// last one touches the node once more.
    pub fn forget(&mut self, physical: &str) {
        let Ok(name) = virtual_node_name(&self.cluster, physical) else { return };
        let is_its = self.names.get(&name).is_some_and(|known| **known == *physical);
        if is_its && !self.lent.contains_key(&name) {
            self.names.remove(&name);
        }
    }

    /// The physical node of a virtual one.
    #[must_use]
    pub fn physical_of(&self, lent: &str) -> Option<&PhysicalName> {
        self.names.get(lent)
    }

    /// What is used of a physical node.
    #[must_use]
    pub fn used(&self, physical: &str) -> ResourceList {
        self.used.get(physical).map(NodeUsage::total).unwrap_or_default()
    }

    /// What is used of a physical node, pod by pod, also by pods of which nothing counts.
    pub fn usage(&self, physical: &str) -> impl Iterator<Item = (&Uid, &PodUse)> {
        self.used.get(physical).into_iter().flat_map(|used| used.pods())
    }

    /// What the pods of a virtual node request in sum.
    #[must_use]
    pub fn requested(&self, lent: &str) -> ResourceList {
        self.lent.get(lent).map(|row| row.requested.total()).unwrap_or_default()
    }

    /// What is used of a physical node, one resource after the other.
    pub fn uses(&self, physical: &str) -> impl Iterator<Item = (&ResourceName, Quantity)> {
        self.used.get(physical).into_iter().flat_map(NodeUsage::sums)
    }

    /// What the pods of a virtual node request in sum, one resource after the other.
    pub fn requests(&self, lent: &str) -> impl Iterator<Item = (&ResourceName, Quantity)> {
        self.lent.get(lent).into_iter().flat_map(|row| row.requested.sums())
    }

    /// The pods of a virtual node.
    #[must_use]
    pub fn pods(&self, lent: &str) -> Vec<LentPod> {
        self.lent.get(lent).map(|row| row.pods.values().cloned().collect()).unwrap_or_default()
    }

    /// These pods of a virtual node, which were read live, with what is remembered of them.
    #[must_use]
    pub fn remembering(&self, lent: &str, mut pods: Vec<LentPod>) -> Vec<LentPod> {
        let row = self.lent.get(lent);
        for pod in &mut pods {
            let known = row.and_then(|row| row.pods.get(&pod.pod.uid));
            pod.refused = known.and_then(|known| known.refused);
            if self.removed.contains(&pod.pod.uid) {
                pod.existence = Existence::Terminating;
            }
        }
        pods
    }

    /// How many pods of the binding's nodes have not ended: what the guard's percent is of. Pods of other nodes of the virtual
    /// cluster are none of them, or a limit would allow more than it says.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// The phases of the pods that are bound to the binding's nodes, without placeholders.
    pub fn bound(&self) -> impl Iterator<Item = Phase> {
        let is_bound = |row: &&VirtualRow| row.class != PodClass::Placeholder && self.names.contains_key(&row.node);
        self.virtual_pods.values().filter(is_bound).map(|row| row.phase)
    }

    /// The host ports that pods of others hold on a physical node, pod by pod.
    #[must_use]
    pub fn host_ports(&self, physical: &str) -> Vec<&[HostPort]> {
        self.ports.of(physical)
    }

    /// The physical nodes on which pods of others hold other ports than at the last call.
    pub fn take_port_news(&mut self) -> Touched {
        self.ports.take_news()
    }

    /// A pod of the physical cluster is as it is now.
    ///
    /// # Errors
    /// One of its amounts is no quantity: the pod counts as it did before.
    pub fn physical_pod(&mut self, slice: &PodSlice) -> Result<Touched, ResourceError> {
        let uid = slice.pod().uid;
        let Some(node) = slice.node() else { return Ok(self.physical_pod_gone(&uid)) };
        let requests = slice.requests()?;
        let mut touched = Touched::new();
        // A pod never moves; one that did is another pod's row.
        if self.physical_pods.get(&uid).is_some_and(|row| *row.node != *node) {
            touched.append(&mut self.physical_pod_gone(&uid));
        }
        if let Some(old) = self.physical_pods.get(&uid).and_then(PhysicalRow::virtual_uid).cloned() {
            self.forget_twin(&old, &uid);
        }
        let ours = self.our_pod(slice);
        if let Some(virtual_uid) = ours.as_ref().and_then(OurPod::virtual_uid) {
            self.twins.entry(virtual_uid.clone()).or_default().push(uid.clone());
        }
        let node: PhysicalName =
            self.used.get_key_value(node).map_or_else(|| node.into(), |(known, _)| Arc::clone(known));
        let phase = Phase::read(slice.phase());
        let holds = ours.is_none() && !phase.is_final();
        self.ports.set(&node, &uid, if holds { slice.host_ports() } else { Vec::new() });
        let part = self.part(&uid, &node, phase, ours.as_ref(), &requests);
        let ours = ours.map(|ours| OurPod { requests, ..ours });
        self.physical_pods.insert(uid.clone(), PhysicalRow { node: Arc::clone(&node), phase, ours });
        if self.used.entry(Arc::clone(&node)).or_default().set(&uid, part) == UsageChange::Changed {
            touched.insert(node);
        }
        Ok(touched)
    }

    /// A pod of the physical cluster is gone.
    pub fn physical_pod_gone(&mut self, uid: &Uid) -> Touched {
        let Some(row) = self.physical_pods.remove(uid) else { return Touched::new() };
        if let Some(virtual_uid) = row.virtual_uid() {
            self.forget_twin(virtual_uid, uid);
        }
        self.ports.remove(&row.node, uid);
        let Some(used) = self.used.get_mut(&row.node) else { return Touched::new() };
        let change = used.remove(uid);
        if used.is_empty() {
            self.used.remove(&row.node);
        }
        match change {
            UsageChange::Changed => [row.node].into(),
            UsageChange::Same => Touched::new(),
        }
    }

    /// A pod of the virtual cluster that is bound to a node is as it is now.
    ///
    /// # Errors
    /// One of its amounts is no quantity: the pod counts as it did before.
    pub fn virtual_pod(&mut self, slice: PodSlice) -> Result<Touched, ResourceError> {
        let uid = slice.pod().uid;
        let Some(node) = slice.node().map(NodeName::from) else { return Ok(self.virtual_pod_gone(&uid)) };
        let requests = slice.requests()?;
        let (phase, names) = (Phase::read(slice.phase()), slice.names_physical());
        let mut touched = Touched::new();
        if self.virtual_pods.get(&uid).is_some_and(|row| row.node != node) {
            touched.append(&mut self.virtual_pod_gone(&uid));
        }
        let there = VirtualPod { uid: &uid, phase, node: Some(&node), requests: &requests };
        let part = PodUse::new(&counted_there(&there), &requests);
        let lent = self.lent.entry(node.clone()).or_default();
        let mut pod = slice.lent();
        let class = pod.class;
        let change = match class {
            PodClass::Placeholder => lent.requested.remove(&uid),
            PodClass::Ordinary | PodClass::DaemonSet | PodClass::Mirror | PodClass::System => {
                lent.requested.set(&uid, part)
            }
        };
        let mut is_changed = change == UsageChange::Changed;
        if self.removed.contains(&uid) {
            pod.existence = Existence::Terminating;
        }
        let matters = |pod: &LentPod| (pod.phase, pod.existence, pod.class, pod.tolerations.clone());
        let refused = lent.pods.get(&uid).and_then(|known| known.refused);
        is_changed |= lent.pods.get(&uid).map(matters) != Some(matters(&pod));
        lent.pods.insert(uid.clone(), LentPod { refused, ..pod });
        let row = VirtualRow { node: node.clone(), class, phase, requests, names };
        let before = self.virtual_pods.insert(uid.clone(), row);
        if self.names.contains_key(&node) {
            let was_running = before.is_some_and(|row| is_running(row.class, row.phase));
            self.running =
                self.running.saturating_sub(usize::from(was_running)) + usize::from(is_running(class, phase));
        }
        if is_changed && let Some(physical) = self.names.get(&node) {
            touched.insert(Arc::clone(physical));
        }
        touched.append(&mut self.recount(&uid));
        Ok(touched)
    }

    /// A pod of the virtual cluster is gone.
    pub fn virtual_pod_gone(&mut self, uid: &Uid) -> Touched {
        self.removed.remove(uid);
        let Some(row) = self.virtual_pods.remove(uid) else { return Touched::new() };
        let mut touched: Touched = self.names.get(&row.node).cloned().into_iter().collect();
        if !touched.is_empty() && is_running(row.class, row.phase) {
            self.running = self.running.saturating_sub(1);
        }
        if let Some(lent) = self.lent.get_mut(&row.node) {
            // The node is looked at whether its sum changed or not: its deletion may have waited for this pod.
            let _: UsageChange = lent.requested.remove(uid);
            lent.pods.remove(uid);
            if lent.pods.is_empty() {
                self.lent.remove(&row.node);
            }
        }
        touched.append(&mut self.recount(uid));
        touched
    }

    /// The API server refused the eviction of a pod.
    pub fn refused(&mut self, lent: &str, uid: &Uid, now: jiff::Timestamp) {
        if let Some(pod) = self.lent.get_mut(lent).and_then(|row| row.pods.get_mut(uid)) {
            let times = pod.refused.map_or(0, |refused| refused.times);
            pod.refused = Some(topoloom_sync::deletion::RefusedEviction { at: now, times: times.saturating_add(1) });
        }
    }

    /// The API server took the removal of a pod. It terminates from now on, whatever an event says that is older: it is not
    /// removed a second time.
    pub fn removed(&mut self, lent: &str, uid: &Uid) {
        if let Some(pod) = self.lent.get_mut(lent).and_then(|row| row.pods.get_mut(uid)) {
            pod.existence = Existence::Terminating;
            self.removed.insert(uid.clone());
        }
    }

    /// The API server was set back: a pod whose removal it took may live again.
    pub fn forget_removals(&mut self) {
        self.removed.clear();
    }

    /// A live list of the bindings does not have this one: pods that it made are ours, each as far as its virtual pod names it.
    pub fn earlier_is_gone(&mut self, binding: &Uid) -> Touched {
        if self.gone_bindings.len() >= GONE_BINDINGS || !self.gone_bindings.insert(binding.clone()) {
            return Touched::new();
        }
        self.recount_earlier()
    }

    /// The API server was set back: bindings that were gone may be there again.
    pub fn forget_earlier(&mut self) -> Touched {
        self.gone_bindings.clear();
        self.recount_earlier()
    }

    fn recount_earlier(&mut self) -> Touched {
        let is_earlier = |row: &PhysicalRow| row.ours.as_ref().is_some_and(|ours| ours.earlier.is_some());
        let pods: Vec<Uid> =
            self.physical_pods.iter().filter(|(_, row)| is_earlier(row)).map(|(uid, _)| uid.clone()).collect();
        pods.iter().filter_map(|uid| self.recount_pod(uid)).collect()
    }

    /// How many pods of the virtual cluster are known.
    #[must_use]
    pub fn virtual_count(&self) -> usize {
        self.virtual_pods.len()
    }

    /// All pods of the virtual cluster that are known.
    #[must_use]
    pub fn virtual_uids(&self) -> Vec<Uid> {
        self.virtual_pods.keys().cloned().collect()
    }

    fn forget_twin(&mut self, virtual_uid: &Uid, physical: &Uid) {
        if let Entry::Occupied(mut twins) = self.twins.entry(virtual_uid.clone()) {
            twins.get_mut().retain(|twin| twin != physical);
            if twins.get().is_empty() {
                twins.remove();
            }
        }
    }

    /// A pod that this binding made, or an earlier one of its name, as far as the pod says it: without its amounts.
    fn our_pod(&self, slice: &PodSlice) -> Option<OurPod> {
        let metadata = slice.metadata();
        let earlier = match Ownership::of(metadata.labels.as_ref()?, &self.identity) {
            Ownership::Ours => None,
            Ownership::OursOfEarlierBinding(uid) => Some(uid),
            Ownership::Foreign(_) | Ownership::None => return None,
        };
        let is_there = metadata.namespace.as_deref() == Some(self.mount.as_str());
        let name = metadata.name.clone().unwrap_or_default();
        is_there.then(|| OurPod { name, earlier, names: slice.names(), requests: ResourceList::new() })
    }

    /// Counts the physical pods that name a virtual one anew.
    fn recount(&mut self, virtual_uid: &Uid) -> Touched {
        let twins = self.twins.get(virtual_uid).cloned().unwrap_or_default();
        twins.iter().filter_map(|uid| self.recount_pod(uid)).collect()
    }

    /// Counts a physical pod of ours anew. Returns its node, where that has another sum now.
    fn recount_pod(&mut self, uid: &Uid) -> Option<PhysicalName> {
        let PhysicalRow { node, phase, ours } = self.physical_pods.get(uid)?;
        let ours = ours.as_ref()?;
        let part = self.part(uid, node, *phase, Some(ours), &ours.requests);
        let node = Arc::clone(node);
        let change = self.used.entry(Arc::clone(&node)).or_default().set(uid, part);
        (change == UsageChange::Changed).then_some(node)
    }

    /// The virtual pod of a physical one, where each names the other.
    fn twin_of(&self, uid: &Uid, pod: &OurPod) -> Option<(&Uid, &VirtualRow)> {
        let named = pod.names.as_ref()?;
        let (virtual_uid, row) = self.virtual_pods.get_key_value(&named.uid)?;
        let twin = &self.lent.get(&row.node)?.pods.get(virtual_uid)?.pod;
        let is_named = (&named.namespace, &named.name) == (&twin.namespace, &twin.name);
        let back = row.names.as_ref()?;
        let names_back =
            back.namespace == self.mount && back.name == pod.name && back.uid.as_ref().is_none_or(|named| named == uid);
        (is_named && names_back).then_some((virtual_uid, row))
    }

    /// How much of a physical pod counts.
    fn part(&self, uid: &Uid, node: &str, phase: Phase, ours: Option<&OurPod>, requests: &ResourceList) -> PodUse {
        let is_known = |ours: &&OurPod| ours.earlier.as_ref().is_none_or(|uid| self.gone_bindings.contains(uid));
        let ours = ours.filter(is_known);
        let owner = if ours.is_some() { PodOwner::Ours } else { PodOwner::Foreign };
        let virtual_uid = ours.and_then(OurPod::virtual_uid);
        let pod = PhysicalPod { owner, virtual_uid: virtual_uid.map(|uid| &**uid), phase, requests };
        let twin = ours.and_then(|ours| self.twin_of(uid, ours));
        let twin =
            twin.map(|(uid, row)| VirtualPod { uid, phase: row.phase, node: Some(&row.node), requests: &row.requests });
        // A node whose name gives no virtual one is not lent; then all of its pods count, which no one reads.
        let name = virtual_node_name(&self.cluster, node).unwrap_or_else(|_| "".into());
        PodUse::new(&counted(&pod, twin.as_ref(), &name), requests)
    }
}

/// Whether a pod of the virtual cluster is one that a limit of the guard counts.
fn is_running(class: PodClass, phase: Phase) -> bool {
    class != PodClass::Placeholder && !phase.is_final()
}

impl PhysicalRow {
    /// The UID of the virtual pod that it names, where it is ours.
    fn virtual_uid(&self) -> Option<&Uid> {
        self.ours.as_ref()?.virtual_uid()
    }
}

impl OurPod {
    /// The UID of the virtual pod that it names.
    fn virtual_uid(&self) -> Option<&Uid> {
        self.names.as_ref().map(|named| &named.uid)
    }
}

#[cfg(test)]
mod tests;
