//! `compat: volcano`: the fields that Volcano reads, the way it reads them.
//!
//! Keys match in any case, `null` is an absent value, and one record of the wrong type makes the round fail, as in Volcano.
//! One thing differs: a port without a peer (`N/A`, empty, or no such field) is left out. For Volcano all such ports are
//! plugged into one leaf, so three dead ports join three racks into one.

use crate::config::Config;
use crate::fetch::Query;
use crate::gather::{NO_PEER, WITHOUT_PEER, quoted};
use crate::port::{Unusable, is_nothing};
use crate::rounds::{self, FabricRound};
use crate::versions::LastRound;
use std::borrow::Cow;
use std::collections::BTreeSet;
use topoloom_fabric::{Link, Part, State, Wiring, volcano};
use topoloom_sdk::json::{Members, Raw};
use topoloom_sdk::{Diagnostic, Failure, Input, Subject};

/// How many hosts a diagnostic names.
const EXAMPLES: usize = 3;

/// One round.
pub(crate) fn discover(config: &Config, input: &Input<'_>) -> Result<topoloom_sdk::Answer, Failure> {
    let fabrics = rounds::ask(config, input)?;
    let seen = |fabric: &FabricRound<'_>| LastRound { versions: fabric.versions, nodes: 0, placed: 0 };
    let part = |fabric: &FabricRound<'_>| Part {
        key: fabric.ufm.name().to_owned(),
        own: seen(fabric).to_bytes(),
        wiring: Wiring::new(),
    };
    let parts: Vec<Part> = fabrics.iter().map(part).collect();
    // The answer depends on the fabrics alone, so the state holds their wiring and nothing else.
    let last = State::from_bytes(input.state);
    let is_quiet = |part: &Part| last.part(&part.key).is_some_and(|last| last.own == part.own);
    if fabrics.iter().all(|fabric| fabric.versions.is_some()) && parts.iter().all(is_quiet) {
        return Ok(topoloom_sdk::Answer::unchanged(input.state.to_vec()));
    }
    let mut wiring = Wiring::new();
    for fabric in &fabrics {
        read(config, fabric, &mut wiring)?;
    }
    let mut topology = volcano(&wiring);
    topology.diagnostics.extend(config.settings.notes.iter().map(|note| Diagnostic {
        code: note.code.to_owned(),
        subject: Subject::Source,
        detail: note.text.clone(),
    }));
    let state = State { parts, ..State::default() }.to_bytes();
    Ok(topoloom_sdk::Answer::from(topology).with_state(state))
}

/// Adds the ports of a fabric, down ones too.
fn read(config: &Config, fabric: &FabricRound<'_>, wiring: &mut Wiring) -> Result<(), Failure> {
    let query = Query { path: "resources/ports", filter: None, page_size: config.page_size, max_unusable: 0 };
    let mut dead = Dead::default();
    let read = &mut |members: &mut Members<'_>| {
        let port = Port::read(members)?;
        if port.description.contains("Computer") {
            if is_nothing(&port.peer_node_name) {
                dead.add(&port.system_name);
                return Ok(());
            }
            let host = wiring.host(&port.system_name);
            let leaf = wiring.switch(&port.peer_node_name, "");
            wiring.link(host, leaf, Link::up(""));
        }
        Ok(())
    };
    rounds::ports(&fabric.ufm, &query, read)?;
    dead.report(wiring);
    Ok(())
}

/// Ports of hosts with nothing at their other end.
#[derive(Debug, Default)]
struct Dead {
    count: u64,
    /// The alphabetically first hosts that have one, so that the order of records does not matter.
    hosts: BTreeSet<String>,
}

impl Dead {
    fn add(&mut self, host: &str) {
        self.count += 1;
        let host = quoted(host);
        if self.hosts.len() < EXAMPLES || self.hosts.last().is_some_and(|last| host < *last) {
            self.hosts.insert(host);
            if self.hosts.len() > EXAMPLES {
                self.hosts.pop_last();
            }
        }
    }

    fn report(self, wiring: &mut Wiring) {
        if self.count > 0 {
            let hosts = self.hosts.into_iter().collect::<Vec<_>>().join(", ");
            wiring.skip_many(NO_PEER, WITHOUT_PEER, &hosts, self.count);
        }
    }
}

/// The three fields that count.
#[derive(Debug, Default, PartialEq)]
struct Port<'a> {
    description: Cow<'a, str>,
    system_name: Cow<'a, str>,
    peer_node_name: Cow<'a, str>,
}

impl<'a> Port<'a> {
    fn read(members: &mut Members<'a>) -> Result<Self, Unusable> {
        let mut port = Self::default();
        let mut ignored = Cow::default();
        if members.instead().is_some_and(Raw::is_null) {
            return Ok(port);
        }
        for member in members {
            let (key, value) = member.map_err(|_| Unusable::NoObject)?;
            let is = |name: &str| key.eq_ignore_ascii_case(name.as_bytes());
            let (field, key) = match () {
                () if is("description") => (&mut port.description, "description"),
                () if is("system_name") => (&mut port.system_name, "system_name"),
                () if is("peer_node_name") => (&mut port.peer_node_name, "peer_node_name"),
                () if is("node_description") => (&mut ignored, "node_description"),
                () if is("tier") && !is_integer(value) => return Err(Unusable::Field("tier")),
                () => continue,
            };
            if !value.is_null() {
                *field = value.text().ok_or(Unusable::Field(key))?;
            }
        }
        Ok(port)
    }
}

/// A number that Go reads into an `int`.
fn is_integer(value: Raw<'_>) -> bool {
    value.is_null() || str::from_utf8(value.bytes()).is_ok_and(|text| text.parse::<i64>().is_ok())
}

#[cfg(test)]
mod tests;
