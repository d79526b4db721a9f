//! The host repairs its objects after changes by other clients, and does not write an object that is right.

use anyhow::Result;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use topoloom_tests::scene::{RACKS, Scene};

const TREE: [&str; 3] = [
    "tier 2 ex.io/spine=s (3): ex.io/rack=a ex.io/rack=b",
    "tier 1 ex.io/rack=a (2): m1 m2",
    "tier 1 ex.io/rack=b (1): m3",
];

async fn racks() -> Result<Scene> {
    let scene = Scene::new().await?;
    scene
        .nodes(&[
            "m1 ex.io/rack=a ex.io/spine=s",
            "m2 ex.io/rack=a ex.io/spine=s",
            "m3 ex.io/rack=b ex.io/spine=s",
            "free",
        ])
        .await?;
    scene.configure(RACKS).await?;
    Ok(scene)
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_and_deleted_objects_come_back() -> Result<()> {
    let scene = racks().await?;
    let host = scene.host().await?;
    scene.until(&TREE).await;
    let stored = scene.stored().await?;
    let name = |label: &str, value: &str| {
        let found = stored.iter().find(|(_, object)| {
            object.metadata.labels.as_ref().unwrap().get(label).is_some_and(|found| found == value)
        });
        found.unwrap().0.clone()
    };
    let (rack, spine) = (name("ex.io/rack", "a"), name("ex.io/spine", "s"));
    let edit = json!({"spec": {"members": [{"type": "Node", "selector": {"exactMatch": {"name": "free"}}}]}});
    scene.hyper_nodes().patch(&rack, &PatchParams::default(), &Patch::Merge(&edit)).await?;
    scene.until(&TREE).await;
    let edit = json!({"spec": {"tier": 7, "tierName": "nonsense"}, "metadata": {"labels": {"ex.io/spine": "other"}}});
    scene.hyper_nodes().patch(&spine, &PatchParams::default(), &Patch::Merge(&edit)).await?;
    scene.until(&TREE).await;
    assert_eq!(scene.stored().await?[&spine].spec.tier_name.as_deref(), Some("ex.io/spine"));
    scene.hyper_nodes().delete(&spine, &DeleteParams::default()).await?;
    scene.until(&TREE).await;
    assert!(scene.stored().await?.contains_key(&spine), "it comes back under its name");
    let edit = json!({"status": {"nodeCount": 99}});
    scene.hyper_nodes().patch_status(&rack, &PatchParams::default(), &Patch::Merge(&edit)).await?;
    scene.until(&TREE).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_where_nothing_differs() -> Result<()> {
    let scene = racks().await?;
    let host = scene.host().await?;
    scene.until(&TREE).await;
    scene.until_condition("label", "Applied", "True", "Ok").await;
    let counted = scene.plane.requests().await?;

    // A change of a node label that no source reads, and a round that the operator requests.
    scene.plane.relabel("free", "other.io/key", "v").await?;
    let before = scene.source("label").await?.metadata.resource_version;
    scene.cli(&["source", "run", "label"]).await?;
    topoloom_tests::controlplane::eventually("the verb is taken off", std::time::Duration::from_secs(20), async || {
        let object = scene.source("label").await.map_err(|error| error.to_string())?;
        match object.metadata.annotations.unwrap_or_default().contains_key("topoloom.dev/run")
            || object.metadata.resource_version == before
        {
            true => Err("it is still there".to_owned()),
            false => Ok(()),
        }
    })
    .await;
    let rounds = |text: &str| {
        text.lines()
            .find(|line| line.starts_with("topoloom_rounds_total") && line.contains("\"ok\""))
            .map(str::to_owned)
    };
    topoloom_tests::controlplane::eventually("the round has run", std::time::Duration::from_secs(20), async || {
        let text = host.get("/metrics").await.map_err(|error| error.to_string())?;
        match rounds(&text) {
            Some(line) if line.ends_with(" 2") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(scene.writes_since(&counted).await?, (0, 0), "an unchanged round");
    host.stop().await?;

    let host = scene.host().await?;
    scene.until_condition("label", "Applied", "True", "Ok").await;
    topoloom_tests::controlplane::eventually("the round has run", std::time::Duration::from_secs(20), async || {
        let text = host.get("/metrics").await.map_err(|error| error.to_string())?;
        rounds(&text).map(drop).ok_or(text)
    })
    .await;
    assert_eq!(scene.writes_since(&counted).await?, (0, 0), "a restart on an unchanged cluster");

    // One node moves between two racks of one spine: the host writes two specs and two counts.
    scene.plane.relabel("m2", "ex.io/rack", "b").await?;
    scene
        .until(&[
            "tier 2 ex.io/spine=s (3): ex.io/rack=a ex.io/rack=b",
            "tier 1 ex.io/rack=a (1): m1",
            "tier 1 ex.io/rack=b (2): m2 m3",
        ])
        .await;
    // The API server counts a request after it has answered it.
    topoloom_tests::controlplane::eventually(
        "one moved node costs two and two writes",
        std::time::Duration::from_secs(10),
        async || match scene.writes_since(&counted).await.map_err(|error| error.to_string())? {
            (2, 2) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_keeps_writing_our_objects_is_named_and_not_fought() -> Result<()> {
    let scene = racks().await?;
    let host = scene.host().await?;
    scene.until(&TREE).await;
    let rack = scene.name_of("ex.io/rack=a").await?;
    let other = PatchParams { field_manager: Some("vc-controller-manager".into()), ..PatchParams::default() };
    for member in 0..5 {
        scene.until(&TREE).await;
        let name = format!("other-{member}");
        let edit = json!({"spec": {"members": [{"type": "Node", "selector": {"exactMatch": {"name": name}}}]}});
        scene.hyper_nodes().patch(&rack, &other, &Patch::Merge(&edit)).await?;
    }
    let message = scene.until_condition("label", "SecondWriter", "True", "ForeignWriter").await;
    assert!(message.contains("vc-controller-manager"), "{message}");
    let message = scene.until_condition("label", "Applied", "False", "ForeignWriter").await;
    assert!(message.contains("not made"), "{message}");
    let foreign = scene.stored().await?.remove(&rack).unwrap();
    let member = foreign.spec.members[0].selector.as_ref().and_then(|selector| selector.exact_match.as_ref());
    assert_eq!(member.map(|exact| exact.name.as_str()), Some("other-4"), "the other program's write stays for now");
    host.stop().await
}
