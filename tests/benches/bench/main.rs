//! `make bench`: measures what the host costs, and what it is compared with, on this machine.
//!
//! `cargo bench -p topoloom-benches -- [PART…] [--nodes=1000,5000] [--runs=N]`; without a part, all of them. A
//! benchmark reports: it exits with 0 whatever the numbers are, and prints a message when it could not measure.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people: it prints, and stops with what went wrong"
)]

mod cluster;
mod discovery;
mod fabric;
mod files;
mod live;
mod locks;
mod options;
mod plugins;
mod process;
mod sample;
mod stacks;
mod swaps;
mod table;

use options::Options;
use table::Table;

const PARTS: [&str; 22] = [
    "bombs",
    "overhead",
    "discovery",
    "fabric",
    "grouping",
    "slope",
    "unchanged",
    "files",
    "convergence",
    "requests",
    "edits",
    "memory",
    "profile",
    "pushes",
    "registries",
    "gaps",
    "crowd",
    "marathon",
    "binds",
    "throughput",
    "waiters",
    "sweep",
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((_, arguments)) = arguments.split_first().filter(|(first, _)| *first == fabric::ALONE) {
        return runtime().block_on(fabric::run_alone(arguments)).unwrap();
    }
    let options = match Options::parse(arguments.into_iter(), &PARTS) {
        Ok(options) => options,
        Err(wrong) => return eprintln!("bench: {wrong}"),
    };
    let mut table = Table::default();
    let measured = runtime().block_on(measure(&options, &mut table));
    print!("\n{table}");
    if let Err(error) = measured {
        eprintln!("bench: not everything was measured: {error:#}");
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

async fn measure(options: &Options, table: &mut Table) -> anyhow::Result<()> {
    // First, while this process has no freed memory yet that it could use again.
    plugins::measure(options, table).await?;
    if options.wants("discovery") {
        discovery::measure(options, table).await?;
    }
    if fabric::PARTS.iter().any(|part| options.wants(part)) {
        fabric::measure(options, table).await?;
    }
    if options.wants("files") {
        files::measure(options, table).await?;
    }
    if ["convergence", "requests", "edits", "memory", "profile"].iter().any(|part| options.wants(part)) {
        live::measure(options, table).await?;
    }
    if ["pushes", "registries", "gaps", "crowd", "marathon"].iter().any(|part| options.wants(part)) {
        swaps::measure(options, table).await?;
    }
    locks::measure(options, table).await?;
    Ok(())
}
