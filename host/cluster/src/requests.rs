//! Requests to the API server, counted by verb, resource and code.
//!
//! The labels are closed sets: a resource that this program does not use counts as `other`, a missing answer as
//! `error`.

use std::future::Future;
use std::task::{Context, Poll};
use std::time::Instant;

use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tower::{Layer, Service};

/// From an answer out of the watch cache to one that waited for etcd. Watches count until their first byte.
const BUCKETS: [f64; 9] = [0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// The resources that we use, with the subresources that we write, or pass streams of on.
const RESOURCES: [&str; 29] = [
    "clusterbindings",
    "clusterbindings/status",
    "configmaps",
    "csinodes",
    "customresourcedefinitions",
    "discoverysources",
    "discoverysources/status",
    "events",
    "hypernodes",
    "hypernodes/status",
    "leases",
    "namespaces",
    "nodes",
    "nodes/status",
    "pods",
    "pods/attach",
    "pods/binding",
    "pods/eviction",
    "pods/exec",
    "pods/log",
    "pods/portforward",
    "pods/status",
    "resourceleasingpolicies",
    "resourceleasingpolicies/status",
    "secrets",
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "subjectaccessreviews",
    "validatingwebhookconfigurations",
];

/// What we have no business with.
const OTHER: &str = "other";

/// Counts requests.
#[derive(Debug, Clone)]
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<KindLabels, Histogram>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: &'static str,
    resource: &'static str,
    code: Code,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    verb: &'static str,
    resource: &'static str,
}

/// The status of an answer, if there was one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Code(Option<StatusCode>);

impl EncodeLabelValue for Code {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> std::fmt::Result {
        self.0.as_ref().map_or("error", StatusCode::as_str).encode(encoder)
    }
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics =
            Self { requests: Family::default(), seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)) };
        registry.register(
            "api_requests",
            "Requests to the API server by verb, resource and response code",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "api_request_duration",
            "Time until the response headers of the API server",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        metrics
    }

    /// One series of each possible kind; `any` is the value of labels without a closed set.
    pub fn examples(&self, any: &'static str) {
        for resource in RESOURCES.into_iter().chain([OTHER]) {
            for code in [None, Some(StatusCode::OK)] {
                self.count((any, resource), code, Instant::now());
            }
        }
    }

    fn count(&self, (verb, resource): (&'static str, &'static str), code: Option<StatusCode>, since: Instant) {
        self.requests.get_or_create(&RequestLabels { verb, resource, code: Code(code) }).inc();
        self.seconds.get_or_create(&KindLabels { verb, resource }).observe(since.elapsed().as_secs_f64());
    }
}

/// Counts what goes through a client.
#[derive(Debug, Clone)]
pub struct Counted(pub Metrics);

impl<S> Layer<S> for Counted {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting { metrics: self.0.clone(), inner }
    }
}

/// A client whose requests are counted.
#[derive(Debug, Clone)]
pub struct Counting<S> {
    metrics: Metrics,
    inner: S,
}

impl<S, A, B> Service<Request<A>> for Counting<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Future<Output = Result<Response<B>, S::Error>> + Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<B>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let metrics = self.metrics.clone();
        let kind = kind(request.method(), request.uri().path(), request.uri().query().unwrap_or_default());
        let since = Instant::now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            metrics.count(kind, answer.as_ref().ok().map(Response::status), since);
            answer
        })
    }
}

/// Verb and resource of a request, as RBAC names them.
fn kind(method: &Method, path: &str, query: &str) -> (&'static str, &'static str) {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let skipped = match parts.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return (verb(method, true, ""), OTHER),
    };
    let parts: Vec<&str> = parts.skip(skipped).collect();
    let (resource, rest) = match parts.as_slice() {
        ["namespaces", _, resource, rest @ ..] | [resource, rest @ ..] => (*resource, rest),
        [] => return (verb(method, true, ""), OTHER),
    };
    let known = |name: &str| RESOURCES.into_iter().find(|known| *known == name);
    let resource = match rest.get(1) {
        Some(sub) => known(&format!("{resource}/{sub}")),
        None => known(resource),
    };
    (verb(method, !rest.is_empty(), query), resource.unwrap_or(OTHER))
}

fn verb(method: &Method, named: bool, query: &str) -> &'static str {
    let watches = query.split('&').any(|part| matches!(part, "watch=true" | "watch=1" | "watch"));
    match (method.as_str(), named) {
        ("GET", _) if watches => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, path: &str, verb: &str, resource: &str) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(kind(&method, path, query), (verb, resource), "{method} {path}");
    }

    #[test]
    fn requests_are_named_as_rbac_names_them() {
        check("GET", "/api/v1/nodes?limit=500", "list", "nodes");
        check("GET", "/api/v1/nodes?allowWatchBookmarks=true&watch=true", "watch", "nodes");
        check("GET", "/api/v1/nodes/n1", "get", "nodes");
        check("PATCH", "/api/v1/nodes/n1?fieldManager=topoloom", "patch", "nodes");
        check("GET", "/api/v1/namespaces/a/configmaps?fieldSelector=x", "list", "configmaps");
        check("POST", "/apis/coordination.k8s.io/v1/namespaces/a/leases", "create", "leases");
        check("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", "update", "leases");
        check("PATCH", "/apis/topology.volcano.sh/v1alpha1/hypernodes/h/status", "patch", "hypernodes/status");
        check("DELETE", "/apis/topology.volcano.sh/v1alpha1/hypernodes/h", "delete", "hypernodes");
        check("POST", "/api/v1/namespaces/a/pods/p/binding", "create", "pods/binding");
        check("PATCH", "/apis/topoloom.dev/v1alpha1/clusterbindings/b/status", "patch", "clusterbindings/status");
        check("PATCH", "/api/v1/nodes/n1/status", "patch", "nodes/status");
        check("PATCH", "/api/v1/namespaces/a/pods/p/status", "patch", "pods/status");
        check("POST", "/api/v1/namespaces/a/pods/p/eviction", "create", "pods/eviction");
        check("GET", "/api/v1/namespaces/a/pods/p/log?follow=true", "get", "pods/log");
        check("POST", "/api/v1/namespaces/a/pods/p/exec?command=sh", "create", "pods/exec");
        check("POST", "/api/v1/namespaces/a/pods/p/attach", "create", "pods/attach");
        check("POST", "/api/v1/namespaces/a/pods/p/portforward", "create", "pods/portforward");
        check("GET", "/api/v1/namespaces/kube-system", "get", "namespaces");
        check("GET", "/readyz", "get", "other");
        check("GET", "/apis/example.com/v1/secretthings/x", "get", "other");
        check("GET", "/version", "get", "other");
        check("GET", "/api", "get", "other");
        check("BREW", "/api/v1/nodes", "other", "nodes");
    }
}
