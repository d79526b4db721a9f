//! Which plugin becomes active, which waits, and when the host rolls back.

use anyhow::Result;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::PATIENCE;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_takes_over_without_a_restart_and_without_a_write() -> Result<()> {
    let (scene, host) = serving().await?;
    let before = (scene.stored().await?, scene.plane.requests().await?);
    let first = guest::version("good", "1.0.0").map(|bytes| Digest::of(&bytes))?;
    let second = push(&scene, "good", "2.0.0").await?;
    let status = until_serving(&scene, "2.0.0").await;
    assert_eq!(status.plugin.map(|plugin| plugin.digest), Some(second.to_string()));
    assert_eq!(status.previous.iter().map(|kept| kept.digest.clone()).collect::<Vec<_>>(), [first.to_string()]);
    let comparison = status.last_comparison.unwrap_or_default();
    assert_eq!((comparison.placed, comparison.kept, comparison.moved), (20, 20, 0), "{comparison:?}");
    // The host keeps both in the cluster, for a rollback on any node.
    let mut wanted = [first.to_string(), second.to_string()];
    wanted.sort();
    eventually("both modules are kept", PATIENCE, async || {
        let kept = kept(&scene).await.map_err(|error| error.to_string())?;
        if kept == wanted { Ok(()) } else { Err(format!("{kept:?}")) }
    })
    .await;
    let after = scene.stored().await?;
    let versions = |stored: &std::collections::BTreeMap<String, topoloom_api::HyperNode>| {
        stored.values().map(|object| object.metadata.resource_version.clone()).collect::<Vec<_>>()
    };
    assert_eq!(versions(&before.0), versions(&after), "the same answer is no write");
    assert_eq!(scene.writes_since(&before.1).await?, (0, 0));
    let list = scene.cli(&["plugin", "list"]).await?;
    assert!(list.contains("versions 2.0.0") && list.contains(&second.short()) && list.contains("ConfigMap"), "{list}");
    let metrics = host.get("/metrics").await?;
    assert!(metrics.contains("topoloom_plugin_swaps_total{source=\"fabric\"} 2"), "{metrics}");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_crashes_in_its_third_real_round_is_taken_back() -> Result<()> {
    let (scene, host) = serving().await?;
    let bad = push(&scene, "third", "2.0.0").await?;
    until_serving(&scene, "2.0.0").await;
    // The first real round runs by itself; the test requests the others.
    eventually("it is taken back", PATIENCE, async || {
        scene.cli(&["source", "run", "fabric"]).await.map_err(|error| error.to_string())?;
        let status = scene.source("fabric").await.map_err(|error| error.to_string())?.status;
        if status.taken_back == [bad.to_string()] { Ok(()) } else { Err(format!("{status:#?}")) }
    })
    .await;
    let message = scene.until_condition("fabric", "Loaded", "False", "RolledBack").await;
    assert!(message.contains("the third round of this version crashes"), "{message}");
    assert!(message.contains("topoloom plugin continue fabric"), "{message}");
    let status = until_serving(&scene, "1.0.0").await;
    assert_eq!(status.taken_back, [bad.to_string()]);
    scene.until(&RACKS).await;
    // The host accepts another version.
    push(&scene, "good", "2.0.1").await?;
    until_serving(&scene, "2.0.1").await;
    until_quiet(&scene).await;
    let metrics = host.get("/metrics").await?;
    assert!(metrics.contains("topoloom_plugin_rollbacks_total{source=\"fabric\"} 1"), "{metrics}");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_covers_less_waits_for_the_operator_and_then_goes_on() -> Result<()> {
    let (scene, host) = serving().await?;
    let digest = push(&scene, "some", "2.0.0").await?;
    let message = scene.until_condition("fabric", "Loaded", "False", "CanaryHeld").await;
    assert!(message.contains("it places 12 of the 20 nodes that are placed now"), "{message}");
    assert!(message.contains("topoloom plugin continue fabric"), "{message}");
    let status = until_serving(&scene, "1.0.0").await;
    let candidate = status.candidate.context("it waits")?;
    assert_eq!((candidate.stage.as_str(), candidate.step.as_deref()), ("Held", Some("Compare")));
    assert_eq!(status.state.map(|state| state.as_str()), Some("Serving"), "what serves goes on as before");
    scene.until(&RACKS).await;
    // The active plugin continues to serve: it follows a node that moves.
    scene.plane.relabel("n09", "example.com/rack", "b").await?;
    scene
        .until(&[
            "tier 1 example.com/rack=a (9): n00 n01 n02 n03 n04 n05 n06 n07 n08",
            "tier 1 example.com/rack=b (11): n09 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19",
        ])
        .await;
    scene.cli(&["plugin", "continue", "fabric", "--digest", &digest.short()]).await?;
    until_serving(&scene, "2.0.0").await;
    eventually("twelve nodes are placed", PATIENCE, async || {
        let stored = scene.stored().await.map_err(|error| error.to_string())?;
        let placed: usize = stored.values().map(|object| object.spec.members.len()).sum();
        if placed == 12 { Ok(()) } else { Err(format!("{placed}")) }
    })
    .await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_waits_for_the_call_that_is_under_way_and_two_in_a_second_leave_the_last() -> Result<()> {
    let scene = scene().await?;
    push(&scene, "slow", "1.0.0").await?;
    scene.configure(&ENTRY.replace("cpu: 2s", "cpu: 60s")).await?;
    let host = scene.host().await?;
    scene.until(&RACKS).await;
    // A slow round is under way when the next version arrives.
    scene.plane.relabel("n09", "example.com/rack", "b").await?;
    push(&scene, "good", "2.0.0").await?;
    push(&scene, "good", "3.0.0").await?;
    until_serving(&scene, "3.0.0").await;
    until_quiet(&scene).await;
    scene
        .until(&[
            "tier 1 example.com/rack=a (9): n00 n01 n02 n03 n04 n05 n06 n07 n08",
            "tier 1 example.com/rack=b (11): n09 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19",
        ])
        .await;
    let failed = host
        .log()
        .iter()
        .filter(|line| line.contains("\"message\":\"round\"") && !line.contains("\"outcome\":\"ok\""))
        .count();
    assert_eq!(failed, 0, "no call was cut off");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_goes_back_and_forth_also_over_a_restart() -> Result<()> {
    let (scene, host) = serving().await?;
    let first = guest::version("good", "1.0.0").map(|bytes| Digest::of(&bytes))?;
    push(&scene, "good", "2.0.0").await?;
    until_serving(&scene, "2.0.0").await;
    push(&scene, "good", "3.0.0").await?;
    until_serving(&scene, "3.0.0").await;
    scene.cli(&["plugin", "rollback", "fabric"]).await?;
    until_serving(&scene, "2.0.0").await;
    let message = scene.until_condition("fabric", "Loaded", "True", "Ok").await;
    assert!(message.contains("waits until that ends"), "{message}");
    host.stop().await?;
    // On another node a host has only what is in the cluster.
    let host = scene.host().await?;
    until_serving(&scene, "2.0.0").await;
    scene.cli(&["plugin", "rollback", "fabric", "--to", &first.short()]).await?;
    let status = until_serving(&scene, "1.0.0").await;
    assert_eq!(status.plugin.map(|plugin| plugin.digest), Some(first.to_string()));
    let told = scene.cli(&["plugin", "rollback", "fabric", "--to", "000000000000"]).await.unwrap_err().to_string();
    assert!(told.contains("no plugin of this source"), "{told}");
    scene.cli(&["plugin", "continue", "fabric"]).await?;
    until_serving(&scene, "3.0.0").await;
    until_quiet(&scene).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_rollback_there_is_quarantine_and_the_entry_says_what_becomes_of_the_topology() -> Result<()> {
    let scene = scene().await?;
    // This plugin succeeds twice, and then always fails.
    push(&scene, "third", "1.0.0").await?;
    scene.configure(ENTRY).await?;
    let host = scene.host().await?;
    scene.until(&RACKS).await;
    eventually("it is in quarantine", PATIENCE, async || {
        scene.cli(&["source", "run", "fabric"]).await.map_err(|error| error.to_string())?;
        let status = scene.source("fabric").await.map_err(|error| error.to_string())?.status;
        let loaded = status.conditions.iter().find(|condition| condition.type_ == "Loaded");
        if loaded.is_some_and(|loaded| loaded.reason == "Quarantined") { Ok(()) } else { Err(format!("{status:#?}")) }
    })
    .await;
    let message = scene.until_condition("fabric", "Loaded", "False", "Quarantined").await;
    assert!(message.contains("the third round of this version crashes"), "{message}");
    scene.until_state("fabric", "Stale").await;
    scene.until(&RACKS).await;
    host.readyz().await?;
    // The same plugin with `onFailure: remove`: the host calls it again, and it fails for good again.
    scene.configure(&ENTRY.replace("  limits:", "  onFailure: remove\n  limits:")).await?;
    eventually("its HyperNodes are gone", PATIENCE, async || {
        scene.cli(&["source", "run", "fabric"]).await.map_err(|error| error.to_string())?;
        let lines = scene.topology().await.map_err(|error| error.to_string())?;
        if lines.is_empty() { Ok(()) } else { Err(format!("{lines:#?}")) }
    })
    .await;
    let message = scene.until_condition("fabric", "Applied", "False", "Quarantined").await;
    assert!(message.contains("onFailure: remove"), "{message}");
    // With a better plugin the HyperNodes are there again.
    push(&scene, "good", "2.0.0").await?;
    until_serving(&scene, "2.0.0").await;
    scene.until(&RACKS).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_on_what_fails_in_service_is_no_endless_loop_and_what_failed_stays_away_when_it_comes_again() -> Result<()>
{
    let (scene, host) = serving().await?;
    let bad = push(&scene, "third", "2.0.0").await?;
    until_serving(&scene, "2.0.0").await;
    push(&scene, "good", "3.0.0").await?;
    until_serving(&scene, "3.0.0").await;
    scene.cli(&["plugin", "rollback", "fabric", "--to", &bad.short()]).await?;
    until_serving(&scene, "2.0.0").await;
    eventually("it is taken back", PATIENCE, async || {
        scene.cli(&["source", "run", "fabric"]).await.map_err(|error| error.to_string())?;
        let status = scene.source("fabric").await.map_err(|error| error.to_string())?.status;
        if status.taken_back == [bad.to_string()] { Ok(()) } else { Err(format!("{status:#?}")) }
    })
    .await;
    scene.until_condition("fabric", "Loaded", "False", "RolledBack").await;
    until_serving(&scene, "3.0.0").await;
    let swaps = async || -> Result<String> {
        let metrics = host.get("/metrics").await?;
        Ok(metrics.lines().find(|line| line.starts_with("topoloom_plugin_swaps_total")).unwrap_or_default().to_owned())
    };
    // The pin stays: rounds continue, and the pin causes no further swap.
    let before = swaps().await?;
    scene.plane.relabel("n09", "example.com/rack", "b").await?;
    scene
        .until(&[
            "tier 1 example.com/rack=a (9): n00 n01 n02 n03 n04 n05 n06 n07 n08",
            "tier 1 example.com/rack=b (11): n09 n10 n11 n12 n13 n14 n15 n16 n17 n18 n19",
        ])
        .await;
    assert_eq!(swaps().await?, before);
    scene.cli(&["plugin", "continue", "fabric"]).await?;
    until_quiet(&scene).await;
    // If the version is delivered once more, the host knows that it failed, also after a restart.
    push(&scene, "third", "2.0.0").await?;
    scene.until_condition("fabric", "Loaded", "False", "RolledBack").await;
    host.stop().await?;
    let host = scene.host().await?;
    scene.until_condition("fabric", "Loaded", "False", "RolledBack").await;
    until_serving(&scene, "3.0.0").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_reaches_what_serves_when_the_plugin_that_waits_is_refused() -> Result<()> {
    let (scene, host) = serving().await?;
    push(&scene, "greedy", "2.0.0").await?;
    scene.until_condition("fabric", "Loaded", "False", "PermissionDenied").await;
    // The edit has no other effect than to change the entry.
    scene.configure(&ENTRY.replace("  limits:", "  interval: 2h\n  limits:")).await?;
    eventually("the edit runs", PATIENCE, async || {
        let runs = host.log().iter().filter(|line| line.contains("\"configured\"")).count();
        if runs >= 2 { Ok(()) } else { Err(format!("{runs} times configured")) }
    })
    .await;
    let message = scene.until_condition("fabric", "Loaded", "False", "PermissionDenied").await;
    assert!(message.contains("the last valid version continues"), "{message}");
    // The candidate waited for nothing but the grant.
    let granted = ENTRY.replace("[example.com/rack]", "[\"example.com/*\"]");
    scene.configure(&granted).await?;
    until_serving(&scene, "2.0.0").await;
    until_quiet(&scene).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn from_the_desk_one_sees_what_a_swap_would_do() -> Result<()> {
    let (scene, host) = serving().await?;
    let write = |act: &str| -> Result<String> {
        let file = scene.plane.folder().join(format!("{act}.wasm"));
        std::fs::write(&file, guest::version(act, "9.0.0")?)?;
        Ok(file.to_string_lossy().into_owned())
    };
    let before = scene.plane.requests().await?;
    let told = scene.cli(&["plugin", "diff", &write("good")?, "--source", "fabric"]).await?;
    assert!(told.contains("20 of the 20 nodes") && told.contains("activate it"), "{told}");
    let told = scene.cli(&["plugin", "diff", &write("some")?, "--source", "fabric"]).await.unwrap_err().to_string();
    assert!(told.contains("exit status: 3") && told.contains("12 of the 20 nodes"), "{told}");
    let told = scene.cli(&["plugin", "diff", &write("crash")?, "--source", "fabric"]).await.unwrap_err().to_string();
    assert!(told.contains("would be refused") && told.contains("crashes in every round"), "{told}");
    assert_eq!(scene.writes_since(&before).await?, (0, 0));
    assert_eq!(until_serving(&scene, "1.0.0").await.candidate, None);
    host.stop().await
}
