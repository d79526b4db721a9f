//! Lending as a borrower sees it: racks of lent machines are HyperNodes, kube-scheduler and our extender place a pod with a GPU, and
//! windows that close take pods as their policies say (decisions D3, S13, S17 and S27).

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use topoloom_api::HyperNode;
use topoloom_sync::keys;
use topoloom_sync::naming::physical_pod_name;
use topoloom_tests::controlplane::{ControlPlane, KEEPERS, SCALED, Wanted, WriteKind, eventually};
use topoloom_tests::host::Host;
use topoloom_tests::lending::kubelets::NewNode;
use topoloom_tests::lending::player::{self, Player};
use topoloom_tests::scene::{CONFIG_MAP, NAMESPACE, PATIENCE, RACKS, Scene, describe};

use super::group::ready;
use super::lent::{Lent, now};
use super::pair::BORROWED;
use super::{phase, until_gone, until_pod};

/// The machines with their racks. All but the first have a policy of their own, whose name is theirs.
const MACHINES: [(&str, &str); 5] = [("g1", "r1"), ("a1", "r1"), ("b1", "r2"), ("k1", "r2"), ("o1", "r2")];
const GPU: &str = "nvidia.com/gpu";
/// The key of a node lock.
const LOCK: &str = "hami.io/mutex.lock";
/// How long pods have where the policy gives a grace, and how long one of them tolerates that its node evicts.
const GRACE: i64 = 4;
const TOLERATED: i64 = 4;

/// A machine with 32 processors; `g1` has GPUs, too.
fn machine((name, rack): (&str, &str)) -> NewNode {
    let machine = NewNode::named(name).label("case", name).label("ex.io/spine", "s1").label("ex.io/rack", rack);
    let usual = [("cpu", "32"), ("memory", "128Gi"), ("pods", "110")];
    let machine = usual.into_iter().fold(machine, |machine, (resource, amount)| machine.with(resource, amount));
    if name == "g1" { machine.with(GPU, "8") } else { machine }
}

/// The policy of a machine, which is open.
fn open(case: &str) -> Value {
    let term = json!({"matchExpressions": [{"key": "case", "operator": "In", "values": [case]}]});
    let mut spec = json!({"cluster": "east", "nodeSelector": {"nodeSelectorTerms": [term]}});
    if case != "k1" {
        spec["forceReclaim"] = true.into();
    }
    if ["b1", "o1"].contains(&case) {
        spec["gracefulReclaimPeriodSeconds"] = GRACE.into();
    }
    spec
}

/// The same, closed for hours.
fn closed(case: &str) -> Result<Value> {
    let later = Timestamp::now().checked_add(SignedDuration::from_hours(5)).context("there is such a time")?;
    let (minute, mut spec) = (later.strftime("%H:%M").to_string(), open(case));
    spec["timeWindows"] = json!([{"start": minute, "end": minute}]);
    Ok(spec)
}

fn pods(plane: &ControlPlane) -> Api<Pod> {
    Api::default_namespaced(plane.client())
}

/// A pod on the virtual node of a machine, with these tolerations, once it runs.
async fn runs(lent: &Lent, name: &str, machine: &str, tolerations: Value) -> Result<()> {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": format!("vnode-east-{machine}"), "terminationGracePeriodSeconds": 1, "tolerations": tolerations,
            "containers": [{"name": "c", "image": "none"}],
        },
    });
    let pods = pods(&lent.virtual_plane);
    pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    until_pod(&pods, name, "runs", |pod| phase(pod) == "Running").await;
    Ok(())
}

/// A toleration of closed windows, for ever or for so many seconds.
fn tolerates(seconds: Option<i64>) -> Value {
    let mut toleration = json!({"key": keys::OUT_OF_WINDOWS_TAINT, "operator": "Exists", "effect": "NoExecute"});
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = seconds.into();
    }
    json!([toleration])
}

/// The second in which a pod was deleted, from all of its writes.
async fn deleted(lent: &Lent, name: &str) -> Result<i64> {
    let writes = lent.virtual_plane.writes_in_order(&format!("/registry/pods/default/{name}")).await?;
    let asked = writes.iter().find_map(|write| {
        let metadata = &write.value["metadata"];
        let end: Timestamp = metadata["deletionTimestamp"].as_str()?.parse().ok()?;
        Some(end.as_second() - metadata["deletionGracePeriodSeconds"].as_i64()?)
    });
    asked.with_context(|| format!("{name} was never deleted"))
}

/// A state of a virtual node whose windows are closed.
#[derive(Debug)]
struct Closing {
    effect: String,
    /// When they closed, and since when its pods have to go, in seconds.
    at: i64,
    since: Option<i64>,
}

/// All of them, the oldest first.
async fn closings(lent: &Lent, machine: &str) -> Result<Vec<Closing>> {
    let writes = lent.virtual_plane.writes_in_order(&format!("/registry/minions/vnode-east-{machine}")).await?;
    let second = |text: &Value| Some(text.as_str()?.parse::<Timestamp>().ok()?.as_second());
    let closing = |node: &Value| {
        let mut taints = node["spec"]["taints"].as_array()?.iter();
        let taint = taints.find(|taint| taint["key"] == keys::OUT_OF_WINDOWS_TAINT)?;
        Some(Closing {
            effect: taint["effect"].as_str()?.to_owned(),
            at: second(&taint["timeAdded"])?,
            since: second(&node["metadata"]["annotations"][keys::RECLAIM_SINCE]),
        })
    };
    let puts = writes.iter().filter(|write| write.kind == WriteKind::Put);
    Ok(puts.filter_map(|write| closing(&write.value)).collect())
}

/// The effect of the taint of closed windows.
fn effect(node: &Value) -> Option<&str> {
    let mut taints = node["spec"]["taints"].as_array()?.iter();
    taints.find(|taint| taint["key"] == keys::OUT_OF_WINDOWS_TAINT)?["effect"].as_str()
}

/// Our extender, as kube-scheduler has it in its configuration.
fn extender(address: &str) -> Value {
    json!({
        "urlPrefix": format!("http://{address}"), "filterVerb": "filter", "bindVerb": "bind", "weight": 1,
        "nodeCacheCapable": true, "enableHTTPS": false, "httpTimeout": "30s",
        // The GPUs that are lent are counted by kube-scheduler.
        "managedResources": [{"name": GPU, "ignoredByScheduler": false}],
    })
}

async fn prepare() -> Result<(Lent, Player)> {
    let planes = Scene::planes([Wanted::Shared, Wanted::Shared]).await?;
    let mut lent = Lent::between(planes, &[], now).await?;
    lent.virtual_plane.start_controllers_with(&KEEPERS, &SCALED)?;
    lent.virtual_plane
        .apply(&[json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
            "data": {"volcano-controller.conf": RACKS},
        })])
        .await?;
    lent.kubelets.register(MACHINES.map(machine)).await?;
    for (case, _) in MACHINES.into_iter().filter(|(name, _)| *name != "g1") {
        lent.policy(case, open(case)).await?;
    }
    // A closing that was not announced is gathered by the guard, and judged; here that is not the point.
    let safety = json!({"maxNodesPercent": 100, "announce": "0s"});
    lent.bind("east", json!({"disableNodeDefaultTaint": true, "safety": safety})).await?;
    for (name, _) in MACHINES {
        lent.until(&format!("vnode-east-{name}"), "is ready", |node| ready(node) == "True").await;
    }
    let settings = player::Settings {
        identity: lent.identity("east").await?,
        mount_namespace: BORROWED.to_owned(),
        patience: Duration::from_secs(5),
    };
    let (player, run) = Player::new(lent.virtual_plane.client(), lent.physical_plane.client(), settings);
    lent.background.spawn(run);
    Ok((lent, player))
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_s13_s17_s27_lent_racks_are_hyper_nodes_a_gpu_is_bound_by_our_extender_and_windows_close_as_policies_say()
-> Result<()> {
    let (lent, player) = prepare().await?;
    let host = Host::start(&lent.virtual_plane.kubeconfig(), &["--extender-address", "127.0.0.1:0"]).await?;
    let scheduler = lent.virtual_plane.scheduler(&[extender(&host.extender().await)]).await?;
    tokio::try_join!(
        racks(&lent),
        gpu(&lent, &host),
        at_once(&lent),
        with_grace(&lent),
        opens_again(&lent),
        kept(&lent)
    )?;

    // What tolerates closed windows, and what a policy keeps, is there after all of it.
    for name in ["stays", "kept"] {
        let pod = pods(&lent.virtual_plane).get(name).await?;
        assert!(pod.metadata.deletion_timestamp.is_none() && phase(&pod) == "Running", "{pod:?}");
    }
    assert_eq!(player.mistakes(), [""; 0]);
    drop(scheduler);
    host.stop().await?;
    lent.stop().await
}

/// Waits until these are the HyperNodes.
async fn until_topology(lent: &Lent, wanted: &[&str]) {
    let hyper_nodes: Api<HyperNode> = Api::all(lent.virtual_plane.client());
    eventually(&format!("the topology is {wanted:#?}"), PATIENCE, async || {
        let all = hyper_nodes.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let named = all.into_iter().map(|object| (object.metadata.name.clone().unwrap_or_default(), object));
        let is = describe(&named.collect::<BTreeMap<_, _>>());
        if is == wanted { Ok(()) } else { Err(format!("{is:#?}")) }
    })
    .await;
}

/// S13: labels of machines come along, so that the HyperNodes of the source `label` are those of the lender's racks.
async fn racks(lent: &Lent) -> Result<()> {
    let spine = "tier 2 ex.io/spine=s1 (5): ex.io/rack=r1 ex.io/rack=r2";
    let racks = [
        spine,
        "tier 1 ex.io/rack=r1 (2): vnode-east-a1 vnode-east-g1",
        "tier 1 ex.io/rack=r2 (3): vnode-east-b1 vnode-east-k1 vnode-east-o1",
    ];
    until_topology(lent, &racks).await;
    // A machine moves to another rack.
    lent.physical_plane.relabel("k1", "ex.io/rack", "r1").await?;
    let racks = [
        spine,
        "tier 1 ex.io/rack=r1 (3): vnode-east-a1 vnode-east-g1 vnode-east-k1",
        "tier 1 ex.io/rack=r2 (2): vnode-east-b1 vnode-east-o1",
    ];
    until_topology(lent, &racks).await;
    Ok(())
}

/// S27: a pod with a GPU is bound by the extender, which locks no node that is lent: no device plugin is there to release it.
async fn gpu(lent: &Lent, host: &Host) -> Result<()> {
    let container = json!({"name": "c", "image": "none", "resources": {"limits": {GPU: "2"}}});
    let pod = json!({"metadata": {"name": "train"}, "spec": {"containers": [container]}});
    let virtuals = pods(&lent.virtual_plane);
    virtuals.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
    let pod = until_pod(&virtuals, "train", "runs", |pod| phase(pod) == "Running").await;
    assert_eq!(pod.spec.and_then(|spec| spec.node_name).as_deref(), Some("vnode-east-g1"));
    eventually("the extender says that it has bound the pod without a lock", PATIENCE, async || {
        let log = host.log();
        let is_it = |line: &String| line.contains("bound without a node lock") && line.contains("train");
        if log.iter().any(is_it) { Ok(()) } else { Err(log.last().cloned().unwrap_or_default()) }
    })
    .await;
    let physicals: Api<Pod> = Api::namespaced(lent.physical_plane.client(), BORROWED);
    let run = serde_json::to_value(physicals.get(&physical_pod_name("default", "train")?).await?)?;
    assert_eq!(
        (&run["spec"]["nodeName"], &run["spec"]["containers"][0]["resources"]["limits"][GPU]),
        (&json!("g1"), &json!("2"))
    );
    for (plane, node) in [(&lent.virtual_plane, "vnode-east-g1"), (&lent.physical_plane, "g1")] {
        let writes = plane.writes_in_order(&format!("/registry/minions/{node}")).await?;
        let locked = writes.iter().filter(|write| !write.value["metadata"]["annotations"][LOCK].is_null());
        assert_eq!(locked.count(), 0, "{writes:#?}");
    }
    Ok(())
}

/// D3, S17: without a grace pods go at once, one that tolerates the taint for some seconds after these, and one that tolerates it for
/// ever never.
async fn at_once(lent: &Lent) -> Result<()> {
    tokio::try_join!(
        runs(lent, "leaves", "a1", json!([])),
        runs(lent, "counts", "a1", tolerates(Some(TOLERATED))),
        runs(lent, "stays", "a1", tolerates(None)),
    )?;
    lent.policy("a1", closed("a1")?).await?;
    let pods = pods(&lent.virtual_plane);
    until_gone(&pods, "leaves").await;
    until_gone(&pods, "counts").await;
    let closings = closings(lent, "a1").await?;
    assert_eq!(closings.last().map(|closing| closing.effect.as_str()), Some("NoExecute"), "{closings:?}");
    let since = closings.iter().find_map(|closing| closing.since).context("it says since when")?;
    let (left, counted) = (deleted(lent, "leaves").await?, deleted(lent, "counts").await?);
    assert!(since <= left && left <= counted && counted - since >= TOLERATED, "{since} {left} {counted}");
    Ok(())
}

/// D3, S17: with a grace the node takes no pods at first, and its pods have that time.
async fn with_grace(lent: &Lent) -> Result<()> {
    runs(lent, "warned", "b1", json!([])).await?;
    lent.policy("b1", closed("b1")?).await?;
    until_gone(&pods(&lent.virtual_plane), "warned").await;
    let closings = closings(lent, "b1").await?;
    let effects: Vec<&str> = closings.iter().map(|closing| closing.effect.as_str()).collect();
    let begins_and_ends = (effects.first().copied(), effects.last().copied());
    assert_eq!(begins_and_ends, (Some("NoSchedule"), Some("NoExecute")), "{closings:?}");
    let at = closings.first().context("it was closed")?.at;
    let left = deleted(lent, "warned").await?;
    assert!(left - at >= GRACE, "closed at {at}, and its pod was deleted at {left}");
    Ok(())
}

/// S17: windows that open again within the grace take no pod, and the next closing gives the whole grace.
async fn opens_again(lent: &Lent) -> Result<()> {
    let (node, pods) = ("vnode-east-o1", pods(&lent.virtual_plane));
    runs(lent, "saved", "o1", json!([])).await?;
    lent.policy("o1", closed("o1")?).await?;
    lent.until(node, "takes no pods", |node| effect(node) == Some("NoSchedule")).await;
    lent.policy("o1", open("o1")).await?;
    lent.until(node, "is open", |node| effect(node).is_none()).await;
    let first = closings(lent, "o1").await?.first().context("it was closed")?.at;
    eventually("a grace that went on would have ended", PATIENCE, async || {
        let passed = Timestamp::now().as_second() - first;
        if passed > GRACE + 1 { Ok(()) } else { Err(format!("{passed} s")) }
    })
    .await;
    assert!(pods.get("saved").await?.metadata.deletion_timestamp.is_none());

    lent.policy("o1", closed("o1")?).await?;
    until_gone(&pods, "saved").await;
    let closings = closings(lent, "o1").await?;
    let second = closings.last().context("it was closed")?.at;
    let left = deleted(lent, "saved").await?;
    assert!(second > first && left - second >= GRACE, "{closings:?}, and its pod was deleted at {left}");
    Ok(())
}

/// D3: without `forceReclaim` a node whose windows are closed takes no pods, and keeps those that it has.
async fn kept(lent: &Lent) -> Result<()> {
    runs(lent, "kept", "k1", json!([])).await?;
    lent.policy("k1", closed("k1")?).await?;
    lent.until("vnode-east-k1", "takes no pods", |node| effect(node) == Some("NoSchedule")).await;
    Ok(())
}
