//! The controller of nodes, with leases that only remember what became of them.

mod labels;
mod refused;
mod unstored;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU32, Ordering};

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use topoloom_sync::bars::Bar;
use topoloom_sync::deletion::Existence;
use topoloom_sync::guard::{Safety, Spent};
use topoloom_sync::keys;
use topoloom_sync::liveness::{Doubt, Reach};
use topoloom_sync::policy::in_force::Synced;
use topoloom_sync::selector::{NodeSelector, RawNodeSelector, RawRequirement, RawTerm};
use topoloom_sync::taints::{Effect, Taint};

use super::*;
use crate::view::examples;

/// What became of leases, and why another has them, where one has.
#[derive(Clone, Default)]
struct Remembered(Arc<Mutex<Vec<String>>>, Arc<Mutex<Option<&'static str>>>);

impl Leases for Remembered {
    fn start(&self, node: &NodeName, uid: &Uid) {
        self.0.lock().unwrap().push(format!("start {node} {uid}"));
    }

    async fn stop(&self, node: &NodeName) {
        self.0.lock().unwrap().push(format!("stop {node}"));
    }

    async fn forget(&self, node: &NodeName) {
        self.0.lock().unwrap().push(format!("forget {node}"));
    }

    fn foreign(&self, _: &NodeName) -> Option<String> {
        self.1.lock().unwrap().map(str::to_owned)
    }
}

struct Scene {
    nodes: Nodes<Remembered>,
    view: Arc<Mutex<View>>,
    leases: Remembered,
    asked: Arc<Mutex<Vec<String>>>,
    /// The version in each patch.
    judged: Arc<Mutex<Vec<Value>>>,
    /// The options of each deletion.
    deletions: Arc<Mutex<Vec<Value>>>,
    /// Reason and note of each Event.
    events: Arc<Mutex<Vec<String>>>,
    counted: Counted,
    troubles: Troubles,
}

impl Scene {
    /// No request is answered well.
    fn of(view: View) -> Self {
        Self::served(view, |_| (500, Value::Null))
    }

    /// Each request has the answer that this gives to its method, path and selector.
    fn served(view: View, answers: impl Fn(&str) -> (u16, Value) + Send + 'static) -> Self {
        Self::refusing(view, |_| None, answers)
    }

    /// The same, and a patch has the answer that `refuses` gives to it, where that is one.
    fn refusing(
        view: View,
        refuses: fn(&Value) -> Option<(u16, Value)>,
        answers: impl Fn(&str) -> (u16, Value) + Send + 'static,
    ) -> Self {
        let (asked, events) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (judged, deletions) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
        let (seen, sent, patched) = (Arc::clone(&asked), Arc::clone(&events), Arc::clone(&judged));
        let deleted = Arc::clone(&deletions);
        let serve = move |request: Request<Body>| {
            let uri = request.uri();
            let selector = uri.query().filter(|query| query.contains("fieldSelector")).unwrap_or_default();
            let line = format!("{} {}{selector}", request.method(), uri.path());
            let (code, body) = answers(&line);
            // A second Event of the same kind is a patch of the first, which says how often it was sent.
            let is_patch = line.starts_with("PATCH");
            let sent = (is_event(&line) && !is_patch).then(|| Arc::clone(&sent));
            let patched = (is_patch && !is_event(&line)).then(|| Arc::clone(&patched));
            let deleted = line.starts_with("DELETE").then(|| Arc::clone(&deleted));
            seen.lock().unwrap().push(line);
            let response = |(code, body): (u16, Value)| {
                Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
            };
            let mut answer = response((code, body));
            async move {
                if let Some(sent) = sent {
                    let event = request.into_body().collect_bytes().await.unwrap();
                    let event: Value = serde_json::from_slice(&event).unwrap();
                    let text = |key: &str| event[key].as_str().unwrap().to_owned();
                    sent.lock().unwrap().push(format!("{}: {}", text("reason"), text("note")));
                } else if let Some(patched) = patched {
                    let patch = request.into_body().collect_bytes().await.unwrap();
                    let patch: Value = serde_json::from_slice(&patch).unwrap();
                    patched.lock().unwrap().push(patch["metadata"]["resourceVersion"].clone());
                    answer = refuses(&patch).map_or(answer, response);
                } else if let Some(deleted) = deleted {
                    let options = request.into_body().collect_bytes().await.unwrap();
                    deleted.lock().unwrap().push(serde_json::from_slice(&options).unwrap());
                }
                Ok::<_, Infallible>(answer)
            }
        };
        let client = kube::Client::new(tower::service_fn(serve), "default");
        let clients = NodeClients { physical: client.clone(), claims: client.clone(), lent: client.clone() };
        let (view, leases) = (Arc::new(Mutex::new(view)), Remembered::default());
        let requests = NodeRequests::new(clients);
        let nodes = Nodes::new(Arc::clone(&view), requests, leases.clone(), Events::new(client), examples::now);
        let (counted, troubles) = (Counted::default(), Troubles::default());
        let nodes = nodes.counting(counted.clone()).telling(troubles.clone());
        Self { nodes, view, leases, asked, judged, deletions, events, counted, troubles }
    }

    /// What was asked since the last call.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// What became of leases by one look, which sends nothing but Events.
    async fn look(&self) -> Vec<String> {
        self.nodes.work(&"w1".into()).await.unwrap();
        let asked = self.asked();
        assert!(asked.iter().all(|request| request.ends_with("/events")), "{asked:?}");
        std::mem::take(&mut *self.leases.0.lock().unwrap())
    }
}

/// A view of a lent node whose machine shows another status and one taint more. With the taint alone there would be one patch, not two.
fn machine_changed() -> View {
    let mut view = examples::view(1);
    examples::lend(&mut view, 1);
    let mut machine = view.physical("w1").unwrap().clone();
    machine.version = "8".into();
    machine.conditions[0].reason = "KubeletStarted".into();
    machine.taints.push(Taint::new("team", "blue", Effect::NoSchedule));
    view.physical_node(&"w1".into(), machine);
    view
}

#[tokio::test]
async fn s12_the_second_patch_carries_the_version_that_the_first_one_was_answered_with_and_no_newer_one_of_another() {
    let view = machine_changed();
    let labels = view.lent(LENT).unwrap().metadata.labels.clone();
    let stored = json!({"metadata": {"name": LENT, "uid": "v1", "resourceVersion": "40", "labels": labels}});
    // While the first patch is answered the watch shows what a user has written after it.
    let shown: Arc<Mutex<Option<Arc<Mutex<View>>>>> = Arc::default();
    let shows = Arc::clone(&shown);
    let scene = Scene::served(view, move |asked| match asked {
        "PATCH /api/v1/nodes/vnode-east-w1/status" => {
            let view = shows.lock().unwrap().clone().unwrap();
            let mut newer = view.lock().unwrap().lent(LENT).unwrap().clone();
            newer.version = "50".into();
            newer.metadata.taints.push(Taint::new("user", "", Effect::NoSchedule));
            view.lock().unwrap().lent_node(&LENT.into(), newer);
            (200, stored.clone())
        }
        "PATCH /api/v1/nodes/vnode-east-w1" => refused(409, "Conflict", LENT),
        other => panic!("{other}"),
    });
    *shown.lock().unwrap() = Some(Arc::clone(&scene.view));
    assert!(scene.nodes.work(&"w1".into()).await.is_err(), "it is decided again");
    assert_eq!(scene.asked(), ["PATCH /api/v1/nodes/vnode-east-w1/status", "PATCH /api/v1/nodes/vnode-east-w1"]);
    assert_eq!(*scene.judged.lock().unwrap(), ["20", "40"]);
}

/// Three seconds after the others.
fn later() -> Now {
    let (now, passed) = (examples::now(), Duration::from_secs(3));
    Now { wall: now.wall.checked_add(passed).unwrap(), steady: now.steady + passed }
}

/// A view of one node that has to be tainted because its cluster does not answer.
fn unreachable() -> View {
    let mut view = examples::view(1);
    examples::lend(&mut view, 1);
    (view.reach, view.bars) =
        (Reach::Unreachable { since: Duration::from_secs(900) }, [Bar::Unreachable].into_iter().collect());
    view
}

const TAINTED: &str = "PATCH /api/v1/nodes/vnode-east-w1";

#[tokio::test]
async fn s5_the_taint_of_a_cluster_that_does_not_answer_waits_for_its_turn_and_no_worker_waits_with_it() {
    let mut scene = Scene::served(unreachable(), |_| refused(409, "Conflict", LENT));
    // Nodes of other bindings were first.
    for _ in 0..200 {
        scene.nodes.pace.taint(examples::now().steady);
    }
    for _ in 0..2 {
        let worked = scene.nodes.work(&"w1".into()).await.unwrap();
        assert_eq!(worked, WorkOutcome::Again(Duration::from_secs(2)), "an earlier look does not lose its place");
        assert_eq!(scene.asked(), [""; 0]);
    }
    // Its lease does not wait for it.
    assert_eq!(scene.leases.0.lock().unwrap().first().map(String::as_str), Some("stop vnode-east-w1"));
    scene.nodes.now = later;
    assert!(scene.nodes.work(&"w1".into()).await.is_err());
    assert_eq!(scene.asked(), [TAINTED]);
}

#[tokio::test]
async fn s5_what_is_written_of_a_node_whose_cluster_answers_waits_for_no_turn() {
    let mut view = examples::view(1);
    examples::lend(&mut view, 1);
    let mut machine = view.physical("w1").unwrap().clone();
    machine.version = "8".into();
    machine.taints.push(Taint::new("team", "blue", Effect::NoSchedule));
    view.physical_node(&"w1".into(), machine);
    let scene = Scene::served(view, |_| refused(409, "Conflict", LENT));
    for _ in 0..200 {
        scene.nodes.pace.taint(examples::now().steady);
    }
    assert!(scene.nodes.work(&"w1".into()).await.is_err());
    assert_eq!(scene.asked(), [TAINTED], "one request, and at once");
}

#[tokio::test]
async fn s12_s17_taints_and_metadata_alone_are_one_request_in_the_version_that_was_looked_at() {
    let mut view = examples::view(1);
    examples::lend(&mut view, 1);
    let mut machine = view.physical("w1").unwrap().clone();
    machine.version = "8".into();
    machine.labels.insert("rack".to_owned(), "r1".to_owned());
    machine.taints.push(Taint::new("team", "blue", Effect::NoSchedule));
    view.physical_node(&"w1".into(), machine);
    let labels = view.lent(LENT).unwrap().metadata.labels.clone();
    let stored = json!({"metadata": {"name": LENT, "uid": "v1", "resourceVersion": "40", "labels": labels}});
    let scene = Scene::served(view, move |asked| match asked {
        TAINTED => (200, stored.clone()),
        other => panic!("{other}"),
    });
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(scene.asked(), [TAINTED]);
    assert_eq!(*scene.judged.lock().unwrap(), ["20"]);
    assert_eq!(scene.counted.lines(), ["wrote node-spec lent 1"]);
}

#[tokio::test]
async fn s5_a_taint_whose_turn_comes_after_the_cluster_answers_again_is_decided_anew() {
    let mut scene = Scene::served(unreachable(), |asked| panic!("{asked}"));
    for _ in 0..200 {
        scene.nodes.pace.taint(examples::now().steady);
    }
    let worked = scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(worked, WorkOutcome::Again(Duration::from_secs(2)));
    {
        let mut view = scene.view.lock().unwrap();
        (view.reach, view.bars) = (Reach::Reachable, [].into_iter().collect());
    }
    scene.nodes.now = later;
    assert_eq!(scene.nodes.work(&"w1".into()).await.unwrap(), WorkOutcome::Done);
    assert_eq!(scene.asked(), [""; 0], "no taint for a cluster that answers");
}

#[tokio::test]
async fn s12_a_patch_of_which_no_version_is_known_is_not_sent() {
    let scene = Scene::of(examples::view(1));
    let order = NodeOrder::PatchSpec { name: LENT.into(), version: None, body: json!({"metadata": {}, "spec": {}}) };
    let refusal = scene.nodes.requests.send("w1", &order, None).await.unwrap_err();
    assert_eq!((refusal.reason, scene.asked()), (RefusalReason::Conflict, Vec::new()));
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

#[tokio::test]
async fn nothing_is_kept_of_the_lease_of_a_node_that_is_gone() {
    let mut view = examples::view(1);
    examples::lend(&mut view, 1);
    let scene = Scene::of(view);
    assert_eq!(scene.look().await, ["start vnode-east-w1 v1"]);
    {
        let mut view = scene.view.lock().unwrap();
        view.physical_node_gone("w1");
        view.lent_node_gone("vnode-east-w1");
    }
    assert_eq!(scene.look().await, ["forget vnode-east-w1"]);
}

#[tokio::test]
async fn s15_the_sweep_looks_at_every_node_of_both_caches_and_asks_for_nothing_where_all_is_right() {
    let mut view = examples::view(2);
    examples::lend(&mut view, 2);
    // One is in the virtual cluster alone, and another one in the physical cluster.
    view.physical_node_gone("w2");
    view.physical_node(&"w3".into(), examples::physical(3));
    let scene = Scene::of(view);
    let mut all = scene.nodes.all();
    all.sort_unstable();
    assert_eq!(all, ["w1", "w2", "w3"].map(PhysicalName::from));
    assert_eq!(scene.nodes.work(&all[0]).await.unwrap(), WorkOutcome::Done);
    assert_eq!(scene.asked(), [""; 0]);
}

fn pod() -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": "web-0", "uid": "v-uid", "resourceVersion": "5"},
        "spec": {"nodeName": "vnode-east-w1", "containers": [{"name": "c"}]},
        "status": {"phase": "Running"},
    })
}

/// A view of ten nodes of which the selector does not select `w1` any more.
fn unselected() -> View {
    let mut view = examples::view(10);
    examples::lend(&mut view, 10);
    let not_w1 =
        RawRequirement { key: "metadata.name".to_owned(), operator: "NotIn".to_owned(), values: vec!["w1".to_owned()] };
    let term = RawTerm { match_expressions: vec![], match_fields: vec![not_w1] };
    view.binding.selector = NodeSelector::parse(&RawNodeSelector { terms: vec![term] }).unwrap();
    view
}

/// The same: it is marked, these pods run on it, and the guard has gathered what follows.
fn leaving(pods: &[Value]) -> View {
    let mut view = unselected();
    for pod in pods {
        let _ = view.ledger.virtual_pod(serde_json::from_value(pod.clone()).unwrap()).unwrap();
    }
    examples::mark(&mut view, 1);
    let (now, before) = (examples::now(), Duration::from_secs(10));
    let earlier = Now { wall: now.wall.checked_sub(before).unwrap(), steady: now.steady - before };
    let work = view.decide(&"w1".into(), &Evidence::default(), earlier);
    assert_eq!(work.orders, []);
    view
}

#[tokio::test]
async fn s9_an_eviction_without_an_answer_counts() {
    let scene = Scene::of(leaving(&[pod()]));
    let ended = scene.nodes.work(&"w1".into()).await;
    assert!(ended.is_err(), "{ended:?}");
    assert_eq!(scene.asked(), ["POST /api/v1/namespaces/shop/pods/web-0/eviction"]);
    assert_eq!(scene.view.lock().unwrap().guard().spent().pods, 1);
}

fn list(items: &[Value]) -> (u16, Value) {
    (200, json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items}))
}

fn refused(code: u16, reason: &str, name: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no",
        "details": {"name": name, "kind": "nodes"},
    });
    (code, status)
}

fn is_event(asked: &str) -> bool {
    asked.contains(" /apis/events.k8s.io/v1/")
}

const LIST: &str = "GET /api/v1/pods";
const LENT: &str = "vnode-east-w1";
const READ: &str = "GET /api/v1/nodes/vnode-east-w1";

#[tokio::test]
async fn s10_a_node_is_deleted_after_a_live_list_of_its_pods_and_the_answer_shows_that_it_terminates() {
    let view = leaving(&[]);
    let labels = view.lent(LENT).unwrap().metadata.labels.clone();
    let node = json!({"metadata": {
        "name": LENT, "uid": "v1", "resourceVersion": "31", "labels": labels,
        "deletionTimestamp": "2026-08-03T12:00:00Z", "finalizers": [keys::VNODE_FINALIZER],
    }});
    let scene = Scene::served(view, move |asked| match asked {
        "DELETE /api/v1/nodes/vnode-east-w1" => (200, node.clone()),
        asked if asked.starts_with(LIST) => list(&[]),
        other => panic!("{other}"),
    });
    scene.nodes.work(&"w1".into()).await.unwrap();
    let asked = scene.asked();
    assert!(asked.len() == 2 && asked[0].contains("spec.nodeName%3Dvnode-east-w1"), "{asked:?}");
    // The next decision does not delete it a second time.
    assert_eq!(scene.view.lock().unwrap().lent(LENT).unwrap().existence, Existence::Terminating);
}

#[tokio::test]
async fn s10_a_pod_that_only_a_live_list_shows_keeps_its_node() {
    let scene = Scene::served(leaving(&[]), |asked| match asked {
        asked if asked.starts_with(LIST) => list(&[pod()]),
        other => panic!("{other}"),
    });
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(scene.asked().len(), 1);
    assert_eq!(scene.view.lock().unwrap().lent(LENT).unwrap().existence, Existence::Alive);
}

#[tokio::test]
async fn s7_a_claim_is_released_once_a_live_read_finds_no_virtual_node() {
    let view = || {
        let mut view = leaving(&[]);
        view.lent_node_gone(LENT);
        view
    };
    let labels = leaving(&[]).lent(LENT).unwrap().metadata.labels.clone();
    let there = json!({"metadata": {"name": LENT, "uid": "v1", "labels": labels}});
    let scene = Scene::served(view(), move |_| (200, there.clone()));
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(scene.asked(), ["GET /api/v1/nodes/vnode-east-w1"]);

    let scene = Scene::served(view(), |asked| match asked {
        "GET /api/v1/nodes/vnode-east-w1" => refused(404, "NotFound", LENT),
        "PATCH /api/v1/nodes/w1" => {
            (200, json!({"metadata": {"name": "w1", "uid": "u1", "resourceVersion": "9", "labels": {"pool": "gpu"}}}))
        }
        other => panic!("{other}"),
    });
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(scene.asked(), ["GET /api/v1/nodes/vnode-east-w1", "PATCH /api/v1/nodes/w1"]);
    // A router that answers in place of the API server proves nothing.
    let scene = Scene::served(view(), |_| (404, json!("default backend")));
    assert!(scene.nodes.work(&"w1".into()).await.is_err());
    assert_eq!(scene.asked(), ["GET /api/v1/nodes/vnode-east-w1"]);
}

#[tokio::test]
async fn s22_an_object_of_another_that_has_the_name_is_known_for_one_look() {
    let claim = examples::binding().identity.claim();
    let machine = json!({
        "metadata": {
            "name": "w1", "uid": "u1", "resourceVersion": "8", "labels": {"pool": "gpu"},
            "annotations": {keys::LEASED_BY: claim},
        },
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let other = json!({"metadata": {"name": LENT, "uid": "x", "resourceVersion": "3"}});
    let scene = Scene::served(examples::view(1), move |asked| match asked {
        "PATCH /api/v1/nodes/w1" => (200, machine.clone()),
        "POST /api/v1/nodes" => refused(409, "AlreadyExists", LENT),
        "GET /api/v1/nodes/vnode-east-w1" => (200, other.clone()),
        asked if is_event(asked) => (201, json!({"metadata": {}})),
        other => panic!("{other}"),
    });
    assert_eq!(scene.nodes.work(&"w1".into()).await.unwrap(), WorkOutcome::Done);
    let asked = scene.asked();
    assert!(asked.len() == 4 && is_event(&asked[3]), "a person is notified once: {asked:?}");
    assert_eq!(scene.view.lock().unwrap().size().nodes, 0, "no watch would show when it goes");
    // The next sweep looks again.
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(scene.asked(), ["POST /api/v1/nodes", "GET /api/v1/nodes/vnode-east-w1"]);
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
    assert_eq!(scene.look().await, ["forget vnode-east-w1"]);
}

#[tokio::test]
async fn a_node_that_is_taken_away_has_an_event_with_the_reason_and_its_writes_are_counted() {
    let view = unselected();
    let labels = view.lent(LENT).unwrap().metadata.labels.clone();
    let marked = json!({
        "metadata": {"name": LENT, "uid": "v1", "resourceVersion": "31", "labels": labels},
        "spec": {"unschedulable": true, "taints": [{"key": keys::DELETING_TAINT, "effect": "NoSchedule"}]},
    });
    let scene = Scene::served(view, move |asked| match asked {
        "PATCH /api/v1/nodes/vnode-east-w1" => (200, marked.clone()),
        asked if is_event(asked) => (201, json!({"metadata": {}})),
        other => panic!("{other}"),
    });
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(scene.asked()[0], "PATCH /api/v1/nodes/vnode-east-w1");
    let why = "the selector of the binding does not select the physical node";
    assert_eq!(*scene.events.lock().unwrap(), [format!("NodeLeaving: this node is being taken away: {why}")]);
    assert_eq!(scene.counted.lines(), ["wrote node-spec selector 1"]);
}

#[tokio::test]
async fn pods_that_are_evicted_are_counted_by_cause_and_named_in_one_event() {
    let scene = Scene::served(leaving(&[pod()]), |asked| match asked {
        "POST /api/v1/namespaces/shop/pods/web-0/eviction" => {
            (201, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}))
        }
        asked if is_event(asked) => (201, json!({"metadata": {}})),
        other => panic!("{other}"),
    });
    scene.nodes.work(&"w1".into()).await.unwrap();
    let events = scene.events.lock().unwrap().clone();
    let [event] = &events[..] else { panic!("{events:?}") };
    assert!(event.starts_with("PodsRemoved: taken from this node (the selector"), "{event}");
    assert!(event.ends_with("): pods shop/web-0"), "{event}");
    assert_eq!(scene.counted.lines(), ["wrote pod-evict selector 1", "evicted selector 1"]);
    // A disruption budget is no mistake, and is counted as what it is.
    let scene = Scene::served(leaving(&[pod()]), |_| refused(429, "TooManyRequests", "web-0"));
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(scene.counted.lines(), ["refused pod-evict TooManyRequests 1"]);
}

fn evicted() -> (u16, Value) {
    (201, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}))
}

#[tokio::test]
async fn s21_pods_of_a_node_wait_for_their_turn_and_go_when_it_comes() {
    let mut scene = Scene::served(leaving(&[pod()]), |asked| match asked {
        asked if asked.ends_with("/eviction") => evicted(),
        asked if is_event(asked) => (201, json!({"metadata": {}})),
        other => panic!("{other}"),
    });
    // Pods of other nodes were first: 50 at once, and 300 in two seconds.
    scene.nodes.pace.removal(350, examples::now().steady);
    for _ in 0..2 {
        let worked = scene.nodes.work(&"w1".into()).await.unwrap();
        let WorkOutcome::Again(left) = worked else { panic!("{worked:?}") };
        assert_eq!((left.as_millis(), scene.asked()), (2_006, Vec::new()));
    }
    scene.nodes.now = later;
    assert_eq!(scene.nodes.work(&"w1".into()).await.unwrap(), WorkOutcome::Again(Duration::ZERO));
    assert_eq!(scene.asked()[0], "POST /api/v1/namespaces/shop/pods/web-0/eviction");
}

/// A clock that goes on by 0.7 s each time that it is read.
fn slow() -> Now {
    static READ: AtomicU32 = AtomicU32::new(0);
    let passed = Duration::from_millis(700) * READ.fetch_add(1, Ordering::Relaxed);
    let now = examples::now();
    Now { wall: now.wall.checked_add(passed).unwrap(), steady: now.steady + passed }
}

#[tokio::test]
async fn s5_pods_that_are_left_after_some_time_are_decided_about_anew() {
    let pods = [0, 1, 2].map(|number| {
        let mut pod = pod();
        pod["metadata"]["name"] = format!("web-{number}").into();
        pod["metadata"]["uid"] = format!("v-uid-{number}").into();
        pod
    });
    let mut scene = Scene::served(leaving(&pods), |asked| match asked {
        asked if asked.ends_with("/eviction") => evicted(),
        asked if is_event(asked) => (201, json!({"metadata": {}})),
        other => panic!("{other}"),
    });
    scene.nodes.now = slow;
    assert_eq!(scene.nodes.work(&"w1".into()).await.unwrap(), WorkOutcome::Again(Duration::ZERO));
    let evictions = |asked: Vec<String>| asked.iter().filter(|asked| asked.ends_with("/eviction")).count();
    assert_eq!(evictions(scene.asked()), 1);
    // Meanwhile the physical cluster is suspect.
    scene.view.lock().unwrap().bars = [Bar::Suspect].into_iter().collect();
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(evictions(scene.asked()), 0);
}

#[tokio::test]
async fn s13_what_a_virtual_node_cannot_have_of_its_machine_is_an_event_once_and_no_write() {
    let mut view = examples::view(1);
    examples::lend(&mut view, 1);
    let edited = |view: &mut View, version: &str, bytes: usize| {
        let mut machine = view.physical("w1").unwrap().clone();
        machine.version = version.into();
        machine.annotations.insert("big".to_owned(), "x".repeat(bytes));
        let _ = view.physical_node(&"w1".into(), machine);
    };
    edited(&mut view, "8", 300_000);
    let scene = Scene::served(view, |_| (201, json!({"metadata": {}})));
    let wanted = |bytes: usize| {
        format!(
            "MetadataIncomplete: annotations \"big\": it has {bytes} bytes, and all annotations together must have at most 262144"
        )
    };
    for _ in 0..2 {
        scene.look().await;
        assert_eq!(*scene.events.lock().unwrap(), [wanted(300_003)]);
    }
    // While the machines have to be listed again nothing is known, and afterwards all is as it was said.
    for (reach, bars) in [(Reach::Suspect(Doubt::NotListed), vec![Bar::Suspect]), (Reach::Reachable, vec![])] {
        {
            let mut view = scene.view.lock().unwrap();
            view.listed_again();
            (view.reach, view.bars) = (reach, bars.into_iter().collect());
        }
        scene.look().await;
        assert_eq!(*scene.events.lock().unwrap(), [wanted(300_003)]);
    }
    edited(&mut scene.view.lock().unwrap(), "9", 300_001);
    scene.look().await;
    assert_eq!(*scene.events.lock().unwrap(), [wanted(300_003), wanted(300_004)]);
    // A machine that is gone leaves nothing behind.
    {
        let mut view = scene.view.lock().unwrap();
        view.physical_node_gone("w1");
        view.lent_node_gone("vnode-east-w1");
    }
    scene.look().await;
    assert!(scene.nodes.remarked.is_empty());
}

#[tokio::test]
async fn s1_a_lease_of_another_is_an_event_on_its_node_once_for_each_reason() {
    let mut view = examples::view(1);
    examples::lend(&mut view, 1);
    let scene = Scene::served(view, |_| (201, json!({"metadata": {}})));
    let wanted = |why: &str| {
        format!("NameTaken: its Lease in kube-node-lease is not renewed, so the node will be Unknown: {why}")
    };
    for (why, events) in [
        (None, vec![]),
        (Some("a kubelet holds it"), vec![wanted("a kubelet holds it")]),
        (Some("a kubelet holds it"), vec![wanted("a kubelet holds it")]),
        (Some("it has no owner"), vec![wanted("a kubelet holds it"), wanted("it has no owner")]),
        (None, vec![wanted("a kubelet holds it"), wanted("it has no owner")]),
    ] {
        *scene.leases.1.lock().unwrap() = why;
        assert_eq!(scene.look().await, ["start vnode-east-w1 v1"], "it is tried again, and nothing else is done");
        assert_eq!(*scene.events.lock().unwrap(), events, "{why:?}");
    }
    assert!(scene.nodes.foreign.is_empty());
}

/// An API server that refuses this for want of a right.
fn forbidden(verb: &str, resource: &str) -> (u16, Value) {
    let message = format!(
        "{resource} is forbidden: User \"u\" cannot {verb} resource \"{resource}\" in API group \"\" at the cluster scope"
    );
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message,
    });
    (403, status)
}

/// One look under these answers, of which one is a missing right.
async fn refused_right(view: View, answers: impl Fn(&str) -> (u16, Value) + Send + 'static) -> Vec<String> {
    let scene = Scene::served(view, answers);
    // Whether the look fails is no matter here: evictions of pods are tried one by one.
    let _ended = scene.nodes.work(&"w1".into()).await;
    scene.troubles.all().iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn s19_a_missing_right_on_nodes_or_their_pods_names_verb_resource_and_side() {
    let claim = examples::binding().identity.claim();
    let claimed = move || {
        let machine = json!({
            "metadata": {
                "name": "w1", "uid": "u1", "resourceVersion": "8", "labels": {"pool": "gpu"},
                "annotations": {keys::LEASED_BY: claim},
            },
            "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
        });
        (200, machine)
    };
    let gone = || {
        let mut view = leaving(&[]);
        view.lent_node_gone(LENT);
        view
    };
    let rows = [
        (
            refused_right(examples::view(1), |asked| match asked {
                "PATCH /api/v1/nodes/w1" => forbidden("patch", "nodes"),
                other => panic!("{other}"),
            })
            .await,
            "the physical cluster",
            ("nodes", "patch"),
        ),
        (
            refused_right(examples::view(1), move |asked| match asked {
                "PATCH /api/v1/nodes/w1" => claimed(),
                "POST /api/v1/nodes" => forbidden("create", "nodes"),
                other => panic!("{other}"),
            })
            .await,
            "the virtual cluster",
            ("nodes", "create"),
        ),
        (refused_right(unselected(), |_| forbidden("patch", "nodes")).await, "the virtual cluster", ("nodes", "patch")),
        (
            refused_right(leaving(&[pod()]), |_| forbidden("create", "pods/eviction")).await,
            "the virtual cluster",
            ("pods/eviction", "create"),
        ),
        (refused_right(leaving(&[]), |_| forbidden("list", "pods")).await, "the virtual cluster", ("pods", "list")),
        (
            refused_right(leaving(&[]), |asked| match asked {
                "DELETE /api/v1/nodes/vnode-east-w1" => forbidden("delete", "nodes"),
                asked if asked.starts_with(LIST) => list(&[]),
                other => panic!("{other}"),
            })
            .await,
            "the virtual cluster",
            ("nodes", "delete"),
        ),
        (refused_right(gone(), |_| forbidden("get", "nodes")).await, "the virtual cluster", ("nodes", "get")),
    ];
    for (said, side, (resource, verb)) in rows {
        let [said] = &said[..] else { panic!("{verb} {resource}: {said:?}") };
        let rule = format!(r#"resources: ["{resource}"], verbs: ["{verb}"]}} in {side}"#);
        assert!(said.starts_with(&format!("{side}: ")) && said.ends_with(&rule), "{said}");
    }
}

#[tokio::test]
async fn s19_a_right_that_is_there_again_ends_the_trouble_and_a_conflict_is_none() {
    let right = Arc::new(Mutex::new(false));
    let granted = Arc::clone(&right);
    let view = unselected();
    let labels = view.lent(LENT).unwrap().metadata.labels.clone();
    let marked = json!({
        "metadata": {"name": LENT, "uid": "v1", "resourceVersion": "31", "labels": labels},
        "spec": {"unschedulable": true, "taints": [{"key": keys::DELETING_TAINT, "effect": "NoSchedule"}]},
    });
    let scene = Scene::served(view, move |asked| match asked {
        "PATCH /api/v1/nodes/vnode-east-w1" if *granted.lock().unwrap() => (200, marked.clone()),
        "PATCH /api/v1/nodes/vnode-east-w1" => forbidden("patch", "nodes"),
        asked if is_event(asked) => (201, json!({"metadata": {}})),
        other => panic!("{other}"),
    });
    assert!(scene.nodes.work(&"w1".into()).await.is_err());
    assert_eq!(scene.troubles.all().len(), 1);
    *right.lock().unwrap() = true;
    scene.nodes.work(&"w1".into()).await.unwrap();
    assert_eq!(scene.troubles.all(), []);
    let scene = Scene::served(unselected(), |_| refused(409, "Conflict", LENT));
    assert!(scene.nodes.work(&"w1".into()).await.is_err());
    assert_eq!(scene.troubles.all(), []);
}
