//! Bindings of this process between two real clusters, each made of a ClusterBinding and a Secret alone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams};
use prometheus_client::registry::Registry as Metrics;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use topoloom::manager::rights::lending::{PhysicalSettings, Streams};
use topoloom_api::cluster_binding::{PhysicalWrites, PolicySource};
use topoloom_api::{ClusterBinding, ResourceLeasingPolicy, cluster_binding, resource_leasing_policy};
use topoloom_cluster::events::Events;
use topoloom_cluster::gate::Gate;
use topoloom_cluster::{Restores, requests, work};
use topoloom_core::names::Uid;
use topoloom_sync::deletion::Evictions;
use topoloom_sync::identity::Identity;
use topoloom_sync::liveness::ContactTiming;
use topoloom_sync::naming::BindingName;
use topoloom_sync::node::Now;
use topoloom_syncer::bindings::{self, Added, Holding, LeaseName, Process, Shown};
use topoloom_syncer::kubeconfig::{KEY, Loopback};
use topoloom_syncer::nodes::Pace;
use topoloom_syncer::physical::{Clock, Dialer, Registry, Signs};
use topoloom_syncer::shared::LentWatches;
use topoloom_syncer::{heartbeats, pods};
use topoloom_tests::controlplane::{ControlPlane, Wanted, eventually};
use topoloom_tests::lending::Background;
use topoloom_tests::lending::kubelets::{Kubelets, NewNode, Settings};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::accounts::{self, of_grant};
use super::pair::BORROWED;

/// Where the pods of a second binding would be.
pub(super) const ELSEWHERE: &str = "elsewhere";
/// Where the syncer is.
pub(super) const SYSTEM: &str = "topoloom-system";
/// How often the witness makes a round here.
const WITNESS: Duration = Duration::from_secs(2);
/// How often it is looked here which cluster answers, and how old its store is.
const LOOKS: Duration = Duration::from_secs(2);

/// Two clusters, and the process that lends the machines of one to the other.
pub(super) struct Lent {
    pub(super) virtual_plane: ControlPlane,
    pub(super) physical_plane: ControlPlane,
    pub(super) kubelets: Kubelets,
    pub(super) background: Background,
    process: Arc<Process>,
    stop: CancellationToken,
}

/// The clocks of this machine.
pub(super) fn now() -> Now {
    Now { wall: Timestamp::now(), steady: topoloom_cluster::gate::boot_time() }
}

impl Lent {
    /// Without any binding, and with these machines, each in its rack `r1`. Policies can be stored in both clusters.
    pub(super) async fn new(machines: &[&str], now: fn() -> Now) -> Result<Self> {
        Self::on(Wanted::Shared, machines, now).await
    }

    /// The same where the physical cluster does not know what a policy is.
    pub(super) async fn without_policies(machines: &[&str], now: fn() -> Now) -> Result<Self> {
        Self::on(Wanted::New(ControlPlane::builder()), machines, now).await
    }

    async fn on(of_physical: Wanted, machines: &[&str], now: fn() -> Now) -> Result<Self> {
        let planes = Scene::planes([Wanted::Shared, of_physical]).await?;
        Self::between(planes, machines, now).await
    }

    /// The same between a virtual and a physical cluster that the test has already.
    pub(super) async fn between(planes: [ControlPlane; 2], machines: &[&str], now: fn() -> Now) -> Result<Self> {
        let [virtual_plane, physical_plane] = planes;
        virtual_plane.apply(&[namespace(SYSTEM)]).await?;
        physical_plane.apply(&[namespace(BORROWED), namespace(ELSEWHERE)]).await?;

        let mut background = Background::new();
        let (kubelets, run) = Kubelets::new(physical_plane.client(), &Settings::default());
        background.spawn(run);
        kubelets.register(machines.iter().map(|name| NewNode::named(*name).label("rack", "r1"))).await?;

        let process = process(&virtual_plane, "replica-0", now, heartbeats::Clock::machine()).await?;
        let watched_over = Arc::clone(&process);
        background.spawn(async move { watched_over.watch_over().await });
        let stop = CancellationToken::new();
        Ok(Self { virtual_plane, physical_plane, kubelets, process, background, stop })
    }

    /// A binding `east` with these fields that lends these machines.
    pub(super) async fn east(machines: &[&str], fields: Value) -> Result<Self> {
        let mut lent = Self::new(machines, now).await?;
        lent.bind("east", fields).await?;
        Ok(lent)
    }

    /// A binding with these fields beside those that it has to have, its Secret, and a replica that serves it. In the physical cluster
    /// it has the rights that a lender grants.
    pub(super) async fn bind(&mut self, name: &str, fields: Value) -> Result<()> {
        let kubeconfig = self.granted(name, &fields).await?;
        self.secret(name, &std::fs::read_to_string(kubeconfig)?).await?;
        self.binding(name, fields).await?;
        self.serve(name).await
    }

    /// What the lender grants a binding with these fields; its kubeconfig.
    pub(super) async fn granted(&self, name: &str, fields: &Value) -> Result<PathBuf> {
        let object = binding(name, fields);
        let mount = object["spec"]["mountNamespace"].as_str().context("a binding has a namespace")?;
        let settings = PhysicalSettings {
            binding: BindingName::parse(name)?,
            mount_namespace: mount.to_owned(),
            writes: PhysicalWrites::All,
            policies: PolicySource::Physical,
            streams: Streams::Off,
        };
        of_grant(&self.physical_plane, settings, &cluster(&self.virtual_plane).await?).await
    }

    /// Stores the Secret of a binding.
    pub(super) async fn secret(&self, name: &str, kubeconfig: &str) -> Result<()> {
        secret(&self.virtual_plane, name, kubeconfig).await
    }

    /// Stores a binding, with times that suit a test.
    pub(super) async fn binding(&self, name: &str, fields: Value) -> Result<()> {
        self.virtual_plane.apply(&[binding(name, &fields)]).await
    }

    /// Serves a binding from now on, as the replica that holds its lease.
    pub(super) async fn serve(&mut self, name: &str) -> Result<()> {
        let stop = self.stop.child_token();
        self.serve_until(name, stop).await
    }

    /// The same until it is stopped.
    pub(super) async fn serve_until(&mut self, name: &str, stop: CancellationToken) -> Result<()> {
        let process = Arc::clone(&self.process);
        self.serve_by(process, name, stop).await
    }

    /// The same by another replica, with clocks of its own.
    pub(super) async fn replica(
        &mut self,
        holder: &str,
        now: fn() -> Now,
        clock: heartbeats::Clock,
    ) -> Result<Arc<Process>> {
        let process = process(&self.virtual_plane, holder, now, clock).await?;
        let watched_over = Arc::clone(&process);
        self.background.spawn(async move { watched_over.watch_over().await });
        Ok(process)
    }

    /// Serves a binding by this replica until it is stopped.
    pub(super) async fn serve_by(&mut self, process: Arc<Process>, name: &str, stop: CancellationToken) -> Result<()> {
        let holding = holding(&self.virtual_plane, &process.lent, name).await?;
        self.background.spawn(bindings::run(process, holding, stop));
        Ok(())
    }

    /// Stores a policy in the physical cluster.
    pub(super) async fn policy(&self, name: &str, spec: Value) -> Result<()> {
        self.physical_plane.apply(&[policy(name, spec)]).await
    }

    /// Whose the objects of a binding are.
    pub(super) async fn identity(&self, name: &str) -> Result<Identity> {
        let uid = self.bindings().get(name).await?.metadata.uid.context("a binding has a UID")?;
        Ok(Identity::new(cluster(&self.virtual_plane).await?, BindingName::parse(name)?, uid.into())?)
    }

    /// The virtual nodes.
    pub(super) fn lent(&self) -> Api<Node> {
        Api::all(self.virtual_plane.client())
    }

    /// The physical ones.
    pub(super) fn machines(&self) -> Api<Node> {
        Api::all(self.physical_plane.client())
    }

    pub(super) fn bindings(&self) -> Api<ClusterBinding> {
        Api::all(self.virtual_plane.client())
    }

    pub(super) fn policies(&self) -> Api<ResourceLeasingPolicy> {
        Api::all(self.physical_plane.client())
    }

    /// Waits until a virtual node is as it is wanted.
    pub(super) async fn until(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until(&self.lent(), name, what, is_so).await
    }

    /// Waits until a binding is as it is wanted.
    pub(super) async fn until_binding(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until(&self.bindings(), name, what, is_so).await
    }

    /// Waits until a policy of the physical cluster is as it is wanted.
    pub(super) async fn until_policy(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        until(&self.policies(), name, what, is_so).await
    }

    /// Waits until these are the virtual nodes.
    pub(super) async fn until_nodes(&self, names: &[&str]) {
        eventually(&format!("the virtual nodes are {names:?}"), PATIENCE, async || {
            let nodes = self.lent().list_metadata(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let mut found: Vec<String> = nodes.items.into_iter().filter_map(|node| node.metadata.name).collect();
            found.sort();
            if found == names { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await;
    }

    /// Writes an annotation on a binding, as an operator does.
    pub(super) async fn annotate(&self, name: &str, key: &str, value: Option<&str>) -> Result<()> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        self.bindings().patch(name, &PatchParams::default(), &patch).await?;
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

/// What a replica serves bindings of this virtual cluster with: it has the rights that the chart gives the syncer.
pub(super) async fn process(
    plane: &ControlPlane,
    holder: &str,
    now: fn() -> Now,
    clock: heartbeats::Clock,
) -> Result<Arc<Process>> {
    process_with(plane, &accounts::replica(plane).await?, holder, now, clock).await
}

/// The same with a client of this virtual cluster that has other rights.
pub(super) async fn process_with(
    plane: &ControlPlane,
    client: &kube::Client,
    holder: &str,
    now: fn() -> Now,
    clock: heartbeats::Clock,
) -> Result<Arc<Process>> {
    let cluster = cluster(plane).await?;
    let mut metrics = Metrics::default();
    let counted = requests::Metrics::register(&mut metrics);
    let (steady, restores) = (Clock::default(), Restores::default());
    Ok(Arc::new(Process {
        lent: client.clone(),
        watches: LentWatches::new(client, &restores, &cluster),
        restores,
        lent_signs: Signs::new(ContactTiming::default(), &steady),
        registry: Arc::new(Registry::new(Dialer::new(&counted, 200), steady).looking(LOOKS)),
        secrets: Api::namespaced(client.clone(), SYSTEM),
        virtual_cluster: cluster.clone(),
        kube_system: cluster,
        evictions: Evictions::Allowed,
        endpoint: None,
        loopback: Loopback::Allowed,
        holder: holder.to_owned(),
        events: Events::new(client.clone()),
        beats: heartbeats::metrics::Metrics::register(&mut metrics),
        pods: pods::metrics::Metrics::register(&mut metrics),
        metrics: topoloom_syncer::metrics::Metrics::register(&mut metrics),
        pace: Pace::default(),
        work: work::Options::default(),
        now,
        clock,
        // The watch of all bindings is the manager's. A binding that is younger than another finds it when it begins.
        added: Added::default(),
        witness: WITNESS,
        shown: Shown::default(),
    }))
}

/// What comes with the lease of a binding, which is made if there is none, for a replica with this client.
pub(super) async fn holding(plane: &ControlPlane, client: &kube::Client, name: &str) -> Result<Holding> {
    holding_in(plane, client, SYSTEM, name).await
}

/// The same of an installation in this namespace.
pub(super) async fn holding_in(
    plane: &ControlPlane,
    client: &kube::Client,
    namespace: &str,
    name: &str,
) -> Result<Holding> {
    let lease = LeaseName { namespace: namespace.to_owned(), name: format!("topoloom-syncer-binding-{name}") };
    let object = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": lease.name, "namespace": lease.namespace}, "spec": {"holderIdentity": "replica-0"},
    });
    plane.apply(&[object]).await?;
    Ok(Holding {
        name: name.to_owned(),
        gate: Gate::none(),
        lent: client.clone(),
        beats: client.clone(),
        lease,
        tell: Arc::new(|_: Option<&str>| {}),
    })
}

/// Stores the Secret of a binding.
pub(super) async fn secret(plane: &ControlPlane, name: &str, kubeconfig: &str) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(plane.client(), SYSTEM);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {KEY: kubeconfig},
    });
    secrets.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(secret)).await?;
    Ok(())
}

/// A binding as it is applied, with times that suit a test, and with these fields beside those that it has to have.
pub(super) fn binding(name: &str, fields: &Value) -> Value {
    let mut spec = json!({
        "clusterID": name, "secretRef": {"name": name}, "mountNamespace": BORROWED,
        "safety": {"maxNodesPercent": 100},
        "timing": {"lease": "4s", "suspect": "5s", "unreachable": "10s", "empty": "3s", "recheck": "1s", "grow": "1s"},
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        match (spec[key].as_object_mut(), value) {
            (Some(known), Value::Object(more)) => known.extend(more.clone()),
            _ => spec[key] = value.clone(),
        }
    }
    let (version, kind) = (cluster_binding::API_VERSION, cluster_binding::KIND);
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

pub(super) fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// A policy as it is applied.
pub(super) fn policy(name: &str, spec: Value) -> Value {
    let (version, kind) = (resource_leasing_policy::API_VERSION, resource_leasing_policy::KIND);
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// The UID of a cluster.
pub(super) async fn cluster(plane: &ControlPlane) -> Result<Uid> {
    let namespaces: Api<Namespace> = Api::all(plane.client());
    Ok(namespaces.get("kube-system").await?.metadata.uid.context("a namespace has a UID")?.into())
}

pub(super) async fn until<K>(api: &Api<K>, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    eventually(&format!("{name} {what}"), PATIENCE, async || {
        let object = api.get(name).await.map_err(|error| error.to_string())?;
        let object = serde_json::to_value(object).map_err(|error| error.to_string())?;
        if is_so(&object) { Ok(object) } else { Err(object.to_string()) }
    })
    .await
}

/// A condition of an object: status, reason and message.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> [&'a str; 3] {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    ["status", "reason", "message"].map(|field| found.and_then(|found| found[field].as_str()).unwrap_or_default())
}

/// Whether a condition of an object has this status for this reason.
pub(super) fn says(object: &Value, kind: &str, status: &str, reason: &str) -> bool {
    let [found, why, _] = condition(object, kind);
    (found, why) == (status, reason)
}
