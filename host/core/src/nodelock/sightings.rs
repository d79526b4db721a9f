//! What is known of the nodes and of the pods that their locks name: the evidence for every decision about a lock.
//!
//! A plain index, without I/O and without a clock. Two watches feed it, and so does what single requests read or wrote.
//! Each step returns an [`Effect`], which says which nodes' waiters have to be notified.
//!
//! # What it guarantees
//!
//! * A version that is older than the known one changes nothing. A list replaces everything, but for a pod that a request has
//!   shown in a version after the list. Where the store of an API server was restored, which counts from an earlier version
//!   on, everything is forgotten before the list.
//! * A pod that is not here proves nothing (decision N6): its holder is [`Holder::Unconfirmed`] until a live read.
//! * When a lock disappears before the watch of pods has shown what became of the pod that it names, that lock is kept
//!   as [`Sight::left`]: the pod may be bound and wait for the device plugin of another vendor.
//! * When a read or a list passes over versions of a node that the watch has not shown, a lock may have come and gone in
//!   them. Such a node is [`Sight::missed`] until the watch has shown those versions, until the pods of the node, or all
//!   pods, were listed by a request that was sent after that, or until the node has a lock that names a pod.

mod node;
mod reads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::attempt::{ObservedNode, Sight};
use super::holder::{Clock, Holder, LockHeld, LockState, Pod, Takeover, Why, confirm, is_owner};
use super::needs::{LockKey, NodeKind};
use super::record::{Lock, NamedHolder, PodId, PodKey};
use crate::names::{LockValue, NodeName, Uid};
use crate::version::ResourceVersion;

use node::{Closes, NodeSighting};
pub use node::{Locks, NodeRead};
pub use reads::{LiveReads, Moment};

/// Namespace and name of a pod.
type NamespacedName = (Arc<str>, Arc<str>);

/// What is kept of a pod that needs a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodSighting {
    /// Its state.
    pub pod: Pod,
    /// The keys that it needs, in their order.
    pub keys: Vec<LockKey>,
}

impl PodSighting {
    fn name(&self) -> NamespacedName {
        name_of(&self.pod.key.namespace, &self.pod.key.name)
    }

    /// The node on which it waits for a device plugin.
    fn waits_on(&self) -> Option<&NodeName> {
        self.pod.node.as_ref().filter(|node| !self.keys.is_empty() && self.pod.waits_on(node))
    }
}

/// What a step has changed for others.
#[must_use]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effect {
    /// Whose waiters have to be notified.
    pub wake: Wake,
    /// How long locks of this process existed that are gone now.
    pub stood: Vec<Duration>,
}

/// Whose waiters have to be notified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wake {
    /// Those of these nodes, also of one that is not known.
    Nodes(Vec<NodeName>),
    /// Those of every node.
    All,
}

impl Default for Wake {
    fn default() -> Self {
        Self::Nodes(Vec::new())
    }
}

impl Effect {
    fn wakes(nodes: impl IntoIterator<Item = NodeName>) -> Self {
        Self { wake: Wake::Nodes(nodes.into_iter().collect()), stood: Vec::new() }
    }
}

/// Which locks keep a pod from a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocks {
    /// Every lock that is held.
    Held,
    /// Only a lock whose bound pod has waited for its device plugin for longer than a lock lasts.
    Stuck,
}

/// How many entries each part of the index has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Nodes.
    pub nodes: usize,
    /// Pods.
    pub pods: usize,
    /// Pods that a lock names.
    pub named: usize,
    /// Locks that this process wrote.
    pub ours: usize,
}

/// The index.
#[derive(Debug, Clone, Default, Hash)]
pub struct Sightings {
    nodes: BTreeMap<NodeName, NodeSighting>,
    pods: BTreeMap<NamespacedName, PodSighting>,
    /// The pods that wait on a node for its device plugins.
    waiting: BTreeMap<NodeName, BTreeSet<NamespacedName>>,
    /// The nodes on which a lock names a pod.
    named: BTreeMap<NamespacedName, BTreeSet<NodeName>>,
    /// Since when the locks that this process wrote exist, by their values.
    ours: BTreeMap<LockValue, Duration>,
    /// When versions of a node were passed over last.
    passed_over: Moment,
    /// When the list of pods that is under way began.
    lists_pods: Option<Moment>,
}

/// Steps: what a watch, a read or a write has shown.
impl Sightings {
    /// The watch of nodes has shown a node.
    pub fn node(&mut self, name: &NodeName, read: NodeRead, now: Duration) -> Effect {
        let version = read.version.clone();
        let stood = match self.known_before(name, &version) {
            Some(known) => self.replace(name, known, read, now),
            None => {
                self.made_up_for(name, read.locks);
                Vec::new()
            }
        };
        if let Some(seen) = self.nodes.get_mut(name) {
            seen.shown(&version);
        }
        Effect { stood, ..Effect::wakes([name.clone()]) }
    }

    /// The watch of nodes has shown that a node is gone. How long its locks existed is not known.
    pub fn node_gone(&mut self, name: &str) -> Effect {
        for value in self.nodes.get(name).into_iter().flat_map(NodeSighting::values) {
            self.ours.remove(value);
        }
        let name = self.nodes.get_key_value(name).map_or_else(|| name.into(), |(name, _)| name.clone());
        self.leave(&name);
        Effect::wakes([name])
    }

    /// A node was read by a request. Waiters are notified by the watch, which shows the same later.
    pub fn read(&mut self, name: &NodeName, read: NodeRead, now: Duration) -> Effect {
        let version = read.version.clone();
        let Some(known) = self.known_before(name, &version) else { return Effect::default() };
        let passes_over = *known.version() != version;
        let stood = self.replace(name, known, read, now);
        if passes_over {
            self.pass_over(name, Closes::Shown(version));
        }
        Effect { stood, ..Effect::default() }
    }

    /// A write of this process, in exactly the version `from`, has left a node like this: there is no version in between.
    pub fn written(&mut self, name: &NodeName, from: &ResourceVersion, read: NodeRead, now: Duration) -> Effect {
        match self.nodes.get(name).filter(|known| known.version() == from).cloned() {
            Some(known) => Effect { stood: self.replace(name, known, read, now), ..Effect::default() },
            None => self.read(name, read, now),
        }
    }

    /// The watch of nodes has listed all of them.
    pub fn relisted_nodes(&mut self, all: impl IntoIterator<Item = (NodeName, NodeRead)>, now: Duration) -> Effect {
        let mut known = std::mem::take(&mut self.nodes);
        self.named.clear();
        let mut stood = Vec::new();
        for (name, read) in all {
            let known = known.remove(&name).unwrap_or_default();
            let passes_over = *known.version() != read.version;
            stood.append(&mut self.replace(&name, known, read, now));
            if passes_over {
                self.pass_over(&name, Closes::Never);
            } else if let Some(seen) = self.nodes.get_mut(&name) {
                seen.listed_again();
            }
        }
        // No event reports the locks that disappeared together with their nodes.
        let present: BTreeSet<&LockValue> = self.nodes.values().flat_map(NodeSighting::values).collect();
        self.ours.retain(|value, _| present.contains(value));
        Effect { wake: Wake::All, stood }
    }

    /// The API server's store was restored, so nothing that is remembered of nodes holds any more: a pod that was gone may be
    /// there again.
    pub fn forget_nodes(&mut self) {
        self.nodes.clear();
        self.named.clear();
        self.ours.clear();
    }

    /// The same, of pods.
    pub fn forget_pods(&mut self) {
        self.pods.clear();
        self.waiting.clear();
    }

    /// The watch of pods has shown a pod. What a request read of it meanwhile may be later.
    pub fn pod(&mut self, seen: PodSighting) -> Effect {
        let known = self.pods.get(&seen.name()).map(|known| &known.pod);
        let same = known.filter(|known| known.key == seen.pod.key);
        if same.is_some_and(|known| !is_later(&seen.pod.version, &known.version)) {
            return Effect::default();
        }
        self.put(seen)
    }

    /// The watch of pods has shown that a pod is gone, or has finished.
    pub fn pod_gone(&mut self, key: &PodId) -> Effect {
        let name = name_of(&key.namespace, &key.name);
        self.forget_waiting(&name);
        let node = self.pods.remove(&name).and_then(|seen| seen.pod.node);
        let effect = self.wakes_for(&name, node);
        // Where a lock has no note, that may have been an earlier pod of its name.
        self.settle(&name, |_, _, lock| lock.pod().is_some_and(|named| *named == key.named()));
        effect
    }

    /// A pod was read or written by a request, and the watch has shown an earlier state of it. A pod that the watch does
    /// not know stays unknown: the watch may have shown its end already.
    pub fn pod_read(&mut self, read: PodSighting) -> Effect {
        let known = self.pods.get(&read.name()).map(|known| &known.pod);
        let same = known.filter(|known| known.key == read.pod.key && known.version != read.pod.version);
        if same.is_some_and(|known| is_later(&read.pod.version, &known.version)) {
            return self.put(read);
        }
        Effect::default()
    }

    /// The watch of pods is about to list all of them, as they are then.
    pub fn lists_pods(&mut self) {
        self.lists_pods = Some(self.passed_over);
    }

    /// The watch of pods has listed all of them, as they were in this version. What a request has shown of a pod since then
    /// stays: a lock that disappeared may be settled by it, and the watch shows all that comes after the list.
    pub fn relisted_pods(&mut self, all: impl IntoIterator<Item = PodSighting>, version: &ResourceVersion) -> Effect {
        let mut known = std::mem::take(&mut self.pods);
        known.retain(|_, seen| version.is_older_than(&seen.pod.version));
        self.waiting.clear();
        let listed: Vec<PodSighting> = all.into_iter().filter(|seen| !known.contains_key(&seen.name())).collect();
        for seen in listed.into_iter().chain(known.into_values()) {
            // All waiters are notified anyway.
            let _ = self.put(seen);
        }
        if let Some(began) = self.lists_pods.take() {
            self.nodes.values_mut().for_each(|seen| seen.pods_listed(began));
        }
        Effect { wake: Wake::All, stood: Vec::new() }
    }

    /// A live read of the pod that a value names has this result. If the pod is gone, that is remembered until the
    /// value is replaced.
    pub fn confirmed(
        &mut self,
        node: &str,
        named: &PodKey,
        value: &LockValue,
        read: Option<Pod>,
        reads: &mut LiveReads,
        now: Duration,
    ) {
        let Some(seen) = self.nodes.get_mut(node) else { return };
        let before = seen.gone(value).map(|since| Holder::Gone { since });
        match confirm(named, value, read, before.as_ref(), now) {
            Holder::Seen(pod) => reads.found(value, pod),
            Holder::Gone { since } => {
                seen.set_gone(value, since);
                reads.absent(value);
            }
            Holder::Unconfirmed => {}
        }
    }

    /// This process has written a lock.
    pub fn wrote(&mut self, value: &LockValue, now: Duration) {
        self.ours.insert(value.clone(), now);
    }

    /// Every value counts as seen since the beginning: a command reads once, and cannot wait for it to grow old.
    pub fn has_stood(&mut self) {
        self.nodes.values_mut().for_each(NodeSighting::has_stood);
    }

    /// What is known of a node, unless that is in a later version.
    fn known_before(&self, name: &str, version: &ResourceVersion) -> Option<NodeSighting> {
        let known = self.nodes.get(name);
        let is_later = known.is_none_or(|known| is_later(version, known.version()));
        is_later.then(|| known.cloned().unwrap_or_default())
    }

    /// Versions of a node before the known one were passed over.
    fn pass_over(&mut self, name: &str, closes: Closes) {
        self.passed_over = self.passed_over.next();
        if let Some(seen) = self.nodes.get_mut(name) {
            seen.pass_over(self.passed_over, closes);
        }
    }

    /// The watch has shown these locks of a node, in a version that was passed over.
    fn made_up_for(&mut self, name: &NodeName, locks: Locks) {
        let Some(mut seen) = self.nodes.get(name).cloned() else { return };
        seen.made_up_for(locks);
        seen.retain_left(|lock| !self.is_settled(name, lock));
        self.leave(name);
        self.enter(name.clone(), seen);
    }

    /// Enters a node as it was read. Returns how long those locks of this process existed that are gone now.
    fn replace(&mut self, name: &NodeName, mut seen: NodeSighting, read: NodeRead, now: Duration) -> Vec<Duration> {
        let over = seen.replace(read, now);
        seen.retain_left(|lock| !self.is_settled(name, lock));
        self.leave(name);
        self.enter(name.clone(), seen);
        over.iter().filter_map(|value| Some(now.saturating_sub(self.ours.remove(value)?))).collect()
    }

    fn enter(&mut self, node: NodeName, seen: NodeSighting) {
        for pod in seen.names() {
            self.named.entry(pod).or_default().insert(node.clone());
        }
        self.nodes.insert(node, seen);
    }

    fn leave(&mut self, node: &str) {
        let Some(seen) = self.nodes.remove(node) else { return };
        self.unname(node, &seen);
    }

    fn unname(&mut self, node: &str, seen: &NodeSighting) {
        for pod in seen.names() {
            if let Some(nodes) = self.named.get_mut(&pod) {
                nodes.remove(node);
                if nodes.is_empty() {
                    self.named.remove(&pod);
                }
            }
        }
    }

    /// Whether the watch of pods has shown that the pod of a lock of this node was bound, or that it never will be
    /// under that lock. The watch shows later states of a bound pod in their order. Where a lock has no note, a pod of
    /// that name may be an earlier one; if it waits here, no other pod gets the node anyway.
    fn is_settled(&self, node: &str, lock: &Lock) -> bool {
        let NamedHolder::Pod { pod, time, note } = &lock.named else { return true };
        let seen = self.pods.get(&name_of(&pod.namespace, &pod.name)).map(|seen| &seen.pod);
        let over = |seen: &Pod| seen.finished || seen.deleting || seen.revoked.as_ref() == Some(&lock.value);
        let known = |seen: &Pod| if note.is_some() { seen.node.is_some() || over(seen) } else { seen.waits_on(node) };
        seen.is_some_and(|seen| is_owner(pod, *time, seen) && known(seen))
    }

    /// Forgets the locks that disappeared and whose pod's outcome is now known.
    fn settle(&mut self, name: &NamespacedName, settled: impl Fn(&Self, &str, &Lock) -> bool) {
        for node in self.named.get(name).cloned().into_iter().flatten() {
            let Some(mut seen) = self.nodes.get(&node).filter(|seen| seen.has_left()).cloned() else { continue };
            self.unname(&node, &seen);
            seen.retain_left(|lock| !settled(self, &node, lock));
            self.enter(node, seen);
        }
    }

    fn put(&mut self, seen: PodSighting) -> Effect {
        let name = seen.name();
        self.forget_waiting(&name);
        if let Some(node) = seen.waits_on() {
            self.waiting.entry(node.clone()).or_default().insert(name.clone());
        }
        let node = seen.pod.node.clone();
        if seen.keys.is_empty() {
            self.pods.remove(&name);
        } else {
            self.pods.insert(name.clone(), seen);
        }
        let effect = self.wakes_for(&name, node);
        self.settle(&name, Self::is_settled);
        effect
    }

    fn forget_waiting(&mut self, name: &NamespacedName) {
        let Some(node) = self.pods.get(name).and_then(|seen| seen.pod.node.clone()) else { return };
        if let Some(names) = self.waiting.get_mut(&node) {
            names.remove(name);
            if names.is_empty() {
                self.waiting.remove(&node);
            }
        }
    }

    /// A pod has changed: notifies the waiters for it, and for its node.
    fn wakes_for(&self, name: &NamespacedName, node: Option<NodeName>) -> Effect {
        Effect::wakes(self.named.get(name).into_iter().flatten().cloned().chain(node))
    }
}

/// Questions.
impl Sightings {
    /// What an attempt or a sweep is shown of a node; `None` where the node is not known.
    #[must_use]
    pub fn sight(&self, node: &str, keys: &[LockKey], reads: &LiveReads) -> Option<ObservedNode> {
        let seen = self.nodes.get(node)?;
        let keys = keys.iter().map(|key| self.sight_of(node, seen, *key, reads)).collect();
        Some(ObservedNode { version: seen.version().clone(), kind: seen.kind(), keys })
    }

    fn sight_of(&self, node: &str, seen: &NodeSighting, key: LockKey, reads: &LiveReads) -> Sight {
        let lock = seen.lock(key).cloned();
        let holder = lock.as_ref().map_or(Holder::Unconfirmed, |lock| self.holder(seen, key, lock, reads));
        let confirmed = lock.as_ref().is_some_and(|lock| reads.pod(&lock.value).is_some());
        if seen.kind() == NodeKind::Virtual {
            // Its pods wait for no device plugin, so none of them has a lock to get back.
            let first_seen = seen.first_seen(key).unwrap_or(Duration::MAX);
            let (waiting, listed) = (Vec::new(), reads.has_listed());
            return Sight { lock, holder, confirmed, waiting, listed, left: None, missed: false, first_seen };
        }
        let left = seen.left(key);
        let found = left.and_then(|lock| reads.pod(&lock.value)).filter(|pod| pod.waits_on(node));
        let cached = self.waiting.get(node).into_iter().flatten().filter_map(|name| self.pods.get(name));
        let waiting = cached.chain(reads.bound()).filter(|seen| seen.keys.contains(&key));
        let waiting = waiting.map(|seen| &seen.pod).chain(found).cloned().collect();
        let left = left.filter(|lock| !reads.has_asked(&lock.value)).cloned();
        let missed = seen.passed_over(key).is_some_and(|moment| !reads.has_listed_after(moment));
        let first_seen = seen.first_seen(key).unwrap_or(Duration::MAX);
        Sight { lock, holder, confirmed, waiting, listed: reads.has_listed(), left, missed, first_seen }
    }

    fn holder(&self, node: &NodeSighting, key: LockKey, lock: &Lock, reads: &LiveReads) -> Holder {
        let NamedHolder::Pod { pod, time, .. } = &lock.named else { return Holder::Unconfirmed };
        if let Some(since) = node.gone_under(key, &lock.value) {
            return Holder::Gone { since };
        }
        let cached = self.pods.get(&name_of(&pod.namespace, &pod.name)).map(|seen| &seen.pod);
        let cached = cached.filter(|seen| is_owner(pod, *time, seen));
        match (cached, reads.pod(&lock.value)) {
            (Some(cached), Some(live)) if live.key != cached.key || is_later(&live.version, &cached.version) => {
                Holder::Seen(live.clone())
            }
            (Some(cached), _) => Holder::Seen(cached.clone()),
            (None, Some(live)) => Holder::Seen(live.clone()),
            (None, None) => Holder::Unconfirmed,
        }
    }

    /// The holder that keeps a pod with these keys from a node, as far as is known without a request.
    #[must_use]
    pub fn blocked(
        &self,
        node: &str,
        keys: &[LockKey],
        clock: Clock,
        (ttl, takeover): (Duration, Takeover),
        by: Blocks,
    ) -> Option<LockHeld> {
        let seen = self.sight(node, keys, &LiveReads::default()).filter(|seen| seen.kind == NodeKind::Machine)?;
        let mut held = seen.keys.iter().filter_map(|sight| match sight.state(node, clock, ttl, takeover) {
            Some(LockState::Held(held)) => Some(held),
            Some(LockState::Over(_)) | None => None,
        });
        held.find(|held| match (held.why, by) {
            // A lock whose pod has to be read first keeps no pod away.
            (Why::Unconfirmed | Why::Unlisted, _) => false,
            (_, Blocks::Held) => true,
            (why, Blocks::Stuck) => why == Why::Stuck,
        })
    }

    /// Now: a list of the pods of a node that is asked for from here on shows every pod that was bound there before.
    #[must_use]
    pub fn moment(&self) -> Moment {
        self.passed_over
    }

    /// A pod with this UID.
    #[must_use]
    pub fn pod_of(&self, key: &PodId) -> Option<&PodSighting> {
        self.pods.get(&name_of(&key.namespace, &key.name)).filter(|seen| seen.pod.key == *key)
    }

    /// All pods.
    pub fn pods(&self) -> impl Iterator<Item = &PodSighting> {
        self.pods.values()
    }

    /// The locks of a node.
    #[must_use]
    pub fn locks(&self, node: &str) -> Option<&Locks> {
        self.nodes.get(node).map(NodeSighting::locks)
    }

    /// The lock of a node under a key.
    #[must_use]
    pub fn lock_of(&self, node: &str, key: LockKey) -> Option<&Lock> {
        self.nodes.get(node).and_then(|seen| seen.lock(key))
    }

    /// The locks of a node, if it is known in that version.
    #[must_use]
    pub fn locks_in(&self, node: &str, version: &ResourceVersion) -> Option<&Locks> {
        self.nodes.get(node).filter(|seen| seen.version() == version).map(NodeSighting::locks)
    }

    /// The version in which a node with this UID is known.
    #[must_use]
    pub fn known_as(&self, node: &str, uid: &Uid) -> Option<&ResourceVersion> {
        let seen = self.nodes.get(node).filter(|seen| seen.uid().as_ref() == Some(uid))?;
        Some(seen.version())
    }

    /// The UID of a node.
    #[must_use]
    pub fn node_uid(&self, node: &str) -> Option<Uid> {
        self.nodes.get(node).and_then(NodeSighting::uid)
    }

    /// The names of all nodes, in order.
    pub fn names(&self) -> impl Iterator<Item = &NodeName> {
        self.nodes.keys()
    }

    /// A node's name, shared with the index where it is there.
    #[must_use]
    pub fn name(&self, node: &str) -> NodeName {
        self.nodes.get_key_value(node).map_or_else(|| node.into(), |(name, _)| name.clone())
    }

    /// The nodes that have a lock, in order.
    #[must_use]
    pub fn locked(&self) -> Vec<NodeName> {
        let locked = self.nodes.iter().filter(|(_, seen)| !seen.locks().is_empty());
        locked.map(|(name, _)| name.clone()).collect()
    }

    /// The nodes that have a lock, or a pod that waits for its device plugin, in order.
    #[must_use]
    pub fn concerned(&self) -> Vec<NodeName> {
        let mut names = self.locked();
        names.extend(self.waiting.keys().filter(|node| self.kind(node) == NodeKind::Machine).cloned());
        names.sort();
        names.dedup();
        names
    }

    /// Whether a node has a lock, or a pod that waits for its device plugin.
    #[must_use]
    pub fn concerns(&self, node: &str) -> bool {
        let has_lock = self.nodes.get(node).is_some_and(|seen| !seen.locks().is_empty());
        has_lock || (self.waiting.contains_key(node) && self.kind(node) == NodeKind::Machine)
    }

    /// What a node is; one that is not known counts as a machine.
    #[must_use]
    pub fn kind(&self, node: &str) -> NodeKind {
        self.nodes.get(node).map(NodeSighting::kind).unwrap_or_default()
    }

    /// How much is known.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let Self { nodes, pods, named, ours, .. } = self;
        Sizes { nodes: nodes.len(), pods: pods.len(), named: named.len(), ours: ours.len() }
    }
}

fn name_of(namespace: &Arc<str>, name: &Arc<str>) -> NamespacedName {
    (Arc::clone(namespace), Arc::clone(name))
}

/// Of versions that cannot be compared, the last one counts.
fn is_later(version: &ResourceVersion, than: &ResourceVersion) -> bool {
    !version.is_older_than(than)
}
