//! Both forms of lldpcli: what the program printed (lldpd 1.0.16, names and addresses replaced), and what it may print.

use super::*;

/// The neighbour of each interface, as text.
fn shown(output: &str, protocols: Protocols) -> Vec<String> {
    let neighbours = read(&Value::parse(output).unwrap()).unwrap();
    let shown = |(interface, peer): (String, Peer)| match peer {
        Peer::Switch { switch, port } => format!("{interface}: {} {port}", show(&switch)),
        Peer::Unusable(code, _) => format!("{interface}: {code}"),
    };
    decide(neighbours, protocols).into_iter().map(shown).collect()
}

fn lldp(output: &str) -> Vec<String> {
    shown(output, Protocols::Lldp)
}

/// `json0` of one interface for each (name, via, chassis).
fn json0(neighbours: &[(&str, &str, &str)]) -> String {
    let list: Vec<String> = neighbours
        .iter()
        .map(|(name, via, chassis)| format!(r#"{{"name": "{name}", "via": "{via}", "chassis": [{chassis}]}}"#))
        .collect();
    format!(r#"{{"lldp": [{{"interface": [{}]}}]}}"#, list.join(","))
}

fn chassis(mac: &str, capabilities: &[(&str, bool)]) -> String {
    let list: Vec<String> =
        capabilities.iter().map(|(kind, on)| format!(r#"{{"type": "{kind}", "enabled": {on}}}"#)).collect();
    format!(r#"{{"id": [{{"type": "mac", "value": "{mac}"}}], "capability": [{}]}}"#, list.join(","))
}

const A: &str = "7c:8c:09:aa:bb:01";
const B: &str = "7c:8c:09:aa:bb:02";
const BRIDGE: [(&str, bool); 2] = [("Bridge", true), ("Station", false)];
const STATION: [(&str, bool); 2] = [("Bridge", false), ("Station", true)];

#[test]
fn both_forms_of_many_interfaces_say_the_same() {
    let expected = [
        r#"rdma0: "leaf-su2-r0" (mac:7c:8c:09:aa:bb:01) 7c:8c:09:aa:bb:01"#,
        r#"rdma1: "leaf-su2-r0" (mac:7c:8c:09:aa:bb:01) 7c:8c:09:aa:bb:02"#,
    ];
    assert_eq!(lldp(include_str!("../../seeds/two-interfaces.json0")), expected);
    assert_eq!(lldp(include_str!("../../seeds/two-interfaces.json")), expected);
    assert_eq!(lldp(include_str!("../../seeds/summary.json0")), expected);
}

#[test]
fn one_interface_is_read_in_both_forms() {
    let expected = [r#"rdma0: "leaf-su2-r0" (mac:7c:8c:09:aa:bb:01) 7c:8c:09:aa:bb:01"#];
    assert_eq!(lldp(include_str!("../../seeds/one-interface.json")), expected);
    let json0 = r#"{"lldp": [{"interface": [{"name": "rdma0", "via": "LLDP",
        "chassis": [{"id": [{"type": "mac", "value": "7C:8C:09:AA:BB:01"}], "name": [{"value": " leaf-su2-r0 "}]}],
        "port": [{"id": [{"type": "ifname", "value": "Ethernet128"}], "descr": [{"value": "etp17"}]}]}]}]}"#;
    assert_eq!(lldp(json0), [r#"rdma0: "leaf-su2-r0" (mac:7c:8c:09:aa:bb:01) Ethernet128"#]);
}

#[test]
fn nothing_at_all_is_no_neighbour() {
    for output in [
        include_str!("../../seeds/no-neighbour.json0"),
        include_str!("../../seeds/no-neighbour.json"),
        r#"{"lldp":[{"interface":[]}]}"#,
        r#"{"lldp":{"interface":null}}"#,
    ] {
        assert!(lldp(output).is_empty(), "{output}");
    }
}

#[test]
fn what_is_no_output_of_lldpcli_is_an_error() {
    for output in ["[]", "{}", "7", r#"{"error": "no daemon"}"#] {
        assert!(read(&Value::parse(output).unwrap()).is_err(), "{output}");
    }
}

#[test]
fn a_neighbour_without_a_system_name_is_read_in_both_forms() {
    let json = r#"{"lldp": {"interface": {"rdma0": {"via": "LLDP",
        "chassis": {"id": {"type": "mac", "value": "7c:8c:09:aa:bb:01"}, "descr": "a switch"},
        "port": {"descr": "etp17"}}}}}"#;
    assert_eq!(lldp(json), [r#"rdma0: "mac:7c:8c:09:aa:bb:01" etp17"#]);
    assert_eq!(lldp(&json0(&[("rdma0", "LLDP", &chassis(A, &[]))])), [r#"rdma0: "mac:7c:8c:09:aa:bb:01" "#]);
}

#[test]
fn a_switch_may_be_called_like_a_key() {
    for name in ["id", "name", "descr", "value", "capability"] {
        let json = format!(
            r#"{{"lldp": {{"interface": {{"rdma0": {{"via": "LLDP", "chassis": {{"{name}": {{
                "id": {{"type": "mac", "value": "7c:8c:09:aa:bb:01"}}, "descr": "x"}}}}}}}}}}}}"#
        );
        assert_eq!(lldp(&json), [format!(r#"rdma0: "{name}" (mac:7c:8c:09:aa:bb:01) "#)], "{name}");
    }
}

#[test]
fn two_switches_on_one_interface_are_dropped_in_both_forms() {
    let json = include_str!("../../seeds/two-neighbours.json");
    let json0 = include_str!("../../seeds/two-neighbours.json0");
    let array = r#"{"lldp": {"interface": {"rdma0": {"via": "LLDP", "chassis": [
        {"a": {"id": {"type": "mac", "value": "7c:8c:09:aa:bb:01"}}},
        {"b": {"id": {"type": "mac", "value": "7c:8c:09:aa:bb:02"}}}]}}}}"#;
    for output in [json, json0, array] {
        assert_eq!(lldp(output), ["rdma0: several-neighbours"], "{output}");
    }
}

#[test]
fn the_same_switch_twice_on_one_interface_is_one() {
    let twice = json0(&[("rdma0", "LLDP", &chassis(A, &BRIDGE)), ("rdma0", "LLDP", &chassis(A, &BRIDGE))]);
    assert_eq!(lldp(&twice), [r#"rdma0: "mac:7c:8c:09:aa:bb:01" "#]);
}

#[test]
fn a_bridge_or_router_is_preferred_to_a_station() {
    for kind in ["Bridge", "Router"] {
        let both = json0(&[("rdma0", "LLDP", &chassis(A, &STATION)), ("rdma0", "LLDP", &chassis(B, &[(kind, true)]))]);
        assert_eq!(lldp(&both), [r#"rdma0: "mac:7c:8c:09:aa:bb:02" "#]);
    }
    let disabled =
        json0(&[("rdma0", "LLDP", &chassis(A, &[("Bridge", false)])), ("rdma0", "LLDP", &chassis(B, &BRIDGE))]);
    assert_eq!(lldp(&disabled), [r#"rdma0: "mac:7c:8c:09:aa:bb:02" "#]);
}

#[test]
fn a_station_alone_is_no_switch() {
    assert_eq!(lldp(include_str!("../../seeds/station.json0")), ["rdma0: not-a-switch", "rdma1: not-a-switch"]);
    // A single capability is no list in the short form, and old versions wrote words.
    let json = r#"{"lldp": {"interface": {"rdma0": {"via": "LLDP", "chassis": {"dpu": {
        "id": {"type": "mac", "value": "7c:8c:09:aa:bb:01"}, "capability": {"type": "Station", "enabled": "on"}}}}}}}"#;
    assert_eq!(lldp(json), ["rdma0: not-a-switch"]);
}

#[test]
fn other_protocols_count_only_where_they_are_allowed() {
    let cdp = json0(&[("rdma0", "CDPv2", &chassis(A, &[]))]);
    assert_eq!(lldp(&cdp), ["rdma0: not-lldp"]);
    assert_eq!(shown(&cdp, Protocols::LldpAndCdp), [r#"rdma0: "mac:7c:8c:09:aa:bb:01" "#]);
    let both = json0(&[("rdma0", "CDPv2", &chassis(A, &[])), ("rdma0", "LLDP", &chassis(B, &BRIDGE))]);
    for protocols in [Protocols::Lldp, Protocols::LldpAndCdp] {
        assert_eq!(shown(&both, protocols), [r#"rdma0: "mac:7c:8c:09:aa:bb:02" "#]);
    }
    let edp = json0(&[("rdma0", "EDP", &chassis(A, &[]))]);
    assert_eq!(shown(&edp, Protocols::LldpAndCdp), ["rdma0: not-lldp"]);
}

#[test]
fn a_neighbour_without_usable_identity_is_reported() {
    let unnamed = r#"{"id": [{"type": "mac", "value": "00:00:00:00:00:00"}]}"#;
    assert_eq!(lldp(&json0(&[("rdma0", "LLDP", unnamed)])), ["rdma0: bad-link"]);
}

#[test]
fn more_neighbours_than_a_machine_has_are_refused() {
    let one = chassis(A, &[]);
    let many: Vec<String> = (0..=MAX_NEIGHBOURS).map(|number| format!("eth{number}")).collect();
    let many: Vec<(&str, &str, &str)> = many.iter().map(|name| (name.as_str(), "LLDP", one.as_str())).collect();
    assert!(read(&Value::parse(&json0(&many)).unwrap()).is_err());
}
