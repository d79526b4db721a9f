//! The policy that protects the HyperNodes of a source from other clients.

use anyhow::Result;
use serde_json::{Value, json};
use topoloom_api::names::SOURCE_LABEL;
use topoloom_tests::chart::{self, USER};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::{CONFIG_MAP, NAMESPACE, PATIENCE, RACKS, Scene, by_hand};

use super::policies::{Call, Fate, allow_everything, check, delete, enforced, installed, patch};

const EDIT: Fate = Fate::Denied("its spec and labels must not be changed by hand");
const OWNERS: Fate = Fate::Denied("its owners and finalizers must not be changed by hand");
const DELETE: Fate = Fate::Denied("must not be deleted by hand");
const ALICE: &str = "alice";
const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";

fn hyper_node(name: &str) -> String {
    format!("/apis/topology.volcano.sh/v1alpha1/hypernodes/{name}")
}

/// A deletion that is only tried.
fn deletion(name: &str, user: &str) -> Call {
    delete(hyper_node(name)).dry().by(user)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_a_source_is_changed_by_no_one_else() -> Result<()> {
    let values = json!({"admission": {"protection": {
        "enabled": true, "groups": ["ops"],
        "users": ["system:serviceaccount:kube-system:generic-garbage-collector"],
    }}});
    let (scene, _) = installed(values).await?;
    let mut own = by_hand("own", 1, "Node", &["a"]);
    own["metadata"]["labels"] = json!({SOURCE_LABEL: "label", "rack": "a"});
    scene.put(own).await?;
    scene.put(by_hand("foreign", 1, "Node", &["a"])).await?;
    for user in [ALICE, "bob", USER, COLLECTOR] {
        allow_everything(&scene, user).await?;
    }
    enforced(&scene, deletion("own", ALICE), DELETE).await;

    let tier = json!({"spec": {"tier": 2}});
    let glass = json!({"metadata": {"annotations": {"topoloom.dev/break-glass": "a switch burns"}}});
    let both = json!({"metadata": glass["metadata"], "spec": {"tier": 2}});
    let empty = json!({"metadata": {"annotations": {"topoloom.dev/break-glass": ""}}, "spec": {"tier": 2}});
    let owner = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "8d4a1b1e-0000-4000-8000-000000000000"},
    ]}});
    let rows: [(&str, &str, &str, &Value, Fate); 16] = [
        ("the spec", "own", ALICE, &tier, EDIT),
        ("a label", "own", ALICE, &json!({"metadata": {"labels": {"rack": "b"}}}), EDIT),
        ("a new label", "own", ALICE, &json!({"metadata": {"labels": {"row": "b"}}}), EDIT),
        ("the label of the source", "own", ALICE, &json!({"metadata": {"labels": {SOURCE_LABEL: null}}}), EDIT),
        ("all labels", "own", ALICE, &json!({"metadata": {"labels": null}}), EDIT),
        // The policy lets the garbage collector delete, and it would delete an object whose owner is gone.
        ("an owner that is gone", "own", ALICE, &owner, OWNERS),
        ("a finalizer", "own", ALICE, &json!({"metadata": {"finalizers": ["example.com/mine"]}}), OWNERS),
        ("an owner of an object without a source", "foreign", ALICE, &owner, Fate::Accepted),
        ("an annotation", "own", ALICE, &json!({"metadata": {"annotations": {"note": "x"}}}), Fate::Accepted),
        ("nothing", "own", ALICE, &json!({"spec": {"tier": 1}}), Fate::Accepted),
        ("an object without a source", "foreign", ALICE, &tier, Fate::Accepted),
        (
            "an object that is given to a source",
            "foreign",
            ALICE,
            &json!({"metadata": {"labels": {SOURCE_LABEL: "label"}}}),
            Fate::Accepted,
        ),
        ("a broken glass", "own", ALICE, &both, Fate::Accepted),
        ("a broken glass without a reason", "own", ALICE, &empty, EDIT),
        ("the host", "own", USER, &tier, Fate::Accepted),
        ("the garbage collector", "own", COLLECTOR, &tier, Fate::Accepted),
    ];
    for (name, object, who, body, fate) in rows {
        check(&scene, name, patch(hyper_node(object), body.clone()).dry().by(who), fate).await;
    }
    // The policy allows the group `ops`.
    let by_bob = patch(hyper_node("own"), tier).dry().by("bob");
    check(&scene, "a user without a group", by_bob.clone(), EDIT).await;
    check(&scene, "a group that may", by_bob.in_group("ops"), Fate::Accepted).await;
    let status = patch(hyper_node("own") + "/status", json!({"status": {"nodeCount": 7}}));
    check(&scene, "the status", status.dry().by(ALICE), Fate::Accepted).await;

    for (who, fate) in [(ALICE, DELETE), (USER, Fate::Accepted), (COLLECTOR, Fate::Accepted)] {
        check(&scene, "a deletion", deletion("own", who), fate).await;
    }
    check(&scene, "another's deletion", deletion("foreign", ALICE), Fate::Accepted).await;
    // A user has to set the annotation `break-glass` before the deletion.
    check(&scene, "the glass is broken", patch(hyper_node("own"), glass).by(ALICE), Fate::Accepted).await;
    enforced(&scene, deletion("own", ALICE), Fate::Accepted).await;
    check(&scene, "the deletion", delete(hyper_node("own")).by(ALICE), Fate::Accepted).await;
    scene.plane.stop().await
}

/// The status codes of the answers to a user's deletions of a HyperNode.
fn deletions(scene: &Scene, name: &str, user: &str) -> Result<Vec<i64>> {
    let log = scene.plane.audit_log()?;
    let theirs = log.iter().filter(|event| {
        let object = &event["objectRef"];
        let is_it = object["resource"] == "hypernodes" && object["name"] == name;
        is_it && event["verb"] == "delete" && event["user"]["username"] == user
    });
    Ok(theirs.filter_map(|event| event["responseStatus"]["code"].as_i64()).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_real_garbage_collector_deletes_what_no_one_else_may_and_the_namespace_of_the_chart_can_go() -> Result<()> {
    let mut scene = Scene::audited().await?;
    // At first the policy allows only the host.
    chart::install(&scene, json!({"admission": {"protection": {"enabled": true, "users": []}}})).await?;
    scene.configure(RACKS).await?;
    allow_everything(&scene, ALICE).await?;
    let owner = scene.put(by_hand("owner", 2, "Node", &["a"])).await?;
    let mut own = by_hand("own", 1, "Node", &["a"]);
    own["metadata"]["labels"] = json!({SOURCE_LABEL: "label"});
    scene.put(own).await?;
    enforced(&scene, deletion("own", ALICE), DELETE).await;
    // With the annotation `break-glass` alice adds an owner. The second patch removes the annotation again.
    let owned = json!({"metadata": {
        "annotations": {"topoloom.dev/break-glass": "it goes with its owner"},
        "ownerReferences": [{
            "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "name": "owner", "uid": owner.metadata.uid,
        }],
    }});
    let closed = json!({"metadata": {"annotations": {"topoloom.dev/break-glass": null}}});
    for body in [owned, closed] {
        check(&scene, "it gets an owner", patch(hyper_node("own"), body).by(ALICE), Fate::Accepted).await;
    }
    scene.plane.start_controllers(&["garbage-collector-controller", "namespace-controller"])?;
    check(&scene, "its owner goes", delete(hyper_node("owner")).by(ALICE), Fate::Accepted).await;
    let answered = async |code: i64| {
        eventually(&format!("the garbage collector is answered {code}"), PATIENCE, async || {
            let answers = deletions(&scene, "own", COLLECTOR).map_err(|error| error.to_string())?;
            if answers.contains(&code) { Ok(()) } else { Err(format!("{answers:?}")) }
        })
        .await;
    };
    answered(403).await;
    check(&scene, "another's deletion", delete(hyper_node("own")).by(ALICE), DELETE).await;
    // The default values of the chart name the garbage collector.
    chart::install(&scene, json!({"admission": {"protection": {"enabled": true}}})).await?;
    answered(200).await;
    assert_eq!(scene.stored().await?.len(), 0);

    // No object of the chart blocks the deletion of its namespace.
    scene.plane.kubectl(&["get", "configmap", CONFIG_MAP, "-n", NAMESPACE]).await?;
    scene.plane.kubectl(&["delete", "namespace", NAMESPACE, "--timeout=60s"]).await?;
    assert!(scene.plane.kubectl(&["get", "namespace", NAMESPACE]).await.is_err());
    scene.plane.stop().await
}
