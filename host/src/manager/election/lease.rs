//! The Lease object: what its fields mean, and what is written into them.
//!
//! The fields are those that every Kubernetes component uses, so that `kubectl get lease` reads as usual. The times in it
//! are for people.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::ObjectMeta;
use topoloom_api::names::{CONFIGURATION_ANNOTATION, NAME, NAME_LABEL, RELEASED_ANNOTATION};
use topoloom_core::election::Record;

/// What a holder writes.
pub(super) struct HolderEntry<'a> {
    pub(super) name: &'a str,
    pub(super) holder: &'a str,
    pub(super) duration: Duration,
    pub(super) transitions: u32,
    /// `NAMESPACE/NAME` of the ConfigMap that it reads.
    pub(super) configuration: &'a str,
}

/// What a Lease says. A duration that is missing or below zero counts as none.
pub(super) fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
    let annotation = |key| lease.metadata.annotations.as_ref()?.get(key).map(|text| Arc::from(text.as_str()));
    Record {
        version: lease.metadata.resource_version.as_deref().into(),
        holder: spec.holder_identity.as_deref().unwrap_or_default().into(),
        released_by: annotation(RELEASED_ANNOTATION),
        duration: Duration::from_secs(seconds),
        transitions: spec.lease_transitions.and_then(|count| u32::try_from(count).ok()).unwrap_or(0),
    }
}

/// A Lease that we hold from now on.
pub(super) fn claim(stored: Option<&Lease>, wanted: &HolderEntry<'_>, base: Option<&str>) -> Lease {
    let now = MicroTime(Timestamp::now());
    let mut lease = changed(stored.filter(|_| base.is_some()), wanted, base, &now);
    let spec = lease.spec.get_or_insert_default();
    spec.acquire_time = Some(now);
    spec.lease_transitions = Some(i32::try_from(wanted.transitions).unwrap_or(i32::MAX));
    // By these a person's command line finds the installation.
    lease.metadata.labels.get_or_insert_default().insert(NAME_LABEL.to_owned(), NAME.to_owned());
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIGURATION_ANNOTATION.to_owned(), wanted.configuration.to_owned());
    lease
}

/// The Lease that we hold, renewed.
pub(super) fn renew(stored: Option<&Lease>, wanted: &HolderEntry<'_>, base: &str) -> Lease {
    changed(stored, wanted, Some(base), &MicroTime(Timestamp::now()))
}

/// The Lease that we held, released: others need not wait.
pub(super) fn release(stored: Option<&Lease>, wanted: &HolderEntry<'_>, base: &str) -> Lease {
    let mut lease = changed(stored, wanted, Some(base), &MicroTime(Timestamp::now()));
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    // What the Go clients write: the field must be above zero.
    spec.lease_duration_seconds = Some(1);
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(RELEASED_ANNOTATION.to_owned(), wanted.holder.to_owned());
    lease
}

fn changed(stored: Option<&Lease>, wanted: &HolderEntry<'_>, base: Option<&str>, now: &MicroTime) -> Lease {
    let old = stored.cloned().unwrap_or_default();
    let annotations: BTreeMap<String, String> = old
        .metadata
        .annotations
        .unwrap_or_default()
        .into_iter()
        .filter(|(key, _)| key != RELEASED_ANNOTATION)
        .collect();
    let seconds = wanted.duration.as_secs() + u64::from(wanted.duration.subsec_nanos() > 0);
    Lease {
        metadata: ObjectMeta {
            name: Some(wanted.name.to_owned()),
            resource_version: base.map(str::to_owned),
            // An update creates a missing Lease, even if it names a version: with its UID it changes the one that was
            // read, or nothing.
            uid: old.metadata.uid.filter(|_| base.is_some()),
            annotations: (!annotations.is_empty()).then_some(annotations),
            labels: old.metadata.labels,
            owner_references: old.metadata.owner_references,
            finalizers: old.metadata.finalizers,
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(wanted.holder.to_owned()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            renew_time: Some(now.clone()),
            ..old.spec.unwrap_or_default()
        }),
    }
}
