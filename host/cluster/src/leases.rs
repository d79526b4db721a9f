//! Leases as a single read shows them: the holder, and whether it still holds the lease.
//!
//! An election watches its lease and measures with its own clock (`manager::election` of the host). A single read has
//! only the times in the lease, so they are compared with the clock of the API server and not with that of a laptop.
//! The holder writes its time by its own clock, which may be behind; the API server records by its own clock when the
//! holder wrote.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use schemars::JsonSchema;
use serde::Serialize;
use topoloom_api::names::RELEASED_ANNOTATION;
use topoloom_core::text;

use super::Refusal;

/// Where a lease does not say how long it lasts.
const USUAL: i32 = 15;

/// One lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeaseStatus {
    /// Where it is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The state of its holder.
    pub standing: LeaseFreshness,
    /// Its holder, or its last holder; empty if it has none.
    pub holder: String,
    /// When the holder got the lease, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// How long ago it was renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewed_seconds_ago: Option<i64>,
    /// How long a renewal is valid.
    pub duration_seconds: i32,
    /// How often its holder changed.
    pub transitions: i32,
    /// The holder that released it, until it has a new holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released_by: Option<String>,
}

/// The state of the holder of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LeaseFreshness {
    /// Its holder renewed it in time.
    Fresh,
    /// Its holder did not renew it in time.
    Expired,
    /// It names no holder.
    Free,
}

impl LeaseStatus {
    /// What a lease says at that time.
    #[must_use]
    pub fn of(lease: &Lease, now: Timestamp) -> Self {
        let spec = lease.spec.clone().unwrap_or_default();
        let holder = text::holder(spec.holder_identity.as_deref().unwrap_or_default());
        let duration = spec.lease_duration_seconds.filter(|seconds| *seconds > 0).unwrap_or(USUAL);
        let renewed = spec.renew_time.map(|time| time.0).max(noted(lease)).map(|time| now.duration_since(time));
        let is_late = renewed.is_none_or(|ago| ago > SignedDuration::from_secs(duration.into()));
        let standing = match (holder.is_empty(), is_late) {
            (true, _) => LeaseFreshness::Free,
            (false, true) => LeaseFreshness::Expired,
            (false, false) => LeaseFreshness::Fresh,
        };
        let annotation = |key| lease.metadata.annotations.as_ref()?.get(key);
        Self {
            namespace: lease.metadata.namespace.clone().unwrap_or_default(),
            name: lease.metadata.name.clone().unwrap_or_default(),
            standing,
            holder,
            since: spec.acquire_time.map(|time| time.0.to_string()),
            // A holder whose clock is ahead renewed it now.
            renewed_seconds_ago: renewed.map(|ago| ago.as_secs().max(0)),
            duration_seconds: duration,
            transitions: spec.lease_transitions.unwrap_or(0),
            released_by: annotation(RELEASED_ANNOTATION).map(|by| text::holder(by)),
        }
    }

    /// The replica that holds it: its pod, where the identity is that of a host of ours.
    #[must_use]
    pub fn replica(&self) -> &str {
        self.holder.rsplit_once('_').map_or(self.holder.as_str(), |(instance, _)| instance)
    }
}

/// When the time of a renewal was written last, by the clock of the API server. A write of something else, an
/// annotation perhaps, renewed nothing.
fn noted(lease: &Lease) -> Option<Timestamp> {
    let renews = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| fields.0.pointer("/f:spec/f:renewTime").is_some())
    };
    let entries = lease.metadata.managed_fields.iter().flatten();
    entries.filter(renews).filter_map(|entry| entry.time.as_ref().map(|time| time.0)).max()
}

/// Asks the API server to make the lease without keeping it.
///
/// # Errors
/// Why it would not, such as [`super::RefusalReason::NotFound`] for its namespace.
pub async fn could_be_made(client: &kube::Client, namespace: &str, name: &str) -> Result<(), Refusal> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let parameters = PostParams { dry_run: true, ..PostParams::default() };
    let made = api.create(&parameters, &Lease { metadata, ..Lease::default() }).await;
    made.map(drop).map_err(|error| Refusal::of(&error))
}

/// Looks at one lease.
///
/// # Errors
/// The refusal; a lease that is not there is none.
pub async fn read(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Result<Option<LeaseStatus>, Refusal> {
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = api.get_opt(name).await.map_err(|error| Refusal::of(&error))?;
    Ok(lease.map(|lease| LeaseStatus::of(&lease, now)))
}

/// What the API server is, and its clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiServerInfo {
    /// Its version, `v1.34.1`.
    pub version: String,
    /// Its time, to the second; ours if it sends none.
    pub now: Timestamp,
}

/// Asks the API server for its version and its clock.
///
/// # Errors
/// When it does not answer, or refuses.
pub async fn server(client: &kube::Client) -> Result<ApiServerInfo, Refusal> {
    let request = http::Request::get("/version").body(kube::client::Body::empty());
    let request = request.map_err(|error| Refusal::of(&kube::Error::HttpError(error)))?;
    let answer = client.send(request).await.map_err(|error| Refusal::of(&error))?;
    let date = answer.headers().get(http::header::DATE).and_then(|date| date.to_str().ok());
    let now = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|date| date.timestamp());
    let version = client.apiserver_version().await.map_err(|error| Refusal::of(&error))?;
    Ok(ApiServerInfo { version: version.git_version, now: now.unwrap_or_else(Timestamp::now) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn held(spec: serde_json::Value, now: &str) -> LeaseStatus {
        let lease = json!({"metadata": {"namespace": "n", "name": "l"}, "spec": spec});
        LeaseStatus::of(&serde_json::from_value(lease).unwrap(), now.parse().unwrap())
    }

    #[test]
    fn a_lease_is_held_for_as_long_as_it_was_renewed_for() {
        let spec = json!({
            "holderIdentity": "pod-1_5f0c", "leaseDurationSeconds": 15, "leaseTransitions": 3,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:01:00.000000Z",
        });
        let seen = held(spec.clone(), "2026-01-01T00:01:15Z");
        assert_eq!((seen.standing, seen.renewed_seconds_ago, seen.transitions), (LeaseFreshness::Fresh, Some(15), 3));
        assert_eq!((seen.replica(), seen.since.as_deref()), ("pod-1", Some("2026-01-01T00:00:00Z")));
        assert_eq!(held(spec.clone(), "2026-01-01T00:01:16Z").standing, LeaseFreshness::Expired);
        let ahead = held(spec, "2026-01-01T00:00:50Z");
        assert_eq!((ahead.standing, ahead.renewed_seconds_ago), (LeaseFreshness::Fresh, Some(0)));
    }

    #[test]
    fn a_holder_whose_clock_is_behind_holds_its_lease() {
        let at = |noted: &[(&str, serde_json::Value)]| {
            let entries: Vec<_> = noted.iter().map(|(time, spec)| json!({"time": time, "fieldsV1": spec})).collect();
            let lease = json!({
                "metadata": {"namespace": "n", "name": "l", "managedFields": entries},
                "spec": {"holderIdentity": "x", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
            });
            let held =
                LeaseStatus::of(&serde_json::from_value(lease).unwrap(), "2026-01-01T00:05:00Z".parse().unwrap());
            (held.standing, held.renewed_seconds_ago)
        };
        let renews = json!({"f:spec": {"f:holderIdentity": {}, "f:renewTime": {}}});
        let annotates = json!({"f:metadata": {"f:annotations": {"f:note": {}}}});
        let (before, early, now) = ("2025-12-31T00:00:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:04:50Z");
        assert_eq!(at(&[]), (LeaseFreshness::Expired, Some(300)));
        assert_eq!(at(&[(before, renews.clone())]), (LeaseFreshness::Expired, Some(300)), "a clock that is ahead");
        assert_eq!(at(&[(now, renews.clone())]), (LeaseFreshness::Fresh, Some(10)));
        assert_eq!(at(&[(now, renews.clone()), (early, renews.clone())]), (LeaseFreshness::Fresh, Some(10)));
        assert_eq!(at(&[(early, renews), (now, annotates)]), (LeaseFreshness::Expired, Some(240)));
    }

    #[test]
    fn a_lease_without_holder_or_without_times_is_free() {
        let free =
            held(json!({"holderIdentity": "", "renewTime": "2026-01-01T00:00:00.000000Z"}), "2026-01-01T00:00:00Z");
        assert_eq!((free.standing, free.replica()), (LeaseFreshness::Free, ""));
        let timeless = held(json!({"holderIdentity": "x", "leaseDurationSeconds": -1}), "2026-01-01T00:00:00Z");
        assert_eq!((timeless.standing, timeless.duration_seconds), (LeaseFreshness::Expired, USUAL));
        let empty = LeaseStatus::of(&Lease::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(empty.standing, LeaseFreshness::Free);
    }
}
