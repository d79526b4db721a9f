//! The controller of the status of policies: it writes what [`decide_status`] decides.
//!
//! Owns the requests, and the time of the next look: the next boundary of the windows. Compares before it writes, so a policy at rest
//! costs no request.
//!
//! # Failure story
//!
//! A conflict means that the policy changed meanwhile: its watch brings it, and the queue tries again. A status that a missing right
//! forbids is a condition of the binding. While something forbids all writes to that cluster nothing is sent; the binding has every
//! policy looked at again when that ends.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use topoloom_api::ResourceLeasingPolicy;
use topoloom_api::cluster_binding::PolicySource;
use topoloom_api::condition::Reason;
use topoloom_cluster::deadline::answered;
use topoloom_cluster::events::{EventText, Events, Urgency};
use topoloom_cluster::work::{Work, WorkFailure, WorkOutcome, WorkQueue};
use topoloom_cluster::{Refusal, RefusalReason, Side};
use topoloom_sync::bars::Doing;
use topoloom_sync::identity::Identity;
use topoloom_sync::node::Now;
use topoloom_sync::policy::shadow::Shadowing;
use topoloom_sync::policy::status::{Phase, decide_status};
use tracing::field::Empty;

use super::PolicyName;
use super::feed::{PolicyFeed, StoredPolicy};
use crate::convert::difference::merge_patch;
use crate::convert::policy::{read_status, write_status};
use crate::feeds::SharedView;
use crate::ledger::PhysicalName;
use crate::metrics::{Counted, WriteKind};
use crate::troubles::{Thing, Troubles};

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The clients that the status of policies is written with.
#[derive(Clone)]
pub struct PolicyClients {
    /// In the physical cluster.
    pub physical: kube::Client,
    /// In the virtual cluster.
    pub lent: kube::Client,
}

/// The controller of the status of the policies of one binding.
pub struct PolicyStatuses {
    view: SharedView,
    feed: PolicyFeed,
    nodes: WorkQueue<PhysicalName>,
    clients: PolicyClients,
    source: watch::Receiver<PolicySource>,
    events: Events,
    troubles: Troubles,
    counted: Counted,
    identity: Identity,
    now: fn() -> Now,
    shadows: Mutex<Shadows>,
}

/// Where each policy is in force, as of one state of nodes and policies.
#[derive(Debug, Default)]
struct Shadows {
    placement: Option<u64>,
    by_name: HashMap<String, Shadowing>,
}

/// Why the status of a policy could not be written.
#[derive(Debug, thiserror::Error)]
#[error("the status of policy {policy} could not be written: {refusal}")]
pub struct PolicyError {
    policy: PolicyName,
    refusal: Refusal,
}

/// What has to be done about one.
struct Due {
    /// The merge patch of its status.
    patch: Value,
    /// That its spec is invalid, where that is news.
    news: Option<String>,
}

impl PolicyStatuses {
    /// The controller of the policies of this feed. Nodes that a write of ours concerns are added to their queue.
    #[must_use]
    #[expect(clippy::too_many_arguments, reason = "what is read, what is written, and who is notified")]
    pub fn new(
        view: &SharedView,
        feed: PolicyFeed,
        nodes: WorkQueue<PhysicalName>,
        clients: PolicyClients,
        source: watch::Receiver<PolicySource>,
        events: Events,
        troubles: Troubles,
        now: fn() -> Now,
    ) -> Self {
        let identity = view.lock().unwrap_or_else(PoisonError::into_inner).binding.identity.clone();
        let (view, shadows, counted) = (SharedView::clone(view), Mutex::default(), Counted::default());
        Self { view, feed, nodes, clients, source, events, troubles, counted, identity, now, shadows }
    }

    /// The same, which counts its writes here.
    #[must_use]
    pub fn counting(self, counted: Counted) -> Self {
        Self { counted, ..self }
    }

    /// What differs from what the status has to be, if anything, while windows are judged by this time.
    fn due(&self, stored: &StoredPolicy, judged: Timestamp) -> Option<Due> {
        let current = read_status(&stored.status);
        let shadowing = self.shadowing(stored.policy.name());
        let wanted = decide_status(&current, &stored.policy, &shadowing, judged)?;
        let written = write_status(&wanted, &stored.status);
        // What has no JSON has no difference: none of these types is such a one.
        let json = |status| serde_json::to_value(status).unwrap_or_default();
        let patch = merge_patch(&json(&stored.status), &json(&written))?;
        let is_news = wanted.phase == Some(Phase::Failed) && current.phase != Some(Phase::Failed);
        let news = is_news.then(|| format!("policy {} is {}", stored.policy.name(), stored.policy.judgement()));
        Some(Due { patch, news })
    }

    fn shadowing(&self, policy: &str) -> Shadowing {
        let mut shadows = self.shadows.lock().unwrap_or_else(PoisonError::into_inner);
        let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        if shadows.placement != Some(view.placement()) {
            *shadows = Shadows { placement: Some(view.placement()), by_name: view.shadowing() };
        }
        shadows.by_name.get(policy).cloned().unwrap_or(Shadowing::Unknown)
    }

    #[tracing::instrument(level = "debug", name = "policy", skip_all, fields(binding = &**self.identity.binding(), policy = &**name, result = Empty, otel.status_code = Empty))]
    async fn write(&self, name: &PolicyName, stored: &StoredPolicy, due: &Due) -> Result<(), Refusal> {
        let (client, side) = match *self.source.borrow() {
            PolicySource::Physical => (&self.clients.physical, Side::Physical),
            PolicySource::Virtual => (&self.clients.lent, Side::Virtual),
        };
        let api: Api<ResourceLeasingPolicy> = Api::all(client.clone());
        let object = stored.policy.object();
        let body = json!({
            "metadata": {"uid": &*object.uid, "resourceVersion": &*stored.version},
            "status": due.patch,
        });
        let parameters = PatchParams::default();
        let sent = answered(PATIENCE, api.patch_status(name, &parameters, &Patch::Merge(&body))).await;
        self.counted.wrote(WriteKind::PolicyStatus, "decided", &sent);
        match sent {
            Ok(object) => {
                self.troubles.over(Thing::PolicyStatus);
                for node in self.feed.answered(&object) {
                    let _refused = self.nodes.add(node);
                }
                Ok(())
            }
            Err(refusal) => {
                // One that is gone has no status, and is no trouble.
                if refusal.reason != RefusalReason::NotFound {
                    self.troubles.met(Thing::PolicyStatus, &refusal, side);
                }
                Err(refusal)
            }
        }
    }

    /// When it has to be looked at again: at the next boundary of what applies.
    fn again(stored: &StoredPolicy, judged: Timestamp, now: Timestamp) -> WorkOutcome {
        let next = stored.policy.terms().and_then(|terms| terms.schedule.next_transition(judged));
        next.map_or(WorkOutcome::Done, |at| {
            WorkOutcome::Again(Duration::try_from(at.duration_since(now)).unwrap_or_default())
        })
    }
}

impl Work<PolicyName> for PolicyStatuses {
    type Error = PolicyError;

    async fn work(&self, name: &PolicyName) -> Result<WorkOutcome, PolicyError> {
        let Some(stored) = self.feed.ours(name) else { return Ok(WorkOutcome::Done) };
        let now = (self.now)().wall;
        let (is_allowed, judged) = {
            let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
            (view.bars.allow(Doing::Announce), view.judged(now))
        };
        if is_allowed && let Some(due) = self.due(&stored, judged) {
            match self.write(name, &stored, &due).await {
                Ok(()) => {}
                Err(refusal) if refusal.reason == RefusalReason::NotFound => return Ok(WorkOutcome::Done),
                Err(refusal) => return Err(PolicyError { policy: PolicyName::clone(name), refusal }),
            }
            tracing::info!(policy = %name, binding = %self.identity.binding(), "the status of a policy was written");
            if let Some(note) = &due.news {
                // Where the policy is, the syncer has no right to write Events.
                let text = EventText { reason: Reason::ValidationError.as_str(), action: "Lending", note };
                let uid = self.identity.binding_uid().to_string();
                self.events.binding(self.identity.binding(), Some(&uid), Urgency::Warning, text).await;
            }
        }
        Ok(Self::again(&stored, judged, now))
    }

    fn dropped(&self, name: &PolicyName, failure: &WorkFailure<PolicyError>) {
        tracing::warn!(policy = %name, error = %failure, "the status of a policy could not be written; it rests until the next sweep");
    }

    fn all(&self) -> Vec<PolicyName> {
        self.feed.names()
    }
}

impl std::fmt::Debug for PolicyStatuses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicyStatuses").field("feed", &self.feed).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
