//! The worked examples of the specification, as the decisions change them.

use anyhow::Result;
use serde_json::json;
use topoloom_tests::scene::{RACKS, Scene};

const EXAMPLE: [&str; 5] = [
    "m4 ex.io/rack=b1 ex.io/spine=s1",
    "m2 ex.io/rack=a7 ex.io/spine=s1",
    "m1 ex.io/rack=a7 ex.io/spine=s1",
    "m9 ex.io/rack=c3",
    "m8 ex.io/spine=s1",
];

const TREE: [&str; 4] = [
    "tier 2 ex.io/spine=s1 (3): ex.io/rack=a7 ex.io/rack=b1",
    "tier 1 ex.io/rack=a7 (2): m1 m2",
    "tier 1 ex.io/rack=b1 (1): m4",
    "tier 1 ex.io/rack=c3 (1): m9",
];

#[tokio::test(flavor = "multi_thread")]
async fn two_levels_become_a_tree_and_a_moved_node_moves_its_rack() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&EXAMPLE).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene.until(&TREE).await;
    let before = scene.stored().await?;
    for object in before.values() {
        let labels = object.metadata.labels.as_ref().unwrap();
        assert_eq!(labels["volcano.sh/network-topology-source"], "label");
        assert!(object.metadata.name.as_ref().unwrap().starts_with("hypernode-gpu-tier"));
        // The name of a tier is the key of the label that the tier comes from.
        let label = if object.spec.tier == 1 { "ex.io/rack" } else { "ex.io/spine" };
        assert_eq!(object.spec.tier_name.as_deref(), Some(label));
        assert!(labels.contains_key(label), "{labels:?}");
    }
    let kept = before
        .values()
        .find(|object| object.metadata.labels.as_ref().unwrap().get("ex.io/rack").is_some_and(|rack| rack == "a7"));
    let kept = kept.unwrap().metadata.clone();

    let revision = scene.plane.revision().await?;
    scene.plane.relabel("m4", "ex.io/rack", "a7").await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=s1 (3): ex.io/rack=a7",
            "tier 1 ex.io/rack=a7 (3): m1 m2 m4",
            "tier 1 ex.io/rack=c3 (1): m9",
        ])
        .await;
    let now = scene.stored().await?;
    assert_eq!(now[kept.name.as_ref().unwrap()].metadata.uid, kept.uid, "rack a7 keeps its object");

    // The order of writes in etcd is safe: the host removed b1 from the spine before it deleted b1.
    let writes = scene.plane.writes_since("/registry/topology.volcano.sh/hypernodes/", revision + 1).await?;
    let b1 = before
        .values()
        .find(|object| object.metadata.labels.as_ref().unwrap().get("ex.io/rack").is_some_and(|rack| rack == "b1"));
    let b1 = b1.unwrap().metadata.name.clone().unwrap();
    let spine = before.values().find(|object| object.spec.tier == 2).unwrap().metadata.name.clone().unwrap();
    let deleted = writes.iter().position(|write| write.key.ends_with(&b1)).expect("b1 was written");
    let released = writes.iter().position(|write| write.key.ends_with(&spine)).expect("the spine was written");
    assert!(released < deleted, "{writes:#?}");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_spine_keeps_its_object_also_when_the_host_was_down() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&EXAMPLE).await?;
    scene.configure(RACKS).await?;
    scene.run_until(&TREE).await?;
    let spine = scene.stored().await?.into_values().find(|object| object.spec.tier == 2).unwrap();
    for node in ["m1", "m2", "m4"] {
        scene.plane.relabel(node, "ex.io/spine", "s2").await?;
    }
    let host = scene.host().await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=s2 (3): ex.io/rack=a7 ex.io/rack=b1",
            "tier 1 ex.io/rack=a7 (2): m1 m2",
            "tier 1 ex.io/rack=b1 (1): m4",
            "tier 1 ex.io/rack=c3 (1): m9",
        ])
        .await;
    let now = scene.stored().await?.into_values().find(|object| object.spec.tier == 2).unwrap();
    assert_eq!(now.metadata.uid, spine.metadata.uid, "the larger part of its members stayed, so does the object");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rack_relabelled_node_by_node_keeps_its_name_at_the_end() -> Result<()> {
    let scene = Scene::new().await?;
    let nodes: Vec<String> = (0..6).map(|i| format!("n{i} ex.io/rack=r ex.io/spine=a")).collect();
    scene.nodes(&nodes.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    scene.nodes(&["x ex.io/rack=q ex.io/spine=a", "y ex.io/rack=p ex.io/spine=b"]).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=a (7): ex.io/rack=q ex.io/rack=r",
            "tier 2 ex.io/spine=b (1): ex.io/rack=p",
            "tier 1 ex.io/rack=p (1): y",
            "tier 1 ex.io/rack=q (1): x",
            "tier 1 ex.io/rack=r (6): n0 n1 n2 n3 n4 n5",
        ])
        .await;
    let name = scene.name_of("ex.io/rack=r").await?;
    for i in 0..6 {
        scene.plane.relabel(&format!("n{i}"), "ex.io/spine", "b").await?;
        let moved: Vec<String> = (0..=i).map(|i| format!("n{i}")).collect();
        let wanted = format!("tier 1 ex.io/rack=r ({}): {}", i + 1, moved.join(" "));
        topoloom_tests::controlplane::eventually(
            "the node has moved",
            std::time::Duration::from_secs(30),
            async || {
                let lines = scene.topology().await.map_err(|error| error.to_string())?;
                if lines.contains(&wanted) { Ok(()) } else { Err(format!("{lines:#?}")) }
            },
        )
        .await;
    }
    scene
        .until(&[
            "tier 2 ex.io/spine=a (1): ex.io/rack=q",
            "tier 2 ex.io/spine=b (7): ex.io/rack=p ex.io/rack=r",
            "tier 1 ex.io/rack=p (1): y",
            "tier 1 ex.io/rack=q (1): x",
            "tier 1 ex.io/rack=r (6): n0 n1 n2 n3 n4 n5",
        ])
        .await;
    assert_eq!(scene.name_of("ex.io/rack=r").await?, name, "the rack that moved keeps its name");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_racks_of_one_label_value_under_two_spines_are_two() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a ex.io/rack=7 ex.io/spine=x", "b ex.io/rack=7 ex.io/spine=y"]).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=x (1): ex.io/rack=7",
            "tier 2 ex.io/spine=y (1): ex.io/rack=7",
            "tier 1 ex.io/rack=7 (1): a",
            "tier 1 ex.io/rack=7 (1): b",
        ])
        .await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn existing_nodes_are_counted_below_every_hyper_node_also_hand_made_ones() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["k1 gpu=a", "k2 gpu=b", "k3"]).await?;
    let exact = |kind: &str, name: &str| json!({"type": kind, "selector": {"exactMatch": {"name": name}}});
    scene
        .put(json!({
            "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "hand"},
            "spec": {"tier": 1, "members": [
                exact("Node", "k1"), exact("Node", "gone"),
                {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"gpu": "b"}}}},
                exact("HyperNode", "k1"),
            ]},
        }))
        .await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 hand (2): ? gone k1 k1"]).await;
    let hand = scene.stored().await?.remove("hand").unwrap();
    let conditions = hand.status.unwrap().conditions;
    assert!(
        conditions.iter().any(|condition| condition.type_ == "MissingMembers" && condition.message.contains("gone"))
    );

    // The host counts again after a Node event, and after a change of a label that only a stored selector reads.
    scene.nodes(&["gone"]).await?;
    scene.plane.relabel("k3", "gpu", "b").await?;
    scene.until(&["tier 1 hand (4): ? gone k1 k1"]).await;
    assert_eq!(scene.stored().await?["hand"].status.as_ref().unwrap().conditions, vec![]);
    host.stop().await
}
