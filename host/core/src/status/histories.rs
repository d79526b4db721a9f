//! Random histories of Nodes and HyperNodes against counting from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::snapshot::{ColumnKey, NodeMeta, Store, View};
use crate::topology::{LabelOperator, LabelRequirement, LabelSelector, Member, MemberKind, Object, Selector, Spec};

type Labels = BTreeMap<String, String>;

#[derive(Debug, Clone)]
enum Step {
    Node(u8, Option<Labels>),
    Put(Box<Object>),
    Delete(u8),
    /// An object is written again, with one more Node.
    Extend(u8, u8),
    /// The host lists again, with the columns that the index asks for.
    Relist,
    Settle,
}

fn object(name: &str, tier: u32, source: Option<&str>, members: Vec<Member>) -> Object {
    Object {
        name: name.into(),
        uid: "u".into(),
        resource_version: "1".into(),
        created: 0,
        source: source.map(|source| source.parse().unwrap()),
        group_id: None,
        split_from: None,
        description: None,
        labels: BTreeMap::new(),
        owned_labels: std::collections::BTreeSet::new(),
        shared_labels: std::collections::BTreeSet::new(),
        spec: Spec { tier, tier_name: None, members },
    }
}

fn labels_member(kind: MemberKind, key: &str, operator: LabelOperator, values: &[&str]) -> Member {
    let requirement = LabelRequirement {
        key: key.to_owned(),
        operator,
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let selector = LabelSelector { match_labels: BTreeMap::new(), match_expressions: vec![requirement] };
    Member { kind, selector: Selector::Labels(selector) }
}

fn regex_member(kind: MemberKind, pattern: &str) -> Member {
    Member { kind, selector: Selector::Regex(pattern.into()) }
}

fn member() -> impl Strategy<Value = Member> {
    let kind = prop_oneof![4 => Just(MemberKind::Node), 1 => Just(MemberKind::HyperNode)];
    let operator = prop_oneof![
        3 => Just(LabelOperator::In),
        1 => Just(LabelOperator::NotIn),
        1 => Just(LabelOperator::Exists),
        1 => Just(LabelOperator::DoesNotExist),
        1 => Just(LabelOperator::Unknown("Gt".into())),
    ];
    prop_oneof![
        5 => (0..9u8).prop_map(|n| Member::node(format!("n{n}").into())),
        4 => (0..6u8).prop_map(|n| Member::hyper_node(format!("h{n}").into())),
        1 => (kind.clone(), prop_oneof!["n[0-3]{1,2}", Just("n**".to_owned()), Just("[24]$".to_owned())])
            .prop_map(|(kind, pattern)| regex_member(kind, &pattern)),
        2 => (kind, 0..2u8, operator, prop::collection::vec(0..3u8, 0..3)).prop_map(|(kind, key, operator, values)| {
            let values: Vec<String> = values.iter().map(|v| format!("v{v}")).collect();
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            labels_member(kind, &format!("l{key}"), operator, &values)
        }),
        1 => Just(Member { kind: MemberKind::Node, selector: Selector::Absent }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let labels = prop::collection::btree_map(
        (0..2u8).prop_map(|i| format!("l{i}")),
        (0..3u8).prop_map(|i| format!("v{i}")),
        0..3,
    );
    let source = prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))];
    prop_oneof![
        5 => (0..8u8, prop::option::weighted(0.7, labels)).prop_map(|(n, labels)| Step::Node(n, labels)),
        5 => (0..6u8, 1..4u32, source, prop::collection::vec(member(), 0..5))
            .prop_map(|(n, tier, source, members)| Step::Put(Box::new(object(&format!("h{n}"), tier, source, members)))),
        2 => (0..6u8).prop_map(Step::Delete),
        2 => (0..6u8, 0..9u8).prop_map(|(n, node)| Step::Extend(n, node)),
        1 => Just(Step::Relist),
        4 => Just(Step::Settle),
    ]
}

/// Counts everything from scratch: decision H5 implemented plainly.
struct Naive<'a> {
    nodes: &'a BTreeMap<String, Labels>,
    objects: &'a BTreeMap<String, Object>,
    columns: BTreeSet<String>,
}

impl Naive<'_> {
    /// The existing Nodes at or below; `None` if a label has no column.
    fn below(&self, name: &str, seen: &mut BTreeSet<String>) -> Option<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let Some(object) = self.objects.get(name).filter(|_| seen.insert(name.to_owned())) else { return Some(found) };
        for member in &object.spec.members {
            match (member.kind, &member.selector) {
                (MemberKind::HyperNode, Selector::Exact(child)) => found.extend(self.below(child, seen)?),
                (MemberKind::Node, Selector::Exact(node)) => found.extend(self.existing(|name, _| name == &**node)),
                (MemberKind::Node, Selector::Regex(pattern)) if !pattern.contains("**") => {
                    let regex = regex::Regex::new(pattern).expect("pattern");
                    found.extend(self.existing(|name, _| regex.is_match(name)));
                }
                (MemberKind::Node, Selector::Labels(selector)) => {
                    let it = &selector.match_expressions[0];
                    let has_values = !it.values.is_empty();
                    let valid = match it.operator {
                        LabelOperator::In | LabelOperator::NotIn => has_values,
                        LabelOperator::Exists | LabelOperator::DoesNotExist => !has_values,
                        LabelOperator::Unknown(_) => false,
                    };
                    if !valid {
                        continue;
                    }
                    if !self.columns.contains(&it.key) {
                        return None;
                    }
                    found.extend(self.existing(|_, labels| match (labels.get(&it.key), &it.operator) {
                        (Some(value), LabelOperator::In) => it.values.contains(value),
                        (Some(value), LabelOperator::NotIn) => !it.values.contains(value),
                        (value, LabelOperator::Exists) => value.is_some(),
                        (value, LabelOperator::NotIn | LabelOperator::DoesNotExist) => value.is_none(),
                        _ => false,
                    }));
                }
                _ => {}
            }
        }
        Some(found)
    }

    fn existing(&self, choose: impl Fn(&str, &Labels) -> bool) -> BTreeSet<String> {
        self.nodes.iter().filter(|(name, labels)| choose(name, labels)).map(|(name, _)| name.clone()).collect()
    }

    fn count(&self, name: &str) -> Option<NodeCount> {
        let nodes = self.below(name, &mut BTreeSet::new())?.len() as u64;
        let listed: BTreeSet<_> = self.objects[name].spec.exact_nodes().cloned().collect();
        let absent = listed.into_iter().filter(|name| !self.nodes.contains_key(&**name));
        let absent: Vec<_> = absent.map(Into::into).collect();
        Some(NodeCount { nodes, missing: Missing { count: absent.len() as u64, first: absent } })
    }

    fn overlaps(&self, sources: &[&str]) -> Vec<Overlap> {
        let mut tiers: BTreeMap<u32, BTreeMap<String, Vec<Arc<str>>>> = BTreeMap::new();
        for (name, object) in self.objects {
            if object.source.as_deref().is_some_and(|source| sources.contains(&source)) {
                for node in self.below(name, &mut BTreeSet::new()).unwrap_or_default() {
                    tiers.entry(object.spec.tier).or_default().entry(node).or_default().push(name.as_str().into());
                }
            }
        }
        let mut overlaps = Vec::new();
        for (tier, nodes) in tiers {
            let shared: Vec<SharedNode> = nodes
                .into_iter()
                .filter(|(_, holders)| holders.len() > 1)
                .map(|(node, holders)| SharedNode {
                    node: node.into(),
                    hyper_nodes: [holders[0].clone(), holders[1].clone()],
                })
                .collect();
            if !shared.is_empty() {
                overlaps.push(Overlap { tier, nodes: shared.len() as u64, first: shared });
            }
        }
        overlaps
    }
}

fn meta<'a>(
    name: &'a str,
    labels: &'a Labels,
) -> NodeMeta<'a, impl Iterator<Item = (&'a str, &'a str)>, [(&'a str, &'a str); 0]> {
    NodeMeta { name, labels: labels.iter().map(|(k, v)| (k.as_str(), v.as_str())), annotations: [] }
}

fn view(store: &Store) -> View {
    store.view(&store.required().cloned().collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn every_history_counts_as_from_scratch(steps in prop::collection::vec(step(), 0..50)) {
        let mut store = Store::new();
        let mut index = StatusIndex::new();
        let mut nodes = BTreeMap::new();
        let mut objects: BTreeMap<String, Object> = BTreeMap::new();
        let mut last: BTreeMap<String, NodeCount> = BTreeMap::new();
        for step in steps.into_iter().chain([Step::Relist, Step::Settle]) {
            match step {
                Step::Node(n, labels) => {
                    let name = format!("n{n}");
                    let change = match &labels {
                        Some(labels) => store.apply(meta(&name, labels)),
                        None => store.remove(&name),
                    };
                    index.nodes(&change);
                    match labels {
                        Some(labels) => nodes.insert(name, labels),
                        None => nodes.remove(&name),
                    };
                }
                Step::Put(object) => {
                    index.put(&object);
                    objects.insert(object.name.to_string(), *object);
                }
                Step::Extend(n, node) => {
                    if let Some(object) = objects.get_mut(&format!("h{n}")) {
                        object.spec.members.push(Member::node(format!("n{node}").into()));
                        index.put(object);
                    }
                }
                Step::Delete(n) => {
                    index.delete(&format!("h{n}"));
                    objects.remove(&format!("h{n}"));
                    last.remove(&format!("h{n}"));
                }
                Step::Relist => {
                    store.require(index.keys_used().cloned());
                    store.begin_relist();
                    for (name, labels) in &nodes {
                        store.relist(meta(name, labels));
                    }
                    index.nodes(&store.commit_relist());
                }
                Step::Settle => {
                    let view = view(&store);
                    let columns = ["l0", "l1"].iter().filter(|key| view.column(&ColumnKey::label(key)).is_some());
                    let columns = columns.map(|key| (*key).to_owned()).collect();
                    let naive = Naive { nodes: &nodes, objects: &objects, columns };
                    let mut expected = Vec::new();
                    for name in objects.keys() {
                        if let Some(count) = naive.count(name) {
                            if last.get(name) != Some(&count) {
                                expected.push(Settled { name: name.as_str().into(), count: count.clone() });
                            }
                            last.insert(name.clone(), count);
                        }
                    }
                    prop_assert_eq!(index.settle(&view), expected);
                    prop_assert_eq!(index.settle(&view), vec![]);
                    for name in objects.keys() {
                        prop_assert_eq!(index.get(name), last.get(name));
                    }
                    if naive.columns.len() == 2 {
                        for sources in [&["a"][..], &["a", "b"]] {
                            let set = sources.iter().map(|source| source.parse().unwrap()).collect();
                            prop_assert_eq!(index.overlaps(&set), naive.overlaps(sources));
                        }
                    }
                }
            }
        }
    }
}

/// An index and a store after one listing of these Nodes, with these objects put and nothing settled.
fn cluster(nodes: &[(&str, &[(&str, &str)])], objects: Vec<Object>) -> (StatusIndex, Store) {
    let (mut index, mut store) = (StatusIndex::new(), Store::new());
    objects.iter().for_each(|object| index.put(object));
    store.require(index.keys_used().cloned());
    store.begin_relist();
    for (name, labels) in nodes {
        store.relist(NodeMeta { name, labels: labels.iter().copied(), annotations: [] });
    }
    index.nodes(&store.commit_relist());
    (index, store)
}

fn counts(settled: &[Settled]) -> Vec<(&str, u64)> {
    settled.iter().map(|settled| (&*settled.name, settled.count.nodes)).collect()
}

#[test]
fn the_worked_example_counts_two() {
    let members = vec![
        Member::node("k1".into()),
        Member::node("gone".into()),
        labels_member(MemberKind::Node, "gpu", LabelOperator::In, &["b"]),
        Member::hyper_node("k1".into()),
    ];
    let nodes: [(&str, &[(&str, &str)]); 3] = [("k1", &[("gpu", "a")]), ("k2", &[("gpu", "b")]), ("k3", &[])];
    let (mut index, store) = cluster(&nodes, vec![object("x", 1, None, members)]);
    let settled = index.settle(&view(&store));
    assert_eq!(counts(&settled), [("x", 2)]);
    assert_eq!(settled[0].count.missing, Missing { count: 1, first: vec!["gone".into()] });
}

#[test]
fn a_cycle_and_a_self_reference_are_counted_once() {
    let a = vec![Member::node("n1".into()), Member::hyper_node("b".into()), Member::hyper_node("a".into())];
    let b = vec![Member::node("n2".into()), Member::hyper_node("a".into())];
    let (mut index, store) =
        cluster(&[("n1", &[]), ("n2", &[])], vec![object("a", 1, None, a), object("b", 2, None, b)]);
    assert_eq!(counts(&index.settle(&view(&store))), [("a", 2), ("b", 2)]);
    index.delete("b");
    assert_eq!(counts(&index.settle(&view(&store))), [("a", 1)]);
}

#[test]
fn a_child_that_appears_late_reaches_its_ancestors() {
    let top = object("top", 2, None, vec![Member::hyper_node("leaf".into())]);
    let (mut index, store) = cluster(&[("n1", &[])], vec![top]);
    assert_eq!(counts(&index.settle(&view(&store))), [("top", 0)]);
    index.put(&object("leaf", 1, None, vec![Member::node("n1".into())]));
    assert_eq!(counts(&index.settle(&view(&store))), [("leaf", 1), ("top", 1)]);
}

#[test]
fn an_equal_object_is_nothing_to_settle() {
    let leaf = object("leaf", 1, None, vec![Member::node("n1".into()), regex_member(MemberKind::Node, "2")]);
    let (mut index, store) = cluster(&[("n1", &[]), ("n2", &[])], vec![leaf.clone()]);
    index.settle(&view(&store));
    index.put(&leaf);
    assert!(!index.is_dirty());
}

#[test]
fn missing_members_are_bounded_and_sorted() {
    let members = (0..25).rev().map(|i| Member::node(format!("m{i:02}").into())).collect();
    let (mut index, store) = cluster(&[("m03", &[])], vec![object("x", 1, None, members)]);
    let missing = index.settle(&view(&store))[0].count.missing.clone();
    let first: Vec<&str> = missing.first.iter().map(|name| &**name).collect();
    assert_eq!(missing.count, 24);
    assert_eq!(first, ["m00", "m01", "m02", "m04", "m05", "m06", "m07", "m08", "m09", "m10"]);
}

#[test]
fn a_label_without_a_column_keeps_the_last_count() {
    let leaf = |members| object("leaf", 1, None, members);
    let top = object("top", 2, None, vec![Member::hyper_node("leaf".into())]);
    let (mut index, mut store) =
        cluster(&[("n1", &[("gpu", "b")]), ("n2", &[])], vec![leaf(vec![Member::node("n1".into())]), top]);
    index.settle(&view(&store));
    index.put(&leaf(vec![
        labels_member(MemberKind::Node, "gpu", LabelOperator::DoesNotExist, &[]),
        Member::node("n1".into()),
    ]));
    assert_eq!(index.settle(&view(&store)), []);
    assert_eq!(index.get("top").map(|count| count.nodes), Some(1));
    store.require(index.keys_used().cloned());
    store.begin_relist();
    store.relist(NodeMeta { name: "n1", labels: [("gpu", "b")], annotations: [] });
    store.relist(NodeMeta { name: "n2", labels: [], annotations: [] });
    index.nodes(&store.commit_relist());
    assert_eq!(counts(&index.settle(&view(&store))), [("leaf", 2), ("top", 2)]);
}

#[test]
fn numbers_of_deleted_objects_are_used_again() {
    let mut index = StatusIndex::new();
    let store = Store::new();
    for i in 0..1000 {
        index.put(&object(
            "x",
            1,
            None,
            vec![Member::node(format!("m{i}").into()), Member::hyper_node(format!("c{i}").into())],
        ));
        index.nodes(&crate::snapshot::Change { added: vec![format!("n{i}").into()], ..Default::default() });
        index.settle(&view(&store));
        index.nodes(&crate::snapshot::Change { removed: vec![format!("n{i}").into()], ..Default::default() });
    }
    let (nodes, hyper_nodes) = index.numbers();
    assert!(nodes < 8 && hyper_nodes < 8, "{nodes} {hyper_nodes}");
}
