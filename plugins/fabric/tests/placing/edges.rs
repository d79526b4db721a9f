//! Situations of real fabrics, one by one.

use crate::fabric::{EIGHT_RAILS, Shape, drawn};
use crate::round::{cluster, first, groups, homes, reports};
use topoloom_fabric::{HostNames, Link, Wiring, clean_host, is_aggregation_node};

#[test]
fn two_hcas_with_their_suffix_left_in_the_name_are_one_host() {
    let cluster = cluster(&["node01"]);
    let mut wiring = Wiring::new();
    for (name, leaf) in [("node01 mlx5_0", "l1"), ("node01 mlx5_1", "l2")] {
        let host = wiring.host(clean_host(name).unwrap());
        let leaf = wiring.switch(leaf, "");
        wiring.link(host, leaf, Link::up(""));
    }
    assert_eq!((wiring.hosts(), wiring.switches(), wiring.links()), (1, 2, 2));
    assert_eq!(groups(&cluster, &first(&cluster, &wiring)), "tier 1 leaf-group | l1 |  | node01\n");
}

#[test]
fn eight_healthy_rails_are_one_group_per_unit_and_not_eight() {
    let shape = Shape { units: 3, ..EIGHT_RAILS };
    let names = shape.names();
    let cluster = cluster(&names);
    let outcome = first(&cluster, &shape.build().wiring());
    assert_eq!(outcome.topology.groups.len(), 3);
    assert_eq!(outcome.topology.diagnostics, []);
}

#[test]
fn a_host_with_dead_hcas_stays_in_its_group() {
    let shape = Shape { units: 3, ..EIGHT_RAILS };
    let names = shape.names();
    let cluster = cluster(&names);
    let mut fabric = shape.build();
    let healthy = homes(&names, &first(&cluster, &fabric.wiring()).topology);
    let host = shape.host(1, 5);
    (0..7).for_each(|rail| fabric.unplug(&host, &Shape::leaf(1, rail)));
    assert_eq!(homes(&names, &first(&cluster, &fabric.wiring()).topology), healthy);
}

#[test]
fn aggregation_nodes_and_default_names_are_no_hosts() {
    let names = HostNames::new(&[]);
    assert!(is_aggregation_node("Mellanox Technologies Aggregation Node"));
    assert_eq!(names.choose(["Mellanox Technologies Aggregation Node"]), None);
    assert_eq!(names.choose(["MT4129 ConnectX7   Mellanox Technologies", "localhost mlx5_0"]), None);
}

/// Without the refusal, this one name would join the two units.
#[test]
fn a_name_that_many_machines_share_does_not_join_units() {
    let shape = Shape { units: 4, ..EIGHT_RAILS };
    let names = shape.names();
    let cluster = cluster(&names);
    let mut fabric = shape.build();
    let healthy = homes(&names, &first(&cluster, &fabric.wiring()).topology);
    for unit in 0..4 {
        (0..8).for_each(|rail| fabric.plug("install-image", &Shape::leaf(unit, rail), "mlx5_0"));
    }
    assert_eq!(homes(&names, &first(&cluster, &fabric.wiring()).topology), healthy);
}

#[test]
fn service_hosts_are_no_members_and_make_no_group_of_their_own() {
    let cluster = cluster(&["a1", "a2"]);
    let outcome = first(&cluster, &drawn("a1: l1\n a2: l1\n login: l1\n ufm: l9\n nas: l8 l9").wiring());
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l1 |  | a1 a2\n");
}

#[test]
fn a_leaf_without_nodes_is_no_group_but_still_a_leaf() {
    let names = ["a1", "b1"];
    let cluster = cluster(&names);
    let mut fabric = drawn("a1: l1\n b1: l2");
    ["l1", "l2", "l3", "l4"].iter().for_each(|leaf| fabric.join(leaf, "s1"));
    let expected = "tier 1 leaf-group | l1 |  | a1\ntier 1 leaf-group | l2 |  | b1\ntier 2 pod | s1 |  | [l1 l2]\n";
    // One bears hosts that are no Nodes, one bears hosts that have no name: neither is above the spine.
    fabric.plug("nas", "l3", "");
    let mut wiring = fabric.wiring();
    let l4 = wiring.switch("l4", "");
    wiring.bears_hosts(l4);
    let shown = groups(&cluster, &first(&cluster, &wiring));
    assert_eq!(shown, expected);
}

#[test]
fn one_name_with_two_identities_is_two_leaves() {
    let cluster = cluster(&["a1", "b1"]);
    let mut wiring = Wiring::new();
    for (host, guid) in [("a1", "0001"), ("b1", "0002")] {
        let host = wiring.host(host);
        let leaf = wiring.switch(guid, "switch");
        wiring.link(host, leaf, Link::up(""));
    }
    assert_eq!(
        groups(&cluster, &first(&cluster, &wiring)),
        "tier 1 leaf-group | 0001 |  | a1 | said switch\ntier 1 leaf-group | 0002 |  | b1 | said switch\n"
    );
}

#[test]
fn one_identity_with_two_names_is_one_leaf_whichever_comes_first() {
    let cluster = cluster(&["a1", "b1"]);
    for names in [["old-name", "new-name"], ["new-name", "old-name"]] {
        let mut wiring = Wiring::new();
        for (host, name) in ["a1", "b1"].into_iter().zip(names) {
            let host = wiring.host(host);
            let leaf = wiring.switch("0001", name);
            wiring.link(host, leaf, Link::up(""));
        }
        let shown = groups(&cluster, &first(&cluster, &wiring));
        assert_eq!(shown, "tier 1 leaf-group | 0001 |  | a1 b1 | said new-name\n");
    }
}

#[test]
fn single_homed_racks_are_a_group_each() {
    let cluster = cluster(&["a1", "a2", "b1"]);
    let outcome = first(&cluster, &drawn("a1: l1\n a2: l1\n b1: l2").wiring());
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l1 |  | a1 a2\ntier 1 leaf-group | l2 |  | b1\n");
}

#[test]
fn records_that_were_left_out_are_counted() {
    let cluster = cluster(&["a1"]);
    let mut wiring = drawn("a1: l1").wiring();
    (0..3).for_each(|port| wiring.skip("no-peer", "ports without a peer", &format!("a1b2_{port}")));
    let outcome = first(&cluster, &wiring);
    assert_eq!(reports(&cluster, &outcome, "no-peer"), ["source | 3 ports without a peer, for instance a1b2_0"]);
}

#[test]
fn an_empty_wiring_is_an_empty_answer() {
    let cluster = cluster(&["a1"]);
    let outcome = first(&cluster, &Wiring::new());
    assert_eq!((outcome.topology.groups.len(), outcome.topology.levels.len()), (0, 0));
}

#[test]
fn two_units_that_share_a_storage_leaf_stay_two_with_a_wrong_cable_on_both_sides() {
    for rails in [1, 2, 8] {
        let shape = Shape { units: 2, rails, storage: 1, storage_units: 2, ..EIGHT_RAILS };
        let names = shape.names();
        let cluster = cluster(&names);
        let mut fabric = shape.build();
        let healthy = homes(&names, &first(&cluster, &fabric.wiring()).topology);
        if rails > 1 {
            (0..rails).for_each(|rail| fabric.plug(&shape.host(0, rail), &Shape::leaf(1, rail), "wrong"));
            (0..rails).for_each(|rail| fabric.plug(&shape.host(1, rail + 9), &Shape::leaf(0, rail), "wrong"));
        } else {
            // A host on both leaves is at home on both, so here a new one comes.
            fabric.plug("new", &Shape::leaf(0, 0), "p");
            fabric.plug("new", &Shape::leaf(1, 0), "p");
            fabric.plug("new", "storage-000", "p");
        }
        assert_eq!(homes(&names, &first(&cluster, &fabric.wiring()).topology), healthy, "{rails} rails");
    }
}

/// The storage switches see the same hosts but for one dead link, so each looks like a rail of a unit to the other.
#[test]
fn several_storage_leaves_of_two_units_tie_nothing_together_either() {
    for (rails, storage) in [(1, 2), (4, 2), (8, 3)] {
        let shape = Shape { units: 2, rails, storage, storage_units: 2, ..EIGHT_RAILS };
        let names = shape.names();
        let cluster = cluster(&names);
        let mut fabric = shape.build();
        fabric.unplug(&shape.host(0, 3), "storage-000");
        fabric.unplug(&shape.host(1, 4), "storage-001");
        if rails > 1 {
            (0..rails).for_each(|rail| fabric.plug(&shape.host(0, rail), &Shape::leaf(1, rail), "wrong"));
            (0..rails).for_each(|rail| fabric.plug(&shape.host(1, rail + 9), &Shape::leaf(0, rail), "wrong"));
        }
        let found = homes(&names, &first(&cluster, &fabric.wiring()).topology);
        let in_unit = |unit: usize| found.iter().filter(|(_, id)| **id == Shape::id(unit)).count();
        if rails > storage {
            assert_eq!((in_unit(0), in_unit(1)), (20, 20), "{rails} rails, {storage} storage");
        }
    }
}
