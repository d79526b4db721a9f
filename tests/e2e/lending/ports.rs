//! Host ports of the lender's pods, between two real clusters: the virtual scheduler does not place a pod that wants one.

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use topoloom_sync::keys;
use topoloom_tests::controlplane::{WriteKind, eventually};
use topoloom_tests::scene::PATIENCE;

use super::accounts::replica_with;
use super::group::ready;
use super::lent::{Lent, now};
use super::pair::namespace;
use super::{condition, until_gone, until_pod};

const NODE: &str = "vnode-east-w1";

/// A pod of the lender on `w1` that holds this port.
async fn holds(lent: &Lent, name: &str, port: u16) -> Result<()> {
    let ports = json!([{"containerPort": port, "hostPort": port}]);
    let spec = json!({"nodeName": "w1", "containers": [{"name": "c", "image": "none", "ports": ports}]});
    let pod = json!({"metadata": {"name": name}, "spec": spec});
    let pods: Api<Pod> = Api::default_namespaced(lent.physical_plane.client());
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    Ok(())
}

/// A pod of the virtual cluster that wants this port, and may be on lent nodes.
async fn wants(pods: &Api<Pod>, name: &str, port: u16) -> Result<()> {
    let ports = json!([{"containerPort": port, "hostPort": port}]);
    let spec = json!({
        "tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": "none", "ports": ports}],
    });
    let pod = json!({"metadata": {"name": name}, "spec": spec});
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    Ok(())
}

/// Waits until the scheduler has said that no node has the port that a pod wants.
async fn until_refused(pods: &Api<Pod>, name: &str) {
    let says = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let scheduled = conditions.filter(|condition| condition.type_ == "PodScheduled");
        let mut messages = scheduled.filter_map(|condition| condition.message.as_deref());
        messages.any(|message| message.contains("didn't have free ports"))
    };
    let pod = until_pod(pods, name, "finds no free port", says).await;
    assert_eq!(pod.spec.and_then(|spec| spec.node_name), None);
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// The ports of the placeholders, each with its name, once they are these and say that they are scheduled.
async fn until_held(placeholders: &Api<Pod>, wanted: &[i32]) -> Vec<(i32, String)> {
    eventually(&format!("the ports {wanted:?} are held"), PATIENCE, async || {
        let pods = placeholders.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let held = |pod: &Pod| -> Option<(i32, String)> {
            let ports = pod.spec.as_ref()?.containers.first()?.ports.as_ref()?;
            let is_there = node_of(pod) == Some(NODE) && condition(pod, "PodScheduled") == "True";
            is_there.then_some((ports.first()?.host_port?, pod.metadata.name.clone()?))
        };
        let mut all: Vec<(i32, String)> = pods.iter().filter_map(held).collect();
        all.sort();
        let ports: Vec<i32> = all.iter().map(|(port, _)| *port).collect();
        if ports == wanted && pods.len() == wanted.len() {
            Ok(all)
        } else {
            Err(format!("{ports:?} of {}", pods.len()))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn section_11_2_a_host_port_that_the_lender_uses_is_taken_for_the_virtual_scheduler_until_it_is_free()
-> Result<()> {
    let mut lent = Lent::new(&["w1"], now).await?;
    namespace(&lent.virtual_plane, keys::HOST_PORT_NAMESPACE).await?;
    let scheduler = lent.virtual_plane.scheduler(&[]).await?;
    holds(&lent, "web", 8080).await?;
    holds(&lent, "exporter", 9100).await?;
    replica_with(&lent.virtual_plane, json!({"hostPorts": true})).await?;
    lent.bind("east", json!({"hostPorts": "mirror"})).await?;
    lent.until(NODE, "is ready", |node| ready(node) == "True").await;
    let placeholders: Api<Pod> = Api::namespaced(lent.virtual_plane.client(), keys::HOST_PORT_NAMESPACE);
    let held = until_held(&placeholders, &[8080, 9100]).await;

    let pods: Api<Pod> = Api::default_namespaced(lent.virtual_plane.client());
    wants(&pods, "metrics", 9100).await?;
    wants(&pods, "site", 8080).await?;
    until_refused(&pods, "metrics").await;
    until_refused(&pods, "site").await;

    // One port is free, and the other one stays taken: kube-scheduler forgets the ports of every pod that goes.
    let physical: Api<Pod> = Api::default_namespaced(lent.physical_plane.client());
    physical.delete("exporter", &DeleteParams::default()).await?;
    until_pod(&pods, "metrics", "is on the lent node", |pod| node_of(pod) == Some(NODE)).await;
    let left = until_held(&placeholders, &[8080]).await;
    assert_eq!(left, held[..1]);
    wants(&pods, "shop", 8080).await?;
    until_refused(&pods, "shop").await;
    assert_eq!(node_of(&pods.get("site").await?), None);
    // It was made and marked, and not written because of the other one.
    let key = format!("/registry/pods/{}/{}", keys::HOST_PORT_NAMESPACE, held[0].1);
    let writes = lent.virtual_plane.writes_in_order(&key).await?;
    assert_eq!(writes.iter().filter(|write| write.kind == WriteKind::Put).count(), 2, "{writes:#?}");

    // Not mirrored any more.
    let off = Patch::Merge(json!({"spec": {"hostPorts": "off"}}));
    lent.bindings().patch("east", &PatchParams::default(), &off).await?;
    until_gone(&placeholders, &held[0].1).await;
    eventually("one of two pods has the port", PATIENCE, async || {
        let mut placed = Vec::new();
        for name in ["site", "shop"] {
            let pod = pods.get(name).await.map_err(|error| error.to_string())?;
            placed.extend((node_of(&pod) == Some(NODE)).then_some(name));
        }
        if placed.len() == 1 { Ok(()) } else { Err(format!("{placed:?}")) }
    })
    .await;
    // Before another test gets its control plane.
    drop(scheduler);
    lent.stop().await
}
