//! A virtual node of ours that leads to no physical one: a copy that a person made of another, or one whose names of its machine were
//! edited while that went.
//!
//! Owns what is done about one: next to nothing. No machine stands behind it, so its lease is not renewed; what it says may be of
//! another, so it is not emptied or deleted. A person deletes it, and then our finalizer goes as soon as no pod is left.

use super::Question;
use super::facts::{Facts, LentNode, LentPod, PodsBy};
use super::objects;
use super::orders::NodeOrder;
use crate::bars::{Bars, Doing};
use crate::deletion::{DeletionCause, Existence, Finalizer, blocks};
use crate::identity::Owner;
use crate::naming::virtual_node_name;
use topoloom_core::names::NodeName;

/// What is known of one.
#[derive(Debug, Clone)]
pub struct Astray<'a> {
    /// Its name.
    pub name: &'a NodeName,
    /// The node.
    pub lent: &'a LentNode,
    /// Whose it is.
    pub owner: Owner,
    /// Its pods.
    pub pods: &'a [LentPod],
    /// How they were read.
    pub pods_by: PodsBy,
    /// What may not be written.
    pub bars: &'a Bars,
}

/// What to do about a virtual node that leads to no physical one. Its lease is not renewed.
#[must_use]
pub fn leave_astray(facts: &Astray<'_>) -> Vec<NodeOrder> {
    let Astray { name, lent, owner, pods, pods_by, bars } = facts;
    let is_kept_by_us = lent.existence == Existence::Terminating && lent.finalizer() == Finalizer::Present;
    if !is_kept_by_us || !bars.allow(Doing::Disrupt) {
        return Vec::new();
    }
    match owner {
        Owner::Ours | Owner::Adoptable(_) => {}
        Owner::Unknown(uid) => return vec![NodeOrder::Ask(Question::Binding(uid.clone()))],
        Owner::Foreign(_) => return Vec::new(),
    }
    if pods.iter().any(|pod| blocks(&pod.bound(), DeletionCause::DeletedByOthers)) {
        return Vec::new();
    }
    if *pods_by == PodsBy::Watch {
        return vec![NodeOrder::Ask(Question::PodsOfNode)];
    }
    let name = NodeName::clone(name);
    let body = objects::without_finalizer(lent);
    vec![NodeOrder::StopLease(name.clone()), NodeOrder::RemoveFinalizer { name, body }]
}

/// The same for one under the name that a physical node gives.
pub(super) fn orders(facts: &Facts<'_>) -> Vec<NodeOrder> {
    let (Some(lent), Ok(name)) = (facts.lent, virtual_node_name(&facts.binding.cluster, facts.name)) else {
        return Vec::new();
    };
    let owner = facts.owner(lent);
    leave_astray(&Astray { name: &name, lent, owner, pods: facts.pods, pods_by: facts.pods_by, bars: facts.bars })
}
