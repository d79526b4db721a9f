//! Two clusters of which one lends machines to the other, and everything that works in them beside the syncer: kubelets in the one,
//! controllers of Kubernetes in the other, and a top-down half for each binding. Each binding reaches the lender by a wire of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use topoloom_api::{ClusterBinding, cluster_binding, resource_leasing_policy};
use topoloom_sync::identity::Identity;
use topoloom_sync::naming::BindingName;
use topoloom_syncer::kubeconfig::KEY;

use super::wire::Wire;
use crate::controlplane::{Builder, ControlPlane, KEEPERS};
use crate::lending::Background;
use crate::lending::kubelets::{self, Kubelets, NewNode};
use crate::lending::player::{self, Player};

/// Where virtual pods are.
const SHOP: &str = "shop";
/// Where their physical ones are.
const BORROWED: &str = "borrowed";
/// Where the syncer is.
const SYSTEM: &str = "topoloom-system";
/// The account of all bindings in the physical cluster.
const BORROWER: &str = "borrower";
/// The label of a machine with the binding that it is lent to.
const LENT_TO: &str = "lent-to";
/// How long the syncer has to copy the final phase of a pod before the top-down half writes one.
const COPIED: Duration = Duration::from_secs(10);

/// What the syncer runs with, beside its leases.
pub(super) const ARGUMENTS: [&str; 4] = [
    "--controllers=bottomup-syncer",
    "--syncer-allow-loopback",
    "--namespace=topoloom-system",
    "--config-map=topoloom-system/switch",
];

/// A binding and its machines.
pub(super) struct Loan {
    pub(super) name: &'static str,
    pub(super) machines: usize,
    /// Fields of its spec beside those that every one has.
    pub(super) fields: Value,
}

pub(super) struct World {
    pub(super) virtual_plane: ControlPlane,
    pub(super) physical_plane: ControlPlane,
    pub(super) kubelets: Kubelets,
    pub(super) players: Vec<Player>,
    background: Background,
    wires: BTreeMap<&'static str, Wire>,
}

/// The name of a machine of a binding.
pub(super) fn machine(binding: &str, number: usize) -> String {
    format!("{binding}-{number:03}")
}

/// A machine that is lent to a binding.
pub(super) fn new_machine(binding: &str, name: &str) -> NewNode {
    NewNode::named(name).label(LENT_TO, binding).label("rack", "r0")
}

/// The virtual node of a machine. The `clusterID` of a binding is its name.
pub(super) fn virtual_node(binding: &str, machine: &str) -> String {
    format!("vnode-{binding}-{machine}")
}

/// The status of a condition of a node; empty where it has none.
pub(super) fn ready_of(node: &Node) -> &str {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ready = conditions.filter(|condition| condition.type_ == "Ready");
    ready.next().map_or("", |condition| condition.status.as_str())
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

impl World {
    /// Starts both control planes, the virtual one first, with these machines and bindings. No syncer runs.
    pub(super) async fn new(planes: [Builder; 2], loans: &[Loan]) -> Result<Self> {
        let [mut virtual_plane, physical_plane] = ControlPlane::several(planes).await?;
        virtual_plane.apply_crd(cluster_binding::definition()).await?;
        physical_plane.apply_crd(resource_leasing_policy::definition()).await?;
        let switch = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "switch", "namespace": SYSTEM}, "data": {},
        });
        virtual_plane.apply(&[namespace(SYSTEM), namespace(SHOP), switch]).await?;
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": BORROWER, "namespace": BORROWED},
        });
        let rights = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": BORROWER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": BORROWER, "namespace": BORROWED}],
        });
        physical_plane.apply(&[namespace(BORROWED), account, rights]).await?;
        virtual_plane.start_controllers(&KEEPERS)?;

        let mut background = Background::new();
        let (kubelets, run) = Kubelets::new(physical_plane.client(), &kubelets::Settings::default());
        background.spawn(run);
        let machines = loans
            .iter()
            .flat_map(|loan| (0..loan.machines).map(move |number| new_machine(loan.name, &machine(loan.name, number))));
        kubelets.register(machines).await?;

        let mut wires = BTreeMap::new();
        for loan in loans {
            wires.insert(loan.name, Wire::to(&physical_plane.server_url()).await?);
        }
        let players = Vec::new();
        let mut world = Self { virtual_plane, physical_plane, kubelets, players, background, wires };
        for loan in loans {
            world.store(loan.name, &world.credential(loan.name).await?).await?;
            world.bind(loan).await?;
        }
        Ok(world)
    }

    /// Stores a binding, and starts its top-down half.
    async fn bind(&mut self, loan: &Loan) -> Result<()> {
        let Loan { name, fields, .. } = loan;
        let term = json!({"matchExpressions": [{"key": LENT_TO, "operator": "In", "values": [name]}]});
        let mut spec = json!({
            "clusterID": name, "secretRef": {"name": format!("lender-{name}")}, "mountNamespace": BORROWED,
            "nodeSelector": {"nodeSelectorTerms": [term]}, "disableNodeDefaultTaint": true,
        });
        for (key, value) in fields.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let object = json!({
            "apiVersion": cluster_binding::API_VERSION, "kind": cluster_binding::KIND, "metadata": {"name": name}, "spec": spec,
        });
        self.virtual_plane.apply(&[object]).await?;
        let uid = self.bindings().get(name).await?.metadata.uid.context("a binding has a UID")?;
        let namespaces: Api<Namespace> = Api::all(self.virtual_plane.client());
        let cluster = namespaces.get("kube-system").await?.metadata.uid.context("a namespace has a UID")?;
        let settings = player::Settings {
            identity: Identity::new(cluster.into(), BindingName::parse(name)?, uid.into())?,
            mount_namespace: BORROWED.to_owned(),
            patience: COPIED,
        };
        let (player, run) = Player::new(self.virtual_plane.client(), self.physical_plane.client(), settings);
        self.background.spawn(run);
        self.players.push(player);
        Ok(())
    }

    pub(super) fn bindings(&self) -> Api<ClusterBinding> {
        Api::all(self.virtual_plane.client())
    }

    pub(super) fn machines(&self) -> Api<Node> {
        Api::all(self.physical_plane.client())
    }

    pub(super) fn virtual_pods(&self) -> Api<Pod> {
        Api::namespaced(self.virtual_plane.client(), SHOP)
    }

    /// Pods of the lender.
    pub(super) fn lenders_pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.physical_plane.client())
    }

    /// A kubeconfig with a new token, by the wire of a binding.
    pub(super) async fn credential(&self, binding: &str) -> Result<String> {
        let file = self.physical_plane.kubeconfig_for(BORROWED, BORROWER).await?;
        let mut document: Value = serde_json::from_slice(&std::fs::read(file)?).context("the kubeconfig is JSON")?;
        let server = document.pointer_mut("/clusters/0/cluster/server").context("a kubeconfig has a server")?;
        *server = self.wire(binding)?.url().into();
        Ok(document.to_string())
    }

    /// Stores this as the kubeconfig of a binding.
    pub(super) async fn store(&self, binding: &str, kubeconfig: &str) -> Result<()> {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("lender-{binding}"), "namespace": SYSTEM},
            "stringData": {KEY: kubeconfig},
        });
        self.virtual_plane.apply(&[secret]).await
    }

    pub(super) fn wire(&self, binding: &str) -> Result<&Wire> {
        self.wires.get(binding).with_context(|| format!("{binding} has no wire"))
    }

    /// The virtual nodes by name.
    pub(super) async fn lent(&self) -> Result<BTreeMap<String, Node>> {
        let nodes: Api<Node> = Api::all(self.virtual_plane.client());
        // What the API server has in its memory is new enough, and costs it little.
        let all = nodes.list(&ListParams::default().match_any()).await?.items;
        Ok(all.into_iter().map(|node| (node.metadata.name.clone().unwrap_or_default(), node)).collect())
    }

    /// Ends everything. A top-down half that was refused something, or met what must not happen, fails the soak.
    pub(super) async fn stop(self) -> Result<()> {
        for player in &self.players {
            let mistakes = player.mistakes();
            ensure!(mistakes.is_empty(), "a top-down half met what must not happen: {mistakes:#?}");
        }
        self.background.stop().await;
        self.virtual_plane.stop().await?;
        self.physical_plane.stop().await
    }
}
