//! The plans for programs. The text is made of them alone.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_api::cluster_binding::HeldBatchStatus;
use topoloom_sync::bars::Bars;
use topoloom_sync::guard::HeldBatch;
use topoloom_sync::node::RemovalMeans;
use topoloom_syncer::bindings::once::Hindered;
use topoloom_syncer::survey::plan::{
    Fate, Instant, LaterSize, LeavingPod, LeavingPods, NodeStep, Plan, PlannedNode, TurnTo, Write,
};

use crate::cli::lend::amounts::{Amounts, Moment, amounts};
use crate::cli::lend::parts::{BarInForce, Held, NodeShape, Windows};
use crate::cli::output::Document;

/// What would be written for lent nodes, now and at the next boundary.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct LendPlans {
    /// The time of the plans, by the clock of the virtual API server.
    pub(super) time: String,
    pub(super) bindings: Vec<BindingPlan>,
}

impl Document for LendPlans {
    const KIND: &'static str = "LendPlan";
}

/// What would be written for one binding.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BindingPlan {
    /// The ClusterBinding.
    pub(super) binding: String,
    /// Whether it is stored, or is in the file alone.
    pub(super) stored: bool,
    /// Why there is no plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// What an operator ends first: the plan is what follows then, and nothing of it is written before.
    pub(super) waits_for: Vec<BarInForce>,
    /// Why less is written than everything.
    pub(super) bars: Vec<BarInForce>,
    /// More about that, each in a sentence.
    pub(super) why: Vec<String>,
    /// What could not be read, each in a sentence.
    pub(super) remarks: Vec<String>,
    /// Its virtual nodes before.
    pub(super) virtual_nodes: usize,
    /// The running pods of these nodes before.
    pub(super) running_pods: usize,
    /// How many nodes have each fate now.
    pub(super) counts: Vec<Count>,
    /// Every node that there is something to say about, by name.
    pub(super) nodes: Vec<NodePlan>,
    /// The times that were looked at: the first is now, the others follow until after the next boundary.
    pub(super) times: Vec<PlanTime>,
}

/// How many nodes have one fate.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Count {
    pub(super) fate: NodeFate,
    pub(super) nodes: usize,
    /// So many of them are held by the guard.
    pub(super) held: usize,
}

/// What becomes of a node now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(super) enum NodeFate {
    /// Its virtual node is deleted, now or when its pods have ended.
    TakenAway,
    /// Its virtual node has another size.
    Resized,
    /// Its virtual node is created.
    Created,
    /// Something else of its virtual node changes.
    Changed,
    /// An invalid policy, or one that cannot be read, keeps it as it is.
    Frozen,
    /// Another binding or borrower has it, or an object with the name of its virtual node.
    OfAnother,
    /// It would be lent, and something forbids that.
    Barred,
    /// It is lent, and nothing changes.
    Unchanged,
    /// It is not lent.
    NotLent,
}

/// A time at which something may change.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlanTime {
    pub(super) time: Moment,
    /// Policies whose windows open then.
    pub(super) opens: Vec<String>,
    /// Policies whose windows close then.
    pub(super) closes: Vec<String>,
    /// What the guard holds then, or would hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) held: Option<Held>,
}

/// What becomes of one node.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodePlan {
    /// The physical node.
    pub(super) node: String,
    /// Its virtual node; absent where its name gives none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) virtual_node: Option<String>,
    pub(super) fate: NodeFate,
    /// The reason, in a sentence.
    pub(super) why: String,
    /// The policy in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) windows: Option<Windows>,
    /// Its virtual node as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<NodeShape>,
    /// Its virtual node after everything that is written now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<NodeShape>,
    /// A size that is not written yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) later: Option<Later>,
    /// Whether the guard holds what would follow now.
    pub(super) held: bool,
    /// What keeps something from being written, as short stable words.
    pub(super) barred: Vec<&'static str>,
    /// What is written, in this order.
    pub(super) steps: Vec<Step>,
}

/// A size that is written later.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Later {
    /// The whole of it.
    pub(super) size: Amounts,
    /// In how many seconds; absent where it does not depend on time alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_seconds: Option<i64>,
    /// Why not now.
    pub(super) why: String,
}

/// What is written about a node at one time.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Step {
    /// The time.
    pub(super) at: Moment,
    /// Whether it waits until the pods that go have ended.
    pub(super) after_pods_ended: bool,
    /// The virtual node before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) before: Option<NodeShape>,
    /// The virtual node after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<NodeShape>,
    /// The writes, in their order.
    pub(super) writes: Vec<PlannedWrite>,
    /// The pods that go.
    pub(super) pods: Vec<Leaving>,
}

/// One write.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlannedWrite {
    /// What is written, as a short stable word.
    pub(super) kind: &'static str,
    /// The write in a sentence.
    pub(super) line: String,
}

/// A virtual pod that goes.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Leaving {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) by: Means,
}

/// How a pod is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Means {
    /// By the Eviction API, as disruption budgets allow.
    Eviction,
    /// By deletion, with the grace of the pod.
    Deletion,
}

impl LendPlans {
    /// Whether a binding has no plan.
    pub(super) fn has_failed(&self) -> bool {
        self.bindings.iter().any(|plan| plan.error.is_some())
    }

    /// Whether the guard holds something, or would hold it, now or later.
    pub(super) fn is_held(&self) -> bool {
        self.bindings.iter().flat_map(|plan| &plan.times).any(|time| time.held.is_some())
    }
}

impl BindingPlan {
    /// There is no plan.
    pub(super) fn failed(error: String) -> Self {
        Self { error: Some(error), ..Self::default() }
    }

    /// What a rehearsal gave. `stored` is the batch that is held already, where the plan is about what is stored.
    pub(super) fn of(
        plan: &Plan,
        stored: Option<&HeldBatchStatus>,
        hindered: &Hindered,
        waits_for: &Bars,
        mut remarks: Vec<String>,
        now: Timestamp,
    ) -> Self {
        remarks.extend(plan.restless.iter().map(|node| {
            format!(
                "the decisions about node {node} come to no end, which is a mistake of topoloom: its plan is cut off"
            )
        }));
        let count = |(fate, nodes): (Fate, usize)| Count {
            fate: fate.into(),
            nodes,
            held: plan.nodes.iter().filter(|node| node.fate == fate && node.is_held).count(),
        };
        let mut counts: Vec<Count> = plan.counts().into_iter().map(count).collect();
        counts.sort_by_key(|count| count.fate);
        Self {
            binding: String::new(),
            stored: false,
            error: None,
            waits_for: BarInForce::all(waits_for),
            bars: BarInForce::all(&hindered.bars),
            why: hindered.why.clone(),
            remarks,
            virtual_nodes: plan.size.nodes,
            running_pods: plan.size.pods,
            counts,
            nodes: plan.nodes.iter().map(|node| NodePlan::of(node, now)).collect(),
            times: times(plan, stored, now),
        }
    }
}

/// The times, with what is held then. What is held already has the hash that its binding says, and its numbers; it may be held on at
/// later times.
fn times(plan: &Plan, stored: Option<&HeldBatchStatus>, now: Timestamp) -> Vec<PlanTime> {
    let first = plan.instants.first().and_then(|instant| instant.held.as_ref());
    let held = |index: usize, batch: Option<&HeldBatch>| {
        let is_held_on = index == 0 || batch.is_some_and(|batch| first.is_some_and(|first| first.hash == batch.hash));
        stored.filter(|_| is_held_on).map(Held::stored).or_else(|| batch.map(Held::of))
    };
    let instants = plan.instants.iter().enumerate();
    instants.map(|(index, instant)| PlanTime::of(instant, held(index, instant.held.as_ref()), now)).collect()
}

impl From<Fate> for NodeFate {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Created => Self::Created,
            Fate::TakenAway => Self::TakenAway,
            Fate::Resized => Self::Resized,
            Fate::Changed => Self::Changed,
            Fate::Unchanged => Self::Unchanged,
            Fate::Frozen => Self::Frozen,
            Fate::Anothers => Self::OfAnother,
            Fate::Barred => Self::Barred,
            Fate::NotLent => Self::NotLent,
        }
    }
}

impl NodeFate {
    /// As the text has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::TakenAway => "taken away",
            Self::Resized => "resized",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
            Self::Frozen => "frozen",
            Self::OfAnother => "of another",
            Self::Barred => "barred",
            Self::NotLent => "not lent",
        }
    }

    /// Whether a person should see the node without asking for all.
    pub(super) fn is_news(self) -> bool {
        !matches!(self, Self::Unchanged | Self::NotLent)
    }
}

impl Means {
    /// As the text has it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Eviction => "by eviction",
            Self::Deletion => "by deletion",
        }
    }
}

impl PlanTime {
    fn of(instant: &Instant, held: Option<Held>, now: Timestamp) -> Self {
        let turning = |to: TurnTo| -> Vec<String> {
            let turns = instant.turns.iter().filter(|turn| turn.to == to);
            turns.map(|turn| turn.policy.clone()).collect()
        };
        Self {
            time: Moment::seen(instant.at, now),
            opens: turning(TurnTo::Open),
            closes: turning(TurnTo::Closed),
            held,
        }
    }
}

impl NodePlan {
    fn of(node: &PlannedNode, now: Timestamp) -> Self {
        Self {
            node: node.name.to_string(),
            virtual_node: node.lent.as_ref().map(ToString::to_string),
            fate: node.fate.into(),
            why: node.sentence.clone(),
            policy: node.policy.clone(),
            windows: node.window.map(|window| Windows::of(window, now)),
            before: node.before.as_ref().map(NodeShape::of),
            after: node.after.as_ref().map(NodeShape::of),
            later: node.later.as_ref().map(Later::of),
            held: node.is_held,
            barred: node.barred.iter().map(|bar| bar.word()).collect(),
            steps: node.steps.iter().map(|step| Step::of(step, now)).collect(),
        }
    }
}

impl Later {
    fn of(later: &LaterSize) -> Self {
        let seconds = |after: std::time::Duration| i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
        Self { size: amounts(&later.size), in_seconds: later.after.map(seconds), why: later.why.clone() }
    }
}

impl Step {
    fn of(step: &NodeStep, now: Timestamp) -> Self {
        let write = |write: &Write| PlannedWrite { kind: write.kind.word(), line: write.line.clone() };
        let leaving = |LeavingPod { pod, means }: &LeavingPod| Leaving {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.to_string(),
            by: match means {
                RemovalMeans::Eviction => Means::Eviction,
                RemovalMeans::Delete | RemovalMeans::Shorten => Means::Deletion,
            },
        };
        Self {
            at: Moment::seen(step.stage.at, now),
            after_pods_ended: step.stage.pods == LeavingPods::Gone,
            before: step.before.as_ref().map(NodeShape::of),
            after: step.after.as_ref().map(NodeShape::of),
            writes: step.writes.iter().map(write).collect(),
            pods: step.pods.iter().map(leaving).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};
    use topoloom_sync::guard::{Size, Spent};

    use super::*;

    fn batch(hash: &str) -> HeldBatch {
        let (size, spent, causes, broken) = (Size::default(), Spent::default(), BTreeMap::new(), Vec::new());
        HeldBatch { hash: hash.to_owned(), nodes: 3, pods: 0, size, spent, causes, broken }
    }

    #[test]
    fn s9_s23_a_plan_has_the_hash_of_what_is_held_and_none_of_what_would_be() {
        let stored = HeldBatchStatus { hash: "stored".to_owned(), ..HeldBatchStatus::default() };
        // What is held of each time: its hash, or that it would be held, or nothing.
        let said = |held: [Option<&str>; 3], stored: Option<&HeldBatchStatus>| -> Vec<Value> {
            let instants = held.into_iter().zip(0..).map(|(held, minute)| Instant {
                at: Timestamp::from_second(60 * minute).unwrap(),
                turns: Vec::new(),
                held: held.map(batch),
            });
            let (instants, size) = (instants.collect(), Size::default());
            let plan = Plan { nodes: Vec::new(), instants, size, restless: Vec::new() };
            let times = times(&plan, stored, Timestamp::UNIX_EPOCH);
            let held = |time: &PlanTime| time.held.as_ref().map(|held| serde_json::to_value(held).unwrap());
            let hash = |held: Value| held.get("hash").cloned().unwrap_or_else(|| json!("would be"));
            times.iter().map(|time| held(time).map_or(Value::Null, hash)).collect()
        };
        let all = [Some("a"), Some("a"), Some("b")];
        assert_eq!(said(all, Some(&stored)), [json!("stored"), json!("stored"), json!("would be")]);
        assert_eq!(said(all, None), [json!("would be"), json!("would be"), json!("would be")]);
        // Physical pods without a virtual one are no part of a plan, and are held.
        assert_eq!(said([None, None, Some("b")], Some(&stored)), [json!("stored"), Value::Null, json!("would be")]);
    }
}
