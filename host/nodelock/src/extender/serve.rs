//! The pages of the extender: `/bind`, `/filter`, and two that always answer 200 (`node-lock-and-bind.md` A20).
//!
//! The answer is always 200, with an error in words, as kube-scheduler expects it; only a wrong path or method gets a
//! status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Serialize;
use topoloom_api::rules::{is_dns_label, is_dns_subdomain};
use topoloom_core::nodelock::attempt::{BindFailure, Bound};
use topoloom_core::nodelock::needs::NodeKind;
use topoloom_core::nodelock::sightings::Blocks;
use topoloom_core::nodelock::{NodeName, PodId};
use topoloom_core::seldom::Seldom;

use super::announce::Announcer;
use super::bodies::{self, Bodies};
use super::options::{ExtenderOptions, Filter};
use super::wire::{BindArgs, BindResult, FilterArgs, FilterResult, name_of, plain};
use crate::lock::{BindReport, NodeLock, Observer};
use crate::metrics::BindMetrics;
use crate::pods;
use crate::view::View;

/// Why a pod that needs a lock was bound without one, and what to do where that is wrong (decision S27).
const UNLOCKED: &str = "bound without a node lock: the node has the label topoloom.dev/virtual-cluster, so another cluster \
    lends it, and no device plugin is here that would release a lock; the pod's copy gets its devices, under a lock of its \
    own, in the cluster that lends the node. If this node is a machine of this cluster, remove that label";

/// Longest UID that is passed on.
const UID: usize = 128;

/// What the pages need.
pub struct Extender {
    /// Binds.
    pub lock: Arc<NodeLock>,
    /// What is watched.
    pub view: Arc<View>,
    /// How long, and which nodes are left out.
    pub options: ExtenderOptions,
    /// When locks expire.
    pub terms: crate::lock::Options,
    /// Events.
    pub announcer: Announcer,
    /// Counts.
    pub metrics: BindMetrics,
    /// The line about those that were turned away.
    pub crowded: Seldom,
    /// The room for requests.
    pub bodies: Bodies,
}

/// The pages.
pub fn pages(extender: Arc<Extender>) -> Router {
    Router::new()
        .route("/bind", post(bind))
        .route("/filter", post(filter))
        .route("/healthz", get(async || ()))
        .route("/readyz", get(async || ()))
        .fallback(elsewhere)
        .with_state(extender)
}

/// A slash behind a path is none.
async fn elsewhere(method: Method, uri: Uri) -> Response {
    let known = ["/bind/", "/filter/", "/healthz/", "/readyz/"];
    if !known.contains(&uri.path()) {
        return (StatusCode::NOT_FOUND, "404 page not found\n").into_response();
    }
    let status = if method == Method::GET { StatusCode::MOVED_PERMANENTLY } else { StatusCode::PERMANENT_REDIRECT };
    (status, [(header::LOCATION, uri.path().trim_end_matches('/').to_owned())]).into_response()
}

async fn bind(State(extender): State<Arc<Extender>>, body: Body) -> Response {
    let began = Instant::now();
    let error = match bodies::bind(body).await.map_err(|error| error.to_string()).and_then(|body| requested(&body)) {
        Ok((pod, node)) => extender.bind(pod, node).await.err(),
        Err(why) => Some(why),
    };
    extender.metrics.answered("bind", began.elapsed());
    answer(json(&BindResult { error: error.map(|error| plain(&error)).unwrap_or_default() }))
}

/// A body from which on its reading is not left to those that serve everybody else.
const LONG: usize = 1 << 20;

async fn filter(State(extender): State<Arc<Extender>>, headers: HeaderMap, body: Body) -> Response {
    let began = Instant::now();
    let read = match extender.bodies.filter(&headers, body).await {
        Ok(read) => read,
        Err(why) => return answer(json(&FilterResult { error: plain(&why.to_string()), ..FilterResult::default() })),
    };
    let filtering = Arc::clone(&extender);
    let filtered = move |read: bodies::Read| {
        let answered = filtering.filtered(&read.bytes).map(|bytes| read.answered(bytes))?;
        answered.or_else(|why| json(&FilterResult { error: plain(&why.to_string()), ..FilterResult::default() }))
    };
    let filtered = match read.bytes.len() {
        ..LONG => filtered(read),
        _ => match tokio::task::spawn_blocking(move || filtered(read)).await {
            Ok(filtered) => filtered,
            Err(broke) => Err(format!("internal error in the filter of topoloom (please report it): {broke}")),
        },
    };
    extender.metrics.answered("filter", began.elapsed());
    answer(filtered)
}

fn json(value: &impl Serialize) -> Result<Bytes, String> {
    serde_json::to_vec(value).map(Bytes::from).map_err(|error| error.to_string())
}

fn answer(body: Result<Bytes, String>) -> Response {
    match body {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => {
            let body = serde_json::json!({"Error": plain(&error)}).to_string();
            (StatusCode::INTERNAL_SERVER_ERROR, [(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
    }
}

/// What a Bind is about. The names become parts of paths, so each is what the API server would take for one.
fn requested(body: &[u8]) -> Result<(PodId, NodeName), String> {
    let BindArgs { pod, namespace, uid, node } = BindArgs::decode(body).map_err(|error| error.to_string())?;
    let refused = |field: &str, value: &str, wanted: &str| {
        Err(format!("{field}: {:?} must be {wanted}", value.chars().take(64).collect::<String>()))
    };
    let name = "the name of one: lower-case letters, digits, `-` and `.`, 253 at most";
    if !is_dns_subdomain(&pod) {
        return refused("PodName", &pod, name);
    }
    if !is_dns_label(&namespace) {
        return refused("PodNamespace", &namespace, "the name of one: lower-case letters, digits and `-`, 63 at most");
    }
    if uid.is_empty() || uid.len() > UID || !uid.chars().all(|c| c.is_ascii_graphic()) {
        return refused("PodUID", &uid, "the UID of the pod, 1 to 128 visible characters");
    }
    if !is_dns_subdomain(&node) {
        return refused("Node", &node, name);
    }
    Ok((PodId { namespace: namespace.into(), name: pod.into(), uid: uid.into() }, node.into()))
}

/// A failure, with all that its reader has to know.
fn why(failure: &BindFailure, report: &BindReport, pod: &PodId, node: &NodeName) -> String {
    let kept = match report.kept {
        true => "; its lock is left on the node until it is certain that the pod is not bound",
        false => "",
    };
    format!("pod {pod} is not bound to node {node}: {failure}{kept}")
}

/// A Bind under way.
struct Observed {
    extender: Arc<Extender>,
    pod: PodId,
    node: NodeName,
}

impl Observer for Observed {
    fn ended(&mut self, report: &BindReport) {
        self.extender.ended(report);
    }

    fn answered(self, report: &BindReport) {
        self.extender.report(report, &self.pod, &self.node);
    }
}

impl Extender {
    async fn bind(self: &Arc<Self>, pod: PodId, node: NodeName) -> Result<(), String> {
        self.metrics.under_way(self.lock.under_way() + 1);
        let bind = Observed { extender: Arc::clone(self), pod: pod.clone(), node: node.clone() };
        let report = self.lock.bind_observed(pod.clone(), node.clone(), self.options.patience(), bind).await;
        report.result.as_ref().map(drop).map_err(|failure| why(failure, &report, &pod, &node))
    }

    /// A Bind has ended, whether or not its caller waited for it.
    fn ended(&self, report: &BindReport) {
        // This one still counts.
        self.metrics.under_way(self.lock.under_way().saturating_sub(1));
        self.metrics.bound(report);
    }

    /// Logs how a Bind ended, and writes an Event.
    fn report(&self, report: &BindReport, pod: &PodId, node: &NodeName) {
        let uid = &*pod.uid;
        for reason in &report.took {
            tracing::warn!(%pod, uid, node = &**node, reason = reason.word(), "took over an orphaned lock: {reason}");
        }
        match &report.result {
            Ok(how) => {
                if report.node == NodeKind::Virtual && !report.keys.is_empty() {
                    tracing::info!(%pod, uid, node = &**node, ?how, waited = ?report.waited, "{UNLOCKED}");
                } else {
                    tracing::info!(%pod, uid, node = &**node, ?how, waited = ?report.waited, "bound");
                }
                // A Bind of what is bound already changes nothing (requirement R6).
                if *how == Bound::Now {
                    self.announcer.bound(pod, node);
                }
            }
            // All that wait are answered at once, and the next replica says the rest.
            Err(failure @ BindFailure::Stopping) => {
                tracing::debug!(%pod, uid, node = &**node, reason = failure.word(), "{failure}")
            }
            // The scheduler reports one that was crowded out: a line and an Event for each would make the crowd worse.
            Err(failure @ BindFailure::Crowded { .. }) => {
                tracing::debug!(%pod, uid, node = &**node, reason = failure.word(), "{failure}");
                if let Some(times) = self.crowded.due(Instant::now()) {
                    tracing::warn!(
                        %pod, uid, node = &**node, times, waiting = self.lock.waiting(),
                        "too many Binds wait, so some are refused (--extender-max-waiting-binds): {failure}"
                    );
                }
            }
            Err(failure) => {
                let why = why(failure, report, pod, node);
                tracing::warn!(%pod, uid, node = &**node, reason = failure.word(), kept = report.kept, "{why}");
                // There is no pod that an Event could be about (A16, step 1).
                if !matches!(failure, BindFailure::PodGone | BindFailure::PodReplaced(_)) {
                    self.announcer.failed(pod, &why);
                }
            }
        }
    }

    /// The answer to the body of a filter.
    fn filtered(&self, body: &[u8]) -> Result<Vec<u8>, String> {
        let args = FilterArgs::decode(body).map_err(|error| error.to_string());
        let result = args.and_then(|args| self.filter(args));
        let result = result.unwrap_or_else(|why| FilterResult { error: plain(&why), ..FilterResult::default() });
        serde_json::to_vec(&result).map_err(|error| error.to_string())
    }

    fn filter<'a>(&self, args: FilterArgs<'a>) -> Result<FilterResult<'a>, String> {
        let pod = args.pod.as_deref().ok_or("Pod: is missing")?;
        if args.nodes.is_none() && args.names.is_none() {
            return Err("one of Nodes and NodeNames is required".to_owned());
        }
        let needs = pods::of(pod, self.view.backends()).map(|seen| (seen.pod.key, seen.keys));
        let (Some((asker, keys)), true) = (needs, self.options.filter != Filter::Off) else {
            return Ok(FilterResult { nodes: args.nodes, node_names: args.names, ..FilterResult::default() });
        };
        let mut failed = BTreeMap::new();
        let by = if self.options.filter == Filter::Stuck { Blocks::Stuck } else { Blocks::Held };
        let mut fits = |name: &str| match self.view.blocked(name, &keys, &self.terms, by) {
            None => true,
            // What the pod holds itself it takes over with its next attempt (decision N4).
            Some(held) if held.holder.as_ref().is_some_and(|holder| holder.may_be(&asker)) => true,
            Some(held) => {
                let holder = held.holder.map(|pod| format!(" by {pod}")).unwrap_or_default();
                failed.insert(name.to_owned(), plain(&format!("node {name} is locked{holder}: {}", held.why)));
                false
            }
        };
        let nodes = args.nodes.map(|mut list| {
            list.items.retain(|node| fits(&name_of(node)));
            list
        });
        let names = args.names.map(|names| names.into_iter().filter(|name| fits(&name.0)).collect::<Vec<_>>());
        // None that fits is `null`, as a list in Go that nothing was added to.
        let names = names.filter(|names| !names.is_empty());
        self.metrics.filtered(failed.len());
        let failed_nodes = (!failed.is_empty()).then_some(failed);
        Ok(FilterResult { nodes, node_names: names, failed_nodes, ..FilterResult::default() })
    }
}
