//! The requests of a binding about itself: its object, its Lease in the physical cluster, and the lease with its witness.
//!
//! Owns their bodies and deadlines. Each write carries the resourceVersion that it was decided on, and a create fails where the object
//! exists. A refusal names the cluster that it is of: what is done with several of them may ask both.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use topoloom_api::ClusterBinding;
use topoloom_cluster::deadline::answered;
use topoloom_cluster::pages::Pages;
use topoloom_cluster::{Refusal, RefusalReason, Side, found};
use topoloom_core::names::{NodeName, Uid};
use topoloom_sync::identity::Identity;
use topoloom_sync::identity::borrower::Borrower;
use topoloom_sync::keys;
use topoloom_sync::naming::{BindingName, ClusterId};
use topoloom_sync::node::EarlierId;
use topoloom_sync::served::silence::Beats;

use crate::group::{of_binding, of_name};
use crate::heartbeats;
use crate::slices::OnlyMetadata;

/// How long one request may take; of a list, each page.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the Lease that replicas stand for to serve a binding is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The clients of a binding.
#[derive(Clone)]
pub(super) struct Clients {
    /// Reads of the virtual cluster.
    pub(super) lent: kube::Client,
    /// Writes there, behind the gate of the binding.
    pub(super) lent_writes: kube::Client,
    /// Reads of the physical cluster.
    pub(super) physical: kube::Client,
    /// Writes there, behind the gate of the binding.
    pub(super) physical_writes: kube::Client,
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A Lease, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SeenLease {
    pub(super) uid: String,
    pub(super) version: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// Its holder; empty where it has none.
    pub(super) holder: String,
    /// How long it lasts, where it says so.
    pub(super) lasts: Option<Duration>,
}

impl From<Lease> for SeenLease {
    fn from(lease: Lease) -> Self {
        let ObjectMeta { uid, resource_version, labels, annotations, .. } = lease.metadata;
        let LeaseSpec { holder_identity, lease_duration_seconds, .. } = lease.spec.unwrap_or_default();
        Self {
            uid: uid.unwrap_or_default(),
            version: resource_version.unwrap_or_default(),
            labels: labels.unwrap_or_default(),
            annotations: annotations.unwrap_or_default(),
            holder: holder_identity.unwrap_or_default(),
            lasts: lease_duration_seconds.and_then(seconds),
        }
    }
}

fn seconds(seconds: i32) -> Option<Duration> {
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

impl Clients {
    /// Of a binding for which nothing is asked of any physical cluster.
    pub(super) fn of_virtual(reads: &kube::Client, writes: &kube::Client) -> Self {
        Self {
            lent: reads.clone(),
            lent_writes: writes.clone(),
            physical: reads.clone(),
            physical_writes: writes.clone(),
        }
    }

    fn bindings(client: &kube::Client) -> Api<ClusterBinding> {
        Api::all(client.clone())
    }

    /// Merges this into the status of the binding in that version. Returns what is stored.
    pub(super) async fn patch_status(
        &self,
        name: &str,
        version: &str,
        status: &Value,
    ) -> Result<ClusterBinding, Refusal> {
        let body = json!({"metadata": {"resourceVersion": version}, "status": status});
        let api = Self::bindings(&self.lent_writes);
        lent(api.patch_status(name, &PatchParams::default(), &Patch::Merge(&body))).await
    }

    /// Takes an annotation off the binding in that version: a newer one of the operator stays.
    pub(super) async fn take_annotation(
        &self,
        name: &str,
        version: &str,
        key: &str,
    ) -> Result<ClusterBinding, Refusal> {
        let body = json!({"metadata": {"resourceVersion": version, "annotations": {key: null}}});
        let api = Self::bindings(&self.lent_writes);
        lent(api.patch(name, &PatchParams::default(), &Patch::Merge(&body))).await
    }

    /// Writes all finalizers of the binding in that version.
    pub(super) async fn finalizers(
        &self,
        name: &str,
        version: &str,
        finalizers: &[String],
    ) -> Result<ClusterBinding, Refusal> {
        let body = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
        let api = Self::bindings(&self.lent_writes);
        lent(api.patch(name, &PatchParams::default(), &Patch::Merge(&body))).await
    }

    /// All bindings, live.
    pub(super) async fn all_bindings(&self) -> Result<Vec<ClusterBinding>, Refusal> {
        Ok(lent(Self::bindings(&self.lent).list(&ListParams::default())).await?.items)
    }

    /// The UIDs of all bindings, live.
    pub(super) async fn binding_uids(&self) -> Result<BTreeSet<Uid>, Refusal> {
        let list = lent(Self::bindings(&self.lent).list_metadata(&ListParams::default())).await?;
        Ok(list.items.into_iter().filter_map(|binding| Some(binding.metadata.uid?.as_str().into())).collect())
    }

    /// Whether there is a virtual node of the binding, live. Those that an earlier one of its name made under another `clusterID` are none.
    pub(super) async fn has_lent(&self, identity: &Identity, cluster: &ClusterId) -> Result<bool, Refusal> {
        let api: Api<Node> = Api::all(self.lent.clone());
        let list = ListParams::default().labels(&of_binding(identity));
        let mut pages: Pages<OnlyMetadata> = Pages::metadata(api, list);
        let none = BTreeMap::new();
        let is_earlier = |node: &OnlyMetadata| {
            let ObjectMeta { name, labels, annotations, .. } = &node.metadata;
            let (name, labels) = (name.as_deref().unwrap_or_default(), labels.as_ref().unwrap_or(&none));
            EarlierId::of(name, labels, annotations.as_ref().unwrap_or(&none), identity, cluster).is_some()
        };
        while let Some(page) = lent(pages.next()).await? {
            if !page.iter().all(is_earlier) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many virtual nodes of a binding of this name there are, live.
    pub(super) async fn count_named(&self, virtual_cluster: &Uid, binding: &BindingName) -> Result<usize, Refusal> {
        let api: Api<Node> = Api::all(self.lent.clone());
        let list = ListParams::default().labels(&of_name(virtual_cluster, binding));
        count(Pages::metadata(api, list), Side::Virtual, |_| true).await
    }

    /// How many physical pods of the binding there are in its namespace, live, but for those of these virtual nodes.
    pub(super) async fn count_pods(
        &self,
        identity: &Identity,
        namespace: &str,
        but: &BTreeMap<NodeName, ClusterId>,
    ) -> Result<usize, Refusal> {
        let api: Api<Pod> = Api::namespaced(self.physical.clone(), namespace);
        let list = ListParams::default().labels(&of_binding(identity));
        count(Pages::metadata(api, list), Side::Physical, |pod| {
            let node = pod.annotations.as_ref().and_then(|all| all.get(keys::VIRTUAL_NODE_NAME));
            !node.is_some_and(|node| but.contains_key(node.as_str()))
        })
        .await
    }

    /// How many physical nodes have this claim, live.
    pub(super) async fn count_claims(&self, claim: &str) -> Result<usize, Refusal> {
        let api: Api<Node> = Api::all(self.physical.clone());
        count(Pages::metadata(api, ListParams::default()), Side::Physical, |node| {
            node.annotations.as_ref().and_then(|all| all.get(keys::LEASED_BY)).is_some_and(|by| by == claim)
        })
        .await
    }

    /// The texts of the records in leases of this namespace, by the names of the leases, live.
    pub(super) async fn records(&self, namespace: &str) -> Result<Vec<(String, String)>, Refusal> {
        let api: Api<Lease> = Api::namespaced(self.lent.clone(), namespace);
        let mut pages: Pages<OnlyMetadata> = Pages::metadata(api, ListParams::default());
        let mut records = Vec::new();
        while let Some(page) = lent(pages.next()).await? {
            records.extend(page.into_iter().filter_map(|lease| {
                let text = lease.metadata.annotations?.remove(keys::BINDING_RECORD)?;
                Some((lease.metadata.name?, text))
            }));
        }
        Ok(records)
    }

    /// The lease that replicas stand for to serve the binding, live.
    pub(super) async fn lease(&self, lease: &LeaseName) -> Result<Option<SeenLease>, Refusal> {
        let api: Api<Lease> = Api::namespaced(self.lent.clone(), &lease.namespace);
        Ok(lent(found(&lease.name, api.get(&lease.name))).await?.map(SeenLease::from))
    }

    /// What the leases of virtual nodes with these labels show, live.
    pub(super) async fn node_leases(&self, labels: &str) -> Result<Beats, Refusal> {
        let api: Api<Lease> = Api::namespaced(self.lent.clone(), heartbeats::NAMESPACE);
        let (mut beats, mut pages) = (Beats::default(), Pages::whole(api, ListParams::default().labels(labels)));
        while let Some(page) = lent(pages.next()).await? {
            for lease in page {
                let LeaseSpec { lease_duration_seconds, renew_time, .. } = lease.spec.unwrap_or_default();
                let Some((node, time)) = lease.metadata.name.zip(renew_time) else { continue };
                beats.lasts = beats.lasts.max(lease_duration_seconds.and_then(seconds));
                beats.renewed.insert(node.into(), time.0);
            }
        }
        Ok(beats)
    }

    /// Writes the witness into it.
    pub(super) async fn write_witness(
        &self,
        lease: &LeaseName,
        seen: &SeenLease,
        text: &str,
    ) -> Result<SeenLease, Refusal> {
        self.annotate_lease(lease, seen, keys::WITNESS, Some(text)).await
    }

    /// Writes the record of the binding into it, or removes it.
    pub(super) async fn write_record(
        &self,
        lease: &LeaseName,
        seen: &SeenLease,
        text: Option<&str>,
    ) -> Result<SeenLease, Refusal> {
        self.annotate_lease(lease, seen, keys::BINDING_RECORD, text).await
    }

    /// Another writer of the lease, which renews it, may come in between: then it is read again. The text was made from what had been
    /// seen. Where something else stands there by now, or another replica holds the lease, that is a conflict, and its caller looks anew:
    /// an older number of the witness over a newer one would look like a store that was set back, and the other way round would hide one.
    async fn annotate_lease(
        &self,
        lease: &LeaseName,
        seen: &SeenLease,
        key: &str,
        text: Option<&str>,
    ) -> Result<SeenLease, Refusal> {
        let api: Api<Lease> = Api::namespaced(self.lent_writes.clone(), &lease.namespace);
        let is_as_seen = |now: &SeenLease| {
            let what =
                |lease: &SeenLease| (lease.uid.clone(), lease.holder.clone(), lease.annotations.get(key).cloned());
            what(now) == what(seen)
        };
        let mut version = seen.version.clone();
        for _ in 0..3 {
            let body = json!({"metadata": {"resourceVersion": version, "annotations": {key: text}}});
            let (merge, patch) = (PatchParams::default(), Patch::Merge(&body));
            match lent(api.patch(&lease.name, &merge, &patch)).await {
                Err(refusal) if refusal.reason == RefusalReason::Conflict => {
                    version = self.lease(lease).await?.filter(is_as_seen).ok_or(refusal)?.version;
                }
                answer => return answer.map(SeenLease::from),
            }
        }
        let message = "other writers of the lease of the binding come in between all the time".to_owned();
        Err(Refusal { reason: RefusalReason::Conflict, message, retry_after: None }.on(Side::Virtual))
    }

    /// The Lease of the borrower in the physical cluster, live.
    pub(super) async fn borrower_lease(&self, namespace: &str, name: &str) -> Result<Option<SeenLease>, Refusal> {
        let api: Api<Lease> = Api::namespaced(self.physical.clone(), namespace);
        Ok(physical(found(name, api.get(name))).await?.map(SeenLease::from))
    }

    /// Makes it. Where one exists that is a refusal, so that of two that come at once only one has made it.
    pub(super) async fn make_borrower_lease(
        &self,
        namespace: &str,
        borrower: &Borrower<'_>,
    ) -> Result<SeenLease, Refusal> {
        let api: Api<Lease> = Api::namespaced(self.physical_writes.clone(), namespace);
        let metadata =
            ObjectMeta { name: Some(borrower.lease()), labels: Some(borrower.labels()), ..ObjectMeta::default() };
        let mut lease = Lease { metadata, ..Lease::default() };
        lease.spec.get_or_insert_default().holder_identity = Some(borrower.holder());
        physical(api.create(&PostParams::default(), &lease)).await.map(SeenLease::from)
    }

    /// Writes our labels and our name into one that an earlier binding left, in that version. Its copy of the witness is not ours.
    pub(super) async fn adopt_borrower_lease(
        &self,
        namespace: &str,
        borrower: &Borrower<'_>,
        version: &str,
    ) -> Result<SeenLease, Refusal> {
        let body = json!({
            "metadata": {
                "resourceVersion": version,
                "labels": borrower.labels(),
                "annotations": {keys::WITNESS_COPY: null},
            },
            "spec": {"holderIdentity": borrower.holder()},
        });
        self.patch_borrower_lease(namespace, &borrower.lease(), &body).await
    }

    /// Writes the copy of the witness into it, in that version.
    pub(super) async fn write_copy(
        &self,
        namespace: &str,
        name: &str,
        version: &str,
        text: &str,
    ) -> Result<SeenLease, Refusal> {
        let body = json!({"metadata": {"resourceVersion": version, "annotations": {keys::WITNESS_COPY: text}}});
        self.patch_borrower_lease(namespace, name, &body).await
    }

    async fn patch_borrower_lease(&self, namespace: &str, name: &str, body: &Value) -> Result<SeenLease, Refusal> {
        let api: Api<Lease> = Api::namespaced(self.physical_writes.clone(), namespace);
        let (merge, patch) = (PatchParams::default(), Patch::Merge(body));
        physical(api.patch(name, &merge, &patch)).await.map(SeenLease::from)
    }

    /// Deletes it, if it is still that one. One that is gone is deleted.
    pub(super) async fn delete_borrower_lease(
        &self,
        namespace: &str,
        name: &str,
        seen: &SeenLease,
    ) -> Result<(), Refusal> {
        let api: Api<Lease> = Api::namespaced(self.physical_writes.clone(), namespace);
        let parameters = DeleteParams::default()
            .preconditions(Preconditions { uid: Some(seen.uid.clone()), resource_version: Some(seen.version.clone()) });
        physical(found(name, api.delete(name, &parameters))).await.map(drop)
    }
}

/// The answer of the virtual cluster.
async fn lent<T, E: Into<Refusal>>(request: impl Future<Output = Result<T, E>>) -> Result<T, Refusal> {
    answer(Side::Virtual, request).await
}

/// The answer of the physical cluster.
async fn physical<T, E: Into<Refusal>>(request: impl Future<Output = Result<T, E>>) -> Result<T, Refusal> {
    answer(Side::Physical, request).await
}

async fn answer<T, E: Into<Refusal>>(side: Side, request: impl Future<Output = Result<T, E>>) -> Result<T, Refusal> {
    answered(PATIENCE, request).await.map_err(|refusal| refusal.on(side))
}

/// How many of these objects are such ones. Nothing of a page is kept.
async fn count(
    mut pages: Pages<OnlyMetadata>,
    side: Side,
    is_one: impl Fn(&ObjectMeta) -> bool,
) -> Result<usize, Refusal> {
    let mut count = 0;
    while let Some(page) = answer(side, pages.next()).await? {
        count += page.iter().filter(|object| is_one(&object.metadata)).count();
    }
    Ok(count)
}
