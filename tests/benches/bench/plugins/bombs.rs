//! Plugins that are made to keep a compiler busy. One kind has a function in which thousands of values are alive at one
//! time, so that giving them registers takes time that grows with the square of its size. The other kind passes the
//! scan and reaches the limits of the compiler's process: loops in loops, all of which change all locals.
//!
//! Each bomb is an unused module in a plugin that works: if the compiler accepts the plugin, the plugin serves. It is
//! loaded with the limits of the standard profile, the larger ones also with those of `large`. Meanwhile a good plugin
//! runs its rounds, a few hundred a second.
//!
//! Memory is that of this process, which holds the runtime: the peak since the load began, minus the memory before it.
//! The memory and the time of the compiler are those of its own process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use topoloom::plugin::{Load, LoadError, Plugin, RoundInput, Runtime};
use topoloom_core::plugin::Limits;

use super::{number, round, runtime, section, stranger};
use crate::options::Options;
use crate::process::{forget_peak, held, own_cpu, peak_mib};
use crate::sample::Sample;
use crate::table::{Row, Table, Target, mib, seconds, time};

/// KiB of the function (`wasm-plugins.md` 6).
const SIZES: [usize; 4] = [29, 60, 128, 265];
/// How often each bomb is loaded; each time it is another plugin.
const RUNS: usize = 3;
/// Loops and locals of the bomb that passes the scan.
const LOOPS: usize = 300;
const SECONDS: f64 = 2.0;
const GROWTH_MIB: f64 = 64.0;
const DELAY_SECONDS: f64 = 0.02;

/// Nodes of the good plugin's rounds, the pause between them, and how long they continue alone.
const NODES: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(2);
const ALONE: Duration = Duration::from_secs(3);

pub(super) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    let stranger = stranger()?;
    let runtime = runtime()?;
    let bytes: Arc<[u8]> = stranger.clone().into();
    let good = runtime.load(Load { bytes, pinned: None, limits: Limits::default() }).await?;
    good.optimise().await?;
    let round = round(NODES);
    rounds(&good, &round, tokio::time::sleep(ALONE / 3)).await?;
    let (alone, ()) = rounds(&good, &round, tokio::time::sleep(ALONE)).await?;
    let (mut beside, mut growth) = (Sample::default(), 0.0_f64);
    for (profile, limits, sizes, runs) in
        [("standard", Limits::default(), &SIZES[..], options.runs(RUNS)), ("large", Limits::large(), &SIZES[2..], 1)]
    {
        for size in sizes {
            let (mut took, mut end) = (Sample::default(), String::new());
            for run in 0..runs {
                let bytes: Arc<[u8]> = bomb(&stranger, &values(size << 10), run as u8).into();
                let (grown, (sample, lit)) = growing(rounds(&good, &round, light(&runtime, bytes, &limits))).await?;
                growth = growth.max(grown);
                beside.extend(&sample);
                took.push(lit.0);
                end = lit.1;
            }
            let longest = took.percentile(100);
            let target = if profile == "standard" { Target::AtMost(SECONDS) } else { Target::None };
            let row = Row::new(format!("compile bomb of {size} KiB, limits `{profile}`: {end}"), time(longest));
            table.add(row.target(longest.as_secs_f64(), target, seconds));
        }
    }
    let bytes: Arc<[u8]> = bomb(&stranger, &loops(), 0).into();
    let (grown, (sample, lit)) = growing(rounds(&good, &round, light(&runtime, bytes, &Limits::default()))).await?;
    growth = growth.max(grown);
    beside.extend(&sample);
    let measure = format!("compile bomb of {LOOPS} loops in loops, limits `standard`: {}", lit.1);
    table.add(Row::new(measure, time(lit.0)));
    let own = own(&runtime, &stranger).await?;
    let row = Row::new("  processor time of the host itself for all of them", time(own));
    table.add(row.target(own.as_secs_f64(), Target::AtMost(SECONDS), seconds));
    let row = Row::new("  growth of the host meanwhile, at most", mib(growth));
    table.add(row.target(growth, Target::AtMost(GROWTH_MIB), mib));
    for (what, percent) in [("median", 50), ("p99", 99), ("longest", 100)] {
        let (value, other) = (beside.percentile(percent), alone.percentile(percent));
        let late = value.saturating_sub(other).as_secs_f64();
        let measure = format!("  rounds of another plugin meanwhile ({NODES} nodes), {what} of {}", beside.len());
        let row = Row::new(measure, time(value)).against("alone", value, other, Target::None);
        table.add(row.target(late, Target::AtMost(DELAY_SECONDS), |late| format!("{} later", seconds(late))));
    }
    Ok(())
}

/// Loads a bomb and optimises it; returns how long the load took, and whether the bomb was refused or compiled.
async fn light(runtime: &Runtime, bytes: Arc<[u8]>, limits: &Limits) -> (Duration, String) {
    let begin = Instant::now();
    let loaded = runtime.load(Load { bytes, pinned: None, limits: limits.clone() }).await;
    let took = begin.elapsed();
    let end = match loaded {
        Ok(plugin) => match plugin.optimise().await {
            Ok(()) => format!("compiled in the child (and optimised there in {})", time(begin.elapsed() - took)),
            Err(error) => {
                format!(
                    "compiled in the child, optimising refused after {}: {}",
                    time(begin.elapsed() - took),
                    word(&error)
                )
            }
        },
        Err(error) => format!("refused, {}", word(&error)),
    };
    (took, end)
}

/// The processor time of the host itself for one bomb of each size, without other work.
async fn own(runtime: &Runtime, stranger: &[u8]) -> Result<Duration> {
    let before = own_cpu()?;
    for size in SIZES {
        let bytes: Arc<[u8]> = bomb(stranger, &values(size << 10), u8::MAX).into();
        // Earlier runs showed whether it is refused.
        let _ = runtime.load(Load { bytes, pinned: None, limits: Limits::default() }).await;
    }
    Ok(own_cpu()? - before)
}

fn word(error: &LoadError) -> String {
    error.limit().map_or(error.reason().to_owned(), |limit| format!("{} ({})", error.reason(), limit.word()))
}

/// Runs rounds of the good plugin until the other future is done.
async fn rounds<T>(good: &Plugin, round: &RoundInput, until: impl Future<Output = T>) -> Result<(Sample, T)> {
    let mut until = std::pin::pin!(until);
    let source = "good".parse()?;
    let mut sample = Sample::default();
    loop {
        let round = round.clone();
        let begin = Instant::now();
        let call = good.discover(&source, round).await;
        sample.push(begin.elapsed());
        ensure!(call.end.is_ok(), "a round failed: {:?}", call.end);
        tokio::select! {
            biased;
            done = &mut until => return Ok((sample, done)),
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

/// By how many MiB this process grows during some work.
async fn growing<T>(work: impl Future<Output = Result<T>>) -> Result<(f64, T)> {
    let id = std::process::id();
    let before = held(id)?.resident;
    forget_peak(id)?;
    let done = work.await?;
    Ok((peak_mib(id)? - before, done))
}

/// A function body of `size` bytes, in which one value per eight bytes is alive at one time.
fn values(size: usize) -> Vec<u8> {
    // Eight bytes for each value: four instructions that make it, and one that uses it when all values exist.
    let values = size / 8 - 1;
    let mut body = vec![0];
    for value in 0..values {
        let (this, other) = (value as u8 % 2, (value + 1) as u8 % 2);
        // local.get, local.get, i32.mul, local.tee
        body.extend([0x20, this, 0x20, other, 0x6c, 0x22, this]);
    }
    // i32.xor
    body.extend(vec![0x73; values - 1]);
    body.push(0x0b);
    body
}

/// A function body of loops in loops, around a change of every local.
fn loops() -> Vec<u8> {
    // [`LOOPS`] locals of type i32, after the two parameters.
    let mut body = vec![1];
    number(&mut body, LOOPS);
    body.push(0x7f);
    // loop without a type
    body.extend([0x03, 0x40].repeat(LOOPS));
    for local in 2..LOOPS + 2 {
        // local.get, local.get 0, i32.add, local.set
        body.push(0x20);
        number(&mut body, local);
        body.extend([0x20, 0, 0x6a, 0x21]);
        number(&mut body, local);
    }
    // local.get 0, br_if 0, end
    body.extend([0x20, 0, 0x0d, 0, 0x0b].repeat(LOOPS));
    // local.get 2, end
    body.extend([0x20, 2, 0x0b]);
    body
}

/// A plugin with one more module, of one function with this body.
fn bomb(plugin: &[u8], body: &[u8], run: u8) -> Vec<u8> {
    let mut code = vec![1];
    number(&mut code, body.len());
    code.extend(body);
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    // One type, (param i32 i32) (result i32), and one function of it.
    section(&mut module, 1, &[1, 0x60, 2, 0x7f, 0x7f, 1, 0x7f]);
    section(&mut module, 3, &[1, 0]);
    section(&mut module, 10, &code);
    let mut bytes = plugin.to_vec();
    section(&mut bytes, 1, &module);
    section(&mut bytes, 0, &[1, b'n', run]);
    bytes
}
