//! The base of the merge: the names of what the syncer wanted when it wrote a node last, in an annotation of that node
//! (decision S12).
//!
//! ```text
//! {"v":1,"h":"<hash>","l":["<label>",…],"a":["<annotation>",…],"t":{"<key>":["<effect>",…]},"c":["<condition>",…]}
//! ```
//!
//! Names are sorted and empty lists are left out, so that one wish has one text. Values are not in it: the merge needs
//! none, and with them every annotation would stand on the node twice. The hash covers names and values, without those of
//! volatile annotations and without times: the same hash means that the syncer wants what it wanted then. Members that
//! this version does not know are ignored.
//!
//! The original system writes standard base64 of a JSON object with whole labels, annotations and taints. It is read, too.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::VOLATILE;
use crate::taints::{Effect, Taint};

/// The version that this writes and reads.
const VERSION: u64 = 1;

/// What the syncer wanted when it wrote a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expected {
    /// The keys of its labels.
    pub labels: BTreeSet<String>,
    /// The keys of its annotations, without the volatile ones.
    pub annotations: BTreeSet<String>,
    /// The keys of its taints, each with its effects.
    pub taints: BTreeMap<String, BTreeSet<Effect>>,
    /// The types of the conditions that were mirrored.
    pub conditions: BTreeSet<String>,
    /// The hash of names and values; `None` between two requests, and in the format of the original system.
    pub hash: Option<String>,
}

/// Why a base cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpectedError {
    /// It is of no format that is known.
    #[error("must be a JSON object, or one in standard base64, got {bytes} bytes that are neither")]
    Format {
        /// How long it is.
        bytes: usize,
    },
    /// A member has another type than it must have.
    #[error("must have {must} as its member {member:?}")]
    Member {
        /// Its name.
        member: &'static str,
        /// What it must be.
        must: &'static str,
    },
    /// A later version wrote it.
    #[error("must be of version {VERSION}, got version {0}")]
    Version(u64),
}

impl Expected {
    /// What is wanted now.
    pub(super) fn of(
        labels: &BTreeMap<&str, &str>,
        annotations: &BTreeMap<&str, &str>,
        taints: &[Taint],
        conditions: &BTreeSet<String>,
    ) -> Self {
        let mut hash = Sha256::new();
        // Lengths come first, or two wishes could give one row of bytes.
        let mut add = |texts: &[&str]| {
            for text in texts {
                hash.update((text.len() as u64).to_be_bytes());
                hash.update(text);
            }
        };
        let mut expected = Self { conditions: conditions.clone(), ..Self::default() };
        for (key, value) in labels {
            add(&["label", key, value]);
            expected.labels.insert((*key).to_owned());
        }
        for (key, value) in annotations.iter().filter(|(key, _)| !VOLATILE.contains(*key)) {
            add(&["annotation", key, value]);
            expected.annotations.insert((*key).to_owned());
        }
        let sorted: BTreeMap<_, _> = taints.iter().map(|taint| (taint.id(), taint)).collect();
        for taint in sorted.into_values() {
            add(&["taint", &taint.key, taint.effect.word(), &taint.value]);
            expected.add_taint(taint);
        }
        for kind in conditions {
            add(&["condition", kind]);
        }
        let digest = hash.finalize();
        expected.hash = Some(digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect());
        expected
    }

    fn add_taint(&mut self, taint: &Taint) {
        self.taints.entry(taint.key.clone()).or_default().insert(taint.effect.clone());
    }

    /// Whether it names a taint of this key and effect.
    #[must_use]
    pub fn has_taint(&self, taint: &Taint) -> bool {
        self.taints.get(&taint.key).is_some_and(|effects| effects.contains(&taint.effect))
    }

    /// The same before the taints are written: with those that an earlier base names and that are still on the node, and
    /// without a hash, since what differs then was not changed by another client.
    pub(super) fn between(&self, base: &Self, existing: &[Taint]) -> Self {
        let mut both = Self { hash: None, ..self.clone() };
        existing.iter().filter(|taint| base.has_taint(taint)).for_each(|taint| both.add_taint(taint));
        both
    }

    /// The text of the annotation.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut object = Map::new();
        let list = |names: &BTreeSet<String>| Value::from_iter(names.iter().cloned());
        object.insert("v".to_owned(), VERSION.into());
        if let Some(hash) = &self.hash {
            object.insert("h".to_owned(), hash.as_str().into());
        }
        for (member, names) in [("l", &self.labels), ("a", &self.annotations), ("c", &self.conditions)] {
            if !names.is_empty() {
                object.insert(member.to_owned(), list(names));
            }
        }
        if !self.taints.is_empty() {
            let effects = |effects: &BTreeSet<Effect>| Value::from_iter(effects.iter().map(Effect::word));
            let taints: Map<_, _> = self.taints.iter().map(|(key, of)| (key.clone(), effects(of))).collect();
            object.insert("t".to_owned(), Value::Object(taints));
        }
        Value::Object(object).to_string()
    }
}

/// Reads the annotation, in our format or in that of the original system.
///
/// # Errors
/// It is of neither format. The caller treats it as one that names nothing.
pub fn decode(text: &str) -> Result<Expected, ExpectedError> {
    let text = text.trim();
    let unknown = ExpectedError::Format { bytes: text.len() };
    if text.starts_with('{') {
        return match serde_json::from_str(text) {
            Ok(Value::Object(object)) => ours(&object),
            _ => Err(unknown),
        };
    }
    let bytes = STANDARD.decode(text).map_err(|_| unknown.clone())?;
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(object)) => original(&object),
        _ => Err(unknown),
    }
}

fn ours(object: &Map<String, Value>) -> Result<Expected, ExpectedError> {
    let number = ExpectedError::Member { member: "v", must: "a number" };
    match object.get("v").and_then(Value::as_u64).ok_or(number)? {
        VERSION => {}
        version => return Err(ExpectedError::Version(version)),
    }
    let mut taints = BTreeMap::new();
    let broken = ExpectedError::Member { member: "t", must: "an object of lists of texts" };
    match object.get("t") {
        None => {}
        Some(Value::Object(keys)) => {
            for (key, effects) in keys {
                let effects = texts(effects).ok_or_else(|| broken.clone())?;
                taints.insert(key.clone(), effects.map(Effect::from).collect());
            }
        }
        Some(_) => return Err(broken),
    }
    let list = |member: &'static str| match object.get(member) {
        None => Ok(BTreeSet::new()),
        Some(value) => texts(value)
            .map(|texts| texts.map(str::to_owned).collect())
            .ok_or(ExpectedError::Member { member, must: "a list of texts" }),
    };
    let (labels, annotations, conditions) = (list("l")?, list("a")?, list("c")?);
    let hash = object.get("h").and_then(Value::as_str).map(str::to_owned);
    Ok(Expected { labels, annotations, taints, conditions, hash })
}

/// The texts of a list, if it is a list of nothing else.
fn texts(value: &Value) -> Option<impl Iterator<Item = &str>> {
    let list = value.as_array()?;
    list.iter().all(Value::is_string).then(|| list.iter().filter_map(Value::as_str))
}

fn original(object: &Map<String, Value>) -> Result<Expected, ExpectedError> {
    let keys = |member: &'static str| match object.get(member) {
        None | Some(Value::Null) => Ok(BTreeSet::new()),
        Some(Value::Object(map)) => Ok(map.keys().cloned().collect()),
        Some(_) => Err(ExpectedError::Member { member, must: "an object" }),
    };
    let mut expected = Expected { labels: keys("labels")?, annotations: keys("annotations")?, ..Expected::default() };
    let broken = ExpectedError::Member { member: "taints", must: "a list of taints" };
    let taints = match object.get("taints") {
        None | Some(Value::Null) => return Ok(expected),
        Some(Value::Array(taints)) => taints,
        Some(_) => return Err(broken),
    };
    for taint in taints {
        let member = |name| taint.get(name).and_then(Value::as_str);
        let (key, effect) = member("key").zip(member("effect")).ok_or_else(|| broken.clone())?;
        expected.add_taint(&Taint::new(key, "", effect.into()));
    }
    Ok(expected)
}
