//! The physical pod of a virtual one (`bottomup-syncer.md` 4.3 and 5, decision S6).
//!
//! What belongs to the virtual cluster alone is not copied: where the pod may run, which ServiceAccount it has, its
//! priority, its readiness gates. ConfigMaps and Secrets are not copied at all; what a pod lacks shows as the reason for
//! which its containers wait. A pod with claims for devices never comes here (C13), so none loses its claims on the way.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Toleration};
use kube::api::ObjectMeta;
use topoloom_sync::identity::Identity;
use topoloom_sync::keys;
use topoloom_sync::naming::{NameError, label_value, physical_pod_name};

/// Volumes with tokens of ServiceAccounts begin so.
const TOKEN: &str = "kube-api-access-";

/// What all physical pods of a binding have in common.
#[derive(Debug, Clone)]
pub(super) struct Copier {
    pub(super) identity: Identity,
    pub(super) namespace: String,
}

impl Copier {
    /// The name that the physical pod of a virtual one has.
    pub(super) fn name(&self, virtual_pod: &Pod) -> Result<String, NameError> {
        let metadata = &virtual_pod.metadata;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        physical_pod_name(&part(&metadata.namespace), &part(&metadata.name))
    }

    /// The physical pod, bound to this physical node.
    pub(super) fn copy(&self, virtual_pod: &Pod, physical_node: &str) -> Result<Pod, NameError> {
        let metadata = ObjectMeta {
            name: Some(self.name(virtual_pod)?),
            namespace: Some(self.namespace.clone()),
            labels: Some(self.labels(virtual_pod)),
            annotations: Some(annotations(virtual_pod)),
            ..ObjectMeta::default()
        };
        let spec = virtual_pod.spec.clone().unwrap_or_default();
        Ok(Pod { metadata, spec: Some(spec_on(spec, physical_node)), status: None })
    }

    fn labels(&self, virtual_pod: &Pod) -> BTreeMap<String, String> {
        let metadata = &virtual_pod.metadata;
        let mut labels = metadata.labels.clone().unwrap_or_default();
        labels.retain(|key, _| !key.starts_with(keys::PREFIX));
        labels.extend(self.identity.labels());
        let namespace = metadata.namespace.clone().unwrap_or_default();
        let mut set = |key: &str, value: String| labels.insert(key.to_owned(), value);
        set(keys::MANAGED_BY_LABEL, keys::MANAGED_BY.to_owned());
        set(keys::VIRTUAL_NAMESPACE, namespace);
        let owners = metadata.owner_references.iter().flatten();
        if let Some(owner) = owners.into_iter().find(|owner| owner.controller == Some(true)) {
            set(keys::WORKLOAD_TYPE, label_value(&owner.kind.to_lowercase()));
            set(keys::WORKLOAD_NAME, label_value(&owner.name));
        }
        labels
    }
}

fn annotations(virtual_pod: &Pod) -> BTreeMap<String, String> {
    let metadata = &virtual_pod.metadata;
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| !key.starts_with(keys::PREFIX));
    let node = virtual_pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    for (key, value) in [
        (keys::VIRTUAL_POD_NAMESPACE, metadata.namespace.clone()),
        (keys::VIRTUAL_POD_NAME, metadata.name.clone()),
        (keys::VIRTUAL_POD_UID, metadata.uid.clone()),
        (keys::VIRTUAL_NODE_NAME, node),
    ] {
        annotations.insert(key.to_owned(), value.unwrap_or_default());
    }
    annotations
}

fn spec_on(spec: PodSpec, physical_node: &str) -> PodSpec {
    let mut spec = PodSpec {
        node_name: Some(physical_node.to_owned()),
        // The virtual scheduler has placed it, and the kubelet takes it whatever the taints of its node are.
        tolerations: Some(vec![Toleration { operator: Some("Exists".to_owned()), ..Toleration::default() }]),
        node_selector: None,
        affinity: None,
        topology_spread_constraints: None,
        scheduler_name: None,
        scheduling_gates: None,
        readiness_gates: None,
        priority: None,
        priority_class_name: None,
        preemption_policy: None,
        service_account: None,
        service_account_name: None,
        automount_service_account_token: Some(false),
        // Admission of the physical cluster knows its own runtime classes.
        overhead: None,
        // They are added to pods that exist.
        ephemeral_containers: None,
        ..spec
    };
    if let Some(volumes) = &mut spec.volumes {
        volumes.retain(|volume| !volume.name.starts_with(TOKEN));
    }
    let containers = spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten());
    containers.for_each(without_token);
    spec
}

fn without_token(container: &mut Container) {
    if let Some(mounts) = &mut container.volume_mounts {
        mounts.retain(|mount| !mount.name.starts_with(TOKEN));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use topoloom_sync::naming::BindingName;

    use super::*;

    fn copier() -> Copier {
        let identity = Identity::new("cluster".into(), BindingName::parse("east").unwrap(), "binding".into()).unwrap();
        Copier { identity, namespace: "borrowed".to_owned() }
    }

    fn copy(virtual_pod: Value) -> Value {
        let pod = copier().copy(&serde_json::from_value(virtual_pod).unwrap(), "w1").unwrap();
        serde_json::to_value(pod).unwrap()
    }

    fn web(spec: Value) -> Value {
        json!({
            "metadata": {
                "namespace": "shop", "name": "web-0", "uid": "v", "resourceVersion": "7",
                "labels": {"app": "web", "topoloom.dev/managed-by": "x"},
                "annotations": {"note": "n", "topoloom.dev/physical-pod-name": "p"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "1"},
                    {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "2", "controller": true},
                ],
                "finalizers": ["x.io/keep"],
            },
            "spec": spec,
        })
    }

    #[test]
    fn s6_it_carries_the_identity_and_both_names() {
        let pod = copy(web(json!({"containers": [], "nodeName": "vnode-east-w1"})));
        let wanted = json!({
            "name": "web-0-d8e9078212837472931ac9807f48a030",
            "namespace": "borrowed",
            "labels": {
                "app": "web",
                "topoloom.dev/managed-by": "topoloom",
                "topoloom.dev/virtual-cluster": "cluster",
                "topoloom.dev/binding": "east",
                "topoloom.dev/binding-uid": "binding",
                "topoloom.dev/virtual-namespace": "shop",
                "topoloom.dev/workload-type": "statefulset",
                "topoloom.dev/workload-name": "web",
            },
            "annotations": {
                "note": "n",
                "topoloom.dev/virtual-pod-namespace": "shop",
                "topoloom.dev/virtual-pod-name": "web-0",
                "topoloom.dev/virtual-pod-uid": "v",
                "topoloom.dev/virtual-node-name": "vnode-east-w1",
            },
        });
        assert_eq!(pod["metadata"], wanted);
        assert!(pod.get("status").is_none());
    }

    #[test]
    fn what_belongs_to_the_virtual_cluster_stays_there() {
        let token = json!({"name": "kube-api-access-x", "projected": {"sources": []}});
        let mounts = json!([{"name": "kube-api-access-x", "mountPath": "/t"}, {"name": "data", "mountPath": "/d"}]);
        let container = json!({"name": "c", "image": "i", "volumeMounts": mounts});
        let spec = copy(web(json!({
            "nodeName": "vnode-east-w1", "schedulerName": "s", "nodeSelector": {"a": "b"}, "affinity": {},
            "priority": 7, "priorityClassName": "high", "preemptionPolicy": "Never",
            "serviceAccountName": "a", "serviceAccount": "a", "readinessGates": [{"conditionType": "x.io/gate"}],
            "tolerations": [{"key": "topoloom.dev/vnode"}], "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 7, "volumes": [token, {"name": "data", "emptyDir": {}}],
            "containers": [container], "initContainers": [container],
        })))["spec"]
            .clone();
        let container = json!({"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]});
        let wanted = json!({
            "nodeName": "w1", "tolerations": [{"operator": "Exists"}], "automountServiceAccountToken": false,
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 7,
            "volumes": [{"name": "data", "emptyDir": {}}], "containers": [container], "initContainers": [container],
        });
        assert_eq!(spec, wanted);
    }

    #[test]
    fn a_pod_without_a_controller_names_no_workload() {
        let labels =
            copy(json!({"metadata": {"namespace": "shop", "name": "p", "uid": "v"}}))["metadata"]["labels"].clone();
        assert!(
            labels.get("topoloom.dev/workload-type").is_none() && labels.get("topoloom.dev/workload-name").is_none()
        );
    }
}
