//! Values that several tests render: each switch alone, and all of them at once.

mod lending;

use serde_json::{Value, json};

use super::NAME;

pub use lending::{lends, lends_with};

/// One set of values and the flags that the container has because of it. A `!` in front of a flag means that the
/// container does not have it.
pub struct Case {
    /// The name of the switch.
    pub name: &'static str,
    /// The values that set it.
    pub values: Value,
    /// The name of the Deployment whose container it is.
    pub deployment: &'static str,
    /// The flags, and those that must not be there.
    pub flags: &'static [&'static str],
}

fn case(name: &'static str, values: Value, flags: &'static [&'static str]) -> Case {
    Case { name, values, deployment: NAME, flags }
}

/// Every switch, alone.
#[must_use]
pub fn each() -> Vec<Case> {
    let mut all = of_the_host();
    all.extend(lending::each());
    all
}

fn of_the_host() -> Vec<Case> {
    vec![
        case(
            "nothing",
            json!({}),
            &[
                "--controllers=*,-bottomup-syncer",
                "--enable-healthz",
                "--healthz-address=:11251",
                "--enable-metrics",
                "--listen-address=:8081",
                "--leader-elect=true",
                "--leader-elect-resource-name=topoloom-hypernode",
                "--leader-elect-resource-namespace=volcano-system",
                "--leader-elect-lease-duration=15s",
                "--leader-elect-renew-deadline=10s",
                "--leader-elect-retry-period=2s",
                "--volcano-leases=vc-hypernode-controller-manager,volcano-hypernode-controller-manager",
                "--drain-timeout=30s",
                "--plugin-cache=/var/cache/topoloom/plugins",
                "--plugin-memory=512Mi",
                "--plugin-trust=none",
                "--log=info",
                "!--config-map",
                "!--observe",
                "!--read-only",
                "!--profiling",
                "!--plugin-dir",
                "!--documents",
                "!--otlp-endpoint",
            ],
        ),
        case("observe", json!({"observe": true}), &["--observe"]),
        case("read-only", json!({"readOnly": true}), &["--read-only"]),
        case("profiles", json!({"profiling": true}), &["--profiling"]),
        case("own status", json!({"status": "own"}), &["--status=own"]),
        case(
            "one controller",
            json!({"controllers": ["hyperNode-controller"]}),
            &["--controllers=hyperNode-controller"],
        ),
        case(
            "no syncer, as always",
            json!({"controllers": ["*", "-bottomup-syncer"]}),
            &["--controllers=*,-bottomup-syncer"],
        ),
        case("no controller by name", json!({"controllers": []}), &["--controllers=*,-bottomup-syncer"]),
        case("the sweeper alone", json!({"controllers": ["nodelock-sweeper"]}), &["--controllers=nodelock-sweeper"]),
        case("no election", json!({"replicas": 1, "leaderElection": {"enabled": false}}), &["--leader-elect=false"]),
        case(
            "short leases",
            json!({"leaderElection": {"leaseDurationSeconds": 3, "renewDeadlineSeconds": 2, "retryPeriodSeconds": 0.5}}),
            &["--leader-elect-lease-duration=3s", "--leader-elect-retry-period=0.5s"],
        ),
        case(
            "another drain",
            json!({"drainTimeoutSeconds": 60, "terminationGracePeriodSeconds": 70}),
            &["--drain-timeout=60s"],
        ),
        case(
            "log",
            json!({"log": {"level": "info,topoloom=debug", "format": "text"}}),
            &["--log=info,topoloom=debug", "--log-format=text"],
        ),
        case(
            "traces",
            json!({"traces": {"endpoint": "http://collector.observability:4318"}}),
            &["--otlp-endpoint=http://collector.observability:4318", "!--otlp-headers-file", "!--otlp-ca-file"],
        ),
        case(
            "traces with a token",
            json!({"traces": {"endpoint": "https://c/x", "headersSecret": "token", "authoritiesConfigMap": "ours"}}),
            &[
                "--otlp-endpoint=https://c/x",
                "--otlp-headers-file=/etc/topoloom/traces/headers",
                "--otlp-ca-file=/etc/topoloom/traces/ca.crt",
            ],
        ),
        case("values of a chart without traces", json!({"traces": null}), &["!--otlp-endpoint"]),
        case(
            "an existing configuration",
            json!({"config": {"existing": {"namespace": "volcano-system", "name": "volcano-controller-configmap"}}}),
            &["--config-map=volcano-system/volcano-controller-configmap"],
        ),
        case("a document", json!({"config": {"document": {"networkTopologyDiscovery": []}}}), &[]),
        case("a document as text", json!({"config": {"document": "networkTopologyDiscovery: []\n"}}), &[]),
        case("no cache", json!({"plugins": {"cache": {"enabled": false}}}), &["!--plugin-cache"]),
        case(
            "a cache in memory, of which plugins get nothing",
            json!({"plugins": {"cache": {"medium": "Memory"}}}),
            &["--plugin-cache-size=256Mi", "--plugin-memory=384Mi"],
        ),
        case(
            "less memory, in bytes",
            json!({"resources": {"limits": {"memory": 402_653_184}}}),
            &["--plugin-memory=192Mi"],
        ),
        case("memory in decimal units", json!({"resources": {"limits": {"memory": "2G"}}}), &["--plugin-memory=953Mi"]),
        case("memory for plugins", json!({"plugins": {"memory": "600Mi"}}), &["--plugin-memory=600Mi"]),
        case("no limit of memory", json!({"resources": {"limits": {"memory": null}}}), &["!--plugin-memory"]),
        case("nothing is kept", json!({"plugins": {"kept": false}}), &["--modules-kept=false"]),
        case(
            "plugins that are mounted",
            json!({"plugins": {"mounted": [{"name": "acme", "volume": {"configMap": {"name": "acme-plugin"}}}]}}),
            &["--plugin-dir=/var/lib/topoloom/plugins"],
        ),
        case(
            "plugins that are watched",
            json!({"plugins": {"watched": [{"name": "acme"}, {"name": "b", "namespace": "default"}]}}),
            &[],
        ),
        case(
            "plugins of registries",
            json!({"plugins": {
                "registries": ["registry.example.com", "10.0.0.5:5000"],
                "pullSecrets": [{"name": "pull"}, {"name": "pull", "namespace": "default"}],
            }}),
            &["--plugin-registries=registry.example.com,10.0.0.5:5000"],
        ),
        case(
            "values of a chart without registries",
            json!({"plugins": {"registries": null, "pullSecrets": null}}),
            &["!--plugin-registries"],
        ),
        case(
            "keys",
            json!({"plugins": {"trust": {"level": "signature", "keys": [
                {"configMap": "keys", "key": "a.pub"}, {"secret": "more", "key": "b.pub"},
            ]}}}),
            &[
                "--plugin-trust=signature",
                "--plugin-trust-key=/etc/topoloom/trust/0.pem",
                "--plugin-trust-key=/etc/topoloom/trust/1.pem",
            ],
        ),
        case(
            "documents",
            json!({"documents": [{"name": "fabric", "volume": {"configMap": {"name": "fabric"}}}]}),
            &["--documents=/var/lib/topoloom/documents"],
        ),
        case("a dashboard", json!({"metrics": {"dashboard": {"enabled": true}}}), &[]),
        case("no metrics", json!({"metrics": {"enabled": false}}), &["!--enable-metrics", "!--listen-address"]),
        case(
            "other ports",
            json!({"ports": {"health": 9001, "metrics": 9002}}),
            &["--healthz-address=:9001", "--listen-address=:9002"],
        ),
        case(
            "the node lock as it is",
            json!({}),
            &[
                "--node-lock-timeout=5m",
                "--node-lock-takeover=state",
                "--node-lock-retry=classic",
                "!--node-lock-resources",
                "!--nodelock-sweep",
                "!--extender-address",
                "!--extender-http-timeout",
                "!--extender-filter",
                "!--extender-max-waiting-binds",
            ],
        ),
        case(
            "a node lock as HAMi's",
            json!({"nodeLock": {"timeout": "1h30m", "takeover": "age", "retry": "hami-2.10", "sweep": "report"}}),
            &[
                "--node-lock-timeout=1h30m",
                "--node-lock-takeover=age",
                "--node-lock-retry=hami-2.10",
                "--nodelock-sweep=report",
            ],
        ),
        case(
            "another table of resources",
            json!({"nodeLock": {"resources": [{"resource": "ex.io/gpu"}]}}),
            &["--node-lock-resources=/etc/topoloom/node-lock/resources.yaml"],
        ),
        case(
            "an extender",
            json!({"extender": {"enabled": true, "tls": {"secret": "extender"}}}),
            &[
                "--extender-address=:8888",
                "--extender-tls-cert-file=/etc/topoloom/extender/tls.crt",
                "--extender-tls-private-key-file=/etc/topoloom/extender/tls.key",
                "--extender-client-ca-file=/etc/topoloom/extender/ca.crt",
                "--extender-client-names=system:kube-scheduler",
                "--extender-http-timeout=30s",
                "--extender-filter=stuck",
                "--extender-max-waiting-binds=256",
                "!--extender-allow-anonymous",
                "!--nodelock-sweep",
            ],
        ),
        case(
            "an extender for everybody",
            json!({"extender": {"enabled": true, "allowAnonymous": true, "port": 9999, "filter": "off"}}),
            &[
                "--extender-address=:9999",
                "--extender-allow-anonymous",
                "--extender-filter=off",
                "!--extender-tls-cert-file",
                "!--extender-tls-private-key-file",
                "!--extender-client-ca-file",
                "!--extender-client-names",
            ],
        ),
        case(
            "an extender for everybody, over TLS",
            json!({"extender": {"enabled": true, "allowAnonymous": true, "tls": {"secret": "extender"}}}),
            &[
                "--extender-allow-anonymous",
                "--extender-tls-cert-file=/etc/topoloom/extender/tls.crt",
                "!--extender-client-ca-file",
            ],
        ),
        case(
            "values of a chart without the node lock",
            json!({"nodeLock": null, "extender": null}),
            &["!--node-lock-timeout", "!--nodelock-sweep", "!--extender-address"],
        ),
        case("no network policy", json!({"networkPolicy": {"enabled": false}}), &[]),
        case("DNS on another port", json!({"networkPolicy": {"dnsPorts": [53, 5353]}}), &[]),
        case("another lease", json!({"volcanoLeases": ["batch-hypernode"]}), &["--volcano-leases=batch-hypernode"]),
        case("no flow", json!({"flowSchema": {"enabled": false}}), &[]),
        case("no policy for nodes", json!({"admission": {"nodes": {"enabled": false}}}), &[]),
        case("no policy for Pods", json!({"admission": {"pods": {"enabled": false}}}), &[]),
        case("Bindings without labels", json!({"admission": {"pods": {"bindingLabels": []}}}), &[]),
        case("no policy for ConfigMaps", json!({"admission": {"configMaps": {"enabled": false}}}), &[]),
        case("a definition of the release", json!({"crds": {"hyperNode": "always"}}), &[]),
        case("the definitions of lending", json!({"crds": {"lending": "always"}}), &[]),
        case("a policy for HyperNodes", json!({"admission": {"hyperNodes": {"enabled": true}}}), &[]),
        case("protection", json!({"admission": {"protection": {"enabled": true, "groups": ["ops"]}}}), &[]),
        case("another account", json!({"serviceAccount": {"create": false, "name": "another"}}), &[]),
        case("more flags", json!({"extraArgs": ["--concurrency=4"]}), &["--concurrency=4"]),
    ]
}

/// Everything that can be on together, as far as the API server knows the kinds.
#[must_use]
pub fn all() -> Value {
    json!({
        "controllers": ["hyperNode-controller", "-bottomup-syncer", "*", "-job-controller"],
        "replicas": 3,
        "image": {"digest": format!("sha256:{}", "0".repeat(64))},
        "imagePullSecrets": [{"name": "pull"}],
        "config": {"existing": {"namespace": "volcano-system", "name": "volcano-controller-configmap"}},
        "plugins": {
            "cache": {"medium": "Memory"},
            "trust": {"level": "signature", "keys": [
                {"configMap": "keys", "key": "a.pub"}, {"secret": "more", "key": "b.pub"},
            ]},
            "mounted": [
                {"name": "acme", "volume": {"configMap": {"name": "acme-plugin"}}},
                {"name": "big", "volume": {"persistentVolumeClaim": {"claimName": "plugins", "readOnly": true}}},
            ],
            "watched": [{"name": "acme-plugin"}, {"name": "other", "namespace": "default"}],
            "registries": ["registry.example.com:8443"],
            "pullSecrets": [{"name": "pull"}, {"name": "other", "namespace": "default"}],
        },
        "documents": [{"name": "fabric", "volume": {"configMap": {"name": "fabric-documents"}}}],
        "traces": {"endpoint": "https://collector.example.com", "headersSecret": "token", "authoritiesConfigMap": "authorities"},
        "nodeLock": {
            "timeout": "10m",
            "takeover": "age",
            "retry": "hami-2.10",
            "resources": [
                {"name": "NVIDIA", "resource": "nvidia.com/gpu", "ranges": [{"resource": "nvidia.com/gpumem", "max": 2_147_483_647}]},
                {"resource": "cambricon.com/vmlu", "lock": "cambricon", "limitsOnly": true, "maxCount": 8},
            ],
            "sweep": "repair",
        },
        "syncer": lending::all(),
        "extender": {"enabled": true, "tls": {"secret": "extender", "clientNames": ["binds", "pods of us"]}, "httpTimeoutSeconds": 60, "filter": "locked", "maxWaitingBinds": 1000, "preStopSeconds": 3},
        "access": {
            "secrets": [{"name": "ufm"}, {"name": "more", "namespace": "kube-system"}],
            "configMaps": [{"name": "authorities"}],
        },
        "metrics": {"dashboard": {"enabled": true}},
        "networkPolicy": {
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"metrics": "yes"}}}],
            "extenderFrom": [{"ipBlock": {"cidr": "192.0.2.10/32"}}],
            "dnsTo": [{"ipBlock": {"cidr": "10.96.0.10/32"}}],
            "collectorTo": [{"namespaceSelector": {"matchLabels": {"collector": "yes"}}}],
            "registriesTo": [{"ipBlock": {"cidr": "192.0.2.20/32"}}],
            "apiServer": {"cidrs": ["10.96.0.1/32"]},
            "endpoints": [{"cidr": "10.1.0.0/16", "ports": [443]}],
            "extraEgress": [{"ports": [{"port": 8443}]}],
        },
        "admission": {
            "hyperNodes": {"enabled": true},
            "protection": {"enabled": true, "users": ["alice"], "groups": ["ops"]},
        },
        "crds": {"hyperNode": "always", "lending": "always"},
        "serviceAccount": {"annotations": {"note": "mine"}},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "priorityClassName": "system-cluster-critical",
        "podAnnotations": {"note": "mine"},
        "podLabels": {"team": "mine"},
        "extraArgs": ["--concurrency=4"],
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "extraVolumes": [{"name": "extra", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "extra", "mountPath": "/extra"}],
    })
}
