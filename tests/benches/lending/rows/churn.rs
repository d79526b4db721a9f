//! Pods of the lender come and go on half of the nodes; then pods of ours alone; then the first again with the naive mode.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use super::{SETTLES, node_writes, per_second, whole};
use crate::naive;
use crate::scale::{Naive, Scale};
use crate::seen::Nodes;
use crate::stage::{Stage, Stream, VIRTUAL};
use crate::table::{Row, Table, Target};

/// Machines that pods of the lender come to, and how many pods come in a second to all of these.
const MACHINES: u32 = 500;
const RATE: u32 = 200;
const LIFE: Duration = Duration::from_secs(2);
/// Pods of ours in a second: each is written in both clusters, by the top-down half, too.
const OUR_RATE: u32 = 20;
const OUR_LIFE: Duration = Duration::from_secs(5);

/// What was written while pods came and went.
struct Written {
    pods: u32,
    time: Duration,
    nodes: u64,
    /// The most writes of one node.
    most: u32,
}

pub(super) async fn measure(stage: &Stage, scale: &Scale, table: &mut Table) -> Result<()> {
    let host = stage.lend().await?;
    sleep(SETTLES).await;
    let machines = stage.machines.min(MACHINES);
    let rate = (RATE * machines / MACHINES).max(1);
    let stream = Stream { rate, life: LIFE, time: scale.stream, machines };
    let tenants = tenants(stage, stream).await?;
    let come = f64::from(tenants.pods) / tenants.time.as_secs_f64();
    let writes = tenants.nodes as f64 / tenants.time.as_secs_f64();
    let what = format!("{come:.0} pods of the lender a second come and go on {machines} nodes");
    let row = Row::new(format!("{what}: node writes"), per_second(writes));
    let most = f64::from(machines);
    table.add(row.target(writes, Target::AtMost(most), |most| format!("{most:.0}/s, one per node")));
    let row = Row::new("  writes of the node that was written most", tenants.most.to_string());
    table.add(row.target(tenants.most.into(), Target::AtMost(tenants.time.as_secs_f64()), whole));

    until_quiet(stage).await?;
    let before = stage.virtual_plane.requests().await?;
    let ours = Stream { rate: OUR_RATE.min(rate), life: OUR_LIFE, time: scale.stream, machines };
    let came = stage.stream_work(ours).await?;
    sleep(SETTLES).await;
    let of_ours = node_writes(&stage.virtual_plane.requests().await?.since(&before));
    let row = Row::new(format!("{came} pods of ours come and go: node writes"), of_ours.to_string());
    table.add(row.exactly(of_ours == 0, "0".to_owned()));
    host.stop().await?;

    if scale.naive == Naive::Measured {
        let naive = naive::start(stage).await?;
        let written = self::tenants(stage, stream).await?;
        naive.stop().await?;
        let others = written.nodes as f64 / written.time.as_secs_f64();
        let row = Row::new(format!("{what}: node writes"), per_second(writes));
        table.add(row.beside("naive", writes, others, per_second, Target::None));
        let come = f64::from(written.pods) / written.time.as_secs_f64();
        table.add(Row::new("  with the naive mode came", format!("{come:.0} pods a second")));
    }
    Ok(())
}

/// Waits until no node was written for so long: what follows from the pods of the lender is none of ours.
async fn until_quiet(stage: &Stage) -> Result<()> {
    loop {
        let before = stage.virtual_plane.requests().await?;
        sleep(SETTLES).await;
        let written = node_writes(&stage.virtual_plane.requests().await?.since(&before));
        if written == 0 {
            return Ok(());
        }
        eprintln!("bench: {written} nodes were still written for the pods of the lender");
    }
}

async fn tenants(stage: &Stage, stream: Stream) -> Result<Written> {
    let before = stage.virtual_plane.requests().await?;
    stage.nodes.look(Nodes::begin);
    let began = Instant::now();
    let pods = stage.stream_tenants(stream).await?;
    let time = began.elapsed();
    let nodes = node_writes(&stage.virtual_plane.requests().await?.since(&before));
    let most = stage.nodes.look(|nodes| nodes.named(VIRTUAL).map(|node| node.writes).max());
    Ok(Written { pods, time, nodes, most: most.unwrap_or_default() })
}
