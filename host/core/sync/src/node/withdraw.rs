//! A node that is not lent any more: the steps of [`deletion`](crate::deletion) as requests (6.9, decisions S9, S10).

use super::facts::{Facts, LentNode, LentPod, LiveNode, NodeClaims, Now, PodsBy};
use super::objects;
use super::orders::{NodeOrder, PodRemoval, RemovalMeans};
use super::{NodeDecision, NodeState, Question};
use crate::bars::Doing;
use crate::deletion::{
    BoundPod, DeletedNode, DeletionCause, DeletionFacts, DeletionStep, Existence, Leave, Removal, next_step,
};
use crate::guard::{Act, Cause};
use crate::identity::{Claim, Earlier};
use crate::keys;
use crate::merge::{Cordon, MetadataPatch};
use crate::taints::Taint;
use topoloom_core::names::NodeName;

/// What would disrupt: the deletion of the node and of every pod that still runs on it.
///
/// A node whose deletion was requested is deleted, and Kubernetes has no undo. Where the syncer did it the guard was asked
/// before; where another client did it, the node counts for as long as pods run on it. Without pods nothing is left to
/// disrupt: its finalizer goes at once. Pods that the guard does not [count](crate::deletion::PodClass::counts) are no act.
pub(super) fn acts(facts: &Facts<'_>, cause: DeletionCause, name: &NodeName) -> Option<(Cause, Vec<Act>)> {
    let lent = facts.lent?;
    let runs = |pod: &&LentPod| !pod.phase.is_final() && pod.existence == Existence::Alive;
    let running = facts.pods.iter().filter(runs).filter(|pod| pod.class.counts());
    let pods = running.map(|pod| Act::RemovePod { node: name.clone(), pod: pod.pod.uid.clone() });
    let mut acts: Vec<Act> = pods.collect();
    let is_asked_for_itself = match lent.existence {
        Existence::Alive => true,
        Existence::Terminating => cause == DeletionCause::DeletedByOthers && !acts.is_empty(),
    };
    if is_asked_for_itself {
        acts.push(Act::DeleteNode(name.clone()));
    }
    (!acts.is_empty()).then(|| (guarded(facts, cause), acts))
}

/// The cause, as the guard counts it.
fn guarded(facts: &Facts<'_>, cause: DeletionCause) -> Cause {
    match cause {
        // A node that is being deleted still exists: only a live read that found none is a proof.
        DeletionCause::NodeGone if *facts.live != LiveNode::Gone => Cause::NodeTerminating,
        DeletionCause::NodeGone | DeletionCause::NodeReplaced => Cause::NodeGone,
        DeletionCause::Selector => Cause::Selector,
        DeletionCause::Withdrawn => Cause::Policy,
        DeletionCause::BindingDeleted => Cause::BindingDeleted,
        DeletionCause::Operator => Cause::Operator,
        DeletionCause::DeletedByOthers => Cause::DeletedByOthers,
        DeletionCause::Claimed => Cause::Claimed,
    }
}

pub(super) fn conclude<'a>(facts: &Facts<'a>, cause: DeletionCause, leave: Leave, now: Now) -> NodeDecision<'a> {
    let mut decision = NodeDecision::new(NodeState::Leaving(cause));
    let pods: Vec<BoundPod> = facts.pods.iter().map(super::LentPod::bound).collect();
    let node = facts.lent.map(deleted);
    let step = next_step(
        &DeletionFacts {
            cause,
            node: node.as_ref(),
            pods: &pods,
            bars: facts.bars,
            leave,
            evictions: facts.binding.evictions,
            timing: facts.binding.deletion,
        },
        now.wall,
    );
    let Some(lent) = facts.lent else {
        release(facts, &mut decision);
        return decision;
    };
    let liveness = facts.liveness(now.steady);
    decision.lease = Some(liveness.lease);
    if let Some(next) = liveness.next {
        decision.until_steady(next);
    }
    carry(facts, lent, step, &mut decision, now);
    take_over_claim(facts, &mut decision);
    decision
}

/// The claim of a binding that had our name and is gone becomes ours while its virtual node is there: afterwards no binding would
/// release it.
fn take_over_claim(facts: &Facts<'_>, decision: &mut NodeDecision<'_>) {
    let Some(physical) = facts.present() else { return };
    let Claim::OtherBinding(uid) = facts.claim(physical) else { return };
    let is_asking = matches!(decision.orders.first(), Some(NodeOrder::Ask(_)));
    let may_write = facts.binding.claims == NodeClaims::Written && facts.bars.allow(Doing::Physical);
    if may_write && !is_asking && facts.earlier(&uid) == Earlier::Gone {
        let body = objects::claim(&physical.version, Some(facts.binding.identity.claim()), Some(None));
        decision.orders.push(NodeOrder::PatchPhysical { version: physical.version.clone(), body });
    }
}

fn deleted(lent: &LentNode) -> DeletedNode {
    DeletedNode {
        uid: lent.uid.clone(),
        version: lent.version.clone(),
        marked: lent.marked(),
        cordon: lent.metadata.cordon,
        existence: lent.existence,
        finalizer: lent.finalizer(),
    }
}

/// The requests of a step.
fn carry(facts: &Facts<'_>, lent: &LentNode, step: DeletionStep, decision: &mut NodeDecision<'_>, now: Now) {
    let Ok(name) = crate::naming::virtual_node_name(&facts.binding.cluster, facts.name) else { return };
    match step {
        DeletionStep::Mark => {
            unlabel(facts, decision);
            decision.orders.push(mark(lent, name, now));
        }
        DeletionStep::Wait { until, .. } => {
            if let Some(until) = until {
                decision.until(until);
            }
        }
        DeletionStep::Remove { pods, look } => {
            decision.until(look);
            let removal = |(uid, removal): (_, Removal)| {
                let pod = facts.pods.iter().find(|pod| pod.pod.uid == uid)?;
                let means = match removal {
                    Removal::Evict => RemovalMeans::Eviction,
                    Removal::Delete => RemovalMeans::Delete,
                    Removal::Shorten => RemovalMeans::Shorten,
                };
                PodRemoval::of(pod, means)
            };
            decision.orders.push(NodeOrder::RemovePods(pods.into_iter().filter_map(removal).collect()));
        }
        // A pod that was bound a moment before the mark may not have been shown.
        DeletionStep::Delete { .. } | DeletionStep::RemoveFinalizer { .. } if facts.pods_by == PodsBy::Watch => {
            decision.orders.push(NodeOrder::Ask(Question::PodsOfNode));
        }
        DeletionStep::Delete { precondition } => {
            decision.lease = None;
            decision.orders.push(NodeOrder::StopLease(name.clone()));
            decision.orders.push(NodeOrder::Delete { name, precondition });
        }
        DeletionStep::RemoveFinalizer { .. } => {
            decision.lease = None;
            decision.orders.push(NodeOrder::StopLease(name.clone()));
            decision.orders.push(NodeOrder::RemoveFinalizer { name, body: objects::without_finalizer(lent) });
        }
        DeletionStep::LeftToOthers => {
            decision.lease = None;
            decision.orders.push(NodeOrder::StopLease(name));
        }
        DeletionStep::ReleaseClaim => release(facts, decision),
    }
}

/// Taint, cordon and time, in one write. What else is on the node stays: nothing but this is known to be wanted. Only what informs
/// makes room where annotations have none.
fn mark(lent: &LentNode, name: NodeName, now: Now) -> NodeOrder {
    let mut patch = MetadataPatch::default();
    let is_mark = |taint: &&Taint| taint.id() == Taint::deleting().id();
    let taints = &lent.metadata.taints;
    if !taints.iter().any(|taint| is_mark(&taint)) {
        patch.taints = Some(taints.iter().cloned().chain([Taint::deleting()]).collect());
    }
    let time = lent.metadata.annotations.get(keys::DELETION_TAINT_TIME);
    let is_dated = time.is_some_and(|time| time.parse::<jiff::Timestamp>().is_ok());
    if !is_dated {
        patch.annotations.insert(keys::DELETION_TAINT_TIME.to_owned(), Some(format!("{:.0}", now.wall)));
    }
    if !lent.is_cordoned() {
        patch.cordon = Some(Cordon::Cordoned);
        patch.annotations.insert(keys::CORDONED.to_owned(), Some("true".to_owned()));
    }
    let mut patch = patch.fitting(&lent.metadata);
    if !is_dated && !patch.annotations.contains_key(keys::DELETION_TAINT_TIME) {
        // The time finds no room among the annotations, and stands at the taint.
        let mark = Taint { time_added: Some(now.wall), ..Taint::deleting() };
        patch.taints = Some(taints.iter().filter(|taint| !is_mark(taint)).cloned().chain([mark]).collect());
    }
    let body = objects::spec_patch(Some(&lent.version), &patch);
    NodeOrder::PatchSpec { name, version: Some(lent.version.clone()), body }
}

/// Takes the label of the policy off the physical node: step 0, which holds up nothing.
fn unlabel(facts: &Facts<'_>, decision: &mut NodeDecision<'_>) {
    release_what(facts, decision, false);
}

/// Takes label and claim off the physical node, once its virtual node is gone.
fn release(facts: &Facts<'_>, decision: &mut NodeDecision<'_>) {
    release_what(facts, decision, true);
}

fn release_what(facts: &Facts<'_>, decision: &mut NodeDecision<'_>, also_claim: bool) {
    let Some(physical) = facts.present() else { return };
    let is_ours = facts.claim(physical) == Claim::Ours;
    let is_labelled = physical.labels.contains_key(keys::POLICY_APPLIED);
    let is_due = is_ours && (also_claim || is_labelled);
    if is_due && facts.binding.claims == NodeClaims::Written && facts.bars.allow(Doing::Physical) {
        let body = objects::release(&physical.version, also_claim);
        decision.orders.push(NodeOrder::ReleasePhysical { body });
    }
}
