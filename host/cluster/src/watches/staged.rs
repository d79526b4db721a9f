//! For tests of what watches, also of other crates (feature `staged`): an API server that allows nothing, in the words of
//! a real one.

#![allow(clippy::unwrap_used, reason = "a test stops where an answer cannot be made")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::client::Body;
use serde_json::json;

/// Its client, and how often it was asked.
#[must_use]
pub fn forbidding() -> (kube::Client, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let serve = move |request: Request<Body>| {
        count.fetch_add(1, Ordering::SeqCst);
        let resource = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let query = request.uri().query().unwrap_or_default();
        let named = query.split_once("fieldSelector=metadata.name%3D").map(|(_, rest)| rest.split('&').next());
        let object = named.flatten().map_or_else(String::new, |name| format!(" \"{name}\""));
        let message = format!(
            "{resource}{object} is forbidden: User \"system:serviceaccount:t:t\" cannot list resource \"{resource}\" in API group \"\" at the cluster scope"
        );
        let body =
            json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message});
        let answer = Response::builder().status(403).body(Body::from(body.to_string().into_bytes())).unwrap();
        async move { Ok::<_, Infallible>(answer) }
    };
    (kube::Client::new(tower::service_fn(serve), "default"), asked)
}
