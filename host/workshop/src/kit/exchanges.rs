//! What services answered in a case, and the same on a bad day.
//!
//! Owns a recording as a list of exchanges in the form of its file (`topoloom_sandbox::endpoints::recording`), and what is
//! made of one of them. Never dials: the sandbox answers from what is in here.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use topoloom_core::names::SourceName;
use topoloom_core::plugin::{Granted, GrantedEndpoint, Limit};
use topoloom_sandbox::endpoints::plan::Plan;
use topoloom_sandbox::endpoints::recording::{Recording, Replay};
use topoloom_sandbox::endpoints::spec::{
    Carrier, DEFAULT_CONNECT, DEFAULT_FIRST_BYTE, DEFAULT_MAX_BODY, DEFAULT_TOTAL, Redirects, Timeouts, Tls,
};
use topoloom_sandbox::endpoints::{Endpoints, Outside, Tape};

/// A login page, as a proxy before a service sends one.
const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><form action=\"/login\" method=\"post\">\
                    <input name=\"user\"><input name=\"password\" type=\"password\"></form></body></html>\n";

/// How many times as large a body becomes.
const TIMES: usize = 100;

/// The version of the form of a recording.
const VERSION: u32 = 1;

/// The exchanges of one plugin, in the order in which they happened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Exchanges {
    /// What belongs to the source beside its exchanges: the kinds of credential.
    beside: Map<String, Value>,
    list: Vec<Map<String, Value>>,
}

/// What becomes of one exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadDay {
    /// This status, without a body that helps.
    Status(u16),
    /// A redirect to a login page.
    Redirect,
    /// A login page in place of the answer.
    Page,
    /// 503 with a pause in seconds.
    Busy(u32),
    /// 200 and nothing.
    Empty,
    /// So many quarters of the body, then the connection breaks off.
    Cut(usize),
    /// No connection.
    Refused,
    /// No answer in time.
    Late,
    /// One record of another form.
    Odd,
    /// A body a hundred times as large.
    Large,
}

impl Exchanges {
    /// Reads a recording of one source.
    ///
    /// # Errors
    /// Where it is no recording, or one of several sources.
    pub fn parse(text: &str) -> Result<Self, String> {
        Recording::parse(text)?;
        let mut whole: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut sources = match whole.get_mut("sources").map(Value::take) {
            Some(Value::Object(sources)) => sources.into_iter(),
            _ => Map::new().into_iter(),
        };
        let (first, more) = (sources.next(), sources.next());
        let Some((_, Value::Object(mut beside))) = first else { return Ok(Self::default()) };
        if more.is_some() {
            return Err("it has exchanges of several sources; record each by itself".to_owned());
        }
        let list = match beside.remove("exchanges") {
            Some(Value::Array(list)) => list.into_iter(),
            _ => Vec::new().into_iter(),
        };
        let list = list.filter_map(|exchange| match exchange {
            Value::Object(exchange) => Some(exchange),
            _ => None,
        });
        Ok(Self { list: list.collect(), beside })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The endpoints of a plugin that answer from here, and from nowhere else.
    ///
    /// # Errors
    /// When the exchanges have not the form of a recording: a bug.
    pub fn endpoints(&self, source: &SourceName, granted: &Granted) -> Result<Arc<Endpoints>, String> {
        let mut of_source = self.beside.clone();
        of_source.insert("exchanges".to_owned(), self.list.iter().cloned().map(Value::Object).collect());
        let whole = json!({"version": VERSION, "sources": {&**source: of_source}});
        let recording = Recording::parse(&whole.to_string())?;
        let outside = Outside { tape: Tape::Replay(Arc::new(Replay::new(recording))), ..Outside::offline() };
        let plans = granted.endpoints.values().map(plan).collect();
        Ok(Arc::new(Endpoints::new(source, plans, &outside)))
    }

    /// What an exchange was, for a sentence: `GET /v1/nodes of list`.
    pub(super) fn name(&self, at: usize) -> String {
        let word = |key: &str| self.list.get(at).and_then(|exchange| exchange.get(key)?.as_str()).unwrap_or("?");
        format!("{} {} of {}", word("method"), word("path"), word("endpoint"))
    }

    /// The exchanges that had a whole answer, each kind of request once: pages of one list are one kind.
    pub(super) fn answered(&self, most: usize) -> Vec<usize> {
        let mut known: Vec<(&str, &str, &str)> = Vec::new();
        let mut found = Vec::new();
        for (at, exchange) in self.list.iter().enumerate() {
            let word = |key: &str| exchange.get(key).and_then(Value::as_str).unwrap_or_default();
            let path = word("path");
            let kind = (word("endpoint"), word("method"), path.split('?').next().unwrap_or(path));
            let status = exchange.get("status").and_then(Value::as_u64).unwrap_or(0);
            let is_whole = (200..300).contains(&status) && !exchange.contains_key("error");
            if is_whole && !known.contains(&kind) && found.len() < most {
                known.push(kind);
                found.push(at);
            }
        }
        found
    }

    /// The same with one exchange changed; `None` where there is nothing that could be changed in this way.
    pub(super) fn on(&self, day: BadDay, at: usize) -> Option<Self> {
        let mut changed = self.clone();
        let exchange = changed.list.get_mut(at)?;
        match day {
            BadDay::Status(status) => answer(exchange, status, &[], &format!("{{\"error\": \"status {status}\"}}")),
            BadDay::Redirect => answer(exchange, 302, &[("location", "https://login.example/")], PAGE),
            BadDay::Page => answer(exchange, 200, &[("content-type", "text/html; charset=utf-8")], PAGE),
            BadDay::Busy(seconds) => answer(exchange, 503, &[("retry-after", seconds.to_string().as_str())], ""),
            BadDay::Empty => answer(exchange, 200, &[], ""),
            BadDay::Cut(quarters) => {
                let whole = body(exchange)?;
                let kept = whole.get(..whole.len() / 4 * quarters)?;
                put(exchange, kept);
                let message = format!("the answer broke off after {} bytes", kept.len());
                exchange.insert("error".to_owned(), json!({"kind": "protocol", "message": message}));
            }
            BadDay::Refused => {
                silence(exchange, json!({"kind": "connect", "message": "the connection was refused"}));
            }
            BadDay::Late => {
                let (wait, milliseconds) = ("firstByte", 30_000);
                let message = "the first byte of the answer took longer than 30s";
                let error = json!({"kind": "timeout", "message": message, "wait": wait, "milliseconds": milliseconds});
                silence(exchange, error);
            }
            BadDay::Odd => {
                let mut document: Value = serde_json::from_slice(&body(exchange)?).ok()?;
                let records = records(&mut document)?;
                let middle = records.len() / 2;
                let record = records.get_mut(middle)?;
                *record = odd(record);
                put(exchange, document.to_string().as_bytes());
            }
            BadDay::Large => {
                let whole = body(exchange)?;
                let most = Limit::Body.fixed().size();
                let times = TIMES.min(most / whole.len().max(1));
                put(exchange, &many(&whole, times)?);
            }
        }
        Some(changed)
    }
}

/// An endpoint that answers from a recording: nothing of it is dialled.
fn plan(granted: &GrantedEndpoint) -> Plan {
    let GrantedEndpoint { required, permission } = granted;
    Plan {
        name: required.name.as_str().into(),
        carrier: Carrier::File(PathBuf::new()),
        methods: permission.methods.clone(),
        paths: permission.paths.clone(),
        narrowed: Vec::new(),
        addresses: Vec::new(),
        tls: Tls::default(),
        timeouts: Timeouts { connect: DEFAULT_CONNECT, first_byte: DEFAULT_FIRST_BYTE, total: DEFAULT_TOTAL },
        max_body: DEFAULT_MAX_BODY.as_u64(),
        redirects: Redirects::None,
        kinds: required.credentials.clone(),
        credentials: None,
    }
}

/// Another answer in place of the recorded one.
fn answer(exchange: &mut Map<String, Value>, status: u16, headers: &[(&str, &str)], text: &str) {
    exchange.insert("status".to_owned(), json!(status));
    exchange.insert("headers".to_owned(), json!(headers));
    exchange.remove("error");
    put(exchange, text.as_bytes());
}

/// No answer at all.
fn silence(exchange: &mut Map<String, Value>, error: Value) {
    for key in ["status", "text", "bytes"] {
        exchange.remove(key);
    }
    exchange.insert("headers".to_owned(), json!([]));
    exchange.insert("error".to_owned(), error);
}

/// The body as bytes; `None` where it cannot be read.
fn body(exchange: &Map<String, Value>) -> Option<Vec<u8>> {
    match (exchange.get("text"), exchange.get("bytes")) {
        (Some(Value::String(text)), _) => Some(text.clone().into_bytes()),
        (_, Some(Value::String(bytes))) => STANDARD.decode(bytes).ok(),
        _ => Some(Vec::new()),
    }
}

/// Sets the body. What is cut inside of a character is no text.
fn put(exchange: &mut Map<String, Value>, body: &[u8]) {
    exchange.remove("text");
    exchange.remove("bytes");
    match std::str::from_utf8(body) {
        Ok(text) => exchange.insert("text".to_owned(), json!(text)),
        Err(_) => exchange.insert("bytes".to_owned(), json!(STANDARD.encode(body))),
    };
}

/// The longest list of a document: its records, where it has several.
fn records(document: &mut Value) -> Option<&mut Vec<Value>> {
    let path = longest(document, String::new())?.1;
    document.pointer_mut(&path).and_then(Value::as_array_mut)
}

/// The length and the place of the longest list with more than one element.
fn longest(value: &Value, path: String) -> Option<(usize, String)> {
    let below = |(key, value): (String, &Value)| longest(value, format!("{path}/{}", escaped(&key)));
    let (own, below): (usize, Vec<(usize, String)>) = match value {
        Value::Array(list) => {
            let below = list.iter().enumerate().filter_map(|(at, value)| below((at.to_string(), value)));
            (list.len(), below.collect())
        }
        Value::Object(fields) => (0, fields.iter().filter_map(|(key, value)| below((key.clone(), value))).collect()),
        _ => return None,
    };
    // Of lists of one length the outer one: the first that is met.
    let mut best = (own > 1).then_some((own, path));
    for (length, at) in below {
        if best.as_ref().is_none_or(|(known, _)| length > *known) {
            best = Some((length, at));
        }
    }
    best
}

/// A key as a part of a JSON pointer (RFC 6901).
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A record with the keys of this one and values of other types.
fn odd(record: &Value) -> Value {
    match record {
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| (key.clone(), other_type(value))).collect::<Map<_, _>>().into()
        }
        other => other_type(other),
    }
}

fn other_type(value: &Value) -> Value {
    match value {
        Value::String(_) => json!(7),
        Value::Number(_) | Value::Bool(_) | Value::Null => json!("topoloom-odd"),
        Value::Array(_) | Value::Object(_) => Value::Null,
    }
}

/// The body with its records so many times; one that is no document with records is repeated as it is.
fn many(whole: &[u8], times: usize) -> Option<Vec<u8>> {
    if times < 2 || whole.is_empty() {
        return None;
    }
    let Ok(mut document) = serde_json::from_slice::<Value>(whole) else { return Some(whole.repeat(times)) };
    let records = records(&mut document)?;
    let once = records.clone();
    for _ in 1..times {
        records.extend_from_slice(&once);
    }
    Some(document.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(text: &str) -> Exchanges {
        let exchange = |path: &str| {
            json!({
                "endpoint": "list", "method": "GET", "path": path, "status": 200, "headers": [], "text": text
            })
        };
        let exchanges = [exchange("/v1?page=1"), exchange("/v1?page=2"), exchange("/v2")];
        let whole =
            json!({"version": 1, "sources": {"any": {"credentials": {"list": "bearer"}, "exchanges": exchanges}}});
        Exchanges::parse(&whole.to_string()).unwrap()
    }

    fn body_on(day: BadDay, text: &str) -> Option<String> {
        let changed = recorded(text).on(day, 0)?;
        Some(String::from_utf8_lossy(&body(&changed.list[0]).unwrap()).into_owned())
    }

    #[test]
    fn every_bad_day_is_a_recording_that_the_sandbox_reads() {
        let (source, granted): (SourceName, _) = ("kit".parse().unwrap(), Granted::default());
        for day in [
            BadDay::Status(401),
            BadDay::Redirect,
            BadDay::Page,
            BadDay::Busy(7),
            BadDay::Empty,
            BadDay::Cut(3),
            BadDay::Refused,
            BadDay::Late,
            BadDay::Odd,
            BadDay::Large,
        ] {
            let changed = recorded(r#"{"nodes": [{"name": "mü1"}, {"name": "m2"}]}"#).on(day, 0).unwrap();
            assert!(changed.endpoints(&source, &granted).is_ok(), "{day:?}");
            assert_eq!(
                (changed.len(), &changed.list[1..]),
                (3, &recorded(r#"{"nodes": [{"name": "mü1"}, {"name": "m2"}]}"#).list[1..])
            );
        }
    }

    #[test]
    fn pages_of_one_list_are_tried_once() {
        assert_eq!(recorded("[]").answered(9), [0, 2]);
        assert_eq!(recorded("[]").answered(1), [0]);
        assert_eq!(recorded("[]").name(2), "GET /v2 of list");
        let lost = recorded("[]").on(BadDay::Refused, 2).unwrap();
        assert_eq!(lost.answered(9), [0], "what had no answer cannot lose it");
    }

    #[test]
    fn the_longest_list_has_the_records() {
        let text =
            r#"{"kinds": ["a", "b"], "nodes": [{"name": "m1", "ports": [1, 2]}, {"name": "m2"}, {"name": "m3"}]}"#;
        assert_eq!(
            body_on(BadDay::Odd, text).unwrap(),
            r#"{"kinds":["a","b"],"nodes":[{"name":"m1","ports":[1,2]},{"name":7},{"name":"m3"}]}"#
        );
        let large: Value = serde_json::from_str(&body_on(BadDay::Large, text).unwrap()).unwrap();
        assert_eq!((large["nodes"].as_array().unwrap().len(), large["kinds"].as_array().unwrap().len()), (300, 2));
        assert_eq!(body_on(BadDay::Odd, "{}"), None);
        assert_eq!(body_on(BadDay::Large, "a,b\n").unwrap(), "a,b\n".repeat(100));
    }

    #[test]
    fn a_body_is_cut_by_bytes_and_then_breaks_off() {
        assert_eq!(
            body_on(BadDay::Cut(1), "aé€𝄞bcdefgh").unwrap().len(),
            4 + 2,
            "a part of a character is shown as one of three"
        );
        let changed = recorded("12345678").on(BadDay::Cut(3), 0).unwrap();
        assert_eq!(body(&changed.list[0]).unwrap(), b"123456");
        assert_eq!(changed.list[0]["error"]["kind"], "protocol");
    }

    #[test]
    fn a_recording_of_several_sources_is_refused() {
        let two = json!({"version": 1, "sources": {"a": {"exchanges": []}, "b": {"exchanges": []}}});
        assert!(Exchanges::parse(&two.to_string()).unwrap_err().contains("several sources"));
        assert!(Exchanges::parse("{}").is_err());
        assert!(Exchanges::parse(r#"{"version": 1, "sources": {}}"#).unwrap().is_empty());
    }
}
