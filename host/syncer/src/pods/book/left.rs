//! Virtual pods that terminate, whose end was looked at and is left to others until something happens.
//!
//! Owns which those are, by the virtual node that each is on. Most machines that go have none of them, and then no pod is looked at: a
//! binding may have tens of thousands of pods, and lose many machines at once.

use std::collections::{BTreeSet, HashMap};

use topoloom_core::names::NodeName;

use crate::slices::pod::PodName;

/// The pods whose ends are left to others.
#[derive(Debug, Default)]
pub(super) struct Left(HashMap<NodeName, BTreeSet<PodName>>);

impl Left {
    /// The end of this pod is left to others from now on.
    pub(super) fn add(&mut self, node: &NodeName, pod: &PodName) {
        self.0.entry(node.clone()).or_default().insert(pod.clone());
    }

    /// Something happened to it.
    pub(super) fn remove(&mut self, node: &str, pod: &PodName) {
        let Some(pods) = self.0.get_mut(node) else { return };
        pods.remove(pod);
        if pods.is_empty() {
            self.0.remove(node);
        }
    }

    /// Whether its end is left to others.
    pub(super) fn has(&self, node: &str, pod: &PodName) -> bool {
        self.0.get(node).is_some_and(|pods| pods.contains(pod))
    }

    /// Something happened to this node. Returns its pods whose ends were left to others.
    pub(super) fn take(&mut self, node: &str) -> BTreeSet<PodName> {
        self.0.remove(node).unwrap_or_default()
    }

    /// The same of all nodes.
    pub(super) fn take_all(&mut self) -> BTreeSet<PodName> {
        std::mem::take(&mut self.0).into_values().flatten().collect()
    }
}
