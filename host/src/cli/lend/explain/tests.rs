//! Explanations of a node whose facts come from lists, as the command makes them.

use std::time::Duration;

use serde_json::{Value, json};
use topoloom_sync::bars::{Bar, Bars};
use topoloom_sync::deletion::Evictions;
use topoloom_sync::identity::Identity;
use topoloom_sync::liveness::Reach;
use topoloom_sync::naming::{BindingName, ClusterId};
use topoloom_sync::node::Now;
use topoloom_syncer::bindings::once::Hindered;
use topoloom_syncer::convert::binding::Surroundings;
use topoloom_syncer::survey::lists::PhysicalLists;
use topoloom_syncer::survey::{Sources, Survey, policies};
use topoloom_syncer::view::VerbOnBinding;

use super::*;
use crate::cli::lend::answers::{BY_LABELS, client, list};
use crate::cli::lend::clusters::examples::{binding, clusters};

fn of<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn identity() -> Identity {
    Identity::new("vc".into(), BindingName::parse("east").unwrap(), "binding-uid".into()).unwrap()
}

fn now() -> Now {
    Now { wall: "2026-03-05T11:30:00Z".parse().unwrap(), steady: Duration::from_secs(100_000) }
}

fn reading() -> Reading {
    let object = json!({
        "metadata": {"name": "east", "uid": "binding-uid"},
        "spec": {"clusterID": "east", "mountNamespace": "lent", "secretRef": {"name": "kube"}},
    });
    let around = Surroundings { virtual_cluster: "vc".into(), evictions: Evictions::Allowed, endpoint: None };
    read(&of(object), &around).unwrap()
}

fn machine() -> Value {
    json!({
        "metadata": {"name": "w1", "uid": "w1-uid", "resourceVersion": "5", "labels": {"zone": "a"},
            "annotations": {"topoloom.dev/leased-by": identity().claim(), "hami.io/devices": "x", "big": "x".repeat(300_000)}},
        "spec": {"taints": [
            {"key": "dedicated", "value": "lent", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"},
        ]},
        "status": {
            "allocatable": {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "7", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    })
}

fn lent_node() -> Value {
    let terms = reading().terms;
    json!({
        "metadata": {"name": "vnode-east-w1", "uid": "lent-uid", "resourceVersion": "8", "finalizers": ["topoloom.dev/vnode"],
            "labels": identity().node_labels(&terms.binding.cluster, "w1"),
            "annotations": {"topoloom.dev/physical-node-name": "w1", "topoloom.dev/last-sync-time": "2026-03-05T11:29:00Z"}},
        "spec": {"taints": [{"key": "topoloom.dev/vnode", "effect": "NoSchedule"}, {"key": "mine", "effect": "NoExecute"}]},
        "status": {"allocatable": {"cpu": "18", "memory": "64Gi", "nvidia.com/gpu": "7", "pods": "110"}},
    })
}

fn pod(namespace: &str, name: &str, cpu: &str, memory: &str, metadata: Value) -> PodSlice {
    let mut all = json!({"namespace": namespace, "name": name, "uid": format!("{name}-uid"), "resourceVersion": "3"});
    all.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    let requests = json!({"requests": {"cpu": cpu, "memory": memory}});
    of(json!({
        "metadata": all,
        "spec": {"nodeName": "w1", "containers": [{"name": "c", "resources": requests}]},
        "status": {"phase": "Running"},
    }))
}

fn policy(name: &str, priority: i64, spec: Value) -> topoloom_api::ResourceLeasingPolicy {
    let mut all = json!({"cluster": "east", "priority": priority});
    all.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    of(json!({"metadata": {"name": name, "uid": format!("{name}-uid")}, "spec": all}))
}

/// The virtual node of that machine as an earlier binding made it under the `clusterID` `est`.
fn of_est() -> Value {
    let (name, est) = (BindingName::parse("east").unwrap(), ClusterId::parse("est").unwrap());
    let earlier = Identity::new("vc".into(), name, "earlier-uid".into()).unwrap();
    let mut node = lent_node();
    node["metadata"]["name"] = "vnode-est-w1".into();
    node["metadata"]["labels"] = json!(earlier.node_labels(&est, "w1"));
    node
}

/// What is known where this is the only virtual node, and the lists of the physical cluster.
fn surveyed(lent: Value) -> (Survey, PhysicalLists) {
    let mut labels = identity().labels();
    labels.insert(keys::MANAGED_BY_LABEL.to_owned(), keys::MANAGED_BY.to_owned());
    let names = json!({"labels": labels, "annotations": {"topoloom.dev/virtual-pod-namespace": "shop",
        "topoloom.dev/virtual-pod-name": "web", "topoloom.dev/virtual-pod-uid": "gone-uid"}});
    let physical = PhysicalLists {
        nodes: vec![of(machine())],
        pods: vec![
            pod("kube-system", "agent", "500m", "1Gi", json!({})),
            pod("lent", "shop-web", "5", "2Gi", names),
            pod("batch", "job", "1", "40Gi", json!({})),
        ],
        csi_nodes: Some(Vec::new()),
    };
    let lent = LentLists { nodes: vec![of(lent)], pods: Vec::new(), csi_nodes: Some(Vec::new()) };
    let day = json!({
        "timeZone": "UTC",
        "timeWindows": [{"start": "08:00", "end": "17:59"}],
        "resourceLimits": [
            {"resource": "cpu", "quantity": "20", "percent": 70}, {"resource": "amd.com/gpu", "quantity": "1"},
            {"resource": "nvidia.com/gpu", "percent": 50}, {"resource": "memory", "quantity": "500Gi"},
        ],
    });
    let stored = [
        policy("days", 10, day),
        policy("always", 1, json!({})),
        policy("broken", 5, json!({"timeZone": "Mars/Olympus"})),
    ];
    let hindered = Hindered {
        bars: Bars::default(),
        reach: Reach::Reachable,
        verb: VerbOnBinding::None,
        confirmed: None,
        why: Vec::new(),
        remarks: Vec::new(),
    };
    let reading = reading();
    let sources = Sources {
        terms: &reading.terms,
        status: &Default::default(),
        hindered: &hindered,
        bindings: [Uid::from("binding-uid")].into(),
        lent: &lent,
        physical: Some(&physical),
        policies: Some(policies(&stored, identity().binding())),
    };
    (Survey::new(sources, now()), physical)
}

fn explain() -> NodeExplained {
    let (mut survey, physical) = surveyed(lent_node());
    let machine = survey.machine("vnode-east-w1").unwrap();
    assert_eq!(survey.machine("w1"), Some(machine.clone()));
    let mut explained = survey.see(&machine, now(), |facts, decision| node::explained(facts, decision, now()));
    let size = explained.size.as_mut().unwrap();
    let names: HashMap<Uid, PodRef> =
        physical.pods.iter().map(PodSlice::pod).map(|pod| (pod.uid.clone(), pod)).collect();
    let base = &survey.view.physical("w1").unwrap().allocatable;
    (size.pods, size.other_pods) = node::usage(survey.view.ledger.usage("w1"), &names, base, 2);
    explained
}

#[test]
fn s23_a_node_is_explained_from_its_base_to_what_it_lends() {
    let explained = explain();
    assert_eq!((explained.state.as_str(), explained.lent), ("lent", true));
    let size = explained.size.as_ref().unwrap();
    let of = |name: &str| size.resources.iter().find(|resource| resource.resource == name).unwrap();
    let cpu = of("cpu");
    assert_eq!((&*cpu.base, &*cpu.used, &*cpu.left, &*cpu.lends), ("32", "6500m", "25500m", "17850m"));
    assert_eq!(cpu.shows.as_deref(), Some("18"));
    assert_eq!(cpu.limits[0].sentence, "limits[0]: at most 20 and 70% of 25500m, which is 17850m; leaves 17850m");
    assert!(cpu.limits[0].decides);
    let gpu = of("nvidia.com/gpu");
    assert_eq!((&*gpu.lends, gpu.limits[0].decides), ("3", true));
    assert!(gpu.rounded.as_ref().unwrap().starts_with("3500m is rounded down"), "{gpu:?}");
    let memory = of("memory");
    assert_eq!((&*memory.used, &*memory.lends, memory.limits[0].decides), ("43Gi", "85Gi", false));
    assert_eq!(size.skipped, ["limits[1]: the node has no amd.com/gpu"]);
    assert_eq!(size.base, "status.allocatable");
}

#[test]
fn s23_the_pods_that_use_most_of_a_node_come_first_and_the_rest_is_a_sum() {
    let explained = explain();
    let size = explained.size.as_ref().unwrap();
    let named: Vec<(&str, &str)> = size.pods.iter().map(|pod| (&*pod.name, &*pod.counts)).collect();
    assert_eq!(
        named,
        [
            ("job", "counts: it is not ours"),
            ("shop-web", "counts: no virtual pod is known that it names and that names it")
        ]
    );
    assert_eq!((&*size.pods[0].uses["memory"], &*size.pods[1].uses["cpu"]), ("40Gi", "5"));
    assert_eq!((size.other_pods.pods, &*size.other_pods.uses["cpu"]), (1, "500m"));
}

#[test]
fn s23_policies_windows_and_taints_of_a_node_have_their_reasons() {
    let explained = explain();
    let policies = &explained.policies;
    assert_eq!((policies.in_force.as_str(), policies.name.as_deref()), ("policy days", Some("days")));
    assert_eq!(policies.shadowed, ["always"]);
    assert!(policies.invalid[0].starts_with("broken is invalid, and no valid version"), "{policies:?}");
    assert_eq!(explained.windows.as_ref().unwrap().shown(), "open until 2026-03-05T18:00:00Z, in 6h30m");
    assert_eq!(explained.next.as_ref().unwrap().at(), "2026-03-05T18:00:00Z");
    assert_eq!(explained.last_write.as_ref().unwrap().shown(), "2026-03-05T11:29:00Z, 1m0s ago");
    let reasons: Vec<(&str, &str, bool)> =
        explained.taints.iter().map(|taint| (&*taint.taint, &*taint.reason, taint.there)).collect();
    assert_eq!(
        reasons,
        [
            (
                "topoloom.dev/vnode:NoSchedule",
                "the node is lent (disableNodeDefaultTaint in the binding switches this taint off)",
                true
            ),
            ("mine:NoExecute", "another client added it in the virtual cluster", true),
            ("dedicated=lent:NoSchedule", "the physical node has it", false),
        ]
    );
    let left: Vec<(&str, &str)> = explained.left_out.iter().map(|taint| (&*taint.taint, &*taint.reason)).collect();
    let why = "it follows from a condition of the node, and conditions are mirrored";
    assert_eq!(left, [("node.kubernetes.io/memory-pressure:NoSchedule", why)]);
    let devices = "keys that begin with hami.io/ are not copied: it holds devices and node locks, which no device plugin of the \
                   virtual node releases";
    assert_eq!(
        explained.not_copied,
        [
            "annotations \"big\": it has 300003 bytes, and all annotations together must have at most 262144"
                .to_owned(),
            format!("annotations \"hami.io/devices\": {devices}"),
        ]
    );
    assert!(explained.lease.as_ref().unwrap().sentence.starts_with("it is renewed; "), "{explained:?}");
    assert!(!explained.follows.is_empty());
}

#[test]
fn s7_s23_a_machine_that_is_lent_under_an_earlier_cluster_id_is_not_said_to_be_lent_next() {
    let (mut survey, _) = surveyed(of_est());
    let explained = survey.see(&"w1".into(), now(), |facts, decision| node::explained(facts, decision, now()));
    let bars: Vec<&str> = explained.bars.iter().map(|bar| bar.sentence.as_str()).collect();
    assert_eq!(bars, [Bar::Conflict.to_string()]);
    assert_eq!((explained.lent, explained.follows), (false, Vec::new()));
}

#[tokio::test]
async fn s6_s23_virtual_nodes_of_an_earlier_cluster_id_are_looked_for_whichever_node_is_asked_about() {
    let nodes = "/api/v1/nodes";
    let by_labels = format!("{nodes}{BY_LABELS}");
    let answers = [(nodes, list(&[])), (by_labels.as_str(), list(&[of_est()])), ("/api/v1/pods", list(&[]))];
    let (clusters, all) = (clusters(client(&answers), &[]), [binding("east", "virtual", json!({}))]);
    let asked = Asked { clusters: &clusters, bindings: &all, selected: Vec::new(), top: 1 };
    let (_, seen) = asked.look(&all[0], Scope::Machine { physical: "w2", lent: "vnode-east-w2" }).await.unwrap();
    assert!(seen.hindered.why.iter().any(|why| why.contains("vnode-est-w1 (est)")), "{:?}", seen.hindered.why);
}

#[test]
fn a_physical_node_is_found_by_the_name_of_its_virtual_one() {
    let binding = reading().terms.binding;
    let node: NodeSlice = of(lent_node());
    let name = |name: &str, known: Option<&NodeSlice>| physical_name(name, known, &binding);
    assert_eq!(name("vnode-east-w1", Some(&node)), "w1");
    assert_eq!(name("vnode-east-w7", None), "w7");
    assert_eq!((name("w7", None), name("vnode-west-w7", None)), ("w7".into(), "vnode-west-w7".into()));
    let of_another: NodeSlice = of(json!({"metadata": {"name": "w7", "labels": {},
        "annotations": {"topoloom.dev/physical-node-name": "elsewhere"}}}));
    assert_eq!(name("w7", Some(&of_another)), "w7");
}

#[test]
fn s23_a_cluster_that_is_not_the_virtual_one_is_no_proof_that_nothing_is_lent() {
    assert_eq!(why_none(None, Some("east")), UNDEFINED);
    assert_eq!(why_none(Some(&[]), Some("east")), "there is no ClusterBinding east");
    assert_eq!(why_none(Some(&[]), None), "there are no ClusterBindings");
}

#[tokio::test]
async fn s22_a_node_is_said_to_be_of_the_binding_that_left_it_and_a_pod_is_no_node() {
    let clusters = clusters(client(&[("/api/v1/nodes/vnode-east-w1", lent_node())]), &[]);
    let left = owner(&clusters, &[], "vnode-east-w1").await.unwrap();
    assert!(
        left.starts_with("node vnode-east-w1 is a virtual node of ClusterBinding east with the UID binding-uid"),
        "{left}"
    );
    assert_eq!(owner(&clusters, &[], "w9").await, None);
    assert_eq!(owner(&clusters, &[], "default/vnode-east-w1").await, None);
}

#[test]
fn what_is_explained_has_a_name_that_an_object_can_have() {
    for name in ["w1", "shop/web-0", "vnode-east-w1.example.com"] {
        assert_eq!(subject(name).as_deref(), Ok(name));
    }
    for wrong in ["", "/web", "shop/", "a/b/c", "../secrets", "W1", "w1?x=y"] {
        assert!(subject(wrong).is_err(), "{wrong:?}");
    }
}

#[test]
fn s5_s23_s24_a_lease_that_has_ended_is_not_said_to_be_renewed_and_the_clock_may_be_why() {
    let (now, lasts) = (now().wall, Duration::from_secs(40));
    let said = |wanted: bool, seconds: i64| {
        let mut lease = document::LeaseExplained { sentence: "it is renewed".into(), renewed: None, wanted };
        node::renewed(&mut lease, Some(now - jiff::SignedDuration::from_secs(seconds)), lasts, now);
        assert!(lease.renewed.is_some());
        lease.sentence
    };
    assert_eq!(said(true, 40), "it is renewed");
    let ended = "it lasts for 40s, and by its time it has ended: no replica renews it, or the clock of the replica that renews it is \
                 behind. If the resourceVersion of the lease changes within 40s, it is the clock";
    assert_eq!(said(true, 41), ended);
    assert_eq!(said(false, 41), "it is renewed", "that it stops has a reason of its own");
}
