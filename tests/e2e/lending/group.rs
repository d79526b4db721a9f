//! One binding in this process, between two real clusters: nodes are lent, follow their machines, and go.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use prometheus_client::registry::Registry as Metrics;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use topoloom_cluster::events::Events;
use topoloom_cluster::gate::Gate;
use topoloom_cluster::requests;
use topoloom_cluster::work::{self, WorkQueue};
use topoloom_core::queue::{Backoff, Bucket, Limiter};
use topoloom_sync::copied::CopyRules;
use topoloom_sync::deletion::{DeletionTiming, Existence};
use topoloom_sync::guard::{Safety, Spent};
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_sync::liveness::ContactTiming;
use topoloom_sync::naming::{BindingName, ClusterId};
use topoloom_sync::node::{Binding, Now, examples};
use topoloom_sync::policy::in_force::Synced;
use topoloom_syncer::csi::{CsiClients, CsiNodes, CsiRequests};
use topoloom_syncer::group::Group;
use topoloom_syncer::heartbeats::{self, Heartbeats};
use topoloom_syncer::kubeconfig::{self, Allowed, Insecure, Loopback};
use topoloom_syncer::nodes::{NodeClients, NodeRequests, Nodes};
use topoloom_syncer::physical::{Clock, Dialer, Registry, contact};
use topoloom_syncer::pods::{self, Inbox, PodClients, Pods};
use topoloom_syncer::view::View;
use topoloom_tests::controlplane::{ControlPlane, eventually};
use topoloom_tests::lending::Background;
use topoloom_tests::lending::kubelets::{Health, Kubelets, NewNode, Settings};
use topoloom_tests::scene::PATIENCE;

/// The ServiceAccount of the syncer in the physical cluster, and its ClusterRole.
const SYNCER: &str = "syncer";

/// A binding `east` that lends every machine of one cluster to another.
pub(super) struct Lent {
    pub(super) virtual_plane: ControlPlane,
    pub(super) physical_plane: ControlPlane,
    pub(super) kubelets: Kubelets,
    pub(super) view: Arc<Mutex<View>>,
    pub(super) pods: Inbox,
    pub(super) background: Background,
    queue: WorkQueue<Arc<str>>,
    stop: CancellationToken,
}

/// What is not as in an empty spec, with all rights in the physical cluster.
#[derive(Default)]
pub(super) struct Terms {
    /// `spec.copy`.
    pub(super) copy: CopyRules,
    /// What the syncer may read of the physical cluster.
    pub(super) account: Account,
}

/// By whose rights the syncer reads and writes the physical cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Account {
    /// An administrator's.
    #[default]
    Administrator,
    /// Those of a ServiceAccount that may not read CSINodes.
    WithoutCsiNodes,
}

/// The rule of the ClusterRole [`SYNCER`] for one resource.
pub(super) fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

/// A ClusterRole with these rules.
pub(super) fn role(rules: &[Value]) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": SYNCER}, "rules": rules,
    })
}

/// What the syncer needs of a physical cluster beside CSINodes.
pub(super) fn rules() -> Vec<Value> {
    vec![
        rule("", "nodes", &["get", "list", "watch", "patch"]),
        rule("", "pods", &["get", "list", "watch"]),
        rule("", "namespaces", &["get"]),
    ]
}

/// The kubeconfig of the syncer's account.
async fn kubeconfig_of(plane: &ControlPlane, account: Account) -> Result<PathBuf> {
    if account == Account::Administrator {
        return Ok(plane.kubeconfig());
    }
    let subject = json!({"kind": "ServiceAccount", "name": SYNCER, "namespace": "default"});
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SYNCER});
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SYNCER, "namespace": "default"},
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": SYNCER},
        "subjects": [subject], "roleRef": role_ref,
    });
    plane.apply(&[account, role(&rules()), binding]).await?;
    plane.kubeconfig_for("default", SYNCER).await
}

fn now() -> Now {
    Now { wall: Timestamp::now(), steady: topoloom_cluster::gate::boot_time() }
}

fn binding(identity: Identity) -> Binding {
    let deletion = DeletionTiming { recheck: Duration::from_secs(1), ..DeletionTiming::default() };
    Binding { identity, deletion, ..examples::binding() }
}

impl Lent {
    pub(super) async fn new(machines: &[&str]) -> Result<Self> {
        Self::with(machines, Terms::default()).await
    }

    pub(super) async fn with(machines: &[&str], terms: Terms) -> Result<Self> {
        let planes = ControlPlane::several([ControlPlane::builder(), ControlPlane::builder()]).await?;
        let [virtual_plane, physical_plane] = planes;
        let mut background = Background::new();
        let (kubelets, run) = Kubelets::new(physical_plane.client(), &Settings::default());
        background.spawn(run);
        kubelets.register(machines.iter().map(|name| NewNode::named(*name).label("rack", "r1"))).await?;

        let namespaces: Api<Namespace> = Api::all(virtual_plane.client());
        let cluster = namespaces.get("kube-system").await?.metadata.uid.context("a namespace has a UID")?;
        let identity = Identity::new(cluster.into(), BindingName::parse("east")?, "binding-1".into())?;

        let mut metrics = Metrics::default();
        let counted = requests::Metrics::register(&mut metrics);
        let registry = Registry::new(Dialer::new(&counted, 200), Clock::default());
        let allowed = Allowed { insecure: Insecure::Refused, loopback: Loopback::Allowed };
        let file = kubeconfig_of(&physical_plane, terms.account).await?;
        let access = kubeconfig::judge(&std::fs::read(file)?, allowed)?;
        let connection = registry.open(&access)?;
        // A right holds a moment after it was given.
        let uid = eventually("the physical cluster says which it is", PATIENCE, async || {
            contact::first(connection.reads()).await.map_err(|error| error.to_string())
        })
        .await;
        let physical = registry.share(&uid, connection, ContactTiming::default());
        let writers = physical.connection().writers(&Gate::none())?;

        let binding = Binding { copy: terms.copy, ..binding(identity.clone()) };
        let view = View::new(binding, Safety::default(), Spent::default(), physical.signs().reach(), now());
        let view = Arc::new(Mutex::new(view));
        view.lock().unwrap_or_else(PoisonError::into_inner).policies.set_synced(Synced::Yes);
        let limiter = || {
            Limiter::new(
                Backoff::new(Duration::from_millis(50), Duration::from_secs(1)),
                Bucket::new(Duration::from_millis(1), 1_000),
            )
        };
        let queue = WorkQueue::new("nodes", 10_000.try_into()?, limiter());
        let csi_queue = WorkQueue::new("csinodes", 10_000.try_into()?, limiter());
        let pod_queue = WorkQueue::new("pods", 10_000.try_into()?, limiter());
        let inbox = Inbox::new(&identity, &ClusterId::parse("east")?, pod_queue);
        let counted_pods = pods::metrics::Metrics::register(&mut metrics).of(identity.binding());
        let (beats, renewer) = Heartbeats::new(
            virtual_plane.client(),
            identity,
            heartbeats::Options::new(Duration::from_secs(4))?,
            &heartbeats::metrics::Metrics::register(&mut metrics),
            heartbeats::Clock::machine(),
            Box::new(|_| ()),
        );
        let stop = CancellationToken::new();
        let stops = stop.clone();
        background.spawn(async move { renewer.run(stops).await });
        let clients = NodeClients {
            physical: physical.connection().reads().clone(),
            claims: writers.nodes,
            lent: virtual_plane.client(),
        };
        let pod_clients = PodClients {
            physical: physical.connection().reads().clone(),
            orphans: writers.others,
            lent: virtual_plane.client(),
        };
        let nodes = Nodes::new(
            Arc::clone(&view),
            NodeRequests::new(clients),
            beats.clone(),
            Events::new(virtual_plane.client()),
            now,
        );
        let pods = Pods::new(
            Arc::clone(&view),
            inbox.clone(),
            pod_clients,
            Events::new(virtual_plane.client()),
            counted_pods,
            now,
        );
        let clients = CsiClients { physical: physical.connection().reads().clone(), lent: virtual_plane.client() };
        let csi_nodes =
            CsiNodes::new(Arc::clone(&view), CsiRequests::new(clients), Events::new(virtual_plane.client()), now);
        let group = Group {
            view: Arc::clone(&view),
            queue: queue.clone(),
            nodes: Arc::new(nodes),
            pods: Arc::new(pods),
            csi_queue,
            csi_nodes: Arc::new(csi_nodes),
            heartbeats: beats,
            physical,
            lent: virtual_plane.client(),
            restores: topoloom_cluster::Restores::default(),
            work: work::Options::default(),
        };
        let stops = stop.clone();
        background.spawn(async move { group.run(stops).await });
        Ok(Self { virtual_plane, physical_plane, kubelets, view, pods: inbox, background, queue, stop })
    }

    pub(super) fn lent(&self) -> Api<Node> {
        Api::all(self.virtual_plane.client())
    }

    pub(super) fn machines(&self) -> Api<Node> {
        Api::all(self.physical_plane.client())
    }

    /// Waits until a virtual node is as it is wanted.
    pub(super) async fn until(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("{name} {what}"), PATIENCE, async || {
            let node = self.lent().get(name).await.map_err(|error| error.to_string())?;
            let node = serde_json::to_value(node).map_err(|error| error.to_string())?;
            if is_so(&node) { Ok(node) } else { Err(node.to_string()) }
        })
        .await
    }

    /// A pod of the lender on a machine.
    async fn foreign(&self, name: &str, machine: &str, cpu: &str) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.physical_plane.client(), "default");
        let container = json!({"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}});
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": machine, "containers": [container]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        Ok(())
    }

    pub(super) async fn stop(self) -> Result<()> {
        self.stop.cancel();
        assert_eq!(self.kubelets.mistakes(), [""; 0]);
        self.background.stop().await;
        self.virtual_plane.stop().await?;
        self.physical_plane.stop().await
    }
}

pub(super) fn ready(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.into_iter().flatten().find(|condition| condition["type"] == "Ready");
    ready.and_then(|ready| ready["status"].as_str()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn machines_are_lent_shrink_while_the_lender_uses_them_and_go_when_they_are_not_selected() -> Result<()> {
    let lent = Lent::new(&["w1", "w2"]).await?;
    let node = lent.until("vnode-east-w1", "is ready", |node| ready(node) == "True").await;
    assert_eq!(node["metadata"]["labels"]["rack"], "r1");
    assert_eq!(node["metadata"]["finalizers"], json!([keys::VNODE_FINALIZER]));
    let machine = lent.machines().get("w1").await?;
    let claim = machine.metadata.annotations.and_then(|all| all.get(keys::LEASED_BY).cloned()).unwrap_or_default();
    assert!(claim.ends_with("/binding-1"), "{claim}");
    let leases: Api<Lease> = Api::namespaced(lent.virtual_plane.client(), "kube-node-lease");
    eventually("both leases are renewed", PATIENCE, async || {
        let all = leases.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let renewed = all.iter().filter(|lease| lease.spec.as_ref().is_some_and(|spec| spec.renew_time.is_some()));
        if renewed.count() == 2 { Ok(()) } else { Err(format!("{}", all.len())) }
    })
    .await;

    // The lender's own pod: smaller at once, and larger when it is gone.
    let whole = node["status"]["allocatable"]["cpu"].as_str().unwrap_or_default().to_owned();
    lent.foreign("own", "w1", "1").await?;
    let is_smaller = |node: &Value| node["status"]["allocatable"]["cpu"] != whole.as_str();
    lent.until("vnode-east-w1", "shrinks", is_smaller).await;
    let pods: Api<Pod> = Api::namespaced(lent.physical_plane.client(), "default");
    pods.delete("own", &kube::api::DeleteParams::default()).await?;
    lent.until("vnode-east-w1", "is as large as before", |node| !is_smaller(node)).await;

    // A user's label and taint stay; the lender's cordon comes along.
    let mine = json!({"metadata": {"labels": {"team": "a"}}});
    lent.lent().patch("vnode-east-w1", &PatchParams::default(), &Patch::Merge(mine)).await?;
    let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    lent.machines().patch("w1", &PatchParams::default(), &cordon).await?;
    let has_taint = |node: &Value, key: &str| {
        node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == key)
    };
    let cordoned = keys::PHYSICAL_UNSCHEDULABLE_TAINT;
    let node = lent.until("vnode-east-w1", "is cordoned as its machine", |node| has_taint(node, cordoned)).await;
    assert_eq!(node["metadata"]["labels"]["team"], "a");

    // A kubelet that says False lives.
    lent.kubelets.set("w2", Health::NotReady);
    lent.until("vnode-east-w2", "is not ready", |node| ready(node) == "False").await;

    // Nothing is written while nothing changes.
    let before = lent.virtual_plane.requests().await?;
    lent.kubelets.set("w2", Health::Ready);
    lent.until("vnode-east-w2", "is ready", |node| ready(node) == "True").await;
    let written = lent.virtual_plane.requests().await?.since(&before);
    assert_eq!(written.writes("nodes", "status"), 1, "one write for one change");

    // The binding is deleted: nodes and claims go, and nothing is left.
    lent.view.lock().unwrap_or_else(PoisonError::into_inner).safety =
        Safety { max_nodes_percent: 100, ..Safety::default() };
    lent.view.lock().unwrap_or_else(PoisonError::into_inner).binding.existence = Existence::Terminating;
    for machine in ["w1", "w2"] {
        lent.queue.add(machine.into())?;
    }
    eventually("no virtual node is left and no machine is claimed", PATIENCE, async || {
        let nodes = lent.lent().list(&ListParams::default()).await.map_err(|error| error.to_string())?.items.len();
        let machines = lent.machines().list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let is_claimed =
            |node: &&Node| node.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(keys::LEASED_BY));
        let claimed = machines.iter().filter(is_claimed).count();
        if nodes == 0 && claimed == 0 { Ok(()) } else { Err(format!("{nodes} nodes, {claimed} claims")) }
    })
    .await;
    lent.stop().await
}
