use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use topoloom_fabric::{Link, Wiring, volcano};
use topoloom_sdk::testing::Cluster;

fn shown(links: &[(String, String)]) -> String {
    let mut wiring = Wiring::new();
    for (host, leaf) in links {
        let host = wiring.host(host);
        let leaf = wiring.switch(leaf, "");
        wiring.link(host, leaf, Link::down(""));
    }
    Cluster::new().show(&volcano(&wiring).into())
}

fn links(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(host, leaf)| ((*host).to_owned(), (*leaf).to_owned())).collect()
}

#[test]
fn the_worked_example_of_volcano() {
    let links = links(&[("dgx-02", "sw-b"), ("dgx-01", "sw-a"), ("dgx-01", "sw-b"), ("dgx-03", "sw-c")]);
    let expected = "tier 1 - | leaf-hn-0 |  | names dgx-01 dgx-02 | name leaf-hn-0\n\
                    tier 1 - | leaf-hn-1 |  | names dgx-03 | name leaf-hn-1\n\
                    tier 2 - | spine-hn |  | [leaf-hn-0 leaf-hn-1] | name spine-hn\n";
    assert_eq!(shown(&links), expected);
}

#[test]
fn what_the_discoverer_left_out_is_reported() {
    let mut wiring = Wiring::new();
    wiring.skip_many("no-peer", "ports lead nowhere", "\"a\", \"b\"", 3);
    let expected = "! no-peer | source | 3 ports lead nowhere, for instance \"a\", \"b\"\n";
    assert_eq!(Cluster::new().show(&volcano(&wiring).into()), expected);
}

#[test]
fn no_port_is_an_empty_answer_and_a_name_that_no_node_can_have_is_left_out() {
    assert_eq!(shown(&[]), "");
    let shown = shown(&links(&[("UPPER", "s1"), ("ok", "s1"), ("under_score", "s2"), ("", "s3"), ("x", "s4")]));
    let expected = "tier 1 - | leaf-hn-0 |  | names ok | name leaf-hn-0\n\
                    tier 1 - | leaf-hn-3 |  | names x | name leaf-hn-3\n\
                    tier 2 - | spine-hn |  | [leaf-hn-0 leaf-hn-3] | name spine-hn\n\
                    ! impossible-name | source | 3 hosts have names that no Node can have, for instance \"UPPER\"\n";
    assert_eq!(shown, expected);
}

/// Grows every component from a leaf until nothing is added.
fn naive(links: &[(String, String)]) -> String {
    let mut hosts_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (host, leaf) in links {
        hosts_of.entry(leaf).or_default().insert(host);
    }
    let mut lines = Vec::new();
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut number = 0;
    for first in hosts_of.keys() {
        if done.contains(first) {
            continue;
        }
        let mut leaves = BTreeSet::from([*first]);
        let mut hosts: BTreeSet<&str> = BTreeSet::new();
        loop {
            let before = (leaves.len(), hosts.len());
            leaves.iter().for_each(|leaf| hosts.extend(hosts_of[leaf].iter().copied()));
            leaves.extend(
                hosts_of.iter().filter(|(_, own)| own.iter().any(|host| hosts.contains(host))).map(|(leaf, _)| *leaf),
            );
            if before == (leaves.len(), hosts.len()) {
                break;
            }
        }
        done.extend(leaves);
        let names = hosts.into_iter().collect::<Vec<_>>().join(" ");
        lines.push(format!("tier 1 - | leaf-hn-{number} |  | names {names} | name leaf-hn-{number}\n"));
        number += 1;
    }
    if number > 0 {
        let mut names: Vec<String> = (0..number).map(|number| format!("leaf-hn-{number}")).collect();
        names.sort();
        lines.push(format!("tier 2 - | spine-hn |  | [{}] | name spine-hn\n", names.join(" ")));
    }
    lines.sort();
    lines.concat()
}

proptest! {
    #[test]
    fn connected_components_are_those_of_a_naive_search(pairs in prop::collection::vec((0..40_u32, 0..25_u32), 0..60)) {
        let links: Vec<(String, String)> = pairs.iter().map(|(host, leaf)| (format!("h{host}"), format!("S{leaf}"))).collect();
        prop_assert_eq!(shown(&links), naive(&links));
    }
}
