//! The kubelets of all nodes of one control plane, in one task.
//!
//! Every Node without the label `type: virtual-kubelet` has one: it fills in the Node, renews its lease in
//! `kube-node-lease`, writes its status, takes the pods that are bound to it or refuses them, and runs them as their
//! annotations say ([`RUN`], [`READY`], [`INIT`], [`STOP`]). A test switches each of them ([`Kubelets::set`],
//! [`Kubelets::pressure`]). A Node that is deleted is a machine that is gone: its pods stay as they are until another program
//! removes them.
//!
//! Logs and exec are served by [`Streams`] for all of them, where a test starts it.
//!
//! Never here: devices ([`device_plugin`](crate::device_plugin) plays those), probes, images, resizes in place.
//!
//! One watch of nodes and one of pods; a heap of times; a bounded number of requests at once. A thousand nodes cost what
//! their heartbeats cost the API server.
//!
//! What goes wrong: the API server stops. Each request is repeated until there is an answer. What was refused is in
//! [`Kubelets::mistakes`], and is not repeated until something changes.

mod admission;
mod amounts;
mod life;
mod machine;
mod needs;
mod plan;
mod status;
mod streams;
mod work;
mod world;

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::sync::Arc;

use anyhow::{Context, Result};
use futures::stream::FuturesUnordered;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Api, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::{Client, Error};
use serde_json::json;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

pub(super) use plan::Phase;
pub use plan::{INIT, READY, RUN, STOP};
pub use streams::Streams;

use super::{AT_ONCE, Mistakes, uid_of, until, watch};
use work::perform;
use world::World;

/// The most by which times are divided.
const FASTEST: u32 = 1000;
/// How many Nodes are made at once.
const MADE_AT_ONCE: usize = 16;

/// What the kubelets write although nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Beats {
    /// The status of their nodes, and the leases.
    #[default]
    All,
    /// The status alone: for thousands of nodes on a small machine, where no program looks at the leases.
    Status,
}

/// How all kubelets behave.
#[derive(Debug, Clone)]
pub struct Settings {
    /// By how much the times of a kubelet are divided: heartbeats, leases, back-offs. From 1 to 1000; what is outside counts as
    /// the nearer end. Times in annotations and grace periods are not divided.
    pub faster: u32,
    /// What a Node without `status.allocatable` has, by the name of the resource.
    pub usual: BTreeMap<String, String>,
    /// The port of [`Streams`], which every Node then says; Nodes without addresses get loopback ones.
    pub streams: Option<u16>,
    /// What they write although nothing has changed.
    pub beats: Beats,
}

impl Default for Settings {
    /// Real times, and a machine of 32 cores without logs and exec.
    fn default() -> Self {
        let usual = [("cpu", "32"), ("memory", "128Gi"), ("ephemeral-storage", "200Gi"), ("pods", "110")];
        let usual = usual.map(|(name, amount)| (name.to_owned(), amount.to_owned())).into();
        Self { faster: 1, usual, streams: None, beats: Beats::default() }
    }
}

/// How a kubelet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Health {
    /// Ready is True.
    #[default]
    Ready,
    /// Ready is False. It renews its lease, and its pods run on.
    NotReady,
    /// It writes nothing and sees nothing, as behind a broken network. Its pods run on.
    Silent,
}

/// What a node has too little of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pressure {
    /// Memory: pods that request none are refused.
    Memory,
    /// Disk: all pods are refused.
    Disk,
    /// Process ids: all pods are refused.
    Pids,
}

impl Pressure {
    /// Each of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Disk, Self::Pids];

    /// The type of its condition.
    #[must_use]
    pub fn condition(self) -> &'static str {
        match self {
            Self::Memory => "MemoryPressure",
            Self::Disk => "DiskPressure",
            Self::Pids => "PIDPressure",
        }
    }

    /// The reasons of the condition, without and with it.
    fn reasons(self) -> (&'static str, &'static str) {
        match self {
            Self::Memory => ("KubeletHasSufficientMemory", "KubeletHasInsufficientMemory"),
            Self::Disk => ("KubeletHasNoDiskPressure", "KubeletHasDiskPressure"),
            Self::Pids => ("KubeletHasSufficientPID", "KubeletHasInsufficientPID"),
        }
    }

    /// The message of a pod that is evicted.
    fn message(self) -> &'static str {
        match self {
            Self::Memory => "The node was low on resource: memory. ",
            Self::Disk => "The node was low on resource: ephemeral-storage. ",
            Self::Pids => "The node was low on resource: pids. ",
        }
    }
}

/// What a test orders.
enum Order {
    Health(Arc<str>, Health),
    Pressure { node: Arc<str>, pressure: Pressure, evicted: usize },
    Relief(Arc<str>),
    Beats(Beats),
}

/// A Node to be made.
#[derive(Debug, Clone, Default)]
pub struct NewNode {
    name: String,
    labels: BTreeMap<String, String>,
    amounts: BTreeMap<String, Quantity>,
}

impl NewNode {
    /// One of the usual size.
    #[must_use]
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// With this label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With this amount of a resource, in place of everything that is usual.
    #[must_use]
    pub fn with(mut self, resource: &str, amount: &str) -> Self {
        self.amounts.insert(resource.to_owned(), Quantity(amount.to_owned()));
        self
    }
}

/// The kubelets. They end when the last copy of this value is dropped.
#[derive(Clone)]
pub struct Kubelets {
    client: Client,
    orders: UnboundedSender<Order>,
    mistakes: Arc<Mistakes>,
}

impl Kubelets {
    /// The handle, and what has to be run for them: they do nothing before that.
    pub fn new(client: Client, settings: &Settings) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (orders, ordered) = mpsc::unbounded_channel();
        let mistakes = Arc::<Mistakes>::default();
        let faster = i32::try_from(settings.faster.clamp(1, FASTEST)).unwrap_or(1);
        let usual: BTreeMap<_, _> =
            settings.usual.iter().map(|(name, amount)| (name.clone(), Quantity(amount.clone()))).collect();
        let mut world = World::new(faster, json!(usual), amounts::amounts(Some(&usual)), Arc::clone(&mistakes));
        world.streams = settings.streams;
        world.beats = settings.beats;
        let run = run(client.clone(), world, ordered);
        (Self { client, orders, mistakes }, run)
    }

    /// Makes Nodes, in parallel. One that exists stays as it is.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn register(&self, nodes: impl IntoIterator<Item = NewNode>) -> Result<()> {
        let api: Api<Node> = Api::all(self.client.clone());
        let make = |NewNode { name, labels, amounts }: NewNode| {
            let api = api.clone();
            async move {
                let node = serde_json::from_value(json!({
                    "metadata": {"name": name, "labels": labels},
                    "status": {"capacity": amounts, "allocatable": amounts},
                }))?;
                match api.create(&PostParams::default(), &node).await {
                    Err(Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
                    made => made.map(drop).with_context(|| format!("node {name} cannot be made")),
                }
            }
        };
        stream::iter(nodes).map(make).buffer_unordered(MADE_AT_ONCE).try_for_each(async |()| Ok(())).await
    }

    /// Switches a kubelet, also before its Node exists.
    pub fn set(&self, node: &str, health: Health) {
        self.order(Order::Health(node.into(), health));
    }

    /// Puts a node under pressure; its kubelet evicts so many of its pods, the least important first.
    pub fn pressure(&self, node: &str, pressure: Pressure, evicted: usize) {
        self.order(Order::Pressure { node: node.into(), pressure, evicted });
    }

    /// Ends every pressure of a node.
    pub fn relieve(&self, node: &str) {
        self.order(Order::Relief(node.into()));
    }

    /// Switches what all of them write although nothing has changed. Leases that were not renewed before are, evenly spread over
    /// the time of one renewal.
    pub fn beat(&self, beats: Beats) {
        self.order(Order::Beats(beats));
    }

    /// What must not happen: requests of kubelets that were refused, and annotations that cannot be read.
    #[must_use]
    pub fn mistakes(&self) -> Vec<String> {
        self.mistakes.all()
    }

    fn order(&self, order: Order) {
        // If nothing runs them any more, there is no kubelet to switch.
        _ = self.orders.send(order);
    }
}

async fn run(client: Client, mut world: World, mut ordered: UnboundedReceiver<Order>) {
    let mut nodes = watch::<Node>(Api::all(client.clone()), watcher::Config::default());
    let mut pods = watch::<Pod>(Api::all(client.clone()), watcher::Config::default().fields("spec.nodeName!="));
    let (mut listed_nodes, mut listed_pods) = (HashSet::new(), Vec::new());
    let mut works = FuturesUnordered::new();
    loop {
        world.agenda.wake(Timestamp::now());
        while works.len() < AT_ONCE
            && let Some(key) = world.agenda.take()
        {
            match world.look(&key, Timestamp::now()) {
                Some(work) => {
                    let client = client.clone();
                    works.push(async move { (key, perform(client, work).await) });
                }
                None => world.agenda.done(&key),
            }
        }
        tokio::select! {
            // An order that was given before a pod was made counts for that pod. Requests come after events, whose number
            // they bound.
            biased;
            order = ordered.recv() => match order {
                Some(order) => world.order(order, Timestamp::now()),
                None => return,
            },
            Some(event) = nodes.next() => see_node(&mut world, event, &mut listed_nodes),
            Some(event) = pods.next() => see_pod(&mut world, event, &mut listed_pods),
            Some((key, done)) = works.next() => {
                world.finish(&key, done, Timestamp::now());
                world.agenda.done(&key);
            }
            () = until(world.agenda.next()) => {}
        }
    }
}

fn see_node(world: &mut World, event: Event<Node>, listed: &mut HashSet<String>) {
    let name = |node: &Node| node.metadata.name.clone().unwrap_or_default();
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(node) => {
            listed.insert(name(&node));
            world.node(&node, Timestamp::now());
        }
        Event::Apply(node) => world.node(&node, Timestamp::now()),
        Event::Delete(node) => world.node_gone(&name(&node)),
        Event::InitDone => world.only_nodes(&std::mem::take(listed)),
    }
}

fn see_pod(world: &mut World, event: Event<Pod>, listed: &mut Vec<Pod>) {
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(pod) => listed.push(pod),
        Event::Apply(pod) => world.pod(pod),
        Event::Delete(pod) => world.pod_gone(uid_of(&pod)),
        Event::InitDone => {
            let mut pods = std::mem::take(listed);
            // Those that run have their place; then the older ones are first.
            let started = |pod: &Pod| pod.status.as_ref().is_some_and(|status| status.start_time.is_some());
            pods.sort_by_cached_key(|pod| (!started(pod), pod.metadata.creation_timestamp.as_ref().map(|time| time.0)));
            world.only_pods(&pods.iter().map(|pod| uid_of(pod).to_owned()).collect());
            pods.into_iter().for_each(|pod| world.pod(pod));
        }
    }
}
