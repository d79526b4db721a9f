//! One case of the vendor as the kit uses it, and the nodes of a round.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};
use topoloom_core::snapshot::{ColumnKey, NodeMeta, Store, View};
use topoloom_core::topology::Object;
use topoloom_sandbox::endpoints::recording::Recording;

use crate::cases::{Case, Fault, Played, of_desk};
use crate::node_file::FileNode;
use crate::rounds::Desk;

/// A node, as far as a plugin can see it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
}

impl Node {
    /// The value under a key.
    pub(super) fn value(&self, key: &ColumnKey) -> Option<&String> {
        match key {
            ColumnKey::Label(key) => self.labels.get(&**key),
            ColumnKey::Annotation(key) => self.annotations.get(&**key),
        }
    }

    /// Sets or takes away the value under a key.
    pub(super) fn set(&mut self, key: &ColumnKey, value: Option<String>) {
        let values = match key {
            ColumnKey::Label(_) => &mut self.labels,
            ColumnKey::Annotation(_) => &mut self.annotations,
        };
        match value {
            Some(value) => values.insert(key.text().to_owned(), value),
            None => values.remove(key.text()),
        };
    }
}

/// Whether an answer may depend on the time of its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Time {
    /// It may not.
    #[default]
    Ignored,
    /// The case says that it may.
    Counts,
}

/// What a case says about its answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Expected {
    /// Nothing.
    #[default]
    Absent,
    /// The answer is the expected one, be it a failure.
    Met,
    /// The lines in which it differs.
    Differs(Vec<String>),
}

/// A case: the first round of it, where it has several.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// Its name.
    pub name: String,
    /// The configuration, a JSON object.
    pub config: Value,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// What services answer.
    pub recording: Option<Arc<Recording>>,
    /// The state of an earlier round.
    pub state: Vec<u8>,
    /// The objects in the cluster; those of the source that the plugin answers for are its own.
    pub existing: Vec<Arc<Object>>,
    /// When its round starts.
    pub at: Timestamp,
    /// Whether that counts.
    pub time: Time,
    /// What it says about its answer.
    pub expected: Expected,
}

impl From<&FileNode> for Node {
    fn from(node: &FileNode) -> Self {
        let map = |pairs: &[(String, String)]| pairs.iter().cloned().collect();
        Self { name: node.name.to_string(), labels: map(&node.labels), annotations: map(&node.annotations) }
    }
}

impl From<&Node> for FileNode {
    fn from(node: &Node) -> Self {
        let list =
            |map: &BTreeMap<String, String>| map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        Self { name: node.name.as_str().into(), labels: list(&node.labels), annotations: list(&node.annotations) }
    }
}

impl Trial {
    /// The first round of a case that was played.
    #[must_use]
    pub fn of(case: &Case, played: &Played, desk: &Desk) -> Self {
        let turn = case.turns.first();
        let config = turn.and_then(|turn| serde_json::from_str(&turn.config).ok());
        let recording = turn.and_then(|turn| turn.recording.clone()).or_else(|| case.recording.clone());
        let existing = turn.and_then(|turn| turn.existing.as_deref()).unwrap_or_default();
        Self {
            name: case.name.clone(),
            config: config.unwrap_or_else(|| Value::Object(Map::new())),
            nodes: turn.into_iter().flat_map(|turn| &turn.nodes.list).map(Node::from).collect(),
            recording: recording.map(Arc::new),
            state: case.state.clone(),
            existing: of_desk(desk, existing),
            at: case.time.unwrap_or(Timestamp::UNIX_EPOCH),
            time: if case.time.is_some() { Time::Counts } else { Time::Ignored },
            expected: Expected::of(played),
        }
    }
}

impl Expected {
    /// What became of a case. That nothing is expected yet is no mistake of the plugin.
    fn of(played: &Played) -> Self {
        let (nothing, faults): (Vec<_>, Vec<_>) =
            played.faults().partition(|fault| matches!(fault, Fault::NothingExpected(_)));
        if !faults.is_empty() {
            let lines =
                faults.iter().flat_map(|fault| fault.to_string().lines().map(str::to_owned).collect::<Vec<_>>());
            return Self::Differs(lines.collect());
        }
        if nothing.is_empty() { Self::Met } else { Self::Absent }
    }
}

/// What the store of the nodes went through before a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum History {
    /// One list.
    #[default]
    None,
    /// Nodes that came and went: the generation is another one.
    Changed,
    /// A node that had values of its own and went: they are still in the dictionaries.
    Unused,
}

/// A value that no node has.
const UNUSED: &str = "topoloom-unused";

/// A node that is there for a moment.
const PASSING: &str = "topoloom-passing-node";

/// The nodes as a snapshot, in the order of the list.
pub(super) fn view(nodes: &[Node], keys: &[ColumnKey], history: History) -> View {
    let mut store = Store::new();
    store.require(keys.iter().cloned());
    store.begin_relist();
    for node in nodes {
        store.relist(meta(node));
    }
    store.commit_relist();
    let mut passing = Node { name: PASSING.to_owned(), ..Node::default() };
    match history {
        History::None => {}
        History::Changed => {
            for _ in 0..3 {
                store.apply(meta(&passing));
                store.remove(PASSING);
            }
        }
        History::Unused => {
            for key in keys {
                passing.set(key, Some(UNUSED.to_owned()));
            }
            store.apply(meta(&passing));
            store.remove(PASSING);
        }
    }
    store.view(keys)
}

fn meta<'a>(
    node: &'a Node,
) -> NodeMeta<'a, impl Iterator<Item = (&'a str, &'a str)>, impl Iterator<Item = (&'a str, &'a str)>> {
    let pair = |(key, value): (&'a String, &'a String)| (key.as_str(), value.as_str());
    NodeMeta { name: &node.name, labels: node.labels.iter().map(pair), annotations: node.annotations.iter().map(pair) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rack(name: &str, rack: &str) -> Node {
        Node { name: name.to_owned(), labels: [("rack".to_owned(), rack.to_owned())].into(), ..Node::default() }
    }

    #[test]
    fn a_snapshot_has_the_order_of_the_list_whatever_happened_before() {
        let (nodes, keys) = ([rack("b", "1"), rack("a", "2")], [ColumnKey::label("rack")]);
        let plain = view(&nodes, &keys, History::None);
        let names = |view: &View| view.names().iter().map(ToString::to_string).collect::<Vec<_>>();
        for history in [History::None, History::Changed, History::Unused] {
            let view = view(&nodes, &keys, history);
            assert_eq!(names(&view), ["b", "a"], "{history:?}");
            let column = view.column(&keys[0]).unwrap();
            assert_eq!(column.codes(), plain.column(&keys[0]).unwrap().codes(), "{history:?}");
            let is_there = column.dictionary().iter().any(|value| value == UNUSED);
            assert_eq!(is_there, history == History::Unused, "{history:?}");
            assert_eq!(view.generation() > plain.generation(), history != History::None, "{history:?}");
        }
    }

    #[test]
    fn a_value_is_set_and_taken_away_under_its_kind_of_key() {
        let (label, annotation) = (ColumnKey::label("k"), ColumnKey::annotation("k"));
        let mut node = Node::default();
        node.set(&label, Some("a".to_owned()));
        assert_eq!((node.value(&label).map(String::as_str), node.value(&annotation)), (Some("a"), None));
        node.set(&label, None);
        assert_eq!(node, Node::default());
    }
}
