//! The chart: what it renders, value by value, and what it refuses; without a cluster.

mod leaves;
mod locks;
mod placing;
mod refused;
mod syncer;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use topoloom_tests::chart::plain::{self, Manifest};
use topoloom_tests::chart::{self, Container, Rendering, object, rules, titles, values};
use topoloom_tests::helm::{helm, template};

/// [`Rendering`] uses processes that have rendered before.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_rendered_or_refused_before_makes_no_difference_to_helm() -> Result<()> {
    let folder = chart::folder();
    let folder = folder.to_string_lossy();
    let arguments = ["template", "one", &*folder, "--namespace", "here", "--set", "image.repository=r"];
    let alone = helm(None, &arguments).await?;
    for _ in 0..2 {
        let other = Rendering { namespace: "elsewhere".to_owned(), ..Rendering::new(values::all()) };
        assert_ne!(other.text().await?, alone);
        assert!(Rendering::new(json!({"replicas": "two"})).text().await.is_err());
        assert_eq!(template(&arguments[1..]).await?, alone);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chart_has_no_lint() -> Result<()> {
    let (folder, file) = (chart::folder(), tempfile::Builder::new().suffix(".yaml").tempfile()?);
    // JSON is YAML.
    std::fs::write(file.path(), Rendering::new(values::all()).values.to_string())?;
    let (folder, everything) = (folder.to_string_lossy(), file.path().to_string_lossy());
    for values in [&[][..], &["--values", &*everything]] {
        let said = helm(None, &[&["lint", "--strict", &*folder], values].concat()).await?;
        let is_good = said.contains("1 chart(s) linted, 0 chart(s) failed") && !said.contains("[WARNING]");
        assert!(is_good, "{values:?}: {said}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_switch_gives_the_flags_that_it_stands_for() -> Result<()> {
    for case in values::each() {
        let objects = Rendering::new(case.values).objects().await?;
        let args = Container::named(&objects, case.deployment)?.args;
        for flag in case.flags {
            let has = |flag: &str| args.iter().any(|word| word == flag || word.split('=').next() == Some(flag));
            match flag.strip_prefix('!') {
                Some(flag) => assert!(!has(flag), "{}: {flag} is among {args:?}", case.name),
                None => assert!(has(flag), "{}: {flag} is not among {args:?}", case.name),
            }
        }
        let unique: BTreeSet<_> = titles(&objects).into_iter().collect();
        assert_eq!(unique.len(), objects.len(), "{}: an object is rendered twice: {:?}", case.name, titles(&objects));
    }
    let everything = Container::of(&Rendering::new(values::all()).objects().await?)?;
    assert_eq!(everything.env["KUBE_POD_NAMESPACE"], "volcano-system");
    assert_eq!(everything.env["HELM_RELEASE_NAME"], "topoloom");
    assert_eq!(everything.env["HTTPS_PROXY"], "http://proxy:3128");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_switch_makes_its_objects_or_leaves_them_out() -> Result<()> {
    let with = |mut under: Value, over: Value| {
        chart::merge(&mut under, over);
        under
    };
    let rows = [
        ("NetworkPolicy volcano-system/topoloom", json!({}), json!({"networkPolicy": {"enabled": false}})),
        ("FlowSchema /topoloom.volcano-system", json!({}), json!({"flowSchema": {"enabled": false}})),
        (
            "FlowSchema /topoloom.volcano-system.leases",
            json!({}),
            json!({"replicas": 1, "leaderElection": {"enabled": false}}),
        ),
        (
            "ValidatingAdmissionPolicyBinding /topoloom.volcano-system.nodes",
            json!({}),
            json!({"admission": {"nodes": {"enabled": false}}}),
        ),
        (
            "ValidatingAdmissionPolicyBinding /topoloom.volcano-system.pods",
            json!({"admission": {"pods": null}}),
            json!({"admission": {"pods": {"enabled": false}}}),
        ),
        (
            "Service volcano-system/topoloom-extender",
            json!({"extender": {"enabled": true, "tls": {"secret": "extender"}}}),
            json!({"extender": {"tls": {"secret": "extender"}}}),
        ),
        (
            "ConfigMap volcano-system/topoloom-lock-resources",
            json!({"nodeLock": {"resources": [{"resource": "ex.io/gpu"}]}}),
            json!({}),
        ),
        (
            "ValidatingAdmissionPolicyBinding /topoloom.volcano-system.configmaps",
            json!({"admission": {"configMaps": null}}),
            json!({"admission": {"configMaps": {"enabled": false}}}),
        ),
        (
            "ValidatingAdmissionPolicyBinding /topoloom.volcano-system.hypernodes",
            json!({"admission": {"hyperNodes": {"enabled": true}}}),
            json!({}),
        ),
        (
            "ValidatingAdmissionPolicyBinding /topoloom.volcano-system.protection",
            json!({"admission": {"protection": {"enabled": true}}}),
            json!({}),
        ),
        ("Service volcano-system/topoloom-metrics", json!({}), json!({"metrics": {"enabled": false}})),
        (
            "ServiceMonitor volcano-system/topoloom",
            json!({"metrics": {"serviceMonitor": {"enabled": true}}}),
            json!({}),
        ),
        (
            "PrometheusRule volcano-system/topoloom",
            json!({"metrics": {"rules": {"enabled": true, "docs": "https://docs.example.com/topoloom/"}}}),
            json!({}),
        ),
        (
            "ConfigMap volcano-system/topoloom-dashboard",
            json!({"metrics": {"dashboard": {"enabled": true}}}),
            json!({"metrics": {"dashboard": null}}),
        ),
        (
            "ConfigMap volcano-system/topoloom-controller-configmap",
            json!({"config": {"document": {"networkTopologyDiscovery": []}}}),
            json!({"config": {"existing": {"namespace": "a", "name": "b"}}}),
        ),
        // Without a cluster the chart cannot know whether an operator has written into the ConfigMap.
        (
            "ConfigMap volcano-system/topoloom-controller-configmap",
            json!({"config": {"document": "networkTopologyDiscovery: []"}}),
            json!({}),
        ),
        (
            "ServiceAccount volcano-system/topoloom",
            json!({}),
            json!({"serviceAccount": {"create": false, "name": "topoloom"}}),
        ),
        (
            "CustomResourceDefinition /discoverysources.topoloom.dev",
            json!({}),
            json!({"crds": {"discoverySource": "never"}}),
        ),
        (
            "CustomResourceDefinition /clusterbindings.topoloom.dev",
            json!({"crds": {"lending": "always"}}),
            // Values that an upgrade kept from an older chart.
            json!({"crds": {"lending": null}}),
        ),
        ("CustomResourceDefinition /resourceleasingpolicies.topoloom.dev", values::lends(), json!({})),
        (
            "CustomResourceDefinition /clusterbindings.topoloom.dev",
            with(values::lends(), json!({"crds": {"lending": null}})),
            with(values::lends(), json!({"crds": {"lending": "never"}})),
        ),
        // Without a cluster the chart cannot know whether the definition is absent.
        (
            "CustomResourceDefinition /hypernodes.topology.volcano.sh",
            json!({"crds": {"hyperNode": "always"}}),
            json!({}),
        ),
    ];
    for (title, with, without) in rows {
        let there = titles(&Rendering::new(with).objects().await?);
        assert!(there.iter().any(|it| it == title), "{title} is not among {there:?}");
        let there = titles(&Rendering::new(without).objects().await?);
        assert!(!there.iter().any(|it| it == title), "{title} is among {there:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_alert_about_a_missing_replica_knows_how_many_there_should_be() -> Result<()> {
    for replicas in [1, 2, 3] {
        let values = json!({"replicas": replicas, "metrics": {"rules": {"enabled": true}}});
        let objects = Rendering::new(values).objects().await?;
        let rules = object(&objects, "PrometheusRule", "topoloom")?;
        let groups = rules["spec"]["groups"].as_array().into_iter().flatten();
        let mut alerts = groups.flat_map(|group| group["rules"].as_array().into_iter().flatten());
        let alert = alerts.find(|rule| rule["alert"] == "TopoloomReplicaMissing").context("the alert")?;
        let wanted = format!(r#"count by (namespace, job) (topoloom_leader{{group="hypernode"}}) < {replicas}"#);
        assert_eq!(alert["expr"], json!(wanted));
    }
    Ok(())
}

/// A program that renders without a cluster, as Argo CD does, deletes a hook and creates it anew.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_rendered_without_a_cluster_is_a_hook() -> Result<()> {
    let document = json!({"config": {"document": {"networkTopologyDiscovery": []}}});
    let definitions = json!({"crds": {"discoverySource": "always", "hyperNode": "always", "lending": "always"}});
    for values in [json!({}), document, definitions, values::all()] {
        let text = Rendering::new(values.clone()).text().await?;
        assert!(!text.contains("helm.sh/hook"), "{values}: {text}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn dns_the_api_server_and_the_collector_are_reached_by_the_ports_of_the_values() -> Result<()> {
    let egress = async |values: Value, collector: &str| -> Result<Vec<String>> {
        let values = json!({"networkPolicy": values, "traces": {"endpoint": collector}});
        let objects = Rendering::new(values).objects().await?;
        let policy = object(&objects, "NetworkPolicy", chart::NAME)?;
        let rules = policy["spec"]["egress"].as_array().unwrap();
        let port = |port: &Value| format!("{}/{}", port["port"], port["protocol"].as_str().unwrap_or_default());
        let ports = |rule: &Value| rule["ports"].as_array().unwrap().iter().map(port).collect::<Vec<_>>().join(" ");
        Ok(rules.iter().map(|rule| format!("{} to {}", ports(rule), rule["to"])).collect())
    };
    let usual = ["53/UDP 53/TCP to null", "443/TCP 6443/TCP to null"];
    assert_eq!(egress(json!({}), "").await?, usual);
    // Values that an upgrade kept from an older chart.
    assert_eq!(egress(json!({"dnsPorts": null}), "").await?, usual);
    let values = json!({"dnsPorts": [5353], "apiServer": {"ports": [8443], "cidrs": ["10.0.0.1/32"]}});
    let own = ["5353/UDP 5353/TCP to null", r#"8443/TCP to [{"ipBlock":{"cidr":"10.0.0.1/32"}}]"#];
    assert_eq!(egress(values, "").await?, own);
    for (collector, port) in [
        ("http://collector.observability:4318", 4318),
        ("https://[fd00::1]:4318/otlp", 4318),
        ("http://collector", 80),
        ("https://collector.example.com/v1/traces", 443),
    ] {
        let traces = format!("{port}/TCP to null");
        assert_eq!(egress(json!({}), collector).await?, [usual[0], usual[1], &traces], "{collector}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn registries_of_plugins_are_reached_by_their_ports_and_by_none_by_default() -> Result<()> {
    let rule = async |values: Value| -> Result<Option<Value>> {
        let objects = Rendering::new(values).objects().await?;
        let policy = object(&objects, "NetworkPolicy", chart::NAME)?;
        // The first two are for DNS and the API server.
        Ok(policy["spec"]["egress"].as_array().unwrap().get(2).cloned())
    };
    assert_eq!(rule(json!({})).await?, None);
    let registries = json!({"registries": ["a.example", "b.example", "10.0.0.5:5000", "[fd00::1]:8443"]});
    let port = |port: u16| json!({"port": port, "protocol": "TCP"});
    let ports = [443, 5000, 8443].map(port);
    assert_eq!(rule(json!({"plugins": registries})).await?, Some(json!({"ports": ports})));
    let to = json!([{"ipBlock": {"cidr": "10.0.0.0/24"}}]);
    let narrow = json!({"plugins": registries, "networkPolicy": {"registriesTo": to}});
    assert_eq!(rule(narrow).await?, Some(json!({"ports": ports, "to": to})));
    Ok(())
}

/// The verbs of the rules for a resource, of all roles together.
fn verbs(objects: &[Value], resource: &str) -> BTreeSet<String> {
    let of = |rule: &Value| -> Vec<String> {
        let is_it = rule["resources"].as_array().is_some_and(|all| all.iter().any(|it| it == resource));
        let verbs = rule["verbs"].as_array().filter(|_| is_it).into_iter().flatten();
        verbs.filter_map(|verb| verb.as_str().map(str::to_owned)).collect()
    };
    rules(objects).iter().flat_map(|it| of(&it.rule)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_role_has_a_rule_that_the_enabled_controllers_do_not_need() -> Result<()> {
    let writes = ["create", "update", "patch", "delete", "deletecollection", "*"];
    let written = |objects: &[Value], resource: &str| -> Vec<String> {
        verbs(objects, resource).into_iter().filter(|verb| writes.contains(&verb.as_str())).collect()
    };
    let usual = Rendering::new(json!({})).objects().await?;
    assert_eq!(written(&usual, "hypernodes"), ["create", "delete", "patch"]);
    assert_eq!(written(&usual, "nodes"), [""; 0]);
    assert_eq!(verbs(&usual, "secrets"), BTreeSet::new());
    for rule in rules(&usual) {
        let text = rule.rule.to_string();
        assert!(!text.contains("\"*\""), "{rule:?} allows everything");
    }
    let observes = Rendering::new(json!({"observe": true})).objects().await?;
    assert_eq!(written(&observes, "hypernodes"), [""; 0]);
    assert_eq!(written(&observes, "hypernodes/status"), [""; 0]);
    assert_eq!(written(&observes, "discoverysources"), ["create", "patch"]);
    let reads = Rendering::new(json!({"readOnly": true})).objects().await?;
    for rule in rules(&reads) {
        let is_lease = rule.rule["resources"] == json!(["leases"]);
        let text = rule.rule["verbs"].to_string();
        assert!(is_lease || !writes.iter().any(|verb| text.contains(verb)), "{rule:?} is a write");
    }
    let sweeps = Rendering::new(json!({"controllers": ["nodelock-sweeper"]})).objects().await?;
    assert_eq!(verbs(&sweeps, "hypernodes"), BTreeSet::new());
    assert_eq!(verbs(&sweeps, "configmaps"), BTreeSet::new());
    let leases = |objects: &[Value]| {
        let all =
            rules(objects).into_iter().filter(|it| it.kind == "Role" && it.rule["resources"] == json!(["leases"]));
        all.map(|it| it.rule["resourceNames"].clone()).filter(|names| !names.is_null()).collect::<Vec<_>>()
    };
    assert_eq!(leases(&usual), [json!(["topoloom-hypernode", "topoloom-hypernode-nodelock"])]);
    assert_eq!(leases(&sweeps), [json!(["topoloom-hypernode-nodelock"])]);
    let alone = json!({"replicas": 1, "leaderElection": {"enabled": false}});
    assert!(leases(&Rendering::new(alone).objects().await?).is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_and_config_maps_are_granted_by_name_in_their_own_namespace() -> Result<()> {
    let values = json!({
        "config": {"existing": {"namespace": "one", "name": "conf"}},
        "access": {"secrets": [{"name": "ufm"}, {"name": "ufm", "namespace": "two"}], "configMaps": [{"name": "ca"}]},
        "plugins": {
            "watched": [{"name": "acme", "namespace": "two"}],
            "pullSecrets": [{"name": "pull"}, {"name": "pull", "namespace": "three"}],
        },
    });
    let objects = Rendering::new(values).objects().await?;
    let named: BTreeSet<String> = rules(&objects)
        .into_iter()
        .filter(|it| it.kind == "Role" && !it.rule["resourceNames"].is_null())
        .map(|it| {
            format!("{} {} {} {}", it.namespace, it.rule["resources"], it.rule["resourceNames"], it.rule["verbs"])
        })
        .filter(|line| !line.contains("leases"))
        .collect();
    let wanted = [
        r#"one ["configmaps"] ["ca"] ["get","list","watch"]"#,
        r#"one ["configmaps"] ["conf"] ["list","watch","get"]"#,
        r#"one ["secrets"] ["pull"] ["get"]"#,
        r#"one ["secrets"] ["ufm"] ["get","list","watch"]"#,
        r#"three ["secrets"] ["pull"] ["get"]"#,
        r#"two ["configmaps"] ["acme"] ["list","watch"]"#,
        r#"two ["secrets"] ["ufm"] ["get","list","watch"]"#,
    ];
    assert_eq!(named.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
    // A role without a binding allows nothing.
    for role in objects.iter().filter(|object| object["kind"] == "Role") {
        let binding = objects.iter().find(|object| {
            object["kind"] == "RoleBinding" && object["metadata"]["namespace"] == role["metadata"]["namespace"]
        });
        let binding = binding.unwrap_or_else(|| panic!("{role} has no binding"));
        assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
        assert_eq!(binding["subjects"][0]["namespace"], "volcano-system");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn two_installs_share_no_object() -> Result<()> {
    let long = "a-release-whose-name-is-as-long-as-helm-allows-it-abc";
    let mut seen = BTreeSet::new();
    for (release, namespace) in
        [("topoloom", "one"), ("topoloom", "two"), ("other", "one"), (long, "one"), (&long[1..], "one")]
    {
        let rendering = Rendering {
            release: release.trim_matches('-').to_owned(),
            namespace: namespace.to_owned(),
            ..Rendering::new(json!({
                "crds": {"discoverySource": "never", "lending": "never"},
                "syncer": {
                    "enabled": true, "secrets": ["east"],
                    "kubelet": {"enabled": true, "address": "10.96.0.20", "tls": {"secret": "kubelet"}},
                },
            }))
        };
        let objects = rendering.objects().await?;
        for title in titles(&objects) {
            let name = title.rsplit('/').next().unwrap_or_default();
            let limit = if title.starts_with("Service ") { 63 } else { 253 };
            assert!(name.len() <= limit, "{title} is too long");
            assert!(seen.insert(title.clone()), "{title} is made by two installs");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_election_there_is_never_more_than_one() -> Result<()> {
    let strategy = async |values: Value| -> Result<Value> {
        let objects = Rendering::new(values).objects().await?;
        Ok(object(&objects, "Deployment", chart::NAME)?["spec"]["strategy"].clone())
    };
    let alone = json!({"replicas": 1, "leaderElection": {"enabled": false}});
    assert_eq!(strategy(alone).await?, json!({"type": "Recreate"}));
    let elected = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    assert_eq!(strategy(json!({})).await?, elected);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_probes_ask_the_health_server_and_the_grace_period_covers_a_drain() -> Result<()> {
    for (values, address) in
        [(json!({}), ":11251"), (json!({"ports": {"health": 9001}}), ":9001"), (json!({"observe": true}), ":11251")]
    {
        let objects = Rendering::new(values).objects().await?;
        let pod = &object(&objects, "Deployment", chart::NAME)?["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        for (probe, path) in
            [("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")]
        {
            assert_eq!(container[probe]["httpGet"], json!({"path": path, "port": "health"}), "{probe}");
        }
        // The port of that name is where the server listens.
        let ports = container["ports"].as_array().unwrap();
        let port = ports.iter().find(|port| port["name"] == "health").unwrap();
        assert_eq!(format!(":{}", port["containerPort"]), address);
        let args = Container::of(&objects)?.args;
        let flag = format!("--healthz-address={address}");
        assert!(args.contains(&"--enable-healthz".to_owned()) && args.contains(&flag), "{args:?}");
        // A drain of 30 s, and then the stop of the servers (decision M2).
        assert_eq!(pod["terminationGracePeriodSeconds"], 45);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_the_same_as_a_mapping_and_as_text() -> Result<()> {
    let document = json!({"networkTopologyDiscovery": [{"source": "label", "enabled": true}]});
    for value in
        [document.clone(), Value::String("networkTopologyDiscovery:\n- source: label\n  enabled: true\n".into())]
    {
        let objects = Rendering::new(json!({"config": {"document": value}})).objects().await?;
        let map = object(&objects, "ConfigMap", "topoloom-controller-configmap")?;
        let text = map["data"]["volcano-controller.conf"].as_str().unwrap();
        assert_eq!(chart::parse(text)?, std::slice::from_ref(&document));
    }
    Ok(())
}

#[test]
fn the_chart_has_the_version_of_the_workspace() -> Result<()> {
    let file = chart::parse(&std::fs::read_to_string(chart::folder().join("Chart.yaml"))?)?;
    assert_eq!(file[0]["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(file[0]["version"], env!("CARGO_PKG_VERSION"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plain_manifests_are_what_the_chart_renders() -> Result<()> {
    for manifest in Manifest::ALL {
        let stored = std::fs::read_to_string(manifest.file())?;
        let made = manifest.text().await?;
        assert_eq!(stored, made, "{manifest:?}: run `cargo run -p topoloom-tests --bin xtask -- manifest`");
    }
    Ok(())
}

/// A released chart does not change any more: its source renders the same objects as at its release.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_chart_still_renders_what_it_did() -> Result<()> {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("kept/chart-0.1.0");
    let image = json!({"image": {"repository": "topoloom/topoloom"}});
    let rendering =
        Rendering { chart: kept.join("topoloom"), namespace: plain::NAMESPACE.to_owned(), ..Rendering::new(image) };
    let then = chart::parse(&std::fs::read_to_string(kept.join("rendered.yaml"))?)?;
    assert_eq!(rendering.objects().await?, then);
    Ok(())
}
