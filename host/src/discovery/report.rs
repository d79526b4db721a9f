//! What every source is doing: in memory for the admin server, in the cluster as DiscoverySource objects.
//!
//! Supervisors publish; one writer task brings the cluster up to date, with one write per source and change of content
//! (decision H18). Where the CRD is not installed the host works on and says so.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::sync::Notify;
use topoloom_api::discovery_source::{API_VERSION, DiscoverySource, DiscoverySourceStatus, KIND, State};
use topoloom_api::names::FIELD_MANAGER;
use topoloom_api::object_name;

use crate::cluster::{Reason, Refusal};
use crate::manager::health::Check;

/// `lastSuccess` alone is refreshed when the stored one is older than this (decision H18).
const REFRESH: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);
/// How often an absent CRD, or a refusal, is looked at again.
const AGAIN: Duration = Duration::from_secs(15);

/// The present status of every source.
#[derive(Default)]
pub struct Reports {
    inner: Mutex<BTreeMap<String, Entry>>,
    changed: Notify,
}

struct Entry {
    status: DiscoverySourceStatus,
    /// What the cluster holds, as far as we know.
    written: Option<DiscoverySourceStatus>,
    uid: Option<String>,
    /// Both were compared since they changed, and nothing is to be written.
    is_settled: bool,
}

impl Reports {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says what a source is doing now.
    pub fn publish(&self, status: DiscoverySourceStatus) {
        let mut inner = self.lock();
        let entry = inner.entry(status.source.clone()).or_insert_with(|| Entry {
            status: DiscoverySourceStatus::default(),
            written: None,
            uid: None,
            is_settled: false,
        });
        if entry.status == status {
            return;
        }
        entry.status = status;
        entry.is_settled = false;
        drop(inner);
        self.changed.notify_one();
    }

    /// What the cluster holds about a source, learnt from the watch.
    pub fn observed(&self, object: &DiscoverySource) {
        let source = object.status.source.clone();
        if let Some(entry) = self.lock().get_mut(&source) {
            entry.uid.clone_from(&object.metadata.uid);
            entry.written = Some(object.status.clone());
            entry.is_settled = false;
        }
        self.changed.notify_one();
    }

    /// The object of a source is gone from the cluster: it is written again if the source still has something to say.
    pub fn vanished(&self, name: &str) {
        self.lock().retain(|source, entry| {
            if object_name(source) != name {
                return true;
            }
            entry.written = None;
            entry.uid = None;
            entry.is_settled = false;
            // A source that is off has nothing more to say: the operator took its object away.
            entry.status.state != Some(State::Disabled)
        });
        self.changed.notify_one();
    }

    /// Nothing is said about a source any more.
    pub fn forget(&self, source: &str) {
        self.lock().remove(source);
    }

    /// Every source, by name.
    #[must_use]
    pub fn all(&self) -> Vec<DiscoverySourceStatus> {
        self.lock().values().map(|entry| entry.status.clone()).collect()
    }

    /// One source.
    #[must_use]
    pub fn get(&self, source: &str) -> Option<DiscoverySourceStatus> {
        self.lock().get(source).map(|entry| entry.status.clone())
    }

    /// The uid of a source's object, where one exists.
    #[must_use]
    pub fn uid(&self, source: &str) -> Option<String> {
        self.lock().get(source)?.uid.clone()
    }

    /// Writes what differs until dropped.
    pub async fn write(self: Arc<Self>, client: kube::Client, check: Check) {
        let api: Api<DiscoverySource> = Api::all(client);
        loop {
            let due: Vec<(DiscoverySourceStatus, bool)> = {
                let mut inner = self.lock();
                for entry in inner.values_mut().filter(|entry| !entry.is_settled) {
                    entry.is_settled = !entry.is_due();
                }
                let due = inner.values().filter(|entry| !entry.is_settled);
                due.map(|entry| (entry.status.clone(), entry.uid.is_some())).collect()
            };
            let mut refused = false;
            for (status, exists) in due {
                match write_one(&api, &status, exists).await {
                    Ok(object) => {
                        check.pass();
                        if let Some(entry) = self.lock().get_mut(&status.source) {
                            entry.uid = object.metadata.uid;
                            entry.written = Some(status);
                        }
                    }
                    Err(refusal) if refusal.reason == Reason::NoSuchResource => {
                        check.absent("the CRD discoverysources.topoloom.dev is not installed (`topoloom crd | kubectl apply --server-side -f -`); sources are shown at /sources and in the log only");
                        refused = true;
                        break;
                    }
                    Err(refusal) => {
                        if refusal.reason == Reason::NotFound
                            && let Some(entry) = self.lock().get_mut(&status.source)
                        {
                            entry.uid = None;
                            entry.written = None;
                        }
                        check.fail(&refusal);
                        refused = true;
                    }
                }
            }
            if refused {
                tokio::time::sleep(AGAIN).await;
            } else {
                self.changed.notified().await;
            }
        }
    }
}

impl Entry {
    /// Whether the content differs, or the stored `lastSuccess` has become old.
    fn is_due(&self) -> bool {
        let (now, Some(written)) = (&self.status, &self.written) else { return true };
        let mut same = written.clone();
        same.last_success.clone_from(&now.last_success);
        if same != *now {
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

async fn write_one(
    api: &Api<DiscoverySource>,
    status: &DiscoverySourceStatus,
    exists: bool,
) -> Result<DiscoverySource, Refusal> {
    let name = object_name(&status.source);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    if !exists {
        let body = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}});
        api.patch(&name, &parameters, &Patch::Apply(&body)).await.map_err(|error| Refusal::of(&error))?;
    }
    let body = json!({"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "status": status});
    api.patch_status(&name, &parameters, &Patch::Apply(&body)).await.map_err(|error| Refusal::of(&error))
}
