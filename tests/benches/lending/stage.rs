//! Two clusters, the machines of one of them, and what every row needs beside them.
//!
//! The machines are the test kubelets of this process. Watches of this process note what the virtual cluster shows, in all
//! runs alike, with the host, with the raw client and with the naive mode.

mod bodies;
mod pods;

use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::runtime::watcher::Config;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;
use topoloom_api::{ClusterBinding, cluster_binding, resource_leasing_policy};
use topoloom_sync::identity::Identity;
use topoloom_sync::naming::BindingName;
use topoloom_tests::controlplane::ControlPlane;
use topoloom_tests::host::Host;
use topoloom_tests::lending::Background;
use topoloom_tests::lending::kubelets::{Kubelets, NewNode, Settings};
use topoloom_tests::lending::player::{self, Player};
use topoloom_tests::scene::Scene;

use crate::audit::Audit;
use crate::program::until_at_rest;
use crate::scale::{Scale, Size};
use crate::seen::{Leases, Nodes, Seen};

pub(crate) use bodies::pod;
pub(crate) use pods::{AT_ONCE, Stream, create_all, shown};

/// The binding of most rows.
pub(crate) const BINDING: &str = "east";
/// Where the syncer is.
pub(crate) const SYSTEM: &str = "topoloom-system";
/// Where virtual pods are.
pub(crate) const WORK: &str = "work";
/// Where physical pods of ours are.
pub(crate) const MOUNT: &str = "lent-to-work";
/// Where pods of the lender are.
pub(crate) const TENANTS: &str = "tenants";
/// Where the leases of nodes are.
pub(crate) const LEASES: &str = "kube-node-lease";
/// How the names of virtual nodes begin.
pub(crate) const VIRTUAL: &str = "vnode-";
/// The label of the group of a machine. Each policy lends one group.
pub(crate) const GROUP: &str = "example.com/group";
/// Policies, and groups of machines.
pub(crate) const POLICIES: u32 = 10;

/// The ConfigMap whose annotation switches writes off.
const SWITCH: &str = "switch";
/// The defaults of the host, in place of the short times of tests.
const ELECTION: [&str; 3] =
    ["--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=2s"];
/// How long it may take until all machines, pods or virtual nodes are there.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1_800);

/// All of it.
pub(crate) struct Stage {
    // The fields are dropped in this order.
    pub(crate) background: Background,
    pub(crate) kubelets: Kubelets,
    pub(crate) virtual_plane: ControlPlane,
    pub(crate) physical_plane: ControlPlane,
    pub(crate) virtual_lists: Audit,
    pub(crate) physical_lists: Audit,
    /// The Nodes of the virtual cluster.
    pub(crate) nodes: Seen<Nodes>,
    /// The leases of virtual nodes.
    pub(crate) leases: Seen<Leases>,
    pub(crate) machines: u32,
    folder: TempDir,
}

/// The name of a machine.
pub(crate) fn machine(number: u32) -> String {
    format!("m{number:05}")
}

/// The name of its virtual node under a binding.
pub(crate) fn virtual_node(binding: &str, number: u32) -> String {
    format!("{VIRTUAL}{binding}-{}", machine(number))
}

impl Stage {
    /// With so many machines, all ready, and policies that are always open; nothing is lent.
    pub(crate) async fn new(machines: u32, scale: &Scale) -> Result<Self> {
        eprintln!("bench: starting two control planes with {machines} machines");
        let folder = tempfile::Builder::new().prefix("topoloom-bench-").tempdir()?;
        let server = |name: &str| {
            let builder = ControlPlane::builder()
                .memory(if scale.size == Size::Full { "5GiB" } else { "4GiB" })
                // As servers are run: tests keep the history of etcd, and read it.
                .apiserver_arg("--storage-media-type=application/vnd.kubernetes.protobuf")
                .apiserver_arg("--etcd-compaction-interval=5m0s");
            Audit::of(builder, folder.path(), name)
        };
        let (virtual_lists, of_virtual) = server("virtual.log")?;
        let (physical_lists, of_physical) = server("physical.log")?;
        let [virtual_plane, physical_plane] = Scene::several([of_virtual, of_physical]).await?.map(|scene| scene.plane);
        let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let switch = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": SWITCH, "namespace": SYSTEM}, "data": {},
        });
        virtual_plane.apply(&[namespace(SYSTEM), namespace(WORK), switch]).await?;
        physical_plane.apply(&[namespace(MOUNT), namespace(TENANTS)]).await?;

        let mut background = Background::new();
        let (kubelets, run) =
            Kubelets::new(physical_plane.client(), &Settings { beats: scale.beats, ..Settings::default() });
        background.spawn(run);
        let all = Config::default;
        let nodes: Api<Node> = Api::all(virtual_plane.client());
        let nodes = Seen::follow(&mut background, nodes, all(), Nodes::default(), Nodes::see);
        let leases: Api<Lease> = Api::namespaced(virtual_plane.client(), LEASES);
        let leases = Seen::follow(&mut background, leases, all(), Leases::of(VIRTUAL), Leases::see);
        let stage = Self {
            background,
            kubelets,
            virtual_plane,
            physical_plane,
            virtual_lists,
            physical_lists,
            nodes,
            leases,
            machines,
            folder,
        };
        stage.build().await?;
        for group in 0..POLICIES {
            stage.policy(group, json!({"timeWindows": [{"start": "00:00", "end": "23:59"}]})).await?;
        }
        Ok(stage)
    }

    /// Makes the machines, of the size that nodes of real clusters have, and waits until they are ready.
    async fn build(&self) -> Result<()> {
        self.kubelets.register((0..self.machines).map(new_node)).await?;
        let nodes: Api<Node> = Api::all(self.physical_plane.client());
        let images = json!({"status": {"images": bodies::images()}});
        let filled = |number: u32| {
            let (nodes, images) = (nodes.clone(), images.clone());
            async move { nodes.patch_status(&machine(number), &PatchParams::default(), &Patch::Merge(images)).await }
        };
        let filling = stream::iter(0..self.machines).map(filled).buffer_unordered(AT_ONCE);
        filling.try_for_each(async |_| Ok(())).await.context("a machine cannot be filled in")?;
        let mut watching = Background::new();
        let seen = Seen::follow(&mut watching, nodes, Config::default(), Nodes::default(), Nodes::see);
        let wanted = self.machines as usize;
        let ready = seen.until("all machines are ready", PATIENCE, |nodes| (nodes.ready("m") == wanted).then_some(()));
        ready.await?;
        watching.stop().await;
        Ok(())
    }

    /// Sets a label of machines.
    pub(crate) async fn relabel(&self, key: &str, machines: impl Iterator<Item = (String, String)>) -> Result<()> {
        let plane = &self.physical_plane;
        let set =
            |(machine, value): (String, String)| async move { plane.relabel(&machine, key, value.as_str()).await };
        stream::iter(machines).map(set).buffer_unordered(AT_ONCE).try_for_each(async |_| Ok(())).await
    }

    /// Stores the policy of a group of machines, with these fields.
    pub(crate) async fn policy(&self, group: u32, fields: Value) -> Result<()> {
        let terms = json!([{"matchExpressions": [{"key": GROUP, "operator": "In", "values": [group.to_string()]}]}]);
        let mut spec = json!({"cluster": BINDING, "nodeSelector": {"nodeSelectorTerms": terms}});
        extend(&mut spec, fields);
        let (version, kind) = (resource_leasing_policy::API_VERSION, resource_leasing_policy::KIND);
        let name = format!("group-{group}");
        let policy = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        self.physical_plane.apply(&[policy]).await
    }

    /// Stores a kubeconfig of the physical cluster for a binding.
    pub(crate) async fn secret(&self, binding: &str, kubeconfig: &str) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": binding, "namespace": SYSTEM},
            "stringData": {"kubeconfig": kubeconfig},
        });
        self.virtual_plane.apply(&[secret]).await
    }

    /// The kubeconfig of the physical cluster.
    pub(crate) fn kubeconfig(&self) -> Result<String> {
        std::fs::read_to_string(self.physical_plane.kubeconfig()).context("the physical cluster has no kubeconfig")
    }

    /// Stores a binding with these fields beside those that it has to have.
    pub(crate) async fn bind(&self, binding: &str, mount: &str, fields: Value) -> Result<()> {
        let mut spec = json!({"clusterID": binding, "secretRef": {"name": binding}, "mountNamespace": mount});
        extend(&mut spec, fields);
        let (version, kind) = (cluster_binding::API_VERSION, cluster_binding::KIND);
        let binding = json!({"apiVersion": version, "kind": kind, "metadata": {"name": binding}, "spec": spec});
        self.virtual_plane.apply(&[binding]).await
    }

    /// A host, as a replica of the Deployment of the syncer; returns when it is ready.
    pub(crate) async fn host(&self, instance: &str, more: &[&str]) -> Result<Host> {
        let (own, switch) = (format!("--namespace={SYSTEM}"), format!("--config-map={SYSTEM}/{SWITCH}"));
        let usual = ["--controllers=bottomup-syncer", "--syncer-allow-loopback", own.as_str(), switch.as_str()];
        let arguments = [&usual[..], &["--log", "info"], &ELECTION, more].concat();
        let host = Host::launch_as(instance, &self.virtual_plane.kubeconfig(), &arguments).await?;
        host.until_ready().await;
        Ok(host)
    }

    /// Lends all machines, where that was not done before; returns the host at rest.
    pub(crate) async fn lend(&self) -> Result<Host> {
        self.lend_with(&[]).await
    }

    /// The same with more arguments of the host.
    pub(crate) async fn lend_with(&self, more: &[&str]) -> Result<Host> {
        self.secret(BINDING, &self.kubeconfig()?).await?;
        self.bind(BINDING, MOUNT, json!({})).await?;
        let host = self.host("host", more).await?;
        until_at_rest(&host, self.machines, 0).await?;
        Ok(host)
    }

    /// Whose the objects of the binding are.
    pub(crate) async fn identity(&self) -> Result<Identity> {
        let bindings: Api<ClusterBinding> = Api::all(self.virtual_plane.client());
        let binding = bindings.get(BINDING).await?.metadata.uid.context("a binding has a UID")?;
        let namespaces: Api<Namespace> = Api::all(self.virtual_plane.client());
        let cluster = namespaces.get("kube-system").await?.metadata.uid.context("a namespace has a UID")?;
        Ok(Identity::new(cluster.into(), BindingName::parse(BINDING)?, binding.into())?)
    }

    /// Runs the top-down half from now on.
    pub(crate) async fn play(&mut self) -> Result<Player> {
        let settings = player::Settings {
            identity: self.identity().await?,
            mount_namespace: MOUNT.to_owned(),
            patience: Duration::from_secs(60),
        };
        let (player, run) = Player::new(self.virtual_plane.client(), self.physical_plane.client(), settings);
        self.background.spawn(run);
        Ok(player)
    }

    /// When the lease of the binding was taken last.
    pub(crate) async fn taken_over(&self) -> Result<Timestamp> {
        let leases: Api<Lease> = Api::namespaced(self.virtual_plane.client(), SYSTEM);
        let leases = leases.list(&ListParams::default()).await?.items;
        let of_binding = |lease: &Lease| lease.metadata.name.as_deref().is_some_and(|name| name.contains("-binding-"));
        let taken = leases.into_iter().filter(of_binding).filter_map(|lease| Some(lease.spec?.acquire_time?.0));
        taken.max().context("no lease of a binding was taken")
    }

    /// Waits until so many nodes of this prefix exist in the virtual cluster; returns when the last of them was seen first.
    pub(crate) async fn until_born(&self, prefix: &str, count: u32) -> Result<Instant> {
        let wanted = count as usize;
        let all = |nodes: &mut Nodes| {
            let born: Vec<Instant> = nodes.named(prefix).map(|node| node.born).collect();
            if born.len() == wanted { born.into_iter().max() } else { None }
        };
        self.nodes.until("all nodes exist", PATIENCE, all).await
    }

    /// Ends the kubelets, the top-down half and the watches of nodes and leases, so that they take no processor time.
    pub(crate) async fn still(&mut self) {
        std::mem::take(&mut self.background).stop().await;
    }

    /// Ends all of it. Hosts and other processes have ended before.
    pub(crate) async fn stop(self) -> Result<()> {
        let mistakes = self.kubelets.mistakes();
        if let Some(first) = mistakes.first() {
            eprintln!("bench: {} requests of kubelets were refused; the first: {first}", mistakes.len());
        }
        self.background.stop().await;
        self.virtual_plane.stop().await?;
        self.physical_plane.stop().await?;
        self.folder.close().context("the folder of the benchmark cannot be removed")
    }
}

fn new_node(number: u32) -> NewNode {
    let node = NewNode::named(machine(number)).label(GROUP, &(number % POLICIES).to_string());
    bodies::labels().into_iter().fold(node, |node, (key, value)| node.label(key, value))
}

fn extend(spec: &mut Value, fields: Value) {
    if let (Some(spec), Value::Object(fields)) = (spec.as_object_mut(), fields) {
        spec.extend(fields);
    }
}
