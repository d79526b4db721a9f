//! The status of a virtual pod, made of that of its physical one (decisions D13, D14 and S16).
//!
//! Owns which fields go up and in what form: phase, message, reason, startTime, the two pairs of addresses, the lists of
//! container statuses for containers that the virtual pod has, conditions, and the metadata keys that
//! `spec.copy.podMetadata` names. Where the virtual pod does not name the UID of its physical one yet, that goes with
//! another change (section 8): the top-down half writes it when it has created the pod, and may die before that. Never
//! writes what belongs to the virtual side (`PodScheduled`, `DisruptionTarget`, readiness gates, conditions that only it
//! has, observedGeneration, qosClass, nominatedNodeName, resize, claims), and nothing where nothing differs.
//!
//! Objects are JSON here, not types of one Kubernetes version: what a newer physical cluster says of a container goes up
//! as it is. What is no object or no list where one belongs counts as absent, and is never written.
//!
//! What goes wrong: the physical pod says less than the virtual one knows, because it was made again, or because a final
//! phase was written when it was lost. Terminal is final: such a pod is left as it is, and so is a container that ended
//! and never restarts. The API server would take the first (it was tried) and refuse the second. A server that refuses a
//! write, or that takes it and stores less, is remembered in [`Refusals`]; without that each event would write again.

mod conditions;
mod containers;
mod json;
mod refusals;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::keys;
use super::phase::Phase;
use topoloom_core::names::Uid;
use topoloom_core::text::line;
use topoloom_core::version::ResourceVersion;

pub use refusals::{Refusals, Report, Sending};

/// How much of a value a reason repeats.
const SHOWN: usize = 80;

/// A physical pod, as far as it goes up.
#[derive(Debug, Clone, Copy)]
pub struct Physical<'a> {
    /// Its UID.
    pub uid: &'a Uid,
    /// Its status.
    pub status: &'a Value,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: &'a BTreeMap<String, String>,
}

/// The virtual pod, as its API server has it.
#[derive(Debug, Clone, Copy)]
pub struct Twin<'a> {
    /// Its spec.
    pub spec: &'a Value,
    /// Its status.
    pub status: &'a Value,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// The version that all this was read from.
    pub version: &'a ResourceVersion,
}

/// What a projection rests on.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The physical pod.
    pub physical: Physical<'a>,
    /// Its virtual pod.
    pub twin: Twin<'a>,
    /// `spec.copy.podMetadata`: keys of labels and annotations that belong to the physical side.
    pub copied: &'a BTreeSet<String>,
}

/// What follows for the virtual pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Projection {
    /// It says what the physical pod says.
    Same,
    /// It is final, and the physical pod says otherwise: nothing is written.
    Final {
        /// The phase of the virtual pod.
        stays: Phase,
        /// That of the physical one; `None` where it has none.
        physical: Option<Phase>,
    },
    /// Its version is not known, so no safe request can be made.
    Unguarded,
    /// It is written.
    Write(StatusPatch),
}

/// A write to `pods/status`.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusPatch {
    body: Value,
    changes: Vec<Change>,
}

/// What differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The phase.
    Phase {
        /// What it was; `None` where there was none.
        from: Option<String>,
        /// What it becomes.
        to: Phase,
    },
    /// A field of the status.
    Field(&'static str),
    /// The statuses of these containers, of the list of this name.
    Containers(&'static str, Vec<String>),
    /// The conditions of these types.
    Conditions(Vec<String>),
    /// A label.
    Label(String),
    /// An annotation.
    Annotation(String),
}

impl Projection {
    /// The JSON merge patch; `None` where nothing is written.
    #[must_use]
    pub fn patch(&self) -> Option<&Value> {
        match self {
            Self::Write(patch) => Some(&patch.body),
            Self::Same | Self::Final { .. } | Self::Unguarded => None,
        }
    }
}

impl StatusPatch {
    /// The JSON merge patch. It carries the resourceVersion of the virtual pod, and the time.
    #[must_use]
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// What differs.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// A hash of what it changes, without version and time: two patches that mean the same have the same.
    #[must_use]
    pub fn meaning(&self) -> [u8; 32] {
        let metadata = self.body.get("metadata");
        let mut annotations = metadata.and_then(|metadata| metadata.get("annotations")).cloned().unwrap_or_default();
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove(keys::LAST_SYNC_TIME);
        }
        let labels = metadata.and_then(|metadata| metadata.get("labels")).unwrap_or(&Value::Null);
        let status = self.body.get("status").unwrap_or(&Value::Null);
        Sha256::digest(format!("{status}\n{labels}\n{annotations}").as_bytes()).into()
    }
}

/// What a virtual pod takes over from its physical one, at this time of the day.
///
/// The caller has found that the two name each other: that is not judged again here.
#[must_use]
pub fn project(facts: &Facts<'_>, now: Timestamp) -> Projection {
    let (physical, twin) = (facts.physical.status, facts.twin.status);
    let phase = |status: &Value| status.get("phase").and_then(Value::as_str).and_then(Phase::parse);
    let (wanted, found) = (phase(physical), phase(twin));
    if let Some(stays) = found.filter(|found| found.is_final() && wanted != Some(*found)) {
        return Projection::Final { stays, physical: wanted };
    }
    let mut write = Write::default();
    write.phase(wanted, twin);
    for field in ["message", "reason", "startTime"] {
        write.text(field, physical, twin);
    }
    write.addresses(["hostIP", "hostIPs"], physical, twin);
    write.addresses(["podIP", "podIPs"], physical, twin);
    for list in containers::List::ALL {
        let merged = containers::merge(list, physical, twin, facts.twin.spec);
        if !merged.changed.is_empty() {
            write.list(list.statuses(), merged.wanted, Change::Containers(list.statuses(), merged.changed));
        }
    }
    let merged = conditions::merge(physical, twin, facts.twin.spec);
    if !merged.changed.is_empty() {
        write.list("conditions", merged.wanted, Change::Conditions(merged.changed));
    }
    write.metadata(facts);
    if write.changes.is_empty() {
        return Projection::Same;
    }
    if facts.twin.version.is_empty() {
        return Projection::Unguarded;
    }
    write.uid(facts);
    Projection::Write(write.finish(facts.twin.version, now))
}

/// A patch in the making.
#[derive(Default)]
struct Write {
    status: Map<String, Value>,
    labels: Map<String, Value>,
    annotations: Map<String, Value>,
    changes: Vec<Change>,
}

impl Write {
    /// A phase that Kubernetes does not know is not copied, and a missing one removes none.
    fn phase(&mut self, wanted: Option<Phase>, twin: &Value) {
        let found = twin.get("phase").and_then(Value::as_str);
        if let Some(to) = wanted.filter(|wanted| found != Some(wanted.word())) {
            self.status.insert("phase".to_owned(), to.word().into());
            self.changes.push(Change::Phase { from: found.map(str::to_owned), to });
        }
    }

    fn text(&mut self, field: &'static str, physical: &Value, twin: &Value) {
        let Ok(wanted) = text(physical, field) else { return };
        if text(twin, field) != Ok(wanted) {
            self.status.insert(field.to_owned(), wanted.map_or(Value::Null, Into::into));
            self.changes.push(Change::Field(field));
        }
    }

    /// An address and the list that begins with it. The API server refuses a pair that does not agree, so both are
    /// written or none. Where the physical cluster has no list the pair is made of the address: the server would make
    /// the same.
    fn addresses(&mut self, [single, list]: [&'static str; 2], physical: &Value, twin: &Value) {
        let Ok(address) = text(physical, single) else { return };
        let listed = json::list(physical, list);
        let first = listed.first().map(|entry| text(entry, "ip"));
        let (address, all): (Value, Value) = match (address, first) {
            (None, None) => (Value::Null, Value::Null),
            (Some(address), None) => (address.into(), serde_json::json!([{ "ip": address }])),
            (Some(address), Some(Ok(Some(first)))) if first == address => {
                (address.into(), Value::Array(listed.to_vec()))
            }
            _ => return,
        };
        let found = |field| twin.get(field).unwrap_or(&Value::Null);
        if !json::same(&address, found(single)) || !json::same(&all, found(list)) {
            self.status.insert(single.to_owned(), address);
            self.status.insert(list.to_owned(), all);
            self.changes.push(Change::Field(single));
        }
    }

    fn list(&mut self, field: &'static str, wanted: Vec<Value>, change: Change) {
        let value = if wanted.is_empty() { Value::Null } else { Value::Array(wanted) };
        self.status.insert(field.to_owned(), value);
        self.changes.push(change);
    }

    /// A key that the physical pod does not have is left as it is: users have keys of that name, too. Our own keys
    /// never flow up, even where an operator lists one.
    fn metadata(&mut self, facts: &Facts<'_>) {
        for key in facts.copied.iter().filter(|key| !key.starts_with(keys::PREFIX)) {
            if let Some(value) =
                facts.physical.labels.get(key).filter(|value| facts.twin.labels.get(key) != Some(value))
            {
                self.labels.insert(key.clone(), value.clone().into());
                self.changes.push(Change::Label(key.clone()));
            }
            let annotation = facts.physical.annotations.get(key);
            if let Some(value) = annotation.filter(|value| facts.twin.annotations.get(key) != Some(value)) {
                self.annotations.insert(key.clone(), value.clone().into());
                self.changes.push(Change::Annotation(key.clone()));
            }
        }
    }

    /// The UID of the physical pod, where the virtual one names none. It is no change by itself: two writers would race for
    /// it each time that a pod is made.
    fn uid(&mut self, facts: &Facts<'_>) {
        let named = facts.twin.annotations.get(keys::PHYSICAL_POD_UID).filter(|named| !named.is_empty());
        if named.is_none() && !facts.physical.uid.is_empty() {
            self.annotations.insert(keys::PHYSICAL_POD_UID.to_owned(), (&**facts.physical.uid).into());
        }
    }

    fn finish(mut self, version: &ResourceVersion, now: Timestamp) -> StatusPatch {
        self.annotations.insert(keys::LAST_SYNC_TIME.to_owned(), format!("{now:.0}").into());
        let mut metadata = Map::new();
        metadata.insert("resourceVersion".to_owned(), (&**version).into());
        metadata.insert("annotations".to_owned(), Value::Object(self.annotations));
        if !self.labels.is_empty() {
            metadata.insert("labels".to_owned(), Value::Object(self.labels));
        }
        let mut body = Map::new();
        body.insert("metadata".to_owned(), Value::Object(metadata));
        if !self.status.is_empty() {
            body.insert("status".to_owned(), Value::Object(self.status));
        }
        StatusPatch { body: Value::Object(body), changes: self.changes }
    }
}

/// A field that holds a text.
#[derive(Debug, PartialEq, Eq)]
struct NoText;

/// The text in a field; an empty one counts as none. An error where something else stands there.
fn text<'a>(object: &'a Value, field: &str) -> Result<Option<&'a str>, NoText> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str()).filter(|text| !text.is_empty())),
        Some(_) => Err(NoText),
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |names: &[String]| line(&names.join(", "), SHOWN);
        match self {
            Self::Phase { from: Some(from), to } => write!(f, "phase {} → {to}", line(from, SHOWN)),
            Self::Phase { from: None, to } => write!(f, "phase {to}"),
            Self::Field(field) => f.write_str(field),
            Self::Containers(list, of) => write!(f, "{list} ({})", names(of)),
            Self::Conditions(of) => write!(f, "conditions ({})", names(of)),
            Self::Label(key) => write!(f, "label {}", line(key, SHOWN)),
            Self::Annotation(key) => write!(f, "annotation {}", line(key, SHOWN)),
        }
    }
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("the virtual pod says what the physical one says"),
            Self::Final { stays, physical: Some(physical) } => {
                write!(f, "the virtual pod is {stays}, which is final, and the physical one is {physical}")
            }
            Self::Final { stays, physical: None } => {
                write!(f, "the virtual pod is {stays}, which is final, and the physical one has no phase")
            }
            Self::Unguarded => f.write_str("the resourceVersion of the virtual pod is not known"),
            Self::Write(patch) => {
                f.write_str("written: ")?;
                for (at, change) in patch.changes.iter().enumerate() {
                    write!(f, "{}{change}", if at == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests;
