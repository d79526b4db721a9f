//! The virtual API server as far as placeholders need it: with the rules of the real one for names, versions, UIDs, and for pods that
//! are deleted with grace 0.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

/// Where placeholders are.
const PODS: &str = "/api/v1/namespaces/topoloom-host-ports/pods";

/// An API server. Clones are the same one.
#[derive(Clone, Default)]
pub(super) struct Api(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    pub(super) pods: BTreeMap<String, Value>,
    pub(super) nodes: BTreeSet<String>,
    /// The UIDs of ClusterBindings.
    pub(super) bindings: Vec<String>,
    /// It refuses these methods with 403.
    pub(super) forbidden: BTreeSet<&'static str>,
    /// It does what it is asked, and the answer to this method is lost.
    pub(super) loses: Option<&'static str>,
    /// The requests about other things than Events.
    pub(super) seen: Vec<String>,
    /// Reasons and notes of the Events.
    pub(super) events: Vec<(String, String)>,
    version: u64,
}

impl Api {
    pub(super) fn client(&self) -> kube::Client {
        let api = self.clone();
        let serve = move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        };
        kube::Client::new(tower::service_fn(serve), "default")
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The requests since the last call: method, and the kind of what they were about.
    pub(super) fn take_seen(&self) -> Vec<String> {
        std::mem::take(&mut self.state().seen)
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        let (code, answer) = self.state().carry_out(&head.method, head.uri.path(), &body);
        Response::builder().status(code).body(Body::from(answer.to_string().into_bytes())).unwrap()
    }
}

fn status(code: u16, word: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": word, "message": message,
    });
    (code, status)
}

fn absent(name: &str) -> (u16, Value) {
    let (code, mut status) = status(404, "NotFound", &format!("{name} not found"));
    status["details"] = json!({"name": name, "group": "", "kind": "pods"});
    (code, status)
}

impl State {
    fn carry_out(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        if path.ends_with("/events") {
            let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            self.events.push((text("reason"), text("note")));
            return (201, body.clone());
        }
        let named = path.strip_prefix(PODS).map(|rest| rest.trim_start_matches('/').to_owned());
        let about = match &named {
            Some(rest) if rest.ends_with("/status") => "status",
            Some(_) => "pod",
            None if path.ends_with("/clusterbindings") => "bindings",
            None => "node",
        };
        self.seen.push(format!("{method} {about}"));
        if self.forbidden.contains(method.as_str()) {
            let verb = if *method == Method::POST { "create" } else { "delete" };
            let message = format!(
                "pods is forbidden: User \"x\" cannot {verb} resource \"pods\" in API group \"\" in the namespace \"topoloom-host-ports\""
            );
            return status(403, "Forbidden", &message);
        }
        let answer = match (method.as_str(), named.as_deref()) {
            ("POST", Some("")) => self.create(body),
            ("GET", Some(name)) => self.pods.get(name).map_or_else(|| absent(name), |found| (200, found.clone())),
            ("PATCH", Some(rest)) => self.mark(rest.trim_end_matches("/status"), body),
            ("DELETE", Some(name)) => self.delete(name, body),
            ("GET", None) if about == "bindings" => {
                let item = |uid: &String| json!({"metadata": {"name": uid, "uid": uid}});
                let items: Vec<Value> = self.bindings.iter().map(item).collect();
                let kind = "PartialObjectMetadataList";
                (200, json!({"apiVersion": "meta.k8s.io/v1", "kind": kind, "metadata": {}, "items": items}))
            }
            ("GET", None) => {
                let name = path.rsplit('/').next().unwrap_or_default();
                if self.nodes.contains(name) { (200, json!({"metadata": {"name": name}})) } else { absent(name) }
            }
            other => panic!("{other:?} {path}"),
        };
        if self.loses == Some(method.as_str()) {
            self.loses = None;
            return status(500, "InternalError", "the answer is lost");
        }
        answer
    }

    /// Stores a pod as it is, in a new version.
    pub(super) fn put(&mut self, mut pod: Value) -> Value {
        self.version += 1;
        let metadata = &mut pod["metadata"];
        metadata["resourceVersion"] = self.version.to_string().into();
        if metadata.get("uid").is_none() {
            metadata["uid"] = format!("h-{}", self.version).into();
        }
        let name = metadata["name"].as_str().unwrap().to_owned();
        self.pods.insert(name, pod.clone());
        pod
    }

    fn create(&mut self, body: &Value) -> (u16, Value) {
        let name = body["metadata"]["name"].as_str().unwrap();
        if self.pods.contains_key(name) {
            return status(409, "AlreadyExists", "it exists");
        }
        let mut pod = body.clone();
        // Whatever status was sent with it.
        pod["status"] = json!({"phase": "Pending"});
        (201, self.put(pod))
    }

    fn mark(&mut self, name: &str, body: &Value) -> (u16, Value) {
        let Some(mut pod) = self.pods.get(name).cloned() else { return absent(name) };
        if body["metadata"]["resourceVersion"] != pod["metadata"]["resourceVersion"] {
            return status(409, "Conflict", "the object has been modified");
        }
        pod["status"]["conditions"] = body["status"]["conditions"].clone();
        (200, self.put(pod))
    }

    fn delete(&mut self, name: &str, body: &Value) -> (u16, Value) {
        let Some(stored) = self.pods.get(name).cloned() else { return absent(name) };
        let wanted = &body["preconditions"];
        let is_same = |key: &str| wanted[key].is_string() && wanted[key] == stored["metadata"][key];
        if !is_same("uid") || !is_same("resourceVersion") {
            return status(409, "Conflict", "a precondition failed");
        }
        assert_eq!(body["gracePeriodSeconds"], 0, "no kubelet ends it");
        let mut answer = stored;
        answer["metadata"]["deletionTimestamp"] = "2026-08-03T12:00:00Z".into();
        if answer["metadata"].get("finalizers").is_some() {
            return (200, self.put(answer));
        }
        self.pods.remove(name);
        // As the real one: the object as it was.
        (200, answer)
    }
}
