//! The ends of virtual pods: what is known of those that terminate, and which of them are left to others.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::version::ResourceVersion;
use topoloom_sync::phase::Phase;

use super::{Book, PhysicalRow, PodKey, PodName, Presence};

/// What is known of a virtual pod that terminates.
#[derive(Debug)]
pub(in crate::pods) struct EndSight {
    /// Its UID.
    pub(in crate::pods) uid: Uid,
    /// Its version.
    pub(in crate::pods) version: ResourceVersion,
    /// The virtual node that it is on.
    pub(in crate::pods) node: NodeName,
    /// Its `deletionTimestamp`.
    pub(in crate::pods) deletion: Timestamp,
    /// Its `deletionGracePeriodSeconds`.
    pub(in crate::pods) grace: Option<i64>,
    /// Since when it has been seen to terminate, by the steady clock.
    pub(in crate::pods) since: Duration,
    /// Its text, where that is held.
    pub(in crate::pods) text: Option<Arc<str>>,
    /// The phase that its physical pod was seen in last.
    pub(in crate::pods) seen: Option<Phase>,
    /// The physical pod that names it, where that is there.
    pub(in crate::pods) bearer: Option<Uid>,
}

impl Book {
    /// What is known of a virtual pod that terminates; `None` where none does under this name.
    pub(in crate::pods) fn ending(&self, name: &PodName) -> Option<EndSight> {
        let row = self.twins.get(name)?;
        let ending = row.ending.as_deref()?;
        let known = |name: &PodName| self.physical.get(name).map(|physical| &**physical);
        let physical = row.back.as_ref().and_then(|(physical, _)| known(physical));
        let is_its = |physical: &&PhysicalRow| physical.twin.as_ref().is_some_and(|(_, uid)| *uid == row.uid);
        let bearer = self.bearers.get(name).and_then(known).filter(is_its);
        let bearer = bearer.filter(|bearer| bearer.presence == Presence::There);
        Some(EndSight {
            uid: row.uid.clone(),
            version: row.version.clone(),
            node: row.node.clone(),
            deletion: ending.deletion,
            grace: ending.grace,
            since: ending.since,
            text: self.texts.get(name).cloned(),
            seen: physical.filter(is_its).and_then(|physical| physical.phase).or(row.seen),
            bearer: bearer.map(|bearer| bearer.uid.clone()),
        })
    }

    /// The end of a virtual pod is left to others until something happens.
    pub(in crate::pods) fn leave(&mut self, name: &PodName) {
        if let Some(row) = self.twins.get(name).filter(|row| row.ending.is_some()) {
            self.left.add(&row.node, name);
        }
    }

    /// The physical node of this virtual one is gone, or another one: the ends of its pods are looked at again. Returns what has to be.
    pub(in crate::pods) fn node_gone(&mut self, node: &str) -> Vec<PodKey> {
        self.left.take(node).into_iter().map(PodKey::Ending).collect()
    }

    /// The same of all physical nodes.
    pub(in crate::pods) fn nodes_gone(&mut self) -> Vec<PodKey> {
        self.left.take_all().into_iter().map(PodKey::Ending).collect()
    }
}
