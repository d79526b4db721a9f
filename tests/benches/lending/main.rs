//! `make bench`, the part of lending: what the bottom-up syncer costs two API servers and itself, beside a raw client that sends
//! only the least requests and beside the naive mode, which does what the reference does.
//!
//! `cargo bench -p topoloom-benches --bench lending -- [ROW…] [--nodes=5000] [--runs=N]`; without a row, all of them. The
//! environment sets the same, and more ([`scale`]). All counts are the API servers' own. Counting runs have 5 000 machines, timing
//! runs 1 000 with 10 000 pods; one thing is measured at a time. The host is the real program as a process of its own, and so are
//! the raw renewer and the naive mode.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for people: it prints, and stops with what went wrong"
)]

mod alone;
mod audit;
mod naive;
mod program;
mod raw;
mod rows;
mod scale;
mod seen;
mod stage;

// What the other benchmarks have: not all of it is used here.
#[allow(dead_code, reason = "it is shared with the other benchmark")]
#[path = "../bench/options.rs"]
mod options;
#[allow(dead_code, reason = "it is shared with the other benchmark")]
#[path = "../bench/process.rs"]
mod process;
#[allow(dead_code, reason = "it is shared with the other benchmark")]
#[path = "../bench/sample.rs"]
mod sample;
#[path = "../bench/stacks.rs"]
mod stacks;
#[allow(dead_code, reason = "it is shared with the other benchmark")]
#[path = "../bench/table.rs"]
mod table;

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use anyhow::Result;
use futures::FutureExt;

use options::Options;
use rows::PARTS;
use scale::Scale;
use table::Table;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((role, arguments)) if role == raw::RENEWER => {
            return runtime().block_on(raw::run_renewals(arguments)).unwrap();
        }
        Some((role, arguments)) if role == naive::NAIVE => return runtime().block_on(naive::run(arguments)).unwrap(),
        _ => {}
    }
    let options = match Options::parse(arguments.into_iter().chain(scale::rows()), &PARTS) {
        Ok(options) => options,
        Err(wrong) => return eprintln!("bench: {wrong}"),
    };
    let scale = match Scale::read(&options) {
        Ok(scale) => scale,
        Err(wrong) => return eprintln!("bench: {wrong:#}"),
    };
    let mut table = Table::default();
    runtime().block_on(measure(&options, &scale, &mut table));
    print!("\n{table}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// Measures one part after the other. A part that fails does not end the others.
async fn measure(options: &Options, scale: &Scale, table: &mut Table) {
    part("counting runs", Box::pin(rows::counted(options, scale, table))).await;
    part("timing runs", Box::pin(rows::timed(options, scale, table))).await;
    part("takeover", Box::pin(rows::takeover(options, scale, table))).await;
    part("bindings", Box::pin(rows::bindings(options, scale, table))).await;
}

/// Measures one part. What it has added to the table is printed already, and stays.
async fn part(what: &str, measured: impl Future<Output = Result<()>>) {
    let began = Instant::now();
    eprintln!("bench: {what} begins");
    // A wait of the harness that fails panics, with the last state.
    match AssertUnwindSafe(measured).catch_unwind().await {
        Ok(Ok(())) => eprintln!("bench: {what} took {:.0} s", began.elapsed().as_secs_f64()),
        Ok(Err(error)) => eprintln!("bench: {what}: not everything was measured: {error:#}"),
        Err(_) => {
            eprintln!("bench: {what}: not everything was measured: something did not happen in time, as said above")
        }
    }
}
