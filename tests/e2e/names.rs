//! Names that objects of other clients have, and objects of other clients above ours (decisions H8, H15).

use anyhow::Result;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use topoloom_tests::guest;
use topoloom_tests::scene::{RACKS, Scene, by_hand};

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_name_that_is_taken_holds_back_its_ancestors_only() -> Result<()> {
    let scene = Scene::new().await?;
    let file = guest::file("topoloom-guest-scripted", scene.plane.folder())?;
    scene.nodes(&["n0", "n1", "n9"]).await?;
    scene.put(by_hand("leaf-hn-0", 1, "Node", &["n9"])).await?;
    scene
        .configure(&format!(
            "networkTopologyDiscovery:
- source: ufm
  enabled: true
  plugin: {{file: {}}}
  permissions: {{nodeLabels: [example.com/round]}}
  config:
    answers:
    - - {{id: a, nodes: [n0], name: leaf-hn-0}}
      - {{id: b, nodes: [n1], name: leaf-hn-1}}
      - {{id: s, tier: 2, groups: [a, b], name: spine-hn}}
",
            file.display()
        ))
        .await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 leaf-hn-0 (1): n9", "tier 1 ufm b (1): n1"]).await;
    let message = scene.until_condition("ufm", "NameConflict", "True", "NameTaken").await;
    assert!(message.contains("leaf-hn-0"), "{message}");
    let events = scene.plane.kubectl(&["get", "events", "-n", "default", "-o", "wide"]).await?;
    assert!(events.contains("NameTaken") && events.contains("leaf-hn-0"), "{events}");
    let metrics = host.get("/metrics").await?;
    assert!(metrics.contains("topoloom_name_conflicts{source=\"ufm\"} 1"), "{metrics}");

    scene.hyper_nodes().delete("leaf-hn-0", &DeleteParams::default()).await?;
    scene.until(&["tier 2 ufm s (2): ufm a ufm b", "tier 1 ufm a (1): n0", "tier 1 ufm b (1): n1"]).await;
    let names: Vec<String> = scene.stored().await?.into_keys().collect();
    assert_eq!(names, ["leaf-hn-0", "leaf-hn-1", "spine-hn"]);
    scene.until_condition("ufm", "Applied", "True", "Ok").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_name_that_is_taken_becomes_longer() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["n1 ex.io/rack=a", "n9"]).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 ex.io/rack=a (1): n1"]).await;
    let name = scene.name_of("ex.io/rack=a").await?;
    host.stop().await?;

    scene.hyper_nodes().delete(&name, &DeleteParams::default()).await?;
    scene.put(by_hand(&name, 1, "Node", &["n9"])).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 ex.io/rack=a (1): n1", &format!("tier 1 {name} (1): n9")]).await;
    let longer = scene.name_of("ex.io/rack=a").await?;
    assert!(longer.starts_with(&name) && longer.len() > name.len(), "{longer}");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_a_foreign_object_lists_is_not_claimed_a_second_time() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["n1 ex.io/rack=a", "n2 ex.io/rack=b"]).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 ex.io/rack=a (1): n1", "tier 1 ex.io/rack=b (1): n2"]).await;
    let a = scene.name_of("ex.io/rack=a").await?;
    scene.put(by_hand("row-by-hand", 2, "HyperNode", &[&a])).await?;
    // Now both racks get a spine of ours: the hand-made parent keeps its child, and no child has two parents.
    for node in ["n1", "n2"] {
        scene.plane.relabel(node, "ex.io/spine", "s").await?;
    }
    scene
        .until(&[
            "tier 2 ex.io/spine=s (1): ex.io/rack=b",
            "tier 2 row-by-hand (1): ex.io/rack=a",
            "tier 1 ex.io/rack=a (1): n1",
            "tier 1 ex.io/rack=b (1): n2",
        ])
        .await;
    let message = scene.until_condition("label", "Applied", "False", "NameTaken").await;
    assert!(message.contains("row-by-hand") && message.contains(&a), "{message}");
    // The host does not delete a leaf that a foreign object lists.
    scene.plane.relabel("n1", "ex.io/rack", "b").await?;
    scene.until_condition("label", "Applied", "False", "NameTaken").await;
    assert!(scene.stored().await?.contains_key(&a));

    scene.hyper_nodes().delete("row-by-hand", &DeleteParams::default()).await?;
    scene.until(&["tier 2 ex.io/spine=s (2): ex.io/rack=b", "tier 1 ex.io/rack=b (2): n1 n2"]).await;
    scene.until_condition("label", "Applied", "True", "Ok").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tier_name_stands_for_one_tier_and_the_earlier_entry_has_it() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["n1 k1=a k2=b"]).await?;
    // For source `one` the label k1 is tier 1, for source `two` it is tier 2.
    let one =
        "- {source: one, discoverer: label, enabled: true, config: {networkTopologyTypes: {one: [{nodeLabel: k1}]}}}";
    let two = "- {source: two, discoverer: label, enabled: true, config: {networkTopologyTypes: {two: [{nodeLabel: k1}, {nodeLabel: k2}]}}}";
    scene.configure(&format!("networkTopologyDiscovery:\n{one}\n{two}\n")).await?;
    let host = scene.host().await?;
    scene.until(&["tier 2 k1=a (1): k2=b", "tier 1 k1=a (1): n1", "tier 1 k2=b (1): n1"]).await;
    let message = scene.until_condition("two", "TierNameConflict", "True", "TierNameTaken").await;
    assert!(message.contains("k1") && message.contains("one"), "{message}");
    let named = async || -> Result<Vec<(i64, Option<String>)>> {
        let stored = scene.stored().await?;
        let mut names: Vec<_> = stored.into_values().map(|object| (object.spec.tier, object.spec.tier_name)).collect();
        names.sort();
        Ok(names)
    };
    assert_eq!(named().await?, [(1, Some("k1".to_owned())), (1, Some("k2".to_owned())), (2, None)]);

    // The other order: the earlier entry gets the name, although the other source had it first.
    scene.configure(&format!("networkTopologyDiscovery:\n{two}\n{one}\n")).await?;
    scene.until_condition("one", "TierNameConflict", "True", "TierNameTaken").await;
    topoloom_tests::controlplane::eventually(
        "the earlier entry has its tier name",
        std::time::Duration::from_secs(30),
        async || {
            let named = named().await.map_err(|error| error.to_string())?;
            let wanted = [(1, None), (1, Some("k2".to_owned())), (2, Some("k1".to_owned()))];
            if named == wanted { Ok(()) } else { Err(format!("{named:?}")) }
        },
    )
    .await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_a_finalizer_keeps_still_has_its_children() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["n1 ex.io/rack=a ex.io/spine=s1", "n2 ex.io/rack=b ex.io/spine=s2"]).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    let racks = ["tier 1 ex.io/rack=a (1): n1", "tier 1 ex.io/rack=b (1): n2"];
    let two =
        ["tier 2 ex.io/spine=s1 (1): ex.io/rack=a", "tier 2 ex.io/spine=s2 (1): ex.io/rack=b", racks[0], racks[1]];
    scene.until(&two).await;
    let s1 = scene.name_of("ex.io/spine=s1").await?;
    let finalizers = |list: serde_json::Value| Patch::Merge(json!({"metadata": {"finalizers": list}}));
    let parameters = PatchParams::default();
    scene.hyper_nodes().patch(&s1, &parameters, &finalizers(json!(["example.com/wait"]))).await?;
    // Both racks are now below spine s2. The host deletes s1, which its finalizer keeps for now, so s2 does not list
    // the rack of s1 yet.
    scene.plane.relabel("n1", "ex.io/spine", "s2").await?;
    let message = scene.until_condition("label", "Applied", "False", "NameTaken").await;
    assert!(message.contains(&s1), "{message}");
    let stored = scene.stored().await?;
    assert!(stored[&s1].metadata.deletion_timestamp.is_some());
    assert_eq!(scene.topology().await?, two);
    scene.hyper_nodes().patch(&s1, &parameters, &finalizers(json!([]))).await?;
    scene.until(&["tier 2 ex.io/spine=s2 (2): ex.io/rack=a ex.io/rack=b", racks[0], racks[1]]).await;
    scene.until_condition("label", "Applied", "True", "Ok").await;
    host.stop().await
}
