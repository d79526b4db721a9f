//! Which stored object each domain continues (decisions H2 and H3). The order of the rules is described at
//! [`name`](super::name).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::overlap::StoredOverlap;
use crate::names::SourceName;
use crate::topology::forest::{Domain, DomainOrigin, Forest};
use crate::topology::model::{Coverage, Object};

/// How many splits are followed back. A longer chain means that a relabel was changed again and again before it
/// finished; no name in it is better than another.
const SPLITS: usize = 8;

/// The source's own objects, the oldest first: position is rank.
pub(in crate::topology) fn own_by_age<'a>(source: &SourceName, observed: &'a [Arc<Object>]) -> Vec<&'a Object> {
    let own = observed.iter().map(|object| &**object).filter(|object| object.source.as_ref() == Some(source));
    let mut own: Vec<&Object> = own.collect();
    own.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
    own
}

/// The matching of domains and own objects, one to one.
pub(in crate::topology) struct Adoption<'a> {
    forest: &'a Forest,
    own: &'a [&'a Object],
    overlap: StoredOverlap<'a>,
    /// Per domain, the position of its object.
    object_of: Vec<Option<usize>>,
    /// Per object, its domain.
    domain_of: Vec<Option<usize>>,
}

impl<'a> Adoption<'a> {
    /// Matches domains to `own`, which is what [`own_by_age`] returned for `observed`.
    pub(in crate::topology) fn find(forest: &'a Forest, own: &'a [&'a Object], observed: &'a [Arc<Object>]) -> Self {
        let mut adoption = Self::by_identity(forest, own, observed);
        // In an additions-only answer, an object that the answer does not mention still exists.
        if forest.coverage == Coverage::Complete {
            adoption.take_back();
        }
        adoption.by_overlap();
        adoption
    }

    /// Matches by names, ids and labels only, and not by members.
    pub(in crate::topology) fn by_identity(
        forest: &'a Forest,
        own: &'a [&'a Object],
        observed: &'a [Arc<Object>],
    ) -> Self {
        let overlap = StoredOverlap::new(forest, own, observed);
        let (domains, objects) = (forest.domains.len(), own.len());
        let mut adoption =
            Self { forest, own, overlap, object_of: vec![None; domains], domain_of: vec![None; objects] };
        adoption.by_name();
        adoption.by_annotation();
        adoption.by_labels();
        adoption
    }

    /// The stored object that a domain continues.
    pub(in crate::topology) fn object_of(&self, domain: usize) -> Option<&'a Object> {
        let at = self.object_of.get(domain).copied().flatten()?;
        self.own.get(at).copied()
    }

    /// The domain that continues an object, by its position among the own objects.
    pub(in crate::topology) fn domain_of(&self, object: usize) -> Option<usize> {
        self.domain_of.get(object).copied().flatten()
    }

    /// The object that a domain is being split from, if another domain continues that object.
    ///
    /// For a new domain it is the object that most of its Nodes come from. A domain with an object keeps that object's
    /// annotation, for as long as the split may still be one half of a move: until the origin is gone, or the domain
    /// has Nodes that were in neither of the two. From then on it is an independent domain and keeps its name.
    pub(super) fn split_from(&mut self, domain: usize) -> Option<Arc<str>> {
        if let Some(object) = self.object_of.get(domain).copied().flatten() {
            return self.still_split_from(domain, object);
        }
        if self.own.is_empty() {
            return None;
        }
        let (leaves, shared) = self.overlap.shared(domain);
        let donors =
            shared.into_iter().filter(|(object, count)| 2 * count > leaves && self.domain_of(*object).is_some());
        let (donor, _) = donors.max_by_key(|(object, count)| (*count, Reverse(*object)))?;
        self.own.get(donor).map(|object| Arc::clone(&object.name))
    }

    fn still_split_from(&mut self, domain: usize, object: usize) -> Option<Arc<str>> {
        self.own.get(object)?.split_from.as_ref()?;
        let by_name: BTreeMap<&str, usize> =
            self.own.iter().enumerate().map(|(at, object)| (object.name.as_ref(), at)).collect();
        let mut chain = vec![object];
        for _ in 0..SPLITS {
            let last = chain.last().and_then(|at| self.own.get(*at));
            let Some(next) = last.and_then(|last| by_name.get(last.split_from.as_deref()?).copied()) else { break };
            if chain.contains(&next) {
                break;
            }
            chain.push(next);
        }
        let lives_on = chain.iter().skip(1).copied().find(|origin| !self.is_free(*origin))?;
        let origin = self.own.get(lives_on)?;
        self.overlap.is_made_of(domain, &chain).then(|| Arc::clone(&origin.name))
    }

    fn pair(&mut self, domain: usize, object: usize) {
        if let Some(slot) = self.object_of.get_mut(domain) {
            *slot = Some(object);
        }
        if let Some(slot) = self.domain_of.get_mut(object) {
            *slot = Some(domain);
        }
    }

    fn is_free(&self, object: usize) -> bool {
        self.domain_of(object).is_none()
    }

    /// Domains that have no object yet and no fixed name: they may be matched by labels or members.
    fn unnamed(&self) -> Vec<(usize, &'a Domain)> {
        let domains = self.forest.domains.iter().enumerate().zip(&self.object_of);
        let unnamed = domains.filter(|((_, domain), object)| object.is_none() && domain.fixed_name.is_none());
        unnamed.map(|(domain, _)| domain).collect()
    }

    fn by_name(&mut self) {
        let forest = self.forest;
        let wanted = |domain: &'a Domain| match &domain.origin {
            DomainOrigin::Answer => domain.fixed_name.as_deref(),
            DomainOrigin::Continued(name) | DomainOrigin::Kept(name) => Some(&**name),
        };
        if forest.domains.iter().all(|domain| wanted(domain).is_none()) {
            return;
        }
        let by_name: BTreeMap<&str, usize> =
            self.own.iter().enumerate().map(|(at, object)| (object.name.as_ref(), at)).collect();
        for (at, domain) in forest.domains.iter().enumerate() {
            if let Some(object) = wanted(domain).and_then(|name| by_name.get(name))
                && self.is_free(*object)
            {
                self.pair(at, *object);
            }
        }
    }

    fn by_annotation(&mut self) {
        let mut by_id: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, object) in self.own.iter().enumerate().filter(|(at, _)| self.is_free(*at)) {
            if let Some(id) = &object.group_id {
                by_id.entry(id).or_default().push(at);
            }
        }
        for (at, domain) in self.unnamed() {
            let candidates = by_id.get(domain.id.as_ref()).map_or(&[][..], Vec::as_slice);
            let other_tier =
                |object: &usize| self.own.get(*object).is_none_or(|object| object.spec.tier != domain.tier.get());
            let free = candidates.iter().copied().filter(|object| self.is_free(*object));
            if let Some(object) = free.min_by_key(|object| (other_tier(object), *object)) {
                self.pair(at, object);
            }
        }
    }

    fn by_labels(&mut self) {
        let mut by_label: BTreeMap<(u32, &str, &str), Vec<usize>> = BTreeMap::new();
        for (at, object) in self.own.iter().enumerate() {
            if object.group_id.is_none() && self.is_free(at) {
                for (key, value) in &object.labels {
                    by_label.entry((object.spec.tier, key, value)).or_default().push(at);
                }
            }
        }
        if by_label.is_empty() {
            return;
        }
        let mut pairs = Vec::new();
        for (at, domain) in self.unnamed() {
            // Without a label, Volcano's object cannot be distinguished from its neighbours.
            let Some((key, value)) = domain.labels.first_key_value() else { continue };
            let Some(candidates) = by_label.get(&(domain.tier.get(), key, value)) else { continue };
            let prefix = domain.kind.prefix(domain.tier);
            let fits = |object: &Object| {
                object.name.starts_with(&prefix)
                    && domain.labels.iter().all(|(key, value)| object.labels.get(key) == Some(value))
            };
            let fitting = candidates.iter().filter(|object| self.own.get(**object).is_some_and(|o| fits(o)));
            pairs.extend(fitting.map(|object| (at, *object)));
        }
        let pairs = self.weigh(&pairs);
        self.pair_greedily(pairs);
    }

    /// Adds the number of shared leaves to pairs that have a rival; the others need no comparison.
    fn weigh(&mut self, pairs: &[(usize, usize)]) -> Vec<(usize, usize, usize)> {
        let (mut of_domain, mut of_object) = (BTreeMap::new(), BTreeMap::new());
        for (domain, object) in pairs {
            *of_domain.entry(*domain).or_insert(0) += 1;
            *of_object.entry(*object).or_insert(0) += 1;
        }
        let mut compared: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
        let mut weighed = Vec::with_capacity(pairs.len());
        for (domain, object) in pairs {
            let rivals = of_domain.get(domain) > Some(&1) || of_object.get(object) > Some(&1);
            let shared = if rivals {
                let shared = compared.entry(*domain).or_insert_with(|| self.overlap.shared(*domain).1);
                shared.get(object).copied().unwrap_or(0)
            } else {
                0
            };
            weighed.push((shared, *domain, *object));
        }
        weighed
    }

    /// Pairs the strongest first: most shared leaves, then the oldest object, then the first domain.
    fn pair_greedily(&mut self, mut pairs: Vec<(usize, usize, usize)>) {
        pairs.sort_unstable_by_key(|(shared, domain, object)| (Reverse(*shared), *object, *domain));
        for (_, domain, object) in pairs {
            if self.is_free(object) && self.object_of.get(domain).is_some_and(Option::is_none) {
                self.pair(domain, object);
            }
        }
    }

    /// A domain that is relabelled node by node has two objects for a while: the old object loses Nodes to one that was
    /// split from it. When the last Node has moved, no domain matches the old object any more. The new domain, which
    /// now has all Nodes of the old one, gets the old name.
    fn take_back(&mut self) {
        let has_origin = |object: usize| self.own.get(object).is_some_and(|object| object.split_from.is_some());
        let domains = self.forest.domains.iter().enumerate().zip(&self.object_of);
        let generated = domains.filter(|((_, domain), _)| domain.fixed_name.is_none());
        let matched = generated.filter_map(|((at, _), object)| Some((at, (*object)?)));
        let split: Vec<(usize, usize)> = matched.filter(|(_, object)| has_origin(*object)).collect();
        if split.is_empty() {
            return;
        }
        let by_name: BTreeMap<&str, usize> =
            self.own.iter().enumerate().map(|(at, object)| (object.name.as_ref(), at)).collect();
        for (domain, object) in split {
            if let Some(origin) = self.origin_to_take(domain, object, &by_name) {
                if let Some(slot) = self.domain_of.get_mut(object) {
                    *slot = None;
                }
                self.pair(domain, origin);
            }
        }
    }

    /// The first of the objects from which `object` was split, directly or not, that is free and matches the domain.
    fn origin_to_take(&mut self, domain: usize, object: usize, by_name: &BTreeMap<&str, usize>) -> Option<usize> {
        let tier = self.forest.domains.get(domain)?.tier.get();
        let mut at = object;
        let mut found = None;
        for _ in 0..SPLITS {
            let Some(origin) = self.own.get(at).and_then(|object| object.split_from.as_deref()) else { break };
            let Some(next) = by_name.get(origin).copied().filter(|next| *next != object) else { break };
            let fits = self.own.get(next).is_some_and(|origin| origin.spec.tier == tier);
            if fits && self.is_free(next) {
                // An object with no Node left in the forest is no evidence for another domain.
                let (size, shared) = self.overlap.shared(domain);
                let shared = shared.get(&next).copied().unwrap_or(0);
                let placed = self.overlap.still_placed(next);
                let most_had_moved = self.overlap.size(next) <= size;
                if 2 * shared > placed || (placed == 0 && most_had_moved) {
                    found = Some(next);
                }
            }
            at = next;
        }
        found
    }

    fn by_overlap(&mut self) {
        if self.domain_of.iter().all(Option::is_some) {
            return;
        }
        let mut pairs = Vec::new();
        for (domain, _) in self.unnamed() {
            let (_, shared) = self.overlap.shared(domain);
            let free = shared.into_iter().filter(|(object, _)| self.is_free(*object));
            let most = free.filter(|(object, shared)| 2 * shared > self.overlap.size(*object));
            pairs.extend(most.map(|(object, shared)| (shared, domain, object)));
        }
        self.pair_greedily(pairs);
    }
}
