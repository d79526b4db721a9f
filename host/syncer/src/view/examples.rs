//! A view for tests.

use serde_json::{Value, json};
pub(crate) use topoloom_sync::node::examples::binding;
use topoloom_sync::policy::in_force::Synced;

use super::*;
use crate::slices::node::NodeSlice;

pub(crate) fn now() -> Now {
    Now { wall: "2026-08-03T12:00:00Z".parse().unwrap(), steady: Duration::from_secs(1_000) }
}

/// A view that knows its policies (there are none) and these physical nodes.
pub(crate) fn view(nodes: usize) -> View {
    let mut view = View::new(binding(), Safety::default(), Spent::default(), Reach::Reachable, now());
    view.policies.set_synced(Synced::Yes);
    let all = (1..=nodes).map(|number| (PhysicalName::from(format!("w{number}")), physical(number)));
    view.physical_nodes(all.collect());
    view
}

pub(crate) fn read(node: &Value) -> NodeSlice {
    serde_json::from_value(node.clone()).unwrap()
}

pub(crate) fn physical(number: usize) -> PhysicalNode {
    let node = json!({
        "metadata": {"name": format!("w{number}"), "uid": format!("u{number}"), "resourceVersion": "7", "labels": {"pool": "gpu"}},
        "status": {
            "allocatable": {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    });
    read(&node).physical().unwrap()
}
