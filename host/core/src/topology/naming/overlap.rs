//! Which Nodes domains and stored objects have in common, at any tier.
//!
//! Compared are the Nodes *below*: a spine with new racks but the same Nodes is the same spine. A selector counts as
//! one Node of its own. Everything is computed at the first look-up: an unchanged round has none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::topology::forest::Forest;
use crate::topology::model::{Member, MemberKind, Object, Selector};

/// A Node that more objects of one tier than this list does not help to match any of them. Without a limit, a few
/// hand-made objects that list every Node would make the comparison quadratic.
const SHARED_BY: usize = 8;

/// What can be below a domain or an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Leaf<'a> {
    Node(&'a str),
    Selector(&'a Selector),
}

/// The comparison of one forest with the stored objects of its source.
pub(super) struct StoredOverlap<'a> {
    forest: &'a Forest,
    own: &'a [&'a Object],
    observed: &'a [Arc<Object>],
    by_name: Option<BTreeMap<&'a str, &'a Object>>,
    tiers: BTreeMap<u32, Vec<(Leaf<'a>, usize)>>,
    sizes: BTreeMap<usize, usize>,
    placed: Option<BTreeSet<Leaf<'a>>>,
}

impl<'a> StoredOverlap<'a> {
    pub(super) fn new(forest: &'a Forest, own: &'a [&'a Object], observed: &'a [Arc<Object>]) -> Self {
        let (tiers, sizes) = (BTreeMap::new(), BTreeMap::new());
        Self { forest, own, observed, by_name: None, tiers, sizes, placed: None }
    }

    /// How many leaves are below a domain, and how many of them each object of its tier shares, by the object's position
    /// among the source's own. Objects that share none are left out.
    pub(super) fn shared(&mut self, domain: usize) -> (usize, BTreeMap<usize, usize>) {
        let leaves = self.below_domain(domain);
        let tier = self.forest.domains.get(domain).map_or(0, |domain| domain.tier.get());
        self.index(tier);
        let index = self.tiers.get(&tier).map_or(&[][..], Vec::as_slice);
        let mut shared = BTreeMap::new();
        for leaf in &leaves {
            let from = index.partition_point(|(other, _)| other < leaf);
            let same = index.get(from..).unwrap_or_default().iter().take_while(|(other, _)| other == leaf);
            if same.clone().nth(SHARED_BY).is_none() {
                for (_, object) in same {
                    *shared.entry(*object).or_insert(0) += 1;
                }
            }
        }
        (leaves.len(), shared)
    }

    /// How many leaves are below an object. Known for the tiers of the domains asked about so far.
    pub(super) fn size(&self, object: usize) -> usize {
        self.sizes.get(&object).copied().unwrap_or(0)
    }

    /// How many of an object's leaves are anywhere in the forest.
    pub(super) fn still_placed(&mut self, object: usize) -> usize {
        let leaves = self.below_object(object);
        let forest = self.forest;
        let placed = self.placed.get_or_insert_with(|| {
            let nodes = forest.domains.iter().flat_map(|domain| domain.nodes.iter().map(|node| Leaf::Node(node)));
            let selectors = forest.domains.iter().flat_map(|domain| domain.selectors.iter().map(Leaf::Selector));
            nodes.chain(selectors).collect()
        });
        leaves.iter().filter(|leaf| placed.contains(leaf)).count()
    }

    /// Whether every leaf below a domain is below one of these objects, too.
    pub(super) fn is_made_of(&mut self, domain: usize, objects: &[usize]) -> bool {
        let known: BTreeSet<Leaf<'a>> = objects.iter().flat_map(|object| self.below_object(*object)).collect();
        self.below_domain(domain).iter().all(|leaf| known.contains(leaf))
    }

    fn index(&mut self, tier: u32) {
        if self.tiers.contains_key(&tier) {
            return;
        }
        let mut index = Vec::new();
        for (at, _) in self.own.iter().enumerate().filter(|(_, object)| object.spec.tier == tier) {
            let leaves = self.below_object(at);
            self.sizes.insert(at, leaves.len());
            index.extend(leaves.into_iter().map(|leaf| (leaf, at)));
        }
        index.sort_unstable();
        self.tiers.insert(tier, index);
    }

    fn below_domain(&self, domain: usize) -> Vec<Leaf<'a>> {
        let mut leaves = Vec::new();
        let mut open = vec![domain];
        while let Some(domain) = open.pop().and_then(|at| self.forest.domains.get(at)) {
            leaves.extend(domain.nodes.iter().map(|node| Leaf::Node(node)));
            leaves.extend(domain.selectors.iter().map(Leaf::Selector));
            open.extend(&domain.children);
        }
        distinct(leaves)
    }

    /// Stored objects may list each other in any way, also in circles, so every object is visited once.
    fn below_object(&mut self, object: usize) -> Vec<Leaf<'a>> {
        let observed = self.observed;
        let mut leaves = Vec::new();
        let mut entered = BTreeSet::new();
        let mut open: Vec<&'a Object> = self.own.get(object).copied().into_iter().collect();
        while let Some(object) = open.pop() {
            for Member { kind, selector } in &object.spec.members {
                match (kind, selector) {
                    (MemberKind::Node, Selector::Exact(name)) => leaves.push(Leaf::Node(name)),
                    (MemberKind::Node, selector) => leaves.push(Leaf::Selector(selector)),
                    (MemberKind::HyperNode, Selector::Exact(name)) => {
                        let by_name = self.by_name.get_or_insert_with(|| {
                            observed.iter().map(|object| (object.name.as_ref(), &**object)).collect()
                        });
                        if let Some(child) = by_name.get(name.as_ref())
                            && entered.insert(name.as_ref())
                        {
                            open.push(child);
                        }
                    }
                    (MemberKind::HyperNode, _) => {}
                }
            }
        }
        distinct(leaves)
    }
}

fn distinct(mut leaves: Vec<Leaf<'_>>) -> Vec<Leaf<'_>> {
    leaves.sort_unstable();
    leaves.dedup();
    leaves
}
