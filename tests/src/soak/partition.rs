//! One long partition with the times of production: lease 40 s, suspect after 15 s, unreachable after 40 s, and the default times of
//! node-lifecycle and taint-eviction (decision S5). Of three bindings one stays connected, one has `onUnreachable: unknown` and one
//! `hold`.
//!
//! While it lasts the syncer removes no pod and enlarges no node; a binding that holds keeps its nodes ready and its pods. Where
//! it lasts for ten minutes, Kubernetes takes the pods of the binding that does not hold, by the five minutes that pods tolerate.
//! Afterwards everything is right within half a minute, without a hand.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use topoloom_sync::keys;

use super::world::{ARGUMENTS, Loan, World, machine, ready_of, virtual_node};
use super::{Outcome, USUAL_MINUTES};
use crate::controlplane::{ControlPlane, eventually};
use crate::failover::log::Log;
use crate::failover::tenures::Removed;
use crate::host::Host;
use crate::scene::PATIENCE;

/// The binding that stays connected, the one whose nodes become Unknown, and the one that holds.
const WELL: &str = "well";
const AWAY: &str = "away";
const HELD: &str = "held";
const MACHINES: usize = 6;
/// Pods on each machine.
const PODS: usize = 2;
/// The syncer runs with the times of its leases that it has by default.
const LEASES: &str = "--leader-elect=true";

/// How a partition ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// After two minutes: before a pod has gone.
    Short,
    /// After ten: no pod is left of a binding whose nodes are Unknown. That takes 40 s, the grace period of 50 s, 10 s for each
    /// node, and the 300 s that a pod tolerates.
    Long,
}

impl Length {
    fn time(self) -> Duration {
        match self {
            Self::Short => Duration::from_secs(120),
            Self::Long => Duration::from_secs(600),
        }
    }
}

/// A server is suspect after 15 s without a sign of life, and until it is unreachable.
const SUSPECT: Duration = Duration::from_secs(33);
/// A server is unreachable after 40 s without a sign of life, of which up to 5 s are before the partition, and that shows in a status
/// a little later.
const UNREACHABLE: (Duration, Duration) = (Duration::from_secs(33), Duration::from_secs(60));
/// So long after the beginning all nodes of the binding that does not hold are Unknown: 40 s, and the grace period.
const UNKNOWN: Duration = Duration::from_secs(115);
/// After so long everything is right again.
const RIGHT: Duration = Duration::from_secs(30);
/// How often everything is looked at meanwhile.
const LOOK: Duration = Duration::from_secs(5);

/// Runs it, and prints when what happened: ten minutes of it in a soak of the usual length, and two in a shorter one.
///
/// # Errors
/// With what is not as promised.
#[allow(clippy::print_stdout, reason = "the table is what it is for")]
pub async fn run(minutes: u64) -> Result<Outcome> {
    let length = if minutes < USUAL_MINUTES { Length::Short } else { Length::Long };
    println!("soak: a partition of {} s with default times", length.time().as_secs());
    let mut moments = Vec::new();
    let ended = tokio::select! {
        // A wait that fails panics with the last state; the moments until then are printed nevertheless.
        ended = AssertUnwindSafe(partition(length, &mut moments)).catch_unwind() => Some(ended),
        _ = tokio::signal::ctrl_c() => None,
    };
    println!("\nseconds since the partition began");
    for (what, at) in &moments {
        println!("{:>8.1}  {what}", at.as_secs_f64());
    }
    match ended {
        Some(ended) => {
            ended.map_err(|_| anyhow!("something did not happen in time, as said above"))??;
            Ok(Outcome::Flat)
        }
        None => Ok(Outcome::Interrupted),
    }
}

type Moments = Vec<(&'static str, Duration)>;

async fn partition(length: Length, moments: &mut Moments) -> Result<()> {
    let loan = |name, on_unreachable: &str| Loan {
        name,
        machines: MACHINES,
        fields: json!({"onUnreachable": on_unreachable}),
    };
    let loans = [loan(WELL, "unknown"), loan(AWAY, "unknown"), loan(HELD, "hold")];
    let world = World::new([ControlPlane::builder().audit(true), ControlPlane::builder()], &loans).await?;
    let arguments = [&ARGUMENTS[..], &[LEASES]].concat();
    let host = Host::launch_as("replica-0", &world.virtual_plane.kubeconfig(), &arguments).await?;
    until(&world, PATIENCE, "all machines are lent", |found| found.all(|node| ready_of(node) == "True")).await;
    fill(&world).await?;
    let used = pod("own", &machine(AWAY, 0), json!({"requests": {"cpu": "1"}}))?;
    world.lenders_pods().create(&PostParams::default(), &used).await?;
    until(&world, PATIENCE, "a machine that the lender uses is smaller", |found| cpu(found.node(AWAY, 0)) == "31")
        .await;

    for binding in [AWAY, HELD] {
        world.wire(binding)?.cut();
    }
    let began = Instant::now();
    // The lender stops using it, and that cannot be known.
    world.lenders_pods().delete("own", &DeleteParams::default()).await?;
    for (state, patience) in [("Suspect", SUSPECT), ("Unreachable", UNREACHABLE.1)] {
        for binding in [AWAY, HELD] {
            until_state(&world, binding, state, patience.saturating_sub(began.elapsed())).await;
        }
    }
    let unreachable = began.elapsed();
    moments.push(("both connections are unreachable", unreachable));
    ensure!(unreachable > UNREACHABLE.0, "a connection counted as unreachable after {unreachable:?}");
    let left = |until: Duration| until.saturating_sub(began.elapsed());
    let is_tainted = |node: &Node| has_taint(node, keys::UNREACHABLE_TAINT);
    let tainted = |found: &Found| found.all(|_| true) && found.of(AWAY).chain(found.of(HELD)).all(is_tainted);
    until(&world, RIGHT, "the nodes of both have the taint", tainted).await;
    moments.push(("all of their nodes have the taint", began.elapsed()));
    let unknown = |found: &Found| found.of(AWAY).all(|node| ready_of(node) == "Unknown");
    until(&world, left(UNKNOWN), "the nodes that are not held are Unknown", unknown).await;
    moments.push(("the nodes that are not held are Unknown", began.elapsed()));

    let mut evicted = None;
    while began.elapsed() < length.time() {
        let (found, pods) = (Found(world.lent().await?), Pods::read(&world).await?);
        found.is_as_promised()?;
        pods.are_whole(WELL)?;
        pods.are_whole(HELD)?;
        if pods.running(AWAY) == 0 && evicted.is_none() {
            evicted = Some(began.elapsed());
            moments.push(("Kubernetes has taken the pods that are not held", began.elapsed()));
        }
        sleep(LOOK.min(left(length.time()))).await;
    }
    match length {
        Length::Short => Pods::read(&world).await?.are_whole(AWAY)?,
        Length::Long => ensure!(evicted.is_some(), "pods that are not held are left"),
    }

    for binding in [AWAY, HELD] {
        world.wire(binding)?.mend();
    }
    moments.push(("the network is whole again", began.elapsed()));
    let mended = Instant::now();
    let right = |found: &Found| {
        found.all(|node| ready_of(node) == "True" && !has_taint(node, keys::UNREACHABLE_TAINT))
            && cpu(found.node(AWAY, 0)) == "32"
    };
    until(&world, RIGHT, "all nodes are ready and of their size", right).await;
    for binding in [AWAY, HELD] {
        until_state(&world, binding, "Reachable", RIGHT.saturating_sub(mended.elapsed())).await;
    }
    moments.push(("everything is right", began.elapsed()));
    host.stop().await?;
    let log = Log::of(&world.virtual_plane)?;
    let removed = Removed::once([&log.received, &[]])?;
    ensure!(removed.count() == 0, "the syncer removed {} pods", removed.count());
    world.stop().await
}

/// The virtual nodes at a moment.
struct Found(BTreeMap<String, Node>);

impl Found {
    fn of(&self, binding: &str) -> impl Iterator<Item = &Node> {
        let of_binding = format!("vnode-{binding}-");
        self.0.iter().filter(move |(name, _)| name.starts_with(&of_binding)).map(|(_, node)| node)
    }

    fn node(&self, binding: &str, number: usize) -> Option<&Node> {
        self.0.get(&virtual_node(binding, &machine(binding, number)))
    }

    /// Whether all machines have a virtual node that is so.
    fn all(&self, is_so: impl Fn(&Node) -> bool) -> bool {
        let lent = [WELL, AWAY, HELD].map(|binding| self.of(binding).filter(|node| is_so(node)).count());
        lent == [MACHINES; 3]
    }

    /// No node is gone, none became larger, and those that are held or connected are ready.
    fn is_as_promised(&self) -> Result<()> {
        ensure!(self.all(|_| true), "virtual nodes are gone: {:?}", self.0.keys());
        for node in self.of(WELL).chain(self.of(HELD)) {
            ensure!(ready_of(node) == "True", "{:?} is not ready: {:?}", node.metadata.name, node.status);
        }
        let size = cpu(self.node(AWAY, 0));
        ensure!(size == "31", "a node became larger while its machine could not be seen: {size}");
        Ok(())
    }
}

/// The virtual pods at a moment.
struct Pods(Vec<Pod>);

impl Pods {
    async fn read(world: &World) -> Result<Self> {
        Ok(Self(world.virtual_pods().list(&ListParams::default()).await?.items))
    }

    fn running(&self, binding: &str) -> usize {
        let of_binding = format!("{binding}-");
        let runs = |pod: &&Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            let is_its = pod.metadata.name.as_deref().is_some_and(|name| name.starts_with(&of_binding));
            is_its && phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
        };
        self.0.iter().filter(runs).count()
    }

    fn are_whole(&self, binding: &str) -> Result<()> {
        let count = self.running(binding);
        ensure!(count == MACHINES * PODS, "only {count} pods of {binding} are left");
        Ok(())
    }
}

fn cpu(node: Option<&Node>) -> &str {
    let amounts = node.and_then(|node| node.status.as_ref()?.allocatable.as_ref());
    amounts.and_then(|amounts| amounts.get("cpu")).map_or("", |amount| amount.0.as_str())
}

fn has_taint(node: &Node, key: &str) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.into_iter().any(|taint| taint.key == key)
}

/// Waits until the virtual nodes are so.
async fn until(world: &World, patience: Duration, what: &str, is_so: impl Fn(&Found) -> bool) {
    eventually(what, patience, async || {
        let found = Found(world.lent().await.map_err(|error| format!("{error:#}"))?);
        if is_so(&found) { Ok(()) } else { Err(format!("{:?}", found.0)) }
    })
    .await;
}

/// Waits until the connection of a binding is in this state.
async fn until_state(world: &World, binding: &str, state: &str, patience: Duration) {
    eventually(&format!("the connection of {binding} is {state}"), patience, async || {
        let object = world.bindings().get(binding).await.map_err(|error| error.to_string())?;
        let found = object.status.connection.map(|connection| connection.state.as_str());
        if found == Some(state) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

fn pod(name: &str, node: &str, resources: Value) -> Result<Pod> {
    let container = json!({"name": "c", "image": "none", "resources": resources});
    let spec = json!({"nodeName": node, "containers": [container]});
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).context("this is a pod")
}

/// Makes pods on all virtual nodes, and waits until they run.
async fn fill(world: &World) -> Result<()> {
    for binding in [WELL, AWAY, HELD] {
        for number in 0..MACHINES {
            let machine = machine(binding, number);
            for count in 0..PODS {
                let made = pod(&format!("{machine}-{count}"), &virtual_node(binding, &machine), json!({}))?;
                world.virtual_pods().create(&PostParams::default(), &made).await?;
            }
        }
    }
    eventually("all pods run", PATIENCE, async || {
        let pods = Pods::read(world).await.map_err(|error| format!("{error:#}"))?;
        let running = [WELL, AWAY, HELD].map(|binding| pods.running(binding));
        if running == [MACHINES * PODS; 3] { Ok(()) } else { Err(format!("{running:?}")) }
    })
    .await;
    Ok(())
}
