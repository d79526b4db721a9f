//! Objects as the verdicts of lending need them, read live and page by page.

use std::fmt::Debug;

use kube::Api;
use kube::api::{ListParams, ObjectMeta};
use serde::de::DeserializeOwned;
use topoloom_sync::pods::{PhysicalPod, VirtualPod};
use topoloom_sync::release::Object;

use crate::cluster::Refusal;

/// Objects per page of a list.
const PAGE: u32 = 500;

/// The metadata of all objects, or of those with these labels.
pub(super) async fn list<K>(api: &Api<K>, labels: Option<&str>) -> Result<Vec<ObjectMeta>, Refusal>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut params = ListParams::default().limit(PAGE);
    params.label_selector = labels.map(str::to_owned);
    let mut all = Vec::new();
    loop {
        let page = api.list_metadata(&params).await.map_err(|error| Refusal::of(&error))?;
        all.extend(page.items.into_iter().map(|item| item.metadata));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(all),
        }
    }
}

/// An object, as far as its owner shows.
pub(super) fn object(metadata: ObjectMeta) -> Object {
    Object {
        namespace: metadata.namespace,
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
        version: metadata.resource_version.as_deref().into(),
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
    }
}

/// A physical pod.
pub(super) fn physical_pod(metadata: ObjectMeta) -> PhysicalPod {
    let deleting = metadata.deletion_timestamp.is_some();
    let Object { namespace, name, uid, version, labels, annotations } = object(metadata);
    PhysicalPod {
        namespace: namespace.unwrap_or_default(),
        name,
        uid: uid.into(),
        version,
        labels,
        annotations,
        deleting,
    }
}

/// A virtual pod.
pub(super) fn virtual_pod(metadata: ObjectMeta) -> VirtualPod {
    let Object { namespace, name, uid, annotations, .. } = object(metadata);
    VirtualPod { namespace: namespace.unwrap_or_default(), name, uid: uid.into(), annotations }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_shows_the_owner_of_an_object_is_read_of_its_metadata() {
        let metadata = json!({
            "namespace": "lent", "name": "web", "uid": "u", "resourceVersion": "7", "deletionTimestamp": "2026-08-01T06:10:00Z",
            "labels": {"a": "b"}, "annotations": {"c": "d"},
        });
        let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        let pod = physical_pod(metadata.clone());
        assert_eq!((pod.namespace.as_str(), &*pod.uid, &*pod.version, pod.deleting), ("lent", "u", "7", true));
        assert_eq!((pod.labels["a"].as_str(), virtual_pod(metadata).annotations["c"].as_str()), ("b", "d"));
        let nothing = object(ObjectMeta::default());
        assert_eq!((nothing.uid.as_str(), &*nothing.version), ("", ""), "no request is made for it");
    }
}
