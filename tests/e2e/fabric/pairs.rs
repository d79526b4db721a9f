//! More than one fabric manager: two that are a pair, and two with a fabric each.

use anyhow::Result;
use topoloom_simulator::{Credentials, Fabric, Fault, Shape, Ufm};

use super::rig::{Rig, TOKEN, WHOLE, document, entry};

#[tokio::test(flavor = "multi_thread")]
async fn the_other_member_of_a_pair_takes_over() -> Result<()> {
    let rig = Rig::new().await?;
    let (first, second) = (rig.ufm().await?, rig.ufm().await?);
    rig.scene.configure(&document(&[entry("ufm", &[&first, &second], "")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&WHOLE).await;
    assert_eq!(second.counters().requests, 0, "the first one answers");
    let before = rig.versions().await?;
    first.faults().set(Fault::Refused).await?;
    rig.stir()?;
    rig.run("ufm").await?;
    // The requests of a round: versions, ports, links.
    second.until(|counters| counters.requests >= 3 && counters.answering == 0).await;
    assert_eq!(rig.versions().await?, before);
    second.faults().set(Fault::Refused).await?;
    rig.run("ufm").await?;
    let message = rig.scene.until_condition("ufm", "Discovered", "False", "Upstream").await;
    for server in [&first, &second] {
        assert!(message.contains(&server.address().to_string()), "{message}");
    }
    assert_eq!(rig.versions().await?, before);
    host.stop().await?;
    first.stop().await;
    second.stop().await;
    rig.scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_fabrics_are_two_sources() -> Result<()> {
    let rig = Rig::new().await?;
    let here = rig.ufm().await?;
    let shape = "units=1,hosts-per-unit=3,rails=2,pods=1,spines=0,cores=0,seed=8,host-names=east-{index:02}"
        .parse::<Shape>()?;
    let there = Ufm::builder(Fabric::generate(&shape)?).credentials(Credentials::none().token(TOKEN)).start().await?;
    let hosts: Vec<String> = there.fabric().now().hosts().map(|(_, host)| host.name.clone()).collect();
    rig.scene.plane.create_nodes(hosts.into_iter().map(|name| (name, Vec::<(String, String)>::new()))).await?;
    rig.scene.configure(&document(&[entry("ufm", &[&here], ""), entry("ufm-east", &[&there], "")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&[(1, 3), (1, 4), (1, 4), (2, 8)]).await;
    // A fault of one fabric manager does not affect the source of the other.
    rig.stir()?;
    here.faults().set("status:500".parse::<topoloom_simulator::FaultRule>()?).await?;
    rig.run("ufm").await?;
    rig.scene.until_condition("ufm", "Discovered", "False", "Upstream").await;
    rig.run("ufm-east").await?;
    rig.scene.until_condition("ufm-east", "Discovered", "True", "Ok").await;
    rig.until(&[(1, 3), (1, 4), (1, 4), (2, 8)]).await;
    host.stop().await?;
    here.stop().await;
    there.stop().await;
    rig.scene.plane.stop().await
}
