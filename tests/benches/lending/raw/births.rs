//! Lends all machines by the least requests: a claim on the machine, the Node, its lease, which is renewed from then on. And taints
//! Nodes.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::Error;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::sleep;
use topoloom_sync::keys::{OUT_OF_WINDOWS_TAINT, PREFIX};
use topoloom_tests::lending::Background;

use super::{AT_ONCE, RAW};
use crate::seen::Nodes;
use crate::stage::{BINDING, LEASES, PATIENCE, Stage, machine, virtual_node};

/// The label of raw nodes and leases.
const LABEL: &str = "example.com/raw";
/// The claim: no program copies annotations with this prefix.
const CLAIM: &str = "hami.io/raw";
/// Between two renewals.
const INTERVAL: Duration = Duration::from_secs(10);

/// What a raw node and its lease look like.
pub(crate) struct Pattern {
    node: Node,
    lease: Lease,
}

impl Pattern {
    /// As the host has made them, so that they have the same size.
    pub(crate) async fn of_the_host(stage: &Stage) -> Result<Self> {
        let nodes: Api<Node> = Api::all(stage.virtual_plane.client());
        let leases: Api<Lease> = Api::namespaced(stage.virtual_plane.client(), LEASES);
        let name = virtual_node(BINDING, 0);
        let (node, lease) = (nodes.get(&name).await?, leases.get(&name).await?);
        let node = Node { metadata: pattern(node.metadata), ..node };
        Ok(Self { node, lease: Lease { metadata: pattern(lease.metadata), ..lease } })
    }
}

/// Makes a raw node with its lease for each machine; leases are renewed until all are there. The host does not run meanwhile.
pub(crate) async fn births(stage: &Stage, pattern: &Pattern) -> Result<()> {
    let machines: Api<Node> = Api::all(stage.physical_plane.client());
    let nodes: Api<Node> = Api::all(stage.virtual_plane.client());
    let leases: Api<Lease> = Api::namespaced(stage.virtual_plane.client(), LEASES);
    let renewing = Mutex::new(Background::new());
    let lend = |number: u32| {
        let (machines, nodes, leases, Pattern { node, lease }) = (&machines, &nodes, &leases, pattern);
        let renewing = &renewing;
        async move {
            let (mut node, mut lease) = (node.clone(), lease.clone());
            let name = raw_node(number);
            (node.metadata.name, lease.metadata.name) = (Some(name.clone()), Some(name));
            let claim = Patch::Merge(json!({"metadata": {"annotations": {CLAIM: "raw"}}}));
            machines.patch_metadata(&machine(number), &PatchParams::default(), &claim).await?;
            nodes.create(&PostParams::default(), &node).await?;
            let lease = leases.create(&PostParams::default(), &lease).await?;
            renewing.lock().unwrap_or_else(PoisonError::into_inner).spawn(renew(leases.clone(), lease));
            anyhow::Ok(())
        }
    };
    let lending = stream::iter(0..stage.machines).map(lend).buffer_unordered(AT_ONCE);
    let lent = lending.try_for_each(async |()| Ok(())).await.context("the raw client was refused");
    renewing.into_inner().unwrap_or_else(PoisonError::into_inner).stop().await;
    lent
}

/// Renews a lease until it is gone.
async fn renew(leases: Api<Lease>, mut lease: Lease) {
    let name = lease.metadata.name.clone().unwrap_or_default();
    loop {
        sleep(INTERVAL).await;
        lease.spec.get_or_insert_default().renew_time = Some(MicroTime(Timestamp::now()));
        match leases.replace(&name, &PostParams::default(), &lease).await {
            Ok(stored) => lease = stored,
            Err(Error::Api(status)) if status.code == 404 => return,
            // The next turn tries it again, as the host does.
            Err(error) => eprintln!("bench: the raw client cannot renew {name}: {error}"),
        }
    }
}

/// What of the metadata of an object another one of its kind has, too.
fn pattern(metadata: ObjectMeta) -> ObjectMeta {
    let mut labels: BTreeMap<String, String> = metadata.labels.unwrap_or_default();
    labels.retain(|key, _| !key.starts_with(PREFIX));
    labels.insert(LABEL.to_owned(), "true".to_owned());
    ObjectMeta { labels: Some(labels), annotations: metadata.annotations, ..ObjectMeta::default() }
}

/// Taints each raw node, in the version that it has, with one patch.
pub(crate) async fn taints(stage: &Stage) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.virtual_plane.client());
    let listed = nodes.list(&of_raw()).await?.items;
    let taint = |node: Node| {
        let nodes = &nodes;
        async move {
            let name = node.metadata.name.unwrap_or_default();
            let mut taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
            taints.retain(|taint| taint.key != OUT_OF_WINDOWS_TAINT);
            let mut taints = serde_json::to_value(taints)?;
            let new = json!({
                "key": OUT_OF_WINDOWS_TAINT, "value": "true", "effect": "NoSchedule", "timeAdded": Time(Timestamp::now()),
            });
            taints.as_array_mut().context("a list is a list")?.push(new);
            let version = node.metadata.resource_version;
            let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}));
            nodes.patch(&name, &PatchParams::default(), &patch).await?;
            anyhow::Ok(())
        }
    };
    let tainting = stream::iter(listed).map(taint).buffer_unordered(AT_ONCE);
    tainting.try_for_each(async |()| Ok(())).await.context("the raw client was refused")
}

/// Removes what it has made, one by one: to remove thousands in one request would take longer than a request may.
pub(crate) async fn clear(stage: &Stage) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.virtual_plane.client());
    remove(stage.machines, &nodes, raw_node).await?;
    remove_leases(stage, raw_node).await?;
    let is_left = |nodes: &mut Nodes| nodes.named(RAW).next().is_none().then_some(());
    stage.nodes.until("no raw node is left", PATIENCE, is_left).await
}

/// Removes the leases of nodes, as the garbage collector would, which does not run here.
pub(crate) async fn remove_leases(stage: &Stage, name: impl Fn(u32) -> String + Copy) -> Result<()> {
    remove(stage.machines, &Api::<Lease>::namespaced(stage.virtual_plane.client(), LEASES), name).await
}

async fn remove<K>(count: u32, api: &Api<K>, name: impl Fn(u32) -> String + Copy) -> Result<()>
where
    K: Clone + Debug + DeserializeOwned,
{
    let one = |number: u32| async move { gone(api.delete(&name(number), &DeleteParams::default()).await) };
    let removing = stream::iter(0..count).map(one).buffer_unordered(AT_ONCE);
    removing.try_for_each(async |()| Ok(())).await.context("what the benchmark made cannot be removed")
}

fn raw_node(number: u32) -> String {
    format!("{RAW}{}", machine(number))
}

/// What is not there is gone.
fn gone<T>(answer: kube::Result<T>) -> Result<()> {
    match answer {
        Err(Error::Api(status)) if status.code == 404 => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}

fn of_raw() -> ListParams {
    ListParams::default().labels(LABEL)
}
