//! Where the pods are scheduled, how many of them may be unavailable, and which objects the selectors match.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use topoloom_tests::chart::Rendering;

/// The value at a JSON pointer in the first object of a kind.
fn at<'a>(objects: &'a [Value], kind: &str, place: &str) -> Result<&'a Value> {
    let object = objects.iter().find(|object| object["kind"] == kind);
    object.and_then(|object| object.pointer(place)).with_context(|| format!("no {kind} has {place}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_stand_apart_and_a_disruption_takes_one_at_a_time() -> Result<()> {
    let labels = json!({"app.kubernetes.io/name": "topoloom", "app.kubernetes.io/instance": "topoloom"});
    let pods = json!({"matchLabels": labels});
    let budget = json!({"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": pods});
    // These are preferences: with one node or one zone, all pods run there.
    let nodes = json!({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 100,
        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": pods},
    }]}});
    let zones = json!([{
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "matchLabelKeys": ["pod-template-hash"],
        "labelSelector": pods,
    }]);
    let (affinity, spread) = ("/spec/template/spec/affinity", "/spec/template/spec/topologySpreadConstraints");
    let alone = json!({"replicas": 1, "leaderElection": {"enabled": false}});
    let own = json!({"nodeAffinity": {}});
    let rows = [
        (json!({}), "PodDisruptionBudget", "/spec", budget.clone()),
        (json!({"replicas": 3}), "PodDisruptionBudget", "/spec", budget.clone()),
        // The budget never blocks a drain of the node with the only pod.
        (alone, "PodDisruptionBudget", "/spec", budget),
        (json!({}), "Deployment", "/spec/minReadySeconds", json!(10)),
        (json!({"minReadySeconds": 0}), "Deployment", "/spec/minReadySeconds", json!(0)),
        (json!({}), "Deployment", affinity, nodes),
        (json!({"affinity": own}), "Deployment", affinity, own.clone()),
        (json!({}), "Deployment", spread, zones.clone()),
        (json!({"affinity": own}), "Deployment", spread, zones),
    ];
    for (values, kind, place, wanted) in rows {
        let objects = Rendering::new(values.clone()).objects().await?;
        assert_eq!(at(&objects, kind, place)?, &wanted, "{values}: {kind} {place}");
    }
    Ok(())
}

/// A selector that matches nothing gives no error: the budget protects nothing, and the policy allows everything.
#[tokio::test(flavor = "multi_thread")]
async fn every_selector_means_what_its_own_release_has_and_nothing_of_another() -> Result<()> {
    let pods = ("Deployment", "/spec/template/metadata/labels");
    let term = "preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm/labelSelector/matchLabels";
    let nodes = format!("/spec/template/spec/affinity/podAntiAffinity/{term}");
    let zones = "/spec/template/spec/topologySpreadConstraints/0/labelSelector/matchLabels";
    let selectors = [
        ("Deployment", "/spec/selector/matchLabels", pods),
        ("Deployment", nodes.as_str(), pods),
        ("Deployment", zones, pods),
        ("PodDisruptionBudget", "/spec/selector/matchLabels", pods),
        ("NetworkPolicy", "/spec/podSelector/matchLabels", pods),
        ("Service", "/spec/selector", pods),
        ("ServiceMonitor", "/spec/selector/matchLabels", ("Service", "/metadata/labels")),
    ];
    let named = json!({"nameOverride": "loom", "podLabels": {"team": "mine"}});
    for mut values in [json!({}), named] {
        values["metrics"] = json!({"serviceMonitor": {"enabled": true}});
        let ours = Rendering::new(values.clone()).objects().await?;
        let theirs = Rendering { release: "other".to_owned(), ..Rendering::new(values) }.objects().await?;
        for (kind, place, (target, labels)) in selectors {
            let selector = at(&ours, kind, place)?.as_object().context("a selector has labels")?;
            let means = |objects: &[Value]| -> Result<bool> {
                let labels = at(objects, target, labels)?;
                Ok(selector.iter().all(|(label, value)| labels[label] == *value))
            };
            assert!(means(&ours)?, "{kind} {place} does not select its {target}: {selector:?}");
            assert!(!means(&theirs)?, "{kind} {place} selects the {target} of another release: {selector:?}");
        }
    }
    Ok(())
}
