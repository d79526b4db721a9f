//! A sweeper that finds thousands of locks of pods that are gone.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use topoloom_tests::hami::SHARED_LOCK;
use topoloom_tests::host::Host;

use super::{AT_ONCE, node_name, scene};
use crate::options::Options;
use crate::process::{held, peak_mib};
use crate::table::{Row, Table, Target, mib, time};

const NODES: u32 = 10_000;
/// Longer than any machine needs for the sweep.
const PATIENCE: Duration = Duration::from_secs(300);
/// MiB that the verdicts on all locks may add to the memory of the host.
const ON_TOP: f64 = 64.0;

pub(super) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    let count = options.nodes(&[NODES]).first().copied().unwrap_or(NODES) as usize;
    let scene = scene(count).await?;
    let nodes: Api<Node> = Api::all(scene.plane.client());
    let lock = |node: usize| {
        let nodes = nodes.clone();
        async move {
            let value = format!("{},default,gone-{node}", jiff::Timestamp::now());
            let patch = Patch::Merge(json!({"metadata": {"annotations": {SHARED_LOCK: value}}}));
            nodes.patch_metadata(&node_name(node), &PatchParams::default(), &patch).await.map(drop)
        }
    };
    stream::iter(0..count).map(lock).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;

    // The same host without a sweeper, once it has settled.
    let host = Host::start(&scene.plane.kubeconfig(), &["--log", "info"]).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let without = held(host.id().context("the host has ended")?)?.resident;
    host.stop().await?;

    let before = scene.plane.requests().await?;
    let began = Instant::now();
    let host = Host::launch(&scene.plane.kubeconfig(), &["--log", "info", "--nodelock-sweep=report"]).await?;
    let wanted = format!("topoloom_node_locks{{state=\"leaked\"}} {count}");
    while !host.get("/metrics").await.unwrap_or_default().lines().any(|line| line == wanted) {
        anyhow::ensure!(began.elapsed() < PATIENCE, "there are no verdicts on all of them after {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = began.elapsed();
    let since = scene.plane.requests().await?.since(&before);
    let counted =
        |resource: &str, verb: &str| since.count(|request| request.resource == resource && request.verb == verb);
    eprintln!(
        "bench: lists of nodes {} (pages of 500, and those of discovery), of pods {}; watches that ended, of nodes {}, of pods {}; reads of pods {}, of nodes {}",
        counted("nodes", "LIST"),
        counted("pods", "LIST"),
        counted("nodes", "WATCH"),
        counted("pods", "WATCH"),
        counted("pods", "GET"),
        counted("nodes", "GET"),
    );
    let peak = peak_mib(host.id().context("the host has ended")?)?;
    let row = Row::new(format!("sweeper start to verdicts, {count} locked nodes"), time(took));
    table.add(row);
    #[expect(clippy::cast_precision_loss, reason = "it is a number of nodes")]
    let each = counted("pods", "GET") as f64 / count as f64;
    let row = Row::new("reads for each lock that looks dangling", format!("{each:.2}"));
    table.add(row.target(each, Target::AtMost(1.0), |reads| reads.to_string()));
    let row = Row::new("memory of the sweeper on top of the host, peak", mib(peak - without));
    table.add(row.target(peak - without, Target::AtMost(ON_TOP), mib));
    host.stop().await?;
    scene.plane.stop().await
}
