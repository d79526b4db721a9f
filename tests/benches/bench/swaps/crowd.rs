//! Fifty sources with fifty plugins beside one source with one: how much memory the host uses, and what a round of one
//! source costs.
//!
//! All sources read the same nodes, so their trees have the same shape and different names. The benchmark reads the
//! memory when every plugin serves and was compiled with optimisation. It requests rounds of one source, one at a time.
//! They find nothing new, so the API server has no part in their time. In a round, the call is the plugin's part; in
//! the rest the host compares the answer with everything that is stored, which is fifty times as much.

use std::time::Duration;

use anyhow::{Result, ensure};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use topoloom_api::names::RUN_ANNOTATION;
use topoloom_api::{DiscoverySource, object_name};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;

use super::diary::lines;
use super::{Parcel, Stage, metric};
use crate::options::Options;
use crate::process::{held, peak_mib};
use crate::sample::Sample;
use crate::table::{Row, Table, Target, mib, time};

const SOURCES: usize = 50;
const ROUNDS: usize = 200;
/// The pause between two requested rounds: much longer than a round takes.
const PAUSE: Duration = Duration::from_millis(25);
/// After this time the host has done the writes that follow when the last plugin serves.
const REST: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(180);
/// Numbers of plugins that no other part uses.
const FIRST: u32 = 20_000;

const RESIDENT_MIB: f64 = 150.0;
/// A ratio of 1, with room for other work of the machine.
const RATIO: f64 = 1.1;

pub(super) async fn measure(stage: &Stage, options: &Options, table: &mut Table) -> Result<()> {
    let names: Vec<String> = (0..SOURCES).map(|source| format!("fabric-{source:02}")).collect();
    let one = serve(stage, &names[..1], options).await?;
    let all = serve(stage, &names, options).await?;
    let row = Row::new(format!("memory of the host, {SOURCES} sources with {SOURCES} plugins"), mib(all.resident));
    table.add(row.target(all.resident, Target::AtMost(RESIDENT_MIB), mib));
    table.add(Row::new("  its peak, while all of them were compiled", mib(all.peak)));
    table.add(Row::new("  with one source and one plugin", mib(one.resident)));
    for (what, all, one) in
        [("call of the plugin", &all.rounds.calls, &one.rounds.calls), ("round", &all.rounds.whole, &one.rounds.whole)]
    {
        for (percent, target) in [(50, Target::AtMost(RATIO)), (99, Target::None)] {
            let (value, other) = (all.percentile(percent), one.percentile(percent));
            let measure = format!("{what} of one of {SOURCES} sources, p{percent} of {}", all.len());
            table.add(Row::new(measure, time(value)).against("the only one", value, other, target));
        }
    }
    Ok(())
}

struct CrowdFigures {
    resident: f64,
    peak: f64,
    rounds: Rounds,
}

/// Rounds, and the calls in them.
#[derive(Default)]
struct Rounds {
    whole: Sample,
    calls: Sample,
}

async fn serve(stage: &Stage, sources: &[String], options: &Options) -> Result<CrowdFigures> {
    let mut digests = Vec::new();
    for (number, source) in (FIRST..).zip(sources) {
        let parcel = Parcel::new(source, number)?;
        stage.deliver(&parcel).await?;
        digests.push((source, parcel.digest));
    }
    let (host, mut statuses) = stage.host(sources, &[]).await?;
    for (source, digest) in digests {
        statuses.until_serves(source, digest).await?;
    }
    until_optimised(&host, sources.len()).await;
    tokio::time::sleep(REST).await;
    let id = host.id().unwrap_or_default();
    let (resident, peak) = (held(id)?.resident, peak_mib(id)?);
    let rounds = rounds(stage, &host, &sources[0], options.runs(ROUNDS)).await?;
    host.stop().await?;
    Ok(CrowdFigures { resident, peak, rounds })
}

async fn until_optimised(host: &Host, wanted: usize) {
    eventually("every plugin is compiled with optimisation", PATIENCE, async || {
        let compiled = metric(host, "topoloom_plugin_compile_seconds_count", &["optimised"]).await;
        let compiled = compiled.map_err(|error| error.to_string())?;
        if compiled >= wanted as f64 { Ok(()) } else { Err(format!("{compiled} of {wanted}")) }
    })
    .await;
}

/// Requests rounds, and returns how long each took by the host's own clock.
async fn rounds(stage: &Stage, host: &Host, source: &str, count: usize) -> Result<Rounds> {
    const WHOLE: &str = "round";
    const CALL: &str = "a call ended";
    let sources: Api<DiscoverySource> = Api::all(stage.scene.plane.client());
    let before = (lines(host, source, &[WHOLE])?.len(), lines(host, source, &[CALL])?.len());
    for round in 0..count {
        let body = json!({"metadata": {"annotations": {RUN_ANNOTATION: round.to_string()}}});
        sources.patch(&object_name(source), &PatchParams::default(), &Patch::Merge(&body)).await?;
        tokio::time::sleep(PAUSE).await;
    }
    let mut rounds = Rounds::default();
    for line in lines(host, source, &[WHOLE])?.into_iter().skip(before.0) {
        rounds.whole.push(line.took()?);
    }
    for line in lines(host, source, &[CALL])?.into_iter().skip(before.1) {
        rounds.calls.push(line.duration("wall")?);
    }
    ensure!(rounds.whole.len() * 10 >= count * 9, "{} rounds of {count}", rounds.whole.len());
    Ok(rounds)
}
