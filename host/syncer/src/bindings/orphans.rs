//! What is kept of a binding for the nodes that it leaves if it is deleted by force, and how it is found again (decision S22), at the
//! API servers.
//!
//! Owns the record in the Lease that replicas stand for: it is written before anything is made for the binding, read by a replica that
//! finds none, and removed when nothing is left. What it says and what follows is decided by
//! [`orphaned`](topoloom_sync::orphaned). Never reads a record where the binding exists, and never writes one for a binding that
//! does not.
//!
//! # Failure story
//!
//! What cannot be read is asked for again, for as long as it takes: that a list failed never means that no node is left. A record that
//! cannot be removed costs one look of each process that starts.

use std::sync::Arc;

use serde_json::json;
use tokio::time::Instant;
use topoloom_api::cluster_binding::{CopySpec, Mode};
use topoloom_api::{ClusterBinding, ClusterBindingSpec, Word};
use topoloom_cluster::Refusal;
use topoloom_cluster::pause::Pauses;
use topoloom_core::names::Uid;
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_sync::naming::BindingName;
use topoloom_sync::orphaned::{self, Left, RECORD_MAX, Record};

use super::requests::{Clients, LeaseName, SeenLease};
use super::{Holding, Process};

/// What is kept of a binding with this spec in force; nothing where it cannot be kept.
pub(super) fn record(spec: &ClusterBindingSpec, identity: &Identity, physical_cluster: &str) -> Option<String> {
    let text = |spec: &ClusterBindingSpec| {
        let record = Record {
            binding: identity.binding().clone(),
            uid: identity.binding_uid().clone(),
            virtual_cluster: identity.virtual_cluster().clone(),
            physical_cluster: physical_cluster.into(),
            spec: serde_json::to_value(spec).ok()?,
        };
        Some(record.text())
    };
    let is_short = |text: &String| text.len() <= RECORD_MAX;
    // Without the long parts what is copied would be another thing, so nothing but leases is written then.
    let short = || ClusterBindingSpec {
        node_selector: None,
        copy: CopySpec::default(),
        mode: Word::of(Mode::Observe),
        ..spec.clone()
    };
    text(spec).filter(is_short).or_else(|| text(&short())).filter(is_short)
}

/// Keeps this record in the Lease, where it does not have it.
pub(super) async fn keep(clients: &Clients, lease: &LeaseName, text: &str) -> Result<Kept, Refusal> {
    // Without an election it is made a moment later.
    let Some(seen) = clients.lease(lease).await? else { return Ok(Kept::NoLease) };
    if of(&seen) != Some(text) {
        clients.write_record(lease, &seen, Some(text)).await?;
    }
    Ok(Kept::Yes)
}

/// Whether a record is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// It is.
    Yes,
    /// There is no Lease yet.
    NoLease,
}

/// Removes the record from the Lease, where it has one: nothing is left, or another installation serves the binding.
pub(super) async fn forget(clients: &Clients, lease: &LeaseName, seen: Option<&SeenLease>) {
    let Some(seen) = seen.filter(|seen| of(seen).is_some()) else { return };
    if let Err(refusal) = clients.write_record(lease, seen, None).await {
        tracing::debug!(
            lease = lease.name, reason = refusal.reason.as_str(), error = %refusal, "the record of a binding could not be removed"
        );
    }
}

fn of(lease: &SeenLease) -> Option<&str> {
    lease.annotations.get(keys::BINDING_RECORD).map(String::as_str)
}

/// A binding that does not exist, as its record has it, where nodes of it are left. Asks until that is known.
pub(super) async fn left(process: &Process, holding: &Holding) -> Option<Arc<ClusterBinding>> {
    let mut pauses = Pauses::default();
    let clients = Clients::of_virtual(&process.lent, &holding.lent);
    loop {
        match look(&clients, &process.virtual_cluster, &holding.name, &holding.lease).await {
            Ok(left) => return left.map(Arc::new),
            Err(refusal) => {
                tracing::warn!(
                    binding = holding.name, reason = refusal.reason.as_str(), error = %refusal,
                    "what is left of a binding that does not exist cannot be read"
                );
                (holding.tell)(Some(&format!("it does not exist, and what is left of it cannot be read: {refusal}")));
                tokio::time::sleep(pauses.failed(Instant::now(), refusal.retry_after)).await;
            }
        }
    }
}

async fn look(
    clients: &Clients,
    virtual_cluster: &Uid,
    name: &str,
    lease: &LeaseName,
) -> Result<Option<ClusterBinding>, Refusal> {
    let Ok(name) = BindingName::parse(name) else { return Ok(None) };
    let seen = clients.lease(lease).await?;
    let nodes = clients.count_named(virtual_cluster, &name).await?;
    match orphaned::judge(nodes, seen.as_ref().and_then(of), virtual_cluster, &name) {
        Left::Nothing => {
            forget(clients, lease, seen.as_ref()).await;
            Ok(None)
        }
        Left::Orphaned(record) => Ok(object(&record).or_else(|| unrecorded(&name, nodes))),
        Left::Unrecorded => Ok(unrecorded(&name, nodes)),
    }
}

fn unrecorded(name: &BindingName, nodes: usize) -> Option<ClusterBinding> {
    tracing::error!(
        binding = &**name,
        nodes,
        "virtual nodes are left of a ClusterBinding that was deleted by force, and the Lease of this installation has no record of \
         it, so it cannot renew their leases. Apply it again to adopt them, or remove them with topoloom lend release"
    );
    None
}

/// The binding as its record has it; nothing where its spec cannot be read.
fn object(record: &Record) -> Option<ClusterBinding> {
    let object = json!({
        "metadata": {"name": &*record.binding, "uid": &*record.uid},
        "spec": record.spec,
        "status": {"physicalClusterUID": &*record.physical_cluster},
    });
    serde_json::from_value(object).ok().filter(|object: &ClusterBinding| object.spec.is_ok())
}

/// What leases keep of bindings: of those that exist, and of those that were deleted by force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Records(Vec<(String, String)>);

impl Records {
    /// Those in this namespace. Asks until that is known.
    pub async fn read(reads: &kube::Client, namespace: &str) -> Self {
        let clients = Clients::of_virtual(reads, reads);
        let (mut pauses, mut is_said) = (Pauses::default(), false);
        loop {
            match clients.records(namespace).await {
                Ok(records) => return Self(records),
                Err(refusal) => {
                    let reason = refusal.reason.as_str();
                    if std::mem::replace(&mut is_said, true) {
                        tracing::debug!(reason, error = %refusal, "the records of bindings cannot be listed");
                    } else {
                        tracing::warn!(
                            reason, error = %refusal,
                            "the records of bindings cannot be listed: what bindings have left that were deleted by force is not found"
                        );
                    }
                    tokio::time::sleep(pauses.failed(Instant::now(), refusal.retry_after)).await;
                }
            }
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bindings that they are of: those of this virtual cluster, in leases whose names begin with this base.
    #[must_use]
    pub fn bindings(&self, base: &str, virtual_cluster: &Uid) -> Vec<(BindingName, Uid)> {
        let records = self.0.iter().map(|(lease, text)| (lease.as_str(), text.as_str()));
        orphaned::recorded(records, base, virtual_cluster)
    }
}

#[cfg(test)]
mod tests;
