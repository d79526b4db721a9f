//! Which nodes of a binding an operator drains: the annotation `topoloom.dev/drain` of a ClusterBinding (decision S23).
//!
//! Owns how its value is read and written, and how one node is added or taken off. Never decides what happens to a drained
//! node, and never looks whether one of that name exists: a machine that comes back under its name stays drained.
//!
//! What goes wrong: a person writes the annotation by hand. A typing error in one word must not drain every node, so
//! everything that is neither yes nor no is a list of names.

use std::collections::BTreeSet;

use topoloom_core::rules::is_object_name;
use topoloom_core::text::line;

/// How many nodes one annotation drains at most: with names of 63 bytes it stays far below what the API server stores.
pub const NODES: usize = 1_000;
/// How much of a refused name a message repeats.
const SHOWN: usize = 80;
/// What means all nodes, and what means none.
const WORDS: [&str; 2] = ["true", "false"];

/// The nodes of a binding that an operator drains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Drain {
    /// None.
    #[default]
    None,
    /// All of them.
    All,
    /// Those of these names, physical or virtual ones.
    Nodes(BTreeSet<String>),
}

/// Why a node cannot be added to a list, or taken off it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DrainError {
    /// The whole binding is drained.
    #[error("all nodes of the binding are drained, and one of them cannot be left out")]
    All,
    /// The list is full.
    #[error("{NODES} nodes are drained one by one already, which is the most: drain the whole binding")]
    TooMany,
    /// It would not be read as a name.
    #[error("{:?} cannot be the name of a drained node", line(.0, SHOWN))]
    NoName(String),
}

impl Drain {
    /// Reads the annotation.
    #[must_use]
    pub fn read(text: Option<&str>) -> Self {
        match text.map(str::trim) {
            None | Some("" | "false" | "False") => Self::None,
            Some("true" | "True") => Self::All,
            Some(names) => {
                let names = names.split(',').map(str::trim).filter(|name| !name.is_empty()).take(NODES);
                Self::of(names.map(str::to_owned).collect())
            }
        }
    }

    /// The annotation that says this; `None`: it is taken off.
    #[must_use]
    pub fn write(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::All => Some("true".to_owned()),
            Self::Nodes(nodes) => Some(nodes.iter().map(String::as_str).collect::<Vec<_>>().join(",")),
        }
    }

    /// The same with one more node.
    ///
    /// # Errors
    /// The list is full, or the text is no name.
    pub fn with(self, node: &str) -> Result<Self, DrainError> {
        if is_object_name(node).is_err() || WORDS.contains(&node) {
            return Err(DrainError::NoName(node.to_owned()));
        }
        let mut nodes = match self {
            Self::None => BTreeSet::new(),
            Self::All => return Ok(Self::All),
            Self::Nodes(nodes) => nodes,
        };
        nodes.insert(node.to_owned());
        if nodes.len() > NODES { Err(DrainError::TooMany) } else { Ok(Self::Nodes(nodes)) }
    }

    /// The same without the node of these names.
    ///
    /// # Errors
    /// The whole binding is drained.
    pub fn without(self, names: &[&str]) -> Result<Self, DrainError> {
        match self {
            Self::None => Ok(Self::None),
            Self::All => Err(DrainError::All),
            Self::Nodes(mut nodes) => {
                nodes.retain(|node| !names.contains(&node.as_str()));
                Ok(Self::of(nodes))
            }
        }
    }

    /// Whether the node of one of these names is on the list.
    #[must_use]
    pub fn lists(&self, names: &[&str]) -> bool {
        match self {
            Self::None | Self::All => false,
            Self::Nodes(nodes) => names.iter().any(|name| nodes.contains(*name)),
        }
    }

    fn of(nodes: BTreeSet<String>) -> Self {
        if nodes.is_empty() { Self::None } else { Self::Nodes(nodes) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nodes(names: &[&str]) -> Drain {
        Drain::Nodes(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn s23_a_typing_error_drains_no_other_node() {
        for (text, wanted) in [
            ("", Drain::None),
            (" false ", Drain::None),
            (" , ", Drain::None),
            ("true", Drain::All),
            ("ture", nodes(&["ture"])),
            ("w1, vnode-east-w2,", nodes(&["w1", "vnode-east-w2"])),
        ] {
            assert_eq!(Drain::read(Some(text)), wanted, "{text:?}");
        }
        assert_eq!(Drain::read(None), Drain::None);
        let many: Vec<String> = (0..5 * NODES).map(|number| format!("w{number}")).collect();
        assert!(matches!(Drain::read(Some(&many.join(","))), Drain::Nodes(nodes) if nodes.len() == NODES));
    }

    #[test]
    fn s23_one_node_is_added_and_taken_off_by_either_of_its_names() {
        let one = Drain::None.with("vnode-east-w1").unwrap();
        assert_eq!(one.write().as_deref(), Some("vnode-east-w1"));
        assert!(one.lists(&["w1", "vnode-east-w1"]) && !one.lists(&["w2"]));
        assert_eq!(one.without(&["w1", "vnode-east-w1"]), Ok(Drain::None));
        assert_eq!(nodes(&["w1", "w2"]).without(&["w1"]), Ok(nodes(&["w2"])));
        assert_eq!(Drain::None.without(&["w1"]), Ok(Drain::None));
        // A node of a binding that is drained as a whole is drained, and cannot be the only one that is not.
        assert_eq!(Drain::All.with("w1"), Ok(Drain::All));
        assert_eq!(Drain::All.without(&["w1"]), Err(DrainError::All));
    }

    #[test]
    fn s23_no_name_becomes_a_word_that_drains_all_and_a_list_has_an_end() {
        for name in ["true", "false", "True", "a,b", "", "a b"] {
            assert_eq!(Drain::None.with(name), Err(DrainError::NoName(name.to_owned())), "{name:?}");
        }
        let full = Drain::Nodes((0..NODES).map(|number| format!("w{number}")).collect());
        assert_eq!(full.clone().with("w0"), Ok(full.clone()), "it is on the list");
        assert_eq!(full.with("one-more"), Err(DrainError::TooMany));
    }

    proptest! {
        #[test]
        fn s23_what_is_written_is_read_as_it_was_meant(names in proptest::collection::vec("[a-z0-9]{1,9}", 0..9)) {
            let mut drain = Drain::None;
            for name in &names {
                drain = match drain.clone().with(name) {
                    Ok(more) => more,
                    Err(_) => drain,
                };
            }
            prop_assert_eq!(Drain::read(drain.write().as_deref()), drain);
        }
    }
}
