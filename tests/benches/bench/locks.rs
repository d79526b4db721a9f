//! The node lock on a real API server: what a Bind costs, compared with the calls that it consists of.

mod latency;
mod sweep;
mod throughput;
mod waiters;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use topoloom_tests::controlplane::Requests;
use topoloom_tests::hami::{BIND_PHASE, BIND_TIME, Device, SHARED_LOCK, Vendor, WorkList};
use topoloom_tests::host::Host;
use topoloom_tests::scene::Scene;

use crate::options::Options;
use crate::table::Table;

/// Requests under way while objects are made.
const AT_ONCE: usize = 32;

pub(crate) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    if options.wants("binds") {
        latency::measure(options, table).await?;
    }
    if options.wants("throughput") {
        throughput::measure(table).await?;
    }
    if options.wants("waiters") {
        waiters::measure(table).await?;
    }
    if options.wants("sweep") {
        sweep::measure(options, table).await?;
    }
    Ok(())
}

/// A control plane with nodes and an empty configuration.
async fn scene(nodes: usize) -> Result<Scene> {
    eprintln!("bench: starting a control plane with {nodes} nodes for locks");
    let scene = Scene::alone().await?;
    scene.plane.create_nodes((0..nodes).map(|node| (node_name(node), Vec::<(String, String)>::new()))).await?;
    scene.configure("networkTopologyDiscovery: []").await?;
    Ok(scene)
}

fn node_name(node: usize) -> String {
    format!("gpu-{node:05}")
}

/// A host whose extender serves, and a client for it.
async fn extender(scene: &Scene) -> Result<(Host, BindClient)> {
    let arguments = ["--log", "info", "--extender-address", "127.0.0.1:0"];
    let host = Host::launch(&scene.plane.kubeconfig(), &arguments).await?;
    let url = format!("http://{}/bind", host.extender().await);
    Ok((host, BindClient { url, http: reqwest::Client::builder().no_proxy().build()? }))
}

/// A client that requests Binds.
#[derive(Clone)]
struct BindClient {
    url: String,
    http: reqwest::Client,
}

impl BindClient {
    async fn bind(&self, pod: &Pod, node: &str) -> Result<()> {
        let body = json!({
            "PodName": pod.metadata.name, "PodNamespace": pod.metadata.namespace, "PodUID": pod.metadata.uid, "Node": node,
        });
        let answer: Value = self.http.post(&self.url).json(&body).send().await?.json().await?;
        anyhow::ensure!(answer["Error"] == "", "a Bind failed: {}", answer["Error"]);
        Ok(())
    }
}

/// Creates this many pods with a device chosen for each.
async fn pods(scene: &Scene, prefix: &str, count: usize) -> Result<Vec<Pod>> {
    let api: Api<Pod> = Api::default_namespaced(scene.plane.client());
    let device = Device { uuid: "GPU-0".into(), kind: "NVIDIA".into(), memory: 1000, cores: 10 };
    let list = WorkList::new([vec![device]]).to_string();
    let create = |index: usize| {
        let (api, list) = (api.clone(), list.clone());
        async move {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("{prefix}{index:05}"), "annotations": {Vendor::Nvidia.work_list(): list}},
                "spec": {"containers": [{"name": "c", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
            });
            anyhow::Ok(api.create(&PostParams::default(), &serde_json::from_value(pod)?).await?)
        }
    };
    stream::iter(0..count).map(create).buffered(AT_ONCE).try_collect().await.context("a pod cannot be made")
}

/// The two calls of a Bind, made by hand.
async fn raw(client: &kube::Client, pod: &Pod, node: &str, version: &str) -> Result<()> {
    let (nodes, pods): (Api<Node>, Api<Pod>) = (Api::all(client.clone()), Api::default_namespaced(client.clone()));
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let value = format!("{:.9},default,{name}", jiff::Timestamp::now());
    let note = json!({"value": value, "uid": uid, "attempt": "1", "instance": "raw", "deadline": jiff::Timestamp::now().to_string()});
    let annotations = json!({SHARED_LOCK: value, "topoloom.dev/node-lock": note.to_string()});
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version, "annotations": annotations}}));
    nodes.patch_metadata(node, &PatchParams::default(), &patch).await?;
    let annotations = json!({BIND_PHASE: "allocating", BIND_TIME: jiff::Timestamp::now().as_second().to_string()});
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": pod.metadata.resource_version, "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    pods.create_subresource::<_, kube::core::Status>("binding", name, &PostParams::default(), &binding).await?;
    Ok(())
}

/// The reads and writes of nodes and pods, as text.
fn told(requests: &Requests) -> String {
    let count = |resource: &str, subresource: &str, verbs: &[&str]| {
        requests.count(|request| {
            request.resource == resource && request.subresource == subresource && verbs.contains(&request.verb.as_str())
        })
    };
    let reads = ["GET", "LIST"];
    format!(
        "reads of nodes {}, of pods {}; patches of nodes {}, Bindings {}, Events {}",
        count("nodes", "", &reads),
        count("pods", "", &reads),
        count("nodes", "", &["PATCH"]),
        count("pods", "binding", &["POST"]),
        requests.writes("events", ""),
    )
}
