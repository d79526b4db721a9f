//! A fabric that does not change costs one small request, and an answer that is only unusual changes nothing.

use anyhow::Result;
use topoloom_api::names::DESCRIPTION_ANNOTATION;
use topoloom_simulator::{FaultRule, Simulator};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::scene::PATIENCE;

use super::rig::{Rig, WHOLE, document, entry, rounds};

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
    // A Node is deleted: the host uses the lists that it has, and requests none.
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

#[tokio::test(flavor = "multi_thread")]
async fn the_names_of_switches_are_for_people_and_a_new_one_is_one_write() -> Result<()> {
    let rig = Rig::new().await?;
    let ufm = rig.ufm().await?;
    rig.scene.configure(&document(&[entry("ufm", &[&ufm], "")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&WHOLE).await;
    let described = async || -> Result<Vec<String>> {
        let stored = rig.scene.stored().await?;
        let said = |object: &topoloom_api::HyperNode| {
            object.metadata.annotations.as_ref().and_then(|all| all.get(DESCRIPTION_ANNOTATION)).cloned()
        };
        let mut all: Vec<_> = stored.values().map(|object| said(object).unwrap_or_default()).collect();
        all.sort();
        Ok(all)
    };
    let (spines, leaves) = ("spine-p0-0, spine-p0-1", ["leaf-su0-r0, leaf-su0-r1", "leaf-su1-r0, leaf-su1-r1"]);
    assert_eq!(described().await?, [leaves[0], leaves[1], spines]);
    let tree = rig.scene.cli(&["tree"]).await?;
    assert!(tree.contains(spines), "{tree}");
    let before = rig.scene.plane.requests().await?;
    rig.fabric.edit(|fabric| fabric.rename_switch("spine-p0-1", "spine-new"))?;
    rig.run("ufm").await?;
    eventually("the new name stands there", PATIENCE, async || {
        let described = described().await.map_err(|error| error.to_string())?;
        let wanted = [leaves[0], leaves[1], "spine-new, spine-p0-0"];
        if described == wanted { Ok(()) } else { Err(format!("{described:?}")) }
    })
    .await;
    let (specs, _) = rig.scene.writes_since(&before).await?;
    assert_eq!(specs, 1);
    rig.until(&WHOLE).await;
    host.stop().await?;
    ufm.stop().await;
    rig.scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_odd_answer_is_as_good_as_any() -> Result<()> {
    let rig = Rig::new().await?;
    let ufm = rig.ufm().await?;
    rig.scene.configure(&document(&[entry("ufm", &[&ufm], "")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&WHOLE).await;
    let odd = [("wrong-content-type", None), ("not-numbers", None), ("twice", Some("duplicate-port"))];
    is_as_good(&rig, &host, ("ufm", &ufm), &odd).await?;
    host.stop().await?;
    ufm.stop().await;
    rig.scene.plane.stop().await
}

/// A round with each of these unusual answers succeeds, writes nothing, and reports the code beside it.
pub(crate) async fn is_as_good(
    rig: &Rig,
    host: &Host,
    (source, server): (&str, &Simulator),
    odd: &[(&str, Option<&str>)],
) -> Result<()> {
    let before = rig.scene.plane.requests().await?;
    for (odd, report) in odd {
        // The host would not request the list of a fabric that has not changed.
        rig.stir()?;
        server.faults().set(odd.parse::<FaultRule>()?).await?;
        server.forget_requests();
        let earlier = rounds(host, source).await?;
        rig.run(source).await?;
        let now = eventually(&format!("a round over {odd} is over"), PATIENCE, async || {
            let now = rounds(host, source).await.map_err(|error| error.to_string())?;
            if now == earlier { Err(format!("{now:?}")) } else { Ok(now) }
        })
        .await;
        assert_eq!(now.keys().collect::<Vec<_>>(), ["ok"], "{odd}: {:#?}", rig.scene.source(source).await?.status);
        let requests = server.requests();
        assert!(requests.iter().any(|request| request.fault.is_some() && request.bytes > 0), "{odd}: {requests:#?}");
        rig.scene.until_state(source, "Serving").await;
        rig.scene.until_condition(source, "Discovered", "True", "Ok").await;
        let Some(report) = report else { continue };
        eventually(&format!("{report} is reported for {odd}"), PATIENCE, async || {
            let status = rig.scene.source(source).await.map_err(|error| error.to_string())?.status;
            let said = serde_json::to_string(&status.diagnostics).map_err(|error| error.to_string())?;
            if said.contains(report) { Ok(()) } else { Err(said) }
        })
        .await;
    }
    server.faults().clear().await?;
    assert_eq!(rig.scene.writes_since(&before).await?, (0, 0));
    rig.until(&WHOLE).await;
    Ok(())
}
