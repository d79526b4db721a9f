//! The API server refuses, is slow or loses answers at each step of a Bind, and in the end no lock stays orphaned (R7
//! to R10, AX 6, 7, 9 and 10).

use http::Method;
use topoloom_tests::faults::{Fault, Faults};

use super::*;

const NODE: &str = "/nodes/gpu-1";
const BINDING: &str = "/binding";
const POD: &str = "/pods/p1";

struct Faulty {
    stage: LockScene,
    faults: Faults,
    pod: Pod,
}

impl Faulty {
    async fn new() -> Result<Self> {
        Self::with(&[]).await
    }

    async fn with(arguments: &[&str]) -> Result<Self> {
        let (stage, faults) = LockScene::through_faults(&["gpu-1"], arguments).await?;
        let pod = stage.gpu_pod("p1").await?;
        stage.knows("p1").await;
        Ok(Self { stage, faults, pod })
    }

    async fn bind(&self) -> Result<String> {
        self.stage.extender.bind(&self.pod, "gpu-1").await
    }

    /// Checks that the pod is bound, under its lock.
    async fn is_bound(&self) -> Result<()> {
        assert_eq!(self.stage.node_of("p1").await?.as_deref(), Some("gpu-1"));
        assert!(self.stage.annotations("gpu-1").await?[LOCK].ends_with(",default,p1"));
        Ok(())
    }

    /// Checks that the pod is not bound, that its bind phase is `failed`, and that no lock is left.
    async fn is_rolled_back(&self) -> Result<()> {
        let pod = self.stage.pods().get("p1").await?;
        assert_eq!(pod.spec.and_then(|spec| spec.node_name), None);
        let annotations = pod.metadata.annotations.unwrap_or_default();
        assert_eq!(annotations.get("hami.io/bind-phase").map(String::as_str), Some("failed"), "{annotations:?}");
        assert!(annotations.contains_key("topoloom.dev/lock-revoked"));
        self.is_free().await
    }

    async fn is_free(&self) -> Result<()> {
        let node = self.stage.annotations("gpu-1").await?;
        assert!(!node.contains_key(LOCK) && !node.contains_key(NOTE), "{node:?}");
        Ok(())
    }

    /// Waits until that many requests have met a fault and are held.
    async fn until_held(&self, count: usize) {
        eventually(&format!("{count} requests are held"), PATIENCE, async || match self.faults.met() {
            met if met == count => Ok(()),
            met => Err(format!("{met}")),
        })
        .await;
    }

    fn patches_of_node(&self) -> usize {
        self.faults.seen().iter().filter(|seen| seen.starts_with("PATCH") && seen.contains(NODE)).count()
    }

    /// Checks that the next try succeeds, and stops the host.
    async fn end(self) -> Result<()> {
        assert_eq!(self.bind().await?, "");
        self.is_bound().await?;
        self.stage.stop().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ax_6_r9_a_lost_answer_to_the_lock_is_read_back() -> Result<()> {
    for fault in [Fault::LostAfter, Fault::TimeoutAfter, Fault::LostBefore, Fault::Refused(500, "InternalError")] {
        let it = Faulty::new().await?;
        it.faults.on(Method::PATCH, NODE, 1, fault.clone());
        assert_eq!(it.bind().await?, "", "{fault:?}");
        it.is_bound().await?;
        let again = matches!(fault, Fault::LostBefore | Fault::Refused(..));
        assert_eq!((it.faults.met(), it.patches_of_node()), (1, 1 + usize::from(again)), "{fault:?}");
        it.stage.stop().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn ax_7_who_comes_second_with_its_write_leaves_the_first_alone_and_waits() -> Result<()> {
    let it = Faulty::new().await?;
    it.stage.gpu_pod("p2").await?;
    it.faults.on(Method::PATCH, NODE, 1, Fault::Held);
    let binds = it.stage.begin(&it.pod, "gpu-1");
    it.until_held(1).await;
    let theirs = format!("{},default,p2", jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ"));
    it.stage.annotate("gpu-1", json!({LOCK: theirs})).await?;
    it.faults.release();
    it.stage.until_logged("waits for a lock").await;
    let node = it.stage.annotations("gpu-1").await?;
    assert_eq!((node.get(LOCK), node.get(NOTE), it.patches_of_node()), (Some(&theirs), None, 1));
    it.stage.annotate("gpu-1", json!({LOCK: null})).await?;
    assert_eq!(binds.ended().await?, "");
    it.is_bound().await?;
    it.stage.stop().await
}

/// An attempt releases only the value that it wrote: other changes of the node do not matter, and another value belongs
/// to another attempt, even of the same pod (decision N4).
#[tokio::test(flavor = "multi_thread")]
async fn ax_9_ax_10_a_conflict_while_a_lock_is_given_back_is_judged_by_the_value() -> Result<()> {
    let now = jiff::Timestamp::now();
    for (written, is_left) in [
        (json!({"ex.io/heartbeat": "1"}), false),
        (json!({LOCK: format!("{now},default,p1")}), true),
        (json!({LOCK: now.to_string()}), true),
    ] {
        let it = Faulty::with(&["--controllers=*,-nodelock-sweeper"]).await?;
        it.faults.on(Method::POST, BINDING, 1, Fault::Refused(403, "Forbidden"));
        it.faults.on(Method::PATCH, NODE, 1, Fault::Slow(std::time::Duration::ZERO));
        it.faults.on(Method::PATCH, NODE, 1, Fault::Held);
        let binds = it.stage.begin(&it.pod, "gpu-1");
        it.until_held(3).await;
        it.stage.annotate("gpu-1", written.clone()).await?;
        it.faults.release();
        assert!(binds.ended().await?.contains("was refused"));
        let left = it.stage.annotations("gpu-1").await?.get(LOCK).cloned();
        let wanted = written[LOCK].as_str().filter(|_| is_left).map(str::to_owned);
        assert_eq!((left, it.patches_of_node()), (wanted, if is_left { 2 } else { 3 }), "{written}");
        it.stage.stop().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r9_a_lost_answer_to_the_binding_is_read_back() -> Result<()> {
    for fault in [
        Fault::LostAfter,
        Fault::TimeoutAfter,
        Fault::LostBefore,
        Fault::Refused(500, "InternalError"),
        Fault::Refused(429, "TooManyRequests"),
    ] {
        let it = Faulty::new().await?;
        it.faults.on(Method::POST, BINDING, 1, fault.clone());
        assert_eq!(it.bind().await?, "", "{fault:?}");
        assert_eq!(it.faults.met(), 1);
        it.is_bound().await?;
        it.stage.stop().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn r15_an_api_server_that_says_nothing_is_given_up_and_asked_again() -> Result<()> {
    let it = Faulty::new().await?;
    it.faults.on(Method::POST, BINDING, 1, Fault::Silent { done: true });
    assert_eq!(it.bind().await?, "");
    it.is_bound().await?;
    it.stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn r7_r8_what_is_refused_is_rolled_back_and_reported() -> Result<()> {
    let it = Faulty::new().await?;
    it.faults.on(Method::PATCH, NODE, 1, Fault::Refused(403, "Forbidden"));
    let said = it.bind().await?;
    assert!(said.contains("writing the lock onto the node was refused"), "{said}");
    it.is_free().await?;

    it.faults.on(Method::POST, BINDING, 1, Fault::Refused(403, "Forbidden"));
    let said = it.bind().await?;
    assert!(said.contains("the Binding was refused: as the test wants it"), "{said}");
    it.is_rolled_back().await?;
    // The second Event is counted in the series of the first.
    it.stage.until_event("Pod", "p1", "BindingFailed", "was refused").await;
    it.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn r7_a_binding_that_is_never_answered_well_is_rolled_back_in_the_right_order() -> Result<()> {
    let it = Faulty::new().await?;
    it.faults.on(Method::POST, BINDING, 5, Fault::Refused(500, "InternalError"));
    let said = it.bind().await?;
    assert!(said.contains("the Binding did not succeed in 5 tries"), "{said}");
    it.is_rolled_back().await?;
    let seen = it.faults.seen();
    let last =
        |method: &str, part: &str| seen.iter().rposition(|seen| seen.starts_with(method) && seen.ends_with(part));
    assert!(last("PATCH", POD) < last("PATCH", NODE), "the pod is marked before the lock goes: {seen:#?}");
    it.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn n5_a_mark_that_cannot_be_confirmed_keeps_the_lock_and_the_sweeper_resolves_it() -> Result<()> {
    let it = Faulty::new().await?;
    it.faults.on(Method::POST, BINDING, 1, Fault::Refused(403, "Forbidden"));
    it.faults.on(Method::PATCH, POD, 1, Fault::Refused(403, "Forbidden"));
    let said = it.bind().await?;
    assert!(said.contains("its lock is left on the node"), "{said}");
    assert!(it.stage.annotations("gpu-1").await?[LOCK].ends_with(",default,p1"));
    // The next attempt of the same pod adopts the lock.
    it.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_could_not_be_removed_is_reported_and_taken_by_the_next_pod() -> Result<()> {
    let it = Faulty::with(&["--nodelock-sweep=report"]).await?;
    it.faults.on(Method::POST, BINDING, 1, Fault::Refused(403, "Forbidden"));
    // The first patch is the lock itself.
    it.faults.on(Method::PATCH, NODE, 1, Fault::Slow(std::time::Duration::ZERO));
    it.faults.on(Method::PATCH, NODE, 5, Fault::Refused(500, "InternalError"));
    let said = it.bind().await?;
    assert!(said.contains("its lock is left on the node"), "{said}");
    it.stage.until_event("Node", "gpu-1", "NodeLockLeaked", "the lock was revoked").await;
    let other = it.stage.gpu_pod("p2").await?;
    assert_eq!(it.stage.extender.bind(&other, "gpu-1").await?, "");
    let metrics = it.stage.host.get("/metrics").await?;
    assert!(metrics.contains("topoloom_node_lock_takeovers_total{reason=\"revoked\"} 1"), "{metrics}");
    it.stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn r10_a_bind_that_its_caller_gives_up_binds_nothing_and_leaves_nothing() -> Result<()> {
    let it = Faulty::new().await?;
    it.faults.on(Method::PATCH, NODE, 1, Fault::Held);
    let binds = it.stage.begin(&it.pod, "gpu-1");
    it.until_held(1).await;
    // The API server answers the write under way, and the host rolls it back.
    binds.given_up().await;
    it.faults.release();
    it.stage.until_logged("the caller gave up").await;
    it.stage.until_free("gpu-1").await;
    assert_eq!(it.stage.node_of("p1").await?, None);
    it.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn r6_what_changes_in_the_middle_of_a_bind_is_reported_and_leaves_nothing() -> Result<()> {
    let it = Faulty::with(&["--controllers=*,-nodelock-sweeper"]).await?;
    it.stage.scene.nodes(&["gpu-2"]).await?;
    let now = kube::api::DeleteParams::default().grace_period(0);
    // Another pod gets the name of this one.
    it.faults.on(Method::POST, BINDING, 1, Fault::Held);
    let binds = it.stage.begin(&it.pod, "gpu-1");
    it.until_held(1).await;
    it.stage.pods().delete("p1", &now).await?;
    let again = it.stage.gpu_pod("p1").await?;
    it.faults.release();
    let uid = again.metadata.uid.clone().unwrap_or_default();
    let said = binds.ended().await?;
    assert!(said.contains(&format!("a pod of that name has the UID {uid} now")), "{said}");
    it.is_free().await?;
    // Another client binds the pod.
    it.faults.on(Method::POST, BINDING, 1, Fault::Held);
    let binds = it.stage.begin(&again, "gpu-1");
    it.until_held(2).await;
    it.stage.bind_by_hand("p1", "gpu-2").await?;
    it.faults.release();
    let said = binds.ended().await?;
    assert!(said.contains("the pod is bound to node gpu-2"), "{said}");
    it.is_free().await?;
    // The pod is being deleted.
    let goes = it.stage.gpu_pod("p2").await?;
    let keep = Patch::Merge(json!({"metadata": {"finalizers": ["ex.io/keep"]}}));
    it.stage.pods().patch("p2", &PatchParams::default(), &keep).await?;
    it.faults.on(Method::POST, BINDING, 1, Fault::Held);
    let binds = it.stage.begin(&goes, "gpu-1");
    it.until_held(3).await;
    it.stage.pods().delete("p2", &Default::default()).await?;
    it.faults.release();
    let said = binds.ended().await?;
    assert!(said.contains("the pod is being deleted"), "{said}");
    it.is_free().await?;
    // The node is deleted.
    let last = it.stage.gpu_pod("p3").await?;
    it.faults.on(Method::PATCH, NODE, 1, Fault::Held);
    let binds = it.stage.begin(&last, "gpu-1");
    it.until_held(4).await;
    it.stage.nodes().delete("gpu-1", &Default::default()).await?;
    it.faults.release();
    let said = binds.ended().await?;
    assert!(said.contains("failed to get node"), "{said}");
    assert_eq!(it.stage.node_of("p3").await?, None);
    it.stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_api_server_binds_in_its_own_time() -> Result<()> {
    let it = Faulty::new().await?;
    let slow = || Fault::Slow(std::time::Duration::from_secs(3));
    it.faults.on(Method::PATCH, NODE, 1, slow());
    it.faults.on(Method::POST, BINDING, 1, slow());
    assert_eq!(it.bind().await?, "");
    it.is_bound().await?;
    it.stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_that_is_applied_after_its_pod_was_marked_is_refused() -> Result<()> {
    // The Binding is under way for longer than the four seconds that the extender waits for it.
    let it = Faulty::with(&["--extender-http-timeout=6s"]).await?;
    it.faults.on(Method::POST, BINDING, 1, Fault::Held);
    let said = it.bind().await?;
    assert!(!said.is_empty());
    it.is_rolled_back().await?;
    it.faults.release();
    let other = it.stage.gpu_pod("p2").await?;
    assert_eq!(it.stage.extender.bind(&other, "gpu-1").await?, "");
    assert_eq!(it.stage.node_of("p1").await?, None, "its Binding carried the version before the mark");
    it.stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn r5_a_claim_whose_process_died_before_the_binding_closes_its_node_for_seconds() -> Result<()> {
    let flags = ["--extender-http-timeout=5s", "--controllers=*,-nodelock-sweeper"];
    let Faulty { stage, faults, pod } = Faulty::with(&flags).await?;
    faults.on(Method::POST, BINDING, 1, Fault::Held);
    let binds = stage.begin(&pod, "gpu-1");
    eventually("the Binding is on its way", PATIENCE, async || match faults.met() {
        1 => Ok(()),
        met => Err(format!("{met}")),
    })
    .await;
    let left = stage.annotations("gpu-1").await?[LOCK].clone();
    let LockScene { scene, host, .. } = stage;
    host.kill().await?;
    assert!(binds.ended().await.is_err(), "its caller gets no answer");

    // The lock expires after five minutes by `--node-lock-timeout`, and after three seconds by its note.
    let arguments = ["--extender-address", "127.0.0.1:0", "--controllers=*,-nodelock-sweeper"];
    let host = Host::launch(faults.kubeconfig(), &arguments).await?;
    let extender = BindClient::of(&host).await;
    let stage = LockScene { scene, host, extender };
    let other = stage.gpu_pod("p2").await?;
    assert_eq!(stage.extender.bind(&other, "gpu-1").await?, "");
    let metrics = stage.host.get("/metrics").await?;
    assert!(metrics.contains("topoloom_node_lock_takeovers_total{reason=\"abandoned\"} 1"), "{metrics}");
    let marks = stage.pods().get("p1").await?.metadata.annotations.unwrap_or_default();
    assert_eq!(marks.get("topoloom.dev/lock-revoked"), Some(&left));
    // A Binding that the dead process sent late, with the version of the pod before the mark, binds nothing.
    let late = json!({
        "apiVersion": "v1", "kind": "Binding", "target": {"apiVersion": "v1", "kind": "Node", "name": "gpu-1"},
        "metadata": {"name": "p1", "uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
    });
    let sent =
        stage.pods().create_subresource::<_, kube::core::Status>("binding", "p1", &Default::default(), &late).await;
    assert!(matches!(&sent, Err(kube::Error::Api(status)) if status.code == 409), "{sent:?}");
    stage.served("gpu-1", "p2").await?;
    assert_eq!(stage.extender.bind(&pod, "gpu-1").await?, "");
    assert!(stage.annotations("gpu-1").await?[LOCK].ends_with(",default,p1"));
    stage.stop().await
}

/// Another process binds a pod of two vendors, and the plugin of the first vendor releases the lock before that of the
/// second has answered (R18). This host has seen nothing of that: its write of the lock is a conflict, and the node
/// that it then reads has no lock.
#[tokio::test(flavor = "multi_thread")]
async fn r18_a_lock_that_came_and_went_while_both_watches_were_behind_keeps_its_node() -> Result<()> {
    let scene = LockScene::scene(&["gpu-1"]).await?;
    let faults = Faults::start(&scene.plane, &scene.host_kubeconfig().await?).await?;
    for kind in ["/api/v1/nodes", "/api/v1/pods"] {
        // The list passes, and the watch is held.
        faults.on(Method::GET, kind, 1, Fault::Slow(std::time::Duration::ZERO));
        faults.on(Method::GET, kind, 1, Fault::Held);
    }
    let stage = LockScene::on(scene, faults.kubeconfig(), &["--controllers=*,-nodelock-sweeper"]).await?;
    eventually("both watches are held", PATIENCE, async || match faults.met() {
        4 => Ok(()),
        met => Err(format!("{met}")),
    })
    .await;
    stage.gpu_pod("first").await?;
    let second = stage.gpu_pod("second").await?;
    stage.annotate("gpu-1", json!({LOCK: format!("{},default,first", jiff::Timestamp::now())})).await?;
    stage.bind_by_hand("first", "gpu-1").await?;
    stage.annotate("gpu-1", json!({LOCK: null})).await?;

    let waits = stage.begin(&second, "gpu-1");
    stage.until_logged("waits for a lock").await;
    // The host restores the lock so that every other process sees it, too.
    eventually("the lock of the pod that waits is restored", PATIENCE, async || {
        let node = stage.annotations("gpu-1").await.map_err(|error| error.to_string())?;
        let is_restored = node.get(LOCK).is_some_and(|value| value.ends_with(",default,first"));
        if is_restored { Ok(()) } else { Err(format!("{node:?}")) }
    })
    .await;
    assert_eq!(stage.node_of("second").await?, None);
    faults.release();
    stage.served("gpu-1", "first").await?;
    assert_eq!(waits.ended().await?, "");
    assert!(stage.annotations("gpu-1").await?[LOCK].ends_with(",default,second"));
    stage.stop().await
}
