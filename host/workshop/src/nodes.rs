//! Nodes in memory: read from a file, written to one, multiplied, and shown to a plugin as columns.
//!
//! Owns what a round can see of a node, in the order of the rows that a plugin gets. Never asks a cluster: who has one
//! hands its nodes in. A file that is no list of nodes is one sentence, in the words of [`node_file`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;

use topoloom_core::snapshot::{ColumnKey, NodeMeta, Store, View};

use crate::node_file::{self, FileNode};

/// How much of a file is read at a time.
const BUFFER: usize = 1 << 18;

/// Nodes, in the order of their rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nodes {
    /// One for each row.
    pub list: Vec<FileNode>,
}

impl Nodes {
    /// Reads a list of nodes.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(reader: impl BufRead) -> Result<Self, node_file::Error> {
        let mut list = Vec::new();
        node_file::read(reader, |node| list.push(node))?;
        Ok(Self { list })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or is no list of nodes.
    pub fn read(path: &Path) -> Result<Self, node_file::Error> {
        let file = std::fs::File::open(path).map_err(node_file::Error::Read)?;
        Self::parse(BufReader::with_capacity(BUFFER, file))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The columns of these keys, as a plugin sees them. The view has the generation of a cluster in which so many nodes
    /// came and went before.
    #[must_use]
    pub fn view(&self, keys: &[ColumnKey], earlier: u32) -> View {
        let mut store = Store::new();
        store.require(keys.iter().cloned());
        store.begin_relist();
        for node in &self.list {
            store.relist(meta(node));
        }
        store.commit_relist();
        // In the last row, so that no other row moves when it goes.
        let passing = NodeMeta { name: PASSING, labels: NOTHING, annotations: NOTHING };
        for _ in 0..earlier {
            store.apply(passing);
            store.remove(PASSING);
        }
        store.view(keys)
    }

    /// The same nodes with nothing but these labels and annotations: what a file that others see has to have.
    #[must_use]
    pub fn under(&self, keys: &[ColumnKey]) -> Self {
        let texts = |wanted: fn(&ColumnKey) -> Option<&str>| keys.iter().filter_map(wanted).collect::<BTreeSet<_>>();
        let labels = texts(|key| if let ColumnKey::Label(key) = key { Some(&**key) } else { None });
        let annotations = texts(|key| if let ColumnKey::Annotation(key) = key { Some(&**key) } else { None });
        let only = |pairs: &[(String, String)], wanted: &BTreeSet<&str>| {
            pairs.iter().filter(|(key, _)| wanted.contains(key.as_str())).cloned().collect()
        };
        let node = |node: &FileNode| FileNode {
            name: node.name.clone(),
            labels: only(&node.labels, &labels),
            annotations: only(&node.annotations, &annotations),
        };
        Self { list: self.list.iter().map(node).collect() }
    }

    /// So many nodes: the same ones again and again under other names. A value that all nodes share stays as it is (it says
    /// what kind of node this is), any other one is another value in each copy (it says where a node is).
    #[must_use]
    pub fn times_to(&self, count: usize) -> Self {
        if self.list.is_empty() {
            return Self::default();
        }
        let shared = (self.shared(|node| &node.labels), self.shared(|node| &node.annotations));
        let list = (0..).flat_map(|copy| self.list.iter().map(move |node| (copy, node))).take(count);
        let list = list.map(|(copy, node)| match copy {
            0 => node.clone(),
            copy => FileNode {
                name: renamed(&node.name, copy, NAME).into(),
                labels: copied(&node.labels, &shared.0, copy),
                annotations: copied(&node.annotations, &shared.1, copy),
            },
        });
        Self { list: list.collect() }
    }

    /// The keys under which all nodes have one value.
    fn shared(&self, pairs: fn(&FileNode) -> &[(String, String)]) -> BTreeSet<&str> {
        let mut values: BTreeMap<&str, (BTreeSet<&str>, usize)> = BTreeMap::new();
        for (key, value) in self.list.iter().flat_map(pairs) {
            let (known, count) = values.entry(key).or_default();
            *count += 1;
            // Two tell as much as all of them.
            if known.len() < 2 {
                known.insert(value);
            }
        }
        let is_shared = |(known, count): &(BTreeSet<&str>, usize)| known.len() == 1 && *count == self.list.len();
        values.into_iter().filter(|(_, values)| is_shared(values)).map(|(key, _)| key).collect()
    }

    /// Made-up nodes for a plugin that reads these columns: sixteen nodes have one value under the first key, sixteen of
    /// these one under the next, and so on.
    #[must_use]
    pub fn made_up(count: usize, keys: &[ColumnKey]) -> Self {
        let value = |key: &ColumnKey, level: u32, row: usize| {
            let word = key.text().rsplit(['/', '.']).next().unwrap_or_default().to_owned();
            let size = SIDE.saturating_pow(level + 1);
            (key.text().to_owned(), format!("{}-{}", word.get(..WORD).unwrap_or(&word), row / size))
        };
        let node = |row: usize| {
            let mut node =
                FileNode { name: format!("node-{row:06}").into(), labels: Vec::new(), annotations: Vec::new() };
            for (level, key) in (0..).zip(keys) {
                let pairs = if let ColumnKey::Label(_) = key { &mut node.labels } else { &mut node.annotations };
                pairs.push(value(key, level, row));
            }
            node
        };
        Self { list: (0..count).map(node).collect() }
    }

    /// As a file that this room and `kubectl` read: YAML with every text in quotes, so that no reader takes one for a number.
    #[must_use]
    pub fn print(&self) -> String {
        if self.list.is_empty() {
            return "apiVersion: v1\nkind: List\nitems: []\n".to_owned();
        }
        let mut text = "apiVersion: v1\nkind: List\nitems:\n".to_owned();
        for node in &self.list {
            // A `String` takes everything.
            let _ = writeln!(text, "- kind: Node\n  metadata:\n    name: {}", quoted(&node.name));
            for (field, pairs) in [("labels", &node.labels), ("annotations", &node.annotations)] {
                if !pairs.is_empty() {
                    let _ = writeln!(text, "    {field}:");
                }
                for (key, value) in pairs {
                    let _ = writeln!(text, "      {}: {}", quoted(key), quoted(value));
                }
            }
        }
        text
    }
}

/// The node that comes and goes, and what it has.
const PASSING: &str = "passing";
const NOTHING: [(&str, &str); 0] = [];

/// Nodes, and groups, in one group of made-up nodes.
const SIDE: usize = 16;
/// Bytes of a key that a made-up value begins with: a value has 63 at most.
const WORD: usize = 40;
/// The longest name of a node, and the longest value of a label.
const NAME: usize = 253;
const VALUE: usize = 63;

fn meta(node: &FileNode) -> NodeMeta<'_, impl Iterator<Item = (&str, &str)>, impl Iterator<Item = (&str, &str)>> {
    NodeMeta {
        name: &node.name,
        labels: node.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())),
        annotations: node.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str())),
    }
}

fn copied(pairs: &[(String, String)], shared: &BTreeSet<&str>, copy: usize) -> Vec<(String, String)> {
    let value = |(key, value): &(String, String)| {
        let value = if shared.contains(key.as_str()) { value.clone() } else { renamed(value, copy, VALUE) };
        (key.clone(), value)
    };
    pairs.iter().map(value).collect()
}

/// The text with the number of its copy; what is too long for that loses its end.
fn renamed(text: &str, copy: usize, most: usize) -> String {
    let number = format!("-{copy}");
    let mut end = most.saturating_sub(number.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{number}", text.get(..end).unwrap_or_default())
}

/// A string of JSON is one of YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, labels: &[(&str, &str)]) -> FileNode {
        let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        FileNode { name: name.into(), labels: labels.iter().map(pair).collect(), annotations: Vec::new() }
    }

    fn values(nodes: &Nodes, key: &str) -> Vec<String> {
        let key = ColumnKey::label(key);
        let view = nodes.view(std::slice::from_ref(&key), 0);
        (0..view.rows()).map(|row| view.value(row, &key).unwrap_or("-").to_owned()).collect()
    }

    #[test]
    fn what_is_printed_reads_as_the_same() {
        let mut odd = node("m1", &[("rack", "7"), ("zone", "yes"), ("k/x", "")]);
        odd.annotations.push(("note".to_owned(), "a \"b\"\n\u{e4} # \u{1f600}: {}".to_owned()));
        let nodes = Nodes { list: vec![odd, node("m2", &[])] };
        assert_eq!(Nodes::parse(nodes.print().as_bytes()).unwrap(), nodes);
        assert_eq!(Nodes::parse(Nodes::default().print().as_bytes()).unwrap(), Nodes::default());
    }

    #[test]
    fn a_view_has_the_rows_in_order_and_a_generation_that_is_asked_for() {
        let nodes = Nodes { list: vec![node("m2", &[("rack", "a")]), node("m1", &[("rack", "b")])] };
        let keys = [ColumnKey::label("rack")];
        let (now, later) = (nodes.view(&keys, 0), nodes.view(&keys, 3));
        assert_eq!(now.names(), later.names());
        assert_eq!(now.names().iter().map(|name| &**name).collect::<Vec<_>>(), ["m2", "m1"]);
        assert!(later.generation() > now.generation());
        assert_eq!(later.value(0, &keys[0]), Some("a"));
    }

    #[test]
    fn copies_lie_elsewhere_and_are_of_the_same_kind() {
        let nodes = Nodes {
            list: vec![node("m1", &[("rack", "a"), ("gpu", "true")]), node("m2", &[("rack", "b"), ("gpu", "true")])],
        };
        let more = nodes.times_to(5);
        let names: Vec<_> = more.list.iter().map(|node| node.name.to_string()).collect();
        assert_eq!(names, ["m1", "m2", "m1-1", "m2-1", "m1-2"]);
        assert_eq!(values(&more, "rack"), ["a", "b", "a-1", "b-1", "a-2"]);
        assert_eq!(values(&more, "gpu"), ["true"; 5]);
        assert_eq!(nodes.times_to(1).len(), 1);
        assert!(Nodes::default().times_to(10).is_empty());
    }

    #[test]
    fn a_copy_of_what_is_as_long_as_it_may_be_is_no_longer() {
        assert_eq!(renamed(&"a".repeat(63), 12, VALUE), format!("{}-12", "a".repeat(60)));
        assert_eq!(renamed("\u{e4}\u{e4}", 1, 5), "\u{e4}-1");
    }

    #[test]
    fn made_up_nodes_have_every_column_in_levels() {
        let keys = [ColumnKey::label("example.com/rack"), ColumnKey::label("example.com/row")];
        let nodes = Nodes::made_up(300, &keys);
        assert_eq!((nodes.len(), &*nodes.list[16].name), (300, "node-000016"));
        assert_eq!(values(&nodes, "example.com/rack")[15..17], ["rack-0", "rack-1"]);
        assert_eq!(values(&nodes, "example.com/row")[255..257], ["row-0", "row-1"]);
    }

    #[test]
    fn a_file_for_others_has_only_what_the_plugin_reads() {
        let nodes = Nodes { list: vec![node("m1", &[("rack", "a"), ("secret", "b")])] };
        assert_eq!(nodes.under(&[ColumnKey::label("rack")]).list, [node("m1", &[("rack", "a")])]);
        assert_eq!(nodes.under(&[ColumnKey::annotation("rack")]).list, [node("m1", &[])]);
    }
}
