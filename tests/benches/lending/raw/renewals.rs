//! Renews the leases of virtual nodes, each ten seconds after the last time, evenly spread: one PUT each, in the version that the
//! answer before has shown.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Api, ListParams};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};
use topoloom_tests::controlplane::client_from;

use crate::alone::READY;
use crate::stage::{LEASES, VIRTUAL};

const INTERVAL: Duration = Duration::from_secs(10);

/// What is read of an answer.
#[derive(Deserialize)]
struct Answer {
    metadata: AnsweredMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnsweredMetadata {
    resource_version: String,
}

/// One lease, ready to be written.
struct Beat {
    path: String,
    body: Value,
}

/// Renews until the process ends.
pub(crate) async fn run(arguments: &[String]) -> Result<()> {
    let [kubeconfig] = arguments else { bail!("one argument: the kubeconfig") };
    let client = client_from(Path::new(kubeconfig)).await?;
    let api: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    let leases = api.list(&ListParams::default()).await?.items;
    let mut beats = leases.iter().filter_map(beat).collect::<Result<Vec<_>>>()?;
    anyhow::ensure!(!beats.is_empty(), "there is no lease of a virtual node");
    println!("{READY}");
    let begin = Instant::now();
    let mut sent = FuturesUnordered::new();
    for turn in 0_usize.. {
        let due = begin + INTERVAL.mul_f64(turn as f64 / beats.len() as f64);
        loop {
            tokio::select! {
                biased;
                Some((index, answered)) = sent.next() => {
                    let answered: Result<String> = answered;
                    let beat: &mut Beat = &mut beats[index];
                    beat.body["metadata"]["resourceVersion"] = Value::String(answered?);
                }
                () = sleep_until(due) => break,
            }
        }
        let index = turn % beats.len();
        let beat = &mut beats[index];
        // As Kubernetes writes a MicroTime.
        beat.body["spec"]["renewTime"] = Value::String(format!("{:.6}", Timestamp::now()));
        let request = Request::put(&beat.path).header("content-type", "application/json");
        let request = request.body(serde_json::to_vec(&beat.body)?)?;
        let client = client.clone();
        sent.push(async move { (index, put(client, request).await) });
    }
    Ok(())
}

async fn put(client: Client, request: Request<Vec<u8>>) -> Result<String> {
    let answer: Answer = client.request(request).await?;
    Ok(answer.metadata.resource_version)
}

/// Nothing for the lease of something else.
fn beat(lease: &Lease) -> Option<Result<Beat>> {
    let name = lease.metadata.name.as_deref().filter(|name| name.starts_with(VIRTUAL))?;
    let metadata = &lease.metadata;
    let body = || -> Result<Value> {
        Ok(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {
                "name": name, "namespace": LEASES, "labels": metadata.labels,
                "ownerReferences": metadata.owner_references,
                "resourceVersion": metadata.resource_version.as_deref().context("a lease has a version")?,
            },
            "spec": lease.spec,
        }))
    };
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{LEASES}/leases/{name}");
    Some(body().map(|body| Beat { path, body }))
}
