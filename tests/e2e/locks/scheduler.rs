//! A real kube-scheduler that filters and binds through the extender: pods get a node one at a time (A20, A21).

use http::Method;
use topoloom_tests::controlplane::Scheduler;
use topoloom_tests::device_plugin::{Fate, Kubelets, Settings};
use topoloom_tests::faults::Fault;
use topoloom_tests::hami::{Device, Vendor, WorkList};

use super::*;

/// The entry of the extender, as the documentation has it.
fn entry(url: &str) -> Value {
    json!({
        "urlPrefix": url, "filterVerb": "filter", "bindVerb": "bind", "weight": 1, "nodeCacheCapable": true,
        "enableHTTPS": false, "httpTimeout": "30s",
        "managedResources": [{"name": "nvidia.com/gpu", "ignoredByScheduler": true}],
    })
}

/// How a host ends.
enum HostEnd {
    Asked,
    Killed,
}

impl LockScene {
    /// Ends the host, and starts another one at the same address.
    async fn again(self, end: HostEnd) -> Result<Self> {
        let Self { scene, host, extender } = self;
        match end {
            HostEnd::Asked => host.stop().await?,
            HostEnd::Killed => host.kill().await?,
        }
        let address = extender.url.trim_start_matches("http://").to_owned();
        let host = Host::launch(&scene.host_kubeconfig().await?, &["--extender-address", &address]).await?;
        host.extender().await;
        Ok(Self { scene, host, extender })
    }

    /// Makes nodes ready, so that kube-scheduler places pods on them.
    pub(super) async fn ready_nodes(&self, names: &[&str]) -> Result<()> {
        for name in names {
            let status = json!({"status": {
                "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "500"}, "capacity": {"cpu": "64", "memory": "256Gi", "pods": "500"},
                "conditions": [{"type": "Ready", "status": "True"}],
            }});
            self.nodes().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await?;
        }
        Ok(())
    }

    async fn scheduler(&self) -> Result<Scheduler> {
        self.scene.plane.scheduler(&[entry(&self.extender.url)]).await
    }

    /// The same with other settings of kube-scheduler.
    pub(super) async fn patient_scheduler(&self, settings: Value) -> Result<Scheduler> {
        self.scene.plane.scheduler_with(&[entry(&self.extender.url)], settings).await
    }

    /// Creates a pod for which the scheduler of a vendor has chosen devices.
    pub(super) async fn chosen(&self, name: &str, containers: usize) -> Result<Pod> {
        let device = Device { uuid: "GPU-0".into(), kind: "NVIDIA".into(), memory: 1000, cores: 10 };
        let list = WorkList::new((0..containers).map(|_| vec![device.clone()]));
        let container = |index: usize| json!({"name": format!("c{index}"), "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}});
        self.create(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "annotations": {Vendor::Nvidia.work_list(): list.to_string()}},
            "spec": {"containers": (0..containers).map(container).collect::<Vec<_>>()},
        }))
        .await
    }

    async fn until_running(&self, count: usize) {
        eventually(&format!("{count} pods run"), 4 * PATIENCE, async || {
            let pods = self.pods().list(&Default::default()).await.map_err(|error| error.to_string())?;
            let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
            let running = pods.items.iter().filter(|pod| phase(pod) == "Running").count();
            if running == count { Ok(()) } else { Err(format!("{running} of {}", pods.items.len())) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_bound_one_at_a_time_to_a_node_and_each_is_served_under_its_own_name() -> Result<()> {
    let names = ["gpu-1", "gpu-2"];
    let stage = LockScene::new(&names, &[]).await?;
    stage.ready_nodes(&names).await?;
    let settings = Settings { answers_after: std::time::Duration::from_millis(50), ..Settings::default() };
    let kubelets = Kubelets::start(stage.scene.plane.client(), settings);
    let _scheduler = stage.scheduler().await?;
    for index in 0..20 {
        stage.chosen(&format!("p{index}"), 1 + index % 3).await?;
    }
    // kube-scheduler does not call the extender for a pod that needs no such resource.
    stage
        .create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain"},
            "spec": {"containers": [{"name": "c", "image": "none"}]},
        }))
        .await?;
    stage.until_running(21).await;
    assert_eq!(kubelets.mistakes(), [""; 0]);
    assert_eq!(kubelets.served().len(), (0..20).map(|index| 1 + index % 3).sum::<usize>());
    for pod in stage.pods().list(&Default::default()).await?.items {
        let annotations = pod.metadata.annotations.unwrap_or_default();
        if pod.metadata.name.as_deref() != Some("plain") {
            assert_eq!(annotations.get("hami.io/bind-phase").map(String::as_str), Some("success"), "{annotations:?}");
        }
    }
    for node in names {
        stage.until_free(node).await;
    }
    stage.until_event("Pod", "p0", "BindingSucceed", "pod default/p0").await;
    judged(&stage).await?;
    kubelets.stop().await;
    stage.stop().await
}

/// Checks the locks and Binds in etcd's own order of writes.
pub(super) async fn judged(stage: &LockScene) -> Result<()> {
    let writes = stage.scene.plane.writes_in_order("/registry/").await?;
    let judged = topoloom_tests::lock_order::judge(&writes);
    assert_eq!(judged.violations, [""; 0], "{judged:?}");
    assert!(judged.binds > 0 && judged.binds >= judged.successes, "{judged:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_that_fail_or_die_leave_nothing_behind() -> Result<()> {
    let stage = LockScene::new(&["gpu-1"], &[]).await?;
    stage.ready_nodes(&["gpu-1"]).await?;
    let fate = |pod: &Pod| match pod.metadata.name.as_deref().unwrap_or_default() {
        name if name.starts_with("fails") => Fate::Fails,
        name if name.starts_with("keeps") => Fate::KeepsLock,
        _ => Fate::Completes,
    };
    let kubelets = Kubelets::start(
        stage.scene.plane.client(),
        Settings { fate: std::sync::Arc::new(fate), ..Settings::default() },
    );
    let _scheduler = stage.scheduler().await?;
    for name in ["fails-1", "keeps-1", "good-1", "fails-2", "keeps-2", "good-2"] {
        stage.chosen(name, 1).await?;
    }
    stage.until_running(4).await;
    stage.until_free("gpu-1").await;
    assert_eq!(kubelets.mistakes(), [""; 0]);
    let failed = stage.pods().get("fails-1").await?.metadata.annotations.unwrap_or_default();
    assert_eq!(failed.get("hami.io/bind-phase").map(String::as_str), Some("failed"));
    judged(&stage).await?;
    kubelets.stop().await;
    stage.stop().await
}

/// Each request of a Bind, and of a rollback, meets each of these faults in turn, while kube-scheduler continues.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_fails_at_each_step_of_a_bind_every_pod_runs_in_the_end_and_nothing_is_left() -> Result<()> {
    // As many Binds as nodes meet a fault at the same time: most of the time passes in requests that are never
    // answered.
    let names = ["gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6"];
    let (stage, faults) = LockScene::through_faults(&names, &["--node-lock-timeout=60s"]).await?;
    stage.ready_nodes(&names).await?;
    let all = [
        Fault::Refused(403, "Forbidden"),
        Fault::Refused(409, "Conflict"),
        Fault::Refused(429, "TooManyRequests"),
        Fault::Refused(500, "InternalError"),
        Fault::Slow(std::time::Duration::from_secs(1)),
        Fault::LostBefore,
        Fault::LostAfter,
        Fault::TimeoutAfter,
        Fault::Silent { done: false },
        Fault::Silent { done: true },
    ];
    let steps = [(Method::PATCH, "/nodes/"), (Method::POST, "/binding"), (Method::PATCH, "/pods/")];
    for (method, part) in &steps {
        all.iter().for_each(|fault| faults.on(method.clone(), part, 1, fault.clone()));
    }
    let kubelets = Kubelets::start(stage.scene.plane.client(), Settings::default());
    let _scheduler = stage.scheduler().await?;
    let pods = 30;
    for index in 0..pods {
        stage.chosen(&format!("p{index}"), 1).await?;
    }
    stage.until_running(pods).await;
    // The host marks a pod only in a rollback, so not every fault of the third step has to be met.
    assert!(faults.met() >= 2 * all.len(), "{}", faults.met());
    assert_eq!(kubelets.mistakes(), [""; 0]);
    for node in names {
        stage.until_free(node).await;
    }
    judged(&stage).await?;
    kubelets.stop().await;
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_extender_and_the_scheduler_are_started_anew_in_the_middle_of_binds() -> Result<()> {
    let names = ["gpu-1", "gpu-2", "gpu-3"];
    let mut stage = LockScene::new(&names, &[]).await?;
    stage.ready_nodes(&names).await?;
    let settings = Settings { answers_after: std::time::Duration::from_millis(100), ..Settings::default() };
    let kubelets = Kubelets::start(stage.scene.plane.client(), settings);
    let mut scheduler = stage.scheduler().await?;
    for index in 0..60 {
        stage.chosen(&format!("p{index}"), 1).await?;
    }
    let running = async |stage: &LockScene, count: usize| {
        eventually(&format!("{count} pods were served"), 4 * PATIENCE, async || {
            let served = kubelets.served().len();
            if served >= count {
                Ok(())
            } else {
                Err(format!("{served}, {}", stage.host.log().last().cloned().unwrap_or_default()))
            }
        })
        .await;
    };
    running(&stage, 5).await;
    scheduler.kill();
    scheduler.start().await?;
    running(&stage, 15).await;
    // The extender ends in the middle of its Binds: it finishes them or rolls them back, and the next extender starts
    // at the same address.
    stage = stage.again(HostEnd::Asked).await?;
    running(&stage, 30).await;
    stage = stage.again(HostEnd::Killed).await?;
    stage.until_running(60).await;
    assert_eq!(kubelets.mistakes(), [""; 0]);
    for node in names {
        stage.until_free(node).await;
    }
    judged(&stage).await?;
    kubelets.stop().await;
    stage.stop().await
}
