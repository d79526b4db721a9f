//! Labels of identity that a person takes off virtual nodes while pods run there, and a copy of one that a person made (decisions S1, S4,
//! S6 and S22).

use std::fs::read_to_string;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use topoloom_sync::keys;
use topoloom_syncer::heartbeats;
use topoloom_tests::controlplane::{KEEPERS, SCALED, Wanted, WriteKind, eventually};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::group::ready;
use super::super::lent::{Lent, condition, now, says};
use super::super::pair::BORROWED;
use super::super::{phase, until_pod};
use super::{bound, claim, is_terminating, pass, player, pods, states, uid};

const NODES: [&str; 2] = ["vnode-east-w1", "vnode-east-w2"];
const IDENTITY: [&str; 3] = [keys::VIRTUAL_CLUSTER, keys::BINDING, keys::BINDING_UID];
/// A node whose lease is not renewed is Unknown by then, and its pods are evicted.
const GRACE: Duration = Duration::from_secs(11);

/// What a person does, and whether the syncer starts again meanwhile.
struct Wipe {
    labels: [Value; 2],
    restarts: bool,
}

/// These labels of a node get this value.
fn all(keys: &[&str], value: &Value) -> Value {
    keys.iter().map(|key| ((*key).to_owned(), value.clone())).collect()
}

fn wipes() -> [Wipe; 3] {
    let each = |value: &Value| [all(&[keys::VIRTUAL_CLUSTER], value), all(&[keys::BINDING], value)];
    let empty = json!("");
    [
        Wipe { labels: each(&Value::Null), restarts: false },
        Wipe { labels: each(&empty), restarts: true },
        Wipe { labels: [all(&IDENTITY, &Value::Null), all(&IDENTITY, &empty)], restarts: true },
    ]
}

/// Labels a virtual node, as `kubectl label` does.
async fn label(lent: &Lent, node: &str, labels: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
    lent.lent().patch(node, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The labels of identity of a node.
fn identity_of(node: &Value) -> Value {
    IDENTITY.iter().map(|key| ((*key).to_owned(), node["metadata"]["labels"][key].clone())).collect()
}

/// The binding names these nodes, and no others.
async fn until_named(lent: &Lent, nodes: &[&str]) {
    let is_said = |binding: &Value| {
        let [status, reason, message] = condition(binding, "Conflict");
        (status, reason) == ("True", "NodesUnclear") && nodes.iter().all(|node| message.contains(node))
    };
    lent.until_binding("east", "names the nodes", is_said).await;
}

/// A person takes labels off both nodes, for longer than a lease lasts, and writes them again.
async fn play(lent: &mut Lent, wipe: &Wipe, stop: &mut CancellationToken, number: usize) -> Result<()> {
    let identity = identity_of(&lent.until(NODES[0], "is there", |_| true).await);
    let holder = format!("replica-{number}");
    let replica = lent.replica(&holder, now, heartbeats::Clock::machine()).await?;
    if wipe.restarts {
        stop.cancel();
    }
    let began = Instant::now();
    for (node, labels) in NODES.into_iter().zip(&wipe.labels) {
        label(lent, node, labels).await?;
    }
    if wipe.restarts {
        *stop = CancellationToken::new();
        lent.serve_by(replica, "east", stop.clone()).await?;
        lent.until_binding("east", "has the next holder", |it| it["status"]["holder"] == *holder).await;
    }
    until_named(lent, &NODES).await;
    pass(began, GRACE).await;
    let written =
        json!({keys::VIRTUAL_CLUSTER: identity[keys::VIRTUAL_CLUSTER], keys::BINDING: identity[keys::BINDING]});
    for node in NODES {
        label(lent, node, &written).await?;
        lent.until(node, "has its identity again", |node| identity_of(node) == identity).await;
    }
    lent.until_binding("east", "is well again", |binding| says(binding, "Conflict", "False", "Ok")).await;
    Ok(())
}

/// Without the UID of its binding a node is adopted at once.
async fn adopted(lent: &Lent) -> Result<()> {
    for (node, wiped) in NODES.into_iter().zip([Value::Null, json!("")]) {
        let identity = identity_of(&lent.until(node, "is there", |_| true).await);
        label(lent, node, &json!({keys::BINDING_UID: wiped})).await?;
        lent.until(node, "has the UID of its binding again", |node| identity_of(node) == identity).await;
    }
    Ok(())
}

/// A copy of a virtual node leads to no machine: it is named, and goes when a person has deleted it.
async fn copied(lent: &Lent) -> Result<()> {
    let name = "vnode-east-copy";
    let original = lent.until(NODES[0], "is there", |_| true).await;
    let part = |key: &str| original["metadata"][key].clone();
    let copy = json!({
        "metadata": {
            "name": name, "labels": part("labels"), "annotations": part("annotations"), "finalizers": part("finalizers"),
        },
    });
    lent.lent().create(&PostParams::default(), &serde_json::from_value(copy)?).await?;
    until_named(lent, &[name]).await;
    lent.lent().delete(name, &DeleteParams::default()).await?;
    eventually("the copy is gone", PATIENCE, async || match lent.lent().get_opt(name).await {
        Ok(None) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    lent.until_binding("east", "is well again", |binding| says(binding, "Conflict", "False", "Ok")).await;
    Ok(())
}

/// Everything is as it was: no node was Unknown, each renewal followed the one before, and no pod went.
async fn judge(lent: &Lent, revision: u64, before: &[Pod]) -> Result<()> {
    let (plane, identity) = (&lent.virtual_plane, lent.identity("east").await?);
    for (node, machine) in NODES.into_iter().zip(["w1", "w2"]) {
        let states = states(plane, &format!("/registry/minions/{node}"), revision).await?;
        assert!(!states.is_empty() && states.iter().all(|state| ready(state) == "True"), "{node}: {states:#?}");
        assert!(!states.iter().any(is_terminating), "{node}");
        let writes = plane.writes_since(&format!("/registry/leases/kube-node-lease/{node}"), revision + 1).await?;
        let puts = writes.iter().filter(|write| write.kind == WriteKind::Put);
        let times = puts.filter_map(|write| write.value["spec"]["renewTime"].as_str()?.parse::<Timestamp>().ok());
        let times: Vec<Timestamp> = times.collect();
        assert!(times.len() > 10 && times.windows(2).all(|pair| pair[0] < pair[1]), "{node}: {times:?}");
        let machine = serde_json::to_value(lent.machines().get(machine).await?)?;
        assert_eq!(claim(&machine), Some(identity.claim().as_str()), "{node}");
    }
    for pod in before {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let now = pods(plane).get(name).await?;
        assert_eq!((uid(&now), phase(&now), now.metadata.deletion_timestamp.is_none()), (uid(pod), "Running", true));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn s6_labels_of_identity_that_a_person_takes_off_evict_no_pod_also_while_the_syncer_starts_again() -> Result<()> {
    let planes = Scene::planes([Wanted::Shared, Wanted::Shared]).await?;
    let mut lent = Lent::between(planes, &["w1", "w2"], now).await?;
    lent.virtual_plane.start_controllers_with(&KEEPERS, &SCALED)?;
    lent.secret("east", &read_to_string(lent.granted("east", &json!({})).await?)?).await?;
    lent.binding("east", json!({})).await?;
    let mut stop = CancellationToken::new();
    lent.serve_until("east", stop.clone()).await?;
    for node in NODES {
        lent.until(node, "is ready", |node| ready(node) == "True").await;
    }
    let player = player(&mut lent, "east", BORROWED).await?;
    let mut before = Vec::new();
    for (name, node) in ["web-1", "web-2"].into_iter().zip(NODES) {
        before.push(bound(&lent.virtual_plane, name, node, json!({})).await?);
        until_pod(&pods(&lent.virtual_plane), name, "runs", |pod| phase(pod) == "Running").await;
    }
    let revision = lent.virtual_plane.revision().await?;

    adopted(&lent).await?;
    for (number, wipe) in wipes().iter().enumerate() {
        play(&mut lent, wipe, &mut stop, number + 1).await?;
    }
    copied(&lent).await?;
    judge(&lent, revision, &before).await?;

    // Nodes are written again: what changes on a machine shows.
    let label = Patch::Merge(json!({"metadata": {"labels": {"rack": "r2"}}}));
    lent.machines().patch("w1", &PatchParams::default(), &label).await?;
    lent.until(NODES[0], "follows its machine", |node| node["metadata"]["labels"]["rack"] == "r2").await;
    assert_eq!(player.mistakes(), [""; 0]);
    stop.cancel();
    lent.stop().await
}
