//! The syncer of the chart: its rights are those of the host's table, no selector or account of the two Deployments means the other,
//! and what it serves and reaches is what the values name.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use topoloom::config::Location;
use topoloom::manager::rights::Extent;
use topoloom::manager::rights::lending::{BindingLeases, Evictions, HostPorts, Streams, VirtualSettings};
use topoloom_api::cluster_binding::PolicySource;
use topoloom_sync::keys;
use topoloom_sync::naming::{self, BindingName, NODE_PREFIX};
use topoloom_tests::chart::rights::{allowed, asked, assert_equal, words};
use topoloom_tests::chart::values::{lends, lends_with};
use topoloom_tests::chart::{
    self, Container, NAME, RELEASE, Rendering, Rule, SYNCER, SYNCER_CLUSTER_NAME, SYNCER_USER, USER, object, rules,
    titles,
};

fn with(mut under: Value, over: Value) -> Value {
    chart::merge(&mut under, over);
    under
}

fn logs() -> Value {
    json!({"kubelet": {"enabled": true, "address": "10.96.0.20", "tls": {"secret": "kubelet"}}})
}

/// The settings of the syncer of an install with these values, as its container gives them to the host.
fn settings(values: &Value, container: &Container) -> Result<VirtualSettings> {
    let flag = |name: &str| container.args.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let own = container.env["KUBE_POD_NAMESPACE"].clone();
    let config = match flag("--config-map") {
        Some(named) => Location::parse(named, &own).map_err(anyhow::Error::msg)?,
        None => Location::from_environment(Some(&own), container.env.get("HELM_RELEASE_NAME").map(String::as_str)),
    };
    // The command line in the pod reads these.
    for (variable, name) in [
        ("TOPOLOOM_SYNCER_EVICTIONS", "--syncer-evictions"),
        ("TOPOLOOM_VIRTUAL_CLUSTER_ID", "--virtual-cluster-id"),
        ("TOPOLOOM_SYNCER_KUBELET_ADDRESS", "--syncer-kubelet-address"),
        ("TOPOLOOM_SYNCER_KUBELET_PORT", "--syncer-kubelet-port"),
    ] {
        assert_eq!(container.env.get(variable).map(String::as_str), flag(name), "{variable}");
    }
    let is_read_only = container.args.iter().any(|word| word == "--read-only");
    Ok(VirtualSettings {
        leases: match flag("--leader-elect-resource-namespace") {
            Some(namespace) => BindingLeases::Elected(namespace.to_owned()),
            None => BindingLeases::Unelected(own.clone()),
        },
        config: (config.namespace, config.name),
        extent: if is_read_only { Extent::LeasesOnly } else { Extent::Everything },
        secrets: words(&values["syncer"]["secrets"]).into_iter().map(|name| (own.clone(), name)).collect(),
        policies: if values["syncer"]["virtualPolicies"] == true {
            PolicySource::Virtual
        } else {
            PolicySource::Physical
        },
        evictions: if flag("--syncer-evictions") == Some("false") { Evictions::Never } else { Evictions::Allowed },
        host_ports: if values["syncer"]["hostPorts"] == true { HostPorts::Mirrored } else { HostPorts::Off },
        streams: if flag("--syncer-kubelet-address").is_some() { Streams::Served } else { Streams::Off },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn s19_what_the_chart_allows_the_syncer_is_what_the_table_of_rights_asks_for() -> Result<()> {
    let existing = json!({"config": {"existing": {"namespace": "theirs", "name": "volcano-controller-configmap"}}});
    let alone = json!({"replicas": 1, "leaderElection": {"enabled": false}});
    let rows = [
        lends(),
        lends_with(json!({"secrets": ["east", "west.example.com"]})),
        lends_with(json!({"evictions": false})),
        lends_with(json!({"virtualPolicies": true, "virtualClusterID": "night"})),
        lends_with(json!({"hostPorts": true})),
        with(lends_with(json!({"hostPorts": true})), json!({"readOnly": true})),
        lends_with(logs()),
        with(lends_with(logs()), json!({"syncer": {"kubelet": {"clientAuthoritiesConfigMap": "clients"}}})),
        with(lends(), existing.clone()),
        with(lends_with(json!({"replicas": 1})), alone),
        with(with(lends_with(logs()), existing), json!({"readOnly": true, "syncer": {"virtualPolicies": true}})),
        // What the first Deployment does is of no account.
        with(
            lends(),
            json!({"observe": true, "controllers": ["hyperNode-controller"], "nodeLock": {"sweep": "repair"}}),
        ),
        with(lends(), json!({"fullnameOverride": "rows.of-racks", "nameOverride": "rows"})),
    ];
    for values in rows {
        for release in [RELEASE, "fabric"] {
            let rendering = Rendering { release: release.to_owned(), ..Rendering::new(values.clone()) };
            let objects = rendering.objects().await?;
            let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
            let mut names = deployments.filter_map(|it| it["metadata"]["name"].as_str());
            let name = names.find(|name| name.ends_with("-syncer")).context("the syncer's Deployment")?;
            let settings = settings(&values, &Container::named(&objects, name)?)?;
            let is_its_own = |rule: &&Rule| rule.role.contains("-syncer.");
            let chart = allowed(rules(&objects).iter().filter(is_its_own));
            assert_equal(&format!("{release}: {values}"), &chart, &asked(settings.rights()));
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_syncer_that_is_off_has_no_object_and_each_of_its_switches_makes_or_leaves_out_its_own() -> Result<()> {
    let all = titles(&Rendering::new(json!({})).objects().await?);
    assert!(all.iter().all(|title| !title.contains("syncer")), "{all:?}");
    let own = |rows: &[String]| rows.iter().filter(|title| title.contains("-syncer")).cloned().collect::<Vec<_>>();
    let rows: [(&str, Value, Value); 10] = [
        ("Deployment volcano-system/topoloom-syncer", lends(), json!({"syncer": {"secrets": ["east"]}})),
        ("PodDisruptionBudget volcano-system/topoloom-syncer", lends(), json!({"syncer": null})),
        (
            "ServiceAccount volcano-system/topoloom-syncer",
            lends(),
            lends_with(json!({"serviceAccount": {"create": false, "name": "theirs"}})),
        ),
        (
            "NetworkPolicy volcano-system/topoloom-syncer",
            lends(),
            with(lends(), json!({"networkPolicy": {"enabled": false}})),
        ),
        (
            "FlowSchema /topoloom-syncer.volcano-system.nodes",
            lends(),
            with(lends(), json!({"flowSchema": {"enabled": false}})),
        ),
        (
            "Service volcano-system/topoloom-syncer-metrics",
            lends(),
            with(lends(), json!({"metrics": {"enabled": false}})),
        ),
        ("Service volcano-system/topoloom-syncer-kubelet", lends_with(logs()), lends()),
        (
            "ServiceMonitor volcano-system/topoloom-syncer",
            with(lends(), json!({"metrics": {"serviceMonitor": {"enabled": true}}})),
            lends(),
        ),
        ("Role kube-system/topoloom-syncer.volcano-system", lends_with(logs()), lends()),
        (
            "Role topoloom-host-ports/topoloom-syncer.volcano-system",
            lends_with(json!({"hostPorts": true})),
            lends_with(json!({"hostPorts": false})),
        ),
    ];
    for (title, on, off) in rows {
        let there = own(&titles(&Rendering::new(on).objects().await?));
        assert!(there.iter().any(|it| it == title), "{title} is not among {there:?}");
        let there = own(&titles(&Rendering::new(off).objects().await?));
        assert!(!there.iter().any(|it| it == title), "{title} is among {there:?}");
    }
    let unguarded = Rendering::new(lends_with(json!({"admission": {"enabled": false}}))).objects().await?;
    let policies = titles(&unguarded).into_iter().filter(|title| title.starts_with("ValidatingAdmissionPolicy"));
    assert_eq!(own(&policies.collect::<Vec<_>>()), [""; 0]);
    Ok(())
}

/// The budget, the network policy and the Services of one Deployment would otherwise mean the pods of the other, too.
#[tokio::test(flavor = "multi_thread")]
async fn s27_no_selector_and_no_account_of_the_two_deployments_means_the_other() -> Result<()> {
    let switches = json!({
        "metrics": {"serviceMonitor": {"enabled": true}},
        "extender": {"enabled": true, "tls": {"secret": "extender"}},
        "podLabels": {"team": "mine"},
    });
    let long = "a-name-of-sixty-three-characters-which-is-the-most-that-fits-he";
    for named in [json!({}), json!({"nameOverride": "loom"}), json!({"nameOverride": long})] {
        let values = with(with(lends_with(logs()), switches.clone()), named);
        let objects = Rendering::new(values).objects().await?;
        let is_of_syncer = |object: &Value| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            name.contains("-syncer")
        };
        let pods = |syncer: bool| -> Result<&Value> {
            let of = |object: &&Value| object["kind"] == "Deployment" && is_of_syncer(object) == syncer;
            let deployment = objects.iter().find(of).context("a Deployment")?;
            Ok(&deployment["spec"]["template"]["metadata"]["labels"])
        };
        let selects = |selector: &Value, labels: &Value| {
            selector.as_object().is_some_and(|all| !all.is_empty() && all.iter().all(|(key, it)| labels[key] == *it))
        };
        let mut seen = 0;
        for object in &objects {
            let place = match object["kind"].as_str().unwrap_or_default() {
                "Deployment" | "PodDisruptionBudget" => "/spec/selector/matchLabels",
                "NetworkPolicy" => "/spec/podSelector/matchLabels",
                "Service" => "/spec/selector",
                _ => continue,
            };
            let selector = object.pointer(place).context("a selector")?;
            let (own, others) = (pods(is_of_syncer(object))?, pods(!is_of_syncer(object))?);
            assert!(selects(selector, own), "{} {selector}", titles(std::slice::from_ref(object))[0]);
            assert!(!selects(selector, others), "{} {selector}", titles(std::slice::from_ref(object))[0]);
            seen += 1;
        }
        // A Deployment, a budget, a policy, metrics and one more Service of each.
        assert_eq!(seen, 10);
        let services = objects.iter().filter(|object| object["kind"] == "Service");
        let metrics = services.filter(|it| it["metadata"]["labels"]["app.kubernetes.io/component"] == "metrics");
        for monitor in objects.iter().filter(|object| object["kind"] == "ServiceMonitor") {
            let selector = &monitor["spec"]["selector"]["matchLabels"];
            let meant = metrics.clone().filter(|service| selects(selector, &service["metadata"]["labels"]));
            let meant: Vec<bool> = meant.map(is_of_syncer).collect();
            assert_eq!(meant, [is_of_syncer(monitor)]);
        }
    }
    let objects = Rendering::new(lends()).objects().await?;
    let account = |name| -> Result<&Value> {
        Ok(&object(&objects, "Deployment", name)?["spec"]["template"]["spec"]["serviceAccountName"])
    };
    assert_eq!((account(NAME)?, account(SYNCER)?), (&json!(NAME), &json!(SYNCER)));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s27_each_policy_is_for_one_account_and_knows_the_names_and_labels_that_the_syncer_gives() -> Result<()> {
    let objects = Rendering::new(lends()).objects().await?;
    let policies: Vec<&Value> = objects.iter().filter(|object| object["kind"] == "ValidatingAdmissionPolicy").collect();
    assert_eq!(policies.len(), 7, "{:?}", titles(&objects));
    for policy in policies {
        let name = policy["metadata"]["name"].as_str().context("a name")?;
        let user = if name.starts_with(SYNCER_CLUSTER_NAME) { SYNCER_USER } else { USER };
        let condition = json!([{
            "name": "our-service-account", "expression": format!("request.userInfo.username == '{user}'"),
        }]);
        assert_eq!(policy["spec"]["matchConditions"], condition, "{name}");
        assert_eq!(policy["spec"]["failurePolicy"], "Fail", "{name}");
    }
    let spec = |kind: &str| -> Result<String> {
        let name = format!("{SYNCER_CLUSTER_NAME}.{kind}");
        Ok(object(&objects, "ValidatingAdmissionPolicy", &name)?["spec"].to_string())
    };
    for kind in ["nodes", "csinodes"] {
        let labels = format!("['{}','{}']", keys::VIRTUAL_CLUSTER, keys::BINDING);
        assert!(spec(kind)?.contains(&labels), "{kind}");
    }
    for kind in ["nodes", "csinodes", "pods", "leases"] {
        assert!(spec(kind)?.contains(&format!("startsWith('{NODE_PREFIX}')")), "{kind}");
    }
    // Pods are made where host ports are mirrored, and nothing but placeholders.
    let mirrors = Rendering::new(lends_with(json!({"hostPorts": true}))).objects().await?;
    let pods =
        object(&mirrors, "ValidatingAdmissionPolicy", &format!("{SYNCER_CLUSTER_NAME}.pods"))?["spec"].to_string();
    for word in [keys::HOST_PORT_NAMESPACE, keys::HOST_PORT_PLACEHOLDER, keys::VIRTUAL_CLUSTER, keys::BINDING] {
        assert!(pods.contains(&format!("'{word}'")), "{word} is not in {pods}");
        assert!(!spec("pods")?.contains(word), "{word}");
    }
    let labels = &object(&mirrors, "Namespace", keys::HOST_PORT_NAMESPACE)?["metadata"]["labels"];
    assert_eq!(labels["pod-security.kubernetes.io/enforce"], "privileged", "its pods hold host ports");
    // The leases of bindings and replicas.
    let args = Container::named(&objects, SYNCER)?.args;
    let base = args.iter().find_map(|word| word.strip_prefix("--leader-elect-resource-name="));
    let base = base.context("the name of the lease")?;
    let leases = [naming::binding_lease(base, &BindingName::parse("east")?)?, naming::member_lease(base, "pod-1")?];
    let prefix = format!("{base}-");
    assert!(spec("leases")?.contains(&format!("startsWith('{prefix}')")));
    assert!(leases.iter().all(|lease| lease.starts_with(&prefix)), "{leases:?}");
    // Without an election the program gives those of bindings a name of its own.
    let alone = json!({"replicas": 1, "leaderElection": {"enabled": false}});
    let objects = Rendering::new(with(lends_with(json!({"replicas": 1})), alone)).objects().await?;
    let policy = object(&objects, "ValidatingAdmissionPolicy", &format!("{SYNCER_CLUSTER_NAME}.leases"))?;
    let (prefix, lease) = ("topoloom-binding-", naming::binding_lease("topoloom", &BindingName::parse("east")?)?);
    assert!(lease.starts_with(prefix) && policy["spec"].to_string().contains(&format!("startsWith('{prefix}')")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s27_heartbeats_have_the_priority_of_kubelets_and_leases_of_bindings_that_of_leaders() -> Result<()> {
    let objects = Rendering::new(with(lends(), json!({"flowSchema": {"priorityLevel": "mine", "precedence": 77}})));
    let objects = objects.objects().await?;
    for (suffix, level, precedence, namespace) in [
        (".nodes", "node-high", 400, "kube-node-lease"),
        (".leases", "leader-election", 200, "volcano-system"),
        ("", "mine", 77, "*"),
    ] {
        let spec = &object(&objects, "FlowSchema", &format!("{SYNCER_CLUSTER_NAME}{suffix}"))?["spec"];
        assert_eq!(spec["priorityLevelConfiguration"]["name"], level, "{suffix}");
        assert_eq!(spec["matchingPrecedence"], precedence, "{suffix}");
        let rule = &spec["rules"][0];
        assert_eq!(rule["subjects"][0]["serviceAccount"], json!({"name": SYNCER, "namespace": "volcano-system"}));
        assert_eq!(rule["resourceRules"][0]["namespaces"], json!([namespace]), "{suffix}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s26_logs_are_served_at_the_address_of_the_values_and_physical_servers_are_reached_at_theirs() -> Result<()> {
    let from = json!([{"ipBlock": {"cidr": "192.0.2.10/32"}}]);
    let values = with(
        lends_with(logs()),
        json!({
            "syncer": {
                "kubelet": {"port": 20250, "clientAuthoritiesConfigMap": "clients"},
                "networkPolicy": {
                    "physicalServers": [{"cidr": "203.0.113.7/32", "ports": [6443, 443]}], "kubeletFrom": from,
                },
            },
            "networkPolicy": {"apiServer": {"cidrs": ["10.96.0.1/32"]}},
        }),
    );
    let objects = Rendering::new(values).objects().await?;
    let service = &object(&objects, "Service", "topoloom-syncer-kubelet")?["spec"];
    let port = json!({"name": "kubelet", "port": 20250, "targetPort": "kubelet", "protocol": "TCP"});
    assert_eq!((&service["ports"], &service["clusterIP"]), (&json!([port]), &json!("10.96.0.20")));
    let spec = &object(&objects, "Deployment", SYNCER)?["spec"]["template"]["spec"];
    let port = json!({"name": "kubelet", "containerPort": 20250, "protocol": "TCP"});
    assert!(spec["containers"][0]["ports"].as_array().context("ports")?.contains(&port));
    // The files of the flags are where the Secret and the ConfigMap are mounted.
    let mounts = spec["containers"][0]["volumeMounts"].as_array().context("mounts")?;
    let args = Container::named(&objects, SYNCER)?.args;
    for (flag, source, key) in [
        ("--syncer-tls-cert-file=", "/secret/secretName", "tls.crt"),
        ("--syncer-tls-private-key-file=", "/secret/secretName", "tls.key"),
        ("--syncer-client-ca-file=", "/configMap/name", "ca.crt"),
    ] {
        let path = args.iter().find_map(|word| word.strip_prefix(flag)).context(flag)?;
        let (folder, file) = path.rsplit_once('/').context("a path")?;
        let mount = mounts.iter().find(|mount| mount["mountPath"] == folder).context("a mount")?;
        let volumes = spec["volumes"].as_array().context("volumes")?;
        let volume = volumes.iter().find(|volume| volume["name"] == mount["name"]).context("a volume")?;
        let name = volume.pointer(source).context("its source")?;
        assert_eq!(*name, if key == "ca.crt" { "clients" } else { "kubelet" });
        assert_eq!((file, &mount["readOnly"]), (key, &json!(true)));
        let items = &volume[if key == "ca.crt" { "configMap" } else { "secret" }]["items"];
        assert!(items.as_array().context("items")?.contains(&json!({"key": key, "path": key})), "{items}");
    }
    let policy = &object(&objects, "NetworkPolicy", SYNCER)?["spec"];
    let ingress = json!({"ports": [{"port": 20250, "protocol": "TCP"}], "from": from});
    assert!(policy["ingress"].as_array().context("ingress")?.contains(&ingress), "{policy}");
    let egress = policy["egress"].as_array().context("egress")?;
    let tcp = |port: u16| json!({"port": port, "protocol": "TCP"});
    let to = |cidr: &str| json!([{"ipBlock": {"cidr": cidr}}]);
    for rule in [
        json!({"ports": [tcp(443), tcp(6443)], "to": to("10.96.0.1/32")}),
        json!({"ports": [tcp(6443), tcp(443)], "to": to("203.0.113.7/32")}),
    ] {
        assert!(egress.contains(&rule), "{rule} is not in {egress:?}");
    }
    // A load balancer has its own way to its address.
    let balanced = with(lends_with(logs()), json!({"syncer": {"kubelet": {"service": {"type": "LoadBalancer"}}}}));
    let objects = Rendering::new(balanced).objects().await?;
    let service = &object(&objects, "Service", "topoloom-syncer-kubelet")?["spec"];
    assert_eq!((&service["type"], &service["clusterIP"]), (&json!("LoadBalancer"), &Value::Null));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_the_syncer_stand_apart_and_never_on_a_virtual_node() -> Result<()> {
    let objects = Rendering::new(lends()).objects().await?;
    let deployment = object(&objects, "Deployment", SYNCER)?;
    let affinity = &deployment["spec"]["template"]["spec"]["affinity"];
    let terms = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let apart = json!([{"matchExpressions": [{"key": keys::VIRTUAL_CLUSTER, "operator": "DoesNotExist"}]}]);
    assert_eq!(*terms, apart);
    let term = &affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"];
    let pods = &deployment["spec"]["selector"];
    assert_eq!((&term["topologyKey"], &term["labelSelector"]), (&json!("kubernetes.io/hostname"), pods));
    let budget = &object(&objects, "PodDisruptionBudget", SYNCER)?["spec"];
    assert_eq!((&budget["maxUnavailable"], &budget["selector"]), (&json!(1), pods));
    let update = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    assert_eq!(deployment["spec"]["strategy"], update);
    let alone = with(
        lends_with(json!({"replicas": 1, "affinity": {"nodeAffinity": {}}})),
        json!({"replicas": 1, "leaderElection": {"enabled": false}}),
    );
    let objects = Rendering::new(alone).objects().await?;
    let deployment = object(&objects, "Deployment", SYNCER)?;
    assert_eq!(deployment["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(deployment["spec"]["template"]["spec"]["affinity"], json!({"nodeAffinity": {}}));
    Ok(())
}
