//! The admission policy lets our ServiceAccount change only the annotations with which the node lock marks Pods, and
//! create only Bindings, even if RBAC allows everything.

use anyhow::Result;
use serde_json::{Value, json};
use topoloom_tests::chart::USER;
use topoloom_tests::scene::Scene;

use super::policies::{Call, Fate, allow_everything, check, delete, enforced, get, installed, patch, post, put};

const PODS: &str = "/api/v1/namespaces/default/pods";
const POD: &str = "/api/v1/namespaces/default/pods/p1";
const REST: Fate = Fate::Denied("It must not create, delete or connect, or write another subresource than a Binding");

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
    check(&scene, "what is there", post(PODS, pod("p1")), Fate::Accepted).await;
    allow_everything(&scene, USER).await?;
    let label = json!({"metadata": {"labels": {"app": "b"}}});
    let refused = Fate::Denied("changes metadata.labels");
    enforced(&scene, patch(POD, label).dry().by(USER), refused).await;

    edits(&scene, refused).await;
    bindings(&scene).await;
    the_node_says_where_it_is(&scene).await?;
    rest(&scene).await?;
    scene.plane.stop().await
}

/// Sends a request as our ServiceAccount, and then as another client, to which the policy does not apply.
async fn of_us(scene: &Scene, name: &str, call: Call, fate: Fate) {
    check(scene, name, call.clone().by(USER), fate).await;
    check(scene, name, call, Fate::Accepted).await;
}

async fn edits(scene: &Scene, refused: Fate) {
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
    for (name, body, fate) in rows {
        of_us(scene, name, patch(POD, body).dry(), fate).await;
    }
}

/// The API server writes the annotations and labels of a Binding onto the Pod, without an update that admission would
/// see.
async fn bindings(scene: &Scene) {
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
    for (name, metadata, fate) in rows {
        of_us(scene, name, post(format!("{POD}/binding"), binding(metadata)).dry(), fate).await;
    }
    // An older resource creates a Binding, too, and there the API server corrects no label.
    let older = post("/api/v1/namespaces/default/bindings", binding(json!({}))).dry();
    of_us(scene, "the older resource", older, REST).await;
}

/// A Binding has another zone than its node: the API server writes the zone of the node onto the pod.
async fn the_node_says_where_it_is(scene: &Scene) -> Result<()> {
    check(scene, "a pod", post(PODS, pod("p3")), Fate::Accepted).await;
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "p3", "namespace": "default", "labels": {"topology.kubernetes.io/zone": "b"}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    });
    let call = post(format!("{PODS}/p3/binding"), binding).by(USER);
    check(scene, "a Binding with the zone of another node", call, Fate::Accepted).await;
    let stored = get(format!("{PODS}/p3")).send(&scene.plane.client()).await?;
    assert_eq!(stored["metadata"]["labels"], json!({"app": "a", "topology.kubernetes.io/zone": "a"}));
    Ok(())
}

async fn rest(scene: &Scene) -> Result<()> {
    let mut whole = get(POD).send(&scene.plane.client()).await?;
    whole["spec"]["ephemeralContainers"] = json!([{"name": "debug", "image": "example/debug"}]);
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p1", "namespace": "default"}});
    let rows = [
        ("the status", patch(format!("{POD}/status"), json!({"status": {"message": "mine"}}))),
        ("a deletion", delete(POD)),
        ("another pod", post(PODS, pod("p2"))),
        ("a container to look into it", put(format!("{POD}/ephemeralcontainers"), whole)),
        ("an eviction", post(format!("{POD}/eviction"), eviction)),
    ];
    for (name, call) in rows {
        of_us(scene, name, call.dry(), REST).await;
    }
    // No kubelet runs the pod, so this request would fail for other clients, too: the test does not send theirs.
    let enter = post(format!("{POD}/exec?command=true"), pod("p2")).by(USER);
    check(scene, "a command inside", enter, REST).await;
    Ok(())
}
