//! The physical pod behind a virtual one: both are read live, and judged by [`streams`](topoloom_sync::streams).
//!
//! Owns the reads of one request: the virtual pod, its node, and the physical pod, one after the other and each with a deadline.
//! Never reads a cache: a replica that does not hold the lease of a binding may have none, and what a cache holds may be another
//! pod by now.
//!
//! # Failure story
//!
//! A read that fails, or takes longer than 10 s, is an error of its cluster, and never "there is none". Between the read of the
//! physical pod and its stream the pod can be deleted, and another one made under its name, by whom is not known. No API server takes
//! the UID of a pod with a request for a stream, so the pod is read again ([`still`]) when the stream has begun and before its first
//! byte is passed on. In that moment a command may have begun in the other pod: it has heard nothing, and nothing of it is heard.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1 as core_v1;
use kube::Api;
use kube::api::{ListParams, ObjectMeta, PartialObjectMeta};
use kube::core::NamespaceResourceScope;
use serde::Deserialize;
use topoloom_api::ClusterBinding;
use topoloom_cluster::{Refusal, RefusalReason, Side};
use topoloom_core::names::Uid;
use topoloom_sync::identity::Earlier;
use topoloom_sync::identity::mapping::{PhysicalPodRef, PodSide};
use topoloom_sync::streams::{self, NoStream};

use super::path::Wanted;
use super::{Lender, Lent};
use crate::slices::slice_of;

/// How long one read may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A virtual pod as it is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PodHead {
    metadata: ObjectMeta,
    spec: SpecHead,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecHead {
    node_name: String,
}

slice_of!(PodHead, core_v1::Pod, NamespaceResourceScope);

/// Why there is no physical pod for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoTwin {
    /// It is decided.
    Decided(NoStream),
    /// Something of this cluster cannot be read.
    Unread(Side, Refusal),
}

impl From<NoStream> for NoTwin {
    fn from(why: NoStream) -> Self {
        Self::Decided(why)
    }
}

/// What a judgement needs of a pod.
struct Pod {
    namespace: String,
    name: String,
    uid: Uid,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl From<ObjectMeta> for Pod {
    fn from(metadata: ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default().into(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
        }
    }
}

impl Pod {
    fn side(&self) -> PodSide<'_> {
        PodSide { namespace: &self.namespace, name: &self.name, uid: &self.uid, annotations: &self.annotations }
    }
}

/// A virtual pod that is on a node.
pub(super) struct VirtualPod {
    pod: Pod,
    /// That node.
    pub(super) node: String,
}

/// Whether the physical pod that was judged is still the one under its name.
///
/// # Errors
/// It is gone, or it cannot be read.
pub(super) async fn still(lender: &Lender, judged: &PhysicalPodRef) -> Result<(), NoTwin> {
    let uid = read(lender, judged).await?.and_then(|metadata| metadata.uid).map(Uid::from);
    if uid.is_some() && uid == judged.uid { Ok(()) } else { Err(NoStream::Gone(judged.clone()).into()) }
}

/// What there is under the name of a physical pod.
async fn read(lender: &Lender, named: &PhysicalPodRef) -> Result<Option<ObjectMeta>, NoTwin> {
    let pods: Api<core_v1::Pod> = Api::namespaced(lender.connection.reads().clone(), &named.namespace);
    let found: Option<PartialObjectMeta<core_v1::Pod>> =
        answered(pods.get_metadata_opt(&named.name), Side::Physical).await?;
    Ok(found.map(|found| found.metadata))
}

/// Reads of the virtual cluster.
pub(super) struct Reads {
    client: kube::Client,
}

impl Reads {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client }
    }

    /// The virtual pod that a request names.
    ///
    /// # Errors
    /// There is none, it is on no node, or it cannot be read.
    pub(super) async fn virtual_pod(&self, wanted: &Wanted) -> Result<VirtualPod, NoTwin> {
        let api: Api<PodHead> = Api::namespaced(self.client.clone(), &wanted.namespace);
        let found = answered(api.get_opt(&wanted.pod), Side::Virtual).await?;
        let PodHead { metadata, spec } = found.ok_or(NoStream::NoPod)?;
        let pod = Pod::from(metadata);
        let node = streams::node_of(&pod.uid, Some(spec.node_name.as_str()), wanted.uid.as_deref())?.to_owned();
        Ok(VirtualPod { pod, node })
    }

    /// The physical pod of a virtual one, with the UID that was judged, and by whom it is reached.
    ///
    /// # Errors
    /// Its node is not lent here, there is no such pod, it is another's, or it cannot be read.
    pub(super) async fn physical_pod(
        &self,
        twin: &VirtualPod,
        lent: &dyn Lent,
    ) -> Result<(Lender, PhysicalPodRef), NoTwin> {
        let VirtualPod { pod: twin, node } = twin;
        let nodes: Api<core_v1::Node> = Api::all(self.client.clone());
        let found: Option<PartialObjectMeta<core_v1::Node>> =
            answered(nodes.get_metadata_opt(node), Side::Virtual).await?;
        let labels = found.and_then(|found| found.metadata.labels).unwrap_or_default();
        let lender = lent.lender(&labels).ok_or_else(|| NoStream::NotLent { node: node.clone() })?;
        let named =
            streams::wanted((node.as_str(), &labels), &twin.annotations, &lender.identity, &lender.mount_namespace)?;

        let Some(found) = read(&lender, &named).await? else { return Err(NoStream::Gone(named).into()) };
        let physical = Pod::from(found);
        let judge =
            |earlier| streams::judge((&physical.side(), &physical.labels), &twin.side(), &lender.identity, earlier);
        match judge(Earlier::Unlisted) {
            Err(NoStream::NotAdopted(uid)) => judge(self.earlier(&uid).await?)?,
            judged => judged?,
        }
        Ok((lender, PhysicalPodRef { uid: Some(physical.uid), ..named }))
    }
}

impl Reads {
    /// Whether the ClusterBinding with this UID is gone.
    async fn earlier(&self, uid: &Uid) -> Result<Earlier, NoTwin> {
        let bindings: Api<ClusterBinding> = Api::all(self.client.clone());
        let list = answered(bindings.list_metadata(&ListParams::default()), Side::Virtual).await?;
        let stands = list.items.iter().any(|binding| binding.metadata.uid.as_deref() == Some(&**uid));
        Ok(if stands { Earlier::Stands } else { Earlier::Gone })
    }
}

async fn answered<T>(read: impl Future<Output = kube::Result<T>>, side: Side) -> Result<T, NoTwin> {
    let refusal = match tokio::time::timeout(PATIENCE, read).await {
        Ok(Ok(found)) => return Ok(found),
        Ok(Err(error)) => Refusal::of(&error),
        Err(_) => {
            let message = format!("the API server did not answer within {} s", PATIENCE.as_secs());
            Refusal { reason: RefusalReason::Unreachable, message, retry_after: None }
        }
    };
    Err(NoTwin::Unread(side, refusal.on(side)))
}
