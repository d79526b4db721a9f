use super::*;

/// Whether the physical pod is still there.
fn is_there(scene: &Scene) -> bool {
    scene.physicals.pod(PHYSICAL).is_some()
}

#[tokio::test]
async fn s6_an_orphan_goes_after_two_looks_a_live_read_and_the_guard() {
    let mut scene = Scene::new();
    scene.show_physical(scene.physical(running()));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: again in 30s"]);
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
    scene.pass(10);
    assert_eq!(
        scene.again(physical()).await,
        "physical lent/web-0-x: again in 20s",
        "another trigger shortens nothing"
    );
    scene.pass(20);
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: again in 5s", "the guard gathers");
    assert_eq!(scene.virtuals.take_seen(), ["GET shop/web-0"]);
    scene.pass(5);
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: done");
    assert_eq!(scene.physicals.take_seen(), ["DELETE lent/web-0-x"]);
    let body = scene.physicals.take_bodies().pop().unwrap();
    assert_eq!(body["preconditions"]["uid"], "p-uid");
    assert!(body.get("gracePeriodSeconds").is_none(), "with its own grace: {body}");
    assert!(!is_there(&scene));
    assert_eq!(scene.counted(PodOutcome::OrphanDeleted), 1);
    assert_eq!(scene.shown("lent_pod_orphans_deleted_total{binding=\"east\",verdict=\"gone\"}"), "1");
    assert_eq!(scene.counted.lines(), ["wrote orphan-delete gone 1"]);
    assert_eq!(scene.view.lock().unwrap().guard().spent().pods, 1);
}

#[tokio::test]
async fn s25_an_orphan_is_not_deleted_before_a_round_of_the_witness_that_began_after_the_guard_was_asked() {
    let mut scene = Scene::new();
    scene.view.lock().unwrap().agreed(Duration::ZERO);
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    scene.pass(30);
    scene.again(physical()).await;
    scene.pass(5);
    for _ in 0..3 {
        assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: again in 1s");
    }
    assert!(scene.view.lock().unwrap().awaits_round());
    assert_eq!(scene.physicals.take_seen(), [""; 0]);
    let begun = (scene.pods.now)().steady;
    scene.view.lock().unwrap().agreed(begun);
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: done");
    assert!(!is_there(&scene));
}

#[tokio::test]
async fn s6_a_pod_of_an_earlier_binding_is_an_orphan_once_it_was_adopted_and_has_lost_its_virtual_pod() {
    let earlier = |scene: &Scene| {
        let mut pod = scene.physical(running());
        pod["metadata"]["labels"][keys::BINDING_UID] = json!("b0");
        pod
    };
    // It has had none since its binding is gone.
    let mut scene = Scene::new();
    scene.show_physical(earlier(&scene));
    scene.run().await;
    scene.pass(600);
    scene.pods.inbox().wake();
    scene.run().await;
    assert!(is_there(&scene));
    // It had one.
    let mut scene = Scene::new();
    scene.show_virtual(scene.virtual_pod(json!({"phase": "Pending"})));
    scene.show_physical(earlier(&scene));
    scene.run().await;
    let last = scene.virtuals.remove(VIRTUAL);
    scene.lent.delete(whole(&last));
    assert_eq!(scene.run().await, ["physical lent/web-0-x: again in 30s"]);
    scene.pass(30);
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: again in 5s", "the guard gathers");
    scene.pass(5);
    scene.again(physical()).await;
    assert!(!is_there(&scene));
}

#[tokio::test]
async fn s9_a_deletion_without_an_answer_counts() {
    let mut scene = Scene::new();
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    scene.pass(30);
    scene.again(physical()).await;
    scene.pass(5);
    scene.physicals.refuse(|asked| asked.starts_with("DELETE").then_some((504, "Timeout")));
    let ended = scene.again(physical()).await;
    assert_eq!(ended, "physical lent/web-0-x: the physical pod is deleted: the script says Timeout");
    assert_eq!(scene.view.lock().unwrap().guard().spent().pods, 1);
    scene.physicals.refuse(|_| None);
    scene.again(physical()).await;
    assert!(!is_there(&scene));
    assert_eq!(scene.view.lock().unwrap().guard().spent().pods, 1, "once");
}

#[tokio::test]
async fn s11_before_virtual_pods_are_listed_no_pod_is_an_orphan() {
    let mut scene = Scene::unlisted();
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    scene.pass(3_600);
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: done");
    scene.list_virtual(&[]);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: again in 30s"], "its first look is after the list");
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
}

#[tokio::test]
async fn s6_the_live_read_saves_a_pod_whose_virtual_pod_the_watch_has_not_shown() {
    let mut scene = Scene::new();
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    scene.virtuals.put(scene.virtual_pod(json!({"phase": "Pending"})));
    scene.pass(30);
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: done");
    assert_eq!(scene.virtuals.take_seen(), ["GET shop/web-0", "PATCH shop/web-0/status"]);
    assert!(is_there(&scene));
}

#[tokio::test]
async fn s6_a_list_between_the_looks_makes_the_first_one_void() {
    let mut scene = Scene::new();
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    scene.pass(29);
    scene.list_virtual(&[]);
    scene.pass(1);
    scene.run().await;
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: again in 30s");
}

#[tokio::test]
async fn s6_one_look_and_the_guard_are_enough_where_the_virtual_pod_is_another_one() {
    let mut scene = Scene::new();
    scene.running().await;
    let last = scene.virtuals.remove(VIRTUAL);
    scene.lent.delete(whole(&last));
    let mut twin = scene.virtual_pod(json!({"phase": "Pending"}));
    twin["metadata"]["uid"] = json!("v-2");
    twin["metadata"]["annotations"] = json!({});
    scene.show_virtual(twin);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: again in 5s"]);
    scene.pass(5);
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: done");
    assert!(!is_there(&scene));
}

#[tokio::test]
async fn s6_a_pod_that_has_changed_since_it_was_judged_is_not_deleted() {
    let mut scene = Scene::new();
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    scene.pass(30);
    scene.again(physical()).await;
    // Its annotations may be whole by now; the watch has not shown it.
    scene.physicals.put(scene.physical(running()));
    scene.pass(5);
    let ended = scene.again(physical()).await;
    assert_eq!(ended, "physical lent/web-0-x: the physical pod is deleted: the script says Conflict");
    assert!(is_there(&scene));
}

/// So many physical pods without virtual ones, by their names.
fn orphans(scene: &mut Scene, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|number| format!("p{number}")).collect();
    for name in &names {
        let mut pod = scene.physical(running());
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["uid"] = json!(format!("uid-{name}"));
        scene.show_physical(pod);
    }
    names
}

/// All that is there is looked at twice, and the guard has gathered.
async fn judged(scene: &Scene) {
    scene.run().await;
    for seconds in [30, 5] {
        scene.pass(seconds);
        scene.pods.inbox().wake();
        scene.run().await;
    }
}

#[tokio::test]
async fn s9_orphans_are_held_whatever_pods_of_daemon_sets_wait_on_the_nodes() {
    let mut scene = Scene::new();
    orphans(&mut scene, 5);
    for number in 0..30 {
        let mut daemon = scene.virtual_pod(json!({"phase": "Pending"}));
        daemon["metadata"]["name"] = json!(format!("d{number}"));
        daemon["metadata"]["uid"] = json!(format!("daemon-{number}"));
        daemon["metadata"]["annotations"] = json!({});
        daemon["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "set", "controller": true}]);
        scene.show_virtual(daemon);
    }
    assert_eq!(scene.view.lock().unwrap().ledger.bound().count(), 30);
    judged(&scene).await;
    assert_eq!(scene.view.lock().unwrap().guard().held().map(|held| held.pods), Some(5));
    assert_eq!(scene.physicals.take_seen(), [""; 0]);
}

#[tokio::test]
async fn s9_many_orphans_are_held_together_until_an_operator_confirms() {
    let mut scene = Scene::new();
    let names = orphans(&mut scene, 6);
    let all = async |scene: &Scene, outcome: &str| {
        for name in &names {
            let ended = scene.again(PodKey::Physical(PodName::new("lent", name))).await;
            assert_eq!(ended, format!("physical lent/{name}: {outcome}"));
        }
    };
    scene.run().await;
    scene.pass(30);
    all(&scene, "again in 5s").await;
    scene.pass(5);
    all(&scene, "done").await;
    assert_eq!(scene.physicals.take_seen(), [""; 0]);
    assert_eq!(scene.counted(PodOutcome::OrphanHeld), 6);
    let hash = scene.view.lock().unwrap().guard().held().unwrap().hash.clone();
    scene.view.lock().unwrap().guard().confirm(&hash).unwrap();
    scene.pods.inbox().wake();
    scene.run().await;
    assert_eq!(scene.counted(PodOutcome::OrphanDeleted), 6);
}

#[tokio::test]
async fn s9_an_orphan_that_is_held_costs_no_request() {
    let mut scene = Scene::new();
    orphans(&mut scene, 6);
    judged(&scene).await;
    assert!(scene.view.lock().unwrap().guard().held().is_some());
    scene.virtuals.take_seen();
    scene.pass(300);
    scene.pods.inbox().wake();
    assert!(scene.run().await.iter().all(|ended| ended.ends_with("done")));
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
    let hash = scene.view.lock().unwrap().guard().held().unwrap().hash.clone();
    scene.view.lock().unwrap().confirm(&hash).unwrap();
    scene.pods.inbox().wake();
    scene.run().await;
    assert_eq!(scene.counted(PodOutcome::OrphanDeleted), 6);
}

#[tokio::test]
async fn s9_what_was_asked_for_a_pod_is_withdrawn_when_it_is_gone_whatever_shows_that() {
    let asked = |scene: &Scene| scene.view.lock().unwrap().orphans().len();
    let goes: [fn(&mut Scene); 4] = [
        |scene| scene.remove_physical(PHYSICAL),
        |scene| scene.list_physical(&[]),
        // Its store was set back.
        |scene| drop(scene.ours.begin(Earlier::Void)),
        |scene| {
            let mut pod = scene.physical(running());
            pod["metadata"]["labels"][keys::BINDING] = json!("another");
            scene.show_physical(pod);
        },
    ];
    for (which, go) in goes.into_iter().enumerate() {
        let mut scene = Scene::new();
        scene.show_physical(scene.physical(running()));
        scene.run().await;
        scene.pass(30);
        scene.again(physical()).await;
        assert_eq!(asked(&scene), 1);
        go(&mut scene);
        scene.run().await;
        assert_eq!(asked(&scene), 0, "{which}");
    }
    // Where the queue was full, the sweep does it.
    let mut scene = Scene::new();
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    scene.pass(30);
    scene.again(physical()).await;
    scene.pods.inbox().book().forget_physical(&PodName::new("lent", "web-0-x"));
    assert_eq!(asked(&scene), 1);
    assert_eq!(scene.pods.all(), []);
    assert_eq!(asked(&scene), 0);
}

#[tokio::test]
async fn s5_s23_s25_under_a_bar_no_pod_is_judged_and_what_was_seen_before_counts_after_it() {
    let mut scene = Scene::new();
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    for bar in [Bar::Suspect, Bar::Restored, Bar::Paused, Bar::Observing, Bar::VirtualUnreachable] {
        scene.bar(&[bar]);
        scene.pass(600);
        assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: done", "{bar:?}");
    }
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
    scene.bar(&[]);
    scene.pods.inbox().wake();
    assert_eq!(scene.run().await, ["physical lent/web-0-x: again in 5s"], "its second look is now");
    assert!(is_there(&scene));
}

#[tokio::test]
async fn table_8_row_3_a_pod_that_names_none_stays_while_a_virtual_pod_names_it() {
    let mut scene = Scene::new();
    let mut pod = scene.physical(running());
    pod["metadata"]["annotations"] = json!({});
    scene.show_physical(pod);
    assert_eq!(scene.run().await, ["physical lent/web-0-x: again in 30s"]);
    scene.virtuals.put(scene.virtual_pod(running()));
    scene.pass(30);
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: done");
    assert_eq!(scene.virtuals.take_seen(), ["GET pods"]);
    assert!(is_there(&scene));
    // Without one it goes.
    scene.virtuals.remove(VIRTUAL);
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: again in 30s");
    scene.pass(30);
    scene.again(physical()).await;
    scene.pass(5);
    scene.again(physical()).await;
    assert!(!is_there(&scene));
}

#[tokio::test]
async fn table_8_row_3_one_list_serves_all_pods_that_name_none() {
    let mut scene = Scene::new();
    let names = ["p0", "p1", "p2"];
    for name in names {
        let mut pod = scene.physical(running());
        pod["metadata"]["annotations"] = json!({});
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["uid"] = json!(format!("uid-{name}"));
        scene.show_physical(pod);
    }
    let mut twin = scene.virtual_pod(running());
    twin["metadata"]["annotations"][keys::PHYSICAL_POD_NAME] = json!("p1");
    twin["metadata"]["annotations"][keys::PHYSICAL_POD_UID] = json!("uid-p1");
    scene.virtuals.put(twin);
    judged(&scene).await;
    assert_eq!(scene.virtuals.take_seen(), ["GET pods"]);
    let left = names.map(|name| scene.physicals.pod(&format!("lent/{name}")).is_some());
    assert_eq!(left, [false, true, false]);
    // One that loses its annotations later was not seen twice before that list.
    let mut pod = scene.physical(running());
    pod["metadata"]["annotations"] = json!({});
    scene.show_physical(pod);
    scene.run().await;
    scene.pass(30);
    scene.again(physical()).await;
    assert_eq!(scene.virtuals.take_seen(), ["GET pods"]);
}

#[tokio::test]
async fn table_8_row_4_a_read_that_fails_is_no_answer() {
    let mut scene = Scene::new();
    scene.show_physical(scene.physical(running()));
    scene.run().await;
    scene.pass(30);
    for (code, word) in [(500, "InternalError"), (404, "Failed to parse error data"), (429, "TooManyRequests")] {
        scene.virtuals.refuse(move |asked| asked.starts_with("GET").then_some((code, word)));
        let ended = scene.again(physical()).await;
        assert_eq!(ended, format!("physical lent/web-0-x: the virtual pod is read: the script says {word}"));
    }
    scene.virtuals.refuse(|_| Some((403, "Forbidden")));
    assert_eq!(scene.again(physical()).await, "physical lent/web-0-x: done", "a person has to give the right");
    assert_eq!(scene.physicals.take_seen(), [""; 0]);
}

#[tokio::test]
async fn s6_a_pod_that_terminates_is_not_deleted_again() {
    let mut scene = Scene::new();
    let mut pod = scene.physical(running());
    pod["metadata"]["deletionTimestamp"] = json!("2026-08-03T12:00:00Z");
    scene.show_physical(pod);
    scene.run().await;
    scene.pass(600);
    scene.pods.inbox().wake();
    assert_eq!(scene.run().await, [""; 0], "it is at rest");
    assert_eq!((scene.virtuals.take_seen(), scene.physicals.take_seen()), (vec![], vec![]));
}
