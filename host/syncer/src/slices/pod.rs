//! Pods of either cluster, as far as nodes depend on them: what they request, what they tolerate, where they are, which host ports
//! they hold. Those whose status is copied are read whole. What is kept of each is a [`KnownPod`].

mod known;
mod name;
mod tolerated;
mod whole;

use std::time::Duration;

use k8s_openapi::api::core::v1 as core_v1;
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::Deserialize;
use topoloom_core::names::NodeName;
use topoloom_sync::deletion::PodClass;
use topoloom_sync::identity::mapping::{PhysicalPodRef, VirtualPodRef};
use topoloom_sync::keys;
use topoloom_sync::node::LentPod;
use topoloom_sync::phase::Phase;
use topoloom_sync::ports::{HostPort, Marked, Placeholder};
use topoloom_sync::reclaim::PodRef;
use topoloom_sync::requests::{
    InitContainer, PodResources, Requests, Resize, Restarts, StatusRequests, StatusUse, effective,
};
use topoloom_sync::resources::{ResourceError, ResourceList};
use topoloom_sync::taints::Toleration;

use super::{Amounts, ConditionSlice, Head, amounts, slice_of};

pub use known::{Commons, KnownPod, Lending, Texts};
pub use name::PodName;
pub use whole::{Copied, WholePod};

/// The annotation of a pod that a kubelet made of a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Namespaces whose pods block no deletion of a node (6.9).
const SYSTEM: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// A Pod, as it is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodSlice {
    #[serde(deserialize_with = "super::metadata::read")]
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

slice_of!(PodSlice, core_v1::Pod, NamespaceResourceScope);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: String,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
    overhead: Amounts,
    resources: Option<Resources>,
    /// What decides about the taint that evicts, and nothing else.
    #[serde(deserialize_with = "tolerated::read")]
    tolerations: Vec<Toleration>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Container {
    name: String,
    resources: Resources,
    restart_policy: String,
    ports: Vec<Port>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: Amounts,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    host_port: u16,
    #[serde(rename = "hostIP")]
    host_ip: String,
    protocol: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    conditions: Vec<ConditionSlice>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
    resources: Option<Resources>,
    allocated_resources: Amounts,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    resources: Option<Resources>,
    allocated_resources: Amounts,
}

impl PodSlice {
    /// Which pod it is.
    #[must_use]
    pub fn pod(&self) -> PodRef {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        PodRef {
            namespace: text(&self.metadata.namespace),
            name: text(&self.metadata.name),
            uid: self.metadata.uid.as_deref().unwrap_or_default().into(),
        }
    }

    /// The node that it is bound to.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        Some(self.spec.node_name.as_str()).filter(|node| !node.is_empty())
    }

    /// `status.phase`.
    #[must_use]
    pub fn phase(&self) -> &str {
        &self.status.phase
    }

    /// Its metadata.
    #[must_use]
    pub fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    /// The virtual pod that it names, where it names one whole.
    #[must_use]
    pub fn names(&self) -> Option<VirtualPodRef> {
        VirtualPodRef::read(self.metadata.annotations.as_ref()?).ok()
    }

    /// The physical pod that it names, where it names one.
    #[must_use]
    pub fn names_physical(&self) -> Option<PhysicalPodRef> {
        PhysicalPodRef::read(self.metadata.annotations.as_ref()?).ok()
    }

    /// What it requests in total, as the scheduler of its cluster counts it.
    ///
    /// # Errors
    /// One of its amounts is no quantity.
    pub fn requests(&self) -> Result<ResourceList, ResourceError> {
        let status = |statuses: &[ContainerStatus], name: &str| {
            let status = statuses.iter().find(|status| status.name == name)?;
            Some((status.resources.clone()?, status.allocated_resources.clone()))
        };
        let container = |container: &Container, statuses: &[ContainerStatus]| {
            requests(&container.resources, status(statuses, &container.name))
        };
        let mut pod =
            PodResources { overhead: amounts(&self.spec.overhead)?, resize: self.resize(), ..PodResources::default() };
        for spec in &self.spec.containers {
            pod.containers.push(container(spec, &self.status.container_statuses)?);
        }
        for spec in &self.spec.init_containers {
            let requests = container(spec, &self.status.init_container_statuses)?;
            let restarts = if spec.restart_policy == "Always" { Restarts::Sidecar } else { Restarts::Once };
            pod.init_containers.push(InitContainer { requests, restarts });
        }
        if let Some(whole) = &self.spec.resources {
            let status =
                self.status.resources.clone().map(|applied| (applied, self.status.allocated_resources.clone()));
            pod.pod_level = requests(whole, status)?;
        }
        Ok(effective(&pod, StatusUse::Counted))
    }

    /// The ports of the machine that it holds: those of regular and init containers, each once (11.2).
    #[must_use]
    pub fn host_ports(&self) -> Vec<HostPort> {
        let containers = self.spec.containers.iter().chain(&self.spec.init_containers);
        let ports = containers.flat_map(|container| &container.ports);
        let mut ports: Vec<HostPort> =
            ports.filter_map(|port| HostPort::read(&port.host_ip, &port.protocol, port.host_port)).collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// As a pod of a virtual node.
    #[must_use]
    pub fn lent(self) -> LentPod {
        let Head { version, existence, .. } = Head::of(&self.metadata);
        LentPod {
            pod: self.pod(),
            version,
            class: self.class(),
            phase: Phase::read(&self.status.phase),
            existence,
            tolerations: self.spec.tolerations,
            refused: None,
            grace: grace(self.metadata.deletion_grace_period_seconds),
        }
    }

    /// As a placeholder for host ports, and the virtual node that it is bound to, where it is one.
    #[must_use]
    pub fn placeholder(&self) -> Option<(NodeName, Placeholder)> {
        let node = NodeName::from(self.node()?);
        (self.class() == PodClass::Placeholder).then(|| (node, self.as_placeholder()))
    }

    /// As a pod in the namespace of placeholders, whatever it says of itself.
    #[must_use]
    pub fn as_placeholder(&self) -> Placeholder {
        let Head { uid, version, existence } = Head::of(&self.metadata);
        let owners = self.metadata.owner_references.as_deref().unwrap_or_default();
        Placeholder {
            name: self.metadata.name.clone().unwrap_or_default(),
            uid,
            version,
            labels: self.metadata.labels.clone().unwrap_or_default(),
            owner: owners.iter().find(|owner| owner.kind == "Node").map(|owner| owner.uid.as_str().into()),
            existence,
            phase: Phase::read(&self.status.phase),
            marked: if self.status.conditions.is_empty() { Marked::No } else { Marked::Yes },
            ports: self.host_ports(),
        }
    }

    /// Whether a finalizer keeps it when it is deleted with grace 0.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
    }

    fn class(&self) -> PodClass {
        let has = |map: &Option<std::collections::BTreeMap<String, String>>, key: &str| {
            map.as_ref().is_some_and(|map| map.contains_key(key))
        };
        let namespace = self.metadata.namespace.as_deref().unwrap_or_default();
        let owners = self.metadata.owner_references.as_deref().unwrap_or_default();
        if owners.iter().any(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true)) {
            PodClass::DaemonSet
        } else if has(&self.metadata.annotations, MIRROR) {
            PodClass::Mirror
        } else if namespace == keys::HOST_PORT_NAMESPACE && has(&self.metadata.labels, keys::HOST_PORT_PLACEHOLDER) {
            // The label alone would let a tenant take a pod out of what blocks a deletion.
            PodClass::Placeholder
        } else if SYSTEM.contains(&namespace) {
            PodClass::System
        } else {
            PodClass::Ordinary
        }
    }

    fn resize(&self) -> Resize {
        let is_infeasible = |condition: &ConditionSlice| {
            condition.kind == "PodResizePending" && condition.status == "True" && condition.reason == "Infeasible"
        };
        if self.status.conditions.iter().any(is_infeasible) { Resize::Infeasible } else { Resize::Possible }
    }
}

fn requests(spec: &Resources, status: Option<(Resources, Amounts)>) -> Result<Requests, ResourceError> {
    let status = match status {
        None => None,
        Some((applied, allocated)) => {
            Some(StatusRequests { actuated: amounts(&applied.requests)?, allocated: amounts(&allocated)? })
        }
    };
    Ok(Requests { spec: amounts(&spec.requests)?, status })
}

/// `deletionGracePeriodSeconds`, which a pod has that is being deleted.
fn grace(seconds: Option<i64>) -> Option<Duration> {
    seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(pod: Value) -> PodSlice {
        let whole: core_v1::Pod = serde_json::from_value(pod).unwrap();
        serde_json::from_value(serde_json::to_value(whole).unwrap()).unwrap()
    }

    fn pod(metadata: Value, spec: Value, status: Value) -> PodSlice {
        let mut all = json!({"namespace": "team", "name": "p", "uid": "u", "resourceVersion": "3"});
        all.as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
        read(json!({"apiVersion": "v1", "kind": "Pod", "metadata": all, "spec": spec, "status": status}))
    }

    fn request(cpu: &str) -> Value {
        json!({"requests": {"cpu": cpu}})
    }

    #[test]
    fn d11_requests_are_those_that_kubernetes_counts() {
        let spec = json!({
            "nodeName": "w1",
            "initContainers": [
                {"name": "i", "resources": request("3")}, {"name": "s", "restartPolicy": "Always", "resources": request("1")},
            ],
            "containers": [{"name": "a", "resources": request("1")}, {"name": "b", "resources": request("500m")}],
            "overhead": {"cpu": "100m"},
        });
        let read = pod(json!({}), spec, json!({"phase": "Running"}));
        assert_eq!(read.requests().unwrap()["cpu"].to_string(), "3100m");
        assert_eq!((read.node(), read.phase()), (Some("w1"), "Running"));
    }

    #[test]
    fn d11_what_the_kubelet_has_applied_counts_until_a_resize_is_done_and_an_infeasible_one_does_not() {
        let spec = json!({"containers": [{"name": "a", "resources": request("4")}]});
        let statuses = json!([{"name": "a", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "2"}}]);
        let grows = pod(json!({}), spec.clone(), json!({"containerStatuses": statuses}));
        assert_eq!(grows.requests().unwrap()["cpu"].to_string(), "4");
        let pending = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        let never = pod(json!({}), spec, json!({"containerStatuses": statuses, "conditions": pending}));
        assert_eq!(never.requests().unwrap()["cpu"].to_string(), "2");
    }

    #[test]
    fn s10_the_class_of_a_pod_is_read() {
        let class = |metadata: Value| pod(metadata, json!({"containers": []}), json!({})).lent().class;
        assert_eq!(class(json!({})), PodClass::Ordinary);
        assert_eq!(class(json!({"namespace": "kube-system"})), PodClass::System);
        let owner = |controller: bool| json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": controller}]});
        assert_eq!(class(owner(true)), PodClass::DaemonSet);
        assert_eq!(class(owner(false)), PodClass::Ordinary, "an owner that does not make it again");
        assert_eq!(class(json!({"annotations": {"kubernetes.io/config.mirror": "x"}})), PodClass::Mirror);
        let placeholder = |namespace: &str| {
            class(json!({"namespace": namespace, "labels": {"topoloom.dev/hostport-fake-pod": "true"}}))
        };
        assert_eq!(placeholder("topoloom-host-ports"), PodClass::Placeholder);
        assert_eq!(placeholder("team"), PodClass::Ordinary, "a tenant wrote the label");
    }

    #[test]
    fn host_ports_are_those_of_all_containers_each_once() {
        let spec = json!({
            "containers": [{"name": "a", "ports": [
                {"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "hostPort": 8080, "protocol": "TCP"},
                {"containerPort": 82},
            ]}],
            "initContainers": [{"name": "i", "ports": [{"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]}],
        });
        let ports: Vec<String> = pod(json!({}), spec, json!({})).host_ports().iter().map(ToString::to_string).collect();
        assert_eq!(ports, ["0.0.0.0/TCP/8080", "10.0.0.1/UDP/53"]);
    }

    #[test]
    fn section_11_2_a_placeholder_is_read_with_its_owner_and_its_ports() {
        let metadata = |namespace: &str| {
            json!({
                "namespace": namespace, "labels": {"topoloom.dev/hostport-fake-pod": "true"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "vnode-east-w1", "uid": "v1"}],
            })
        };
        let spec = json!({"nodeName": "vnode-east-w1", "containers": [
            {"name": "host-ports", "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "0.0.0.0", "protocol": "TCP"}]},
        ]});
        let scheduled = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]});
        let made = pod(metadata("topoloom-host-ports"), spec.clone(), json!({"phase": "Pending"}));
        let (node, placeholder) = made.placeholder().unwrap();
        assert_eq!(
            (&*node, placeholder.owner.as_deref(), placeholder.marked),
            ("vnode-east-w1", Some("v1"), Marked::No)
        );
        assert_eq!((placeholder.ports.len(), placeholder.phase, &*placeholder.version), (1, Phase::Pending, "3"));
        let marked = pod(metadata("topoloom-host-ports"), spec.clone(), scheduled);
        assert_eq!(marked.placeholder().unwrap().1.marked, Marked::Yes);
        assert_eq!(pod(metadata("team"), spec, json!({})).placeholder(), None);
    }

    #[test]
    fn s6_the_virtual_pod_that_it_names_is_read_only_whole() {
        let annotations = json!({"annotations": {
            "topoloom.dev/virtual-pod-namespace": "a", "topoloom.dev/virtual-pod-name": "b", "topoloom.dev/virtual-pod-uid": "c",
        }});
        let named = pod(annotations, json!({"containers": []}), json!({})).names().unwrap();
        assert_eq!((named.namespace.as_str(), named.name.as_str(), &*named.uid), ("a", "b", "c"));
        let part = json!({"annotations": {"topoloom.dev/virtual-pod-name": "b"}});
        assert_eq!(pod(part, json!({"containers": []}), json!({})).names(), None);
    }
}
