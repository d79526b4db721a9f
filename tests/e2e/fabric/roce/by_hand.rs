//! A document that people keep in a ConfigMap.

use anyhow::Result;
use serde_json::{Value, json};
use topoloom_tests::chart;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, Scene};

use super::super::rig::document;
use super::rig::{now, plain, run, until};

/// Four nodes under two leaves, and a spine above both.
fn wiring(leaf_of: &[(&str, u8)]) -> Value {
    let leaf = |number: u8| format!("mac:7c:8c:09:aa:bb:{number:02x}");
    let nodes: Vec<Value> = leaf_of
        .iter()
        .map(|(node, number)| {
            let switch = json!({"name": format!("leaf-{number}"), "chassis": leaf(*number)});
            json!({"node": node, "observedAt": now(), "links": [{"if": "rdma0", "switch": switch}]})
        })
        .collect();
    let switch = |number: u8| json!({"id": leaf(number), "level": 1, "uplinks": [{"to": "spine-1", "count": 4}]});
    json!({"schema": "topoloom.fabric/v1", "nodes": nodes, "switches": [switch(1), switch(2)]})
}

async fn write(scene: &Scene, key: &str, value: &str) -> Result<()> {
    write_in(scene, NAMESPACE, key, value).await
}

async fn write_in(scene: &Scene, namespace: &str, key: &str, value: &str) -> Result<()> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wiring", "namespace": namespace},
        "data": {key: value},
    });
    let file = scene.plane.folder().join("wiring.json");
    std::fs::write(&file, map.to_string())?;
    let file = file.to_string_lossy().into_owned();
    scene.plane.kubectl(&["apply", "--server-side", "--force-conflicts", "-f", &file]).await?;
    Ok(())
}

const LEAVES: [(&str, u8); 4] = [("n1", 1), ("n2", 1), ("n3", 2), ("n4", 2)];
const TREE: [&str; 3] = ["tier 1 (2): n1 n2", "tier 1 (2): n3 n4", "tier 2 (4):"];

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_of_the_document_is_a_round() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["n1", "n2", "n3", "n4"]).await?;
    write(&scene, "fabric.json", &wiring(&LEAVES).to_string()).await?;
    scene.configure(&document(&[plain("configMap: wiring")])).await?;
    let host = scene.host().await?;
    until(&scene, &TREE).await;
    // The interval is an hour, and no one requests a round: the edit starts it.
    write(&scene, "fabric.json", &wiring(&[("n1", 1), ("n2", 2), ("n3", 2), ("n4", 2)]).to_string()).await?;
    let moved = ["tier 1 (1): n1", "tier 1 (3): n2 n3 n4", "tier 2 (4):"];
    until(&scene, &moved).await;

    // A document that is invalid as a whole changes nothing, and the next valid edit ends the failure.
    for (key, value, words) in [
        ("fabric.json", "{", "wiring"),
        (
            "fabric.json",
            r#"{"schema": "topoloom.fabric/v9", "nodes": []}"#,
            "only \"topoloom.fabric/v1\" is understood",
        ),
        ("fabric.json", r#"{"schema": "topoloom.fabric/v1", "nodes": [], "next": "2"}"#, "a ConfigMap has no pages"),
        ("other.json", "{}", "has no key \"fabric.json\""),
    ] {
        write(&scene, key, value).await?;
        run(&scene).await?;
        let message = scene.until_condition("roce", "Discovered", "False", "Upstream").await;
        assert!(message.contains(words), "{value}: {message}");
        until(&scene, &moved).await;
        write(&scene, "fabric.json", &wiring(&[("n1", 1), ("n2", 2), ("n3", 2), ("n4", 2)]).to_string()).await?;
        run(&scene).await?;
        scene.until_condition("roce", "Discovered", "True", "Ok").await;
    }
    write(&scene, "fabric.json", &wiring(&LEAVES).to_string()).await?;
    until(&scene, &TREE).await;
    host.stop().await?;
    scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_may_not_be_read_says_which_rule_is_missing() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["n1", "n2", "n3", "n4"]).await?;
    let kubeconfig = chart::install(&scene, json!({})).await?.kubeconfig;
    write_in(&scene, "default", "fabric.json", &wiring(&LEAVES).to_string()).await?;
    scene.configure(&document(&[plain("configMap: {name: wiring, namespace: default}")])).await?;
    let host = Host::start(&kubeconfig, &[]).await?;
    let message = scene.until_condition("roce", "Discovered", "False", "Upstream").await;
    assert!(message.contains("grant `get`") && message.contains("the ConfigMaps named \"wiring\""), "{message}");
    let account = format!("--serviceaccount={NAMESPACE}:topoloom");
    let verbs = "--verb=get,list,watch";
    let role = ["create", "role", "wiring", "-n", "default", verbs, "--resource=configmaps", "--resource-name=wiring"];
    scene.plane.kubectl(&role).await?;
    scene.plane.kubectl(&["create", "rolebinding", "wiring", "-n", "default", "--role=wiring", &account]).await?;
    scene.cli(&["source", "run", "roce"]).await?;
    until(&scene, &TREE).await;
    host.stop().await?;
    scene.plane.stop().await
}
