//! What the watches show, what is remembered of it, and which waiters are notified.

use futures::FutureExt;
use prometheus_client::registry::Registry;

use topoloom_cluster::watched::Earlier;
use topoloom_core::nodelock::attempt::Sight;
use topoloom_core::nodelock::{Holder, Why};

use super::*;
use crate::metrics::hold_histogram;

const LOCK: &str = "hami.io/mutex.lock";
const BOTH: [LockKey; 2] = LockKey::ALL;

fn view() -> Arc<View> {
    Arc::new(View::new(Backend::known().into(), Histogram::new([])))
}

fn node(name: &str, version: u64, annotations: serde_json::Value) -> NodeMeta {
    let metadata =
        json!({"name": name, "uid": "node-uid", "resourceVersion": version.to_string(), "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

fn pod(name: &str, uid: &str, version: u64, bound: Option<&str>) -> Slice {
    serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": name, "uid": uid, "resourceVersion": version.to_string(), "creationTimestamp": "2026-08-01T06:00:00Z"},
        "spec": {"nodeName": bound, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Pending"},
    }))
    .unwrap()
}

fn key(name: &str, uid: &str) -> PodId {
    PodId { namespace: "default".into(), name: name.into(), uid: uid.into() }
}

fn value(pod: &str) -> String {
    format!("2026-08-01T06:10:00Z,default,{pod}")
}

fn sight(view: &View, node: &str) -> Sight {
    view.node(node, &[LockKey::Shared], &LiveReads::default()).unwrap().keys.remove(0)
}

#[tokio::test]
async fn an_older_sight_of_a_node_changes_nothing_and_a_later_one_everything() {
    let view = view();
    view.node_event(&Event::Apply(node("n", 7, json!({LOCK: value("p1")}))));
    view.node_event(&Event::Apply(node("n", 6, json!({}))));
    assert_eq!(sight(&view, "n").lock.unwrap().value, value("p1").into());
    assert_eq!(view.known(|known| known.node_uid("n")).as_deref(), Some("node-uid"));
    // What a write left is known before the watch shows it.
    view.node_written(&"7".into(), &node("n", 9, json!({LOCK: value("p2")})));
    view.node_event(&Event::Apply(node("n", 8, json!({}))));
    assert_eq!(sight(&view, "n").lock.unwrap().value, value("p2").into());
    view.node_event(&Event::Delete(node("n", 10, json!({}))));
    assert!(view.node("n", &BOTH, &LiveReads::default()).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_view_that_watches_by_itself_knows_all_once_nodes_and_pods_were_listed() {
    let service = tower::service_fn(|request: http::Request<kube::client::Body>| {
        let watches = request.uri().query().unwrap_or_default().contains("watch=true");
        let list = json!({"metadata": {"resourceVersion": "7"}, "items": []}).to_string();
        async move {
            if watches {
                std::future::pending::<()>().await;
            }
            Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::from(list.into_bytes())))
        }
    });
    let view = view();
    tokio::select! {
        () = view.watch(kube::Client::new(service, "default"), |_| (), |_| ()) => panic!("a watch has no end"),
        synced = tokio::time::timeout(Duration::from_secs(60), view.synced()) => assert_eq!(synced, Ok(())),
    }
}

#[tokio::test(start_paused = true)]
async fn r11_a_value_is_as_old_as_it_was_seen_here_until_another_stands_there() {
    let view = view();
    view.node_event(&Event::Apply(node("n", 1, json!({LOCK: "lock"}))));
    let first = sight(&view, "n").first_seen;
    tokio::time::advance(Duration::from_secs(60)).await;
    // A heartbeat, and a relist.
    view.node_event(&Event::Apply(node("n", 2, json!({LOCK: "lock"}))));
    view.fill(&[node("n", 3, json!({LOCK: "lock"}))], &[]);
    assert_eq!(sight(&view, "n").first_seen, first);
    view.node_event(&Event::Apply(node("n", 4, json!({LOCK: "other"}))));
    assert_eq!(sight(&view, "n").first_seen, first + Duration::from_secs(60));
}

#[tokio::test(start_paused = true)]
async fn n6_what_is_not_in_the_cache_is_no_proof_and_what_was_asked_for_is_remembered_by_its_value() {
    let view = view();
    view.fill(&[node("n", 1, json!({LOCK: value("p1")}))], &[]);
    assert_eq!(sight(&view, "n").holder, Holder::Unconfirmed);
    let named = PodKey { uid: None, ..key("p1", "u1").named() };
    let (mut live, value_of_p1) = (LiveReads::default(), LockValue::from(value("p1")));
    view.confirmed("n", &named, &value_of_p1, None, &mut live);
    let since = view.now();
    assert_eq!(sight(&view, "n").holder, Holder::Gone { since });
    // Asked again later, it is gone since the first time.
    tokio::time::advance(Duration::from_secs(3)).await;
    view.confirmed("n", &named, &value_of_p1, None, &mut live);
    assert_eq!(sight(&view, "n").holder, Holder::Gone { since });
    // Another value of the same pod is another question.
    view.node_event(&Event::Apply(node("n", 2, json!({LOCK: "2026-08-01T06:11:00Z,default,p1"}))));
    assert_eq!(sight(&view, "n").holder, Holder::Unconfirmed);
}

#[tokio::test]
async fn a_live_look_at_the_holder_counts_for_its_asker_and_until_it_waits() {
    let view = view();
    view.fill(&[node("n", 1, json!({LOCK: value("p1")}))], &[]);
    let (mut live, text) = (LiveReads::default(), LockValue::from(value("p1")));
    let read = pods::of(&pod("p1", "u1", 5, None), view.backends()).unwrap().pod;
    view.confirmed("n", &PodKey { uid: None, ..key("p1", "u1").named() }, &text, Some(read.clone()), &mut live);
    let seen = view.node("n", &[LockKey::Shared], &live).unwrap().keys.remove(0);
    assert_eq!((seen.holder, seen.confirmed), (Holder::Seen(read), true));
    live.clear();
    let seen = view.node("n", &[LockKey::Shared], &live).unwrap().keys.remove(0);
    assert_eq!((seen.holder, seen.confirmed), (Holder::Unconfirmed, false));
}

#[tokio::test]
async fn pods_wait_where_they_are_bound_until_they_have_started_or_are_gone() {
    let view = view();
    view.fill(&[node("n", 1, json!({}))], &[pod("p1", "u1", 2, Some("n")), pod("p2", "u2", 3, None)]);
    let waiting = || sight(&view, "n").waiting.iter().map(|pod| pod.key.name.to_string()).collect::<Vec<_>>();
    assert_eq!(waiting(), ["p1"]);
    assert_eq!(view.known(|known| (known.concerned(), known.concerns("n"))), (vec!["n".into()], true));
    view.pod_event(Event::Apply(pod("p2", "u2", 4, Some("n"))));
    assert_eq!(waiting(), ["p1", "p2"]);
    let mut started = serde_json::to_value(json!({
        "metadata": {"namespace": "default", "name": "p1", "uid": "u1", "resourceVersion": "5"},
        "spec": {"nodeName": "n", "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Pending", "startTime": "2026-08-01T06:10:00Z"},
    }))
    .unwrap();
    view.pod_event(Event::Apply(serde_json::from_value(started.take()).unwrap()));
    view.pod_event(Event::Delete(pod("p2", "u2", 6, Some("n"))));
    assert_eq!(waiting(), [""; 0]);
    assert_eq!(view.pod(&key("p1", "u1")).map(|seen| seen.pod.started), Some(true));
    assert!(view.pod(&key("p1", "u9")).is_none(), "another pod of that name");
    // A relist has all there is.
    view.fill(&[node("n", 7, json!({}))], &[]);
    assert!(view.pod(&key("p1", "u1")).is_none());
}

#[tokio::test]
async fn r19_a_waiter_is_notified_of_its_node_and_of_the_pod_that_holds_it_and_of_nothing_else() {
    let view = view();
    view.fill(&[node("n", 1, json!({LOCK: value("p1")})), node("m", 2, json!({}))], &[pod("p1", "u1", 3, None)]);
    let mut listener = view.listen("n");
    let notified = |listener: &mut Listener| listener.changed().now_or_never().is_some();
    assert!(!notified(&mut listener));
    view.node_event(&Event::Apply(node("m", 4, json!({"x": "y"}))));
    view.pod_event(Event::Apply(pod("p2", "u2", 5, Some("m"))));
    assert!(!notified(&mut listener), "another node, another pod");
    view.node_event(&Event::Apply(node("n", 6, json!({LOCK: value("p1"), "x": "y"}))));
    assert!(notified(&mut listener) && !notified(&mut listener));
    // The pod that holds it, though it is bound nowhere.
    view.pod_event(Event::Apply(pod("p1", "u1", 7, None)));
    assert!(notified(&mut listener));
    view.pod_event(Event::Delete(pod("p1", "u1", 8, None)));
    assert!(notified(&mut listener));
    // The lock is another pod's now, and the first one's affairs are its own.
    view.node_event(&Event::Apply(node("n", 9, json!({LOCK: value("p3")}))));
    assert!(notified(&mut listener));
    view.pod_event(Event::Apply(pod("p1", "u9", 10, None)));
    assert!(!notified(&mut listener));
    view.fill(&[], &[]);
    assert!(notified(&mut listener), "it is gone");
    let again = view.listen("n");
    drop(listener);
    drop(again);
    assert_eq!(view.dump()["listeners"], 0);
}

#[tokio::test]
async fn the_sweeper_is_notified_of_all_that_is_locked_first_and_then_of_what_changes() {
    let view = view();
    view.fill(&[node("a", 1, json!({LOCK: ""})), node("b", 2, json!({}))], &[]);
    let mut changes = view.changes();
    let mut names = || std::iter::from_fn(|| changes.try_recv().ok()).map(|name| name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(), ["a"]);
    view.node_event(&Event::Apply(node("b", 3, json!({LOCK: ""}))));
    view.node_event(&Event::Delete(node("a", 4, json!({}))));
    assert_eq!(names(), ["b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn r20_how_long_our_own_locks_stood_is_measured() {
    let mut registry = Registry::default();
    let view = View::new(Backend::known().into(), hold_histogram(&mut registry));
    let count = || {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text.lines()
            .filter(|line| {
                line.starts_with("node_lock_hold_seconds_sum") || line.starts_with("node_lock_hold_seconds_count")
            })
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    view.node_event(&Event::Apply(node("n", 1, json!({LOCK: value("p1")}))));
    view.stands(&value("p1").into());
    tokio::time::advance(Duration::from_secs(2)).await;
    view.node_event(&Event::Apply(node("n", 2, json!({LOCK: value("p2")}))));
    // That one was written by another process.
    view.node_event(&Event::Apply(node("n", 3, json!({}))));
    assert_eq!(count(), ["node_lock_hold_seconds_sum 2.0", "node_lock_hold_seconds_count 1"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_of_our_locks_on_nodes_that_went() {
    let view = view();
    let ours = || view.lock().sightings.sizes().ours;
    for (name, pod) in [("n1", "p1"), ("n2", "p2"), ("n3", "p3")] {
        view.node_event(&Event::Apply(node(name, 1, json!({LOCK: value(pod)}))));
        view.stands(&value(pod).into());
    }
    assert_eq!(ours(), 3);
    view.node_event(&Event::Delete(node("n1", 2, json!({LOCK: value("p1")}))));
    assert_eq!(ours(), 2);
    // What a watch that broke did not show.
    lists(&view, Earlier::Valid, node("n3", 3, json!({LOCK: value("p3")})), 4);
    assert_eq!(ours(), 1);
}

/// Takes in a list of one node, as of a version.
fn lists(view: &View, earlier: Earlier, node: NodeMeta, version: u64) {
    let list = [Event::Init(earlier), Event::InitApply(node), Event::whole(version.to_string().into())];
    list.iter().for_each(|event| view.node_event(event));
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_a_list_replaces_newer_versions_and_what_was_remembered_of_their_locks() {
    let restores = Restores::default();
    let view = Arc::new(View::new(Backend::known().into(), Histogram::new([])).of(&restores));
    let lock = json!({LOCK: value("p1")});
    lists(&view, Earlier::Valid, node("n", 50, lock.clone()), 60);
    let (mut reads, text) = (LiveReads::default(), LockValue::from(value("p1")));
    view.confirmed("n", &PodKey { uid: None, ..key("p1", "u1").named() }, &text, None, &mut reads);
    assert!(matches!(sight(&view, "n").holder, Holder::Gone { .. }));
    // A list of the same history says nothing new of it.
    lists(&view, Earlier::Valid, node("n", 50, lock.clone()), 61);
    assert!(matches!(sight(&view, "n").holder, Holder::Gone { .. }));
    // In the restored cluster the pod may be there again.
    lists(&view, Earlier::Void, node("n", 30, lock.clone()), 40);
    assert_eq!(sight(&view, "n").holder, Holder::Unconfirmed);
    assert_eq!(view.node("n", &BOTH, &reads).map(|node| node.version.to_string()).as_deref(), Some("30"));
    assert_eq!(*restores.changes().borrow(), 0, "that was known");
    // A raised revision shows by a node that is older than it was.
    lists(&view, Earlier::Valid, node("n", 20, lock), 1_000_000);
    assert_eq!(*restores.changes().borrow(), 1);
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_an_older_pod_is_no_second_restore() {
    let restores = Restores::default();
    let view = Arc::new(View::new(Backend::known().into(), Histogram::new([])).of(&restores));
    let lists = |earlier, pod, version: u64| {
        let list = [Event::Init(earlier), Event::InitApply(pod), Event::whole(version.to_string().into())];
        list.into_iter().for_each(|event| view.pod_event(event));
    };
    lists(Earlier::Valid, pod("p1", "u1", 50, None), 60);
    // The restored server has caught up meanwhile: the list is newer than the pod was.
    lists(Earlier::Void, pod("p1", "u1", 30, None), 70);
    assert_eq!(*restores.changes().borrow(), 0, "that was known");
    assert_eq!(view.pod(&key("p1", "u1")).map(|seen| seen.pod.version.to_string()).as_deref(), Some("30"));
    // A raised revision shows by a pod that is older than it was.
    lists(Earlier::Valid, pod("p1", "u1", 20, None), 1_000_000);
    assert_eq!(*restores.changes().borrow(), 1);
}

#[tokio::test(start_paused = true)]
async fn n8_the_filter_leaves_out_nodes_that_are_stuck_or_all_that_are_held() {
    let view = view();
    let terms = Options {
        ttl: Duration::from_secs(300),
        takeover: topoloom_core::nodelock::Takeover::State,
        retry: topoloom_core::nodelock::Retry::CLASSIC,
    };
    let fresh = format!("{},default,p1", Timestamp::now());
    view.fill(
        &[
            node("stuck", 1, json!({LOCK: value("p2")})),
            node("held", 2, json!({LOCK: fresh})),
            node("free", 3, json!({})),
            node("unknown", 4, json!({LOCK: value("p9")})),
        ],
        &[pod("p1", "u1", 5, Some("held")), pod("p2", "u2", 6, Some("stuck"))],
    );
    let blocked = |node: &str, by| view.blocked(node, &[LockKey::Shared], &terms, by).map(|held| held.why);
    assert_eq!(
        ["stuck", "held", "free", "unknown", "nowhere"].map(|node| blocked(node, Blocks::Stuck)),
        [Some(Why::Stuck), None, None, None, None]
    );
    assert_eq!(
        ["stuck", "held", "free", "unknown"].map(|node| blocked(node, Blocks::Held)),
        [Some(Why::Stuck), Some(Why::Allocating), None, None]
    );
    assert!(view.blocked("stuck", &[LockKey::Cambricon], &terms, Blocks::Held).is_none(), "another key");
}

/// A pod whose lock disappeared may be bound and wait for another vendor's device plugin while the watch of pods is behind.
#[tokio::test]
async fn n6_the_pod_of_a_lock_that_disappeared_is_read_until_the_watch_of_pods_has_shown_its_outcome() {
    let named = PodKey { uid: None, ..key("p1", "u1").named() };
    let text: LockValue = value("p1").into();
    let unbound = || pod("p1", "u1", 2, None);
    let note =
        json!({"value": value("p1"), "uid": "u1", "attempt": "1", "instance": "x", "deadline": "2026-08-01T06:11:00Z"});
    let noted = || node("n", 1, json!({LOCK: value("p1"), "topoloom.dev/node-lock": note.to_string()}));
    let went = |pods: Vec<Slice>| {
        let view = view();
        view.fill(&[noted()], &pods);
        view.node_event(&Event::Apply(node("n", 3, json!({}))));
        view
    };
    let left = |view: &View| sight(view, "n").left.map(|lock| lock.value.to_string());
    let indexed = |view: &View| view.lock().sightings.sizes().named;
    for pods in [vec![unbound()], vec![]] {
        let view = went(pods.clone());
        assert_eq!((left(&view), indexed(&view)), (Some(value("p1")), 1), "{pods:?}");
        // A heartbeat and a relist change nothing of that; another lock does.
        view.node_event(&Event::Apply(node("n", 4, json!({}))));
        view.fill(&[node("n", 5, json!({}))], &pods);
        assert_eq!(left(&view), Some(value("p1")));
        view.node_event(&Event::Apply(node("n", 6, json!({LOCK: "lock"}))));
        view.node_event(&Event::Apply(node("n", 7, json!({}))));
        assert_eq!((left(&view), indexed(&view)), (None, 0));
    }
    // The caller knows, until it waits: if that pod waits here, it holds the node.
    for read in [None, Some(unbound()), Some(pod("p1", "u1", 3, Some("n")))] {
        let (view, mut live) = (went(vec![unbound()]), LiveReads::default());
        let read = read.map(|read| pods::of(&read, view.backends()).unwrap().pod);
        let waits = read.as_ref().is_some_and(|read| read.waits_on("n"));
        view.confirmed("n", &named, &text, read, &mut live);
        let seen = view.node("n", &[LockKey::Shared], &live).unwrap().keys.remove(0);
        assert_eq!((seen.left, seen.waiting.len()), (None, usize::from(waits)));
        live.clear();
        assert!(view.node("n", &[LockKey::Shared], &live).unwrap().keys.remove(0).left.is_some());
    }
    // An outcome that the watch shows is final, before or after the lock is gone.
    let mut marked = unbound();
    kube::Resource::meta_mut(&mut marked).annotations =
        Some([("topoloom.dev/lock-revoked".to_owned(), value("p1"))].into());
    for shown in [Event::Apply(pod("p1", "u1", 4, Some("n"))), Event::Apply(marked.clone()), Event::Delete(unbound())] {
        let view = went(vec![unbound()]);
        view.pod_event(shown);
        assert_eq!((left(&view), indexed(&view)), (None, 0));
    }
    for known in [pod("p1", "u1", 2, Some("n")), marked] {
        let view = went(vec![known]);
        assert_eq!((left(&view), indexed(&view)), (None, 0));
    }
    // An older pod of that name says nothing of it. Without a note it is not known which it is, unless it waits here.
    let view = went(vec![]);
    for event in [Event::Apply(pod("p1", "u0", 4, Some("n"))), Event::Delete(pod("p1", "u0", 5, Some("n")))] {
        view.pod_event(event);
        assert!(left(&view).is_some());
    }
    let foreign = |pods: Vec<Slice>| {
        let view = super::tests::view();
        view.fill(&[node("n", 1, json!({LOCK: value("p1")}))], &pods);
        view.node_event(&Event::Apply(node("n", 3, json!({}))));
        left(&view)
    };
    assert!(foreign(vec![pod("p1", "u0", 2, Some("elsewhere"))]).is_some());
    assert!(foreign(vec![pod("p1", "u1", 2, Some("n"))]).is_none());
    // There is no need to read a pod that a live read did not find while its lock stood.
    let (view, mut live) = (super::tests::view(), LiveReads::default());
    view.fill(&[node("n", 1, json!({LOCK: value("p1")}))], &[]);
    view.confirmed("n", &named, &text, None, &mut live);
    view.node_event(&Event::Apply(node("n", 3, json!({}))));
    assert_eq!(left(&view), None);
}

#[tokio::test]
async fn what_was_read_or_written_of_a_pod_is_known_before_the_watch_shows_it_and_never_outlives_it() {
    let view = view();
    let version = || view.pod(&key("p1", "u1")).map(|seen| seen.pod.version.to_string());
    let read = |version, bound| view.pod_read(&pods::of(&pod("p1", "u1", version, bound), view.backends()).unwrap());
    read(5, Some("n"));
    assert_eq!(version(), None, "its end may have been shown");
    view.pod_event(Event::Apply(pod("p1", "u1", 4, None)));
    read(3, Some("n"));
    assert_eq!(version().as_deref(), Some("4"));
    read(6, Some("n"));
    view.pod_event(Event::Apply(pod("p1", "u1", 5, None)));
    assert_eq!(version().as_deref(), Some("6"));
    // Another pod of that name is another one.
    view.pod_read(&pods::of(&pod("p1", "u2", 9, None), view.backends()).unwrap());
    assert_eq!(version().as_deref(), Some("6"));
    view.pod_event(Event::Apply(pod("p1", "u1", 7, None)));
    assert_eq!(version().as_deref(), Some("7"));
    view.pod_event(Event::Delete(pod("p1", "u1", 8, None)));
    assert_eq!(version(), None);
}
