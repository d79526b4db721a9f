//! `compat: volcano`: the fields that Volcano reads, the way it reads them.
//!
//! Keys match in any case, `null` says nothing, and one record of the wrong type fails the round, as it does there.

use crate::config::Config;
use crate::fetch::Query;
use crate::port::Unusable;
use crate::rounds::{self, Asked};
use crate::versions::Seen;
use std::borrow::Cow;
use topoloom_fabric::{Link, Part, State, Wiring, volcano};
use topoloom_sdk::json::{Members, Raw};
use topoloom_sdk::{Diagnostic, Failure, Input, Subject};

/// One round.
pub(crate) fn discover(config: &Config, input: &Input<'_>) -> Result<topoloom_sdk::Answer, Failure> {
    let fabrics = rounds::ask(config, input)?;
    let seen = |fabric: &Asked<'_>| Seen { versions: fabric.versions, nodes: 0, placed: 0 };
    let part = |fabric: &Asked<'_>| Part {
        key: fabric.ufm.name().to_owned(),
        own: seen(fabric).to_bytes(),
        wiring: Wiring::new(),
    };
    let parts: Vec<Part> = fabrics.iter().map(part).collect();
    // The answer depends on the fabrics alone: what they said is all there is to remember.
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

/// Adds the ports of a fabric, down ones and placeholders too.
fn read(config: &Config, fabric: &Asked<'_>, wiring: &mut Wiring) -> Result<(), Failure> {
    let query = Query { path: "resources/ports", filter: None, page_size: config.page_size, max_unusable: 0 };
    let read = &mut |members: &mut Members<'_>| {
        let port = Port::read(members)?;
        if port.description.contains("Computer") {
            let host = wiring.host(&port.system_name);
            let leaf = wiring.switch(&port.peer_node_name, "");
            wiring.link(host, leaf, Link::up(""));
        }
        Ok(())
    };
    rounds::ports(&fabric.ufm, &query, read).map(|_| ())
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
