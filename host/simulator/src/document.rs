//! A server of the document `topoloom.fabric/v1`: the same fabric as Ethernet switches and LLDP would report it.
//!
//! Pages are cut over the nodes and then the switches. A cursor says where the next page begins; the generation says of
//! which fabric it is, and a reader whose generation changes begins anew.

mod rows;

use crate::fabric::{Fabric, HostKind, SharedFabric};
use crate::server::{Answer, Api, Asked, Builder, Presented, Tweak};
use crate::value::number;
use crate::wire::{Listing, Part, Run, quoted};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::{ALLOW, AUTHORIZATION, ETAG, IF_NONE_MATCH, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use jiff::Timestamp;
use rows::{HostRows, Switches};
use std::sync::Arc;

/// What the nodes and switches are of.
const SCHEMA: &str = "topoloom.fabric/v1";
/// Records of a page when the client does not say.
const USUAL_LIMIT: u64 = 1_000;
/// Most records of a page.
const MOST: u64 = 100_000;

/// Whether the document claims to know every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Coverage {
    /// It does.
    #[default]
    Complete,
    /// It does not: what is missing may still be there.
    Partial,
}

/// Which chassis id the cables of hosts end at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Chassis {
    /// That of the switch.
    #[default]
    OfSwitch,
    /// That of the port, as Nexus 9000 sends it.
    OfPort,
}

/// What can be chosen about a simulated fabric document; see [`Builder`].
#[derive(Debug, Default)]
pub struct DocumentSettings {
    coverage: Coverage,
    chassis: Chassis,
    observed_at: Option<Timestamp>,
}

/// A simulated server of fabric documents.
#[derive(Debug)]
pub struct FabricDocument {
    settings: DocumentSettings,
    started: Timestamp,
}

impl Api for FabricDocument {
    fn local<'a>(&self, path: &'a str) -> &'a str {
        path
    }

    fn usual(&self) -> &'static str {
        "/v1/"
    }

    fn presented(&self, asked: &Asked<'_>) -> Presented {
        let Some(value) = asked.headers.get(AUTHORIZATION) else {
            return asked.certificate.map_or(Presented::Nothing, |name| Presented::Certificate(name.to_owned()));
        };
        let text = value.to_str().unwrap_or_default();
        let other = || Presented::Other(text.to_owned());
        match text.split_once(' ') {
            Some((word, token)) if word.eq_ignore_ascii_case("bearer") => Presented::Bearer(token.trim().to_owned()),
            Some((word, pair)) if word.eq_ignore_ascii_case("basic") => Presented::basic(pair).unwrap_or_else(other),
            _ => other(),
        }
    }

    fn answer(&self, asked: &Asked<'_>, admitted: bool, fabric: &Arc<Fabric>, tweak: Tweak) -> Answer {
        if asked.path != "/v1/fabric" {
            return Answer::error(StatusCode::NOT_FOUND, "no such document");
        }
        if !admitted {
            let refused = Answer::error(StatusCode::UNAUTHORIZED, "authentication is required");
            return refused.header(WWW_AUTHENTICATE, "Bearer");
        }
        if asked.method != Method::GET {
            return Answer::error(StatusCode::METHOD_NOT_ALLOWED, "read only").header(ALLOW, "GET");
        }
        match PageRange::parse(asked.query.unwrap_or_default()) {
            Ok(place) => self.page(asked, place, fabric, tweak),
            Err(message) => Answer::error(StatusCode::BAD_REQUEST, message),
        }
    }
}

impl FabricDocument {
    /// A simulator of a fabric-document server over this fabric. It speaks TLS, and without
    /// credentials it refuses every client.
    pub fn builder(fabric: impl Into<SharedFabric>) -> Builder<DocumentSettings> {
        let make = |settings| Box::new(Self { settings, started: Timestamp::now() }) as Box<dyn Api>;
        Builder::new(DocumentSettings::default(), make, fabric.into())
    }

    fn page(&self, asked: &Asked<'_>, place: PageRange, fabric: &Arc<Fabric>, tweak: Tweak) -> Answer {
        let PageRange { offset, limit } = place;
        // Every page after the first comes from a changed fabric.
        let moved = if tweak == Tweak::Moved && offset > 0 { "+1" } else { "" };
        let generation = format!("{}/{}{moved}", self.started, fabric.revision());
        let etag = format!("\"{generation}/{offset}/{limit}\"");
        let known = asked.headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        // A tweaked document is another one than the client knows.
        if tweak == Tweak::None && known.flat_map(|value| value.split(',')).any(|known| known.trim() == etag) {
            return Answer::not_modified().header(ETAG, &etag);
        }
        let nodes: Vec<u32> =
            fabric.hosts().filter(|(_, host)| host.kind != HostKind::Aggregation).map(|(index, _)| index).collect();
        let switches: Vec<u32> = fabric.switches().map(|(index, _)| index).collect();
        let (node_count, switch_count) = (tweak.rows(nodes.len()), tweak.rows(switches.len()));
        let total = node_count + switch_count;
        let end = offset.saturating_add(limit).min(total);
        let cut =
            |from: usize, count: usize| offset.saturating_sub(from).min(count)..end.saturating_sub(from).min(count);
        let observed_at = self.settings.observed_at.unwrap_or_else(this_hour);
        let chassis = self.settings.chassis;
        let nodes = HostRows { fabric: fabric.clone(), hosts: nodes, chassis, observed_at };
        let nodes = Run::new(Arc::new(nodes), cut(0, node_count));
        let switches = Run::new(Arc::new(Switches { fabric: fabric.clone(), switches }), cut(node_count, switch_count));
        let mut head = format!("{{\"schema\":\"{SCHEMA}\",\"generation\":").into_bytes();
        quoted(&mut head, &generation);
        let complete = self.settings.coverage == Coverage::Complete;
        head.extend_from_slice(format!(",\"complete\":{complete},\"nodes\":[").as_bytes());
        let next = if end < total { format!("\"{}\"", cursor(end)) } else { "null".to_owned() };
        let parts = [
            Part::Raw(head.into()),
            Part::Rows(nodes),
            Part::Raw(Bytes::from_static(b"],\"switches\":[")),
            Part::Rows(switches),
            Part::Raw(format!("],\"next\":{next}}}").into()),
        ];
        Answer::listing(Listing::new(parts, b"")).header(ETAG, &etag)
    }
}

/// Collectors write again when something changed and every few hours; an hour is fresh, and the same for a while.
fn this_hour() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second() - now.as_second().rem_euclid(3600)).unwrap_or(now)
}

/// Which page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PageRange {
    offset: usize,
    limit: usize,
}

impl PageRange {
    fn parse(query: &str) -> Result<Self, String> {
        let mut place = Self { offset: 0, limit: USUAL_LIMIT as usize };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("limit", value)) => {
                    place.limit = number("limit", value, 1..=MOST).map_err(|error| error.to_string())? as usize;
                }
                Some(("cursor", value)) => place.offset = offset(value).ok_or("cursor: not one of this server")?,
                _ => return Err("only limit and cursor are known".to_owned()),
            }
        }
        Ok(place)
    }
}

/// The cursor for a place; it is opaque, so that no client depends on what is in it.
fn cursor(offset: usize) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("at {offset}"))
}

fn offset(cursor: &str) -> Option<usize> {
    let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    text.strip_prefix("at ")?.parse().ok()
}

impl Builder<DocumentSettings> {
    /// Claims to know every node, or not.
    pub fn coverage(mut self, coverage: Coverage) -> Self {
        self.settings.coverage = coverage;
        self
    }

    /// Shows the chassis id of each switch, or of each port.
    pub fn chassis(mut self, chassis: Chassis) -> Self {
        self.settings.chassis = chassis;
        self
    }

    /// Says that everything was seen at this time. Without it: at the beginning of the hour.
    pub fn observed_at(mut self, time: Timestamp) -> Self {
        self.settings.observed_at = Some(time);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_comes_back_and_others_are_refused() {
        assert_eq!(offset(&cursor(7_000)), Some(7_000));
        assert_eq!(PageRange::parse(&format!("limit=5&cursor={}", cursor(9))), Ok(PageRange { offset: 9, limit: 5 }));
        for query in ["limit=0", "limit=x", "cursor=7", "cursor=%%", "page=1", "limit"] {
            assert!(PageRange::parse(query).is_err(), "{query}");
        }
    }
}
