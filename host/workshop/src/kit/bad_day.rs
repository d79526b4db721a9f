//! What services answered in a case, and the same on a bad day.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use topoloom_core::plugin::Limit;
use topoloom_sandbox::endpoints::Error;
use topoloom_sandbox::endpoints::error::Wait;
use topoloom_sandbox::endpoints::recording::{Exchange, Recording};

/// A login page, as a proxy before a service sends one.
const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>\
                    <form action=\"/login\" method=\"post\"><input name=\"user\"><input name=\"password\" type=\"password\">\
                    </form></body></html>\n";

/// How many times as large a body becomes.
const TIMES: usize = 100;

/// How long a service that is too slow took.
const SLOW: Duration = Duration::from_secs(30);

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

/// Exchanges that had a whole answer: the first one of each kind of request, then the last ones and those in the middle, so
/// many at most. Pages of one list are one kind, and a plugin may read the first one otherwise than those behind it.
pub(super) fn answered(recording: &Recording, most: usize) -> Vec<usize> {
    let mut kinds: BTreeMap<(&str, &str, &str), Vec<usize>> = BTreeMap::new();
    for (at, exchange) in recording.exchanges().enumerate() {
        let path = exchange.path.split('?').next().unwrap_or_default();
        let kind = (exchange.endpoint.as_str(), exchange.method.as_str(), path);
        if exchange.is_whole() && exchange.status.is_some_and(|status| (200..300).contains(&status)) {
            kinds.entry(kind).or_default().push(at);
        }
    }
    let mut kinds: Vec<Vec<usize>> = kinds.into_values().collect();
    kinds.sort_unstable();
    let firsts = kinds.iter().filter_map(|kind| kind.first());
    let lasts = kinds.iter().filter_map(|kind| kind.last());
    let middles = kinds.iter().filter_map(|kind| kind.get(kind.len() / 2));
    let mut found: Vec<usize> = Vec::new();
    for at in firsts.chain(lasts).chain(middles) {
        if found.len() < most && !found.contains(at) {
            found.push(*at);
        }
    }
    found.sort_unstable();
    found
}

/// The recording with 304 in place of these answers: nothing is new.
pub(super) fn not_modified(recording: &Recording, places: &[usize]) -> Recording {
    let mut changed = recording.clone();
    for (at, exchange) in changed.exchanges_mut().enumerate() {
        if places.contains(&at) {
            let etag = exchange.headers.iter().find(|(name, _)| name == "etag").map(|(_, value)| value.clone());
            answer(exchange, 304, etag.map(|etag| ("etag", etag)), "");
        }
    }
    changed
}

/// What an exchange asked, in words.
pub(super) fn asked(recording: &Recording, at: usize) -> String {
    recording.exchanges().nth(at).map(Exchange::asked).unwrap_or_default()
}

impl BadDay {
    /// The recording with one exchange changed; `None` where there is nothing that could be changed in this way.
    pub(super) fn of(self, recording: &Recording, at: usize) -> Option<Recording> {
        let mut changed = recording.clone();
        let exchange = changed.exchanges_mut().nth(at)?;
        match self {
            Self::Status(status) => answer(exchange, status, None, &format!("{{\"error\": \"status {status}\"}}")),
            Self::Redirect => answer(exchange, 302, Some(("location", "https://login.example/".to_owned())), PAGE),
            Self::Page => answer(exchange, 200, Some(("content-type", "text/html; charset=utf-8".to_owned())), PAGE),
            Self::Busy(seconds) => answer(exchange, 503, Some(("retry-after", seconds.to_string())), ""),
            Self::Empty => answer(exchange, 200, None, ""),
            Self::Cut(quarters) => {
                let whole = exchange.body().ok()?;
                let kept = whole.get(..whole.len() / 4 * quarters)?.to_vec();
                let message = format!("the answer broke off after {} bytes", kept.len());
                exchange.set_body(kept);
                exchange.set_error(Some(&Error::Protocol(message)));
            }
            Self::Refused => silence(exchange, &Error::Connect("the connection was refused".to_owned())),
            Self::Late => silence(exchange, &Error::Timeout { what: Wait::FirstByte, limit: SLOW }),
            Self::Odd => {
                let mut document: Value = serde_json::from_slice(&exchange.body().ok()?).ok()?;
                let records = records(&mut document)?;
                let middle = records.len() / 2;
                let record = records.get_mut(middle)?;
                *record = odd(record);
                exchange.set_body(document.to_string().into_bytes());
            }
            Self::Large => {
                let whole = exchange.body().ok()?;
                let most = Limit::Body.fixed().size();
                exchange.set_body(many(&whole, TIMES.min(most / whole.len().max(1)))?);
            }
        }
        Some(changed)
    }

    /// What happens, in words.
    pub(super) fn words(self) -> String {
        match self {
            Self::Status(status) => format!("status {status}"),
            Self::Redirect => "a redirect to a login page".to_owned(),
            Self::Page => "a login page with status 200".to_owned(),
            Self::Busy(seconds) => format!("status 503 with `Retry-After: {seconds}`"),
            Self::Empty => "status 200 without a body".to_owned(),
            Self::Cut(quarters) => format!("the body breaks off after {quarters} of 4 quarters"),
            Self::Refused => "the connection is refused".to_owned(),
            Self::Late => "no answer in time".to_owned(),
            Self::Odd => "one record with values of other types".to_owned(),
            Self::Large => "the records a hundred times".to_owned(),
        }
    }
}

/// Another answer in place of the recorded one.
fn answer(exchange: &mut Exchange, status: u16, header: Option<(&str, String)>, text: &str) {
    exchange.status = Some(status);
    exchange.headers = header.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    exchange.set_body(text.as_bytes().to_vec());
    exchange.set_error(None);
}

/// No answer at all.
fn silence(exchange: &mut Exchange, error: &Error) {
    exchange.status = None;
    exchange.headers = Vec::new();
    exchange.set_body(Vec::new());
    exchange.set_error(Some(error));
}

/// The longest list of a document: its records, where it has several lists.
fn records(document: &mut Value) -> Option<&mut Vec<Value>> {
    let (_, path) = longest(document, String::new())?;
    document.pointer_mut(&path).and_then(Value::as_array_mut)
}

/// The length and the place of the longest list with more than one element; of two, the outer or the first one.
fn longest(value: &Value, path: String) -> Option<(usize, String)> {
    let (own, below): (usize, Vec<(String, &Value)>) = match value {
        Value::Array(list) => {
            (list.len(), list.iter().enumerate().map(|(at, value)| (format!("{path}/{at}"), value)).collect())
        }
        Value::Object(fields) => {
            (0, fields.iter().map(|(key, value)| (format!("{path}/{}", escaped(key)), value)).collect())
        }
        _ => return None,
    };
    let mut best = (own > 1).then_some((own, path));
    for (path, value) in below {
        let Some((length, at)) = longest(value, path) else { continue };
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

    fn recorded(text: &str) -> Recording {
        let exchange = |path: &str| {
            json!({
                "endpoint": "list", "method": "GET", "path": path, "status": 200, "headers": [], "text": text
            })
        };
        let exchanges = [exchange("/v1?page=1"), exchange("/v1?page=2"), exchange("/v2")];
        let whole = json!({"version": 1, "sources": {"any": {"exchanges": exchanges}}});
        Recording::parse(&whole.to_string()).unwrap()
    }

    fn body_on(day: BadDay, text: &str) -> Option<Vec<u8>> {
        let changed = day.of(&recorded(text), 0)?;
        assert_eq!(
            changed.exchanges().skip(1).collect::<Vec<_>>(),
            recorded(text).exchanges().skip(1).collect::<Vec<_>>()
        );
        Some(changed.exchanges().next().unwrap().body().unwrap())
    }

    #[test]
    fn of_the_pages_of_one_list_the_first_one_in_the_middle_and_the_last_are_tried() {
        let list = recorded("[]");
        assert_eq!((answered(&list, 9), answered(&list, 2), answered(&list, 1)), (vec![0, 1, 2], vec![0, 2], vec![0]));
        let pages: Vec<_> = (0..9)
            .map(|page| json!({"endpoint": "e", "method": "GET", "path": format!("/v1?page={page}"), "status": 200}))
            .collect();
        let pages = json!({"version": 1, "sources": {"any": {"exchanges": pages}}});
        assert_eq!(answered(&Recording::parse(&pages.to_string()).unwrap(), 9), [0, 4, 8]);
        assert_eq!(asked(&list, 2), "GET /v2 of the endpoint list");
        for day in [BadDay::Refused, BadDay::Status(500), BadDay::Late] {
            assert_eq!(answered(&day.of(&list, 2).unwrap(), 9), [0, 1], "{day:?}: what had no answer cannot lose it");
        }
    }

    #[test]
    fn the_longest_list_has_the_records() {
        let text =
            r#"{"kinds": ["a", "b"], "nodes": [{"name": "m1", "ports": [1, 2]}, {"name": "m2"}, {"name": "m3"}]}"#;
        let shown = String::from_utf8(body_on(BadDay::Odd, text).unwrap()).unwrap();
        assert_eq!(shown, r#"{"kinds":["a","b"],"nodes":[{"name":"m1","ports":[1,2]},{"name":7},{"name":"m3"}]}"#);
        let large: Value = serde_json::from_slice(&body_on(BadDay::Large, text).unwrap()).unwrap();
        assert_eq!((large["nodes"].as_array().unwrap().len(), large["kinds"].as_array().unwrap().len()), (300, 2));
        assert_eq!(body_on(BadDay::Odd, "{}"), None);
        assert_eq!(body_on(BadDay::Large, "a,b\n").unwrap(), "a,b\n".repeat(100).as_bytes());
        assert_eq!(body_on(BadDay::Large, ""), None);
    }

    #[test]
    fn a_body_is_cut_by_bytes_and_then_breaks_off() {
        assert_eq!(body_on(BadDay::Cut(1), "aé€𝄞bcdefgh").unwrap(), "aé€".as_bytes()[..4]);
        let changed = BadDay::Cut(3).of(&recorded("12345678"), 0).unwrap();
        let exchange = changed.exchanges().next().unwrap();
        assert_eq!((exchange.body().unwrap().as_slice(), exchange.is_whole()), (&b"123456"[..], false));
    }

    #[test]
    fn a_busy_service_says_how_long() {
        let changed = BadDay::Busy(77).of(&recorded("[]"), 0).unwrap();
        let exchange = changed.exchanges().next().unwrap();
        assert_eq!(
            (exchange.status, exchange.headers.as_slice()),
            (Some(503), &[("retry-after".to_owned(), "77".to_owned())][..])
        );
    }
}
