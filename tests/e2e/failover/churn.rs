//! Nodes that change all the time, and the topology that is right when the changes end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::{PATIENCE, Scene};

/// The nodes, with the racks that they are in at first.
pub(super) const NODES: [&str; 6] = [
    "n0 ex.io/spine=s ex.io/rack=r0",
    "n1 ex.io/spine=s ex.io/rack=r0",
    "n2 ex.io/spine=s ex.io/rack=r1",
    "n3 ex.io/spine=s ex.io/rack=r1",
    "n4 ex.io/spine=s ex.io/rack=r2",
    "n5 ex.io/spine=s ex.io/rack=r2",
];
/// The label with the rack of a node.
pub(super) const RACK: &str = "ex.io/rack";
const RACKS: u64 = 4;
/// Each move is up to four writes, and a leader makes about seventy in a second: it always has something to write.
const FAST: Duration = Duration::from_millis(30);
/// While a test only waits, as for a lease to expire: the servers and the leader would be busy for its whole time otherwise, and
/// it is the moment of the fault that has to be in the middle of work.
const SLOW: Duration = Duration::from_millis(250);
/// After so many fast changes a leader is behind them.
const RUN_UP: u64 = 10;
/// For how long changes are fast after a fault began: whatever it does to the leader has begun by then.
const AFTER: Duration = Duration::from_secs(1);

/// How fast nodes change. The fault of a play sets it.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    speed: Arc<Mutex<Speed>>,
    /// How many changes there were, in all plays.
    changes: Arc<AtomicU64>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Speed {
    #[default]
    Slow,
    Fast,
    FastUntil(Instant),
}

impl Pace {
    fn set(&self, speed: Speed) {
        *self.speed.lock().unwrap_or_else(PoisonError::into_inner) = speed;
    }

    /// Nodes change fast from now on; returns when the leader is in the middle of work.
    pub(super) async fn quickens(&self) {
        let before = self.changes.load(Ordering::SeqCst);
        self.set(Speed::Fast);
        eventually("nodes change fast", PATIENCE, async || {
            let changes = self.changes.load(Ordering::SeqCst) - before;
            if changes >= RUN_UP { Ok(()) } else { Err(format!("{changes} changes")) }
        })
        .await;
    }

    /// The fault has begun: nodes change slowly again, soon.
    pub(super) fn slows(&self) {
        self.set(Speed::FastUntil(Instant::now() + AFTER));
    }

    /// The pause before the next change.
    fn pause(&self) -> Duration {
        match *self.speed.lock().unwrap_or_else(PoisonError::into_inner) {
            Speed::Fast => FAST,
            Speed::FastUntil(end) if Instant::now() < end => FAST,
            Speed::FastUntil(_) | Speed::Slow => SLOW,
        }
    }
}

pub(super) struct Churn {
    seed: u64,
    pace: Pace,
    nodes: Api<Node>,
    stop: CancellationToken,
    task: JoinSet<()>,
}

impl Churn {
    /// Begins to move nodes between racks; the seed determines the moves.
    pub(super) async fn begin(scene: &Scene, pace: &Pace, seed: u64) -> Result<Self> {
        // A leader that lost its lease before the fault has left it fast.
        pace.set(Speed::Slow);
        let nodes: Api<Node> = Api::all(scene.plane.client());
        let (mut task, stop) = (JoinSet::new(), CancellationToken::new());
        task.spawn(moves(nodes.clone(), pace.clone(), seed, stop.clone()));
        Ok(Self { seed, pace: pace.clone(), nodes, stop, task })
    }

    /// Gives a node the label of a new rack, which the leader has to write. Returns the name of the rack.
    pub(super) async fn mark(&self) -> Result<String> {
        // The mark differs from those of other plays, because the node of an earlier play still exists.
        let mark = format!("after{}-{}", self.seed, self.pace.changes.load(Ordering::SeqCst));
        let body = json!({"metadata": {"labels": {RACK: mark}}});
        let marked = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "marked", "labels": {"ex.io/spine": "s", RACK: mark}},
        });
        if self.nodes.patch("marked", &PatchParams::default(), &Patch::Merge(&body)).await.is_err() {
            self.nodes.create(&Default::default(), &serde_json::from_value(marked)?).await?;
        }
        Ok(mark)
    }

    /// Waits until the mark is in the topology.
    pub(super) async fn seen(&self, scene: &Scene, mark: String) {
        let wanted = format!("tier 1 ex.io/rack={mark} (");
        eventually(&format!("a leader has written {mark}"), PATIENCE, async || {
            let topology = scene.topology().await.map_err(|error| error.to_string())?;
            if topology.iter().any(|line| line.starts_with(&wanted)) { Ok(()) } else { Err(format!("{topology:#?}")) }
        })
        .await;
    }

    /// Ends the changes; returns the topology of the nodes as they are.
    pub(super) async fn end(mut self, scene: &Scene) -> Result<Vec<String>> {
        // A change that is under way gets its answer: one that was cut off could happen after the nodes were read.
        self.stop.cancel();
        while self.task.join_next().await.is_some() {}
        let nodes: Api<Node> = Api::all(scene.plane.client());
        // A change whose answer got lost has happened or not, so the test reads the nodes.
        let nodes = nodes.list(&Default::default()).await?.items.into_iter().map(|node| {
            let rack = node.metadata.labels.unwrap_or_default().remove(RACK).unwrap_or_default();
            (node.metadata.name.unwrap_or_default(), rack)
        });
        Ok(topology_of(&nodes.collect()))
    }
}

/// The right topology when each of these nodes is in its rack.
pub(super) fn topology_of(nodes: &BTreeMap<String, String>) -> Vec<String> {
    let mut racks: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, rack) in nodes {
        racks.entry(rack).or_default().push(node);
    }
    let members: Vec<String> = racks.keys().map(|rack| format!("ex.io/rack={rack}")).collect();
    let mut lines = vec![format!("tier 2 ex.io/spine=s ({}): {}", nodes.len(), members.join(" "))];
    for (rack, nodes) in racks {
        lines.push(format!("tier 1 ex.io/rack={rack} ({}): {}", nodes.len(), nodes.join(" ")));
    }
    lines
}

async fn moves(nodes: Api<Node>, pace: Pace, seed: u64, stop: CancellationToken) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut due = Instant::now();
    loop {
        // One change after the other, however long they take.
        due = Instant::now().max(due + pace.pause());
        if stop.run_until_cancelled(sleep_until(due)).await.is_none() {
            return;
        }
        // xorshift: the same seed gives the same moves.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let (node, rack) = (format!("n{}", state % NODES.len() as u64), (state >> 8) % RACKS);
        let body = json!({"metadata": {"labels": {RACK: format!("r{rack}")}}});
        // The API server may be down: that is one of the faults.
        if nodes.patch(&node, &PatchParams::default(), &Patch::Merge(&body)).await.is_ok() {
            pace.changes.fetch_add(1, Ordering::SeqCst);
        }
    }
}
