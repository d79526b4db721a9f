//! Merging in named situations.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::topology::model::{Group, LabelSelector, Members, Spec, Topology};
use crate::topology::properties::cluster::{Cluster, arc};
use crate::topology::{ValidateInput, validate};

fn source() -> SourceName {
    "ufm".parse().unwrap()
}

fn answer(coverage: Coverage, groups: &[(&str, u32, &str)]) -> Forest {
    let at = |id: &str| u32::try_from(groups.iter().position(|(other, ..)| *other == id).unwrap()).unwrap();
    let members = |text: &str| match text.strip_prefix('@') {
        Some(ids) => Members::Groups(ids.split_whitespace().map(at).collect()),
        None => Members::Names(text.split_whitespace().map(Into::into).collect()),
    };
    let group = |(id, tier, text): &(&str, u32, &str)| Group {
        id: arc(id),
        kind: None,
        fixed_name: Some(arc(id)),
        description: None,
        tier: *tier,
        tier_name: Some(arc(&format!("level-{tier}"))),
        labels: Vec::new(),
        members: members(text),
    };
    let topology = Topology { coverage, groups: groups.iter().map(group).collect(), diagnostics: Vec::new() };
    validate(&topology, &ValidateInput { source: &source(), nodes: &[], reserved_labels: &[] }).unwrap()
}

fn stored(groups: &[(&str, u32, &str)]) -> Cluster {
    let mut cluster = Cluster::default();
    cluster.settle(&answer(Coverage::Complete, groups), &source());
    cluster
}

/// Applies an additions-only answer and compares what is stored then.
#[track_caller]
fn check(mut cluster: Cluster, addition: &[(&str, u32, &str)], want: &[&str]) {
    let observed = cluster.observed();
    let forest = merge_additions(answer(Coverage::AdditionsOnly, addition), &source(), &observed);
    let plan = cluster.settle(&forest, &source());
    let shown = cluster.to_string().replace(" of ufm, tier ", " ");
    assert_eq!(shown.lines().collect::<Vec<_>>(), want, "after\n{plan}");
}

#[test]
fn a_node_that_is_mentioned_moves_and_the_others_stay() {
    check(
        stored(&[("leaf-a", 1, "n1 n2"), ("leaf-b", 1, "n3"), ("spine", 2, "@leaf-a leaf-b")]),
        &[("leaf-c", 1, "n2 n4")],
        &["leaf-a 1: n1", "leaf-b 1: n3", "leaf-c 1: n2 n4", "spine 2: @leaf-a @leaf-b"],
    );
}

#[test]
fn a_mentioned_group_keeps_nodes_that_the_answer_does_not_mention() {
    check(
        stored(&[("leaf-a", 1, "n1 n2"), ("leaf-b", 1, "n3"), ("spine", 2, "@leaf-a leaf-b")]),
        &[("leaf-a", 1, "n5"), ("leaf-c", 1, "n6"), ("spine", 2, "@leaf-c")],
        &["leaf-a 1: n1 n2 n5", "leaf-b 1: n3", "leaf-c 1: n6", "spine 2: @leaf-a @leaf-b @leaf-c"],
    );
}

#[test]
fn an_object_without_members_is_deleted_and_so_are_its_ancestors() {
    check(
        stored(&[("leaf-a", 1, "n1"), ("spine", 2, "@leaf-a"), ("top", 3, "@spine"), ("leaf-z", 1, "n9")]),
        &[("leaf-b", 1, "n1")],
        &["leaf-b 1: n1", "leaf-z 1: n9"],
    );
}

#[test]
fn the_answer_gives_a_child_another_parent() {
    check(
        stored(&[("leaf-a", 1, "n1"), ("leaf-b", 1, "n2"), ("spine", 2, "@leaf-a leaf-b")]),
        &[("leaf-a", 1, "n1"), ("other", 2, "@leaf-a")],
        &["leaf-a 1: n1", "leaf-b 1: n2", "other 2: @leaf-a", "spine 2: @leaf-b"],
    );
    // Also when it has a higher tier than its old parent: then it is a root.
    check(
        stored(&[("leaf-a", 1, "n1"), ("leaf-b", 1, "n2"), ("spine", 2, "@leaf-a leaf-b")]),
        &[("leaf-a", 3, "n1")],
        &["leaf-a 3: n1", "leaf-b 1: n2", "spine 2: @leaf-b"],
    );
}

#[test]
fn selectors_stay_and_labels_of_others_are_not_taken_over() {
    let mut cluster = stored(&[("leaf-a", 1, "n1"), ("leaf-b", 1, "n2")]);
    let edited = cluster.objects.get_mut("leaf-a").unwrap();
    edited.labels.insert(arc("user/own"), arc("x"));
    edited.group_id = None;
    let labels = LabelSelector { match_labels: [("k".into(), "v".into())].into(), match_expressions: Vec::new() };
    edited.spec.members.push(Member { kind: MemberKind::Node, selector: Selector::Labels(labels) });
    let observed = cluster.observed();
    let forest = merge_additions(answer(Coverage::AdditionsOnly, &[("leaf-c", 1, "n1")]), &source(), &observed);
    let named = cluster.named(&forest, &source());
    let kept = &named.objects["leaf-a"];
    assert_eq!((kept.labels.clone(), kept.group_id.clone()), (BTreeMap::new(), None));
    assert_eq!(kept.spec.members.len(), 1);
    let plan = cluster.plan(&named);
    assert_eq!(plan.to_string(), "1. update leaf-a: drop 1 member\n2. create leaf-c: tier 1 (level-1), 1 member");
}

#[test]
fn wrong_stored_objects_are_kept_as_far_as_possible() {
    let mut cluster = stored(&[("leaf-a", 1, "n1"), ("spine", 2, "@leaf-a"), ("other", 3, "n2")]);
    let spec = |tier: u32, name: &str, members: Vec<Member>| Spec { tier, tier_name: Some(arc(name)), members };
    let child = |name: &str| Member::hyper_node(arc(name));
    // A second parent, a parent whose tier is not higher, itself, an impossible tier, a tier name for two tiers.
    let wrong = spec(40, "level-1", vec![child("leaf-a"), child("other"), child("spine"), child("nowhere")]);
    cluster.objects.get_mut("other").unwrap().spec = wrong;
    cluster.objects.get_mut("leaf-a").unwrap().spec.tier = 0;
    let observed = cluster.observed();
    let forest = merge_additions(answer(Coverage::AdditionsOnly, &[("new", 1, "n7")]), &source(), &observed);
    let named = cluster.named(&forest, &source());
    let shown: BTreeSet<String> = named
        .objects
        .iter()
        .map(|(name, desired)| {
            let children: Vec<&str> = desired.spec.children().map(AsRef::as_ref).collect();
            format!("{name} {} {:?} {children:?}", desired.spec.tier, desired.spec.tier_name.as_deref())
        })
        .collect();
    let want = [
        "leaf-a 1 Some(\"level-1\") []",
        "new 1 Some(\"level-1\") []",
        "other 16 None [\"spine\"]",
        "spine 2 Some(\"level-2\") [\"leaf-a\"]",
    ];
    assert_eq!(shown, want.iter().map(ToString::to_string).collect());
}
