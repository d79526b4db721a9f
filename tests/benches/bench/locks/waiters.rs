//! Many Binds that wait for one node: what waiting costs, which Bind is next, and what passing on the lock costs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::Value;
use tokio::task::JoinSet;
use topoloom_tests::device_plugin::{Kubelets, Settings};
use topoloom_tests::hami::BIND_TIME;
use topoloom_tests::host::Host;

use super::{BindClient, extender, node_name, pods, scene, told};
use crate::process::cpu;
use crate::table::{Row, Table, Target};

const WAITERS: usize = 64;
/// How long the waiting Binds are measured; a Bind waits for 28 s at most.
const WATCHED: Duration = Duration::from_secs(10);

pub(super) async fn measure(table: &mut Table) -> Result<()> {
    let scene = scene(1).await?;
    let (host, caller) = extender(&scene).await?;
    let all = pods(&scene, "p", WAITERS + 1).await?;
    caller.bind(&all[0], &node_name(0)).await?;
    let mut waiting = JoinSet::new();
    for (index, pod) in all.iter().enumerate().skip(1) {
        let (caller, pod): (BindClient, Pod) = (caller.clone(), pod.clone());
        waiting.spawn(async move { caller.bind(&pod, &node_name(0)).await.map(|()| Instant::now()) });
        until_under_way(&host, index).await?;
    }
    let id = host.id().context("the host has ended")?;
    let before = cpu(id)?;
    tokio::time::sleep(WATCHED).await;
    let used = (cpu(id)? - before).as_secs_f64() / WATCHED.as_secs_f64() * 100.0;
    let row = Row::new(
        format!("{WAITERS} waiters on one node, processor time of the host"),
        format!("{used:.2} % of a core"),
    );
    table.add(row.target(used, Target::Below(1.0), |percent| format!("{percent} %")));

    let before = scene.plane.requests().await?;
    let kubelets = Kubelets::start(scene.plane.client(), Settings::default());
    while let Some(ended) = waiting.join_next().await {
        ended??;
    }
    let since = scene.plane.requests().await?.since(&before);
    eprintln!("bench: {WAITERS} handed over, the device plugin's own included: {}", told(&since));
    // The device plugin sends one patch for each pod that it served; the last pod may not be served yet.
    let served = u64::try_from(kubelets.served().len())?;
    let patches = since.count(|request| request.resource == "nodes" && request.verb == "PATCH").saturating_sub(served);
    #[expect(clippy::cast_precision_loss, reason = "it is below a thousand")]
    let each = patches as f64 / WAITERS as f64;
    let row = Row::new("API calls from a release seen to the lock held", format!("{each:.2}"));
    table.add(row.target(each, Target::AtMost(2.0), |calls| calls.to_string()));
    let pods: Api<Pod> = Api::default_namespaced(scene.plane.client());
    let in_order = order(pods.list(&ListParams::default()).await?.items, &kubelets);
    let row = Row::new("waiters that were served in the order in which they came", format!("{in_order} of {WAITERS}"));
    table.add(row.exactly(in_order == WAITERS, format!("{WAITERS}")));
    kubelets.stop().await;
    host.stop().await?;
    scene.plane.stop().await
}

/// How many pods were served after all pods that came before them.
fn order(pods: Vec<Pod>, kubelets: &Kubelets) -> usize {
    let bound =
        pods.iter().filter(|pod| pod.metadata.annotations.iter().flatten().any(|(key, _)| key == BIND_TIME)).count();
    let names: Vec<String> = kubelets.served().iter().map(|served| served.asked.name.to_string()).collect();
    let ordered = names.windows(2).filter(|pair| pair[0] < pair[1]).count();
    // The last pod may be bound and not served yet.
    ordered + bound - names.len()
}

async fn until_under_way(host: &Host, count: usize) -> Result<()> {
    loop {
        let dump: Value = serde_json::from_str(&host.get("/debug/dump").await?)?;
        let found = dump.pointer("/state/extender/bindsUnderWay").or_else(|| dump.pointer("/extender/bindsUnderWay"));
        if found.and_then(Value::as_u64).context("the dump has no Binds")? >= count as u64 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
