//! The controller of nodes, with leases that only remember what became of them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::client::Body;
use topoloom_sync::bars::Bar;
use topoloom_sync::guard::{Safety, Spent};
use topoloom_sync::keys;
use topoloom_sync::liveness::Reach;
use topoloom_sync::policy::in_force::Synced;
use topoloom_sync::selector::{NodeSelector, RawNodeSelector, RawRequirement, RawTerm};

use super::*;
use crate::view::examples;

#[derive(Clone, Default)]
struct Remembered(Arc<Mutex<Vec<String>>>);

impl Leases for Remembered {
    fn start(&self, node: &NodeName, uid: &Uid) {
        self.0.lock().unwrap().push(format!("start {node} {uid}"));
    }

    async fn stop(&self, node: &NodeName) {
        self.0.lock().unwrap().push(format!("stop {node}"));
    }
}

struct Scene {
    nodes: Nodes<Remembered>,
    view: Arc<Mutex<View>>,
    leases: Remembered,
    asked: Arc<AtomicUsize>,
}

impl Scene {
    fn of(view: View) -> Self {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let serve = move |_: Request<Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            let answer = Response::builder().status(500).body(Body::empty()).unwrap();
            async move { Ok::<_, Infallible>(answer) }
        };
        let client = kube::Client::new(tower::service_fn(serve), "default");
        let clients = NodeClients { physical: client.clone(), claims: client.clone(), lent: client.clone() };
        let (view, leases) = (Arc::new(Mutex::new(view)), Remembered::default());
        let requests = NodeRequests::new(clients);
        let nodes = Nodes::new(Arc::clone(&view), requests, leases.clone(), Events::new(client), examples::now);
        Self { nodes, view, leases, asked }
    }

    /// What became of leases by one look, which sends nothing.
    async fn look(&self) -> Vec<String> {
        self.nodes.work(&"w1".into()).await.unwrap();
        assert_eq!(self.asked.load(Ordering::SeqCst), 0);
        std::mem::take(&mut *self.leases.0.lock().unwrap())
    }
}

#[tokio::test]
async fn s6_the_lease_of_a_virtual_node_stops_when_its_labels_are_not_ours_any_more() {
    let mut view = examples::view(1);
    examples::lend(&mut view, 1);
    let scene = Scene::of(view);
    assert_eq!(scene.look().await, ["start vnode-east-w1 v1"]);
    let mut foreign = scene.view.lock().unwrap().lent("vnode-east-w1").unwrap().clone();
    foreign.version = "30".into();
    foreign.metadata.labels.insert(keys::VIRTUAL_CLUSTER.to_owned(), "another".to_owned());
    scene.view.lock().unwrap().lent_node(&"vnode-east-w1".into(), foreign);
    assert_eq!(scene.look().await, ["stop vnode-east-w1"]);
}

/// A view of ten nodes of which the selector does not select `w1` any more: it is marked, a pod runs on it, and the guard has
/// gathered what follows.
fn leaving() -> View {
    let mut view = examples::view(10);
    examples::lend(&mut view, 10);
    let pod = serde_json::json!({
        "metadata": {"namespace": "shop", "name": "web-0", "uid": "v-uid", "resourceVersion": "5"},
        "spec": {"nodeName": "vnode-east-w1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    });
    let _ = view.ledger.virtual_pod(serde_json::from_value(pod).unwrap()).unwrap();
    let not_w1 =
        RawRequirement { key: "metadata.name".to_owned(), operator: "NotIn".to_owned(), values: vec!["w1".to_owned()] };
    let term = RawTerm { match_expressions: vec![], match_fields: vec![not_w1] };
    view.binding.selector = NodeSelector::parse(&RawNodeSelector { terms: vec![term] }).unwrap();
    examples::mark(&mut view, 1);
    let (now, before) = (examples::now(), Duration::from_secs(10));
    let earlier = Now { wall: now.wall.checked_sub(before).unwrap(), steady: now.steady - before };
    let work = view.decide(&"w1".into(), &Evidence::default(), earlier);
    assert_eq!(work.orders, []);
    view
}

#[tokio::test]
async fn s9_an_eviction_without_an_answer_counts() {
    let scene = Scene::of(leaving());
    let ended = scene.nodes.work(&"w1".into()).await;
    assert!(ended.is_err() && scene.asked.load(Ordering::SeqCst) == 1, "{ended:?}");
    assert_eq!(scene.view.lock().unwrap().guard().spent().pods, 1);
}

#[tokio::test]
async fn s11_a_lease_that_was_taken_over_goes_on_until_a_list_shows_that_there_is_no_such_node() {
    let listed = examples::view(1);
    let mut view =
        View::new(examples::binding(), Safety::default(), Spent::default(), Reach::Reachable, examples::now());
    view.policies.set_synced(Synced::Yes);
    view.physical_nodes([("w1".into(), listed.physical("w1").unwrap().clone())].into());
    // Nothing is created before everything is listed.
    view.bars = [Bar::Suspect].into_iter().collect();
    let scene = Scene::of(view);
    assert_eq!(scene.look().await, [""; 0]);
    scene.view.lock().unwrap().lent_nodes(HashMap::new());
    assert_eq!(scene.look().await, ["stop vnode-east-w1"]);
}
