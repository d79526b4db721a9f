//! Finds Nodes that are in several domains of one tier.

use std::sync::Arc;

use super::{Domain, Overlap, Overlaps};
use crate::names::NodeName;
use crate::rules::Tier;

/// How many are listed; the rest are counted.
const LISTED: usize = 100;

impl Overlaps {
    /// Looks at every direct Node member.
    pub(in crate::topology) fn of(domains: &[Domain]) -> Self {
        let mut places: Vec<(Tier, &NodeName, usize)> = domains
            .iter()
            .enumerate()
            .flat_map(|(at, domain)| domain.nodes.iter().map(move |node| (domain.tier, node, at)))
            .collect();
        places.sort_unstable();
        let mut overlaps = Self::default();
        for same in places.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)).filter(|same| same.len() > 1) {
            overlaps.total += 1;
            if overlaps.examples.len() < LISTED
                && let Some((tier, node, _)) = same.first()
            {
                let groups = same.iter().filter_map(|(_, _, at)| domains.get(*at));
                let mut groups: Vec<Arc<str>> = groups.map(|domain| Arc::clone(&domain.id)).collect();
                groups.sort_unstable();
                overlaps.examples.push(Overlap { tier: *tier, node: (*node).clone(), groups });
            }
        }
        overlaps
    }
}
