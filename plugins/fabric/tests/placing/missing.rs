//! Hosts that are no longer listed, and the hosts that may match their Nodes meanwhile.

use crate::fabric::{Fabric, drawn};
use crate::round::{applied, cluster, first, groups, homes, kept, objects, reports, round};
use proptest::prelude::*;
use topoloom_fabric::{Guid, Link, LinkState, Memory, Outcome, Settings, State, Wiring};
use topoloom_sdk::Members;
use topoloom_sdk::testing::Cluster;

const HOUR: u64 = 60 * 60 * 1000;

fn next(cluster: &Cluster, fabric: &Fabric, memory: &Memory) -> Outcome {
    round(cluster, &fabric.wiring(), &Settings::default(), memory)
}

/// Unit `a` with the host of Node `gpu1`, and unit `b` with a foreign machine.
fn beside(foreign: &str) -> Fabric {
    drawn(&format!("gpu1: a1 a2\n gpu2: a1 a2\n gpu3: b1 b2\n gpu4: b1 b2\n {foreign}: b1 b2"))
}

const NODES: [&str; 4] = ["gpu1", "gpu2", "gpu3", "gpu4"];

#[test]
fn a_machine_that_is_called_nearly_like_a_dark_host_does_not_get_its_node() {
    for (foreign, code) in [("gpu1.siteb", "ambiguous-host"), ("GPU1", "duplicate-host")] {
        let at = |time| cluster(&NODES).at(time);
        let fabric = beside(foreign);
        let before = first(&at(0), &fabric.wiring());
        assert_eq!(homes(&NODES, &before.topology)["gpu1"], "a1", "{foreign}");
        let dark = fabric.without_host("gpu1");
        let mut memory = kept(&before);
        for hours in [1, 2, 24] {
            let outcome = next(&at(hours * HOUR), &dark, &memory);
            assert_eq!(groups(&at(0), &outcome), groups(&at(0), &before), "{foreign} after {hours} h");
            assert_eq!(reports(&at(0), &outcome, "kept-while-down").len(), 1);
            assert_eq!(reports(&at(0), &outcome, code).len(), 1, "{foreign} still matches no Node");
            memory = kept(&outcome);
        }
        // The grace is over, and with it its claim on the Node.
        let outcome = next(&at(24 * HOUR + 1), &dark, &memory);
        assert_eq!(homes(&NODES, &outcome.topology)["gpu1"], "b1", "{foreign}");
        assert!(reports(&at(0), &outcome, "dropped-while-down").is_empty(), "{foreign} has its Node");
        // It gets its Node back when it returns after all.
        let outcome = next(&at(25 * HOUR), &fabric, &kept(&outcome));
        assert_eq!(groups(&at(0), &outcome), groups(&at(0), &before), "{foreign}");
    }
}

#[test]
fn a_similar_machine_does_not_get_the_node_after_an_absence() {
    let cluster = cluster(&NODES);
    for foreign in ["gpu1.siteb", "GPU1"] {
        let fabric = beside(foreign);
        let before = first(&cluster, &fabric.wiring());
        let mut memory = kept(&before);
        for gone in [&[foreign][..], &[foreign, "gpu1"], &["gpu1"], &[]] {
            let left = gone.iter().fold(fabric.clone(), |left, host| left.without_host(host));
            let outcome = next(&cluster, &left, &memory);
            assert_eq!(groups(&cluster, &outcome), groups(&cluster, &before), "{gone:?}");
            memory = kept(&outcome);
        }
    }
}

#[test]
fn a_host_that_could_be_several_nodes_is_none_the_less_so_when_its_like_goes_dark() {
    let at = |time| cluster(&["gpu1", "gpu2"]).at(time);
    let fabric = drawn("gpu1.sitea: a1\n gpu2: a1\n gpu1.siteb: b1");
    let before = first(&at(0), &fabric.wiring());
    assert_eq!(groups(&at(0), &before), "tier 1 leaf-group | a1 |  | gpu2\n");
    let dark = fabric.without_host("gpu1.sitea");
    let outcome = next(&at(24 * HOUR), &dark, &kept(&before));
    assert_eq!(groups(&at(0), &outcome), groups(&at(0), &before));
    assert_eq!(reports(&at(0), &outcome, "ambiguous-host").len(), 1);
    let outcome = next(&at(24 * HOUR + 1), &dark, &kept(&outcome));
    assert_eq!(groups(&at(0), &outcome), "tier 1 leaf-group | a1 |  | gpu2\ntier 1 leaf-group | b1 |  | gpu1\n");
}

#[test]
fn a_machine_with_a_new_name_is_where_it_is_at_once() {
    let cluster = cluster(&NODES);
    for (old, new) in [("gpu1", "gpu1.fabric"), ("gpu1.old", "gpu1.new"), ("GPU1", "gpu1"), ("gpu1.fabric", "GPU1")] {
        let fabric = drawn(&format!("{old}: a1 a2\n gpu2: a1 a2\n gpu3: b1 b2\n gpu4: b1 b2"));
        let before = first(&cluster, &fabric.wiring());
        let same = next(&cluster, &fabric.renamed(|host| host.replace(old, new), str::to_owned), &kept(&before));
        assert_eq!(same.topology, before.topology, "{old} as {new}");
        let mut moved = fabric.without_host(old);
        ["b1", "b2"].iter().for_each(|leaf| moved.plug(new, leaf, "p"));
        let outcome = next(&cluster, &moved, &kept(&before));
        assert_eq!(homes(&NODES, &outcome.topology)["gpu1"], "b1", "{old} as {new}");
        assert_eq!(outcome.topology.diagnostics, [], "{old} as {new}");
    }
}

/// A new name without a live link does not take over a Node.
#[test]
fn a_machine_with_a_new_name_and_no_live_link_takes_over_no_node() {
    let cluster = cluster(&NODES);
    let fabric = drawn("gpu1: a1 a2\n gpu2: a1 a2\n gpu3: b1 b2\n gpu4: b1 b2");
    let before = first(&cluster, &fabric.wiring());
    let mut dark = fabric.without_host("gpu1");
    let lit = dark.cables.len();
    ["a1", "a2"].iter().for_each(|leaf| dark.plug("gpu1.fabric", leaf, "p"));
    dark.cables[lit..].iter_mut().for_each(|cable| cable.state = LinkState::Down);
    let outcome = next(&cluster, &dark, &kept(&before));
    assert_eq!(groups(&cluster, &outcome), groups(&cluster, &before));
    dark.cables[lit..].iter_mut().for_each(|cable| cable.state = LinkState::Up);
    let outcome = next(&cluster, &dark, &kept(&outcome));
    assert_eq!(groups(&cluster, &outcome), groups(&cluster, &before));
    assert_eq!(reports(&cluster, &outcome, "kept-while-down"), Vec::<String>::new());
}

/// The objects have no names of hosts: a fabric with full names everywhere looks the same.
#[test]
fn after_a_restart_a_host_that_leads_to_a_node_is_believed() {
    let with = || {
        cluster(&NODES)
            .objects(vec![applied("a1", 1, Members::Rows(vec![0, 1])), applied("b1", 1, Members::Rows(vec![2, 3]))])
    };
    let dark = beside("gpu1.siteb").without_host("gpu1");
    let outcome = first(&with(), &dark.wiring());
    assert_eq!(homes(&NODES, &outcome.topology)["gpu1"], "b1");
    // The host with the name of the Node matches better, and needs no grace.
    let outcome = next(&with(), &beside("gpu1.siteb"), &kept(&outcome));
    assert_eq!(homes(&NODES, &outcome.topology)["gpu1"], "a1");
    // A Node that no host matches stays. A host that appears later counts as new, as after a change of name.
    let none = dark.without_host("gpu1.siteb");
    let outcome = first(&with(), &none.wiring());
    assert_eq!(homes(&NODES, &outcome.topology)["gpu1"], "a1");
    let again = next(&with(), &none, &kept(&outcome));
    assert_eq!(homes(&NODES, &again.topology)["gpu1"], "a1");
    let outcome = next(&with(), &dark, &kept(&outcome));
    assert_eq!(homes(&NODES, &outcome.topology)["gpu1"], "b1");
}

const GUID: &str = "a1b2c30000aa0001";

fn by_guid() -> Settings {
    Settings { guid_annotation: Some("guids".into()), ..Settings::default() }
}

/// Node `gpu-a017` lists the GUID of a machine with another name in the fabric.
fn annotated(time: u64) -> Cluster {
    Cluster::new().node("gpu-a017", []).annotation("guids", GUID).node("n2", []).node("n3", []).at(time)
}

fn with_guid(fabric: &Fabric, host: &str) -> Wiring {
    let mut wiring = fabric.wiring();
    let host = wiring.host(host);
    wiring.guid(host, Guid::parse(GUID).unwrap());
    wiring
}

#[test]
fn a_host_that_only_its_guid_leads_to_a_node_keeps_its_place_too() {
    let fabric = drawn("dgx-17: a1 a2\n n2: a1 a2\n n3: b1 b2");
    let before = round(&annotated(0), &with_guid(&fabric, "dgx-17"), &by_guid(), &Memory::default());
    let healthy = "tier 1 leaf-group | a1 |  | gpu-a017 n2\ntier 1 leaf-group | b1 |  | n3\n";
    assert_eq!(groups(&annotated(0), &before), healthy);
    let dark = fabric.without_host("dgx-17").wiring();
    let mut memory = kept(&before);
    for hours in [1, 2, 24] {
        let outcome = round(&annotated(hours * HOUR), &dark, &by_guid(), &memory);
        assert_eq!(groups(&annotated(0), &outcome), healthy, "after {hours} h");
        let report = reports(&annotated(0), &outcome, "kept-while-down");
        assert_eq!(report, ["gpu-a017 | 1 host with no live link; kept in group \"a1\": dgx-17"]);
        memory = kept(&outcome);
    }
    let outcome = round(&annotated(24 * HOUR + 1), &dark, &by_guid(), &memory);
    assert_eq!(groups(&annotated(0), &outcome), "tier 1 leaf-group | a1 |  | n2\ntier 1 leaf-group | b1 |  | n3\n");
    let report = reports(&annotated(0), &outcome, "dropped-while-down");
    assert_eq!(report, ["gpu-a017 | 1 host with no live link for more than 86400 s; no longer placed: dgx-17"]);
    // A deleted Node matches no host.
    let fewer = Cluster::new().node("n2", []).node("n3", []).at(HOUR);
    let outcome = round(&fewer, &dark, &by_guid(), &kept(&before));
    assert_eq!(groups(&fewer, &outcome), "tier 1 leaf-group | a1 |  | n2\ntier 1 leaf-group | b1 |  | n3\n");
}

#[test]
fn a_host_with_the_guids_of_a_node_matches_it_at_once() {
    let fabric = drawn("dgx-17: a1 a2\n n2: a1 a2\n n3: b1 b2\n dgx-18: b1 b2");
    let before = round(&annotated(0), &with_guid(&fabric, "dgx-17"), &by_guid(), &Memory::default());
    // The card went into a machine that was there before, or into a new one, or into one without a name.
    let left = fabric.without_host("dgx-17");
    let mut nameless = left.wiring();
    let leaf = nameless.switch("b1", "");
    nameless.nameless(Guid::parse(GUID).unwrap(), leaf, Link::up("mlx5_0"));
    let mut new = left.clone();
    new.plug("dgx-19", "b1", "p");
    for wiring in [with_guid(&left, "dgx-18"), with_guid(&new, "dgx-19"), nameless] {
        let outcome = round(&annotated(HOUR), &wiring, &by_guid(), &kept(&before));
        let expected = "tier 1 leaf-group | a1 |  | n2\ntier 1 leaf-group | b1 |  | gpu-a017 n3\n";
        assert_eq!(groups(&annotated(0), &outcome), expected);
        assert_eq!(reports(&annotated(0), &outcome, "kept-while-down"), Vec::<String>::new());
    }
    // A port of it that is down, without its name, is its own.
    let mut down = left.wiring();
    let leaf = down.switch("a1", "");
    down.nameless(Guid::parse(GUID).unwrap(), leaf, Link::down("mlx5_0"));
    let outcome = round(&annotated(HOUR), &down, &by_guid(), &kept(&before));
    assert_eq!(groups(&annotated(0), &outcome), groups(&annotated(0), &before));
}

/// An earlier host with the name of the Node is another machine: the GUID matches better.
#[test]
fn a_dark_host_keeps_the_node_that_its_guid_gave_it_from_one_with_a_name_like_it() {
    let fabric = drawn("dgx-17: a1 a2\n n2: a1 a2\n n3: b1 b2\n GPU-A017: b1 b2");
    let before = round(&annotated(0), &with_guid(&fabric, "dgx-17"), &by_guid(), &Memory::default());
    let dark = fabric.without_host("dgx-17").wiring();
    let outcome = round(&annotated(HOUR), &dark, &by_guid(), &kept(&before));
    assert_eq!(groups(&annotated(0), &outcome), groups(&annotated(0), &before));
    // The same after a restart: the host of the GUID is no longer known, and the Node stays until a host claims it.
    let restarted = || annotated(2 * HOUR).objects(objects(&before.topology));
    let dark = fabric.without_host("dgx-17").without_host("GPU-A017").wiring();
    let outcome = round(&restarted(), &dark, &by_guid(), &Memory::default());
    let expected = "tier 1 leaf-group | a1 |  | gpu-a017 n2\ntier 1 leaf-group | b1 |  | n3\n";
    assert_eq!(groups(&restarted(), &outcome), expected);
    let back = round(&restarted(), &with_guid(&fabric.without_host("GPU-A017"), "dgx-17"), &by_guid(), &kept(&outcome));
    assert_eq!(groups(&restarted(), &back), expected);
    assert_eq!(reports(&restarted(), &back, "kept-while-down"), Vec::<String>::new());
}

proptest! {
    /// Once all hosts were seen, each keeps its own Node, with any of them missing meanwhile.
    #[test]
    fn no_host_gets_the_node_of_a_missing_one(
        units in prop::collection::vec(0..3_u32, 8),
        rounds in prop::collection::vec(any::<u8>(), 1..6),
    ) {
        let hosts = ["gpu1", "GPU1", "gpu1.a", "Gpu1.b", "gpu2.a", "GPU2.B", "gpu3.a", "GPU4"];
        let listed = |is_there: u8| {
            let there = hosts.iter().zip(&units).enumerate().filter(|(number, _)| is_there >> number & 1 == 1);
            drawn(&there.map(|(_, (host, unit))| format!("{host}: l{unit} k{unit}\n")).collect::<String>())
        };
        let cluster = cluster(&NODES);
        let before = first(&cluster, &listed(u8::MAX).wiring());
        let mut memory = kept(&before);
        for is_there in rounds {
            let outcome = next(&cluster, &listed(is_there), &memory);
            prop_assert_eq!(groups(&cluster, &outcome), groups(&cluster, &before));
            memory = kept(&outcome);
        }
    }
}

#[test]
fn a_state_of_another_layout_is_forgotten() {
    let outcome = first(&cluster(&NODES), &beside("x").wiring());
    let mut bytes = State { parts: Vec::new(), memory: outcome.memory }.to_bytes();
    assert!(!State::from_bytes(&bytes).memory.is_empty());
    bytes[3] -= 1;
    assert!(State::from_bytes(&bytes).memory.is_empty());
}
