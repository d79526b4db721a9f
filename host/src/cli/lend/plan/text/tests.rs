use jiff::Timestamp;
use topoloom_api::cluster_binding::HeldBatchStatus;
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::resources::read_list;
use topoloom_syncer::survey::plan::Fate;

use super::*;
use crate::cli::lend::amounts::{Moment, amounts};
use crate::cli::lend::parts::{BarInForce, Held, Windows};
use crate::cli::lend::plan::document::{Count, Later, Leaving, Means, PlannedWrite};
use crate::cli::lend::plan::tests::held;

const NOW: &str = "2026-03-05T11:30:00Z";
const CLOSING: &str = "2026-03-05T18:00:00Z";
const GRACE_OVER: &str = "2026-03-05T18:10:00Z";
const LENT: &str = "topoloom.dev/vnode:NoSchedule";
const CLOSED: &str = "topoloom.dev/out-of-time-windows=true:NoSchedule";
const EMPTIED: &str = "topoloom.dev/out-of-time-windows=true:NoExecute";

fn time(at: &str) -> Timestamp {
    at.parse().unwrap()
}

fn moment(at: &str) -> Moment {
    Moment::seen(time(at), time(NOW))
}

fn size(pairs: &[(&str, &str)]) -> Amounts {
    amounts(&read_list(pairs.iter().copied()).unwrap())
}

fn shape(cpu: &str, memory: &str, taints: &[&str]) -> NodeShape {
    let size = size(&[("cpu", cpu), ("memory", memory), ("nvidia.com/gpu", "0"), ("pods", "110")]);
    NodeShape { size, taints: taints.iter().map(|&taint| taint.to_owned()).collect(), cordoned: false }
}

fn step(at: &str, before: Option<NodeShape>, after: Option<NodeShape>, pods: &[&str]) -> Step {
    let leaving = |name: &&str| Leaving {
        namespace: "shop".into(),
        name: (*name).to_owned(),
        uid: format!("{name}-uid"),
        by: Means::Eviction,
    };
    let writes = vec![PlannedWrite { kind: "status", line: "patch status of a node".into() }];
    Step { at: moment(at), after_pods_ended: false, before, after, writes, pods: pods.iter().map(leaving).collect() }
}

fn node(name: &str, fate: Fate, steps: Vec<Step>) -> NodePlan {
    NodePlan {
        node: name.to_owned(),
        virtual_node: Some(format!("vnode-east-{name}")),
        fate: fate.into(),
        why: "lent".into(),
        policy: Some("nights".into()),
        windows: Some(Windows::of(topoloom_sync::node::Window::Always, time(NOW))),
        before: None,
        after: None,
        later: None,
        held: false,
        barred: Vec::new(),
        steps,
    }
}

fn plan(nodes: Vec<NodePlan>, times: Vec<PlanTime>) -> BindingPlan {
    let mut fates: BTreeMap<NodeFate, (usize, usize)> = BTreeMap::new();
    for node in &nodes {
        let (all, held) = fates.entry(node.fate).or_default();
        (*all, *held) = (*all + 1, *held + usize::from(node.held));
    }
    let counts = fates.into_iter().map(|(fate, (nodes, held))| Count { fate, nodes, held }).collect();
    BindingPlan {
        binding: "east".into(),
        stored: true,
        virtual_nodes: 3,
        running_pods: 9,
        counts,
        nodes,
        times,
        ..BindingPlan::default()
    }
}

fn at(at: &str, closes: &[&str], held: Option<Held>) -> PlanTime {
    PlanTime { time: moment(at), opens: Vec::new(), closes: closes.iter().map(|&name| name.into()).collect(), held }
}

fn shown(plan: BindingPlan, rows: Rows) -> String {
    text(&LendPlans { time: NOW.into(), bindings: vec![plan] }, rows)
}

#[test]
fn s23_a_plan_shows_sizes_taints_and_pods_now_and_at_the_next_boundary() {
    let (full, cut) = (shape("26500m", "112Gi", &[LENT]), shape("18550m", "80Gi", &[LENT]));
    let closed = NodeShape { taints: vec![LENT.into(), CLOSED.into()], ..cut.clone() };
    let emptied = NodeShape { taints: vec![LENT.into(), EMPTIED.into()], ..cut.clone() };
    let resized = NodePlan {
        before: Some(full.clone()),
        after: Some(cut.clone()),
        later: Some(Later {
            size: size(&[("cpu", "20")]),
            in_seconds: Some(30),
            why: "sizes grow once a minute".into(),
        }),
        ..node(
            "w1",
            Fate::Resized,
            vec![
                step(NOW, Some(full.clone()), Some(cut.clone()), &[]),
                step(CLOSING, Some(cut.clone()), Some(closed.clone()), &[]),
                step(GRACE_OVER, Some(closed.clone()), Some(emptied.clone()), &["web-1"]),
            ],
        )
    };
    let created = NodePlan {
        after: Some(cut.clone()),
        ..node(
            "w2",
            Fate::Created,
            vec![
                step(NOW, None, Some(cut.clone()), &[]),
                step(CLOSING, Some(cut.clone()), Some(closed.clone()), &[]),
                step(GRACE_OVER, Some(closed), Some(emptied), &[]),
            ],
        )
    };
    let gone = NodePlan {
        before: Some(full.clone()),
        why: "its virtual node goes: the selector does not select it".into(),
        policy: None,
        ..node("w3", Fate::TakenAway, vec![step(NOW, Some(full.clone()), None, &["web-2", "web-3"])])
    };
    let same = NodePlan { before: Some(full.clone()), after: Some(full), ..node("w4", Fate::Unchanged, Vec::new()) };
    let times = vec![at(NOW, &[], None), at(CLOSING, &["nights"], None), at(GRACE_OVER, &[], None)];
    let said = shown(plan(vec![resized, created, gone, same], times), Rows::First);
    assert_eq!(
        said,
        "\
binding east: 3 nodes with 9 running pods

  now, at 2026-03-05T11:30:00Z: 1 taken away, 1 resized, 1 created, 1 unchanged
    NODE  WHAT        POLICY  CPU               MEMORY         TAINTS             WHY
    w3    taken away  -       26500m -> -       112Gi -> -     -                  its virtual node goes: the selector does not select it
    w1    resized     nights  26500m -> 18550m  112Gi -> 80Gi  -                  -
    w2    created     nights  18550m            80Gi           +vnode:NoSchedule  -
  2 pods go:
    shop/web-2 on vnode-east-w3, by eviction
    shop/web-3 on vnode-east-w3, by eviction
  not yet:
    w1 in 30s: cpu 20; sizes grow once a minute

  at 2026-03-05T18:00:00Z, in 6h30m: nights closes
    2 nodes: +out-of-time-windows=true:NoSchedule: w1, w2

  at 2026-03-05T18:10:00Z, in 6h40m
    2 nodes: +out-of-time-windows=true:NoExecute -out-of-time-windows=true:NoSchedule: w1, w2
  1 pod goes:
    shop/web-1 on vnode-east-w1, by eviction
"
    );
}

#[test]
fn s9_s23_what_the_guard_would_hold_is_said_with_its_numbers() {
    let full = shape("26500m", "112Gi", &[LENT]);
    let gone = NodePlan {
        before: Some(full.clone()),
        after: Some(full),
        held: true,
        why: "its virtual node goes: the selector does not select it".into(),
        ..node("w3", Fate::TakenAway, Vec::new())
    };
    let plans = LendPlans { time: NOW.into(), bindings: vec![plan(vec![gone], vec![at(NOW, &[], Some(held()))])] };
    assert!(plans.is_held() && !plans.has_failed());
    let said = text(&plans, Rows::First);
    for line in [
        "  now, at 2026-03-05T11:30:00Z: 1 taken away (1 held); nothing is written\n",
        "  WOULD BE HELD by the guard: 2 of 3 nodes and 3 of 9 running pods would be taken away: the selector of the binding does \
         not select the node; safety.maxNodesPercent allows 20 %\n",
        "w3    taken away, held  nights  26500m  112Gi",
    ] {
        assert!(said.contains(line), "{line:?} is not in\n{said}");
    }
    let stored = HeldBatchStatus {
        hash: "0123456789ab".into(),
        sentence: "2 of 3 nodes would be taken away; confirm with hash 0123456789ab".into(),
        ..HeldBatchStatus::default()
    };
    let said = shown(plan(Vec::new(), vec![at(NOW, &[], Some(Held::stored(&stored)))]), Rows::First);
    assert!(said.contains(&format!("  HELD by the guard: {}\n", stored.sentence)), "{said}");
}

#[test]
fn s23_five_thousand_nodes_are_counts_and_the_first_twenty() {
    let cut = shape("18550m", "80Gi", &[LENT]);
    let created = |index: usize| NodePlan {
        after: Some(cut.clone()),
        ..node(&format!("w{index:04}"), Fate::Created, vec![step(NOW, None, Some(cut.clone()), &["web"])])
    };
    let many = |rows| shown(plan((0..5_000).map(created).collect(), vec![at(NOW, &[], None)]), rows);
    let first = many(Rows::First);
    assert!(first.contains(": 5000 created\n") && first.contains("  5000 pods go:\n"), "{first}");
    assert_eq!(first.matches("    and 4980 more; --all shows them\n").count(), 2, "{first}");
    assert_eq!(first.lines().count(), 47, "{first}");
    assert!(many(Rows::All).lines().count() > 10_000);
}

#[test]
fn s23_a_plan_without_changes_says_that_nothing_is_written() {
    let full = shape("26500m", "112Gi", &[LENT]);
    let same = || NodePlan {
        before: Some(full.clone()),
        after: Some(full.clone()),
        ..node("w1", Fate::Unchanged, Vec::new())
    };
    let said = shown(plan(vec![same()], vec![at(NOW, &[], None)]), Rows::First);
    let wanted = "binding east: 3 nodes with 9 running pods\n\n  now, at 2026-03-05T11:30:00Z: 1 unchanged; nothing is written\n";
    assert_eq!(said, wanted);
    let all = shown(plan(vec![same()], vec![at(NOW, &[], None)]), Rows::All);
    assert!(all.contains("    w1    unchanged  nights  26500m  112Gi\n"), "{all}");
}

#[test]
fn s23_what_keeps_a_plan_from_being_written_stands_first() {
    let mut paused = plan(Vec::new(), vec![at(NOW, &[], None)]);
    paused.stored = false;
    paused.waits_for = BarInForce::all(&Bars::from_iter([Bar::Paused]));
    paused.bars = BarInForce::all(&Bars::from_iter([Bar::Conflict]));
    paused.remarks = vec!["the Lease could not be read".into()];
    let said = shown(paused, Rows::First);
    let wanted = "\
binding east: 3 nodes with 9 running pods; it is not stored yet, and is planned as if it were created now
  planned as if this was over: an operator paused the binding; `topoloom lend resume` ends this
  less is written: another borrower or binding holds what this binding wants
  the Lease could not be read

  now, at 2026-03-05T11:30:00Z: no nodes; nothing is written
";
    assert_eq!(said, wanted);
    let mut failed = BindingPlan::failed("there is no such ClusterBinding".into());
    failed.binding = "west".into();
    let plans = LendPlans { time: NOW.into(), bindings: vec![failed] };
    assert!(plans.has_failed() && !plans.is_held());
    assert_eq!(text(&plans, Rows::First), "binding west: no plan: there is no such ClusterBinding\n");
    assert_eq!(
        text(&LendPlans { time: NOW.into(), bindings: Vec::new() }, Rows::First),
        "there are no ClusterBindings\n"
    );
}

#[test]
fn sizes_that_only_look_the_same_are_shown_to_the_last_byte() {
    let shown = |before, after| change("memory", Some(before), after);
    assert_eq!(shown("131816452Ki", Some("131816400Ki")), "131816452Ki -> 131816400Ki");
    assert_eq!((shown("112Gi", Some("112Gi")), shown("112Gi", None)), ("112Gi".into(), "112Gi -> -".into()));
}

#[test]
fn what_a_step_does_is_said_even_where_no_size_and_no_taint_changes() {
    let full = shape("26500m", "112Gi", &[LENT]);
    let cordoned = NodeShape { cordoned: true, ..full.clone() };
    let said =
        |before: &Option<NodeShape>, after: &Option<NodeShape>| happens(&step(NOW, before.clone(), after.clone(), &[]));
    let (none, some, other) = (None, Some(full), Some(cordoned));
    assert_eq!(said(&some, &some), "status");
    assert_eq!(said(&some, &other), "+cordon");
    assert_eq!(said(&some, &none), "deleted");
    assert_eq!(said(&none, &some), "created with cpu 26500m, memory 112Gi, nvidia.com/gpu 0, pods 110");
}
