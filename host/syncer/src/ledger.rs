//! What the pods of both clusters mean for the nodes of one binding: how much of a physical node is used, which of its ports pods of
//! others hold, what the pods of a virtual node request in sum, and which pods those are (decisions S14 and S15). Placeholders for
//! host ports are in no sum, since they use nothing.
//!
//! Owns the sums, kept as pods come, change and go, without a look at the other pods; and which nodes have to be looked at
//! after each event. Where several bindings share the watches of a physical cluster, a ledger has the pods of those nodes alone that
//! its binding decides about: it takes them out of what the watches have shown ([`PodStock`]) when it does for the first time. It never
//! takes them out of a watch of another connection that has not listed all pods yet: they would look like none. It is a
//! plain value: watches feed it, controllers read it. Never decides what counts: [`counted`](topoloom_sync::sizes::counted) does.
//!
//! # Failure story
//!
//! Events come late, twice, and in any order between the two clusters. A physical pod whose virtual pod is not known counts
//! as used: the node looks smaller for a moment, never larger. So does one that its virtual pod does not name, and one outside of
//! the namespace of the binding, whatever their labels are: a lender may have copied a manifest with all of them. A pod with an amount that cannot be read counts with what was
//! read of it before, and its node is reported.

mod arriving;
mod ports;

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::deletion::{Existence, PodClass, RefusedEviction, is_slow};
use topoloom_sync::identity::{Identity, Ownership};
use topoloom_sync::naming::{ClusterId, virtual_node_name};
use topoloom_sync::node::LentPod;
use topoloom_sync::phase::Phase;
use topoloom_sync::ports::HostPort;
use topoloom_sync::quantity::Quantity;
use topoloom_sync::resources::{ResourceError, ResourceList, ResourceName};
use topoloom_sync::sizes::counted::{
    CountedAs, PhysicalPod, PodOwner, VirtualPod, WholeReason, counted, counted_there,
};
use topoloom_sync::sizes::usage::{NodeUsage, PodUse, UsageChange};
use topoloom_sync::sorted::SortedMap;
use topoloom_sync::taints::Toleration;

use self::arriving::Arriving;
use self::ports::HeldPorts;
use crate::slices::pod::{Commons, KnownPod, Lending, PodSlice};

/// How many UIDs of bindings that are gone are remembered.
const GONE_BINDINGS: usize = 100;

/// The name of a physical node.
pub type PhysicalName = Arc<str>;

/// The physical nodes that have to be looked at.
pub type Touched = BTreeSet<PhysicalName>;

/// What a watch of physical pods has shown.
pub trait PodStock: fmt::Debug + Send + Sync {
    /// The pods of a node.
    fn on(&self, node: &str) -> Vec<Arc<KnownPod>>;

    /// Whether it shows a pod with this UID.
    fn has(&self, uid: &str) -> bool;
}

/// One of the two watches of physical pods (decision S21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodWatch {
    /// Of pods with the label of the virtual cluster, in every phase.
    Ours,
    /// Of all others that use room.
    Others,
}

impl PodWatch {
    const BOTH: [Self; 2] = [Self::Ours, Self::Others];

    /// What is of this one, of two.
    fn of<T>(self, [ours, others]: [T; 2]) -> T {
        match self {
            Self::Ours => ours,
            Self::Others => others,
        }
    }
}

/// The pods of a binding's nodes, in both clusters.
#[derive(Debug)]
pub struct Ledger {
    identity: Identity,
    cluster: ClusterId,
    /// `spec.mountNamespace`: where its physical pods are.
    mount: String,
    /// The physical nodes whose pods are here.
    nodes: Nodes,
    /// What the two watches of physical pods have shown.
    stocks: [Option<Arc<dyn PodStock>>; 2],
    /// The same of watches that take their place, each once it has listed all pods.
    next: [Option<Arc<dyn PodStock>>; 2],
    /// What is used of each physical node.
    used: HashMap<PhysicalName, NodeUsage>,
    physical_pods: HashMap<Uid, PhysicalRow>,
    /// Those of ours that do not count yet.
    arriving: Arriving,
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
    /// How many pods of those virtual nodes the guard counts: it is asked for with each decision.
    running: usize,
    /// Bindings of our name that a live list did not have: what they made is ours (decision S6).
    gone_bindings: BTreeSet<Uid>,
}

/// Physical nodes.
#[derive(Debug)]
enum Nodes {
    /// All of them.
    All,
    /// These.
    Some(HashSet<PhysicalName>),
}

/// A pod of the physical cluster.
#[derive(Debug)]
struct PhysicalRow {
    pod: Arc<KnownPod>,
    owner: RowOwner,
    /// Which of the two watches show it.
    shown: [bool; 2],
}

/// Whose a physical pod is.
#[derive(Debug)]
enum RowOwner {
    /// Another's.
    Foreign,
    /// This binding made it.
    Ours,
    /// An earlier binding of this name did.
    Earlier(Uid),
}

/// A pod of the virtual cluster.
#[derive(Debug)]
struct VirtualRow {
    pod: Arc<KnownPod>,
    node: NodeName,
    /// Whether it is being deleted, also as an answer says it that came before the event.
    existence: Existence,
    /// When the API server refused its eviction last.
    refused: Option<RefusedEviction>,
    /// How long it has to end, where an event says so and no removal was taken since.
    grace: Option<Duration>,
}

#[derive(Debug, Default)]
struct LentRow {
    requested: NodeUsage,
    pods: SortedMap<Uid, ()>,
}

impl Ledger {
    /// An empty one of a binding whose physical pods are in this namespace.
    #[must_use]
    pub fn new(identity: Identity, cluster: ClusterId, mount: &str) -> Self {
        Self {
            identity,
            cluster,
            mount: mount.to_owned(),
            nodes: Nodes::All,
            stocks: [None, None],
            next: [None, None],
            used: HashMap::new(),
            physical_pods: HashMap::new(),
            arriving: Arriving::default(),
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

    /// From now on the pods of a node are here once it is taken up, and come out of what the two watches have shown. Where these take
    /// the place of others, as after another connection, each does so once it has [listed](Self::listed) all pods. Pods of the nodes
    /// that were taken up before stay, until their watch shows otherwise.
    pub fn draw_on(&mut self, stocks: [Arc<dyn PodStock>; 2]) {
        if matches!(self.nodes, Nodes::All) {
            self.nodes = Nodes::Some(self.used.keys().cloned().collect());
        }
        for (watch, stock) in PodWatch::BOTH.into_iter().zip(stocks) {
            let (known, next) = (watch.of(self.stocks.each_mut()), watch.of(self.next.each_mut()));
            // Before the first list nothing is decided by what is here.
            let place = if known.is_none() { known } else { next };
            *place = Some(stock);
        }
    }

    /// The pods of a node are here from now on: the binding decides about it. Whether they were not before.
    pub fn take_up(&mut self, node: &PhysicalName) -> bool {
        match &mut self.nodes {
            Nodes::Some(nodes) if !nodes.contains(node) => {
                nodes.insert(Arc::clone(node));
            }
            Nodes::All | Nodes::Some(_) => return false,
        }
        for watch in PodWatch::BOTH {
            let stock = watch.of(self.stocks.each_ref()).clone();
            for pod in stock.iter().flat_map(|stock| stock.on(node)) {
                // The node is looked at anyway.
                let _this: Touched = self.shown(watch, &pod);
            }
        }
        true
    }

    /// A watch takes the place of another one: it has listed all pods. A node may have been taken up out of what the other one had
    /// shown, after this one had shown its pods.
    fn draw_on_next(&mut self, watch: PodWatch) -> Touched {
        let mut touched = Touched::new();
        let Some(stock) = watch.of(self.next.each_mut()).take() else { return touched };
        *watch.of(self.stocks.each_mut()) = Some(Arc::clone(&stock));
        let nodes: Vec<PhysicalName> = match &self.nodes {
            Nodes::All => Vec::new(),
            Nodes::Some(nodes) => nodes.iter().cloned().collect(),
        };
        for pod in nodes.iter().flat_map(|node| stock.on(node)) {
            touched.extend(self.shown(watch, &pod));
        }
        touched
    }

    /// Whether the pods of a node are here: what is used of another one is not known.
    #[must_use]
    pub fn counts(&self, node: &str) -> bool {
        match &self.nodes {
            Nodes::All => true,
            Nodes::Some(nodes) => nodes.contains(node),
        }
    }

    /// A physical node has this virtual one: pods of the one mean something for the other from now on.
    pub fn node(&mut self, physical: &PhysicalName) -> Option<NodeName> {
        let name = virtual_node_name(&self.cluster, physical).ok()?;
        if let Some((known, _)) = self.names.get_key_value(&name) {
            // One text for all that is kept under the name, such as its lease.
            return Some(known.clone());
        }
        self.names.insert(name.clone(), Arc::clone(physical));
        let pods = self.lent.get(&name).into_iter().flat_map(|row| row.pods.keys());
        let rows = pods.filter_map(|uid| self.virtual_pods.get(uid));
        self.running += rows.filter(|row| row.is_running()).count();
        Some(name)
    }

    /// A node is in neither cluster any more: its pods are here no more, but for those that are not shown as gone yet. Where pods are
    /// bound to its virtual node still, its name is kept until they are gone: the last one touches the node once more.
    pub fn forget(&mut self, physical: &str) {
        if let Nodes::Some(nodes) = &mut self.nodes {
            nodes.remove(physical);
        }
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

    /// The same for a decision that is made now: without the pods of ours that have just come, and whose virtual pods are not known to
    /// name them yet. With it, when they count whatever is known then.
    pub fn used_at(&mut self, physical: &str, now: Duration) -> (ResourceList, Option<Duration>) {
        let (arriving, due) = self.arriving.of(physical, now);
        let used = self.used.get(physical);
        (used.map(|used| used.total_without(&arriving)).unwrap_or_default(), due)
    }

    /// Whether a pod of the physical cluster is known.
    #[must_use]
    pub fn knows(&self, pod: &Uid) -> bool {
        self.physical_pods.contains_key(pod)
    }

    /// An event, and no list, has shown a pod that was not known before. If it is ours, what names it may be on its way.
    pub fn came(&mut self, uid: &Uid) {
        let Some(row) = self.physical_pods.get(uid).filter(|row| matches!(row.owner, RowOwner::Ours)) else { return };
        let Some(node) = row.pod.node() else { return };
        if is_unnamed(&self.part(row)) {
            self.arriving.came(node, uid);
        }
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
        let pods = self.lent.get(lent).into_iter().flat_map(|row| row.pods.keys());
        pods.filter_map(|uid| self.virtual_pods.get(uid)?.lent()).collect()
    }

    /// These pods of a virtual node, which were read live, with what is remembered of them.
    #[must_use]
    pub fn remembering(&self, lent: &str, mut pods: Vec<LentPod>) -> Vec<LentPod> {
        for pod in &mut pods {
            let known = self.virtual_pods.get(&pod.pod.uid).filter(|row| *row.node == *lent);
            pod.refused = known.and_then(|known| known.refused);
            if self.removed.contains(&pod.pod.uid) {
                pod.existence = Existence::Terminating;
            }
        }
        pods
    }

    /// How many pods of the binding's nodes have not ended, of those that the guard [counts](PodClass::counts): what its percent is of.
    /// Pods of other nodes of the virtual cluster are none of them, or a limit would allow more than it says.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// The phases of the pods that are bound to the binding's nodes, without placeholders.
    pub fn bound(&self) -> impl Iterator<Item = Phase> {
        let is_bound = |row: &&VirtualRow| row.class() != PodClass::Placeholder && self.names.contains_key(&row.node);
        self.virtual_pods.values().filter(is_bound).map(|row| row.pod.phase())
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
        if slice.node().is_none() {
            return Ok(self.physical_pod_gone(&slice.pod().uid));
        }
        let pod = Arc::new(KnownPod::of(slice)?);
        Ok(self.shown(PodWatch::Others, &pod))
    }

    /// A watch shows a pod of the physical cluster as it is now.
    pub fn shown(&mut self, watch: PodWatch, pod: &Arc<KnownPod>) -> Touched {
        let uid = pod.uid();
        let Some(node) = pod.node() else { return self.physical_pod_gone(uid) };
        if !self.counts(node) {
            return Touched::new();
        }
        let mut touched = Touched::new();
        // A pod never moves; one that did is another pod's row.
        if self.physical_pods.get(uid).is_some_and(|row| row.pod.node() != Some(node)) {
            touched.extend(self.physical_pod_gone(uid));
        }
        let before = self.physical_pods.remove(uid);
        let [ours, others] = before.as_ref().map(|row| row.shown).unwrap_or_default();
        let shown = match watch {
            PodWatch::Ours => [true, others],
            PodWatch::Others => [ours, true],
        };
        if let Some(virtual_uid) = before.as_ref().and_then(PhysicalRow::virtual_uid) {
            self.forget_twin(virtual_uid, uid);
        }
        let row = PhysicalRow { pod: Arc::clone(pod), owner: self.owner(pod), shown };
        if let Some(virtual_uid) = row.virtual_uid() {
            self.twins.entry(virtual_uid.clone()).or_default().push(uid.clone());
        }
        let holds = matches!(row.owner, RowOwner::Foreign) && !pod.phase().is_final();
        self.ports.set(node, uid, if holds { pod.ports().to_vec() } else { Vec::new() });
        let part = self.part(&row);
        self.physical_pods.insert(uid.clone(), row);
        if self.used.entry(Arc::clone(node)).or_default().set(uid, part) == UsageChange::Changed {
            touched.insert(Arc::clone(node));
        }
        touched
    }

    /// A watch does not show a pod any more. Where its labels changed the other one does, or will: a pod that the other one shows is
    /// not gone.
    pub fn hidden(&mut self, watch: PodWatch, uid: &Uid) -> Touched {
        let Some(row) = self.physical_pods.get_mut(uid) else { return Touched::new() };
        let is_shown = match (watch, &mut row.shown) {
            (PodWatch::Ours, [ours, others]) => std::mem::replace(ours, false) && !*others,
            (PodWatch::Others, [ours, others]) => std::mem::replace(others, false) && !*ours,
        };
        if is_shown { self.physical_pod_gone(uid) } else { Touched::new() }
    }

    /// A watch has listed all pods: what is not among these it does not show, unless it came after the list.
    pub fn listed(&mut self, watch: PodWatch, seen: &HashSet<Uid>) -> Touched {
        let mut touched = self.draw_on_next(watch);
        let stock = watch.of(self.stocks.each_ref()).clone();
        let has = |uid: &Uid| stock.as_ref().is_some_and(|stock| stock.has(uid));
        touched.extend(self.hide(watch, |uid| !seen.contains(uid) && !has(uid)));
        touched
    }

    /// A watch has given up a list that has shown these: what it has not shown may be gone, and is not known any more. A later list
    /// shows it again.
    pub fn given_up(&mut self, watch: PodWatch, seen: &HashSet<Uid>) -> Touched {
        self.hide(watch, |uid| !seen.contains(uid))
    }

    fn hide(&mut self, watch: PodWatch, is_missing: impl Fn(&Uid) -> bool) -> Touched {
        let shown = self.physical_pods.iter().filter(|(_, row)| row.is_shown_by(watch));
        let missing: Vec<Uid> = shown.map(|(uid, _)| uid.clone()).filter(|uid| is_missing(uid)).collect();
        missing.iter().flat_map(|uid| self.hidden(watch, uid)).collect()
    }

    /// A pod of the physical cluster is gone.
    pub fn physical_pod_gone(&mut self, uid: &Uid) -> Touched {
        let Some(row) = self.physical_pods.remove(uid) else { return Touched::new() };
        if let Some(virtual_uid) = row.virtual_uid() {
            self.forget_twin(virtual_uid, uid);
        }
        let Some(node) = row.pod.node() else { return Touched::new() };
        self.arriving.settled(node, uid);
        self.ports.remove(node, uid);
        let Some(used) = self.used.get_mut(node) else { return Touched::new() };
        let change = used.remove(uid);
        if used.is_empty() {
            self.used.remove(node);
        }
        match change {
            UsageChange::Changed => [Arc::clone(node)].into(),
            UsageChange::Same => Touched::new(),
        }
    }

    /// A pod of the virtual cluster that is bound to a node is as it is now.
    ///
    /// # Errors
    /// One of its amounts is no quantity: the pod counts as it did before.
    pub fn virtual_pod(&mut self, slice: PodSlice) -> Result<Touched, ResourceError> {
        if slice.node().is_none() {
            return Ok(self.virtual_pod_gone(&slice.pod().uid));
        }
        let pod = Arc::new(KnownPod::of_virtual(&slice, &mut Commons::default())?);
        Ok(self.lent_pod(&pod))
    }

    /// A pod of the virtual cluster that is bound to a node is as it is now.
    pub fn lent_pod(&mut self, pod: &Arc<KnownPod>) -> Touched {
        let uid = pod.uid();
        let (Some(node), Some(lending)) = (pod.node(), pod.lending()) else { return self.virtual_pod_gone(uid) };
        let node = NodeName::from(Arc::clone(node));
        let mut touched = Touched::new();
        if self.virtual_pods.get(uid).is_some_and(|row| row.node != node) {
            touched.extend(self.virtual_pod_gone(uid));
        }
        let requests = pod.requests();
        let there = VirtualPod { uid, phase: pod.phase(), node: Some(&node), requests: &requests };
        let part = PodUse::new(&counted_there(&there), &requests);
        let lent = self.lent.entry(node.clone()).or_default();
        let change = match lending.class {
            PodClass::Placeholder => lent.requested.remove(uid),
            PodClass::Ordinary | PodClass::DaemonSet | PodClass::Mirror | PodClass::System => {
                lent.requested.set(uid, part)
            }
        };
        lent.pods.insert(uid.clone(), ());
        let is_removed = self.removed.contains(uid);
        let existence = if is_removed { Existence::Terminating } else { lending.existence() };
        let before = self.virtual_pods.remove(uid);
        let refused = before.as_ref().and_then(|before| before.refused);
        let grace = lending.time_to_end();
        let row = VirtualRow { pod: Arc::clone(pod), node: node.clone(), existence, refused, grace };
        let matters = before.as_ref().map(VirtualRow::matters) != Some(row.matters());
        let (was_running, is_running) = (before.is_some_and(|row| row.is_running()), row.is_running());
        self.virtual_pods.insert(uid.clone(), row);
        if let Some(physical) = self.names.get(&node) {
            self.running = self.running.saturating_sub(usize::from(was_running)) + usize::from(is_running);
            if matters || change == UsageChange::Changed {
                touched.insert(Arc::clone(physical));
            }
        }
        touched.extend(self.recount(uid));
        touched
    }

    /// A pod of the virtual cluster is gone.
    pub fn virtual_pod_gone(&mut self, uid: &Uid) -> Touched {
        self.removed.remove(uid);
        let Some(row) = self.virtual_pods.remove(uid) else { return Touched::new() };
        let mut touched: Touched = self.names.get(&row.node).cloned().into_iter().collect();
        if !touched.is_empty() && row.is_running() {
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
        touched.extend(self.recount(uid));
        touched
    }

    /// The API server refused the eviction of a pod.
    pub fn refused(&mut self, lent: &str, uid: &Uid, now: jiff::Timestamp) {
        if let Some(row) = self.virtual_pods.get_mut(uid).filter(|row| *row.node == *lent) {
            let times = row.refused.map_or(0, |refused| refused.times);
            row.refused = Some(RefusedEviction { at: now, times: times.saturating_add(1) });
        }
    }

    /// The API server took the removal of a pod. It terminates from now on, whatever an event says that is older: it is not
    /// removed a second time.
    pub fn removed(&mut self, lent: &str, uid: &Uid) {
        if let Some(row) = self.virtual_pods.get_mut(uid).filter(|row| *row.node == *lent) {
            (row.existence, row.grace) = (Existence::Terminating, None);
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
        let is_earlier = |row: &PhysicalRow| matches!(row.owner, RowOwner::Earlier(_));
        let pods: Vec<Uid> =
            self.physical_pods.iter().filter(|(_, row)| is_earlier(row)).map(|(uid, _)| uid.clone()).collect();
        pods.iter().filter_map(|uid| self.recount_pod(uid)).collect()
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

    /// Whose a physical pod is, as far as it says that.
    fn owner(&self, pod: &KnownPod) -> RowOwner {
        let Some(lending) = pod.lending().filter(|lending| *lending.namespace == *self.mount) else {
            return RowOwner::Foreign;
        };
        match Ownership::of(&*lending.labels, &self.identity) {
            Ownership::Ours => RowOwner::Ours,
            Ownership::OursOfEarlierBinding(uid) => RowOwner::Earlier(uid),
            Ownership::Foreign(_) | Ownership::None => RowOwner::Foreign,
        }
    }

    /// Counts the physical pods that name a virtual one anew.
    fn recount(&mut self, virtual_uid: &Uid) -> Touched {
        let twins = self.twins.get(virtual_uid).cloned().unwrap_or_default();
        twins.iter().filter_map(|uid| self.recount_pod(uid)).collect()
    }

    /// Counts a physical pod of ours anew. Returns its node, where that has another sum now.
    fn recount_pod(&mut self, uid: &Uid) -> Option<PhysicalName> {
        let row = self.physical_pods.get(uid).filter(|row| !matches!(row.owner, RowOwner::Foreign))?;
        let (part, node) = (self.part(row), Arc::clone(row.pod.node()?));
        if !is_unnamed(&part) {
            self.arriving.settled(&node, uid);
        }
        let change = self.used.entry(Arc::clone(&node)).or_default().set(uid, part);
        (change == UsageChange::Changed).then_some(node)
    }

    /// The virtual pod of a physical one, where each names the other.
    fn twin_of(&self, uid: &Uid, pod: &Lending) -> Option<(&Uid, &VirtualRow)> {
        let named = pod.names.as_ref()?;
        let (virtual_uid, row) = self.virtual_pods.get_key_value(&named.uid)?;
        let twin = row.pod.lending()?;
        let is_named = *twin.namespace == *named.namespace && twin.name == named.name;
        let back = twin.names_physical.as_ref()?;
        let names_back =
            back.namespace == self.mount && back.name == pod.name && back.uid.as_ref().is_none_or(|named| named == uid);
        (is_named && names_back).then_some((virtual_uid, row))
    }

    /// How much of a physical pod counts.
    fn part(&self, row: &PhysicalRow) -> PodUse {
        let pod = &*row.pod;
        let is_ours = match &row.owner {
            RowOwner::Foreign => false,
            RowOwner::Ours => true,
            RowOwner::Earlier(binding) => self.gone_bindings.contains(binding),
        };
        let ours = pod.lending().filter(|_| is_ours);
        let owner = if is_ours { PodOwner::Ours } else { PodOwner::Foreign };
        let virtual_uid = ours.and_then(|lending| lending.names.as_ref()).map(|named| &*named.uid);
        let requests = pod.requests();
        let physical = PhysicalPod { owner, virtual_uid, phase: pod.phase(), requests: &requests };
        let twin = ours.and_then(|lending| self.twin_of(pod.uid(), lending));
        let twin = twin.map(|(uid, row)| (uid, row, row.pod.requests()));
        let twin = twin.as_ref().map(|(uid, row, requests)| VirtualPod {
            uid,
            phase: row.pod.phase(),
            node: Some(&row.node),
            requests,
        });
        // A node whose name gives no virtual one is not lent; then all of its pods count, which no one reads.
        let node = pod.node().map(|node| &**node).unwrap_or_default();
        let name = virtual_node_name(&self.cluster, node).unwrap_or_else(|_| "".into());
        PodUse::new(&counted(&physical, twin.as_ref(), &name), &requests)
    }
}

/// Whether a pod counts because no virtual pod is known that names it.
fn is_unnamed(part: &PodUse) -> bool {
    part.counted() == CountedAs::Whole(WholeReason::NoVirtualPod)
}

impl PhysicalRow {
    /// The UID of the virtual pod that it names, where it is ours.
    fn virtual_uid(&self) -> Option<&Uid> {
        let ours = self.pod.lending().filter(|_| !matches!(self.owner, RowOwner::Foreign))?;
        ours.names.as_ref().map(|named| &named.uid)
    }

    fn is_shown_by(&self, watch: PodWatch) -> bool {
        watch.of(self.shown)
    }
}

impl VirtualRow {
    fn class(&self) -> PodClass {
        self.pod.lending().map_or(PodClass::Ordinary, |lending| lending.class)
    }

    /// Whether it is one that a limit of the guard counts.
    fn is_running(&self) -> bool {
        self.class().counts() && !self.pod.phase().is_final()
    }

    /// What a decision about its node depends on, beside its amounts: of the phase, whether it is final.
    fn matters(&self) -> (bool, Existence, bool, PodClass, &[Toleration]) {
        let tolerations = self.pod.lending().map(|lending| &*lending.tolerations).unwrap_or_default();
        (self.pod.phase().is_final(), self.existence, is_slow(self.grace), self.class(), tolerations)
    }

    fn lent(&self) -> Option<LentPod> {
        let (existence, refused, grace) = (self.existence, self.refused, self.grace);
        Some(LentPod { existence, refused, grace, ..self.pod.lent()? })
    }
}

#[cfg(test)]
mod tests;
