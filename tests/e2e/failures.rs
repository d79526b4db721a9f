//! Servers that go away, histories that are gone, a host that is killed.

use anyhow::Result;
use topoloom_tests::scene::{RACKS, Scene};

#[tokio::test(flavor = "multi_thread")]
async fn the_host_follows_again_after_the_api_server_was_away_and_its_history_is_gone() -> Result<()> {
    let mut scene = Scene::new().await?;
    scene.nodes(&["a ex.io/rack=x", "b ex.io/rack=y"]).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
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
    let host = topoloom_tests::host::Host::launch(&scene.plane.kubeconfig(), &["--concurrency", "1"]).await?;
    topoloom_tests::controlplane::eventually(
        "some objects are written",
        std::time::Duration::from_secs(60),
        async || match scene.stored().await.map_err(|error| error.to_string())?.len() {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        },
    )
    .await;
    host.kill().await?;
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
async fn without_our_crd_the_host_works_and_says_so() -> Result<()> {
    let scene = Scene::new().await?;
    scene.plane.kubectl(&["delete", "crd", "discoverysources.topoloom.dev"]).await?;
    scene.nodes(&["a ex.io/rack=x"]).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 ex.io/rack=x (1): a"]).await;
    let ready = host.readyz().await?;
    assert!(ready.contains("discoverysources") && ready.contains("topoloom crd"), "{ready}");
    let sources = host.get("/sources").await?;
    assert!(sources.contains("\"state\":\"Serving\""), "{sources}");
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
