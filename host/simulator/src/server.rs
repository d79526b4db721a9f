//! A running simulator: one listener, one API, its faults and its record.
//!
//! Everything that runs belongs to the [`Simulator`]; when it is dropped, the listener, every connection and every body
//! that a client still waits for are gone. A fault is carried out here, so that every API has all of them.

mod answer;
mod body;
mod bomb;
mod builder;
mod credentials;
mod door;
mod faults;
mod record;
mod tls;

pub(crate) use answer::{Answer, Asked, Tweak};
pub(crate) use door::{Answering, Desk, Door, Hall};
pub(crate) use record::Record;

pub use builder::Builder;
pub use credentials::{Credentials, Presented};
pub use faults::Faults;
pub use record::{Counters, Request};
pub use tls::{Authority, ClientCertificate, Marked, Validity};

use crate::Error;
use crate::fabric::{Fabric, SharedFabric};
use crate::fault::{Board, Fault};
use door::Hangup;
use http::header::{AUTHORIZATION, COOKIE};
use hyper::body::Incoming;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use tls::Identities;
use tokio::task::JoinSet;

/// The API that a simulator speaks.
pub(crate) trait Api: Send + Sync {
    /// The path behind the prefix of the API, with its first slash: where rules look beside the whole path.
    fn local<'a>(&self, path: &'a str) -> &'a str;

    /// Where faults act when a rule does not say.
    fn usual(&self) -> &'static str;

    /// The credential of a request.
    fn presented(&self, asked: &Asked<'_>) -> Presented;

    /// Answers a request, whose credential was admitted or not.
    fn answer(&self, asked: &Asked<'_>, admitted: bool, fabric: &Arc<Fabric>, tweak: Tweak) -> Answer;
}

/// What all connections of a simulator share.
struct Core {
    api: Box<dyn Api>,
    fabric: SharedFabric,
    credentials: RwLock<Credentials>,
    board: Arc<Board>,
    record: Arc<Record>,
}

/// A running simulator. Dropping it ends it.
pub struct Simulator {
    core: Arc<Core>,
    identities: Option<Arc<Identities>>,
    door: Door,
    tasks: JoinSet<()>,
}

impl std::fmt::Debug for Simulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulator")
            .field("url", &self.url())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

impl Simulator {
    async fn start(core: Core, identities: Option<Identities>, listen: SocketAddr) -> Result<Self, Error> {
        let (core, identities) = (Arc::new(core), identities.map(Arc::new));
        let (board, record) = (core.board.clone(), core.record.clone());
        let mut tasks = JoinSet::new();
        let hall = Hall { desk: core.clone(), tls: identities.clone(), board, record };
        let door = Door::open(listen, hall, &mut tasks).await?;
        let simulator = Self { core, identities, door, tasks };
        if simulator.core.board.active().iter().any(|rule| *rule.fault() == Fault::Refused) {
            simulator.door.shut().await?;
        }
        Ok(simulator)
    }

    /// Where it listens; the port is the real one.
    pub fn address(&self) -> SocketAddr {
        self.door.address
    }

    /// Its address as a client writes it, without a path.
    pub fn url(&self) -> String {
        let scheme = if self.identities.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.door.address)
    }

    /// The certificate of its authority, if it speaks TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.identities.as_ref().map(|identities| identities.ca_pem())
    }

    /// The fabric that it serves.
    pub fn fabric(&self) -> &SharedFabric {
        &self.core.fabric
    }

    /// Its faults.
    pub fn faults(&self) -> Faults {
        Faults::new(self.core.board.clone(), self.door.clone())
    }

    /// Accepts these credentials from now on and no others, as after a rotation.
    pub fn set_credentials(&self, credentials: Credentials) {
        *self.core.credentials.write().unwrap_or_else(PoisonError::into_inner) = credentials;
    }

    /// The requests so far, oldest first; of very many the last 10 000.
    pub fn requests(&self) -> Vec<Request> {
        self.core.record.requests()
    }

    /// Forgets the requests so far. Counters continue.
    pub fn forget_requests(&self) {
        self.core.record.forget();
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        *self.core.record.counters().borrow()
    }

    /// Waits until the counters are as wanted and answers them. Never returns if that never happens.
    pub async fn until(&self, wanted: impl FnMut(&Counters) -> bool) -> Counters {
        // The sender lives in `self`, so waiting cannot end without a value.
        self.core.record.counters().wait_for(wanted).await.map_or_else(|_| self.counters(), |counters| *counters)
    }

    /// Ends it. When this returns the port is free and no connection is open.
    pub async fn stop(mut self) {
        self.door.end().await;
        self.tasks.shutdown().await;
    }

    /// What the admin listener needs.
    pub(crate) fn credentials_setter(&self) -> impl Fn(Credentials) + Send + Sync + use<> {
        let core = self.core.clone();
        move |credentials| *core.credentials.write().unwrap_or_else(PoisonError::into_inner) = credentials
    }

    pub(crate) fn record(&self) -> Arc<Record> {
        self.core.record.clone()
    }
}

impl Desk for Core {
    fn answer(self: Arc<Self>, request: http::Request<Incoming>, certificate: Option<String>) -> Answering {
        Box::pin(async move {
            let (head, _body) = request.into_parts();
            let (path, query) = (head.uri.path(), head.uri.query());
            let certificate = certificate.as_deref();
            let asked = Asked { method: &head.method, path, query, headers: &head.headers, certificate };
            let presented = self.api.presented(&asked);
            let fault = self.board.of_request(path, self.api.local(path), self.api.usual());
            let ticket = self.record.begin(note(&asked, presented.clone(), fault.as_ref()));
            if let Some(Fault::SlowHeaders(pause)) = fault {
                tokio::time::sleep(pause).await;
            }
            let answer = match fault.as_ref().and_then(Answer::instead) {
                Some(answer) => answer,
                None => self.ask(&asked, &presented, Tweak::of(fault.as_ref())),
            };
            let response = answer.respond(fault.as_ref(), ticket);
            Ok::<_, Hangup>(response)
        })
    }
}

impl Core {
    fn ask(&self, asked: &Asked<'_>, presented: &Presented, tweak: Tweak) -> Answer {
        let admitted = self.credentials.read().unwrap_or_else(PoisonError::into_inner).admits(presented);
        let fabric = self.fabric.now();
        self.api.answer(asked, admitted, &fabric, tweak)
    }
}

fn note(asked: &Asked<'_>, presented: Presented, fault: Option<&Fault>) -> Request {
    let mut headers = asked.headers.clone();
    for name in [AUTHORIZATION, COOKIE] {
        if let Some(value) = headers.get_mut(name) {
            value.set_sensitive(true);
        }
    }
    Request {
        at: jiff::Timestamp::now(),
        method: asked.method.clone(),
        path: asked.path.to_owned(),
        query: asked.query.map(str::to_owned),
        headers,
        presented,
        fault: fault.map(ToString::to_string),
        status: None,
        bytes: 0,
        ended: false,
    }
}
