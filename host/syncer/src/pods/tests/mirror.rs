use std::collections::BTreeSet;

use super::*;

#[tokio::test]
async fn s16_a_change_that_shows_costs_one_patch_and_all_else_costs_no_request() {
    let mut scene = Scene::new();
    scene.show_virtual(scene.virtual_pod(json!({"phase": "Pending"})));
    scene.show_physical(scene.physical(json!({"phase": "Pending"})));
    assert_eq!(scene.run().await, [""; 0]);
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
    scene.show_physical(scene.physical(running()));
    assert_ne!(scene.held(), 0);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(scene.virtuals.take_seen(), ["PATCH shop/web-0/status"]);
    let stored = scene.virtuals.pod(VIRTUAL).unwrap();
    assert_eq!((&stored["status"]["phase"], &stored["status"]["conditions"][0]), (&json!("Running"), &ready("True")));
    assert!(stored["metadata"]["annotations"][keys::LAST_SYNC_TIME].is_string());
    // Our own write comes back, the physical pod gets another version and a key that is not copied.
    scene.show_stored(VIRTUAL);
    let mut pod = scene.physical(running());
    pod["metadata"]["annotations"]["note"] = json!("n");
    scene.show_physical(pod);
    assert_eq!(scene.run().await, [""; 0]);
    assert_eq!(scene.held(), 0, "at rest no text is held (decision S21)");
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
    assert_eq!(scene.counted(PodOutcome::Mirrored), 1);
}

#[tokio::test]
async fn the_order_in_which_the_two_pods_are_shown_does_not_matter() {
    let mut scene = Scene::unlisted();
    scene.show_physical(scene.physical(running()));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"], "no virtual pod was listed yet");
    let twin = scene.virtuals.put(scene.virtual_pod(json!({"phase": "Pending"})));
    scene.list_virtual(&[twin]);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(
        (scene.virtuals.take_seen(), scene.physicals.take_seen()),
        (vec!["PATCH shop/web-0/status".to_owned()], vec![])
    );
    // A restart: nothing is known, and nothing has to be written.
    let mut other = Scene::unlisted();
    let (twin, pod) = (scene.virtuals.pod(VIRTUAL).unwrap(), scene.physicals.pod(PHYSICAL).unwrap());
    other.list_virtual(&[twin]);
    other.list_physical(&[pod]);
    assert_eq!(other.run().await, [""; 0]);
    assert_eq!((other.virtuals.take_seen(), other.physicals.take_seen()), (vec![], vec![]));
}

#[tokio::test]
async fn s15_a_status_that_another_client_wrote_is_set_back_after_one_live_read() {
    let mut scene = Scene::new();
    scene.running().await;
    // As node-lifecycle does with the pods of a node whose lease has stopped (decision S4).
    scene.show_virtual(scene.virtual_pod(json!({"phase": "Running", "conditions": [ready("False")]})));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(scene.physicals.take_seen(), ["GET lent/web-0-x"]);
    assert_eq!(scene.virtuals.take_seen(), ["PATCH shop/web-0/status"]);
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["status"]["conditions"], json!([ready("True")]));
    assert_eq!(scene.held(), 0);
}

#[tokio::test]
async fn s15_metadata_that_others_write_costs_no_request_and_another_mapping_does() {
    let mut scene = Scene::new();
    scene.running().await;
    let mut twin = scene.virtuals.pod(VIRTUAL).unwrap();
    twin["metadata"]["labels"] = json!({"app": "web"});
    scene.show_virtual(twin.clone());
    assert_eq!(scene.run().await, [""; 0]);
    twin["metadata"]["annotations"][keys::PHYSICAL_POD_NAME] = json!("another");
    scene.show_virtual(twin);
    let ended = scene.run().await;
    assert!(ended[0].starts_with("physical lent/web-0-x: again in 30s"), "{ended:?}");
}

#[tokio::test]
async fn d14_the_uid_that_the_top_down_half_writes_late_costs_no_request_and_one_that_it_forgot_is_filled() {
    let mut scene = Scene::new();
    let mut twin = scene.virtual_pod(json!({"phase": "Pending"}));
    twin["metadata"]["annotations"].as_object_mut().unwrap().remove(keys::PHYSICAL_POD_UID);
    scene.show_virtual(twin);
    scene.show_physical(scene.physical(json!({"phase": "Pending"})));
    scene.run().await;
    scene.show_virtual(scene.virtual_pod(json!({"phase": "Pending"})));
    assert_eq!(scene.run().await, [""; 0]);
    let mut twin = scene.virtuals.pod(VIRTUAL).unwrap();
    twin["metadata"]["annotations"].as_object_mut().unwrap().remove(keys::PHYSICAL_POD_UID);
    scene.show_virtual(twin);
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    let stored = scene.virtuals.pod(VIRTUAL).unwrap();
    assert_eq!(stored["metadata"]["annotations"][keys::PHYSICAL_POD_UID], "p-uid");
    assert_eq!(scene.virtuals.take_seen(), ["PATCH shop/web-0/status"]);
}

#[tokio::test]
async fn a_conflict_is_read_live_and_written_in_the_same_look() {
    let mut scene = Scene::new();
    scene.running().await;
    // Written by another client, and not shown yet.
    let mut twin = scene.virtuals.pod(VIRTUAL).unwrap();
    twin["status"]["conditions"] = json!([ready("True"), {"type": "example.com/user", "status": "True"}]);
    scene.virtuals.put(twin);
    scene.show_physical(scene.physical(json!({"phase": "Succeeded"})));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(scene.virtuals.take_seen(), ["PATCH shop/web-0/status", "GET shop/web-0", "PATCH shop/web-0/status"]);
    let stored = scene.virtuals.pod(VIRTUAL).unwrap();
    assert_eq!(stored["status"]["phase"], "Succeeded");
    assert_eq!(stored["status"]["conditions"], json!([{"type": "example.com/user", "status": "True"}]));
    assert_eq!((scene.counted(PodOutcome::Conflict), scene.counted(PodOutcome::Mirrored)), (1, 2));
}

#[tokio::test]
async fn a_request_that_fails_is_tried_again_and_a_conflict_without_end_too() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.show_physical(scene.physical(json!({"phase": "Succeeded"})));
    scene.virtuals.refuse(|asked| asked.starts_with("PATCH").then_some((500, "InternalError")));
    let ended = scene.run().await;
    assert_eq!(
        ended,
        ["physical lent/web-0-x: the status of the virtual pod is written: the script says InternalError"]
    );
    scene.virtuals.refuse(|asked| asked.starts_with("PATCH").then_some((409, "Conflict")));
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: 8 live reads led to no decision");
    scene.virtuals.refuse(|_| None);
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: done");
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["status"]["phase"], "Succeeded");
}

#[tokio::test(start_paused = true)]
async fn the_lag_of_a_status_counts_from_its_first_event_until_it_is_stored() {
    let mut scene = Scene::new();
    scene.running().await;
    let (count, sum) = ("lent_pod_status_lag_seconds_count", "lent_pod_status_lag_seconds_sum");
    let of = |series: &str| format!("{series}{{binding=\"east\"}}");
    assert_eq!((scene.shown(&of(count)), scene.shown(&of(sum))), ("1".to_owned(), "0.0".to_owned()));
    scene.virtuals.refuse(|asked| asked.starts_with("PATCH").then_some((500, "InternalError")));
    scene.show_physical(scene.physical(json!({"phase": "Running", "reason": "one"})));
    scene.run().await;
    tokio::time::advance(Duration::from_secs(2)).await;
    scene.show_physical(scene.physical(json!({"phase": "Running", "reason": "two"})));
    tokio::time::advance(Duration::from_secs(1)).await;
    scene.virtuals.refuse(|_| None);
    scene.run().await;
    assert_eq!((scene.shown(&of(count)), scene.shown(&of(sum))), ("2".to_owned(), "3.0".to_owned()));
    // What changes nothing that is copied has no lag.
    scene.show_stored(VIRTUAL);
    tokio::time::advance(Duration::from_secs(60)).await;
    scene.show_physical(scene.physical(json!({"phase": "Running", "reason": "two", "qosClass": "Burstable"})));
    scene.run().await;
    assert_eq!(scene.shown(&of(count)), "2");
    assert_eq!(scene.counted.lines(), ["wrote pod-status mirror 2", "refused pod-status ServerError 1"]);
}

#[tokio::test]
async fn s16_a_status_that_is_refused_is_reported_once_for_a_version_and_not_sent_again() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.virtuals.refuse(|asked| asked.starts_with("PATCH").then_some((422, "Invalid")));
    scene.show_physical(scene.physical(json!({"phase": "Succeeded"})));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(scene.virtuals.take_seen(), ["PATCH shop/web-0/status", "POST events"]);
    let event = scene.virtuals.take_bodies().pop().unwrap();
    assert_eq!((&event["reason"], &event["regarding"]["uid"]), (&json!("WriteRefused"), &json!("v-uid")));
    assert!(event["note"].as_str().unwrap().contains("phase Running → Succeeded"), "{event}");
    // The virtual pod changes; the physical one has the same version.
    let mut twin = scene.virtuals.pod(VIRTUAL).unwrap();
    twin["status"]["conditions"] = json!([ready("False")]);
    scene.show_virtual(twin);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(scene.virtuals.take_seen(), [""; 0]);
    assert_eq!(scene.counted(PodOutcome::Refused), 1);
    // The next version may be good.
    scene.virtuals.refuse(|_| None);
    scene.show_physical(scene.physical(json!({"phase": "Succeeded", "reason": "Done"})));
    scene.run().await;
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["status"]["reason"], "Done");
}

#[tokio::test]
async fn s16_what_an_older_server_does_not_store_is_not_written_for_ever() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.virtuals.drop_field("reason");
    scene.show_physical(scene.physical(json!({"phase": "Failed", "reason": "Evicted"})));
    scene.run().await;
    scene.show_stored(VIRTUAL);
    let mut twin = scene.virtuals.pod(VIRTUAL).unwrap();
    twin["status"]["message"] = json!("of another client");
    scene.show_virtual(twin);
    scene.run().await;
    scene.show_stored(VIRTUAL);
    scene.run().await;
    assert_eq!(scene.counted(PodOutcome::NotStored), 2);
    scene.virtuals.take_seen();
    scene.pods.inbox().wake();
    assert_eq!((scene.run().await, scene.virtuals.take_seen()), (vec![], vec![]));
}

#[tokio::test]
async fn s21_what_finds_no_room_is_read_live() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.show_physical(scene.physical(json!({"phase": "Succeeded"})));
    scene.pods.inbox().book().drop_texts();
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(scene.physicals.take_seen(), ["GET lent/web-0-x"]);
    assert_eq!(scene.virtuals.take_seen(), ["GET shop/web-0", "PATCH shop/web-0/status"]);
}

#[tokio::test]
async fn s5_what_a_bar_forbids_is_done_when_it_goes() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.bar(&[Bar::Unreachable]);
    scene.show_virtual(scene.virtual_pod(json!({"phase": "Running", "conditions": [ready("False")]})));
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    scene.pods.inbox().book().drop_texts();
    scene.pods.inbox().wake();
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(
        (scene.virtuals.take_seen(), scene.physicals.take_seen()),
        (vec![], vec![]),
        "nothing is read for nothing"
    );
    scene.bar(&[Bar::Suspect]);
    scene.pods.inbox().wake();
    scene.run().await;
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["status"]["conditions"], json!([ready("True")]));
}

#[tokio::test]
async fn s10_the_end_of_a_pod_that_is_gone_before_it_was_mirrored_goes_up() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.show_physical(scene.physical(json!({"phase": "Succeeded"})));
    scene.remove_physical(PHYSICAL);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(
        (scene.virtuals.take_seen(), scene.physicals.take_seen()),
        (vec!["PATCH shop/web-0/status".to_owned()], vec![])
    );
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["status"]["phase"], "Succeeded");
    assert!(scene.pods.inbox().book().sight(&PodName::new("lent", "web-0-x")).is_none());
}

#[tokio::test]
async fn s10_a_pod_that_is_gone_while_it_ran_changes_nothing_of_its_virtual_pod() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.show_physical(scene.physical(json!({"phase": "Running", "reason": "New"})));
    scene.remove_physical(PHYSICAL);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    let read = vec!["GET lent/web-0-x".to_owned()];
    assert_eq!(
        (scene.virtuals.take_seen(), scene.physicals.take_seen()),
        (vec![], read),
        "it may only have lost a label"
    );
    // A list that does not have it says the same, and the end that was seen still goes up.
    let mut scene = Scene::new();
    scene.running().await;
    scene.show_physical(scene.physical(json!({"phase": "Failed"})));
    scene.physicals.remove(PHYSICAL);
    scene.list_physical(&[]);
    scene.run().await;
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["status"]["phase"], "Failed");
}

#[tokio::test]
async fn d13_keys_that_the_binding_names_flow_up_with_the_status() {
    let mut scene = Scene::new();
    scene.running().await;
    let mut pod = scene.physical(running());
    pod["metadata"]["labels"]["team"] = json!("a");
    scene.show_physical(pod);
    assert_eq!(scene.run().await, [""; 0]);
    scene.pods.inbox().configure(["team".to_owned()].into(), Duration::from_secs(30));
    scene.run().await;
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["metadata"]["labels"], json!({"team": "a"}));
    assert_eq!(scene.virtuals.take_seen(), ["GET shop/web-0", "PATCH shop/web-0/status"]);
}

#[tokio::test]
async fn s6_pods_of_an_earlier_binding_are_mirrored_after_one_list_for_all_of_them() {
    let mut scene = Scene::new();
    let earlier = |mut pod: Value| {
        pod["metadata"]["labels"][keys::BINDING_UID] = json!("b0");
        pod
    };
    scene.show_virtual(scene.virtual_pod(json!({"phase": "Pending"})));
    scene.show_physical(earlier(scene.physical(running())));
    scene.run().await;
    let listed = "GET clusterbindings".to_owned();
    assert_eq!(scene.virtuals.take_seen(), [listed, "PATCH shop/web-0/status".to_owned()]);
    scene.show_physical(earlier(scene.physical(json!({"phase": "Succeeded"}))));
    scene.run().await;
    assert_eq!(scene.virtuals.take_seen(), ["PATCH shop/web-0/status"]);
    // It stands: then its pods are its own.
    let mut scene = Scene::new();
    let path = "/apis/topoloom.dev/v1alpha1/clusterbindings";
    scene.virtuals.put_at(&format!("{path}/old"), json!({"metadata": {"name": "old", "uid": "b0"}}));
    scene.show_virtual(scene.virtual_pod(json!({"phase": "Pending"})));
    scene.show_physical(earlier(scene.physical(running())));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(scene.virtuals.take_seen(), ["GET clusterbindings", "POST events"], "both name each other");
}

#[tokio::test]
async fn s1_a_pod_of_another_binding_or_cluster_is_never_looked_at() {
    for key in [keys::VIRTUAL_CLUSTER, keys::BINDING] {
        let mut scene = Scene::new();
        scene.show_virtual(scene.virtual_pod(json!({"phase": "Pending"})));
        let mut pod = scene.physical(running());
        pod["metadata"]["labels"][key] = json!("another");
        scene.show_physical(pod);
        scene.pass(3_600);
        scene.pods.inbox().wake();
        assert_eq!(scene.run().await, [""; 0], "{key}");
        assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
    }
    // One whose labels become another's is forgotten.
    let mut scene = Scene::new();
    scene.running().await;
    let mut pod = scene.physical(json!({"phase": "Succeeded"}));
    pod["metadata"]["labels"][keys::BINDING] = json!("another");
    scene.show_physical(pod);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"], "what was asked for about it is withdrawn");
    assert_eq!(scene.physicals.take_seen(), ["GET lent/web-0-x"]);
    assert_eq!(scene.virtuals.take_seen(), ["POST events"], "its virtual pod names it still");
    scene.pods.inbox().wake();
    assert_eq!(scene.run().await, [""; 0]);
}

#[tokio::test]
async fn s1_a_copy_of_a_manifest_in_another_namespace_is_none_of_our_pods() {
    let mut scene = Scene::new();
    scene.running().await;
    let mut copy = scene.physical(json!({"phase": "Failed"}));
    copy["metadata"]["namespace"] = json!("lenders-own");
    copy["metadata"]["uid"] = json!("p-copy");
    scene.show_physical(copy);
    scene.pass(3_600);
    scene.pods.inbox().wake();
    assert_eq!(scene.run().await, [""; 0]);
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
}

#[tokio::test]
async fn s6_the_status_of_a_virtual_pod_on_another_node_is_not_written() {
    for node in ["w9", "vnode-west-w1"] {
        let mut scene = Scene::new();
        scene.show_physical(scene.physical(running()));
        scene.run().await;
        let mut twin = scene.virtual_pod(json!({"phase": "Pending"}));
        twin["spec"]["nodeName"] = json!(node);
        scene.show_virtual(twin);
        scene.pass(30);
        assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: done");
        assert_eq!(scene.virtuals.take_seen(), ["GET shop/web-0"], "{node}");
        assert!(scene.physicals.pod(PHYSICAL).is_some());
    }
}

#[tokio::test]
async fn s5_what_was_held_when_the_cluster_was_lost_is_read_again_before_it_is_written() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.bar(&[Bar::Unreachable]);
    let mut pod = scene.physical(running());
    pod["status"]["reason"] = json!("Old");
    scene.show_physical(pod);
    scene.run().await;
    scene.pods.inbox().forget_texts();
    // What the cluster has now, which no watch has shown.
    let mut pod = scene.physical(running());
    pod["status"]["reason"] = json!("New");
    scene.physicals.put(pod);
    scene.bar(&[Bar::Suspect]);
    scene.pods.inbox().wake();
    scene.run().await;
    assert_eq!(scene.physicals.take_seen(), ["GET lent/web-0-x"]);
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["status"]["reason"], "New");
    assert_eq!(scene.virtuals.take_seen(), ["PATCH shop/web-0/status"]);
}

#[tokio::test]
async fn s10_an_end_that_was_seen_is_not_forgotten_with_what_may_be_old() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.bar(&[Bar::Unreachable]);
    scene.show_physical(scene.physical(json!({"phase": "Succeeded"})));
    scene.remove_physical(PHYSICAL);
    scene.run().await;
    scene.pods.inbox().forget_texts();
    // The store of the physical cluster may even have been set back meanwhile.
    let list = scene.ours.begin(Earlier::Void);
    scene.ours.reset(list, &"9".into());
    scene.bar(&[]);
    scene.pods.inbox().wake();
    scene.run().await;
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["status"]["phase"], "Succeeded");
}

#[tokio::test]
async fn a_pod_that_was_made_again_is_not_taken_for_the_one_that_is_known() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.show_physical(scene.physical(json!({"phase": "Running", "reason": "Changed"})));
    scene.pods.inbox().book().drop_texts();
    let mut again = scene.physical(json!({"phase": "Pending"}));
    again["metadata"]["uid"] = json!("p-again");
    scene.physicals.put(again);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(
        (scene.virtuals.take_seen(), scene.physicals.take_seen()),
        (vec![], vec!["GET lent/web-0-x".to_owned()])
    );
}

#[tokio::test]
async fn s25_a_list_of_pods_that_goes_back_shows_a_store_that_was_set_back() {
    let mut scene = Scene::new();
    let older = scene.physicals.put(scene.physical(running()));
    let twin = scene.virtuals.put(scene.virtual_pod(running()));
    scene.show_physical(scene.physical(json!({"phase": "Succeeded"})));
    scene.show_virtual(scene.virtual_pod(json!({"phase": "Succeeded"})));
    // A list that began before the last write shows the pod as it was then.
    list_at(&mut scene.ours, std::slice::from_ref(&older), older["metadata"]["resourceVersion"].as_str().unwrap());
    list_at(&mut scene.lent, std::slice::from_ref(&twin), twin["metadata"]["resourceVersion"].as_str().unwrap());
    assert_eq!(scene.set_back(), [0, 0]);
    // One that is later does not.
    list_at(&mut scene.ours, &[older], "5000");
    assert_eq!(scene.set_back(), [1, 0]);
    list_at(&mut scene.lent, &[twin], "5000");
    assert_eq!(scene.set_back(), [1, 1]);
}

#[tokio::test]
async fn s25_what_was_read_of_a_pod_before_it_could_not_be_read_is_no_sign_of_a_store_that_was_set_back() {
    let mut scene = Scene::new();
    let older = [scene.physicals.put(scene.physical(running())), scene.virtuals.put(scene.virtual_pod(running()))];
    scene.show_physical(scene.physical(json!({"phase": "Succeeded"})));
    scene.show_virtual(scene.virtual_pod(json!({"phase": "Succeeded"})));
    // What is known is newer than what the watch has read last, and in the list neither can be read.
    let version = "5000".into();
    for (reading, sets_back) in [(Reading::Earlier, [0, 0]), (Reading::Current, [1, 1])] {
        let [physical, twin] = older.each_ref().map(|pod| Shown { reading, ..whole(pod) });
        let mut listed = scene.ours.begin(Earlier::Valid);
        scene.ours.list(&mut listed, physical);
        scene.ours.reset(listed, &version);
        let mut listed = scene.lent.begin(Earlier::Valid);
        scene.lent.list(&mut listed, twin);
        scene.lent.reset(listed, &version);
        assert_eq!(scene.set_back(), sets_back, "{reading:?}");
    }
}

#[tokio::test]
async fn a_pod_whose_last_state_is_not_held_is_gone() {
    let mut scene = Scene::new();
    scene.running().await;
    let last = scene.physicals.remove(PHYSICAL);
    scene.ours.delete(without_text(&last));
    assert!(!scene.pods.inbox().book().knows(&PodName::new("lent", "web-0-x")));
    scene.show_physical(scene.physical(running()));
    let last = scene.virtuals.remove(VIRTUAL);
    scene.lent.delete(without_text(&last));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: again in 30s"], "it has no virtual pod");
}

#[tokio::test]
async fn s21_a_pod_whose_text_was_taken_before_is_read_live_and_one_that_is_known_is_not() {
    let mut scene = Scene::new();
    scene.running().await;
    // A list of what is known already, as another watch of the same objects shows it.
    let (pod, twin) = (scene.physicals.pod(PHYSICAL).unwrap(), scene.virtuals.pod(VIRTUAL).unwrap());
    scene.ours.apply(without_text(&pod));
    scene.lent.apply(without_text(&twin));
    assert_eq!(scene.run().await, [""; 0]);
    assert_eq!((scene.pods.inbox().take_unread(), scene.pods.inbox().take_unread_twins()), (0, 0));
    // Another life of the binding knows neither.
    let mut next = Scene::new();
    let stored = next.physicals.put(next.physical(json!({"phase": "Running", "reason": "New"})));
    let twin = next.virtuals.put(next.virtual_pod(json!({"phase": "Pending"})));
    next.lent.apply(without_text(&twin));
    next.ours.apply(without_text(&stored));
    assert_eq!((next.pods.inbox().take_unread(), next.pods.inbox().take_unread_twins()), (1, 1));
    next.run().await;
    assert_eq!(next.physicals.take_seen(), ["GET lent/web-0-x"]);
    assert_eq!(next.virtuals.take_seen(), ["GET shop/web-0", "PATCH shop/web-0/status"]);
    assert_eq!(next.virtuals.pod(VIRTUAL).unwrap()["status"]["reason"], "New");
    next.show_stored(VIRTUAL);
    assert_eq!(next.run().await, [""; 0], "they are at rest");
}

#[tokio::test]
async fn s19_a_right_that_is_missing_is_said_once_and_the_pod_rests_until_the_next_sweep() {
    let mut scene = Scene::new();
    scene.running().await;
    scene.show_physical(scene.physical(json!({"phase": "Succeeded"})));
    scene.virtuals.refuse(|asked| asked.starts_with("PATCH").then_some((403, "Forbidden")));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    let sentences: Vec<String> = scene.pods.troubles.all().iter().map(ToString::to_string).collect();
    assert_eq!(sentences, ["the virtual cluster: the script says Forbidden"]);
    scene.virtuals.refuse(|_| None);
    scene.pods.inbox().wake();
    scene.run().await;
    assert_eq!(scene.pods.troubles.all(), []);
    assert_eq!(scene.virtuals.pod(VIRTUAL).unwrap()["status"]["phase"], "Succeeded");
}

#[tokio::test]
async fn s19_one_pod_that_admission_denies_is_said_until_it_is_written_however_many_others_are() {
    let mut scene = Scene::new();
    scene.running().await;
    let other = |pod: Value| -> Value {
        let text = pod.to_string().replace("web-0", "web-1").replace("p-uid", "p2-uid").replace("v-uid", "v2-uid");
        serde_json::from_str(&text).unwrap()
    };
    scene.show_virtual(other(scene.virtual_pod(json!({"phase": "Pending"}))));
    scene.show_physical(other(scene.physical(running())));
    scene.run().await;
    scene.virtuals.refuse(|asked| asked.starts_with("PATCH shop/web-0/").then_some((403, "admission webhook")));
    let sentences =
        |scene: &Scene| -> Vec<String> { scene.pods.troubles.all().iter().map(ToString::to_string).collect() };
    scene.show_physical(scene.physical(json!({"phase": "Succeeded"})));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(sentences(&scene), ["the virtual cluster: the script says admission webhook"]);
    scene.show_physical(other(scene.physical(json!({"phase": "Succeeded"}))));
    assert_eq!(scene.run().await, ["physical lent/web-1-x: done"]);
    assert_eq!(scene.virtuals.pod("shop/web-1").unwrap()["status"]["phase"], "Succeeded");
    assert_eq!(sentences(&scene).len(), 1);
    scene.virtuals.refuse(|_| None);
    scene.pods.inbox().wake();
    scene.run().await;
    assert_eq!(sentences(&scene), [""; 0]);
}

#[tokio::test]
async fn s1_a_virtual_pod_on_the_node_of_a_binding_whose_id_begins_with_ours_is_not_written() {
    let mut scene = Scene::new();
    let mut twin = scene.virtual_pod(json!({"phase": "Pending"}));
    twin["spec"]["nodeName"] = json!("vnode-east-2-w1");
    scene.show_virtual(twin);
    scene.show_physical(scene.physical(running()));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
    assert_eq!(scene.virtuals.take_seen(), [""; 0]);
}

#[tokio::test]
async fn a_spec_that_says_the_same_wakes_nothing() {
    let mut scene = Scene::unlisted();
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    scene.pods.inbox().configure(BTreeSet::new(), Duration::from_secs(30));
    assert_eq!(scene.run().await, [""; 0]);
    scene.pods.inbox().configure(BTreeSet::new(), Duration::from_secs(60));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: done"]);
}
