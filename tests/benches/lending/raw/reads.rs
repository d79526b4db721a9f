//! Reads the lists that a start needs, in the order that decision S11 sets, and keeps nothing of them.

use anyhow::{Context, Result};
use futures::future::try_join_all;
use kube::Client;
use kube::api::ListParams;
use kube::core::{ListMeta, Request};
use serde::Deserialize;
use serde::de::IgnoredAny;
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;

use crate::stage::Stage;

/// Objects of one page: more than the host asks for, so this client has fewer requests.
const PAGE: u32 = 500;
/// How often a page is asked for again that the API server could not answer in time.
const REPEATED: u32 = 20;
/// The pods that use room.
const USES_ROOM: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// What is read of a page.
#[derive(Deserialize)]
struct Page {
    metadata: ListMeta,
    #[serde(rename = "items")]
    _items: Vec<IgnoredAny>,
}

/// Reads the lists of a start: the virtual cluster, then the physical one, all of one cluster at the same time.
pub(crate) async fn lists(stage: &Stage) -> Result<()> {
    let identity = stage.identity().await?;
    let (binding, cluster) = selectors(&identity);
    let nodes = "/api/v1/nodes";
    let csi = "/apis/storage.k8s.io/v1/csinodes";
    let pods = "/api/v1/pods";
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let policies = "/apis/topoloom.dev/v1alpha1/resourceleasingpolicies";
    let all = ListParams::default;
    let of_binding = || all().labels(&binding);
    let lent =
        [(leases, of_binding()), (nodes, of_binding()), (csi, of_binding()), (pods, all().fields("spec.nodeName!="))];
    let (ours, others) =
        (format!("{}={cluster}", keys::VIRTUAL_CLUSTER), format!("{}!={cluster}", keys::VIRTUAL_CLUSTER));
    let physical = [
        (nodes, all()),
        (csi, all()),
        (policies, all()),
        (pods, all().labels(&ours)),
        (pods, all().labels(&others).fields(USES_ROOM)),
    ];
    let read = |client: Client, path: &'static str, list: ListParams| async move {
        pages(client, path, list).await.with_context(|| format!("the raw client cannot list {path}"))
    };
    let of = |client: Client| move |(path, list): (&'static str, ListParams)| read(client.clone(), path, list);
    try_join_all(lent.map(of(stage.virtual_plane.client()))).await?;
    try_join_all(physical.map(of(stage.physical_plane.client()))).await?;
    Ok(())
}

/// Reads the list of the machines alone.
pub(crate) async fn machines(stage: &Stage) -> Result<()> {
    let read = pages(stage.physical_plane.client(), "/api/v1/nodes", ListParams::default());
    read.await.context("the raw client cannot list the machines")
}

/// The selector of what is of the binding, and the identity of the virtual cluster.
fn selectors(identity: &Identity) -> (String, String) {
    let labels = identity.labels();
    let of = |key: &str| labels.get(key).cloned().unwrap_or_default();
    let (cluster, binding) = (of(keys::VIRTUAL_CLUSTER), of(keys::BINDING));
    (format!("{}={cluster},{}={binding}", keys::VIRTUAL_CLUSTER, keys::BINDING), cluster)
}

async fn pages(client: Client, path: &str, list: ListParams) -> Result<()> {
    let mut list = list.limit(PAGE);
    loop {
        let page = page(&client, Request::new(path).list(&list)?).await?;
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => list = list.continue_token(&token),
            None => return Ok(()),
        }
    }
}

/// One page. An API server whose cache is behind its store waits for it for three seconds and then answers 504
/// (`ResourceVersionTooLarge`); each client asks again, and so does this one.
async fn page(client: &Client, request: http::Request<Vec<u8>>) -> Result<Page> {
    let mut left = REPEATED;
    loop {
        match client.request(request.clone()).await {
            Err(kube::Error::Api(answer)) if answer.code == 504 && left > 0 => left -= 1,
            answer => return Ok(answer?),
        }
    }
}
