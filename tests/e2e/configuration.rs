//! An operator edits the ConfigMap while the host runs.

use anyhow::Result;
use kube::api::{Patch, PatchParams};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::{PATIENCE, RACKS, Scene, by_hand};

fn two(first: &str, second: &str) -> String {
    let entry = |source: &str, key: &str| {
        format!(
            "- source: {source}\n  discoverer: label\n  enabled: true\n  config: {{networkTopologyTypes: {{{source}: [{{nodeLabel: {key}}}]}}}}\n"
        )
    };
    format!("networkTopologyDiscovery:\n{}{}", entry("one", first), entry("two", second))
}

/// A document that is not empty: its only entry is for a source that never ran.
const OTHER: &str = "networkTopologyDiscovery:\n- {source: other, enabled: false}\n";

#[tokio::test(flavor = "multi_thread")]
async fn only_the_changed_entry_restarts_and_a_bad_one_keeps_its_last_good_version() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a k1=x k2=y k3=z", "b k1=x k2=y k3=z"]).await?;
    scene.configure(&two("k1", "k2")).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 k1=x (2): a b", "tier 1 k2=y (2): a b"]).await;
    let configured = |host: &topoloom_tests::host::Host, source: &str| {
        let needle = format!("\"source\":\"{source}\"");
        host.log().iter().filter(|line| line.contains("\"message\":\"configured\"") && line.contains(&needle)).count()
    };
    scene.configure(&two("k1", "k3")).await?;
    scene.until(&["tier 1 k1=x (2): a b", "tier 1 k3=z (2): a b"]).await;
    assert_eq!((configured(&host, "one"), configured(&host, "two")), (1, 2));

    // One entry becomes invalid. The other one continues and follows its own edit.
    scene.configure(&two("k2", "no label key")).await?;
    scene.until_condition("two", "Configured", "False", "InvalidConfig").await;
    scene.until(&["tier 1 k2=y (2): a b", "tier 1 k3=z (2): a b"]).await;
    scene.configure("networkTopologyDiscovery: [").await?;
    let message = scene.until_condition("one", "Configured", "False", "InvalidDocument").await;
    assert!(message.contains("line"), "{message}");
    scene.nodes(&["c k2=y k3=z"]).await?;
    scene.until(&["tier 1 k2=y (3): a b c", "tier 1 k3=z (3): a b c"]).await;

    // Neither a missing ConfigMap nor a disabled entry deletes any HyperNode.
    scene.unconfigure().await?;
    scene.until_condition("one", "Configured", "False", "ConfigMissing").await;
    let ready = host.readyz().await?;
    let make = "kubectl create configmap volcano-controller-configmap --namespace volcano-system";
    assert!(ready.contains("config absent") && ready.contains(make), "{ready}");
    scene.configure(&two("k2", "k3").replacen("enabled: true", "enabled: false", 1)).await?;
    scene.until_state("one", "Disabled").await;
    scene.until_condition("two", "Configured", "True", "Ok").await;
    assert!(host.readyz().await?.contains("config ok"));
    scene.until(&["tier 1 k2=y (3): a b c", "tier 1 k3=z (3): a b c"]).await;

    // With `onRemoval: delete` the host deletes the HyperNodes of a removed source. Without it the operator deletes
    // them.
    let gone = two("k2", "k3").replacen("enabled: true", "enabled: false", 1);
    scene.configure(&gone.replace("- source: two\n", "- source: two\n  onRemoval: delete\n")).await?;
    scene.until_condition("two", "Configured", "True", "Ok").await;
    scene.configure(OTHER).await?;
    scene.until(&["tier 1 k2=y (3): a b c"]).await;
    scene.cli(&["source", "delete", "one"]).await?;
    scene.until(&[]).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_mistake_of_an_entry_stands_in_its_condition() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a k1=x"]).await?;
    scene
        .configure(
            "networkTopologyDiscovery:
- source: label
  enabled: true
  interval: 600
  config: {}
- source: absent
  enabled: true
- source: file
  enabled: true
  plugin: {file: /does/not/exist.wasm}
- source: good
  discoverer: label
  enabled: true
  unknownKey: 1
  config: {networkTopologyTypes: {good: [{nodeLabel: k1}]}}
",
        )
        .await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 k1=x (1): a"]).await;
    let message = scene.until_condition("label", "Configured", "False", "InvalidConfig").await;
    assert!(message.contains("interval") && message.contains("600"), "{message}");
    let message = scene.until_condition("absent", "Loaded", "False", "PluginNotFound").await;
    assert!(message.contains("absent") && message.contains("label"), "{message}");
    let message = scene.until_condition("file", "Loaded", "False", "PluginNotFound").await;
    assert!(message.contains("/does/not/exist.wasm"), "{message}");
    let message = scene.until_condition("good", "Configured", "True", "Ok").await;
    assert!(message.contains("unknownKey"), "{message}");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observing_source_writes_nothing() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a ex.io/rack=x"]).await?;
    scene.configure(&RACKS.replace("  enabled: true\n", "  enabled: true\n  mode: observe\n")).await?;
    let host = scene.host().await?;
    scene.until_state("label", "Observing").await;
    scene.until(&[]).await;
    let plan = scene.cli(&["plan"]).await?;
    assert!(plan.contains("create hypernode-gpu-tier1-"), "{plan}");
    scene.configure(RACKS).await?;
    scene.until(&["tier 1 ex.io/rack=x (1): a"]).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_observes_leaves_status_alone_and_a_refused_entry_does_not_end_that() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a ex.io/rack=x", "b"]).await?;
    scene.configure(RACKS).await?;
    scene.run_until(&["tier 1 ex.io/rack=x (1): a"]).await?;
    let observe = RACKS.replace("  enabled: true\n", "  enabled: true\n  mode: observe\n  onRemoval: delete\n");
    scene.configure(&observe).await?;
    let host = scene.host().await?;
    scene.until_state("label", "Observing").await;
    // The host leaves a status that another client wrote, and counts an object without an owner as before.
    let rack = scene.name_of("ex.io/rack=x").await?;
    let count = Patch::Merge(serde_json::json!({"status": {"nodeCount": 99}}));
    scene.hyper_nodes().patch_status(&rack, &PatchParams::default(), &count).await?;
    scene.put(by_hand("mine", 1, "Node", &["b"])).await?;
    scene.until(&["tier 1 ex.io/rack=x (99): a", "tier 1 mine (1): b"]).await;

    // An entry that would write, but is invalid, changes nothing: the source that runs still observes.
    let bad = RACKS.replace("ex.io/spine", "no label key");
    scene.configure(&bad).await?;
    scene.until_condition("label", "Configured", "False", "InvalidConfig").await;
    scene.plane.relabel("a", "ex.io/rack", "y").await?;
    topoloom_tests::controlplane::eventually("the move is seen", std::time::Duration::from_secs(30), async || {
        let status = scene.source("label").await.map_err(|error| error.to_string())?.status;
        let applied = status.conditions.iter().find(|condition| condition.type_ == "Applied");
        let seen = applied.is_some_and(|applied| applied.message.contains("writes are due"));
        if seen { Ok(()) } else { Err(format!("{applied:?}")) }
    })
    .await;
    scene.until(&["tier 1 ex.io/rack=x (99): a", "tier 1 mine (1): b"]).await;

    // If an operator removes an observing source while the host is down, the host deletes nothing.
    scene.configure(&observe).await?;
    scene.until_condition("label", "Configured", "True", "Ok").await;
    host.stop().await?;
    scene.configure("networkTopologyDiscovery: []").await?;
    let host = scene.host().await?;
    scene.until_state("label", "Disabled").await;
    assert_eq!(scene.topology().await?.len(), 2);
    scene.configure(RACKS).await?;
    scene.until(&["tier 1 ex.io/rack=y (1): a", "tier 1 mine (1): b"]).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_document_deletes_nothing_before_a_person_confirms_it() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a ex.io/rack=x", "b ex.io/rack=y"]).await?;
    let document = RACKS.replace("  enabled: true\n", "  enabled: true\n  onRemoval: delete\n");
    scene.configure(&document).await?;
    let host = scene.host().await?;
    let tree = ["tier 1 ex.io/rack=x (1): a", "tier 1 ex.io/rack=y (1): b"];
    scene.until(&tree).await;
    let commented: String = document.lines().map(|line| format!("# {line}\n")).collect();
    for nothing in [&*commented, "", "{}", "networkTopologyDiscovery: []"] {
        scene.configure(nothing).await?;
        let message = scene.until_condition("label", "Held", "True", "EmptyDocument").await;
        assert!(message.contains("the 2 HyperNodes") && message.contains("topoloom confirm label"), "{message}");
        scene.until_state("label", "Held").await;
        assert_eq!(scene.topology().await?, tree, "{nothing:?}");
        // The operator restores the entry, and the source serves as before; it has run all the time.
        scene.configure(&document).await?;
        scene.until_state("label", "Serving").await;
    }
    scene.configure("").await?;
    scene.until_state("label", "Held").await;
    scene.plane.relabel("b", "ex.io/rack", "x").await?;
    scene.until(&["tier 1 ex.io/rack=x (2): a b"]).await;
    host.stop().await?;

    // After a restart the host holds the deletion again, although no source runs.
    let host = scene.host().await?;
    eventually("it was looked at", PATIENCE, async || {
        let log = host.log();
        if log.iter().any(|line| line.contains("topoloom keeps the HyperNodes of this source")) {
            Ok(())
        } else {
            Err(log.join("\n"))
        }
    })
    .await;
    scene.until_condition("label", "Held", "True", "EmptyDocument").await;
    scene.until(&["tier 1 ex.io/rack=x (2): a b"]).await;
    eventually("it is confirmed", PATIENCE, async || {
        scene.cli(&["confirm", "label"]).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    scene.until(&[]).await;
    scene.until_state("label", "Disabled").await;

    // The operator confirms the same while the source runs.
    scene.configure(&document).await?;
    scene.until(&["tier 1 ex.io/rack=x (2): a b"]).await;
    scene.until_state("label", "Serving").await;
    scene.configure(&commented).await?;
    scene.until_state("label", "Held").await;
    scene.cli(&["confirm", "label"]).await?;
    scene.until(&[]).await;
    scene.until_state("label", "Disabled").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_removed_while_the_host_was_down_goes_when_it_said_so() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a k1=x k2=y"]).await?;
    let entry = |source: &str, key: &str, on_removal: &str| {
        format!(
            "- {{source: {source}, discoverer: label, enabled: true, onRemoval: {on_removal}, config: {{networkTopologyTypes: {{{source}: [{{nodeLabel: {key}}}]}}}}}}\n"
        )
    };
    let both = format!("networkTopologyDiscovery:\n{}{}", entry("goes", "k1", "delete"), entry("stays", "k2", "keep"));
    scene.configure(&both).await?;
    scene.run_until(&["tier 1 k1=x (1): a", "tier 1 k2=y (1): a"]).await?;
    scene.configure(OTHER).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 k2=y (1): a"]).await;
    for source in ["goes", "stays"] {
        scene.until_state(source, "Disabled").await;
        let message = scene.source(source).await?.status.message;
        assert!(message.contains("while the host was down"), "{message}");
    }
    // `tree` shows the HyperNodes that are left, and the operator can delete them.
    let tree = scene.cli(&["tree", "--source", "stays"]).await?;
    assert!(tree.contains("k2=y"), "{tree}");
    // The verb refuses an operator who names the wrong namespace of the configuration.
    let lost = scene.cli(&["source", "delete", "stays", "--namespace", "default"]).await.unwrap_err().to_string();
    assert!(lost.contains("no ConfigMap") && lost.contains("--force"), "{lost}");
    scene.cli(&["source", "delete", "stays"]).await?;
    scene.until(&[]).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_two_sources_place_in_one_tier_is_shown() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a k1=x k2=y", "b k1=x"]).await?;
    let entry = |source: &str, key: &str| {
        format!(
            "- {{source: {source}, discoverer: label, enabled: true, config: {{networkTopologyTypes: {{{source}: [{{nodeLabel: {key}}}]}}}}}}\n"
        )
    };
    let one = entry("one", "k1");
    scene.configure(&format!("networkTopologyDiscovery:\n{one}")).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 k1=x (2): a b"]).await;
    scene.configure(&format!("networkTopologyDiscovery:\n{one}{}", entry("two", "k2"))).await?;
    scene.until(&["tier 1 k1=x (2): a b", "tier 1 k2=y (1): a"]).await;
    let message = scene.until_condition("two", "Overlap", "True", "SharedNodes").await;
    assert!(message.contains("1 Node"), "{message}");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_an_entry_stays_said_when_another_is_edited() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a k1=x k2=y k3=z"]).await?;
    scene.configure(&two("k1", "k2")).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 k1=x (1): a", "tier 1 k2=y (1): a"]).await;
    // The plugin refuses the first entry; then the operator edits the second one.
    scene.configure(&two("no label", "k2")).await?;
    scene.until_condition("one", "Configured", "False", "InvalidConfig").await;
    scene.configure(&two("no label", "k3")).await?;
    scene.until(&["tier 1 k1=x (1): a", "tier 1 k3=z (1): a"]).await;
    let message = scene.until_condition("one", "Configured", "False", "InvalidConfig").await;
    assert!(message.contains("no label") && message.contains("the last valid version continues"), "{message}");
    host.stop().await
}
