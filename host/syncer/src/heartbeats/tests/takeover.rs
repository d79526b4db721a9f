//! Leases that were there before: of an earlier leader, of an earlier node of the same name, and of others.

use topoloom_sync::wall::Difference;

use super::*;

/// Takes over the leases of these nodes, by one list.
async fn adopt(scene: &Scene, nodes: &[(&str, &str)]) {
    let stored = scene.hearts.stored().await.unwrap();
    scene.api.take_seen();
    let nodes = nodes.iter().map(|(node, uid)| ((*node).into(), (*uid).into()));
    let errors = scene.hearts.adopt(&stored, nodes);
    assert!(errors.is_empty(), "{errors:?}");
}

fn labels() -> Value {
    json!(us().labels())
}

fn spec(holder: &str, ago: u64) -> Value {
    let renewed = begin() - SignedDuration::from_secs(ago.cast_signed());
    json!({"holderIdentity": holder, "leaseDurationSeconds": 40, "renewTime": format!("{renewed:.6}")})
}

#[tokio::test(start_paused = true)]
async fn s11_a_successor_renews_by_one_list_and_the_oldest_leases_go_first() {
    let api = Api::new();
    // More than one page, and what is none of ours.
    for index in 0..1200_u64 {
        let node = format!("n-{index}");
        api.put(&node, labels(), Some((&node, "uid")), spec(&node, 20 + (index * 7) % 1200));
    }
    api.put("kubelet", json!({}), Some(("kubelet", "uid")), spec("kubelet", 1));
    api.put("gone", labels(), Some(("gone", "uid")), spec("gone", 300));
    let scene = Scene::with(&api, Api::client);
    let nodes: Vec<String> = (0..1200).map(|index| format!("n-{index}")).collect();
    let with_uid: Vec<(&str, &str)> = nodes.iter().map(|node| (node.as_str(), "uid")).chain([("new", "uid")]).collect();
    let stored = scene.hearts.stored().await.unwrap();
    assert_eq!(stored.len(), 1201, "three pages of ours");
    assert_eq!(scene.api.take_seen().len(), 3);
    adopt(&scene, &with_uid).await;
    until("all are renewed", || scene.api.seen().len() >= 1201).await;
    assert!(scene.begun.elapsed() < S, "{:?}", scene.begun.elapsed());
    let seen = scene.api.take_seen();
    assert_eq!((seen[0].method.as_str(), seen[0].node.as_str()), ("POST", "new"), "it was never renewed");
    assert!(seen[1..1201].iter().all(|seen| seen.method == Method::PUT), "with the versions of the list");
    let age = |node: &str| 20 + (node[2..].parse::<u64>().unwrap() * 7) % 1200;
    let ages: Vec<u64> = seen[1..1201].iter().map(|seen| age(&seen.node)).collect();
    assert!(ages.is_sorted_by(|one, next| one >= next), "the oldest first: {ages:?}");
    pass(S).await;
    assert!(scene.api.seen().iter().all(|seen| seen.code == Some(200)));
    assert_eq!(scene.api.lease("gone").unwrap()["spec"], spec("gone", 300), "it was not started");
}

#[tokio::test(start_paused = true)]
async fn s11_leases_that_were_renewed_a_moment_ago_are_renewed_in_their_turns_each_within_an_interval() {
    let api = Api::new();
    for index in 0..400_u64 {
        let node = format!("n-{index}");
        api.put(&node, labels(), Some((&node, "uid")), spec(&node, index % 8));
    }
    // Its time is of a clock that was ahead, which hides its age.
    api.put("ahead", labels(), Some(("ahead", "uid")), {
        let renewed = begin() + SignedDuration::from_secs(5);
        json!({"holderIdentity": "ahead", "leaseDurationSeconds": 40, "renewTime": format!("{renewed:.6}")})
    });
    let scene = Scene::with(&api, Api::client);
    let nodes: Vec<String> = (0..400).map(|index| format!("n-{index}")).collect();
    let with_uid: Vec<(&str, &str)> =
        nodes.iter().map(|node| (node.as_str(), "uid")).chain([("ahead", "uid")]).collect();
    adopt(&scene, &with_uid).await;
    let (mut most, mut renewed) = (0, std::collections::BTreeMap::<String, u32>::new());
    for second in 0..6 {
        pass(S).await;
        let seen = scene.api.take_seen();
        assert!(second > 0 || seen.iter().any(|seen| seen.node == "ahead"), "it is renewed at once");
        most = most.max(seen.len());
        seen.into_iter().for_each(|seen| *renewed.entry(seen.node).or_default() += 1);
    }
    assert_eq!(renewed.len(), 401, "each within half of an interval");
    assert!(most <= 400 / 5 + 3, "{most} in a second");
    let twice: Vec<_> = renewed.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.iter().all(|(node, _)| *node == "ahead"), "{twice:?}");
    pass(4 * S).await;
    let seen = scene.api.take_seen();
    assert!(seen.iter().all(|seen| seen.node == "ahead"), "none has its turn right after that: {}", seen.len());
    pass(10 * S).await;
    assert_eq!(scene.api.take_seen().len(), 401, "each in its turn");
}

#[tokio::test(start_paused = true)]
async fn s11_a_list_that_is_out_of_date_costs_one_read() {
    let api = Api::new();
    api.put("n", labels(), Some(("n", "uid")), spec("n", 20));
    let scene = Scene::with(&api, Api::client);
    let stored = scene.hearts.stored().await.unwrap();
    api.put("n", labels(), Some(("n", "uid")), spec("n", 1));
    scene.api.take_seen();
    let _ = scene.hearts.adopt(&stored, [("n".into(), "uid".into())]);
    pass(S / 20).await;
    assert_eq!(short(&scene.api.seen()), ["PUT n 409", "GET n 200", "PUT n 200"]);
}

#[tokio::test(start_paused = true)]
async fn s11_that_another_process_renews_a_lease_is_known_and_a_note_or_an_answer_that_was_lost_is_no_renewal() {
    let one = Scene::new();
    one.start("n", "uid");
    pass(25 * S).await;
    let (api, stored) = (one.api.clone(), one.api.lease("n").unwrap());
    let mut noted = labels();
    noted["note"] = json!("x");
    api.put("n", noted, Some(("n", "uid")), stored["spec"].clone());
    api.take_seen();
    pass(15 * S).await;
    assert!(short(&api.take_seen()).contains(&"PUT n 409".to_owned()), "another client changed it");
    let mut was_lost = false;
    api.script(move |method, _, _| {
        let is_lost = *method == Method::PUT && !std::mem::replace(&mut was_lost, true);
        if is_lost { Fault::Lost } else { USUAL }
    });
    pass(30 * S).await;
    assert!(short(&api.take_seen()).contains(&"PUT n 409".to_owned()), "it was renewed without an answer");
    assert_eq!(one.hearts.by_another(), 0);

    let two = Scene::with(&api, Api::client);
    two.start("n", "uid");
    pass(35 * S).await;
    assert!(one.hearts.by_another() >= 2 && two.hearts.by_another() >= 2, "both renew it in turns");

    let now = 1_000_000 * S + one.begun.elapsed();
    assert!(one.hearts.renews() && one.hearts.renews_since("n", now) && !one.hearts.renews_since("m", S));
    one.stop("n", Memory::Kept).await;
    assert!(
        !one.hearts.renews() && !one.hearts.renews_since("n", now + S) && one.hearts.renews_since("n", now - 15 * S)
    );
    let before = one.hearts.by_another();
    pass(30 * S).await;
    assert_eq!(one.hearts.by_another(), before, "it is not this one's any more");
}

#[tokio::test(start_paused = true)]
async fn s24_a_successor_whose_clock_is_an_hour_behind_renews_with_later_times() {
    for by_list in [true, false] {
        let first = Scene::new();
        first.start("n", "uid");
        pass(25 * S).await;
        let api = first.api.clone();
        first.end().await;
        let last = api.seen().iter().filter_map(Seen::renewed).max().unwrap();
        api.take_seen();
        let second = Scene::with(&api, Api::client);
        second.off.store(-3600, Ordering::SeqCst);
        if by_list {
            adopt(&second, &[("n", "uid")]).await;
        } else {
            second.start("n", "uid");
        }
        pass(35 * S).await;
        let stored: Vec<Timestamp> =
            api.seen().iter().filter(|seen| seen.code == Some(200)).filter_map(Seen::renewed).collect();
        assert!(stored.len() >= 4 && stored.iter().all(|time| *time > last), "{stored:?} after {last}");
        assert!(stored.is_sorted_by(|one, next| one < next), "{stored:?}");
        let news = second.news();
        assert!(matches!(news.as_slice(), [BeatNews::Skew { ahead, .. }] if ahead.as_secs() >= 3590), "{news:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s17_s24_the_leases_of_a_process_whose_clock_was_behind_show_its_clock_to_the_next_one() {
    let first = Scene::new();
    first.start("n", "uid");
    pass(25 * S).await;
    let api = first.api.clone();
    first.end().await;
    let second = Scene::with(&api, Api::client);
    second.off.store(-3600, Ordering::SeqCst);
    adopt(&second, &[("n", "uid")]).await;
    pass(35 * S).await;
    second.end().await;
    // The clock of a scene begins with it.
    let third = Scene::with(&api, Api::client);
    third.off.store(-3565, Ordering::SeqCst);
    let stored = third.hearts.stored().await.unwrap();
    let take_over = || third.hearts.take_over(&stored, &BTreeMap::new(), third.hearts.wall()).unwrap();
    let same = take_over();
    assert_eq!(same.difference(), None, "{same:?}");
    assert!(same.latest.duration_since(same.now).as_secs() > 3_500, "{same:?}");
    third.off.store(0, Ordering::SeqCst);
    let ahead = take_over();
    assert!(matches!(ahead.difference(), Some(Difference::Ahead(by)) if by.as_secs() > 3_500), "{ahead:?}");
    assert!(third.metric("virtual_node_lease_takeover_gap_seconds") > 3_500.0);
}

#[tokio::test(start_paused = true)]
async fn s24_a_successor_whose_clock_is_right_follows_one_that_was_ahead() {
    let first = Scene::new();
    first.off.store(3600, Ordering::SeqCst);
    first.start("n", "uid");
    pass(15 * S).await;
    let api = first.api.clone();
    first.end().await;
    let second = Scene::with(&api, Api::client);
    adopt(&second, &[("n", "uid")]).await;
    pass(35 * S).await;
    let times: Vec<Timestamp> =
        api.seen().iter().filter(|seen| seen.code == Some(200)).filter_map(Seen::renewed).collect();
    assert!(times.len() >= 4 && times.is_sorted_by(|one, next| one < next), "{times:?}");
    assert!(times.iter().all(|time| time.duration_since(begin()) >= SignedDuration::from_hours(1)));
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_an_earlier_node_of_the_name_gets_its_new_owner() {
    let api = Api::new();
    api.put("by-owner", json!({}), Some(("by-owner", "old")), spec("by-owner", 20));
    api.put("by-labels", labels(), None, spec("by-labels", 20));
    let scene = Scene::with(&api, Api::client);
    for node in ["by-owner", "by-labels"] {
        scene.start(node, "new");
        pass(S / 20).await;
        let want = ["POST", "GET", "PUT"].map(|method| (method.to_owned(), node.to_owned()));
        let seen: Vec<_> = api.take_seen().into_iter().map(|seen| (seen.method.to_string(), seen.node)).collect();
        assert_eq!(seen.into_iter().filter(|(_, of)| of == node).take(3).collect::<Vec<_>>(), want);
        let lease = api.lease(node).unwrap();
        assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], "new");
        assert_eq!(lease["metadata"]["labels"], labels());
    }
    scene.no_news();
    assert_eq!(scene.hearts.foreign(), BTreeMap::new());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_made_anew_gets_the_lease_at_once_also_when_the_old_one_is_collected() {
    let scene = Scene::new();
    scene.start("n", "old");
    until("it is made", || scene.api.leases() == 1).await;
    pass(S / 5).await;
    let owner =
        |scene: &Scene| scene.api.lease("n").map(|lease| lease["metadata"]["ownerReferences"][0]["uid"].clone());
    scene.start("n", "new");
    pass(S / 20).await;
    assert_eq!(owner(&scene), Some(json!("new")));
    // Garbage collection had decided already.
    scene.api.delete("n");
    until("it is made again", || scene.api.leases() == 1).await;
    assert_eq!(owner(&scene), Some(json!("new")));
    // It is gone before the new node is known.
    pass(S).await;
    scene.api.delete("n");
    scene.api.take_seen();
    scene.start("n", "newest");
    pass(S / 20).await;
    assert_eq!(short(&scene.api.take_seen())[..2], ["GET n 404", "POST n 201"]);
    assert_eq!(owner(&scene), Some(json!("newest")));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_made_anew_while_a_request_is_under_way_gets_the_lease_after_it() {
    for memory in [None, Some(Memory::Kept), Some(Memory::Dropped)] {
        let scene = Scene::new();
        scene.api.script(|_, _, at| if at < S { Fault::Slow(2 * S) } else { USUAL });
        scene.start("n", "old");
        pass(S / 10).await;
        // Between the two the caller does not wait, as one that gave up.
        if let Some(memory) = memory {
            drop(scene.hearts.shared.book().stop(&"n".into(), memory));
        }
        scene.start("n", "new");
        pass(3 * S).await;
        let lease = scene.api.lease("n").unwrap();
        assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], "new", "{memory:?}");
        scene.api.take_seen();
        pass(30 * S).await;
        assert!(scene.api.seen().iter().all(|seen| seen.code == Some(200)), "{memory:?}");
        assert!(scene.api.seen().len() >= 3);
    }
}

#[tokio::test(start_paused = true)]
async fn s1_a_lease_of_another_is_reported_once_left_alone_and_taken_when_it_is_gone() {
    let api = Api::new();
    let other = json!({
        "topoloom.dev/virtual-cluster": "cluster", "topoloom.dev/binding": "west", "topoloom.dev/binding-uid": "w",
    });
    api.put("held", labels(), None, spec("another", 1));
    api.put("west", other, Some(("west", "old")), spec("west", 1));
    api.put("bare", json!({}), None, spec("bare", 1));
    let nodes = ["held", "west", "bare"];
    let scene = Scene::with(&api, Api::client);
    let before = nodes.map(|node| api.lease(node));
    adopt(&scene, &[("held", "uid")]).await;
    for node in nodes {
        scene.start(node, "uid");
    }
    pass(60 * S).await;
    assert_eq!(nodes.map(|node| api.lease(node)), before);
    assert!(api.seen().iter().all(|seen| seen.method != Method::PUT));
    assert!(api.seen().len() < 30, "one read with each turn: {:?}", short(&api.seen()));
    let mut news: Vec<String> = scene
        .news()
        .into_iter()
        .map(|news| match news {
            BeatNews::Foreign { node, why } => format!("{node}: {why}"),
            other => panic!("{other:?}"),
        })
        .collect();
    news.sort();
    assert_eq!(news.len(), 3, "each once: {news:?}");
    assert!(news[0].contains("bare: it has neither a label of this binding"), "{news:?}");
    assert!(news[1].contains("held: its holder is \"another\" and not the node"), "{news:?}");
    assert!(news[2].contains("west: it belongs to another binding"), "{news:?}");
    assert_eq!(
        scene.hearts.foreign().into_keys().map(|node| node.to_string()).collect::<Vec<_>>(),
        ["bare", "held", "west"]
    );
    let why = |node: &str| scene.hearts.foreign_of(node).map(|why| why.to_string());
    assert_eq!(why("held").as_deref(), Some("its holder is \"another\" and not the node"));
    assert_eq!(scene.metric("virtual_node_leases_foreign"), 3.0);
    assert_eq!(scene.metric("virtual_node_lease_oldest_seconds"), 0.0, "they are not ours to renew");
    // The other one lets go of it, and of the next one its owner becomes ours.
    api.delete("held");
    api.put("west", json!({}), Some(("west", "uid")), spec("another", 1));
    pass(15 * S).await;
    for node in ["held", "west"] {
        assert_eq!(api.lease(node).unwrap()["spec"]["holderIdentity"], node);
        assert_eq!(api.lease(node).unwrap()["metadata"]["labels"], labels());
    }
    assert_eq!((scene.hearts.foreign().len(), why("held")), (1, None));
}
