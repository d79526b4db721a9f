//! The requests about placeholders, each with a deadline, all to the virtual cluster.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core_v1;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::Value;
use topoloom_cluster::deadline::answered;
use topoloom_cluster::{Refusal, found};
use topoloom_core::names::Uid;
use topoloom_sync::csi::Presence;
use topoloom_sync::keys;
use topoloom_sync::ports::Placeholder;
use topoloom_sync::precondition::Precondition;

use crate::nodes::{binding_uids, create_in};
use crate::slices::pod::PodSlice;

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Requests about placeholders.
#[derive(Clone)]
pub struct PortRequests {
    lent: kube::Client,
}

impl PortRequests {
    /// Requests by this client of the virtual cluster, which is behind the gate of the binding.
    #[must_use]
    pub fn new(lent: kube::Client) -> Self {
        Self { lent }
    }

    /// Whether there is a virtual node of this name.
    pub(super) async fn node(&self, name: &str) -> Result<Presence, Refusal> {
        let api: Api<core_v1::Node> = Api::all(self.lent.clone());
        let node = answered(PATIENCE, found(name, api.get_metadata(name))).await?;
        Ok(if node.is_some() { Presence::Found } else { Presence::Gone })
    }

    /// The UIDs of all ClusterBindings.
    pub(super) async fn bindings(&self) -> Result<BTreeSet<Uid>, Refusal> {
        binding_uids(&self.lent).await
    }

    /// The pod of this name among the placeholders, also one of others.
    pub(super) async fn existing(&self, name: &str) -> Result<Option<Placeholder>, Refusal> {
        let existing = answered(PATIENCE, found(name, self.placeholders().get(name))).await?;
        Ok(existing.map(|slice| slice.as_placeholder()))
    }

    /// Makes a placeholder.
    pub(super) async fn create(&self, body: &Value) -> Result<Placeholder, Refusal> {
        let made = create_in::<PodSlice>(&self.lent, Some(keys::HOST_PORT_NAMESPACE), body);
        answered(PATIENCE, made).await.map(|slice| slice.as_placeholder())
    }

    /// Writes the status of one. The patch carries the version that was judged.
    pub(super) async fn mark(&self, name: &str, body: &Value) -> Result<Placeholder, Refusal> {
        let (api, merge) = (self.placeholders(), PatchParams::default());
        let marked = answered(PATIENCE, api.patch_status(name, &merge, &Patch::Merge(body))).await;
        marked.map(|slice| slice.as_placeholder())
    }

    /// Deletes one at once, if it is still as it was judged. What a finalizer keeps is returned.
    pub(super) async fn delete(&self, name: &str, judged: &Precondition) -> Result<Option<Placeholder>, Refusal> {
        let preconditions =
            Preconditions { uid: Some(judged.uid().to_string()), resource_version: Some(judged.version().to_string()) };
        let parameters = DeleteParams::default().preconditions(preconditions).grace_period(0);
        let deleted = answered(PATIENCE, found(name, self.placeholders().delete(name, &parameters))).await?;
        let Some(answer) = deleted else { return Ok(None) };
        // API servers return a pod that is gone, too.
        Ok(answer.left().filter(PodSlice::is_kept).map(|slice| slice.as_placeholder()))
    }

    fn placeholders(&self) -> Api<PodSlice> {
        Api::namespaced(self.lent.clone(), keys::HOST_PORT_NAMESPACE)
    }
}
