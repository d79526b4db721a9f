//! From matched domains to wanted objects: new names, names that other owners have, tier names, specs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::adopt::{Adoption, own_by_age};
use super::suffix::{Identity, new_name};
use super::{Desired, NameConflict, NameInput, Named, TierNameConflict};
use crate::names::SourceName;
use crate::rules::Tier;
use crate::topology::forest::{Domain, DomainOrigin, Forest};
use crate::topology::model::{Member, MemberKind, Object, Spec};

pub(super) fn build(forest: &Forest, input: &NameInput<'_>) -> Named {
    let own = own_by_age(input.source, input.observed);
    let mut adoption = Adoption::find(forest, &own, input.observed);
    let taken_by_others = conflicts(forest, input);
    let names = all_names(forest, input, &adoption);
    let held = ancestors(forest, taken_by_others.keys().copied());

    let mut objects = BTreeMap::new();
    let mut tier_names = DroppedTierNames::default();
    for (at, (domain, name)) in forest.domains.iter().zip(&names).enumerate() {
        if taken_by_others.contains_key(&at) || held.contains_key(&at) {
            continue;
        }
        let stored = adoption.object_of(at);
        let split_from = adoption.split_from(at);
        let tier_name = tier_names.check(domain, input);
        let spec = Spec { tier: domain.tier.get(), tier_name, members: members(domain, &names) };
        objects.insert(Arc::clone(name), desired(domain, stored, split_from, spec));
    }
    let stored_name = |at: &usize| adoption.object_of(*at).map(|object| Arc::clone(&object.name));
    let mut name_conflicts: Vec<NameConflict> = taken_by_others
        .iter()
        .filter_map(|(at, owner)| {
            let domain = forest.domains.get(*at)?;
            let above = held.iter().filter(|(_, causes)| causes.contains(at)).filter_map(|(at, _)| stored_name(at));
            let held = above.collect::<BTreeSet<_>>().into_iter().collect();
            let name = Arc::clone(domain.fixed_name.as_ref()?);
            Some(NameConflict { name, group_id: Arc::clone(&domain.id), owner: owner.clone(), held })
        })
        .collect();
    name_conflicts.sort_by(|a, b| a.name.cmp(&b.name));
    Named {
        source: input.source.clone(),
        objects,
        held: held.keys().filter_map(stored_name).collect(),
        name_conflicts,
        tier_name_conflicts: tier_names.0.into_values().collect(),
    }
}

fn desired(domain: &Domain, stored: Option<&Object>, split_from: Option<Arc<str>>, spec: Spec) -> Desired {
    let continues = stored.map(|object| object.uid.clone());
    let group_id = match (&domain.origin, stored) {
        // The answer does not mention it: it keeps the id that it has, or none.
        (DomainOrigin::Kept(_), Some(object)) => object.group_id.clone(),
        _ => Some(Arc::clone(&domain.id)),
    };
    let labels = domain.labels.clone();
    // An answer without a description leaves the stored one.
    let description = domain.description.clone().or_else(|| stored.and_then(|object| object.description.clone()));
    Desired { continues, group_id, split_from, description, labels, spec }
}

fn members(domain: &Domain, names: &[Arc<str>]) -> Vec<Member> {
    let mut children: Vec<&Arc<str>> = domain.children.iter().filter_map(|child| names.get(*child)).collect();
    children.sort_unstable();
    let mut members = Vec::with_capacity(children.len() + domain.nodes.len() + domain.selectors.len());
    members.extend(children.into_iter().map(|name| Member::hyper_node(Arc::clone(name))));
    members.extend(domain.nodes.iter().map(|name| Member::node(name.clone())));
    let selectors = domain.selectors.iter();
    members.extend(selectors.map(|selector| Member { kind: MemberKind::Node, selector: selector.clone() }));
    members
}

/// Domains whose fixed name another owner's object has, with the source of that object.
fn conflicts(forest: &Forest, input: &NameInput<'_>) -> BTreeMap<usize, Option<SourceName>> {
    if forest.domains.iter().all(|domain| domain.fixed_name.is_none()) {
        return BTreeMap::new();
    }
    let foreign = input.observed.iter().filter(|object| object.source.as_ref() != Some(input.source));
    let foreign: BTreeMap<&str, &Option<SourceName>> =
        foreign.map(|object| (object.name.as_ref(), &object.source)).collect();
    let owner = |domain: &Domain| foreign.get(domain.fixed_name.as_deref()?).map(|owner| (*owner).clone());
    forest.domains.iter().enumerate().filter_map(|(at, domain)| Some((at, owner(domain)?))).collect()
}

/// All ancestors of the given domains, each with those of them that are below it.
fn ancestors(forest: &Forest, below: impl Iterator<Item = usize>) -> BTreeMap<usize, BTreeSet<usize>> {
    let mut above: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    let mut below = below.peekable();
    if below.peek().is_none() {
        return above;
    }
    let parents = forest.parents();
    for cause in below {
        let mut at = cause;
        while let Some(parent) = parents.get(at).copied().flatten() {
            above.entry(parent).or_default().insert(cause);
            at = parent;
        }
    }
    above
}

/// The name of every domain: the name of its stored object, or its fixed name, or a new one.
fn all_names(forest: &Forest, input: &NameInput<'_>, adoption: &Adoption<'_>) -> Vec<Arc<str>> {
    let known = |at: usize, domain: &Domain| {
        let stored = adoption.object_of(at).map(|object| Arc::clone(&object.name));
        stored.or_else(|| domain.fixed_name.clone())
    };
    let known: Vec<Option<Arc<str>>> =
        forest.domains.iter().enumerate().map(|(at, domain)| known(at, domain)).collect();
    if known.iter().all(Option::is_some) {
        return known.into_iter().flatten().collect();
    }
    // A new name must also differ from names that are about to be deleted: these are free only after the plan.
    let mut taken: BTreeSet<Arc<str>> = input.observed.iter().map(|object| Arc::clone(&object.name)).collect();
    taken.extend(known.iter().flatten().cloned());
    let name = |(domain, known): (&Domain, Option<Arc<str>>)| {
        known.unwrap_or_else(|| {
            let identity = Identity { source: input.source, kind: &domain.kind, tier: domain.tier, id: &domain.id };
            let name: Arc<str> = new_name(identity, |name| taken.contains(name)).into();
            taken.insert(Arc::clone(&name));
            name
        })
    };
    forest.domains.iter().zip(known).map(name).collect()
}

/// Tier names that another source uses for another tier (decision H15).
#[derive(Default)]
struct DroppedTierNames(BTreeMap<(Arc<str>, Tier), TierNameConflict>);

impl DroppedTierNames {
    /// The domain's tier name, unless another source uses it for another tier.
    fn check(&mut self, domain: &Domain, input: &NameInput<'_>) -> Option<Arc<str>> {
        let name = domain.tier_name.as_ref()?;
        match input.tier_names_elsewhere.get(name) {
            Some(elsewhere) if elsewhere.tier != domain.tier => {
                let conflict = self.0.entry((Arc::clone(name), domain.tier)).or_insert_with(|| TierNameConflict {
                    tier_name: Arc::clone(name),
                    tier: domain.tier,
                    elsewhere: elsewhere.clone(),
                    objects: 0,
                });
                conflict.objects += 1;
                None
            }
            _ => Some(Arc::clone(name)),
        }
    }
}
