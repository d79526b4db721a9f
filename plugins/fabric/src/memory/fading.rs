//! Links that a child is known for and does not show any more.
//!
//! A cable that shows no light is still a cable, and nobody moves because of it, for the grace. Whoever pulls a wrong cable,
//! takes a switch out or puts another one in its place does so for good, and after that the cable is forgotten: the child is
//! known for what it still shows. As long as that is one link to a switch of its group, it stays there; otherwise it goes
//! where its links lead, as it would after a restart. The name of a group does not change for that: it stays where most of
//! its children are.
//!
//! Each link has a grace of its own, from the round in which it was first missed. A child that shows nothing at all forgets
//! nothing: for how long it is remembered at all is another matter.

use super::{Past, Remembered};
use crate::graph::{Edge, NONE, at, set};
use crate::level::Standing;
use crate::tree::Floor;

/// A link, or some of several to one switch, that a child is known for and does not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fading {
    pub(crate) child: u32,
    pub(crate) parent: u32,
    /// When it was first missed, milliseconds since 1970.
    pub(crate) since: u64,
}

impl Past<'_> {
    /// The links that a child is known for, without those that were missed for too long. `(child, shown)` is its number
    /// in this round and what it shows now.
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

/// What a floor is missing, for the next round. `order` has the children that are remembered, `numbers` what switches are
/// called in the memory.
pub(super) fn remember(floor: &Floor, order: &[(&str, u32)], numbers: &[u32]) -> Vec<Fading> {
    if floor.fading.is_empty() {
        return Vec::new();
    }
    let mut positions = vec![NONE; floor.children.len()];
    (0..).zip(order).for_each(|(position, &(_, child))| set(&mut positions, child, position));
    // A child that was touched is known for what it shows.
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
