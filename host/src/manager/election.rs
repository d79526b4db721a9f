//! The lease of one group of controllers: which of the replicas writes (decisions M2 and M4).
//!
//! `core::election` decides; here are its inputs: the watch on the Lease, the requests, the boot-time clock, and the
//! [`Gate`] that opens and closes with it. All of it runs on a thread of its own, with clients of its own: a process
//! that is busy with a large cluster still renews in time, and a client that waits for its turn never delays a renewal.
//!
//! # Failure story
//!
//! Even if no request succeeds, the gate closes by the clock when the last confirmed renewal becomes too old; no task
//! has to do anything for that. A lost lease stays lost: the process ends and is restarted.

mod history;
mod lease;
mod metrics;
#[cfg(test)]
pub(super) mod staged;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use topoloom_core::election::{
    ElectionPosition, LeaseCandidate, LeaseOrder, LeaseOutcome, Lost, Observation, SeenBy, Timing,
};
use topoloom_core::version::ResourceVersion;

use super::health::CheckSlot;
use super::options::LeaseOptions;
use crate::cluster::Judge as _;
use crate::cluster::gate::{Gate, ReadOnly, Switch, boot_time};
use crate::cluster::rate::RateLimit;
use crate::cluster::{Connection, Refusal, RefusalReason, Restores, client, instance, requests, single};
pub use history::{Happened, History};
pub use metrics::Metrics;

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
    group: LeaseGroup,
    lease: Option<Arc<LeaseName>>,
    role: watch::Receiver<Role>,
    gate: Gate,
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
    pub fn off(group: LeaseGroup, switch: &Switch) -> Self {
        // The sender may go: a receiver keeps the last value.
        let (_, role) = watch::channel(Role::Leader);
        let ended = CancellationToken::new();
        ended.cancel();
        Self {
            group,
            lease: None,
            role,
            gate: Gate::open(switch),
            pulse: Arc::new(Pulse { until: AtomicU64::new(0), grace: Duration::ZERO }),
            history: History::default(),
            begin: CancellationToken::new(),
            release: CancellationToken::new(),
            ended,
        }
    }

    /// Which group it is about.
    #[must_use]
    pub fn group(&self) -> LeaseGroup {
        self.group
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
    }
}

/// What an election is made of.
pub struct Setup<'a> {
    /// Whose lease.
    pub group: LeaseGroup,
    /// Where it is and how long it lasts.
    pub options: &'a LeaseOptions,
    /// Our name.
    pub identity: Arc<str>,
    /// The API server.
    pub connection: &'a Connection,
    /// What is counted.
    pub metrics: Metrics,
    /// Requests are counted, too.
    pub requests: requests::Metrics,
    /// Whether the lease can be read.
    pub check: CheckSlot,
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
}

impl Thread {
    /// Waits for its end. Every election has to have been released, or lost.
    pub async fn join(self) {
        // A panic in it was logged where it happened, and its elections count as stuck.
        let _ = tokio::task::spawn_blocking(move || self.handle.join()).await;
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

/// Starts the thread of elections. Each asks for its lease from [`Election::begin`] on.
///
/// # Errors
/// When there is no thread to be had.
pub fn start(setups: Vec<Setup<'_>>) -> Result<(Vec<Election>, Option<Thread>), StartError> {
    if setups.is_empty() {
        return Ok((Vec::new(), None));
    }
    let mut elections = Vec::new();
    let mut runners = Vec::new();
    for setup in setups {
        let timing = Timing {
            duration: setup.options.duration,
            renew_deadline: setup.options.renew_deadline,
            retry_period: setup.options.retry_period,
        };
        // A follower that has not read the lease for longer could not take over (requirement R6).
        setup.check.counts_for_followers(setup.group, timing.duration * 2);
        let (sender, role) = watch::channel(Role::Unknown);
        let pulse = Arc::new(Pulse { until: AtomicU64::new(0), grace: timing.duration - timing.renew_deadline });
        let lease = LeaseName {
            namespace: setup.options.namespace.clone(),
            name: setup.group.lease(&setup.options.name),
            identity: Arc::clone(&setup.identity),
        };
        let election = Election {
            group: setup.group,
            lease: Some(Arc::new(lease)),
            role,
            gate: Gate::closed(&setup.switch),
            pulse: Arc::clone(&pulse),
            history: History::default(),
            begin: CancellationToken::new(),
            release: CancellationToken::new(),
            ended: CancellationToken::new(),
        };
        let runner = Runner {
            group: setup.group,
            name: setup.group.lease(&setup.options.name),
            namespace: setup.options.namespace.clone(),
            configuration: setup.configuration,
            timing,
            candidate: LeaseCandidate::new(setup.identity, timing),
            role: sender,
            gate: election.gate.clone(),
            held: Gate::closed(&Switch::new(ReadOnly::No)),
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
        let ended = election.ended.clone().drop_guard();
        runners.push((runner, setup.connection.clone(), setup.requests, election.begin.clone(), ended));
        elections.push(election);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
    let body = move || {
        runtime.block_on(async {
            let runs = runners.into_iter().map(|(runner, connection, requests, begin, ended)| async move {
                let released = runner.release.clone();
                if released.run_until_cancelled(begin.cancelled()).await.is_some() {
                    // Made here, so that their connections belong to this thread.
                    match runner.connect(&connection, &requests) {
                        Ok(leases) => runner.run(leases).await,
                        Err(error) => tracing::error!(error = client::chain(&error), "no client for the lease"),
                    }
                }
                drop(ended);
            });
            futures::future::join_all(runs).await;
        });
        // A look-up of a name that hangs must not keep the thread.
        runtime.shutdown_background();
    };
    let handle = std::thread::Builder::new().name("election".into()).spawn(body).map_err(StartError::Thread)?;
    Ok((elections, Some(Thread { handle })))
}

/// The one election, running.
struct Runner {
    group: LeaseGroup,
    name: String,
    namespace: String,
    configuration: String,
    timing: Timing,
    candidate: LeaseCandidate,
    role: watch::Sender<Role>,
    gate: Gate,
    /// For what a holder writes into the lease itself: open while it is ours, whether or not anything else is written.
    held: Gate,
    pulse: Arc<Pulse>,
    history: History,
    release: CancellationToken,
    /// The Lease as last read or written: what is in it and not ours is kept.
    stored: Option<Lease>,
    /// A claim of ours was sent and nothing disproves it: it may be stored even without an answer.
    may_be_ours: bool,
    check: CheckSlot,
    /// Why it cannot be watched, while it cannot.
    unwatched: Option<Refusal>,
    metrics: Metrics,
    restores: Restores,
}

/// The lease, asked for in two ways.
struct Leases {
    /// Without a gate: reads, the watch, and claims. A claim of a lease names its version; one that makes the lease
    /// succeeds only where there is none, and a replica that sees its success too late releases it.
    asks: Api<Lease>,
    /// As its holder: a renewal that was delayed until its deadline is no longer sent.
    holds: Api<Lease>,
}

impl Leases {
    fn new(asks: kube::Client, holds: kube::Client, namespace: &str) -> Self {
        Self { asks: Api::namespaced(asks, namespace), holds: Api::namespaced(holds, namespace) }
    }
}

/// News from the watch.
enum LeaseEvent {
    /// The lease as it is now, or why it cannot be watched.
    Lease(Box<Result<Option<Lease>, Refusal>>),
    /// The API server went back: what is known of the lease is from a history that it has left.
    Restored,
}

/// One item each time the API server goes back.
fn restored(restores: &Restores) -> impl Stream<Item = ()> + Send + use<> {
    stream::unfold(restores.changes(), |mut changes| async move { Some((changes.changed().await.ok()?, changes)) })
}

/// What arrived while a request was under way.
enum Came<T> {
    Answer(T),
    Late,
}

impl Runner {
    /// The clients of this lease: what its holder writes is behind the gate of its time, from the door to the
    /// connection.
    fn connect(&self, connection: &Connection, requests: &requests::Metrics) -> Result<Leases, client::ConnectError> {
        let behind = |gate| connection.behind(gate, requests, &RateLimit::default());
        Ok(Leases::new(behind(&Gate::none())?, behind(&self.held)?, &self.namespace))
    }

    async fn run(mut self, leases: Leases) {
        let asks = leases.asks.clone();
        let states = single::watch_every(asks, &self.name, &self.restores, self.timing.retry_period)
            .map(|lease| LeaseEvent::Lease(Box::new(lease)));
        let restored = restored(&self.restores).map(|()| LeaseEvent::Restored);
        let mut watched = std::pin::pin!(stream::select(states, restored));
        loop {
            let now = boot_time();
            let order = self.candidate.next(now);
            self.tell();
            match order {
                LeaseOrder::Stop(_) => return,
                LeaseOrder::Wait(until) => tokio::select! {
                    () = self.release.cancelled() => return self.give_back(&leases).await,
                    () = tokio::time::sleep(until.saturating_sub(now)) => {}
                    Some(state) = watched.next() => self.watched(state),
                },
                LeaseOrder::Read => {
                    if self.release.is_cancelled() {
                        return self.give_back(&leases).await;
                    }
                    let name = self.name.clone();
                    let read = leases.asks.get_opt(&name);
                    match self.during(now, read, &mut watched).await {
                        Came::Answer(Ok(lease)) => self.saw(SeenBy::Read, lease),
                        Came::Answer(Err(error)) => {
                            let refusal = Refusal::of(&error);
                            self.history.add(format!("not read: {refusal}"));
                            self.check.fail(&refusal);
                            self.candidate.unread(boot_time());
                        }
                        Came::Late => {
                            self.history.add("not read: no answer in time");
                            self.check.fail(&late());
                            self.candidate.unread(boot_time());
                        }
                    }
                }
                LeaseOrder::Claim { base, transitions } => {
                    if self.release.is_cancelled() {
                        return self.give_back(&leases).await;
                    }
                    let lease = lease::claim(self.stored.as_ref(), &self.wanted(transitions), base.as_deref());
                    self.write(&leases.asks, now, base, lease, &mut watched).await;
                }
                LeaseOrder::Renew(version) => {
                    if self.release.is_cancelled() {
                        return self.give_back(&leases).await;
                    }
                    let lease = lease::renew(self.stored.as_ref(), &self.wanted(0), &version);
                    self.write(&leases.holds, now, Some(version), lease, &mut watched).await;
                }
            }
        }
    }

    fn wanted(&self, transitions: u32) -> lease::HolderEntry<'_> {
        lease::HolderEntry {
            name: &self.name,
            holder: self.candidate.me(),
            duration: self.timing.duration,
            transitions,
            configuration: &self.configuration,
        }
    }

    async fn write(
        &mut self,
        api: &Api<Lease>,
        sent: Duration,
        base: Option<ResourceVersion>,
        lease: Lease,
        watched: &mut (impl Stream<Item = LeaseEvent> + Unpin),
    ) {
        let name = self.name.clone();
        let request = async {
            let parameters = kube::api::PostParams::default();
            match &base {
                None => api.create(&parameters, &lease).await,
                Some(_) => api.replace(&name, &parameters, &lease).await,
            }
        };
        let answer = match self.during(sent, request, watched).await {
            Came::Answer(Ok(lease)) => {
                self.check.pass();
                let version = lease.metadata.resource_version.as_deref().into();
                self.stored = Some(lease);
                LeaseOutcome::Confirmed(version)
            }
            Came::Answer(Err(error)) => {
                let refusal = Refusal::of(&error);
                self.history.add(format!("not written: {refusal}"));
                match refusal.reason {
                    RefusalReason::Conflict | RefusalReason::AlreadyExists => LeaseOutcome::Conflict,
                    // The lease that was to be replaced is gone. What was to be made has no place: its namespace is
                    // missing.
                    RefusalReason::NotFound if base.is_some() => LeaseOutcome::Conflict,
                    _ => {
                        self.check.fail(&refusal);
                        LeaseOutcome::Unknown
                    }
                }
            }
            Came::Late => {
                self.history.add("not written: no answer in time");
                self.check.fail(&late());
                LeaseOutcome::Unknown
            }
        };
        self.may_be_ours |= answer != LeaseOutcome::Conflict;
        self.metrics.attempt(self.group, &answer);
        self.candidate.answered(sent, boot_time(), base.as_ref(), answer);
    }

    /// Waits for an answer, takes events of the watch meanwhile, and does not wait longer than makes sense.
    async fn during<T>(
        &mut self,
        sent: Duration,
        request: impl Future<Output = T>,
        watched: &mut (impl Stream<Item = LeaseEvent> + Unpin),
    ) -> Came<T> {
        let patience = self.candidate.patience(sent).saturating_sub(sent);
        let mut late = std::pin::pin!(tokio::time::sleep(patience));
        let mut request = std::pin::pin!(request);
        loop {
            tokio::select! {
                biased;
                answer = &mut request => return Came::Answer(answer),
                Some(state) = watched.next() => {
                    self.watched(state);
                    self.tell();
                }
                () = &mut late => {
                    tracing::debug!(group = self.group.as_str(), ?patience, "a request for the lease was not answered");
                    return Came::Late;
                }
            }
        }
    }

    fn watched(&mut self, came: LeaseEvent) {
        match came {
            LeaseEvent::Restored => {
                self.history.add("the API server went back to an earlier version".to_owned());
                self.candidate.restored(boot_time());
            }
            LeaseEvent::Lease(lease) => match *lease {
                Ok(lease) => {
                    self.unwatched = None;
                    self.saw(SeenBy::Watch, lease);
                }
                Err(refusal) => self.unwatched(refusal),
            },
        }
    }

    /// No failure of the check: the lease is read instead, and only where that fails something is missing.
    fn unwatched(&mut self, refusal: Refusal) {
        if self.unwatched.as_ref() != Some(&refusal) {
            tracing::warn!(
                check = self.group.check(), reason = refusal.reason.as_str(), error = %refusal,
                "the lease cannot be watched; it is read instead"
            );
        }
        self.unwatched = Some(refusal);
        self.candidate.unwatched(boot_time());
    }

    fn saw(&mut self, seen: SeenBy, lease: Option<Lease>) {
        let observation = match &lease {
            Some(lease) => Observation::Present(lease::record(lease)),
            None => Observation::Absent(None),
        };
        // That there is none says nothing yet: it may be that there never can be. The claim that follows finds out.
        if lease.is_some() {
            self.check.pass();
        }
        self.candidate.observed(boot_time(), seen, observation);
        if seen == SeenBy::Read || self.stored.is_none() || self.candidate.release().is_none() {
            self.stored = lease;
        }
    }

    /// Lets the rest of the process know, the gate first.
    fn tell(&self) {
        let standing = self.candidate.position();
        let role = match &standing {
            ElectionPosition::Leading(until) => {
                self.held.open_until(*until);
                self.gate.open_until(*until);
                self.pulse.until.store(u64::try_from(until.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
                Role::Leader
            }
            other => {
                self.gate.close();
                self.held.close();
                self.pulse.until.store(0, Ordering::SeqCst);
                role(other)
            }
        };
        self.metrics.role(self.group, &role);
        self.role.send_if_modified(|now| {
            if *now == role {
                return false;
            }
            let (group, lease) = (self.group.as_str(), format!("{}/{}", self.namespace, self.name));
            self.history.add(match &role {
                Role::Leader => "leads".to_owned(),
                Role::Lost(lost) => format!("lost: {lost}"),
                Role::Follower(holder) if holder.is_empty() => "no replica leads".to_owned(),
                Role::Follower(holder) => format!("follows {holder}"),
                Role::Unknown => "the leader is not known".to_owned(),
            });
            match &role {
                Role::Leader => tracing::info!(group, lease, identity = &**self.candidate.me(), "leads"),
                Role::Lost(lost) => tracing::error!(group, lease, why = %lost, "the lease is lost"),
                Role::Follower(holder) if !holder.is_empty() => {
                    tracing::info!(group, lease, holder = &**holder, "follows");
                }
                Role::Follower(_) | Role::Unknown => {}
            }
            *now = role;
            true
        });
    }

    /// The last write of a holder whose workers have ended, and of a replica that may be the holder without knowing it.
    async fn give_back(mut self, leases: &Leases) {
        self.gate.close();
        let patience = self.timing.renew_deadline.min(Duration::from_secs(5));
        let pause = self.timing.retry_period.min(patience / 10);
        let mut refused = late();
        let tries = async {
            loop {
                match self.given_back(leases).await {
                    // An API server that goes down takes its connections along, and the next one answers.
                    Err(refusal) if may_pass(refusal.reason) => refused = refusal,
                    given => return given,
                }
                tokio::time::sleep(pause).await;
            }
        };
        match tokio::time::timeout(patience, tries).await {
            Ok(Ok(true)) => tracing::info!(group = self.group.as_str(), "the lease is released"),
            Ok(Ok(false)) => {}
            Ok(Err(refusal)) => tracing::warn!(error = %refusal, "the lease could not be released"),
            Err(_) => tracing::warn!(error = %refused, ?patience, "the lease could not be released"),
        }
        self.held.close();
        self.pulse.until.store(0, Ordering::SeqCst);
        self.metrics.role(self.group, &Role::Unknown);
    }

    /// Whether it was ours to give.
    async fn given_back(&mut self, leases: &Leases) -> Result<bool, Refusal> {
        let held = self.candidate.release();
        let writes = if held.is_some() { &leases.holds } else { &leases.asks };
        match held {
            Some(version) => match self.released(writes, &version).await {
                // Another program changed it, or a renewal that we gave up was stored after all.
                Err(refusal) if refusal.reason == RefusalReason::Conflict => {}
                Err(refusal) if refusal.reason == RefusalReason::NotFound => return Ok(false),
                released => return released.map(|()| true),
            },
            None if self.may_be_ours => {}
            None => return Ok(false),
        }
        let found = leases.asks.get_opt(&self.name).await.map_err(|error| Refusal::of(&error))?;
        let Some(found) = found else { return Ok(false) };
        let record = lease::record(&found);
        if record.holder != *self.candidate.me() {
            // The write of an earlier try may have been stored, although there was no answer.
            return Ok(record.holder.is_empty() && record.released_by.as_ref() == Some(self.candidate.me()));
        }
        self.stored = Some(found);
        self.released(writes, &record.version).await.map(|()| true)
    }

    /// Writes an empty holder, over that version and no other.
    async fn released(&self, api: &Api<Lease>, version: &str) -> Result<(), Refusal> {
        let lease = lease::release(self.stored.as_ref(), &self.wanted(0), version);
        let answer = api.replace(&self.name, &kube::api::PostParams::default(), &lease).await;
        answer.map(|_| ()).map_err(|error| Refusal::of(&error))
    }
}

/// The role of a process that does not lead. The identity of another holder is its own text, and goes into the log.
fn role(standing: &ElectionPosition) -> Role {
    let shown = |holder: &str| topoloom_core::text::holder(holder).into();
    match standing {
        ElectionPosition::Unread | ElectionPosition::Leading(_) => Role::Unknown,
        ElectionPosition::Following(holder) => Role::Follower(shown(holder)),
        ElectionPosition::Free => Role::Follower("".into()),
        ElectionPosition::Lost(Lost::Taken(holder)) => Role::Lost(Lost::Taken(shown(holder))),
        ElectionPosition::Lost(lost) => Role::Lost(lost.clone()),
    }
}

/// Whether the same request may succeed a moment later.
fn may_pass(reason: RefusalReason) -> bool {
    matches!(reason, RefusalReason::Unreachable | RefusalReason::ServerError | RefusalReason::TooManyRequests)
}

/// The refusal of a request that was not answered in time.
fn late() -> Refusal {
    let message = "the API server did not answer in time".to_owned();
    Refusal { reason: RefusalReason::Unreachable, message, retry_after: None }
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
