//! An API server for pods and nodes: the rules of the real one for versions, UIDs, patches and deletions, and what was asked of
//! it. It answers at once.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};

/// Refuses some requests: by what was asked, with a code and a word.
type Refuses = Box<dyn FnMut(&str) -> Option<(u16, &'static str)> + Send>;

struct State {
    /// By path.
    objects: BTreeMap<String, Value>,
    version: u64,
    seen: Vec<String>,
    bodies: Vec<Value>,
    refuses: Refuses,
    /// A field of the status that this server does not know.
    drops: Option<&'static str>,
}

/// The server. Clones are the same one.
#[derive(Clone)]
pub(super) struct Api(Arc<Mutex<State>>);

impl Api {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            objects: BTreeMap::new(),
            version: 100,
            seen: Vec::new(),
            bodies: Vec::new(),
            refuses: Box::new(|_| None),
            drops: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub(super) fn client(&self) -> kube::Client {
        let api = self.clone();
        let serve = move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    pub(super) fn refuse(&self, refuses: impl FnMut(&str) -> Option<(u16, &'static str)> + Send + 'static) {
        self.state().refuses = Box::new(refuses);
    }

    pub(super) fn drop_field(&self, field: &'static str) {
        self.state().drops = Some(field);
    }

    /// Another client writes this pod; what is stored is returned.
    pub(super) fn put(&self, pod: Value) -> Value {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{}",
            pod["metadata"]["namespace"].as_str().unwrap(),
            pod["metadata"]["name"].as_str().unwrap()
        );
        self.put_at(&path, pod)
    }

    pub(super) fn put_at(&self, path: &str, object: Value) -> Value {
        self.state().store(path, object)
    }

    /// It is gone; this was its last state.
    pub(super) fn remove(&self, name: &str) -> Value {
        let mut state = self.state();
        state.version += 1;
        state.objects.remove(&path(name)).unwrap()
    }

    /// The object at this path is gone; this was its last state.
    pub(super) fn remove_at(&self, path: &str) -> Value {
        self.state().objects.remove(path).unwrap()
    }

    pub(super) fn pod(&self, name: &str) -> Option<Value> {
        self.state().objects.get(&path(name)).cloned()
    }

    /// What was asked since the last call: `GET lent/p`, `PATCH shop/web-0/status`.
    pub(super) fn take_seen(&self) -> Vec<String> {
        std::mem::take(&mut self.state().seen)
    }

    /// The bodies of what was asked since the last call, of those with one.
    pub(super) fn take_bodies(&self) -> Vec<Value> {
        std::mem::take(&mut self.state().bodies)
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        let path = head.uri.path();
        let asked = format!("{} {}", head.method, short(path));
        let mut state = self.state();
        state.seen.push(asked.clone());
        if !body.is_null() {
            state.bodies.push(body.clone());
        }
        let refused = (state.refuses)(&asked);
        let (code, answer) = match refused {
            Some((code, word)) => status(code, word),
            None => state.carry_out(&head.method, path, &body),
        };
        Response::builder()
            .status(StatusCode::from_u16(code).unwrap())
            .body(Body::from(answer.to_string().into_bytes()))
            .unwrap()
    }
}

fn path(name: &str) -> String {
    let (namespace, name) = name.split_once('/').unwrap();
    format!("/api/v1/namespaces/{namespace}/pods/{name}")
}

/// Namespace and name of a pod, and the subresource; the last part of any other path.
fn short(path: &str) -> String {
    match path.strip_prefix("/api/v1/namespaces/") {
        Some(rest) => rest.replacen("/pods/", "/", 1),
        None => path.rsplit('/').take(if path.contains("/nodes/") { 2 } else { 1 }).collect::<Vec<_>>().join(" of "),
    }
}

fn status(code: u16, word: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": word,
        "message": format!("the script says {word}"),
    });
    (code, status)
}

/// There is no object at this path.
fn absent(path: &str) -> (u16, Value) {
    let (code, mut status) = status(404, "NotFound");
    status["details"] = json!({"name": path.rsplit('/').next()});
    (code, status)
}

impl State {
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn carry_out(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        match (method.as_str(), path.strip_suffix("/status")) {
            ("GET", None) if path == "/api/v1/pods" => (200, self.list("/api/v1/namespaces/")),
            ("GET", None) if path.ends_with("/clusterbindings") => (200, self.list(path)),
            ("GET", None) => self.objects.get(path).cloned().map_or_else(|| absent(path), |it| (200, it)),
            ("PATCH", Some(path)) => self.patch(path, body),
            ("DELETE", None) => self.delete(path, body),
            ("POST", None) if path.ends_with("/events") => (201, body.clone()),
            other => panic!("{other:?} {path}"),
        }
    }

    fn list(&self, prefix: &str) -> Value {
        let items: Vec<&Value> =
            self.objects.iter().filter(|(path, _)| path.starts_with(prefix)).map(|(_, object)| object).collect();
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items})
    }

    /// A write of the status carries the version that it was made from, and changes neither spec nor any other metadata than
    /// labels and annotations.
    fn patch(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let Some(stored) = self.objects.get(path).cloned() else { return absent(path) };
        let version = body["metadata"]["resourceVersion"].as_str().expect("every write carries a version");
        assert!(body.get("spec").is_none(), "{body}");
        if stored["metadata"]["resourceVersion"] != version {
            return status(409, "Conflict");
        }
        let mut object = stored;
        for map in ["labels", "annotations"] {
            if let Some(changes) = body["metadata"].get(map) {
                merge(&mut object["metadata"][map], changes);
            }
        }
        if let Some(changes) = body.get("status") {
            merge(&mut object["status"], changes);
        }
        if let (Some(field), Some(status)) = (self.drops, object["status"].as_object_mut()) {
            status.remove(field);
        }
        (200, self.store(path, object))
    }

    /// A deletion carries UID and version.
    fn delete(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let Some(stored) = self.objects.get(path).cloned() else { return absent(path) };
        for part in ["uid", "resourceVersion"] {
            let wanted = body["preconditions"][part].as_str().expect("every deletion carries UID and version");
            if stored["metadata"][part] != wanted {
                return status(409, "Conflict");
            }
        }
        self.version += 1;
        self.objects.remove(path);
        (200, stored)
    }
}

/// A JSON merge patch, as RFC 7396 has it.
fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let members = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            members.remove(key);
        } else {
            merge(members.entry(key).or_insert(Value::Null), value);
        }
    }
}
