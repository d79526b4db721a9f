//! Where the processor time of an idle and of a busy host goes, by its own profiler (`--profiling`, `/debug/profile` at the admin
//! address: 99 samples a second of processor time, from the frame pointers of each thread).
//!
//! The folded stacks, from which flame graphs are drawn, stay in `target/lending-idle.folded` and `target/lending-busy.folded`.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::try_join;
use tokio::time::sleep;
use topoloom_tests::host::Host;

use super::SETTLES;
use crate::process::{held, peak_mib};
use crate::program::{self, until_at_rest};
use crate::stacks;
use crate::stage::{Stage, Stream};
use crate::table::{Row, Table, mib};

const SECONDS: u64 = 30;
/// The streams begin before the profile, and end after it.
const STREAM: Duration = Duration::from_secs(SECONDS + 10);
const EARLY: Duration = Duration::from_secs(5);
/// Pods of the lender, and pods of ours, in a second.
const TENANTS: u32 = 100;
const OURS: u32 = 10;
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");

pub(super) async fn measure(stage: &mut Stage, table: &mut Table) -> Result<()> {
    let host = stage.host("host", &["--profiling"]).await?;
    until_at_rest(&host, stage.machines, 0).await?;
    let player = stage.play().await?;
    sleep(SETTLES).await;
    let id = program::id(&host)?;
    // Before the first profile: to name functions, it reads the symbols of the whole program.
    let memory = [held(id)?.resident, peak_mib(id)?].map(mib).join(", ");
    let what = format!("idle host, {} nodes", stage.machines);
    table.add(Row::new(format!("{what}: memory, and its peak"), memory));
    let folded = host.get(&path()).await?;
    keep("lending-idle", &folded)?;
    stacks::show(&folded, &what, SECONDS, table);

    let stream =
        |rate: u32, life: u64| Stream { rate, life: Duration::from_secs(life), time: STREAM, machines: stage.machines };
    let what = format!("busy host, {} nodes", stage.machines);
    let (tenants, ours, folded) =
        try_join!(stage.stream_tenants(stream(TENANTS, 2)), stage.stream_work(stream(OURS, 5)), later(&host))?;
    let come = format!("{:.0}, {:.0}", rate(tenants), rate(ours));
    table.add(Row::new(format!("{what}: pods of the lender and of ours that came in a second"), come));
    keep("lending-busy", &folded)?;
    stacks::show(&folded, &what, SECONDS, table);
    drop(player);
    host.stop().await
}

fn path() -> String {
    format!("/debug/profile?seconds={SECONDS}")
}

async fn later(host: &Host) -> Result<String> {
    sleep(EARLY).await;
    host.get(&path()).await
}

fn rate(pods: u32) -> f64 {
    f64::from(pods) / STREAM.as_secs_f64()
}

fn keep(name: &str, folded: &str) -> Result<()> {
    let file = format!("{FOLDER}/{name}.folded");
    std::fs::write(&file, folded).with_context(|| format!("cannot write {file}"))
}
