//! A discoverer that reads a list of nodes from a service and is wrong about one answer at a time: its act is bytes in the file
//! that a test replaces. Without an act it keeps every promise.

#![allow(clippy::panic, clippy::indexing_slicing, reason = "misbehaving is its trade")]

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::io::Read;

use serde_json::Value;
use topoloom_sdk::http::{Error, Request, Response};
use topoloom_sdk::prelude::*;
use topoloom_sdk::{Credential, FromJson, Topology};

/// | act | what is wrong |
/// |---|---|
/// | `good` | nothing |
/// | `unauthorized` | a refused credential is a fault of the service |
/// | `redirect`, `html`, `not-modified`, `empty`, `refused`, `timeout` | such an answer is a list without nodes |
/// | `server-error` | a fault of the service is its own |
/// | `retry-after` | the pause is forgotten |
/// | `cut` | what came before the connection broke off is the answer |
/// | `odd` | a record that cannot be used is left out without a word |
/// | `large` | a large body crashes it |
/// | `requests` | it asks again and again |
/// | `later-page` | a fault of the service behind the first page is the end of the list |
/// | `etag` | where nothing is new at the service, its last answer is right over any nodes |
static ACT: [u8; 20] = *b"act=good            ";

/// A list without nodes.
const NOTHING: &str = r#"{"nodes": []}"#;

struct Errant;

/// There is nothing to configure.
struct Config;

fn act() -> String {
    let bytes = black_box(&ACT);
    String::from_utf8_lossy(&bytes[4..]).trim_end().to_owned()
}

impl FromJson for Config {
    fn from_json(text: &str) -> Result<Self, Vec<Problem>> {
        match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => {
                let unknown: Vec<_> = fields.keys().map(|key| Problem::new(key.as_str(), "is no key")).collect();
                if unknown.is_empty() { Ok(Self) } else { Err(unknown) }
            }
            Ok(_) => Err(vec![Problem::new("", "must be an object")]),
            Err(error) => Err(vec![Problem::new("", error.to_string())]),
        }
    }
}

impl Discoverer for Errant {
    type Config = Config;

    fn describe() -> Description {
        Description::new("errant", "1.0.0").vendor("topoloom").summary("One group per rack of a list")
    }

    fn configure(_: &Config) -> Result<Requirements, Vec<Problem>> {
        let endpoint = Endpoint::new("list", "Reads which rack every node is in").credentials([Credential::Bearer]);
        Ok(Requirements::new().endpoint(endpoint).trigger(Trigger::on_timer()))
    }

    fn discover(_: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let act = act();
        black_box(input.http.credential_of("list")?);
        // The whole state of the act `etag`.
        let is_known = act == "etag" && input.state == [7];
        let Some(body) = fetch(&act, input, is_known)? else { return Ok(Answer::unchanged(vec![7])) };
        if act == "requests" {
            for _ in 0..600 {
                let _ = black_box(input.http.send(&list()).is_ok());
            }
        }
        let mut documents = vec![document(&body)?];
        while let Some(next) = documents.last().and_then(|last| last.get("next")).and_then(Value::as_str) {
            let response = input.http.send(&Request::get("list", next))?;
            if act == "later-page" && response.status() == 500 {
                break;
            }
            let body = text(&act, response.success()?)?;
            documents.push(document(&body)?);
        }
        let answer = Answer::from(topology(&act, input, &documents)?);
        Ok(if act == "etag" { answer.with_state(vec![7]) } else { answer })
    }
}

topoloom_plugin!(Errant);

fn list() -> Request {
    Request::get("list", "/v1/nodes").header("accept", "application/json")
}

/// The list as text. `None`: it is as it was.
fn fetch(act: &str, input: &Input<'_>, is_known: bool) -> Result<Option<String>, Failure> {
    let nothing = || Ok(Some(NOTHING.to_owned()));
    let request = if is_known { list().header("if-none-match", "7") } else { list() };
    let response = match input.http.send(&request) {
        Ok(response) => response,
        Err(Error::Connect(_)) if act == "refused" => return nothing(),
        Err(Error::Timeout(_)) if act == "timeout" => return nothing(),
        Err(error) => return Err(error.into()),
    };
    black_box(response.header("etag"));
    match (act, response.status()) {
        (_, 304) if is_known => return Ok(None),
        ("unauthorized", 401 | 403) => return Err(Failure::upstream("refused")),
        ("redirect", 302) | ("not-modified", 304) => return nothing(),
        ("server-error", 500) => return Err(Failure::Internal("the service has a fault".into())),
        ("retry-after", 503) => return Err(Failure::upstream("busy")),
        _ => {}
    }
    let body = text(act, response.success()?)?;
    match act {
        "empty" if body.is_empty() => nothing(),
        "html" if body.starts_with('<') => nothing(),
        "large" => {
            assert!(body.len() < 10_000, "ten thousand bytes are enough");
            Ok(Some(body))
        }
        _ => Ok(Some(body)),
    }
}

fn text(act: &str, mut response: Response) -> Result<String, Failure> {
    let mut body = Vec::new();
    let end = response.read_to_end(&mut body);
    let text = String::from_utf8_lossy(&body).into_owned();
    match end {
        Ok(_) => Ok(text),
        // The records that are whole, as if there were no others.
        Err(_) if act == "cut" => {
            let whole = text.rfind('}').map_or("", |at| &text[..=at]);
            Ok(if whole.is_empty() { NOTHING.to_owned() } else { format!("{whole}]}}") })
        }
        Err(error) => Err(Failure::upstream(error.to_string())),
    }
}

fn document(body: &str) -> Result<Value, Failure> {
    let document: Value = serde_json::from_str(body).map_err(|error| Failure::upstream(error.to_string()))?;
    match document.get("nodes") {
        Some(Value::Array(_)) => Ok(document),
        _ => Err(Failure::upstream("there is no list of nodes in the answer")),
    }
}

fn topology(act: &str, input: &Input<'_>, documents: &[Value]) -> Result<Topology, Failure> {
    let mut racks: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut odd = 0;
    let lists = documents.iter().filter_map(|document| document.get("nodes").and_then(Value::as_array));
    for record in lists.flatten() {
        let text = |key: &str| record.get(key).and_then(Value::as_str);
        match (text("name"), text("rack")) {
            (Some(name), Some(rack)) => {
                racks.entry(rack).or_default().insert(name);
            }
            _ => odd += 1,
        }
    }
    let mut topology = TopologyBuilder::new();
    let level = topology.level(Level::new(1).named("rack"));
    for (rack, names) in racks {
        let rows: Vec<u32> = input.nodes.find(names).into_iter().flatten().collect();
        if !rows.is_empty() {
            topology.group(level, rack).rows(rows);
        }
    }
    if odd > 0 && act != "odd" {
        topology.diagnose("unusable-record", Subject::Source, format!("{odd} records are left out"));
    }
    Ok(topology.finish())
}
