//! A service of the network team, over TLS and behind a token.

use anyhow::Result;
use topoloom_simulator::{Coverage, Credentials, Fabric, FabricDocument, FaultRule, Shape, SharedFabric};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::held::is_held;
use super::super::passing::{Stand, all_pass, fabric};
use super::super::quiet::is_as_good;
use super::super::rig::{Rig, TOKEN, WHOLE, document};
use super::rig::{SECRET, entry, service, until_reported};

/// A fault, the reason that the source gives, and a part of its message.
const FAULTS: [(&str, &str, &str); 24] = [
    ("status:401", "Unauthorized", "401"),
    ("status:403", "Unauthorized", "403"),
    ("status:429:2", "Upstream", "429"),
    ("status:500", "Upstream", "500"),
    ("status:503:2", "Upstream", "503"),
    ("html", "Upstream", "an HTML page: a login or an error of a proxy?"),
    ("redirect:/login", "Unauthorized", "the login page"),
    ("redirect:https://elsewhere.example/x", "Upstream", "elsewhere.example"),
    ("truncated", "Upstream", "/v1/fabric"),
    ("reset", "Upstream", "broke off"),
    ("wrong-types:50", "Upstream", "entries are unusable, for instance"),
    // The format of the document is our own, and JSON has neither NaN nor Infinity.
    ("not-numbers:50", "Upstream", "entries are unusable, for instance"),
    ("empty-object", "Upstream", "schema is missing"),
    ("slow-headers:10s", "Upstream", "the first byte of the answer took longer than"),
    ("drip", "Upstream", "took longer than"),
    ("stall-after-headers", "Upstream", "took longer than"),
    ("stall-in-body", "Upstream", "took longer than"),
    ("stall-handshake", "Upstream", "the connection took longer than 1s"),
    ("endless", "Upstream", "maxBody"),
    ("bomb:64", "Upstream", "maxBody"),
    ("expired-certificate", "Upstream", "its certificate has expired"),
    ("wrong-name-certificate", "Upstream", "its certificate is for another name"),
    ("closed", "Upstream", "TLS with"),
    ("refused", "Upstream", "cannot connect"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_the_service_leaves_the_topology_says_why_and_passes_by_itself() -> Result<()> {
    let mut stands = Vec::new();
    let patient = ("status:503:20", "Upstream", "");
    for (number, (fault, reason, words)) in FAULTS.into_iter().chain([patient]).enumerate() {
        let credentials = Credentials::none().token(TOKEN);
        let server = FabricDocument::builder(fabric(number)?).credentials(credentials).start().await?;
        let source = format!("roce-{number:02}");
        let named = format!("- source: {source}\n  discoverer: roce\n");
        let entry = entry(&server, SECRET, "").replace("- source: roce\n", &named);
        stands.push(Stand { source, fault, reason, words, server, entry });
    }
    all_pass(stands).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_did_not_change_is_one_small_request_and_no_write() -> Result<()> {
    let rig = Rig::new().await?;
    let server = service(&rig, Coverage::Complete).await?;
    rig.scene.configure(&document(&[entry(&server, SECRET, "")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&WHOLE).await;
    let before = rig.scene.plane.requests().await?;
    for round in 1..=3 {
        let asked = server.counters().requests;
        server.forget_requests();
        rig.run("roce").await?;
        server.until(|counters| counters.requests > asked && counters.answering == 0).await;
        rig.scene.until_condition("roce", "Discovered", "True", "Ok").await;
        let requests = server.requests();
        let seen: Vec<_> = requests.iter().map(|request| (request.status, request.bytes)).collect();
        assert_eq!(seen, [(Some(304), 0)], "round {round}: {requests:#?}");
        assert!(requests[0].headers.contains_key("if-none-match"), "round {round}");
    }
    assert_eq!(rig.scene.writes_since(&before).await?, (0, 0));
    // A Node is deleted: the host uses the document that it has, and the service does not send it again.
    server.forget_requests();
    rig.scene.delete_nodes(&["gpu-00003"]).await?;
    rig.until(&[(1, 3), (1, 4), (2, 7)]).await;
    assert!(server.requests().iter().all(|request| request.status == Some(304)), "{:#?}", server.requests());
    // The host sees a change in the next round.
    rig.fabric.edit(|fabric| fabric.move_host("gpu-00000", 1))?;
    rig.run("roce").await?;
    rig.until(&[(1, 2), (1, 5), (2, 7)]).await;
    host.stop().await?;
    server.stop().await;
    rig.scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_odd_document_is_as_good_as_any() -> Result<()> {
    let rig = Rig::new().await?;
    let server = service(&rig, Coverage::Complete).await?;
    rig.scene.configure(&document(&[entry(&server, SECRET, "")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&WHOLE).await;
    let odd = [("wrong-content-type", None), ("twice", None)];
    is_as_good(&rig, &host, ("roce", &server), &odd).await?;
    host.stop().await?;
    server.stop().await;
    rig.scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_or_half_document_is_held_and_forgotten_when_it_was_a_mistake() -> Result<()> {
    // Nodes come before switches in the document and the units one after the other, so half of it is one unit.
    let rig = Rig::of("units=2,hosts-per-unit=16,rails=1,pods=1,spines=2,cores=0,seed=7").await?;
    let server = service(&rig, Coverage::Complete).await?;
    // No grace keeps the place of a host without links: only the guard protects the cluster from the document.
    rig.scene.configure(&document(&[entry(&server, SECRET, "    downGrace: 0s\n")])).await?;
    let host = rig.scene.host().await?;
    rig.until(&[(1, 16), (1, 16), (2, 32)]).await;
    let faults = [("empty-list", ["EmptyResult"].as_slice()), ("half-list", &["TooManyNodesLost", "TooManyDeletions"])];
    is_held(&rig, ("roce", &server), &faults).await?;
    host.stop().await?;
    server.stop().await;
    rig.scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_partial_document_leaves_out_keeps_its_place() -> Result<()> {
    let rig = Rig::new().await?;
    let partial = service(&rig, Coverage::Partial).await?;
    let complete = service(&rig, Coverage::Complete).await?;
    // No grace keeps the place of a host without links: only the coverage that the document states decides.
    let at = |server| document(&[entry(server, SECRET, "    downGrace: 0s\n")]);
    rig.fabric.edit(|fabric| fabric.rename_host("gpu-00006", "elsewhere"))?;
    rig.scene.configure(&at(&partial)).await?;
    let host = rig.scene.host().await?;
    rig.until(&[(1, 3), (1, 4), (2, 7)]).await;
    rig.fabric.edit(|fabric| fabric.remove_host("gpu-00001"))?;
    rig.fabric.edit(|fabric| fabric.rename_host("elsewhere", "gpu-00006"))?;
    rig.run("roce").await?;
    rig.until(&WHOLE).await;
    // A document of the same content that states that it is complete: a host that is not in it is gone. When an entry
    // begins to run, every host with a place counts as alive at that moment, so the round after that is the first to
    // leave a host out.
    rig.scene.configure(&at(&complete)).await?;
    complete.until(|counters| counters.requests > 0).await;
    eventually("the host has no place any more", PATIENCE, async || {
        rig.run("roce").await.map_err(|error| error.to_string())?;
        let counts = rig.counts().await.map_err(|error| error.to_string())?;
        if counts == [(1, 3), (1, 4), (2, 7)] { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    host.stop().await?;
    partial.stop().await;
    complete.stop().await;
    rig.scene.plane.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_document_is_read_page_by_page() -> Result<()> {
    // The document has more hosts than one page holds, and the cluster has Nodes for the first and the last unit.
    let shape = "units=60,hosts-per-unit=20,rails=1,pods=1,spines=2,cores=0,seed=7";
    let fabric = SharedFabric::new(Fabric::generate(&shape.parse::<Shape>()?)?);
    let rig = Rig { scene: Scene::new().await?, fabric };
    let ours = (0..20).chain(1180..1200).map(|index| (format!("gpu-{index:05}"), Vec::<(String, String)>::new()));
    rig.scene.plane.create_nodes(ours).await?;
    rig.secret("ufm", &[("token", TOKEN)]).await?;
    let server = service(&rig, Coverage::Complete).await?;
    rig.scene.configure(&document(&[entry(&server, SECRET, "")])).await?;
    let host = rig.scene.host().await?;
    let tree = [(1, 20), (1, 20), (2, 40)];
    rig.until(&tree).await;
    let queries: Vec<String> = server.requests().into_iter().filter_map(|request| request.query).collect();
    assert_eq!(queries.first().map(String::as_str), Some("limit=1000"), "{queries:?}");
    assert!(queries.len() > 1 && queries[1].starts_with("limit=1000&cursor="), "{queries:?}");
    // The version of the first page counts for all pages.
    server.forget_requests();
    rig.run("roce").await?;
    server.until(|counters| counters.requests > queries.len() as u64 && counters.answering == 0).await;
    assert_eq!(server.requests().iter().map(|request| request.status).collect::<Vec<_>>(), [Some(304)]);
    // Pages of two different generations are not one document.
    let before = rig.versions().await?;
    rig.fabric.edit(|fabric| fabric.move_host("gpu-00000", 59))?;
    server.faults().set("changed-between-pages".parse::<FaultRule>()?).await?;
    rig.run("roce").await?;
    let message = rig.scene.until_condition("roce", "Discovered", "False", "Upstream").await;
    assert!(message.contains("the generation changed between pages in 4 attempts"), "{message}");
    assert_eq!(rig.versions().await?, before);
    server.faults().clear().await?;
    rig.run("roce").await?;
    rig.until(&[(1, 19), (1, 21), (2, 40)]).await;
    // The source reports hosts that are no Nodes, and gives them no place.
    let said = until_reported(&rig.scene, "unmatched-host").await;
    assert!(said.contains("gpu-00020: no Node matches"), "{said}");
    host.stop().await?;
    server.stop().await;
    rig.scene.plane.stop().await
}
