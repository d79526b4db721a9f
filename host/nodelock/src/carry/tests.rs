//! How many requests a Bind costs.

use std::sync::{Mutex, MutexGuard};

use http::{Method, Request, Response};
use kube::client::Body;
use prometheus_client::metrics::histogram::Histogram;
use serde_json::{Value as Json, json};
use topoloom_cluster::gate::{ReadOnly, Switch};
use topoloom_cluster::node_watch::{Follow, NodeMeta};
use topoloom_cluster::watched::{Earlier, Event};
use topoloom_core::nodelock::needs::{Backend, NodeKind};
use topoloom_core::nodelock::{Retry, Takeover};

use super::*;
use crate::crowd::CrowdBounds;
use crate::lock::{EXPIRE_DEFAULT, NodeLock, Options};

const LOCK: &str = "hami.io/mutex.lock";

/// An API server with one node, all of whose pods are in its watch.
#[derive(Default)]
struct Server {
    version: u64,
    labels: serde_json::Map<String, Json>,
    annotations: serde_json::Map<String, Json>,
    seen: Vec<String>,
    /// Whose watch of nodes shows the present as soon as a write is a conflict.
    shows: Option<Arc<View>>,
}

impl Server {
    fn node(&self) -> Json {
        let version = self.version.to_string();
        let metadata = json!({"name": "n", "uid": "node-uid", "resourceVersion": version, "labels": self.labels, "annotations": self.annotations});
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata})
    }

    fn meta(&self) -> NodeMeta {
        serde_json::from_value(self.node()).unwrap()
    }

    fn change(&mut self, annotations: &Json) {
        self.version += 1;
        for (key, value) in annotations.as_object().unwrap() {
            if value.is_null() {
                self.annotations.remove(key);
            } else {
                self.annotations.insert(key.clone(), value.clone());
            }
        }
    }

    fn answer(&mut self, method: &Method, path: &str, body: &Json) -> (u16, Json) {
        self.seen.push(format!("{method} {}", path.rsplit('/').next().unwrap()));
        let version = body["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        let is_current = version == Some(self.version);
        let done = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
        match (method, path) {
            (&Method::PATCH, "/api/v1/nodes/n") if is_current => {
                self.change(&body["metadata"]["annotations"]);
                (200, self.node())
            }
            (&Method::PATCH, "/api/v1/nodes/n") => {
                if let Some(view) = &self.shows {
                    view.node_event(&Event::Apply(self.meta()));
                }
                let refused = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "changed", "reason": "Conflict", "code": 409});
                (409, refused)
            }
            (&Method::GET, "/api/v1/nodes/n") => (200, self.node()),
            (&Method::GET, "/api/v1/pods") => (
                200,
                json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "99"}, "items": []}),
            ),
            (&Method::POST, _) => (201, done),
            other => panic!("{other:?}"),
        }
    }
}

/// A lock, its view, and the API server that it talks to.
struct Scene {
    lock: Arc<NodeLock>,
    view: Arc<View>,
    server: Arc<Mutex<Server>>,
}

impl Scene {
    fn new() -> Self {
        Self::with(&[])
    }

    /// The same, whose node has these labels.
    fn with(labels: &[&str]) -> Self {
        let labels = labels.iter().map(|key| ((*key).to_owned(), json!("x"))).collect();
        let server = Arc::new(Mutex::new(Server { version: 10, labels, ..Server::default() }));
        let answers = Arc::clone(&server);
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = Arc::clone(&answers);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or_default();
                let (code, answer) = server.lock().unwrap().answer(&parts.method, parts.uri.path(), &body);
                let answer = Body::from(serde_json::to_vec(&answer).unwrap());
                Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        let backends: Arc<[Backend]> = Backend::known().into();
        let view = Arc::new(View::new(Arc::clone(&backends), Histogram::new([])));
        let requests = Requests::new(kube::Client::new(service, "default"), backends);
        let options = Options { ttl: EXPIRE_DEFAULT, takeover: Takeover::State, retry: Retry::CLASSIC };
        let carrier = Carrier::new(Arc::clone(&view), requests, "one".into(), 1);
        let lock = NodeLock::bounded(carrier, options, CrowdBounds::NONE, Switch::new(ReadOnly::No));
        let scene = Self { lock, view, server };
        let meta = scene.server().meta();
        for event in [Event::Init(Earlier::Valid), Event::InitApply(meta), Event::whole("10".into())] {
            scene.view.node_event(&event);
        }
        for event in [Event::Init(Earlier::Valid), Event::whole("10".into())] {
            scene.view.pod_event(event);
        }
        scene
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.server.lock().unwrap()
    }

    /// Another client writes on the node, and the watch does not show it yet.
    fn heartbeat(&self) {
        let beats = self.server().version.to_string();
        self.server().change(&json!({"ex.io/heartbeat": beats}));
    }

    fn pod(&self, name: &str, version: u64, bound: Option<&str>, status: Json) {
        let pod = json!({
            "metadata": {"namespace": "default", "name": name, "uid": name, "resourceVersion": version.to_string(), "creationTimestamp": "2026-08-01T06:00:00Z"},
            "spec": {"nodeName": bound, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
            "status": status,
        });
        self.view.pod_event(Event::Apply(serde_json::from_value(pod).unwrap()));
    }

    /// The requests of a Bind of a new pod. After it, the device plugin answers, and the watches show that.
    async fn bind(&self, name: &str) -> Vec<String> {
        self.pod(name, 20, None, json!({"phase": "Pending"}));
        let pod = PodId { namespace: "default".into(), name: name.into(), uid: name.into() };
        let before = self.server().seen.len();
        let report = self.lock.bind(pod, "n".into(), Duration::from_secs(28)).await;
        assert!(report.result.is_ok(), "{:?}", report.result);
        let seen = self.server().seen.split_off(before);
        assert!(self.server().annotations[LOCK].as_str().unwrap().ends_with(&format!(",default,{name}")));
        self.server().change(&json!({LOCK: null}));
        let meta = self.server().meta();
        self.view.node_event(&Event::Apply(meta));
        self.pod(name, 30, Some("n"), json!({"phase": "Running", "startTime": "2026-08-01T06:10:00Z"}));
        seen
    }
}

#[tokio::test(start_paused = true)]
async fn r18_the_pods_of_a_node_are_listed_only_after_a_read_that_has_passed_over_versions_of_it() {
    let scene = Scene::new();
    let usual = ["PATCH n", "POST binding"];
    assert_eq!(scene.bind("p1").await, usual);
    assert_eq!(scene.bind("p2").await, usual);
    scene.heartbeat();
    assert_eq!(scene.bind("p3").await, ["PATCH n", "GET n", "GET pods", "PATCH n", "POST binding"]);
    assert_eq!(scene.bind("p4").await, usual, "its own lock has made up for that");
    // A watch that shows the present before the node is read.
    scene.heartbeat();
    scene.server().shows = Some(Arc::clone(&scene.view));
    assert_eq!(scene.bind("p5").await, ["PATCH n", "GET n", "PATCH n", "POST binding"]);
    // A watch of nodes that broke and lists: whatever came and went before is not shown, and the pods are listed once.
    scene.heartbeat();
    let meta = scene.server().meta();
    for event in [Event::Init(Earlier::Valid), Event::InitApply(meta), Event::whole("50".into())] {
        scene.view.node_event(&event);
    }
    assert_eq!(scene.bind("p6").await, ["GET pods", "PATCH n", "POST binding"]);
    assert_eq!(scene.bind("p7").await, usual);
}

#[tokio::test(start_paused = true)]
async fn what_a_write_left_of_a_node_is_known_before_the_watch_shows_it() {
    let scene = Scene::new();
    scene.pod("p1", 20, None, json!({"phase": "Pending"}));
    let pod = PodId { namespace: "default".into(), name: "p1".into(), uid: "p1".into() };
    let report = scene.lock.bind(pod, "n".into(), Duration::from_secs(28)).await;
    assert!(report.result.is_ok(), "{:?}", report.result);
    let known = scene.view.node("n", &[LockKey::Shared], &LiveReads::default()).unwrap();
    assert_eq!(*known.version, *scene.server().version.to_string());
    assert!(known.keys[0].lock.is_some(), "{known:?}");
}

#[tokio::test(start_paused = true)]
async fn s27_a_pod_is_bound_to_a_virtual_node_by_one_request_and_no_lock_is_written_there() {
    let scene = Scene::with(&["topoloom.dev/virtual-cluster"]);
    // A lock that another program has left: no device plugin releases it.
    scene.server().annotations.insert(LOCK.to_owned(), json!("2026-08-01T06:10:00Z,default,other"));
    let meta = scene.server().meta();
    scene.view.node_event(&Event::Apply(meta));
    for name in ["p1", "p2"] {
        scene.pod(name, 20, None, json!({"phase": "Pending"}));
        let pod = PodId { namespace: "default".into(), name: name.into(), uid: name.into() };
        let report = scene.lock.bind(pod, "n".into(), Duration::from_secs(28)).await;
        assert!(report.result.is_ok(), "{:?}", report.result);
        assert_eq!((report.node, report.keys), (NodeKind::Virtual, vec![LockKey::Shared]));
        // It has not started, and the next one does not wait for it.
        scene.pod(name, 30, Some("n"), json!({"phase": "Pending"}));
    }
    assert_eq!(scene.server().seen, ["POST binding", "POST binding"]);
}
