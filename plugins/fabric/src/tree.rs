//! All levels: from hosts and leaves upward.
//!
//! Groups of one level are the children of the next one. Their parents are the switches one step further out
//! ([`distance`]); links between switches of equal distance do not count.
//!
//! A level that had groups, and to which no group below has a link any more, is *lost*. People pull cables one by one, so
//! the cause is another one: something new is plugged in and makes the upper switches look closer, or the list lacks all
//! their links. The groups of a lost level stay, for longer than the grace, until links lead there again or the
//! configuration says that there is no such tier ([`Settings::max_tier`]).

pub(crate) mod distance;

use std::collections::HashSet;

use crate::doubt::{self, Splits};
use crate::graph::{Graph, NONE, at};
use crate::level::{self, Level, Task};
use crate::memory::{Fading, Past, Recall, Retention};
use crate::settings::{Settings, Tiers};
use distance::Switches;

/// Tiers are 1 to 16.
pub(crate) const MAX_LEVEL: u32 = 16;

/// One level of the tree.
#[derive(Debug)]
pub(crate) struct Floor {
    pub(crate) level: Level,
    /// What the children of this level are: hosts at the first one, groups of lower ones above.
    pub(crate) children: Vec<Child>,
    /// When each child last had a live link.
    pub(crate) seen: Vec<u64>,
    /// Known links of children that are not live.
    pub(crate) fading: Vec<Fading>,
    /// Whether it, or a level below, lacks links and the memory does not know which.
    pub(crate) is_thin: bool,
    /// Whether it has groups of earlier rounds and no link leads to it any more.
    pub(crate) is_lost: bool,
}

/// A child of a level above the first: a group, by level (position in the tree) and position there. At the first level:
/// a host, with `floor` [`NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Child {
    pub(crate) floor: u32,
    pub(crate) index: u32,
}

/// Builds all levels, the first one from the links of the hosts.
pub(crate) fn grow(
    (switches, cables): (&Switches<'_>, &Graph),
    settings: &Settings,
    past: &Past<'_>,
    hosts: (&Graph, Recall),
    taken: &mut HashSet<String>,
) -> Vec<Floor> {
    let (distances, owners) = (switches.distances(cables), past.owners());
    let highest = distances.iter().copied().filter(|&distance| distance <= MAX_LEVEL).max().unwrap_or(0);
    let may_lack = past.began().is_some();
    // A level above a thin one is thin.
    let mut is_thin = false;
    let mut settle = |number: u32, present: &Graph, recall: &Recall, taken: &mut HashSet<String>| {
        let (remembered, was, ids) = (&recall.known, &recall.was, &recall.ids);
        is_thin |= may_lack && doubt::is_thin(present, was, ids.len());
        let splits = if is_thin || may_lack && number > 1 { Splits::Doubted } else { Splits::Believed };
        let (switches, similarity, owners) = (switches.identities.as_slice(), settings.similarity, &owners);
        let task = Task { present, remembered, was, ids, switches, number, owners, similarity, splits };
        (level::settle(&task, taken), is_thin)
    };
    let (present, recall) = hosts;
    // A list without any link does not show that a tier is lost.
    let is_listed = !present.edges().is_empty();
    let children = (0..present.children()).map(|index| Child { floor: NONE, index }).collect();
    let (level, mut is_thin) = settle(1, present, &recall, taken);
    let mut floors = vec![Floor { level, children, seen: recall.seen, fading: recall.fading, is_thin, is_lost: false }];
    let mut tops = tops_of(&floors, 0, &[]);
    for distance in 2..=highest.max(past.levels()).min(settings.max_tier).min(MAX_LEVEL) {
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
        let mut recall = past.recall_groups(distance, &ids, &below, &present, Retention::Always);
        let is_lost = is_listed && is_lost(&recall, &present);
        if !is_lost {
            recall = past.recall_groups(distance, &ids, &below, &present, Retention::ForGrace);
        }
        let level;
        (level, is_thin) = settle(distance, &present, &recall, taken);
        let floor = floors.len() as u32;
        let (children, seen, fading) = (tops.clone(), recall.seen, recall.fading);
        floors.push(Floor { level, children, seen, fading, is_thin, is_lost });
        tops = tops_of(&floors, floor, &tops);
    }
    floors
}

/// Whether a level had groups, and none of their children has a link to it.
fn is_lost(recall: &Recall, present: &Graph) -> bool {
    let mut placed = (0..).zip(&recall.was).filter(|(_, group)| **group != NONE).peekable();
    placed.peek().is_some() && placed.all(|(child, _)| present.of(child).is_empty())
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

/// The children of the next level: the groups of a floor, and its children without a group.
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
