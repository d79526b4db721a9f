//! What the rules of the chart let the host do, and what the host reports if a rule is missing or the API server
//! answers 429.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use topoloom_tests::chart;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, RACKS, Scene};

const PATIENCE: Duration = Duration::from_secs(60);
const TREE: [&str; 1] = ["tier 1 ex.io/rack=x (1): a"];

/// A cluster with the chart; the kubeconfig file of its ServiceAccount.
async fn installed() -> Result<(Scene, PathBuf)> {
    let scene = Scene::new().await?;
    let kubeconfig = chart::install(&scene, json!({})).await?.kubeconfig;
    Ok((scene, kubeconfig))
}

/// Removes the rule for one resource from the ClusterRole.
async fn forbid(scene: &Scene, resource: &str) -> Result<()> {
    let role = scene.plane.kubectl(&["get", "clusterrole", chart::CLUSTER_NAME, "-o", "json"]).await?;
    let mut role: serde_json::Value = serde_json::from_str(&role)?;
    let rules = role["rules"].as_array_mut().unwrap();
    let before = rules.len();
    rules.retain(|rule| rule["resources"][0] != resource);
    assert_eq!(rules.len() + 1, before, "the role has a rule for {resource}");
    let patch = json!({"rules": rules}).to_string();
    scene.plane.kubectl(&["patch", "clusterrole", chart::CLUSTER_NAME, "--type=merge", "-p", &patch]).await?;
    Ok(())
}

/// Waits for an Event with this reason, in any namespace.
async fn event(scene: &Scene, reason: &str) -> serde_json::Value {
    eventually(&format!("there is an Event {reason}"), PATIENCE, async || {
        let all = scene.plane.get("/apis/events.k8s.io/v1/events").await;
        let events = all.map_err(|error| error.to_string())?;
        let events: serde_json::Value = serde_json::from_str(&events).map_err(|error| error.to_string())?;
        let found = events["items"].as_array().into_iter().flatten().find(|event| event["reason"] == reason);
        found.cloned().ok_or_else(|| events.to_string())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_of_the_chart_are_all_that_the_host_needs() -> Result<()> {
    let (scene, kubeconfig) = installed().await?;
    // More Nodes than may lose their place without a confirmation.
    let many: Vec<String> = (0..10).map(|n| format!("a{n} ex.io/rack=x ex.io/spine=s")).collect();
    scene.nodes(&many.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    scene.nodes(&["b ex.io/rack=y ex.io/spine=s"]).await?;
    scene.configure(RACKS).await?;
    let host = Host::start(&kubeconfig, &[]).await?;
    let tree = [
        "tier 2 ex.io/spine=s (11): ex.io/rack=x ex.io/rack=y",
        "tier 1 ex.io/rack=x (10): a0 a1 a2 a3 a4 a5 a6 a7 a8 a9",
        "tier 1 ex.io/rack=y (1): b",
    ];
    scene.until(&tree).await;
    // A pipeline that waits for the source with `kubectl wait` continues.
    scene.plane.kubectl(&["wait", "dsrc/label", "--for=condition=Ready", "--timeout=45s"]).await?;
    let object = scene.source("label").await?;
    let generation = object.metadata.generation;
    assert!(generation.is_some() && object.status.observed_generation == generation, "{object:#?}");
    assert!(object.status.conditions.iter().all(|said| said.observed_generation == generation), "{object:#?}");
    // From here on the host needs its other rights: update and delete, a status, an Event, and a verb of the command
    // line.
    scene.plane.relabel("b", "ex.io/rack", "x").await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=s (11): ex.io/rack=x",
            "tier 1 ex.io/rack=x (11): a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 b",
        ])
        .await;
    scene.configure(&RACKS.replace("ex.io/rack", "ex.io/nothing").replace("ex.io/spine", "ex.io/nowhere")).await?;
    scene.until_condition("label", "Held", "True", "EmptyResult").await;
    scene.until_condition("label", "Ready", "False", "EmptyResult").await;
    let about_source = event(&scene, "EmptyResult").await;
    assert_eq!(about_source["regarding"]["kind"], "DiscoverySource", "{about_source}");
    // M6: all Events name the same controller, and the Event about the leader has the form that Kubernetes components
    // use.
    assert_eq!(about_source["reportingController"], "topoloom", "{about_source}");
    let about_lease = event(&scene, "LeaderElection").await;
    let regarding = &about_lease["regarding"];
    let (kind, name) = (&regarding["kind"], &regarding["name"]);
    assert_eq!((kind, name), (&json!("Lease"), &json!("topoloom-hypernode")), "{about_lease}");
    assert_eq!(about_lease["reportingController"], "topoloom", "{about_lease}");
    let identity = ["get", "lease", "topoloom-hypernode", "-n", NAMESPACE, "-o", "jsonpath={.spec.holderIdentity}"];
    let identity = scene.plane.kubectl(&identity).await?;
    assert!(identity.contains('_'), "{identity:?} is a host name and a UUID");
    assert!(about_lease["note"].as_str().is_some_and(|note| note.contains(&identity)), "{identity}: {about_lease}");
    scene.cli(&["confirm", "label"]).await?;
    scene.until(&[]).await;
    let ready = host.readyz().await?;
    assert!(!ready.contains("[!]") && !ready.contains("absent"), "{ready}");
    let denied = host.log().into_iter().find(|line| line.contains("orbidden"));
    assert_eq!(denied, None);
    scene.until_condition("label", "Ready", "True", "Ok").await;
    host.stop().await?;
    // There is no other replica that could lead.
    scene.until_state("label", "Stopped").await;
    let said = scene.until_condition("label", "Ready", "Unknown", "HostStopped").await;
    assert!(said.contains("no host runs"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_from_a_config_map_needs_one_rule_more_and_swaps_need_none() -> Result<()> {
    let (scene, kubeconfig) = installed().await?;
    scene.nodes(&["a example.com/rack=x", "b example.com/rack=x"]).await?;
    let map = format!("{NAMESPACE}/acme-plugin");
    let push = async |version: &str| -> Result<()> {
        let file = scene.plane.folder().join(format!("{version}.wasm"));
        std::fs::write(&file, topoloom_tests::guest::version("good", version)?)?;
        scene.cli(&["plugin", "push", &file.to_string_lossy(), "--configmap", &map]).await.map(drop)
    };
    push("1.0.0").await?;
    scene
        .configure(
            "networkTopologyDiscovery:\n\
             - source: fabric\n  enabled: true\n\
             \x20 plugin: {configMap: {name: acme-plugin, key: plugin.wasm}}\n\
             \x20 permissions: {nodeLabels: [example.com/rack]}\n",
        )
        .await?;
    let host = Host::start(&kubeconfig, &[]).await?;
    let message = scene.until_condition("fabric", "Loaded", "False", "PluginNotFound").await;
    assert!(message.contains("acme-plugin") && message.contains("configmaps"), "{message}");
    chart::install(&scene, json!({"plugins": {"watched": [{"name": "acme-plugin"}]}})).await?;
    scene.until(&["tier 1 example.com/rack=x (2): a b"]).await;
    let serves = async |version: &str| {
        eventually(&format!("{version} serves"), PATIENCE, async || {
            let status = scene.source("fabric").await.map_err(|error| error.to_string())?.status;
            let serves = status.plugin.as_ref().is_some_and(|plugin| plugin.version == version);
            if serves { Ok(()) } else { Err(format!("{status:#?}")) }
        })
        .await;
    };
    push("2.0.0").await?;
    serves("2.0.0").await;
    host.stop().await?;
    // The host keeps the plugin that was active before, and a host finds it after a restart.
    let host = Host::start(&kubeconfig, &[]).await?;
    scene.cli(&["plugin", "rollback", "fabric"]).await?;
    serves("1.0.0").await;
    let denied = host.log().into_iter().find(|line| line.contains("orbidden"));
    assert_eq!(denied, None);
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_rule_is_named_where_an_operator_looks() -> Result<()> {
    let (scene, kubeconfig) = installed().await?;
    scene.nodes(&["a ex.io/rack=x"]).await?;
    scene.configure(RACKS).await?;
    forbid(&scene, "nodes").await?;
    let host = Host::launch(&kubeconfig, &[]).await?;
    let rule = "ClusterRole: {apiGroups: [\"\"], resources: [\"nodes\"], verbs: [\"list\"]}";
    eventually("/readyz names the rule for nodes", PATIENCE, async || match host.readyz().await {
        Err(error) if error.to_string().contains(rule) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    // A follower could not take over either, so it is not ready: a rolling update with these rules stops.
    let follower = Host::launch_as("second", &kubeconfig, &[]).await?;
    eventually("the follower is not ready, and says why", PATIENCE, async || match follower.readyz().await {
        Err(error) => {
            let said = error.to_string();
            let is_why = said.contains("follows") && said.contains("could not take over") && said.contains(rule);
            if is_why { Ok(()) } else { Err(said) }
        }
        Ok(ready) => Err(ready),
    })
    .await;
    follower.stop().await?;
    host.stop().await?;

    // The host may read Nodes again, and it may only read HyperNodes.
    chart::install(&scene, json!({})).await?;
    forbid(&scene, "hypernodes").await?;
    let read = r#"[{"op": "add", "path": "/rules/-", "value": {"apiGroups": ["topology.volcano.sh"], "resources": ["hypernodes"], "verbs": ["list", "watch"]}}]"#;
    scene.plane.kubectl(&["patch", "clusterrole", chart::CLUSTER_NAME, "--type=json", "-p", read]).await?;
    let host = Host::start(&kubeconfig, &[]).await?;
    let message = scene.until_condition("label", "Applied", "False", "WriteFailed").await;
    let rule = "ClusterRole: {apiGroups: [\"topology.volcano.sh\"], resources: [\"hypernodes\"], verbs: [\"patch\"]}";
    assert!(message.contains("Forbidden") && message.contains(rule), "{message}");
    scene.until(&[]).await;
    // The host tries the write more than once, and logs the missing rule once.
    eventually("it is tried again", PATIENCE, async || {
        let tries = host.log().into_iter().filter(|line| line.contains("\"message\":\"refused\"")).count();
        if tries > 2 { Ok(()) } else { Err(format!("{tries} tries")) }
    })
    .await;
    let said: Vec<serde_json::Value> = host
        .log()
        .iter()
        .filter(|line| line.contains("are refused"))
        .map(|line| serde_json::from_str(line))
        .collect::<Result<_, _>>()?;
    let [said] = &said[..] else { panic!("one line for one missing rule: {said:#?}") };
    assert_eq!(
        (&said["level"], &said["verb"], &said["missing_rule"]),
        (&json!("WARN"), &json!("create"), &json!(rule)),
        "{said}"
    );
    assert!(said["hyper_node"].as_str().is_some_and(|name| name.starts_with("hypernode-")), "{said}");
    // The operator adds the rule, and restarts nothing.
    chart::install(&scene, json!({})).await?;
    scene.until(&TREE).await;
    scene.until_condition("label", "Applied", "True", "Ok").await;
    assert!(host.log().iter().any(|line| line.contains("not refused any more")), "the host logs the end, too");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_sends_writes_away_is_asked_again_later() -> Result<()> {
    let (scene, kubeconfig) = installed().await?;
    scene.nodes(&["a ex.io/rack=x"]).await?;
    // All writes of HyperNodes by our ServiceAccount share one seat of the API server, and a write that waits for a
    // webhook holds it.
    let one_seat = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "one-seat"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
            "limitResponse": {"type": "Reject"},
        }},
    });
    let writes = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "writes"},
        "spec": {
            "priorityLevelConfiguration": {"name": "one-seat"}, "matchingPrecedence": 2,
            "rules": [{
                "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "topoloom", "namespace": NAMESPACE}}],
                "resourceRules": [{
                    "verbs": ["patch"], "apiGroups": ["topology.volcano.sh"], "resources": ["hypernodes"],
                    "clusterScope": true,
                }],
            }],
        },
    });
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "slow"},
        "webhooks": [{
            "name": "slow.example.com", "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
            "clientConfig": {"url": format!("https://{}/", silent.local_addr()?)},
            "objectSelector": {"matchLabels": {"slow": "yes"}},
            "rules": [{"apiGroups": ["topology.volcano.sh"], "apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE"], "resources": ["hypernodes"]}],
        }],
    });
    for (name, object) in [("level.json", one_seat), ("flow.json", writes), ("hook.json", hook)] {
        let file = scene.plane.folder().join(name);
        std::fs::write(&file, object.to_string())?;
        scene.plane.kubectl(&["create", "-f", &file.to_string_lossy()]).await?;
    }
    let client = topoloom_tests::controlplane::client_from(&kubeconfig).await?;
    let api: kube::Api<topoloom_api::HyperNode> = kube::Api::all(client);
    let put = async |name: &str, labels: serde_json::Value| {
        let body = json!({
            "apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode",
            "metadata": {"name": name, "labels": labels}, "spec": {"tier": 1},
        });
        api.patch(name, &kube::api::PatchParams::apply("test").force(), &kube::api::Patch::Apply(&body)).await
    };
    let seat_is_taken = async {
        eventually("the API server sends writes away", PATIENCE, async || match put("probe", json!({})).await {
            Err(kube::Error::Api(status)) if status.code == 429 => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        scene.plane.kubectl(&["delete", "hypernode", "probe", "--ignore-not-found"]).await
    };
    // The request that holds the seat ends after 30 s, the timeout of the webhook, and is then sent again.
    let sits = async {
        loop {
            let _ = put("sits", json!({"slow": "yes"})).await;
        }
    };
    let mut sits = std::pin::pin!(sits);
    tokio::select! {
        () = &mut sits => {}
        taken = seat_is_taken => drop(taken?),
    }
    // The API server may have stored this object once, before it knew the webhook.
    scene.plane.kubectl(&["delete", "hypernode", "sits", "--ignore-not-found"]).await?;
    scene.configure(RACKS).await?;
    let host = Host::start(&kubeconfig, &[]).await?;
    tokio::select! {
        () = &mut sits => {}
        message = scene.until_condition("label", "Applied", "False", "WriteFailed") => {
            assert!(message.contains("TooManyRequests") && message.contains("again"), "{message}");
            scene.until(&[]).await;
        }
    }
    // From here on the seat is free.
    scene.until(&TREE).await;
    scene.until_condition("label", "Applied", "True", "Ok").await;
    host.stop().await
}
