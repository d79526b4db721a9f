//! A host that starts anew beside a UFM that has lost half of what it knew: only the objects in the cluster say what was.

use super::net::{CONFIG, Net, RoundResult};
use crate::Ufm;
use serde_json::Value;
use topoloom_sdk::applied::AppliedGroup;
use topoloom_sdk::testing::Cluster;
use topoloom_sdk::{Answer, Topology};

const NODES: [&str; 8] = ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1", "d-0", "d-1"];
const HOUR: u64 = 60 * 60 * 1000;

/// Four units of two rails in two pods below a core: seven HyperNodes.
fn fabric() -> Net {
    let mut net = Net::units(&["a", "b", "c", "d"], 2, 2);
    for rail in 0..2 {
        for (pod, unit) in [(0, "a"), (0, "b"), (1, "c"), (1, "d")] {
            net.trunk(&format!("leaf-{unit}-{rail}"), &format!("spine-{pod}-{rail}"));
        }
        (0..2).for_each(|pod| net.trunk(&format!("spine-{pod}-{rail}"), "core"));
    }
    net
}

/// The groups of an answer as the host hands them in later.
fn objects(topology: &Topology) -> Vec<AppliedGroup> {
    let object = |group: &topoloom_sdk::Group| AppliedGroup {
        id: Some(group.id.clone()),
        name: format!("hypernode-{}", group.id),
        tier: topology.levels[group.level as usize].tier,
        tier_name: topology.levels[group.level as usize].tier_name.clone(),
        labels: Vec::new(),
        members: vec![group.members.clone()],
    };
    topology.groups.iter().map(object).collect()
}

/// All groups in any order, members by name and identity.
fn tree(answer: &Answer) -> Vec<String> {
    let shown = Net::default().cluster(NODES).show(answer);
    let sorted = |line: &str| {
        // The switches that describe a group are those that are listed now.
        let line = line.split(" | said ").next().unwrap_or_default();
        let mut words: Vec<&str> = line.split(['[', ']', ' ']).filter(|word| !word.is_empty()).collect();
        words[5..].sort_unstable();
        words.join(" ")
    };
    let mut lines: Vec<String> = shown.lines().filter(|line| !line.starts_with('!')).map(sorted).collect();
    lines.sort();
    lines
}

fn part(list: &[Value], keep: &str) -> Vec<Value> {
    let odd = |odd: usize| list.iter().skip(odd).step_by(2).cloned().collect();
    match keep {
        "all" => list.to_vec(),
        "first" => list[..list.len() / 2].to_vec(),
        "last" => list[list.len() / 2..].to_vec(),
        "even" => odd(0),
        "odd" => odd(1),
        _ => Vec::new(),
    }
}

#[test]
fn after_a_restart_an_empty_or_a_half_list_leaves_all_seven_groups() {
    let net = fabric();
    let before = net.round(&NODES);
    assert_eq!(before.tiers(), [4, 2, 1]);
    let round = |net: &Net, time: u64, state: &[u8]| {
        let cluster: Cluster = net.cluster(NODES).objects(objects(before.topology()));
        cluster.at(time).state(state.to_vec()).discover::<Ufm>(CONFIG).unwrap()
    };
    for ports in ["all", "first", "last", "even", "odd", "none"] {
        for links in ["all", "first", "last", "even", "odd", "none"] {
            let left = Net { ports: part(&net.ports, ports), links: part(&net.links, links) };
            let after = round(&left, HOUR, &[]);
            assert_eq!(tree(&after), tree(&before.answer), "ports {ports}, links {links}");
            // It comes back, and is what it was, to the last report.
            let recovered = round(&net, 2 * HOUR, &after.state);
            if recovered.outcome != topoloom_sdk::Outcome::Unchanged {
                assert_eq!(tree(&recovered), tree(&before.answer), "ports {ports}, links {links}");
                assert_eq!(RoundResult::of(recovered, &NODES).codes(), before.codes(), "ports {ports}, links {links}");
            }
        }
    }
}

#[test]
fn what_is_kept_is_named_and_not_for_ever() {
    let net = fabric();
    let before = net.round(&NODES);
    let bare = Net::default();
    let round = |time: u64, state: &[u8]| {
        let cluster = bare.cluster(NODES).objects(objects(before.topology())).at(time).state(state.to_vec());
        RoundResult::of(cluster.discover::<Ufm>(CONFIG).unwrap(), &NODES)
    };
    let first = round(HOUR, &[]);
    assert_eq!(first.codes(), ["kept-uplinks", "kept-while-down", "no-links"].into());
    assert!(
        first.report("kept-uplinks").unwrap().starts_with("2 groups without a link to a switch above; kept in group")
    );
    let last = round(26 * HOUR, &first.answer.state);
    assert_eq!((last.topology().groups.len(), last.codes()), (0, ["dropped-while-down", "no-links"].into()));
}

#[test]
fn tiers_that_the_operator_does_not_want_are_not_kept() {
    let net = fabric();
    let before = net.round(&NODES);
    let cluster = net.cluster(NODES).objects(objects(before.topology()));
    let off = cluster.discover::<Ufm>(r#"{"endpoint": "ufm", "uplinks": "off"}"#).unwrap();
    assert_eq!(RoundResult::of(off, &NODES).tiers(), [4]);
}

#[test]
fn ports_of_hosts_that_the_operator_ignores_are_not_reported() {
    let mut net = fabric();
    net.cable("login-1", 0, "leaf-a-0");
    net.cable("localhost", 0, "leaf-a-0");
    let config = r#"{"endpoint": "ufm", "ignoreHosts": ["^login-"]}"#;
    let seen = RoundResult::of(net.cluster(NODES).discover::<Ufm>(config).unwrap(), &NODES);
    assert!(seen.report("unnamed-host").unwrap().starts_with("1 port of machines without a name"));
    assert_eq!(seen.codes(), ["unnamed-host"].into());
}
