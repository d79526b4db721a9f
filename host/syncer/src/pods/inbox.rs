//! What the watches show of pods, on its way into the [`Book`], and the queue of what has to be looked at.

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
use super::key::{PodKey, PodName};
use super::state::PodState;
use crate::slices::pod::{Copied, PodSlice};

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
        let waiting = self.book().waiting();
        self.add(waiting);
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

    /// A physical pod of ours is as it is now.
    pub(crate) fn physical(&self, slice: &PodSlice, copied: Copied) {
        let state = self.state(slice, copied);
        self.change(|book| shown(book, |book| book.physical(&state)));
    }

    /// A physical pod is not shown any more; this was its last state.
    pub(crate) fn physical_gone(&self, slice: &PodSlice, copied: Copied) {
        let state = self.state(slice, copied);
        self.change(|book| shown(book, |book| book.physical_gone(&state.pod_name(), &state.uid(), Some(&state))));
    }

    /// A physical pod whose last state cannot be read is not shown any more.
    pub(crate) fn physical_lost(&self, name: &PodName, uid: &Uid) {
        self.change(|book| book.physical_gone(name, uid, None));
    }

    /// Of this physical pod the version that is known, and the one that a list shows, where that is an older one.
    pub(crate) fn older_physical(&self, slice: &PodSlice) -> Option<(ResourceVersion, ResourceVersion)> {
        let known = |name: &PodName, uid: &Uid| self.book().physical_version(name, uid);
        older(slice, known)
    }

    /// The same of a virtual pod.
    pub(crate) fn older_twin(&self, slice: &PodSlice) -> Option<(ResourceVersion, ResourceVersion)> {
        let known = |name: &PodName, uid: &Uid| self.book().twin_version(name, uid);
        older(slice, known)
    }

    /// Physical nodes are gone, new, or others: ends of pods that were left to others because their machine was there, or none of
    /// ours, are looked at again, where this says it of the virtual node.
    pub(crate) fn nodes_gone(&self, is_gone: impl Fn(&str) -> bool) {
        self.change(|book| book.nodes_gone(is_gone));
    }

    /// The list of physical pods is whole.
    pub(crate) fn physical_listed(&self, seen: &HashSet<Uid>) {
        self.change(|book| book.physical_listed(seen));
    }

    /// A list of virtual pods begins.
    pub(crate) fn twins_begin(&self, history: Earlier) {
        self.book().twins_begin(history);
    }

    /// A virtual pod is as it is now.
    pub(crate) fn twin(&self, slice: &PodSlice, copied: Copied) {
        let state = self.state(slice, copied);
        self.change(|book| book.twin(&state));
    }

    /// A virtual pod is gone.
    pub(crate) fn twin_gone(&self, name: &PodName, uid: &Uid) {
        self.change(|book| book.twin_gone(name, uid));
    }

    /// The list of virtual pods is whole.
    pub(crate) fn twins_listed(&self, seen: &HashSet<Uid>) {
        self.change(|book| book.twins_listed(seen));
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
    slice: &PodSlice,
    known: impl Fn(&PodName, &Uid) -> Option<ResourceVersion>,
) -> Option<(ResourceVersion, ResourceVersion)> {
    let pod = slice.pod();
    let known = known(&PodName::new(&pod.namespace, &pod.name), &pod.uid)?;
    let shown = ResourceVersion::from(slice.metadata().resource_version.as_deref());
    shown.is_older_than(&known).then_some((known, shown))
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inbox")
    }
}
