//! What one attempt or one sweep has read from the API server itself.

use std::collections::{BTreeMap, BTreeSet};

use super::super::holder::Pod;
use super::PodSighting;
use crate::names::LockValue;

/// A moment in the order in which versions of nodes were passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The next one.
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Live reads of one attempt or sweep. They count until it waits or ends: what they found may change after that.
#[derive(Debug, Clone, Default, Hash)]
pub struct LiveReads {
    /// Pods by the value that names them.
    pods: BTreeMap<LockValue, Pod>,
    /// Values that name a pod that is not there.
    absent: BTreeSet<LockValue>,
    /// The pods that are bound to the node, and the moment before they were asked for.
    bound: Option<(Moment, Vec<PodSighting>)>,
}

impl LiveReads {
    /// These pods are bound to the node, and no others. They were asked for after that moment
    /// ([`Sightings::moment`](super::Sightings::moment)).
    pub fn listed(&mut self, pods: Vec<PodSighting>, after: Moment) {
        self.bound = Some((after, pods));
    }

    /// Nothing of it counts any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub(super) fn found(&mut self, value: &LockValue, pod: Pod) {
        self.pods.insert(value.clone(), pod);
    }

    pub(super) fn absent(&mut self, value: &LockValue) {
        self.absent.insert(value.clone());
    }

    pub(super) fn pod(&self, value: &str) -> Option<&Pod> {
        self.pods.get(value)
    }

    /// Whether the pod that a value names was read.
    pub(super) fn has_asked(&self, value: &str) -> bool {
        self.pods.contains_key(value) || self.absent.contains(value)
    }

    pub(super) fn has_listed(&self) -> bool {
        self.bound.is_some()
    }

    /// Whether the pods of the node were asked for after that moment.
    pub(super) fn has_listed_after(&self, moment: Moment) -> bool {
        self.bound.as_ref().is_some_and(|(after, _)| *after >= moment)
    }

    pub(super) fn bound(&self) -> impl Iterator<Item = &PodSighting> {
        self.bound.iter().flat_map(|(_, pods)| pods)
    }
}
