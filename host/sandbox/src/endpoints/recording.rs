//! What a plugin asked endpoints and what it got, to be asked again without them.
//!
//! A recording holds what crossed the boundary to the plugin, which no credential ever does. What a replay was asked and
//! could not answer, and what it was never asked, is known afterwards ([`Replay::misfit`]): both mean that the recording
//! is of another plugin than the one that runs.

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
    /// Which plugin was asking, where that was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plugin: Option<RecordedPlugin>,
    /// The sources, each with its endpoints.
    sources: BTreeMap<String, RecordedSource>,
}

/// Which plugin was asking, as it calls itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordedPlugin {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl std::fmt::Display for RecordedPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
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

/// One request and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exchange {
    /// The endpoint's name.
    pub endpoint: String,
    /// The method, in capitals.
    pub method: String,
    /// Below the base URL, with the query.
    pub path: String,
    /// The status, if an answer began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The headers of the answer, by lower-case names.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
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

impl Exchange {
    /// What was asked, in words.
    #[must_use]
    pub fn asked(&self) -> String {
        wanted(&self.method, &self.path, &self.endpoint)
    }

    /// The bytes of the body, as far as they were read.
    ///
    /// # Errors
    /// When it is written in base64, and that is broken.
    pub fn body(&self) -> Result<Vec<u8>, Error> {
        match (&self.text, &self.bytes) {
            (Some(text), _) => Ok(text.clone().into_bytes()),
            (None, Some(bytes)) => base64::engine::general_purpose::STANDARD
                .decode(bytes)
                .map_err(|_| Error::Protocol("the recording has a body that is no base64".to_owned())),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// Whether there was an answer, and an end of it.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.status.is_some() && self.error.is_none()
    }

    /// Whether the body is text: only then a person can read it in the file.
    #[must_use]
    pub const fn is_text(&self) -> bool {
        self.bytes.is_none()
    }

    /// Another body.
    pub fn set_body(&mut self, body: Vec<u8>) {
        (self.text, self.bytes) = match String::from_utf8(body) {
            Ok(text) => (Some(text), None),
            Err(bytes) => (None, Some(base64::engine::general_purpose::STANDARD.encode(bytes.as_bytes()))),
        };
    }

    /// Another end: with a status the answer breaks off after its body, without one there is no answer at all. `None`: the
    /// answer is whole.
    pub fn set_error(&mut self, error: Option<&Error>) {
        self.error = error.map(failed);
    }
}

/// A request in words, fit for a terminal: a recording may come from anyone.
fn wanted(method: &str, path: &str, endpoint: &str) -> String {
    let line = topoloom_core::text::line;
    format!("{} {} of the endpoint {}", line(method, 10), line(path, 200), line(endpoint, 63))
}

impl Recording {
    /// Which plugin was asking, if that was written down.
    #[must_use]
    pub const fn plugin(&self) -> Option<&RecordedPlugin> {
        self.plugin.as_ref()
    }

    /// The same, with the plugin that was asking.
    #[must_use]
    pub fn of_plugin(self, plugin: RecordedPlugin) -> Self {
        Self { plugin: Some(plugin), ..self }
    }

    /// The sources that it is of.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        self.sources.keys().map(String::as_str)
    }

    /// The same for a source of this name: where it is of one source, that one is meant, whatever its name is.
    ///
    /// # Errors
    /// When it is of several sources, and none has this name.
    pub fn for_source(mut self, source: &SourceName) -> Result<Self, String> {
        let own = self.sources.remove(&**source);
        let only = if self.sources.len() == 1 { self.sources.pop_first().map(|(_, source)| source) } else { None };
        match own.or(only) {
            Some(recorded) => Ok(Self { sources: BTreeMap::from([(source.to_string(), recorded)]), ..self }),
            None if self.sources.is_empty() => Ok(self),
            None => {
                let known = self.sources().collect::<Vec<_>>().join(", ");
                Err(format!(
                    "it is of the sources {}, and none is named {source}",
                    topoloom_core::text::line(&known, 200)
                ))
            }
        }
    }

    /// Every exchange, by source and in the order in which they happened.
    pub fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.sources.values().flat_map(|source| &source.exchanges)
    }

    /// The same, to be changed: what a service could have answered instead.
    pub fn exchanges_mut(&mut self) -> impl Iterator<Item = &mut Exchange> {
        self.sources.values_mut().flat_map(|source| &mut source.exchanges)
    }

    /// The sentences about what failed, to be changed: they may name what was asked.
    pub fn messages_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.sources.values_mut().flat_map(|source| {
            let RecordedSource { missing, exchanges, .. } = source;
            let of_exchanges = exchanges.iter_mut().filter_map(|exchange| exchange.error.as_mut());
            missing.values_mut().chain(of_exchanges).map(|failed| &mut failed.message)
        })
    }

    /// Whether nothing was asked of any endpoint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let is_silent = |source: &RecordedSource| {
            source.exchanges.is_empty() && source.credentials.is_empty() && source.missing.is_empty()
        };
        self.sources.values().all(is_silent)
    }

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
pub struct Replay(Mutex<Reel>);

#[derive(Debug)]
struct Reel {
    sources: BTreeMap<String, Left>,
    /// What it was asked and does not have, in words.
    missing: Vec<String>,
    /// What it was asked with a condition, by place.
    conditional: Vec<usize>,
}

/// Requests beyond these are not listed: a plugin may send a thousand.
const LISTED: usize = 20;

/// Where a recording and what was asked of it differ, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Misfit {
    /// What it has, and was not asked.
    pub unasked: Vec<String>,
    /// What it was asked, and does not have.
    pub missing: Vec<String>,
}

impl Misfit {
    /// Whether everything was asked, and nothing else.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.unasked.is_empty() && self.missing.is_empty()
    }
}

/// What was asked of a recording, by the places of its exchanges ([`Recording::exchanges`]).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    /// What was not asked.
    pub left: Vec<usize>,
    /// What was asked with a condition: only then 304 is an answer.
    pub conditional: Vec<usize>,
}

/// The headers that make a request conditional.
const CONDITIONS: [&str; 2] = ["if-none-match", "if-modified-since"];

#[derive(Debug)]
struct Left {
    credentials: BTreeMap<String, String>,
    missing: BTreeMap<String, Failed>,
    /// Each with its place in the whole recording.
    exchanges: VecDeque<(usize, Exchange)>,
}

impl Replay {
    /// From the beginning.
    #[must_use]
    pub fn new(recording: Recording) -> Self {
        let mut places = 0..;
        let left = |(name, source): (String, RecordedSource)| {
            let RecordedSource { credentials, missing, exchanges } = source;
            // Exchanges first: a place is taken only where there is one.
            let exchanges = exchanges.into_iter().zip(&mut places).map(|(exchange, place)| (place, exchange)).collect();
            (name, Left { credentials, missing, exchanges })
        };
        let sources = recording.sources.into_iter().map(left).collect();
        Self(Mutex::new(Reel { sources, missing: Vec::new(), conditional: Vec::new() }))
    }

    /// What was not asked by now, and what was asked in vain.
    #[must_use]
    pub fn misfit(&self) -> Misfit {
        let reel = self.reel();
        let unasked = reel.sources.values().flat_map(|source| &source.exchanges).map(|(_, exchange)| exchange);
        Misfit { unasked: unasked.take(LISTED).map(Exchange::asked).collect(), missing: reel.missing.clone() }
    }

    /// What was asked by now, and how.
    #[must_use]
    pub fn uses(&self) -> Uses {
        let reel = self.reel();
        let left = reel.sources.values().flat_map(|source| &source.exchanges).map(|(place, _)| *place);
        Uses { left: left.collect(), conditional: reel.conditional.clone() }
    }

    fn reel(&self) -> MutexGuard<'_, Reel> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn credential(&self, source: &SourceName, endpoint: &str) -> Result<CredentialKind, Error> {
        let reel = self.reel();
        let Some(source) = reel.sources.get(&**source) else { return Ok(CredentialKind::None) };
        if let Some(failed) = source.missing.get(endpoint) {
            return Err(again(failed));
        }
        let kind = source.credentials.get(endpoint);
        Ok(kind.and_then(|word| CredentialKind::parse(word)).unwrap_or(CredentialKind::None))
    }

    pub(super) fn answer(&self, source: &SourceName, asked: &EndpointRequest) -> Result<Reply, Error> {
        let mut reel = self.reel();
        let found = reel.take(source, asked);
        if found.is_err() && reel.missing.len() < LISTED {
            let asked = wanted(asked.method.as_str(), &asked.path_and_query, &asked.endpoint);
            reel.missing.push(asked);
        }
        drop(reel);
        let exchange = found?;
        if let (None, Some(error)) = (exchange.status, &exchange.error) {
            return Err(again(error));
        }
        let body = exchange.body()?;
        let Usual { total: limit, .. } = Usual::default();
        let bounds = BodyBounds { size: u64::MAX, deadline: Instant::now() + limit, limit };
        let mut body = Body::here(Bytes::from(body), bounds);
        if let Some(error) = &exchange.error {
            body.ends_with(again(error));
        }
        Ok(Reply { status: exchange.status.unwrap_or(200), headers: exchange.headers, body })
    }
}

impl Reel {
    /// The next exchange that is this one.
    fn take(&mut self, source: &SourceName, asked: &EndpointRequest) -> Result<Exchange, Error> {
        let is_it = |(_, exchange): &(usize, Exchange)| {
            exchange.endpoint == asked.endpoint
                && exchange.method == asked.method.as_str()
                && exchange.path == asked.path_and_query
        };
        if !self.sources.contains_key(&**source) {
            let known: Vec<&str> = self.sources.keys().map(String::as_str).collect();
            return Err(Error::Connect(format!(
                "the recording has nothing of the source {source}, only of {}; record it again with this configuration",
                topoloom_core::text::line(&known.join(", "), 200)
            )));
        }
        let exchanges = self.sources.get_mut(&**source).map(|source| &mut source.exchanges);
        let found = exchanges.and_then(|exchanges| {
            let at = exchanges.iter().position(is_it)?;
            exchanges.remove(at)
        });
        let is_conditional =
            asked.headers.iter().any(|(name, _)| CONDITIONS.iter().any(|known| name.eq_ignore_ascii_case(known)));
        self.conditional.extend(found.as_ref().filter(|_| is_conditional).map(|(place, _)| *place));
        found.map(|(_, exchange)| exchange).ok_or_else(|| {
            let wanted = wanted(asked.method.as_str(), &asked.path_and_query, &asked.endpoint);
            Error::Connect(format!("the recording has no (further) {wanted}; record it again with this configuration"))
        })
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
    fn what_a_recording_lacks_and_what_no_one_asked_of_it_is_known_afterwards() {
        let recorder = Recorder::default();
        for path in ["/a", "/b"] {
            recorder.asked(&named("s"), &asked(path), Err(&Error::Connect("refused".into())));
        }
        let replay = Replay::new(recorder.recording());
        for path in ["/a", "/c"] {
            assert!(replay.answer(&named("s"), &asked(path)).is_err());
        }
        let misfit = replay.misfit();
        assert_eq!(misfit.unasked, ["GET /b of the endpoint e"]);
        assert_eq!(misfit.missing, ["GET /c of the endpoint e"]);
        assert!(!misfit.is_none() && Replay::new(Recording::default()).misfit().is_none());
    }

    #[test]
    fn what_was_asked_is_known_by_its_place_and_so_is_what_was_asked_with_a_condition() {
        let recorder = Recorder::default();
        for (source, path) in [("s", "/a"), ("s", "/a"), ("r", "/b")] {
            recorder.asked(&named(source), &asked(path), Err(&Error::Connect("refused".into())));
        }
        // In the order of the sources: /b of r, then twice /a of s.
        let replay = Replay::new(recorder.recording());
        let conditional = EndpointRequest { headers: vec![("If-None-Match".into(), "7".into())], ..asked("/a") };
        for request in [&conditional, &asked("/c")] {
            assert!(replay.answer(&named("s"), request).is_err());
        }
        assert_eq!(replay.uses(), Uses { left: vec![0, 2], conditional: vec![1] });
    }

    #[test]
    fn a_recording_of_one_source_is_for_any_and_one_of_several_for_those() {
        let recorder = Recorder::default();
        recorder.asked(&named("s"), &asked("/a"), Err(&Error::Connect("refused".into())));
        let one = recorder.recording();
        assert_eq!(one.clone().for_source(&named("x")).unwrap().sources().collect::<Vec<_>>(), ["x"]);
        recorder.asked(&named("t"), &asked("/b"), Err(&Error::Connect("refused".into())));
        let two = recorder.recording();
        assert_eq!(two.clone().for_source(&named("t")).unwrap().exchanges().count(), 1);
        let refused = two.for_source(&named("x")).unwrap_err();
        assert_eq!(refused, "it is of the sources s, t, and none is named x");
        assert!(Recording::default().for_source(&named("x")).unwrap().is_empty() && !one.is_empty());
    }

    #[test]
    fn the_plugin_that_was_asking_is_part_of_the_file_and_a_body_can_be_another_one() {
        let recorder = Recorder::default();
        let limit = std::time::Duration::from_secs(1);
        let bounds = BodyBounds { size: 10, deadline: Instant::now() + limit, limit };
        let reply = Reply { status: 200, headers: Vec::new(), body: Body::here(Bytes::new(), bounds) };
        recorder.asked(&named("s"), &asked("/a"), Ok(&reply));
        let plugin = RecordedPlugin { name: "racks".into(), version: "0.1.0".into() };
        let mut recording = recorder.recording().of_plugin(plugin);
        for exchange in recording.exchanges_mut() {
            exchange.status = Some(503);
            exchange.set_body(b"\xff".to_vec());
            assert!(!exchange.is_text());
            exchange.set_body(b"soon".to_vec());
            exchange.set_error(Some(&Error::Protocol("broke off".into())));
        }
        let read = Recording::parse(&recording.print().unwrap()).unwrap();
        assert_eq!(read, recording);
        assert_eq!(read.plugin().map(ToString::to_string).as_deref(), Some("racks 0.1.0"));
        let exchange = read.exchanges().next().unwrap();
        assert_eq!((exchange.status, exchange.body().unwrap().as_slice()), (Some(503), &b"soon"[..]));
        assert_eq!(exchange.asked(), "GET /a of the endpoint e");
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        assert!(Recording::parse("{}").is_err());
        let later = Recording::parse(r#"{"version": 2, "plugins": {}}"#).unwrap_err();
        assert_eq!(later, "it is a recording of version 2, this host reads 1");
    }
}
