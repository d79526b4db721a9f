//! What the tests of the admission policies share: a cluster with the chart, and requests that are sent to get the
//! answer of the API server.

use std::time::Duration;

use anyhow::Result;
use http::Request;
use kube::Client;
use serde_json::Value;
use topoloom_tests::chart::{self, Installed};
use topoloom_tests::controlplane::eventually;
use topoloom_tests::scene::Scene;

const SOON: Duration = Duration::from_secs(30);

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// The API server accepts it.
    Accepted,
    /// The resource definition refuses it, before any policy does.
    Malformed,
    /// A policy refuses it, with these words.
    Denied(&'static str),
}

/// A request, as kubectl sends it: it is sent hundreds of times, and kubectl would be started for each.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) verb: &'static str,
    pub(super) path: String,
    body: Option<Value>,
    headers: Vec<(&'static str, String)>,
}

impl Call {
    fn new(verb: &'static str, path: impl Into<String>, body: Option<Value>) -> Self {
        let media = if verb == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        Self { verb, path: path.into(), body, headers: vec![("content-type", media.to_owned())] }
    }

    /// As `--as` sends it.
    pub(super) fn by(mut self, user: &str) -> Self {
        self.headers.push(("impersonate-user", user.to_owned()));
        self
    }

    /// As `--as-group` sends it beside `--as`.
    pub(super) fn in_group(mut self, group: &str) -> Self {
        self.headers.push(("impersonate-group", group.to_owned()));
        self
    }

    /// As `--dry-run=server` sends it: the API server stores nothing.
    pub(super) fn dry(mut self) -> Self {
        self.path.push_str("?dryRun=All");
        self
    }

    pub(super) async fn send(&self, client: &Client) -> Result<Value, kube::Error> {
        let body = self.body.as_ref().map(Value::to_string).unwrap_or_default().into_bytes();
        let mut request = Request::builder().method(self.verb).uri(self.path.trim_end_matches('/'));
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        client.request(request.body(body).map_err(kube::Error::HttpError)?).await
    }
}

pub(super) fn get(path: impl Into<String>) -> Call {
    Call::new("GET", path, None)
}

pub(super) fn post(path: impl Into<String>, body: Value) -> Call {
    Call::new("POST", path, Some(body))
}

pub(super) fn put(path: impl Into<String>, body: Value) -> Call {
    Call::new("PUT", path, Some(body))
}

/// A merge patch.
pub(super) fn patch(path: impl Into<String>, body: Value) -> Call {
    Call::new("PATCH", path, Some(body))
}

pub(super) fn delete(path: impl Into<String>) -> Call {
    Call::new("DELETE", path, None)
}

/// A cluster with the chart in it.
pub(super) async fn installed(values: Value) -> Result<(Scene, Installed)> {
    let scene = Scene::new().await?;
    let installed = chart::install(&scene, values).await?;
    Ok((scene, installed))
}

/// Lets this user do everything, as far as roles decide it.
pub(super) async fn allow_everything(scene: &Scene, user: &str) -> Result<()> {
    let binding = serde_json::json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("all-{}", user.replace(':', "-"))},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    scene.plane.apply(&[binding]).await
}

/// Sends a request and compares the result. `name` is the row of the table.
pub(super) async fn check(scene: &Scene, name: &str, call: Call, fate: Fate) {
    let said = call.send(&scene.plane.client()).await;
    assert!(is(fate, &said), "{name}: wanted {fate:?}, and {call:?} gave {said:?}");
}

/// Waits until a request has this result: the API server enforces a policy a moment after it has stored it.
pub(super) async fn enforced(scene: &Scene, call: Call, fate: Fate) {
    eventually("the policy is enforced", SOON, async || {
        let said = call.send(&scene.plane.client()).await;
        if is(fate, &said) { Ok(()) } else { Err(format!("{said:?}")) }
    })
    .await;
}

fn is(fate: Fate, said: &Result<Value, kube::Error>) -> bool {
    const POLICY: &str = "ValidatingAdmissionPolicy";
    match (fate, said) {
        (Fate::Accepted, Ok(_)) => true,
        (Fate::Malformed, Err(kube::Error::Api(said))) => {
            said.message.contains("is invalid") && !said.message.contains(POLICY)
        }
        (Fate::Denied(words), Err(kube::Error::Api(said))) => {
            said.message.contains(POLICY) && said.message.contains(words)
        }
        _ => false,
    }
}
