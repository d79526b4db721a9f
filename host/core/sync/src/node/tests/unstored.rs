//! What an API server takes and does not store: it is named, left out, and holds up nothing else.

use super::super::unstored::AGAIN;
use super::*;

const STATUS: &str = "patch status of node vnode-east-w1";

/// A server that is older than the field.
fn without_swap(node: &mut Value) {
    node["status"]["nodeInfo"].as_object_mut().unwrap().remove("swap");
}

fn without_rack(node: &mut Value) {
    node["metadata"]["labels"].as_object_mut().unwrap().remove("rack");
}

fn without_claim(node: &mut Value) {
    node["metadata"]["annotations"].as_object_mut().unwrap().remove(keys::LEASED_BY);
}

fn without_window_taint(node: &mut Value) {
    node["spec"]["taints"].as_array_mut().unwrap().retain(|taint| taint["key"] != keys::OUT_OF_WINDOWS_TAINT);
}

fn left_out(order: &str, fields: &str) -> Vec<String> {
    vec![format!("{order}: the API server answered, and did not store {fields}")]
}

/// A node of a machine with swap, in a cluster whose server does not know that field.
fn older() -> Scene {
    let mut scene = Scene::lent();
    scene.borrower = without_swap;
    scene.edit_physical(json!({"status": {"nodeInfo": {"swap": {"capacity": 1_024}}}}));
    scene.settle();
    assert_eq!(scene.sent, [STATUS]);
    scene
}

#[test]
fn s12_a_field_that_the_virtual_api_server_does_not_store_is_named_and_tried_again_after_a_while() {
    let mut scene = older();
    assert_eq!(scene.left_out(), left_out(STATUS, "status.nodeInfo.swap"));
    scene.pass(AGAIN - SECOND);
    assert_eq!(scene.ordered(), Vec::<String>::new());
    assert_eq!(scene.look(|_, decision| decision.next_steady), Some(scene.now.steady + SECOND));
    scene.pass(SECOND);
    scene.settle();
    assert_eq!(scene.sent, [STATUS, STATUS], "once, and the time begins again");
    scene.pass(AGAIN - SECOND);
    assert_eq!(scene.ordered(), Vec::<String>::new());
    // The virtual cluster has a new version.
    scene.borrower = |_| {};
    scene.pass(SECOND);
    scene.settle();
    assert_eq!((scene.of_lent("/status/nodeInfo/swap/capacity"), scene.left_out()), (json!(1_024), vec![]));
    assert!(scene.unstored.borrow().is_empty(), "nothing is kept of a node that is as it should be");
}

#[test]
fn s12_what_else_changes_of_a_node_is_written_at_once_and_once() {
    let mut scene = older();
    scene.edit_physical(json!({"metadata": {"labels": {"rack": "r2"}}}));
    scene.settle();
    assert_eq!((scene.sent.len(), scene.of_lent("/metadata/labels/rack")), (2, json!("r2")));
    scene.edit_physical(json!({"status": {"nodeInfo": {"kubeletVersion": "v1.36.4"}}}));
    scene.settle();
    assert_eq!((scene.sent.len(), scene.of_lent("/status/nodeInfo/kubeletVersion")), (3, json!("v1.36.4")));
    // A taint does not wait for the status that is left out.
    scene.edit_physical(json!({"spec": {"taints": [{"key": "team", "value": "blue", "effect": "NoSchedule"}]}}));
    scene.settle();
    assert_eq!(scene.sent[3..], ["patch node vnode-east-w1"]);
    assert!(scene.taints().contains(&"team=blue:NoSchedule".to_owned()), "{:?}", scene.taints());
    assert_eq!(scene.left_out(), left_out(STATUS, "status.nodeInfo.swap"));
}

#[test]
fn s12_facts_of_a_machine_that_are_empty_or_null_are_no_reason_to_write_for_ever() {
    let mut scene = Scene::lent();
    let none = json!({"swap": {}, "later": null, "features": {"deep": null}, "bootID": "b"});
    let machine = scene.physical.as_mut().unwrap();
    machine["metadata"]["resourceVersion"] = "50".into();
    machine["status"]["nodeInfo"] = none;
    scene.borrower = without_swap;
    scene.settle();
    assert_eq!(scene.sent, [STATUS]);
    assert_eq!(scene.of_lent("/status/nodeInfo"), json!({"features": {}, "bootID": "b"}));
    assert_eq!(scene.left_out(), left_out(STATUS, "status.nodeInfo.swap"));
}

#[test]
fn s12_status_and_taints_of_which_neither_is_stored_are_two_requests_and_no_more() {
    let mut scene = Scene::lent();
    scene.borrower = |node: &mut Value| {
        without_swap(node);
        node["spec"]["taints"].as_array_mut().unwrap().retain(|taint| taint["key"] != "team");
    };
    let taints = json!([{"key": "team", "value": "blue", "effect": "NoSchedule"}]);
    scene.edit_physical(json!({"spec": {"taints": taints}, "status": {"nodeInfo": {"swap": {"capacity": 1_024}}}}));
    scene.settle();
    assert_eq!(scene.sent, [STATUS, "patch node vnode-east-w1"]);
    let both = [left_out(STATUS, "status.nodeInfo.swap"), left_out("patch node vnode-east-w1", "spec.taints")];
    assert_eq!(scene.left_out(), both.concat());
}

#[test]
fn s10_s17_a_label_that_is_not_stored_keeps_neither_a_window_nor_a_deletion_waiting() {
    let mut scene = Scene::lent();
    scene.borrower = without_rack;
    scene.edit_physical(json!({"metadata": {"labels": {"rack": "r2"}}}));
    scene.settle();
    assert_eq!(scene.left_out(), left_out(STATUS, "metadata.labels[rack]"));
    scene.policy(|policy| policy.spec.time_windows = vec![window("20:00", "21:00", &[])]);
    scene.settle();
    assert_eq!(scene.taints()[1..], ["topoloom.dev/out-of-time-windows=true:NoSchedule"]);
    assert_eq!(scene.sent.len(), 3, "{:?}", scene.sent);
    // What another client stores in its place is another state.
    scene.edit_lent(json!({"metadata": {"labels": {"rack": "by hand"}}}));
    scene.settle();
    assert_eq!((scene.sent.len(), scene.of_lent("/metadata/labels/rack")), (4, Value::Null));
    scene.binding.selector = pool("cpu");
    scene.settle();
    assert!(scene.lent.is_none(), "{:?}", scene.sent);
}

#[test]
fn s17_a_taint_that_is_not_stored_is_one_write_although_its_time_would_be_later_each_time() {
    for force in [false, true] {
        let mut scene = Scene::lent();
        scene.policy(|policy| {
            policy.spec.time_windows = vec![window("20:00", "21:00", &[])];
            policy.spec.force_reclaim = force;
            policy.spec.graceful_reclaim_period_seconds = Some(0);
        });
        scene.borrower = without_window_taint;
        scene.settle();
        let sent = scene.sent.len();
        for _ in 0..5 {
            scene.pass(SECOND);
            assert_eq!(scene.ordered(), Vec::<String>::new(), "{force}");
        }
        assert_eq!(scene.left_out(), left_out("patch node vnode-east-w1", "spec.taints"), "{force}");
        // Another taint is another list.
        scene.edit_physical(json!({"spec": {"taints": [{"key": "team", "effect": "NoSchedule"}]}}));
        scene.settle();
        assert_eq!(scene.sent.len(), sent + 1, "{force}");
        assert!(scene.taints().contains(&"team:NoSchedule".to_owned()), "{force}");
    }
}

#[test]
fn s14_a_smaller_size_is_not_held_back_because_another_one_was_not_stored() {
    let mut scene = Scene::lent();
    scene.borrower = |node: &mut Value| node["status"]["allocatable"]["cpu"] = "4".into();
    for (used, sent) in [("1", 1), ("2", 2), ("1", 3)] {
        scene.usage = amounts(&[("cpu", used)]);
        scene.settle();
        assert_eq!((scene.sent.len(), scene.left_out()), (sent, left_out(STATUS, "status.allocatable[cpu]")));
    }
    scene.borrower = |_| {};
    for (used, left) in [("2", "2"), ("3", "1")] {
        scene.usage = amounts(&[("cpu", used)]);
        scene.settle();
        assert_eq!((scene.of_lent("/status/allocatable/cpu"), scene.left_out()), (json!(left), vec![]));
    }
}

#[test]
fn s14_a_larger_size_that_is_not_stored_is_not_written_with_each_interval() {
    let mut scene = Scene::lent();
    scene.usage = amounts(&[("cpu", "2")]);
    scene.settle();
    scene.sent.clear();
    scene.borrower = |node: &mut Value| node["status"]["allocatable"]["cpu"] = "2".into();
    scene.usage = amounts(&[]);
    scene.step();
    scene.memory.grown = Some(scene.now.steady);
    // The capacity is what is lent until the node may grow again.
    scene.settle();
    assert_eq!(scene.sent, [STATUS, STATUS]);
    for _ in 0..5 {
        scene.pass(10 * SECOND);
        scene.settle();
        assert_eq!(scene.sent.len(), 2);
    }
    assert_eq!(scene.left_out(), left_out(STATUS, "status.allocatable[cpu]"));
}

#[test]
fn s7_nothing_is_made_while_the_claim_is_not_stored() {
    let claim = "claim the physical node";
    let mut scene = Scene::new();
    scene.policy(|_| {});
    scene.lender = without_claim;
    scene.settle();
    assert_eq!((scene.sent.as_slice(), scene.lent.is_none()), ([claim.to_owned()].as_slice(), true));
    let field = format!("metadata.annotations[{}]", keys::LEASED_BY);
    assert_eq!(scene.left_out(), left_out(claim, &field));
    // The machine changes all the time.
    scene.edit_physical(json!({"metadata": {"labels": {"rack": "r2"}}}));
    assert_eq!(scene.ordered(), Vec::<String>::new());
    scene.pass(AGAIN);
    scene.settle();
    assert_eq!((scene.sent.len(), scene.lent.is_none()), (2, true));
    scene.lender = |_| {};
    scene.pass(AGAIN);
    scene.settle();
    assert_eq!(scene.sent[2..], [claim, "create node vnode-east-w1"]);
    assert_eq!((scene.claim(), scene.left_out()), (json!("vc-1/b-1"), vec![]));
}

#[test]
fn s7_a_claim_that_is_not_taken_off_is_not_released_again_and_again() {
    let mut scene = Scene::lent();
    scene.lender = |node: &mut Value| node["metadata"]["annotations"][keys::LEASED_BY] = "vc-1/b-1".into();
    scene.binding.selector = pool("cpu");
    scene.settle();
    assert!(scene.lent.is_none(), "{:?}", scene.sent);
    let released = scene.sent.iter().filter(|sent| *sent == "release the physical node").count();
    assert_eq!(released, 1, "{:?}", scene.sent);
}

#[test]
fn s22_what_another_client_changes_after_an_answer_is_repaired_at_once_however_often() {
    let mut scene = Scene::lent();
    for round in 1..=3 {
        scene.edit_lent(json!({"metadata": {"labels": {"rack": "edited"}}}));
        scene.settle();
        assert_eq!((scene.sent.len(), scene.of_lent("/metadata/labels/rack")), (round, json!("r1")));
    }
    assert!(scene.unstored.borrow().is_empty());
}

#[test]
fn s5_s22_what_goes_wrong_beside_a_field_that_is_not_stored_is_repaired_each_time() {
    let mut scene = older();
    let ready = |scene: &Scene| scene.of_lent("/status/conditions/0/status");
    for round in 1..=3 {
        scene.edit_lent(json!({"metadata": {"labels": {"rack": "edited"}}}));
        scene.settle();
        assert_eq!((scene.sent.len(), scene.of_lent("/metadata/labels/rack")), (2 * round, json!("r1")));
        // Node-lifecycle, in an outage of the physical cluster.
        let mut conditions = scene.of_lent("/status/conditions");
        conditions[0]["status"] = "Unknown".into();
        scene.edit_lent(json!({"status": {"conditions": conditions}}));
        scene.settle();
        assert_eq!((scene.sent.len(), ready(&scene)), (2 * round + 1, json!("True")));
        assert_eq!(scene.left_out(), left_out(STATUS, "status.nodeInfo.swap"));
    }
}

#[test]
fn s7_a_claim_that_is_wiped_is_written_again_beside_a_label_that_is_not_stored() {
    let mut scene = Scene::lent();
    scene.lender = |node: &mut Value| {
        node["metadata"]["labels"].as_object_mut().map(|labels| labels.remove(keys::POLICY_APPLIED));
    };
    scene.edit_physical(json!({"metadata": {"labels": {keys::POLICY_APPLIED: null}}}));
    for _ in 0..2 {
        scene.edit_physical(json!({"metadata": {"annotations": {keys::LEASED_BY: null}}}));
        scene.settle();
        let claims = scene.physical.as_ref().unwrap()["metadata"]["annotations"][keys::LEASED_BY].clone();
        assert_ne!(claims, Value::Null, "{:?}", scene.sent);
    }
}

#[test]
fn s5_what_is_not_stored_is_remembered_while_nothing_may_be_written() {
    let mut scene = older();
    scene.bar(&[Bar::Unreachable]);
    assert_eq!(scene.ordered(), Vec::<String>::new());
    scene.bar(&[]);
    assert_eq!((scene.ordered(), scene.left_out()), (vec![], left_out(STATUS, "status.nodeInfo.swap")));
}
