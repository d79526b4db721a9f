//! What a round costs where there is nothing to do: one node, one group.
//!
//! The time is that of the whole call as the supervisor measures it: the turn in the queue, a new store and instance,
//! the guest's own work on its one node, the decoded answer, and the metrics. So it is an upper limit of what
//! instantiating and calling cost.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use topoloom::plugin::{Load, Plugin, RoundInput};
use topoloom_core::plugin::{Granted, Limits};
use topoloom_tests::builtins;

use super::{RACK, round, runtime, stranger};
use crate::options::Options;
use crate::sample::Sample;
use crate::table::{Row, Table, Target, seconds, time};

const RUNS: usize = 5_000;
const WARM_UP: usize = 200;
const MEDIAN_SECONDS: f64 = 100e-6;

pub(super) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    let runtime = runtime()?;
    let load = |bytes: Arc<[u8]>| runtime.load(Load { bytes, pinned: None, limits: Limits::default() });
    let foreign = load(stranger()?.into()).await?;
    let quick = sample(&foreign, &round(1), options).await?;
    foreign.optimise().await?;
    let optimised = sample(&foreign, &round(1), options).await?;
    let label = load(Arc::clone(&builtins::find("label").bytes)).await?;
    let embedded = sample(&label, &label_round(), options).await?;
    for (what, sample) in [
        ("plugin of others", optimised),
        ("the same before it is optimised", quick),
        ("label plugin, builtin", embedded),
    ] {
        let took = sample.median();
        let row = Row::new(format!("round over 1 node, median of {}, {what}", sample.len()), time(took));
        table.add(row.target(took.as_secs_f64(), Target::AtMost(MEDIAN_SECONDS), seconds));
        table.add(Row::new("  its p99", time(sample.percentile(99))));
    }
    Ok(())
}

async fn sample(plugin: &Plugin, round: &RoundInput, options: &Options) -> Result<Sample> {
    let source = "bench".parse()?;
    let mut sample = Sample::default();
    for run in 0..WARM_UP + options.runs(RUNS) {
        let round = round.clone();
        let begin = Instant::now();
        let call = plugin.discover(&source, round).await;
        let took = begin.elapsed();
        ensure!(call.end.is_ok(), "a round failed: {:?}", call.end);
        if run >= WARM_UP {
            sample.push(took);
        }
    }
    Ok(sample)
}

/// The same nodes for the label plugin.
fn label_round() -> RoundInput {
    let config = format!(r#"{{"networkTopologyTypes": {{"gpu": [{{"nodeLabel": "{RACK}"}}]}}}}"#);
    let granted = Granted { labels: [RACK.into()].into(), ..Granted::default() };
    RoundInput { config: config.into(), granted: Arc::new(granted), ..round(1) }
}
