//! What the host writes when little or nothing has changed, by the API server's own count.

use std::time::Duration;

use anyhow::Result;
use topoloom_tests::controlplane::{Requests, eventually};
use topoloom_tests::host::Host;

use super::Live;
use super::watch::Watch;
use crate::cluster::{KEYS, leaf_value, name};
use crate::table::{Row, Table};

const PATIENCE: Duration = Duration::from_secs(60);
/// An unneeded write comes within this time or not at all.
const QUIET: Duration = Duration::from_secs(2);

/// Stops the host and starts another one in between; returns the one that runs at the end.
pub(super) async fn measure(live: &Live, host: Host, watch: &mut Watch, table: &mut Table) -> Result<Host> {
    rounds(&host, 1).await;
    tokio::time::sleep(QUIET).await;

    let before = live.scene.plane.requests().await?;
    let done = rounds(&host, 1).await;
    live.scene.cli(&["source", "run", "label"]).await?;
    rounds(&host, done + 1).await;
    report(live, &before, "an unchanged round", (0, 0), table).await?;

    host.stop().await?;
    let before = live.scene.plane.requests().await?;
    let host = live.host().await?;
    rounds(&host, 1).await;
    report(live, &before, "a restart of the host", (0, 0), table).await?;

    let before = live.scene.plane.requests().await?;
    let node = name(0);
    live.scene.plane.relabel(&node, KEYS[0], leaf_value(1).as_str()).await?;
    watch.until("the node has moved", |objects| super::edits::is_moved(objects, &node, (0, 17), (1, 19))).await?;
    report(live, &before, "one node moved between leaves of a spine", (2, 2), table).await?;
    let old = leaf_value(0);
    live.scene.plane.relabel(&node, KEYS[0], old.as_str()).await?;
    watch.until("the node has moved back", |objects| super::edits::is_moved(objects, &node, (1, 18), (0, 18))).await?;
    Ok(host)
}

/// Waits until at least this many rounds have succeeded since the host's start; returns how many there are.
async fn rounds(host: &Host, at_least: u64) -> u64 {
    let mut rounds = 0;
    eventually("a round has run", PATIENCE, async || {
        let text = host.get("/metrics").await.map_err(|error| error.to_string())?;
        let line = text.lines().find(|line| line.starts_with("topoloom_rounds_total") && line.contains("\"ok\""));
        rounds = line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0);
        if rounds >= at_least { Ok(()) } else { Err(format!("{rounds} rounds")) }
    })
    .await;
    rounds
}

async fn report(live: &Live, before: &Requests, what: &str, wanted: (u64, u64), table: &mut Table) -> Result<()> {
    tokio::time::sleep(QUIET).await;
    let found = live.scene.writes_since(before).await?;
    let show = |(spec, status): (u64, u64)| format!("{spec} spec + {status} status");
    let row = Row::new(format!("writes of {what}, {} nodes", live.size), show(found));
    table.add(row.exactly(found == wanted, show(wanted)));
    Ok(())
}
