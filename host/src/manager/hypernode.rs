//! `hyperNode-controller`: discovery, and the HyperNodes that result from it.
//!
//! It lives in two phases. As a follower it keeps everything warm that costs time and calls no service outside but the
//! registries that plugins come from: the watches on Nodes and HyperNodes, the configuration, compiled plugins and the
//! columns that they read (`standby`). When its lease is granted, the parts that write begin: sources, reports, operators'
//! verbs, counts. It never becomes a follower again: a replica that loses its lease ends.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use topoloom_core::controllers::HYPER_NODE;

use super::controller::{Configuration, Context, Controller, InitError, Initialized};
use super::debug::Debug;
use super::election::{Leadership, LeaseGroup};
use super::health::Health;
use super::options::{Kept, Options, Writes};
use super::standby::Standby;
use super::tasks::Tasks;
use super::{admin, config_watch, metrics, sources, verbs};
use crate::cluster::gate::Switch;
use crate::cluster::node_watch::NodeWatch;
use crate::cluster::nodes::Nodes;
use crate::cluster::{Check, Restores, client};
use crate::config::{Load, Mode};
use crate::delivery::{Delivery, Modules, Registries, Sites, Supply};
use crate::discovery::report::Reports;
use crate::discovery::supervisor::{SourceContext, TierRegistry};
use crate::endpoints::{Documents, Outside};
use crate::plugin::cache::{Cache, CacheOptions};
use crate::plugin::{self, Compiler, Runtime};
use crate::topology::apply::Writer;
use crate::topology::metrics::WriteMetrics;
use crate::topology::observe::HyperNodes;
use crate::topology::rival;
use crate::topology::status::StatusWriter;
use crate::work;

/// How long the last reports of sources may take when the process stops.
const LAST_REPORTS: Duration = Duration::from_secs(5);

/// The controller, before it is initialised.
pub struct HyperNodeController;

impl Controller for HyperNodeController {
    fn name(&self) -> &'static str {
        HYPER_NODE
    }

    fn group(&self) -> Option<LeaseGroup> {
        Some(LeaseGroup::HyperNode)
    }

    fn configuration(&self) -> Configuration {
        Configuration::Read
    }

    fn initialize(self: Box<Self>, context: Context<'_>) -> Result<Initialized, InitError> {
        let parts = ControllerParts::new(context).map_err(|error| InitError(client::chain(&error)))?;
        Ok(Initialized::Runs(Box::new(move |stop| parts.run(stop).boxed())))
    }
}

/// Everything it runs with.
struct ControllerParts {
    shared: Arc<SourceContext>,
    reads: kube::Client,
    writes: kube::Client,
    options: Options,
    leadership: Leadership,
    switch: Switch,
    restores: Restores,
    node_watch: Arc<NodeWatch>,
    write_metrics: WriteMetrics,
    settings: metrics::SettingMetrics,
    work: work::Options,
    rivals: tokio::sync::watch::Sender<rival::Rival>,
    checks: Checks,
}

struct Checks {
    nodes: Check,
    hyper_nodes: Check,
    config: Check,
    reports: Check,
    verbs: Check,
    status: Check,
    rival: Check,
}

impl Checks {
    fn new(health: &Health) -> Self {
        let group = LeaseGroup::HyperNode;
        let hyper_nodes = health.check_of_controller("hypernodes", group, HYPER_NODE);
        Self {
            nodes: health.check_of_leader("nodes", group).rights_count_for_followers(group).into(),
            hyper_nodes: hyper_nodes.rights_count_for_followers(group).into(),
            config: health.check_of_leader("config", group).rights_count_for_followers(group).into(),
            reports: health.optional("discoverysources").into(),
            verbs: health.optional("verbs").into(),
            status: health.optional("status").into(),
            rival: health.optional("volcano-lease").into(),
        }
    }
}

impl ControllerParts {
    fn new(context: Context<'_>) -> Result<Self, plugin::StartError> {
        let Context {
            options,
            connection,
            requests: _,
            limit: _,
            writes,
            leadership,
            switch,
            restores,
            nodes: node_watch,
            groups: _,
            locks: _,
            events,
            health,
            work,
            metrics: registry,
            pages,
            debug,
        } = context;
        let reads = connection.client.clone();
        let nodes = Arc::new(Nodes::of(Arc::clone(&node_watch)));
        let hyper_nodes = Arc::new(HyperNodes::default());
        let reports = Arc::new(Reports::default());
        let counted = metrics::Discovery::register(registry);
        reports.register(registry);
        let write_metrics = counted.writes;
        let cache = options.cache.clone().and_then(open_cache);
        if let Some(cache) = &cache {
            registry.register_collector(Box::new(cache.clone()));
        }
        let compiler = Compiler::Child { exe: options.executable.clone() };
        let runtime = Runtime::start_with(compiler, options.runtime, counted.plugins, cache)?;
        let documents = options.documents.clone().map_or(Documents::None, Documents::In);
        let outside = Outside::cluster(&reads, &options.location.namespace, &connection.server).of(&restores);
        let outside = Outside { metrics: counted.endpoints, documents, ..outside };
        let supply = supply(options, &reads, &writes, &restores, &outside, runtime.metrics());
        nodes.listen(Arc::clone(&hyper_nodes) as _);
        let (rivals, rival) = tokio::sync::watch::channel(rival::unknown());
        let stop = CancellationToken::new();
        let shared = Arc::new(SourceContext {
            runtime,
            supply,
            trust: options.trust.clone(),
            outside,
            nodes,
            hyper_nodes: Arc::clone(&hyper_nodes),
            writer: Writer {
                client: writes.clone(),
                hyper_nodes,
                concurrency: options.concurrency,
                metrics: write_metrics.clone(),
                stop: stop.clone(),
            },
            reports: Arc::clone(&reports),
            events: events.clone(),
            metrics: counted.rounds,
            tiers: TierRegistry::default(),
            mode: options.mode,
            switch: switch.clone(),
            rival,
            prepared: tokio::sync::watch::Sender::new(0),
            stop,
        });
        pages.push(admin::sources(reports));
        dump(debug, &shared);
        let checks = Checks::new(health);
        let check = checks.nodes.clone();
        node_watch.follow(Arc::clone(&shared.nodes) as _, Box::new(move |answer| check.take(answer)));
        // Until the sources have registered their columns: one list has them all.
        node_watch.wait();
        Ok(Self {
            shared,
            reads,
            writes,
            options: options.clone(),
            leadership,
            switch,
            restores,
            node_watch,
            write_metrics,
            settings: counted.settings,
            work: work.clone(),
            rivals,
            checks,
        })
    }

    async fn run(mut self, stop: CancellationToken) -> Result<(), String> {
        let mut watches = Tasks::default();
        let (configurations, mut loads) = tokio::sync::mpsc::unbounded_channel();
        let hyper_nodes = Arc::clone(&self.shared.hyper_nodes);
        watches.spawn(
            "hypernodes",
            hyper_nodes.run(self.reads.clone(), self.restores.clone(), self.checks.hyper_nodes.clone()),
        );
        let (node_watch, reads) = (Arc::clone(&self.node_watch), self.reads.clone());
        watches.spawn("nodes", async move { node_watch.run(reads).await });
        let place = config_watch::SwitchWatch {
            location: self.options.location.clone(),
            switch: self.switch.clone(),
            forced: self.options.writes == Writes::LeasesOnly,
            metrics: self.settings.clone(),
            restores: self.restores.clone(),
        };
        let config = config_watch::watch(self.reads.clone(), place, configurations, self.checks.config.clone());
        watches.spawn("config", config);
        let (names, rivals) = (self.options.rivals.clone(), std::mem::take(&mut self.rivals));
        let rival = rival::watch(self.reads.clone(), self.restores.clone(), names, rivals, self.checks.rival.clone());
        watches.spawn("rival", rival);

        let mut standby = Standby::new(Arc::clone(&self.shared));
        let granted = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            ended = watches.next() => return Err(ended.to_string()),
            () = standby.until(self.leadership.granted(), &mut loads) => true,
        };
        let ended = if granted { self.lead(standby, loads, &mut watches, &stop).await } else { Ok(()) };
        watches.cut_off().await;
        ended
    }

    async fn lead(
        &self,
        standby: Standby,
        loads: UnboundedReceiver<Load>,
        watches: &mut Tasks,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        let mut writing = Writing::begin(self, standby, loads);
        let ended = tokio::select! {
            biased;
            () = stop.cancelled() => Ok(()),
            () = self.announce() => Ok(()),
            ended = watches.next() => Err(ended.to_string()),
            ended = writing.next() => Err(ended),
        };
        writing.finish(self).await;
        ended
    }
}

/// What writes while the lease is ours.
#[derive(Default)]
struct Writing {
    /// Apart from the others: they finish the writes that are under way when they are asked to stop.
    sources: Tasks,
    counts: Tasks,
    reports: Tasks,
    verbs: Tasks,
}

impl Writing {
    fn begin(parts: &ControllerParts, standby: Standby, loads: UnboundedReceiver<Load>) -> Self {
        let (shared, checks) = (&parts.shared, &parts.checks);
        let reports = Arc::clone(&shared.reports);
        let (verbs, spoken) = tokio::sync::mpsc::unbounded_channel();
        let mut writing = Self::default();
        writing.reports.spawn(
            "reports",
            Arc::clone(&reports).write(
                parts.writes.clone(),
                checks.reports.clone(),
                parts.work.clone(),
                shared.events.clone(),
            ),
        );
        let (client, restores) = (parts.writes.clone(), parts.restores.clone());
        writing.verbs.spawn("verbs", verbs::watch(client, restores, reports, verbs, checks.verbs.clone()));
        if parts.options.mode == Mode::Apply {
            writing.counts.spawn("status", parts.status_writer().run());
        }
        let sources = sources::Sources::new(Arc::clone(shared), shared.stop.clone());
        writing.sources.spawn("sources", sources.run(standby, loads, spoken));
        writing
    }

    /// The first of them that ends, which none should.
    async fn next(&mut self) -> String {
        let ended = tokio::select! {
            biased;
            ended = self.verbs.next() => ended,
            ended = self.counts.next() => ended,
            ended = self.reports.next() => ended,
            ended = self.sources.next() => ended,
        };
        ended.to_string()
    }

    /// A replica that waits for the lease begins when nothing of ours is under way any more.
    async fn finish(mut self, parts: &ControllerParts) {
        parts.shared.stop.cancel();
        self.sources.finish().await;
        if tokio::time::timeout(LAST_REPORTS, self.counts.finish()).await.is_err() {
            tracing::warn!("the last node counts were not written in time");
        }
        self.counts.cut_off().await;
        // The last reports of the sources are still written, if that is possible.
        parts.shared.reports.close();
        if parts.leadership.gate().check().is_ok()
            && tokio::time::timeout(LAST_REPORTS, self.reports.finish()).await.is_err()
        {
            tracing::warn!("the last reports of the sources could not be written");
        }
        self.reports.cut_off().await;
        self.verbs.cut_off().await;
    }
}

impl ControllerParts {
    fn status_writer(&self) -> StatusWriter {
        StatusWriter {
            hyper_nodes: Arc::clone(&self.shared.hyper_nodes),
            nodes: Arc::clone(&self.shared.nodes),
            client: self.writes.clone(),
            gate: self.leadership.gate().clone(),
            rival: self.shared.rival.clone(),
            scope: self.options.status,
            concurrency: self.options.concurrency,
            metrics: self.write_metrics.clone(),
            check: self.checks.status.clone(),
            stop: self.shared.stop.clone(),
        }
    }

    /// Sends one Event that names the leader.
    async fn announce(&self) {
        if let Some(lease) = self.leadership.lease() {
            // Until the configuration was read, nothing is written.
            self.leadership.gate().writable().await;
            self.shared.events.leads(&lease.namespace, &lease.name, &lease.identity).await;
        }
        std::future::pending().await
    }
}

/// Where plugins come from, and where their last good modules are kept.
fn supply(
    options: &Options,
    reads: &kube::Client,
    writes: &kube::Client,
    restores: &Restores,
    outside: &Outside,
    metrics: &plugin::Metrics,
) -> Supply {
    // What entries refer to without a namespace lies beside the configuration; what is kept lies beside us.
    let namespace = options.location.namespace.clone();
    let registries = Registries {
        allowed: options.registries.clone(),
        api_server: Arc::clone(&outside.api_server),
        resolve: Arc::clone(&outside.resolve),
        docker: None,
    };
    let sites = Sites { namespace, folder: options.plugins.clone(), poll: options.poll, registries };
    let modules = (options.kept == Kept::InConfigMaps).then(|| writes.clone());
    Supply {
        delivery: Delivery::new(Some(reads.clone()), sites, metrics.clone()).of(restores),
        modules: Modules::new(modules, &options.namespace, options.modules.clone()),
    }
}

/// What `topoloom debug dump` shows of it.
fn dump(debug: &mut Debug, shared: &Arc<SourceContext>) {
    let reports = Arc::clone(&shared.reports);
    debug.part("sources", move || serde_json::to_value(reports.all()).unwrap_or_default());
    let reports = Arc::clone(&shared.reports);
    debug.part("decisions", move || serde_json::to_value(reports.decisions()).unwrap_or_default());
    let seen = Arc::clone(shared);
    debug.part("watched", move || {
        json!({
            "nodes": seen.nodes.view_now(&[]).map(|view| view.rows()),
            "hyperNodes": seen.hyper_nodes.counts(),
            "rival": *seen.rival.borrow(),
            "mode": format!("{:?}", seen.mode),
        })
    });
}

/// A cache only saves time: without one every plugin is compiled.
fn open_cache(options: CacheOptions) -> Option<Cache> {
    let opened = Cache::open(options);
    opened
        .inspect_err(|error| {
            tracing::warn!(
                error = client::chain(error),
                "the plugin cache cannot be used; \
        plugins are compiled at every start"
            )
        })
        .ok()
}
