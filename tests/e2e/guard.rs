//! The guard holds a result that would destroy too much (decision H6).

use std::collections::BTreeMap;

use anyhow::Result;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::guest;
use topoloom_tests::scene::{PATIENCE, RACKS, Scene};

/// More nodes than the ten that may lose their place in every cluster.
const NODES: [&str; 12] = [
    "a1 ex.io/rack=a",
    "a2 ex.io/rack=a",
    "a3 ex.io/rack=a",
    "a4 ex.io/rack=a",
    "b1 ex.io/rack=b",
    "b2 ex.io/rack=b",
    "b3 ex.io/rack=b",
    "b4 ex.io/rack=b",
    "c1 ex.io/rack=c",
    "c2 ex.io/rack=c",
    "c3 ex.io/rack=c",
    "c4 ex.io/rack=c",
];
const TREE: [&str; 3] = [
    "tier 1 ex.io/rack=a (4): a1 a2 a3 a4",
    "tier 1 ex.io/rack=b (4): b1 b2 b3 b4",
    "tier 1 ex.io/rack=c (4): c1 c2 c3 c4",
];

/// The configuration with another label for the racks.
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

    // After a restart the guard holds the result again.
    let host = scene.host().await?;
    scene.until_state("label", "Held").await;
    scene.until(&TREE).await;
    // The new process first writes into the status that it starts, and later the held result: the test waits for that.
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
    for (node, at) in NODES.iter().zip(0..) {
        let name = node.split(' ').next().unwrap_or_default();
        scene.plane.relabel(name, "ex.io/row", if at < 6 { "1" } else { "2" }).await?;
    }
    scene.plane.relabel("a1", "ex.io/half", "h").await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene.until(&TREE).await;
    // Every node keeps a place: after an edit the guard does not count the share of deletions.
    scene.configure(&racks_by("ex.io/row")).await?;
    let rows = ["tier 1 ex.io/row=1 (6): a1 a2 a3 a4 b1 b2", "tier 1 ex.io/row=2 (6): b3 b4 c1 c2 c3 c4"];
    scene.until(&rows).await;
    // Most of the nodes would lose their place.
    scene.configure(&racks_by("ex.io/half")).await?;
    scene.until_condition("label", "Held", "True", "TooManyNodesLost").await;
    scene.until(&rows).await;
    scene.configure(RACKS).await?;
    scene.until(&TREE).await;
    scene.until_state("label", "Serving").await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_relabelled_deleted_and_few_nodes_explain_passes() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&NODES).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    scene.until(&TREE).await;
    // Most racks lose all nodes at the same time: the nodes are in another rack, and that explains the deletions.
    let relabel = async |nodes: &[&str], rack: &str| -> Result<()> {
        scene.cli(&["source", "pause", "label"]).await?;
        scene.until_state("label", "Paused").await;
        for node in nodes {
            scene.plane.relabel(node, "ex.io/rack", Some(rack).filter(|rack| !rack.is_empty())).await?;
        }
        scene.cli(&["source", "pause", "label", "--resume"]).await?;
        Ok(())
    };
    let (b, c) = (["b1", "b2", "b3", "b4"], ["c1", "c2", "c3", "c4"]);
    relabel(&[b, c].concat(), "a").await?;
    scene.until(&["tier 1 ex.io/rack=a (12): a1 a2 a3 a4 b1 b2 b3 b4 c1 c2 c3 c4"]).await;
    for (nodes, rack) in [(b, "b"), (c, "c")] {
        relabel(&nodes, rack).await?;
    }
    scene.until(&TREE).await;
    // Eight nodes that lose their labels are few enough to pass.
    relabel(&[b, c].concat(), "").await?;
    scene.until(&TREE[..1]).await;
    let message = scene.until_condition("label", "CoverageFalls", "True", "NodesWithoutPlace").await;
    assert!(message.contains("8 of 12 Nodes") && message.contains("more than 10 without"), "{message}");
    for (nodes, rack) in [(b, "b"), (c, "c")] {
        relabel(&nodes, rack).await?;
    }
    scene.until(&TREE).await;
    // Deleted Nodes explain every deletion of a HyperNode.
    scene.delete_nodes(&["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4"]).await?;
    scene.until(&TREE[2..]).await;
    host.stop().await
}

/// How many nodes the cluster has whose labels are wiped, two in each rack.
const WIPED: usize = 120;

/// The racks of that cluster that are stored, each with the UID of its object.
async fn racks(scene: &Scene) -> Result<BTreeMap<String, String>> {
    let stored = scene.stored().await?;
    Ok(stored.into_iter().map(|(name, object)| (name, object.metadata.uid.unwrap_or_default())).collect())
}

/// Removes the labels of these nodes, or restores them.
async fn labelled(scene: &Scene, nodes: std::ops::Range<usize>, labelled: bool) -> Result<()> {
    for n in nodes {
        let rack = format!("r{:02}", n / 2);
        scene.plane.relabel(&format!("n{n:03}"), "ex.io/rack", Some(&*rack).filter(|_| labelled)).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_wiped_while_the_host_runs_are_held_at_any_speed_and_names_survive_their_return() -> Result<()> {
    let scene = Scene::new().await?;
    let label = |n: usize| vec![("ex.io/rack", format!("r{:02}", n / 2))];
    scene.plane.create_nodes((0..WIPED).map(|n| (format!("n{n:03}"), label(n)))).await?;
    scene.configure(RACKS).await?;
    let host = scene.host().await?;
    let whole = eventually("every rack is there", PATIENCE, async || {
        let racks = racks(&scene).await.map_err(|error| error.to_string())?;
        if racks.len() == WIPED / 2 { Ok(racks) } else { Err(format!("{} racks", racks.len())) }
    })
    .await;

    // Nearly all labels are wiped at the same time: the host deletes nothing.
    scene.cli(&["source", "pause", "label"]).await?;
    scene.until_state("label", "Paused").await;
    labelled(&scene, 6..WIPED, false).await?;
    scene.cli(&["source", "pause", "label", "--resume"]).await?;
    let message = scene.until_condition("label", "Held", "True", "TooManyDeletions").await;
    assert!(message.contains("delete 57 of 60") && message.contains("114 of 120 placed Nodes"), "{message}");
    assert_eq!(racks(&scene).await?, whole);
    labelled(&scene, 6..WIPED, true).await?;
    scene.until_state("label", "Serving").await;
    assert_eq!(racks(&scene).await?, whole, "the hold ended by itself");

    // A slow wipe: one rack at a time, and the host sees each. The host deletes racks until 30 % of the nodes have lost
    // their place.
    let rows = async |left: usize| {
        eventually(&format!("{left} racks are left"), PATIENCE, async || {
            let racks = racks(&scene).await.map_err(|error| error.to_string())?;
            if racks.len() == left { Ok(()) } else { Err(format!("{} racks", racks.len())) }
        })
        .await;
    };
    for rack in 0..9 {
        labelled(&scene, 2 * rack..2 * rack + 2, false).await?;
        rows(59 - rack).await;
    }
    let message = scene.until_condition("label", "CoverageFalls", "True", "NodesWithoutPlace").await;
    assert!(message.contains("of 120 Nodes"), "{message}");
    for series in ["topoloom_nodes{source=\"label\"} 120", "topoloom_nodes_covered{source=\"label\"} 102"] {
        eventually(series, PATIENCE, async || {
            let metrics = host.get("/metrics").await.map_err(|error| error.to_string())?;
            if metrics.contains(&format!("\n{series}\n")) { Ok(()) } else { Err(metrics) }
        })
        .await;
    }
    // The host is killed, and the next one still counts the nodes that lost their place.
    eventually("what went is written down", PATIENCE, async || {
        let status = scene.source("label").await.map_err(|error| error.to_string())?.status;
        let lost: i64 = status.lost_nodes.iter().map(|lost| lost.nodes).sum();
        if lost == 18 { Ok(()) } else { Err(format!("{:?}", status.lost_nodes)) }
    })
    .await;
    scene.kill(host).await?;
    let host = scene.host().await?;
    for rack in 9..18 {
        labelled(&scene, 2 * rack..2 * rack + 2, false).await?;
        rows(59 - rack).await;
    }
    labelled(&scene, 36..37, false).await?;
    let message = scene.until_condition("label", "Held", "True", "TooManyNodesLost").await;
    assert!(message.contains("37 of 120 placed Nodes") && message.contains("36 of them lost it"), "{message}");
    labelled(&scene, 37..WIPED, false).await?;
    scene.until_condition("label", "Held", "True", "EmptyResult").await;
    let left = racks(&scene).await?;
    assert_eq!(left.len(), 42);
    // All labels are restored, and the racks have their names again.
    labelled(&scene, 0..WIPED, true).await?;
    rows(60).await;
    scene.until_state("label", "Serving").await;
    let back = racks(&scene).await?;
    assert!(back.keys().eq(whole.keys()), "{back:?}");
    assert!(left.iter().all(|(name, uid)| back[name] == *uid), "the held racks are the same objects");
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn agreeing_rounds_over_time_confirm_what_is_not_empty() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&NODES).await?;
    scene.plane.relabel("a1", "ex.io/half", "h").await?;
    let quick = |text: &str| text.replace("  enabled: true\n", "  enabled: true\n  safety: {holdFor: 2s}\n");
    scene.configure(&quick(RACKS)).await?;
    let host = scene.host().await?;
    scene.until(&TREE).await;
    scene.configure(&quick(&racks_by("ex.io/half"))).await?;
    scene.until_condition("label", "Held", "True", "TooManyNodesLost").await;
    scene.until(&["tier 1 ex.io/half=h (1): a1"]).await;
    host.stop().await
}

/// An entry whose plugin gives these answers one after the other; the operator requests each round.
fn scripted(scene: &Scene, safety: &str, answers: &[&str]) -> Result<String> {
    let file = guest::file("topoloom-guest-scripted", scene.plane.folder())?;
    let plugin = format!("plugin: {{file: {}}}, permissions: {{nodeLabels: [example.com/round]}}", file.display());
    let config = format!("config: {{answers: [{}]}}", answers.join(", "));
    Ok(format!("networkTopologyDiscovery:\n- {{source: s, enabled: true, safety: {{{safety}}}, {plugin}, {config}}}\n"))
}

/// Four nodes for each group, so that three groups have more nodes than the ten that may lose their place in every
/// cluster.
const FIVE: &str = "[{id: a, nodes: [a1, a2, a3, a4]}, {id: b, nodes: [b1, b2, b3, b4]}, {id: c, nodes: [c1, c2, c3, c4]}, \
                    {id: d, nodes: [d1, d2, d3, d4]}, {id: e, nodes: [e1, e2, e3, e4]}]";
const HALF: &str = "[{id: a, nodes: [a1, a2, a3, a4]}, {id: b, nodes: [b1, b2, b3, b4]}]";
const FIVE_TREE: [&str; 5] = [
    "tier 1 s a (4): a1 a2 a3 a4",
    "tier 1 s b (4): b1 b2 b3 b4",
    "tier 1 s c (4): c1 c2 c3 c4",
    "tier 1 s d (4): d1 d2 d3 d4",
    "tier 1 s e (4): e1 e2 e3 e4",
];

/// Creates the nodes of the five groups.
async fn twenty(scene: &Scene) -> Result<()> {
    let nodes = ["a", "b", "c", "d", "e"].iter().flat_map(|group| (1..=4).map(move |n| format!("{group}{n}")));
    scene.nodes(&nodes.collect::<Vec<_>>().iter().map(String::as_str).collect::<Vec<_>>()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn half_a_list_is_held_and_a_whole_one_ends_that() -> Result<()> {
    let scene = Scene::new().await?;
    twenty(&scene).await?;
    scene.configure(&scripted(&scene, "", &[FIVE, HALF, FIVE])?).await?;
    let host = scene.host().await?;
    scene.until(&FIVE_TREE).await;
    scene.cli(&["source", "run", "s"]).await?;
    let message = scene.until_condition("s", "Held", "True", "TooManyDeletions").await;
    assert!(message.contains("delete 3 of 5") && message.contains("12 of 20 placed Nodes"), "{message}");
    scene.until(&FIVE_TREE).await;
    // The plugin answers with all groups again: nothing was lost, and the operator has nothing to confirm.
    scene.cli(&["source", "run", "s"]).await?;
    scene.until_state("s", "Serving").await;
    scene.until(&FIVE_TREE).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limits_of_an_entry_count() -> Result<()> {
    let scene = Scene::new().await?;
    twenty(&scene).await?;
    let safety = "maxDeletePercent: 60, maxLosePercent: 60";
    scene.configure(&scripted(&scene, safety, &[FIVE, HALF, "[]"])?).await?;
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
    // The plugin answers with names of Nodes without the grant: the source records that the host must not show the
    // plugin the Nodes of its objects.
    assert_eq!(scene.source("s").await?.status.nodes_by_name, Some(true));
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_agreeing_rounds_count_from_the_beginning() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&NODES).await?;
    scene.plane.relabel("a1", "ex.io/half", "h").await?;
    let held = |hold_for: &str| {
        let safety = format!("  enabled: true\n  safety: {{holdFor: {hold_for}}}\n");
        racks_by("ex.io/half").replace("  enabled: true\n", &safety)
    };
    scene.configure(RACKS).await?;
    scene.run_until(&TREE).await?;
    // The operator edits while the host is down, and the guard holds the result all the same; a restart does not
    // shorten the wait.
    scene.configure(&held("1h")).await?;
    for _ in 0..2 {
        let host = scene.host().await?;
        // Until then the status is from the process before.
        eventually("a round of this process", PATIENCE, async || {
            let metrics = host.get("/metrics").await.map_err(|error| error.to_string())?;
            if metrics.contains("\ntopoloom_rounds_total{") { Ok(()) } else { Err("there was none".to_owned()) }
        })
        .await;
        eventually("one round of this process has confirmed it", PATIENCE, async || {
            let status = scene.source("label").await.map_err(|error| error.to_string())?.status;
            match &status.held {
                Some(held) if held.confirmations == 1 => Ok(()),
                _ => Err(format!("{status:#?}")),
            }
        })
        .await;
        let message = scene.until_condition("label", "Held", "True", "TooManyNodesLost").await;
        assert!(message.contains("11 of 12 placed Nodes"), "{message}");
        scene.until(&TREE).await;
        host.stop().await?;
    }
    // The operator sets a shorter wait: rounds of this process confirm the result.
    scene.configure(&held("2s")).await?;
    let host = scene.host().await?;
    scene.until(&["tier 1 ex.io/half=h (1): a1"]).await;
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
    // The operator restores the labels, and leaves `confirm` in the entry.
    scene.configure(&confirmed(RACKS)).await?;
    scene.until(&TREE).await;
    host.stop().await?;
    // This empty result has the same hash as the one before, but the operator confirmed only the one before.
    scene.configure(&confirmed(&none)).await?;
    let host = scene.host().await?;
    scene.until_condition("label", "Held", "True", "EmptyResult").await;
    scene.until(&TREE).await;
    host.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_is_decided_about_again_while_rounds_fail_is_not_confirmed_by_that() -> Result<()> {
    let scene = Scene::new().await?;
    twenty(&scene).await?;
    let answers = [FIVE, HALF, "{fail: the fabric is away}"];
    scene.configure(&scripted(&scene, "holdFor: 1s", &answers)?).await?;
    let host = scene.host().await?;
    scene.until(&FIVE_TREE).await;
    scene.cli(&["source", "run", "s"]).await?;
    scene.until_condition("s", "Held", "True", "TooManyDeletions").await;
    // The round that would confirm the result fails, and the wait is over.
    scene.until_condition("s", "Discovered", "False", "Upstream").await;
    // Another client changes an object, which makes the host decide again.
    let name = scene.name_of("s a").await?;
    scene.plane.kubectl(&["label", "hypernode", &name, "touched=yes"]).await?;
    scene.until_condition("s", "SecondWriter", "True", "ForeignWriter").await;
    assert_eq!(scene.source("s").await?.status.held.expect("it is still held").confirmations, 1);
    assert_eq!(scene.topology().await?.len(), 5);
    host.stop().await
}

const WEST: [&str; 9] = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"];

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_a_selector_places_are_placed_and_can_be_lost() -> Result<()> {
    let scene = Scene::new().await?;
    let zone = |zone: &str, nodes: &[&str]| -> Vec<String> {
        nodes.iter().map(|node| format!("{node} example.com/zone={zone}")).collect()
    };
    let nodes = [zone("east", &["a", "b"]), zone("west", &WEST)].concat();
    scene.nodes(&nodes.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let zones = |east: &str, west: &str| format!("[{{id: e, zone: {east}}}, {{id: w, zone: {west}}}]");
    let lists = &format!("[{{id: e, nodes: [a, b]}}, {{id: w, nodes: [{}]}}]", WEST.join(", "));
    let answers = [&*zones("east", "west"), lists, &zones("east", "west"), &zones("neither", "none")];
    scene.configure(&scripted(&scene, "", &answers)?).await?;
    let host = scene.host().await?;
    let by_zone = ["tier 1 s e (2): ?", "tier 1 s w (9): ?"];
    scene.until(&by_zone).await;
    // From selectors to lists of the same nodes and back: no group loses a node.
    scene.cli(&["source", "run", "s"]).await?;
    scene.until(&["tier 1 s e (2): a b", &format!("tier 1 s w (9): {}", WEST.join(" "))]).await;
    scene.cli(&["source", "run", "s"]).await?;
    scene.until(&by_zone).await;
    scene.cli(&["source", "run", "s"]).await?;
    let message = scene.until_condition("s", "Held", "True", "TooManyNodesLost").await;
    assert!(message.contains("11 of 11 placed Nodes"), "{message}");
    scene.until(&by_zone).await;
    host.stop().await
}
