//! `extender` and `nodelock-sweeper`: the two controllers of the node lock.
//!
//! They share the watches: one of them watches, and the other continues when that one ends. The sweeper is elected; the
//! extender is not, since every replica serves and the writes on the node keep them apart (decision N8).

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use topoloom_core::controllers::{EXTENDER, NODELOCK_SWEEPER};
use topoloom_core::nodelock::go_duration::Go;
use topoloom_core::queue::Limiter;
use topoloom_core::seldom::Seldom;

use super::controller::{Context, Controller, InitError, Initialized, RateClass};
use super::election::{Leadership, LeaseGroup};
use super::shared_locks::SharedLocks;
use super::tasks::Tasks;
use crate::cluster::Check;
use crate::extender::announce::Announcer;
use crate::extender::bodies::Bodies;
use crate::extender::clients::Clients;
use crate::extender::serve::{Extender, pages};
use crate::extender::tls::{self, ClientTrust};
use crate::extender::{ExtenderOptions, ServingFiles};
use crate::nodelock::lock::NodeLock;
use crate::nodelock::metrics::{BindMetrics, SweepMetrics};
use crate::nodelock::sweeper::Sweeper;
use crate::serving::{Answers, Bounds, Server};
use crate::work::{self, WorkQueue, run_workers};

/// More nodes than a cluster has.
const NODES: NonZeroUsize = NonZeroUsize::new(200_000).unwrap();

/// The watches for locks: the controller that is initialised first makes them.
fn shared(context: &mut Context<'_>) -> SharedLocks {
    let Context { options, nodes, restores, health, metrics, debug, .. } = context;
    context.locks.get_or_init(|| SharedLocks::new(&options.locks, nodes, restores, health, metrics, debug)).clone()
}

/// The controller that serves kube-scheduler, before it is initialised.
pub struct ExtenderController;

impl Controller for ExtenderController {
    fn name(&self) -> &'static str {
        EXTENDER
    }

    fn group(&self) -> Option<LeaseGroup> {
        None
    }

    fn rate(&self) -> RateClass {
        RateClass::Unlimited
    }

    fn initialize(self: Box<Self>, mut context: Context<'_>) -> Result<Initialized, InitError> {
        let locks = &context.options.locks;
        let Some(options) = locks.extender.clone() else {
            return Ok(Initialized::Waits("set --extender-address".to_owned()));
        };
        let metrics = BindMetrics::register(context.metrics);
        let kept = |files: ServingFiles| {
            let clients = Clients::new(Arc::clone(&files.names), metrics.clone());
            tls::kept(files, ClientTrust { clients, cluster: context.connection.authorities() })
        };
        let tls = options.tls.clone().map(kept).transpose().map_err(|error| InitError(error.to_string()))?;
        let shared = shared(&mut context);
        tracing::info!(
            ttl = %Go(locks.lock.ttl), patience = %Go(options.patience()), takeover = ?locks.lock.takeover,
            filter = ?options.filter, "the extender uses the node lock"
        );
        let lock =
            NodeLock::bounded(shared.carrier(context.writes), locks.lock, options.crowd(), context.switch.clone());
        let extender = Arc::new(Extender {
            lock: Arc::clone(&lock),
            view: Arc::clone(&shared.view),
            options: options.clone(),
            terms: locks.lock,
            announcer: Announcer::new(context.events.clone()),
            metrics,
            crowded: Seldom::default(),
            bodies: Bodies::default(),
        });
        let dumped = Arc::clone(&lock);
        context
            .debug
            .part("extender", move || json!({"bindsUnderWay": dumped.under_way(), "bindsWaiting": dumped.waiting()}));
        let reads = context.connection.client.clone();
        let drain = context.options.drain;
        let check = Check::from(context.health.check("extender"));
        Ok(Initialized::Runs(Box::new(move |stop| {
            serve(extender, shared, options, tls, reads, drain, check, stop).boxed()
        })))
    }
}

#[allow(clippy::too_many_arguments, reason = "the parts of one controller, handed over once")]
async fn serve(
    extender: Arc<Extender>,
    shared: SharedLocks,
    options: ExtenderOptions,
    tls: Option<(crate::serving::TlsSettings, impl Future<Output = ()> + Send + 'static)>,
    reads: kube::Client,
    drain: Duration,
    check: Check,
    stop: CancellationToken,
) -> Result<(), String> {
    let (mut tasks, mut serving) = (Tasks::default(), Tasks::default());
    let (tls, keep) = tls.unzip();
    if let Some(keep) = keep {
        tasks.spawn("extender certificate", keep);
    }
    tasks.spawn("lock watches", shared.clone().watch(reads));
    let bounds = Bounds {
        // Longer than a client keeps a connection without a request (90 s in Go): it is the one that closes it.
        header: Duration::from_secs(100),
        connection: Duration::from_secs(86_400),
        late: Duration::ZERO,
        connections: options.connections(),
        grace: drain,
        answers: Answers::Pages,
    };
    let ready = tokio::select! {
        () = stop.cancelled() => false,
        ended = tasks.next() => return Err(ended.to_string()),
        // Without the watches every Bind would be a guess.
        () = shared.view.synced() => true,
    };
    if ready {
        let server = Server::listen_within("extender-address", options.address, tls, bounds).await;
        let server = server.map_err(|error| crate::cluster::client::chain(&error))?;
        tracing::info!(
            address = server.address().map(|address| address.to_string()),
            tls = options.tls.is_some(),
            "the extender serves"
        );
        check.pass();
        serving.spawn("extender", server.serve(pages(Arc::clone(&extender)), stop.clone()));
        tokio::select! {
            () = stop.cancelled() => {}
            ended = tasks.next() => return Err(ended.to_string()),
            ended = serving.next() => return Err(ended.to_string()),
        }
        // Binds that wait are answered at once, and kube-scheduler asks another replica.
        extender.lock.close();
        // Work under way is finished, also for callers that gave up; the watches continue until then.
        serving.finish().await;
        extender.lock.finish().await;
        extender.announcer.finish().await;
    }
    tasks.cut_off().await;
    Ok(())
}

/// The controller that sweeps, before it is initialised.
pub struct SweeperController;

impl Controller for SweeperController {
    fn name(&self) -> &'static str {
        NODELOCK_SWEEPER
    }

    fn group(&self) -> Option<LeaseGroup> {
        Some(LeaseGroup::NodeLock)
    }

    fn rate(&self) -> RateClass {
        RateClass::Unlimited
    }

    fn initialize(self: Box<Self>, mut context: Context<'_>) -> Result<Initialized, InitError> {
        let locks = &context.options.locks;
        let Some(mode) = locks.sweep else {
            let why = "set --nodelock-sweep=report or repair (repair is the default only where the extender runs)";
            return Ok(Initialized::Waits(why.to_owned()));
        };
        let shared = shared(&mut context);
        tracing::info!(?mode, ttl = %Go(locks.lock.ttl), "the sweeper looks for orphaned locks");
        let sweeper = Arc::new(Sweeper {
            carrier: shared.carrier(context.writes),
            terms: locks.lock,
            mode,
            events: context.events.clone(),
            metrics: SweepMetrics::register(context.metrics),
            nodes: Mutex::default(),
        });
        let (leadership, work, reads) = (context.leadership, context.work.clone(), context.connection.client.clone());
        Ok(Initialized::Runs(Box::new(move |stop| sweep(sweeper, shared, leadership, work, reads, stop).boxed())))
    }
}

async fn sweep(
    sweeper: Arc<Sweeper>,
    shared: SharedLocks,
    leadership: Leadership,
    work: work::Options,
    reads: kube::Client,
    stop: CancellationToken,
) -> Result<(), String> {
    let mut watches = Tasks::default();
    watches.spawn("lock watches", shared.clone().watch(reads));
    let granted = tokio::select! {
        () = stop.cancelled() => false,
        ended = watches.next() => return Err(ended.to_string()),
        () = async { tokio::join!(leadership.granted(), shared.view.synced()); } => true,
    };
    if granted {
        let queue = WorkQueue::new("node-locks", NODES, Limiter::default());
        let mut changes = shared.view.changes();
        let (notified, asked) = (queue.clone(), Arc::clone(&sweeper));
        let mut workers = Tasks::default();
        watches.spawn("lock changes", async move {
            while let Some(node) = changes.recv().await {
                if asked.concerns(&node) {
                    // There is room for every node there is.
                    let _ = notified.add(node);
                }
            }
        });
        workers.spawn("sweeps", run_workers(queue, work, sweeper, stop.clone()));
        tokio::select! {
            () = stop.cancelled() => {}
            ended = watches.next() => return Err(ended.to_string()),
            ended = workers.next() => return Err(ended.to_string()),
        }
        workers.finish().await;
    }
    watches.cut_off().await;
    Ok(())
}
