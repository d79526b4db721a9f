//! One level: children, the parents they hang on, what the last round knew, and the groups that follow.
//!
//! A cable that was seen once and shows no light now is still a cable. So a child counts with all links it is *known*
//! for, as long as those it shows are among them; bundles and votes are then the same as before, and nobody moves
//! because something broke. A child that shows a link it was not known for was touched: it counts with what it shows.
//!
//! A group keeps its identity where most of its children are. Two groups that new links prove to be one become one: the
//! larger keeps its identity, and the children of the other follow, touched or not.

use std::collections::HashSet;

use crate::bundle::{self, Bundles, Tally};
use crate::graph::{Edge, Graph, Lists, NONE, add, at, counted, set};

/// What one level is worked out from. Children and parents are numbers in the order of their names.
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
    /// How alike switches are that belong together.
    pub(crate) similarity: f64,
}

/// How a child stands to what was known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It shows links it was not known for, or nothing was known.
    Touched,
    /// All it shows was known.
    Same,
    /// It shows nothing.
    Dark,
}

/// A group of a level.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Group {
    pub(crate) id: String,
    /// Position among the bundles; [`NONE`] when only dark children are in it and nothing is known of their links.
    pub(crate) bundle: u32,
    /// Ascending.
    pub(crate) children: Vec<u32>,
}

/// A level that is worked out.
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
}

/// Works a level out. Identities that are in `taken` are given to no group; those that are given join it.
pub(crate) fn settle(task: &Task<'_>, taken: &mut HashSet<String>) -> Level {
    let (known, standing) = known(task);
    let bundles = bundle::bundle(&known, task.switches.len() as u32, task.similarity);
    let tally = bundle::tally(&known, &bundles);
    let heirs = Heirs::new(task, &standing, &tally, bundles.switches.len(), taken);
    let place: Vec<Place> = (0..)
        .zip(task.was)
        .zip(&standing)
        .map(|((child, &old), &standing)| {
            let winner = at(&tally.winner, child);
            let heir = heirs.bundle_of.get(old as usize).copied().unwrap_or(NONE);
            match (heir, winner) {
                (NONE, NONE) if old == NONE => Place::Nowhere,
                // Nothing is known but where it was.
                (NONE, NONE) => Place::Old(old),
                (NONE, _) => Place::Bundle(winner),
                (_, NONE) => Place::Bundle(heir),
                _ if stays(&tally, child, heir, winner, standing) => Place::Bundle(heir),
                _ => Place::Bundle(winner),
            }
        })
        .collect();
    let (group_of, groups) = groups(task, &place, &heirs, &bundles, taken);
    Level { standing, known, bundles, tally, group_of, groups }
}

/// Whether a child stays with the bundle that its last group lives on in, although another one won its vote.
fn stays(tally: &Tally, child: u32, heir: u32, winner: u32, standing: Standing) -> bool {
    let links = |bundle: u32| tally.of(child).iter().find(|vote| vote.bundle == bundle).map_or(0, |vote| vote.links);
    match standing {
        Standing::Touched => links(heir) == links(winner),
        Standing::Same | Standing::Dark => links(heir) > 0,
    }
}

/// Where a child goes.
#[derive(Debug, Clone, Copy)]
enum Place {
    Nowhere,
    Bundle(u32),
    /// To a group of the last round that no bundle stands for.
    Old(u32),
}

/// What each child counts with, and how it stands to what was known.
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

/// Which bundle each group of the last round lives on in, and the other way round: one to one.
struct Heirs {
    /// By old group.
    bundle_of: Vec<u32>,
    /// By bundle.
    old_of: Vec<u32>,
}

impl Heirs {
    /// A group lives on where most of its children are; where several would, the one with more children there does.
    /// Children that nobody touched carry it in any case, others only when they are more than half of both.
    fn new(task: &Task<'_>, standing: &[Standing], tally: &Tally, bundles: usize, taken: &HashSet<String>) -> Self {
        let mut heirs = Self { bundle_of: vec![NONE; task.ids.len()], old_of: vec![NONE; bundles] };
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
            if (is_most || quiet.contains(&(old, bundle))) && !taken.contains(id) {
                claims.push((u32::MAX - count, id, bundle, old));
            }
        }
        claims.sort_unstable();
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
        let id = task.ids.get(old as usize).filter(|id| !taken.contains(*id)).cloned();
        if let Some(id) = &id {
            taken.insert(id.clone());
        } else {
            nameless.push(groups.len());
        }
        members.iter().for_each(|&child| set(&mut group_of, child, groups.len() as u32));
        groups.push(Group { id: id.unwrap_or_default(), bundle, children: members.to_vec() });
    }
    // After all that keep theirs.
    for index in nameless {
        if let Some(group) = groups.get_mut(index) {
            let switches = bundles.switches.get(group.bundle as usize).map(Vec::as_slice).unwrap_or_default();
            group.id = new_id(task, switches, taken);
            taken.insert(group.id.clone());
        }
    }
    (group_of, groups)
}

/// The smallest identity of the switches that no other group is called by.
fn new_id(task: &Task<'_>, switches: &[u32], taken: &HashSet<String>) -> String {
    let identities = || switches.iter().filter_map(|&switch| task.switches.get(switch as usize).copied());
    let free = identities().find(|identity| !identity.is_empty() && !taken.contains(*identity));
    free.map(str::to_owned).unwrap_or_else(|| {
        let first = identities().next().unwrap_or_default();
        (2..).map(|number| format!("{first}#{number}")).find(|id| !taken.contains(id)).unwrap_or_default()
    })
}
