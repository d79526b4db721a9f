//! Nothing happens but the heartbeats of the machines.
//!
//! The host, a process that renews the same leases and does nothing else, and the naive mode, one after the other.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::{SETTLES, node_writes, other_writes, whole};
use crate::alone::Alone;
use crate::naive;
use crate::process::{cpu, held};
use crate::program;
use crate::raw::RENEWER;
use crate::scale::{Naive, Scale};
use crate::seen::{Gaps, Leases};
use crate::stage::Stage;
use crate::table::{Row, Table, Target, mib, seconds};

/// A lease is renewed each ten seconds, ten percent more or less.
const APART: [Duration; 2] = [Duration::from_secs(9), Duration::from_secs(11)];
const BUSIEST: f64 = 2.0;
const PROCESSOR: f64 = 1.5;
/// For so long the raw renewer is measured at most.
const RAW: Duration = Duration::from_secs(60);
/// The interval of the naive mode: longer than that it is not measured.
const ROUND: Duration = Duration::from_secs(300);
/// Before it counts as idle.
const REST: Duration = Duration::from_secs(30);

/// What was measured of the host.
struct Host {
    nodes: u64,
    share: f64,
    memory: f64,
}

pub(super) async fn measure(stage: &Stage, scale: &Scale, table: &mut Table) -> Result<()> {
    let host = of_the_host(stage, scale, table).await?;
    let raw = renewer(stage, scale).await?;
    let row = Row::new("  processor", percent(host.share));
    table.add(row.beside("raw renewer", host.share, raw, percent, Target::AtMost(PROCESSOR)));
    if scale.naive == Naive::Measured {
        let naive = naive_mode(stage, scale).await?;
        let row = Row::new("  node writes", host.nodes.to_string());
        table.add(row.beside("naive", host.nodes as f64, naive.writes, whole, Target::None));
        let row = Row::new("  processor", percent(host.share));
        table.add(row.beside("naive", host.share, naive.share, percent, Target::None));
        table.add(Row::new("  memory", mib(host.memory)).beside("naive", host.memory, naive.memory, mib, Target::None));
    }
    Ok(())
}

async fn of_the_host(stage: &Stage, scale: &Scale, table: &mut Table) -> Result<Host> {
    let host = stage.lend().await?;
    sleep(REST).await;
    let id = program::id(&host)?;
    let marks = [stage.virtual_lists.mark(), stage.physical_lists.mark()];
    let before = [stage.virtual_plane.requests().await?, stage.physical_plane.requests().await?];
    stage.leases.look(Leases::begin);
    let (began, used) = (Instant::now(), cpu(id)?);
    sleep(scale.idle).await;
    let share = (cpu(id)? - used).as_secs_f64() / began.elapsed().as_secs_f64();
    let since = stage.virtual_plane.requests().await?.since(&before[0]);
    let physical = stage.physical_plane.requests().await?.since(&before[1]);
    let rhythm = stage.leases.look(|leases| leases.rhythm());
    let memory = held(id)?.resident;

    let what = format!("idle for {} s, {} nodes", scale.idle.as_secs(), stage.machines);
    let nodes = node_writes(&since);
    table.add(Row::new(format!("{what}: node writes"), nodes.to_string()).exactly(nodes == 0, "0".to_owned()));
    let pods = since.count(|request| request.is_write() && request.resource == "pods");
    table.add(Row::new("  pod writes", pods.to_string()).exactly(pods == 0, "0".to_owned()));
    // Those of the kubelets are writes of the status.
    let claims = physical.writes("nodes", "");
    table.add(Row::new("  writes of machines", claims.to_string()).exactly(claims == 0, "0".to_owned()));
    table.add(Row::new("  all writes but leases in the virtual cluster", other_writes(&since)));
    let beats = physical.count(|request| request.is_write() && request.resource == "leases");
    let statuses = physical.writes("nodes", "status");
    table.add(Row::new("  heartbeats of machines meanwhile", format!("{beats} leases, {statuses} statuses")));
    let apart = format!("{} to {}", seconds(rhythm.shortest.as_secs_f64()), seconds(rhythm.longest.as_secs_f64()));
    let holds = rhythm.shortest >= APART[0] && rhythm.longest <= APART[1];
    let what = "  two renewals of a lease are apart, by the renewTime that the host writes";
    table.add(Row::new(what, apart).exactly(holds, "10 s ± 10 %".to_owned()));
    table.add(Row::new("    most of them", spread(&rhythm.times)));
    let arrived = &rhythm.arrivals;
    let apart = [0, 100].map(|percent| seconds(arrived.percentile(percent).as_secs_f64()));
    let what = "  the same by events at the bench, with its own delay";
    table.add(Row::new(what, apart.join(" to ")));
    table.add(Row::new("    most of them", spread(arrived)));
    let row = Row::new("  renewals in the busiest second, by renewTime", whole(rhythm.busiest));
    table.add(row.beside("mean", rhythm.busiest, rhythm.mean, whole, Target::AtMost(BUSIEST)));
    table.add(Row::new("  processor, and memory", format!("{}, {}", percent(share), mib(memory))));
    let lists = [stage.virtual_lists.lists(marks[0])?, stage.physical_lists.lists(marks[1])?];
    let listed: u64 = lists.iter().map(|lists| lists.count()).sum();
    let row = Row::new("  lists, without looks at the version", listed.to_string());
    table.add(row.exactly(listed == 0, "0".to_owned()));
    for lists in lists.iter().filter(|lists| lists.count() > 0) {
        eprintln!("bench: listed while idle: {:?}", lists.others);
    }
    let looks: u64 = lists.iter().map(|lists| lists.looks).sum();
    table.add(Row::new("  looks at the version, both clusters", looks.to_string()));
    host.stop().await?;
    Ok(Host { nodes, share, memory })
}

/// The processor time of the raw renewer, in processors.
async fn renewer(stage: &Stage, scale: &Scale) -> Result<f64> {
    let kubeconfig = stage.virtual_plane.kubeconfig();
    let raw = Alone::start(RENEWER, &[kubeconfig.as_path()]).await?;
    let id = raw.id()?;
    // Its connections are made.
    sleep(SETTLES).await;
    let (began, used) = (Instant::now(), cpu(id)?);
    sleep(scale.idle.min(RAW)).await;
    let share = (cpu(id)? - used).as_secs_f64() / began.elapsed().as_secs_f64();
    raw.stop().await?;
    Ok(share)
}

/// What the naive mode did.
struct Measured {
    /// Writes of nodes in the time that the host had.
    writes: f64,
    share: f64,
    memory: f64,
}

async fn naive_mode(stage: &Stage, scale: &Scale) -> Result<Measured> {
    let naive = naive::start(stage).await?;
    let id = naive.id()?;
    let before = stage.virtual_plane.requests().await?;
    let (began, used) = (Instant::now(), cpu(id)?);
    sleep(scale.idle.min(ROUND)).await;
    let time = began.elapsed().as_secs_f64();
    let share = (cpu(id)? - used).as_secs_f64() / time;
    let since = stage.virtual_plane.requests().await?.since(&before);
    let writes = node_writes(&since) as f64 * scale.idle.as_secs_f64() / time;
    let memory = held(id)?.resident;
    naive.stop().await?;
    Ok(Measured { writes, share, memory })
}

/// Without the shortest and the longest hundredth, and how many were too short or too long.
fn spread(gaps: &Gaps) -> String {
    let [low, high] = [1, 99].map(|percent| seconds(gaps.percentile(percent).as_secs_f64()));
    let [least, most] = APART.map(|apart| apart.as_secs());
    let (outside, all) = (gaps.outside(APART), gaps.count());
    format!("1 % {low}, 99 % {high}; {outside} of {all} outside of {least} to {most} s")
}

fn percent(share: f64) -> String {
    format!("{:.1} % of one", share * 100.0)
}
