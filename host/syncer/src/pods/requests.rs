//! The requests about pods, each with a deadline.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core_v1;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, Preconditions};
use serde_json::Value;
use topoloom_cluster::deadline::answered;
use topoloom_cluster::pages::Pages;
use topoloom_cluster::{Refusal, found};
use topoloom_core::names::Uid;
use topoloom_sync::precondition::Precondition;

use crate::nodes::binding_uids;
use crate::pod_state::PodState;
use crate::slices::OnlyMetadata;
use crate::slices::pod::{PodName, WholePod};

/// How long one request may take; of a list, each page.
const PATIENCE: Duration = Duration::from_secs(10);
/// Virtual pods that may name a physical one.
const BOUND: &str = "spec.nodeName!=";

/// The clients of a binding's two clusters.
#[derive(Clone)]
pub struct PodClients {
    /// Live reads of the physical cluster.
    pub physical: kube::Client,
    /// Deletions of physical pods, behind the gate of the binding.
    pub orphans: kube::Client,
    /// Reads and writes in the virtual cluster, behind the gate of the binding.
    pub lent: kube::Client,
}

/// Requests about pods.
#[derive(Clone)]
pub(super) struct PodRequests {
    clients: PodClients,
}

impl PodRequests {
    pub(super) fn new(clients: PodClients) -> Self {
        Self { clients }
    }

    /// The physical pod of this name, live.
    pub(super) async fn physical(&self, name: &PodName) -> Result<Option<WholePod>, Refusal> {
        let (namespace, name) = name.parts();
        let api: Api<WholePod> = Api::namespaced(self.clients.physical.clone(), namespace);
        answered(PATIENCE, found(name, api.get(name))).await
    }

    /// The UID of the physical pod of this name, live.
    pub(super) async fn physical_uid(&self, namespace: &str, name: &str) -> Result<Option<Uid>, Refusal> {
        let api: Api<core_v1::Pod> = Api::namespaced(self.clients.physical.clone(), namespace);
        let found: Option<PartialObjectMeta<core_v1::Pod>> =
            answered(PATIENCE, found(name, api.get_metadata(name))).await?;
        Ok(found.map(|pod| pod.metadata.uid.unwrap_or_default().into()))
    }

    /// The UID of the physical node of this name, live.
    pub(super) async fn physical_node(&self, name: &str) -> Result<Option<Uid>, Refusal> {
        let api: Api<core_v1::Node> = Api::all(self.clients.physical.clone());
        let found: Option<PartialObjectMeta<core_v1::Node>> =
            answered(PATIENCE, found(name, api.get_metadata(name))).await?;
        Ok(found.map(|node| node.metadata.uid.unwrap_or_default().into()))
    }

    /// The virtual pod of this name, live.
    pub(super) async fn twin(&self, namespace: &str, name: &str) -> Result<Option<WholePod>, Refusal> {
        answered(PATIENCE, found(name, self.twins(namespace).get(name))).await
    }

    /// The virtual pods that name a physical one, by the name of that, by a live list to its end. Only their metadata is read.
    pub(super) async fn twins_naming(&self) -> Result<HashMap<PodName, Vec<Arc<PodState>>>, Refusal> {
        let api: Api<core_v1::Pod> = Api::all(self.clients.lent.clone());
        let mut naming: HashMap<PodName, Vec<Arc<PodState>>> = HashMap::new();
        let mut pages: Pages<OnlyMetadata> = Pages::metadata(api, ListParams::default().fields(BOUND));
        while let Some(page) = answered(PATIENCE, pages.next()).await? {
            for twin in &page {
                let twin = PodState::of_metadata(&twin.metadata, &BTreeSet::new());
                if let Some(named) = twin.names_physical() {
                    naming.entry(PodName::new(&named.namespace, &named.name)).or_default().push(Arc::new(twin));
                }
            }
        }
        Ok(naming)
    }

    /// The UIDs of all ClusterBindings, live.
    pub(super) async fn bindings(&self) -> Result<BTreeSet<Uid>, Refusal> {
        binding_uids(&self.clients.lent).await
    }

    /// Writes the status of a virtual pod. The patch carries its version.
    pub(super) async fn patch_status(&self, namespace: &str, name: &str, body: &Value) -> Result<WholePod, Refusal> {
        let api = self.twins(namespace);
        answered(PATIENCE, api.patch_status(name, &PatchParams::default(), &Patch::Merge(body))).await
    }

    /// Deletes a physical pod with its own grace, if it is still the one that was judged. One that is gone is deleted.
    pub(super) async fn delete_physical(&self, name: &PodName, judged: &Precondition) -> Result<(), Refusal> {
        let (namespace, name) = name.parts();
        let api: Api<core_v1::Pod> = Api::namespaced(self.clients.orphans.clone(), namespace);
        answered(PATIENCE, found(name, api.delete(name, &only(judged)))).await.map(drop)
    }

    /// Removes a virtual pod at once, if it is still the one that was judged. One that is gone is removed.
    pub(super) async fn remove_twin(&self, name: &PodName, judged: &Precondition) -> Result<(), Refusal> {
        let (namespace, name) = name.parts();
        let api: Api<core_v1::Pod> = Api::namespaced(self.clients.lent.clone(), namespace);
        answered(PATIENCE, found(name, api.delete(name, &only(judged).grace_period(0)))).await.map(drop)
    }

    fn twins(&self, namespace: &str) -> Api<WholePod> {
        Api::namespaced(self.clients.lent.clone(), namespace)
    }
}

fn only(judged: &Precondition) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions {
        uid: Some(judged.uid().to_string()),
        resource_version: Some(judged.version().to_string()),
    })
}
