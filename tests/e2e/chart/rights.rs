//! Every rule that the chart renders is needed: without it the host says which one is missing, in its log, in `/readyz` or
//! in a condition of the source.

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use topoloom_tests::chart::{self, Installed, Rule};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE, Scene};

/// One source of each kind that needs a right of its own: labels, a plugin from a ConfigMap, a fabric manager that does not
/// answer, a document in a ConfigMap.
const DOCUMENT: &str = "networkTopologyDiscovery:
- source: label
  enabled: true
  config: {networkTopologyTypes: {gpu: [{nodeLabel: ex.io/rack}, {nodeLabel: kubernetes.io/hostname}]}}
- source: acme
  enabled: true
  plugin: {configMap: {name: acme-plugin, key: plugin.wasm}}
  permissions: {nodeLabels: [example.com/rack]}
- source: ufm
  enabled: true
  credentials: {secretRef: {name: ufm}}
  permissions: {endpoints: {ufm: {addresses: [loopback]}}}
  config: {endpoint: 'https://127.0.0.1:1'}
- source: roce
  enabled: true
  config: {configMap: wiring}
";

/// Whether modules that served are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
}

/// The rule for kept modules is for every ConfigMap of the namespace, so that it hides that others are missing.
fn values(kept: Kept) -> Value {
    json!({
        "access": {
            "secrets": [{"name": "ufm", "namespace": NAMESPACE}],
            "configMaps": [{"name": "wiring", "namespace": NAMESPACE}],
        },
        "plugins": {"watched": [{"name": "acme-plugin", "namespace": NAMESPACE}], "kept": kept == Kept::Yes},
    })
}

/// The resource of a rule, as a message names it, and its verbs.
fn asked_for(rule: &Rule) -> Result<(String, Vec<String>)> {
    let resource = rule.rule["resources"][0].as_str().context("a rule has a resource")?;
    let verbs = rule.rule["verbs"].as_array().context("a rule has verbs")?;
    Ok((resource.to_owned(), verbs.iter().filter_map(|verb| verb.as_str().map(str::to_owned)).collect()))
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_one_rule_the_host_names_the_one_that_is_missing() -> Result<()> {
    let scene = Scene::new().await?;
    let installed = chart::install(&scene, values(Kept::No)).await?;
    scene.nodes(&["a ex.io/rack=x example.com/rack=y"]).await?;
    let module = scene.plane.folder().join("acme.wasm");
    std::fs::write(&module, topoloom_tests::guest::version("good", "1.0.0")?)?;
    let map = format!("{NAMESPACE}/acme-plugin");
    scene.cli(&["plugin", "push", &module.to_string_lossy(), "--configmap", &map]).await?;
    for (kind, name, data) in
        [("Secret", "ufm", json!({"token": "dA=="})), ("ConfigMap", "wiring", json!({"fabric.json": "{}"}))]
    {
        let object = json!({
            "apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "data": data,
        });
        chart::apply(&scene, &[object]).await?;
    }
    scene.configure(DOCUMENT).await?;
    let rules = chart::rules(&installed.objects);
    assert!(rules.len() >= 12, "{rules:#?}");
    for rule in &rules {
        names_what_is_missing(&scene, &installed, rule).await?;
    }
    let others: Vec<_> = rules.into_iter().map(|rule| rule.rule).collect();
    let installed = chart::install(&scene, values(Kept::Yes)).await?;
    let more: Vec<_> =
        chart::rules(&installed.objects).into_iter().filter(|rule| !others.contains(&rule.rule)).collect();
    assert_eq!(more.len(), 1, "{more:#?}");
    for rule in &more {
        names_what_is_missing(&scene, &installed, rule).await?;
    }
    Ok(())
}

/// Takes one rule away, starts a host, and waits until it says which one is missing.
async fn names_what_is_missing(scene: &Scene, installed: &Installed, rule: &Rule) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(scene.plane.client(), NAMESPACE);
    let (resource, verbs) = asked_for(rule)?;
    let named = rule.rule["resourceNames"][0].as_str().map(|name| format!("named \"{name}\""));
    let missing = |line: &str| {
        let line = line.replace('\\', "");
        let verbs = verbs.iter().any(|verb| line.contains(&format!("verbs: [\"{verb}\"]")));
        let by_rule = line.contains("The missing rule") && line.contains(&format!("resources: [\"{resource}\"]"));
        // What a plugin reads is asked for in words that its operator knows.
        let by_name = named.as_ref().is_some_and(|named| line.contains("grant `get`") && line.contains(named));
        by_rule && verbs || by_name
    };
    // What earlier hosts left is not there, so that each has the same to do.
    let _ = leases.delete("topoloom-hypernode", &DeleteParams::default()).await;
    scene.plane.kubectl(&["delete", "hypernodes,discoverysources", "--all"]).await?;
    let kept = ["delete", "configmaps", "-n", NAMESPACE, "-l", "app.kubernetes.io/managed-by=topoloom"];
    scene.plane.kubectl(&kept).await?;
    chart::apply(scene, &[rule.removed_from(&installed.objects)?]).await?;
    let host = Host::launch(&installed.kubeconfig, &[]).await?;
    eventually(&format!("the host asks for {:?}", rule.rule), PATIENCE, async || {
        if host.log().iter().any(|line| missing(line)) {
            return Ok(());
        }
        let ready = host.get("/readyz").await.unwrap_or_default();
        // What each source says of itself, as it stands in the conditions of its object.
        let sources = host.get("/sources").await.unwrap_or_default();
        let said = ready.lines().chain(sources.split("\"message\":"));
        if said.into_iter().any(missing) { Ok(()) } else { Err(format!("{ready}\n{}", host.log().join("\n"))) }
    })
    .await;
    host.kill().await?;
    let role = installed.objects.iter().find(|object| {
        object["kind"] == rule.kind.as_str()
            && object["metadata"]["name"] == rule.role.as_str()
            && object["metadata"]["namespace"].as_str().unwrap_or_default() == rule.namespace
    });
    chart::apply(scene, &[role.context("it was rendered")?.clone()]).await?;
    Ok(())
}
