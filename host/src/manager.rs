//! The process: its controllers, which replica may write, and the order of start and stop.
//!
//! Owns every task by name; one that ends early ends the process with that name, since a host without one of its parts
//! would look alive and do nothing.
//!
//! # From start to stop
//!
//! 1. Servers listen, so that a wrong address ends the process before anything else happens.
//! 2. Controllers are initialised in the order of their names.
//! 3. Elections begin, one per group that has a controller here, on a thread of their own; controllers run, and those
//!    that write wait for their lease.
//! 4. A signal, a lost lease or a task that ended begins the end: controllers stop in reverse order, each when the one
//!    after it has finished its work, all of them within the drain timeout. Then leases are released, so that the next
//!    holder never meets a write of ours, and last of all the servers end.

pub mod admin;
pub mod config_watch;
pub mod controller;
pub mod debug;
pub mod election;
pub mod health;
pub mod hypernode;
pub mod lending;
pub mod locks;
pub mod metrics;
pub mod options;
pub mod profile;
pub mod rights;
mod running;
mod shared_locks;
pub mod sources;
mod standby;
pub mod syncer;
pub mod tasks;
#[cfg(test)]
mod tests;
pub mod verbs;

pub use options::Options;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use prometheus_client::registry::Registry as MetricRegistry;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use topoloom_core::controllers::OURS;

use crate::cluster::events::Events;
use crate::cluster::gate::{Gate, ReadOnly, Switch};
use crate::cluster::node_watch::NodeWatch;
use crate::cluster::rate::RateLimit;
use crate::cluster::{Check, Connection, Restores, client, requests};
use crate::config::Mode;
use crate::serving::{ListenError, Server, tls};
use crate::traces::Spans;
use crate::{log, work};
use controller::{Configuration, Context, Controller, Initialized, Lifetimes, RateClass, Registry};
use debug::Debug;
use election::{Election, GroupElections, Leadership, LeaseGroup, Role, Stands};
use health::Health;
use metrics::{Process, SettingMetrics};
use options::{Election as Elects, LeaseOptions, OnInitFailure, Writes};
use running::{Ready, RunningControllers};
use shared_locks::SharedLocks;
use tasks::Tasks;

/// How long requests to our own servers may take when the process stops, beyond what the servers grant themselves.
const LAST_WORDS: Duration = Duration::from_secs(6);

/// Why the process ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server does not start.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::TlsError),
    /// A client cannot be made.
    #[error(transparent)]
    Client(#[from] client::ConnectError),
    /// Elections do not start.
    #[error(transparent)]
    Election(#[from] election::StartError),
    /// An enabled controller cannot be initialised.
    #[error(
        "controller {name} cannot be initialised: {why} (switch it off with --controllers='*,-{name}', or let the others run with --tolerate-controller-failures)"
    )]
    Initialise {
        /// Which one.
        name: &'static str,
        /// Why.
        why: String,
    },
    /// A controller ended that must not.
    #[error("controller {name}: {why}")]
    Controller {
        /// Which one.
        name: &'static str,
        /// What it left.
        why: String,
    },
    /// A task of the process itself ended.
    #[error("{0}")]
    Task(String),
    /// A lease is not ours any more.
    #[error("the lease of the group {group} is lost: {why}; this process ends, and the next one starts as a follower")]
    LeaseLost {
        /// Which group.
        group: &'static str,
        /// Why.
        why: String,
    },
}

/// Runs until `stop` is cancelled, a lease is lost or a task ends.
///
/// # Errors
/// See [`Error`].
pub async fn run(
    connection: Connection,
    options: Options,
    log: log::Control,
    spans: Option<Spans>,
    stop: CancellationToken,
) -> Result<(), Error> {
    let health = Health::default();
    let servers = Servers::listen(&options).await?;
    let mut shown = metrics::process::registry();
    let registry = metrics::process::ours(&mut shown);
    let switch = first_position(&options);
    let process = Process::register(registry);
    let restores = Restores::holding(&switch);
    restores.register(registry);
    let controllers = controllers();
    let stakes = Stakes {
        groups: controllers.groups(&options.controllers),
        lifetimes: controllers.lifetimes(&options.controllers),
    };
    let Elections { fixed: elections, groups, thread } =
        elections(stakes, &connection, &options, &switch, &restores, &health, &process)?;
    let Process { requests, elections: counted, work } = process;
    servers.log_start(&options);
    let (mut pages, mut debug) = (Vec::new(), Debug::default());
    about(&mut debug, &options, &elections, &switch);
    let limit = options.rate.map_or_else(RateLimit::default, |rate| RateLimit::new(rate.qps, rate.burst));
    let reads = connection.counted(&requests, &limit)?;
    let gate = Gate::any(elections.iter().map(Election::gate), &switch);
    let events = Events::new(reads.behind(&gate, &requests, &limit)?);
    let work = queues(&options, work);
    let queues = work.metrics.clone();
    debug.part("queues", move || queues.dump());
    let mut parts = ProcessParts {
        options: &options,
        connection: &reads,
        elections: &elections,
        groups: groups.as_ref(),
        switch: &switch,
        restores: &restores,
        nodes: &Arc::new(NodeWatch::new(&restores)),
        events: &events,
        health: &health,
        requests: &requests,
        limit: &limit,
        work: &work,
        metrics: registry,
        pages: &mut pages,
        debug: &mut debug,
        locks: &OnceCell::new(),
    };
    let initialised = initialise(&mut parts, controllers);
    health.register(registry);
    if let Some(spans) = &spans {
        spans.metrics().register(registry);
    }
    pages.push(admin::debug(debug, log, options.profiling));
    let serving = CancellationToken::new();
    // One task has to watch whether writes are switched off.
    let is_unread =
        |runs: &Vec<Ready>| !runs.is_empty() && runs.iter().all(|ready| ready.configuration == Configuration::Unused);
    let switched = initialised.as_ref().is_ok_and(is_unread).then(|| {
        let place = config_watch::SwitchWatch {
            location: options.location.clone(),
            switch: switch.clone(),
            forced: options.writes == Writes::LeasesOnly,
            metrics: SettingMetrics::register(registry),
            restores: restores.clone(),
        };
        config_watch::watch_switch(reads.client.clone(), place, health.check("config").into())
    });
    // A replica without work must not keep it from others: where each controller waits, or a failed one is tolerated.
    let (needed, idle) = by_need(&elections, initialised.as_deref().unwrap_or_default());
    idle.iter().filter_map(Election::controllers).for_each(|group| health.stands_back(group));
    begin(&needed, &counted);
    let mut served = servers.serve(&health, shown, pages, &serving);
    if let Some(switched) = switched {
        served.spawn("read-only switch", switched);
    }
    if let Some(spans) = spans {
        // As long as the servers: what the last writes were is worth a look, too.
        served.spawn_fallible("traces", spans.send(serving.clone()));
    }

    let ended = match initialised {
        Err(error) => Err(error),
        Ok(runs) => RunningControllers::start(runs).until(&stop, &needed, &mut served, &options).await,
    };
    release(&elections, thread).await;
    serving.cancel();
    if tokio::time::timeout(LAST_WORDS, served.finish()).await.is_err() {
        served.cut_off().await;
    }
    tracing::info!("topoloom stops");
    ended
}

/// The switch of all writes before the configuration was read.
fn first_position(options: &Options) -> Switch {
    match options.writes {
        Writes::LeasesOnly => Switch::new(ReadOnly::Yes),
        Writes::Allowed => {
            let place = &options.location;
            Switch::unknown(&format!("the ConfigMap {}/{} was not read yet", place.namespace, place.name))
        }
    }
}

fn begin(elections: &[Election], metrics: &election::Metrics) {
    for election in elections {
        // A scrape finds it, whether or not there was an answer about the lease.
        metrics.role(election.group(), &election.role());
        election.begin();
    }
}

/// Gives every lease back, and waits for the thread of elections.
async fn release(elections: &[Election], thread: Option<election::Thread>) {
    for election in elections {
        election.release().await;
    }
    if let Some(thread) = thread {
        // It may hang on a name server; nothing of it counts any more.
        let _ = tokio::time::timeout(LAST_WORDS, thread.join()).await;
    }
}

/// The elections that a controller here takes part in, and the others.
fn by_need(elections: &[Election], runs: &[Ready]) -> (Vec<Election>, Vec<Election>) {
    let is_needed =
        |election: &Election| runs.iter().any(|ready| ready.group.is_some_and(|group| election.is_of(group)));
    elections.iter().cloned().partition(is_needed)
}

/// How every queue of the process is worked on.
fn queues(options: &Options, metrics: work::Metrics) -> work::Options {
    work::Options { requeue: options.requeue, metrics, ..work::Options::default() }
}

/// Every controller that this program has.
fn controllers() -> Registry {
    let mut registry = Registry::default();
    let all: [Box<dyn Controller>; 4] = [
        Box::new(lending::BottomupSyncerController::new(syncer::make())),
        Box::new(hypernode::HyperNodeController),
        Box::new(locks::ExtenderController),
        Box::new(locks::SweeperController),
    ];
    for controller in all {
        if let Err(duplicate) = registry.register(controller) {
            tracing::error!(%duplicate, "a controller is missing");
        }
    }
    registry
}

/// Whether the lease of a group can be read. A follower that has not read it for two lease durations could not take over
/// (requirement R6).
fn lease_check(health: &Health, group: LeaseGroup, lease: &LeaseOptions) -> Check {
    let check = health.check(group.check());
    check.counts_for_followers(group, lease.duration * 2);
    check.into()
}

/// For which leases the controllers here stand.
struct Stakes {
    /// From the start of the process to its end.
    groups: BTreeSet<LeaseGroup>,
    /// Whether others come and go.
    lifetimes: Lifetimes,
}

/// The elections, and the thread that they run on.
struct Elections {
    fixed: Vec<Election>,
    /// For those that come and go.
    groups: Option<Arc<dyn Stands>>,
    thread: Option<election::Thread>,
}

fn elections(
    stakes: Stakes,
    connection: &Connection,
    options: &Options,
    switch: &Switch,
    restores: &Restores,
    health: &Health,
    process: &Process,
) -> Result<Elections, Error> {
    let metrics = &process.elections;
    let (identity, comes_and_goes) = (election::identity(), stakes.lifetimes == Lifetimes::ComeAndGo);
    let stands = |elections: GroupElections| comes_and_goes.then(|| Arc::new(elections) as Arc<dyn Stands>);
    let elections = match &options.election {
        Elects::Off => {
            let off = |group: LeaseGroup| {
                metrics.role(&group.into(), &Role::Leader);
                Election::off(group, switch)
            };
            let fixed = stakes.groups.into_iter().map(off).collect();
            Elections { fixed, groups: stands(GroupElections::off(identity, switch)), thread: None }
        }
        Elects::On(_) if stakes.groups.is_empty() && !comes_and_goes => {
            Elections { fixed: Vec::new(), groups: None, thread: None }
        }
        Elects::On(lease) => {
            let thread = election::Thread::start()?;
            let configuration = format!("{}/{}", options.location.namespace, options.location.name);
            let setup = |group: LeaseGroup| election::Setup {
                group: group.into(),
                name: group.lease(&lease.name),
                options: lease,
                courtesy: None,
                identity: Arc::clone(&identity),
                connection,
                asks: None,
                metrics: metrics.clone(),
                requests: process.requests.clone(),
                check: lease_check(health, group, lease),
                switch: switch.clone(),
                restores: restores.clone(),
                configuration: configuration.clone(),
            };
            let fixed = stakes.groups.into_iter().map(|group| thread.elector().election(setup(group))).collect();
            let elected = election::Elected {
                elector: thread.elector().clone(),
                options: lease.clone(),
                connection: connection.clone(),
                metrics: metrics.clone(),
                requests: process.requests.clone(),
                restores: restores.clone(),
                configuration: configuration.clone(),
            };
            let groups = stands(GroupElections::on(Arc::clone(&identity), switch, elected));
            Elections { fixed, groups, thread: Some(thread) }
        }
    };
    for election in &elections.fixed {
        health.election(election.clone());
    }
    Ok(elections)
}

/// What controllers are initialised with.
struct ProcessParts<'a> {
    options: &'a Options,
    connection: &'a Connection,
    elections: &'a [Election],
    groups: Option<&'a Arc<dyn Stands>>,
    switch: &'a Switch,
    restores: &'a Restores,
    nodes: &'a Arc<NodeWatch>,
    events: &'a Events,
    health: &'a Health,
    requests: &'a requests::Metrics,
    limit: &'a RateLimit,
    work: &'a work::Options,
    metrics: &'a mut MetricRegistry,
    pages: &'a mut Vec<Router>,
    debug: &'a mut Debug,
    locks: &'a OnceCell<SharedLocks>,
}

fn initialise(parts: &mut ProcessParts<'_>, registry: Registry) -> Result<Vec<Ready>, Error> {
    let mut ready = Vec::new();
    let here = registry.names();
    for name in OURS.iter().filter(|name| !here.contains(name)) {
        let stands = if parts.options.controllers.enables(name) {
            health::Controller::Waiting("it is not part of this version".to_owned())
        } else {
            health::Controller::Disabled
        };
        parts.health.controller(name, stands);
    }
    for controller in registry.into_controllers() {
        let (name, group, configuration) = (controller.name(), controller.group(), controller.configuration());
        let lifetimes = controller.lifetimes();
        if !parts.options.controllers.enables(name) {
            tracing::info!(controller = name, "disabled");
            parts.health.controller(name, health::Controller::Disabled);
            continue;
        }
        let stands = match start(parts, controller)? {
            Ok(Initialized::Runs(run)) => {
                ready.push(Ready { name, group, lifetimes, configuration, run });
                health::Controller::Running
            }
            Ok(Initialized::Waits(why)) => {
                tracing::info!(controller = name, why, "waits");
                health::Controller::Waiting(why)
            }
            Err(why) if parts.options.on_init_failure == OnInitFailure::Exit => {
                return Err(Error::Initialise { name, why });
            }
            Err(why) => {
                tracing::error!(controller = name, why, "cannot be initialised; the others run");
                health::Controller::Failed(why)
            }
        };
        parts.health.controller(name, stands);
    }
    Ok(ready)
}

/// Initialises one controller; the inner result is its own.
fn start(parts: &mut ProcessParts<'_>, controller: Box<dyn Controller>) -> Result<Result<Initialized, String>, Error> {
    let of_group = |group| parts.elections.iter().find(|election| election.is_of(group)).cloned();
    let leadership = match controller.group() {
        Some(group) => Leadership::Elected(of_group(group).unwrap_or_else(|| Election::off(group, parts.switch))),
        None => Leadership::EveryReplica(Gate::open(parts.switch)),
    };
    let unlimited = RateLimit::default();
    let limit = match controller.rate() {
        RateClass::Limited => parts.limit,
        RateClass::Unlimited => &unlimited,
    };
    let writes = parts.connection.behind(leadership.gate(), parts.requests, limit)?;
    // A controller without a lease writes its Events regardless of leadership.
    let own = match &leadership {
        Leadership::Elected(_) => None,
        Leadership::EveryReplica(gate) => {
            Some(Events::new(parts.connection.behind(gate, parts.requests, parts.limit)?))
        }
    };
    let context = Context {
        options: parts.options,
        connection: parts.connection,
        requests: parts.requests,
        limit: parts.limit,
        writes,
        leadership,
        switch: parts.switch.clone(),
        restores: parts.restores.clone(),
        nodes: Arc::clone(parts.nodes),
        groups: parts.groups.cloned(),
        events: own.as_ref().unwrap_or(parts.events),
        health: parts.health,
        work: parts.work,
        metrics: parts.metrics,
        pages: parts.pages,
        debug: parts.debug,
        locks: parts.locks,
    };
    Ok(controller.initialize(context).map_err(|error| error.to_string()))
}

/// What `topoloom debug dump` says of the process itself.
fn about(debug: &mut Debug, options: &Options, elections: &[Election], switch: &Switch) {
    let (namespace, config) = (options.namespace.clone(), options.location.to_string());
    let (observes, forced) = (options.mode == Mode::Observe, options.writes == Writes::LeasesOnly);
    let (elections, switch) = (elections.to_vec(), switch.clone());
    debug.part("process", move || {
        let elections: BTreeMap<_, _> =
            elections.iter().map(|election| (election.group().as_str(), shown(election))).collect();
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "namespace": namespace,
            "config": config,
            "observe": observes,
            "readOnlyFlag": forced,
            "readOnly": switch.is_read_only(),
            "elections": elections,
            "aliveTasks": tokio::runtime::Handle::current().metrics().num_alive_tasks(),
        })
    });
}

/// An election as the dump shows it.
fn shown(election: &Election) -> serde_json::Value {
    let lease = election
        .lease()
        .map(|lease| json!({"namespace": lease.namespace, "name": lease.name, "identity": &*lease.identity}));
    json!({"role": format!("{:?}", election.role()), "lease": lease, "history": election.history()})
}

/// The servers of the process.
struct Servers {
    admin: Server,
    health: Option<Server>,
    metrics: Option<Server>,
}

impl Servers {
    async fn listen(options: &Options) -> Result<Self, Error> {
        let health = match &options.health {
            Some(health) => {
                let tls = health.tls.as_ref().map(tls::server).transpose()?;
                Some(Server::listen("healthz-address", health.address, tls).await?)
            }
            None => None,
        };
        let metrics = match options.metrics {
            Some(address) => Some(Server::listen("listen-address", address, None).await?),
            None => None,
        };
        let admin = Server::listen("admin-address", options.admin, None).await?;
        Ok(Self { admin, health, metrics })
    }

    fn log_start(&self, options: &Options) {
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            config = %options.location,
            mode = ?options.mode,
            elects = matches!(options.election, Elects::On(_)),
            admin = self.admin.address().map(|address| address.to_string()),
            health = self.health.as_ref().and_then(Server::address).map(|address| address.to_string()),
            metrics = self.metrics.as_ref().and_then(Server::address).map(|address| address.to_string()),
            "topoloom starts"
        );
    }

    fn serve(self, health: &Health, registry: MetricRegistry, pages: Vec<Router>, stop: &CancellationToken) -> Tasks {
        let metrics = admin::metrics(Arc::new(registry));
        let all = [admin::health(health), metrics.clone()];
        let all = admin::loopback_only(all.into_iter().chain(pages).fold(Router::new(), Router::merge));
        let mut tasks = Tasks::default();
        tasks.spawn("admin server", self.admin.serve(all, stop.clone()));
        if let Some(server) = self.health {
            tasks.spawn("health server", server.serve(admin::health(health), stop.clone()));
        }
        if let Some(server) = self.metrics {
            tasks.spawn("metrics server", server.serve(metrics, stop.clone()));
        }
        tasks
    }
}
