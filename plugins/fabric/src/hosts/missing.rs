//! Which host is which Node while some hosts are no longer listed.
//!
//! A missing host keeps its Node and its name for the grace. A machine with a similar name gets neither, and a host that
//! was ambiguous beside it stays ambiguous. The Node goes over at once to a machine with a live link that is either new
//! (the same machine under another name) or named for the Node by the operator's map or by the Node's own GUIDs.
//!
//! After a restart only Nodes are known, not the names of their hosts. Then any host that matches a Node is accepted, as
//! in the very first round. A Node that no host matches stays in its group, under its own name.

use std::collections::HashSet;

use super::Host;
use crate::graph::{NONE, at};
use crate::guid::Guid;
use crate::matching::{Claimant, Match, NodeIndex, Presence, Rule};
use crate::memory::{Child, Past};
use crate::wiring::Wiring;

/// The hosts that have a name.
pub(super) struct Named<'a> {
    /// Those of the wiring, in its order, then the missing ones.
    pub(super) hosts: Vec<Host>,
    /// Hosts that are missing for longer than the grace. They no longer have a claim on a Node.
    pub(super) over: Vec<&'a Child>,
}

/// Matches all hosts with Nodes, the missing ones included.
pub(super) fn named<'a>(wiring: &Wiring, known: &NodeIndex<'_>, past: &Past<'a>) -> Named<'a> {
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
                // Missing hosts do not change what it matched without them.
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

/// Adds hosts that are missing for too long, so that this round can report them. A Node that another host matches by now
/// is not lost and is not reported.
pub(super) fn add_dropped(known: &NodeIndex<'_>, over: &[&Child], hosts: &mut Vec<Host>, taken: &[u32]) {
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

/// Adds Nodes of the HyperNodes in the cluster that no host matches. Only after a restart: the memory knows more.
pub(super) fn add_applied(
    wiring: &Wiring,
    known: &NodeIndex<'_>,
    past: &Past<'_>,
    hosts: &mut Vec<Host>,
    taken: &[u32],
) {
    if !past.memory.is_empty() {
        return;
    }
    for row in 0..known.rows() {
        let name = known.names.get(row);
        // A name that the operator ignores by now is not missing.
        let is_free = at(taken, row) == NONE && wiring.hosts.find(name).is_none() && !known.is_generic(name);
        if past.prior.home(row).is_some() && is_free {
            hosts.push(Host { key: name.to_owned(), found: Match::Node(row, Rule::Exact), is_listed: false });
        }
    }
}

fn claimant(child: &Child) -> Claimant<'_> {
    Claimant { name: &child.key, presence: Presence::Missing { node: &child.node } }
}

/// The hosts of the wiring, and what they match without regard to the missing ones.
struct Listed<'a> {
    wiring: &'a Wiring,
    known: &'a NodeIndex<'a>,
    claimants: &'a [Claimant<'a>],
    guids: &'a [(u32, Guid)],
    matches: &'a [Match],
}

/// Which missing hosts stay, and which Nodes go over to other machines.
struct Heirs<'a> {
    /// Missing hosts whose Node no other machine claims.
    staying: Vec<&'a Child>,
    /// The Nodes that other machines claim.
    rows: HashSet<u32>,
}

impl Listed<'_> {
    /// Separates hosts that are missing from machines that have another name by now.
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
        // A GUID that several Nodes list claims none of them.
        claimed.extend(strangers.filter_map(|one| self.known.by_guid(&[one.guid]).ok().flatten()));
        if claimed.is_empty() {
            return Heirs { staying: missing, rows: claimed };
        }
        // What they matched before the new hosts appeared.
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
