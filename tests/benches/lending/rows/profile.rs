//! Where the processor time of an idle and of a busy host goes, by its own profiler (`--profiling`, `/debug/profile` at the admin
//! address: 99 samples a second of processor time, from the frame pointers of each thread).
//!
//! The folded stacks, from which flame graphs are drawn, stay in `target/lending-idle.folded` and `target/lending-busy.folded`.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::future::try_join_all;
use futures::join;
use tokio::time::sleep;
use topoloom_tests::host::Host;

use super::{SETTLES, node_writes};
use crate::process::{cpu, held, peak_mib};
use crate::program;
use crate::stacks;
use crate::stage::{Stage, Stream};
use crate::table::{Row, Table, mib, time};

const SECONDS: u64 = 30;
/// The streams begin before the profile, and end after it was taken.
const STREAM: Duration = Duration::from_secs(SECONDS + 10);
const EARLY: Duration = Duration::from_secs(5);
/// How long a profile may take, with the names of its functions: the host gives a connection two minutes.
const PATIENCE: Duration = Duration::from_secs(150);
/// Pods of the lender, and pods of ours, in a second.
const TENANTS: u32 = 100;
const OURS: u32 = 10;
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target");

pub(super) async fn measure(stage: &mut Stage, table: &mut Table) -> Result<()> {
    let host = stage.lend_with(&["--profiling"]).await?;
    let player = stage.play().await?;
    sleep(SETTLES).await;
    let id = program::id(&host)?;
    // Before the first profile: to name functions, it reads the symbols of the whole program.
    let memory = [held(id)?.resident, peak_mib(id)?].map(mib).join(", ");
    let what = format!("idle host, {} nodes", stage.machines);
    table.add(Row::new(format!("{what}: memory, and its peak"), memory));
    let used = cpu(id)?;
    shown("lending-idle", &what, taken(&host).await, table);
    // With the symbols that were read.
    eprintln!("bench: the idle profile cost {} of processor time", time(cpu(id)?.saturating_sub(used)));

    let stream =
        |rate: u32, life: u64| Stream { rate, life: Duration::from_secs(life), time: STREAM, machines: stage.machines };
    let what = format!("busy host, {} nodes", stage.machines);
    let before = [stage.virtual_plane.requests().await?, stage.physical_plane.requests().await?];
    // What happens to one of them loses neither of the others.
    let (tenants, ours, folded) =
        join!(stage.stream_tenants(stream(TENANTS, 2)), stage.stream_work(stream(OURS, 5)), later(&host));
    let writes = [&stage.virtual_plane, &stage.physical_plane].map(|plane| plane.requests());
    let writes = try_join_all(writes).await?;
    let nodes: Vec<u64> = writes.iter().zip(&before).map(|(now, before)| node_writes(&now.since(before))).collect();
    let come = [tenants, ours].map(|came| match came {
        Ok(pods) => format!("{:.0}", f64::from(pods) / STREAM.as_secs_f64()),
        Err(error) => format!("{error:#}"),
    });
    table.add(Row::new(format!("{what}: pods of the lender and of ours that came in a second"), come.join(", ")));
    let of_both = nodes.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    table.add(Row::new(format!("{what}: node writes meanwhile, virtual and physical with heartbeats"), of_both));
    shown("lending-busy", &what, folded, table);
    drop(player);
    host.stop().await
}

/// Shows a profile, and keeps it; or says why there is none.
fn shown(name: &str, what: &str, folded: Result<String>, table: &mut Table) {
    let kept = folded.and_then(|folded| {
        stacks::show(&folded, what, SECONDS, table);
        keep(name, &folded)
    });
    if let Err(error) = kept {
        eprintln!("bench: {what}: {error:#}");
    }
}

/// The profile of a host from now on.
async fn taken(host: &Host) -> Result<String> {
    let answer = tokio::time::timeout(PATIENCE, host.get(&path())).await;
    answer.with_context(|| format!("there is no profile after {PATIENCE:?}"))?
}

fn path() -> String {
    format!("/debug/profile?seconds={SECONDS}")
}

async fn later(host: &Host) -> Result<String> {
    sleep(EARLY).await;
    taken(host).await
}

fn keep(name: &str, folded: &str) -> Result<()> {
    let file = format!("{FOLDER}/{name}.folded");
    std::fs::create_dir_all(FOLDER).with_context(|| format!("cannot make {FOLDER}"))?;
    std::fs::write(&file, folded).with_context(|| format!("cannot write {file}"))
}
