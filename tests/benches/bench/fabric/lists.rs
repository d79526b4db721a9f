//! A whole round: every list of a large fabric, laid out as UFM does, parsed while it arrives.
//!
//! Wall time is what an operator sees; it includes the server, which makes 150 MB and encrypts them. Processor time is
//! that of this process alone. The native program is the same code with another client; `curl` only discards the data.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use super::manager::{Layout, Manager, TOKEN};
use super::native::{self, Native};
use super::sandbox::{self, Sandbox};
use super::{LARGE, alone};
use crate::options::Options;
use crate::process::own_cpu;
use crate::sample::Sample;
use crate::table::{Row, Table, Target, mib, time};

const RUNS: usize = 5;
const RATIO: f64 = 2.0;
/// The most memory that the guest may use.
const PEAK_MIB: f64 = 64.0;
/// By how much the memory of the host may grow, without the guest's.
const GROWTH_MIB: f64 = 32.0;

pub(super) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    let manager = Manager::start(LARGE, Layout::Indented).await?;
    let known = &manager.known;
    let sandbox = Sandbox::new("ufm", known, manager.folder.path()).await?;
    let native = Native::new(known)?;
    let (view, state) = (sandbox::view(&known.nodes), Arc::default());
    let (mut inside, mut outside, mut curl) = (Side::default(), Side::default(), Side::default());
    let (mut peak, mut received, mut requests) = (0, 0, 0);
    // The first round is not counted.
    for run in 0..=options.runs(RUNS) {
        let before = own_cpu()?;
        let found = sandbox.discover(&view, &state).await?;
        let middle = own_cpu()?;
        let wanted = native.discover(&known.nodes, &[]).await?;
        let after = own_cpu()?;
        let same = sandbox::groups(&found.answer) == native::groups(&wanted.answer);
        ensure!(same, "sandbox and native found different topologies");
        let thrown_away = throw_away(&manager).await;
        if run > 0 {
            inside.push(found.took, middle - before);
            outside.push(wanted.took, after - middle);
            peak = peak.max(found.usage.peak_memory);
            (received, requests) = (found.usage.received, found.usage.requests);
            if let Ok(took) = thrown_away {
                curl.push(took, Duration::ZERO);
            }
        }
    }
    let [inside_wall, outside_wall] = [&inside, &outside].map(|side| side.wall.median());
    let measure =
        format!("round over a UFM with {LARGE} hosts × 8 rails, {} MB over TLS, in the sandbox", received / 1_000_000);
    table.add(Row::new(measure, time(inside_wall)).against("native", inside_wall, outside_wall, Target::AtMost(RATIO)));
    let fastest = inside.wall.percentile(0);
    let slowest = format!("fastest {}, slowest {}", time(fastest), time(inside.wall.percentile(100)));
    table.add(Row::new(format!("  of {} rounds, {requests} requests each", inside.wall.len()), slowest));
    let [inside_cpu, outside_cpu] = [&inside, &outside].map(|side| side.cpu.median());
    let row = Row::new("  processor time of this process for it", time(inside_cpu));
    table.add(row.against("native", inside_cpu, outside_cpu, Target::None));
    if curl.wall.len() > 0 {
        let took = curl.wall.median();
        let row = Row::new("  the same round", time(inside_wall));
        table.add(row.against("curl -o /dev/null", inside_wall, took, Target::None));
    }
    let peak = peak as f64 / f64::from(1 << 20);
    table.add(Row::new("  peak memory of the guest", mib(peak)).target(peak, Target::AtMost(PEAK_MIB), mib));
    let held = alone::ask(&manager).await?;
    let beside = held.growth - held.guest;
    let row = Row::new("  growth of a process in its first such round, beside the guest's memory", mib(beside));
    table.add(row.target(beside, Target::AtMost(GROWTH_MIB), mib));
    table.add(Row::new("  the same with the guest's memory", mib(held.growth)));
    Ok(())
}

/// The times of one side.
#[derive(Default)]
struct Side {
    wall: Sample,
    cpu: Sample,
}

impl Side {
    fn push(&mut self, wall: Duration, cpu: Duration) {
        self.wall.push(wall);
        self.cpu.push(cpu);
    }
}

/// Fetches the lists of a round one after the other and discards them.
async fn throw_away(manager: &Manager) -> Result<Duration> {
    let mut command = Command::new("curl");
    command.args(["-sf", "--noproxy", "*", "-H", &format!("Authorization: Basic {TOKEN}"), "--cacert"]);
    command.arg(manager.folder.path().join("ca.crt"));
    for list in ["links", "ports?active=true"] {
        command.args(["-o", "/dev/null"]).arg(format!("{}/ufmRestV3/resources/{list}", manager.known.ufm));
    }
    let begin = Instant::now();
    let status = command.status().await.context("there is no curl")?;
    ensure!(status.success(), "curl ends with {status}");
    Ok(begin.elapsed())
}
