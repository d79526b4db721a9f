//! From nothing to every HyperNode with its right count, beside a writer that only sends the requests.
//!
//! The host's time begins with its process. The same watch measures both, and they take turns on one control plane,
//! because a control plane grows with what it has stored.

use std::time::Instant;

use anyhow::{Context, Result};

use super::Live;
use super::raw::Raw;
use crate::options::Options;
use crate::sample::Sample;
use crate::table::{Row, Table, Target, time};

/// How often each is measured.
const RUNS: usize = 5;
/// From this size on the ratio has a target: below, starting the process is most of the time.
const LARGE: u32 = 5_000;
const RATIO: f64 = 1.5;

pub(super) async fn measure(live: &Live, options: &Options, table: &mut Table) -> Result<()> {
    let (mut hosts, mut raws) = (Sample::default(), Sample::default());
    let raw = warm_up(live).await?;
    for _ in 0..options.runs(RUNS) {
        let mut watch = live.watch();
        watch.until("the watch is there", |objects| objects.is_empty()).await?;
        let begin = Instant::now();
        let (host, right) = futures::join!(live.host(), watch.until_right(live.size));
        right?;
        hosts.push(begin.elapsed());
        host?.stop().await?;
        live.clear().await?;

        let mut watch = live.watch();
        watch.until("the watch is there", |objects| objects.is_empty()).await?;
        let client = live.scene.plane.client();
        let begin = Instant::now();
        let (written, right) = futures::join!(raw.write(&client), watch.until_right(live.size));
        written?;
        right?;
        raws.push(begin.elapsed());
        live.clear().await?;
    }
    let host = hosts.median();
    let target = if live.size >= LARGE { Target::AtMost(RATIO) } else { Target::None };
    let row = Row::new(format!("cold convergence, {} nodes", live.size), time(host));
    table.add(row.against("raw writes", host, raws.median(), target));
    Ok(())
}

/// One run of the host that is not counted; the raw writer will write the objects that the host wrote.
async fn warm_up(live: &Live) -> Result<Raw> {
    live.clear().await?;
    let mut watch = live.watch();
    let host = live.host().await?;
    watch.until_right(live.size).await.context("the host does not converge")?;
    host.stop().await?;
    let raw = Raw::new(watch.objects().values())?;
    live.clear().await?;
    Ok(raw)
}
