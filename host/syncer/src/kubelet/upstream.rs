//! The request to the physical API server, and what its answer means.
//!
//! Owns which headers go in which direction: those of an upgrade, the kind of a body, and nothing else. The credential is added by the
//! connection of the binding, below this room, so it is never in an answer; and no header of a caller can replace it. A credential that
//! a caller hides among the protocols of a WebSocket, as browsers have to, stays here.
//!
//! # Failure story
//!
//! The head of an answer has 30 s, and the sentence of a refusal 10 s and 64 KiB. What the physical API server says about the pod goes
//! to the caller with its code. What it says about us (401, 403) and about itself (5xx) is a bad gateway: the caller has done nothing
//! wrong.

use std::time::Duration;

use http::header::{
    CONNECTION, CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use kube::core::Status;
use topoloom_cluster::{Refusal, RefusalReason, Side};
use topoloom_core::text;
use topoloom_sync::identity::mapping::PhysicalPodRef;

use super::path::{StreamVerb, Wanted};
use super::query;

/// How long the head of an answer may take.
const HEAD: Duration = Duration::from_secs(30);
/// How long the sentence of a refusal may take.
const SENTENCE: Duration = Duration::from_secs(10);
/// How long it may be, in bytes.
const LONGEST: usize = 64 << 10;
/// How much of it a caller gets.
const SHOWN: usize = 2000;
/// Which of several protocols is spoken within SPDY. A server names the one that it chose.
const STREAM_PROTOCOL: &str = "x-stream-protocol-version";

/// What a connection may be upgraded to. Another protocol (HTTP/2) would carry requests that were never judged.
const PROTOCOLS: [&str; 2] = ["SPDY/3.1", "websocket"];

/// Before a token of a caller that is offered as a protocol of a WebSocket.
const BEARER: &str = "base64url.bearer.authorization.k8s.io.";

/// Headers of an upgrade from a caller: what it can speak.
static ASKED: [HeaderName; 5] = [
    HeaderName::from_static(STREAM_PROTOCOL),
    SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION,
    SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_EXTENSIONS,
];
/// Headers of an upgrade from a server: what is spoken.
static CHOSEN: [HeaderName; 5] = [
    UPGRADE,
    HeaderName::from_static(STREAM_PROTOCOL),
    SEC_WEBSOCKET_ACCEPT,
    SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_EXTENSIONS,
];

/// A request for a stream, as the caller has sent it.
pub(super) struct Asked<'a> {
    pub(super) method: &'a Method,
    pub(super) query: &'a str,
    pub(super) headers: &'a HeaderMap,
    pub(super) wanted: &'a Wanted,
}

/// Why there is no stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The caller did not ask for an upgrade, and there is no other way.
    NoUpgrade(StreamVerb),
    /// The physical API server refused, or said nothing.
    Refused {
        /// The code for the caller.
        code: StatusCode,
        /// The sentence.
        why: String,
    },
}

/// The protocol that these headers ask for, or grant, if it is one that is passed on.
fn protocol(headers: &HeaderMap) -> Option<&'static str> {
    let mut named = headers.get_all(UPGRADE).iter();
    let (Some(named), None) = (named.next(), named.next()) else { return None };
    let is_token = |token: &str| token.trim().eq_ignore_ascii_case("upgrade");
    let says = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.split(',').any(is_token));
    if !headers.get_all(CONNECTION).iter().any(says) {
        return None;
    }
    PROTOCOLS.into_iter().find(|known| named.as_bytes().eq_ignore_ascii_case(known.as_bytes()))
}

/// The protocols that are offered for a WebSocket, without those that are a credential of the caller. What is no text offers nothing.
fn without_credentials(headers: &mut HeaderMap) {
    let offered: Vec<String> = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|offer| !offer.is_empty() && !is_credential(offer))
        .map(str::to_owned)
        .collect();
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Ok(offered) = HeaderValue::try_from(offered.join(", "))
        && !offered.is_empty()
    {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, offered);
    }
}

fn is_credential(offer: &str) -> bool {
    offer.get(..BEARER.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(BEARER))
}

/// The headers of these names, with every value.
fn only(headers: &HeaderMap, names: &[HeaderName]) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in names {
        for value in headers.get_all(name) {
            kept.append(name, value.clone());
        }
    }
    kept
}

impl Asked<'_> {
    /// The request to the physical API server.
    fn request(&self, pod: &PhysicalPodRef) -> Result<Request<Body>, NoAnswer> {
        let verb = self.wanted.verb;
        let query = query::translate(verb, self.wanted.container.as_deref(), self.query);
        let (namespace, name, subresource) = (&pod.namespace, &pod.name, verb.subresource());
        let query = if query.is_empty() { query } else { format!("?{query}") };
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/{subresource}{query}");
        let built = Request::builder().method(self.method).uri(path).body(Body::empty());
        let mut request =
            built.map_err(|error| NoAnswer::Refused { code: StatusCode::BAD_REQUEST, why: error.to_string() })?;
        if verb != StreamVerb::Logs {
            let protocol = protocol(self.headers).ok_or(NoAnswer::NoUpgrade(verb))?;
            let headers = request.headers_mut();
            *headers = only(self.headers, &ASKED);
            without_credentials(headers);
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(UPGRADE, HeaderValue::from_static(protocol));
        }
        Ok(request)
    }

    /// Asks the physical API server. The answer is the beginning of a stream: a log, or an upgrade.
    ///
    /// # Errors
    /// There is none.
    pub(super) async fn open(&self, client: &kube::Client, pod: &PhysicalPodRef) -> Result<Response<Body>, NoAnswer> {
        let request = self.request(pod)?;
        let answer = match tokio::time::timeout(HEAD, client.send(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(gateway(&Refusal::of(&error))),
            Err(_) => {
                let message = format!("the API server did not answer within {} s", HEAD.as_secs());
                return Err(gateway(&Refusal { reason: RefusalReason::Unreachable, message, retry_after: None }));
            }
        };
        let is_stream = match self.wanted.verb {
            StreamVerb::Logs => answer.status() == StatusCode::OK,
            StreamVerb::Exec | StreamVerb::Attach | StreamVerb::PortForward => {
                // To what was asked for: there is a protocol, since the request was made.
                answer.status() == StatusCode::SWITCHING_PROTOCOLS
                    && protocol(answer.headers()) == protocol(self.headers)
            }
        };
        if is_stream { Ok(answer) } else { Err(refused(answer).await) }
    }
}

/// The headers of an answer that a caller gets.
pub(super) fn headers_for_caller(verb: StreamVerb, headers: &HeaderMap) -> HeaderMap {
    match verb {
        StreamVerb::Logs => only(headers, &[CONTENT_TYPE]),
        StreamVerb::Exec | StreamVerb::Attach | StreamVerb::PortForward => {
            let mut kept = only(headers, &CHOSEN);
            kept.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            kept
        }
    }
}

/// Reads why a request was refused.
async fn refused(answer: Response<Body>) -> NoAnswer {
    let code = answer.status();
    let body = Limited::new(answer.into_body(), LONGEST).collect();
    let bytes = match tokio::time::timeout(SENTENCE, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        // The code alone has to do.
        Ok(Err(_)) | Err(_) => axum::body::Bytes::new(),
    };
    let status = serde_json::from_slice::<Status>(&bytes)
        .unwrap_or_else(|_| Status { message: String::from_utf8_lossy(&bytes).into_owned(), ..Status::default() });
    let status = Status { code: code.as_u16(), ..status };
    let refusal = Refusal::of(&kube::Error::Api(Box::new(status)));
    if is_about_the_request(code) {
        return NoAnswer::Refused { code, why: sentence(&refusal) };
    }
    gateway(&refusal)
}

/// Whether the request is what is wrong.
fn is_about_the_request(code: StatusCode) -> bool {
    matches!(
        code,
        StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::CONFLICT
            | StatusCode::GONE
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::TOO_MANY_REQUESTS
    )
}

fn gateway(refusal: &Refusal) -> NoAnswer {
    NoAnswer::Refused { code: StatusCode::BAD_GATEWAY, why: sentence(refusal) }
}

/// On one line, with its cluster.
fn sentence(refusal: &Refusal) -> String {
    text::line(&refusal.clone().on(Side::Physical).message, SHOWN)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde_json::json;

    use super::*;

    fn wanted(verb: StreamVerb) -> Wanted {
        let container = (verb != StreamVerb::PortForward).then(|| "app".to_owned());
        Wanted { verb, namespace: "shop".into(), pod: "web-0".into(), uid: None, container }
    }

    fn pod() -> PhysicalPodRef {
        PhysicalPodRef { namespace: "lent".into(), name: "web-0-x".into(), uid: None }
    }

    fn headers<const N: usize>(pairs: [(&'static str, &'static str); N]) -> HeaderMap {
        let mut all = HeaderMap::new();
        for (name, value) in pairs {
            all.append(name, HeaderValue::from_static(value));
        }
        all
    }

    /// Method, path and headers of what is sent.
    fn sent(verb: StreamVerb, method: &Method, query: &str, given: &HeaderMap) -> (String, Vec<String>) {
        let wanted = wanted(verb);
        let request = Asked { method, query, headers: given, wanted: &wanted }.request(&pod()).unwrap();
        let mut lines: Vec<String> =
            request.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        (format!("{} {}", request.method(), request.uri()), lines)
    }

    #[test]
    fn s26_an_upgrade_goes_on_with_its_protocols_and_no_other_header() {
        let spdy = headers([
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-stream-protocol-version", "v5.channel.k8s.io"),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("authorization", "Bearer of-the-caller"),
            ("impersonate-user", "admin"),
            ("x-remote-user", "admin"),
            ("x-forwarded-for", "10.0.0.1"),
            ("cookie", "a=b"),
            ("host", "10.96.0.20:10250"),
        ]);
        let (line, lines) = sent(StreamVerb::Exec, &Method::POST, "command=sh&input=1&output=1", &spdy);
        let path = "/api/v1/namespaces/lent/pods/web-0-x";
        assert_eq!(line, format!("POST {path}/exec?container=app&command=sh&stdin=true&stdout=true"));
        assert_eq!(
            lines,
            [
                "connection: Upgrade",
                "upgrade: SPDY/3.1",
                "x-stream-protocol-version: v4.channel.k8s.io",
                "x-stream-protocol-version: v5.channel.k8s.io",
            ]
        );
        let websocket = headers([
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-key", "a2V5"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "SPDY/3.1+portforward.k8s.io"),
            ("origin", "https://example.com"),
        ]);
        let (line, lines) = sent(StreamVerb::PortForward, &Method::GET, "", &websocket);
        assert_eq!(line, format!("GET {path}/portforward"));
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines.contains(&"sec-websocket-protocol: SPDY/3.1+portforward.k8s.io".to_owned()), "{lines:?}");
        let offers = |offered: &[&'static str]| {
            let mut given = headers([("connection", "Upgrade"), ("upgrade", "websocket")]);
            for &offer in offered {
                given.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(offer));
            }
            let (_, lines) = sent(StreamVerb::Exec, &Method::GET, "", &given);
            assert!(!lines.concat().to_ascii_lowercase().contains("bearer"), "{lines:?}");
            lines.into_iter().filter(|line| line.starts_with("sec-websocket-protocol")).collect::<Vec<_>>()
        };
        let token = "base64url.bearer.authorization.k8s.io.b2YtdGhlLWNhbGxlcg";
        let upper = "v5.channel.k8s.io,BASE64URL.bearer.authorization.k8s.io.b2YtdGhlLWNhbGxlcg";
        let both = "base64url.bearer.authorization.k8s.io.b2Y , v5.channel.k8s.io";
        assert_eq!(offers(&[token]), [""; 0]);
        assert_eq!(offers(&[token, "v5.channel.k8s.io"]), ["sec-websocket-protocol: v5.channel.k8s.io"]);
        for offered in [both, upper] {
            assert_eq!(offers(&[offered]), ["sec-websocket-protocol: v5.channel.k8s.io"]);
        }
        let list = "sec-websocket-protocol: v5.channel.k8s.io, v4.channel.k8s.io";
        assert_eq!(offers(&["v5.channel.k8s.io,v4.channel.k8s.io"]), [list]);
    }

    #[test]
    fn s26_a_log_is_asked_for_without_any_header_of_the_caller() {
        let given = headers([("accept-encoding", "gzip"), ("authorization", "Bearer of-the-caller")]);
        let (line, lines) = sent(StreamVerb::Logs, &Method::GET, "follow=true", &given);
        assert_eq!(line, "GET /api/v1/namespaces/lent/pods/web-0-x/log?container=app&follow=true");
        assert_eq!(lines, [""; 0]);
    }

    #[test]
    fn s26_a_command_without_an_upgrade_is_refused_before_anything_is_asked() {
        let wanted = wanted(StreamVerb::Exec);
        for given in [
            HeaderMap::new(),
            headers([("upgrade", "SPDY/3.1")]),
            headers([("connection", "Upgrade")]),
            headers([("connection", "noupgrade"), ("upgrade", "SPDY/3.1")]),
            headers([("connection", "Upgrade"), ("upgrade", "h2c")]),
            headers([("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), ("http2-settings", "AAM")]),
            headers([("connection", "Upgrade"), ("upgrade", "SPDY/3.1, h2c")]),
            headers([("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("upgrade", "h2c")]),
            headers([("connection", "Upgrade"), ("upgrade", "")]),
        ] {
            let asked = Asked { method: &Method::POST, query: "", headers: &given, wanted: &wanted };
            assert_eq!(asked.request(&pod()).unwrap_err(), NoAnswer::NoUpgrade(StreamVerb::Exec));
        }
    }

    /// What a caller gets when the physical API server gives this answer.
    async fn answered(verb: StreamVerb, code: u16, body: String) -> Result<u16, (u16, String)> {
        answered_with(verb, code, HeaderMap::new(), body).await
    }

    /// The same, with headers. Of a caller that can be upgraded to SPDY/3.1.
    async fn answered_with(verb: StreamVerb, code: u16, said: HeaderMap, body: String) -> Result<u16, (u16, String)> {
        let serve = move |_: Request<Body>| {
            let body = Body::from(body.clone().into_bytes());
            let mut answer = Response::builder().status(code).body(body).unwrap();
            *answer.headers_mut() = said.clone();
            std::future::ready(Ok::<_, Infallible>(answer))
        };
        let client = kube::Client::new(tower::service_fn(serve), "default");
        let (wanted, given) = (wanted(verb), headers([("connection", "upgrade"), ("upgrade", "SPDY/3.1")]));
        let asked = Asked { method: &Method::GET, query: "", headers: &given, wanted: &wanted };
        match asked.open(&client, &pod()).await {
            Ok(answer) => Ok(answer.status().as_u16()),
            Err(NoAnswer::Refused { code, why }) => Err((code.as_u16(), why)),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn s26_what_is_wrong_with_the_request_goes_to_the_caller_and_what_is_wrong_with_us_is_a_bad_gateway() {
        let status = |message: &str, code: u16| json!({"kind": "Status", "message": message, "code": code}).to_string();
        assert_eq!(answered(StreamVerb::Logs, 200, "line".into()).await, Ok(200));
        let container = answered(StreamVerb::Logs, 400, status("container app is not valid", 400)).await;
        assert_eq!(container, Err((400, "the physical cluster: container app is not valid".to_owned())));
        assert_eq!(
            answered(StreamVerb::Exec, 404, status("pods \"web-0-x\" not found", 404)).await.unwrap_err().0,
            404
        );
        let rule = "pods \"web-0-x\" is forbidden: User \"lent\" cannot create resource \"pods/exec\" in API group \"\" in the \
                    namespace \"lent\"";
        let (code, why) = answered(StreamVerb::Exec, 403, status(rule, 403)).await.unwrap_err();
        assert_eq!(code, 502);
        let missing = "resources: [\"pods/exec\"], verbs: [\"create\"]} in the physical cluster";
        assert!(why.contains(missing), "{why}");
        for code in [401, 500, 503] {
            assert_eq!(answered(StreamVerb::Exec, code, "a page\nof a proxy".into()).await.unwrap_err().0, 502);
        }
        let (code, why) = answered(StreamVerb::Exec, 500, "x".repeat(LONGEST + 1)).await.unwrap_err();
        assert!(code == 502 && why.len() < SHOWN + 100, "{why}");
        // An answer that is none of an upgrade.
        assert_eq!(answered(StreamVerb::Exec, 200, "line".into()).await.unwrap_err().0, 502);
    }

    #[tokio::test(start_paused = true)]
    async fn s26_a_connection_is_upgraded_to_what_was_asked_for_or_not_at_all() {
        let upgraded = async |said: HeaderMap| {
            answered_with(StreamVerb::Exec, 101, said, String::new()).await.map_err(|(code, _)| code)
        };
        for good in ["SPDY/3.1", "spdy/3.1"] {
            assert_eq!(upgraded(headers([("connection", "upgrade"), ("upgrade", good)])).await, Ok(101));
        }
        for other in [
            HeaderMap::new(),
            headers([("connection", "upgrade"), ("upgrade", "websocket")]),
            headers([("connection", "upgrade"), ("upgrade", "h2c")]),
            headers([("connection", "upgrade"), ("upgrade", "SPDY/3.1"), ("upgrade", "h2c")]),
            headers([("connection", "close"), ("upgrade", "SPDY/3.1")]),
        ] {
            assert_eq!(upgraded(other.clone()).await, Err(502), "{other:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn s26_a_physical_api_server_that_says_nothing_has_half_a_minute() {
        let serve = |_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>();
        let client = kube::Client::new(tower::service_fn(serve), "default");
        let (wanted, given) = (wanted(StreamVerb::Logs), HeaderMap::new());
        let began = tokio::time::Instant::now();
        let asked = Asked { method: &Method::GET, query: "", headers: &given, wanted: &wanted };
        let no = asked.open(&client, &pod()).await.unwrap_err();
        let why = "the physical cluster: the API server did not answer within 30 s".to_owned();
        assert_eq!(no, NoAnswer::Refused { code: StatusCode::BAD_GATEWAY, why });
        assert_eq!(began.elapsed().as_secs(), 30);
    }
}
