use super::*;

/// The physical pod without these labels.
fn without(scene: &Scene, labels: &[&str], reason: &str) -> Value {
    let mut pod = scene.physical(json!({"phase": "Running", "reason": reason}));
    let map = pod["metadata"]["labels"].as_object_mut().unwrap();
    labels.iter().for_each(|label| drop(map.remove(*label)));
    pod
}

/// The physical pod is stored without a label by which it is watched: its watch shows it as gone.
fn leaves_the_watch(scene: &mut Scene, labels: &[&str]) {
    let last = scene.physicals.pod(PHYSICAL).unwrap();
    scene.physicals.put(without(scene, labels, "Left"));
    scene.ours.delete(whole(&last));
}

/// The Event that was sent.
fn event(scene: &Scene) -> Value {
    assert_eq!(scene.virtuals.take_seen(), ["POST events"]);
    scene.virtuals.take_bodies().pop().unwrap()
}

#[tokio::test]
async fn s6_a_pod_that_loses_the_label_of_a_syncer_is_left_alone_and_a_person_is_notified_once() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.show_physical(without(&scene, &[keys::MANAGED_BY_LABEL], "One"));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    let event = event(&scene);
    assert_eq!((&event["reason"], &event["regarding"]["uid"]), (&json!("PodNotFollowed"), &json!("v-uid")));
    let note = event["note"].as_str().unwrap();
    assert!(note.contains("it has no label topoloom.dev/managed-by"), "{note}");
    assert!(note.ends_with("pod -n lent web-0-x --overwrite topoloom.dev/managed-by=topoloom"), "{note}");
    // Its status changes, and it is looked at again.
    scene.show_physical(without(&scene, &[keys::MANAGED_BY_LABEL], "Two"));
    scene.run().await;
    scene.pods.inbox().wake();
    assert_eq!(scene.run().await, [""; 0]);
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
    assert!(scene.physicals.pod(PHYSICAL).is_some());
    // It is labelled again.
    scene.show_physical(without(&scene, &[], "Three"));
    scene.run().await;
    assert_eq!(scene.virtuals.take_seen(), ["PATCH shop/web-0/status"]);
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["status"]["reason"], "Three");
}

#[tokio::test]
async fn s6_a_pod_that_leaves_our_watch_is_read_and_a_person_is_notified_which_labels_it_lacks() {
    let mut scene = Scene::new();
    scene.running().await;
    leaves_the_watch(&mut scene, &[keys::VIRTUAL_CLUSTER, keys::MANAGED_BY_LABEL]);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(scene.physicals.take_seen(), ["GET lent/web-0-x"]);
    let event = event(&scene);
    assert_eq!((&event["reason"], &event["regarding"]["uid"]), (&json!("PodNotFollowed"), &json!("v-uid")));
    let note = event["note"].as_str().unwrap();
    assert!(
        note.contains("no label topoloom.dev/managed-by") && note.contains("no label topoloom.dev/virtual-cluster")
    );
    scene.pods.inbox().wake();
    assert_eq!((scene.run().await, scene.pods.all()), (vec![], vec![]), "it was read");
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["status"]["phase"], "Running");
}

#[tokio::test]
async fn s5_s6_a_pod_that_may_not_or_can_not_be_read_is_read_later() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.bar(&[Bar::Unreachable]);
    leaves_the_watch(&mut scene, &[keys::VIRTUAL_CLUSTER]);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(scene.physicals.take_seen(), [""; 0]);
    scene.bar(&[]);
    scene.physicals.refuse(|_| Some((500, "InternalError")));
    scene.pods.inbox().wake();
    assert_eq!(scene.run().await, ["physical lent/web-0-x: the physical pod is read: the script says InternalError"]);
    scene.physicals.refuse(|_| None);
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: done");
    assert_eq!(event(&scene)["reason"], "PodNotFollowed");
}

#[tokio::test]
async fn s6_a_pod_that_is_another_one_or_whose_virtual_pod_ends_is_no_news() {
    // Another physical pod has the name.
    let mut scene = Scene::new();
    scene.running().await;
    let last = scene.physicals.pod(PHYSICAL).unwrap();
    let mut again = without(&scene, &[keys::VIRTUAL_CLUSTER], "Again");
    again["metadata"]["uid"] = json!("p-again");
    scene.physicals.put(again);
    scene.ours.delete(whole(&last));
    scene.run().await;
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen().len()), (vec![], 1));
    // It comes back before it was looked at.
    let mut scene = Scene::new();
    scene.running().await;
    leaves_the_watch(&mut scene, &[keys::VIRTUAL_CLUSTER]);
    scene.show_physical(without(&scene, &[], "Back"));
    scene.run().await;
    assert_eq!(scene.virtuals.take_seen(), ["PATCH shop/web-0/status"]);
    assert_eq!(scene.physicals.take_seen(), [""; 0]);
    // Its virtual pod terminates, or has ended.
    let mut ends = [json!({"deletionTimestamp": "2026-08-03T12:00:30Z", "deletionGracePeriodSeconds": 30}), json!({})];
    for (end, phase) in ends.iter_mut().zip(["Running", "Succeeded"]) {
        let mut scene = Scene::new();
        scene.running().await;
        let mut twin = scene.virtual_pod(json!({"phase": phase}));
        twin["metadata"].as_object_mut().unwrap().append(end.as_object_mut().unwrap());
        scene.show_virtual(twin);
        scene.show_physical(without(&scene, &[keys::MANAGED_BY_LABEL], "One"));
        scene.run().await;
        assert!(!scene.virtuals.take_seen().contains(&"POST events".to_owned()), "{phase}");
    }
}

#[tokio::test]
async fn s6_a_pod_that_lost_the_uid_of_its_binding_while_no_process_looked_is_read_and_a_person_is_notified_once() {
    let mut scene = Scene::unlisted();
    let twin = scene.virtuals.put(scene.virtual_pod(running()));
    scene.list_virtual(&[twin]);
    let wiped = scene.physicals.put(without(&scene, &[keys::BINDING_UID], "One"));
    scene.list_physical(&[wiped]);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(scene.physicals.take_seen(), ["GET lent/web-0-x"]);
    let event = event(&scene);
    assert_eq!((&event["reason"], &event["regarding"]["uid"]), (&json!("PodNotFollowed"), &json!("v-uid")));
    let note = event["note"].as_str().unwrap();
    assert!(note.ends_with("pod -n lent web-0-x --overwrite topoloom.dev/binding-uid=b-1"), "{note}");
    // Its status changes.
    scene.show_physical(without(&scene, &[keys::BINDING_UID], "Two"));
    assert_eq!((scene.run().await, scene.physicals.take_seen()), (vec![], vec![]));
    // Another pod with our labels that only says that it is the pod of that one.
    let mut copy = without(&scene, &[keys::BINDING_UID], "Copy");
    (copy["metadata"]["name"], copy["metadata"]["uid"]) = (json!("copy"), json!("c-uid"));
    scene.show_physical(copy);
    assert_eq!(scene.run().await, [""; 0]);
    // It is labelled again.
    scene.show_physical(without(&scene, &[], "Three"));
    scene.run().await;
    assert_eq!(scene.virtuals.take_seen(), ["PATCH shop/web-0/status"]);
}
