//! Decisions that are carried out on what was read, as API servers, pods and time would answer.
//!
//! Owns the play of everything that is not ours: an API server that applies a patch and keeps what has finalizers, a guard that has
//! gathered, pods that end when they are removed, the next boundary of the windows. What is decided, and in which order it is carried
//! out, is that of the [controller of nodes](crate::nodes). Never sends anything.
//!
//! ```text
//! now: decide ─► guard gathers ─► decide ─► pods have ended ─► decide        then the same at the next times, until after the boundary
//! ```
//!
//! # Failure story
//!
//! What others do meanwhile is not known: a disruption budget that refuses an eviction, a pod that does not end, a policy that is
//! edited before its boundary. A node whose decisions come to no end is named, and its plan is what it was until then.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource as _;
use serde_json::{Map, Value};
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::bars::{Bar, Doing};
use topoloom_sync::deletion::{DeletionCause, Evictions, Existence};
use topoloom_sync::guard::{GATHER, HeldBatch};
use topoloom_sync::identity::names_binding;
use topoloom_sync::node::{Details, Facts, NodeDecision, NodeOrder, NodeState, Now, PodRemoval, Rest, Window};
use topoloom_sync::policy::growth::Growth;
use topoloom_sync::policy::in_force::InForce;
use topoloom_sync::policy::object::{Judgement, Policy};
use topoloom_sync::sizes::pacing::{Pace, Rest as RestOfSize};

use super::Survey;
use super::plan::{
    Fate, Instant, LaterSize, LeavingPod, LeavingPods, NodeStep, Plan, PlannedNode, Shape, Stage, Turn, TurnTo, Write,
    WriteKind,
};
use crate::ledger::PhysicalName;
use crate::slices::node::NodeSlice;
use crate::view::{Evidence, NodeWork};

/// How often a node may be decided about in one stage. The longest way has a dozen: the mark, the removal of pods, the deletion, its
/// finalizer, the claim, and each once more when nothing follows.
const LOOKS: usize = 40;
/// At how many times after now it is looked, at most: a boundary, and what a grace and tolerations make of it.
const INSTANTS: usize = 8;

/// What is noticed of each order that is carried out.
pub type Notice<'a> = &'a mut dyn FnMut(Stage, &PhysicalName, &NodeOrder);

/// A survey whose decisions are carried out.
struct Rehearsal<'a> {
    survey: Survey,
    notice: Notice<'a>,
    /// The version of the last object that was written.
    version: u64,
    steps: BTreeMap<PhysicalName, Vec<NodeStep>>,
    sights: HashMap<PhysicalName, Sight>,
    /// Why nodes go, as it was said first: afterwards there is nothing left that goes.
    leaving: HashMap<PhysicalName, String>,
    /// Pods that were removed and are there still.
    removed: BTreeSet<(NodeName, Uid)>,
    /// Times at which something follows, that no window says.
    due: BTreeSet<Timestamp>,
    restless: BTreeSet<PhysicalName>,
}

/// What the last decision about a node was.
#[derive(Debug, Clone)]
struct Sight {
    kind: SightKind,
    sentence: String,
    policy: Option<String>,
    window: Option<Window>,
    later: Option<LaterSize>,
    barred: Vec<Bar>,
    /// When something becomes of its pods by time alone.
    next: Option<Timestamp>,
    /// Its pods are removed when a deadline is over.
    waits_for_deadline: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SightKind {
    Lent,
    Frozen,
    Leaving,
    Anothers,
    Barred,
    NotLent,
    /// The selector of the binding does not select it, and nothing of it is lent.
    Outside,
}

/// Whether there is more to decide about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Next,
    Decide,
}

impl Survey {
    /// What would be written because of what was read, at this time and until after the next boundary. Each order is noticed when it
    /// is carried out.
    #[must_use]
    pub fn rehearse(self, now: Now, notice: Notice<'_>) -> Plan {
        let version = |slice: &NodeSlice| slice.meta().resource_version.as_deref()?.parse::<u64>().ok();
        let highest = self.lent.values().chain(self.physical.values()).filter_map(version).max();
        let rehearsal = Rehearsal {
            survey: self,
            notice,
            version: highest.unwrap_or_default(),
            steps: BTreeMap::new(),
            sights: HashMap::new(),
            leaving: HashMap::new(),
            removed: BTreeSet::new(),
            due: BTreeSet::new(),
            restless: BTreeSet::new(),
        };
        rehearsal.play(now)
    }
}

impl Rehearsal<'_> {
    fn play(mut self, now: Now) -> Plan {
        let size = self.survey.view.size();
        let names = self.survey.view.all();
        let before: BTreeMap<PhysicalName, Option<Shape>> =
            names.iter().map(|name| (Arc::clone(name), self.shape(name))).collect();
        let held = self.run(now);
        let mut instants = vec![Instant { at: now.wall, turns: Vec::new(), held }];
        let mut nodes: Vec<PlannedNode> = before.into_iter().map(|(name, before)| self.planned(name, before)).collect();
        let outside = self.sights.iter().filter(|(_, sight)| sight.kind == SightKind::Outside);
        let outside: BTreeSet<PhysicalName> = outside.map(|(name, _)| Arc::clone(name)).collect();
        self.announce(now.wall);
        let (mut at, mut boundaries) = (now, 0);
        while instants.len() <= INSTANTS {
            let boundary = self.survey.view.next_transition(at.wall);
            let next = [boundary, self.next_of_pods(at.wall)].into_iter().flatten().min();
            let Some(next) = next else { break };
            if boundary == Some(next) {
                boundaries += 1;
                if boundaries > 1 {
                    break;
                }
            }
            let passed = Duration::try_from(next.duration_since(at.wall)).unwrap_or_default();
            at = Now { wall: next, steady: at.steady.saturating_add(passed) };
            let turns = self.turns(next);
            let held = self.run(at);
            instants.push(Instant { at: next, turns, held });
        }
        for node in &mut nodes {
            node.steps = self.steps.remove(&node.name).unwrap_or_default();
        }
        // A node that the binding does not select, and that nothing is written about, is every other node of the cluster.
        nodes.retain(|node| !node.steps.is_empty() || node.before.is_some() || !outside.contains(&node.name));
        Plan { nodes, instants, size, restless: self.restless.into_iter().collect() }
    }

    /// Everything that follows at one time. Returns what the guard holds then.
    fn run(&mut self, now: Now) -> Option<HeldBatch> {
        let names = self.survey.view.all();
        self.look_at_all(&names, now, LeavingPods::There);
        let later = Now { steady: now.steady.saturating_add(GATHER), ..now };
        self.survey.recall(later);
        let asking = self.survey.view.asking();
        self.look_at_all(&asking, later, LeavingPods::There);
        self.note_deadlines(now);
        let ended = self.end_pods();
        let last = Now { steady: later.steady.saturating_add(GATHER), ..later };
        self.look_at_all(&ended, last, LeavingPods::Gone);
        // Causes that went may have made a held batch small enough.
        let reviewed = self.survey.view.review(last);
        self.look_at_all(&reviewed.touched, last, LeavingPods::Gone);
        reviewed.held
    }

    fn look_at_all(&mut self, names: &BTreeSet<PhysicalName>, now: Now, pods: LeavingPods) {
        for name in names {
            self.look(name, now, Stage { at: now.wall, pods });
        }
    }

    /// Looks at a node until nothing follows, as its controller does.
    fn look(&mut self, name: &PhysicalName, now: Now, stage: Stage) {
        let mut evidence = Evidence::default();
        for _ in 0..LOOKS {
            let see = |facts: &Facts<'_>, decision: &NodeDecision<'_>| Sight::of(facts, decision, now);
            let (work, sight) = self.survey.decide(name, &mut evidence, now, see);
            if sight.kind == SightKind::Leaving {
                self.leaving.entry(Arc::clone(name)).or_insert_with(|| sight.sentence.clone());
            }
            self.sights.insert(Arc::clone(name), sight);
            let mut is_at_rest = true;
            for order in &work.orders {
                is_at_rest &= !order.is_write();
                match self.carry(name, &work, order, &mut evidence, now, stage) {
                    Then::Next => {}
                    Then::Decide => {
                        is_at_rest = false;
                        break;
                    }
                }
            }
            if is_at_rest {
                return;
            }
            if evidence.existing.is_none() {
                // What was written changes the facts, and what was read was read for the decision before.
                evidence = Evidence::default();
            }
        }
        self.restless.insert(Arc::clone(name));
    }

    /// Does what an order says, as the API servers would.
    fn carry(
        &mut self,
        name: &PhysicalName,
        work: &NodeWork,
        order: &NodeOrder,
        evidence: &mut Evidence,
        now: Now,
        stage: Stage,
    ) -> Then {
        if let NodeOrder::Create { name: lent, .. } = order
            && let Some(existing) = self.existing(lent)
        {
            return self.exists(lent, existing, evidence);
        }
        self.record(name, work, order, stage);
        (self.notice)(stage, name, order);
        self.survey.view.carried(name, work, order, now);
        match order {
            NodeOrder::Ask(_) | NodeOrder::StopLease(_) => {}
            NodeOrder::PatchPhysical { body, .. } | NodeOrder::ReleasePhysical { body } => {
                self.patch_physical(name, body);
            }
            NodeOrder::Create { name: lent, body } => self.create(lent, body),
            NodeOrder::PatchStatus { name: lent, body, .. } | NodeOrder::PatchSpec { name: lent, body, .. } => {
                self.patch_lent(lent, body);
            }
            NodeOrder::RemovePods(pods) => self.remove_pods(name, work, pods, now),
            NodeOrder::Delete { name: lent, .. } => self.delete(lent, now.wall),
            NodeOrder::RemoveFinalizer { name: lent, body } => {
                self.patch_lent(lent, body);
                self.delete(lent, now.wall);
            }
        }
        if WriteKind::of(order).is_some() {
            self.after(name, work);
        }
        Then::Next
    }

    /// An order is written down, with the virtual node before it.
    fn record(&mut self, name: &PhysicalName, work: &NodeWork, order: &NodeOrder, stage: Stage) {
        let Some(kind) = WriteKind::of(order) else { return };
        let before = work.lent.as_ref().and_then(|lent| self.shape_of(lent));
        let steps = self.steps.entry(Arc::clone(name)).or_default();
        if steps.last().is_none_or(|last| last.stage != stage) {
            steps.push(NodeStep { stage, before, after: None, writes: Vec::new(), pods: Vec::new() });
        }
        let Some(step) = steps.last_mut() else { return };
        step.writes.push(Write { kind, line: order.to_string() });
        if let NodeOrder::RemovePods(pods) = order {
            let leaving = |removal: &PodRemoval| LeavingPod { pod: removal.pod.clone(), means: removal.means };
            step.pods.extend(pods.iter().map(leaving));
        }
    }

    /// The virtual node after it.
    fn after(&mut self, name: &PhysicalName, work: &NodeWork) {
        let after = work.lent.as_ref().and_then(|lent| self.shape_of(lent));
        if let Some(step) = self.steps.get_mut(name).and_then(|steps| steps.last_mut()) {
            step.after = after;
        }
    }

    fn existing(&self, lent: &NodeName) -> Option<NodeSlice> {
        self.survey.others.get(lent).or_else(|| self.survey.lent.get(lent)).cloned()
    }

    /// A node of that name exists already. One that cannot be read leads nowhere, and is tried until the looks are used up.
    fn exists(&mut self, lent: &NodeName, existing: NodeSlice, evidence: &mut Evidence) -> Then {
        let Ok(node) = existing.lent() else { return Then::Decide };
        if names_binding(&node.metadata.labels, &self.survey.view.binding.identity) {
            self.survey.view.lent_node(lent, node);
        } else {
            evidence.existing = Some(Arc::new(node));
        }
        Then::Decide
    }

    // The API servers.

    fn patch_physical(&mut self, name: &PhysicalName, body: &Value) {
        let version = self.next_version();
        let Some(slice) = self.survey.physical.get_mut(name) else { return };
        patch(slice, body, &version);
        if let Ok(node) = slice.clone().physical() {
            self.survey.view.physical_node(name, node);
        }
    }

    fn create(&mut self, lent: &NodeName, body: &Value) {
        let version = self.next_version();
        let mut slice = NodeSlice::default();
        patch(&mut slice, body, &version);
        slice.meta_mut().uid = Some(format!("created-{version}"));
        self.store(lent, slice);
    }

    fn patch_lent(&mut self, lent: &NodeName, body: &Value) {
        let version = self.next_version();
        let Some(mut slice) = self.survey.lent.get(lent).cloned() else { return };
        patch(&mut slice, body, &version);
        self.store(lent, slice);
    }

    fn store(&mut self, lent: &NodeName, slice: NodeSlice) {
        if let Ok(node) = slice.clone().lent() {
            self.survey.view.lent_node(lent, node);
        }
        self.survey.lent.insert(lent.clone(), slice);
    }

    /// What has finalizers stays, and terminates.
    fn delete(&mut self, lent: &NodeName, now: Timestamp) {
        let version = self.next_version();
        let Some(mut slice) = self.survey.lent.get(lent).cloned() else { return };
        if slice.meta().finalizers.as_ref().is_none_or(Vec::is_empty) {
            self.survey.lent.remove(lent);
            self.survey.view.lent_node_gone(lent);
            return;
        }
        let metadata = slice.meta_mut();
        metadata.resource_version = Some(version);
        if metadata.deletion_timestamp.is_none() {
            metadata.deletion_timestamp = Some(Time(now));
        }
        self.store(lent, slice);
    }

    fn remove_pods(&mut self, name: &PhysicalName, work: &NodeWork, pods: &[PodRemoval], now: Now) {
        let Some(lent) = &work.lent else { return };
        for removal in pods {
            let uid = &removal.pod.uid;
            self.survey.view.pod_removed(name, lent, uid, now);
            self.survey.view.ledger.removed(lent, uid);
            self.removed.insert((lent.clone(), uid.clone()));
        }
    }

    /// Later than every other one.
    fn next_version(&mut self) -> String {
        self.version = self.version.saturating_add(1);
        self.version.to_string()
    }

    // Pods and time.

    /// The pods that were removed have ended, and so have those that terminated already on nodes that go. Returns the nodes for which
    /// that matters.
    fn end_pods(&mut self) -> BTreeSet<PhysicalName> {
        let mut ended = std::mem::take(&mut self.removed);
        let leaving = self.sights.iter().filter(|(_, sight)| sight.kind == SightKind::Leaving);
        for (name, _) in leaving {
            let Some(lent) = self.survey.view.ledger.node(name) else { continue };
            let terminating = self.survey.view.ledger.pods(&lent).into_iter();
            let terminating = terminating.filter(|pod| pod.existence == Existence::Terminating);
            ended.extend(terminating.map(|pod| (lent.clone(), pod.pod.uid)));
        }
        let mut touched = BTreeSet::new();
        for (lent, uid) in &ended {
            touched.extend(self.survey.view.ledger.physical_of(lent).cloned());
            // The physical pod ends first, and the virtual one is removed because of that.
            if let Some(twin) = self.survey.twins.remove(uid) {
                self.survey.view.ledger.physical_pod_gone(&twin);
            }
            self.survey.view.ledger.virtual_pod_gone(uid);
        }
        touched
    }

    /// Where pods may not be evicted, they are deleted when the deadline is over.
    fn note_deadlines(&mut self, now: Now) {
        let waits =
            |(name, sight): (&PhysicalName, &Sight)| sight.waits_for_deadline && !self.survey.view.is_held(name);
        if self.sights.iter().any(waits) {
            let deadline = self.survey.view.binding.deletion.eviction_deadline;
            let due = SignedDuration::try_from(deadline).ok().and_then(|deadline| now.wall.checked_add(deadline).ok());
            self.due.extend(due);
        }
    }

    /// When time alone makes something of the pods of a node next.
    fn next_of_pods(&self, after: Timestamp) -> Option<Timestamp> {
        let of_nodes = self.sights.values().filter_map(|sight| sight.next);
        of_nodes.chain(self.due.iter().copied()).filter(|next| *next > after).min()
    }

    /// The status of each policy says when its windows open or close next, from now on: what it announces for long enough is free
    /// for the guard.
    fn announce(&mut self, now: Timestamp) {
        let view = &mut self.survey.view;
        if !view.bars.allow(Doing::Announce) {
            return;
        }
        let written = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let identity = view.binding.identity.clone();
        let is_ours = |policy: &&Policy| policy.names(identity.binding(), identity.virtual_cluster());
        let announced = view.policies.of(identity.binding()).filter(is_ours).map(|policy| {
            let mut object = policy.object().clone();
            let schedule = policy.terms().map(|terms| &terms.schedule);
            object.announced = object.announced.follow(schedule, now, written);
            if let Judgement::Valid(_) = policy.judgement() {
                object.last_valid = Some(object.spec.clone());
            }
            Policy::new(object)
        });
        for policy in announced.collect::<Vec<_>>() {
            self.survey.view.policy(policy);
        }
    }

    /// The policies whose windows open or close at this time.
    fn turns(&self, at: Timestamp) -> Vec<Turn> {
        let view = &self.survey.view;
        let just_before = at.checked_sub(SignedDuration::from_secs(1)).unwrap_or(at);
        let turn = |policy: &Policy| {
            let schedule = &policy.terms()?.schedule;
            let (before, after) = (schedule.is_open(just_before).is_open(), schedule.is_open(at).is_open());
            let to = match (before, after) {
                (false, true) => TurnTo::Open,
                (true, false) => TurnTo::Closed,
                (true, true) | (false, false) => return None,
            };
            Some(Turn { policy: policy.name().to_owned(), to })
        };
        view.policies.of(view.binding.identity.binding()).filter_map(turn).collect()
    }

    // What is shown.

    fn shape(&mut self, name: &PhysicalName) -> Option<Shape> {
        let lent = self.survey.view.ledger.node(name)?;
        self.shape_of(&lent)
    }

    fn shape_of(&self, lent: &NodeName) -> Option<Shape> {
        let node = self.survey.view.lent(lent)?;
        let (taints, cordon) = (node.metadata.taints.clone(), node.metadata.cordon);
        Some(Shape { size: (**node.allocatable).clone(), taints, cordon })
    }

    /// What became of a node now.
    fn planned(&mut self, name: PhysicalName, before: Option<Shape>) -> PlannedNode {
        let lent = self.survey.view.ledger.node(&name);
        let after = lent.as_ref().and_then(|lent| self.shape_of(lent));
        let is_written = self.steps.contains_key(&name);
        let sight = self.sights.get(&name);
        let kind = sight.map_or(SightKind::NotLent, |sight| sight.kind);
        let fate = match (kind, &before, &after) {
            (SightKind::Leaving, Some(_), _) | (_, Some(_), None) => Fate::TakenAway,
            (_, None, Some(_)) => Fate::Created,
            (SightKind::Frozen, ..) => Fate::Frozen,
            (SightKind::Anothers, ..) => Fate::Anothers,
            (SightKind::Barred, ..) => Fate::Barred,
            (SightKind::NotLent | SightKind::Outside | SightKind::Leaving, ..) | (SightKind::Lent, None, None) => {
                Fate::NotLent
            }
            (SightKind::Lent, Some(before), Some(after)) if before.size != after.size => Fate::Resized,
            (SightKind::Lent, Some(_), Some(_)) if is_written => Fate::Changed,
            (SightKind::Lent, Some(_), Some(_)) => Fate::Unchanged,
        };
        let sentence = self.leaving.get(&name).filter(|_| fate == Fate::TakenAway).cloned();
        PlannedNode {
            lent,
            fate,
            sentence: sentence.or_else(|| sight.map(|sight| sight.sentence.clone())).unwrap_or_default(),
            policy: sight.and_then(|sight| sight.policy.clone()),
            window: sight.and_then(|sight| sight.window),
            before,
            after,
            later: sight.and_then(|sight| sight.later.clone()),
            is_held: self.survey.view.is_held(&name),
            barred: sight.map(|sight| sight.barred.clone()).unwrap_or_default(),
            steps: Vec::new(),
            name,
        }
    }
}

impl Sight {
    fn of(facts: &Facts<'_>, decision: &NodeDecision<'_>, now: Now) -> Self {
        let details = decision.details.as_deref();
        let is_leaving = matches!(decision.state, NodeState::Leaving(_)) && facts.lent.is_some();
        let pods = facts.pods.iter().any(|pod| pod.existence == Existence::Alive && !pod.phase.is_final());
        let is_final = matches!(decision.state, NodeState::Leaving(cause) if cause.is_final());
        Self {
            kind: kind(facts, decision),
            sentence: decision.state.to_string(),
            policy: details.and_then(|details| details.policy.clone()),
            window: details.map(|details| details.window),
            // A node that is not there has no size that could change.
            later: details.filter(|_| facts.lent.is_some()).and_then(|details| later(details, now)),
            barred: details.map(|details| details.barred.iter().copied().collect()).unwrap_or_default(),
            next: details.and_then(|details| details.reclaim.next),
            waits_for_deadline: is_leaving && pods && !is_final && facts.binding.evictions == Evictions::Off,
        }
    }
}

fn kind(facts: &Facts<'_>, decision: &NodeDecision<'_>) -> SightKind {
    let is_kept = decision.details.as_ref().is_some_and(|details| details.window == Window::Kept);
    match &decision.state {
        NodeState::Lent if is_kept => SightKind::Frozen,
        NodeState::Lent => SightKind::Lent,
        NodeState::Leaving(_) if facts.lent.is_some() => SightKind::Leaving,
        NodeState::Leaving(_) | NodeState::Asking(_) => SightKind::NotLent,
        NodeState::Rest(rest) => match rest {
            Rest::NotLent(InForce::Frozen { .. } | InForce::NotSynced) => SightKind::Frozen,
            Rest::Claimed(_) | Rest::Foreign(_) | Rest::Stripped(_) | Rest::Astray | Rest::NameTaken(_) => {
                SightKind::Anothers
            }
            Rest::Barred(_) => SightKind::Barred,
            Rest::Left(DeletionCause::Selector) | Rest::Absent => SightKind::Outside,
            Rest::NotLent(_)
            | Rest::NotLendable(_)
            | Rest::NoName(_)
            | Rest::Left(_)
            | Rest::CacheBehind
            | Rest::Unlisted => SightKind::NotLent,
        },
    }
}

/// What is not written yet of a size.
fn later(details: &Details, now: Now) -> Option<LaterSize> {
    let (Pace::Partial { rest, .. } | Pace::Wait(rest)) = &details.pace else { return None };
    let after = match rest {
        RestOfSize::Interval { at } | RestOfSize::BarredUntil { at } => Some(at.saturating_sub(now.steady)),
        RestOfSize::Barred => None,
    };
    let why = match details.growth {
        Growth::Waits { .. } | Growth::ClaimUnreadable => details.growth.to_string(),
        Growth::Free | Growth::Never => rest.to_string(),
    };
    Some(LaterSize { size: details.sizes.lent(), after, why })
}

/// As an API server applies a merge patch, under this version.
fn patch(slice: &mut NodeSlice, body: &Value, version: &str) {
    let Ok(mut object) = serde_json::to_value(&*slice) else { return };
    apply(&mut object, body);
    if let Ok(mut patched) = serde_json::from_value::<NodeSlice>(object) {
        patched.meta_mut().resource_version = Some(version.to_owned());
        *slice = patched;
    }
}

fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            apply(target.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}
