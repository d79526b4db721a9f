//! One round: from cables, names and the last round to an answer.

use std::collections::HashSet;

use topoloom_sdk::{Answer, Input, Topology};

use crate::answer::{self, ROOT};
use crate::declared;
use crate::graph::{Graph, at, set};
use crate::hosts::{self, Hosts};
use crate::matching::{Match, NodeIndex};
use crate::memory::{self, Memory, Past, Prior, Retention};
use crate::settings::Settings;
use crate::state::{Part, State};
use crate::tree::distance::{Bears, HostKind, Switches};
use crate::tree::{self, Floor};
use crate::wiring::Wiring;

/// The result of a round.
#[derive(Debug)]
pub struct Outcome {
    /// The groups and the findings.
    pub topology: Topology,
    /// What the next round has to remember.
    pub memory: Memory,
    /// How many hosts match Nodes.
    pub counts: Counts,
    /// Whether the topology is exactly that of the last round.
    pub change: Change,
}

/// Whether a round has another result than the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It has the same, to the last sentence of the findings.
    None,
    /// It has another one, or the last one is unknown.
    Some,
}

/// How many hosts match Nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Hosts that match a Node.
    pub matched: usize,
    /// Hosts that match none.
    pub unmatched: usize,
    /// Hosts that match several Nodes, or a Node that another host matches better.
    pub ambiguous: usize,
}

/// A finished round, before it becomes an answer.
#[derive(Debug)]
pub(crate) struct Round<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) wiring: &'a Wiring,
    pub(crate) hosts: Hosts<'a>,
    /// The links that count, by host.
    pub(crate) present: Graph,
    pub(crate) switches: Switches<'a>,
    /// Readable names, by switch; empty where there is none.
    pub(crate) names: Vec<&'a str>,
    pub(crate) floors: Vec<Floor>,
    /// Hosts that had no live link for too long.
    pub(crate) dropped: Vec<u32>,
    /// How many Nodes the cluster has.
    pub(crate) nodes: u32,
}

/// Places all hosts. Pure: the same arguments give the same outcome, in any order of the records.
#[must_use]
pub fn place(wiring: &Wiring, settings: &Settings, memory: &Memory, input: &Input<'_>) -> Outcome {
    let declared = declared::apply(wiring, settings);
    let wiring = &*declared;
    let known = NodeIndex::new(&input.nodes, settings);
    let prior = if memory.is_empty() { Prior::new(&input.applied.groups(), known.rows()) } else { Prior::default() };
    let (identities, of_wiring, of_memory) = hosts::switches(wiring, memory);
    let grace = u64::try_from(settings.down_grace.as_millis()).unwrap_or(u64::MAX);
    let past = Past { memory, prior: &prior, switches: of_memory, now: input.time, grace };
    let hosts = Hosts::gather(wiring, &of_wiring, &known, &past);
    let mut switches = switches(wiring, identities, &of_wiring);
    let cables = switches.cables();
    find_leaves(&mut switches, &hosts);
    let present = hosts.present(settings, |switch| switches.is_leaf(switch, &cables));
    let recall = past.recall(1, &hosts.keys(), &hosts.rows, &present, Retention::ForGrace);
    let dropped = recall.dropped.clone();
    find_missing_leaves(&mut switches, &hosts, &recall.known);
    let mut names = vec![""; switches.identities.len()];
    for (number, features) in of_wiring.iter().zip(&wiring.features) {
        set(&mut names, *number, wiring.texts.get(features.name));
    }
    let mut taken = HashSet::from([ROOT.to_owned()]);
    let floors = tree::grow((&switches, &cables), settings, &past, (&present, recall), &mut taken);
    let counts = count(&hosts);
    let round = Round { settings, wiring, hosts, present, switches, names, floors, dropped, nodes: known.rows() };
    let topology = answer::write(&round);
    let nodes = round.hosts.nodes(&known.names);
    let mut next = memory::remember(&round.switches.identities, &round.floors, &round.hosts.keys(), &nodes);
    let is_unsure = round.floors.iter().any(|floor| floor.is_thin || !floor.level.doubted.is_empty())
        || round.floors.iter().skip(1).any(|floor| floor.level.keeps_dark());
    next.began = past.began().filter(|_| is_unsure);
    next.digest = answer::digest(&topology, &known.names);
    let change = if memory.digest == next.digest && !memory.is_empty() { Change::None } else { Change::Some };
    Outcome { topology, memory: next, counts, change }
}

impl Outcome {
    /// The answer of the round, with the state for the next: `unchanged` where the result is the last one and the host
    /// gave a state.
    #[must_use]
    pub fn answer(self, parts: Vec<Part>, input: &Input<'_>) -> Answer {
        let state = State { parts, memory: self.memory }.to_bytes();
        if self.change == Change::None && !input.state.is_empty() {
            Answer::unchanged(state)
        } else {
            Answer::from(self.topology).with_state(state)
        }
    }
}

/// The switches of a round, with what the wiring says of them apart from its hosts.
fn switches<'a>(wiring: &Wiring, identities: Vec<&'a str>, of_wiring: &[u32]) -> Switches<'a> {
    let count = identities.len();
    let (declared, bears) = (vec![0; count], vec![Bears::default(); count]);
    let mut switches = Switches { identities, declared, bears, adjacent: Vec::new() };
    for (number, features) in of_wiring.iter().zip(&wiring.features) {
        set(&mut switches.declared, *number, features.level);
        switches.bear(*number, features.unnamed, HostKind::Other);
    }
    for stranger in &wiring.strangers {
        switches.bear(at(of_wiring, stranger.cable.switch), u32::from(stranger.cable.count), HostKind::Other);
    }
    let both = wiring.adjacent.iter().map(|&(a, b, count)| (at(of_wiring, a), at(of_wiring, b), count));
    switches.adjacent = both.map(|(a, b, count)| (a.min(b), a.max(b), count)).collect();
    switches
}

/// Counts the hosts on each switch by the listed cables.
fn find_leaves(switches: &mut Switches<'_>, hosts: &Hosts<'_>) {
    for host in 0..hosts.hosts.len() as u32 {
        let kind = HostKind::of_row(at(&hosts.rows, host));
        hosts.ports_of(host).iter().for_each(|port| switches.bear(port.switch, port.count, kind));
    }
}

/// Counts the hosts on each switch by cables that are remembered and no longer listed.
fn find_missing_leaves(switches: &mut Switches<'_>, hosts: &Hosts<'_>, known: &Graph) {
    for (host, edge) in known.iter() {
        if hosts.ports_of(host).iter().all(|port| port.switch != edge.parent) {
            switches.bear(edge.parent, edge.weight, HostKind::of_row(at(&hosts.rows, host)));
        }
    }
}

fn count(hosts: &Hosts<'_>) -> Counts {
    let mut counts = Counts::default();
    for host in hosts.hosts.iter().filter(|host| host.is_listed) {
        match host.found {
            Match::Node(..) => counts.matched += 1,
            Match::Unmatched => counts.unmatched += 1,
            Match::Ambiguous(_) | Match::Duplicate(_) => counts.ambiguous += 1,
        }
    }
    counts
}
