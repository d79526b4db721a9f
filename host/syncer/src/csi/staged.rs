//! The API servers of both clusters as far as CSINodes need them: with the rules of the real ones for names, versions, UIDs and
//! drivers that cannot be changed.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Map, Value, json};

/// Where CSINodes are.
const CSI_NODES: &str = "/apis/storage.k8s.io/v1/csinodes";

/// An API server. Clones are the same one.
#[derive(Clone, Default)]
pub(super) struct Api(Arc<Mutex<State>>);

#[derive(Default)]
pub(super) struct State {
    pub(super) csi_nodes: BTreeMap<String, Value>,
    pub(super) nodes: BTreeSet<String>,
    /// The UIDs of ClusterBindings.
    pub(super) bindings: Vec<String>,
    /// It refuses to change the number of volumes of a driver.
    pub(super) has_fixed_counts: bool,
    /// It refuses these methods with 403.
    pub(super) forbidden: BTreeSet<&'static str>,
    /// It refuses every patch with 422 and this sentence.
    pub(super) invalid: Option<&'static str>,
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

    /// The requests since the last call.
    pub(super) fn take_seen(&self) -> Vec<String> {
        std::mem::take(&mut self.state().seen)
    }

    pub(super) fn csi_node(&self, name: &str) -> Option<Value> {
        self.state().csi_nodes.get(name).cloned()
    }

    /// Another client stores a CSINode.
    pub(super) fn put(&self, object: Value) -> Value {
        self.state().store(object)
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let body: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        let (code, answer) = self.state().carry_out(&head.method, head.uri.path(), &body);
        let answer = Body::from(answer.to_string().into_bytes());
        Response::builder().status(code).body(answer).unwrap()
    }
}

fn status(code: u16, word: &str, message: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": word, "message": message,
    });
    (code, status)
}

impl State {
    fn store(&mut self, mut object: Value) -> Value {
        self.version += 1;
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = self.version.to_string().into();
        if metadata.get("uid").is_none() {
            metadata["uid"] = format!("c-{}", self.version).into();
        }
        let name = metadata["name"].as_str().unwrap().to_owned();
        self.csi_nodes.insert(name, object.clone());
        object
    }

    fn carry_out(&mut self, method: &Method, path: &str, body: &Value) -> (u16, Value) {
        if path.ends_with("/events") {
            let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
            self.events.push((text("reason"), text("note")));
            return (201, body.clone());
        }
        self.seen.push(format!("{method} {}", path.trim_start_matches("/apis/").trim_start_matches("/api/")));
        if self.forbidden.contains(method.as_str()) {
            let message = format!(
                "csinodes.storage.k8s.io is forbidden: User \"x\" cannot {} resource \"csinodes\" in API group \"storage.k8s.io\" at the cluster scope",
                method.as_str().to_lowercase()
            );
            return status(403, "Forbidden", &message);
        }
        let named = path.strip_prefix(CSI_NODES).map(|rest| rest.trim_start_matches('/').to_owned());
        match (method.as_str(), named.as_deref()) {
            ("POST", Some("")) => self.create(body),
            ("GET", Some(name)) => self.csi_nodes.get(name).map_or_else(|| absent(name), |found| (200, found.clone())),
            ("PATCH", Some(name)) => self.patch(name, body),
            ("DELETE", Some(name)) => self.delete(name, body),
            ("GET", None) if path.ends_with("/clusterbindings") => {
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
        }
    }

    fn create(&mut self, body: &Value) -> (u16, Value) {
        let name = body["metadata"]["name"].as_str().unwrap();
        if self.csi_nodes.contains_key(name) {
            return status(409, "AlreadyExists", "it exists");
        }
        (201, self.store(body.clone()))
    }

    fn patch(&mut self, name: &str, body: &Value) -> (u16, Value) {
        let Some(before) = self.csi_nodes.get(name).cloned() else { return absent(name) };
        if let Some(message) = self.invalid {
            return status(422, "Invalid", message);
        }
        assert!(body["metadata"]["resourceVersion"].is_string(), "a write without a version: {body}");
        if body["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"] {
            return status(409, "Conflict", "the object has been modified");
        }
        let mut after = before.clone();
        merge(&mut after, body);
        assert_ne!(before, after, "a write that changes nothing");
        if !self.may_replace(&before, &after) {
            return status(422, "Invalid", "spec.drivers: Invalid value: {}: field is immutable");
        }
        (200, self.store(after))
    }

    /// Whether entries of drivers that stay are as they were.
    fn may_replace(&self, before: &Value, after: &Value) -> bool {
        let drivers = |of: &Value| of["spec"]["drivers"].as_array().cloned().unwrap_or_default();
        let judged = |mut driver: Value| {
            if !self.has_fixed_counts {
                driver.as_object_mut().unwrap().remove("allocatable");
            }
            driver
        };
        let before = drivers(before);
        drivers(after).into_iter().all(|new| {
            let old = before.iter().find(|old| old["name"] == new["name"]).cloned();
            old.is_none_or(|old| judged(old) == judged(new))
        })
    }

    fn delete(&mut self, name: &str, body: &Value) -> (u16, Value) {
        let Some(stored) = self.csi_nodes.get(name).cloned() else { return absent(name) };
        let wanted = &body["preconditions"];
        let is_same = |key: &str| wanted[key].is_string() && wanted[key] == stored["metadata"][key];
        if !is_same("uid") || !is_same("resourceVersion") {
            return status(409, "Conflict", "a precondition failed");
        }
        let mut answer = stored;
        if answer["metadata"].get("finalizers").is_some() {
            answer["metadata"]["deletionTimestamp"] = "2026-08-03T12:00:00Z".into();
            return (200, self.store(answer));
        }
        self.csi_nodes.remove(name);
        // As the real one: the object as it was.
        (200, answer)
    }
}

fn absent(name: &str) -> (u16, Value) {
    let (code, mut status) = status(404, "NotFound", &format!("{name} not found"));
    status["details"] = json!({"name": name, "group": "storage.k8s.io", "kind": "csinodes"});
    (code, status)
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
