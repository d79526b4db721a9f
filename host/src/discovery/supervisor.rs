//! One source: its revision, its rounds, its writes, and what it says about itself.
//!
//! A supervisor is one task that does one thing at a time: run a round, write, let another revision take over. What
//! happens meanwhile waits in its mailbox and its bell, and collapses. Beside it at most one task makes and tries the
//! next revision.
//!
//! ```text
//! entry, module ─► prepare ─► Revision ─► round: view ─► discover ─► accept ─► decide ─► guard ─► execute ─► report
//!                     │ refused: the old revision goes on                │          ▲
//!                     └───────────────────────────────                  failed      └ drift: decide again, no plugin call
//! ```
//!
//! # Failure story
//!
//! Whatever fails, the topology in force stays in force and the source's conditions say why. A refused entry keeps the
//! old revision. A failed round backs off. A refused write is decided again from what is then stored, after a pause. A round that
//! would destroy too much is held until time or the operator confirms it.

mod entry;
mod foreign;
mod loaded;
mod outcome;
mod removal;
mod round;
mod shadow;
mod state;
mod summary;
mod swap;
mod tiers;
mod wake;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::{DiscoverySourceStatus, Held, OnRemoval};
use topoloom_core::plugin::Digest;
use topoloom_core::plugin::rollout::{self, Event, Rollout};
use topoloom_core::snapshot::{ColumnKey, View};
use topoloom_core::topology::guard::{Hold, Losses, Seen};
use topoloom_core::topology::{Forest, ResultHash};

use super::compat;
use super::decide;
use super::pacing::Pacing;
use super::ready::Runs;
use super::report::Reports;
use super::revision::{self, Revision};
use crate::cluster::events::Events;
use crate::cluster::gate::Switch;
use crate::cluster::nodes::{Interest, Nodes};
use crate::config::{EntryConfig, Mode, OnFailure};
use crate::delivery::Refused;
use crate::delivery::{Offer, Subscription, Supply};
use crate::discovery::metrics::RoundMetrics;
use crate::endpoints::Outside;
use crate::plugin::Runtime;
use crate::plugin::trust::TrustOptions;
use crate::topology::apply::Writer;
use crate::topology::observe::HyperNodes;
use crate::topology::refusals::Refusals;
use crate::topology::rival::Rival;
use crate::topology::writers::Made;
pub use outcome::{losses, safety};
pub use removal::{Removal, remove};
use state::Report;
pub use summary::removal_held;
use swap::Done;
pub use tiers::TierRegistry;
use topoloom_sandbox::panics;
use wake::Wake;

/// What all sources share.
pub struct Shared {
    /// Runs plugins.
    pub runtime: Runtime,
    /// Where plugins come from.
    pub supply: Supply,
    /// What they have to bring.
    pub trust: TrustOptions,
    /// What they may reach.
    pub outside: Outside,
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
    /// The switch of all writes.
    pub switch: Switch,
    /// Volcano's own HyperNode controller, while it leads.
    pub rival: tokio::sync::watch::Receiver<Rival>,
    /// How often a source has prepared an entry for the first time.
    pub prepared: tokio::sync::watch::Sender<usize>,
    /// The process stops.
    pub stop: CancellationToken,
}

impl Shared {
    /// What revisions are made with.
    pub fn host<'a>(&'a self, objects: &'a [Made]) -> revision::Host<'a> {
        let trust = revision::Vouchers::Host(&self.trust);
        revision::Host { runtime: &self.runtime, outside: &self.outside, trust, objects }
    }

    /// The objects of a source, where its revision depends on them.
    pub async fn objects(&self, entry: &EntryConfig) -> Vec<Made> {
        if !compat::is_open(entry) {
            return Vec::new();
        }
        self.hyper_nodes.synced().await;
        self.hyper_nodes.observed().of(&entry.source).map(|object| Made::of(object)).collect()
    }
}

/// What a supervisor is told.
#[derive(Debug)]
pub enum Command {
    /// The entry as it is now, its position in the document, and what is odd about it.
    Entry(Arc<EntryConfig>, usize, Vec<String>),
    /// The entry, or the whole document, is wrong; what runs goes on.
    Invalid(Reason, String),
    /// The document names no source any more: the source goes on, since its HyperNodes would go with it.
    RemovalHeld(Held),
    /// The operator confirms the held result of that hash.
    Confirm(String),
    /// The operator asks for a round.
    Run,
    /// The operator stops rounds and writes, or lets them go on.
    Pause(bool),
    /// The operator lets a waiting plugin go on.
    Continue(Digest),
    /// The operator names the plugin that is to serve, or does not any more.
    Serve(Option<Digest>),
    /// Writes were switched off or on, or a rival came or went.
    Switched,
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
    /// The serve annotation.
    pub named: Option<Digest>,
    /// The continue annotation.
    pub go_on: Option<Digest>,
}

impl Memory {
    fn rollout(&self) -> rollout::Memory {
        let previous = self.status.previous.iter().filter_map(|kept| Digest::parse(&kept.digest)).collect();
        let taken_back = self.status.taken_back.iter().filter_map(|text| Digest::parse(text)).collect();
        let watched = self.status.plugin.as_ref().filter(|plugin| plugin.watched);
        let watched = watched.and_then(|plugin| Digest::parse(&plugin.digest));
        rollout::Memory { previous, taken_back, watched }
    }

    /// What served last.
    fn served_last(&self) -> Option<Digest> {
        self.status.plugin.as_ref().and_then(|plugin| Digest::parse(&plugin.digest))
    }
}

/// What a source left in the cluster when it stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// What its entry wanted.
    AsWanted,
    /// HyperNodes that should have been deleted.
    Behind,
}

/// How long the process waits for modules that are being stored when it stops.
const KEEP_PATIENCE: Duration = Duration::from_secs(5);

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
    /// Why the plugin that serves does not run with the present entry.
    refused: Option<Refused>,
    /// Which bytes serve and which wait. Its time is counted from `began`.
    rollout: Rollout,
    began: Instant,
    /// The place that modules come from, what it offers, and whether something may be wanted that was not asked for.
    place: Subscription,
    offer: Offer,
    is_late: bool,
    /// What the operator named; and what served in an earlier life of the host.
    named: Option<Digest>,
    served_last: Option<Digest>,
    tries_of_last: u32,
    /// What served in an earlier life of the host, whatever became of it in this one.
    remembered: Option<Digest>,
    /// The plugin that the operator let go on before it waited in this life of the host.
    go_on: Option<Digest>,
    /// The task that prepares or tries a revision, and for which bytes; those that store modules.
    work: JoinSet<Done>,
    worked_on: Option<Digest>,
    keeping: JoinSet<()>,
    /// The candidate's revision, and that of what served before.
    ready: Option<Revision>,
    earlier: Option<Revision>,
    is_shadow_due: bool,
    /// What the candidate answered in the shadow, and whether the operator vouches for that.
    shadow_result: Option<(Digest, ResultHash)>,
    vouched: Option<ResultHash>,
    /// Why the last candidate was refused, and how the last real call failed that the plugin is to blame for.
    candidate_refused: Option<(Digest, Refused)>,
    last_fault: Option<String>,
    /// The entry wants the HyperNodes of a plugin in quarantine to go.
    is_removal_due: bool,
    /// Commands that came during a call and wait for their turn.
    told: VecDeque<Command>,
    /// Compiles the plugin of this revision once more, with optimisation, while its first image serves.
    optimising: JoinSet<()>,
    interest: Option<Interest>,
    /// Columns that selectors read, kept for the guard.
    selected: Vec<ColumnKey>,
    kept: Option<Interest>,
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
    /// What was last decided about it.
    decided: decide::Memory,
    /// The nodes that `forest` speaks of.
    view: Option<View>,
    /// The nodes when a result was last completely applied.
    baseline: Option<View>,
    /// The configuration that the objects in the cluster came from.
    config_applied: Option<String>,
    hold: Hold,
    /// What written results took lately: a part of the guard's reference.
    losses: Losses,
    /// Whether `forest` has been decided about since a round gave it: only a round agrees with what is held.
    seen: Seen,
    /// The result that the operator confirmed; counts for the next decision and no other.
    confirmed: Option<String>,
    /// Paused by the annotation. The entry may pause, too: each ends only what it began.
    paused: bool,
    /// When a plan is decided again, without a call.
    decide_at: Option<Instant>,
    /// When a remark about another writer is looked at again.
    look_at: Option<Instant>,
    /// What of the writes is refused.
    refusals: Refusals,
    report: Report,
}

/// What the next turn of the loop does.
enum Turn {
    Command(Command),
    Delivered,
    Done(Option<Done>),
    Prepare,
    Shadow,
    Kept,
    Tick,
    Remove,
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
        let observes = shared.mode == Mode::Observe || entry.mode == Mode::Observe || shared.switch.is_read_only();
        shared.hyper_nodes.own(&source, Arc::clone(&wake) as _, observes);
        shared.tiers.enter(&source, order, &wake);
        let place = shared.supply.delivery.subscribe(&entry.plugin);
        let (served_last, rollout) = (memory.served_last(), Rollout::new(memory.rollout()));
        shared.supply.modules.remember(&source, &memory.status);
        // Whoever leads from now on has not had a success of its own, and the last one still counts.
        if let Some(last) = memory.status.last_success.as_ref().and_then(|text| text.parse().ok()) {
            shared.metrics.succeeded(&source, last);
        }
        let losses = losses(&memory.status, Timestamp::now());
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
            refused: None,
            rollout,
            began: Instant::now(),
            place,
            offer: Offer::Pending,
            is_late: true,
            named: memory.named,
            served_last,
            tries_of_last: 0,
            remembered: served_last,
            go_on: memory.go_on,
            work: JoinSet::new(),
            worked_on: None,
            keeping: JoinSet::new(),
            ready: None,
            earlier: None,
            is_shadow_due: false,
            shadow_result: None,
            vouched: None,
            candidate_refused: None,
            last_fault: None,
            is_removal_due: false,
            told: VecDeque::new(),
            optimising: JoinSet::new(),
            interest: None,
            selected: Vec::new(),
            kept: None,
            prepare_at: None,
            prepare_pause: entry::PREPARE_AGAIN,
            unprepared: true,
            pacing: Pacing::spread(),
            state: Arc::from([]),
            forest: None,
            forest_config: String::new(),
            answered: false,
            decided: decide::Memory::default(),
            view: None,
            baseline: None,
            hold: Hold::default(),
            losses,
            seen: Seen::Again,
            // What stands in the entry may have been said long ago, about another result that looked the same; the
            // annotation is taken away when it is heard, so it is new.
            confirmed: memory.confirmed,
            paused: memory.paused,
            decide_at: None,
            look_at: None,
            refusals: Refusals::default(),
        }
    }

    /// Runs until the source stops. Answers whether it left HyperNodes behind that should have gone with it.
    pub async fn run(mut self) -> Left {
        self.publish().await;
        loop {
            match self.next().await {
                Turn::Command(Command::Stop(on_removal)) => {
                    return self.stop(on_removal).await;
                }
                Turn::Command(Command::Leave) | Turn::Closed => {
                    // What serves should be there for the next life of the host, too.
                    let kept = async { while self.keeping.join_next().await.is_some() {} };
                    let _ = tokio::time::timeout(KEEP_PATIENCE, kept).await;
                    return Left::AsWanted;
                }
                Turn::Command(command) => self.command(command).await,
                Turn::Delivered => self.delivered(),
                Turn::Done(done) => self.done(done),
                Turn::Prepare => self.prepare_again(),
                Turn::Shadow => self.start_shadow(),
                Turn::Tick => self.happens(Event::Tick),
                Turn::Remove => self.remove_for_good().await,
                Turn::Round => self.round().await,
                Turn::Decide => self.decide_again().await,
                Turn::Woken => self.woken(),
                Turn::Kept => {}
            }
            self.publish().await;
        }
    }

    /// Waits for the next thing to do. A command comes before a swap, a swap before a round, a round before deciding
    /// again.
    async fn next(&mut self) -> Turn {
        if let Some(command) = self.told.pop_front() {
            return Turn::Command(command);
        }
        if std::mem::take(&mut self.is_late) {
            return Turn::Delivered;
        }
        let now = Instant::now();
        // No round begins with a configuration that was just edited away.
        let active = !self.is_paused() && self.revision.is_some() && !self.is_reconfigured();
        if active && self.is_shadow_due {
            return Turn::Shadow;
        }
        let is_stuck = self.rollout.quarantine_pause().is_some();
        if active && is_stuck && self.is_removal_due && !self.observes() && !self.has_rival() {
            return Turn::Remove;
        }
        if self.is_behind() {
            return Turn::Prepare;
        }
        let round = self.pacing.due(now).filter(|_| active);
        let decide = [self.decide_at, self.look_at].into_iter().flatten().min().filter(|_| active);
        let far = now + Duration::from_secs(86_400);
        let tick = self.rollout.next_tick().map(|tick| self.began + tick);
        tokio::select! {
            biased;
            command = self.mailbox.recv() => command.map_or(Turn::Closed, Turn::Command),
            () = self.wake.rung() => Turn::Woken,
            () = self.place.changed() => Turn::Delivered,
            Some(done) = self.work.join_next(), if !self.work.is_empty() => Turn::Done(done.ok()),
            Some(kept) = self.keeping.join_next(), if !self.keeping.is_empty() => {
                panics::pass_on(kept);
                Turn::Kept
            }
            never = follower_breaks(self.revision.as_ref()) => match never {},
            () = tokio::time::sleep_until(tick.unwrap_or(far)), if tick.is_some() => Turn::Tick,
            () = tokio::time::sleep_until(self.prepare_at.unwrap_or(far)), if self.prepare_at.is_some() => Turn::Prepare,
            () = tokio::time::sleep_until(round.unwrap_or(far)), if round.is_some() => Turn::Round,
            () = tokio::time::sleep_until(decide.unwrap_or(far)), if decide.is_some() => Turn::Decide,
        }
    }

    /// Waits for something that takes long, unless a command comes that ends it: whoever switches a source off, pauses
    /// it or gives it another entry does not wait for a plugin, and nothing of its answer is written after that.
    async fn unless_told<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                command = self.mailbox.recv() => {
                    let command = command.unwrap_or(Command::Leave);
                    let ends = match &command {
                        Command::Stop(_) | Command::Leave | Command::Pause(true) => true,
                        Command::Entry(entry, ..) => entry.hash != self.entry.hash || entry.verbs.pause,
                        Command::Invalid(..)
                        | Command::RemovalHeld(_)
                        | Command::Confirm(_)
                        | Command::Run
                        | Command::Pause(false)
                        | Command::Continue(_)
                        | Command::Switched
                        | Command::Serve(_) => false,
                    };
                    self.told.push_back(command);
                    if ends {
                        return None;
                    }
                }
                done = &mut work => return Some(done),
            }
        }
    }

    /// Whether nothing may be written, by the word of the host, of whoever switched writes off, or of the entry. An entry that was refused may still
    /// forbid writes; it cannot allow what the one that runs forbids.
    fn observes(&self) -> bool {
        if self.shared.switch.is_read_only() {
            return true;
        }
        let runs = self.revision.as_ref().map_or(Mode::Apply, |revision| revision.entry.mode);
        [self.shared.mode, self.entry.mode, runs].contains(&Mode::Observe)
    }

    /// Whether Volcano's own controller leads (decision M6).
    fn has_rival(&self) -> bool {
        self.shared.rival.borrow().is_some()
    }

    /// Whether the plugin that serves is being prepared with another entry.
    fn is_reconfigured(&self) -> bool {
        self.worked_on.is_some_and(|digest| self.rollout.serving().is_some_and(|serving| serving.digest == digest))
    }

    /// Whether the operator wants neither rounds nor writes.
    fn is_paused(&self) -> bool {
        self.paused || self.entry.verbs.pause
    }

    /// The plugin is at the end of its tries.
    fn quarantine(&mut self) {
        let Some(until) = self.rollout.quarantined_until() else { return };
        self.pacing.rest(self.began + until);
        let entry = self.revision.as_ref().map_or(&self.entry, |revision| &revision.entry);
        let owns = self.shared.hyper_nodes.observed().of(&self.source).next().is_some();
        self.is_removal_due = entry.on_failure == OnFailure::Remove && owns;
        tracing::warn!(source = &*self.source, fault = self.last_fault, "the plugin is in quarantine");
    }

    /// The entry says that nothing should stay of a plugin that fails for good (`onFailure: remove`).
    async fn remove_for_good(&mut self) {
        self.is_removal_due = false;
        self.shared.hyper_nodes.synced().await;
        // What is left is tried again with the next failure.
        let removal = remove(&self.shared.writer, &self.source).await;
        self.report.removed_on_failure(&removal);
        self.forest = None;
        self.answered = false;
        self.baseline = None;
        self.losses.forget();
    }

    async fn publish(&mut self) {
        let observes = self.observes();
        self.shared.hyper_nodes.observes(&self.source, observes);
        let is_asked_for = self.revision.as_ref().is_some_and(|revision| revision.entry.hash == self.entry.hash);
        let runs = if is_asked_for && self.answered { Runs::AsAsked } else { Runs::Otherwise };
        let mut status = self.report.status(self.is_paused(), observes, runs);
        self.shared.metrics.held(&self.source, status.held.is_some());
        if observes || self.entry.verbs.pause {
            // What is remembered of a source that must not write: nothing of it is deleted when its entry goes.
            status.on_removal = Some(OnRemoval::Keep);
        }
        self.tell(&status).await;
        self.shared.reports.publish(status);
    }

    /// The source is off or gone: its HyperNodes stay, unless the entry says otherwise.
    async fn stop(mut self, on_removal: OnRemoval) -> Left {
        let deletes = on_removal == OnRemoval::Delete && !self.observes() && !self.is_paused();
        self.report.removal_held = None;
        self.shared.hyper_nodes.disown(&self.source);
        self.shared.tiers.forget(&self.source);
        let mut left = Left::AsWanted;
        if deletes && self.has_rival() {
            left = Left::Behind;
            self.report.removed(&Removal { deleted: 0, left: Some("Volcano's own controller leads".to_owned()) });
        } else if deletes {
            if self.shared.stop.run_until_cancelled(self.shared.hyper_nodes.synced()).await.is_none() {
                return Left::Behind;
            }
            let removal = remove(&self.shared.writer, &self.source).await;
            left = if removal.left.is_some() { Left::Behind } else { left };
            self.report.removed(&removal);
        } else {
            self.report.disabled();
        }
        self.publish_last().await;
        self.shared.metrics.forget(&self.source);
        self.shared.runtime.metrics().forget_source(&self.source);
        tracing::info!(source = &*self.source, "stopped");
        left
    }

    /// The last word of a source that owns nothing any more.
    async fn publish_last(&mut self) {
        let status = self.report.status(false, false, Runs::Otherwise);
        self.tell(&status).await;
        self.shared.reports.publish(status);
    }

    /// Tells the Events on the way to this status.
    async fn tell(&mut self, status: &DiscoverySourceStatus) {
        let uid = self.shared.reports.uid(&self.source);
        for (urgency, reason, note) in self.report.news(status) {
            self.shared.events.source(&self.source, uid.as_deref(), urgency, reason, &note).await;
        }
    }
}

/// Waits until a task breaks that follows Secrets and ConfigMaps for what serves, and breaks with it.
async fn follower_breaks(serves: Option<&Revision>) -> Infallible {
    match serves {
        Some(revision) => revision.endpoints.breaks().await,
        None => std::future::pending().await,
    }
}

/// What is said about a source whose entry was never valid in this life of the host.
#[must_use]
pub fn describe_invalid(
    source: &str,
    known: DiscoverySourceStatus,
    reason: Reason,
    message: String,
) -> DiscoverySourceStatus {
    let mut report = Report::remembering(source, known.on_removal.unwrap_or_default(), known);
    report.invalid(reason, message, false);
    report.status(false, false, Runs::Otherwise)
}
