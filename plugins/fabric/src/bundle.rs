//! Which switches belong together: the rails, planes or pairs of one unit.
//!
//! Two passes. [`similar`] joins switches that share most of their children: it finds units, also where links are dead.
//! [`refine`] lets the children vote for the units found, and adds the switches that the first pass left over: a switch with
//! few live links resembles no other, but its children belong to a unit.
//!
//! Both passes see numbers only, and ascending numbers are ascending identities. So the order of the input does not matter.

mod refine;
mod similar;

use crate::graph::{Graph, Lists, NONE, Sets, at, set};
pub(crate) use refine::{Tally, tally};

/// Switches that belong together, as bundles: a bundle is one place for hosts.
#[derive(Debug, Default)]
pub(crate) struct Bundles {
    /// By switch: its bundle, or [`NONE`] where it has no child.
    pub(crate) of: Vec<u32>,
    /// The switches of each bundle, in ascending order. Bundles are in the order of their smallest switch.
    pub(crate) switches: Vec<Vec<u32>>,
    /// By switch: how many children it has.
    pub(crate) sizes: Vec<u32>,
}

/// Bundles the parents of a graph. Parents are numbers below `switches`.
pub(crate) fn bundle(graph: &Graph, switches: u32, similarity: f64) -> Bundles {
    // Only some of all switches are parents here: they get numbers of their own, in the same order.
    let mut local = vec![NONE; switches as usize];
    graph.edges().iter().for_each(|edge| set(&mut local, edge.parent, 0));
    let parents: Vec<u32> = (0..switches).filter(|&parent| at(&local, parent) == 0).collect();
    (0..).zip(&parents).for_each(|(number, &parent)| set(&mut local, parent, number));

    let count = parents.len();
    let children = Lists::collect(count, graph.iter().map(|(child, edge)| (at(&local, edge.parent), child)));
    let mut sets = Sets::new(count as u32);
    similar::join(&children, graph, &local, similarity, &mut sets);
    let mut bundles = Bundles { sizes: vec![0; switches as usize], ..Bundles::default() };
    for (number, &parent) in (0..).zip(&parents) {
        set(&mut bundles.sizes, parent, children.of(number).len() as u32);
    }
    bundles.number(&parents, &mut sets, switches);
    refine::refine(graph, &mut bundles, similarity);
    bundles
}

impl Bundles {
    /// Numbers the sets of these switches anew.
    fn number(&mut self, parents: &[u32], sets: &mut Sets, switches: u32) {
        self.of = vec![NONE; switches as usize];
        self.switches.clear();
        let mut numbers = vec![NONE; parents.len()];
        for (local, &parent) in (0..).zip(parents) {
            let first = sets.find(local);
            if first == local {
                set(&mut numbers, local, self.switches.len() as u32);
                self.switches.push(Vec::new());
            }
            let number = at(&numbers, first);
            set(&mut self.of, parent, number);
            if let Some(list) = self.switches.get_mut(number as usize) {
                list.push(parent);
            }
        }
    }

    /// Joins bundles as the sets of their numbers say.
    fn join(&mut self, sets: &mut Sets) {
        let before = std::mem::take(&mut self.switches);
        let mut numbers = vec![NONE; before.len()];
        for (old, mut list) in (0..).zip(before) {
            let first = sets.find(old);
            if first == old {
                set(&mut numbers, old, self.switches.len() as u32);
                self.switches.push(Vec::new());
            }
            let number = at(&numbers, first);
            list.iter().for_each(|&switch| set(&mut self.of, switch, number));
            if let Some(joined) = self.switches.get_mut(number as usize) {
                joined.append(&mut list);
            }
        }
        self.switches.iter_mut().for_each(|list| list.sort_unstable());
    }
}
