//! Secrets: the host reads them by name, with the narrowest rule, and again when they change.

use anyhow::Result;
use serde_json::json;
use topoloom_simulator::Credentials;
use topoloom_tests::chart;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE};

use super::rig::{Rig, TOKEN, WHOLE, document, entry};

const NEXT: &str = "canary-token-next-77f0";

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_rotates_without_a_restart() -> Result<()> {
    let rig = Rig::new().await?;
    let ufm = rig.ufm().await?;
    rig.scene.configure(&document(&[entry("ufm", &[&ufm], "")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&WHOLE).await;
    // The fabric manager accepts only another token: rounds fail, and the topology stays.
    ufm.set_credentials(Credentials::none().token(NEXT));
    rig.run("ufm").await?;
    let message = rig.scene.until_condition("ufm", "Discovered", "False", "Unauthorized").await;
    assert!(message.contains("at once when the Secret changes"), "{message}");
    rig.until(&WHOLE).await;
    // No one requests a round: the new Secret starts it.
    rig.secret("ufm", &[("token", NEXT)]).await?;
    rig.scene.until_condition("ufm", "Discovered", "True", "Ok").await;
    // Other keys of the same Secret: user and password in place of the token.
    ufm.set_credentials(Credentials::none().user("admin", "canary-password-31"));
    rig.scene.plane.kubectl(&["delete", "secret", "ufm", "-n", NAMESPACE]).await?;
    let message = rig.scene.until_condition("ufm", "Discovered", "False", "CredentialsMissing").await;
    assert!(message.contains(&format!("the Secret {NAMESPACE}/ufm does not exist")), "{message}");
    rig.secret("ufm", &[("username", "admin"), ("password", "canary-password-31")]).await?;
    rig.scene.until_condition("ufm", "Discovered", "True", "Ok").await;
    let log = host.log().join("\n");
    assert!(!log.contains("canary") && !log.contains("YWRtaW46Y2FuYXJ5"), "a secret stands in the log");
    host.stop().await?;
    ufm.stop().await;
    rig.scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_rule_for_one_secret_is_all_that_a_source_needs() -> Result<()> {
    let rig = Rig::new().await?;
    let ufm = rig.ufm().await?;
    let kubeconfig = chart::install(&rig.scene, json!({})).await?.kubeconfig;
    rig.scene.configure(&document(&[entry("ufm", &[&ufm], "")])).await?;
    let host = Host::start(&kubeconfig, &[]).await?;
    let message = rig.scene.until_condition("ufm", "Discovered", "False", "CredentialsMissing").await;
    assert!(message.contains("grant `get`") && message.contains("the Secrets named \"ufm\""), "{message}");
    // Only get: no list, no watch.
    let account = format!("--serviceaccount={NAMESPACE}:topoloom");
    let role = ["create", "role", "ufm", "-n", NAMESPACE, "--verb=get", "--resource=secrets", "--resource-name=ufm"];
    rig.scene.plane.kubectl(&role).await?;
    rig.scene.plane.kubectl(&["create", "rolebinding", "ufm", "-n", NAMESPACE, "--role=ufm", &account]).await?;
    eventually("a round succeeds", PATIENCE, async || {
        rig.run("ufm").await.map_err(|error| error.to_string())?;
        let counts = rig.counts().await.map_err(|error| error.to_string())?;
        if counts == WHOLE { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    // A rotation without a watch: after the refusal the host reads the Secret again in the same round.
    ufm.set_credentials(Credentials::none().token(NEXT));
    rig.secret("ufm", &[("token", NEXT)]).await?;
    let asked = ufm.counters().requests;
    rig.run("ufm").await?;
    ufm.until(|counters| counters.requests > asked + 1).await;
    rig.scene.until_condition("ufm", "Discovered", "True", "Ok").await;
    assert!(!host.log().join("\n").contains(TOKEN));
    host.stop().await?;
    ufm.stop().await;
    rig.scene.plane.stop().await
}
