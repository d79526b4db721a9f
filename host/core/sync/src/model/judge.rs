//! What must be true at every step. Each message begins with the name of what is broken:
//!
//! | name | what must be |
//! |---|---|
//! | ownership | nothing without our identity is written, evicted or deleted, and of a physical node our two keys alone are |
//! | claim | a virtual node is made for a machine that is claimed |
//! | version, needless | a patch carries the version that it was computed from, and changes something |
//! | user | what users set on a virtual node stays |
//! | growth | no node grows under a bar, or where it is not known how large it may be |
//! | two looks, proof, restore | an orphan was seen twice; no virtual pod names it; its virtual pod was not lost by a restore |
//! | guard, held | no more nodes go than the limits of the binding allow; what is held is not released by time or by a restart |
//! | twice | no pod is removed again after its removal was answered |
//! | grace | pods leave a node whose windows are closed after its grace and what they tolerate, whatever the clocks show; those of a DaemonSet stay |
//! | lease | the lease of a virtual node goes on when a user takes labels of identity off it |
//! | hold | leases are renewed for as long as the binding says while the physical cluster is gone |
//! | hindered | what an operator holds back is not sent |
//! | final, final phase, lives | a virtual pod that ended stays so; it has ended before it is finished; it is not finished while its physical pod runs |
//! | early | no virtual pod is finished before its grace and a minute are over, whatever the clocks show |
//! | renewal | a renewal is later than the last one |
//! | rest, end | the system comes to rest ([`rest`](super::rest)) |
//!
//! What two processes can do to each other at the same moment is judged by what the one that writes can know: a claim that
//! it was shown, a pod that it saw. What a request that is late meets is judged by the server's preconditions alone.

use super::actors::lent_name;
use super::carry::What;
use super::objects::{Pod, annotation, is_closed, is_ours, labels_of, taints_of};
use super::pods::twin_name;
use super::process::Plan;
use super::server::Changed;
use super::*;
use crate::guard::REMEMBERED;
use crate::identity::Claim;
use crate::identity::mapping::{Mapping, is_mapped};
use crate::liveness::{NotAlive, Reach};
use crate::node::{NodeOrder, PodRemoval};
use crate::pods::Orphan;
use crate::pods::finish::PATIENCE;
use crate::texts::Text;

/// Clocks and whole seconds may take so much of a grace.
const TOLERANCE: Duration = Duration::from_secs(6);

impl World {
    /// What a process must have made sure of before it sends an order.
    pub(super) fn judge_sending(&mut self, at: usize, plan: &Plan, order: &NodeOrder) {
        match order {
            NodeOrder::Create { name, .. } => self.judge_creation(at, plan, name),
            NodeOrder::RemovePods(removals) => {
                self.judge_uprooted(at, plan);
                self.judge_held(at, plan);
                removals.iter().for_each(|removal| self.judge_removal(at, plan, removal));
            }
            NodeOrder::Delete { .. } => {
                self.judge_uprooted(at, plan);
                self.judge_held(at, plan);
                self.judge_share(at, plan);
            }
            NodeOrder::Ask(_)
            | NodeOrder::PatchPhysical { .. }
            | NodeOrder::PatchStatus { .. }
            | NodeOrder::PatchSpec { .. }
            | NodeOrder::StopLease(_)
            | NodeOrder::RemoveFinalizer { .. }
            | NodeOrder::ReleasePhysical { .. } => {}
        }
    }

    /// The process was shown its claim, or it stands there.
    fn judge_creation(&mut self, at: usize, plan: &Plan, lent: &NodeName) {
        let us = &self.processes[at].setting.identity;
        let cached = self.processes[at].cache.machines.get(&plan.machine);
        let cached = cached.and_then(|node| node.annotations.get(keys::LEASED_BY));
        let stored = self.server(Side::Physical).node(&plan.machine).and_then(|node| annotation(node, keys::LEASED_BY));
        let is_claim = |claim: Option<&str>| Claim::read(claim, us) == Claim::Ours;
        if !is_claim(cached.map(Text::as_str)) && !is_claim(stored) {
            let wrong = format!("claim: {lent} is made, and {} is claimed by {stored:?}", plan.machine);
            self.breaks(wrong);
        }
    }

    fn judge_removal(&mut self, at: usize, plan: &Plan, removal: &PodRemoval) {
        if self.processes[at].ghost.removed.contains(&removal.pod.uid) {
            self.breaks(format!("twice: pod {} is removed again (process {at})", removal.pod));
        }
        let is_closing = matches!(plan.cause, Some(Cause::WindowClosed { .. }));
        if !is_closing || !self.leads(at) || self.is_skewed() {
            return;
        }
        let lent = self.server(Side::Virtual).node(&plan.lent);
        let uid = lent.and_then(|node| node["metadata"]["uid"].as_str()).unwrap_or_default();
        let since = self.closed.get(uid).copied();
        let is_of = |slot: usize| removal.pod.name == twin_name(slot);
        let tolerated = if is_of(TOLERANT) { TOLERATED } else { Duration::ZERO };
        let is_early = |since: Duration| self.steady.saturating_sub(since) + TOLERANCE < RECLAIM + tolerated;
        if is_of(DAEMON) || since.is_none_or(is_early) {
            let now = self.steady;
            self.breaks(format!("grace: pod {} goes at {now:?}, and its node is closed since {since:?}", removal.pod));
        }
    }

    /// What an earlier process held is not touched before it was judged again.
    fn judge_held(&mut self, at: usize, plan: &Plan) {
        if plan.cause.is_some_and(counts) && self.processes[at].ghost.before.contains(&plan.lent) {
            self.breaks(format!("held: {} was held, and is released by a restart (process {at})", plan.lent));
        }
    }

    /// A process stops to renew a lease.
    pub(super) fn judge_stop(&mut self, at: usize, why: NotAlive) {
        let reach = self.processes[at].contact.reach(self.steady);
        if let (WEST, NotAlive::Unreachable, Reach::Unreachable { since }) = (binding_of(at), why, reach)
            && self.steady.saturating_sub(since) < HOLD
        {
            self.breaks(format!("hold: a lease stops at {:?}, and the cluster is gone since {since:?}", self.steady));
        }
    }

    /// A process does not renew a lease from now on: its node goes, or is not its own. It never stops because of a label that a user
    /// took off.
    pub(super) fn judge_unrenewed(&mut self, at: usize, lent: &str, orders: &[NodeOrder]) {
        let process = &self.processes[at];
        let (us, Some(uid)) = (&process.setting.identity, process.leases.get(lent)) else { return };
        let node = self.server(Side::Virtual).node(lent).filter(|node| node["metadata"]["uid"] == **uid);
        let Some(labels) = node.map(labels_of) else { return };
        let lacks_uid = || names_binding(&labels, us) && labels.get(keys::BINDING_UID).is_none_or(String::is_empty);
        let is_wiped = lacking(&labels, us).is_some() || lacks_uid();
        let is_deleted = orders.iter().any(|order| matches!(order, NodeOrder::StopLease(_)));
        if is_wiped && !is_deleted && self.leads(at) {
            self.breaks(format!("lease: that of {lent} stops, and its labels are {labels:?} (process {at})"));
        }
    }

    /// What an operator holds back is not sent.
    pub(super) fn judge_hindered(&mut self, at: usize, what: &What) {
        let doing = match what {
            What::Node { order, .. } => match order {
                NodeOrder::Create { .. } => Doing::Create,
                NodeOrder::PatchPhysical { .. } | NodeOrder::ReleasePhysical { .. } => Doing::Physical,
                // The first taint of a node that leaves moves no pod.
                NodeOrder::PatchStatus { .. } | NodeOrder::PatchSpec { .. } => Doing::Mirror,
                NodeOrder::RemovePods(_) | NodeOrder::Delete { .. } | NodeOrder::RemoveFinalizer { .. } => {
                    Doing::Disrupt
                }
                NodeOrder::Ask(_) | NodeOrder::StopLease(_) => return,
            },
            What::Remove(_) | What::Finish { .. } => Doing::Disrupt,
            What::Orphan { .. } => Doing::JudgeOrphan,
            What::PodStatus { .. } => Doing::Mirror,
            What::Status { .. } => Doing::Announce,
        };
        if self.forbids(at, doing) {
            self.breaks(format!("hindered: process {at} sends {what:?} under {:?}", self.hindered));
        }
    }

    /// What was decided after a restore may not take away what only the restore took from us.
    fn judge_uprooted(&mut self, at: usize, plan: &Plan) {
        let lent = self.server(Side::Virtual).node(&plan.lent);
        let uid = lent.and_then(|node| node["metadata"]["uid"].as_str()).unwrap_or_default();
        if plan.epochs == self.epochs() && self.uprooted.contains_key(uid) {
            self.breaks(format!(
                "restore: {} is disrupted, and its machine was changed by a restore alone (process {at})",
                plan.lent
            ));
        }
    }

    /// The guard, counted again: nodes that go within its memory, of those that there are.
    fn judge_share(&mut self, at: usize, plan: &Plan) {
        let now = self.steady;
        let process = &mut self.processes[at];
        if !plan.cause.is_some_and(counts) || process.ghost.confirmed.contains(&plan.lent) {
            return;
        }
        let taken = &mut process.ghost.taken;
        taken.retain(|_, since| now.saturating_sub(*since) < REMEMBERED);
        let others = taken.keys().filter(|name| **name != plan.lent).count();
        let gone = taken.keys().filter(|name| !process.cache.lent.contains_key(&***name)).count();
        let (taken, nodes) = (others + 1, process.cache.lent.len() + gone);
        let percent = usize::from(Safety::default().max_nodes_percent);
        if taken >= 2 && taken * 100 > nodes * percent {
            self.breaks(format!("guard: {taken} of {nodes} nodes go within ten minutes (process {at})"));
        }
    }

    /// A physical node was patched.
    pub(super) fn judge_machine(&mut self, from: usize, order: &NodeOrder, changed: &Changed) {
        let claim = annotation(&changed.before, keys::LEASED_BY);
        let claim = Claim::read(claim, &self.processes[from].setting.identity);
        let may = match (order, &claim) {
            (_, Claim::Ours) => true,
            (NodeOrder::ReleasePhysical { .. }, _) => false,
            (_, Claim::Free) => true,
            (_, Claim::OtherBinding(uid)) if !self.uids.contains(&&**uid) => true,
            (_, Claim::OtherBinding(_) | Claim::Other { .. } | Claim::Malformed(_)) => false,
        };
        let is_confined = without_ours(&changed.before) == without_ours(&changed.after);
        if !may || !is_confined {
            let name = &changed.before["metadata"]["name"];
            self.breaks(format!("ownership: process {from} patches {name}: {claim}, {order}"));
        }
    }

    /// A virtual node may only be touched by its owner.
    pub(super) fn judge_owner(&mut self, from: usize, does: &str, node: &Value) {
        if !names_binding(&labels_of(node), &self.processes[from].setting.identity) {
            let metadata = &node["metadata"];
            self.breaks(format!("ownership: process {from} {does} {}: {}", metadata["name"], metadata["labels"]));
        }
    }

    /// A virtual node was patched.
    pub(super) fn judge_lent(&mut self, from: usize, name: &str, body: &Value, changed: &Changed) {
        self.judge_owner(from, "patches", &changed.before);
        let label = |node: &Value| node["metadata"]["labels"]["team"].clone();
        let taints = |node: &Value| taints_of(node, "team").cloned().collect::<Vec<_>>();
        let (before, after) = (&changed.before, &changed.after);
        if label(before) != label(after) || taints(before) != taints(after) {
            self.breaks(format!("user: {name} loses what a user set: {body} (process {from})"));
        }
    }

    /// Since when a virtual node is closed, by the clock that nothing sets: since that was decided, which is the time that its taint has.
    /// A write that arrives late leaves so much less of a grace; in production a request ends after seconds.
    pub(super) fn note_closing(&mut self, uid: &str, node: &Value, decided: Duration) {
        if is_closed(node) {
            self.closed.entry(uid.to_owned()).or_insert(decided);
        } else {
            self.closed.remove(uid);
        }
    }

    /// A virtual pod is touched: it has to be on a node that was ours when it was bound.
    pub(super) fn judge_pod(&mut self, from: usize, does: &str, pod: &Pod) {
        if pod.bound_by != Some(binding_of(from)) {
            self.breaks(format!("ownership: process {from} {does} pod {} on {}", pod.name, pod.node));
        }
    }

    /// A physical pod is deleted.
    pub(super) fn judge_copy(&mut self, from: usize, copy: &Pod) {
        if !is_ours(&copy.labels, &self.processes[from].setting.identity) {
            self.breaks(format!("ownership: process {from} deletes pod {}: {:?}", copy.name, copy.labels));
        }
    }

    /// A virtual pod gets a phase.
    pub(super) fn judge_phase(&mut self, pod: &Pod, phase: Phase) {
        if pod.phase.is_final() && phase != pod.phase {
            self.breaks(format!("final: pod {} was {}, and becomes {phase}", pod.name, pod.phase));
        }
    }

    /// A process is sure that a physical pod is an orphan.
    pub(super) fn judge_orphan(&mut self, at: usize, copy: &Pod, why: &Orphan) {
        if self.bereft.contains_key(&copy.uid) {
            self.breaks(format!("restore: pod {} lost its virtual pod by a restore (process {at}): {why}", copy.name));
        }
        if self.is_twin_there(copy) {
            self.breaks(format!("proof: pod {} and its virtual pod name each other (process {at}): {why}", copy.name));
        }
    }

    /// Whether the virtual pod of a physical one is there, and the two name each other.
    pub(super) fn is_twin_there(&self, copy: &Pod) -> bool {
        let pods = &self.server(Side::Virtual).store.pods;
        VirtualPodRef::read(&copy.annotations).is_ok_and(|named| {
            let twin = pods.get(&objects::key(&named.namespace, &named.name));
            twin.is_some_and(|twin| is_mapped(&copy.side(), &twin.side()) == Mapping::Both)
        })
    }

    /// A process is sure that the physical pod of a virtual one is gone.
    pub(super) fn judge_finishing(&mut self, twin: &Pod) {
        // By the clock of the API server, which the time in the pod is of.
        let due = twin.deletion.and_then(|deletion| deletion.checked_add(PATIENCE).ok());
        if due.is_none_or(|due| self.wall() < due) {
            self.breaks(format!("early: pod {} is finished at {:?}, and could be at {due:?}", twin.name, self.wall()));
        }
        let Ok(named) = PhysicalPodRef::read(&twin.annotations) else { return };
        let lent = self.server(Side::Virtual).node(&twin.node);
        let Some(uid) = lent.and_then(|node| annotation(node, keys::PHYSICAL_NODE_UID)) else { return };
        let physical = &self.server(Side::Physical).store;
        let is_there = physical.nodes.values().any(|node| node["metadata"]["uid"] == uid);
        let copy = physical.pods.get(&objects::key(&named.namespace, &named.name));
        if is_there && copy.is_some_and(|copy| named.names(&copy.side())) {
            self.breaks(format!("lives: pod {} is finished, and {named} runs", twin.name));
        }
    }

    /// A restore was made. What it took away is no evidence until an operator confirms it.
    pub(super) fn bereave(&mut self, before: &[server::Store; 2]) {
        let [physical, lent] = before;
        for copy in physical.pods.values() {
            let Some(binding) = self.binding_by(&copy.labels) else { continue };
            let Ok(named) = VirtualPodRef::read(&copy.annotations) else { continue };
            let twin = lent.pods.get(&objects::key(&named.namespace, &named.name));
            let was_there = twin.is_some_and(|twin| is_mapped(&copy.side(), &twin.side()) == Mapping::Both);
            if was_there && !self.is_twin_there(copy) {
                self.bereft.insert(copy.uid.clone(), binding);
            }
        }
        for (binding, node) in (0..BINDINGS).flat_map(|binding| (0..NODES).map(move |node| (binding, node))) {
            let machine = machine_name(node);
            let place = |node: Option<&Value>| {
                node.map(|node| (node["metadata"]["uid"].clone(), node["metadata"]["labels"]["pool"].clone()))
            };
            let was = place(physical.nodes.get(&machine).map(Arc::as_ref));
            let is_changed = place(self.server(Side::Physical).node(&machine)) != was;
            let uid = self.server(Side::Virtual).node(&lent_name(binding, node)).map(|node| &node["metadata"]["uid"]);
            let uid = uid.and_then(Value::as_str).map(str::to_owned);
            if let Some(uid) = uid.filter(|_| is_changed) {
                self.uprooted.insert(uid, binding);
            }
        }
    }
}

/// A physical node without what is ours on it.
fn without_ours(node: &Value) -> Value {
    let mut node = node.clone();
    for (map, key) in [("labels", keys::POLICY_APPLIED), ("annotations", keys::LEASED_BY)] {
        if let Some(map) = node["metadata"][map].as_object_mut() {
            map.remove(key);
        }
    }
    node["metadata"]["resourceVersion"] = Value::Null;
    node
}

/// Whether nodes that go for this cause count against the share.
pub(super) fn counts(cause: Cause) -> bool {
    match cause {
        Cause::Selector | Cause::Policy | Cause::BindingDeleted | Cause::NodeTerminating | Cause::Claimed => true,
        Cause::WindowClosed { .. } | Cause::Operator | Cause::NodeGone | Cause::Orphan | Cause::DeletedByOthers => {
            false
        }
    }
}
