//! What is pushed serves; a tag that moves is a swap, a digest stays what it is, a signature travels with its plugin.

use anyhow::{Context, Result};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::registry::hostile::Hostile;
use topoloom_tests::registry::{Auth, PASSWORD, Registry, USER};
use topoloom_tests::scene::PATIENCE;

use super::{Rig, reference};
use crate::swaps::{RACKS, kept, until_quiet, until_serving};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pushed_serves_and_a_tag_that_moves_is_a_swap_that_can_be_rolled_back() -> Result<()> {
    let rig = Rig::new().await?;
    let mut registry = Registry::start(rig.folder(), &rig.authority, Auth::Basic).await?;
    let first = rig.push(&registry, "good", "1.0.0", "stable").await?;
    rig.secret(&registry.host(), USER, PASSWORD).await?;
    rig.configure(&reference(&registry, "stable")).await?;
    let host = rig.host(&registry.host()).await?;
    rig.scene.until(&RACKS).await;
    let status = until_serving(&rig.scene, "1.0.0").await;
    let plugin = status.plugin.context("it serves")?;
    assert_eq!((plugin.digest, format!("{:?}", plugin.origin)), (first.to_string(), "Registry".to_owned()));
    let list = rig.scene.cli(&["plugin", "list"]).await?;
    assert!(list.contains("versions 1.0.0") && list.contains("Registry"), "{list}");
    eventually("it is kept as every plugin is", PATIENCE, async || {
        let kept = kept(&rig.scene).await.map_err(|error| error.to_string())?;
        if kept == [first.to_string()] { Ok(()) } else { Err(format!("{kept:?}")) }
    })
    .await;

    let second = rig.push(&registry, "good", "2.0.0", "stable").await?;
    let status = until_serving(&rig.scene, "2.0.0").await;
    assert_eq!(status.plugin.map(|plugin| plugin.digest), Some(second.to_string()));
    until_quiet(&rig.scene).await;
    rig.scene.until(&RACKS).await;

    rig.scene.cli(&["plugin", "rollback", "fabric"]).await?;
    until_serving(&rig.scene, "1.0.0").await;
    rig.scene.cli(&["plugin", "continue", "fabric"]).await?;
    until_serving(&rig.scene, "2.0.0").await;

    // A version that changes too much waits, also from here.
    rig.push(&registry, "some", "3.0.0", "stable").await?;
    let message = rig.scene.until_condition("fabric", "Loaded", "False", "CanaryHeld").await;
    assert!(message.contains("it places 12 of the 20 nodes"), "{message}");
    rig.scene.until(&RACKS).await;
    // The operator compares what waits, by its reference.
    let pulled = reference(&registry, "stable");
    let compared = rig.plugin(&registry, &["diff", &pulled, "--source", "fabric"]).await.unwrap_err().to_string();
    assert!(compared.contains("exit status: 3"), "{compared}");

    // A registry that goes takes nothing from the operator who looks at what waits.
    registry.stop();
    eventually("what is not seen is said beside what waits", PATIENCE, async || {
        let message = rig.scene.until_condition("fabric", "Loaded", "False", "CanaryHeld").await;
        if message.contains("A newer plugin is not seen: plugin.oci oci://") { Ok(()) } else { Err(message) }
    })
    .await;
    rig.scene.cli(&["plugin", "continue", "fabric"]).await?;
    until_serving(&rig.scene, "3.0.0").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_digest_in_the_reference_the_registry_is_asked_no_more() -> Result<()> {
    let rig = Rig::new().await?;
    let module = topoloom_tests::guest::version("good", "1.0.0")?;
    let registry = Hostile::start(&rig.authority, &module).await?;
    rig.secret(&registry.host(), USER, PASSWORD).await?;
    rig.configure(&registry.pinned()).await?;
    let host = rig.host(&registry.host()).await?;
    rig.scene.until(&RACKS).await;
    until_serving(&rig.scene, "1.0.0").await;
    registry.forget();
    // The tag is another one now, and rounds are requested, each of which would look at the place.
    registry.module(&topoloom_tests::guest::version("good", "2.0.0")?);
    rig.scene.cli(&["source", "run", "fabric"]).await?;
    rig.scene.plane.relabel("n09", "example.com/rack", "b").await?;
    rig.scene
        .until(&[
            "tier 1 example.com/rack=a (9): n00 n01 n02 n03 n04 n05 n06 n07 n08",
            "tier 1 example.com/rack=b (11): n09 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19",
        ])
        .await;
    assert_eq!(registry.asked().len(), 0);
    until_serving(&rig.scene, "1.0.0").await;
    // By its tag the same registry is asked every second, by one request each.
    rig.configure(&registry.reference()).await?;
    until_serving(&rig.scene, "2.0.0").await;
    registry.forget();
    eventually("three looks", PATIENCE, async || {
        let asked: Vec<String> = registry.asked().iter().map(|asked| asked.method.clone()).collect();
        assert!(asked.iter().all(|method| method == "HEAD"), "{asked:?}");
        if asked.len() >= 3 { Ok(()) } else { Err(format!("{asked:?}")) }
    })
    .await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_travels_with_its_plugin() -> Result<()> {
    let rig = Rig::new().await?;
    let registry = Registry::start(rig.folder(), &rig.authority, Auth::Basic).await?;
    let key = |name: &str| rig.folder().join(name).display().to_string();
    for words in [
        vec!["genpkey", "-algorithm", "ed25519", "-out", "signing.pem"],
        vec!["pkey", "-in", "signing.pem", "-pubout", "-out", "trusted.pem"],
    ] {
        let output = tokio::process::Command::new("openssl").args(&words).current_dir(rig.folder()).output().await?;
        assert!(output.status.success(), "{output:?}");
    }
    let (file, _) = rig.version("good", "1.0.0")?;
    let file = file.display().to_string();
    rig.plugin(&registry, &["sign", &file, "--key", &key("signing.pem")]).await?;
    rig.push(&registry, "good", "1.0.0", "stable").await?;
    let stable = reference(&registry, "stable");
    let said = rig.plugin(&registry, &["inspect", &stable, "--trust-key", &key("trusted.pem")]).await?;
    assert!(said.contains("versions 1.0.0 by the key") && said.contains("holds"), "{said}");

    rig.secret(&registry.host(), USER, PASSWORD).await?;
    rig.configure(&stable).await?;
    let trusts = ["--plugin-trust=signature", "--plugin-trust-key", &key("trusted.pem")];
    let host = rig.host_with(&registry.host(), &trusts).await?;
    until_serving(&rig.scene, "1.0.0").await;
    rig.scene.until(&RACKS).await;
    rig.push(&registry, "good", "2.0.0", "stable").await?;
    let message = rig.scene.until_condition("fabric", "Loaded", "False", "Untrusted").await;
    assert!(message.contains("has no signature"), "{message}");
    until_serving(&rig.scene, "1.0.0").await;
    rig.scene.until(&RACKS).await;
    host.stop().await
}
