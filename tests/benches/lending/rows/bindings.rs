//! Many bindings of one process: twenty on one physical API server, beside one binding of the same total; then each on a server of
//! its own, of which one answers after half a minute.
//!
//! The twenty servers are proxies of this process in front of the one API server: to the host each is another server.

mod proxy;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::time::sleep;
use topoloom_tests::host::Host;

use self::proxy::{LATE, Proxy};
use super::SETTLES;
use super::size::lags;
use crate::audit::{opened, watches};
use crate::options::Options;
use crate::program::until_at_rest;
use crate::sample::Sample;
use crate::scale::Scale;
use crate::stage::{GROUP, POLICIES, Stage};
use crate::table::{Row, Table, Target, time};

/// Bindings, two for each group of machines; and how many pods are measured in each run.
const BINDINGS: u32 = 20;
const TURNS: usize = 400;
/// How often a quick and a slow server are measured in turns.
const PHASES: usize = 5;
/// How many come before those that are measured.
const WARM_UP: usize = 100;
/// Lags may differ by ten percent.
const RATIO: f64 = 1.1;
/// What is watched in the physical cluster.
const WATCHED: [&str; 4] = ["nodes", "pods", "csinodes", "resourceleasingpolicies"];
/// The half of its group that a machine is in.
const HALF: &str = "example.com/half";

/// What a host did in the physical cluster until it was at rest, and how late it was then.
struct Run {
    lists: BTreeMap<String, u64>,
    watches: i64,
    sample: Sample,
}

pub(super) async fn measure(scale: &Scale, options: &Options, table: &mut Table) -> Result<()> {
    let turns = u32::try_from(options.runs(TURNS))?.min(scale.timed / 2);
    let one = one_binding(scale, turns).await?;

    let stage = Stage::new(scale.timed, scale).await?;
    split(&stage).await?;
    let before = watches(&stage.physical_plane).await?;
    let mark = stage.physical_lists.mark();
    let kubeconfig = stage.kubeconfig()?;
    for number in 0..BINDINGS {
        bind(&stage, number, &kubeconfig).await?;
    }
    let host = stage.host("host", &[]).await?;
    until_at_rest(&host, stage.machines, 0).await?;
    sleep(SETTLES).await;
    let mut many = counted(&stage, mark, &before).await?;
    many.sample = lags(&stage, 0..turns, |number| name(binding_of(number)), "b").await?;
    report(&one, &many, stage.machines, table);

    let servers = Servers::start(&stage).await?;
    for (number, proxy) in servers.0.iter().enumerate() {
        let kubeconfig = leading_to(&kubeconfig, proxy.port())?;
        stage.secret(&name(u32::try_from(number)?), &kubeconfig).await?;
    }
    settle(&host, &stage).await?;
    let first = servers.0.first().context("there is a first one")?;
    let (mut calm, mut slow) = (Vec::new(), Vec::new());
    for phase in 0..PHASES {
        calm.push(of_the_others(&stage, turns, &format!("c{phase}-")).await?);
        settle(&host, &stage).await?;
        first.set_slow(true);
        slow.push(of_the_others(&stage, turns, &format!("d{phase}-")).await?);
        first.set_slow(false);
        settle(&host, &stage).await?;
    }
    for (which, percent, target) in [("p50", 50, Target::None), ("p99", 99, Target::AtMost(RATIO))] {
        let [value, other] = [&slow, &calm].map(|turns| median(turns, percent));
        let what = format!("one of {BINDINGS} servers answers after 30 s: lag of the other bindings, {which}");
        let row = Row::new(format!("{what}, median of {PHASES} turns of {turns}"), time(value));
        table.add(row.against("with a quick one", value, other, target));
    }
    // It would wait for answers that come half a minute late.
    host.kill().await?;
    servers.stop().await;
    stage.stop().await
}

/// One binding that lends all machines, on clusters of its own.
async fn one_binding(scale: &Scale, turns: u32) -> Result<Run> {
    let stage = Stage::new(scale.timed, scale).await?;
    split(&stage).await?;
    let before = watches(&stage.physical_plane).await?;
    let mark = stage.physical_lists.mark();
    let host = stage.lend().await?;
    sleep(SETTLES).await;
    let mut run = counted(&stage, mark, &before).await?;
    run.sample = lags(&stage, 0..turns, |_| crate::stage::BINDING.to_owned(), "b").await?;
    host.stop().await?;
    stage.stop().await?;
    Ok(run)
}

/// What a host did since then.
async fn counted(stage: &Stage, mark: u64, before: &BTreeMap<String, i64>) -> Result<Run> {
    let watches = opened(&watches(&stage.physical_plane).await?, before, &WATCHED);
    Ok(Run { lists: stage.physical_lists.lists(mark)?.others, watches, sample: Sample::default() })
}

fn report(one: &Run, many: &Run, machines: u32, table: &mut Table) {
    let what = format!("{BINDINGS} bindings on one physical server, {machines} nodes");
    let most = many.lists.values().copied().max().unwrap_or_default();
    let row = Row::new(format!("{what}: lists of the kind that was listed most"), most.to_string());
    table.add(row.exactly(most == 1, "1 per kind and credential".to_owned()));
    let row = Row::new("  watches in the physical cluster", many.watches.to_string());
    let row = row.beside("one binding", many.watches as f64, one.watches as f64, super::whole, Target::AtMost(1.0));
    table.add(row);
    for (list, count) in &many.lists {
        eprintln!(
            "bench: {count} lists of {list} with {BINDINGS} bindings, {} with one",
            one.lists.get(list).unwrap_or(&0)
        );
    }
    for (which, percent) in [("p50", 50), ("p99", 99)] {
        let (value, other) = (many.sample.percentile(percent), one.sample.percentile(percent));
        let row = Row::new(format!("  pod of the lender → node smaller, {which}"), time(value));
        table.add(row.against("one binding", value, other, Target::None));
    }
}

/// The name of a binding.
fn name(number: u32) -> String {
    format!("b{number:02}")
}

/// The binding that lends a machine.
fn binding_of(machine: u32) -> u32 {
    machine % BINDINGS
}

/// The lags of so many machines, of all bindings but the first, after some that nothing counts: so each turn begins in the same way.
async fn of_the_others(stage: &Stage, turns: u32, prefix: &str) -> Result<Sample> {
    let others = || (0..stage.machines).filter(|machine| binding_of(*machine) != 0);
    let binding = |number| name(binding_of(number));
    lags(stage, others().take(WARM_UP), binding, &format!("w{prefix}")).await?;
    let lags = lags(stage, others().take(turns as usize), binding, prefix).await?;
    eprintln!("bench: {prefix}: p50 {}, p99 {}", time(lags.median()), time(lags.percentile(99)));
    Ok(lags)
}

/// Labels each machine with the half of its group, so that there are as many parts as bindings.
async fn split(stage: &Stage) -> Result<()> {
    let half = |number: u32| (crate::stage::machine(number), (binding_of(number) / POLICIES).to_string());
    stage.relabel(HALF, (0..stage.machines).map(half)).await
}

/// A binding that lends its part of the machines.
async fn bind(stage: &Stage, number: u32, kubeconfig: &str) -> Result<()> {
    let mount = format!("lent-to-{}", name(number));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": mount}});
    stage.physical_plane.apply(&[namespace]).await?;
    stage.secret(&name(number), kubeconfig).await?;
    let is = |key: &str, value: u32| json!({"key": key, "operator": "In", "values": [value.to_string()]});
    let part = [is(GROUP, number % POLICIES), is(HALF, number / POLICIES)];
    let terms = json!({"nodeSelectorTerms": [{"matchExpressions": part}]});
    stage.bind(&name(number), &mount, json!({"nodeSelector": terms})).await
}

/// A kubeconfig that leads to another port of this machine.
fn leading_to(kubeconfig: &str, port: u16) -> Result<String> {
    let mut document: Value = serde_json::from_str(kubeconfig).context("the kubeconfig is JSON")?;
    document["clusters"][0]["cluster"]["server"] = json!(format!("https://127.0.0.1:{port}"));
    Ok(document.to_string())
}

/// The median of this percentile of all turns: an interruption of the machine in one of them changes nothing.
fn median(turns: &[Sample], percent: usize) -> Duration {
    let mut of_turns = Sample::default();
    for turn in turns {
        of_turns.push(turn.percentile(percent));
    }
    of_turns.median()
}

/// Waits until all connections were replaced, and late answers have come.
async fn settle(host: &Host, stage: &Stage) -> Result<()> {
    sleep(LATE).await;
    until_at_rest(host, stage.machines, 0).await?;
    sleep(SETTLES).await;
    Ok(())
}

/// A server for each binding.
struct Servers(Vec<Proxy>);

impl Servers {
    async fn start(stage: &Stage) -> Result<Self> {
        let url = stage.physical_plane.server_url();
        let target = url.strip_prefix("https://").context("the API server is served over TLS")?;
        let mut servers = Vec::new();
        for _ in 0..BINDINGS {
            servers.push(Proxy::start(target).await?);
        }
        Ok(Self(servers))
    }

    async fn stop(self) {
        for proxy in self.0 {
            proxy.stop().await;
        }
    }
}
