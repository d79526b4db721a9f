//! One source: its revision, its rounds, its writes, and its reports.
//!
//! A supervisor is one task that does one thing at a time: run a round, write, activate another revision. Meanwhile,
//! commands wait in its mailbox and changes in its bell, where equal ones collapse. Beside it at most one task makes
//! and tries the next revision.
//!
//! ```text
//! entry, module ─► prepare ─► Revision ─► round: view ─► discover ─► accept ─► decide ─► guard ─► execute ─► report
//!                     │ refused: the old revision continues              │          ▲
//!                     └───────────────────────────────                  failed      └ drift: decide again, no plugin call
//! ```
//!
//! What it remembers is five values, each with its invariants in a file of its own: `SourceEntry` (the entry, and whether it
//! is in force), `Serving` (which plugin is active and which waits), `InForce` (the last answer and what of it the
//! cluster holds), `Guarded` (what is held and who confirmed it) and `Writing` (when it is decided again, what is
//! refused). What it does next is a pure function of them, `turn::due`.
//!
//! # Failure story
//!
//! After every failure, the topology in force stays in force and the source's conditions say why. A refused entry keeps
//! the old revision. A failed round backs off. A refused write is decided again from what is then stored, after a
//! pause. A round that would destroy too much is held until time or the operator confirms it.

mod clock;
mod commands;
mod entry;
mod findings;
mod foreign;
mod guarded;
mod in_force;
mod loaded;
mod outcome;
mod publish;
mod removal;
mod round;
mod serving;
mod shadow;
mod state;
mod store;
mod summary;
mod swap;
mod tiers;
mod turn;
mod wake;
mod writing;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::{DiscoverySourceStatus, Held, OnRemoval};
use topoloom_core::names::SourceName;
use topoloom_core::plugin::Digest;
use topoloom_core::plugin::pacing::Pacing;
use topoloom_core::plugin::rollout::{self, Event};
use topoloom_core::snapshot::ColumnKey;

use super::compat;
use super::report::Reports;
use super::revision::{self, Revision};
use crate::cluster::events::Events;
use crate::cluster::gate::Switch;
use crate::cluster::nodes::{Interest, Nodes};
use crate::config::{EntryConfig, Mode};
use crate::delivery::{Subscription, Supply};
use crate::discovery::metrics::RoundMetrics;
use crate::endpoints::Outside;
use crate::plugin::Runtime;
use crate::plugin::trust::TrustOptions;
use crate::topology::apply::Writer;
use crate::topology::observe::{HyperNodes, Upkeep};
use crate::topology::rival::Rival;
use crate::topology::writers::Made;
use clock::Clock;
pub use entry::Pause;
use entry::SourceEntry;
use guarded::Guarded;
use in_force::InForce;
pub use outcome::{losses, safety};
pub use publish::describe_invalid;
pub use removal::{Removal, remove};
use serving::Serving;
use state::StatusReport;
use store::{Storing, Unstored};
pub use summary::removal_held;
use swap::Done;
pub use tiers::TierRegistry;
use topoloom_sandbox::panics;
use turn::{SourceStep, TurnFacts, due};
use wake::Wake;
use writing::Writing;

/// What all sources share.
pub struct SourceContext {
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

impl SourceContext {
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

/// A command to a supervisor.
#[derive(Debug)]
pub enum Command {
    /// The entry as it is now, its position in the document, and what is odd about it.
    Entry(Arc<EntryConfig>, usize, Vec<String>),
    /// The entry, or the whole document, is invalid; the running source continues.
    Invalid(Reason, String),
    /// The document no longer names any source: the source continues, since its HyperNodes would be deleted with it.
    RemovalHeld(Held),
    /// The operator confirms the held result of that hash.
    Confirm(String),
    /// The operator asks for a round.
    Run,
    /// The operator stops rounds and writes, or lets them continue.
    Pause(Pause),
    /// The operator lets a waiting plugin continue.
    Continue(Digest),
    /// The operator names the plugin that should be active, or no longer does.
    Serve(Option<Digest>),
    /// Writes were switched off or on, or a rival appeared or disappeared.
    Switched,
    /// The source is off or gone.
    Stop(OnRemoval),
    /// The process stops; the source does not.
    Leave,
}

/// What is remembered of a source from before the host's restart.
#[derive(Debug, Clone, Default)]
pub struct SourceMemory {
    /// The last status of the source.
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

impl SourceMemory {
    fn rollout(&self) -> rollout::RolloutMemory {
        let previous = self.status.previous.iter().filter_map(|kept| Digest::parse(&kept.digest)).collect();
        let taken_back = self.status.taken_back.iter().filter_map(|text| Digest::parse(text)).collect();
        let watched = self.status.plugin.as_ref().filter(|plugin| plugin.watched);
        let watched = watched.and_then(|plugin| Digest::parse(&plugin.digest));
        rollout::RolloutMemory { previous, taken_back, watched }
    }

    /// The last active plugin.
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

/// The task of one source.
pub struct Supervisor {
    shared: Arc<SourceContext>,
    source: SourceName,
    mailbox: mpsc::UnboundedReceiver<Command>,
    /// Commands that arrived during a call and wait for their turn.
    commands: VecDeque<Command>,
    wake: Arc<Wake>,
    clock: Clock,
    entry: SourceEntry,
    serving: Serving,
    in_force: InForce,
    guarded: Guarded,
    writing: Writing,
    storing: Storing,
    /// When rounds are due.
    pacing: Pacing,
    columns: Columns,
    report: StatusReport,
    /// The place of the modules.
    place: Subscription,
    /// The task that prepares or tries a revision: what `serving.rollout.work()` names.
    work: JoinSet<Done>,
    /// The task that stores modules.
    storing_now: JoinSet<Vec<Unstored>>,
    /// Compiles the plugin of this revision once more, with optimisation, while its first image serves.
    optimising: JoinSet<()>,
}

/// The columns over the Nodes that the source holds.
#[derive(Default)]
struct Columns {
    /// Those that the plugin reads.
    required: Option<Interest>,
    /// Those that selectors read, kept for the guard.
    selected: Vec<ColumnKey>,
    kept: Option<Interest>,
}

/// What the loop turns to.
enum LoopEvent {
    Command(Command),
    Delivered,
    Done(Option<Done>),
    Stored(Option<Vec<Unstored>>),
    Woken,
    Step(SourceStep),
    Closed,
}

impl Supervisor {
    /// A supervisor of a source that has not run yet.
    #[must_use]
    pub fn new(
        shared: Arc<SourceContext>,
        entry: Arc<EntryConfig>,
        order: usize,
        memory: SourceMemory,
        mailbox: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        let source = entry.source.clone();
        let wake = Arc::new(Wake::default());
        let observes = shared.mode == Mode::Observe || entry.mode == Mode::Observe || shared.switch.is_read_only();
        let upkeep = if observes { Upkeep::Observed } else { Upkeep::Written };
        shared.hyper_nodes.own(&source, Arc::clone(&wake) as _, upkeep);
        shared.tiers.enter(&source, order, &wake);
        let place = shared.supply.delivery.subscribe(&entry.plugin);
        shared.supply.modules.remember(&source, &memory.status);
        // The last success of an earlier leader still counts until this one has had its own.
        if let Some(last) = memory.status.last_success.as_ref().and_then(|text| text.parse().ok()) {
            shared.metrics.succeeded(&source, last);
        }
        let losses = losses(&memory.status, Timestamp::now());
        Self {
            serving: Serving::new(memory.rollout(), memory.served_last(), memory.named, memory.go_on),
            in_force: InForce::new(memory.status.config_hash.clone()),
            // An old annotation could be about another result that looked the same; but it is removed when it is read,
            // so a present one is new.
            guarded: Guarded::new(losses, memory.confirmed),
            report: StatusReport::remembering(&source, entry.on_removal, memory.status),
            entry: SourceEntry::new(entry, order, memory.paused.into()),
            writing: Writing::default(),
            storing: Storing::default(),
            pacing: Pacing::default(),
            columns: Columns::default(),
            clock: Clock::start(),
            commands: VecDeque::new(),
            shared,
            source,
            mailbox,
            wake,
            place,
            work: JoinSet::new(),
            storing_now: JoinSet::new(),
            optimising: JoinSet::new(),
        }
    }

    /// Runs until the source stops. Answers whether it left HyperNodes behind that should have gone with it.
    pub async fn run(mut self) -> Left {
        self.publish().await;
        loop {
            match self.next().await {
                LoopEvent::Command(Command::Stop(on_removal)) => {
                    return self.stop(on_removal).await;
                }
                LoopEvent::Command(Command::Leave) | LoopEvent::Closed => {
                    self.finish_storing().await;
                    return Left::AsWanted;
                }
                LoopEvent::Command(command) => self.command(command),
                LoopEvent::Delivered => self.delivered(),
                LoopEvent::Done(done) => self.done(done),
                LoopEvent::Stored(unstored) => self.stored(&unstored.unwrap_or_default()),
                LoopEvent::Woken => self.woken(),
                LoopEvent::Step(step) => self.step(step).await,
            }
            self.publish().await;
        }
    }

    async fn step(&mut self, step: SourceStep) {
        match step {
            SourceStep::Wish => self.delivered(),
            SourceStep::Shadow => self.start_shadow(),
            SourceStep::Remove => self.remove_for_good().await,
            SourceStep::Prepare => self.prepare_again(),
            SourceStep::Tick => self.handle(Event::Tick),
            SourceStep::Round => self.round().await,
            SourceStep::Decide => self.decide_again().await,
        }
    }

    /// What the next turn depends on.
    fn facts(&self, now: Instant) -> TurnFacts {
        let rollout = &self.serving.rollout;
        let moment = |time| self.clock.moment(time);
        let is_stuck = rollout.quarantine_pause().is_some();
        TurnFacts {
            is_wish_due: rollout.is_wish_due(),
            is_active: !self.entry.is_paused() && rollout.serving().is_some() && !rollout.is_renewing(),
            is_shadow_due: rollout.is_shadow_due(),
            is_removal_due: is_stuck && self.in_force.is_removal_due() && !self.observes() && !self.has_rival(),
            is_behind: self.is_behind(),
            tick: rollout.next_tick().map(moment),
            prepare: self.entry.prepare_at(),
            round: self.pacing.due(self.clock.time(now)).map(moment),
            decide: self.writing.due(),
        }
    }

    /// Waits for the next thing to do. Commands have priority over the source's own turns.
    async fn next(&mut self) -> LoopEvent {
        if let Some(command) = self.commands.pop_front() {
            return LoopEvent::Command(command);
        }
        let now = Instant::now();
        let timed = match due(&self.facts(now), now) {
            turn::Turn::Now(step) => return LoopEvent::Step(step),
            turn::Turn::At(at, step) => Some((at, step)),
            turn::Turn::Rest => None,
        };
        let (at, step) = timed.unwrap_or((now, SourceStep::Tick));
        let serves = self.serving.rollout.revision().map(|revision| &**revision);
        tokio::select! {
            biased;
            command = self.mailbox.recv() => command.map_or(LoopEvent::Closed, LoopEvent::Command),
            () = self.wake.rung() => LoopEvent::Woken,
            () = self.place.changed() => LoopEvent::Delivered,
            // A task that crashed has printed its panic; what it worked on is refused.
            Some(done) = self.work.join_next(), if !self.work.is_empty() => LoopEvent::Done(done.ok()),
            Some(stored) = self.storing_now.join_next(), if !self.storing_now.is_empty() => {
                LoopEvent::Stored(panics::pass_on(stored))
            }
            never = follower_breaks(serves) => match never {},
            () = tokio::time::sleep_until(at), if timed.is_some() => LoopEvent::Step(step),
        }
    }

    /// Waits for something that takes long, unless a command ends it: an operator who switches a source off, pauses it
    /// or gives it another entry does not wait for a plugin, and nothing of its answer is written after that.
    async fn unless_commanded<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                command = self.mailbox.recv() => {
                    let command = command.unwrap_or(Command::Leave);
                    let ends = match &command {
                        Command::Stop(_) | Command::Leave | Command::Pause(Pause::On) => true,
                        Command::Entry(entry, ..) => !self.entry.is(entry) || entry.verbs.pause,
                        Command::Invalid(..)
                        | Command::RemovalHeld(_)
                        | Command::Confirm(_)
                        | Command::Run
                        | Command::Pause(Pause::Off)
                        | Command::Continue(_)
                        | Command::Switched
                        | Command::Serve(_) => false,
                    };
                    self.commands.push_back(command);
                    if ends {
                        return None;
                    }
                }
                done = &mut work => return Some(done),
            }
        }
    }

    /// Whether nothing may be written: the host or the entry only observes, or writes are switched off. A refused entry
    /// may still forbid writes; it cannot allow what the entry in force forbids.
    fn observes(&self) -> bool {
        if self.shared.switch.is_read_only() {
            return true;
        }
        let runs = self.serving.rollout.revision().map_or(Mode::Apply, |revision| revision.entry.mode);
        [self.shared.mode, self.entry.config.mode, runs].contains(&Mode::Observe)
    }

    /// Whether Volcano's own controller leads (decision M6).
    fn has_rival(&self) -> bool {
        self.shared.rival.borrow().is_some()
    }
}

/// Waits until a task breaks that follows Secrets and ConfigMaps for what serves, and breaks with it.
async fn follower_breaks(serves: Option<&Revision>) -> Infallible {
    match serves {
        Some(revision) => revision.endpoints.breaks().await,
        None => std::future::pending().await,
    }
}
