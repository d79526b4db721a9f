//! Between an API and the connection: what was asked, what is answered, and what a fault makes of it.

use super::body::{Body, BodySource, Ending};
use super::bomb::Bomb;
use super::record::Ticket;
use crate::fault::Fault;
use crate::wire::{Damage, Listing, Spoil};
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use serde::Serialize;

/// What was asked.
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) certificate: Option<&'a str>,
}

/// What an API does differently because of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tweak {
    /// Nothing.
    None,
    /// Lists are empty.
    Empty,
    /// Lists end in the middle, without any sign of it.
    Half,
    /// Pages after the first are of another moment.
    Moved,
}

impl Tweak {
    pub(crate) fn of(fault: Option<&Fault>) -> Self {
        match fault {
            Some(Fault::EmptyList) => Self::Empty,
            Some(Fault::HalfList) => Self::Half,
            Some(Fault::ChangedBetweenPages) => Self::Moved,
            _ => Self::None,
        }
    }

    /// How many of so many rows there are.
    pub(crate) fn rows(self, rows: usize) -> usize {
        match self {
            Self::Empty => 0,
            Self::Half => rows / 2,
            Self::None | Self::Moved => rows,
        }
    }
}

/// What is answered.
pub(crate) struct Answer {
    status: StatusCode,
    headers: Vec<(HeaderName, HeaderValue)>,
    source: BodySource,
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// What an expired session shows instead of data.
const LOGIN_PAGE: &str = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n<body><form method=\"post\" \
action=\"/dologin\"><input name=\"httpd_username\"><input name=\"httpd_password\" type=\"password\"></form></body></html>\n";

impl Answer {
    fn new(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Self {
        let source = BodySource::Bytes(Some(body.into()).filter(|body: &Bytes| !body.is_empty()));
        Self { status, headers: vec![(CONTENT_TYPE, kind)], source }
    }

    /// A JSON value.
    pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Self {
        // Writing plain data into memory cannot fail; an empty body would be noticed at once.
        Self::new(status, JSON, serde_json::to_vec(value).unwrap_or_default())
    }

    /// An error in UFM's way.
    pub(crate) fn error(status: StatusCode, message: impl Into<String>) -> Self {
        Self::json(status, &serde_json::json!({ "error": message.into() }))
    }

    /// A list.
    pub(crate) fn listing(listing: Listing) -> Self {
        Self { status: StatusCode::OK, headers: vec![(CONTENT_TYPE, JSON)], source: BodySource::Listing(listing) }
    }

    /// Nothing has changed.
    pub(crate) fn not_modified() -> Self {
        Self { status: StatusCode::NOT_MODIFIED, headers: Vec::new(), source: BodySource::Bytes(None) }
    }

    /// With one more header. A value that is no header value is left out.
    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Self {
        self.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }

    /// The answer that a fault gives without asking the API.
    pub(crate) fn instead(fault: &Fault) -> Option<Self> {
        Some(match fault {
            Fault::Status { code, retry_after } => {
                let status = StatusCode::from_u16(*code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                let answer = Self::error(status, status.canonical_reason().unwrap_or("out of order"));
                match retry_after {
                    Some(seconds) => answer.header(RETRY_AFTER, &seconds.to_string()),
                    None => answer,
                }
            }
            Fault::Html => Self::new(StatusCode::OK, HTML, LOGIN_PAGE),
            Fault::Redirect(target) => Self::new(StatusCode::FOUND, HTML, LOGIN_PAGE).header(LOCATION, target),
            Fault::EmptyObject => Self::new(StatusCode::OK, JSON, "{}"),
            Fault::Bomb(size) => {
                let source = BodySource::Bomb(Bomb::new(*size));
                Self { status: StatusCode::OK, headers: vec![(CONTENT_TYPE, JSON)], source }
                    .header(CONTENT_ENCODING, "gzip")
            }
            _ => return None,
        })
    }

    /// Makes the response, with what the fault does to a good answer.
    pub(crate) fn respond(self, fault: Option<&Fault>, ticket: Ticket) -> Response<Body> {
        ticket.status(self.status.as_u16());
        // A refusal stays a refusal: half of an error message helps no test.
        let fault = fault.filter(|_| self.status == StatusCode::OK);
        let spoil = match fault {
            Some(Fault::WrongTypes(percent)) => Some(Spoil { percent: *percent, how: Damage::Types }),
            Some(Fault::NotNumbers(percent)) => Some(Spoil { percent: *percent, how: Damage::Numbers }),
            Some(Fault::Twice(percent)) => Some(Spoil { percent: *percent, how: Damage::Twice }),
            _ => None,
        };
        let source = match self.source {
            BodySource::Listing(listing) => BodySource::Listing(listing.spoiled(spoil)),
            other => other,
        };
        let body = match fault {
            Some(Fault::StallAfterHeaders) => Body::new(BodySource::Bytes(None), ticket).ending(Ending::Stall),
            Some(Fault::StallInBody) => Body::new(source.torn(), ticket).ending(Ending::Stall),
            Some(Fault::Truncated) => Body::new(source.torn(), ticket),
            Some(Fault::Reset) => Body::new(source.torn(), ticket).ending(Ending::Break),
            Some(Fault::Endless) => Body::new(source.endless(), ticket),
            Some(Fault::Drip(pause)) => Body::new(source, ticket).dripping(*pause),
            _ => Body::new(source, ticket),
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers);
        if fault == Some(&Fault::WrongContentType) {
            response.headers_mut().insert(CONTENT_TYPE, TEXT);
        }
        response
    }
}
