//! Links that a host lacks beside its neighbours: most hosts of its unit reach a switch and it does not. A fabric manager
//! that lists live ports only does not show dead ones, so this is how a dead HCA is found.

use std::collections::HashMap;

use super::Units;
use crate::place::Round;

/// In units smaller than this no switch counts as usual.
const FEWEST: u32 = 4;

/// The switches of each unit that most of its hosts reach.
pub(super) struct Habits {
    /// By unit: the switch, how many hosts reach it, of how many.
    of: HashMap<u32, Vec<(u32, u32, u32)>>,
}

impl Habits {
    pub(super) fn new(round: &Round<'_>, units: &Units<'_>) -> Self {
        let mut hosts: HashMap<u32, u32> = HashMap::new();
        let mut reached: HashMap<(u32, u32), u32> = HashMap::new();
        for host in 0..round.hosts.hosts.len() as u32 {
            let Some(unit) = units.of_host(host) else { continue };
            let shown = round.present.of(host);
            if shown.is_empty() {
                // It does not show what is usual.
                continue;
            }
            *hosts.entry(unit).or_default() += 1;
            for edge in shown.iter().filter(|edge| units.of_switch(edge.parent) == Some(unit)) {
                *reached.entry((unit, edge.parent)).or_default() += 1;
            }
        }
        let mut of: HashMap<u32, Vec<(u32, u32, u32)>> = HashMap::new();
        for ((unit, switch), reached) in reached {
            let hosts = hosts.get(&unit).copied().unwrap_or_default();
            if hosts >= FEWEST && reached * 4 >= hosts * 3 {
                of.entry(unit).or_default().push((switch, reached, hosts));
            }
        }
        for switches in of.values_mut() {
            switches.sort_unstable();
        }
        Self { of }
    }

    /// The usual switches of a unit that a host lacks: the switch, and how many of how many hosts reach it.
    pub(super) fn lacked_by<'a>(
        &'a self,
        round: &'a Round<'_>,
        unit: u32,
        host: u32,
    ) -> impl Iterator<Item = (u32, u32, u32)> + 'a {
        let usual = self.of.get(&unit).map(Vec::as_slice).unwrap_or_default();
        let shown = round.present.of(host);
        usual.iter().copied().filter(move |(switch, ..)| shown.iter().all(|edge| edge.parent != *switch))
    }
}
