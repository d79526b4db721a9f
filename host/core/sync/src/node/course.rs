//! What becomes of a node: whose it is, whether it goes, and whether it is lent (6.1, 6.2 steps 1 to 7, decisions S6, S7, S8,
//! S22).

use super::facts::{Chained, Facts, LentNode, LiveLent, LiveNode, NodeClaims, Physical, PhysicalNode, VerbOnNode};
use super::{NotLendable, Question, Rest};
use crate::bars::Doing;
use crate::deletion::{DeletionCause, Existence};
use crate::identity::{Claim, Earlier, Owner};
use crate::keys;
use crate::naming::same_origin;
use crate::policy::in_force::{BindingFacts, InForce, NodeFacts};
use crate::texts::Keyed;
use topoloom_core::names::Uid;

/// Values of the labels of an instance type by which virtual nodes are known (6.1).
const VIRTUAL_TYPES: [&str; 3] = ["external", "vnode", "eklet"];
/// The labels of an instance type.
pub(super) const INSTANCE_TYPES: [&str; 2] = ["node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"];
/// The label of a virtual node, and its value.
pub(super) const NODE_TYPE: (&str, &str) = ("type", "virtual-kubelet");

/// What becomes of a node.
#[derive(Debug)]
pub enum Course<'a> {
    /// Nothing.
    Rest(Rest<'a>),
    /// Something has to be read first.
    Ask(Question),
    /// Its virtual node goes.
    Withdraw(DeletionCause),
    /// It is lent, under this.
    Lend(&'a PhysicalNode, InForce<'a>),
}

/// Decides what becomes of a node.
pub(super) fn course<'a>(facts: &Facts<'a>) -> Course<'a> {
    let first = match facts.lent {
        Some(lent) => not_ours(facts, lent),
        None => hidden(facts),
    };
    if let Some(course) = first {
        return course;
    }
    if facts.verb == VerbOnNode::Detach {
        // Also where nothing is known of the machine: no one will ever know more.
        return match facts.lent {
            Some(_) => Course::Withdraw(DeletionCause::Operator),
            None => Course::Rest(Rest::Left(DeletionCause::Operator)),
        };
    }
    let physical = match facts.physical {
        Physical::Unlisted => return Course::Rest(Rest::Unlisted),
        Physical::Absent => return absent(facts),
        Physical::Present(physical) => physical,
    };
    if physical.existence == Existence::Terminating {
        return leave(facts, physical, DeletionCause::NodeGone);
    }
    if let Some(course) = facts.lent.and_then(|lent| replaced(facts, lent, physical)) {
        return course;
    }
    if facts.binding.existence == Existence::Terminating {
        return leave(facts, physical, DeletionCause::BindingDeleted);
    }
    if facts.verb == VerbOnNode::Remove {
        return leave(facts, physical, DeletionCause::Operator);
    }
    if let Some(why) = not_lendable(facts, physical) {
        return match facts.lent {
            Some(_) => leave(facts, physical, DeletionCause::Selector),
            None => Course::Rest(Rest::NotLendable(why)),
        };
    }
    lend(facts, physical)
}

/// A virtual node that is not ours, or not this node's, is left alone.
///
/// Our claim on the machine stays, too. It comes before the virtual node (decision S7), so it is written before it shows that the name
/// is taken; it says that the binding wants the machine, which is lent as soon as the name is free, and the first claim stays. One that
/// was released here would be written again with each try: two writes where nothing is lent. It goes when the binding does not select
/// the machine any more ([`leave`]).
fn not_ours<'a>(facts: &Facts<'a>, lent: &LentNode) -> Option<Course<'a>> {
    match facts.owner(lent) {
        Owner::Ours | Owner::Adoptable(_) => {}
        Owner::Unknown(uid) => return Some(Course::Ask(Question::Binding(uid))),
        Owner::Foreign(why) => {
            let stripped = facts.stripped(lent).map(Rest::Stripped);
            return Some(Course::Rest(stripped.unwrap_or(Rest::Foreign(why))));
        }
    }
    // A label that a person edited is repaired. So the annotation has to name another node, too.
    let annotation = lent.metadata.annotations.text(keys::PHYSICAL_NODE_NAME);
    if annotation == Some(facts.name) {
        return None;
    }
    let wanted = facts.binding.identity.node_labels(&facts.binding.cluster, facts.name);
    let taken = same_origin(&lent.metadata.labels, &wanted).err()?;
    Some(match (facts.physical, facts.live) {
        (Physical::Absent, LiveNode::Unasked) => Course::Ask(Question::PhysicalNode),
        (Physical::Absent, LiveNode::Gone) => Course::Rest(Rest::Astray),
        _ => Course::Rest(Rest::NameTaken(taken)),
    })
}

/// The cache has no virtual node. One that was ours may be there, without the labels by which its watch shows it: before anything
/// follows from its absence it is read live, and one that is there keeps its lease, and its claim on the machine.
fn hidden<'a>(facts: &Facts<'a>) -> Option<Course<'a>> {
    match facts.live_lent {
        LiveLent::Unasked => facts.known.is_some().then_some(Course::Ask(Question::LentNode)),
        LiveLent::Gone => None,
        LiveLent::Found(_) => {
            let lent = facts.hidden()?;
            Some(Course::Rest(facts.stripped(lent).map_or(Rest::CacheBehind, Rest::Stripped)))
        }
    }
}

/// The cache has no physical node of that name. Only a live read proves that there is none.
fn absent<'a>(facts: &Facts<'a>) -> Course<'a> {
    match (facts.lent, facts.live) {
        (None, _) => Course::Rest(Rest::Absent),
        (Some(_), LiveNode::Unasked) => Course::Ask(Question::PhysicalNode),
        (Some(_), LiveNode::Gone) => Course::Withdraw(DeletionCause::NodeGone),
        (Some(_), LiveNode::Found(_)) => Course::Rest(Rest::CacheBehind),
    }
}

/// Whether another machine has taken the name. What the virtual node says of the UID may have been edited (decision S22): the
/// claim on the physical node decides, and where there is none a live read.
fn replaced<'a>(facts: &Facts<'a>, lent: &LentNode, physical: &PhysicalNode) -> Option<Course<'a>> {
    if lent.names_uid(&physical.uid) || facts.claim(physical) == Claim::Ours {
        return None;
    }
    Some(match facts.live {
        LiveNode::Unasked => Course::Ask(Question::PhysicalNode),
        LiveNode::Gone => Course::Withdraw(DeletionCause::NodeGone),
        LiveNode::Found(uid) if *uid == physical.uid => Course::Withdraw(DeletionCause::NodeReplaced),
        LiveNode::Found(_) => Course::Rest(Rest::CacheBehind),
    })
}

/// The node is not lent any more. Where nothing of ours is left there is nothing to do. A claim goes after its virtual node, and
/// the cache is no proof that there is none: the answer to the request that made it may have been lost.
fn leave<'a>(facts: &Facts<'a>, physical: &PhysicalNode, cause: DeletionCause) -> Course<'a> {
    if facts.lent.is_some() {
        return match facts.claim(physical) {
            // It is taken over if that binding is gone, or it would stay for ever.
            Claim::OtherBinding(uid) if takes_over(facts, &uid) => Course::Ask(Question::Binding(uid)),
            Claim::Free | Claim::Ours | Claim::OtherBinding(_) | Claim::Other { .. } | Claim::Malformed(_) => {
                Course::Withdraw(cause)
            }
        };
    }
    let is_claimed = facts.binding.claims == NodeClaims::Written && facts.claim(physical) == Claim::Ours;
    if !is_claimed {
        return Course::Rest(Rest::Left(cause));
    }
    match facts.live_lent {
        // Nothing is released now, so nothing is read for it.
        _ if !facts.bars.allow(Doing::Physical) => Course::Withdraw(cause),
        LiveLent::Unasked => Course::Ask(Question::LentNode),
        LiveLent::Found(lent) if facts.may_be_ours(&lent.metadata.labels) => Course::Rest(Rest::CacheBehind),
        LiveLent::Gone | LiveLent::Found(_) => Course::Withdraw(cause),
    }
}

/// Whether it has to be known of the binding with this UID, which claims the node, that it is gone.
fn takes_over(facts: &Facts<'_>, uid: &Uid) -> bool {
    facts.binding.claims == NodeClaims::Written
        && facts.earlier(uid) == Earlier::Unlisted
        && facts.bars.allow(Doing::Physical)
}

/// Whether the physical node is itself a virtual one (6.1). It is asked on every decision, whatever triggered it (S15).
fn not_lendable(facts: &Facts<'_>, physical: &PhysicalNode) -> Option<NotLendable> {
    let is_of_topoloom = physical.labels.get(keys::MANAGED_BY_LABEL).is_some_and(|by| by == keys::MANAGED_BY);
    if is_of_topoloom && physical.labels.contains_key(keys::VIRTUAL_CLUSTER) {
        return (facts.binding.chained == Chained::Refused).then_some(NotLendable::Chained);
    }
    let virtual_type = |key: &'static str| {
        let value = physical.labels.text(key)?;
        VIRTUAL_TYPES.contains(&value).then(|| NotLendable::VirtualNode { key, value: value.to_owned() })
    };
    INSTANCE_TYPES.into_iter().find_map(virtual_type).or_else(|| {
        let (key, virtual_kubelet) = NODE_TYPE;
        let value = physical.labels.text(key)?;
        (value == virtual_kubelet).then(|| NotLendable::VirtualNode { key, value: value.to_owned() })
    })
}

/// What the policies say, and then whether the node may be claimed.
fn lend<'a>(facts: &Facts<'a>, physical: &'a PhysicalNode) -> Course<'a> {
    let binding = facts.binding;
    let bound =
        BindingFacts { name: binding.identity.binding(), selector: &binding.selector, no_policy: binding.no_policy };
    let in_force = facts.policies.in_force(&bound, &NodeFacts { name: facts.name, labels: &physical.labels });
    match in_force {
        InForce::OutsideBinding => return leave(facts, physical, DeletionCause::Selector),
        InForce::Withdraw => return leave(facts, physical, DeletionCause::Withdrawn),
        InForce::Frozen { .. } | InForce::NotSynced if facts.lent.is_none() => {
            return Course::Rest(Rest::NotLent(in_force));
        }
        InForce::Frozen { .. } | InForce::NotSynced | InForce::Policy { .. } | InForce::LeaseAll => {}
    }
    if facts.lent.is_some_and(|lent| lent.existence == Existence::Terminating) {
        return Course::Withdraw(DeletionCause::DeletedByOthers);
    }
    match claimable(facts, physical) {
        Ok(()) => Course::Lend(physical, in_force),
        Err(course) => course,
    }
}

/// Whether the claim on a physical node is ours, or can become ours (decision S7).
fn claimable<'a>(facts: &Facts<'a>, physical: &PhysicalNode) -> Result<(), Course<'a>> {
    if facts.binding.claims == NodeClaims::None {
        return Ok(());
    }
    let claim = facts.claim(physical);
    let earlier = |uid: &Uid| facts.earlier(uid);
    match &claim {
        Claim::Free | Claim::Ours => Ok(()),
        Claim::OtherBinding(uid) => match earlier(uid) {
            Earlier::Unlisted => Err(Course::Ask(Question::Binding(uid.clone()))),
            Earlier::Gone => Ok(()),
            Earlier::Stands => Err(claimed(facts, claim)),
        },
        Claim::Other { .. } => Err(claimed(facts, claim)),
        // A typing error is the claim of no one. What is lent goes on: a node that rests is not made smaller, and is not emptied
        // when its windows close.
        Claim::Malformed(_) if facts.lent.is_some() => Ok(()),
        Claim::Malformed(_) => Err(Course::Rest(Rest::Claimed(claim))),
    }
}

/// Another has the physical node. A virtual node of ours for it goes: two borrowers would fill one machine. Not while the claim
/// may be one of another history.
fn claimed<'a>(facts: &Facts<'a>, claim: Claim) -> Course<'a> {
    if facts.lent.is_some() && !facts.bars.doubt_claims() {
        Course::Withdraw(DeletionCause::Claimed)
    } else {
        Course::Rest(Rest::Claimed(claim))
    }
}
