//! A leader is stopped and resumed, or killed, in the middle of a deletion and of a reclaim (decisions S10, S11 and S17).

use std::fs::read_to_string;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use kube::api::{Patch, PatchParams};
use rustix::process::Signal;
use serde_json::{Value, json};
use topoloom_api::names::DRAIN_ANNOTATION;
use topoloom_sync::keys;
use topoloom_tests::controlplane::{KEEPERS, SCALED, Wanted, eventually};
use topoloom_tests::host::Host;
use topoloom_tests::lending::kubelets::{NewNode, STOP};
use topoloom_tests::scene::{PATIENCE, Scene};

use super::super::group::ready;
use super::super::lent::{Lent, now};
use super::super::pair::BORROWED;
use super::super::{phase, until_gone, until_pod};
use super::{bound, chart, claim, effects, has_taint, host, is_terminating, player, plays, pods, states, within};

/// The node that is drained, and the one whose windows close.
const DRAINED: &str = "vnode-east-d1";
const CLOSED: &str = "vnode-east-c1";
/// How long pods of closed nodes have.
const GRACE: SignedDuration = SignedDuration::from_secs(10);
/// What a take-over and two looks add to that at most.
const LATE: SignedDuration = SignedDuration::from_secs(30);

/// What happens to the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Stopped,
    Killed,
}

/// When.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The drained node is marked, and the closed one takes no pods.
    Marked,
    /// A pod of the drained node was evicted, and ends.
    Evicted,
    /// The closed node evicts.
    Executing,
    /// The drained node is deleted, and a finalizer of another keeps it: its machine is claimed still.
    Deleted,
}

const PLAYS: [(Fault, Stage); 8] = [
    (Fault::Stopped, Stage::Evicted),
    (Fault::Killed, Stage::Marked),
    (Fault::Stopped, Stage::Executing),
    (Fault::Killed, Stage::Evicted),
    (Fault::Stopped, Stage::Marked),
    (Fault::Killed, Stage::Executing),
    (Fault::Stopped, Stage::Deleted),
    (Fault::Killed, Stage::Deleted),
];
/// A finalizer that is not the syncer's.
const KEPT: &str = "example.com/kept";

#[tokio::test(flavor = "multi_thread")]
async fn s10_s11_s17_no_pod_is_evicted_twice_and_no_late_write_counts_whatever_happens_to_a_leader() -> Result<()> {
    for (fault, stage) in PLAYS.into_iter().cycle().take(plays()?) {
        play(fault, stage).await.with_context(|| format!("{fault:?} at {stage:?}"))?;
    }
    Ok(())
}

/// A policy for the node that closes. It is open.
fn open() -> Value {
    json!({
        "cluster": "east", "forceReclaim": true, "gracefulReclaimPeriodSeconds": GRACE.as_secs(),
        "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "closes", "operator": "Exists"}]}]},
    })
}

/// The same, closed for hours.
fn closed() -> Result<Value> {
    let later = Timestamp::now().checked_add(SignedDuration::from_hours(5)).context("there is such a time")?;
    let (minute, mut spec) = (later.strftime("%H:%M").to_string(), open());
    spec["timeWindows"] = json!([{"start": minute, "end": minute}]);
    Ok(spec)
}

async fn play(fault: Fault, stage: Stage) -> Result<()> {
    let [virtual_plane, physical_plane] = Scene::planes([Wanted::Audited, Wanted::Shared]).await?;
    let mut lent = Lent::between([virtual_plane, physical_plane], &[], now).await?;
    lent.virtual_plane.start_controllers_with(&KEEPERS, &SCALED)?;
    chart(&lent.virtual_plane).await?;
    lent.kubelets.register([NewNode::named("d1"), NewNode::named("c1").label("closes", "yes")]).await?;
    lent.policy("nights", open()).await?;
    lent.secret("east", &read_to_string(lent.granted("east", &json!({})).await?)?).await?;
    lent.binding("east", json!({"safety": {"maxEvictPercent": 100}})).await?;
    let (one, two) = (host(&lent.virtual_plane, "one").await?, host(&lent.virtual_plane, "two").await?);
    for node in [DRAINED, CLOSED] {
        lent.until(node, "is ready", |node| ready(node) == "True").await;
    }
    let player = player(&mut lent, "east", BORROWED).await?;
    let users = pods(&lent.virtual_plane);
    // It is evicted, and takes its time, while the leader changes.
    let slow = json!({
        "metadata": {"annotations": {STOP: "never"}}, "spec": {"terminationGracePeriodSeconds": 12, "tolerations": []},
    });
    bound(&lent.virtual_plane, "slow", DRAINED, slow).await?;
    bound(&lent.virtual_plane, "paid", CLOSED, json!({"spec": {"tolerations": []}})).await?;
    for name in ["slow", "paid"] {
        until_pod(&users, name, "runs", |pod| phase(pod) == "Running").await;
    }
    let holder = lent.until_binding("east", "has a holder", |binding| binding["status"]["holder"].is_string()).await;
    let is_one = holder["status"]["holder"] == "one";
    let (leader, other) = if is_one { ((one, "one"), (two, "two")) } else { ((two, "two"), (one, "one")) };

    if stage == Stage::Deleted {
        finalize(&lent, |finalizers| finalizers.push(KEPT.to_owned())).await;
    }
    let revision = lent.virtual_plane.revision().await?;
    lent.policy("nights", closed()?).await?;
    lent.annotate("east", DRAIN_ANNOTATION, Some("d1")).await?;
    until_stage(&lent, stage).await;
    let resumed = meet(&lent, fault, leader, other.1).await?;
    if stage == Stage::Deleted {
        finalize(&lent, |finalizers| finalizers.retain(|finalizer| finalizer != KEPT)).await;
    }

    until_gone(&users, "slow").await;
    until_gone(&users, "paid").await;
    eventually("the drained node is gone", PATIENCE, async || match lent.lent().get_opt(DRAINED).await {
        Ok(None) => Ok(()),
        answer => Err(format!("{answer:?}")),
    })
    .await;
    within(PATIENCE, &lent.machines(), "d1", "is not claimed any more", |machine| claim(machine).is_none()).await;
    lent.until(CLOSED, "evicts", |node| effects(node, keys::OUT_OF_WINDOWS_TAINT) == ["NoExecute"]).await;
    grace_was_kept(&states(&lent.virtual_plane, &format!("/registry/minions/{CLOSED}"), revision).await?)?;
    prove(&lent.virtual_plane.audit_log()?, resumed.as_ref())?;
    assert_eq!(player.mistakes(), [""; 0]);
    other.0.stop().await?;
    if let Some(Resumed { host, .. }) = resumed {
        host.stop().await?;
    }
    lent.stop().await
}

/// Changes the finalizers of the drained node, in the version that was read.
async fn finalize(lent: &Lent, change: impl Fn(&mut Vec<String>)) {
    eventually("the finalizers of the drained node are changed", PATIENCE, async || {
        let metadata = lent.lent().get(DRAINED).await.map_err(|error| error.to_string())?.metadata;
        let mut finalizers = metadata.finalizers.unwrap_or_default();
        change(&mut finalizers);
        let metadata = json!({"finalizers": finalizers, "resourceVersion": metadata.resource_version});
        let body = Patch::Merge(json!({"metadata": metadata}));
        let patched = lent.lent().patch(DRAINED, &PatchParams::default(), &body).await;
        patched.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

async fn until_stage(lent: &Lent, stage: Stage) {
    let takes_none = |node: &Value| effects(node, keys::OUT_OF_WINDOWS_TAINT) == ["NoSchedule"];
    lent.until(CLOSED, "takes no pods", takes_none).await;
    match stage {
        Stage::Marked => drop(lent.until(DRAINED, "is marked", |node| has_taint(node, keys::DELETING_TAINT)).await),
        Stage::Evicted => {
            let goes = |pod: &k8s_openapi::api::core::v1::Pod| pod.metadata.deletion_timestamp.is_some();
            until_pod(&pods(&lent.virtual_plane), "slow", "goes", goes).await;
        }
        Stage::Executing => {
            let evicts = |node: &Value| effects(node, keys::OUT_OF_WINDOWS_TAINT) == ["NoExecute"];
            lent.until(CLOSED, "evicts", evicts).await;
        }
        Stage::Deleted => drop(lent.until(DRAINED, "is being deleted", is_terminating).await),
    }
}

/// A leader that was stopped, and when it was resumed: another one led by then.
struct Resumed {
    host: Host,
    name: &'static str,
    at: Timestamp,
}

/// The fault, until the other replica leads.
async fn meet(
    lent: &Lent,
    fault: Fault,
    (host, name): (Host, &'static str),
    next: &'static str,
) -> Result<Option<Resumed>> {
    let is_next = |binding: &Value| binding["status"]["holder"] == next;
    match fault {
        Fault::Killed => {
            host.kill().await?;
            lent.until_binding("east", "has another holder", is_next).await;
            Ok(None)
        }
        Fault::Stopped => {
            host.signal(Signal::STOP)?;
            lent.until_binding("east", "has another holder", is_next).await;
            let at = Timestamp::now();
            host.signal(Signal::CONT)?;
            Ok(Some(Resumed { host, name, at }))
        }
    }
}

/// The grace was neither skipped nor begun again.
fn grace_was_kept(states: &[Value]) -> Result<()> {
    let taint = |node: &Value| {
        let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
        taints.find(|taint| taint["key"] == keys::OUT_OF_WINDOWS_TAINT).cloned()
    };
    let added: Vec<Timestamp> =
        states.iter().filter_map(|node| taint(node)?["timeAdded"].as_str()?.parse().ok()).collect();
    let first = *added.first().context("it was never closed")?;
    anyhow::ensure!(added.iter().all(|at| *at == first), "its clock was begun again: {added:?}");
    let since = states.iter().find_map(|node| node["metadata"]["annotations"][keys::RECLAIM_SINCE].as_str());
    let passed = since.context("it never evicted")?.parse::<Timestamp>()?.duration_since(first);
    anyhow::ensure!(passed >= GRACE && passed <= GRACE + LATE, "it evicted after {passed}");
    Ok(())
}

/// By the API server's own log: each pod was evicted or deleted by us once, and a leader that was resumed wrote nothing any more.
fn prove(log: &[Value], resumed: Option<&Resumed>) -> Result<()> {
    let text = |event: &Value, path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let agent = |event: &Value| text(event, "/userAgent");
    let is_done = |event: &&Value| event["responseStatus"]["code"].as_u64().is_some_and(|code| code < 300);
    // taint-eviction may be first with the pod of the closed node.
    for (pod, least) in [("slow", 1), ("paid", 0)] {
        let removals = log.iter().filter(is_done).filter(|event| {
            let is_it = text(event, "/objectRef/resource") == "pods" && text(event, "/objectRef/name") == pod;
            let evicts = text(event, "/verb") == "create" && text(event, "/objectRef/subresource") == "eviction";
            is_it && agent(event).starts_with("topoloom/") && (evicts || text(event, "/verb") == "delete")
        });
        let removals: Vec<_> = removals.collect();
        let is_right = (least..=1).contains(&removals.len());
        anyhow::ensure!(is_right, "{pod} was removed {} times: {removals:#?}", removals.len());
    }
    let Some(Resumed { name, at, .. }) = resumed else { return Ok(()) };
    let late = log.iter().filter(is_done).filter(|event| {
        let received = text(event, "/requestReceivedTimestamp").parse::<Timestamp>();
        let writes = ["create", "update", "patch", "delete"].contains(&&*text(event, "/verb"));
        // It stands for the lease of the binding again, and announces itself: that is in its own namespace.
        let is_of_lending = ["nodes", "pods", "clusterbindings", "csinodes"]
            .contains(&&*text(event, "/objectRef/resource"))
            || text(event, "/objectRef/namespace") == "kube-node-lease";
        agent(event).contains(&format!("({name})")) && writes && is_of_lending && received.is_ok_and(|time| time > *at)
    });
    let late: Vec<_> = late.collect();
    anyhow::ensure!(late.is_empty(), "{name} wrote after it was resumed: {late:#?}");
    Ok(())
}
