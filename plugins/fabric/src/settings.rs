//! What an operator can say about grouping and names, the same for every fabric.

mod levels;
mod read;
mod replace;

use regex_lite::Regex;
use std::time::Duration;

use crate::reader::Note;
use crate::wiring::LinkState;
pub use read::Known;

/// How cables become groups. [`Settings::default`] is what an empty configuration means.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Switches belong together when more than this share of the larger set of hosts is common. Above 0, below 1. Where
    /// the hosts that one of them lacks hang on its like, half of this is enough; where they hang on others, nothing is.
    /// Key `similarity`.
    pub similarity: f64,
    /// What users call the tiers, lowest first; a tier beyond the list has no name. Key `tierNames`.
    pub tier_names: Vec<String>,
    /// How long a host without a live link keeps its place. Key `downGrace`.
    pub down_grace: Duration,
    /// What links that are down are worth. Key `includeDown`.
    pub down: Down,
    /// One group over everything, and what its tier is called. Key `root` (`true`: `root`).
    pub root: Option<String>,
    /// Names of hosts and the Nodes they stand for. Key `hostMap`.
    pub host_map: Vec<(String, String)>,
    /// From names of hosts to names of Nodes; the first that leads to a Node counts. Key `rewrite`.
    pub rewrite: Vec<Rewrite>,
    /// Names that are nobody's. Key `ignoreHosts`.
    pub ignore_hosts: Vec<Regex>,
    /// The annotation in which Nodes list the GUIDs of their ports. Key `guidAnnotation`.
    pub guid_annotation: Option<String>,
    /// The highest tier there is: no group above it is made, or kept. Key `maxTier`.
    pub max_tier: u32,
    /// What the operator says about the levels of switches; the first that fits a switch counts. Key `levels`.
    pub levels: Vec<Declared>,
    /// Whether groups of groups are wanted. Not a key: set by the discoverer.
    pub tiers: Tiers,
    /// The "type" in the names of new objects; none: the source. Not a key: set by the discoverer.
    pub kind: Option<String>,
    /// What works but may surprise: one diagnostic each, every round. Set from [`crate::Reader::finish`].
    pub notes: Vec<Note>,
}

/// What links that are down are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Down {
    /// They show what is broken, and that is all.
    Report,
    /// They count like links that are up: a fabric under maintenance.
    Count,
}

/// How far up groups are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tiers {
    /// As far as cables between switches reach.
    All,
    /// Hosts in groups, and nothing above: also not what was there before.
    Lowest,
}

/// A rule that makes the name of a Node out of the name of a host.
#[derive(Debug, Clone)]
pub struct Rewrite {
    /// What it applies to: a name in which it matches.
    pub regex: Regex,
    /// What every match becomes; `$1`, `${name}` are what was captured.
    pub replace: String,
}

/// The level of some switches.
#[derive(Debug, Clone)]
pub struct Declared {
    /// 1 (leaf) to 16.
    pub level: u8,
    /// Which switches.
    pub which: Which,
}

/// Which switches something is said of.
#[derive(Debug, Clone)]
pub enum Which {
    /// Those with one of these identities, or with a name in which one of these matches.
    Switches {
        /// Identities, as the wiring has them.
        ids: Vec<String>,
        /// For names.
        names: Vec<Regex>,
    },
    /// None that is there: all whose names give this regular expression the same group are below one switch of that level.
    Below(Regex),
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            similarity: 0.5,
            tier_names: ["leaf-group", "pod", "core"].map(str::to_owned).to_vec(),
            down_grace: Duration::from_secs(24 * 60 * 60),
            down: Down::Report,
            root: None,
            host_map: Vec::new(),
            rewrite: Vec::new(),
            ignore_hosts: Vec::new(),
            guid_annotation: None,
            max_tier: 16,
            levels: Vec::new(),
            tiers: Tiers::All,
            kind: None,
            notes: Vec::new(),
        }
    }
}

impl Settings {
    /// Whether links of a state say where a host is.
    pub(crate) fn counts(&self, state: LinkState) -> bool {
        state == LinkState::Up || self.down == Down::Count
    }
}

#[cfg(test)]
mod tests;
