//! The switches of the syncer.

use serde_json::{Value, json};

use super::Case;
use crate::chart::{SYNCER, merge};

/// Values with a syncer, as little as it needs.
#[must_use]
pub fn lends() -> Value {
    lends_with(json!({}))
}

/// Values with a syncer and these values of it.
#[must_use]
pub fn lends_with(of_syncer: Value) -> Value {
    let mut syncer = json!({"enabled": true, "secrets": ["east"]});
    merge(&mut syncer, of_syncer);
    json!({"syncer": syncer})
}

fn case(name: &'static str, values: Value, flags: &'static [&'static str]) -> Case {
    Case { name, values, deployment: SYNCER, flags }
}

/// Every switch, alone.
pub(super) fn each() -> Vec<Case> {
    let under = |mut values: Value, over: Value| {
        merge(&mut values, over);
        values
    };
    vec![
        case(
            "a syncer",
            lends(),
            &[
                "--controllers=bottomup-syncer",
                "--enable-healthz",
                "--healthz-address=:11251",
                "--enable-metrics",
                "--listen-address=:8081",
                "--leader-elect=true",
                "--leader-elect-resource-name=topoloom-syncer",
                "--leader-elect-resource-namespace=volcano-system",
                "--leader-elect-lease-duration=15s",
                "--leader-elect-renew-deadline=10s",
                "--leader-elect-retry-period=2s",
                "--drain-timeout=30s",
                "--log=info",
                "--log-format=json",
                "!--config-map",
                "!--observe",
                "!--read-only",
                "!--profiling",
                "!--plugin-cache",
                "!--node-lock-timeout",
                "!--virtual-cluster-id",
                "!--syncer-evictions",
                "!--syncer-kubelet-address",
                "!--syncer-kubelet-port",
                "!--otlp-endpoint",
            ],
        ),
        case(
            "a syncer without evictions, under another identity",
            lends_with(json!({"evictions": false, "virtualClusterID": "night.1", "virtualPolicies": true})),
            &["--syncer-evictions=false", "--virtual-cluster-id=night.1"],
        ),
        case("a syncer that mirrors host ports", lends_with(json!({"hostPorts": true})), &["!--syncer-host-ports"]),
        case(
            "a syncer with logs",
            lends_with(json!({"kubelet": {"enabled": true, "address": "10.96.0.20", "tls": {"secret": "kubelet"}}})),
            &[
                "--syncer-kubelet-address=10.96.0.20",
                "--syncer-kubelet-port=10250",
                "--syncer-kubelet-listen-address=:10250",
                "--syncer-tls-cert-file=/etc/topoloom/kubelet/tls.crt",
                "--syncer-tls-private-key-file=/etc/topoloom/kubelet/tls.key",
                "!--syncer-client-ca-file",
            ],
        ),
        case(
            "a syncer with logs, by other authorities",
            lends_with(json!({"kubelet": {
                "enabled": true, "address": "2001:db8::20", "port": 20250, "tls": {"secret": "kubelet"},
                "clientAuthoritiesConfigMap": "clients", "service": {"type": "LoadBalancer"},
            }})),
            &[
                "--syncer-kubelet-address=2001:db8::20",
                "--syncer-kubelet-port=20250",
                "--syncer-kubelet-listen-address=:20250",
                "--syncer-client-ca-file=/etc/topoloom/kubelet-clients/ca.crt",
            ],
        ),
        case(
            "a syncer that shares what it has in common with the host",
            under(
                lends(),
                json!({
                    "config": {"existing": {"namespace": "volcano-system", "name": "volcano-controller-configmap"}},
                    "drainTimeoutSeconds": 20,
                    "log": {"level": "debug", "format": "text"},
                    "ports": {"health": 9001, "metrics": 9002},
                    "profiling": true,
                    "readOnly": true,
                    "traces": {"endpoint": "https://c/x", "headersSecret": "token", "authoritiesConfigMap": "ours"},
                }),
            ),
            &[
                "--config-map=volcano-system/volcano-controller-configmap",
                "--drain-timeout=20s",
                "--log=debug",
                "--log-format=text",
                "--healthz-address=:9001",
                "--listen-address=:9002",
                "--profiling",
                "--read-only",
                "--otlp-endpoint=https://c/x",
                "--otlp-headers-file=/etc/topoloom/traces/headers",
                "--otlp-ca-file=/etc/topoloom/traces/ca.crt",
            ],
        ),
        case(
            "one syncer without an election",
            under(lends_with(json!({"replicas": 1})), json!({"replicas": 1, "leaderElection": {"enabled": false}})),
            &["--leader-elect=false", "!--leader-elect-resource-name"],
        ),
        case(
            "more flags of the syncer",
            lends_with(json!({"extraArgs": ["--physical-client-qps=50"]})),
            &["--physical-client-qps=50"],
        ),
    ]
}

/// Everything that can be on together.
pub(super) fn all() -> Value {
    json!({
        "enabled": true,
        "replicas": 3,
        "secrets": ["east", "west"],
        "evictions": false,
        "virtualPolicies": true,
        "hostPorts": true,
        "virtualClusterID": "night",
        "kubelet": {
            "enabled": true,
            "address": "10.96.0.30",
            "tls": {"secret": "kubelet-tls"},
            "clientAuthoritiesConfigMap": "clients",
            "service": {"annotations": {"note": "mine"}},
        },
        "networkPolicy": {
            "physicalServers": [{"cidr": "203.0.113.7/32", "ports": [6443]}],
            "kubeletFrom": [{"ipBlock": {"cidr": "192.0.2.10/32"}}],
        },
        "serviceAccount": {"annotations": {"note": "mine"}},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "podAnnotations": {"note": "mine"},
        "podLabels": {"team": "mine"},
        "extraArgs": ["--physical-client-qps=50"],
        "extraEnv": [{"name": "NOTE", "value": "mine"}],
    })
}
