//! Values that the chart refuses, and parts of each message.

use anyhow::Result;
use serde_json::{Value, json};
use topoloom_tests::chart::values::{lends, lends_with};
use topoloom_tests::chart::{Rendering, merge};

#[tokio::test(flavor = "multi_thread")]
async fn values_that_mean_nothing_are_refused_by_name() -> Result<()> {
    let key = json!({"configMap": "a", "secret": "b", "key": "c"});
    let rows: Vec<(Value, &[&str])> = vec![
        (json!({"replicaCount": 3}), &["additional properties 'replicaCount' not allowed"]),
        (json!({"replicas": "two"}), &["/replicas", "want integer"]),
        (json!({"replicas": 8}), &["/replicas", "maximum"]),
        (json!({"replicas": -1}), &["/replicas", "minimum"]),
        (json!({"replicas": null}), &["missing property 'replicas'"]),
        (json!({"controllers": ["hypernode-controller"]}), &["/controllers/0", "does not match pattern"]),
        (json!({"controllers": ["job-controller"]}), &["/controllers/0", "does not match pattern"]),
        (json!({"controllers": ["*", " -extender"]}), &["/controllers/1", "does not match pattern"]),
        (json!({"controllers": ["-extender"]}), &["none runs", "add \"*\""]),
        (json!({"controllers": ["*", "extender", "-extender"]}), &["controllers names extender twice"]),
        (json!({"observe": "yes"}), &["/observe", "want boolean"]),
        (json!({"status": "none"}), &["/status", "value must be one of 'all', 'own'"]),
        (
            json!({"leaderElection": {"leaseDurationSeconds": 10}}),
            &["leaseDurationSeconds is 10", "renewDeadlineSeconds"],
        ),
        (
            json!({"leaderElection": {"retryPeriodSeconds": 9}}),
            &["renewDeadlineSeconds is 10", "1.2 times retryPeriodSeconds"],
        ),
        (json!({"leaderElection": {"leaseDurationSeconds": 0}}), &["/leaderElection/leaseDurationSeconds", "minimum"]),
        (json!({"leaderElection": {"enabled": false}}), &["replicas is 2", "all replicas would write"]),
        (
            json!({"drainTimeoutSeconds": 40}),
            &["terminationGracePeriodSeconds is 45", "drainTimeoutSeconds, which is 40"],
        ),
        (json!({"volcanoLeases": []}), &["/volcanoLeases", "minItems"]),
        (json!({"nodeLock": {"timeout": "5"}}), &["/nodeLock/timeout", "pattern"]),
        (json!({"nodeLock": {"timeout": "9s"}}), &["nodeLock.timeout is 9s", "10s to 24h"]),
        (json!({"nodeLock": {"timeout": "24h0.5s"}}), &["nodeLock.timeout is 24h0.5s", "10s to 24h"]),
        (json!({"nodeLock": {"takeover": "never"}}), &["/nodeLock/takeover", "'state', 'age'"]),
        (json!({"nodeLock": {"retry": "hami"}}), &["/nodeLock/retry"]),
        (json!({"nodeLock": {"sweep": "remove"}}), &["/nodeLock/sweep"]),
        (json!({"nodeLock": {"resources": [{"resource": "gpu"}]}}), &["/nodeLock/resources/0/resource", "pattern"]),
        (json!({"nodeLock": {"resources": [{"name": "A"}]}}), &["missing property 'resource'"]),
        (
            json!({"nodeLock": {"resources": [{"resource": "ex.io/gpu", "maxCount": 0}]}}),
            &["/nodeLock/resources/0/maxCount", "minimum"],
        ),
        (
            json!({"nodeLock": {"resources": [{"resource": "ex.io/gpu", "limits": true}]}}),
            &["additional properties 'limits' not allowed"],
        ),
        (json!({"extender": {"enabled": true}}), &["extender.enabled needs extender.tls.secret", "allowAnonymous"]),
        (
            json!({"extender": {"enabled": true, "allowAnonymous": true}, "controllers": ["*", "-extender"]}),
            &["extender.enabled is true", "the extender does not run"],
        ),
        (
            json!({"extender": {"enabled": true, "allowAnonymous": true, "port": 8081}}),
            &["extender.port is 8081", "ports.metrics"],
        ),
        (
            json!({"extender": {"enabled": true, "allowAnonymous": true}, "nodeLock": {"timeout": "55s"}}),
            &["nodeLock.timeout is 55s", "at least 56s", "extender.httpTimeoutSeconds"],
        ),
        (
            json!({"extender": {"enabled": true, "allowAnonymous": true}, "drainTimeoutSeconds": 29}),
            &["drainTimeoutSeconds is 29", "at least 30", "extender.httpTimeoutSeconds"],
        ),
        (json!({"extender": {"port": 443}}), &["/extender/port", "minimum"]),
        (json!({"extender": {"httpTimeoutSeconds": 2}}), &["/extender/httpTimeoutSeconds", "minimum"]),
        (json!({"extender": {"filter": "some"}}), &["/extender/filter"]),
        (
            json!({"extender": {"enabled": true, "allowAnonymous": true, "preStopSeconds": 6}}),
            &["terminationGracePeriodSeconds is 45", "30 and 6"],
        ),
        (json!({"extender": {"maxWaitingBinds": 0}}), &["/extender/maxWaitingBinds", "minimum"]),
        (json!({"extender": {"tls": {"secret": "A"}}}), &["/extender/tls/secret", "pattern"]),
        (json!({"extender": {"tls": {"clientNames": ["a,b"]}}}), &["/extender/tls/clientNames/0", "pattern"]),
        (json!({"extender": {"tls": {"clientNames": []}}}), &["/extender/tls/clientNames", "minItems"]),
        (json!({"drainTimeoutSeconds": "30s"}), &["/drainTimeoutSeconds", "want integer"]),
        (json!({"log": {"format": "xml"}}), &["/log/format"]),
        (json!({"traces": {"endpoint": "collector:4318"}}), &["/traces/endpoint", "pattern"]),
        (json!({"traces": {"endpoint": "http://me:secret@collector"}}), &["/traces/endpoint", "pattern"]),
        (json!({"traces": {"endpoint": "http://collector:4318o"}}), &["/traces/endpoint", "pattern"]),
        (json!({"traces": {"endpoint": "http://collector:99999"}}), &["http://collector:99999: there is no such port"]),
        (json!({"traces": {"headersSecret": "token"}}), &["traces.endpoint, which is empty"]),
        (json!({"config": {"existing": {"name": "only"}}}), &["/config/existing"]),
        (json!({"config": {"existing": {"namespace": "only"}}}), &["/config/existing"]),
        (json!({"config": {"existing": {"namespace": "A", "name": "b"}}}), &["/config/existing/namespace", "pattern"]),
        (json!({"config": {"document": []}}), &["/config/document", "want string or object"]),
        (json!({"image": {"repository": ""}}), &["image.repository is required", "make image"]),
        (json!({"image": {"repository": "Topoloom"}}), &["/image/repository", "pattern"]),
        (json!({"image": {"digest": "sha256:12"}}), &["/image/digest", "pattern"]),
        (json!({"image": {"pullPolicy": "Sometimes"}}), &["/image/pullPolicy"]),
        (json!({"plugins": {"cache": {"size": "256MB"}}}), &["/plugins/cache/size", "pattern"]),
        (json!({"plugins": {"memory": "1G"}}), &["/plugins/memory", "pattern"]),
        (
            json!({"plugins": {"memory": "800Mi"}}),
            &["plugins.memory is 800Mi", "resources.limits.memory is 1Gi", "256Mi beside"],
        ),
        (
            json!({"plugins": {"memory": "600Mi", "cache": {"medium": "Memory"}}}),
            &["plugins.memory is 600Mi", "the cache in memory, which is 256Mi"],
        ),
        (
            json!({"resources": {"limits": {"memory": "1Ei"}}}),
            &["resources.limits.memory is 1Ei", "set plugins.memory"],
        ),
        (json!({"plugins": {"trust": {"level": "some"}}}), &["/plugins/trust/level"]),
        (json!({"plugins": {"trust": {"level": "signature"}}}), &["needs plugins.trust.keys"]),
        (json!({"plugins": {"trust": {"keys": [key]}}}), &["/plugins/trust/keys/0", "'oneOf' failed"]),
        (
            json!({"plugins": {"mounted": [{"name": "a", "volume": {"hostPath": {"path": "/"}}}]}}),
            &["/plugins/mounted/0/volume", "additional properties 'hostPath' not allowed"],
        ),
        (json!({"plugins": {"mounted": [{"name": "../a", "volume": {"secret": {}}}]}}), &["/plugins/mounted/0/name"]),
        (json!({"plugins": {"registries": ["https://registry.example.com"]}}), &["/plugins/registries/0", "pattern"]),
        (json!({"plugins": {"registries": ["registry.example.com/acme"]}}), &["/plugins/registries/0", "pattern"]),
        (json!({"plugins": {"registries": ["*"]}}), &["/plugins/registries/0", "pattern"]),
        (json!({"plugins": {"pullSecrets": ["pull"]}}), &["/plugins/pullSecrets/0", "want object"]),
        (json!({"access": {"secrets": [{"name": "*"}]}}), &["/access/secrets/0/name", "pattern"]),
        (json!({"access": {"secrets": ["ufm"]}}), &["/access/secrets/0", "want object"]),
        (json!({"ports": {"health": 80}}), &["/ports/health", "minimum"]),
        (json!({"ports": {"health": 8081}}), &["ports.health and ports.metrics are both 8081"]),
        (json!({"metrics": {"rules": {"docs": "docs.example.com"}}}), &["/metrics/rules/docs", "pattern"]),
        (json!({"metrics": {"enabled": false, "serviceMonitor": {"enabled": true}}}), &["needs metrics.enabled"]),
        (
            json!({"networkPolicy": {"endpoints": [{"cidr": "ufm.example.com", "ports": [443]}]}}),
            &["/networkPolicy/endpoints/0/cidr"],
        ),
        (json!({"networkPolicy": {"apiServer": {"ports": []}}}), &["/networkPolicy/apiServer/ports", "minItems"]),
        (json!({"networkPolicy": {"dnsPorts": []}}), &["/networkPolicy/dnsPorts", "minItems"]),
        (json!({"flowSchema": {"precedence": 0}}), &["/flowSchema/precedence", "minimum"]),
        // This name would end the quotes of an expression.
        (
            json!({"admission": {"protection": {"users": ["a' || true || 'a"]}}}),
            &["/admission/protection/users/0", "pattern"],
        ),
        (json!({"crds": {"hyperNode": true}}), &["/crds/hyperNode"]),
        (json!({"serviceAccount": {"create": false}}), &["serviceAccount.name is required"]),
        (json!({"extraArgs": ["run"]}), &["/extraArgs/0", "pattern"]),
        (json!({"extraEnv": [{"value": "x"}]}), &["/extraEnv/0", "missing property 'name'"]),
    ];
    are_refused(rows).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_the_syncer_that_mean_nothing_are_refused_by_name() -> Result<()> {
    let with = |mut under: Value, over: Value| {
        merge(&mut under, over);
        under
    };
    let kubelet = |of_kubelet: Value| {
        let mut all = json!({"enabled": true, "address": "10.96.0.20", "tls": {"secret": "kubelet"}});
        merge(&mut all, of_kubelet);
        lends_with(json!({"kubelet": all}))
    };
    let rows: Vec<(Value, &[&str])> = vec![
        (json!({"syncer": {"enabled": true}}), &["syncer.enabled needs syncer.secrets"]),
        (
            json!({"controllers": ["bottomup-syncer"]}),
            &["controllers names bottomup-syncer", "which has a Deployment of its own"],
        ),
        (
            with(lends(), json!({"syncer": {"serviceAccount": {"name": "topoloom"}}})),
            &["syncer.serviceAccount.name is topoloom", "ServiceAccount of the other Deployment"],
        ),
        (
            with(lends(), json!({"networkPolicy": {"apiServer": {"cidrs": ["10.96.0.1/32"]}}})),
            &["syncer.networkPolicy.physicalServers is empty", "could reach no physical cluster"],
        ),
        (kubelet(json!({"address": ""})), &["needs syncer.kubelet.address"]),
        (kubelet(json!({"tls": {"secret": ""}})), &["needs syncer.kubelet.tls.secret"]),
        (kubelet(json!({"port": 8081})), &["syncer.kubelet.port is 8081", "also ports.health or ports.metrics"]),
        (
            with(lends(), json!({"replicas": 1, "leaderElection": {"enabled": false}})),
            &["syncer.replicas is 2", "all replicas would write"],
        ),
        (json!({"syncer": {"secrets": ["East"]}}), &["/syncer/secrets/0", "pattern"]),
        (json!({"syncer": {"secrets": ["east", "east"]}}), &["/syncer/secrets", "are equal"]),
        (json!({"syncer": {"kubelet": {"address": "kubelet.example.com"}}}), &["/syncer/kubelet/address", "pattern"]),
        (json!({"syncer": {"kubelet": {"port": 443}}}), &["/syncer/kubelet/port", "minimum"]),
        (
            json!({"syncer": {"kubelet": {"service": {"type": "NodePort"}}}}),
            &["/syncer/kubelet/service/type", "'ClusterIP', 'LoadBalancer'"],
        ),
        (json!({"syncer": {"virtualClusterID": "-night"}}), &["/syncer/virtualClusterID", "pattern"]),
    ];
    are_refused(rows).await;
    Ok(())
}

/// Each set of values is refused, with all of these words.
async fn are_refused(rows: Vec<(Value, &[&str])>) {
    for (values, words) in rows {
        let said = match Rendering::new(values.clone()).text().await {
            Err(error) => format!("{error:#}"),
            Ok(_) => panic!("{values} is rendered"),
        };
        for word in words {
            assert!(said.contains(word), "{values}: {word:?} is not in: {said}");
        }
    }
}
