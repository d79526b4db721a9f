//! A fabric that does not change costs one small request.

use anyhow::Result;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::PATIENCE;

use super::rig::{Rig, WHOLE, document, entry};

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_fabric_is_one_small_request_and_no_write() -> Result<()> {
    let rig = Rig::new().await?;
    let ufm = rig.ufm().await?;
    rig.scene.configure(&document(&[entry("ufm", &[&ufm], "")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&WHOLE).await;
    let before = rig.scene.plane.requests().await?;
    for round in 1..=3 {
        let asked = ufm.counters().requests;
        ufm.forget_requests();
        rig.run("ufm").await?;
        ufm.until(|counters| counters.requests > asked).await;
        let paths: Vec<String> = ufm.requests().into_iter().map(|request| request.path).collect();
        assert_eq!(paths, ["/ufmRestV3/app/versioning"], "round {round}");
    }
    // A Node comes: its place follows from what is known, without a request for any list.
    ufm.forget_requests();
    rig.scene.delete_nodes(&["gpu-00003"]).await?;
    rig.until(&[(1, 3), (1, 4), (2, 7)]).await;
    assert!(ufm.requests().iter().all(|request| request.path.ends_with("/app/versioning")), "{:?}", ufm.requests());
    eventually("one group lost a member", PATIENCE, async || {
        let (specs, _) = rig.scene.writes_since(&before).await.map_err(|error| error.to_string())?;
        if specs == 1 { Ok(()) } else { Err(format!("{specs} writes")) }
    })
    .await;
    host.stop().await?;
    ufm.stop().await;
    rig.scene.plane.stop().await
}
