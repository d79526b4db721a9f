//! A long test with faults: nodes, configuration and plugins change, leaders are ended, and the resources of the
//! replicas are measured all the time. Its parts are run one after the other, since each needs the machine for itself: the
//! topology here, lending in [`lending`], and one long partition with the times of production in [`partition`].
//!
//! The third of the three replicas is never ended. In the first half the other two lead in turns, and the one that
//! leads is ended; the third one is frozen while a new leader is elected, so that it always follows. In the second half
//! it leads, and the other two are ended in turns. So a long time as a follower and a long time as the leader are each
//! compared with themselves.

pub mod lending;
pub mod partition;
mod probe;
pub mod record;
mod replicas;
pub mod table;
mod trouble;
mod wire;
mod world;

use std::ops::RangeInclusive;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::FutureExt;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::scene::Scene;
use probe::{Probe, Work};
use record::Record;
use replicas::{Replicas, Service};

/// How long a soak may be.
pub const MINUTES: RangeInclusive<u64> = 2..=600;
/// How long it is by default.
pub const USUAL_MINUTES: u64 = 20;

const MINUTE: Duration = Duration::from_secs(60);

/// How a soak ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Everything is flat, and what has to be there at the end is there.
    Flat,
    /// Something grew, or was not measured.
    NotFlat,
    /// Ctrl-C ended it.
    Interrupted,
}

/// The times of a soak.
#[derive(Debug, Clone, Copy)]
struct Plan {
    total: Duration,
    sample: Duration,
    end_a_replica: Duration,
    swap: Duration,
    edit: Duration,
    move_a_node: Duration,
}

impl Plan {
    /// Twenty minutes are sampled every ten seconds and lose a replica every minute; a shorter soak does it faster.
    fn of(minutes: u64) -> Self {
        let total = Duration::from_secs(minutes * 60);
        let end_a_replica = (total / 20).clamp(Duration::from_secs(20), MINUTE);
        Self {
            total,
            sample: (total / 120).min(Duration::from_secs(10)),
            end_a_replica,
            swap: end_a_replica / 2,
            edit: end_a_replica / 4,
            move_a_node: Duration::from_millis(200),
        }
    }

    /// The age from which a replica is compared with others: it has read everything and compiled its plugins.
    fn grown_up(&self) -> Duration {
        self.end_a_replica / 3
    }
}

/// How often each thing happened, for the printed progress.
#[derive(Debug, Default)]
struct Counts {
    moves: AtomicU64,
    edits: AtomicU64,
    swaps: AtomicU64,
    ended: Ended,
}

impl Counts {
    fn sentence(&self) -> String {
        let [moves, edits, swaps] = [&self.moves, &self.edits, &self.swaps].map(|count| count.load(Ordering::Relaxed));
        format!("{moves} changes of nodes, {edits} edits, {swaps} plugins, {}", self.ended.sentence())
    }
}

/// How many replicas were ended.
#[derive(Debug, Default)]
struct Ended {
    leaders: AtomicU64,
    followers: AtomicU64,
}

impl Ended {
    fn sentence(&self) -> String {
        let [leaders, followers] = [&self.leaders, &self.followers].map(|count| count.load(Ordering::Relaxed));
        format!("{leaders} leaders and {followers} followers ended")
    }
}

/// Which followers are ended at a time.
#[derive(Debug, Clone, Copy)]
enum Followers {
    /// One of them, each in its turn.
    One,
    /// Both.
    Both,
}

/// Soaks the topology, prints its progress and its table.
///
/// # Errors
/// When a step of it fails, a replica ends by itself, or the topology is not right at the end.
pub async fn run(minutes: u64) -> Result<Outcome> {
    let plan = Plan::of(minutes);
    let record = Mutex::new(Record::default());
    let soaked = Box::pin(soak(plan, &record));
    judged(&plan, &record, soaked, "the topology is that of the nodes").await
}

/// Soaks until it ends by itself or by Ctrl-C, prints the table, and says at the end what is right then.
#[allow(clippy::print_stdout, reason = "the table is what it is for")]
async fn judged(
    plan: &Plan,
    record: &Mutex<Record>,
    soaked: impl Future<Output = Result<()>>,
    right: &str,
) -> Result<Outcome> {
    let soaked = tokio::select! {
        // A wait that fails panics with the last state; the table is printed nevertheless.
        soaked = AssertUnwindSafe(soaked).catch_unwind() => Some(soaked),
        _ = tokio::signal::ctrl_c() => None,
    };
    let record = record.lock().unwrap_or_else(PoisonError::into_inner);
    print!("{}", table::minutes(&record));
    let Some(soaked) = soaked else {
        println!("\nsoak: interrupted");
        return Ok(Outcome::Interrupted);
    };
    let verdicts = record.verdicts(plan.total);
    print!("{}", table::verdicts(&verdicts));
    soaked.map_err(|_| anyhow!("something did not happen in time, as said above"))??;
    println!("{right}");
    let flat = verdicts.iter().all(record::Verdict::is_flat);
    println!("\nsoak: {}", if flat { "flat" } else { "NOT FLAT" });
    Ok(if flat { Outcome::Flat } else { Outcome::NotFlat })
}

#[allow(clippy::print_stdout, reason = "progress")]
async fn soak(plan: Plan, record: &Mutex<Record>) -> Result<()> {
    println!("soak: starting a control plane with {} nodes and three replicas", trouble::NODES);
    let scene = Scene::alone().await?;
    trouble::prepare(&scene).await?;
    let probe = Probe::new(vec![scene.plane.client()], Work::Topology).await?;
    let service = Service {
        kubeconfig: scene.host_kubeconfig().await?,
        arguments: Vec::new(),
        ready: "nodes ok",
        leads: vec!["election hypernode: leads".to_owned()],
    };
    let replicas = Replicas::start(service, probe.board()).await?;
    // The measurement begins when the whole topology exists.
    scene.until(&trouble::wanted(&scene).await?.iter().map(String::as_str).collect::<Vec<_>>()).await;

    let began = Instant::now();
    let counts = Counts::default();
    let measuring = measure(&plan, began, &probe, record, || counts.sentence());
    let troubling = trouble(&plan, began, &scene, replicas, &counts);
    let replicas = tokio::select! {
        troubled = troubling => troubled?,
        failed = measuring => return Err(failed),
    };
    println!("soak: everything comes to rest");
    let wanted = trouble::rest(&scene).await?;
    scene.until(&wanted.iter().map(String::as_str).collect::<Vec<_>>()).await;
    replicas.stop().await?;
    scene.plane.stop().await
}

/// Everything that happens to the cluster, from now until the soak ends; all parts end with the first failure.
async fn trouble(plan: &Plan, began: Instant, scene: &Scene, replicas: Replicas, counts: &Counts) -> Result<Replicas> {
    let end = began + plan.total;
    let moves = trouble::moves(scene, plan.move_a_node, end, &counts.moves);
    let edits = trouble::edits(scene, plan.edit, end, &counts.edits);
    let swaps = trouble::swaps(scene, plan.swap, end, &counts.swaps);
    let ending = end_replicas(plan, began, replicas, Followers::One, &counts.ended);
    let (replicas, ..) = tokio::try_join!(ending, moves, edits, swaps)?;
    Ok(replicas)
}

/// Ends leaders in the first half, and followers of the steady replica in the second one.
async fn end_replicas(
    plan: &Plan,
    began: Instant,
    mut replicas: Replicas,
    followers: Followers,
    ended: &Ended,
) -> Result<Replicas> {
    let every = plan.end_a_replica;
    let (half, end) = (began + plan.total / 2, began + plan.total);
    let mut next = Instant::now() + every;
    // The last replica that is ended in each half has the time to be replaced.
    while next + every / 2 < half {
        tokio::time::sleep_until(next).await;
        replicas.end_the_leader().await?;
        ended.leaders.fetch_add(1, Ordering::Relaxed);
        next = (next + every).max(Instant::now());
    }
    tokio::time::sleep_until(half).await;
    replicas.crown_the_steady_one().await?;
    next = next.max(Instant::now()) + every;
    while next + every / 2 < end {
        tokio::time::sleep_until(next).await;
        let count = match followers {
            Followers::One => {
                replicas.end_a_follower().await?;
                1
            }
            Followers::Both => {
                replicas.end_the_followers().await?;
                2
            }
        };
        ended.followers.fetch_add(count, Ordering::Relaxed);
        next = (next + every).max(Instant::now());
    }
    Ok(replicas)
}

/// Measures until a measurement fails; returns its error. Each minute it prints what happened so far.
#[allow(clippy::print_stdout, reason = "progress")]
async fn measure(
    plan: &Plan,
    began: Instant,
    probe: &Probe,
    record: &Mutex<Record>,
    happened: impl Fn() -> String,
) -> anyhow::Error {
    let mut tick = interval(plan.sample);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = 0;
    loop {
        tick.tick().await;
        let found = match probe.sample(plan.grown_up()).await {
            Ok(found) => found,
            Err(error) => return error,
        };
        let at = began.elapsed();
        let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
        for (who, measure, value) in found {
            record.add(who, measure, at, value);
        }
        let minute = at.as_secs() / MINUTE.as_secs();
        if minute > told {
            told = minute;
            println!("soak: minute {minute}: {}", happened());
        }
    }
}
