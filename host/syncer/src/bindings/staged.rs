//! API servers that keep objects in memory, for tests: get, list in pages, create, merge patch and delete, with versions and
//! preconditions.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::requests::Clients;

/// One API server. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<Store>>);

#[derive(Default)]
struct Store {
    objects: BTreeMap<String, Value>,
    version: u64,
    writes: Vec<String>,
    /// The lists since they were counted last.
    lists: usize,
    /// So many writes are answered, and the next one is not.
    dies_after: Option<usize>,
    /// Reads whose path ends so are refused for want of a right: this verb on this resource.
    forbidden: Option<(&'static str, &'static str)>,
    /// A list of nodes is too large for one answer.
    has_many_nodes: bool,
    /// No definition has this field of a status.
    drops: Option<&'static str>,
}

impl Server {
    pub(super) fn client(&self) -> kube::Client {
        let server = self.clone();
        let serve = move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (method, path) = (request.method().clone(), request.uri().path().to_owned());
                let query = request.uri().query().unwrap_or_default().to_owned();
                let body = request.into_body().collect_bytes().await.unwrap();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (code, answer) = server.0.lock().unwrap().serve(&method, (path.as_str(), query.as_str()), body);
                let answer = Body::from(answer.to_string().into_bytes());
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    /// An object as it is stored.
    pub(super) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().unwrap().objects.get(path).cloned()
    }

    /// Stores an object, as another client would.
    pub(super) fn put(&self, path: &str, object: Value) {
        self.0.lock().unwrap().store(path, object);
    }

    /// The right to this verb is missing for the reads of this resource.
    pub(super) fn forbid(&self, verb: &'static str, resource: &'static str) {
        self.0.lock().unwrap().forbidden = Some((verb, resource));
    }

    /// No right is missing any more.
    pub(super) fn allow(&self) {
        self.0.lock().unwrap().forbidden = None;
    }

    /// From now on a list of nodes is refused that is not read in pages.
    pub(super) fn has_many_nodes(&self) {
        self.0.lock().unwrap().has_many_nodes = true;
    }

    /// From now on this field of a status is not stored; `None`: all are.
    pub(super) fn drops(&self, field: Option<&'static str>) {
        self.0.lock().unwrap().drops = field;
    }

    pub(super) fn remove(&self, path: &str) {
        self.0.lock().unwrap().objects.remove(path);
    }

    /// The writes since the last call.
    pub(super) fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().writes)
    }

    /// How many lists were answered since the last call.
    pub(super) fn lists(&self) -> usize {
        std::mem::take(&mut self.0.lock().unwrap().lists)
    }

    /// The server is set back to what it kept then.
    pub(super) fn restore(&self, objects: BTreeMap<String, Value>) {
        self.0.lock().unwrap().objects = objects;
    }

    pub(super) fn save(&self) -> BTreeMap<String, Value> {
        self.0.lock().unwrap().objects.clone()
    }

    /// The next write has the version after this one.
    pub(super) fn goes_on_after(&self, version: u64) {
        self.0.lock().unwrap().version = version;
    }

    /// So many more writes succeed.
    pub(super) fn dies_after(&self, writes: Option<usize>) {
        self.0.lock().unwrap().dies_after = writes;
    }
}

/// The clients of a binding between two of them.
pub(super) fn clients(lent: &Server, physical: &Server) -> Clients {
    Clients {
        lent: lent.client(),
        lent_writes: lent.client(),
        physical: physical.client(),
        physical_writes: physical.client(),
    }
}

impl Store {
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = format!("uid-{}", self.version).into();
        }
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn serve(&mut self, method: &Method, (path, query): (&str, &str), body: Value) -> (u16, Value) {
        let object = path.strip_suffix("/status").unwrap_or(path);
        if *method == Method::GET {
            return match self.forbidden.filter(|(_, resource)| path.ends_with(resource)) {
                Some((verb, resource)) => forbidden(verb, resource),
                None => self.read(object, query),
            };
        }
        match &mut self.dies_after {
            Some(0) => return refused(500, "InternalError"),
            Some(left) => *left -= 1,
            None => {}
        }
        self.writes.push(format!("{method} {path}"));
        if *method == Method::POST {
            let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
            if self.objects.contains_key(&path) {
                return refused(409, "AlreadyExists");
            }
            return (201, self.store(&path, body));
        }
        let Some(stored) = self.objects.get(object).cloned() else { return absent(object) };
        if *method == Method::DELETE {
            let wanted = &body["preconditions"];
            let fits = |key: &str| wanted[key].is_null() || wanted[key] == stored["metadata"][key];
            if !fits("uid") || !fits("resourceVersion") {
                return refused(409, "Conflict");
            }
            self.objects.remove(object);
            return (200, stored);
        }
        let version = &body["metadata"]["resourceVersion"];
        assert!(version.is_string(), "each write carries the version that it was decided on: {body}");
        if *version != stored["metadata"]["resourceVersion"] {
            return refused(409, "Conflict");
        }
        let mut patched = stored;
        apply(&mut patched, &body);
        let status = patched.get_mut("status").and_then(Value::as_object_mut);
        if let (Some(field), Some(status)) = (self.drops, status) {
            status.remove(field);
        }
        (200, self.store(object, patched))
    }

    fn read(&mut self, path: &str, query: &str) -> (u16, Value) {
        if let Some(object) = self.objects.get(path) {
            return (200, object.clone());
        }
        let lists = ["clusterbindings", "leases", "nodes", "pods"];
        if !lists.iter().any(|plural| path.ends_with(plural)) {
            return absent(path);
        }
        let asked = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.parse::<usize>().ok());
        let (limit, from) = (asked("limit="), asked("continue=").unwrap_or_default());
        if self.has_many_nodes && limit.is_none() && path.ends_with("nodes") {
            return refused(500, "InternalError");
        }
        self.lists += 1;
        let below = format!("{path}/");
        let all: Vec<&Value> =
            self.objects.iter().filter(|(path, _)| path.starts_with(&below)).map(|(_, object)| object).collect();
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        let items: Vec<&Value> = all.iter().skip(from).take(limit.unwrap_or(usize::MAX)).copied().collect();
        // How many were shown.
        let shown = from + items.len();
        if shown < all.len() {
            metadata["continue"] = shown.to_string().into();
        }
        (200, json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items}))
    }
}

fn refused(code: u16, reason: &str) -> (u16, Value) {
    (code, json!({"kind": "Status", "status": "Failure", "message": "no", "reason": reason, "code": code}))
}

fn forbidden(verb: &str, resource: &str) -> (u16, Value) {
    let (code, mut status) = refused(403, "Forbidden");
    status["message"] = format!(
        "{resource} is forbidden: User \"u\" cannot {verb} resource \"{resource}\" in API group \"\" at the cluster scope"
    )
    .into();
    (code, status)
}

/// There is no object at this path.
fn absent(path: &str) -> (u16, Value) {
    let (code, mut status) = refused(404, "NotFound");
    status["details"] = json!({"name": path.rsplit('/').next()});
    (code, status)
}

/// As an API server applies a merge patch.
fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            apply(&mut target[key.as_str()], value);
        }
    }
}
