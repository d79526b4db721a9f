//! Windows and reclaim: scenario 5 and the example of 6.8.

use jiff::SignedDuration;

use super::*;
use crate::merge::{Expected, decode};
use crate::policy::announced::{Announced, Announcement};

/// A node whose windows close at this moment, before anything is written of that.
fn boundary() -> Scene {
    let mut scene = Scene::new();
    scene.policy(|policy| {
        policy.spec.time_windows = vec![window("06:00", "08:00", &[])];
        policy.spec.force_reclaim = true;
        policy.spec.graceful_reclaim_period_seconds = Some(600);
    });
    scene.now.wall = at("2026-08-03T08:00:59Z");
    scene.settle();
    scene.pod("p");
    scene.sent.clear();
    assert_eq!(scene.next(), Some(at("2026-08-03T08:01:00Z")));
    scene.now.wall = at("2026-08-03T08:01:00Z");
    scene
}

fn closing() -> Scene {
    let mut scene = boundary();
    scene.settle();
    scene
}

const CLOSED: &str = "topoloom.dev/out-of-time-windows=true:NoSchedule";
const EXECUTES: &str = "topoloom.dev/out-of-time-windows=true:NoExecute";

#[test]
fn d3_s17_a_window_closes_with_no_schedule_then_no_execute_and_the_pods_are_deleted_in_the_same_pass() {
    let mut scene = closing();
    assert_eq!(scene.taints()[1..], [CLOSED]);
    assert_eq!(scene.next(), Some(at("2026-08-03T08:11:00Z")));
    scene.pass(250 * SECOND);
    assert_eq!(scene.ordered(), Vec::<String>::new());
    scene.pass(350 * SECOND);
    let (cause, acts) = scene.acts().unwrap();
    assert!(matches!(cause, Cause::WindowClosed { .. }));
    assert_eq!(acts.len(), 2, "the taint and the pod: {acts:?}");
    scene.sent.clear();
    scene.step();
    assert_eq!(scene.sent, ["patch node vnode-east-w1", "remove pod team/p by deletion"]);
    assert_eq!(scene.taints()[1..], [EXECUTES]);
    scene.settle();
    assert!(scene.pods.is_empty());
}

/// The base in a patch.
fn base(body: &Value) -> Expected {
    decode(body["metadata"]["annotations"][keys::EXPECTED_METADATA].as_str().unwrap()).unwrap()
}

#[test]
fn s12_s17_a_window_that_closes_is_one_write_of_the_node() {
    let mut scene = boundary();
    let orders = scene.look(|_, decision| decision.orders);
    let [NodeOrder::PatchSpec { version: Some(version), body, .. }] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!(scene.of_lent("/metadata/resourceVersion"), **version);
    assert_eq!(body["metadata"]["resourceVersion"], **version);
    assert!(body.get("status").is_none(), "{body}");
    assert_eq!(body["spec"]["taints"][1]["key"], keys::OUT_OF_WINDOWS_TAINT);
    // The base is the last one, and what only goes with another change comes along.
    assert!(base(body).hash.is_some(), "{body}");
    assert_eq!(body["metadata"]["annotations"][keys::RECLAIM_GRACE], "600");
    assert_eq!(body["metadata"]["annotations"][keys::RECLAIM_STARTED], "2026-08-03T08:01:00Z");
    assert_eq!(body["metadata"]["annotations"][keys::LAST_SYNC_TIME], "2026-08-03T08:01:00Z");
    scene.settle();
    assert_eq!(scene.sent, ["patch node vnode-east-w1"]);
    assert_eq!(scene.taints()[1..], [CLOSED]);
    scene.now.wall = at("2026-08-04T06:00:00Z");
    scene.sent.clear();
    scene.settle();
    assert_eq!(scene.sent, ["patch node vnode-east-w1"], "and so is one that opens");
    assert_eq!(scene.taints().len(), 1);
}

#[test]
fn s12_s17_a_label_that_changes_with_the_window_goes_in_the_same_write() {
    let mut scene = boundary();
    scene.edit_physical(json!({"metadata": {"labels": {"rack": "r2", "pool": null}}}));
    scene.settle();
    assert_eq!(scene.sent, ["patch node vnode-east-w1"]);
    let labels = scene.of_lent("/metadata/labels");
    assert_eq!((&labels["rack"], labels.get("pool")), (&json!("r2"), None));
    assert_eq!(scene.taints()[1..], [CLOSED]);
}

#[test]
fn s12_a_status_that_changes_beside_a_taint_is_a_request_before_it_and_the_process_may_die_between_the_two() {
    let mut scene = boundary();
    scene.usage = amounts(&[("cpu", "1")]);
    let orders = scene.look(|_, decision| decision.orders);
    let [NodeOrder::PatchStatus { body: first, .. }, NodeOrder::PatchSpec { version: None, body: second, .. }] =
        &orders[..]
    else {
        panic!("{orders:?}")
    };
    assert_eq!((&first["status"]["allocatable"]["cpu"], first.get("spec")), (&json!("3"), None));
    assert_eq!((base(first).hash, base(second).hash.is_some()), (None, true));
    assert_eq!(second["spec"]["taints"][1]["key"], keys::OUT_OF_WINDOWS_TAINT);
    // The second one is never sent.
    scene.edit_lent(first.clone());
    assert_eq!(scene.details().notes, [], "no other client has changed anything");
    scene.settle();
    assert_eq!(scene.sent, ["patch node vnode-east-w1"], "of the status nothing is left to write");
    assert_eq!((scene.taints()[1].as_str(), scene.of_lent("/status/allocatable/cpu")), (CLOSED, json!("3")));
}

#[test]
fn s12_a_finalizer_that_another_client_took_off_comes_back_before_the_taint() {
    let mut scene = boundary();
    scene.edit_lent(json!({"metadata": {"finalizers": []}}));
    scene.settle();
    assert_eq!(scene.sent, ["patch status of node vnode-east-w1", "patch node vnode-east-w1"]);
    assert_eq!(scene.of_lent("/metadata/finalizers"), json!([keys::VNODE_FINALIZER]));
    assert_eq!(scene.taints()[1..], [CLOSED]);
}

#[test]
fn d3_a_window_that_opens_again_takes_the_taint_away_and_the_next_closing_has_a_fresh_clock() {
    let mut scene = closing();
    scene.now.wall = at("2026-08-04T06:00:00Z");
    // It was closed for longer than the grace, and the guard held it.
    scene.settle();
    assert_eq!(scene.taints().len(), 1);
    assert_eq!(scene.annotation(keys::RECLAIM_GRACE), None);
    scene.now.wall = at("2026-08-04T08:01:00Z");
    scene.settle();
    assert_eq!(scene.taints()[1..], [CLOSED]);
    assert_eq!(scene.next(), Some(at("2026-08-04T08:11:00Z")));
}

#[test]
fn s17_a_pod_that_is_being_deleted_with_the_grace_of_a_year_has_an_hour_once_its_node_has_to_be_empty() {
    let mut scene = closing();
    for (name, grace) in [("slow", 31_536_000_u32), ("quick", 30)] {
        let pod = scene.pod(name);
        (pod.existence, pod.grace) = (Existence::Terminating, Some(grace * SECOND));
    }
    scene.pass(300 * SECOND);
    assert_eq!(scene.ordered(), Vec::<String>::new(), "the grace of the policy runs");
    scene.pass(300 * SECOND);
    assert_eq!(scene.acts().map(|(_, acts)| acts.len()), Some(2), "the guard is asked for the taint and the pod p");
    scene.leave = Leave::Held;
    assert_eq!(scene.ordered(), Vec::<String>::new());
    scene.leave = Leave::Given { since: scene.now.wall };
    let wanted = ["patch node vnode-east-w1", "remove pod team/p by deletion, pod team/slow within an hour"];
    assert_eq!(scene.ordered(), wanted);
}

/// The taints of a virtual node without that of closed windows, and with one that has no time.
fn untainted() -> [Value; 2] {
    let lent = json!({"key": keys::VNODE_TAINT, "effect": "NoSchedule"});
    let timeless = json!({"key": keys::OUT_OF_WINDOWS_TAINT, "value": "true", "effect": "NoSchedule"});
    [json!([lent]), json!([lent, timeless])]
}

#[test]
fn s17_a_user_who_takes_the_taint_of_closed_windows_off_or_its_time_gains_nothing() {
    for taints in untainted() {
        let mut scene = closing();
        scene.pass(300 * SECOND);
        scene.edit_lent(json!({"spec": {"taints": taints}}));
        scene.sent.clear();
        scene.settle();
        assert_eq!(scene.sent, ["patch node vnode-east-w1"]);
        assert_eq!((scene.taints()[1].as_str(), scene.taints().len()), (CLOSED, 2));
        assert_eq!(scene.next(), Some(at("2026-08-03T08:11:00Z")));
        scene.pass(300 * SECOND);
        scene.settle();
        assert!(scene.pods.is_empty());
        // The next closing has a fresh clock.
        scene.now.wall = at("2026-08-04T06:00:00Z");
        scene.settle();
        assert_eq!((scene.taints().len(), scene.annotation(keys::RECLAIM_STARTED)), (1, None));
        scene.now.wall = at("2026-08-04T08:01:00Z");
        scene.settle();
        assert_eq!(scene.next(), Some(at("2026-08-04T08:11:00Z")));
    }
}

#[test]
fn s9_s17_a_taint_without_any_time_counts_as_over_although_the_guard_gathers_first() {
    let mut scene = closing();
    scene.pass(60 * SECOND);
    let [_, timeless] = untainted();
    let annotations = json!({keys::RECLAIM_STARTED: null});
    scene.edit_lent(json!({"spec": {"taints": timeless}, "metadata": {"annotations": annotations}}));
    scene.leave = Leave::Gathering { until: scene.now.wall };
    scene.settle();
    assert_eq!((scene.taints()[1].as_str(), scene.pods.len()), (CLOSED, 1));
    scene.pass(5 * SECOND);
    scene.leave = Leave::Given { since: scene.now.wall };
    scene.settle();
    assert!(scene.pods.is_empty(), "no new grace begins");
    assert_eq!(scene.taints()[1..], [EXECUTES]);
}

#[test]
fn s17_s9_a_closing_stays_announced_although_a_user_takes_its_taint_off() {
    for taints in untainted() {
        let mut scene = closing();
        announces(&mut scene, "2026-08-03T08:01:00Z", "2026-08-03T06:01:00Z");
        scene.pass(600 * SECOND);
        scene.edit_lent(json!({"spec": {"taints": taints}}));
        assert_eq!(announced(&scene), 7_200 * SECOND);
    }
}

/// A policy whose status announced that boundary since then.
fn announces(scene: &mut Scene, closing: &str, since: &str) {
    let announced = Announcement { at: at(closing), since: at(since) };
    scene.policy(|policy| {
        policy.spec.time_windows = vec![window("06:00", "08:00", &[])];
        policy.spec.force_reclaim = true;
        policy.spec.graceful_reclaim_period_seconds = Some(600);
        policy.announced = Announced { next: Some(announced), closing: None };
    });
}

fn announced(scene: &Scene) -> Duration {
    match scene.acts() {
        Some((Cause::WindowClosed { announced }, _)) => announced,
        other => panic!("{other:?}"),
    }
}

#[test]
fn s9_a_closing_counts_as_announced_for_as_long_as_the_status_of_its_policy_named_it() {
    let mut scene = closing();
    scene.pass(600 * SECOND);
    assert_eq!(announced(&scene), Duration::ZERO, "a status that was never written");
    announces(&mut scene, "2026-08-03T08:01:00Z", "2026-08-03T06:01:00Z");
    assert_eq!(announced(&scene), 7_200 * SECOND);
    announces(&mut scene, "2026-08-03T09:00:00Z", "2026-08-03T06:01:00Z");
    assert_eq!(announced(&scene), Duration::ZERO, "another time was announced");
}

#[test]
fn s9_s17_a_closing_stays_announced_where_the_time_of_its_taint_was_moved_with_the_clock() {
    let mut scene = closing();
    announces(&mut scene, "2026-08-03T08:01:00Z", "2026-08-03T06:01:00Z");
    scene.now.wall = at("2026-08-03T09:01:00Z");
    scene.memory.stepped = SignedDuration::from_hours(1);
    scene.step();
    scene.memory.stepped = SignedDuration::ZERO;
    scene.settle();
    assert_eq!(scene.annotation(keys::RECLAIM_MARKED).as_deref(), Some("2026-08-03T08:01:00Z"));
    assert!(scene.acts().is_none(), "the grace runs");
    scene.pass(600 * SECOND);
    assert_eq!(announced(&scene), 7_200 * SECOND);
}

#[test]
fn s17_s18_a_window_that_closed_does_not_open_again_by_a_clock_that_was_set_back() {
    let mut scene = closing();
    scene.memory.judged = Some(scene.now.wall);
    scene.now.wall = at("2026-08-03T07:05:00Z");
    scene.memory.stepped = SignedDuration::from_secs(-3_360);
    scene.step();
    scene.memory.stepped = SignedDuration::ZERO;
    scene.settle();
    assert_eq!(scene.taints()[1..], [CLOSED]);
    // The grace runs meanwhile.
    assert_eq!(scene.next(), Some(at("2026-08-03T07:15:00Z")));
    scene.memory.judged = None;
    scene.settle();
    assert_eq!(scene.taints().len(), 1, "by that clock alone it is open");
    assert_eq!(scene.annotation(keys::RECLAIM_MARKED), None);
}

#[test]
fn s9_a_node_that_an_edit_moves_under_a_policy_whose_windows_are_closed_was_not_announced_to_lose_its_pods() {
    let mut scene = Scene::lent();
    scene.pod("p");
    scene.now.wall = at("2026-08-03T12:00:00Z");
    // The windows of the policy closed four hours ago, as announced; only now it selects the node.
    announces(&mut scene, "2026-08-03T08:01:00Z", "2026-08-03T06:01:00Z");
    scene.settle();
    assert_eq!(scene.taints()[1..], [CLOSED]);
    scene.pass(600 * SECOND);
    assert_eq!(announced(&scene), Duration::ZERO);
}

#[test]
fn s9_while_the_guard_holds_the_node_takes_no_new_pods_and_nothing_else_happens() {
    let mut scene = closing();
    scene.leave = Leave::Held;
    scene.pass(3_600 * SECOND);
    scene.settle();
    assert_eq!(scene.taints()[1..], [CLOSED]);
    assert_eq!(scene.pods.len(), 1);
    assert!(scene.acts().is_some(), "it is asked for again");
    scene.leave = Leave::Given { since: scene.now.wall };
    scene.settle();
    assert!(scene.pods.is_empty());
}

#[test]
fn s5_s23_a_suspect_cluster_or_a_pause_neither_evicts_nor_opens() {
    for bar in [Bar::Suspect, Bar::Restored, Bar::Paused] {
        let mut scene = closing();
        scene.bar(&[bar]);
        scene.pass(3_600 * SECOND);
        scene.settle();
        assert_eq!((scene.pods.len(), scene.taints()[1].as_str()), (1, CLOSED), "{bar}");
        scene.now.wall = at("2026-08-04T06:30:00Z");
        scene.settle();
        assert_eq!(scene.taints()[1..], [CLOSED], "{bar}: it does not open");
        scene.bar(&[]);
        scene.settle();
        assert_eq!(scene.taints().len(), 1);
    }
}
