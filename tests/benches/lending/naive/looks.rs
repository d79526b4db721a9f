//! One look at a node (6.2): its size and its metadata are computed and written, whether they differ or not.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeSelectorTerm, Pod, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use topoloom_api::ResourceLeasingPolicy;
use topoloom_sync::keys::{LAST_SYNC_TIME, MANAGED_BY_LABEL, OUT_OF_WINDOWS_TAINT, PHYSICAL_NODE_NAME, PREFIX};

use super::leases::Beats;
use super::queue::Queue;
use super::{RESYNC, World};
use crate::seen::milli;
use crate::stage::{BINDING, VIRTUAL};

/// After a look that failed.
const PAUSE: Duration = Duration::from_secs(1);
const DAY: i64 = 24 * 60;

/// The controller of nodes.
pub(super) struct Looks {
    pub(super) world: Arc<World>,
    pub(super) queue: Arc<Queue>,
    pub(super) lent: Client,
    pub(super) beats: Beats,
}

impl Looks {
    /// What a worker does for ever.
    pub(super) async fn work(&self) {
        loop {
            let name = self.queue.next().await;
            let looked = self.look(&name).await;
            self.queue.add_after(&name, if looked.is_ok() { RESYNC } else { PAUSE });
            self.queue.done(&name);
        }
    }

    async fn look(&self, name: &str) -> Result<()> {
        let lent = format!("{VIRTUAL}{BINDING}-{name}");
        let (Some(machine), Some(node)) = (self.world.machines.get(name), self.world.nodes.get(&lent)) else {
            return Ok(());
        };
        let policies = self.world.policies.all();
        let policy = policies.iter().find(|policy| selects(policy, &machine));
        let nodes: Api<Node> = Api::all(self.lent.clone());
        let wanted = self.wanted(&machine, &node);
        let written = nodes.replace_status(&lent, &PostParams::default(), &wanted).await?;
        self.beats.start(&lent);
        let is_open = policy.is_none_or(|policy| is_open(policy, Timestamp::now()));
        let mut taints = written.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        let is_marked = taints.iter().any(|taint| taint.key == OUT_OF_WINDOWS_TAINT);
        if is_marked != is_open {
            return Ok(());
        }
        taints.retain(|taint| taint.key != OUT_OF_WINDOWS_TAINT);
        if !is_open {
            taints.push(outside());
        }
        let version = written.metadata.resource_version.as_deref().context("a node has a version")?;
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}}));
        nodes.patch(&lent, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// The node as it is written: never equal to the one that is stored, since it has the time.
    fn wanted(&self, machine: &Node, node: &Node) -> Node {
        let mut wanted = node.clone();
        let copied = |key: &String| !key.starts_with(PREFIX) && *key != "kubernetes.io/hostname";
        let labels = machine.labels().iter().filter(|(key, _)| copied(key));
        wanted.labels_mut().extend(labels.map(|(key, value)| (key.clone(), value.clone())));
        let annotations = machine.annotations().iter().filter(|(key, _)| copied(key));
        wanted.annotations_mut().extend(annotations.map(|(key, value)| (key.clone(), value.clone())));
        wanted.annotations_mut().insert(LAST_SYNC_TIME.to_owned(), Timestamp::now().to_string());
        let of_machine = machine.status.clone().unwrap_or_default();
        let mut amounts = of_machine.allocatable.unwrap_or_default();
        let (cpu, pods) = self.used(&machine.name_any());
        if let Some(amount) = amounts.get_mut("cpu") {
            *amount = Quantity(format!("{}m", (milli(&amount.0) - cpu).max(0)));
        }
        if let Some(amount) = amounts.get_mut("pods") {
            *amount = Quantity((amount.0.parse::<i64>().unwrap_or_default() - pods).max(0).to_string());
        }
        let status = wanted.status.get_or_insert_default();
        (status.capacity, status.allocatable) = (Some(amounts.clone()), Some(amounts));
        (status.conditions, status.node_info) = (of_machine.conditions, of_machine.node_info);
        wanted
    }

    /// What pods of others use on a machine: thousandths of a core, and how many they are.
    fn used(&self, machine: &str) -> (i64, i64) {
        let pods = self.world.machine_pods.on(machine);
        let counts = |pod: &&Arc<Pod>| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            !pod.labels().contains_key(MANAGED_BY_LABEL) && matches!(phase, Some("Running" | "Pending"))
        };
        pods.iter().filter(counts).fold((0, 0), |(cpu, count), pod| (cpu + requested(pod), count + 1))
    }
}

/// The taint of closed windows.
fn outside() -> Taint {
    Taint {
        key: OUT_OF_WINDOWS_TAINT.to_owned(),
        value: Some("true".to_owned()),
        effect: "NoSchedule".to_owned(),
        time_added: Some(Time(Timestamp::now())),
    }
}

/// The sum of the requests of a pod for processor time.
fn requested(pod: &Pod) -> i64 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let amounts = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref()?.get("cpu"));
    amounts.map(|amount| milli(&amount.0)).sum()
}

/// The machine of a virtual node.
pub(super) fn machine_of(node: &Node) -> Option<String> {
    node.labels().get(PHYSICAL_NODE_NAME).cloned()
}

/// The machines that a policy selects.
pub(super) fn selected(world: &World, policy: &ResourceLeasingPolicy) -> impl Iterator<Item = String> {
    let machines = world.machines.all().into_iter();
    machines.filter(move |machine| selects(policy, machine)).map(|machine| machine.name_any())
}

fn selects(policy: &ResourceLeasingPolicy, machine: &Node) -> bool {
    let Ok(spec) = &policy.spec else { return false };
    let Some(selector) = &spec.node_selector else { return true };
    selector.node_selector_terms.is_empty()
        || selector.node_selector_terms.iter().any(|term| matches_term(term, machine))
}

/// Of the operators only `In`: the policies of the benchmark have no other.
fn matches_term(term: &NodeSelectorTerm, machine: &Node) -> bool {
    let mut requirements = term.match_expressions.iter().flatten();
    requirements.all(|requirement| {
        let label = machine.labels().get(&requirement.key);
        requirement.operator == "In"
            && label.is_some_and(|label| requirement.values.iter().flatten().any(|it| it == label))
    })
}

/// Whether one of the windows of a policy accepts this minute, in UTC (6.4). Windows of the benchmark name no days.
fn is_open(policy: &ResourceLeasingPolicy, now: Timestamp) -> bool {
    let Ok(spec) = &policy.spec else { return true };
    let minute = now.as_second().div_euclid(60).rem_euclid(DAY);
    let now = format!("{:02}:{:02}", minute / 60, minute % 60);
    spec.time_windows.is_empty()
        || spec.time_windows.iter().any(|window| {
            if window.start <= window.end {
                window.start <= now && now <= window.end
            } else {
                now >= window.start || now <= window.end
            }
        })
}
