//! The generator and the edits.

use crate::client::fabric;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use topoloom_simulator::{Edit, End, Fabric, HcaRole, HostKind, Layer, LinkState, Naming, Shape, Versions};

/// Both ends of every cable point at each other, every port has one name, and nothing that was removed is still there.
fn consistent(fabric: &Fabric) {
    let mut names = BTreeSet::new();
    let mut plugged = 0;
    for end in fabric.ports() {
        let name = fabric.port_name(end).unwrap();
        assert!(names.insert(name), "{name} twice");
        assert_eq!(fabric.find_port(name), Ok(end));
        if let Some((far, state)) = fabric.peer(end) {
            assert_eq!(fabric.peer(far), Some((end, state)), "{name} and its peer disagree");
            plugged += 1;
        }
    }
    assert_eq!(plugged, fabric.links().count() * 2);
    assert_eq!(fabric.counts().active_ports, fabric.links().filter(|link| link.state == LinkState::Up).count() * 2);
}

fn shapes() -> impl Strategy<Value = Shape> {
    let hosts = (1..5_u32, 1..5_u32, 1..4_u32, 1..3_u32);
    let above = (1..4_u32, 0..4_u32, 0..4_u32);
    let beside = (0..4_u32, 0..3_u32, 0..3_u32, 0..2_u32, any::<u64>());
    (hosts, above, beside).prop_map(|((units, hosts_per_unit, rails, planes), (pods, spines, cores), beside)| {
        let (storage_leaves, service_hosts, spare_ports, aggregation_nodes, seed) = beside;
        let (pods, cores) = (pods.min(units), if spines == 0 { 0 } else { cores });
        let hosts = Shape { units, hosts_per_unit, rails, planes, pods, spines, cores, ..Shape::default() };
        Shape { storage_leaves, service_hosts, spare_ports, aggregation_nodes, seed, ..hosts }
    })
}

/// An edit of what happens to be there, chosen by two numbers.
fn edit(fabric: &Fabric, what: u8, which: usize) -> Option<Edit> {
    let pick = |count: usize| which.checked_rem(count);
    let hosts: Vec<String> =
        fabric.hosts().filter(|(_, host)| host.kind == HostKind::Compute).map(|(_, host)| host.name.clone()).collect();
    let host = pick(hosts.len()).map(|at| hosts[at].clone());
    let switches: Vec<String> = fabric.switches().map(|(_, switch)| switch.guid.to_string()).collect();
    let switch = pick(switches.len()).map(|at| switches[at].clone());
    let ends: Vec<End> = fabric.ports().filter(|end| fabric.peer(*end).is_some()).collect();
    let port = |at: usize| at.checked_rem(ends.len()).and_then(|at| fabric.port_name(ends[at]));
    Some(match what % 12 {
        0 => Edit::CutPort(port(which)?),
        1 => Edit::CutHost(host?),
        2 => Edit::CutShare { percent: (which % 101) as u8, seed: which as u64 },
        3 => Edit::Mend,
        4 => Edit::Swap(port(which)?, port(which / 7)?),
        5 => Edit::Plug(port(which)?, switch?),
        6 => Edit::Stray(host?, switch?),
        7 => Edit::MoveHost(host?, (which % 4) as u32),
        8 => Edit::RemoveHost(host?),
        9 => Edit::RemoveSwitch(switch?),
        10 => Edit::ReplaceGuid(switch?),
        _ => Edit::AggregationNodes,
    })
}

fn grown(before: Versions, after: Versions) -> bool {
    let pairs = [
        (before.ports, after.ports),
        (before.links, after.links),
        (before.switches, after.switches),
        (before.servers, after.servers),
    ];
    pairs.iter().all(|(before, after)| before <= after)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_generated_fabric_is_consistent_and_has_what_its_shape_says(shape in shapes()) {
        let fabric = Fabric::generate(&shape).unwrap();
        consistent(&fabric);
        let of = |layer| fabric.switches().filter(|(_, switch)| switch.layer == layer).count() as u32;
        prop_assert_eq!(of(Layer::Leaf), shape.units * shape.rails * shape.planes);
        prop_assert_eq!(of(Layer::Spine), shape.pods * shape.spines * shape.planes);
        prop_assert_eq!(of(Layer::Core), shape.cores * shape.planes);
        prop_assert_eq!(of(Layer::Storage), shape.storage_leaves);
        prop_assert_eq!(fabric.counts().hosts as u64, shape.hosts());
        let compute = fabric.hosts().flat_map(|(_, host)| &host.hcas).filter(|hca| matches!(hca.role, HcaRole::Compute { .. }));
        prop_assert_eq!(compute.count() as u64, shape.host_links());
        let names: BTreeSet<_> = fabric.hosts().filter(|(_, host)| host.kind == HostKind::Compute).map(|(_, host)| &host.name).collect();
        prop_assert_eq!(names.len() as u64, shape.hosts());
    }

    #[test]
    fn a_host_ends_at_the_leaf_of_its_unit_rail_and_plane(shape in shapes()) {
        let fabric = Fabric::generate(&shape).unwrap();
        for (index, host) in fabric.hosts() {
            for (number, hca) in (0..).zip(&host.hcas) {
                let Some((End::Switch { switch, .. }, _)) = fabric.peer(End::Host { host: index, hca: number }) else {
                    panic!("{} has no cable at {number}", host.name);
                };
                let leaf = fabric.switch(switch).unwrap();
                if let HcaRole::Compute { rail, plane } = hca.role {
                    prop_assert_eq!((leaf.unit, leaf.rail, leaf.plane), (host.unit, Some(rail), plane));
                }
            }
        }
    }

    #[test]
    fn edits_leave_a_consistent_fabric_and_counters_that_only_grow(
        shape in shapes(),
        edits in prop::collection::vec((any::<u8>(), any::<usize>()), 0..12),
    ) {
        let mut fabric = Fabric::generate(&shape).unwrap();
        for (what, which) in edits {
            let Some(edit) = edit(&fabric, what, which) else { continue };
            let (before, revision) = (fabric.versions(), fabric.revision());
            let outcome = fabric.apply(&edit);
            consistent(&fabric);
            prop_assert!(grown(before, fabric.versions()), "{}", edit);
            // Whatever moved a counter is a new revision, and an edit that failed is none.
            prop_assert_eq!(before == fabric.versions(), revision == fabric.revision(), "{}", edit);
            prop_assert!(outcome.is_ok() || before == fabric.versions(), "{}", edit);
        }
    }
}

#[test]
fn the_large_shape_has_the_ports_of_three_tiers() {
    let fabric = Fabric::generate(&Shape::large()).unwrap();
    assert_eq!(fabric.counts().active_ports, 98_304);
    assert_eq!((fabric.counts().hosts, fabric.ports().count()), (2_048, 98_304));
    let ports: BTreeMap<Layer, BTreeSet<usize>> = fabric.switches().fold(BTreeMap::new(), |mut ports, (_, switch)| {
        ports.entry(switch.layer).or_default().insert(switch.ports());
        ports
    });
    // Every switch of a kind that exists: 64 ports, half of them down.
    assert!(ports.values().all(|counts| counts.iter().eq(&[64])), "{ports:?}");
}

#[test]
fn the_same_seed_gives_the_same_guids_and_another_seed_others() {
    let guids = |shape| fabric(shape).switches().map(|(_, switch)| switch.guid).collect::<Vec<_>>();
    assert_eq!(guids("seed=3"), guids("seed=3"));
    assert!(guids("seed=3").iter().all(|guid| !guids("seed=4").contains(guid)));
}

/// Which counters an edit moves: ports, links, switches, servers.
fn moves(edit: &str) -> [bool; 4] {
    let mut fabric = fabric("units=2,pods=1");
    let before = fabric.versions();
    fabric.apply(&edit.parse().unwrap()).unwrap();
    let after = fabric.versions();
    [
        before.ports != after.ports,
        before.links != after.links,
        before.switches != after.switches,
        before.servers != after.servers,
    ]
}

#[test]
fn every_edit_moves_the_counters_it_concerns_and_no_others() {
    let cabling = [true, true, false, false];
    for (edit, moved) in [
        ("cut-host gpu-00003", cabling),
        ("cut-share 30 1", cabling),
        ("mend", [false; 4]),
        ("move-host gpu-00003 1", cabling),
        ("stray gpu-00003 leaf-su1-r0", cabling),
        ("remove-host gpu-00003", [true, true, false, true]),
        ("remove-switch leaf-su1-r0", [true, true, true, false]),
        ("rename-switch leaf-su1-r0 sonic", [true, false, true, false]),
        ("replace-guid leaf-su1-r0", [true, true, true, false]),
        ("rename-host gpu-00003 gpu-x", [true, false, false, true]),
        ("upper-case gpu-00003", [true, false, false, true]),
        ("keep-suffix gpu-00003", [true, false, false, true]),
        ("aggregation-nodes", [true, true, false, true]),
    ] {
        assert_eq!(moves(edit), moved, "{edit}");
    }
}

#[test]
fn a_share_is_cut_exactly_and_mended_again() {
    let mut fabric = fabric("units=4,hosts-per-unit=20,rails=8");
    let before = fabric.counts();
    assert_eq!(fabric.cut_share(30, 7, LinkState::Unplugged), 192);
    assert_eq!(fabric.counts().links, before.links - 192);
    assert_eq!(fabric.mend(), 192);
    assert_eq!(fabric.counts(), before);
}

#[test]
fn a_moved_host_hangs_on_the_other_unit_with_every_rail() {
    let mut fabric = fabric("units=2,pods=1,rails=4");
    fabric.move_host("gpu-00001", 1).unwrap();
    let host = fabric.find_host("gpu-00001").unwrap();
    let units = (0..4).map(|hca| match fabric.peer(End::Host { host, hca }) {
        Some((End::Switch { switch, .. }, LinkState::Up)) => fabric.switch(switch).unwrap().unit,
        other => panic!("{other:?}"),
    });
    assert!(units.eq([Some(1); 4]));
    assert_eq!(fabric.move_host("gpu-00001", 9).unwrap_err().to_string(), "the fabric has no unit \"9\"");
    consistent(&fabric);
}

#[test]
fn a_fabric_can_be_built_by_hand() {
    let mut fabric = Fabric::empty(1);
    let [leaf, spine] = [fabric.add_switch("leaf", Layer::Leaf), fabric.add_switch("spine", Layer::Spine)];
    let host = fabric.add_host("h1");
    let guid = fabric.add_cable(host, leaf).unwrap();
    fabric.add_trunk(leaf, spine, 3);
    assert_eq!(fabric.host(host).unwrap().hcas[0].guid, guid);
    assert_eq!(fabric.counts().links, 4);
    assert!(fabric.add_cable(host, 99).is_none());
    fabric.set_naming("h1", Naming::Default).unwrap();
    consistent(&fabric);
}
