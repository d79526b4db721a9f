//! The host's table of rights and the rules of the chart are equal for all values: `preflight` checks what the chart
//! grants, and the chart grants what the host needs.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use topoloom::config::{Location, References};
use topoloom::manager::options::Kept;
use topoloom::manager::rights::{Extent, LockSettings, RightsSettings};
use topoloom::nodelock::sweeper::SweepMode;
use topoloom::topology::rival;
use topoloom_core::controllers::{OURS, Selection};
use topoloom_tests::chart::rights::{allowed, asked, assert_equal, words};
use topoloom_tests::chart::{Container, RELEASE, Rendering, Rule, object, rules};

fn pairs(list: &Value, config: &str) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let pair = |it: &Value| Some((word(&it["namespace"]).unwrap_or_else(|| config.to_owned()), word(&it["name"])?));
    list.as_array().into_iter().flatten().filter_map(pair).collect()
}

/// The settings of the host of an install with these values. Names come from the arguments and the environment of its
/// container, as the host reads them: a role for any other name would be for an object that does not exist.
fn setting(values: &Value, container: &Container) -> Result<RightsSettings> {
    let flag = |name: &str| container.args.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let own = container.env["KUBE_POD_NAMESPACE"].clone();
    let config = match flag("--config-map") {
        Some(named) => Location::parse(named, &own).map_err(anyhow::Error::msg)?,
        None => Location::from_environment(Some(&own), container.env.get("HELM_RELEASE_NAME").map(String::as_str)),
    };
    let controllers = words(&values["controllers"]);
    let read = Selection::parse(controllers.iter().map(String::as_str), &OURS);
    let controllers = read.map_err(|mistakes| anyhow::anyhow!("{mistakes:?}")).context("controllers")?.selection;
    let given: Vec<String> = match flag("--volcano-leases") {
        Some(names) => names.split(',').map(str::to_owned).collect(),
        None => rival::USUAL_NAMES.map(str::to_owned).to_vec(),
    };
    let lease = flag("--leader-elect-resource-namespace").zip(flag("--leader-elect-resource-name"));
    let sweep = match flag("--nodelock-sweep") {
        Some("report") => Some(SweepMode::Report),
        Some(_) => Some(SweepMode::Repair),
        None => None,
    };
    let extender = flag("--extender-address");
    // `preflight` reads these two variables in the pod.
    assert_eq!(container.env.get("TOPOLOOM_NODELOCK_SWEEP").map(String::as_str), flag("--nodelock-sweep"));
    assert_eq!(container.env.get("TOPOLOOM_EXTENDER_ADDRESS").map(String::as_str), extender);
    Ok(RightsSettings {
        own,
        controllers,
        leases: lease.map(|(namespace, name)| (namespace.to_owned(), name.to_owned())),
        extent: match (values["readOnly"] == true, values["observe"] == true) {
            (true, _) => Extent::LeasesOnly,
            (false, true) => Extent::NoHyperNodes,
            (false, false) => Extent::Everything,
        },
        kept: if values["plugins"]["kept"] == false { Kept::Nowhere } else { Kept::InConfigMaps },
        rivals: rival::leases(&given, config.release()),
        references: References {
            secrets: pairs(&values["access"]["secrets"], &config.namespace),
            config_maps: pairs(&values["access"]["configMaps"], &config.namespace),
            plugins: pairs(&values["plugins"]["watched"], &config.namespace),
            pull_secrets: pairs(&values["plugins"]["pullSecrets"], &config.namespace),
        },
        config: (config.namespace, config.name),
        locks: if extender.is_some() {
            LockSettings::with_extender(sweep)
        } else {
            LockSettings::without_extender(sweep)
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_chart_allows_is_what_the_table_of_rights_asks_for() -> Result<()> {
    let ufm = json!([{"name": "ufm"}, {"name": "ufm", "namespace": "fabric"}]);
    let extender = json!({"enabled": true, "tls": {"secret": "extender"}});
    let existing = json!({"existing": {"namespace": "theirs", "name": "volcano-controller-configmap"}});
    let rows = [
        json!({}),
        json!({"observe": true}),
        json!({"readOnly": true, "plugins": {"watched": [{"name": "acme"}]}}),
        json!({"replicas": 1, "leaderElection": {"enabled": false}}),
        json!({"plugins": {"kept": false}}),
        json!({"volcanoLeases": ["batch-hypernode"]}),
        json!({"controllers": ["nodelock-sweeper"]}),
        json!({"controllers": ["*", "-hyperNode-controller"]}),
        json!({"fullnameOverride": "rows.of-racks", "nameOverride": "rows"}),
        json!({"config": {"document": {"networkTopologyDiscovery": []}}}),
        json!({"config": existing, "access": {"secrets": ufm, "configMaps": ufm}}),
        json!({"plugins": {"watched": [{"name": "acme"}, {"name": "other", "namespace": "elsewhere"}]}, "access": {"configMaps": [{"name": "cables"}]}}),
        json!({"plugins": {"registries": ["registry.example.com"], "pullSecrets": [{"name": "pull"}, {"name": "pull", "namespace": "elsewhere"}]}}),
        json!({"nodeLock": {"sweep": "report"}}),
        json!({"nodeLock": {"sweep": "repair"}, "observe": true}),
        json!({"nodeLock": {"sweep": "repair"}, "readOnly": true}),
        json!({"nodeLock": {"sweep": "repair"}, "controllers": ["nodelock-sweeper"], "config": existing}),
        json!({"nodeLock": {"sweep": "report"}, "controllers": ["nodelock-sweeper"]}),
        json!({"nodeLock": {"sweep": "report"}, "controllers": ["hyperNode-controller"]}),
        json!({"extender": extender}),
        json!({"extender": extender, "nodeLock": {"sweep": "report"}}),
        json!({"extender": extender, "readOnly": true}),
        json!({"extender": extender, "controllers": ["extender"], "config": existing}),
        json!({"extender": extender, "controllers": ["*", "-nodelock-sweeper"]}),
        json!({"extender": extender, "controllers": ["*", "-hyperNode-controller"], "replicas": 1, "leaderElection": {"enabled": false}}),
        // The syncer adds nothing here: its rights are those of another ServiceAccount (`component/chart/syncer.rs`).
        json!({"syncer": {"enabled": true, "secrets": ["east"]}}),
    ];
    for values in rows {
        // The name of the release is part of the names of objects, too.
        for release in [RELEASE, "fabric"] {
            let rendering = Rendering { release: release.to_owned(), ..Rendering::new(values.clone()) };
            let objects = rendering.objects().await?;
            let setting = setting(&values, &Container::of(&objects)?)?;
            let is_its_own = |rule: &&Rule| !rule.role.contains("-syncer.");
            let chart = allowed(rules(&objects).iter().filter(is_its_own));
            assert_equal(&format!("{release}: {values}"), &chart, &asked(setting.rights()));
            if !values["config"]["document"].is_null() {
                object(&objects, "ConfigMap", &setting.config.1)?;
            }
        }
    }
    Ok(())
}
