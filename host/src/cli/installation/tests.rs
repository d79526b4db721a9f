use super::*;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T00:01:00Z";

fn deployed(namespace: &str, args: &[&str], env: Value) -> Installation {
    let container = json!({"name": "topoloom", "args": args, "env": env});
    let deployment = json!({
        "metadata": {"namespace": namespace, "name": "topoloom"},
        "spec": {
            "selector": {},
            "template": {"spec": {"containers": [{"name": "proxy", "args": ["--release=no"]}, container]}},
        },
    });
    of_deployment(&serde_json::from_value(deployment).unwrap())
}

/// As the chart makes it.
fn charts(namespace: &str) -> Installation {
    let own = json!({"fieldRef": {"fieldPath": "metadata.namespace"}});
    let env = json!([
        {"name": "KUBE_POD_NAMESPACE", "valueFrom": own}, {"name": "HELM_RELEASE_NAME", "value": "topoloom"},
        {"name": "TOPOLOOM_LEADER_ELECT", "value": "true"},
    ]);
    let resource = format!("--leader-elect-resource-namespace={namespace}");
    let args = ["run", "--leader-elect=true", &resource, "--leader-elect-resource-name=topoloom-hypernode"];
    deployed(namespace, &args, env)
}

fn leased(namespace: &str, name: &str, renewed: &str) -> (Installation, LeaseFreshness) {
    let lease = json!({
        "metadata": {
            "namespace": namespace, "name": name, "annotations": {"topoloom.dev/configuration": "conf/map"},
        },
        "spec": {"holderIdentity": "desk", "leaseDurationSeconds": 15, "renewTime": renewed},
    });
    of_lease(&serde_json::from_value(lease).unwrap(), NOW.parse().unwrap()).unwrap()
}

fn fresh(namespace: &str, name: &str) -> (Installation, LeaseFreshness) {
    leased(namespace, name, "2026-01-01T00:00:55.000000Z")
}

fn old(namespace: &str, name: &str) -> (Installation, LeaseFreshness) {
    leased(namespace, name, "2025-01-01T00:00:00.000000Z")
}

fn found(deployed: Vec<Installation>, leased: Vec<(Installation, LeaseFreshness)>) -> Vec<String> {
    candidates(deployed, leased).into_iter().map(|found| found.what).collect()
}

#[test]
fn a_deployment_says_where_its_configuration_and_its_lease_are() {
    let chart = charts("ns");
    assert_eq!(chart.config, Location::new("ns", "topoloom-controller-configmap"));
    assert_eq!(chart.lease, Some(("ns".to_owned(), "topoloom-hypernode".to_owned())));
    // Of a flag that is given twice the last one counts, and flags win over variables.
    let args = ["run", "--config-map=ns/a", "--config-map", "volcano-system/b", "--leader-elect=false"];
    let other = deployed("ns", &args, json!([{"name": "TOPOLOOM_CONFIG_MAP", "value": "ns/c"}]));
    assert_eq!((other.config, other.lease), (Location::new("volcano-system", "b"), None));
    let plain = deployed("ns", &["run"], json!([]));
    assert_eq!(plain.config, Location::new("ns", "volcano-controller-configmap"));
}

#[test]
fn a_host_and_its_leases_are_one_installation() {
    let all = vec![
        fresh("ns", "topoloom-hypernode"),
        fresh("ns", "topoloom-hypernode-nodelock"),
        fresh("ns", "topoloom-hypernode-binding-05b290659fd4689e76c323dfefc45fcb"),
    ];
    assert_eq!(found(vec![charts("ns")], all.clone()), ["Deployment ns/topoloom"]);
    assert_eq!(found(vec![], all), ["the host of the lease ns/topoloom-hypernode"]);
    assert_eq!(fresh("ns", "l").0.config, Location::new("conf", "map"));
}

#[test]
fn a_lease_that_an_uninstall_left_counts_only_where_nothing_else_is() {
    assert_eq!(found(vec![charts("ns")], vec![old("gone", "l")]), ["Deployment ns/topoloom"]);
    assert_eq!(found(vec![], vec![old("gone", "l"), fresh("ns", "l")]), ["the host of the lease ns/l"]);
    assert_eq!(found(vec![], vec![old("gone", "l")]), ["the host of the lease gone/l"]);
    assert_eq!(found(vec![], vec![]), [""; 0]);
}

#[test]
fn of_several_installations_none_is_taken_and_each_has_its_flags() {
    let several = candidates(vec![charts("a")], vec![fresh("b", "other")]);
    assert_eq!(
        listed(&several),
        "\n  Deployment a/topoloom: --namespace a --config-map a/topoloom-controller-configmap\
         \n  the host of the lease b/other: --namespace b --config-map conf/map (status, preflight and read-only \
         take --leader-elect-resource-name other, too)"
    );
}

#[test]
fn s27_a_pod_says_whether_it_was_started_to_write_nothing_but_leases() {
    let is_read_only = |args: &[&str], value: &str| {
        let env = json!([{"name": "TOPOLOOM_READ_ONLY", "value": value}]);
        let ours = json!({"name": "topoloom", "args": args, "env": env});
        let pod = json!({"spec": {"containers": [{"name": "proxy", "args": ["--read-only"]}, ours]}});
        is_started_read_only(&serde_json::from_value(pod).unwrap())
    };
    assert!(is_read_only(&["run", "--read-only"], "") && is_read_only(&["run", "--read-only=1"], "false"));
    assert!(is_read_only(&["run"], "true"));
    assert!(!is_read_only(&["run", "--read-only", "--read-only=false"], "true"), "the last flag counts");
    assert!(!is_read_only(&["run"], "false") && !is_read_only(&["run", "--read-only-root"], ""));
    assert!(!is_started_read_only(&Pod::default()));
}
