//! A fabric that Volcano's own controller served before (decision M5): the host renames nothing without a decision of
//! the operator.

use anyhow::Result;
use serde_json::json;
use topoloom_api::names::SOURCE_LABEL;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::{PATIENCE, by_hand};

use super::rig::{Rig, WHOLE, document, entry};

#[tokio::test(flavor = "multi_thread")]
async fn a_source_with_volcanos_objects_continues_as_volcano_until_an_operator_decides() -> Result<()> {
    let rig = Rig::new().await?;
    let ufm = rig.ufm().await?;
    let objects = [
        by_hand("leaf-hn-0", 1, "Node", &["gpu-00000", "gpu-00001", "gpu-00002"]),
        by_hand("leaf-hn-1", 1, "Node", &["gpu-00004"]),
        by_hand("spine-hn", 2, "HyperNode", &["leaf-hn-0", "leaf-hn-1"]),
    ];
    for mut object in objects {
        object["metadata"]["labels"] = json!({SOURCE_LABEL: "ufm"});
        rig.scene.put(object).await?;
    }
    rig.scene.configure(&document(&[entry("ufm", &[&ufm], "")])).await?;
    let host = rig.scene.host().await?;
    let message = rig.scene.until_condition("ufm", "Compatibility", "True", "CompatAssumed").await;
    assert!(message.contains("`compat: none`"), "{message}");
    rig.until(&WHOLE).await;
    let names: Vec<String> = rig.scene.stored().await?.into_keys().collect();
    assert_eq!(names, ["leaf-hn-0", "leaf-hn-1", "spine-hn"]);
    // The operator decides: the host groups by cables and keeps the names of the objects.
    let decided = entry("ufm", &[&ufm], "").replace("  enabled: true\n", "  enabled: true\n  compat: none\n");
    rig.scene.configure(&document(&[decided])).await?;
    eventually("nothing is assumed any more", PATIENCE, async || {
        let status = rig.scene.source("ufm").await.map_err(|error| error.to_string())?.status;
        let left = status.conditions.iter().any(|condition| condition.type_ == "Compatibility");
        let tiers = status.groups_by_tier.len();
        if !left && tiers == 2 { Ok(()) } else { Err(format!("{status:#?}")) }
    })
    .await;
    rig.until(&WHOLE).await;
    let after: Vec<String> = rig.scene.stored().await?.into_keys().collect();
    assert_eq!(after, names, "groups that are the same keep their names");
    host.stop().await?;
    ufm.stop().await;
    rig.scene.plane.stop().await
}
