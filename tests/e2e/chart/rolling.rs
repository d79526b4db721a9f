//! A rolling update, played with processes that are started exactly as the chart starts its containers: each new replica is
//! ready before an old one is asked to stop (`maxUnavailable: 0`, `maxSurge: 1`).

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::json;
use topoloom_tests::chart::{self, Installed};
use topoloom_tests::controlplane::{ControlPlane, eventually};
use topoloom_tests::host::Host;
use topoloom_tests::scene::{PATIENCE, RACKS, Scene};

/// A process with the arguments, the environment and the token of a container; it is ready as its probe says.
async fn replica(scene: &Scene, installed: &Installed, name: &str) -> Result<Host> {
    let flags = installed.container.flags_below(&scene.plane.folder().join(name))?;
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let environment: Vec<(&str, &str)> =
        installed.container.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let host = Host::launch_with(name, &installed.kubeconfig, &flags, &environment).await?;
    eventually("the new replica is ready", PATIENCE, async || host.readyz().await.map_err(|error| error.to_string()))
        .await;
    Ok(host)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_update_has_one_leader_at_a_time_and_no_gap_in_its_writes() -> Result<()> {
    let scene = Scene::with(ControlPlane::builder().audit(true)).await?;
    let installed = chart::install(&scene, json!({})).await?;
    scene.nodes(&["a ex.io/rack=x ex.io/spine=s", "b ex.io/rack=y ex.io/spine=s"]).await?;
    scene.configure(RACKS).await?;
    let mut old = vec![replica(&scene, &installed, "old-0").await?, replica(&scene, &installed, "old-1").await?];
    scene
        .until(&[
            "tier 2 ex.io/spine=s (2): ex.io/rack=x ex.io/rack=y",
            "tier 1 ex.io/rack=x (1): a",
            "tier 1 ex.io/rack=y (1): b",
        ])
        .await;
    let before: BTreeSet<_> = scene.stored().await?.into_values().filter_map(|object| object.metadata.uid).collect();
    let mut new = Vec::new();
    for turn in 0..2 {
        new.push(replica(&scene, &installed, &format!("new-{turn}")).await?);
        // Whichever it is: the Deployment does not know who leads.
        let stops = old.pop().context("there is an old one")?;
        stops.stop().await?;
        // Somebody leads right after that, without anybody waiting for a lease of fifteen seconds.
        let rack = format!("turn{turn}");
        scene.plane.relabel("b", "ex.io/rack", rack.as_str()).await?;
        let line = format!("tier 1 ex.io/rack={rack} (1): b");
        scene
            .until(&[
                &format!("tier 2 ex.io/spine=s (2): ex.io/rack={rack} ex.io/rack=x"),
                &line,
                "tier 1 ex.io/rack=x (1): a",
            ])
            .await;
    }
    let after: BTreeSet<_> = scene.stored().await?.into_values().filter_map(|object| object.metadata.uid).collect();
    assert!(before.intersection(&after).count() >= 2, "HyperNodes that stay keep their objects");
    for host in new {
        host.stop().await?;
    }
    turns(&scene)
}

/// In the order in which the API server received them, the writes of one replica never come between those of another.
fn turns(scene: &Scene) -> Result<()> {
    let mut writes: Vec<(String, String)> = scene
        .plane
        .audit_log()?
        .iter()
        .filter(|event| matches!(event["verb"].as_str(), Some("create" | "update" | "patch" | "delete")))
        .filter(|event| event["objectRef"]["resource"] == "hypernodes")
        .filter_map(|event| {
            let (_, rest) = event["userAgent"].as_str()?.split_once("topoloom/")?;
            let (_, replica) = rest.split_once('(')?;
            Some((event["requestReceivedTimestamp"].as_str()?.to_owned(), replica.trim_end_matches(')').to_owned()))
        })
        .collect();
    writes.sort();
    let mut order: Vec<String> = writes.into_iter().map(|(_, replica)| replica).collect();
    order.dedup();
    let distinct: BTreeSet<_> = order.iter().collect();
    anyhow::ensure!(distinct.len() == order.len(), "replicas wrote in turns: {order:?}");
    anyhow::ensure!(order.len() >= 2, "only one replica wrote anything: {order:?}");
    Ok(())
}
