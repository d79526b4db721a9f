//! The host needs every verb of every rule that the chart renders: without it the host reports the missing rule, in its
//! log, in `/readyz` or in a condition of the source. `preflight` names the verbs that the host needs later than at its
//! start.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use topoloom_api::DiscoverySource;
use topoloom_tests::chart::{self, Installed, Rule};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{CONFIG_MAP, NAMESPACE, PATIENCE, Scene};

/// One source of each kind that needs a right of its own: labels, a fabric manager that does not answer, a document in a ConfigMap.
const SOURCES: &str = "networkTopologyDiscovery:
- source: label
  enabled: true
  config: {networkTopologyTypes: {gpu: [{nodeLabel: ex.io/rack}, {nodeLabel: kubernetes.io/hostname}]}}
- source: ufm
  enabled: true
  credentials: {secretRef: {name: ufm}}
  permissions: {endpoints: {ufm: {addresses: [loopback]}}}
  config: {endpoint: 'https://127.0.0.1:1'}
- source: roce
  enabled: true
  config: {configMap: wiring}
";

/// A plugin from a ConfigMap.
const PLUGIN: &str = "- source: acme
  enabled: true
  plugin: {configMap: {name: acme-plugin, key: plugin.wasm}}
  permissions: {nodeLabels: [example.com/rack]}
";

/// All of them.
fn document() -> String {
    format!("{SOURCES}{PLUGIN}")
}

/// Whether a host may miss a rule for the plugin from a ConfigMap alone. Each host compiles that plugin, so those that need other
/// rules have none.
fn is_for_plugins(rule: &Rule) -> Result<bool> {
    let of_all = ["nodes", "hypernodes", "discoverysources", "leases"];
    let resource = resource(rule)?;
    Ok(!of_all.contains(&resource.split('/').next().unwrap_or_default()))
}

/// Whether the host keeps modules that were active.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    Yes,
    No,
}

/// The rule for kept modules is for every ConfigMap of the namespace, so it would hide that another rule is missing.
fn values(kept: Kept) -> Value {
    json!({
        "access": {
            "secrets": [{"name": "ufm", "namespace": NAMESPACE}],
            "configMaps": [{"name": "wiring", "namespace": NAMESPACE}],
        },
        "plugins": {"watched": [{"name": "acme-plugin", "namespace": NAMESPACE}], "kept": kept == Kept::Yes},
    })
}

/// The resource of a rule, as a message names it.
fn resource(rule: &Rule) -> Result<&str> {
    rule.rule["resources"][0].as_str().context("a rule has a resource")
}

/// Whether the rule is for an object that a source reads. A host has two ways to read it, and reports nothing as long
/// as one works.
fn has_two_ways(rule: &Rule) -> bool {
    rule.rule["resourceNames"][0] == "ufm" || rule.rule["resourceNames"][0] == "wiring"
}

fn is_about_the_configuration(rule: &Rule) -> bool {
    rule.rule["resourceNames"][0] == CONFIG_MAP
}

/// Verbs that a host does not miss at its start. It needs them to read an object again after a conflict, to delete one,
/// to count an Event again, to roll back to a module, or for the command line in the pod.
fn later(rule: &Rule) -> Vec<&str> {
    let later: &[&str] = match rule.rule["resources"][0].as_str() {
        Some("hypernodes") => &["get", "delete"],
        Some("discoverysources") => &["get"],
        Some("events") => &["patch"],
        Some("secrets") => &["get", "list", "watch"],
        // The plugin's own part of the entry names this ConfigMap, so `preflight` gets the name from the plugin.
        Some("configmaps") if has_two_ways(rule) => &["get", "list", "watch"],
        Some("configmaps") if is_about_the_configuration(rule) => &["get"],
        Some("configmaps") => &["get", "delete"],
        _ => &[],
    };
    rule.verbs().into_iter().filter(|verb| later.contains(verb)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_one_verb_of_a_rule_the_host_names_the_one_that_is_missing() -> Result<()> {
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
    scene.configure(&document()).await?;
    let rules = chart::rules(&installed.objects);
    assert!(rules.len() >= 12, "{rules:#?}");
    for rule in &rules {
        scene.configure(&if is_for_plugins(rule)? { document() } else { SOURCES.to_owned() }).await?;
        each_verb(&scene, &installed, rule).await?;
    }
    scene.configure(&document()).await?;
    preflight_names_each(&scene, &installed, &rules, later).await?;
    let others: Vec<_> = rules.into_iter().map(|rule| rule.rule).collect();
    let installed = chart::install(&scene, values(Kept::Yes)).await?;
    let more: Vec<_> =
        chart::rules(&installed.objects).into_iter().filter(|rule| !others.contains(&rule.rule)).collect();
    assert_eq!(more.len(), 1, "{more:#?}");
    for rule in &more {
        each_verb(&scene, &installed, rule).await?;
    }
    preflight_names_each(&scene, &installed, &more, later).await
}

/// One of the two controllers at a time, so that each verb is needed for one reason. The tests of the node lock check
/// what a host does at a refusal.
#[tokio::test(flavor = "multi_thread")]
async fn preflight_names_each_verb_that_the_node_lock_needs() -> Result<()> {
    let scene = Scene::new().await?;
    let extender = json!({"controllers": ["extender"], "extender": {"enabled": true, "allowAnonymous": true}});
    let sweeper = json!({"controllers": ["nodelock-sweeper"], "nodeLock": {"sweep": "repair"}});
    for (values, resources) in [(extender, 5), (sweeper, 4)] {
        let installed = chart::install(&scene, values).await?;
        let mut rules = chart::rules(&installed.objects);
        rules.retain(|rule| rule.rule["resources"] != json!(["leases"]));
        // Both need Nodes, Pods, Events and the ConfigMap; the extender also needs the Binding.
        assert_eq!(rules.len(), resources, "{rules:#?}");
        preflight_names_each(&scene, &installed, &rules, Rule::verbs).await?;
    }
    Ok(())
}

/// Removes each of these verbs alone and runs `preflight`, which has to name exactly that verb.
async fn preflight_names_each(
    scene: &Scene,
    installed: &Installed,
    rules: &[Rule],
    verbs: impl Fn(&Rule) -> Vec<&str>,
) -> Result<()> {
    let before = found(installed).await?;
    for rule in rules {
        for verb in verbs(rule) {
            chart::apply(scene, &[rule.without(&[verb], &installed.objects)?]).await?;
            eventually(&format!("preflight names {verb} of {:?}, and nothing else", rule.rule), PATIENCE, async || {
                let now = found(installed).await.map_err(|error| error.to_string())?;
                let new: Vec<_> = now.difference(&before).collect();
                let is_it = matches!(new.as_slice(), [one] if one.contains(&wanted(rule, verb)));
                if is_it { Ok(()) } else { Err(format!("{new:#?}")) }
            })
            .await;
            give_back(scene, installed, rule).await?;
        }
    }
    Ok(())
}

/// Every check of `preflight` that failed or names a rule to add, with its advice.
async fn found(installed: &Installed) -> Result<BTreeSet<String>> {
    let mut command = tokio::process::Command::new(topoloom_tests::host::binary()?);
    command.arg("preflight").envs(&installed.container.env).env("KUBECONFIG", &installed.kubeconfig);
    let output = command.output().await?;
    let said = String::from_utf8(output.stdout)?;
    anyhow::ensure!(said.contains(" missing\n"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let checks = said.replace("\n       -> ", " -> ");
    let is_one = |line: &&str| line.starts_with("[fail]") || line.contains("add the rule");
    Ok(checks.lines().filter(is_one).map(str::to_owned).collect())
}

/// The rule that has only this verb, in the words of `preflight`.
fn wanted(rule: &Rule, verb: &str) -> String {
    let place = match rule.kind.as_str() {
        "Role" => format!("Role in namespace {}", rule.namespace),
        kind => kind.to_owned(),
    };
    let what = |field: &str| format!("{field}: {}", rule.rule[field].to_string().replace("\",\"", "\", \""));
    let names = if rule.rule["resourceNames"].is_null() { String::new() } else { what("resourceNames") + ", " };
    let (groups, resources) = (what("apiGroups"), what("resources"));
    format!("add the rule {place}: {{{groups}, {resources}, {names}verbs: [\"{verb}\"]}}")
}

/// Restores a rule from which the test has removed verbs.
async fn give_back(scene: &Scene, installed: &Installed, rule: &Rule) -> Result<()> {
    chart::apply(scene, &[rule.without(&[], &installed.objects)?]).await
}

async fn each_verb(scene: &Scene, installed: &Installed, rule: &Rule) -> Result<()> {
    if has_two_ways(rule) {
        return names_what_is_missing(scene, installed, rule, &rule.verbs(), "get").await;
    }
    for verb in rule.verbs().into_iter().filter(|verb| !later(rule).contains(verb)) {
        names_what_is_missing(scene, installed, rule, &[verb], verb).await?;
    }
    Ok(())
}

/// Removes the verbs in `taken`, starts a host, and waits until it reports that `verb` is missing.
async fn names_what_is_missing(
    scene: &Scene,
    installed: &Installed,
    rule: &Rule,
    taken: &[&str],
    verb: &str,
) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(scene.plane.client(), NAMESPACE);
    let resource = resource(rule)?;
    let named = rule.rule["resourceNames"][0].as_str().map(|name| format!("named \"{name}\""));
    let missing = |line: &str| {
        let line = line.replace('\\', "");
        let by_rule = line.contains("The missing rule")
            && line.contains(&format!("resources: [\"{resource}\"]"))
            && line.contains(&format!("verbs: [\"{verb}\"]"));
        // For an object that a plugin reads, the message names the object in place of a rule.
        let by_name = named.as_ref().is_some_and(|named| line.contains("grant `get`") && line.contains(named));
        by_rule || verb == "get" && by_name
    };
    // The test deletes what earlier hosts wrote, so that each host has the same to do.
    let _ = leases.delete("topoloom-hypernode", &DeleteParams::default()).await;
    let (now, all) = (DeleteParams::default(), ListParams::default());
    scene.hyper_nodes().delete_collection(&now, &all).await?;
    Api::<DiscoverySource>::all(scene.plane.client()).delete_collection(&now, &all).await?;
    let kept: Api<ConfigMap> = Api::namespaced(scene.plane.client(), NAMESPACE);
    kept.delete_collection(&now, &all.labels("app.kubernetes.io/managed-by=topoloom")).await?;
    chart::apply(scene, &[rule.without(taken, &installed.objects)?]).await?;
    let host = Host::launch(&installed.kubeconfig, &[]).await?;
    eventually(&format!("the host asks for {verb} of {:?}", rule.rule), PATIENCE, async || {
        if host.log().iter().any(|line| missing(line)) {
            return Ok(());
        }
        let ready = host.get("/readyz").await.unwrap_or_default();
        // What each source reports, as in the conditions of its object.
        let sources = host.get("/sources").await.unwrap_or_default();
        let said = ready.lines().chain(sources.split("\"message\":"));
        if said.into_iter().any(missing) { Ok(()) } else { Err(format!("{ready}\n{}", host.log().join("\n"))) }
    })
    .await;
    host.kill().await?;
    give_back(scene, installed, rule).await
}
