//! What flags of `run` do, on a live cluster. The tests of wrong flags need no cluster (`component/options.rs`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use topoloom::manager::metrics::catalogue::catalogue;
use topoloom_tests::controlplane::eventually;
use topoloom_tests::host::{Host, Port};
use topoloom_tests::scene::{NAMESPACE, PATIENCE, RACKS, Scene};

/// Each request waits ten seconds for the one before it; if renewals waited, too, the leader would lose its lease after
/// two and a half.
const SLOW: [&str; 5] = [
    "--kube-api-qps=0.1",
    "--kube-api-burst=1",
    "--leader-elect-lease-duration=4s",
    "--leader-elect-renew-deadline=2500ms",
    "--leader-elect-retry-period=300ms",
];
/// So many renewals take longer than the lease lasts.
const RENEWALS: u64 = 14;

#[tokio::test(flavor = "multi_thread")]
async fn b5_b10_m1_m3_flags_do_on_a_cluster_what_they_say() -> Result<()> {
    let scene = Scene::new().await?;
    scene.nodes(&["n1 ex.io/rack=a"]).await?;
    scene.configure(RACKS).await?;
    m1_without_its_controller_the_host_is_ready_and_leads_nothing(&scene).await?;
    b10_servers_answer_and_metrics_are_those_of_the_list(&scene).await?;
    m3_a_lease_does_not_wait_for_other_requests(&scene).await
}

async fn m1_without_its_controller_the_host_is_ready_and_leads_nothing(scene: &Scene) -> Result<()> {
    let host = Host::launch(&scene.host_kubeconfig().await?, &["--controllers=*,-hyperNode-controller"]).await?;
    host.until_ready().await;
    // Bindings may not be read by the first Deployment: that is found a moment later.
    let waits = "[-] controller bottomup-syncer waiting: clusterbindings.topoloom.dev may not be read: ";
    let ready = eventually("the syncer waits", PATIENCE, async || {
        let ready = host.readyz().await.map_err(|error| error.to_string())?;
        if ready.contains(waits) { Ok(ready) } else { Err(ready) }
    })
    .await;
    for line in [
        "[-] controller hyperNode-controller disabled",
        "[-] controller nodelock-sweeper waiting",
        "[-] election nodelock: no controller of this group runs here, so other replicas lead",
        "[-] controller extender waiting",
    ] {
        assert!(ready.contains(line), "{line}: {ready}");
    }
    assert!(!ready.contains("election hypernode"), "{ready}");
    let warned = host.log().iter().filter(|line| line.contains("WARN") && line.contains("clusterbindings")).count();
    assert_eq!(warned, 1, "{:#?}", host.log());
    host.stop().await?;
    let leases: Api<Lease> = Api::namespaced(scene.plane.client(), NAMESPACE);
    let leases = leases.list(&ListParams::default()).await?.items;
    assert!(leases.is_empty(), "{leases:?}");
    assert_eq!(scene.topology().await?, [""; 0]);
    Ok(())
}

/// The kubeconfig of the host with the address of another server, where nothing listens.
async fn dead(scene: &Scene) -> Result<PathBuf> {
    let file = scene.plane.folder().join("dead");
    let (text, server) = (std::fs::read_to_string(scene.host_kubeconfig().await?)?, scene.plane.server_url());
    let dead = text.replace(&server, "https://127.0.0.1:1");
    anyhow::ensure!(dead != text, "the server {server} is not in {text}");
    std::fs::write(&file, dead)?;
    Ok(file)
}

/// The servers for health and metrics beside the admin server, with the API server that `--master` names.
async fn b10_servers_answer_and_metrics_are_those_of_the_list(scene: &Scene) -> Result<()> {
    let master = format!("--master={}", scene.plane.server_url());
    let flags =
        ["--enable-healthz", "--healthz-address=127.0.0.1:0", "--enable-metrics", "--listen-address=127.0.0.1:0"];
    let host = Host::start(&dead(scene).await?, &[&flags[..], &[&master]].concat()).await?;
    scene.until(&["tier 1 ex.io/rack=a (1): n1"]).await;
    for path in ["/healthz", "/healthz/ping"] {
        assert_eq!(host.ask(Port::Health, path).await?, (200, "ok".to_owned()), "{path}");
    }
    let (status, ready) = host.ask(Port::Health, "/readyz").await?;
    assert_eq!((status, ready.contains("election hypernode: leads")), (200, true), "{ready}");
    let (status, text) = host.ask(Port::Metrics, "/metrics").await?;
    assert_eq!(status, 200, "{text}");
    all_are_in_the_list(&text)?;
    host.stop().await
}

/// Checks that the metrics of a running host are in the list against which alerts, dashboard and documentation are
/// checked.
fn all_are_in_the_list(text: &str) -> Result<()> {
    let known: BTreeMap<String, _> = catalogue().into_iter().map(|metric| (metric.name.clone(), metric)).collect();
    let mut shown = 0;
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').context("a name and a kind")?;
        let metric = known.get(name).with_context(|| format!("{name} is not in the list"))?;
        assert_eq!(metric.kind.to_string(), kind, "{name}");
        let series =
            text.lines().filter(|line| metric.series().iter().any(|name| line.starts_with(&format!("{name}{{"))));
        for line in series {
            let (labels, _) = line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).context("labels")?;
            for label in labels.split("\",").filter_map(|pair| pair.split_once("=\"")).map(|(label, _)| label) {
                assert!(label == "le" || metric.labels.contains_key(label), "{name} has no label {label} in the list");
            }
        }
        shown += 1;
    }
    assert!(shown > 15, "{text}");
    Ok(())
}

async fn m3_a_lease_does_not_wait_for_other_requests(scene: &Scene) -> Result<()> {
    let before = scene.plane.requests().await?;
    let host = Host::launch(&scene.host_kubeconfig().await?, &SLOW).await?;
    eventually("the lease is renewed again and again", PATIENCE, async || {
        let since = scene.plane.requests().await.map_err(|error| error.to_string())?.since(&before);
        if since.writes("leases", "") >= RENEWALS { Ok(()) } else { Err(format!("{since:?}")) }
    })
    .await;
    let metrics = host.get("/metrics").await?;
    assert!(metrics.contains("topoloom_leader{group=\"hypernode\"} 1"), "{metrics}");
    // The other requests do wait: of all requests that the host needs before it is ready, it has sent one.
    let (status, ready) = host.ask(Port::Admin, "/readyz").await?;
    assert_eq!((status, ready.contains("election hypernode: leads")), (503, true), "{ready}");
    let sent = metrics.lines().filter(|line| line.starts_with("topoloom_api_requests_total{"));
    let others: Vec<&str> = sent.filter(|line| !line.contains("resource=\"leases\"")).collect();
    assert!(others.len() <= 1, "{others:#?}");
    host.stop().await
}
