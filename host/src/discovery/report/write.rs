//! The write of one source's status.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use topoloom_api::discovery_source::{API_VERSION, DiscoverySource, DiscoverySourceStatus, KIND};
use topoloom_api::names::FIELD_MANAGER;
use topoloom_api::object_name;
use topoloom_core::names::SourceName;

use super::{Base, Reports};
use crate::cluster::Check;
use crate::cluster::{Refusal, RefusalReason};
use crate::work::{Work, WorkFailure, WorkOutcome};

/// How often an absent CRD is looked for.
const AGAIN: Duration = Duration::from_secs(15);
/// How often it is tried whether writes are allowed again. It costs nothing: nothing is sent until they are.
const ALLOWED: Duration = Duration::from_secs(5);
/// How often a write that met another one is tried again before it gives way to other sources. Not less often: when
/// everything ends, there is no other time.
const CONFLICTS: usize = 3;
/// The longest that the API server may ask us to wait.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Writes the status of a source where it differs from what the cluster holds.
pub(super) struct ReportWriter {
    reports: Arc<Reports>,
    api: Api<DiscoverySource>,
    check: Check,
    trouble: Mutex<WriteTrouble>,
    /// Sources whose status is given up for now, and why.
    drops: UnboundedSender<(SourceName, String)>,
}

/// What goes wrong at the moment.
#[derive(Default)]
struct WriteTrouble {
    /// The CRD was not there; the API server is not asked before this time, and then once.
    absent_until: Option<Instant>,
    /// The sources whose last write was refused.
    refused: BTreeSet<SourceName>,
    /// Whether anything was ever written: one source that is refused must not keep the process from being ready.
    has_written: bool,
}

impl ReportWriter {
    pub(super) fn new(
        reports: Arc<Reports>,
        client: kube::Client,
        check: Check,
        drops: UnboundedSender<(SourceName, String)>,
    ) -> Self {
        Self { reports, api: Api::all(client), check, trouble: Mutex::default(), drops }
    }

    fn trouble(&self) -> MutexGuard<'_, WriteTrouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long to wait because the CRD is absent. A caller that need not wait checks it for all.
    fn absent_for(&self) -> Option<Duration> {
        let mut trouble = self.trouble();
        let until = trouble.absent_until?;
        let now = Instant::now();
        if until > now {
            return Some(until - now);
        }
        trouble.absent_until = Some(now + AGAIN);
        None
    }

    fn written(&self, source: &SourceName, status: DiscoverySourceStatus, object: DiscoverySource) {
        let (was_absent, works) = {
            let mut trouble = self.trouble();
            trouble.refused.remove(source);
            // A source that is gone has nothing to write.
            trouble.refused.retain(|source| self.reports.get(source).is_some());
            let works = trouble.refused.is_empty() || !trouble.has_written;
            trouble.has_written = true;
            (trouble.absent_until.take().is_some(), works)
        };
        if works {
            self.check.pass();
        }
        self.reports.with(source, |entry| {
            entry.uid = object.metadata.uid;
            entry.version = object.metadata.resource_version;
            entry.generation = object.metadata.generation;
            entry.written = Some(status);
        });
        if was_absent {
            self.reports.due().into_iter().for_each(|source| self.reports.look_at(source));
        }
    }

    /// The object was written meanwhile, by an operator perhaps: the next try builds on that.
    async fn look_again(&self, source: &SourceName) -> Result<(), Refusal> {
        let found = self.api.get_opt(&object_name(source)).await.map_err(|error| Refusal::of(&error))?;
        self.reports.with(source, |entry| {
            let metadata = found.map(|object| object.metadata).unwrap_or_default();
            entry.uid = metadata.uid;
            entry.version = metadata.resource_version;
            entry.generation = metadata.generation;
        });
        Ok(())
    }

    fn refused(&self, source: &SourceName, refusal: Refusal) -> Result<WorkOutcome, Refusal> {
        if matches!(refusal.reason, RefusalReason::ReadOnly | RefusalReason::NotLeader) {
            // Writes are switched off: that nothing is written is no failure, and nothing is given up.
            return Ok(WorkOutcome::Again(ALLOWED));
        }
        if refusal.reason == RefusalReason::NoSuchResource {
            self.trouble().absent_until = Some(Instant::now() + AGAIN);
            self.check.absent("the CRD discoverysources.topoloom.dev is not installed (`topoloom crd | kubectl apply --server-side -f -`); sources are shown at /sources and in the log only");
            return Ok(WorkOutcome::Again(AGAIN));
        }
        if refusal.reason == RefusalReason::NotFound {
            self.reports.with(source, |entry| {
                entry.uid = None;
                entry.version = None;
                entry.generation = None;
                entry.written = None;
            });
        }
        self.trouble().refused.insert(source.clone());
        self.check.fail(&refusal);
        match refusal.retry_after {
            // To wait as long as one was asked to is no failure.
            Some(wait) => Ok(WorkOutcome::Again(wait.min(LONGEST_WAIT))),
            None => Err(refusal),
        }
    }

    /// The write names the version that it replaces: a leader that is late must not undo the report of the next one
    /// (decision M4). Returns what was written, and the object.
    async fn apply(
        &self,
        source: &SourceName,
        mut status: DiscoverySourceStatus,
        base: Base,
    ) -> Result<(DiscoverySourceStatus, DiscoverySource), Refusal> {
        let name = object_name(source);
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let version = match base {
            Base::Version(version) => version,
            Base::Absent => {
                let body = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}});
                let made = self.api.patch(&name, &parameters, &Patch::Apply(&body)).await;
                let made = made.map_err(|error| Refusal::of(&error))?.metadata;
                status = status.observed(made.generation);
                made.resource_version
            }
        };
        let metadata = json!({"name": name, "resourceVersion": version});
        let body = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "status": status});
        let object = self.api.patch_status(&name, &parameters, &Patch::Apply(&body)).await;
        Ok((status, object.map_err(|error| Refusal::of(&error))?))
    }
}

impl Work<SourceName> for ReportWriter {
    type Error = Refusal;

    async fn work(&self, source: &SourceName) -> Result<WorkOutcome, Refusal> {
        for tried in 0..=CONFLICTS {
            let Some((status, base)) = self.reports.due_of(source) else { return Ok(WorkOutcome::Done) };
            if tried == 0
                && let Some(pause) = self.absent_for()
            {
                return Ok(WorkOutcome::Again(pause));
            }
            let looked = match self.apply(source, status, base).await {
                Ok((status, object)) => {
                    self.written(source, status, object);
                    return Ok(WorkOutcome::Done);
                }
                Err(refusal) if refusal.reason == RefusalReason::Conflict => self.look_again(source).await,
                Err(refusal) => Err(refusal),
            };
            if let Err(refusal) = looked {
                return self.refused(source, refusal);
            }
        }
        Ok(WorkOutcome::Again(Duration::ZERO))
    }

    fn dropped(&self, source: &SourceName, failure: &WorkFailure<Refusal>) {
        let note = format!("the status of source {source} cannot be written and is left for now: {failure}");
        // While everything ends there is no receiver, and no Event to send either.
        let _ = self.drops.send((source.clone(), note));
        match failure {
            WorkFailure::Error(refusal) => self.check.fail(refusal),
            WorkFailure::Panic(_) => {
                let message = format!("the status of source {source} cannot be written: {failure}");
                self.check.fail(&Refusal { reason: RefusalReason::ServerError, message, retry_after: None });
            }
        }
    }

    fn all(&self) -> Vec<SourceName> {
        self.reports.due()
    }
}
