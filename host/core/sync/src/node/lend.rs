//! A node that is lent: its size, its taints, its conditions, and what of that is written now (6.2 steps 8 to 13, decisions
//! S4, S5, S8, S12, S14, S17).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::course::{INSTANCE_TYPES, NODE_TYPE};
use super::facts::{Facts, LentNode, NodeClaims, Now, PhysicalNode};
use super::objects;
use super::orders::{NodeOrder, PodRemoval, RemovalMeans};
use super::{NodeDecision, NodeState, Rest, are_ours};
use crate::bars::{Bar, Doing};
use crate::conditions::{self, ConditionFacts, LeaseState, NodeCondition};
use crate::copied::{self, Copied};
use crate::deletion::{Leave, PodClass};
use crate::guard::{Act, Cause};
use crate::identity::Claim;
use crate::keys;
use crate::liveness::{self, Lease, Liveness};
use crate::merge::{INFORMATION, Merge, Metadata, MetadataPatch, Note, Wanted, fitting, merge};
use crate::naming::label_value;
use crate::policy::growth::{Growth, growth, policies_applied};
use crate::policy::in_force::InForce;
use crate::policy::terms::{Limit, PolicyTerms};
use crate::reclaim::{self, DuePod, Evict, Reclaim, WindowTaint};
use crate::resources::ResourceList;
use crate::sizes::overcommit::Overcommitted;
use crate::sizes::pacing::{Growing, Pace, Rest as RestOfSize, pace};
use crate::sizes::{BaseSource, Sizes, base_of, calculate, requested_beside};
use crate::summary::{lease_summary, policy_details};
use crate::taints::{Converted, Effect, Taint, convert};
use crate::texts::Keyed;
use topoloom_core::names::NodeName;

/// What was computed of a lent node, for `lend explain`.
#[derive(Debug, Clone, PartialEq)]
pub struct Details {
    /// The policy in force and how it applies, as a sentence.
    pub in_force: String,
    /// The policy in force.
    pub policy: Option<String>,
    /// Its size, step by step.
    pub sizes: Sizes,
    /// Which list of the physical node it is computed from.
    pub base: BaseSource,
    /// Whether it may grow.
    pub growth: Growth,
    /// What of the size is written now.
    pub pace: Pace,
    /// By how much its pods have more.
    pub overcommitted: Overcommitted,
    /// Whether its windows are open.
    pub window: Window,
    /// What becomes of its pods.
    pub reclaim: Reclaim,
    /// Its taints.
    pub taints: Converted,
    /// What is copied of its labels and annotations.
    pub copied: Copied,
    /// Its lease, and who writes its conditions.
    pub liveness: Liveness,
    /// What the merge has to report.
    pub notes: Vec<Note>,
    /// What keeps something from being written.
    pub barred: BTreeSet<Bar>,
}

/// Labels, annotations and fields that one remark names.
const NAMED: usize = 5;

impl Details {
    /// What a person should know of labels and annotations: those that the machine has and the virtual node can not have, and
    /// that an earlier record of ours can not be read, or finds no room. What is left out on purpose is no remark.
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let is_remarkable = |note: &&Note| matches!(note, Note::Base(_) | Note::Crowded { .. });
        let noted = self.notes.iter().filter(is_remarkable).map(ToString::to_string);
        let lost = self.copied.left_out.iter().filter(|left| left.why.is_a_loss()).map(ToString::to_string);
        let named = first_of(noted.chain(lost));
        (!named.is_empty()).then(|| named.join("; "))
    }
}

/// The first of these, and how many more there are.
pub(super) fn first_of(mut all: impl Iterator<Item = String>) -> Vec<String> {
    let mut named: Vec<String> = all.by_ref().take(NAMED).collect();
    let more = all.count();
    if more > 0 {
        named.push(format!("and {more} more"));
    }
    named
}

/// Whether the windows of a node are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// There are none: no policy is in force, or one without windows.
    Always,
    /// One is.
    Open {
        /// Until then.
        until: Option<Timestamp>,
    },
    /// None is.
    Closed {
        /// Until then.
        until: Option<Timestamp>,
    },
    /// It is not known: no valid policy applies, so the node keeps the taint that it has or has not.
    Kept,
}

/// A node that is lent, as far as the guard is not needed.
#[derive(Debug)]
pub(super) struct Lending<'a> {
    physical: &'a PhysicalNode,
    name: NodeName,
    in_force: InForce<'a>,
    window: Window,
    growth: Growth,
    sizes: Sizes,
    base: BaseSource,
    reclaim: Reclaim,
    liveness: Liveness,
    /// For how long the closing that its pods leave for had been announced.
    announced: Duration,
}

impl<'a> Lending<'a> {
    pub(super) fn of(
        facts: &Facts<'a>,
        physical: &'a PhysicalNode,
        name: NodeName,
        in_force: InForce<'a>,
        now: Now,
    ) -> Self {
        let applied = facts.lent.and_then(|lent| lent.metadata.annotations.text(keys::POLICIES_APPLIED));
        let growth = if facts.is_claim_broken(physical) {
            Growth::ClaimUnreadable
        } else {
            growth(applied, &in_force, facts.memory.alone_since, now.steady, facts.binding.grow)
        };
        let (base, source) = base_of(&physical.allocatable, &physical.capacity);
        let limits: &[Limit] = terms(&in_force).map_or(&[], |terms| terms.limits.as_slice());
        let sizes = calculate(base, facts.usage, limits).with_placeholders(placeholders(facts));
        let judged = facts.memory.judged.map_or(now.wall, |judged| judged.max(now.wall));
        let window = window(&in_force, judged);
        let reclaim = reclaim(facts, &in_force, applied, window, (judged, now.wall));
        let announced = announced(facts, &in_force, applied, window, judged);
        let liveness = facts.liveness(now.steady);
        Self { physical, name, in_force, window, growth, sizes, base: source, reclaim, liveness, announced }
    }

    /// What would disrupt: a taint that becomes NoExecute, and every pod that goes now.
    pub(super) fn acts(&self, facts: &Facts<'_>, name: &NodeName) -> Option<(Cause, Vec<Act>)> {
        facts.lent?;
        let pods: Vec<_> = match &self.reclaim.evict {
            Evict::Nothing => Vec::new(),
            Evict::Evict(pods) => pods.iter().map(|pod| pod.uid.clone()).collect(),
            Evict::Delete(due) => due.iter().map(|due| due.pod.uid.clone()).collect(),
        };
        let executes = matches!(self.reclaim.taint, WindowTaint::NoExecute { .. });
        let mut acts: Vec<Act> = executes.then(|| Act::NoExecute(name.clone())).into_iter().collect();
        acts.extend(pods.into_iter().map(|pod| Act::RemovePod { node: name.clone(), pod }));
        (!acts.is_empty()).then_some((Cause::WindowClosed { announced: self.announced }, acts))
    }

    pub(super) fn conclude(mut self, facts: &Facts<'a>, leave: Leave, now: Now) -> NodeDecision<'a> {
        let mut barred = BTreeSet::new();
        let mut decision = NodeDecision::new(NodeState::Lent);
        if facts.lent.is_some() {
            decision.lease = Some(self.liveness.lease);
        }
        if self.acts(facts, &self.name).is_some() {
            let bar = facts.bars.forbid(Doing::Disrupt);
            if bar.is_some() || !matches!(leave, Leave::Given { .. }) {
                barred.extend(bar);
                self.reclaim = self.reclaim.held();
            }
            if let Leave::Gathering { until } = leave {
                decision.until(until);
            }
        }
        self.claim(facts, &mut decision, &mut barred);
        let wish = self.wish(facts, now);
        let mut details = self.write(facts, wish, now, &mut decision, &mut barred);
        self.remove_pods(facts, now, &mut decision);
        self.wake(&details.pace, &mut decision);
        if let (None, true, Some(bar)) = (facts.lent, decision.orders.is_empty(), barred.first()) {
            decision.state = NodeState::Rest(Rest::Barred(*bar));
        }
        details.barred = barred;
        decision.details = Some(Box::new(details));
        decision
    }

    /// Claims the physical node, before anything is made of it (decision S7).
    fn claim(&self, facts: &Facts<'_>, decision: &mut NodeDecision<'_>, barred: &mut BTreeSet<Bar>) {
        // The lender's admission lets no borrower change what it cannot read, and an order that is refused ends the look.
        if facts.binding.claims == NodeClaims::None || facts.is_claim_broken(self.physical) {
            return;
        }
        let is_ours = facts.claim(self.physical) == Claim::Ours;
        let wanted = self.in_force.policy_name().map(label_value);
        let there = self.physical.labels.text(keys::POLICY_APPLIED);
        // Where it is not known which policy applies, the label stays.
        let is_label_right = there == wanted.as_deref() || self.is_kept();
        if is_ours && is_label_right {
            return;
        }
        if let Some(bar) = facts.bars.forbid(Doing::Physical) {
            barred.insert(bar);
            return;
        }
        // What will not be made needs no claim.
        if facts.lent.is_none()
            && let Some(bar) = facts.bars.forbid(Doing::Create)
        {
            barred.insert(bar);
            return;
        }
        let label = if is_label_right { None } else { Some(wanted) };
        let claim = (!is_ours).then(|| facts.binding.identity.claim());
        decision.orders.push(NodeOrder::PatchPhysical {
            version: self.physical.version.clone(),
            body: objects::claim(&self.physical.version, claim, label),
        });
    }

    /// Whether the node keeps what it has, because nothing valid says what it should be.
    fn is_kept(&self) -> bool {
        matches!(self.in_force, InForce::Frozen { .. } | InForce::NotSynced)
    }

    /// Labels, annotations and taints that the virtual node should have.
    fn wish(&self, facts: &Facts<'_>, now: Now) -> Wish {
        let none = Metadata::default();
        let existing = facts.lent.map_or(&none, |lent| &lent.metadata);
        let taken: usize = existing.annotations_of_others().map(|(_, bytes)| bytes).sum();
        let from = copied::Physical {
            labels: &self.physical.labels,
            annotations: &self.physical.annotations,
            topology_keys: facts.topology_keys,
        };
        let copied = copied::copy(&from, &facts.binding.copy, taken);
        let (mut labels, mut annotations) = (copied.labels.clone(), copied.annotations.clone());
        self.own_labels(facts, &mut labels);
        self.own_annotations(facts, existing, now, &mut annotations);
        let mut crowded = None;
        if copied.is_crowded {
            annotations.retain(|key, _| !INFORMATION.contains(&key.as_str()));
            crowded = self.crowded(existing, taken);
        }
        let taints = convert(&self.physical.taints, facts.binding.default_taint, &self.own_taints(facts, existing));
        let wanted = Wanted {
            labels,
            annotations,
            taints: taints.taints.clone(),
            stamp: self.reclaim.stamp,
            ..Wanted::default()
        };
        Wish { wanted, copied, taints, crowded }
    }

    /// That the annotations of other clients leave no room for all of ours.
    fn crowded(&self, existing: &Metadata, bytes: usize) -> Option<Note> {
        let (largest, _) = existing.annotations_of_others().max_by_key(|(_, bytes)| *bytes)?;
        Some(Note::Crowded { node: self.name.clone(), bytes, largest: largest.to_owned() })
    }

    fn own_labels(&self, facts: &Facts<'_>, labels: &mut BTreeMap<String, String>) {
        labels.extend(facts.binding.identity.node_labels(&facts.binding.cluster, facts.name));
        let mut set = |key: &str, value: String| labels.insert(key.to_owned(), value);
        set(keys::PHYSICAL_NODE_UID, label_value(&self.physical.uid));
        set(NODE_TYPE.0, NODE_TYPE.1.to_owned());
        for key in INSTANCE_TYPES {
            set(key, "vnode".to_owned());
        }
        set("kubernetes.io/hostname", label_value(&self.name));
        match &self.physical.internal_ip {
            // An IPv6 address has colons, which no label value has.
            Some(address) => set(keys::PHYSICAL_NODE_INNER_IP, label_value(address)),
            None => None,
        };
    }

    fn own_annotations(
        &self,
        facts: &Facts<'_>,
        existing: &Metadata,
        now: Now,
        annotations: &mut BTreeMap<String, String>,
    ) {
        let kept = |key: &str| existing.annotations.text(key).map(str::to_owned);
        let mut set = |key: &str, value: String| annotations.insert(key.to_owned(), value);
        set(keys::PHYSICAL_NODE_NAME, facts.name.to_owned());
        set(keys::PHYSICAL_NODE_UID, self.physical.uid.to_string());
        let second = Timestamp::from_second(now.wall.as_second()).unwrap_or(now.wall);
        set(keys::LAST_SYNC_TIME, second.to_string());
        set(keys::LEASE_SUMMARY, lease_summary(&self.sizes));
        let applied = kept(keys::POLICIES_APPLIED);
        set(keys::POLICIES_APPLIED, policies_applied(applied.as_deref(), &self.in_force, self.growth).to_owned());
        match &self.in_force {
            InForce::Policy { policy, terms } => {
                set(keys::POLICY_DETAILS, policy_details(policy.name(), &terms.limits));
            }
            _ => {
                if let Some(details) = kept(keys::POLICY_DETAILS).filter(|_| self.growth != Growth::Free) {
                    set(keys::POLICY_DETAILS, details);
                }
            }
        }
        for (key, value) in self.reclaim.annotations() {
            set(key, value);
        }
        if self.keeps_window(facts) {
            for key in [keys::RECLAIM_STARTED, keys::RECLAIM_SINCE, keys::RECLAIM_GRACE, keys::RECLAIM_MARKED] {
                if let Some(value) = kept(key) {
                    set(key, value);
                }
            }
        }
    }

    /// Whether the taint of closed windows stays as it is: it is not known whether they are closed, or they opened and nothing
    /// may be enlarged now.
    fn keeps_window(&self, facts: &Facts<'_>) -> bool {
        let opens = self.reclaim.taint == WindowTaint::None && !facts.bars.allow(Doing::Enlarge);
        self.window == Window::Kept || opens
    }

    fn own_taints(&self, facts: &Facts<'_>, existing: &Metadata) -> Vec<Taint> {
        let mut own = Vec::new();
        if self.keeps_window(facts) {
            own.extend(existing.taints.iter().filter(|taint| taint.key == keys::OUT_OF_WINDOWS_TAINT).cloned());
        } else {
            own.extend(self.reclaim.taint.taint());
        }
        // Until everything else is right again, no pod is sent to a node whose cluster was gone (decision S5).
        let was_unreachable = existing.taints.iter().any(|taint| taint.key == keys::UNREACHABLE_TAINT);
        let is_healing = was_unreachable && !facts.bars.allow(Doing::Enlarge);
        if self.liveness.is_tainted || is_healing {
            own.push(Taint::unreachable());
        }
        own
    }

    /// What of all that is written now.
    fn write(
        &self,
        facts: &Facts<'_>,
        wish: Wish,
        now: Now,
        decision: &mut NodeDecision<'_>,
        barred: &mut BTreeSet<Bar>,
    ) -> Details {
        let none = ResourceList::new();
        let current = facts.lent.map_or(&none, |lent| &**lent.allocatable);
        let pace = self.pace(facts, current, now);
        let size = size_now(facts, &pace, current, barred);
        let overcommitted = Overcommitted::of(&requested_beside(facts.requested, placeholders(facts)), &size);
        let Wish { mut wanted, copied, taints, crowded } = wish;
        let conditions = self.conditions(facts, &overcommitted, &mut wanted, now);
        let mut notes = match facts.lent {
            None => self.create(facts, &wanted, &size, conditions.unwrap_or_default(), decision, barred),
            Some(lent) => self.update(facts, lent, &wanted, &size, conditions, decision, barred),
        };
        notes.extend(crowded);
        Details {
            in_force: self.in_force.to_string(),
            policy: self.in_force.policy_name().map(str::to_owned),
            sizes: self.sizes.clone(),
            base: self.base,
            growth: self.growth,
            pace,
            overcommitted,
            window: self.window,
            reclaim: self.reclaim.clone(),
            taints,
            copied,
            liveness: self.liveness,
            notes,
            barred: BTreeSet::new(),
        }
    }

    /// The size that is written, and when the rest of it.
    fn pace(&self, facts: &Facts<'_>, current: &ResourceList, now: Now) -> Pace {
        let growing = match self.growth {
            _ if facts.lent.is_none() => Growing::Allowed,
            _ if !facts.bars.allow(Doing::Enlarge) => Growing::Barred,
            Growth::Free => Growing::Allowed,
            Growth::Waits { left } => Growing::BarredUntil(now.steady.saturating_add(left)),
            Growth::Never | Growth::ClaimUnreadable => Growing::Barred,
        };
        pace(current, &self.sizes.lent(), facts.memory.grown, growing, now.steady)
    }

    /// All conditions of the virtual node, if they change and are ours to write.
    fn conditions(
        &self,
        facts: &Facts<'_>,
        overcommitted: &Overcommitted,
        wanted: &mut Wanted,
        now: Now,
    ) -> Option<Vec<NodeCondition>> {
        let none = Vec::new();
        let existing = facts.lent.map_or(&none, |lent| &lent.conditions);
        let base = facts.lent.and_then(|lent| lent.metadata.base().ok()).unwrap_or_default();
        let lease = match (self.liveness.lease, self.liveness.conditions) {
            (_, liveness::Conditions::SayUnknown) => LeaseState::Overdue,
            (Lease::Renew, _) => LeaseState::Renewed,
            (Lease::Stop(_), _) => LeaseState::Stopped,
        };
        let physical = ConditionFacts {
            physical: &self.physical.conditions,
            existing,
            mirrored: &base.conditions,
            lease,
            overcommitted,
        };
        let decided = conditions::conditions(&physical, now.wall);
        if !are_ours(self.liveness.conditions) {
            wanted.conditions = base.conditions;
            return None;
        }
        wanted.conditions = decided.mirrored;
        decided.write
    }

    fn create(
        &self,
        facts: &Facts<'_>,
        wanted: &Wanted,
        size: &ResourceList,
        conditions: Vec<NodeCondition>,
        decision: &mut NodeDecision<'_>,
        barred: &mut BTreeSet<Bar>,
    ) -> Vec<crate::merge::Note> {
        if let Some(bar) = facts.bars.forbid(Doing::Create) {
            barred.insert(bar);
            return Vec::new();
        }
        // A node that no kubelet reports would come NotReady and get no lease.
        let body = objects::create(
            &self.name,
            wanted,
            &objects::Status {
                size,
                conditions: &conditions,
                addresses: &objects::addresses(facts.binding.endpoint.as_ref(), self.physical.internal_ip.as_deref()),
                port: facts.binding.endpoint.as_ref().map(|endpoint| endpoint.port),
                info: &self.physical.info,
            },
        );
        decision.orders.push(NodeOrder::Create { name: self.name.clone(), body });
        Vec::new()
    }

    #[expect(clippy::too_many_arguments, reason = "what is there, what is wanted of it, and where the orders go")]
    fn update(
        &self,
        facts: &Facts<'_>,
        lent: &LentNode,
        wanted: &Wanted,
        size: &ResourceList,
        conditions: Option<Vec<NodeCondition>>,
        decision: &mut NodeDecision<'_>,
        barred: &mut BTreeSet<Bar>,
    ) -> Vec<crate::merge::Note> {
        if let Some(bar) = facts.bars.forbid(Doing::Mirror) {
            barred.insert(bar);
            self.protect(facts, lent, conditions, decision, barred);
            return Vec::new();
        }
        let Merge { patch, riders, notes } = merge(wanted, &lent.metadata);
        let status = objects::status_changes(
            lent,
            &objects::Status {
                size,
                conditions: conditions.as_deref().unwrap_or(&[]),
                addresses: &objects::addresses(facts.binding.endpoint.as_ref(), self.physical.internal_ip.as_deref()),
                port: facts.binding.endpoint.as_ref().map(|endpoint| endpoint.port),
                info: &self.physical.info,
            },
        );
        let (name, version) = (self.name.clone(), lent.version.clone());
        let (there, also_status) = (&lent.metadata, status.is_some() || lacks_finalizer(lent));
        // What goes with a status alone is in the patch already, where there is one.
        let riders = if patch.is_some() { BTreeMap::new() } else { fitting(riders, &there.annotations) };
        let (first, second) = match patch {
            // Taints and all metadata go in one request: a boundary of windows is one write for each node (decision S17).
            Some(whole) if whole.changes_spec() && !also_status => {
                let body = objects::spec_patch(Some(&version), &whole.fitting(there));
                decision.orders.push(NodeOrder::PatchSpec { name, version: Some(version), body });
                return notes;
            }
            patch => patch.map(MetadataPatch::in_two).unwrap_or_default(),
        };
        let first = first.map(|first| first.fitting(there)).filter(|first| !first.is_empty());
        // The answer about the status says in which version the node is then.
        let second = second.map(|second| match &first {
            Some(first) => second.fitting(&first.onto(there)),
            None => second.fitting(there),
        });
        if first.is_some() || also_status {
            let body = objects::status_patch(lent, first.as_ref(), &riders, status);
            let heals = self.liveness.conditions == liveness::Conditions::Heal;
            decision.orders.push(NodeOrder::PatchStatus { name, version, body, heals });
        }
        if let Some(second) = second.filter(|second| !second.is_empty()) {
            let body = objects::spec_patch(None, &second);
            decision.orders.push(NodeOrder::PatchSpec { name: self.name.clone(), version: None, body });
        }
        notes
    }

    /// What is written although nothing may be mirrored: a taint that keeps pods away, and Ready where node-lifecycle has not
    /// set it to Unknown in time (decision S5).
    fn protect(
        &self,
        facts: &Facts<'_>,
        lent: &LentNode,
        conditions: Option<Vec<NodeCondition>>,
        decision: &mut NodeDecision<'_>,
        barred: &mut BTreeSet<Bar>,
    ) {
        if let Some(bar) = facts.bars.forbid(Doing::Protect) {
            barred.insert(bar);
            return;
        }
        let says_unknown = self.liveness.conditions == liveness::Conditions::SayUnknown;
        let mut version = Some(lent.version.clone());
        if let Some(conditions) = conditions.filter(|_| says_unknown) {
            let status = objects::conditions_only(&conditions);
            let body = objects::status_patch(lent, None, &BTreeMap::new(), Some(status));
            let name = self.name.clone();
            decision.orders.push(NodeOrder::PatchStatus { name, version: lent.version.clone(), body, heals: false });
            version = None;
        }
        let wanted = [self.liveness.is_tainted.then(Taint::unreachable), self.closing()];
        let missing: Vec<Taint> = wanted.into_iter().flatten().filter(|taint| !has(lent, taint)).collect();
        if !missing.is_empty() {
            let taints: Vec<Taint> = lent.metadata.taints.iter().cloned().chain(missing).collect();
            let body = objects::taints_patch(version.as_ref(), &taints);
            decision.orders.push(NodeOrder::PatchSpec { name: self.name.clone(), version, body });
        }
    }

    /// The taint of windows that closed, where it moves no pod.
    fn closing(&self) -> Option<Taint> {
        self.reclaim.taint.taint().filter(|taint| taint.effect == Effect::NoSchedule)
    }

    /// The pods that go now.
    fn remove_pods(&self, facts: &Facts<'_>, now: Now, decision: &mut NodeDecision<'_>) {
        let removal = |uid: &topoloom_core::names::Uid, means| {
            let pod = facts.pods.iter().find(|pod| pod.pod.uid == *uid)?;
            PodRemoval::of(pod, means)
        };
        let is_due = |due: &&DuePod| due.due <= now.wall;
        let mut removals: Vec<PodRemoval> = match &self.reclaim.evict {
            Evict::Nothing => Vec::new(),
            Evict::Evict(pods) => pods.iter().filter_map(|pod| removal(&pod.uid, RemovalMeans::Eviction)).collect(),
            Evict::Delete(due) => {
                let due = due.iter().filter(is_due);
                due.filter_map(|due| removal(&due.pod.uid, RemovalMeans::Delete)).collect()
            }
        };
        let slow = self.reclaim.shorten.iter().filter(is_due);
        removals.extend(slow.filter_map(|due| removal(&due.pod.uid, RemovalMeans::Shorten)));
        if !removals.is_empty() {
            decision.orders.push(NodeOrder::RemovePods(removals));
        }
    }

    /// When the answer changes by itself.
    fn wake(&self, pace: &Pace, decision: &mut NodeDecision<'_>) {
        if let Window::Open { until: Some(until) } | Window::Closed { until: Some(until) } = self.window {
            decision.until(until);
        }
        if let Some(next) = self.reclaim.next {
            decision.until(next);
        }
        if let Some(next) = self.liveness.next {
            decision.until_steady(next);
        }
        if let Pace::Partial { rest, .. } | Pace::Wait(rest) = pace
            && let RestOfSize::Interval { at } | RestOfSize::BarredUntil { at } = rest
        {
            decision.until_steady(*at);
        }
    }
}

/// What a virtual node should carry.
struct Wish {
    wanted: Wanted,
    copied: Copied,
    taints: Converted,
    /// That not all of it finds room.
    crowded: Option<Note>,
}

/// The placeholders for host ports that the virtual scheduler counts on the node.
fn placeholders(facts: &Facts<'_>) -> usize {
    facts.pods.iter().filter(|pod| pod.class == PodClass::Placeholder && !pod.phase.is_final()).count()
}

/// The terms of the policy in force.
fn terms<'a>(in_force: &InForce<'a>) -> Option<&'a PolicyTerms> {
    match in_force {
        InForce::Policy { terms, .. } => Some(terms),
        _ => None,
    }
}

fn window(in_force: &InForce<'_>, now: Timestamp) -> Window {
    let schedule = match in_force {
        InForce::Policy { terms, .. } => &terms.schedule,
        InForce::Frozen { .. } | InForce::NotSynced => return Window::Kept,
        InForce::LeaseAll | InForce::Withdraw | InForce::OutsideBinding => return Window::Always,
    };
    if schedule.windows().is_empty() {
        return Window::Always;
    }
    let until = schedule.next_transition(now);
    if schedule.is_open(now).is_open() { Window::Open { until } } else { Window::Closed { until } }
}

fn reclaim(
    facts: &Facts<'_>,
    in_force: &InForce<'_>,
    applied: Option<&str>,
    window: Window,
    (judged, now): (Timestamp, Timestamp),
) -> Reclaim {
    let terms = terms(in_force);
    let window = match (window, terms) {
        (Window::Closed { .. }, Some(terms)) => reclaim::Window::Outside(terms.on_close),
        _ => reclaim::Window::Inside,
    };
    // A closing of another policy is not the one that the clock on the node was started by.
    let is_same_policy = in_force.policy_name().is_some_and(|name| applied == Some(name));
    let closed = match (window, terms) {
        (reclaim::Window::Outside(_), Some(terms)) if is_same_policy => terms.schedule.last_closing(judged),
        _ => None,
    };
    let nothing = Metadata::default();
    let metadata = facts.lent.map_or(&nothing, |lent| &lent.metadata);
    let pods: Vec<reclaim::Pod> = facts.pods.iter().map(super::LentPod::reclaimed).collect();
    let of = reclaim::Facts {
        window,
        taints: &metadata.taints,
        annotations: &metadata.annotations,
        closed,
        judged,
        stepped: facts.memory.stepped,
        remembered: facts.closing(),
        pods: &pods,
    };
    reclaim::decide(&of, now)
}

/// A node that is marked this long after its windows closed is marked for that: 5 000 nodes take half a minute, and a syncer
/// that starts at that moment takes as long to list them.
const MARKED_WITHIN: SignedDuration = SignedDuration::from_secs(120);

/// For how long the closing that the pods of the node leave for had been announced (decision S9). For no time, where the node
/// came under the policy when its windows were closed already: then the edit that moved it takes the pods away.
fn announced(
    facts: &Facts<'_>,
    in_force: &InForce<'_>,
    applied: Option<&str>,
    window: Window,
    now: Timestamp,
) -> Duration {
    let (InForce::Policy { policy, terms }, Window::Closed { .. }) = (in_force, window) else { return Duration::ZERO };
    let Some(closed) = terms.schedule.last_closing(now) else { return Duration::ZERO };
    let nothing = Metadata::default();
    let Metadata { taints, annotations, .. } = facts.lent.map_or(&nothing, |lent| &lent.metadata);
    let is_same_policy = applied == Some(policy.name());
    let is_cause = match reclaim::marked(taints, annotations, facts.closing()) {
        // One without a time says nothing of why it is there.
        None => is_same_policy && taints.iter().all(|taint| taint.key != keys::OUT_OF_WINDOWS_TAINT),
        Some(marked) => {
            let late = marked.duration_since(closed);
            // A mark of an earlier closing: the windows opened and closed again meanwhile.
            if late.is_negative() { is_same_policy } else { late <= MARKED_WITHIN }
        }
    };
    if is_cause { policy.object().announced.before(closed) } else { Duration::ZERO }
}

/// The size that the node has after this pass.
fn size_now(facts: &Facts<'_>, pace: &Pace, current: &ResourceList, barred: &mut BTreeSet<Bar>) -> ResourceList {
    let (Pace::Write { sizes, .. } | Pace::Partial { sizes, .. }) = pace else { return current.clone() };
    // A node that does not exist has no size to change.
    if facts.lent.is_some()
        && let Some(bar) = facts.bars.forbid(Doing::Shrink)
    {
        barred.insert(bar);
        return current.clone();
    }
    sizes.clone()
}

/// Whether a virtual node has a taint of this key and effect.
fn has(lent: &LentNode, wanted: &Taint) -> bool {
    lent.metadata.taints.iter().any(|taint| taint.id() == wanted.id())
}

fn lacks_finalizer(lent: &LentNode) -> bool {
    lent.finalizer() == crate::deletion::Finalizer::Absent
}
