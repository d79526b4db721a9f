//! The metadata of an object without what says who wrote which field: that is half of a Node that several clients write, and nothing
//! in lending depends on it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};

/// Metadata as far as it is read.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Read {
    name: Option<String>,
    generate_name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

/// An object of which nothing else is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct OnlyMetadata {
    /// Its metadata.
    #[serde(deserialize_with = "read")]
    pub metadata: ObjectMeta,
}

/// Reads metadata for a slice.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let read = Option::<Read>::deserialize(deserializer)?.unwrap_or_default();
    Ok(ObjectMeta {
        name: read.name,
        generate_name: read.generate_name,
        namespace: read.namespace,
        uid: read.uid,
        resource_version: read.resource_version,
        generation: read.generation,
        creation_timestamp: read.creation_timestamp,
        deletion_timestamp: read.deletion_timestamp,
        deletion_grace_period_seconds: read.deletion_grace_period_seconds,
        labels: read.labels,
        annotations: read.annotations,
        finalizers: read.finalizers,
        owner_references: read.owner_references,
        managed_fields: None,
        self_link: None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_of_it_is_read_but_who_wrote_which_field() {
        let mut written = json!({
            "name": "w1", "generateName": "w", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-08-03T12:00:00Z", "deletionTimestamp": "2026-08-03T13:00:00Z",
            "deletionGracePeriodSeconds": 30, "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["e/f"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "o", "controller": true}],
        });
        let kept = written.clone();
        written["managedFields"] = json!([{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]);
        written["selfLink"] = json!("/api/v1/nodes/w1");
        let metadata = read(&written).unwrap();
        assert_eq!(serde_json::to_value(&metadata).unwrap(), kept);
        let alone: OnlyMetadata = serde_json::from_value(json!({"metadata": written, "spec": {"taints": []}})).unwrap();
        assert_eq!(alone.metadata, metadata);
        assert_eq!(read(&json!(null)).unwrap(), ObjectMeta::default());
        assert_eq!(read(&json!({"labels": null})).unwrap(), ObjectMeta::default());
        assert!(read(&json!({"labels": 7})).is_err());
    }
}
