//! Nothing happens but the heartbeats of the machines.
//!
//! The host, a process that renews the same leases and does nothing else, and the naive mode, one after the other.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};
use topoloom_tests::host::Host;

use super::{SETTLES, node_writes, other_writes, whole};
use crate::alone::Alone;
use crate::naive;
use crate::process::{cpu, held};
use crate::program::{self, until_at_rest};
use crate::raw::RENEWER;
use crate::scale::{Naive, Scale};
use crate::seen::{Leases, Nodes};
use crate::stage::Stage;
use crate::table::{Row, Table, Target, mib, seconds};

/// A lease is renewed each ten seconds, ten percent more or less.
const APART: [Duration; 2] = [Duration::from_secs(9), Duration::from_secs(11)];
const BUSIEST: f64 = 2.0;
const PROCESSOR: f64 = 1.5;
/// For so long the raw renewer is measured at most.
const RAW: Duration = Duration::from_secs(120);
/// The interval of the naive mode: longer than that it is not measured.
const ROUND: Duration = Duration::from_secs(300);

/// Stops the host and starts another one in between; returns the one that runs at the end.
pub(super) async fn measure(stage: &Stage, host: Host, scale: &Scale, table: &mut Table) -> Result<Host> {
    until_at_rest(&host, stage.machines, 0).await?;
    sleep(SETTLES).await;
    let id = program::id(&host)?;
    let marks = [stage.virtual_lists.mark(), stage.physical_lists.mark()];
    let before = [stage.virtual_plane.requests().await?, stage.physical_plane.requests().await?];
    stage.leases.look(Leases::begin);
    stage.nodes.look(Nodes::begin);
    let (began, used) = (Instant::now(), cpu(id)?);
    sleep(scale.idle).await;
    let share = (cpu(id)? - used).as_secs_f64() / began.elapsed().as_secs_f64();
    let since = stage.virtual_plane.requests().await?.since(&before[0]);
    let physical = stage.physical_plane.requests().await?.since(&before[1]);
    let rhythm = stage.leases.look(|leases| leases.rhythm());
    let lists = [stage.virtual_lists.lists(marks[0])?, stage.physical_lists.lists(marks[1])?];
    let memory = held(id)?.resident;
    host.stop().await?;

    let raw = renewer(stage, scale).await?;
    let naive = match scale.naive {
        Naive::Measured => Some(naive_mode(stage, scale).await?),
        Naive::LeftOut => None,
    };

    let what = format!("idle for {} s, {} nodes", scale.idle.as_secs(), stage.machines);
    let nodes = node_writes(&since);
    let mut row = Row::new(format!("{what}: node writes"), nodes.to_string());
    if let Some(naive) = &naive {
        row = row.beside("naive", nodes as f64, naive.writes, whole, Target::None);
    }
    table.add(row.exactly(nodes == 0, "0".to_owned()));
    let pods = since.count(|request| request.is_write() && request.resource == "pods");
    table.add(Row::new("  pod writes", pods.to_string()).exactly(pods == 0, "0".to_owned()));
    let claims = physical.writes("nodes", "");
    table.add(Row::new("  writes of machines", claims.to_string()).exactly(claims == 0, "0".to_owned()));
    table.add(Row::new("  all writes but leases in the virtual cluster", other_writes(&since)));
    let listed: u64 = lists.iter().map(|lists| lists.count()).sum();
    let row = Row::new("  lists, without looks at the version", listed.to_string());
    table.add(row.exactly(listed == 0, "0".to_owned()));
    for lists in lists.iter().filter(|lists| lists.count() > 0) {
        eprintln!("bench: listed while idle: {:?}", lists.others);
    }
    let looks: u64 = lists.iter().map(|lists| lists.looks).sum();
    table.add(Row::new("  looks at the version, both clusters", looks.to_string()));
    let apart = format!("{} to {}", seconds(rhythm.shortest.as_secs_f64()), seconds(rhythm.longest.as_secs_f64()));
    let holds = rhythm.shortest >= APART[0] && rhythm.longest <= APART[1];
    table.add(Row::new("  two renewals of a lease are apart", apart).exactly(holds, "10 s ± 10 %".to_owned()));
    let row = Row::new("  renewals in the busiest second", whole(rhythm.busiest));
    table.add(row.beside("mean", rhythm.busiest, rhythm.mean, whole, Target::AtMost(BUSIEST)));
    let row = Row::new("  processor", percent(share));
    table.add(row.beside("raw renewer", share, raw, percent, Target::AtMost(PROCESSOR)));
    if let Some(naive) = naive {
        let row = Row::new("  processor", percent(share));
        table.add(row.beside("naive", share, naive.share, percent, Target::None));
        table.add(Row::new("  memory", mib(memory)).beside("naive", memory, naive.memory, mib, Target::None));
    }
    let host = stage.host("host", &[]).await?;
    until_at_rest(&host, stage.machines, 0).await?;
    sleep(SETTLES).await;
    Ok(host)
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

fn percent(share: f64) -> String {
    format!("{:.1} % of one", share * 100.0)
}
