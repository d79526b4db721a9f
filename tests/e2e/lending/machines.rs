//! Kubelets: nodes and their leases.

use std::collections::BTreeSet;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::lending::kubelets::{Health, NewNode, RUN};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::kubelets::Stage;
use super::{condition, phase, until_pod};

impl Stage {
    fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.scene.plane.client(), "kube-node-lease")
    }

    async fn renewed(&self, node: &str) -> Result<Option<Timestamp>, kube::Error> {
        let lease = self.leases().get_opt(node).await?;
        Ok(lease.and_then(|lease| lease.spec?.renew_time).map(|time| time.0))
    }

    /// Waits until the lease of a node was renewed so many times.
    async fn until_renewed(&self, node: &str, times: usize) {
        let mut seen = BTreeSet::new();
        eventually(&format!("the lease of {node} is renewed {times} times"), PATIENCE, async || {
            seen.extend(self.renewed(node).await.map_err(|error| error.to_string())?);
            if seen.len() > times { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    }

    /// Waits until the lease of a node stands still, while that of another is renewed.
    async fn until_still(&self, node: &str, other: &str) {
        eventually(&format!("the lease of {node} is not renewed"), PATIENCE, async || {
            let before = self.renewed(node).await.map_err(|error| error.to_string())?;
            self.until_renewed(other, 3).await;
            let after = self.renewed(node).await.map_err(|error| error.to_string())?;
            if before == after { Ok(()) } else { Err(format!("{before:?} {after:?}")) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubelet_is_ready_not_ready_or_silent_as_it_is_switched() -> Result<()> {
    let stage = Stage::new(50).await?;
    stage.kubelets.register(["w1", "w2"].map(NewNode::named)).await?;
    stage.until_node("w1", "Ready", "True").await;
    stage.until_renewed("w1", 2).await;
    let (node, lease) = (stage.nodes().get("w1").await?, stage.leases().get("w1").await?);
    let owners = lease.metadata.owner_references.unwrap_or_default();
    assert_eq!(owners.first().map(|owner| &owner.uid), node.metadata.uid.as_ref());
    assert_eq!(lease.spec.and_then(|spec| spec.holder_identity).as_deref(), Some("w1"));

    stage.kubelets.set("w1", Health::NotReady);
    stage.until_node("w1", "Ready", "False").await;
    stage.until_renewed("w1", 2).await;

    stage.kubelets.set("w1", Health::Silent);
    stage.until_still("w1", "w2").await;
    stage.pod("late", json!({}), json!({"nodeName": "w1"})).await?;
    // What node-lifecycle does, for it runs in no test of this crate.
    let unknown = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    stage.nodes().patch_status("w1", &PatchParams::default(), &Patch::Strategic(unknown)).await?;
    stage.until_renewed("w2", 3).await;
    stage.until_node("w1", "Ready", "Unknown").await;
    assert_eq!(phase(&stage.pods().get("late").await?), "Pending");

    stage.kubelets.set("w1", Health::Ready);
    stage.until_node("w1", "Ready", "True").await;
    stage.until_renewed("w1", 2).await;
    until_pod(&stage.pods(), "late", "runs", |pod| condition(pod, "Ready") == "True").await;
    // A kubelet that speaks sets back what another client wrote.
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    stage.pods().patch_status("late", &PatchParams::default(), &Patch::Strategic(unready)).await?;
    until_pod(&stage.pods(), "late", "is ready again", |pod| condition(pod, "Ready") == "True").await;
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelets_leave_virtual_nodes_and_their_pods_alone() -> Result<()> {
    let stage = Stage::new(50).await?;
    stage.kubelets.register([NewNode::named("vnode-east-w1").label("type", "virtual-kubelet")]).await?;
    stage.kubelets.register([NewNode::named("w1")]).await?;
    stage.pod("virtual", json!({}), json!({"nodeName": "vnode-east-w1"})).await?;
    stage.pod("terminating", json!({}), json!({"nodeName": "vnode-east-w1"})).await?;
    stage.pods().delete("terminating", &DeleteParams::default()).await?;
    stage.pod("real", json!({}), json!({"nodeName": "w1"})).await?;
    until_pod(&stage.pods(), "real", "runs", |pod| phase(pod) == "Running").await;
    stage.until_renewed("w1", 3).await;
    for name in ["virtual", "terminating"] {
        let pod = stage.pods().get(name).await?;
        assert_eq!(phase(&pod), "Pending");
        assert!(pod.status.is_some_and(|status| status.start_time.is_none()), "{name}");
    }
    assert_eq!(stage.renewed("vnode-east-w1").await?, None);
    let status = stage.nodes().get("vnode-east-w1").await?.status.unwrap_or_default();
    assert!(status.conditions.unwrap_or_default().is_empty() && status.addresses.unwrap_or_default().is_empty());
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelets_survive_an_api_server_that_stops() -> Result<()> {
    let mut stage = Stage::on(Scene::new().await?, 50);
    stage.kubelets.register([NewNode::named("w1")]).await?;
    stage.pod("ends", json!({RUN: "500ms,Succeeded"}), json!({"nodeName": "w1"})).await?;
    stage.until_renewed("w1", 2).await;
    stage.scene.plane.stop_apiserver().await?;
    stage.scene.plane.start_apiserver().await?;
    stage.until_renewed("w1", 3).await;
    until_pod(&stage.pods(), "ends", "has ended", |pod| phase(pod) == "Succeeded").await;
    stage.pod("next", json!({}), json!({"nodeName": "w1"})).await?;
    until_pod(&stage.pods(), "next", "runs", |pod| phase(pod) == "Running").await;
    stage.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_cost_a_few_requests_each() -> Result<()> {
    const NODES: usize = 200;
    let stage = Stage::new(1).await?;
    let before = stage.scene.plane.requests().await?;
    let name = |index: usize| format!("w{index}");
    stage.kubelets.register((0..NODES).map(|index| NewNode::named(name(index)))).await?;
    let pods = stage.pods();
    for index in 0..NODES {
        stage.pod(&format!("p{index}"), json!({}), json!({"nodeName": name(index)})).await?;
    }
    eventually("every pod runs", PATIENCE, async || {
        let list = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let running = list.iter().filter(|pod: &&Pod| phase(pod) == "Running").count();
        if running == NODES { Ok(()) } else { Err(format!("{running}")) }
    })
    .await;
    eventually("every node is ready and has a lease", PATIENCE, async || {
        let list = stage.nodes().list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let is_ready = |node: &&Node| {
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.filter(|condition| condition.type_ == "Ready").any(|condition| condition.status == "True")
        };
        let ready = list.iter().filter(is_ready).count();
        let leases = stage.leases().list(&ListParams::default()).await.map_err(|error| error.to_string())?.items.len();
        if (ready, leases) == (NODES, NODES) { Ok(()) } else { Err(format!("{ready} {leases}")) }
    })
    .await;
    let requests = stage.scene.plane.requests().await?.since(&before);
    let (nodes, statuses) = (requests.writes("nodes", "status") as usize, requests.writes("pods", "status") as usize);
    // An event that is older than the last write costs one more.
    assert!((NODES..=3 * NODES).contains(&nodes), "{nodes} writes of nodes");
    assert!((2 * NODES..=3 * NODES).contains(&statuses), "{statuses} writes of pods");

    // A machine that was replaced has a lease and addresses of its own, and its pods have them.
    let address = async || pods.get("p0").await.map(|pod| pod.status.and_then(|status| status.host_ips));
    let before = address().await?;
    stage.nodes().delete("w0", &DeleteParams::default()).await?;
    stage.kubelets.register([NewNode::named("w0")]).await?;
    let uid = stage.nodes().get("w0").await?.metadata.uid;
    eventually("the lease is owned by the new node", PATIENCE, async || {
        let lease = stage.leases().get("w0").await.map_err(|error| error.to_string())?;
        let owners = lease.metadata.owner_references.unwrap_or_default();
        if owners.first().map(|owner| &owner.uid) == uid.as_ref() { Ok(()) } else { Err(format!("{owners:?}")) }
    })
    .await;
    eventually("its pod has the new address", PATIENCE, async || {
        let now = address().await.map_err(|error| error.to_string())?;
        let count = now.as_ref().map_or(0, Vec::len);
        if now != before && count == 2 { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    // A Node that another client made has a kubelet, too.
    let object = json!({"metadata": {"name": "taken"}});
    stage.nodes().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    stage.until_node("taken", "Ready", "True").await;
    stage.stop().await
}
