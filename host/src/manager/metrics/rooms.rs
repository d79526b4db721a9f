//! Which rooms count, so that what is served and what is documented are registered by the same lines.
//!
//! A room that counts gets a field here. What only shows the state of another room (controllers, the cache of plugins)
//! is registered where that is.

use prometheus_client::registry::Registry;
use topoloom_core::names::SourceName;
use topoloom_syncer::{heartbeats, kubelet, metrics, pods};

use super::{SettingMetrics, process};
use crate::cluster::requests;
use crate::discovery::metrics::RoundMetrics;
use crate::manager::election;
use crate::topology::metrics::WriteMetrics;
use crate::{endpoints, plugin, work};

/// What the process counts, no matter which controllers run.
#[derive(Debug)]
pub struct Process {
    /// Requests to the API server.
    pub requests: requests::Metrics,
    /// Leases.
    pub elections: election::Metrics,
    /// Work queues.
    pub work: work::Metrics,
}

impl Process {
    /// Registers all of it.
    pub fn register(registry: &mut Registry) -> Self {
        process::build(registry);
        Self {
            requests: requests::Metrics::register(registry),
            elections: election::Metrics::register(registry),
            work: work::Metrics::register(registry),
        }
    }

    /// One series of each kind there can be, for as long as what is returned is kept.
    pub(super) fn examples(&self, any: &'static str) -> impl Sized + use<> {
        self.requests.examples(any);
        self.elections.examples(any);
        self.work.examples(any)
    }
}

/// Before the names of what is counted at physical API servers.
const PHYSICAL: &str = "physical";

/// What `bottomup-syncer` counts.
#[derive(Debug)]
pub struct Lending {
    /// Leases of virtual nodes.
    pub beats: heartbeats::metrics::Metrics,
    /// Pods of both clusters.
    pub pods: pods::metrics::Metrics,
    /// What is done for bindings, and how they are.
    pub bindings: metrics::Metrics,
    /// Logs and exec of lent pods.
    pub kubelet: kubelet::Metrics,
    /// Requests to physical API servers: a cluster of another party that fails is no failure of this one.
    pub physical: requests::Metrics,
}

impl Lending {
    /// Registers all of it.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            beats: heartbeats::metrics::Metrics::register(registry),
            pods: pods::metrics::Metrics::register(registry),
            bindings: metrics::Metrics::register(registry),
            kubelet: kubelet::Metrics::register(registry),
            physical: requests::Metrics::register(registry.sub_registry_with_prefix(PHYSICAL)),
        }
    }

    /// One series of each kind there can be, for as long as what is returned is kept.
    pub(super) fn examples(&self, any: &'static str) -> impl Sized + use<> {
        self.kubelet.examples();
        self.physical.examples(any);
        (self.beats.examples(any), self.pods.examples(any), self.bindings.examples(any))
    }
}

/// What `hyperNode-controller` counts.
#[derive(Debug)]
pub struct Discovery {
    /// Writes of HyperNodes.
    pub writes: WriteMetrics,
    /// How the configuration is, and what switches writes off.
    pub settings: SettingMetrics,
    /// Rounds of sources.
    pub rounds: RoundMetrics,
    /// Calls of plugins.
    pub plugins: plugin::Metrics,
    /// Requests of plugins to endpoints.
    pub endpoints: endpoints::metrics::Metrics,
}

impl Discovery {
    /// Registers all of it.
    pub fn register(registry: &mut Registry) -> Self {
        Self {
            writes: WriteMetrics::register(registry),
            settings: SettingMetrics::register(registry),
            rounds: RoundMetrics::register(registry),
            plugins: plugin::Metrics::register(registry),
            endpoints: endpoints::metrics::Metrics::register(registry),
        }
    }

    /// One series of each kind there can be.
    pub(super) fn examples(&self, any: &'static str, source: &SourceName) {
        self.writes.examples(any);
        self.settings.examples();
        self.rounds.examples(any, source);
        self.plugins.examples(any);
        self.endpoints.examples(any);
    }
}
