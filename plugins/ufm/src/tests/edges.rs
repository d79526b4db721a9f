//! Every edge case that a fabric is known for, one test each.

use super::net::{CONFIG, Net, RoundResult, guid, set, upstream};
use crate::Ufm;
use serde_json::json;
use topoloom_sdk::Outcome;
use topoloom_sdk::testing::Cluster;

const NODES: [&str; 6] = ["a-0", "a-1", "a-2", "b-0", "b-1", "b-2"];

fn two_units() -> Net {
    Net::units(&["a", "b"], 3, 8)
}

#[test]
fn a_host_whose_adapters_stay_in_its_name_is_one_host() {
    let mut net = Net::default();
    for rail in 0..2 {
        for host in ["node01", "node02"] {
            let port = net.cable(host, rail, &format!("leaf-{rail}"));
            port["system_name"] = json!(format!("{host} mlx5_{rail}"));
        }
    }
    let seen = net.round(&["node01", "node02"]);
    assert_eq!(seen.groups(), set(["node01 node02"]));
    assert_eq!(seen.codes(), [].into());
}

#[test]
fn eight_healthy_rails_are_one_group_per_unit() {
    let seen = two_units().round(&NODES);
    assert_eq!(seen.groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
    assert_eq!(seen.tiers(), [2]);
}

#[test]
fn dead_adapters_do_not_move_a_host() {
    let mut net = two_units();
    for port in net.of_host("a-0").skip(1) {
        port["physical_state"] = json!("Polling");
        port["logical_state"] = json!("Down");
    }
    assert_eq!(net.round(&NODES).groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
}

#[test]
fn a_dark_host_keeps_its_place_until_its_grace_is_over() {
    let hour = 60 * 60 * 1000;
    let lit = two_units();
    let mut dark = lit.clone();
    dark.ports.retain(|port| port["system_name"] != "a-0" && port["peer_node_name"] != "a-0");
    let config = r#"{"endpoint": "ufm", "downGrace": "24h"}"#;
    let first = lit.cluster(NODES).at(hour).discover::<Ufm>(config).unwrap();
    let kept = dark.cluster(NODES).at(24 * hour).state(first.state).discover::<Ufm>(config).unwrap();
    let state = kept.state.clone();
    assert_eq!(RoundResult::of(kept, &NODES).groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
    let gone = dark.cluster(NODES).at(26 * hour).state(state).discover::<Ufm>(config).unwrap();
    let gone = RoundResult::of(gone, &NODES);
    assert_eq!(gone.groups(), set(["a-1 a-2", "b-0 b-1 b-2"]));
    let named = gone.topology().diagnostics.iter().any(|report| report.subject == topoloom_sdk::Subject::Rows(vec![0]));
    assert!(named, "{:?}", gone.topology().diagnostics);
}

#[test]
fn a_port_without_peer_is_skipped_and_counted() {
    let mut net = two_units();
    for (rail, value) in [(0, json!(null)), (1, json!("N/A")), (2, json!(""))] {
        let port = net.of_host("a-0").nth(rail).unwrap();
        for key in ["peer", "peer_guid", "peer_node_guid", "peer_node_name", "peer_node_description"] {
            port[key] = value.clone();
        }
    }
    let port = net.of_host("a-0").nth(3).unwrap().as_object_mut().unwrap();
    port.retain(|key, _| !key.starts_with("peer"));
    let seen = net.round(&NODES);
    assert_eq!(seen.groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
    let report = seen.report("no-peer").unwrap();
    assert!(report.starts_with("4 ports do not say which switch they are plugged into"), "{report}");
    assert!(report.contains("a-0"), "{report}");
}

#[test]
fn aggregation_nodes_are_skipped_on_both_sides() {
    let mut net = two_units();
    // One per leaf, and all have the same name: as a host it would tie everything together.
    for unit in ["a", "b"] {
        for rail in 0..8 {
            let aggregation = "Mellanox Technologies Aggregation Node";
            net.cable(aggregation, 100 + rail, &format!("leaf-{unit}-{rail}"));
            let own = guid(&format!("{aggregation}/{}", 100 + rail));
            net.links.push(json!({"source_guid": own, "destination_guid": guid(&format!("leaf-{unit}-{rail}"))}));
        }
    }
    // A host on an aggregation node makes no sense, and no leaf.
    let port = net.cable("a-0", 9, "odd");
    port["peer_node_name"] = json!("SHARP aggregation node");
    let seen = net.round(&NODES);
    assert_eq!((seen.groups(), seen.tiers()), (set(["a-0 a-1 a-2", "b-0 b-1 b-2"]), vec![2]));
    assert_eq!(seen.codes(), [].into());
}

#[test]
fn adapters_without_name_count_when_a_node_lists_their_guid() {
    let mut net = two_units();
    for name in ["a-1", "b-1"] {
        for port in net.of_host(name) {
            port["system_name"] = json!("MT4129 ConnectX7   Mellanox Technologies");
            port["node_description"] = json!("MT4129 ConnectX7   Mellanox Technologies");
        }
    }
    let unknown = net.round(&NODES);
    assert_eq!(unknown.groups(), set(["a-0 a-2", "b-0 b-2"]));
    let guids = format!("0x{}, {}", guid("a-1/0").to_uppercase(), guid("a-1/1"));
    let cluster = net.cluster([]).node("a-0", []).node("a-1", []).annotation("ex.io/guids", &guids);
    let cluster = NODES[2..].iter().fold(cluster, |cluster, node| cluster.node(node, []));
    let answer = cluster.discover::<Ufm>(r#"{"endpoint": "ufm", "guidAnnotation": "ex.io/guids"}"#).unwrap();
    assert_eq!(RoundResult::of(answer, &NODES).groups(), set(["a-0 a-1 a-2", "b-0 b-2"]));
}

#[test]
fn service_hosts_are_no_members_and_make_no_group() {
    let mut net = two_units();
    for (host, leaf) in [("login-1", "leaf-a-0"), ("ufm-1", "leaf-b-0"), ("nas-1", "storage"), ("nas-2", "storage")] {
        net.cable(host, 0, leaf);
    }
    // The login host has legs in both units.
    net.cable("login-1", 1, "leaf-b-0");
    let seen = net.round(&NODES);
    assert_eq!((seen.groups(), seen.tiers()), (set(["a-0 a-1 a-2", "b-0 b-1 b-2"]), vec![2]));
}

#[test]
fn a_leaf_without_cluster_nodes_is_a_leaf_and_no_core() {
    let mut net = two_units();
    // A leaf of strangers that has cables to both units would be their core if it were none. It has as many hosts as trunks.
    for rail in 0..2 {
        net.cable(&format!("nas-{rail}"), 0, "storage");
        let port = net.cable("nas-2", rail, "storage-nameless");
        port["system_name"] = json!("localhost");
        port["node_description"] = json!("localhost HCA-1");
    }
    for storage in ["storage", "storage-nameless"] {
        net.trunk("leaf-a-0", storage);
        net.trunk("leaf-b-0", storage);
    }
    let seen = net.round(&NODES);
    assert_eq!((seen.groups(), seen.tiers()), (set(["a-0 a-1 a-2", "b-0 b-1 b-2"]), vec![2]));
    // A real core is one.
    for leaf in ["leaf-a-0", "leaf-b-0"] {
        net.trunk(leaf, "core");
    }
    assert_eq!(net.round(&NODES).tiers(), [2, 1]);
}

#[test]
fn one_name_with_two_guids_is_two_leaves() {
    let mut net = Net::units(&["a", "b"], 3, 1);
    for port in &mut net.ports {
        for key in ["system_name", "peer_node_name", "peer_node_description"] {
            if port[key].as_str().is_some_and(|name| name.starts_with("leaf-")) {
                port[key] = json!("MF0;switch-default:MQM9700/U1");
            }
        }
    }
    assert_eq!(net.round(&NODES).groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
}

#[test]
fn one_guid_with_two_names_is_one_leaf() {
    let mut net = Net::units(&["a"], 2, 1);
    let port = net.of_host("a-1").next().unwrap();
    port["peer_node_name"] = json!("renamed");
    port["peer_node_description"] = json!("renamed:3");
    assert_eq!(net.round(&["a-0", "a-1"]).groups(), set(["a-0 a-1"]));
}

#[test]
fn a_record_that_has_only_the_name_means_the_one_guid_of_that_name() {
    let mut net = Net::units(&["a"], 2, 1);
    let port = net.of_host("a-1").next().unwrap().as_object_mut().unwrap();
    port.retain(|key, _| !["peer", "peer_guid", "peer_node_guid"].contains(&key.as_str()));
    assert_eq!(net.round(&["a-0", "a-1"]).groups(), set(["a-0 a-1"]));
}

#[test]
fn chips_of_one_chassis_are_separate_leaves() {
    let mut net = Net::default();
    for (host, card) in [("a-0", "L07"), ("a-1", "L07"), ("a-2", "L07"), ("b-0", "L08"), ("b-1", "L08"), ("b-2", "L08")]
    {
        let port = net.cable(host, 0, &format!("dir1/{card}"));
        port["peer_node_name"] = json!("dir1");
        port["peer_node_description"] = json!(format!("MF0;dir1:CS8500/{card}/U1"));
    }
    assert_eq!(net.round(&NODES).groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
    // The same without any GUID.
    for port in &mut net.ports {
        port.as_object_mut().unwrap().retain(|key, _| !["peer", "peer_guid", "peer_node_guid"].contains(&key.as_str()));
    }
    net.ports.retain(|port| port["description"] == "Computer IB Port");
    assert_eq!(net.round(&NODES).groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
}

#[test]
fn upper_case_and_full_names_find_their_nodes() {
    let mut net = Net::default();
    net.cable("GPU-1", 0, "leaf");
    net.cable("gpu-2.fabric.example.org", 0, "leaf");
    assert_eq!(net.round(&["gpu-1", "gpu-2"]).groups(), set(["gpu-1 gpu-2"]));
}

#[test]
fn names_that_no_node_has_stay_out_of_the_answer() {
    let mut net = two_units();
    for (rail, name) in ["gpü-1", "gpu\u{200b}-2", "gpu_3", "a b c", "\u{0}", "../../etc"].into_iter().enumerate() {
        net.cable(name, rail, "leaf-a-0");
    }
    let seen = net.round(&NODES);
    assert_eq!(seen.groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
    for report in &seen.topology().diagnostics {
        assert!(!report.detail.chars().any(char::is_control), "{report:?}");
    }
}

#[test]
fn wrong_types_in_unused_fields_cost_nothing() {
    let mut net = two_units();
    for port in &mut net.ports {
        port["mtu"] = json!("Unknown");
        port["tier"] = json!("4");
        port["dname"] = json!(17);
        port["systemID"] = json!([]);
        port["capabilities"] = json!({"a": [null]});
    }
    let seen = net.round(&NODES);
    assert_eq!((seen.groups(), seen.codes()), (set(["a-0 a-1 a-2", "b-0 b-1 b-2"]), [].into()));
}

#[test]
fn a_wrong_type_in_a_needed_field_skips_the_record_and_counts_it() {
    let mut net = two_units();
    net.of_host("a-0").next().unwrap()["system_name"] = json!(17);
    let seen = net.round(&NODES);
    assert_eq!(seen.groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
    let report = seen.report("unusable-record").unwrap();
    assert!(report.starts_with("1 records of the list of ports are unusable"), "{report}");
    assert!(report.contains("number 1: its system_name is not a usable text"), "{report}");
}

#[test]
fn too_many_unusable_records_fail_the_round() {
    let mut net = two_units();
    net.ports.iter_mut().take(3).for_each(|port| port["peer"] = json!(3));
    let failure = |config: &str| net.cluster(NODES).discover::<Ufm>(config).map(|_| ()).unwrap_err();
    let message = upstream(failure(r#"{"endpoint": "ufm", "maxUnusable": 3}"#));
    let expected = "GET /ufmRest/resources/ports of the endpoint \"ufm\": 3 of 96 records are unusable, more than 3 %; \
                    number 0: its peer is not a usable text";
    assert_eq!(message, expected);
    assert!(net.cluster(NODES).discover::<Ufm>(CONFIG).is_ok(), "3 of 96 are less than 5 %");
}

#[test]
fn an_empty_list_is_an_answer_that_others_judge() {
    let first = two_units().cluster(NODES).at(1).discover::<Ufm>(CONFIG).unwrap();
    let empty = Net::default().cluster(NODES).at(2).state(first.state).discover::<Ufm>(CONFIG).unwrap();
    // Within the grace dark hosts stay; after a restart they are unknown, and the guard of the host holds the result.
    assert!(matches!(empty.outcome, Outcome::Topology(_)));
    assert_eq!(RoundResult::of(empty, &NODES).groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
    assert_eq!(Net::default().round(&NODES).groups(), set([]));
}

#[test]
fn gateways_and_other_hosts_are_no_leaves() {
    let mut net = two_units();
    let gateway = guid("gateway");
    net.ports.push(json!({"name": format!("{gateway}_1"), "guid": gateway, "description": "Gateway IB Port"}));
    net.cable("a-0", 20, "gateway");
    net.cable("b-0", 20, "gateway");
    net.ports.retain(|port| !(port["description"] == "Switch IB Port" && port["system_name"] == "gateway"));
    let port = net.cable("a-0", 21, "x");
    port["peer"] = json!(null);
    port["peer_guid"] = json!(null);
    port["peer_node_guid"] = json!(guid("b-0/0"));
    let seen = net.round(&NODES);
    assert_eq!(seen.groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
    assert!(seen.report("gateway-peer").unwrap().starts_with("2 ports are plugged into a gateway or a router"));
    assert!(seen.report("host-peer").unwrap().starts_with("1 ports are plugged into another host"));
}

#[test]
fn a_port_that_is_listed_twice_counts_once() {
    let mut net = two_units();
    let again = net.of_host("a-0").next().unwrap().clone();
    net.ports.push(again);
    let seen = net.round(&NODES);
    assert!(seen.report("duplicate-port").unwrap().starts_with("1 ports are in the list twice"));
    assert_eq!(seen.groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
}

#[test]
fn a_release_that_sends_little_is_enough() {
    let mut net = two_units();
    for port in &mut net.ports {
        let keep = ["name", "description", "system_name", "peer"];
        port.as_object_mut().unwrap().retain(|key, _| keep.contains(&key.as_str()));
        port["node_description"] = json!("N/A");
    }
    assert_eq!(net.round(&NODES).groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
}

#[test]
fn ports_that_are_down_count_where_that_is_asked_for() {
    let mut net = two_units();
    net.ports.iter_mut().for_each(|port| port["logical_state"] = json!("Down"));
    assert_eq!(net.round(&NODES).groups(), set([]));
    let cluster: Cluster = net.cluster(NODES);
    let answer = cluster.discover::<Ufm>(r#"{"endpoint": "ufm", "includeDown": true}"#).unwrap();
    assert_eq!(RoundResult::of(answer, &NODES).groups(), set(["a-0 a-1 a-2", "b-0 b-1 b-2"]));
}

#[test]
fn where_filters_or_an_empty_list_leave_nothing_it_is_said() {
    let mut net = Net::units(&["a", "b"], 3, 2);
    for (config, why) in [
        (r#"{"endpoint": "ufm", "ports": {"include": ["^mlx6"]}}"#, "all 12 links are left out by `ports`"),
        (r#"{"endpoint": "ufm", "ignoreHosts": "-"}"#, "all 12 links are of hosts that `ignoreHosts` leaves out"),
    ] {
        for with_guids in [true, false] {
            if !with_guids {
                net.ports.iter_mut().filter_map(|port| port.as_object_mut()).for_each(|port| {
                    port.retain(|key, _| key != "guid" && key != "name");
                });
            }
            let seen = RoundResult::of(net.cluster(NODES).discover::<Ufm>(config).unwrap(), &NODES);
            assert_eq!(seen.groups(), [].into());
            assert_eq!(seen.report("no-links").unwrap(), format!("no Node has a link that counts: {why}"));
        }
    }
    let empty = Net::default().round(&NODES);
    let none = "no Node has a link that counts: the source lists no usable link of a host";
    assert_eq!(empty.report("no-links").unwrap(), none);
    assert_eq!(two_units().round(&NODES).codes(), [].into());
}
