//! A small top-down half: it copies the pods of virtual nodes to the physical cluster (`bottomup-syncer.md` 4.3, 5 and 8,
//! decisions S3, S6, S10 and S16).
//!
//! For each virtual pod that is bound to a virtual node of its binding it makes these steps, each in a write of its own:
//!
//! 1. namespace and name of the physical pod are written on the virtual pod;
//! 2. the physical pod is created, with the identity and both names;
//! 3. its UID is written on the virtual pod.
//!
//! When the virtual pod terminates, or is gone, it deletes the physical pod. Once that is gone, and the virtual pod has a final phase,
//! it removes the virtual pod; where the bottom-up half has not copied a final phase in time it writes one, in the version
//! that it has seen. A mapped physical pod that vanished ends its virtual pod as it was seen to end, or fails it with the
//! reason [`LOST`]. Placeholders for host ports, and pods with claims for devices, are not copied.
//!
//! Never here: status (that flows up, and is the bottom-up half's), orphans in the physical cluster whose virtual pod it never
//! saw (the same), ConfigMaps,
//! Secrets and volumes. No physical pod waits for a scheduler, so none is deleted for waiting too long.
//!
//! What goes wrong: it dies between two steps, is late, or forgets one ([`Fault`]), by order of the test. It continues from
//! what the objects hold. An API server that stops only delays it.
//!
//! [`program`] is the same as a program of its own, `player`.

mod copied;
mod faults;
pub mod program;
mod steps;
mod work;
mod world;

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::Api;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;

pub use faults::{Fault, Scope};
pub use steps::Step;
pub use world::LOST;

use super::{AT_ONCE, uid_of, until, watch};
use crate::device_plugin::PodName;
use copied::Copier;
use work::{Clusters, perform};
use world::{Shared, World};

/// For which binding a player plays.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The binding, and the virtual cluster.
    pub identity: Identity,
    /// The physical namespace that receives all pods.
    pub mount_namespace: String,
    /// How long the bottom-up half has to copy the final phase of a physical pod that is gone.
    pub patience: Duration,
}

/// A step that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The virtual pod.
    pub pod: PodName,
    /// The step.
    pub step: Step,
}

/// What happened since it was asked for last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct News {
    /// Steps that were made, in their order.
    pub made: Vec<Made>,
    /// What must not happen.
    pub mistakes: Vec<String>,
}

/// A player. It ends when the last copy of this value is dropped.
#[derive(Clone)]
pub struct Player {
    shared: Arc<Shared>,
    looks: UnboundedSender<()>,
}

impl Player {
    /// The handle, and what has to be run for it: it does nothing before that.
    pub fn new(
        virtual_side: Client,
        physical_side: Client,
        settings: Settings,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let shared = Arc::<Shared>::default();
        let (looks, looked) = mpsc::unbounded_channel();
        let copier = Copier { identity: settings.identity, namespace: settings.mount_namespace };
        let watches = Watches::new(&virtual_side, &physical_side, &copier);
        let world = World::new(copier, settings.patience, Arc::clone(&shared));
        let run = run(Clusters { virtual_side, physical_side }, watches, world, looked);
        (Self { shared, looks }, run)
    }

    /// Something goes wrong from now on.
    pub fn fault(&self, scope: Scope, fault: Fault) {
        self.shared.faults().add(scope, fault);
    }

    /// Ends the faults that were ordered for exactly this scope; [`Scope::All`] ends every one.
    pub fn heal(&self, scope: &Scope) {
        self.shared.faults().heal(scope);
        // If nothing runs it any more, there is nothing to look at.
        _ = self.looks.send(());
    }

    /// Every step that was made, in their order.
    #[must_use]
    pub fn made(&self) -> Vec<Made> {
        self.shared.made().clone()
    }

    /// The steps that were made for the pods of this name, in their order.
    #[must_use]
    pub fn steps(&self, namespace: &str, name: &str) -> Vec<Step> {
        let is_it = |made: &&Made| (&*made.pod.namespace, &*made.pod.name) == (namespace, name);
        self.shared.made().iter().filter(is_it).map(|made| made.step).collect()
    }

    /// What must not happen: steps that were refused. They are not tried again before something changes.
    #[must_use]
    pub fn mistakes(&self) -> Vec<String> {
        self.shared.mistakes.all()
    }

    /// Waits until something happens, and takes it: the other methods do not have it any more, and a player that runs for days
    /// does not remember each of its steps.
    pub async fn news(&self) -> News {
        self.shared.news.notified().await;
        News { made: std::mem::take(&mut *self.shared.made()), mistakes: self.shared.mistakes.take() }
    }
}

/// What a player watches.
struct Watches {
    nodes: super::Watch<Node>,
    virtuals: super::Watch<Pod>,
    physicals: super::Watch<Pod>,
}

impl Watches {
    fn new(virtual_side: &Client, physical_side: &Client, copier: &Copier) -> Self {
        let identity = copier.identity.labels();
        let ours = [keys::VIRTUAL_CLUSTER, keys::BINDING]
            .map(|key| format!("{key}={}", identity.get(key).map_or("", String::as_str)))
            .join(",");
        let physical = format!("{ours},{}={}", keys::MANAGED_BY_LABEL, keys::MANAGED_BY);
        let config = watcher::Config::default;
        Self {
            nodes: watch(Api::all(virtual_side.clone()), config().labels(&ours)),
            virtuals: watch(Api::all(virtual_side.clone()), config().fields("spec.nodeName!=")),
            physicals: watch(Api::namespaced(physical_side.clone(), &copier.namespace), config().labels(&physical)),
        }
    }
}

async fn run(clusters: Clusters, mut watches: Watches, mut world: World, mut looked: UnboundedReceiver<()>) {
    let [mut nodes, mut virtuals, mut physicals] = [HashSet::new(), HashSet::new(), HashSet::new()];
    let mut works = FuturesUnordered::new();
    loop {
        world.agenda.wake(Timestamp::now());
        while works.len() < AT_ONCE
            && let Some(uid) = world.agenda.take()
        {
            match world.look(&uid, Timestamp::now()) {
                Some((step, work)) => {
                    let clusters = clusters.clone();
                    works.push(async move { (uid, step, perform(clusters, work).await) });
                }
                None => world.agenda.done(&uid),
            }
        }
        tokio::select! {
            biased;
            look = looked.recv() => match look {
                Some(()) => world.look_at_all(),
                None => return,
            },
            Some(event) = watches.nodes.next() => see_node(&mut world, &event, &mut nodes),
            Some(event) = watches.virtuals.next() => see_virtual(&mut world, event, &mut virtuals),
            Some(event) = watches.physicals.next() => see_physical(&mut world, event, &mut physicals),
            Some((uid, step, done)) = works.next() => {
                world.finish(&uid, step, done, Timestamp::now());
                world.agenda.done(&uid);
            }
            () = until(world.agenda.next()) => {}
        }
    }
}

fn see_node(world: &mut World, event: &Event<Node>, listed: &mut HashSet<String>) {
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(node) => {
            listed.insert(node.name_any());
            world.node(node);
        }
        Event::Apply(node) => world.node(node),
        Event::Delete(node) => world.node_gone(&node.name_any()),
        Event::InitDone => world.only_nodes(&std::mem::take(listed)),
    }
}

fn see_virtual(world: &mut World, event: Event<Pod>, listed: &mut HashSet<String>) {
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(pod) => {
            listed.insert(uid_of(&pod).to_owned());
            world.virtual_pod(pod);
        }
        Event::Apply(pod) => world.virtual_pod(pod),
        Event::Delete(pod) => world.virtual_gone(uid_of(&pod)),
        Event::InitDone => world.only_virtuals(&std::mem::take(listed)),
    }
}

fn see_physical(world: &mut World, event: Event<Pod>, listed: &mut HashSet<String>) {
    match event {
        Event::Init => listed.clear(),
        Event::InitApply(pod) => {
            listed.insert(uid_of(&pod).to_owned());
            world.physical_pod(pod);
        }
        Event::Apply(pod) => world.physical_pod(pod),
        Event::Delete(pod) => world.physical_gone(&pod, Timestamp::now()),
        Event::InitDone => world.only_physicals(&std::mem::take(listed), Timestamp::now()),
    }
}
