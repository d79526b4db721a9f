//! A token that stands in the configuration itself, as Volcano's samples have it.

use anyhow::Result;
use topoloom_simulator::{Coverage, Credentials};
use topoloom_tests::scene::NAMESPACE;

use super::super::rig::{Rig, TOKEN, WHOLE, document};
use super::rig::{SECRET, entry, service};

const NEXT: &str = "canary-token-next-5d21";

#[tokio::test(flavor = "multi_thread")]
async fn a_token_in_the_configuration_works_warns_and_is_seen_nowhere() -> Result<()> {
    let rig = Rig::new().await?;
    rig.scene.plane.kubectl(&["delete", "secret", "ufm", "-n", NAMESPACE]).await?;
    let server = service(&rig, Coverage::Complete).await?;
    let at = |token: &str| document(&[entry(&server, "", &format!("    token: {token}\n"))]);
    rig.scene.configure(&at(TOKEN)).await?;
    let host = rig.scene.host().await?;
    rig.until(&WHOLE).await;
    let said = rig.scene.until_condition("roce", "Configured", "True", "Ok").await;
    assert!(said.contains("config.token: can be read by anyone"), "{said}");
    assert!(host.log().join("\n").contains("config.token"), "the log has no warning");

    // The service accepts only another token: it refuses the old one, until the operator edits the configuration.
    server.set_credentials(Credentials::none().token(NEXT));
    rig.run("roce").await?;
    rig.scene.until_condition("roce", "Discovered", "False", "Unauthorized").await;
    rig.scene.configure(&at(NEXT)).await?;
    rig.scene.until_condition("roce", "Discovered", "True", "Ok").await;
    rig.until(&WHOLE).await;

    // The token in a Secret has priority over the one in the configuration.
    rig.secret("ufm", &[("token", NEXT)]).await?;
    let both = entry(&server, SECRET, "    token: canary-token-outdated\n");
    rig.scene.configure(&document(&[both])).await?;
    rig.run("roce").await?;
    rig.scene.until_condition("roce", "Discovered", "True", "Ok").await;

    let mut all = vec![
        ("the log", host.log().join("\n")),
        ("the metrics", host.get("/metrics").await?),
        ("the status", serde_json::to_string(&rig.scene.source("roce").await?)?),
        ("the events", rig.scene.plane.kubectl(&["get", "events", "-A", "-o", "json"]).await?),
        ("the objects", serde_json::to_string(&rig.scene.stored().await?)?),
    ];
    for verb in [&["tree"][..], &["plan"], &["explain", "gpu-00001"], &["source", "list"], &["fabric", "report"]] {
        all.push((verb[0], rig.scene.cli(verb).await?));
    }
    for (place, text) in all {
        assert!(!text.is_empty() && !text.contains("canary"), "{place}: {text}");
    }
    host.stop().await?;
    server.stop().await;
    rig.scene.plane.stop().await
}
