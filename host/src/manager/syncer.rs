//! What a replica does for the bindings whose leases it holds: the one room where the manager meets `topoloom_syncer`.
//!
//! Owns the one [`Process`] that all bindings of this process share, and the clients of each group: writes in both clusters go
//! behind the gate that closes with the lease and with the switch of all writes, heartbeats behind the one that closes with the lease
//! alone (decision S27). Logs and exec of lent pods are served on every replica, where that is asked for (decision S26). Never decides
//! what is written.
//!
//! # Failure story
//!
//! Which cluster this is is read with the first binding, or with the first that was deleted by force and left nodes, and tried again
//! until it is known. `/readyz` says why it is not, and no replica is unready because of that. Certificates of the kubelet's API that
//! cannot be used at the start end the process before it does anything. Afterwards a server that cannot listen, or ends, is begun again
//! with pauses, and nothing else ends with it: the leases of nodes have to be renewed. Until it serves for the first time the replica is
//! not ready, since the Service of all replicas would lead to it.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_api::names::{MANAGED_BY, MANAGED_BY_LABEL};
use topoloom_core::names::Uid;
use topoloom_core::rules::is_label_value;
use topoloom_sync::liveness::ContactTiming;
use topoloom_sync::naming;
use topoloom_sync::node::Now;
use topoloom_syncer::bindings::{self, Added, Holding, LeaseName, LentBindings, Process, Records, Shown};
use topoloom_syncer::heartbeats;
use topoloom_syncer::kubelet::{self, Kubelet, Uses};
use topoloom_syncer::nodes::Pace;
use topoloom_syncer::physical::{Clock, Dialer, Registry, Signs};
use topoloom_syncer::shared::LentWatches;

use super::controller::{Context, InitError};
use super::lending::{BindingGroups, BindingId, BindingReport, HeldBinding, LeasesOfBindings, MakeGroups};
use super::metrics::Lending;
use super::options::LendingOptions;
use crate::cluster::client::chain;
use crate::cluster::deadline::answered;
use crate::cluster::events::Events;
use crate::cluster::gate::{Gate, boot_time};
use crate::cluster::lanes::Lane;
use crate::cluster::pause::Pauses;
use crate::cluster::rate::RateLimit;
use crate::cluster::{Check, Connection, Refusal, RefusalReason, Restores, Side, requests};
use crate::work;

/// The namespace whose UID is that of the cluster.
const KUBE_SYSTEM: &str = "kube-system";
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where the process runs without leases, the Leases that keep the counters of the witness and what is kept of bindings have names
/// that begin so. An admission policy of the chart allows these names.
const ALONE: &str = "topoloom";
/// The part of a group that says what is wrong with its binding.
const BINDING: &str = "binding";
/// The part that makes the Lease for the counter.
const COUNTER: &str = "counter";

/// Makes what the groups of bindings are run with.
#[must_use]
pub fn make() -> MakeGroups {
    Box::new(groups)
}

fn groups(context: &mut Context<'_>) -> Result<Arc<dyn BindingGroups>, InitError> {
    let parts = Arc::new(Parts::new(context)?);
    let shown = Arc::clone(&parts);
    context.debug.part("lending", move || shown.dump());
    Ok(Arc::new(Syncer(parts)))
}

/// The groups of bindings of this process.
struct Syncer(Arc<Parts>);

impl BindingGroups for Syncer {
    fn start_group(&self, held: HeldBinding, stop: CancellationToken) -> BoxFuture<'static, Result<(), String>> {
        let parts = Arc::clone(&self.0);
        async move { Box::pin(parts.run(held, stop)).await }.boxed()
    }

    fn added(&self) {
        self.0.added.note();
    }

    fn recorded(&self, leases: Option<LeasesOfBindings>) -> BoxFuture<'static, Vec<BindingId>> {
        let parts = Arc::clone(&self.0);
        async move { parts.recorded(leases).await }.boxed()
    }

    fn keep_warm(&self, stop: CancellationToken) -> BoxFuture<'static, Result<(), String>> {
        let parts = Arc::clone(&self.0);
        async move {
            let _stopped = stop.run_until_cancelled(Box::pin(parts.keep_warm())).await;
            Ok(())
        }
        .boxed()
    }

    fn serve(&self, stop: CancellationToken) -> BoxFuture<'static, Result<(), String>> {
        let parts = Arc::clone(&self.0);
        async move {
            parts.serve(&stop).await;
            Ok(())
        }
        .boxed()
    }
}

/// What all groups of this process have in common.
pub(super) struct Parts {
    /// For clients behind gates.
    connection: Connection,
    requests: requests::Metrics,
    /// For the writes of groups in this cluster.
    limit: RateLimit,
    /// Which of them go first, over all groups.
    lanes: Lane,
    /// Lists, watches and probes. They wait in no bucket: what is known of nodes decides about their leases (decision M3).
    reads: kube::Client,
    restores: Restores,
    /// Our own, where Secrets are.
    namespace: String,
    options: LendingOptions,
    events: Events,
    work: work::Options,
    metrics: Lending,
    /// The bindings that streams are passed on for.
    lent: LentBindings,
    /// How often bindings were added.
    added: Added,
    /// Whether it is known which cluster this is.
    identified: Check,
    /// Whether logs and exec are served, where they are to be.
    serves: Option<Check>,
    process: OnceCell<Arc<Process>>,
}

impl Parts {
    pub(super) fn new(context: &mut Context<'_>) -> Result<Self, InitError> {
        let options = context.options.lending.clone();
        if let Some(kubelet) = &options.kubelet {
            kubelet::check_files(kubelet).map_err(|error| InitError(error.to_string()))?;
        }
        let reads = context.connection.behind(&Gate::none(), context.requests, &RateLimit::default());
        let serves = options.kubelet.as_ref().map(|_| Check::from(context.health.check("syncer-kubelet")));
        Ok(Self {
            connection: context.connection.clone(),
            requests: context.requests.clone(),
            limit: context.limit.clone(),
            lanes: topoloom_syncer::lanes::lanes(),
            reads: reads.map_err(|error| InitError(error.to_string()))?,
            restores: context.restores.clone(),
            namespace: context.options.namespace.clone(),
            options,
            events: context.events.clone(),
            work: context.work.clone(),
            metrics: Lending::register(context.metrics),
            lent: LentBindings::default(),
            added: Added::default(),
            identified: Check::from(context.health.optional("virtual-cluster")),
            serves,
            process: OnceCell::new(),
        })
    }

    /// What all bindings share, once it is known which cluster this is.
    async fn process(&self) -> &Arc<Process> {
        self.process.get_or_init(|| self.made()).await
    }

    async fn made(&self) -> Arc<Process> {
        let kube_system = identity(&self.reads, &self.identified).await;
        let virtual_cluster = self.options.virtual_cluster.clone().unwrap_or_else(|| kube_system.clone());
        let clock = Clock::default();
        tracing::info!(identity = &*virtual_cluster, "the identity of this cluster is known");
        Arc::new(Process {
            lent: self.reads.clone(),
            restores: self.restores.clone(),
            watches: LentWatches::new(&self.reads, &self.restores, &virtual_cluster),
            lent_signs: Signs::new(ContactTiming::default(), &clock),
            registry: Arc::new(Registry::new(Dialer::with_rate(&self.metrics.physical, self.options.writes), clock)),
            secrets: Api::namespaced(self.reads.clone(), &self.namespace),
            virtual_cluster,
            kube_system,
            evictions: self.options.evictions,
            endpoint: self.options.kubelet.as_ref().map(kubelet::Options::endpoint),
            loopback: self.options.loopback,
            holder: crate::cluster::instance(),
            events: self.events.clone(),
            beats: self.metrics.beats.clone(),
            pods: self.metrics.pods.clone(),
            metrics: self.metrics.bindings.clone(),
            pace: Pace::default(),
            work: self.work.clone(),
            now,
            clock: heartbeats::Clock::machine(),
            added: self.added.clone(),
            witness: bindings::WITNESS,
            shown: Shown::default(),
        })
    }

    /// Runs the group of a binding.
    async fn run(&self, held: HeldBinding, stop: CancellationToken) -> Result<(), String> {
        let Some(process) = stop.run_until_cancelled(self.process()).await else { return Ok(()) };
        let holding = self.holding(&held).await?;
        let counter = async {
            if held.lease.is_none() {
                make_counter(&holding, &held.report).await;
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = bindings::run(Arc::clone(process), holding.clone(), stop) => {}
            () = counter => {}
        }
        Ok(())
    }

    /// The bindings of which leases keep something. Where none does it is not asked which cluster this is.
    async fn recorded(&self, leases: Option<LeasesOfBindings>) -> Vec<BindingId> {
        let alone = || LeasesOfBindings { namespace: self.namespace.clone(), base: ALONE.to_owned() };
        let LeasesOfBindings { namespace, base } = leases.unwrap_or_else(alone);
        let records = Records::read(&self.reads, &namespace).await;
        if records.is_empty() {
            return Vec::new();
        }
        let bindings = records.bindings(&base, &self.process().await.virtual_cluster);
        bindings.into_iter().map(|(name, uid)| BindingId { name, uid }).collect()
    }

    /// What comes with the lease of a binding.
    pub(super) async fn holding(&self, held: &HeldBinding) -> Result<Holding, String> {
        let lease = match &held.lease {
            Some(lease) => LeaseName { namespace: lease.namespace.clone(), name: lease.name.clone() },
            None => {
                let name = naming::binding_lease(ALONE, &held.binding.name).map_err(|error| error.to_string())?;
                LeaseName { namespace: self.namespace.clone(), name }
            }
        };
        let report = held.report.clone();
        Ok(Holding {
            name: held.binding.name.to_string(),
            gate: held.gate.clone(),
            lent: self.client(&held.gate, &self.limit, &self.lanes).await?,
            beats: self.client(&held.heartbeats, &RateLimit::default(), &Lane::default()).await?,
            lease,
            tell: Arc::new(move |why: Option<&str>| report.trouble(BINDING, why)),
        })
    }

    /// A client with connections of its own behind a gate. It is made beside the workers: certificates are read for it, and a program
    /// may be asked for a credential.
    async fn client(&self, gate: &Gate, limit: &RateLimit, lanes: &Lane) -> Result<kube::Client, String> {
        let (connection, gate, lanes) = (self.connection.clone(), gate.clone(), lanes.clone());
        let (requests, limit) = (self.requests.clone(), limit.clone());
        match tokio::task::spawn_blocking(move || connection.in_lanes(&lanes, &gate, &requests, &limit)).await {
            Ok(made) => made.map_err(|error| error.to_string()),
            // It panicked, or the process ends.
            Err(error) => Err(error.to_string()),
        }
    }

    /// Probes the API server of this cluster, watches what each binding needs of it, whether or not this replica serves one, and
    /// follows the bindings for streams, from the first binding on.
    async fn keep_warm(&self) {
        let process = self.process().await;
        let _warm = process.watches.keep_warm();
        let follows = async {
            if self.options.kubelet.is_some() {
                self.lent.follow(process).await;
            }
        };
        tokio::join!(process.watch_over(), follows);
    }

    /// Serves logs and exec of lent pods until it is stopped, where that is asked for.
    async fn serve(&self, stop: &CancellationToken) {
        let (Some(options), Some(check)) = (&self.options.kubelet, &self.serves) else {
            return stop.cancelled().await;
        };
        let mut pauses = Pauses::default();
        while let Err(why) = self.serve_once(options, check, stop).await {
            let message = format!("logs and exec of lent pods are not served: {why}");
            check.fail(&Refusal { reason: RefusalReason::Unreachable, message, retry_after: None });
            let pause = tokio::time::sleep(pauses.failed(Instant::now(), None));
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
    }

    async fn serve_once(
        &self,
        options: &kubelet::Options,
        check: &Check,
        stop: &CancellationToken,
    ) -> Result<(), String> {
        let uses = Uses {
            client: self.reads.clone(),
            restores: self.restores.clone(),
            lent: Arc::new(self.lent.clone()),
            metrics: self.metrics.kubelet.clone(),
        };
        let Some(opened) = stop.run_until_cancelled(Kubelet::open(options, uses)).await else { return Ok(()) };
        let kubelet = opened.map_err(|error| chain(&error))?;
        tracing::info!(
            address = kubelet.address().map(|address| address.to_string()),
            shown = format!("{}:{}", options.address, options.port),
            "logs and exec of lent pods are served"
        );
        check.pass();
        kubelet.serve(stop.clone()).await.map_err(|error| error.to_string())
    }

    /// What `topoloom debug dump` shows of it.
    fn dump(&self) -> Value {
        let Some(process) = self.process.get() else { return json!({"virtualCluster": null}) };
        json!({
            "virtualCluster": &*process.virtual_cluster,
            "kubeSystem": &*process.kube_system,
            "virtualApiServer": format!("{:?}", process.lent_signs.reach()),
            "connections": process.registry.count(),
            "bindings": process.shown.dump(),
            "streams": self.lent.dump(),
        })
    }
}

/// The clocks of this machine.
fn now() -> Now {
    Now { wall: Timestamp::now(), steady: boot_time() }
}

/// The UID of the namespace `kube-system` of this cluster, as soon as it can be read.
pub(super) async fn identity(client: &kube::Client, check: &Check) -> Uid {
    let (api, mut pauses) = (Api::<Namespace>::all(client.clone()), Pauses::default());
    loop {
        let found = answered(PATIENCE, api.get_metadata(KUBE_SYSTEM)).await.and_then(|found| uid(found.metadata));
        match found {
            Ok(uid) => {
                check.pass();
                return uid;
            }
            Err(refusal) => {
                let refusal = refusal.on(Side::Virtual);
                check.fail(&refusal);
                tokio::time::sleep(pauses.failed(Instant::now(), refusal.retry_after)).await;
            }
        }
    }
}

/// A UID that can be the value of a label.
fn uid(metadata: ObjectMeta) -> Result<Uid, Refusal> {
    let uid = metadata.uid.unwrap_or_default();
    if uid.is_empty() || is_label_value(&uid).is_err() {
        let message = format!("its namespace {KUBE_SYSTEM} has no UID, or one that cannot be the value of a label");
        return Err(Refusal { reason: RefusalReason::ServerError, message, retry_after: None });
    }
    Ok(uid.into())
}

/// Makes the Lease that keeps the counter of the witness, where no election has made it (decision S25).
async fn make_counter(holding: &Holding, report: &BindingReport) {
    let api: Api<Lease> = Api::namespaced(holding.lent.clone(), &holding.lease.namespace);
    let labels = [(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned())];
    let metadata =
        ObjectMeta { name: Some(holding.lease.name.clone()), labels: Some(labels.into()), ..ObjectMeta::default() };
    let (lease, mut pauses) = (Lease { metadata, ..Lease::default() }, Pauses::default());
    loop {
        match answered(PATIENCE, api.create(&PostParams::default(), &lease)).await {
            Err(refusal) if refusal.reason != RefusalReason::AlreadyExists => {
                let refusal = refusal.on(Side::Virtual);
                let why = format!("nothing is evicted or deleted before there is a Lease for its counter: {refusal}");
                report.trouble(COUNTER, Some(&why));
                tokio::time::sleep(pauses.failed(Instant::now(), refusal.retry_after)).await;
            }
            Ok(_) | Err(_) => return report.trouble(COUNTER, None),
        }
    }
}
