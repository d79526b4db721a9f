//! Plugins that are swapped while the real binary runs on a real control plane.
//!
//! Every plugin is the label plugin, 306 KiB, under another digest: the host treats it as a plugin of another vendor
//! and compiles it in its child. It is delivered through a ConfigMap, packed, as `topoloom plugin push` writes it; in one
//! part through a registry. One control plane serves all parts; each starts a host of its own.

mod crowd;
mod diary;
mod gaps;
mod marathon;
mod pushes;
mod registries;
mod statuses;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use topoloom::delivery::unpack::pack;
use topoloom::plugin::Digest;
use topoloom_api::DiscoverySource;
use topoloom_api::names::{MANAGED_BY, MANAGED_BY_LABEL};
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, Scene};

use crate::cluster::{KEYS, TYPES, labels, name};
use crate::options::Options;
use crate::plugins::variant;
use crate::table::Table;
use statuses::Statuses;

/// Nodes of the cluster.
const SIZE: u32 = 1_000;
/// The log that the parts read: when each step of a swap happened, and how long each round and each call took.
const LOG: &str = "info,topoloom::discovery::supervisor::swap=debug,topoloom::discovery::supervisor::shadow=debug,\
                   topoloom::discovery::supervisor::round=debug,topoloom::plugin::call=debug";

pub(crate) async fn measure(options: &Options, table: &mut Table) -> Result<()> {
    eprintln!("bench: starting a control plane with {SIZE} nodes");
    let scene = Scene::alone().await?;
    scene.plane.create_nodes((0..SIZE).map(|node| (name(node), labels(node)))).await?;
    let stage = Stage { scene };
    if options.wants("pushes") {
        pushes::measure(&stage, options, table).await?;
    }
    if options.wants("registries") {
        registries::measure(&stage, options, table).await?;
    }
    if options.wants("gaps") {
        gaps::measure(&stage, options, table).await?;
    }
    if options.wants("crowd") {
        crowd::measure(&stage, options, table).await?;
    }
    if options.wants("marathon") {
        marathon::measure(&stage, options, table).await?;
    }
    stage.scene.plane.stop().await
}

/// A control plane with nodes.
struct Stage {
    scene: Scene,
}

/// A plugin, ready to be written.
struct Parcel {
    digest: Digest,
    body: Value,
}

impl Parcel {
    /// The plugin of that number for the ConfigMap of a source.
    fn new(source: &str, number: u32) -> Result<Self> {
        let bytes = variant(number)?;
        let digest = Digest::of(&bytes);
        let body = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": map(source), "namespace": NAMESPACE},
            "data": {"plugin.yaml": format!("name: label\ndigest: {digest}\n")},
            "binaryData": {"plugin.wasm": ByteString(pack(&bytes))},
        });
        Ok(Self { digest, body })
    }
}

/// The ConfigMap that delivers the plugin of a source.
fn map(source: &str) -> String {
    format!("plugin-of-{source}")
}

impl Stage {
    /// Deletes the objects of earlier parts and starts a host with these sources. Each source takes its plugin from its
    /// ConfigMap, which must hold one already.
    async fn host(&self, sources: &[String], arguments: &[&str]) -> Result<(Host, Statuses)> {
        let place = |source: &String| json!({"configMap": {"name": map(source), "key": "plugin.wasm"}});
        let sources: Vec<(&str, Value)> = sources.iter().map(|source| (source.as_str(), place(source))).collect();
        self.host_of(&sources, arguments).await
    }

    /// The same with the place of each plugin as an entry names it.
    async fn host_of(&self, sources: &[(&str, Value)], arguments: &[&str]) -> Result<(Host, Statuses)> {
        let (deletion, all) = (DeleteParams::default(), ListParams::default());
        Api::<DiscoverySource>::all(self.scene.plane.client()).delete_collection(&deletion, &all).await?;
        self.scene.hyper_nodes().delete_collection(&deletion, &all).await?;
        let maps: Api<ConfigMap> = Api::namespaced(self.scene.plane.client(), NAMESPACE);
        let kept = ListParams::default().labels(&format!("{MANAGED_BY_LABEL}={MANAGED_BY}"));
        maps.delete_collection(&deletion, &kept).await?;
        let config: Value = serde_json::from_str(TYPES)?;
        let entry = |(source, plugin): &(&str, Value)| {
            json!({
                "source": source, "enabled": true, "plugin": plugin,
                "permissions": {"nodeLabels": KEYS},
                "config": config,
            })
        };
        let entries: Vec<Value> = sources.iter().map(entry).collect();
        // JSON is YAML.
        self.scene.configure(&json!({"networkTopologyDiscovery": entries}).to_string()).await?;
        let arguments = [&["--log", LOG], arguments].concat();
        let host = Host::start(&self.scene.plane.kubeconfig(), &arguments).await?;
        Ok((host, Statuses::new(self.scene.plane.client())))
    }

    /// Writes a ConfigMap.
    async fn deliver(&self, parcel: &Parcel) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.scene.plane.client(), NAMESPACE);
        let name = parcel.body["metadata"]["name"].as_str().context("the ConfigMap has a name")?;
        maps.patch(name, &PatchParams::apply("bench").force(), &Patch::Apply(&parcel.body)).await?;
        Ok(())
    }
}

/// The sum of all series of a metric whose lines contain these words.
async fn metric(host: &Host, name: &str, words: &[&str]) -> Result<f64> {
    let text = host.get("/metrics").await?;
    let lines = text.lines().filter(|line| line.starts_with(name) && words.iter().all(|word| line.contains(word)));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}
