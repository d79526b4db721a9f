//! The loop of one election: it asks the candidate what to do next, sends the request, and publishes the role.
//!
//! Events of the watch are taken in while a request is under way. The gate opens and closes before the rest of the
//! process sees the new role.

use std::sync::Arc;
use std::sync::atomic::Ordering;
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

use super::groups::made_aside;
use super::{Group, History, Metrics, Pulse, Role, SharedClient, lease};
use crate::cluster::gate::{Gate, boot_time};
use crate::cluster::rate::RateLimit;
use crate::cluster::{Check, Connection, Refusal, RefusalReason, Restores, client, requests, single};

/// The one election, running.
pub(super) struct Runner {
    pub(super) group: Group,
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) configuration: String,
    pub(super) timing: Timing,
    pub(super) candidate: LeaseCandidate,
    pub(super) role: watch::Sender<Role>,
    pub(super) gate: Gate,
    /// For what a holder writes into leases, this one among them: open while it is ours, whether or not anything else is
    /// written.
    pub(super) held: Gate,
    /// How much later than it could this replica claims the lease.
    pub(super) courtesy: Option<watch::Receiver<Duration>>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) history: History,
    pub(super) release: CancellationToken,
    /// The Lease as last read or written: what is in it and not ours is kept.
    pub(super) stored: Option<Lease>,
    /// A claim of ours was sent and nothing disproves it: it may be stored even without an answer.
    pub(super) may_be_ours: bool,
    pub(super) check: Check,
    /// Why it cannot be watched, while it cannot.
    pub(super) unwatched: Option<Refusal>,
    pub(super) metrics: Metrics,
    pub(super) restores: Restores,
}

/// The lease, asked for in two ways.
pub(super) struct Leases {
    /// Without a gate: reads, the watch, and claims. A claim of a lease names its version; one that makes the lease
    /// succeeds only where there is none, and a replica that sees its success too late releases it.
    pub(super) asks: Api<Lease>,
    /// As its holder: a renewal that was delayed until its deadline is no longer sent.
    pub(super) holds: Api<Lease>,
}

impl Leases {
    pub(super) fn new(asks: kube::Client, holds: kube::Client, namespace: &str) -> Self {
        Self { asks: Api::namespaced(asks, namespace), holds: Api::namespaced(holds, namespace) }
    }
}

/// News from the watch.
pub(super) enum LeaseEvent {
    /// The lease as it is now, or why it cannot be watched.
    Lease(Box<Result<Option<Lease>, Refusal>>),
    /// The API server went back: what is known of the lease is from a history that it has left.
    Restored,
}

/// One item each time the API server goes back.
fn restored(restores: &Restores) -> impl Stream<Item = ()> + Send + use<> {
    stream::unfold(restores.changes(), |mut changes| async move { Some((changes.changed().await.ok()?, changes)) })
}

/// Waits until this replica is to give way for another time.
async fn changed(courtesy: &mut Option<watch::Receiver<Duration>>) {
    if let Some(courtesy) = courtesy
        && courtesy.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// What arrived while a request was under way.
enum Came<T> {
    Answer(T),
    Late,
}

impl Runner {
    /// The clients of this lease: what its holder writes is behind the gate of its time, from the door to the
    /// connection.
    pub(super) fn connect(
        &self,
        connection: &Connection,
        requests: &requests::Metrics,
    ) -> Result<Leases, client::ConnectError> {
        let behind = |gate| connection.behind(gate, requests, &RateLimit::default());
        Ok(Leases::new(behind(&Gate::none())?, behind(&self.held)?, &self.namespace))
    }

    /// The same for one of many elections, which come while others are renewed: made beside this thread, and what needs no gate
    /// with the client of all.
    pub(super) async fn connect_aside(
        &self,
        connection: &Connection,
        requests: &requests::Metrics,
        asks: &SharedClient,
    ) -> Result<Leases, client::ConnectError> {
        let asks = asks.get(connection, requests).await?;
        let holds = made_aside(connection, &self.held, requests).await?;
        Ok(Leases::new(asks, holds, &self.namespace))
    }

    pub(super) async fn run(mut self, leases: Leases) {
        let asks = leases.asks.clone();
        let states = single::watch_every(asks, &self.name, &self.restores, self.timing.retry_period)
            .map(|lease| LeaseEvent::Lease(Box::new(lease)));
        let restored = restored(&self.restores).map(|()| LeaseEvent::Restored);
        let mut watched = std::pin::pin!(stream::select(states, restored));
        loop {
            let now = boot_time();
            if let Some(courtesy) = &mut self.courtesy {
                let courtesy = *courtesy.borrow_and_update();
                self.candidate.give_way(courtesy);
            }
            let order = self.candidate.next(now);
            self.publish();
            if !matches!(order, LeaseOrder::Stop(_) | LeaseOrder::Wait(_)) && self.release.is_cancelled() {
                return self.give_back(&leases).await;
            }
            match order {
                LeaseOrder::Stop(_) => return,
                LeaseOrder::Wait(until) => tokio::select! {
                    () = self.release.cancelled() => return self.give_back(&leases).await,
                    () = tokio::time::sleep(until.saturating_sub(now)) => {}
                    Some(event) = watched.next() => self.watched(event),
                    () = changed(&mut self.courtesy) => {}
                },
                LeaseOrder::Read => self.read(&leases.asks, now, &mut watched).await,
                LeaseOrder::Claim { base, transitions } => {
                    let lease = lease::claim(self.stored.as_ref(), &self.entry(transitions), base.as_deref());
                    self.write(&leases.asks, now, base, lease, &mut watched).await;
                }
                LeaseOrder::Renew(version) => {
                    let lease = lease::renew(self.stored.as_ref(), &self.entry(0), &version);
                    self.write(&leases.holds, now, Some(version), lease, &mut watched).await;
                }
            }
        }
    }

    async fn read(&mut self, api: &Api<Lease>, sent: Duration, watched: &mut (impl Stream<Item = LeaseEvent> + Unpin)) {
        let name = self.name.clone();
        match self.during(sent, api.get_opt(&name), watched).await {
            Came::Answer(Ok(lease)) => self.observed(SeenBy::Read, lease),
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

    /// What this replica writes as the holder.
    pub(super) fn entry(&self, transitions: u32) -> lease::HolderEntry<'_> {
        lease::HolderEntry {
            name: &self.name,
            holder: self.candidate.me(),
            duration: self.timing.duration,
            transitions,
            configuration: &self.configuration,
        }
    }

    pub(super) async fn write(
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
        let came = self.during(sent, request, watched).await;
        let outcome = self.outcome(came, base.as_ref());
        self.may_be_ours |= outcome != LeaseOutcome::Conflict;
        self.metrics.attempt(&self.group, &outcome);
        self.candidate.answered(sent, boot_time(), base.as_ref(), outcome);
    }

    /// What an answer means for a write over `base`, or for one that makes the lease.
    fn outcome(&mut self, came: Came<kube::Result<Lease>>, base: Option<&ResourceVersion>) -> LeaseOutcome {
        match came {
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
        }
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
                    self.publish();
                }
                () = &mut late => {
                    tracing::debug!(group = self.group.as_str(), ?patience, "a request for the lease was not answered");
                    return Came::Late;
                }
            }
        }
    }

    pub(super) fn watched(&mut self, came: LeaseEvent) {
        match came {
            LeaseEvent::Restored => {
                self.history.add("the API server went back to an earlier version".to_owned());
                self.candidate.restored(boot_time());
            }
            LeaseEvent::Lease(lease) => match *lease {
                Ok(lease) => {
                    self.unwatched = None;
                    self.observed(SeenBy::Watch, lease);
                }
                Err(refusal) => self.unwatched(refusal),
            },
        }
    }

    /// No failure of the check: the lease is read instead, and only where that fails something is missing.
    fn unwatched(&mut self, refusal: Refusal) {
        if self.unwatched.as_ref() != Some(&refusal) {
            tracing::warn!(
                check = self.group.check(), lease = %self.name, reason = refusal.reason.as_str(), error = %refusal,
                "the lease cannot be watched; it is read instead"
            );
        }
        self.unwatched = Some(refusal);
        self.candidate.unwatched(boot_time());
    }

    pub(super) fn observed(&mut self, seen: SeenBy, lease: Option<Lease>) {
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
    fn publish(&self) {
        let position = self.candidate.position();
        let role = match &position {
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
        self.metrics.role(&self.group, &role);
        self.role.send_if_modified(|now| {
            if *now == role {
                return false;
            }
            self.note(&role);
            *now = role;
            true
        });
    }

    /// A new role, for the history and the log.
    fn note(&self, role: &Role) {
        let (group, binding) = (self.group.as_str(), self.group.binding());
        let lease = format!("{}/{}", self.namespace, self.name);
        self.history.add(match role {
            Role::Leader => "leads".to_owned(),
            Role::Lost(lost) => format!("lost: {lost}"),
            Role::Follower(holder) if holder.is_empty() => "no replica leads".to_owned(),
            Role::Follower(holder) => format!("follows {holder}"),
            Role::Unknown => "the leader is not known".to_owned(),
        });
        match role {
            Role::Leader => tracing::info!(group, binding, lease, identity = &**self.candidate.me(), "leads"),
            Role::Lost(lost) => tracing::error!(group, binding, lease, why = %lost, "the lease is lost"),
            Role::Follower(holder) if !holder.is_empty() => {
                tracing::info!(group, binding, lease, holder = &**holder, "follows");
            }
            Role::Follower(_) | Role::Unknown => {}
        }
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
            Ok(Ok(true)) => tracing::info!(group = self.group.as_str(), lease = %self.name, "the lease is released"),
            Ok(Ok(false)) => {}
            Ok(Err(refusal)) => tracing::warn!(lease = %self.name, error = %refusal, "the lease could not be released"),
            Err(_) => {
                tracing::warn!(lease = %self.name, error = %refused, ?patience, "the lease could not be released");
            }
        }
        self.held.close();
        self.pulse.until.store(0, Ordering::SeqCst);
        self.metrics.role(&self.group, &Role::Unknown);
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
        let lease = lease::release(self.stored.as_ref(), &self.entry(0), version);
        let answer = api.replace(&self.name, &kube::api::PostParams::default(), &lease).await;
        answer.map(|_| ()).map_err(|error| Refusal::of(&error))
    }
}

/// The role of a process that does not lead. The identity of another holder is its own text, and goes into the log.
pub(super) fn role(position: &ElectionPosition) -> Role {
    let shown = |holder: &str| topoloom_core::text::holder(holder).into();
    match position {
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
pub(super) fn late() -> Refusal {
    let message = "the API server did not answer in time".to_owned();
    Refusal { reason: RefusalReason::Unreachable, message, retry_after: None }
}
