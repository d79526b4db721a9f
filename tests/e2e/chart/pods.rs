//! The admission policy lets our ServiceAccount change only the annotations with which the node lock marks Pods, and
//! create only Bindings, even if RBAC allows everything.

use anyhow::Result;
use serde_json::{Value, json};
use topoloom_tests::chart::{USER, manifest};
use topoloom_tests::scene::Scene;

use super::policies::{Fate, check, enforced, installed};

const PATCH: [&str; 5] = ["patch", "pod", "p1", "--dry-run=server", "--type=merge"];
const REST: Fate = Fate::Denied("It must not create, delete or connect, or write another subresource than a Binding");

/// Writes one object into a file, for requests that kubectl sends unchanged.
fn file(scene: &Scene, name: &str, object: &Value) -> Result<String> {
    let path = scene.plane.folder().join(name);
    std::fs::write(&path, object.to_string())?;
    Ok(path.to_string_lossy().into_owned())
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "labels": {"app": "a"},
            "annotations": {"note": "old", "hami.io/bind-phase": "allocating"},
        },
        "spec": {"containers": [{"name": "main", "image": "example/main"}]},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_marks_and_binds_pods_and_does_nothing_else_to_them() -> Result<()> {
    let (scene, _) = installed(json!({})).await?;
    // At a Binding the API server gives the Pod the zone of its node.
    scene.plane.create_nodes([("n1", [("topology.kubernetes.io/zone", "a")])]).await?;
    scene.plane.kubectl(&["create", "-f", &manifest(&scene, &[pod("p1")])?]).await?;
    let subject = USER.replacen("system:serviceaccount:", "--serviceaccount=", 1);
    scene.plane.kubectl(&["create", "clusterrolebinding", "all", "--clusterrole=cluster-admin", &subject]).await?;
    let us = format!("--as={USER}");
    let us = us.as_str();
    let label = json!({"metadata": {"labels": {"app": "b"}}}).to_string();
    let refused = Fate::Denied("changes metadata.labels");
    enforced(&scene, &[&PATCH[..], &["-p", &label, us]].concat(), refused).await;

    edits(&scene, us, refused).await;
    bindings(&scene, us).await?;
    the_node_says_where_it_is(&scene, us).await?;
    rest(&scene, us).await?;
    scene.plane.stop().await
}

async fn edits(scene: &Scene, us: &str, refused: Fate) {
    let annotations = |all: Value| json!({"metadata": {"annotations": all}});
    let another = Fate::Denied("This write changes another annotation");
    let rows = [
        ("a pod loses its lock", annotations(json!({"topoloom.dev/lock-revoked": "now"})), Fate::Accepted),
        (
            "an attempt that failed",
            annotations(json!({"topoloom.dev/lock-revoked": "now", "hami.io/bind-phase": "failed"})),
            Fate::Accepted,
        ),
        ("a mark is taken away", annotations(json!({"hami.io/bind-phase": null})), Fate::Accepted),
        ("nothing at all", json!({"metadata": {"labels": {"app": "a"}}}), Fate::Accepted),
        ("another annotation is changed", annotations(json!({"note": "new"})), another),
        ("another annotation is added", annotations(json!({"hami.io/bind-time": "1"})), another),
        ("another annotation is removed", annotations(json!({"note": null})), another),
        ("all annotations are removed", annotations(json!(null)), another),
        ("a key that only looks like a mark", annotations(json!({"topoloom.dev/lock-revoked2": "now"})), another),
        (
            "a mark and another annotation",
            annotations(json!({"topoloom.dev/lock-revoked": "now", "note": "new"})),
            another,
        ),
        ("a label is changed", json!({"metadata": {"labels": {"app": "b"}}}), refused),
        ("a label is added", json!({"metadata": {"labels": {"row": "b"}}}), refused),
        ("all labels are removed", json!({"metadata": {"labels": null}}), refused),
        (
            "a mark and a label",
            json!({"metadata": {"annotations": {"topoloom.dev/lock-revoked": "now"}, "labels": {"app": "b"}}}),
            refused,
        ),
        (
            "another image",
            json!({"spec": {"containers": [{"name": "main", "image": "example/other"}]}}),
            Fate::Denied("This write changes spec"),
        ),
        ("a deadline", json!({"spec": {"activeDeadlineSeconds": 60}}), Fate::Denied("This write changes spec")),
        (
            "a finalizer",
            json!({"metadata": {"finalizers": ["example.com/mine"]}}),
            Fate::Denied("changes metadata.finalizers"),
        ),
        (
            "an owner",
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "o", "uid": "u"}]}}),
            Fate::Denied("changes metadata.ownerReferences"),
        ),
    ];
    for (name, patch, fate) in rows {
        let patch = patch.to_string();
        check(scene, name, &[&PATCH[..], &["-p", &patch, us]].concat(), fate).await;
        // The policy does not apply to other clients.
        check(scene, name, &[&PATCH[..], &["-p", &patch]].concat(), Fate::Accepted).await;
    }
}

/// The API server writes the annotations and labels of a Binding onto the Pod, without an update that admission would
/// see.
async fn bindings(scene: &Scene, us: &str) -> Result<()> {
    let binding = |metadata: Value| {
        let mut binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p1", "namespace": "default"},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        });
        topoloom_tests::chart::merge(&mut binding["metadata"], metadata);
        binding
    };
    let marks = json!({"hami.io/bind-phase": "allocating", "hami.io/bind-time": "1785564600"});
    let another = Fate::Denied("This Binding has another annotation than hami.io/bind-phase, hami.io/bind-time");
    let label =
        Fate::Denied("This Binding has another label than topology.kubernetes.io/zone, topology.kubernetes.io/region");
    let place = |key: &str| json!({"labels": {format!("topology.kubernetes.io/{key}"): "b"}});
    let rows = [
        ("a Binding", json!({}), Fate::Accepted),
        ("a Binding as the extender sends it", json!({"annotations": marks}), Fate::Accepted),
        ("a Binding with another annotation", json!({"annotations": {"note": "new"}}), another),
        ("a Binding that marks a pod", json!({"annotations": {"topoloom.dev/lock-revoked": "now"}}), another),
        (
            "a Binding with a place as its annotation",
            json!({"annotations": {"topology.kubernetes.io/zone": "b"}}),
            another,
        ),
        ("a Binding with a label", json!({"labels": {"app": "b"}}), label),
        ("a Binding with a label that the API server never copies", place("rack"), label),
        ("a Binding with a label that looks like a zone", place("zone2"), label),
        ("a Binding with the zone that the API server puts right", place("zone"), Fate::Accepted),
    ];
    let subresource = "/api/v1/namespaces/default/pods/p1/binding?dryRun=All";
    for (name, metadata, fate) in rows {
        let file = file(scene, "binding.json", &binding(metadata))?;
        let words = ["create", "--raw", subresource, "-f", &file];
        check(scene, name, &[&words[..], &[us]].concat(), fate).await;
        check(scene, name, &words, Fate::Accepted).await;
    }
    // An older resource creates a Binding, too, and there the API server corrects no label.
    let file = file(scene, "binding.json", &binding(json!({})))?;
    let words = ["create", "--raw", "/api/v1/namespaces/default/bindings?dryRun=All", "-f", &file];
    check(scene, "the older resource", &[&words[..], &[us]].concat(), REST).await;
    check(scene, "the older resource", &words, Fate::Accepted).await;
    Ok(())
}

/// A Binding has another zone than its node: the API server writes the zone of the node onto the pod.
async fn the_node_says_where_it_is(scene: &Scene, us: &str) -> Result<()> {
    scene.plane.kubectl(&["create", "-f", &manifest(scene, &[pod("p3")])?]).await?;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "p3", "namespace": "default", "labels": {"topology.kubernetes.io/zone": "b"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    });
    let file = file(scene, "binding.json", &binding)?;
    let words = ["create", "--raw", "/api/v1/namespaces/default/pods/p3/binding", "-f", &file, us];
    check(scene, "a Binding with the zone of another node", &words, Fate::Accepted).await;
    let stored: Value = serde_json::from_str(&scene.plane.kubectl(&["get", "pod", "p3", "-o", "json"]).await?)?;
    assert_eq!(stored["metadata"]["labels"], json!({"app": "a", "topology.kubernetes.io/zone": "a"}));
    Ok(())
}

async fn rest(scene: &Scene, us: &str) -> Result<()> {
    let status = json!({"status": {"message": "mine"}}).to_string();
    let status = [&PATCH[..], &["--subresource=status", "-p", &status]].concat();
    let delete = vec!["delete", "pod", "p1", "--dry-run=server"];
    let other = manifest(scene, &[pod("p2")])?;
    let create = vec!["create", "-f", &other, "--dry-run=server"];
    let whole = scene.plane.kubectl(&["get", "pod", "p1", "-o", "json"]).await?;
    let mut whole: Value = serde_json::from_str(&whole)?;
    whole["spec"]["ephemeralContainers"] = json!([{"name": "debug", "image": "example/debug"}]);
    let debug = file(scene, "debug.json", &whole)?;
    let debug =
        vec!["replace", "--raw", "/api/v1/namespaces/default/pods/p1/ephemeralcontainers?dryRun=All", "-f", &debug];
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p1", "namespace": "default"}});
    let evict = file(scene, "eviction.json", &eviction)?;
    let evict = vec!["create", "--raw", "/api/v1/namespaces/default/pods/p1/eviction?dryRun=All", "-f", &evict];
    let rows = [
        ("the status", status),
        ("a deletion", delete),
        ("another pod", create),
        ("a container to look into it", debug),
        ("an eviction", evict),
    ];
    for (name, words) in rows {
        check(scene, name, &[&words[..], &[us]].concat(), REST).await;
        check(scene, name, &words, Fate::Accepted).await;
    }
    // No kubelet runs the pod, so this request would fail for other clients, too: the test does not send theirs.
    let enter = ["create", "--raw", "/api/v1/namespaces/default/pods/p1/exec?command=true", "-f", &other, us];
    check(scene, "a command inside", &enter, REST).await;
    Ok(())
}
