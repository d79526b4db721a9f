//! Random topologies, random damage, random orders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::cluster::{Cluster, arc};
use crate::names::{NodeName, SourceName};
use crate::topology::{Coverage, Forest, Group, Member, Members, Object, Spec, Topology, ValidateInput, validate};

/// Nodes of the small clusters that are drawn. Few, so that groups often share some.
pub(super) const NODES: u32 = 12;
const GROUPS: usize = 15;

pub(super) fn source() -> SourceName {
    "label".parse().unwrap()
}

pub(super) fn nodes() -> Vec<NodeName> {
    // One more per group, so that no group is ever empty.
    (0..NODES as usize + GROUPS).map(|at| format!("n{at:02}").into()).collect()
}

/// One group of a drawing, before it is known which groups are leaves.
#[derive(Debug, Clone)]
pub(super) struct Sketch {
    id: u8,
    tier: u32,
    parent: u8,
}

/// A drawing of a topology: groups and, per node, the leaf it belongs to.
#[derive(Debug, Clone)]
pub(super) struct Drawing {
    groups: Vec<Sketch>,
    leaf_of: Vec<u8>,
}

/// Any topology of up to nine groups in four tiers. The ids come from a small pool and are independent of the tier, so
/// that two drawings share groups that have moved, changed their tier, or changed places.
pub(super) fn drawing() -> impl Strategy<Value = Drawing> {
    let sketch = (0..12_u8, 1..=4_u32, any::<u8>()).prop_map(|(id, tier, parent)| Sketch { id, tier, parent });
    let groups = prop::collection::vec(sketch, 0..=9);
    let leaf_of = prop::collection::vec(any::<u8>(), NODES as usize);
    (groups, leaf_of).prop_map(|(groups, leaf_of)| Drawing { groups, leaf_of })
}

/// A topology in which all racks, blocks and spines always exist and only change their places: almost every move makes
/// objects wait in a circle. `lift` moves everything above the racks up by one tier.
pub(super) fn crowded_drawing() -> impl Strategy<Value = Drawing> {
    let racks = prop::collection::vec(any::<u8>(), 2..=5);
    let blocks = prop::collection::vec(any::<u8>(), 1..=3);
    let leaf_of = prop::collection::vec(any::<u8>(), NODES as usize);
    (racks, blocks, 0..=2_usize, 0..=1_u32, leaf_of).prop_map(|(racks, blocks, spines, lift, leaf_of)| {
        // The choices of a parent end with "none"; these nearly always take one.
        let level = |first: usize, tier: u32, parents: Vec<u8>| {
            parents.into_iter().enumerate().map(move |(at, parent)| {
                let id = u8::try_from(first + at).unwrap();
                Sketch { id, tier, parent }
            })
        };
        let mut groups: Vec<Sketch> = level(0, 1, racks).collect();
        groups.extend(level(5, 2 + lift, blocks));
        groups.extend(level(8, 3 + lift, vec![0; spines]));
        Drawing { groups, leaf_of }
    })
}

/// Chains in which every parent has one child, in any order, with or without the middle level and a root: nearly every
/// circle in them can be opened only by deleting an object.
pub(super) fn chained_drawing() -> impl Strategy<Value = Drawing> {
    let order = || Just((0..4_u8).collect::<Vec<u8>>()).prop_shuffle();
    let rest = (1..=4_usize, any::<bool>(), 0..=2_u8, any::<[u8; 4]>(), any::<Option<u8>>());
    (order(), order(), rest).prop_map(|(racks, blocks, (width, middle, roots, above, extra))| {
        let width = u8::try_from(width).unwrap();
        let place = |order: &[u8], at: u8| order.iter().filter(|other| **other < width).position(|other| *other == at);
        let mut groups = Vec::new();
        for at in 0..width {
            // Parents are counted over all groups of higher tiers, in this order.
            let parent = u8::try_from(place(&racks, at).unwrap()).unwrap();
            groups.push(Sketch { id: at, tier: 1, parent });
        }
        for at in (0..width).filter(|_| middle) {
            let parent = u8::try_from(place(&blocks, at).unwrap()).unwrap();
            groups.push(Sketch { id: 4 + at, tier: 2, parent });
        }
        for (at, parent) in (0..width).zip(above) {
            groups.push(Sketch { id: 8 + at, tier: 3, parent });
        }
        groups.extend((0..roots).map(|at| Sketch { id: 12 + at, tier: 4, parent: 0 }));
        groups.extend(extra.map(|parent| Sketch { id: 15, tier: 1, parent }));
        Drawing { groups, leaf_of: vec![0; NODES as usize] }
    })
}

/// Any of the three.
pub(super) fn any_drawing() -> impl Strategy<Value = Drawing> {
    prop_oneof![drawing(), crowded_drawing(), chained_drawing()]
}

impl Drawing {
    /// The answer that it represents.
    pub(super) fn topology(&self, coverage: Coverage) -> Topology {
        let mut groups: Vec<&Sketch> = Vec::new();
        for sketch in &self.groups {
            if !groups.iter().any(|other| other.id == sketch.id) {
                groups.push(sketch);
            }
        }
        let mut children: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (at, sketch) in groups.iter().enumerate() {
            let above: Vec<usize> = (0..groups.len()).filter(|other| groups[*other].tier > sketch.tier).collect();
            // One choice more than there are parents: it means no parent.
            if let Some(parent) = above.get(usize::from(sketch.parent) % (above.len() + 1)) {
                children.entry(*parent).or_default().push(u32::try_from(at).unwrap());
            }
        }
        let leaves: Vec<usize> = (0..groups.len()).filter(|at| !children.contains_key(at)).collect();
        let mut rows: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (at, leaf) in leaves.iter().enumerate() {
            rows.entry(*leaf).or_default().push(NODES + u32::try_from(at).unwrap());
        }
        for (row, leaf) in self.leaf_of.iter().enumerate() {
            // One choice more than there are leaves: it means not placed.
            if let Some(leaf) = leaves.get(usize::from(*leaf) % (leaves.len() + 1)) {
                rows.entry(*leaf).or_default().push(u32::try_from(row).unwrap());
            }
        }
        let groups = groups.iter().enumerate().map(|(at, sketch)| Group {
            id: arc(&format!("g{}", sketch.id)),
            kind: None,
            fixed_name: None,
            description: None,
            tier: sketch.tier,
            tier_name: Some(arc(&format!("level-{}", sketch.tier))),
            labels: vec![(arc(&format!("ex.io/l{}", sketch.tier)), arc(&format!("v{}", sketch.id)))],
            members: match children.remove(&at) {
                Some(children) => Members::Groups(children),
                None => Members::Rows(rows.remove(&at).unwrap_or_default()),
            },
        });
        Topology { coverage, groups: groups.collect(), diagnostics: Vec::new() }
    }

    pub(super) fn forest(&self) -> Forest {
        self.forest_of(Coverage::Complete)
    }

    pub(super) fn forest_of(&self, coverage: Coverage) -> Forest {
        check(&self.topology(coverage))
    }

    /// What is stored after this drawing was applied to an empty cluster.
    pub(super) fn stored(&self) -> Cluster {
        let mut cluster = Cluster::default();
        cluster.settle(&self.forest(), &source());
        cluster
    }
}

pub(super) fn check(topology: &Topology) -> Forest {
    let nodes = nodes();
    let input = ValidateInput { source: &source(), nodes: &nodes, reserved_labels: &[] };
    validate(topology, &input).unwrap_or_else(|violations| panic!("{violations}"))
}

/// An edit of a stored object by hand.
#[derive(Debug, Clone)]
pub(super) enum Damage {
    /// It has another tier.
    Tier(u8, u32),
    /// It has one more child, which may be any: one that another object lists, one above, itself.
    Child(u8, u8),
    /// It has a child that does not exist.
    Dangling(u8),
    /// It has only Nodes in place of its members.
    Nodes(u8),
    /// It has only these children in place of its members.
    Only(u8, u8),
    /// It is deleted.
    Gone(u8),
    /// It has no annotation.
    Plain(u8),
    /// Its id is that of another group.
    Copy(u8, u8),
    /// It belongs to another source.
    Foreign(u8),
    /// It has a label of another program, and lost one that we owned.
    Labels(u8),
    /// A hand-made parent above one of ours.
    Above(u8, u32),
}

pub(super) fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        3 => (any::<u8>(), 0..6_u32).prop_map(|(a, tier)| Damage::Tier(a, tier)),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Damage::Child(a, b)),
        1 => any::<u8>().prop_map(Damage::Dangling),
        1 => any::<u8>().prop_map(Damage::Nodes),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Damage::Only(a, b)),
        1 => any::<u8>().prop_map(Damage::Gone),
        1 => any::<u8>().prop_map(Damage::Plain),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(a, b)| Damage::Copy(a, b)),
        1 => any::<u8>().prop_map(Damage::Foreign),
        1 => any::<u8>().prop_map(Damage::Labels),
        1 => (any::<u8>(), 0..6_u32).prop_map(|(a, tier)| Damage::Above(a, tier)),
    ]
}

pub(super) fn apply_damage(cluster: &mut Cluster, damages: &[Damage]) {
    for (at, damage) in damages.iter().enumerate() {
        let names: Vec<Arc<str>> = cluster.objects.keys().cloned().collect();
        let pick = |which: u8| names[usize::from(which) % names.len()].clone();
        if names.is_empty() {
            return;
        }
        let mut edit = |which: u8, change: &mut dyn FnMut(&mut Object)| {
            change(cluster.objects.get_mut(&pick(which)).unwrap());
        };
        match damage {
            Damage::Tier(a, tier) => edit(*a, &mut |object| object.spec.tier = *tier),
            Damage::Child(a, b) => {
                edit(*a, &mut |object| object.spec.members.push(Member::hyper_node(pick(*b))));
            }
            Damage::Dangling(a) => {
                edit(*a, &mut |object| object.spec.members.push(Member::hyper_node(arc("nowhere"))));
            }
            Damage::Nodes(a) => edit(*a, &mut |object| object.spec.members = vec![Member::node("n00".into())]),
            Damage::Only(a, b) => {
                edit(*a, &mut |object| object.spec.members = vec![Member::hyper_node(pick(*b))]);
            }
            Damage::Gone(a) => {
                cluster.objects.remove(&pick(*a));
            }
            Damage::Plain(a) => edit(*a, &mut |object| object.group_id = None),
            Damage::Copy(a, b) => {
                let id = cluster.objects[&pick(*b)].group_id.clone();
                cluster.objects.get_mut(&pick(*a)).unwrap().group_id = id;
            }
            Damage::Foreign(a) => edit(*a, &mut |object| object.source = Some("ufm".parse().unwrap())),
            Damage::Labels(a) => edit(*a, &mut |object| {
                object.labels.insert(arc("user/own"), arc("x"));
                object.labels.insert(arc("ours/old"), arc("x"));
                object.owned_labels.insert(arc("ours/old"));
                object.labels.insert(arc("ours/shared"), arc("x"));
                object.owned_labels.insert(arc("ours/shared"));
                object.shared_labels.insert(arc("ours/shared"));
            }),
            Damage::Above(a, tier) => {
                let spec = Spec { tier: *tier, tier_name: None, members: vec![Member::hyper_node(pick(*a))] };
                let object = hand_made(&format!("hand-{at}"), spec);
                cluster.objects.insert(object.name.clone(), object);
            }
        }
    }
}

pub(super) fn hand_made(name: &str, spec: Spec) -> Object {
    Object {
        name: arc(name),
        uid: format!("uid-{name}").into(),
        resource_version: "1".into(),
        created: 0,
        source: None,
        group_id: None,
        split_from: None,
        description: None,
        labels: BTreeMap::new(),
        owned_labels: BTreeSet::new(),
        shared_labels: BTreeSet::new(),
        spec,
    }
}

/// A small deterministic source of choices.
#[derive(Debug, Clone)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }
}
