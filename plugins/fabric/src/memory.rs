//! The memory of the last round: places and the links that they rest on.
//!
//! For every child of every level: its group, its known links to switches, and when it last had a live link. A child
//! without a live link keeps its place for the grace; after that it is forgotten. The same holds for each dead link of a
//! child that has live ones ([`fading`]). After a restart the HyperNodes in the cluster say which Nodes were together and
//! which identities the groups have ([`Prior`]), and the grace begins anew.

mod fading;
mod prior;

pub(crate) use fading::Fading;

pub(crate) use prior::Prior;

use std::collections::HashMap;

use crate::graph::{Edge, Graph, NONE, at, counted, set};
use crate::tree::{self, Floor};

/// The memory of the last round: the group of every host, its links as last seen, and when it last had a live one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Identities of switches, ascending.
    pub(crate) switches: Vec<String>,
    /// From the first level upward.
    pub(crate) levels: Vec<Remembered>,
    /// When the first round after a restart was, as long as the list may lack links that the memory does not know.
    pub(crate) began: Option<u64>,
    /// The digest of the answer of that round.
    pub(crate) digest: [u64; 2],
}

/// One level of the last round.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Remembered {
    /// Identities of its groups.
    pub(crate) ids: Vec<String>,
    /// Its children, ascending by key.
    pub(crate) children: Vec<Child>,
    /// Their known links to switches, as positions in the memory's list.
    pub(crate) known: Graph,
    /// Known links that are not live. Numbers are positions; ascending.
    pub(crate) fading: Vec<Fading>,
}

/// A child of a level: a host, or a group of the level below.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Child {
    pub(crate) key: String,
    /// Position among the identities, or [`NONE`].
    pub(crate) group: u32,
    /// When it last showed a live link, milliseconds since 1970.
    pub(crate) seen: u64,
    /// Of a host: the Node that its GUIDs led to, where its name does not; else empty. A host that is no longer listed has
    /// no GUIDs.
    pub(crate) node: String,
}

impl Memory {
    /// Whether nothing was placed before.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.levels.is_empty()
    }
}

/// The memory as one round sees it.
#[derive(Debug)]
pub(crate) struct Past<'a> {
    pub(crate) memory: &'a Memory,
    /// The groups in the cluster, used when there is no memory.
    pub(crate) prior: &'a Prior,
    /// By position in the memory's list of switches: the number of the switch in this round.
    pub(crate) switches: Vec<u32>,
    /// The time of this round.
    pub(crate) now: u64,
    /// How long a child or a link is remembered that is not live, milliseconds.
    pub(crate) grace: u64,
}

/// What is remembered of the children of one level, in their order.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    pub(crate) known: Graph,
    pub(crate) was: Vec<u32>,
    pub(crate) ids: Vec<String>,
    /// When each last had a live link: now, if it has one.
    pub(crate) seen: Vec<u64>,
    /// Children without a live link for too long.
    pub(crate) dropped: Vec<u32>,
    /// Links that are known and not live, in the order of children.
    pub(crate) fading: Vec<Fading>,
}

/// How long a child without a live link is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retention {
    /// For the grace.
    ForGrace,
    /// Until it has a live link: its whole level has none.
    Always,
}

impl Past<'_> {
    /// How many levels there were.
    pub(crate) fn levels(&self) -> u32 {
        if self.memory.is_empty() { self.prior.levels() } else { self.memory.levels.len() as u32 }
    }

    /// The level of every group, by its identity.
    pub(crate) fn owners(&self) -> HashMap<&str, u32> {
        let ids = (1..=self.levels()).flat_map(|level| self.ids(level).iter().map(move |id| (id.as_str(), level)));
        ids.collect()
    }

    /// The identities of the groups of a level.
    fn ids(&self, level: u32) -> &[String] {
        match self.memory.levels.get(level as usize - 1) {
            Some(level) => &level.ids,
            None => self.prior.ids(level),
        }
    }

    /// Since when the list may lack links that the memory does not know: from the first round after a restart, for the grace.
    pub(crate) fn began(&self) -> Option<u64> {
        if self.memory.is_empty() {
            return (self.prior.levels() > 0).then_some(self.now);
        }
        self.memory.began.filter(|&began| !self.is_over(began))
    }

    /// Whether a child without a live link had none for longer than the grace.
    pub(crate) fn is_over(&self, seen: u64) -> bool {
        self.now.saturating_sub(seen) > self.grace
    }

    /// What is remembered of the children of a level, 1 for hosts. `rows` are the Nodes of the hosts.
    pub(crate) fn recall(
        &self,
        level: u32,
        keys: &[&str],
        rows: &[u32],
        present: &Graph,
        retention: Retention,
    ) -> Recall {
        if self.memory.is_empty() {
            return self.prior.recall(level, keys, rows, self.now);
        }
        let Some(memory) = self.memory.levels.get(level as usize - 1) else {
            return Recall::nothing(keys.len(), self.now);
        };
        let mut recall = Recall { ids: memory.ids.clone(), ..Recall::default() };
        let mut next = 0;
        for (child, key) in (0..).zip(keys) {
            // Hosts come in the order in which they are remembered, so the next one is nearly always the right one.
            let position = match memory.children.get(next) {
                Some(known) if known.key == *key => Some(next),
                _ => memory.children.binary_search_by(|known| known.key.as_str().cmp(key)).ok(),
            };
            next = position.map_or(next, |position| position + 1);
            let known = position.and_then(|position| Some((position as u32, memory.children.get(position)?)));
            let is_dark = present.of(child).is_empty();
            match known {
                Some((_, known)) if is_dark && retention == Retention::ForGrace && self.is_over(known.seen) => {
                    recall.dropped.push(child);
                    recall.push(NONE, known.seen, &[]);
                }
                Some((position, known)) => {
                    let edges = self.known_links(memory, position, (child, present.of(child)), &mut recall.fading);
                    recall.push(known.group, if is_dark { known.seen } else { self.now }, &edges);
                }
                None => recall.push(NONE, self.now, &[]),
            }
        }
        recall
    }

    /// [`Past::recall`] for a level above the first. A group that is not remembered there goes where most of the groups
    /// below it were: it is new only because they reached further up before.
    pub(crate) fn recall_groups(
        &self,
        level: u32,
        keys: &[&str],
        below: &[Vec<&str>],
        present: &Graph,
        retention: Retention,
    ) -> Recall {
        let mut recall = self.recall(level, keys, &[], present, retention);
        for (child, below) in (0..).zip(below) {
            if at(&recall.was, child) != NONE || recall.dropped.contains(&child) {
                continue;
            }
            let is_dark = present.of(child).is_empty();
            let places = below.iter().filter_map(|key| {
                let above = || self.place_of(level, self.group_of(level - 1, key)?);
                self.place_of(level, key).or_else(|| above().filter(|_| retention == Retention::Always))
            });
            let places: Vec<(u32, u64)> =
                places.filter(|&(_, seen)| !is_dark || retention == Retention::Always || !self.is_over(seen)).collect();
            let groups = counted(places.iter().map(|&(group, _)| (0, group)).collect());
            let most = groups.map(|((_, group), count)| (u32::MAX - count, group)).min();
            if let Some((_, group)) = most {
                let seen = places.iter().filter(|place| place.0 == group).map(|place| place.1).max();
                set(&mut recall.was, child, group);
                set(&mut recall.seen, child, seen.filter(|_| is_dark).unwrap_or(self.now));
            }
        }
        recall
    }

    /// The identity of the group that a child of a level was in.
    fn group_of(&self, level: u32, key: &str) -> Option<&str> {
        let (group, _) = self.place_of(level, key)?;
        self.ids(level).get(group as usize).map(String::as_str)
    }

    /// The group that a child of a level was in, and when it last showed a live link.
    fn place_of(&self, level: u32, key: &str) -> Option<(u32, u64)> {
        if self.memory.is_empty() {
            return Some((self.prior.parent(level, key)?, self.now));
        }
        let level = self.memory.levels.get(level as usize - 1)?;
        let position = level.children.binary_search_by(|known| known.key.as_str().cmp(key)).ok()?;
        level.children.get(position).filter(|child| child.group != NONE).map(|child| (child.group, child.seen))
    }
}

impl Recall {
    fn nothing(children: usize, now: u64) -> Self {
        let mut recall = Self::default();
        (0..children).for_each(|_| recall.push(NONE, now, &[]));
        recall
    }

    fn push(&mut self, group: u32, seen: u64, known: &[Edge]) {
        self.was.push(group);
        self.seen.push(seen);
        self.known.push(known.iter().copied());
    }
}

/// The memory for the next round. `hosts` are the keys of the children of the first level, `nodes` the Nodes that their
/// GUIDs led to.
pub(crate) fn remember(switches: &[&str], floors: &[Floor], hosts: &[&str], nodes: &[&str]) -> Memory {
    // Only switches with links: the others carry no information.
    let mut numbers = vec![NONE; switches.len()];
    let edges = floors.iter().flat_map(|floor| floor.level.known.edges());
    edges.for_each(|edge| set(&mut numbers, edge.parent, 0));
    let mut memory = Memory::default();
    for (switch, number) in switches.iter().zip(&mut numbers) {
        if *number == 0 {
            *number = memory.switches.len() as u32;
            memory.switches.push((*switch).to_owned());
        }
    }
    for (number, floor) in floors.iter().enumerate() {
        let level = &floor.level;
        let ids: Vec<&str> = floor.children.iter().map(|&child| tree::id_of(floors, child)).collect();
        let keys = if number == 0 { hosts } else { ids.as_slice() };
        let is_placed = |child: u32| level.group_of.get(child as usize).is_some_and(|&group| group != NONE);
        let mut order: Vec<(&str, u32)> =
            keys.iter().copied().zip(0..).filter(|&(_, child)| is_placed(child)).collect();
        order.sort_unstable();
        let mut remembered = Remembered {
            ids: level.groups.iter().map(|group| group.id.clone()).collect(),
            children: Vec::with_capacity(order.len()),
            known: Graph::default(),
            fading: Vec::new(),
        };
        remembered.fading = fading::remember(floor, &order, &numbers);
        for (key, child) in order {
            let (group, seen) = (at(&level.group_of, child), at(&floor.seen, child));
            let node = nodes.get(child as usize).filter(|_| number == 0).copied().unwrap_or_default().to_owned();
            remembered.children.push(Child { key: key.to_owned(), group, seen, node });
            remembered
                .known
                .push(level.known.of(child).iter().map(|edge| Edge { parent: at(&numbers, edge.parent), ..*edge }));
        }
        memory.levels.push(remembered);
    }
    memory
}
