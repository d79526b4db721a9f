//! Additions-only answers, completed from what is stored (decision H13).
//!
//! A discoverer that read only a part of the fabric says so. A Node that such an answer does not mention is "as
//! before". The merge makes a whole topology of such an answer, so that naming, guard and plan need no special case:
//!
//! * a Node that the answer mentions is where the answer puts it, and nowhere else;
//! * every other Node stays in the objects that list it, and these stay below the objects that list them, unless the
//!   answer gives them another parent;
//! * an object that has no member left after that is deleted.
//!
//! Selectors name no Nodes: a stored object keeps its selectors, unless the answer gives that domain a selector.
//!
//! The stored objects may be wrong in any way. What cannot be part of a valid forest is left out; the object stays.
//! That is a second parent, a parent whose tier is not higher, a tier name for two tiers, or a child of another source.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::forest::{Domain, DomainOrigin, Forest, Overlaps};
use super::model::{Coverage, Member, MemberKind, Object, Selector};
use super::naming::{Adoption, own_by_age};
use crate::names::SourceName;
use crate::rules::{Kind, Tier};

/// Completes an additions-only forest with the placement that the source's stored objects give to every Node that the
/// forest does not mention. A complete forest is returned as it is.
///
/// `observed` is every HyperNode of the cluster; [`name`](super::name) must be given the same.
#[must_use]
pub fn merge_additions(forest: Forest, source: &SourceName, observed: &[Arc<Object>]) -> Forest {
    let own = own_by_age(source, observed);
    if forest.coverage == Coverage::Complete || own.is_empty() {
        return forest;
    }
    let mut domain_of = matches(&own, &Adoption::by_identity(&forest, &own, observed));
    loop {
        let mut merge = Merge::new(&forest, source, &own, &domain_of);
        merge.keep_links();
        merge.keep_nodes();
        let (domains, place) = merge.finish();
        let overlaps = Overlaps::of(&domains);
        let merged = Forest { coverage: forest.coverage, domains, findings: forest.findings.clone(), overlaps };

        // The domains of the answer now have all their members, so naming may match one of them to an object that has
        // no member left. That object then survives, and the object above it has a child again.
        let found = matches(&own, &Adoption::find(&merged, &own, observed));
        let answers = place.iter().take(forest.domains.len()).enumerate();
        let answer_at: BTreeMap<usize, usize> = answers.filter_map(|(at, place)| Some(((*place)?, at))).collect();
        let mut more = false;
        for (known, found) in domain_of.iter_mut().zip(found).filter(|(known, _)| known.is_none()) {
            *known = found.and_then(|place| answer_at.get(&place).copied());
            more |= known.is_some();
        }
        if !more {
            return merged;
        }
    }
}

/// Per own object, its domain.
fn matches(own: &[&Object], adoption: &Adoption<'_>) -> Vec<Option<usize>> {
    (0..own.len()).map(|object| adoption.domain_of(object)).collect()
}

struct Merge<'a> {
    own: &'a [&'a Object],
    /// The domains of the answer, then those that are kept. Children are positions in this list.
    domains: Vec<Domain>,
    parents: Vec<Option<usize>>,
    /// Per own object, its domain.
    domain_of: Vec<usize>,
    mentioned: BTreeSet<&'a str>,
}

impl<'a> Merge<'a> {
    fn new(forest: &'a Forest, source: &SourceName, own: &'a [&'a Object], domain_of: &[Option<usize>]) -> Self {
        let kind = Kind::clean(source).unwrap_or_default();
        let mut domains = forest.domains.clone();
        let mut parents = forest.parents();
        let mut tier_names: BTreeMap<Arc<str>, Tier> = forest
            .domains
            .iter()
            .filter_map(|domain| Some((Arc::clone(domain.tier_name.as_ref()?), domain.tier)))
            .collect();
        let mut all = Vec::with_capacity(own.len());
        for (object, domain) in own.iter().zip(domain_of) {
            all.push((*domain).unwrap_or(domains.len()));
            match domain.and_then(|at| domains.get_mut(at)) {
                Some(domain) if domain.origin == DomainOrigin::Answer => {
                    domain.origin = DomainOrigin::Continued(Arc::clone(&object.name));
                }
                Some(_) => {}
                None => {
                    domains.push(kept(object, kind.clone(), &mut tier_names));
                    parents.push(None);
                }
            }
        }
        let mentioned = forest.domains.iter().flat_map(|domain| domain.nodes.iter().map(|node| &**node)).collect();
        Self { own, domains, parents, domain_of: all, mentioned }
    }

    /// Keeps stored children below their parents where the answer does not say otherwise.
    fn keep_links(&mut self) {
        let own = self.own;
        let by_name: BTreeMap<&str, usize> =
            own.iter().zip(&self.domain_of).map(|(object, domain)| (object.name.as_ref(), *domain)).collect();
        for (object, parent) in own.iter().zip(self.domain_of.clone()) {
            for child in object.spec.children().filter_map(|name| by_name.get(name.as_ref()).copied()) {
                let tier = |at: usize| self.domains.get(at).map(|domain| domain.tier);
                let free = self.parents.get(child).is_some_and(Option::is_none);
                if free && tier(child) < tier(parent) {
                    if let Some(slot) = self.parents.get_mut(child) {
                        *slot = Some(parent);
                    }
                    if let Some(domain) = self.domains.get_mut(parent) {
                        domain.children.push(child);
                    }
                }
            }
        }
    }

    fn keep_nodes(&mut self) {
        for (object, domain) in self.own.iter().zip(&self.domain_of) {
            let Some(domain) = self.domains.get_mut(*domain) else { continue };
            let selectors_given = !domain.selectors.is_empty();
            for Member { kind, selector } in &object.spec.members {
                match (kind, selector) {
                    (MemberKind::HyperNode, _) => {}
                    (MemberKind::Node, Selector::Exact(node)) => {
                        if !self.mentioned.contains(node.as_ref()) {
                            domain.nodes.push(Arc::clone(node).into());
                        }
                    }
                    (MemberKind::Node, selector) => {
                        if !selectors_given {
                            domain.selectors.push(selector.clone());
                        }
                    }
                }
            }
            domain.nodes.sort_unstable();
            domain.nodes.dedup();
            domain.selectors.sort_unstable();
            domain.selectors.dedup();
        }
    }

    /// Removes empty domains and sorts the rest. Also returns the new position of each domain.
    fn finish(self) -> (Vec<Domain>, Vec<Option<usize>>) {
        let mut order: Vec<usize> = (0..self.domains.len()).collect();
        let key = |at: &usize| self.domains.get(*at).map(|domain| (domain.tier, &domain.id, kept_name(domain)));
        order.sort_by(|a, b| key(a).cmp(&key(b)));
        // Children have a lower tier, so they are decided on before their parents.
        let mut position: Vec<Option<usize>> = vec![None; self.domains.len()];
        let mut next = 0;
        for at in &order {
            let Some(domain) = self.domains.get(*at) else { continue };
            let has_child = domain.children.iter().any(|child| position.get(*child).is_some_and(Option::is_some));
            if has_child || !domain.nodes.is_empty() || !domain.selectors.is_empty() {
                if let Some(slot) = position.get_mut(*at) {
                    *slot = Some(next);
                }
                next += 1;
            }
        }
        let mut domains: Vec<(usize, Domain)> =
            position.iter().zip(self.domains).filter_map(|(position, domain)| Some(((*position)?, domain))).collect();
        for (_, domain) in &mut domains {
            let children = domain.children.iter().filter_map(|child| position.get(*child).copied().flatten());
            domain.children = children.collect();
            domain.children.sort_unstable();
        }
        domains.sort_unstable_by_key(|(position, _)| *position);
        (domains.into_iter().map(|(_, domain)| domain).collect(), position)
    }
}

fn kept_name(domain: &Domain) -> Option<&Arc<str>> {
    match &domain.origin {
        DomainOrigin::Answer | DomainOrigin::Continued(_) => None,
        DomainOrigin::Kept(name) => Some(name),
    }
}

/// The domain of an object that the answer does not mention, still without members.
fn kept(object: &Object, kind: Kind, tier_names: &mut BTreeMap<Arc<str>, Tier>) -> Domain {
    let tier = Tier::nearest(object.spec.tier);
    let stands_for_it = |name: &&Arc<str>| *tier_names.entry(Arc::clone(name)).or_insert(tier) == tier;
    let tier_name = object.spec.tier_name.as_ref().filter(stands_for_it).cloned();
    // Only labels that our field manager owns are written again, so that the host takes over no label of others.
    let ours = object.labels.iter().filter(|(key, _)| object.owned_labels.contains(*key));
    Domain {
        id: Arc::clone(object.group_id.as_ref().unwrap_or(&object.name)),
        kind,
        fixed_name: None,
        description: None,
        tier,
        tier_name,
        labels: ours.map(|(key, value)| (Arc::clone(key), Arc::clone(value))).collect(),
        nodes: Vec::new(),
        children: Vec::new(),
        selectors: Vec::new(),
        origin: DomainOrigin::Kept(Arc::clone(&object.name)),
    }
}

#[cfg(test)]
mod tests;
