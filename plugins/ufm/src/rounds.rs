//! One round: ask what moved, fetch what has to be fetched, place the hosts.
//!
//! The counters are asked for before the lists: what moves in between is seen in the next round. A fabric that did not
//! move is taken from the state; when no fabric and no node moved, the answer is what the last one was.

use crate::config::{Config, Fabric, Uplinks};
use crate::fetch::{self, Answer, Query, Ufm};
use crate::gather::Gathered;
use crate::link::{Link, System};
use crate::versions::{self, Seen, Versions};
use crate::weave::{Trunks, weave};
use std::borrow::Cow;
use topoloom_fabric::{Down, Part, State, Wiring, place};
use topoloom_sdk::{Failure, Input, log};

/// How late a host without a live link may lose its place, as a part of the time that it keeps it.
const PART_OF_GRACE: u32 = 16;
/// The same in milliseconds, whatever the grace.
const MAX_LATE: u64 = 60 * 60 * 1000;

/// One round.
pub(crate) fn discover(config: &Config, input: &Input<'_>) -> Result<topoloom_sdk::Answer, Failure> {
    let fabrics = ask(config, input)?;
    let state = State::from_bytes(input.state);
    let nodes = versions::nodes(input, config.settings.guid_annotation.as_deref());
    let known: Vec<Option<(&Part, Seen)>> = fabrics.iter().map(|fabric| fabric.known(&state)).collect();
    let is_quiet = |seen: &Seen| seen.nodes == nodes && is_recent(config, seen.placed, input.time);
    if known.iter().all(|known| known.as_ref().is_some_and(|(_, seen)| is_quiet(seen))) {
        return Ok(topoloom_sdk::Answer::unchanged(input.state.to_vec()));
    }
    let mut parts = Vec::with_capacity(fabrics.len());
    for (fabric, known) in fabrics.iter().zip(known) {
        let wiring = match known {
            Some((part, _)) => part.wiring.clone(),
            None => fetch(config, fabric)?,
        };
        let seen = Seen { versions: fabric.versions, nodes, placed: input.time };
        parts.push(Part { key: fabric.ufm.name().to_owned(), own: seen.to_bytes(), wiring });
    }
    let outcome = place(&union(&parts), &config.settings, &state.memory, input);
    Ok(outcome.answer(parts, input))
}

/// A fabric with the counters of this round.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) ufm: Ufm<'a>,
    pub(crate) versions: Option<Versions>,
}

impl Asked<'_> {
    /// What the state has of it, if nothing moved since.
    fn known<'s>(&self, state: &'s State) -> Option<(&'s Part, Seen)> {
        let part = state.part(self.ufm.name())?;
        let seen = Seen::from_bytes(&part.own)?;
        (self.versions.is_some() && seen.versions == self.versions).then_some((part, seen))
    }
}

/// Asks every fabric for its counters.
pub(crate) fn ask<'a>(config: &'a Config, input: &Input<'a>) -> Result<Vec<Asked<'a>>, Failure> {
    let ask = |fabric: &'a Fabric| {
        let ufm = Ufm::new(input.http, fabric)?;
        let versions = Versions::ask(&ufm)?;
        Ok(Asked { ufm, versions })
    };
    config.fabrics.iter().map(ask).collect()
}

/// Whether hosts were placed so short a time ago that nobody's grace matters.
fn is_recent(config: &Config, placed: u64, now: u64) -> bool {
    let late = u64::try_from((config.settings.down_grace / PART_OF_GRACE).as_millis()).unwrap_or(MAX_LATE);
    now.checked_sub(placed).is_some_and(|passed| passed < late.min(MAX_LATE))
}

fn union(parts: &[Part]) -> Cow<'_, Wiring> {
    if let [part] = parts {
        return Cow::Borrowed(&part.wiring);
    }
    let mut all = Wiring::new();
    parts.iter().for_each(|part| all.absorb(&part.wiring));
    Cow::Owned(all)
}

/// Reads all lists of a fabric.
fn fetch(config: &Config, fabric: &Asked<'_>) -> Result<Wiring, Failure> {
    let ufm = &fabric.ufm;
    let query = |path, filter| Query { path, filter, page_size: config.page_size, max_unusable: config.max_unusable };
    // Ports that are down are in the list only for who counts them: the last round knows what was there before.
    let filter = (config.settings.down == Down::Report).then_some("active=true");
    let mut gathered = Gathered::new(config);
    let ports = ufm.list(&query("resources/ports", filter), &mut |members| gathered.port(members))?;
    let Answer::Read(tally) = ports else { return Err(missing(ufm, &ports)) };
    if gathered.needs_systems() {
        let mut systems = Vec::new();
        let read = ufm.list(&query("resources/systems", None), &mut |members| {
            System::read(members).map(|system| systems.push(system))
        })?;
        match read {
            Answer::Read(_) => gathered.systems(&systems),
            Answer::Missing(status) => log::info(&format!("{}: no list of systems: status {status}", ufm.name())),
        }
    }
    gathered.finish();
    let trunks = if config.uplinks == Uplinks::Auto { trunks(ufm, &query("resources/links", None))? } else { None };
    if gathered.texts.is_full() {
        return Err(Failure::upstream(format!("{}: the names of all ports take more than 32 MiB", ufm.name())));
    }
    if let Some((number, reason)) = tally.example {
        let example = format!("number {number}: {reason}");
        let meaning = "records of the list of ports are unusable";
        gathered.wiring.skip_many("unusable-record", meaning, &example, tally.unusable);
    }
    Ok(weave(gathered, trunks, config, ufm.name()))
}

fn missing(ufm: &Ufm<'_>, answer: &Answer<fetch::Tally>) -> Failure {
    let status = match answer {
        Answer::Missing(status) => *status,
        Answer::Read(_) => 200,
    };
    Failure::upstream(format!("GET resources/ports of the endpoint {:?}: status {status}: is this a UFM?", ufm.name()))
}

/// The cables between switches; none where a release has no such list: the ports of switches know them too.
fn trunks(ufm: &Ufm<'_>, query: &Query) -> Result<Option<Trunks>, Failure> {
    let mut trunks = Trunks::default();
    let read =
        ufm.list(query, &mut |members| Link::read(members).map(|link| link.iter().for_each(|link| trunks.take(link))))?;
    Ok(match read {
        Answer::Read(_) => Some(trunks),
        Answer::Missing(status) => {
            log::info(&format!("{}: no list of links: status {status}", ufm.name()));
            None
        }
    })
}
