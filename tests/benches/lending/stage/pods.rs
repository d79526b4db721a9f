//! Pods of the lender and pods of ours, many at once or so many a second.

use std::time::Duration;

use anyhow::{Context, Result};
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::Error;
use kube::api::{Api, DeleteParams, PostParams};
use kube::runtime::watcher::{Config, Event};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use topoloom_sync::keys::PHYSICAL_POD_UID;
use topoloom_tests::lending::Background;

use super::{BINDING, PATIENCE, Stage, TENANTS, WORK, machine, pod, virtual_node};
use crate::seen::{Pods, Seen, ShownPod};

/// Requests under way while objects are made.
pub(crate) const AT_ONCE: usize = 32;
const NOT_FOUND: u16 = 404;
const GATEWAY_TIMEOUT: u16 = 504;
/// What a pod that is there from the beginning requests.
const SMALL: &str = "50m";

/// Pods that come and go at a rate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    /// How many come in a second.
    pub(crate) rate: u32,
    /// How long each is there.
    pub(crate) life: Duration,
    /// How long new ones come.
    pub(crate) time: Duration,
    /// On how many machines, from the first one on.
    pub(crate) machines: u32,
}

impl Stage {
    /// Pods of the lender, in their namespace.
    pub(crate) fn tenants(&self) -> Api<Pod> {
        Api::namespaced(self.physical_plane.client(), TENANTS)
    }

    /// Virtual pods, in their namespace.
    pub(crate) fn work(&self) -> Api<Pod> {
        Api::namespaced(self.virtual_plane.client(), WORK)
    }

    /// Watches the pods of one namespace, in one watch, for those whose names begin with each of these prefixes; those are marked that
    /// have their physical pod.
    pub(crate) fn follow_pods<const N: usize>(
        background: &mut Background,
        namespace: &Api<Pod>,
        prefixes: [&'static str; N],
    ) -> Seen<[Pods; N]> {
        let see = |all: &mut [Pods; N], event: Event<ShownPod>| {
            all.iter_mut().for_each(|pods| pods.see(&event, PHYSICAL_POD_UID));
        };
        Seen::follow(background, shown(namespace), Config::default(), prefixes.map(Pods::of), see)
    }

    /// Pods of the lender that run from now on, evenly on all machines.
    pub(crate) async fn let_tenants_in(&self, count: u32) -> Result<()> {
        eprintln!("bench: {count} pods of the lender");
        let body = |number: u32| pod(&format!("t{number:06}"), &machine(number % self.machines), SMALL, json!({}));
        create_all(&self.tenants(), (0..count).map(body)).await?;
        until_running(self.tenants(), "t", count).await
    }

    /// Pods of ours that run from now on, evenly on all virtual nodes. The top-down half has to run.
    pub(crate) async fn let_work_in(&self, count: u32) -> Result<()> {
        eprintln!("bench: {count} lent pods");
        let node = |number: u32| virtual_node(BINDING, number % self.machines);
        let body = |number: u32| pod(&format!("w{number:06}"), &node(number), SMALL, json!({}));
        create_all(&self.work(), (0..count).map(body)).await?;
        until_running(self.work(), "w", count).await
    }

    /// Pods of the lender come and go; returns how many came.
    pub(crate) async fn stream_tenants(&self, stream: Stream) -> Result<u32> {
        let body = |number: u32| pod(&format!("s{number:06}"), &machine(number % stream.machines), "500m", json!({}));
        come_and_go(&self.tenants(), stream, body, &DeleteParams::default().grace_period(0)).await
    }

    /// Pods of ours come and go; returns how many came. The top-down half has to run.
    pub(crate) async fn stream_work(&self, stream: Stream) -> Result<u32> {
        let node = |number: u32| virtual_node(BINDING, number % stream.machines);
        let body = |number: u32| pod(&format!("s{number:06}"), &node(number), "500m", json!({}));
        come_and_go(&self.work(), stream, body, &DeleteParams::default()).await
    }
}

async fn come_and_go(
    pods: &Api<Pod>,
    stream: Stream,
    body: impl Fn(u32) -> Value,
    deletion: &DeleteParams,
) -> Result<u32> {
    let begin = Instant::now();
    let mut lives = FuturesUnordered::new();
    let mut came = 0;
    while begin.elapsed() < stream.time {
        let due = begin + Duration::from_secs(1) / stream.rate * came;
        loop {
            tokio::select! {
                biased;
                Some(lived) = lives.next() => lived?,
                () = sleep_until(due) => break,
            }
        }
        lives.push(live(pods, serde_json::from_value(body(came))?, stream.life, deletion));
        came += 1;
    }
    lives.try_collect::<Vec<()>>().await?;
    Ok(came)
}

/// The life of one pod.
async fn live(pods: &Api<Pod>, pod: Pod, life: Duration, deletion: &DeleteParams) -> Result<()> {
    let made = pods.create(&PostParams::default(), &pod).await.context("a pod cannot be made")?;
    sleep(life).await;
    let name = made.metadata.name.unwrap_or_default();
    loop {
        match pods.delete(&name, deletion).await {
            // An API server that has too much to do, as with the naive mode.
            Err(Error::Api(status)) if status.code == GATEWAY_TIMEOUT => {}
            Err(Error::Api(status)) if status.code == NOT_FOUND => return Ok(()),
            deleted => return deleted.map(drop).with_context(|| format!("{name} cannot be deleted")),
        }
    }
}

/// Creates pods, many at once.
pub(crate) async fn create_all(pods: &Api<Pod>, bodies: impl Iterator<Item = Value>) -> Result<()> {
    let create = |body: Value| async move {
        let pod: Pod = serde_json::from_value(body)?;
        pods.create(&PostParams::default(), &pod).await?;
        anyhow::Ok(())
    };
    let creating = stream::iter(bodies).map(create).buffer_unordered(AT_ONCE);
    creating.try_for_each(async |()| Ok(())).await.context("a pod cannot be made")
}

/// The same pods, of which only a part is read.
pub(crate) fn shown(pods: &Api<Pod>) -> Api<ShownPod> {
    Api::namespaced(pods.clone().into_client(), pods.namespace().unwrap_or_default())
}

async fn until_running(pods: Api<Pod>, prefix: &'static str, count: u32) -> Result<()> {
    let mut watching = Background::new();
    let seen = Stage::follow_pods(&mut watching, &pods, [prefix]);
    let wanted = count as usize;
    let all = |[pods]: &mut [Pods; 1]| (pods.in_phase("Running") >= wanted).then_some(());
    seen.until("all pods run", PATIENCE, all).await?;
    watching.stop().await;
    Ok(())
}
