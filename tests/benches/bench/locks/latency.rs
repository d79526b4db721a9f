//! A Bind that waits for no other Bind, by turns with its two calls made directly.

use std::time::Instant;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;

use super::{extender, node_name, pods, raw, scene, told};
use crate::options::Options;
use crate::sample::Sample;
use crate::table::{Row, Table, Target, time};

pub(super) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    let runs = options.runs(300);
    let scene = scene(2 * runs).await?;
    let (host, caller) = extender(&scene).await?;
    let all = pods(&scene, "p", 2 * runs).await?;
    // After this Bind the host's watch has shown all pods.
    caller.bind(&all[2 * runs - 1], &node_name(2 * runs - 1)).await?;
    let client = scene.plane.client();
    let nodes: Api<Node> = Api::all(client.clone());
    let (mut ours, mut theirs) = (Sample::default(), Sample::default());
    let before = scene.plane.requests().await?;
    for turn in 0..runs - 1 {
        let (one, two) = (2 * turn, 2 * turn + 1);
        // A host knows the version from its watch, so this read is not measured. The same read comes before both, so
        // that watch events that the call before caused are not measured with the next one.
        nodes.get_metadata(&node_name(one)).await?;
        let began = Instant::now();
        caller.bind(&all[one], &node_name(one)).await?;
        ours.push(began.elapsed());
        let version = nodes.get_metadata(&node_name(two)).await?.metadata.resource_version.unwrap_or_default();
        let began = Instant::now();
        raw(&client, &all[two], &node_name(two), &version).await?;
        theirs.push(began.elapsed());
    }
    let since = scene.plane.requests().await?.since(&before);
    eprintln!("bench: {} Binds and as many by hand: {}", ours.len(), told(&since));
    for (what, percent) in [("p50", 50), ("p99", 99)] {
        let (value, other) = (ours.percentile(percent), theirs.percentile(percent));
        let target = if percent == 50 { Target::AtMost(1.2) } else { Target::None };
        let row = Row::new(format!("uncontended Bind, {what} of {}", ours.len()), time(value));
        table.add(row.against("its two calls by hand", value, other, target));
    }
    host.stop().await?;
    scene.plane.stop().await
}
