//! The faults, one by one, each in the middle of evictions.

use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;
use topoloom_tests::dice::Dice;

use super::stage::{DEADLINE, MACHINES, REPLICAS, Spread, Stage, replica_of};

/// So many of the bindings of the replica that meets the fault drain a machine, at most.
const DRAINED: usize = 3;
/// Longer than an eviction takes.
const MORE_MICROSECONDS: u64 = 50_000;

/// What happens to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It is killed, and another one is started when its bindings have new holders.
    Kill,
    /// It is stopped until its bindings have new holders, and continues then.
    Freeze,
    /// Another client writes another name into the lease of one of its bindings.
    Steal,
    /// It is killed while another one is stopped: the third replica has all bindings.
    Both,
}

impl Fault {
    fn of(seed: u64) -> Self {
        match seed % 4 {
            0 => Self::Kill,
            1 => Self::Freeze,
            2 => Self::Steal,
            _ => Self::Both,
        }
    }
}

/// What the seed determines.
struct Script {
    fault: Fault,
    /// The place of the replica that meets the fault.
    victim: usize,
    /// The bindings that it holds.
    held: Vec<String>,
    /// The machines that are drained, those of its bindings among them.
    machines: BTreeSet<String>,
    /// How many pods of its bindings terminate before the fault.
    evicted: usize,
    more: Duration,
    /// Selects one of what it holds, or another replica.
    lot: usize,
}

impl Script {
    async fn drawn(stage: &Stage, seed: u64) -> Result<Self> {
        let mut dice = Dice::new(seed);
        let holders = stage.holders().await?;
        let held_by = |place: usize| -> Vec<String> {
            let its = holders.iter().filter(|(_, holder)| replica_of(holder) == stage.name(place));
            its.map(|(binding, _)| binding.clone()).collect()
        };
        let busy: Vec<usize> = (0..REPLICAS).filter(|place| !held_by(*place).is_empty()).collect();
        let victim = *busy.get(dice.below(busy.len().max(1))).context("a replica holds a binding")?;
        let held = held_by(victim);
        let mut left = held.clone();
        let mut chosen: Vec<String> =
            (0..DRAINED.min(held.len())).map(|_| left.swap_remove(dice.below(left.len()))).collect();
        let others: Vec<&String> = holders.keys().filter(|binding| !held.contains(binding)).collect();
        if !others.is_empty() {
            chosen.push(others[dice.below(others.len())].clone());
        }
        // The other machine of each binding, which was drained last, is lent again meanwhile.
        let place = MACHINES[usize::try_from(seed % 2)?];
        let machines = chosen.iter().map(|binding| format!("{binding}-{place}")).collect();
        let evicted = 1 + dice.below(DRAINED.min(held.len()));
        let more = Duration::from_micros(dice.roll() % MORE_MICROSECONDS);
        Ok(Self { fault: Fault::of(seed), victim, held, machines, evicted, more, lot: dice.below(1 << 16) })
    }

    fn is_held(&self, stage: &Stage, object: &str) -> bool {
        stage.bindings.of_object(object).is_some_and(|binding| self.held.iter().any(|held| held == binding))
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, held, machines, evicted, more, .. } = self;
        write!(
            f,
            "{fault:?} of the holder of {held:?} after {evicted} evictions and {more:?}, while {machines:?} are drained"
        )
    }
}

#[allow(clippy::print_stdout, reason = "how long it took is what the reader of a soak wants to know")]
/// Machines are drained, the fault happens in the middle of it, and everything continues with new holders.
pub(super) async fn play(stage: &mut Stage, seed: u64, spread: &mut Spread) -> Result<()> {
    let script = Script::drawn(stage, seed).await?;
    println!("{seed}: {script}");
    stage.lift().await?;
    stage.until_lent(&script.machines).await;
    let pods = stage.fill(&script.machines).await?;
    let own: BTreeSet<String> = pods.into_iter().filter(|pod| script.is_held(stage, pod)).collect();
    for machine in &script.machines {
        stage.drain(machine).await?;
    }
    stage.until_terminating(&own, script.evicted, script.more).await?;
    let began = Instant::now();
    happens(stage, &script, spread).await.with_context(|| script.to_string())?;
    let taken_over = began.elapsed();
    stage.all_live()?;
    // The new holders finish what was begun.
    stage.until_away(&script.machines).await;
    stage.until_members().await;
    let (taken_over, all) = (taken_over.as_secs_f64(), began.elapsed().as_secs_f64());
    println!("{seed}: new holders after {taken_over:.1} s, all nodes gone after {all:.1} s");
    Ok(())
}

/// Causes the fault, and waits until every binding has a holder again.
async fn happens(stage: &mut Stage, script: &Script, spread: &mut Spread) -> Result<()> {
    let Script { victim, held, .. } = script;
    let victim = *victim;
    match script.fault {
        Fault::Kill => {
            stage.take(victim).kill().await?;
            let others = stage.names();
            stage.until_held(held, &others).await;
            stage.counts(held, &others, spread).await?;
            stage.start(victim).await?;
        }
        Fault::Freeze => {
            let mut others = stage.names();
            others.remove(stage.name(victim));
            stage.host(victim).signal(Signal::STOP)?;
            stage.until_held(held, &others).await;
            stage.counts(held, &others, spread).await?;
            stage.host(victim).signal(Signal::CONT)?;
            stage.until_lost(victim, held).await;
        }
        Fault::Steal => {
            let (from, before) = (Timestamp::now(), stage.holders().await?);
            let stolen = &held[script.lot % held.len()];
            stage.steal(stolen).await?;
            stage.until_held(std::slice::from_ref(stolen), &stage.names()).await;
            // The other bindings of the same replica have not noticed.
            let after = stage.holders().await?;
            let stood_still = stage.watch.stalls().between(from, Timestamp::now());
            let is_excused = stood_still >= SignedDuration::try_from(DEADLINE)? / 3;
            for other in held.iter().filter(|other| *other != stolen) {
                ensure!(before.get(other) == after.get(other) || is_excused, "{other} was lost with {stolen}");
            }
        }
        Fault::Both => {
            let others: Vec<usize> = (0..REPLICAS).filter(|place| *place != victim).collect();
            let (stopped, third) = (others[script.lot % 2], others[1 - script.lot % 2]);
            let lost: Vec<String> = stage.bindings.names().map(str::to_owned).collect();
            stage.host(stopped).signal(Signal::STOP)?;
            stage.take(victim).kill().await?;
            let third = BTreeSet::from([stage.name(third).to_owned()]);
            stage.until_held(&lost, &third).await;
            stage.host(stopped).signal(Signal::CONT)?;
            stage.until_lost(stopped, &lost).await;
            stage.start(victim).await?;
        }
    }
    Ok(())
}
