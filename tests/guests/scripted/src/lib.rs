//! A discoverer that returns the answers of its configuration.
//!
//! ```yaml
//! answers:            # one per round; the last one is repeated
//! - - {id: x, nodes: [n1, n2]}
//!   - {id: s, tier: 2, groups: [x], name: a-promised-name}
//!   - {id: z, zone: east}         # by the label example.com/zone
//! - []
//! - {fail: the fabric is away}  # from here on every round fails
//! ```
//!
//! Its state counts the rounds, so that a test can change the answer without an edit of the entry.

use std::collections::BTreeMap;

use topoloom_sdk::prelude::*;
use topoloom_sdk::{LabelSelector, Level, Outcome, Topology};

struct Scripted;

#[derive(serde::Deserialize)]
struct Config {
    answers: Vec<Script>,
}

/// The answer of one round.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Script {
    /// These groups.
    Groups(Vec<Entry>),
    /// A failure.
    Fail {
        /// Why.
        fail: String,
    },
}

/// One group.
#[derive(serde::Deserialize)]
struct Entry {
    id: String,
    #[serde(default = "lowest")]
    tier: u32,
    /// Names of nodes, existing or not.
    #[serde(default)]
    nodes: Vec<String>,
    /// The value of the label `example.com/zone` that its nodes have.
    zone: Option<String>,
    /// Ids of groups that are listed before this one.
    #[serde(default)]
    groups: Vec<String>,
    /// A fixed name.
    name: Option<String>,
}

fn lowest() -> u32 {
    1
}

impl Discoverer for Scripted {
    type Config = Config;

    fn describe() -> Description {
        Description::new("scripted", "0.1.0").vendor("topoloom").summary("Answers what its configuration lists")
    }

    fn configure(_: &Config) -> Result<Requirements, Vec<Problem>> {
        // A node that is relabelled starts a round, so that a test has two ways to start one.
        Ok(Requirements::new().node_label("example.com/round").trigger(Trigger::on_columns()))
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let round = usize::from(input.state.first().copied().unwrap_or_default());
        let last = config.answers.len().saturating_sub(1);
        let entries = match config.answers.get(round.min(last)) {
            None => &[][..],
            Some(Script::Groups(entries)) => entries,
            Some(Script::Fail { fail }) => return Err(Failure::upstream(fail.clone())),
        };
        let topology = topology(entries).map_err(Failure::Internal)?;
        let next = u8::try_from(round.saturating_add(1).min(last)).unwrap_or(u8::MAX);
        Ok(Answer { outcome: Outcome::Topology(topology), state: vec![next] })
    }
}

topoloom_plugin!(Scripted);

fn topology(entries: &[Entry]) -> Result<Topology, String> {
    let mut topology = TopologyBuilder::new();
    let mut levels = BTreeMap::new();
    let mut known = BTreeMap::new();
    for entry in entries {
        let level = *levels.entry(entry.tier).or_insert_with(|| topology.level(Level::new(entry.tier)));
        let mut group = topology.group(level, entry.id.as_str());
        if let Some(name) = &entry.name {
            group = group.fixed_name(name);
        }
        let group = if let Some(zone) = &entry.zone {
            group.selector(LabelSelector {
                match_labels: vec![("example.com/zone".into(), zone.clone())],
                match_expressions: Vec::new(),
            })
        } else if entry.groups.is_empty() {
            group.names(&entry.nodes)
        } else {
            let children = entry.groups.iter().map(|id| known.get(id).copied().ok_or_else(|| format!("no group {id}")));
            group.groups(children.collect::<Result<Vec<_>, _>>()?)
        };
        known.insert(entry.id.clone(), group);
    }
    Ok(topology.finish())
}
