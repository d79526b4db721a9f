//! Rehearsals beside the real controller of nodes, which works on two API servers in memory.

mod play;
mod servers;
mod situation;

use std::cell::RefCell;
use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use topoloom_api::cluster_binding::{GrantedStatus, SpentStatus};
use topoloom_sync::keys;
use topoloom_sync::node::NodeOrder;

use self::play::Play;
use self::situation::{Machine, PolicyKind, Situation, TermsKind, situations};
use super::plan::{Fate, LeavingPods, Plan, TurnTo, WriteKind};

/// How many situations are drawn.
const SITUATIONS: u32 = 200;
/// What the guard does, beside the words of the kinds of writes.
const HOLDS: &str = "holds";

/// The words for what a plan has.
fn words(plan: &Plan) -> impl Iterator<Item = &'static str> {
    let writes = plan.nodes.iter().flat_map(|node| &node.steps).flat_map(|step| &step.writes);
    let holds = plan.instants.iter().filter(|instant| instant.held.is_some()).map(|_| HOLDS);
    writes.map(|write| write.kind.word()).chain(holds)
}

/// Plays a situation, and compares what was planned with what then happened, time by time and node by node. Adds what was in the plan.
fn compare(situation: &Situation, seen: &RefCell<BTreeSet<&'static str>>) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut play = Play::before(situation).await;
        play.edit(&situation.after);
        let (plan, planned) = play.plan().await;
        prop_assert!(plan.restless.is_empty(), "{:?}", plan.restless);
        seen.borrow_mut().extend(words(&plan));
        for instant in &plan.instants {
            let happened = play.happens_at(instant.at).await;
            let wanted = planned.get(&instant.at).cloned().unwrap_or_default();
            prop_assert_eq!(&wanted, &happened, "at {}: {:#?}", instant.at, situation);
            let held = play.held();
            prop_assert_eq!(instant.held.as_ref().map(|held| &held.causes), held.as_ref(), "at {}", instant.at);
        }
        Ok(())
    })
}

#[test]
fn s23_what_is_planned_is_what_then_happens_write_for_write() {
    let seen = RefCell::default();
    // As the macro of proptest has it: what fails once is drawn first from then on.
    let config = ProptestConfig { source_file: Some(file!()), ..ProptestConfig::with_cases(SITUATIONS) };
    if let Err(error) = TestRunner::new(config).run(&situations(), |situation| compare(&situation, &seen)) {
        panic!("{error}");
    }
    // Without one of these kinds among all situations nothing was compared for it.
    let kinds = [
        WriteKind::Claim,
        WriteKind::Label,
        WriteKind::Create,
        WriteKind::Status,
        WriteKind::Spec,
        WriteKind::Pods,
        WriteKind::Delete,
        WriteKind::Finalizer,
        WriteKind::Release,
    ];
    let wanted: BTreeSet<&str> = kinds.into_iter().map(WriteKind::word).chain([HOLDS]).collect();
    assert_eq!(seen.into_inner(), wanted);
}

/// Machines of pool 0 that lend all they have, under one policy.
fn plain(machines: usize, policy: PolicyKind) -> Situation {
    let machine = Machine { cpu: 8, ..Machine::default() };
    Situation {
        machines: vec![machine; machines],
        before: TermsKind { policies: vec![policy], ..TermsKind::default() },
        after: TermsKind::default(),
        is_restarted: false,
    }
}

async fn plan_of(situation: &Situation) -> Plan {
    let mut play = Play::before(situation).await;
    play.edit(&situation.after);
    play.plan().await.0
}

#[tokio::test]
async fn a_binding_that_is_not_stored_yet_is_planned_as_if_it_was() {
    let mut situation = plain(3, PolicyKind::default());
    situation.after.policies = vec![PolicyKind { percent: 50, ..PolicyKind::default() }];
    let mut play = Play::nothing_yet(&situation);
    play.edit(&situation.after);
    let (plan, _) = play.plan().await;
    assert_eq!(plan.counts(), [(Fate::Created, 3)]);
    let node = &plan.nodes[0];
    assert_eq!((&*node.name, node.lent.as_deref(), node.policy.as_deref()), ("w0", Some("vnode-east-w0"), Some("p0")));
    let after = node.after.as_ref().unwrap();
    assert_eq!((node.before.as_ref(), after.size["cpu"].to_string()), (None, "4".to_owned()));
    let kinds: Vec<WriteKind> = node.steps[0].writes.iter().map(|write| write.kind).collect();
    assert_eq!(kinds, [WriteKind::Claim, WriteKind::Create]);
    assert!(!plan.is_held() && play.lent.is_empty(), "nothing was written");
}

#[tokio::test]
async fn s9_a_selector_that_takes_all_nodes_away_is_held_and_says_so_with_numbers() {
    let mut situation = plain(5, PolicyKind::default());
    situation.after = TermsKind { selector: 2, policies: situation.before.policies.clone(), ..TermsKind::default() };
    let plan = plan_of(&situation).await;
    let held = plan.instants[0].held.as_ref().unwrap();
    assert_eq!((held.nodes, held.size.nodes), (5, 5), "{held}");
    assert_eq!(plan.counts(), [(Fate::TakenAway, 5)]);
    for node in &plan.nodes {
        assert!(node.is_held, "{node:?}");
        let writes: Vec<&str> =
            node.steps.iter().flat_map(|step| &step.writes).map(|write| write.kind.word()).collect();
        assert_eq!(writes, ["label", "taints"], "nothing but its mark, and the label of its policy");
        let line = &node.steps[0].writes[0].line;
        assert!(line.ends_with("from the physical node, and leave its claim as it is"), "{line}");
        let after = node.after.as_ref().unwrap();
        assert!(after.taints.iter().any(|taint| taint.key == keys::DELETING_TAINT), "{after:?}");
    }
    // One of five is no batch that would be held: it goes whole.
    situation.machines[4].pool = 1;
    situation.after.selector = 1;
    let plan = plan_of(&situation).await;
    assert!(!plan.is_held());
    assert_eq!(plan.counts(), [(Fate::TakenAway, 1), (Fate::Unchanged, 4)]);
    let gone = plan.nodes.iter().find(|node| node.fate == Fate::TakenAway).unwrap();
    assert_eq!((&*gone.name, gone.after.as_ref()), ("w4", None));
    assert!(gone.sentence.contains("the selector of the binding does not select"), "{}", gone.sentence);
}

/// So many machines of which these are selected no more, which the status says that the guard has allowed.
async fn plan_under(machines: usize, unselected: &[usize], counts: bool, spent: i64, is_granted: bool) -> Plan {
    let mut situation = plain(machines, PolicyKind::default());
    unselected.iter().for_each(|index| situation.machines[*index].pool = 1);
    situation.after = TermsKind { selector: 1, policies: situation.before.policies.clone(), ..TermsKind::default() };
    let mut play = Play::before(&situation).await;
    play.edit(&situation.after);
    let nodes = unselected.iter().map(|index| format!("vnode-east-w{index}")).collect();
    let granted = GrantedStatus { act: "DeleteNode".to_owned(), counts, nodes, ..GrantedStatus::default() };
    play.status.granted = if is_granted { vec![granted] } else { Vec::new() };
    play.status.spent = Some(SpentStatus { nodes: spent, ..SpentStatus::default() });
    play.status = play.status.clone().written("2026-08-03T12:00:00Z".to_owned());
    play.plan().await.0
}

#[tokio::test]
async fn s9_the_rest_of_a_batch_that_was_allowed_or_confirmed_is_planned_as_it_goes_on() {
    let taken_away = |plan: &Plan| plan.nodes.iter().filter(|node| node.fate == Fate::TakenAway).count();
    // Two of ten are within the limits, and are spent already, although they are there still.
    let allowed = plan_under(10, &[8, 9], true, 2, true).await;
    assert_eq!((allowed.is_held(), taken_away(&allowed)), (false, 2), "{:?}", allowed.instants[0].held);
    assert!(allowed.nodes.iter().all(|node| node.after.is_none() == (node.fate == Fate::TakenAway)));
    let confirmed = plan_under(5, &[0, 1, 2, 3, 4], false, 0, true).await;
    assert_eq!((confirmed.is_held(), taken_away(&confirmed)), (false, 5));
    // The nodes are marked whatever the guard says, so a mark allows nothing: two others went, as far as is known.
    let marked = plan_under(10, &[8, 9], true, 2, false).await;
    let held = marked.instants[0].held.as_ref().unwrap();
    assert_eq!((held.nodes, held.spent.nodes, held.size.nodes), (4, 2, 12));
}

#[tokio::test]
async fn s17_a_boundary_is_planned_with_the_grace_and_the_pods_that_go_after_it() {
    let policy = PolicyKind { window: 1, force: true, grace: 600, ..PolicyKind::default() };
    let mut situation = plain(1, policy.clone());
    situation.machines[0].pods = vec![situation::PodKind::default()];
    situation.after.policies = vec![policy];
    let plan = plan_of(&situation).await;
    let times: Vec<String> = plan.instants.iter().map(|instant| instant.at.to_string()).collect();
    assert_eq!(times, ["2026-08-03T13:31:00Z", "2026-08-03T20:01:00Z", "2026-08-03T20:11:00Z"]);
    assert_eq!((plan.instants[1].turns[0].policy.as_str(), plan.instants[1].turns[0].to), ("p0", TurnTo::Closed));
    let steps = &plan.nodes[0].steps;
    assert_eq!(plan.nodes[0].fate, Fate::Unchanged);
    let taint = |step: usize| {
        let after = steps[step].after.as_ref().unwrap();
        let taint = after.taints.iter().find(|taint| taint.key == keys::OUT_OF_WINDOWS_TAINT).unwrap();
        taint.effect.to_string()
    };
    assert_eq!((taint(0), steps[0].pods.len()), ("NoSchedule".to_owned(), 0));
    assert_eq!((taint(1), steps[1].pods[0].pod.to_string()), ("NoExecute".to_owned(), "shop/p-w0-0".to_owned()));
    assert_eq!(steps[1].stage.pods, LeavingPods::There);
    assert_eq!(steps.len(), 2, "the clock is not set while pods end, so the time of the taint stays: {steps:?}");
    assert!(!plan.is_held(), "the status announces the closing from now on");
}

#[tokio::test]
async fn s7_s22_what_another_has_is_left_alone_and_what_no_one_selects_is_not_named() {
    let mut situation = plain(3, PolicyKind::default());
    situation.machines[0].is_claimed = true;
    situation.machines[1].is_name_taken = true;
    situation.machines[2].pool = 1;
    situation.after.selector = 1;
    situation.before.selector = 1;
    // The same policy: the label of one that is gone would go, also where only the name of the virtual node is another's.
    situation.after.policies = situation.before.policies.clone();
    let plan = plan_of(&situation).await;
    assert_eq!(plan.counts(), [(Fate::Anothers, 2)]);
    assert!(plan.nodes[0].sentence.contains("claims it"), "{}", plan.nodes[0].sentence);
    assert!(plan.nodes[1].sentence.contains("left alone"), "{}", plan.nodes[1].sentence);
    // The claim comes before a virtual node is made, as it does in the controller.
    assert_eq!(plan.nodes[1].steps, [], "it has been claimed before");
}

#[test]
fn every_kind_of_order_but_questions_and_leases_is_a_write() {
    assert_eq!(WriteKind::of(&NodeOrder::StopLease("n".into())), None);
    assert_eq!(WriteKind::of(&NodeOrder::RemovePods(Vec::new())), Some(WriteKind::Pods));
}
