//! The lease of one group: which of the replicas writes (decisions M2, M4 and S11).
//!
//! `core::election` decides; here are its inputs: the watch on the Lease, the requests, the boot-time clock, and the
//! gates that open and close with it. All of it runs on a thread of its own, with clients of its own: a process
//! that is busy with a large cluster still renews in time, and a client that waits for its turn never delays a renewal.
//!
//! Groups of controllers exist for as long as the process. Those of bindings come and go while it runs, on the same thread
//! ([`GroupElections`]). Each says what ends when its lease is lost ([`Group::ends`]).
//!
//! # Failure story
//!
//! Even if no request succeeds, the gates close by the clock when the last confirmed renewal becomes too old; no task
//! has to do anything for that. A lost lease stays lost for its election: the process ends and is restarted, or the one group
//! ends, and what runs it stands again in another election. An election that crashes is lost, and the others continue.

mod groups;
mod history;
mod lease;
mod metrics;
mod runner;
#[cfg(test)]
pub(super) mod staged;
#[cfg(test)]
mod tests;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use topoloom_core::election::{LeaseCandidate, Lost, Timing};
use topoloom_core::text;

use self::runner::Runner;
use super::options::LeaseOptions;
use crate::cluster::gate::{Gate, ReadOnly, Switch, boot_time};
use crate::cluster::{Check, Connection, Restores, client, instance, requests};
pub(super) use groups::Elected;
pub use groups::{BindingElection, GroupElections, SharedClient, Stands};
pub use history::{Happened, History};
pub use metrics::Metrics;

/// Whose lease it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Group {
    /// Controllers of this process, from its start to its end.
    Controllers(LeaseGroup),
    /// One ClusterBinding, by its name: groups of this kind come and go while the process runs (decision S11).
    Binding(Arc<str>),
}

/// What ends when a replica loses the lease of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossEnds {
    /// The process, with 1.
    Process,
    /// The group alone.
    Group,
}

impl Group {
    /// The word for logs and metrics.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Controllers(group) => group.as_str(),
            Self::Binding(_) => "binding",
        }
    }

    /// The name of its check in the log.
    #[must_use]
    pub fn check(&self) -> &'static str {
        match self {
            Self::Controllers(group) => group.check(),
            Self::Binding(_) => "lease-binding",
        }
    }

    /// The binding that it is about, for the log.
    #[must_use]
    pub fn binding(&self) -> Option<&str> {
        match self {
            Self::Controllers(_) => None,
            Self::Binding(name) => Some(name),
        }
    }

    /// What ends when its lease is lost.
    #[must_use]
    pub fn ends(&self) -> LossEnds {
        match self {
            Self::Controllers(LeaseGroup::HyperNode | LeaseGroup::NodeLock) => LossEnds::Process,
            Self::Binding(_) => LossEnds::Group,
        }
    }
}

impl From<LeaseGroup> for Group {
    fn from(group: LeaseGroup) -> Self {
        Self::Controllers(group)
    }
}

/// Controllers that share a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaseGroup {
    /// Writers of HyperNodes.
    HyperNode,
    /// The sweeper of node locks.
    NodeLock,
}

impl LeaseGroup {
    /// The word for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HyperNode => "hypernode",
            Self::NodeLock => "nodelock",
        }
    }

    /// The name of its check in `/readyz`.
    #[must_use]
    pub fn check(self) -> &'static str {
        match self {
            Self::HyperNode => "lease-hypernode",
            Self::NodeLock => "lease-nodelock",
        }
    }

    /// The name of its lease: the flag's for the first, a suffix for the others.
    #[must_use]
    pub fn lease(self, name: &str) -> String {
        match self {
            Self::HyperNode => name.to_owned(),
            Self::NodeLock => format!("{name}-nodelock"),
        }
    }
}

/// What a replica is to a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// It has not read the lease yet.
    Unknown,
    /// Another one writes, or did until a moment ago; empty: no replica is known.
    Follower(Arc<str>),
    /// It writes.
    Leader,
    /// It wrote, and no longer may.
    Lost(Lost),
}

/// One election, as the rest of the process sees it. Clones are the same election.
#[derive(Debug, Clone)]
pub struct Election {
    group: Group,
    lease: Option<Arc<LeaseName>>,
    role: watch::Receiver<Role>,
    gate: Gate,
    held: Gate,
    pulse: Arc<Pulse>,
    history: History,
    begin: CancellationToken,
    release: CancellationToken,
    ended: CancellationToken,
}

/// The Lease, and our name in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    /// Where it is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Ours.
    pub identity: Arc<str>,
}

/// When the renew loop last did something.
#[derive(Debug)]
struct Pulse {
    /// Milliseconds of the boot-time clock until which the lease is confirmed; 0: we do not hold it.
    until: AtomicU64,
    /// By how much a holder may be late before its loop counts as stuck.
    grace: Duration,
}

impl Election {
    /// Without an election: every process that runs writes.
    #[must_use]
    pub fn off(group: impl Into<Group>, switch: &Switch) -> Self {
        // The sender may go: a receiver keeps the last value.
        let (_, role) = watch::channel(Role::Leader);
        let ended = CancellationToken::new();
        ended.cancel();
        Self {
            group: group.into(),
            lease: None,
            role,
            gate: Gate::open(switch),
            held: Gate::none(),
            pulse: Arc::new(Pulse { until: AtomicU64::new(0), grace: Duration::ZERO }),
            history: History::default(),
            begin: CancellationToken::new(),
            release: CancellationToken::new(),
            ended,
        }
    }

    /// Which group it is about.
    #[must_use]
    pub fn group(&self) -> &Group {
        &self.group
    }

    /// The controllers that it is about.
    #[must_use]
    pub fn controllers(&self) -> Option<LeaseGroup> {
        match &self.group {
            Group::Controllers(group) => Some(*group),
            Group::Binding(_) => None,
        }
    }

    /// Whether it is about these controllers.
    #[must_use]
    pub fn is_of(&self, group: LeaseGroup) -> bool {
        self.group == Group::Controllers(group)
    }

    /// The Lease, where there is an election.
    #[must_use]
    pub fn lease(&self) -> Option<&LeaseName> {
        self.lease.as_deref()
    }

    /// What happened to the lease lately.
    #[must_use]
    pub fn history(&self) -> Vec<Happened> {
        self.history.all()
    }

    /// The gate for the writes of this group.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The gate for what continues while writes are switched off: leases, and nothing else (decision S27). It opens and
    /// closes with the lease of this group, and no switch closes it.
    #[must_use]
    pub fn held(&self) -> &Gate {
        &self.held
    }

    /// What we are now.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role.borrow().clone()
    }

    /// Waits until we write.
    pub async fn granted(&self) {
        if self.role.clone().wait_for(|role| *role == Role::Leader).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the lease is lost; says why.
    pub async fn lost(&self) -> Lost {
        let mut role = self.role.clone();
        match role.wait_for(|role| matches!(role, Role::Lost(_))).await.map(|role| role.clone()) {
            Ok(Role::Lost(lost)) => lost,
            // Without an election nothing is lost.
            _ if self.lease.is_none() => std::future::pending().await,
            // No thread renews any more: it broke.
            _ => Lost::Expired,
        }
    }

    /// How late the renew loop is, if it is stuck (requirement R6).
    #[must_use]
    pub fn stuck(&self) -> Option<Duration> {
        let until = Duration::from_millis(self.pulse.until.load(Ordering::SeqCst));
        let late = boot_time().saturating_sub(until + self.pulse.grace);
        (!until.is_zero() && !late.is_zero()).then_some(late)
    }

    /// Tries to get the lease from now on. An election that never begins leaves it to others, and sends no request.
    pub fn begin(&self) {
        self.begin.cancel();
    }

    /// Gives the lease back, if it is ours, and ends the election. All that wrote under it must have ended.
    pub async fn release(&self) {
        self.gate.close();
        self.release.cancel();
        self.ended.cancelled().await;
        self.held.close();
        match self.group.ends() {
            LossEnds::Process => {}
            // It may have crashed: then nothing renews any more, and no loop of a process that lives is stuck.
            LossEnds::Group => self.pulse.until.store(0, Ordering::SeqCst),
        }
    }

    /// Nothing of the group is written any more, and the lease is given back without waiting for it. For one whose work
    /// was cut off.
    pub fn abandon(&self) {
        self.gate.close();
        if self.lease.is_none() {
            self.held.close();
        }
        self.release.cancel();
    }
}

/// Under which condition a controller writes. Clones are the same one.
#[derive(Debug, Clone)]
pub enum Leadership {
    /// While this replica holds the lease of its group.
    Elected(Election),
    /// From the beginning: every replica does its work, behind this gate.
    EveryReplica(Gate),
}

impl Leadership {
    /// The gate for its writes.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        match self {
            Self::Elected(election) => election.gate(),
            Self::EveryReplica(gate) => gate,
        }
    }

    /// Waits until it may write.
    pub async fn granted(&self) {
        if let Self::Elected(election) = self {
            election.granted().await;
        }
    }

    /// The Lease, where there is an election.
    #[must_use]
    pub fn lease(&self) -> Option<&LeaseName> {
        match self {
            Self::Elected(election) => election.lease(),
            Self::EveryReplica(_) => None,
        }
    }
}

/// What an election is made of.
pub struct Setup<'a> {
    /// Whose lease.
    pub group: Group,
    /// Its name.
    pub name: String,
    /// Where it is and how long it lasts.
    pub options: &'a LeaseOptions,
    /// How much later than it could this replica claims the lease, now and from each change on; nothing: it gives way to
    /// no other.
    pub courtesy: Option<watch::Receiver<Duration>>,
    /// Our name.
    pub identity: Arc<str>,
    /// The API server.
    pub connection: &'a Connection,
    /// The client with which this election asks, where it is one of many; nothing: it has one of its own.
    pub asks: Option<SharedClient>,
    /// What is counted.
    pub metrics: Metrics,
    /// Requests are counted, too.
    pub requests: requests::Metrics,
    /// Whether the lease can be read.
    pub check: Check,
    /// The switch of all writes.
    pub switch: Switch,
    /// How the election is notified that the API server went back.
    pub restores: Restores,
    /// `NAMESPACE/NAME` of the ConfigMap of the configuration, which the lease names.
    pub configuration: String,
}

/// The thread of elections.
pub struct Thread {
    handle: std::thread::JoinHandle<()>,
    elector: Elector,
}

/// Begins elections on the thread, for as long as it runs. Clones are for the same thread.
#[derive(Clone)]
pub struct Elector {
    parts: mpsc::UnboundedSender<Part>,
    closing: CancellationToken,
}

impl Thread {
    /// Starts it. It runs until it is joined.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start() -> Result<Self, StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
        let (parts, arriving) = mpsc::unbounded_channel();
        let closing = CancellationToken::new();
        let closes = closing.clone();
        let body = move || {
            runtime.block_on(run(arriving, closes));
            // A look-up of a name that hangs must not keep the thread.
            runtime.shutdown_background();
        };
        let handle = std::thread::Builder::new().name("election".into()).spawn(body).map_err(StartError::Thread)?;
        Ok(Self { handle, elector: Elector { parts, closing } })
    }

    /// What begins elections on it.
    #[must_use]
    pub fn elector(&self) -> &Elector {
        &self.elector
    }

    /// Waits for its end. Every election has to have been released, or lost.
    pub async fn join(self) {
        self.elector.closing.cancel();
        // A panic in it was logged where it happened, and its elections count as stuck.
        let _ = tokio::task::spawn_blocking(move || self.handle.join()).await;
    }
}

impl Elector {
    /// An election on the thread. It asks for its lease from [`Election::begin`] on. One that comes after the end of the
    /// thread is lost.
    #[must_use]
    pub fn election(&self, setup: Setup<'_>) -> Election {
        let (election, part) = prepare(setup);
        // What is not sent is dropped, and with it the sender of the role.
        let _ = self.parts.send(part);
        election
    }
}

/// Runs every election that arrives, until no other will and all have ended.
async fn run(mut arriving: mpsc::UnboundedReceiver<Part>, closing: CancellationToken) {
    let mut running = FuturesUnordered::new();
    let mut is_open = true;
    loop {
        tokio::select! {
            () = closing.cancelled(), if is_open => {
                is_open = false;
                arriving.close();
            }
            Some(part) = arriving.recv() => running.push(AssertUnwindSafe(part.run()).catch_unwind()),
            Some(ended) = running.next() => {
                if let Err(panic) = ended {
                    tracing::error!(panic = text::of_panic(&*panic), "an election crashed; its lease counts as lost");
                }
            }
            else => return,
        }
    }
}

/// Why there are no elections.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No client.
    #[error(transparent)]
    Client(#[from] client::ConnectError),
    /// No thread.
    #[error("the thread of the election does not start")]
    Thread(#[source] std::io::Error),
}

/// What the thread needs for one election.
struct Part {
    runner: Runner,
    connection: Connection,
    asks: Option<SharedClient>,
    requests: requests::Metrics,
    begin: CancellationToken,
    ended: DropGuard,
}

impl Part {
    /// Runs from [`Election::begin`] on. That it has ended is known when this is dropped.
    async fn run(self) {
        let Self { runner, connection, asks, requests, begin, ended } = self;
        let released = runner.release.clone();
        if released.run_until_cancelled(begin.cancelled()).await.is_some() {
            // Made here, so that their connections belong to the runtime of this thread.
            let leases = match &asks {
                None => Some(runner.connect(&connection, &requests)),
                Some(asks) => released.run_until_cancelled(runner.connect_aside(&connection, &requests, asks)).await,
            };
            match leases {
                Some(Ok(leases)) => runner.run(leases).await,
                Some(Err(error)) => {
                    tracing::error!(lease = %runner.name, error = client::chain(&error), "no client for the lease");
                }
                // Nothing was asked for.
                None => {}
            }
        }
        drop(ended);
    }
}

/// Makes an election, as the rest of the process sees it, and what runs it.
fn prepare(setup: Setup<'_>) -> (Election, Part) {
    let timing = Timing {
        duration: setup.options.duration,
        renew_deadline: setup.options.renew_deadline,
        retry_period: setup.options.retry_period,
    };
    let (sender, role) = watch::channel(Role::Unknown);
    let pulse = Arc::new(Pulse { until: AtomicU64::new(0), grace: timing.duration - timing.renew_deadline });
    let lease = LeaseName {
        namespace: setup.options.namespace.clone(),
        name: setup.name.clone(),
        identity: Arc::clone(&setup.identity),
    };
    let election = Election {
        group: setup.group.clone(),
        lease: Some(Arc::new(lease)),
        role,
        gate: Gate::closed(&setup.switch),
        held: Gate::closed(&Switch::new(ReadOnly::No)),
        pulse: Arc::clone(&pulse),
        history: History::default(),
        begin: CancellationToken::new(),
        release: CancellationToken::new(),
        ended: CancellationToken::new(),
    };
    let runner = Runner {
        group: setup.group,
        name: setup.name,
        namespace: setup.options.namespace.clone(),
        configuration: setup.configuration,
        timing,
        candidate: LeaseCandidate::new(setup.identity, timing),
        role: sender,
        gate: election.gate.clone(),
        held: election.held.clone(),
        courtesy: setup.courtesy,
        pulse,
        history: election.history.clone(),
        release: election.release.clone(),
        stored: None,
        may_be_ours: false,
        check: setup.check,
        unwatched: None,
        metrics: setup.metrics,
        restores: setup.restores,
    };
    let part = Part {
        runner,
        connection: setup.connection.clone(),
        asks: setup.asks,
        requests: setup.requests,
        begin: election.begin.clone(),
        ended: election.ended.clone().drop_guard(),
    };
    (election, part)
}

/// A name unlike that of any other process: `<hostname>_<uuid>` (B9).
#[must_use]
pub fn identity() -> Arc<str> {
    let mut bytes = [0_u8; 16];
    // Without randomness there is no safe name; the time and the process id are used instead.
    if ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut bytes).is_err() {
        let nanos = boot_time().as_nanos() ^ (u128::from(std::process::id()) << 96);
        bytes = nanos.to_be_bytes();
    }
    // Version 4, variant 1 (RFC 9562).
    let number = u128::from_be_bytes(bytes) & !(0xf << 76 | 0x3 << 62) | (0x4 << 76 | 0x2 << 62);
    let hex = format!("{number:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| hex.get(range).unwrap_or_default());
    format!("{}_{}", instance(), parts.join("-")).into()
}
