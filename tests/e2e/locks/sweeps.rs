//! The sweeper: what it removes, what it only reports, and which locks it never takes over (R5, R11, R12, A23, N9).

use super::*;

/// A lock expires after this time here.
const SHORT: &str = "--node-lock-timeout=10s";

/// Only the sweeper runs; nothing binds.
async fn swept(nodes: &[&str], mode: &str) -> Result<LockScene> {
    let scene = LockScene::scene(nodes).await?;
    let host = Host::start(&scene.host_kubeconfig().await?, &["--nodelock-sweep", mode, SHORT]).await?;
    let extender = BindClient { url: String::new(), http: plain_client() };
    Ok(LockScene { scene, host, extender })
}

/// A value for a pod, as HAMi writes it now.
fn value(pod: &str) -> String {
    format!("{},default,{pod}", jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ"))
}

#[tokio::test(flavor = "multi_thread")]
async fn r11_orphaned_locks_are_removed_and_reported() -> Result<()> {
    let nodes =
        ["gone", "started", "elsewhere", "finished", "unbound", "garbage", "empty", "bare", "future", "mlu", "other"];
    let stage = swept(&nodes, "repair").await?;
    for pod in ["started", "elsewhere", "finished", "unbound"] {
        stage.gpu_pod(pod).await?;
    }
    for (pod, node) in [("started", "started"), ("elsewhere", "other"), ("finished", "finished")] {
        stage.bind_by_hand(pod, node).await?;
    }
    stage.status("started", json!({"phase": "Pending", "startTime": "2026-08-01T06:10:00Z"})).await?;
    stage.status("finished", json!({"phase": "Failed"})).await?;
    let values = [
        ("gone", LOCK, value("absent")),
        ("started", LOCK, value("started")),
        ("elsewhere", LOCK, value("elsewhere")),
        ("finished", LOCK, value("finished")),
        ("unbound", LOCK, value("unbound")),
        ("garbage", LOCK, "x,y,default,p1".to_owned()),
        ("empty", LOCK, String::new()),
        ("bare", LOCK, jiff::Timestamp::now().to_string()),
        ("future", LOCK, "9999-12-31T23:59:59Z".to_owned()),
        ("mlu", CAMBRICON, jiff::Timestamp::now().to_string()),
    ];
    for (node, key, value) in &values {
        stage.annotate(node, json!({*key: value})).await?;
    }
    stage.until_event("Node", "garbage", "NodeLockUnreadable", "found 4 in").await;
    for (node, ..) in &values {
        stage.until_free(node).await;
    }
    let whys = [
        ("gone", "its pod is gone"),
        ("started", "its pod has started"),
        ("elsewhere", "its pod is bound to another node"),
        ("finished", "its pod is gone"),
        ("unbound", "its pod is not bound, and the lock has expired"),
        ("garbage", "the value of the lock cannot be read, and the lock has expired"),
        ("bare", "the lock names no pod and has expired"),
        ("mlu", "cambricon.com/dsmlu.lock was removed"),
    ];
    for (node, why) in whys {
        // The host does not watch a finished pod, but reads it from the API server, and finds it finished.
        let why = if node == "finished" { "its pod has finished" } else { why };
        stage.until_event("Node", node, "NodeLockRemoved", why).await;
    }
    // The pod that was bound nowhere can no longer be bound under that value.
    let unbound = stage.pods().get("unbound").await?.metadata.annotations.unwrap_or_default();
    assert!(unbound["topoloom.dev/lock-revoked"].ends_with(",default,unbound"), "{unbound:?}");
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn r5_n6_a_bound_pod_that_waits_for_its_device_plugin_never_loses_its_lock_for_age() -> Result<()> {
    let stage = swept(&["gpu-1"], "repair").await?;
    stage.gpu_pod("p1").await?;
    stage.bind_by_hand("p1", "gpu-1").await?;
    let held = value("p1");
    stage.annotate("gpu-1", json!({LOCK: held})).await?;
    stage.until_event("Node", "gpu-1", "NodeLockStuck", "longer than 10s").await;
    stage.until_event("Pod", "p1", "NodeLockStuck", "longer than 10s").await;
    assert_eq!(stage.annotations("gpu-1").await?.get(LOCK), Some(&held));
    eventually("the metric says so", PATIENCE, async || {
        let metrics = stage.host.get("/metrics").await.map_err(|error| error.to_string())?;
        let line = metrics.lines().find(|line| line.contains("node_locks{state=\"stuck\"}")).unwrap_or_default();
        if line.ends_with(" 1") { Ok(()) } else { Err(line.to_owned()) }
    })
    .await;
    // Its pod is deleted: the sweeper removes the lock (A23), after the grace in which a kubelet may still call the
    // device plugin.
    stage.pods().delete("p1", &kube::api::DeleteParams::default().grace_period(0)).await?;
    stage.until_free("gpu-1").await;
    stage.until_event("Node", "gpu-1", "NodeLockRemoved", "its pod is gone").await;
    stage.stop().await
}

/// A node without a lock would belong again to the pod that lost it, so the next holder writes its own lock at once.
#[tokio::test(flavor = "multi_thread")]
async fn n9_a_lock_that_only_age_takes_over_is_left_to_the_next_bind() -> Result<()> {
    let age = ["--node-lock-takeover=age", "--nodelock-sweep=repair", "--extender-http-timeout=5s", SHORT];
    let stage = LockScene::new(&["gpu-1"], &age).await?;
    stage.gpu_pod("p1").await?;
    stage.bind_by_hand("p1", "gpu-1").await?;
    let held = value("p1");
    stage.annotate("gpu-1", json!({LOCK: held})).await?;
    stage.until_event("Node", "gpu-1", "NodeLockStuck", "takes over the lock anyway").await;
    assert_eq!(stage.annotations("gpu-1").await?[LOCK], held);

    let pod = stage.gpu_pod("p2").await?;
    assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "");
    assert!(stage.annotations("gpu-1").await?[LOCK].ends_with(",default,p2"));
    let metrics = stage.host.get("/metrics").await?;
    assert!(metrics.contains("topoloom_node_lock_takeovers_total{reason=\"age\"} 1"), "{metrics}");
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn n9_a_sweeper_that_reports_changes_nothing() -> Result<()> {
    let stage = swept(&["gpu-1"], "report").await?;
    let held = value("absent");
    stage.annotate("gpu-1", json!({LOCK: held})).await?;
    let before = stage.scene.plane.requests().await?;
    stage.until_event("Node", "gpu-1", "NodeLockLeaked", "topoloom lock release gpu-1").await;
    let since = stage.scene.plane.requests().await?.since(&before);
    assert_eq!((since.writes("nodes", ""), since.writes("pods", "")), (0, 0));
    assert_eq!(stage.annotations("gpu-1").await?.get(LOCK), Some(&held));
    let metrics = stage.host.get("/metrics").await?;
    assert!(metrics.contains("topoloom_node_locks{state=\"leaked\"} 1"), "{metrics}");
    // The lock of a deleted node is no longer counted.
    stage.nodes().delete("gpu-1", &Default::default()).await?;
    eventually("nothing is left of it", PATIENCE, async || {
        let metrics = stage.host.get("/metrics").await.map_err(|error| error.to_string())?;
        if metrics.contains("topoloom_node_locks{state=\"leaked\"} 0") {
            Ok(())
        } else {
            Err("it is counted".to_owned())
        }
    })
    .await;
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn n9_without_a_word_about_it_both_controllers_wait() -> Result<()> {
    let scene = LockScene::scene(&["gpu-1"]).await?;
    let host = scene.host().await?;
    let ready = host.readyz().await?;
    assert!(ready.contains("controller extender waiting: set --extender-address"), "{ready}");
    assert!(ready.contains("controller nodelock-sweeper waiting: set --nodelock-sweep"), "{ready}");
    host.stop().await
}
