//! The admin server: `/healthz`, `/readyz`, `/metrics`, and what each source is doing in full.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;

use super::health::Health;
use crate::discovery::report::Reports;

/// What the server shows.
pub struct Shown {
    /// The checks.
    pub health: Health,
    /// The metrics.
    pub registry: Registry,
    /// What each source is doing.
    pub reports: Arc<Reports>,
}

/// Why there is no admin server.
#[derive(Debug, thiserror::Error)]
#[error("--admin-address {address}: cannot listen there: {source}")]
pub struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

/// Listens. The address may carry port 0: the listener knows the real one.
///
/// # Errors
/// Names the flag and the address.
pub async fn listen(address: SocketAddr) -> Result<tokio::net::TcpListener, ListenError> {
    tokio::net::TcpListener::bind(address).await.map_err(|source| ListenError { address, source })
}

/// Serves until dropped.
///
/// # Errors
/// Only if accepting connections fails for good.
pub async fn serve(listener: tokio::net::TcpListener, shown: Shown) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/sources", get(sources))
        .route("/sources/{source}", get(source))
        .with_state(Arc::new(shown));
    axum::serve(listener, routes).await
}

async fn readyz(State(shown): State<Arc<Shown>>) -> Response {
    let (ready, report) = shown.health.report();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, report).into_response()
}

async fn metrics(State(shown): State<Arc<Shown>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &shown.registry) {
        Ok(()) => ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
            .into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn sources(State(shown): State<Arc<Shown>>) -> Response {
    axum::Json(shown.reports.all()).into_response()
}

async fn source(State(shown): State<Arc<Shown>>, Path(source): Path<String>) -> Response {
    match shown.reports.get(&source) {
        Some(report) => axum::Json(report).into_response(),
        None => (StatusCode::NOT_FOUND, format!("there is no source {source:?}\n")).into_response(),
    }
}
