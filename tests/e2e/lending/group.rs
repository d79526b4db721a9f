//! One binding in this process, between two real clusters: nodes are lent, follow their machines, and go.

use anyhow::Result;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use topoloom_sync::keys;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::lending::kubelets::Health;
use topoloom_tests::scene::PATIENCE;

use super::lent::Lent;

/// A pod of the lender on a machine.
async fn foreign(lent: &Lent, name: &str, machine: &str, cpu: &str) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(lent.physical_plane.client(), "default");
    let container = json!({"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}});
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": machine, "containers": [container]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    Ok(())
}

pub(super) fn ready(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    ready.and_then(|ready| ready["status"].as_str()).unwrap_or_default()
}

/// S12, S13: another client breaks the record of what we wrote, and a machine has annotations at the limit of the server. Both are
/// said, neither holds anything up, and what users added stays.
async fn unreadable_and_too_large(lent: &Lent) -> Result<()> {
    let broken = Patch::Merge(json!({"metadata": {"annotations": {keys::EXPECTED_METADATA: "{"}}}));
    lent.lent().patch("vnode-east-w1", &PatchParams::default(), &broken).await?;
    let large = json!({"annotations": {"example.com/large": "x".repeat(255_000)}, "labels": {"zone": "b"}});
    let large = Patch::Merge(json!({"metadata": large}));
    lent.machines().patch("w1", &PatchParams::default(), &large).await?;
    let is_right = |node: &Value| {
        let (labels, annotations) = (&node["metadata"]["labels"], &node["metadata"]["annotations"]);
        let is_whole = annotations[keys::EXPECTED_METADATA].as_str().is_some_and(|record| record.len() > 1);
        is_whole && annotations["example.com/large"].is_null() && labels["zone"] == "b" && labels["team"] == "a"
    };
    lent.until("vnode-east-w1", "has a record again, and what there is room for", is_right).await;
    let events: Api<Event> = Api::all(lent.virtual_plane.client());
    eventually("both are said", PATIENCE, async || {
        let all = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let about = all.into_iter().filter(|event| event.reason.as_deref() == Some("MetadataIncomplete"));
        let said: String = about.filter_map(|event| event.note).collect();
        let is_said = |words: &&str| said.contains(words);
        let words = [keys::EXPECTED_METADATA, "\"example.com/large\": it has 255017 bytes", "at most 262144"];
        if words.iter().all(is_said) { Ok(()) } else { Err(said) }
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_are_lent_shrink_while_the_lender_uses_them_and_go_when_they_are_not_selected() -> Result<()> {
    let lent = Lent::east(&["w1", "w2"], json!({})).await?;
    let node = lent.until("vnode-east-w1", "is ready", |node| ready(node) == "True").await;
    assert_eq!(node["metadata"]["labels"]["rack"], "r1");
    assert_eq!(node["metadata"]["finalizers"], json!([keys::VNODE_FINALIZER]));
    let machine = lent.machines().get("w1").await?;
    let claim = machine.metadata.annotations.and_then(|all| all.get(keys::LEASED_BY).cloned()).unwrap_or_default();
    let binding = lent.bindings().get("east").await?.metadata.uid.unwrap_or_default();
    assert!(claim.ends_with(&format!("/{binding}")), "{claim}");
    let leases: Api<Lease> = Api::namespaced(lent.virtual_plane.client(), "kube-node-lease");
    eventually("both leases are renewed", PATIENCE, async || {
        let all = leases.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let renewed = all.iter().filter(|lease| lease.spec.as_ref().is_some_and(|spec| spec.renew_time.is_some()));
        if renewed.count() == 2 { Ok(()) } else { Err(format!("{}", all.len())) }
    })
    .await;

    // The lender's own pod: smaller at once, and larger when it is gone.
    let whole = node["status"]["allocatable"]["cpu"].as_str().unwrap_or_default().to_owned();
    foreign(&lent, "own", "w1", "1").await?;
    let is_smaller = |node: &Value| node["status"]["allocatable"]["cpu"] != whole.as_str();
    lent.until("vnode-east-w1", "shrinks", is_smaller).await;
    let pods: Api<Pod> = Api::namespaced(lent.physical_plane.client(), "default");
    pods.delete("own", &DeleteParams::default()).await?;
    lent.until("vnode-east-w1", "is as large as before", |node| !is_smaller(node)).await;

    // A user's label and taint stay; the lender's cordon comes along.
    let mine = json!({"metadata": {"labels": {"team": "a"}}});
    lent.lent().patch("vnode-east-w1", &PatchParams::default(), &Patch::Merge(mine)).await?;
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    lent.machines().patch("w1", &PatchParams::default(), &cordon).await?;
    let has_taint = |node: &Value, key: &str| {
        node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == key)
    };
    let cordoned = keys::PHYSICAL_UNSCHEDULABLE_TAINT;
    let node = lent.until("vnode-east-w1", "is cordoned as its machine", |node| has_taint(node, cordoned)).await;
    assert_eq!(node["metadata"]["labels"]["team"], "a");

    // A kubelet that says False lives.
    lent.kubelets.set("w2", Health::NotReady);
    lent.until("vnode-east-w2", "is not ready", |node| ready(node) == "False").await;

    // Nothing is written while nothing changes.
    let before = lent.virtual_plane.requests().await?;
    lent.kubelets.set("w2", Health::Ready);
    lent.until("vnode-east-w2", "is ready", |node| ready(node) == "True").await;
    let written = lent.virtual_plane.requests().await?.since(&before);
    assert_eq!(written.writes("nodes", "status"), 1, "one write for one change");

    unreadable_and_too_large(&lent).await?;

    // The binding is deleted: nodes and claims go, and nothing is left.
    lent.bindings().delete("east", &DeleteParams::default()).await?;
    eventually("no virtual node is left and no machine is claimed", PATIENCE, async || {
        let nodes = lent.lent().list(&ListParams::default()).await.map_err(|error| error.to_string())?.items.len();
        let machines = lent.machines().list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let is_claimed =
            |node: &&Node| node.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(keys::LEASED_BY));
        let claimed = machines.iter().filter(is_claimed).count();
        if nodes == 0 && claimed == 0 { Ok(()) } else { Err(format!("{nodes} nodes, {claimed} claims")) }
    })
    .await;
    lent.stop().await
}
