//! What an operator has at three in the morning: `preflight`, `status`, `read-only` and `debug`, with the rights of the
//! chart.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use topoloom_tests::chart::{self, Installed};
use topoloom_tests::controlplane::{eventually, plain_http};
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE, RACKS, Scene};
use topoloom_tests::schema;

/// Runs a verb as in the container of the install; returns whether it succeeded, and what it printed.
async fn said(installed: &Installed, kubeconfig: &Path, arguments: &[&str]) -> Result<(bool, String)> {
    said_with(&installed.container.env, kubeconfig, arguments).await
}

/// The same on a laptop, where no environment variable names the install.
async fn said_on_a_laptop(kubeconfig: &Path, arguments: &[&str]) -> Result<(bool, String)> {
    said_with(&BTreeMap::new(), kubeconfig, arguments).await
}

async fn said_with(
    environment: &BTreeMap<String, String>,
    kubeconfig: &Path,
    arguments: &[&str],
) -> Result<(bool, String)> {
    let output = tokio::process::Command::new(topoloom_tests::host::binary()?)
        .args(arguments)
        .envs(environment)
        .env("KUBECONFIG", kubeconfig)
        .output()
        .await?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Ok((output.status.success(), text))
}

/// Waits until `preflight` fails, with all these words in one failed check.
async fn fails_with(installed: &Installed, words: &[&str]) {
    eventually(&format!("preflight says {words:?}"), PATIENCE, async || {
        let found = said(installed, &installed.kubeconfig, &["preflight"]).await.map_err(|error| error.to_string())?;
        let failed: Vec<&str> = found.1.split("\n[").filter(|part| part.contains("fail]")).collect();
        let says = failed.iter().any(|part| words.iter().all(|word| part.contains(word)));
        if says && !found.0 { Ok(()) } else { Err(found.1) }
    })
    .await;
}

/// Waits until `preflight` has neither a warning nor a failure.
async fn passes(installed: &Installed) {
    eventually("preflight passes", PATIENCE, async || {
        match said(installed, &installed.kubeconfig, &["preflight"]).await {
            Ok((true, text)) if !text.contains("[warn]") && !text.contains("[fail]") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn preflight_passes_on_a_fresh_install_and_names_whatever_is_missing() -> Result<()> {
    let scene = Scene::new().await?;
    let installed = chart::install(&scene, json!({})).await?;
    fails_with(&installed, &["there is no ConfigMap volcano-system/volcano-controller-configmap"]).await;
    scene.configure(RACKS).await?;
    passes(&installed).await;
    // An account that may check the rights of others gets the same result for the ServiceAccount.
    let admin = scene.plane.kubeconfig();
    let account = format!("{NAMESPACE}/{}", chart::NAME);
    let (passed, text) = said(&installed, &admin, &["preflight", "--service-account", &account]).await?;
    assert!(passed && !text.contains("[warn]"), "{text}");
    let (passed, text) = said(&installed, &admin, &["preflight", "--service-account", "default/stranger"]).await?;
    assert!(!passed && text.contains(r#"resources: ["nodes"], verbs: ["list", "watch"]"#), "{text}");
    // The same as JSON, for programs.
    let checks = ["preflight", "-o", "json", "--service-account", "default/stranger"];
    let (passed, text) = said(&installed, &admin, &checks).await?;
    let checks = schema::checked(&text)?;
    let failed = checks["checks"].as_array().into_iter().flatten().filter(|check| check["mark"] == "fail").count();
    assert!(!passed && failed > 0 && checks["fail"] == json!(failed), "{text}");
    // A lease in a namespace that does not exist: no replica would ever lead.
    let elsewhere = ["preflight", "--leader-elect-resource-namespace", "nowhere"];
    let (passed, text) = said(&installed, &admin, &elsewhere).await?;
    assert!(!passed && text.contains("it cannot be created: ") && text.contains("create the namespace"), "{text}");

    let rules = chart::rules(&installed.objects);
    let status = rules.iter().find(|rule| rule.rule["resources"][0] == "hypernodes/status").context("a rule")?;
    chart::apply(&scene, &[status.removed_from(&installed.objects)?]).await?;
    let rule =
        r#"ClusterRole: {apiGroups: ["topology.volcano.sh"], resources: ["hypernodes/status"], verbs: ["patch"]}"#;
    fails_with(&installed, &["missing for hyperNode-controller", rule]).await;
    let installed = chart::install(&scene, json!({})).await?;
    passes(&installed).await;

    // A Secret that an entry names and no rule allows, and a mistake in another entry.
    let more = "- source: ufm\n  enabled: true\n  credentials: {secretRef: {name: ufm-token}}\n  config: {endpoint: 'https://ufm.example.com'}\n- source: roce\n  enabled: true\n  interval: 7\n";
    scene.configure(&format!("{RACKS}{more}")).await?;
    let rule = r#"Role in namespace volcano-system: {apiGroups: [""], resources: ["secrets"], resourceNames: ["ufm-token"], verbs: ["get"]}"#;
    fails_with(&installed, &["right get on secrets ufm-token", rule]).await;
    let line = format!("line {}: networkTopologyDiscovery[2].interval", RACKS.lines().count() + 7);
    fails_with(&installed, &["entry", &line]).await;
    scene.configure(RACKS).await?;

    chart::apply(&scene, &[volcanos_lease("vc-hypernode-controller-manager")]).await?;
    let leads = "volcano-1 holds the lease volcano-system/vc-hypernode-controller-manager";
    fails_with(&installed, &["second writer", leads]).await;
    // A trial does not write HyperNodes, and preflight does not ask for the right to write them.
    let trial = chart::install(&scene, json!({"observe": true})).await?;
    eventually("preflight of a trial passes", PATIENCE, async || {
        let found = said(&trial, &trial.kubeconfig, &["preflight"]).await.map_err(|error| error.to_string())?;
        let warns = found.1.split("\n[").any(|part| part.contains("warn] second writer") && part.contains(leads));
        if found.0 && warns { Ok(()) } else { Err(found.1) }
    })
    .await;
    scene.plane.kubectl(&["delete", "lease", "vc-hypernode-controller-manager", "-n", NAMESPACE]).await?;
    for values in [
        json!({"observe": true}),
        json!({"readOnly": true}),
        json!({"replicas": 1, "leaderElection": {"enabled": false}}),
        json!({"controllers": ["hyperNode-controller"]}),
        json!({}),
    ] {
        passes(&chart::install(&scene, values).await?).await;
    }

    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "gone"},
        "webhooks": [{
            "name": "gone.example.com", "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 2,
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"apiGroups": ["topology.volcano.sh"], "apiVersions": ["v1alpha1"], "operations": ["CREATE"], "resources": ["hypernodes"]}],
        }],
    });
    chart::apply(&scene, &[hook]).await?;
    fails_with(&installed, &["admission of HyperNodes: WebhookUnreachable", "gone.example.com"]).await;
    // `preflight` warns an operator who only observes so far, too, before the webhook blocks writes.
    let (passed, text) = said(&installed, &admin, &["preflight", "--observe"]).await?;
    let seen = "[warn] admission of HyperNodes: WebhookUnreachable";
    assert!(passed && text.contains(seen) && text.contains("before HyperNodes are written here"), "{text}");
    scene.plane.kubectl(&["delete", "validatingwebhookconfiguration", "gone"]).await?;

    scene.plane.kubectl(&["delete", "crd", "hypernodes.topology.volcano.sh"]).await?;
    fails_with(&installed, &["definition of HyperNodes", "topoloom crd | kubectl apply --server-side -f -"]).await;
    scene.plane.stop().await
}

/// The lease of Volcano's own controller, renewed just now and valid for an hour.
fn volcanos_lease(name: &str) -> Value {
    let now = jiff::Timestamp::now();
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"holderIdentity": "volcano-1", "leaseDurationSeconds": 3600, "renewTime": format!("{now:.6}")},
    })
}

/// The namespace of an install that is not in Volcano's.
const APART: &str = "topoloom-system";

#[tokio::test(flavor = "multi_thread")]
async fn beside_volcano_its_lease_is_seen_in_its_namespace_and_its_config_map_is_not_taken_for_ours() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a ex.io/rack=x ex.io/spine=s"]).await?;
    let admin = scene.plane.kubeconfig();
    // Before the first install the command line guesses nothing, and names the command to type.
    for verb in ["tree", "status"] {
        let (good, text) = said_on_a_laptop(&admin, &[verb]).await?;
        assert!(!good && text.contains("there is no installation"), "{text}");
    }
    let (good, text) = said_on_a_laptop(&admin, &["preflight"]).await?;
    let make = "kubectl create configmap volcano-controller-configmap --namespace volcano-system --from-file=volcano-controller.conf=FILE";
    assert!(!good && text.contains(make), "{text}");
    // Without flags the command line reads Volcano's ConfigMap, and a document that enables nothing is a failure.
    scene.configure("networkTopologyDiscovery: []\n").await?;
    let (good, text) = said_on_a_laptop(&admin, &["plan", "--exit-code"]).await?;
    let volcanos = "looking at the configuration volcano-system/volcano-controller-configmap";
    assert!(!good && text.contains(volcanos) && text.contains("no entry of the configuration is enabled"), "{text}");
    let name = "volcano-hypernode-controller-manager";
    chart::apply(&scene, &[volcanos_lease(name)]).await?;
    let installed = chart::install_in(&scene, APART, json!({"config": {"document": RACKS}})).await?;
    let flags = installed.container.flags_below(scene.plane.folder())?;
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let environment: Vec<(&str, &str)> =
        installed.container.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let host = Host::launch_with("host", &installed.kubeconfig, &flags, &environment).await?;
    let message = scene.until_condition("label", "SecondWriter", "True", "ForeignWriter").await;
    assert!(message.contains(&format!("volcano-1 holds the lease {NAMESPACE}/{name}")), "{message}");
    fails_with(&installed, &["second writer", &format!("volcano-1 holds the lease {NAMESPACE}/{name}")]).await;
    let (good, text) = said(&installed, &installed.kubeconfig, &["status"]).await?;
    assert!(good && text.contains(&format!("SECOND WRITER: volcano-1 holds {NAMESPACE}/{name}")), "{text}");
    assert_eq!(scene.topology().await?, [""; 0]);
    scene.plane.kubectl(&["delete", "lease", name, "-n", NAMESPACE]).await?;
    scene.until(&["tier 2 ex.io/spine=s (1): ex.io/rack=x", "tier 1 ex.io/rack=x (1): a"]).await;

    // Without flags the command line finds our install, and does not touch Volcano's ConfigMap, which has the default
    // name.
    let annotations = async |namespace: &str, name: &str| {
        scene
            .plane
            .kubectl(&["get", "configmap", name, "-n", namespace, "-o", "jsonpath={.metadata.annotations}"])
            .await
    };
    let found = "configuration topoloom-system/topoloom-controller-configmap";
    let (good, text) = said_on_a_laptop(&admin, &["plan", "--exit-code"]).await?;
    assert!(good && text.contains(found) && text.contains("nothing to write"), "{text}");
    for position in ["on", "off"] {
        let (good, text) = said_on_a_laptop(&admin, &["read-only", position]).await?;
        assert!(good && text.contains(found), "{text}");
        let is_on = annotations(APART, "topoloom-controller-configmap").await?.contains("read-only");
        assert_eq!(is_on, position == "on");
    }
    let theirs = (NAMESPACE, "volcano-controller-configmap");
    let volcanos = ["--namespace", NAMESPACE];
    let (good, text) = said_on_a_laptop(&admin, &[&["read-only", "on"], &volcanos[..]].concat()).await?;
    let says = text.contains("there is no lease volcano-system/topoloom-hypernode") && text.contains("--namespace");
    assert!(!good && says, "{text}");
    assert!(!annotations(theirs.0, theirs.1).await?.contains("read-only"));
    let forced = [&["read-only", "on", "--force"], &volcanos[..]].concat();
    let (good, text) = said_on_a_laptop(&admin, &forced).await?;
    assert!(good && annotations(theirs.0, theirs.1).await?.contains("read-only"), "{text}");
    // If there are two installs, the command line takes none.
    let second = chart::install(&scene, json!({})).await?;
    let (name, deployment) = ("second", second.objects.iter().find(|object| object["kind"] == "Deployment"));
    let mut deployment = deployment.context("a Deployment")?.clone();
    deployment["metadata"]["name"] = json!(name);
    chart::apply(&scene, &[deployment]).await?;
    let (good, text) = said_on_a_laptop(&admin, &["status"]).await?;
    let both = ["there are several installations", "--namespace topoloom-system", "Deployment volcano-system/second"];
    assert!(!good && both.iter().all(|words| text.contains(words)), "{text}");
    scene.plane.kubectl(&["delete", "deployment", name, "-n", NAMESPACE]).await?;
    let ours = ["--namespace", APART, "--release", "topoloom"];
    let (good, text) = said_on_a_laptop(&admin, &[&["read-only", "on"], &ours[..]].concat()).await?;
    assert!(good && text.contains("writes stop"), "{text}");
    assert!(annotations(APART, "topoloom-controller-configmap").await?.contains("read-only"));
    eventually("writes end", PATIENCE, async || {
        let metrics = host.get("/metrics").await.map_err(|error| error.to_string())?;
        if metrics.contains("topoloom_read_only{reason=\"annotation\"} 1\n") { Ok(()) } else { Err(metrics) }
    })
    .await;
    host.stop().await
}

/// A pod as the chart's Deployment would make it for that replica, if the chart has another name.
fn pod(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/name": "fabric"}},
        "spec": {
            "serviceAccountName": chart::NAME,
            "containers": [{"name": "topoloom", "image": format!("topoloom/topoloom:{version}")}],
        },
    })
}

async fn dump(installed: &Installed, host: &Host) -> Result<Value> {
    let (good, text) = said(installed, &installed.kubeconfig, &["debug", "dump", "--admin", host.admin()]).await?;
    anyhow::ensure!(good, "{text}");
    Ok(serde_json::from_str(&text)?)
}

/// The number of writes to the resources that the host writes.
async fn writes(scene: &Scene) -> Result<u64> {
    let ours = ["hypernodes", "discoverysources", "events", "configmaps"];
    Ok(scene.plane.requests().await?.count(|request| request.is_write() && ours.contains(&request.resource.as_str())))
}

#[tokio::test(flavor = "multi_thread")]
async fn status_and_debug_tell_what_is_and_read_only_ends_every_write() -> Result<()> {
    let scene = Scene::new().await?;
    let installed = chart::install(&scene, json!({})).await?;
    let admin = scene.plane.kubeconfig();
    scene.nodes(&["a ex.io/rack=x", "b ex.io/rack=x", "c ex.io/rack=y", "d ex.io/rack=y"]).await?;
    // More Nodes than may lose their place without a confirmation.
    scene
        .nodes(
            &["d1", "d2", "d3", "d4", "d5", "d6", "d7"]
                .map(|node| format!("{node} ex.io/rack=y"))
                .each_ref()
                .map(|line| &**line),
        )
        .await?;
    scene.configure(RACKS).await?;
    chart::apply(&scene, &[pod("replica-a", "1.0.0"), pod("replica-b", "1.0.1")]).await?;
    let leader = Host::launch_as("replica-a", &installed.kubeconfig, &["--profiling"]).await?;
    let tree = ["tier 1 ex.io/rack=x (2): a b", "tier 1 ex.io/rack=y (9): c d d1 d2 d3 d4 d5 d6 d7"];
    scene.until(&tree).await;
    let follower = Host::launch_as("replica-b", &installed.kubeconfig, &[]).await?;
    eventually("the other one follows", PATIENCE, async || {
        let ready = follower.readyz().await.map_err(|error| error.to_string())?;
        if ready.contains("follows replica-a_") { Ok(()) } else { Err(ready) }
    })
    .await;

    // An account that may list pods gets everything; the account of the host gets the rest.
    let (good, text) = said(&installed, &admin, &["status", "-o", "json"]).await?;
    assert!(good, "{text}");
    let status = schema::checked(&text)?;
    let roles: Vec<_> = ["/replicas/0", "/replicas/1"].iter().filter_map(|at| status.pointer(at)).collect();
    let roles: Vec<_> = roles.iter().map(|it| (it["name"].as_str(), it["leads"].clone())).collect();
    assert_eq!(roles, [(Some("replica-a"), json!(["hypernode"])), (Some("replica-b"), json!([]))], "{text}");
    assert!(text.contains("replicas run different versions"), "{text}");
    let lease = &status["leases"][0];
    assert_eq!((&lease["standing"], &lease["transitions"]), (&json!("fresh"), &json!(0)), "{text}");
    assert_eq!(status["sources"][0]["state"], "Serving", "{text}");
    let selector = ["status", "-o", "json", "--selector", "app.kubernetes.io/name=topoloom"];
    let (_, text) = said(&installed, &admin, &selector).await?;
    let status = schema::checked(&text)?;
    assert_eq!((&status["replicas"][0]["pod"], &status["replicas"][1]), (&Value::Null, &Value::Null), "{text}");
    let metrics = leader.get("/metrics").await?;
    for series in [
        "topoloom_configuration{state=\"valid\"} 1",
        "topoloom_read_only{reason=\"unread\"} 0",
        "topoloom_source_state{source=\"label\",state=\"Serving\"} 1",
        "topoloom_last_success_timestamp_seconds{source=\"label\"} ",
    ] {
        assert!(metrics.lines().any(|line| line.starts_with(series)), "{series}\n{metrics}");
    }
    // The source only watches for changes, so it has no interval.
    assert!(!metrics.contains("topoloom_source_interval_seconds{"), "{metrics}");
    let (good, text) = said(&installed, &installed.kubeconfig, &["status", "--admin", follower.admin()]).await?;
    assert!(good && text.contains("pods could not be listed"), "{text}");
    assert!(text.contains("leads hypernode") && text.contains("[+] election hypernode: follows replica-a_"), "{text}");

    // `status` shows a held result with the command that confirms it.
    scene.configure(&RACKS.replace("ex.io/rack", "ex.io/nothing")).await?;
    scene.until_state("label", "Held").await;
    let (_, text) = said(&installed, &installed.kubeconfig, &["status"]).await?;
    assert!(text.contains("label: a result is held since") && text.contains("topoloom confirm label"), "{text}");
    scene.configure(RACKS).await?;
    scene.until_state("label", "Serving").await;

    // A host whose writes are off still decides, and writes only its lease.
    let (good, text) = said(&installed, &admin, &["read-only", "on"]).await?;
    assert!(good && text.contains("writes stop"), "{text}");
    for host in [&leader, &follower] {
        eventually("the host knows", PATIENCE, async || {
            let dump = dump(&installed, host).await.map_err(|error| error.to_string())?;
            if dump["state"]["process"]["readOnly"] == true {
                Ok(())
            } else {
                Err(dump["state"]["process"].to_string())
            }
        })
        .await;
    }
    let (_, text) = said(&installed, &installed.kubeconfig, &["status"]).await?;
    assert!(text.contains("WRITES ARE OFF"), "{text}");
    let (_, text) = said(&installed, &installed.kubeconfig, &["preflight"]).await?;
    assert!(text.contains("[warn] writes: topoloom.dev/read-only"), "{text}");
    let (before, leases) = (writes(&scene).await?, scene.plane.requests().await?.writes("leases", ""));
    scene.plane.relabel("d", "ex.io/rack", "x").await?;
    eventually("it was decided and not written", PATIENCE, async || {
        let dump = dump(&installed, &leader).await.map_err(|error| error.to_string())?;
        let decisions = dump["state"]["decisions"]["label"].as_array().cloned().unwrap_or_default();
        let last = decisions.last().cloned().unwrap_or_default();
        let waits = last["planned"]["updates"] == 2 && last["fate"] == "not written: it is only observed";
        if waits { Ok(()) } else { Err(format!("{decisions:#?}")) }
    })
    .await;
    eventually("leases are renewed", PATIENCE, async || {
        let now = scene.plane.requests().await.map_err(|error| error.to_string())?.writes("leases", "");
        if now >= leases + 5 { Ok(()) } else { Err(format!("{leases}, {now}")) }
    })
    .await;
    assert_eq!(writes(&scene).await?, before);
    assert_eq!(scene.topology().await?, tree);
    said(&installed, &admin, &["read-only", "off"]).await?;
    scene.until(&["tier 1 ex.io/rack=x (3): a b d", "tier 1 ex.io/rack=y (8): c d1 d2 d3 d4 d5 d6 d7"]).await;

    // The dump goes into a file that only its owner can read; then the log level is raised.
    let file = scene.plane.folder().join("dump.json");
    let path = file.to_string_lossy();
    said(&installed, &installed.kubeconfig, &["debug", "dump", "--admin", leader.admin(), "-o", &path]).await?;
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file)?.permissions());
    let dump: Value = serde_json::from_str(&std::fs::read_to_string(&file)?)?;
    let state = &dump["state"];
    let election = &state["process"]["elections"]["hypernode"];
    let history: Vec<_> = election["history"].as_array().into_iter().flatten().map(|it| it["what"].clone()).collect();
    assert_eq!((mode & 0o777, history.last()), (0o600, Some(&json!("leads"))), "{election}");
    assert!(state["queues"]["reports"]["adds"].as_u64() > Some(0), "{}", state["queues"]);
    assert_eq!(state["watched"]["hyperNodes"]["ofSources"]["label"], 2, "{}", state["watched"]);
    assert_eq!((&dump["readyz"]["status"], &state["watched"]["nodes"]), (&json!(200), &json!(11)));
    let filter = "warn,topoloom::topology=trace";
    let (_, text) = said(&installed, &admin, &["debug", "log", "--admin", leader.admin(), filter]).await?;
    assert_eq!(text.trim(), filter);
    assert_eq!(leader.get("/debug/log").await?.trim(), filter);
    said(&installed, &admin, &["debug", "log", "--admin", leader.admin(), "info"]).await?;

    // A host gives a profile only if it was started with `--profiling`.
    let (good, text) = said(&installed, &admin, &["debug", "profile", "--admin", follower.admin()]).await?;
    assert!(!good && text.contains("--profiling"), "{text}");
    let profile = ["debug", "profile", "--seconds", "1", "--admin", leader.admin()];
    eventually("the profile has a stack of ours", PATIENCE, async || {
        // An idle host uses no time that a profile could show.
        let moving = async {
            loop {
                for rack in ["y", "x"] {
                    scene.plane.relabel("d", "ex.io/rack", rack).await?;
                }
            }
        };
        let taken = tokio::select! {
            taken = said(&installed, &admin, &profile) => taken,
            moved = moving => moved,
        };
        let (good, text) = taken.map_err(|error| error.to_string())?;
        let counted = text.lines().all(|line| line.rsplit_once(' ').is_some_and(|(_, it)| it.parse::<u32>().is_ok()));
        if good && counted && text.contains("topoloom::") { Ok(()) } else { Err(text) }
    })
    .await;

    // A web page whose own host name resolves to this machine gets no data.
    let stranger = plain_http().build()?.get(format!("http://{}/debug/dump", leader.admin()));
    let answer = stranger.header("Host", "rebound.example").send().await?;
    assert_eq!(answer.status(), 421);
    follower.stop().await?;
    leader.stop().await
}
