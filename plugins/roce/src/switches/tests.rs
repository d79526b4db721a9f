//! Which cables end at the same switch.

use super::*;

const A: &str = "mac:7c:8c:09:aa:bb:01";
const B: &str = "mac:7c:8c:09:aa:bb:02";

fn declared(id: &str, name: Option<&str>) -> Switch {
    Switch { id: id.to_owned(), name: name.map(str::to_owned), level: None, uplinks: Vec::new() }
}

/// The identity that each record (chassis, name) leads to; `!` for none, `-` for one that is left out.
fn ends(records: &[(&'static str, &'static str)], documents: &[Switch], exclude: &[&str]) -> Vec<String> {
    let said = |text: &'static str| Some(text).filter(|text| !text.is_empty());
    let records: Vec<Seen> =
        records.iter().map(|(chassis, name)| Seen::new(said(chassis), said(name)).unwrap()).collect();
    let exclude: Vec<Regex> = exclude.iter().map(|text| Regex::new(text).unwrap()).collect();
    let shown = |switches: &Switches| -> Vec<String> {
        let end = |seen| match switches.end(seen) {
            End::Switch(at) => switches.all[at].id.clone(),
            End::Excluded => "-".to_owned(),
            End::Nameless(_) => "!".to_owned(),
        };
        records.iter().map(end).collect()
    };
    let result = shown(&Switches::new(records.iter(), documents.iter(), &exclude));
    let backwards: Vec<&Seen> = records.iter().rev().collect();
    assert_eq!(shown(&Switches::new(backwards.into_iter(), documents.iter(), &exclude)), result, "another order");
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
fn the_names_that_images_give_are_nobodys() {
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
    let records = [Seen::new(Some(A), Some("leaf1")).unwrap(), Seen::new(Some(B), Some("leaf2")).unwrap()];
    let switches = Switches::new(records.iter(), documents.iter(), &[]);
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
    let records = [Seen::new(Some(A), Some("sonic")).unwrap(), Seen::new(Some(A), Some("leaf1.dc.example")).unwrap()];
    assert_eq!(Switches::new(records.iter(), [].iter(), &[]).all[0].name, "leaf1.dc.example");
}
