//! The set of sources: which entry runs, which stops, and which commands go to which.
//!
//! One document is compared with what runs, entry by entry: only what changed is sent, a bad entry concerns its source
//! alone, and a document that cannot be read removes no source (decision H1).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::{DiscoverySourceStatus, OnRemoval, State};

use self::removals::Removals;
use super::hypernode::Standby;
use super::verbs::{Serve, VerbEvent, Verbs};
use crate::cluster::events::Urgency;
use crate::config::{Document, EntryConfig, EntryState, Load, Mode};
use crate::discovery::supervisor::{Command, Left, SourceContext, SourceMemory, Supervisor, describe_invalid};
use crate::topology::rival;

/// How long the first round waits for what earlier lives of the host wrote into DiscoverySource objects: a source that
/// the operator paused must not begin with a write.
const REMEMBER: Duration = Duration::from_secs(30);
/// How long after a deletion that did not succeed the next one is tried.
const LEFTOVERS_AGAIN: Duration = Duration::from_secs(60);
/// How long the first list of Nodes waits for the plugins' wishes, so that one list serves all.
const FIRST_WISHES: Duration = Duration::from_secs(5);

/// How long a source waits that broke: twice as long each time in a row, up to the last one.
const FIRST_ANEW: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const LAST_ANEW: Duration = Duration::from_secs(60);
/// A source that ran that long without breaking begins with the first pause.
const CALM: Duration = Duration::from_secs(600);
/// The text of its Event. It leaves out the message of the panic, which may hold anything and is in the log.
const BROKE: &str = "a task of this source crashed, which is a defect of topoloom and not of the configuration or the plugin; the host restarts the source, its HyperNodes stay, and the log of the leader shows the place";

/// The running sources.
pub struct Sources {
    shared: Arc<SourceContext>,
    stop: CancellationToken,
    running: BTreeMap<String, RunningSource>,
    /// What the cluster says about sources, running or not.
    known: BTreeMap<String, KnownSource>,
    /// The last document that could be read, and why there is no newer one.
    document: Option<Arc<Document>>,
    unreadable: Option<(Reason, String)>,
    /// Removals that wait for a person, since the document names no source at all.
    removals: Removals,
    /// When deletions that did not succeed are tried again.
    leftovers_at: Option<Instant>,
    tasks: JoinSet<(String, Left)>,
    /// Whose task is whose.
    names: HashMap<Id, String>,
    /// How often in a row tasks of a source broke, and when one last did.
    crashes: BTreeMap<String, (u32, Instant)>,
}

/// An entry, its position in the document, and what is odd about it.
type EntryUpdate = (Arc<EntryConfig>, usize, Vec<String>);

struct RunningSource {
    mailbox: UnboundedSender<Command>,
    /// Nothing for what is only removed.
    entry: Option<Arc<EntryConfig>>,
    order: usize,
    /// The source stops.
    stopping: Option<Stopping>,
}

impl RunningSource {
    /// Sends a command. A source that has just ended does not get it; what follows is decided when its end is taken in.
    fn send(&self, command: Command) {
        if self.mailbox.send(command).is_err() {
            let source = self.entry.as_ref().map(|entry| &*entry.source);
            tracing::debug!(source, "a command is not delivered: the task of the source has ended");
        }
    }
}

/// What follows when a source has stopped.
#[derive(Default)]
struct Stopping {
    /// It starts again with this entry.
    next: Option<EntryUpdate>,
    /// It was removed once more while it stopped, and then with its HyperNodes.
    delete: bool,
    /// Its task broke.
    is_broken: bool,
}

#[derive(Default)]
struct KnownSource {
    status: DiscoverySourceStatus,
    verbs: Verbs,
}

impl Sources {
    /// None yet.
    #[must_use]
    pub fn new(shared: Arc<SourceContext>, stop: CancellationToken) -> Self {
        Self {
            shared,
            stop,
            running: BTreeMap::new(),
            known: BTreeMap::new(),
            document: None,
            unreadable: None,
            removals: Removals::default(),
            leftovers_at: None,
            tasks: JoinSet::new(),
            names: HashMap::new(),
            crashes: BTreeMap::new(),
        }
    }

    /// Runs until stopped, then waits for every source to finish. What was kept warm until now is kept until the first
    /// sources have taken it over.
    pub async fn run(
        mut self,
        mut standby: Standby,
        mut loads: UnboundedReceiver<Load>,
        mut said: UnboundedReceiver<VerbEvent>,
    ) {
        self.remember(&mut said).await;
        let mut rival = self.shared.rival.clone();
        let known = tokio::time::timeout(REMEMBER, rival.wait_for(rival::is_known));
        // After that time, or when the process stops, the loop below continues with what is known.
        let _ = self.stop.clone().run_until_cancelled(known).await;
        let (mut switched, mut rival) = (self.shared.switch.changes(), self.shared.rival.clone());
        let mut first = true;
        let mut patience = std::pin::pin!(tokio::time::sleep(FIRST_WISHES));
        if let Some(load) = standby.take_last() {
            self.load(&load);
            self.first_wishes().await;
            first = false;
        }
        drop(standby);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => break,
                // No configuration so far: counts of hand-made HyperNodes do not wait for one.
                () = &mut patience, if first => {
                    first = false;
                    self.shared.nodes.begin();
                }
                Some(load) = loads.recv() => {
                    self.load(&load);
                    if std::mem::take(&mut first) {
                        self.first_wishes().await;
                    }
                }
                Some(said) = said.recv() => self.said(said),
                Ok(()) = switched.changed() => self.switched(),
                Ok(()) = rival.changed() => {
                    self.decide_again();
                    self.leftovers();
                }
                () = until(self.leftovers_at), if self.leftovers_at.is_some() => self.leftovers(),
                Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => match ended {
                    Ok((task, (source, left))) => {
                        self.names.remove(&task);
                        self.ended(&source, left);
                    }
                    // A panic in one source must not end the others; it is logged as an error, and the source is
                    // restarted.
                    Err(error) => self.crashed(&error),
                },
            }
        }
        for running in self.running.values() {
            running.send(Command::Leave);
        }
        while self.tasks.join_next().await.is_some() {}
        self.shared.reports.host_stops();
    }

    /// Writes were switched off or on: every source decides again what that means for it.
    fn switched(&mut self) {
        let read_only = self.shared.switch.is_read_only();
        tracing::warn!(read_only, "writes were switched off or on");
        self.decide_again();
        if !read_only {
            self.leftovers();
        }
    }

    fn decide_again(&self) {
        for running in self.running.values() {
            running.send(Command::Switched);
        }
    }

    /// Takes in what earlier lives wrote, for a bounded time.
    async fn remember(&mut self, said: &mut UnboundedReceiver<VerbEvent>) {
        let stop = self.stop.clone();
        let all = async {
            while let Some(said) = said.recv().await {
                match said {
                    VerbEvent::Complete => break,
                    object => self.said(object),
                }
            }
        };
        // The loop handles later objects when they arrive.
        let _ = stop.run_until_cancelled(tokio::time::timeout(REMEMBER, all)).await;
    }

    /// Starts the watch on Nodes when every first entry has registered its columns, or could not.
    async fn first_wishes(&self) {
        let wanted = self.running.len();
        let mut prepared = self.shared.prepared.subscribe();
        let all = prepared.wait_for(|prepared| *prepared >= wanted);
        // A plugin that registers its columns late costs one more list, and delays no other.
        let _ = self.stop.run_until_cancelled(tokio::time::timeout(FIRST_WISHES, all)).await;
        self.shared.nodes.begin();
    }

    fn load(&mut self, load: &Load) {
        let document = match load {
            Load::Valid(document) => Arc::new(document.clone()),
            Load::NoConfigMap => return self.unreadable(Reason::ConfigMissing, "the ConfigMap does not exist"),
            Load::NoKey => return self.unreadable(Reason::ConfigMissing, "the ConfigMap lacks its key"),
            Load::Invalid(error) => return self.unreadable(error.reason(), &error.to_string()),
        };
        self.unreadable = None;
        for warning in &document.warnings {
            tracing::warn!(%warning, "the configuration has a warning");
        }
        for problem in document.errors() {
            tracing::warn!(%problem, "the configuration has a mistake");
        }
        tracing::info!(entries = document.entries.len(), enabled = document.enabled().count(), "configuration read");
        let mut named = std::collections::BTreeSet::new();
        for (order, entry) in document.entries.iter().enumerate() {
            let Some(source) = entry.source.as_deref() else { continue };
            if named.insert(source) {
                self.entry(&document, source, order);
            }
        }
        if document.is_doubtful() {
            let what = document.warnings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            self.unreadable(Reason::InvalidDocument, &format!("it names no source and may be a mistake: {what}"));
        } else if document.names_all_sources() {
            let absent: Vec<String> =
                self.running.keys().filter(|source| !named.contains(source.as_str())).cloned().collect();
            if !document.is_empty() {
                self.removals = Removals::default();
            }
            for source in absent {
                if !document.is_empty() || !self.hold_removal(&source) {
                    self.stop_source(&source, None);
                }
            }
            self.document = Some(document);
            self.leftovers();
        }
    }

    fn entry(&mut self, document: &Document, source: &str, order: usize) {
        match document.state_of(source) {
            EntryState::Enabled(entry) => {
                let prefix = format!("networkTopologyDiscovery[{order}]");
                let about = |path: &str| {
                    path.strip_prefix(&prefix).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
                };
                let warnings: Vec<String> =
                    document.warnings.iter().filter(|warning| about(&warning.path)).map(ToString::to_string).collect();
                self.start(Arc::new(entry.clone()), order, warnings);
            }
            EntryState::Invalid(problems) => {
                let message = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                match self.running.get(source) {
                    Some(running) => {
                        running.send(Command::Invalid(Reason::InvalidConfig, message));
                    }
                    None => {
                        let known = self.known.get(source).map(|known| known.status.clone()).unwrap_or_default();
                        self.shared.reports.publish(describe_invalid(source, known, Reason::InvalidConfig, message));
                    }
                }
            }
            EntryState::Disabled(entry) => self.stop_source(source, Some(entry)),
            EntryState::Absent => {}
        }
    }

    /// No source is removed by a document that cannot be read.
    fn unreadable(&mut self, reason: Reason, message: &str) {
        tracing::warn!(reason = %reason, message, "the configuration cannot be used; the running sources continue");
        for running in self.running.values() {
            running.send(Command::Invalid(reason, message.to_owned()));
        }
        self.unreadable = Some((reason, message.to_owned()));
        self.say_unreadable();
    }

    /// Statuses from before the host's restart are no longer true if no source can run.
    fn say_unreadable(&self) {
        let Some((reason, message)) = &self.unreadable else { return };
        for (source, known) in &self.known {
            if !self.running.contains_key(source) && known.status.state != Some(State::Disabled) {
                let status = describe_invalid(source, known.status.clone(), *reason, message.clone());
                self.shared.reports.publish(status);
            }
        }
    }

    fn start(&mut self, entry: Arc<EntryConfig>, order: usize, warnings: Vec<String>) {
        let source = entry.source.clone();
        if let Some(running) = self.running.get_mut(&source) {
            running.entry = Some(Arc::clone(&entry));
            running.order = order;
            match &mut running.stopping {
                Some(stopping) => {
                    stopping.next = Some((entry, order, warnings));
                    stopping.delete = false;
                }
                None => {
                    running.send(Command::Entry(entry, order, warnings));
                }
            }
            return;
        }
        let memory = self.known.get_mut(&source).map_or_else(SourceMemory::default, |known| SourceMemory {
            status: known.status.clone(),
            paused: known.verbs.pause,
            confirmed: known.verbs.confirm.take(),
            named: match known.verbs.serve {
                Serve::Named(digest) => Some(digest),
                Serve::Delivered | Serve::Unreadable => None,
            },
            go_on: known.verbs.go_on.take(),
        });
        self.shared.metrics.begins(&source);
        let (mailbox, receiver) = unbounded_channel();
        let supervisor = Supervisor::new(Arc::clone(&self.shared), Arc::clone(&entry), order, memory, receiver);
        let running = RunningSource { mailbox, entry: Some(Arc::clone(&entry)), order, stopping: None };
        running.send(Command::Entry(entry, order, warnings));
        self.running.insert(source.clone(), running);
        self.spawn(source, supervisor.run());
    }

    /// A task of a source; what it gives is how the source left.
    fn spawn(&mut self, source: String, work: impl Future<Output = Left> + Send + 'static) {
        let name = source.clone();
        let task = self.tasks.spawn(async move { (source, work.await) });
        self.names.insert(task.id(), name);
    }

    /// A source is off or gone. What the entry that switches it off says about removal counts.
    fn stop_source(&mut self, source: &str, entry: Option<&EntryConfig>) {
        let Some(running) = self.running.get_mut(source) else { return };
        let entry = entry.or(running.entry.as_deref());
        // A source that must not write must not delete either, also if it is forbidden only after the stop.
        let writes = entry.filter(|entry| entry.mode == Mode::Apply && !entry.verbs.pause);
        let on_removal = writes.map(|entry| entry.on_removal).unwrap_or_default();
        match &mut running.stopping {
            None => {
                running.stopping = Some(Stopping::default());
                running.send(Command::Stop(on_removal));
            }
            // It was to start again, and now it is not.
            Some(stopping) if stopping.next.is_some() => {
                stopping.next = None;
                stopping.delete = on_removal == OnRemoval::Delete;
            }
            Some(_) => {}
        }
    }

    fn said(&mut self, said: VerbEvent) {
        let object = match said {
            VerbEvent::Object(object) => object,
            // The first complete list may be late: then leftovers are looked for now.
            VerbEvent::Complete => {
                self.say_unreadable();
                return self.leftovers();
            }
        };
        let mut verbs = Verbs::of(&object);
        let source = object.status.source.clone();
        if source.is_empty() {
            return;
        }
        let known = self.known.entry(source.clone()).or_default();
        let may_go = verbs.confirm.take_if(|hash| self.removals.is_held(&source, hash)).is_some();
        if let Some(running) = self.running.get(&source) {
            let tell = |command| running.send(command);
            if let Some(hash) = verbs.confirm.clone().filter(|hash| known.verbs.confirm.as_ref() != Some(hash)) {
                tell(Command::Confirm(hash));
            }
            if verbs.run.is_some() && known.verbs.run != verbs.run {
                tell(Command::Run);
            }
            if let Some(digest) = verbs.go_on.filter(|digest| known.verbs.go_on != Some(*digest)) {
                tell(Command::Continue(digest));
            }
            match verbs.serve {
                serve if serve == known.verbs.serve => {}
                Serve::Named(digest) => tell(Command::Serve(Some(digest))),
                Serve::Delivered => tell(Command::Serve(None)),
                Serve::Unreadable => {}
            }
            if known.verbs.pause != verbs.pause {
                tell(Command::Pause(verbs.pause.into()));
            }
        } else {
            self.shared.supply.modules.remember(&source.as_str().into(), &object.status);
        }
        if !self.running.contains_key(&source) {
            // The words were taken off the object; a source that does not run yet still has to get them.
            verbs.confirm = verbs.confirm.or(known.verbs.confirm.take());
            verbs.go_on = verbs.go_on.or(known.verbs.go_on.take());
        }
        if verbs.serve == Serve::Unreadable {
            verbs.serve = known.verbs.serve;
        }
        known.status = object.status;
        known.verbs = verbs;
        if may_go {
            self.removal_confirmed(&source);
        }
    }

    fn ended(&mut self, source: &str, left: Left) {
        let Some(running) = self.running.remove(source) else { return };
        let stopping = running.stopping.unwrap_or_default();
        if let Some((entry, order, warnings)) = stopping.next {
            return self.start(entry, order, warnings);
        }
        self.crashes.remove(source);
        self.let_go(source);
        if stopping.is_broken && left == Left::AsWanted && !stopping.delete {
            self.say_off(source);
        }
        let known = self.known.entry(source.to_owned()).or_default();
        known.status.source = source.to_owned();
        known.status.state = Some(State::Disabled);
        if left == Left::Behind || stopping.delete {
            known.status.state = None;
            known.status.on_removal = Some(OnRemoval::Delete);
            let soon = if stopping.delete { Duration::ZERO } else { LEFTOVERS_AGAIN };
            self.leftovers_at = Some(Instant::now() + soon);
        }
    }

    /// A source ended for good. One that ended well has done all this itself; one that broke has not.
    fn let_go(&self, source: &str) {
        let shared = &self.shared;
        shared.metrics.forget(source);
        shared.runtime.metrics().forget_source(source);
        shared.hyper_nodes.disown(source);
        shared.tiers.forget(&source.into());
    }

    /// The last report of a source that crashed and was removed from the configuration before its restart: without it
    /// the source would still be reported, and counted, as running.
    fn say_off(&self, source: &str) {
        let Some(mut status) = self.shared.reports.get(source) else { return };
        status.held = None;
        status.conditions.clear();
        status.state = Some(State::Disabled);
        status.message = "disabled or removed from the configuration after a crash; its HyperNodes stay".to_owned();
        self.shared.reports.publish_idle(status);
    }

    /// A task crashed. Its source waits a while and is restarted; until then it counts as stopping, so that changes of
    /// its entry meanwhile count when it starts. A deletion that crashed is tried again.
    fn crashed(&mut self, error: &tokio::task::JoinError) {
        let Some(source) = self.names.remove(&error.id()) else { return };
        let Some(running) = self.running.get_mut(&source) else { return };
        self.shared.metrics.crashed(&source);
        let (Some(entry), None) = (&running.entry, &running.stopping) else {
            tracing::error!(source, %error, "the task of a stopping source crashed");
            // Where it only deleted, that is tried again.
            let left = if running.entry.is_none() { Left::Behind } else { Left::AsWanted };
            if let Some(stopping) = &mut running.stopping {
                stopping.is_broken = true;
            }
            return self.ended(&source, left);
        };
        let next = Some((Arc::clone(entry), running.order, Vec::new()));
        running.stopping = Some(Stopping { next, delete: false, is_broken: true });
        let (crashes, last) = self.crashes.get(&source).copied().unwrap_or((0, Instant::now()));
        let crashes = if last.elapsed() > CALM { 0 } else { crashes };
        self.crashes.insert(source.clone(), (crashes.saturating_add(1), Instant::now()));
        let pause = FIRST_ANEW.saturating_mul(1_u32.checked_shl(crashes).unwrap_or(u32::MAX)).min(LAST_ANEW);
        tracing::error!(source, %error, ?pause, "a task of a source crashed; the host starts it again");
        let (shared, stop, about) = (Arc::clone(&self.shared), self.stop.clone(), source.clone());
        self.spawn(source, async move {
            let until = Instant::now() + pause;
            let report = async {
                let uid = shared.reports.uid(&about);
                shared.events.source(&about, uid.as_deref(), Urgency::Warning, Reason::Crashed, BROKE).await;
                tokio::time::sleep_until(until).await;
            };
            // When the process stops, neither the Event nor the pause is waited for.
            let _ = stop.run_until_cancelled(report).await;
            Left::AsWanted
        });
    }
}

/// Waits for a time, if there is one.
async fn until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

mod leftovers;
mod removals;
#[cfg(test)]
mod tests;
