//! Watches the nodes and the pods that locks are about, and notifies all who wait for them.
//!
//! What is known of them is in [`Sightings`], which decides what counts and who has to be notified. This room owns the
//! two watches, the senders, and the histogram of how long locks of this process existed. Nodes are watched as metadata
//! only. Both watches may be behind. That is enough to decide: every write carries the versions that it was decided on.
//!
//! The pods are listed after the nodes: only such a list shows every pod that was bound under a lock which came and went
//! before the nodes were listed, and without one the pods of each node are listed before its first Bind.
//!
//! # Failure story
//!
//! A broken watch is opened again with back-off, and readers keep the last contents meanwhile. A relist replaces them
//! in one step and notifies all.

mod index;
mod waiters;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use prometheus_client::metrics::histogram::Histogram;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::time::Instant;
use topoloom_core::nodelock::attempt::ObservedNode;
use topoloom_core::nodelock::needs::{Backend, LockKey};
use topoloom_core::nodelock::sightings::{Blocks, Effect, LiveReads, PodSighting, Wake};
use topoloom_core::nodelock::{Clock, GRACE, LockHeld, LockValue, NodeName, Pod, PodId, PodKey, Sightings};
use topoloom_core::version::ResourceVersion;

use super::options::Options;
use super::pods::{self, Slice};
use super::wire;
use index::{NodeList, PodList, Pods, SightedNodes, SightingChange, read_of};
use topoloom_cluster::node_watch::{Follow, NodeWatch};
use topoloom_cluster::watched::{Event, Watched};
use topoloom_cluster::watches::{self, Config};
use topoloom_cluster::{Refusal, Restores};
use waiters::Waiters;

pub use topoloom_cluster::node_watch::NodeMeta;
pub use waiters::Listener;

/// Objects per page of a list.
const PAGE: u32 = 500;

/// How long the first list of pods waits for that of nodes: without it there would be no list of pods where nodes may not be
/// listed, and so no word of what else is missing.
const NODES_FIRST: Duration = Duration::from_secs(15);

/// What the steady clock shows at the beginning, so that there is a time long enough before it.
const BEGINS: Duration = GRACE;

/// What is known, and the waiters for it.
pub struct View {
    /// Which resources need which key.
    backends: Arc<[Backend]>,
    /// The origin of the steady clock.
    origin: Instant,
    inner: Mutex<ViewInner>,
    synced: watch::Sender<[bool; 2]>,
    /// Only the task that holds this watches; it does so for all.
    watching: tokio::sync::Mutex<()>,
    /// How long locks of this process existed.
    stood: Histogram,
    restores: Restores,
}

#[derive(Default)]
struct ViewInner {
    sightings: Sightings,
    waiters: Waiters,
    nodes: Watched<NodeList>,
    pods: Watched<PodList>,
}

impl View {
    /// An empty view. `stood` observes how long locks of this process existed.
    #[must_use]
    pub fn new(backends: Arc<[Backend]>, stood: Histogram) -> Self {
        Self {
            backends,
            origin: Instant::now(),
            inner: Mutex::default(),
            synced: watch::Sender::default(),
            watching: tokio::sync::Mutex::default(),
            stood,
            restores: Restores::default(),
        }
    }

    /// The same in a process that knows of these restores.
    #[must_use]
    pub fn of(self, restores: &Restores) -> Self {
        Self { restores: restores.clone(), ..self }
    }

    /// Which resources need which key.
    #[must_use]
    pub fn backends(&self) -> &Arc<[Backend]> {
        &self.backends
    }

    /// The steady clock.
    #[must_use]
    pub fn now(&self) -> Duration {
        BEGINS + self.origin.elapsed()
    }

    /// When the steady clock will show this; a day from now, if it never will.
    #[must_use]
    pub fn at(&self, moment: Duration) -> Instant {
        let since = moment.saturating_sub(BEGINS);
        self.origin.checked_add(since).unwrap_or_else(|| Instant::now() + Duration::from_secs(86_400))
    }

    /// Both clocks.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock { wall: Timestamp::now(), steady: self.now() }
    }

    fn lock(&self) -> MutexGuard<'_, ViewInner> {
        // A panic while the lock was held ends the process by way of its task; what is read until then is still valid.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until both watches have listed everything once.
    pub async fn synced(&self) {
        // The sender lives as long as this view, so there is no error.
        let _ = self.synced.subscribe().wait_for(|synced| synced.iter().all(|synced| *synced)).await;
    }

    /// Waits for changes of this node.
    #[must_use]
    pub fn listen(self: &Arc<Self>, node: &str) -> Listener {
        self.lock().waiters.listen(self, node)
    }

    /// An answer from what is known.
    pub fn known<T>(&self, ask: impl FnOnce(&Sightings) -> T) -> T {
        ask(&self.lock().sightings)
    }

    /// A pod with this UID, as the watch showed it last.
    #[must_use]
    pub fn pod(&self, key: &PodId) -> Option<PodSighting> {
        self.lock().sightings.pod_of(key).cloned()
    }

    /// A node as the watch showed it last; `None` where it is not known.
    #[must_use]
    pub fn node(&self, node: &str, keys: &[LockKey], reads: &LiveReads) -> Option<ObservedNode> {
        self.lock().sightings.sight(node, keys, reads)
    }

    /// A node as a request has just read it, unless the watch has shown a later version.
    #[must_use]
    pub fn node_read(&self, meta: &NodeMeta, keys: &[LockKey], reads: &LiveReads) -> Option<ObservedNode> {
        let (name, read) = read_of(meta);
        let mut inner = self.lock();
        let effect = inner.sightings.read(&name, read, self.now());
        self.follow(&inner, effect);
        inner.sightings.sight(&name, keys, reads)
    }

    /// A node as a write of this process, in exactly the version `from`, has left it. Other waiters are notified by the watch.
    pub fn node_written(&self, from: &ResourceVersion, meta: &NodeMeta) {
        let (name, read) = read_of(meta);
        let mut inner = self.lock();
        let effect = inner.sightings.written(&name, from, read, self.now());
        self.follow(&inner, effect);
    }

    /// A pod as a request has just read or written it.
    pub fn pod_read(&self, read: &PodSighting) {
        let mut inner = self.lock();
        let effect = inner.sightings.pod_read(read.clone());
        self.follow(&inner, effect);
    }

    /// This process has written a lock.
    pub fn stands(&self, value: &LockValue) {
        self.lock().sightings.wrote(value, self.now());
    }

    /// The result of a live read of the pod that a value names.
    pub fn confirmed(&self, node: &str, named: &PodKey, value: &LockValue, read: Option<Pod>, reads: &mut LiveReads) {
        self.lock().sightings.confirmed(node, named, value, read, reads, self.now());
    }

    /// The holder that keeps a pod with these keys from a node, as far as is known without a request.
    #[must_use]
    pub fn blocked(&self, node: &str, keys: &[LockKey], terms: &Options, by: Blocks) -> Option<LockHeld> {
        let clock = self.clock();
        self.lock().sightings.blocked(node, keys, clock, (terms.ttl, terms.takeover), by)
    }

    /// What `topoloom debug dump` shows of it: nodes that have a lock, and pods that need one.
    #[must_use]
    pub fn dump(&self) -> serde_json::Value {
        let inner = self.lock();
        let known = &inner.sightings;
        let locked = known.locked().into_iter();
        let locked: BTreeMap<_, _> =
            locked.filter_map(|name| Some((name.to_string(), wire::annotations(known.locks(&name)?)))).collect();
        let shown = |pod: &Pod| json!({"node": pod.node.as_deref(), "started": pod.started});
        let pods: BTreeMap<_, _> = known.pods().map(|seen| (seen.pod.key.to_string(), shown(&seen.pod))).collect();
        json!({"nodes": known.sizes().nodes, "locked": locked, "pods": pods, "listeners": inner.waiters.len()})
    }

    /// Takes in lists, for a command that looks once and does not watch.
    pub fn fill(&self, nodes: &[NodeMeta], pods: &[Slice]) {
        let now = self.now();
        let mut inner = self.lock();
        let effect = inner.sightings.relisted_nodes(nodes.iter().map(read_of), now);
        self.follow(&inner, effect);
        let pods = pods.iter().filter_map(|slice| pods::of(slice, &self.backends));
        // It is the first list, so nothing is known that may be later.
        let effect = inner.sightings.relisted_pods(pods, &ResourceVersion::default());
        self.follow(&inner, effect);
    }

    /// Every lock counts as seen for a long time: a command looks once, and cannot wait for that.
    pub fn has_stood(&self) {
        self.lock().sightings.has_stood();
    }

    /// Receives the name of every node on which something about locks changed, all that are locked first. Only the last
    /// receiver gets anything.
    pub fn changes(&self) -> UnboundedReceiver<NodeName> {
        let mut inner = self.lock();
        let locked = inner.sightings.locked();
        inner.waiters.changes(locked)
    }

    /// Watches nodes and pods until it is dropped. Of several callers, one watches, and another continues when that one
    /// ends.
    pub async fn watch(
        self: &Arc<Self>,
        client: kube::Client,
        nodes: impl Fn(Result<(), &Refusal>) + Send + Sync + 'static,
        pods: impl Fn(Result<(), &Refusal>),
    ) {
        let _one = self.watching.lock().await;
        let node_watch = NodeWatch::new(&self.restores);
        node_watch.follow(Arc::clone(self) as _, Box::new(nodes));
        tokio::join!(node_watch.run(client.clone()), self.follow_pods(client, pods));
    }

    /// Watches pods until it is dropped, where the [watch of nodes](NodeWatch) is another one's. Of several callers,
    /// one watches, and another continues when that one ends.
    pub async fn watch_pods(&self, client: kube::Client, report: impl Fn(Result<(), &Refusal>)) {
        let _one = self.watching.lock().await;
        self.follow_pods(client, report).await;
    }

    async fn follow_pods(&self, client: kube::Client, report: impl Fn(Result<(), &Refusal>)) {
        let mut synced = self.synced.subscribe();
        // The sender lives as long as this view, and a list that comes too early costs requests and no more.
        let _ = tokio::time::timeout(NODES_FIRST, synced.wait_for(|synced| synced.first() == Some(&true))).await;
        let api = kube::Api::<Slice>::all(client);
        let config = Config::of(&self.restores).page_size(PAGE).fields("status.phase!=Succeeded,status.phase!=Failed");
        let mut events = std::pin::pin!(watches::events(api, config));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let answered = event.is_answer();
                    self.pod_event(event);
                    if answered {
                        report(Ok(()));
                    }
                }
                Err(refusal) => report(Err(&refusal)),
            }
        }
    }

    pub(super) fn pod_event(&self, event: Event<Slice>) {
        let mut inner = self.lock();
        let ViewInner { sightings, pods, .. } = &mut *inner;
        if let Some(step) = pods.take(&mut Pods { sightings, backends: &self.backends }, event) {
            self.took(&inner, step, 1);
        }
    }

    /// Acts on what a watch has brought.
    fn took(&self, inner: &ViewInner, SightingChange { effect, went_back }: SightingChange, watch: usize) {
        if effect.wake == Wake::All {
            self.synced.send_modify(|synced| synced.iter_mut().skip(watch).take(1).for_each(|synced| *synced = true));
        }
        self.follow(inner, effect);
        if let Some((known, listed)) = went_back {
            self.restores.contradicted(&known, &listed);
        }
    }

    /// Notifies and counts as a step demands.
    fn follow(&self, inner: &ViewInner, effect: Effect) {
        effect.stood.iter().for_each(|stood| self.stood.observe(stood.as_secs_f64()));
        inner.waiters.follow(effect.wake, &inner.sightings);
    }
}

impl Follow for View {
    fn node_event(&self, event: &Event<NodeMeta>) {
        let (mut inner, now) = (self.lock(), self.now());
        let ViewInner { sightings, nodes, .. } = &mut *inner;
        if let Some(step) = nodes.take(&mut SightedNodes { sightings, now }, event.by_ref()) {
            self.took(&inner, step, 0);
        }
    }
}

#[cfg(test)]
mod tests;
