//! A cluster that is not what it was: another one answers in its place, or its store was set back (decisions S6 and S25).

use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_api::names::{CONFIRM_ANNOTATION, PAUSE_ANNOTATION};
use topoloom_sync::guard::GATHER;
use topoloom_sync::keys;
use topoloom_sync::naming::physical_pod_name;
use topoloom_tests::controlplane::{ControlPlane, KEEPERS, Revision, SCALED, Wanted, eventually};
use topoloom_tests::lending::kubelets::NewNode;
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::group::ready;
use super::super::lent::{Lent, cluster, now, says};
use super::super::pair::BORROWED;
use super::super::{phase, until_gone, until_pod};
use super::{bound, claim, is_terminating, pass, plays, pods, within};
use crate::restored::much_happens;

/// It is known within this time that a store was set back.
const FOUND: Duration = Duration::from_secs(60);
/// Far more revisions than a test writes.
const RAISED: Revision = Revision::RaisedBy(1_000_000);
/// A pod that is gone as soon as it is deleted.
const AT_ONCE: &str = "terminationGracePeriodSeconds";
/// As long as an act is gathered, and longer.
const LONG: Duration = GATHER.saturating_add(Duration::from_secs(2));

#[tokio::test(flavor = "multi_thread")]
async fn s6_another_cluster_at_the_same_address_gets_no_node_and_loses_nothing_until_it_is_confirmed() -> Result<()> {
    const ANOTHER: &str = "6f9619ff-8b86-4011-b42d-00c04fc964ff";
    let planes = Scene::planes([Wanted::Shared, Wanted::Shared]).await?;
    let mut lent = Lent::between(planes, &["w1", "w2"], now).await?;
    lent.virtual_plane.start_controllers_with(&KEEPERS, &SCALED)?;
    lent.bind("east", json!({})).await?;
    for node in ["vnode-east-w1", "vnode-east-w2"] {
        lent.until(node, "is ready", |node| ready(node) == "True").await;
    }
    bound(&lent.virtual_plane, "web", "vnode-east-w2", json!({"spec": {AT_ONCE: 0}})).await?;

    // The Secret leads to another cluster, and back.
    let is_another = |binding: &Value| says(binding, "PhysicalClusterChanged", "True", "AnotherCluster");
    lent.secret("east", &read_to_string(lent.virtual_plane.kubeconfig())?).await?;
    let binding = lent.until_binding("east", "leads to another cluster", is_another).await;
    assert_eq!(binding["status"]["otherCluster"]["uid"], *cluster(&lent.virtual_plane).await?);
    lent.secret("east", &read_to_string(lent.physical_plane.kubeconfig())?).await?;
    let is_well = |binding: &Value| !is_another(binding) && says(binding, "Ready", "True", "Ok");
    lent.until_binding("east", "leads to its own cluster", is_well).await;
    // Nothing is claimed or made there: its nodes are the two that were lent before.
    for node in lent.lent().list(&ListParams::default()).await?.items {
        let node = serde_json::to_value(node)?;
        assert!(claim(&node).is_none() && ready(&node) == "True" && !is_terminating(&node), "{node}");
    }

    // Its certificates and tokens are the same, and it is not.
    lent.physical_plane.edit("/registry/namespaces/kube-system", |it| it["metadata"]["uid"] = ANOTHER.into()).await?;
    let binding = lent.until_binding("east", "leads to another cluster", is_another).await;
    let other = &binding["status"]["otherCluster"];
    assert_eq!(other["uid"], ANOTHER);
    let began = Instant::now();
    lent.kubelets.register([NewNode::named("w3")]).await?;
    lent.machines().delete("w2", &DeleteParams::default()).await?;
    pass(began, LONG).await;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w2"]).await;
    for name in ["vnode-east-w1", "vnode-east-w2"] {
        lent.until(name, "lives", |node| ready(node) == "True" && !is_terminating(node)).await;
    }
    assert!(pods(&lent.virtual_plane).get("web").await?.metadata.deletion_timestamp.is_none());
    let machine = serde_json::to_value(lent.machines().get("w3").await?)?;
    assert_eq!(claim(&machine), None, "{machine}");

    lent.annotate("east", CONFIRM_ANNOTATION, other["hash"].as_str()).await?;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w3"]).await;
    until_gone(&pods(&lent.virtual_plane), "web").await;
    let is_told = |binding: &Value| !is_another(binding) && binding["status"]["physicalClusterUID"] == ANOTHER;
    lent.until_binding("east", "borrows from the other one", is_told).await;
    lent.stop().await
}

/// Whether a replica serves the binding while a store is set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Syncer {
    Running,
    Stopped,
}

/// How a store is set back.
#[derive(Debug, Clone, Copy)]
struct SetBack {
    revision: Revision,
    syncer: Syncer,
}

const LOWER: SetBack = SetBack { revision: Revision::AsSaved, syncer: Syncer::Running };
const RAISED_UNSEEN: SetBack = SetBack { revision: RAISED, syncer: Syncer::Stopped };
const LOWER_UNSEEN: SetBack = SetBack { revision: Revision::AsSaved, syncer: Syncer::Stopped };
const RAISED_SEEN: SetBack = SetBack { revision: RAISED, syncer: Syncer::Running };

/// A binding that lends `w1`, and what serves it.
struct Story {
    lent: Lent,
    stop: CancellationToken,
}

impl Story {
    async fn new() -> Result<Self> {
        let planes = Scene::planes([Wanted::Shared, Wanted::Shared]).await?;
        let mut lent = Lent::between(planes, &["w1"], now).await?;
        lent.virtual_plane.start_controllers_with(&KEEPERS, &SCALED)?;
        lent.secret("east", &read_to_string(lent.physical_plane.kubeconfig())?).await?;
        lent.binding("east", json!({"timing": {"orphanDelay": "1s"}})).await?;
        let stop = CancellationToken::new();
        lent.serve_until("east", stop.clone()).await?;
        lent.until("vnode-east-w1", "is ready", |node| ready(node) == "True").await;
        Ok(Self { lent, stop })
    }

    /// The copy of the witness in the physical cluster.
    async fn copy(&self) -> Result<Option<String>, String> {
        let leases: Api<Lease> = Api::namespaced(self.lent.physical_plane.client(), BORROWED);
        let all = leases.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        Ok(all.into_iter().find_map(|lease| lease.metadata.annotations?.get(keys::WITNESS_COPY).cloned()))
    }

    /// Waits until the witness has made two rounds more.
    async fn rounds(&self) {
        let mut seen = BTreeSet::new();
        eventually("the witness counts", PATIENCE, async || {
            seen.extend(self.copy().await?);
            if seen.len() > 2 { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    }

    /// The status of the binding is stored in a version that the virtual cluster does not soon reach again once it is set back.
    async fn report_late(&self) -> Result<()> {
        much_happens(&self.lent.virtual_plane).await?;
        for (pause, status, reason) in [(Some("true"), "True", "Paused"), (None, "False", "Ok")] {
            self.lent.annotate("east", PAUSE_ANNOTATION, pause).await?;
            let is_so = |binding: &Value| says(binding, "Paused", status, reason);
            self.lent.until_binding("east", "shows whether it is paused", is_so).await;
        }
        Ok(())
    }

    /// Before a store is set back.
    fn begin(&self, how: SetBack) {
        if how.syncer == Syncer::Stopped {
            self.stop.cancel();
        }
    }

    /// Waits until it is known, and returns what confirms it. Nothing is done meanwhile.
    async fn until_held(&mut self, how: SetBack, reason: &str) -> Result<String> {
        if how.syncer == Syncer::Stopped {
            self.stop = CancellationToken::new();
            self.lent.serve_until("east", self.stop.clone()).await?;
        }
        let is_found = |binding: &Value| says(binding, "Restored", "True", reason);
        let binding = within(FOUND, &self.lent.bindings(), "east", "was set back", is_found).await;
        pass(Instant::now(), LONG).await;
        Ok(binding["status"]["restored"]["hash"].as_str().context("it has a hash")?.to_owned())
    }

    async fn confirm(&self, hash: &str) -> Result<()> {
        self.lent.annotate("east", CONFIRM_ANNOTATION, Some(hash)).await?;
        let is_over = |binding: &Value| says(binding, "Restored", "False", "Ok");
        self.lent.until_binding("east", "goes on", is_over).await;
        Ok(())
    }

    async fn stop(self) -> Result<()> {
        self.stop.cancel();
        self.lent.stop().await
    }
}

/// The physical cluster forgets a machine that is lent and has a pod.
async fn a_machine_is_forgotten(how: SetBack) -> Result<()> {
    let mut story = Story::new().await?;
    story.rounds().await;
    let snapshot = story.lent.physical_plane.save().await?;
    story.lent.kubelets.register([NewNode::named("w2")]).await?;
    story.lent.until("vnode-east-w2", "is ready", |node| ready(node) == "True").await;
    let spec = json!({"spec": {AT_ONCE: 0, "tolerations": []}});
    bound(&story.lent.virtual_plane, "young", "vnode-east-w2", spec).await?;
    story.rounds().await;
    story.begin(how);
    story.lent.physical_plane.restore(&snapshot, how.revision).await?;
    let hash = story.until_held(how, "PhysicalClusterRestored").await?;
    story.lent.until("vnode-east-w2", "is there", |node| !is_terminating(node)).await;
    assert!(pods(&story.lent.virtual_plane).get("young").await?.metadata.deletion_timestamp.is_none(), "{how:?}");
    story.confirm(&hash).await?;
    story.lent.until_nodes(&["vnode-east-w1"]).await;
    until_gone(&pods(&story.lent.virtual_plane), "young").await;
    story.stop().await
}

/// The virtual cluster forgets a pod that runs: it looks like an orphan.
async fn a_pod_is_forgotten(how: SetBack) -> Result<()> {
    let mut story = Story::new().await?;
    story.rounds().await;
    let snapshot = story.lent.virtual_plane.save().await?;
    let name = physical_pod_name("default", "young")?;
    let annotations = json!({keys::PHYSICAL_POD_NAMESPACE: BORROWED, keys::PHYSICAL_POD_NAME: name});
    let twin =
        bound(&story.lent.virtual_plane, "young", "vnode-east-w1", json!({"metadata": {"annotations": annotations}}))
            .await?;
    let physicals = carried(&story.lent, &story.lent.physical_plane, &name, &twin).await?;
    until_pod(&pods(&story.lent.virtual_plane), "young", "runs", |pod| phase(pod) == "Running").await;
    if how.syncer == Syncer::Running {
        story.report_late().await?;
    }
    story.rounds().await;
    story.begin(how);
    story.lent.virtual_plane.restore(&snapshot, how.revision).await?;
    let hash = story.until_held(how, "VirtualClusterRestored").await?;
    assert!(pods(&story.lent.virtual_plane).get_opt("young").await?.is_none());
    let runs = physicals.get(&name).await?;
    assert!(runs.metadata.deletion_timestamp.is_none() && phase(&runs) == "Running", "{how:?}: {runs:?}");
    story.confirm(&hash).await?;
    until_gone(&physicals, &name).await;
    story.stop().await
}

/// The physical pod of a virtual one, as a top-down half makes it.
async fn carried(lent: &Lent, plane: &ControlPlane, name: &str, twin: &Pod) -> Result<Api<Pod>> {
    let mut labels = json!(lent.identity("east").await?.labels());
    labels[keys::MANAGED_BY_LABEL] = keys::MANAGED_BY.into();
    let annotations = json!({
        keys::VIRTUAL_POD_NAMESPACE: "default", keys::VIRTUAL_POD_NAME: twin.metadata.name,
        keys::VIRTUAL_POD_UID: twin.metadata.uid, keys::VIRTUAL_NODE_NAME: "vnode-east-w1",
    });
    let pod = json!({
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"nodeName": "w1", "containers": [{"name": "c", "image": "none"}]},
    });
    let physicals: Api<Pod> = Api::namespaced(plane.client(), BORROWED);
    physicals.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    Ok(physicals)
}

#[tokio::test(flavor = "multi_thread")]
async fn s25_a_physical_store_that_is_set_back_takes_no_node_and_no_pod_until_it_is_confirmed() -> Result<()> {
    for how in [LOWER, RAISED_UNSEEN, LOWER_UNSEEN, RAISED_SEEN].into_iter().take(plays()?) {
        a_machine_is_forgotten(how).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s25_a_virtual_store_that_is_set_back_kills_no_running_pod_as_an_orphan_until_it_is_confirmed() -> Result<()> {
    for how in [RAISED_UNSEEN, LOWER, RAISED_SEEN, LOWER_UNSEEN].into_iter().take(plays()?) {
        a_pod_is_forgotten(how).await?;
    }
    Ok(())
}
