//! The follower: what it has prepared before it leads.

use anyhow::Result;
use serde_json::Value;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{PATIENCE, Scene};

use crate::swaps::{ENTRY, push};

/// How often the host compiled a plugin for use at once. It compiles an active plugin a second time, with optimisation,
/// after the first round.
async fn compiled(host: &Host) -> Result<u32> {
    const COUNT: &str = "topoloom_plugin_compile_seconds_count{";
    let metrics = host.get("/metrics").await?;
    let counts = metrics.lines().filter(|line| line.starts_with(COUNT) && line.contains("kind=\"quick\""));
    let counts = counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u32>().ok());
    Ok(counts.sum())
}

/// The requests that fill the caches of a replica, in the order in which they were answered: verb, resource and id.
fn looks(scene: &Scene, replica: &str) -> Result<Vec<[String; 3]>> {
    let log = scene.plane.audit_log()?;
    let looks = log.iter().filter_map(|event| {
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let look = [word(&event["verb"]), word(&event["objectRef"]["resource"]), word(&event["auditID"])];
        let is_his = word(&event["userAgent"]).contains(&format!("({replica})"));
        let is_look =
            matches!(look[0].as_str(), "list" | "watch") && matches!(look[1].as_str(), "nodes" | "hypernodes");
        // A list of one object fills no cache: it only reads the revision of the API server.
        let query = word(&event["requestURI"]);
        let is_of_one = query.split(['?', '&']).any(|part| part == "limit=1");
        (is_his && is_look && !is_of_one).then_some(look)
    });
    Ok(looks.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_is_warm_when_it_takes_over_so_that_its_first_round_compiles_and_lists_nothing() -> Result<()> {
    let scene = Scene::audited().await?;
    scene.nodes(&["a example.com/rack=x", "b example.com/rack=y"]).await?;
    // The plugin is not part of the binary, so the host has to compile it.
    push(&scene, "good", "1.0.0").await?;
    scene.configure(ENTRY).await?;
    let kubeconfig = scene.host_kubeconfig().await?;
    let leader = Host::launch_as("first", &kubeconfig, &[]).await?;
    scene.until(&["tier 1 example.com/rack=x (1): a", "tier 1 example.com/rack=y (1): b"]).await;

    let follower = Host::launch_as("second", &kubeconfig, &[]).await?;
    eventually("the follower is warm", PATIENCE, async || {
        let is_warm = follower.log().iter().any(|line| line.contains("\"message\":\"warm\""));
        let compiled = compiled(&follower).await.map_err(|error| error.to_string())?;
        let looks = looks(&scene, "second").map_err(|error| error.to_string())?;
        // After a list comes the watch that keeps it fresh.
        let is_filled =
            |resource: &str| looks.iter().rfind(|[_, it, _]| it == resource).is_some_and(|[verb, ..]| verb == "watch");
        let is_warm = is_warm && compiled > 0 && is_filled("nodes") && is_filled("hypernodes");
        if is_warm { Ok(()) } else { Err(format!("{compiled} compiled, {looks:?}")) }
    })
    .await;
    let ready = follower.readyz().await?;
    assert!(ready.contains("election hypernode: follows"), "{ready}");
    let before = (compiled(&follower).await?, looks(&scene, "second")?);

    leader.stop().await?;
    scene.plane.relabel("b", "example.com/rack", "z").await?;
    scene.until(&["tier 1 example.com/rack=x (1): a", "tier 1 example.com/rack=z (1): b"]).await;
    let after = (compiled(&follower).await?, looks(&scene, "second")?);
    assert_eq!(before.0, after.0, "the plugin was compiled before");
    let more: Vec<_> = after.1.iter().filter(|look| !before.1.contains(look)).collect();
    assert!(more.is_empty(), "the caches were filled before: {more:?}");
    follower.stop().await
}
