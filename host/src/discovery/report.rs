//! What every source is doing: in memory for the admin server, in the cluster as DiscoverySource objects.
//!
//! Supervisors publish; workers bring the cluster up to date, with one write per source and change of content (decision
//! H18). A source is a key of a work queue: one that the API server refuses is tried again with pauses of its own,
//! delays no other, and is dropped after too many tries until a resync or its next change. If the CRD is not installed,
//! the host continues and reports it.

mod decisions;
mod states;
mod write;

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use topoloom_api::condition::Reason;
use topoloom_api::discovery_source::{DiscoverySource, DiscoverySourceStatus, State};
use topoloom_api::object_name;
use topoloom_core::names::SourceName;
use topoloom_core::queue::Limiter;

pub(crate) use self::decisions::fate;
pub use self::decisions::{Decided, Planned};
use self::write::ReportWriter;
use super::ready::{self, Runs};
use crate::cluster::Check;
use crate::cluster::events::{Events, Urgency};
use crate::work::{Options, WorkQueue, run_workers};

/// `lastSuccess` alone is refreshed when the stored one is older than this (decision H18).
const REFRESH: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);
/// More sources than one ConfigMap has room for.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();

/// The message of every source when the host stops.
const STOPPED: &str =
    "no host runs: the last leader has stopped, and no other replica leads yet; the HyperNodes stay as they are";

/// What a status is written over.
enum Base {
    /// The object as it was last seen or written.
    Version(Option<String>),
    /// No object is known.
    Absent,
}

/// The present status of every source.
pub struct Reports {
    inner: Mutex<BTreeMap<SourceName, ReportEntry>>,
    /// The sources of which something may have to be written.
    queue: WorkQueue<SourceName>,
}

struct ReportEntry {
    status: DiscoverySourceStatus,
    /// What the cluster holds, as far as we know.
    written: Option<DiscoverySourceStatus>,
    uid: Option<String>,
    /// The version and the generation of that object, as far as we know.
    version: Option<String>,
    generation: Option<i64>,
    decisions: VecDeque<Decided>,
}

impl Default for Reports {
    fn default() -> Self {
        Self { inner: Mutex::default(), queue: WorkQueue::new("reports", CAPACITY, Limiter::default()) }
    }
}

impl Reports {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SourceName, ReportEntry>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what a source is doing now. A status that names no source is of none that the host could run.
    pub fn publish(&self, status: DiscoverySourceStatus) {
        let Ok(source) = SourceName::parse(&status.source) else {
            tracing::debug!(source = status.source, "a status names no source");
            return;
        };
        let mut inner = self.lock();
        let entry = inner.entry(source.clone()).or_insert_with(|| ReportEntry {
            status: DiscoverySourceStatus::default(),
            written: None,
            uid: None,
            version: None,
            generation: None,
            decisions: VecDeque::new(),
        });
        if entry.status == status {
            return;
        }
        entry.status = status;
        drop(inner);
        self.look_at(source);
    }

    /// The same of a source that does not run; `Ready` follows from its state.
    pub fn publish_idle(&self, mut status: DiscoverySourceStatus) {
        ready::set(&mut status, Runs::Otherwise, Timestamp::now());
        self.publish(status);
    }

    /// The host stops. Until another replica leads, nothing keeps its last reports up to date.
    pub fn host_stops(&self) {
        for status in self.all().into_iter().filter(|status| status.state != Some(State::Disabled)) {
            let message = STOPPED.to_owned();
            self.publish_idle(DiscoverySourceStatus { state: Some(State::Stopped), message, ..status });
        }
    }

    /// What the cluster holds about a source, from the watch.
    pub fn observed(&self, object: &DiscoverySource) {
        let Ok(source) = SourceName::parse(&object.status.source) else { return };
        let known = self.with(&source, |entry| {
            entry.uid.clone_from(&object.metadata.uid);
            entry.version.clone_from(&object.metadata.resource_version);
            entry.generation = object.metadata.generation;
            entry.written = Some(object.status.clone());
        });
        if known.is_some() {
            self.look_at(source);
        }
    }

    /// The object of a source is gone from the cluster: it is written again if the source still has something to say.
    pub fn vanished(&self, name: &str) {
        let mut gone = Vec::new();
        self.lock().retain(|source, entry| {
            if object_name(source) != name {
                return true;
            }
            entry.written = None;
            entry.uid = None;
            entry.version = None;
            entry.generation = None;
            gone.push(source.clone());
            // A source that is off has nothing more to say: the operator took its object away.
            entry.status.state != Some(State::Disabled)
        });
        gone.into_iter().for_each(|source| self.look_at(source));
    }

    /// A source is no longer reported.
    pub fn forget(&self, source: &SourceName) {
        self.lock().remove(source);
    }

    /// Every source, by name.
    #[must_use]
    pub fn all(&self) -> Vec<DiscoverySourceStatus> {
        self.lock().values().map(|entry| entry.status.clone()).collect()
    }

    /// What was decided about a source, and the outcome.
    pub(crate) fn decided(&self, source: &SourceName, decided: Decided) {
        self.with(source, |entry| decisions::remember(&mut entry.decisions, decided));
    }

    /// The last decisions about every source, oldest first.
    #[must_use]
    pub fn decisions(&self) -> BTreeMap<String, Vec<Decided>> {
        let inner = self.lock();
        inner.iter().map(|(source, entry)| (source.to_string(), entry.decisions.iter().cloned().collect())).collect()
    }

    /// One source.
    #[must_use]
    pub fn get(&self, source: &SourceName) -> Option<DiscoverySourceStatus> {
        self.lock().get(source).map(|entry| entry.status.clone())
    }

    /// The uid of a source's object, where one exists.
    #[must_use]
    pub fn uid(&self, source: &SourceName) -> Option<String> {
        self.lock().get(source)?.uid.clone()
    }

    /// Writes what differs until dropped, or until [`Reports::close`] and everything that waits is written.
    ///
    /// A status that is given up for now is reported by an Event (requirement R8); the next resync takes it up again.
    pub async fn write(self: Arc<Self>, client: kube::Client, check: Check, work: Options, events: Events) {
        let queue = self.queue.clone();
        let (drops, mut dropped) = tokio::sync::mpsc::unbounded_channel();
        let writer = Arc::new(ReportWriter::new(Arc::clone(&self), client, check, drops));
        let report_drops = async {
            while let Some((source, note)) = dropped.recv().await {
                let uid = self.uid(&source);
                // Best effort: the API server that refused the status may refuse the Event, too.
                events.source(&source, uid.as_deref(), Urgency::Warning, Reason::WriteFailed, &note).await;
            }
            std::future::pending().await
        };
        tokio::select! {
            () = run_workers(queue, work, writer, CancellationToken::new()) => {}
            () = report_drops => {}
        }
    }

    /// Later reports are not written.
    pub fn close(&self) {
        self.queue.shut_down();
    }

    fn look_at(&self, source: SourceName) {
        // Refused when everything ends, or when there are too many; those are added by the resync.
        if let Err(why) = self.queue.add(source) {
            tracing::debug!(%why, "the status of a source is not written now");
        }
    }

    /// Every source of which something is to be written.
    fn due(&self) -> Vec<SourceName> {
        self.lock().iter().filter(|(_, entry)| entry.is_due()).map(|(source, _)| source.clone()).collect()
    }

    /// The status to write about a source, and whether its object exists.
    fn due_of(&self, source: &SourceName) -> Option<(DiscoverySourceStatus, Base)> {
        let inner = self.lock();
        let entry = inner.get(source).filter(|entry| entry.is_due())?;
        let base = match &entry.uid {
            Some(_) => Base::Version(entry.version.clone()),
            None => Base::Absent,
        };
        Some((entry.status_to_write(), base))
    }

    fn with<T>(&self, source: &SourceName, act: impl FnOnce(&mut ReportEntry) -> T) -> Option<T> {
        self.lock().get_mut(source).map(act)
    }
}

impl ReportEntry {
    /// The status to write, with the generation of the present object.
    fn status_to_write(&self) -> DiscoverySourceStatus {
        self.status.clone().observed(self.generation)
    }

    /// Whether the content differs, or the stored `lastSuccess` has become old.
    fn is_due(&self) -> bool {
        let (now, Some(written)) = (self.status_to_write(), &self.written) else { return true };
        let mut same = written.clone();
        same.last_success.clone_from(&now.last_success);
        if same != now {
            return true;
        }
        let time = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
        match (time(&now.last_success), time(&written.last_success)) {
            (Some(now), Some(written)) => now.duration_since(written) >= REFRESH,
            (Some(_), None) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
