//! One round: read the change counters, read the lists that changed, place the hosts.
//!
//! The counters are read before the lists: a change in between is seen in the next round. A fabric that did not change
//! comes from the state. When no fabric and no node changed, the answer is `unchanged`.

use crate::config::{Config, Fabric, Uplinks};
use crate::fetch::{Each, Fetched, Query, Tally, Ufm};
use crate::gather::{Gathered, Trunks};
use crate::link::{Cables, Link};
use crate::systems::Systems;
use crate::versions::{self, LastRound, Versions};
use crate::weave::weave;
use std::borrow::Cow;
use topoloom_fabric::{Down, Part, State, Wiring, place};
use topoloom_sdk::json::Members;
use topoloom_sdk::{Failure, Input, log};

/// How late a host without a live link may lose its place, as a part of `downGrace`.
const PART_OF_GRACE: u32 = 16;
/// The same in milliseconds, for any `downGrace`.
const MAX_LATE: u64 = 60 * 60 * 1000;

/// One round.
pub(crate) fn discover(config: &Config, input: &Input<'_>) -> Result<topoloom_sdk::Answer, Failure> {
    let fabrics = ask(config, input)?;
    let nodes = versions::nodes(input, config.settings.guid_annotation.as_deref());
    let is_quiet = |seen: LastRound| seen.nodes == nodes && is_recent(config, seen.placed, input.time);
    // Most rounds end here, so the cables in the state are not read before.
    if fabrics.iter().all(|fabric| fabric.seen(State::own(input.state, fabric.ufm.name())).is_some_and(is_quiet)) {
        return Ok(topoloom_sdk::Answer::unchanged(input.state.to_vec()));
    }
    let mut state = State::from_bytes(input.state);
    let mut parts = Vec::with_capacity(fabrics.len());
    for fabric in &fabrics {
        let wiring = match state.parts.iter_mut().find(|part| part.key == fabric.ufm.name()) {
            Some(part) if fabric.seen(Some(&part.own)).is_some() => std::mem::take(&mut part.wiring),
            _ => fetch(config, fabric)?,
        };
        let seen = LastRound { versions: fabric.versions, nodes, placed: input.time };
        parts.push(Part { key: fabric.ufm.name().to_owned(), own: seen.to_bytes(), wiring });
    }
    let outcome = place(&union(&parts), &config.settings, &state.memory, input);
    Ok(outcome.answer(parts, input))
}

/// A fabric with the counters of this round.
#[derive(Debug)]
pub(crate) struct FabricRound<'a> {
    pub(crate) ufm: Ufm<'a>,
    pub(crate) versions: Option<Versions>,
}

impl FabricRound<'_> {
    /// What an earlier round saw of it, if nothing changed since.
    fn seen(&self, own: Option<&[u8]>) -> Option<LastRound> {
        let seen = LastRound::from_bytes(own?)?;
        (self.versions.is_some() && seen.versions == self.versions).then_some(seen)
    }
}

/// Asks every fabric for its counters.
pub(crate) fn ask<'a>(config: &'a Config, input: &Input<'a>) -> Result<Vec<FabricRound<'a>>, Failure> {
    let ask = |fabric: &'a Fabric| {
        let ufm = Ufm::new(input.http, fabric)?;
        let versions = Versions::ask(&ufm)?;
        Ok(FabricRound { ufm, versions })
    };
    config.fabrics.iter().map(ask).collect()
}

/// Whether hosts were placed so recently that no grace can have ended meanwhile.
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
fn fetch(config: &Config, fabric: &FabricRound<'_>) -> Result<Wiring, Failure> {
    let ufm = &fabric.ufm;
    let query = |path, filter| Query { path, filter, page_size: config.page_size, max_unusable: config.max_unusable };
    let mut cables = Cables::default();
    let mut odd = Tally::default();
    // First, so that peers of switch ports are read only where there is no list of links.
    if config.uplinks == Uplinks::Auto {
        let take = &mut |members: &mut Members<'_>| {
            Link::read(members).map(|link| link.iter().for_each(|link| cables.take(link)))
        };
        odd = optional(ufm, &query("resources/links", None), take)?;
    }
    let from = if cables.is_empty() && config.uplinks == Uplinks::Auto { Trunks::FromPorts } else { Trunks::Known };
    let mut gathered = Gathered::new(config, from);
    report(&mut gathered.wiring, "unusable-link", "records of the list of links are unusable", &odd);
    // Ports that are down are needed only where they count: the memory knows the links of earlier rounds.
    let filter = (config.settings.down == Down::Report).then_some("active=true");
    let tally = ports(ufm, &query("resources/ports", filter), &mut |members| gathered.port(members))?;
    report(&mut gathered.wiring, "unusable-record", "records of the list of ports are unusable", &tally);
    if gathered.needs_systems() {
        let mut systems = Systems::default();
        optional(ufm, &query("resources/systems", None), &mut |members| systems.take(members))?;
        if let Some(what) = systems.overflow() {
            return Err(too_much(ufm, "resources/systems", what));
        }
        gathered.systems(&systems);
    }
    gathered.finish();
    if let Some(what) = gathered.overflow() {
        return Err(too_much(ufm, "resources/ports", what));
    }
    weave(gathered, &cables, config, ufm.name()).map_err(|what| too_much(ufm, "resources/links", what))
}

/// A list exceeds a limit of the plugin.
fn too_much(ufm: &Ufm<'_>, path: &str, what: &str) -> Failure {
    Failure::upstream(format!("{path} of the endpoint {:?}: {what}", ufm.name()))
}

/// Reads the list of ports, which every UFM has.
pub(crate) fn ports(ufm: &Ufm<'_>, query: &Query, each: &mut Each<'_>) -> Result<Tally, Failure> {
    match ufm.list(query, each)? {
        Fetched::Read(tally) => Ok(tally),
        Fetched::Missing(status) => {
            let name = ufm.name();
            Err(Failure::upstream(format!(
                "GET {} of the endpoint {name:?}: status {status}: is this a UFM?",
                query.path
            )))
        }
    }
}

/// Reads a list that not every release has; the ports have the same information.
fn optional(ufm: &Ufm<'_>, query: &Query, each: &mut Each<'_>) -> Result<Tally, Failure> {
    Ok(match ufm.list(query, each)? {
        Fetched::Read(tally) => tally,
        Fetched::Missing(status) => {
            log::info(&format!("{}: no {}: status {status}", ufm.name(), query.path));
            Tally::default()
        }
    })
}

fn report(wiring: &mut Wiring, code: &str, meaning: &str, tally: &Tally) {
    if let Some((number, reason)) = tally.example {
        wiring.skip_many(code, meaning, &format!("number {number}: {reason}"), tally.unusable);
    }
}
