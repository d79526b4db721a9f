//! Pods of a binding between two real clusters: they are scheduled on lent nodes, run on machines, and their status comes up.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use topoloom_sync::keys;
use topoloom_sync::naming::physical_pod_name;
use topoloom_tests::controlplane::{ControlPlane, Scheduler, WriteKind, eventually};
use topoloom_tests::lending::kubelets::{RUN, STOP};
use topoloom_tests::lending::player::{self, Player};
use topoloom_tests::scene::PATIENCE;

use super::group::ready;
use super::lent::Lent;
use super::pair::{BORROWED, annotation};
use super::{condition, phase, reason, until_gone, until_pod};

/// The controllers of the virtual cluster.
const CONTROLLERS: [&str; 4] =
    ["deployment-controller", "replicaset-controller", "job-controller", "node-lifecycle-controller"];

/// A binding, with a scheduler and controllers in the virtual cluster, and a top-down half.
struct Stage {
    lent: Lent,
    player: Player,
    scheduler: Scheduler,
}

impl Stage {
    async fn new() -> Result<Self> {
        let mut lent = Lent::east(&["w1", "w2"], json!({})).await?;
        lent.virtual_plane.start_controllers(&CONTROLLERS)?;
        let scheduler = lent.virtual_plane.scheduler(&[]).await?;
        let settings = player::Settings {
            identity: lent.identity("east").await?,
            mount_namespace: BORROWED.to_owned(),
            // The syncer copies every end in time, or the test ends before the top-down half writes one.
            patience: 2 * PATIENCE,
        };
        let (player, run) = Player::new(lent.virtual_plane.client(), lent.physical_plane.client(), settings);
        lent.background.spawn(run);
        for node in ["vnode-east-w1", "vnode-east-w2"] {
            lent.until(node, "is ready", |node| ready(node) == "True").await;
        }
        Ok(Self { lent, player, scheduler })
    }

    fn virtuals(&self) -> Api<Pod> {
        Api::default_namespaced(self.lent.virtual_plane.client())
    }

    fn physicals(&self) -> Api<Pod> {
        Api::namespaced(self.lent.physical_plane.client(), BORROWED)
    }

    /// Creates a virtual pod that kube-scheduler places on a lent node.
    async fn pod(&self, name: &str, annotations: Value, container: Value) -> Result<()> {
        let mut spec = spec();
        for (key, value) in container.as_object().context("a container is an object")? {
            spec["containers"][0][key] = value.clone();
        }
        let pod = json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec});
        self.virtuals().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        Ok(())
    }

    /// The names of the virtual pods with this label.
    async fn named(&self, label: &str) -> Result<Vec<String>> {
        let list = self.virtuals().list(&ListParams::default().labels(label)).await?;
        Ok(list.items.into_iter().filter_map(|pod| pod.metadata.name).collect())
    }

    async fn stop(self) -> Result<()> {
        assert_eq!(self.player.mistakes(), [""; 0]);
        // Before another test gets its control plane.
        drop(self.scheduler);
        self.lent.stop().await
    }
}

/// Of a pod that may be on lent nodes.
fn spec() -> Value {
    json!({
        "restartPolicy": "Always", "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
    })
}

/// What each write of a pod showed, without what every write changes.
async fn shown(plane: &ControlPlane, namespace: &str, name: &str) -> Result<Vec<Value>> {
    let writes = plane.writes_in_order(&format!("/registry/pods/{namespace}/{name}")).await?;
    let puts = writes.into_iter().filter(|write| write.kind == WriteKind::Put);
    Ok(puts
        .map(|write| {
            let mut pod = write.value;
            pod["metadata"]["managedFields"] = Value::Null;
            if let Some(annotations) = pod["metadata"]["annotations"].as_object_mut() {
                annotations.remove(keys::LAST_SYNC_TIME);
            }
            pod
        })
        .collect())
}

/// How often the status of a pod changed.
fn changes(shown: &[Value]) -> usize {
    shown.windows(2).filter(|pair| pair[0]["status"] != pair[1]["status"]).count()
}

/// The status of the only container.
fn container(pod: &Pod) -> Value {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let first = statuses.and_then(|statuses| statuses.first());
    first.and_then(|status| serde_json::to_value(status).ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_on_lent_machines_and_each_change_that_shows_is_one_write() -> Result<()> {
    let stage = Stage::new().await?;
    let deployments: Api<Deployment> = Api::default_namespaced(stage.lent.virtual_plane.client());
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": spec()},
        },
    });
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    // The controller of Deployments believes what the virtual pods say.
    eventually("both replicas are available", PATIENCE, async || {
        let status = deployments.get("web").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        if status.available_replicas == Some(2) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    let pods = stage.named("app=web").await?;
    for name in &pods {
        let physical_name = physical_pod_name("default", name)?;
        let (twin, pod) = (stage.virtuals().get(name).await?, stage.physicals().get(&physical_name).await?);
        assert_eq!(annotation(&twin, keys::PHYSICAL_POD_UID), pod.metadata.uid.as_deref());
        let addresses = |pod: &Pod| pod.status.as_ref().map(|status| (status.pod_ips.clone(), status.host_ips.clone()));
        assert_eq!(addresses(&twin), addresses(&pod), "{name}");
        assert_eq!(container(&twin)["containerID"], container(&pod)["containerID"]);
        assert_eq!((condition(&twin, "PodScheduled"), condition(&twin, "Ready")), ("True", "True"));

        let up = shown(&stage.lent.virtual_plane, "default", name).await?;
        assert!(up.windows(2).all(|pair| pair[0] != pair[1]), "a write that shows nothing: {up:#?}");
        let down = shown(&stage.lent.physical_plane, BORROWED, &physical_name).await?;
        // kube-scheduler's is the one beside those of the kubelet.
        assert!(changes(&up) <= changes(&down) + 1, "{} changes, and {} at its kubelet", changes(&up), changes(&down));
    }

    // What another client writes into the status is set back (decision S15), as after a partition (S4).
    let twin = pods.first().context("there are two")?;
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    stage.virtuals().patch_status(twin, &PatchParams::default(), &Patch::Strategic(unready)).await?;
    until_pod(&stage.virtuals(), twin, "is ready again", |pod| condition(pod, "Ready") == "True").await;

    // Restarts, ends, and what a container waits for.
    stage.pod("restarts", json!({RUN: "300ms,Restarts"}), json!({})).await?;
    stage.pod("ends", json!({RUN: "300ms,Succeeded"}), json!({})).await?;
    stage.pod("fails", json!({RUN: "300ms,Failed"}), json!({})).await?;
    let missing = json!({"env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}]});
    stage.pod("waits", json!({}), missing).await?;
    let restarted = |pod: &Pod| container(pod)["restartCount"].as_i64().is_some_and(|restarts| restarts > 0);
    until_pod(&stage.virtuals(), "restarts", "has restarted", restarted).await;
    until_pod(&stage.virtuals(), "ends", "has ended well", |pod| phase(pod) == "Succeeded").await;
    until_pod(&stage.virtuals(), "fails", "has failed", |pod| phase(pod) == "Failed").await;
    let reason_of = |pod: &Pod| container(pod)["state"]["waiting"]["reason"].clone();
    until_pod(&stage.virtuals(), "waits", "says why", |pod| reason_of(pod) == "CreateContainerConfigError").await;
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn s10_a_pod_of_a_job_that_is_deleted_while_it_runs_counts_as_it_ended() -> Result<()> {
    let stage = Stage::new().await?;
    let jobs: Api<Job> = Api::default_namespaced(stage.lent.virtual_plane.client());
    let mut spec = spec();
    spec["restartPolicy"] = json!("Never");
    let job = json!({
        "metadata": {"name": "train"},
        "spec": {
            // Otherwise a pod that terminates counts as failed at once, however it ends.
            "backoffLimit": 0, "podReplacementPolicy": "Failed",
            "template": {"metadata": {"annotations": {STOP: "200ms,Succeeded"}}, "spec": spec},
        },
    });
    jobs.create(&PostParams::default(), &serde_json::from_value(job)?).await?;
    let name = eventually("the Job has its pod", PATIENCE, async || {
        let names = stage.named("job-name=train").await.map_err(|error| error.to_string())?;
        names.into_iter().next().ok_or_else(|| "no pod".to_owned())
    })
    .await;
    until_pod(&stage.virtuals(), &name, "runs", |pod| phase(pod) == "Running").await;
    stage.virtuals().delete(&name, &DeleteParams::default()).await?;
    until_gone(&stage.virtuals(), &name).await;
    let status = eventually("the Job has counted it", PATIENCE, async || {
        let status = jobs.get("train").await.map_err(|error| error.to_string())?.status.unwrap_or_default();
        // Others say before the counts are written that it is about to end.
        let ends = |condition: &JobCondition| ["Complete", "Failed"].contains(&&*condition.type_);
        let is_over = status.conditions.iter().flatten().any(|condition| ends(condition) && condition.status == "True");
        if is_over && status.active.is_none() { Ok(status) } else { Err(format!("{status:?}")) }
    })
    .await;
    assert_eq!((status.succeeded, status.failed.unwrap_or_default()), (Some(1), 0));
    let writes = stage.lent.virtual_plane.writes_in_order(&format!("/registry/pods/default/{name}")).await?;
    let last = writes.iter().rev().find(|write| write.kind == WriteKind::Put).context("it was written")?;
    assert_eq!(last.value["status"]["phase"], "Succeeded", "its end came before its removal");
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_an_orphan_of_ours_goes_after_two_looks_and_pods_of_others_are_never_touched() -> Result<()> {
    const DELAY: Duration = Duration::from_secs(3);
    let lent = Lent::east(&["w1"], json!({"timing": {"orphanDelay": "3s"}})).await?;
    lent.until("vnode-east-w1", "is ready", |node| ready(node) == "True").await;
    let pods: Api<Pod> = Api::namespaced(lent.physical_plane.client(), BORROWED);
    let mut ours = lent.identity("east").await?.labels();
    ours.insert(keys::MANAGED_BY_LABEL.to_owned(), keys::MANAGED_BY.to_owned());
    let began = Instant::now();
    for (name, key, value) in [
        ("foreign", keys::VIRTUAL_CLUSTER, "another"),
        ("neighbour", keys::BINDING, "west"),
        ("unmanaged", keys::MANAGED_BY_LABEL, "another"),
        ("orphan", keys::MANAGED_BY_LABEL, keys::MANAGED_BY),
    ] {
        let mut labels = ours.clone();
        labels.insert(key.to_owned(), value.to_owned());
        let annotations = json!({
            keys::VIRTUAL_POD_NAMESPACE: "default", keys::VIRTUAL_POD_NAME: "none", keys::VIRTUAL_POD_UID: "gone",
        });
        let mut pod = json!({
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": "none"}]},
        });
        // Without a node no kubelet writes the others, and every write of them would be ours.
        if name == "orphan" {
            pod["spec"]["nodeName"] = json!("w1");
        }
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    }
    until_gone(&pods, "orphan").await;
    assert!(began.elapsed() >= DELAY, "{:?}", began.elapsed());
    for name in ["foreign", "neighbour", "unmanaged"] {
        let writes = lent.physical_plane.writes_in_order(&format!("/registry/pods/{BORROWED}/{name}")).await?;
        assert_eq!(writes.len(), 1, "{name}: {writes:#?}");
    }

    // A virtual pod that names it keeps it, and one that goes leaves an orphan.
    let (twin, physical_name) = ("lives", physical_pod_name("default", "lives")?);
    let virtuals: Api<Pod> = Api::default_namespaced(lent.virtual_plane.client());
    let named = json!({keys::PHYSICAL_POD_NAMESPACE: BORROWED, keys::PHYSICAL_POD_NAME: physical_name});
    let pod = json!({
        "metadata": {"name": twin, "annotations": named},
        "spec": {"nodeName": "vnode-east-w1", "containers": [{"name": "c", "image": "none"}]},
    });
    let stored = virtuals.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    let annotations = json!({
        keys::VIRTUAL_POD_NAMESPACE: "default", keys::VIRTUAL_POD_NAME: twin, keys::VIRTUAL_POD_UID: stored.metadata.uid,
    });
    let pod = json!({
        "metadata": {"name": physical_name, "labels": ours, "annotations": annotations},
        "spec": {"nodeName": "w1", "containers": [{"name": "c", "image": "none"}]},
    });
    let made = pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    let running = until_pod(&virtuals, twin, "runs", |pod| phase(pod) == "Running").await;
    // The top-down half did not write it: it came with the status.
    assert_eq!(annotation(&running, keys::PHYSICAL_POD_UID), made.metadata.uid.as_deref());
    assert_eq!(reason(&running), "");
    assert!(pods.get(&physical_name).await?.metadata.deletion_timestamp.is_none());
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    virtuals.delete(twin, &now).await?;
    until_gone(&pods, &physical_name).await;
    lent.stop().await
}
