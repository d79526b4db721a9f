//! Faults of a fabric manager that are not in the table of [`super::passing`].

use anyhow::Result;
use topoloom_simulator::{Credentials, FaultRule, Ufm};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::PATIENCE;

use super::rig::{Rig, TOKEN, WHOLE, document, entry};

#[tokio::test(flavor = "multi_thread")]
async fn what_passes_is_tried_again_by_itself_and_not_too_soon() -> Result<()> {
    let rig = Rig::new().await?;
    let ufm = rig.ufm().await?;
    ufm.faults().set("status:500 times=1".parse::<FaultRule>()?).await?;
    rig.scene.configure(&document(&[entry("ufm", &[&ufm], "")])).await?;
    let began = std::time::Instant::now();
    let host = rig.scene.host().await?;
    let message = rig.scene.until_condition("ufm", "Discovered", "False", "Upstream").await;
    assert!(message.contains("tried again"), "{message}");
    rig.until(&WHOLE).await;
    // The host never retries sooner than after ten seconds, even if back-offs elsewhere begin with less.
    assert!(began.elapsed().as_secs() >= 10, "{:?}", began.elapsed());
    host.stop().await?;
    ufm.stop().await;
    rig.scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_changes_between_pages_is_no_result() -> Result<()> {
    let rig = Rig::new().await?;
    let ufm = rig.ufm().await?;
    rig.scene.configure(&document(&[entry("ufm", &[&ufm], "    pageSize: 200\n")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&WHOLE).await;
    let before = rig.versions().await?;
    // The list becomes longer than one page of the smallest size: each cable has two ends.
    rig.fabric.edit(|fabric| (0..150).try_for_each(|_| fabric.add_stray("gpu-00001", "spine-p0-0")))?;
    ufm.faults().set("changed-between-pages".parse::<FaultRule>()?).await?;
    rig.run("ufm").await?;
    rig.scene.until_condition("ufm", "Discovered", "False", "Upstream").await;
    assert_eq!(rig.versions().await?, before);
    ufm.faults().clear().await?;
    rig.run("ufm").await?;
    rig.scene.until_condition("ufm", "Discovered", "True", "Ok").await;
    host.stop().await?;
    ufm.stop().await;
    rig.scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn insecure_verification_is_a_condition_and_a_metric() -> Result<()> {
    let rig = Rig::new().await?;
    let ufm = rig.ufm().await?;
    let insecure = entry("ufm", &[&ufm], "    insecureSkipVerify: true\n");
    rig.scene.configure(&document(&[insecure])).await?;
    let host = rig.scene.host().await?;
    rig.until(&WHOLE).await;
    let message = rig.scene.until_condition("ufm", "InsecureTls", "True", "VerificationOff").await;
    assert!(message.contains("ufm"), "{message}");
    let metrics = host.get("/metrics").await?;
    assert!(metrics.contains("topoloom_endpoint_unverified{source=\"ufm\",endpoint=\"ufm\"} 1"), "{metrics}");
    rig.scene.configure(&document(&[entry("ufm", &[&ufm], "")])).await?;
    eventually("the condition is gone", PATIENCE, async || {
        let source = rig.scene.source("ufm").await.map_err(|error| error.to_string())?;
        let is_left = source.status.conditions.iter().any(|condition| condition.type_ == "InsecureTls");
        if is_left { Err(format!("{:#?}", source.status)) } else { Ok(()) }
    })
    .await;
    let open = Ufm::builder(rig.fabric.clone()).credentials(Credentials::none().token(TOKEN)).plain().start().await?;
    rig.scene.configure(&document(&[entry("ufm", &[&open], "").replace("    caBundle: |\n", "")])).await?;
    let message = rig.scene.until_condition("ufm", "InsecureTls", "True", "VerificationOff").await;
    assert!(message.contains("unencrypted to: ufm"), "{message}");
    host.stop().await?;
    ufm.stop().await;
    open.stop().await;
    rig.scene.plane.stop().await
}
