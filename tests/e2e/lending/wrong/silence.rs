//! The virtual API server does not answer, or neither does, or the history of a watch is gone: with the program, whose lease of the
//! binding is in the virtual cluster (decisions M4, S5 and S11).

use std::fs::read_to_string;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::Instant;
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_tests::controlplane::{KEEPERS, SCALED, Wanted, eventually};
use topoloom_tests::host::Host;
use topoloom_tests::lending::kubelets::NewNode;
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::group::ready;
use super::super::lent::{Lent, now, says};
use super::super::pair::BORROWED;
use super::super::{phase, until_gone, until_pod};
use super::{LOST, bound, chart, claim, host, is_terminating, pass, player, pods, uid};

fn physicals(lent: &Lent) -> Api<Pod> {
    Api::namespaced(lent.physical_plane.client(), BORROWED)
}

/// What a syncer that trusts what it knew would act upon: a machine that is not claimed, and a pod of ours whose virtual pod does not
/// exist.
async fn tempt(lent: &Lent, identity: &Identity, machine: &str, orphan: &str) -> Result<()> {
    lent.kubelets.register([NewNode::named(machine)]).await?;
    let mut labels = json!(identity.labels());
    labels[keys::MANAGED_BY_LABEL] = keys::MANAGED_BY.into();
    let annotations = json!({
        keys::VIRTUAL_POD_NAMESPACE: "default", keys::VIRTUAL_POD_NAME: orphan, keys::VIRTUAL_POD_UID: "gone",
    });
    let pod = json!({
        "metadata": {"name": orphan, "labels": labels, "annotations": annotations},
        "spec": {"nodeName": "w1", "containers": [{"name": "c", "image": "none"}]},
    });
    physicals(lent).create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    Ok(())
}

/// Neither was touched.
async fn resisted(lent: &Lent, machine: &str, orphan: &str) -> Result<()> {
    let (machine, orphan) = (lent.machines().get(machine).await?, physicals(lent).get(orphan).await?);
    let (machine, orphan) = (serde_json::to_value(machine)?, serde_json::to_value(orphan)?);
    assert_eq!(claim(&machine), None, "{machine}");
    assert!(!is_terminating(&orphan), "{orphan}");
    Ok(())
}

/// Whether the replica serves the binding, by its metrics.
async fn serves(host: &Host) -> Result<bool> {
    Ok(host.get("/metrics").await?.contains("topoloom_binding_group_running{binding=\"east\"} 1"))
}

/// Waits until the replica says that it does not hold the binding any more.
async fn until_lost(host: &Host) {
    eventually("the replica does not hold the binding", PATIENCE, async || {
        // With what it answers while it is not ready, too.
        let said = host.readyz().await.unwrap_or_else(|error| error.to_string());
        let is_lost = said.contains("binding east: ") && !said.contains("binding east: leads");
        if is_lost { Ok(()) } else { Err(said) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_while_the_virtual_cluster_does_not_answer_nothing_is_written_to_the_physical_one_and_nothing_is_missed()
-> Result<()> {
    let planes = Scene::planes([Wanted::Shared, Wanted::Shared]).await?;
    let mut lent = Lent::between(planes, &["w1"], now).await?;
    lent.virtual_plane.start_controllers_with(&KEEPERS, &SCALED)?;
    chart(&lent.virtual_plane).await?;
    lent.secret("east", &read_to_string(lent.granted("east", &json!({})).await?)?).await?;
    lent.binding("east", json!({"timing": {"orphanDelay": "1s"}})).await?;
    let host = host(&lent.virtual_plane, "one").await?;
    lent.until("vnode-east-w1", "is ready", |node| ready(node) == "True").await;
    let (identity, player) = (lent.identity("east").await?, player(&mut lent, "east", BORROWED).await?);
    // It waits for minutes for its node, as pods do.
    let pod = bound(&lent.virtual_plane, "web", "vnode-east-w1", json!({"spec": {"tolerations": []}})).await?;
    until_pod(&pods(&lent.virtual_plane), "web", "runs", |pod| phase(pod) == "Running").await;
    let twin = |pod: &Pod| super::super::pair::annotation(pod, keys::PHYSICAL_POD_UID).map(str::to_owned);
    let before = until_pod(&pods(&lent.virtual_plane), "web", "has its twin", |pod| twin(pod).is_some()).await;
    assert!(serves(&host).await?);

    // Its store stalls: the API server takes requests, and answers none.
    lent.virtual_plane.signal_etcd(Signal::STOP)?;
    until_lost(&host).await;
    let began = Instant::now();
    tempt(&lent, &identity, "w2", "orphan-2").await?;
    pass(began, LOST).await;
    resisted(&lent, "w2", "orphan-2").await?;
    assert!(!serves(&host).await?);
    lent.virtual_plane.signal_etcd(Signal::CONT)?;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w2"]).await;
    until_gone(&physicals(&lent), "orphan-2").await;

    // It is gone, then both are, and what they would show of the time before is gone from their history.
    lent.virtual_plane.kill_apiserver();
    until_lost(&host).await;
    let began = Instant::now();
    tempt(&lent, &identity, "w3", "orphan-3").await?;
    pass(began, LOST).await;
    resisted(&lent, "w3", "orphan-3").await?;
    lent.physical_plane.kill_apiserver();
    lent.virtual_plane.compact().await?;
    lent.physical_plane.compact().await?;
    let (one, other) = tokio::join!(lent.virtual_plane.start_apiserver(), lent.physical_plane.start_apiserver());
    one.and(other)?;
    lent.until_nodes(&["vnode-east-w1", "vnode-east-w2", "vnode-east-w3"]).await;
    until_gone(&physicals(&lent), "orphan-3").await;
    let is_well = |binding: &Value| says(binding, "Ready", "True", "Ok");
    lent.until_binding("east", "is ready again", is_well).await;
    lent.until("vnode-east-w1", "is ready again", |node| ready(node) == "True").await;

    // What ran runs.
    let after = until_pod(&pods(&lent.virtual_plane), "web", "is well", |pod| phase(pod) == "Running").await;
    assert_eq!((uid(&after), twin(&after)), (uid(&pod), twin(&before)));
    assert!(after.metadata.deletion_timestamp.is_none(), "{after:?}");
    assert_eq!(player.mistakes(), [""; 0]);
    host.stop().await?;
    lent.stop().await
}
