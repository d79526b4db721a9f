//! One round: from cables, names and the last round to an answer.

use topoloom_sdk::{Answer, Input, Topology, TopologyBuilder};

use crate::memory::Memory;
use crate::settings::Settings;
use crate::state::State;
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
    /// Hosts that could be several.
    pub ambiguous: usize,
}

/// Places all hosts. Pure: the same arguments give the same outcome, whatever the order of the records was.
#[must_use]
pub fn place(wiring: &Wiring, settings: &Settings, memory: &Memory, input: &Input<'_>) -> Outcome {
    let _ = (wiring, settings, memory, input);
    Outcome {
        topology: TopologyBuilder::new().finish(),
        memory: Memory::default(),
        counts: Counts::default(),
        change: Change::Some,
    }
}

impl Outcome {
    /// The answer of the round, with the state for the next: `unchanged` where that is the truth and a state came in.
    #[must_use]
    pub fn answer(self, parts: Vec<crate::state::Part>, input: &Input<'_>) -> Answer {
        let state = State { parts, memory: self.memory }.to_bytes();
        if self.change == Change::None && !input.state.is_empty() {
            Answer::unchanged(state)
        } else {
            Answer::from(self.topology).with_state(state)
        }
    }
}
