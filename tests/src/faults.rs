//! An API server that misbehaves: a proxy in front of a real one, which refuses, delays or loses requests.
//!
//! It serves plain HTTP on 127.0.0.1 and passes every header on, so that a client keeps its identity.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use http::{HeaderName, Method, StatusCode, header};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::controlplane::ControlPlane;

/// The fate of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// It is refused with this status, and nothing happens.
    Refused(u16, &'static str),
    /// The connection breaks, and nothing happened.
    LostBefore,
    /// It is done, and the connection breaks before the answer is whole.
    LostAfter,
    /// It is done, and the answer is 504.
    TimeoutAfter,
    /// It is never answered.
    Silent {
        /// Whether it is done.
        done: bool,
    },
    /// It is done, this much later.
    Slow(Duration),
    /// It is done once [`Faults::release`] is called.
    Held,
}

#[derive(Debug)]
struct Rule {
    method: Method,
    part: String,
    fault: Fault,
    times: usize,
}

#[derive(Debug, Default)]
struct Told {
    rules: Vec<Rule>,
    seen: Vec<(Method, String)>,
    met: usize,
}

/// The proxy. It stops when this value is dropped.
pub struct Faults {
    kubeconfig: PathBuf,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

struct Shared {
    told: Mutex<Told>,
    /// Counts up with every release.
    released: watch::Sender<u64>,
    server: String,
    http: reqwest::Client,
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults {
    /// A proxy for the clients of this kubeconfig file.
    ///
    /// # Errors
    /// When it cannot listen, or the file is not understood.
    pub async fn start(plane: &ControlPlane, kubeconfig: &std::path::Path) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let text = std::fs::read_to_string(kubeconfig)?;
        let mut document: serde_json::Value = serde_saphyr::from_str(&text).context("the kubeconfig")?;
        let cluster = document.pointer_mut("/clusters/0/cluster").context("the kubeconfig has a cluster")?;
        *cluster = json!({"server": address});
        let path = plane.folder().join(format!("kubeconfig-faults-{}", listener.local_addr()?.port()));
        std::fs::write(&path, serde_json::to_vec(&document)?)?;

        let certificate = reqwest::Certificate::from_pem(&std::fs::read(plane.certificate())?)?;
        let http = reqwest::Client::builder().no_proxy().tls_certs_only([certificate]).build()?;
        let shared = Arc::new(Shared {
            told: Mutex::default(),
            released: watch::Sender::new(0),
            server: plane.server_url(),
            http,
        });
        let routes = Router::new().fallback(pass).with_state(Arc::clone(&shared));
        let mut server = JoinSet::new();
        server.spawn(async move {
            // The task ends when the value is dropped.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { kubeconfig: path, shared, _server: server })
    }

    /// The kubeconfig file of the clients that go through it.
    pub fn kubeconfig(&self) -> &std::path::Path {
        &self.kubeconfig
    }

    /// The next `times` requests of this method whose path has this part meet this fault.
    pub fn on(&self, method: Method, part: &str, times: usize, fault: Fault) {
        self.shared.told().rules.push(Rule { method, part: part.to_owned(), fault, times });
    }

    /// How many requests met a fault.
    pub fn met(&self) -> usize {
        self.shared.told().met
    }

    /// Requests that are [held](Fault::Held) continue.
    pub fn release(&self) {
        self.shared.released.send_modify(|count| *count += 1);
    }

    /// Every request so far, as `METHOD PATH`.
    pub fn seen(&self) -> Vec<String> {
        self.shared.told().seen.iter().map(|(method, path)| format!("{method} {path}")).collect()
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let fault = {
        let mut told = shared.told();
        let path = request.uri().path().to_owned();
        let method = request.method().clone();
        let rule =
            told.rules.iter_mut().find(|rule| rule.times > 0 && rule.method == method && path.contains(&rule.part));
        let fault = rule.map(|rule| {
            rule.times -= 1;
            rule.fault.clone()
        });
        told.met += usize::from(fault.is_some());
        told.seen.push((method, path));
        fault
    };
    match fault {
        None => forward(&shared, request).await,
        Some(Fault::Refused(code, reason)) => status(code, reason),
        Some(Fault::LostBefore) => broken(),
        Some(Fault::LostAfter) => {
            drop(whole(forward(&shared, request).await).await);
            broken()
        }
        Some(Fault::TimeoutAfter) => {
            drop(whole(forward(&shared, request).await).await);
            status(504, "Timeout")
        }
        Some(Fault::Silent { done }) => {
            if done {
                drop(whole(forward(&shared, request).await).await);
            }
            std::future::pending().await
        }
        Some(Fault::Slow(pause)) => {
            tokio::time::sleep(pause).await;
            forward(&shared, request).await
        }
        Some(Fault::Held) => {
            let mut released = shared.released.subscribe();
            // The sender is in `shared`.
            let _ = released.changed().await;
            forward(&shared, request).await
        }
    }
}

async fn whole(answer: Response) -> Vec<u8> {
    axum::body::to_bytes(answer.into_body(), usize::MAX).await.map(|bytes| bytes.to_vec()).unwrap_or_default()
}

async fn forward(shared: &Shared, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let url = format!("{}{}", shared.server, parts.uri.path_and_query().map_or("/", |path| path.as_str()));
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else { return broken() };
    let mut headers = parts.headers;
    for hop in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        headers.remove(hop);
    }
    let Ok(answer) = shared.http.request(parts.method, url).headers(headers).body(body).send().await else {
        return broken();
    };
    let mut response = Response::builder().status(answer.status());
    let skipped: [HeaderName; 3] = [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
    for (name, value) in answer.headers().iter().filter(|(name, _)| !skipped.contains(name)) {
        response = response.header(name, value);
    }
    response.body(Body::from_stream(answer.bytes_stream())).unwrap_or_else(|_| broken())
}

/// An answer that begins and does not end: the connection breaks.
fn broken() -> Response {
    let pieces = stream::iter([Ok("{"), Err(std::io::Error::other("broken"))]);
    Body::from_stream(pieces.map(|piece| piece.map(str::as_bytes))).into_response()
}

fn status(code: u16, reason: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("as the test wants it: {reason}"), "reason": reason, "code": code,
    });
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
