//! One question to a physical API server: whether it answers, and which cluster it is.
//!
//! Owns what counts as an answer. `/readyz` with 200 and `ok` does, and 429: a busy server lives. So does `/version`, where the server
//! does not let us read `/readyz`. A 5xx does not: the server lives, but what it would say about its nodes may be nothing. Neither
//! does a server that refuses our credential everywhere: what is cached of it can never be confirmed. Nor does what a proxy says in
//! place of a server: a redirect to a login, a page about maintenance.
//!
//! A cluster is known by the UID of its namespace `kube-system` (decision S6).

use std::fmt;
use std::time::Duration;

use http::{Request, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::Api;
use kube::api::ListParams;
use kube::client::Body;
use serde_json::Value;
use topoloom_cluster::{Refusal, RefusalReason, Side};
use topoloom_core::names::Uid;
use topoloom_core::rules::is_label_value;
use topoloom_core::text;
use topoloom_core::version::ResourceVersion;

/// How long a probe may take (decision S5).
pub const PATIENCE: Duration = Duration::from_secs(4);
/// How long other questions may take.
const LONGER: Duration = Duration::from_secs(10);
/// The namespace whose UID is that of the cluster.
const NAMESPACE: &str = "kube-system";
/// The longest sentence of a server that is repeated, in bytes.
const SHOWN: usize = 1000;
/// How much of the answer to a probe is read, in bytes: that of an API server is short.
const READ: usize = 64 << 10;
/// How much of an answer that no API server gives is repeated, in bytes.
const SAID: usize = 60;

/// What an API server answers at a path.
struct Wanted {
    path: &'static str,
    /// The answer in words.
    words: &'static str,
    is_it: fn(&[u8]) -> bool,
}

const READY: Wanted = Wanted { path: "/readyz", words: "\"ok\"", is_it: says_ok };
const VERSION: Wanted = Wanted { path: "/version", words: "an object with gitVersion", is_it: says_version };

/// Why the first contact failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContactError {
    /// What was asked.
    pub asked: Question,
    /// What came of it.
    pub refusal: Refusal,
}

/// What a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Whether it is there.
    Probe,
    /// Which cluster it is.
    Identity,
}

impl fmt::Display for ContactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = match self.asked {
            Question::Probe => "the API server is not ready",
            Question::Identity => "the UID of its namespace kube-system cannot be read",
        };
        write!(f, "{asked}: {}", self.refusal)
    }
}

impl std::error::Error for ContactError {}

/// Asks whether the server is there.
///
/// # Errors
/// Why it does not count as reachable.
pub async fn probe(client: &kube::Client) -> Result<(), Refusal> {
    let asked = async {
        match ask(client, &READY).await {
            Err(refusal) if is_not_ours_to_ask(refusal.reason) => ask(client, &VERSION).await,
            answer => answer,
        }
    };
    match tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| Err(silence(PATIENCE))) {
        Err(refusal) if refusal.reason == RefusalReason::TooManyRequests => Ok(()),
        Err(refusal) if is_absent(refusal.reason) => Err(ours(no_server())),
        answer => answer.map_err(ours),
    }
}

async fn ask(client: &kube::Client, wanted: &Wanted) -> Result<(), Refusal> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = Uri::from_static(wanted.path);
    let (head, body) = client.send(request).await?.into_parts();
    let body = beginning(body).await?;
    if head.status.is_client_error() || head.status.is_server_error() {
        return Err(Refusal::of_answer(&Response::from_parts(head, &*body)));
    }
    if head.status == StatusCode::OK && (wanted.is_it)(&body) {
        return Ok(());
    }
    Err(no_answer(wanted, head.status, &body))
}

/// The body of an answer; where that is long, its beginning.
async fn beginning(body: Body) -> Result<Vec<u8>, Refusal> {
    let mut body = std::pin::pin!(body);
    let mut read = Vec::new();
    while read.len() < READ
        && let Some(frame) = body.frame().await
    {
        if let Ok(data) = frame?.into_data() {
            read.extend_from_slice(&data);
        }
    }
    Ok(read)
}

fn says_ok(body: &[u8]) -> bool {
    body.trim_ascii() == b"ok"
}

fn says_version(body: &[u8]) -> bool {
    let version = serde_json::from_slice::<Value>(body);
    version.is_ok_and(|version| version.get("gitVersion").is_some_and(Value::is_string))
}

/// Something answers, and not as an API server does.
fn no_answer(wanted: &Wanted, status: StatusCode, body: &[u8]) -> Refusal {
    let said = String::from_utf8_lossy(body.get(..4 * SAID).unwrap_or(body));
    let said = match said.trim() {
        "" => "no text".to_owned(),
        said => format!("\"{}\"", text::line(said, SAID)),
    };
    let message = format!(
        "{} was answered with {status} and {said}; an API server answers with 200 OK and {}, so another program answers in its place",
        wanted.path, wanted.words
    );
    Refusal { reason: RefusalReason::ServerError, message, retry_after: None }
}

fn is_not_ours_to_ask(reason: RefusalReason) -> bool {
    let is_refused =
        matches!(reason, RefusalReason::Forbidden | RefusalReason::Unauthorized | RefusalReason::DeniedByAdmission);
    is_refused || is_absent(reason)
}

fn is_absent(reason: RefusalReason) -> bool {
    matches!(reason, RefusalReason::NotFound | RefusalReason::NoSuchResource)
}

/// Where every API server has its version there is nothing. By the words of a 404 it would be an object or a definition that is missing.
fn no_server() -> Refusal {
    let message = format!("{} was answered with {}", VERSION.path, StatusCode::NOT_FOUND);
    Refusal { reason: RefusalReason::NotFound, message, retry_after: None }
}

/// Asks which cluster it is.
///
/// # Errors
/// Why that cannot be read.
pub async fn identity(client: &kube::Client) -> Result<Uid, Refusal> {
    let api = Api::<Namespace>::all(client.clone());
    let found = in_time(api.get_metadata(NAMESPACE)).await?.metadata.uid.unwrap_or_default();
    if found.is_empty() || is_label_value(&found).is_err() {
        let message = "its namespace kube-system has no UID, or one that cannot be the value of a label".to_owned();
        return Err(ours(Refusal { reason: RefusalReason::ServerError, message, retry_after: None }));
    }
    Ok(found.into())
}

/// The first contact: whether it is there, then which cluster it is.
///
/// # Errors
/// Why not.
pub async fn first(client: &kube::Client) -> Result<Uid, ContactError> {
    probe(client).await.map_err(|refusal| ContactError { asked: Question::Probe, refusal })?;
    identity(client).await.map_err(|refusal| ContactError { asked: Question::Identity, refusal })
}

/// Asks which version its store is at, by a list of one object that no cache answers (decision S25).
///
/// # Errors
/// Why it does not say.
pub async fn version(client: &kube::Client) -> Result<ResourceVersion, Refusal> {
    let one = ListParams::default().limit(1);
    let list = in_time(Api::<Node>::all(client.clone()).list_metadata(&one)).await?;
    let version = list.metadata.resource_version.filter(|version| !version.is_empty());
    version.map(ResourceVersion::from).ok_or_else(|| {
        let message = "it sent a list without a resourceVersion".to_owned();
        ours(Refusal { reason: RefusalReason::ServerError, message, retry_after: None })
    })
}

async fn in_time<T>(answer: impl Future<Output = kube::Result<T>>) -> Result<T, Refusal> {
    match tokio::time::timeout(LONGER, answer).await {
        Ok(answer) => answer.map_err(|error| ours(Refusal::of(&error))),
        Err(_) => Err(ours(silence(LONGER))),
    }
}

fn silence(time: Duration) -> Refusal {
    let message = format!("the API server did not answer within {} s", time.as_secs());
    Refusal { reason: RefusalReason::Unreachable, message, retry_after: None }
}

/// With its cluster, and on one line: a server may answer with a page.
fn ours(refusal: Refusal) -> Refusal {
    let message = text::line(&refusal.message, SHOWN);
    Refusal { message, ..refusal }.on(Side::Physical)
}
