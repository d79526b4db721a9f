//! How much the answer of a candidate differs from that of the active plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::snapshot::View;
use crate::topology::{Spec, guard};

/// Two answers about one snapshot. Percentages are shares of Nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// Nodes that the active plugin places.
    pub placed: usize,
    /// Of these, those that the candidate places, too.
    pub kept: usize,
    /// Of these, those that it places in another group of their lowest tier.
    pub moved: usize,
    /// Nodes that only the candidate places.
    pub gained: usize,
    /// Groups by tier: of the active plugin, and of the candidate.
    pub groups: BTreeMap<u32, (usize, usize)>,
}

/// What a candidate may change without a person (`wasm-plugins.md` 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rails {
    /// The least share of the placed Nodes that it must place, in percent.
    pub keep_percent: u8,
    /// The largest share of Nodes that may change their group, in percent.
    pub move_percent: u8,
}

impl Default for Rails {
    fn default() -> Self {
        Self { keep_percent: 90, move_percent: 50 }
    }
}

impl Rails {
    /// Whether a person has to look at it first.
    #[must_use]
    pub fn hold(&self, comparison: &Comparison) -> bool {
        let Comparison { placed, kept, moved, .. } = *comparison;
        kept * 100 < placed * usize::from(self.keep_percent) || moved * 100 > kept * usize::from(self.move_percent)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { placed, kept, moved, gained, groups } = self;
        write!(f, "it places {kept} of the {placed} nodes that are placed now, {moved} of them in another group")?;
        if *gained > 0 {
            write!(f, ", and {gained} more")?;
        }
        for (tier, (old, new)) in groups.iter().filter(|(_, (old, new))| old != new) {
            write!(f, "; {new} groups of tier {tier} instead of {old}")?;
        }
        Ok(())
    }
}

/// Objects by the names that they have or would have in the cluster.
pub type Objects<'a> = BTreeMap<&'a Arc<str>, &'a Spec>;

/// Compares the active plugin with a candidate over the Nodes of one view, both as they would be named in the cluster:
/// the name identifies a group, even if two versions of a plugin give it different ids. The view holds the columns that
/// selectors read.
#[must_use]
pub fn compare(serving: &Objects<'_>, candidate: &Objects<'_>, view: &View) -> Comparison {
    let (old, new) = (places(serving, view), places(candidate, view));
    let mut comparison = Comparison { placed: old.len(), ..Comparison::default() };
    for (row, (_, groups)) in &old {
        let Some((_, now)) = new.get(row) else { continue };
        comparison.kept += 1;
        comparison.moved += usize::from(groups.is_disjoint(now));
    }
    comparison.gained = new.keys().filter(|row| !old.contains_key(*row)).count();
    for spec in serving.values() {
        comparison.groups.entry(spec.tier).or_default().0 += 1;
    }
    for spec in candidate.values() {
        comparison.groups.entry(spec.tier).or_default().1 += 1;
    }
    comparison
}

/// By row: the lowest tier that places it, and its groups there.
fn places<'a>(objects: &Objects<'a>, view: &View) -> BTreeMap<u32, (u32, BTreeSet<&'a Arc<str>>)> {
    let mut places: BTreeMap<u32, (u32, BTreeSet<&Arc<str>>)> = BTreeMap::new();
    for (name, spec) in objects {
        let tier = spec.tier;
        for row in guard::placed(spec, view) {
            let (lowest, groups) = places.entry(row).or_insert_with(|| (tier, BTreeSet::new()));
            if tier < *lowest {
                *lowest = tier;
                groups.clear();
            }
            if tier == *lowest {
                groups.insert(name);
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(placed: usize, kept: usize, moved: usize) -> Comparison {
        Comparison { placed, kept, moved, ..Comparison::default() }
    }

    #[test]
    fn nine_of_ten_nodes_must_stay_placed_and_half_of_them_where_they_are() {
        let rails = Rails::default();
        for (numbers, held) in [
            ((0, 0, 0), false),
            ((100, 90, 0), false),
            ((100, 89, 0), true),
            ((100, 60, 0), true),
            ((100, 100, 50), false),
            ((100, 100, 51), true),
            ((1, 0, 0), true),
            ((1, 1, 1), true),
        ] {
            let (placed, kept, moved) = numbers;
            assert_eq!(rails.hold(&comparison(placed, kept, moved)), held, "{numbers:?}");
        }
    }

    #[test]
    fn the_sentence_has_the_numbers() {
        let groups = [(1, (4, 3)), (2, (1, 1))].into();
        let comparison = Comparison { gained: 2, groups, ..comparison(10, 6, 1) };
        assert_eq!(
            comparison.to_string(),
            "it places 6 of the 10 nodes that are placed now, 1 of them in another group, and 2 more; 3 groups of tier 1 \
             instead of 4"
        );
    }
}
