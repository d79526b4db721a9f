//! One Bind after the other: what the host writes, and what it answers (A16, R6, AX 1, 4 and 5).

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn ax_1_a_free_node_is_locked_and_the_pod_bound_with_two_writes() -> Result<()> {
    let stage = LockScene::new(&["gpu-1"], &[]).await?;
    let pod = stage.gpu_pod("p1").await?;
    stage.knows("p1").await;
    let before = stage.scene.plane.requests().await?;
    assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "");
    let since = stage.scene.plane.requests().await?.since(&before);
    let of_locks = ["nodes", "pods"];
    let asked = since.count(|request| {
        of_locks.contains(&request.resource.as_str()) && ["GET", "LIST"].contains(&request.verb.as_str())
    });
    assert_eq!((since.writes("nodes", ""), since.writes("pods", "binding"), since.writes("pods", "")), (1, 1, 0));
    // The test itself reads nothing in between.
    assert_eq!(asked, 0, "{since:?}");

    let bound = stage.pods().get("p1").await?;
    let annotations = bound.metadata.annotations.unwrap_or_default();
    assert_eq!(bound.spec.and_then(|spec| spec.node_name).as_deref(), Some("gpu-1"));
    assert_eq!(annotations.get("hami.io/bind-phase").map(String::as_str), Some("allocating"));
    assert!(annotations["hami.io/bind-time"].parse::<u64>()? > 1_700_000_000);
    let node = stage.annotations("gpu-1").await?;
    let value = &node[LOCK];
    assert!(value.ends_with(",default,p1") && value.split(',').count() == 3, "{value}");
    let note: Value = serde_json::from_str(&node[NOTE])?;
    assert_eq!((note["value"].as_str(), note["uid"].as_str()), (Some(value.as_str()), pod.metadata.uid.as_deref()));
    stage.until_event("Pod", "p1", "BindingSucceed", "node [gpu-1]").await;

    // The lock stays for the device plugin; a second Bind of the same pod changes nothing.
    assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "");
    assert_eq!(stage.annotations("gpu-1").await?, node);
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_pod_waits_until_the_device_plugin_has_answered_for_the_first() -> Result<()> {
    let stage = LockScene::new(&["gpu-1"], &[]).await?;
    let (first, second) = (stage.gpu_pod("p1").await?, stage.gpu_pod("p2").await?);
    assert_eq!(stage.extender.bind(&first, "gpu-1").await?, "");
    let waits = stage.begin(&second, "gpu-1");
    stage.until_logged("waits for a lock").await;
    assert_eq!(stage.node_of("p2").await?, None);
    stage.served("gpu-1", "p1").await?;
    assert_eq!(waits.ended().await?, "");
    assert_eq!(stage.node_of("p2").await?.as_deref(), Some("gpu-1"));
    assert!(stage.annotations("gpu-1").await?[LOCK].ends_with(",default,p2"));

    // The Event for a caller that gave up names the holder of the lock.
    let third = stage.gpu_pod("p3").await?;
    stage.knows("p3").await;
    let waits = stage.begin(&third, "gpu-1");
    let waiting = async |count: usize| {
        eventually(&format!("{count} Binds wait"), PATIENCE, async || {
            let dump = stage.host.get("/debug/dump").await.map_err(|error| error.to_string())?;
            let dump: Value = serde_json::from_str(&dump).map_err(|error| error.to_string())?;
            let waiting = dump["extender"]["bindsWaiting"].clone();
            if waiting == json!(count) { Ok(()) } else { Err(format!("{waiting} do")) }
        })
        .await;
    };
    waiting(1).await;
    drop(waits);
    stage.until_event("Pod", "p3", "BindingFailed", "the caller gave up; it is held by default/p2").await;

    // A host that stops answers the Binds that wait, long before their timeout.
    let fourth = stage.gpu_pod("p4").await?;
    let waits = [stage.begin(&third, "gpu-1"), stage.begin(&fourth, "gpu-1")];
    waiting(2).await;
    let began = std::time::Instant::now();
    stage.host.signal(rustix::process::Signal::TERM)?;
    for waits in waits {
        assert_eq!(
            waits.ended().await?.split(": ").nth(1),
            Some("this replica of the extender stops; another replica takes the next try")
        );
    }
    assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
    let LockScene { mut host, .. } = stage;
    let ended = host.ended().await?;
    assert!(ended.success(), "{ended}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r6_a_pod_that_is_not_the_one_or_cannot_be_bound_changes_nothing() -> Result<()> {
    let stage = LockScene::new(&["gpu-1", "gpu-2"], &[]).await?;
    let pod = stage.gpu_pod("p1").await?;
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let mut other = pod.clone();
    other.metadata.uid = Some("11111111-0000-0000-0000-000000000000".into());
    let said = stage.extender.bind(&other, "gpu-1").await?;
    assert!(said.contains(&format!("a pod of that name has the UID {uid} now")), "{said}");
    let mut absent = pod.clone();
    absent.metadata.name = Some("absent".into());
    assert!(stage.extender.bind(&absent, "gpu-1").await?.contains("the pod is gone"));
    assert!(stage.extender.bind(&pod, "nowhere").await?.contains("failed to get node"));

    assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "");
    stage.served("gpu-1", "p1").await?;
    stage.until_free("gpu-1").await;
    let said = stage.extender.bind(&pod, "gpu-2").await?;
    assert!(said.contains("the pod is bound to node gpu-1"), "{said}");
    assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "", "it is bound there already");

    let ends = stage.gpu_pod("p2").await?;
    stage.status("p2", json!({"phase": "Failed"})).await?;
    assert!(stage.extender.bind(&ends, "gpu-1").await?.contains("the pod has already finished"));
    let goes = stage.gpu_pod("p3").await?;
    let keep = Patch::Merge(json!({"metadata": {"finalizers": ["ex.io/keep"]}}));
    stage.pods().patch("p3", &PatchParams::default(), &keep).await?;
    stage.pods().delete("p3", &Default::default()).await?;
    assert!(stage.extender.bind(&goes, "gpu-1").await?.contains("the pod is being deleted"));
    for node in ["gpu-1", "gpu-2"] {
        stage.until_free(node).await;
    }
    stage.until_event("Pod", "p2", "BindingFailed", "already finished").await;

    // A host that stops has sent all its Events. There is none about a pod that does not exist, nor about a Bind that
    // changed nothing.
    let LockScene { scene, host, .. } = stage;
    host.stop().await?;
    assert_eq!(events(&scene, "Pod", "absent").await?, []);
    // Each cause of a failure can be read, also the second one of the same pod.
    let sent = events(&scene, "Pod", "p1").await?;
    let about = |words: &str| sent.iter().filter(|(_, note)| note.contains(words)).count();
    for words in ["failed to get node", "node [gpu-1]", "the pod is bound to node gpu-1"] {
        assert_eq!(about(words), 1, "{words}: {sent:#?}");
    }
    // The very first Bind may be answered before the host has read its configuration; until then it writes no Events.
    let first = about("a pod of that name has the UID");
    assert!(first <= 1 && sent.len() == 3 + first, "{sent:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ax_4_a_lock_whose_pod_is_gone_is_taken_over_once_no_pod_can_be_served_under_it() -> Result<()> {
    // Without the sweeper, which would remove the lock as well.
    let stage = LockScene::new(&["gpu-1"], &["--controllers=*,-nodelock-sweeper"]).await?;
    stage.annotate("gpu-1", json!({LOCK: format!("{},default,gone", jiff::Timestamp::now())})).await?;
    let pod = stage.gpu_pod("p2").await?;
    assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "");
    assert!(stage.annotations("gpu-1").await?[LOCK].ends_with(",default,p2"));
    let metrics = stage.host.get("/metrics").await?;
    assert!(metrics.contains("topoloom_node_lock_takeovers_total{reason=\"gone\"} 1"), "{metrics}");
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn ax_5_a_node_that_changes_all_the_time_is_locked_all_the_same() -> Result<()> {
    let stage = LockScene::new(&["gpu-1"], &[]).await?;
    let nodes = stage.nodes();
    let mut beats = JoinSet::new();
    beats.spawn(async move {
        for beat in 0_u64.. {
            let patch = Patch::Merge(json!({"metadata": {"annotations": {"ex.io/heartbeat": beat.to_string()}}}));
            if nodes.patch("gpu-1", &PatchParams::default(), &patch).await.is_err() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
    for name in ["p1", "p2", "p3"] {
        let pod = stage.gpu_pod(name).await?;
        assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "", "{name}");
        stage.served("gpu-1", name).await?;
    }
    beats.shutdown().await;
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_needs_no_device_is_bound_without_a_lock() -> Result<()> {
    let stage = LockScene::new(&["gpu-1"], &[]).await?;
    let holder = stage.gpu_pod("p1").await?;
    assert_eq!(stage.extender.bind(&holder, "gpu-1").await?, "");
    let node = stage.annotations("gpu-1").await?;
    let plain = stage.pod("plain", "cpu").await?;
    assert_eq!(stage.extender.bind(&plain, "gpu-1").await?, "");
    assert_eq!(stage.node_of("plain").await?.as_deref(), Some("gpu-1"));
    assert_eq!(stage.annotations("gpu-1").await?, node);
    assert!(stage.extender.bind(&stage.pod("lost", "cpu").await?, "nowhere").await?.contains("failed to get node"));
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn n6_the_lock_of_a_pod_that_lost_it_is_restored_before_anybody_else_gets_the_node() -> Result<()> {
    let stage = LockScene::new(&["gpu-1"], &[]).await?;
    let (first, second) = (stage.gpu_pod("p1").await?, stage.gpu_pod("p2").await?);
    assert_eq!(stage.extender.bind(&first, "gpu-1").await?, "");
    stage.annotate("gpu-1", json!({LOCK: null, NOTE: null})).await?;
    let waits = stage.begin(&second, "gpu-1");
    eventually("the lock of p1 is there again", PATIENCE, async || {
        let annotations = stage.annotations("gpu-1").await.map_err(|error| error.to_string())?;
        let value = annotations.get(LOCK).cloned().unwrap_or_default();
        let note = annotations.get(NOTE).cloned().unwrap_or_default();
        let uid = first.metadata.uid.clone().unwrap_or_default();
        if value.ends_with(",default,p1") && note.contains(&uid) { Ok(()) } else { Err(format!("{value} {note}")) }
    })
    .await;
    assert_eq!(stage.node_of("p2").await?, None);
    stage.served("gpu-1", "p1").await?;
    assert_eq!(waits.ended().await?, "");
    stage.stop().await
}
