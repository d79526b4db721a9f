//! Beside Volcano's own controller, and in its place: the steps of the migration guide.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use topoloom_api::HyperNode;
use topoloom_api::names::{GROUP_ID_ANNOTATION, SOURCE_LABEL};
use topoloom_tests::chart::{self, Installed};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::guest;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE, RACKS, Scene, by_hand};

/// The field manager of Volcano's controller.
const VOLCANO: &str = "vc-controller-manager";
/// The lease of its stand-alone process.
const VOLCANOS_LEASE: &str = "vc-hypernode-controller-manager";
/// The holder of that lease.
const HOLDER: &str = "volcano-0_x";
/// How long that lease lasts, in seconds.
const LASTS: i64 = 2;

/// A source whose HyperNodes the host deletes when its plugin fails for good.
const FAILS: &str = "
networkTopologyDiscovery:
- source: fabric
  enabled: true
  onFailure: remove
  plugin: {configMap: {name: versions-plugin, key: plugin.wasm}}
  permissions: {nodeLabels: [example.com/rack]}
";

/// Volcano's own controller, as far as other clients can see it: its lease, and its writes.
struct Volcano {
    leases: Api<Lease>,
    renews: JoinSet<()>,
}

impl Volcano {
    /// Creates Volcano's lease, and renews it until the controller is stopped.
    async fn start(scene: &Scene) -> Result<Self> {
        let leases: Api<Lease> = Api::namespaced(scene.plane.client(), NAMESPACE);
        let lease = json!({
            "metadata": {"name": VOLCANOS_LEASE},
            "spec": {"holderIdentity": HOLDER, "leaseDurationSeconds": LASTS},
        });
        leases.create(&PostParams::default(), &serde_json::from_value(lease)?).await?;
        let (mut renews, renewed) = (JoinSet::new(), leases.clone());
        renews.spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_millis(300));
            loop {
                tick.tick().await;
                let now = Timestamp::now();
                let time = Patch::Merge(json!({"spec": {"renewTime": format!("{now:.6}")}}));
                // A renewal that fails is like a slow controller.
                let _ = renewed.patch(VOLCANOS_LEASE, &PatchParams::default(), &time).await;
            }
        });
        Ok(Self { leases, renews })
    }

    /// Writes a HyperNode of the source `label`.
    async fn writes(scene: &Scene, name: &str, (key, value): (&str, &str), members: &[&str]) -> Result<()> {
        let (tier, kind) = if key == "ex.io/rack" { (1, "Node") } else { (2, "HyperNode") };
        let mut object = by_hand(name, tier, kind, members);
        object["metadata"]["labels"] = json!({key: value, SOURCE_LABEL: "label"});
        object["spec"]["tierName"] = json!(key);
        let parameters = PatchParams::apply(VOLCANO).force();
        scene.hyper_nodes().patch(name, &parameters, &Patch::Apply(&object)).await?;
        Ok(())
    }

    /// The controller ends without releasing its lease. No client can know that before the lease expires. Returns when
    /// it expires.
    async fn vanishes(mut self) -> Result<Timestamp> {
        self.renews.shutdown().await;
        let left = self.leases.get(VOLCANOS_LEASE).await?.spec.context("a lease says who holds it")?;
        assert_eq!(left.holder_identity.as_deref(), Some(HOLDER));
        let renewed = left.renew_time.context("it was renewed")?;
        Ok(renewed.0 + SignedDuration::from_secs(LASTS))
    }
}

/// Starts a host as its container does, and waits until it leads.
async fn started(scene: &Scene, installed: &Installed) -> Result<Host> {
    let flags = installed.container.flags_below(scene.plane.folder())?;
    Host::start(&installed.kubeconfig, &flags.iter().map(String::as_str).collect::<Vec<_>>()).await
}

/// The host's last decision about the source `label`.
async fn decided(host: &Host) -> Result<Value> {
    let dump: Value = serde_json::from_str(&host.get("/debug/dump").await?)?;
    let decisions = dump["decisions"]["label"].as_array();
    Ok(decisions.and_then(|decisions| decisions.last()).cloned().unwrap_or_default())
}

/// Our write requests to HyperNodes, from the audit log of the API server.
fn our_writes(scene: &Scene) -> Result<Vec<Value>> {
    let all = scene.plane.audit_log()?.into_iter();
    let ours = all.filter(|event| event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("topoloom/")));
    let writes = ours.filter(|event| matches!(event["verb"].as_str(), Some("create" | "update" | "patch" | "delete")));
    Ok(writes.filter(|event| event["objectRef"]["resource"] == "hypernodes").collect())
}

/// Checks that so many HyperNodes were deleted, and none of them while Volcano might still lead.
fn deleted_after(scene: &Scene, over: Timestamp, number: usize) -> Result<()> {
    let writes = our_writes(scene)?.into_iter().filter(|event| event["verb"] == "delete");
    let times = writes.map(|event| Ok(event["requestReceivedTimestamp"].as_str().context("a time")?.parse()?));
    let deleted: Vec<Timestamp> = times.collect::<Result<_>>()?;
    assert_eq!(deleted.len(), number, "{deleted:?}");
    assert!(deleted.iter().all(|at| *at >= over), "Volcano may lead until {over}: {deleted:?}");
    Ok(())
}

/// Waits until the host has read the configuration so many times.
async fn until_read(host: &Host, times: usize) {
    eventually(&format!("the configuration is read {times} times"), PATIENCE, async || {
        let read = host.log().iter().filter(|line| line.contains("\"configuration read\"")).count();
        if read >= times { Ok(()) } else { Err(format!("{read} times")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn m6_what_goes_with_its_source_goes_only_after_volcano() -> Result<()> {
    let scene = Scene::audited().await?;
    scene.nodes(&["m1 ex.io/rack=a ex.io/spine=s"]).await?;
    let tree = ["tier 2 ex.io/spine=s (1): ex.io/rack=a", "tier 1 ex.io/rack=a (1): m1"];
    scene.configure(&RACKS.replace("  enabled: true\n", "  enabled: true\n  onRemoval: delete\n")).await?;
    let host = scene.host().await?;
    scene.until(&tree).await;
    let volcano = Volcano::start(&scene).await?;
    scene.until_condition("label", "SecondWriter", "True", "ForeignWriter").await;

    let others = "networkTopologyDiscovery:\n- {source: other, enabled: false}\n";
    scene.configure(others).await?;
    let message = scene.until_condition("label", "Applied", "False", "WriteFailed").await;
    assert!(message.contains("Volcano's own controller leads"), "{message}");
    // With each document the host checks for HyperNodes of removed sources.
    scene.configure(&format!("# Still nothing of it.\n{others}")).await?;
    until_read(&host, 3).await;
    assert_eq!(scene.topology().await?, tree);
    let over = volcano.vanishes().await?;
    scene.until(&[]).await;
    scene.until_state("label", "Disabled").await;
    host.stop().await?;
    deleted_after(&scene, over, tree.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn m6_what_a_failing_plugin_takes_along_goes_only_after_volcano() -> Result<()> {
    let scene = Scene::audited().await?;
    scene.nodes(&["m1 example.com/rack=a"]).await?;
    let tree = ["tier 1 example.com/rack=a (1): m1"];
    // This plugin succeeds twice, and then always fails.
    let module = scene.plane.folder().join("third.wasm");
    std::fs::write(&module, guest::version("third", "1.0.0")?)?;
    let map = format!("{NAMESPACE}/versions-plugin");
    scene.cli(&["plugin", "push", &module.to_string_lossy(), "--configmap", &map]).await?;
    scene.configure(FAILS).await?;
    let host = scene.host().await?;
    scene.until(&tree).await;
    let volcano = Volcano::start(&scene).await?;
    scene.until_condition("fabric", "SecondWriter", "True", "ForeignWriter").await;

    eventually("it is in quarantine", PATIENCE, async || {
        scene.cli(&["source", "run", "fabric"]).await.map_err(|error| error.to_string())?;
        let status = scene.source("fabric").await.map_err(|error| error.to_string())?.status;
        let is_quarantine = status.conditions.iter().any(|condition| condition.reason == "Quarantined");
        if is_quarantine { Ok(()) } else { Err(format!("{status:#?}")) }
    })
    .await;
    assert_eq!(scene.topology().await?, tree);
    let over = volcano.vanishes().await?;
    scene.until(&[]).await;
    let message = scene.until_condition("fabric", "Applied", "False", "Quarantined").await;
    assert!(message.contains("1 HyperNodes were deleted") && message.contains("onFailure: remove"), "{message}");
    host.stop().await?;
    deleted_after(&scene, over, tree.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_m6_beside_a_running_volcano_nothing_is_written_and_after_it_everything_keeps_its_name() -> Result<()> {
    let scene = Scene::audited().await?;
    scene
        .nodes(&["m1 ex.io/rack=a ex.io/spine=s", "m2 ex.io/rack=a ex.io/spine=s", "m3 ex.io/rack=b ex.io/spine=s"])
        .await?;
    let (a, b, s) = (("ex.io/rack", "a"), ("ex.io/rack", "b"), ("ex.io/spine", "s"));
    let (rack_a, rack_b, spine) =
        ("hypernode-gpu-tier1-bcdfg", "hypernode-gpu-tier1-hjklm", "hypernode-gpu-tier2-npqrs");
    Volcano::writes(&scene, rack_a, a, &["m1", "m2"]).await?;
    Volcano::writes(&scene, rack_b, b, &["m3"]).await?;
    Volcano::writes(&scene, spine, s, &[rack_a, rack_b]).await?;
    let volcano = Volcano::start(&scene).await?;
    // A person made this HyperNode, and wrote its node count by hand.
    scene.put(by_hand("mine", 1, "Node", &["m1"])).await?;
    let counted = Patch::Merge(json!({"status": {"nodeCount": 99}}));
    scene.hyper_nodes().patch_status("mine", &PatchParams::default(), &counted).await?;
    scene.configure(RACKS).await?;

    let installed = chart::install(&scene, json!({"observe": true})).await?;
    let host = started(&scene, &installed).await?;
    scene.until_state("label", "Observing").await;
    // A node moves: the host sees it first, and leaves the write to Volcano.
    let first = decided(&host).await?;
    scene.plane.relabel("m2", "ex.io/rack", "b").await?;
    eventually("the move is decided, and observed only", PATIENCE, async || {
        let last = decided(&host).await.map_err(|error| error.to_string())?;
        let is_observed = last["fate"] == "not written: it is only observed";
        if is_observed && last["result"] != first["result"] { Ok(()) } else { Err(format!("{last:#}")) }
    })
    .await;
    let plan = scene.cli(&["plan"]).await?;
    for line in [format!("update {rack_a}: drop 1 member"), format!("update {rack_b}: add 1 member")] {
        assert!(plan.contains(&line), "{line}: {plan}");
    }
    Volcano::writes(&scene, rack_a, a, &["m1"]).await?;
    Volcano::writes(&scene, rack_b, b, &["m2", "m3"]).await?;
    // The rest of the plan is what the guide describes: our annotations on the objects that Volcano made.
    let plan = scene.cli(&["plan"]).await?;
    let steps: Vec<&str> = plan.lines().filter_map(|line| line.trim().split_once(". ")).map(|(_, step)| step).collect();
    let mut wanted = [rack_a, rack_b, spine].map(|name| format!("update {name}: annotations"));
    wanted.sort();
    assert_eq!(steps, wanted, "{plan}");
    let status = scene.cli(&["status"]).await?;
    assert!(status.contains("Observing"), "{status}");
    let denied = host.log().into_iter().find(|line| line.contains("orbidden"));
    assert_eq!(denied, None, "what the chart allows is enough");
    host.stop().await?;
    assert_eq!(our_writes(&scene)?, Vec::<Value>::new(), "beside Volcano nothing is written");
    let before = scene.stored().await?;

    // Volcano still runs when the operator switches writes on. The host waits until Volcano's lease expires.
    let installed = chart::install(&scene, json!({"observe": false, "status": "own"})).await?;
    let host = started(&scene, &installed).await?;
    scene.until_state("label", "Stale").await;
    let message = scene.until_condition("label", "SecondWriter", "True", "ForeignWriter").await;
    assert!(message.contains(VOLCANOS_LEASE) && message.contains(HOLDER), "{message}");
    assert_eq!(our_writes(&scene)?, Vec::<Value>::new(), "while Volcano leads nothing is written");
    volcano.vanishes().await?;
    let tree = [
        "tier 2 ex.io/spine=s (3): ex.io/rack=a ex.io/rack=b",
        "tier 1 ex.io/rack=a (1): m1",
        "tier 1 ex.io/rack=b (2): m2 m3",
        // With `--status=own` the host does not count an object without an owner.
        "tier 1 mine (99): m1",
    ];
    scene.until(&tree).await;
    scene.until_condition("label", "Applied", "True", "Ok").await;
    let after = scene.stored().await?;
    let uids = |objects: &BTreeMap<String, HyperNode>| -> BTreeMap<String, Option<String>> {
        objects.iter().map(|(name, object)| (name.clone(), object.metadata.uid.clone())).collect()
    };
    assert_eq!(uids(&before), uids(&after));
    for name in [rack_a, rack_b, spine] {
        let annotations = after[name].metadata.annotations.clone().unwrap_or_default();
        assert!(annotations.contains_key(GROUP_ID_ANNOTATION), "{name} is ours now");
        assert_eq!(after[name].spec, before[name].spec, "{name}");
    }
    host.stop().await
}
