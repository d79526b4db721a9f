//! What is known of the pods of a binding in both clusters, as a plain value.
//!
//! A physical pod of ours is a *row*: its UID, its version, the virtual pod that it names, and a digest of what can be mirrored
//! (decision S21). So is a virtual pod. A row of a physical pod is *at rest* where nothing is left to do for exactly this pair of
//! digests; then no text of it is held. Texts of physical pods that are not at rest, and of virtual pods that wait for a look or were
//! at rest last, are on [shelves](Shelf) of a fixed size: a text that is not there is read live. At rest 10 000 pairs take some ten MiB, and
//! never more than the shelves beside that. A pod may be shown without its text, where that was taken before or found no room: its
//! digest is not known then, and it is read live before it is at rest.
//!
//! Owns which pods have to be looked at after each event, and since when each virtual pod has been seen to terminate, by a time
//! that each caller brings along. Never decides what follows from a look.
//!
//! # Failure story
//!
//! Events come late, twice, and in any order between the two clusters. An event that is older than an answer that was read is
//! ignored, and so is an answer about a pod that its watch does not show: it may have gone before the answer came. A physical pod
//! outside of the namespace of the binding is none of its pods, whatever its labels are: a lender may have copied a manifest. The
//! last state of a physical pod that is gone is kept until it was mirrored, where it is final: a Job counts a pod
//! whose end was not seen as failed. A new list, and a server that was set back, make first looks at orphans void.

mod ends;
mod left;
mod once;
mod rest;
mod strays;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use topoloom_cluster::watched::Earlier as History;
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::version::ResourceVersion;
use topoloom_sync::identity::{Earlier, Identity, Ownership};
use topoloom_sync::naming::{ClusterId, NODE_PREFIX};
use topoloom_sync::phase::Phase;
use topoloom_sync::pods::{Adopted, Looks, ORPHAN_DELAY};
use topoloom_sync::projection::Refusals;

pub(super) use self::ends::EndSight;
use self::left::Left;
use self::once::Names;
pub(super) use self::strays::Stray;
use self::strays::Strays;
use super::key::PodKey;
use super::shelf::{Expected, Shelf, TwinTexts, Waits};
use crate::pod_state::{Digest, PodState};
use crate::slices::pod::PodName;

/// How many bytes of physical pods that are not at rest are held.
const STATUSES: usize = 64 << 20;
/// The same of virtual pods: those of 30 000 of the usual size, all of which a replica looks at when it takes a binding over.
const TWINS: usize = 64 << 20;
/// How many bytes of virtual pods at rest are held: the last 6 000 of the usual size, so that those that are being started need no read.
const RESTED: usize = 12 << 20;
/// How many orphans are remembered. Those beyond wait until others are gone.
const ORPHANS: usize = 10_000;
/// How many refused writes are remembered.
const REFUSED: usize = 10_000;
/// How many UIDs of bindings that are gone are remembered.
const GONE_BINDINGS: usize = 100;
/// How many names of virtual nodes may be held that no pod is on any more.
const NODES: usize = 1_000;

/// The pods of a binding.
#[derive(Debug)]
pub(super) struct Book {
    identity: Identity,
    /// How the names of all its virtual nodes begin.
    prefix: String,
    /// `spec.mountNamespace`: where its physical pods are.
    mount: String,
    copied: Arc<BTreeSet<String>>,
    orphan_delay: Duration,
    /// Each row of these two in a box: a table has room for more rows than it holds.
    physical: HashMap<PodName, Box<PhysicalRow>>,
    twins: HashMap<PodName, Box<TwinRow>>,
    /// The physical pod that names a virtual one, by the name of that.
    bearers: HashMap<PodName, PodName>,
    /// The names of the virtual nodes that had pods.
    nodes: HashSet<NodeName>,
    left: Left,
    statuses: Shelf,
    texts: TwinTexts,
    twins_listed: Listed,
    /// Virtual pods whose physical pod is not followed any more.
    strays: Strays,
    pub(super) looks: Looks,
    pub(super) refusals: Refusals,
    /// Bindings that a live list did not have. No later one can have their UIDs.
    gone_bindings: BTreeSet<Uid>,
    /// The time, by a clock that cannot be set.
    now: Duration,
    /// How many physical pods were shown without a text, since this was asked for.
    pub(super) unread: usize,
    /// The same of virtual pods.
    pub(super) unread_twins: usize,
}

/// Whether a pod is shown with all that is copied of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    /// It is.
    Read,
    /// Only who it is, whom it names, and its phase is known.
    Unread,
}

/// Whether there was a whole list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Listed {
    Yes,
    No,
}

/// A physical pod of ours.
#[derive(Debug)]
struct PhysicalRow {
    uid: Uid,
    version: ResourceVersion,
    /// Unless it was shown without a text.
    digest: Option<Digest>,
    phase: Option<Phase>,
    /// The virtual pod that it names, and its UID.
    twin: Option<(PodName, Uid)>,
    presence: Presence,
    done: Option<Done>,
    /// When the first state was shown that its virtual pod does not have yet.
    shown: Option<Instant>,
    /// Whether it is of an earlier binding, and was adopted.
    adopted: Adopted,
}

/// Whether a physical pod is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is.
    There,
    /// It is gone, and its end was not mirrored yet.
    Gone,
}

/// For which state of both pods nothing is left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Done {
    physical: Digest,
    twin: Option<TwinSeen>,
}

/// A virtual pod, as far as a look at its physical one depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TwinSeen {
    digest: Option<Digest>,
    mapped: Mapped,
}

/// Whether two pods name each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mapped {
    Yes,
    No,
}

impl From<bool> for Mapped {
    fn from(is_so: bool) -> Self {
        if is_so { Self::Yes } else { Self::No }
    }
}

/// A virtual pod on one of our nodes.
#[derive(Debug)]
struct TwinRow {
    uid: Uid,
    version: ResourceVersion,
    /// Unless it was shown without a text.
    digest: Option<Digest>,
    /// The physical pod that it names, and the UID where it names one.
    back: Option<(PodName, Option<Uid>)>,
    /// The virtual node that it is on.
    node: NodeName,
    /// Its end, where it terminates.
    ending: Option<Box<Ending>>,
    /// The final phase in which its physical pod went.
    seen: Option<Phase>,
}

/// The end of a virtual pod. In a box, since few pods terminate.
#[derive(Debug)]
struct Ending {
    /// Its `deletionTimestamp`.
    deletion: Timestamp,
    /// Its `deletionGracePeriodSeconds`.
    grace: Option<i64>,
    /// Since when it has been seen to terminate.
    since: Duration,
}

/// What is known of a physical pod for one look.
#[derive(Debug)]
pub(super) struct Sight {
    /// Whether it is there.
    pub(super) presence: Presence,
    /// Whether there is nothing to do.
    pub(super) is_at_rest: bool,
    /// Its text, where that is held.
    pub(super) text: Option<Arc<str>>,
    /// Its virtual pod.
    pub(super) twin: TwinSight,
}

/// What is known of its virtual pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TwinSight {
    /// Virtual pods have not been listed.
    Unlisted,
    /// There is none under the name that the physical pod gives.
    Absent,
    /// This one.
    Held(Arc<str>),
    /// There is one of this name, whose text is not held.
    Unheld(PodName),
}

/// Whether what is known is what was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rested {
    /// It is, as far as it is known.
    Yes,
    /// One of the two pods has changed meanwhile.
    No,
}

impl Book {
    /// Nothing is known yet.
    pub(super) fn new(identity: Identity, cluster: &ClusterId, mount: &str) -> Self {
        Self {
            identity,
            prefix: format!("{NODE_PREFIX}{cluster}-"),
            mount: mount.to_owned(),
            copied: Arc::default(),
            orphan_delay: ORPHAN_DELAY,
            physical: HashMap::new(),
            twins: HashMap::new(),
            bearers: HashMap::new(),
            nodes: HashSet::new(),
            left: Left::default(),
            statuses: Shelf::new(STATUSES),
            texts: TwinTexts::new(TWINS, RESTED),
            twins_listed: Listed::No,
            strays: Strays::default(),
            looks: Looks::new(ORPHANS),
            refusals: Refusals::new(REFUSED),
            gone_bindings: BTreeSet::new(),
            now: Duration::ZERO,
            unread: 0,
            unread_twins: 0,
        }
    }

    /// It is this time, by a clock that cannot be set.
    pub(super) fn at(&mut self, now: Duration) {
        self.now = now;
    }

    /// `spec.copy.podMetadata` and `spec.timing.orphanDelay`. Whether one of them is another one now.
    pub(super) fn configure(&mut self, copied: BTreeSet<String>, orphan_delay: Duration) -> bool {
        let is_other_delay = std::mem::replace(&mut self.orphan_delay, orphan_delay) != orphan_delay;
        let has_other_keys = *self.copied != copied;
        if has_other_keys {
            // What is held, and what the digests are of, has other keys.
            self.copied = Arc::new(copied);
            self.statuses.clear();
            self.texts.clear();
            self.physical.values_mut().for_each(|row| row.done = None);
            // What is read next counts, also in the same version.
            self.twins.values_mut().for_each(|row| row.version = ResourceVersion::default());
        }
        is_other_delay || has_other_keys
    }

    /// The keys of labels and annotations that belong to the physical side.
    pub(super) fn copied(&self) -> &Arc<BTreeSet<String>> {
        &self.copied
    }

    /// How far two looks at an orphan are apart.
    pub(super) fn orphan_delay(&self) -> Duration {
        self.orphan_delay
    }

    /// A list of the physical pods begins. Returns what has to be looked at.
    pub(super) fn physical_begin(&mut self, history: History) -> Vec<PodKey> {
        self.looks.clear();
        match history {
            History::Valid => Vec::new(),
            History::Void => {
                let names: Vec<PodName> = self.physical.keys().cloned().collect();
                // An end that was seen will not be seen again.
                self.physical.retain(|_, row| row.presence == Presence::Gone);
                self.physical.values_mut().for_each(|row| row.version = ResourceVersion::default());
                self.bearers.retain(|_, physical| self.physical.contains_key(&*physical));
                let forgotten = names.iter().filter(|name| !self.physical.contains_key(*name));
                forgotten.for_each(|name| self.statuses.remove(name));
                self.forget_answers();
                names.into_iter().map(PodKey::Physical).collect()
            }
        }
    }

    /// A list of the virtual pods begins.
    pub(super) fn twins_begin(&mut self, history: History) {
        self.looks.clear();
        match history {
            History::Valid => {}
            History::Void => {
                self.twins.clear();
                self.left = Left::default();
                self.texts.clear();
                self.strays = Strays::default();
                self.twins_listed = Listed::No;
                self.forget_answers();
            }
        }
    }

    fn forget_answers(&mut self) {
        self.refusals = Refusals::new(REFUSED);
        self.gone_bindings.clear();
    }

    /// Whether a physical pod with these labels, in this namespace, is one of ours.
    pub(super) fn owns(&self, labels: &BTreeMap<String, String>, namespace: &str) -> bool {
        match Ownership::of(labels, &self.identity) {
            Ownership::Ours | Ownership::OursOfEarlierBinding(_) => namespace == self.mount,
            Ownership::Foreign(_) | Ownership::None => false,
        }
    }

    /// A physical pod is as it is now. Returns what has to be looked at.
    pub(super) fn physical(&mut self, pod: &PodState) -> Vec<PodKey> {
        self.enter(pod, Content::Read)
    }

    /// The same of one that is shown without its text ([`PodState::unread`]).
    pub(super) fn physical_unread(&mut self, pod: &PodState) -> Vec<PodKey> {
        self.enter(pod, Content::Unread)
    }

    fn enter(&mut self, pod: &PodState, content: Content) -> Vec<PodKey> {
        let Names { name, uid, other: twin } = self.names_of_physical(pod);
        let version = pod.version();
        if !self.owns(&pod.labels, &pod.namespace) {
            return self.not_ours(&name);
        }
        let known = self.physical.get(&name).filter(|row| row.uid == uid);
        if known.is_some_and(|row| version.is_older_than(&row.version)) {
            return Vec::new();
        }
        if content == Content::Unread {
            // What is known of this very version is all that there is to know.
            if known.is_some_and(|row| row.version == version && row.digest.is_some()) {
                return self.unrested([name].into());
            }
            self.unread += 1;
        }
        let (done, shown, adopted) = known.map_or((None, None, Adopted::No), |row| (row.done, row.shown, row.adopted));
        let is_first = !self.physical.contains_key(&name);
        if known.is_none() {
            // Another pod had the name.
            self.forget_physical(&name);
        }
        if let Some((twin, _)) = &twin {
            self.bearers.insert(twin.clone(), name.clone());
        }
        let (digest, phase) = ((content == Content::Read).then(|| pod.digest()), pod.phase());
        let row = PhysicalRow { uid, version, digest, phase, twin, presence: Presence::There, done, shown, adopted };
        self.physical.insert(name.clone(), Box::new(row));
        self.strays.shown(&name);
        let is_settled = is_first && content == Content::Read && self.settle(&name, pod);
        if self.is_at_rest(&name) {
            let is_late = is_settled && phase != Some(Phase::Pending);
            self.rests(&name, if is_late { Expected::Late } else { Expected::Soon });
            return Vec::new();
        }
        match pod.text().filter(|_| content == Content::Read) {
            Some(text) => self.statuses.put(&name, text),
            None => self.statuses.remove(&name),
        }
        vec![PodKey::Physical(name)]
    }

    /// The watch has shown these at this time.
    pub(super) fn were_shown(&mut self, looks: &[PodKey], now: Instant) {
        for look in looks {
            if let PodKey::Physical(name) = look
                && let Some(row) = self.physical.get_mut(name)
            {
                row.shown.get_or_insert(now);
            }
        }
    }

    /// When the state of a physical pod was shown that is written to its virtual one now. What is shown from now on is newer.
    pub(super) fn take_shown(&mut self, name: &PodName) -> Option<Instant> {
        self.physical.get_mut(name)?.shown.take()
    }

    /// It could not be written: it is as old as it was.
    pub(super) fn put_shown(&mut self, name: &PodName, shown: Option<Instant>) {
        if let Some(row) = self.physical.get_mut(name) {
            row.shown = shown.or(row.shown);
        }
    }

    /// A physical pod is not ours. One that was ours is looked at once more: something may have been asked for about it.
    pub(super) fn not_ours(&mut self, name: &PodName) -> Vec<PodKey> {
        let was_ours = self.physical.contains_key(name);
        self.lose(name);
        self.forget_physical(name);
        if was_ours { vec![PodKey::Physical(name.clone())] } else { Vec::new() }
    }

    /// A physical pod is gone; this was its last state, where that is known.
    pub(super) fn physical_gone(&mut self, name: &PodName, uid: &Uid, last: Option<&PodState>) -> Vec<PodKey> {
        if self.physical.get(name).is_none_or(|row| row.uid != *uid) {
            return Vec::new();
        }
        if let Some(last) = last {
            // What it says beside that follows below.
            drop(self.physical(last));
        }
        let is_at_rest = self.is_at_rest(name);
        // Also where nothing is left to know of it: what was asked for about it is withdrawn then.
        let mut looks = vec![PodKey::Physical(name.clone())];
        let Some(row) = self.physical.get_mut(name) else { return looks };
        let end = row.phase.filter(|phase| phase.is_final());
        if let Some((twin, twin_uid)) = &row.twin
            && let Some(twin_row) = self.twins.get_mut(twin).filter(|known| known.uid == *twin_uid)
        {
            twin_row.seen = end.or(twin_row.seen);
            self.left.remove(&twin_row.node, twin);
            if twin_row.ending.is_some() {
                looks.push(PodKey::Ending(twin.clone()));
            }
        }
        if end.is_some() && !is_at_rest && self.statuses.get(name).is_some() {
            row.presence = Presence::Gone;
        } else {
            if end.is_none() {
                self.lose(name);
            }
            self.forget_physical(name);
        }
        looks
    }

    /// The physical pods were listed: what is not among these is gone.
    pub(super) fn physical_listed(&mut self, seen: &HashSet<Uid>) -> Vec<PodKey> {
        let gone = self.physical.iter().filter(|(_, row)| !seen.contains(&row.uid));
        let gone: Vec<(PodName, Uid)> = gone.map(|(name, row)| (name.clone(), row.uid.clone())).collect();
        gone.into_iter().flat_map(|(name, uid)| self.physical_gone(&name, &uid, None)).collect()
    }

    /// Nothing is left to know of a physical pod.
    pub(super) fn forget_physical(&mut self, name: &PodName) {
        let Some(row) = self.physical.remove(name) else { return };
        self.statuses.remove(name);
        self.looks.forget(&row.uid);
        if let Some((twin, _)) = row.twin
            && self.bearers.get(&twin) == Some(name)
        {
            self.bearers.remove(&twin);
        }
    }

    /// The physical cluster was not seen for a while: what is held of its pods is as old as that. An end that was seen stays one.
    pub(super) fn forget_texts(&mut self) {
        let there = self.physical.iter().filter(|(_, row)| row.presence == Presence::There);
        there.for_each(|(name, _)| self.statuses.remove(name));
    }

    /// In which version this physical pod is known.
    pub(super) fn physical_version(&self, name: &PodName, uid: &Uid) -> Option<ResourceVersion> {
        self.physical.get(name).filter(|row| row.uid == *uid).map(|row| row.version.clone())
    }

    /// In which version this virtual pod is known.
    pub(super) fn twin_version(&self, name: &PodName, uid: &Uid) -> Option<ResourceVersion> {
        self.twins.get(name).filter(|row| row.uid == *uid).map(|row| row.version.clone())
    }

    /// This physical pod of an earlier binding is ours from now on.
    pub(super) fn adopt(&mut self, name: &PodName, uid: &Uid) {
        if let Some(row) = self.physical.get_mut(name).filter(|row| row.uid == *uid) {
            row.adopted = Adopted::Yes;
        }
    }

    /// Whether that was so.
    pub(super) fn adopted(&self, name: &PodName, uid: &Uid) -> Adopted {
        self.physical.get(name).filter(|row| row.uid == *uid).map(|row| row.adopted).unwrap_or_default()
    }

    /// Whether a physical pod of this name is known.
    pub(super) fn knows(&self, name: &PodName) -> bool {
        self.physical.contains_key(name)
    }

    /// Whether a virtual node of this name may be ours, as far as the beginning of its name says: pods are shown before their nodes.
    /// Whether it is, the view knows.
    pub(super) fn may_be_lent(&self, node: &str) -> bool {
        node.starts_with(&self.prefix)
    }

    /// The answer to a read shows a physical pod. Whether it is the one that is known: another one is the watch's to show, and
    /// where there is none it may be gone since.
    pub(super) fn answer_physical(&mut self, pod: &PodState) -> bool {
        let is_known = self.physical.get(&pod.pod_name()).is_some_and(|row| row.uid == pod.uid());
        if is_known {
            // What has to be looked at because of it is this pod, and its look has asked.
            let _this: Vec<PodKey> = self.physical(pod);
        }
        is_known
    }

    /// The answer to a read or a write shows a virtual pod, which counts where it is the one that is known. Returns what has to
    /// be looked at.
    pub(super) fn answer(&mut self, pod: &PodState) -> Vec<PodKey> {
        let is_known = self.twins.get(&pod.pod_name()).is_some_and(|row| row.uid == pod.uid());
        if is_known { self.twin(pod) } else { Vec::new() }
    }

    /// A virtual pod is as it is now. Returns what has to be looked at.
    pub(super) fn twin(&mut self, pod: &PodState) -> Vec<PodKey> {
        self.enter_twin(pod, Content::Read)
    }

    /// The same of one that is shown without its text.
    pub(super) fn twin_unread(&mut self, pod: &PodState) -> Vec<PodKey> {
        self.enter_twin(pod, Content::Unread)
    }

    fn enter_twin(&mut self, pod: &PodState, content: Content) -> Vec<PodKey> {
        let Names { name, uid, other: back } = self.names_of_twin(pod);
        let version = pod.version();
        if !self.may_be_lent(&pod.node) {
            return self.twin_gone(&name, &uid);
        }
        let before = self.twins.get(&name).and_then(|row| row.back.clone());
        let known = self.twins.get(&name).filter(|row| row.uid == uid);
        let is_same = |row: &TwinRow| version == row.version && (row.digest.is_some() || content == Content::Unread);
        if known.is_some_and(|row| is_same(row) || version.is_older_than(&row.version)) {
            return Vec::new();
        }
        self.unread_twins += usize::from(content == Content::Unread);
        let known = self.twins.get(&name).filter(|row| row.uid == uid);
        let digest = (content == Content::Read).then(|| pod.digest());
        let known_end = known.and_then(|row| row.ending.as_deref());
        let since = known_end.map_or(self.now, |end| end.since);
        let is_same_end = known_end.map(|end| end.deletion) == pod.ending()
            && known.is_some_and(|row| !self.left.has(&row.node, &name));
        let ending = pod.ending().map(|deletion| Box::new(Ending { deletion, grace: pod.grace, since }));
        let is_new_end = ending.is_some() && !is_same_end;
        let seen = known.and_then(|row| row.seen);
        let is_read = back.is_some() || self.bearers.contains_key(&name) || ending.is_some();
        let related = self.related(&name, [before, back.clone()]);
        // Pods of one node share its name.
        let node = self.nodes.get(pod.node.as_str()).cloned().unwrap_or_else(|| pod.node.as_str().into());
        self.nodes.insert(node.clone());
        let row = TwinRow { uid, version, digest, back, node, ending, seen };
        if let Some(before) = self.twins.insert(name.clone(), Box::new(row)) {
            self.left.remove(&before.node, &name);
        }
        let waits = if self.are_at_rest(&related) && !is_new_end { Waits::No } else { Waits::Yes };
        match pod.text().filter(|_| is_read && content == Content::Read) {
            Some(text) => self.texts.put(&name, text, waits),
            None => self.texts.remove(&name),
        }
        let mut looks = self.unrested(related);
        if is_new_end {
            looks.push(PodKey::Ending(name));
        }
        looks
    }

    /// A virtual pod is gone.
    pub(super) fn twin_gone(&mut self, name: &PodName, uid: &Uid) -> Vec<PodKey> {
        let Some(row) = self.twins.get(name).filter(|row| row.uid == *uid) else { return Vec::new() };
        let related = self.related(name, [row.back.clone(), None]);
        self.left.remove(&row.node, name);
        self.twins.remove(name);
        self.strays.gone(uid);
        self.forget_nodes();
        self.texts.remove(name);
        self.refusals.forget(uid);
        self.unrested(related)
    }

    /// Machines that come and go have new names each time. Those that no pod is on are forgotten once there are many of them.
    fn forget_nodes(&mut self) {
        if self.nodes.len() > self.twins.len().saturating_add(NODES) {
            self.nodes = self.twins.values().map(|row| row.node.clone()).collect();
        }
    }

    /// The virtual pods were listed: what is not among these is gone.
    pub(super) fn twins_listed(&mut self, seen: &HashSet<Uid>) -> Vec<PodKey> {
        let gone = self.twins.iter().filter(|(_, row)| !seen.contains(&row.uid));
        let gone: Vec<(PodName, Uid)> = gone.map(|(name, row)| (name.clone(), row.uid.clone())).collect();
        let looks: Vec<PodKey> = gone.into_iter().flat_map(|(name, uid)| self.twin_gone(&name, &uid)).collect();
        match std::mem::replace(&mut self.twins_listed, Listed::Yes) {
            Listed::Yes => looks,
            // Until now the absence of a virtual pod meant nothing.
            Listed::No => self.unrested(self.physical.keys().cloned().collect()),
        }
    }

    /// Everything that is not at rest.
    pub(super) fn waiting(&self) -> Vec<PodKey> {
        let twins = self.twins.iter();
        let ending = twins.filter(|(name, row)| row.ending.is_some() && !self.left.has(&row.node, name));
        let ending = ending.map(|(name, _)| PodKey::Ending(name.clone()));
        self.unrested(self.physical.keys().cloned().collect()).into_iter().chain(ending).collect()
    }

    /// What is known of a physical pod; `None` where there is none of ours under this name.
    pub(super) fn sight(&self, name: &PodName) -> Option<Sight> {
        let row = self.physical.get(name)?;
        Some(Sight {
            presence: row.presence,
            is_at_rest: self.is_at_rest(name),
            text: self.statuses.get(name).cloned(),
            twin: self.twin_sight(name, row),
        })
    }

    fn twin_sight(&self, name: &PodName, row: &PhysicalRow) -> TwinSight {
        let found = match &row.twin {
            Some((twin, _)) => self.twins.contains_key(twin).then_some(twin),
            // It does not say which virtual pod it belongs to: one may name it.
            None => self.twins.iter().find(|(_, twin)| twin.names(name, &row.uid)).map(|(twin, _)| twin),
        };
        match (found, self.twins_listed) {
            (Some(twin), _) => match self.texts.get(twin) {
                Some(text) => TwinSight::Held(Arc::clone(text)),
                None => TwinSight::Unheld(twin.clone()),
            },
            (None, Listed::Yes) => TwinSight::Absent,
            (None, Listed::No) => TwinSight::Unlisted,
        }
    }

    /// A live read found no physical pod of this name. What is gone is not waited for; all else its watch shows.
    pub(super) fn not_found(&mut self, name: &PodName) {
        if self.physical.get(name).is_some_and(|row| row.presence == Presence::Gone) {
            self.forget_physical(name);
        }
    }

    /// When the second look at an orphan is due, or was; never where it was not looked at first.
    pub(super) fn second_look(&self, pod: &Uid, now: Duration) -> Duration {
        self.looks.first(pod, now).map_or(Duration::MAX, |look| look.first.saturating_add(self.orphan_delay))
    }

    /// What is known of the binding whose UID a physical pod has, and of all bindings by a live list, where one was made.
    pub(super) fn earlier(&mut self, binding: Option<&str>, listed: Option<&BTreeSet<Uid>>) -> Earlier {
        let Some(binding) = binding else { return Earlier::Unlisted };
        if self.gone_bindings.contains(binding) {
            return Earlier::Gone;
        }
        match listed {
            None => Earlier::Unlisted,
            Some(listed) if listed.contains(binding) => Earlier::Stands,
            Some(_) => {
                if self.gone_bindings.len() < GONE_BINDINGS {
                    self.gone_bindings.insert(binding.into());
                }
                Earlier::Gone
            }
        }
    }

    /// How many bytes of texts of physical pods are held.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.statuses.used()
    }

    /// No text is held any more, as where others found no room.
    #[cfg(test)]
    pub(super) fn drop_texts(&mut self) {
        self.statuses.clear();
        self.texts.clear();
    }

    /// The physical pods that a virtual one has to do with: those that it names or named, and the one that names it.
    fn related(&self, name: &PodName, backs: [Option<(PodName, Option<Uid>)>; 2]) -> BTreeSet<PodName> {
        let named = backs.into_iter().flatten().map(|(physical, _)| physical);
        named.chain(self.bearers.get(name).cloned()).collect()
    }

    /// Those of these physical pods that are not at rest.
    fn unrested(&self, names: BTreeSet<PodName>) -> Vec<PodKey> {
        let is_known = |name: &PodName| self.physical.contains_key(name) && !self.is_at_rest(name);
        names.into_iter().filter(is_known).map(PodKey::Physical).collect()
    }
}

impl TwinRow {
    /// Whether it names this physical pod. A UID that is not known yet does not exclude one.
    fn names(&self, name: &PodName, uid: &Uid) -> bool {
        self.back.as_ref().is_some_and(|(back, named)| back == name && named.as_ref().is_none_or(|named| named == uid))
    }
}

#[cfg(test)]
mod tests;
