//! One round: from cables, names and the last round to an answer.

use std::collections::HashSet;

use topoloom_sdk::{Answer, Input, Topology};

use crate::answer::{self, ROOT};
use crate::declared;
use crate::graph::{Graph, NONE, at, set};
use crate::hosts::{self, Hosts};
use crate::matching::{Known, Match};
use crate::memory::{self, Kept, Memory, Past, Prior};
use crate::settings::Settings;
use crate::state::{Part, State};
use crate::tree::distance::{Bears, Switches};
use crate::tree::{self, Floor};
use crate::wiring::Wiring;

/// What a round came to.
#[derive(Debug)]
pub struct Outcome {
    /// The groups and what there is to report.
    pub topology: Topology,
    /// What the next round should know.
    pub memory: Memory,
    /// How the names of hosts went.
    pub counts: Counts,
    /// Whether the topology is exactly the one of the round that left the memory.
    pub change: Change,
}

/// Whether a round came to what the last one did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It did, to the last sentence.
    None,
    /// It did not, or nobody knows.
    Some,
}

/// How the names of hosts went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Hosts that are Nodes.
    pub matched: usize,
    /// Hosts that are not.
    pub unmatched: usize,
    /// Hosts that could be several Nodes, or that share one with a better match.
    pub ambiguous: usize,
}

/// A round that is worked out, before it is put into words.
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
    /// Hosts that were dark for too long.
    pub(crate) dropped: Vec<u32>,
    /// How many Nodes the cluster has.
    pub(crate) nodes: u32,
}

/// Places all hosts. Pure: the same arguments give the same outcome, whatever the order of the records was.
#[must_use]
pub fn place(wiring: &Wiring, settings: &Settings, memory: &Memory, input: &Input<'_>) -> Outcome {
    let declared = declared::apply(wiring, settings);
    let wiring = &*declared;
    let known = Known::new(&input.nodes, settings);
    let prior = if memory.is_empty() { Prior::new(&input.applied.groups(), known.rows()) } else { Prior::default() };
    let (identities, of_wiring, of_memory) = hosts::switches(wiring, memory);
    let grace = u64::try_from(settings.down_grace.as_millis()).unwrap_or(u64::MAX);
    let past = Past { memory, prior: &prior, switches: of_memory, now: input.time, grace };
    let hosts = Hosts::gather(wiring, &of_wiring, &known, &past);
    let mut switches = switches(wiring, identities, &of_wiring);
    let cables = switches.cables();
    find_leaves(&mut switches, &hosts);
    let present = hosts.present(settings, |switch| switches.is_leaf(switch, &cables));
    let recall = past.recall(1, &hosts.keys(), &hosts.rows, &present, Kept::ForGrace);
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
    /// The answer of the round, with the state for the next: `unchanged` where that is the truth and a state came in.
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

/// The switches of a round, as far as the wiring knows them without its hosts.
fn switches<'a>(wiring: &Wiring, identities: Vec<&'a str>, of_wiring: &[u32]) -> Switches<'a> {
    let count = identities.len();
    let (declared, bears) = (vec![0; count], vec![Bears::default(); count]);
    let mut switches = Switches { identities, declared, bears, adjacent: Vec::new() };
    for (number, features) in of_wiring.iter().zip(&wiring.features) {
        set(&mut switches.declared, *number, features.level);
        switches.bear(*number, features.unnamed, false);
    }
    for stranger in &wiring.strangers {
        switches.bear(at(of_wiring, stranger.cable.switch), u32::from(stranger.cable.count), false);
    }
    let both = wiring.adjacent.iter().map(|&(a, b, count)| (at(of_wiring, a), at(of_wiring, b), count));
    switches.adjacent = both.map(|(a, b, count)| (a.min(b), a.max(b), count)).collect();
    switches
}

/// What hangs on the switches, by the cables that are listed.
fn find_leaves(switches: &mut Switches<'_>, hosts: &Hosts<'_>) {
    for host in 0..hosts.hosts.len() as u32 {
        let is_node = at(&hosts.rows, host) != NONE;
        hosts.ports_of(host).iter().for_each(|port| switches.bear(port.switch, port.count, is_node));
    }
}

/// The same by those that are known and not listed any more.
fn find_missing_leaves(switches: &mut Switches<'_>, hosts: &Hosts<'_>, known: &Graph) {
    for (host, edge) in known.iter() {
        if hosts.ports_of(host).iter().all(|port| port.switch != edge.parent) {
            switches.bear(edge.parent, edge.weight, at(&hosts.rows, host) != NONE);
        }
    }
}

fn count(hosts: &Hosts<'_>) -> Counts {
    let mut counts = Counts::default();
    for host in hosts.hosts.iter().filter(|host| host.is_listed) {
        match host.found {
            Match::Node(..) => counts.matched += 1,
            Match::Nobody => counts.unmatched += 1,
            Match::Ambiguous(_) | Match::Duplicate(_) => counts.ambiguous += 1,
        }
    }
    counts
}
