//! A server behind one endpoint: one client of its own, so that no two plugins share a connection or a TLS session.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Mutex;
use tokio::time::Instant;
use topoloom_core::plugin::{CredentialKind, Method};

use super::address::AddressPolicy;
use super::api_server::ApiServer;
use super::body::{Body, BodyBounds, HasBody, Packing};
use super::credential::{Credential, Hidden, Material};
use super::dial::{Dialler, Purpose, Resolve, Settings};
use super::error::{Denial, Error, Wait};
use super::plan::Plan;
use super::slot::{Look, Slot};
use super::target::{self, BadPath};
use super::{EndpointRequest, Reply, document, headers, tls};
use crate::endpoints::spec::{BaseUrl, Redirects, Verification};

/// Idle connections that are kept between requests of one round.
const IDLE: usize = 2;
/// How long: a round's requests follow each other, and rounds lie minutes apart.
const IDLE_FOR: std::time::Duration = std::time::Duration::from_secs(30);
/// The largest file of authorities, in bytes: that of a whole operating system has 250 KB.
const MOST_OF_A_BUNDLE: u64 = 1 << 20;
/// Redirects that are followed on the same host, where the operator allows it.
const REDIRECTS: usize = 3;

/// One endpoint's servers.
pub(super) struct EndpointServer {
    bases: Vec<BaseUrl>,
    policy: Arc<AddressPolicy>,
    api_server: Arc<ApiServer>,
    resolve: Resolve,
    lock: Lock,
    bundle: Bundle,
    built: Mutex<Option<Arc<Built>>>,
}

/// Where the credential comes from.
pub(super) enum Lock {
    /// There is none.
    Open,
    /// From a Secret.
    Secret(Arc<Slot>),
    /// From the entry itself.
    Token(Hidden),
}

/// Where authorities come from, beside the credential's own.
pub(super) enum Bundle {
    /// Those of the system.
    System,
    /// The entry has them.
    Inline(Vec<u8>),
    /// A key of an object.
    Key(Arc<Slot>, String),
    /// A file.
    File(std::path::PathBuf),
}

/// A client for as long as nothing that it was made of changes.
struct Built {
    material: Material,
    bundle: Option<Vec<u8>>,
    credential: Credential,
    client: Client<Dialler, Full<Bytes>>,
}

/// Everything that a server is made of.
pub(super) struct ServerParts {
    pub(super) bases: Vec<BaseUrl>,
    pub(super) policy: Arc<AddressPolicy>,
    pub(super) api_server: Arc<ApiServer>,
    pub(super) resolve: Resolve,
    pub(super) lock: Lock,
    pub(super) bundle: Bundle,
}

impl EndpointServer {
    pub(super) fn new(parts: ServerParts) -> Self {
        let ServerParts { bases, policy, api_server, resolve, lock, bundle } = parts;
        Self { bases, policy, api_server, resolve, lock, bundle, built: Mutex::default() }
    }

    /// The kind of credential that requests carry.
    pub(super) async fn credential(&self, plan: &Plan) -> Result<CredentialKind, Error> {
        Ok(self.ready(plan, Look::Usual).await?.credential.kind)
    }

    /// Sends a request to the first server that answers, or to the one that answered before in the same call: two
    /// members of a pair may not know the same.
    pub(super) async fn send(&self, plan: &Plan, asked: &EndpointRequest, so_far: &mut SoFar) -> Result<Reply, Error> {
        check(plan, asked)?;
        let begun = Instant::now();
        let built = self.ready(plan, Look::Usual).await?;
        let reply = self.first(plan, asked, &built, &mut so_far.chosen, begun).await?;
        let looks = matches!(self.lock, Lock::Secret(_)) && !so_far.looked_again;
        if reply.status() != StatusCode::UNAUTHORIZED || !looks {
            return self.reply(plan, reply, &built, (asked.method, begun));
        }
        so_far.looked_again = true;
        // Perhaps the Secret has changed since it was read.
        match self.ready(plan, Look::Again).await {
            Ok(newer) if !Arc::ptr_eq(&newer, &built) => {
                let reply = self.first(plan, asked, &newer, &mut so_far.chosen, begun).await?;
                self.reply(plan, reply, &newer, (asked.method, begun))
            }
            _ => self.reply(plan, reply, &built, (asked.method, begun)),
        }
    }

    async fn first(
        &self,
        plan: &Plan,
        asked: &EndpointRequest,
        built: &Built,
        chosen: &mut Option<usize>,
        begun: Instant,
    ) -> Result<Response<Incoming>, Error> {
        let mut failed = Vec::new();
        for (at, base) in self.bases.iter().enumerate() {
            if chosen.is_some_and(|chosen| chosen != at) {
                continue;
            }
            let is_last = at + 1 == self.bases.len() || chosen.is_some();
            match self.one(plan, asked, built, base.uri(), begun).await {
                // A proxy in front of a stopped or passive server answers like this.
                Ok(reply) if !is_last && is_absent(reply.status()) && only_asks(asked.method) => {
                    failed.push(format!("{} answers {}", host(base), reply.status().as_u16()));
                }
                Ok(reply) => {
                    *chosen = Some(at);
                    return Ok(reply);
                }
                Err(error) if !is_last && error.passes_to_the_next(asked.method) => failed.push(error.to_string()),
                Err(error) if failed.is_empty() => return Err(error),
                Err(error) => return Err(with(error, &failed)),
            }
        }
        Err(Error::Connect(format!("no server is left: {}", failed.join("; "))))
    }

    /// One server, with the redirects that stay on it.
    async fn one(
        &self,
        plan: &Plan,
        asked: &EndpointRequest,
        built: &Built,
        base: &Uri,
        begun: Instant,
    ) -> Result<Response<Incoming>, Error> {
        let bad = |error: http::Error| Error::denied(Denial::Path, format!("the request is no URL: {error}"));
        let mut uri = target::join(base, &asked.path_and_query).map_err(bad)?;
        for _ in 0..=REDIRECTS {
            let reply = self.exchange(plan, asked, built, uri.clone(), begun).await?;
            let follows = plan.redirects == Redirects::SameHost
                && matches!(asked.method, Method::Get | Method::Head)
                && matches!(reply.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            match follows.then(|| elsewhere(&reply, &uri, base, plan)).flatten() {
                Some(next) => uri = next,
                None => return Ok(reply),
            }
        }
        Err(Error::Protocol(format!("the server redirects more than {REDIRECTS} times")))
    }

    async fn exchange(
        &self,
        plan: &Plan,
        asked: &EndpointRequest,
        built: &Built,
        uri: Uri,
        begun: Instant,
    ) -> Result<Response<Incoming>, Error> {
        let refused = |message: String| Error::denied(Denial::Header, message);
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(asked.body.as_deref().unwrap_or_default())));
        *request.method_mut() = http_method(asked.method);
        *request.uri_mut() = uri;
        *request.headers_mut() = headers::outgoing(&asked.headers).map_err(refused)?;
        let ours = [
            (header::USER_AGENT, concat!("topoloom/", env!("CARGO_PKG_VERSION"))),
            (header::ACCEPT_ENCODING, "identity"),
        ];
        for (name, value) in ours {
            request.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        if let Some(authorization) = built.credential.authorization() {
            request.headers_mut().insert(header::AUTHORIZATION, authorization);
        }
        let limit = plan.timeouts.first_byte;
        let whole = begun + plan.timeouts.total;
        let deadline = (Instant::now() + limit + plan.timeouts.connect).min(whole);
        match tokio::time::timeout_at(deadline, built.client.request(request)).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => Err(meaning(&error)),
            Err(_) if deadline == whole => Err(Error::Timeout { what: Wait::Body, limit: plan.timeouts.total }),
            Err(_) => Err(Error::Timeout { what: Wait::FirstByte, limit }),
        }
    }

    fn reply(
        &self,
        plan: &Plan,
        reply: Response<Incoming>,
        built: &Built,
        (method, begun): (Method, Instant),
    ) -> Result<Reply, Error> {
        let has_body = match (method, reply.status().as_u16()) {
            (Method::Head, _) | (_, 204 | 304) => HasBody::No,
            _ => HasBody::Yes,
        };
        let packing = Packing::of(reply.headers(), has_body)?;
        let limit = plan.timeouts.total;
        let bounds = BodyBounds { size: plan.max_body, deadline: begun + limit, limit };
        let mut headers = headers::incoming(reply.headers());
        let is_mark = |value: &str| {
            let mut marks = built.credential.marks().iter();
            marks.any(|mark| memchr::memmem::find(value.as_bytes(), mark.reveal()).is_some())
        };
        headers.retain(|(_, value)| !is_mark(value));
        if packing == Packing::Gzip {
            headers.retain(|(name, _)| name != "content-encoding" && name != "content-length");
        }
        let status = reply.status().as_u16();
        Ok(Reply { status, headers, body: Body::coming(reply.into_body(), packing, bounds, &built.credential) })
    }

    /// A client with the present credential. What did not change keeps its connections.
    async fn ready(&self, plan: &Plan, look: Look) -> Result<Arc<Built>, Error> {
        let missing = |message: String| Error::denied(Denial::Credential, message);
        let material = match &self.lock {
            Lock::Open => Material::default(),
            Lock::Token(token) => Material::new([("token".to_owned(), token.clone())]),
            Lock::Secret(slot) => {
                let data = slot.data(look).await.map_err(missing)?;
                Material::new(data.iter().map(|(key, value)| (key.clone(), value.clone())))
            }
        };
        let bundle = self.bundle().await.map_err(Error::Connect)?;
        let mut built = self.built.lock().await;
        if let Some(known) = built.as_ref().filter(|known| known.material == material && known.bundle == bundle) {
            return Ok(Arc::clone(known));
        }
        let credential = match &self.lock {
            Lock::Open => Credential::none(),
            Lock::Token(_) => {
                material.credential(&plan.kinds).map_err(|what| missing(format!("`config.token`: {what}")))?
            }
            Lock::Secret(slot) => {
                material.credential(&plan.kinds).map_err(|what| missing(format!("the {}: {what}", slot.name())))?
            }
        };
        let own = material.authority().map(|pem| (self.authority_place(), pem));
        let authorities = bundle.as_deref().map(|pem| (self.bundle_place(), pem)).into_iter().chain(own).collect();
        let trust =
            tls::ServerTrust { verification: plan.tls.verification, authorities, identity: credential.identity() };
        let tls = if self.bases.iter().any(BaseUrl::is_https) || credential.identity().is_some() {
            tls::settings(&trust).map_err(Error::Connect)?
        } else {
            // Nothing here is encrypted, so a system without authorities will do.
            let checked = Verification::Skipped;
            tls::settings(&tls::ServerTrust { verification: checked, authorities: Vec::new(), identity: None })
                .map_err(Error::Connect)?
        };
        let dialler = Dialler::new(Settings {
            purpose: Purpose::Endpoint(Arc::clone(&plan.name)),
            policy: Arc::clone(&self.policy),
            api_server: Arc::clone(&self.api_server),
            resolve: Arc::clone(&self.resolve),
            tls: Arc::new(tls),
            server_name: plan.tls.server_name.clone(),
            timeout: plan.timeouts.connect,
        });
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_FOR)
            .pool_max_idle_per_host(IDLE)
            .build(dialler);
        let fresh = Arc::new(Built { material, bundle, credential, client });
        *built = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// What to call the bundle when something is wrong with it.
    fn bundle_place(&self) -> String {
        match &self.bundle {
            Bundle::System => "the bundle of this system".to_owned(),
            Bundle::Inline(_) => "`caBundle`".to_owned(),
            Bundle::Key(slot, key) => format!("`caBundle`: key {key:?} of the {}", slot.name()),
            Bundle::File(path) => format!("`caBundle`: the file {}", path.display()),
        }
    }

    fn authority_place(&self) -> String {
        match &self.lock {
            Lock::Secret(slot) => format!("`ca.crt` of the {}", slot.name()),
            Lock::Open | Lock::Token(_) => "`ca.crt`".to_owned(),
        }
    }

    async fn bundle(&self) -> Result<Option<Vec<u8>>, String> {
        match &self.bundle {
            Bundle::System => Ok(None),
            Bundle::Inline(pem) => Ok(Some(pem.clone())),
            Bundle::Key(slot, key) => {
                let data = slot.data(Look::Usual).await?;
                let pem =
                    data.get(key).ok_or_else(|| format!("the {} has no key {key:?} with authorities", slot.name()))?;
                Ok(Some(pem.reveal().to_vec()))
            }
            Bundle::File(path) => {
                let read = document::read(path, MOST_OF_A_BUNDLE).await;
                let named = |error| format!("`caBundle`: {error}");
                read.map(|pem| Some(pem.to_vec())).map_err(named)
            }
        }
    }
}

/// What one call of a plugin has learned about an endpoint so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SoFar {
    /// Which member of a pair answered.
    chosen: Option<usize>,
    /// Whether the Secret was read once more because it was refused: once is enough.
    looked_again: bool,
}

/// Whether a request changes nothing, so that it may be sent twice.
fn only_asks(method: Method) -> bool {
    matches!(method, Method::Get | Method::Head)
}

/// Whether the request is one of those that are granted.
fn check(plan: &Plan, asked: &EndpointRequest) -> Result<(), Error> {
    let name = &plan.name;
    if !plan.methods.contains(&asked.method) {
        return Err(Error::denied(Denial::Method, format!("{} is not granted on the endpoint {name}", asked.method)));
    }
    if only_asks(asked.method) && asked.body.as_ref().is_some_and(|body| !body.is_empty()) {
        // A server that does not expect it takes it for the next request.
        return Err(Error::denied(Denial::Body, format!("{} has no body", asked.method)));
    }
    let shown = topoloom_core::text::line(&asked.path_and_query, 200);
    let judged = target::check(&asked.path_and_query, &plan.paths);
    match judged.and_then(|_| target::check(&asked.path_and_query, &plan.narrowed)) {
        Ok(_) => {}
        Err(BadPath::Form(what)) => {
            return Err(Error::denied(Denial::Path, format!("the path {shown:?} is refused: {what}")));
        }
        Err(BadPath::NotGranted) => {
            let granted = if plan.narrowed.is_empty() { &plan.paths } else { &plan.narrowed }.join(", ");
            let message = format!("the path {shown:?} of the endpoint {name} is not granted, only {granted}");
            return Err(Error::denied(Denial::Path, message));
        }
    }
    headers::outgoing(&asked.headers).map(drop).map_err(|message| Error::denied(Denial::Header, message))
}

/// Where a redirect leads, if that is the same server and granted.
fn elsewhere(reply: &Response<Incoming>, from: &Uri, base: &Uri, plan: &Plan) -> Option<Uri> {
    let location = reply.headers().get(header::LOCATION)?.to_str().ok()?;
    let path = if location.starts_with('/') && !location.starts_with("//") {
        location.to_owned()
    } else {
        let to: Uri = location.parse().ok()?;
        let port = |uri: &Uri| uri.port_u16().or(if uri.scheme_str() == Some("https") { Some(443) } else { Some(80) });
        let same = to.scheme() == from.scheme() && to.host() == from.host() && port(&to) == port(from);
        if !same || to.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return None;
        }
        to.path_and_query()?.as_str().to_owned()
    };
    // The base's own path is part of what the operator wrote.
    let below = path.strip_prefix(base.path().trim_end_matches('/'))?;
    target::check(below, &plan.paths).and_then(|_| target::check(below, &plan.narrowed)).ok()?;
    target::join(base, below).ok()
}

/// What a client's error means: what the dialler said, or that the conversation broke off.
fn meaning(error: &hyper_util::client::legacy::Error) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(this) = cause {
        if let Some(ours) = this.downcast_ref::<Error>() {
            return ours.clone();
        }
        if this.downcast_ref::<hyper::Error>().is_some_and(|error| error.is_incomplete_message() || error.is_canceled())
        {
            return Error::Closed("the server closed the connection without an answer".to_owned());
        }
        cause = this.source();
    }
    Error::Protocol(format!("the server does not answer in HTTP: {}", topoloom_cluster::client::chain(error)))
}

fn with(error: Error, others: &[String]) -> Error {
    let others = others.join("; ");
    match error {
        Error::Connect(message) => Error::Connect(format!("{message} (before that: {others})")),
        Error::Protocol(message) => Error::Protocol(format!("{message} (before that: {others})")),
        other => other,
    }
}

fn is_absent(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502..=504)
}

fn host(base: &BaseUrl) -> String {
    base.uri().authority().map(ToString::to_string).unwrap_or_default()
}

fn http_method(method: Method) -> http::Method {
    match method {
        Method::Get => http::Method::GET,
        Method::Head => http::Method::HEAD,
        Method::Post => http::Method::POST,
        Method::Put => http::Method::PUT,
        Method::Patch => http::Method::PATCH,
        Method::Delete => http::Method::DELETE,
    }
}
