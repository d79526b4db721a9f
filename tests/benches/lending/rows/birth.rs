//! All nodes from nothing: from the binding until each virtual node and its lease exist. And all of them gone again: from the
//! removal of the binding until it is gone.
//!
//! The raw client reads the list of the machines, which no program can do without, and knows all else before. The claims of the host
//! go at the rate that it has for one physical API server (decision S21): what that alone takes is shown, too.
//!
//! The two are measured in turns, after a turn that is not counted: the memory that an API server needs for the first thousands of
//! requests comes from the operating system page by page, at the expense of the client that sends them. The machines renew no leases
//! meanwhile: no program of lending looks at them, and the heartbeats of thousands of machines beside all else fill a small machine,
//! where chance decides which of the two is faster.

use std::cmp::max;
use std::time::Duration;

use anyhow::Result;
use kube::api::{Api, DeleteParams};
use kube::runtime::wait::await_condition;
use serde_json::json;
use tokio::time::Instant;
use topoloom_api::ClusterBinding;
use topoloom_tests::controlplane::Request;
use topoloom_tests::lending::kubelets::Beats;

use crate::options::Options;
use crate::program::until_at_rest;
use crate::raw::{Pattern, RAW, births, clear, machines, remove_leases};
use crate::sample::Sample;
use crate::scale::Scale;
use crate::seen::{Leases, Nodes};
use crate::stage::{BINDING, MOUNT, PATIENCE, Stage, VIRTUAL, virtual_node};
use crate::table::{Row, Table, Target, time};

/// How often each is measured, after [`WARM_UP`].
const TURNS: usize = 3;
/// So many turns before are not counted.
const WARM_UP: usize = 1;

const RATIO: f64 = 1.3;
/// Two, and the leases of the process itself.
const REQUESTS: f64 = 2.01;
/// The claims in a second by default, and how many go at once before. A host takes others from its environment.
const CLAIMS: [(&str, u32); 2] = [("TOPOLOOM_PHYSICAL_CLIENT_QPS", 200), ("TOPOLOOM_PHYSICAL_CLIENT_BURST", 200)];

/// Once.
struct Birth {
    took: Duration,
    /// Until the first node.
    first: Duration,
    /// Requests for nodes and their leases in the virtual cluster, and claims in the physical one.
    requests: u64,
    claims: u64,
    /// Until all of it was gone.
    gone: Duration,
    pattern: Pattern,
}

pub(super) async fn measure(stage: &Stage, options: &Options, scale: &Scale, table: &mut Table) -> Result<()> {
    stage.kubelets.beat(Beats::Status);
    let measured = in_turns(stage, options, table).await;
    stage.kubelets.beat(scale.beats);
    measured
}

async fn in_turns(stage: &Stage, options: &Options, table: &mut Table) -> Result<()> {
    let nodes = stage.machines;
    let (mut ours, mut raw, mut gone) = (Sample::default(), Sample::default(), Sample::default());
    for turn in 0..WARM_UP + options.runs(TURNS) {
        let birth = of_the_host(stage).await?;
        let other = of_raw(stage, &birth.pattern).await?;
        let (took, raw_took, all_gone) = (time(birth.took), time(other), time(birth.gone));
        eprintln!("bench: {nodes} nodes from nothing: {took}, raw {raw_took}; gone again: {all_gone}");
        if turn < WARM_UP {
            continue;
        }
        if turn == WARM_UP {
            report(&birth, nodes, table);
        }
        ours.push(birth.took);
        gone.push(birth.gone);
        raw.push(other);
    }
    let (took, raw) = (ours.median(), raw.median());
    let row = Row::new(format!("{nodes} nodes from nothing, median of {}", ours.len()), time(took));
    table.add(row.against("raw: the list, and claim, Node, lease of each", took, raw, Target::AtMost(RATIO)));
    let row = Row::new("  beside the slower of raw and of the limit of claims", time(took));
    table.add(row.against("that", took, max(raw, limit(nodes)), Target::None));
    table.add(Row::new("  binding removed, until it and all nodes are gone", time(gone.median())));
    Ok(())
}

async fn of_the_host(stage: &Stage) -> Result<Birth> {
    stage.secret(BINDING, &stage.kubeconfig()?).await?;
    let host = stage.host("host", &[]).await?;
    let before = stage.virtual_plane.requests().await?;
    let physical_before = stage.physical_plane.requests().await?;
    let begin = Instant::now();
    // All nodes go at the end: the guard would hold that.
    stage.bind(BINDING, MOUNT, json!({"safety": {"maxNodesPercent": 100}})).await?;
    let born = stage.until_born(VIRTUAL, stage.machines).await?;
    let wanted = stage.machines as usize;
    let all = |leases: &mut Leases| if leases.len() == wanted { leases.youngest() } else { None };
    let leased = stage.leases.until("all leases exist", PATIENCE, all).await?;
    let took = max(born, leased).saturating_duration_since(begin);
    let first = stage.nodes.look(|nodes| nodes.named(VIRTUAL).map(|node| node.born).min()).unwrap_or(begin);
    let first = first.saturating_duration_since(begin);
    let [nodes, leases] = [born, leased].map(|at| time(at.saturating_duration_since(begin)));
    eprintln!("bench: the last node after {nodes}, the last lease after {leases}");
    until_at_rest(&host, stage.machines, 0).await?;
    let requests = stage.virtual_plane.requests().await?.since(&before).count(is_of_a_node);
    let claims = stage.physical_plane.requests().await?.since(&physical_before).writes("nodes", "");
    let pattern = Pattern::of_the_host(stage).await?;
    let gone = remove(stage).await?;
    host.stop().await?;
    Ok(Birth { took, first, requests, claims, gone, pattern })
}

fn report(birth: &Birth, nodes: u32, table: &mut Table) {
    table.add(Row::new(format!("{nodes} nodes from nothing: until the first node"), time(birth.first)));
    table.add(Row::new("  the limit of claims in a second alone takes", time(limit(nodes))));
    let each = birth.requests as f64 / f64::from(nodes);
    let row = Row::new("  requests per node in the virtual cluster, without renewals", format!("{each:.3}"));
    table.add(row.target(each, Target::AtMost(REQUESTS), |each| format!("{each:.2}")));
    let each = birth.claims as f64 / f64::from(nodes);
    table.add(Row::new("  claims per node in the physical cluster", format!("{each:.3}")));
}

/// Removes the binding, and waits until nothing of it is left.
async fn remove(stage: &Stage) -> Result<Duration> {
    let bindings: Api<ClusterBinding> = Api::all(stage.virtual_plane.client());
    let begin = Instant::now();
    bindings.delete(BINDING, &DeleteParams::default()).await?;
    let no_node = |nodes: &mut Nodes| nodes.named(VIRTUAL).next().is_none().then_some(());
    stage.nodes.until("no virtual node is left", PATIENCE, no_node).await?;
    let is_gone = |binding: Option<&ClusterBinding>| binding.is_none();
    tokio::time::timeout(PATIENCE, await_condition(bindings, BINDING, is_gone)).await??;
    let took = begin.elapsed();
    remove_leases(stage, |number| virtual_node(BINDING, number)).await?;
    stage.leases.until("no lease is left", PATIENCE, |leases| (leases.len() == 0).then_some(())).await?;
    Ok(took)
}

async fn of_raw(stage: &Stage, pattern: &Pattern) -> Result<Duration> {
    let begin = Instant::now();
    machines(stage).await?;
    births(stage, pattern).await?;
    let answered = Instant::now();
    let took = max(stage.until_born(RAW, stage.machines).await?, answered).saturating_duration_since(begin);
    clear(stage).await?;
    Ok(took)
}

/// How long the claims of so many nodes take by their limit alone.
fn limit(nodes: u32) -> Duration {
    let [per_second, burst] = CLAIMS.map(|(variable, usual)| {
        std::env::var(variable).ok().and_then(|set| set.trim().parse::<u32>().ok()).unwrap_or(usual)
    });
    if per_second == 0 || burst == 0 {
        return Duration::ZERO;
    }
    Duration::from_secs(1) / per_second * nodes.saturating_sub(burst)
}

/// Whether it is a request for one object of a node: leases are renewed meanwhile.
fn is_of_a_node(request: &Request) -> bool {
    let is_renewal = request.resource == "leases" && matches!(request.verb.as_str(), "PUT" | "PATCH");
    let is_one = !matches!(request.verb.as_str(), "LIST" | "WATCH" | "DELETECOLLECTION");
    matches!(request.resource.as_str(), "nodes" | "leases" | "csinodes") && is_one && !is_renewal
}
