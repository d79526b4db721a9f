//! All nodes from nothing: from the binding until each virtual node and its lease exist.
//!
//! The raw client reads the list of the machines, which no program can do without, and knows all else before. The claims of the host
//! go at the rate that it has for one physical API server (decision S21): what that alone takes is shown, too.

use std::cmp::max;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::time::Instant;
use topoloom_tests::controlplane::Request;

use crate::program::until_at_rest;
use crate::raw::{RAW, births, clear, machines};
use crate::stage::{BINDING, MOUNT, PATIENCE, Stage, VIRTUAL};
use crate::table::{Row, Table, Target, time};

const RATIO: f64 = 1.3;
/// Two, and the leases of the process itself.
const REQUESTS: f64 = 2.01;
/// The claims in a second by default, and how many go at once before. A host takes others from its environment.
const CLAIMS: [(&str, u32); 2] = [("TOPOLOOM_PHYSICAL_CLIENT_QPS", 200), ("TOPOLOOM_PHYSICAL_CLIENT_BURST", 50)];

pub(super) async fn measure(stage: &Stage, table: &mut Table) -> Result<()> {
    stage.secret(BINDING, &stage.kubeconfig()?).await?;
    let host = stage.host("host", &[]).await?;
    let before = stage.virtual_plane.requests().await?;
    let physical_before = stage.physical_plane.requests().await?;
    let begin = Instant::now();
    stage.bind(BINDING, MOUNT, json!({})).await?;
    let born = stage.until_born(VIRTUAL, stage.machines).await?;
    let wanted = stage.machines as usize;
    let all = |leases: &mut crate::seen::Leases| if leases.len() == wanted { leases.youngest() } else { None };
    let leased = stage.leases.until("all leases exist", PATIENCE, all).await?;
    let took = max(born, leased).saturating_duration_since(begin);
    let first = stage.nodes.look(|nodes| nodes.named(VIRTUAL).map(|node| node.born).min()).unwrap_or(begin);
    until_at_rest(&host, stage.machines, 0).await?;
    let since = stage.virtual_plane.requests().await?.since(&before);
    let claims = stage.physical_plane.requests().await?.since(&physical_before).writes("nodes", "");

    let nodes = stage.machines;
    table.add(Row::new(format!("{nodes} nodes from nothing"), time(took)));
    table.add(Row::new("  until the first node", time(first.saturating_duration_since(begin))));
    table.add(Row::new("  the limit of claims in a second alone takes", time(limit(nodes))));
    let each = since.count(is_of_a_node) as f64 / f64::from(nodes);
    let row = Row::new("  requests per node in the virtual cluster, without renewals", format!("{each:.3}"));
    table.add(row.target(each, Target::AtMost(REQUESTS), |each| format!("{each:.2}")));
    let each = claims as f64 / f64::from(nodes);
    table.add(Row::new("  claims per node in the physical cluster", format!("{each:.3}")));
    host.stop().await?;

    let begin = Instant::now();
    machines(stage).await?;
    births(stage).await?;
    let answered = Instant::now();
    let raw = max(stage.until_born(RAW, nodes).await?, answered).saturating_duration_since(begin);
    let row = Row::new(format!("{nodes} nodes from nothing"), time(took));
    table.add(row.against("raw: the list, and claim, Node, lease of each", took, raw, Target::AtMost(RATIO)));
    let slower = max(raw, limit(nodes));
    let row = Row::new("  beside the slower of raw and of the limit of claims", time(took));
    table.add(row.against("that", took, slower, Target::None));
    clear(stage).await
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
