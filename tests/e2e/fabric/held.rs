//! Answers of a fabric manager that are valid, but that the host should not act on at once.

use anyhow::Result;
use topoloom_simulator::{Credentials, FaultRule, LinkState, Simulator, Ufm};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::PATIENCE;

use super::rig::{Rig, TOKEN, WHOLE, document, entry};

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_or_half_list_is_held_and_forgotten_when_it_was_a_mistake() -> Result<()> {
    // Each host has one cable, and the list has no order: in half of the list, half of the hosts are missing.
    let rig = Rig::of("units=2,hosts-per-unit=16,rails=1,pods=1,spines=2,cores=0,seed=7").await?;
    let credentials = Credentials::none().token(TOKEN);
    let ufm = Ufm::builder(rig.fabric.clone()).credentials(credentials).shuffle(3).start().await?;
    // No grace keeps the place of a host without links: only the guard protects the cluster from the list.
    rig.scene.configure(&document(&[entry("ufm", &[&ufm], "    downGrace: 0s\n")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&[(1, 16), (1, 16), (2, 32)]).await;
    let faults = [("empty-list", ["EmptyResult"].as_slice()), ("half-list", &["TooManyNodesLost", "TooManyDeletions"])];
    is_held(&rig, ("ufm", &ufm), &faults).await?;
    host.stop().await?;
    ufm.stop().await;
    rig.scene.plane.stop().await
}

/// The guard holds the result of each fault for one of the reasons beside it, until the next complete list.
pub(crate) async fn is_held(rig: &Rig, (source, server): (&str, &Simulator), faults: &[(&str, &[&str])]) -> Result<()> {
    let before = rig.versions().await?;
    for (fault, reasons) in faults {
        rig.stir()?;
        server.faults().set(fault.parse::<FaultRule>()?).await?;
        rig.run(source).await?;
        eventually(&format!("{fault} is held"), PATIENCE, async || {
            let status = rig.scene.source(source).await.map_err(|error| error.to_string())?.status;
            let held = status.conditions.iter().find(|condition| condition.type_ == "Held");
            match held {
                Some(held) if held.status == "True" && reasons.contains(&held.reason.as_str()) => Ok(()),
                _ => Err(format!("{status:#?}")),
            }
        })
        .await;
        assert_eq!(rig.versions().await?, before, "{fault}");
        server.faults().clear().await?;
        rig.stir()?;
        rig.run(source).await?;
        rig.scene.until_state(source, "Serving").await;
        assert_eq!(rig.versions().await?, before, "{fault}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_without_a_live_link_keeps_its_place_until_its_grace_is_over() -> Result<()> {
    let rig = Rig::new().await?;
    let ufm = rig.ufm().await?;
    rig.scene.configure(&document(&[entry("ufm", &[&ufm], "    downGrace: 4s\n")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&WHOLE).await;
    let before = rig.versions().await?;
    rig.fabric.edit(|fabric| fabric.cut_host("gpu-00001", LinkState::Unplugged))?;
    rig.run("ufm").await?;
    eventually("the host is reported as kept", PATIENCE, async || {
        let status = rig.scene.source("ufm").await.map_err(|error| error.to_string())?.status;
        let said = serde_json::to_string(&status.diagnostics).unwrap_or_default();
        if said.contains("kept-while-down") { Ok(()) } else { Err(format!("{status:#?}")) }
    })
    .await;
    assert_eq!(rig.versions().await?, before);
    // A round after the grace leaves the host out, and nothing but a round is needed.
    eventually("the host has no place any more", PATIENCE, async || {
        rig.run("ufm").await.map_err(|error| error.to_string())?;
        let counts = rig.counts().await.map_err(|error| error.to_string())?;
        if counts == [(1, 3), (1, 4), (2, 7)] { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    rig.fabric.edit(topoloom_simulator::Fabric::mend);
    rig.run("ufm").await?;
    rig.until(&WHOLE).await;
    host.stop().await?;
    ufm.stop().await;
    rig.scene.plane.stop().await
}
