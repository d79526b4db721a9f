//! The requests of the host, by the API server's own records: the host counts all of them, and all of them go by the
//! FlowSchemas of the chart.
//!
//! Both are compared with the audit log, to which nothing may be added meanwhile. Only one side knows a request that is
//! under way, and a later comparison finds it on both: by then the host only renews its lease.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use kube::api::Api;
use serde_json::{Value, json};
use topoloom_tests::chart;
use topoloom_tests::controlplane::{ControlPlane, eventually};
use topoloom_tests::host::Host;
use topoloom_tests::scene::{NAMESPACE, PATIENCE, RACKS, Scene};

const LEASE: &str = "topoloom-hypernode";
/// Between two renewals there is time for a comparison. The host gives up a renewal without an answer only after a
/// third of the deadline, so not because the machine stood still for some seconds.
const RENEWALS: [&str; 3] =
    ["--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s", "--leader-elect-retry-period=2s"];

/// The FlowSchemas of the chart: the one for leases in the host's namespace, and the one for everything else.
const FLOWS: [&str; 2] = ["topoloom.volcano-system.leases", chart::CLUSTER_NAME];
const DISPATCHED: &str = "apiserver_flowcontrol_dispatched_requests_total{";
const COUNTED: &str = "topoloom_api_requests_total{";

/// Some of the requests that have to be there: writes of each verb, a read of an object that does not exist yet, and a
/// write over a version that is gone.
const SOME: [[&str; 3]; 16] = [
    ["get", "leases", "404"],
    ["create", "leases", "201"],
    ["update", "leases", "200"],
    ["update", "leases", "409"],
    ["list", "configmaps", "200"],
    ["watch", "configmaps", "200"],
    ["list", "nodes", "200"],
    ["watch", "nodes", "200"],
    ["watch", "hypernodes", "200"],
    ["patch", "hypernodes", "201"],
    ["patch", "hypernodes", "200"],
    ["delete", "hypernodes", "200"],
    ["patch", "hypernodes/status", "200"],
    ["patch", "discoverysources", "201"],
    ["patch", "discoverysources/status", "200"],
    ["create", "events", "201"],
];

/// Verb, resource and code of the answer.
type Kind = [String; 3];
type Kinds = BTreeMap<Kind, u64>;

/// The host's requests in the audit log, each once: a watch is answered as it starts, and has a second line at its end.
fn ours(scene: &Scene) -> Result<Vec<Value>> {
    let mut log = scene.plane.audit_log()?;
    log.retain(|event| {
        let answered = if event["verb"] == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        let is_ours = event["userAgent"].as_str().is_some_and(|agent| agent.starts_with("topoloom/"));
        is_ours && event["stage"] == answered
    });
    Ok(log)
}

fn logged(requests: &[Value]) -> Kinds {
    let mut kinds = Kinds::new();
    for request in requests {
        let object = &request["objectRef"];
        let resource = match (object["resource"].as_str(), object["subresource"].as_str()) {
            (Some(resource), None) => resource.to_owned(),
            (Some(resource), Some(subresource)) => format!("{resource}/{subresource}"),
            (None, _) => "other".to_owned(),
        };
        let verb = request["verb"].as_str().unwrap_or_default().to_owned();
        let code = request["responseStatus"]["code"].to_string();
        *kinds.entry([verb, resource, code]).or_default() += 1;
    }
    kinds
}

fn counted(metrics: &str) -> Kinds {
    let series = metrics.lines().filter_map(|line| line.strip_prefix(COUNTED)?.rsplit_once("} "));
    let kind = |(labels, count): (&str, &str)| {
        let label = |name: &str| Some(labels.split_once(&format!("{name}=\""))?.1.split_once('"')?.0.to_owned());
        Some(([label("verb")?, label("resource")?, label("code")?], count.parse::<u64>().ok()?))
    };
    series.filter_map(kind).collect()
}

/// Whether the host counts what the log has. The host may give up a read of Nodes before its answer, for one of more
/// columns: the API server has logged it, and the host had no answer to count.
fn agree([verb, resource, _]: &Kind, counted: u64, logged: u64) -> bool {
    let may_be_left = resource == "nodes" && matches!(verb.as_str(), "list" | "watch");
    counted == logged || may_be_left && counted < logged
}

/// Compares once what the host counts with the log.
async fn look_at_counts(scene: &Scene, host: &Host) -> Result<()> {
    let before = logged(&ours(scene)?);
    let counted = counted(&host.get("/metrics").await?);
    let logged = logged(&ours(scene)?);
    ensure!(before == logged, "requests came in between");
    let number = |kinds: &Kinds, kind: &Kind| kinds.get(kind).copied().unwrap_or(0);
    let all: BTreeSet<&Kind> = counted.keys().chain(logged.keys()).collect();
    let both = all.into_iter().map(|kind| (kind, number(&counted, kind), number(&logged, kind)));
    let wrong: Vec<_> = both.filter(|(kind, counted, logged)| !agree(kind, *counted, *logged)).collect();
    ensure!(wrong.is_empty(), "counted, and in the log: {wrong:?}");
    let some = SOME.map(|kind| kind.map(str::to_owned));
    let missing: Vec<_> = some.iter().filter(|kind| !counted.contains_key(*kind)).collect();
    ensure!(missing.is_empty(), "there was none of {missing:?} among {counted:?}");
    Ok(())
}

/// How many requests went by each of [`FLOWS`], as the API server counts them.
fn dispatched(metrics: &str) -> [usize; 2] {
    FLOWS.map(|name| {
        let schema = format!("flow_schema=\"{name}\"");
        let lines = metrics.lines().filter(|line| line.starts_with(DISPATCHED) && line.contains(&schema));
        lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<usize>().ok()).sum::<usize>()
    })
}

/// How many of the requests each of [`FLOWS`] is meant for.
fn meant(requests: &[Value]) -> [usize; 2] {
    let is_of_leases = |request: &&Value| {
        let object = &request["objectRef"];
        // The host reads Volcano's leases in all namespaces with one request.
        object["resource"] == "leases" && object["namespace"] == NAMESPACE
    };
    let leases = requests.iter().filter(is_of_leases).count();
    [leases, requests.len() - leases]
}

/// Compares the flows once with the log.
async fn look_at_flows(scene: &Scene) -> Result<()> {
    let before = meant(&ours(scene)?);
    let dispatched = dispatched(&scene.plane.get("/metrics").await?);
    let meant = meant(&ours(scene)?);
    ensure!(before == meant, "requests came in between");
    ensure!(dispatched == meant, "{FLOWS:?} let through {dispatched:?}, and are there for {meant:?}");
    ensure!(!meant.contains(&0), "not each was needed: {meant:?}");
    Ok(())
}

/// Waits until the API server uses the chart's FlowSchemas: it sets the condition after it has begun to use them.
async fn until_in_force(scene: &Scene) {
    let schemas: Api<FlowSchema> = Api::all(scene.plane.client());
    eventually("the FlowSchemas are in force", PATIENCE, async || {
        for name in FLOWS {
            let schema = schemas.get(name).await.map_err(|error| error.to_string())?;
            let conditions = schema.status.and_then(|status| status.conditions).unwrap_or_default();
            let dangling = conditions.iter().find(|it| it.type_.as_deref() == Some("Dangling"));
            if dangling.and_then(|it| it.status.as_deref()) != Some("False") {
                return Err(format!("{name}: {conditions:?}"));
            }
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_request_is_counted_as_the_api_server_answered_it_and_goes_by_a_flow_schema_of_the_chart() -> Result<()> {
    let scene = Scene::with(ControlPlane::builder().audit(true)).await?;
    let installed = chart::install(&scene, json!({})).await?;
    let rendered = installed.objects.iter().filter(|object| object["kind"] == "FlowSchema");
    let rendered: BTreeSet<_> = rendered.filter_map(|object| object["metadata"]["name"].as_str()).collect();
    assert_eq!(rendered, BTreeSet::from(FLOWS));
    until_in_force(&scene).await;
    scene.nodes(&["a ex.io/rack=x ex.io/spine=s", "b ex.io/rack=y ex.io/spine=s"]).await?;
    scene.configure(RACKS).await?;
    let host = Host::start(&installed.kubeconfig, &RENEWALS).await?;
    let both = [
        "tier 2 ex.io/spine=s (2): ex.io/rack=x ex.io/rack=y",
        "tier 1 ex.io/rack=x (1): a",
        "tier 1 ex.io/rack=y (1): b",
    ];
    scene.until(&both).await;
    scene.plane.relabel("b", "ex.io/rack", "x").await?;
    scene.until(&["tier 2 ex.io/spine=s (2): ex.io/rack=x", "tier 1 ex.io/rack=x (2): a b"]).await;
    // Another client annotates the lease: the next renewal is a conflict, because its version is gone.
    scene.plane.kubectl(&["annotate", "lease", LEASE, "--namespace", NAMESPACE, "note=theirs"]).await?;

    eventually("each request is counted once, as it was answered", PATIENCE, async || {
        look_at_counts(&scene, &host).await.map_err(|error| format!("{error:#}"))
    })
    .await;
    eventually("each request went by the FlowSchema that is there for it", PATIENCE, async || {
        look_at_flows(&scene).await.map_err(|error| format!("{error:#}"))
    })
    .await;
    let log = ours(&scene)?;
    // No replica serves Binds here, so no replica has to lead the other group.
    let others =
        |event: &&Value| event["requestURI"].as_str().is_some_and(|uri| uri.contains("topoloom-hypernode-nodelock"));
    assert_eq!(log.iter().find(others), None, "a lease that is left to others is not even looked at");
    let users: BTreeSet<_> = log.iter().filter_map(|event| event["user"]["username"].as_str()).collect();
    assert_eq!(users, BTreeSet::from([chart::USER]));
    host.stop().await
}
