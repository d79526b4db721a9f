//! The changes of the cluster, and the topology that it must have when they end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::guest;
use crate::scene::{NAMESPACE, Scene};

/// Nodes at the start: those that the source `label` places, those of the plugin, and those of an entry that is removed
/// and added again.
pub(super) const NODES: usize = LABELLED + PLUGGED + ZONED;
const LABELLED: usize = 400;
const PLUGGED: usize = 90;
const ZONED: usize = 10;
/// Nodes beside them that are added and deleted.
const VISITORS: u64 = 20;

const RACKS: u64 = 20;
const RACKS_OF_SPINE: u64 = 5;
const PLUGGED_RACKS: u64 = 6;

const SPINE: &str = "ex.io/spine";
const RACK: &str = "ex.io/rack";
const PLUGGED_RACK: &str = "example.com/rack";
const ZONE: &str = "ex.io/zone";

const MAP: &str = "soak-plugin";
const VERSIONS: [&str; 2] = ["1.0.0", "2.0.0"];

const LABEL: &str = "- source: label
  enabled: true
  config: {networkTopologyTypes: {gpu: [{nodeLabel: ex.io/spine}, {nodeLabel: ex.io/rack}, {nodeLabel: kubernetes.io/hostname}]}}
";
const FABRIC: &str = "- source: fabric
  enabled: true
  plugin: {configMap: {name: soak-plugin, key: plugin.wasm}}
  permissions: {nodeLabels: [example.com/rack]}
  limits: {cpu: 2s}
";
/// The test removes and adds this entry, with its HyperNodes.
const ZONES: &str = "- source: zones
  discoverer: label
  enabled: true
  onRemoval: delete
  config: {networkTopologyTypes: {zones: [{nodeLabel: ex.io/zone}]}}
";

fn document(entries: &[&str]) -> String {
    format!("networkTopologyDiscovery:\n{}", entries.concat())
}

/// The documents, one after the other: they change, break, remove and add entries, and one is no document.
fn documents() -> [String; 6] {
    let with = |entry: &str, line: &str| entry.replace("  enabled: true\n", &format!("  enabled: true\n  {line}\n"));
    [
        document(&[&with(LABEL, "settle: 300ms"), FABRIC, ZONES]),
        document(&[LABEL, FABRIC, &with(ZONES, "settle: 1s")]),
        "networkTopologyDiscovery: [".to_owned(),
        document(&[LABEL, FABRIC, &with(ZONES, "settle: soon")]),
        document(&[LABEL, FABRIC]),
        document(&[LABEL, FABRIC, ZONES]),
    ]
}

fn rack_labels(rack: u64) -> [(&'static str, String); 2] {
    [(SPINE, format!("s{}", rack / RACKS_OF_SPINE)), (RACK, format!("r{rack:02}"))]
}

/// Nodes, the first plugin and the configuration.
pub(super) async fn prepare(scene: &Scene) -> Result<()> {
    let labelled = (0..LABELLED as u64).map(|i| (format!("n{i:03}"), rack_labels(i % RACKS).to_vec()));
    let plugged =
        (0..PLUGGED as u64).map(|i| (format!("p{i:02}"), vec![(PLUGGED_RACK, format!("e{}", i % PLUGGED_RACKS))]));
    let zoned = (0..ZONED).map(|i| (format!("z{i:02}"), vec![(ZONE, format!("z{}", i % 2))]));
    scene.plane.create_nodes(labelled.chain(plugged).chain(zoned)).await?;
    for version in VERSIONS {
        std::fs::write(file(scene, version), guest::version("good", version)?)?;
    }
    push(scene, VERSIONS[0]).await?;
    scene.configure(&document(&[LABEL, FABRIC, ZONES])).await
}

fn file(scene: &Scene, version: &str) -> std::path::PathBuf {
    scene.plane.folder().join(format!("soak-{version}.wasm"))
}

async fn push(scene: &Scene, version: &str) -> Result<()> {
    let (file, map) = (file(scene, version), format!("{NAMESPACE}/{MAP}"));
    scene.cli(&["plugin", "push", &file.to_string_lossy(), "--configmap", &map]).await?;
    Ok(())
}

/// Waits until it is time for the next change; returns whether there is one before the end.
pub(super) async fn is_time(next: &mut Instant, every: Duration, end: Instant) -> bool {
    *next = (*next + every).max(Instant::now());
    if *next >= end {
        return false;
    }
    sleep_until(*next).await;
    true
}

/// Moves, adds and deletes nodes.
pub(super) async fn moves(scene: &Scene, every: Duration, end: Instant, done: &AtomicU64) -> Result<()> {
    let nodes: Api<Node> = Api::all(scene.plane.client());
    let (mut next, mut state) = (Instant::now(), 0x9e37_79b9_7f4a_7c15_u64);
    while is_time(&mut next, every, end).await {
        // xorshift: every soak is the same.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (what, which, rack) = (state % 4, state >> 8, (state >> 32) % RACKS);
        let visitor = format!("v{:02}", which % VISITORS);
        match what {
            0 => match nodes.get_opt(&visitor).await? {
                Some(_) => drop(nodes.delete(&visitor, &DeleteParams::default()).await?),
                None => scene.plane.create_nodes([(visitor, rack_labels(rack))]).await?,
            },
            1 => {
                let node = format!("p{:02}", which % PLUGGED as u64);
                scene.plane.relabel(&node, PLUGGED_RACK, &*format!("e{}", rack % PLUGGED_RACKS)).await?;
            }
            _ => {
                let labels: BTreeMap<_, _> = rack_labels(rack).into();
                let body = json!({"metadata": {"labels": labels}});
                let node = format!("n{:03}", which % LABELLED as u64);
                nodes.patch(&node, &PatchParams::default(), &Patch::Merge(&body)).await.context(node)?;
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Edits the configuration.
pub(super) async fn edits(scene: &Scene, every: Duration, end: Instant, done: &AtomicU64) -> Result<()> {
    let (mut next, documents) = (Instant::now(), documents());
    for document in documents.iter().cycle() {
        if !is_time(&mut next, every, end).await {
            break;
        }
        scene.configure(document).await?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Delivers one version of the plugin after the other.
pub(super) async fn swaps(scene: &Scene, every: Duration, end: Instant, done: &AtomicU64) -> Result<()> {
    let mut next = Instant::now();
    for version in VERSIONS.iter().cycle().skip(1) {
        if !is_time(&mut next, every, end).await {
            break;
        }
        push(scene, version).await?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Writes the configuration of the end, and returns the topology that the cluster must have.
pub(super) async fn rest(scene: &Scene) -> Result<Vec<String>> {
    scene.configure(&document(&[LABEL, FABRIC, ZONES])).await?;
    wanted(scene).await
}

/// The topology of the nodes as the API server has them, with every entry configured.
pub(super) async fn wanted(scene: &Scene) -> Result<Vec<String>> {
    let nodes: Api<Node> = Api::all(scene.plane.client());
    // The groups of the first level, with their nodes; and the groups above, with their groups and number of nodes.
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut spines: BTreeMap<String, (BTreeSet<String>, usize)> = BTreeMap::new();
    for node in nodes.list(&ListParams::default()).await?.items {
        let name = node.metadata.name.unwrap_or_default();
        let labels = node.metadata.labels.unwrap_or_default();
        for key in [RACK, PLUGGED_RACK, ZONE] {
            let Some(value) = labels.get(key) else { continue };
            groups.entry(format!("{key}={value}")).or_default().push(name.clone());
            if let Some(spine) = labels.get(SPINE) {
                let (racks, count) = spines.entry(format!("{SPINE}={spine}")).or_default();
                racks.insert(format!("{key}={value}"));
                *count += 1;
            }
        }
    }
    let mut upper: Vec<String> = Vec::new();
    for (title, (racks, count)) in spines {
        let racks: Vec<String> = racks.into_iter().collect();
        upper.push(format!("tier 2 {title} ({count}): {}", racks.join(" ")));
    }
    let mut lower: Vec<String> = Vec::new();
    for (title, mut nodes) in groups {
        nodes.sort();
        lower.push(format!("tier 1 {title} ({}): {}", nodes.len(), nodes.join(" ")));
    }
    upper.sort();
    lower.sort();
    Ok([upper, lower].concat())
}
