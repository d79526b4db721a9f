//! All levels: from hosts and leaves upward.
//!
//! The distance of a switch is counted from the switches that bear hosts. Groups of one level are the children of the
//! next, and hang on the switches one step further out; links between switches of equal distance say nothing.

use std::collections::HashSet;

use crate::graph::{Edge, Graph, Lists, NONE, at, set};
use crate::level::{self, Level, Task};
use crate::memory::{Past, Recall};

/// Tiers are 1 to 16.
pub(crate) const MAX_LEVEL: u32 = 16;

/// The switches, in the order of their identities.
#[derive(Debug, Default)]
pub(crate) struct Switches<'a> {
    pub(crate) identities: Vec<&'a str>,
    /// By switch: 0 where nobody declared one.
    pub(crate) declared: Vec<u8>,
    /// By switch: whether hosts hang on it.
    pub(crate) bears_hosts: Vec<bool>,
    /// Cables between switches, each pair once.
    pub(crate) adjacent: Vec<(u32, u32, u32)>,
}

/// One level of the tree.
#[derive(Debug)]
pub(crate) struct Floor {
    pub(crate) level: Level,
    /// What the children of this level are: hosts at the first one, groups of lower ones above.
    pub(crate) children: Vec<Child>,
    /// When each child showed a live link.
    pub(crate) seen: Vec<u64>,
}

/// A child of a level above the first: a group, by level (position in the tree) and position there. At the first level:
/// a host, with `floor` [`NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Child {
    pub(crate) floor: u32,
    pub(crate) index: u32,
}

impl Switches<'_> {
    /// The distance of every switch, 1 for leaves; [`NONE`] for what cables do not reach.
    pub(crate) fn distances(&self) -> Vec<u32> {
        let count = self.identities.len();
        let both = self.adjacent.iter().flat_map(|&(a, b, _)| [(a, b), (b, a)]);
        let neighbours = Lists::collect(count, both);
        let mut distances: Vec<u32> = (0..count as u32)
            .map(|switch| match (at(&self.declared, switch), at(&self.bears_hosts, switch)) {
                (0, true) => 1,
                (0, false) => NONE,
                (level, _) => u32::from(level),
            })
            .collect();
        let mut queues: Vec<Vec<u32>> = vec![Vec::new(); MAX_LEVEL as usize + 2];
        for (switch, &distance) in (0..).zip(&distances) {
            if let Some(queue) = queues.get_mut(distance as usize) {
                queue.push(switch);
            }
        }
        for distance in 1..=MAX_LEVEL {
            let queue = queues.get_mut(distance as usize).map(std::mem::take).unwrap_or_default();
            for next in queue.iter().flat_map(|&switch| neighbours.of(switch)) {
                if at(&distances, *next) == NONE {
                    set(&mut distances, *next, distance + 1);
                    if let Some(queue) = queues.get_mut(distance as usize + 1) {
                        queue.push(*next);
                    }
                }
            }
        }
        distances
    }
}

/// Works out all levels: the first one from the links of the hosts.
pub(crate) fn grow(
    switches: &Switches<'_>,
    similarity: f64,
    past: &Past<'_>,
    hosts: (&Graph, Recall),
    taken: &mut HashSet<String>,
) -> Vec<Floor> {
    let distances = switches.distances();
    let highest = distances.iter().copied().filter(|&distance| distance <= MAX_LEVEL).max().unwrap_or(0);
    let cables = cables(switches);
    let settle = |present: &Graph, recall: &Recall, taken: &mut HashSet<String>| {
        let (remembered, was, ids) = (&recall.known, &recall.was, &recall.ids);
        level::settle(&Task { present, remembered, was, ids, switches: &switches.identities, similarity }, taken)
    };
    let (present, recall) = hosts;
    let children = (0..present.children()).map(|index| Child { floor: NONE, index }).collect();
    let mut floors = vec![Floor { level: settle(present, &recall, taken), children, seen: recall.seen }];
    let mut tops = tops_of(&floors, 0, &[]);
    for distance in 2..=highest.max(past.levels()).min(MAX_LEVEL) {
        if tops.len() < 2 {
            break;
        }
        let mut present = Graph::default();
        for top in &tops {
            let own = switches_of(&floors, *top);
            let up = own.iter().flat_map(|&switch| cables.of(switch));
            present.push(up.copied().filter(|edge| at(&distances, edge.parent) == distance).collect::<Vec<_>>());
        }
        let ids: Vec<&str> = tops.iter().map(|&top| id_of(&floors, top)).collect();
        let recall = past.recall(distance, &ids, &[], &present);
        let level = settle(&present, &recall, taken);
        let floor = floors.len() as u32;
        floors.push(Floor { level, children: tops.clone(), seen: recall.seen });
        tops = tops_of(&floors, floor, &tops);
    }
    floors
}

/// By switch: the cables to other switches.
fn cables(switches: &Switches<'_>) -> Graph {
    let mut rows: Vec<Vec<Edge>> = vec![Vec::new(); switches.identities.len()];
    for &(a, b, weight) in &switches.adjacent {
        for (from, parent) in [(a, b), (b, a)] {
            if let Some(row) = rows.get_mut(from as usize) {
                row.push(Edge { parent, weight });
            }
        }
    }
    let mut cables = Graph::default();
    rows.into_iter().for_each(|row| cables.push(row));
    cables
}

/// What the next level starts from: the groups of a floor, and the children that found no place in it.
fn tops_of(floors: &[Floor], floor: u32, children: &[Child]) -> Vec<Child> {
    let Some(last) = floors.get(floor as usize) else { return Vec::new() };
    let groups = (0..last.level.groups.len() as u32).map(|index| Child { floor, index });
    let roots = children.iter().zip(&last.level.group_of).filter(|(_, group)| **group == NONE).map(|(child, _)| *child);
    groups.chain(roots).collect()
}

pub(crate) fn group_of(floors: &[Floor], child: Child) -> Option<(&Floor, &level::Group)> {
    let floor = floors.get(child.floor as usize)?;
    Some((floor, floor.level.groups.get(child.index as usize)?))
}

fn switches_of(floors: &[Floor], child: Child) -> &[u32] {
    let bundle =
        group_of(floors, child).and_then(|(floor, group)| floor.level.bundles.switches.get(group.bundle as usize));
    bundle.map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn id_of(floors: &[Floor], child: Child) -> &str {
    group_of(floors, child).map(|(_, group)| group.id.as_str()).unwrap_or_default()
}
