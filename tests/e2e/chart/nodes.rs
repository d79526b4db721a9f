//! The admission policy lets our ServiceAccount change only the annotations of the node lock on Nodes, even if RBAC
//! allows everything.

use anyhow::Result;
use serde_json::json;
use topoloom_tests::chart::{USER, manifest};

use super::policies::{Fate, check, enforced, installed};

const PATCH: [&str; 5] = ["patch", "node", "n1", "--dry-run=server", "--type=merge"];

#[tokio::test(flavor = "multi_thread")]
async fn the_host_changes_nothing_on_nodes_but_the_lock() -> Result<()> {
    let (scene, _) = installed(json!({})).await?;
    scene.plane.create_nodes([("n1", [("rack", "a")])]).await?;
    scene.plane.kubectl(&["annotate", "node", "n1", "note=old", "hami.io/mutex.lock=then"]).await?;
    let subject = USER.replacen("system:serviceaccount:", "--serviceaccount=", 1);
    scene.plane.kubectl(&["create", "clusterrolebinding", "all", "--clusterrole=cluster-admin", &subject]).await?;
    let us = format!("--as={USER}");
    let us = us.as_str();
    let label = json!({"metadata": {"labels": {"rack": "b"}}}).to_string();
    let refused = Fate::Denied("changes metadata.labels");
    enforced(&scene, &[&PATCH[..], &["-p", &label, us]].concat(), refused).await;

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
    for (name, patch, fate) in rows {
        let patch = patch.to_string();
        check(&scene, name, &[&PATCH[..], &["-p", &patch, us]].concat(), fate).await;
        // The policy does not apply to other clients.
        check(&scene, name, &[&PATCH[..], &["-p", &patch]].concat(), Fate::Accepted).await;
    }
    let status = json!({"status": {"phase": "Running"}}).to_string();
    let words = [&PATCH[..], &["--subresource=status", "-p", &status]].concat();
    let fate = Fate::Denied("or write a subresource");
    check(&scene, "the status", &[&words[..], &[us]].concat(), fate).await;
    check(&scene, "the status", &words, Fate::Accepted).await;
    let node = manifest(&scene, &[json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2"}})])?;
    let fate = Fate::Denied("It must not create, delete or connect");
    for words in [["delete", "node", "n1", "--dry-run=server"], ["create", "-f", &node, "--dry-run=server"]] {
        check(&scene, "creating and deleting", &[&words[..], &[us]].concat(), fate).await;
        check(&scene, "creating and deleting", &words, Fate::Accepted).await;
    }
    scene.plane.stop().await
}
