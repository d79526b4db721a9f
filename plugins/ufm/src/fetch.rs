//! Asking a UFM for a list, whatever form it answers in.
//!
//! A list comes as an array or in pages, filters that a release does not know are answered with 400, and a proxy or an
//! ended session answers with a page for people. A list is read to its end or it is an error that says what was asked
//! and what came: never half a list.

mod refusal;

use crate::config::Fabric;
use crate::port::Unusable;
use refusal::Asked;
use topoloom_sdk::http::{Http, Request, Response};
use topoloom_sdk::json::{Elements, Members, Raw};
use topoloom_sdk::{Credential, Failure};

/// A round has 1000 requests; the rest is for what is not a page.
const MAX_PAGES: u64 = 900;
/// Ten times the ports of a fabric of two thousand hosts. More has no room in a guest.
const MAX_RECORDS: u64 = 1_000_000;
/// The key of the records in the form with pages.
const DATA: &str = "data";

/// What reads one record. It acts once it has seen the last member.
pub(crate) type Each<'e> = dyn FnMut(&mut Members<'_>) -> Result<(), Unusable> + 'e;

/// One UFM.
#[derive(Debug)]
pub(crate) struct Ufm<'a> {
    http: Http<'a>,
    endpoint: &'a str,
    prefix: &'a str,
    credential: Credential,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query {
    /// Below the prefix.
    pub(crate) path: &'static str,
    /// Makes the answer smaller where the release knows it; the reader filters again.
    pub(crate) filter: Option<&'static str>,
    /// How many records a page has; nothing: no pages are asked for.
    pub(crate) page_size: Option<u32>,
    /// How many of a hundred records may be unusable.
    pub(crate) max_unusable: u32,
}

/// What became of a list.
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
pub(crate) enum Answer<T> {
    /// It came.
    Read(T),
    /// There is no such resource: the status.
    Missing(u16),
}

/// The numbers around the records of a page.
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

    fn asked(&self, path: &'static str) -> Asked<'_> {
        Asked { endpoint: self.endpoint, prefix: self.prefix, path, credential: self.credential }
    }

    fn get(&self, path: &'static str, query: &str) -> Result<Response, Failure> {
        let target = format!("{}/{path}{query}", self.prefix);
        let request = Request::get(self.endpoint, &target).header("accept", "application/json");
        self.http.send(&request).map_err(|error| self.asked(path).failed(error))
    }

    /// A small document.
    pub(crate) fn document(&self, path: &'static str, max: u64) -> Result<Answer<Vec<u8>>, Failure> {
        use std::io::Read;
        let response = self.get(path, "")?;
        let asked = self.asked(path);
        match response.status() {
            200 => {}
            // What cannot be answered and what is not there are the same to whoever can do without it.
            status @ (400 | 403..=428 | 500 | 501) => return Ok(Answer::Missing(status)),
            _ => return Err(asked.refused(&response)),
        }
        let mut text = Vec::new();
        match response.take(max).read_to_end(&mut text) {
            Ok(_) => Ok(Answer::Read(text)),
            Err(error) => Err(asked.broken(&error.to_string())),
        }
    }

    /// Reads a whole list, each record by `each`.
    pub(crate) fn list(&self, query: &Query, each: &mut Each<'_>) -> Result<Answer<Tally>, Failure> {
        let asked = self.asked(query.path);
        let mut parameters = Parameters { filter: query.filter, size: query.page_size };
        let response = loop {
            let response = self.get(query.path, &parameters.page(1))?;
            match response.status() {
                200 => break response,
                400 if parameters.fewer() => {}
                status @ (400 | 404) => return Ok(Answer::Missing(status)),
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
        Ok(Answer::Read(tally))
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
        // A server that makes pages without being asked has its own idea of their size.
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
                Err(asked.broken(&format!("{rows} records came, {expected} were announced")))
            }
            None if pages > 1 || parameters.size.is_some() => {
                Err(asked.broken("pages came without the number of all records"))
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

    /// Asks for less than before: first without the filter, then without pages. False: nothing is left.
    fn fewer(&mut self) -> bool {
        self.filter.take().is_some() || self.size.take().is_some()
    }
}

impl Asked<'_> {
    /// Reads one answer to its end; the numbers of the page when it was one.
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
            return Err(self.broken("an object without \"data\" came where a list is expected"));
        }
        if elements.envelope().is_empty() {
            return Ok(None);
        }
        Page::read(elements.envelope()).map(Some).map_err(|what| self.broken(&what))
    }
}

impl Page {
    /// Reads what stands around the records. A number that is there and cannot be read is not the same as none: without it
    /// the first page would pass for the whole list.
    fn read(envelope: &[u8]) -> Result<Self, String> {
        let broken = || "what stands around the records is no JSON".to_owned();
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
                    return Err(format!("{key} is {value}: no whole number"));
                }
            };
        }
        Ok(page)
    }
}

/// Beyond it a number with a fraction is not exact.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// A whole number, as such, as text, or with a fraction of nothing: releases differ.
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
