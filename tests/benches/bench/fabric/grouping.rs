//! Grouping alone: the fabric has not changed and one Node is gone, so the plugin places all hosts again and fetches
//! only the counters.
//!
//! Both sides read the state of the round before, fetch the counters over TLS, place all hosts, and write the next
//! state.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::LARGE;
use super::manager::{Layout, Manager};
use super::native::{self, Native};
use super::sandbox::{self, Sandbox};
use crate::options::Options;
use crate::sample::Sample;
use crate::table::{Row, Table, Target, seconds, time};

const RUNS: usize = 21;
const SECONDS: f64 = 0.1;
const RATIO: f64 = 2.0;
/// Sizes between which the slope is taken.
const SMALLEST: u32 = 1_024;
const BIGGEST: u32 = 16_384;
const SLOPE: f64 = 1.15;

pub(super) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    if options.wants("grouping") {
        let found = side_by_side(LARGE, options.runs(RUNS)).await?;
        let [inside, outside] = [&found.inside, &found.outside].map(Sample::median);
        let measure = format!("grouping of {LARGE} hosts × 8 rails in three tiers, in the sandbox");
        table.add(Row::new(measure, time(inside)).target(inside.as_secs_f64(), Target::AtMost(SECONDS), seconds));
        let row = Row::new("  the same", time(inside));
        table.add(row.against("native", inside, outside, Target::AtMost(RATIO)));
        table.add(Row::new("  its state", format!("{} KiB", found.state / 1024)));
    }
    if options.wants("slope") {
        let mut ends = Vec::new();
        for hosts in [SMALLEST, BIGGEST] {
            let found = side_by_side(hosts, options.runs(RUNS)).await?;
            let [inside, outside] = [&found.inside, &found.outside].map(Sample::median);
            let row = Row::new(format!("grouping of {hosts} hosts × 8 rails, in the sandbox"), time(inside));
            table.add(row.against("native", inside, outside, Target::None));
            ends.push([inside, outside]);
        }
        if let [small, big] = ends[..] {
            for (what, small, big) in [("in the sandbox", small[0], big[0]), ("native", small[1], big[1])] {
                let slope = slope(small, big);
                let row = Row::new(format!("  slope of log time over log hosts, {what}"), format!("{slope:.2}"));
                table.add(row.target(slope, Target::AtMost(SLOPE), |slope| format!("{slope:.2}")));
            }
        }
    }
    Ok(())
}

fn slope(small: Duration, big: Duration) -> f64 {
    (big.as_secs_f64() / small.as_secs_f64()).ln() / f64::from(BIGGEST / SMALLEST).ln()
}

/// What was measured at one size.
struct GroupingFigures {
    inside: Sample,
    outside: Sample,
    /// Bytes.
    state: usize,
}

async fn side_by_side(hosts: u32, runs: usize) -> Result<GroupingFigures> {
    let manager = Manager::start(hosts, Layout::Compact).await?;
    let known = &manager.known;
    let sandbox = Sandbox::new("ufm", known, manager.folder.path()).await?;
    let native = Native::new(known)?;
    // The native program makes the state: the host gives no guest a fabric of 16 384 hosts in one answer.
    let state = native.discover(&known.nodes, &[]).await?.answer.state;
    let mut found = GroupingFigures { inside: Sample::default(), outside: Sample::default(), state: state.len() };
    let state: Arc<[u8]> = state.into();
    let fewer = &known.nodes[1..];
    let view = sandbox::view(fewer);
    // The first runs are not counted.
    for run in 0..runs + 2 {
        let inside = sandbox.discover(&view, &state).await?;
        let outside = native.discover(fewer, &state).await?;
        let groups = [sandbox::groups(&inside.answer), native::groups(&outside.answer)];
        ensure!(groups[0].is_some() && groups[0] == groups[1], "sandbox and native found different topologies");
        ensure!(inside.usage.requests == 1, "{} requests, where one says that nothing moved", inside.usage.requests);
        if run >= 2 {
            found.inside.push(inside.took);
            found.outside.push(outside.took);
        }
    }
    Ok(found)
}
