//! A cluster whose nodes have their switches as LLDP neighbours, and a service for the same fabric.

use std::collections::BTreeMap;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use topoloom_api::HyperNode;
use topoloom_api::hyper_node::MemberType;
use topoloom_simulator::{Coverage, Credentials, FabricDocument, Simulator};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::rig::{Rig, TOKEN};

/// The annotation that the collector writes.
pub(super) const ANNOTATION: &str = "topoloom.dev/fabric-links";

/// Starts a service for the rig's fabric, which accepts the token.
pub(super) async fn service(rig: &Rig, coverage: Coverage) -> Result<Simulator> {
    let credentials = Credentials::none().token(TOKEN);
    Ok(FabricDocument::builder(rig.fabric.clone()).coverage(coverage).credentials(credentials).start().await?)
}

/// The entry of a source for such a service, with short timeouts.
pub(super) fn entry(server: &Simulator, credentials: &str, config: &str) -> String {
    let pem: String = server.ca_pem().into_iter().flat_map(str::lines).map(|line| format!("      {line}\n")).collect();
    format!(
        "- source: roce
  enabled: true
  interval: 1h
{credentials}  permissions:
    endpoints:
      fabric: {{addresses: [loopback], timeouts: {{connect: 1s, firstByte: 1s, total: 3s}}, maxBody: 2Mi}}
  config:
    endpoint: \"{}\"
    caBundle: |
{pem}{config}",
        server.url()
    )
}

/// The credential of an entry: the Secret that the rig writes.
pub(super) const SECRET: &str = "  credentials: {secretRef: {name: ufm}}\n";

/// The entry of a source without a service.
pub(super) fn plain(config: &str) -> String {
    format!("- source: roce\n  enabled: true\n  interval: 1h\n  config: {{{config}}}\n")
}

/// The annotation that a collector makes from the output of lldpcli: a switch for each interface, given by the last
/// number of its address.
pub(super) fn heard(node: &str, switches: &[(&str, u8)]) -> String {
    let interfaces = switches.iter().map(|(interface, number)| {
        json!({
            "name": interface, "via": "LLDP", "rid": "1", "age": "",
            "chassis": [{
                "id": [{"type": "mac", "value": format!("7c:8c:09:aa:bb:{number:02x}")}],
                "name": [{"value": format!("leaf-{number}")}],
                "descr": [{"value": "Switch OS 4.2\nBuild \"release\""}],
                "capability": [{"type": "Bridge", "enabled": true}, {"type": "Station", "enabled": false}],
            }],
            "port": [{"id": [{"type": "ifname", "value": "swp7"}], "ttl": [{"value": "120"}]}],
        })
    });
    let interfaces: Vec<Value> = interfaces.collect();
    let up: Vec<&str> = switches.iter().map(|(interface, _)| *interface).collect();
    json!({
        "schema": "topoloom.fabric/v1", "node": node, "observedAt": now(), "collector": "topoloom roce-collector",
        "upInterfaces": up, "lldpcli": {"lldp": [{"interface": interfaces}]},
    })
    .to_string()
}

/// The current time in seconds, as collectors write it.
pub(super) fn now() -> String {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap().to_string()
}

/// Writes the annotation of a Node, or removes it.
pub(super) async fn annotate(scene: &Scene, node: &str, value: Option<&str>) -> Result<()> {
    let patch = json!({"metadata": {"annotations": {ANNOTATION: value}}});
    let nodes: Api<Node> = Api::all(scene.plane.client());
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Requests one round now: otherwise a change of nodes or documents waits until the pause after the last round is over.
pub(super) async fn run(scene: &Scene) -> Result<()> {
    scene.cli(&["source", "run", "roce"]).await.map(drop)
}

/// Waits until the topology is this one: per HyperNode its tier, its count and, at the bottom, its Nodes. Identities of
/// groups come from switches and are left out.
pub(super) async fn until(scene: &Scene, wanted: &[&str]) {
    eventually(&format!("the topology is {wanted:#?}"), PATIENCE, async || {
        let is = shown(&scene.stored().await.map_err(|error| error.to_string())?);
        if is == wanted { Ok(()) } else { Err(format!("{is:#?} {:#?}", scene.source("roce").await)) }
    })
    .await;
}

fn shown(objects: &BTreeMap<String, HyperNode>) -> Vec<String> {
    let line = |object: &HyperNode| {
        let nodes = object.spec.members.iter().filter(|member| member.type_ == MemberType::Node);
        let name = |exact: &topoloom_api::hyper_node::ExactMatch| exact.name.clone();
        let mut nodes: Vec<String> =
            nodes.filter_map(|member| member.selector.as_ref()?.exact_match.as_ref().map(name)).collect();
        nodes.sort();
        let count = object.status.as_ref().and_then(|status| status.node_count).unwrap_or(-1);
        format!("tier {} ({count}): {}", object.spec.tier, nodes.join(" ")).trim_end().to_owned()
    };
    let mut lines: Vec<String> = objects.values().map(line).collect();
    lines.sort();
    lines
}

/// Waits until the source reports something under this code, and returns that part of the status.
pub(super) async fn until_reported(scene: &Scene, code: &str) -> String {
    eventually(&format!("{code} is reported"), PATIENCE, async || {
        let status = scene.source("roce").await.map_err(|error| error.to_string())?.status;
        let said = serde_json::to_value(&status.diagnostics).map_err(|error| error.to_string())?;
        let found = said.as_array().into_iter().flatten().find(|one| one["code"] == code);
        found.map(ToString::to_string).ok_or_else(|| format!("{status:#?}"))
    })
    .await
}
