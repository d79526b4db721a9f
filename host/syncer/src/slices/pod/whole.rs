//! Pods of lending whose status is copied: as [`PodSlice`], with the status as it stands there.

use k8s_openapi::api::core::v1 as core_v1;
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use topoloom_sync::taints::Toleration;

use super::{Container, PodSlice, Port, Resources, Spec, Status};
use crate::slices::json::{self, Json};
use crate::slices::{Amounts, slice_of};

/// A Pod with its whole status. Only the pods of lending are read so: all others would be kilobytes for nothing.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct WholePod {
    #[serde(deserialize_with = "super::super::metadata::read")]
    metadata: ObjectMeta,
    spec: WholeSpec,
    #[serde(deserialize_with = "json::read")]
    status: Json,
}

slice_of!(WholePod, core_v1::Pod, NamespaceResourceScope);

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WholeSpec {
    node_name: String,
    containers: Vec<WholeContainer>,
    init_containers: Vec<WholeContainer>,
    ephemeral_containers: Vec<WholeContainer>,
    overhead: Amounts,
    resources: Option<Resources>,
    #[serde(deserialize_with = "super::tolerated::read")]
    tolerations: Vec<Toleration>,
    restart_policy: String,
    readiness_gates: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WholeContainer {
    name: String,
    resources: Resources,
    restart_policy: String,
    restart_policy_rules: Value,
    ports: Vec<Port>,
}

/// What is copied of a pod, and what that depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Copied {
    /// The part of `spec` that says which containers there are, which of them restart, and which conditions are gates.
    pub spec: Json,
    /// `status` as it stands there.
    pub status: Json,
}

impl WholePod {
    /// The node that it is bound to.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        Some(self.spec.node_name.as_str()).filter(|node| !node.is_empty())
    }

    /// Without what it tolerates.
    #[must_use]
    pub fn without_tolerations(mut self) -> Self {
        self.spec.tolerations = Vec::new();
        self
    }

    /// The slice that all other rooms know, and what is copied.
    ///
    /// # Errors
    /// The status has another form than that of a pod.
    pub fn split(self) -> Result<(PodSlice, Copied), serde_json::Error> {
        let Self { metadata, spec, status } = self;
        let read = if status.is_null() { Status::default() } else { serde_json::from_str(status.text())? };
        let copied = Copied { spec: spec.copied(), status };
        Ok((PodSlice { metadata, spec: spec.into(), status: read }, copied))
    }
}

/// The part of a spec that is copied.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CopiedSpec<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<CopiedContainer<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<CopiedContainer<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ephemeral_containers: Vec<CopiedContainer<'a>>,
    #[serde(skip_serializing_if = "str::is_empty")]
    restart_policy: &'a str,
    #[serde(skip_serializing_if = "Value::is_null")]
    readiness_gates: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CopiedContainer<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    restart_policy: &'a str,
    #[serde(skip_serializing_if = "Value::is_null")]
    restart_policy_rules: &'a Value,
}

impl WholeSpec {
    fn copied(&self) -> Json {
        fn copied(containers: &[WholeContainer]) -> Vec<CopiedContainer<'_>> {
            containers.iter().map(WholeContainer::copied).collect()
        }
        Json::written(&CopiedSpec {
            containers: copied(&self.containers),
            init_containers: copied(&self.init_containers),
            ephemeral_containers: copied(&self.ephemeral_containers),
            restart_policy: &self.restart_policy,
            readiness_gates: &self.readiness_gates,
        })
    }
}

impl WholeContainer {
    fn copied(&self) -> CopiedContainer<'_> {
        CopiedContainer {
            name: &self.name,
            restart_policy: &self.restart_policy,
            restart_policy_rules: &self.restart_policy_rules,
        }
    }
}

impl From<WholeSpec> for Spec {
    fn from(whole: WholeSpec) -> Self {
        let slices = |containers: Vec<WholeContainer>| containers.into_iter().map(Container::from).collect();
        Self {
            node_name: whole.node_name,
            containers: slices(whole.containers),
            init_containers: slices(whole.init_containers),
            overhead: whole.overhead,
            resources: whole.resources,
            tolerations: whole.tolerations,
        }
    }
}

impl From<WholeContainer> for Container {
    fn from(whole: WholeContainer) -> Self {
        let WholeContainer { name, resources, restart_policy, ports, .. } = whole;
        Self { name, resources, restart_policy, ports }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        let rule = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
        json!({
            "metadata": {"namespace": "a", "name": "p", "uid": "u", "resourceVersion": "3"},
            "spec": {
                "nodeName": "w1", "restartPolicy": "Never", "readinessGates": [{"conditionType": "x.io/gate"}],
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}},
                    "ports": [{"containerPort": 80, "hostPort": 8080}], "restartPolicy": "Never", "restartPolicyRules": rule}],
                "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
                "ephemeralContainers": [{"name": "e"}],
                "volumes": [{"name": "v", "emptyDir": {}}],
                "tolerations": [{"operator": "Exists"}],
            },
            "status": {"phase": "Running", "someDay": {"deep": 1}},
        })
    }

    #[test]
    fn it_is_the_slice_that_all_others_are_and_what_is_copied() {
        let whole: WholePod = serde_json::from_value(pod()).unwrap();
        let (slice, copied) = whole.split().unwrap();
        let same: PodSlice = serde_json::from_value(pod()).unwrap();
        assert_eq!((slice.pod(), slice.node(), slice.phase()), (same.pod(), Some("w1"), "Running"));
        assert_eq!((slice.requests().unwrap(), slice.host_ports()), (same.requests().unwrap(), same.host_ports()));
        assert_eq!(slice.clone().lent(), same.lent());
        assert_eq!(copied.status.value(), pod()["status"]);
        assert_eq!(
            copied.spec.value(),
            json!({
                "restartPolicy": "Never", "readinessGates": [{"conditionType": "x.io/gate"}],
                "containers": [{"name": "c", "restartPolicy": "Never",
                    "restartPolicyRules": pod()["spec"]["containers"][0]["restartPolicyRules"]}],
                "initContainers": [{"name": "s", "restartPolicy": "Always"}],
                "ephemeralContainers": [{"name": "e"}],
            })
        );
    }

    #[test]
    fn a_pod_without_a_status_has_none_and_one_with_another_form_is_an_error() {
        let read = |pod: Value| serde_json::from_value::<WholePod>(pod).unwrap().split();
        let (slice, copied) = read(json!({"metadata": {"name": "p"}})).unwrap();
        assert_eq!((slice.phase(), copied.status.text(), copied.spec.text()), ("", "null", "{}"));
        assert!(read(json!({"metadata": {"name": "p"}, "status": {"conditions": 7}})).is_err());
    }
}
