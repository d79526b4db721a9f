//! A view for tests.

use serde_json::{Value, json};
use topoloom_sync::guard::Spent;
use topoloom_sync::identity::Identity;
use topoloom_sync::naming::ClusterId;
pub(crate) use topoloom_sync::node::examples::binding;
use topoloom_sync::policy::announced::Announced;
use topoloom_sync::policy::in_force::Synced;
use topoloom_sync::policy::object::{Policy, PolicyObject};
use topoloom_sync::policy::spec::{PolicySpec, WindowSpec};

use super::*;
use crate::slices::node::NodeSlice;

pub(crate) fn now() -> Now {
    Now { wall: "2026-08-03T12:00:00Z".parse().unwrap(), steady: Duration::from_secs(1_000) }
}

/// A view that knows its policies and virtual nodes (there are none) and these physical nodes. Its witness agrees at any time.
pub(crate) fn view(nodes: usize) -> View {
    let mut view = View::new(binding(), Safety::default(), Spent::default(), Reach::Reachable, now());
    view.policies.set_synced(Synced::Yes);
    view.agreed(Duration::MAX);
    view.lent_nodes(HashMap::new());
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

/// Lends all nodes as the API servers would show it.
pub(crate) fn lend(view: &mut View, nodes: usize) {
    for number in 1..=nodes {
        let name: PhysicalName = format!("w{number}").into();
        let work = view.decide(&name, &Evidence::default(), now());
        let [NodeOrder::PatchPhysical { body: claim, .. }, NodeOrder::Create { name: lent, body }] = &work.orders[..]
        else {
            panic!("{:?}", work.orders)
        };
        let mut claimed = physical(number);
        let value = claim["metadata"]["annotations"][keys::LEASED_BY].as_str().unwrap();
        claimed.annotations.insert(keys::LEASED_BY.to_owned(), value.to_owned());
        view.physical_node(&name, claimed);
        let mut node = body.clone();
        node["metadata"]["uid"] = format!("v{number}").into();
        node["metadata"]["resourceVersion"] = "20".into();
        view.lent_node(lent, read(&node).lent().unwrap());
        assert_eq!(view.decide(&name, &Evidence::default(), now()).orders, [], "it is at rest");
    }
}

/// A policy of the binding whose windows close at 08:01, so that they are closed at noon. Its pods go, after this grace.
pub(crate) fn mornings(name: &str, grace: Option<i64>) -> Policy {
    let spec = PolicySpec { force_reclaim: true, graceful_reclaim_period_seconds: grace, ..PolicySpec::default() };
    within(name, &[("06:00", "08:00")], spec)
}

/// A policy of the binding with these windows, each a start and an end, and the rest of this spec.
pub(crate) fn within(name: &str, windows: &[(&str, &str)], spec: PolicySpec) -> Policy {
    let window = |(start, end): &(&str, &str)| WindowSpec {
        start: (*start).to_owned(),
        end: (*end).to_owned(),
        days: Vec::new(),
    };
    let time_windows = windows.iter().map(window).collect();
    Policy::new(PolicyObject {
        name: name.to_owned(),
        uid: "p1".into(),
        generation: 1,
        created: None,
        deleting: false,
        spec: PolicySpec { cluster: "east".to_owned(), time_windows, ..spec },
        unreadable: None,
        last_valid: None,
        announced: Announced::default(),
    })
}

/// A virtual node as it was made.
pub(crate) fn lent(number: usize) -> LentNode {
    let mut view = view(number);
    lend(&mut view, number);
    view.lent(&format!("vnode-east-w{number}")).unwrap().clone()
}

/// The virtual node of that machine as an earlier binding of our name, with this UID, made it under the `clusterID` `est`.
pub(crate) fn of_est(number: usize, uid: &str) -> (NodeName, LentNode) {
    let (mut node, us, est) = (lent(number), binding().identity, ClusterId::parse("est").unwrap());
    let maker = Identity::new(us.virtual_cluster().clone(), us.binding().clone(), uid.into()).unwrap();
    node.metadata.labels.extend(maker.node_labels(&est, &format!("w{number}")));
    (format!("vnode-est-w{number}").into(), node)
}

/// The API server shows each node as marked for its deletion.
pub(crate) fn mark(view: &mut View, nodes: usize) {
    for number in 1..=nodes {
        let name = NodeName::from(format!("vnode-east-w{number}"));
        let mut node = view.lent(&name).unwrap().clone();
        node.version = "30".into();
        node.metadata.taints.push(topoloom_sync::taints::Taint::deleting());
        node.metadata.annotations.insert(keys::DELETION_TAINT_TIME.to_owned(), "2026-08-03T12:00:00Z".to_owned());
        node.metadata.cordon = topoloom_sync::merge::Cordon::Cordoned;
        view.lent_node(&name, node);
    }
}
