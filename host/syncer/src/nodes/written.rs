//! The words of what is written for a node, for metrics and traces.

use serde_json::Value;
use topoloom_sync::node::NodeOrder;

use crate::metrics::WriteKind;
use crate::view::NodeWork;

/// What a request writes, and the word for why; nothing where an order is none.
pub(super) fn written(work: &NodeWork, order: &NodeOrder) -> Option<(WriteKind, &'static str)> {
    Some(match order {
        NodeOrder::Ask(_) | NodeOrder::StopLease(_) | NodeOrder::RemovePods(_) => return None,
        NodeOrder::PatchPhysical { .. } | NodeOrder::ReleasePhysical { .. } => (WriteKind::Claim, work.why),
        NodeOrder::Create { .. } => (WriteKind::NodeCreate, work.why),
        NodeOrder::PatchStatus { heals: true, .. } => (WriteKind::NodeStatus, "heal"),
        NodeOrder::PatchStatus { heals: false, body, .. } => (WriteKind::NodeStatus, change(body)),
        NodeOrder::PatchSpec { .. } => (WriteKind::NodeSpec, work.why),
        NodeOrder::Delete { .. } | NodeOrder::RemoveFinalizer { .. } => (WriteKind::NodeDelete, work.why),
    })
}

/// The word of an order.
pub(super) fn word(order: &NodeOrder) -> &'static str {
    match order {
        NodeOrder::Ask(_) => "ask",
        NodeOrder::StopLease(_) => "stop-lease",
        NodeOrder::RemovePods(_) => "remove-pods",
        NodeOrder::PatchPhysical { .. } => "claim",
        NodeOrder::ReleasePhysical { .. } => "release",
        NodeOrder::Create { .. } => "create",
        NodeOrder::PatchStatus { .. } => "status",
        NodeOrder::PatchSpec { .. } => "spec",
        NodeOrder::Delete { .. } => "delete",
        NodeOrder::RemoveFinalizer { .. } => "finalizer",
    }
}

/// What a patch of a status changes, the most important first.
fn change(body: &Value) -> &'static str {
    let changes = |part: &str| body.get("status").is_some_and(|status| status.get(part).is_some());
    match () {
        () if changes("allocatable") || changes("capacity") => "size",
        () if changes("conditions") => "conditions",
        () if changes("addresses") || changes("daemonEndpoints") || changes("nodeInfo") => "machine",
        () => "metadata",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_patch_of_a_status_is_counted_by_the_most_important_of_its_changes() {
        for (body, wanted) in [
            (json!({"status": {"conditions": [], "allocatable": {"cpu": "1"}}}), "size"),
            (json!({"status": {"capacity": {"cpu": "1"}}}), "size"),
            (json!({"status": {"conditions": [], "addresses": []}}), "conditions"),
            (json!({"status": {"nodeInfo": {}}}), "machine"),
            (json!({"metadata": {"labels": {"a": "b"}}}), "metadata"),
        ] {
            assert_eq!(change(&body), wanted, "{body}");
        }
    }
}
