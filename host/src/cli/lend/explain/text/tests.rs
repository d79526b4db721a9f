use jiff::Timestamp;
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::node::Window;
use topoloom_sync::resources::read_list;

use super::*;
use crate::cli::lend::amounts::{Amounts, Moment, amounts};
use crate::cli::lend::explain::document::{LeaseExplained, LimitExplained, OtherPods, PoliciesOfNode, UsingPod};
use crate::cli::lend::parts::{BarInForce, Windows};

fn time(at: &str) -> Timestamp {
    at.parse().unwrap()
}

fn seen(at: &str) -> Moment {
    Moment::seen(time(at), time("2026-03-05T11:30:00Z"))
}

fn uses(cpu: &str, memory: &str) -> Amounts {
    amounts(&read_list([("cpu", cpu), ("memory", memory)]).unwrap())
}

fn resource(name: &str, amounts: [&str; 4], limits: Vec<(&str, bool)>) -> ResourceExplained {
    let [base, used, left, lends] = amounts.map(str::to_owned);
    let limits = limits.into_iter().map(|(sentence, decides)| LimitExplained { sentence: sentence.into(), decides });
    ResourceExplained {
        resource: name.into(),
        base,
        used,
        left,
        shows: Some(lends.clone()),
        lends,
        limits: limits.collect(),
        rounded: None,
    }
}

fn explained() -> NodeExplained {
    let pod = |name: &str, cpu, memory, counts: &str| UsingPod {
        namespace: "kube-system".into(),
        name: name.into(),
        uses: uses(cpu, memory),
        counts: counts.into(),
    };
    let until = Some(time("2026-03-05T18:00:00Z"));
    NodeExplained {
        node: "w1".into(),
        virtual_node: Some("vnode-east-w1".into()),
        lent: true,
        binding: "east".into(),
        state: "lent".into(),
        bars: BarInForce::all(&Bars::from_iter([Bar::Paused])),
        policies: PoliciesOfNode {
            in_force: "policy days".into(),
            name: Some("days".into()),
            shadowed: vec!["always".into(), "weekends".into()],
            invalid: vec!["broken is invalid".into()],
        },
        windows: Some(Windows::of(Window::Open { until }, time("2026-03-05T11:30:00Z"))),
        next: Some(seen("2026-03-05T18:00:00Z")),
        size: Some(SizeExplained {
            base: "status.allocatable",
            resources: vec![
                resource("nvidia.com/gpu", ["8", "0", "8", "8"], Vec::new()),
                resource(
                    "cpu",
                    ["32", "6500m", "25500m", "17850m"],
                    vec![
                        ("limits[0]: at most 70% of 25500m, which is 17850m; leaves 17850m", true),
                        ("limits[2]: at most 20; not reached", false),
                    ],
                ),
            ],
            skipped: vec!["limits[1]: the node has no amd.com/gpu".into()],
            pods: vec![
                pod("agent", "5", "2Gi", "counts: it is not ours"),
                pod("proxy", "1", "512Mi", "counts: it is not ours"),
            ],
            other_pods: OtherPods { pods: 3, uses: uses("500m", "1Gi"), without_use: 2 },
            waits: Some("a node is made larger once in 10 s".into()),
            overcommitted: None,
        }),
        taints: vec![
            TaintExplained {
                taint: "topoloom.dev/vnode:NoSchedule".into(),
                reason: "the node is lent".into(),
                there: true,
            },
            TaintExplained {
                taint: "dedicated:NoSchedule".into(),
                reason: "the physical node has it".into(),
                there: false,
            },
        ],
        left_out: vec![TaintExplained {
            taint: "a:NoExecute".into(),
            reason: "conditions are mirrored".into(),
            there: false,
        }],
        not_copied: vec!["annotations \"big\": it has 300003 bytes".into()],
        reclaim: vec!["the time windows are open, or no policy is in force".into()],
        lease: Some(LeaseExplained {
            sentence: "it is renewed".into(),
            renewed: Some(seen("2026-03-05T11:29:56Z")),
            wanted: true,
        }),
        last_write: Some(seen("2026-03-05T11:29:00Z")),
        follows: vec!["patch status of node vnode-east-w1".into()],
        ..NodeExplained::default()
    }
}

#[test]
fn s23_the_explanation_of_a_node_reads_from_its_state_to_what_follows() {
    let explanation = LendExplanation {
        time: "2026-03-05T11:30:00Z".into(),
        nodes: vec![explained()],
        pod: None,
        remarks: vec!["a lease could not be read".into()],
    };
    assert_eq!(
        text(&explanation),
        "\
node w1, virtual node vnode-east-w1, binding east
  state     lent
            less is written: an operator paused the binding; `topoloom lend resume` ends this
  policy    policy days
  shadows   always, weekends
  invalid   broken is invalid
  windows   open until 2026-03-05T18:00:00Z, in 6h30m
  next      2026-03-05T18:00:00Z, in 6h30m
  lease     it is renewed; last at 2026-03-05T11:29:56Z, 4s ago
  written   2026-03-05T11:29:00Z, 1m0s ago

  SIZE, FROM status.allocatable
    RESOURCE        BASE  USED   LEFT    LENDS   SHOWS   DECIDED BY
    cpu             32    6500m  25500m  17850m  17850m  limits[0]: at most 70% of 25500m, which is 17850m; leaves 17850m
    nvidia.com/gpu  8     0      8       8       8       what is left

  OTHER LIMITS
    cpu: limits[2]: at most 20; not reached
    limits[1]: the node has no amd.com/gpu

  SIZE AND REQUESTS
    a node is made larger once in 10 s

  USED BY
    POD                CPU  MEMORY  WHY
    kube-system/agent  5    2Gi     counts: it is not ours
    kube-system/proxy  1    512Mi   counts: it is not ours
    and 3 more pods with cpu 500m, memory 1Gi; --top shows more of them
    and 2 pods of which nothing counts: the virtual scheduler counts what is lent, and what has ended uses nothing

  TAINTS
    TAINT                 WHY
    vnode:NoSchedule      the node is lent
    dedicated:NoSchedule  the physical node has it; it is not there yet

  TAINTS OF THE PHYSICAL NODE THAT ARE NOT COPIED
    TAINT        WHY
    a:NoExecute  conditions are mirrored

  LABELS AND ANNOTATIONS OF THE PHYSICAL NODE THAT ARE NOT COPIED
    annotations \"big\": it has 300003 bytes

  PODS OUTSIDE OF THE WINDOWS
    the time windows are open, or no policy is in force

  WHAT FOLLOWS NOW, IF THE GUARD ALLOWS IT
    patch status of node vnode-east-w1

REMARKS
a lease could not be read
"
    );
}

#[test]
fn s23_a_node_that_is_not_lent_says_why_and_nothing_else() {
    let explained = NodeExplained {
        node: "w2".into(),
        virtual_node: Some("vnode-east-w2".into()),
        binding: "east".into(),
        state: "not lent: its label type=virtual-kubelet says that it is no machine".into(),
        ..NodeExplained::default()
    };
    let explanation = LendExplanation { time: String::new(), nodes: vec![explained], pod: None, remarks: Vec::new() };
    let wanted = "\
node w2, without its virtual node vnode-east-w2, binding east
  state     not lent: its label type=virtual-kubelet says that it is no machine
";
    assert_eq!(text(&explanation), wanted);
}

#[test]
fn s23_the_explanation_of_a_pod_names_its_twin_and_the_last_write() {
    let side = |namespace: &str, name: &str, node: &str| OnePod {
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("{name}-uid"),
        node: Some(node.into()),
        phase: "Running".into(),
        terminating: false,
    };
    let pod = PodExplained {
        binding: Some("east".into()),
        lent: Some(side("shop", "web", "vnode-east-w1")),
        physical: Some(OnePod { terminating: true, ..side("lent", "shop-web", "w1") }),
        state: "row 7: its status is mirrored".into(),
        last_write: Some(seen("2026-03-05T11:29:00Z")),
        unread: false,
    };
    let explanation = LendExplanation { time: String::new(), nodes: Vec::new(), pod: Some(pod), remarks: Vec::new() };
    let wanted = "\
pod shop/web, binding east
  virtual   shop/web (UID web-uid), on node vnode-east-w1, Running
  physical  lent/shop-web (UID shop-web-uid), on node w1, Running, being deleted
  state     row 7: its status is mirrored
            rows are those of the table in docs/top-down-contract.md, \"A broken contract\"
  written   2026-03-05T11:29:00Z, 1m0s ago
";
    assert_eq!(text(&explanation), wanted);
}

#[test]
fn s5_s23_a_pod_whose_physical_cluster_was_not_read_is_not_said_to_have_no_physical_pod() {
    let lent = OnePod { namespace: "shop".into(), name: "web".into(), uid: "u".into(), ..OnePod::default() };
    let state = "its physical cluster was not read: no route".to_owned();
    let pod = PodExplained { lent: Some(lent), state, unread: true, ..PodExplained::default() };
    let explanation = LendExplanation { time: String::new(), nodes: Vec::new(), pod: Some(pod), remarks: Vec::new() };
    let said = text(&explanation);
    assert!(said.contains("\n  physical  not known: the physical cluster was not read\n"), "{said}");
}
