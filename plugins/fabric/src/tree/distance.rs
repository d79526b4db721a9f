//! How far every switch is from the Nodes.
//!
//! Counted is from the leaves. A switch is one when
//!
//! * a Node of the cluster hangs on it, or a host that is known to be one;
//! * level 1 was declared for it; any declared level counts as it is;
//! * it has cables to hosts, and at least as many as to other switches (*many hosts beside few trunks*). So a leaf without
//!   Nodes is a leaf, and a spine or core with a host of the fabric manager, a service host or a border leaf on it is none.
//!
//! First from the leaves with Nodes and from what was declared above; a leaf without Nodes is 1 itself, and is counted from
//! only where the others do not lead. So no switch that stands above Nodes comes nearer because something else is plugged
//! into it.
//!
//! Units may reach the same switches over more steps or fewer: one directly below the cores, others below spines. Then the
//! core is as near as the spines. A switch with more cables to such neighbours than downward stands one step above them, if
//! they themselves have most of their cables downward ([`raised`]).

use super::MAX_LEVEL;
use crate::graph::{Edge, Graph, NONE, at, set};

/// The switches, in the order of their identities.
#[derive(Debug, Default)]
pub(crate) struct Switches<'a> {
    pub(crate) identities: Vec<&'a str>,
    /// By switch: the level that was declared; 0: none.
    pub(crate) declared: Vec<u8>,
    /// By switch: what hangs on it.
    pub(crate) bears: Vec<Bears>,
    /// Cables between switches, each pair once.
    pub(crate) adjacent: Vec<(u32, u32, u32)>,
}

/// What hangs on a switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bears {
    /// Cables to hosts.
    hosts: u32,
    /// Whether one of them is a Node.
    nodes: bool,
}

/// What a switch is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// It is where counting begins.
    Begin(u32),
    /// A leaf without Nodes.
    Aside,
    /// It is counted to.
    Between,
}

impl Switches<'_> {
    /// Cables to a host hang on a switch.
    pub(crate) fn bear(&mut self, switch: u32, cables: u32, is_node: bool) {
        if let Some(bears) = self.bears.get_mut(switch as usize) {
            bears.hosts = bears.hosts.saturating_add(cables);
            bears.nodes |= is_node;
        }
    }

    /// By switch: the cables to other switches.
    pub(crate) fn cables(&self) -> Graph {
        let mut rows: Vec<Vec<Edge>> = vec![Vec::new(); self.identities.len()];
        for &(a, b, weight) in &self.adjacent {
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

    /// Whether hosts on a switch say where they belong: on a switch that is no leaf they do not.
    pub(crate) fn is_leaf(&self, switch: u32, cables: &Graph) -> bool {
        matches!(self.part(switch, cables), Part::Begin(1) | Part::Aside)
    }

    /// The distance of every switch, 1 for leaves; [`NONE`] for what cables do not reach.
    pub(crate) fn distances(&self, cables: &Graph) -> Vec<u32> {
        let parts: Vec<Part> = (0..self.identities.len() as u32).map(|switch| self.part(switch, cables)).collect();
        let mut distances = vec![NONE; parts.len()];
        let mut queues = Queues::default();
        for (switch, part) in (0..).zip(&parts) {
            match part {
                Part::Begin(level) => {
                    set(&mut distances, switch, *level);
                    queues.push(*level, switch);
                }
                Part::Aside => set(&mut distances, switch, 1),
                Part::Between => {}
            }
        }
        spread(&mut distances, queues, cables, &parts);
        let mut aside = Queues::default();
        (0..).zip(&parts).filter(|(_, part)| **part == Part::Aside).for_each(|(switch, _)| aside.push(1, switch));
        spread(&mut distances, aside, cables, &parts);
        distances
    }

    fn part(&self, switch: u32, cables: &Graph) -> Part {
        let bears = at(&self.bears, switch);
        match at(&self.declared, switch) {
            0 if bears.nodes => Part::Begin(1),
            0 => {
                let trunks = links(cables.of(switch).iter());
                let is_leaf = bears.hosts > 0 && bears.hosts >= trunks;
                if is_leaf { Part::Aside } else { Part::Between }
            }
            1 if !bears.nodes => Part::Aside,
            level => Part::Begin(u32::from(level)),
        }
    }
}

/// Switches that were reached and not left yet, by distance.
#[derive(Debug, Default)]
struct Queues(Vec<Vec<u32>>);

impl Queues {
    fn push(&mut self, distance: u32, switch: u32) {
        let distance = distance as usize;
        if self.0.len() <= distance {
            self.0.resize_with(distance + 1, Vec::new);
        }
        if let Some(queue) = self.0.get_mut(distance) {
            queue.push(switch);
        }
    }

    fn take(&mut self, distance: u32) -> Vec<u32> {
        self.0.get_mut(distance as usize).map(std::mem::take).unwrap_or_default()
    }
}

/// Counts on from what was reached, step by step, to whatever has no distance yet.
fn spread(distances: &mut [u32], mut queues: Queues, cables: &Graph, parts: &[Part]) {
    for distance in 1..=MAX_LEVEL {
        let mut queue = queues.take(distance);
        for switch in raised(&queue, distances, cables, parts, distance) {
            set(distances, switch, distance + 1);
            queues.push(distance + 1, switch);
        }
        queue.retain(|&switch| at(distances, switch) == distance);
        for edge in queue.iter().flat_map(|&switch| cables.of(switch)) {
            if at(distances, edge.parent) == NONE {
                set(distances, edge.parent, distance + 1);
                queues.push(distance + 1, edge.parent);
            }
        }
    }
}

/// The switches of a distance that stand above others of it: they have more cables to those than downward. Only neighbours
/// count that have at least as many cables downward as to their like, so spines that are joined to each other, however
/// often, stay where they are.
fn raised(queue: &[u32], distances: &[u32], cables: &Graph, parts: &[Part], distance: u32) -> Vec<u32> {
    if distance < 2 {
        return Vec::new();
    }
    let down = |switch: u32| links(cables.of(switch).iter().filter(|edge| at(distances, edge.parent) < distance));
    let beside = |switch: u32| cables.of(switch).iter().filter(|edge| at(distances, edge.parent) == distance);
    let stays = |switch: u32| down(switch) >= links(beside(switch));
    let is_raised = |switch: u32| {
        parts.get(switch as usize) == Some(&Part::Between)
            && links(beside(switch).filter(|edge| stays(edge.parent))) > down(switch)
    };
    queue.iter().copied().filter(|&switch| is_raised(switch)).collect()
}

fn links<'e>(edges: impl Iterator<Item = &'e Edge>) -> u32 {
    edges.map(|edge| edge.weight).fold(0, u32::saturating_add)
}
