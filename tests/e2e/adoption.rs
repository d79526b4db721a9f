//! Objects that another controller made keep their names and UIDs.

use anyhow::Result;
use serde_json::json;
use topoloom_tests::scene::{RACKS, Scene};

fn made_by_volcano(name: &str, tier: u32, key: &str, value: &str, kind: &str, members: &[&str]) -> serde_json::Value {
    let members: Vec<_> =
        members.iter().map(|name| json!({"type": kind, "selector": {"exactMatch": {"name": name}}})).collect();
    json!({
        "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
        "metadata": {"name": name, "labels": {key: value, "volcano.sh/network-topology-source": "label"}},
        "spec": {"tier": tier, "tierName": key, "members": members},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_made_by_volcano_keep_their_names_and_uids() -> Result<()> {
    let scene = Scene::new().await?;
    scene
        .nodes(&["m1 ex.io/rack=a ex.io/spine=s", "m2 ex.io/rack=a ex.io/spine=s", "m3 ex.io/rack=b ex.io/spine=s"])
        .await?;
    for object in [
        made_by_volcano("hypernode-gpu-tier1-bcdfg", 1, "ex.io/rack", "a", "Node", &["m1"]),
        made_by_volcano("hypernode-gpu-tier1-hjklm", 1, "ex.io/rack", "b", "Node", &["m3"]),
        made_by_volcano(
            "hypernode-gpu-tier2-npqrs",
            2,
            "ex.io/spine",
            "s",
            "HyperNode",
            &["hypernode-gpu-tier1-bcdfg", "hypernode-gpu-tier1-hjklm"],
        ),
    ] {
        scene.put(object).await?;
    }
    let before = scene.stored().await?;
    // Volcano leaves out a type with a mistake, so a document can have one for years.
    let document = format!("{RACKS}      bad:\n      - nodeLabel: ex.io/block\n      - nodeLabel: ex.io/block\n");
    scene.configure(&document).await?;
    let host = scene.host().await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=s (3): ex.io/rack=a ex.io/rack=b",
            "tier 1 ex.io/rack=a (2): m1 m2",
            "tier 1 ex.io/rack=b (1): m3",
        ])
        .await;
    scene.until_condition("label", "Applied", "True", "Ok").await;
    let said = scene.until_condition("label", "Configured", "True", "Ok").await;
    assert!(said.contains("type \"bad\" is left out") && said.contains("is in this list already"), "{said}");
    let after = scene.stored().await?;
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (name, object) in &before {
        assert_eq!(object.metadata.uid, after[name].metadata.uid, "{name}");
        assert!(after[name].metadata.annotations.as_ref().unwrap().contains_key("topoloom.dev/group-id"));
    }
    host.stop().await?;
    // After a restart the host still knows that these objects belong to the source.
    scene.nodes(&["m4 ex.io/rack=b ex.io/spine=s"]).await?;
    let host = scene.host().await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=s (4): ex.io/rack=a ex.io/rack=b",
            "tier 1 ex.io/rack=a (2): m1 m2",
            "tier 1 ex.io/rack=b (2): m3 m4",
        ])
        .await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_others_are_never_touched() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["m1 ex.io/rack=a", "m2 ex.io/rack=b"]).await?;
    let mut foreign = made_by_volcano("foreign", 1, "ex.io/rack", "a", "Node", &["m1"]);
    foreign["metadata"]["labels"]["volcano.sh/network-topology-source"] = json!("ufm");
    scene.put(foreign).await?;
    let mut hand = made_by_volcano("by-hand", 1, "ex.io/rack", "b", "Node", &["m2"]);
    hand["metadata"]["labels"].as_object_mut().unwrap().remove("volcano.sh/network-topology-source");
    scene.put(hand).await?;
    let before = scene.stored().await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene
        .until(&[
            "tier 1 ex.io/rack=a (1): m1",
            "tier 1 ex.io/rack=a (1): m1",
            "tier 1 ex.io/rack=b (1): m2",
            "tier 1 ex.io/rack=b (1): m2",
        ])
        .await;
    let after = scene.stored().await?;
    for name in ["foreign", "by-hand"] {
        assert_eq!(before[name].spec, after[name].spec);
        assert_eq!(before[name].metadata.labels, after[name].metadata.labels);
        assert_eq!(before[name].metadata.annotations, after[name].metadata.annotations);
    }
    host.stop().await
}
