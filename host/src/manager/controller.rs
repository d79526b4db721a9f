//! What a controller is, and the registry of those that this process has (`node-lock-and-bind.md` B2 to B4).
//!
//! A controller is initialised with the shared [`Context`], which must not block, and then run until it is asked to
//! stop. They are initialised in the order of their names and stopped the other way round (requirement R2), so that two
//! starts are alike.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use axum::Router;
use futures::future::BoxFuture;
use prometheus_client::registry::Registry as MetricRegistry;
use tokio_util::sync::CancellationToken;
use topoloom_core::controllers::Selection;

use super::debug::Debug;
use super::election::{Leadership, LeaseGroup, Stands};
use super::health::Health;
use super::options::Options;
use super::shared_locks::SharedLocks;
use crate::cluster::events::Events;
use crate::cluster::gate::Switch;
use crate::cluster::node_watch::NodeWatch;
use crate::cluster::rate::RateLimit;
use crate::cluster::{Connection, Restores, requests};
use crate::work;

/// Everything that controllers share.
pub struct Context<'a> {
    /// The options of the process.
    pub options: &'a Options,
    /// The API server. Its client reads and watches; it must not write.
    pub connection: &'a Connection,
    /// What every client counts.
    pub requests: &'a requests::Metrics,
    /// The limit of the process, for further clients whose requests wait for it.
    pub limit: &'a RateLimit,
    /// For writes of the controller: a client behind the gate of its group's lease, if it has one.
    pub writes: kube::Client,
    /// The lease of the controller's group; for one without a group, the gate of every replica.
    pub leadership: Leadership,
    /// With what a controller stands for leases whose groups come and go; nothing where none does.
    pub groups: Option<Arc<dyn Stands>>,
    /// What the controllers of the node lock share, once one of them was initialised.
    pub locks: &'a OnceCell<SharedLocks>,
    /// The switch of all writes.
    pub switch: Switch,
    /// How watches are notified that the API server went back.
    pub restores: Restores,
    /// The watch of Nodes, one for all controllers.
    pub nodes: Arc<NodeWatch>,
    /// The recorder of Events: one for the process, so that equal Events of all controllers are one series (requirement
    /// R12).
    pub events: &'a Events,
    /// Where checks are entered.
    pub health: &'a Health,
    /// How queues are worked on.
    pub work: &'a work::Options,
    /// Where metrics are registered.
    pub metrics: &'a mut MetricRegistry,
    /// Where pages of the admin server are added.
    pub pages: &'a mut Vec<Router>,
    /// Where the state for `topoloom debug dump` is added.
    pub debug: &'a mut Debug,
}

/// One controller.
pub trait Controller: Send {
    /// Its name: constant and unique, as `--controllers` has it.
    fn name(&self) -> &'static str;

    /// Under whose lease it writes; `None` where every replica does its work.
    fn group(&self) -> Option<LeaseGroup>;

    /// Whether it has groups of its own that come and go while it runs, each with a lease.
    fn lifetimes(&self) -> Lifetimes {
        Lifetimes::Fixed
    }

    /// Whether its requests wait for the rate limit of the process.
    fn rate(&self) -> RateClass {
        RateClass::Limited
    }

    /// Whether it reads the configuration, and with it the switch of all writes.
    fn configuration(&self) -> Configuration {
        Configuration::Unused
    }

    /// Makes what it runs with. Does not block and sends no request.
    ///
    /// # Errors
    /// Why it cannot run at all; something that may be there later is [`Initialized::Waits`].
    fn initialize(self: Box<Self>, context: Context<'_>) -> Result<Initialized, InitError>;
}

/// Which groups a controller has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lifetimes {
    /// The one that it names, or none, from the start of the process to its end.
    Fixed,
    /// Others, too, which come and go.
    ComeAndGo,
}

/// Whether requests of a controller wait for `--kube-api-qps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateClass {
    /// They share the limit of the process.
    Limited,
    /// They never wait: kube-scheduler waits for them (decision M3).
    Unlimited,
}

/// Whether a controller reads the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Configuration {
    /// It does, and handles the switch of all writes that is on the same object.
    Read,
    /// It does not.
    Unused,
}

/// The outcome of an initialisation.
pub enum Initialized {
    /// It runs until the token is cancelled, and has then finished its work and ended its tasks.
    Runs(Run),
    /// What it needs is not there: it does nothing, and says why.
    Waits(String),
}

/// A controller that runs.
pub type Run = Box<dyn FnOnce(CancellationToken) -> BoxFuture<'static, Result<(), String>> + Send>;

/// Why a controller cannot be initialised.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct InitError(pub String);

/// Why a controller is not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("two controllers are called {0}; only the first runs")]
pub struct Duplicate(pub &'static str);

/// The controllers of this process by name.
#[derive(Default)]
pub struct Registry {
    controllers: BTreeMap<&'static str, Box<dyn Controller>>,
}

impl Registry {
    /// Adds one.
    ///
    /// # Errors
    /// When its name is taken.
    pub fn register(&mut self, controller: Box<dyn Controller>) -> Result<(), Duplicate> {
        let name = controller.name();
        if self.controllers.contains_key(name) {
            return Err(Duplicate(name));
        }
        self.controllers.insert(name, controller);
        Ok(())
    }

    /// Their names, in order.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.controllers.keys().copied().collect()
    }

    /// The leases that the selected ones write under.
    #[must_use]
    pub fn groups(&self, selected: &Selection) -> BTreeSet<LeaseGroup> {
        let selected = self.controllers.values().filter(|controller| selected.enables(controller.name()));
        selected.filter_map(|controller| controller.group()).collect()
    }

    /// Whether one of the selected ones has groups that come and go.
    #[must_use]
    pub fn lifetimes(&self, selected: &Selection) -> Lifetimes {
        let mut selected = self.controllers.values().filter(|controller| selected.enables(controller.name()));
        let comes_and_goes = selected.any(|controller| controller.lifetimes() == Lifetimes::ComeAndGo);
        if comes_and_goes { Lifetimes::ComeAndGo } else { Lifetimes::Fixed }
    }

    /// All of them, in order.
    #[must_use]
    pub fn into_controllers(self) -> Vec<Box<dyn Controller>> {
        self.controllers.into_values().collect()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.controllers.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str);

    impl Controller for Named {
        fn name(&self) -> &'static str {
            self.0
        }

        fn group(&self) -> Option<LeaseGroup> {
            Some(LeaseGroup::HyperNode)
        }

        fn initialize(self: Box<Self>, _: Context<'_>) -> Result<Initialized, InitError> {
            Err(InitError("only its name is real".into()))
        }
    }

    #[test]
    fn r2_controllers_are_taken_in_the_order_of_their_names_and_each_name_once() {
        let mut registry = Registry::default();
        for name in ["nodelock-sweeper", "hyperNode-controller", "extender"] {
            registry.register(Box::new(Named(name))).unwrap();
        }
        let twice = registry.register(Box::new(Named("extender")));
        assert_eq!(twice, Err(Duplicate("extender")));
        assert_eq!(registry.names(), ["extender", "hyperNode-controller", "nodelock-sweeper"]);
        let order: Vec<_> = registry.into_controllers().iter().map(|controller| controller.name()).collect();
        assert_eq!(order, ["extender", "hyperNode-controller", "nodelock-sweeper"]);
    }
}
