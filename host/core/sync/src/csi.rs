//! The CSINode of a virtual node, made of that of its physical one (`bottomup-syncer.md` section 9, decision S22).
//!
//! Owns which volumes drivers a virtual node is said to have, and how a difference is written. Never touches a CSINode
//! that is not ours, and never deletes one to make it anew: a scheduler that sees no CSINode counts no limits.
//!
//! What goes wrong: a driver was registered again with another node id or other topology keys. Its entry cannot be changed
//! on an API server, so there are two writes: one that leaves the entry out, and one that adds it again. Each pass decides
//! from what is stored, so that a process that dies between the two is continued by the next. The allowed number of
//! volumes may change in place, on servers that take that; where one has refused it ([`CountEdits`]), it is two writes
//! as well. Or a cache lacks an object that exists: what it lacks is read live before a CSINode is deleted for it.
//!
//! Users' labels and annotations stay. Which keys came from the physical CSINode is kept in an annotation, so that one
//! that disappears there disappears here; if that annotation is broken, nothing disappears.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::bars::{Bar, Bars, Doing};
use super::identity::{Earlier, Identity, Owner, Ownership, WhyForeign};
use super::keys;
use super::naming::{ClusterId, NameTaken, same_origin};
use super::precondition::Precondition;
use super::texts::TextMap;
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::version::ResourceVersion;

type Keys = BTreeMap<String, String>;

/// One driver of a CSINode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// Its name.
    pub name: String,
    /// What it calls the node.
    pub node_id: String,
    /// The keys of the node's labels that say where its volumes can be.
    pub topology_keys: Vec<String>,
    /// How many volumes the node may have, where that is limited.
    pub count: Option<i32>,
}

/// A CSINode of the physical cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhysicalCsiNode {
    /// Its UID.
    pub uid: Uid,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// Those of its labels that may be copied (decision S13).
    pub labels: Keys,
    /// Those of its annotations that may be copied: one of them lists the volume plugins that its drivers replace.
    pub annotations: Keys,
    /// Its drivers.
    pub drivers: Vec<Driver>,
}

/// The virtual node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwningNode {
    /// Its UID.
    pub uid: Uid,
    /// Its labels.
    pub labels: TextMap,
}

/// A CSINode of the virtual cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualCsiNode {
    /// Its UID.
    pub uid: Uid,
    /// The version that this was read from.
    pub version: ResourceVersion,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// Its labels.
    pub labels: Keys,
    /// Its annotations.
    pub annotations: Keys,
    /// Its owner references, each as the API server has it.
    pub owners: Vec<Value>,
    /// Its drivers.
    pub drivers: Vec<Driver>,
}

/// Whether the number of volumes of a driver can be changed in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CountEdits {
    /// The API server takes it, or was not asked yet.
    #[default]
    InPlace,
    /// The API server refused it: the entry is removed and added again.
    Refused,
}

/// What a live read said of an object that a cache lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Presence {
    /// It was not read.
    #[default]
    Unasked,
    /// It does not exist.
    Gone,
    /// It exists.
    Found,
}

/// What live reads said of the two objects without which there is no CSINode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Live {
    /// Of the physical CSINode.
    pub physical: Presence,
    /// Of the virtual node.
    pub node: Presence,
}

/// What a decision rests on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// Who we are.
    pub identity: &'a Identity,
    /// Our cluster id.
    pub cluster: &'a ClusterId,
    /// The name of the physical node, and so of its CSINode.
    pub physical_name: &'a str,
    /// The name of the virtual node, and so of its CSINode.
    pub name: &'a NodeName,
    /// The physical CSINode; `None` where the cache has none. That proves nothing.
    pub physical: Option<&'a PhysicalCsiNode>,
    /// The virtual node; `None` where the cache has none. That proves nothing.
    pub node: Option<&'a OwningNode>,
    /// What live reads said of both.
    pub live: Live,
    /// The virtual CSINode; `None` where none is known.
    pub existing: Option<&'a VirtualCsiNode>,
    /// What a live list shows of the binding that the existing one names, where that is an earlier one.
    pub earlier: Earlier,
    /// How a number of volumes is changed.
    pub counts: CountEdits,
    /// What forbids writes now.
    pub bars: &'a Bars,
}

/// What follows for the CSINode of a virtual node.
#[derive(Debug, Clone, PartialEq)]
pub enum CsiOrder {
    /// Nothing.
    Nothing(WhyNothing),
    /// Create this object.
    Create(Value),
    /// Write this JSON merge patch, which carries the resourceVersion.
    Patch {
        /// The patch.
        body: Value,
        /// Whether that is all.
        step: Step,
        /// What differs.
        changes: Vec<Change>,
    },
    /// List the ClusterBindings live, look for this UID, and decide again.
    AskBinding(Uid),
    /// Read the physical CSINode live, and decide again.
    AskPhysical,
    /// Read the virtual node live, and decide again.
    AskNode,
    /// Delete it.
    Delete {
        /// Why.
        why: WhyGone,
        /// What the request must carry.
        precondition: Precondition,
    },
    /// Something would be written, and this forbids it now.
    Withheld(Bar),
}

/// Whether a patch is the only one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is.
    Only,
    /// It removes entries of drivers that have to be added again: decide again with the answer, at once.
    First,
}

/// Why nothing follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyNothing {
    /// It is as it has to be.
    Same,
    /// There is nothing to copy, and no copy.
    Absent,
    /// The virtual node is not of this physical one.
    ForeignNode(NameTaken),
    /// The existing CSINode is not ours.
    Foreign(WhyForeign),
    /// The existing CSINode is ours, and of another physical node.
    Taken(NameTaken),
    /// It is being deleted.
    Terminating,
    /// A cache is behind a live read: it will follow.
    CacheBehind,
    /// A UID or version is not known, so no safe request can be made.
    Unguarded,
}

/// Why a CSINode is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhyGone {
    /// The physical one is gone.
    PhysicalGone,
    /// The virtual node is gone.
    NodeGone,
}

/// What differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A driver that is new.
    DriverAdded(String),
    /// A driver that is gone.
    DriverRemoved(String),
    /// A driver whose entry has to be removed before it is added again.
    DriverReplaced(String),
    /// The number of volumes of a driver.
    Count(String),
    /// A label.
    Label(String),
    /// An annotation.
    Annotation(String),
    /// The owner.
    Owner,
}

/// What follows for the CSINode of one virtual node, at this time of the day.
#[must_use]
pub fn decide(facts: &Facts<'_>, now: Timestamp) -> CsiOrder {
    let physical = facts.physical.filter(|physical| !physical.deleting);
    let (physical, node) = match (physical, facts.node) {
        (Some(physical), Some(node)) => (physical, node),
        (None, _) => return gone(facts, WhyGone::PhysicalGone),
        (Some(_), None) => return gone(facts, WhyGone::NodeGone),
    };
    let origin = facts.identity.node_labels(facts.cluster, facts.physical_name);
    if let Err(taken) = same_origin(&node.labels, &origin) {
        return CsiOrder::Nothing(WhyNothing::ForeignNode(taken));
    }
    if node.uid.is_empty() {
        return CsiOrder::Nothing(WhyNothing::Unguarded);
    }
    let wanted = Wanted::of(facts, physical, node, origin);
    let Some(existing) = facts.existing else {
        let create = || CsiOrder::Create(wanted.object(facts.name, now));
        return facts.bars.forbid(Doing::Create).map_or_else(create, CsiOrder::Withheld);
    };
    match Ownership::of(&existing.labels, facts.identity).resolve(facts.earlier) {
        Owner::Ours | Owner::Adoptable(_) => {}
        Owner::Unknown(uid) => return CsiOrder::AskBinding(uid),
        Owner::Foreign(why) => return CsiOrder::Nothing(WhyNothing::Foreign(why)),
    }
    if existing.deleting {
        return CsiOrder::Nothing(WhyNothing::Terminating);
    }
    match wanted.patch(existing, facts.counts, now) {
        None => CsiOrder::Nothing(WhyNothing::Same),
        Some(_) if existing.version.is_empty() => CsiOrder::Nothing(WhyNothing::Unguarded),
        Some((body, step, changes)) => match facts.bars.forbid(Doing::Drivers) {
            Some(bar) => CsiOrder::Withheld(bar),
            None => CsiOrder::Patch { body, step, changes },
        },
    }
}

/// Nothing may be left: what exists is deleted, if it is ours and of this physical node.
fn gone(facts: &Facts<'_>, why: WhyGone) -> CsiOrder {
    let Some(existing) = facts.existing else { return CsiOrder::Nothing(WhyNothing::Absent) };
    match Ownership::of(&existing.labels, facts.identity).resolve(facts.earlier) {
        Owner::Ours | Owner::Adoptable(_) => {}
        Owner::Unknown(uid) => return CsiOrder::AskBinding(uid),
        Owner::Foreign(why) => return CsiOrder::Nothing(WhyNothing::Foreign(why)),
    }
    if let Err(taken) = same_origin(&existing.labels, &facts.identity.node_labels(facts.cluster, facts.physical_name)) {
        return CsiOrder::Nothing(WhyNothing::Taken(taken));
    }
    if existing.deleting {
        return CsiOrder::Nothing(WhyNothing::Terminating);
    }
    if let Some(bar) = facts.bars.forbid(Doing::Disrupt) {
        return CsiOrder::Withheld(bar);
    }
    let (live, ask) = match why {
        // It is there, and on its way out.
        WhyGone::PhysicalGone if facts.physical.is_some() => (Presence::Gone, CsiOrder::AskPhysical),
        WhyGone::PhysicalGone => (facts.live.physical, CsiOrder::AskPhysical),
        WhyGone::NodeGone => (facts.live.node, CsiOrder::AskNode),
    };
    match live {
        Presence::Gone => {}
        Presence::Unasked => return ask,
        Presence::Found => return CsiOrder::Nothing(WhyNothing::CacheBehind),
    }
    match Precondition::of(&existing.uid, &existing.version) {
        Some(precondition) => CsiOrder::Delete { why, precondition },
        None => CsiOrder::Nothing(WhyNothing::Unguarded),
    }
}

/// What the CSINode has to be.
struct Wanted<'a> {
    labels: Keys,
    annotations: Keys,
    owner: Value,
    owner_uid: &'a Uid,
    drivers: BTreeMap<&'a str, &'a Driver>,
}

impl<'a> Wanted<'a> {
    fn of(facts: &Facts<'_>, physical: &'a PhysicalCsiNode, node: &'a OwningNode, origin: Keys) -> Self {
        let copied = |keys: &Keys| -> Keys {
            let foreign = |(key, _): &(&String, &String)| !key.starts_with(keys::PREFIX);
            keys.iter().filter(foreign).map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        let (mut labels, mut annotations) = (copied(&physical.labels), copied(&physical.annotations));
        if !labels.is_empty() || !annotations.is_empty() {
            let names = |keys: &Keys| keys.keys().cloned().collect::<Vec<_>>();
            let record = json!({ "annotations": names(&annotations), "labels": names(&labels) });
            annotations.insert(keys::EXPECTED_METADATA.to_owned(), record.to_string());
        }
        labels.extend(origin);
        annotations.insert(keys::PHYSICAL_NODE_NAME.to_owned(), facts.physical_name.to_owned());
        annotations.insert(keys::PHYSICAL_CSI_NODE_UID.to_owned(), physical.uid.to_string());
        let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": &**facts.name, "uid": &*node.uid });
        Self { labels, annotations, owner, owner_uid: &node.uid, drivers: by_name(&physical.drivers) }
    }

    fn object(&self, name: &NodeName, now: Timestamp) -> Value {
        let mut annotations = self.annotations.clone();
        annotations.insert(keys::LAST_SYNC_TIME.to_owned(), time(now));
        json!({
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {
                "name": &**name,
                "labels": self.labels,
                "annotations": annotations,
                "ownerReferences": [self.owner],
            },
            "spec": { "drivers": self.drivers.values().map(|driver| entry(driver)).collect::<Vec<_>>() },
        })
    }

    fn patch(
        &self,
        existing: &VirtualCsiNode,
        counts: CountEdits,
        now: Timestamp,
    ) -> Option<(Value, Step, Vec<Change>)> {
        let mut changes = Vec::new();
        let (drivers, step) = self.drivers(existing, counts, &mut changes);
        let written = !changes.is_empty();
        let before = Record::read(existing.annotations.get(keys::EXPECTED_METADATA));
        let labels = differing(&self.labels, &existing.labels, &before.labels);
        let mut annotations = differing(&self.annotations, &existing.annotations, &before.annotations);
        changes.extend(labels.keys().cloned().map(Change::Label));
        changes.extend(annotations.keys().cloned().map(Change::Annotation));
        let owners = self.owners(existing);
        changes.extend(owners.is_some().then_some(Change::Owner));
        if changes.is_empty() {
            return None;
        }
        annotations.insert(keys::LAST_SYNC_TIME.to_owned(), time(now).into());
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), (&*existing.version).into());
        metadata.insert("annotations".to_owned(), annotations.into());
        if !labels.is_empty() {
            metadata.insert("labels".to_owned(), labels.into());
        }
        metadata.extend(owners.map(|owners| ("ownerReferences".to_owned(), owners.into())));
        let mut body = Map::new();
        body.insert("metadata".to_owned(), metadata.into());
        if written {
            body.insert("spec".to_owned(), json!({ "drivers": drivers }));
        }
        Some((body.into(), step, changes))
    }

    /// The entries to write, and whether those that had to be left out make a second write necessary.
    fn drivers(&self, existing: &VirtualCsiNode, counts: CountEdits, changes: &mut Vec<Change>) -> (Vec<Value>, Step) {
        let stored = by_name(&existing.drivers);
        let mut entries = Vec::new();
        let mut step = Step::Only;
        for (name, wanted) in &self.drivers {
            let replaced = stored.get(name).is_some_and(|stored| {
                let fixed = stored.node_id != wanted.node_id || stored.topology_keys != wanted.topology_keys;
                fixed || (stored.count != wanted.count && counts == CountEdits::Refused)
            });
            if replaced {
                step = Step::First;
                changes.push(Change::DriverReplaced((*name).to_owned()));
                continue;
            }
            match stored.get(name) {
                None => changes.push(Change::DriverAdded((*name).to_owned())),
                Some(stored) if stored.count != wanted.count => changes.push(Change::Count((*name).to_owned())),
                Some(_) => {}
            }
            entries.push(entry(wanted));
        }
        let gone = stored.keys().filter(|name| !self.drivers.contains_key(*name));
        changes.extend(gone.map(|name| Change::DriverRemoved((*name).to_owned())));
        (entries, step)
    }

    /// The owner references with the virtual node of today; `None` where they have it. One to an earlier node of that
    /// name goes, or the garbage collector would take the CSINode for it.
    fn owners(&self, existing: &VirtualCsiNode) -> Option<Vec<Value>> {
        let field = |owner: &Value, name: &str| owner.get(name).and_then(Value::as_str).map(str::to_owned);
        let is_node = |owner: &Value| field(owner, "kind").as_deref() == Some("Node");
        let is_ours = |owner: &Value| is_node(owner) && field(owner, "uid").as_deref() == Some(&**self.owner_uid);
        let stale = |owner: &&Value| is_node(owner) && !is_ours(owner);
        if existing.owners.iter().any(is_ours) && !existing.owners.iter().any(|owner| stale(&owner)) {
            return None;
        }
        let others = existing.owners.iter().filter(|owner| !is_node(owner)).cloned();
        Some(others.chain([self.owner.clone()]).collect())
    }
}

/// Which keys were copied last.
#[derive(Default)]
struct Record {
    labels: BTreeSet<String>,
    annotations: BTreeSet<String>,
}

impl Record {
    /// A broken record counts as empty: then nothing is removed.
    fn read(text: Option<&String>) -> Self {
        let Some(record) = text.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
            return Self::default();
        };
        let names = |field: &str| {
            let names = record.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
            // Our own keys are never copied, so a record that names one is not ours.
            names.filter(|name| !name.starts_with(keys::PREFIX)).map(str::to_owned).collect()
        };
        Self { labels: names("labels"), annotations: names("annotations") }
    }
}

/// What a merge patch has to say of these keys: those that differ, and null for those that were copied and are gone.
fn differing(wanted: &Keys, found: &Keys, before: &BTreeSet<String>) -> Map<String, Value> {
    let set = wanted.iter().filter(|(key, value)| found.get(*key) != Some(value));
    let set = set.map(|(key, value)| (key.clone(), value.clone().into()));
    // The record itself goes where nothing is copied any more.
    let record = keys::EXPECTED_METADATA.to_owned();
    let gone = before.iter().chain([&record]).filter(|key| found.contains_key(*key) && !wanted.contains_key(*key));
    let gone = gone.map(|key| (key.clone(), Value::Null));
    set.chain(gone).collect()
}

/// By name; of entries with one name, which no API server stores, the first.
fn by_name(drivers: &[Driver]) -> BTreeMap<&str, &Driver> {
    drivers.iter().rev().map(|driver| (driver.name.as_str(), driver)).collect()
}

fn entry(driver: &Driver) -> Value {
    let mut entry = json!({ "name": driver.name, "nodeID": driver.node_id, "topologyKeys": driver.topology_keys });
    if let (Some(count), Some(members)) = (driver.count, entry.as_object_mut()) {
        members.insert("allocatable".to_owned(), json!({ "count": count }));
    }
    entry
}

fn time(now: Timestamp) -> String {
    format!("{now:.0}")
}

impl fmt::Display for WhyNothing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("it is as it has to be"),
            Self::Absent => f.write_str("there is none, and nothing to copy"),
            Self::ForeignNode(taken) => write!(f, "the virtual node is not of this physical one: {taken}"),
            Self::Foreign(why) => write!(f, "it is not ours: {why}"),
            Self::Taken(taken) => write!(f, "it is not of this physical node: {taken}"),
            Self::Terminating => f.write_str("it is being deleted"),
            Self::CacheBehind => f.write_str("a cache is behind what a live read showed"),
            Self::Unguarded => f.write_str("a UID or resourceVersion is not known"),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DriverAdded(name) => write!(f, "driver {name} added"),
            Self::DriverRemoved(name) => write!(f, "driver {name} removed"),
            Self::DriverReplaced(name) => write!(f, "driver {name} removed, to be added again"),
            Self::Count(name) => write!(f, "volumes of driver {name}"),
            Self::Label(key) => write!(f, "label {key}"),
            Self::Annotation(key) => write!(f, "annotation {key}"),
            Self::Owner => f.write_str("owner"),
        }
    }
}

impl fmt::Display for CsiOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(why) => write!(f, "nothing: {why}"),
            Self::Create(_) => f.write_str("created"),
            Self::Patch { changes, .. } => {
                f.write_str("written: ")?;
                for (at, change) in changes.iter().enumerate() {
                    write!(f, "{}{change}", if at == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Self::AskBinding(uid) => write!(f, "the ClusterBindings are read for the UID {uid}"),
            Self::AskPhysical => f.write_str("the physical CSINode is read"),
            Self::AskNode => f.write_str("the virtual node is read"),
            Self::Delete { why: WhyGone::PhysicalGone, .. } => f.write_str("deleted: the physical CSINode is gone"),
            Self::Delete { why: WhyGone::NodeGone, .. } => f.write_str("deleted: the virtual node is gone"),
            Self::Withheld(bar) => write!(f, "not written, because {bar}"),
        }
    }
}

#[cfg(test)]
mod tests;
