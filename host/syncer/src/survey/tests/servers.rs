//! An API server that keeps nodes and pods in memory, with versions, UIDs, preconditions and finalizers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Map, Value, json};

/// How the names of virtual nodes begin.
const LENT: &str = "vnode-east-";

/// Writes by the name of the machine that they are about, in the order in which they came.
pub(super) type Log = BTreeMap<String, Vec<(String, Value)>>;

/// One API server. Clones are the same.
#[derive(Clone)]
pub(super) struct Cluster(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    pub(super) nodes: BTreeMap<String, Value>,
    /// By namespace and name.
    pub(super) pods: BTreeMap<String, Value>,
    version: u64,
    log: Arc<Mutex<Log>>,
}

impl Cluster {
    /// The virtual one and the physical one, and what is written to either.
    pub(super) fn pair() -> (Self, Self, Arc<Mutex<Log>>) {
        let log = Arc::new(Mutex::new(Log::new()));
        let cluster = || Self(Arc::new(Mutex::new(State { log: Arc::clone(&log), ..State::default() })));
        (cluster(), cluster(), Arc::clone(&log))
    }

    pub(super) fn client(&self) -> kube::Client {
        let cluster = self.clone();
        let serve = move |request: Request<Body>| {
            let cluster = cluster.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let query = head.uri.query().unwrap_or_default();
                let (code, answer) = cluster.state().serve(&head.method, head.uri.path(), query, &body);
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state().nodes.is_empty()
    }

    /// Another client stores a node.
    pub(super) fn node(&self, node: Value) {
        self.state().store_node(node);
    }

    /// Another client stores a pod.
    pub(super) fn pod(&self, pod: Value) {
        self.state().store_pod(pod);
    }
}

impl State {
    fn stamp(&mut self, object: &mut Value) {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = self.version.to_string().into();
        if metadata["uid"].is_null() {
            metadata["uid"] = format!("uid-{}", self.version).into();
        }
    }

    fn store_node(&mut self, mut node: Value) -> Value {
        self.stamp(&mut node);
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        self.nodes.insert(name, node.clone());
        node
    }

    fn store_pod(&mut self, mut pod: Value) -> Value {
        self.stamp(&mut pod);
        let text = |field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
        let key = format!("{}/{}", text("namespace"), text("name"));
        self.pods.insert(key, pod.clone());
        pod
    }

    fn written(&mut self, machine: &str, what: String, body: &Value) {
        let machine = machine.strip_prefix(LENT).unwrap_or(machine).to_owned();
        self.log.lock().unwrap().entry(machine).or_default().push((what, without_version(body)));
    }

    fn serve(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> (u16, Value) {
        let parts: Vec<&str> = path.split('/').skip(3).collect();
        match (method.as_str(), &parts[..]) {
            ("POST", ["nodes"]) => self.create(body),
            ("GET", ["nodes", name]) => self.nodes.get(*name).map_or_else(|| absent(name), |node| (200, node.clone())),
            ("PATCH", ["nodes", name]) => self.patch(name, "", body),
            ("PATCH", ["nodes", name, "status"]) => self.patch(name, "/status", body),
            ("DELETE", ["nodes", name]) => self.delete(name, body),
            ("GET", ["pods"]) => self.pods_of(query),
            ("POST", ["namespaces", namespace, "pods", name, "eviction"]) => self.remove(namespace, name, "EVICT"),
            ("DELETE", ["namespaces", namespace, "pods", name]) => self.remove(namespace, name, "DELETE"),
            ("GET", [.., "clusterbindings"]) => {
                let item = json!({"metadata": {"name": "east", "uid": "b1"}});
                let kind = "PartialObjectMetadataList";
                (200, json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": {}, "items": [item]}))
            }
            // Events are for people, and no plan has them.
            ("POST", [.., "events"]) => (201, body.clone()),
            ("PATCH", [.., "events", _]) => (200, body.clone()),
            ("GET", [.., name]) => absent(name),
            other => panic!("{other:?} {path}"),
        }
    }

    fn create(&mut self, body: &Value) -> (u16, Value) {
        let name = body["metadata"]["name"].as_str().unwrap().to_owned();
        if self.nodes.contains_key(&name) {
            return status(409, "AlreadyExists", &name);
        }
        self.written(&name, "create".to_owned(), body);
        (201, self.store_node(body.clone()))
    }

    fn patch(&mut self, name: &str, subresource: &str, body: &Value) -> (u16, Value) {
        let Some(stored) = self.nodes.get(name).cloned() else { return absent(name) };
        let version = &body["metadata"]["resourceVersion"];
        assert!(version.is_string(), "each write carries the version that it was decided on: {body}");
        assert_eq!(*version, stored["metadata"]["resourceVersion"], "nothing else writes: {body}");
        self.written(name, format!("patch {name}{subresource}"), body);
        let mut patched = stored;
        merge(&mut patched, body);
        let metadata = &patched["metadata"];
        let is_kept = metadata["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if !metadata["deletionTimestamp"].is_null() && !is_kept {
            self.nodes.remove(name);
            return (200, patched);
        }
        (200, self.store_node(patched))
    }

    fn delete(&mut self, name: &str, body: &Value) -> (u16, Value) {
        let Some(mut stored) = self.nodes.get(name).cloned() else { return absent(name) };
        for key in ["uid", "resourceVersion"] {
            assert_eq!(body["preconditions"][key], stored["metadata"][key], "{body}");
        }
        self.written(name, format!("delete {name}"), &Value::Null);
        if stored["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
            self.nodes.remove(name);
            return (200, stored);
        }
        stored["metadata"]["deletionTimestamp"] = "2026-08-03T13:31:00Z".into();
        (200, self.store_node(stored))
    }

    fn pods_of(&self, query: &str) -> (u16, Value) {
        let is_asked = |pod: &&Value| {
            let node = pod["spec"]["nodeName"].as_str().unwrap();
            query.ends_with(&format!("spec.nodeName%3D{node}")) || query.contains(&format!("spec.nodeName%3D{node}&"))
        };
        let items: Vec<&Value> = self.pods.values().filter(is_asked).collect();
        (200, json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items}))
    }

    fn remove(&mut self, namespace: &str, name: &str, how: &str) -> (u16, Value) {
        let Some(mut pod) = self.pods.get(&format!("{namespace}/{name}")).cloned() else { return absent(name) };
        let node = pod["spec"]["nodeName"].as_str().unwrap().to_owned();
        self.written(&node, format!("{how} {namespace}/{name}"), &Value::Null);
        pod["metadata"]["deletionTimestamp"] = "2026-08-03T13:31:00Z".into();
        let pod = self.store_pod(pod);
        if how == "EVICT" { (201, json!({"kind": "Status", "status": "Success", "code": 201})) } else { (200, pod) }
    }
}

/// A body as two histories have it in common.
pub(super) fn without_version(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
    }
    body
}

fn status(code: u16, reason: &str, name: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no",
        "details": {"name": name},
    });
    (code, status)
}

fn absent(name: &str) -> (u16, Value) {
    status(404, "NotFound", name)
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key.as_str()], value);
        }
    }
}
