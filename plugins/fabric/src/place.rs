//! One round: from cables, names and the last round to an answer.

use std::collections::HashSet;

use topoloom_sdk::{Answer, Input, Topology};

use crate::answer::{self, ROOT};
use crate::graph::{Graph, at, set};
use crate::hosts::{self, Hosts};
use crate::matching::{Known, Match};
use crate::memory::{self, Memory, Past, Prior};
use crate::settings::Settings;
use crate::state::{Part, State};
use crate::tree::{self, Floor, Switches};
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
    let known = Known::new(&input.nodes, settings);
    let prior = if memory.is_empty() { Prior::new(&input.applied.groups(), known.rows()) } else { Prior::default() };
    let (identities, of_wiring, of_memory) = hosts::switches(wiring, memory);
    let grace = u64::try_from(settings.down_grace.as_millis()).unwrap_or(u64::MAX);
    let past = Past { memory, prior: &prior, switches: of_memory, now: input.time, grace };
    let hosts = Hosts::gather(wiring, &of_wiring, &known, &past);
    let mut switches = switches(wiring, identities, &of_wiring);
    let present = hosts.present(settings, &switches.declared);
    let recall = past.recall(1, &hosts.keys(), &hosts.rows, &present);
    let dropped = recall.dropped.clone();
    let leaves = hosts.ports.iter().map(|port| port.switch).chain(recall.known.edges().iter().map(|edge| edge.parent));
    leaves.for_each(|switch| set(&mut switches.bears_hosts, switch, true));
    let mut names = vec![""; switches.identities.len()];
    for (number, features) in of_wiring.iter().zip(&wiring.features) {
        set(&mut names, *number, wiring.texts.get(features.name));
    }
    let mut taken = HashSet::from([ROOT.to_owned()]);
    let floors = tree::grow(&switches, settings, &past, (&present, recall), &mut taken);
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
    let mut switches =
        Switches { identities, declared: vec![0; count], bears_hosts: vec![false; count], adjacent: Vec::new() };
    for (number, features) in of_wiring.iter().zip(&wiring.features) {
        set(&mut switches.declared, *number, features.level);
        set(&mut switches.bears_hosts, *number, features.bears_hosts);
    }
    for stranger in &wiring.strangers {
        set(&mut switches.bears_hosts, at(of_wiring, stranger.cable.switch), true);
    }
    let both = wiring.adjacent.iter().map(|&(a, b, count)| (at(of_wiring, a), at(of_wiring, b), count));
    switches.adjacent = both.map(|(a, b, count)| (a.min(b), a.max(b), count)).collect();
    switches
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
