//! Which groups of the last round live on, and where.

use std::collections::HashSet;

use super::{Standing, Task};
use crate::bundle::Tally;
use crate::doubt::Splits;
use crate::graph::{NONE, add, at, counted, set};

/// Which bundle each group of the last round lives on in, and the other way round: one to one.
pub(super) struct Heirs {
    /// By old group.
    pub(super) bundle_of: Vec<u32>,
    /// By bundle.
    pub(super) old_of: Vec<u32>,
    /// By bundle: the group of the last round that most of its children were in.
    most_of: Vec<u32>,
}

impl Heirs {
    /// A group lives on where most of its children are; where several would, the one with more children there does.
    /// Children that nobody touched carry it in any case, others only when they are more than half of both, or when it is
    /// in doubt whether there was a split at all.
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
        // A group has one heir only: its largest part. Its other parts are new groups, or go to those they are in.
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

    /// The group of the last round in which a child stays whose vote a bundle won that stands for none of them: its own
    /// one, or that of its neighbours where it had none. None: there is no doubt.
    pub(super) fn shelter(&self, splits: Splits, winner: u32, old: u32) -> Option<u32> {
        if splits == Splits::Believed || at(&self.old_of, winner) != NONE {
            return None;
        }
        Some(if old == NONE { at(&self.most_of, winner) } else { old }).filter(|&shelter| shelter != NONE)
    }
}
