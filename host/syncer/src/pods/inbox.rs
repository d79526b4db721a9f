//! What the watches show of pods, on its way into the [`Book`], and the queue of what has to be looked at.
//!
//! Owns that the text of a pod is taken by the binding whose pod it is: then no other holds it. A pod whose text is not held any more
//! is looked at live.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use topoloom_cluster::watched::Earlier;
use topoloom_cluster::work::WorkQueue;
use topoloom_core::names::Uid;
use topoloom_core::version::ResourceVersion;
use topoloom_sync::identity::Identity;
use topoloom_sync::naming::ClusterId;

use super::book::Book;
use super::key::PodKey;
use crate::pod_state::PodState;
use crate::slices::pod::{Copied, KnownPod, Lending, PodName, PodSlice};

/// Where the watches of a binding show its pods. Clones are the same.
#[derive(Clone)]
pub struct Inbox {
    book: Arc<Mutex<Book>>,
    queue: WorkQueue<PodKey>,
    clock: Arc<dyn Fn() -> Duration + Send + Sync>,
}

impl Inbox {
    /// Of this binding, whose physical pods are in this namespace; nothing was shown yet. The clock is one that cannot be set.
    #[must_use]
    pub fn new(
        identity: &Identity,
        cluster: &ClusterId,
        mount: &str,
        queue: WorkQueue<PodKey>,
        clock: impl Fn() -> Duration + Send + Sync + 'static,
    ) -> Self {
        let book = Book::new(identity.clone(), cluster, mount);
        Self { book: Arc::new(Mutex::new(book)), queue, clock: Arc::new(clock) }
    }

    /// What has to be looked at.
    #[must_use]
    pub fn queue(&self) -> &WorkQueue<PodKey> {
        &self.queue
    }

    /// `spec.copy.podMetadata` and `spec.timing.orphanDelay`, as they are now.
    pub fn configure(&self, copied: BTreeSet<String>, orphan_delay: Duration) {
        let is_changed = self.book().configure(copied, orphan_delay);
        if is_changed {
            self.wake();
        }
    }

    /// The physical cluster is not seen any more, or for the first time again: before something is written up that was seen
    /// earlier it is read again, since node-lifecycle may have written what is newer.
    pub fn forget_texts(&self) {
        self.book().forget_texts();
    }

    /// Everything that is not at rest is looked at: what was forbidden may be allowed now, or what was held confirmed.
    pub fn wake(&self) {
        let all = self.book().all();
        self.add(all);
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        book.at((self.clock)());
        book
    }

    /// A list of physical pods of ours begins.
    pub(crate) fn physical_begin(&self, history: Earlier) {
        self.change(|book| book.physical_begin(history));
    }

    /// Whether a physical pod is one of this binding, by what it says of itself.
    pub(crate) fn is_ours(&self, pod: &KnownPod) -> bool {
        pod.lending().is_some_and(|lending| self.owns(lending))
    }

    /// A physical pod of this virtual cluster is as it is now.
    pub(crate) fn physical(&self, pod: &KnownPod) {
        let Some(lending) = pod.lending() else { return };
        if !self.owns(lending) {
            let name = PodName::new(&lending.namespace, &lending.name);
            return self.change(|book| book.not_owned(&name, pod.uid(), lending));
        }
        match pod.take_text().and_then(|text| self.kept(&text)) {
            Some(state) => self.change(|book| shown(book, |book| book.physical(&state))),
            None => {
                let unread = PodState::unread(pod, lending);
                self.change(|book| shown(book, |book| book.physical_unread(&unread)));
            }
        }
    }

    /// A physical pod is not shown any more; this was its last state.
    pub(crate) fn physical_gone(&self, pod: &KnownPod) {
        let Some(lending) = pod.lending() else { return };
        let text = if self.owns(lending) { pod.take_text() } else { None };
        let (name, last) = (PodName::new(&lending.namespace, &lending.name), text.and_then(|text| self.kept(&text)));
        self.change(|book| shown(book, |book| book.physical_gone(&name, pod.uid(), last.as_ref())));
    }

    /// Of this physical pod the version that is known, and the one that a list shows, where that is an older one.
    pub(crate) fn older_physical(&self, pod: &KnownPod) -> Option<(ResourceVersion, ResourceVersion)> {
        let known = |name: &PodName, uid: &Uid| self.book().physical_version(name, uid);
        older(pod, known)
    }

    /// The same of a virtual pod.
    pub(crate) fn older_twin(&self, pod: &KnownPod) -> Option<(ResourceVersion, ResourceVersion)> {
        let known = |name: &PodName, uid: &Uid| self.book().twin_version(name, uid);
        older(pod, known)
    }

    /// How many physical pods were shown without a text since the last call: it was taken before, or found no room.
    pub(crate) fn take_unread(&self) -> usize {
        std::mem::take(&mut self.book().unread)
    }

    /// The same of virtual pods.
    pub(crate) fn take_unread_twins(&self) -> usize {
        std::mem::take(&mut self.book().unread_twins)
    }

    /// The physical node of this virtual one is gone, new, or another one: ends of its pods that were left to others because their
    /// machine was there, or none of ours, are looked at again.
    pub(crate) fn node_gone(&self, node: &str) {
        self.change(|book| book.node_gone(node));
    }

    /// The same of all physical nodes.
    pub(crate) fn nodes_gone(&self) {
        self.change(Book::nodes_gone);
    }

    /// The list of physical pods is whole.
    pub(crate) fn physical_listed(&self, seen: &HashSet<Uid>) {
        self.change(|book| book.physical_listed(seen));
    }

    /// A list of virtual pods begins.
    pub(crate) fn twins_begin(&self, history: Earlier) {
        self.book().twins_begin(history);
    }

    /// Whether a virtual pod on this node may be one of ours.
    pub(crate) fn may_be_lent(&self, node: &str) -> bool {
        self.book().may_be_lent(node)
    }

    /// A virtual pod is as it is now, with its text, where that is held.
    pub(crate) fn twin(&self, pod: &KnownPod, text: Option<&str>) {
        let Some(lending) = pod.lending() else { return };
        match text.and_then(|text| self.kept(text)) {
            Some(state) => self.change(|book| book.twin(&state)),
            None => {
                let unread = PodState::unread(pod, lending);
                self.change(|book| book.twin_unread(&unread));
            }
        }
    }

    /// A virtual pod is gone.
    pub(crate) fn twin_gone(&self, name: &PodName, uid: &Uid) {
        self.change(|book| book.twin_gone(name, uid));
    }

    /// The list of virtual pods is whole.
    pub(crate) fn twins_listed(&self, seen: &HashSet<Uid>) {
        self.change(|book| book.twins_listed(seen));
    }

    /// Whether a physical pod is one of ours.
    fn owns(&self, lending: &Lending) -> bool {
        self.book().owns(&lending.labels, &lending.namespace)
    }

    /// What a text says, as far as this binding keeps it.
    fn kept(&self, text: &str) -> Option<PodState> {
        let keys = Arc::clone(self.book().copied());
        Some(PodState::read(text)?.keeping(&keys))
    }

    /// A pod that was read whole.
    pub(super) fn state(&self, slice: &PodSlice, copied: Copied) -> PodState {
        let keys = Arc::clone(self.book().copied());
        PodState::of(slice, copied, &keys)
    }

    /// Adds what has to be looked at. A full queue is counted, and the next sweep adds what it refused.
    pub(super) fn add(&self, keys: Vec<PodKey>) {
        for key in keys {
            let _refused = self.queue.add(key);
        }
    }

    fn change(&self, change: impl FnOnce(&mut Book) -> Vec<PodKey>) {
        let looks = change(&mut self.book());
        self.add(looks);
    }
}

/// The watch shows a physical pod: what follows from it is as old as that.
fn shown(book: &mut Book, show: impl FnOnce(&mut Book) -> Vec<PodKey>) -> Vec<PodKey> {
    let looks = show(book);
    book.were_shown(&looks, Instant::now());
    looks
}

/// The version that is known of a pod, and the one that is shown, where that is an older one.
fn older(
    pod: &KnownPod,
    known: impl Fn(&PodName, &Uid) -> Option<ResourceVersion>,
) -> Option<(ResourceVersion, ResourceVersion)> {
    let lending = pod.lending()?;
    let known = known(&PodName::new(&lending.namespace, &lending.name), pod.uid())?;
    let shown = lending.version.clone();
    shown.is_older_than(&known).then_some((known, shown))
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}
