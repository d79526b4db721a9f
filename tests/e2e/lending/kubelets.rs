//! Kubelets: what happens to pods that are bound to real nodes.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use topoloom_tests::controlplane::{WriteKind, eventually};
use topoloom_tests::lending::Background;
use topoloom_tests::lending::kubelets::{INIT, Kubelets, NewNode, Pressure, READY, RUN, STOP, Settings};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::{condition, phase, reason, until_gone, until_pod};

/// An empty cluster whose nodes have kubelets.
pub(super) struct Stage {
    pub(super) scene: Scene,
    pub(super) kubelets: Kubelets,
    background: Background,
}

impl Stage {
    /// With the times of a kubelet divided.
    pub(super) async fn new(faster: u32) -> Result<Self> {
        Ok(Self::on(Scene::new().await?, faster))
    }

    pub(super) fn on(scene: Scene, faster: u32) -> Self {
        let settings = Settings { faster, ..Settings::default() };
        let (kubelets, run) = Kubelets::new(scene.plane.client(), &settings);
        let mut background = Background::new();
        background.spawn(run);
        Self { scene, kubelets, background }
    }

    pub(super) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.scene.plane.client())
    }

    pub(super) fn nodes(&self) -> Api<Node> {
        Api::all(self.scene.plane.client())
    }

    /// Creates a pod with these annotations; `spec` is merged into one with one container.
    pub(super) async fn pod(&self, name: &str, annotations: Value, spec: Value) -> Result<Pod> {
        let mut pod = json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": "none"}], "restartPolicy": "Never"},
        });
        for (key, value) in spec.as_object().context("a spec is an object")? {
            pod["spec"][key] = value.clone();
        }
        Ok(self.pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?)
    }

    /// Waits until a condition of a node has this status.
    pub(super) async fn until_node(&self, name: &str, kind: &str, wanted: &str) {
        eventually(&format!("{kind} of {name} is {wanted}"), PATIENCE, async || {
            let node = self.nodes().get(name).await.map_err(|error| error.to_string())?;
            let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
            let found = conditions.iter().find(|condition| condition.type_ == kind);
            if found.is_some_and(|found| found.status == wanted) { Ok(()) } else { Err(format!("{conditions:?}")) }
        })
        .await;
    }

    pub(super) async fn stop(self) -> Result<()> {
        assert_eq!(self.kubelets.mistakes(), [""; 0]);
        self.background.stop().await;
        self.scene.plane.stop().await
    }
}

fn waiting(pod: &Pod) -> &str {
    let container = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten()).next();
    let waiting = container.and_then(|container| container.state.as_ref()?.waiting.as_ref());
    waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_a_scheduler_places_run_and_end_as_their_annotations_say() -> Result<()> {
    let stage = Stage::new(1).await?;
    stage.kubelets.register(["w1", "w2"].map(NewNode::named)).await?;
    for node in ["w1", "w2"] {
        stage.until_node(node, "Ready", "True").await;
    }
    let scheduler = stage.scene.plane.scheduler(&[]).await?;
    stage.pod("stays", json!({}), json!({})).await?;
    stage.pod("succeeds", json!({RUN: "300ms,Succeeded"}), json!({})).await?;
    stage.pod("fails", json!({RUN: "300ms,Failed"}), json!({})).await?;
    stage.pod("unready", json!({READY: "never"}), json!({})).await?;
    stage.pod("restarts", json!({RUN: "100ms,Restarts"}), json!({"restartPolicy": "Always"})).await?;
    let init = json!([{"name": "i", "image": "none"}, {"name": "s", "image": "none", "restartPolicy": "Always"}]);
    stage.pod("prepares", json!({INIT: "300ms"}), json!({"initContainers": init})).await?;
    let pods = stage.pods();

    let stays = until_pod(&pods, "stays", "runs and is ready", |pod| condition(pod, "Ready") == "True").await;
    let status = stays.status.clone().context("it has a status")?;
    assert_eq!(phase(&stays), "Running");
    assert!(status.host_ip.is_some() && status.pod_ip.is_some() && status.start_time.is_some(), "{status:?}");
    assert_eq!(status.pod_ips.map_or(0, |ips| ips.len()), 2);
    assert_eq!(condition(&stays, "PodScheduled"), "True");

    until_pod(&pods, "succeeds", "succeeds", |pod| phase(pod) == "Succeeded").await;
    until_pod(&pods, "fails", "fails", |pod| phase(pod) == "Failed").await;
    let unready = until_pod(&pods, "unready", "runs", |pod| phase(pod) == "Running").await;
    assert_eq!(condition(&unready, "Ready"), "False");
    let prepares = until_pod(&pods, "prepares", "runs", |pod| phase(pod) == "Running").await;
    let init = prepares.status.and_then(|status| status.init_container_statuses).unwrap_or_default();
    let state = |index: usize| init[index].state.clone().unwrap_or_default();
    assert!(state(0).terminated.is_some() && state(1).running.is_some(), "{init:?}");
    until_pod(&pods, "restarts", "was started again and waits", |pod| {
        let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        waiting(pod) == "CrashLoopBackOff" && containers.map(|container| container.restart_count).sum::<i32>() == 1
    })
    .await;

    let all = pods.list(&ListParams::default()).await?.items;
    let addresses: std::collections::BTreeSet<_> =
        all.iter().filter_map(|pod| pod.status.as_ref()?.pod_ip.clone()).collect();
    assert_eq!(addresses.len(), 6, "{addresses:?}");
    // Before another test gets its control plane.
    drop(scheduler);
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_does_not_fit_fails_and_one_that_waits_has_a_reason() -> Result<()> {
    let stage = Stage::new(20).await?;
    stage.kubelets.register([NewNode::named("w1").with("cpu", "2").with("memory", "8Gi").with("pods", "9")]).await?;
    let pods = stage.pods();
    let cpu = |amount: &str| {
        let resources = json!({"requests": {"cpu": amount}});
        json!({"nodeName": "w1", "containers": [{"name": "c", "image": "none", "resources": resources}]})
    };
    stage.pod("fits", json!({}), cpu("1500m")).await?;
    until_pod(&pods, "fits", "runs", |pod| phase(pod) == "Running").await;
    stage.pod("too-large", json!({}), cpu("600m")).await?;
    let refused = until_pod(&pods, "too-large", "fails", |pod| phase(pod) == "Failed").await;
    assert_eq!(reason(&refused), "OutOfcpu");
    let message = refused.status.and_then(|status| status.message).unwrap_or_default();
    assert!(message.ends_with("cpu, requested: 600, used: 1500, capacity: 2000"), "{message}");

    // The size of the machine is what its Node says.
    let larger = Patch::Merge(json!({"status": {"allocatable": {"cpu": "3"}, "capacity": {"cpu": "3"}}}));
    stage.nodes().patch_status("w1", &PatchParams::default(), &larger).await?;
    // The kubelet sees it some time later: a pod that does not fit is no proof that it has not.
    eventually("a pod fits into the larger machine", PATIENCE, async || {
        let name = format!("next-{}", pods.list(&ListParams::default()).await.map_err(|e| e.to_string())?.items.len());
        stage.pod(&name, json!({}), cpu("1200m")).await.map_err(|error| error.to_string())?;
        let pod =
            until_pod(&pods, &name, "is taken or refused", |pod| ["Running", "Failed"].contains(&phase(pod))).await;
        if phase(&pod) == "Running" { Ok(()) } else { Err(reason(&pod).to_owned()) }
    })
    .await;

    let container = json!({"name": "c", "image": "none", "envFrom": [{"configMapRef": {"name": "settings"}}]});
    stage.pod("waits", json!({}), json!({"nodeName": "w1", "containers": [container]})).await?;
    let waits = until_pod(&pods, "waits", "has a reason", |pod| waiting(pod) == "CreateContainerConfigError").await;
    assert_eq!(phase(&waits), "Pending");
    let maps: Api<ConfigMap> = Api::default_namespaced(stage.scene.plane.client());
    let map = serde_json::from_value(json!({"metadata": {"name": "settings"}}))?;
    maps.create(&PostParams::default(), &map).await?;
    until_pod(&pods, "waits", "runs", |pod| phase(pod) == "Running").await;
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_shows_its_end_before_it_goes_and_a_finalizer_keeps_it() -> Result<()> {
    let stage = Stage::new(1).await?;
    stage.kubelets.register([NewNode::named("w1")]).await?;
    let pods = stage.pods();
    let on = json!({"nodeName": "w1"});
    stage.pod("stops", json!({STOP: "200ms,Succeeded"}), on.clone()).await?;
    stage.pod("kept", json!({}), on.clone()).await?;
    stage.pod("killed", json!({STOP: "never"}), json!({"nodeName": "w1", "terminationGracePeriodSeconds": 1})).await?;
    let finalizers = |list: Value| Patch::Merge(json!({"metadata": {"finalizers": list}}));
    pods.patch("kept", &PatchParams::default(), &finalizers(json!(["test.topoloom.dev/keep"]))).await?;
    for name in ["stops", "kept", "killed"] {
        until_pod(&pods, name, "runs", |pod| phase(pod) == "Running").await;
        pods.delete(name, &DeleteParams::default()).await?;
    }
    until_gone(&pods, "stops").await;
    until_gone(&pods, "killed").await;
    let gone_by = |pod: &Pod| pod.metadata.deletion_grace_period_seconds == Some(0) && phase(pod) == "Failed";
    until_pod(&pods, "kept", "has ended and was deleted for good", gone_by).await;
    pods.patch("kept", &PatchParams::default(), &finalizers(Value::Null)).await?;
    until_gone(&pods, "kept").await;

    for (name, wanted, code) in [("stops", "Succeeded", 0), ("kept", "Failed", 143), ("killed", "Failed", 137)] {
        let writes = stage.scene.plane.writes_in_order(&format!("/registry/pods/default/{name}")).await?;
        let (last, before) = writes.split_last().context("it was written")?;
        assert_eq!(last.kind, WriteKind::Delete, "{name}");
        let status = &before.last().context("it was written before")?.value["status"];
        assert_eq!(status["phase"], wanted, "{name}");
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], code, "{name}");
    }
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn under_pressure_a_kubelet_evicts_and_takes_fewer_pods() -> Result<()> {
    let stage = Stage::new(1).await?;
    stage.kubelets.register([NewNode::named("w1")]).await?;
    let pods = stage.pods();
    let memory = |amount: &str| {
        let resources = json!({"requests": {"memory": amount}});
        json!({"nodeName": "w1", "containers": [{"name": "c", "image": "none", "resources": resources}]})
    };
    for (name, amount) in [("small", "1Gi"), ("large", "9Gi")] {
        stage.pod(name, json!({}), memory(amount)).await?;
        until_pod(&pods, name, "runs", |pod| phase(pod) == "Running").await;
    }
    stage.kubelets.pressure("w1", Pressure::Memory, 1);
    let evicted = until_pod(&pods, "large", "is evicted", |pod| phase(pod) == "Failed").await;
    assert_eq!((reason(&evicted), condition(&evicted, "DisruptionTarget")), ("Evicted", "True"));
    stage.until_node("w1", "MemoryPressure", "True").await;
    stage.pod("greedy", json!({}), json!({"nodeName": "w1"})).await?;
    let refused = until_pod(&pods, "greedy", "is refused", |pod| phase(pod) == "Failed").await;
    assert_eq!(reason(&refused), "Evicted");
    assert_eq!(phase(&pods.get("small").await?), "Running");
    stage.kubelets.relieve("w1");
    stage.until_node("w1", "MemoryPressure", "False").await;
    stage.pod("modest", json!({}), json!({"nodeName": "w1"})).await?;
    until_pod(&pods, "modest", "runs", |pod| phase(pod) == "Running").await;
    stage.stop().await
}
