//! All nodes from nothing: from the binding until each virtual node and its lease exist.

use std::cmp::max;

use anyhow::Result;
use serde_json::json;
use tokio::time::Instant;
use topoloom_tests::controlplane::Request;
use topoloom_tests::host::Host;

use crate::program::until_at_rest;
use crate::raw::{RAW, births, clear};
use crate::stage::{BINDING, MOUNT, PATIENCE, Stage, VIRTUAL};
use crate::table::{Row, Table, Target, time};

const RATIO: f64 = 1.3;
/// Two, and the leases of the process itself.
const REQUESTS: f64 = 2.01;

/// Returns a host that lends all machines, and is at rest.
pub(super) async fn measure(stage: &Stage, table: &mut Table) -> Result<Host> {
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
    let took = max(born, leased) - begin;
    until_at_rest(&host, stage.machines, 0).await?;
    let since = stage.virtual_plane.requests().await?.since(&before);
    let claims = stage.physical_plane.requests().await?.since(&physical_before).writes("nodes", "");
    host.stop().await?;

    let begin = Instant::now();
    births(stage).await?;
    let answered = Instant::now();
    let raw = max(stage.until_born(RAW, stage.machines).await?, answered) - begin;
    clear(stage).await?;

    let nodes = stage.machines;
    let row = Row::new(format!("{nodes} nodes from nothing"), time(took));
    table.add(row.against("raw: claim, Node, lease of each", took, raw, Target::AtMost(RATIO)));
    let each = since.count(is_of_a_node) as f64 / f64::from(nodes);
    let row = Row::new("  requests per node in the virtual cluster, without renewals", format!("{each:.3}"));
    table.add(row.target(each, Target::AtMost(REQUESTS), |each| format!("{each:.2}")));
    let each = claims as f64 / f64::from(nodes);
    table.add(Row::new("  claims per node in the physical cluster", format!("{each:.3}")));
    let host = stage.host("host", &[]).await?;
    until_at_rest(&host, stage.machines, 0).await?;
    Ok(host)
}

/// Whether it is a request for one object of a node: leases are renewed meanwhile.
fn is_of_a_node(request: &Request) -> bool {
    let is_renewal = request.resource == "leases" && matches!(request.verb.as_str(), "PUT" | "PATCH");
    let is_one = !matches!(request.verb.as_str(), "LIST" | "WATCH" | "DELETECOLLECTION");
    matches!(request.resource.as_str(), "nodes" | "leases" | "csinodes") && is_one && !is_renewal
}
