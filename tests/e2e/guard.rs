//! What would destroy too much is held (decision H6).

use anyhow::Result;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::guest;
use topoloom_tests::scene::{PATIENCE, RACKS, Scene};

const NODES: [&str; 6] =
    ["a1 ex.io/rack=a", "a2 ex.io/rack=a", "b1 ex.io/rack=b", "b2 ex.io/rack=b", "c1 ex.io/rack=c", "c2 ex.io/rack=c"];
const TREE: [&str; 3] =
    ["tier 1 ex.io/rack=a (2): a1 a2", "tier 1 ex.io/rack=b (2): b1 b2", "tier 1 ex.io/rack=c (2): c1 c2"];

/// The configuration with another inner label.
fn racks_by(key: &str) -> String {
    RACKS.replace("ex.io/rack", key)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_loses_every_placement_is_held_until_the_operator_confirms_that_result() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&NODES).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene.until(&TREE).await;
    // No node has this label: the result is empty.
    scene.configure(&racks_by("ex.io/nothing")).await?;
    scene.until_state("label", "Held").await;
    scene.until_condition("label", "Held", "True", "EmptyResult").await;
    scene.until(&TREE).await;
    host.stop().await?;

    // A restart in between forgets nothing that matters: it is held again.
    let host = scene.host().await?;
    scene.until_state("label", "Held").await;
    scene.until(&TREE).await;
    // What is held stands in the status again when this life has said so, in place of that it begins.
    eventually("another result is not the one that is held", PATIENCE, async || {
        let wrong = scene.cli(&["confirm", "label", "--result", "000000000000"]).await;
        let said = wrong.err().map(|error| error.to_string()).unwrap_or_default();
        if said.contains("holds result") { Ok(()) } else { Err(said) }
    })
    .await;
    eventually("it is confirmed", PATIENCE, async || {
        scene.cli(&["confirm", "label"]).await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    scene.until(&[]).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_keeps_placement_passes_and_one_that_loses_some_is_held() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&NODES).await?;
    for (node, row) in [("a1", "1"), ("a2", "1"), ("b1", "1"), ("b2", "2"), ("c1", "2"), ("c2", "2")] {
        scene.plane.relabel(node, "ex.io/row", row).await?;
    }
    for node in ["a1", "a2", "b1"] {
        scene.plane.relabel(node, "ex.io/half", "h").await?;
    }
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene.until(&TREE).await;
    // Every node keeps a place: the delete share is not counted after an edit.
    scene.configure(&racks_by("ex.io/row")).await?;
    scene.until(&["tier 1 ex.io/row=1 (3): a1 a2 b1", "tier 1 ex.io/row=2 (3): b2 c1 c2"]).await;
    // Half of the nodes would lose theirs.
    scene.configure(&racks_by("ex.io/half")).await?;
    scene.until_condition("label", "Held", "True", "TooManyNodesLost").await;
    scene.until(&["tier 1 ex.io/row=1 (3): a1 a2 b1", "tier 1 ex.io/row=2 (3): b2 c1 c2"]).await;
    scene.configure(RACKS).await?;
    scene.until(&TREE).await;
    scene.until_state("label", "Serving").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_labels_and_deleted_nodes_explain_passes() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&NODES).await?;
    scene.nodes(&["d1 ex.io/rack=d", "d2 ex.io/rack=d"]).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    let with_d = [TREE[0], TREE[1], TREE[2], "tier 1 ex.io/rack=d (2): d1 d2"];
    scene.until(&with_d).await;
    // Most racks are dissolved at one time: their nodes lose the label, and that explains it.
    scene.cli(&["source", "pause", "label"]).await?;
    scene.until_state("label", "Paused").await;
    for node in ["b1", "b2", "c1", "c2", "d1", "d2"] {
        scene.plane.relabel(node, "ex.io/rack", None).await?;
    }
    scene.cli(&["source", "pause", "label", "--resume"]).await?;
    scene.until(&TREE[..1]).await;
    for (node, rack) in [("b1", "b"), ("b2", "b"), ("c1", "c"), ("c2", "c"), ("d1", "d"), ("d2", "d")] {
        scene.plane.relabel(node, "ex.io/rack", rack).await?;
    }
    scene.until(&with_d).await;
    // Nodes that are gone explain every deletion.
    scene.delete_nodes(&["a1", "a2", "b1", "b2", "c1", "c2"]).await?;
    scene.until(&["tier 1 ex.io/rack=d (2): d1 d2"]).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn agreeing_rounds_over_time_confirm_what_is_not_empty() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&NODES).await?;
    for node in ["a1", "a2", "b1"] {
        scene.plane.relabel(node, "ex.io/half", "h").await?;
    }
    let quick = |text: &str| text.replace("  enabled: true\n", "  enabled: true\n  safety: {holdFor: 2s}\n");
    scene.configure(&quick(RACKS)).await?;
    let host = scene.host().await?;
    scene.until(&TREE).await;
    scene.configure(&quick(&racks_by("ex.io/half"))).await?;
    scene.until_condition("label", "Held", "True", "TooManyNodesLost").await;
    scene.until(&["tier 1 ex.io/half=h (3): a1 a2 b1"]).await;
    host.stop().await
}

/// An entry whose plugin gives these answers one after the other; the operator asks for each round.
fn scripted(scene: &Scene, safety: &str, answers: &[&str]) -> Result<String> {
    let file = guest::file("topoloom-guest-scripted", scene.plane.folder())?;
    let plugin = format!("plugin: {{file: {}}}, permissions: {{nodeLabels: [example.com/round]}}", file.display());
    let config = format!("config: {{answers: [{}]}}", answers.join(", "));
    Ok(format!("networkTopologyDiscovery:\n- {{source: s, enabled: true, safety: {{{safety}}}, {plugin}, {config}}}\n"))
}

const FIVE: &str =
    "[{id: a, nodes: [a]}, {id: b, nodes: [b]}, {id: c, nodes: [c]}, {id: d, nodes: [d]}, {id: e, nodes: [e]}]";
const FIVE_TREE: [&str; 5] =
    ["tier 1 s a (1): a", "tier 1 s b (1): b", "tier 1 s c (1): c", "tier 1 s d (1): d", "tier 1 s e (1): e"];

#[tokio::test(flavor = "multi_thread")]
async fn half_a_list_is_held_and_a_whole_one_ends_that() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a", "b", "c", "d", "e"]).await?;
    let half = "[{id: a, nodes: [a]}, {id: b, nodes: [b]}]";
    scene.configure(&scripted(&scene, "", &[FIVE, half, FIVE])?).await?;
    let host = scene.host().await?;
    scene.until(&FIVE_TREE).await;
    scene.cli(&["source", "run", "s"]).await?;
    let message = scene.until_condition("s", "Held", "True", "TooManyDeletions").await;
    assert!(message.contains("delete 3 of 5") && message.contains("3 of 5 placed Nodes"), "{message}");
    scene.until(&FIVE_TREE).await;
    // The fabric answers fully again: nothing was lost, nothing is to be confirmed.
    scene.cli(&["source", "run", "s"]).await?;
    scene.until_state("s", "Serving").await;
    scene.until(&FIVE_TREE).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_of_an_entry_count() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a", "b", "c", "d", "e"]).await?;
    let half = "[{id: a, nodes: [a]}, {id: b, nodes: [b]}]";
    let safety = "maxDeletePercent: 60, maxLosePercent: 60";
    scene.configure(&scripted(&scene, safety, &[FIVE, half, "[]"])?).await?;
    let host = scene.host().await?;
    scene.until(&FIVE_TREE).await;
    scene.cli(&["source", "run", "s"]).await?;
    scene.until(&FIVE_TREE[..2]).await;
    scene.cli(&["source", "run", "s"]).await?;
    scene.until_condition("s", "Held", "True", "EmptyResult").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_object_alone_is_no_mass_loss() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a", "b"]).await?;
    scene.configure(&scripted(&scene, "", &["[{id: x, nodes: [a]}]", "[{id: yy, nodes: [b]}]"])?).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 s x (1): a"]).await;
    scene.cli(&["source", "run", "s"]).await?;
    scene.until(&["tier 1 s yy (1): b"]).await;
    // The plugin answers by name without the grant: the source remembers that its objects must not show it their Nodes.
    assert_eq!(scene.source("s").await?.status.nodes_by_name, Some(true));
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_agreeing_rounds_count_from_the_beginning() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&NODES).await?;
    for node in ["a1", "a2", "b1"] {
        scene.plane.relabel(node, "ex.io/half", "h").await?;
    }
    let held = |hold_for: &str| {
        let safety = format!("  enabled: true\n  safety: {{holdFor: {hold_for}}}\n");
        racks_by("ex.io/half").replace("  enabled: true\n", &safety)
    };
    scene.configure(RACKS).await?;
    scene.run_until(&TREE).await?;
    // The edit comes while the host is down, and is held all the same; a restart does not shorten the wait.
    scene.configure(&held("1h")).await?;
    for _ in 0..2 {
        let host = scene.host().await?;
        // What the status says before is from the life before.
        eventually("a round of this life", PATIENCE, async || {
            let metrics = host.get("/metrics").await.map_err(|error| error.to_string())?;
            if metrics.contains("\ntopoloom_rounds_total{") { Ok(()) } else { Err("there was none".to_owned()) }
        })
        .await;
        eventually("one round of this life has confirmed it", PATIENCE, async || {
            let status = scene.source("label").await.map_err(|error| error.to_string())?.status;
            match &status.held {
                Some(held) if held.confirmations == 1 => Ok(()),
                _ => Err(format!("{status:#?}")),
            }
        })
        .await;
        let message = scene.until_condition("label", "Held", "True", "TooManyNodesLost").await;
        assert!(message.contains("3 of 6 placed Nodes"), "{message}");
        scene.until(&TREE).await;
        host.stop().await?;
    }
    // A shorter wait is the operator's to set: it is confirmed by the rounds of this life.
    scene.configure(&held("2s")).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 ex.io/half=h (3): a1 a2 b1"]).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_that_still_stands_in_the_entry_confirms_nothing_after_a_restart() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&NODES).await?;
    scene.configure(RACKS).await?;
    scene.run_until(&TREE).await?;
    let none = racks_by("ex.io/none");
    scene.configure(&none).await?;
    let host = scene.host().await?;
    scene.until_condition("label", "Held", "True", "EmptyResult").await;
    let hash = scene.source("label").await?.status.held.expect("it is held").hash;
    let confirmed = |text: &str| text.replace("  enabled: true\n", &format!("  enabled: true\n  confirm: '{hash}'\n"));
    scene.configure(&confirmed(&none)).await?;
    scene.until(&[]).await;
    // The labels come back, and the word stays where it is.
    scene.configure(&confirmed(RACKS)).await?;
    scene.until(&TREE).await;
    host.stop().await?;
    // An empty result has the same hash as the one of before. The word was about that one.
    scene.configure(&confirmed(&none)).await?;
    let host = scene.host().await?;
    scene.until_condition("label", "Held", "True", "EmptyResult").await;
    scene.until(&TREE).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_decided_about_again_while_rounds_fail_is_not_confirmed_by_that() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["a", "b", "c", "d", "e"]).await?;
    let half = "[{id: a, nodes: [a]}, {id: b, nodes: [b]}]";
    let answers = [FIVE, half, "{fail: the fabric is away}"];
    scene.configure(&scripted(&scene, "holdFor: 1s", &answers)?).await?;
    let host = scene.host().await?;
    scene.until(&FIVE_TREE).await;
    scene.cli(&["source", "run", "s"]).await?;
    scene.until_condition("s", "Held", "True", "TooManyDeletions").await;
    // The round that would agree fails, and the wait is over.
    scene.until_condition("s", "Discovered", "False", "Upstream").await;
    // Somebody touches an object, which makes the host decide again.
    let name = scene.name_of("s a").await?;
    scene.plane.kubectl(&["label", "hypernode", &name, "somebody=else"]).await?;
    scene.until_condition("s", "SecondWriter", "True", "ForeignWriter").await;
    assert_eq!(scene.source("s").await?.status.held.expect("it is still held").confirmations, 1);
    assert_eq!(scene.topology().await?.len(), 5);
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_a_selector_places_are_placed_and_can_be_lost() -> Result<()> {
    let scene = Scene::new().await?;
    let zone = |zone: &str, nodes: &[&str]| -> Vec<String> {
        nodes.iter().map(|node| format!("{node} example.com/zone={zone}")).collect()
    };
    let nodes = [zone("east", &["a", "b"]), zone("west", &["c", "d"])].concat();
    scene.nodes(&nodes.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let zones = |east: &str, west: &str| format!("[{{id: e, zone: {east}}}, {{id: w, zone: {west}}}]");
    let lists = "[{id: e, nodes: [a, b]}, {id: w, nodes: [c, d]}]";
    let answers = [&zones("east", "west"), lists, &zones("east", "west"), &zones("nobody", "none")];
    scene.configure(&scripted(&scene, "", &answers)?).await?;
    let host = scene.host().await?;
    let by_zone = ["tier 1 s e (2): ?", "tier 1 s w (2): ?"];
    scene.until(&by_zone).await;
    // From selectors to lists of the same nodes and back: nobody loses anything.
    scene.cli(&["source", "run", "s"]).await?;
    scene.until(&["tier 1 s e (2): a b", "tier 1 s w (2): c d"]).await;
    scene.cli(&["source", "run", "s"]).await?;
    scene.until(&by_zone).await;
    scene.cli(&["source", "run", "s"]).await?;
    let message = scene.until_condition("s", "Held", "True", "TooManyNodesLost").await;
    assert!(message.contains("4 of 4 placed Nodes"), "{message}");
    scene.until(&by_zone).await;
    host.stop().await
}
