//! Which bundles continue which groups of the last round.

use std::collections::HashSet;

use super::{Standing, Task};
use crate::bundle::Tally;
use crate::doubt::Splits;
use crate::graph::{NONE, add, at, counted, set};

/// The bundle that continues each group of the last round, and the reverse: one to one.
pub(super) struct Heirs {
    /// By old group.
    pub(super) bundle_of: Vec<u32>,
    /// By bundle.
    pub(super) old_of: Vec<u32>,
    /// By bundle: the group of the last round that most of its children were in.
    most_of: Vec<u32>,
}

impl Heirs {
    /// A group continues in the bundle with most of its children. Where several groups claim one bundle, the one with more
    /// children there gets it. Untouched children always count for a claim. Touched ones count only when they are more than
    /// half of both the group and the bundle, or when a split is in doubt.
    pub(super) fn new(
        task: &Task<'_>,
        standing: &[Standing],
        tally: &Tally,
        bundles: usize,
        taken: &HashSet<String>,
    ) -> Self {
        let nothing = vec![NONE; bundles];
        let mut heirs = Self { bundle_of: vec![NONE; task.ids.len()], old_of: nothing.clone(), most_of: nothing };
        let mut members = vec![0_u32; task.ids.len()];
        let mut voters = vec![0_u32; bundles];
        let mut pairs = Vec::new();
        let mut quiet = HashSet::new();
        for ((child, &old), &standing) in (0..).zip(task.was).zip(standing) {
            let bundle = at(&tally.winner, child);
            add(&mut voters, bundle, 1);
            if old != NONE && bundle != NONE {
                add(&mut members, old, 1);
                pairs.push((old, bundle));
                if standing != Standing::Touched {
                    quiet.insert((old, bundle));
                }
            }
        }
        // Most children first, then the smaller identity, then the smaller bundle.
        let mut claims: Vec<(u32, &str, u32, u32)> = Vec::new();
        for ((old, bundle), count) in counted(pairs) {
            let is_most = count * 2 > at(&members, old) && count * 2 > at(&voters, bundle);
            let id = task.ids.get(old as usize).map(String::as_str).unwrap_or_default();
            let is_heir = is_most || quiet.contains(&(old, bundle)) || task.splits == Splits::Doubted;
            if is_heir && !taken.contains(id) {
                claims.push((u32::MAX - count, id, bundle, old));
            }
        }
        claims.sort_unstable();
        for &(_, _, bundle, old) in claims.iter().rev() {
            set(&mut heirs.most_of, bundle, old);
        }
        // A group continues once only: in its largest part. Its other parts are new groups, or join the groups that they are in.
        let mut has_claimed = vec![false; task.ids.len()];
        for (_, _, bundle, old) in claims {
            if !at(&has_claimed, old) {
                set(&mut has_claimed, old, true);
                if at(&heirs.old_of, bundle) == NONE {
                    set(&mut heirs.old_of, bundle, old);
                    set(&mut heirs.bundle_of, old, bundle);
                }
            }
        }
        heirs
    }

    /// The group of the last round in which a child stays, where the bundle that won its vote continues no group: its own
    /// group, or that of its neighbours where it had none. None: splits are not in doubt.
    pub(super) fn shelter(&self, splits: Splits, winner: u32, old: u32) -> Option<u32> {
        if splits == Splits::Believed || at(&self.old_of, winner) != NONE {
            return None;
        }
        Some(if old == NONE { at(&self.most_of, winner) } else { old }).filter(|&shelter| shelter != NONE)
    }
}
