//! From the write of the ConfigMap until the new plugin serves, as a user of the API sees it: the time begins before
//! the write is sent, and ends when a watch has shown the new digest in `status.plugin`. The host writes the status
//! after the plugin has begun to serve, so the measured time is longer than the real one, never shorter.
//!
//! The host's log shows where the time goes: it uses the same clock, on the same machine. Each plugin is pushed as soon
//! as the one before it serves, while the host still compiles that one with optimisation: there is one compile at a
//! time, and the newer one waits for its turn.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jiff::Timestamp;
use topoloom_tests::host::Host;

use super::diary::{between, lines};
use super::{Parcel, Stage, Statuses, metric};
use crate::options::Options;
use crate::sample::Sample;
use crate::table::{Row, Table, Target, seconds, time};

const SOURCE: &str = "fabric";
const PUSHES: usize = 100;
const P99_SECONDS: f64 = 1.5;
/// After this time the plugin of the last push is compiled with optimisation, and nothing is under way.
const REST: Duration = Duration::from_millis(1_500);

/// The log messages of a swap, in their order, and the step that ends with each.
const STEPS: [(&str, &str); 4] = [
    ("a plugin is prepared", "write and watch"),
    ("a candidate plugin is compared with the active one", "unpacked, compiled, linked, described, configured"),
    ("a candidate plugin answered", "shadow round"),
    ("the active plugin has changed", "compared"),
];

pub(super) async fn measure(stage: &Stage, options: &Options, table: &mut Table) -> Result<()> {
    stage.deliver(&Parcel::new(SOURCE, 0)?).await?;
    let (host, mut statuses) = stage.host(&[SOURCE.to_owned()], &[]).await?;
    statuses.until_serves(SOURCE, Parcel::new(SOURCE, 0)?.digest).await?;
    tokio::time::sleep(REST).await;
    let pushes = options.runs(PUSHES) as u32;
    let mut first = 1;
    for (what, rest, count) in
        [("each after a rest", REST, pushes.div_ceil(4)), ("one after the other", Duration::ZERO, pushes)]
    {
        let (sample, times) = push(stage, &mut statuses, first..first + count, rest).await?;
        first += count;
        for percent in [50, 99] {
            let took = sample.percentile(percent);
            let measure = format!("ConfigMap write → new plugin serves, {what}, p{percent} of {}", sample.len());
            let target = if percent == 99 { Target::Below(P99_SECONDS) } else { Target::None };
            table.add(Row::new(measure, time(took)).target(took.as_secs_f64(), target, seconds));
        }
        steps(&host, &times, table)?;
    }
    let failed = metric(&host, "topoloom_plugin_refusals_total", &[SOURCE]).await?;
    ensure!(failed == 0.0, "{failed} plugins were refused");
    host.stop().await
}

/// The times of a push: before the write, and when the watch showed that the plugin serves.
type Push = (Timestamp, Timestamp);

async fn push(
    stage: &Stage,
    statuses: &mut Statuses,
    numbers: std::ops::Range<u32>,
    rest: Duration,
) -> Result<(Sample, Vec<Push>)> {
    let (mut sample, mut times) = (Sample::default(), Vec::new());
    for number in numbers {
        let parcel = Parcel::new(SOURCE, number)?;
        let (begin, began) = (Instant::now(), Timestamp::now());
        stage.deliver(&parcel).await?;
        statuses.until_serves(SOURCE, parcel.digest).await?;
        sample.push(begin.elapsed());
        times.push((began, Timestamp::now()));
        tokio::time::sleep(rest).await;
    }
    Ok((sample, times))
}

/// Where the time of these pushes went: medians of the host's own times.
fn steps(host: &Host, times: &[Push], table: &mut Table) -> Result<()> {
    let messages = STEPS.map(|(message, _)| message);
    let lines = lines(host, SOURCE, &messages)?;
    let mut samples: [Sample; STEPS.len() + 1] = Default::default();
    for (began, ended) in times {
        let own = lines.iter().filter(|line| line.at >= *began && line.at <= *ended);
        let at: Vec<Timestamp> = own.map(|line| line.at).chain([*ended]).collect();
        // A swap that the host tried twice has more steps.
        if at.len() == samples.len() {
            for (sample, (from, to)) in samples.iter_mut().zip([*began].iter().chain(&at).zip(&at)) {
                sample.push(between(*from, *to));
            }
        }
    }
    // The lines of a host whose log has other messages, or none of a room, would give a table of nothing.
    ensure!(samples[0].len() > 0, "the log of the host shows the steps of no push");
    for (sample, (what, is_last)) in
        samples.iter().zip(STEPS.iter().map(|(_, what)| (*what, false)).chain([("shown in the status", true)]))
    {
        let lead = if is_last { "  and" } else { "  of it" };
        table.add(Row::new(format!("{lead}: {what}, median of {}", sample.len()), time(sample.median())));
    }
    Ok(())
}
