use topoloom_sync::node::PhysicalNode;

use super::*;
use crate::feeds::Machines;
use crate::slices::node::NodeSlice;

const NODE: &str = "/api/v1/nodes/w1";

/// The physical node exists, and so does its virtual one.
fn with_nodes(scene: &Scene) {
    scene.physicals.put_at(NODE, json!({"metadata": {"name": "w1", "uid": "u1"}}));
    show_node(scene, &|_| ());
}

/// The view knows the virtual node.
fn show_node(scene: &Scene, edit: &dyn Fn(&mut Value)) {
    let mut labels = scene.labels();
    labels[keys::PHYSICAL_NODE_UID] = json!("u1");
    let mut node = json!({
        "metadata": {
            "name": "vnode-east-w1", "uid": "n", "resourceVersion": "5", "labels": labels,
            "annotations": {keys::PHYSICAL_NODE_NAME: "w1", keys::PHYSICAL_NODE_UID: "u1"},
        },
    });
    edit(&mut node);
    let node = serde_json::from_value::<NodeSlice>(node).unwrap().lent().unwrap();
    scene.view.lock().unwrap().lent_nodes([("vnode-east-w1".into(), node)].into());
}

/// A physical node as its watch shows it.
fn machine(node: Value) -> Shown<PhysicalNode> {
    let name = node["metadata"]["name"].as_str().unwrap().to_owned();
    let node = serde_json::from_value::<NodeSlice>(node).unwrap().physical().unwrap();
    Shown::new(&name, Some(Arc::new(node)))
}

/// The virtual pod terminates: its grace ends 30 s after the begin of the test.
fn terminating(scene: &Scene, status: Value) -> Value {
    let mut twin = scene.virtual_pod(status);
    twin["metadata"]["deletionTimestamp"] = json!("2026-08-03T12:00:30Z");
    twin["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    twin
}

#[tokio::test]
async fn s10_a_pod_that_no_program_ends_is_finished_a_minute_after_its_grace_with_a_final_phase_first() {
    let mut scene = Scene::new();
    with_nodes(&scene);
    scene.show_virtual(terminating(&scene, running()));
    assert_eq!(scene.run().await, ["ending shop/web-0: again in 90s"]);
    scene.pass(89);
    scene.pods.inbox().book().drop_texts();
    assert_eq!(scene.again(ending()).await, "ending shop/web-0: again in 1s");
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]), "nothing is read before");
    scene.pass(1);
    assert_eq!(scene.again(ending()).await, "ending shop/web-0: done");
    assert_eq!(scene.physicals.take_seen(), ["GET lent/web-0-x"]);
    assert_eq!(scene.virtuals.take_seen(), ["GET shop/web-0", "PATCH shop/web-0/status", "DELETE shop/web-0"]);
    let bodies = scene.virtuals.take_bodies();
    assert_eq!(
        (&bodies[0]["status"]["phase"], &bodies[0]["status"]["reason"]),
        (&json!("Failed"), &json!("PhysicalPodLost"))
    );
    assert_eq!((&bodies[1]["gracePeriodSeconds"], &bodies[1]["preconditions"]["uid"]), (&json!(0), &json!("v-uid")));
    assert_eq!(scene.virtuals.pod(VIRTUAL), None);
    assert_eq!((scene.counted(PodOutcome::Ended), scene.counted(PodOutcome::Removed)), (1, 1));
}

#[tokio::test]
async fn s10_a_wall_clock_that_is_wrong_takes_nothing_of_the_time_of_the_top_down_half_and_adds_nothing_to_it() {
    for wrong in [-7_200, 7_200] {
        let mut scene = Scene::new();
        with_nodes(&scene);
        scene.set_clock(wrong);
        scene.show_virtual(terminating(&scene, running()));
        assert_eq!(scene.run().await, ["ending shop/web-0: again in 90s"]);
        scene.pass(89);
        // It is set right, and wrong in the other direction.
        for wrong in [0, -wrong] {
            scene.set_clock(wrong);
            assert_eq!(scene.again(ending()).await, "ending shop/web-0: again in 1s");
        }
        // The deletion is shown again, as it is with each change of the pod.
        let mut again = terminating(&scene, running());
        again["metadata"]["labels"] = json!({"seen": "again"});
        scene.show_virtual(again);
        assert_eq!(scene.run().await, [""; 0]);
        scene.pass(1);
        assert_eq!(scene.again(ending()).await, "ending shop/web-0: done");
        assert_eq!(scene.virtuals.pod(VIRTUAL), None);
    }
}

#[tokio::test]
async fn s10_the_end_that_was_seen_is_the_end_that_is_written() {
    let mut scene = Scene::new();
    with_nodes(&scene);
    scene.running().await;
    // It ends and goes while nothing may be written.
    scene.bar(&[Bar::Conflict]);
    scene.show_virtual(terminating(&scene, running()));
    scene.show_physical(scene.physical(json!({"phase": "Succeeded"})));
    scene.remove_physical(PHYSICAL);
    scene.run().await;
    scene.pods.inbox().book().drop_texts();
    scene.bar(&[]);
    scene.pass(90);
    scene.pods.inbox().wake();
    scene.run().await;
    let bodies = scene.virtuals.take_bodies();
    assert_eq!(bodies[0]["status"], json!({"phase": "Succeeded"}));
    assert_eq!(scene.virtuals.pod(VIRTUAL), None);
}

#[tokio::test]
async fn s10_a_pod_whose_physical_pod_lives_is_left_until_that_is_gone() {
    let mut scene = Scene::new();
    with_nodes(&scene);
    scene.running().await;
    scene.show_virtual(terminating(&scene, running()));
    scene.pass(90);
    assert_eq!(scene.run().await, ["ending shop/web-0: done"]);
    assert_eq!(scene.physicals.take_seen(), ["GET lent/web-0-x", "GET w1 of nodes"]);
    assert_eq!(scene.virtuals.take_seen(), ["GET shop/web-0"]);
    scene.pods.inbox().wake();
    assert_eq!(scene.run().await, [""; 0], "nothing is read again while nothing happens");
    scene.remove_physical(PHYSICAL);
    scene.run().await;
    assert_eq!(scene.virtuals.pod(VIRTUAL), None);
}

#[tokio::test]
async fn s10_a_pod_whose_physical_node_is_gone_is_finished_although_its_physical_pod_is_listed() {
    for replaced in [false, true] {
        let mut scene = Scene::new();
        show_node(&scene, &|_| ());
        if replaced {
            scene.physicals.put_at(NODE, json!({"metadata": {"name": "w1", "uid": "u2"}}));
        }
        scene.running().await;
        scene.show_virtual(terminating(&scene, running()));
        scene.pass(90);
        scene.run().await;
        assert_eq!(scene.virtuals.pod(VIRTUAL), None, "{replaced}");
    }
}

#[tokio::test]
async fn s10_an_answer_404_that_is_not_of_the_api_server_makes_no_pod_gone() {
    let mut scene = Scene::new();
    with_nodes(&scene);
    scene.running().await;
    scene.show_virtual(terminating(&scene, running()));
    scene.pass(90);
    // As the client reads the page of a router whose backend is away.
    scene.physicals.refuse(|_| Some((404, "Failed to parse error data")));
    assert_eq!(
        scene.run().await,
        ["ending shop/web-0: the physical pod is read: the script says Failed to parse error data"]
    );
    assert_eq!(scene.virtuals.take_seen(), ["GET shop/web-0"]);
    scene.physicals.refuse(|_| None);
    assert_eq!(scene.again(ending()).await, "ending shop/web-0: done");
    assert_eq!(scene.counted(PodOutcome::Ended), 0, "its physical pod runs");
}

#[tokio::test]
async fn s10_a_pod_that_another_physical_pod_runs_for_than_it_names_is_not_finished() {
    let mut scene = Scene::new();
    with_nodes(&scene);
    let mut twin = terminating(&scene, running());
    twin["metadata"]["annotations"][keys::PHYSICAL_POD_NAME] = json!("edited");
    scene.show_virtual(twin);
    scene.show_physical(scene.physical(running()));
    scene.pass(90);
    scene.run().await;
    assert!(scene.virtuals.pod(VIRTUAL).is_some());
    assert_eq!(scene.counted(PodOutcome::Ended), 0);
    assert_eq!(scene.physicals.take_seen(), ["GET lent/edited", "GET w1 of nodes"]);
    scene.remove_physical(PHYSICAL);
    scene.run().await;
    assert_eq!(scene.virtuals.pod(VIRTUAL), None);
}

#[tokio::test]
async fn s10_a_pod_that_was_left_is_finished_when_its_physical_node_goes() {
    for is_listed in [false, true] {
        let mut scene = Scene::new();
        with_nodes(&scene);
        scene.running().await;
        scene.show_virtual(terminating(&scene, running()));
        scene.pass(90);
        assert_eq!(scene.run().await, ["ending shop/web-0: done"]);
        let mut machines = Machines::new(&scene.view, scene.pods.inbox().clone());
        let node = scene.physicals.remove_at(NODE);
        if is_listed {
            let list = machines.begin(Earlier::Valid);
            machines.reset(list, &"9".into());
        } else {
            machines.delete(machine(node));
        }
        scene.run().await;
        assert_eq!(scene.virtuals.pod(VIRTUAL), None, "{is_listed}");
    }
}

#[tokio::test]
async fn s22_edited_names_and_uids_of_nodes_make_no_node_gone() {
    let name: &dyn Fn(&mut Value) = &|node| node["metadata"]["annotations"][keys::PHYSICAL_NODE_NAME] = json!("w9");
    let label: &dyn Fn(&mut Value) = &|node| node["metadata"]["labels"][keys::PHYSICAL_NODE_UID] = json!("u9");
    for edit in [name, label] {
        let mut scene = Scene::new();
        with_nodes(&scene);
        show_node(&scene, edit);
        scene.running().await;
        scene.show_virtual(terminating(&scene, running()));
        scene.pass(90);
        scene.run().await;
        assert!(scene.virtuals.pod(VIRTUAL).is_some());
        assert_eq!(scene.counted(PodOutcome::Ended), 0);
    }
}

#[tokio::test]
async fn s1_s10_a_pod_on_a_foreign_node_and_one_under_a_bar_are_not_finished() {
    let mut scene = Scene::new();
    with_nodes(&scene);
    show_node(&scene, &|node| node["metadata"]["labels"][keys::BINDING] = json!("another"));
    scene.show_virtual(terminating(&scene, running()));
    scene.pass(600);
    assert_eq!(scene.run().await, ["ending shop/web-0: done"]);
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));

    let mut scene = Scene::new();
    with_nodes(&scene);
    scene.bar(&[Bar::Suspect]);
    scene.show_virtual(terminating(&scene, running()));
    scene.pass(600);
    assert_eq!(scene.run().await, ["ending shop/web-0: done"]);
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
    scene.bar(&[]);
    scene.pods.inbox().wake();
    scene.run().await;
    assert_eq!(scene.virtuals.pod(VIRTUAL), None);
}

#[tokio::test]
async fn a_node_that_is_not_listed_yet_is_waited_for() {
    let mut scene = Scene::new();
    scene.show_virtual(terminating(&scene, running()));
    scene.pass(600);
    assert_eq!(scene.run().await, ["ending shop/web-0: again in 60s"]);
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
}

#[tokio::test]
async fn s6_a_pod_on_the_node_of_a_binding_whose_id_begins_with_ours_is_left_until_such_a_node_can_be_ours() {
    let mut scene = Scene::new();
    let mut twin = terminating(&scene, running());
    twin["spec"]["nodeName"] = json!("vnode-east-2-w1");
    scene.show_virtual(twin);
    scene.pass(600);
    assert_eq!(scene.run().await, ["ending shop/web-0: done"]);
    scene.pods.inbox().wake();
    assert_eq!(scene.run().await, [""; 0], "nothing waits for it");
    let mut machines = Machines::new(&scene.view, scene.pods.inbox().clone());
    let mut comes = |name: &str| {
        machines.apply(machine(json!({"metadata": {"name": name, "uid": "u9"}})));
    };
    comes("w9");
    assert_eq!(scene.run().await, [""; 0]);
    comes("2-w1");
    assert_eq!(scene.run().await, ["ending shop/web-0: again in 60s"]);
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
}

#[tokio::test]
async fn s10_a_pod_that_changes_while_it_is_finished_is_read_again() {
    let mut scene = Scene::new();
    with_nodes(&scene);
    scene.show_virtual(terminating(&scene, running()));
    scene.run().await;
    scene.pass(90);
    let mut conflicts = 1;
    scene.virtuals.refuse(move |asked| {
        let refused = asked.starts_with("DELETE") && conflicts > 0;
        conflicts -= i32::from(refused);
        refused.then_some((409, "Conflict"))
    });
    assert_eq!(scene.again(ending()).await, "ending shop/web-0: done");
    let seen = scene.virtuals.take_seen();
    let wanted = ["GET", "PATCH", "DELETE", "GET", "DELETE"];
    assert!(seen.iter().zip(wanted).all(|(seen, wanted)| seen.starts_with(wanted)) && seen.len() == 5, "{seen:?}");
    assert_eq!(scene.virtuals.pod(VIRTUAL), None);
}

#[tokio::test]
async fn s10_a_pod_that_only_its_finalizers_keep_is_left() {
    let mut scene = Scene::new();
    with_nodes(&scene);
    let mut twin = terminating(&scene, json!({"phase": "Failed"}));
    twin["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    scene.show_virtual(twin);
    scene.pass(90);
    assert_eq!(scene.run().await, ["ending shop/web-0: done"]);
    assert_eq!(scene.virtuals.take_seen(), ["GET shop/web-0"]);
}
