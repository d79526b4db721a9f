//! Who is which Node while some hosts are not listed any more.
//!
//! A host that is missing keeps its Node and its name for the grace: a machine whose name is only like it gets neither,
//! and where two could have been the Node, the one that is left is it no more than before. Its Node leaves it at once for
//! a machine that shows a live link and that is either new, so the same machine under another name, or the one that the
//! operator's map or the Node's own GUIDs name.
//!
//! After a restart only Nodes are known, not what their hosts were called: then a host that leads to a Node is believed,
//! as in the first round of all. A Node that none leads to stays where it was, under its own name.

use std::collections::HashSet;

use super::Host;
use crate::graph::{NONE, at};
use crate::guid::Guid;
use crate::matching::{Claimant, Known, Match, Presence, Rule};
use crate::memory::{Child, Past};
use crate::wiring::Wiring;

/// The hosts that have a name.
pub(super) struct Named<'a> {
    /// Those of the wiring, in its order, then those that are missing.
    pub(super) hosts: Vec<Host>,
    /// Those that are missing for too long. They have no claim any more.
    pub(super) over: Vec<&'a Child>,
}

/// Says who all hosts are, the missing ones included.
pub(super) fn named<'a>(wiring: &Wiring, known: &Known<'_>, past: &Past<'a>) -> Named<'a> {
    let mut guids = wiring.guids.clone();
    guids.sort_unstable();
    guids.dedup();
    let mut claimants: Vec<Claimant<'_>> =
        wiring.hosts.iter().map(|name| Claimant { name, presence: Presence::Listed }).collect();
    let mut matches = known.matches(&claimants, &guids);
    let remembered = past.memory.levels.first().map_or(&[][..], |first| first.children.as_slice());
    let missing = remembered.iter().filter(|child| wiring.hosts.find(&child.key).is_none());
    let (over, missing): (Vec<&Child>, Vec<&Child>) = missing.partition(|child| past.is_over(child.seen));
    if !missing.is_empty() {
        let round = Listed { wiring, known, claimants: &claimants, guids: &guids, matches: &matches };
        let heirs = round.heirs(remembered, missing);
        claimants.extend(heirs.staying.iter().copied().map(claimant));
        let alone = std::mem::replace(&mut matches, known.matches(&claimants, &guids));
        let alone = alone.into_iter().map(Some).chain(std::iter::repeat(None));
        for (found, alone) in matches.iter_mut().zip(alone) {
            match alone {
                // What the others are says nothing about it.
                Some(alone) if heirs.rows.contains(&alone.row()) => *found = alone,
                _ if heirs.rows.contains(&found.row()) => *found = Match::Duplicate(found.row()),
                _ => {}
            }
        }
    }
    let hosts = claimants.iter().zip(matches).map(|(claimant, found)| Host {
        key: claimant.name.to_owned(),
        found,
        is_listed: claimant.presence == Presence::Listed,
    });
    Named { hosts: hosts.collect(), over }
}

/// Hosts that are missing for too long, for the round that says so. Whose Node somebody else is by now has not lost it.
pub(super) fn add_dropped(known: &Known<'_>, over: &[&Child], hosts: &mut Vec<Host>, taken: &[u32]) {
    if over.is_empty() {
        return;
    }
    let claimants: Vec<Claimant<'_>> = over.iter().copied().map(claimant).collect();
    let matches = known.matches(&claimants, &[]);
    let keys: HashSet<String> = hosts.iter().map(|host| host.key.clone()).collect();
    for (claimant, found) in claimants.iter().zip(matches) {
        let is_elsewhere = match found {
            Match::Node(row, _) => at(taken, row) != NONE,
            Match::Duplicate(_) => true,
            _ => false,
        };
        if !is_elsewhere && !keys.contains(claimant.name) {
            hosts.push(Host { key: claimant.name.to_owned(), found, is_listed: false });
        }
    }
}

/// Nodes out of the objects in the cluster that no host leads to, where nothing else is known.
pub(super) fn add_applied(wiring: &Wiring, known: &Known<'_>, past: &Past<'_>, hosts: &mut Vec<Host>, taken: &[u32]) {
    if !past.memory.is_empty() {
        return;
    }
    for row in 0..known.rows() {
        let name = known.names.get(row);
        // A name that the operator took out since is not missing.
        let is_free = at(taken, row) == NONE && wiring.hosts.find(name).is_none() && !known.is_nobody(name);
        if past.prior.home(row).is_some() && is_free {
            hosts.push(Host { key: name.to_owned(), found: Match::Node(row, Rule::Exact), is_listed: false });
        }
    }
}

fn claimant(child: &Child) -> Claimant<'_> {
    Claimant { name: &child.key, presence: Presence::Missing { node: &child.node } }
}

/// The hosts of the wiring, and who they are as far as it goes without those that are missing.
struct Listed<'a> {
    wiring: &'a Wiring,
    known: &'a Known<'a>,
    claimants: &'a [Claimant<'a>],
    guids: &'a [(u32, Guid)],
    matches: &'a [Match],
}

/// What becomes of missing hosts.
struct Heirs<'a> {
    /// Those that are nobody else by now.
    staying: Vec<&'a Child>,
    /// The Nodes of the others.
    rows: HashSet<u32>,
}

impl Listed<'_> {
    /// Tells missing hosts from machines that go by another name now.
    fn heirs<'a>(&self, remembered: &'a [Child], missing: Vec<&'a Child>) -> Heirs<'a> {
        let is_new = |name: &str| remembered.binary_search_by(|child| child.key.as_str().cmp(name)).is_err();
        let mut is_live = vec![false; self.claimants.len()];
        for cable in self.wiring.cables.iter().filter(|cable| self.known.settings.counts(cable.state)) {
            crate::graph::set(&mut is_live, cable.host, true);
        }
        let mut claimed: HashSet<u32> = HashSet::new();
        for ((claimant, found), is_live) in self.claimants.iter().zip(self.matches).zip(is_live) {
            if let Match::Node(row, rule) = found
                && is_live
                && (*rule <= Rule::Guid || is_new(claimant.name))
            {
                claimed.insert(*row);
            }
        }
        let strangers = self.wiring.strangers.iter().filter(|one| self.known.settings.counts(one.cable.state));
        claimed.extend(strangers.filter_map(|one| self.known.by_guid(&[one.guid]).ok().flatten()));
        if claimed.is_empty() {
            return Heirs { staying: missing, rows: claimed };
        }
        // Who they were when the new ones were not there yet.
        let mut before: Vec<Claimant<'_>> = missing.iter().copied().map(claimant).collect();
        let mut guids = Vec::new();
        for (number, claimant) in (0..).zip(self.claimants).filter(|(_, claimant)| !is_new(claimant.name)) {
            let first = self.guids.partition_point(|(known, _)| *known < number);
            let own = self.guids.iter().skip(first).take_while(|(known, _)| *known == number);
            guids.extend(own.map(|(_, guid)| (before.len() as u32, *guid)));
            before.push(*claimant);
        }
        let matches = self.known.matches(&before, &guids);
        let mut heirs = Heirs { staying: Vec::with_capacity(missing.len()), rows: HashSet::new() };
        for (child, found) in missing.into_iter().zip(matches) {
            match found {
                Match::Node(row, _) if claimed.contains(&row) => {
                    heirs.rows.insert(row);
                }
                _ => heirs.staying.push(child),
            }
        }
        heirs
    }
}
