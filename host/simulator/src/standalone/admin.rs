//! The switches of a running program: faults, edits, credentials, and what was asked so far.
//!
//! Plain HTTP on a loopback address, without a credential: a user who reaches it may start a simulator, too. A request
//! that a web page makes carries an `Origin` and is refused.
//!
//! | request | does |
//! |---|---|
//! | `GET /_simulator/faults` | lists the rules in force |
//! | `PUT /_simulator/faults` | puts these rules in place of all others: a JSON list of rules, or a rule per line |
//! | `DELETE /_simulator/faults` | ends all faults |
//! | `POST /_simulator/edits` | changes the fabric: a JSON list of edits, or an edit per line; all of them or none |
//! | `GET /_simulator/fabric` | counts, counters and revision |
//! | `GET /_simulator/requests` | what was asked, without credentials |
//! | `PUT /_simulator/credentials` | accepts these from now on and no others |
//!
//! This is about both servers. `/_simulator/ufm/faults` and `/_simulator/ufm/requests` are those of the UFM alone,
//! `/_simulator/document/faults` and `/_simulator/document/requests` those of the fabric-document server. A rule that
//! counts does so at each of them.

use crate::Error;
use crate::fabric::{Edit, SharedFabric};
use crate::fault::{Board, FaultRule};
use crate::server::{Answer, Answering, Credentials, Desk, Door, Faults, Hall, Record, Simulator};
use http::header::ORIGIN;
use http::{Method, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Largest body. A thousand edits are a tenth of it.
const LARGEST: usize = 1 << 20;

/// The admin listener. Dropping it ends it.
pub(super) struct Admin {
    door: Door,
    tasks: JoinSet<()>,
}

/// One of the servers, as far as it can be switched.
struct Switched {
    faults: Faults,
    record: Arc<Record>,
    credentials: Box<dyn Fn(Credentials) + Send + Sync>,
}

impl Switched {
    fn of(simulator: &Simulator) -> Self {
        let credentials = Box::new(simulator.credentials_setter());
        Self { faults: simulator.faults(), record: simulator.record(), credentials }
    }
}

struct Panel {
    fabric: SharedFabric,
    ufm: Switched,
    document: Option<Switched>,
    record: Arc<Record>,
}

impl Admin {
    pub(super) async fn start(
        address: SocketAddr,
        ufm: &Simulator,
        document: Option<&Simulator>,
    ) -> Result<Self, Error> {
        let mut tasks = JoinSet::new();
        let record = Arc::new(Record::new());
        let (fabric, document) = (ufm.fabric().clone(), document.map(Switched::of));
        let panel = Arc::new(Panel { fabric, ufm: Switched::of(ufm), document, record: record.clone() });
        let hall = Hall { desk: panel, tls: None, board: Arc::new(Board::default()), record };
        Ok(Self { door: Door::open(address, hall, &mut tasks).await?, tasks })
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/_simulator", self.door.address)
    }

    pub(super) async fn stop(mut self) {
        self.door.end().await;
        self.tasks.shutdown().await;
    }
}

impl Desk for Panel {
    fn answer(self: Arc<Self>, request: http::Request<Incoming>, _certificate: Option<String>) -> Answering {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let ticket = self.record.follow();
            let answer = match head.headers.contains_key(ORIGIN) {
                true => Err((StatusCode::FORBIDDEN, "not for web pages".to_owned())),
                false => match read(body).await {
                    Ok(body) => self.route(&head.method, head.uri.path(), &body).await,
                    Err(refusal) => Err(refusal),
                },
            };
            let answer = answer.unwrap_or_else(|(status, message)| Answer::error(status, message));
            Ok(answer.respond(None, ticket))
        })
    }
}

/// A status and a message.
type AdminRefusal = (StatusCode, String);

fn bad(message: impl ToString) -> AdminRefusal {
    (StatusCode::BAD_REQUEST, message.to_string())
}

impl Panel {
    async fn route(&self, method: &Method, path: &str, body: &str) -> Result<Answer, AdminRefusal> {
        let path = path.strip_prefix("/_simulator/").unwrap_or_default();
        let (servers, what): (Vec<&Switched>, _) = match path.split_once('/') {
            Some(("ufm", what)) => (vec![&self.ufm], what),
            Some(("document", what)) => (self.document.iter().collect(), what),
            _ => (self.servers().collect(), path),
        };
        if servers.is_empty() {
            return Err((StatusCode::NOT_FOUND, "there is no fabric-document server".to_owned()));
        }
        match (method.as_str(), what) {
            ("GET", "faults") => Ok(active(&servers)),
            ("PUT", "faults") => switch(&servers, &list(body)?).await,
            ("DELETE", "faults") => switch(&servers, &[]).await,
            ("GET", "requests") => Ok(show(&requests(&servers))),
            ("GET", "fabric") => Ok(self.fabric()),
            ("POST", "edits") => self.edit(&list::<Edit>(body)?),
            ("PUT", "credentials") => self.credentials(body),
            (_, "faults" | "requests" | "fabric" | "edits" | "credentials") => {
                Err((StatusCode::METHOD_NOT_ALLOWED, format!("{method} is not for {what}")))
            }
            _ => Err((StatusCode::NOT_FOUND, "known are faults, requests, fabric, edits and credentials".to_owned())),
        }
    }

    fn servers(&self) -> impl Iterator<Item = &Switched> {
        [Some(&self.ufm), self.document.as_ref()].into_iter().flatten()
    }

    fn fabric(&self) -> Answer {
        let fabric = self.fabric.now();
        show(&json!({ "counts": fabric.counts(), "versions": fabric.versions(), "revision": fabric.revision() }))
    }

    /// Tries the edits on a copy, so that a wrong one in the middle leaves the fabric as it was.
    fn edit(&self, edits: &[Edit]) -> Result<Answer, AdminRefusal> {
        self.fabric.edit(|fabric| {
            let mut changed = fabric.clone();
            edits.iter().try_for_each(|edit| changed.apply(edit).map_err(|error| bad(format!("{edit}: {error}"))))?;
            *fabric = changed;
            Ok::<_, AdminRefusal>(())
        })?;
        Ok(self.fabric())
    }

    fn credentials(&self, body: &str) -> Result<Answer, AdminRefusal> {
        // The error of the parser would quote what it has read.
        let shape = "expected {\"users\": [{\"user\", \"password\"}], \"tokens\": [], \"certificates\": []}";
        let credentials: Credentials = serde_json::from_str(body).map_err(|_| bad(shape))?;
        self.servers().for_each(|server| (server.credentials)(credentials.clone()));
        Ok(show(&json!({})))
    }
}

fn show(value: &impl serde::Serialize) -> Answer {
    Answer::json(StatusCode::OK, value)
}

/// The rules in force at any of the servers, each once.
fn active(servers: &[&Switched]) -> Answer {
    let mut rules: Vec<FaultRule> = Vec::new();
    for rule in servers.iter().flat_map(|server| server.faults.active()) {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    show(&rules)
}

async fn switch(servers: &[&Switched], rules: &[FaultRule]) -> Result<Answer, AdminRefusal> {
    // A rule that cannot be is refused by the first server, before anything has changed.
    for server in servers {
        server.faults.set_all(rules.to_vec()).await.map_err(|error| match error {
            Error::Value(error) => bad(error),
            other => (StatusCode::INTERNAL_SERVER_ERROR, other.to_string()),
        })?;
    }
    Ok(active(servers))
}

/// What the servers were asked, oldest first.
fn requests(servers: &[&Switched]) -> Vec<serde_json::Value> {
    let one = |request: crate::Request| {
        json!({
            "at": request.at.to_string(),
            "method": request.method.as_str(),
            "path": request.path,
            "query": request.query,
            "presented": format!("{:?}", request.presented),
            "fault": request.fault,
            "status": request.status,
            "bytes": request.bytes,
            "ended": request.ended,
        })
    };
    let mut requests: Vec<_> = servers.iter().flat_map(|server| server.record.requests()).collect();
    requests.sort_by_key(|request| request.at);
    requests.into_iter().map(one).collect()
}

/// Reads a JSON list, or an item per line.
fn list<T: DeserializeOwned + std::str::FromStr<Err = crate::BadValue>>(body: &str) -> Result<Vec<T>, AdminRefusal> {
    if body.trim_start().starts_with('[') {
        return serde_json::from_str(body).map_err(bad);
    }
    body.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| line.parse().map_err(bad)).collect()
}

/// Reads the body, as far as it is allowed to go.
async fn read(mut body: Incoming) -> Result<String, AdminRefusal> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|_| bad("the body broke off"))?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
        if bytes.len() > LARGEST {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, format!("at most {LARGEST} bytes")));
        }
    }
    String::from_utf8(bytes).map_err(|_| bad("the body must be UTF-8"))
}
