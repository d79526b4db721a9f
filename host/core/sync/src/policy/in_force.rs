//! The policies of a cluster in their order, and which one is in force on a node (`bottomup-syncer.md` 6.2 and 6.3,
//! decisions D1, S7, S8, S18).
//!
//! Owns the order: priority, higher first, then age, oldest first, then name. It is kept as policies change, per binding, so
//! that a node is decided by a walk that ends with the first policy that selects it.
//!
//! Fails closed. A node is lent without a policy only if all policies are known and none selects it, valid or not. A policy
//! that was never valid freezes the nodes that it selects: what exists keeps its size and taints, nothing new is made. It
//! does so only where no other policy applies: a mistake in a new policy does not end one that was in force before, whose
//! closing returns the capacity to the lender.
//!
//! A policy that is found gone may be gone with all others, because their definition was deleted: an API server removes the policies
//! first, one after the other, and says some seconds later that there is no such kind. So nodes that it selects keep what they have
//! until a list that was asked for later confirms that it is gone ([`Policies::doubt`]): no other policy opens them meanwhile, and
//! nothing is lent that was not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use super::object::{Judgement, Policy, Rank, Reach};
use super::terms::PolicyTerms;
use crate::selector::NodeSelector;
use crate::texts::Keyed;

/// What a binding does with a node that no policy selects (decision D1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum NoPolicy {
    /// All that is left of it is lent.
    #[default]
    LeaseAll,
    /// It is not lent.
    Withdraw,
}

/// What matters of a binding.
#[derive(Debug, Clone, Copy)]
pub struct BindingFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its selector.
    pub selector: &'a NodeSelector,
    /// What it does with nodes that no policy selects.
    pub no_policy: NoPolicy,
}

/// What matters of a physical node.
#[derive(Debug, Clone, Copy)]
pub struct NodeFacts<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a dyn Keyed,
}

/// Whether the policies of a cluster are all known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Synced {
    /// Their first list has not come yet, or the right to read them is lost.
    #[default]
    No,
    /// They are.
    Yes,
}

/// What is in force on a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum InForce<'a> {
    /// A policy.
    Policy {
        /// The policy.
        policy: &'a Policy,
        /// What of it applies.
        terms: &'a PolicyTerms,
    },
    /// No policy selects it, so all that is left is lent.
    LeaseAll,
    /// No policy selects it, so it is not lent.
    Withdraw,
    /// It keeps what it has: no policy applies, and one that is invalid selects it.
    Frozen {
        /// The first one that does.
        by: &'a Policy,
    },
    /// It keeps what it has: the policies are not known, or it is not believed yet that one that selects it is gone.
    NotSynced,
    /// The selector of the binding does not select it, so it is not lent.
    OutsideBinding,
}

impl<'a> InForce<'a> {
    /// The name of the policy in force, if one is.
    #[must_use]
    pub fn policy_name(&self) -> Option<&'a str> {
        match self {
            Self::Policy { policy, .. } => Some(policy.name()),
            _ => None,
        }
    }
}

impl fmt::Display for InForce<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy { policy, .. } => match policy.judgement() {
                Judgement::LastValid { .. } => write!(f, "policy {}, in its last valid version", policy.name()),
                _ => write!(f, "policy {}", policy.name()),
            },
            Self::LeaseAll => {
                f.write_str("no policy selects the node, so all that is left is lent (noPolicy: LeaseAll)")
            }
            Self::Withdraw => f.write_str("no policy selects the node, so it is not lent (noPolicy: Withdraw)"),
            Self::Frozen { by } => write!(
                f,
                "policy {} is invalid and selects the node, and no valid policy does: the node keeps its size and taints",
                by.name()
            ),
            Self::NotSynced => f.write_str(
                "the policies are not read, or one that selects the node was deleted a moment ago: the node keeps its size and \
                 taints",
            ),
            Self::OutsideBinding => f.write_str("the selector of the binding does not select the node"),
        }
    }
}

/// What is in force on a node, with every other policy that selects it.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing<'a> {
    /// What is in force.
    pub in_force: InForce<'a>,
    /// Policies that would apply if those before them were not there, in their order.
    pub shadowed: Vec<&'a Policy>,
    /// Invalid policies that select the node and do not apply to it, in their order.
    pub invalid: Vec<&'a Policy>,
}

/// The policies of one cluster, for the bindings of one virtual cluster.
#[derive(Debug, Clone)]
pub struct Policies {
    virtual_cluster: String,
    synced: Synced,
    by_name: HashMap<String, Arc<Policy>>,
    by_binding: BTreeMap<String, BTreeMap<Rank, Arc<Policy>>>,
    gone: Gone,
    /// How often one was found gone.
    doubts: u64,
}

/// Policies of which it is not believed yet that they are gone.
#[derive(Debug, Clone)]
enum Gone {
    /// These, by their names.
    These(BTreeMap<String, Arc<Policy>>),
    /// More than are remembered: each node may be one that they select.
    Many,
}

/// So many policies that are gone are remembered: a lender may make and delete them without end.
const REMEMBERED: usize = 100;

impl Gone {
    fn is_empty(&self) -> bool {
        match self {
            Self::These(policies) => policies.is_empty(),
            Self::Many => false,
        }
    }

    fn add(&mut self, policy: Arc<Policy>) {
        if let Self::These(policies) = self {
            policies.insert(policy.name().to_owned(), policy);
            if policies.len() > REMEMBERED {
                *self = Self::Many;
            }
        }
    }
}

impl Policies {
    /// None yet, for a virtual cluster of that identity.
    #[must_use]
    pub fn new(virtual_cluster: &str) -> Self {
        Self {
            virtual_cluster: virtual_cluster.to_owned(),
            synced: Synced::No,
            by_name: HashMap::new(),
            by_binding: BTreeMap::new(),
            gone: Gone::These(BTreeMap::new()),
            doubts: 0,
        }
    }

    /// Whether they are all known.
    #[must_use]
    pub fn synced(&self) -> Synced {
        self.synced
    }

    /// Whether they are all known, from now on.
    pub fn set_synced(&mut self, synced: Synced) {
        self.synced = synced;
    }

    /// A policy is as it is now. Returns the bindings that have to look at their nodes, also the one that it was for before; none,
    /// where only its status differs.
    pub fn insert(&mut self, policy: Policy) -> BTreeSet<String> {
        let known = self.by_name.get(policy.name());
        if known.is_some_and(|known| **known == policy) {
            return BTreeSet::new();
        }
        let decides_as_before = known.is_some_and(|known| known.decides_as(&policy));
        let mut affected = self.remove(policy.name());
        if let Gone::These(gone) = &mut self.gone
            && !policy.object().deleting
        {
            gone.remove(policy.name());
        }
        let policy = Arc::new(policy);
        for binding in policy.bindings(&self.virtual_cluster) {
            let siblings = self.by_binding.entry(binding.to_owned()).or_default();
            siblings.insert(policy.rank().clone(), Arc::clone(&policy));
            affected.insert(binding.to_owned());
        }
        self.by_name.insert(policy.name().to_owned(), policy);
        if decides_as_before { BTreeSet::new() } else { affected }
    }

    /// A policy is gone. Returns the bindings that have to look at their nodes.
    pub fn remove(&mut self, name: &str) -> BTreeSet<String> {
        let Some(policy) = self.by_name.remove(name) else { return BTreeSet::new() };
        let affected: BTreeSet<String> = policy.bindings(&self.virtual_cluster).map(str::to_owned).collect();
        for binding in &affected {
            let siblings = self.by_binding.get_mut(binding);
            if siblings.is_some_and(|siblings| siblings.remove(policy.rank()).is_some() && siblings.is_empty()) {
                self.by_binding.remove(binding);
            }
        }
        affected
    }

    /// A policy was found gone, and that is not believed yet. Returns the bindings that have to look at their nodes.
    pub fn doubt(&mut self, name: &str) -> BTreeSet<String> {
        let known = self.by_name.get(name).cloned();
        // One that was being deleted counts no more, and was doubted then.
        if let Some(known) = known.filter(|known| !known.object().deleting) {
            self.doubts = self.doubts.saturating_add(1);
            self.gone.add(known);
        }
        self.remove(name)
    }

    /// How often a policy was found gone.
    #[must_use]
    pub fn doubts(&self) -> u64 {
        self.doubts
    }

    /// Whether one was found gone, and that is not believed yet.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        !self.gone.is_empty()
    }

    /// A list that was asked for long enough after so many doubts confirms that those policies are gone. Not where another one was
    /// found gone meanwhile. Returns whether that is news.
    pub fn believe(&mut self, doubts: u64) -> bool {
        let is_news = self.is_in_doubt() && self.doubts == doubts;
        if is_news {
            self.gone = Gone::These(BTreeMap::new());
        }
        is_news
    }

    /// A policy by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Policy> {
        self.by_name.get(name).map(Arc::as_ref)
    }

    /// The names of all of them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// The policies that a binding has to look at, in their order.
    pub fn of(&self, binding: &str) -> impl Iterator<Item = &Policy> {
        self.by_binding.get(binding).into_iter().flat_map(BTreeMap::values).map(Arc::as_ref)
    }

    /// What is in force on a node.
    #[must_use]
    pub fn in_force(&self, binding: &BindingFacts<'_>, node: &NodeFacts<'_>) -> InForce<'_> {
        if let Some(known) = self.before_policies(binding, node) {
            return known;
        }
        let mut frozen = None;
        for policy in self.of(binding.name) {
            match (self.reach(policy, binding, node), policy.terms()) {
                (Reach::Applies, Some(terms)) => return InForce::Policy { policy, terms },
                (Reach::Closes, _) if frozen.is_none() => frozen = Some(policy),
                _ => {}
            }
        }
        without_policy(frozen, binding.no_policy)
    }

    /// What is in force on a node, with every policy that selects it. Looks at all of them.
    #[must_use]
    pub fn standing(&self, binding: &BindingFacts<'_>, node: &NodeFacts<'_>) -> Standing<'_> {
        if let Some(known) = self.before_policies(binding, node) {
            return Standing { in_force: known, shadowed: Vec::new(), invalid: Vec::new() };
        }
        let (mut first, mut shadowed, mut invalid) = (None, Vec::new(), Vec::new());
        for policy in self.of(binding.name) {
            match (self.reach(policy, binding, node), policy.terms()) {
                (Reach::Applies, Some(terms)) if first.is_none() => first = Some(InForce::Policy { policy, terms }),
                (Reach::Applies, _) => shadowed.push(policy),
                (Reach::Closes, _) => invalid.push(policy),
                (Reach::Passes, _) => {}
            }
        }
        let in_force = first.unwrap_or_else(|| without_policy(invalid.first().copied(), binding.no_policy));
        Standing { in_force, shadowed, invalid }
    }

    /// What decides whatever the policies say.
    fn before_policies(&self, binding: &BindingFacts<'_>, node: &NodeFacts<'_>) -> Option<InForce<'static>> {
        if !binding.selector.matches(node.name, node.labels) {
            return Some(InForce::OutsideBinding);
        }
        let is_doubted = || match &self.gone {
            Gone::These(gone) => gone.values().any(|policy| self.reach(policy, binding, node) != Reach::Passes),
            Gone::Many => true,
        };
        (self.synced == Synced::No || is_doubted()).then_some(InForce::NotSynced)
    }

    fn reach(&self, policy: &Policy, binding: &BindingFacts<'_>, node: &NodeFacts<'_>) -> Reach {
        policy.reach(binding.name, &self.virtual_cluster, node.name, node.labels)
    }
}

fn without_policy(frozen: Option<&Policy>, no_policy: NoPolicy) -> InForce<'_> {
    match (frozen, no_policy) {
        (Some(by), _) => InForce::Frozen { by },
        (None, NoPolicy::LeaseAll) => InForce::LeaseAll,
        (None, NoPolicy::Withdraw) => InForce::Withdraw,
    }
}

#[cfg(test)]
mod tests;
