//! The set of sources: which entry runs, which stops, and which commands go to which.
//!
//! One document is compared with what runs, entry by entry: only what changed is sent, a bad entry concerns its source
//! alone, and a document that cannot be read removes no source (decision H1). How a document is compared is in
//! `document`, what operators want in `verbs`, how a source ends or breaks in `ends`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::DiscoverySourceStatus;
use topoloom_core::names::SourceName;

use self::removals::Removals;
use super::standby::Standby;
use super::verbs::{VerbEvent, Verbs};
use crate::cluster::gate::Position;
use crate::config::{Document, EntryConfig, Load};
use crate::discovery::supervisor::{Command, Left, SourceContext};
use crate::topology::rival;

/// How long the first round waits for what earlier lives of the host wrote into DiscoverySource objects: a source that
/// the operator paused must not begin with a write.
const REMEMBER: Duration = Duration::from_secs(30);
/// How long after a deletion that did not succeed the next one is tried.
const LEFTOVERS_AGAIN: Duration = Duration::from_secs(60);
/// How long the first list of Nodes waits for the plugins' wishes, so that one list serves all.
const FIRST_WISHES: Duration = Duration::from_secs(5);

/// The running sources.
pub struct Sources {
    shared: Arc<SourceContext>,
    stop: CancellationToken,
    running: BTreeMap<SourceName, RunningSource>,
    /// What the cluster says about sources, running or not.
    known: BTreeMap<SourceName, KnownSource>,
    /// The last document that could be read, and why there is no newer one.
    document: Option<Arc<Document>>,
    unreadable: Option<(Reason, String)>,
    /// Removals that wait for a person, since the document names no source at all.
    removals: Removals,
    /// When deletions that did not succeed are tried again.
    leftovers_at: Option<Instant>,
    tasks: JoinSet<(SourceName, Left)>,
    /// Whose task is whose.
    names: HashMap<Id, SourceName>,
    /// How often in a row tasks of a source broke, and when one last did.
    crashes: BTreeMap<SourceName, (u32, Instant)>,
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

/// What the sources follow.
struct SourceInputs {
    loads: UnboundedReceiver<Load>,
    verbs: UnboundedReceiver<VerbEvent>,
    switched: watch::Receiver<Position>,
    rival: watch::Receiver<rival::Rival>,
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
        standby: Standby,
        loads: UnboundedReceiver<Load>,
        mut verbs: UnboundedReceiver<VerbEvent>,
    ) {
        self.remember(&mut verbs).await;
        self.know_rival().await;
        let (switched, rival) = (self.shared.switch.changes(), self.shared.rival.clone());
        let is_first = !self.take_over(standby).await;
        self.follow(SourceInputs { loads, verbs, switched, rival }, is_first).await;
        for running in self.running.values() {
            running.send(Command::Leave);
        }
        while self.tasks.join_next().await.is_some() {}
        self.shared.reports.host_stops();
    }

    /// Waits until it is known whether another program writes HyperNodes, for a bounded time.
    async fn know_rival(&self) {
        let mut rival = self.shared.rival.clone();
        let known = tokio::time::timeout(REMEMBER, rival.wait_for(rival::is_known));
        // After that time, or when the process stops, the sources continue with what is known.
        let _ = self.stop.run_until_cancelled(known).await;
    }

    /// Starts the sources of the document that a follower read last. Answers whether there was one.
    async fn take_over(&mut self, mut standby: Standby) -> bool {
        let Some(load) = standby.take_last() else { return false };
        self.load(&load);
        self.first_wishes().await;
        true
    }

    /// Takes in what comes until the process stops. `is_first`: no document was read yet.
    async fn follow(&mut self, mut inputs: SourceInputs, mut is_first: bool) {
        let mut patience = std::pin::pin!(tokio::time::sleep(FIRST_WISHES));
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                // No configuration so far: counts of hand-made HyperNodes do not wait for one.
                () = &mut patience, if is_first => {
                    is_first = false;
                    self.shared.nodes.begin();
                }
                Some(load) = inputs.loads.recv() => {
                    self.load(&load);
                    if std::mem::take(&mut is_first) {
                        self.first_wishes().await;
                    }
                }
                Some(event) = inputs.verbs.recv() => self.take_verbs(event),
                Ok(()) = inputs.switched.changed() => self.switched(),
                Ok(()) = inputs.rival.changed() => {
                    self.decide_again();
                    self.leftovers();
                }
                () = until(self.leftovers_at), if self.leftovers_at.is_some() => self.leftovers(),
                Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => self.task_ended(ended),
            }
        }
    }

    /// Takes in the end of a task.
    fn task_ended(&mut self, ended: Result<(Id, (SourceName, Left)), JoinError>) {
        match ended {
            Ok((task, (source, left))) => {
                self.names.remove(&task);
                self.ended(&source, left);
            }
            // A panic in one source must not end the others; it is logged as an error, and the source is
            // restarted.
            Err(error) => self.crashed(&error),
        }
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
    async fn remember(&mut self, verbs: &mut UnboundedReceiver<VerbEvent>) {
        let stop = self.stop.clone();
        let all = async {
            while let Some(event) = verbs.recv().await {
                match event {
                    VerbEvent::Complete => break,
                    object => self.take_verbs(object),
                }
            }
        };
        // The loop handles later objects when they arrive.
        let _ = stop.run_until_cancelled(tokio::time::timeout(REMEMBER, all)).await;
    }

    /// A task of a source; what it gives is how the source left.
    fn spawn(&mut self, source: SourceName, work: impl Future<Output = Left> + Send + 'static) {
        let name = source.clone();
        let task = self.tasks.spawn(async move { (source, work.await) });
        self.names.insert(task.id(), name);
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
}

/// Waits for a time, if there is one.
async fn until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

mod document;
mod ends;
mod leftovers;
mod removals;
#[cfg(test)]
mod tests;
mod verbs;
