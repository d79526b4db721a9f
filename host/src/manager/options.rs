//! The options of `run`, typed and within their ranges.
//!
//! The command line makes these values from flags, environment and the options file; nothing here reads any of them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use topoloom_core::controllers::Selection;
use topoloom_core::names::Uid;
use topoloom_core::nodelock::needs::Backend;
use topoloom_core::queue::Requeue;
use topoloom_sync::deletion::Evictions;
use topoloom_syncer::kubeconfig::Loopback;
use topoloom_syncer::kubelet;
use topoloom_syncer::physical::WriteRate;

use crate::config::{Location, Mode};
use crate::delivery::oci::Allowed;
use crate::extender::ExtenderOptions;
use crate::nodelock::lock;
use crate::nodelock::sweeper::SweepMode;
use crate::plugin;
use crate::plugin::cache::CacheOptions;
use crate::plugin::trust::TrustOptions;
use crate::serving::tls::TlsFiles;
use crate::topology::status::Scope;

/// Whether modules that served are kept in ConfigMaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kept {
    /// For a rollback after a restart.
    #[default]
    InConfigMaps,
    /// They are not.
    Nowhere,
}

/// The options of `run`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the configuration is.
    pub location: Location,
    /// Our own namespace: leases, and the modules that are kept.
    pub namespace: String,
    /// Which controllers run.
    pub controllers: Selection,
    /// What the process does when a controller cannot be initialised.
    pub on_init_failure: OnInitFailure,
    /// Which replica may write.
    pub election: Election,
    /// How long workers may take to finish when the process stops.
    pub drain: Duration,
    /// Whether HyperNodes are written at all.
    pub mode: Mode,
    /// Whether anything but leases is written at all.
    pub writes: Writes,
    /// The leases of Volcano's own HyperNode controller: while another program holds one, no source is written.
    pub rivals: Vec<String>,
    /// Whose `status.nodeCount` is kept.
    pub status: Scope,
    /// HyperNode writes under way at most, for specs and for status each.
    pub concurrency: usize,
    /// How often a failing work item is tried again before it is dropped.
    pub requeue: Requeue,
    /// Where the admin server listens: a loopback address.
    pub admin: SocketAddr,
    /// Where `/healthz` and `/readyz` are served, if anywhere.
    pub health: Option<HealthListener>,
    /// Where `/metrics` is served, if anywhere.
    pub metrics: Option<SocketAddr>,
    /// The executable that compiles foreign plugins: this one.
    pub executable: PathBuf,
    /// How fast requests to the API server may be sent; nothing: as fast as it lets us. Leases, locks and Bindings
    /// never wait for it.
    pub rate: Option<Rate>,
    /// Whether the admin server gives profiles.
    pub profiling: Profiling,
    /// The folder of installed plugins.
    pub plugins: Option<PathBuf>,
    /// How often files of plugins are looked at without an event, and registries at all.
    pub poll: Duration,
    /// The registries that plugins may be pulled from.
    pub registries: Allowed,
    /// Where files may lie that plugins may read as documents.
    pub documents: Option<PathBuf>,
    /// Where modules are kept beside the cluster, which takes no large ones.
    pub modules: Option<PathBuf>,
    /// Whether they are kept in the cluster at all.
    pub kept: Kept,
    /// Where compiled plugins are kept, if anywhere.
    pub cache: Option<CacheOptions>,
    /// What plugins have to bring before they are loaded.
    pub trust: TrustOptions,
    /// What all plugins together may use.
    pub runtime: plugin::Options,
    /// The lock of nodes.
    pub locks: LockOptions,
    /// Nodes of other clusters.
    pub lending: LendingOptions,
}

/// Nodes that other clusters lend to this one.
#[derive(Debug, Clone)]
pub struct LendingOptions {
    /// Where logs and exec of lent pods are served, if anywhere.
    pub kubelet: Option<kubelet::Options>,
    /// The identity of this cluster; nothing: the UID of its namespace `kube-system`.
    pub virtual_cluster: Option<Uid>,
    /// How many writes one physical API server gets.
    pub writes: WriteRate,
    /// Whether pods that leave a virtual node are evicted, as their disruption budgets allow.
    pub evictions: Evictions,
    /// Whether this machine may be a physical cluster.
    pub loopback: Loopback,
}

impl Default for LendingOptions {
    fn default() -> Self {
        Self {
            kubelet: None,
            virtual_cluster: None,
            writes: WriteRate::default(),
            evictions: Evictions::Allowed,
            loopback: Loopback::Refused,
        }
    }
}

/// The lock of nodes, and the controllers that use it.
#[derive(Debug, Clone)]
pub struct LockOptions {
    /// How it is kept.
    pub lock: lock::Options,
    /// Which resources need which key.
    pub backends: Arc<[Backend]>,
    /// What the sweeper does; nothing: it waits.
    pub sweep: Option<SweepMode>,
    /// Where the extender listens, and which clients it accepts; `None`: it waits.
    pub extender: Option<ExtenderOptions>,
}

/// What the process does when an enabled controller cannot be initialised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnInitFailure {
    /// The process ends with the reason.
    Exit,
    /// The others run; `/readyz` says which one does not, and why.
    Tolerate,
}

/// Whether the process writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// As its controllers decide.
    Allowed,
    /// Nothing but its leases.
    LeasesOnly,
}

/// How fast requests may be sent: a bucket that holds `burst` and is filled at `qps` per second. Both are above zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Requests per second; finite.
    pub qps: f32,
    /// Requests at once after a pause.
    pub burst: u32,
}

/// Whether the admin server gives profiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profiling {
    /// It does not.
    Off,
    /// To clients of its loopback address.
    On,
}

/// Leader election (`node-lock-and-bind.md` B9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Election {
    /// This process writes without a lease: no other may run.
    Off,
    /// One lease per group of controllers.
    On(LeaseOptions),
}

/// The lease that replicas share. Validated: every duration is above zero, the lease lasts longer than the deadline,
/// the deadline longer than 1.2 times the period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Where it is.
    pub namespace: String,
    /// The name of the lease of the group `hypernode`; other groups add a suffix.
    pub name: String,
    /// How long others wait after the last renewal they saw.
    pub duration: Duration,
    /// How long the holder tries to renew before it stops.
    pub renew_deadline: Duration,
    /// The pause between two tries.
    pub retry_period: Duration,
}

/// Where `/healthz` and `/readyz` are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthListener {
    /// The address.
    pub address: SocketAddr,
    /// HTTPS, where all three files are given.
    pub tls: Option<TlsFiles>,
}
