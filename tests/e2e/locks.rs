//! The node lock and the Bind of the extender, on a real API server (`node-lock-and-bind.md` part A).

mod bind;
mod crowd;
mod faults;
mod foreign;
mod hands;
mod library;
mod pages;
mod restored;
mod scheduler;
mod storm;
mod sweeps;
mod vendors;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use topoloom_tests::controlplane::{eventually, plain_http};
use topoloom_tests::faults::Faults;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{PATIENCE, Scene};

const LOCK: &str = "hami.io/mutex.lock";
const CAMBRICON: &str = "cambricon.com/dsmlu.lock";
const NOTE: &str = "topoloom.dev/node-lock";

/// A cluster with nodes, and a host whose extender serves on a free port.
struct LockScene {
    scene: Scene,
    host: Host,
    extender: BindClient,
}

/// A client that calls an extender, as kube-scheduler does.
#[derive(Clone)]
struct BindClient {
    url: String,
    http: reqwest::Client,
}

/// A Bind under way. If a test drops it, the caller gives up.
struct Begun {
    task: JoinSet<Result<String>>,
    caller: BindClient,
}

impl Begun {
    /// Closes the connection, and returns once the host has closed it, too: then the host knows that its caller is
    /// gone.
    async fn given_up(mut self) {
        self.task.shutdown().await;
        eventually("the host has closed the connection", PATIENCE, async || {
            let open = self.caller.connections().map_err(|error| format!("{error:#}"))?;
            if open == 0 { Ok(()) } else { Err(format!("{open} are open")) }
        })
        .await;
    }

    /// Waits for the answer and returns its error, which is empty if the Bind succeeded.
    async fn ended(mut self) -> Result<String> {
        self.task.join_next().await.context("it was begun")??
    }
}

fn plain_client() -> reqwest::Client {
    plain_http().build().expect("nothing of it can be wrong")
}

impl BindClient {
    /// A client of this host's extender, once the extender serves.
    async fn of(host: &Host) -> Self {
        let address = host.extender().await;
        Self { url: format!("http://{address}"), http: plain_client() }
    }

    /// Requests a Bind and returns the error of the answer, which is empty if the Bind succeeded.
    async fn bind(&self, pod: &Pod, node: &str) -> Result<String> {
        let metadata = &pod.metadata;
        let body = json!({
            "PodName": metadata.name, "PodNamespace": metadata.namespace, "PodUID": metadata.uid, "Node": node,
        });
        let answer: Value = self.http.post(format!("{}/bind", self.url)).json(&body).send().await?.json().await?;
        Ok(answer["Error"].as_str().context("there is an Error")?.to_owned())
    }

    /// How many connections to this extender the host has not closed: their local port is the extender's (proc(5),
    /// `/proc/net/tcp`).
    fn connections(&self) -> Result<usize> {
        let (_, port) = self.url.rsplit_once(':').context("its URL has a port")?;
        let local = format!(":{:04X}", port.parse::<u16>()?);
        let table = std::fs::read_to_string("/proc/net/tcp")?;
        // Established, or closed by the client alone.
        let is_open = |state: &str| ["01", "08"].contains(&state);
        let open = table.lines().filter(|line| {
            let mut cells = line.split_whitespace().skip(1);
            let (address, state) = (cells.next(), cells.nth(1));
            address.is_some_and(|address| address.ends_with(&local)) && state.is_some_and(is_open)
        });
        Ok(open.count())
    }
}

impl LockScene {
    async fn new(nodes: &[&str], arguments: &[&str]) -> Result<Self> {
        let scene = Self::scene(nodes).await?;
        let kubeconfig = scene.host_kubeconfig().await?;
        Self::on(scene, &kubeconfig, arguments).await
    }

    /// A host that talks to the API server through a proxy that injects faults.
    async fn through_faults(nodes: &[&str], arguments: &[&str]) -> Result<(Self, Faults)> {
        let scene = Self::scene(nodes).await?;
        let faults = Faults::start(&scene.plane, &scene.host_kubeconfig().await?).await?;
        let stage = Self::on(scene, faults.kubeconfig(), arguments).await?;
        Ok((stage, faults))
    }

    async fn scene(nodes: &[&str]) -> Result<Scene> {
        let scene = Scene::new().await?;
        scene.nodes(nodes).await?;
        scene.configure("networkTopologyDiscovery: []").await?;
        scene.binds().await?;
        Ok(scene)
    }

    async fn on(scene: Scene, kubeconfig: &std::path::Path, arguments: &[&str]) -> Result<Self> {
        let arguments = [&["--extender-address", "127.0.0.1:0"][..], arguments].concat();
        let host = Host::start(kubeconfig, &arguments).await?;
        let extender = BindClient::of(&host).await;
        Ok(Self { scene, host, extender })
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.scene.plane.client())
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.scene.plane.client())
    }

    async fn create(&self, pod: Value) -> Result<Pod> {
        Ok(self.pods().create(&Default::default(), &serde_json::from_value(pod)?).await?)
    }

    /// Creates a pod that requests one unit of a resource.
    async fn pod(&self, name: &str, resource: &str) -> Result<Pod> {
        self.create(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "none", "resources": {"limits": {resource: "1"}}}]},
        }))
        .await
    }

    /// Starts a Bind in the background.
    fn begin(&self, pod: &Pod, node: &str) -> Begun {
        let (caller, pod, node) = (self.extender.clone(), pod.clone(), node.to_owned());
        let mut task = JoinSet::new();
        task.spawn(async move { caller.bind(&pod, &node).await });
        Begun { task, caller: self.extender.clone() }
    }

    async fn gpu_pod(&self, name: &str) -> Result<Pod> {
        self.pod(name, "nvidia.com/gpu").await
    }

    async fn annotations(&self, node: &str) -> Result<std::collections::BTreeMap<String, String>> {
        Ok(self.nodes().get(node).await?.metadata.annotations.unwrap_or_default())
    }

    async fn annotate(&self, node: &str, annotations: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        self.nodes().patch(node, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Another client binds a pod, and ignores every lock.
    async fn bind_by_hand(&self, pod: &str, node: &str) -> Result<()> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.pods().create_subresource::<_, kube::core::Status>("binding", pod, &Default::default(), &binding).await?;
        Ok(())
    }

    /// Writes the status of a pod, as a kubelet does.
    async fn status(&self, pod: &str, status: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"status": status}));
        self.pods().patch_status(pod, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// The device plugin of a node answers for a pod by removing the lock, and the kubelet starts the pod.
    async fn served(&self, node: &str, pod: &str) -> Result<()> {
        self.annotate(node, json!({LOCK: null})).await?;
        self.status(pod, json!({"phase": "Running", "startTime": "2026-08-01T06:10:00Z"})).await
    }

    async fn node_of(&self, pod: &str) -> Result<Option<String>> {
        Ok(self.pods().get(pod).await?.spec.and_then(|spec| spec.node_name))
    }

    async fn until_free(&self, node: &str) {
        eventually("no lock is left on the node", PATIENCE, async || {
            let annotations = self.annotations(node).await.map_err(|error| error.to_string())?;
            // A note without its lock is void; the writer of the next lock replaces it.
            if annotations.contains_key(LOCK) { Err(format!("{annotations:?}")) } else { Ok(()) }
        })
        .await;
    }

    /// Waits until the host has seen a pod.
    async fn knows(&self, pod: &str) {
        eventually(&format!("the host knows {pod}"), PATIENCE, async || {
            let dump = self.host.get("/debug/dump").await.map_err(|error| error.to_string())?;
            if dump.contains(&format!("\"default/{pod}\"")) { Ok(()) } else { Err("it does not".to_owned()) }
        })
        .await;
    }

    /// Waits until there is an Event about an object with this reason and these words.
    async fn until_event(&self, kind: &str, name: &str, reason: &str, words: &str) {
        eventually(&format!("{kind} {name} has an Event {reason} with {words:?}"), PATIENCE, async || {
            let said = events(&self.scene, kind, name).await.map_err(|error| error.to_string())?;
            if said.iter().any(|(of, note)| of == reason && note.contains(words)) {
                Ok(())
            } else {
                Err(format!("{said:#?}"))
            }
        })
        .await;
    }

    async fn until_logged(&self, words: &str) {
        eventually(&format!("the log has {words:?}"), PATIENCE, async || {
            let log = self.host.log();
            if log.iter().any(|line| line.contains(words)) {
                Ok(())
            } else {
                Err(log.last().cloned().unwrap_or_default())
            }
        })
        .await;
    }

    async fn stop(self) -> Result<()> {
        self.host.stop().await
    }
}

/// The Events about an object: reason and note of each.
async fn events(scene: &Scene, kind: &str, name: &str) -> Result<Vec<(String, String)>> {
    let events: Api<k8s_openapi::api::events::v1::Event> = Api::all(scene.plane.client());
    let about = events.list(&Default::default()).await?.items.into_iter().filter(|event| {
        let regarding = event.regarding.clone().unwrap_or_default();
        regarding.kind.as_deref() == Some(kind) && regarding.name.as_deref() == Some(name)
    });
    Ok(about.map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default())).collect())
}
