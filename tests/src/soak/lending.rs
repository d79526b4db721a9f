//! A long test of lending with faults: a thousand machines are lent to four bindings, machines, pods, policies and credentials change,
//! networks break, holders of the bindings are ended, and the resources of the replicas are measured all the time.
//!
//! The replicas live as in the part of the topology ([`super`]): in the first half two of three hold all bindings in turns, and the
//! one that holds them is ended; in the second half the third one holds them, and the other two are ended before a binding would be
//! handed over to them. Meanwhile node-lifecycle runs with its default times, and no virtual node may become Unknown.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};
use topoloom_api::{ResourceLeasingPolicy, resource_leasing_policy};

use super::probe::{Probe, Work};
use super::record::Record;
use super::replicas::{Replicas, Service};
use super::trouble::is_time;
use super::world::{ARGUMENTS, Loan, World, machine, new_machine, ready_of, virtual_node};
use super::{Ended, Followers, Outcome, Plan, end_replicas, judged, measure};
use crate::controlplane::{Builder, ControlPlane, eventually};
use crate::dice::Dice;
use crate::lending::kubelets::RUN;

const BINDINGS: [&str; 4] = ["c0", "c1", "c2", "c3"];
/// Machines of each binding.
const MACHINES: usize = 250;
/// Machines of each binding beside them that come and go.
const VISITORS: usize = 5;
const RACKS: usize = 20;
/// Pods of the lender that come and go, each on a machine of its own.
const OWN_PODS: usize = 40;
/// Lent pods that come and go.
const LENT_PODS: usize = 200;
/// How long everything may take to come to rest: the pauses of what failed last are half a minute.
const REST: Duration = Duration::from_secs(180);
/// How long a key may be in a queue after that: the longest pause of one that failed is five minutes.
const IDLE: Duration = Duration::from_secs(330);
/// The least time between two edits of policies, and between two kubeconfigs, as in a soak of twenty minutes. Each has all machines
/// looked at: with more of them two processors are never done, and what is measured is that.
const EDIT: Duration = Duration::from_secs(15);
const SWAP: Duration = Duration::from_secs(30);

/// How often each thing happened, for the printed progress.
#[derive(Debug, Default)]
struct Counts {
    machines: AtomicU64,
    pods: AtomicU64,
    policies: AtomicU64,
    credentials: AtomicU64,
    partitions: AtomicU64,
    ended: Ended,
}

impl Counts {
    fn sentence(&self) -> String {
        let all = [&self.machines, &self.pods, &self.policies, &self.credentials, &self.partitions];
        let [machines, pods, policies, credentials, partitions] = all.map(|count| count.load(Ordering::Relaxed));
        format!(
            "{machines} changes of machines, {pods} of pods, {policies} of policies, {credentials} credentials, {partitions} \
             partitions, {}",
            self.ended.sentence()
        )
    }
}

/// Soaks lending, prints its progress and its table.
///
/// # Errors
/// When a step of it fails, a replica ends by itself, a virtual node becomes Unknown, or what is lent is not right at the end.
pub async fn run(minutes: u64) -> Result<Outcome> {
    let plan = Plan::of(minutes);
    let record = Mutex::new(Record::default());
    let soaked = Box::pin(soak(plan, &record));
    judged(&plan, &record, soaked, "every machine is lent, and every virtual node is ready").await
}

/// A control plane that forgets the history of its objects: a long soak would fill its store.
fn plane() -> Builder {
    ControlPlane::builder().apiserver_arg("--etcd-compaction-interval=1m")
}

#[allow(clippy::print_stdout, reason = "progress")]
async fn soak(plan: Plan, record: &Mutex<Record>) -> Result<()> {
    let machines = BINDINGS.len() * MACHINES;
    println!(
        "soak: starting two control planes with {machines} machines for {} bindings, and three replicas",
        BINDINGS.len()
    );
    let loans = BINDINGS.map(|name| {
        // A node that leaves its policy for none grows after ten minutes by default, and the end does not wait for that.
        let fields = json!({"safety": {"maxNodesPercent": 100, "maxEvictPercent": 100}, "timing": {"grow": "30s"}});
        Loan { name, machines: MACHINES, fields }
    });
    let world = World::new([plane(), plane()], &loans).await?;
    let planes = vec![world.virtual_plane.client(), world.physical_plane.client()];
    let probe = Probe::new(planes, Work::Bindings(BINDINGS.len())).await?;
    let service = Service {
        kubeconfig: world.virtual_plane.kubeconfig(),
        arguments: ARGUMENTS.map(str::to_owned).to_vec(),
        ready: "[+] controller bottomup-syncer runs",
        leads: BINDINGS.iter().map(|name| format!("binding {name}: leads")).collect(),
    };
    let replicas = Replicas::start(service, probe.board()).await?;
    // The measurement begins when everything is lent.
    all_is_lent(&world).await;

    let began = Instant::now();
    let counts = Counts::default();
    let measuring = measure(&plan, began, &probe, record, || counts.sentence());
    let troubling = trouble(&plan, began, &world, replicas, &counts);
    let replicas = tokio::select! {
        troubled = troubling => troubled?,
        failed = measuring => return Err(failed),
    };
    println!("soak: everything comes to rest");
    rest(&world).await?;
    // However full queues were: what is left in one now is never worked off.
    replicas.until_idle(IDLE).await;
    replicas.stop().await?;
    let refused = world.kubelets.mistakes();
    if !refused.is_empty() {
        println!("soak: {} requests of kubelets were refused, the first one: {}", refused.len(), refused[0]);
    }
    world.stop().await
}

/// Everything that happens in both clusters, from now until the soak ends; all parts end with the first failure.
async fn trouble(plan: &Plan, began: Instant, world: &World, replicas: Replicas, counts: &Counts) -> Result<Replicas> {
    let end = began + plan.total;
    let ending = end_replicas(plan, began, replicas, Followers::Both, &counts.ended);
    let (replicas, ..) = tokio::try_join!(
        ending,
        machines(world, plan.move_a_node, end, &counts.machines),
        pods(world, plan.move_a_node, end, &counts.pods),
        policies(world, plan.edit.max(EDIT), end, &counts.policies),
        credentials(world, plan.swap.max(SWAP), end, &counts.credentials),
        partitions(world, plan.end_a_replica, end, &counts.partitions),
        none_is_unknown(world, plan.sample, end),
    )?;
    Ok(replicas)
}

/// An answer that another change brought about meanwhile is no failure: it exists, it is gone, or it is being deleted.
fn fine<T>(answer: kube::Result<T>) -> Result<()> {
    match answer {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        answer => Ok(answer.map(drop)?),
    }
}

/// Machines come and go, get other labels, are cordoned, and are used by the lender.
async fn machines(world: &World, every: Duration, end: Instant, done: &AtomicU64) -> Result<()> {
    let (nodes, own) = (world.machines(), world.lenders_pods());
    let (mut next, mut dice, mut cordoned) = (Instant::now(), Dice::new(1), BTreeSet::new());
    while is_time(&mut next, every, end).await {
        let binding = BINDINGS[dice.below(BINDINGS.len())];
        let name = machine(binding, dice.below(MACHINES));
        match dice.below(4) {
            0 => {
                let visitor = format!("{binding}-v{}", dice.below(VISITORS));
                if nodes.get_opt(&visitor).await?.is_some() {
                    fine(nodes.delete(&visitor, &DeleteParams::default()).await)?;
                } else {
                    world.kubelets.register([new_machine(binding, &visitor)]).await?;
                }
            }
            1 => {
                let rack = format!("r{}", dice.below(RACKS));
                world.physical_plane.relabel(&name, "rack", rack.as_str()).await?;
            }
            2 => {
                let number = dice.below(OWN_PODS);
                let pod = format!("own-{number}");
                if own.get_opt(&pod).await?.is_some() {
                    fine(own.delete(&pod, &DeleteParams::default()).await)?;
                } else {
                    let on = machine(BINDINGS[number % BINDINGS.len()], number);
                    let requests = json!({"requests": {"cpu": "2"}});
                    let made = pod_on(&pod, &on, json!({}), requests)?;
                    fine(own.create(&PostParams::default(), &made).await)?;
                }
            }
            _ => {
                let is_cordoned = !cordoned.remove(&name);
                if is_cordoned {
                    cordoned.insert(name.clone());
                }
                cordon(world, &name, is_cordoned).await?;
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    for name in cordoned {
        cordon(world, &name, false).await?;
    }
    Ok(())
}

async fn cordon(world: &World, machine: &str, is_cordoned: bool) -> Result<()> {
    let body = Patch::Merge(json!({"spec": {"unschedulable": is_cordoned}}));
    world.machines().patch(machine, &PatchParams::default(), &body).await?;
    Ok(())
}

fn pod_on(name: &str, node: &str, annotations: Value, resources: Value) -> Result<Pod> {
    let container = json!({"name": "c", "image": "none", "resources": resources});
    let spec = json!({"nodeName": node, "containers": [container]});
    Ok(serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations}, "spec": spec}))?)
}

/// Lent pods come, run for some seconds, and go, some of them while they run.
async fn pods(world: &World, every: Duration, end: Instant, done: &AtomicU64) -> Result<()> {
    let pods = world.virtual_pods();
    let (mut next, mut dice) = (Instant::now(), Dice::new(2));
    while is_time(&mut next, every, end).await {
        let name = format!("lent-{}", dice.below(LENT_PODS));
        if pods.get_opt(&name).await?.is_some() {
            fine(pods.delete(&name, &DeleteParams::default()).await)?;
        } else {
            let binding = BINDINGS[dice.below(BINDINGS.len())];
            let node = virtual_node(binding, &machine(binding, dice.below(MACHINES)));
            let pod = pod_on(&name, &node, json!({RUN: "20s,Succeeded"}), json!({}))?;
            fine(pods.create(&PostParams::default(), &pod).await)?;
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// One policy of each binding is stored, edited, broken, closed and deleted. Each binding is a step ahead of the one before it, so that
/// at every time about the same happens.
async fn policies(world: &World, every: Duration, end: Instant, done: &AtomicU64) -> Result<()> {
    let mut next = Instant::now();
    let steps =
        (0..5).flat_map(|round| (0..).zip(BINDINGS).map(move |(ahead, binding)| ((round + ahead) % 5, binding)));
    for (step, binding) in steps.cycle() {
        if !is_time(&mut next, every, end).await {
            break;
        }
        let limit = |percent: u32| json!({"resourceLimits": [{"resource": "cpu", "percent": percent}]});
        let mut spec = match step {
            0 => limit(80),
            1 => limit(50),
            // It says why it is not in force, and the last one stays.
            2 => limit(101),
            3 => json!({"timeWindows": [{"start": "00:00", "end": "00:01", "days": ["Monday"]}]}),
            _ => {
                fine(stored_policies(world).delete(&policy_of(binding), &DeleteParams::default()).await)?;
                done.fetch_add(1, Ordering::Relaxed);
                continue;
            }
        };
        spec["cluster"] = binding.into();
        let (version, kind) = (resource_leasing_policy::API_VERSION, resource_leasing_policy::KIND);
        let metadata = json!({"name": policy_of(binding)});
        let policy = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
        world.physical_plane.apply(&[policy]).await?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn policy_of(binding: &str) -> String {
    format!("policy-{binding}")
}

fn stored_policies(world: &World) -> Api<ResourceLeasingPolicy> {
    Api::all(world.physical_plane.client())
}

/// The kubeconfig of one binding after the other is replaced, at times by one that cannot be used.
async fn credentials(world: &World, every: Duration, end: Instant, done: &AtomicU64) -> Result<()> {
    let (mut next, mut turn) = (Instant::now(), 0_usize);
    while is_time(&mut next, every, end).await {
        let binding = BINDINGS[turn / 2 % BINDINGS.len()];
        let kubeconfig = match turn % 4 {
            2 => "this is no kubeconfig".to_owned(),
            _ => world.credential(binding).await?,
        };
        world.store(binding, &kubeconfig).await?;
        turn += 1;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// The network between the syncer and the lender of one binding after the other breaks for a third of the time.
async fn partitions(world: &World, every: Duration, end: Instant, done: &AtomicU64) -> Result<()> {
    let mut next = Instant::now();
    for binding in BINDINGS.iter().cycle() {
        if !is_time(&mut next, every, end).await {
            break;
        }
        let wire = world.wire(binding)?;
        wire.cut();
        sleep(every / 3).await;
        wire.mend();
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Looks at all virtual nodes until the end: node-lifecycle says Unknown of one whose lease was not renewed for its grace period.
async fn none_is_unknown(world: &World, every: Duration, end: Instant) -> Result<()> {
    let mut next = Instant::now();
    while is_time(&mut next, every, end).await {
        let unknown: Vec<String> = world
            .lent()
            .await?
            .into_iter()
            .filter(|(_, node)| ready_of(node) == "Unknown")
            .map(|(name, _)| name)
            .collect();
        ensure!(unknown.is_empty(), "no replica has renewed the leases of {unknown:?}");
    }
    sleep_until(end).await;
    Ok(())
}

/// Ends every change, and waits until what is lent is what there is.
async fn rest(world: &World) -> Result<()> {
    for binding in BINDINGS {
        world.wire(binding)?.mend();
        world.store(binding, &world.credential(binding).await?).await?;
        fine(stored_policies(world).delete(&policy_of(binding), &DeleteParams::default()).await)?;
    }
    for number in 0..OWN_PODS {
        fine(world.lenders_pods().delete(&format!("own-{number}"), &DeleteParams::default()).await)?;
    }
    for number in 0..LENT_PODS {
        fine(world.virtual_pods().delete(&format!("lent-{number}"), &DeleteParams::default()).await)?;
    }
    eventually("no lent pod is left", REST, async || {
        let left =
            world.virtual_pods().list_metadata(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let names: Vec<String> = left.items.into_iter().filter_map(|pod| pod.metadata.name).collect();
        if names.is_empty() { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    all_is_lent(world).await;
    Ok(())
}

/// Waits until each machine has a virtual node that is ready and lends all of it, and no other virtual node is there.
async fn all_is_lent(world: &World) {
    eventually("every machine is lent", REST, async || {
        let machines =
            world.machines().list_metadata(&ListParams::default()).await.map_err(|error| error.to_string())?;
        let wanted: BTreeSet<String> = machines
            .items
            .into_iter()
            .filter_map(|machine| {
                let name = machine.metadata.name?;
                let (binding, _) = name.split_once('-')?;
                Some(virtual_node(binding, &name))
            })
            .collect();
        let lent = world.lent().await.map_err(|error| format!("{error:#}"))?;
        let found: BTreeSet<String> = lent.keys().cloned().collect();
        let wrong: Vec<&String> = wanted.symmetric_difference(&found).collect();
        let small: Vec<&String> = lent
            .iter()
            .filter(|(_, node)| {
                let cpu = node.status.as_ref().and_then(|status| status.allocatable.as_ref()?.get("cpu"));
                ready_of(node) != "True" || cpu.is_none_or(|cpu| cpu.0 != "32")
            })
            .map(|(name, _)| name)
            .collect();
        if wrong.is_empty() && small.is_empty() {
            return Ok(());
        }
        let first = |names: &[&String]| format!("{:?}", names.iter().take(5).collect::<Vec<_>>());
        Err(format!(
            "{} nodes are missing or left: {}; {} are not ready or not whole: {}",
            wrong.len(),
            first(&wrong),
            small.len(),
            first(&small)
        ))
    })
    .await;
}
