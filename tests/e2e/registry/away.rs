//! A registry that is down stops nothing: neither a plugin that serves, nor a restart of the host.

use anyhow::Result;
use topoloom_tests::registry::{Auth, PASSWORD, Registry, USER};

use super::{Rig, reference};
use crate::swaps::{RACKS, until_quiet, until_serving, until_status};

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_is_down_at_the_start_is_asked_again() -> Result<()> {
    let rig = Rig::new().await?;
    let mut registry = Registry::start(rig.folder(), &rig.authority, Auth::Basic).await?;
    rig.push(&registry, "good", "1.0.0", "stable").await?;
    registry.stop();
    rig.secret(&registry.host(), USER, PASSWORD).await?;
    rig.configure(&reference(&registry, "stable")).await?;
    let host = rig.host(&registry.host()).await?;
    let message = rig.scene.until_condition("fabric", "Loaded", "False", "Upstream").await;
    let asked = format!("GET https://{}/v2/acme/versions/manifests/stable: cannot connect", registry.host());
    assert!(message.contains(&asked), "{message}");
    assert!(host.readyz().await.is_ok(), "a plugin that is not there is no reason not to be ready");
    registry.run().await?;
    until_serving(&rig.scene, "1.0.0").await;
    rig.scene.until(&RACKS).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_goes_later_stops_neither_the_plugin_nor_a_restart_of_the_host() -> Result<()> {
    let rig = Rig::new().await?;
    let mut registry = Registry::start(rig.folder(), &rig.authority, Auth::Basic).await?;
    rig.push(&registry, "good", "1.0.0", "stable").await?;
    rig.secret(&registry.host(), USER, PASSWORD).await?;
    rig.configure(&reference(&registry, "stable")).await?;
    let host = rig.host(&registry.host()).await?;
    until_serving(&rig.scene, "1.0.0").await;
    rig.scene.until(&RACKS).await;
    registry.stop();
    let message = rig.scene.until_condition("fabric", "Loaded", "False", "Upstream").await;
    assert!(message.contains("the last valid version continues"), "{message}");
    let moved = [
        "tier 1 example.com/rack=a (9): n00 n01 n02 n03 n04 n05 n06 n07 n08",
        "tier 1 example.com/rack=b (11): n09 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19",
    ];
    rig.scene.plane.relabel("n09", "example.com/rack", "b").await?;
    rig.scene.until(&moved).await;
    until_status(&rig.scene, "it serves", |status| status.state.is_some_and(|state| state.as_str() == "Serving")).await;

    host.stop().await?;
    let host = rig.host(&registry.host()).await?;
    rig.scene.plane.relabel("n09", "example.com/rack", "a").await?;
    rig.scene.until(&RACKS).await;
    let status = until_serving(&rig.scene, "1.0.0").await;
    assert_eq!(status.plugin.map(|plugin| format!("{:?}", plugin.origin)), Some("Kept".to_owned()));
    registry.run().await?;
    until_quiet(&rig.scene).await;
    rig.push(&registry, "good", "2.0.0", "stable").await?;
    until_serving(&rig.scene, "2.0.0").await;
    rig.scene.until(&RACKS).await;
    host.stop().await
}
