//! Documents over the host's HTTP capability: page by page from a service, in one piece from a ConfigMap.

use super::Document;
use crate::document::{Page, Rules, Sheet, page};
use topoloom_sdk::http::{Http, Request, Response};
use topoloom_sdk::{Credential, Failure, UpstreamFailure};

/// The endpoint of the service.
pub(crate) const FABRIC: &str = "fabric";
/// The endpoint of the ConfigMap.
pub(crate) const DOCUMENT: &str = "document";
/// The path of the service.
pub(crate) const PATH: &str = "/v1/fabric";
/// Nodes per page: about a megabyte, and far fewer pages than the requests that a call may send.
const LIMIT: u32 = 1000;
/// Pages of one document. With all restarts this stays below the host's 1000 requests.
const MAX_PAGES: u32 = 240;
/// How often a document is read again from its beginning, because it changed while it was read.
const RESTARTS: u32 = 3;
/// The longest pause that a service may ask for, in milliseconds.
const LONGEST_PAUSE: u64 = 5 * 60 * 1000;
/// The longest version that is kept from round to round.
const MAX_ETAG: usize = 1024;

/// The document of the service. `None`: it still has the known version.
pub(crate) fn service(
    http: Http<'_>,
    rules: &Rules,
    known: Option<&str>,
    name: &str,
) -> Result<Option<Document>, Failure> {
    for _ in 0..=RESTARTS {
        match whole(http, rules, known, name)? {
            Read::Unchanged => return Ok(None),
            Read::Document(document) => return document.checked(name).map(Some),
            Read::Changed => {}
        }
    }
    Err(Failure::upstream(format!("{name}: the generation changed between pages in {} attempts", RESTARTS + 1)))
}

/// The document in the key of the ConfigMap. `None`: it still has the known version.
pub(crate) fn config_map(
    http: Http<'_>,
    rules: &Rules,
    known: Option<&str>,
    name: &str,
) -> Result<Option<Document>, Failure> {
    let Some(response) = get(http, DOCUMENT, "", known, name)? else { return Ok(None) };
    let mut document = Document { etag: etag(&response), ..Document::default() };
    let page = body(response, rules, &mut document.sheet, name)?;
    if page.next.is_some() {
        return Err(Failure::upstream(format!("{name}: next is not null, but a ConfigMap has no pages")));
    }
    document.complete = page.complete;
    document.checked(name).map(Some)
}

/// The result of an attempt.
enum Read {
    Unchanged,
    Document(Box<Document>),
    /// The pages are of two generations.
    Changed,
}

fn whole(http: Http<'_>, rules: &Rules, known: Option<&str>, name: &str) -> Result<Read, Failure> {
    let mut document = Document { complete: true, ..Document::default() };
    let mut first: Option<Page> = None;
    let mut path = format!("{PATH}?limit={LIMIT}");
    for _ in 0..MAX_PAGES {
        let Some(response) = get(http, FABRIC, &path, known.filter(|_| first.is_none()), name)? else {
            return Ok(Read::Unchanged);
        };
        if first.is_none() {
            document.etag = etag(&response);
        }
        let page = body(response, rules, &mut document.sheet, name)?;
        document.complete &= page.complete;
        if first.as_ref().is_some_and(|first| first.generation != page.generation) {
            return Ok(Read::Changed);
        }
        let Some(next) = page.next.clone() else { return Ok(Read::Document(Box::new(document))) };
        if page.generation.is_none() {
            return Err(Failure::upstream(format!("{name}: a document with pages needs a generation")));
        }
        let following = format!("{PATH}?limit={LIMIT}&cursor={}", encoded(&next));
        if following == path {
            return Err(Failure::upstream(format!("{name}: the page behind cursor {next:?} points to itself")));
        }
        path = following;
        first.get_or_insert(page);
    }
    Err(Failure::upstream(format!("{name}: more than {MAX_PAGES} pages of {LIMIT} nodes")))
}

/// One request. `None`: the known version is the current one.
fn get(
    http: Http<'_>,
    endpoint: &str,
    path: &str,
    known: Option<&str>,
    what: &str,
) -> Result<Option<Response>, Failure> {
    let mut request = Request::get(endpoint, path).header("accept", "application/json");
    if let Some(etag) = known {
        request = request.header("if-none-match", etag);
    }
    let response = http.send(&request)?;
    match response.status() {
        200 => Ok(Some(response)),
        304 if known.is_some() => Ok(None),
        300..=399 if response.header("location").is_some_and(|target| is_login(&target)) => {
            let target = response.header("location").unwrap_or_default();
            Err(Failure::Unauthorized(format!(
                "{what}: status {}: redirected to the login page {target:?}",
                response.status()
            )))
        }
        status @ 200..=299 => Err(Failure::upstream(format!("{what}: status {status}, 200 is expected"))),
        status @ (401 | 403) if endpoint == FABRIC => {
            let words = refused(status, http.credential_of(endpoint).unwrap_or(Credential::None));
            Err(Failure::Unauthorized(format!("{what}: status {status}: {words}")))
        }
        404 if endpoint == FABRIC => Err(Failure::upstream(format!(
            "{what}: status 404: no document at this URL; endpoint must be the URL before {PATH}"
        ))),
        _ => match response.success() {
            Err(failure) => Err(explained(failure, what)),
            Ok(_) => Err(Failure::upstream(format!("{what}: not a usable answer"))),
        },
    }
}

/// What to do about a request that the service refuses.
fn refused(status: u16, credential: Credential) -> &'static str {
    match (status, credential) {
        (403, Credential::None) => "a request without credential may not read this; name a Secret under `credentials`",
        (403, _) => "the user of the credential may not read this; grant that right",
        (_, Credential::None) => {
            "the service asks for a credential and none is configured; name a Secret under `credentials`"
        }
        (_, Credential::Token | Credential::Bearer) => {
            "the token is refused: it may be revoked or expired; put a new one into the Secret"
        }
        (_, Credential::Basic) => "user and password are refused; correct them in the Secret",
        (_, Credential::Mtls) => "the client certificate is refused: it may be expired; put a new one into the Secret",
    }
}

fn body(response: Response, rules: &Rules, sheet: &mut Sheet, what: &str) -> Result<Page, Failure> {
    let kind = response.header("content-type").unwrap_or_default();
    page(response, rules, sheet).map_err(|why| {
        let hint = if kind.contains("html") { " (an HTML page: a login or an error of a proxy?)" } else { "" };
        Failure::upstream(format!("{what}: {why}{hint}"))
    })
}

/// The failure with the place that it is about; its pause has our limit.
fn explained(failure: Failure, what: &str) -> Failure {
    match failure {
        Failure::Unauthorized(why) => Failure::Unauthorized(format!("{what}: {why}")),
        Failure::Upstream(UpstreamFailure { message, retry_after }) => Failure::Upstream(UpstreamFailure {
            message: format!("{what}: {message}"),
            retry_after: retry_after.map(|pause| pause.min(LONGEST_PAUSE)),
        }),
        other => other,
    }
}

fn is_login(target: &str) -> bool {
    let target = target.to_ascii_lowercase();
    ["login", "signin", "sign-in", "/sso", "/auth", "oauth", "saml"].iter().any(|word| target.contains(word))
}

fn etag(response: &Response) -> Option<String> {
    response.header("etag").filter(|etag| !etag.is_empty() && etag.len() <= MAX_ETAG)
}

/// A cursor, encoded for a query.
fn encoded(cursor: &str) -> String {
    let mut text = String::with_capacity(cursor.len());
    for byte in cursor.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
