//! Which replica held which binding, and what follows from it for the writes of replicas (decisions M4 and S11).
//!
//! Owns the rules by which a test of several replicas is judged, from the records of the servers: etcd has the order of the writes,
//! and the audit log has which replica sent them. Of the syncer's own code it takes the names of leases alone.
//!
//! A test names its objects so that each shows its binding: a binding `c3` has the `clusterID` `c3`, and its machines and pods have
//! names that begin with `c3-`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use topoloom_sync::naming::{BindingName, NODE_PREFIX, binding_lease, borrower_lease};

use super::log::Received;
use super::proof::{is_late, is_version};
use super::stalls::Stalls;
use crate::controlplane::{Write, WriteKind};

/// The bindings of a test.
#[derive(Debug, Clone)]
pub struct Bindings {
    names: BTreeSet<String>,
    /// By the name of the lease that replicas stand for.
    leases: BTreeMap<String, String>,
    /// By the name of the Lease in the physical cluster.
    borrowers: BTreeMap<String, String>,
}

/// What a request is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About<'a> {
    /// The lease of this binding, as its holder writes it, or as another replica claims it.
    Lease(&'a str),
    /// An object of this binding.
    Object(&'a str),
}

impl Bindings {
    /// Those of these names; the names of their leases begin with `base`.
    ///
    /// # Errors
    /// When one is no name of a binding.
    pub fn new(base: &str, names: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut bindings =
            Self { names: names.into_iter().collect(), leases: BTreeMap::new(), borrowers: BTreeMap::new() };
        for name in &bindings.names {
            let parsed = BindingName::parse(name)?;
            bindings.leases.insert(binding_lease(base, &parsed)?, name.clone());
            bindings.borrowers.insert(borrower_lease(&parsed), name.clone());
        }
        Ok(bindings)
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The binding whose lease has this name.
    #[must_use]
    pub fn of_lease(&self, lease: &str) -> Option<&str> {
        self.leases.get(lease).map(String::as_str)
    }

    /// The lease of a binding.
    #[must_use]
    pub fn lease(&self, binding: &str) -> Option<&str> {
        self.leases.iter().find(|(_, name)| *name == binding).map(|(lease, _)| lease.as_str())
    }

    /// The binding whose object has this name: a virtual node, a machine, a pod of either cluster, or the binding itself.
    #[must_use]
    pub fn of_object(&self, name: &str) -> Option<&str> {
        if let Some(binding) = self.borrowers.get(name) {
            return Some(binding);
        }
        let own = name.strip_prefix(NODE_PREFIX).unwrap_or(name);
        let first = own.split('-').next().unwrap_or_default();
        self.names.get(first).map(String::as_str)
    }

    fn about(&self, request: &Received) -> Option<About<'_>> {
        // Replicas send Events whether or not they hold a lease.
        if request.resource == "events" {
            return None;
        }
        match self.of_lease(&request.name) {
            // The witness of a binding is written into its lease, by a patch.
            Some(binding) if request.verb == "patch" => Some(About::Object(binding)),
            Some(binding) => Some(About::Lease(binding)),
            None => self.of_object(&request.name).map(About::Object),
        }
    }
}

/// A lease of a binding was claimed or renewed by a replica.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Renewal {
    replica: String,
    at: Timestamp,
}

/// Which replica held each binding, and since when.
#[derive(Debug, Default)]
pub struct Tenures(BTreeMap<String, Vec<Renewal>>);

impl Tenures {
    /// Reads them from all writes of the leases of bindings, in their order. What another program writes into a lease makes it no
    /// holder.
    ///
    /// # Errors
    /// When a renewal has no time.
    pub fn of(writes: &[Write], bindings: &Bindings) -> Result<Self> {
        let mut tenures: BTreeMap<String, Vec<Renewal>> = BTreeMap::new();
        for write in writes.iter().filter(|write| write.kind == WriteKind::Put) {
            let lease = write.key.rsplit('/').next().unwrap_or_default();
            let Some(binding) = bindings.of_lease(lease) else { continue };
            let spec = &write.value["spec"];
            let holder = spec["holderIdentity"].as_str().unwrap_or_default();
            let Some((replica, _)) = holder.split_once('_').filter(|(name, _)| name.starts_with("replica-")) else {
                continue;
            };
            let at = renewed(spec).with_context(|| format!("{holder} holds {lease} since no time: {spec}"))?;
            tenures.entry(binding.to_owned()).or_default().push(Renewal { replica: replica.to_owned(), at });
        }
        Ok(Self(tenures))
    }

    /// The longest time without a renewal by a holder, for each binding, without the time in which the machine stood still.
    #[must_use]
    pub fn longest_gaps(&self, stalls: &Stalls) -> BTreeMap<&str, SignedDuration> {
        let gaps = self.0.iter().map(|(binding, renewals)| {
            let gaps = renewals.windows(2).map(|pair| between(pair[0].at, pair[1].at, stalls));
            (binding.as_str(), gaps.max().unwrap_or_default())
        });
        gaps.collect()
    }

    /// How often a binding got another holder.
    #[must_use]
    pub fn handovers(&self) -> usize {
        let of_one =
            |renewals: &Vec<Renewal>| renewals.windows(2).filter(|pair| pair[0].replica != pair[1].replica).count();
        self.0.values().map(of_one).sum()
    }

    /// The number of the tenure in which a replica sent something at this time: the last one that it had begun.
    fn number(&self, binding: &str, replica: &str, at: Timestamp) -> Option<usize> {
        let (mut number, mut found, mut last) = (0, None, "");
        for renewal in self.0.get(binding)? {
            if renewal.replica != last {
                number += 1;
                last = &renewal.replica;
                if renewal.replica == replica && renewal.at <= at {
                    found = Some(number);
                }
            }
        }
        found
    }

    /// In the order in which etcd stored them: when the holder of a binding has written an object of it, no earlier holder writes
    /// that object any more. Returns how many writes were attributed to replicas.
    ///
    /// # Errors
    /// With the write that comes late.
    pub fn no_late_write_wins(&self, stored: &[Write], sent: &[Received], bindings: &Bindings) -> Result<usize> {
        let taken = || sent.iter().filter(|request| request.is_taken());
        let by_version: BTreeMap<u64, &Received> =
            taken().filter_map(|request| Some((request.written_version()?, request))).collect();
        // Some answers to a deletion have no version. The request names the one that it deletes, which is the last that was stored.
        let deleters: BTreeMap<u64, &Received> =
            taken().filter_map(|request| Some((request.deleted_version()?, request))).collect();
        let mut versions: BTreeMap<&str, u64> = BTreeMap::new();
        let mut last: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
        let mut attributed = 0;
        for write in stored {
            let before = versions.insert(&write.key, write.revision);
            let deleter =
                || before.and_then(|before| deleters.get(&before)).filter(|_| write.kind == WriteKind::Delete);
            // A write of another program, or of a replica that was killed before it got the answer.
            let Some(request) = by_version.get(&write.revision).or_else(deleter) else { continue };
            let Some(About::Object(binding)) = bindings.about(request) else { continue };
            attributed += 1;
            let Received { replica, verb, resource, name, at, .. } = request;
            let number = self.number(binding, replica, *at);
            let number =
                number.with_context(|| format!("{replica} sent {verb} {resource} {name} and never held {binding}"))?;
            let (before, by) = last.entry(&write.key).or_insert((number, replica.as_str()));
            ensure!(
                *before <= number,
                "{replica} sent {verb} {resource} {name}, which {by} had written as a later holder"
            );
            (*before, *by) = (number, replica.as_str());
        }
        Ok(attributed)
    }
}

/// No request about a binding was received later than the renew deadline after the last confirmed renewal of its lease by the same
/// replica, whatever the answer was, and each write builds on what was read. Returns how many requests were looked at.
///
/// # Errors
/// With the request that comes late, or names neither a version nor a UID.
pub fn no_request_is_late(
    sent: [&[Received]; 2],
    bindings: &Bindings,
    deadline: Duration,
    stalls: &Stalls,
) -> Result<usize> {
    let deadline = SignedDuration::try_from(deadline)?;
    let mut all: Vec<&Received> = sent.into_iter().flatten().collect();
    all.sort_by_key(|request| request.at);
    let mut renewed: BTreeMap<(&str, &str), Timestamp> = BTreeMap::new();
    let mut looked_at = 0;
    for request in all {
        let Received { replica, verb, resource, name, at, .. } = request;
        match bindings.about(request) {
            None => {}
            Some(About::Lease(binding)) => {
                let held = (replica.as_str(), binding);
                let is_free = request.body["spec"]["holderIdentity"].as_str().is_none_or(str::is_empty);
                let before = renewed.get(&held).filter(|_| !request.is_claim());
                // A renewal that was stored and answered too late confirmed nothing.
                let is_confirmed = before.is_none_or(|before| !is_late(request.answered, *before + deadline, stalls));
                if request.is_taken() && is_free {
                    renewed.remove(&held);
                } else if request.is_taken() && is_confirmed {
                    renewed.insert(held, *at);
                }
            }
            Some(About::Object(binding)) => {
                looked_at += 1;
                ensure!(
                    builds(request),
                    "{replica} sent {verb} {resource} {name}, which builds on nothing: {}",
                    request.body
                );
                let confirmed = renewed.get(&(replica.as_str(), binding));
                let confirmed = confirmed
                    .with_context(|| format!("{replica} sent {verb} {resource} {name} and does not hold {binding}"))?;
                ensure!(
                    !is_late(*at, *confirmed + deadline, stalls),
                    "{replica} sent {verb} {resource} {name} {:#} after its last renewal of the lease of {binding}",
                    at.duration_since(*confirmed)
                );
            }
        }
    }
    Ok(looked_at)
}

/// Whether a write carries the version or the UID of what it is about. A request whose body was not read is no write.
fn builds(request: &Received) -> bool {
    match request.verb.as_str() {
        _ if request.body.is_null() => true,
        "create" if request.resource == "pods/eviction" => removed_uid(request).is_some(),
        "create" => true,
        "delete" => removed_uid(request).is_some(),
        _ => is_version(&request.body),
    }
}

/// The UID of the object that a deletion or an eviction is about.
fn removed_uid(request: &Received) -> Option<&str> {
    let options = match request.resource.as_str() {
        "pods/eviction" => &request.body["deleteOptions"],
        _ => &request.body,
    };
    options["preconditions"]["uid"].as_str().filter(|uid| !uid.is_empty())
}

/// The pods that replicas have evicted or deleted, by their UIDs.
#[derive(Debug, Default)]
pub struct Removed {
    /// Those whose removal the API server may have accepted.
    all: BTreeSet<String>,
}

impl Removed {
    /// Reads them from what was sent to both clusters. No pod may be removed twice: neither by two replicas, nor by one.
    ///
    /// # Errors
    /// With the pod, and who removed it both times.
    pub fn once(sent: [&[Received]; 2]) -> Result<Self> {
        let mut removed = Self::default();
        let mut first: BTreeMap<&str, &Received> = BTreeMap::new();
        for request in sent.into_iter().flatten() {
            let is_removal = match (request.verb.as_str(), request.resource.as_str()) {
                ("create", "pods/eviction") => true,
                // Without a grace period a pod is finished that was removed before (decision S10).
                ("delete", "pods") => request.body["gracePeriodSeconds"].as_u64() != Some(0),
                _ => false,
            };
            if !is_removal {
                continue;
            }
            let Received { replica, resource, name, body, at, .. } = request;
            let uid =
                removed_uid(request).with_context(|| format!("{replica} removed {name} without its UID: {body}"))?;
            removed.all.insert(uid.to_owned());
            if !request.is_taken() {
                continue;
            }
            if let Some(before) = first.insert(uid, request) {
                anyhow::bail!(
                    "pod {name} ({uid}) was removed twice: by {} at {} with {}, and by {replica} at {at} with {resource}",
                    before.replica,
                    before.at,
                    before.resource
                );
            }
        }
        Ok(removed)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// The pods that terminate although no replica has removed them, by all writes of pods.
    #[must_use]
    pub fn not_by_replicas(&self, writes: &[Write]) -> BTreeSet<String> {
        let ends = writes.iter().filter(|write| write.value["metadata"]["deletionTimestamp"].is_string());
        let pods = ends.filter_map(|write| {
            let metadata = &write.value["metadata"];
            let is_ours = metadata["uid"].as_str().is_some_and(|uid| self.all.contains(uid));
            (!is_ours).then(|| metadata["name"].as_str().unwrap_or_default().to_owned())
        });
        pods.collect()
    }
}

/// The longest time between two renewals of the lease of a node, of all these leases, without the time in which the machine stood
/// still; with its key. A node that was made again has a lease of its own.
#[must_use]
pub fn longest_lease_age<'a>(writes: &'a [Write], stalls: &Stalls) -> Option<(SignedDuration, &'a str)> {
    let mut last: BTreeMap<&str, (&str, Timestamp)> = BTreeMap::new();
    let mut longest = None;
    for write in writes {
        let owner = write.value["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default();
        let Some(at) = renewed(&write.value["spec"]) else {
            last.remove(write.key.as_str());
            continue;
        };
        if let Some((before, since)) = last.insert(&write.key, (owner, at))
            && before == owner
        {
            longest = longest.max(Some((between(since, at, stalls), write.key.as_str())));
        }
    }
    longest
}

/// What node-lifecycle did to these nodes, in words: a node that was ready and is not any more, and a taint that evicts.
#[must_use]
pub fn harmed(writes: &[Write]) -> Vec<String> {
    let mut ready: BTreeSet<&str> = BTreeSet::new();
    let mut harmed = Vec::new();
    for write in writes.iter().filter(|write| write.kind == WriteKind::Put) {
        let uid = write.value["metadata"]["uid"].as_str().unwrap_or_default();
        let conditions = write.value["status"]["conditions"].as_array().into_iter().flatten();
        let status = conditions.filter(|condition| condition["type"] == "Ready").find_map(|it| it["status"].as_str());
        if status == Some("True") {
            ready.insert(uid);
        } else if ready.contains(uid) {
            harmed.push(format!("{} is {status:?} at {}", write.key, write.revision));
        }
        let taints = write.value["spec"]["taints"].as_array().into_iter().flatten();
        for taint in taints.filter(|taint| taint["effect"] == "NoExecute") {
            harmed.push(format!("{} has {taint} at {}", write.key, write.revision));
        }
    }
    harmed
}

fn renewed(spec: &Value) -> Option<Timestamp> {
    spec["renewTime"].as_str()?.parse().ok()
}

fn between(from: Timestamp, to: Timestamp, stalls: &Stalls) -> SignedDuration {
    to.duration_since(from) - stalls.between(from, to)
}

#[cfg(test)]
mod tests;
