//! Many Binds at once, with device plugins that answer after a while, beside a driver that makes the same calls.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{PartialObjectMeta, PostParams};
use kube::runtime::watcher::{self, Event};
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use topoloom_tests::controlplane::Requests;
use topoloom_tests::device_plugin::{Kubelets, Settings};
use topoloom_tests::scene::Scene;

use super::{extender, node_name, pods, raw, scene, told};
use crate::table::{Row, Table, Target};

const NODES: usize = 200;
const PODS: usize = 2_000;
const PARALLEL: usize = 16;
const ANSWERS: Duration = Duration::from_millis(50);

/// The two take turns, so that a machine that is slower for a while is slower for both.
const TURNS: usize = 4;

pub(super) async fn measure(table: &mut Table) -> Result<()> {
    let scene = scene(NODES).await?;
    let kubelets = Kubelets::start(scene.plane.client(), Settings { answers_after: ANSWERS, ..Settings::default() });
    let (ours, theirs) = (pods(&scene, "p", PODS).await?, pods(&scene, "r", PODS).await?);
    let (mut took, mut took_raw) = (Total::default(), Total::default());
    for (ours, theirs) in ours.chunks(PODS / TURNS).zip(theirs.chunks(PODS / TURNS)) {
        let (host, caller) = extender(&scene).await?;
        host.until_ready().await;
        took.turn(&scene, &kubelets, ours, async |pod, node| caller.bind(pod, node).await).await?;
        host.stop().await?;
        let driver = Driver::start(scene.plane.client()).await?;
        took_raw.turn(&scene, &kubelets, theirs, async |pod, node| driver.bind(pod, node).await).await?;
    }
    eprintln!("bench: the extender, the device plugins' own included: {}", told(&took.requests));
    eprintln!("bench: the driver, the device plugins' own included: {}", told(&took_raw.requests));

    anyhow::ensure!(kubelets.mistakes().is_empty(), "{:?}", kubelets.mistakes());
    let rate = |took: Duration| PODS as f64 / took.as_secs_f64();
    let name = format!("{PODS} Binds on {NODES} nodes, {PARALLEL} at once");
    let row = Row::new(name, format!("{:.0} per second", rate(took.took)));
    // 90 % of the throughput is 1 / 0.9 of the time.
    table.add(row.against(
        &format!("{:.0} per second by hand, in", rate(took_raw.took)),
        took.took,
        took_raw.took,
        Target::AtMost(1.11),
    ));
    kubelets.stop().await;
    scene.plane.stop().await
}

/// What one of the two needed in all its turns.
#[derive(Default)]
struct Total {
    took: Duration,
    requests: Requests,
}

impl Total {
    /// Binds these pods, and waits until their devices are served.
    async fn turn(
        &mut self,
        scene: &Scene,
        kubelets: &Kubelets,
        pods: &[Pod],
        bind: impl AsyncFn(&Pod, &str) -> Result<()>,
    ) -> Result<()> {
        let (before, served) = (scene.plane.requests().await?, kubelets.served().len());
        self.took += parallel(pods, bind).await?;
        until_served(kubelets, served + pods.len()).await;
        let since = scene.plane.requests().await?.since(&before);
        self.requests = std::mem::take(&mut self.requests).and(since);
        Ok(())
    }
}

async fn until_served(kubelets: &Kubelets, count: usize) {
    while kubelets.served().len() < count {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Binds all pods, [`PARALLEL`] at a time, each to the next node.
async fn parallel(pods: &[Pod], bind: impl AsyncFn(&Pod, &str) -> Result<()>) -> Result<Duration> {
    let (next, began) = (AtomicUsize::new(0), Instant::now());
    let worker = async || -> Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(pod) = pods.get(index) else { return Ok(()) };
            bind(pod, &node_name(index % NODES)).await?;
        }
    };
    futures::future::try_join_all((0..PARALLEL).map(|_| worker())).await?;
    Ok(began.elapsed())
}

/// Makes the calls of a Bind, including its Event, and no others; its watches show when a node is free.
struct Driver {
    client: kube::Client,
    seen: Arc<Seen>,
    events: Mutex<JoinSet<kube::Result<()>>>,
    _watches: JoinSet<()>,
}

#[derive(Default)]
struct Seen {
    /// The version of each node, and whether the node is locked.
    nodes: Mutex<HashMap<String, (String, bool)>>,
    /// Pods that were bound and have not started, by their node.
    busy: Mutex<HashMap<String, HashSet<String>>>,
    changed: Notify,
}

impl Driver {
    /// Starts the driver, and waits until both watches have received their lists.
    async fn start(client: kube::Client) -> Result<Self> {
        let seen = Arc::<Seen>::default();
        let mut watches = JoinSet::new();
        let (lists, mut listed) = watch::channel(0);
        let (nodes, told, lists_nodes) =
            (Api::<PartialObjectMeta<Node>>::all(client.clone()), Arc::clone(&seen), lists.clone());
        watches.spawn(async move {
            let mut events = std::pin::pin!(watcher::watcher(nodes, watcher::Config::default()));
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(node) | Event::InitApply(node)) => told.node(&node),
                    Ok(Event::InitDone) => lists_nodes.send_modify(|lists| *lists += 1),
                    _ => {}
                }
            }
        });
        let (pods, told) = (Api::<Pod>::all(client.clone()), Arc::clone(&seen));
        watches.spawn(async move {
            let mut events = std::pin::pin!(watcher::watcher(pods, watcher::Config::default()));
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => told.pod(&pod),
                    Ok(Event::InitDone) => lists.send_modify(|lists| *lists += 1),
                    _ => {}
                }
            }
        });
        listed.wait_for(|lists| *lists >= 2).await?;
        Ok(Self { client, seen, events: Mutex::default(), _watches: watches })
    }

    async fn bind(&self, pod: &Pod, node: &str) -> Result<()> {
        let name = pod.metadata.name.clone().unwrap_or_default();
        loop {
            let changed = self.seen.changed.notified();
            if let Some(version) = self.seen.free(node) {
                self.seen.busy.lock().unwrap().entry(node.to_owned()).or_default().insert(name.clone());
                match raw(&self.client, pod, node, &version).await {
                    Err(error) if format!("{error:#}").contains("modified") => {
                        self.seen.busy.lock().unwrap().entry(node.to_owned()).or_default().remove(&name);
                    }
                    ended => {
                        let (events, event) = (Api::default_namespaced(self.client.clone()), bound(pod, node)?);
                        // The Bind does not wait for its Event.
                        let told = async move { events.create(&PostParams::default(), &event).await.map(drop) };
                        self.events.lock().unwrap().spawn(told);
                        return ended;
                    }
                }
            }
            // If the driver missed a change in between, it sees it after the timeout.
            let _ = tokio::time::timeout(Duration::from_millis(100), changed).await;
        }
    }
}

/// The Event of a Bind.
fn bound(pod: &Pod, node: &str) -> Result<k8s_openapi::api::events::v1::Event> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": format!("{name}.bound"), "namespace": "default"},
        "eventTime": format!("{:.6}", jiff::Timestamp::now()), "type": "Normal", "action": "Binding", "reason": "BindingSucceed",
        "note": format!("Binding succeeded: node [{node}], pod default/{name}"),
        "reportingController": "raw", "reportingInstance": "raw",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": name, "uid": pod.metadata.uid},
    });
    Ok(serde_json::from_value(event)?)
}

impl Seen {
    fn free(&self, node: &str) -> Option<String> {
        let (version, locked) = self.nodes.lock().unwrap().get(node).cloned()?;
        let busy = self.busy.lock().unwrap().get(node).is_some_and(|pods| !pods.is_empty());
        (!locked && !busy).then_some(version)
    }

    fn node(&self, node: &PartialObjectMeta<Node>) {
        let locked =
            node.metadata.annotations.iter().flatten().any(|(key, _)| key == topoloom_tests::hami::SHARED_LOCK);
        let version = node.metadata.resource_version.clone().unwrap_or_default();
        self.nodes.lock().unwrap().insert(node.metadata.name.clone().unwrap_or_default(), (version, locked));
        self.changed.notify_waiters();
    }

    fn pod(&self, pod: &Pod) {
        let started = pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        if let (true, Some(node), Some(name)) = (started, node, &pod.metadata.name) {
            self.busy.lock().unwrap().entry(node).or_default().remove(name);
            self.changed.notify_waiters();
        }
    }
}
