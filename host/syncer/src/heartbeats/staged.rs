//! An API server for leases of nodes: the rules of the real one for versions and UIDs, behind a script of faults. Time is that
//! of the test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::util::BoxCloneService;

/// What happens to a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// It is answered after this time.
    Slow(Duration),
    /// It is carried out, and the answer never comes.
    Lost,
    /// It is neither carried out nor answered.
    Hangs,
    /// It is refused with this code and word, and a time to wait in seconds.
    Refused(u16, &'static str, u32),
}

/// What an answer of a healthy server takes.
pub(super) const USUAL: Fault = Fault::Slow(Duration::from_millis(5));

/// A request as it was seen.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// Since the server was made.
    pub(super) at: Duration,
    pub(super) method: Method,
    pub(super) node: String,
    /// Nothing where there was no answer.
    pub(super) code: Option<u16>,
    pub(super) lease: Value,
}

impl Seen {
    pub(super) fn renewed(&self) -> Option<Timestamp> {
        self.lease.pointer("/spec/renewTime")?.as_str()?.parse().ok()
    }
}

type Script = Box<dyn FnMut(&Method, &str, Duration) -> Fault + Send>;

struct State {
    leases: BTreeMap<String, Value>,
    version: u64,
    uids: u64,
    seen: Vec<Seen>,
    script: Script,
    under_way: usize,
    most_under_way: usize,
}

/// The server. Clones are the same one.
#[derive(Clone)]
pub(super) struct Api {
    state: Arc<Mutex<State>>,
    begun: Instant,
}

impl Api {
    pub(super) fn new() -> Self {
        let state = State {
            leases: BTreeMap::new(),
            version: 100,
            uids: 0,
            seen: Vec::new(),
            script: Box::new(|_, _, _| USUAL),
            under_way: 0,
            most_under_way: 0,
        };
        Self { state: Arc::new(Mutex::new(state)), begun: Instant::now() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn service(&self) -> BoxCloneService<Request<Body>, Response<Body>, std::io::Error> {
        let api = self.clone();
        BoxCloneService::new(tower::service_fn(move |request| {
            let api = api.clone();
            async move { Ok(api.answer(request).await) }
        }))
    }

    pub(super) fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }

    /// What happens to each request from now on.
    pub(super) fn script(&self, script: impl FnMut(&Method, &str, Duration) -> Fault + Send + 'static) {
        self.state().script = Box::new(script);
    }

    /// Another client writes this Lease.
    pub(super) fn put(&self, node: &str, labels: Value, owner: Option<(&str, &str)>, spec: Value) {
        let mut state = self.state();
        let owners = owner.map(|(name, uid)| json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}]));
        let uid = state.leases.get(node).map(|lease| lease["metadata"]["uid"].clone());
        let uid = uid.unwrap_or_else(|| state.uid());
        let lease = json!({
            "metadata": {"name": node, "labels": labels, "ownerReferences": owners.unwrap_or(json!([])), "uid": uid},
            "spec": spec,
        });
        state.store(node, lease);
    }

    /// Another client, or garbage collection, deletes this Lease.
    pub(super) fn delete(&self, node: &str) {
        let mut state = self.state();
        state.version += 1;
        assert!(state.leases.remove(node).is_some(), "{node} has no lease");
    }

    pub(super) fn lease(&self, node: &str) -> Option<Value> {
        self.state().leases.get(node).cloned()
    }

    pub(super) fn leases(&self) -> usize {
        self.state().leases.len()
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// The requests since the last call.
    pub(super) fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state().seen)
    }

    pub(super) fn most_under_way(&self) -> usize {
        self.state().most_under_way
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let lease: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        let path = head.uri.path();
        let rest = path.strip_prefix("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases").expect(path);
        let named = rest.trim_start_matches('/').to_owned();
        let node = if head.method == Method::POST {
            lease["metadata"]["name"].as_str().unwrap().to_owned()
        } else {
            named.clone()
        };
        let at = self.begun.elapsed();
        let fault = {
            let mut state = self.state();
            state.under_way += 1;
            state.most_under_way = state.most_under_way.max(state.under_way);
            (state.script)(&head.method, &node, at)
        };
        // A request that is dropped is not under way any more.
        let _ends = UnderWay(self);
        let index = {
            let mut state = self.state();
            state.seen.push(Seen {
                at,
                method: head.method.clone(),
                node: node.clone(),
                code: None,
                lease: lease.clone(),
            });
            state.seen.len() - 1
        };
        let (code, answer) = match fault {
            Fault::Slow(time) => {
                tokio::time::sleep(time).await;
                self.state().carry_out(&head.method, &named, head.uri.query().unwrap_or_default(), lease)
            }
            Fault::Lost => {
                self.state().carry_out(&head.method, &named, "", lease);
                std::future::pending().await
            }
            Fault::Hangs => std::future::pending().await,
            Fault::Refused(code, word, wait) => status(code, word, wait),
        };
        if let Some(seen) = self.state().seen.get_mut(index).filter(|seen| seen.at == at && seen.node == node) {
            seen.code = Some(code);
        }
        Response::builder()
            .status(StatusCode::from_u16(code).unwrap())
            .body(Body::from(answer.to_string().into_bytes()))
            .unwrap()
    }
}

struct UnderWay<'a>(&'a Api);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state().under_way -= 1;
    }
}

fn status(code: u16, word: &str, wait: u32) -> (u16, Value) {
    let details = json!({"retryAfterSeconds": wait});
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": word,
        "message": format!("the script says {word}"), "details": details,
    });
    (code, status)
}

impl State {
    fn uid(&mut self) -> Value {
        self.uids += 1;
        json!(format!("lease-{}", self.uids))
    }

    fn store(&mut self, node: &str, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        lease["metadata"]["managedFields"] = json!([{"manager": "x", "fieldsV1": {"f:spec": {"f:renewTime": {}}}}]);
        self.leases.insert(node.to_owned(), lease.clone());
        lease
    }

    fn carry_out(&mut self, method: &Method, node: &str, query: &str, lease: Value) -> (u16, Value) {
        match (method.as_str(), node) {
            ("GET", "") => (200, self.list(query)),
            ("GET", _) => match self.leases.get(node) {
                Some(lease) => (200, lease.clone()),
                None => status(404, "NotFound", 0),
            },
            ("POST", "") => self.create(lease),
            ("PUT", _) => self.update(node, lease),
            other => panic!("{other:?}"),
        }
    }

    fn create(&mut self, mut lease: Value) -> (u16, Value) {
        check(&lease);
        if lease["metadata"].get("resourceVersion").is_some() {
            return status(400, "BadRequest", 0);
        }
        let node = lease["metadata"]["name"].as_str().unwrap().to_owned();
        if self.leases.contains_key(&node) {
            return status(409, "AlreadyExists", 0);
        }
        lease["metadata"]["uid"] = self.uid();
        (201, self.store(&node, lease))
    }

    /// An update makes a Lease that is not there, unless it names a UID, which none has then.
    fn update(&mut self, node: &str, mut lease: Value) -> (u16, Value) {
        check(&lease);
        let named = lease["metadata"].get("uid").cloned();
        let Some(stored) = self.leases.get(node) else {
            if named.is_some() {
                return status(409, "Conflict", 0);
            }
            lease["metadata"]["uid"] = self.uid();
            return (201, self.store(node, lease));
        };
        if lease["metadata"].get("resourceVersion").is_none() {
            return status(422, "Invalid", 0);
        }
        let same = |key: &str| stored["metadata"][key] == lease["metadata"][key];
        if named.is_some() && !same("uid") || !same("resourceVersion") {
            return status(409, "Conflict", 0);
        }
        lease["metadata"]["uid"] = stored["metadata"]["uid"].clone();
        (200, self.store(node, lease))
    }

    /// In pages of names, by labels.
    fn list(&self, query: &str) -> Value {
        let part = |key: &str| {
            query
                .split('&')
                .filter_map(|part| part.split_once('='))
                .find(|(name, _)| *name == key)
                .map(|(_, value)| value)
        };
        let selector =
            part("labelSelector").unwrap_or_default().replace("%2F", "/").replace("%3D", "=").replace("%2C", ",");
        let wanted: Vec<(&str, &str)> = selector.split(',').filter_map(|term| term.split_once('=')).collect();
        let limit: usize = part("limit").unwrap().parse().unwrap();
        let after = part("continue").unwrap_or_default();
        let fits = |lease: &Value| wanted.iter().all(|(key, value)| lease["metadata"]["labels"][*key] == **value);
        let rest: Vec<&Value> = self
            .leases
            .iter()
            .filter(|(name, lease)| name.as_str() > after && fits(lease))
            .map(|(_, lease)| lease)
            .collect();
        let page = rest.get(..limit).unwrap_or(&rest);
        let last = page.last().filter(|_| page.len() < rest.len());
        let next = last.map(|lease| lease["metadata"]["name"].clone()).unwrap_or_default();
        json!({"kind": "LeaseList", "metadata": {"continue": next.as_str().unwrap_or_default()}, "items": page})
    }
}

/// What the API server refuses, and what no lease of ours may lack.
#[track_caller]
fn check(lease: &Value) {
    let owner = &lease["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["name"]), (&json!("Node"), &lease["metadata"]["name"]), "{lease}");
    assert!(!owner["uid"].as_str().unwrap().is_empty(), "{lease}");
    assert_eq!(lease["metadata"]["namespace"], "kube-node-lease");
    assert_eq!(lease["spec"]["holderIdentity"], lease["metadata"]["name"]);
    assert!(lease["spec"]["leaseDurationSeconds"].as_u64().unwrap() > 0);
    let time = lease["spec"]["renewTime"].as_str().unwrap();
    assert_eq!(time.len(), "2026-11-25T10:00:00.000000Z".len(), "{time}");
    assert!(time.parse::<Timestamp>().is_ok(), "{time}");
}
