//! A start on nodes and pods that are all there, where nothing has changed; and what the host holds afterwards.
//!
//! A third of the pods are ours. The host's time begins with the take-over of the binding, by the time in its lease. Requests and
//! memory are those of the largest clusters; times are compared where two cores carry both API servers and all kubelets beside the
//! host.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use tokio::time::{Instant, sleep};
use topoloom_tests::host::Host;

use super::{SETTLES, counted_as_text, other_writes};
use crate::alone::Alone;
use crate::naive;
use crate::process::{cpu, held, peak_mib};
use crate::program::{self, until_at_rest};
use crate::raw::{self, RENEWER};
use crate::sample::Sample;
use crate::scale::{Naive, Scale, Size};
use crate::seen::Leases;
use crate::stage::{PATIENCE, Stage};
use crate::table::{Row, Table, Target, mib, time};

const RENEWED: f64 = 10.0;
const RATIO: f64 = 1.5;
const MEMORY: [f64; 2] = [150.0, 300.0];
const PART_OF_NAIVE: f64 = 0.2;
/// How often the lists are read.
const READS: usize = 3;
/// How often a host and the raw client begin, in turns.
const TURNS: usize = 5;
/// How long the raw client renews leases before it reads lists: each lease once.
const ROUND: Duration = Duration::from_secs(10);
/// How long a process is at rest before its memory is measured.
const REST: Duration = Duration::from_secs(60);

/// A host that has taken everything over.
struct Successor {
    host: Host,
    /// When it took the binding over.
    at: Timestamp,
    /// From the start of its process to that.
    elected: Duration,
    /// From that until nothing was left to do.
    converged: Duration,
}

impl Successor {
    async fn start(stage: &Stage, ours: u32) -> Result<Self> {
        stage.leases.look(Leases::begin);
        let (launched, wall) = (Instant::now(), Timestamp::now());
        let host = stage.host("host", &[]).await?;
        let at_rest = until_at_rest(&host, stage.machines, ours).await?;
        let at = stage.taken_over().await?;
        let elected = Duration::try_from(at.duration_since(wall)).unwrap_or_default();
        let converged = at_rest.saturating_duration_since(launched + elected);
        Ok(Self { host, at, elected, converged })
    }

    /// How long after the take-over the last lease was renewed.
    async fn last_renewal(&self, stage: &Stage) -> Result<Duration> {
        let renewed = stage.leases.until("all leases are renewed", PATIENCE, |leases| leases.all_renewed()).await?;
        Ok(Duration::try_from(renewed.duration_since(self.at)).unwrap_or_default())
    }
}

/// Where the clusters are as large as two cores carry: how long a take-over takes.
pub(super) async fn timed(stage: &Stage, scale: &Scale, table: &mut Table) -> Result<()> {
    let ours = scale.timed_pods / 3;
    let (mut converged, mut renewed, mut least) = (Sample::default(), Sample::default(), Sample::default());
    for _ in 0..TURNS {
        let successor = Successor::start(stage, ours).await?;
        renewed.push(successor.last_renewal(stage).await?);
        converged.push(successor.converged);
        successor.host.stop().await?;
        least.push(lists_and_leases(stage).await?);
    }
    let what = format!("start on {} nodes and {} pods, {ours} of them ours", stage.machines, scale.timed_pods);
    let row = Row::new(format!("{what}: converged after the take-over"), time(converged.median()));
    let raw = "raw: the lists, and the leases";
    table.add(row.against(raw, converged.median(), least.median(), Target::AtMost(RATIO)));
    table.add(last_renewal(renewed.percentile(100)));
    Ok(())
}

/// On the largest clusters: what is read, written and held.
pub(super) async fn counted(stage: &mut Stage, scale: &Scale, table: &mut Table) -> Result<()> {
    let ours = scale.pods / 3;
    stage.let_tenants_in(scale.pods - ours).await?;
    let host = stage.lend().await?;
    let player = stage.play().await?;
    stage.let_work_in(ours).await?;
    until_at_rest(&host, stage.machines, ours).await?;
    sleep(SETTLES).await;
    host.stop().await?;

    let before = [stage.virtual_plane.requests().await?, stage.physical_plane.requests().await?];
    let successor = Successor::start(stage, ours).await?;
    let Successor { host, elected, converged, .. } = &successor;
    let what = format!("start on {} nodes and {} pods, {ours} of them ours", stage.machines, scale.pods);
    table.add(Row::new(format!("{what}: process start to take-over"), time(*elected)));
    table.add(Row::new("  converged after the take-over", time(*converged)));
    table.add(Row::new("  its processor time until then", time(cpu(program::id(host)?)?)));
    let until_then = stage.virtual_plane.requests().await?.since(&before[0]);
    table.add(Row::new("  requests until then, virtual cluster", counted_as_text(&until_then, |_| true)));
    // The kubelets write there.
    let until_then = stage.physical_plane.requests().await?.since(&before[1]);
    let reads = counted_as_text(&until_then, |request| !request.is_write());
    table.add(Row::new("  reads until then, physical cluster", reads));
    table.add(last_renewal(successor.last_renewal(stage).await?));

    sleep(REST).await;
    let since = stage.virtual_plane.requests().await?.since(&before[0]);
    // The kubelets write there, too: the status of nodes and pods.
    let there = stage.physical_plane.requests().await?.since(&before[1]);
    let policies = there.count(|request| request.is_write() && request.resource == "resourceleasingpolicies");
    let there = there.writes("nodes", "") + policies;
    let writes = since.count(|request| request.is_write() && request.resource != "leases") + there;
    let row = Row::new("  writes but leases, both clusters", writes.to_string());
    table.add(row.exactly(writes == 0, "0".to_owned()));
    table.add(Row::new("  of them in the virtual cluster", other_writes(&since)));
    let id = program::id(host)?;
    let (memory, peak) = (held(id)?.resident, peak_mib(id)?);
    let most = if scale.size == Size::Full { MEMORY[1] } else { MEMORY[0] };
    let row = Row::new(format!("memory at rest, {} nodes and {} pods", stage.machines, scale.pods), mib(memory));
    table.add(row.target(memory, Target::AtMost(most), mib));
    table.add(Row::new("  its peak", mib(peak)));
    let converged = successor.converged;
    successor.host.stop().await?;

    let row = || Row::new("  converged after the take-over", time(converged));
    table.add(row().against("raw: the lists alone", converged, lists(stage).await?, Target::None));
    let least = lists_and_leases(stage).await?;
    table.add(row().against("raw: the lists, and the leases", converged, least, Target::None));

    if scale.naive == Naive::Measured {
        let naive = naive::start(stage).await?;
        sleep(REST).await;
        let other = held(naive.id()?)?.resident;
        let row = Row::new("  memory at rest", mib(memory));
        table.add(row.beside("naive", memory, other, mib, Target::AtMost(PART_OF_NAIVE)));
        naive.stop().await?;
    }
    drop(player);
    Ok(())
}

fn last_renewal(renewed: Duration) -> Row {
    let row = Row::new("  last lease renewed after the take-over", time(renewed));
    row.target(renewed.as_secs_f64(), Target::AtMost(RENEWED), crate::table::seconds)
}

/// How long the raw client takes for what a take-over sends at least: each lease is renewed within ten seconds, and a lease that was
/// renewed has its turn again.
async fn lists_and_leases(stage: &Stage) -> Result<Duration> {
    let renewer = Alone::start(RENEWER, &[stage.virtual_plane.kubeconfig().as_path()]).await?;
    sleep(ROUND).await;
    let least = lists(stage).await?;
    renewer.stop().await?;
    Ok(least)
}

/// How long the raw client takes for the lists, in the middle.
async fn lists(stage: &Stage) -> Result<Duration> {
    let mut reads = Sample::default();
    for _ in 0..READS {
        let begin = Instant::now();
        raw::lists(stage).await?;
        reads.push(begin.elapsed());
    }
    Ok(reads.median())
}
