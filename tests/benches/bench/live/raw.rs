//! A writer that knows the result before: it sends only the requests that every program must send, and reads no answer.
//!
//! For each HyperNode one create (a server-side apply with resourceVersion 1) and one apply of its status, in the order
//! in which the host writes them, as many at once.

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use topoloom_api::HyperNode;
use topoloom_api::hyper_node::{API_VERSION, KIND};
use topoloom_api::names::FIELD_MANAGER;

/// Requests under way at most, for objects and for statuses each: the default of the host.
const AT_ONCE: usize = 8;

/// Everything that has to be written, ready to be sent.
pub(super) struct Raw {
    pairs: Vec<[Request<Vec<u8>>; 2]>,
}

impl Raw {
    /// The writes that make these objects.
    pub(super) fn new<'a>(objects: impl Iterator<Item = &'a HyperNode>) -> Result<Self> {
        let mut objects: Vec<&HyperNode> = objects.collect();
        objects.sort_by_key(|object| object.spec.tier);
        let pairs = objects.into_iter().map(pair).collect::<Result<_>>()?;
        Ok(Self { pairs })
    }

    pub(super) async fn write(&self, client: &kube::Client) -> Result<()> {
        let send = async |request: Request<Vec<u8>>| client.request_text(request).await.map(drop);
        stream::iter(&self.pairs)
            .map(async |[create, status]| send(create.clone()).await.map(|()| status))
            .buffer_unordered(AT_ONCE)
            .map_ok(|status| send(status.clone()))
            .try_buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await
            .context("the raw writer was refused")?;
        Ok(())
    }
}

fn pair(object: &HyperNode) -> Result<[Request<Vec<u8>>; 2]> {
    let metadata = &object.metadata;
    let name = metadata.name.as_deref().context("an object has a name")?;
    let create = json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": {
            "name": name, "labels": metadata.labels, "annotations": metadata.annotations, "resourceVersion": "1",
        },
        "spec": object.spec,
    });
    let count = object.status.as_ref().and_then(|status| status.node_count);
    let status = json!({
        "apiVersion": API_VERSION, "kind": KIND,
        "metadata": {"name": name}, "status": {"nodeCount": count},
    });
    let requests = kube::core::Request::new(<HyperNode as kube::Resource>::url_path(&(), None));
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    let create = requests.patch(name, &parameters, &Patch::<Value>::Apply(create))?;
    let status = requests.patch_subresource("status", name, &parameters, &Patch::<Value>::Apply(status))?;
    Ok([create, status])
}
