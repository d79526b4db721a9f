//! A view for tests.

use serde_json::{Value, json};
use topoloom_sync::copied::CopyRules;
use topoloom_sync::deletion::{DeletionTiming, Evictions, Existence};
use topoloom_sync::identity::Identity;
use topoloom_sync::liveness::OnUnreachable;
use topoloom_sync::naming::{BindingName, ClusterId};
use topoloom_sync::node::{Chained, NodeClaims};
use topoloom_sync::policy::in_force::{NoPolicy, Synced};
use topoloom_sync::selector::NodeSelector;
use topoloom_sync::taints::DefaultTaint;

use super::*;
use crate::slices::node::NodeSlice;

pub(crate) fn binding() -> Binding {
    Binding {
        identity: Identity::new("vc".into(), BindingName::parse("east").unwrap(), "b1".into()).unwrap(),
        cluster: ClusterId::parse("east").unwrap(),
        selector: NodeSelector::default(),
        no_policy: NoPolicy::LeaseAll,
        existence: Existence::Alive,
        default_taint: DefaultTaint::On,
        copy: CopyRules::default(),
        chained: Chained::Refused,
        claims: NodeClaims::Written,
        endpoint: None,
        on_unreachable: OnUnreachable::Unknown,
        grow: Duration::from_secs(600),
        deletion: DeletionTiming::default(),
        evictions: Evictions::Allowed,
    }
}

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
