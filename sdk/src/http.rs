//! Endpoints by name, never by URL: the host knows the address, adds the credential and follows no redirect.
//!
//! A status outside 200 to 299 is not an error here. [`Response::success`] turns it into a [`Failure`] for the
//! host: the credential is refused, or the server is at fault, with the pause that it asked for.

use std::io;

pub use crate::bindings::topoloom::discovery::http::{Error, Request};
use crate::{Credential, Failure, Method, UpstreamFailure};

/// Pieces of a body are this long at most: so large that a call of the host costs little beside the copy.
const PIECE: u32 = 256 * 1024;

/// The endpoints that the operator granted.
///
/// ```
/// use topoloom_sdk::prelude::*;
///
/// fn read(input: &Input<'_>) -> Result<u16, Failure> {
///     let response = input.http.send(&Request::get("list", "/v1/nodes"))?.success()?;
///     Ok(response.status())
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Http<'a> {
    #[cfg(not(target_arch = "wasm32"))]
    source: &'a crate::testing::Cluster,
    of: std::marker::PhantomData<&'a ()>,
}

impl<'a> Http<'a> {
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn of_host() -> Self {
        Self { of: std::marker::PhantomData }
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn of(source: &'a crate::testing::Cluster) -> Self {
        Self { source, of: std::marker::PhantomData }
    }

    /// Sends a request. Returns with the head of the answer; the body follows.
    ///
    /// ```
    /// use topoloom_sdk::http::Error;
    /// use topoloom_sdk::prelude::*;
    ///
    /// fn is_there(input: &Input<'_>) -> Result<bool, Failure> {
    ///     match input.http.send(&Request::get("list", "/v1/nodes")) {
    ///         Ok(response) => Ok(response.status() == 200),
    ///         Err(Error::Connect(_)) => Ok(false),
    ///         Err(other) => Err(other.into()),
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Not granted, no connection, timeout. `?` turns it into the [`Failure`] of the round.
    pub fn send(&self, request: &Request) -> Result<Response, Error> {
        #[cfg(target_arch = "wasm32")]
        let body = crate::bindings::topoloom::discovery::http::send(request)?;
        #[cfg(not(target_arch = "wasm32"))]
        let body = self.source.send(request)?;
        Ok(Response { body, piece: Vec::new(), read: 0 })
    }

    /// The kind of credential that the host adds for an endpoint.
    ///
    /// ```
    /// use topoloom_sdk::prelude::*;
    ///
    /// fn prefix(input: &Input<'_>) -> Result<&'static str, Failure> {
    ///     Ok(if input.http.credential_of("fabric")? == Credential::Token { "/restV3" } else { "/rest" })
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// When the endpoint is not granted.
    pub fn credential_of(&self, endpoint: &str) -> Result<Credential, Error> {
        #[cfg(target_arch = "wasm32")]
        let credential = crate::bindings::topoloom::discovery::http::credential_of(endpoint);
        #[cfg(not(target_arch = "wasm32"))]
        let credential = self.source.credential_of(endpoint);
        credential
    }
}

impl Request {
    /// `GET` of a path below the endpoint's base URL: empty or beginning with `/`, with or without a query.
    ///
    /// ```
    /// let request = topoloom_sdk::http::Request::get("list", "/v1/nodes?limit=500");
    /// assert_eq!(request.body, None);
    /// ```
    #[must_use]
    pub fn get(endpoint: &str, path_and_query: &str) -> Self {
        let [endpoint, path_and_query] = [endpoint, path_and_query].map(str::to_owned);
        Self { endpoint, method: Method::Get, path_and_query, headers: Vec::new(), body: None }
    }

    /// `POST` of a body: a search, or a query that is too long for a path. The endpoint has to be asked for with this method
    /// ([`Endpoint::methods()`](crate::Endpoint::methods())).
    ///
    /// ```
    /// use topoloom_sdk::Method;
    /// use topoloom_sdk::http::Request;
    ///
    /// let request = Request::post("cmdb", "/search", br#"{"kind": "rack"}"#).header("content-type", "application/json");
    /// assert_eq!(request.method, Method::Post);
    /// ```
    #[must_use]
    pub fn post(endpoint: &str, path_and_query: &str, body: &[u8]) -> Self {
        Self { method: Method::Post, body: Some(body.to_vec()), ..Self::get(endpoint, path_and_query) }
    }

    /// Adds a header. The host refuses `Authorization`, `Cookie` and similar headers: it sets them itself.
    ///
    /// ```
    /// let request = topoloom_sdk::http::Request::get("list", "/v1").header("accept", "application/json");
    /// assert_eq!(request.headers.len(), 1);
    /// ```
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// An answer. Read its body with [`io::Read`], or piece by piece with [`crate::json::Elements`].
///
/// ```
/// use std::io::Read;
///
/// use topoloom_sdk::http::Response;
/// use topoloom_sdk::prelude::*;
///
/// fn whole(mut response: Response) -> Result<String, Failure> {
///     let mut text = String::new();
///     response.read_to_string(&mut text).map_err(|error| Failure::upstream(error.to_string()))?;
///     Ok(text)
/// }
/// ```
#[derive(Debug)]
pub struct Response {
    #[cfg(target_arch = "wasm32")]
    body: crate::bindings::topoloom::discovery::http::Response,
    #[cfg(not(target_arch = "wasm32"))]
    body: crate::testing::Reply,
    piece: Vec<u8>,
    read: usize,
}

impl Response {
    /// The status, also of redirects and refusals.
    ///
    /// ```
    /// fn is_new(response: &topoloom_sdk::http::Response) -> bool {
    ///     response.status() != 304
    /// }
    /// ```
    #[must_use]
    pub fn status(&self) -> u16 {
        self.body.status()
    }

    /// The first header of this lower-case name.
    ///
    /// ```
    /// fn version(response: &topoloom_sdk::http::Response) -> Vec<u8> {
    ///     response.header("etag").unwrap_or_default().into_bytes()
    /// }
    /// ```
    #[must_use]
    pub fn header(&self, name: &str) -> Option<String> {
        self.body.headers().into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Itself when the status is 200 to 299.
    ///
    /// ```
    /// use topoloom_sdk::json::Elements;
    /// use topoloom_sdk::prelude::*;
    ///
    /// fn list(input: &Input<'_>) -> Result<Elements<topoloom_sdk::http::Response>, Failure> {
    ///     Ok(Elements::new(input.http.send(&Request::get("list", "/v1"))?.success()?, "nodes"))
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// 401 and 403 are [`Failure::Unauthorized`]; everything else is [`Failure::Upstream`], with `Retry-After` where
    /// the server gave it in seconds.
    pub fn success(self) -> Result<Self, Failure> {
        match self.status() {
            200..=299 => Ok(self),
            status @ (401 | 403) => Err(Failure::Unauthorized(format!("status {status}"))),
            // The request had no condition, so there is no earlier answer that a 304 could refer to.
            304 => Err(Failure::upstream("status 304 to a request that did not ask for it")),
            status @ 300..=399 => {
                let target = self.header("location").unwrap_or_default();
                Err(Failure::upstream(format!("status {status}: redirects to {target:?}")))
            }
            status => {
                let retry_after = self.header("retry-after").and_then(|text| milliseconds(&text));
                Err(Failure::Upstream(UpstreamFailure { message: format!("status {status}"), retry_after }))
            }
        }
    }
}

impl io::Read for Response {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read >= self.piece.len() {
            self.piece = self.body.read(PIECE).map_err(|error| io::Error::other(words(error)))?;
            self.read = 0;
        }
        let rest = self.piece.get(self.read..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..length), rest.get(..length)) {
            to.copy_from_slice(from);
        }
        self.read += length;
        Ok(length)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Denied(reason) => Self::Denied(reason),
            error => Self::upstream(words(error)),
        }
    }
}

/// A number of seconds, of at most nine digits: thirty years, and no date.
fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.trim();
    let is_number = digits.len() <= 9 && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_number).map(|seconds| seconds.saturating_mul(1000))
}

/// The error as a message.
fn words(error: Error) -> String {
    match error {
        Error::Denied(reason) => format!("denied: {reason}"),
        Error::Connect(reason) => format!("no connection: {reason}"),
        Error::Timeout(reason) => format!("out of time: {reason}"),
        Error::TooLarge(reason) => format!("too large: {reason}"),
        Error::Protocol(reason) => format!("protocol error: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prelude::*;
    use crate::testing::{Cluster, Reply};

    /// Reads a list of node names from an endpoint.
    struct Listed;

    impl Discoverer for Listed {
        type Config = std::collections::BTreeMap<String, String>;

        fn describe() -> Description {
            Description::new("listed", "0.1.0")
        }

        fn configure(_: &Self::Config) -> Result<Requirements, Vec<Problem>> {
            Ok(Requirements::new().endpoint(Endpoint::new("list", "Reads the list").credentials([Credential::Bearer])))
        }

        fn discover(_: &Self::Config, input: &Input<'_>) -> Result<Answer, Failure> {
            assert_eq!(input.http.credential_of("list")?, Credential::Bearer);
            let response = input.http.send(&Request::get("list", "/nodes").header("accept", "application/json"))?;
            let mut elements = Elements::new(response.success()?, "nodes");
            let mut names: Vec<String> = Vec::new();
            while let Some(text) = elements.next()? {
                names.extend(serde_json::from_slice::<String>(text));
            }
            let mut topology = TopologyBuilder::new();
            let level = topology.level(Level::new(1));
            topology.group(level, "all").rows(input.nodes.find(&names).into_iter().flatten().collect());
            Ok(topology.finish().into())
        }
    }

    fn round(reply: Result<Reply, Error>) -> Result<String, Failure> {
        let cluster =
            Cluster::new().node("m1", []).node("m2", []).endpoint("list", Credential::Bearer, move |request| {
                assert_eq!(request.path_and_query, "/nodes");
                reply.clone()
            });
        cluster.discover::<Listed>("{}").map(|answer| cluster.show(&answer))
    }

    #[test]
    fn a_body_is_read_and_names_become_rows() {
        let shown = round(Ok(Reply::new(200, r#"{"nodes": ["m2", 7, "absent", "m1"]}"#)));
        assert_eq!(shown.unwrap(), "tier 1 - | all |  | m1 m2\n");
    }

    #[test]
    fn a_body_is_read_as_it_arrives_and_may_break_off() {
        struct Broken;
        impl io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("reset"))
            }
        }
        let begin = || io::Read::chain(&br#"{"nodes": ["m2","#[..], &br#" "m1"]"#[..]);
        let shown = round(Ok(Reply::coming(200, io::Read::chain(begin(), &b"}"[..]))));
        assert_eq!(shown.unwrap(), "tier 1 - | all |  | m1 m2\n");
        let broken = round(Ok(Reply::coming(200, io::Read::chain(begin(), Broken))));
        assert_eq!(broken, Err(Failure::upstream("cannot read: protocol error: reset")));
    }

    #[test]
    fn the_pause_that_a_service_asks_for_is_a_short_number_of_seconds() {
        assert_eq!(milliseconds(" 120 "), Some(120_000));
        assert_eq!(milliseconds("999999999"), Some(999_999_999_000));
        for text in ["", "+7", "-1", "1.5", "1000000000", "99999999999999999999", "Fri, 31 Dec 1999 23:59:59 GMT"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }

    #[test]
    fn every_way_to_fail_has_its_word() {
        let status =
            |status: u16| round(Ok(Reply::new(status, "").header("retry-after", "7").header("location", "/login")));
        assert_eq!(status(401), Err(Failure::Unauthorized("status 401".into())));
        assert_eq!(status(302), Err(Failure::upstream("status 302: redirects to \"/login\"")));
        assert_eq!(status(304), Err(Failure::upstream("status 304 to a request that did not ask for it")));
        let busy = UpstreamFailure { message: "status 503".into(), retry_after: Some(7000) };
        assert_eq!(status(503), Err(Failure::Upstream(busy)));
        assert_eq!(round(Err(Error::Denied("no".into()))), Err(Failure::Denied("no".into())));
        assert_eq!(round(Ok(Reply::new(200, "[1"))), Err(Failure::upstream("the document ends in the middle")));
    }
}
