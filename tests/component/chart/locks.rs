//! The node lock and the extender: what is served, to which clients, with which rules, and whether the example for
//! kube-scheduler fits to it.

use std::collections::BTreeSet;

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use topoloom::config::lock_resources;
use topoloom_core::nodelock::needs::{AmountRange, Backend};
use topoloom_tests::chart::{self, Rendering, object, plain};

use super::verbs;

fn extender() -> Value {
    json!({"enabled": true, "tls": {"secret": "extender"}})
}

async fn pod(values: &Value) -> Result<Value> {
    let objects = Rendering::new(values.clone()).objects().await?;
    Ok(object(&objects, "Deployment", chart::NAME)?["spec"]["template"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_resources_is_read_as_it_was_meant_and_another_one_starts_new_pods() -> Result<()> {
    let table = |most: i64| {
        json!({"nodeLock": {"resources": [
            {"name": "B", "resource": "ex.io/b", "lock": "none", "maxCount": most},
            {"resource": "ex.io/a", "limitsOnly": true, "ranges": [{"resource": "ex.io/mem", "min": 1, "max": most}]},
        ]}})
    };
    // Helm may write a large number as a fraction with an exponent, which the host does not accept.
    let most = 2_147_483_647;
    let objects = Rendering::new(table(most)).objects().await?;
    let map = object(&objects, "ConfigMap", "topoloom-lock-resources")?;
    let text = map["data"]["resources.yaml"].as_str().context("the table")?;
    let read = lock_resources::parse(text).map_err(|error| anyhow!("{error}"))?;
    assert!(read.problems.is_empty(), "{:?}", read.problems);
    let ranges = vec![AmountRange { resource: "ex.io/mem".into(), least: 1, most }];
    let wanted = [
        Backend { most, key: None, ..Backend::new("B", "ex.io/b") },
        Backend { limits_only: true, limits: ranges, ..Backend::new("ex.io/a", "ex.io/a") },
    ];
    assert_eq!(read.backends, wanted);

    let sum = |pod: &Value| pod["metadata"]["annotations"]["checksum/lock-resources"].clone();
    let (one, two) = (pod(&table(most)).await?, pod(&table(7)).await?);
    assert!(sum(&one).is_string() && sum(&one) != sum(&two), "{} {}", sum(&one), sum(&two));
    assert_eq!(sum(&pod(&json!({})).await?), Value::Null);
    // The file of the flag is where the ConfigMap is mounted.
    let spec = &one["spec"];
    let volumes = spec["volumes"].as_array().context("volumes")?;
    assert!(volumes.contains(&json!({"name": "node-lock", "configMap": {"name": "topoloom-lock-resources"}})));
    let mounts = spec["containers"][0]["volumeMounts"].as_array().context("mounts")?;
    let mount = json!({"name": "node-lock", "mountPath": "/etc/topoloom/node-lock", "readOnly": true});
    assert!(mounts.contains(&mount), "{mounts:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_files_that_the_extender_asks_for_are_taken_from_its_secret() -> Result<()> {
    let files = async |extender: Value| -> Result<Vec<String>> {
        let pod = pod(&json!({"extender": extender})).await?;
        let volumes = pod["spec"]["volumes"].as_array().context("volumes")?;
        let volume = volumes.iter().find(|volume| volume["name"] == "extender");
        let items = volume.map(|volume| volume["secret"]["items"].clone()).unwrap_or_default();
        Ok(items.as_array().into_iter().flatten().filter_map(|item| item["key"].as_str().map(str::to_owned)).collect())
    };
    assert_eq!(files(extender()).await?, ["tls.crt", "tls.key", "ca.crt"]);
    // A pod does not start if its Secret lacks a file that the volume names.
    let anonymous = json!({"enabled": true, "allowAnonymous": true, "tls": {"secret": "extender"}});
    assert_eq!(files(anonymous).await?, ["tls.crt", "tls.key"]);
    assert_eq!(files(json!({"enabled": true, "allowAnonymous": true})).await?, [""; 0]);
    assert_eq!(files(json!({"tls": {"secret": "extender"}})).await?, [""; 0]);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_extender_is_reached_at_its_service_from_where_the_values_say() -> Result<()> {
    let from = json!([{"ipBlock": {"cidr": "192.0.2.10/32"}}]);
    let values = json!({
        "extender": {"enabled": true, "allowAnonymous": true, "port": 9999},
        "networkPolicy": {"extenderFrom": from},
    });
    let objects = Rendering::new(values).objects().await?;
    let service = &object(&objects, "Service", "topoloom-extender")?["spec"];
    let port = json!({"name": "extender", "port": 9999, "targetPort": "extender", "protocol": "TCP"});
    assert_eq!((&service["ports"], &service["clusterIP"]), (&json!([port]), &Value::Null));
    let container = &object(&objects, "Deployment", chart::NAME)?["spec"]["template"]["spec"]["containers"][0];
    let port = json!({"name": "extender", "containerPort": 9999, "protocol": "TCP"});
    assert!(container["ports"].as_array().context("ports")?.contains(&port), "{}", container["ports"]);
    let policy = object(&objects, "NetworkPolicy", chart::NAME)?;
    let ingress = policy["spec"]["ingress"].as_array().context("ingress")?;
    let rule = json!({"ports": [{"port": 9999, "protocol": "TCP"}], "from": from});
    assert!(ingress.contains(&rule), "{ingress:?}");
    // If the values name no peers, every pod may connect to the extender, and only if the extender is enabled.
    for (values, wanted) in [(json!({"extender": extender()}), 1), (json!({}), 0)] {
        let objects = Rendering::new(values).objects().await?;
        let policy = object(&objects, "NetworkPolicy", chart::NAME)?;
        let ingress = policy["spec"]["ingress"].as_array().context("ingress")?;
        let open = json!({"ports": [{"port": 8888, "protocol": "TCP"}]});
        assert_eq!(ingress.iter().filter(|rule| **rule == open).count(), wanted, "{ingress:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_controllers_that_keep_locks_may_write_nodes_and_pods() -> Result<()> {
    let sweeps = |mode: &str| json!({"nodeLock": {"sweep": mode}});
    let with = |under: Value, over: Value| {
        let mut all = under;
        chart::merge(&mut all, over);
        all
    };
    let served = json!({"extender": extender()});
    let rows = [
        (json!({}), false, false),
        (sweeps("report"), false, false),
        (sweeps("repair"), true, false),
        (with(sweeps("repair"), json!({"readOnly": true})), false, false),
        (with(sweeps("repair"), json!({"controllers": ["*", "-nodelock-sweeper"]})), false, false),
        (served.clone(), true, true),
        (with(served.clone(), sweeps("report")), true, true),
        (with(served.clone(), json!({"observe": true})), true, true),
        (with(served.clone(), json!({"readOnly": true})), false, false),
        (with(served, json!({"controllers": ["extender"]})), true, true),
    ];
    for (values, marks, binds) in rows {
        let objects = Rendering::new(values.clone()).objects().await?;
        let all = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(verbs(&objects, "nodes").contains("patch"), marks, "{values}");
        assert_eq!(verbs(&objects, "pods").contains("patch"), marks, "{values}");
        assert_eq!(verbs(&objects, "pods/binding"), if binds { all(&["create"]) } else { all(&[]) }, "{values}");
        for resource in ["nodes", "pods"] {
            let spare = verbs(&objects, resource).difference(&all(&["list", "watch", "get", "patch"])).count();
            assert_eq!(spare, 0, "{values}: {resource}");
        }
    }
    Ok(())
}

/// The example has one extender, which binds, and kube-scheduler sends it the pods of every resource in the built-in
/// table.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_for_kube_scheduler_fits_to_the_chart_and_to_the_built_in_table() -> Result<()> {
    let file = chart::folder().join("../../examples/kube-scheduler-extender.yaml");
    let configuration = chart::parse(&std::fs::read_to_string(file)?)?.remove(0);
    assert_eq!(configuration["apiVersion"], "kubescheduler.config.k8s.io/v1");
    let extenders = configuration["extenders"].as_array().context("extenders")?;
    let [ours] = extenders.as_slice() else { panic!("{extenders:?}") };
    let fields: Vec<&str> = ours.as_object().context("a mapping")?.keys().map(String::as_str).collect();
    let known = [
        "bindVerb",
        "enableHTTPS",
        "filterVerb",
        "httpTimeout",
        "ignorable",
        "managedResources",
        "nodeCacheCapable",
        "tlsConfig",
        "urlPrefix",
        "weight",
    ];
    assert_eq!(fields.iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from(known));
    assert_eq!((&ours["bindVerb"], &ours["filterVerb"]), (&json!("bind"), &json!("filter")));
    assert_eq!((&ours["ignorable"], &ours["nodeCacheCapable"]), (&json!(false), &json!(true)));
    let mut asked = BTreeSet::new();
    for resource in ours["managedResources"].as_array().context("managedResources")? {
        assert_eq!(resource["ignoredByScheduler"], true, "{resource}");
        let name = resource["name"].as_str().context("a name")?.to_owned();
        assert!(asked.insert(name), "{resource} is listed twice: kube-scheduler refuses that");
    }
    let known = Backend::known();
    let counts = known.iter().map(|backend| &backend.resource);
    let amounts = known.iter().flat_map(|backend| &backend.limits).map(|limit| &limit.resource);
    assert_eq!(asked, counts.chain(amounts).map(ToString::to_string).collect::<BTreeSet<_>>());

    let values = json!({"extender": extender()});
    let rendering = Rendering { namespace: plain::NAMESPACE.to_owned(), ..Rendering::new(values) };
    let objects = rendering.objects().await?;
    let service = object(&objects, "Service", "topoloom-extender")?;
    let url = format!("https://topoloom-extender.{}.svc:{}", plain::NAMESPACE, service["spec"]["ports"][0]["port"]);
    assert_eq!(ours["urlPrefix"], json!(url));
    let args = chart::Container::of(&objects)?.args;
    let timeout = format!("--extender-http-timeout={}", ours["httpTimeout"].as_str().context("a duration")?);
    assert!(args.contains(&timeout), "{timeout} is not among {args:?}");
    Ok(())
}
