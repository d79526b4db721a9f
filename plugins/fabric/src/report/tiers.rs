//! Reports about groups that are kept because of earlier rounds.

use topoloom_sdk::{Subject, TopologyBuilder};

use super::hosts::SHOWN;
use super::{Reports, host_name, list, plural};
use crate::answer::Written;
use crate::graph::at;
use crate::level::Standing;
use crate::place::Round;
use crate::tree::{self, Child, Floor};

/// Earlier tiers to which no cable leads any more (`lost-tier`).
pub(super) fn lost(round: &Round<'_>, written: &Written, topology: &mut TopologyBuilder) {
    for (number, floor) in (0..).zip(&round.floors).filter(|(_, floor)| floor.is_lost) {
        let mut groups = Vec::new();
        by_group(round, (number, floor), written, |_| true, |group, _| groups.push(group.to_owned()));
        if groups.is_empty() {
            continue;
        }
        let tier = number + 1;
        let count = plural(groups.len() as u64, "group");
        let detail = format!(
            "no cable leads to tier {tier} any more; {count} kept unchanged: {}. Perhaps something new is plugged into the \
             switches of this tier and makes them look closer to the hosts: then set their level with `levels`. If the \
             tier is gone for good, set `maxTier: {}`",
            list(&groups, SHOWN),
            tier - 1,
        );
        topology.diagnose("lost-tier", Subject::Source, super::cut(detail));
    }
}

/// Groups that stay in their group although none of their links leads to a switch above (`kept-uplinks`).
pub(super) fn uplinks(round: &Round<'_>, written: &Written, topology: &mut TopologyBuilder) {
    let mut reports = Reports::new("kept-uplinks");
    for (number, floor) in (0..).zip(&round.floors).skip(1).filter(|(_, floor)| !floor.is_lost) {
        let is_kept = |child: u32| floor.level.standing.get(child as usize) == Some(&Standing::Dark);
        by_group(round, (number, floor), written, is_kept, |group, names| {
            let groups = plural(names.len() as u64, "group");
            let detail = || {
                format!("{groups} without a link to a switch above; kept in group {group:?}: {}", list(names, SHOWN))
            };
            reports.add(Subject::Name(group.to_owned()), detail, topology);
        });
    }
    reports.finish(topology);
}

/// Hosts and groups that stay in their group although their links do not lead there (`kept-while-split`).
pub(super) fn split(round: &Round<'_>, written: &Written, topology: &mut TopologyBuilder) {
    let mut reports = Reports::new("kept-while-split");
    for (number, floor) in (0..).zip(&round.floors) {
        let is_kept = |child: u32| floor.level.doubted.binary_search(&child).is_ok();
        by_group(round, (number, floor), written, is_kept, |group, names| {
            let those = plural(names.len() as u64, if number == 0 { "host" } else { "group" });
            let detail = || {
                format!(
                    "links place {those} outside of group {group:?}, but some links are missing since the restart; \
                     kept in it for at most {} s: {}",
                    round.settings.down_grace.as_secs(),
                    list(names, SHOWN)
                )
            };
            reports.add(Subject::Name(group.to_owned()), detail, topology);
        });
    }
    reports.finish(topology);
}

/// Calls `each` for every group of a level with kept children: with its identity and their names. Only groups and Nodes
/// of the answer count.
fn by_group(
    round: &Round<'_>,
    (number, floor): (u32, &Floor),
    written: &Written,
    is_kept: impl Fn(u32) -> bool,
    mut each: impl FnMut(&str, &[&str]),
) {
    for (index, group) in (0..).zip(&floor.level.groups) {
        let Some(own) = written.get(&Child { floor: number, index }) else { continue };
        let name = |&child: &u32| match floor.children.get(child as usize) {
            Some(group) if number > 0 => {
                // A level that is left out has the groups of the level below.
                let is_below = written.get(group).is_some_and(|below| below != own);
                is_below.then(|| tree::id_of(&round.floors, *group))
            }
            _ => (at(&round.hosts.rows, child) != crate::graph::NONE).then(|| host_name(round, child)),
        };
        let names: Vec<&str> = group.children.iter().filter(|&&child| is_kept(child)).filter_map(name).collect();
        if !names.is_empty() {
            each(&group.id, &names);
        }
    }
}
