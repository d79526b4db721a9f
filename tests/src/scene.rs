//! A cluster with a configuration and a host: the base of an end-to-end test.
//!
//! A topology is compared as text, one line per HyperNode without its random-looking name:
//!
//! ```text
//! tier 2 ex.io/spine=s1 (3): ex.io/rack=a7 ex.io/rack=b1
//! tier 1 ex.io/rack=a7 (2): m1 m2
//! ```

mod rights;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;
use topoloom_api::hyper_node::MemberType;
use topoloom_api::names::{GROUP_ID_ANNOTATION, SOURCE_LABEL};
use topoloom_api::{DiscoverySource, HyperNode, object_name};

use crate::chart;
use crate::controlplane::{Audit, Builder, Content, ControlPlane, Requests, Wanted, eventually};
use crate::host::Host;

/// Where the configuration is.
pub const NAMESPACE: &str = "volcano-system";
/// Its name.
pub const CONFIG_MAP: &str = "volcano-controller-configmap";
const KEY: &str = "volcano-controller.conf";
/// The lease of the leader.
const LEASE: &str = "topoloom-hypernode";

/// How long a change may take to show; a test that needs it all has failed.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The two levels of the worked examples, as one entry.
pub const RACKS: &str = "
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      gpu:
      - nodeLabel: ex.io/spine
      - nodeLabel: ex.io/rack
      - nodeLabel: kubernetes.io/hostname
";

/// A control plane with our CRDs.
pub struct Scene {
    /// The servers.
    pub plane: ControlPlane,
    rights: tokio::sync::Mutex<Rights>,
}

/// The rights of the host in this scene.
#[derive(Default)]
struct Rights {
    access: rights::Access,
    rules: rights::Rules,
    /// Set once there is a ServiceAccount.
    kubeconfig: Option<std::path::PathBuf>,
}

impl Scene {
    /// A cluster without nodes and without a configuration, on a control plane that other tests had before.
    ///
    /// # Errors
    /// When a server does not start.
    pub async fn new() -> Result<Self> {
        Self::on_a_shared_one(Audit::Off).await
    }

    /// The same on one with an audit log.
    ///
    /// # Errors
    /// When a server does not start.
    pub async fn audited() -> Result<Self> {
        Self::on_a_shared_one(Audit::On).await
    }

    async fn on_a_shared_one(audit: Audit) -> Result<Self> {
        let plane = ControlPlane::shared(audit, &content(), &policies()).await?;
        Ok(Self { plane, rights: tokio::sync::Mutex::default() })
    }

    /// Several control planes at the same time, without a host: each is one that other tests had before, with our CRDs, or a
    /// new one. A test has to stop those that it shares when nothing of its own writes to them any more.
    ///
    /// # Errors
    /// When a server does not start.
    pub async fn planes<const N: usize>(wanted: [Wanted; N]) -> Result<[ControlPlane; N]> {
        ControlPlane::several_shared(wanted, &content(), &policies()).await
    }

    /// The same on a control plane of its own.
    ///
    /// # Errors
    /// When a server does not start.
    pub async fn alone() -> Result<Self> {
        Self::with(ControlPlane::builder()).await
    }

    /// The same with these settings.
    ///
    /// # Errors
    /// When a server does not start.
    pub async fn with(builder: Builder) -> Result<Self> {
        let [scene] = Self::several([builder]).await?;
        Ok(scene)
    }

    /// Several at the same time, each on a control plane of its own.
    ///
    /// # Errors
    /// When a server does not start.
    pub async fn several<const N: usize>(builders: [Builder; N]) -> Result<[Self; N]> {
        let planes = ControlPlane::several(builders.map(|builder| builder.content(content()))).await?;
        Ok(planes.map(|plane| Self { plane, rights: tokio::sync::Mutex::default() }))
    }

    /// Starts the host and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn host(&self) -> Result<Host> {
        self.host_with(&[]).await
    }

    /// The same with more arguments.
    ///
    /// # Errors
    /// When it does not become ready.
    pub async fn host_with(&self, arguments: &[&str]) -> Result<Host> {
        Host::start(&self.host_kubeconfig().await?, arguments).await
    }

    /// Kills a host and frees its lease: only the tests of failover wait until the lease of a dead host has expired.
    ///
    /// # Errors
    /// When it cannot be killed, or its lease cannot be deleted.
    pub async fn kill(&self, host: Host) -> Result<()> {
        host.kill().await?;
        self.free_lease().await
    }

    /// Deletes the lease of a host that has ended without releasing it.
    ///
    /// # Errors
    /// When it cannot be deleted.
    pub async fn free_lease(&self) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.plane.client(), NAMESPACE);
        leases.delete(LEASE, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Runs the host until the topology is this one.
    ///
    /// # Errors
    /// When it does not become ready, or does not stop.
    ///
    /// # Panics
    /// When the topology does not become so.
    pub async fn run_until(&self, wanted: &[&str]) -> Result<()> {
        let host = self.host().await?;
        self.until(wanted).await;
        host.stop().await
    }

    /// Runs another verb of the binary and returns its output.
    ///
    /// # Errors
    /// With what it wrote to standard error, and after that to standard output, when it fails.
    pub async fn cli(&self, arguments: &[&str]) -> Result<String> {
        let output = tokio::process::Command::new(crate::host::binary()?)
            .args(arguments)
            .arg("--kubeconfig")
            .arg(self.plane.kubeconfig())
            .env_remove("KUBECONFIG")
            .output()
            .await?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let answer = String::from_utf8_lossy(&output.stdout);
        anyhow::ensure!(output.status.success(), "topoloom {arguments:?}: {}: {errors}\n{answer}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The same with `-o json`, checked against its schema.
    ///
    /// # Errors
    /// When it fails, or prints what the schema does not allow.
    pub async fn json(&self, arguments: &[&str]) -> Result<serde_json::Value> {
        crate::schema::checked(&self.cli(&[arguments, &["-o", "json"]].concat()).await?)
    }

    /// Writes the configuration.
    ///
    /// # Errors
    /// The refusal.
    pub async fn configure(&self, text: &str) -> Result<()> {
        self.allow(text).await?;
        let maps: Api<ConfigMap> = Api::namespaced(self.plane.client(), NAMESPACE);
        let body =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP}, "data": {KEY: text}});
        maps.patch(CONFIG_MAP, &PatchParams::apply("test").force(), &Patch::Apply(&body)).await?;
        Ok(())
    }

    /// Deletes the configuration.
    ///
    /// # Errors
    /// The refusal.
    pub async fn unconfigure(&self) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.plane.client(), NAMESPACE);
        maps.delete(CONFIG_MAP, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Creates a node per line: `NAME KEY=VALUE …`.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn nodes(&self, lines: &[&str]) -> Result<()> {
        let nodes = lines.iter().map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap_or_default().to_owned();
            let labels: Vec<(String, String)> = words
                .filter_map(|word| word.split_once('='))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            (name, labels)
        });
        self.plane.create_nodes(nodes.collect::<Vec<_>>()).await
    }

    /// Deletes nodes.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn delete_nodes(&self, names: &[&str]) -> Result<()> {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.plane.client());
        for name in names {
            nodes.delete(name, &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// HyperNodes.
    pub fn hyper_nodes(&self) -> Api<HyperNode> {
        Api::all(self.plane.client())
    }

    /// Every HyperNode by name.
    ///
    /// # Errors
    /// The refusal.
    pub async fn stored(&self) -> Result<BTreeMap<String, HyperNode>> {
        let list = self.hyper_nodes().list(&ListParams::default()).await?;
        Ok(list.items.into_iter().map(|object| (object.metadata.name.clone().unwrap_or_default(), object)).collect())
    }

    /// Writes an object by hand, as another program would.
    ///
    /// # Errors
    /// The refusal.
    pub async fn put(&self, object: serde_json::Value) -> Result<HyperNode> {
        let name = object["metadata"]["name"].as_str().context("the object has a name")?.to_owned();
        let parameters = PatchParams::apply("another").force();
        Ok(self.hyper_nodes().patch(&name, &parameters, &Patch::Apply(&object)).await?)
    }

    /// The topology as text, sorted from the top down.
    ///
    /// # Errors
    /// The refusal.
    pub async fn topology(&self) -> Result<Vec<String>> {
        Ok(describe(&self.stored().await?))
    }

    /// Waits until the topology, with counts, is this one.
    ///
    /// # Panics
    /// When it does not become so, with the last one.
    pub async fn until(&self, wanted: &[&str]) {
        eventually(&format!("the topology is {wanted:#?}"), PATIENCE, async || {
            let is = self.topology().await.map_err(|error| error.to_string())?;
            if is == wanted { Ok(()) } else { Err(format!("{is:#?}")) }
        })
        .await;
    }

    /// The status object of a source.
    ///
    /// # Errors
    /// When there is none.
    pub async fn source(&self, source: &str) -> Result<DiscoverySource> {
        let sources: Api<DiscoverySource> = Api::all(self.plane.client());
        Ok(sources.get(&object_name(source)).await?)
    }

    /// Waits until a condition of a source has this status and reason; returns its message.
    ///
    /// # Panics
    /// When it does not become so, with the last conditions.
    pub async fn until_condition(&self, source: &str, type_: &str, status: &str, reason: &str) -> String {
        eventually(&format!("{source} has {type_}={status} ({reason})"), PATIENCE, async || {
            let object = self.source(source).await.map_err(|error| error.to_string())?;
            let found = object.status.conditions.iter().find(|condition| condition.type_ == type_);
            match found {
                Some(found) if found.status == status && found.reason == reason => Ok(found.message.clone()),
                _ => Err(format!("{:#?}", object.status)),
            }
        })
        .await
    }

    /// The name of the only object with this title.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub async fn name_of(&self, wanted: &str) -> Result<String> {
        let stored = self.stored().await?;
        let names: Vec<_> = stored.iter().filter(|(_, object)| title(object) == wanted).map(|(name, _)| name).collect();
        match names.as_slice() {
            [name] => Ok((*name).clone()),
            names => anyhow::bail!("{wanted} is the title of {names:?}"),
        }
    }

    /// Waits until a source has this state.
    ///
    /// # Panics
    /// When it does not become so, with the last status.
    pub async fn until_state(&self, source: &str, state: &str) {
        eventually(&format!("{source} is {state}"), PATIENCE, async || {
            let object = self.source(source).await.map_err(|error| error.to_string())?;
            match object.status.state {
                Some(found) if found.as_str() == state => Ok(()),
                _ => Err(format!("{:#?}", object.status)),
            }
        })
        .await;
    }

    /// The writes to HyperNodes and their status since an earlier count.
    ///
    /// # Errors
    /// When the API server does not answer.
    pub async fn writes_since(&self, earlier: &Requests) -> Result<(u64, u64)> {
        let now = self.plane.requests().await?.since(earlier);
        Ok((now.writes("hypernodes", ""), now.writes("hypernodes", "status")))
    }
}

/// What every scene begins with: our definitions, and the namespace of the configuration.
fn content() -> Content {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    Content { definitions: topoloom_api::crds(), objects: vec![namespace] }
}

/// The admission policies of the chart that have the same content in all tests: of both Deployments, and of the syncer in the namespace
/// in which tests of lending have it.
fn policies() -> Vec<String> {
    let of_the_host = ["nodes", "pods", "configmaps"].map(|name| format!("{}.{name}", chart::CLUSTER_NAME));
    let lending = format!("{}.{}", chart::SYNCER, chart::plain::NAMESPACE);
    let of_the_syncer = [chart::SYNCER_CLUSTER_NAME, lending.as_str()]
        .map(|cluster| ["nodes", "csinodes", "pods", "leases"].map(|name| format!("{cluster}.{name}")));
    [&of_the_host[..], &of_the_syncer.concat()[..]].concat()
}

/// A HyperNode that a person makes by hand.
pub fn by_hand(name: &str, tier: u32, kind: &str, members: &[&str]) -> serde_json::Value {
    let members: Vec<_> = members
        .iter()
        .map(|name| serde_json::json!({"type": kind, "selector": {"exactMatch": {"name": name}}}))
        .collect();
    serde_json::json!({
        "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
        "metadata": {"name": name}, "spec": {"tier": tier, "members": members},
    })
}

/// A title for an object: its labels without the source's; or source and identity, if it has no such label; or its
/// name, if it has no owner.
pub fn title(object: &HyperNode) -> String {
    let metadata = &object.metadata;
    let labels = metadata.labels.clone().unwrap_or_default();
    let (source, own): (Vec<_>, Vec<_>) = labels.iter().partition(|(key, _)| *key == SOURCE_LABEL);
    let id = metadata.annotations.as_ref().and_then(|annotations| annotations.get(GROUP_ID_ANNOTATION));
    match (own.as_slice(), source.as_slice(), id) {
        ([], [(_, source)], Some(id)) => format!("{source} {id}"),
        ([], ..) => metadata.name.clone().unwrap_or_default(),
        (own, ..) => own.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(","),
    }
}

/// Objects as text.
pub fn describe(objects: &BTreeMap<String, HyperNode>) -> Vec<String> {
    let mut lines: Vec<(i64, String)> = objects
        .values()
        .map(|object| {
            let mut members: Vec<String> = object
                .spec
                .members
                .iter()
                .map(|member| {
                    let name = member.selector.as_ref().and_then(|selector| selector.exact_match.as_ref());
                    let name = name.map_or("?", |exact| exact.name.as_str());
                    match (member.type_, objects.get(name)) {
                        (MemberType::HyperNode, Some(child)) => title(child),
                        _ => name.to_owned(),
                    }
                })
                .collect();
            members.sort();
            let count = object.status.as_ref().and_then(|status| status.node_count);
            let count = count.map_or("?".to_owned(), |count| count.to_string());
            (object.spec.tier, format!("tier {} {} ({count}): {}", object.spec.tier, title(object), members.join(" ")))
        })
        .collect();
    lines.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    lines.into_iter().map(|(_, line)| line).collect()
}
