//! The admission policy lets our ServiceAccount change only the annotations of the node lock on Nodes, even if RBAC
//! allows everything.

use anyhow::Result;
use serde_json::json;
use topoloom_tests::chart::USER;

use super::policies::{Fate, allow_everything, check, delete, enforced, installed, patch, post};

const NODES: &str = "/api/v1/nodes";
const NODE: &str = "/api/v1/nodes/n1";

#[tokio::test(flavor = "multi_thread")]
async fn the_host_changes_nothing_on_nodes_but_the_lock() -> Result<()> {
    let (scene, _) = installed(json!({})).await?;
    scene.plane.create_nodes([("n1", [("rack", "a")])]).await?;
    let notes = json!({"metadata": {"annotations": {"note": "old", "hami.io/mutex.lock": "then"}}});
    check(&scene, "what is there", patch(NODE, notes), Fate::Accepted).await;
    allow_everything(&scene, USER).await?;
    let label = json!({"metadata": {"labels": {"rack": "b"}}});
    let refused = Fate::Denied("changes metadata.labels");
    enforced(&scene, patch(NODE, label).dry().by(USER), refused).await;

    let annotations = |all: serde_json::Value| json!({"metadata": {"annotations": all}});
    let rows = [
        ("a lock is taken", annotations(json!({"hami.io/mutex.lock": "now"})), Fate::Accepted),
        ("a lock is released", annotations(json!({"hami.io/mutex.lock": null})), Fate::Accepted),
        (
            "all keys of a lock at once",
            annotations(json!({
                "hami.io/mutex.lock": null, "cambricon.com/dsmlu.lock": "now", "topoloom.dev/node-lock": "{}",
            })),
            Fate::Accepted,
        ),
        ("nothing at all", json!({"metadata": {"labels": {"rack": "a"}}}), Fate::Accepted),
        ("a label is changed", json!({"metadata": {"labels": {"rack": "b"}}}), refused),
        ("a label is added", json!({"metadata": {"labels": {"row": "b"}}}), refused),
        ("a label is removed", json!({"metadata": {"labels": {"rack": null}}}), refused),
        ("all labels are removed", json!({"metadata": {"labels": null}}), refused),
        ("another annotation is changed", annotations(json!({"note": "new"})), Fate::Denied("another annotation")),
        ("another annotation is added", annotations(json!({"more": "new"})), Fate::Denied("another annotation")),
        ("another annotation is removed", annotations(json!({"note": null})), Fate::Denied("another annotation")),
        ("all annotations are removed", annotations(json!(null)), Fate::Denied("another annotation")),
        (
            "a key that only looks like a lock",
            annotations(json!({"hami.io/mutex.lock2": "now"})),
            Fate::Denied("another annotation"),
        ),
        (
            "a lock and another annotation",
            annotations(json!({"hami.io/mutex.lock": "now", "note": "new"})),
            Fate::Denied("another annotation"),
        ),
        (
            "a lock and a label",
            json!({"metadata": {"annotations": {"hami.io/mutex.lock": "now"}, "labels": {"rack": "b"}}}),
            refused,
        ),
        (
            "a taint",
            json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}),
            Fate::Denied("changes spec"),
        ),
        ("a cordon", json!({"spec": {"unschedulable": true}}), Fate::Denied("changes spec")),
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
        let call = patch(NODE, body).dry();
        check(&scene, name, call.clone().by(USER), fate).await;
        // The policy does not apply to other clients.
        check(&scene, name, call, Fate::Accepted).await;
    }
    let status = patch(format!("{NODE}/status"), json!({"status": {"phase": "Running"}})).dry();
    check(&scene, "the status", status.clone().by(USER), Fate::Denied("or write a subresource")).await;
    check(&scene, "the status", status, Fate::Accepted).await;
    let another = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}});
    let fate = Fate::Denied("It must not create, delete or connect");
    for call in [delete(NODE).dry(), post(NODES, another).dry()] {
        check(&scene, "creating and deleting", call.clone().by(USER), fate).await;
        check(&scene, "creating and deleting", call, Fate::Accepted).await;
    }
    scene.plane.stop().await
}
