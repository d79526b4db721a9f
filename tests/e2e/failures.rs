//! An API server that stops, an etcd history that is gone, a host that is killed.

use anyhow::Result;
use topoloom_tests::scene::{RACKS, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn the_host_follows_again_after_the_api_server_was_away_and_its_history_is_gone() -> Result<()> {
    let mut scene = Scene::new().await?;
    scene.nodes(&["a ex.io/rack=x", "b ex.io/rack=y"]).await?;
    scene.configure(RACKS).await?;
    // Without leader election: a leader would end when it cannot renew its lease.
    let host = scene.host_with(&["--leader-elect=false"]).await?;
    scene.until(&["tier 1 ex.io/rack=x (1): a", "tier 1 ex.io/rack=y (1): b"]).await;
    scene.plane.stop_apiserver().await?;
    scene.plane.start_apiserver().await?;
    scene.plane.relabel("b", "ex.io/rack", "x").await?;
    scene.until(&["tier 1 ex.io/rack=x (2): a b"]).await;
    assert!(host.readyz().await.is_ok(), "the host stays ready");

    scene.plane.stop_apiserver().await?;
    scene.plane.compact().await?;
    scene.plane.start_apiserver().await?;
    scene.plane.relabel("a", "ex.io/rack", "z").await?;
    scene.until(&["tier 1 ex.io/rack=x (1): b", "tier 1 ex.io/rack=z (1): a"]).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_killed_in_the_middle_of_its_writes_finishes_them_after_a_restart() -> Result<()> {
    let scene = Scene::new().await?;
    let nodes: Vec<String> =
        (0..300).map(|i| format!("n{i:03} ex.io/rack=r{:02} ex.io/spine=s{}", i / 6, i / 60)).collect();
    scene.nodes(&nodes.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    scene.configure(RACKS).await?;
    let host = topoloom_tests::host::Host::launch(&scene.host_kubeconfig().await?, &["--concurrency", "1"]).await?;
    topoloom_tests::controlplane::eventually(
        "some objects are written",
        std::time::Duration::from_secs(60),
        async || match scene.stored().await.map_err(|error| error.to_string())?.len() {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        },
    )
    .await;
    scene.kill(host).await?;
    let half = scene.stored().await?.len();
    assert!(half < 55, "the kill came too late to prove anything: {half}");
    let host = scene.host().await?;
    topoloom_tests::controlplane::eventually(
        "all objects are written",
        std::time::Duration::from_secs(60),
        async || {
            let stored = scene.stored().await.map_err(|error| error.to_string())?;
            let counted = stored
                .values()
                .filter(|object| object.status.as_ref().is_some_and(|status| status.node_count.is_some()))
                .count();
            if counted == 55 { Ok(()) } else { Err(format!("{} stored, {counted} counted", stored.len())) }
        },
    )
    .await;
    let tree = scene.topology().await?;
    assert_eq!(tree.iter().filter(|line| line.starts_with("tier 2") && line.contains("(60)")).count(), 5, "{tree:#?}");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_our_crd_the_host_works_and_says_so_and_the_words_of_the_operator_stand_in_the_entry() -> Result<()> {
    let scene = Scene::new().await?;
    scene.plane.kubectl(&["delete", "crd", "discoverysources.topoloom.dev"]).await?;
    scene.nodes(&["a ex.io/rack=x", "b ex.io/rack=y"]).await?;
    // More Nodes than may lose their place without a confirmation.
    let many: Vec<String> = (0..9).map(|n| format!("b{n} ex.io/rack=y")).collect();
    scene.nodes(&many.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let saying = |verb: &str| RACKS.replace("  enabled: true\n", &format!("  enabled: true\n  {verb}\n"));
    scene.configure(&saying("pause: true")).await?;
    let host = scene.host().await?;
    let until = async |words: &str| {
        topoloom_tests::controlplane::eventually(words, std::time::Duration::from_secs(30), async || {
            let said = host.get("/sources").await.map_err(|error| error.to_string())?;
            if said.contains(words) { Ok(said) } else { Err(said) }
        })
        .await
    };
    until("\"state\":\"Paused\"").await;
    scene.until(&[]).await;
    scene.configure(RACKS).await?;
    scene.until(&["tier 1 ex.io/rack=x (1): a", "tier 1 ex.io/rack=y (10): b b0 b1 b2 b3 b4 b5 b6 b7 b8"]).await;
    until("\"state\":\"Serving\"").await;
    let ready = host.readyz().await?;
    assert!(ready.contains("discoverysources") && ready.contains("topoloom crd"), "{ready}");
    // Here, too, the operator confirms a held result by its hash.
    let empty = |verb: &str| saying(verb).replace("ex.io/rack", "ex.io/none").replace("ex.io/spine", "ex.io/no");
    scene.configure(&empty("run: '1'")).await?;
    let said = until("\"state\":\"Held\"").await;
    let (_, held) = said.split_once("\"held\":").unwrap();
    let (_, hash) = held.split_once("\"hash\":\"").unwrap();
    let (hash, _) = hash.split_once('"').unwrap();
    scene.configure(&empty("confirm: 000000000000")).await?;
    until("\"state\":\"Held\"").await;
    assert_eq!(scene.topology().await?.len(), 2, "another hash confirms nothing");
    scene.configure(&empty(&format!("confirm: '{hash}'"))).await?;
    scene.until(&[]).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_hyper_node_crd_the_host_waits_and_says_what_to_install() -> Result<()> {
    let scene = Scene::new().await?;
    scene.plane.kubectl(&["delete", "crd", "hypernodes.topology.volcano.sh"]).await?;
    scene.nodes(&["a ex.io/rack=x"]).await?;
    scene.configure(RACKS).await?;
    let host = topoloom_tests::host::Host::launch(&scene.host_kubeconfig().await?, &[]).await?;
    let patience = std::time::Duration::from_secs(60);
    // The host leads and is ready, so that a rolling update of two replicas continues. Its controller waits for the
    // definition, which only an operator can install.
    let waits = "[-] controller hyperNode-controller waiting: ";
    let ready =
        topoloom_tests::controlplane::eventually("the host waits", patience, async || match host.readyz().await {
            Ok(ready) if ready.contains(waits) && ready.contains("election hypernode: leads") => Ok(ready),
            other => Err(format!("{other:?}")),
        })
        .await;
    assert!(ready.contains("topoloom crd | kubectl apply"), "{ready}");
    let stands =
        |state: &str| format!("topoloom_controllers{{controller=\"hyperNode-controller\",state=\"{state}\"}} 1\n");
    let metrics = host.get("/metrics").await?;
    assert!(metrics.contains(&stands("waiting")), "{metrics}");
    // The command in the message installs the definition.
    let file = scene.plane.folder().join("crds.yaml");
    let crds = tokio::process::Command::new(topoloom_tests::host::binary()?).arg("crd").output().await?;
    std::fs::write(&file, crds.stdout)?;
    scene.plane.kubectl(&["apply", "--server-side", "-f", &file.to_string_lossy()]).await?;
    topoloom_tests::controlplane::eventually("the CRD is used", patience, async || {
        let topology = scene.topology().await.map_err(|error| error.to_string())?;
        if topology == ["tier 1 ex.io/rack=x (1): a"] { Ok(()) } else { Err(format!("{topology:?}")) }
    })
    .await;
    let (ready, metrics) = (host.readyz().await?, host.get("/metrics").await?);
    assert!(ready.contains("[+] controller hyperNode-controller runs"), "{ready}");
    assert!(metrics.contains(&stands("running")) && !metrics.contains(&stands("waiting")), "{metrics}");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_admission_webhook_is_named_and_nothing_half_done_stays_silent() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a ex.io/rack=x"]).await?;
    scene.configure(RACKS).await?;
    let hook = serde_json::json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "gone"},
        "webhooks": [{
            "name": "validatehypernodes.volcano.sh", "failurePolicy": "Fail", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
            "clientConfig": {"url": "https://127.0.0.1:1/hypernodes/validate"},
            "rules": [{"apiGroups": ["topology.volcano.sh"], "apiVersions": ["v1alpha1"], "operations": ["CREATE", "UPDATE"], "resources": ["hypernodes"]}],
        }],
    });
    let file = scene.plane.folder().join("hook.json");
    std::fs::write(&file, hook.to_string())?;
    scene.plane.kubectl(&["create", "-f", &file.to_string_lossy()]).await?;
    let host = scene.host().await?;
    let message = scene.until_condition("label", "Applied", "False", "WriteFailed").await;
    assert!(message.contains("WebhookUnreachable") && message.contains("validatehypernodes.volcano.sh"), "{message}");
    scene.plane.kubectl(&["delete", "validatingwebhookconfiguration", "gone"]).await?;
    scene.until(&["tier 1 ex.io/rack=x (1): a"]).await;
    scene.until_condition("label", "Applied", "True", "Ok").await;
    host.stop().await
}
