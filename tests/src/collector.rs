//! A collector of traces: an HTTP server on this machine that decodes requests as OTLP, and keeps them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use topoloom::serving::Server;

const HOST: &str = "127.0.0.1";

/// How long spans may take to arrive.
const PATIENCE: Duration = Duration::from_secs(60);

/// An answer: its status and its body.
pub type Answer = (StatusCode, Vec<u8>);

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its content.
    pub body: ExportTraceServiceRequest,
}

impl Request {
    /// Its spans.
    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        let scopes = self.body.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| &scope.spans)
    }

    /// An attribute of the sender, as text.
    #[must_use]
    pub fn sender(&self, key: &str) -> Option<String> {
        let resource = self.body.resource_spans.first()?.resource.as_ref()?;
        resource
            .attributes
            .iter()
            .find(|pair| pair.key == key)
            .and_then(|pair| text(pair.value.as_ref()?.value.as_ref()?))
    }
}

/// An attribute of a span, as text.
#[must_use]
pub fn attribute(span: &Span, key: &str) -> Option<String> {
    span.attributes.iter().find(|pair| pair.key == key).and_then(|pair| text(pair.value.as_ref()?.value.as_ref()?))
}

fn text(value: &any_value::Value) -> Option<String> {
    match value {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        any_value::Value::BoolValue(word) => Some(word.to_string()),
        _ => None,
    }
}

#[derive(Clone)]
struct Kept {
    requests: watch::Sender<Vec<Request>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
}

async fn take(State(kept): State<Kept>, headers: HeaderMap, body: Bytes) -> Answer {
    let Ok(body) = ExportTraceServiceRequest::decode(body) else { return (StatusCode::BAD_REQUEST, Vec::new()) };
    let answer = kept.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    kept.requests.send_modify(|requests| requests.push(Request { headers, body }));
    answer.unwrap_or((StatusCode::OK, Vec::new()))
}

/// A collector that listens until it is dropped.
pub struct Collector {
    kept: Kept,
    url: String,
    _server: JoinSet<()>,
}

impl Collector {
    /// Starts one that gives these answers first, and then answers 200.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> Result<Self> {
        Self::listen(answers, None).await
    }

    /// The same over TLS; returns its certificate in PEM, too.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start_tls(answers: impl IntoIterator<Item = Answer>) -> Result<(Self, String)> {
        let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed([HOST.to_owned()])?;
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let config = config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key)?;
        Ok((Self::listen(answers, Some(Arc::new(config))).await?, cert.pem()))
    }

    async fn listen(answers: impl IntoIterator<Item = Answer>, tls: Option<Arc<ServerConfig>>) -> Result<Self> {
        let kept =
            Kept { requests: watch::Sender::default(), answers: Arc::new(Mutex::new(answers.into_iter().collect())) };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let listening = Server::listen("collector", format!("{HOST}:0").parse()?, tls).await?;
        let url = format!("{scheme}://{}", listening.address().context("it has an address")?);
        let router = Router::new().route("/v1/traces", post(take)).with_state(kept.clone());
        let mut server = JoinSet::new();
        server.spawn(listening.serve(router, CancellationToken::new()));
        Ok(Self { kept, url, _server: server })
    }

    /// Its URL, without a path.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.kept.requests.borrow().clone()
    }

    /// Waits until the requests are enough.
    ///
    /// # Errors
    /// When they are not enough after some time.
    pub async fn until(&self, mut enough: impl FnMut(&[Request]) -> bool) -> Result<Vec<Request>> {
        let mut told = self.kept.requests.subscribe();
        let came = tokio::time::timeout(PATIENCE, told.wait_for(|requests| enough(requests))).await;
        let came =
            came.with_context(|| format!("the spans that are waited for did not come: {:?}", self.requests()))??;
        Ok(came.clone())
    }
}
