//! Annotations of nodes, as the collector writes them.

use anyhow::Result;
use topoloom_tests::scene::Scene;

use super::super::rig::document;
use super::rig::{annotate, heard, now, plain, run, until, until_reported};

/// Two units on two rails: nodes of the first have switches 1 and 2 as LLDP neighbours, nodes of the second 11 and 12.
const NODES: [(&str, [u8; 2]); 6] =
    [("a1", [1, 2]), ("a2", [1, 2]), ("a3", [1, 2]), ("b1", [11, 12]), ("b2", [11, 12]), ("b3", [11, 12])];

async fn scene() -> Result<Scene> {
    let scene = Scene::new().await?;
    for (node, _) in NODES {
        scene.nodes(&[node]).await?;
    }
    Ok(scene)
}

/// The annotation of a node with one LLDP neighbour on each of its two rails.
fn rails(node: &str, [first, second]: [u8; 2]) -> String {
    heard(node, &[("rdma0", first), ("rdma1", second)])
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_where_their_annotations_say() -> Result<()> {
    let scene = scene().await?;
    for (node, switches) in NODES {
        annotate(&scene, node, Some(&rails(node, switches))).await?;
    }
    scene.configure(&document(&[plain("downGrace: 0s")])).await?;
    let host = scene.host().await?;
    until(&scene, &["tier 1 (3): a1 a2 a3", "tier 1 (3): b1 b2 b3"]).await;

    // The node a3 moves to the other unit: no one requests a round, the annotation starts it.
    annotate(&scene, "a3", Some(&rails("a3", [11, 12]))).await?;
    until(&scene, &["tier 1 (2): a1 a2", "tier 1 (4): a3 b1 b2 b3"]).await;

    // A new time or another order of interfaces leads to no write.
    let before = scene.stored().await?;
    let calm = scene.plane.requests().await?;
    annotate(&scene, "a3", Some(&heard("a3", &[("rdma1", 12), ("rdma0", 11)]))).await?;
    run(&scene).await?;
    scene.until_condition("roce", "Discovered", "True", "Ok").await;
    assert_eq!(scene.writes_since(&calm).await?, (0, 0));

    // One wrong cable moves no host, and the source reports it.
    annotate(&scene, "b2", Some(&heard("b2", &[("rdma0", 11), ("rdma1", 12), ("rdma2", 1)]))).await?;
    run(&scene).await?;
    let said = until_reported(&scene, "miscabled-host").await;
    assert!(said.contains("b2") && said.contains("leaf-1"), "{said}");
    annotate(&scene, "b2", Some(&rails("b2", [11, 12]))).await?;
    run(&scene).await?;
    until(&scene, &["tier 1 (2): a1 a2", "tier 1 (4): a3 b1 b2 b3"]).await;
    let now = scene.stored().await?;
    assert!(before.keys().eq(now.keys()), "the groups are the same objects: {now:#?}");

    // A node without the annotation has no place.
    annotate(&scene, "a2", None).await?;
    run(&scene).await?;
    until(&scene, &["tier 1 (1): a1", "tier 1 (4): a3 b1 b2 b3"]).await;
    host.stop().await?;
    scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_that_cannot_be_used_costs_its_node_alone() -> Result<()> {
    let scene = scene().await?;
    for (node, switches) in NODES {
        annotate(&scene, node, Some(&rails(node, switches))).await?;
    }
    scene.configure(&document(&[plain("downGrace: 0s")])).await?;
    let host = scene.host().await?;
    until(&scene, &["tier 1 (3): a1 a2 a3", "tier 1 (3): b1 b2 b3"]).await;
    let entry = |text: &str| text.replace("TIME", &now());
    for (value, words) in [
        (rails("b1", [1, 2]), "an annotation must describe its own node"),
        (entry(r#"{"schema": "topoloom.fabric/v2", "observedAt": "TIME", "links": []}"#), "topoloom.fabric/v2"),
        (entry(r#"{"schema": "topoloom.fabric/v1", "observedAt": "yesterday", "links": []}"#), "observedAt"),
        (entry(r#"{"schema": "topoloom.fabric/v1", "observedAt": "TIME", "links": {}}"#), "a list is expected"),
        (entry(r#"{"schema": "topoloom.fabric/v1", "observedAt": "TIME"}"#), "links or lldpcli is required"),
        ("no JSON".to_owned(), "bad-entry"),
        (format!("{{\"x\": \"{}\"}}", "x".repeat(20_000)), "at most 16384"),
    ] {
        annotate(&scene, "a3", Some(&value)).await?;
        run(&scene).await?;
        until(&scene, &["tier 1 (2): a1 a2", "tier 1 (3): b1 b2 b3"]).await;
        let said = until_reported(&scene, "bad-entry").await;
        assert!(said.contains(words), "{words}: {said}");
        let said = scene.cli(&["explain", "a3"]).await?;
        assert!(said.contains("bad-entry"), "{said}");
        annotate(&scene, "a3", Some(&rails("a3", [1, 2]))).await?;
        run(&scene).await?;
        until(&scene, &["tier 1 (3): a1 a2 a3", "tier 1 (3): b1 b2 b3"]).await;
    }
    host.stop().await?;
    scene.plane.stop().await
}
