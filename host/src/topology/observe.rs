//! The HyperNodes as they are in the cluster.
//!
//! Owns the one watch on HyperNodes, the model of every object, and the index that counts Nodes below them. What we
//! write ourselves is entered from the answer of the write, so no plan is made against a past state and our own events
//! wake no source. An event that shows another content than we know is *drift* and wakes the source that owns the
//! object.
//!
//! # Failure story
//!
//! A broken watch keeps the last contents; a relist replaces them in one step, but for what is known in a version newer
//! than the list. An event older than what we know (by resourceVersion, which the API server orders) is dropped. Where
//! the API server went back to an earlier state, a relist replaces everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use tokio::sync::{Notify, watch};
use topoloom_api::HyperNode;
use topoloom_api::condition::Condition;
use topoloom_core::names::{SourceName, Uid};
use topoloom_core::snapshot::{Change, ColumnKey};
use topoloom_core::status::StatusIndex;
use topoloom_core::topology::{Object, Observed};
use topoloom_core::version::ResourceVersion;

use super::convert;
use crate::cluster::nodes::Listener;
use crate::cluster::watched::{Earlier, Event, Index, Watched};
use crate::cluster::watches::{self, Config};
use crate::cluster::{Check, RefusalReason, Restores};

/// Objects per page of a list: members make HyperNodes larger than Nodes' metadata.
const PAGE: u32 = 250;

/// Label columns that are kept for selectors at most, each four bytes per node. HyperNodes whose selectors read others
/// are not counted.
const SELECTOR_KEYS: usize = 256;

/// Deleted objects that are remembered, so that a late event does not bring one back.
const REMEMBERED: usize = 4096;

/// One HyperNode as stored.
#[derive(Debug, Clone)]
pub struct Stored {
    /// What decisions are made on.
    pub object: Arc<Object>,
    /// `status.nodeCount`.
    pub node_count: Option<i64>,
    /// `status.conditions`, ours and others'.
    pub conditions: Vec<Condition>,
}

/// Whether the host writes the objects of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// It does.
    Written,
    /// It only observes them.
    Observed,
}

/// Is notified of changes of objects, for one source.
pub trait Owner: Send + Sync {
    /// An object of the source is not what we last wrote. `writer` is the field manager that changed it, if the object
    /// names it.
    fn drifted(&self, object: &str, writer: Option<&str>);

    /// An object of another owner appeared, changed or disappeared: what it blocked may be possible now.
    fn others_changed(&self);
}

/// All HyperNodes of the cluster.
pub struct HyperNodes {
    inner: Mutex<ObservedState>,
    synced: watch::Sender<bool>,
    /// Notified when a count may be wrong.
    pub(super) counts_due: Notify,
}

/// The lock's contents; the status writer shares them.
#[derive(Default)]
pub(super) struct ObservedState {
    pub(super) objects: BTreeMap<Arc<str>, Stored>,
    /// The same, arranged for decisions, if it was requested since the last change.
    observed: Option<Arc<Observed>>,
    pub(super) index: StatusIndex,
    /// Objects whose stored status is not what the index says.
    pub(super) status_due: BTreeSet<Arc<str>>,
    /// How many lists have begun, and whether the one under way replaces everything.
    lists: u64,
    earlier: Option<Earlier>,
    /// Objects that a plan under execution still has to write. Events about them are answers to us, whichever arrives
    /// first, and counts above them wait: they would be written twice.
    pub(super) planned: BTreeSet<Arc<str>>,
    owners: BTreeMap<SourceName, Owned>,
    /// The uids of objects that are gone, which an event from before must not bring back, with the list that was the
    /// last to begin by then: the next one no longer has them, and if it has, a restored API server does.
    gone: BTreeMap<Uid, u64>,
}

/// HyperNodes in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HyperNodeCounts {
    /// Objects by the source that owns them.
    pub of_sources: BTreeMap<String, usize>,
    /// Objects that are no source's.
    pub by_hand: usize,
    /// Objects whose stored status is not as it should be.
    pub statuses_due: usize,
}

/// The owner of a source.
struct Owned {
    owner: Arc<dyn Owner>,
    /// Nothing of the source may be written, status included.
    upkeep: Upkeep,
}

impl Default for HyperNodes {
    fn default() -> Self {
        Self { inner: Mutex::default(), synced: watch::Sender::new(false), counts_due: Notify::new() }
    }
}

impl Listener for HyperNodes {
    fn nodes_changed(&self, change: &Change) {
        self.lock().index.nodes(change);
        self.counts_due.notify_one();
    }
}

impl HyperNodes {
    pub(super) fn lock(&self) -> MutexGuard<'_, ObservedState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until every HyperNode was seen once.
    pub async fn synced(&self) {
        let mut synced = self.synced.subscribe();
        // The sender lives as long as we do.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// How many objects there are, by the source that owns them, and how many statuses are to be written.
    #[must_use]
    pub fn counts(&self) -> HyperNodeCounts {
        let inner = self.lock();
        let mut counts = HyperNodeCounts { statuses_due: inner.status_due.len(), ..HyperNodeCounts::default() };
        for stored in inner.objects.values() {
            match &stored.object.source {
                Some(source) => *counts.of_sources.entry(source.to_string()).or_default() += 1,
                None => counts.by_hand += 1,
            }
        }
        counts
    }

    /// Every object as it is now. Arranged once for each change, and not for each caller.
    #[must_use]
    pub fn observed(&self) -> Arc<Observed> {
        let mut inner = self.lock();
        let ObservedState { objects, observed, .. } = &mut *inner;
        let arrange = || Arc::new(Observed::new(objects.values().map(|stored| Arc::clone(&stored.object))));
        Arc::clone(observed.get_or_insert_with(arrange))
    }

    /// One object.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Stored> {
        self.lock().objects.get(name).cloned()
    }

    /// Every stored object with its status, by name.
    #[must_use]
    pub fn stored(&self) -> Vec<Stored> {
        self.lock().objects.values().cloned().collect()
    }

    /// The label columns that selectors of stored objects read.
    #[must_use]
    pub fn selector_keys(&self) -> Vec<ColumnKey> {
        self.lock().index.keys_used().take(SELECTOR_KEYS).cloned().collect()
    }

    /// `owner` is notified of drift of this source's objects from now on.
    pub fn own(&self, source: &SourceName, owner: Arc<dyn Owner>, upkeep: Upkeep) {
        self.lock().owners.insert(source.clone(), Owned { owner, upkeep });
    }

    /// Sets whether the source only observes: then the host does not write its objects, not even their status.
    pub fn set_upkeep(&self, source: &SourceName, upkeep: Upkeep) {
        let mut inner = self.lock();
        let Some(owned) = inner.owners.get_mut(source).filter(|owned| owned.upkeep != upkeep) else { return };
        owned.upkeep = upkeep;
        if upkeep == Upkeep::Written {
            let all: Vec<Arc<str>> = inner.objects.keys().cloned().collect();
            inner.status_due.extend(all);
        }
        drop(inner);
        self.counts_due.notify_one();
    }

    /// That source's objects have no owner any more.
    pub fn disown(&self, source: &SourceName) {
        self.lock().owners.remove(source);
    }

    /// A plan writes these objects now.
    pub(super) fn plan_begins<'a>(&self, names: impl Iterator<Item = &'a Arc<str>>) {
        self.lock().planned.extend(names.cloned());
    }

    /// The last write of this object has ended, one way or the other.
    pub(super) fn plan_wrote(&self, name: &str) {
        self.lock().planned.remove(name);
    }

    /// The plan has ended; objects that it did not write are not waited for.
    pub(super) fn plan_ends<'a>(&self, names: impl Iterator<Item = &'a Arc<str>>) {
        let mut inner = self.lock();
        for name in names {
            inner.planned.remove(name);
        }
        drop(inner);
        self.counts_due.notify_one();
    }

    /// Enters an object from the answer of our own write, or of a read: only the counter is woken.
    pub fn written(&self, object: &HyperNode) {
        let mut inner = self.lock();
        let change = inner.put(object);
        let others = change.map(|change| inner.others(&change)).unwrap_or_default();
        drop(inner);
        self.counts_due.notify_one();
        others.iter().for_each(|owner| owner.others_changed());
    }

    /// Enters that our own delete succeeded, or that the object is gone.
    pub fn gone(&self, name: &str, uid: &Uid) {
        let mut inner = self.lock();
        let lists = inner.lists;
        if inner.gone.len() >= REMEMBERED
            && let Some(oldest) = inner.gone.iter().min_by_key(|(_, list)| **list).map(|(uid, _)| uid.clone())
        {
            inner.gone.remove(&oldest);
        }
        inner.gone.insert(uid.clone(), lists);
        if inner.objects.get(name).is_some_and(|stored| stored.object.uid == *uid) {
            let change = inner.remove(name);
            let others = change.map(|change| inner.others(&change)).unwrap_or_default();
            drop(inner);
            self.counts_due.notify_one();
            others.iter().for_each(|owner| owner.others_changed());
        }
    }

    /// Watches until the task is dropped.
    pub async fn run(self: Arc<Self>, client: kube::Client, restores: Restores, check: Check) {
        let api = kube::Api::<HyperNode>::all(client);
        let mut events = std::pin::pin!(watches::events(api, Config::of(&restores).page_size(PAGE)));
        let mut watched = Watched::default();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    let went_back = self.event(&mut watched, event, &check);
                    if let Some((known, listed)) = went_back {
                        restores.contradicted(&known, &listed);
                    }
                }
                Err(refusal) => match refusal.reason {
                    RefusalReason::Expired => {}
                    RefusalReason::NoSuchResource => check.absent(&refusal.message),
                    _ => check.fail(&refusal),
                },
            }
        }
    }

    /// Takes one event in. Gives two versions of an object that cannot be of one history, if there are any.
    fn event(
        &self,
        watched: &mut Watched<ListedObjects>,
        event: Event<HyperNode>,
        check: &Check,
    ) -> Option<(ResourceVersion, ResourceVersion)> {
        let mut inner = self.lock();
        let ObjectChanges { changes, went_back, is_whole } = watched.take(&mut *inner, event)?;
        let others: Vec<_> = changes.iter().flat_map(|change| inner.others(change)).collect();
        let drifted: Vec<_> = changes
            .into_iter()
            .filter(|change| !inner.planned.contains(&change.name))
            .filter_map(|change| Some((Arc::clone(&inner.owners.get(change.source.as_ref()?)?.owner), change)))
            .collect();
        drop(inner);
        self.counts_due.notify_one();
        if is_whole {
            self.synced.send_replace(true);
        }
        check.pass();
        others.iter().for_each(|owner| owner.others_changed());
        for (owner, change) in drifted {
            owner.drifted(&change.name, change.writer.as_deref());
        }
        went_back
    }
}

/// What a list has shown so far, by name, with the field manager that wrote it last.
type ListedObjects = BTreeMap<Arc<str>, (Stored, Option<String>)>;

/// What an event has done.
#[derive(Default)]
pub(super) struct ObjectChanges {
    changes: Vec<Changed>,
    went_back: Option<(ResourceVersion, ResourceVersion)>,
    /// Every object was seen.
    is_whole: bool,
}

impl From<Option<Changed>> for ObjectChanges {
    fn from(change: Option<Changed>) -> Self {
        Self { changes: change.into_iter().collect(), ..Self::default() }
    }
}

impl Index<HyperNode> for ObservedState {
    type List = ListedObjects;
    type Change = ObjectChanges;

    fn begin(&mut self, earlier: Earlier) -> ListedObjects {
        self.lists += 1;
        // A list that broke off has replaced nothing.
        self.earlier = if self.earlier == Some(Earlier::Void) { self.earlier } else { Some(earlier) };
        ListedObjects::new()
    }

    fn list(&mut self, list: &mut ListedObjects, object: HyperNode) {
        let stored = stored(&object);
        list.insert(Arc::clone(&stored.object.name), (stored, last_writer(&object)));
    }

    fn reset(&mut self, list: ListedObjects, version: &ResourceVersion) -> ObjectChanges {
        let replaces_all = self.earlier.take() == Some(Earlier::Void);
        // What was written since the list was made is newer.
        let stays = |known: &Stored| !replaces_all && version.is_older_than(&known.object.resource_version);
        let lists = self.lists;
        self.gone.retain(|_, list| *list == lists);
        let unlisted = self.objects.iter().filter(|(name, known)| !list.contains_key(*name) && !stays(known));
        let unlisted: Vec<Arc<str>> = unlisted.map(|(name, _)| Arc::clone(name)).collect();
        let mut step = ObjectChanges { is_whole: true, ..ObjectChanges::default() };
        step.changes.extend(unlisted.iter().filter_map(|name| self.remove(name)));
        for (name, (stored, writer)) in list {
            if self.gone.contains_key(&stored.object.uid) || self.objects.get(&name).is_some_and(stays) {
                continue;
            }
            let listed = &stored.object;
            let known = self.objects.get(&name).map(|known| &known.object).filter(|known| known.uid == listed.uid);
            let back =
                known.filter(|known| !replaces_all && listed.resource_version.is_older_than(&known.resource_version));
            if let Some(known) = back {
                step.went_back = Some((known.resource_version.clone(), listed.resource_version.clone()));
            }
            step.changes.extend(self.enter(stored, writer));
        }
        step
    }

    fn apply(&mut self, object: HyperNode) -> ObjectChanges {
        self.put(&object).into()
    }

    fn delete(&mut self, object: HyperNode) -> ObjectChanges {
        let uid = convert::uid(&object.metadata);
        let name = object.metadata.name.unwrap_or_default();
        self.gone.remove(&uid);
        // A late event about an object that was created again under its name is not about the present one.
        match self.objects.get(name.as_str()) {
            Some(stored) if stored.object.uid == uid => self.remove(&name).into(),
            _ => ObjectChanges::default(),
        }
    }
}

/// An object whose content is not what we knew.
pub(super) struct Changed {
    /// The source that it belongs to.
    source: Option<SourceName>,
    name: Arc<str>,
    /// The field manager that changed it, if the object names it.
    writer: Option<String>,
}

impl ObservedState {
    /// The sources that the object is not of.
    fn others(&self, change: &Changed) -> Vec<Arc<dyn Owner>> {
        let others = self.owners.iter().filter(|(source, _)| change.source.as_ref() != Some(source));
        others.map(|(_, owned)| Arc::clone(&owned.owner)).collect()
    }

    /// Enters an object, unless what is known is newer. Answers when content that decisions look at differs from what
    /// we knew.
    fn put(&mut self, from: &HyperNode) -> Option<Changed> {
        let stored = stored(from);
        if self.gone.contains_key(&stored.object.uid) {
            return None;
        }
        let old = self.objects.get(&stored.object.name);
        if old.is_some_and(|old| stored.object.resource_version.is_older_than(&old.object.resource_version)) {
            return None;
        }
        self.enter(stored, last_writer(from))
    }

    /// Enters an object in place of what is known.
    fn enter(&mut self, stored: Stored, writer: Option<String>) -> Option<Changed> {
        let object = &stored.object;
        let name = Arc::clone(&object.name);
        let old = self.objects.get(&name);
        let same = old.is_some_and(|old| {
            let old = &*old.object;
            old.uid == object.uid
                && old.spec == object.spec
                && old.labels == object.labels
                && old.source == object.source
                && old.group_id == object.group_id
                && old.split_from == object.split_from
                && old.description == object.description
                && old.owned_labels == object.owned_labels
                && old.shared_labels == object.shared_labels
        });
        let source = old.and_then(|old| old.object.source.clone()).or_else(|| object.source.clone());
        let change = (!same).then(|| Changed { source, name: Arc::clone(&name), writer });
        if !same {
            self.index.put(object);
        }
        self.status_due.insert(Arc::clone(&name));
        self.observed = None;
        self.objects.insert(name, stored);
        change
    }

    /// The objects that a plan under execution still has to write, and everything above them.
    pub(super) fn in_motion(&mut self) -> BTreeSet<Arc<str>> {
        let mut moving = self.index.with_ancestors(&self.planned);
        moving.extend(self.planned.iter().cloned());
        moving
    }

    /// Whether the status of an object is ours to write. `own` leaves out what belongs to no source that runs here.
    pub(super) fn is_counted(&self, object: &Object, own: bool) -> bool {
        match object.source.as_ref().and_then(|source| self.owners.get(source)) {
            Some(owned) => owned.upkeep == Upkeep::Written,
            None => !own,
        }
    }

    fn remove(&mut self, name: &str) -> Option<Changed> {
        let stored = self.objects.remove(name)?;
        self.observed = None;
        self.index.delete(name);
        self.status_due.remove(name);
        let object = &stored.object;
        Some(Changed { source: object.source.clone(), name: Arc::clone(&object.name), writer: None })
    }
}

/// An object as it is stored.
fn stored(from: &HyperNode) -> Stored {
    let status = from.status.as_ref();
    Stored {
        object: Arc::new(convert::object(from)),
        node_count: status.and_then(|status| status.node_count),
        conditions: status.map(|status| status.conditions.clone()).unwrap_or_default(),
    }
}

/// The field manager of the newest entry that is not about status. It may be ours: another topoloom.
fn last_writer(object: &HyperNode) -> Option<String> {
    let entries = object.metadata.managed_fields.as_deref().unwrap_or_default();
    let newest = entries
        .iter()
        .filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty())
        .max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    newest.manager.clone()
}

#[cfg(test)]
mod tests;
