//! Names: which stored object a domain continues, and what a new one is called (decisions H2, H3, H8, H15).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::forest::Forest;
use super::model::{Object, Spec};
use super::names::Tier;

/// What naming looks at beside the forest.
#[derive(Debug, Clone, Copy)]
pub struct NameInput<'a> {
    /// The source that owns the objects.
    pub source: &'a Arc<str>,
    /// All HyperNodes of the cluster.
    pub observed: &'a [Object],
    /// Tier names that earlier entries use.
    pub tier_names_elsewhere: &'a TierNames,
}

/// Which tier a tier name stands for, and which source says so.
pub type TierNames = BTreeMap<Arc<str>, TierNameUse>;

/// The use of a tier name by a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierNameUse {
    /// The tier.
    pub tier: Tier,
    /// The source.
    pub source: Arc<str>,
}

/// The objects that a source wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The source that owns them.
    pub source: Arc<str>,
    /// What is to be written, by name.
    pub objects: BTreeMap<Arc<str>, Desired>,
    /// Stored objects that stay exactly as they are, because something below them cannot be named.
    pub held: Vec<Arc<str>>,
    /// Fixed names that foreign objects have taken, sorted by name.
    pub name_conflicts: Vec<NameConflict>,
    /// Tier names that were dropped, sorted by name and tier.
    pub tier_name_conflicts: Vec<TierNameConflict>,
}

/// One object as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The uid of the stored object that it continues; `None` for a new one.
    pub continues: Option<Arc<str>>,
    /// The annotation `topoloom.dev/group-id`.
    pub group_id: Option<Arc<str>>,
    /// The annotation `topoloom.dev/split-from`.
    pub split_from: Option<Arc<str>>,
    /// Its labels, without the source label.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Its spec.
    pub spec: Spec,
}

/// A fixed name that a foreign object has taken: the HyperNode is skipped and its ancestors are held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameConflict {
    /// The name.
    pub name: Arc<str>,
    /// The group that wants it.
    pub group_id: Arc<str>,
    /// The source of the object that has it; `None` for one made by hand.
    pub owner: Option<Arc<str>>,
    /// Names of the stored ancestors that are held back, sorted.
    pub held: Vec<Arc<str>>,
}

/// A tier name that another source uses for another tier: the objects are written without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierNameConflict {
    /// The tier name.
    pub tier_name: Arc<str>,
    /// The tier for which this source uses it.
    pub tier: Tier,
    /// The use that wins.
    pub elsewhere: TierNameUse,
    /// How many objects are written without it.
    pub objects: usize,
}

impl Named {
    /// The tier names that this source uses, for the entries after it.
    #[must_use]
    pub fn tier_names(&self) -> TierNames {
        TierNames::new()
    }
}

/// Gives every domain its object.
#[must_use]
pub fn name(forest: &Forest, input: &NameInput<'_>) -> Named {
    let _ = forest;
    Named {
        source: Arc::clone(input.source),
        objects: BTreeMap::new(),
        held: Vec::new(),
        name_conflicts: Vec::new(),
        tier_name_conflicts: Vec::new(),
    }
}
