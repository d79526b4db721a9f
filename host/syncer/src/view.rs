//! Everything that is known for one binding, as a plain value: watches write into it, controllers read decisions out of it.
//!
//! Owns the caches of nodes, the [`Ledger`] of pods, the CSINodes ([`CsiView`]), the placeholders for host ports ([`PortView`]),
//! policies, the guard, and what the process remembers of each node. It never sends anything. Each decision is made by a pure room of
//! `topoloom_sync`; here the facts for it are put together, and the guard is asked.
//!
//! # Failure story
//!
//! A view is made anew with each take-over of a binding: what the process remembered is lost then, which makes waits longer
//! and never shorter. So is what it remembered of a node that is in neither cluster any more. An act that the guard allowed and
//! that failed is asked for again with the next decision.

mod asking;
mod boundary;
mod clock;
mod csi;
mod earlier;
mod left;
mod lenders;
mod ports;
mod recall;
mod seen;
mod standing;
mod terms;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::sync::watch;
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::deletion::{DeletionCause, Leave};
use topoloom_sync::guard::{Act, Cause, Guard, Inherited, Safety, Size};
use topoloom_sync::keys;
use topoloom_sync::liveness::{Lease, Reach};
use topoloom_sync::naming::virtual_node_name;
use topoloom_sync::node::{
    Answer, Binding, Facts, LeftOut, LentNode, LentPod, LiveLent, LiveNode, Memory, NodeDecision, NodeOrder, NodeState,
    Now, Physical, PhysicalNode, PodsBy, Rest, Unstored, VerbOnNode, draft,
};
use topoloom_sync::pods::ORPHAN_DELAY;
use topoloom_sync::policy::growth::Growth;
use topoloom_sync::policy::in_force::{Policies, Synced};
use topoloom_sync::reclaim::{self, ClosingMemory};
use topoloom_sync::sizes::pacing::{Growth as Grows, Pace};
use topoloom_sync::texts::Keyed;

use self::asking::{Asked, Proof};
use self::boundary::Boundary;
pub use self::clock::ClockNews;
use self::clock::Clocks;
pub use self::csi::{CsiEvidence, CsiView, CsiWork};
use self::earlier::{Connected, EarlierNodes};
pub use self::left::Strays;
use self::left::{Fate, Left};
pub use self::ports::{PortEvidence, PortView, PortWork};
pub use self::recall::{Part, Reviewed};
pub use self::seen::{Amounts, Seen};
pub use self::standing::Counts;
use self::standing::Standing;
pub use self::terms::VerbOnBinding;
use crate::ledger::{Ledger, PhysicalName, Touched};

/// What a controller read live for a decision.
#[derive(Debug, Clone, Default)]
pub struct Evidence {
    /// Of the physical node.
    pub live: LiveNode,
    /// Of the virtual node, where the cache has none.
    pub live_lent: LiveLent,
    /// The object of another that has the name of the virtual node. No watch shows it, so it is known for one look.
    pub existing: Option<Arc<LentNode>>,
    /// The pods of the virtual node.
    pub pods: Option<Vec<LentPod>>,
    /// The UIDs of all ClusterBindings.
    pub bindings: Option<BTreeSet<Uid>>,
}

impl Evidence {
    /// The virtual node, where it was read now.
    fn read_lent(&self) -> Option<Arc<LentNode>> {
        match &self.live_lent {
            LiveLent::Found(node) => Some(Arc::clone(node)),
            LiveLent::Unasked | LiveLent::Gone => self.existing.clone(),
        }
    }
}

/// What a controller has to do about a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeWork {
    /// The virtual node.
    pub lent: Option<NodeName>,
    /// What to do, in this order.
    pub orders: Vec<NodeOrder>,
    /// The machine that has to be read, where it is not the one under whose name this was decided.
    pub reads: Option<PhysicalName>,
    /// Its lease; `None`: none is renewed.
    pub lease: Option<Lease>,
    /// Decide again after this time.
    pub again: Option<Duration>,
    /// What the node is on its way to, as a sentence.
    pub state: String,
    /// The same in a word.
    pub why: &'static str,
    /// Why its virtual node goes, where it does.
    pub leaving: Option<DeletionCause>,
    /// Why something is disrupted, where something is.
    pub cause: Option<Cause>,
    /// That another's object has the name that the virtual node would have, where that is news.
    pub conflict: Option<String>,
    /// What a person should know of its labels and annotations.
    pub remark: Remark,
    /// What is left out of the orders, because an API server does not store it.
    pub left_out: Vec<LeftOut>,
    /// What a person should know of that.
    pub unstored: Remark,
    /// Whether the status patch among the orders makes the node larger.
    pub grows: bool,
}

/// What a person should know of a virtual node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// Nothing was decided about it, so what was said before is not known to have changed.
    Unknown,
    /// All is right.
    None,
    /// This.
    Says(String),
}

/// Everything that is known for one binding.
#[derive(Debug)]
pub struct View {
    /// The binding.
    pub binding: Binding,
    /// `spec.safety`.
    pub safety: Safety,
    /// `spec.timing.orphanDelay`: how far two looks at an orphan are apart.
    pub orphan_delay: Duration,
    /// What may not be written.
    pub bars: Bars,
    /// How the connection to the physical cluster is doing.
    pub reach: Reach,
    /// The pods of both clusters.
    pub ledger: Ledger,
    /// The policies.
    pub policies: Policies,
    /// The CSINodes of both clusters.
    pub csi: CsiView,
    /// The placeholders for host ports.
    pub ports: PortView,
    /// What an operator asked for, by physical node.
    pub verbs: HashMap<PhysicalName, VerbOnNode>,
    /// What an operator asked for, of the whole binding.
    pub verb: VerbOnBinding,
    physical: HashMap<PhysicalName, Arc<PhysicalNode>>,
    is_listed: bool,
    /// The physical cluster was gone since its nodes were listed, and shows in its reach until it is listed ([`terms`]).
    is_outdated: bool,
    /// The physical cluster says that it has no nodes, where the cache has some (decision S5).
    is_empty_in_doubt: bool,
    /// Counts what changes which policy selects which node.
    placement: u64,
    /// Counts what was decided, carried out and listed.
    news: watch::Sender<u64>,
    recall: recall::Recall,
    lent: HashMap<NodeName, Arc<LentNode>>,
    /// Virtual nodes that their watch shows no more, until a live read has shown what became of them.
    left: HashMap<NodeName, Left>,
    /// Virtual nodes that an earlier binding of our name made under another `clusterID`: their watch shows them, or has shown them.
    earlier: EarlierNodes,
    connected: Connected,
    is_lent_listed: bool,
    /// In boxes: a table has room for more than it holds.
    remembered: HashMap<PhysicalName, Box<Remembered>>,
    /// What the guard was asked for about physical pods without a virtual one, by their names.
    orphans: HashMap<Arc<str>, Asked>,
    guard: Guard,
    /// What the witness showed last.
    proof: Proof,
    clocks: Clocks,
    /// Nodes that have to be looked at, and were told to no queue: the next [review](Self::review) does.
    pending: Touched,
}

/// What the process remembers of a node.
#[derive(Debug, Default)]
struct Remembered {
    memory: Memory,
    /// What of the writes about it was not stored.
    unstored: Unstored,
    asked: Asked,
    /// It was decided about, with nothing of both clusters unknown.
    is_settled: bool,
    /// What the node counts as.
    standing: Standing,
    /// The boundaries of its windows.
    boundary: Boundary,
    /// Another's object has the name of its virtual node.
    is_name_taken: bool,
    /// When the clock of closed windows started, as it stands on the virtual node, and how far the wall clock had been set when that was
    /// written or first seen.
    closing: Option<(jiff::Timestamp, SignedDuration)>,
    /// Whether its virtual node was looked at before, or there was none: what was there at the first look is of an earlier process,
    /// and everything that comes later is of this one.
    is_known: bool,
}

impl Remembered {
    /// A step of the clock counts for the time that stands there now, and once: the answer to it is another time there.
    fn see(&mut self, lent: Option<&LentNode>, clocks: &Clocks, wall: jiff::Timestamp) {
        let started = lent.and_then(|lent| reclaim::started(&lent.metadata.taints, &lent.metadata.annotations));
        if self.closing.map(|(time, _)| time) != started {
            let set_when = |time| if self.is_known { clocks.steps } else { clocks.of_earlier(time, wall) };
            self.closing = started.map(|time| (time, set_when(time)));
        }
        self.is_known |= lent.is_some();
        self.memory.stepped = self.closing.map_or(SignedDuration::ZERO, |(_, then)| clocks.steps.saturating_sub(then));
    }

    /// That another's object has the name of the virtual node: once, until that is over.
    fn conflict(&mut self, state: &NodeState<'_>, lent: Option<&LentNode>) -> Option<String> {
        let is_taken = match state {
            // Neither what is read first nor what is still to be made says anything of it.
            NodeState::Asking(_) => return None,
            NodeState::Lent if lent.is_none() => return None,
            NodeState::Rest(Rest::Foreign(_) | Rest::NameTaken(_)) => true,
            NodeState::Rest(_) | NodeState::Lent | NodeState::Leaving(_) => false,
        };
        let was_taken = std::mem::replace(&mut self.is_name_taken, is_taken);
        (is_taken && !was_taken).then(|| state.to_string())
    }
}

impl View {
    /// Nothing is known yet but the binding, and what an earlier process left for its guard.
    #[must_use]
    pub fn new(binding: Binding, safety: Safety, earlier: impl Into<Inherited>, reach: Reach, now: Now) -> Self {
        let ledger = Ledger::new(binding.identity.clone(), binding.cluster.clone(), &binding.mount);
        let policies = Policies::new(binding.identity.virtual_cluster());
        Self {
            binding,
            safety,
            orphan_delay: ORPHAN_DELAY,
            // Before anything is listed nothing may be taken for gone.
            bars: Bar::of(reach).into_iter().collect(),
            reach,
            ledger,
            policies,
            csi: CsiView::default(),
            ports: PortView::default(),
            verbs: HashMap::new(),
            verb: VerbOnBinding::None,
            physical: HashMap::new(),
            is_listed: false,
            is_outdated: false,
            is_empty_in_doubt: false,
            placement: 0,
            news: watch::Sender::new(0),
            recall: recall::Recall::default(),
            lent: HashMap::new(),
            left: HashMap::new(),
            earlier: EarlierNodes::new(),
            connected: Connected::default(),
            is_lent_listed: false,
            remembered: HashMap::new(),
            orphans: HashMap::new(),
            guard: Guard::inherit(earlier, now.steady),
            proof: Proof::default(),
            clocks: Clocks::new(now),
            pending: Touched::new(),
        }
    }

    /// A physical node is as it is now.
    pub fn physical_node(&mut self, name: &PhysicalName, node: PhysicalNode) -> Touched {
        self.machine(name, Arc::new(node))
    }

    /// The same of one that others know, too. An event that is older than the answer to our own write says nothing new.
    pub fn machine(&mut self, name: &PhysicalName, node: Arc<PhysicalNode>) -> Touched {
        self.ledger.node(name);
        let known = self.physical.get(name);
        if known.is_some_and(|known| node.version.is_older_than(&known.version)) {
            return Touched::new();
        }
        if known.is_none_or(|known| known.labels != node.labels) {
            self.placement += 1;
        }
        self.physical.insert(Arc::clone(name), node);
        let mut touched = self.earlier_on(name);
        touched.insert(Arc::clone(name));
        touched
    }

    /// A physical node is gone.
    pub fn physical_node_gone(&mut self, name: &str) -> Touched {
        self.placement += 1;
        let gone = self.physical.remove_entry(name).map(|(name, _)| name);
        self.earlier_on(name).into_iter().chain(gone).collect()
    }

    /// All physical nodes were listed: what is not among these is gone.
    pub fn physical_nodes(&mut self, nodes: HashMap<PhysicalName, PhysicalNode>) -> Touched {
        self.machines(nodes.into_iter().map(|(name, node)| (name, Arc::new(node))).collect())
    }

    /// The same of nodes that others know, too. That there are none, where some were, is not believed before
    /// [`Self::believe_empty`].
    pub fn machines(&mut self, nodes: HashMap<PhysicalName, Arc<PhysicalNode>>) -> Touched {
        self.is_empty_in_doubt = nodes.is_empty() && !self.physical.is_empty();
        if self.is_empty_in_doubt {
            return Touched::new();
        }
        self.placement += 1;
        let mut touched: Touched = self.physical.keys().filter(|name| !nodes.contains_key(*name)).cloned().collect();
        // A list replaces all: a server that was set back has lower versions.
        self.physical.clear();
        (self.is_listed, self.is_outdated) = (true, false);
        self.machines_are_its_own();
        for (name, node) in nodes {
            touched.extend(self.machine(&name, node));
        }
        // A virtual node whose physical one was gone before the first list.
        touched.extend(self.lent.iter().map(|(name, lent)| self.key_of(name, lent)));
        touched
    }

    /// A virtual node is as it is now.
    pub fn lent_node(&mut self, name: &NodeName, node: LentNode) -> Touched {
        self.lent_machine(name, Arc::new(node))
    }

    /// The same of one that others know, too. Nothing has to be looked at where our own write has shown this version, or a later one.
    pub fn lent_machine(&mut self, name: &NodeName, node: Arc<LentNode>) -> Touched {
        let physical = self.physical_of(name, &node);
        let is_known =
            |known: &Arc<LentNode>| known.version == node.version || node.version.is_older_than(&known.version);
        if self.lent.get(name).is_some_and(is_known) {
            return Touched::new();
        }
        let before = self.lent.get(name).cloned();
        self.owner(physical.as_ref(), before.as_deref(), &node);
        self.left.remove(name);
        self.lent.insert(name.clone(), Arc::clone(&node));
        self.ports_of(name, before.as_deref(), Some(&*node));
        let mut touched = self.note_earlier(name, &node);
        touched.insert(self.key_of(name, &node));
        touched
    }

    /// A virtual node is gone: the answer to a request said so.
    pub fn lent_node_gone(&mut self, name: &str) -> Touched {
        self.left.remove(name);
        let mut touched = self.forget_earlier(name);
        let Some((name, node)) = self.lent.remove_entry(name) else { return touched };
        let physical = self.physical_of(&name, &node);
        self.owner_gone(physical.as_ref(), &name);
        self.ports_of(&name, Some(&*node), None);
        touched.extend(physical);
        touched
    }

    /// All virtual nodes were listed by their labels: what is not among these is gone, or its labels were changed.
    pub fn lent_nodes(&mut self, nodes: HashMap<NodeName, LentNode>) -> Touched {
        self.lent_machines(nodes.into_iter().map(|(name, node)| (name, Arc::new(node))).collect())
    }

    /// The same of nodes that others know, too.
    pub fn lent_machines(&mut self, nodes: HashMap<NodeName, Arc<LentNode>>) -> Touched {
        let gone: Vec<NodeName> = self.lent.keys().filter(|name| !nodes.contains_key(*name)).cloned().collect();
        let mut touched = Touched::new();
        for name in gone {
            touched.extend(self.lent_node_left(&name));
        }
        let is_first = !std::mem::replace(&mut self.is_lent_listed, true);
        if is_first {
            self.look_at_csi_nodes();
        }
        // A list replaces all: a server that was set back has lower versions.
        let before = std::mem::take(&mut self.lent);
        for (name, node) in nodes {
            let physical = self.physical_of(&name, &node);
            let known = before.get(&name);
            self.owner(physical.as_ref(), known.map(Arc::as_ref), &node);
            if known.is_none_or(|known| known.version != node.version) {
                touched.insert(self.key_of(&name, &node));
            }
            self.left.remove(&name);
            self.lent.insert(name.clone(), Arc::clone(&node));
            self.ports_of(&name, known.map(Arc::as_ref), Some(&*node));
            touched.extend(self.note_earlier(&name, &node));
        }
        if is_first {
            // Those of nodes that are gone, too.
            self.look_at_ports();
        }
        touched
    }

    /// A physical node of the cache, as it is shared.
    #[must_use]
    pub fn shared_physical(&self, name: &str) -> Option<Arc<PhysicalNode>> {
        self.physical.get(name).cloned()
    }

    /// A virtual node of the cache, as it is shared.
    #[must_use]
    pub fn shared_lent(&self, name: &str) -> Option<Arc<LentNode>> {
        self.lent.get(name).cloned()
    }

    /// A physical node of the cache.
    #[must_use]
    pub fn physical(&self, name: &str) -> Option<&PhysicalNode> {
        self.physical.get(name).map(Arc::as_ref)
    }

    /// A virtual node of the cache.
    #[must_use]
    pub fn lent(&self, name: &str) -> Option<&LentNode> {
        self.lent.get(name).map(Arc::as_ref)
    }

    /// Whether the virtual nodes were listed: before that, one that is not in the cache may exist.
    #[must_use]
    pub fn is_lent_listed(&self) -> bool {
        self.is_lent_listed
    }

    /// Whether the virtual node of this name is ours, or may become ours: its watch shows it, or a physical node gives its name. How
    /// the name begins says nothing: `vnode-east-2-w1` may be of the binding `east-2`.
    #[must_use]
    pub fn knows_lent(&self, name: &str) -> bool {
        self.lent.contains_key(name) || self.left.contains_key(name) || self.ledger.physical_of(name).is_some()
    }

    /// The physical node of a virtual one that is known.
    #[must_use]
    pub fn machine_of(&self, lent: &str) -> Option<PhysicalName> {
        self.physical_of(lent, self.lent(lent)?)
    }

    /// A live list of the bindings does not have this one, which had our name: pods that it made use no room beside their virtual ones.
    pub fn earlier_is_gone(&mut self, binding: &Uid) {
        let touched = self.ledger.earlier_is_gone(binding);
        self.look_later(touched);
    }

    /// The virtual API server was set back: what is known by its answers may not hold any more.
    pub fn forget_answers(&mut self) {
        for remembered in self.remembered.values_mut() {
            remembered.unstored = Unstored::default();
            remembered.memory.closing = ClosingMemory::default();
        }
        self.ledger.forget_removals();
        self.forget_versions_of_ports();
        self.forget_makers();
        let touched = self.ledger.forget_earlier();
        self.look_later(touched);
    }

    fn look_later(&mut self, touched: Touched) {
        if !touched.is_empty() {
            self.pending.extend(touched);
            self.tell();
        }
    }

    /// Every node that there is something to decide about.
    #[must_use]
    pub fn all(&self) -> Touched {
        let lent = self.lent.iter().filter_map(|(name, node)| self.physical_of(name, node));
        self.physical.keys().cloned().chain(lent).chain(self.machines_of_left()).collect()
    }

    /// The same, and virtual nodes under their own names, of which no machine is known.
    #[must_use]
    pub fn everything(&self) -> Touched {
        self.all().into_iter().chain(self.alone()).collect()
    }

    /// The guard, for its status and its verbs.
    pub fn guard(&mut self) -> &mut Guard {
        &mut self.guard
    }

    /// How large the binding is.
    #[must_use]
    pub fn size(&self) -> Size {
        Size { nodes: self.lent.len(), pods: self.ledger.running() }
    }

    /// Decides about a node, under what was read live for it.
    pub fn decide(&mut self, name: &PhysicalName, evidence: &Evidence, now: Now) -> NodeWork {
        if let Some(work) = self.decide_alone(name, evidence, now) {
            self.tell();
            return work;
        }
        self.decide_seeing(name, evidence, now, |_, _| ()).0
    }

    /// The same, and shows what the decision follows from and what was computed on the way.
    pub fn decide_seeing<T>(
        &mut self,
        name: &PhysicalName,
        evidence: &Evidence,
        now: Now,
        see: impl FnOnce(&Facts<'_>, &NodeDecision<'_>) -> T,
    ) -> (NodeWork, T) {
        self.notice(now);
        let lent_name = self.ledger.node(name);
        let lent = lent_name.as_ref().and_then(|lent| self.lent.get(lent)).or(evidence.existing.as_ref()).cloned();
        let physical = self.physical.get(name).cloned();
        self.take_up(name, lent.as_deref(), physical.as_deref());
        let ((used, arrive), requested, pods) = match &lent_name {
            Some(lent) => (self.ledger.used_at(name, now.steady), self.ledger.requested(lent), self.ledger.pods(lent)),
            None => Default::default(),
        };
        let (pods, pods_by) = match (&evidence.pods, &lent_name) {
            (Some(live), Some(lent)) => (self.ledger.remembering(lent, live.clone()), PodsBy::List),
            (Some(_) | None, _) => (pods, PodsBy::Watch),
        };
        let topology_keys = self.topology_keys(name, lent_name.as_ref().zip(lent.as_deref()));
        let verb = self.verb_on(name, lent_name.as_ref(), lent.as_deref());
        let (known, good) = self.known_of_left(lent_name.as_ref(), now);
        let live_lent = match (&evidence.live_lent, good) {
            (LiveLent::Unasked, Some(good)) => LiveLent::Found(good),
            (asked, _) => asked.clone(),
        };
        let (is_outdated, is_listed) = (self.is_outdated(), self.is_all_listed());
        let bars = self.bars_of(lent.is_none() && known.is_none());
        let remembered = self.remembered.entry(Arc::clone(name)).or_default();
        // Of one that its watch shows no more nothing is seen, and what was remembered of it holds.
        if known.is_none() {
            remembered.see(lent.as_deref(), &self.clocks, now.wall);
        } else {
            // Windows may open and close again meanwhile, and nothing is decided about it then. What stands on it counts afterwards.
            remembered.memory.closing = ClosingMemory::default();
        }
        remembered.is_known |= self.is_lent_listed;
        remembered.memory.judged = Some(self.clocks.judged(now.wall));
        let memory = remembered.memory;
        let facts = Facts {
            binding: &self.binding,
            name,
            physical: match &physical {
                _ if !self.is_listed || is_outdated => Physical::Unlisted,
                Some(physical) => Physical::Present(physical),
                None => Physical::Absent,
            },
            live: &evidence.live,
            lent: lent.as_deref(),
            live_lent: &live_lent,
            known: known.as_ref(),
            bindings: evidence.bindings.as_ref(),
            policies: &self.policies,
            usage: &used,
            requested: &requested,
            pods: &pods,
            pods_by,
            topology_keys: &topology_keys,
            bars: &bars,
            reach: self.reach,
            verb,
            memory: &memory,
        };
        let drafted = draft(&facts, now);
        let size = Size { nodes: self.lent.len(), pods: self.ledger.running() };
        let is_asking = drafted.is_asking();
        let acts = drafted.acts();
        let cause = acts.as_ref().map(|(cause, _)| *cause);
        // Without policies nothing is wanted because of windows, and that does not say that they are open; nor does anything follow
        // from machines that are not listed.
        let is_unread = self.policies.synced() == Synced::No || self.policies.is_in_doubt();
        let is_unknown = acts.is_none() && lent.is_some() && (is_outdated || is_unread);
        // What waits for a live read, or for a list, may be wanted still: what was asked for before is not withdrawn for that time.
        let leave = if is_asking || is_unknown {
            Leave::Held
        } else {
            let leave = remembered.asked.ask(&mut self.guard, acts, &self.safety, size, now);
            if let (Some(lent_name), true) = (&lent_name, is_listed) {
                self.guard.decided(lent_name);
            }
            match verb {
                // Of a cluster that is gone for good nothing more will be known.
                VerbOnNode::Detach => leave,
                VerbOnNode::None | VerbOnNode::Remove => self.proof.confirm(leave, &remembered.asked, now),
            }
        };
        let mut decision = drafted.conclude(leave);
        remembered.memory.decided(&decision);
        remembered.unstored.sift(&facts, &mut decision, now.steady);
        if !is_outdated {
            remembered.standing = Standing::of(&decision, &facts);
            remembered.boundary.see(&decision, lent.as_deref(), now.wall);
        }
        let seen = see(&facts, &decision);
        let conflict = remembered.conflict(&decision.state, lent.as_deref());
        let fate = Fate::of(&decision.state, known.as_ref());
        let mut work = NodeWork::of(decision, lent_name, now);
        (work.0.cause, work.0.conflict) = (cause, conflict);
        work.0.unstored = work.0.of_unstored(&remembered.unstored);
        remembered.memory.alone_since = match work.1 {
            Some(Growth::Waits { .. }) => remembered.memory.alone_since.or(Some(now.steady)),
            _ => None,
        };
        remembered.memory.unrenewed_since = match work.0.lease {
            Some(Lease::Stop(_)) => remembered.memory.unrenewed_since.or(Some(now.steady)),
            None if is_asking => remembered.memory.unrenewed_since,
            Some(Lease::Renew) | None => None,
        };
        if let Some(lent_name) = work.0.lent.clone() {
            let good = self.settle_left(&lent_name, fate, evidence.read_lent(), now);
            work.0.again = [work.0.again, good].into_iter().flatten().min();
        }
        if let Some(due) = arrive {
            let wait = due.saturating_sub(now.steady);
            work.0.again = Some(work.0.again.map_or(wait, |again| again.min(wait)));
        }
        if !is_asking {
            if let Some(remembered) = self.remembered.get_mut(name) {
                remembered.is_settled = is_listed;
            }
            self.recall.decided(name);
            self.forget_gone(name, work.0.lent.as_deref());
        }
        self.tell();
        (work.0, seen)
    }

    /// Machines come and go, most of them under a name that never comes again: of one that is in neither cluster nothing is kept, or
    /// such a cluster would fill the memory.
    fn forget_gone(&mut self, name: &PhysicalName, lent: Option<&str>) {
        let is_lent = |lent: &str| self.lent.contains_key(lent) || self.left.contains_key(lent);
        let is_there = self.physical.contains_key(name) || lent.is_some_and(is_lent);
        let is_known = self.is_listed && self.is_lent_listed && !self.is_empty_in_doubt;
        let asks = self.remembered.get(name).is_some_and(|remembered| !remembered.asked.is_empty());
        if is_known && !is_there && !asks {
            self.remembered.remove(name);
            self.recall.forget(name);
            self.ledger.forget(name);
        }
    }

    /// The pods of a machine count from now on where the binding decides about it: it selects it, or lends it.
    fn take_up(&mut self, name: &PhysicalName, lent: Option<&LentNode>, physical: Option<&PhysicalNode>) {
        let is_selected = physical.is_some_and(|node| self.binding.selector.matches(name, &node.labels));
        if (lent.is_some() || is_selected) && self.ledger.take_up(name) {
            self.look_at_port_news();
            // Until now it was not known which ports are held.
            if let Ok(lent) = virtual_node_name(&self.binding.cluster, name) {
                self.look_at_ports_of(&lent);
            }
        }
    }

    /// An order was carried out, or may have been: there was no answer. What happened to pods is said of each by itself
    /// ([`Self::pod_removed`]).
    pub fn carried(&mut self, name: &PhysicalName, work: &NodeWork, order: &NodeOrder, now: Now) {
        let Some(lent) = &work.lent else { return };
        self.closing_begun(name, order);
        let happened: Vec<Act> = match order {
            NodeOrder::PatchStatus { .. } if work.grows => {
                self.remembered.entry(Arc::clone(name)).or_default().memory.grown = Some(now.steady);
                Vec::new()
            }
            order if order.is_no_execute() => vec![Act::NoExecute(lent.clone())],
            NodeOrder::Delete { .. } => vec![Act::DeleteNode(lent.clone())],
            _ => Vec::new(),
        };
        self.happened(name, &happened, now);
        self.tell();
    }

    /// The taints of a node were written, or may have been, or will never be because an API server refuses them for what they say: the
    /// closing that was decided has begun.
    pub fn closing_begun(&mut self, name: &PhysicalName, order: &NodeOrder) {
        if let (NodeOrder::PatchSpec { .. } | NodeOrder::Create { .. }, Some(remembered)) =
            (order, self.remembered.get_mut(name))
        {
            remembered.memory.closing.written();
        }
    }

    /// An API server took an order, and answered with this.
    pub fn answered(&mut self, name: &PhysicalName, order: &NodeOrder, answer: Answer<'_>, now: Now) {
        if let Some(remembered) = self.remembered.get_mut(name) {
            remembered.unstored.answered(order, answer, now.steady);
        }
    }

    /// Something is new.
    fn tell(&self) {
        self.news.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// The physical node of a virtual one; nothing where none is known that gives its name.
    fn physical_of(&self, name: &str, node: &LentNode) -> Option<PhysicalName> {
        self.machine_named(name, [&node.metadata.annotations, &node.metadata.labels])
    }

    /// The physical node of a virtual one, or of its CSINode, by its name and by what its annotations and labels say. That may have been
    /// edited: only what leads back to the name counts.
    fn machine_named(&self, name: &str, says: [&dyn Keyed; 2]) -> Option<PhysicalName> {
        let is_its = |said: &&str| virtual_node_name(&self.binding.cluster, said).is_ok_and(|made| *made == *name);
        let said = || says.into_iter().filter_map(|map| map.text(keys::PHYSICAL_NODE_NAME)).find(is_its);
        self.ledger.physical_of(name).cloned().or_else(|| said().map(Into::into))
    }
}

/// What a node is on its way to, in a word for metrics.
fn word(state: &NodeState<'_>) -> &'static str {
    match state {
        NodeState::Lent => "lent",
        NodeState::Leaving(cause) | NodeState::Rest(Rest::Left(cause)) => cause.word(),
        NodeState::Rest(_) => "rest",
        NodeState::Asking(_) => "asking",
    }
}

impl NodeWork {
    /// The same without what borrows, and whether the node waits to grow.
    fn of(decision: NodeDecision<'_>, lent: Option<NodeName>, now: Now) -> (Self, Option<Growth>) {
        let wall = decision.next.map(|at| {
            let left = at.duration_since(now.wall);
            // A moment after the boundary, never before it.
            Duration::try_from(left).unwrap_or_default()
        });
        let steady = decision.next_steady.map(|at| at.saturating_sub(now.steady));
        let again = [wall, steady].into_iter().flatten().min();
        let details = decision.details.as_deref();
        let grows = details.is_some_and(|details| matches!(details.pace, Pace::Write { growth: Grows::Some, .. }));
        let growth = details.map(|details| details.growth);
        let remark = details.map_or(Remark::Unknown, |details| details.remark().map_or(Remark::None, Remark::Says));
        let leaving = match decision.state {
            NodeState::Leaving(cause) => Some(cause),
            NodeState::Rest(_) | NodeState::Asking(_) | NodeState::Lent => None,
        };
        let work = Self {
            lent,
            lease: decision.lease,
            again,
            state: decision.state.to_string(),
            why: word(&decision.state),
            leaving,
            cause: None,
            conflict: None,
            remark,
            left_out: decision.left_out,
            unstored: Remark::Unknown,
            grows,
            orders: decision.orders,
            reads: None,
        };
        (work, growth)
    }

    /// What a person should know of what is left out. While something is written, or what was not stored is not wanted for a moment,
    /// it may be the same as before.
    fn of_unstored(&self, memory: &Unstored) -> Remark {
        let says: Vec<String> = self.left_out.iter().map(ToString::to_string).collect();
        if !says.is_empty() {
            return Remark::Says(says.join("; "));
        }
        let is_open = !memory.is_empty() || self.orders.iter().any(NodeOrder::is_write);
        if is_open { Remark::Unknown } else { Remark::None }
    }
}

#[cfg(test)]
pub(crate) mod examples;
#[cfg(test)]
mod tests;
