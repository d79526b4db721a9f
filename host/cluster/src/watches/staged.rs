//! For tests of what watches, also of other crates (feature `staged`): API servers that allow nothing, in the words of a
//! real one, and that have many nodes.

#![allow(clippy::unwrap_used, reason = "a test stops where an answer cannot be made")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::Frame;
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

/// An API server with so many nodes, `n0` and so on, whose watches stay silent; and how many lists it was asked for.
#[must_use]
pub fn nodes(count: usize) -> (kube::Client, Arc<AtomicUsize>) {
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lists);
    let serve = move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let number = |key: &str| {
            let value = query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
            value.and_then(|value| value.parse::<usize>().ok())
        };
        let body = if query.contains("watch=") {
            Either::Right(StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>()))
        } else {
            counted.fetch_add(1, Ordering::SeqCst);
            let (from, limit) = (number("continue").unwrap_or(0), number("limit").unwrap_or(count));
            let to = (from + limit).min(count);
            let node = |number: usize| json!({"metadata": {"name": format!("n{number}"), "uid": number.to_string(), "resourceVersion": "5", "labels": {"rack": "r"}}});
            let items: Vec<_> = (from..to).map(node).collect();
            let token = if to < count { to.to_string() } else { String::new() };
            let list = json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": {"resourceVersion": "7", "continue": token}, "items": items,
            });
            Either::Left(Full::<Bytes>::from(list.to_string()))
        };
        async move { Ok::<_, Infallible>(Response::new(body)) }
    };
    (kube::Client::new(tower::service_fn(serve), "default"), lists)
}
