//! From placed hosts to the answer: only groups with Nodes, only levels that group something.

use std::collections::HashMap;

use topoloom_sdk::{Coverage, GroupBuilder, GroupRef, Level, LevelRef, Members, Subject, Topology, TopologyBuilder};

use crate::graph::{NONE, at};
use crate::interned::{self, Interned};
use crate::place::Round;
use crate::report;
use crate::tree::{Child, Floor, MAX_LEVEL};

/// The identity of the group over everything.
pub(crate) const ROOT: &str = "root";

/// The group of the answer for each group of the tree.
pub(crate) type Written = HashMap<Child, GroupRef>;

/// Writes groups, then diagnostics.
pub(crate) fn write(round: &Round<'_>) -> Topology {
    let mut topology = TopologyBuilder::new();
    if round.wiring.partial {
        topology.additions_only();
    }
    let mut written = Written::new();
    // Groups of the answer that are in no other group, in the order of writing.
    let mut tops: Vec<GroupRef> = Vec::new();
    for (index, floor) in (0..).zip(&round.floors) {
        if index == 0 {
            write_hosts(round, floor, &mut topology, &mut written, &mut tops);
        } else {
            write_groups(round, index, floor, &mut topology, &mut written, &mut tops);
        }
    }
    let highest = round.floors.len() as u32 + 1;
    if let Some(name) = round.settings.root.as_ref().filter(|_| tops.len() > 1 && highest <= MAX_LEVEL) {
        // A tier name belongs to one tier only.
        let is_free = !round.settings.tier_names.contains(name);
        let level = Level { tier_name: is_free.then(|| name.clone()), ..level(round, highest) };
        let level = topology.level(level);
        topology.group(level, ROOT).groups(tops);
    }
    report::write(round, &written, &mut topology);
    topology.finish()
}

fn level(round: &Round<'_>, tier: u32) -> Level {
    let name = round.settings.tier_names.get(tier as usize - 1).cloned();
    Level { tier, tier_name: name, kind: round.settings.kind.clone() }
}

fn write_hosts(
    round: &Round<'_>,
    floor: &Floor,
    topology: &mut TopologyBuilder,
    written: &mut Written,
    tops: &mut Vec<GroupRef>,
) {
    let mut level_ref: Option<LevelRef> = None;
    for (index, group) in (0..).zip(&floor.level.groups) {
        let mut rows: Vec<u32> =
            group.children.iter().map(|&host| at(&round.hosts.rows, host)).filter(|&row| row != NONE).collect();
        if rows.is_empty() {
            continue;
        }
        rows.sort_unstable();
        let level_ref = *level_ref.get_or_insert_with(|| topology.level(level(round, 1)));
        let group = described(topology.group(level_ref, &group.id), round, floor, group.bundle).rows(rows);
        written.insert(Child { floor: 0, index }, group);
        tops.push(group);
    }
}

/// How many switches a description names.
const NAMED: usize = 4;

/// Describes a group by the names of its switches, for people. Where some of them may be missing in this round, the group
/// gets no description, so the object keeps the one that it has.
fn described<'a>(group: GroupBuilder<'a>, round: &Round<'_>, floor: &Floor, bundle: u32) -> GroupBuilder<'a> {
    if floor.is_thin || !floor.level.doubted.is_empty() {
        return group;
    }
    let switches = floor.level.bundles.switches.get(bundle as usize).map(Vec::as_slice).unwrap_or_default();
    let names =
        switches.iter().map(|&switch| round.names.get(switch as usize).copied().filter(|name| !name.is_empty()));
    let Some(mut names) = names.collect::<Option<Vec<&str>>>().filter(|names| !names.is_empty()) else {
        return group;
    };
    names.sort_unstable();
    names.dedup();
    let rest = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
    group.description(&format!("{}{more}", names.join(", ")))
}

/// Writes the groups of a level above the first. A level in which every group has one child repeats the level below: it is
/// left out, and the levels above refer to the level below.
fn write_groups(
    round: &Round<'_>,
    number: u32,
    floor: &Floor,
    topology: &mut TopologyBuilder,
    written: &mut Written,
    tops: &mut Vec<GroupRef>,
) {
    let members = floor.level.groups.iter().map(|group| {
        let children = group.children.iter().filter_map(|&child| floor.children.get(child as usize));
        children.filter_map(|child| written.get(child).copied()).collect::<Vec<GroupRef>>()
    });
    let members: Vec<Vec<GroupRef>> = members.collect();
    let groups_something = members.iter().any(|members| members.len() > 1);
    let level_ref = groups_something.then(|| topology.level(level(round, number + 1)));
    for ((index, group), mut members) in (0..).zip(&floor.level.groups).zip(members) {
        let Some(&first) = members.first() else { continue };
        let child = Child { floor: number, index };
        match level_ref {
            None => {
                written.insert(child, first);
            }
            Some(level_ref) => {
                members.sort_unstable();
                tops.retain(|top| members.binary_search(top).is_err());
                let group = described(topology.group(level_ref, &group.id), round, floor, group.bundle).groups(members);
                written.insert(child, group);
                tops.push(group);
            }
        }
    }
}

/// A digest of an answer: two answers with the same digest have the same groups and findings of the same Nodes. Rows are
/// numbers of one snapshot, so Nodes enter the digest by name.
pub(crate) fn digest(topology: &Topology, names: &Interned) -> [u64; 2] {
    let mut digest = Digest([0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344]);
    digest.number(u64::from(topology.coverage == Coverage::Complete));
    for level in &topology.levels {
        digest.number(u64::from(level.tier));
        digest.text(level.tier_name.as_deref().unwrap_or_default());
        digest.text(level.kind.as_deref().unwrap_or_default());
    }
    for group in &topology.groups {
        digest.text(&group.id);
        digest.text(group.fixed_name.as_deref().unwrap_or_default());
        digest.text(group.description.as_deref().unwrap_or_default());
        digest.number(u64::from(group.level));
        match &group.members {
            Members::Rows(rows) => digest.rows(rows, names),
            Members::Groups(groups) => groups.iter().for_each(|&group| digest.number(u64::from(group))),
            Members::Names(names) => names.iter().for_each(|name| digest.text(name)),
            Members::Selector(_) => digest.number(0),
        }
    }
    for diagnostic in &topology.diagnostics {
        digest.text(&diagnostic.code);
        digest.text(&diagnostic.detail);
        match &diagnostic.subject {
            Subject::Source => digest.number(1),
            Subject::Rows(rows) => digest.rows(rows, names),
            Subject::Group(group) => digest.number(u64::from(*group)),
            Subject::Name(name) => digest.text(name),
        }
    }
    digest.0
}

struct Digest([u64; 2]);

impl Digest {
    fn number(&mut self, number: u64) {
        let [a, b] = &mut self.0;
        *a = (a.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *b = (b.rotate_left(29) ^ number.rotate_left(32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.number(interned::hash(text));
    }

    /// The same Nodes in any order are the same: the order of rows is that of a snapshot.
    fn rows(&mut self, rows: &[u32], names: &Interned) {
        let sum = rows.iter().fold([0_u64; 2], |[a, b], &row| {
            let mut one = Digest([1, 2]);
            one.text(names.get(row));
            let [c, d] = one.0;
            [a.wrapping_add(c), b.wrapping_add(d)]
        });
        self.number(rows.len() as u64);
        sum.into_iter().for_each(|part| self.number(part));
    }
}
