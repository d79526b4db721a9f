use jiff::Timestamp;
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::resources::read_list;

use super::*;
use crate::cli::lend::amounts::{Amounts, Moment, amounts};
use crate::cli::lend::parts::BarInForce;
use crate::cli::lend::report::document::{Leases, OldestLease, PolicyShare};

fn seen(at: &str) -> Moment {
    let time = |at: &str| -> Timestamp { at.parse().unwrap() };
    Moment::seen(time(at), time("2026-03-05T11:30:00Z"))
}

fn list(cpu: &str, memory: &str, gpu: &str) -> Amounts {
    amounts(&read_list([("cpu", cpu), ("memory", memory), ("nvidia.com/gpu", gpu), ("pods", "110")]).unwrap())
}

fn share_of(nodes: usize, cpu: [&str; 3], gpu: [&str; 3]) -> Share {
    let [lent, used, idle] = [0, 1, 2].map(|at| list(cpu[at], "16Gi", gpu[at]));
    let used = used.into_iter().filter(|(name, _)| name != "pods").collect();
    Share { nodes, lent, used, idle }
}

fn remark(node: &str, sentence: &str) -> NodeRemark {
    NodeRemark { node: node.into(), sentence: sentence.into() }
}

fn report() -> BindingReport {
    BindingReport {
        binding: "east".into(),
        bars: BarInForce::all(&Bars::from_iter([Bar::Observing])),
        virtual_nodes: 3,
        running_pods: 12,
        total: share_of(3, ["60", "32500m", "27500m"], ["8", "2", "6"]),
        policies: vec![
            PolicyShare { policy: Some("nights".into()), share: share_of(2, ["40", "30", "10"], ["0", "0", "0"]) },
            PolicyShare { policy: None, share: share_of(1, ["20", "2500m", "17500m"], ["8", "2", "6"]) },
        ],
        overcommitted: vec![remark(
            "vnode-east-w1",
            "the pods of this node request more than it has: cpu 20 of 18 (2 too much)",
        )],
        waiting: vec![
            WaitingNode { node: "vnode-east-w2".into(), pods: 4, why: "a window closed".into(), held: true },
            WaitingNode { node: "vnode-east-w3".into(), pods: 1, why: "no policy lends the node".into(), held: false },
        ],
        leases: Leases {
            oldest: Some(OldestLease { node: "vnode-east-w1".into(), renewed: seen("2026-03-05T11:29:50Z") }),
            missing: 1,
        },
        next_transition: Some(seen("2026-03-05T18:00:00Z")),
        claimed_by_others: vec![remark("w7", "the ClusterBinding with the UID b of the virtual cluster v claims it")],
        stale_claims: vec![remark("w8", "the binding with the UID a does not exist any more")],
        ..BindingReport::default()
    }
}

#[test]
fn s23_a_report_shows_what_is_lent_used_and_idle_and_what_waits() {
    let orphan = |node: &str, adoptable| OrphanNode {
        node: node.into(),
        binding: "old".into(),
        binding_uid: "old-uid".into(),
        adoptable,
    };
    let report = LendReport {
        time: "2026-03-05T11:30:00Z".into(),
        bindings: vec![report()],
        orphans: vec![orphan("vnode-old-w1", false), orphan("vnode-old-w2", true)],
        remarks: vec!["leases could not be listed".into()],
    };
    assert_eq!(
        text(&report, Rows::First),
        "\
binding east: 3 nodes with 12 running pods
  less is written: the binding has mode: observe
  next transition: 2026-03-05T18:00:00Z, in 6h30m
  oldest lease: vnode-east-w1, renewed at 2026-03-05T11:29:50Z, 10s ago
  without a lease: 1 node

  LENT
    POLICY   NODES  RESOURCE        LENT  USED    IDLE
    all      3      cpu             60    32500m  27500m
                    memory          16Gi  16Gi    16Gi
                    nvidia.com/gpu  8     2       6
    nights   2      cpu             40    30      10
                    memory          16Gi  16Gi    16Gi
    without  1      cpu             20    2500m   17500m
                    memory          16Gi  16Gi    16Gi
                    nvidia.com/gpu  8     2       6

  OVERCOMMITTED
    NODE           WHY
    vnode-east-w1  the pods of this node request more than it has: cpu 20 of 18 (2 too much)

  PODS THAT HAVE TO GO
    NODE           PODS  WHY
    vnode-east-w2  4     held by the guard: a window closed
    vnode-east-w3  1     no policy lends the node

  CLAIMED BY OTHERS
    NODE  WHY
    w7    the ClusterBinding with the UID b of the virtual cluster v claims it

  CLAIMS THAT ARE LEFT OVER
    NODE  WHY
    w8    the binding with the UID a does not exist any more

ORPHANS: virtual nodes whose binding does not exist any more
    NODE          BINDING  UID      NEXT
    vnode-old-w1  old      old-uid  topoloom lend release removes it, or a new binding old adopts it
    vnode-old-w2  old      old-uid  the binding of that name adopts it

REMARKS
leases could not be listed
"
    );
}

#[test]
fn s6_s23_a_node_of_another_cluster_id_waits_until_the_binding_of_its_name_is_deleted() {
    let orphan = OrphanNode {
        node: "vnode-est-w1".into(),
        binding: "east".into(),
        binding_uid: "old-uid".into(),
        adoptable: false,
    };
    let report =
        LendReport { time: String::new(), bindings: vec![report()], orphans: vec![orphan], remarks: Vec::new() };
    let said = text(&report, Rows::First);
    let next = "vnode-est-w1  east     old-uid  the binding of that name has another clusterID: delete it, and then apply it with the \
                earlier one, which adopts it, or topoloom lend release removes it\n";
    assert!(said.ends_with(next), "{said}");
}

#[test]
fn s23_a_report_without_anything_is_short() {
    let report = |bindings| LendReport { time: String::new(), bindings, orphans: Vec::new(), remarks: Vec::new() };
    assert_eq!(text(&report(Vec::new()), Rows::First), "there are no ClusterBindings\n");
    let idle = BindingReport { binding: "east".into(), ..BindingReport::default() };
    assert_eq!(text(&report(vec![idle]), Rows::First), "binding east: 0 nodes with 0 running pods\n");
    let failed = BindingReport { binding: "east".into(), error: Some("no".into()), ..BindingReport::default() };
    assert_eq!(text(&report(vec![failed]), Rows::First), "binding east: nothing is known of it: no\n");
}
