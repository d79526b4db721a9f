//! What a replica does for the bindings whose leases it holds: the one way from the manager into the syncer.
//!
//! Owns the words of that contract. The manager says when a group begins and when it has to end, and with which gates it
//! writes; what the group does is behind [`BindingGroups`].

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use topoloom_core::names::Uid;
use topoloom_sync::naming::BindingName;

use crate::cluster::gate::Gate;
use crate::manager::election::LeaseName;
use crate::manager::health::Health;

/// A ClusterBinding. One that was applied again has another UID, and is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingId {
    /// Its name.
    pub name: BindingName,
    /// Its UID.
    pub uid: Uid,
}

/// Where the leases of all bindings are that this installation serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasesOfBindings {
    /// Their namespace.
    pub namespace: String,
    /// What their names begin with.
    pub base: String,
}

/// A binding whose lease this replica holds.
#[derive(Debug, Clone)]
pub struct HeldBinding {
    /// Which one.
    pub binding: BindingId,
    /// Its lease; nothing where the process runs without leases.
    pub lease: Option<LeaseName>,
    /// For every client that the group writes with, in both clusters, but for heartbeats: open while the lease is held and
    /// writes are not switched off.
    pub gate: Gate,
    /// For the client of heartbeats and for no other: open while the lease is held, also where writes are switched off,
    /// since every node would be declared dead otherwise (decision S27).
    pub heartbeats: Gate,
    /// Where the group says what is wrong.
    pub report: BindingReport,
}

/// What is wrong with a binding, for `/readyz`: it is shown there and makes no replica unready. Clones are the same.
#[derive(Clone)]
pub struct BindingReport {
    health: Health,
    name: Arc<str>,
}

impl BindingReport {
    pub(in crate::manager) fn new(health: &Health, binding: &BindingId) -> Self {
        Self { health: health.clone(), name: (&binding.name).into() }
    }

    /// What a part of the group finds wrong, in a sentence without secrets; nothing: it is well. `part` is a word for the
    /// part, and its last sentence counts.
    pub fn trouble(&self, part: &'static str, why: Option<&str>) {
        self.health.binding_trouble(&self.name, part, why);
    }
}

impl std::fmt::Debug for BindingReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("BindingReport").field(&self.name).finish()
    }
}

/// What a replica does for bindings.
pub trait BindingGroups: Send + Sync + 'static {
    /// Runs the group of a binding whose lease this replica holds, from its take-over on.
    ///
    /// It runs until `stop` is cancelled, then finishes the requests that are under way and ends with all its tasks. What
    /// has not ended within a bound is dropped: everything that the group starts has to end with the future that is
    /// returned here. When `stop` is cancelled because the lease is lost, both gates are closed already.
    ///
    /// It ends by itself, without an error, when its binding is gone and nothing of it is left. That a binding is gone does not
    /// cancel `stop`: one that was deleted by force may have lent nodes, and their leases are renewed until they are released
    /// (decision S22). For the same reason a group also begins for a binding that is gone.
    ///
    /// # Errors
    /// Why the group ended by itself. Then the lease is given back, and this replica stands for it again one lease duration
    /// later, or up to ten minutes later where the group has ended by itself before; other replicas may take it at once.
    fn start_group(&self, held: HeldBinding, stop: CancellationToken) -> BoxFuture<'static, Result<(), String>>;

    /// The watch of all bindings shows one that it did not show before. Called before a group of that one can begin. It must not wait.
    fn added(&self) {}

    /// The bindings of which something may be left, besides those that exist: what is kept of each stands in its lease. Without an
    /// election the group knows where its leases are. It ends as soon as that is known.
    fn recorded(&self, _leases: Option<LeasesOfBindings>) -> BoxFuture<'static, Vec<BindingId>> {
        std::future::ready(Vec::new()).boxed()
    }

    /// Keeps warm what the groups of this replica share, whether or not it holds a binding, from the first binding on until
    /// `stop` is cancelled.
    ///
    /// # Errors
    /// Why it ended by itself, which ends the process.
    fn keep_warm(&self, stop: CancellationToken) -> BoxFuture<'static, Result<(), String>> {
        until(stop)
    }

    /// Serves what every replica serves, also before there is a binding, until `stop` is cancelled.
    ///
    /// # Errors
    /// Why it ended by itself, which ends the process.
    fn serve(&self, stop: CancellationToken) -> BoxFuture<'static, Result<(), String>> {
        until(stop)
    }
}

/// Does nothing until it is stopped.
fn until(stop: CancellationToken) -> BoxFuture<'static, Result<(), String>> {
    async move {
        stop.cancelled().await;
        Ok(())
    }
    .boxed()
}
