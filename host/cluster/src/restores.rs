//! An API server that went back: its etcd was restored to an earlier state.
//!
//! The revision of etcd only grows, until an operator restores an earlier snapshot. A watch from a version that the
//! restored server has not reached is answered, and then sends nothing; and a cache may hold objects that no longer
//! have a history. So each watch compares the server's version with the versions that it showed before
//! ([`watches`](super::watches)). The first watch that finds a lower one reports it here, and from then on
//!
//! * every watch of the process lists again, and the caches forget what only the lost history has;
//! * every gate refuses writes until all watches have listed, so nothing is written on old knowledge;
//! * the log and the metrics show it.
//!
//! # Failure story
//!
//! A watch that is refused for good (a missing right, a missing CRD) has nothing to forget and is not waited for. A
//! watch that cannot reach the API server is waited for: until it has an answer, the present state is not known.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use topoloom_core::version::ResourceVersion;

use super::gate::Switch;

/// What is known of restores of the API server's store. Clones are the same.
#[derive(Clone, Default)]
pub struct Restores(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// How often the API server went back.
    count: watch::Sender<u64>,
    watches: Mutex<Watches>,
    /// Holds writes while a watch has not listed since.
    switch: Option<Switch>,
    restores: Counter,
    outdated: Gauge,
}

/// The watches of the process.
#[derive(Default)]
struct Watches {
    next: u64,
    /// The count at which each began its last whole list.
    listed: BTreeMap<u64, u64>,
}

/// What a list does to what is known from before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// It is of the same history: a version that is newer than the list stays.
    Valid,
    /// The API server has left that history: all of it is forgotten, whatever its version.
    Void,
}

/// One watch of the process.
pub struct RestoreWatch {
    restores: Restores,
    id: u64,
    /// The count when its list began.
    seen: u64,
    changes: watch::Receiver<u64>,
}

impl Restores {
    /// Writes behind the switch are held until every cache was read again.
    #[must_use]
    pub fn holding(switch: &Switch) -> Self {
        Self(Arc::new(Shared { switch: Some(switch.clone()), ..Shared::default() }))
    }

    /// Registers what is counted.
    pub fn register(&self, registry: &mut Registry) {
        let shared = &self.0;
        registry.register(
            "api_server_restores",
            "How often the API server went back to an earlier state: its etcd was restored",
            shared.restores.clone(),
        );
        registry.register(
            "outdated_watches",
            "Watches that have not listed again since the API server went back; nothing is written until it is 0",
            shared.outdated.clone(),
        );
    }

    /// One more watch, which has listed nothing yet: its first list replaces everything, and shows what is there after all restores
    /// until now, so none of them waits for it.
    #[must_use]
    pub fn member(&self) -> RestoreWatch {
        let changes = self.0.count.subscribe();
        let mut watches = self.watches();
        let id = watches.next;
        watches.next += 1;
        let now = *changes.borrow();
        watches.listed.insert(id, now);
        drop(watches);
        RestoreWatch { restores: self.clone(), id, seen: 0, changes }
    }

    /// Resolves whenever the API server has gone back.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.count.subscribe()
    }

    /// A whole list shows an object in a version before the one that was seen, although the list is newer: the store was
    /// restored, and its revision raised.
    pub fn contradicted(&self, known: &ResourceVersion, listed: &ResourceVersion) {
        let seen = *self.0.count.borrow();
        self.went_back(seen, known, listed);
    }

    /// The same for a list that several have taken: it began when the API server had gone back this often, and what it shows is
    /// found once.
    pub fn contradicted_as_of(&self, count: u64, known: &ResourceVersion, listed: &ResourceVersion) {
        self.went_back(count, known, listed);
    }

    fn watches(&self) -> MutexGuard<'_, Watches> {
        self.0.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn went_back(&self, seen: u64, known: &ResourceVersion, current: &ResourceVersion) {
        let shared = &self.0;
        let watches = self.watches();
        // Another watch may have found it first.
        if *shared.count.borrow() != seen {
            return;
        }
        tracing::warn!(
            known = &**known,
            current = &**current,
            "the API server went back to an earlier version: its etcd was restored. The host reads all caches again, \
                and writes nothing before that"
        );
        shared.restores.inc();
        if let Some(switch) = &shared.switch {
            switch.hold(
                "the API server went back to an earlier version, and the host has not read all caches again \
                yet",
            );
        }
        shared.count.send_modify(|count| *count += 1);
        self.settle(&watches);
    }

    /// Counts the watches that are behind, and allows writes if there is none.
    fn settle(&self, watches: &Watches) {
        let now = *self.0.count.borrow();
        let behind = watches.listed.values().filter(|listed| **listed < now).count();
        let before = self.0.outdated.set(i64::try_from(behind).unwrap_or(i64::MAX));
        if behind > 0 {
            return;
        }
        if let Some(switch) = &self.0.switch {
            switch.resume();
        }
        if before > 0 {
            tracing::info!("all caches were read again after the API server went back");
        }
    }
}

impl fmt::Debug for Restores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Restores").field(&*self.0.count.borrow()).finish()
    }
}

impl RestoreWatch {
    /// A list begins: what it does to what is known.
    pub fn lists(&mut self) -> Earlier {
        let before = std::mem::replace(&mut self.seen, *self.changes.borrow_and_update());
        if before == self.seen { Earlier::Valid } else { Earlier::Void }
    }

    /// The same for a list that another watch has begun, when the API server had gone back this often. Where it went back again
    /// since, this one is outdated until it takes the next list.
    pub fn lists_as_of(&mut self, count: u64) -> Earlier {
        let before = std::mem::replace(&mut self.seen, count);
        if before == self.seen { Earlier::Valid } else { Earlier::Void }
    }

    /// The list was read to its end, or is refused for good.
    pub fn listed(&self) {
        let mut watches = self.restores.watches();
        watches.listed.insert(self.id, self.seen);
        self.restores.settle(&watches);
    }

    /// The API server is at a version before one that it has shown.
    pub fn went_back(&self, known: &ResourceVersion, current: &ResourceVersion) {
        self.restores.went_back(self.seen, known, current);
    }

    /// Whether the API server has gone back this often.
    #[must_use]
    pub fn is_as_of(&self, count: u64) -> bool {
        *self.changes.borrow() == count
    }

    /// Whether the API server went back since the last list began.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        *self.changes.borrow() != self.seen
    }

    /// Resolves once the API server went back since the last list began.
    pub async fn outdated(&mut self) {
        let seen = self.seen;
        // The sender is in `self`, so it cannot be gone.
        let _ = self.changes.wait_for(|count| *count != seen).await;
    }
}

impl Drop for RestoreWatch {
    fn drop(&mut self) {
        let mut watches = self.restores.watches();
        watches.listed.remove(&self.id);
        self.restores.settle(&watches);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{Closed, Gate, ReadOnly};

    fn version(number: u64) -> ResourceVersion {
        number.to_string().into()
    }

    #[test]
    fn writes_are_held_until_every_watch_has_listed_anew() {
        let switch = Switch::new(ReadOnly::No);
        let (gate, restores) = (Gate::open(&switch), Restores::holding(&switch));
        let (mut nodes, mut pods, gone) = (restores.member(), restores.member(), restores.member());
        assert_eq!((nodes.lists(), pods.lists()), (Earlier::Valid, Earlier::Valid));
        nodes.went_back(&version(10), &version(7));
        assert!(matches!(gate.check(), Err(Closed::Outdated(_))), "{gate:?}");
        assert!(nodes.is_outdated() && pods.is_outdated());
        // The same, found by another watch.
        pods.went_back(&version(9), &version(7));
        assert_eq!(nodes.lists(), Earlier::Void);
        // A list that began before is none.
        pods.listed();
        nodes.listed();
        assert_eq!(pods.lists(), Earlier::Void);
        pods.listed();
        assert!(gate.check().is_err(), "one is missing");
        drop(gone);
        assert_eq!(gate.check(), Ok(()));
        assert_eq!(pods.lists(), Earlier::Valid, "one step back is one");
        pods.went_back(&version(7), &version(6));
        assert!(gate.check().is_err());
    }

    #[test]
    fn a_watch_that_comes_after_a_restore_is_not_outdated_and_forgets_what_it_may_have_from_before() {
        let switch = Switch::new(ReadOnly::No);
        let (gate, restores) = (Gate::open(&switch), Restores::holding(&switch));
        let [mut first, second] = [restores.member(), restores.member()];
        first.lists();
        first.went_back(&version(10), &version(7));
        first.lists();
        first.listed();
        let mut late = restores.member();
        assert_eq!((restores.0.outdated.get(), gate.check().is_err()), (1, true), "the second was there before");
        drop(second);
        assert_eq!((restores.0.outdated.get(), gate.check()), (0, Ok(())));
        // One that comes and goes, as those of leases of bindings do.
        drop(restores.member());
        assert_eq!(restores.0.outdated.get(), 0);
        assert_eq!(late.lists(), Earlier::Void, "what another watch has shown may be known beside it");
        late.listed();
        // The next restore waits for it as for any.
        first.went_back(&version(7), &version(6));
        assert_eq!((restores.0.outdated.get(), gate.check().is_err()), (2, true));
    }

    #[test]
    fn one_that_takes_the_lists_of_another_watch_is_waited_for_until_it_has_taken_one_from_after_the_restore() {
        let switch = Switch::new(ReadOnly::No);
        let (gate, restores) = (Gate::open(&switch), Restores::holding(&switch));
        let (mut watch, mut taker) = (restores.member(), restores.member());
        watch.lists();
        assert_eq!(taker.lists_as_of(0), Earlier::Valid);
        watch.went_back(&version(10), &version(7));
        watch.lists();
        watch.listed();
        // It is still at the list from before.
        taker.listed();
        assert!(taker.is_outdated() && gate.check().is_err());
        assert_eq!(taker.lists_as_of(1), Earlier::Void);
        assert!(gate.check().is_err(), "it has begun");
        taker.listed();
        assert_eq!((gate.check(), taker.is_outdated()), (Ok(()), false));
        assert_eq!(taker.lists_as_of(1), Earlier::Valid);
        assert!(taker.is_as_of(1) && !taker.is_as_of(0));
    }

    #[test]
    fn what_a_list_shows_that_several_have_taken_is_found_once() {
        let restores = Restores::default();
        for _ in 0..3 {
            restores.contradicted_as_of(0, &version(10), &version(7));
        }
        assert_eq!(*restores.changes().borrow(), 1);
        restores.contradicted_as_of(1, &version(10), &version(7));
        assert_eq!(*restores.changes().borrow(), 2);
    }

    #[test]
    fn what_an_operator_switched_off_meanwhile_stays_off() {
        let switch = Switch::new(ReadOnly::No);
        let (gate, restores) = (Gate::open(&switch), Restores::holding(&switch));
        let mut watch = restores.member();
        watch.went_back(&version(10), &version(7));
        switch.set(ReadOnly::Yes);
        assert!(matches!(gate.check(), Err(Closed::Outdated(_))));
        watch.lists();
        watch.listed();
        assert_eq!(gate.check(), Err(Closed::ReadOnly));
    }
}
