//! What stands on a node: the value under one key, and our note about it.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::value::{Value, ValueError, could_be};

/// A pod by what identifies it: its name may be taken by another one later, its UID never.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID; `None` where only its name is known.
    pub uid: Option<Arc<str>>,
}

impl PodKey {
    /// Whether both may be the same pod: equal names, and no UIDs that differ.
    #[must_use]
    pub fn may_be(&self, other: &Self) -> bool {
        let apart = self.uid.as_ref().zip(other.uid.as_ref()).is_some_and(|(one, two)| one != two);
        (&self.namespace, &self.name) == (&other.namespace, &other.name) && !apart
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What one of ours wrote beside the value (decision N4). It counts only while its `value` is the lock's, byte for byte:
/// a writer that does not know of notes makes it void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The value that it is about.
    pub value: Arc<str>,
    /// The UID of the pod.
    pub uid: Arc<str>,
    /// Namespace and name of the pod, where the value has no room for them (a bare time).
    pub pod: Option<(Arc<str>, Arc<str>)>,
    /// Which attempt.
    pub attempt: Arc<str>,
    /// Which process.
    pub instance: Arc<str>,
    /// When the attempt gives up, by the clock of its process.
    pub deadline: Timestamp,
}

/// One key of a node, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The text under the key.
    pub value: Arc<str>,
    /// Whom it names.
    pub named: Named,
}

/// Whom a value names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// A pod. Where a note of ours counts, with its UID.
    Pod {
        /// The pod.
        pod: PodKey,
        /// When the value was written.
        time: Timestamp,
        /// Our note, where it counts.
        note: Option<Note>,
    },
    /// None: a bare time.
    Nobody {
        /// When the value was written.
        time: Timestamp,
    },
    /// It is not understood.
    Unparsable(ValueError),
}

impl Lock {
    /// Reads what stands there. A note for another value does not count.
    #[must_use]
    pub fn read(value: &str, note: Option<Note>) -> Self {
        let readable = |note: &Note| note.pod.as_ref().is_none_or(|(namespace, name)| could_be(namespace, name));
        let note = note.filter(|note| *note.value == *value && readable(note));
        let named = match Value::parse(value) {
            Err(error) => Named::Unparsable(error),
            Ok(parsed) => match (parsed.owner(), note) {
                (Some((namespace, name)), note) => {
                    let uid = note.as_ref().map(|note| Arc::clone(&note.uid));
                    let pod = PodKey { namespace: namespace.into(), name: name.into(), uid };
                    Named::Pod { pod, time: parsed.time, note }
                }
                (None, Some(note @ Note { pod: Some(_), .. })) => {
                    let (namespace, name) = note.pod.clone().unwrap_or_default();
                    let pod = PodKey { namespace, name, uid: Some(Arc::clone(&note.uid)) };
                    Named::Pod { pod, time: parsed.time, note: Some(note) }
                }
                (None, _) => Named::Nobody { time: parsed.time },
            },
        };
        Self { value: value.into(), named }
    }

    /// The pod that it names.
    #[must_use]
    pub fn pod(&self) -> Option<&PodKey> {
        match &self.named {
            Named::Pod { pod, .. } => Some(pod),
            _ => None,
        }
    }

    /// Our note about it, where one counts.
    #[must_use]
    pub fn note(&self) -> Option<&Note> {
        match &self.named {
            Named::Pod { note, .. } => note.as_ref(),
            _ => None,
        }
    }

    /// When it was written, by the clock of its writer.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        match &self.named {
            Named::Pod { time, .. } | Named::Nobody { time } => Some(*time),
            Named::Unparsable(_) => None,
        }
    }
}
