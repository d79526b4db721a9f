//! What is said of switches, and by whom.

use std::collections::BTreeMap;

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// One node, by a number of its own, in its annotation.
    Lone(u32),
    /// Several nodes, or a document.
    Firm,
}

impl Voice {
    /// Both of them say it.
    pub(crate) fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Firm }
    }
}

/// What is said of one identity.
#[derive(Debug)]
pub(super) struct Told {
    /// Who speaks of it at all.
    pub(super) by: Voice,
    /// Its names, and who calls it so.
    pub(super) names: BTreeMap<String, Voice>,
}

/// All that is said, by identity.
#[derive(Debug, Default)]
pub(super) struct All(pub(super) BTreeMap<String, Told>);

impl All {
    /// Somebody calls a switch by these names, or by none.
    pub(super) fn add<'n>(&mut self, id: &str, names: impl IntoIterator<Item = &'n String>, voice: Voice) {
        if !self.0.contains_key(id) {
            self.0.insert(id.to_owned(), Told { by: voice, names: BTreeMap::new() });
        }
        let Some(told) = self.0.get_mut(id) else { return };
        told.by = told.by.and(voice);
        for name in names {
            told.names.entry(name.clone()).and_modify(|known| *known = known.and(voice)).or_insert(voice);
        }
    }
}
