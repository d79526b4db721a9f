//! The nodes and the pods that locks are about, watched: what stands on which node, which pods wait for a device plugin, and
//! who wants to hear of it.
//!
//! Nodes are watched as metadata only, and of pods no more is kept than a judgement needs. Both are as old as the watches
//! are behind. That is enough to decide: what is written carries the versions it was decided on, and what is *not* here
//! proves nothing until the API server was asked (decision N6).
//!
//! # Failure story
//!
//! A broken watch is opened again with back-off, and readers keep the last contents meanwhile. A relist replaces them in one
//! step and wakes everybody.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core_v1;
use kube::api::PartialObjectMeta;
use prometheus_client::metrics::histogram::Histogram;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::Instant;
use topoloom_core::nodelock::attempt::{Node, Sight};
use topoloom_core::nodelock::needs::{Backend, Key};
use topoloom_core::nodelock::{Clock, GRACE, Held, Holder, Lock, Named, Pod, PodKey, Standing, Why, confirm, is_owner};
use topoloom_core::version;

use super::lock;
use super::pods::{Seen, Slice};
use super::wire::{self, Annotations};
use crate::cluster::Refusal;
use crate::cluster::watches::{self, Config, Event};

/// Objects per page of a list.
const PAGE: u32 = 500;

/// What the steady clock shows at the beginning, so that there is a time long enough before it.
const BEGINS: Duration = GRACE;

/// A node without what locks do not need.
pub type NodeMeta = PartialObjectMeta<core_v1::Node>;

/// A pod by its name; its UID is in what is kept of it.
type Name = (Arc<str>, Arc<str>);

/// What is known.
pub struct View {
    /// Which resources need which key.
    backends: Arc<[Backend]>,
    /// The origin of the steady clock.
    origin: Instant,
    inner: Mutex<Inner>,
    synced: watch::Sender<[bool; 2]>,
    /// Whoever has this watches for everybody.
    watching: tokio::sync::Mutex<()>,
    /// How long locks of this process stood.
    stood: Histogram,
}

#[derive(Default)]
struct Inner {
    nodes: HashMap<Arc<str>, NodeSeen>,
    pods: HashMap<Name, Seen>,
    /// The pods that wait on a node for its device plugins.
    waiting: HashMap<Arc<str>, BTreeSet<Name>>,
    /// Who waits for a node.
    listeners: HashMap<Arc<str>, watch::Sender<u64>>,
    /// On which nodes a lock names a pod.
    named: HashMap<Name, BTreeSet<Arc<str>>>,
    /// Since when locks that this process wrote stand, by their values.
    ours: HashMap<Arc<str>, Duration>,
    /// Who hears of every node on which something about locks changed.
    changed: Option<UnboundedSender<Arc<str>>>,
    relisted_nodes: Option<HashMap<Arc<str>, NodeSeen>>,
    relisted_pods: Option<HashMap<Name, Seen>>,
}

/// What is kept of a node.
#[derive(Debug, Clone, Default)]
struct NodeSeen {
    version: Arc<str>,
    uid: Option<Arc<str>>,
    /// Those that are about locks.
    annotations: Annotations,
    /// What is remembered of the values that stand there.
    remembered: Vec<Remembered>,
    /// The last locks of keys under which none stands, for as long as the watch of pods has not told what became of the pods
    /// that they name: it may be behind, and such a pod be bound and wait for the device plugin of another vendor.
    left: Vec<(Key, Lock)>,
}

/// What is remembered of a value for as long as it stands.
#[derive(Debug, Clone)]
struct Remembered {
    key: Key,
    value: Arc<str>,
    /// When it was first seen here.
    first_seen: Duration,
    /// Since when a live read has not found the pod that it names.
    gone: Option<Duration>,
}

impl NodeSeen {
    /// The pods that its locks name.
    fn names(&self) -> Vec<Name> {
        let locks = Key::ALL.into_iter().filter_map(|key| wire::lock(&self.annotations, key));
        let left = self.left.iter().filter_map(|(_, lock)| lock.pod());
        left.map(name_of).chain(locks.filter_map(|lock| lock.pod().map(name_of))).collect()
    }

    /// Takes in a newer sight of the same node. What was remembered of values that still stand is kept.
    /// Gives the values that no longer stand.
    fn replace(&mut self, version: Arc<str>, annotations: Annotations, now: Duration) -> Vec<Arc<str>> {
        let before = std::mem::replace(&mut self.annotations, annotations);
        self.version = version;
        let text = |key: Key| self.annotations.get(key.annotation()).map(String::as_str);
        self.left.retain(|(key, _)| text(*key).is_none());
        for key in Key::ALL.into_iter().filter(|key| text(*key).is_none()) {
            let gone = self.remembered.iter().any(|it| it.key == key && it.gone.is_some());
            if let Some(lock) = wire::lock(&before, key).filter(|lock| lock.pod().is_some() && !gone) {
                self.left.reserve_exact(1);
                self.left.push((key, lock));
            }
        }
        let over = self.remembered.extract_if(.., |it| text(it.key) != Some(&*it.value)).map(|it| it.value).collect();
        for key in Key::ALL {
            let Some(value) = text(key).filter(|_| self.remembered.iter().all(|it| it.key != key)) else { continue };
            self.remembered.reserve_exact(1);
            self.remembered.push(Remembered { key, value: value.into(), first_seen: now, gone: None });
        }
        over
    }
}

/// What was read from the API server itself: it counts until whoever asked waits or ends.
#[derive(Debug, Default)]
pub struct Live {
    /// Pods by the value that names them.
    pods: HashMap<Arc<str>, Pod>,
    /// Values that name a pod that is not there.
    absent: HashSet<Arc<str>>,
    /// The pods that are bound to the node.
    bound: Option<Vec<Seen>>,
}

impl Live {
    /// These pods are bound to the node.
    pub fn bound(&mut self, pods: Vec<Seen>) {
        self.bound = Some(pods);
    }

    /// Nothing of it counts any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Wakes whoever waits for a node, or for the pod that holds it. Made before the look that leads to the wait, so that nothing
/// is missed in between.
pub struct Listener {
    view: Arc<View>,
    node: Arc<str>,
    changes: watch::Receiver<u64>,
}

impl Listener {
    /// Waits for the next change.
    pub async fn changed(&mut self) {
        // The sender lives as long as this does.
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut inner = self.view.lock();
        // This one still counts.
        if inner.listeners.get(&self.node).is_some_and(|sender| sender.receiver_count() > 1) {
            return;
        }
        inner.listeners.remove(&self.node);
    }
}

impl View {
    /// One that knows nothing yet. `stood` is told how long locks of this process stood.
    #[must_use]
    pub fn new(backends: Arc<[Backend]>, stood: Histogram) -> Self {
        Self {
            backends,
            origin: Instant::now(),
            inner: Mutex::default(),
            synced: watch::Sender::default(),
            watching: tokio::sync::Mutex::default(),
            stood,
        }
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

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held ends the process by way of its task; what is read until then is still sound.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until both watches have told everything once.
    pub async fn synced(&self) {
        // The sender lives as long as we do.
        let _ = self.synced.subscribe().wait_for(|synced| synced.iter().all(|synced| *synced)).await;
    }

    /// Whoever waits for this node.
    #[must_use]
    pub fn listen(self: &Arc<Self>, node: &str) -> Listener {
        let node: Arc<str> = node.into();
        let changes = self.lock().listeners.entry(Arc::clone(&node)).or_default().subscribe();
        Listener { view: Arc::clone(self), node, changes }
    }

    /// A pod with this UID, as the watch told last.
    #[must_use]
    pub fn pod(&self, key: &PodKey) -> Option<Seen> {
        let inner = self.lock();
        inner.pods.get(&name_of(key)).filter(|seen| seen.pod.key == *key).cloned()
    }

    /// A node as the watch told last; `None` where it told of none.
    #[must_use]
    pub fn node(&self, node: &str, keys: &[Key], live: &Live) -> Option<Node> {
        let inner = self.lock();
        let seen = inner.nodes.get(node)?;
        Some(inner.sight(node, seen, keys, live))
    }

    /// A node as it was just read or written; what the watch tells later is later.
    #[must_use]
    pub fn node_read(&self, meta: &NodeMeta, keys: &[Key], live: &Live) -> Node {
        let (mut inner, now) = (self.lock(), self.now());
        let name: Arc<str> = meta.metadata.name.as_deref().unwrap_or_default().into();
        let mut seen = inner.nodes.get(&name).cloned().unwrap_or_default();
        if is_later(&version_of(meta), &seen.version) {
            self.replace(&mut inner, &mut seen, meta, now);
            inner.enter(Arc::clone(&name), seen.clone());
        }
        inner.sight(&name, &seen, keys, live)
    }

    /// What a node has of locks, if it is known in that version.
    #[must_use]
    pub fn annotations(&self, node: &str, version: &str) -> Option<Annotations> {
        let inner = self.lock();
        inner.nodes.get(node).filter(|seen| *seen.version == *version).map(|seen| seen.annotations.clone())
    }

    /// A node as a write of ours left it. Others who wait for it hear of it from the watch.
    pub fn node_written(&self, meta: &NodeMeta) {
        let _ = self.node_read(meta, &[], &Live::default());
    }

    /// A pod as it was just read or written, where the watch has told of an earlier state of it. Whatever the watch does not
    /// know stays unknown: it may have told the end of it already.
    pub fn pod_read(&self, read: &Seen) {
        let mut inner = self.lock();
        let known = inner.pods.get(&name_of(&read.pod.key)).map(|known| &known.pod);
        let same = known.filter(|known| known.key == read.pod.key && known.version != read.pod.version);
        if same.is_some_and(|known| is_later(&read.pod.version, &known.version)) {
            inner.put(read.clone());
        }
    }

    /// This process has written a lock.
    pub fn stands(&self, value: &Arc<str>) {
        let now = self.now();
        self.lock().ours.insert(Arc::clone(value), now);
    }

    /// What a live read of the pod that a value names told. That it is gone is remembered for as long as the value stands.
    pub fn confirmed(&self, node: &str, named: &PodKey, value: &Arc<str>, read: Option<Pod>, live: &mut Live) {
        let (mut inner, now) = (self.lock(), self.now());
        let Some(seen) = inner.nodes.get_mut(node) else { return };
        // Under both keys the same may stand. Where another value stands by now, nothing is remembered.
        let mut known: Vec<_> = seen.remembered.iter_mut().filter(|it| it.value == *value).collect();
        let before = known.iter().find_map(|it| it.gone).map(|since| Holder::Gone { since });
        match confirm(named, value, read, before.as_ref(), now) {
            Holder::Seen(pod) => drop(live.pods.insert(Arc::clone(value), pod)),
            Holder::Gone { since } => {
                known.iter_mut().for_each(|it| it.gone = Some(since));
                live.absent.insert(Arc::clone(value));
            }
            Holder::Unconfirmed => {}
        }
    }

    /// Who keeps a pod with these keys from a node, as far as is known without asking: anybody, or only who has held it for
    /// longer than a lock lasts.
    #[must_use]
    pub fn blocked(&self, node: &str, keys: &[Key], terms: &lock::Options, stuck_only: bool) -> Option<Held> {
        let seen = self.node(node, keys, &Live::default())?;
        let clock = self.clock();
        let held = seen.keys.iter().filter_map(|sight| match sight.standing(node, clock, terms.ttl, terms.takeover) {
            Some(Standing::Held(held)) => Some(held),
            Some(Standing::Over(_)) | None => None,
        });
        // What would have to be asked for first keeps nobody away.
        let keeps = |held: &Held| !matches!(held.why, Why::Unconfirmed | Why::Unlisted);
        held.filter(keeps).find(|held| !stuck_only || held.why == Why::Stuck)
    }

    /// Whether something stands on a node, or somebody waits there.
    #[must_use]
    pub fn concerns(&self, node: &str) -> bool {
        let inner = self.lock();
        let stands = inner.nodes.get(node).is_some_and(|seen| !seen.remembered.is_empty());
        stands || inner.waiting.contains_key(node)
    }

    /// The UID of a node.
    #[must_use]
    pub fn node_uid(&self, node: &str) -> Option<Arc<str>> {
        self.lock().nodes.get(node).and_then(|seen| seen.uid.clone())
    }

    /// The names of the nodes on which something stands, in order.
    #[must_use]
    pub fn locked(&self) -> Vec<Arc<str>> {
        self.lock().locked()
    }

    /// The names of the nodes on which something stands, or where a pod waits for its device plugin, in order.
    #[must_use]
    pub fn concerned(&self) -> Vec<Arc<str>> {
        let inner = self.lock();
        let mut names = inner.locked();
        names.extend(inner.waiting.keys().cloned());
        names.sort();
        names.dedup();
        names
    }

    /// What `topoloom debug dump` says of it: nodes with something on them, and pods that need a lock.
    #[must_use]
    pub fn dump(&self) -> serde_json::Value {
        let inner = self.lock();
        let locked: BTreeMap<_, _> = inner
            .locked()
            .into_iter()
            .filter_map(|name| Some((name.to_string(), inner.nodes.get(&name)?.annotations.clone())))
            .collect();
        let pods: BTreeMap<_, _> = inner
            .pods
            .values()
            .map(|seen| {
                (seen.pod.key.to_string(), json!({"node": seen.pod.node.as_deref(), "started": seen.pod.started}))
            })
            .collect();
        json!({"nodes": inner.nodes.len(), "locked": locked, "pods": pods, "listeners": inner.listeners.len()})
    }

    /// How many nodes there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().nodes.len()
    }

    /// The lock of a node.
    #[must_use]
    pub fn lock_of(&self, node: &str, key: Key) -> Option<Lock> {
        self.lock().nodes.get(node).and_then(|seen| wire::lock(&seen.annotations, key))
    }

    /// Takes in lists, for whoever looks once and does not watch.
    pub fn fill(&self, nodes: Vec<NodeMeta>, pods: Vec<Slice>) {
        let nodes = [Event::Init].into_iter().chain(nodes.into_iter().map(Event::InitApply)).chain([Event::InitDone]);
        nodes.for_each(|event| self.node_event(event));
        let pods = [Event::Init].into_iter().chain(pods.into_iter().map(Event::InitApply)).chain([Event::InitDone]);
        pods.for_each(|event| self.pod_event(event));
    }

    /// What stands here counts as seen for a while: a command looks once, and cannot wait for that.
    pub fn has_stood(&self) {
        let mut inner = self.lock();
        let remembered = inner.nodes.values_mut().flat_map(|seen| &mut seen.remembered);
        remembered.for_each(|it| it.first_seen = Duration::ZERO);
    }

    /// Hears the name of every node on which something about locks changed, all that are locked first. There is one that
    /// hears: the last that asked.
    pub fn changes(&self) -> UnboundedReceiver<Arc<str>> {
        let (sender, receiver) = unbounded_channel();
        let mut inner = self.lock();
        for name in inner.locked() {
            // We have the receiver.
            let _ = sender.send(name);
        }
        inner.changed = Some(sender);
        receiver
    }

    /// Watches nodes and pods until it is dropped. Of several that do, one watches, and another goes on when that ends.
    pub async fn watch(
        &self,
        client: kube::Client,
        nodes: impl Fn(Result<(), &Refusal>),
        pods: impl Fn(Result<(), &Refusal>),
    ) {
        let _one = self.watching.lock().await;
        tokio::join!(self.watch_nodes(client.clone(), nodes), self.watch_pods(client, pods));
    }

    async fn watch_nodes(&self, client: kube::Client, say: impl Fn(Result<(), &Refusal>)) {
        let api = kube::Api::<NodeMeta>::all(client);
        let mut events = std::pin::pin!(watches::events(api, Config::default().page_size(PAGE)));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let answered = watches::is_answer(&event);
                    self.node_event(event);
                    if answered {
                        say(Ok(()));
                    }
                }
                Err(refusal) => say(Err(&refusal)),
            }
        }
    }

    async fn watch_pods(&self, client: kube::Client, say: impl Fn(Result<(), &Refusal>)) {
        let api = kube::Api::<Slice>::all(client);
        let config = Config::default().page_size(PAGE).fields("status.phase!=Succeeded,status.phase!=Failed");
        let mut events = std::pin::pin!(watches::events(api, config));
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let answered = watches::is_answer(&event);
                    self.pod_event(event);
                    if answered {
                        say(Ok(()));
                    }
                }
                Err(refusal) => say(Err(&refusal)),
            }
        }
    }

    /// Takes in a newer sight of a node.
    fn replace(&self, inner: &mut Inner, seen: &mut NodeSeen, meta: &NodeMeta, now: Duration) {
        seen.uid = meta.metadata.uid.as_deref().map(Into::into);
        for value in seen.replace(version_of(meta), ours(meta), now) {
            if let Some(since) = inner.ours.remove(&value) {
                self.stood.observe(now.saturating_sub(since).as_secs_f64());
            }
        }
        let name = meta.metadata.name.as_deref().unwrap_or_default();
        seen.left.retain(|(_, lock)| !inner.has_told(name, lock));
    }

    fn node_event(&self, event: Event<NodeMeta>) {
        let (mut inner, now) = (self.lock(), self.now());
        match event {
            Event::Apply(node) => {
                let name: Arc<str> = node.metadata.name.as_deref().unwrap_or_default().into();
                let mut seen = inner.nodes.get(&name).cloned().unwrap_or_default();
                if is_later(&version_of(&node), &seen.version) {
                    self.replace(&mut inner, &mut seen, &node, now);
                    inner.enter(Arc::clone(&name), seen);
                }
                inner.wake(&name);
            }
            Event::Delete(node) => {
                let name = node.metadata.name.as_deref().unwrap_or_default();
                for gone in inner.nodes.get(name).map(|seen| seen.remembered.clone()).into_iter().flatten() {
                    inner.ours.remove(&gone.value);
                }
                inner.leave(name);
                inner.wake(name);
            }
            Event::Init => inner.relisted_nodes = Some(HashMap::new()),
            Event::InitApply(node) => {
                let name: Arc<str> = node.metadata.name.as_deref().unwrap_or_default().into();
                let mut seen = inner.nodes.get(&name).cloned().unwrap_or_default();
                self.replace(&mut inner, &mut seen, &node, now);
                if let Some(all) = &mut inner.relisted_nodes {
                    all.insert(name, seen);
                }
            }
            Event::InitDone => {
                inner.nodes.clear();
                inner.named.clear();
                for (name, seen) in inner.relisted_nodes.take().unwrap_or_default() {
                    inner.enter(name, seen);
                }
                inner.forget_ours();
                inner.wake_all();
                self.synced.send_modify(|synced| synced[0] = true);
            }
        }
    }

    fn pod_event(&self, event: Event<Slice>) {
        let keep = |slice: &Slice| Seen::of(slice, &self.backends);
        let mut inner = self.lock();
        match event {
            Event::Apply(pod) => {
                if let Some(seen) = keep(&pod) {
                    // What was read or written meanwhile is later.
                    let known = inner.pods.get(&name_of(&seen.pod.key)).map(|known| &known.pod);
                    let same = known.filter(|known| known.key == seen.pod.key);
                    if same.is_none_or(|known| is_later(&seen.pod.version, &known.version)) {
                        inner.put(seen);
                    }
                }
            }
            Event::Delete(pod) => {
                if let Some(seen) = keep(&pod) {
                    inner.remove(&seen.pod);
                }
            }
            Event::Init => inner.relisted_pods = Some(HashMap::new()),
            Event::InitApply(pod) => {
                if let (Some(seen), Some(all)) = (keep(&pod), &mut inner.relisted_pods) {
                    all.insert(name_of(&seen.pod.key), seen);
                }
            }
            Event::InitDone => {
                inner.pods.clear();
                inner.waiting.clear();
                for (_, seen) in inner.relisted_pods.take().unwrap_or_default() {
                    inner.put(seen);
                }
                inner.wake_all();
                self.synced.send_modify(|synced| synced[1] = true);
            }
        }
    }
}

impl Inner {
    /// A node as it is now.
    fn enter(&mut self, name: Arc<str>, seen: NodeSeen) {
        self.leave(&name);
        for pod in seen.names() {
            self.named.entry(pod).or_default().insert(Arc::clone(&name));
        }
        self.nodes.insert(name, seen);
    }

    fn leave(&mut self, node: &str) {
        let Some(seen) = self.nodes.remove(node) else { return };
        for pod in seen.names() {
            if let Some(nodes) = self.named.get_mut(&pod) {
                nodes.remove(node);
                if nodes.is_empty() {
                    self.named.remove(&pod);
                }
            }
        }
    }

    /// Whether the watch of pods has told that the pod of a lock of this node was bound, or that it never will be under that
    /// lock. What comes after a Binding is told in its turn. Where a lock has no note, a pod of that name may be an earlier
    /// one; if it waits here, nobody else gets the node anyway.
    fn has_told(&self, node: &str, lock: &Lock) -> bool {
        let Named::Pod { pod, time, note } = &lock.named else { return true };
        let seen = self.pods.get(&name_of(pod)).map(|seen| &seen.pod);
        let over = |seen: &Pod| seen.finished || seen.deleting || seen.revoked.as_ref() == Some(&lock.value);
        let told = |seen: &Pod| if note.is_some() { seen.node.is_some() || over(seen) } else { seen.waits_on(node) };
        seen.is_some_and(|seen| is_owner(pod, *time, note.is_some(), seen) && told(seen))
    }

    /// Forgets the last locks of a pod of which this was told.
    fn settle(&mut self, name: &Name, told: impl Fn(&Self, &str, &Lock) -> bool) {
        for node in self.named.get(name).cloned().into_iter().flatten() {
            let Some(seen) = self.nodes.get(&node).filter(|seen| !seen.left.is_empty()) else { continue };
            let mut seen = seen.clone();
            seen.left.retain(|(_, lock)| !told(self, &node, lock));
            self.enter(node, seen);
        }
    }

    /// Of locks that stand nowhere any more, nobody told.
    fn forget_ours(&mut self) {
        let all = self.nodes.values().flat_map(|seen| &seen.remembered);
        let standing: HashSet<&Arc<str>> = all.map(|it| &it.value).collect();
        self.ours.retain(|value, _| standing.contains(value));
    }

    fn locked(&self) -> Vec<Arc<str>> {
        let stands = |seen: &NodeSeen| Key::ALL.iter().any(|key| seen.annotations.contains_key(key.annotation()));
        let mut names: Vec<_> =
            self.nodes.iter().filter(|(_, seen)| stands(seen)).map(|(name, _)| Arc::clone(name)).collect();
        names.sort();
        names
    }

    fn sight(&self, node: &str, seen: &NodeSeen, keys: &[Key], live: &Live) -> Node {
        let keys = keys.iter().map(|key| {
            let lock = wire::lock(&seen.annotations, *key);
            let holder = lock.as_ref().map_or(Holder::Unconfirmed, |lock| self.holder(seen, *key, lock, live));
            let confirmed = lock.as_ref().is_some_and(|lock| live.pods.contains_key(&lock.value));
            let waiting = self.waiting.get(node).into_iter().flatten().filter_map(|name| self.pods.get(name));
            let waiting = waiting.chain(live.bound.iter().flatten()).filter(|seen| seen.keys.contains(key));
            let left = seen.left.iter().find(|(of, _)| of == key).map(|(_, lock)| lock);
            let found = left.and_then(|lock| live.pods.get(&lock.value)).filter(|pod| pod.waits_on(node));
            let waiting = waiting.map(|seen| &seen.pod).chain(found).cloned().collect();
            let remembered = seen.remembered.iter().find(|it| it.key == *key);
            let first_seen = remembered.map_or(Duration::MAX, |it| it.first_seen);
            let asked = |lock: &Lock| live.pods.contains_key(&lock.value) || live.absent.contains(&lock.value);
            let left = left.filter(|lock| !asked(lock)).cloned();
            Sight { lock, holder, confirmed, waiting, listed: live.bound.is_some(), left, first_seen }
        });
        Node { version: Arc::clone(&seen.version), keys: keys.collect() }
    }

    fn holder(&self, node: &NodeSeen, key: Key, lock: &Lock, live: &Live) -> Holder {
        let Named::Pod { pod, time, note } = &lock.named else { return Holder::Unconfirmed };
        let remembered = node.remembered.iter().find(|it| it.key == key && it.value == lock.value);
        if let Some(since) = remembered.and_then(|it| it.gone) {
            return Holder::Gone { since };
        }
        let cached = self
            .pods
            .get(&name_of(pod))
            .map(|seen| &seen.pod)
            .filter(|seen| is_owner(pod, *time, note.is_some(), seen));
        match (cached, live.pods.get(&lock.value)) {
            (Some(cached), Some(live)) if live.key != cached.key || is_later(&live.version, &cached.version) => {
                Holder::Seen(live.clone())
            }
            (Some(cached), _) => Holder::Seen(cached.clone()),
            (None, Some(live)) => Holder::Seen(live.clone()),
            (None, None) => Holder::Unconfirmed,
        }
    }

    /// A pod as it is now. Whoever waits for it, or for its node, hears of it.
    fn put(&mut self, seen: Seen) {
        let name = name_of(&seen.pod.key);
        self.forget_waiting(&name);
        if let Some(node) = seen.pod.node.clone().filter(|node| !seen.keys.is_empty() && seen.pod.waits_on(node)) {
            self.waiting.entry(node).or_default().insert(name.clone());
        }
        let node = seen.pod.node.clone();
        if seen.keys.is_empty() {
            self.pods.remove(&name);
        } else {
            self.pods.insert(name.clone(), seen);
        }
        self.wake_for(&name, node.as_deref());
        self.settle(&name, Self::has_told);
    }

    /// A pod that is gone, or has finished.
    fn remove(&mut self, pod: &Pod) {
        let name = name_of(&pod.key);
        self.forget_waiting(&name);
        let node = self.pods.remove(&name).and_then(|seen| seen.pod.node);
        self.wake_for(&name, node.as_deref());
        // Where a lock has no note, that may have been an earlier pod of its name.
        self.settle(&name, |_, _, lock| lock.pod().is_some_and(|named| *named == pod.key));
    }

    fn forget_waiting(&mut self, name: &Name) {
        let Some(node) = self.pods.get(name).and_then(|seen| seen.pod.node.clone()) else { return };
        if let Some(names) = self.waiting.get_mut(&node) {
            names.remove(name);
            if names.is_empty() {
                self.waiting.remove(&node);
            }
        }
    }

    fn wake_for(&self, name: &Name, node: Option<&str>) {
        let named = self.named.get(name).into_iter().flatten().map(|node| &**node);
        named.chain(node).for_each(|node| self.wake(node));
    }

    fn wake(&self, node: &str) {
        if let Some(changed) = &self.changed {
            let known = self.nodes.get_key_value(node).map(|(name, _)| Arc::clone(name));
            // Nobody hears of it any more when the process stops.
            let _ = changed.send(known.unwrap_or_else(|| node.into()));
        }
        if let Some(sender) = self.listeners.get(node) {
            sender.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    fn wake_all(&self) {
        let waited = self.listeners.keys().filter(|node| !self.nodes.contains_key(*node));
        self.nodes.keys().chain(waited).for_each(|node| self.wake(node));
    }
}

fn name_of(key: &PodKey) -> Name {
    (Arc::clone(&key.namespace), Arc::clone(&key.name))
}

fn version_of(node: &NodeMeta) -> Arc<str> {
    node.metadata.resource_version.as_deref().unwrap_or_default().into()
}

/// The annotations that are about locks.
fn ours(node: &NodeMeta) -> Annotations {
    let all = node.metadata.annotations.iter().flatten();
    let about = all.filter(|(key, _)| wire::is_about_locks(key));
    about.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Of versions that cannot be compared, the one that came last counts.
fn is_later(version: &str, than: &str) -> bool {
    version::compare(version, than).is_none_or(std::cmp::Ordering::is_ge)
}

#[cfg(test)]
mod tests;
