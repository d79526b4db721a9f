//! The document `topoloom.fabric/v1`: which switch each node sees, and how switches are wired among themselves.
//!
//! One contract for all carriers. An entry describes one node; a body has entries of many nodes and, if its author knows
//! them, the switches. Unknown keys are ignored, so that the document can grow. An entry or body with an unknown schema is
//! refused. A mistake inside an entry costs that link or that entry and is reported; a mistake of a body as a whole is an
//! error. `entry` reads an entry, `body` a body piece by piece; a [`Sheet`] keeps the result of both.

mod body;
mod entry;
mod left_out;
mod switch;

pub(crate) use body::{Page, page};
pub(crate) use entry::{Entry, Speaker};
pub(crate) use left_out::LeftOut;

use crate::chassis::SwitchClaim;
use crate::lldp::Protocols;
use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The only known schema.
pub(crate) const SCHEMA: &str = "topoloom.fabric/v1";
/// Bytes of the entry in an annotation: annotations of one object share 256 KiB.
pub(crate) const MAX_ENTRY: usize = 16 * 1024;
/// Cables of one node. Eight rails of two planes are sixteen.
pub(crate) const MAX_LINKS: usize = 64;
/// Entries of one snapshot: beyond what one cluster has.
const MAX_HOSTS: usize = 100_000;
/// Switches of one snapshot.
const MAX_SWITCHES: usize = 50_000;
/// Notes that are kept; further ones are counted.
const MAX_NOTES: usize = 2_000;
/// Bytes of one note.
const MAX_DETAIL: usize = 400;

/// Which cables of an entry count.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Interfaces that count; empty: all.
    pub(crate) include: Vec<Regex>,
    /// Interfaces that do not.
    pub(crate) exclude: Vec<Regex>,
    /// Roles of links that count.
    pub(crate) roles: Vec<Role>,
    /// Whether CDP counts where no neighbour uses LLDP.
    pub(crate) protocols: Protocols,
}

/// What a link is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Traffic of jobs.
    Compute,
    /// Traffic to storage.
    Storage,
    /// Traffic of administrators.
    Mgmt,
}

impl Role {
    /// All roles with their words.
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("compute", Self::Compute), ("storage", Self::Storage), ("mgmt", Self::Mgmt)];

    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Storage => "storage",
            Self::Mgmt => "mgmt",
        }
    }

    /// The role of a word.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == word).map(|(_, role)| role)
    }
}

impl Rules {
    fn takes_interface(&self, name: &str) -> bool {
        let is_in = |list: &[Regex]| list.iter().any(|regex| regex.is_match(name));
        (self.include.is_empty() || is_in(&self.include)) && !is_in(&self.exclude)
    }
}

/// The content of one carrier, in a form that is small enough to be kept from round to round: texts are numbers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Sheet {
    /// Its author.
    #[serde(skip)]
    pub(crate) by: Author,
    /// The descriptions of switches by cables and documents, each once.
    pub(crate) seen: Vec<SwitchClaim>,
    /// Names of ports, each once.
    pub(crate) ports: Vec<String>,
    /// The nodes.
    pub(crate) hosts: Vec<Host>,
    /// The switches that the document lists.
    pub(crate) switches: Vec<Switch>,
    /// Notes on what was dropped or looks wrong.
    pub(crate) notes: Vec<Note>,
    /// Notes beyond those that are kept.
    pub(crate) more_notes: usize,
    /// Entries of nodes or switches that could not be used at all.
    pub(crate) bad: usize,
    /// Links that the configuration excludes.
    #[serde(default)]
    pub(crate) left_out: LeftOut,
    #[serde(skip)]
    index: HashMap<SwitchClaim, u32>,
    #[serde(skip)]
    port_index: HashMap<String, u32>,
}

/// The author of a sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Author {
    /// One author of the entries of all nodes.
    #[default]
    Document,
    /// Every node is the author of its own entry.
    Nodes,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Host {
    /// Its name as the document writes it.
    pub(crate) node: String,
    /// When this was seen, in milliseconds since 1970.
    pub(crate) observed: u64,
    /// Its cables.
    pub(crate) links: Vec<Cable>,
}

/// One cable of a host, in numbers: they are a list in the state, where there are a hundred thousand of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cable(pub(crate) Ends, pub(crate) State);

/// Switch as position in [`Sheet::seen`], the host's port and the switch's as positions in [`Sheet::ports`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ends(pub(crate) u32, pub(crate) u32, pub(crate) u32);

/// Whether a cable carries traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum State {
    /// It does.
    #[serde(rename = "u")]
    Up,
    /// It does not; the other end is known from before.
    #[serde(rename = "d")]
    Down,
}

/// One switch of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Switch {
    /// Its identity: a chassis id, or any id that the author uses.
    pub(crate) id: String,
    /// Its name.
    pub(crate) name: Option<String>,
    /// Its distance from the nodes; it overrides the computed one.
    pub(crate) level: Option<u32>,
    /// Identities of other switches, and the number of cables to each.
    pub(crate) uplinks: Vec<(String, u32)>,
}

/// A note on something that was dropped or looks wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The code of the diagnostic.
    pub(crate) code: String,
    /// The node or switch, as the document names it.
    pub(crate) subject: String,
    /// One sentence.
    pub(crate) detail: String,
}

impl Sheet {
    /// Adds the entry of a node.
    ///
    /// # Errors
    ///
    /// The document has more nodes than any cluster.
    pub(crate) fn add(&mut self, node: &str, entry: Entry) -> Result<(), String> {
        if self.hosts.len() >= MAX_HOSTS {
            return Err(format!("more than {MAX_HOSTS} nodes"));
        }
        self.left_out.interfaces += entry.left_out.interfaces;
        self.left_out.roles += entry.left_out.roles;
        let links = entry.links.into_iter().map(|link| {
            let ends = Ends(self.number(link.switch), self.port(link.interface), self.port(link.port));
            Cable(ends, link.state)
        });
        let links = links.collect();
        self.hosts.push(Host { node: node.to_owned(), observed: entry.observed, links });
        for (code, detail) in entry.notes {
            self.note(code, node, detail);
        }
        Ok(())
    }

    /// Adds a switch.
    ///
    /// # Errors
    ///
    /// The document has more switches than any fabric.
    pub(crate) fn add_switch(&mut self, switch: Switch) -> Result<(), String> {
        if self.switches.len() >= MAX_SWITCHES {
            return Err(format!("more than {MAX_SWITCHES} switches"));
        }
        self.switches.push(switch);
        Ok(())
    }

    /// Counts an entry that cannot be used.
    pub(crate) fn reject(&mut self, code: &str, subject: &str, detail: String) {
        self.bad += 1;
        self.note(code, subject, detail);
    }

    pub(crate) fn note(&mut self, code: &str, subject: &str, detail: String) {
        if self.notes.len() >= MAX_NOTES {
            self.more_notes += 1;
            return;
        }
        let [subject, detail] = [subject, &detail].map(|text| cut(text, MAX_DETAIL));
        self.notes.push(Note { code: code.to_owned(), subject, detail });
    }

    fn number(&mut self, seen: SwitchClaim) -> u32 {
        let next = u32::try_from(self.seen.len()).unwrap_or(u32::MAX);
        *self.index.entry(seen).or_insert_with_key(|seen| {
            self.seen.push(seen.clone());
            next
        })
    }

    fn port(&mut self, name: String) -> u32 {
        let next = u32::try_from(self.ports.len()).unwrap_or(u32::MAX);
        *self.port_index.entry(name).or_insert_with_key(|name| {
            self.ports.push(name.clone());
            next
        })
    }
}

/// A text of at most so many bytes, cut between characters.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests;
