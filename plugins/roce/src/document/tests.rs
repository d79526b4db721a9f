//! Entries and bodies, as they should be and as they are.

use super::*;

fn rules() -> Rules {
    Rules { include: Vec::new(), exclude: Vec::new(), roles: vec![Role::Compute], protocols: Protocols::Lldp }
}

fn links(list: &str) -> String {
    format!(r#"{{"schema": "topoloom.fabric/v1", "observedAt": "2026-03-04T05:06:07Z", "links": {list}}}"#)
}

fn own(text: &str) -> Result<Entry, String> {
    Entry::parse(text.as_bytes(), Speaker::Node("n1"), &rules())
}

/// Links, then notes, as text.
fn shown(text: &str, rules: &Rules) -> Vec<String> {
    let entry = Entry::parse(text.as_bytes(), Speaker::Node("n1"), rules).unwrap_or_else(|why| panic!("{why}: {text}"));
    let link = |link: &super::entry::Link| {
        format!("{} {} {} {:?}", link.interface, crate::lldp::show(&link.switch), link.port, link.state)
    };
    let notes = entry.notes.iter().map(|(code, text)| format!("! {code} {text}"));
    entry.links.iter().map(link).chain(notes).collect()
}

const LEAF: &str = r#"{"name": "leaf1", "chassis": "mac:7c:8c:09:aa:bb:01"}"#;

#[test]
fn an_entry_with_every_key_is_read() {
    let text = r#"{"schema": "topoloom.fabric/v1", "node": "n1", "observedAt": "2026-03-04T05:06:07Z",
        "collector": "lldpd 1.0.18", "links": [{"if": "rdma0", "rail": 0, "plane": "a", "role": "compute",
        "switch": {"name": "leaf1", "chassis": "mac:7c:8c:09:aa:bb:01"}, "port": "swp17s0", "up": true,
        "speedMbps": 400000}], "new": {"in": ["later", "versions"]}}"#;
    let entry = own(text).unwrap();
    assert_eq!((entry.node.as_deref(), entry.observed), (Some("n1"), 1_772_600_767_000));
    assert_eq!(shown(text, &rules()), [r#"rdma0 "leaf1" (mac:7c:8c:09:aa:bb:01) swp17s0 Up"#]);
}

#[test]
fn an_entry_that_cannot_be_trusted_is_refused_with_the_reason() {
    for (text, why) in [
        ("", "the text ends too early"),
        ("[]", "not a JSON object"),
        (r#"{"links": []}"#, "schema is missing"),
        (
            r#"{"schema": "topoloom.fabric/v2", "observedAt": "2026-03-04T05:06:07Z", "links": []}"#,
            "topoloom.fabric/v2",
        ),
        (r#"{"schema": 1}"#, "schema is a number"),
        (
            r#"{"schema": "topoloom.fabric/v1", "node": "n2", "observedAt": "2026-03-04T05:06:07Z", "links": []}"#,
            "its own node",
        ),
        (r#"{"schema": "topoloom.fabric/v1", "node": 1, "links": []}"#, "node is a number"),
        (r#"{"schema": "topoloom.fabric/v1", "links": []}"#, "observedAt is missing"),
        (r#"{"schema": "topoloom.fabric/v1", "observedAt": "today", "links": []}"#, "today"),
        (r#"{"schema": "topoloom.fabric/v1", "observedAt": "2026-03-04T05:06:07Z"}"#, "links or lldpcli is required"),
        (&links("{}"), "links is a mapping"),
        (&links(&format!("[{}]", vec!["{}"; MAX_LINKS + 1].join(","))), "65 links, at most 64"),
        (&links(&format!("[{}]", " ".repeat(MAX_ENTRY))), "at most 16384"),
    ] {
        let error = own(text).unwrap_err();
        assert!(error.contains(why), "{error} | {text}");
    }
    assert!(Entry::parse(&[0xff; 4], Speaker::Node("n1"), &rules()).unwrap_err().contains("UTF-8"));
    assert!(Entry::parse(links("[]").as_bytes(), Speaker::Document, &rules()).unwrap_err().contains("node is missing"));
}

#[test]
fn a_link_that_is_wrong_costs_itself_alone() {
    let list = format!(
        r#"[{{"if": "a", "switch": {LEAF}}}, {{"switch": {LEAF}}}, {{"if": "b", "switch": {{}}}}, 7,
           {{"if": "c", "switch": {{"name": 5}}}}, {{"if": "d", "switch": "leaf1"}}, {{"if": "e", "up": "yes"}},
           {{"if": "f", "role": "spare", "switch": {LEAF}}}]"#
    );
    let shown = shown(&links(&list), &rules());
    assert_eq!(shown[0], r#"a "leaf1" (mac:7c:8c:09:aa:bb:01)  Up"#);
    assert_eq!(shown.len(), 2);
    for part in [
        "links[1]: if is",
        "links[2]: the switch has",
        "links[3]: expected a link",
        "links[4]: switch.name",
        "links[5]",
        "links[6]: up",
        "links[7]: role is \"spare\"",
    ] {
        assert!(shown[1].contains(part), "{part}: {}", shown[1]);
    }
}

#[test]
fn what_is_of_no_interest_may_have_any_type() {
    let list = format!(r#"[{{"if": "a", "switch": {LEAF}, "rail": "x", "plane": 7, "speedMbps": "400G"}}]"#);
    assert_eq!(shown(&links(&list), &rules()).len(), 1);
}

#[test]
fn only_the_roles_that_are_asked_for_count() {
    let link = |name: &str, role: &str| format!(r#"{{"if": "{name}", "role": "{role}", "switch": {LEAF}}}"#);
    let list = format!("[{},{},{}]", link("a", "compute"), link("b", "storage"), link("c", "mgmt"));
    assert_eq!(shown(&links(&list), &rules()).len(), 1);
    let all = Rules { roles: vec![Role::Compute, Role::Storage, Role::Mgmt], ..rules() };
    assert_eq!(shown(&links(&list), &all).len(), 3);
    let storage = Rules { roles: vec![Role::Storage], ..rules() };
    assert_eq!(shown(&links(&list), &storage), [r#"b "leaf1" (mac:7c:8c:09:aa:bb:01)  Up"#]);
}

#[test]
fn interfaces_are_taken_and_left_out_by_name() {
    let link = |name: &str| format!(r#"{{"if": "{name}", "switch": {LEAF}}}"#);
    let list = format!("[{},{},{}]", link("rdma0"), link("rdma9"), link("eth0"));
    let regexes = |text: &str| vec![Regex::new(text).unwrap()];
    let rules = Rules { include: regexes(r"^rdma\d+$"), exclude: regexes("9$"), ..rules() };
    assert_eq!(shown(&links(&list), &rules), [r#"rdma0 "leaf1" (mac:7c:8c:09:aa:bb:01)  Up"#]);
}

#[test]
fn a_link_that_is_down_is_known_as_down() {
    let list = format!(r#"[{{"if": "a", "up": false, "switch": {LEAF}}}, {{"if": "b", "up": false}}]"#);
    assert_eq!(shown(&links(&list), &rules()), [r#"a "leaf1" (mac:7c:8c:09:aa:bb:01)  Down"#]);
}

#[test]
fn a_link_that_is_up_without_neighbour_is_reported() {
    let list =
        format!(r#"[{{"if": "a", "switch": {LEAF}}}, {{"if": "b"}}, {{"if": "c", "switch": null, "up": true}}]"#);
    assert_eq!(shown(&links(&list), &rules())[1], "! no-neighbour link up, no neighbour: b; c");
    let text = r#"{"schema": "topoloom.fabric/v1", "observedAt": "2026-03-04T05:06:07Z", "upInterfaces": ["rdma0", "rdma1"],
        "lldpcli": {"lldp": {"interface": {"rdma0": {"chassis": {"id": {"type": "mac", "value": "7c:8c:09:aa:bb:01"}}}}}}}"#;
    assert_eq!(shown(text, &rules())[1], "! no-neighbour link up, no neighbour: rdma1");
    let silent = r#"{"schema": "topoloom.fabric/v1", "observedAt": "2026-03-04T05:06:07Z", "lldpcli": {"lldp": [{}]}}"#;
    assert_eq!(shown(silent, &rules()), ["! no-neighbour link up, no neighbour: no interface has a neighbour"]);
}

#[test]
fn a_chassis_id_that_is_no_mac_address_is_reported_and_the_name_counts() {
    for chassis in ["mac:7c:8c:09:aa:bb", "mac:7c:8c:09:aa:bb:0g", "7c:8c:09:aa:bb"] {
        let why = format!(
            "chassis {chassis:?} is not a MAC address: six pairs of hexadecimal digits are expected, \
             such as \"mac:7c:8c:09:aa:bb:01\""
        );
        let list = format!(r#"[{{"if": "a", "switch": {{"name": "leaf1", "chassis": "{chassis}"}}}}]"#);
        let named = [r#"a "leaf1"  Up"#, &format!("! bad-link a: {why}; the switch is identified by its name alone")];
        assert_eq!(shown(&links(&list), &rules()), named);
        let list = format!(r#"[{{"if": "a", "switch": {{"chassis": "{chassis}"}}}}]"#);
        assert_eq!(shown(&links(&list), &rules()), [format!("! bad-link links[0]: {why}")]);
    }
    let lldpcli = |name: &str| {
        format!(
            r#"{{"schema": "topoloom.fabric/v1", "observedAt": "2026-03-04T05:06:07Z", "lldpcli": {{"lldp": [{{"interface":
            [{{"name": "a", "chassis": [{{"id": [{{"type": "mac", "value": "7c:8c:09"}}]{name}}}]}}]}}]}}}}"#
        )
    };
    let named = shown(&lldpcli(r#", "name": [{"value": "leaf1"}]"#), &rules());
    assert!(
        named[0] == r#"a "leaf1"  Up"# && named[1].starts_with("! bad-link a: chassis \"mac:7c:8c:09\""),
        "{named:?}"
    );
    let nameless = shown(&lldpcli(""), &rules());
    assert!(nameless.len() == 1 && nameless[0].starts_with("! bad-link a: chassis \"mac:7c:8c:09\""), "{nameless:?}");
}

#[test]
fn an_output_of_another_shape_is_refused_with_the_field_and_what_was_found() {
    let own = |lldpcli: &str| {
        let text = format!(
            r#"{{"schema": "topoloom.fabric/v1", "observedAt": "2026-03-04T05:06:07Z", "lldpcli": {lldpcli}}}"#
        );
        Entry::parse(text.as_bytes(), Speaker::Node("n1"), &rules())
    };
    for (lldpcli, why) in [
        (r#"{"lldp": 7}"#, "lldpcli.lldp is a number"),
        (r#"{"lldp": [true]}"#, "lldpcli.lldp is a boolean"),
        (r#"{"lldp": {"interface": 7}}"#, "lldpcli.lldp.interface is a number"),
        (r#"{"lldp": [{"interface": [7]}]}"#, "lldpcli.lldp.interface is a number"),
        (r#"{"lldp": {"interface": {"rdma0": 7}}}"#, "lldpcli.lldp.interface.rdma0 is a number"),
    ] {
        let expected = format!("{why}, an object or a list of objects is expected");
        assert_eq!(own(lldpcli).map(|_| ()), Err(expected), "{lldpcli}");
    }
    for silent in ["{\"lldp\": {}}", "{\"lldp\": []}", "{\"lldp\": [{}]}", "{\"lldp\": {\"interface\": []}}"] {
        let notes = own(silent).unwrap().notes;
        assert_eq!(notes.iter().map(|(code, _)| *code).collect::<Vec<_>>(), ["no-neighbour"], "{silent}");
    }
    let chassis = own(r#"{"lldp": {"interface": {"rdma0": {"chassis": 7}}}}"#).unwrap();
    assert_eq!(chassis.notes, [("bad-link", "rdma0: chassis is a number, an object is expected".to_owned())]);
}

#[test]
fn a_level_or_a_count_out_of_range_is_refused_with_its_value_and_the_range() {
    for (fields, why) in [
        (r#""level": 17"#, "level is 17, 1 to 16 is expected"),
        (r#""level": "1""#, "level is \"1\", 1 to 16 is expected"),
        (r#""uplinks": [{"to": "b", "count": 0}]"#, "uplinks[0]: count is 0, 1 to 65535 is expected"),
        (r#""uplinks": [{"to": "b", "count": 65536}]"#, "uplinks[0]: count is 65536, 1 to 65535 is expected"),
    ] {
        let text = format!(r#"{{"id": "a", {fields}}}"#);
        assert_eq!(Switch::parse(text.as_bytes()).map(|_| ()), Err(format!("switch a: {why}")));
    }
    let why = Switch::parse(br#"{"id": "mac:7c:8c"}"#).map(|_| ()).unwrap_err();
    assert!(why.starts_with("id is \"mac:7c:8c\": chassis \"mac:7c:8c\" is not a MAC address"), "{why}");
}

#[test]
fn an_interface_that_names_two_switches_counts_for_neither() {
    let list = format!(
        r#"[{{"if": "a", "switch": {LEAF}}}, {{"if": "a", "switch": {{"name": "leaf2"}}}}, {{"if": "b", "switch": {LEAF}}},
           {{"if": "b", "switch": {LEAF}}}]"#
    );
    let shown = shown(&links(&list), &rules());
    assert_eq!(shown[0], r#"b "leaf1" (mac:7c:8c:09:aa:bb:01)  Up"#);
    assert!(shown[1].starts_with("! several-neighbours a: both "), "{}", shown[1]);
}

#[test]
fn the_output_of_lldpcli_may_stand_in_an_entry_as_it_is_or_as_text() {
    let output = include_str!("../../seeds/two-interfaces.json0");
    let entry = |output: &str| {
        format!(r#"{{"schema": "topoloom.fabric/v1", "observedAt": "2026-03-04T05:06:07Z", "lldpcli": {output}}}"#)
    };
    let text = format!("{:?}", output);
    assert_eq!(shown(&entry(output), &rules()).len(), 2);
    assert_eq!(shown(&entry(&text), &rules()), shown(&entry(output), &rules()));
    assert!(own(&entry("\"{\"")).unwrap_err().contains("lldpcli"));
    assert!(own(&entry("7")).unwrap_err().contains("lldpcli"));
}

fn body(text: &str) -> Result<(Page, Sheet), String> {
    let mut sheet = Sheet::default();
    page(text.as_bytes(), &rules(), &mut sheet).map(|page| (page, sheet))
}

#[test]
fn a_body_is_read_with_its_switches_in_any_order() {
    let node = format!(
        r#"{{"node": "n1", "observedAt": "2026-03-04T05:06:07Z", "links": [{{"if": "a", "switch": {LEAF}}}]}}"#
    );
    let switch = r#"{"id": "7C:8C:09:AA:BB:01", "name": "leaf1", "level": 1,
        "uplinks": [{"to": "mac:7c:8c:09:aa:cc:01", "count": 4}, {"to": "spine2"}]}"#;
    for text in [
        format!(
            r#"{{"schema": "topoloom.fabric/v1", "generation": "g/1", "nodes": [{node}], "switches": [{switch}], "next": null}}"#
        ),
        format!(
            r#"{{"switches": [{switch}], "nodes": [{node}], "complete": true, "generation": "g/1", "schema": "topoloom.fabric/v1"}}"#
        ),
    ] {
        let (page, sheet) = body(&text).unwrap();
        assert_eq!(page, Page { generation: Some("g/1".to_owned()), complete: true, next: None });
        assert_eq!((sheet.hosts.len(), sheet.hosts[0].node.as_str(), sheet.bad), (1, "n1", 0));
        let expected = Switch {
            id: "mac:7c:8c:09:aa:bb:01".to_owned(),
            name: Some("leaf1".to_owned()),
            level: Some(1),
            uplinks: vec![("mac:7c:8c:09:aa:cc:01".to_owned(), 4), ("spine2".to_owned(), 1)],
        };
        assert_eq!(sheet.switches, [expected]);
    }
}

#[test]
fn a_body_that_is_broken_as_a_whole_is_an_error() {
    for (text, why) in [
        ("", "ends in the middle"),
        ("<html>", "neither"),
        ("[]", "a list where"),
        (r#"{"schema": "topoloom.fabric/v1"}"#, "list nodes is missing"),
        (r#"{"schema": "topoloom.fabric/v1", "nodes": {}}"#, "nodes is a mapping"),
        (r#"{"schema": "topoloom.fabric/v1", "nodes": [], "nodes": [1]}"#, "nodes is given twice"),
        (r#"{"schema": "topoloom.fabric/v1", "nodes": []"#, "ends in the middle"),
        (r#"{"schema": "topoloom.fabric/v1", "nodes": []}{"#, "follows the end"),
        (r#"{"nodes": []}"#, "schema is missing"),
        (r#"{"schema": "x", "nodes": []}"#, "schema is \"x\""),
        (r#"{"schema": "topoloom.fabric/v1", "nodes": [], "complete": "no"}"#, "complete is"),
        (r#"{"schema": "topoloom.fabric/v1", "nodes": [], "next": []}"#, "next is a list"),
    ] {
        let error = body(text).unwrap_err();
        assert!(error.contains(why), "{error} | {text}");
    }
    let long = format!(r#"{{"schema": "topoloom.fabric/v1", "nodes": [], "next": "{}"}}"#, "x".repeat(3000));
    assert!(body(&long).unwrap_err().contains("next has 3000 bytes"));
}

#[test]
fn entries_of_a_body_that_are_wrong_are_counted_and_named() {
    let text = r#"{"schema": "topoloom.fabric/v1", "nodes": [{"node": "n1", "links": []}, 7, NaN,
        {"node": "n2", "observedAt": "2026-03-04T05:06:07Z", "links": []}],
        "switches": [{"name": "x"}, {"id": "s", "level": 0}, {"id": "s", "uplinks": [{"to": "t", "count": 0}]}]}"#;
    let (_, sheet) = body(text).unwrap();
    assert_eq!((sheet.hosts.len(), sheet.switches.len(), sheet.bad), (1, 0, 6));
    let subjects: Vec<&str> = sheet.notes.iter().map(|note| note.subject.as_str()).collect();
    assert_eq!(subjects, ["n1", "nodes[1]", "nodes[2]", "n2", "switches[0]", "switches[1]", "switches[2]"]);
}

#[test]
fn an_entry_of_a_body_that_is_too_large_is_refused() {
    let text =
        format!(r#"{{"schema": "topoloom.fabric/v1", "nodes": [{{"node": "n1", "x": "{}"}}]}}"#, "x".repeat(MAX_ENTRY));
    assert_eq!(body(&text).unwrap().1.bad, 1);
}

#[test]
fn notes_are_bounded() {
    let mut sheet = Sheet::default();
    for number in 0..MAX_NOTES + 5 {
        sheet.note("bad-entry", &format!("n{number}"), "é".repeat(1000));
    }
    assert_eq!((sheet.notes.len(), sheet.more_notes), (MAX_NOTES, 5));
    assert!(sheet.notes.iter().all(|note| note.detail.len() <= MAX_DETAIL + 3));
}
