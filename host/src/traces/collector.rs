//! One collector, and one request to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioTimer;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use prost::Message;
use rustls::ClientConfig;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Settings;
use crate::cluster::client;

/// How long a request may take up to the head of its answer, its connection included; and the answer after that.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection that nothing is sent over for so long is closed.
const IDLE: Duration = Duration::from_secs(30);

/// The longest answer that is read: it says how many spans were not taken, and why.
const ANSWER: usize = 64 << 10;

/// Why a collector did not take a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotTaken {
    /// It may take the same request later.
    #[error("{0}")]
    Yet(String),
    /// It will not take it.
    #[error("{0}")]
    Ever(String),
}

/// The tasks of connections: they end with their sender, also where the other side reads no more.
#[derive(Debug, Clone, Default)]
struct Connections(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Connections {
    fn execute(&self, task: F) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

/// A collector.
#[derive(Debug)]
pub(super) struct Collector {
    connections: Connections,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    endpoint: Uri,
    headers: HeaderMap,
}

impl Collector {
    pub(super) fn new(settings: Settings) -> Result<Self, rustls::Error> {
        let Settings { endpoint, headers, authorities } = settings;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
        let checked = authorities.verifier(&provider);
        let tls = tls.dangerous().with_custom_certificate_verifier(checked).with_no_client_auth();
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
        let connections = Connections::default();
        let client = Client::builder(connections.clone())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1)
            .build(connector);
        Ok(Self { connections, client, endpoint, headers })
    }

    /// Sends spans, and answers how many of them it did not take.
    pub(super) async fn take(&self, spans: &ExportTraceServiceRequest) -> Result<u64, NotTaken> {
        let mut request = Request::new(Full::from(spans.encode_to_vec()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.clone();
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let answer = match timeout(PATIENCE, self.client.request(request)).await {
            Ok(answer) => answer.map_err(|error| NotTaken::Yet(client::chain(&error)))?,
            Err(_elapsed) => return Err(NotTaken::Yet(format!("no answer within {PATIENCE:?}"))),
        };
        let status = answer.status();
        if !status.is_success() {
            let why = format!("it answers {status}");
            return Err(if is_passing(status) { NotTaken::Yet(why) } else { NotTaken::Ever(why) });
        }
        // They are taken; what it adds to that counts if it can be read.
        let body = timeout(PATIENCE, Limited::new(answer.into_body(), ANSWER).collect()).await;
        let response =
            body.ok().and_then(Result::ok).and_then(|body| ExportTraceServiceResponse::decode(body.to_bytes()).ok());
        let rejected =
            response.and_then(|response| response.partial_success).map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(rejected).unwrap_or(0))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // A connection may hold on to this set.
        self.connections.0.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

/// What the OTLP specification calls retryable.
fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}
