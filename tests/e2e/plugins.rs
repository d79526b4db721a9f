//! Plugins that come as a file: what they need to run, and that a bad one harms no other.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use topoloom::plugin::Digest;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::guest;
use topoloom_tests::scene::{Scene, title};

/// An entry whose plugin is a file.
struct Foreign<'a> {
    source: &'a str,
    /// `file: …`, and optionally a digest.
    plugin: &'a str,
    label: &'a str,
    /// More of the entry, and its `config`, in flow style.
    rest: &'a str,
}

impl std::fmt::Display for Foreign<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { source, plugin, label, rest } = self;
        let permissions = format!("{{nodeLabels: [{label}]}}");
        writeln!(f, "- {{source: {source}, enabled: true, plugin: {{{plugin}}}, permissions: {permissions}, {rest}}}")
    }
}

const LIST: &str = "networkTopologyDiscovery:\n";

fn object(name: &str, source: Option<&str>) -> serde_json::Value {
    let labels = source.map(|source| json!({"volcano.sh/network-topology-source": source}));
    json!({
        "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
        "metadata": {"name": name, "labels": labels.unwrap_or_else(|| json!({}))},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "n9"}}}]},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_objects_of_the_source_follow_its_answers_and_an_empty_answer_is_held() -> Result<()> {
    let scene = Scene::new().await?;
    let file = format!("file: {}", guest::file("topoloom-guest-scripted", scene.plane.folder())?.display());
    scene.nodes(&["n1", "n2", "n3", "n9"]).await?;
    // More Nodes than may lose their place without a confirmation.
    let many: Vec<String> = (0..10).map(|n| format!("n2{n}")).collect();
    scene.nodes(&many.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    scene.put(object("z", Some("label"))).await?;
    scene.put(object("w", None)).await?;
    let entry = |answers: &str| {
        let rest = format!("config: {{answers: [{answers}]}}");
        format!("{LIST}{}", Foreign { source: "fabric", plugin: &file, label: "example.com/round", rest: &rest })
    };
    let others = ["tier 1 w (1): n9", "tier 1 z (1): n9"];
    let yy = &*format!("tier 1 fabric yy (11): n2 {}", many.join(" "));
    let x_and_y = ["tier 1 fabric x (1): n1", yy, others[0], others[1]];
    // x and y; then y and v; then nothing: three answers of one plugin, without an edit in between.
    let many = format!("{{id: yy, nodes: [n2, {}]}}", many.join(", "));
    let script = format!("[{{id: x, nodes: [n1]}}, {many}], [{many}, {{id: v, nodes: [n3]}}], []");
    scene.configure(&entry(&script)).await?;
    let host = scene.host().await?;
    scene.until(&x_and_y).await;
    let before = scene.stored().await?;
    scene.cli(&["source", "run", "fabric"]).await?;
    scene.until(&["tier 1 fabric v (1): n3", yy, others[0], others[1]]).await;
    let after = scene.stored().await?;
    let y = |stored: &std::collections::BTreeMap<String, topoloom_api::HyperNode>| {
        stored.values().find(|object| title(object) == "fabric yy").and_then(|object| object.metadata.uid.clone())
    };
    assert!(y(&before).is_some() && y(&before) == y(&after), "y is updated, not made anew");
    for name in ["w", "z"] {
        let (before, after) = (&before[name].metadata, &after[name].metadata);
        assert_eq!((&before.uid, before.generation, &before.labels), (&after.uid, after.generation, &after.labels));
    }

    scene.cli(&["source", "run", "fabric"]).await?;
    let message = scene.until_condition("fabric", "Held", "True", "EmptyResult").await;
    assert!(message.contains("topoloom confirm fabric"), "{message}");
    scene.until(&["tier 1 fabric v (1): n3", yy, others[0], others[1]]).await;
    scene.cli(&["confirm", "fabric"]).await?;
    scene.until(&others).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_needs_its_digest_its_interface_and_every_grant() -> Result<()> {
    let scene = Scene::new().await?;
    let path = guest::file("topoloom-guest-villain", scene.plane.folder())?;
    let (digest, other) = (Digest::of(&std::fs::read(&path)?), Digest::of(b"other bytes"));
    let file = format!("file: {}", path.display());
    let text = scene.plane.folder().join("readme.wasm");
    std::fs::write(&text, "no plugin at all")?;
    let text = format!("file: {}", text.display());
    scene.nodes(&["a example.com/rack=x"]).await?;
    let entry =
        |source, plugin: &str, label| Foreign { source, plugin, label, rest: "config: {discover: good}" }.to_string();
    let pinned = |digest| format!("{file}, digest: {digest}");
    let document = [
        entry("denied", &file, "example.com/another"),
        entry("pinned", &pinned(other), "example.com/rack"),
        entry("text", &text, "example.com/rack"),
    ];
    scene.configure(&format!("{LIST}{}", document.concat())).await?;
    let host = scene.host().await?;
    let message = scene.until_condition("denied", "Loaded", "False", "PermissionDenied").await;
    let cure = "permissions:\n  nodeLabels: [\"example.com/rack\"]";
    assert!(message.contains(cure), "{message}");
    let message = scene.until_condition("pinned", "Loaded", "False", "DigestMismatch").await;
    assert!(message.contains(&digest.to_string()) && message.contains(&other.to_string()), "{message}");
    let message = scene.until_condition("text", "Loaded", "False", "PluginInvalid").await;
    assert!(message.contains("WebAssembly"), "{message}");
    scene.until(&[]).await;

    // The operator does what the messages say; the digest may be written in capitals.
    let document = [
        entry("denied", &file, "example.com/rack"),
        entry("pinned", &pinned(digest).replace(&digest.to_string(), &shout(digest)), "example.com/rack"),
    ];
    scene.configure(&format!("{LIST}{}", document.concat())).await?;
    scene.until(&["tier 1 example.com/rack=x (1): a", "tier 1 example.com/rack=x (1): a"]).await;
    // The host compiles a plugin that works a second time, with optimisation, and then uses that one.
    eventually("both plugins are optimised", Duration::from_secs(60), async || {
        let log = host.log();
        let done = log.iter().filter(|line| line.contains("compiled with optimisation")).count();
        if done == 2 { Ok(()) } else { Err(format!("{done} are")) }
    })
    .await;
    scene.plane.relabel("a", "example.com/rack", "z").await?;
    scene.until(&["tier 1 example.com/rack=z (1): a", "tier 1 example.com/rack=z (1): a"]).await;
    let shown = scene.source("pinned").await?.status;
    assert_eq!(shown.plugin.map(|plugin| plugin.digest), Some(digest.to_string()), "the digest is shown");
    host.stop().await
}

/// A digest in capitals, as some tools print it.
fn shout(digest: Digest) -> String {
    let text = digest.to_string();
    text.split_once(':').map_or(text.to_uppercase(), |(kind, hex)| format!("{kind}:{}", hex.to_uppercase()))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bad_plugin_has_its_own_reason_and_a_good_source_works_beside_it() -> Result<()> {
    let scene = Scene::new().await?;
    let file = format!("file: {}", guest::file("topoloom-guest-villain", scene.plane.folder())?.display());
    scene.nodes(&["a example.com/rack=x good.io/rack=g", "b example.com/rack=y good.io/rack=g"]).await?;
    // What the bad plugin does, the reason, and a part of the message.
    let acts = [
        ("loop", "Deadline", "300ms"),
        ("panic", "Trap", "discover panics as configured"),
        ("recurse-deep", "Trap", "stack"),
        ("grow", "OutOfMemory", "memory"),
        ("giant", "InvalidResult", "67108864"),
        ("internal", "GuestError", "as configured"),
        ("row", "InvalidResult", "row 2"),
        ("twice", "InvalidResult", "used by an earlier group"),
        ("cycle", "InvalidResult", "group"),
        ("parents", "InvalidResult", "already a member of group"),
        ("tier-zero", "InvalidResult", "tier 0"),
    ];
    let mut document = String::from(LIST);
    document.push_str(
        "- {source: good, discoverer: label, enabled: true, config: {networkTopologyTypes: {good: [{nodeLabel: good.io/rack}]}}}\n",
    );
    for (act, ..) in acts {
        // A plugin without an endless loop has the time that a slow machine needs for it.
        let cpu = if act == "loop" { "300ms" } else { "10s" };
        let rest = format!("limits: {{cpu: {cpu}}}, config: {{discover: {act}}}");
        write!(document, "{}", Foreign { source: act, plugin: &file, label: "example.com/rack", rest: &rest })?;
    }
    for act in ["loop", "panic"] {
        let cpu = if act == "loop" { "300ms" } else { "10s" };
        let rest = format!("limits: {{cpu: {cpu}}}, config: {{configure: {act}}}");
        let source = format!("configure-{act}");
        write!(document, "{}", Foreign { source: &source, plugin: &file, label: "example.com/rack", rest: &rest })?;
    }
    scene.configure(&document).await?;
    let host = scene.host().await?;
    let good = ["tier 1 good.io/rack=g (2): a b"];
    scene.until(&good).await;
    for (act, reason, words) in acts {
        let message = scene.until_condition(act, "Discovered", "False", reason).await;
        assert!(message.contains(words), "{act}: {message}");
        scene.until_state(act, "Failed").await;
    }
    scene.until_condition("configure-loop", "Loaded", "False", "Deadline").await;
    scene.until_condition("configure-panic", "Loaded", "False", "Trap").await;
    // The bad plugins fail again and again, and the good source continues.
    scene.plane.relabel("b", "good.io/rack", "h").await?;
    scene.until(&["tier 1 good.io/rack=g (1): a", "tier 1 good.io/rack=h (1): b"]).await;
    assert!(host.readyz().await.is_ok(), "a plugin does not decide whether the host is ready");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_does_not_wait_for_a_call_that_is_under_way() -> Result<()> {
    let scene = Scene::new().await?;
    let file = format!("file: {}", guest::file("topoloom-guest-villain", scene.plane.folder())?.display());
    scene.nodes(&["a example.com/rack=x"]).await?;
    let rest = "limits: {cpu: 500s, timeout: 10m}, config: {discover: loop}";
    let entry = Foreign { source: "slow", plugin: &file, label: "example.com/rack", rest }.to_string();
    scene.configure(&format!("{LIST}{entry}")).await?;
    let host = scene.host().await?;
    eventually("the endless round has begun", Duration::from_secs(30), async || {
        let begun = host.log().iter().any(|line| line.contains("\"configured\""));
        if begun { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    // The harness waits for half a minute; the round would take 500 s.
    scene.configure(&format!("{LIST}{}", entry.replace("enabled: true", "enabled: true, pause: true"))).await?;
    scene.until_state("slow", "Paused").await;
    scene.configure(&format!("{LIST}{}", entry.replace("loop", "good"))).await?;
    scene.until(&["tier 1 example.com/rack=x (1): a"]).await;
    scene.configure(&format!("{LIST}{entry}")).await?;
    scene.configure(&format!("{LIST}{}", entry.replace("enabled: true", "enabled: false"))).await?;
    scene.until_state("slow", "Disabled").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_read_too_early_is_read_again() -> Result<()> {
    let scene = Scene::new().await?;
    let whole = guest::file("topoloom-guest-villain", scene.plane.folder())?;
    let bytes = std::fs::read(&whole)?;
    let copy = scene.plane.folder().join("copied.wasm");
    std::fs::write(&copy, &bytes[..bytes.len() / 2])?;
    scene.nodes(&["a example.com/rack=x"]).await?;
    let plugin = format!("file: {}", copy.display());
    let entry = Foreign { source: "copied", plugin: &plugin, label: "example.com/rack", rest: "config: {}" };
    scene.configure(&format!("{LIST}{entry}")).await?;
    let host = scene.host().await?;
    scene.until_condition("copied", "Loaded", "False", "PluginInvalid").await;
    std::fs::write(&copy, &bytes)?;
    // The host would read the file again by itself a little later.
    scene.cli(&["source", "run", "copied"]).await?;
    scene.until(&["tier 1 example.com/rack=x (1): a"]).await;
    host.stop().await
}
