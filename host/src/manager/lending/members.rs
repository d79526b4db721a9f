//! How replicas that serve bindings know of each other: a Lease for each, renewed by it and watched by all (decision S11).
//!
//! Owns the Lease of this replica and the watch of those of the others. It is a Lease for its times alone: no replica ever holds
//! that of another, and nothing is decided by it but who goes first ([`super::crew`]). Its times are for people; what counts is
//! when this replica saw it change.
//!
//! # Failure story
//!
//! A replica that cannot announce itself serves what no other wants a second later. One that cannot see the others counts
//! itself as the only one: it tries to get every binding at once, and the lease of each decides. Both are one line in the log
//! for each cause. A clean stop removes the announcement; that of a process that died is removed by another replica an hour
//! later, in the version that was seen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams, Preconditions};
use tokio_util::sync::CancellationToken;
use topoloom_api::names::{MANAGED_BY, MANAGED_BY_LABEL, MEMBER_LABEL};
use topoloom_core::version::ResourceVersion;
use topoloom_sync::naming::label_value;
use topoloom_sync::spread::{Announcement, History, MemberName};

use super::crew::Crew;
use crate::cluster::watched::{Earlier, Index, Watched};
use crate::cluster::watches::{self, Config};
use crate::cluster::{Refusal, RefusalReason, Restores};

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest name of a member, in bytes: a name of a pod has 253 at most, and 37 follow.
const LONGEST_NAME: usize = 300;

/// Where the announcements are.
#[derive(Clone)]
pub(super) struct Announcements {
    pub(super) api: Api<Lease>,
    /// The name of the first lease, which all replicas of an installation have in common.
    pub(super) base: String,
    pub(super) crew: Arc<Crew>,
    objects: Arc<Mutex<BTreeMap<MemberName, ObjectMeta>>>,
}

/// The announcement of this replica.
pub(super) struct Announcer {
    pub(super) all: Announcements,
    /// The name of its Lease.
    pub(super) name: String,
    pub(super) identity: Arc<str>,
    /// How long it lasts.
    pub(super) lasts: Duration,
}

/// The cause of a failure that the log names as the present one.
#[derive(Default)]
struct Reported(Option<(RefusalReason, String)>);

impl Reported {
    /// It works.
    fn works(&mut self) {
        self.0 = None;
    }

    /// It does not. The first of failures in a row that have one cause is logged.
    fn fails(&mut self, refusal: &Refusal, what: &'static str) {
        let (reason, cause) = refusal.cause();
        if self.0.as_ref().is_none_or(|(was, of)| *was != reason || of != cause) {
            tracing::warn!(reason = reason.as_str(), error = %refusal, "{what}");
            self.0 = Some((reason, cause.to_owned()));
        }
    }
}

impl Announcements {
    pub(super) fn new(client: kube::Client, namespace: &str, base: &str, crew: &Arc<Crew>) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, base: base.to_owned(), crew: Arc::clone(crew), objects: Arc::default() }
    }

    /// Watches them until it is dropped.
    pub(super) async fn observe(self, restores: Restores) {
        let selector = format!("{MEMBER_LABEL}={}", label_value(&self.base));
        let config = Config::of(&restores).labels(&selector);
        let mut events = std::pin::pin!(watches::events(self.api.clone(), config));
        let (mut watched, mut seen, mut reported) = (Watched::default(), Observer(self), Reported::default());
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    if event.is_answer() {
                        reported.works();
                    }
                    watched.take(&mut seen, event);
                }
                Err(refusal) if refusal.reason == RefusalReason::Expired => {}
                Err(refusal) => reported.fails(
                    &refusal,
                    "the other replicas that serve bindings cannot be seen, so bindings are not spread evenly",
                ),
            }
        }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<MemberName, ObjectMeta>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, lease: Lease) -> Option<Announcement> {
        let announcement = announcement(&lease)?;
        self.objects().insert(announcement.member.clone(), lease.metadata);
        Some(announcement)
    }

    /// Removes one announcement of a process that died long ago, in the version that was seen.
    async fn remove_abandoned(&self) {
        let abandoned = self.crew.abandoned();
        let metadata = abandoned.first().and_then(|member| self.objects().get(member).cloned());
        let Some(ObjectMeta { name: Some(name), uid: Some(uid), resource_version, .. }) = metadata else { return };
        let preconditions = Preconditions { uid: Some(uid), resource_version };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        // Whatever the answer is, the watch shows what became of it.
        let _ = tokio::time::timeout(PATIENCE, self.api.delete(&name, &parameters)).await;
    }
}

/// What a Lease announces; nothing where it is none of a member.
fn announcement(lease: &Lease) -> Option<Announcement> {
    let spec = lease.spec.as_ref()?;
    let member = spec.holder_identity.as_deref().filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME)?;
    let seconds = u64::try_from(spec.lease_duration_seconds?).ok().filter(|seconds| *seconds > 0)?;
    Some(Announcement {
        member: member.into(),
        version: lease.metadata.resource_version.as_deref().into(),
        lasts: Duration::from_secs(seconds),
    })
}

/// The announcements on their way to the crew.
struct Observer(Announcements);

impl Index<Lease> for Observer {
    type List = (Earlier, Vec<Lease>);
    type Change = ();

    fn begin(&mut self, earlier: Earlier) -> Self::List {
        (earlier, Vec::new())
    }

    fn list(&mut self, (_, all): &mut Self::List, lease: Lease) {
        all.push(lease);
    }

    fn reset(&mut self, (earlier, all): Self::List, _: &ResourceVersion) {
        self.0.objects().clear();
        let all = all.into_iter().filter_map(|lease| self.0.enter(lease)).collect();
        let history = match earlier {
            Earlier::Valid => History::Same,
            Earlier::Void => History::Restored,
        };
        self.0.crew.relisted(all, history);
    }

    fn apply(&mut self, lease: Lease) {
        if let Some(announcement) = self.0.enter(lease) {
            self.0.crew.saw(announcement);
        }
    }

    fn delete(&mut self, lease: Lease) {
        let Some(Announcement { member, .. }) = announcement(&lease) else { return };
        let mut objects = self.0.objects();
        // Another object with that name in it is the one that counts.
        if objects.get(&member).is_some_and(|known| known.name == lease.metadata.name) {
            objects.remove(&member);
            drop(objects);
            self.0.crew.left(&member);
        }
    }
}

impl Announcer {
    /// Announces this replica until `stop` is cancelled, and then no longer.
    pub(super) async fn run(self, stop: CancellationToken) {
        let (mut stored, mut reported) = (None, Reported::default());
        loop {
            stored = match self.write(stored).await {
                Ok(lease) => {
                    reported.works();
                    Some(lease)
                }
                Err(refusal) => {
                    reported.fails(&refusal, "this replica cannot announce itself to those that serve bindings");
                    // It is read before the next try.
                    None
                }
            };
            self.all.remove_abandoned().await;
            // Three tries within the time after which the others forget this one.
            if stop.run_until_cancelled(tokio::time::sleep(self.lasts / 3)).await.is_none() {
                break;
            }
        }
        self.withdraw().await;
    }

    /// Makes the announcement, or renews the one that was stored.
    async fn write(&self, stored: Option<Lease>) -> Result<Lease, Refusal> {
        let (api, parameters) = (&self.all.api, PostParams::default());
        let write = async {
            let stored = match stored {
                Some(lease) => Some(lease),
                None => api.get_opt(&self.name).await?,
            };
            match stored {
                Some(lease) => api.replace(&self.name, &parameters, &self.renewed(lease)).await,
                None => api.create(&parameters, &self.renewed(self.made())).await,
            }
        };
        match tokio::time::timeout(PATIENCE, write).await {
            Ok(answer) => answer.map_err(|error| Refusal::of(&error)),
            Err(_) => Err(Refusal {
                reason: RefusalReason::Unreachable,
                message: format!("the API server did not answer within {PATIENCE:?}"),
                retry_after: None,
            }),
        }
    }

    fn made(&self) -> Lease {
        let labels = [(MEMBER_LABEL, label_value(&self.all.base)), (MANAGED_BY_LABEL, MANAGED_BY.to_owned())];
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
            ..ObjectMeta::default()
        };
        let spec = LeaseSpec { acquire_time: Some(MicroTime(Timestamp::now())), ..LeaseSpec::default() };
        Lease { metadata, spec: Some(spec) }
    }

    /// The same in its stored version, at this time.
    fn renewed(&self, mut lease: Lease) -> Lease {
        let seconds = self.lasts.as_secs() + u64::from(self.lasts.subsec_nanos() > 0);
        lease.metadata.managed_fields = None;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(self.identity.to_string());
        spec.lease_duration_seconds = Some(i32::try_from(seconds).unwrap_or(i32::MAX));
        spec.renew_time = Some(MicroTime(Timestamp::now()));
        lease
    }

    /// The other replicas need not wait until they forget this one. If it does not succeed, they do.
    async fn withdraw(&self) {
        let api = &self.all.api;
        let withdrawn = async {
            let Some(lease) = api.get_metadata_opt(&self.name).await? else { return Ok(()) };
            let preconditions = Preconditions { uid: lease.metadata.uid, resource_version: None };
            let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            api.delete(&self.name, &parameters).await.map(drop)
        };
        match tokio::time::timeout(PATIENCE, withdrawn).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let refusal = Refusal::of(&error);
                tracing::info!(reason = refusal.reason.as_str(), error = %refusal, "the announcement of this replica stays");
            }
            Err(_) => tracing::info!("the announcement of this replica stays: the API server did not answer in time"),
        }
    }
}

#[cfg(test)]
mod tests;
