//! The requests about CSINodes, each with a deadline. A refusal names the cluster that it is of.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core_v1;
use k8s_openapi::api::storage::v1 as storage_v1;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::Value;
use topoloom_cluster::deadline::answered;
use topoloom_cluster::{Refusal, Side, found};
use topoloom_core::names::Uid;
use topoloom_sync::csi::{Presence, VirtualCsiNode};
use topoloom_sync::precondition::Precondition;

use crate::nodes::{binding_uids, create};
use crate::slices::csi::CsiNodeSlice;

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The clients of a binding's two clusters.
#[derive(Clone)]
pub struct CsiClients {
    /// Live reads of the physical cluster.
    pub physical: kube::Client,
    /// Reads and writes in the virtual cluster, behind the gate of the binding.
    pub lent: kube::Client,
}

/// Requests about CSINodes.
#[derive(Clone)]
pub struct CsiRequests {
    clients: CsiClients,
}

impl CsiRequests {
    /// Requests by these clients.
    #[must_use]
    pub fn new(clients: CsiClients) -> Self {
        Self { clients }
    }

    /// Whether there is a physical CSINode of this name.
    pub(super) async fn physical(&self, name: &str) -> Result<Presence, Refusal> {
        let api: Api<storage_v1::CSINode> = Api::all(self.clients.physical.clone());
        let found = answered(PATIENCE, found(name, api.get_metadata(name))).await;
        found.map(presence).map_err(|refusal| refusal.on(Side::Physical))
    }

    /// Whether there is a virtual node of this name.
    pub(super) async fn node(&self, name: &str) -> Result<Presence, Refusal> {
        let api: Api<core_v1::Node> = Api::all(self.clients.lent.clone());
        answered(PATIENCE, found(name, api.get_metadata(name))).await.map(presence).map_err(ours)
    }

    /// The UIDs of all ClusterBindings.
    pub(super) async fn bindings(&self) -> Result<BTreeSet<Uid>, Refusal> {
        binding_uids(&self.clients.lent).await.map_err(ours)
    }

    /// The virtual CSINode of this name, also one of another.
    pub(super) async fn existing(&self, name: &str) -> Result<Option<VirtualCsiNode>, Refusal> {
        let existing = answered(PATIENCE, found(name, self.lent().get(name))).await.map_err(ours)?;
        Ok(existing.map(CsiNodeSlice::lent))
    }

    /// Makes a virtual CSINode.
    pub(super) async fn create(&self, body: &Value) -> Result<VirtualCsiNode, Refusal> {
        let made = answered(PATIENCE, create::<CsiNodeSlice>(&self.clients.lent, body)).await;
        made.map(CsiNodeSlice::lent).map_err(ours)
    }

    /// Changes one. The patch carries the version that was judged.
    pub(super) async fn patch(&self, name: &str, body: &Value) -> Result<VirtualCsiNode, Refusal> {
        let patched = answered(PATIENCE, self.lent().patch(name, &PatchParams::default(), &Patch::Merge(body))).await;
        patched.map(CsiNodeSlice::lent).map_err(ours)
    }

    /// Deletes one, if it is still as it was judged. What a finalizer keeps is returned.
    pub(super) async fn delete(&self, name: &str, judged: &Precondition) -> Result<Option<VirtualCsiNode>, Refusal> {
        let parameters = DeleteParams::default().preconditions(Preconditions {
            uid: Some(judged.uid().to_string()),
            resource_version: Some(judged.version().to_string()),
        });
        let deleted = answered(PATIENCE, found(name, self.lent().delete(name, &parameters))).await.map_err(ours)?;
        let Some(answer) = deleted else { return Ok(None) };
        // API servers return a CSINode that is gone, too.
        Ok(answer.left().filter(CsiNodeSlice::is_kept).map(CsiNodeSlice::lent))
    }

    fn lent(&self) -> Api<CsiNodeSlice> {
        Api::all(self.clients.lent.clone())
    }
}

fn ours(refusal: Refusal) -> Refusal {
    refusal.on(Side::Virtual)
}

/// Only the answer that there is no object of that name says so. That the whole resource is not served does not.
fn presence<T>(found: Option<T>) -> Presence {
    if found.is_some() { Presence::Found } else { Presence::Gone }
}
