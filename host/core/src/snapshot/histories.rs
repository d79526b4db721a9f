//! Random histories against a rebuild from scratch.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{Change, ColumnKey, NodeMeta, Store, View};

type Pairs = BTreeMap<ColumnKey, String>;
type Nodes = BTreeMap<String, Pairs>;

#[derive(Debug, Clone)]
enum Step {
    Apply(u8, Pairs),
    Remove(u8),
    /// Happens in the cluster while no watch runs.
    Lost(u8, Option<Pairs>),
    Begin,
    /// The node, as the cluster has it, is added to the relist.
    List(u8),
    Commit,
    WholeRelist,
    Want(ColumnKey),
    Forget(ColumnKey),
    Look(Vec<ColumnKey>),
}

fn key() -> impl Strategy<Value = ColumnKey> {
    (0..5u8).prop_map(|i| match i {
        0..3 => ColumnKey::label(&format!("l{i}")),
        _ => ColumnKey::annotation(&format!("l{}", i - 3)),
    })
}

fn pairs() -> impl Strategy<Value = Pairs> {
    prop::collection::btree_map(
        key(),
        (0..4u8).prop_map(|i| if i == 0 { String::new() } else { format!("v{i}") }),
        0..4,
    )
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..8u8;
    prop_oneof![
        6 => (name.clone(), pairs()).prop_map(|(n, p)| Step::Apply(n, p)),
        3 => name.clone().prop_map(Step::Remove),
        2 => (name.clone(), prop::option::of(pairs())).prop_map(|(n, p)| Step::Lost(n, p)),
        1 => Just(Step::Begin),
        4 => name.prop_map(Step::List),
        1 => Just(Step::Commit),
        2 => Just(Step::WholeRelist),
        2 => key().prop_map(Step::Want),
        1 => key().prop_map(Step::Forget),
        2 => prop::collection::vec(key(), 0..5).prop_map(Step::Look),
    ]
}

/// The store's contract, implemented plainly.
#[derive(Default)]
struct Model {
    cluster: Nodes,
    wanted: BTreeSet<ColumnKey>,
    live: Nodes,
    columns: BTreeSet<ColumnKey>,
    staging: Option<(Nodes, BTreeSet<ColumnKey>)>,
}

impl Model {
    /// Names and values under the keys that have a column.
    fn visible(&self) -> Nodes {
        project(&self.live, &self.columns)
    }

    fn apply(&mut self, name: &str, pairs: Option<&Pairs>) {
        for nodes in [Some(&mut self.cluster), Some(&mut self.live), self.staging.as_mut().map(|(nodes, _)| nodes)] {
            let Some(nodes) = nodes else { continue };
            match pairs {
                Some(pairs) => nodes.insert(name.to_owned(), pairs.clone()),
                None => nodes.remove(name),
            };
        }
    }

    fn commit(&mut self) -> Vec<ColumnKey> {
        let Some((nodes, keys)) = self.staging.take() else { return Vec::new() };
        self.live = nodes;
        let completed = keys.difference(&self.columns).cloned().collect();
        self.columns = keys;
        completed
    }
}

fn project(nodes: &Nodes, keys: &BTreeSet<ColumnKey>) -> Nodes {
    let of = |pairs: &Pairs| {
        let mut pairs = pairs.clone();
        pairs.retain(|key, _| keys.contains(key));
        pairs
    };
    nodes.iter().map(|(name, pairs)| (name.clone(), of(pairs))).collect()
}

/// What a view shows, read through every accessor, which must agree.
fn read(view: &View, keys: &[ColumnKey]) -> Nodes {
    let mut nodes = Nodes::new();
    assert_eq!(view.rows() as usize, view.names().len());
    assert!(view.packed_names().iter().eq(view.names().iter().map(|name| &**name)));
    for (row, name) in (0u32..).zip(view.names()) {
        assert_eq!(view.find(name), Some(row));
        let mut pairs = Pairs::new();
        for key in keys {
            if let Some(column) = view.column(key) {
                assert_eq!(column.codes().len(), view.names().len());
                let code = column.codes()[row as usize];
                let value = (code > 0).then(|| column.dictionary().get(code as usize - 1).expect("code"));
                assert_eq!(view.value(row, key), value);
                pairs.extend(value.map(|value| (key.clone(), value.to_owned())));
            }
        }
        assert!(nodes.insert(name.to_string(), pairs).is_none(), "{name} has two rows");
    }
    assert_eq!(view.find("unknown"), None);
    nodes
}

/// The change between two states, from scratch.
fn difference(before: &Nodes, after: &Nodes, completed: Vec<ColumnKey>) -> Change {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut change = Change { completed, ..Change::default() };
    for name in names {
        let none = Pairs::new();
        let (old, new) = (before.get(name), after.get(name));
        let (old_pairs, new_pairs) = (old.unwrap_or(&none), new.unwrap_or(&none));
        let keys: BTreeSet<_> = old_pairs.keys().chain(new_pairs.keys()).collect();
        change.keys.extend(keys.into_iter().filter(|key| old_pairs.get(key) != new_pairs.get(key)).cloned());
        match (old, new) {
            (None, _) => change.added.push(name.as_str().into()),
            (_, None) => change.removed.push(name.as_str().into()),
            (Some(old), Some(new)) if old != new => change.changed.push(name.as_str().into()),
            _ => {}
        }
    }
    change
}

fn sorted(mut change: Change) -> Change {
    change.added.sort();
    change.removed.sort();
    change.changed.sort();
    change
}

fn meta<'a>(
    name: &'a str,
    pairs: &'a Pairs,
) -> NodeMeta<'a, impl Iterator<Item = (&'a str, &'a str)>, impl Iterator<Item = (&'a str, &'a str)>> {
    let of = move |label: bool| {
        let kind = pairs.iter().filter(move |(key, _)| matches!(key, ColumnKey::Label(_)) == label);
        kind.map(|(key, value)| (key.text(), value.as_str()))
    };
    NodeMeta { name, labels: of(true), annotations: of(false) }
}

fn every_key() -> Vec<ColumnKey> {
    let labels = (0..3).map(|i| ColumnKey::label(&format!("l{i}")));
    labels.chain((0..2).map(|i| ColumnKey::annotation(&format!("l{i}")))).collect()
}

proptest! {
    #[test]
    fn every_history_shows_what_a_rebuild_shows(steps in prop::collection::vec(step(), 0..60)) {
        let mut store = Store::new();
        let mut model = Model::default();
        let mut held: Vec<(View, Vec<ColumnKey>, Nodes)> = Vec::new();
        let all = every_key();
        for step in steps {
            let before = model.visible();
            let generation = store.generation();
            let mut completed = Vec::new();
            let change = match &step {
                Step::Apply(n, pairs) => {
                    model.apply(&format!("n{n}"), Some(pairs));
                    Some(store.apply(meta(&format!("n{n}"), pairs)))
                }
                Step::Remove(n) => {
                    model.apply(&format!("n{n}"), None);
                    Some(store.remove(&format!("n{n}")))
                }
                Step::Lost(n, pairs) => {
                    match pairs {
                        Some(pairs) => model.cluster.insert(format!("n{n}"), pairs.clone()),
                        None => model.cluster.remove(&format!("n{n}")),
                    };
                    None
                }
                Step::Begin => {
                    model.staging = Some((Nodes::new(), model.wanted.clone()));
                    store.begin_relist();
                    None
                }
                Step::List(n) => {
                    let name = format!("n{n}");
                    if let Some(pairs) = model.cluster.get(&name) {
                        store.relist(meta(&name, pairs));
                        if let Some((nodes, _)) = &mut model.staging {
                            nodes.insert(name, pairs.clone());
                        }
                    }
                    None
                }
                Step::Commit => {
                    completed = model.commit();
                    Some(store.commit_relist())
                }
                Step::WholeRelist => {
                    store.begin_relist();
                    for (name, pairs) in &model.cluster {
                        store.relist(meta(name, pairs));
                    }
                    model.staging = Some((model.cluster.clone(), model.wanted.clone()));
                    completed = model.commit();
                    Some(store.commit_relist())
                }
                Step::Want(key) => {
                    let new = model.wanted.insert(key.clone());
                    prop_assert_eq!(store.require([key.clone()]), if new { vec![key.clone()] } else { vec![] });
                    None
                }
                Step::Forget(key) => {
                    model.wanted.remove(key);
                    model.columns.remove(key);
                    if let Some((_, keys)) = &mut model.staging {
                        keys.remove(key);
                    }
                    store.forget([key]);
                    None
                }
                Step::Look(keys) => {
                    let view = store.view(keys);
                    let expected = project(&model.visible(), &keys.iter().cloned().collect());
                    prop_assert_eq!(read(&view, &all), expected.clone());
                    held.push((view, keys.clone(), expected));
                    None
                }
            };
            if let Some(change) = change {
                let expected = difference(&before, &model.visible(), completed);
                prop_assert_eq!(store.generation() > generation, !expected.is_empty());
                prop_assert_eq!(sorted(change), expected);
            }
            let view = store.view(&all);
            prop_assert_eq!(read(&view, &all), model.visible());
            let missing: BTreeSet<_> = view.missing().iter().cloned().collect();
            prop_assert!(missing.iter().eq(all.iter().filter(|key| !model.columns.contains(key))));
            prop_assert!(store.pending().iter().eq(model.wanted.difference(&model.columns)));
        }
        for (view, keys, expected) in held {
            prop_assert_eq!(read(&view, &keys), expected);
        }
    }
}

fn store_with(nodes: &[(&str, &[(&str, &str)])], keys: &[&str]) -> Store {
    let mut store = Store::new();
    store.require(keys.iter().map(|key| ColumnKey::label(key)));
    store.begin_relist();
    for (name, labels) in nodes {
        store.relist(NodeMeta { name, labels: labels.iter().copied(), annotations: [] });
    }
    store.commit_relist();
    store
}

#[test]
fn a_label_without_a_column_changes_nothing() {
    let mut store = store_with(&[("a", &[("rack", "1")])], &["rack"]);
    let generation = store.generation();
    let change = store.apply(NodeMeta { name: "a", labels: [("rack", "1"), ("heartbeat", "7")], annotations: [] });
    assert!(change.is_empty());
    assert_eq!(store.generation(), generation);
}

#[test]
fn readers_keep_the_old_contents_while_a_relist_runs() {
    let mut store = store_with(&[("a", &[("rack", "1")])], &["rack"]);
    let rack = ColumnKey::label("rack");
    store.begin_relist();
    store.relist(NodeMeta { name: "b", labels: [("rack", "2")], annotations: [] });
    let view = store.view(std::slice::from_ref(&rack));
    assert_eq!((view.find("b"), view.value(0, &rack)), (None, Some("1")));
    let change = store.commit_relist();
    assert!(change.concerns([&rack]));
    assert_eq!((change.added, change.removed), (vec!["b".into()], vec!["a".into()]));
    assert_eq!(view.find("a"), Some(0));
}

#[test]
fn a_key_wanted_during_a_relist_waits_for_the_next() {
    let mut store = store_with(&[("a", &[("rack", "1"), ("spine", "s")])], &["rack"]);
    let spine = ColumnKey::label("spine");
    store.begin_relist();
    assert_eq!(store.require([spine.clone()]).len(), 1);
    store.relist(NodeMeta { name: "a", labels: [("rack", "1"), ("spine", "s")], annotations: [] });
    assert!(store.commit_relist().is_empty());
    assert_eq!(store.pending(), std::slice::from_ref(&spine));
    assert_eq!(store.view(std::slice::from_ref(&spine)).missing(), [spine]);
}

#[test]
fn a_relist_of_the_same_nodes_copies_nothing() {
    let mut store = store_with(&[("a", &[("rack", "1")]), ("b", &[("rack", "2")])], &["rack"]);
    let rack = ColumnKey::label("rack");
    let before = store.view(std::slice::from_ref(&rack));
    store.begin_relist();
    store.relist(NodeMeta { name: "b", labels: [("rack", "2")], annotations: [] });
    store.relist(NodeMeta { name: "a", labels: [("rack", "1")], annotations: [] });
    assert!(store.commit_relist().is_empty());
    let after = store.view(std::slice::from_ref(&rack));
    let codes = |view: &View| view.column(&rack).expect("column").codes().as_ptr();
    assert_eq!(codes(&before), codes(&after));
    assert_eq!(before.names().as_ptr(), after.names().as_ptr());
}

#[test]
fn a_view_can_be_read_in_another_thread() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    shared(&Store::new().view(&[]));
}
