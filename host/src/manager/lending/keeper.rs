//! The life of one binding on one replica: it stands for the lease, runs the group while it holds it, and stands again.
//!
//! Owns the order of things, so that no write of a group comes after another replica may hold its lease: the gates close, the
//! group ends, and only then the lease is given back. One keeper is for one binding with one UID.
//!
//! ```text
//!            ┌────── stands ◄───────────────┐ handed over
//!            │ granted                      │
//!            ▼                              │
//!          holds ── lost, or group ended ──► rests, for one lease duration or longer
//! ```
//!
//! A binding that is gone may have left nodes, whose leases have to be renewed (decision S22). So it is stood for as before, and the
//! replica that holds its lease finds out what is left: its group ends by itself when that is nothing, and with it the keeper, on one
//! replica after the other. It is handed over to no other replica, since one that has seen the binding knows more than what its lease
//! keeps of it.
//!
//! Bindings that come, or are lost, at one moment are stood for one after the other, so that an API server does not get the
//! requests of all of them at once. One that comes alone does not wait.
//!
//! # Failure story
//!
//! A lost lease closes both gates at once, ends this group and nothing else; after one lease duration this replica stands again
//! (decision S11). That holds for a lease that is lost while its group ends for another reason, too. A group that ends by itself
//! or crashes gives its lease back, so that another replica takes it, and this one rests as after a loss, twice as long after each
//! further failure: a binding that fails everywhere is taken over and given back a few times an hour, and not all the time. A
//! group that does not end in time is dropped with all its tasks; its gates are closed by then or close with the lease. A keeper
//! that is dropped gives the lease back without waiting.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use topoloom_core::election::Lost;
use topoloom_core::text;
use topoloom_sync::spread::{KEPT, stagger};

use super::arrivals::Arrivals;
use super::crew::Crew;
use super::groups::{BindingGroups, BindingId, BindingReport, HeldBinding};
use crate::manager::election::{BindingElection, Election, Stands};
use crate::manager::health::Health;
use crate::manager::tasks::{Ended, Tasks};

/// How long this replica rests where it runs without leases.
const REST: Duration = Duration::from_secs(15);
/// So often its rest is doubled: after that it is about as long as a replica keeps what it has taken.
const DOUBLED: u32 = 5;

/// What the keepers of a replica share.
pub(super) struct Office {
    pub(super) groups: Arc<dyn BindingGroups>,
    pub(super) elections: Arc<dyn Stands>,
    pub(super) crew: Arc<Crew>,
    pub(super) health: Health,
    pub(super) arrivals: Arrivals,
    /// How long a group may take to end while its lease is held.
    pub(super) drain: Duration,
}

/// Keeps one binding.
pub(super) struct Keeper {
    pub(super) binding: BindingId,
    /// The name of its lease.
    pub(super) lease: String,
    pub(super) office: Arc<Office>,
    /// Is cancelled when there is no such binding any more.
    pub(super) gone: CancellationToken,
}

/// What a keeper does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It stands again at once.
    Stands,
    /// It stands again after one lease duration.
    Rests,
    /// Nothing is left of the binding: it ends, as soon as the list of bindings shows that, too, and stands again after one lease
    /// duration where that does not happen.
    Leaves,
    /// The group ended by itself: it stands again after one lease duration, or later where that has happened before.
    Fails,
    /// It ends.
    Ends,
}

/// An election that ends with its keeper.
struct Stood(Election);

impl Drop for Stood {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Keeper {
    /// Keeps the binding until `stop` is cancelled, or it is gone and this replica has found that nothing of it is left. Then its group
    /// has ended and its lease was given back.
    pub(super) async fn run(&self, stop: &CancellationToken) {
        if let Some(leases) = self.office.elections.leases() {
            let pause = tokio::time::sleep(self.office.arrivals.pause(&self.binding, leases.retry_period));
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
        // In a row, without a long tenure in between.
        let mut failures = 0_u32;
        loop {
            let standing = AssertUnwindSafe(self.stand(stop, &mut failures)).catch_unwind();
            let next = standing.await.unwrap_or_else(|panic| {
                let panic = text::of_panic(&*panic);
                tracing::error!(
                    binding = &*self.binding.name,
                    panic,
                    "the keeper of a binding crashed; it begins again"
                );
                Next::Fails
            });
            let rest = match next {
                Next::Stands => Duration::ZERO,
                Next::Rests => self.rest(),
                Next::Leaves => {
                    let rests = stop.run_until_cancelled(tokio::time::sleep(self.rest()));
                    match self.gone.run_until_cancelled(rests).await.flatten() {
                        Some(()) => Duration::ZERO,
                        None => break,
                    }
                }
                Next::Fails => {
                    self.office.health.binding_failed(&self.binding.name);
                    let rest = self.rest() * (1_u32 << failures.min(DOUBLED));
                    failures = failures.saturating_add(1);
                    rest
                }
                Next::Ends => break,
            };
            if stop.run_until_cancelled(tokio::time::sleep(rest)).await.is_none() {
                break;
            }
        }
        self.office.health.binding_gone(&self.binding.name);
    }

    /// One lease duration, and up to a quarter of it.
    fn rest(&self) -> Duration {
        let rest = self.office.elections.leases().map_or(REST, |leases| leases.duration);
        rest + stagger(&self.binding.uid, rest / 4)
    }

    /// Stands for the lease, from the first request to the last.
    async fn stand(&self, stop: &CancellationToken, failures: &mut u32) -> Next {
        let Office { elections, crew, health, .. } = &*self.office;
        let candidacy = crew.stand(&self.binding.uid);
        let name: Arc<str> = (&self.binding.name).into();
        let election = Stood(elections.stand(BindingElection {
            check: health.binding_lease(&name),
            lease: self.lease.clone(),
            courtesy: candidacy.courtesy(),
            binding: Arc::clone(&name),
        }));
        let election = &election.0;
        health.binding(&name, election.clone());
        let next = tokio::select! {
            biased;
            () = stop.cancelled() => Next::Ends,
            lost = election.lost() => {
                tracing::warn!(
                    binding = &*name, why = %lost,
                    "the election of a binding ended on this replica, which takes part again later"
                );
                Next::Rests
            }
            () = election.granted() => self.hold(election, stop, failures).await,
        };
        election.release().await;
        next
    }

    /// Runs the group while the lease is held. What failed before a long tenure does not count.
    async fn hold(&self, election: &Election, stop: &CancellationToken, failures: &mut u32) -> Next {
        let begun = Instant::now();
        let (binding, ends) = (&*self.binding.name, CancellationToken::new());
        let tenure = self.office.crew.hold(&self.binding.uid);
        let held = HeldBinding {
            binding: self.binding.clone(),
            lease: election.lease().cloned(),
            gate: election.gate().clone(),
            heartbeats: election.held().clone(),
            report: BindingReport::new(&self.office.health, &self.binding),
        };
        tracing::info!(binding, uid = &*self.binding.uid, "the group of a binding begins");
        self.office.health.binding_runs(binding);
        let mut group = Tasks::default();
        group.spawn_fallible("the group of a binding", self.office.groups.start_group(held, ends.clone()));
        let handed_over = async {
            tenure.is_handed_over().await;
            if self.gone.is_cancelled() {
                std::future::pending::<()>().await;
            }
        };
        let (next, bound) = tokio::select! {
            biased;
            () = stop.cancelled() => (Next::Ends, self.office.drain),
            lost = election.lost() => {
                self.close(election, &lost);
                (Next::Rests, self.after_loss())
            }
            ended = group.next() => (self.ended(&ended, *failures, begun), self.office.drain),
            () = handed_over => {
                tracing::info!(binding, "a binding is handed over to a replica that ranks higher for it");
                (Next::Stands, self.office.drain)
            }
        };
        ends.cancel();
        let mut is_lost = next == Next::Rests;
        let ending = async {
            if is_lost {
                group.finish().await;
                return Ok(());
            }
            tokio::select! {
                biased;
                () = group.finish() => return Ok(()),
                lost = election.lost() => self.close(election, &lost),
            }
            is_lost = true;
            timeout(self.after_loss(), group.finish()).await
        };
        if !matches!(timeout(bound, ending).await, Ok(Ok(()))) {
            tracing::warn!(binding, ?bound, "the group of a binding did not end in time and is cut off");
        }
        group.cut_off().await;
        self.office.health.binding_follows(binding);
        tracing::info!(binding, "the group of a binding has ended");
        if begun.elapsed() > KEPT {
            *failures = 0;
        }
        // What is lost is not handed over.
        if is_lost && next == Next::Stands { Next::Rests } else { next }
    }

    /// The group has ended by itself.
    fn ended(&self, ended: &Ended, failures: u32, begun: Instant) -> Next {
        let binding = &*self.binding.name;
        match &ended.how {
            Ok(()) => {
                tracing::info!(binding, "nothing is left of a binding that is gone");
                Next::Leaves
            }
            Err(_) if failures == 0 || begun.elapsed() > KEPT => {
                tracing::error!(
                    binding, %ended, "the group of a binding ended by itself; its lease is released for other replicas"
                );
                Next::Fails
            }
            Err(_) => {
                tracing::warn!(
                    binding, %ended, failures,
                    "the group of a binding ended by itself once more; its lease is released for other replicas"
                );
                Next::Fails
            }
        }
    }

    /// The lease is lost: the group writes nothing more, and has to end.
    fn close(&self, election: &Election, lost: &Lost) {
        tracing::warn!(
            binding = &*self.binding.name, why = %lost,
            "the lease of a binding is lost: its group ends, and the others continue"
        );
        election.gate().close();
        election.held().close();
    }

    /// How long what is under way may take after a loss: until another replica may hold the lease.
    fn after_loss(&self) -> Duration {
        let left = self.office.elections.leases().map(|leases| leases.duration.saturating_sub(leases.renew_deadline));
        left.unwrap_or(self.office.drain).min(self.office.drain)
    }
}
