//! One request to a registry, or to where it points: dialled by judged addresses, redirected without credentials, read within
//! bounds.
//!
//! A redirect of a read is followed, up to a few, and keeps the credentials only on the same scheme, host and port; a redirect
//! of anything else is an error, since the credentials would follow. No redirect leaves TLS.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tokio::time::Instant;

use super::error::{OciError, Trouble, asked, code};
use super::login::{Login, Look, Trusted, authorities};
use super::place::{is_loopback, is_same, target};
use crate::authorities::Authorities;
use crate::endpoints;
use crate::endpoints::address::AddressPolicy;
use crate::endpoints::api_server::ApiServer;
use crate::endpoints::body::{Body, BodyBounds, HasBody, Packing};
use crate::endpoints::credential::Credential;
use crate::endpoints::dial::{Dialler, Purpose, Resolve, Settings};

/// Until a connection is established, TLS included.
const CONNECT: Duration = Duration::from_secs(10);
/// Until the head of an answer, its connection included: a registry may fetch what it is asked for from another one.
const HEAD: Duration = Duration::from_secs(40);
/// Until the last byte of a manifest, a token or an error.
pub(super) const SHORT: Duration = Duration::from_secs(30);
/// Until the last byte of a layer: the largest one over a line of a megabit per second.
pub(super) const LONG: Duration = Duration::from_secs(300);
/// How much of a registry's error is read, in bytes.
const ERROR: u64 = 16 << 10;
/// Redirects that are followed.
const REDIRECTS: usize = 3;
/// Idle connections that are kept, and for how long: the requests of one look follow each other.
const IDLE: usize = 1;
const IDLE_FOR: Duration = Duration::from_secs(30);
/// The longest time after which a registry may want to be asked again, in seconds.
const LATER: u64 = 3600;

/// A client with its connections.
pub(super) type Http = legacy::Client<Dialler, Full<Bytes>>;

/// Whether requests are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// They are.
    Https,
    /// They are not: only for a registry of the same machine, at a desk.
    Http,
}

impl Scheme {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }

    /// Whether a request may go there.
    pub(super) fn allows(self, uri: &Uri) -> bool {
        uri.scheme_str() == Some("https") || (self == Self::Http && is_loopback(uri))
    }
}

/// How a registry is reached, and with what.
pub struct Access {
    /// Whether requests are encrypted.
    pub scheme: Scheme,
    /// The credentials.
    pub login: Login,
    /// The authorities.
    pub trusted: Trusted,
    /// Which addresses may be dialled.
    pub policy: Arc<AddressPolicy>,
    /// Where the API server is, which no registry is by accident.
    pub api_server: Arc<ApiServer>,
    /// How names are resolved.
    pub resolve: Resolve,
}

/// What a request wants to do with a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Pull,
    Push,
}

impl Action {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
        }
    }
}

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) action: Action,
}

impl Ask {
    /// Without a body, to read something.
    pub(super) fn read(method: Method, uri: Uri) -> Self {
        Self { method, uri, headers: HeaderMap::new(), body: Bytes::new(), action: Action::Pull }
    }

    /// The same to write something.
    pub(super) fn write(method: Method, uri: Uri, body: Bytes) -> Self {
        Self { body, action: Action::Push, ..Self::read(method, uri) }
    }

    pub(super) fn header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// Whether it changes nothing, so that another place may answer it.
    fn only_asks(&self) -> bool {
        matches!(self.method, Method::GET | Method::HEAD)
    }
}

/// What a request proves itself with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Carried {
    pub(super) header: HeaderValue,
    /// Of whom it is, for messages.
    pub(super) with: String,
}

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    response: Response<Incoming>,
    method: Method,
    uri: Uri,
    with: Option<String>,
    /// Another place than that of the reference has answered.
    is_elsewhere: bool,
}

impl Answer {
    pub(super) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Whether another place than that of the request has answered.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.is_elsewhere
    }

    /// Whether the registry wants to know who asks. What another place wants is not given.
    pub(super) fn asks_who(&self) -> bool {
        self.status() == 401 && !self.is_elsewhere
    }

    /// The same, asked with these credentials.
    pub(super) fn with(&mut self, with: &str) {
        self.with = Some(with.to_owned());
    }

    /// A header as text.
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// An error about it.
    pub(super) fn error(&self, trouble: Trouble, came: impl Into<String>) -> OciError {
        let with = self.with.clone().filter(|_| !self.is_elsewhere);
        OciError::new(trouble, came).asked(&self.method, &self.uri).with(with)
    }

    /// The body, bounded while it is read.
    pub(super) async fn body(self, most: u64, limit: Duration) -> Result<Vec<u8>, Ended> {
        let error = self.error(Trouble::Away, String::new());
        let too_large = || Ended::TooLarge(error.clone().came(format!("the answer has more than {most} bytes")));
        let ended = |why: endpoints::Error| match why {
            endpoints::Error::TooLarge(_) => too_large(),
            // How far it came differs each time, and a condition that differs is written again.
            endpoints::Error::Protocol(why) => {
                Ended::Broken(error.clone().came(why.split(" after ").next().unwrap_or_default()))
            }
            why => Ended::Broken(error.clone().came(why.to_string())),
        };
        let length = self.header(&header::CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        if length.is_some_and(|length| length > most) {
            return Err(too_large());
        }
        let packing = Packing::of(self.headers(), HasBody::Yes).map_err(ended)?;
        let bounds = BodyBounds { size: most, deadline: Instant::now() + limit, limit };
        let mut body = Body::coming(self.response.into_body(), packing, bounds, &Credential::none());
        // Growing piece by piece may take twice as much as it is.
        let mut whole = Vec::with_capacity(length.and_then(|length| usize::try_from(length).ok()).unwrap_or_default());
        loop {
            let piece = body.read(usize::MAX).await.map_err(ended)?;
            if piece.is_empty() {
                return Ok(whole);
            }
            whole.extend(piece);
        }
    }

    /// What it means, where it is no success.
    pub(super) async fn refused(self) -> OciError {
        let status = self.response.status();
        let trouble = match status.as_u16() {
            300..=399 => Trouble::NotAllowed,
            401 | 403 => Trouble::Refused,
            404 => Trouble::Missing,
            408 | 425 | 429 | 500..=599 => Trouble::Away,
            _ => Trouble::Invalid,
        };
        let after = self.header(&header::RETRY_AFTER).and_then(|seconds| seconds.trim().parse::<u64>().ok());
        let after = after.map(|seconds| Duration::from_secs(seconds.min(LATER)));
        let error = self.error(trouble, String::new()).after(after);
        let more = match trouble {
            Trouble::Refused if self.is_elsewhere => "; the credentials of the registry are not sent there",
            Trouble::NotAllowed => "; the credentials would follow that redirect",
            _ => "",
        };
        let has_body = self.method != Method::HEAD;
        let body = if has_body { self.body(ERROR, SHORT).await.ok() } else { None };
        let code = body.and_then(|body| code(&body)).map(|code| format!(" ({code})")).unwrap_or_default();
        error.came(format!("{}{code}{more}", words(status)))
    }
}

/// Why a body has no end.
pub(super) enum Ended {
    TooLarge(OciError),
    Broken(OciError),
}

impl From<Ended> for OciError {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::TooLarge(error) | Ended::Broken(error) => error,
        }
    }
}

/// A client for as long as its authorities are the same.
struct Built {
    pem: Option<(String, Vec<u8>)>,
    http: Http,
}

/// The way to one registry.
pub(super) struct Wire {
    pub(super) access: Access,
    built: tokio::sync::Mutex<Option<Built>>,
}

impl Wire {
    pub(super) fn new(access: Access) -> Self {
        Self { access, built: tokio::sync::Mutex::default() }
    }

    /// The client with the present authorities.
    pub(super) async fn http(&self) -> Result<Http, OciError> {
        let unreadable = |why: String| OciError::new(Trouble::Credentials, why);
        let pem = self.access.trusted.pem(Look::Usual).await.map_err(unreadable)?;
        let mut built = self.built.lock().await;
        if let Some(known) = built.as_ref().filter(|known| known.pem == pem) {
            return Ok(known.http.clone());
        }
        let authorities = match (self.access.scheme, authorities(pem.as_ref())) {
            (_, Ok(authorities)) => authorities,
            // What is not encrypted needs none.
            (Scheme::Http, Err(_)) => Authorities::default(),
            (Scheme::Https, Err(why)) => return Err(unreadable(why)),
        };
        let tls = settings(authorities).map_err(|error| unreadable(format!("TLS cannot be used: {error}")))?;
        let dialler = Dialler::new(Settings {
            purpose: Purpose::Registry,
            policy: Arc::clone(&self.access.policy),
            api_server: Arc::clone(&self.access.api_server),
            resolve: Arc::clone(&self.access.resolve),
            tls: Arc::new(tls),
            server_name: None,
            timeout: CONNECT,
        });
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .pool_max_idle_per_host(IDLE)
            .build(dialler);
        *built = Some(Built { pem, http: http.clone() });
        Ok(http)
    }

    /// One request, with the redirects that may be followed.
    pub(super) async fn exchange(&self, http: &Http, ask: &Ask, carried: Option<&Carried>) -> Result<Answer, OciError> {
        let (mut uri, mut carried) = (ask.uri.clone(), carried);
        let with = carried.map(|carried| carried.with.clone());
        for _ in 0..=REDIRECTS {
            let response = one(http, ask, &uri, carried.map(|carried| &carried.header)).await?;
            let is_elsewhere = !is_same(&uri, &ask.uri);
            let answer = Answer { response, method: ask.method.clone(), uri, with: with.clone(), is_elsewhere };
            if !ask.only_asks() || !matches!(answer.status(), 301 | 302 | 303 | 307 | 308) {
                return Ok(answer);
            }
            let next = answer.header(&header::LOCATION).and_then(|to| target(&answer.uri, to));
            let Some(next) = next else { return Err(answer.error(Trouble::Invalid, "a redirect to nowhere")) };
            if !self.access.scheme.allows(&next) {
                let to = asked(&ask.method, &next);
                return Err(answer.error(Trouble::NotAllowed, format!("a redirect out of TLS, to {to}")));
            }
            // Once away from the registry, nothing of ours is sent, also not where a redirect leads home.
            carried = carried.filter(|_| is_same(&next, &ask.uri));
            uri = next;
        }
        Err(OciError::new(Trouble::Invalid, format!("more than {REDIRECTS} redirects")).asked(&ask.method, &ask.uri))
    }

    /// One request whose redirects are answers: those of a token server.
    pub(super) async fn once(&self, http: &Http, ask: &Ask, with: &str) -> Result<Answer, OciError> {
        let response = one(http, ask, &ask.uri, None).await?;
        let (method, uri) = (ask.method.clone(), ask.uri.clone());
        Ok(Answer { response, method, uri, with: Some(with.to_owned()), is_elsewhere: false })
    }
}

/// One request to one place.
async fn one(
    http: &Http,
    ask: &Ask,
    uri: &Uri,
    authorization: Option<&HeaderValue>,
) -> Result<Response<Incoming>, OciError> {
    let mut request = Request::new(Full::new(ask.body.clone()));
    *request.method_mut() = ask.method.clone();
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = ask.headers.clone();
    let ours =
        [(header::USER_AGENT, concat!("topoloom/", env!("CARGO_PKG_VERSION"))), (header::ACCEPT_ENCODING, "identity")];
    for (name, value) in ours {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if let Some(authorization) = authorization {
        request.headers_mut().insert(header::AUTHORIZATION, authorization.clone());
    }
    // What is sent may take as long as what is read.
    let patience = if ask.body.is_empty() { HEAD } else { LONG };
    let failed = |trouble, what: String| OciError::new(trouble, what).asked(&ask.method, uri);
    match tokio::time::timeout(patience, http.request(request)).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(error)) => {
            let (trouble, what) = meaning(&error);
            Err(failed(trouble, what))
        }
        Err(_) => Err(failed(Trouble::Away, format!("no answer within {patience:?}"))),
    }
}

fn settings(authorities: Authorities) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let checked = authorities.verifier(&provider);
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.dangerous().with_custom_certificate_verifier(checked).with_no_client_auth())
}

/// A status with its name.
fn words(status: StatusCode) -> String {
    let name = status.canonical_reason().unwrap_or_default();
    format!("{} {name}", status.as_u16()).trim_end().to_owned()
}

/// What a client's error means: what the dialler said, or that the conversation broke off.
fn meaning(error: &legacy::Error) -> (Trouble, String) {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(this) = cause {
        if let Some(ours) = this.downcast_ref::<endpoints::Error>() {
            let is_denied = matches!(ours, endpoints::Error::Denied { .. });
            return (if is_denied { Trouble::NotAllowed } else { Trouble::Away }, ours.to_string());
        }
        if this.downcast_ref::<hyper::Error>().is_some_and(|error| error.is_incomplete_message() || error.is_canceled())
        {
            return (Trouble::Away, "the connection was closed without an answer".to_owned());
        }
        cause = this.source();
    }
    (Trouble::Away, format!("no answer in HTTP: {}", crate::cluster::client::chain(error)))
}
