//! The process: how it stops, how another process takes over, and what switches its writes off.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::{Value, json};
use topoloom_api::hyper_node::MemberType;
use topoloom_api::names::READ_ONLY_ANNOTATION;
use topoloom_tests::chart;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE, RACKS, Scene};

const LEASE: &str = "topoloom-hypernode";
/// The default values.
const SLOW: [&str; 3] =
    ["--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=2s"];

/// With these times, a replica that only read the lease from time to time would see a change most of a minute too late.
const RARE: [&str; 3] =
    ["--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s", "--leader-elect-retry-period=40s"];
/// How soon a replica knows that another holds the lease: the watch reports it in milliseconds.
const AT_ONCE: Duration = Duration::from_secs(3);
/// How long a drain takes at most if its writes are answered: it waits for requests under way, and no more. The drain
/// timeout is thirty seconds.
const DRAINED: Duration = Duration::from_secs(10);
/// How soon the second signal ends a process that would drain for minutes.
const SECOND: Duration = Duration::from_secs(2);
const CUT_OFF: &str = "work was cut off at the end of the drain timeout";

/// Many nodes in many racks: writing their topology takes a while.
async fn many(scene: &Scene, racks: usize) -> Result<()> {
    let nodes = (0..racks * 4).map(|node| {
        let rack = node / 4;
        let labels = [("ex.io/rack", format!("r{rack}")), ("ex.io/spine", format!("s{}", rack / 10))];
        (format!("n{node}"), labels)
    });
    scene.plane.create_nodes(nodes.collect::<Vec<_>>()).await
}

async fn lease(scene: &Scene) -> Result<Lease> {
    let leases: Api<Lease> = Api::namespaced(scene.plane.client(), NAMESPACE);
    Ok(leases.get(LEASE).await?)
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

fn has_logged(host: &Host, words: &str) -> bool {
    host.log().iter().any(|line| line.contains(words))
}

/// The last line of a log as JSON.
fn last_line(log: &[String]) -> Result<Value> {
    Ok(serde_json::from_str(log.last().context("there is a log")?)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_is_asked_to_stop_in_the_middle_of_its_writes_loses_nothing() -> Result<()> {
    let scene = Scene::new().await?;
    let kubeconfig = chart::install(&scene, json!({})).await?.kubeconfig;
    many(&scene, 100).await?;
    scene.configure(RACKS).await?;
    // With these limits, all of the writes would take twenty seconds.
    let [duration, deadline, period] = SLOW;
    let few = [duration, deadline, period, "--kube-api-qps=5", "--kube-api-burst=20"];
    let mut host = Host::launch_as("first", &kubeconfig, &few).await?;
    eventually("it is in the middle of writing", PATIENCE, async || {
        let written = scene.stored().await.map_err(|error| error.to_string())?.len();
        if written > 5 { Ok(()) } else { Err(written.to_string()) }
    })
    .await;
    let asked = Instant::now();
    host.signal(Signal::TERM)?;
    let status = host.ended().await?;
    let took = asked.elapsed();
    assert_eq!(status.code(), Some(0), "{:?}", host.log());
    assert!(took < DRAINED, "it drained for {took:?}");
    // The process leaves no task, and its lease is free at once.
    eventually("its log is complete", PATIENCE, async || {
        let last = last_line(&host.log()).map_err(|error| error.to_string())?;
        if last["message"] == "topoloom has stopped" && last["tasks"] == 0 { Ok(()) } else { Err(last.to_string()) }
    })
    .await;
    assert!(!has_logged(&host, CUT_OFF), "{:#?}", host.log());
    let free = lease(&scene).await?;
    assert_eq!(holder(&free), "");
    // The objects that it wrote are a valid forest, and the next replica continues there, without waiting for the
    // lease.
    let stored = scene.stored().await?;
    assert!(stored.len() < 60, "it wrote {} objects of its plan before it stopped", stored.len());
    let said = scene.until_condition("label", "Applied", "False", "Pending").await;
    assert!(said.contains("to the next leader"), "{said}");
    for object in stored.values() {
        for member in object.spec.members.iter().filter(|member| member.type_ == MemberType::HyperNode) {
            let child = member.selector.as_ref().and_then(|selector| selector.exact_match.as_ref());
            let child = child.map(|child| child.name.as_str()).unwrap_or_default();
            assert!(stored.contains_key(child), "{child:?} is listed and not there");
        }
    }
    let began = Instant::now();
    let mut next = Host::launch_as("second", &kubeconfig, &RARE).await?;
    eventually("the next one has written the rest", PATIENCE, async || {
        let written = scene.stored().await.map_err(|error| error.to_string())?.len();
        if written == 110 { Ok(()) } else { Err(written.to_string()) }
    })
    .await;
    scene.until_condition("label", "Applied", "True", "Ok").await;
    let leads = lease(&scene).await?;
    assert!(holder(&leads).starts_with("second_"), "{leads:?}");
    assert!(began.elapsed() < Duration::from_secs(15), "it waited for a lease that was free");

    // M2: the holder watches its lease. The next renewal is far away, and another name in the lease ends the holder at
    // once.
    let leases: Api<Lease> = Api::namespaced(scene.plane.client(), NAMESPACE);
    let stolen = Patch::Merge(json!({"spec": {"holderIdentity": "thief"}}));
    leases.patch(LEASE, &PatchParams::default(), &stolen).await?;
    eventually("the holder knows that its lease is lost", AT_ONCE, async || {
        let log = next.log();
        let is_lost = |line: &String| line.contains("the lease is lost") && line.contains("thief");
        if log.iter().any(is_lost) { Ok(()) } else { Err(log.last().cloned().unwrap_or_default()) }
    })
    .await;
    assert_eq!(next.ended().await?.code(), Some(1), "{:?}", next.log());
    assert_eq!(holder(&lease(&scene).await?), "thief", "a lost lease is not released");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_process_at_once_and_a_drain_has_an_end() -> Result<()> {
    let scene = Scene::new().await?;
    let kubeconfig = chart::install(&scene, json!({})).await?.kubeconfig;
    many(&scene, 100).await?;
    scene.configure(RACKS).await?;
    let writing = async |host: &Host| {
        eventually("it writes", PATIENCE, async || {
            let log = host.log();
            if log.iter().any(|line| line.contains("writing a topology")) { Ok(()) } else { Err(log.join("\n")) }
        })
        .await;
    };
    for second in [Signal::TERM, Signal::INT] {
        // Each host has all objects to write.
        scene.plane.kubectl(&["delete", "hypernodes", "--all"]).await?;
        let mut host = Host::launch_as("first", &kubeconfig, &["--drain-timeout=10m"]).await?;
        writing(&host).await;
        // The writes of the host do not end: the API server stands still.
        scene.plane.signal_apiserver(Signal::STOP)?;
        host.signal(Signal::TERM)?;
        eventually("it has got the first signal", PATIENCE, async || {
            if has_logged(&host, "stopping; a second signal stops at once") {
                Ok(())
            } else {
                Err(host.log().join("\n"))
            }
        })
        .await;
        let began = Instant::now();
        host.signal(second)?;
        let status = host.ended().await?;
        let took = began.elapsed();
        scene.plane.signal_apiserver(Signal::CONT)?;
        assert_eq!(status.code(), Some(1), "{second:?}: {:?}", host.log());
        assert!(took < SECOND, "{second:?}: it ended after {took:?}");
        eventually("its log is complete", PATIENCE, async || {
            let last = last_line(&host.log()).map_err(|error| error.to_string())?;
            let wanted = "stopped at once by a second signal";
            if last["message"] == wanted { Ok(()) } else { Err(last.to_string()) }
        })
        .await;
        scene.free_lease().await?;
    }

    let mut host = Host::launch_as("second", &kubeconfig, &["--drain-timeout=1s"]).await?;
    eventually("it leads", PATIENCE, async || {
        let ready = host.readyz().await.map_err(|error| error.to_string())?;
        if ready.contains("leads") { Ok(()) } else { Err(ready) }
    })
    .await;
    scene.delete_nodes(&["n0", "n1", "n2", "n3"]).await?;
    scene.plane.signal_apiserver(Signal::STOP)?;
    // B16: an interrupt as the first signal stops the process with a drain, too.
    host.signal(Signal::INT)?;
    let status = host.ended().await?;
    scene.plane.signal_apiserver(Signal::CONT)?;
    assert_eq!(status.code(), Some(0), "{:?}", host.log());
    eventually("it says what became of its writes", PATIENCE, async || {
        if has_logged(&host, CUT_OFF) { Ok(()) } else { Err(host.log().join("\n")) }
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_annotation_on_the_config_map_ends_all_writes_but_those_of_the_lease() -> Result<()> {
    let scene = Scene::new().await?;
    let kubeconfig = chart::install(&scene, json!({})).await?.kubeconfig;
    scene.nodes(&["a ex.io/rack=x ex.io/spine=s", "b ex.io/rack=y ex.io/spine=s"]).await?;
    scene.configure(RACKS).await?;
    let host = Host::start(&kubeconfig, &[]).await?;
    let both = [
        "tier 2 ex.io/spine=s (2): ex.io/rack=x ex.io/rack=y",
        "tier 1 ex.io/rack=x (1): a",
        "tier 1 ex.io/rack=y (1): b",
    ];
    scene.until(&both).await;
    annotate(&scene, Some("true")).await?;
    eventually("the host has seen it", PATIENCE, async || {
        let log = host.log();
        if log.iter().any(|line| line.contains("writes are switched off")) { Ok(()) } else { Err(log.join("\n")) }
    })
    .await;
    let before = scene.plane.requests().await?;
    scene.plane.relabel("b", "ex.io/rack", "x").await?;
    // The host renews its lease and writes nothing else: ten renewals take five seconds.
    eventually("the lease is renewed", PATIENCE, async || {
        let since = scene.plane.requests().await.map_err(|error| error.to_string())?.since(&before);
        if since.writes("leases", "") >= 10 { Ok(()) } else { Err(format!("{since:?}")) }
    })
    .await;
    let since = scene.plane.requests().await?.since(&before);
    for resource in ["hypernodes", "discoverysources", "configmaps", "events"] {
        let written = since.writes(resource, "") + since.writes(resource, "status");
        assert_eq!(written, 0, "{resource}: {since:?}");
    }
    assert_eq!(scene.topology().await?, both);
    annotate(&scene, None).await?;
    scene.until(&["tier 2 ex.io/spine=s (2): ex.io/rack=x", "tier 1 ex.io/rack=x (2): a b"]).await;
    host.stop().await?;

    // The flag does the same, whatever the annotation says.
    let host = Host::start(&kubeconfig, &["--read-only"]).await?;
    scene.plane.relabel("b", "ex.io/rack", "z").await?;
    let before = scene.plane.requests().await?;
    eventually("the lease is renewed", PATIENCE, async || {
        let since = scene.plane.requests().await.map_err(|error| error.to_string())?.since(&before);
        if since.writes("leases", "") >= 6 { Ok(()) } else { Err(format!("{since:?}")) }
    })
    .await;
    let since = scene.plane.requests().await?.since(&before);
    assert_eq!(since.writes("hypernodes", "") + since.writes("hypernodes", "status"), 0, "{since:?}");
    host.stop().await
}

async fn annotate(scene: &Scene, value: Option<&str>) -> Result<()> {
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(scene.plane.client(), NAMESPACE);
    let body = json!({"metadata": {"annotations": {READ_ONLY_ANNOTATION: value}}});
    maps.patch(topoloom_tests::scene::CONFIG_MAP, &PatchParams::default(), &Patch::Merge(&body)).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_while_volcanos_own_controller_holds_its_lease() -> Result<()> {
    let scene = Scene::new().await?;
    let kubeconfig = chart::install(&scene, json!({})).await?.kubeconfig;
    scene.nodes(&["a ex.io/rack=x ex.io/spine=s"]).await?;
    let leases: Api<Lease> = Api::namespaced(scene.plane.client(), NAMESPACE);
    let name = "volcano-hypernode-controller-manager";
    let theirs = json!({
        "metadata": {"name": name}, "spec": {"holderIdentity": "volcano-0_x", "leaseDurationSeconds": 300},
    });
    leases.create(&PostParams::default(), &serde_json::from_value(theirs)?).await?;
    scene.configure(RACKS).await?;
    let host = Host::start(&kubeconfig, &[]).await?;
    let message = scene.until_condition("label", "SecondWriter", "True", "ForeignWriter").await;
    assert!(message.contains(name) && message.contains("volcano-0_x"), "{message}");
    scene.until(&[]).await;
    // Volcano releases its lease. A Volcano that is switched off does not: then the lease expires, which has the same
    // effect.
    let free = json!({"spec": {"holderIdentity": ""}});
    leases.patch(name, &PatchParams::default(), &Patch::Merge(&free)).await?;
    scene.until(&["tier 2 ex.io/spine=s (1): ex.io/rack=x", "tier 1 ex.io/rack=x (1): a"]).await;
    host.stop().await
}
