//! Reports about hosts and their names.

use topoloom_sdk::{Subject, TopologyBuilder};

use super::{Reports, cut, host_name, list, plural};
use crate::answer::Written;
use crate::graph::{NONE, at};
use crate::level::Standing;
use crate::matching::Match;
use crate::place::Round;
use crate::tree::Child;

/// How many hosts a sentence names.
pub(super) const SHOWN: usize = 20;

/// Nodes that stay in their group although their hosts show no live link (`kept-while-down`), by group.
pub(super) fn kept(round: &Round<'_>, written: &Written, topology: &mut TopologyBuilder) {
    let Some(floor) = round.floors.first() else { return };
    let mut reports = Reports::new("kept-while-down");
    for (index, group) in (0..).zip(&floor.level.groups) {
        let is_kept = |host: &&u32| {
            floor.level.standing.get(**host as usize) == Some(&Standing::Dark) && at(&round.hosts.rows, **host) != NONE
        };
        let hosts: Vec<u32> = group.children.iter().filter(is_kept).copied().collect();
        if hosts.is_empty() || !written.contains_key(&Child { floor: 0, index }) {
            continue;
        }
        let mut rows: Vec<u32> = hosts.iter().map(|&host| at(&round.hosts.rows, host)).collect();
        rows.sort_unstable();
        reports.add(
            Subject::Rows(rows),
            || sentence(round, &hosts, &format!("no live link; kept in group {:?}", group.id)),
            topology,
        );
    }
    reports.finish(topology);
}

/// Nodes that left their group because their hosts showed no live link for too long (`dropped-while-down`).
pub(super) fn dropped(round: &Round<'_>, topology: &mut TopologyBuilder) {
    let is_node = |host: &&u32| at(&round.hosts.rows, **host) != NONE;
    let hosts: Vec<u32> = round.dropped.iter().filter(is_node).copied().collect();
    if hosts.is_empty() {
        return;
    }
    let mut rows: Vec<u32> = hosts.iter().map(|&host| at(&round.hosts.rows, host)).collect();
    rows.sort_unstable();
    let grace = format!("no live link for more than {} s; no longer placed", round.settings.down_grace.as_secs());
    topology.diagnose("dropped-while-down", Subject::Rows(rows), cut(sentence(round, &hosts, &grace)));
}

fn sentence(round: &Round<'_>, hosts: &[u32], what: &str) -> String {
    let names: Vec<&str> = hosts.iter().map(|&host| host_name(round, host)).collect();
    format!("{} with {what}: {}", plural(hosts.len() as u64, "host"), list(&names, SHOWN))
}

/// Hosts that are members of no group: `unmatched-host`, `ambiguous-host`, `duplicate-host`, `unnamed-host`.
pub(super) fn unmatched(round: &Round<'_>, topology: &mut TopologyBuilder) {
    let mut unmatched = Reports::new("unmatched-host");
    let mut ambiguous = Reports::new("ambiguous-host");
    let mut duplicate = Reports::new("duplicate-host");
    let mut owners =
        vec![NONE; round.hosts.rows.iter().filter(|&&row| row != NONE).max().map_or(0, |&row| row as usize + 1)];
    (0..).zip(&round.hosts.rows).for_each(|(host, &row)| crate::graph::set(&mut owners, row, host));
    for host in round.hosts.hosts.iter().filter(|host| host.is_listed) {
        let name = || Subject::Name(host.key.clone());
        match host.found {
            Match::Node(..) => {}
            Match::Unmatched => unmatched.add(name(), || format!("no Node matches host {:?}", host.key), topology),
            Match::Ambiguous(reason) => {
                ambiguous.add(name(), || format!("host {:?} could be several Nodes: {reason}", host.key), topology);
            }
            Match::Duplicate(row) => {
                let owner = host_name(round, at(&owners, row));
                let detail = || format!("host {:?} is ignored: host {owner:?} matches this Node better", host.key);
                duplicate.add(Subject::Rows(vec![row]), detail, topology);
            }
        }
    }
    unmatched.finish(topology);
    ambiguous.finish(topology);
    duplicate.finish(topology);
    if let Some((first, count)) = round.hosts.strangers {
        let ports = plural(count as u64, "port");
        topology.diagnose(
            "unnamed-host",
            Subject::Source,
            format!("{ports} of machines without a name whose GUID no Node lists, for instance {first}"),
        );
    }
}
