//! The rows of the table, and which of them share two clusters: one after the other, and nothing else runs meanwhile.

mod bindings;
mod birth;
mod churn;
mod idle;
mod pods;
mod profile;
mod size;
mod start;
mod takeover;
mod window;

use std::time::Duration;

use anyhow::Result;
use tokio::time::sleep;
use topoloom_tests::controlplane::{Request, Requests};

use crate::options::Options;
use crate::part;
use crate::program::until_at_rest;
use crate::scale::Scale;
use crate::stage::Stage;
use crate::table::Table;

pub(crate) const PARTS: [&str; 10] =
    ["birth", "idle", "window", "profile", "start", "size", "churn", "pods", "takeover", "bindings"];

/// After this time everything that follows from a change has been written: a node is written larger once in ten seconds at most
/// (decision S14).
const SETTLES: Duration = Duration::from_secs(15);

/// Counting runs, at 5 000 nodes, and the start on many pods: all on the same two clusters, since making them takes minutes. Each
/// row has a host of its own, so that one that fails leaves the others what they need.
pub(crate) async fn counted(options: &Options, scale: &Scale, table: &mut Table) -> Result<()> {
    if !["birth", "idle", "window", "profile", "start"].iter().any(|row| options.wants(row)) {
        return Ok(());
    }
    let mut stage = Stage::new(scale.counted, scale).await?;
    if options.wants("birth") {
        part("birth", Box::pin(birth::measure(&stage, options, scale, table))).await;
    }
    if options.wants("idle") {
        part("idle", Box::pin(idle::measure(&stage, scale, table))).await;
    }
    if options.wants("window") {
        part("window", Box::pin(window::counted(&stage, table))).await;
    }
    if options.wants("profile") {
        part("profile", Box::pin(profile::measure(&mut stage, table))).await;
    }
    if options.wants("start") {
        part("start", Box::pin(start::counted(&mut stage, scale, table))).await;
    }
    stage.stop().await
}

/// Timing runs, at 1 000 nodes and 10 000 pods.
pub(crate) async fn timed(options: &Options, scale: &Scale, table: &mut Table) -> Result<()> {
    if !["start", "size", "churn", "pods", "window"].iter().any(|row| options.wants(row)) {
        return Ok(());
    }
    let mut stage = Stage::new(scale.timed, scale).await?;
    let ours = scale.timed_pods / 3;
    stage.let_tenants_in(scale.timed_pods - ours).await?;
    let host = stage.lend().await?;
    let player = stage.play().await?;
    stage.let_work_in(ours).await?;
    until_at_rest(&host, stage.machines, ours).await?;
    host.stop().await?;
    if options.wants("start") {
        sleep(SETTLES).await;
        part("start", Box::pin(start::timed(&stage, scale, table))).await;
    }
    if options.wants("size") {
        part("size", Box::pin(size::measure(&stage, options, table))).await;
    }
    if options.wants("churn") {
        part("churn", Box::pin(churn::measure(&stage, scale, table))).await;
    }
    if options.wants("window") {
        part("window", Box::pin(window::timed(&stage, scale, table))).await;
    }
    // The last one: its kubelets end.
    if options.wants("pods") {
        part("pods", Box::pin(pods::measure(&mut stage, table))).await;
    }
    drop(player);
    stage.stop().await
}

/// A leader that is killed.
pub(crate) async fn takeover(options: &Options, scale: &Scale, table: &mut Table) -> Result<()> {
    if options.wants("takeover") { takeover::measure(scale, table).await } else { Ok(()) }
}

/// Many bindings.
pub(crate) async fn bindings(options: &Options, scale: &Scale, table: &mut Table) -> Result<()> {
    if options.wants("bindings") { bindings::measure(scale, options, table).await } else { Ok(()) }
}

/// The writes of nodes, of their status and of all else of them.
fn node_writes(requests: &Requests) -> u64 {
    requests.count(|request| request.is_write() && request.resource == "nodes")
}

/// Every write but those of leases, as text.
fn other_writes(requests: &Requests) -> String {
    counted_as_text(requests, |request| request.is_write() && request.resource != "leases")
}

/// Requests, as text.
fn counted_as_text(requests: &Requests, is_shown: impl Fn(&Request) -> bool) -> String {
    let texts: Vec<String> = requests
        .iter()
        .filter(|(request, _)| is_shown(request))
        .map(|(request, count)| {
            let slash = if request.subresource.is_empty() { "" } else { "/" };
            format!("{count} {} {}{slash}{} ({})", request.verb, request.resource, request.subresource, request.code)
        })
        .collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

/// A whole number.
fn whole(number: f64) -> String {
    format!("{number:.0}")
}

/// A number of events a second.
fn per_second(number: f64) -> String {
    format!("{number:.1}/s")
}
