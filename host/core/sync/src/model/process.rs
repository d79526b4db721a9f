//! A process of the syncer: what it has read, what it remembers, and what production's rooms decide from that.
//!
//! Owns the facts, and with them most mutations: each is a wrong fact. What is remembered between two decisions is what the
//! view of the syncer remembers.

use super::cache::Cache;
use super::desk::Desk;
use super::objects::{Pod, is_ours};
use super::server::Store;
use super::*;
use crate::copied::CopyRules;
use crate::deletion::{DeletionTiming, Evictions, Existence, Leave, RefusedEviction};
use crate::identity::mapping::{Mapping, is_mapped};
use crate::liveness::{Contact, ContactTiming, Lease, OnUnreachable};
use crate::naming::{BindingName, ClusterId, virtual_node_name};
use crate::node::{
    Binding, Chained, Facts, LentNode, LentPod, LiveLent, LiveNode, Memory, NodeClaims, NodeOrder, NodeState, Now,
    Physical, PodsBy, Rest, VerbOnNode, draft,
};
use crate::pods::{self, Looks, PodDecision, Twin};
use crate::policy::growth::{GROW, Growth};
use crate::policy::in_force::NoPolicy;
use crate::reclaim::{self, ClosingMemory};
use crate::sizes::counted::{self, PodOwner, counted, counted_there};
use crate::sizes::pacing::{Growth as Grows, Pace};
use crate::sizes::usage::{NodeUsage, PodUse};
use crate::taints::DefaultTaint;
use crate::texts::Keyed;
use crate::witness::Unconfirmed;

/// How long everything has to be known before what an earlier process held is judged again, beside the time between two looks.
const SETTLES: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) setting: Binding,
    pub(super) cache: Cache,
    pub(super) contact: Contact,
    /// Which of nodes and pods of the physical cluster were listed since it was unreachable.
    pub(super) relisted: BTreeSet<Kind>,
    pub(super) guard: Guard,
    pub(super) looks: Looks,
    remembered: BTreeMap<String, Remembered>,
    /// Evictions that a disruption budget refused.
    pub(super) refused: BTreeMap<Uid, RefusedEviction>,
    /// Virtual pods whose removal was answered: they terminate, whatever the cache says.
    pub(super) removed: BTreeSet<Uid>,
    /// When virtual pods were first seen to terminate.
    endings: BTreeMap<(Uid, Timestamp), Duration>,
    /// Physical pods that the guard was asked for.
    pub(super) orphans: BTreeMap<Uid, Act>,
    /// UIDs of bindings that a live list did not have.
    pub(super) gone: BTreeSet<Uid>,
    /// Physical pods of those bindings that are ours.
    pub(super) adopted: BTreeSet<Uid>,
    /// Since when everything is known, and the machines that were decided about since then.
    recall: Option<(Duration, BTreeSet<String>)>,
    /// The virtual nodes whose leases it renews.
    pub(super) leases: BTreeMap<String, Uid>,
    /// Virtual nodes that their watch shows no more, until a live read has shown what became of them.
    pub(super) left: BTreeMap<String, Uid>,
    /// What it is carrying out.
    pub(super) plan: Option<Plan>,
    /// What becomes of its next request.
    pub(super) way: Way,
    pub(super) restored: Restored,
    /// By which signs, until that is confirmed.
    pub(super) unconfirmed: Unconfirmed,
    /// Whether the witness was compared since the last list.
    pub(super) compared: Compared,
    /// The highest revision that it saw, of each side.
    pub(super) highest: [u64; 2],
    pub(super) next_probe: Duration,
    /// How far its wall clock was set since it began.
    pub(super) steps: SignedDuration,
    /// Valid specs that it saw itself: for a mutation.
    pub(super) valid: BTreeMap<String, PolicySpec>,
    pub(super) ghost: Ghost,
}

/// Whether a cluster counts as set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restored {
    No,
    Yes,
}

/// Whether the witness was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    No,
    Yes,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It is applied and answered.
    Whole,
    /// It is applied, and the answer does not arrive.
    Lost,
    /// It is applied later, and its sender does not know.
    Late,
}

/// The orders of one decision, being carried out.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) machine: String,
    pub(super) lent: NodeName,
    pub(super) orders: VecDeque<NodeOrder>,
    pub(super) cause: Option<Cause>,
    pub(super) grows: Grows,
    /// In which histories of the two servers it was decided.
    pub(super) epochs: [u64; 2],
    /// And when: a process that stands still carries it out later.
    pub(super) decided: Duration,
}

/// What is remembered of a node.
#[derive(Debug, Clone, Default)]
pub(super) struct Remembered {
    pub(super) memory: Memory,
    pub(super) asked: BTreeSet<Act>,
    pub(super) given: Option<Timestamp>,
    /// When the clock of closed windows started, as it stands on the virtual node, and how far the wall clock had been set when that was
    /// first seen.
    closing: Option<(Timestamp, SignedDuration)>,
}

/// What no process has: what is needed to judge it.
#[derive(Debug, Clone, Default)]
pub(super) struct Ghost {
    /// What the guard holds.
    pub(super) held: BTreeMap<Act, Cause>,
    /// Something went of what is held, in a way that may leave little enough of it.
    pub(super) is_smaller: bool,
    /// Nodes that an operator confirmed.
    pub(super) confirmed: BTreeSet<NodeName>,
    /// Nodes that an earlier process held, until everything was decided about again.
    pub(super) before: BTreeSet<NodeName>,
    /// Nodes that it deleted for a cause that counts, and when.
    pub(super) taken: BTreeMap<NodeName, Duration>,
    /// Virtual pods whose removal was answered.
    pub(super) removed: BTreeSet<Uid>,
    /// The first look at each orphan, and as which row.
    pub(super) looks: BTreeMap<Uid, (Duration, u8)>,
    pub(super) broken: Option<String>,
}

/// What a process read live for a decision.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    pub(super) live: LiveNode,
    pub(super) lent: LiveLent,
    /// The pods of the virtual node.
    pub(super) pods: Option<Vec<LentPod>>,
    pub(super) bindings: Option<BTreeSet<Uid>>,
}

/// What a virtual pod is, read live, and when it was asked for.
pub(super) type LivePod = (Option<Arc<Pod>>, Duration);

/// What follows for a node.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) orders: Vec<NodeOrder>,
    pub(super) lease: Option<Lease>,
    pub(super) grows: Grows,
    pub(super) cause: Option<Cause>,
}

/// Whose objects a binding with this UID makes.
pub(super) fn identity(binding: usize, uid: &str) -> Identity {
    Identity::new(US.into(), BindingName::parse(NAMES[binding]).unwrap(), uid.into()).unwrap()
}

/// The facts of a binding.
pub(super) fn setting(binding: usize, selector: NodeSelector) -> Binding {
    let name = NAMES[binding];
    Binding {
        identity: identity(binding, UIDS[binding]),
        cluster: ClusterId::parse(name).unwrap(),
        mount: super::pods::mount(binding),
        selector,
        no_policy: NoPolicy::LeaseAll,
        existence: Existence::Alive,
        default_taint: DefaultTaint::On,
        copy: CopyRules::default(),
        chained: Chained::Refused,
        claims: NodeClaims::Written,
        endpoint: None,
        on_unreachable: if binding == WEST { OnUnreachable::Hold(HOLD) } else { OnUnreachable::Unknown },
        grow: GROW,
        deletion: DeletionTiming::default(),
        evictions: Evictions::Allowed,
    }
}

impl Process {
    /// One that has just started: it knows its binding, and what the status of that says.
    pub(super) fn new(setting: Binding, inherited: Inherited, now: Duration) -> Self {
        Self {
            setting,
            cache: Cache::new(),
            contact: Contact::new(ContactTiming::default(), now),
            relisted: BTreeSet::new(),
            guard: Guard::inherit(inherited, now),
            looks: Looks::new(100),
            remembered: BTreeMap::new(),
            refused: BTreeMap::new(),
            removed: BTreeSet::new(),
            endings: BTreeMap::new(),
            orphans: BTreeMap::new(),
            gone: BTreeSet::new(),
            adopted: BTreeSet::new(),
            recall: None,
            leases: BTreeMap::new(),
            left: BTreeMap::new(),
            plan: None,
            way: Way::Whole,
            restored: Restored::No,
            unconfirmed: Unconfirmed::default(),
            compared: Compared::No,
            highest: [0; 2],
            next_probe: now,
            steps: SignedDuration::ZERO,
            valid: BTreeMap::new(),
            ghost: Ghost::default(),
        }
    }

    /// Its wall clock is set.
    pub(super) fn step(&mut self, by: SignedDuration) {
        self.steps += by;
        self.remembered.values_mut().for_each(|remembered| remembered.memory.closing.stepped(by));
    }

    /// For how long it has seen a virtual pod terminate.
    pub(super) fn terminating_for(&mut self, pod: &Pod, now: Duration) -> Duration {
        // A pod that a restore brought back may be deleted again.
        let Some(deletion) = pod.deletion else { return Duration::ZERO };
        let first = *self.endings.entry((pod.uid.clone(), deletion)).or_insert(now);
        now.saturating_sub(first)
    }

    /// What an earlier process held is judged again, once every machine was decided about for long enough since everything is known.
    pub(super) fn review(&mut self, bars: &Bars, now: Duration) {
        if !self.cache.is_listed() || !bars.allow(Doing::Disrupt) {
            self.recall = None;
            return;
        }
        let is_there = |machine: &String| {
            self.cache.machines.contains_key(machine) || self.cache.lent.contains_key(&*self.lent_name(machine))
        };
        let there: Vec<String> = (0..NODES).map(machine_name).filter(is_there).collect();
        let (since, decided) = self.recall.get_or_insert_with(|| (now, BTreeSet::new()));
        let is_late = now.saturating_sub(*since) >= pods::ORPHAN_DELAY + SETTLES;
        if is_late && there.iter().all(|machine| decided.contains(machine)) {
            let size = self.size();
            self.guard.recalled(&Safety::default(), size, now);
            self.ghost.before.clear();
        }
    }

    /// What is held is judged again. What is too much still is the batch that counts from now on.
    pub(super) fn judge_again(&mut self, now: Duration) {
        if !self.cache.is_listed() {
            return;
        }
        let size = self.size();
        let is_held = self.guard.review(&Safety::default(), size, now).is_some();
        if std::mem::take(&mut self.ghost.is_smaller) && !is_held {
            self.ghost.held.clear();
        }
    }

    /// It has noticed that a cluster was set back: all is read anew, and what it saw before is no evidence.
    pub(super) fn set_back(&mut self) {
        self.restored = Restored::Yes;
        self.cache.forget();
        self.looks.clear();
        self.removed.clear();
        self.remembered.values_mut().for_each(|remembered| remembered.memory.closing = ClosingMemory::default());
        self.plan = None;
        self.guard.forget_grants();
        self.ghost.is_another_batch();
    }

    pub(super) fn lent_name(&self, machine: &str) -> NodeName {
        virtual_node_name(&self.setting.cluster, machine).unwrap()
    }

    /// The act of an orphan: the virtual node is that of its machine.
    pub(super) fn act_of(&self, copy: &Pod) -> Act {
        Act::RemoveOrphan { node: self.lent_name(&copy.node), pod: copy.uid.clone() }
    }

    pub(super) fn size(&self) -> Size {
        let pods = self.cache.pods.values().filter(|pod| pod.class().counts() && !pod.phase.is_final()).count();
        Size { nodes: self.cache.lent.len(), pods }
    }

    /// Whether it knows that this pod terminates.
    fn existence(&self, pod: &Pod) -> Existence {
        if pod.deletion.is_some() || self.removed.contains(&pod.uid) {
            Existence::Terminating
        } else {
            Existence::Alive
        }
    }

    /// The pods of a virtual node, and what they request in sum.
    pub(super) fn pods_of(&self, lent: &NodeName) -> (Vec<LentPod>, ResourceList) {
        let mut requested = NodeUsage::default();
        let mut pods = Vec::new();
        for pod in self.cache.pods.values().filter(|pod| *pod.node == **lent) {
            let requests = pod.requests();
            let there = counted::VirtualPod { uid: &pod.uid, phase: pod.phase, node: Some(lent), requests: &requests };
            let _ = requested.set(&pod.uid, PodUse::new(&counted_there(&there), &requests));
            pods.push(pod.lent(self.existence(pod), self.refused.get(&pod.uid).copied()));
        }
        (pods, requested.total())
    }

    /// The pods of a virtual node as they are stored, with what is remembered of them.
    pub(super) fn stored_pods(&self, lent: &NodeName, store: &Store) -> Vec<LentPod> {
        let pods = store.pods.values().filter(|pod| *pod.node == **lent);
        pods.map(|pod| pod.lent(self.existence(pod), self.refused.get(&pod.uid).copied())).collect()
    }

    /// What counts as used of a machine.
    fn usage(&self, machine: &str, lent: &NodeName) -> ResourceList {
        let mut used = NodeUsage::default();
        for copy in self.cache.copies.values().filter(|copy| copy.node == machine) {
            let is_ours = is_ours(&copy.labels, &self.setting.identity);
            let owner = if is_ours { PodOwner::Ours } else { PodOwner::Foreign };
            let named = VirtualPodRef::read(&copy.annotations).ok();
            let twin = named.as_ref().and_then(|named| self.cache.named(named));
            let twin = twin.filter(|twin| is_mapped(&copy.side(), &twin.side()) == Mapping::Both);
            let (requests, there) =
                (copy.requests(), twin.map(|twin| (NodeName::from(twin.node.as_str()), twin.requests())));
            let seen = counted::PhysicalPod {
                owner,
                virtual_uid: named.as_ref().map(|named| &*named.uid),
                phase: copy.phase,
                requests: &requests,
            };
            let twin = twin.zip(there.as_ref()).map(|(twin, (node, requests))| counted::VirtualPod {
                uid: &twin.uid,
                phase: twin.phase,
                node: Some(node),
                requests,
            });
            let _ = used.set(&copy.uid, PodUse::new(&counted(&seen, twin.as_ref(), lent), &requests));
        }
        used.total()
    }

    /// Decides about a node, as production does.
    pub(super) fn decide(
        &mut self,
        machine: &str,
        evidence: &Evidence,
        (now, bars, mutation): (Now, &Bars, Mutation),
    ) -> Decided {
        let lent_name = self.lent_name(machine);
        let us = self.setting.identity.clone();
        let lent = self.cache.lent.get(&*lent_name).map(|lent| whose_node(mutation, lent, &us));
        let physical = self.cache.machines.get(machine).cloned();
        let usage = self.usage(machine, &lent_name);
        let (pods, requested) = self.pods_of(&lent_name);
        let (pods, pods_by) = match &evidence.pods {
            Some(live) => (live.clone(), PodsBy::List),
            None => (pods, PodsBy::Watch),
        };
        let pods = if mutation == Mutation::NothingTolerated { without_tolerations(pods) } else { pods };
        let known = self.left.get(&*lent_name).cloned();
        let (none, reach, steps, size) = (BTreeSet::new(), self.contact.reach(now.steady), self.steps, self.size());
        let remembered = self.remembered.entry(machine.to_owned()).or_default();
        remembered.see(lent.as_deref(), steps);
        let memory = remembered.memory;
        let facts = Facts {
            binding: &self.setting,
            name: machine,
            physical: physical.as_deref().map_or(Physical::Absent, Physical::Present),
            live: &evidence.live,
            lent: lent.as_deref(),
            live_lent: &evidence.lent,
            known: known.as_ref(),
            bindings: evidence.bindings.as_ref(),
            policies: &self.cache.policies,
            usage: &usage,
            requested: &requested,
            pods: &pods,
            pods_by,
            topology_keys: &none,
            bars,
            reach,
            verb: VerbOnNode::None,
            memory: &memory,
        };
        let drafted = draft(&facts, now);
        let acts = drafted.acts();
        let cause = acts.as_ref().map(|(cause, _)| *cause);
        let leave = if drafted.is_asking() {
            // What waits for a live read may be wanted still.
            Leave::Held
        } else {
            let leave =
                Desk { guard: &mut self.guard, ghost: &mut self.ghost, mutation }.ask(remembered, acts, size, now);
            self.guard.decided(&lent_name);
            leave
        };
        let decision = drafted.conclude(leave);
        remembered.memory.decided(&decision);
        let details = decision.details.as_deref();
        let growth = details.map(|details| details.growth);
        let grows = match details.map(|details| &details.pace) {
            Some(Pace::Write { growth, .. }) => *growth,
            Some(Pace::Same | Pace::Partial { .. } | Pace::Wait(_)) | None => Grows::None,
        };
        let found = if let LiveLent::Found(found) = &evidence.lent { Some(found) } else { None };
        match (&decision.state, lent.as_ref().or(found)) {
            (NodeState::Asking(_) | NodeState::Rest(Rest::CacheBehind), _) => {}
            (NodeState::Rest(Rest::Stripped(_)), Some(node)) => {
                self.left.insert(lent_name.to_string(), node.uid.clone());
            }
            _ => drop(self.left.remove(&*lent_name)),
        }
        let (orders, lease) = (decision.orders, decision.lease);
        if let Some(wrong) = grown(&orders, lent.as_deref(), bars, growth) {
            self.ghost.broken.get_or_insert(wrong);
        }
        let is_asking = matches!(&orders[..], [NodeOrder::Ask(_)]);
        if let Some((_, decided)) = self.recall.as_mut().filter(|_| !is_asking) {
            decided.insert(machine.to_owned());
        }
        remembered.memory.alone_since = match growth {
            Some(Growth::Waits { .. }) => remembered.memory.alone_since.or(Some(now.steady)),
            Some(Growth::Free | Growth::Never | Growth::ClaimUnreadable) | None => None,
        };
        remembered.memory.unrenewed_since = match lease {
            Some(Lease::Stop(_)) => remembered.memory.unrenewed_since.or(Some(now.steady)),
            None if is_asking => remembered.memory.unrenewed_since,
            Some(Lease::Renew) | None => None,
        };
        Decided { orders, lease, grows, cause }
    }

    /// An order was carried out and answered.
    pub(super) fn carried(&mut self, plan: &Plan, order: &NodeOrder, now: Duration) {
        let lent = &plan.lent;
        let remembered = self.remembered.entry(plan.machine.clone()).or_default();
        if let NodeOrder::PatchSpec { .. } | NodeOrder::Create { .. } = order {
            remembered.memory.closing.written();
        }
        let happened: Vec<Act> = match order {
            NodeOrder::PatchStatus { .. } => {
                if plan.grows == Grows::Some {
                    remembered.memory.grown = Some(now);
                }
                Vec::new()
            }
            NodeOrder::PatchSpec { .. } if order.is_no_execute() => vec![Act::NoExecute(lent.clone())],
            NodeOrder::RemovePods(pods) => {
                let act = |uid: &Uid| Act::RemovePod { node: lent.clone(), pod: uid.clone() };
                pods.iter().map(|removal| act(&removal.pod.uid)).collect()
            }
            NodeOrder::Delete { .. } => vec![Act::DeleteNode(lent.clone())],
            NodeOrder::Ask(_)
            | NodeOrder::PatchPhysical { .. }
            | NodeOrder::PatchSpec { .. }
            | NodeOrder::Create { .. }
            | NodeOrder::StopLease(_)
            | NodeOrder::RemoveFinalizer { .. }
            | NodeOrder::ReleasePhysical { .. } => Vec::new(),
        };
        for act in happened.iter().filter(|act| remembered.asked.contains(*act)) {
            self.guard.happened(act, now);
        }
    }

    /// Decides about a physical pod, as production does.
    pub(super) fn judge_copy(
        &mut self,
        key: &str,
        live: Option<&LivePod>,
        (now, bars, mutation): (Duration, &Bars, Mutation),
    ) -> PodDecision {
        let us = &self.setting.identity;
        let copy = self.cache.copies.get(key).map(|copy| {
            let mut copy = copy.physical();
            whose(mutation, &mut copy.labels, us);
            copy
        });
        let named = copy.as_ref().and_then(|copy| VirtualPodRef::read(&copy.annotations).ok());
        let cached = named.as_ref().and_then(|named| self.cache.named(named)).map(|pod| pod.twin());
        let read = live.and_then(|(pod, _)| pod.as_ref()).map(|pod| pod.twin());
        let twin = match live {
            Some((_, asked)) => Twin::Live { pod: read.as_ref(), asked: *asked },
            None => Twin::Cached(cached.as_ref()),
        };
        let orphan_delay = if mutation == Mutation::OneLook { Duration::ZERO } else { pods::ORPHAN_DELAY };
        let is_adopted = copy.as_ref().is_some_and(|copy| self.adopted.contains(&copy.uid));
        let earlier = copy.as_ref().and_then(|copy| match Ownership::of(&copy.labels, us) {
            Ownership::OursOfEarlierBinding(uid) => Some(uid),
            Ownership::Ours | Ownership::Foreign(_) | Ownership::None => None,
        });
        let facts = pods::Facts {
            identity: us,
            pod: copy.as_ref(),
            twin,
            earlier: if earlier.is_some_and(|uid| self.gone.contains(&uid)) {
                Earlier::Gone
            } else {
                Earlier::Unlisted
            },
            adopted: if is_adopted { pods::Adopted::Yes } else { pods::Adopted::No },
            bars,
            orphan_delay,
            look: None,
        };
        let decision = self.looks.decide(&facts, now);
        if let Some(copy) = &copy {
            self.ghost.looked(&copy.uid, &decision, now);
        }
        decision
    }
}

impl Remembered {
    /// A step of the clock counts for the time that stands there now, once.
    fn see(&mut self, lent: Option<&LentNode>, steps: SignedDuration) {
        let started = lent.and_then(|lent| reclaim::started(&lent.metadata.taints, &lent.metadata.annotations));
        if self.closing.map(|(time, _)| time) != started {
            self.closing = started.map(|time| (time, steps));
        }
        self.memory.stepped = self.closing.map_or(SignedDuration::ZERO, |(_, then)| steps - then);
    }
}

fn without_tolerations(mut pods: Vec<LentPod>) -> Vec<LentPod> {
    pods.iter_mut().for_each(|pod| pod.tolerations.clear());
    pods
}

/// A virtual node as a process takes it.
fn whose_node(mutation: Mutation, lent: &Arc<LentNode>, us: &Identity) -> Arc<LentNode> {
    if mutation != Mutation::LabelAlone {
        return Arc::clone(lent);
    }
    let mut lent = LentNode::clone(lent);
    whose(mutation, &mut lent.metadata.labels, us);
    Arc::new(lent)
}

/// What has the label of a syncer is ours, where identity is a label alone.
fn whose(mutation: Mutation, labels: &mut (impl Keyed + Extend<(String, String)>), us: &Identity) {
    let is_managed = labels.text(keys::MANAGED_BY_LABEL) == Some(keys::MANAGED_BY);
    if mutation == Mutation::LabelAlone && is_managed {
        labels.extend(us.labels());
    }
}

/// What is wrong where an order makes a node larger than is known to be right.
fn grown(orders: &[NodeOrder], lent: Option<&LentNode>, bars: &Bars, growth: Option<Growth>) -> Option<String> {
    let before = lent?.allocatable.get(CPU).copied().unwrap_or_default();
    let after = orders.iter().find_map(|order| {
        let NodeOrder::PatchStatus { body, .. } = order else { return None };
        let text = body.pointer("/status/allocatable/cpu")?.as_str()?;
        Quantity::parse(text).ok().filter(|after| *after > before)
    })?;
    let is_known = bars.allow(Doing::Enlarge) && growth == Some(Growth::Free);
    (!is_known).then(|| {
        let bars: Vec<&str> = bars.iter().map(Bar::word).collect();
        format!("growth: a node grows from {before} to {after}, under {bars:?}, {growth:?}")
    })
}
