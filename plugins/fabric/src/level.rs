//! One level: children, their parents, the groups of the last round, and the groups of this one.
//!
//! A cable that was seen once and has no link now is still a cable. So a child counts with all its *known* links, as long
//! as its live links are among them. Bundles and votes are then the same as before, and no child changes its group because
//! a link failed. A child with a live link that was not known was recabled (*touched*): it counts with its live links only.
//! The memory decides how long a link without light stays known.
//!
//! A group keeps its identity where most of its children are. When new links join two groups, they become one: the larger
//! one keeps its identity, and the children of the other one follow, touched or not.
//!
//! After a restart the earlier cables are unknown, and an incomplete list looks like a group that split. While that is in
//! doubt ([`Splits::Doubted`]), a child leaves its group only for another group of the last round that still exists.

mod heirs;

use std::collections::{HashMap, HashSet};

use crate::bundle::{self, Bundles, Tally};
use crate::doubt::Splits;
use crate::graph::{Edge, Graph, Lists, NONE, at, set};
use heirs::Heirs;

/// The input of one level. Children and parents are numbers in the order of their names.
#[derive(Debug)]
pub(crate) struct Task<'a> {
    /// The links that are up now.
    pub(crate) present: &'a Graph,
    /// The links that each child was known for.
    pub(crate) remembered: &'a Graph,
    /// The group of each child in the last round, a position in `ids`; [`NONE`]: it had none.
    pub(crate) was: &'a [u32],
    /// The identities of the groups of the last round.
    pub(crate) ids: &'a [String],
    /// The identities of all switches, ascending.
    pub(crate) switches: &'a [&'a str],
    /// The number of this level; 1 has the hosts as children.
    pub(crate) number: u32,
    /// The level of every group of the last round, by its identity.
    pub(crate) owners: &'a HashMap<&'a str, u32>,
    /// The share of common hosts above which switches belong together.
    pub(crate) similarity: f64,
    /// How to treat a group that its links split.
    pub(crate) splits: Splits,
}

/// How the live links of a child compare with its known ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has live links that were not known, or no known links.
    Touched,
    /// All its live links were known.
    Same,
    /// It has no live link.
    Dark,
}

/// A group of a level.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Group {
    pub(crate) id: String,
    /// Position among the bundles; [`NONE`] when all its children are dark and have no known links.
    pub(crate) bundle: u32,
    /// Ascending.
    pub(crate) children: Vec<u32>,
}

/// The result of a level.
#[derive(Debug)]
pub(crate) struct Level {
    pub(crate) standing: Vec<Standing>,
    /// The links that each child is known for from now on.
    pub(crate) known: Graph,
    pub(crate) bundles: Bundles,
    pub(crate) tally: Tally,
    /// By child; [`NONE`]: it has no place.
    pub(crate) group_of: Vec<u32>,
    /// In the order of their smallest switch.
    pub(crate) groups: Vec<Group>,
    /// Children that stay in their group although their links do not lead there. Ascending.
    pub(crate) doubted: Vec<u32>,
}

/// Groups the children of a level. New groups get no identity that is in `taken`; their identities are added to it.
pub(crate) fn settle(task: &Task<'_>, taken: &mut HashSet<String>) -> Level {
    let (known, standing) = known(task);
    let bundles = bundle::bundle(&known, task.switches.len() as u32, task.similarity);
    let tally = bundle::tally(&known, &bundles);
    let heirs = Heirs::new(task, &standing, &tally, bundles.switches.len(), taken);
    let mut doubted = Vec::new();
    let place: Vec<Place> = (0..)
        .zip(task.was)
        .zip(&standing)
        .map(|((child, &old), &standing)| {
            let winner = at(&tally.winner, child);
            let heir = heirs.bundle_of.get(old as usize).copied().unwrap_or(NONE);
            match (heir, winner) {
                (NONE, NONE) if old == NONE => Place::Nowhere,
                // Only its group of the last round is known.
                (NONE, NONE) => Place::Old(old),
                (_, NONE) => Place::Bundle(heir),
                _ if heir == winner || heir != NONE && stays(&tally, child, heir, winner, standing) => {
                    Place::Bundle(heir)
                }
                _ => match heirs.shelter(task.splits, winner, old) {
                    None => Place::Bundle(winner),
                    Some(shelter) => {
                        if old != NONE {
                            doubted.push(child);
                        }
                        match heirs.bundle_of.get(shelter as usize).copied().unwrap_or(NONE) {
                            NONE => Place::Old(shelter),
                            bundle => Place::Bundle(bundle),
                        }
                    }
                },
            }
        })
        .collect();
    let (group_of, groups) = groups(task, &place, &heirs, &bundles, taken);
    Level { standing, known, bundles, tally, group_of, groups, doubted }
}

/// Whether a child stays with the bundle of its last group, although another bundle won its vote.
fn stays(tally: &Tally, child: u32, heir: u32, winner: u32, standing: Standing) -> bool {
    let links = |bundle: u32| tally.of(child).iter().find(|vote| vote.bundle == bundle).map_or(0, |vote| vote.links);
    match standing {
        Standing::Touched => links(heir) == links(winner),
        Standing::Same | Standing::Dark => links(heir) > 0,
    }
}

impl Level {
    /// Whether a child has its place from earlier rounds only.
    pub(crate) fn keeps_dark(&self) -> bool {
        let mut children = self.group_of.iter().zip(&self.standing);
        children.any(|(&group, &standing)| group != NONE && standing == Standing::Dark)
    }
}

/// The group that a child gets.
#[derive(Debug, Clone, Copy)]
enum Place {
    Nowhere,
    Bundle(u32),
    /// A group of the last round that has no bundle.
    Old(u32),
}

/// The links that each child counts with, and how its live links compare with the known ones.
fn known(task: &Task<'_>) -> (Graph, Vec<Standing>) {
    let mut known = Graph::default();
    let mut standings = Vec::with_capacity(task.present.children() as usize);
    for child in 0..task.present.children() {
        let (shown, remembered) = (task.present.of(child), task.remembered.of(child));
        let shown_of =
            |parent: u32| shown.binary_search_by_key(&parent, |edge| edge.parent).ok().and_then(|i| shown.get(i));
        let was_known = |edge: &Edge| remembered.binary_search_by_key(&edge.parent, |known| known.parent).is_ok();
        let standing = match shown {
            [] => Standing::Dark,
            _ if shown.iter().all(was_known) => Standing::Same,
            _ => Standing::Touched,
        };
        standings.push(standing);
        if standing == Standing::Touched {
            known.push(shown.iter().copied());
        } else {
            known.push(remembered.iter().map(|edge| {
                let weight = shown_of(edge.parent).map_or(edge.weight, |shown| edge.weight.max(shown.weight));
                Edge { weight, ..*edge }
            }));
        }
    }
    (known, standings)
}

/// Makes groups of places: bundles first, in the order of their smallest switch.
fn groups(
    task: &Task<'_>,
    place: &[Place],
    heirs: &Heirs,
    bundles: &Bundles,
    taken: &mut HashSet<String>,
) -> (Vec<u32>, Vec<Group>) {
    let bundle_count = bundles.switches.len() as u32;
    let slot = |place: &Place| match *place {
        Place::Nowhere => NONE,
        Place::Bundle(bundle) => bundle,
        Place::Old(old) => bundle_count + old,
    };
    let slots = bundles.switches.len() + task.ids.len();
    let places = (0..).zip(place).map(|(child, place)| (slot(place), child)).filter(|&(slot, _)| slot != NONE);
    let children = Lists::collect(slots, places);
    let mut groups: Vec<Group> = Vec::new();
    let mut nameless = Vec::new();
    let mut group_of = vec![NONE; place.len()];
    for slot in 0..slots as u32 {
        let members = children.of(slot);
        if members.is_empty() {
            continue;
        }
        let (bundle, old) =
            if slot < bundle_count { (slot, at(&heirs.old_of, slot)) } else { (NONE, slot - bundle_count) };
        let id = task.ids.get(old as usize).cloned().unwrap_or_default();
        if id.is_empty() || !taken.insert(id.clone()) {
            nameless.push(groups.len());
        }
        members.iter().for_each(|&child| set(&mut group_of, child, groups.len() as u32));
        groups.push(Group { id, bundle, children: members.to_vec() });
    }
    // After all groups that keep their identity.
    for index in nameless {
        if let Some(group) = groups.get_mut(index) {
            let switches = bundles.switches.get(group.bundle as usize).map(Vec::as_slice).unwrap_or_default();
            group.id = new_id(task, switches, &group.id, taken);
            taken.insert(group.id.clone());
        }
    }
    (group_of, groups)
}

/// The smallest identity among the switches that no other group has, and that no group of another level had. Where there
/// is none, a number makes it unique.
fn new_id(task: &Task<'_>, switches: &[u32], old: &str, taken: &HashSet<String>) -> String {
    let identities = || switches.iter().filter_map(|&switch| task.switches.get(switch as usize).copied());
    let is_free = |id: &str| !taken.contains(id) && task.owners.get(id).is_none_or(|&level| level == task.number);
    let free = identities().find(|identity| !identity.is_empty() && is_free(identity));
    free.map(str::to_owned).unwrap_or_else(|| {
        let first = identities().next().unwrap_or(old);
        (2..).map(|number| format!("{first}#{number}")).find(|id| is_free(id)).unwrap_or_default()
    })
}
