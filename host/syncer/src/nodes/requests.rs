//! The requests about nodes and the pods on them, each with a deadline.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core_v1;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use serde::de::DeserializeOwned;
use serde_json::Value;
use topoloom_cluster::deadline::answered;
use topoloom_cluster::eviction::evict;
use topoloom_cluster::{Refusal, RefusalReason, found};
use topoloom_core::names::{NodeName, Uid};
use topoloom_core::version::ResourceVersion;
use topoloom_sync::deletion::Existence;
use topoloom_sync::node::{LentNode, LentPod, LiveNode, NodeOrder, PhysicalNode, PodRemoval, RemovalMeans};

use crate::slices::node::NodeSlice;
use crate::slices::pod::PodSlice;

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The clients of a binding's two clusters.
#[derive(Clone)]
pub struct NodeClients {
    /// Live reads of the physical cluster.
    pub physical: kube::Client,
    /// Writes of physical nodes, behind the gate of the binding.
    pub claims: kube::Client,
    /// Reads and writes in the virtual cluster, behind the gate of the binding.
    pub lent: kube::Client,
}

/// Requests about nodes.
#[derive(Clone)]
pub struct NodeRequests {
    clients: NodeClients,
}

/// What is stored after a request.
#[derive(Debug)]
pub enum Stored {
    /// The physical node.
    Physical(Box<PhysicalNode>),
    /// The virtual node of that name.
    Lent(NodeName, Box<LentNode>),
    /// No virtual node of that name.
    LentGone(NodeName),
    /// Nothing that a view holds.
    Nothing,
}

impl NodeRequests {
    /// Requests by these clients.
    #[must_use]
    pub fn new(clients: NodeClients) -> Self {
        Self { clients }
    }

    /// The physical node of this name, live.
    pub(super) async fn physical_node(&self, name: &str) -> Result<LiveNode, Refusal> {
        let api: Api<core_v1::Node> = Api::all(self.clients.physical.clone());
        let found: Option<PartialObjectMeta<core_v1::Node>> =
            answered(PATIENCE, found(name, api.get_metadata(name))).await?;
        let uid = found.map(|node| node.metadata.uid.unwrap_or_default());
        Ok(uid.map_or(LiveNode::Gone, |uid| LiveNode::Found(uid.as_str().into())))
    }

    /// The UIDs of all ClusterBindings, live.
    pub(super) async fn bindings(&self) -> Result<BTreeSet<Uid>, Refusal> {
        binding_uids(&self.clients.lent).await
    }

    /// The virtual node of this name, live.
    pub(super) async fn lent_node(&self, name: &str) -> Result<Option<LentNode>, Refusal> {
        let slice = answered(PATIENCE, found(name, self.lent().get(name))).await?;
        slice.map(|slice| slice.lent().map_err(|error| unreadable(&error))).transpose()
    }

    /// The pods that are bound to the virtual node of this name, live.
    pub(super) async fn pods_of(&self, name: &str) -> Result<Vec<LentPod>, Refusal> {
        let api: Api<PodSlice> = Api::all(self.clients.lent.clone());
        let bound = ListParams::default().fields(&format!("spec.nodeName={name}"));
        let pods = answered(PATIENCE, api.list(&bound)).await?;
        Ok(pods.items.into_iter().map(PodSlice::lent).collect())
    }

    /// Carries out an order about a node. `before` is the version of the virtual node in the answer to the order before.
    pub(super) async fn send(
        &self,
        name: &str,
        order: &NodeOrder,
        before: Option<&ResourceVersion>,
    ) -> Result<Stored, Refusal> {
        let merge = PatchParams::default();
        match order {
            NodeOrder::PatchPhysical { body, .. } | NodeOrder::ReleasePhysical { body } => {
                let api: Api<NodeSlice> = Api::all(self.clients.claims.clone());
                let slice = answered(PATIENCE, api.patch(name, &merge, &Patch::Merge(body))).await?;
                let node = slice.physical().map_err(|error| unreadable(&error))?;
                Ok(Stored::Physical(Box::new(node)))
            }
            NodeOrder::Create { name, body } => lent(name, answered(PATIENCE, create(&self.clients.lent, body)).await?),
            NodeOrder::PatchStatus { name, body, .. } => {
                lent(name, answered(PATIENCE, self.lent().patch_status(name, &merge, &Patch::Merge(body))).await?)
            }
            NodeOrder::PatchSpec { name, version, body } => {
                // Without a version nothing is written: it could be anybody's state that this replaces.
                let version = version.as_ref().or(before).ok_or_else(unversioned)?;
                let body = with_version(body, version);
                lent(name, answered(PATIENCE, self.lent().patch(name, &merge, &Patch::Merge(&body))).await?)
            }
            NodeOrder::RemoveFinalizer { name, body } => {
                let patched =
                    answered(PATIENCE, found(name, self.lent().patch(name, &merge, &Patch::Merge(body)))).await?;
                let Some(slice) = patched else { return Ok(Stored::LentGone(name.clone())) };
                let stored = lent(name, slice)?;
                // The answer to the request that takes the last finalizer off shows the node as it was when it went.
                let is_last = |stored: &Stored| {
                    matches!(stored, Stored::Lent(_, node)
                        if node.existence == Existence::Terminating && node.finalizers.is_empty())
                };
                Ok(if is_last(&stored) { Stored::LentGone(name.clone()) } else { stored })
            }
            NodeOrder::Delete { name, precondition } => {
                let parameters = DeleteParams::default().preconditions(Preconditions {
                    uid: Some(precondition.uid().to_string()),
                    resource_version: Some(precondition.version().to_string()),
                });
                let deleted = answered(PATIENCE, found(name, self.lent().delete(name, &parameters))).await?;
                let Some(answer) = deleted else { return Ok(Stored::LentGone(name.clone())) };
                // What finalizers keep is returned as it is now: what is decided next sees that it terminates.
                match answer.left().map(|slice| lent(name, slice)).transpose()? {
                    Some(stored) if is_kept(&stored) => Ok(stored),
                    Some(_) | None => Ok(Stored::LentGone(name.clone())),
                }
            }
            NodeOrder::Ask(_) | NodeOrder::RemovePods(_) | NodeOrder::StopLease(_) => Ok(Stored::Nothing),
        }
    }

    /// Removes a virtual pod, if it is still that one. One that is gone is removed.
    pub(super) async fn remove_pod(&self, removal: &PodRemoval) -> Result<(), Refusal> {
        let PodRemoval { pod, precondition, means } = removal;
        let api: Api<core_v1::Pod> = Api::namespaced(self.clients.lent.clone(), &pod.namespace);
        match means {
            // An eviction is about the pod, whatever was written on it meanwhile.
            RemovalMeans::Eviction => {
                answered(PATIENCE, found(&pod.name, evict(&api, &pod.name, &pod.uid))).await.map(drop)
            }
            RemovalMeans::Delete | RemovalMeans::Shorten => {
                let (uid, version) = (pod.uid.to_string(), precondition.version().to_string());
                let parameters = DeleteParams { grace_period_seconds: means.grace(), ..DeleteParams::default() }
                    .preconditions(Preconditions { uid: Some(uid), resource_version: Some(version) });
                answered(PATIENCE, found(&pod.name, api.delete(&pod.name, &parameters))).await.map(drop)
            }
        }
    }

    fn lent(&self) -> Api<NodeSlice> {
        Api::all(self.clients.lent.clone())
    }
}

/// Makes an object of the whole cluster, which a slice of it cannot be written as.
pub(crate) async fn create<K>(client: &kube::Client, body: &Value) -> kube::Result<K>
where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned,
{
    create_in(client, None, body).await
}

/// The same of an object in a namespace.
pub(crate) async fn create_in<K>(client: &kube::Client, namespace: Option<&str>, body: &Value) -> kube::Result<K>
where
    K: kube::Resource<DynamicType = ()> + DeserializeOwned,
{
    let bytes = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
    let request = kube::core::Request::new(K::url_path(&(), namespace))
        .create(&PostParams::default(), bytes)
        .map_err(kube::Error::BuildRequest)?;
    client.request(request).await
}

/// The UIDs of all ClusterBindings, live.
pub(crate) async fn binding_uids(lent: &kube::Client) -> Result<BTreeSet<Uid>, Refusal> {
    let api: Api<topoloom_api::cluster_binding::ClusterBinding> = Api::all(lent.clone());
    let list = answered(PATIENCE, api.list_metadata(&ListParams::default())).await?;
    Ok(list.items.into_iter().filter_map(|binding| Some(binding.metadata.uid?.as_str().into())).collect())
}

fn lent(name: &NodeName, slice: NodeSlice) -> Result<Stored, Refusal> {
    let node = slice.lent().map_err(|error| unreadable(&error))?;
    Ok(Stored::Lent(name.clone(), Box::new(node)))
}

/// Whether a node whose deletion was requested is there still.
fn is_kept(stored: &Stored) -> bool {
    matches!(stored, Stored::Lent(_, node)
        if node.existence == Existence::Terminating && !node.finalizers.is_empty())
}

fn with_version(body: &Value, version: &str) -> Value {
    let mut body = body.clone();
    if let Some(Value::Object(metadata)) = body.get_mut("metadata") {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
    body
}

fn unversioned() -> Refusal {
    Refusal {
        reason: RefusalReason::Conflict,
        message: "no answer says in which version the node is".to_owned(),
        retry_after: None,
    }
}

/// An answer that cannot be read is no answer.
pub(crate) fn unreadable(error: &dyn std::fmt::Display) -> Refusal {
    Refusal {
        reason: RefusalReason::ServerError,
        message: format!("the answer cannot be read: {error}"),
        retry_after: None,
    }
}
