//! What a valid answer becomes: domains without their children, and diagnostics whose row numbers are names, so that later readers
//! need no snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ValidateInput;
use crate::names::NodeName;
use crate::rules::{Kind, Tier};
use crate::topology::forest::{Domain, DomainOrigin, Finding, FindingSubject};
use crate::topology::model::{Group, Members, Selector, Subject, Topology};

/// Makes the domains of an answer, in the answer's order. Every rule was checked before: what a rule excludes is left out here.
pub(super) struct Maker<'a> {
    input: &'a ValidateInput<'a>,
    kinds: BTreeMap<&'a str, Kind>,
    /// Per tier and row: the group that named the row last, counted from 1. There are few tiers.
    seen: BTreeMap<Tier, Vec<u32>>,
    overlap: bool,
}

impl<'a> Maker<'a> {
    pub(super) fn new(input: &'a ValidateInput<'a>) -> Self {
        Self { input, kinds: BTreeMap::new(), seen: BTreeMap::new(), overlap: false }
    }

    /// Whether a Node may be in two groups of one tier. Never false when one is.
    pub(super) fn nodes_may_overlap(&self) -> bool {
        self.overlap
    }

    /// The domain that a group becomes, without children.
    pub(super) fn domain(&mut self, at: usize, group: &'a Group) -> Domain {
        let tier = Tier::nearest(group.tier);
        let kind: &str = group.kind.as_deref().unwrap_or(self.input.source);
        let kind = self.kinds.entry(kind).or_insert_with(|| Kind::clean(kind).unwrap_or_default()).clone();
        let mut nodes = match &group.members {
            Members::Rows(rows) => self.rows(at, tier, rows),
            Members::Names(names) => {
                // A name and a row can be the same Node; only comparing the names shows it.
                self.overlap = true;
                names.clone()
            }
            Members::Groups(_) | Members::Selector(_) => Vec::new(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        let selectors = match &group.members {
            Members::Selector(selector) => vec![Selector::Labels(selector.clone())],
            _ => Vec::new(),
        };
        Domain {
            id: Arc::clone(&group.id),
            kind,
            fixed_name: group.fixed_name.clone(),
            description: group.description.clone(),
            tier,
            // On the wire the empty name means "none".
            tier_name: group.tier_name.clone().filter(|name| !name.is_empty()),
            labels: group.labels.iter().cloned().collect(),
            nodes,
            children: Vec::new(),
            selectors,
            origin: DomainOrigin::Answer,
        }
    }

    fn rows(&mut self, at: usize, tier: Tier, rows: &[u32]) -> Vec<NodeName> {
        let nodes = self.input.nodes;
        let seen = self.seen.entry(tier).or_insert_with(|| vec![0; nodes.len()]);
        let stamp = u32::try_from(at.saturating_add(1)).unwrap_or(u32::MAX);
        let mut names = Vec::with_capacity(rows.len().min(nodes.len()));
        for row in rows {
            if let (Some(name), Some(last)) = (nodes.get(*row as usize), seen.get_mut(*row as usize)) {
                self.overlap |= *last != 0;
                *last = stamp;
                names.push(name.clone());
            }
        }
        names
    }
}

/// The diagnostics of an answer.
pub(super) fn findings(topology: &Topology, nodes: &[NodeName]) -> Vec<Finding> {
    let named = |rows: &[u32]| rows.iter().filter_map(|row| nodes.get(*row as usize).cloned()).collect();
    let about = |subject: &Subject| match subject {
        Subject::Source => Some(FindingSubject::Source),
        Subject::Name(name) => Some(FindingSubject::Name(name.clone())),
        Subject::Rows(rows) => Some(FindingSubject::Nodes(named(rows))),
        Subject::Group(at) => {
            topology.groups.get(*at as usize).map(|group| FindingSubject::Group(Arc::clone(&group.id)))
        }
    };
    let found = topology.diagnostics.iter().filter_map(|said| {
        let subject = about(&said.subject)?;
        Some(Finding { code: Arc::clone(&said.code), subject, detail: said.detail.clone() })
    });
    found.collect()
}
