mod claims;
mod crowded;
mod labels;
mod scenarios;
mod unstored;
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::scene::{Scene, amounts, at, machine, read_lent};
use super::*;
use crate::bars::Bar;
use crate::deletion::{Existence, PodClass};
use crate::keys;
use crate::liveness::{Lease, NotAlive, OnUnreachable, Reach};
use crate::policy::examples::{invalid, malformed, on_pool, window};
use crate::policy::in_force::{NoPolicy, Synced};
use crate::policy::spec::LimitSpec;
use crate::selector::{NodeSelector, RawNodeSelector, RawRequirement, RawTerm};

const SECOND: Duration = Duration::from_secs(1);

fn pool(name: &str) -> NodeSelector {
    let values = vec![name.to_owned()];
    let requirement = RawRequirement { key: "pool".into(), operator: "In".into(), values };
    let term = RawTerm { match_expressions: vec![requirement], match_fields: vec![] };
    NodeSelector::parse(&RawNodeSelector { terms: vec![term] }).unwrap()
}

/// What a live read shows of this virtual node.
fn found(node: &Value) -> LiveLent {
    LiveLent::Found(Arc::new(read_lent(node)))
}

/// A selector that takes the node away, which the guard holds, is as before again: the node was marked, and is not any more.
fn mark_and_keep(scene: &mut Scene) {
    scene.binding.selector = pool("cpu");
    scene.leave = Leave::Held;
    scene.settle();
    scene.binding.selector = NodeSelector::default();
    scene.settle();
    assert_eq!(scene.taints(), ["topoloom.dev/vnode:NoSchedule"]);
}

#[test]
fn scenario_15_1_s7_s12_a_node_is_claimed_and_then_made_with_its_status_in_one_request_each() {
    let mut scene = Scene::new();
    scene.policy(|_| {});
    assert_eq!(scene.ordered(), ["claim the physical node", "create node vnode-east-w1"]);
    scene.settle();
    assert_eq!(scene.sent, ["claim the physical node", "create node vnode-east-w1"]);
    assert_eq!(scene.claim(), "vc-1/b-1");
    assert_eq!(scene.physical.as_ref().unwrap()["metadata"]["labels"][keys::POLICY_APPLIED], "night");

    let labels = scene.of_lent("/metadata/labels");
    for (key, value) in [
        (keys::MANAGED_BY_LABEL, "topoloom"),
        (keys::VIRTUAL_CLUSTER, "vc-1"),
        (keys::BINDING, "east"),
        (keys::BINDING_UID, "b-1"),
        (keys::CLUSTER_BINDING, "east"),
        (keys::PHYSICAL_CLUSTER_ID, "east"),
        (keys::PHYSICAL_NODE_NAME, "w1"),
        (keys::PHYSICAL_NODE_UID, "u1"),
        (keys::PHYSICAL_NODE_INNER_IP, "10.0.0.1"),
        ("type", "virtual-kubelet"),
        ("node.kubernetes.io/instance-type", "vnode"),
        ("beta.kubernetes.io/instance-type", "vnode"),
        ("kubernetes.io/hostname", "vnode-east-w1"),
        ("node.kubernetes.io/exclude-from-external-load-balancers", "true"),
        ("rack", "r1"),
        ("pool", "gpu"),
    ] {
        assert_eq!(labels[key], value, "{key}");
    }
    assert_eq!(scene.annotation("vendor.io/serial").as_deref(), Some("4711"));
    assert_eq!(scene.annotation(keys::POLICIES_APPLIED).as_deref(), Some("night"));
    assert_eq!(scene.of_lent("/metadata/finalizers"), json!([keys::VNODE_FINALIZER]));
    assert_eq!(scene.of_lent("/status/allocatable"), json!({"cpu": "4", "memory": "16Gi", "pods": "110"}));
    assert_eq!(scene.of_lent("/status/capacity"), scene.of_lent("/status/allocatable"));
    assert_eq!(scene.of_lent("/status/addresses"), json!([{"type": "InternalIP", "address": "10.0.0.1"}]));
    assert_eq!(scene.of_lent("/status/nodeInfo/architecture"), "amd64");
    let ready = scene.of_lent("/status/conditions/0");
    assert_eq!(
        (&ready["type"], &ready["status"], ready.get("lastHeartbeatTime")),
        (&json!("Ready"), &json!("True"), None)
    );
    assert_eq!(scene.taints(), ["topoloom.dev/vnode:NoSchedule"]);
    assert_eq!(scene.lease(), Some(Lease::Renew));
    // Nothing is looked at again by time alone: this policy has no windows.
    assert_eq!(scene.look(|_, decision| (decision.next, decision.next_steady)), (None, None));
}

#[test]
fn s13_a_virtual_node_has_no_provider_no_range_of_pods_and_no_images() {
    let scene = Scene::lent();
    let keys =
        |pointer: &str| -> BTreeSet<String> { scene.of_lent(pointer).as_object().unwrap().keys().cloned().collect() };
    // A podCIDR outside of the cluster's range ends kube-controller-manager at its next start.
    assert_eq!(keys("/spec"), ["taints".to_owned()].into());
    let status = ["addresses", "allocatable", "capacity", "conditions", "nodeInfo"];
    assert_eq!(keys("/status"), status.map(str::to_owned).into());
}

#[test]
fn s26_with_an_endpoint_the_node_has_its_address_and_port_and_no_hostname() {
    let mut scene = Scene::lent();
    scene.binding.endpoint = Some(KubeletEndpoint { address: "10.9.0.1".into(), port: 10_250 });
    scene.settle();
    assert_eq!(scene.sent, ["patch status of node vnode-east-w1"]);
    assert_eq!(scene.of_lent("/status/addresses"), json!([{"type": "InternalIP", "address": "10.9.0.1"}]));
    assert_eq!(scene.of_lent("/status/daemonEndpoints/kubeletEndpoint/Port"), 10_250);
}

#[test]
fn s26_an_address_of_the_machine_that_leads_to_no_network_goes_from_the_node() {
    let mut scene = Scene::lent();
    let metadata_service = json!([{"type": "InternalIP", "address": "169.254.169.254"}]);
    scene.edit_physical(json!({"status": {"addresses": metadata_service}}));
    scene.settle();
    assert_eq!(scene.sent, ["patch status of node vnode-east-w1"]);
    assert_eq!(scene.of_lent("/status/addresses"), json!([]));
}

// Nothing is written where nothing differs.

#[test]
fn s12_a_node_at_rest_is_not_written_however_often_it_is_looked_at_and_whatever_its_heartbeats_say() {
    let mut scene = Scene::lent();
    for round in 0..100_u64 {
        scene.pass(Duration::from_secs(300));
        let beat = at("2026-08-03T12:00:00Z").checked_add(Duration::from_secs(round * 300)).unwrap().to_string();
        scene.edit_physical(json!({"status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status",
            "lastHeartbeatTime": beat, "lastTransitionTime": "2026-08-01T00:00:00Z",
        }]}}));
        assert_eq!(scene.ordered(), Vec::<String>::new());
    }
}

#[test]
fn s12_a_change_of_the_physical_node_is_one_request_with_what_changed() {
    let mut scene = Scene::lent();
    scene.edit_physical(json!({"metadata": {"labels": {"rack": "r2", "pool": null}}}));
    let body = scene.look(|_, decision| match &decision.orders[..] {
        [NodeOrder::PatchStatus { body, .. }] => body.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(body["metadata"]["labels"], json!({"rack": "r2", "pool": null}));
    assert!(body.get("status").is_none(), "{body}");
    scene.settle();
    assert_eq!(scene.sent.len(), 1);
}

#[test]
fn s12_a_resource_that_goes_is_an_explicit_null_and_conditions_go_whole() {
    let mut scene = Scene::lent();
    scene.edit_physical(json!({"status": {"allocatable": {"memory": null}, "conditions": [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"},
        {"type": "DiskPressure", "status": "False", "reason": "KubeletHasNoDiskPressure"},
    ]}}));
    let body = scene.look(|_, decision| match &decision.orders[..] {
        [NodeOrder::PatchStatus { body, .. }] => body.clone(),
        other => panic!("{other:?}"),
    });
    assert_eq!(body["metadata"]["resourceVersion"], scene.of_lent("/metadata/resourceVersion"));
    for list in ["allocatable", "capacity"] {
        assert_eq!(body["status"][list], json!({"memory": null}), "{list}");
    }
    // A merge patch replaces the whole list: a condition that it lacks would be gone.
    let conditions = body["status"]["conditions"].as_array().unwrap();
    let kinds: BTreeSet<&str> = conditions.iter().map(|condition| condition["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["DiskPressure", "Overcommitted", "Ready"].into());
    scene.settle();
    assert_eq!(scene.of_lent("/status/allocatable"), json!({"cpu": "4", "pods": "110"}));
}

#[test]
fn s22_what_a_user_adds_stays_and_what_is_ours_is_repaired() {
    let mut scene = Scene::lent();
    let taints = json!([{"key": "topoloom.dev/vnode", "effect": "NoSchedule"}, {"key": "team", "value": "blue", "effect": "NoSchedule"}]);
    scene.edit_lent(json!({"metadata": {"labels": {"team": "a", "rack": "edited"}}, "spec": {"taints": taints}}));
    scene.settle();
    assert_eq!(scene.of_lent("/metadata/labels/team"), "a");
    assert_eq!(scene.of_lent("/metadata/labels/rack"), "r1");
    assert_eq!(scene.taints(), ["topoloom.dev/vnode:NoSchedule", "team=blue:NoSchedule"]);
    scene.edit_lent(json!({"spec": {"unschedulable": true}}));
    scene.settle();
    assert_eq!(scene.of_lent("/spec/unschedulable"), true, "a cordon of a user stays");
}

#[test]
fn s22_an_edited_uid_is_repaired_and_not_obeyed() {
    let mut scene = Scene::lent();
    scene.edit_lent(json!({"metadata": {"labels": {keys::PHYSICAL_NODE_UID: "other"}}}));
    scene.settle();
    assert_eq!(scene.of_lent("/metadata/labels").get(keys::PHYSICAL_NODE_UID), Some(&json!("u1")));
    // Both places, and the claim is on the physical node.
    scene.edit_lent(json!({"metadata": {
        "labels": {keys::PHYSICAL_NODE_UID: "other"}, "annotations": {keys::PHYSICAL_NODE_UID: "other"},
    }}));
    scene.settle();
    assert_eq!(scene.annotation(keys::PHYSICAL_NODE_UID).as_deref(), Some("u1"));
}

// Sizes.

#[test]
fn s14_smaller_is_written_at_once_and_larger_once_in_ten_seconds() {
    let mut scene = Scene::lent();
    scene.usage = amounts(&[("cpu", "1")]);
    scene.settle();
    assert_eq!(scene.of_lent("/status/allocatable/cpu"), "3");
    assert_eq!(scene.sent, ["patch status of node vnode-east-w1"]);
    scene.memory.grown = Some(scene.now.steady);
    scene.usage = amounts(&[]);
    scene.pass(9 * SECOND);
    assert_eq!(scene.ordered(), Vec::<String>::new());
    assert_eq!(scene.look(|_, decision| decision.next_steady), Some(scene.now.steady + SECOND));
    scene.pass(SECOND);
    scene.settle();
    assert_eq!(scene.of_lent("/status/allocatable/cpu"), "4");
}

#[test]
fn s14_a_node_that_shrinks_evicts_nothing_and_says_that_its_pods_have_more() {
    let mut scene = Scene::lent();
    scene.requested = amounts(&[("cpu", "3")]);
    scene.usage = amounts(&[("cpu", "2")]);
    scene.pod("p");
    assert_eq!(scene.acts(), None);
    scene.settle();
    let conditions = scene.of_lent("/status/conditions");
    let of = conditions.as_array().unwrap().iter().find(|condition| condition["type"] == "Overcommitted").unwrap();
    assert_eq!(of["status"], "True", "{of}");
    assert_eq!(scene.pods.len(), 1);
}

#[test]
fn section_11_2_s14_a_placeholder_for_host_ports_takes_no_slot_from_the_pods_of_the_borrower() {
    let mut scene = Scene::lent();
    scene.usage = amounts(&[("pods", "10")]);
    scene.requested = amounts(&[("pods", "100")]);
    scene.settle();
    let shows = |scene: &Scene| {
        let conditions = scene.of_lent("/status/conditions");
        let mut all = conditions.as_array().unwrap().iter();
        let over = all.find(|condition| condition["type"] == "Overcommitted").unwrap()["status"].clone();
        (scene.of_lent("/status/allocatable/pods"), over)
    };
    assert_eq!(shows(&scene), (json!("100"), json!("False")));
    scene.pod("placeholder").class = PodClass::Placeholder;
    scene.settle();
    assert_eq!(shows(&scene), (json!("101"), json!("False")));
    // It is a pod of the node for the scheduler, so one more than there is room for is too much.
    scene.requested = amounts(&[("pods", "101")]);
    scene.settle();
    assert_eq!(shows(&scene), (json!("101"), json!("True")));
    // One that ended is counted by no scheduler.
    scene.requested = amounts(&[("pods", "100")]);
    scene.pods[0].phase = crate::phase::Phase::Succeeded;
    scene.settle();
    assert_eq!(shows(&scene), (json!("100"), json!("False")));
}

#[test]
fn d8_limits_of_the_policy_in_force_bound_the_size_and_a_closed_window_does_not_change_it() {
    let mut scene = Scene::lent();
    scene.policy(|policy| {
        policy.spec.resource_limits = vec![LimitSpec { resource: "cpu".into(), quantity: None, percent: Some(50) }];
        policy.spec.time_windows = vec![window("20:00", "21:00", &[])];
    });
    scene.settle();
    assert_eq!(scene.of_lent("/status/allocatable/cpu"), "2");
    assert_eq!(scene.annotation(keys::POLICY_DETAILS).as_deref(), Some("night(cpu=/50%)"));
    assert_eq!(scene.taints(), ["topoloom.dev/vnode:NoSchedule", "topoloom.dev/out-of-time-windows=true:NoSchedule"]);
    assert_eq!(scene.next(), Some(at("2026-08-03T20:00:00Z")));
}

// Policies.

#[test]
fn d1_without_a_policy_everything_is_lent_or_nothing() {
    let mut scene = Scene::new();
    scene.binding.no_policy = NoPolicy::Withdraw;
    assert_eq!((scene.ordered(), scene.state()), (vec![], "not lent: no policy lends the physical node".into()));
    scene.binding.no_policy = NoPolicy::LeaseAll;
    assert_eq!(scene.ordered().len(), 2);
}

#[test]
fn s8_under_an_invalid_policy_nothing_new_is_made_and_what_exists_keeps_size_and_taints_and_is_only_made_smaller() {
    let mut scene = Scene::new();
    scene.policy(|policy| policy.spec = invalid(policy.spec.clone()));
    assert_eq!(scene.ordered(), Vec::<String>::new());
    let mut scene = Scene::lent();
    scene.usage = amounts(&[("cpu", "1")]);
    scene.settle();
    scene.policy(|policy| policy.spec = malformed(policy.spec.clone()));
    scene.usage = amounts(&[]);
    scene.pass(60 * SECOND);
    assert_eq!(scene.ordered(), Vec::<String>::new(), "it does not grow");
    scene.usage = amounts(&[("cpu", "2")]);
    scene.settle();
    assert_eq!(scene.of_lent("/status/allocatable/cpu"), "2");
    assert_eq!(scene.acts(), None);
}

#[test]
fn s8_while_policies_are_not_read_nothing_is_made_or_enlarged_and_a_closed_node_stays_closed() {
    let mut scene = Scene::lent();
    scene.policy(|policy| policy.spec.time_windows = vec![window("20:00", "21:00", &[])]);
    scene.settle();
    scene.policies.set_synced(Synced::No);
    scene.pass(SECOND);
    assert_eq!(scene.ordered(), Vec::<String>::new());
    assert_eq!(scene.taints().len(), 2, "the taint of closed windows stays");
    scene.lent = None;
    assert_eq!(scene.ordered(), Vec::<String>::new());
}

#[test]
fn s8_a_node_that_leaves_its_policy_for_none_grows_after_ten_minutes_also_over_a_restart() {
    let mut scene = Scene::new();
    scene.policy(|policy| {
        policy.spec.resource_limits =
            vec![LimitSpec { resource: "cpu".into(), quantity: Some("1".into()), percent: None }];
    });
    scene.settle();
    scene.policies.remove("night");
    scene.sent.clear();
    scene.settle();
    assert_eq!(scene.of_lent("/status/allocatable/cpu"), "1");
    assert_eq!(scene.annotation(keys::POLICIES_APPLIED).as_deref(), Some("night"));
    // Nothing is remembered: the whole time from now on.
    scene.memory.alone_since = Some(scene.now.steady);
    scene.pass(599 * SECOND);
    assert_eq!(scene.ordered(), Vec::<String>::new());
    scene.pass(SECOND);
    scene.settle();
    assert_eq!(scene.of_lent("/status/allocatable/cpu"), "4");
    assert_eq!(scene.annotation(keys::POLICIES_APPLIED).as_deref(), Some(""));
    assert_eq!(scene.annotation(keys::POLICY_DETAILS), None);
    assert_eq!(scene.physical.as_ref().unwrap()["metadata"]["labels"].get(keys::POLICY_APPLIED), None);
}

// Liveness and partition.

#[test]
fn s4_a_kubelet_that_says_false_lives_and_one_that_is_unknown_does_not() {
    let mut scene = Scene::lent();
    let ready = |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "reason": "R"}]}});
    scene.edit_physical(ready("False"));
    assert_eq!(scene.lease(), Some(Lease::Renew));
    scene.settle();
    assert_eq!(scene.of_lent("/status/conditions/0/status"), "False");
    scene.edit_physical(ready("Unknown"));
    assert_eq!(scene.lease(), Some(Lease::Stop(NotAlive::KubeletUnknown)));
    // node-lifecycle has written Unknown: it is left alone, whatever its reason.
    let unknown = json!([{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"},
        {"type": "Overcommitted", "status": "False", "reason": "Fits", "message": "The pods of this node have what is lent, or less."}]);
    scene.edit_lent(json!({"status": {"conditions": unknown}}));
    assert_eq!(scene.ordered(), Vec::<String>::new());
    // It lives again: all conditions, and then the status of each pod.
    scene.edit_physical(ready("True"));
    let heals = scene.look(|_, decision| {
        decision.orders.iter().any(|order| matches!(order, NodeOrder::PatchStatus { heals: true, .. }))
    });
    assert!(heals);
}

#[test]
fn s5_an_unreachable_cluster_taints_its_nodes_writes_nothing_else_and_heals_with_the_taint_last() {
    let mut scene = Scene::lent();
    scene.bar(&[Bar::Unreachable]);
    scene.reach = Reach::Unreachable { since: scene.now.steady };
    scene.edit_physical(json!({"metadata": {"labels": {"rack": "r9"}}}));
    scene.usage = amounts(&[("cpu", "4")]);
    scene.settle();
    assert_eq!(scene.sent, ["patch node vnode-east-w1"]);
    assert!(scene.taints().contains(&"topoloom.dev/physical-unreachable=true:NoSchedule".to_owned()));
    assert_eq!(scene.of_lent("/metadata/labels/rack"), "r1");
    assert_eq!(scene.lease(), Some(Lease::Stop(NotAlive::Unreachable)));
    // node-lifecycle says nothing for a minute: we do.
    scene.memory.unrenewed_since = Some(scene.now.steady);
    scene.pass(60 * SECOND);
    scene.settle();
    assert_eq!(scene.of_lent("/status/conditions/0/reason"), "PhysicalClusterUnreachable");
    // It answers again, and is not listed yet.
    scene.bar(&[Bar::Suspect]);
    scene.reach = Reach::Suspect(crate::liveness::Doubt::NotListed);
    scene.memory.unrenewed_since = None;
    scene.sent.clear();
    scene.settle();
    assert_eq!(scene.of_lent("/status/conditions/0/status"), "True");
    assert!(scene.taints().iter().any(|taint| taint.contains("unreachable")), "the taint goes last");
    scene.bar(&[]);
    scene.reach = Reach::Reachable;
    scene.settle();
    assert!(!scene.taints().iter().any(|taint| taint.contains("unreachable")));
}

#[test]
fn s5_hold_keeps_leases_for_its_time() {
    let mut scene = Scene::lent();
    scene.binding.on_unreachable = OnUnreachable::Hold(Duration::from_secs(3_600));
    scene.bar(&[Bar::Unreachable]);
    scene.reach = Reach::Unreachable { since: scene.now.steady };
    scene.settle();
    assert_eq!(scene.lease(), Some(Lease::Renew));
    scene.pass(Duration::from_secs(3_600));
    assert_eq!(scene.lease(), Some(Lease::Stop(NotAlive::Unreachable)));
}

#[test]
fn s11_until_physical_nodes_are_listed_the_lease_goes_by_the_virtual_node_and_nothing_is_written() {
    let mut scene = Scene::lent();
    scene.is_listed = false;
    assert_eq!((scene.ordered(), scene.lease()), (vec![], Some(Lease::Renew)));
}

#[test]
fn s23_s27_read_only_and_observe_renew_leases_and_write_nothing() {
    let mut scene = Scene::lent();
    scene.edit_physical(json!({"metadata": {"labels": {"rack": "r9"}}}));
    scene.usage = amounts(&[("cpu", "4")]);
    for bar in [Bar::ReadOnly, Bar::Observing] {
        scene.bar(&[bar]);
        assert_eq!((scene.ordered(), scene.lease()), (vec![], Some(Lease::Renew)), "{bar}");
    }
    let mut new = Scene::new();
    for bar in [Bar::ReadOnly, Bar::Observing, Bar::Suspect, Bar::Paused, Bar::Conflict, Bar::ClusterChanged] {
        new.bar(&[bar]);
        assert_eq!(new.ordered(), Vec::<String>::new(), "{bar}: not even a claim");
    }
}

// Ownership and claims.

#[test]
fn s1_s6_a_virtual_node_that_is_not_ours_is_left_alone() {
    for (key, value) in [(keys::VIRTUAL_CLUSTER, "vc-2"), (keys::BINDING, "west")] {
        let mut scene = Scene::lent();
        scene.edit_lent(json!({"metadata": {"labels": {key: value}}}));
        scene.edit_physical(json!({"metadata": {"labels": {"rack": "r9"}}}));
        assert_eq!((scene.ordered(), scene.lease()), (vec![], None), "{key}");
        scene.physical = None;
        assert_eq!(scene.ordered(), Vec::<String>::new(), "{key}");
    }
}

#[test]
fn s6_a_node_of_an_earlier_binding_is_adopted_once_a_live_list_shows_that_it_is_gone() {
    let mut scene = Scene::lent();
    scene.edit_lent(json!({"metadata": {"labels": {keys::BINDING_UID: "b-0"}}}));
    scene.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: "vc-1/b-0"}}}));
    assert_eq!(scene.ordered(), ["it is looked up whether a ClusterBinding with the UID b-0 exists"]);
    scene.bindings = Some(["b-0".into(), "b-1".into()].into());
    assert_eq!(scene.ordered(), Vec::<String>::new(), "it stands, so the node is foreign");
    scene.bindings = None;
    scene.settle();
    assert_eq!(scene.of_lent("/metadata/labels").get(keys::BINDING_UID), Some(&json!("b-1")));
    assert_eq!(scene.claim(), "vc-1/b-1");
}

#[test]
fn s7_a_node_that_another_claims_is_skipped_and_a_claim_edited_by_hand_is_no_free_node() {
    for claim in ["vc-2/b-9", "nonsense", ""] {
        let mut scene = Scene::new();
        scene.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: claim}}}));
        assert_eq!(scene.ordered(), Vec::<String>::new(), "{claim}");
        assert!(scene.look(|_, decision| matches!(decision.state, NodeState::Rest(Rest::Claimed(_)))), "{claim}");
    }
    let mut scene = Scene::new();
    scene.binding.claims = NodeClaims::None;
    scene.settle();
    assert_eq!(scene.sent, ["create node vnode-east-w1"], "without rights nothing is claimed");
}

#[test]
fn s22_virtual_nodes_are_not_lent_whatever_triggered_the_decision() {
    for (key, value) in [("type", "virtual-kubelet"), ("node.kubernetes.io/instance-type", "eklet")] {
        let mut scene = Scene::new();
        scene.edit_physical(json!({"metadata": {"labels": {key: value}}}));
        assert_eq!(scene.ordered(), Vec::<String>::new(), "{key}");
    }
    let mut scene = Scene::new();
    scene.edit_physical(json!({"metadata": {"labels": {keys::MANAGED_BY_LABEL: "topoloom", keys::VIRTUAL_CLUSTER: "vc-0", "type": "virtual-kubelet"}}}));
    assert!(scene.state().contains("allowChained"), "{}", scene.state());
    scene.binding.chained = Chained::Allowed;
    assert_eq!(scene.ordered().len(), 2);
    // One that becomes virtual while it is lent goes.
    let mut scene = Scene::lent();
    scene.edit_physical(json!({"metadata": {"labels": {"type": "virtual-kubelet"}}}));
    assert_eq!(scene.state(), "its virtual node goes: the selector of the binding does not select the physical node");
}

// Deletion.

#[test]
fn d4_s10_a_node_that_is_not_selected_any_more_goes_in_order() {
    let mut scene = Scene::lent();
    scene.pod("p");
    scene.pod("daemon").class = PodClass::DaemonSet;
    scene.binding.selector = pool("cpu");
    let (cause, acts) = scene.acts().unwrap();
    assert_eq!((cause, acts.len()), (Cause::Selector, 2), "the node and its pod; that of the DaemonSet does not count");
    scene.leave = Leave::Held;
    scene.settle();
    assert_eq!(scene.sent, ["patch node vnode-east-w1"], "it is marked at once, and the guard holds the rest");
    assert!(scene.taints().contains(&"topoloom.dev/vnode-deleting=true:NoSchedule".to_owned()));
    assert_eq!(scene.of_lent("/spec/unschedulable"), true);
    assert_eq!(scene.lease(), Some(Lease::Renew), "its pods run");
    scene.leave = Leave::Given { since: scene.now.wall };
    scene.sent.clear();
    scene.settle();
    assert_eq!(
        scene.sent,
        [
            "remove pod team/p by eviction, pod team/daemon by eviction",
            "the pods of the virtual node are read",
            "stop the lease of node vnode-east-w1",
            "delete node vnode-east-w1",
            "the pods of the virtual node are read",
            "stop the lease of node vnode-east-w1",
            "remove the finalizer of node vnode-east-w1",
            "the virtual node is read",
            "release the physical node",
        ]
    );
    assert_eq!((scene.lent.is_none(), scene.claim()), (true, Value::Null));
}

#[test]
fn s10_a_pod_that_was_bound_a_moment_before_the_mark_is_seen_before_the_node_is_deleted() {
    let mut scene = Scene::lent();
    scene.binding.selector = pool("cpu");
    scene.step();
    assert_eq!(scene.ordered(), ["the pods of the virtual node are read"]);
    // The live list shows one that the watch has not shown.
    scene.pods_by = PodsBy::List;
    scene.pod("late");
    assert_eq!(scene.ordered(), ["remove pod team/late by eviction"]);
    assert_eq!(scene.acts().map(|(_, acts)| acts.len()), Some(2), "the guard is asked for it, too");
}

#[test]
fn s10_a_node_whose_cause_goes_before_it_was_deleted_is_an_ordinary_one_again() {
    let mut scene = Scene::lent();
    mark_and_keep(&mut scene);
    assert_eq!(scene.of_lent("/spec/unschedulable"), json!(false));
    assert_eq!(scene.annotation(keys::DELETION_TAINT_TIME), None);
    // A cordon that a user made before stays.
    scene.edit_lent(json!({"spec": {"unschedulable": true}}));
    scene.binding.selector = pool("cpu");
    scene.settle();
    scene.binding.selector = NodeSelector::default();
    scene.settle();
    assert_eq!(scene.of_lent("/spec/unschedulable"), true);
}

#[test]
fn s1_an_empty_cache_is_no_proof_that_a_node_is_gone() {
    let mut scene = Scene::lent();
    let node = scene.physical.take();
    assert_eq!(scene.ordered(), ["the physical node is read"]);
    scene.live = LiveNode::Found("u1".into());
    assert_eq!(scene.ordered(), Vec::<String>::new(), "the cache is behind");
    scene.physical = node;
    assert_eq!(scene.ordered(), Vec::<String>::new());
    scene.physical = None;
    scene.live = LiveNode::Gone;
    scene.pod("p");
    assert_eq!(scene.acts().unwrap().0, Cause::NodeGone);
    scene.settle();
    assert_eq!(scene.lent, None);
    assert!(scene.sent.contains(&"remove pod team/p by deletion".to_owned()), "{:?}", scene.sent);
}

#[test]
fn s23_detach_takes_nodes_away_whose_machines_can_not_be_read_any_more() {
    let mut scene = Scene::lent();
    scene.verb = VerbOnNode::Detach;
    scene.is_listed = false;
    assert_eq!(scene.state(), "its virtual node goes: an operator asked for it");
    assert_eq!(scene.acts().map(|(cause, _)| cause), Some(Cause::Operator));
    scene.settle();
    assert!(scene.lent.is_none());
    assert_eq!(scene.claim(), "vc-1/b-1", "nothing is written to a cluster that is gone");
}

#[test]
fn s18_a_step_of_the_wall_clock_is_what_the_steady_clock_does_not_show() {
    let now = Scene::new().now;
    let later = |wall: i64, steady: u64| Now {
        wall: now.wall.checked_add(jiff::SignedDuration::from_secs(wall)).unwrap(),
        steady: now.steady + Duration::from_secs(steady),
    };
    for (wall, steady, by) in [
        (10, 10, None),
        (15, 10, None),
        (16, 10, Some(6)),
        (-3_590, 10, Some(-3_600)),
        (3_610, 10, Some(3_600)),
        (5, 10, None),
    ] {
        let by = by.map(jiff::SignedDuration::from_secs);
        assert_eq!(later(wall, steady).stepped_since(now), by, "{wall} {steady}");
    }
    // The machine slept, and both clocks went on.
    assert_eq!(later(7_200, 7_200).stepped_since(now), None);
}

#[test]
fn s9_a_node_that_is_only_being_deleted_is_not_free() {
    let mut scene = Scene::lent();
    scene.edit_physical(json!({"metadata": {"deletionTimestamp": "2026-08-03T12:00:00Z"}}));
    assert_eq!(scene.acts().unwrap().0, Cause::NodeTerminating);
}

#[test]
fn s9_s10_a_node_that_was_deleted_asks_the_guard_for_its_pods_alone_and_one_that_others_deleted_for_itself_too() {
    let mut scene = Scene::lent();
    scene.binding.selector = pool("cpu");
    scene.step();
    assert_eq!(scene.acts().map(|(_, acts)| acts), Some(vec![Act::DeleteNode("vnode-east-w1".into())]));
    assert_eq!(scene.lease(), Some(Lease::Renew));
    scene.step();
    assert_eq!(scene.sent.last().unwrap(), "the pods of the virtual node are read");
    scene.step();
    assert_eq!(scene.sent.last().unwrap(), "delete node vnode-east-w1");
    assert_eq!(scene.acts(), None, "what is left disrupts nothing");
    // A DaemonSet that tolerates everything makes its pod again. It goes, and no limit counts it.
    scene.pod("daemon").class = PodClass::DaemonSet;
    assert_eq!((scene.acts(), scene.ordered()), (None, vec!["remove pod team/daemon by eviction".to_owned()]));
    // A pod that was bound a moment before the deletion.
    scene.pod("late");
    let late = Act::RemovePod { node: "vnode-east-w1".into(), pod: "late".into() };
    assert_eq!(scene.acts().map(|(_, acts)| acts), Some(vec![late]));

    let mut scene = Scene::lent();
    scene.edit_lent(json!({"metadata": {"deletionTimestamp": "2026-08-03T12:00:00Z"}}));
    scene.pod("daemon").class = PodClass::DaemonSet;
    assert_eq!(scene.acts(), None);
    scene.pod("p");
    let (cause, acts) = scene.acts().unwrap();
    assert_eq!((cause, acts.len()), (Cause::DeletedByOthers, 2));
}

#[test]
fn s9_pods_of_a_daemon_set_and_placeholders_for_host_ports_are_none_of_those_that_the_guard_is_asked_for() {
    let mut scene = Scene::lent();
    scene.binding.selector = pool("cpu");
    scene.pod("p");
    scene.pod("placeholder").class = PodClass::Placeholder;
    scene.pod("daemon").class = PodClass::DaemonSet;
    let pod = Act::RemovePod { node: "vnode-east-w1".into(), pod: "p".into() };
    assert_eq!(scene.acts().map(|(_, acts)| acts), Some(vec![pod, Act::DeleteNode("vnode-east-w1".into())]));
}

#[test]
fn s22_a_machine_that_took_the_name_gets_a_virtual_node_of_its_own_after_the_old_one_is_gone() {
    let mut scene = Scene::lent();
    let old = scene.of_lent("/metadata/uid");
    scene.physical = Some(machine("w1", "u2"));
    scene.pod("p");
    scene.pod("daemon").class = PodClass::DaemonSet;
    scene.settle();
    assert_eq!(scene.sent.first().unwrap(), "the physical node is read");
    assert!(scene.pods.is_empty());
    assert_ne!(scene.of_lent("/metadata/uid"), old);
    assert_eq!(scene.annotation(keys::PHYSICAL_NODE_UID).as_deref(), Some("u2"));
}

#[test]
fn s10_a_virtual_node_that_another_client_deletes_is_cordoned_emptied_and_made_anew() {
    let mut scene = Scene::lent();
    scene.pod("p");
    scene.edit_lent(json!({"metadata": {"deletionTimestamp": "2026-08-03T12:00:00Z"}}));
    assert_eq!(scene.ordered(), ["patch node vnode-east-w1"]);
    scene.settle();
    assert!(scene.pods.is_empty());
    assert_eq!(scene.of_lent("/metadata/deletionTimestamp"), Value::Null, "a new one");
}

#[test]
fn s10_a_node_that_finalizers_of_others_keep_is_left_to_them_and_nothing_is_written_again_and_again() {
    let mut scene = Scene::lent();
    scene.edit_lent(json!({"metadata": {"finalizers": [keys::VNODE_FINALIZER, "other.io/keeps"]}}));
    scene.binding.selector = pool("cpu");
    for _ in 0..5 {
        scene.step();
    }
    assert_eq!(scene.of_lent("/metadata/finalizers"), json!(["other.io/keeps"]));
    assert!(scene.look(|_, decision| !decision.orders.iter().any(NodeOrder::is_write)), "{:?}", scene.ordered());
}

#[test]
fn s10_the_nodes_of_a_binding_that_is_deleted_go_and_so_do_their_claims() {
    let mut scene = Scene::lent();
    scene.binding.existence = Existence::Terminating;
    scene.settle();
    assert_eq!((scene.lent.is_none(), scene.claim()), (true, Value::Null));
    assert_eq!(scene.state(), "not lent: the binding is being deleted");
}

#[test]
fn s5_nothing_of_a_suspect_cluster_is_deleted_but_a_node_on_its_way_out_is_marked() {
    let mut scene = Scene::lent();
    scene.pod("p");
    scene.binding.selector = on_pool_selector();
    scene.bar(&[Bar::Suspect]);
    scene.settle();
    assert_eq!((scene.sent.len(), scene.pods.len()), (1, 1), "{:?}", scene.sent);
}

fn on_pool_selector() -> NodeSelector {
    let spec = on_pool("cpu", crate::policy::spec::PolicySpec::default());
    NodeSelector::parse(&spec.node_selector.unwrap()).unwrap()
}

#[test]
fn a_broken_annotation_of_an_earlier_write_stops_nothing() {
    let mut scene = Scene::lent();
    scene.edit_lent(json!({"metadata": {"annotations": {keys::EXPECTED_METADATA: "{"}}}));
    let remark = scene.details().remark().unwrap();
    assert!(remark.starts_with("annotation topoloom.dev/expected-metadata "), "{remark}");
    scene.settle();
    assert_eq!(scene.details().remark(), None);
    assert!(scene.annotation(keys::EXPECTED_METADATA).unwrap().starts_with("{\"v\":1") || scene.sent.len() == 1);
    assert_eq!(scene.ordered(), Vec::<String>::new());
}

#[test]
fn s13_annotations_at_the_limit_of_the_server_are_left_out_with_a_remark_and_hold_nothing_up() {
    let mut scene = Scene::lent();
    let many: BTreeMap<String, String> = (1..=9).map(|number| (format!("big-{number}"), "x".repeat(60_000))).collect();
    scene.edit_physical(json!({"metadata": {"annotations": many, "labels": {"zone": "b"}}}));
    scene.settle();
    assert_eq!(scene.of_lent("/metadata/labels/zone"), json!("b"));
    let annotations = scene.of_lent("/metadata/annotations");
    let bytes = |(key, value): (&String, &Value)| key.len() + value.as_str().unwrap().len();
    assert!(annotations.as_object().unwrap().iter().map(bytes).sum::<usize>() <= 256 * 1024);
    let remark = scene.details().remark().unwrap();
    let first =
        "annotations \"big-1\": it has 60005 bytes, and all annotations together must have at most 262144; annotations";
    assert!(remark.starts_with(first), "{remark}");
    // Without them nothing is remarkable: what is never copied is left out on purpose.
    let none: BTreeMap<&String, Value> = many.keys().map(|key| (key, Value::Null)).collect();
    scene.edit_physical(json!({"metadata": {"annotations": none}}));
    scene.settle();
    assert_eq!(scene.details().remark(), None);
}

#[test]
fn what_explains_a_node_names_the_policy_the_window_and_the_size() {
    let mut scene = Scene::lent();
    scene.policy(|policy| policy.spec.time_windows = vec![window("20:00", "21:00", &[])]);
    scene.usage = amounts(&[("cpu", "1500m")]);
    scene.settle();
    let details = scene.details();
    assert_eq!(details.in_force, "policy night");
    assert_eq!(details.window, Window::Closed { until: Some(at("2026-08-03T20:00:00Z")) });
    assert_eq!(details.sizes.resources["cpu"].result.to_string(), "2500m");
}
