//! CSINodes of lent nodes, between two real clusters.

use std::fs::read_to_string;
use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use topoloom_sync::keys;
use topoloom_tests::controlplane::{ControlPlane, WriteKind, eventually};
use topoloom_tests::scene::PATIENCE;

use super::group::ready;
use super::lent::{Lent, condition, now, says};

/// The ServiceAccount of the syncer in the physical cluster, and its ClusterRole.
const SYNCER: &str = "syncer";

/// By this annotation the attach-detach controller takes a node for its own.
const MANAGED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

fn driver(name: &str, node_id: &str, topology_keys: &[&str]) -> Value {
    json!({"name": name, "nodeID": node_id, "topologyKeys": topology_keys, "allocatable": {"count": 25}})
}

fn csi_nodes(plane: &ControlPlane) -> Api<CSINode> {
    Api::all(plane.client())
}

async fn make(plane: &ControlPlane, name: &str, drivers: &[Value]) -> Result<CSINode> {
    let object = json!({"metadata": {"name": name}, "spec": {"drivers": drivers}});
    Ok(csi_nodes(plane).create(&PostParams::default(), &serde_json::from_value(object)?).await?)
}

/// Another list of drivers, as a kubelet writes it.
async fn register(plane: &ControlPlane, name: &str, drivers: &[Value]) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"drivers": drivers}}));
    csi_nodes(plane).patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The rule of the ClusterRole [`SYNCER`] for one resource.
pub(super) fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

/// A ClusterRole with these rules.
pub(super) fn role(rules: &[Value]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": SYNCER}, "rules": rules,
    })
}

/// What the syncer needs of a physical cluster beside CSINodes.
pub(super) fn rules() -> Vec<Value> {
    vec![
        rule("", "nodes", &["get", "list", "watch", "patch"]),
        rule("", "pods", &["get", "list", "watch"]),
        rule("", "namespaces", &["get"]),
        rule("coordination.k8s.io", "leases", &["get", "create", "patch", "delete"]),
        rule("topoloom.dev", "resourceleasingpolicies", &["get", "list", "watch"]),
        rule("topoloom.dev", "resourceleasingpolicies/status", &["patch"]),
    ]
}

/// The kubeconfig of an account that may not read CSINodes.
pub(super) async fn limited(plane: &ControlPlane) -> Result<PathBuf> {
    let subject = json!({"kind": "ServiceAccount", "name": SYNCER, "namespace": "default"});
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SYNCER});
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SYNCER, "namespace": "default"},
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": SYNCER},
        "subjects": [subject], "roleRef": role_ref,
    });
    plane.apply(&[account, role(&rules()), binding]).await?;
    plane.kubeconfig_for("default", SYNCER).await
}

/// Waits until a virtual CSINode is as it is wanted.
async fn until(lent: &Lent, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("CSINode {name} {what}"), PATIENCE, async || {
        let node = csi_nodes(&lent.virtual_plane).get(name).await.map_err(|error| error.to_string())?;
        let node = serde_json::to_value(node).map_err(|error| error.to_string())?;
        if is_so(&node) { Ok(node) } else { Err(node.to_string()) }
    })
    .await
}

/// Name and node id of each driver.
fn drivers(node: &Value) -> Vec<(&str, &str)> {
    let all = node["spec"]["drivers"].as_array().into_iter().flatten();
    all.map(|driver| (driver["name"].as_str().unwrap_or_default(), driver["nodeID"].as_str().unwrap_or_default()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn csinodes_follow_those_of_the_machines_and_go_with_their_nodes() -> Result<()> {
    let lent = Lent::east(&["w1", "w2"], json!({"copy": {"labels": {"deny": ["*"]}}})).await?;
    let (ours, theirs) = (&lent.virtual_plane, &lent.physical_plane);
    for name in ["vnode-east-w1", "vnode-east-w2"] {
        let node = lent.until(name, "is ready", |node| ready(node) == "True").await;
        assert_eq!(node["metadata"]["labels"].get("rack"), None, "a rule denies it");
    }
    // The name of one of two is taken.
    let by_hand = make(ours, "vnode-east-w2", &[driver("mine", "m", &[])]).await?;
    make(theirs, "w1", &[driver("ebs", "i-1", &["rack"])]).await?;
    make(theirs, "w2", &[driver("ebs", "i-9", &[])]).await?;

    let made = until(&lent, "vnode-east-w1", "has its driver", |node| drivers(node) == [("ebs", "i-1")]).await;
    let uid = made["metadata"]["uid"].clone();
    assert_eq!(made["spec"]["drivers"][0]["allocatable"]["count"], 25);
    let node = lent
        .until("vnode-east-w1", "has the key of its topology", |node| node["metadata"]["labels"]["rack"] == "r1")
        .await;
    let owner = json!([{
        "apiVersion": "v1", "kind": "Node", "name": "vnode-east-w1", "uid": node["metadata"]["uid"],
    }]);
    assert_eq!(made["metadata"]["ownerReferences"], owner);
    assert_eq!(made["metadata"]["annotations"][keys::PHYSICAL_NODE_NAME], "w1");

    // A driver more, and what a user wrote stays.
    let mine = Patch::Merge(json!({"metadata": {"labels": {"team": "a"}}}));
    csi_nodes(ours).patch("vnode-east-w1", &PatchParams::default(), &mine).await?;
    register(theirs, "w1", &[driver("ebs", "i-1", &["rack"]), driver("nfs", "w1", &[])]).await?;
    let both = |node: &Value| drivers(node) == [("ebs", "i-1"), ("nfs", "w1")];
    until(&lent, "vnode-east-w1", "has both drivers", both).await;

    // Another node id: no API server takes that in one update, and no object is deleted for it.
    let before = ours.revision().await?;
    register(theirs, "w1", &[driver("nfs", "w1", &[])]).await?;
    register(theirs, "w1", &[driver("nfs", "w1", &[]), driver("ebs", "i-2", &["rack"])]).await?;
    let moved = |node: &Value| drivers(node).contains(&("ebs", "i-2"));
    let node = until(&lent, "vnode-east-w1", "has the other node id", moved).await;
    assert_eq!((&node["metadata"]["uid"], &node["metadata"]["labels"]["team"]), (&uid, &json!("a")));
    let writes = ours.writes_since("/registry/csinodes/", before + 1).await?;
    let kinds: Vec<_> = writes.iter().map(|write| (write.key.as_str(), write.kind)).collect();
    assert_eq!(kinds, [("/registry/csinodes/vnode-east-w1", WriteKind::Put); 2]);

    // The one that was made by hand is as it was, and its node says why, once.
    let events: Api<Event> = Api::all(ours.client());
    let about = async || {
        let all = events.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let is_about = |event: &&Event| {
            let regarding = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
            event.reason.as_deref() == Some("NameTaken") && regarding == Some("vnode-east-w2")
        };
        let times = |event: &Event| event.series.as_ref().map_or(1, |series| series.count);
        Ok::<i32, String>(all.iter().filter(is_about).map(times).sum())
    };
    eventually("an Event about the name", PATIENCE, async || match about().await? {
        0 => Err("none".to_owned()),
        _ => Ok(()),
    })
    .await;
    register(theirs, "w2", &[driver("ebs", "i-9", &[]), driver("nfs", "w2", &[])]).await?;
    let mark = Patch::Merge(json!({"metadata": {"labels": {"from": "lender"}}}));
    csi_nodes(theirs).patch("w1", &PatchParams::default(), &mark).await?;
    until(&lent, "vnode-east-w1", "has a label more", |node| node["metadata"]["labels"]["from"] == "lender").await;
    let stays = csi_nodes(ours).get("vnode-east-w2").await?;
    assert_eq!(stays.metadata.resource_version, by_hand.metadata.resource_version);
    assert_eq!(about().await.map_err(anyhow::Error::msg)?, 1);

    // The machine goes, its CSINode is left over in its cluster, and nothing is left here.
    lent.machines().delete("w1", &DeleteParams::default()).await?;
    eventually("neither node nor CSINode is left", PATIENCE, async || {
        let node = lent.lent().get_opt("vnode-east-w1").await.map_err(|error| error.to_string())?.is_some();
        let csi = csi_nodes(ours).get_opt("vnode-east-w1").await.map_err(|error| error.to_string())?.is_some();
        if node || csi { Err(format!("node: {node}, CSINode: {csi}")) } else { Ok(()) }
    })
    .await;
    assert!(csi_nodes(ours).get_opt("vnode-east-w2").await?.is_some());
    lent.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_lent_where_the_right_to_read_csinodes_is_missing_and_csinodes_follow_once_it_is_there() -> Result<()>
{
    let mut lent = Lent::new(&["w1"], now).await?;
    lent.secret("east", &read_to_string(limited(&lent.physical_plane).await?)?).await?;
    lent.binding("east", json!({})).await?;
    lent.serve("east").await?;
    make(&lent.physical_plane, "w1", &[driver("ebs", "i-1", &["rack"])]).await?;
    lent.until("vnode-east-w1", "is ready", |node| ready(node) == "True").await;
    let is_forbidden = |binding: &Value| says(binding, "Ready", "False", "Forbidden");
    let binding = lent.until_binding("east", "misses a right", is_forbidden).await;
    let [_, _, message] = condition(&binding, "Ready");
    assert!(message.contains("resources: [\"csinodes\"], verbs: [\"list\"]} in the physical cluster"), "{message}");
    let all = csi_nodes(&lent.virtual_plane).list(&ListParams::default()).await?.items;
    assert!(all.is_empty(), "{all:?}");

    let mut rules = rules();
    rules.push(rule("storage.k8s.io", "csinodes", &["get", "list", "watch"]));
    lent.physical_plane.apply(&[role(&rules)]).await?;
    until(&lent, "vnode-east-w1", "has its driver", |node| drivers(node) == [("ebs", "i-1")]).await;
    let is_ready = |binding: &Value| says(binding, "Ready", "True", "Ok");
    lent.until_binding("east", "misses nothing any more", is_ready).await;
    lent.stop().await
}

/// A pod on a node with a volume of its own, which is bound as a volume controller would bind it.
async fn pod_with_volume(plane: &ControlPlane, name: &str, node: &str) -> Result<()> {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(plane.client(), "default");
    let volumes: Api<PersistentVolume> = Api::all(plane.client());
    let pods: Api<Pod> = Api::namespaced(plane.client(), "default");
    let modes = json!(["ReadWriteOnce"]);
    let claim = json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": modes, "storageClassName": "", "volumeName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let claim = claims.create(&PostParams::default(), &serde_json::from_value(claim)?).await?;
    let uid = claim.metadata.uid.context("a claim has a UID")?;
    let volume = json!({
        "metadata": {"name": name},
        "spec": {
            "accessModes": modes, "capacity": {"storage": "1Gi"}, "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": "ebs", "volumeHandle": name},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": uid},
        },
    });
    volumes.create(&PostParams::default(), &serde_json::from_value(volume)?).await?;
    let bound = Patch::Merge(json!({
        "status": {"phase": "Bound", "accessModes": modes, "capacity": {"storage": "1Gi"}},
    }));
    claims.patch_status(name, &PatchParams::default(), &bound).await?;
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "none", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
        },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    Ok(())
}

/// The nodes that volumes are to be attached to.
async fn attached(plane: &ControlPlane) -> Result<Vec<String>, kube::Error> {
    let all: Api<VolumeAttachment> = Api::all(plane.client());
    Ok(all.list(&ListParams::default()).await?.items.into_iter().map(|attachment| attachment.spec.node_name).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn s13_no_volume_attachment_is_made_for_a_lent_node_and_garbage_collection_leaves_its_csinode() -> Result<()> {
    let mut lent = Lent::east(&["w1"], json!({})).await?;
    let managed = json!({"metadata": {"annotations": {MANAGED: "true", "example.com/last": "1"}}});
    lent.machines().patch("w1", &PatchParams::default(), &Patch::Merge(managed.clone())).await?;
    make(&lent.physical_plane, "w1", &[driver("ebs", "i-1", &[])]).await?;
    let is_copied = |node: &Value| node["metadata"]["annotations"]["example.com/last"] == "1";
    let node = lent.until("vnode-east-w1", "has the other annotation of its machine", is_copied).await;
    assert_eq!(node["metadata"]["annotations"].get(MANAGED), None);
    let made = until(&lent, "vnode-east-w1", "has its driver", |node| drivers(node) == [("ebs", "i-1")]).await;

    // A node of the virtual cluster itself, which the controller does manage: by it the test sees what the controller does.
    let own = json!({"metadata": {"name": "own", "annotations": managed["metadata"]["annotations"]}});
    let nodes: Api<Node> = Api::all(lent.virtual_plane.client());
    nodes.create(&PostParams::default(), &serde_json::from_value(own)?).await?;
    let controllers = ["persistentvolume-attach-detach-controller", "garbage-collector-controller"];
    lent.virtual_plane.start_controllers(&controllers)?;
    pod_with_volume(&lent.virtual_plane, "on-lent", "vnode-east-w1").await?;
    // Whatever it does for the pod that was there before each of these is done, too.
    for (number, name) in [(1, "first"), (2, "second")] {
        pod_with_volume(&lent.virtual_plane, name, "own").await?;
        eventually(&format!("the volume of {name} is to be attached"), PATIENCE, async || {
            let nodes = attached(&lent.virtual_plane).await.map_err(|error| error.to_string())?;
            let own = nodes.iter().filter(|node| *node == "own").count();
            if own == number { Ok(()) } else { Err(format!("{nodes:?}")) }
        })
        .await;
    }
    assert_eq!(attached(&lent.virtual_plane).await?, ["own", "own"]);

    // The owner of the CSINode is right: what the collector takes is what has none.
    let orphan = json!({
        "metadata": {
            "name": "orphan",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"}],
        },
        "spec": {"drivers": []},
    });
    csi_nodes(&lent.virtual_plane).create(&PostParams::default(), &serde_json::from_value(orphan)?).await?;
    eventually("the collector takes a CSINode without an owner", PATIENCE, async || {
        match csi_nodes(&lent.virtual_plane).get_opt("orphan").await {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err("it is there".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    })
    .await;
    let stays = until(&lent, "vnode-east-w1", "is there", |_| true).await;
    assert_eq!(stays["metadata"]["uid"], made["metadata"]["uid"]);
    lent.stop().await
}
