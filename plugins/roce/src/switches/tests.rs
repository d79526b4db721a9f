//! Which cables end at the same switch.

use super::*;

const A: &str = "mac:7c:8c:09:aa:bb:01";
const B: &str = "mac:7c:8c:09:aa:bb:02";

/// No switch goes by its name where it has a chassis id.
fn by_chassis(_: &SwitchClaim) -> bool {
    false
}

fn declared(id: &str, name: Option<&str>) -> Switch {
    Switch { id: id.to_owned(), name: name.map(str::to_owned), level: None, uplinks: Vec::new() }
}

/// The identity that each record (chassis, name) leads to; `!` for none, `-` for one that is left out.
fn ends(records: &[(&'static str, &'static str)], documents: &[Switch], exclude: &[&str]) -> Vec<String> {
    let said = |text: &'static str| Some(text).filter(|text| !text.is_empty());
    let records: Vec<SwitchClaim> =
        records.iter().map(|(chassis, name)| SwitchClaim::new(said(chassis), said(name)).unwrap()).collect();
    let exclude: Vec<Regex> = exclude.iter().map(|text| Regex::new(text).unwrap()).collect();
    let records: Vec<(SwitchClaim, Voice)> = records.into_iter().map(|seen| (seen, Voice::Confirmed)).collect();
    led(&records, documents, &exclude)
}

/// The same for records with who said them: `a`, `b` and so on are nodes, `*` is a document.
fn ends_by_author(
    records: &[(&'static str, &'static str, &'static str)],
    documents: &[Switch],
    exclude: &[&str],
) -> Vec<String> {
    let said = |text: &'static str| Some(text).filter(|text| !text.is_empty());
    let voice = |who: &str| if who == "*" { Voice::Confirmed } else { Voice::OneNode(u32::from(who.as_bytes()[0])) };
    let record = |&(who, chassis, name): &(_, _, _)| (SwitchClaim::new(said(chassis), said(name)).unwrap(), voice(who));
    let records: Vec<(SwitchClaim, Voice)> = records.iter().map(record).collect();
    let exclude: Vec<Regex> = exclude.iter().map(|text| Regex::new(text).unwrap()).collect();
    led(&records, documents, &exclude)
}

fn spoken(records: &[(SwitchClaim, Voice)]) -> impl Iterator<Item = (&SwitchClaim, Voice)> + Clone {
    records.iter().map(|(seen, voice)| (seen, *voice))
}

fn led(records: &[(SwitchClaim, Voice)], documents: &[Switch], exclude: &[Regex]) -> Vec<String> {
    let shown = |switches: &Switches| -> Vec<String> {
        let end = |(seen, _): &(SwitchClaim, Voice)| match switches.end(seen) {
            End::Switch(at) => switches.all[at].id.clone(),
            End::Excluded => "-".to_owned(),
            End::Nameless(_) => "!".to_owned(),
        };
        records.iter().map(end).collect()
    };
    let result = shown(&Switches::new(spoken(records), documents.iter(), exclude, by_chassis));
    let backwards: Vec<(SwitchClaim, Voice)> = records.iter().rev().cloned().collect();
    assert_eq!(
        shown(&Switches::new(spoken(&backwards), documents.iter(), exclude, by_chassis)),
        result,
        "another order"
    );
    result
}

#[test]
fn the_chassis_decides_first() {
    let records = [(A, "leaf1"), (A, "leaf1-new"), (B, "leaf1"), ("MAC:7C-8C-09-AA-BB-02", "")];
    assert_eq!(ends(&records, &[], &[]), [A, A, B, B]);
}

#[test]
fn a_name_that_several_chassis_have_is_useless() {
    assert_eq!(ends(&[(A, "leaf1"), (B, "leaf1"), ("", "leaf1")], &[], &[]), [A, B, "!"]);
    assert_eq!(ends(&[(A, "leaf1"), ("", "LEAF1")], &[], &[]), [A, A]);
}

#[test]
fn names_that_images_give_identify_no_switch() {
    for name in ["sonic", "Cumulus", "switch", "localhost", "localhost.localdomain"] {
        assert_eq!(ends(&[(A, name), ("", name), ("local:1", name)], &[], &[]), [A, "!", "!"], "{name}");
    }
}

#[test]
fn a_word_that_a_switch_chose_for_itself_counts_with_its_name() {
    let records = [("local:1", "leaf1"), ("local:1", "leaf2"), ("local:2", "leaf1"), ("ifname:1", ""), ("7", "leaf3")];
    assert_eq!(ends(&records, &[], &[]), ["local:1/leaf1", "local:1/leaf2", "local:2/leaf1", "!", "7/leaf3"]);
    // Another protocol calls the same switch by its name alone.
    assert_eq!(ends(&[(A, "leaf1"), ("local:leaf1", "leaf1")], &[], &[]), [A, A]);
}

#[test]
fn names_alone_are_switches_where_there_is_nothing_else() {
    assert_eq!(
        ends(&[("", "leaf1"), ("", "Leaf1."), ("", "leaf2")], &[], &[]),
        ["name:leaf1", "name:leaf1", "name:leaf2"]
    );
    assert_eq!(ends(&[("", "leaf1"), ("local:1", "leaf1")], &[], &[]), ["local:1/leaf1", "local:1/leaf1"]);
}

#[test]
fn a_short_name_and_a_long_one_are_compared_by_chassis_first() {
    assert_eq!(ends(&[(A, "leaf1.dc.example"), (A, "leaf1"), (B, "leaf1.dc2.example")], &[], &[]), [A, A, B]);
    assert_eq!(
        ends(&[(A, "leaf1.dc.example"), ("", "leaf1"), ("", "leaf1.other")], &[], &[]),
        [A, A, "name:leaf1.other"]
    );
    assert_eq!(ends(&[(A, "leaf1"), ("", "leaf1.dc.example")], &[], &[]), [A, A]);
    assert_eq!(ends(&[(A, "leaf1.a"), (B, "leaf1.b"), ("", "leaf1")], &[], &[]), [A, B, "!"]);
    assert_eq!(ends(&[("", "leaf1"), ("", "leaf1.a")], &[], &[]), ["name:leaf1", "name:leaf1"]);
    let apart = ["name:leaf1", "name:leaf1.a", "name:leaf1.b"];
    assert_eq!(ends(&[("", "leaf1"), ("", "leaf1.a"), ("", "leaf1.b")], &[], &[]), apart);
    assert_eq!(
        ends(&[("", "10.0.0.1"), ("", "10.0.0.2"), ("", "10")], &[], &[]),
        ["name:10.0.0.1", "name:10.0.0.2", "name:10"]
    );
}

#[test]
fn a_document_may_call_switches_by_chassis_name_or_anything() {
    let documents = [declared(A, Some("leaf1")), declared("rack-7", Some("leaf2")), declared("local:5", None)];
    let records = [("", "leaf1"), ("", "leaf2"), ("", "rack-7"), ("local:5", ""), (B, "leaf9")];
    assert_eq!(ends(&records, &documents, &[]), [A, "rack-7", "rack-7", "local:5", B]);
}

#[test]
fn an_identity_of_a_document_finds_the_chassis_that_cables_name() {
    let documents = [declared("leaf1", None), declared("x", Some("leaf2.example"))];
    let seen = |chassis, name| (SwitchClaim::new(Some(chassis), Some(name)).unwrap(), Voice::Confirmed);
    let records = [seen(A, "leaf1"), seen(B, "leaf2")];
    let switches = Switches::new(spoken(&records), documents.iter(), &[], by_chassis);
    let id = |id: &str| switches.all[switches.declared(id).unwrap()].id.clone();
    assert_eq!([id("leaf1"), id("x"), id(A)], [A, B, A]);
    assert_eq!(switches.declared("y"), None);
}

#[test]
fn a_switch_is_left_out_by_any_of_its_names() {
    let records = [(A, "oob-1"), (A, ""), ("", "oob-1"), (B, "leaf1")];
    assert_eq!(ends(&records, &[], &["(?i)OOB|mgmt"]), ["-", "-", "-", B]);
    assert_eq!(ends(&records, &[], &["bb:02$"]), [A, A, A, "-"]);
}

#[test]
fn the_readable_name_is_the_one_that_says_most() {
    let seen = |name, voice| (SwitchClaim::new(Some(A), Some(name)).unwrap(), voice);
    let records =
        [seen("sonic", Voice::Confirmed), seen("leaf1.dc.example", Voice::Confirmed), seen("x", Voice::OneNode(1))];
    assert_eq!(Switches::new(spoken(&records), [].iter(), &[], by_chassis).all[0].name, "leaf1.dc.example");
}

const X: &str = "mac:02:00:00:00:00:66";
const Y: &str = "mac:02:00:00:00:00:67";

#[test]
fn a_node_alone_does_not_say_where_the_names_of_others_lead() {
    // One chassis for two names would join two leaves; two chassis for one name would leave it without hosts.
    let tied = [("a", "", "leaf1"), ("b", "", "leaf9"), ("x", X, "leaf1"), ("x", X, "leaf9")];
    assert_eq!(ends_by_author(&tied, &[], &[]), ["name:leaf1", "name:leaf9", X, X]);
    let torn = [("a", "", "leaf1"), ("b", "", "leaf1"), ("x", X, "leaf1"), ("x", Y, "leaf1")];
    assert_eq!(ends_by_author(&torn, &[], &[]), ["name:leaf1", "name:leaf1", X, Y]);
    // The same by the long form of a name, and by chassis ids that are words.
    let long = [("a", "", "leaf1"), ("b", "", "leaf9"), ("x", X, "leaf1.x"), ("x", X, "leaf9.x")];
    assert_eq!(ends_by_author(&long, &[], &[]), ["name:leaf1", "name:leaf9", X, X]);
    let short = [("a", "", "leaf1.dc"), ("b", "", "leaf9.dc"), ("x", X, "leaf1"), ("x", X, "leaf9")];
    assert_eq!(ends_by_author(&short, &[], &[]), ["name:leaf1.dc", "name:leaf9.dc", X, X]);
    let words = [("a", "local:1", "leaf1"), ("b", "local:1", "leaf1"), ("x", X, "leaf1"), ("x", "local:2", "leaf1")];
    assert_eq!(ends_by_author(&words, &[], &[])[..3], ["local:1/leaf1", "local:1/leaf1", X]);
    let named = [("a", "", "leaf1"), ("b", "", "leaf1"), ("x", "local:1", "leaf1"), ("x", "local:2", "leaf1")];
    assert_eq!(ends_by_author(&named, &[], &[])[..2], ["name:leaf1", "name:leaf1"]);
    // A chassis that several nodes report gets no name from one of them.
    let records = [("a", A, ""), ("b", A, ""), ("c", "", "leaf9"), ("x", A, "leaf9")];
    assert_eq!(ends_by_author(&records, &[], &[]), [A, A, "name:leaf9", A]);
}

#[test]
fn two_nodes_or_a_document_decide_where_a_name_leads_against_a_single_one() {
    for more in [&[("x", X, "leaf1")][..], &[("x", X, "leaf1"), ("x", Y, "leaf1"), ("x", "local:1", "leaf1")]] {
        let with = |records: &[(&'static str, &'static str, &'static str)]| [records, more].concat();
        assert_eq!(ends_by_author(&with(&[("c", "", "leaf1"), ("a", A, "leaf1"), ("b", A, "LEAF1")]), &[], &[])[0], A);
        assert_eq!(ends_by_author(&with(&[("c", "", "leaf1"), ("*", A, "leaf1")]), &[], &[])[0], A);
        assert_eq!(
            ends_by_author(&with(&[("c", "", "leaf1"), ("a", A, "leaf1")]), &[declared(A, Some("leaf1"))], &[])[0],
            A
        );
        assert_eq!(
            ends_by_author(&with(&[("c", "", "leaf1"), ("d", "", "leaf1")]), &[declared("leaf1", None)], &[])[0],
            "leaf1"
        );
    }
    // Two that contradict two are the old case: the name says nothing.
    let two = [("c", "", "leaf1"), ("a", A, "leaf1"), ("b", A, "leaf1"), ("d", B, "leaf1"), ("e", B, "leaf1")];
    assert_eq!(ends_by_author(&two, &[], &[])[0], "!");
}

#[test]
fn a_node_alone_keeps_no_long_name_from_being_a_short_one() {
    let records = [("a", "", "leaf1"), ("b", "", "leaf1"), ("c", "", "leaf1.dc"), ("d", "", "leaf1.dc")];
    let against = [&records[..], &[("x", "", "leaf1.x")]].concat();
    assert_eq!(ends_by_author(&against, &[], &[])[..4], ["name:leaf1"; 4]);
    assert_eq!(ends_by_author(&[("a", "", "leaf1"), ("x", "", "leaf1.dc")], &[], &[]), ["name:leaf1"; 2]);
}

#[test]
fn a_node_alone_leaves_out_its_own_cables_only() {
    let records = [("a", A, "leaf1"), ("b", A, "leaf1"), ("x", A, "mgmt"), ("x", B, "mgmt"), ("x", "", "mgmt")];
    assert_eq!(ends_by_author(&records, &[], &["mgmt"]), [A, A, "-", "-", "-"]);
    assert_eq!(ends_by_author(&[("a", A, "mgmt"), ("b", A, "mgmt"), ("c", A, "")], &[], &["mgmt"]), ["-", "-", "-"]);
}

#[test]
fn a_document_finds_the_chassis_of_a_leaf_with_one_node() {
    let found = |records: &[(&'static str, &'static str, u32)], id: &str| {
        let seen = |&(chassis, name, who): &(_, _, _)| {
            let said = |text: &'static str| Some(text).filter(|text| !text.is_empty());
            (SwitchClaim::new(said(chassis), said(name)).unwrap(), Voice::OneNode(who))
        };
        let records: Vec<(SwitchClaim, Voice)> = records.iter().map(seen).collect();
        let documents = [declared("leaf1", None), declared("spine1", None)];
        let switches = Switches::new(spoken(&records), documents.iter(), &[], by_chassis);
        switches.all[switches.declared(id).unwrap()].id.clone()
    };
    assert_eq!(found(&[(A, "leaf1", 1)], "leaf1"), A);
    assert_eq!(found(&[(A, "leaf1", 1), ("", "leaf1", 2)], "leaf1"), "leaf1");
    // A leaf of several nodes does not get the name of a spine because one of them reports it.
    assert_eq!(found(&[(A, "leaf1", 1), (A, "leaf1", 2), (A, "spine1", 3)], "spine1"), "spine1");
    assert_eq!(found(&[("", "leaf7", 1)], "leaf7"), "name:leaf7");
}

#[test]
fn a_name_that_one_node_alone_claims_is_reported_where_others_need_it() {
    let seen = |chassis, name, who| (SwitchClaim::new(chassis, Some(name)).unwrap(), Voice::OneNode(who));
    let claim = seen(Some(A), "Leaf1", 7);
    let unproven =
        |records: &[(SwitchClaim, Voice)]| Switches::new(spoken(records), [].iter(), &[], by_chassis).unproven;
    assert!(unproven(std::slice::from_ref(&claim)).is_empty());
    let found = unproven(&[claim.clone(), seen(None, "leaf1.dc", 8)]);
    assert!(
        found.len() == 1 && found[0].0 == 7 && found[0].1.starts_with("only this node reports \"leaf1\" as "),
        "{found:?}"
    );
    assert!(unproven(&[claim, seen(Some(A), "leaf1", 9), seen(None, "leaf1", 8)]).is_empty());
}

#[test]
fn switches_identified_by_name_are_found_with_any_chassis_id() {
    let seen = |chassis, name| (SwitchClaim::new(Some(chassis), Some(name)).unwrap(), Voice::Confirmed);
    let records = [seen(A, "n9k-1"), seen(B, "N9K-1."), seen("local:7", "n9k-1"), seen(X, "other")];
    let by_name = |seen: &SwitchClaim| seen.name.as_deref() != Some("other");
    let ends = |documents: &[Switch]| -> Vec<String> {
        let switches = Switches::new(spoken(&records), documents.iter(), &[], by_name);
        let id = |(seen, _): &(SwitchClaim, Voice)| match switches.end(seen) {
            End::Switch(at) => switches.all[at].id.clone(),
            other => panic!("{other:?}"),
        };
        records.iter().map(id).collect()
    };
    assert_eq!(ends(&[]), ["name:n9k-1", "name:n9k-1", "name:n9k-1", X]);
    // A document calls it by the id of its supervisor, or by that of one of its ports.
    for id in [Y, A] {
        assert_eq!(ends(&[declared(id, Some("n9k-1"))]), [id, id, id, X]);
    }
    assert_eq!(ends(&[declared("n9k-1", None)]), ["n9k-1", "n9k-1", "n9k-1", X]);
}
