//! Reports about cables.

use topoloom_sdk::{Subject, TopologyBuilder};

use super::absent::Habits;
use super::{Reports, Units, host_name, list, plural, switch_name};
use crate::graph::{Lists, NONE, at, counted};
use crate::hosts::Port;
use crate::level::Standing;
use crate::place::Round;
use crate::wiring::LinkState;

/// How many cables a sentence names.
const SHOWN: usize = 8;

/// Hosts with a cable into a unit that is not theirs (`miscabled-host`), and hosts whose unit only their neighbours or the
/// smaller switch decided (`tied-host`).
pub(super) fn miscabled(round: &Round<'_>, units: &Units<'_>, topology: &mut TopologyBuilder) {
    let Some(floor) = round.floors.first() else { return };
    let mut reports = Reports::new("miscabled-host");
    let mut ties: Vec<u32> = Vec::new();
    for host in 0..round.hosts.hosts.len() as u32 {
        let Some(home) = units.of_host(host) else { continue };
        let shown = round.present.of(host);
        let is_odd = |switch: u32| units.of_switch(switch).is_some_and(|group| group != home);
        if shown.iter().any(|edge| is_odd(edge.parent)) {
            reports.host(round, host, || miscabled_host(round, units, host, home), topology);
        } else if !shown.is_empty() && floor.level.tally.is_tied(host) {
            ties.push(host);
        }
    }
    reports.finish(topology);
    let mut reports = Reports::new("tied-host");
    for host in ties {
        let sentence = || {
            let id = units.id(units.of_host(host).unwrap_or(NONE));
            let votes: Vec<String> = floor
                .level
                .tally
                .of(host)
                .iter()
                .map(|vote| {
                    let switches = floor.level.bundles.switches.get(vote.bundle as usize);
                    let first =
                        switches.and_then(|switches| switches.first()).map_or("", |&switch| switch_name(round, switch));
                    format!("{} to {first:?}", vote.links)
                })
                .collect();
            format!(
                "host {:?} is in group {id:?}, with as many links elsewhere: {}",
                host_name(round, host),
                list(&votes, SHOWN)
            )
        };
        reports.host(round, host, sentence, topology);
    }
    reports.finish(topology);
}

fn miscabled_host(round: &Round<'_>, units: &Units<'_>, host: u32, home: u32) -> String {
    let shown = round.present.of(host);
    let links = |is_mine: &dyn Fn(u32) -> bool| -> u64 {
        shown.iter().filter(|edge| is_mine(edge.parent)).map(|edge| u64::from(edge.weight)).sum()
    };
    let own = links(&|switch| units.of_switch(switch) == Some(home));
    let all = links(&|_| true);
    let odd: Vec<String> = round
        .hosts
        .ports_of(host)
        .iter()
        .filter(|port| shown.iter().any(|edge| edge.parent == port.switch))
        .filter_map(|port| {
            let group = units.of_switch(port.switch).filter(|&group| group != home)?;
            Some(format!("{} of group {:?}", cable(round, port), units.id(group)))
        })
        .collect();
    format!(
        "host {:?} is in group {:?} with {own} of {}, but also cabled to {}",
        host_name(round, host),
        units.id(home),
        plural(all, "link"),
        list(&odd, SHOWN)
    )
}

/// A cable in words: the switch, its port, and the port of the host.
fn cable(round: &Round<'_>, port: &Port<'_>) -> String {
    let mut text = format!("switch {:?}", switch_name(round, port.switch));
    if !port.switch_port.is_empty() {
        text += &format!(" port {}", port.switch_port);
    }
    if !port.name.is_empty() {
        text += &format!(" (host port {})", port.name);
    }
    text
}

/// Switches whose hosts are in several units (`shared-leaf`). For a unit's own switch with a few wrong cables only the
/// hosts are reported.
pub(super) fn shared(round: &Round<'_>, units: &Units<'_>, topology: &mut TopologyBuilder) {
    let count = round.switches.identities.len();
    let pairs = round.present.iter().map(|(host, edge)| (edge.parent, host));
    let hosts_of = Lists::collect(count, pairs);
    let mut reports = Reports::new("shared-leaf");
    for switch in 0..count as u32 {
        let homes = hosts_of.of(switch).iter().filter_map(|&host| units.of_host(host));
        let mut groups: Vec<(u32, u32)> =
            counted(homes.map(|home| (0, home)).collect()).map(|((_, home), hosts)| (hosts, home)).collect();
        if groups.len() < 2 {
            continue;
        }
        groups.sort_unstable_by_key(|&(hosts, home)| (std::cmp::Reverse(hosts), home));
        let total: u32 = groups.iter().map(|(hosts, _)| hosts).sum();
        let others = total - groups.first().map_or(0, |(hosts, _)| *hosts);
        let is_strays = others < 2 || others * 4 < total;
        if units.of_switch(switch).is_some() && is_strays {
            continue;
        }
        let sentence = || {
            let shares: Vec<String> =
                groups.iter().map(|&(hosts, home)| format!("{hosts} in {:?}", units.id(home))).collect();
            format!(
                "switch {:?} serves several groups; its {}: {}",
                switch_name(round, switch),
                plural(u64::from(total), "host"),
                list(&shares, SHOWN)
            )
        };
        reports.add(Subject::Name(switch_name(round, switch).to_owned()), sentence, topology);
    }
    reports.finish(topology);
}

/// Hosts with links that are down, or that lack links which their neighbours have, or without any live link and without a
/// remembered group (`dead-links`).
pub(super) fn dead(round: &Round<'_>, units: &Units<'_>, topology: &mut TopologyBuilder) {
    let Some(floor) = round.floors.first() else { return };
    let mut reports = Reports::new("dead-links");
    let habits = Habits::new(round, units);
    for host in 0..round.hosts.hosts.len() as u32 {
        let ports = round.hosts.ports_of(host);
        let is_kept =
            floor.level.standing.get(host as usize) == Some(&Standing::Dark) && at(&floor.level.group_of, host) != NONE;
        if is_kept {
            continue;
        }
        let down: Vec<&Port<'_>> = ports.iter().filter(|port| port.state == LinkState::Down).collect();
        // Remembered, but no longer listed.
        let missing: Vec<(u32, u32)> = floor
            .level
            .known
            .of(host)
            .iter()
            .filter(|edge| ports.iter().all(|port| port.switch != edge.parent))
            .map(|edge| (edge.parent, edge.weight))
            .collect();
        // A host without any live link is reported as such, not once per switch. A cable that ends in another unit is the one
        // that its own unit lacks, and is reported as miscabled.
        let shown = round.present.of(host);
        let home = units.of_host(host).filter(|&home| {
            let is_odd = |switch: u32| units.of_switch(switch).is_some_and(|group| group != home);
            !shown.is_empty() && !shown.iter().any(|edge| is_odd(edge.parent))
        });
        let lacked: Vec<(u32, u32, u32)> = home
            .into_iter()
            .flat_map(|home| habits.lacked_by(round, home, host))
            .filter(|(switch, ..)| down.iter().all(|port| port.switch != *switch))
            .filter(|(switch, ..)| missing.iter().all(|(known, _)| known != switch))
            .collect();
        if down.is_empty() && missing.is_empty() && lacked.is_empty() {
            continue;
        }
        let sentence = || {
            let gone: u64 = missing.iter().map(|(_, weight)| u64::from(*weight)).sum::<u64>() + lacked.len() as u64;
            let dead = gone + down.iter().map(|port| u64::from(port.count)).sum::<u64>();
            let all = gone + ports.iter().map(|port| u64::from(port.count)).sum::<u64>();
            let mut cables: Vec<String> = down.iter().map(|port| cable(round, port)).collect();
            cables.extend(
                missing
                    .iter()
                    .map(|&(switch, _)| format!("switch {:?} (no longer listed)", switch_name(round, switch))),
            );
            cables.extend(lacked.iter().map(|&(switch, reached, hosts)| {
                format!("switch {:?} (reached by {reached} of {hosts} hosts of its group)", switch_name(round, switch))
            }));
            format!(
                "host {:?}: {dead} of {} down: {}",
                host_name(round, host),
                plural(all, "link"),
                list(&cables, SHOWN)
            )
        };
        reports.host(round, host, sentence, topology);
    }
    reports.finish(topology);
}
