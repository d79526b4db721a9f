//! Which host is which Node: rules in order, the first that gives exactly one Node wins.
//!
//! A host without a Node still shapes the groups, but it is a member of none: members of an answer are rows, not names.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::graph::{NONE, at};
use crate::guid::Guid;
use crate::interned::Interned;
use crate::naming::HostNames;
use crate::settings::Settings;
use topoloom_sdk::nodes::{Nodes, Row};

/// How a host found its Node, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    Map,
    Guid,
    Exact,
    Case,
    Label,
    Rewrite,
}

/// The Node that a host matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Match {
    Node(Row, Rule),
    /// It matches several.
    Ambiguous(&'static str),
    Unmatched,
    /// Another host matches this Node better.
    Duplicate(Row),
}

impl Match {
    pub(crate) fn row(&self) -> u32 {
        if let Self::Node(row, _) = self { *row } else { NONE }
    }
}

/// A host that may match a Node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimant<'a> {
    pub(crate) name: &'a str,
    pub(crate) presence: Presence<'a>,
}

/// Whether the fabric lists a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence<'a> {
    Listed,
    /// No longer. `node` is the Node that its GUIDs led to when they were listed, where its name does not; else empty.
    Missing {
        node: &'a str,
    },
}

/// The Nodes of the cluster, indexed by every name and GUID that a host may have.
#[derive(Debug)]
pub(crate) struct NodeIndex<'a> {
    pub(crate) settings: &'a Settings,
    /// The operator's `hostMap`. Never iterated: its order is not stable.
    map: HashMap<&'a str, &'a str>,
    /// Numbers are rows.
    pub(crate) names: Interned,
    /// First labels, lower case, and the row of each; [`NONE`] where several Nodes share it.
    labels: Interned,
    label_rows: Vec<u32>,
    /// Ascending. A GUID that several Nodes list occurs several times.
    guids: Vec<(Guid, Row)>,
}

impl<'a> NodeIndex<'a> {
    pub(crate) fn new(nodes: &Nodes<'_>, settings: &'a Settings) -> Self {
        let mut known = Self {
            settings,
            map: settings.host_map.iter().map(|(host, node)| (host.as_str(), node.as_str())).collect(),
            names: Interned::default(),
            labels: Interned::default(),
            label_rows: Vec::new(),
            guids: Vec::new(),
        };
        for (row, name) in (0..).zip(nodes.names().iter()) {
            known.names.intern(name);
            let label = known.labels.intern(&first_label(name));
            match known.label_rows.get_mut(label as usize) {
                Some(shared) => *shared = NONE,
                None => known.label_rows.push(row),
            }
        }
        if let Some(key) = &settings.guid_annotation {
            let column = nodes.annotation(key);
            let listed = (0..)
                .zip(column.values())
                .flat_map(|(row, value)| Guid::list(value.unwrap_or_default()).map(move |guid| (guid, row)));
            known.guids = listed.collect();
            known.guids.sort_unstable();
            known.guids.dedup();
        }
        known
    }

    pub(crate) fn rows(&self) -> u32 {
        self.names.len() as u32
    }

    /// Whether a name identifies no machine.
    pub(crate) fn is_generic(&self, name: &str) -> bool {
        HostNames::new(&self.settings.ignore_hosts).is_generic(name)
    }

    /// The Node that lists these GUIDs. GUIDs that no Node lists do not count; an error where several Nodes list them.
    pub(crate) fn by_guid(&self, guids: &[Guid]) -> Result<Option<Row>, &'static str> {
        let mut found = None;
        for guid in guids {
            let first = self.guids.partition_point(|(known, _)| known < guid);
            for (_, row) in self.guids.iter().skip(first).take_while(|(known, _)| known == guid) {
                if found.is_some_and(|other| other != *row) {
                    return Err("its GUIDs are listed by several Nodes");
                }
                found = Some(*row);
            }
        }
        Ok(found)
    }

    /// The Nodes that these hosts match. `guids` belong to a host by position, ascending.
    pub(crate) fn matches(&self, hosts: &[Claimant<'_>], guids: &[(u32, Guid)]) -> Vec<Match> {
        let mut labels = Interned::default();
        let mut shared: Vec<u32> = Vec::new();
        let label_of: Vec<u32> = hosts
            .iter()
            .map(|host| {
                let label = labels.intern(&first_label(host.name));
                match shared.get_mut(label as usize) {
                    Some(count) => *count += 1,
                    None => shared.push(1),
                }
                label
            })
            .collect();
        let mut matches: Vec<Match> = Vec::with_capacity(hosts.len());
        for (number, host) in (0..).zip(hosts) {
            let first = guids.partition_point(|(known, _)| *known < number);
            let own: Vec<Guid> =
                guids.iter().skip(first).take_while(|(known, _)| *known == number).map(|(_, guid)| *guid).collect();
            let others = at(&shared, at(&label_of, number)) - 1;
            matches.push(self.match_of(host, &own, others));
        }
        drop_duplicates(hosts, &mut matches);
        matches
    }

    fn match_of(&self, host: &Claimant<'_>, guids: &[Guid], others: u32) -> Match {
        let Claimant { name: host, presence } = *host;
        let mut doubt = None;
        if let Some(row) = self.map.get(host).and_then(|node| self.names.find(node)) {
            return Match::Node(row, Rule::Map);
        }
        match self.by_guid(guids) {
            Ok(Some(row)) => return Match::Node(row, Rule::Guid),
            Ok(None) => {}
            Err(reason) => doubt = Some(reason),
        }
        if let Presence::Missing { node } = presence
            && let Some(row) = self.names.find(node)
        {
            return Match::Node(row, Rule::Guid);
        }
        if let Some(row) = self.names.find(host) {
            return Match::Node(row, Rule::Exact);
        }
        if let Some(row) = self.names.find(&host.to_lowercase()) {
            return Match::Node(row, Rule::Case);
        }
        match self.labels.find(&first_label(host)).map(|label| at(&self.label_rows, label)) {
            None => {}
            Some(NONE) => doubt = doubt.or(Some("several Nodes begin with its first label")),
            Some(row) if others == 0 => return Match::Node(row, Rule::Label),
            Some(_) => doubt = doubt.or(Some("several hosts begin with its first label")),
        }
        for rule in &self.settings.rewrite {
            if rule.regex.is_match(host) {
                let name = rule.regex.replace_all(host, rule.replace.as_str());
                let row = self.names.find(&name).or_else(|| self.names.find(&name.to_lowercase()));
                if let Some(row) = row {
                    return Match::Node(row, Rule::Rewrite);
                }
            }
        }
        doubt.map_or(Match::Unmatched, Match::Ambiguous)
    }
}

/// Of several hosts that match one Node one stays: the host with the name of the Node, else the one with the better rule,
/// else the one of earlier rounds, else the one with the smaller name.
fn drop_duplicates(hosts: &[Claimant<'_>], matches: &mut [Match]) {
    let mut claims: Vec<(Row, bool, Rule, bool, &str, usize)> = Vec::new();
    for (number, (host, found)) in hosts.iter().zip(matches.iter()).enumerate() {
        if let Match::Node(row, rule) = found {
            let is_listed = host.presence == Presence::Listed;
            claims.push((*row, *rule != Rule::Exact, *rule, is_listed, host.name, number));
        }
    }
    claims.sort_unstable_by_key(|&(row, is_other, rule, is_listed, name, number)| {
        (row, is_other, rule, is_listed, name, Reverse(number))
    });
    let mut last = NONE;
    for (row, .., number) in claims {
        if row == last
            && let Some(found) = matches.get_mut(number)
        {
            *found = Match::Duplicate(row);
        }
        last = row;
    }
}

fn first_label(name: &str) -> String {
    name.split('.').next().unwrap_or_default().to_lowercase()
}
