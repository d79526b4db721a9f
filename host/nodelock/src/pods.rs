//! Pods, as far as locks are concerned: a slice of what the API server sends, and what is kept of it.
//!
//! A cluster has many pods with much in them. What is not named here is skipped while it is read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core_v1;
use kube::api::ObjectMeta;
use kube::core::NamespaceResourceScope;
use serde::Deserialize;
use topoloom_api::names::LOCK_REVOKED_ANNOTATION;
use topoloom_core::nodelock::needs::{Asks, Backend, keys};
use topoloom_core::nodelock::sightings::PodSighting;
use topoloom_core::nodelock::{Pod, PodId};

/// A pod, as it is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Slice {
    metadata: ObjectMeta,
    spec: Spec,
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    containers: Vec<Container>,
    init_containers: Vec<Container>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Container {
    resources: Resources,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Resources {
    limits: BTreeMap<String, String>,
    requests: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    phase: String,
    start_time: Option<String>,
}

impl Asks for Container {
    fn limit(&self, resource: &str) -> Option<&str> {
        self.resources.limits.get(resource).map(String::as_str)
    }

    fn request(&self, resource: &str) -> Option<&str> {
        self.resources.requests.get(resource).map(String::as_str)
    }
}

impl kube::Resource for Slice {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        core_v1::Pod::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        core_v1::Pod::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        core_v1::Pod::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        core_v1::Pod::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What is kept of a pod; `None` where it has no name or UID, which no stored pod lacks.
#[must_use]
pub fn of(slice: &Slice, backends: &[Backend]) -> Option<PodSighting> {
    let Slice { metadata, spec, status } = slice;
    let key = PodId {
        namespace: metadata.namespace.as_deref()?.into(),
        name: metadata.name.as_deref()?.into(),
        uid: metadata.uid.as_deref()?.into(),
    };
    let revoked = metadata.annotations.as_ref().and_then(|all| all.get(LOCK_REVOKED_ANNOTATION));
    let pod = Pod {
        key,
        version: metadata.resource_version.as_deref().into(),
        created: metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |created| created.0),
        node: spec.node_name.as_deref().filter(|node| !node.is_empty()).map(Into::into),
        finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
        started: status.start_time.is_some(),
        deleting: metadata.deletion_timestamp.is_some(),
        revoked: revoked.map(|value| value.as_str().into()),
    };
    let containers = spec.init_containers.iter().chain(&spec.containers);
    Some(PodSighting { pod, keys: keys(containers, backends).into_iter().collect() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use topoloom_core::nodelock::needs::LockKey;

    use super::*;

    fn seen(pod: Value) -> PodSighting {
        // As the API server sends it: with all fields of a real pod.
        let whole: core_v1::Pod = serde_json::from_value(pod).unwrap();
        let slice: Slice = serde_json::from_value(serde_json::to_value(whole).unwrap()).unwrap();
        of(&slice, &Backend::known()).unwrap()
    }

    fn pod(spec: Value, status: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": "default", "name": "p1", "uid": "b3f0", "resourceVersion": "12",
                "creationTimestamp": "2026-08-01T06:09:00Z",
                "annotations": {"topoloom.dev/lock-revoked": "x"},
            },
            "spec": spec, "status": status,
        })
    }

    #[test]
    fn what_matters_of_a_pod_is_read() {
        let gpu = json!({"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}});
        let plain = json!({"name": "d"});
        let waits = seen(pod(
            json!({"nodeName": "gpu-1", "containers": [plain], "initContainers": [gpu]}),
            json!({"phase": "Pending"}),
        ));
        assert_eq!(waits.keys, [LockKey::Shared]);
        assert!(waits.pod.waits_on("gpu-1"));
        assert_eq!((waits.pod.key.to_string(), waits.pod.revoked.as_deref()), ("default/p1".into(), Some("x")));
        assert_eq!(waits.pod.created, "2026-08-01T06:09:00Z".parse().unwrap());

        let started = json!({"phase": "Pending", "startTime": "2026-08-01T06:10:00Z"});
        assert!(seen(pod(json!({"containers": [gpu]}), started)).pod.started);
        for (phase, finished) in [("Pending", false), ("Running", false), ("Succeeded", true), ("Failed", true)] {
            assert_eq!(
                seen(pod(json!({"containers": [gpu]}), json!({"phase": phase}))).pod.finished,
                finished,
                "{phase}"
            );
        }
        let unbound = seen(pod(json!({"containers": [plain]}), json!({})));
        assert_eq!((unbound.pod.node, unbound.keys), (None, vec![]));
    }
}
