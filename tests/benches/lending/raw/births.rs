//! Lends all machines by the least requests: a claim on the machine, the Node, its lease. And taints Nodes.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use topoloom_sync::keys::{OUT_OF_WINDOWS_TAINT, PREFIX};

use super::{AT_ONCE, RAW};
use crate::stage::{BINDING, LEASES, Stage, machine, virtual_node};

/// The label of raw nodes and leases.
const LABEL: &str = "example.com/raw";
/// The claim: no program copies annotations with this prefix.
const CLAIM: &str = "hami.io/raw";

/// Makes a raw node with its lease for each machine. A node of the host is the pattern, so that they have the same size. The host
/// does not run meanwhile.
pub(crate) async fn births(stage: &Stage) -> Result<()> {
    let machines: Api<Node> = Api::all(stage.physical_plane.client());
    let nodes: Api<Node> = Api::all(stage.virtual_plane.client());
    let leases: Api<Lease> = Api::namespaced(stage.virtual_plane.client(), LEASES);
    let name = virtual_node(BINDING, 0);
    let (node, lease) = (nodes.get(&name).await?, leases.get(&name).await?);
    let patterns =
        (&Node { metadata: pattern(node.metadata), ..node }, &Lease { metadata: pattern(lease.metadata), ..lease });
    let lend = |number: u32| {
        let (machines, nodes, leases, (node, lease)) = (&machines, &nodes, &leases, patterns);
        async move {
            let (mut node, mut lease) = (node.clone(), lease.clone());
            let name = format!("{RAW}{}", machine(number));
            (node.metadata.name, lease.metadata.name) = (Some(name.clone()), Some(name));
            let claim = Patch::Merge(json!({"metadata": {"annotations": {CLAIM: "raw"}}}));
            machines.patch_metadata(&machine(number), &PatchParams::default(), &claim).await?;
            nodes.create(&PostParams::default(), &node).await?;
            leases.create(&PostParams::default(), &lease).await?;
            anyhow::Ok(())
        }
    };
    let lending = stream::iter(0..stage.machines).map(lend).buffer_unordered(AT_ONCE);
    lending.try_for_each(async |()| Ok(())).await.context("the raw client was refused")
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

/// Removes what it has made.
pub(crate) async fn clear(stage: &Stage) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.virtual_plane.client());
    let leases: Api<Lease> = Api::namespaced(stage.virtual_plane.client(), LEASES);
    nodes.delete_collection(&DeleteParams::default(), &of_raw()).await?;
    leases.delete_collection(&DeleteParams::default(), &of_raw()).await?;
    stage
        .nodes
        .until("no raw node is left", crate::stage::PATIENCE, |nodes| nodes.named(RAW).next().is_none().then_some(()))
        .await
}

fn of_raw() -> ListParams {
    ListParams::default().labels(LABEL)
}
