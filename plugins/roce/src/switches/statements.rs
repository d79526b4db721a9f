//! Statements about switches, and whether one node alone makes them.

use std::collections::BTreeMap;

/// Who makes a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// One node, by a number of its own, in its annotation.
    OneNode(u32),
    /// Several nodes, or a document.
    Confirmed,
}

impl Voice {
    /// The voice of a statement that both make.
    pub(crate) fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Confirmed }
    }
}

/// The statements about one identity.
#[derive(Debug)]
pub(super) struct Statements {
    /// Who mentions it at all.
    pub(super) by: Voice,
    /// Its names, and who uses them.
    pub(super) names: BTreeMap<String, Voice>,
}

/// All statements, by identity.
#[derive(Debug, Default)]
pub(super) struct AllStatements(pub(super) BTreeMap<String, Statements>);

impl AllStatements {
    /// Adds a statement: a switch, with these names or without one.
    pub(super) fn add<'n>(&mut self, id: &str, names: impl IntoIterator<Item = &'n String>, voice: Voice) {
        if !self.0.contains_key(id) {
            self.0.insert(id.to_owned(), Statements { by: voice, names: BTreeMap::new() });
        }
        let Some(said) = self.0.get_mut(id) else { return };
        said.by = said.by.and(voice);
        for name in names {
            said.names.entry(name.clone()).and_modify(|known| *known = known.and(voice)).or_insert(voice);
        }
    }
}
