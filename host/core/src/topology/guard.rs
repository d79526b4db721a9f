//! The guard: whether a result may be written at once, or is held until it is confirmed (decision H6).

mod hold;
mod safety;

pub use hold::{Confirmation, Hold, Standing};
pub use safety::Safety;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::model::{Object, Spec};
use crate::snapshot::{ColumnKey, View};

/// Everything that the guard looks at.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    /// The source, for the sentence.
    pub source: &'a str,
    /// All stored objects of the source.
    pub stored: &'a [&'a Object],
    /// What the result would leave.
    pub desired: &'a Desired,
    /// The nodes when the last round was applied; `None` after a restart.
    pub baseline: Option<&'a View>,
    /// The nodes now.
    pub now: &'a View,
    /// The columns that the plugin requires.
    pub required: &'a [ColumnKey],
    /// Whether the entry's config was edited since the last applied round.
    pub config: Config,
    /// The limits.
    pub safety: &'a Safety,
}

/// Whether the entry's config was edited since the last applied round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Config {
    /// It is the one of the last applied round.
    Same,
    /// It was edited: fewer objects may be what the edit is for, so the delete share is not counted.
    Edited,
}

/// What a result would leave in the cluster, as far as the guard cares.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Desired {
    objects: BTreeSet<Arc<str>>,
    placed: Vec<bool>,
}

impl Desired {
    /// Adds one object of the result, by the name that it has or will have, with the Nodes that its spec places.
    pub fn add(&mut self, name: &Arc<str>, _spec: &Spec, _now: &View) {
        self.add_name(name);
    }

    /// Adds the name of one object of the result.
    pub fn add_name(&mut self, name: &Arc<str>) {
        self.objects.insert(Arc::clone(name));
    }

    /// Says that the result places the Node in this row of the present view.
    pub fn place(&mut self, row: u32) {
        let row = row as usize;
        if self.placed.len() <= row {
            self.placed.resize(row + 1, false);
        }
        if let Some(placed) = self.placed.get_mut(row) {
            *placed = true;
        }
    }
}

/// What the guard says about a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may be written.
    Pass,
    /// Nothing of it is written before it is confirmed.
    Held(Held),
}

/// Why a round is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The first rule that holds it.
    pub rule: Rule,
    /// For the operator: what, how much, which limit, what to do.
    pub sentence: String,
}

/// The rules of the guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The result is empty while the source has objects.
    Empty {
        /// Stored objects that are not explained.
        objects: u64,
    },
    /// Too many objects would go.
    Deletes {
        /// Unexplained objects that would be deleted.
        deletes: u64,
        /// Unexplained objects of the source.
        of: u64,
        /// Objects that were left out, because what happened to their Nodes explains them.
        explained: u64,
    },
    /// Too many Nodes would lose all placement.
    Loses {
        /// Existing Nodes that would lose it.
        nodes: u64,
        /// Placed Nodes that still exist.
        of: u64,
    },
}

/// Judges a round.
#[must_use]
pub fn judge(_round: &Round<'_>) -> Verdict {
    Verdict::Pass
}
