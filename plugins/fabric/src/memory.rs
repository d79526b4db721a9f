//! What the last round placed, and on what grounds.
//!
//! For every child of every level: its group, the switches it was known to hang on, and when it last showed a live link.
//! A host that shows nothing keeps its place for a while; after that, and after a restart, it is as if never seen. Then
//! the objects in the cluster still say what the groups were called ([`Prior`]).

mod prior;

pub(crate) use prior::Prior;

use crate::graph::{Edge, Graph, NONE, at, set};
use crate::tree::{self, Floor};

/// What the last round placed: the group of every host, its links as last seen, and when it last had a live one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memory {
    /// Identities of switches, ascending.
    pub(crate) switches: Vec<String>,
    /// From the first level upward.
    pub(crate) levels: Vec<Remembered>,
    /// Stands for the answer of that round.
    pub(crate) digest: [u64; 2],
}

/// One level of the last round.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Remembered {
    /// Identities of its groups.
    pub(crate) ids: Vec<String>,
    /// Its children, ascending by key.
    pub(crate) children: Vec<Child>,
    /// The switches that each of them hangs on, as positions in the memory's list.
    pub(crate) known: Graph,
}

/// A child of a level: a host, or a group of the level below.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Child {
    pub(crate) key: String,
    /// Position among the identities, or [`NONE`].
    pub(crate) group: u32,
    /// When it last showed a live link, milliseconds since 1970.
    pub(crate) seen: u64,
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
    /// What the cluster holds, when there is no memory.
    pub(crate) prior: &'a Prior,
    /// By position in the memory's list of switches: the number of the switch in this round.
    pub(crate) switches: Vec<u32>,
    /// The time of this round.
    pub(crate) now: u64,
    /// How long what shows nothing is remembered, milliseconds.
    pub(crate) grace: u64,
}

/// What is known of the children of one level, in their order.
#[derive(Debug, Default)]
pub(crate) struct Recall {
    pub(crate) known: Graph,
    pub(crate) was: Vec<u32>,
    pub(crate) ids: Vec<String>,
    /// When each showed a live link: now, if it does now.
    pub(crate) seen: Vec<u64>,
    /// Children that showed nothing for too long.
    pub(crate) dropped: Vec<u32>,
}

impl Past<'_> {
    /// How many levels there were.
    pub(crate) fn levels(&self) -> u32 {
        self.memory.levels.len() as u32
    }

    /// Whether a child that shows nothing has done so for too long.
    pub(crate) fn is_over(&self, seen: u64) -> bool {
        self.now.saturating_sub(seen) > self.grace
    }

    /// What is known of the children of a level, 1 for hosts. `row_of` says which of them is which Node.
    pub(crate) fn recall(&self, level: u32, keys: &[&str], rows: &[u32], present: &Graph) -> Recall {
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
                Some((_, known)) if is_dark && self.is_over(known.seen) => {
                    recall.dropped.push(child);
                    recall.push(NONE, known.seen, &[]);
                }
                Some((position, known)) => {
                    let edges: Vec<Edge> =
                        memory.known.of(position).iter().filter_map(|edge| self.translated(edge)).collect();
                    recall.push(known.group, if is_dark { known.seen } else { self.now }, &edges);
                }
                None => recall.push(NONE, self.now, &[]),
            }
        }
        recall
    }

    fn translated(&self, edge: &Edge) -> Option<Edge> {
        self.switches.get(edge.parent as usize).map(|&parent| Edge { parent, ..*edge })
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

/// What the next round should know of this one; `hosts` are the keys of the children of the first floor.
pub(crate) fn remember(switches: &[&str], floors: &[Floor], hosts: &[&str]) -> Memory {
    // Only switches that somebody hangs on: the others say nothing.
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
        };
        for (key, child) in order {
            let (group, seen) = (at(&level.group_of, child), at(&floor.seen, child));
            remembered.children.push(Child { key: key.to_owned(), group, seen });
            remembered
                .known
                .push(level.known.of(child).iter().map(|edge| Edge { parent: at(&numbers, edge.parent), ..*edge }));
        }
        memory.levels.push(remembered);
    }
    memory
}
