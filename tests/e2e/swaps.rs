//! Plugins that are swapped while the host runs, on a real control plane: which plugin becomes active, which is
//! refused, when the host rolls back, and which topology is in force meanwhile.

mod delivered;
mod killed;
mod refused;
mod stored;
mod watched;

use anyhow::{Context, Result};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use topoloom::plugin::Digest;
use topoloom_api::discovery_source::DiscoverySourceStatus;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::guest;
use topoloom_tests::scene::{NAMESPACE, PATIENCE, Scene};

/// The ConfigMap that plugins are delivered in.
const MAP: &str = "versions-plugin";

/// One source whose plugin is in that ConfigMap.
pub(crate) const ENTRY: &str = "
networkTopologyDiscovery:
- source: fabric
  enabled: true
  plugin: {configMap: {name: versions-plugin, key: plugin.wasm}}
  permissions: {nodeLabels: [example.com/rack]}
  limits: {cpu: 2s}
";

/// Twenty nodes in two racks.
pub(crate) const RACKS: [&str; 2] = [
    "tier 1 example.com/rack=a (10): n00 n01 n02 n03 n04 n05 n06 n07 n08 n09",
    "tier 1 example.com/rack=b (10): n10 n11 n12 n13 n14 n15 n16 n17 n18 n19",
];

/// A cluster with those nodes, without a configuration.
pub(crate) async fn scene() -> Result<Scene> {
    let scene = Scene::new().await?;
    let nodes: Vec<String> =
        (0..20).map(|i| format!("n{i:02} example.com/rack={}", if i < 10 { "a" } else { "b" })).collect();
    scene.nodes(&nodes.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    Ok(scene)
}

/// The same with version 1.0.0 as the active plugin.
async fn serving() -> Result<(Scene, topoloom_tests::host::Host)> {
    let scene = scene().await?;
    push(&scene, "good", "1.0.0").await?;
    scene.configure(ENTRY).await?;
    let host = scene.host().await?;
    scene.until(&RACKS).await;
    until_serving(&scene, "1.0.0").await;
    Ok((scene, host))
}

/// Pushes a version as an operator does, and returns its digest.
pub(crate) async fn push(scene: &Scene, act: &str, version: &str) -> Result<Digest> {
    let bytes = guest::version(act, version)?;
    if matches!(act, "deaf") {
        // The command line would not push it: no host could serve with it.
        deliver(scene, &bytes, Some(&Digest::of(&bytes).to_string())).await?;
        return Ok(Digest::of(&bytes));
    }
    let file = scene.plane.folder().join(format!("{act}-{version}.wasm"));
    std::fs::write(&file, &bytes)?;
    let map = format!("{NAMESPACE}/{MAP}");
    scene.cli(&["plugin", "push", &file.to_string_lossy(), "--configmap", &map]).await?;
    Ok(Digest::of(&bytes))
}

/// Writes the ConfigMap by hand: any bytes, and any digest in its declaration.
async fn deliver(scene: &Scene, bytes: &[u8], declared: Option<&str>) -> Result<()> {
    let declaration = declared.map(|digest| format!("name: versions\ndigest: {digest}\n"));
    deliver_as(scene, bytes, declaration.as_deref()).await
}

/// The same with any declaration.
async fn deliver_as(scene: &Scene, bytes: &[u8], declaration: Option<&str>) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(scene.plane.client(), NAMESPACE);
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MAP},
        "data": {"plugin.yaml": declaration},
        "binaryData": {"plugin.wasm": ByteString(bytes.to_vec())},
    });
    let parameters = PatchParams { field_manager: Some("another".into()), ..PatchParams::default() };
    if maps.get_opt(MAP).await?.is_none() {
        maps.create(&Default::default(), &serde_json::from_value(json!({"metadata": {"name": MAP}}))?).await?;
    }
    maps.patch(MAP, &parameters, &Patch::Merge(&body)).await?;
    Ok(())
}

/// Waits until the status of the source is as wanted, and returns it.
pub(crate) async fn until_status(
    scene: &Scene,
    what: &str,
    wanted: impl Fn(&DiscoverySourceStatus) -> bool,
) -> DiscoverySourceStatus {
    eventually(what, PATIENCE, async || {
        let object = scene.source("fabric").await.map_err(|error| error.to_string())?;
        if wanted(&object.status) { Ok(object.status) } else { Err(format!("{:#?}", object.status)) }
    })
    .await
}

/// Waits until this version serves.
pub(crate) async fn until_serving(scene: &Scene, version: &str) -> DiscoverySourceStatus {
    let serves =
        |status: &DiscoverySourceStatus| status.plugin.as_ref().is_some_and(|plugin| plugin.version == version);
    until_status(scene, &format!("version {version} serves"), serves).await
}

/// Waits until the source has no candidate, and its condition `Loaded` is true.
pub(crate) async fn until_quiet(scene: &Scene) {
    until_status(scene, "nothing waits", |status| {
        let good = status.conditions.iter().filter(|condition| condition.type_ == "Loaded");
        status.candidate.is_none() && good.map(|condition| condition.status.as_str()).eq(["True"])
    })
    .await;
}

/// The digests of the modules that the host keeps.
pub(crate) async fn kept(scene: &Scene) -> Result<Vec<String>> {
    let maps: Api<ConfigMap> = Api::namespaced(scene.plane.client(), NAMESPACE);
    let list = maps.list(&Default::default()).await?.items.into_iter();
    let mut kept: Vec<String> = list
        .filter(|map| map.metadata.name.as_deref().is_some_and(|name| name.starts_with("topoloom-module-")))
        .map(|map| {
            let annotations = map.metadata.annotations.context("a kept module says what it is")?;
            annotations.get("topoloom.dev/module-digest").cloned().context("a kept module has a digest")
        })
        .collect::<Result<_>>()?;
    kept.sort();
    Ok(kept)
}
