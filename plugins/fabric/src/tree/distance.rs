//! How far every switch is from the Nodes.
//!
//! Distances are counted from the leaves. A switch is a leaf when
//!
//! * it has a cable to a Node of the cluster, or to a host that is known to be one;
//! * level 1 is declared for it; any declared level is used as it is;
//! * it has cables to hosts, and at least as many as to other switches (*many hosts beside few trunks*). So a leaf without
//!   Nodes is a leaf, and a spine or core with a host of the fabric manager, a service host or a border leaf is not.
//!
//! Counting begins at the leaves with Nodes and at declared switches. A leaf without Nodes has distance 1, but counting
//! continues from it only to switches that the others do not reach. So a switch above Nodes does not come closer because
//! something else is plugged into it.
//!
//! Units may reach the same switches in more or fewer steps: one directly below the cores, others below spines. Then the
//! core is as close as the spines. A switch with more cables to switches of its own distance than downward is moved one
//! step above them, if they have most of their cables downward ([`raised`]).

use super::MAX_LEVEL;
use crate::graph::{Edge, Graph, NONE, at, set};

/// The switches, in the order of their identities.
#[derive(Debug, Default)]
pub(crate) struct Switches<'a> {
    pub(crate) identities: Vec<&'a str>,
    /// By switch: the level that was declared; 0: none.
    pub(crate) declared: Vec<u8>,
    /// By switch: its cables to hosts.
    pub(crate) bears: Vec<Bears>,
    /// Cables between switches, each pair once.
    pub(crate) adjacent: Vec<(u32, u32, u32)>,
}

/// The cables of a switch to hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bears {
    /// Cables to hosts.
    hosts: u32,
    /// Whether one of them is a Node.
    nodes: bool,
}

/// Whether a host is a Node of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostKind {
    Node,
    /// A host that matches no Node, or has no name.
    Other,
}

impl HostKind {
    /// By the row of the host; [`NONE`]: it matches no Node.
    pub(crate) fn of_row(row: u32) -> Self {
        if row == NONE { Self::Other } else { Self::Node }
    }
}

/// The role of a switch in counting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Counting begins here, at this distance.
    Begin(u32),
    /// A leaf without Nodes.
    Aside,
    /// Its distance is counted.
    Between,
}

impl Switches<'_> {
    /// Adds cables of a switch to a host.
    pub(crate) fn bear(&mut self, switch: u32, cables: u32, host: HostKind) {
        if let Some(bears) = self.bears.get_mut(switch as usize) {
            bears.hosts = bears.hosts.saturating_add(cables);
            bears.nodes |= host == HostKind::Node;
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

    /// Whether links to a switch show the unit of a host: only those to a leaf do.
    pub(crate) fn is_leaf(&self, switch: u32, cables: &Graph) -> bool {
        matches!(self.role(switch, cables), Role::Begin(1) | Role::Aside)
    }

    /// The distance of every switch, 1 for leaves; [`NONE`] for switches that no cable reaches.
    pub(crate) fn distances(&self, cables: &Graph) -> Vec<u32> {
        let roles: Vec<Role> = (0..self.identities.len() as u32).map(|switch| self.role(switch, cables)).collect();
        let mut distances = vec![NONE; roles.len()];
        let mut queues = Queues::default();
        for (switch, role) in (0..).zip(&roles) {
            match role {
                Role::Begin(level) => {
                    set(&mut distances, switch, *level);
                    queues.push(*level, switch);
                }
                Role::Aside => set(&mut distances, switch, 1),
                Role::Between => {}
            }
        }
        spread(&mut distances, queues, cables, &roles);
        let mut aside = Queues::default();
        (0..).zip(&roles).filter(|(_, role)| **role == Role::Aside).for_each(|(switch, _)| aside.push(1, switch));
        spread(&mut distances, aside, cables, &roles);
        distances
    }

    fn role(&self, switch: u32, cables: &Graph) -> Role {
        let bears = at(&self.bears, switch);
        match at(&self.declared, switch) {
            0 if bears.nodes => Role::Begin(1),
            0 => {
                let trunks = links(cables.of(switch).iter());
                let is_leaf = bears.hosts > 0 && bears.hosts >= trunks;
                if is_leaf { Role::Aside } else { Role::Between }
            }
            1 if !bears.nodes => Role::Aside,
            level => Role::Begin(u32::from(level)),
        }
    }
}

/// Switches that were reached and whose neighbours were not visited yet, by distance.
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

/// Counts from the reached switches, step by step, to all that have no distance yet.
fn spread(distances: &mut [u32], mut queues: Queues, cables: &Graph, roles: &[Role]) {
    for distance in 1..=MAX_LEVEL {
        let mut queue = queues.take(distance);
        for switch in raised(&queue, distances, cables, roles, distance) {
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

/// The switches of a distance that are above others of the same distance: they have more cables to those than downward. A
/// neighbour counts only if it has at least as many cables downward as to switches of its own distance. So spines that are
/// joined to each other, with any number of cables, keep their distance.
fn raised(queue: &[u32], distances: &[u32], cables: &Graph, roles: &[Role], distance: u32) -> Vec<u32> {
    if distance < 2 {
        return Vec::new();
    }
    let down = |switch: u32| links(cables.of(switch).iter().filter(|edge| at(distances, edge.parent) < distance));
    let beside = |switch: u32| cables.of(switch).iter().filter(|edge| at(distances, edge.parent) == distance);
    let stays = |switch: u32| down(switch) >= links(beside(switch));
    let is_raised = |switch: u32| {
        roles.get(switch as usize) == Some(&Role::Between)
            && links(beside(switch).filter(|edge| stays(edge.parent))) > down(switch)
    };
    queue.iter().copied().filter(|&switch| is_raised(switch)).collect()
}

fn links<'e>(edges: impl Iterator<Item = &'e Edge>) -> u32 {
    edges.map(|edge| edge.weight).fold(0, u32::saturating_add)
}
