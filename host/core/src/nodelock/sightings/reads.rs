//! What one attempt or one sweep has read from the API server itself.

use std::collections::{BTreeMap, BTreeSet};

use super::super::holder::Pod;
use super::super::names::LockValue;
use super::PodSighting;

/// Live reads of one attempt or sweep. They count until it waits or ends: what they found may change after that.
#[derive(Debug, Clone, Default)]
pub struct LiveReads {
    /// Pods by the value that names them.
    pods: BTreeMap<LockValue, Pod>,
    /// Values that name a pod that is not there.
    absent: BTreeSet<LockValue>,
    /// The pods that are bound to the node.
    bound: Option<Vec<PodSighting>>,
}

impl LiveReads {
    /// These pods are bound to the node, and no others.
    pub fn listed(&mut self, pods: Vec<PodSighting>) {
        self.bound = Some(pods);
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

    pub(super) fn bound(&self) -> impl Iterator<Item = &PodSighting> {
        self.bound.iter().flatten()
    }
}
