//! How a device plugin releases a lock (`node-lock-and-bind.md` A9, A12).

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

use super::PodName;
use super::answers::{PAUSE, insist};
use crate::hami::{SHARED_LOCK, Vendor, annotation, is_of};

/// How often the release is tried, as by the reference.
const ATTEMPTS: usize = 5;

/// Removes the lock of a node if this pod holds it. The lock of another pod stays, and that is no error.
pub(super) async fn release(
    client: &kube::Client,
    node: &str,
    vendor: Vendor,
    pod: &PodName,
) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut baseline = None;
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match attempt(&nodes, node, vendor, pod, &mut baseline).await {
            Err(_) if left > 0 => sleep(PAUSE).await,
            ended => return ended,
        }
    }
}

async fn attempt(
    nodes: &Api<Node>,
    node: &str,
    vendor: Vendor,
    pod: &PodName,
    baseline: &mut Option<String>,
) -> Result<(), kube::Error> {
    let seen = insist(|| nodes.get(node)).await?.metadata;
    let lock = vendor.lock();
    let Some(value) = annotation(&seen, lock) else { return Ok(()) };
    let first = baseline.get_or_insert_with(|| value.to_owned());
    let mut metadata = json!({"annotations": {lock: null}});
    if lock == SHARED_LOCK {
        if !is_to_go(first, value, pod) {
            return Ok(());
        }
        metadata["resourceVersion"] = json!(seen.resource_version);
    }
    let (params, patch) = (PatchParams::default(), Patch::Merge(json!({"metadata": metadata})));
    insist(|| nodes.patch(node, &params, &patch)).await.map(drop)
}

/// Whether a value may be removed: one that names a pod by this pod, at any time; an unnamed one by any pod, if it is
/// still the value that was read first.
fn is_to_go(first: &str, value: &str, pod: &PodName) -> bool {
    if value.contains(',') { is_of(value, &pod.namespace, &pod.name) } else { value == first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_lock_goes() {
        let pod = PodName { namespace: "ns".into(), name: "a".into(), uid: "1".into() };
        for (first, value, wanted) in [
            ("2026-08-01T13:00:00Z,ns,a", "2026-08-01T13:00:00Z,ns,a", true),
            // Worked example 9.
            ("2026-08-01T13:00:00Z,ns,a", "2026-08-01T13:00:01Z,ns,a", true),
            ("2026-08-01T13:00:00Z,ns,b", "2026-08-01T13:00:00Z,ns,b", false),
            ("2026-08-01T13:00:00Z,ns,a", "2026-08-01T13:00:00Z,ns,b", false),
            ("2026-08-01T06:00:00Z", "2026-08-01T06:00:00Z", true),
            // Worked example 10.
            ("2026-08-01T06:00:00Z", "2026-08-01T06:00:01Z", false),
        ] {
            assert_eq!(is_to_go(first, value, &pod), wanted, "{first} {value}");
        }
    }
}
