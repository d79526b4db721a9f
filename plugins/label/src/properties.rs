//! Laws for all labels: the answer is a forest, nothing occurs twice, the order of nodes does not matter, and the result is
//! Volcano's where Volcano's is well defined.

use std::collections::{BTreeMap, BTreeSet};

use crate::Label;
use proptest::prelude::*;
use topoloom_sdk::testing::Cluster;
use topoloom_sdk::{Answer, Members, Outcome, Topology};

/// Labels of a node, innermost first: rack, spine, zone.
type Node = [Option<String>; 3];
const KEYS: [&str; 3] = ["rack", "spine", "zone"];

fn config(extra: &str) -> String {
    format!(
        r#"{{{extra} "networkTopologyTypes": {{"t": [{{"nodeLabel": "zone"}}, {{"nodeLabel": "spine"}},
            {{"nodeLabel": "rack"}}, {{"nodeLabel": "kubernetes.io/hostname"}}]}}}}"#
    )
}

fn cluster(nodes: &[(usize, Node)]) -> Cluster {
    nodes.iter().fold(Cluster::new(), |cluster, (number, node)| {
        let labels = KEYS.iter().zip(node).filter_map(|(key, value)| Some((*key, value.as_deref()?)));
        cluster.node(&format!("n{number}"), labels)
    })
}

fn topology(answer: &Answer) -> &Topology {
    match &answer.outcome {
        Outcome::Topology(topology) => topology,
        Outcome::Unchanged => panic!("nothing to compare with"),
    }
}

fn value(values: u32) -> impl Strategy<Value = Option<String>> {
    prop_oneof![
        1 => Just(None),
        1 => Just(Some("unknown".to_owned())),
        6 => (0..values).prop_map(|value| Some(format!("v{value}"))),
    ]
}

/// Nodes whose labels may contradict each other.
fn wild() -> impl Strategy<Value = Vec<(usize, Node)>> {
    let node = (value(5), value(4), value(3)).prop_map(|(rack, spine, zone)| [rack, spine, zone]);
    prop::collection::vec(node, 0..40).prop_map(|nodes| nodes.into_iter().enumerate().collect())
}

/// Nodes of a tidy fabric, where the rack decides everything, though some labels are missing.
fn tidy() -> impl Strategy<Value = Vec<(usize, Node)>> {
    let node = (0..8_u32, any::<[bool; 3]>()).prop_map(|(rack, there)| {
        let values = [format!("r{rack}"), format!("s{}", rack / 2), format!("z{}", rack / 4)];
        let mut there = there.into_iter();
        values.map(|value| there.next().unwrap_or(true).then_some(value))
    });
    prop::collection::vec(node, 0..40).prop_map(|nodes| nodes.into_iter().enumerate().collect())
}

fn check_forest(topology: &Topology) {
    let tier = |group: u32| topology.levels[topology.groups[group as usize].level as usize].tier;
    let (mut children, mut rows, mut ids) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for (position, group) in (0..).zip(&topology.groups) {
        assert!(ids.insert(&group.id), "{} is given twice", group.id);
        match &group.members {
            Members::Groups(members) => {
                assert!(!members.is_empty(), "{} is empty", group.id);
                for &child in members {
                    assert!(tier(child) < tier(position), "{} is not below {}", child, group.id);
                    assert!(children.insert(child), "{child} has two parents");
                }
            }
            Members::Rows(members) => {
                assert!(!members.is_empty(), "{} is empty", group.id);
                members.iter().for_each(|row| assert!(rows.insert(*row), "row {row} is in two groups"));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Section 9 of Volcano's behaviour, written down as plainly as possible: domain -> tier and members.
fn volcano(nodes: &[(usize, Node)]) -> BTreeMap<String, (usize, BTreeSet<String>)> {
    let mut domains: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
    for (number, node) in nodes {
        let mut child = format!("n{number}");
        for (tier, (key, value)) in KEYS.iter().zip(node).enumerate() {
            let Some(value) = value else { break };
            let domain = format!("{key}={value}");
            domains.entry(domain.clone()).or_insert((tier + 1, BTreeSet::new())).1.insert(child);
            child = domain;
        }
    }
    domains
}

fn found(topology: &Topology, nodes: &[(usize, Node)]) -> BTreeMap<String, (usize, BTreeSet<String>)> {
    let label = |group: u32| {
        let (key, value) = &topology.groups[group as usize].labels[0];
        format!("{key}={value}")
    };
    let members = |members: &Members| match members {
        Members::Rows(rows) => rows.iter().map(|&row| format!("n{}", nodes[row as usize].0)).collect(),
        Members::Groups(groups) => groups.iter().map(|&group| label(group)).collect(),
        other => panic!("{other:?}"),
    };
    let tier = |level: u32| topology.levels[level as usize].tier as usize;
    (0..).zip(&topology.groups).map(|(at, group)| (label(at), (tier(group.level), members(&group.members)))).collect()
}

proptest! {
    #[test]
    fn the_answer_is_a_forest_for_any_labels(nodes in wild(), scope in prop::bool::ANY, collapse in prop::bool::ANY) {
        let scope = if scope { r#""valueScope": "global","# } else { "" };
        let collapse = if collapse { r#""collapse": true,"# } else { "" };
        check_forest(topology(&cluster(&nodes).discover::<Label>(&config(&format!("{scope}{collapse}"))).unwrap()));
        check_forest(topology(&cluster(&nodes).discover::<Label>(&config(r#""compat": "volcano","#)).unwrap()));
    }

    #[test]
    fn the_order_of_nodes_does_not_matter(
        (nodes, shuffled) in wild().prop_flat_map(|nodes| (Just(nodes.clone()), Just(nodes).prop_shuffle())),
        extra in prop_oneof![Just(""), Just(r#""valueScope": "global","#), Just(r#""compat": "volcano","#)],
    ) {
        let show = |nodes: &[(usize, Node)]| {
            let cluster = cluster(nodes);
            cluster.show(&cluster.discover::<Label>(&config(extra)).unwrap())
        };
        prop_assert_eq!(show(&nodes), show(&shuffled));
    }

    #[test]
    fn a_node_that_shares_no_label_changes_no_identity(nodes in wild()) {
        let ids = |nodes: &[(usize, Node)]| -> BTreeSet<String> {
            let answer = cluster(nodes).discover::<Label>(&config("")).unwrap();
            topology(&answer).groups.iter().map(|group| group.id.clone()).collect()
        };
        let before = ids(&nodes);
        let mut more = vec![(99, ["new1", "new2", "new3"].map(|value| Some(value.to_owned())))];
        more.extend(nodes);
        prop_assert!(before.is_subset(&ids(&more)));
    }

    #[test]
    fn volcanos_result_is_volcanos_result(nodes in tidy()) {
        let answer = cluster(&nodes).discover::<Label>(&config(r#""compat": "volcano","#)).unwrap();
        prop_assert_eq!(found(topology(&answer), &nodes), volcano(&nodes));
    }

    #[test]
    fn where_all_labels_are_there_and_tidy_both_modes_agree(nodes in tidy()) {
        let full: Vec<(usize, Node)> = nodes.into_iter().filter(|(_, node)| node.iter().all(Option::is_some)).collect();
        let answer = cluster(&full).discover::<Label>(&config("")).unwrap();
        prop_assert_eq!(found(topology(&answer), &full), volcano(&full));
    }
}
