//! A crowd of pods for a few nodes that stay locked, with a real kube-scheduler: neither pods for other nodes nor the
//! filter wait for the crowd.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::*;

/// The number of nodes with a lock whose holder never gets an answer of its device plugin.
const HELD: usize = 4;
/// The number of pods that want one of those nodes.
const FOR_HELD: usize = 600;
/// The number of all pods of the crowd, unless `TOPOLOOM_CROWD` sets it: the others want a node that does not exist.
const ALL: usize = 2000;
/// The most requests under way while the test creates the crowd.
const AT_ONCE: usize = 24;
/// How much longer than a pod without a device a pod waits at most if its node is free. Both wait for kube-scheduler, which places
/// one pod after the other, and tries refused pods again every ten seconds. Behind the crowd the first would wait for minutes.
const SOON: Duration = Duration::from_secs(45);
/// How long a pod without a device waits at most, also where kube-scheduler has a slow machine for its rounds over the crowd.
const WITHOUT_A_DEVICE: Duration = Duration::from_secs(150);
/// How long the filter takes at most. Behind the crowd it would wait for as long as a Bind.
const AT_ONCE_ANSWERED: Duration = Duration::from_secs(5);

impl LockScene {
    async fn crowd(&self, all: usize) -> Result<()> {
        let mut tasks = JoinSet::new();
        for index in 0..all {
            if tasks.len() >= AT_ONCE {
                tasks.join_next().await.context("there are some")???;
            }
            let wanted = if index < FOR_HELD { format!("held-{}", index % HELD) } else { "none".to_owned() };
            let pod = device_pod(&format!("crowd-{index}"), &wanted);
            let pods = self.pods();
            tasks.spawn(async move {
                pods.create(&Default::default(), &serde_json::from_value(pod)?).await?;
                Ok::<_, anyhow::Error>(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Calls the filter again and again, as kube-scheduler does for each pod. Returns how long the slowest answer took.
    fn filters(&self, stop: CancellationToken) -> JoinSet<Result<Duration>> {
        let mut task = JoinSet::new();
        let (url, pod) = (format!("{}/filter", self.extender.url), device_pod("asks", "free"));
        let asked = json!({"Pod": pod, "Nodes": null, "NodeNames": ["free"]});
        task.spawn(async move {
            let mut slowest = Duration::ZERO;
            while !stop.is_cancelled() {
                // Each request has its own connection, like that of a new client.
                let client = plain_http().build()?;
                let began = Instant::now();
                let answer: Value = client.post(&url).json(&asked).send().await?.json().await?;
                anyhow::ensure!(answer["NodeNames"] == json!(["free"]), "{answer}");
                slowest = slowest.max(began.elapsed());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(slowest)
        });
        task
    }

    /// Creates a pod; returns how long it takes until the pod is bound.
    async fn placed(&self, pod: Value) -> Result<Duration> {
        let began = Instant::now();
        let name = self.create(pod).await?.metadata.name.unwrap_or_default();
        eventually(&format!("{name} has a node"), 8 * PATIENCE, async || {
            match self.node_of(&name).await.map_err(|error| error.to_string())? {
                Some(_) => Ok(()),
                None => Err("it has none".to_owned()),
            }
        })
        .await;
        Ok(began.elapsed())
    }
}

/// A pod that wants a device on the nodes with this label.
fn device_pod(name: &str, wanted: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"crowd": wanted},
            "containers": [{"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    })
}

#[allow(clippy::print_stdout, reason = "the figures are what a reader of a failure wants first")]
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_for_nodes_that_are_held_keeps_neither_the_filter_nor_pods_for_other_nodes_waiting() -> Result<()> {
    let all = std::env::var("TOPOLOOM_CROWD").ok().and_then(|all| all.parse().ok()).unwrap_or(ALL);
    let held: Vec<String> = (0..HELD).map(|node| format!("held-{node}")).collect();
    let names: Vec<&str> = held.iter().map(String::as_str).chain(["free"]).collect();
    let stage = LockScene::new(&names, &[]).await?;
    stage.ready_nodes(&names).await?;
    for name in &names {
        let labels = json!({"metadata": {"labels": {"crowd": name}}});
        stage.nodes().patch(name, &PatchParams::default(), &Patch::Merge(labels)).await?;
    }
    for name in &held {
        let holder = stage.create(device_pod(&format!("holds-{name}"), name)).await?;
        assert_eq!(stage.extender.bind(&holder, name).await?, "");
    }
    stage.crowd(all).await?;
    let patience = json!({"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 10});
    let mut scheduler = stage.patient_scheduler(patience).await?;
    eventually("the crowd waits for the held nodes", 4 * PATIENCE, async || {
        let metrics = stage.host.get("/metrics").await.map_err(|error| error.to_string())?;
        let waiting = metrics.lines().find_map(|line| line.strip_prefix("topoloom_node_lock_under_way "));
        match waiting.and_then(|count| count.parse::<f64>().ok()) {
            Some(count) if count >= 250.0 => Ok(()),
            count => Err(format!("{count:?} Binds are under way")),
        }
    })
    .await;
    let stop = CancellationToken::new();
    let mut filters = stage.filters(stop.clone());
    let mut plain = device_pod("plain", "free");
    plain["spec"]["containers"][0]["resources"] = json!({});
    let (free, plain) = tokio::join!(stage.placed(device_pod("late", "free")), stage.placed(plain));
    let (free, plain) = (free?, plain?);
    stop.cancel();
    let slowest = filters.join_next().await.context("it was begun")???;
    println!("{all} pods: pod for a free node {free:?}, pod without a device {plain:?}, slowest filter {slowest:?}");
    scheduler.kill();
    assert!(free < plain + SOON, "the pod for a free node waited {free:?}, the one without a device {plain:?}");
    assert!(plain < WITHOUT_A_DEVICE, "the pod without a device waited {plain:?}");
    assert!(slowest < AT_ONCE_ANSWERED, "a filter took {slowest:?}");
    stage.host.kill().await
}
