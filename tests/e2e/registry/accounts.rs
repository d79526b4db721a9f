//! Who asks: Secrets, passwords and tokens; and what an entry has to grant before anything is dialled.

use anyhow::Result;
use topoloom_simulator::Authority;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::registry::token::TokenServer;
use topoloom_tests::registry::{Auth, PASSWORD, Registry, USER};
use topoloom_tests::scene::PATIENCE;

use super::{REPOSITORY, Rig, SECRET, reference};
use crate::swaps::{RACKS, until_quiet, until_serving};

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_secret_that_is_missing_wrong_or_changed_has_its_condition() -> Result<()> {
    let rig = Rig::new().await?;
    let registry = Registry::start(rig.folder(), &rig.authority, Auth::Basic).await?;
    rig.push(&registry, "good", "1.0.0", "stable").await?;
    let stable = reference(&registry, "stable");
    rig.configure_with(&stable, "").await?;
    let host = rig.host(&registry.host()).await?;
    let message = rig.scene.until_condition("fabric", "Loaded", "False", "Unauthorized").await;
    let asked = format!("GET https://{}/v2/{REPOSITORY}/manifests/stable: 401 Unauthorized", registry.host());
    assert!(message.contains(&asked) && message.contains("the entry names no `pullSecret`"), "{message}");

    rig.configure(&stable).await?;
    let message = rig.scene.until_condition("fabric", "Loaded", "False", "CredentialsMissing").await;
    assert!(message.contains(&format!("the Secret volcano-system/{SECRET} does not exist")), "{message}");
    rig.secret("other.example.com", USER, PASSWORD).await?;
    let message = rig.scene.until_condition("fabric", "Loaded", "False", "Unauthorized").await;
    let none = format!("the Secret volcano-system/{SECRET} has none for {}", registry.host());
    assert!(message.contains(&none), "{message}");
    rig.secret(&registry.host(), USER, "another-password").await?;
    eventually("the message names the Secret", PATIENCE, async || {
        let message = rig.scene.until_condition("fabric", "Loaded", "False", "Unauthorized").await;
        let named = format!("with the credentials of the Secret volcano-system/{SECRET}");
        if message.contains(&named) && !message.contains("another-password") { Ok(()) } else { Err(message) }
    })
    .await;
    // The host notices the right one by itself.
    rig.secret(&registry.host(), USER, PASSWORD).await?;
    until_serving(&rig.scene, "1.0.0").await;
    rig.scene.until(&RACKS).await;
    let log = host.log().join("\n");
    assert!(!log.contains(PASSWORD) && !log.contains("another-password"), "a password is in the log");
    host.stop().await
}

/// Tokens that the host has got: only it asks for reading alone.
fn tokens(server: &TokenServer) -> usize {
    let scope = format!("repository:{REPOSITORY}:pull");
    server.asked().iter().filter(|asked| asked.field("scope").as_deref() == Some(scope.as_str())).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_used_until_it_ends_and_another_one_comes_in_its_place() -> Result<()> {
    let rig = Rig::new().await?;
    let server = TokenServer::start(&rig.authority).await?;
    let registry = Registry::start(rig.folder(), &rig.authority, Auth::Token(&server)).await?;
    rig.push(&registry, "good", "1.0.0", "stable").await?;
    rig.secret(&registry.host(), USER, PASSWORD).await?;
    rig.configure(&reference(&registry, "stable")).await?;
    let host = rig.host(&registry.host()).await?;
    until_serving(&rig.scene, "1.0.0").await;
    until_quiet(&rig.scene).await;
    assert_eq!(tokens(&server), 1, "one for manifest, layer and the looks after that");
    rig.push(&registry, "good", "2.0.0", "stable").await?;
    until_serving(&rig.scene, "2.0.0").await;
    assert_eq!(tokens(&server), 1, "and for those of a swap");
    host.stop().await?;

    // Tokens that last a moment: another one comes before the registry refuses the last.
    server.lasts(6);
    let host = rig.host(&registry.host()).await?;
    until_serving(&rig.scene, "2.0.0").await;
    let before = tokens(&server);
    eventually("two more tokens", PATIENCE, async || {
        let now = tokens(&server);
        if now >= before + 2 { Ok(()) } else { Err(format!("{now}")) }
    })
    .await;
    // One that the registry does not accept, whatever it says about itself: 401, then another token.
    server.end_next(1);
    let issued = server.issued();
    eventually("a token was refused and another one came", PATIENCE, async || {
        let now = server.issued();
        if now >= issued + 2 { Ok(()) } else { Err(format!("{now}")) }
    })
    .await;
    until_quiet(&rig.scene).await;
    rig.push(&registry, "good", "3.0.0", "stable").await?;
    until_serving(&rig.scene, "3.0.0").await;
    rig.scene.until(&RACKS).await;
    // The token server has another password than the Secret: the message names it, and the plugin continues.
    server.password("changed");
    let message = rig.scene.until_condition("fabric", "Loaded", "False", "Unauthorized").await;
    assert!(message.contains(&format!("GET {}: 401 Unauthorized (UNAUTHORIZED)", server.realm())), "{message}");
    assert!(message.contains(&format!("the Secret volcano-system/{SECRET}")), "{message}");
    rig.scene.until(&RACKS).await;
    rig.secret(&registry.host(), USER, "changed").await?;
    until_quiet(&rig.scene).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_anyone_may_read_needs_no_secret() -> Result<()> {
    let rig = Rig::new().await?;
    let server = TokenServer::start(&rig.authority).await?;
    let registry = Registry::start(rig.folder(), &rig.authority, Auth::Token(&server)).await?;
    rig.push(&registry, "good", "1.0.0", "stable").await?;
    server.let_anyone_read();
    rig.configure_with(&reference(&registry, "stable"), "").await?;
    let host = rig.host(&registry.host()).await?;
    until_serving(&rig.scene, "1.0.0").await;
    rig.scene.until(&RACKS).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_granted_is_not_dialled() -> Result<()> {
    let rig = Rig::new().await?;
    let registry = Registry::start(rig.folder(), &rig.authority, Auth::Open).await?;
    rig.push(&registry, "good", "1.0.0", "stable").await?;
    let stable = reference(&registry, "stable");
    let elsewhere = "oci://registry.example.com/acme/versions:stable";
    let document = [
        rig.source("address", &stable, "").replace("addresses: [loopback], ", ""),
        Rig::source_by(&Authority::generate()?, "authority", &stable, ""),
        rig.source("registry", elsewhere, ""),
        rig.source("good", &stable, ""),
    ];
    rig.scene.configure(&format!("networkTopologyDiscovery:\n{}", document.concat())).await?;
    let host = rig.host(&registry.host()).await?;
    let denied = async |source: &str, reason: &str| rig.scene.until_condition(source, "Loaded", "False", reason).await;
    let message = denied("address", "PermissionDenied").await;
    assert!(message.contains("a loopback address") && message.contains("oci: {addresses: [loopback]}"), "{message}");
    let message = denied("authority", "Upstream").await;
    assert!(message.contains("not signed by a trusted authority") && message.contains("caBundle"), "{message}");
    let message = denied("registry", "PermissionDenied").await;
    assert!(message.contains(&format!("pulls from {} only", registry.host())), "{message}");
    assert!(message.contains("--plugin-registries"), "{message}");
    rig.scene.until_state("good", "Serving").await;
    host.stop().await?;
    // Without the flag there are no registries at all.
    let host = rig.scene.host_with(&["--plugin-poll=1"]).await?;
    let message = denied("registry", "PermissionDenied").await;
    assert!(message.contains("this host pulls from no registry"), "{message}");
    host.stop().await
}
