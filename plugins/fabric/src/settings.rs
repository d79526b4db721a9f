//! The settings of an operator for grouping and names, the same for every fabric.

mod levels;
mod read;
mod replace;

use regex_lite::Regex;
use std::time::Duration;

use crate::reader::Note;
use crate::wiring::LinkState;
pub use read::SharedKey;

/// How cables become groups. [`Settings::default`] is the empty configuration.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Switches belong together when more than this share of the larger set of hosts is common. Above 0, below 1. Half of
    /// it is enough where the hosts that one switch lacks have links to similar switches. Where they have links to other
    /// switches, no share is enough.
    /// Key `similarity`.
    pub similarity: f64,
    /// Names of the tiers, lowest first; a tier beyond the list has no name. Key `tierNames`.
    pub tier_names: Vec<String>,
    /// How long a host without a live link keeps its place. Key `downGrace`.
    pub down_grace: Duration,
    /// How links that are down count. Key `includeDown`.
    pub down: Down,
    /// One group over everything, with this name of its tier. Key `root` (`true`: `root`).
    pub root: Option<String>,
    /// Names of hosts and their Nodes. Key `hostMap`.
    pub host_map: Vec<(String, String)>,
    /// Rules from names of hosts to names of Nodes; the first that gives a Node counts. Key `rewrite`.
    pub rewrite: Vec<Rewrite>,
    /// Names that identify no host. Key `ignoreHosts`.
    pub ignore_hosts: Vec<Regex>,
    /// The annotation in which Nodes list the GUIDs of their ports. Key `guidAnnotation`.
    pub guid_annotation: Option<String>,
    /// The highest tier: no group above it is created or kept. Key `maxTier`.
    pub max_tier: u32,
    /// Declared levels of switches; the first entry that fits a switch counts. Key `levels`.
    pub levels: Vec<Declared>,
    /// Whether groups of groups are wanted. Not a key: set by the discoverer.
    pub tiers: Tiers,
    /// The "type" in the names of new objects; none: the source. Not a key: set by the discoverer.
    pub kind: Option<String>,
    /// Notes on values that work but may surprise: one diagnostic each, in every round. Set from [`crate::Reader::finish`].
    pub notes: Vec<Note>,
}

/// How links that are down count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Down {
    /// They are reported and do not count.
    Report,
    /// They count like links that are up: for a fabric under maintenance.
    Count,
}

/// How far up groups are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tiers {
    /// As far as cables between switches reach.
    All,
    /// Groups of hosts only: higher groups of earlier rounds are not kept.
    Lowest,
}

/// A rule that makes the name of a Node out of the name of a host.
#[derive(Debug, Clone)]
pub struct Rewrite {
    /// Matches the names that the rule applies to.
    pub regex: Regex,
    /// Replaces every match; `$1`, `${name}` are captured groups.
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

/// Which switches a level is declared for.
#[derive(Debug, Clone)]
pub enum Which {
    /// Those with one of these identities, or with a name in which one of these matches.
    Switches {
        /// Identities, as the wiring has them.
        ids: Vec<String>,
        /// For names.
        names: Vec<Regex>,
    },
    /// A virtual switch: all switches whose names give this regular expression the same group are below one switch of that
    /// level.
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
    /// Whether links of a state count.
    pub(crate) fn counts(&self, state: LinkState) -> bool {
        state == LinkState::Up || self.down == Down::Count
    }
}

#[cfg(test)]
mod tests;
