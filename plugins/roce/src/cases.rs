//! The situations that Ethernet fabrics are known for, each with the outcome that it must have.

use crate::fabrics::{NOW, annotated, entry, groups, link, link_to, linked, mac, placed, reports, round};

/// Three nodes whose first rail is on switch 1, in a unit of its own beside another one; `odd` is the entry of the third.
fn unit(odd: &str, config: &str) -> Vec<String> {
    let rail = |switch| linked(&[link("rdma0", switch), link("rdma1", switch + 10)]);
    let nodes =
        [("a1", rail(1)), ("a2", rail(1)), ("a3", odd.to_owned()), ("b1", rail(2)), ("b2", rail(2)), ("b3", rail(2))];
    placed(&nodes, config)
}

/// `json0` of interfaces and chassis.
fn json0(neighbours: &[(&str, String)]) -> String {
    let list: Vec<String> = neighbours
        .iter()
        .map(|(name, chassis)| format!(r#"{{"name": "{name}", "via": "LLDP", "chassis": [{chassis}]}}"#))
        .collect();
    entry(&format!(r#""lldpcli": {{"lldp": [{{"interface": [{}]}}]}}"#, list.join(",")))
}

fn chassis(kind: &str, value: &str, name: &str, capability: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!(r#""name": [{{"value": "{name}"}}],"#) };
    format!(
        r#"{{"id": [{{"type": "{kind}", "value": "{value}"}}], {name}
            "capability": [{{"type": "{capability}", "enabled": true}}]}}"#
    )
}

fn leaf(number: u32) -> String {
    chassis("mac", mac(number).trim_start_matches("mac:"), &format!("leaf{number}"), "Bridge")
}

#[test]
fn a_chassis_with_several_names_is_one_switch() {
    let renamed = linked(&[link_to("rdma0", &format!(r#"{{"name": "new-name", "chassis": "{}"}}"#, mac(1)))]);
    assert_eq!(unit(&renamed, "{}"), ["a1 a2 a3", "b1 b2 b3"]);
}

#[test]
fn a_name_with_several_chassis_joins_no_switches() {
    let rail =
        |switch: u32| linked(&[link_to("rdma0", &format!(r#"{{"name": "sonic", "chassis": "{}"}}"#, mac(switch)))]);
    let bare = linked(&[link_to("rdma0", r#"{"name": "sonic"}"#)]);
    let nodes = [("a1", rail(1)), ("a2", rail(1)), ("b1", rail(2)), ("b2", rail(2)), ("c1", bare)];
    let cluster = annotated(&nodes);
    let answer = round(&cluster, "{}").unwrap();
    assert_eq!(groups(&cluster, &answer), ["a1 a2", "b1 b2"]);
    let unknown = reports(&cluster, &answer, &["unknown-switch"]);
    assert!(unknown.len() == 1 && unknown[0].contains("c1 | rdma0: \"sonic\""), "{unknown:?}");
}

/// Nexus 9000: the chassis id is the MAC address of the port. Two racks of three nodes on two rails, and a leaf whose
/// chassis id is that of the switch beside them.
fn nexus() -> Vec<(String, String)> {
    let end = |rail: u32, rack: u32, host: u32| {
        let name = format!("n9k-{rack}{rail}");
        let port = mac(0x1000 + rack * 256 + rail * 64 + host);
        format!(
            r#"{{"if": "rdma{rail}", "port": "Ethernet1/{host}", "switch": {{"name": "{name}", "chassis": "{port}"}}}}"#
        )
    };
    let mut nodes: Vec<(String, String)> = (1..=2)
        .flat_map(|rack| (1..=3).map(move |host| (rack, host)))
        .map(|(rack, host)| (format!("n{rack}{host}"), linked(&[end(0, rack, host), end(1, rack, host)])))
        .collect();
    nodes.extend((1..=2).map(|host| (format!("p{host}"), linked(&[link("rdma0", 7), link("rdma1", 8)]))));
    nodes
}

#[test]
fn switches_that_show_another_chassis_id_on_every_port_are_one_each_and_reported() {
    let nodes = nexus();
    let nodes: Vec<(&str, String)> = nodes.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let cluster = annotated(&nodes);
    let racks = ["n11 n12 n13", "n21 n22 n23", "p1 p2"];
    let outcome = |config: &str| {
        let answer = round(&cluster, config).unwrap();
        (groups(&cluster, &answer), reports(&cluster, &answer, &["chassis-per-port"]))
    };
    let (found, report) = outcome("{}");
    assert_eq!(found, racks);
    let sentence = "chassis-per-port | n9k-10 | shows 3 chassis ids on 3 ports: it counts as one switch, by its name";
    assert_eq!((report.len(), report[0].as_str()), (4, sentence));
    let (found, report) = outcome(r#"{"switches": {"identity": "chassis"}}"#);
    assert_eq!(found, ["n11", "n12", "n13", "n21", "n22", "n23", "p1 p2"]);
    assert!(report.len() == 4 && report[0].ends_with("`switches.identity: name` makes it one"), "{report:?}");
    assert_eq!(outcome(r#"{"switches": {"identity": "name"}}"#), (racks.map(str::to_owned).to_vec(), Vec::new()));
}

#[test]
fn default_names_of_images_are_useless_even_alone() {
    for name in ["sonic", "cumulus", "switch", "localhost"] {
        let rail = || linked(&[link_to("rdma0", &format!(r#"{{"name": "{name}"}}"#))]);
        assert!(placed(&[("a1", rail()), ("b1", rail())], "{}").is_empty(), "{name}");
    }
}

#[test]
fn chassis_types_that_switches_choose_freely_need_the_name() {
    for kind in ["local", "ifname", ""] {
        let rail = |name: &str| linked(&[link_to("rdma0", &format!(r#"{{"name": "{name}", "chassis": "{kind}:1"}}"#))]);
        let nodes = [("a1", rail("leaf1")), ("a2", rail("leaf1")), ("b1", rail("leaf2")), ("b2", rail("leaf2"))];
        assert_eq!(placed(&nodes, "{}"), ["a1 a2", "b1 b2"], "{kind:?}");
        let nameless = || linked(&[link_to("rdma0", &format!(r#"{{"chassis": "{kind}:1"}}"#))]);
        assert!(placed(&[("a1", nameless()), ("b1", nameless())], "{}").is_empty(), "{kind:?}");
    }
}

/// Every node has its rail and the management switch as neighbours.
fn with_management(rail: u32, interface: &str, more: &str) -> String {
    let oob =
        format!(r#"{{"if": "{interface}", {more} "switch": {{"name": "oob-mgmt-1", "chassis": "{}"}}}}"#, mac(99));
    linked(&[link("rdma0", rail), oob])
}

#[test]
fn a_management_switch_does_not_glue_units_together() {
    for (more, config) in [
        ("", r#"{"interfaces": {"include": ["^rdma"]}}"#),
        ("", r#"{"interfaces": {"exclude": ["^eth0$"]}}"#),
        ("", r#"{"switches": {"exclude": ["(?i)oob|mgmt|bmc"]}}"#),
        (r#""role": "mgmt","#, "{}"),
        // Nothing is configured at all: similarity alone keeps the units apart.
        ("", "{}"),
    ] {
        let nodes: Vec<(String, String)> = (1..=6)
            .map(|number| (format!("n{number}"), with_management(if number > 3 { 2 } else { 1 }, "eth0", more)))
            .collect();
        let nodes: Vec<(&str, String)> = nodes.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        assert_eq!(placed(&nodes, config), ["n1 n2 n3", "n4 n5 n6"], "{more} {config}");
    }
}

#[test]
fn storage_links_count_only_where_they_are_asked_for() {
    let storage = |rail: u32, switch: u32| {
        let link =
            format!(r#"{{"if": "st0", "role": "storage", "switch": {{"name": "st", "chassis": "{}"}}}}"#, mac(switch));
        linked(&[link, self::link("rdma0", rail)])
    };
    let nodes = [("a1", storage(1, 50)), ("a2", storage(1, 51)), ("b1", storage(2, 50)), ("b2", storage(2, 51))];
    assert_eq!(placed(&nodes, "{}"), ["a1 a2", "b1 b2"]);
    assert_eq!(placed(&nodes, r#"{"roles": ["storage"]}"#), ["a1 b1", "a2 b2"]);
}

#[test]
fn a_node_whose_firmware_swallows_lldp_is_reported_by_name() {
    let silent = entry(r#""upInterfaces": ["rdma0", "rdma1"], "lldpcli": {"lldp": [{}]}"#);
    let cluster = annotated(&[("a1", linked(&[link("rdma0", 1)])), ("a2", silent.clone()), ("a3", silent)]);
    let answer = round(&cluster, "{}").unwrap();
    assert_eq!(groups(&cluster, &answer), ["a1"]);
    assert_eq!(
        reports(&cluster, &answer, &["no-neighbour"]),
        ["no-neighbour | a2 a3 | link up, no neighbour: rdma0; rdma1"]
    );
}

#[test]
fn bonds_have_neighbours_on_their_slaves() {
    let slaves = json0(&[("ens1f0np0", leaf(1)), ("ens1f1np1", leaf(11))]);
    let slaves = slaves.replacen('{', r#"{"upInterfaces": ["bond0", "ens1f0np0", "ens1f1np1"], "#, 1);
    let cluster = annotated(&[("a1", linked(&[link("rdma0", 1), link("rdma1", 11)])), ("a2", slaves)]);
    let answer = round(&cluster, "{}").unwrap();
    assert_eq!(groups(&cluster, &answer), ["a1 a2"]);
    assert!(reports(&cluster, &answer, &["no-neighbour", "bad-entry"]).is_empty(), "the bond itself has no neighbour");
}

#[test]
fn a_dpu_or_a_virtual_bridge_is_left_out_by_capability_and_by_name() {
    let dpu = chassis("mac", "02:00:00:00:00:01", "dpu-1", "Station");
    let bridge = chassis("mac", "02:00:00:00:00:02", "host-bridge", "Bridge");
    let odd = json0(&[
        ("rdma0", leaf(1)),
        ("rdma1", dpu.clone()),
        ("veth0", bridge.clone()),
        ("pf0vf1", bridge.clone()),
        ("br0", bridge),
    ]);
    let other = json0(&[("rdma0", leaf(2)), ("rdma1", dpu)]);
    let cluster = annotated(&[("a1", odd), ("b1", other), ("a2", linked(&[link("rdma0", 1)]))]);
    let answer = round(&cluster, "{}").unwrap();
    assert_eq!(groups(&cluster, &answer), ["a1 a2", "b1"]);
    assert_eq!(reports(&cluster, &answer, &["not-a-switch"]).len(), 1, "one sentence for both");
}

#[test]
fn a_switch_and_a_dpu_on_one_port_are_distinguished() {
    let both = json0(&[("rdma0", chassis("mac", "02:00:00:00:00:01", "dpu-1", "Station")), ("rdma0", leaf(1))]);
    assert_eq!(unit(&both, "{}"), ["a1 a2 a3", "b1 b2 b3"]);
}

#[test]
fn a_hub_is_reported_and_does_not_count() {
    let hub = json0(&[("rdma0", leaf(1)), ("rdma0", leaf(2))]);
    let cluster = annotated(&[("a1", linked(&[link("rdma0", 1)])), ("a2", hub)]);
    let answer = round(&cluster, "{}").unwrap();
    assert_eq!(groups(&cluster, &answer), ["a1"]);
    let report = reports(&cluster, &answer, &["several-neighbours"]);
    assert!(report.len() == 1 && report[0].contains("a2 | rdma0: has 2 switches as neighbours"), "{report:?}");
}

#[test]
fn full_and_short_names_are_the_same_switch_by_chassis() {
    let full = linked(&[link_to("rdma0", &format!(r#"{{"name": "leaf1.dc.example", "chassis": "{}"}}"#, mac(1)))]);
    assert_eq!(unit(&full, "{}"), ["a1 a2 a3", "b1 b2 b3"]);
    let named = linked(&[link_to("rdma0", r#"{"name": "LEAF1.dc.example"}"#)]);
    assert_eq!(unit(&named, "{}"), ["a1 a2 a3", "b1 b2 b3"]);
}

#[test]
fn the_age_of_a_neighbour_does_not_matter() {
    let with_age = |age: &str, ttl: &str| {
        entry(&format!(
            r#""lldpcli": {{"lldp": [{{"interface": [{{"name": "rdma0", "via": "LLDP", "age": "{age}",
            "chassis": [{}], "port": [{{"ttl": [{{"value": "{ttl}"}}]}}]}}]}}]}}"#,
            leaf(1)
        ))
    };
    for (age, ttl) in [("0 day, 00:00:01", "120"), ("400 days, 02:11:09", "0"), ("too much", "x")] {
        assert_eq!(unit(&with_age(age, ttl), "{}"), ["a1 a2 a3", "b1 b2 b3"], "{age}");
    }
}

#[test]
fn a_node_speaks_about_itself_alone() {
    let other = entry(&format!(r#""node": "b1", "links": [{}]"#, link("rdma0", 1)));
    let cluster = annotated(&[("a1", linked(&[link("rdma0", 1)])), ("b1", linked(&[link("rdma0", 2)])), ("x", other)]);
    let answer = round(&cluster, "{}").unwrap();
    assert_eq!(groups(&cluster, &answer), ["a1", "b1"]);
    let report = reports(&cluster, &answer, &["bad-entry"]);
    assert!(
        report.len() == 1 && report[0].contains("x | node is \"b1\": an annotation must describe its own node"),
        "{report:?}"
    );
}

/// Two units whose nodes know their leaves by name alone, and what `odd` says beside them.
fn beside_names(odd: &[String]) -> (Vec<String>, Vec<String>) {
    let rail = |leaf: u32| linked(&[link_to("rdma0", &format!(r#"{{"name": "leaf-{leaf}"}}"#))]);
    let nodes = [("a1", rail(1)), ("a2", rail(1)), ("b1", rail(9)), ("b2", rail(9)), ("x", linked(odd))];
    let cluster = annotated(&nodes);
    let answer = round(&cluster, r#"{"switches": {"exclude": ["mgmt"]}}"#).unwrap();
    (groups(&cluster, &answer), reports(&cluster, &answer, &["unknown-switch", "unproven-name"]))
}

#[test]
fn an_annotation_moves_no_other_node_by_what_it_calls_a_switch() {
    let says = |interface: &str, name: &str, switch: u32| {
        link_to(interface, &format!(r#"{{"name": "{name}", "chassis": "{}"}}"#, mac(switch)))
    };
    let apart = ["a1 a2", "b1 b2", "x"];
    let (seen, reports) = beside_names(&[says("r0", "leaf-1", 7), says("r1", "leaf-9", 7)]);
    assert_eq!(seen, apart, "one chassis for two names");
    assert!(reports.len() == 2 && reports.iter().all(|line| line.starts_with("unproven-name | x | ")), "{reports:?}");
    let (seen, _) = beside_names(&[says("r0", "leaf-1", 7), says("r1", "leaf-1", 8)]);
    assert_eq!(seen, apart, "two chassis for one name");
    // The same for a leaf that all others know by its chassis: the name in one annotation excludes it for that node only.
    let rail = |leaf| linked(&[link("rdma0", leaf)]);
    let odd = linked(&[says("r0", "mgmt-1", 1), link("r1", 2)]);
    let nodes = [("a1", rail(1)), ("a2", rail(1)), ("b1", rail(2)), ("b2", rail(2)), ("x", odd)];
    assert_eq!(placed(&nodes, r#"{"switches": {"exclude": ["mgmt"]}}"#), ["a1 a2", "b1 b2 x"]);
}

#[test]
fn cdp_counts_where_it_is_allowed() {
    let cdp = entry(&format!(
        r#""lldpcli": {{"lldp": {{"interface": {{"rdma0": {{"via": "CDPv2", "chassis": {{"leaf1": {{
            "id": {{"type": "local", "value": "leaf1"}}}}}}, "port": {{"descr": "{}"}}}}}}}}}}"#,
        "Eth1/1"
    ));
    assert_eq!(unit(&cdp, "{}"), ["a1 a2", "b1 b2 b3"]);
    assert_eq!(unit(&cdp, r#"{"allowCdp": true}"#), ["a1 a2 a3", "b1 b2 b3"]);
}

#[test]
fn an_entry_from_the_future_is_reported() {
    let cluster = annotated(&[("a1", linked(&[link("rdma0", 1)]))]).at(NOW - 2 * crate::fabrics::HOUR);
    let answer = round(&cluster, "{}").unwrap();
    assert_eq!(groups(&cluster, &answer), ["a1"]);
    assert_eq!(reports(&cluster, &answer, &["clock"]).len(), 1);
}
