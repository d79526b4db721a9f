//! Which writes about a node an API server takes and does not store (decisions S7 and S12).
//!
//! A server that is older than a field drops it, and a mutating webhook changes what is written. The answer is a good one, and the
//! next look finds the same difference: the write would be sent for ever, one after the other. So it is left out for as long as it
//! would say the same: until something else is wanted, or something else is stored in its place, and for [`AGAIN`] at most. What else
//! is to be done about the node is done, but no virtual node is made while the claim on its machine is not stored.
//!
//! Owns that comparison, and what is remembered for it: a plain value, one for each node, empty while all is stored. A write is left out
//! only if all of it that is missing now was missing in the answer to an earlier one: another size, another taint, another claim, and
//! what another client has changed since, are sent.
//!
//! # Failure story
//!
//! An answer that was lost says nothing: the write is sent again. What another client changes after an answer is repaired at once, as
//! ever. What is lost with the process costs one more write and one more Event.

use std::time::Duration;
use std::{fmt, mem};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::facts::{Facts, LentNode, PhysicalNode};
use super::lend::first_of;
use super::objects;
use super::orders::{NodeOrder, PhysicalChange};
use super::{NodeDecision, NodeState, Rest};
use crate::keys;
use crate::merge::{Metadata, VOLATILE};
use crate::sizes::pacing::Pace;
use crate::taints::{Effect, Taint};
use topoloom_core::text::line;

/// After this time a write is tried again that was not stored: as often as a sweep tries what was refused.
pub(super) const AGAIN: Duration = Duration::from_secs(600);

/// How much of a key a message repeats: some come from the physical cluster as they are.
const SHOWN: usize = 80;

/// Any time, in place of one that would be later with each look.
const ANY_TIME: Value = Value::Bool(true);

/// What of the latest writes about a node was not stored.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Unstored(Vec<Missing>);

/// A write that was answered, and not stored whole.
#[derive(Debug, Clone, PartialEq)]
struct Missing {
    kind: Kind,
    /// What of it is not stored.
    lacks: Value,
    /// What is stored in its place.
    found: Value,
    /// When it is tried again, by the steady clock.
    due: Duration,
    /// Whether no look has left it out since it was sent.
    is_news: bool,
}

/// Which request a write is: a webhook may change one and leave another alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Claim,
    Release,
    Status,
    Spec,
    Finalizer,
}

/// The object in an answer: what is stored.
#[derive(Debug, Clone, Copy)]
pub enum Answer<'a> {
    /// The physical node.
    Physical(&'a PhysicalNode),
    /// The virtual node.
    Lent(&'a LentNode),
}

/// A write that is left out of a decision, because an API server took it and did not store it.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// The write.
    pub order: NodeOrder,
    /// Whether it was sent since it was left out last.
    pub is_news: bool,
    /// What of it is not stored.
    fields: Vec<String>,
}

impl Kind {
    fn of(order: &NodeOrder) -> Option<(Self, &Value)> {
        match order {
            NodeOrder::PatchPhysical { body, .. } => Some((Self::Claim, body)),
            NodeOrder::ReleasePhysical { body } => Some((Self::Release, body)),
            NodeOrder::PatchStatus { body, .. } => Some((Self::Status, body)),
            NodeOrder::PatchSpec { body, .. } => Some((Self::Spec, body)),
            NodeOrder::RemoveFinalizer { body, .. } => Some((Self::Finalizer, body)),
            // What a new node lacks is written by a patch, which may be stored where this was not.
            NodeOrder::Create { .. }
            | NodeOrder::Ask(_)
            | NodeOrder::RemovePods(_)
            | NodeOrder::StopLease(_)
            | NodeOrder::Delete { .. } => None,
        }
    }

    /// What is known to be stored where it goes.
    fn stored(self, facts: &Facts<'_>) -> Option<Value> {
        match self {
            Self::Claim | Self::Release => facts.present().map(|node| stored(Answer::Physical(node))),
            Self::Status | Self::Spec | Self::Finalizer => facts.lent.map(|node| stored(Answer::Lent(node))),
        }
    }
}

impl Unstored {
    /// An API server took an order, and answered with this.
    pub fn answered(&mut self, order: &NodeOrder, answer: Answer<'_>, now: Duration) {
        let Some((kind, body)) = Kind::of(order) else { return };
        let lent = match answer {
            Answer::Lent(lent) => Some(lent),
            Answer::Physical(_) => None,
        };
        let (sent, stored) = (meaning(body, lent), stored(answer));
        self.0.retain(|missing| missing.kind != kind || !touches(&missing.lacks, &sent));
        if let Some(lacks) = lacking(&sent, &stored) {
            let (found, due) = (in_place(&lacks, &stored), now.saturating_add(AGAIN));
            self.0.push(Missing { kind, lacks, found, due, is_news: true });
        }
    }

    /// Takes out of a decision what would be written again although it was not stored.
    pub fn sift(&mut self, facts: &Facts<'_>, decision: &mut NodeDecision<'_>, now: Duration) {
        // What is read first says nothing of what is stored.
        if self.0.is_empty() || decision.orders.iter().any(|order| matches!(order, NodeOrder::Ask(_))) {
            return;
        }
        let is_as_found = |missing: &Missing| {
            missing.kind.stored(facts).is_none_or(|stored| in_place(&missing.lacks, &stored) == missing.found)
        };
        self.0.retain(is_as_found);
        let (mut wanted, mut judged, mut is_claimed) = (Vec::new(), None, true);
        for order in mem::take(&mut decision.orders) {
            let Some((kind, body)) = Kind::of(&order) else {
                decision.orders.push(order);
                continue;
            };
            let change = meaning(body, facts.lent);
            // What is stored of it already is no reason to leave it out, and what is missing besides is one to send it.
            let open = kind.stored(facts).and_then(|stored| lacking(&change, &stored));
            let left_out = open.map(without_followers).and_then(|open| self.leave_out(kind, &open, now));
            wanted.push((kind, change));
            let Some((due, is_news, fields)) = left_out else {
                // The answer that it would wait for does not come.
                decision.orders.push(match &judged {
                    Some(version) => order.judged_in(version),
                    None => order,
                });
                continue;
            };
            if let NodeOrder::PatchStatus { version, .. } = &order {
                judged = Some(version.clone());
            }
            is_claimed &= order.physical_change() != Some(PhysicalChange::Claim);
            decision.until_steady(due);
            decision.left_out.push(LeftOut { order, is_news, fields });
        }
        if !is_claimed {
            decision.orders.retain(|order| !matches!(order, NodeOrder::Create { .. }));
        }
        let is_at_rest = !decision.orders.iter().any(NodeOrder::is_write) && is_complete(facts, decision);
        self.0.retain(|missing| {
            let is_wanted =
                wanted.iter().any(|(kind, change)| *kind == missing.kind && touches(&missing.lacks, change));
            is_wanted || (!is_at_rest && now < missing.due)
        });
    }

    /// Whether all that was written is stored, as far as is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Until when a write is left out of which this is not stored, whether that is news, and which fields it is about; `None`: it is
    /// sent.
    fn leave_out(&mut self, kind: Kind, open: &Value, now: Duration) -> Option<(Duration, bool, Vec<String>)> {
        let is_known = |missing: &&mut Missing| missing.kind == kind && includes(&missing.lacks, open);
        let missing = self.0.iter_mut().find(is_known)?;
        (now < missing.due).then(|| (missing.due, mem::take(&mut missing.is_news), fields(&missing.lacks)))
    }
}

/// Whether a decision that orders nothing has found all that is wanted. What may not be written now, or not yet, may be missing still.
fn is_complete(facts: &Facts<'_>, decision: &NodeDecision<'_>) -> bool {
    let paces = decision.details.as_ref().map(|details| &details.pace);
    let waits = paces.is_some_and(|pace| matches!(pace, Pace::Wait(_) | Pace::Partial { .. }));
    let is_unknown = matches!(decision.state, NodeState::Rest(Rest::Unlisted | Rest::CacheBehind));
    facts.bars.iter().next().is_none() && !waits && !is_unknown
}

/// What is stored, in the form of a patch.
fn stored(answer: Answer<'_>) -> Value {
    match answer {
        Answer::Physical(node) => json!({"metadata": {"labels": node.labels, "annotations": node.annotations}}),
        Answer::Lent(node) => {
            let mut all = objects::stored(node);
            without_times(&mut all);
            Value::Object(all)
        }
    }
}

/// What a patch changes, whichever version it was made from and whatever the time is.
///
/// A time counts where one is stored: then it is wrong. Where there is none, or not the taint that it goes with, each look wants a
/// later one. The note of what is wanted follows from all else, and counts where there is nothing else.
fn meaning(body: &Value, lent: Option<&LentNode>) -> Value {
    let mut all = body.as_object().cloned().unwrap_or_default();
    let taken = |of: &mut Map<String, Value>, key: &str| match of.remove(key) {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    };
    let mut rest = taken(&mut all, "metadata");
    let mut annotations = taken(&mut rest, "annotations");
    rest.remove("resourceVersion");
    for key in VOLATILE {
        annotations.remove(key);
    }
    for (key, is_known) in [(keys::DELETION_TAINT_TIME, false), (keys::RECLAIM_SINCE, lent.is_some_and(is_executing))] {
        if let Some(time) = annotations.get_mut(key).filter(|time| !time.is_null() && !is_known) {
            *time = ANY_TIME;
        }
    }
    for taint in entries(&mut all, "spec", "taints") {
        if taint.contains_key("timeAdded") && lent.is_none_or(|lent| !is_dated(lent, taint)) {
            taint.insert("timeAdded".to_owned(), ANY_TIME);
        }
    }
    without_times(&mut all);
    let note = annotations.remove(keys::EXPECTED_METADATA);
    let is_alone = all.is_empty() && rest.is_empty() && annotations.is_empty();
    if let Some(note) = note.filter(|_| is_alone) {
        annotations.insert(keys::EXPECTED_METADATA.to_owned(), note);
    }
    if !annotations.is_empty() {
        rest.insert("annotations".to_owned(), Value::Object(annotations));
    }
    if !rest.is_empty() {
        all.insert("metadata".to_owned(), Value::Object(rest));
    }
    Value::Object(all)
}

/// The times of conditions are no reason to write.
fn without_times(all: &mut Map<String, Value>) {
    for condition in entries(all, "status", "conditions") {
        condition.remove("lastHeartbeatTime");
        condition.remove("lastTransitionTime");
    }
}

/// The objects in a list of a node.
fn entries<'a>(
    all: &'a mut Map<String, Value>,
    part: &'static str,
    list: &'static str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> {
    let list = all.get_mut(part).and_then(|part| part.get_mut(list)).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Whether a virtual node has the taint that evicts, and says since when.
fn is_executing(lent: &LentNode) -> bool {
    let Metadata { taints, annotations, .. } = &lent.metadata;
    let evicts = |taint: &Taint| taint.key == keys::OUT_OF_WINDOWS_TAINT && taint.effect == Effect::NoExecute;
    taints.iter().any(evicts) && annotations.get(keys::RECLAIM_SINCE).is_some_and(|since| is_time(since))
}

fn is_time(text: &str) -> bool {
    text.parse::<Timestamp>().is_ok()
}

/// Whether a virtual node has a taint of this key and effect, with a time.
fn is_dated(lent: &LentNode, taint: &Map<String, Value>) -> bool {
    let text = |key: &str| taint.get(key).and_then(Value::as_str);
    let (key, effect) = (text("key"), text("effect"));
    let mut dated = lent.metadata.taints.iter().filter(|there| there.time_added.is_some());
    dated.any(|there| key == Some(there.key.as_str()) && effect == Some(there.effect.word()))
}

/// What of a patch is not stored; `None`: all of it is.
fn lacking(wanted: &Value, stored: &Value) -> Option<Value> {
    let Some(fields) = fields_of(wanted) else {
        let is_stored = wanted == stored || (*wanted == ANY_TIME && stored.as_str().is_some_and(is_time));
        return (!is_stored).then(|| wanted.clone());
    };
    let lacks = |(key, wanted): (&String, &Value)| Some((key.clone(), lacking(wanted, member(stored, key))?));
    let lacks: Map<String, Value> = fields.iter().filter_map(lacks).collect();
    (!lacks.is_empty()).then_some(Value::Object(lacks))
}

/// The capacity of a virtual node follows what is allocatable: a larger one is written with that, and taken back while that may not grow.
fn without_followers(mut open: Value) -> Value {
    if let Some(status) = open.get_mut("status").and_then(Value::as_object_mut)
        && status.contains_key("allocatable")
    {
        status.remove("capacity");
    }
    open
}

/// What is stored of the fields that a patch changes.
fn in_place(patch: &Value, stored: &Value) -> Value {
    let Some(fields) = fields_of(patch) else { return stored.clone() };
    let found = |(key, patch): (&String, &Value)| (key.clone(), in_place(patch, member(stored, key)));
    Value::Object(fields.iter().map(found).collect())
}

/// The fields within a value; nothing where it is one itself: an empty object is.
fn fields_of(value: &Value) -> Option<&Map<String, Value>> {
    value.as_object().filter(|fields| !fields.is_empty())
}

/// What is absent is null, as in a patch.
fn member<'a>(object: &'a Value, key: &str) -> &'a Value {
    object.get(key).unwrap_or(&Value::Null)
}

/// Whether a patch changes all that another one does, in the same way.
fn includes(whole: &Value, part: &Value) -> bool {
    let (Some(whole), Some(part)) = (fields_of(whole), fields_of(part)) else { return whole == part };
    part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| includes(whole, part)))
}

/// Whether two patches change one field.
fn touches(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (fields_of(one), fields_of(other)) else { return true };
    one.iter().any(|(key, one)| other.get(key).is_some_and(|other| touches(one, other)))
}

/// The fields that a patch changes, by their paths.
fn fields(patch: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    let members = |value: &Value| fields_of(value).cloned().unwrap_or_default();
    for (part, of) in members(patch) {
        for (field, value) in members(&of) {
            let is_map = matches!(field.as_str(), "labels" | "annotations" | "allocatable" | "capacity");
            let before = paths.len();
            for key in members(&value).keys() {
                let key = line(key, SHOWN);
                paths.push(if is_map { format!("{part}.{field}[{key}]") } else { format!("{part}.{field}.{key}") });
            }
            if paths.len() == before {
                paths.push(format!("{part}.{field}"));
            }
        }
    }
    paths
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = first_of(self.fields.iter().cloned()).join(", ");
        write!(f, "{}: the API server answered, and did not store {fields}", self.order)
    }
}
