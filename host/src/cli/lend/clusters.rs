//! The two clusters of lending, as a command reads them.
//!
//! Owns the flags that say where they are, the client of a physical cluster (by the Secret of its binding, or by a kubeconfig of the
//! operator), and one look at one binding.
//!
//! # Failure story
//!
//! A kubeconfig in a Secret was written by another party: it is judged as the syncer judges it, and the machine of the operator is
//! not dialled because of it. One that the operator names is the operator's own, and may do what any kubeconfig may. It leads to one
//! cluster, and bindings may borrow from several: under a binding that borrows from another one nothing of it is shown.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{ArgAction, Args};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use prometheus_client::registry::Registry;
use topoloom_api::cluster_binding::PolicySource;
use topoloom_api::{ClusterBinding, ResourceLeasingPolicy};
use topoloom_core::names::Uid;
use topoloom_sync::deletion::Evictions;
use topoloom_sync::identity::Identity;
use topoloom_sync::node::{KubeletEndpoint, Now};
use topoloom_sync::policy::object::Policy;
use topoloom_syncer::bindings::once::{self, Hindered, Looked};
use topoloom_syncer::convert::binding::{Reading, Surroundings, read};
use topoloom_syncer::kubeconfig::{self, Allowed, Loopback};
use topoloom_syncer::physical::{Dialer, Opens as _};
use topoloom_syncer::slices::node::NodeSlice;
use topoloom_syncer::survey::lists::{self, LentLists, PhysicalLists, Scope};
use topoloom_syncer::survey::{Sources, Survey, policies};

use super::overlay::Overlay;
use super::place::Place;
use crate::cli::ClusterArgs;
use crate::cli::options::values;
use crate::cluster::requests::Metrics;
use crate::cluster::{self, Refusal, RefusalReason, Side, gate, leases};

/// Nothing is written, so this is a number that has to be.
const WRITES_PER_SECOND: u32 = 1;
/// What is wrong with a cluster in which there can be no ClusterBindings.
pub(super) const UNDEFINED: &str =
    "this cluster has no definition of ClusterBindings (clusterbindings.topoloom.dev); it may not be the virtual one";

/// Where the two clusters are, and what the syncer was started with.
#[derive(Debug, Clone, Args)]
pub(super) struct PairArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Read the physical cluster with this kubeconfig of yours; default: the one in the Secret of the binding
    ///
    /// A binding that borrows from another cluster than this one is not read.
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
    /// Whether the syncer writes nothing but leases, as far as that could be read.
    is_read_only: Result<bool, Refusal>,
    /// Whether the operator named the one binding that is looked at.
    is_named: bool,
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
    /// Connects to the virtual cluster. `binding` is the one that the operator named.
    pub(super) async fn connect(args: &PairArgs, binding: Option<&str>) -> anyhow::Result<Self> {
        let lent = args.cluster.connect().await?;
        let wall = leases::server(&lent).await.context("asking the API server for its version")?.now;
        let kube_system = lists::cluster(&lent, Side::Virtual).await.context("reading the namespace kube-system")?;
        let virtual_cluster = args.virtual_cluster_id.as_deref().map_or_else(|| kube_system.clone(), Uid::from);
        let place = Box::pin(Place::of(&args.cluster, &lent)).await;
        let is_read_only = Box::pin(place.is_read_only(&lent)).await;
        Ok(Self {
            args: args.clone(),
            lent,
            now: Now { wall, steady: gate::boot_time() },
            virtual_cluster,
            kube_system,
            namespace: place.namespace,
            is_read_only,
            is_named: binding.is_some(),
            metrics: Metrics::register(&mut Registry::default()),
        })
    }

    /// All ClusterBindings; nothing where there is no definition of them.
    pub(super) async fn bindings(&self) -> Result<Option<Vec<ClusterBinding>>, Refusal> {
        match lists::bindings(&self.lent).await {
            Err(refusal) if refusal.reason == RefusalReason::NoSuchResource => Ok(None),
            answer => answer.map(Some),
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

    /// A client that reads the physical cluster of a binding. `all` are all bindings.
    pub(super) async fn physical(
        &self,
        object: &ClusterBinding,
        reading: &Reading,
        all: &[ClusterBinding],
    ) -> anyhow::Result<kube::Client> {
        let client = self.client(reading).await?;
        if self.args.physical_kubeconfig.is_some() {
            let cluster = lists::cluster(&client, Side::Physical).await.context("reading which cluster it is")?;
            self.is_meant(object, all, &cluster).map_err(anyhow::Error::msg)?;
        }
        Ok(client)
    }

    /// Whether a cluster is the one that the binding borrows from; or why that is not so, or not known. A Secret is that of its
    /// binding, and what another cluster means that answers there is for the bars to say.
    fn is_meant(&self, object: &ClusterBinding, all: &[ClusterBinding], cluster: &Uid) -> Result<(), String> {
        if self.args.physical_kubeconfig.is_none() {
            return Ok(());
        }
        let leads = format!("the kubeconfig of --physical-kubeconfig leads to the cluster {cluster}");
        match object.status.physical_cluster_uid.as_deref().filter(|uid| !uid.is_empty()) {
            Some(known) if *known == **cluster => Ok(()),
            Some(known) => Err(format!("{leads}, and the binding borrows from the cluster {known}")),
            None if all.len() > 1 && !self.is_named => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                Err(format!(
                    "{leads}, and it is not known yet from which one the binding borrows: if it is this one, add --binding {name}"
                ))
            }
            None => Ok(()),
        }
    }

    /// A client by the kubeconfig of the operator, otherwise by the Secret of the binding.
    async fn client(&self, reading: &Reading) -> anyhow::Result<kube::Client> {
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

    /// Reads the physical cluster to which the client of a binding leads.
    async fn machines(&self, reading: &Reading, scope: Scope<'_>) -> anyhow::Result<Machines> {
        let client = self.client(reading).await?;
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
        // What was read may have been read for another binding.
        let machines =
            machines.and_then(|machines| self.is_meant(object, common.bindings, &machines.cluster).map(|()| machines));
        let physical = machines.as_ref().ok();
        let looked = Looked {
            object,
            reading: &reading,
            all: common.bindings,
            kube_system: &self.kube_system,
            cluster: physical.map(|machines| &machines.cluster),
            is_read_only: matches!(self.is_read_only, Ok(true)),
            now: self.now,
        };
        let mut hindered = once::look(&looked, &self.lent, physical.map(|machines| &machines.client)).await;
        let mut remarks = hindered.remarks.clone();
        let unknown = |refusal: &Refusal| format!("whether writes are switched off could not be read: {refusal}");
        remarks.extend(self.is_read_only.as_ref().err().map(unknown));
        let overlay = common.overlay.at(object, common.bindings);
        let policies = self.policies(&reading, physical, &overlay, &mut remarks).await;
        let policies = policies.map(|stored| policies_of(&stored, &reading));
        let identity = &reading.terms.binding.identity;
        hindered.why.extend(failed(policies.as_deref().unwrap_or_default(), identity));
        let uid = |binding: &ClusterBinding| Some(binding.metadata.uid.as_deref()?.into());
        let sources = Sources {
            terms: &reading.terms,
            status: &object.status,
            hindered: &hindered,
            bindings: common.bindings.iter().filter_map(uid).collect(),
            lent: common.lent,
            physical: physical.map(|machines| &machines.lists),
            policies,
        };
        let survey = Survey::new(sources, self.now);
        hindered.why.extend(once::in_the_way(&survey.strays()));
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
        match self.stored_policies(reading, physical.map(|machines| &machines.client)).await? {
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

    /// The policies of the cluster that the binding takes them from; nothing where that is the physical one, and it is not read.
    async fn stored_policies(
        &self,
        reading: &Reading,
        physical: Option<&kube::Client>,
    ) -> Option<Result<Vec<ResourceLeasingPolicy>, Refusal>> {
        match (reading.terms.policy_source, physical) {
            (PolicySource::Virtual, _) => Some(lists::policies(&self.lent, Side::Virtual).await),
            (PolicySource::Physical, Some(client)) => Some(lists::policies(client, Side::Physical).await),
            (PolicySource::Physical, None) => None,
        }
    }

    /// Whether a file changes a stored policy that may be for this binding: one that it gives to another binding is taken from this
    /// one. Where policies cannot be read, a binding that lends may lose one.
    pub(super) async fn may_lose_a_policy(&self, object: &ClusterBinding, common: &Common<'_>) -> bool {
        let overlay = common.overlay.at(object, common.bindings);
        if !overlay.has_policies() {
            return false;
        }
        // One without right names lends nothing.
        let Ok(reading) = read(object, &self.around(&common.lent.nodes)) else { return false };
        let physical = match reading.terms.policy_source {
            PolicySource::Virtual => None,
            PolicySource::Physical => self.physical(object, &reading, common.bindings).await.ok(),
        };
        match self.stored_policies(&reading, physical.as_ref()).await {
            Some(Ok(stored)) => {
                overlay.changes_a_policy_of(reading.terms.binding.identity.binding(), &stored, &self.virtual_cluster)
            }
            Some(Err(refusal)) if refusal.reason == RefusalReason::NoSuchResource => false,
            // One that was never connected lends nothing.
            Some(Err(_)) | None => object.status.physical_cluster_uid.is_some(),
        }
    }
}

fn policies_of(stored: &[ResourceLeasingPolicy], reading: &Reading) -> Vec<Policy> {
    policies(stored, reading.terms.binding.identity.binding())
}

/// The policies for a binding in which there is a mistake, each in a sentence.
fn failed(policies: &[Policy], identity: &Identity) -> Vec<String> {
    let has_mistake = |policy: &&Policy| {
        policy.is_for(identity.binding(), identity.virtual_cluster()) && policy.judgement().problems().is_some()
    };
    let sentence = |policy: &Policy| format!("policy {} is {}", policy.name(), policy.judgement());
    policies.iter().filter(has_mistake).map(sentence).collect()
}

/// Where the virtual nodes say that the kubelet's API is served. Without it no port is set.
fn shown_endpoint(nodes: &[NodeSlice], virtual_cluster: &str) -> Option<KubeletEndpoint> {
    nodes.iter().find_map(|node| {
        let lent = node.clone().lent().ok()?;
        let is_ours = lent.metadata.labels.get(topoloom_sync::keys::VIRTUAL_CLUSTER)? == virtual_cluster;
        let address = lent.addresses.value().as_array()?.first()?.get("address")?.as_str()?.to_owned();
        lent.port.filter(|_| is_ours).map(|port| KubeletEndpoint { address, port })
    })
}

/// A virtual cluster and bindings for the tests of commands.
#[cfg(test)]
pub(super) mod examples {
    use std::time::Duration;

    use clap::Parser;
    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        pair: PairArgs,
    }

    /// The virtual cluster that this client reads, for a command with these flags.
    pub(in crate::cli::lend) fn clusters(lent: kube::Client, flags: &[&str]) -> Clusters {
        let words = Words::try_parse_from(std::iter::once("lend").chain(flags.iter().copied())).unwrap();
        Clusters {
            args: words.pair,
            lent,
            now: Now { wall: Timestamp::UNIX_EPOCH, steady: Duration::from_secs(100_000) },
            virtual_cluster: "vc".into(),
            kube_system: "vc".into(),
            namespace: "own".to_owned(),
            is_read_only: Ok(false),
            is_named: false,
            metrics: Metrics::register(&mut Registry::default()),
        }
    }

    /// A binding that takes its policies from this side, and has this status.
    pub(in crate::cli::lend) fn binding(name: &str, source: &str, status: Value) -> ClusterBinding {
        let object = json!({
            "metadata": {"name": name, "uid": format!("{name}-uid")},
            "spec": {
                "clusterID": name, "mountNamespace": "lent", "secretRef": {"name": "kube"}, "policySource": source,
            },
            "status": status,
        });
        serde_json::from_value(object).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use topoloom_sync::bars::Bar;

    use super::super::answers::{client, list};
    use super::examples::{binding, clusters};
    use super::*;

    /// What is seen of a binding where the Secret of all of them, or a kubeconfig of the operator, leads to the cluster `a`.
    async fn seen(clusters: &Clusters, object: &ClusterBinding, all: &[ClusterBinding]) -> Seen {
        seen_beside(&LentLists::default(), clusters, object, all).await
    }

    /// The same where this is in the virtual cluster.
    async fn seen_beside(
        lent: &LentLists,
        clusters: &Clusters,
        object: &ClusterBinding,
        all: &[ClusterBinding],
    ) -> Seen {
        let overlay = Overlay::default();
        let common = Common { bindings: all, lent, overlay: &overlay };
        let machines = Machines { client: client(&[]), cluster: "a".into(), lists: PhysicalLists::default() };
        let mut known = Known::from([("kube".to_owned(), Ok(Arc::new(machines)))]);
        clusters.look(object, &common, Scope::All, &mut known).await.unwrap()
    }

    fn bars(seen: &Seen) -> Vec<Bar> {
        seen.hindered.bars.iter().collect()
    }

    #[tokio::test]
    async fn s6_s23_a_kubeconfig_of_the_operator_shows_nothing_of_a_binding_that_borrows_from_another_cluster() {
        let all = [
            binding("east", "physical", json!({"physicalClusterUID": "a"})),
            binding("west", "physical", json!({"physicalClusterUID": "b"})),
            binding("north", "physical", json!({})),
        ];
        let mut clusters = clusters(client(&[]), &["--physical-kubeconfig", "a.yaml"]);
        let leads = "the kubeconfig of --physical-kubeconfig leads to the cluster a, and ";
        let east = seen(&clusters, &all[0], &all).await;
        assert!(east.machines.is_ok() && bars(&east).is_empty());
        let west = seen(&clusters, &all[1], &all).await;
        assert_eq!(bars(&west), [Bar::Suspect], "nothing says that its cluster is another one now");
        assert_eq!(west.machines.err(), Some(format!("{leads}the binding borrows from the cluster b")));
        let north = seen(&clusters, &all[2], &all).await;
        assert!(north.machines.err().is_some_and(|why| why.starts_with(leads) && why.ends_with("add --binding north")));
        // The only one, and one that the operator names.
        assert!(seen(&clusters, &all[2], &all[2..]).await.machines.is_ok());
        clusters.is_named = true;
        assert!(seen(&clusters, &all[2], &all).await.machines.is_ok());
    }

    #[tokio::test]
    async fn s6_the_secret_of_a_binding_that_leads_to_another_cluster_is_a_bar() {
        let all = [binding("west", "physical", json!({"physicalClusterUID": "b"}))];
        let west = seen(&clusters(client(&[]), &[]), &all[0], &all).await;
        assert!(west.machines.is_ok());
        assert_eq!(bars(&west), [Bar::ClusterChanged]);
    }

    #[tokio::test]
    async fn s6_s23_a_virtual_node_that_lacks_a_label_of_identity_is_named_with_what_to_type() {
        let all = [binding("east", "physical", json!({"physicalClusterUID": "a"}))];
        let node = |annotations: Value| {
            let labels = json!({"topoloom.dev/virtual-cluster": "vc"});
            let metadata = json!({"name": "vnode-east-w1", "uid": "u", "labels": labels, "annotations": annotations});
            LentLists {
                nodes: vec![serde_json::from_value(json!({"metadata": metadata})).unwrap()],
                ..LentLists::default()
            }
        };
        let clusters = clusters(client(&[]), &[]);
        let ours = node(json!({"topoloom.dev/physical-node-name": "w1"}));
        let seen = seen_beside(&ours, &clusters, &all[0], &all).await;
        let [why] = &seen.hindered.why[..] else { panic!("{:?}", seen.hindered.why) };
        assert!(
            why.starts_with("1 virtual nodes lack labels of identity: vnode-east-w1 (topoloom.dev/binding). "),
            "{why}"
        );
        assert!(
            why.contains("kubectl label node vnode-east-w1 topoloom.dev/virtual-cluster=vc topoloom.dev/binding=east")
        );
        assert_eq!(seen.survey.view.uid_of_lent("vnode-east-w1"), Some("u".into()), "nothing is made in its place");
        // A node that only has the name is none of ours.
        assert!(seen_beside(&node(json!({})), &clusters, &all[0], &all).await.hindered.why.is_empty());
    }

    #[tokio::test]
    async fn s8_s23_a_policy_with_a_mistake_is_said_under_its_binding() {
        let policy = |name: &str, cluster: &str, zone: &str| json!({"metadata": {"name": name}, "spec": {"cluster": cluster, "timeZone": zone}});
        let stored = [
            policy("nights", "east", "Mars/Olympus"),
            policy("days", "east", "UTC"),
            policy("x", "west", "Mars/Olympus"),
        ];
        let policies = ("/apis/topoloom.dev/v1alpha1/resourceleasingpolicies", list(&stored));
        let all = [binding("east", "virtual", json!({"physicalClusterUID": "a"}))];
        let seen = seen(&clusters(client(&[policies]), &[]), &all[0], &all).await;
        let [why] = &seen.hindered.why[..] else { panic!("{:?}", seen.hindered.why) };
        assert!(why.starts_with("policy nights is invalid, and no valid version of it is known"), "{why}");
    }

    #[tokio::test]
    async fn s27_writes_that_are_switched_off_are_seen_and_what_is_not_known_of_them_is_a_remark() {
        let all = [binding("east", "physical", json!({"physicalClusterUID": "a"}))];
        let mut clusters = clusters(client(&[]), &[]);
        clusters.is_read_only = Ok(true);
        assert_eq!(bars(&seen(&clusters, &all[0], &all).await), [Bar::ReadOnly]);
        let message = "configmaps is forbidden".to_owned();
        clusters.is_read_only = Err(Refusal { reason: RefusalReason::Forbidden, message, retry_after: None });
        let unknown = seen(&clusters, &all[0], &all).await;
        let remark = "whether writes are switched off could not be read: configmaps is forbidden";
        assert!(
            bars(&unknown).is_empty() && unknown.remarks.iter().any(|said| said == remark),
            "{:?}",
            unknown.remarks
        );
    }

    #[tokio::test]
    async fn s23_a_cluster_without_the_definition_of_bindings_is_another_thing_than_one_without_bindings() {
        let bindings = async |answers: &[(&str, Value)]| clusters(client(answers), &[]).bindings().await.unwrap();
        assert_eq!(bindings(&[]).await, None);
        assert_eq!(bindings(&[("/apis/topoloom.dev/v1alpha1/clusterbindings", list(&[]))]).await, Some(Vec::new()));
    }

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
