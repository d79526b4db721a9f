//! One lock on a node: the value under a key, and our note about it.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use super::value::{ParsedValue, ValueError, could_be};
use crate::names::{LockValue, Uid};

/// A pod by what identifies it: its name may be taken by another one later, its UID never.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodId {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID.
    pub uid: Uid,
}

impl PodId {
    /// The same pod, as a lock names it.
    #[must_use]
    pub fn named(&self) -> PodKey {
        let Self { namespace, name, uid } = self.clone();
        PodKey { namespace, name, uid: Some(uid) }
    }
}

impl fmt::Display for PodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A pod as a lock names it, which may be without a UID.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its UID; `None` where only its name is known.
    pub uid: Option<Uid>,
}

impl PodKey {
    /// Whether this may be that pod: equal names, and no UIDs that differ.
    #[must_use]
    pub fn may_be(&self, other: &PodId) -> bool {
        let apart = self.uid.as_ref().is_some_and(|uid| *uid != other.uid);
        (&self.namespace, &self.name) == (&other.namespace, &other.name) && !apart
    }

    /// The pod, where its UID is known.
    #[must_use]
    pub fn id(&self) -> Option<PodId> {
        let Self { namespace, name, uid } = self.clone();
        Some(PodId { namespace, name, uid: uid? })
    }
}

impl fmt::Display for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What one of ours wrote beside the value (decision N4). It counts only while its `value` is the lock's, byte for
/// byte: a writer that does not know of notes makes it void.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Note {
    /// The value that it is about.
    pub value: LockValue,
    /// The UID of the pod.
    pub uid: Uid,
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lock {
    /// The text under the key.
    pub value: LockValue,
    /// The pod that it names.
    pub named: NamedHolder,
}

/// What a value names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NamedHolder {
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
    NoPod {
        /// When the value was written.
        time: Timestamp,
    },
    /// It is not understood.
    Unparsable(ValueError),
}

impl Lock {
    /// Reads a lock. A note for another value does not count.
    #[must_use]
    pub fn read(value: &str, note: Option<Note>) -> Self {
        let readable = |note: &Note| note.pod.as_ref().is_none_or(|(namespace, name)| could_be(namespace, name));
        let note = note.filter(|note| *note.value == *value && readable(note));
        let named = match ParsedValue::parse(value) {
            Err(error) => NamedHolder::Unparsable(error),
            Ok(parsed) => {
                let owner = parsed.owner().map(|(namespace, name)| (namespace.into(), name.into()));
                // A bare time has no room for a name, which is in the note.
                match owner.or_else(|| note.as_ref().and_then(|note| note.pod.clone())) {
                    Some((namespace, name)) => {
                        let uid = note.as_ref().map(|note| note.uid.clone());
                        NamedHolder::Pod { pod: PodKey { namespace, name, uid }, time: parsed.time, note }
                    }
                    None => NamedHolder::NoPod { time: parsed.time },
                }
            }
        };
        Self { value: value.into(), named }
    }

    /// The pod that it names.
    #[must_use]
    pub fn pod(&self) -> Option<&PodKey> {
        match &self.named {
            NamedHolder::Pod { pod, .. } => Some(pod),
            _ => None,
        }
    }

    /// Our note about it, where one counts.
    #[must_use]
    pub fn note(&self) -> Option<&Note> {
        match &self.named {
            NamedHolder::Pod { note, .. } => note.as_ref(),
            _ => None,
        }
    }

    /// When it was written, by the clock of its writer.
    #[must_use]
    pub fn time(&self) -> Option<Timestamp> {
        match &self.named {
            NamedHolder::Pod { time, .. } | NamedHolder::NoPod { time } => Some(*time),
            NamedHolder::Unparsable(_) => None,
        }
    }
}
