//! What it costs to turn cables into groups, natively and without any source: `cargo bench -p topoloom-fabric`.
//!
//! The fabrics are those that a careless algorithm is slow on. Of each the best of some rounds counts, since what else
//! runs on a machine only adds; sizes take turns, so that it adds to all of them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "a program for people")]

#[expect(dead_code, reason = "tests need more of it")]
#[path = "../tests/placing/fabric.rs"]
mod fabric;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::time::{Duration, Instant};

use fabric::{EIGHT_RAILS, Fabric, Shape};
use topoloom_fabric::{Memory, Settings, State, Wiring, place};
use topoloom_sdk::prelude::*;
use topoloom_sdk::testing::Cluster;

const ROUNDS: usize = 15;
/// Sizes between which the slope of log time over log hosts is taken.
const SIZES: [usize; 2] = [1_024, 16_384];
const SLOPE: f64 = 1.15;
const LARGE: usize = 2_048;

thread_local! {
    static TASK: RefCell<(Wiring, Memory)> = RefCell::default();
    static FOUND: Cell<(Duration, Memory)> = Cell::default();
}

/// Places what is in `TASK`.
struct Probe;

impl Discoverer for Probe {
    type Config = BTreeMap<String, String>;

    fn describe() -> Description {
        Description::new("probe", "0.1.0")
    }

    fn configure(_: &Self::Config) -> Result<Requirements, Vec<Problem>> {
        Ok(Requirements::new())
    }

    fn discover(_: &Self::Config, input: &Input<'_>) -> Result<Answer, Failure> {
        TASK.with_borrow(|(wiring, memory)| {
            let start = Instant::now();
            let outcome = black_box(place(wiring, &Settings::default(), memory, input));
            FOUND.set((start.elapsed(), outcome.memory));
        });
        Ok(TopologyBuilder::new().finish().into())
    }
}

/// A cluster and its cables, with what is remembered of them.
struct Case {
    cluster: Cluster,
    wiring: Wiring,
    memory: Memory,
    best: Duration,
}

impl Case {
    fn new(hosts: usize, prepare: impl Fn(Fabric) -> Fabric) -> Self {
        let shape = three_tiers(hosts);
        let cluster = shape.names().iter().fold(Cluster::new(), |cluster, name| cluster.node(name.as_str(), []));
        // Lists come in any order.
        let wiring = prepare(shape.build()).shuffled(7).wiring();
        Self { cluster, wiring, memory: Memory::default(), best: Duration::MAX }
    }

    /// The same with what a round before it remembered.
    fn with_memory(hosts: usize, prepare: impl Fn(Fabric) -> Fabric) -> Self {
        let mut case = Self::new(hosts, |fabric| fabric);
        case.memory = case.round();
        Self { memory: case.memory, ..Self::new(hosts, prepare) }
    }

    fn round(&mut self) -> Memory {
        TASK.set((self.wiring.clone(), self.memory.clone()));
        self.cluster.discover::<Probe>("{}").unwrap();
        let (took, memory) = FOUND.take();
        self.best = self.best.min(took);
        memory
    }
}

/// Three tiers, storage switches, units of 32 hosts with eight rails.
fn three_tiers(hosts: usize) -> Shape {
    let units = hosts / 32;
    let storage = units.div_ceil(16) * 2;
    Shape { units, hosts: 32, pod: 8, spines: 16, cores: 16, storage, storage_units: 16, ..EIGHT_RAILS }
}

/// One storage switch that bears every host: every leaf shares children with it.
fn storage_of_all(mut fabric: Fabric) -> Fabric {
    let hosts: BTreeSet<String> = fabric.cables.iter().map(|cable| cable.host.clone()).collect();
    hosts.iter().for_each(|host| fabric.plug(host, "storage-of-all", "mlx5_8"));
    fabric.without(10, 3)
}

/// A name that a thousand machines share: it hangs on every leaf.
fn ghost(mut fabric: Fabric) -> Fabric {
    let leaves: BTreeSet<String> = fabric.cables.iter().map(|cable| cable.leaf.clone()).collect();
    leaves.iter().for_each(|leaf| fabric.plug("ghost", leaf, "mlx5_0"));
    fabric
}

fn main() {
    // As a test of this target it has nothing to say.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let healthy = |fabric: Fabric| fabric;
    let dead = |fabric: Fabric| fabric.without(30, 1);
    println!("| fabric | 1024 hosts | 2048 hosts | 16384 hosts | slope, target ≤ {SLOPE} | |");
    println!("| --- | --- | --- | --- | --- | --- |");
    row("healthy", |hosts| Case::new(hosts, healthy));
    row("healthy, with memory", |hosts| Case::with_memory(hosts, healthy));
    row("30 % of the links dead", |hosts| Case::new(hosts, dead));
    row("30 % of the links dead, with memory", |hosts| Case::with_memory(hosts, dead));
    row("a storage switch that bears every host", |hosts| Case::new(hosts, storage_of_all));
    row("a name that hangs on every leaf", |hosts| Case::new(hosts, ghost));
    states();
}

fn row(what: &str, case: impl Fn(usize) -> Case) {
    let mut cases = [SIZES[0], LARGE, SIZES[1]].map(case);
    for _ in 0..ROUNDS {
        cases.iter_mut().for_each(|case| drop(case.round()));
    }
    let [small, large, big] = cases.map(|case| case.best);
    let slope = (big.as_secs_f64() / small.as_secs_f64()).ln() / (SIZES[1] as f64 / SIZES[0] as f64).ln();
    let verdict = if slope <= SLOPE { "ok" } else { "over" };
    println!("| {what} | {small:.2?} | {large:.2?} | {big:.2?} | {slope:.3} | {verdict} |");
}

/// The state of a round, there and back.
fn states() {
    let memory = Case::new(LARGE, |fabric| fabric).round();
    let mut best = [Duration::MAX; 2];
    let mut bytes = Vec::new();
    for _ in 0..ROUNDS {
        let state = State { parts: Vec::new(), memory: memory.clone() };
        let start = Instant::now();
        bytes = black_box(state.to_bytes());
        best[0] = best[0].min(start.elapsed());
        let start = Instant::now();
        black_box(State::from_bytes(&bytes));
        best[1] = best[1].min(start.elapsed());
    }
    println!("\nmemory of {LARGE} hosts: {} bytes, written in {:.2?}, read in {:.2?}", bytes.len(), best[0], best[1]);
}
