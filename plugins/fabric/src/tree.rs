//! All levels: from hosts and leaves upward.
//!
//! The distance of a switch is counted from the switches that bear hosts. Groups of one level are the children of the
//! next, and hang on the switches one step further out; links between switches of equal distance say nothing.

use std::collections::HashSet;

use crate::doubt::{self, Splits};
use crate::graph::{Edge, Graph, Lists, NONE, at, set};
use crate::level::{self, Level, Task};
use crate::memory::{Fading, Past, Recall};
use crate::settings::{Settings, Tiers};

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
    /// Links that children are known for and do not show.
    pub(crate) fading: Vec<Fading>,
    /// Whether it lacks links, or what it stands on does, and nobody remembers which.
    pub(crate) is_thin: bool,
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
    settings: &Settings,
    past: &Past<'_>,
    hosts: (&Graph, Recall),
    taken: &mut HashSet<String>,
) -> Vec<Floor> {
    let distances = switches.distances();
    let highest = distances.iter().copied().filter(|&distance| distance <= MAX_LEVEL).max().unwrap_or(0);
    let cables = cables(switches);
    let may_lack = past.began().is_some();
    // What stands on something thin is thin.
    let mut is_thin = false;
    let mut settle = |number: u32, present: &Graph, recall: &Recall, taken: &mut HashSet<String>| {
        let (remembered, was, ids) = (&recall.known, &recall.was, &recall.ids);
        is_thin |= may_lack && doubt::is_thin(present, was, ids.len());
        let splits = if is_thin || may_lack && number > 1 { Splits::Doubted } else { Splits::Believed };
        let (switches, similarity) = (switches.identities.as_slice(), settings.similarity);
        (level::settle(&Task { present, remembered, was, ids, switches, similarity, splits }, taken), is_thin)
    };
    let (present, recall) = hosts;
    let children = (0..present.children()).map(|index| Child { floor: NONE, index }).collect();
    let (level, mut is_thin) = settle(1, present, &recall, taken);
    let mut floors = vec![Floor { level, children, seen: recall.seen, fading: recall.fading, is_thin }];
    let mut tops = tops_of(&floors, 0, &[]);
    for distance in 2..=highest.max(past.levels()).min(MAX_LEVEL) {
        if tops.len() < 2 || is_thin && distance > past.levels() || settings.tiers == Tiers::Lowest {
            break;
        }
        let mut present = Graph::default();
        for top in &tops {
            let own = switches_of(&floors, *top);
            let up = own.iter().flat_map(|&switch| cables.of(switch));
            present.push(up.copied().filter(|edge| at(&distances, edge.parent) == distance).collect::<Vec<_>>());
        }
        let ids: Vec<&str> = tops.iter().map(|&top| id_of(&floors, top)).collect();
        let below: Vec<Vec<&str>> = tops.iter().map(|&top| below(&floors, top)).collect();
        let recall = past.recall_groups(distance, &ids, &below, &present);
        let level;
        (level, is_thin) = settle(distance, &present, &recall, taken);
        let floor = floors.len() as u32;
        floors.push(Floor { level, children: tops.clone(), seen: recall.seen, fading: recall.fading, is_thin });
        tops = tops_of(&floors, floor, &tops);
    }
    floors
}

/// The identities of all groups below a group.
fn below(floors: &[Floor], top: Child) -> Vec<&str> {
    let mut found = Vec::new();
    let mut open = vec![top];
    while let Some((floor, group)) = open.pop().and_then(|child| group_of(floors, child)) {
        let children = group.children.iter().filter_map(|&child| floor.children.get(child as usize).copied());
        open.extend(children.filter(|child| child.floor != NONE).inspect(|&child| found.push(id_of(floors, child))));
    }
    found
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
