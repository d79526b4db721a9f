//! Nodes without a place: a finding names the reason.

use crate::fabrics::{annotated, body, entry, groups, link, linked, node, nodes, reports, round, serve};
use topoloom_sdk::testing::{Cluster, Reply};

const CODES: [&str; 3] = ["no-entry", "no-links", "unused-entry"];
const START: &str = "no-links | source | no Node has a link that counts:";

/// What is said of Nodes with these entries, and that no group came of them.
fn said(annotated: &[(&str, String)], config: &str) -> Vec<String> {
    let cluster = self::annotated(annotated);
    let answer = round(&cluster, config).unwrap();
    assert!(groups(&cluster, &answer).is_empty());
    reports(&cluster, &answer, &CODES)
}

fn served(names: &[&str], entries: &[String], more: &str, config: &str) -> (Cluster, Vec<String>) {
    let text = body(entries, more);
    let (cluster, _) = serve(nodes(names), "fabric", move |_, _| Reply::new(200, text.clone()));
    let answer = round(&cluster, config).unwrap();
    let said = reports(&cluster, &answer, &CODES);
    (cluster, said)
}

#[test]
fn nodes_that_no_carrier_mentions_are_named_in_one_report() {
    let config = r#"{"endpoint": "f"}"#;
    let (_, empty) = served(&["n1", "n2"], &[], "", config);
    let none = format!("{START} the source lists no usable link of a host");
    assert_eq!(empty, ["no-entry | n1 n2 | 2 Nodes have no entry (the service): n1, n2", none.as_str()]);
    let (_, one) = served(&["n1", "n2"], &[node("n1", &[1])], "", config);
    assert_eq!(one, ["no-entry | n2 | 1 Node has no entry (the service): n2"]);
    let (_, adding) = served(&["n1", "n2"], &[node("n1", &[1])], r#", "complete": false"#, config);
    assert!(adding.is_empty(), "a document that only adds says nothing about the others: {adding:?}");
}

#[test]
fn a_name_that_leads_to_a_node_is_its_entry_and_so_is_a_bad_one() {
    let config = r#"{"endpoint": "f", "hostMap": {"x": "n1"}, "rewrite": [{"regex": "^ib-(.*)$", "replace": "$1"}]}"#;
    let named = [node("x", &[1]), node("N2.example.com", &[1]), node("ib-n3", &[1])];
    let (_, said) = served(&["n1", "n2", "n3"], &named, "", config);
    assert!(said.is_empty(), "{said:?}");
    let bad = [("n1", linked(&[link("rdma0", 1)])), ("n2", "{".to_owned())];
    let cluster = annotated(&bad);
    assert!(reports(&cluster, &round(&cluster, "{}").unwrap(), &CODES).is_empty());
}

#[test]
fn many_nodes_without_an_entry_are_counted() {
    let names: Vec<String> = (0..30).map(|number| format!("n{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (_, said) = served(&names, &[node("n00", &[1])], "", r#"{"endpoint": "f"}"#);
    assert!(said.len() == 1 && said[0].contains("29 Nodes") && said[0].ends_with("n20 and 9 more"), "{said:?}");
}

#[test]
fn an_entry_of_which_no_link_counts_says_why() {
    let storage = r#"{"if": "st0", "role": "storage", "switch": {"name": "st"}}"#.to_owned();
    let lo = || link("lo", 1);
    let none = format!("{START} the source lists no usable link of a host");
    let interfaces = format!("{START} the only link is left out by `interfaces`");
    for (entry, config, all, own) in [
        (linked(&[]), "{}", none.clone(), "the entry has no link"),
        (
            linked(&[lo()]),
            "{}",
            interfaces.clone(),
            "no link counts, of 1 in the entry: 1 left out by `interfaces` (lo)",
        ),
        (
            linked(std::slice::from_ref(&storage)),
            "{}",
            format!("{START} the only link is left out by `roles`"),
            "no link counts, of 1 in the entry: 1 left out by `roles` (storage)",
        ),
        (
            linked(&[lo(), storage, r#"{"if": "rdma0", "up": false}"#.to_owned()]),
            "{}",
            format!("{START} of 2 links, 1 left out by `interfaces`, 1 left out by `roles`"),
            "no link counts, of 3 in the entry: 1 left out by `interfaces` (lo), 1 left out by `roles` (storage), \
             1 down, with no switch",
        ),
        (
            linked(&[link("rdma0", 1)]),
            r#"{"interfaces": {"include": ["^x"]}}"#,
            interfaces.clone(),
            "no link counts, of 1 in the entry: 1 left out by `interfaces` (rdma0)",
        ),
        (
            linked(&[link("rdma0", 1), link("rdma1", 2)]),
            r#"{"switches": {"exclude": ["leaf"]}}"#,
            format!("{START} all 2 links are left out by `switches.exclude`"),
            "no link counts, of 2 in the entry: all left out by `switches.exclude`",
        ),
        (
            self::entry(
                r#""lldpcli": {"lldp": {"interface": {"rdma0": {"chassis": {"a": {"id": {"type": "mac", "value": "7c:8c:09:aa:bb:01"}}}}}}}"#,
            ),
            r#"{"roles": ["storage"]}"#,
            format!("{START} the only link is left out by `roles`"),
            "no link counts, of 1 in the entry: 1 left out by `roles` (compute)",
        ),
    ] {
        let found = said(&[("n1", entry)], config);
        assert_eq!(found, [all, format!("unused-entry | n1 | {own}")], "{config}");
    }
}

#[test]
fn a_link_that_is_down_is_no_link_that_counts() {
    let down = entry(r#""links": [{"if": "a", "up": false, "switch": {"name": "leaf1"}}]"#);
    assert_eq!(said(&[("n1", down)], "{}"), [format!("{START} the only link is down")]);
}
