//! What the reference does (`bottomup-syncer.md`, what is marked REF), as a process of its own: the same work without any of what
//! makes it cheap.
//!
//! * Whole objects of both clusters are cached: nodes, pods, CSINodes, Secrets, ConfigMaps, policies (section 3).
//! * Every watch ends after 30 s and is opened again (section 3).
//! * A node is looked at with each event of its machine, with each pod that comes to it or goes (6.1), with each look at its policy,
//!   and 300 s after the first look (6.10), by 50 workers. Each look writes the whole status, since it writes the time (6.6).
//! * A policy is looked at every 300 s, and with it all of its nodes (section 10). Windows are judged in these looks alone (6.4).
//! * Each lease has a task of its own (section 7).
//!
//! Left out is what no row compares: the status of pods, deletion, reclaim, CSINodes, host ports. Of amounts only processor
//! time and pods are computed. It starts where the host has lent the nodes, and takes them as its own.

mod caches;
mod leases;
mod looks;
mod queue;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use k8s_openapi::api::storage::v1::CSINode;
use kube::runtime::watcher::Config;
use kube::{Api, Client};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};
use topoloom_api::ResourceLeasingPolicy;
use topoloom_sync::keys::{CLUSTER_BINDING, MANAGED_BY, MANAGED_BY_LABEL};
use topoloom_tests::controlplane::client_from;

use crate::alone::{Alone, READY};
use crate::stage::{BINDING, Stage};
use caches::{BoundPods, Cache, Change, Lists, keep};
use leases::Beats;
use looks::Looks;
use queue::Queue;

/// The first argument of such a process.
pub(crate) const NAIVE: &str = "naive";

/// How long a watch is open.
const WATCH_SECONDS: u32 = 30;
/// How often a node and a policy are looked at.
const RESYNC: Duration = Duration::from_secs(300);
/// The workers for nodes.
const WORKERS: usize = 50;
/// How often it is checked whether the first looks have ended.
const CHECK: Duration = Duration::from_millis(200);

/// Starts it, and waits until it has looked at every node once.
pub(crate) async fn start(stage: &Stage) -> Result<Alone> {
    eprintln!("bench: starting the naive mode");
    let (lent, physical) = (stage.virtual_plane.kubeconfig(), stage.physical_plane.kubeconfig());
    Alone::start(NAIVE, &[lent.as_path(), physical.as_path()]).await
}

/// Everything that is cached, of both clusters.
#[derive(Default)]
struct World {
    machines: Cache<Node>,
    machine_pods: BoundPods,
    nodes: Cache<Node>,
    node_pods: BoundPods,
    policies: Cache<ResourceLeasingPolicy>,
    csi_nodes: [Cache<CSINode>; 2],
    secrets: [Cache<Secret>; 2],
    config_maps: [Cache<ConfigMap>; 2],
}

/// Runs until the process ends.
pub(crate) async fn run(arguments: &[String]) -> Result<()> {
    let [lent, physical] = arguments else {
        bail!("two arguments: the kubeconfigs of the virtual and of the physical cluster")
    };
    let (lent, physical) = (client_from(Path::new(lent)).await?, client_from(Path::new(physical)).await?);
    let (world, queue, lists) = (Arc::new(World::default()), Arc::new(Queue::default()), Arc::new(Lists::default()));
    let mut tasks = JoinSet::new();
    watch_others(&mut tasks, &world, &lists, [&lent, &physical]);
    watch(&mut tasks, &world, &queue, &lists, &lent, &physical);
    lists.until_whole().await;

    let beats = Beats::new(lent.clone());
    let looks = Arc::new(Looks { world: Arc::clone(&world), queue: Arc::clone(&queue), lent, beats });
    for _ in 0..WORKERS {
        let looks = Arc::clone(&looks);
        tasks.spawn(async move { looks.work().await });
    }
    tasks.spawn(resync(Arc::clone(&world), Arc::clone(&queue)));
    while !queue.is_empty() {
        sleep(CHECK).await;
    }
    println!("{READY}");
    let ended = tasks.join_next().await;
    bail!("a task of the naive mode has ended: {ended:?}")
}

fn config() -> Config {
    Config::default().timeout(WATCH_SECONDS)
}

/// What is cached and wakes no node here.
fn watch_others(tasks: &mut JoinSet<()>, world: &Arc<World>, lists: &Arc<Lists>, clients: [&Client; 2]) {
    for (which, client) in clients.into_iter().enumerate() {
        let (shared, of) = (Arc::clone(world), client.clone());
        tasks.spawn(keep(Api::<CSINode>::all(of), config(), lists.member(), move |change| {
            drop(shared.csi_nodes[which].take(change));
        }));
        let (shared, of) = (Arc::clone(world), client.clone());
        tasks.spawn(keep(Api::<Secret>::all(of), config(), lists.member(), move |change| {
            drop(shared.secrets[which].take(change));
        }));
        let (shared, of) = (Arc::clone(world), client.clone());
        tasks.spawn(keep(Api::<ConfigMap>::all(of), config(), lists.member(), move |change| {
            drop(shared.config_maps[which].take(change));
        }));
    }
    let (shared, of) = (Arc::clone(world), clients[0].clone());
    tasks.spawn(keep(Api::<Pod>::all(of), config(), lists.member(), move |change| {
        drop(shared.node_pods.take(change));
    }));
}

/// What wakes nodes (6.1).
fn watch(
    tasks: &mut JoinSet<()>,
    world: &Arc<World>,
    queue: &Arc<Queue>,
    lists: &Arc<Lists>,
    lent: &Client,
    physical: &Client,
) {
    let (shared, keys) = (Arc::clone(world), Arc::clone(queue));
    tasks.spawn(keep(Api::<Node>::all(physical.clone()), config(), lists.member(), move |change| {
        let name = caches::key(change.object());
        drop(shared.machines.take(change));
        keys.add(name);
    }));
    let (shared, keys) = (Arc::clone(world), Arc::clone(queue));
    tasks.spawn(keep(Api::<Pod>::all(physical.clone()), config(), lists.member(), move |change| {
        let (node, is_gone) = (caches::node_of(change.object()), matches!(change, Change::Gone(_)));
        let before = shared.machine_pods.take(change).and_then(|pod| caches::node_of(&pod));
        if let Some(node) = node
            && (is_gone || before.as_ref() != Some(&node))
        {
            keys.add(node);
        }
    }));
    let ours = format!("{MANAGED_BY_LABEL}={MANAGED_BY},{CLUSTER_BINDING}={BINDING}");
    let (shared, keys) = (Arc::clone(world), Arc::clone(queue));
    tasks.spawn(keep(Api::<Node>::all(lent.clone()), config().labels(&ours), lists.member(), move |change| {
        let (machine, is_gone) = (looks::machine_of(change.object()), matches!(change, Change::Gone(_)));
        let is_new = shared.nodes.take(change).is_none();
        if let Some(machine) = machine
            && (is_gone || is_new)
        {
            keys.add(machine);
        }
    }));
    let (shared, keys) = (Arc::clone(world), Arc::clone(queue));
    tasks.spawn(keep(Api::<ResourceLeasingPolicy>::all(physical.clone()), config(), lists.member(), move |change| {
        let policy = change.object().clone();
        drop(shared.policies.take(change));
        looks::selected(&shared, &policy).for_each(|name| keys.add(name));
    }));
}

/// Every policy is looked at again and again, and with it all of its nodes; and what is due is looked at.
async fn resync(world: Arc<World>, queue: Arc<Queue>) {
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut seconds = 0;
    loop {
        ticks.tick().await;
        queue.wake();
        seconds += 1;
        if seconds % RESYNC.as_secs() == 0 {
            for policy in world.policies.all() {
                looks::selected(&world, &policy).for_each(|name| queue.add(name));
            }
        }
    }
}
