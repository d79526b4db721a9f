//! What plugins may ask outside the cluster: endpoints by name, with everything a request needs added by the host.
//!
//! A plugin says the name, the method, the path and harmless headers. The host knows which server that is, dials it,
//! checks who signed its certificate and adds the credential; a plugin sees the *kind* of the credential, and in errors
//! the places that an operator has to look at. Every request is judged twice: when the plugin makes it ([`target`],
//! `headers`) and when it is dialled ([`address`], on the resolved address). Refusals are typed and counted.
//!
//! ```text
//! wish of the plugin ┐
//! word of the operator ┴─► Plan ─► Server | Document ─► Session (one call) ─► Reply, read in pieces
//!                                   ▲ Secret, bundle: Slot, kept current by a watch or read per call
//! ```
//!
//! # Failure story
//!
//! Every request ends with an answer or with an [`Error`] that says what was not granted, who did not answer, or what
//! was too slow or too large. A Secret that cannot be read refuses the request and says which rule would allow it; a
//! new one is used by the next request, and after a 401 the present one is read again first. Nothing else is retried in
//! here, and no error contains anything from a server or a Secret.

pub mod address;
pub mod api_server;
pub mod body;
pub mod credential;
pub mod dial;
mod document;
pub mod error;
mod headers;
pub mod metrics;
pub mod plan;
pub mod recording;
mod server;
mod slot;
pub mod spec;
pub mod target;
mod tls;
pub mod vault;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use tokio::task::JoinSet;
use tokio::time::Instant;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{CredentialKind, Limit, Method};
use tracing::Span;
use tracing::field::Empty;

use crate::endpoints::spec::{CaBundle, Carrier, KeyRef, Verification};
use crate::endpoints::spec::{Credentials, SecretRef};
use address::AddressPolicy;
use api_server::ApiServer;
use body::Body;
use credential::{Hidden, Material};
use document::DocumentServer;
pub use document::Documents;
pub use error::{Denial, Error};
use metrics::{Metrics, Series};
use plan::Plan;
use recording::{Recorder, Replay};
use server::{Bundle, EndpointServer, Lock, ServerParts, SoFar};
pub use slot::Bell;
use slot::Slot;
use topoloom_cluster::Restores;
use vault::{ObjectKind, Vault, VaultObject};

/// What all endpoints of a host share.
#[derive(Clone)]
pub struct Outside {
    /// Where Secrets and ConfigMaps are.
    pub vault: Vault,
    /// Where the API server is, which no endpoint is by accident.
    pub api_server: Arc<ApiServer>,
    /// Which files may be documents.
    pub documents: Documents,
    /// How names are resolved.
    pub resolve: dial::Resolve,
    /// Counts.
    pub metrics: Metrics,
    /// Whether what happens is written down, or was.
    pub tape: Tape,
}

/// Whether exchanges are live, written down, or read from a recording.
#[derive(Debug, Clone, Default)]
pub enum Tape {
    /// Live.
    #[default]
    None,
    /// Live, and written down.
    Record(Recorder),
    /// From a recording; nothing is dialled and no Secret is read.
    Replay(Arc<Replay>),
}

impl Outside {
    /// In a cluster, with the rights of this client.
    #[must_use]
    pub fn cluster(client: &kube::Client, namespace: &str, server: &http::Uri) -> Self {
        let vault =
            Vault::Cluster { client: client.clone(), restores: Restores::default(), namespace: namespace.into() };
        Self { vault, api_server: Arc::new(ApiServer::new(server)), documents: Documents::None, ..Self::offline() }
    }

    /// The same in a process that knows of these restores.
    #[must_use]
    pub fn of(mut self, known: &Restores) -> Self {
        if let Vault::Cluster { restores, .. } = &mut self.vault {
            restores.clone_from(known);
        }
        self
    }

    /// With nothing to read Secrets from, and every file that its user can read.
    #[must_use]
    pub fn offline() -> Self {
        Self {
            vault: Vault::Nothing,
            api_server: Arc::default(),
            documents: Documents::Any,
            resolve: dial::system(),
            metrics: Metrics::default(),
            tape: Tape::None,
        }
    }
}

/// What a plugin asks.
#[derive(Debug, Clone)]
pub struct EndpointRequest {
    /// The endpoint's name.
    pub endpoint: String,
    /// The method.
    pub method: Method,
    /// Below the base URL.
    pub path_and_query: String,
    /// Headers, in order.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Vec<u8>>,
}

/// What it gets.
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Lower-case names; credentials taken out.
    pub headers: Vec<(String, String)>,
    /// The body, on its way.
    pub body: Body,
}

/// The endpoints of one revision.
pub struct Endpoints {
    source: SourceName,
    named: BTreeMap<String, OpenEndpoint>,
    slots: BTreeMap<VaultObject, Arc<Slot>>,
    metrics: Metrics,
    tape: Tape,
    /// Keep the slots current; they end with the endpoints.
    following: std::sync::Mutex<JoinSet<()>>,
}

struct OpenEndpoint {
    plan: Plan,
    at: Upstream,
    series: Series,
}

enum Upstream {
    Server(EndpointServer),
    Document(DocumentServer),
}

impl std::fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.named.keys()).finish()
    }
}

impl Endpoints {
    /// None.
    #[must_use]
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Endpoints>> = LazyLock::new(|| {
            let source = SourceName::parse("none").expect("four letters are the value of a label");
            Arc::new(Endpoints::new(&source, Vec::new(), &Outside::offline()))
        });
        Arc::clone(&NONE)
    }

    /// Of these plans. Nothing is read or dialled yet.
    #[must_use]
    pub fn new(source: &SourceName, plans: Vec<Plan>, outside: &Outside) -> Self {
        let mut slots = Slots { vault: &outside.vault, slots: BTreeMap::new() };
        let named = plans.into_iter().map(|plan| {
            let at = match &plan.carrier {
                Carrier::Urls(urls) => Upstream::Server(EndpointServer::new(ServerParts {
                    bases: urls.clone(),
                    policy: Arc::new(AddressPolicy { rules: plan.addresses.clone() }),
                    api_server: Arc::clone(&outside.api_server),
                    resolve: Arc::clone(&outside.resolve),
                    lock: slots.lock(plan.credentials.as_ref()),
                    bundle: slots.bundle(plan.tls.ca_bundle.as_ref()),
                })),
                Carrier::ConfigMap(map) => {
                    let slot = slots.key(ObjectKind::ConfigMap, map);
                    let name = slot.name().to_string();
                    Upstream::Document(DocumentServer::Key { slot, key: map.key.clone(), map: name })
                }
                Carrier::File(path) => {
                    Upstream::Document(DocumentServer::File { path: path.clone(), root: outside.documents.clone() })
                }
            };
            let series = outside.metrics.of(source, &plan.name);
            series.verified(plan.tls.verification);
            (plan.name.to_string(), OpenEndpoint { plan, at, series })
        });
        Self {
            source: source.clone(),
            named: named.collect(),
            slots: slots.slots,
            metrics: outside.metrics.clone(),
            tape: outside.tape.clone(),
            following: std::sync::Mutex::default(),
        }
    }

    /// Whether there are any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// The Secrets and ConfigMaps that they need.
    pub fn objects(&self) -> impl Iterator<Item = &VaultObject> {
        self.slots.keys()
    }

    /// The endpoints that get a credential without TLS.
    pub fn cleartext(&self) -> impl Iterator<Item = &str> {
        let plans = self.named.values().map(|endpoint| &endpoint.plan);
        plans.filter(|plan| plan.is_cleartext()).map(|plan| &*plan.name)
    }

    /// The endpoints whose certificates are not checked.
    pub fn unverified(&self) -> impl Iterator<Item = &str> {
        let skipped = |endpoint: &&OpenEndpoint| {
            endpoint.plan.tls.verification == Verification::Skipped && matches!(endpoint.at, Upstream::Server(_))
        };
        self.named.values().filter(skipped).map(|endpoint| &*endpoint.plan.name)
    }

    /// Keeps Secrets and ConfigMaps current from now on, and rings the bell when one of them changes.
    pub fn follow(&self, bell: &Bell) {
        if matches!(self.tape, Tape::Replay(_)) {
            return;
        }
        let mut following = self.following.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        following.abort_all();
        for slot in self.slots.values().filter(|slot| slot.is_live()) {
            following.spawn(Arc::clone(slot).follow(Arc::clone(bell)));
        }
    }

    /// Waits until a task that follows one of them breaks, and breaks with it.
    pub async fn breaks(&self) -> Infallible {
        crate::panics::of_any(&self.following).await
    }

    /// Forgets them: a source that does not serve needs no notifications.
    pub fn unfollow(&self) {
        self.following.lock().unwrap_or_else(std::sync::PoisonError::into_inner).abort_all();
    }

    /// For one call of the plugin.
    #[must_use]
    pub fn session(self: &Arc<Self>) -> Session {
        Session { endpoints: Arc::clone(self), so_far: BTreeMap::new(), open: Arc::default(), lacks: None }
    }

    fn find(&self, name: &str) -> Result<&OpenEndpoint, Error> {
        self.named.get(name).ok_or_else(|| {
            Error::denied(
                Denial::Endpoint,
                format!("the endpoint {:?} is not granted", topoloom_core::text::line(name, 80)),
            )
        })
    }

    fn count<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        answer.inspect_err(|error| {
            if let Error::Denied { denial, .. } = error {
                self.metrics.denied(&self.source, *denial);
            }
        })
    }
}

/// Objects that endpoints need, each once.
struct Slots<'a> {
    vault: &'a Vault,
    slots: BTreeMap<VaultObject, Arc<Slot>>,
}

impl Slots<'_> {
    fn of(&mut self, kind: ObjectKind, namespace: Option<&str>, name: &str, keys: &[&str]) -> Arc<Slot> {
        let namespace = namespace.unwrap_or(self.vault.namespace()).to_owned();
        let name = VaultObject { kind, namespace, name: name.to_owned() };
        let slot = self.slots.entry(name.clone()).or_insert_with(|| Arc::new(Slot::new(self.vault.clone(), name)));
        slot.uses(keys);
        Arc::clone(slot)
    }

    fn key(&mut self, kind: ObjectKind, key: &KeyRef) -> Arc<Slot> {
        self.of(kind, key.namespace.as_deref(), &key.name, &[&key.key])
    }

    fn lock(&mut self, credentials: Option<&Credentials>) -> Lock {
        match credentials {
            None => Lock::Open,
            Some(Credentials::Secret(SecretRef { name, namespace })) => {
                Lock::Secret(self.of(ObjectKind::Secret, namespace.as_deref(), name, &Material::KEYS))
            }
            Some(Credentials::Token(token)) => Lock::Token(Hidden::clone(token)),
        }
    }

    fn bundle(&mut self, bundle: Option<&CaBundle>) -> Bundle {
        match bundle {
            None => Bundle::System,
            Some(CaBundle::Inline(pem)) => Bundle::Inline(pem.clone().into_bytes()),
            Some(CaBundle::File(path)) => Bundle::File(path.clone()),
            Some(CaBundle::ConfigMap(key)) => Bundle::Key(self.key(ObjectKind::ConfigMap, key), key.key.clone()),
            Some(CaBundle::Secret(key)) => Bundle::Key(self.key(ObjectKind::Secret, key), key.key.clone()),
        }
    }
}

/// What one call of a plugin does outside.
pub struct Session {
    endpoints: Arc<Endpoints>,
    /// What is known of each endpoint by now.
    so_far: BTreeMap<String, SoFar>,
    open: Arc<AtomicUsize>,
    /// What was missing that an operator has to bring: the first of it.
    lacks: Option<String>,
}

impl Session {
    /// The kind of credential that requests to an endpoint carry.
    ///
    /// # Errors
    /// When there is no such endpoint, or no such credential.
    pub async fn credential(&mut self, name: &str) -> Result<CredentialKind, Error> {
        let endpoints = Arc::clone(&self.endpoints);
        let found = match (endpoints.find(name), &endpoints.tape) {
            (Err(error), _) => Err(error),
            (Ok(_), Tape::Replay(replay)) => replay.credential(&endpoints.source, name),
            (Ok(OpenEndpoint { at: Upstream::Document(_), .. }), _) => Ok(CredentialKind::None),
            (Ok(OpenEndpoint { at: Upstream::Server(server), plan, .. }), _) => server.credential(plan).await,
        };
        if let Tape::Record(recorder) = &endpoints.tape {
            recorder.credential(&endpoints.source, name, &found);
        }
        self.noted(endpoints.count(found))
    }

    /// Sends a request; returns the head of the answer, while its body is still on its way.
    ///
    /// # Errors
    /// What was not granted, or why there is no answer.
    pub async fn send(&mut self, asked: &EndpointRequest) -> Result<Opened, Error> {
        let endpoints = Arc::clone(&self.endpoints);
        let answer = self.answer(&endpoints, asked).await;
        let exchange = match &endpoints.tape {
            Tape::Record(recorder) => {
                let at = recorder.asked(&endpoints.source, asked, answer.as_ref());
                Some(Exchange { recorder: recorder.clone(), source: endpoints.source.clone(), at, body: Vec::new() })
            }
            Tape::None | Tape::Replay(_) => None,
        };
        let reply = self.noted(endpoints.count(answer))?;
        let series = endpoints.named.get(&asked.endpoint).map(|endpoint| endpoint.series.clone());
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Opened { reply, series, exchange, open: Arc::clone(&self.open) })
    }

    #[tracing::instrument(level = "debug", name = "request", skip_all, fields(endpoint = Empty, outcome = Empty, otel.status_code = Empty))]
    async fn answer(&mut self, endpoints: &Endpoints, asked: &EndpointRequest) -> Result<Reply, Error> {
        let OpenEndpoint { plan, at, series } = endpoints.find(&asked.endpoint)?;
        Span::current().record("endpoint", &*plan.name);
        let most = Limit::Connections.fixed().size();
        if self.open.load(Ordering::Relaxed) >= most {
            let message = format!("{most} answers are open already, which is the limit");
            return Err(Error::denied(Denial::Connections, message));
        }
        let begun = Instant::now();
        let answer = match (&endpoints.tape, at) {
            (Tape::Replay(replay), _) => replay.answer(&endpoints.source, asked),
            (_, Upstream::Document(document)) => document.get(plan, asked).await,
            (_, Upstream::Server(server)) => {
                let so_far = self.so_far.entry(asked.endpoint.clone()).or_default();
                server.send(plan, asked, so_far).await
            }
        };
        let outcome = metrics::outcome(answer.as_ref().map(|reply| reply.status));
        Span::current().record("outcome", outcome);
        if answer.is_err() {
            Span::current().record("otel.status_code", "ERROR");
        }
        series.answered(outcome, begun.elapsed());
        answer
    }

    /// What an operator has to bring before such a call can succeed: the first that was missed.
    #[must_use]
    pub fn lacks(&self) -> Option<&str> {
        self.lacks.as_deref()
    }

    fn noted<T>(&mut self, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(Error::Denied { denial: Denial::Credential, message }) = &answer {
            self.lacks.get_or_insert_with(|| message.clone());
        }
        answer
    }
}

/// An answer that a plugin holds.
pub struct Opened {
    reply: Reply,
    series: Option<Series>,
    exchange: Option<Exchange>,
    open: Arc<AtomicUsize>,
}

/// Where the body of an answer is written down.
struct Exchange {
    recorder: Recorder,
    source: SourceName,
    at: usize,
    body: Vec<u8>,
}

impl Opened {
    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.reply.status
    }

    /// The headers that a plugin may see.
    #[must_use]
    pub fn headers(&self) -> &[(String, String)] {
        &self.reply.headers
    }

    /// The next piece of the body; empty at its end.
    ///
    /// # Errors
    /// As [`Body::read`].
    pub async fn read(&mut self, most: usize) -> Result<Vec<u8>, Error> {
        let piece = self.reply.body.read(most).await;
        if let (Some(exchange), Ok(piece)) = (&mut self.exchange, &piece) {
            exchange.body.extend_from_slice(piece);
        }
        if let (Some(series), Ok(piece)) = (&self.series, &piece) {
            series.received(piece.len());
        }
        if let (Some(exchange), Err(error)) = (&mut self.exchange, &piece) {
            exchange.recorder.read(&exchange.source, exchange.at, std::mem::take(&mut exchange.body), Some(error));
            self.exchange = None;
        }
        piece
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if let Some(exchange) = &mut self.exchange {
            exchange.recorder.read(&exchange.source, exchange.at, std::mem::take(&mut exchange.body), None);
        }
    }
}
