//! Policies that are in force on no node (decision S18).
//!
//! Owns the tally over all nodes of a binding. A lender who writes a second policy for the same nodes sees at the policy that
//! it has no effect, and by the name of which other one. The answer is right only after every node was counted, and it does
//! not depend on the order in which they were.

use std::collections::{HashMap, HashSet};

use super::in_force::{InForce, Standing};
use super::object::Policy;

/// Where a policy is in force.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shadowing {
    /// It is not known: not every node was counted.
    Unknown,
    /// On at least one node.
    InForce,
    /// On none, although it selects some: this policy comes before it.
    By(String),
    /// It selects no node.
    SelectsNone,
}

/// What is in force on the nodes that were counted.
#[derive(Debug, Default)]
pub struct Tally<'a> {
    in_force: HashSet<&'a str>,
    /// The first policy, by their order, that is in force on a node that the policy of that name selects.
    shadowed: HashMap<&'a str, &'a Policy>,
}

impl<'a> Tally<'a> {
    /// Counts a node.
    pub fn count(&mut self, standing: &Standing<'a>) {
        let InForce::Policy { policy, .. } = standing.in_force else { return };
        self.in_force.insert(policy.name());
        for shadowed in &standing.shadowed {
            let by = self.shadowed.entry(shadowed.name()).or_insert(policy);
            if policy.rank() < by.rank() {
                *by = policy;
            }
        }
    }

    /// Where a policy is in force, if every node was counted.
    #[must_use]
    pub fn of(&self, policy: &str) -> Shadowing {
        match self.shadowed.get(policy) {
            _ if self.in_force.contains(policy) => Shadowing::InForce,
            Some(by) => Shadowing::By(by.name().to_owned()),
            None => Shadowing::SelectsNone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::selector::NodeSelector;
    use super::super::examples::{broken, on_pool, policy};
    use super::super::in_force::{BindingFacts, NoPolicy, NodeFacts, Policies, Synced};
    use super::super::spec::PolicySpec;
    use super::*;

    #[test]
    fn s18_a_policy_that_is_in_force_nowhere_is_shadowed_by_name() {
        let mut policies = Policies::new("vc");
        policies.set_synced(Synced::Yes);
        let first = |pool, spec: PolicySpec| PolicySpec { priority: 1, ..on_pool(pool, spec) };
        let mut add = |name: &str, spec: PolicySpec| {
            let mut object = policy(name);
            object.spec = spec;
            let _ = policies.insert(Policy::new(object));
        };
        let all = policy("x").spec;
        add("red-first", first("red", all.clone()));
        add("blue-first", first("blue", all.clone()));
        add("red-later", on_pool("red", all.clone()));
        add("both-later", all.clone());
        add("green", on_pool("green", all.clone()));
        let _ = policies.insert(Policy::new(broken("bad")));
        let selector = NodeSelector::default();
        let binding = BindingFacts { name: "east", selector: &selector, no_policy: NoPolicy::LeaseAll };
        let labels = |pool: &str| crate::texts::TextMap::from([("pool", pool)]);
        let tally = |pools: &[&str]| {
            let mut tally = Tally::default();
            for pool in pools {
                tally.count(&policies.standing(&binding, &NodeFacts { name: "w", labels: &labels(pool) }));
            }
            ["red-first", "red-later", "both-later", "green", "bad"].map(|name| tally.of(name))
        };
        let by = |name: &str| Shadowing::By(name.to_owned());
        use Shadowing::{InForce, SelectsNone};
        // In whatever order nodes come, the name is that of the first policy.
        for pools in [["red", "blue"], ["blue", "red"]] {
            assert_eq!(tally(&pools), [InForce, by("red-first"), by("blue-first"), SelectsNone, SelectsNone]);
        }
        assert_eq!(tally(&["red"]), [InForce, by("red-first"), by("red-first"), SelectsNone, SelectsNone]);
        assert_eq!(tally(&["red", "grey"]), [InForce, by("red-first"), InForce, SelectsNone, SelectsNone]);
        assert_eq!(tally(&[]), [SelectsNone, SelectsNone, SelectsNone, SelectsNone, SelectsNone]);
    }
}
