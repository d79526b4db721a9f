//! `topoloom lend report`: what is lent, used and idle by binding and policy, and what waits (decision S23).
//!
//! Owns the sums. What a node is and what its pods request is what the controllers decide by.
//!
//! # Failure story
//!
//! What cannot be read is a remark beside what can: without a physical cluster there are still the virtual nodes.

pub(in crate::cli) mod document;
mod text;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use kube::Resource as _;
use topoloom_api::ClusterBinding;
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::deletion::Existence;
use topoloom_sync::identity::Claim;
use topoloom_sync::keys;
use topoloom_sync::naming::{label_value, virtual_node_name};
use topoloom_sync::node::{Facts, LentPod, NodeDecision, NodeState, Physical, Rest, Window};
use topoloom_sync::policy::growth::Growth;
use topoloom_sync::reclaim::Evict;
use topoloom_sync::release::takes_over;
use topoloom_sync::resources::ResourceList;
use topoloom_sync::sizes::overcommit::Overcommitted;
use topoloom_sync::texts::Keyed;
use topoloom_syncer::ledger::PhysicalName;
use topoloom_syncer::slices::node::NodeSlice;
use topoloom_syncer::survey::lists::{self, Scope};

use self::document::{
    BindingReport, Leases, LendReport, NodeRemark, OldestLease, OrphanNode, PolicyShare, Share, WaitingNode,
};
use super::amounts::{Moment, add, amounts};
use super::clusters::{Clusters, Common, Known, PairArgs, Seen, UNDEFINED};
use super::overlay::Overlay;
use super::parts::{BarInForce, Held, Rows, count};
use crate::cli::output::OutputArgs;

/// Flags of `lend report`.
#[derive(Debug, Args)]
pub(in crate::cli) struct LendReportArgs {
    #[command(flatten)]
    pair: PairArgs,
    /// Only this ClusterBinding
    #[arg(long, value_name = "NAME")]
    binding: Option<String>,
    /// Show whole lists in place of their first 20 rows
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Reports.
pub(super) async fn run(args: LendReportArgs) -> anyhow::Result<ExitCode> {
    let clusters = Clusters::connect(&args.pair, args.binding.as_deref()).await?;
    let (stored, lent) = tokio::try_join!(clusters.bindings(), clusters.lists(Scope::All))?;
    let mut remarks: Vec<String> = stored.is_none().then(|| UNDEFINED.to_owned()).into_iter().collect();
    let bindings = stored.unwrap_or_default();
    let name = |binding: &ClusterBinding| binding.metadata.name.clone().unwrap_or_default();
    let is_meant = |binding: &&ClusterBinding| args.binding.as_ref().is_none_or(|only| name(binding) == *only);
    let mut selected: Vec<&ClusterBinding> = bindings.iter().filter(is_meant).collect();
    selected.sort_by_key(|binding| name(binding));
    if let Some(only) = &args.binding {
        anyhow::ensure!(!selected.is_empty(), "there is no ClusterBinding {only}");
    }
    let renewals = lists::renewals(&clusters.lent).await;
    let renewals = renewals.map_err(|refusal| remarks.push(format!("leases could not be listed: {refusal}"))).ok();
    let overlay = Overlay::default();
    let common = Common { bindings: &bindings, lent: &lent, overlay: &overlay };
    let uids: BTreeSet<Uid> =
        bindings.iter().filter_map(|binding| binding.metadata.uid.as_deref()).map(Uid::from).collect();
    let (mut known, mut reports) = (Known::new(), Vec::new());
    for binding in selected {
        let report = match clusters.look(binding, &common, Scope::All, &mut known).await {
            Ok(seen) => {
                let held = binding.status.held.as_ref().filter(|held| !held.hash.is_empty()).map(Held::stored);
                of_binding(seen, held, &clusters, &uids, renewals.as_ref())
            }
            Err(error) => BindingReport { error: Some(format!("{error:#}")), ..BindingReport::default() },
        };
        reports.push(BindingReport { binding: name(binding), ..report });
    }
    let id = |binding: &ClusterBinding| {
        (label_value(&name(binding)), binding.spec.as_ref().ok().map(|spec| spec.cluster_id.clone()))
    };
    let ids: BTreeMap<String, Option<String>> = bindings.iter().map(id).collect();
    let report = LendReport {
        time: clusters.now.wall.to_string(),
        bindings: reports,
        orphans: orphans(&lent.nodes, &clusters.virtual_cluster, &uids, &ids),
        remarks,
    };
    let rows = if args.all { Rows::All } else { Rows::First };
    args.output.print(&report, |report| text::text(report, rows))?;
    Ok(ExitCode::SUCCESS)
}

/// What a look shows of one node.
#[derive(Debug, Default)]
struct Sight {
    lent: Option<LentSight>,
    claimed_by_other: Option<String>,
    stale_claim: Option<String>,
    /// Why it lends less than its size says.
    note: Option<String>,
}

/// What a look shows of one virtual node.
#[derive(Debug, Default)]
struct LentSight {
    size: ResourceList,
    used: ResourceList,
    /// The policy under which its size was written last.
    policy: Option<String>,
    overcommitted: Option<String>,
    /// Pods that have to go and are there still, and why.
    waiting: Option<(usize, String)>,
}

/// `held` is what the status says. A look would find another hash: it does not know what was in the batch when that was shown, and
/// looks for no physical pods without a virtual one.
fn of_binding(
    seen: Seen,
    held: Option<Held>,
    clusters: &Clusters,
    bindings: &BTreeSet<Uid>,
    renewals: Option<&HashMap<NodeName, Timestamp>>,
) -> BindingReport {
    let Seen { hindered, mut survey, machines, mut remarks, reading } = seen;
    if let Err(why) = machines {
        remarks.push(format!("the physical cluster was not read: {why}"));
    }
    let now = clusters.now;
    let sights = survey.see_all(now, |facts, decision| Sight::of(facts, decision, bindings));
    let size = survey.view.size();
    let leases = renewals.map(|renewals| leases(survey.lent_names(), renewals, now.wall)).unwrap_or_default();
    let cluster = &reading.terms.binding.cluster;
    let lent_name = |physical: &PhysicalName| {
        virtual_node_name(cluster, physical).map_or_else(|_| physical.to_string(), |name| name.to_string())
    };
    let mut report = BindingReport {
        bars: BarInForce::all(&hindered.bars),
        why: hindered.why,
        remarks,
        virtual_nodes: size.nodes,
        running_pods: size.pods,
        leases,
        next_transition: survey.view.next_transition(now.wall).map(|at| Moment::seen(at, now.wall)),
        held,
        ..BindingReport::default()
    };
    let mut sums = Sums::default();
    let mut notes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, sight) in sights {
        if let Some(note) = &sight.note {
            notes.entry(note.clone()).or_default().push(name.to_string());
        }
        let remark = |sentence: String| NodeRemark { node: name.to_string(), sentence };
        report.claimed_by_others.extend(sight.claimed_by_other.map(remark));
        report.stale_claims.extend(sight.stale_claim.map(remark));
        let Some(lent) = sight.lent else { continue };
        sums.add(&lent);
        let node = lent_name(&name);
        let overcommitted = lent.overcommitted.map(|sentence| NodeRemark { node: node.clone(), sentence });
        report.overcommitted.extend(overcommitted);
        let held = report.held.is_some() && survey.view.is_held(&name);
        report.waiting.extend(lent.waiting.map(|(pods, why)| WaitingNode { node, pods, why, held }));
    }
    (report.total, report.policies) = sums.shares();
    report.why.extend(noted(notes));
    report
}

/// How many nodes of a note are named.
const NAMED: usize = 5;

/// Each note with its nodes.
fn noted(notes: BTreeMap<String, Vec<String>>) -> Vec<String> {
    let line = |(note, mut nodes): (String, Vec<String>)| {
        nodes.sort();
        let more = nodes.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let named = nodes.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        format!("{note}: {} ({named}{more})", count(nodes.len(), "node"))
    };
    notes.into_iter().map(line).collect()
}

/// What keeps a node from lending all that it shows, in a sentence.
fn note(decision: &NodeDecision<'_>) -> Option<String> {
    let window = decision.details.as_ref().map(|details| details.window);
    match (&decision.state, window) {
        (NodeState::Leaving(_) | NodeState::Rest(Rest::Left(_)), _) => Some(decision.state.to_string()),
        (NodeState::Lent, Some(Window::Closed { .. })) => {
            Some("outside of its time windows, so it takes no new pods".to_owned())
        }
        (NodeState::Lent | NodeState::Rest(_) | NodeState::Asking(_), _) => None,
    }
}

impl Sight {
    fn of(facts: &Facts<'_>, decision: &NodeDecision<'_>, bindings: &BTreeSet<Uid>) -> Self {
        let claim = match facts.physical {
            Physical::Present(node) => {
                let value = node.annotations.text(keys::LEASED_BY);
                Claim::read(value, &facts.binding.identity)
            }
            Physical::Unlisted | Physical::Absent => Claim::Free,
        };
        let stale_claim = match &claim {
            Claim::OtherBinding(uid) if !bindings.contains(uid) => {
                Some(format!("the binding with the UID {uid} claims it, and does not exist any more"))
            }
            Claim::OtherBinding(_) | Claim::Free | Claim::Ours | Claim::Other { .. } | Claim::Malformed(_) => None,
        };
        let claimed_by_other = match &decision.state {
            NodeState::Rest(Rest::Claimed(claim)) if stale_claim.is_none() => Some(claim.to_string()),
            // It was edited, and the lender has to remove it.
            NodeState::Lent if is_broken(decision) => Some(claim.to_string()),
            NodeState::Rest(_) | NodeState::Asking(_) | NodeState::Lent | NodeState::Leaving(_) => None,
        };
        Self { lent: LentSight::of(facts, decision), claimed_by_other, stale_claim, note: note(decision) }
    }
}

/// Whether the claim on the machine of a lent node is none.
fn is_broken(decision: &NodeDecision<'_>) -> bool {
    decision.details.as_ref().is_some_and(|details| details.growth == Growth::ClaimUnreadable)
}

impl LentSight {
    fn of(facts: &Facts<'_>, decision: &NodeDecision<'_>) -> Option<Self> {
        let lent = facts.lent?;
        let overcommitted = Overcommitted::of(facts.requested, &lent.allocatable);
        let policy = lent.metadata.annotations.text(keys::POLICIES_APPLIED).filter(|policy| !policy.is_empty());
        Some(Self {
            size: (**lent.allocatable).clone(),
            used: facts.requested.clone(),
            policy: policy.map(str::to_owned),
            overcommitted: overcommitted.is_overcommitted().then(|| overcommitted.to_string()),
            waiting: waiting(facts, decision),
        })
    }
}

/// Pods that have to go and are there still.
fn waiting(facts: &Facts<'_>, decision: &NodeDecision<'_>) -> Option<(usize, String)> {
    let is_there = |pod: &&LentPod| !pod.phase.is_final();
    let (pods, why) = match &decision.state {
        NodeState::Leaving(_) => (facts.pods.iter().filter(is_there).count(), decision.state.to_string()),
        NodeState::Lent => {
            let reclaim = &decision.details.as_ref()?.reclaim;
            let going = match &reclaim.evict {
                Evict::Nothing => 0,
                Evict::Evict(pods) => pods.len(),
                Evict::Delete(due) => due.len(),
            };
            let terminating = facts.pods.iter().filter(is_there).filter(|pod| pod.existence == Existence::Terminating);
            let terminating = if going == 0 { 0 } else { terminating.count() };
            let why: Vec<String> = reclaim.reasons.iter().map(ToString::to_string).collect();
            (going + terminating, why.join("; "))
        }
        NodeState::Rest(_) | NodeState::Asking(_) => (0, String::new()),
    };
    (pods > 0).then_some((pods, why))
}

/// What the virtual nodes have and use, together and by policy.
#[derive(Debug, Default)]
struct Sums {
    total: Sum,
    policies: BTreeMap<Option<String>, Sum>,
}

#[derive(Debug, Default)]
struct Sum {
    nodes: usize,
    lent: ResourceList,
    used: ResourceList,
    idle: ResourceList,
}

impl Sums {
    fn add(&mut self, node: &LentSight) {
        self.total.add(node);
        self.policies.entry(node.policy.clone()).or_default().add(node);
    }

    fn shares(self) -> (Share, Vec<PolicyShare>) {
        // Nodes without a policy come last.
        let (without, with): (Vec<_>, Vec<_>) = self.policies.into_iter().partition(|(policy, _)| policy.is_none());
        let all = with.into_iter().chain(without);
        let policies = all.map(|(policy, sum)| PolicyShare { policy, share: sum.share() });
        (self.total.share(), policies.collect())
    }
}

impl Sum {
    fn add(&mut self, node: &LentSight) {
        self.nodes += 1;
        add(&mut self.lent, &node.size);
        // As the node writes it, so that memory is not shown in decimal units.
        let written = node.used.iter().map(|(name, used)| {
            let format = node.size.get(name).map_or(used.format(), |size| size.format());
            (name.clone(), used.with_format(format))
        });
        add(&mut self.used, &written.collect());
        // What one node lacks is not made up by what another has.
        let idle = node.size.iter().map(|(name, size)| {
            let used = node.used.get(name).copied().unwrap_or_default();
            (name.clone(), size.saturating_sub(used).with_format(size.format()))
        });
        add(&mut self.idle, &idle.collect());
    }

    fn share(&self) -> Share {
        Share { nodes: self.nodes, lent: amounts(&self.lent), used: amounts(&self.used), idle: amounts(&self.idle) }
    }
}

/// The oldest lease, and how many are missing.
fn leases<'a>(
    nodes: impl Iterator<Item = &'a NodeName>,
    renewals: &HashMap<NodeName, Timestamp>,
    now: Timestamp,
) -> Leases {
    let (mut oldest, mut missing): (Option<(Timestamp, &NodeName)>, usize) = (None, 0);
    for node in nodes {
        match renewals.get(node) {
            Some(renewed) => oldest = Some(oldest.map_or((*renewed, node), |known| known.min((*renewed, node)))),
            None => missing += 1,
        }
    }
    let oldest =
        oldest.map(|(renewed, node)| OldestLease { node: node.to_string(), renewed: Moment::seen(renewed, now) });
    Leases { oldest, missing }
}

/// Virtual nodes with our labels whose binding does not exist any more. `ids`: the `clusterID` of each binding, by its name as a label
/// has it.
fn orphans(
    nodes: &[NodeSlice],
    virtual_cluster: &str,
    uids: &BTreeSet<Uid>,
    ids: &BTreeMap<String, Option<String>>,
) -> Vec<OrphanNode> {
    let orphan = |node: &NodeSlice| {
        let labels = node.meta().labels.as_ref()?;
        let uid = labels.get(keys::BINDING_UID).filter(|uid| !uids.contains(uid.as_str()))?;
        let is_of_cluster = labels.get(keys::VIRTUAL_CLUSTER).is_some_and(|of| of == virtual_cluster);
        let binding = labels.get(keys::BINDING).cloned().unwrap_or_default();
        is_of_cluster.then(|| OrphanNode {
            node: node.name().to_owned(),
            adoptable: ids.get(&binding).is_some_and(|id| takes_over(labels, id.as_deref())),
            binding,
            binding_uid: uid.clone(),
        })
    };
    let mut orphans: Vec<OrphanNode> = nodes.iter().filter_map(orphan).collect();
    orphans.sort_by(|left, right| left.node.cmp(&right.node));
    orphans
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use topoloom_sync::resources::read_list;

    use super::*;

    fn list(pairs: &[(&str, &str)]) -> ResourceList {
        read_list(pairs.iter().copied()).unwrap()
    }

    fn sight(policy: Option<&str>, size: &str, used: &str) -> LentSight {
        LentSight {
            size: list(&[("cpu", size), ("memory", "4Gi")]),
            used: list(&[("cpu", used), ("memory", "1073741824")]),
            policy: policy.map(str::to_owned),
            ..LentSight::default()
        }
    }

    #[test]
    fn s23_what_nodes_do_not_lend_is_said_in_one_line_for_all_of_them() {
        let nodes = |most: usize| (1..=most).rev().map(|number| format!("w{number}")).collect::<Vec<String>>();
        let notes = [("not lent: an operator asked for it", nodes(2)), ("outside of its time windows", nodes(6))];
        assert_eq!(
            noted(notes.map(|(note, nodes)| (note.to_owned(), nodes)).into()),
            [
                "not lent: an operator asked for it: 2 nodes (w1, w2)",
                "outside of its time windows: 6 nodes (w1, w2, w3, w4, w5 and 1 more)",
            ]
        );
    }

    #[test]
    fn s23_what_is_lent_used_and_idle_is_summed_by_policy() {
        let mut sums = Sums::default();
        for node in [sight(None, "8", "2"), sight(Some("nights"), "4", "6"), sight(Some("nights"), "4", "500m")] {
            sums.add(&node);
        }
        let (total, policies) = sums.shares();
        let cpu = |share: &Share| {
            [&share.lent, &share.used, &share.idle].map(|list| list.get("cpu").cloned().unwrap_or_default())
        };
        assert_eq!((total.nodes, cpu(&total)), (3, ["16", "8500m", "9500m"].map(str::to_owned)));
        assert_eq!(total.used.get("memory").map(String::as_str), Some("3Gi"));
        let named: Vec<(Option<&str>, usize)> =
            policies.iter().map(|policy| (policy.policy.as_deref(), policy.share.nodes)).collect();
        assert_eq!(named, [(Some("nights"), 2), (None, 1)]);
        let of_policy = cpu(&policies[0].share);
        assert_eq!(
            of_policy,
            ["8", "6500m", "3500m"].map(str::to_owned),
            "a node that has too little gives nothing to another"
        );
    }

    #[test]
    fn s6_s23_nodes_of_bindings_that_are_gone_are_orphans_and_those_of_others_are_not() {
        let node = |name: &str, cluster: &str, binding: &str, uid: &str, id: &str| -> NodeSlice {
            let labels = json!({"topoloom.dev/virtual-cluster": cluster, "topoloom.dev/binding": binding,
                "topoloom.dev/binding-uid": uid, "topoloom.dev/physical-cluster-id": id});
            serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
        };
        let nodes = [
            node("vnode-old-w2", "vc", "old", "old-uid", "old"),
            node("vnode-east-1-w1", "vc", "east", "earlier-uid", "east-1"),
            node("vnode-est-1-w1", "vc", "east", "earlier-uid", "est-1"),
            node("vnode-east-1-w2", "vc", "east", "east-uid", "east-1"),
            node("vnode-west-w1", "another", "west", "west-uid", "west"),
            serde_json::from_value(json!({"metadata": {"name": "plain"}})).unwrap(),
        ];
        let ids = [("east".to_owned(), Some("east-1".to_owned()))].into();
        let found = orphans(&nodes, "vc", &[Uid::from("east-uid")].into(), &ids);
        let said: Vec<(&str, bool)> = found.iter().map(|orphan| (orphan.node.as_str(), orphan.adoptable)).collect();
        assert_eq!(said, [("vnode-east-1-w1", true), ("vnode-est-1-w1", false), ("vnode-old-w2", false)]);
    }

    #[test]
    fn s23_the_oldest_lease_is_named_and_missing_ones_are_counted() {
        let now: Timestamp = "2026-03-05T11:30:00Z".parse().unwrap();
        let names: Vec<NodeName> = ["a", "b", "c"].map(NodeName::from).into();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let renewals = HashMap::from([
            (names[0].clone(), at("2026-03-05T11:29:58Z")),
            (names[1].clone(), at("2026-03-05T11:29:20Z")),
        ]);
        let leases = leases(names.iter(), &renewals, now);
        let oldest = leases.oldest.unwrap();
        assert_eq!((oldest.node.as_str(), leases.missing), ("b", 1));
        assert_eq!(oldest.renewed.shown(), "2026-03-05T11:29:20Z, 40s ago");
    }
}
