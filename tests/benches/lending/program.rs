//! The host as a process: what its own metrics say, when it is at rest, and what it uses.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::time::{Instant, sleep};
use topoloom_tests::host::Host;

/// Between two looks, for each node: a scrape of a host with 5 000 nodes is work.
const LOOK: Duration = Duration::from_micros(100);
/// How long reading everything may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// Its process id.
pub(crate) fn id(host: &Host) -> Result<u32> {
    host.id().context("the host has ended")
}

/// The sum of all series of a metric whose lines contain these words.
pub(crate) fn sum(metrics: &str, name: &str, words: &[&str]) -> f64 {
    let is_it = |line: &&str| {
        let labels = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']));
        labels.is_some_and(|labels| words.iter().all(|word| labels.contains(word)))
    };
    metrics.lines().filter(is_it).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Waits until a host lends so many nodes with so many running pods, has read both clusters, and has nothing to do; returns when
/// that was seen.
pub(crate) async fn until_at_rest(host: &Host, nodes: u32, pods: u32) -> Result<Instant> {
    let end = Instant::now() + PATIENCE;
    loop {
        let metrics = host.get("/metrics").await?;
        let now = Instant::now();
        let found = [
            ("topoloom_lent_nodes", "state=\"lent\""),
            ("topoloom_virtual_node_leases", ""),
            ("topoloom_lent_pods", "phase=\"Running\""),
            ("topoloom_binding_bars", ""),
            ("topoloom_workqueue_depth", ""),
            ("topoloom_workqueue_unfinished_work_seconds", ""),
        ]
        .map(|(name, word)| sum(&metrics, name, &[word]));
        let [lent, leases, running, bars, depth, work] = found;
        let is_lent = lent >= f64::from(nodes) && leases >= f64::from(nodes) && running >= f64::from(pods);
        if is_lent && bars == 0.0 && depth == 0.0 && work == 0.0 {
            return Ok(now);
        }
        if now > end {
            bail!(
                "not at rest after {PATIENCE:?}: {lent} nodes of {nodes}, {leases} leases, {running} pods of {pods}, \
                 {bars} bars, {depth} keys wait, {work} s of work under way"
            );
        }
        sleep(LOOK * nodes).await;
    }
}
