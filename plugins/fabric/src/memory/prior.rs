//! The groups in the cluster, for a round without memory.
//!
//! The HyperNodes show which Nodes were together and the identity of each group, but no cables. That is enough to give the
//! groups of this round their old identities, and to leave a Node in its group while its host has no live link.

use std::collections::HashMap;

use topoloom_sdk::Members;
use topoloom_sdk::applied::AppliedGroup;

use super::Recall;
use crate::answer::ROOT;
use crate::graph::{NONE, set};

/// The groups in the cluster, by tier.
#[derive(Debug, Default)]
pub(crate) struct Prior {
    tiers: Vec<Tier>,
    /// How many levels there were below the group over everything.
    levels: u32,
    /// By row: position among the groups of tier 1.
    home: Vec<u32>,
}

#[derive(Debug, Default)]
struct Tier {
    ids: Vec<String>,
    /// From the identity of a child to the position of its group. Never iterated: its order is not stable.
    parent: HashMap<String, u32>,
}

impl Prior {
    /// Reads the groups in the cluster. Objects without an identity were not made by this source's plugin.
    pub(crate) fn new(applied: &[AppliedGroup], rows: u32) -> Self {
        let mut prior = Self { home: vec![NONE; rows as usize], ..Self::default() };
        // Objects come in no particular order.
        let mut order: Vec<&AppliedGroup> = applied.iter().filter(|group| (1..=16).contains(&group.tier)).collect();
        order.sort_by(|a, b| (&a.id, &a.name).cmp(&(&b.id, &b.name)));
        for group in order {
            let Some(id) = &group.id else { continue };
            // The group over everything is created anew in each round, one above the last level.
            if id == ROOT {
                prior.levels = prior.levels.max(group.tier - 1);
                continue;
            }
            prior.levels = prior.levels.max(group.tier);
            let level = group.tier as usize - 1;
            if prior.tiers.len() <= level {
                prior.tiers.resize_with(level + 1, Tier::default);
            }
            let Some(tier) = prior.tiers.get_mut(level) else { continue };
            let position = tier.ids.len() as u32;
            tier.ids.push(id.clone());
            for members in &group.members {
                match members {
                    Members::Rows(rows) if group.tier == 1 => {
                        rows.iter().for_each(|&row| set(&mut prior.home, row, position));
                    }
                    Members::Groups(children) => {
                        let ids = children.iter().filter_map(|&child| applied.get(child as usize)?.id.clone());
                        tier.parent.extend(ids.map(|id| (id, position)));
                    }
                    _ => {}
                }
            }
        }
        prior
    }

    /// The group of tier 1 that a Node is in.
    pub(crate) fn home(&self, row: u32) -> Option<u32> {
        Some(self.home.get(row as usize).copied().unwrap_or(NONE)).filter(|&home| home != NONE)
    }

    pub(super) fn levels(&self) -> u32 {
        self.levels
    }

    /// The identities of the groups of a tier.
    pub(super) fn ids(&self, level: u32) -> &[String] {
        self.tiers.get(level as usize - 1).map(|tier| tier.ids.as_slice()).unwrap_or_default()
    }

    /// The group of a tier that a group below is in.
    pub(super) fn parent(&self, level: u32, id: &str) -> Option<u32> {
        self.tiers.get(level as usize - 1)?.parent.get(id).copied()
    }

    pub(super) fn recall(&self, level: u32, keys: &[&str], rows: &[u32], now: u64) -> Recall {
        let mut recall = Recall::nothing(keys.len(), now);
        let Some(tier) = self.tiers.get(level as usize - 1) else { return recall };
        recall.ids.clone_from(&tier.ids);
        for (child, key) in (0..).zip(keys) {
            let group = if level == 1 {
                self.home(rows.get(child as usize).copied().unwrap_or(NONE)).unwrap_or(NONE)
            } else {
                tier.parent.get(*key).copied().unwrap_or(NONE)
            };
            set(&mut recall.was, child, group);
        }
        recall
    }
}
