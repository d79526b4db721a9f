//! The three-way merge of what a virtual node carries: labels, annotations, taints and the cordon (`bottomup-syncer.md`
//! 6.6, decisions S10, S12 and S22).
//!
//! Three things are compared: what the syncer wanted when it wrote last (read from the annotation
//! [`keys::EXPECTED_METADATA`] of the node itself, so that a restart forgets nothing), what it wants now, and what is
//! there. A key that it wants gets the wanted value. A key that it wanted, and no longer wants, goes. Every other key
//! belongs to another client and stays as it is.
//!
//! This room owns that comparison and the format of the annotation. It never decides what is wanted, and it never touches
//! a taint that controllers of Kubernetes own, not even one that the annotation names.
//!
//! Failure story: an annotation that cannot be read counts as one that names nothing, and is reported. Then nothing that
//! was copied is removed in that round. The state that only the syncer writes (its own taints, the times of deletion and
//! reclaim) is ours by its key alone, so that a broken annotation cannot leave a node closed for ever.
//!
//! A patch belongs into one request. Where it [changes the spec](MetadataPatch::changes_spec) and a status has to be written, too,
//! [`MetadataPatch::in_two`] gives two requests between which the process may die: the next pass still knows which taints and which
//! cordon were its own. What of it an API server would refuse for the size of all annotations is left out by
//! [`MetadataPatch::fitting`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::copied::{ANNOTATIONS_MAX, Map, is_of_kubernetes};
use super::keys;
use super::taints::{Effect, Taint};
use super::texts::{Keyed, TextMap};
use jiff::Timestamp;
use topoloom_core::names::NodeName;

mod expected;
#[cfg(test)]
mod histories;
mod room;
#[cfg(test)]
mod tests;

pub use expected::{Expected, ExpectedError, decode};
pub use room::INFORMATION;
pub(crate) use room::fitting;

/// Annotations that change with every look. They are written with another change, and never for their own sake.
pub const VOLATILE: [&str; 2] = [keys::LAST_SYNC_TIME, keys::LEASE_SUMMARY];

/// Annotations that no one but the syncer writes: one that is not wanted goes, also if the base does not name it.
const OWN_ANNOTATIONS: [&str; 11] = [
    keys::LAST_SYNC_TIME,
    keys::LEASE_SUMMARY,
    keys::DELETION_TAINT_TIME,
    keys::RECLAIM_STARTED,
    keys::RECLAIM_SINCE,
    keys::RECLAIM_GRACE,
    keys::RECLAIM_MARKED,
    keys::POLICIES_APPLIED,
    keys::POLICY_DETAILS,
    keys::PHYSICAL_NODE_NAME,
    keys::PHYSICAL_NODE_UID,
];

/// Taints that no one but the syncer sets: one that is not wanted goes, also if the base does not name it.
const OWN_TAINTS: [&str; 5] = [
    keys::VNODE_TAINT,
    keys::PHYSICAL_UNSCHEDULABLE_TAINT,
    keys::OUT_OF_WINDOWS_TAINT,
    keys::DELETING_TAINT,
    keys::UNREACHABLE_TAINT,
];

/// The value of [`keys::CORDONED`].
const CORDONED: &str = "true";

/// `spec.unschedulable` of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Cordon {
    /// Pods may be placed on it.
    #[default]
    Open,
    /// No pod may be placed on it.
    Cordoned,
}

/// Whether the syncer wants a node to be cordoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CordonWish {
    /// It does not care. A cordon of its own goes, that of another client stays.
    #[default]
    Leave,
    /// It does, because the node is being deleted.
    Cordon,
}

/// Which time the taint of closed windows gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Stamp {
    /// The one that it has, if it has one: the window closed then, and a second look must not restart the clock.
    #[default]
    Keep,
    /// The wanted one: the stored time is wrong.
    Replace,
}

/// What the syncer wants of a virtual node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Its labels: the copied ones, and ours over them.
    pub labels: BTreeMap<String, String>,
    /// Its annotations, likewise. [`keys::EXPECTED_METADATA`] and [`keys::CORDONED`] are written by the merge itself and
    /// ignored here.
    pub annotations: BTreeMap<String, String>,
    /// Its taints, in the order in which they are written.
    pub taints: Vec<Taint>,
    /// Which time the taint of closed windows gets.
    pub stamp: Stamp,
    /// Whether it is to be cordoned.
    pub cordon: CordonWish,
    /// The types of the conditions that are mirrored to it: the base remembers them, too.
    pub conditions: BTreeSet<String>,
}

/// What a virtual node carries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metadata {
    /// Its labels.
    pub labels: TextMap,
    /// Its annotations.
    pub annotations: TextMap,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// Whether it is cordoned.
    pub cordon: Cordon,
}

impl Metadata {
    /// What the syncer wanted when it wrote this node last.
    ///
    /// # Errors
    /// The annotation is there and cannot be read.
    pub fn base(&self) -> Result<Expected, ExpectedError> {
        self.annotations.get(keys::EXPECTED_METADATA).map_or_else(|| Ok(Expected::default()), |text| decode(text))
    }
}

/// Exactly what changes. All of it fits into one request, since a merge patch of a Node carries metadata and spec.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetadataPatch {
    /// Labels to set, and those to remove (`None`).
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations to set, and those to remove (`None`).
    pub annotations: BTreeMap<String, Option<String>>,
    /// All taints, if they change.
    pub taints: Option<Vec<Taint>>,
    /// `spec.unschedulable`, if it changes.
    pub cordon: Option<Cordon>,
    /// The base between two requests, if the taints change.
    interim: Option<String>,
}

impl MetadataPatch {
    /// Whether it changes taints or the cordon, which a request about a status does not write.
    #[must_use]
    pub fn changes_spec(&self) -> bool {
        self.taints.is_some() || self.cordon.is_some()
    }

    /// The same as two requests: metadata, which can go with a status, and then the spec with the metadata that belongs to
    /// it. Either is `None` if nothing is left for it.
    ///
    /// Until the second is written, the base names the taints that go in it, and the mark of the cordon is as before.
    #[must_use]
    pub fn in_two(mut self) -> (Option<Self>, Option<Self>) {
        let mut spec = Self { taints: self.taints.take(), cordon: self.cordon.take(), ..Self::default() };
        if spec.cordon.is_some() {
            spec.annotations.extend(self.annotations.remove_entry(keys::CORDONED));
        }
        if let Some(interim) = self.interim.take() {
            let last = self.annotations.insert(keys::EXPECTED_METADATA.to_owned(), Some(interim));
            spec.annotations.extend(last.map(|last| (keys::EXPECTED_METADATA.to_owned(), last)));
        }
        let some = |patch: Self| (patch != Self::default()).then_some(patch);
        (some(self), some(spec))
    }

    /// What the node carries afterwards.
    #[must_use]
    pub fn onto(&self, existing: &Metadata) -> Metadata {
        let mut after = existing.clone();
        apply(&self.labels, &mut after.labels);
        apply(&self.annotations, &mut after.annotations);
        if let Some(taints) = &self.taints {
            after.taints.clone_from(taints);
        }
        after.cordon = self.cordon.unwrap_or(after.cordon);
        after
    }
}

fn apply(changes: &BTreeMap<String, Option<String>>, to: &mut TextMap) {
    for (key, value) in changes {
        match value {
            Some(value) => to.insert(&**key, &**value),
            None => to.remove(key),
        };
    }
}

/// What a merge is worth a line for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The base cannot be read and counts as empty: what was copied earlier, and is not wanted any more, stays.
    Base(ExpectedError),
    /// Another client changed or removed one of our labels or annotations. It is set again.
    Reverted(Map, String),
    /// Another client changed or removed one of our taints. It is set again.
    TaintReverted(String),
    /// A taint was wanted that controllers of Kubernetes own. It is left to them.
    NotOurs(String),
    /// The node is cordoned by another client, whose cordon stays.
    CordonOfAnother,
    /// The annotations of other clients leave no room for all of ours.
    Crowded {
        /// The virtual node.
        node: NodeName,
        /// How many bytes they have.
        bytes: usize,
        /// The key of the largest one.
        largest: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base(why) => write!(
                f,
                "annotation {} {why}; until it is written again, keys that are no longer wanted stay on the node",
                keys::EXPECTED_METADATA
            ),
            Self::Reverted(map, key) => write!(f, "another client changed {key:?} in the {map}; it is set again"),
            Self::TaintReverted(taint) => write!(f, "another client changed the taint {taint}; it is set again"),
            Self::NotOurs(taint) => write!(f, "the taint {taint} belongs to Kubernetes and is not set"),
            Self::CordonOfAnother => f.write_str("another client cordoned the node; its cordon stays"),
            Self::Crowded { node, bytes, largest } => write!(
                f,
                "annotations of other clients have {bytes} bytes on node {node}, and all together must have at most \
                 {ANNOTATIONS_MAX}: none is copied from the machine, and {} are left out. Remove some, the largest one with \
                 `kubectl annotate node {node} {largest}-`",
                INFORMATION.join(", ")
            ),
        }
    }
}

/// What a merge gives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Merge {
    /// What has to be written, with the volatile keys; `None` where nothing but those differs.
    pub patch: Option<MetadataPatch>,
    /// Volatile keys that differ, for a caller that has a status to write and no patch.
    pub riders: BTreeMap<String, Option<String>>,
    /// What an operator may want to see.
    pub notes: Vec<Note>,
}

/// Merges what is wanted into what is there. For a node that is to be created, `existing` is empty.
#[must_use]
pub fn merge(wanted: &Wanted, existing: &Metadata) -> Merge {
    let mut out = Merge::default();
    let base = existing.base().unwrap_or_else(|error| {
        out.notes.push(Note::Base(error));
        Expected::default()
    });
    let taints = wanted_taints(wanted, existing, &mut out.notes);
    let annotations = wanted_annotations(wanted, existing);
    let labels: BTreeMap<&str, &str> =
        wanted.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let expected = Expected::of(&labels, &annotations, &taints, &wanted.conditions);
    // The same wish as last time: what differs now was changed by another client.
    let same_wish = expected.hash == base.hash;

    let mut patch = MetadataPatch {
        labels: difference(&labels, &existing.labels, |key| {
            base.labels.contains(key) || key == keys::PHYSICAL_NODE_INNER_IP
        }),
        annotations: difference(&annotations, &existing.annotations, |key| {
            base.annotations.contains(key) || OWN_ANNOTATIONS.contains(&key)
        }),
        ..MetadataPatch::default()
    };
    for key in VOLATILE {
        if let Some((key, value)) = patch.annotations.remove_entry(key) {
            out.riders.insert(key, value);
        }
    }
    if same_wish {
        let reverted = |map, changes: &BTreeMap<String, Option<String>>| {
            changes.keys().map(move |key| Note::Reverted(map, key.clone())).collect::<Vec<_>>()
        };
        out.notes.extend(reverted(Map::Labels, &patch.labels));
        out.notes.extend(reverted(Map::Annotations, &patch.annotations));
        let there: BTreeSet<_> = existing.taints.iter().map(|taint| (taint.id(), &taint.value)).collect();
        let changed = taints.iter().filter(|taint| !there.contains(&(taint.id(), &taint.value)));
        out.notes.extend(changed.map(|taint| Note::TaintReverted(taint.to_string())));
    }
    patch.taints = merged_taints(&taints, existing, &base);
    cordon(wanted.cordon, existing, &mut patch, &mut out.notes);

    let text = expected.encode();
    if patch.taints.is_some() {
        patch.interim = Some(expected.between(&base, &existing.taints).encode());
    }
    if existing.annotations.text(keys::EXPECTED_METADATA) != Some(&text) {
        patch.annotations.insert(keys::EXPECTED_METADATA.to_owned(), Some(text));
    }
    if patch != MetadataPatch::default() {
        patch.annotations.extend(out.riders.clone());
        out.patch = Some(patch);
    }
    out
}

/// The annotation after a write of this wish to a node that has nothing yet.
#[must_use]
pub fn encode(wanted: &Wanted) -> String {
    let nothing = Metadata::default();
    let labels = wanted.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let taints = wanted_taints(wanted, &nothing, &mut Vec::new());
    Expected::of(&labels, &wanted_annotations(wanted, &nothing), &taints, &wanted.conditions).encode()
}

/// The keys that have to change, with their new values.
fn difference(
    wanted: &BTreeMap<&str, &str>,
    existing: &TextMap,
    was_ours: impl Fn(&str) -> bool,
) -> BTreeMap<String, Option<String>> {
    let set = wanted
        .iter()
        .filter(|(key, value)| existing.text(key) != Some(**value))
        .map(|(key, value)| ((*key).to_owned(), Some((*value).to_owned())));
    let gone = existing
        .texts()
        .filter(|(key, _)| !wanted.contains_key(key) && !is_of_the_merge(key) && was_ours(key))
        .map(|(key, _)| (key.to_owned(), None));
    set.chain(gone).collect()
}

/// Annotations that the merge writes by rules of their own.
fn is_of_the_merge(key: &str) -> bool {
    key == keys::EXPECTED_METADATA || key == keys::CORDONED
}

fn wanted_annotations<'a>(wanted: &'a Wanted, existing: &'a Metadata) -> BTreeMap<&'a str, &'a str> {
    let mut annotations: BTreeMap<&str, &str> = wanted
        .annotations
        .iter()
        .filter(|(key, _)| !is_of_the_merge(key))
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    // A deletion has begun when it began, and not at the latest look.
    let since = existing.annotations.get(keys::DELETION_TAINT_TIME).filter(|time| time.parse::<Timestamp>().is_ok());
    if let (Some(time), Some(since)) = (annotations.get_mut(keys::DELETION_TAINT_TIME), since) {
        *time = since;
    }
    annotations
}

/// The taints that are wanted and ours to set, each identity once, with their times.
fn wanted_taints(wanted: &Wanted, existing: &Metadata, notes: &mut Vec<Note>) -> Vec<Taint> {
    let mut seen = BTreeSet::new();
    let mut taints = Vec::with_capacity(wanted.taints.len());
    let closed = existing.taints.iter().filter(|taint| taint.key == keys::OUT_OF_WINDOWS_TAINT);
    let closed = closed.filter_map(|taint| taint.time_added).min();
    for taint in &wanted.taints {
        if is_of_kubernetes(&taint.key) {
            notes.push(Note::NotOurs(taint.to_string()));
        } else if seen.insert(taint.id()) {
            let mut taint = taint.clone();
            if taint.key == keys::OUT_OF_WINDOWS_TAINT && wanted.stamp == Stamp::Keep {
                taint.time_added = closed.or(taint.time_added);
            }
            taints.push(taint);
        }
    }
    taints
}

/// All taints of the node, if they change: ours first, then those that are not ours in their order.
fn merged_taints(wanted: &[Taint], existing: &Metadata, base: &Expected) -> Option<Vec<Taint>> {
    let mut merged: BTreeMap<(&str, &Effect), &Taint> = wanted.iter().map(|taint| (taint.id(), taint)).collect();
    let mut list = wanted.to_vec();
    for taint in &existing.taints {
        let theirs =
            is_of_kubernetes(&taint.key) || !(base.has_taint(taint) || OWN_TAINTS.contains(&taint.key.as_str()));
        if theirs && !merged.contains_key(&taint.id()) {
            merged.insert(taint.id(), taint);
            list.push(taint.clone());
        }
    }
    // Other clients sort the list as they like, and that is no reason to write it.
    let same = existing.taints.len() == list.len()
        && existing.taints.iter().all(|taint| merged.get(&taint.id()).is_some_and(|kept| kept.is_stored_like(taint)));
    (!same).then_some(list)
}

/// A cordon is ours if the annotation is there (decision S10).
fn cordon(wish: CordonWish, existing: &Metadata, patch: &mut MetadataPatch, notes: &mut Vec<Note>) {
    let ours = existing.annotations.contains_key(keys::CORDONED);
    let key = || keys::CORDONED.to_owned();
    match (wish, existing.cordon) {
        (CordonWish::Cordon, Cordon::Open) => {
            patch.cordon = Some(Cordon::Cordoned);
            if existing.annotations.text(keys::CORDONED) != Some(CORDONED) {
                patch.annotations.insert(key(), Some(CORDONED.to_owned()));
            }
        }
        (CordonWish::Leave, there) if ours => {
            patch.cordon = (there == Cordon::Cordoned).then_some(Cordon::Open);
            patch.annotations.insert(key(), None);
        }
        (_, Cordon::Cordoned) if !ours => notes.push(Note::CordonOfAnother),
        (CordonWish::Cordon, Cordon::Cordoned) | (CordonWish::Leave, _) => {}
    }
}
