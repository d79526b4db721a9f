//! Names: stable for the same topology, one to one, and no more new names than new groups.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::cluster::{Cluster, arc};
use super::draw::{Dice, NODES, any_drawing, apply_damage, check, damage, source};
use crate::names::Uid;
use crate::topology::{Coverage, Group, Members, NameInput, Named, TierNames, Topology, name};

/// The same answer with its groups in another order.
fn shuffled(topology: &Topology, seed: u64) -> Topology {
    let mut dice = Dice(seed | 1);
    let mut order: Vec<usize> = (0..topology.groups.len()).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, dice.below(at + 1));
    }
    let place = |old: u32| u32::try_from(order.iter().position(|at| *at == old as usize).unwrap()).unwrap();
    let group = |at: &usize| {
        let mut group = topology.groups[*at].clone();
        match &mut group.members {
            Members::Groups(children) => {
                children.iter_mut().for_each(|child| *child = place(*child));
                children.reverse();
            }
            Members::Rows(rows) => rows.reverse(),
            Members::Names(names) => names.reverse(),
            Members::Selector(_) => {}
        }
        group
    };
    Topology { groups: order.iter().map(group).collect(), ..topology.clone() }
}

fn continued(named: &Named) -> BTreeMap<&Arc<str>, &Arc<str>> {
    named.objects.iter().filter_map(|(name, desired)| Some((desired.group_id.as_ref()?, name))).collect()
}

/// A rack, and a function that moves its nodes to another id a few at a time.
fn rack(id: &str, rows: &[u32]) -> Group {
    Group {
        id: arc(id),
        kind: None,
        fixed_name: None,
        description: None,
        tier: 1,
        tier_name: None,
        labels: Vec::new(),
        members: Members::Rows(rows.to_vec()),
    }
}

proptest! {
    #[test]
    fn names_depend_on_neither_order(
        a in any_drawing(),
        b in any_drawing(),
        harm in prop::collection::vec(damage(), 0..4),
        seed in any::<u64>(),
    ) {
        let mut start = a.stored();
        apply_damage(&mut start, &harm);
        let topology = b.topology(Coverage::Complete);
        let (one, other) = (check(&topology), check(&shuffled(&topology, seed)));
        prop_assert_eq!(&one, &other);
        let mut backwards = start.observed();
        backwards.reverse();
        let source = source();
        let none = TierNames::new();
        let input = NameInput { source: &source, observed: &backwards, tier_names_elsewhere: &none };
        prop_assert_eq!(start.named(&one, &source), name(&other, &input));
    }

    #[test]
    fn matching_is_one_to_one_and_never_touches_others(
        a in any_drawing(),
        b in any_drawing(),
        harm in prop::collection::vec(damage(), 0..6),
    ) {
        let mut start = a.stored();
        apply_damage(&mut start, &harm);
        let forest = b.forest();
        let named = start.named(&forest, &source());
        prop_assert_eq!(named.objects.len(), forest.domains().len());
        let uids: Vec<&Uid> = named.objects.values().filter_map(|desired| desired.continues.as_ref()).collect();
        prop_assert_eq!(uids.iter().collect::<BTreeSet<_>>().len(), uids.len());
        for (name, desired) in &named.objects {
            match (start.objects.get(name), &desired.continues) {
                (None, None) => {}
                (Some(object), Some(uid)) => {
                    prop_assert_eq!(&object.uid, uid);
                    prop_assert_eq!(&object.source, &Some(source()));
                }
                other => prop_assert!(false, "{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_unchanged_topology_keeps_all_names(a in any_drawing()) {
        let start = a.stored();
        let named = start.named(&a.forest(), &source());
        for (name, desired) in &named.objects {
            prop_assert_eq!(start.objects.get(name).map(|object| &object.uid), desired.continues.as_ref());
        }
        prop_assert_eq!(named.objects.len(), start.objects.len());
    }

    #[test]
    fn new_identities_for_the_same_nodes_keep_all_names(a in any_drawing()) {
        let start = a.stored();
        let mut topology = a.topology(Coverage::Complete);
        for group in &mut topology.groups {
            group.id = arc(&format!("renamed-{}", group.id));
            group.labels.clear();
        }
        let named = start.named(&check(&topology), &source());
        let names: BTreeSet<&Arc<str>> = named.objects.keys().collect();
        prop_assert_eq!(names, start.objects.keys().collect::<BTreeSet<_>>());
        prop_assert_eq!(continued(&named).len(), named.objects.len());
    }

    #[test]
    fn a_relabel_in_any_number_of_rounds_ends_with_the_original_name(
        size in 1..=8_u32,
        batches in prop::collection::vec(1..=4_u32, 8),
        seed in any::<u64>(),
    ) {
        let mut dice = Dice(seed | 1);
        let mut order: Vec<u32> = (0..size).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, dice.below(at + 1));
        }
        let answer = |moved: usize| {
            let (new, old) = order.split_at(moved);
            let mut groups: Vec<Group> = Vec::new();
            groups.extend((!old.is_empty()).then(|| rack("old", old)));
            groups.extend((!new.is_empty()).then(|| rack("new", new)));
            groups.push(rack("neighbour", &[NODES]));
            check(&Topology { coverage: Coverage::Complete, groups, diagnostics: Vec::new() })
        };
        let mut cluster = Cluster::default();
        cluster.settle(&answer(0), &source());
        let first: BTreeSet<Arc<str>> = cluster.objects.keys().cloned().collect();
        let mut moved = 0;
        for batch in batches {
            moved = (moved + batch as usize).min(order.len());
            cluster.settle(&answer(moved), &source());
            prop_assert_eq!(cluster.faults(), BTreeSet::new());
        }
        prop_assert_eq!(moved, order.len());
        prop_assert_eq!(cluster.objects.keys().cloned().collect::<BTreeSet<_>>(), first);
    }
}
