//! Names: which stored object a domain continues, and what a new one is called (decisions H2, H3, H8, H15).
//!
//! Jobs refer to their HyperNode by name while they run, so the name matters more than the group's id. A domain that
//! has mostly the Nodes of an old one keeps the old object and its name, no matter which program made that object and
//! what the group is called now.
//!
//! Owns the matching (`adopt`), the format of new names (`suffix`) and the consequences of a name that another owner
//! has. Never writes and never judges how much changes; that is the guard's work. The result depends on the forest and
//! the stored objects alone, and not on the order of either.

mod adopt;
mod build;
mod overlap;
mod suffix;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) use adopt::{Adoption, own_by_age};

use super::forest::Forest;
use super::model::{Object, Spec};
use crate::names::{SourceName, Uid};
use crate::rules::Tier;

/// The input of naming, beside the forest.
#[derive(Debug, Clone, Copy)]
pub struct NameInput<'a> {
    /// The source that owns the objects.
    pub source: &'a SourceName,
    /// All HyperNodes of the cluster.
    pub observed: &'a [Arc<Object>],
    /// Tier names that earlier entries of the configuration use.
    pub tier_names_elsewhere: &'a TierNames,
}

/// For each tier name, its tier and the source that uses it.
pub type TierNames = BTreeMap<Arc<str>, TierNameUse>;

/// The use of a tier name by a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierNameUse {
    /// The tier.
    pub tier: Tier,
    /// The source.
    pub source: SourceName,
}

/// The objects that a source should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The source that owns them.
    pub source: SourceName,
    /// The objects to write, by name.
    pub objects: BTreeMap<Arc<str>, Desired>,
    /// Stored objects that stay exactly as they are, because something below them has no name.
    pub held: BTreeSet<Arc<str>>,
    /// Fixed names that objects of other owners have, sorted by name.
    pub name_conflicts: Vec<NameConflict>,
    /// Tier names that were dropped, sorted by name and tier.
    pub tier_name_conflicts: Vec<TierNameConflict>,
}

/// The wanted state of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// The uid of the stored object that it continues; `None` for a new one.
    pub continues: Option<Uid>,
    /// The annotation `topoloom.dev/group-id`.
    pub group_id: Option<Arc<str>>,
    /// The annotation `topoloom.dev/split-from`.
    pub split_from: Option<Arc<str>>,
    /// The annotation `topoloom.dev/description`.
    pub description: Option<Arc<str>>,
    /// Its labels, without the source label.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Its spec.
    pub spec: Spec,
}

/// A fixed name that an object of another owner has. The HyperNode is not written, nor are its ancestors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameConflict {
    /// The name.
    pub name: Arc<str>,
    /// The group that should have it.
    pub group_id: Arc<str>,
    /// The source of the object that has it; `None` for one made by hand.
    pub owner: Option<SourceName>,
    /// Names of the stored ancestors that are not written, sorted.
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
        let mut names = TierNames::new();
        for spec in self.objects.values().map(|desired| &desired.spec) {
            if let Some(name) = &spec.tier_name
                && !names.contains_key(name)
            {
                let tier = Tier::nearest(spec.tier);
                names.insert(Arc::clone(name), TierNameUse { tier, source: self.source.clone() });
            }
        }
        names
    }
}

/// Gives every domain its object.
///
/// A domain is matched to a stored object of the source, one to one, in this order:
///
/// 1. what `merge` has found already, and a fixed name by that very name;
/// 2. the annotation with the group's id (same tier first, then the oldest object);
/// 3. objects without that annotation, which Volcano made: same tier, the group's labels among theirs, name beginning
///    with `hypernode-<kind>-tier<t>-`; of several the one that shares most Nodes, then the oldest;
/// 4. a domain whose object was split from an object that no domain matches any more takes that older object, if most
///    of its Nodes are in the domain: a node-by-node relabel so ends with the original name (complete answers only);
/// 5. the same tier and the largest overlap in Nodes below, if it is more than half of *the object's* Nodes: the name
///    follows the Nodes that running jobs know by it. Ties go to the oldest object, then to the first domain.
///
/// A domain without a match is new and gets a generated name that no object has.
#[must_use]
pub fn name(forest: &Forest, input: &NameInput<'_>) -> Named {
    build::build(forest, input)
}

#[cfg(test)]
mod tests;
