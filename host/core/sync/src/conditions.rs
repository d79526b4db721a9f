//! The conditions of a virtual node: those of its physical node, our own, and those of others (`bottomup-syncer.md` 6.6,
//! decisions S4, S5 and S14).
//!
//! This room owns which conditions a virtual node should have and whether that differs from what it has. A status patch
//! replaces the whole list, so that the answer is the whole list or nothing. It never decides whether the lease is
//! renewed; that is an input.
//!
//! Rules:
//!
//! * Type, status, reason and message are mirrored. Heartbeats are not: node-lifecycle counts the lease, and a kubelet's
//!   heartbeat every few minutes would be a write per node for nothing.
//! * `lastTransitionTime` moves with the status and never back. It is the physical one where that is newer than the
//!   one of the virtual node. It is now where the virtual node has had another status in between, as after an outage. By itself
//!   it is no reason to write.
//! * While our lease is stopped, a condition with status Unknown belongs to node-lifecycle. If we wrote it too, both would
//!   write for ever.
//! * A condition that was mirrored and that the physical node no longer has goes, except those that node-lifecycle needs:
//!   without Ready it would treat the node as one that never reported.
//! * Every other condition belongs to another client and stays as it is, with its heartbeat.
//!
//! Failure story: a status word that this version does not know is kept as it is. Of two conditions of one type the first
//! counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;

use super::sizes::overcommit::Overcommitted;
use super::texts::Text;
use super::truth::Truth;

#[cfg(test)]
mod tests;

/// Type of the condition that shows whether the kubelet lives.
pub const READY: &str = "Ready";

/// Type of our own condition: pods have more of a resource than is lent now (decision S14).
pub const OVERCOMMITTED: &str = "Overcommitted";

/// Reason of a Ready that the syncer itself sets to Unknown (decision S5).
pub const UNREACHABLE_REASON: &str = "PhysicalClusterUnreachable";

/// Conditions that node-lifecycle adds where they are missing, and sets to Unknown where the lease is too old.
const NODE_LIFECYCLE: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// A condition of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeCondition {
    /// Its type.
    pub kind: Text,
    /// Whether it holds.
    pub status: Truth,
    /// Why, in one word.
    pub reason: Text,
    /// Why, for people.
    pub message: Text,
    /// When its writer looked last. Never set in what the syncer writes itself.
    pub last_heartbeat: Option<Timestamp>,
    /// When its status changed last.
    pub last_transition: Option<Timestamp>,
}

impl NodeCondition {
    /// Whether both are equal but for their times.
    #[must_use]
    pub fn is_equal_but_for_times(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.status == other.status
            && self.reason == other.reason
            && self.message == other.message
    }
}

/// The lease of a virtual node, as far as conditions depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeaseState {
    /// It is renewed: the physical node lives, or is taken to live for now.
    Renewed,
    /// It is not renewed. Whether the node is Unknown, and since when, is left to node-lifecycle.
    Stopped,
    /// It is not renewed, and node-lifecycle should have set Ready to Unknown by now. Where it has not, the syncer does.
    Overdue,
}

/// What the conditions of a virtual node follow from.
#[derive(Debug, Clone, Copy)]
pub struct ConditionFacts<'a> {
    /// The conditions of the physical node, as known last.
    pub physical: &'a [NodeCondition],
    /// The conditions that the virtual node has.
    pub existing: &'a [NodeCondition],
    /// The types that were mirrored at the last write, from the base of the merge.
    pub mirrored: &'a BTreeSet<String>,
    /// The lease of the virtual node.
    pub lease: LeaseState,
    /// What its pods request beyond its size.
    pub overcommitted: &'a Overcommitted,
}

/// The conditions that a virtual node should have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// All of them, for a patch; `None` if it has them already.
    pub write: Option<Vec<NodeCondition>>,
    /// The types that are mirrored, for the base of the merge.
    pub mirrored: BTreeSet<String>,
    /// What changes and what is left alone on purpose, by type.
    pub reasons: Vec<(String, ConditionReason)>,
}

/// Why a condition changes, or does not although it differs from the physical node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConditionReason {
    /// The physical node has it like this.
    Mirrored,
    /// The physical node no longer has it.
    Gone,
    /// It follows from the numbers of the node.
    Computed,
    /// The physical cluster is unreachable, and node-lifecycle has not set Ready to Unknown.
    Unreachable,
    /// Our lease is stopped and it is Unknown: it is left to node-lifecycle.
    LeftToNodeLifecycle,
}

impl fmt::Display for ConditionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mirrored => "the physical node has it like this",
            Self::Gone => "the physical node no longer has it",
            Self::Computed => "it follows from the size of the node and the requests of its pods",
            Self::Unreachable => "the physical cluster does not answer, and node-lifecycle has not set it to Unknown",
            Self::LeftToNodeLifecycle => "the lease is stopped, and node-lifecycle has set it to Unknown",
        })
    }
}

/// The conditions that a virtual node should have.
#[must_use]
pub fn conditions(facts: &ConditionFacts<'_>, now: Timestamp) -> Conditions {
    let mut out = Conditions::default();
    let existing = by_kind(facts.existing);
    let mut list = Vec::new();
    let mut seen = BTreeSet::new();
    for (wanted, why) in wanted(facts) {
        if !seen.insert(wanted.kind.clone()) {
            continue;
        }
        if why == ConditionReason::Mirrored || why == ConditionReason::Unreachable {
            out.mirrored.insert(wanted.kind.to_string());
        }
        let there = existing.get(wanted.kind.as_str()).copied();
        match there {
            Some(there) if is_left_alone(there, facts.lease) => {
                if !there.is_equal_but_for_times(&wanted) {
                    out.reasons.push((wanted.kind.to_string(), ConditionReason::LeftToNodeLifecycle));
                }
                list.push(there.clone());
            }
            Some(there) if there.is_equal_but_for_times(&wanted) => list.push(there.clone()),
            _ => {
                out.reasons.push((wanted.kind.to_string(), why));
                list.push(stamped(wanted, there, now));
            }
        }
    }
    for there in facts.existing {
        if !seen.insert(there.kind.clone()) {
            continue;
        }
        let was_ours = facts.mirrored.contains(there.kind.as_str());
        let stays = NODE_LIFECYCLE.contains(&there.kind.as_str()) || is_left_alone(there, facts.lease);
        if was_ours && !stays {
            out.reasons.push((there.kind.to_string(), ConditionReason::Gone));
            continue;
        }
        if was_ours {
            // It goes once it may.
            out.mirrored.insert(there.kind.to_string());
        }
        list.push(there.clone());
    }
    let same = list.len() == facts.existing.len()
        && list
            .iter()
            .all(|wanted| existing.get(wanted.kind.as_str()).is_some_and(|there| there.is_equal_but_for_times(wanted)));
    out.write = (!same).then_some(list);
    out
}

fn by_kind(conditions: &[NodeCondition]) -> BTreeMap<&str, &NodeCondition> {
    let mut by_kind = BTreeMap::new();
    for condition in conditions {
        by_kind.entry(condition.kind.as_str()).or_insert(condition);
    }
    by_kind
}

/// While our lease is stopped, what is Unknown belongs to node-lifecycle (decision S4).
fn is_left_alone(there: &NodeCondition, lease: LeaseState) -> bool {
    lease != LeaseState::Renewed && there.status == Truth::Unknown
}

/// The conditions that are ours to write.
fn wanted(facts: &ConditionFacts<'_>) -> Vec<(NodeCondition, ConditionReason)> {
    let mut wanted = Vec::with_capacity(facts.physical.len() + 2);
    if facts.lease == LeaseState::Overdue {
        let message = "The physical cluster does not answer, so the state of this node is not known.";
        let ready = new(READY, Truth::Unknown, UNREACHABLE_REASON, message);
        wanted.push((ready, ConditionReason::Unreachable));
    }
    let (status, reason) = if facts.overcommitted.is_overcommitted() {
        (Truth::True, "LentLessThanRequested")
    } else {
        (Truth::False, "Fits")
    };
    let own = new(OVERCOMMITTED, status, reason, &facts.overcommitted.to_string());
    // One of that name on the physical node is about another size.
    let copied = facts.physical.iter().filter(|condition| condition.kind != OVERCOMMITTED);
    wanted.extend(copied.map(|condition| (condition.clone(), ConditionReason::Mirrored)));
    wanted.push((own, ConditionReason::Computed));
    wanted
}

fn new(kind: &str, status: Truth, reason: &str, message: &str) -> NodeCondition {
    NodeCondition {
        kind: kind.into(),
        status,
        reason: reason.into(),
        message: message.into(),
        last_heartbeat: None,
        last_transition: None,
    }
}

/// The condition as it is written: without a heartbeat, and with the time of its last transition on the virtual node.
fn stamped(wanted: NodeCondition, there: Option<&NodeCondition>, now: Timestamp) -> NodeCondition {
    let physical = wanted.last_transition.map_or(now, |time| time.min(now));
    let before = there.and_then(|there| there.last_transition);
    let last_transition = match there {
        Some(there) if there.status == wanted.status => before.unwrap_or(physical),
        // Not newer than what it replaces: the virtual node has had another status in between.
        Some(_) if before.is_some_and(|before| physical <= before) => now,
        _ => physical,
    };
    NodeCondition { last_heartbeat: None, last_transition: Some(last_transition), ..wanted }
}
