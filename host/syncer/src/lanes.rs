//! In which lane a write of the virtual cluster goes (decision S21): taints before the status of nodes, that before the status of pods,
//! and all else behind them, at a rate of its own. What a binding writes about itself, its object and its Lease, goes with the status
//! of pods: that is little, and evictions wait for its counter (decision S25), so it must not wait behind evictions.
//!
//! Owns the order and the rate. Leases are in no lane: their connections are their own ([`heartbeats`](crate::heartbeats)). The lanes are
//! those of a process, since the API server is one for all its bindings.
//!
//! # Failure story
//!
//! An API server that has enough says so to one write, and all wait for as long as it asks; then what keeps pods away from a node goes
//! before what only shows something.

use http::Method;
use topoloom_cluster::lanes::{Budget, Lane};

/// How many other writes per second.
const OTHERS: u32 = 200;

/// The lanes of a process. Clones are the same.
#[must_use]
pub fn lanes() -> Lane {
    Budget::limited_at_last(OTHERS).lanes(lane)
}

/// The lane of a write with this method and path, counted from 0, the first one.
fn lane(method: &Method, path: &str) -> usize {
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    match (*method == Method::PATCH, parts.as_slice()) {
        // Taints, the cordon, and what goes with them.
        (true, ["api", "v1", "nodes", _]) => 0,
        (_, ["api", "v1", "nodes"] | ["api", "v1", "nodes", _, "status"]) => 1,
        (
            _,
            ["api", "v1", "namespaces", _, "pods", _, "status"]
            | ["apis", "topoloom.dev", _, "clusterbindings", ..]
            | ["apis", "coordination.k8s.io", _, "namespaces", _, "leases", ..],
        ) => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s21_taints_go_before_the_status_of_nodes_that_before_pods_and_all_else_is_last() {
        for (method, path, wanted) in [
            (Method::PATCH, "/api/v1/nodes/vnode-east-w1", 0),
            (Method::POST, "/api/v1/nodes", 1),
            (Method::PATCH, "/api/v1/nodes/vnode-east-w1/status", 1),
            (Method::PATCH, "/api/v1/namespaces/shop/pods/web-0/status", 2),
            (Method::DELETE, "/api/v1/nodes/vnode-east-w1", 3),
            (Method::DELETE, "/api/v1/namespaces/shop/pods/web-0", 3),
            (Method::POST, "/api/v1/namespaces/shop/pods/web-0/eviction", 3),
            (Method::PATCH, "/apis/storage.k8s.io/v1/csinodes/vnode-east-w1", 3),
            (Method::PATCH, "/apis/topoloom.dev/v1alpha1/resourceleasingpolicies/nights/status", 3),
            (Method::PATCH, "/apis/topoloom.dev/v1alpha1/clusterbindings/east/status", 2),
            (Method::PATCH, "/apis/coordination.k8s.io/v1/namespaces/topoloom/leases/topoloom-binding-0", 2),
            (Method::POST, "/apis/coordination.k8s.io/v1/namespaces/topoloom/leases", 2),
        ] {
            assert_eq!(lane(&method, path), wanted, "{method} {path}");
        }
    }
}
