//! `make demo SHOW=lending`: a cluster with four GPU machines lends them to another one, in at most four minutes.
//!
//! Both control planes, kube-scheduler, the controllers of workloads, the syncer and the command line are the real programs. The
//! machines are test kubelets, and the top-down half is the player. Every step waits for what it shows: a step that does not happen
//! ends the show, with what was seen last.
//!
//! The window of the policy closes for one real minute. How long the show waits for that depends on the second in which it gets
//! there.

mod counts;
mod minutes;
mod rights;
mod stage;

use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use topoloom_sync::keys;

use self::counts::{History, of_nodes, written};
use self::minutes::ClosedMinute;
use self::stage::{MACHINES, SYNCER_USER, Side, Stage};
use super::{indented, step};
use crate::controlplane::{Requests, eventually};

/// The ClusterBinding.
const BINDING: &str = "east";
/// The namespace of the physical cluster that lent pods run in.
const MOUNT: &str = "lent-to-training";
/// The namespace of the physical cluster in which `lend grant` makes the accounts of borrowers.
const ACCOUNTS: &str = "topoloom-lending";
/// The namespace of the syncer.
const SYSTEM: &str = "topoloom-system";
/// The namespace of the team that borrows.
const WORK: &str = "training";
/// The policy of the lender.
const POLICY: &str = "nights";
/// The Deployment of the team.
const TRAIN: &str = "deployment/train";
/// How many pods it has.
const REPLICAS: usize = 6;

/// How long each step may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the closed minute may take to come, and to be over.
const MINUTES: Duration = Duration::from_secs(150);
/// How far ahead a closing is written, at least: the binding wants to have it announced for `safety.announce`.
const AHEAD: SignedDuration = SignedDuration::from_secs(8);

const BINDING_YAML: &str = "\
apiVersion: topoloom.dev/v1alpha1
kind: ClusterBinding
metadata: {name: east}
spec:
  clusterID: east
  secretRef: {name: east}
  mountNamespace: lent-to-training
  nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [gpu]}]}]}
  mode: observe
  safety: {announce: 5s}     # 10m by default: people who watch do not wait for that
  timing: {suspect: 6s, unreachable: 12s, recheck: 1s}     # by default 15s, 40s and 10s
";

const DEPLOYMENT_YAML: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: train, namespace: training}
spec:
  replicas: 6
  selector: {matchLabels: {app: train}}
  template:
    metadata: {labels: {app: train}}
    spec:
      tolerations: [{key: topoloom.dev/vnode, operator: Exists}]
      containers: [{name: train, image: registry.example.com/train, resources: {limits: {cpu: 4, memory: 8Gi, nvidia.com/gpu: 2}}}]
";

const TENANT_YAML: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: tenant, namespace: default}
spec:
  nodeName: gpu-1
  containers: [{name: tenant, image: registry.example.com/tenant, resources: {limits: {nvidia.com/gpu: 3}}}]
";

/// The columns of nodes.
const NODES: &str = "-o=custom-columns=NODE:.metadata.name,READY:.status.conditions[?(@.type==\"Ready\")].status,\
    GPU:.status.allocatable.nvidia\\.com/gpu,CPU:.status.allocatable.cpu,TAINTS:.spec.taints[*].key,\
    EFFECTS:.spec.taints[*].effect";
/// The columns of pods.
const PODS: &str = "-o=custom-columns=POD:.metadata.name,PHASE:.status.phase,NODE:.spec.nodeName";

/// The policy of the lender, with these lines beside what it always has.
fn policy(lines: &str) -> String {
    format!(
        "\
apiVersion: topoloom.dev/v1alpha1
kind: ResourceLeasingPolicy
metadata: {{name: {POLICY}}}
spec:
  cluster: {BINDING}
  resourceLimits: [{{resource: cpu, percent: 80}}, {{resource: nvidia.com/gpu, quantity: \"6\"}}]
  forceReclaim: true
  gracefulReclaimPeriodSeconds: 10
{lines}"
    )
}

/// Shows it; `look_around` ends when the person has seen enough.
///
/// # Errors
/// When a program does not start, or something is refused.
///
/// # Panics
/// When a step does not happen in time, with what was seen last.
pub async fn show(look_around: impl Future<Output = Result<()>>) -> Result<()> {
    let began = Instant::now();
    step("starting two control planes, machines and the syncer (built once, some minutes the first time)");
    let mut stage = Stage::start().await?;
    println!("   virtual:  {}, no node; a team wants to train here", stage.virtual_plane.server_url());
    println!("   physical: {}, machines gpu-1 to gpu-4 with 8 GPUs each", stage.physical_plane.server_url());

    step("the lender grants what one borrower needs, and gives it a kubeconfig; the borrower stores that in a Secret");
    stage.grant().await?;
    plan(&stage).await?;
    let (revision, lending) = (stage.physical_plane.revision().await?, Instant::now());
    lend(&stage).await?;
    stage.play().await?;
    schedule(&stage).await?;
    tenant(&stage).await?;
    typo(&stage).await?;
    let rest = window(&stage).await?;
    partition(&mut stage).await?;
    selector(&stage).await?;
    count(&stage, revision, lending.elapsed(), rest).await?;

    step(&format!("that was {} s; have a look around", began.elapsed().as_secs()));
    for (side, plane) in [(Side::Virtual, &stage.virtual_plane), (Side::Physical, &stage.physical_plane)] {
        println!("   {side} cluster: export KUBECONFIG={}", plane.kubeconfig().display());
    }
    println!("   export TOPOLOOM_NAMESPACE={SYSTEM} TOPOLOOM_SYNCER_ALLOW_LOOPBACK=true");
    println!("   {} lend report", crate::host::binary()?.display());
    println!(
        "   kubectl get clusterbindings,nodes      kubectl -n {WORK} get pods      kubectl describe clusterbinding {BINDING}"
    );
    look_around.await?;
    stage.stop().await
}

/// Nothing is written, and the plan says what would be.
async fn plan(stage: &Stage) -> Result<()> {
    step("nothing is written yet: a policy of the lender, a binding that observes, and a plan of what would happen");
    indented(&policy(""));
    stage.apply(Side::Physical, &policy("")).await?;
    indented(BINDING_YAML);
    stage.apply(Side::Virtual, BINDING_YAML).await?;
    eventually("the binding is connected, and the machines are listed", PATIENCE, async || {
        let binding = stage.binding().await?;
        if condition(&binding, "Connected")[0] == "True" { Ok(()) } else { Err(binding["status"].to_string()) }
    })
    .await;
    stage.topoloom(&["lend", "plan"]).await?;
    let nodes = stage.nodes().await.map_err(anyhow::Error::msg)?;
    let machines = stage.machines().await.map_err(anyhow::Error::msg)?;
    let claimed = machines.iter().filter(|node| node["metadata"]["annotations"][keys::LEASED_BY].is_string()).count();
    ensure!(nodes.is_empty() && claimed == 0, "{} virtual nodes and {claimed} claims exist already", nodes.len());
    println!("   written so far: 0 virtual nodes, 0 marks on machines");
    Ok(())
}

/// Four nodes appear.
async fn lend(stage: &Stage) -> Result<()> {
    step("the borrower says enforce: each machine is an ordinary Node of the virtual cluster, with 6 of its 8 GPUs");
    let began = Instant::now();
    stage.patch_binding(json!({"mode": "enforce"})).await?;
    until_nodes(stage, "four nodes are ready", MACHINES.len(), |node| gpus(node) == "6" && ready(node) == "True").await;
    println!("   after {:.1} s:", began.elapsed().as_secs_f64());
    stage.kubectl(Side::Virtual, &["get", "nodes", NODES]).await
}

/// kube-scheduler places a Deployment, and its logs can be read.
async fn schedule(stage: &Stage) -> Result<()> {
    step("kube-scheduler places a Deployment on them; the pods run on the machines");
    indented(DEPLOYMENT_YAML);
    stage.apply(Side::Virtual, DEPLOYMENT_YAML).await?;
    until_running(stage).await;
    stage.kubectl(Side::Virtual, &["--namespace", WORK, "get", "pods", PODS]).await?;
    stage.kubectl(Side::Physical, &["--namespace", MOUNT, "get", "pods", PODS]).await?;

    step("the log of a lent pod, through both API servers (a test kubelet answers with the name of the container)");
    stage.kubectl(Side::Virtual, &["--namespace", WORK, "logs", TRAIN]).await
}

/// A pod of the lender takes GPUs, and the node shrinks.
async fn tenant(stage: &Stage) -> Result<()> {
    step("a tenant of the lender starts a pod with 3 GPUs on gpu-1: 5 are left there, so 5 are lent");
    indented(TENANT_YAML);
    stage.apply(Side::Physical, TENANT_YAML).await?;
    let began = Instant::now();
    let node = format!("vnode-{BINDING}-gpu-1");
    eventually(&format!("{node} is smaller"), PATIENCE, async || {
        let nodes = stage.nodes().await?;
        let found = nodes.iter().find(|found| found["metadata"]["name"] == node.as_str());
        match found.map(gpus) {
            Some("5") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    println!("   after {:.1} s:", began.elapsed().as_secs_f64());
    stage.kubectl(Side::Virtual, &["get", "nodes", NODES]).await?;

    step("why is this node smaller than yesterday?");
    stage.topoloom(&["lend", "explain", &node]).await
}

/// A policy with a mistake changes nothing.
async fn typo(stage: &Stage) -> Result<()> {
    step("the lender edits the policy and makes a typing error: it says so, and nothing changes");
    let before = lent(stage).await?;
    let wrong = "  timeZone: Europe/Berln\n";
    indented(wrong);
    stage.apply(Side::Physical, &policy(wrong)).await?;
    let why = eventually("the policy is invalid", PATIENCE, async || {
        let policy = stage.policy(POLICY).await?;
        let [status, _, message] = condition(&policy, "Valid");
        if status == "False" { Ok(message.to_owned()) } else { Err(policy["status"].to_string()) }
    })
    .await;
    println!("   {why}");
    ensure!(lent(stage).await? == before, "a node has changed");
    until_running(stage).await;
    println!("   sizes and taints of all nodes are as before, and {REPLICAS} pods run");
    Ok(())
}

/// What was written while nothing happened.
struct AtRest {
    time: Duration,
    writes: u64,
}

/// The window closes and opens again.
async fn window(stage: &Stage) -> Result<AtRest> {
    step("the lender corrects it: the window is open, closes for one minute, and opens again");
    let minute = ClosedMinute::after(Timestamp::now(), AHEAD);
    indented(&minute.lines());
    stage.apply(Side::Physical, &policy(&minute.lines())).await?;
    eventually("the policy announces its closing", PATIENCE, async || {
        let policy = stage.policy(POLICY).await?;
        let announced = policy["status"]["nextTransition"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
        if announced == Some(minute.closes) { Ok(()) } else { Err(policy["status"].to_string()) }
    })
    .await;
    stage.kubectl(Side::Physical, &["get", "resourceleasingpolicies"]).await?;
    println!("   it closes at {}, which is announced; until then there is nothing to do", minute.closes);
    let (rests, before) = (Instant::now(), stage.virtual_plane.requests().await?);
    until_time(minute.closes - SignedDuration::from_secs(1)).await;
    let rest =
        AtRest { time: rests.elapsed(), writes: touching(&stage.virtual_plane.requests().await?.since(&before)) };
    println!("   in these {} s: {} writes of nodes and pods", rest.time.as_secs(), rest.writes);

    until_nodes(stage, "every node is closed", MACHINES.len(), |node| effect(node).is_some()).await;
    println!(
        "   closed {:.1} s after the boundary: no new pods, and 10 s grace for those that run",
        since(minute.closes)
    );
    stage.kubectl(Side::Virtual, &["get", "nodes", NODES]).await?;
    until_nodes(stage, "the grace is over", MACHINES.len(), |node| effect(node) == Some("NoExecute")).await;
    eventually("every pod has left, and its successor waits", PATIENCE, async || {
        let pods = stage.pods().await?;
        let waiting = pods.iter().filter(|pod| pod["spec"]["nodeName"].is_null() && !is_terminating(pod)).count();
        if waiting == REPLICAS && pods.len() == REPLICAS { Ok(()) } else { Err(places(&pods)) }
    })
    .await;
    println!(
        "   {:.1} s after the boundary every pod was evicted, and the Deployment has new ones, which wait:",
        since(minute.closes)
    );
    stage.kubectl(Side::Virtual, &["--namespace", WORK, "get", "pods", PODS]).await?;

    step(&format!("it opens again at {}: they run", minute.opens));
    until_time(minute.opens).await;
    until_nodes(stage, "every node is open", MACHINES.len(), |node| effect(node).is_none()).await;
    println!("   open {:.1} s after the boundary", since(minute.opens));
    until_running(stage).await;
    stage.kubectl(Side::Virtual, &["--namespace", WORK, "get", "pods", PODS]).await?;
    Ok(rest)
}

/// The physical API server is stopped and comes back.
async fn partition(stage: &mut Stage) -> Result<()> {
    step("the physical API server is stopped: no new pods go there, and nothing is evicted, deleted or enlarged");
    let (nodes, pods) = (lent(stage).await?, uids(stage).await?);
    stage.physical_plane.stop_apiserver().await?;
    let is_tainted = |node: &Value| taint(node, keys::UNREACHABLE_TAINT).is_some();
    until_nodes(stage, "every node is marked", MACHINES.len(), is_tainted).await;
    stage.kubectl(Side::Virtual, &["get", "clusterbinding", BINDING]).await?;
    stage.kubectl(Side::Virtual, &["get", "nodes", NODES]).await?;
    ensure!(uids(stage).await? == pods, "a pod has gone");

    step("it comes back, and so does everything, without a hand");
    stage.physical_plane.start_apiserver().await?;
    let began = Instant::now();
    until_nodes(stage, "no node is marked", MACHINES.len(), |node| !is_tainted(node) && ready(node) == "True").await;
    eventually("sizes and taints are as before", PATIENCE, async || {
        let now = lent(stage).await.map_err(|error| error.to_string())?;
        if now == nodes { Ok(()) } else { Err(json!(now).to_string()) }
    })
    .await;
    until_running(stage).await;
    ensure!(uids(stage).await? == pods, "a pod has gone");
    println!(
        "   after {:.1} s: the same {REPLICAS} pods run, and the nodes are as they were",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

/// An edit that takes too much away is held, and released by a person.
async fn selector(stage: &Stage) -> Result<()> {
    step("the borrower edits the selector: half of the nodes would go, which is more than 20 percent, so it is held");
    let pods = uids(stage).await?;
    let in_rack = json!([{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r2"]}]}]);
    stage.patch_binding(json!({"nodeSelector": {"nodeSelectorTerms": in_rack}})).await?;
    let hash = eventually("the edit is held", PATIENCE, async || {
        let binding = stage.binding().await?;
        let hash = binding["status"]["held"]["hash"].as_str();
        match (condition(&binding, "Held"), hash) {
            (["True", ..], Some(hash)) => Ok(hash.to_owned()),
            _ => Err(binding["status"].to_string()),
        }
    })
    .await;
    stage.topoloom(&["lend", "confirm", BINDING]).await?;
    stage.kubectl(Side::Virtual, &["get", "nodes", NODES]).await?;
    ensure!(uids(stage).await? == pods, "a pod has gone");
    println!("   no pod has gone");

    step("a person has read that, and confirms exactly that");
    stage.topoloom(&["lend", "confirm", BINDING, &hash]).await?;
    until_nodes(stage, "two nodes are left", MACHINES.len() / 2, |node| ready(node) == "True").await;
    until_running(stage).await;
    stage.kubectl(Side::Virtual, &["get", "nodes", NODES]).await?;
    stage.kubectl(Side::Virtual, &["--namespace", WORK, "get", "pods", PODS]).await
}

/// What all of that cost, beside a syncer that writes with each event.
async fn count(stage: &Stage, revision: u64, time: Duration, rest: AtRest) -> Result<()> {
    step("what the syncer wrote in the virtual cluster, by the audit log of its API server");
    let counts = written(&stage.virtual_plane.audit_log()?, SYNCER_USER);
    for (what, count) in &counts {
        println!("   {count:>5} {what}");
    }
    let plane = &stage.physical_plane;
    let machines = plane.writes_since("/registry/minions/", revision).await?;
    let pods = plane.writes_since("/registry/pods/", revision).await?;
    let policies = plane.writes_since("/registry/topoloom.dev/resourceleasingpolicies/", revision).await?;
    let lent = MACHINES.len() as u64;
    let history = History { machines: &machines, pods: &pods, policies: &policies, lent, time };
    println!(
        "   nodes were written {} times; a syncer that writes a node with each event of its machine, of a pod there and of a",
        of_nodes(&counts)
    );
    println!(
        "   policy, and every five minutes, as the original does, would have written them {} times",
        history.naive()
    );
    println!(
        "   at rest: {} writes in {} s here. With 5 000 nodes the original writes 30 000 nodes in ten minutes (computed from its source)",
        rest.writes,
        rest.time.as_secs()
    );
    Ok(())
}

/// Waits until there are so many virtual nodes, and each is as it is wanted.
async fn until_nodes(stage: &Stage, what: &str, count: usize, is_so: impl Fn(&Value) -> bool) {
    eventually(what, MINUTES, async || {
        let nodes = stage.nodes().await?;
        if nodes.len() == count && nodes.iter().all(&is_so) { Ok(()) } else { Err(nodes.iter().map(shown).collect()) }
    })
    .await;
}

/// Waits until all pods of the Deployment run, and no other is there.
async fn until_running(stage: &Stage) {
    eventually(&format!("{REPLICAS} pods run"), PATIENCE, async || {
        let pods = stage.pods().await?;
        let runs = |pod: &&Value| {
            condition(pod, "Ready")[0] == "True" && pod["status"]["phase"] == "Running" && !is_terminating(pod)
        };
        let running = pods.iter().filter(runs).count();
        if running == REPLICAS && pods.len() == REPLICAS { Ok(()) } else { Err(places(&pods)) }
    })
    .await;
}

/// Waits for a time of the wall clock.
async fn until_time(when: Timestamp) {
    sleep(Duration::try_from(when.duration_since(Timestamp::now())).unwrap_or_default()).await;
}

/// Seconds since a time of the wall clock.
fn since(time: Timestamp) -> f64 {
    Timestamp::now().duration_since(time).as_secs_f64()
}

/// Names, sizes and taints of all virtual nodes.
async fn lent(stage: &Stage) -> Result<Vec<[Value; 3]>> {
    let nodes = stage.nodes().await.map_err(anyhow::Error::msg)?;
    let parts = |node: Value| {
        ["/metadata/name", "/status/allocatable", "/spec/taints"]
            .map(|path| node.pointer(path).cloned().unwrap_or_default())
    };
    Ok(nodes.into_iter().map(parts).collect())
}

/// The UIDs of the pods of the Deployment, sorted by name.
async fn uids(stage: &Stage) -> Result<Vec<Value>> {
    let pods = stage.pods().await.map_err(anyhow::Error::msg)?;
    Ok(pods.into_iter().map(|pod| pod["metadata"]["uid"].clone()).collect())
}

/// How many writes were about nodes and pods.
fn touching(requests: &Requests) -> u64 {
    requests.count(|request| request.is_write() && matches!(&*request.resource, "nodes" | "pods"))
}

/// A condition of an object: status, reason and message.
fn condition<'a>(object: &'a Value, kind: &str) -> [&'a str; 3] {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == kind);
    ["status", "reason", "message"].map(|field| found.and_then(|found| found[field].as_str()).unwrap_or_default())
}

fn ready(node: &Value) -> &str {
    condition(node, "Ready")[0]
}

fn gpus(node: &Value) -> &str {
    node["status"]["allocatable"]["nvidia.com/gpu"].as_str().unwrap_or_default()
}

fn taint<'a>(node: &'a Value, key: &str) -> Option<&'a Value> {
    node["spec"]["taints"].as_array().into_iter().flatten().find(|taint| taint["key"] == key)
}

/// The effect of the taint of closed windows.
fn effect(node: &Value) -> Option<&str> {
    taint(node, keys::OUT_OF_WINDOWS_TAINT)?["effect"].as_str()
}

fn is_terminating(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

/// One node, for the message of a step that does not happen.
fn shown(node: &Value) -> String {
    let taints = node["spec"]["taints"].to_string();
    format!("{} Ready {} GPU {} {taints}; ", node["metadata"]["name"], ready(node), gpus(node))
}

/// Where pods are, for the same.
fn places(pods: &[Value]) -> String {
    let shown = |pod: &Value| {
        let [ready, ..] = condition(pod, "Ready");
        format!("{} {} {} Ready {ready}; ", pod["metadata"]["name"], pod["status"]["phase"], pod["spec"]["nodeName"])
    };
    pods.iter().map(shown).collect()
}
