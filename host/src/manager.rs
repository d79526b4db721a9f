//! The process: which tasks there are, who starts first, who stops last.
//!
//! Owns every task by name; one that ends early ends the process with that name, since a host without one of its parts
//! would look alive and do nothing. Stopping goes the other way round: sources finish the writes that are under way,
//! then the watches end.

pub mod admin;
pub mod config_watch;
pub mod health;
pub mod metrics;
pub mod sources;
pub mod verbs;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::events::Events;
use crate::cluster::{Connection, client};
use crate::config::{Location, Mode};
use crate::delivery::{Delivery, Modules, Sites, Supply};
use crate::discovery::nodes::Nodes;
use crate::discovery::report::Reports;
use crate::discovery::supervisor::{Shared, TierRegistry};
use crate::endpoints::{self, Documents, Outside};
use crate::plugin::cache::{Cache, CacheOptions};
use crate::plugin::trust::TrustOptions;
use crate::plugin::{self, Compiler, Runtime};
use crate::topology::apply::Writer;
use crate::topology::observe::HyperNodes;
use crate::topology::status::{Scope, StatusWriter};

/// How long sources may take to finish their writes when the process stops.
const DRAIN: Duration = Duration::from_secs(20);

/// Everything `run` can be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the configuration is.
    pub location: Location,
    /// Whether HyperNodes are written at all.
    pub mode: Mode,
    /// Whose `status.nodeCount` is kept.
    pub status: Scope,
    /// HyperNode writes under way at most, for specs and for status each.
    pub concurrency: usize,
    /// Where `/healthz`, `/readyz`, `/metrics` and `/sources` are served.
    pub admin: SocketAddr,
    /// The executable that compiles foreign plugins: this one.
    pub executable: PathBuf,
    /// The folder of installed plugins.
    pub plugins: Option<PathBuf>,
    /// How often files of plugins are looked at without an event.
    pub poll: Duration,
    /// Where files may lie that plugins may read as documents.
    pub documents: Option<PathBuf>,
    /// Where modules are kept beside the cluster, which takes no large ones.
    pub modules: Option<PathBuf>,
    /// Where compiled plugins are kept, if anywhere.
    pub cache: Option<CacheOptions>,
    /// What plugins have to bring before they are loaded.
    pub trust: TrustOptions,
    /// What all plugins together may use.
    pub runtime: plugin::Options,
}

/// Why the process ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plugin runtime does not start.
    #[error("the plugin runtime does not start")]
    Runtime(#[source] crate::plugin::StartError),
    /// The admin server does not start.
    #[error(transparent)]
    Admin(#[from] admin::ListenError),
    /// A task ended that must not.
    #[error("task {0} ended: {1}")]
    Task(&'static str, String),
}

/// Runs until `stop` is cancelled or a task ends.
///
/// # Errors
/// See [`Error`].
pub async fn run(connection: Connection, options: Options, stop: CancellationToken) -> Result<(), Error> {
    let Connection { client, server } = connection;
    let health = health::Health::default();
    let mut registry = Registry::with_prefix("topoloom");
    let nodes = Arc::new(Nodes::default());
    let hyper_nodes = Arc::new(HyperNodes::default());
    let reports = Arc::new(Reports::default());
    let write_metrics = metrics::WriteMetrics::register(&mut registry);
    let cache = options.cache.and_then(open_cache);
    if let Some(cache) = &cache {
        registry.register_collector(Box::new(cache.clone()));
    }
    let compiler = Compiler::Child { exe: options.executable };
    let plugin_metrics = plugin::Metrics::register(&mut registry);
    let runtime = Runtime::start_with(compiler, options.runtime, plugin_metrics, cache).map_err(Error::Runtime)?;
    let namespace = &options.location.namespace;
    let sites = Sites { namespace: namespace.clone(), folder: options.plugins, poll: options.poll };
    let supply = Supply {
        delivery: Delivery::new(Some(client.clone()), sites, runtime.metrics().clone()),
        modules: Modules::new(Some(client.clone()), namespace, options.modules),
    };
    let endpoint_metrics = endpoints::metrics::Metrics::register(&mut registry);
    let documents = options.documents.map_or(Documents::None, Documents::In);
    let outside = Outside { metrics: endpoint_metrics, documents, ..Outside::cluster(&client, namespace, &server) };
    let shared = Arc::new(Shared {
        runtime,
        supply,
        trust: options.trust,
        outside,
        nodes: Arc::clone(&nodes),
        hyper_nodes: Arc::clone(&hyper_nodes),
        writer: Writer {
            client: client.clone(),
            hyper_nodes: Arc::clone(&hyper_nodes),
            concurrency: options.concurrency,
            metrics: write_metrics.clone(),
        },
        reports: Arc::clone(&reports),
        events: Events::new(client.clone()),
        metrics: metrics::RoundMetrics::register(&mut registry),
        tiers: TierRegistry::default(),
        mode: options.mode,
        prepared: tokio::sync::watch::Sender::new(0),
        stop: stop.clone(),
    });
    let checks = Checks::new(&health);
    let listener = admin::listen(options.admin).await?;
    let address = listener.local_addr().map_or_else(|_| options.admin.to_string(), |address| address.to_string());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        config = %options.location,
        mode = ?options.mode,
        admin = address,
        "topoloom starts"
    );
    nodes.listen(Arc::clone(&hyper_nodes) as _);

    let mut tasks = JoinSet::new();
    let (configurations, configured) = tokio::sync::mpsc::unbounded_channel();
    let (verbs, spoken) = tokio::sync::mpsc::unbounded_channel();
    let sources = sources::Sources::new(Arc::clone(&shared), stop.clone());
    let status = StatusWriter {
        hyper_nodes: Arc::clone(&hyper_nodes),
        nodes: Arc::clone(&nodes),
        client: client.clone(),
        scope: options.status,
        concurrency: options.concurrency,
        metrics: write_metrics,
        check: checks.status,
    };
    let shown = admin::Shown { health, registry, reports: Arc::clone(&reports) };
    named(&mut tasks, "hypernodes", Arc::clone(&hyper_nodes).run(client.clone(), checks.hyper_nodes));
    named(&mut tasks, "nodes", Arc::clone(&nodes).run(client.clone(), checks.nodes));
    if options.mode == Mode::Apply {
        named(&mut tasks, "status", status.run());
    }
    named(&mut tasks, "reports", Arc::clone(&reports).write(client.clone(), checks.reports.clone()));
    named(&mut tasks, "verbs", verbs::watch(client.clone(), Arc::clone(&reports), verbs, checks.reports));
    named(&mut tasks, "config", config_watch::watch(client, options.location, configurations, checks.config));
    tasks.spawn(async move { ("admin", admin::serve(listener, shown).await.map_err(|error| error.to_string())) });
    // Apart from the others: it is awaited when the process stops, while they are cut off.
    let mut drained = JoinSet::new();
    drained.spawn(sources.run(configured, spoken));

    let ended = tokio::select! {
        biased;
        // First, since the sources end by themselves when they are told to stop.
        () = stop.cancelled() => None,
        ended = tasks.join_next() => Some(match ended {
            Some(Ok((name, Ok(())))) => Error::Task(name, "without an error".into()),
            Some(Ok((name, Err(error)))) => Error::Task(name, error),
            Some(Err(error)) => Error::Task("unnamed", error.to_string()),
            None => Error::Task("all", "none is left".into()),
        }),
        ended = drained.join_next() => {
            let why = ended.and_then(Result::err).map_or_else(|| "without an error".into(), |error| error.to_string());
            Some(Error::Task("sources", why))
        }
    };
    stop.cancel();
    if tokio::time::timeout(DRAIN, drained.join_next()).await.is_err() {
        tracing::warn!("sources did not finish their writes within {DRAIN:?}; what is written is sound");
    }
    drained.shutdown().await;
    tasks.shutdown().await;
    tracing::info!("topoloom stops");
    ended.map_or(Ok(()), Err)
}

/// A cache only saves time: without one every plugin is compiled.
fn open_cache(options: CacheOptions) -> Option<Cache> {
    let opened = Cache::open(options);
    opened.inspect_err(|error| tracing::warn!(error = client::chain(error), "plugins are compiled at every start")).ok()
}

struct Checks {
    nodes: health::Check,
    hyper_nodes: health::Check,
    config: health::Check,
    reports: health::Check,
    status: health::Check,
}

impl Checks {
    fn new(health: &health::Health) -> Self {
        Self {
            nodes: health.check("nodes"),
            hyper_nodes: health.check("hypernodes"),
            config: health.check("config"),
            reports: health.optional("discoverysources"),
            status: health.optional("status"),
        }
    }
}

fn named(
    tasks: &mut JoinSet<(&'static str, Result<(), String>)>,
    name: &'static str,
    task: impl Future<Output = ()> + Send + 'static,
) {
    tasks.spawn(async move {
        task.await;
        (name, Ok(()))
    });
}
