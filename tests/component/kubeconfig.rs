//! A kubeconfig that leads to no API server.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_is_missing_wrong_or_points_nowhere_is_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let run = async |arguments: &[&str], kubeconfig: &Path| -> Result<(Option<i32>, String)> {
        let output = tokio::process::Command::new(topoloom_tests::host::binary()?)
            .args(arguments)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .output()
            .await?;
        Ok((output.status.code(), String::from_utf8(output.stderr)?))
    };
    let missing = folder.path().join("missing");
    for verb in [&["run"][..], &["tree"], &["plan"], &["explain", "n1"], &["confirm", "label"], &["source", "list"]] {
        let (code, said) = run(verb, &missing).await?;
        assert_eq!(code, Some(1), "{verb:?}: {said}");
        assert!(said.contains("missing") && said.contains("no such file"), "{verb:?}: {said}");
    }
    let wrong = folder.path().join("wrong");
    std::fs::write(&wrong, "- no\n- kubeconfig\n")?;
    let (code, said) = run(&["run"], &wrong).await?;
    assert!(code == Some(1) && said.contains("wrong"), "{code:?}: {said}");
    // No server listens at this address: a command fails and names it; the host waits and reports it.
    let nowhere = folder.path().join("nowhere");
    let server = "http://127.0.0.1:1";
    std::fs::write(
        &nowhere,
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "c", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        })
        .to_string(),
    )?;
    let (code, said) = run(&["tree"], &nowhere).await?;
    assert!(code == Some(1) && said.contains(server), "{code:?}: {said}");
    let host = Host::launch(&nowhere, &[]).await?;
    eventually("/readyz says that no server answers", PATIENCE, async || match host.readyz().await {
        Err(error) if error.to_string().contains("did not answer") && error.to_string().contains(server) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    assert!(host.get("/healthz").await.is_ok(), "a host that waits must stay alive");
    host.stop().await
}
