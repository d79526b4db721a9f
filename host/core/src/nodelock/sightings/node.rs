//! One node: its locks, what is remembered of their values, the locks that disappeared, and the versions that were passed
//! over.

use std::time::Duration;

use super::super::needs::{LockKey, NodeKind};
use super::super::record::Lock;
use super::reads::Moment;
use super::{NamespacedName, name_of};
use crate::names::{LockValue, Uid};
use crate::version::ResourceVersion;

/// The locks of a node, by their keys in their order.
pub type Locks = Vec<(LockKey, Lock)>;

/// A node, as far as locks are concerned, as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct NodeRead {
    /// In which version.
    pub version: ResourceVersion,
    /// Its UID.
    pub uid: Option<Uid>,
    /// What it is.
    pub kind: NodeKind,
    /// Its locks.
    pub locks: Locks,
}

/// What is kept of a node.
#[derive(Debug, Clone, Default, Hash)]
pub(super) struct NodeSighting {
    read: NodeRead,
    /// What is remembered of the values on the node.
    remembered: Vec<Remembered>,
    /// The last locks of keys that have none now, until the watch of pods has shown the outcome of the pods that they
    /// name: the watch may be behind, and such a pod may be bound and wait for the device plugin of another vendor.
    left: Locks,
    /// Versions that were passed over.
    gap: Option<Gap>,
}

/// Versions of a node that were passed over: a lock may have come and gone in them, and its pod be bound and wait for the
/// device plugin of another vendor, while the watch of pods is behind.
#[derive(Debug, Clone, Hash)]
struct Gap {
    /// The keys that this concerns: those without a lock that names a pod. Such a lock was written when the pod of the lock
    /// before it was known to wait no longer.
    keys: Vec<LockKey>,
    /// When the last version was passed over.
    opened: Moment,
    closes: Closes,
}

/// What closes a gap, besides a list of pods that was asked for after it opened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Closes {
    /// The watch, once it has shown this version, and every one before it.
    Shown(ResourceVersion),
    /// Nothing: the watch has listed, and never shows what was before its list.
    Never,
}

/// What is remembered of a value until it is replaced.
#[derive(Debug, Clone, Hash)]
struct Remembered {
    key: LockKey,
    value: LockValue,
    /// When it was first seen here.
    first_seen: Duration,
    /// Since when a live read has not found the pod that it names.
    gone: Option<Duration>,
}

impl NodeSighting {
    /// Enters a newer read of the same node. What was remembered of values that are still there is kept. Returns the
    /// values that are gone.
    pub(super) fn replace(&mut self, read: NodeRead, now: Duration) -> Vec<LockValue> {
        let before = std::mem::replace(&mut self.read, read);
        let value = |key: LockKey| of(&self.read.locks, key).map(|lock| &lock.value);
        self.left.retain(|(key, _)| value(*key).is_none());
        for (key, lock) in before.locks.into_iter().filter(|(key, _)| value(*key).is_none()) {
            let gone = self.remembered.iter().any(|it| it.key == key && it.gone.is_some());
            if lock.pod().is_some() && !gone {
                self.left.reserve_exact(1);
                self.left.push((key, lock));
            }
        }
        let over = self.remembered.extract_if(.., |it| value(it.key) != Some(&it.value)).map(|it| it.value).collect();
        for (key, lock) in &self.read.locks {
            if self.remembered.iter().all(|it| it.key != *key) {
                self.remembered.reserve_exact(1);
                let value = lock.value.clone();
                self.remembered.push(Remembered { key: *key, value, first_seen: now, gone: None });
            }
        }
        if let Some(gap) = &mut self.gap {
            gap.keys.retain(|key| names_no_pod(&self.read.locks, *key));
        }
        self.gap.take_if(|gap| gap.keys.is_empty());
        over
    }

    /// Versions before the known one were passed over.
    pub(super) fn pass_over(&mut self, opened: Moment, closes: Closes) {
        let keys: Vec<LockKey> = LockKey::ALL.into_iter().filter(|key| names_no_pod(&self.read.locks, *key)).collect();
        let never = self.gap.as_ref().is_some_and(|gap| gap.closes == Closes::Never);
        let closes = if never { Closes::Never } else { closes };
        self.gap = (!keys.is_empty()).then_some(Gap { keys, opened, closes });
    }

    /// The watch has listed this very version, and never shows one before it.
    pub(super) fn listed_again(&mut self) {
        if let Some(gap) = &mut self.gap {
            gap.closes = Closes::Never;
        }
    }

    /// The watch has shown a version that was passed over: the pods that its locks name.
    pub(super) fn made_up_for(&mut self, passed: Locks) {
        let Some(Gap { keys, closes: Closes::Shown(_), .. }) = &self.gap else { return };
        for (key, lock) in passed.into_iter().filter(|(key, lock)| keys.contains(key) && lock.pod().is_some()) {
            self.left.retain(|(of, _)| *of != key);
            self.left.reserve_exact(1);
            self.left.push((key, lock));
        }
    }

    /// The watch has shown this version, and every one before it.
    pub(super) fn shown(&mut self, version: &ResourceVersion) {
        self.gap.take_if(|gap| matches!(&gap.closes, Closes::Shown(last) if version >= last));
    }

    /// All pods are known as they were at that moment or later.
    pub(super) fn pods_listed(&mut self, at: Moment) {
        self.gap.take_if(|gap| gap.opened <= at);
    }

    /// When versions were passed over in which a lock may have come and gone under a key.
    pub(super) fn passed_over(&self, key: LockKey) -> Option<Moment> {
        self.gap.as_ref().filter(|gap| gap.keys.contains(&key)).map(|gap| gap.opened)
    }

    pub(super) fn version(&self) -> &ResourceVersion {
        &self.read.version
    }

    pub(super) fn uid(&self) -> Option<Uid> {
        self.read.uid.clone()
    }

    pub(super) fn kind(&self) -> NodeKind {
        self.read.kind
    }

    pub(super) fn locks(&self) -> &Locks {
        &self.read.locks
    }

    pub(super) fn lock(&self, key: LockKey) -> Option<&Lock> {
        of(&self.read.locks, key)
    }

    /// The lock that disappeared from under a key.
    pub(super) fn left(&self, key: LockKey) -> Option<&Lock> {
        of(&self.left, key)
    }

    pub(super) fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    pub(super) fn retain_left(&mut self, keep: impl Fn(&Lock) -> bool) {
        self.left.retain(|(_, lock)| keep(lock));
    }

    /// The pods that its locks name, those that disappeared included.
    pub(super) fn names(&self) -> Vec<NamespacedName> {
        let locks = self.left.iter().chain(&self.read.locks);
        locks.filter_map(|(_, lock)| lock.pod().map(|pod| name_of(&pod.namespace, &pod.name))).collect()
    }

    /// The values on the node.
    pub(super) fn values(&self) -> impl Iterator<Item = &LockValue> {
        self.remembered.iter().map(|it| &it.value)
    }

    pub(super) fn first_seen(&self, key: LockKey) -> Option<Duration> {
        self.remembered.iter().find(|it| it.key == key).map(|it| it.first_seen)
    }

    /// Since when the pod that a value names is known to be gone, under any key: the same value may stand under both.
    pub(super) fn gone(&self, value: &str) -> Option<Duration> {
        self.remembered.iter().filter(|it| *it.value == *value).find_map(|it| it.gone)
    }

    pub(super) fn gone_under(&self, key: LockKey, value: &str) -> Option<Duration> {
        self.remembered.iter().find(|it| it.key == key && *it.value == *value).and_then(|it| it.gone)
    }

    /// If the value was replaced meanwhile, nothing is remembered.
    pub(super) fn set_gone(&mut self, value: &str, since: Duration) {
        let known = self.remembered.iter_mut().filter(|it| *it.value == *value);
        known.for_each(|it| it.gone = Some(since));
    }

    pub(super) fn has_stood(&mut self) {
        self.remembered.iter_mut().for_each(|it| it.first_seen = Duration::ZERO);
    }
}

fn names_no_pod(locks: &Locks, key: LockKey) -> bool {
    of(locks, key).is_none_or(|lock| lock.pod().is_none())
}

fn of(locks: &Locks, key: LockKey) -> Option<&Lock> {
    locks.iter().find(|(of, _)| *of == key).map(|(_, lock)| lock)
}
