//! Nodes from a file: what `kubectl get nodes -o json` or `-o yaml` prints, read as a stream.
//!
//! Owns the reading of names, labels and annotations out of a node list of any size in bounded memory: what a node has
//! beside them (status, managed fields) is skipped while it is read. Never keeps more than one node. A file that is no
//! node list, a node without a name and a broken line each end in one sentence.

mod json;
mod yaml;

use std::io::BufRead;

use topoloom_core::names::NodeName;

/// What a round can see of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNode {
    /// `metadata.name`.
    pub name: NodeName,
    /// `metadata.labels`.
    pub labels: Vec<(String, String)>,
    /// `metadata.annotations`.
    pub annotations: Vec<(String, String)>,
}

/// Why a file cannot be used as a list of nodes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("the node list cannot be read")]
    Read(#[source] std::io::Error),
    /// Neither JSON nor YAML.
    #[error("the node list is broken: {0}")]
    Syntax(String),
    /// JSON or YAML of something else.
    #[error("this is not a list of nodes: {0}; give what `kubectl get nodes -o json` (or `-o yaml`) prints")]
    NotNodes(#[from] NotNodes),
    /// A node without a name, by its position in the list.
    #[error("items[{0}].metadata.name is missing or empty: every node needs a name")]
    Nameless(usize),
    /// Two nodes of one name.
    #[error("items[{index}].metadata.name: {name:?} is in the list twice")]
    Twice {
        /// Position of the second.
        index: usize,
        /// The name.
        name: NodeName,
    },
}

/// What a file has in place of a list of nodes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotNodes {
    /// Nothing.
    #[error("the file is empty")]
    Nothing,
    /// No mapping and no list.
    #[error("it is plain text")]
    Text,
    /// An object of this kind.
    #[error("its kind is {0:?}")]
    Kind(String),
    /// A list without its field.
    #[error("its `items` are missing")]
    NoItems,
    /// An object of another kind among the nodes.
    #[error("items[{index}].kind is {kind:?}")]
    Item {
        /// Its position.
        index: usize,
        /// Its kind.
        kind: String,
    },
    /// A value in the place of a string, which YAML takes for something else.
    #[error("items[{index}].{path}: {text:?} is not a string; quote it")]
    NoString {
        /// The position of the node.
        index: usize,
        /// The field of the node.
        path: &'static str,
        /// The value.
        text: String,
    },
    /// A field of another form, in the words of the JSON parser.
    #[error("{0}")]
    Form(String),
}

/// Reads a node list and hands every node to `sink`.
///
/// # Errors
/// See [`Error`]. `sink` may have been called for earlier nodes; the caller throws them away.
pub fn read(mut reader: impl BufRead, sink: impl FnMut(FileNode)) -> Result<usize, Error> {
    let mut collector = NodeCollector { sink, seen: std::collections::HashSet::new(), count: 0 };
    match first_byte(&mut reader).map_err(Error::Read)? {
        None => Err(NotNodes::Nothing.into()),
        Some(b'{' | b'[') => json::read(reader, &mut collector),
        Some(_) => yaml::read(reader, &mut collector),
    }?;
    Ok(collector.count)
}

/// The first byte that is not white space, which stays unread; a byte order mark is dropped.
fn first_byte(reader: &mut impl BufRead) -> std::io::Result<Option<u8>> {
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        if buffer.starts_with(b"\xef\xbb\xbf") {
            reader.consume(3);
            continue;
        }
        match buffer.iter().position(|byte| !byte.is_ascii_whitespace()) {
            // YAML counts lines and indentation from the start of a line, so only whole blank starts are dropped.
            Some(at) => return Ok(buffer.get(at).copied()),
            None => {
                let length = buffer.len();
                reader.consume(length);
            }
        }
    }
}

/// A node as it is read, before it is known that it has a name.
#[derive(Default)]
struct Raw {
    name: String,
    labels: Vec<(String, String)>,
    annotations: Vec<(String, String)>,
}

/// Checks every node on its way to the sink.
struct NodeCollector<F> {
    sink: F,
    seen: std::collections::HashSet<NodeName>,
    count: usize,
}

impl<F: FnMut(FileNode)> NodeCollector<F> {
    fn node(&mut self, Raw { name, labels, annotations }: Raw) -> Result<(), Error> {
        if name.is_empty() {
            return Err(Error::Nameless(self.count));
        }
        let name = NodeName::from(name);
        if !self.seen.insert(name.clone()) {
            return Err(Error::Twice { index: self.count, name });
        }
        self.count += 1;
        (self.sink)(FileNode { name, labels, annotations });
        Ok(())
    }
}

/// Whether an object of this kind may be in a node list; a missing kind is accepted.
fn is_node_kind(kind: &str) -> bool {
    kind == "Node"
}

fn is_list_kind(kind: &str) -> bool {
    matches!(kind, "List" | "NodeList" | "PartialObjectMetadataList" | "Table")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<FileNode>, String> {
        let mut nodes = Vec::new();
        read(text.as_bytes(), |node| nodes.push(node)).map(|_| nodes).map_err(|error| error.to_string())
    }

    fn two() -> Vec<FileNode> {
        let labels = |rack: &str| vec![("rack".to_owned(), rack.to_owned())];
        vec![
            FileNode { name: "m1".into(), labels: labels("a"), annotations: vec![("k".into(), "v".into())] },
            FileNode { name: "m2".into(), labels: labels("7"), annotations: vec![] },
        ]
    }

    #[test]
    fn json_and_yaml_lists_read_the_same() {
        let json = r#" {"apiVersion":"v1","kind":"List","metadata":{"x":[1]},"items":[
            {"kind":"Node","metadata":{"name":"m1","labels":{"rack":"a"},"annotations":{"k":"v"},"managedFields":[{"a":{}}]},"status":{"x":null}},
            {"metadata":{"labels":{"rack":"7"},"name":"m2"},"spec":{}}]}"#;
        assert_eq!(parse(json), Ok(two()));
        let yaml = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    annotations:\n      k: v\n    labels:\n      rack: a\n    name: m1\n  status:\n    images:\n    - names: [x]\n- kind: Node\n  metadata:\n    name: m2\n    labels: {rack: \"7\"}\nkind: List\n";
        assert_eq!(parse(yaml), Ok(two()));
    }

    #[test]
    fn a_single_node_an_array_and_several_documents_are_lists_too() {
        assert_eq!(parse(r#"{"kind":"Node","metadata":{"name":"m1"}}"#).map(|nodes| nodes.len()), Ok(1));
        assert_eq!(parse(r#"[{"metadata":{"name":"m1"}},{"metadata":{"name":"m2"}}]"#).map(|nodes| nodes.len()), Ok(2));
        assert_eq!(
            parse("kind: Node\nmetadata: {name: m1}\n---\nkind: Node\nmetadata: {name: m2}\n").map(|nodes| nodes.len()),
            Ok(2)
        );
    }

    #[test]
    fn an_empty_list_is_a_list() {
        assert_eq!(parse(r#"{"kind":"List","items":[]}"#), Ok(vec![]));
        assert_eq!(parse("kind: List\nitems: []\n"), Ok(vec![]));
    }

    #[track_caller]
    fn fails(text: &str, part: &str) {
        let error = parse(text).expect_err("must be refused");
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn every_mistake_is_one_sentence() {
        fails("", "empty");
        fails("  \n ", "empty");
        fails(r#"{"kind":"PodList","items":[]}"#, "PodList");
        fails(r#"{"kind":"List","items":[{"kind":"Pod","metadata":{"name":"x"}}]}"#, "Pod");
        fails("kind: Pod\nmetadata: {name: x}\n", "Pod");
        fails("just text\n", "not a list of nodes");
        fails(
            r#"{"kind":"List","items":[{"metadata":{"name":"x"}},{"metadata":{"labels":{}}}]}"#,
            "items[1].metadata.name",
        );
        fails("items:\n- metadata: {labels: {a: b}}\n", "items[0].metadata.name");
        fails(r#"{"items":[{"metadata":{"name":"x"}},{"metadata":{"name":"x"}}]}"#, "twice");
        fails(r#"{"items":[{"metadata":{"name":"x""#, "broken");
        fails("items:\n- metadata: {name: [}\n", "broken");
        fails(r#"{"items":[{"metadata":{"name":7}}]}"#, "metadata.name");
        fails(r#"{"items":[{"metadata":{"name":"x","labels":{"a":1}}}]}"#, "string");
        fails(r#"{"kind":"List"}"#, "items");
    }
}
