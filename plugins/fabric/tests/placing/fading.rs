//! Cables that were removed are forgotten, each after its grace; nothing else is.

use crate::fabric::{Fabric, drawn};
use crate::round::{cluster, first, groups, homes, kept, objects, reports, round};
use topoloom_fabric::{Change, LinkState, Memory, Outcome, Settings, Wiring};
use topoloom_sdk::testing::Cluster;

const HOUR: u64 = 60 * 60 * 1000;
const NODES: [&str; 9] = ["a1", "a2", "a3", "a4", "b1", "b2", "b3", "b4", "x"];

fn next(cluster: &Cluster, fabric: &Fabric, memory: &Memory) -> Outcome {
    round(cluster, &fabric.wiring(), &Settings::default(), memory)
}

fn at(time: u64) -> Cluster {
    cluster(&NODES).at(time)
}

fn x_with(leaves: &str) -> Fabric {
    let units = (1..5).map(|n| format!("a{n}: k1 k2 k3 k4 k5\n b{n}: l1 l2 l3 l4 l5\n"));
    drawn(&format!("{}x: {leaves}", units.collect::<String>()))
}

const BOTH: &str = "k1 k2 k3 k4 k5 l1 l2 l3";

#[test]
fn a_host_whose_wrong_cables_were_pulled_is_where_its_others_lead_after_the_grace() {
    let before = first(&at(0), &x_with(BOTH).wiring());
    assert_eq!(homes(&NODES, &before.topology)["x"], "k1");
    for pulled in [x_with("l1 l2 l3"), x_with("!k1 !k2 !k3 !k4 !k5 l1 l2 l3")] {
        let mut memory = kept(&before);
        for hours in [1, 2, 13, 25] {
            let outcome = next(&at(hours * HOUR), &pulled, &memory);
            assert_eq!(groups(&at(0), &outcome), groups(&at(0), &before), "{hours} h");
            assert_eq!(reports(&at(0), &outcome, "dead-links").len(), 1, "{hours} h");
            memory = kept(&outcome);
        }
        let after = next(&at(25 * HOUR + 1), &pulled, &memory);
        assert_eq!(homes(&NODES, &after.topology)["x"], "l1");
        // What a restart says.
        let restarted = at(26 * HOUR).objects(objects(&after.topology));
        let fresh = first(&restarted, &pulled.wiring());
        assert_eq!(after.topology, fresh.topology);
        assert_eq!(next(&at(27 * HOUR), &pulled, &kept(&after)).change, Change::None);
        // All back: its links say again what they said first.
        assert_eq!(homes(&NODES, &next(&at(28 * HOUR), &x_with(BOTH), &kept(&after)).topology)["x"], "k1");
    }
}

/// The grace of a cable begins when that cable dies, not when the first one of its host did.
#[test]
fn each_cable_has_a_grace_of_its_own() {
    let mut memory = kept(&first(&at(0), &x_with(BOTH).wiring()));
    let mut home = |time: u64, leaves: &str| {
        let outcome = next(&at(time), &x_with(leaves), &memory);
        memory = kept(&outcome);
        homes(&NODES, &outcome.topology)["x"].clone()
    };
    assert_eq!(home(HOUR, "k1 k2 l1 l2 l3"), "k1");
    assert_eq!(home(24 * HOUR, "l1 l2 l3"), "k1");
    assert_eq!(home(40 * HOUR, "l1 l2 l3"), "k1", "the others died 16 hours ago");
    // Nothing is known of a host that shows nothing, so nothing is forgotten of it.
    assert_eq!(home(47 * HOUR, ""), "k1");
    assert_eq!(home(49 * HOUR, ""), "k1");
    assert_eq!(home(50 * HOUR, "k1 l1 l2 l3"), "k1");
    assert_eq!(home(74 * HOUR, "l1 l2 l3"), "k1");
    assert_eq!(home(98 * HOUR, "l1 l2 l3"), "k1");
    assert_eq!(home(98 * HOUR + 1, "l1 l2 l3"), "l1");
}

/// Its last cable to its group decides, beside any other cables.
#[test]
fn a_live_link_to_its_group_keeps_a_host_there_also_after_the_grace() {
    let mut memory = kept(&first(&at(0), &x_with(BOTH).wiring()));
    for hours in [1, 26, 60] {
        let outcome = next(&at(hours * HOUR), &x_with("k5 l1 l2 l3"), &memory);
        assert_eq!(homes(&NODES, &outcome.topology)["x"], "k1", "{hours} h");
        memory = kept(&outcome);
    }
}

#[test]
fn a_storage_leaf_that_was_taken_out_is_not_missed_for_ever() {
    let fabric = drawn(&(1..5).map(|n| format!("a{n}: k1 k2 st\n b{n}: l1 l2 st\n")).collect::<String>());
    let before = first(&at(0), &fabric.wiring());
    let mut left = fabric.clone();
    left.cables.retain(|cable| cable.leaf != "st");
    let outcome = next(&at(HOUR), &left, &kept(&before));
    assert_eq!(reports(&at(0), &outcome, "dead-links").len(), 8);
    let outcome = next(&at(25 * HOUR), &left, &kept(&outcome));
    assert_eq!(reports(&at(0), &outcome, "dead-links").len(), 8);
    let outcome = next(&at(25 * HOUR + 1), &left, &kept(&outcome));
    assert_eq!(outcome.topology.diagnostics, []);
    assert_eq!(groups(&at(0), &outcome), groups(&at(0), &before));
    // A port that is listed as dead is still reported: it is there.
    let mut down = fabric.clone();
    down.cables.iter_mut().filter(|cable| cable.leaf == "st").for_each(|cable| cable.state = LinkState::Down);
    let outcome = next(&at(60 * HOUR), &down, &kept(&outcome));
    assert_eq!(reports(&at(0), &outcome, "dead-links").len(), 8);
}

#[test]
fn a_replaced_leaf_leaves_the_description_although_hosts_with_dead_adapters_hung_on_it() {
    let fabric = |leaf: &str, last: &str| {
        let hosts = ["a1", "a2", "a3", "a4", "b1", "b2"].map(|host| format!("{host}: k1 k2 {leaf}\n")).concat();
        let mut wiring = drawn(&format!("{hosts} b3: k1 k2 {last}\n b4: k1 k2 {last}\n x: l1")).wiring();
        for leaf in ["k1", "k2", leaf, "l1"] {
            wiring.switch(leaf, &format!("name-{leaf}"));
        }
        wiring
    };
    let shown = |time, wiring: &Wiring, memory: &Memory| {
        let outcome = round(&at(time), wiring, &Settings::default(), memory);
        let shown = groups(&at(0), &outcome);
        (shown.lines().next().unwrap().to_owned(), kept(&outcome))
    };
    let group = "tier 1 leaf-group | k1 |  | a1 a2 a3 a4 b1 b2 b3 b4";
    let (line, memory) = shown(0, &fabric("k3", "k3"), &Memory::default());
    assert_eq!(line, format!("{group} | said name-k1, name-k2, name-k3"));
    let new = fabric("k9", "");
    let (_, memory) = shown(HOUR, &new, &memory);
    let (line, memory) = shown(25 * HOUR, &new, &memory);
    assert_eq!(line, group, "one of its switches is known by two hosts only, and has no name");
    let (line, _) = shown(25 * HOUR + 1, &new, &memory);
    assert_eq!(line, format!("{group} | said name-k1, name-k2, name-k9"));
}

/// Cables between switches too.
#[test]
fn a_pod_is_below_the_spines_that_it_still_reaches_after_the_grace() {
    let mut fabric = drawn("a1: k\n b1: l\n x: m");
    for (a, b) in [("k", "s1"), ("k", "s2"), ("l", "s1"), ("l", "s2"), ("m", "s9"), ("m", "s1"), ("m", "s2")] {
        fabric.join(a, b);
    }
    let before = first(&at(0), &fabric.wiring());
    let lines = |outcome: &Outcome| groups(&at(0), outcome).lines().skip(3).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(lines(&before), ["tier 2 pod | s1 |  | [k l m]"]);
    fabric.adjacent.retain(|(a, b, _)| a != "m" || b == "s9");
    let outcome = next(&at(HOUR), &fabric, &kept(&before));
    assert_eq!(lines(&outcome), lines(&before));
    let outcome = next(&at(25 * HOUR), &fabric, &kept(&outcome));
    assert_eq!(lines(&outcome), lines(&before));
    let outcome = next(&at(25 * HOUR + 1), &fabric, &kept(&outcome));
    assert_eq!(lines(&outcome), ["tier 2 pod | s1 |  | [k l]", "tier 2 pod | s9 |  | [m]"]);
}
