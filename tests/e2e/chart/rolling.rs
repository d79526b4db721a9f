//! A rolling update with processes in place of pods, each started exactly as the chart starts its container: each new
//! replica is ready before an old one gets the signal to stop (`maxUnavailable: 0`, `maxSurge: 1`).
//!
//! The old replicas have flags, environment and rights of the first chart, and Helm upgrades the release to today's
//! chart. Both run today's binary, which has to accept the settings of an earlier chart.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use topoloom_tests::chart::{self, Container, NAME, RELEASE};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::helm::helm;
use topoloom_tests::host::{Host, Port};
use topoloom_tests::scene::{CONFIG_MAP, NAMESPACE, PATIENCE, RACKS, Scene};

/// At most this long from the signal to the old replica until another one has written. A lease lasts fifteen seconds in
/// both charts: a replica that waits until it expires would need more than twelve.
const AT_ONCE: Duration = Duration::from_secs(8);

/// Helm installs this chart, or upgrades the release to it; returns the container that the Deployment then has.
async fn release(scene: &Scene, verb: &str, chart: &Path, values: &[&str]) -> Result<Container> {
    let (kubeconfig, chart) = (scene.plane.kubeconfig(), chart.to_string_lossy());
    let words = [&[verb, RELEASE, &*chart, "--namespace", NAMESPACE][..], values].concat();
    helm(Some(&kubeconfig), &words).await?;
    let manifest = helm(Some(&kubeconfig), &["get", "manifest", RELEASE, "--namespace", NAMESPACE]).await?;
    Container::of(&chart::parse(&manifest)?)
}

/// Starts a process with the arguments, the environment and the token of a container, and waits until its readiness
/// probe succeeds.
async fn replica(scene: &Scene, kubeconfig: &Path, container: &Container, name: &str) -> Result<Host> {
    let flags = container.flags_below(&scene.plane.folder().join(name))?;
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let environment: Vec<(&str, &str)> =
        container.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let host = Host::launch_with(name, kubeconfig, &flags, &environment).await?;
    eventually("the new replica is ready", PATIENCE, async || match host.ask(Port::Health, "/readyz").await {
        Ok((200, _)) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    Ok(host)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_update_has_one_leader_at_a_time_and_no_gap_in_its_writes() -> Result<()> {
    let scene = Scene::audited().await?;
    let first = Path::new(env!("CARGO_MANIFEST_DIR")).join("kept/chart-0.1.0/topoloom");
    let existing = format!("config.existing.namespace={NAMESPACE},config.existing.name={CONFIG_MAP}");
    // The cluster of the scene already has the definitions.
    let image = format!("image.repository={}", chart::IMAGE);
    let never = "crds.discoverySource=never,crds.hyperNode=never";
    let values = ["--set", &image, "--set", &existing, "--set", never];
    let earlier = release(&scene, "install", &first, &values).await?;
    let kubeconfig = scene.plane.kubeconfig_for(NAMESPACE, NAME).await?;
    scene.nodes(&["a ex.io/rack=x ex.io/spine=s", "b ex.io/rack=y ex.io/spine=s"]).await?;
    scene.configure(RACKS).await?;
    let mut old = Vec::new();
    for name in ["old-0", "old-1"] {
        old.push(replica(&scene, &kubeconfig, &earlier, name).await.context("what the first chart starts")?);
    }
    scene
        .until(&[
            "tier 2 ex.io/spine=s (2): ex.io/rack=x ex.io/rack=y",
            "tier 1 ex.io/rack=x (1): a",
            "tier 1 ex.io/rack=y (1): b",
        ])
        .await;
    let before = uids(&scene).await?;
    let today = release(&scene, "upgrade", &chart::folder(), &["--reset-then-reuse-values"]).await?;
    let mut new = Vec::new();
    for turn in 0..2 {
        new.push(replica(&scene, &kubeconfig, &today, &format!("new-{turn}")).await?);
        // This may be the leader or the follower: the Deployment does not know which replica leads.
        let stops = old.pop().context("there is an old one")?;
        let began = Instant::now();
        stops.stop().await?;
        // Right after that a replica has to lead and write.
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
        let took = began.elapsed();
        assert!(took < AT_ONCE, "turn {turn}: no replica wrote for {took:?}");
    }
    let after = uids(&scene).await?;
    let stayed: Vec<_> = before.keys().filter(|name| after.contains_key(*name)).collect();
    assert!(stayed.len() >= 2, "the rack that no edit touched and its spine stay: {before:?}, {after:?}");
    assert!(stayed.iter().all(|name| before[*name] == after[*name]), "made anew: {before:?}, {after:?}");
    for host in new {
        host.stop().await?;
    }
    turns(&scene)
}

/// The UID of each HyperNode.
async fn uids(scene: &Scene) -> Result<BTreeMap<String, String>> {
    let uid = |(name, object): (String, topoloom_api::HyperNode)| Some((name, object.metadata.uid?));
    Ok(scene.stored().await?.into_iter().filter_map(uid).collect())
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
