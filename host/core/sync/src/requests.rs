//! What a pod requests in total, as Kubernetes' schedulers count it from 1.34 on (decision D11, `bottomup-syncer.md` section
//! 6.5).
//!
//! Owns: the sum over containers, the peak of the start, requests of the pod as a whole, overhead, and what a resize in place
//! changes. It never says whether a pod counts: that is [`sizes`](super::sizes).
//!
//! The rule, for each resource:
//!
//! 1. While the pod runs it needs the sum of its containers and its sidecars (init containers that restart always).
//! 2. While it starts, one init container runs at a time, beside the sidecars that stand *before* it in the list.
//! 3. The larger of the two is needed; a request of the pod as a whole takes its place. Only `cpu`, `memory` and huge pages
//!    can be requested so.
//! 4. The overhead of the runtime class is added.
//! 5. Every pod is one of `pods`.
//!
//! A **resize in place** changes `spec` first; the kubelet follows later. Until it has, the node needs the largest of what the
//! spec says, what the kubelet has allocated (`allocatedResources`) and what it has applied (`resources`), both from the
//! container's status; where the kubelet called the resize infeasible, the spec does not count. kube-scheduler counts so for
//! pods that are bound ([`StatusUse::Counted`]; `InPlacePodVerticalScaling`, on from 1.33), and counts a pod that waits by
//! its spec alone ([`StatusUse::Ignored`]). It reads the status of containers and sidecars, not of other init containers,
//! which never resize. For the pod as a whole the same is done from 1.36 on; older servers have no such status.
//!
//! Not counted: resources of nodes that a claim of dynamic resource allocation names, alpha and off in 1.36.
//!
//! Failure story: none. A negative request, which the API server refuses, counts as none: otherwise one object could make a
//! node look larger than it is. Sums stop at the limit of a quantity. The time is linear in what the pod names.

use std::cmp::max;

use super::quantity::Quantity;
use super::resources::{CPU, HUGE_PAGES_PREFIX, MEMORY, PODS, ResourceList, ResourceName};

/// The resources of a pod, of its spec and its status.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodResources {
    /// Of each container.
    pub containers: Vec<Requests>,
    /// Of each init container, in their order.
    pub init_containers: Vec<InitContainer>,
    /// `spec.overhead`.
    pub overhead: ResourceList,
    /// Of the pod as a whole: `spec.resources`, and its own status.
    pub pod_level: Requests,
    /// How a resize that is not done stands.
    pub resize: Resize,
}

/// The requests of a container, or of a pod as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requests {
    /// `resources.requests` of the spec.
    pub spec: ResourceList,
    /// What the kubelet reports, where the status has `resources` for it.
    pub status: Option<StatusRequests>,
}

/// What a kubelet reports of requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusRequests {
    /// `resources.requests`: what it has applied.
    pub actuated: ResourceList,
    /// `allocatedResources`: what it has admitted.
    pub allocated: ResourceList,
}

/// An init container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitContainer {
    /// Its requests.
    pub requests: Requests,
    /// Whether it ends before the next one starts.
    pub restarts: Restarts,
}

/// What happens to an init container that has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Restarts {
    /// It has `restartPolicy: Always`, and runs beside all that follow.
    Sidecar,
    /// It ends, and the next one starts then.
    Once,
}

/// How a resize stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Resize {
    /// There is none, or the kubelet will do it.
    #[default]
    Possible,
    /// Condition `PodResizePending` with the reason `Infeasible`: the node can never do it.
    Infeasible,
}

/// Whether what kubelets report counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StatusUse {
    /// The largest of spec and status, as kube-scheduler counts pods on a node.
    #[default]
    Counted,
    /// The spec alone, as kube-scheduler counts a pod that it places.
    Ignored,
}

/// What the pod requests in total. A resource that is named with nothing stays named.
#[must_use]
pub fn effective(pod: &PodResources, status: StatusUse) -> ResourceList {
    let mut running = ResourceList::new();
    for container in &pod.containers {
        add(&mut running, &container.effective(pod.resize, status));
    }
    let (sidecars, start) = init_phase(pod, status);
    add(&mut running, &sidecars);
    raise(&mut running, &start);
    let whole = pod.pod_level.effective(pod.resize, status);
    for name in pod.pod_level.spec.keys().filter(|name| may_be_requested_by_pods(name)) {
        running.insert(name.clone(), whole.get(name).copied().unwrap_or_default());
    }
    add(&mut running, &pod.overhead);
    running.insert(ResourceName::from(PODS), Quantity::ONE);
    running
}

/// What all sidecars request, and the most that is requested while the pod starts.
///
/// Only the resources that a container names change: for all others its turn needs what the sidecars before it need, which is
/// in the peak already. So a pod with ten thousand containers and as many resources is no work.
fn init_phase(pod: &PodResources, status: StatusUse) -> (ResourceList, ResourceList) {
    let (mut sidecars, mut peak) = (ResourceList::new(), ResourceList::new());
    for container in &pod.init_containers {
        let turn: ResourceList = match container.restarts {
            Restarts::Sidecar => {
                let requests = container.requests.effective(pod.resize, status);
                add(&mut sidecars, &requests);
                requests.into_keys().map(|name| (name.clone(), amount(&sidecars, &name))).collect()
            }
            Restarts::Once => {
                let requests = container.requests.effective(pod.resize, StatusUse::Ignored);
                let beside = |(name, own): (ResourceName, Quantity)| (name.clone(), amount(&sidecars, &name).plus(own));
                requests.into_iter().map(beside).collect()
            }
        };
        raise(&mut peak, &turn);
    }
    (sidecars, peak)
}

impl Requests {
    /// Those of the spec, without anything that a kubelet reports.
    #[must_use]
    pub fn of(spec: ResourceList) -> Self {
        Self { spec, status: None }
    }

    fn effective(&self, resize: Resize, status: StatusUse) -> ResourceList {
        let mut requests = ResourceList::new();
        let reported = self.status.as_ref().filter(|_| status == StatusUse::Counted);
        if reported.is_none() || resize == Resize::Possible {
            raise(&mut requests, &self.spec);
        }
        if let Some(reported) = reported {
            raise(&mut requests, &reported.actuated);
            raise(&mut requests, &reported.allocated);
        }
        requests
    }
}

/// Kubernetes knows no request of a whole pod for other resources, and its schedulers ignore one.
fn may_be_requested_by_pods(name: &str) -> bool {
    name == CPU || name == MEMORY || name.starts_with(HUGE_PAGES_PREFIX)
}

fn amount(list: &ResourceList, name: &ResourceName) -> Quantity {
    list.get(name).copied().unwrap_or_default()
}

fn add(list: &mut ResourceList, more: &ResourceList) {
    for (name, more) in more {
        let sum = list.entry(name.clone()).or_default();
        *sum = sum.plus(max(*more, Quantity::ZERO));
    }
}

fn raise(list: &mut ResourceList, least: &ResourceList) {
    for (name, least) in least {
        let most = list.entry(name.clone()).or_default();
        if *least > *most {
            *most = *least;
        }
    }
}

#[cfg(test)]
mod tests;
