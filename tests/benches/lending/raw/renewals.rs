//! Renews the leases of virtual nodes, each ten seconds after the last time, evenly spread: one PUT each, in the version that the
//! answer before has shown.
//!
//! A renewal that fails is counted and printed. The lease is renewed again when its turn comes, and read before that: a request that was
//! not answered in time may have been carried out.

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
    /// A renewal is under way.
    is_sent: bool,
    /// The last one failed, so it is not known which version the lease has.
    is_doubtful: bool,
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
    let (mut sent, mut failed) = (FuturesUnordered::new(), 0_u64);
    for turn in 0_usize.. {
        let due = begin + INTERVAL.mul_f64(turn as f64 / beats.len() as f64);
        loop {
            tokio::select! {
                biased;
                Some((index, answered)) = sent.next() => {
                    let answered: Result<String> = answered;
                    let beat: &mut Beat = &mut beats[index];
                    (beat.is_sent, beat.is_doubtful) = (false, answered.is_err());
                    match answered {
                        Ok(version) => beat.body["metadata"]["resourceVersion"] = Value::String(version),
                        Err(error) => {
                            failed += 1;
                            eprintln!("bench: the raw client could not renew {}, failure {failed}: {error:#}", beat.path);
                        }
                    }
                }
                () = sleep_until(due) => break,
            }
        }
        let index = turn % beats.len();
        let beat = &mut beats[index];
        if beat.is_sent {
            // The one before is not answered yet, and its version would be the wrong one.
            continue;
        }
        beat.is_sent = true;
        // As Kubernetes writes a MicroTime.
        beat.body["spec"]["renewTime"] = Value::String(format!("{:.6}", Timestamp::now()));
        let request = put(&beat.path, &beat.body)?;
        let doubtful = beat.is_doubtful.then(|| (beat.path.clone(), beat.body.clone()));
        let client = client.clone();
        sent.push(async move { (index, renew(&client, request, doubtful).await) });
    }
    Ok(())
}

/// Sends a renewal; of a lease in an unknown version, after a look at it.
async fn renew(client: &Client, request: Request<Vec<u8>>, doubtful: Option<(String, Value)>) -> Result<String> {
    let request = match doubtful {
        None => request,
        Some((path, mut body)) => {
            let version = send(client, Request::get(&path).body(Vec::new())?).await.context("it cannot be read")?;
            body["metadata"]["resourceVersion"] = Value::String(version);
            put(&path, &body)?
        }
    };
    send(client, request).await
}

fn put(path: &str, body: &Value) -> Result<Request<Vec<u8>>> {
    let request = Request::put(path).header("content-type", "application/json");
    Ok(request.body(serde_json::to_vec(body)?)?)
}

/// Returns the version in the answer.
async fn send(client: &Client, request: Request<Vec<u8>>) -> Result<String> {
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
    Some(body().map(|body| Beat { path, body, is_sent: false, is_doubtful: false }))
}
