//! Additions-only answers: what they mention is as they say, the rest is as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::cluster::Cluster;
use super::draw::{Damage, any_drawing, apply_damage, damage, source};
use crate::names::NodeName;
use crate::topology::{Coverage, Forest, merge_additions};

fn merged(cluster: &Cluster, forest: &Forest) -> Forest {
    merge_additions(forest.clone(), &source(), &cluster.observed())
}

/// Which objects of the source list which Node.
fn places(cluster: &Cluster) -> BTreeMap<Arc<str>, BTreeSet<Arc<str>>> {
    let mut places: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
    for object in cluster.objects.values().filter(|object| object.source == Some(source())) {
        for node in object.spec.exact_nodes() {
            places.entry(node.clone()).or_default().insert(object.name.clone());
        }
    }
    places
}

/// Whether a forest has all properties that `validate` checks.
fn assert_valid(forest: &Forest) -> Result<(), TestCaseError> {
    let domains = forest.domains();
    let mut parents = BTreeMap::new();
    let mut tiers = BTreeMap::new();
    prop_assert!(domains.is_sorted_by_key(|domain| (domain.tier, domain.id.clone())));
    for (at, domain) in domains.iter().enumerate() {
        prop_assert!(!(domain.nodes.is_empty() && domain.children.is_empty() && domain.selectors.is_empty()));
        prop_assert!(domain.nodes.is_sorted_by(|a, b| a < b));
        prop_assert!(domain.children.is_sorted_by(|a, b| a < b));
        for child in &domain.children {
            prop_assert!(domains[*child].tier < domain.tier);
            prop_assert_eq!(parents.insert(*child, at), None);
        }
        if let Some(name) = &domain.tier_name {
            prop_assert_eq!(*tiers.entry(name).or_insert(domain.tier), domain.tier);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_complete_answer_is_left_alone(a in any_drawing(), b in any_drawing()) {
        let forest = b.forest();
        prop_assert_eq!(merged(&a.stored(), &forest), forest);
    }

    #[test]
    fn additions_change_only_the_nodes_and_groups_that_they_mention(
        a in any_drawing(),
        b in any_drawing(),
        harm in prop::collection::vec(damage(), 0..4),
    ) {
        let mut start = a.stored();
        apply_damage(&mut start, &harm);
        let answer = b.forest_of(Coverage::AdditionsOnly);
        let whole = merged(&start, &answer);
        assert_valid(&whole)?;
        let mentioned: BTreeSet<NodeName> = answer.nodes().into_iter().cloned().collect();

        let named = start.named(&whole, &source());
        let said: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = {
            let mut end = Cluster::default();
            end.settle(&answer, &source());
            places(&end)
        };
        let mut wanted: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
        for (name, desired) in &named.objects {
            for node in desired.spec.exact_nodes() {
                wanted.entry(node.clone()).or_default().insert(name.clone());
            }
        }
        for (node, objects) in places(&start) {
            if !mentioned.contains(&*node) {
                prop_assert_eq!(wanted.get(&node), Some(&objects), "{}", node);
            }
        }
        for node in &mentioned {
            prop_assert_eq!(wanted[&**node].len(), said[&**node].len(), "{}", node);
        }

        // A deleted object has no member left: the answer mentions all its Nodes, and all its children are deleted or
        // moved.
        let children: BTreeSet<Arc<str>> =
            named.objects.values().flat_map(|desired| desired.spec.children().cloned()).collect();
        let own = start.objects.values().filter(|object| object.source == Some(source()));
        for object in own.filter(|object| !named.objects.contains_key(&object.name)) {
            prop_assert!(object.spec.exact_nodes().all(|node| mentioned.contains(&**node)), "{}", object.name);
            // A child that did not exist cannot be distinguished from a new object that gets its name.
            let lives = |child: &&Arc<str>| start.objects.contains_key(*child) && named.objects.contains_key(*child);
            for child in object.spec.children().filter(lives) {
                let tier = named.objects[child].spec.tier;
                prop_assert!(children.contains(child) || tier >= object.spec.tier, "{} of {}", child, object.name);
            }
        }
    }

    #[test]
    fn merging_again_changes_nothing_before_and_after_it_is_applied(
        a in any_drawing(),
        b in any_drawing(),
        harm in prop::collection::vec(damage(), 0..4),
    ) {
        let mut start = a.stored();
        apply_damage(&mut start, &harm);
        let answer = b.forest_of(Coverage::AdditionsOnly);
        let whole = merged(&start, &answer);
        prop_assert_eq!(&merged(&start, &whole), &whole);
        let plan = start.settle(&whole, &source());
        if plan.blocked.is_empty() {
            // Of two objects with one id the oldest counts, and the plan may have made the other one the oldest.
            let twice = harm.iter().any(|harm| matches!(harm, Damage::Copy(..)));
            let mut plan = start.settle(&merged(&start, &answer), &source());
            if twice && !plan.is_empty() {
                plan = start.settle(&merged(&start, &answer), &source());
            }
            prop_assert!(plan.is_empty(), "{}", plan);
        }
    }

    #[test]
    fn merging_does_not_depend_on_the_order_of_the_stored_objects(
        a in any_drawing(),
        b in any_drawing(),
        harm in prop::collection::vec(damage(), 0..4),
    ) {
        let mut start = a.stored();
        apply_damage(&mut start, &harm);
        let answer = b.forest_of(Coverage::AdditionsOnly);
        let mut backwards = start.observed();
        backwards.reverse();
        prop_assert_eq!(merged(&start, &answer), merge_additions(answer.clone(), &source(), &backwards));
    }

    #[test]
    fn an_empty_addition_keeps_everything(a in any_drawing()) {
        let mut start = a.stored();
        let nothing = crate::topology::Topology {
            coverage: Coverage::AdditionsOnly,
            groups: Vec::new(),
            diagnostics: Vec::new(),
        };
        let whole = merged(&start, &super::draw::check(&nothing));
        let plan = start.settle(&whole, &source());
        prop_assert!(plan.is_empty() && plan.blocked.is_empty(), "{}", plan);
    }
}
