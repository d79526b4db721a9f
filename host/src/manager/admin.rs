//! What the servers of the process answer.
//!
//! | server | pages |
//! |---|---|
//! | health | `/healthz`, `/healthz/ping`, `/readyz` |
//! | metrics | `/metrics` |
//! | admin, loopback only | all of them, `/sources`, `/debug/dump`, `/debug/log`, and with `--profiling` `/debug/profile` |

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use topoloom_core::names::SourceName;

use super::debug::Debug;
use super::health::Health;
use super::options::Profiling;
use super::profile::{self, ProfileError};
use crate::discovery::report::Reports;
use crate::log;

/// The content type of OpenMetrics text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// A filter of the log is shorter than this, in bytes.
const FILTER: usize = 4096;

/// `/healthz` and `/readyz`.
pub fn health(health: &Health) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/healthz/ping", get(healthz))
        .route("/readyz", get(readyz))
        .with_state(health.clone())
}

/// `/metrics`.
pub fn metrics(registry: Arc<Registry>) -> Router {
    Router::new().route("/metrics", get(exposition)).with_state(registry)
}

/// `/sources`: what each source is doing in full.
pub fn sources(reports: Arc<Reports>) -> Router {
    Router::new().route("/sources", get(all)).route("/sources/{source}", get(one)).with_state(reports)
}

/// `/debug`: for people on the machine.
pub fn debug(debug: Debug, control: log::Control, profiling: Profiling) -> Router {
    let dump = Router::new()
        .route("/debug/dump", get(async |State(debug): State<Debug>| axum::Json(debug.dump())))
        .with_state(debug);
    let log = Router::new().route("/debug/log", get(filter).put(set_filter)).with_state(control);
    dump.merge(log).merge(profiles(profiling))
}

fn profiles(profiling: Profiling) -> Router {
    let answer = match profiling {
        Profiling::On => get(profile),
        Profiling::Off => {
            get(async || (StatusCode::NOT_FOUND, "this host serves no profiles: start it with --profiling\n"))
        }
    };
    Router::new().route("/debug/profile", answer)
}

/// These pages, for requests by a loopback name or address. A page in a browser on the same machine can resolve any
/// other name to 127.0.0.1, and could then read the answer.
pub fn loopback_only(pages: Router) -> Router {
    pages.layer(middleware::from_fn(async |request: Request, next: Next| {
        if is_for_loopback(&request) {
            return next.run(request).await;
        }
        let text = "this server accepts only the host names localhost, 127.0.0.1 and [::1]\n";
        (StatusCode::MISDIRECTED_REQUEST, text).into_response()
    }))
}

fn is_for_loopback(request: &Request) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let named = request.uri().authority().map(|authority| authority.as_str());
    host.to_str().is_ok_and(is_loopback) && named.is_none_or(is_loopback)
}

/// Whether `NAME` or `NAME:PORT` is this machine, by a name that no other machine can have.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<axum::http::uri::Authority>() else { return false };
    let name = authority.host();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    !host.contains('@')
        && (name.eq_ignore_ascii_case("localhost")
            || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback()))
}

async fn healthz(State(health): State<Health>) -> Response {
    let (alive, text) = health.alive();
    let status = if alive { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
    (status, text).into_response()
}

async fn readyz(State(health): State<Health>) -> Response {
    let (ready, report) = health.report();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, report).into_response()
}

async fn exposition(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn all(State(reports): State<Arc<Reports>>) -> Response {
    axum::Json(reports.all()).into_response()
}

async fn one(State(reports): State<Arc<Reports>>, Path(source): Path<String>) -> Response {
    match SourceName::parse(&source).ok().and_then(|source| reports.get(&source)) {
        Some(report) => axum::Json(report).into_response(),
        None => (StatusCode::NOT_FOUND, format!("there is no source {source:?}\n")).into_response(),
    }
}

async fn filter(State(control): State<log::Control>) -> String {
    format!("{}\n", control.filter())
}

async fn set_filter(State(control): State<log::Control>, body: String) -> Response {
    if body.len() > FILTER {
        return (StatusCode::PAYLOAD_TOO_LARGE, format!("a filter has at most {FILTER} bytes\n")).into_response();
    }
    match control.set(body.trim()) {
        Ok(()) => format!("{}\n", control.filter()).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

async fn profile(uri: Uri) -> Response {
    let seconds = match uri.query().map(|query| query.strip_prefix("seconds=").and_then(|number| number.parse().ok())) {
        None => profile::USUAL.as_secs(),
        Some(Some(seconds)) => seconds,
        Some(None) => return (StatusCode::BAD_REQUEST, "the only parameter is ?seconds=N\n").into_response(),
    };
    match profile::take(seconds).await {
        Ok(stacks) => stacks.into_response(),
        Err(error) => {
            let status = match error {
                ProfileError::Length(_) => StatusCode::BAD_REQUEST,
                ProfileError::Busy => StatusCode::CONFLICT,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            };
            (status, format!("{error}\n")).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use tower::ServiceExt;

    async fn status(host: &[&str], uri: &str) -> StatusCode {
        let pages = loopback_only(Router::new().route("/debug/dump", get(async || "state")));
        let request = host.iter().fold(Request::get(uri), |request, host| request.header(header::HOST, *host));
        pages.oneshot(request.body(Body::empty()).unwrap()).await.unwrap().status()
    }

    #[tokio::test]
    async fn a_foreign_name_that_resolves_to_this_machine_gets_no_answer() {
        for good in ["127.0.0.1:8082", "127.8.8.8", "localhost:8082", "LOCALHOST", "[::1]:8082", "[::ffff:127.0.0.1]"] {
            assert_eq!(status(&[good], "/debug/dump").await, StatusCode::OK, "{good}");
        }
        for bad in
            ["evil.example:8082", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "x@127.0.0.1", ""]
        {
            assert_eq!(status(&[bad], "/debug/dump").await, StatusCode::MISDIRECTED_REQUEST, "{bad}");
        }
        assert_eq!(status(&[], "/debug/dump").await, StatusCode::MISDIRECTED_REQUEST);
        let two = ["127.0.0.1", "evil.example"];
        assert_eq!(status(&two, "/debug/dump").await, StatusCode::MISDIRECTED_REQUEST);
        let absolute = status(&["127.0.0.1"], "http://evil.example/debug/dump").await;
        assert_eq!(absolute, StatusCode::MISDIRECTED_REQUEST);
    }

    #[tokio::test]
    async fn there_are_profiles_where_they_are_asked_for() {
        let ask = async |profiling, uri: &str| {
            let answer = profiles(profiling).oneshot(Request::get(uri).body(Body::empty()).unwrap()).await.unwrap();
            let status = answer.status();
            let body = axum::body::to_bytes(answer.into_body(), 4096).await.unwrap();
            (status, String::from_utf8(body.to_vec()).unwrap())
        };
        let (status, text) = ask(Profiling::Off, "/debug/profile").await;
        assert_eq!((status, text.contains("--profiling")), (StatusCode::NOT_FOUND, true), "{text}");
        for (query, said) in [("seconds=0", "1 to 60"), ("seconds=61", "and not 61"), ("second=5", "?seconds=N")] {
            let (status, text) = ask(Profiling::On, &format!("/debug/profile?{query}")).await;
            assert_eq!((status, text.contains(said)), (StatusCode::BAD_REQUEST, true), "{query}: {text}");
        }
    }
}
