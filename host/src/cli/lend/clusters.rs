//! The two clusters of lending, as a command reads them.
//!
//! Owns the flags that say where they are, the client of a physical cluster (by the Secret of its binding, or by a kubeconfig of the
//! operator), and one look at one binding.
//!
//! # Failure story
//!
//! A kubeconfig in a Secret was written by another party: it is judged as the syncer judges it, and the machine of the operator is
//! not dialled because of it. One that the operator names is the operator's own, and may do what any kubeconfig may.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{ArgAction, Args};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use prometheus_client::registry::Registry;
use topoloom_api::cluster_binding::PolicySource;
use topoloom_api::names::{NAME, NAME_LABEL};
use topoloom_api::{ClusterBinding, ResourceLeasingPolicy};
use topoloom_core::names::Uid;
use topoloom_sync::deletion::Evictions;
use topoloom_sync::naming::base_of_binding_lease;
use topoloom_sync::node::{KubeletEndpoint, Now};
use topoloom_syncer::bindings::once::{self, Hindered, Looked};
use topoloom_syncer::convert::binding::{Reading, Surroundings, read};
use topoloom_syncer::kubeconfig::{self, Allowed, Loopback};
use topoloom_syncer::physical::{Dialer, Opens as _};
use topoloom_syncer::slices::node::NodeSlice;
use topoloom_syncer::survey::lists::{self, LentLists, PhysicalLists, Scope};
use topoloom_syncer::survey::{Sources, Survey, policies};

use super::overlay::Overlay;
use crate::cli::ClusterArgs;
use crate::cli::options::values;
use crate::cluster::requests::Metrics;
use crate::cluster::{self, Refusal, RefusalReason, Side, gate, leases};

/// Nothing is written, so this is a number that has to be.
const WRITES_PER_SECOND: u32 = 1;

/// Where the two clusters are, and what the syncer was started with.
#[derive(Debug, Clone, Args)]
pub(super) struct PairArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Read the physical cluster with this kubeconfig of yours; default: the one in the Secret of the binding
    #[arg(long, value_name = "FILE", value_parser = values::path)]
    physical_kubeconfig: Option<PathBuf>,
    /// The context in that kubeconfig
    #[arg(long, value_name = "NAME", requires = "physical_kubeconfig")]
    physical_context: Option<String>,
    /// The identity of the virtual cluster, as for `run`; default: the UID of its namespace kube-system
    #[arg(long, env = "TOPOLOOM_VIRTUAL_CLUSTER_ID", value_name = "ID", value_parser = super::virtual_cluster)]
    virtual_cluster_id: Option<String>,
    /// The address that virtual nodes show, as for `run`; default: the one that they show now, if any
    #[arg(long, env = "TOPOLOOM_SYNCER_KUBELET_ADDRESS", value_name = "IP")]
    syncer_kubelet_address: Option<IpAddr>,
    /// The port that virtual nodes show, as for `run`
    #[arg(long, env = "TOPOLOOM_SYNCER_KUBELET_PORT", value_name = "PORT", default_value_t = 10_250)]
    syncer_kubelet_port: u16,
    /// Whether pods are evicted by the Eviction API, as for `run`
    #[arg(long, env = "TOPOLOOM_SYNCER_EVICTIONS", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "true", action = ArgAction::Set, value_parser = values::boolean)]
    syncer_evictions: bool,
    /// Whether the kubeconfig in a Secret may lead to this machine, as for `run`
    #[arg(long, env = "TOPOLOOM_SYNCER_ALLOW_LOOPBACK", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", default_value = "false", action = ArgAction::Set, value_parser = values::boolean)]
    syncer_allow_loopback: bool,
}

/// The virtual cluster, and how physical ones are reached.
pub(super) struct Clusters {
    args: PairArgs,
    pub(super) lent: kube::Client,
    /// By the clock of the virtual API server: that of a desk may be anything.
    pub(super) now: Now,
    pub(super) virtual_cluster: Uid,
    kube_system: Uid,
    /// The namespace of the syncer, with the Secrets.
    namespace: String,
    metrics: Metrics,
}

/// A physical cluster.
pub(super) struct Machines {
    pub(super) client: kube::Client,
    pub(super) cluster: Uid,
    pub(super) lists: PhysicalLists,
}

/// What was read of physical clusters, by the name of the Secret.
pub(super) type Known = BTreeMap<String, Result<Arc<Machines>, String>>;

/// What a binding shows at one moment.
pub(super) struct Seen {
    pub(super) reading: Reading,
    pub(super) hindered: Hindered,
    pub(super) survey: Survey,
    /// The physical cluster, or why it could not be read.
    pub(super) machines: Result<Arc<Machines>, String>,
    /// What else could not be read.
    pub(super) remarks: Vec<String>,
}

/// What all bindings have in common.
pub(super) struct Common<'a> {
    /// All bindings, with what a file lays over them.
    pub(super) bindings: &'a [ClusterBinding],
    /// What the virtual cluster holds.
    pub(super) lent: &'a LentLists,
    /// What a file lays over policies.
    pub(super) overlay: &'a Overlay,
}

impl Clusters {
    /// Connects to the virtual cluster.
    pub(super) async fn connect(args: &PairArgs) -> anyhow::Result<Self> {
        let lent = args.cluster.connect().await?;
        let wall = leases::server(&lent).await.context("asking the API server for its version")?.now;
        let kube_system = lists::cluster(&lent, Side::Virtual).await.context("reading the namespace kube-system")?;
        let virtual_cluster = args.virtual_cluster_id.as_deref().map_or_else(|| kube_system.clone(), Uid::from);
        let namespace = namespace(&args.cluster, &lent).await;
        Ok(Self {
            args: args.clone(),
            lent,
            now: Now { wall, steady: gate::boot_time() },
            virtual_cluster,
            kube_system,
            namespace,
            metrics: Metrics::register(&mut Registry::default()),
        })
    }

    /// All ClusterBindings; none where there is no definition of them.
    pub(super) async fn bindings(&self) -> Result<Vec<ClusterBinding>, Refusal> {
        match lists::bindings(&self.lent).await {
            Err(refusal) if refusal.reason == RefusalReason::NoSuchResource => Ok(Vec::new()),
            answer => answer,
        }
    }

    /// What the virtual cluster holds.
    pub(super) async fn lists(&self, scope: Scope<'_>) -> Result<LentLists, Refusal> {
        lists::lent(&self.lent, scope).await
    }

    /// What no binding says. `nodes` are those of the virtual cluster.
    pub(super) fn around(&self, nodes: &[NodeSlice]) -> Surroundings {
        let port = self.args.syncer_kubelet_port;
        let given =
            self.args.syncer_kubelet_address.map(|address| KubeletEndpoint { address: address.to_string(), port });
        Surroundings {
            virtual_cluster: self.virtual_cluster.clone(),
            evictions: if self.args.syncer_evictions { Evictions::Allowed } else { Evictions::Off },
            endpoint: given.or_else(|| shown_endpoint(nodes, &self.virtual_cluster)),
        }
    }

    /// A client that reads the physical cluster of a binding.
    pub(super) async fn physical(&self, reading: &Reading) -> anyhow::Result<kube::Client> {
        if let Some(path) = &self.args.physical_kubeconfig {
            let context = self.args.physical_context.as_deref();
            let connected = cluster::connect(Some(path), context, None).await.context("--physical-kubeconfig")?;
            return Ok(connected.client);
        }
        let (namespace, name) = (&self.namespace, &reading.terms.secret);
        let other = "give --namespace, or --physical-kubeconfig with a kubeconfig of yours";
        let secrets: Api<Secret> = Api::namespaced(self.lent.clone(), namespace);
        let secret = secrets.get(name).await.map_err(|error| Refusal::of(&error)).map_err(|refusal| {
            if refusal.reason == RefusalReason::NotFound {
                anyhow::anyhow!("there is no Secret {namespace}/{name}; {other}")
            } else {
                anyhow::anyhow!("the Secret {namespace}/{name} could not be read: {refusal}; {other}")
            }
        })?;
        let loopback = if self.args.syncer_allow_loopback { Loopback::Allowed } else { Loopback::Refused };
        let named = || format!("the Secret {namespace}/{name}");
        let allowed = Allowed { insecure: reading.terms.insecure, loopback };
        let access = kubeconfig::of_secret(&secret, allowed).with_context(named)?;
        let connection = Dialer::new(&self.metrics, WRITES_PER_SECOND).open(&access).with_context(named)?;
        Ok(connection.reads().clone())
    }

    /// Reads the physical cluster of a binding.
    pub(super) async fn machines(&self, reading: &Reading, scope: Scope<'_>) -> anyhow::Result<Machines> {
        let client = self.physical(reading).await?;
        let cluster = lists::cluster(&client, Side::Physical).await.context("reading which cluster it is")?;
        let lists = lists::physical(&client, scope).await?;
        Ok(Machines { client, cluster, lists })
    }

    /// Looks at a binding. What was read of physical clusters is kept by the name of the Secret.
    pub(super) async fn look(
        &self,
        object: &ClusterBinding,
        common: &Common<'_>,
        scope: Scope<'_>,
        known: &mut Known,
    ) -> anyhow::Result<Seen> {
        let reading =
            read(object, &self.around(&common.lent.nodes)).map_err(|problems| anyhow::anyhow!("{problems}"))?;
        let secret = &reading.terms.secret;
        if !known.contains_key(secret) {
            let read = self.machines(&reading, scope).await;
            known.insert(secret.clone(), read.map(Arc::new).map_err(|error| format!("{error:#}")));
        }
        let unread = || Err("it was not read".to_owned());
        let machines = known.get(secret).cloned().unwrap_or_else(unread);
        let physical = machines.as_ref().ok();
        let looked = Looked {
            object,
            reading: &reading,
            all: common.bindings,
            kube_system: &self.kube_system,
            cluster: physical.map(|machines| &machines.cluster),
        };
        let mut hindered = once::look(&looked, &self.lent, physical.map(|machines| &machines.client)).await;
        let mut remarks = hindered.remarks.clone();
        let policies = self.policies(&reading, physical, common.overlay, &mut remarks).await;
        let uid = |binding: &ClusterBinding| Some(binding.metadata.uid.as_deref()?.into());
        let sources = Sources {
            terms: &reading.terms,
            status: &object.status,
            hindered: &hindered,
            bindings: common.bindings.iter().filter_map(uid).collect(),
            lent: common.lent,
            physical: physical.map(|machines| &machines.lists),
            policies: policies.map(|stored| policies_of(&stored, &reading)),
        };
        let survey = Survey::new(sources, self.now);
        hindered.why.extend(once::in_the_way(&survey.view));
        Ok(Seen { survey, hindered, machines, remarks, reading })
    }

    /// The policies of the cluster that the binding takes them from, with those of a file over them. Without the right to read them
    /// it is not known whether there are any.
    async fn policies(
        &self,
        reading: &Reading,
        physical: Option<&Arc<Machines>>,
        overlay: &Overlay,
        remarks: &mut Vec<String>,
    ) -> Option<Vec<ResourceLeasingPolicy>> {
        let stored = match (reading.terms.policy_source, physical) {
            (PolicySource::Virtual, _) => lists::policies(&self.lent, Side::Virtual).await,
            (PolicySource::Physical, Some(machines)) => lists::policies(&machines.client, Side::Physical).await,
            (PolicySource::Physical, None) => return None,
        };
        match stored {
            Ok(stored) => Some(overlay.over_policies(stored, self.now.wall)),
            // What is in the file cannot be applied before its definition is.
            Err(refusal) if refusal.reason == RefusalReason::NoSuchResource && overlay.has_policies() => {
                Some(overlay.over_policies(Vec::new(), self.now.wall))
            }
            Err(refusal) => {
                remarks.push(format!("policies could not be listed, so nothing new is lent: {refusal}"));
                None
            }
        }
    }
}

fn policies_of(stored: &[ResourceLeasingPolicy], reading: &Reading) -> Vec<topoloom_sync::policy::object::Policy> {
    policies(stored, reading.terms.binding.identity.binding())
}

/// Where the Secrets are: where a flag says, otherwise where the leases of bindings are, if that is one namespace.
async fn namespace(args: &ClusterArgs, client: &kube::Client) -> String {
    if args.names_an_installation() {
        return args.own_namespace();
    }
    let leases: Api<Lease> = Api::all(client.clone());
    let by = ListParams::default().labels(&format!("{NAME_LABEL}={NAME}"));
    let found = leases.list_metadata(&by).await.map(|list| list.items).unwrap_or_default();
    let of_binding = found.iter().filter(|lease| base_of_binding_lease(&lease.name_any()).is_some());
    let namespaces: BTreeSet<String> = of_binding.filter_map(|lease| lease.metadata.namespace.clone()).collect();
    let mut namespaces = namespaces.into_iter();
    match (namespaces.next(), namespaces.next()) {
        (Some(only), None) => only,
        (None, _) | (Some(_), Some(_)) => args.own_namespace(),
    }
}

/// Where the virtual nodes say that the kubelet's API is served. Without it no port is set.
fn shown_endpoint(nodes: &[NodeSlice], virtual_cluster: &str) -> Option<KubeletEndpoint> {
    nodes.iter().find_map(|node| {
        let lent = node.clone().lent().ok()?;
        let is_ours = lent.metadata.labels.get(topoloom_sync::keys::VIRTUAL_CLUSTER)? == virtual_cluster;
        let address = lent.addresses.as_array()?.first()?.get("address")?.as_str()?.to_owned();
        lent.port.filter(|_| is_ours).map(|port| KubeletEndpoint { address, port })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(labels: Value, port: u16) -> NodeSlice {
        let node = json!({
            "metadata": {"name": "vnode-east-w1", "labels": labels},
            "status": {
                "addresses": [{"type": "InternalIP", "address": "10.96.0.7"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            },
        });
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn s26_the_endpoint_of_the_kubelets_api_is_the_one_that_our_virtual_nodes_show() {
        let (ours, others) =
            (json!({"topoloom.dev/virtual-cluster": "vc"}), json!({"topoloom.dev/virtual-cluster": "x"}));
        let shown = |labels: &Value, port| shown_endpoint(&[node(json!({}), 10_250), node(labels.clone(), port)], "vc");
        assert_eq!(shown(&ours, 10_250), Some(KubeletEndpoint { address: "10.96.0.7".into(), port: 10_250 }));
        assert_eq!((shown(&ours, 0), shown(&others, 10_250)), (None, None));
    }
}
