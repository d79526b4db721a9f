//! One source: its revision, its rounds, its writes, and what it says about itself.
//!
//! A supervisor is one task that does one thing at a time: prepare a revision, run a round, write. What happens
//! meanwhile waits in its mailbox and its [`Wake`], and collapses.
//!
//! ```text
//! entry ─► prepare ─► Revision ─► round: view ─► discover ─► accept ─► decide ─► guard ─► execute ─► report
//!             │ refused: the old revision goes on                │          ▲
//!             └───────────────────────────────                  failed      └ drift: decide again, no plugin call
//! ```
//!
//! # Failure story
//!
//! Whatever fails, the topology in force stays in force and the source's conditions say why. A refused entry keeps the
//! old revision. A failed round backs off. A refused write is decided again from what is then stored. A round that
//! would destroy too much is held until time or the operator confirms it.

mod state;
mod tiers;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::{DiscoverySourceStatus, OnRemoval};
use topoloom_core::plugin::{Answered, Retry};
use topoloom_core::snapshot::View;
use topoloom_core::topology::guard::{self, Confirmation, Hold, Standing, Verdict};
use topoloom_core::topology::{Forest, Named, Object, diff};

use super::decide::{Decision, Inputs, accept, decide};
use super::nodes::{Interest, Nodes};
use super::pacing::Pacing;
use super::report::Reports;
use super::revision::{Revision, call_reason, prepare};
use crate::cluster::events::Events;
use crate::config::tuning::EmptyResult;
use crate::config::{EntryConfig, Mode};
use crate::manager::metrics::RoundMetrics;
use crate::plugin::{Round, Runtime};
use crate::topology::apply::{Outcome, Writer};
use crate::topology::observe::HyperNodes;
use state::Report;
pub use tiers::TierRegistry;
use wake::Wake;

/// What all sources share.
pub struct Shared {
    /// Runs plugins.
    pub runtime: Runtime,
    /// The Nodes.
    pub nodes: Arc<Nodes>,
    /// The HyperNodes.
    pub hyper_nodes: Arc<HyperNodes>,
    /// Writes HyperNodes.
    pub writer: Writer,
    /// What sources say.
    pub reports: Arc<Reports>,
    /// Publishes Events.
    pub events: Events,
    /// Counts rounds.
    pub metrics: RoundMetrics,
    /// Tier names by source.
    pub tiers: TierRegistry,
    /// Whether the host as a whole only observes.
    pub mode: Mode,
    /// How often a source has prepared an entry for the first time.
    pub prepared: tokio::sync::watch::Sender<usize>,
}

/// What a supervisor is told.
#[derive(Debug)]
pub enum Command {
    /// The entry as it is now, its position in the document, and what is odd about it.
    Entry(Arc<EntryConfig>, usize, Vec<String>),
    /// The entry, or the whole document, is wrong; what runs goes on.
    Invalid(Reason, String),
    /// The operator confirms the held result of that hash.
    Confirm(String),
    /// The operator asks for a round.
    Run,
    /// The operator stops rounds and writes, or lets them go on.
    Pause(bool),
    /// The source is off or gone.
    Stop(OnRemoval),
    /// The process stops; the source does not.
    Leave,
}

/// What is remembered of a source from an earlier life of the host.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// What the source last said about itself.
    pub status: DiscoverySourceStatus,
    /// The pause annotation.
    pub paused: bool,
    /// The confirm annotation.
    pub confirmed: Option<String>,
}

/// First pause before a plan with refused writes is decided again; doubles up to [`LONGEST_WRITE_PAUSE`].
const FIRST_WRITE_PAUSE: Duration = Duration::from_millis(500);
/// An API server or webhook that comes back is noticed within this time.
const LONGEST_WRITE_PAUSE: Duration = Duration::from_secs(30);
/// Conflicts in a row that are decided again at once, before the pauses begin.
const QUICK_CONFLICTS: u32 = 5;
/// How long a round waits for the first lists; the mailbox is read in between.
const LIST_PATIENCE: Duration = Duration::from_secs(10);
/// How long an Event may take.
const EVENT_PATIENCE: Duration = Duration::from_secs(2);
/// How often an entry is prepared again whose file may come.
const PREPARE_AGAIN: Duration = Duration::from_secs(10);
/// What fails by itself, a compile or a call, is tried less and less often, down to this.
const PREPARE_SELDOM: Duration = Duration::from_secs(600);

/// The task of one source.
pub struct Supervisor {
    shared: Arc<Shared>,
    source: Arc<str>,
    mailbox: mpsc::UnboundedReceiver<Command>,
    wake: Arc<Wake>,
    order: usize,
    /// The entry as last told; the revision's own may be an older one.
    entry: Arc<EntryConfig>,
    revision: Option<Revision>,
    interest: Option<Interest>,
    prepare_at: Option<Instant>,
    prepare_pause: Duration,
    unprepared: bool,
    pacing: Pacing,
    /// The plugin's own memory, and the result it may call unchanged.
    state: Arc<[u8]>,
    forest: Option<Arc<Forest>>,
    /// The configuration that `forest` came from, and whether the present revision gave it.
    forest_config: String,
    answered: bool,
    /// The nodes that `forest` speaks of.
    view: Option<View>,
    /// The nodes when a result was last completely applied.
    baseline: Option<View>,
    /// The configuration that the objects in the cluster came from.
    config_applied: Option<String>,
    hold: Hold,
    confirmed: Option<String>,
    paused: bool,
    /// When a plan is decided again, without a call.
    decide_at: Option<Instant>,
    /// When a remark about another writer is looked at again.
    look_at: Option<Instant>,
    write_pause: Duration,
    conflicts: u32,
    report: Report,
}

/// What the next turn of the loop does.
enum Turn {
    Command(Command),
    Prepare,
    Round,
    Decide,
    Woken,
    Closed,
}

impl Supervisor {
    /// A supervisor of a source that has not run yet.
    #[must_use]
    pub fn new(
        shared: Arc<Shared>,
        entry: Arc<EntryConfig>,
        order: usize,
        memory: Memory,
        mailbox: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        let source: Arc<str> = entry.source.as_str().into();
        let wake = Arc::new(Wake::default());
        let confirmed = memory.confirmed.or_else(|| entry.verbs.confirm.clone());
        shared.hyper_nodes.own(&source, Arc::clone(&wake) as _);
        Self {
            config_applied: memory.status.config_hash.clone(),
            report: Report::remembering(&source, entry.on_removal, memory.status),
            shared,
            source,
            mailbox,
            wake,
            order,
            entry,
            revision: None,
            interest: None,
            prepare_at: Some(Instant::now()),
            prepare_pause: PREPARE_AGAIN,
            unprepared: true,
            pacing: Pacing::default(),
            state: Arc::from([]),
            forest: None,
            forest_config: String::new(),
            answered: false,
            view: None,
            baseline: None,
            hold: Hold::default(),
            confirmed,
            paused: memory.paused,
            decide_at: None,
            look_at: None,
            write_pause: FIRST_WRITE_PAUSE,
            conflicts: 0,
        }
    }

    /// Runs until the source stops.
    pub async fn run(mut self) {
        self.paused |= self.entry.verbs.pause;
        self.publish().await;
        loop {
            match self.next().await {
                Turn::Command(Command::Stop(on_removal)) => {
                    self.stop(on_removal).await;
                    return;
                }
                Turn::Command(Command::Leave) | Turn::Closed => return,
                Turn::Command(command) => self.command(command).await,
                Turn::Prepare => self.prepare().await,
                Turn::Round => self.round().await,
                Turn::Decide => self.decide_again().await,
                Turn::Woken => self.woken(),
            }
            self.publish().await;
        }
    }

    /// Waits for the next thing to do. A command comes before a round, a round before deciding again.
    async fn next(&mut self) -> Turn {
        let now = Instant::now();
        let active = !self.paused && self.revision.is_some();
        let round = self.pacing.due(now).filter(|_| active);
        let decide = [self.decide_at, self.look_at].into_iter().flatten().min().filter(|_| active);
        let far = now + Duration::from_secs(86_400);
        tokio::select! {
            biased;
            command = self.mailbox.recv() => command.map_or(Turn::Closed, Turn::Command),
            () = self.wake.rung() => Turn::Woken,
            () = tokio::time::sleep_until(self.prepare_at.unwrap_or(far)), if self.prepare_at.is_some() => Turn::Prepare,
            () = tokio::time::sleep_until(round.unwrap_or(far)), if round.is_some() => Turn::Round,
            () = tokio::time::sleep_until(decide.unwrap_or(far)), if decide.is_some() => Turn::Decide,
        }
    }

    async fn command(&mut self, command: Command) {
        match command {
            Command::Entry(entry, order, warnings) => {
                if std::mem::replace(&mut self.order, order) != order && self.forest.is_some() {
                    // Which entry is earlier decides who has a tier name.
                    self.decide_at = Some(Instant::now());
                }
                self.take_verbs(&entry);
                self.report.valid(entry.on_removal, warnings);
                if entry.hash != self.entry.hash || self.revision.is_none() {
                    self.entry = entry;
                    self.prepare_at = Some(Instant::now());
                    self.prepare_pause = PREPARE_AGAIN;
                } else {
                    self.entry = entry;
                }
            }
            Command::Invalid(reason, message) => self.report.invalid(reason, message, self.revision.is_some()),
            Command::Confirm(hash) => self.confirm(hash),
            Command::Run => {
                self.prepare_at = self.prepare_at.map(|_| Instant::now());
                self.pacing.ask();
            }
            Command::Pause(paused) => self.paused = paused,
            Command::Stop(_) | Command::Leave => {}
        }
    }

    /// The verbs of the entry work where the CRD is not installed; a value counts once.
    fn take_verbs(&mut self, entry: &EntryConfig) {
        if entry.verbs.confirm != self.entry.verbs.confirm
            && let Some(hash) = entry.verbs.confirm.clone()
        {
            self.confirm(hash);
        }
        if entry.verbs.run.is_some() && entry.verbs.run != self.entry.verbs.run {
            self.pacing.ask();
        }
        if entry.verbs.pause != self.entry.verbs.pause {
            self.paused = entry.verbs.pause;
        }
    }

    fn confirm(&mut self, hash: String) {
        tracing::info!(source = &*self.source, hash, "the operator confirms a result");
        self.confirmed = Some(hash);
        // What is held is decided again at once; a source that holds nothing keeps the word for its next round.
        if self.forest.is_some() {
            self.decide_at = Some(Instant::now());
        }
    }

    fn woken(&mut self) {
        let news = self.wake.take();
        let now = Instant::now();
        if news.columns {
            self.pacing.columns_changed(now);
        }
        if news.names {
            self.pacing.names_changed();
        }
        for drift in &news.drift {
            self.shared.metrics.drift(&self.source);
            self.report.drift(drift, now);
        }
        if (!news.drift.is_empty() || news.tiers || news.others) && self.forest.is_some() && self.decide_at.is_none() {
            self.decide_at = Some(now);
        }
    }

    async fn prepare(&mut self) {
        self.prepare_at = None;
        match prepare(&self.shared.runtime, Arc::clone(&self.entry)).await {
            Ok(revision) => self.take_revision(revision),
            Err(refused) => {
                tracing::warn!(source = &*self.source, reason = %refused.reason, message = refused.message, "the entry is refused");
                self.prepare_at = refused.again.then(|| Instant::now() + self.prepare_pause);
                if refused.reason != Reason::PluginNotFound {
                    self.prepare_pause = (self.prepare_pause * 2).min(PREPARE_SELDOM);
                }
                self.report.refused(&refused, self.revision.is_some());
            }
        }
        if std::mem::take(&mut self.unprepared) {
            self.shared.prepared.send_modify(|prepared| *prepared += 1);
        }
    }

    fn take_revision(&mut self, revision: Revision) {
        let interested = wake::Interested::new(Arc::clone(&self.wake), revision.keys.clone());
        // The new interest exists before the old one goes, so columns that both want stay.
        let interest = self.shared.nodes.register(revision.keys.clone(), Arc::new(interested));
        self.interest = Some(interest);
        self.pacing.restart(revision.rhythm.clone());
        self.state = Arc::from([]);
        self.answered = false;
        self.report.revision(&revision);
        tracing::info!(
            source = &*self.source,
            plugin = revision.description.name,
            version = revision.description.version,
            digest = %revision.plugin.digest(),
            "configured"
        );
        self.revision = Some(revision);
    }

    /// One round: ask the plugin, then decide and write.
    async fn round(&mut self) {
        let Some(revision) = &self.revision else { return };
        let started = Instant::now();
        let lists = async {
            self.shared.hyper_nodes.synced().await;
            self.shared.nodes.view(&revision.keys).await
        };
        let Ok(view) = tokio::time::timeout(LIST_PATIENCE, lists).await else {
            let until = self.pacing.failed(Instant::now(), None);
            let message = "Nodes or HyperNodes could not be listed so far (the log and /readyz say why)";
            self.report.round_failed(Reason::Pending, message, Some(until));
            return;
        };
        self.wake.take_nodes();
        self.pacing.started(started);
        let observed = self.shared.hyper_nodes.objects();
        let own: Vec<Arc<Object>> =
            observed.iter().filter(|object| object.source.as_ref() == Some(&self.source)).cloned().collect();
        let time = Timestamp::now();
        let call = revision
            .plugin
            .discover(
                &self.source,
                Round {
                    config: Arc::clone(&revision.config),
                    granted: Arc::clone(&revision.granted),
                    nodes: view.clone(),
                    applied: own.into(),
                    time,
                    state: Arc::clone(&self.state),
                },
            )
            .await;
        self.shared.metrics.guest(&self.source, &call.usage);
        let outcome = match call.end {
            Err(error) => {
                let until = match error.retry() {
                    Retry::Later(wait) => Some(self.pacing.failed(Instant::now(), wait)),
                    Retry::OnChange => {
                        self.pacing.failed_until_changed();
                        None
                    }
                };
                self.report.round_failed(call_reason(&error), &error.to_string(), until);
                error.reason()
            }
            Ok(answer) => match self.accept(answer.outcome, &view, &observed) {
                Err(message) => {
                    let until = self.pacing.failed(Instant::now(), None);
                    self.report.round_failed(Reason::InvalidResult, &message, Some(until));
                    "InvalidTopology"
                }
                Ok(forest) => {
                    self.state = answer.state.into();
                    self.forest = Some(forest);
                    self.forest_config = revision.entry.config_hash.to_string();
                    self.answered = true;
                    self.view = Some(view);
                    self.pacing.succeeded();
                    self.report.discovered(time);
                    self.decide_again().await;
                    "ok"
                }
            },
        };
        let took = started.elapsed();
        self.shared.metrics.round(&self.source, outcome, took.as_secs_f64());
        tracing::debug!(source = &*self.source, outcome, ?took, "round");
    }

    fn accept(&self, answered: Answered, view: &View, observed: &[Arc<Object>]) -> Result<Arc<Forest>, String> {
        match answered {
            Answered::Topology(topology) => accept(&topology, &self.source, view, observed)
                .map(Arc::new)
                .map_err(|violations| format!("the topology is not valid: {violations}")),
            Answered::Unchanged => self.forest.clone().filter(|_| self.answered).ok_or_else(|| {
                "the plugin answered `unchanged` in its first round, where there is nothing to be unchanged".to_owned()
            }),
        }
    }

    /// Decides about the last result and writes, until the cluster is as decided or something stands in the way.
    async fn decide_again(&mut self) {
        self.decide_at = None;
        self.look_at = None;
        loop {
            let (Some(revision), Some(forest), Some(view)) = (&self.revision, self.forest.clone(), self.view.clone())
            else {
                return;
            };
            // Until it is decided anything may turn out to be in the way, so nothing that changes from here on is missed.
            self.wake.obstructed(true);
            let observed = self.shared.hyper_nodes.objects();
            let elsewhere = self.shared.tiers.before(&self.source, self.order, &self.wake);
            let safety = safety(&revision.entry.safety, revision.rhythm.remote);
            let config_hash = self.forest_config.clone();
            let inputs = Inputs {
                source: &self.source,
                observed: &observed,
                view: &view,
                keys: &revision.keys,
                baseline: self.baseline.as_ref(),
                config: match &self.config_applied {
                    Some(applied) if *applied != config_hash => guard::Config::Edited,
                    _ => guard::Config::Same,
                },
                safety: &safety,
                tier_names_elsewhere: &elsewhere,
            };
            let decision = decide(&forest, &inputs);
            self.shared.tiers.publish(&self.source, decision.named.tier_names());
            let pass = self.guard(&decision, &safety);
            self.wake.obstructed(!decision.plan.blocked.is_empty() || !decision.named.name_conflicts.is_empty());
            self.report.decided(&decision);
            self.shared.metrics.name_conflicts(&self.source, decision.named.name_conflicts.len());
            if !pass {
                return;
            }
            let observing = self.shared.mode == Mode::Observe || self.entry.mode == Mode::Observe;
            if observing || self.paused {
                self.report.observing(&decision, observing);
                return;
            }
            let (fight, look_again) = self.report.second_writer(Instant::now());
            if fight && !decision.plan.is_empty() {
                self.report.fighting();
                self.decide_at = Some(Instant::now() + LONGEST_WRITE_PAUSE);
                return;
            }
            if !decision.plan.is_empty() {
                tracing::info!(
                    source = &*self.source,
                    writes = decision.plan.steps.len(),
                    hash = %decision.hash,
                    "writing a topology"
                );
            }
            let outcome = self.shared.writer.execute(&self.source, &decision.plan).await;
            if self.written(&decision, &outcome, view, config_hash) {
                self.look_at = look_again;
                return;
            }
        }
    }

    /// Whether the guard lets a decision pass; keeps what is waited for.
    fn guard(&mut self, decision: &Decision, safety: &guard::Safety) -> bool {
        let Verdict::Held(held) = &decision.verdict else {
            self.hold.clear();
            self.pacing.at(None);
            self.report.not_held();
            self.shared.metrics.held(&self.source, false);
            return true;
        };
        let now = Timestamp::now();
        let operator = self.confirmed.as_deref();
        match self.hold.agree(decision.hash.as_str(), held.rule, now, operator, safety) {
            Standing::Confirmed(by) => {
                self.confirmed = None;
                self.report.confirmed(by);
                self.shared.metrics.held(&self.source, false);
                let by = if by == Confirmation::Operator { "operator" } else { "time" };
                tracing::info!(source = &*self.source, hash = %decision.hash, by, "a held result is confirmed");
                true
            }
            Standing::Held { since, agreeing, needed, next_due } => {
                let due = next_due.map(|due| {
                    let wait = due.duration_since(now);
                    Instant::now() + wait.try_into().unwrap_or(Duration::ZERO)
                });
                self.pacing.at(due);
                self.report.held(decision, held, since, agreeing, needed, next_due);
                self.shared.metrics.held(&self.source, true);
                tracing::warn!(source = &*self.source, hash = %decision.hash, why = held.sentence, "a result is held");
                false
            }
        }
    }

    /// Takes in what became of a plan. Answers whether the loop ends.
    fn written(&mut self, decision: &Decision, outcome: &Outcome, view: View, config_hash: String) -> bool {
        if outcome.complete() {
            self.write_pause = FIRST_WRITE_PAUSE;
            self.conflicts = 0;
            self.baseline = Some(view);
            self.config_applied = Some(config_hash.clone());
            self.hold.clear();
            self.report.applied(decision, config_hash);
            self.shared.metrics.in_force(&self.source, decision.numbers.covered, decision.numbers.groups());
            return true;
        }
        if outcome.only_conflicts() && self.conflicts < QUICK_CONFLICTS {
            self.conflicts += 1;
            return false;
        }
        let wait = outcome.refused.iter().filter_map(|(_, refusal)| refusal.retry_after).max();
        let pause = wait.unwrap_or(self.write_pause);
        self.write_pause = (self.write_pause * 2).min(LONGEST_WRITE_PAUSE);
        self.decide_at = Some(Instant::now() + pause);
        self.report.write_failed(outcome, pause);
        true
    }

    async fn publish(&mut self) {
        let status =
            self.report.status(self.paused, self.shared.mode == Mode::Observe || self.entry.mode == Mode::Observe);
        let uid = self.shared.reports.uid(&self.source);
        for (urgency, reason, note) in self.report.news(&status) {
            let told = self.shared.events.source(&self.source, uid.as_deref(), urgency, reason, &note);
            // Best effort: a source does not wait for an API server that is away.
            let _ = tokio::time::timeout(EVENT_PATIENCE, told).await;
        }
        self.shared.reports.publish(status);
    }

    /// The source is off or gone: its HyperNodes stay, unless the entry says otherwise.
    async fn stop(mut self, on_removal: OnRemoval) {
        self.shared.hyper_nodes.disown(&self.source);
        self.shared.tiers.forget(&self.source);
        let observing = self.shared.mode == Mode::Observe || self.entry.mode == Mode::Observe;
        if on_removal == OnRemoval::Delete && !observing && !self.paused {
            self.shared.hyper_nodes.synced().await;
            let outcome = remove(&self.shared.writer, &self.source).await;
            self.report.removed(&outcome);
        } else {
            self.report.disabled();
        }
        self.publish().await;
        self.shared.metrics.forget(&self.source);
        tracing::info!(source = &*self.source, "stopped");
    }
}

/// Deletes every HyperNode of a source, in a safe order.
pub async fn remove(writer: &Writer, source: &Arc<str>) -> Outcome {
    let mut outcome = Outcome::default();
    for _ in 0..=QUICK_CONFLICTS {
        let plan = diff(&writer.hyper_nodes.objects(), &nothing(source));
        outcome = writer.execute(source, &plan).await;
        if outcome.complete() || !outcome.only_conflicts() {
            break;
        }
    }
    outcome
}

/// What is said about a source whose entry was never valid in this life of the host.
#[must_use]
pub fn describe_invalid(source: &str, known: DiscoverySourceStatus, message: String) -> DiscoverySourceStatus {
    let mut report = Report::remembering(source, known.on_removal.unwrap_or_default(), known);
    report.invalid(Reason::InvalidConfig, message, false);
    report.status(false, false)
}

/// The wish of a source that wants no object.
fn nothing(source: &Arc<str>) -> Named {
    Named {
        source: Arc::clone(source),
        objects: std::collections::BTreeMap::new(),
        held: std::collections::BTreeSet::new(),
        name_conflicts: Vec::new(),
        tier_name_conflicts: Vec::new(),
    }
}

/// The guard's limits of an entry; a source that calls endpoints is held for longer.
#[must_use]
pub fn safety(given: &crate::config::Safety, remote: bool) -> guard::Safety {
    let hold_for = if remote { guard::Safety::HOLD_FOR_REMOTE } else { guard::Safety::HOLD_FOR };
    guard::Safety {
        max_delete_percent: given.max_delete_percent,
        max_lose_percent: given.max_lose_percent,
        confirmations: given.confirmations,
        hold_for: given.hold_for.unwrap_or(hold_for),
        allow_empty: given.empty == EmptyResult::ConfirmByTime,
    }
}
