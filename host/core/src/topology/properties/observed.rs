//! What concerns a source is found without looking at the rest, and nothing that concerns it is missed.

use std::sync::Arc;

use proptest::prelude::*;

use super::cluster::{Cluster, arc};
use super::draw::{any_drawing, apply_damage, check, damage, hand_made, source};
use crate::topology::{
    Coverage, Forest, Member, NameInput, Named, Object, Observed, Spec, TierNames, Topology, diff, merge_additions,
    name,
};

/// The same answer of another source, under other names.
fn of_others(stored: &Cluster) -> Vec<Object> {
    let other = |name: &Arc<str>| arc(&format!("other-{name}"));
    let rename = |object: &Object| {
        let members =
            object.spec.members.iter().filter(|member| !object.spec.children().any(|child| is(member, child)));
        let children = object.spec.children().map(|child| Member::hyper_node(other(child)));
        let members = children.chain(members.cloned()).collect();
        Object {
            name: other(&object.name),
            uid: format!("other-{}", object.uid).into(),
            source: Some("other".parse().unwrap()),
            spec: Spec { members, ..object.spec.clone() },
            ..object.clone()
        }
    };
    stored.objects.values().map(rename).collect()
}

fn is(member: &Member, child: &Arc<str>) -> bool {
    *member == Member::hyper_node(Arc::clone(child))
}

/// The result of a look at every object.
fn from_all(forest: &Arc<Forest>, observed: &[Arc<Object>]) -> (Forest, Named) {
    let (source, none) = (source(), TierNames::new());
    let forest = match forest.coverage() {
        Coverage::Complete => Forest::clone(forest),
        Coverage::AdditionsOnly => merge_additions(Forest::clone(forest), &source, observed),
    };
    let named = name(&forest, &NameInput { source: &source, observed, tier_names_elsewhere: &none });
    (forest, named)
}

/// An object of another owner that is in the way of a wanted name.
#[derive(Debug, Clone, Copy)]
enum Rival {
    /// It has the name.
    Has,
    /// It lists the name.
    Lists,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_connected_objects_are_enough(
        (a, b, c) in (any_drawing(), any_drawing(), any_drawing()),
        harm in prop::collection::vec(damage(), 0..4),
        adds in any::<bool>(),
        fixed in prop::option::of((any::<u8>(), any::<u8>())),
        rivals in prop::collection::vec(
            (any::<u8>(), prop_oneof![Just(Rival::Has), Just(Rival::Lists)]),
            0..3,
        ),
    ) {
        let mut cluster = a.stored();
        apply_damage(&mut cluster, &harm);
        let others = of_others(&c.stored());
        let mut topology: Topology = b.topology(if adds { Coverage::AdditionsOnly } else { Coverage::Complete });
        if let (Some((which, name)), false) = (fixed, topology.groups.is_empty()) {
            let at = usize::from(which) % topology.groups.len();
            let taken = others.get(usize::from(name) % (others.len() + 1)).map(|object| Arc::clone(&object.name));
            topology.groups[at].fixed_name = Some(taken.unwrap_or_else(|| arc("fixed")));
        }
        let forest = Arc::new(check(&topology));
        cluster.objects.extend(others.into_iter().map(|object| (Arc::clone(&object.name), object)));

        let mut generated: Vec<Arc<str>> = from_all(&forest, &cluster.observed()).1.objects.into_keys().collect();
        generated.retain(|name| !cluster.objects.contains_key(name));
        for (at, (which, rival)) in rivals.into_iter().enumerate() {
            let Some(wanted) = generated.get(usize::from(which) % generated.len().max(1)) else { break };
            let spec = |member| Spec { tier: 4, tier_name: None, members: vec![member] };
            let mut object = match rival {
                Rival::Has => hand_made(wanted, spec(Member::node("n00".into()))),
                Rival::Lists => hand_made(&format!("rival-{at}"), spec(Member::hyper_node(Arc::clone(wanted)))),
            };
            object.source = (which % 2 == 0).then(|| "other".parse().unwrap());
            cluster.objects.insert(Arc::clone(&object.name), object);
        }

        let all = cluster.observed();
        let (completed, named) = from_all(&forest, &all);
        let wanted = Observed::new(all.iter().rev().cloned()).wanted(&forest, &source(), &TierNames::new());
        prop_assert_eq!(&*wanted.forest, &completed);
        prop_assert_eq!(&wanted.named, &named);
        prop_assert_eq!(diff(&wanted.near, &named), diff(&all, &named));
    }

    #[test]
    fn objects_are_found_by_name_and_by_source(a in any_drawing(), harm in prop::collection::vec(damage(), 0..4)) {
        let mut cluster = a.stored();
        apply_damage(&mut cluster, &harm);
        let all = cluster.observed();
        let observed = Observed::new(all.iter().rev().cloned());
        prop_assert_eq!(observed.all(), &all[..]);
        for owner in ["label", "ufm", "no-source"] {
            let own: Vec<_> = all.iter().filter(|object| object.source.as_deref() == Some(owner)).collect();
            prop_assert_eq!(observed.of(&owner.parse().unwrap()).collect::<Vec<_>>(), own);
        }
        prop_assert!(observed.sources().all(|owner| observed.of(owner).next().is_some()));
    }
}

#[test]
fn trees_of_others_are_not_looked_at() {
    let mut objects = Vec::new();
    for owner in ["label", "other", "third"] {
        let rack = hand_made(
            &format!("{owner}-rack"),
            Spec { tier: 1, tier_name: None, members: vec![Member::node("n00".into())] },
        );
        let list = vec![Member::hyper_node(Arc::clone(&rack.name))];
        let spine = hand_made(&format!("{owner}-spine"), Spec { tier: 2, tier_name: None, members: list });
        objects.extend([rack, spine].map(|object| Arc::new(Object { source: Some(owner.parse().unwrap()), ..object })));
    }
    let empty =
        Arc::new(check(&Topology { groups: Vec::new(), diagnostics: Vec::new(), coverage: Coverage::Complete }));
    let wanted = Observed::new(objects).wanted(&empty, &source(), &TierNames::new());
    let near: Vec<&str> = wanted.near.iter().map(|object| &*object.name).collect();
    assert_eq!(near, ["label-rack", "label-spine"]);
}
