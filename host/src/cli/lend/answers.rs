//! An API server that answers some paths, for the tests of commands that only read.

use std::collections::BTreeMap;
use std::convert::Infallible;

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

/// What the path of an answer ends with that is for lists by labels alone.
pub(super) const BY_LABELS: &str = "?labelSelector";

/// A client of it. Every other object is not there, and none of our definitions whose list is not among the answers.
pub(super) fn client(answers: &[(&str, Value)]) -> kube::Client {
    let answers: BTreeMap<String, String> =
        answers.iter().map(|(path, body)| ((*path).to_owned(), body.to_string())).collect();
    let serve = move |request: Request<Body>| {
        let path = request.uri().path();
        let is_by_labels = request.uri().query().is_some_and(|query| query.contains("labelSelector"));
        let by_labels = is_by_labels.then(|| answers.get(&format!("{path}{BY_LABELS}"))).flatten();
        let (code, body) = match by_labels.or_else(|| answers.get(path)) {
            Some(body) => (200, body.clone()),
            None if path.starts_with("/apis/topoloom.dev/") => (404, "404 page not found".to_owned()),
            None => {
                let status = json!({
                    "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "not found",
                });
                (404, status.to_string())
            }
        };
        let answer = Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap();
        async move { Ok::<_, Infallible>(answer) }
    };
    kube::Client::new(tower::service_fn(serve), "default")
}

/// A list of objects.
pub(super) fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})
}
