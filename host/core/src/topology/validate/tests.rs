//! Each rule with an answer that breaks it, and the sentence that names it.

use std::sync::Arc;

use super::*;
use crate::topology::model::{
    Coverage, Diagnostic, Group, LabelOperator, LabelRequirement, LabelSelector, Subject, Topology,
};

fn arc(text: &str) -> Arc<str> {
    Arc::from(text)
}

fn group(id: &str, tier: u32, members: Members) -> Group {
    Group {
        id: arc(id),
        kind: None,
        fixed_name: None,
        description: None,
        tier,
        tier_name: None,
        labels: Vec::new(),
        members,
    }
}

fn rows(id: &str, tier: u32, rows: &[u32]) -> Group {
    group(id, tier, Members::Rows(rows.to_vec()))
}

fn parent(id: &str, tier: u32, children: &[u32]) -> Group {
    group(id, tier, Members::Groups(children.to_vec()))
}

fn answer(groups: Vec<Group>) -> Topology {
    Topology { coverage: Coverage::Complete, groups, diagnostics: Vec::new() }
}

fn run(topology: &Topology) -> Result<Forest, Violations> {
    let nodes: Vec<NodeName> = ["n2", "n0", "n1", "n3"].map(NodeName::from).to_vec();
    validate(
        topology,
        &ValidateInput { source: &"label".parse().unwrap(), nodes: &nodes, reserved_labels: &["host/own"] },
    )
}

#[track_caller]
fn refused(groups: Vec<Group>, want: &[&str]) {
    let violations = run(&answer(groups)).expect_err("should be refused");
    let got: Vec<String> = violations.listed.iter().map(ToString::to_string).collect();
    assert_eq!(got, want);
    assert_eq!(violations.more, 0);
}

#[test]
fn a_valid_answer_becomes_a_sorted_forest() {
    let mut spine = parent("s", 2, &[2, 1]);
    spine.kind = Some(arc("Trn_2"));
    spine.labels = vec![(arc("ex.io/spine"), arc("s1"))];
    spine.tier_name = Some(arc("ex.io/spine"));
    let forest = run(&answer(vec![spine, rows("b", 1, &[3]), rows("a", 1, &[0, 1, 2])])).unwrap();
    let shown: Vec<_> = forest
        .domains()
        .iter()
        .map(|d| {
            let nodes: Vec<&str> = d.nodes.iter().map(|node| &**node).collect();
            (&*d.id, d.tier.get(), d.kind.as_str(), nodes, d.children.clone())
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("a", 1, "label", vec!["n0", "n1", "n2"], vec![]),
            ("b", 1, "label", vec!["n3"], vec![]),
            ("s", 2, "trn-2", vec![], vec![0, 1]),
        ]
    );
    assert_eq!(forest.overlaps().total, 0);
    assert_eq!(forest.nodes().len(), 4);
}

#[test]
fn the_hash_is_of_the_content_and_not_of_its_order() {
    let one = run(&answer(vec![rows("a", 1, &[0, 1]), parent("s", 2, &[0])])).unwrap();
    let same = run(&answer(vec![parent("s", 2, &[1]), rows("a", 1, &[1, 0])])).unwrap();
    let other = run(&answer(vec![parent("s", 2, &[1]), rows("a", 1, &[1, 2])])).unwrap();
    assert_eq!(one, same);
    assert_eq!(one.hash(), same.hash());
    assert_ne!(one.hash(), other.hash());
    assert_eq!(one.hash().as_str().len(), 12);
}

#[test]
fn ids_are_1_to_512_bytes_and_unique() {
    refused(
        vec![rows("", 1, &[0]), rows(&"x".repeat(513), 1, &[1]), rows("a", 1, &[2]), rows("a", 2, &[3])],
        &[
            "the id of the group at position 0 is 0 bytes long, 1 to 512 are allowed",
            "the id of the group at position 1 is 513 bytes long, 1 to 512 are allowed",
            "group \"a\": the id is used by an earlier group of this answer",
        ],
    );
}

#[test]
fn members_exist_and_are_listed_once() {
    refused(
        vec![
            rows("a", 1, &[0, 0, 9]),
            rows("empty", 1, &[]),
            group("names", 1, Members::Names(["ok", "ok", "N_1"].map(Into::into).into())),
            group("none", 1, Members::Names(vec![])),
            parent("kids", 2, &[]),
        ],
        &[
            "group \"a\": row 0 is a member twice",
            "group \"a\": row 9 does not exist, the snapshot has 4 rows",
            "group \"empty\": the group has no members",
            "group \"names\": member \"N_1\": must consist of lower-case letters, digits, '-' and '.', and each part \
             between dots must begin and end with a letter or digit",
            "group \"none\": the group has no members",
            "group \"kids\": the group has no members",
        ],
    );
}

#[test]
fn references_lead_down_and_give_one_parent() {
    refused(
        vec![
            rows("leaf", 1, &[0]),
            parent("p", 2, &[0, 0, 7]),
            parent("q", 2, &[0]),
            parent("self", 3, &[3]),
            parent("up", 1, &[2]),
        ],
        &[
            "group \"p\": group \"leaf\" is a member twice",
            "group \"p\": member group 7 does not exist, the answer has 5 groups",
            "group \"q\": member group \"leaf\" has two parents: it is already a member of group \"p\"",
            "group \"self\": member group \"self\" has tier 3, which is not below 3",
            "group \"up\": member group \"q\" has tier 2, which is not below 1",
        ],
    );
}

#[test]
fn tiers_kinds_names_and_labels_are_legal() {
    let mut wild = rows("wild", 17, &[0]);
    wild.kind = Some(arc(&"k".repeat(204)));
    wild.fixed_name = Some(arc("Not_A_Name"));
    wild.tier_name = Some(arc(&"t".repeat(254)));
    wild.labels =
        vec![(arc("a//b"), arc("v")), (arc("ok"), arc("-")), (arc("ok"), arc("v")), (arc("host/own"), arc("v"))];
    let fixed = |id: &str, row: u32| Group { fixed_name: Some(arc("leaf-hn-0")), ..rows(id, 1, &[row]) };
    refused(
        vec![wild, fixed("f1", 1), fixed("f2", 2)],
        &[
            "group \"wild\": tier 17 is not between 1 and 16",
            "group \"wild\": kind: is 204 bytes long, a kind may have 203 to leave room for the rest of the object name",
            "group \"wild\": fixed name \"Not_A_Name\": must consist of lower-case letters, digits, '-' and '.', and \
             each part between dots must begin and end with a letter or digit",
            "group \"wild\": the tier name is 254 bytes long, at most 253 are allowed",
            "group \"wild\": label key \"a//b\": must have at most one '/', between an optional prefix and the name",
            "group \"wild\": value \"-\" of label \"ok\": must consist of letters, digits, '-', '_' and '.', and begin \
             and end with a letter or digit",
            "group \"wild\": label \"ok\" is given twice",
            "group \"wild\": label \"host/own\" is written by the host alone",
            "group \"f2\": fixed name \"leaf-hn-0\" is used by an earlier group of this answer",
        ],
    );
}

#[test]
fn one_tier_name_belongs_to_one_tier_but_a_tier_may_have_several() {
    let named =
        |id: &str, tier: u32, row: u32, name: &str| Group { tier_name: Some(arc(name)), ..rows(id, tier, &[row]) };
    assert!(run(&answer(vec![named("a", 1, 0, "x"), named("b", 1, 1, "y"), named("c", 2, 2, "")])).is_ok());
    refused(
        vec![named("a", 1, 0, "x"), named("b", 2, 1, "x")],
        &["group \"b\": tier name \"x\" means tier 2 here and tier 1 in group \"a\""],
    );
}

#[test]
fn a_selector_selects_something_and_is_readable() {
    let requirement = |key: &str, operator, values: &[&str]| LabelRequirement {
        key: key.into(),
        operator,
        values: values.iter().map(ToString::to_string).collect(),
    };
    let wild = LabelSelector {
        match_labels: [("a b".to_owned(), "v".to_owned()), ("k".to_owned(), "-".to_owned())].into(),
        match_expressions: vec![
            requirement("k", LabelOperator::In, &[]),
            requirement("k", LabelOperator::Exists, &["v"]),
            requirement("k", LabelOperator::Unknown("Gt".into()), &["1"]),
        ],
    };
    let label = "must consist of letters, digits, '-', '_' and '.', and begin and end with a letter or digit";
    refused(
        vec![group("empty", 1, Members::Selector(LabelSelector::default())), group("wild", 1, Members::Selector(wild))],
        &[
            "group \"empty\": selector: it is empty and would select nothing",
            &format!("group \"wild\": selector: key \"a b\": {label}"),
            &format!("group \"wild\": selector: value \"-\" of \"k\": {label}"),
            "group \"wild\": selector: key \"k\": In and NotIn need at least one value, Exists and DoesNotExist must have none",
            "group \"wild\": selector: key \"k\": In and NotIn need at least one value, Exists and DoesNotExist must have none",
            "group \"wild\": selector: operator \"Gt\" is none of In, NotIn, Exists, DoesNotExist",
        ],
    );
}

#[test]
fn more_groups_than_make_sense_are_refused_at_once() {
    let many = (0..109).map(|at| rows(&format!("g{at}"), 1, &[0])).collect();
    refused(many, &["109 groups for 4 nodes, at most 108 are allowed (twice the nodes plus 100)"]);
}

#[test]
fn a_flood_of_mistakes_is_counted_and_not_listed() {
    let violations = run(&answer(vec![rows("a", 1, &[9; 1000])])).unwrap_err();
    assert_eq!((violations.listed.len(), violations.more, violations.total()), (100, 900, 1000));
    assert!(violations.to_string().ends_with("; and 900 more"), "{violations}");
}

#[test]
fn the_message_about_a_too_large_object_has_a_remedy() {
    let names = (0..20_000).map(|at| format!("node-{at:06}").into()).collect();
    refused(
        vec![group("all", 1, Members::Names(names))],
        &[
            "group \"all\": 20000 members make an object of about 1520000 bytes, at most 1258291 fit: split the group, or \
           select its nodes by a label",
        ],
    );
}

#[test]
fn a_node_in_two_groups_of_a_tier_is_allowed_and_reported() {
    let topology = answer(vec![
        rows("b", 1, &[0, 1]),
        group("a", 1, Members::Names(["n0", "n9", "n9"].map(Into::into).into())),
        rows("c", 2, &[1]),
    ]);
    let overlaps = run(&topology).unwrap().overlaps().clone();
    assert_eq!(overlaps.total, 1);
    let one = &overlaps.examples[0];
    assert_eq!((one.tier.get(), &*one.node), (1, "n0"));
    assert_eq!(one.groups, [arc("a"), arc("b")]);
    let rows_only = run(&answer(vec![rows("a", 1, &[0, 1]), rows("b", 1, &[1])])).unwrap();
    assert_eq!(rows_only.overlaps().total, 1);
}

#[test]
fn diagnostics_name_nodes_and_groups() {
    let mut topology = answer(vec![rows("a", 1, &[0])]);
    let diagnostic = |code: &str, subject| Diagnostic { code: arc(code), subject, detail: "d".into() };
    topology.diagnostics = vec![diagnostic("no-rack", Subject::Rows(vec![1, 3])), diagnostic("odd", Subject::Group(0))];
    let forest = run(&topology).unwrap();
    assert_eq!(
        forest.findings()[0].subject,
        crate::topology::FindingSubject::Nodes(["n0", "n3"].map(Into::into).into())
    );
    assert_eq!(forest.findings()[1].subject, crate::topology::FindingSubject::Group(arc("a")));
    topology.diagnostics = vec![
        diagnostic("No Rack", Subject::Source),
        diagnostic("row", Subject::Rows(vec![4])),
        diagnostic("group", Subject::Group(1)),
    ];
    let got: Vec<String> = run(&topology).unwrap_err().listed.iter().map(ToString::to_string).collect();
    assert_eq!(
        got,
        [
            "diagnostic code \"No Rack\": 1 to 64 of a-z, 0-9 and '-' are allowed",
            "a diagnostic names row 4, the snapshot has 4 rows",
            "a diagnostic names group 1, the answer has 1 groups",
        ]
    );
}
