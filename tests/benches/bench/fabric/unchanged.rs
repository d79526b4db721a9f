//! Rounds in which nothing changed: what a quiet fabric costs all the time.

use std::sync::Arc;

use anyhow::{Result, ensure};

use super::LARGE;
use super::manager::{Layout, Manager};
use super::sandbox::{Sandbox, groups, view};
use crate::options::Options;
use crate::sample::Sample;
use crate::table::{Row, Table, mib, time};

const RUNS: usize = 201;

pub(super) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    let manager = Manager::start(LARGE, Layout::Indented).await?;
    let nodes = view(&manager.known.nodes);
    for (plugin, what) in [("ufm", "UFM whose counters stand still"), ("roce", "fabric document that answers 304")] {
        let sandbox = Sandbox::new(plugin, &manager.known, manager.folder.path()).await?;
        let first = sandbox.discover(&nodes, &Arc::default()).await?;
        ensure!(groups(&first.answer).is_some_and(|groups| groups > 0), "the first round of {plugin} found nothing");
        let state: Arc<[u8]> = first.answer.state.into();
        let (mut sample, mut peak, mut requests, mut given) = (Sample::default(), 0, 0, 0);
        for _ in 0..options.runs(RUNS) {
            let done = sandbox.discover(&nodes, &state).await?;
            ensure!(groups(&done.answer).is_none(), "{plugin} does not say that nothing changed");
            sample.push(done.took);
            peak = peak.max(done.usage.peak_memory);
            requests = requests.max(done.usage.requests);
            given = given.max(done.usage.received);
        }
        let measure = format!("round over {LARGE} hosts × 8 rails, {what}, median of {}", sample.len());
        table.add(Row::new(measure, time(sample.median())));
        let row = Row::new("  requests", requests.to_string());
        table.add(row.exactly(requests == 1, "exactly 1".to_owned()));
        table.add(Row::new("  bytes that the guest gets: its state, names of nodes, answers", given.to_string()));
        table.add(Row::new("  peak memory of the guest", mib(peak as f64 / f64::from(1 << 20))));
        table.add(Row::new("  time of the first round", time(first.took)));
    }
    Ok(())
}
