//! The policies of the lender, on their way into the view, and which of them are in force nowhere.
//!
//! Owns which nodes a change of a policy concerns: those that the version before it concerned, and those that this one does. Policies
//! that are not for this binding are none of it, and what only the status of one says has no node looked at. That a policy is gone is
//! believed when a later list says so, too (decision S8): the watch of policies asks for that list.

use std::collections::HashMap;

use topoloom_sync::policy::in_force::{BindingFacts, NodeFacts, Synced};
use topoloom_sync::policy::object::Policy;
use topoloom_sync::policy::shadow::{Shadowing, Tally};

use super::View;
use crate::ledger::{PhysicalName, Touched};

impl View {
    /// All policies were listed: what is not among these is gone, and doubted.
    pub fn policies_listed(&mut self, policies: Vec<Policy>) -> Touched {
        let was_synced = self.policies.synced() == Synced::Yes;
        let gone: Vec<String> = {
            let listed: std::collections::HashSet<&str> = policies.iter().map(Policy::name).collect();
            self.policies.names().filter(|name| !listed.contains(name)).map(str::to_owned).collect()
        };
        let mut is_changed = !was_synced;
        for name in gone {
            is_changed |= !self.policies.doubt(&name).is_empty();
        }
        for policy in policies {
            is_changed |= self.may_free(&policy);
            is_changed |= self.take_policy(policy);
        }
        self.policies.set_synced(Synced::Yes);
        if !is_changed {
            return Touched::new();
        }
        self.placement += 1;
        self.all()
    }

    /// The policies cannot be read any more: the right is lost, or their definition is gone. What is known of them is not what
    /// holds now, and that there are none is not known (decision S8).
    pub fn policies_lost(&mut self) -> Touched {
        if self.policies.synced() == Synced::No {
            return Touched::new();
        }
        self.policies.set_synced(Synced::No);
        self.placement += 1;
        self.all()
    }

    /// A policy is as it is now.
    pub fn policy(&mut self, policy: Policy) -> Touched {
        let (name, may_free) = (policy.name().to_owned(), self.may_free(&policy));
        let is_same = match self.policies.get(&name) {
            Some(known) => known.decides_as(&policy),
            None => !self.is_for_us(&policy),
        };
        let mut touched = if is_same { Touched::new() } else { self.concerned(&name) };
        if self.take_policy(policy) {
            self.placement += 1;
            touched.extend(self.concerned(&name));
        } else if may_free {
            touched = self.concerned(&name);
        }
        touched
    }

    /// Whether another policy, or other terms, may be in force on a node because of this. One that is being deleted counts as gone.
    fn take_policy(&mut self, policy: Policy) -> bool {
        let known = self.policies.get(policy.name());
        let goes = policy.object().deleting && known.is_some_and(|known| !known.object().deleting);
        if goes {
            self.policies.doubt(policy.name());
        }
        // One that was given to another binding is not gone, so it is in no doubt.
        let is_for_us = self.is_for_us(&policy);
        let affected = if is_for_us { self.policies.insert(policy) } else { self.policies.remove(policy.name()) };
        !affected.is_empty() || goes
    }

    fn is_for_us(&self, policy: &Policy) -> bool {
        let identity = &self.binding.identity;
        policy.is_for(identity.binding(), identity.virtual_cluster())
    }

    /// Whether what the guard holds may be free now: the status of the policy announces something else than it did.
    fn may_free(&self, policy: &Policy) -> bool {
        let known = self.policies.get(policy.name());
        known.is_some_and(|known| known.object().announced != policy.object().announced) && self.guard.held().is_some()
    }

    /// A policy is gone, and that is not believed yet.
    pub fn policy_gone(&mut self, name: &str) -> Touched {
        let touched = self.concerned(name);
        if self.policies.doubt(name).is_empty() {
            return Touched::new();
        }
        self.placement += 1;
        touched
    }

    /// A list that was asked for long enough after so many doubts confirms that those policies are gone.
    pub fn policies_believed(&mut self, doubts: u64) -> Touched {
        if !self.policies.believe(doubts) {
            return Touched::new();
        }
        self.placement += 1;
        self.all()
    }

    /// The nodes for which a policy matters as it is known.
    fn concerned(&self, name: &str) -> Touched {
        let Some(policy) = self.policies.get(name) else { return Touched::new() };
        let identity = &self.binding.identity;
        let concerns = |node: &PhysicalName| {
            let labels = self.physical.get(node).map(|node| &node.labels);
            labels.is_some_and(|labels| policy.concerns(identity.binding(), identity.virtual_cluster(), node, labels))
        };
        self.physical.keys().filter(|node| concerns(node)).cloned().collect()
    }

    /// Changes whenever another policy may be in force on some node.
    #[must_use]
    pub fn placement(&self) -> u64 {
        self.placement
    }

    /// Where each policy of this binding is in force; nothing is known before all nodes and policies are.
    #[must_use]
    pub fn shadowing(&self) -> HashMap<String, Shadowing> {
        let binding = BindingFacts {
            name: self.binding.identity.binding(),
            selector: &self.binding.selector,
            no_policy: self.binding.no_policy,
        };
        let names = || self.policies.of(binding.name).map(|policy| policy.name().to_owned());
        if !self.is_listed || self.policies.synced() == Synced::No || self.policies.is_in_doubt() {
            return names().map(|name| (name, Shadowing::Unknown)).collect();
        }
        let mut tally = Tally::default();
        for (name, node) in &self.physical {
            tally.count(&self.policies.standing(&binding, &NodeFacts { name, labels: &node.labels }));
        }
        names()
            .map(|name| {
                let shadowing = tally.of(&name);
                (name, shadowing)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use topoloom_sync::bars::Bar;
    use topoloom_sync::guard::{HeldBefore, Inherited, Safety, Spent};
    use topoloom_sync::liveness::Reach;
    use topoloom_sync::policy::announced::{Announced, Announcement};
    use topoloom_sync::policy::object::PolicyObject;
    use topoloom_sync::policy::spec::{LimitSpec, PolicySpec};
    use topoloom_sync::selector::{RawNodeSelector, RawRequirement, RawTerm};

    use super::super::Evidence;
    use super::super::examples::{binding, lend, now, physical, view};
    use super::*;

    fn named(names: &[&str]) -> Touched {
        names.iter().map(|name| PhysicalName::from(*name)).collect()
    }

    /// A policy for the binding, on the nodes of these names; without any, on all.
    fn object(name: &str, nodes: &[&str]) -> PolicyObject {
        let values = nodes.iter().map(|name| (*name).to_owned()).collect();
        let requirement = RawRequirement { key: "metadata.name".into(), operator: "In".into(), values };
        let term = RawTerm { match_expressions: vec![], match_fields: vec![requirement] };
        let selector = (!nodes.is_empty()).then(|| RawNodeSelector { terms: vec![term] });
        PolicyObject {
            name: name.to_owned(),
            uid: name.into(),
            generation: 1,
            created: None,
            deleting: false,
            spec: PolicySpec { cluster: "east".to_owned(), node_selector: selector, ..PolicySpec::default() },
            unreadable: None,
            last_valid: None,
            announced: Announced::default(),
        }
    }

    fn policy(name: &str, nodes: &[&str]) -> Policy {
        Policy::new(object(name, nodes))
    }

    fn broken(name: &str, nodes: &[&str]) -> Policy {
        let mut object = object(name, nodes);
        object.spec.resource_limits = vec![LimitSpec { resource: "cpu".into(), quantity: None, percent: Some(101) }];
        Policy::new(object)
    }

    #[test]
    fn a_policy_concerns_the_nodes_that_it_selects_and_those_that_the_version_before_it_did() {
        let mut view = view(4);
        assert_eq!(view.policy(policy("p", &["w1", "w2"])), named(&["w1", "w2"]));
        assert_eq!(view.policy(policy("p", &["w1", "w2"])), Touched::new(), "nothing differs");
        assert_eq!(view.policy(policy("p", &["w2", "w3"])), named(&["w1", "w2", "w3"]));
        let mut elsewhere = object("p", &["w2"]);
        elsewhere.spec.cluster = "west".to_owned();
        assert_eq!(view.policy(Policy::new(elsewhere)), named(&["w2", "w3"]), "it was for this binding");
        assert_eq!(view.policy_gone("p"), Touched::new());
        view.policy(policy("q", &["w4"]));
        assert_eq!(view.policy_gone("q"), named(&["w4"]));
        assert_eq!(view.policy_gone("q"), Touched::new());
        assert_eq!(view.policy(broken("b", &["w1"])), named(&["w1"]), "an invalid one keeps nodes from being lent");
    }

    #[test]
    fn s8_a_list_replaces_all_policies_and_only_then_they_are_known() {
        let mut view = view(2);
        view.policies_lost();
        assert_eq!(view.policies_lost(), Touched::new());
        assert_eq!(view.policies_listed(vec![policy("p", &["w1"])]).len(), 2, "now it is known which nodes have none");
        assert_eq!(view.policies_listed(vec![policy("p", &["w1"])]), Touched::new());
        assert_eq!(view.policies_listed(Vec::new()).len(), 2);
        assert!(view.policies.get("p").is_none());
    }

    #[test]
    fn s8_what_a_policy_that_is_gone_kept_from_being_lent_is_lent_when_a_later_list_confirms_that_it_is_gone() {
        let mut view = view(3);
        view.policy(broken("never", &["w1"]));
        view.policy(policy("p", &["w2"]));
        let orders = |view: &mut View, node: &str| view.decide(&node.into(), &Evidence::default(), now()).orders.len();
        let all = |view: &mut View| ["w1", "w2", "w3"].map(|node| orders(view, node));
        assert_eq!(all(&mut view), [0, 2, 2]);
        // Their definition is deleted, and they go one after the other.
        assert_eq!(view.policy_gone("never"), named(&["w1"]));
        assert_eq!(
            all(&mut view),
            [0, 2, 2],
            "of others it is known which policy they have, and that none selects them"
        );
        assert_eq!(view.policy_gone("p"), named(&["w2"]));
        assert_eq!(all(&mut view), [0, 0, 2]);
        assert!(view.shadowing().is_empty());
        view.policies_lost();
        assert_eq!(all(&mut view), [0, 0, 0]);
        // It is there again, without policies.
        view.policies_listed(Vec::new());
        assert_eq!(all(&mut view), [0, 0, 2]);
        assert_eq!(view.policies_believed(1), Touched::new(), "that list was asked for too early");
        assert_eq!(view.policies_believed(2).len(), 3);
        assert_eq!(all(&mut view), [2, 2, 2]);
        // One that a finalizer keeps for a while is as good as gone.
        view.policy(broken("never", &["w1"]));
        let mut going = object("never", &["w1"]);
        going.deleting = true;
        assert_eq!(view.policy(Policy::new(going)), named(&["w1"]));
        assert_eq!(all(&mut view), [0, 2, 2]);
        assert_eq!(view.policies_believed(3).len(), 3);
        assert_eq!(all(&mut view), [2, 2, 2]);
    }

    #[test]
    fn s8_policies_of_another_binding_that_go_freeze_no_node_of_this_one() {
        let mut view = view(1);
        let placement = view.placement();
        let west = |number: usize| {
            let mut object = object(&format!("p{number}"), &[]);
            object.spec.cluster = "west".to_owned();
            Policy::new(object)
        };
        let many = || (0..101).map(west);
        for policy in many() {
            let name = policy.name().to_owned();
            assert_eq!(view.policy(policy), Touched::new());
            assert_eq!(view.policy_gone(&name), Touched::new());
        }
        assert_eq!(view.policies_listed(many().collect()), Touched::new());
        assert_eq!(view.policies_listed(Vec::new()), Touched::new());
        assert_eq!((view.policies.is_in_doubt(), view.policies.doubts()), (false, 0));
        assert_eq!(view.placement(), placement);
        assert_eq!(view.decide(&"w1".into(), &Evidence::default(), now()).orders.len(), 2, "it is claimed and lent");
    }

    #[test]
    fn s8_a_policy_that_is_given_to_another_binding_is_not_gone_and_one_that_is_deleted_with_that_edit_is_doubted() {
        let mut view = view(1);
        let west = |is_deleted: bool| {
            let mut object = object("p", &["w1"]);
            (object.spec.cluster, object.deleting) = ("west".to_owned(), is_deleted);
            Policy::new(object)
        };
        view.policy(policy("p", &["w1"]));
        assert_eq!(view.policies_listed(vec![west(false)]), named(&["w1"]));
        assert!(!view.policies.is_in_doubt() && view.policies.get("p").is_none());
        view.policy(policy("p", &["w1"]));
        assert_eq!(view.policy(west(true)), named(&["w1"]));
        assert!(view.policies.is_in_doubt() && view.policies.get("p").is_none());
    }

    /// A policy for all nodes, and the same when its status was written.
    fn written() -> (Policy, Policy) {
        let mut object = object("p", &[]);
        let before = Policy::new(object.clone());
        let (at, since) = ("2026-08-03T18:00:00Z".parse().unwrap(), now().wall);
        object.announced.next = Some(Announcement { at, since });
        object.last_valid = Some(object.spec.clone());
        (before, Policy::new(object))
    }

    #[test]
    fn s18_what_only_the_status_of_a_policy_says_is_known_and_has_no_node_looked_at() {
        let mut view = view(2);
        let (before, after) = written();
        view.policy(before.clone());
        let placement = view.placement();
        for policy in [&after, &before] {
            assert_eq!(view.policy(policy.clone()), Touched::new());
            assert_eq!(view.policies.get("p"), Some(policy));
        }
        assert_eq!(view.policies_listed(vec![after.clone()]), Touched::new());
        assert_eq!((view.policies.get("p"), view.placement()), (Some(&after), placement));
    }

    #[test]
    fn s9_while_something_is_held_nodes_are_looked_at_when_their_policy_announces_something_else() {
        let held = Inherited { held: Some(HeldBefore::default()), ..Inherited::default() };
        let mut view = View::new(binding(), Safety::default(), held, Reach::Reachable, now());
        let (before, after) = written();
        view.policies_listed(vec![before.clone()]);
        view.physical_nodes([("w1".into(), physical(1))].into());
        let placement = view.placement();
        assert_eq!(view.policy(before.clone()), Touched::new(), "it says the same");
        assert_eq!(view.policy(after), named(&["w1"]));
        assert_eq!(view.placement(), placement);
        assert_eq!(view.policies_listed(vec![before]), named(&["w1"]));
    }

    #[test]
    fn s8_while_policies_cannot_be_read_nothing_is_lent_and_what_is_lent_stays() {
        let mut view = view(2);
        lend(&mut view, 1);
        assert_eq!(view.policies_lost(), named(&["w1", "w2"]));
        for node in ["w1", "w2"] {
            assert_eq!(view.decide(&node.into(), &Evidence::default(), now()).orders, [], "{node}");
        }
        assert_eq!(view.counts().frozen, 1);
    }

    #[test]
    fn s18_a_policy_in_force_nowhere_is_known_by_the_one_before_it_once_everything_is_listed() {
        let mut view = View::new(binding(), Safety::default(), Spent::default(), Reach::Reachable, now());
        let mut first = object("first", &[]);
        first.spec.priority = 1;
        view.policies_listed(vec![Policy::new(first), policy("second", &["w1"]), policy("none", &["w9"])]);
        assert_eq!(view.shadowing()["second"], Shadowing::Unknown);
        view.physical_nodes([("w1".into(), physical(1))].into());
        let shadowing = view.shadowing();
        assert_eq!(shadowing["first"], Shadowing::InForce);
        assert_eq!(shadowing["second"], Shadowing::By("first".to_owned()));
        assert_eq!(shadowing["none"], Shadowing::SelectsNone);
        let before = view.placement();
        view.set_bars([Bar::Paused].into_iter().collect(), Reach::Reachable);
        assert_eq!(view.placement(), before);
        view.policy_gone("first");
        assert_ne!(view.placement(), before);
    }
}
