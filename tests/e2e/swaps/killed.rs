//! A host that is killed at any step of a swap starts again with the last good version.

use anyhow::Result;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;

use super::*;

/// Pushes a version, kills the host as soon as its log has `line`, starts another one, and waits until `version` serves.
async fn killed_at(line: &str, act: &str, serves: &str) -> Result<(Scene, Host)> {
    let (scene, host) = serving().await?;
    let digest = push(&scene, act, "2.0.0").await?;
    let (digest, short) = (digest.to_string(), digest.short());
    eventually(&format!("the log has {line:?}"), PATIENCE, async || {
        let speaks = |entry: &str| entry.contains(line) && (entry.contains(&digest) || entry.contains(&short));
        if host.log().iter().any(|entry| speaks(entry)) { Ok(()) } else { Err(String::new()) }
    })
    .await;
    scene.kill(host).await?;
    let host = scene.host().await?;
    until_serving(&scene, serves).await;
    // The version really serves.
    follows(&scene, "n09").await?;
    Ok((scene, host))
}

/// Moves a node, and waits until a round has followed it.
async fn follows(scene: &Scene, node: &str) -> Result<()> {
    scene.plane.relabel(node, "example.com/rack", "b").await?;
    eventually("a round follows the node", PATIENCE, async || {
        let lines = scene.topology().await.map_err(|error| error.to_string())?;
        let followed = lines.iter().any(|line| line.contains("rack=b") && line.contains(node));
        if followed { Ok(()) } else { Err(format!("{lines:#?}")) }
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_candidate_is_prepared() -> Result<()> {
    let (_scene, host) = killed_at("a plugin is prepared", "good", "2.0.0").await?;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_is_in_the_shadow() -> Result<()> {
    let (_scene, host) = killed_at("a candidate plugin is compared with the active one", "good", "2.0.0").await?;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_waits_for_a_person() -> Result<()> {
    let (scene, host) = killed_at("a candidate plugin answered", "some", "1.0.0").await?;
    scene.until_condition("fabric", "Loaded", "False", "CanaryHeld").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_it_was_refused() -> Result<()> {
    let (scene, host) = killed_at("a plugin is refused", "crash", "1.0.0").await?;
    scene.until_condition("fabric", "Loaded", "False", "Trap").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_moment_of_the_swap() -> Result<()> {
    let (_scene, host) = killed_at("is now active in place of", "good", "2.0.0").await?;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_it_was_taken_back() -> Result<()> {
    let (scene, host) = serving().await?;
    let bad = push(&scene, "third", "2.0.0").await?;
    until_serving(&scene, "2.0.0").await;
    for node in ["n08", "n09"] {
        follows(&scene, node).await?;
    }
    scene.until_condition("fabric", "Loaded", "False", "RolledBack").await;
    until_status(&scene, "it is remembered", |status| status.taken_back == [bad.to_string()]).await;
    scene.kill(host).await?;
    let host = scene.host().await?;
    until_serving(&scene, "1.0.0").await;
    scene.until_condition("fabric", "Loaded", "False", "RolledBack").await;
    assert_eq!(until_serving(&scene, "1.0.0").await.taken_back, [bad.to_string()]);
    host.stop().await
}

/// The host is killed between a swap and the third answer. The next host continues to watch the plugin, and can roll
/// back.
#[tokio::test(flavor = "multi_thread")]
async fn while_it_is_watched() -> Result<()> {
    let (scene, host) = serving().await?;
    let bad = push(&scene, "third", "2.0.0").await?;
    until_status(&scene, "it serves and is watched", |status| {
        status.plugin.as_ref().is_some_and(|plugin| plugin.version == "2.0.0" && plugin.watched)
    })
    .await;
    scene.kill(host).await?;
    let host = scene.host().await?;
    // The plugin crashes in its third round, and the first may come before or after the first of these.
    for node in ["n07", "n08", "n09"] {
        follows(&scene, node).await?;
    }
    scene.until_condition("fabric", "Loaded", "False", "RolledBack").await;
    let status = until_serving(&scene, "1.0.0").await;
    assert_eq!((status.taken_back, status.plugin.unwrap().watched), (vec![bad.to_string()], false));
    host.stop().await
}
