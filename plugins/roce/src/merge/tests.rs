//! Which entry of a node counts, and which Node a name leads to.

use super::*;
use crate::document::{Entry, LeftOut};

const MAX_AGE: u64 = 1000;

fn sheet(hosts: &[(&str, u64)]) -> Sheet {
    let mut sheet = Sheet::default();
    for &(node, observed) in hosts {
        let entry = Entry { node: None, observed, links: Vec::new(), notes: Vec::new(), left_out: LeftOut::default() };
        sheet.add(node, entry).unwrap();
    }
    sheet
}

/// Node, number of its carrier, age.
fn check(sheets: &[&[(&str, u64)]], time: u64, expected: &[(&str, usize, Age)]) {
    let sheets: Vec<Sheet> = sheets.iter().map(|hosts| sheet(hosts)).collect();
    let sheets: Vec<&Sheet> = sheets.iter().collect();
    let nodes: Packed = ["n1", "n2", "gpu-a"].iter().collect();
    let names = Names::new(&nodes, &[]);
    let merged = merge(&sheets, &names, time, MAX_AGE);
    let chosen: Vec<_> = merged.chosen.iter().map(|chosen| (chosen.node, chosen.sheet, chosen.age)).collect();
    assert_eq!(chosen, expected);
}

#[test]
fn the_first_carrier_with_a_fresh_entry_wins() {
    check(&[&[("n1", 9_500)], &[("n1", 10_000)]], 10_000, &[("n1", 0, Age::Fresh)]);
    check(&[&[("n2", 9_000)], &[("n1", 9_999)]], 10_000, &[("n1", 1, Age::Fresh), ("n2", 0, Age::Fresh)]);
}

#[test]
fn a_stale_entry_loses_against_any_fresh_one_but_beats_nothing() {
    check(&[&[("n1", 8_999)], &[], &[("n1", 9_000)]], 10_000, &[("n1", 2, Age::Fresh)]);
    check(&[&[("n1", 10)], &[("n1", 8_000)]], 10_000, &[("n1", 0, Age::Stale)]);
    check(&[&[], &[("n1", 10)]], 10_000, &[("n1", 1, Age::Stale)]);
}

#[test]
fn an_entry_from_the_future_is_never_fresh() {
    let ahead = 10_000 + CLOCK_SKEW + 1;
    check(&[&[("n1", ahead)], &[("n1", 9_500)]], 10_000, &[("n1", 1, Age::Fresh)]);
    check(&[&[("n1", ahead)]], 10_000, &[("n1", 0, Age::Ahead)]);
    check(&[&[("n1", ahead - 1)]], 10_000, &[("n1", 0, Age::Fresh)]);
}

#[test]
fn carriers_that_write_a_node_differently_mean_the_same_node() {
    let http: &[(&str, u64)] = &[("GPU-A.example.com", 9_999), ("N1", 9_999)];
    check(&[http, &[("gpu-a", 10_000), ("n1", 10_000)]], 10_000, &[("gpu-a", 0, Age::Fresh), ("n1", 0, Age::Fresh)]);
}

#[test]
fn a_machine_of_another_domain_is_no_node() {
    // Newer, but the exact name leads to the Node.
    let both: &[(&str, u64)] = &[("gpu-a.elsewhere", 9_999), ("gpu-a", 9_500)];
    check(&[both], 10_000, &[("gpu-a", 0, Age::Fresh), ("gpu-a.elsewhere", 0, Age::Fresh)]);
    let several: &[(&str, u64)] = &[("gpu-a.here", 9_999), ("gpu-a.there", 9_999)];
    let apart = [("gpu-a", 1, Age::Fresh), ("gpu-a.here", 0, Age::Fresh), ("gpu-a.there", 0, Age::Fresh)];
    check(&[several, &[("gpu-a", 9_000)]], 10_000, &apart);
}

#[test]
fn a_map_that_swaps_two_names_is_followed_once() {
    let sheet = sheet(&[("a", 9_999), ("b", 9_999)]);
    let nodes: Packed = ["a", "b"].iter().collect();
    let map = [("a".to_owned(), "b".to_owned()), ("b".to_owned(), "a".to_owned())];
    let merged = merge(&[&sheet], &Names::new(&nodes, &map), 10_000, MAX_AGE);
    let chosen: Vec<_> = merged.chosen.iter().map(|chosen| (chosen.node, chosen.host.node.as_str())).collect();
    assert_eq!(chosen, [("a", "b"), ("b", "a")]);
}

#[test]
fn the_map_leads_names_of_documents_and_no_annotation() {
    let mut own = sheet(&[("a", 9_999), ("b", 9_998)]);
    own.by = Author::Nodes;
    let nodes: Packed = ["a", "b"].iter().collect();
    let map = [("a".to_owned(), "b".to_owned()), ("x".to_owned(), "a".to_owned())];
    let names = Names::new(&nodes, &map);
    let chosen = |sheets: &[&Sheet]| -> Vec<(String, String)> {
        let merged = merge(sheets, &names, 10_000, MAX_AGE);
        merged.chosen.iter().map(|chosen| (chosen.node.to_owned(), chosen.host.node.clone())).collect()
    };
    let pair = |node: &str, host: &str| (node.to_owned(), host.to_owned());
    assert_eq!(chosen(&[&own]), [pair("a", "a"), pair("b", "b")]);
    assert_eq!(chosen(&[&sheet(&[("a", 9_999)]), &own]), [pair("a", "a"), pair("b", "a")]);
    assert_eq!((names.pinned("a"), names.pinned("b")), (Some(" a".to_owned()), None));
    assert_eq!(names.pins(), [(" a".to_owned(), "a".to_owned())]);
}

#[test]
fn a_node_that_is_there_twice_counts_once() {
    for hosts in [[("n1", 9_500), ("n1", 9_600)], [("n1", 9_600), ("n1", 9_500)]] {
        let sheet = sheet(&hosts);
        let nodes = Packed::default();
        let merged = merge(&[&sheet], &Names::new(&nodes, &[]), 10_000, MAX_AGE);
        assert_eq!((merged.chosen[0].host.observed, merged.doubles.len()), (9_600, 1));
    }
}

#[test]
fn the_next_change_of_age_is_known() {
    let sheet = sheet(&[("n1", 9_500), ("n2", 10), ("n3", 9_200)]);
    let nodes = Packed::default();
    let until = |time| merge(&[&sheet], &Names::new(&nodes, &[]), time, MAX_AGE).until;
    assert_eq!([until(10_000), until(10_201), until(20_000)], [10_201, 10_501, u64::MAX]);
}
