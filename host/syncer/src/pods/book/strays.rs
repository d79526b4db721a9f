//! Virtual pods whose physical pod is not followed any more: it is gone, or its labels are not ours and it runs on.
//!
//! A watch by labels shows both in the same way. Where the two pods named each other, a live read tells them apart. A pod that lacks the
//! UID of its binding alone is shown still: it may have lost that while no process looked.

use std::collections::HashMap;

use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::identity::names_binding;
use topoloom_sync::keys;
use topoloom_sync::pods::VirtualPod;

use super::{Book, PodKey, PodName, TwinRow};
use crate::slices::pod::Lending;

/// What is known of such pods.
#[derive(Debug, Default)]
pub(super) struct Strays {
    /// The virtual pods whose physical one has to be read, by the name of that.
    lost: HashMap<PodName, PodName>,
    /// What a person was notified of, by the UID of the virtual pod.
    said: HashMap<Uid, String>,
}

/// A virtual pod whose physical one has to be read.
#[derive(Debug)]
pub(in crate::pods) struct Stray {
    /// The virtual node that it is on.
    pub(in crate::pods) node: NodeName,
    /// The virtual pod, as far as it is known.
    pub(in crate::pods) twin: VirtualPod,
}

impl Strays {
    /// A physical pod of this name is followed.
    pub(super) fn shown(&mut self, physical: &PodName) {
        self.lost.remove(physical);
    }

    /// A virtual pod is gone.
    pub(super) fn gone(&mut self, twin: &Uid) {
        self.said.remove(twin);
    }
}

impl Book {
    /// Everything that is not at rest, and what is not followed any more and was not read yet.
    pub(in crate::pods) fn all(&self) -> Vec<PodKey> {
        let lost = self.strays.lost.keys().cloned().map(PodKey::Physical);
        self.waiting().into_iter().chain(lost).collect()
    }

    /// A physical pod is followed no more. What it ran for is looked at, where that does not end anyway.
    pub(super) fn lose(&mut self, name: &PodName) {
        let Some(row) = self.physical.get(name) else { return };
        let Some((twin, uid)) = &row.twin else { return };
        let is_its = |known: &TwinRow| known.uid == *uid && known.names(name, &row.uid);
        if self.twins.get(twin).is_some_and(|known| is_its(known) && known.ending.is_none()) {
            self.strays.lost.insert(name.clone(), twin.clone());
        }
    }

    /// A physical pod with the label of the virtual cluster is none of ours by its labels. Returns what has to be looked at: one that was
    /// followed, and one that names our binding without a UID of it, until a person was notified.
    pub(in crate::pods) fn not_owned(&mut self, name: &PodName, uid: &Uid, lending: &Lending) -> Vec<PodKey> {
        let looks = self.not_ours(name);
        let is_here = *lending.namespace == *self.mount && names_binding(&*lending.labels, &self.identity);
        let Some(named) = lending.names.as_deref().filter(|_| is_here && looks.is_empty()) else { return looks };
        let twin = PodName::new(&named.namespace, &named.name);
        let is_its = |known: &TwinRow| known.uid == named.uid && known.names(name, uid) && known.ending.is_none();
        if self.strays.said.contains_key(&named.uid) || !self.twins.get(&twin).is_some_and(|known| is_its(known)) {
            return looks;
        }
        self.strays.lost.insert(name.clone(), twin);
        vec![PodKey::Physical(name.clone())]
    }

    /// The virtual pod whose physical one, of this name, has to be read. Nothing where that ended, or terminates by now.
    pub(in crate::pods) fn stray(&mut self, name: &PodName) -> Option<Stray> {
        let found = self.strays.lost.get(name).and_then(|twin| {
            let row = self.twins.get(twin).filter(|row| row.ending.is_none() && row.seen.is_none())?;
            let (_, uid) = row.back.as_ref().filter(|(back, _)| back == name)?;
            let ((namespace, pod), (physical_namespace, physical)) = (twin.parts(), name.parts());
            let annotations = [
                (keys::PHYSICAL_POD_NAMESPACE, physical_namespace),
                (keys::PHYSICAL_POD_NAME, physical),
                (keys::PHYSICAL_POD_UID, uid.as_deref()?),
            ];
            let twin = VirtualPod {
                namespace: namespace.to_owned(),
                name: pod.to_owned(),
                uid: row.uid.clone(),
                annotations: annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            };
            Some(Stray { node: row.node.clone(), twin })
        });
        if found.is_none() {
            self.strays.lost.remove(name);
        }
        found
    }

    /// The physical pod was read, whatever that showed.
    pub(in crate::pods) fn stray_read(&mut self, name: &PodName) {
        self.strays.lost.remove(name);
    }

    /// Whether it is news that this virtual pod is not followed for this reason.
    pub(in crate::pods) fn is_news(&mut self, twin: &Uid, why: &str) -> bool {
        self.strays.said.insert(twin.clone(), why.to_owned()).is_none_or(|known| known != why)
    }

    /// The physical pod of this virtual one is followed.
    pub(in crate::pods) fn followed(&mut self, twin: &Uid) {
        self.strays.said.remove(twin);
    }
}
