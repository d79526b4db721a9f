//! Plans for named situations, compared as text. Each plan is also executed, and no state on the way may have a fault.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::topology::naming::Desired;
use crate::topology::plan::Action;
use crate::topology::properties::cluster::{Cluster, Versions, arc};
use crate::topology::{Member, MemberKind, Object, Selector, Spec};

/// Name, tier, members: `@x` is the HyperNode x, everything else a Node.
type Shown<'a> = (&'a str, u32, &'a str);

fn spec((_, tier, members): Shown<'_>) -> Spec {
    let member = |word: &str| match word.strip_prefix('@') {
        Some(child) => Member::hyper_node(arc(child)),
        None => Member::node(word.into()),
    };
    Spec { tier, tier_name: None, members: members.split_whitespace().map(member).collect() }
}

fn object(shown: Shown<'_>) -> Object {
    Object {
        name: arc(shown.0),
        uid: format!("uid-{}", shown.0).into(),
        resource_version: "1".into(),
        created: 0,
        source: Some("label".parse().unwrap()),
        group_id: Some(arc(shown.0)),
        split_from: None,
        description: None,
        labels: BTreeMap::new(),
        owned_labels: BTreeSet::new(),
        shared_labels: BTreeSet::new(),
        spec: spec(shown),
    }
}

fn foreign(shown: Shown<'_>) -> Object {
    Object { source: None, group_id: None, ..object(shown) }
}

fn named(wanted: &[Shown<'_>]) -> Named {
    let desired = |shown: &Shown<'_>| Desired {
        continues: None,
        group_id: Some(arc(shown.0)),
        split_from: None,
        description: None,
        labels: BTreeMap::new(),
        spec: spec(*shown),
    };
    Named {
        source: "label".parse().unwrap(),
        objects: wanted.iter().map(|shown| (arc(shown.0), desired(shown))).collect(),
        held: BTreeSet::new(),
        name_conflicts: Vec::new(),
        tier_name_conflicts: Vec::new(),
    }
}

fn objects(stored: &[Shown<'_>]) -> Vec<Object> {
    stored.iter().map(|shown| object(*shown)).collect()
}

fn shared(stored: &[Object]) -> Vec<Arc<Object>> {
    stored.iter().cloned().map(Arc::new).collect()
}

/// Plans, executes step by step, and compares the text.
#[track_caller]
fn check_objects(stored: Vec<Object>, named: &Named, want: &str) -> Plan {
    let plan = diff(&shared(&stored), named);
    let lines: Vec<&str> = want.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(plan.to_string(), lines.join("\n"));
    let mut cluster = Cluster::of(stored);
    let before = cluster.faults();
    let mut versions = Versions::new();
    for (at, step) in plan.steps.iter().enumerate() {
        cluster.step(at, step, &named.source, &mut versions);
        let new: Vec<_> = cluster.faults().difference(&before).cloned().collect();
        assert!(new.is_empty(), "{new:?} after step {}", at + 1);
    }
    if plan.blocked.is_empty() {
        assert_eq!(cluster.differences(named), Vec::<String>::new());
    }
    assert!(diff(&cluster.observed(), named).is_empty());
    plan
}

#[track_caller]
fn check(stored: &[Shown<'_>], wanted: &[Shown<'_>], want: &str) {
    check_objects(objects(stored), &named(wanted), want);
}

#[test]
fn the_only_rack_of_a_spine_is_replaced_with_three_writes() {
    check(
        &[("spine", 2, "@old"), ("old", 1, "m1")],
        &[("spine", 2, "@new"), ("new", 1, "m2")],
        "1. create new: tier 1, 1 member
         2. update spine: drop old, add new; after 1 (creates new)
         3. delete old; after 2 (no longer lists old)",
    );
}

#[test]
fn a_node_moves_and_its_rack_is_deleted() {
    // `hypernode.md` 15.1, second half.
    check(
        &[("s1", 2, "@a7 @b1"), ("a7", 1, "m1 m2"), ("b1", 1, "m4"), ("c3", 1, "m9")],
        &[("s1", 2, "@a7"), ("a7", 1, "m1 m2 m4"), ("c3", 1, "m9")],
        "1. update a7: add 1 member
         2. update s1: drop b1
         3. delete b1; after 2 (no longer lists b1)",
    );
}

#[test]
fn an_upper_level_under_a_new_name_is_created_after_the_old_one_is_gone() {
    // `hypernode.md` 15.2, if nothing could be adopted.
    check(
        &[("s1", 2, "@a7 @b1"), ("a7", 1, "m1 m2"), ("b1", 1, "m4")],
        &[("s2", 2, "@a7 @b1"), ("a7", 1, "m1 m2"), ("b1", 1, "m4")],
        "1. delete s1
         2. create s2: tier 2, children a7 b1; after 1 (releases a7)",
    );
    // Below a root, the old one is released first and the new one claimed last, in one write of the root.
    check(
        &[("root", 3, "@s1 @z"), ("s1", 2, "@a7"), ("a7", 1, "m1"), ("z", 1, "m9")],
        &[("root", 3, "@s2 @z"), ("s2", 2, "@a7"), ("a7", 1, "m1"), ("z", 1, "m9")],
        "1. update root: drop s1 (a later step completes it)
         2. delete s1; after 1 (no longer lists s1)
         3. create s2: tier 2, children a7; after 2 (releases a7)
         4. update root: add s2; after 1 (same object), 3 (creates s2)",
    );
}

#[test]
fn children_that_swap_parents_cost_one_more_write() {
    check(
        &[("p", 2, "@a @b"), ("q", 2, "@c @d"), ("a", 1, "m1"), ("b", 1, "m2"), ("c", 1, "m3"), ("d", 1, "m4")],
        &[("p", 2, "@a @c"), ("q", 2, "@b @d"), ("a", 1, "m1"), ("b", 1, "m2"), ("c", 1, "m3"), ("d", 1, "m4")],
        "1. update p: drop b (a later step completes it)
         2. update q: drop c, add b; after 1 (releases b)
         3. update p: add c; after 1 (same object), 2 (releases c)",
    );
    // None of them is kept, but there is more than one.
    check(
        &[("p", 2, "@a @b"), ("q", 2, "@c @d"), ("a", 1, "m1"), ("b", 1, "m2"), ("c", 1, "m3"), ("d", 1, "m4")],
        &[("p", 2, "@c @d"), ("q", 2, "@a @b"), ("a", 1, "m1"), ("b", 1, "m2"), ("c", 1, "m3"), ("d", 1, "m4")],
        "1. update p: drop a (a later step completes it)
         2. update q: drop c d, add a (a later step completes it); after 1 (releases a)
         3. update p: drop b, add c d; after 1 (same object), 2 (releases c)
         4. update q: add b; after 2 (same object), 3 (releases b)",
    );
}

#[test]
fn a_child_that_moves_between_parents_that_keep_others_costs_two_writes() {
    check(
        &[("p", 2, "@a @b"), ("q", 2, "@c"), ("a", 1, "m1"), ("b", 1, "m2"), ("c", 1, "m3")],
        &[("p", 2, "@a"), ("q", 2, "@b @c"), ("a", 1, "m1"), ("b", 1, "m2"), ("c", 1, "m3")],
        "1. update p: drop b
         2. update q: add b; after 1 (releases b)",
    );
}

#[test]
fn a_circle_of_sole_children_is_opened_by_deleting_a_parent() {
    check(
        &[("p", 2, "@a"), ("q", 2, "@b"), ("a", 1, "m1"), ("b", 1, "m2")],
        &[("p", 2, "@b"), ("q", 2, "@a"), ("a", 1, "m1"), ("b", 1, "m2")],
        "1. delete p (a later step creates it again)
         2. update q: drop b, add a; after 1 (releases a)
         3. create p: tier 2, children b; after 1 (same object), 2 (releases b)",
    );
    // Its own parent releases it first.
    check(
        &[("r", 3, "@p @q"), ("p", 2, "@a"), ("q", 2, "@b"), ("a", 1, "m1"), ("b", 1, "m2")],
        &[("r", 3, "@p @q"), ("p", 2, "@b"), ("q", 2, "@a"), ("a", 1, "m1"), ("b", 1, "m2")],
        "1. update r: drop p (a later step completes it)
         2. delete p (a later step creates it again); after 1 (no longer lists p)
         3. update q: drop b, add a; after 2 (releases a)
         4. create p: tier 2, children b; after 2 (same object), 3 (releases b)
         5. update r: add p; after 1 (same object), 4 (creates p)",
    );
}

#[test]
fn an_object_with_one_child_that_its_parent_cannot_release_gets_a_placeholder_for_a_while() {
    check(
        &[("r", 3, "@p"), ("s", 3, "@q"), ("p", 2, "@a"), ("q", 2, "@b"), ("a", 1, "m1"), ("b", 1, "m2")],
        &[("r", 3, "@p"), ("s", 3, "@q"), ("p", 2, "@b"), ("q", 2, "@a"), ("a", 1, "m1"), ("b", 1, "m2")],
        "1. update p: drop a, add 1 member (a later step completes it)
         2. update q: drop b, add a; after 1 (releases a)
         3. update p: add b, drop 1 member; after 1 (same object), 2 (releases b)",
    );
}

#[test]
fn a_level_is_inserted() {
    // Several racks: each object is written in two parts, none is deleted.
    check(
        &[("s", 3, "@a @b @c"), ("a", 1, "m1"), ("b", 1, "m2"), ("c", 1, "m3")],
        &[("s", 3, "@n"), ("n", 2, "@a @b @c"), ("a", 1, "m1"), ("b", 1, "m2"), ("c", 1, "m3")],
        "1. update s: drop a c (a later step completes it)
         2. create n: tier 2, children a c (a later step completes it); after 1 (releases a)
         3. update s: drop b, add n; after 1 (same object), 2 (creates n)
         4. update n: add b; after 2 (same object), 3 (releases b)",
    );
    // One rack.
    check(
        &[("s", 3, "@a"), ("a", 1, "m1")],
        &[("s", 3, "@n"), ("n", 2, "@a"), ("a", 1, "m1")],
        "1. delete s (a later step creates it again)
         2. create n: tier 2, children a; after 1 (releases a)
         3. create s: tier 3, children n; after 1 (same object), 2 (creates n)",
    );
}

#[test]
fn a_level_is_removed() {
    check(
        &[("s", 3, "@n"), ("n", 2, "@a @b"), ("a", 1, "m1"), ("b", 1, "m2")],
        &[("s", 3, "@a @b"), ("a", 1, "m1"), ("b", 1, "m2")],
        "1. update n: drop a b, add 1 member (a later step completes it)
         2. update s: drop n, add a b; after 1 (releases a)
         3. delete n; after 1 (same object), 2 (no longer lists n)",
    );
    check(
        &[("s", 3, "@n @o"), ("n", 2, "@a"), ("o", 2, "@b"), ("a", 1, "m1"), ("b", 1, "m2")],
        &[("s", 3, "@n @b"), ("n", 2, "@a"), ("a", 1, "m1"), ("b", 1, "m2")],
        "1. update s: drop o (a later step completes it)
         2. delete o; after 1 (no longer lists o)
         3. update s: add b; after 1 (same object), 2 (releases b)",
    );
}

#[test]
fn circles_below_one_root_cost_it_two_writes() {
    check(
        &[("r", 4, "@s @t @z"), ("s", 3, "@a"), ("t", 3, "@b"), ("a", 1, "m1"), ("b", 1, "m2"), ("z", 1, "m3")],
        &[
            ("r", 4, "@s @t @z"),
            ("s", 3, "@x"),
            ("t", 3, "@y"),
            ("x", 2, "@a"),
            ("y", 2, "@b"),
            ("a", 1, "m1"),
            ("b", 1, "m2"),
            ("z", 1, "m3"),
        ],
        "1. update r: drop s t (a later step completes it)
         2. delete s (a later step creates it again); after 1 (no longer lists s)
         3. delete t (a later step creates it again); after 1 (no longer lists t)
         4. create x: tier 2, children a; after 2 (releases a)
         5. create y: tier 2, children b; after 3 (releases b)
         6. create s: tier 3, children x; after 2 (same object), 4 (creates x)
         7. create t: tier 3, children y; after 3 (same object), 5 (creates y)
         8. update r: add s t; after 1 (same object), 6 (creates s), 7 (creates t)",
    );
}

#[test]
fn tiers_change_in_place_and_parents_stay_above() {
    check(
        &[("s", 2, "@a"), ("a", 1, "m1")],
        &[("s", 3, "@a"), ("a", 2, "m1")],
        "1. update s: tier 2 to 3
         2. update a: tier 1 to 2; after 1 (keeps s above a)",
    );
    check(
        &[("s", 3, "@a"), ("a", 2, "m1")],
        &[("s", 2, "@a"), ("a", 1, "m1")],
        "1. update a: tier 2 to 1
         2. update s: tier 3 to 2; after 1 (keeps s above a)",
    );
    // The parent must release the child before the child's tier rises above the parent's.
    check(
        &[("s", 2, "@a @b"), ("a", 1, "m1"), ("b", 1, "m2")],
        &[("s", 2, "@b"), ("a", 3, "m1"), ("b", 1, "m2")],
        "1. update s: drop a
         2. update a: tier 1 to 3; after 1 (keeps s above a)",
    );
}

#[test]
fn unwanted_objects_are_deleted_from_the_top_down() {
    check(
        &[("r", 3, "@s"), ("s", 2, "@a @b"), ("a", 1, "m1"), ("b", 1, "m2")],
        &[],
        "1. delete r
         2. delete s; after 1 (no longer lists s)
         3. delete a; after 2 (no longer lists a)
         4. delete b; after 2 (no longer lists b)",
    );
}

#[test]
fn the_order_of_members_and_repetition_are_no_difference() {
    check(
        &[("s", 2, "@b @a @b"), ("a", 1, "m2 m1 m1"), ("b", 1, "m3")],
        &[("s", 2, "@a @b"), ("a", 1, "m1 m2"), ("b", 1, "m3")],
        "nothing to write",
    );
}

#[test]
fn an_object_that_a_foreign_parent_lists_is_not_deleted() {
    let mut stored = objects(&[("s", 2, "@a @b"), ("a", 1, "m1"), ("b", 1, "m2")]);
    stored.push(foreign(("mine", 5, "@s")));
    // It keeps its children too: they cannot be claimed by another.
    check_objects(
        stored,
        &named(&[("t", 2, "@a @c"), ("a", 1, "m1 m2"), ("c", 1, "m3")]),
        "1. update a: add 1 member
         2. create c: tier 1, 1 member
         3. create t: tier 2, children c; after 2 (creates c)
         blocked: b is not deleted: s, which this source cannot change, lists it
         blocked: s is not deleted: mine, which this source cannot change, lists it
         blocked: t does not list a: s, which this source cannot change, lists it",
    );
}

#[test]
fn a_child_that_a_foreign_parent_lists_is_not_claimed() {
    let mut stored = objects(&[("a", 1, "m1"), ("b", 1, "m2")]);
    stored.push(foreign(("mine", 5, "@a")));
    check_objects(
        stored.clone(),
        &named(&[("s", 2, "@a @b"), ("a", 1, "m1"), ("b", 1, "m2")]),
        "1. create s: tier 2, children b
         blocked: s does not list a: mine, which this source cannot change, lists it",
    );
    // With nothing else to list, the parent is not created, and no object above lists it.
    check_objects(
        stored,
        &named(&[("r", 3, "@s @b"), ("s", 2, "@a"), ("a", 1, "m1"), ("b", 1, "m2")]),
        "1. create r: tier 3, children b
         blocked: r does not list s: s does not exist as an object of this source
         blocked: s is not created: none of its members may be listed
         blocked: s does not list a: mine, which this source cannot change, lists it",
    );
}

#[test]
fn a_child_with_a_foreign_second_parent_is_released() {
    let mut stored = objects(&[("s", 2, "@a @b"), ("a", 1, "m1"), ("b", 1, "m2")]);
    stored.push(foreign(("mine", 5, "@a")));
    check_objects(
        stored,
        &named(&[("s", 2, "@a @b"), ("a", 1, "m1"), ("b", 1, "m2")]),
        "1. update s: drop a
         blocked: s does not list a: mine, which this source cannot change, lists it",
    );
}

#[test]
fn an_object_does_not_rise_above_a_foreign_parent() {
    let mut stored = objects(&[("a", 1, "m1")]);
    stored.push(foreign(("mine", 2, "@a")));
    check_objects(
        stored,
        &named(&[("a", 2, "m1 m2")]),
        "nothing to write
         blocked: a is not updated: mine, which this source cannot change, lists it and would not have a higher tier",
    );
}

#[test]
fn an_object_of_another_owner_is_never_written() {
    check_objects(
        vec![foreign(("a", 1, "m1")), object(("s", 2, "@b")), object(("b", 1, "m2"))],
        &named(&[("a", 1, "m1 m2"), ("s", 2, "@a @b"), ("b", 1, "m2")]),
        "nothing to write
         blocked: a is not updated: an object of that name does not belong to this source
         blocked: s does not list a: a does not exist as an object of this source",
    );
}

#[test]
fn an_object_that_is_held_back_is_not_written() {
    let mut named = named(&[("a", 1, "m1"), ("t", 2, "@b"), ("b", 1, "m2")]);
    named.held.insert(arc("s"));
    check_objects(
        objects(&[("s", 2, "@a @b"), ("a", 1, "m1"), ("b", 1, "m2"), ("t", 2, "@c"), ("c", 1, "m3")]),
        &named,
        "nothing to write
         blocked: c is not deleted: t, which this source cannot change, lists it
         blocked: t is not updated: none of its members may be listed
         blocked: t does not list b: s, which this source cannot change, lists it",
    );
}

#[test]
fn edits_by_hand_are_repaired() {
    // Two stored parents, a reference to itself, a child that does not exist, a tier that is too low.
    check(
        &[("s", 1, "@a @b @s"), ("t", 2, "@a @c @nowhere"), ("a", 1, "m1"), ("b", 1, "m2"), ("c", 1, "m3")],
        &[("s", 2, "@a @b"), ("t", 2, "@c"), ("a", 1, "m1"), ("b", 1, "m2"), ("c", 1, "m3")],
        "1. update s: drop s, tier 1 to 2
         2. update t: drop a nowhere",
    );
    // Two that list each other and nothing else, both unwanted.
    check(
        &[("x", 2, "@y"), ("y", 2, "@x")],
        &[],
        "1. update x: drop y, add 1 member (a later step completes it)
         2. delete y; after 1 (no longer lists y)
         3. delete x; after 1 (same object), 2 (no longer lists x)",
    );
    // One that lists itself and nothing else.
    check(&[("x", 2, "@x")], &[], "1. delete x");
}

#[test]
fn labels_of_others_stay_and_ours_are_removed() {
    let label = |object: &mut Object, key: &str| object.labels.insert(arc(key), arc("a7"));
    let mut ours = object(("a", 1, "m1"));
    label(&mut ours, "user/own");
    label(&mut ours, "ours/old");
    ours.owned_labels.insert(arc("ours/old"));
    let mut wanted = named(&[("a", 1, "m1")]);
    wanted.objects.get_mut("a").unwrap().labels.insert(arc("ours/new"), arc("a7"));
    let plan = check_objects(vec![ours], &wanted, "1. update a: labels ours/new ours/old");
    let Action::Update { write, .. } = &plan.steps[0].action else { panic!("{plan}") };
    // The apply that leaves it out removes what we own.
    assert!(write.remove_labels.is_empty());
}

#[test]
fn a_label_that_another_manager_owns_with_us_is_removed_by_name() {
    let mut ours = object(("a", 1, "m1"));
    for key in ["ours/old", "ours/shared"] {
        ours.labels.insert(arc(key), arc("a7"));
        ours.owned_labels.insert(arc(key));
    }
    ours.shared_labels.insert(arc("ours/shared"));
    let plan = check_objects(vec![ours], &named(&[("a", 1, "m1")]), "1. update a: labels ours/old ours/shared");
    let Action::Update { write, .. } = &plan.steps[0].action else { panic!("{plan}") };
    assert_eq!(write.remove_labels, [arc("ours/shared")].into());
}

#[test]
fn the_label_that_volcano_wrote_for_another_level_is_removed_by_name() {
    let mut volcanos = object(("a", 1, "m1"));
    volcanos.group_id = None;
    volcanos.spec.tier_name = Some(arc("ex.io/rack"));
    volcanos.labels = [(arc("ex.io/rack"), arc("a7")), (arc("user/own"), arc("x"))].into();
    let mut wanted = named(&[("a", 1, "m1")]);
    let desired = wanted.objects.get_mut("a").unwrap();
    desired.spec.tier_name = Some(arc("ex.io/tor"));
    desired.labels.insert(arc("ex.io/tor"), arc("a7"));
    let plan = check_objects(
        vec![volcanos.clone()],
        &wanted,
        "1. update a: tier name ex.io/rack to ex.io/tor, labels ex.io/rack ex.io/tor, annotations",
    );
    let Action::Update { write, .. } = &plan.steps[0].action else { panic!("{plan}") };
    assert_eq!(write.remove_labels, BTreeSet::from([arc("ex.io/rack")]));

    // The same level: the annotation is the one thing that is missing, and it is written once.
    let mut same = named(&[("a", 1, "m1")]);
    let desired = same.objects.get_mut("a").unwrap();
    desired.spec.tier_name = Some(arc("ex.io/rack"));
    desired.labels.insert(arc("ex.io/rack"), arc("a7"));
    check_objects(vec![volcanos], &same, "1. update a: annotations");
}

#[test]
fn members_that_this_source_did_not_write_are_a_difference() {
    let mut edited = object(("a", 1, "m1"));
    edited.spec.members.push(Member { kind: MemberKind::Node, selector: Selector::Regex(arc("m.*")) });
    edited.spec.members.push(Member { kind: MemberKind::HyperNode, selector: Selector::Absent });
    check_objects(vec![edited], &named(&[("a", 1, "m1")]), "1. update a: drop 2 members");
}

#[test]
fn a_second_write_builds_on_the_first() {
    let stored = objects(&[("p", 2, "@a @b"), ("q", 2, "@c"), ("a", 1, "1"), ("b", 1, "2"), ("c", 1, "3")]);
    let plan = diff(
        &shared(&stored),
        &named(&[("p", 2, "@a @c"), ("q", 2, "@b"), ("a", 1, "1"), ("b", 1, "2"), ("c", 1, "3")]),
    );
    let bases: Vec<String> = plan
        .steps
        .iter()
        .map(|step| match &step.action {
            Action::Update { base: crate::topology::plan::Base::Step(first), .. } => {
                format!("{} after {first}", step.name)
            }
            _ => step.name.to_string(),
        })
        .collect();
    assert_eq!(bases, ["p", "q", "p after 1"]);
}

#[test]
fn an_empty_answer_needs_no_write_when_the_source_has_no_objects() {
    assert_eq!(diff(&[], &named(&[])), Plan::default());
    let stored = vec![foreign(("mine", 3, "@mine @nowhere"))];
    assert_eq!(diff(&shared(&stored), &named(&[])), Plan::default());
}
