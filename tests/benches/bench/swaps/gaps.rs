//! Whether there is a moment in a swap in which no plugin serves.
//!
//! A plugin serves if the HyperNodes follow the nodes. So the benchmark edits labels all the time, the next one as soon
//! as the one before it has arrived in both HyperNodes, and pushes plugins meanwhile. Four things would show a gap: a
//! round that fails; a state of the source without a plugin, in the watch or in one of many reads of the admin server;
//! a pause between the last round of the old plugin and the first one of the new plugin that is longer than other
//! pauses; an edit that was under way during a swap and took longer than others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use jiff::Timestamp;
use topoloom_tests::host::Host;

use super::diary::{between, lines};
use super::{Parcel, Stage, Statuses, metric};
use crate::cluster::{KEYS, LEAF, leaf_value, name};
use crate::live::edits::is_moved;
use crate::live::watch::Watch;
use crate::options::Options;
use crate::sample::Sample;
use crate::table::{Row, Table, Target, seconds, time};

const SOURCE: &str = "fabric";
const SWAPS: usize = 40;
/// Numbers of plugins that no other part uses.
const FIRST: u32 = 10_000;
/// After this time the first plugin is compiled with optimisation, and nothing is under way.
const REST: Duration = Duration::from_secs(2);
/// How long the benchmark edits labels without swaps, for comparison.
const ALONE: Duration = Duration::from_secs(5);
/// The pause between two reads of the admin server.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The limit for edits, as in the part `edits`.
const P99_SECONDS: f64 = 0.25;

pub(super) async fn measure(stage: &Stage, options: &Options, table: &mut Table) -> Result<()> {
    stage.deliver(&Parcel::new(SOURCE, FIRST)?).await?;
    let (host, mut statuses) = stage.host(&[SOURCE.to_owned()], &[]).await?;
    statuses.until_serves(SOURCE, Parcel::new(SOURCE, FIRST)?.digest).await?;
    let mut watch = Watch::new(stage.scene.hyper_nodes());
    watch.until_right(super::SIZE).await?;
    tokio::time::sleep(REST).await;
    let mut editor = Editor { stage, watch, next: 0 };
    let over = AtomicBool::new(false);
    let alone = async {
        tokio::time::sleep(ALONE).await;
        over.store(true, Ordering::Relaxed);
    };
    let (quiet, ()) = futures::join!(editor.edit(&over), alone);
    let quiet = quiet?;
    over.store(false, Ordering::Relaxed);
    let pushing = async {
        let pushed = push(stage, &mut statuses, options.runs(SWAPS) as u32).await;
        over.store(true, Ordering::Relaxed);
        pushed
    };
    let (busy, looks, pushed) = futures::join!(editor.edit(&over), look(&host, &over), pushing);
    let (busy, looks) = (busy?, looks?);
    pushed?;

    let swaps: Vec<Timestamp> =
        lines(&host, SOURCE, &["the active plugin has changed"])?.into_iter().map(|line| line.at).collect();
    let swaps_done = swaps.len();
    ensure!(swaps_done >= options.runs(SWAPS), "there were {swaps_done} swaps");
    let failed = metric(&host, "topoloom_rounds_total", &[]).await?
        - metric(&host, "topoloom_rounds_total", &["outcome=\"ok\""]).await?;
    let bare = statuses.bare + looks.bare;
    let found = format!("{failed} failed rounds, {bare} states without a plugin in {} looks", looks.looks);
    let row = Row::new(format!("{swaps_done} swaps while labels are edited: no plugin serves"), found);
    table.add(row.exactly(failed == 0.0 && bare == 0, "0 and 0".to_owned()));

    let pauses = pauses(&host, &swaps, quiet.first().map(|edit| edit.began))?;
    for percent in [50, 100] {
        let (value, other) = (pauses.around.percentile(percent), pauses.others.percentile(percent));
        let measure = format!("  pause between the last round before a swap and the first after it, p{percent}");
        let what = format!("{} other pauses", pauses.others.len());
        table.add(Row::new(measure, time(value)).against(&what, value, other, Target::None));
    }
    let across = |edit: &&Edit| swaps.iter().any(|swap| edit.began <= *swap && *swap <= edit.ended);
    let (during, alone) = (sample(busy.iter().filter(across)), sample(quiet.iter()));
    for percent in [50, 99] {
        let (value, other) = (during.percentile(percent), alone.percentile(percent));
        let measure = format!("  label edit → both HyperNodes right, across a swap, p{percent} of {}", during.len());
        let row =
            Row::new(measure, time(value)).against(&format!("{} without", alone.len()), value, other, Target::None);
        let target = if percent == 99 { Target::Below(P99_SECONDS) } else { Target::None };
        table.add(row.target(value.as_secs_f64(), target, seconds));
    }
    host.stop().await
}

/// One edit of a label.
struct Edit {
    began: Timestamp,
    ended: Timestamp,
    took: Duration,
}

fn sample<'a>(edits: impl Iterator<Item = &'a Edit>) -> Sample {
    let mut sample = Sample::default();
    edits.for_each(|edit| sample.push(edit.took));
    sample
}

/// Edits labels, one after the other.
struct Editor<'a> {
    stage: &'a Stage,
    watch: Watch,
    next: u32,
}

impl Editor<'_> {
    async fn edit(&mut self, over: &AtomicBool) -> Result<Vec<Edit>> {
        let mut edits = Vec::new();
        let pairs = (super::SIZE / LEAF - 1) / 2;
        while !over.load(Ordering::Relaxed) {
            // A node moves to the neighbouring leaf, and back in the next turn.
            let (pair, turn) = (self.next % pairs, self.next / pairs % 2);
            self.next += 1;
            let (here, there) = (pair * 2, pair * 2 + 1);
            let node = name(here * LEAF);
            let (from, to) = if turn == 0 { ((here, 17), (there, 19)) } else { ((there, 18), (here, 18)) };
            let value = leaf_value(to.0);
            let (began, begin) = (Timestamp::now(), Instant::now());
            self.stage.scene.plane.relabel(&node, KEYS[0], value.as_str()).await?;
            self.watch.until("the edit has arrived", |objects| is_moved(objects, &node, from, to)).await?;
            edits.push(Edit { began, ended: Timestamp::now(), took: begin.elapsed() });
        }
        Ok(edits)
    }
}

async fn push(stage: &Stage, statuses: &mut Statuses, swaps: u32) -> Result<()> {
    for number in FIRST + 1..=FIRST + swaps {
        let parcel = Parcel::new(SOURCE, number)?;
        stage.deliver(&parcel).await?;
        statuses.until_serves(SOURCE, parcel.digest).await?;
    }
    Ok(())
}

/// Reads of the admin server: how many, and how many of them show no plugin.
#[derive(Default)]
struct Looks {
    looks: usize,
    bare: usize,
}

async fn look(host: &Host, over: &AtomicBool) -> Result<Looks> {
    let mut found = Looks::default();
    while !over.load(Ordering::Relaxed) {
        let status: serde_json::Value = serde_json::from_str(&host.get(&format!("/sources/{SOURCE}")).await?)?;
        found.looks += 1;
        found.bare += usize::from(status["plugin"].is_null());
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(found)
}

/// Pauses from the end of a round to the beginning of the next one.
#[derive(Default)]
struct Pauses {
    around: Sample,
    others: Sample,
}

/// Only pauses since edits began: before that the host had nothing to do.
fn pauses(host: &Host, swaps: &[Timestamp], since: Option<Timestamp>) -> Result<Pauses> {
    let mut pauses = Pauses::default();
    let rounds = lines(host, SOURCE, &["round"])?;
    let swaps: BTreeMap<Timestamp, ()> = swaps.iter().map(|swap| (*swap, ())).collect();
    for pair in rounds.windows(2).filter(|pair| since.is_some_and(|since| pair[0].at >= since)) {
        let pause = between(pair[0].at, pair[1].at).saturating_sub(pair[1].took()?);
        let is_swap = swaps.range(pair[0].at..=pair[1].at).next().is_some();
        if is_swap { pauses.around.push(pause) } else { pauses.others.push(pause) }
    }
    Ok(pauses)
}
