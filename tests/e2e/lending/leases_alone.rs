//! Writes that are switched off: by `--read-only`, by the annotation on the ConfigMap, and for one binding by `lend pause` (decisions
//! S23 and S27). Pods run on lent nodes, much happens in the physical cluster, and nothing is written but leases; a binding that is
//! paused also mirrors. For ten grace periods of node-lifecycle all nodes stay ready and no pod is evicted.
//!
//! The three are three replicas beside each other, each with a binding of its own. A replica with `--read-only` lends nothing by
//! itself: it takes over what an earlier one lent. To decide which replica gets a binding the others are stopped meanwhile (SIGSTOP).
//! What was written is read from the audit logs of both API servers, and what became of nodes and pods from etcd.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::{Value, json};
use topoloom_api::ClusterBinding;
use topoloom_api::names::READ_ONLY_ANNOTATION;
use topoloom_sync::identity::Identity;
use topoloom_sync::naming::{BindingName, physical_pod_name};
use topoloom_tests::controlplane::{ControlPlane, KEEPERS, Wanted, Write, WriteKind, eventually};
use topoloom_tests::failover::log::{Log, Received};
use topoloom_tests::failover::tenures::{Bindings, harmed};
use topoloom_tests::host::Host;
use topoloom_tests::lending::Background;
use topoloom_tests::lending::kubelets::{self, Kubelets, NewNode};
use topoloom_tests::lending::player::{self, Player};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::group::ready;
use super::lent::{cluster, says, until};
use super::pair::{BORROWED, SHOP};
use super::several::{LENT_TO, SYSTEM, binding, borrows, lends, pod, stores};
use super::verbs::topoloom;
use super::{condition, phase, until_pod};

/// node-lifecycle marks a node whose lease was not renewed for so long.
const GRACE: Duration = Duration::from_secs(3);
const LIFECYCLE: [&str; 2] = ["--node-monitor-period=500ms", "--node-monitor-grace-period=3s"];
/// For how many of its grace periods nothing is written.
const PERIODS: u32 = 10;
/// How often a lease of a virtual node is renewed meanwhile, at least: each second, less what a busy machine loses.
const RENEWALS: usize = 20;
/// A replica that is stopped while others take their bindings keeps what it has.
const LEASES: [&str; 4] = [
    "--leader-elect-resource-name=topoloom-syncer",
    "--leader-elect-lease-duration=90s",
    "--leader-elect-renew-deadline=70s",
    "--leader-elect-retry-period=1s",
];
const BASE: &str = "topoloom-syncer";

/// The bindings, by what switches their writes off.
const ANNOTATED: &str = "annotated";
const PAUSED: &str = "paused";
const FLAGGED: &str = "flagged";
const NAMES: [&str; 3] = [ANNOTATED, PAUSED, FLAGGED];
/// The ConfigMaps of the first replica, and of the others.
const SWITCHES: [&str; 2] = ["switch-annotated", "switch"];
/// The condition of a physical pod that shows whether pods are mirrored.
const SEEN: &str = "example.com/seen";

struct Stage {
    virtual_plane: ControlPlane,
    physical_plane: ControlPlane,
    kubelets: Kubelets,
    background: Background,
    players: Vec<Player>,
    bindings: Bindings,
}

/// The replicas, by what switches their writes off.
struct Replicas {
    annotated: Host,
    pausing: Host,
    flagged: Host,
    /// Lends what the one with the flag takes over.
    lender: Host,
}

impl Replicas {
    fn all(&self) -> [&Host; 4] {
        [&self.annotated, &self.pausing, &self.flagged, &self.lender]
    }

    /// Lets these run, and stops the others.
    fn only(&self, runs: &[&Host]) -> Result<()> {
        for host in self.all() {
            let is_one = runs.iter().any(|one| std::ptr::eq(*one, host));
            host.signal(if is_one { Signal::CONT } else { Signal::STOP })?;
        }
        Ok(())
    }
}

/// A machine of a binding: the first two are lent, the third joins later.
fn machine(binding: &str, place: &str) -> String {
    format!("{binding}-{place}")
}

fn lent(binding: &str, place: &str) -> String {
    format!("vnode-{binding}-{binding}-{place}")
}

fn nodes_of(binding: &str) -> [String; 2] {
    ["a", "b"].map(|place| lent(binding, place))
}

fn new_machine(binding: &str, place: &str) -> NewNode {
    NewNode::named(machine(binding, place)).label(LENT_TO, binding).label("rack", "r1")
}

impl Stage {
    /// Two clusters and the accounts of the replicas; their kubeconfigs, in the order of [`SWITCHES`].
    async fn new() -> Result<(Self, Vec<PathBuf>)> {
        let [virtual_plane, physical_plane] = Scene::planes([Wanted::Audited, Wanted::Audited]).await?;
        let names = NAMES.map(str::to_owned);
        let (kubeconfigs, lender) =
            tokio::try_join!(borrows(&virtual_plane, &SWITCHES), lends(&physical_plane, &names))?;
        stores(&virtual_plane, &lender).await?;
        let mut background = Background::new();
        let (kubelets, run) = Kubelets::new(physical_plane.client(), &kubelets::Settings::default());
        background.spawn(run);
        kubelets.register(NAMES.iter().flat_map(|name| ["a", "b"].map(|place| new_machine(name, place)))).await?;
        let bindings = Bindings::new(BASE, names)?;
        Ok((Self { virtual_plane, physical_plane, kubelets, background, players: Vec::new(), bindings }, kubeconfigs))
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.virtual_plane.client())
    }

    fn virtual_pods(&self) -> Api<Pod> {
        Api::namespaced(self.virtual_plane.client(), SHOP)
    }

    fn physical_pods(&self) -> Api<Pod> {
        Api::namespaced(self.physical_plane.client(), BORROWED)
    }

    fn cluster_bindings(&self) -> Api<ClusterBinding> {
        Api::all(self.virtual_plane.client())
    }

    /// Waits until a replica of this name holds the lease of a binding.
    async fn until_held(&self, binding: &str, replica: &str) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.virtual_plane.client(), SYSTEM);
        let lease = self.bindings.lease(binding).context("a binding has a lease")?;
        eventually(&format!("{replica} holds {binding}"), PATIENCE, async || {
            let held = leases.get(lease).await.map_err(|error| error.to_string())?;
            let holder = held.spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
            if holder.starts_with(&format!("{replica}_")) { Ok(()) } else { Err(holder) }
        })
        .await;
        Ok(())
    }

    /// Stores a binding, which the only replica that runs takes, and waits until its machines are lent.
    async fn bind(&self, name: &str, replica: &str) -> Result<()> {
        let timing = json!({
            "lease": "4s", "suspect": "20s", "unreachable": "60s", "empty": "3s", "recheck": "1s", "grow": "1s",
        });
        self.virtual_plane.apply(&[binding(name, &timing)]).await?;
        self.until_held(name, replica).await?;
        for node in nodes_of(name) {
            until(&self.nodes(), &node, "is ready", |node| ready(node) == "True").await;
        }
        Ok(())
    }

    /// Makes a pod on each lent node of a binding, with a top-down half that copies it, and waits until it runs.
    async fn fill(&mut self, name: &str) -> Result<()> {
        let uid = self.cluster_bindings().get(name).await?.metadata.uid.context("a binding has a UID")?;
        let settings = player::Settings {
            identity: Identity::new(cluster(&self.virtual_plane).await?, BindingName::parse(name)?, uid.into())?,
            mount_namespace: BORROWED.to_owned(),
            patience: 2 * PATIENCE,
        };
        let (player, run) = Player::new(self.virtual_plane.client(), self.physical_plane.client(), settings);
        self.background.spawn(run);
        self.players.push(player);
        for place in ["a", "b"] {
            let pod = pod(&machine(name, place), &lent(name, place));
            self.virtual_pods().create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        }
        for place in ["a", "b"] {
            until_pod(&self.virtual_pods(), &machine(name, place), "runs", |pod| phase(pod) == "Running").await;
        }
        Ok(())
    }

    /// Waits until the leases of all virtual nodes were renewed after this.
    async fn until_renewed(&self, after: Timestamp) {
        let leases: Api<Lease> = Api::namespaced(self.virtual_plane.client(), "kube-node-lease");
        let names: BTreeSet<String> = NAMES.iter().flat_map(|name| nodes_of(name)).collect();
        eventually(&format!("the leases of all virtual nodes are renewed after {after}"), PATIENCE, async || {
            let all = leases.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
            let renewed = all.into_iter().filter_map(|lease| {
                let is_late = lease.spec?.renew_time.is_some_and(|time| time.0 > after);
                lease.metadata.name.filter(|_| is_late)
            });
            let renewed: BTreeSet<String> = renewed.collect();
            if names.is_subset(&renewed) { Ok(()) } else { Err(format!("{renewed:?}")) }
        })
        .await;
    }

    /// Switches the writes of the annotated replica off, or on again.
    async fn annotate(&self, host: &Host, value: Option<&str>) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.virtual_plane.client(), SYSTEM);
        let patch = Patch::Merge(json!({"metadata": {"annotations": {READ_ONLY_ANNOTATION: value}}}));
        maps.patch(SWITCHES[0], &PatchParams::default(), &patch).await?;
        let line = format!("topoloom_read_only{{reason=\"annotation\"}} {}", u8::from(value.is_some()));
        eventually("the replica has seen that", PATIENCE, async || {
            let metrics = host.get("/metrics").await.map_err(|error| error.to_string())?;
            if metrics.contains(&line) { Ok(()) } else { Err("it has not".to_owned()) }
        })
        .await;
        Ok(())
    }

    /// Pauses the binding that is to be paused, or resumes it, as an operator does.
    async fn pause(&self, verb: &str) -> Result<()> {
        let kubeconfig = self.virtual_plane.kubeconfig();
        topoloom(Some(kubeconfig.as_path()), &["lend", verb, PAUSED]).await?.done()?;
        let is_done = |binding: &Value| says(binding, "Paused", "True", "Paused") == (verb == "pause");
        until(&self.cluster_bindings(), PAUSED, &format!("has the verb {verb}"), is_done).await;
        Ok(())
    }

    /// Everything that would be written about in other times, for one binding: its node would shrink, one would be made, one
    /// would go with its pod, a label and the status of a pod would be copied.
    async fn trouble(&self, name: &str) -> Result<()> {
        let container = json!({"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}});
        let own = json!({
            "metadata": {"name": format!("own-{name}")},
            "spec": {"nodeName": machine(name, "a"), "containers": [container]},
        });
        let lenders: Api<Pod> = Api::default_namespaced(self.physical_plane.client());
        lenders.create(&PostParams::default(), &serde_json::from_value(own)?).await?;
        self.kubelets.register([new_machine(name, "c")]).await?;
        self.physical_plane.relabel(&machine(name, "b"), LENT_TO, None).await?;
        self.physical_plane.relabel(&machine(name, "a"), "rack", "r2").await?;
        let seen = json!({"status": {"conditions": [{"type": SEEN, "status": "True"}]}});
        let physical = physical_pod_name(SHOP, &machine(name, "a"))?;
        self.physical_pods().patch_status(&physical, &PatchParams::default(), &Patch::Strategic(seen)).await?;
        Ok(())
    }

    /// Waits until the lender's own pod shows in the size of a node.
    async fn until_smaller(&self, name: &str) {
        let is_smaller = |node: &Value| node["status"]["allocatable"]["cpu"] == "31";
        until(&self.nodes(), &lent(name, "a"), "shrinks", is_smaller).await;
    }

    async fn stop(self) -> Result<()> {
        for player in &self.players {
            assert_eq!(player.mistakes(), [""; 0]);
        }
        assert_eq!(self.kubelets.mistakes(), [""; 0]);
        self.background.stop().await;
        self.virtual_plane.stop().await?;
        self.physical_plane.stop().await
    }
}

async fn launch(name: &str, kubeconfig: &Path, switch: &str, more: &[&str]) -> Result<Host> {
    let (own, switch) = (format!("--namespace={SYSTEM}"), format!("--config-map={SYSTEM}/{switch}"));
    let usual = ["--controllers=bottomup-syncer", "--syncer-allow-loopback", own.as_str(), switch.as_str()];
    Host::launch_as(name, kubeconfig, &[&usual[..], &LEASES, more].concat()).await
}

/// A node of the virtual cluster whose kubelet is gone: what node-lifecycle does to it shows that it counts.
async fn silent(plane: &ControlPlane, name: &str) -> Result<()> {
    let now = Timestamp::now().to_string();
    let is_ready = json!({
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    });
    let node = json!({"metadata": {"name": name}, "status": {"conditions": [is_ready]}});
    let nodes: Api<Node> = Api::all(plane.client());
    nodes.create(&PostParams::default(), &serde_json::from_value(node)?).await?;
    until(&nodes, name, "is Unknown", |node| ready(node) == "Unknown").await;
    Ok(())
}

/// The time in which nothing may be written.
struct Span {
    from: Timestamp,
    to: Timestamp,
    /// The revisions of etcd in the virtual cluster.
    first: u64,
    last: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn s23_s27_by_flag_annotation_and_pause_only_leases_are_written_and_all_nodes_stay_ready_with_their_pods()
-> Result<()> {
    let (mut stage, kubeconfigs) = Stage::new().await?;
    let [of_annotated, of_others] = &kubeconfigs[..] else { anyhow::bail!("two accounts: {kubeconfigs:?}") };
    let (annotated, pausing, flagged, lender) = tokio::try_join!(
        launch("replica-1", of_annotated, SWITCHES[0], &[]),
        launch("replica-2", of_others, SWITCHES[1], &[]),
        launch("replica-3", of_others, SWITCHES[1], &["--read-only"]),
        launch("replica-0", of_others, SWITCHES[1], &[]),
    )?;
    let replicas = Replicas { annotated, pausing, flagged, lender };
    replicas.only(&[&replicas.annotated])?;
    stage.bind(ANNOTATED, "replica-1").await?;
    replicas.only(&[&replicas.pausing])?;
    stage.bind(PAUSED, "replica-2").await?;
    replicas.only(&[&replicas.lender])?;
    stage.bind(FLAGGED, "replica-0").await?;
    stage.fill(FLAGGED).await?;
    // It gives its binding to the only other one that runs.
    replicas.only(&[&replicas.lender, &replicas.flagged])?;
    let Replicas { annotated, pausing, flagged, lender } = replicas;
    lender.stop().await?;
    stage.until_held(FLAGGED, "replica-3").await?;
    for host in [&annotated, &pausing] {
        host.signal(Signal::CONT)?;
    }
    stage.fill(ANNOTATED).await?;
    stage.fill(PAUSED).await?;
    stage.until_renewed(Timestamp::now()).await;
    stage.virtual_plane.start_controllers_with(&KEEPERS, &LIFECYCLE)?;
    silent(&stage.virtual_plane, "silent-1").await?;

    stage.annotate(&annotated, Some("true")).await?;
    stage.pause("pause").await?;
    // What was under way then is done when each lease was renewed once more.
    stage.until_renewed(Timestamp::now() + Duration::from_secs(1)).await;
    let (from, first) = (Timestamp::now(), stage.virtual_plane.revision().await?);
    for name in NAMES {
        stage.trouble(name).await?;
    }
    until(&stage.nodes(), &lent(PAUSED, "a"), "has the label of its machine", |node| {
        node["metadata"]["labels"]["rack"] == "r2"
    })
    .await;
    until_pod(&stage.virtual_pods(), &machine(PAUSED, "a"), "is mirrored", |pod| condition(pod, SEEN) == "True").await;
    stage.until_renewed(from + PERIODS * GRACE).await;
    // node-lifecycle has counted all the time.
    silent(&stage.virtual_plane, "silent-2").await?;
    let span = Span { from, to: Timestamp::now(), first, last: stage.virtual_plane.revision().await? };
    unchanged(&stage).await?;

    // What was missed is done.
    stage.annotate(&annotated, None).await?;
    stage.pause("resume").await?;
    stage.until_smaller(ANNOTATED).await;
    stage.until_smaller(PAUSED).await;
    flagged.stop().await?;
    stage.until_smaller(FLAGGED).await;
    annotated.stop().await?;
    pausing.stop().await?;
    judge(&stage, &span).await?;
    stage.stop().await
}

/// Nodes and pods are what they were: of their size, ready and running, and only the binding that is paused has mirrored anything.
async fn unchanged(stage: &Stage) -> Result<()> {
    let all = stage.nodes().list(&ListParams::default()).await?.items;
    let lent_nodes: Vec<&str> =
        all.iter().filter_map(|node| node.metadata.name.as_deref()).filter(|name| name.starts_with("vnode-")).collect();
    let mut wanted: Vec<String> = NAMES.iter().flat_map(|name| nodes_of(name)).collect();
    wanted.sort();
    ensure!(lent_nodes == wanted, "the virtual nodes are {lent_nodes:?}");
    for name in NAMES {
        let is_mirrored = name == PAUSED;
        let node = serde_json::to_value(stage.nodes().get(&lent(name, "a")).await?)?;
        let found = (ready(&node), &node["status"]["allocatable"]["cpu"], &node["metadata"]["labels"]["rack"]);
        let rack = json!(if is_mirrored { "r2" } else { "r1" });
        ensure!(found == ("True", &json!("32"), &rack), "{name}: {found:?}");
        for place in ["a", "b"] {
            let pod = stage.virtual_pods().get(&machine(name, place)).await?;
            let runs = phase(&pod) == "Running" && pod.metadata.deletion_timestamp.is_none();
            ensure!(runs, "{:?} {:?}", pod.metadata, pod.status);
        }
        let pod = stage.virtual_pods().get(&machine(name, "a")).await?;
        ensure!((condition(&pod, SEEN) == "True") == is_mirrored, "{name}: {:?}", pod.status);
    }
    Ok(())
}

/// Proves from the records of the servers what was written in that time.
async fn judge(stage: &Stage, span: &Span) -> Result<()> {
    let is_within = |request: &&Received| request.at > span.from && request.at < span.to;
    let lent_log = Log::of(&stage.virtual_plane)?;
    let physical_log = Log::of(&stage.physical_plane)?;
    let mut leases: BTreeMap<&str, usize> = BTreeMap::new();
    for request in lent_log.received.iter().filter(is_within) {
        let Received { replica, verb, resource, name, body, .. } = request;
        if resource == "leases" {
            *leases.entry(replica).or_default() += 1;
            continue;
        }
        ensure!(replica == "replica-2" && is_mirror(request), "{replica} sent {verb} {resource} {name}: {body}");
    }
    for request in physical_log.received.iter().filter(is_within) {
        let Received { replica, verb, resource, name, body, .. } = request;
        ensure!(resource == "leases", "{replica} sent {verb} {resource} {name} to the physical cluster: {body}");
    }
    for replica in ["replica-1", "replica-2", "replica-3"] {
        let count = leases.get(replica).copied().unwrap_or_default();
        ensure!(count >= RENEWALS, "{replica} wrote only {count} leases: this proves nothing");
    }

    let within = |writes: Vec<Write>| -> Vec<Write> {
        writes.into_iter().filter(|write| (span.first..=span.last).contains(&write.revision)).collect()
    };
    // All nodes stay ready, and none comes or goes. What was before counts for that, too.
    let nodes = stage.virtual_plane.writes_in_order("/registry/minions/vnode-").await?;
    let nodes: Vec<Write> = nodes.into_iter().filter(|write| write.revision <= span.last).collect();
    let harmed = harmed(&nodes);
    ensure!(harmed.is_empty(), "{harmed:#?}");
    let mut sizes: BTreeMap<String, Value> = BTreeMap::new();
    for write in &nodes {
        let is_new = write.created || write.kind == WriteKind::Delete;
        ensure!(!is_new || write.revision < span.first, "{} came or went at {}", write.key, write.revision);
        let size = write.value["status"]["allocatable"].clone();
        let before = sizes.insert(write.key.clone(), size.clone());
        let is_same = before.is_none_or(|before| before == size);
        ensure!(is_same || write.revision < span.first, "{} has another size at {}: {size}", write.key, write.revision);
    }
    for write in within(stage.virtual_plane.writes_in_order("/registry/pods/shop/").await?) {
        let stays = write.kind == WriteKind::Put && write.value["metadata"]["deletionTimestamp"].is_null();
        ensure!(stays, "{} was removed at {}", write.key, write.revision);
    }
    for name in NAMES.iter().flat_map(|name| nodes_of(name)) {
        let beats = stage.virtual_plane.writes_in_order(&format!("/registry/leases/kube-node-lease/{name}")).await?;
        let beats = within(beats).len();
        ensure!(beats >= RENEWALS, "the lease of {name} was written only {beats} times");
    }
    Ok(())
}

/// Whether a write copies facts, as a paused binding does: statuses, metadata, and taints that move no pod. A size is none.
fn is_mirror(request: &Received) -> bool {
    let Received { verb, resource, body, .. } = request;
    let has = |field: &str| !body["status"][field].is_null();
    match (verb.as_str(), resource.as_str()) {
        ("patch", "nodes/status") => !has("capacity") && !has("allocatable"),
        ("patch", "nodes") => {
            let taints = body["spec"]["taints"].as_array().into_iter().flatten();
            taints.into_iter().all(|taint| taint["effect"] != "NoExecute") && body["metadata"]["finalizers"].is_null()
        }
        ("patch", "pods/status" | "clusterbindings/status") | (_, "events") => true,
        _ => false,
    }
}
