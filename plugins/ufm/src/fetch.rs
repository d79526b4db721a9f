//! Reads a list of a UFM in all forms of its answers.
//!
//! A list comes as an array or in pages. UFM answers 400 to a filter that the release does not know. A proxy, or an expired
//! session, answers with an HTML page. A list is read to its end, or the result is an error with the request and the
//! answer: never half a list.

mod refusal;

use crate::config::Fabric;
use crate::port::Unusable;
use refusal::RequestLine;
use topoloom_sdk::http::{Http, Request, Response};
use topoloom_sdk::json::{Elements, Members, Raw};
use topoloom_sdk::{Credential, Failure};

/// A round may send 1000 requests; the rest is for requests that are not pages.
const MAX_PAGES: u64 = 900;
/// Ten times the ports of a fabric of two thousand hosts. A guest has no room for more.
const MAX_RECORDS: u64 = 1_000_000;
/// The key of the records in the form with pages.
const DATA: &str = "data";

/// Reads one record. It may act only after the last member.
pub(crate) type Each<'e> = dyn FnMut(&mut Members<'_>) -> Result<(), Unusable> + 'e;

/// One UFM.
#[derive(Debug)]
pub(crate) struct Ufm<'a> {
    http: Http<'a>,
    endpoint: &'a str,
    prefix: &'a str,
    credential: Credential,
}

/// The list to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    /// Below the prefix.
    pub(crate) path: &'static str,
    /// A filter that makes the answer smaller where the release knows it; the reader filters again.
    pub(crate) filter: Option<&'static str>,
    /// How many records a page has; none: the list is read as a whole.
    pub(crate) page_size: Option<u32>,
    /// How many of a hundred records may be unusable.
    pub(crate) max_unusable: u32,
}

/// The counts of a list that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How many records it had.
    pub(crate) records: u64,
    /// How many of them were unusable.
    pub(crate) unusable: u64,
    /// The first of these: which, and why.
    pub(crate) example: Option<(u64, Unusable)>,
}

/// An answer to a request that a release may not know.
#[derive(Debug)]
pub(crate) enum Fetched<T> {
    /// The UFM has it.
    Read(T),
    /// The UFM has no such resource: the status.
    Missing(u16),
}

/// The numbers of a page beside its records.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Page {
    total: Option<u64>,
    filtered: Option<u64>,
    pages: Option<u64>,
}

impl<'a> Ufm<'a> {
    /// Finds out where the API begins.
    pub(crate) fn new(http: Http<'a>, fabric: &'a Fabric) -> Result<Self, Failure> {
        let credential = http.credential_of(&fabric.name)?;
        Ok(Self { http, endpoint: &fabric.name, prefix: fabric.prefix(credential), credential })
    }

    /// The name of its endpoint.
    pub(crate) fn name(&self) -> &'a str {
        self.endpoint
    }

    fn asked(&self, path: &'static str) -> RequestLine<'_> {
        RequestLine { endpoint: self.endpoint, prefix: self.prefix, path, credential: self.credential }
    }

    fn get(&self, path: &'static str, query: &str) -> Result<Response, Failure> {
        let target = format!("{}/{path}{query}", self.prefix);
        let request = Request::get(self.endpoint, &target).header("accept", "application/json");
        self.http.send(&request).map_err(|error| self.asked(path).failed(error))
    }

    /// A small document.
    pub(crate) fn document(&self, path: &'static str, max: u64) -> Result<Fetched<Vec<u8>>, Failure> {
        use std::io::Read;
        let response = self.get(path, "")?;
        let asked = self.asked(path);
        match response.status() {
            200 => {}
            // The document is optional, so an error of the UFM is the same as a missing resource.
            status @ (400 | 403..=428 | 500 | 501) => return Ok(Fetched::Missing(status)),
            _ => return Err(asked.refused(&response)),
        }
        let mut text = Vec::new();
        match response.take(max).read_to_end(&mut text) {
            Ok(_) => Ok(Fetched::Read(text)),
            Err(error) => Err(asked.broken(&error.to_string())),
        }
    }

    /// Reads a whole list, each record by `each`.
    pub(crate) fn list(&self, query: &Query, each: &mut Each<'_>) -> Result<Fetched<Tally>, Failure> {
        let asked = self.asked(query.path);
        let mut parameters = Parameters { filter: query.filter, size: query.page_size };
        let response = loop {
            let response = self.get(query.path, &parameters.page(1))?;
            match response.status() {
                200 => break response,
                400 if parameters.fewer() => {}
                status @ (400 | 404) => return Ok(Fetched::Missing(status)),
                _ => return Err(asked.refused(&response)),
            }
        };
        let mut tally = Tally::default();
        let first = asked.read(response, &mut tally, each)?;
        if let Some(first) = first {
            self.more_pages(query.path, parameters, first, &mut tally, each)?;
        }
        if tally.unusable * 100 > u64::from(query.max_unusable) * tally.records {
            return Err(asked.unusable(&tally, query.max_unusable));
        }
        Ok(Fetched::Read(tally))
    }

    fn more_pages(
        &self,
        path: &'static str,
        parameters: Parameters,
        first: Page,
        tally: &mut Tally,
        each: &mut Each<'_>,
    ) -> Result<(), Failure> {
        let asked = self.asked(path);
        let pages = first.pages.unwrap_or(1);
        if pages > MAX_PAGES {
            return Err(
                asked.broken(&format!("the list has {pages} pages, at most {MAX_PAGES} are read; raise pageSize"))
            );
        }
        // A server that sends pages without being asked chooses their size.
        let size = parameters.size.or_else(|| u32::try_from(tally.records).ok().filter(|rows| *rows > 0));
        for number in 2..=pages {
            let response = self.get(path, &Parameters { size, ..parameters }.page(number))?;
            if response.status() != 200 {
                return Err(asked.refused(&response));
            }
            let page = asked.read(response, tally, each)?;
            if page != Some(first) {
                return Err(asked.broken(&format!("the list changed while page {number} of {pages} was read")));
            }
        }
        match first.filtered.or(first.total) {
            Some(expected) if expected != tally.records => {
                let rows = tally.records;
                Err(asked.broken(&format!("received {rows} records, but the UFM announced {expected}")))
            }
            None if pages > 1 || parameters.size.is_some() => {
                Err(asked.broken("the answer has pages, but not the total number of records"))
            }
            _ => Ok(()),
        }
    }
}

/// The query of a list.
#[derive(Debug, Clone, Copy)]
struct Parameters {
    filter: Option<&'static str>,
    size: Option<u32>,
}

impl Parameters {
    fn page(&self, number: u64) -> String {
        let pages = self.size.map(|size| format!("page_number={number}&rpp={size}"));
        let parts: Vec<&str> = self.filter.into_iter().chain(pages.as_deref()).collect();
        if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
    }

    /// Simplifies the query: first without the filter, then without pages. False: it is as simple as it can be.
    fn fewer(&mut self) -> bool {
        self.filter.take().is_some() || self.size.take().is_some()
    }
}

impl RequestLine<'_> {
    /// Reads one answer to its end; the numbers of the page if it is one.
    fn read(&self, response: Response, tally: &mut Tally, each: &mut Each<'_>) -> Result<Option<Page>, Failure> {
        let kind = response.header("content-type");
        let mut elements = Elements::new(response, DATA);
        loop {
            match elements.next_members(&mut *each) {
                Ok(Some(read)) => {
                    if let Err(reason) = read {
                        tally.unusable += 1;
                        tally.example.get_or_insert((tally.records, reason));
                    }
                    tally.records += 1;
                    if tally.records > MAX_RECORDS {
                        return Err(self.broken(&format!("the list has more than {MAX_RECORDS} records")));
                    }
                }
                Ok(None) => break,
                Err(error) => return Err(self.body(&error, kind.as_deref())),
            }
        }
        if !elements.found() {
            return Err(self.broken("received an object without \"data\" where a list is expected"));
        }
        if elements.envelope().is_empty() {
            return Ok(None);
        }
        Page::read(elements.envelope()).map(Some).map_err(|what| self.broken(&what))
    }
}

impl Page {
    /// Reads the page around the records. A number that cannot be read is an error, not a missing number: otherwise the first
    /// page would count as the whole list.
    fn read(envelope: &[u8]) -> Result<Self, String> {
        let broken = || "the page around the records is not valid JSON".to_owned();
        let mut page = Self::default();
        for member in Members::of(envelope.trim_ascii()).map_err(|_| broken())? {
            let (key, value) = member.map_err(|_| broken())?;
            let (field, key) = match key {
                b"total_resources" => (&mut page.total, "total_resources"),
                b"filtered_resources" => (&mut page.filtered, "filtered_resources"),
                b"num_of_pages" => (&mut page.pages, "num_of_pages"),
                _ => continue,
            };
            *field = match whole(value) {
                Some(number) => Some(number),
                None if value.is_null() => None,
                None => {
                    let value = String::from_utf8_lossy(value.bytes());
                    let value: String = value.chars().filter(|letter| !letter.is_control()).take(40).collect();
                    return Err(format!("{key} is {value}, which is not a whole number"));
                }
            };
        }
        Ok(page)
    }
}

/// Larger floating-point numbers are not exact.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A whole number, as a number, as text, or with a zero fraction: releases differ.
fn whole(value: Raw<'_>) -> Option<u64> {
    let quoted = value.text();
    let text = match &quoted {
        Some(text) => text.trim(),
        None => std::str::from_utf8(value.bytes()).ok()?,
    };
    let exact =
        || text.parse::<f64>().ok().filter(|number| number.fract() == 0.0 && (0.0..=MAX_EXACT).contains(number));
    text.parse().ok().or_else(|| exact().map(|number| number as u64))
}
