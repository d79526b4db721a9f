//! Known links of a child that are no longer live.
//!
//! A dead cable stays known for the grace, and no child changes its group because of it. A cable that was pulled, or whose
//! switch was removed or replaced, never comes back: after the grace it is forgotten, and the child counts with its live
//! links. While one of these leads to a switch of its group, the child stays there. Otherwise it goes where its links lead,
//! as after a restart. The identity of the group does not change: it stays with most of its children.
//!
//! Each link has a grace of its own, from the round that first missed it. A child without any live link forgets no link:
//! the memory decides how long the child itself is remembered.

use super::{Past, Remembered};
use crate::graph::{Edge, NONE, at, set};
use crate::level::Standing;
use crate::tree::Floor;

/// A known link of a child that is not live, or some of several to one switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fading {
    pub(crate) child: u32,
    pub(crate) parent: u32,
    /// When it was first missed, milliseconds since 1970.
    pub(crate) since: u64,
}

impl Past<'_> {
    /// The known links of a child, without those that were missed for too long. `(child, shown)` is its number in this
    /// round and its live links.
    pub(super) fn known_links(
        &self,
        memory: &Remembered,
        position: u32,
        (child, shown): (u32, &[Edge]),
        fading: &mut Vec<Fading>,
    ) -> Vec<Edge> {
        let first = memory.fading.partition_point(|link| link.child < position);
        let missed = || memory.fading.iter().skip(first).take_while(|link| link.child == position);
        let mut known = Vec::new();
        for edge in memory.known.of(position) {
            let Some(&parent) = self.switches.get(edge.parent as usize) else { continue };
            let live = shown.iter().find(|link| link.parent == parent).map_or(0, |link| link.weight);
            let mut weight = edge.weight;
            if live < weight {
                let since = missed().find(|link| link.parent == edge.parent).map(|link| link.since);
                let is_dark = shown.is_empty();
                match since.or((!is_dark).then_some(self.now)) {
                    Some(since) if !is_dark && self.is_over(since) => weight = live,
                    Some(since) => fading.push(Fading { child, parent, since }),
                    None => {}
                }
            }
            if weight > 0 {
                known.push(Edge { parent, weight });
            }
        }
        known
    }
}

/// The missed links of a level, for the next round. `order` has the remembered children, `numbers` the positions of the
/// switches in the memory.
pub(super) fn remember(floor: &Floor, order: &[(&str, u32)], numbers: &[u32]) -> Vec<Fading> {
    if floor.fading.is_empty() {
        return Vec::new();
    }
    let mut positions = vec![NONE; floor.children.len()];
    (0..).zip(order).for_each(|(position, &(_, child))| set(&mut positions, child, position));
    // For a touched child only its live links are known.
    let is_known = |link: &&Fading| {
        at(&positions, link.child) != NONE && floor.level.standing.get(link.child as usize) != Some(&Standing::Touched)
    };
    let mut fading: Vec<Fading> = floor
        .fading
        .iter()
        .filter(is_known)
        .map(|link| Fading { child: at(&positions, link.child), parent: at(numbers, link.parent), since: link.since })
        .collect();
    fading.sort_unstable();
    fading
}
