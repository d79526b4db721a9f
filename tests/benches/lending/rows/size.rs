//! A pod of the lender comes to a machine, or goes: until its virtual node has the right size.
//!
//! One at a time, each on another machine. The time begins before the pod is created, and ends when a watch shows the node. The raw
//! client patches the size of a node of its own, in turns with the host.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{SETTLES, node_writes};
use crate::options::Options;
use crate::sample::Sample;
use crate::seen::Nodes;
use crate::stage::{BINDING, Stage, machine, pod, virtual_node};
use crate::table::{Row, Table, Target, seconds, time};

const TURNS: usize = 200;
const SMALLER: f64 = 0.3;
/// A node is written larger once in ten seconds at most (decision S14).
const LARGER: f64 = 11.0;
/// What each pod requests, in thousandths of a core.
const CORE: i64 = 1_000;
/// The node of the raw client.
const RAW: &str = "size-raw";
/// Between two deletions.
const PACE: Duration = Duration::from_millis(50);
/// How long a change may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// One node that has become smaller.
struct Changed {
    name: String,
    pod: String,
    /// Its size before.
    cpu: i64,
}

pub(super) async fn measure(stage: &Stage, options: &Options, table: &mut Table) -> Result<()> {
    let turns = u32::try_from(options.runs(TURNS))?.min(stage.machines);
    let host = stage.lend().await?;
    sleep(SETTLES).await;
    let nodes: Api<Node> = Api::all(stage.virtual_plane.client());
    let body = json!({"metadata": {"name": RAW}, "status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}}});
    nodes.create(&PostParams::default(), &serde_json::from_value(body)?).await?;
    stage.until_born(RAW, 1).await?;

    let before = stage.virtual_plane.requests().await?;
    let (mut smaller, mut patches, mut changed) = (Sample::default(), Sample::default(), Vec::new());
    for turn in 0..turns {
        let (took, change) = shrink(stage, BINDING, turn, "z").await?;
        smaller.push(took);
        changed.push(change);
        patches.push(patch(stage, &nodes, RAW, turn).await?);
    }
    sleep(SETTLES).await;
    let since = stage.virtual_plane.requests().await?.since(&before);
    let writes = node_writes(&since).saturating_sub(turns.into());
    let what = format!("{} nodes: pod of the lender bound → node smaller", stage.machines);
    for (which, percent, target) in [("p50", 50, Target::None), ("p99", 99, Target::Below(SMALLER))] {
        let (value, other) = (smaller.percentile(percent), patches.percentile(percent));
        let row = Row::new(format!("{what}, {which} of {turns}"), time(value));
        let row = row.against("raw patch", value, other, Target::None);
        table.add(row.target(value.as_secs_f64(), target, seconds));
    }
    report_writes(writes, turns, table);

    let before = stage.virtual_plane.requests().await?;
    let larger = grow(stage, &changed).await?;
    sleep(SETTLES).await;
    let writes = node_writes(&stage.virtual_plane.requests().await?.since(&before));
    let value = larger.percentile(99);
    let row = Row::new(format!("pod of the lender gone → node larger, p99 of {turns}"), time(value));
    table.add(row.target(value.as_secs_f64(), Target::AtMost(LARGER), seconds));
    report_writes(writes, turns, table);
    nodes.delete(RAW, &DeleteParams::default()).await?;
    host.stop().await
}

fn report_writes(writes: u64, turns: u32, table: &mut Table) {
    let row = Row::new("  writes of nodes, one for each", writes.to_string());
    table.add(row.exactly(writes == u64::from(turns), turns.to_string()));
}

/// The samples of so many pods, on the machines of these numbers: how long each node took to become smaller.
pub(super) async fn lags(
    stage: &Stage,
    numbers: impl Iterator<Item = u32>,
    binding: impl Fn(u32) -> String,
    prefix: &str,
) -> Result<Sample> {
    let mut sample = Sample::default();
    for number in numbers {
        let (took, _) = shrink(stage, &binding(number), number, prefix).await?;
        sample.push(took);
    }
    Ok(sample)
}

/// A pod comes to a machine; returns after what time the node was smaller.
async fn shrink(stage: &Stage, binding: &str, number: u32, prefix: &str) -> Result<(Duration, Changed)> {
    let (name, new) = (virtual_node(binding, number), format!("{prefix}{number:05}"));
    let cpu = stage.nodes.look(|nodes| nodes.get(&name).map(|node| node.cpu));
    let cpu = cpu.with_context(|| format!("there is no {name}"))?;
    let body: Pod = serde_json::from_value(pod(&new, &machine(number), &format!("{CORE}m"), json!({})))?;
    let begin = Instant::now();
    stage.tenants().create(&PostParams::default(), &body).await?;
    let at = until_size(stage, &name, cpu - CORE).await?;
    Ok((at.saturating_duration_since(begin), Changed { name, pod: new, cpu }))
}

/// Waits until a node has a size; returns since when.
async fn until_size(stage: &Stage, name: &str, cpu: i64) -> Result<Instant> {
    let is_so = |nodes: &mut Nodes| nodes.get(name).filter(|node| node.cpu == cpu).map(|node| node.cpu_at);
    stage.nodes.until(&format!("{name} has {cpu} thousandths of a core"), PATIENCE, is_so).await
}

/// The raw client changes the size of its node.
async fn patch(stage: &Stage, nodes: &Api<Node>, name: &str, turn: u32) -> Result<Duration> {
    let cpu = 2 + turn;
    let amounts = json!({"cpu": cpu.to_string()});
    let patch = Patch::Merge(json!({"status": {"capacity": amounts, "allocatable": amounts}}));
    let begin = Instant::now();
    nodes.patch_status(name, &PatchParams::default(), &patch).await?;
    let at = until_size(stage, name, i64::from(cpu) * CORE).await?;
    Ok(at.saturating_duration_since(begin))
}

/// The pods go, one after the other; how long each node took to have its size again.
async fn grow(stage: &Stage, changed: &[Changed]) -> Result<Sample> {
    let mut gone = Vec::new();
    for change in changed {
        gone.push(Instant::now());
        stage.tenants().delete(&change.pod, &DeleteParams::default().grace_period(0)).await?;
        sleep(PACE).await;
    }
    let mut sample = Sample::default();
    for (change, begin) in changed.iter().zip(gone) {
        sample.push(until_size(stage, &change.name, change.cpu).await?.saturating_duration_since(begin));
    }
    Ok(sample)
}
