//! What a plugin asked endpoints and what it got, to be asked again without them.
//!
//! A recording holds what crossed the boundary to the plugin, which no credential ever does.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use topoloom_core::names::SourceName;
use topoloom_core::plugin::CredentialKind;

use super::body::{Body, BodyBounds};
use super::error::{Denial, Error, Wait};
use super::plan::Usual;
use super::{EndpointRequest, Reply};

/// The version of the form below.
const VERSION: u32 = 1;

/// A recording as a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Recording {
    version: u32,
    /// The sources, each with its endpoints.
    sources: BTreeMap<String, RecordedSource>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RecordedSource {
    /// The kind of credential of each endpoint that was asked about.
    #[serde(default)]
    credentials: BTreeMap<String, String>,
    /// Why an endpoint that was asked about had no credential.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    missing: BTreeMap<String, Failed>,
    exchanges: Vec<Exchange>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Exchange {
    endpoint: String,
    method: String,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    /// The body, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The body in base64, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    /// Why there was no answer, or no end of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Failed>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Failed {
    kind: String,
    message: String,
    /// What was not granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    denial: Option<String>,
    /// What took too long, and its limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    milliseconds: Option<u64>,
}

impl Recording {
    /// Reads a file.
    ///
    /// # Errors
    /// Where it is no recording.
    pub fn parse(text: &str) -> Result<Self, String> {
        // First the version: another one may have other fields.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let not = |error: serde_json::Error| format!("it is no recording: {error}");
        match serde_json::from_str::<Versioned>(text).map_err(not)?.version {
            VERSION => serde_json::from_str(text).map_err(not),
            other => Err(format!("it is a recording of version {other}, this host reads {VERSION}")),
        }
    }

    /// The file.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn print(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

/// Writes down what happens.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Recording>>);

impl Recorder {
    /// What happened so far.
    #[must_use]
    pub fn recording(&self) -> Recording {
        Recording { version: VERSION, ..self.lock().clone() }
    }

    pub(super) fn credential(&self, source: &SourceName, endpoint: &str, found: &Result<CredentialKind, Error>) {
        let mut recording = self.lock();
        let source = recording.sources.entry(source.to_string()).or_default();
        match found {
            Ok(kind) => {
                source.credentials.insert(endpoint.to_owned(), kind.as_str().to_owned());
            }
            Err(error) => {
                source.missing.insert(endpoint.to_owned(), failed(error));
            }
        }
    }

    /// A request and the head of its answer. Answers which exchange it is.
    pub(super) fn asked(&self, source: &SourceName, asked: &EndpointRequest, answer: Result<&Reply, &Error>) -> usize {
        let exchange = Exchange {
            endpoint: asked.endpoint.clone(),
            method: asked.method.as_str().to_owned(),
            path: asked.path_and_query.clone(),
            status: answer.ok().map(|reply| reply.status),
            headers: answer.map(|reply| reply.headers.clone()).unwrap_or_default(),
            text: None,
            bytes: None,
            error: answer.err().map(failed),
        };
        let mut recording = self.lock();
        let exchanges = &mut recording.sources.entry(source.to_string()).or_default().exchanges;
        exchanges.push(exchange);
        exchanges.len() - 1
    }

    /// The body of an exchange, as far as the plugin read it.
    pub(super) fn read(&self, source: &SourceName, exchange: usize, body: Vec<u8>, error: Option<&Error>) {
        let mut recording = self.lock();
        let exchanges = recording.sources.get_mut(&**source).map(|source| &mut source.exchanges);
        let Some(exchange) = exchanges.and_then(|exchanges| exchanges.get_mut(exchange)) else { return };
        exchange.error = error.map(failed);
        match String::from_utf8(body) {
            Ok(text) => exchange.text = Some(text),
            Err(bytes) => {
                exchange.bytes = Some(base64::engine::general_purpose::STANDARD.encode(bytes.as_bytes()));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(error: &Error) -> Failed {
    let mut failed = Failed { kind: error.word().to_owned(), message: error.to_string(), ..Failed::default() };
    match error {
        Error::Denied { denial, .. } => failed.denial = Some(denial.word().to_owned()),
        Error::Timeout { what, limit } => {
            failed.wait = Some(what.word().to_owned());
            failed.milliseconds = u64::try_from(limit.as_millis()).ok();
        }
        _ => {}
    }
    failed
}

/// Answers from a recording: each exchange once, in the order in which they were recorded.
#[derive(Debug)]
pub struct Replay(Mutex<BTreeMap<String, Left>>);

#[derive(Debug)]
struct Left {
    credentials: BTreeMap<String, String>,
    missing: BTreeMap<String, Failed>,
    exchanges: VecDeque<Exchange>,
}

impl Replay {
    /// From the beginning.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        let left = |(name, source): (String, RecordedSource)| {
            let RecordedSource { credentials, missing, exchanges } = source;
            (name, Left { credentials, missing, exchanges: exchanges.into() })
        };
        Self(Mutex::new(recording.sources.into_iter().map(left).collect()))
    }

    pub(super) fn credential(&self, source: &SourceName, endpoint: &str) -> Result<CredentialKind, Error> {
        let left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(source) = left.get(&**source) else { return Ok(CredentialKind::None) };
        if let Some(failed) = source.missing.get(endpoint) {
            return Err(again(failed));
        }
        let kind = source.credentials.get(endpoint);
        Ok(kind.and_then(|word| CredentialKind::parse(word)).unwrap_or(CredentialKind::None))
    }

    pub(super) fn answer(&self, source: &SourceName, asked: &EndpointRequest) -> Result<Reply, Error> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |exchange: &Exchange| {
            exchange.endpoint == asked.endpoint
                && exchange.method == asked.method.as_str()
                && exchange.path == asked.path_and_query
        };
        let known: Vec<&str> = left.keys().map(String::as_str).collect();
        if !left.contains_key(&**source) {
            return Err(Error::Connect(format!(
                "the recording has nothing of the source {source}, only of {}; record it again with this configuration",
                topoloom_core::text::line(&known.join(", "), 200)
            )));
        }
        let exchanges = left.get_mut(&**source).map(|source| &mut source.exchanges);
        let found = exchanges.and_then(|exchanges| {
            let at = exchanges.iter().position(is_it)?;
            exchanges.remove(at)
        });
        let Some(exchange) = found else {
            return Err(Error::Connect(format!(
                "the recording has no (further) {} {} of the endpoint {}; record it again with this configuration",
                asked.method,
                topoloom_core::text::line(&asked.path_and_query, 200),
                topoloom_core::text::line(&asked.endpoint, 63)
            )));
        };
        if let (None, Some(error)) = (exchange.status, &exchange.error) {
            return Err(again(error));
        }
        let body = match (&exchange.text, &exchange.bytes) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(bytes)) => base64::engine::general_purpose::STANDARD
                .decode(bytes)
                .map_err(|_| Error::Protocol("the recording has a body that is no base64".to_owned()))?,
            (None, None) => Vec::new(),
        };
        let Usual { total: limit, .. } = Usual::default();
        let bounds = BodyBounds { size: u64::MAX, deadline: Instant::now() + limit, limit };
        let mut body = Body::here(Bytes::from(body), bounds);
        if let Some(error) = &exchange.error {
            body.ends_with(again(error));
        }
        Ok(Reply { status: exchange.status.unwrap_or(200), headers: exchange.headers, body })
    }
}

fn again(failed: &Failed) -> Error {
    let message = failed.message.clone();
    let denial = failed.denial.as_deref().and_then(Denial::parse).unwrap_or(Denial::Endpoint);
    let what = failed.wait.as_deref().and_then(Wait::parse);
    match (failed.kind.as_str(), what, failed.milliseconds) {
        ("denied", ..) => Error::denied(denial, message),
        ("timeout", Some(what), Some(limit)) => Error::Timeout { what, limit: Duration::from_millis(limit) },
        ("too-large", ..) => Error::TooLarge(message),
        ("protocol", ..) => Error::Protocol(message),
        _ => Error::Connect(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topoloom_core::plugin::Method;

    fn named(source: &str) -> SourceName {
        source.parse().unwrap()
    }

    fn asked(path: &str) -> EndpointRequest {
        EndpointRequest {
            endpoint: "e".into(),
            method: Method::Get,
            path_and_query: path.into(),
            headers: Vec::new(),
            body: None,
        }
    }

    #[tokio::test]
    async fn what_was_recorded_is_answered_again_once() {
        let recorder = Recorder::default();
        let limit = std::time::Duration::from_secs(1);
        let bounds = BodyBounds { size: 10, deadline: Instant::now() + limit, limit };
        let reply =
            Reply { status: 200, headers: vec![("etag".into(), "7".into())], body: Body::here(Bytes::new(), bounds) };
        let at = recorder.asked(&named("s"), &asked("/a"), Ok(&reply));
        recorder.read(&named("s"), at, b"\xff\x00".to_vec(), Some(&Error::Protocol("broke off".into())));
        recorder.asked(&named("s"), &asked("/b"), Err(&Error::Connect("refused".into())));
        recorder.credential(&named("s"), "e", &Ok(CredentialKind::Token));
        let text = recorder.recording().print().unwrap();
        let replay = Replay::new(Recording::parse(&text).unwrap());
        assert_eq!(replay.credential(&named("s"), "e"), Ok(CredentialKind::Token));
        assert_eq!(replay.answer(&named("s"), &asked("/b")).err(), Some(Error::Connect("refused".into())));
        let mut again = replay.answer(&named("s"), &asked("/a")).unwrap();
        assert_eq!((again.status, again.headers.len()), (200, 1));
        assert_eq!(again.body.read(10).await.unwrap(), b"\xff\x00");
        assert_eq!(again.body.read(10).await, Err(Error::Protocol("broke off".into())));
        assert!(replay.answer(&named("s"), &asked("/a")).is_err(), "it was answered once");
        assert!(replay.answer(&named("other"), &asked("/a")).is_err());
    }

    #[test]
    fn a_failure_comes_back_as_the_same_failure() {
        let recorder = Recorder::default();
        let mut errors = vec![
            Error::Connect("refused".into()),
            Error::TooLarge("more than 8 MiB".into()),
            Error::Protocol("broke off".into()),
        ];
        errors.extend(Denial::ALL.map(|denial| Error::denied(denial, "not granted")));
        errors.extend(Wait::ALL.map(|what| Error::Timeout { what, limit: Duration::from_millis(2500) }));
        for error in &errors {
            recorder.asked(&named("s"), &asked("/a"), Err(error));
        }
        let missing = Error::denied(Denial::Credential, "the Secret ns/fabric is not there");
        recorder.credential(&named("s"), "e", &Err(missing.clone()));
        let text = recorder.recording().print().unwrap();
        let replay = Replay::new(Recording::parse(&text).unwrap());
        for error in errors {
            assert_eq!(replay.answer(&named("s"), &asked("/a")).err(), Some(error));
        }
        assert_eq!(replay.credential(&named("s"), "e"), Err(missing));
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        assert!(Recording::parse("{}").is_err());
        let later = Recording::parse(r#"{"version": 2, "plugins": {}}"#).unwrap_err();
        assert_eq!(later, "it is a recording of version 2, this host reads 1");
    }
}
