//! A window closes on all nodes: when the first and the last taint are there, and what it costs the leases.
//!
//! The window of every policy closes in the next whole minute that is far enough ahead, and opens again ten minutes later; it is
//! opened by hand before that. The raw client taints as many nodes of its own.

use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::SETTLES;
use crate::naive;
use crate::raw::{Pattern, RAW, births, clear, taints};
use crate::scale::{Naive, Scale};
use crate::seen::{Leases, Nodes};
use crate::stage::{PATIENCE, POLICIES, Stage, VIRTUAL};
use crate::table::{Row, Table, Target, seconds, time};

const FIRST: f64 = 2.0;
const RATIO: f64 = 1.5;
const OLDEST: f64 = 20.0;
/// How far ahead a closing is written, at least.
const AHEAD: i64 = 15;
const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60;
/// How long it is closed if it is not opened by hand, in minutes.
const CLOSED: i64 = 10;

/// What was seen of a closing.
struct Closing {
    /// From the boundary to the first and to the last taint.
    first: Duration,
    last: Duration,
    /// Writes of nodes: of their spec, and of their status.
    writes: [u64; 2],
    /// The longest time that a lease was not renewed.
    oldest: Duration,
}

impl Closing {
    fn spread(&self) -> Duration {
        self.last.saturating_sub(self.first)
    }
}

/// On the largest cluster: what is written is counted.
pub(super) async fn counted(stage: &Stage, table: &mut Table) -> Result<()> {
    let host = stage.lend().await?;
    sleep(SETTLES).await;
    let closing = close(stage).await?;
    report(&closing, stage.machines, table);
    open(stage).await?;
    host.stop().await
}

/// Beside the raw client and the naive mode.
pub(super) async fn timed(stage: &Stage, scale: &Scale, table: &mut Table) -> Result<()> {
    let host = stage.lend().await?;
    sleep(SETTLES).await;
    let closing = close(stage).await?;
    report(&closing, stage.machines, table);
    open(stage).await?;
    host.stop().await?;

    births(stage, &Pattern::of_the_host(stage).await?).await?;
    taints(stage).await?;
    let (raw_first, raw_last) = until_outside(stage, RAW).await?;
    let raw = raw_last.saturating_duration_since(raw_first);
    let row = Row::new("  from the first taint to the last", time(closing.spread()));
    table.add(row.against("raw patches", closing.spread(), raw, Target::AtMost(RATIO)));
    clear(stage).await?;

    if scale.naive == Naive::Measured {
        let naive = naive::start(stage).await?;
        let seen = close(stage).await?;
        let row = Row::new("  last taint after the boundary", time(closing.last));
        table.add(row.against("naive", closing.last, seen.last, Target::None));
        naive.stop().await?;
        open_policies(stage).await?;
    }
    Ok(())
}

fn report(closing: &Closing, machines: u32, table: &mut Table) {
    let row =
        Row::new(format!("window closes on {machines} nodes: first taint after the boundary"), time(closing.first));
    table.add(row.target(closing.first.as_secs_f64(), Target::AtMost(FIRST), seconds));
    table.add(Row::new("  last taint after the boundary", time(closing.last)));
    let [spec, status] = closing.writes;
    let row = Row::new("  writes of nodes, one for each", format!("{spec} of spec + {status} of status"));
    table.add(row.exactly(spec + status == u64::from(machines), machines.to_string()));
    let oldest = closing.oldest;
    let row = Row::new("  oldest lease meanwhile", time(oldest));
    table.add(row.target(oldest.as_secs_f64(), Target::AtMost(OLDEST), seconds));
}

/// Lets the windows close, and waits until every node has the taint.
async fn close(stage: &Stage) -> Result<Closing> {
    let boundary = boundary(Timestamp::now());
    let windows = windows(boundary);
    for group in 0..POLICIES {
        stage.policy(group, windows.clone()).await?;
    }
    // What follows from the edit alone is over.
    sleep(until(boundary - SignedDuration::from_secs(1))).await;
    let before = stage.virtual_plane.requests().await?;
    stage.leases.look(Leases::begin);
    let due = Instant::now() + until(boundary);
    let (first, last) = until_outside(stage, VIRTUAL).await?;
    let oldest = stage.leases.look(|leases| leases.oldest(Timestamp::now()));
    sleep(SETTLES).await;
    let since = stage.virtual_plane.requests().await?.since(&before);
    let writes = [since.writes("nodes", ""), since.writes("nodes", "status")];
    let [first, last] = [first, last].map(|at| at.saturating_duration_since(due));
    Ok(Closing { first, last, writes, oldest })
}

/// Opens the windows again, and waits until no node has the taint.
async fn open(stage: &Stage) -> Result<()> {
    open_policies(stage).await?;
    stage.nodes.until("every node is open", PATIENCE, |nodes| (nodes.outside(VIRTUAL) == 0).then_some(())).await?;
    sleep(SETTLES).await;
    Ok(())
}

async fn open_policies(stage: &Stage) -> Result<()> {
    for group in 0..POLICIES {
        stage.policy(group, json!({"timeWindows": [{"start": "00:00", "end": "23:59"}]})).await?;
    }
    Ok(())
}

/// When the first and the last of all nodes of a prefix had the taint.
async fn until_outside(stage: &Stage, prefix: &str) -> Result<(Instant, Instant)> {
    let wanted = stage.machines as usize;
    let all = |nodes: &mut Nodes| (nodes.outside(prefix) == wanted).then_some(());
    stage.nodes.until("every node has the taint", PATIENCE, all).await?;
    let times: Vec<Instant> = stage.nodes.look(|nodes| nodes.named(prefix).filter_map(|node| node.outside).collect());
    let (first, last) = (times.iter().min().copied(), times.iter().max().copied());
    first.zip(last).context("there is no node")
}

/// The first second of the minute in which it closes.
fn boundary(now: Timestamp) -> Timestamp {
    let minute = (now.as_second() + AHEAD + MINUTE).div_euclid(MINUTE);
    Timestamp::from_second(minute * MINUTE).unwrap_or(now)
}

/// The window that closes then.
fn windows(boundary: Timestamp) -> Value {
    let minute = boundary.as_second().div_euclid(MINUTE);
    let word = |minute: i64| {
        let of_day = minute.rem_euclid(DAY);
        format!("{:02}:{:02}", of_day / 60, of_day % 60)
    };
    json!({"timeZone": "UTC", "timeWindows": [{"start": word(minute + CLOSED), "end": word(minute - 1)}]})
}

/// The time until then.
fn until(time: Timestamp) -> Duration {
    Duration::try_from(time.duration_since(Timestamp::now())).unwrap_or_default()
}
