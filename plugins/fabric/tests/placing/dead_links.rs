use std::collections::BTreeMap;

use crate::fabric::{Dice, EIGHT_RAILS, Fabric, Shape, drawn};
use crate::round::{cluster, first, groups, homes, kept, reports, round};
use topoloom_fabric::{Memory, Settings};

const UNITS: Shape = Shape { units: 50, ..EIGHT_RAILS };

fn expected(shape: Shape, left: &Fabric) -> BTreeMap<String, String> {
    let mut homes: BTreeMap<String, String> = (0..shape.units)
        .flat_map(|unit| (0..shape.hosts).map(move |host| (shape.host(unit, host), Shape::id(unit))))
        .collect();
    homes.retain(|host, _| left.cables.iter().any(|cable| cable.host == *host));
    homes
}

/// Hosts in a wrong group, of all that still have a link.
fn moved(expected: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> usize {
    expected.iter().filter(|(host, id)| found.get(*host) != Some(*id)).count()
}

fn without_memory(shape: Shape, percent: u64, seeds: u64) -> (usize, usize) {
    let names = shape.names();
    let cluster = cluster(&names);
    let fabric = shape.build();
    (0..seeds).fold((0, 0), |(wrong, all), seed| {
        let left = fabric.without(percent, seed);
        let found = homes(&names, &first(&cluster, &left.wiring()).topology);
        let expected = expected(shape, &left);
        (wrong + moved(&expected, &found), all + expected.len())
    })
}

#[test]
fn with_thirty_percent_of_the_links_dead_999_of_1000_hosts_are_found_where_they_are() {
    let (wrong, all) = without_memory(UNITS, 30, 20);
    assert!(all > 19_000);
    assert!(wrong * 1000 <= all, "{wrong} of {all} hosts are elsewhere");
}

#[test]
fn with_storage_switches_and_spines_in_the_fabric_too() {
    let shape = Shape { units: 24, pod: 6, spines: 4, cores: 4, storage: 8, storage_units: 6, ..EIGHT_RAILS };
    let (wrong, all) = without_memory(shape, 30, 20);
    assert!(wrong * 1000 <= all, "{wrong} of {all} hosts are elsewhere");
}

#[test]
fn with_memory_no_host_that_keeps_a_live_link_changes_the_name_of_its_group() {
    let names = UNITS.names();
    let cluster = cluster(&names);
    let fabric = UNITS.build();
    let before = first(&cluster, &fabric.wiring());
    let memory = kept(&before);
    for (percent, seed) in (0..10).map(|seed| (30, seed)).chain((10..14).map(|seed| (70, seed))).chain([(95, 14)]) {
        let left = fabric.without(percent, seed);
        let outcome = round(&cluster, &left.wiring(), &Settings::default(), &memory);
        let found = homes(&names, &outcome.topology);
        assert_eq!(moved(&expected(UNITS, &left), &found), 0, "{percent} % with seed {seed}");
        // Those without any link keep their place too, for now.
        assert_eq!(found, homes(&names, &before.topology));
    }
}

/// After days dead cables are forgotten: the remaining ones give the same groups.
#[test]
fn nor_when_a_third_of_the_links_stays_dead_for_ever() {
    let names = UNITS.names();
    let fabric = UNITS.build();
    let at = |hours: u64| cluster(&names).at(hours * 60 * 60 * 1000);
    for seed in 0..4 {
        let before = first(&at(0), &fabric.wiring());
        let left = fabric.without(30, seed);
        let mut memory = kept(&before);
        for hours in [1, 25, 26, 27, 60] {
            let outcome = round(&at(hours), &left.wiring(), &Settings::default(), &memory);
            assert_eq!(moved(&expected(UNITS, &left), &homes(&names, &outcome.topology)), 0, "seed {seed}, {hours} h");
            memory = kept(&outcome);
        }
    }
}

/// Links die, come back and die again, and the first round already saw a broken fabric.
#[test]
fn memory_of_a_broken_fabric_holds_too() {
    let names = UNITS.names();
    let cluster = cluster(&names);
    let fabric = UNITS.build();
    let mut memory = Memory::default();
    let mut last: Option<BTreeMap<String, String>> = None;
    for seed in 0..12 {
        let left = fabric.without(30, 100 + seed);
        let outcome = round(&cluster, &left.wiring(), &Settings::default(), &memory);
        memory = kept(&outcome);
        let found = homes(&names, &outcome.topology);
        if let Some(last) = last {
            let changed: Vec<_> = last.iter().filter(|(host, id)| found.get(*host) != Some(*id)).collect();
            assert_eq!(changed, [], "seed {seed}");
        }
        last = Some(found);
    }
}

#[test]
fn with_half_of_the_links_dead_large_units_are_found_too() {
    let shape = Shape { units: 20, hosts: 64, ..EIGHT_RAILS };
    let (wrong, all) = without_memory(shape, 50, 5);
    assert!(wrong * 1000 <= all, "{wrong} of {all} hosts are elsewhere");
}

/// A fabric with a fifth of its links dead.
fn worn(seed: u64) -> (Shape, Fabric) {
    let mut dice = Dice(seed);
    let shape = Shape {
        units: 2 + dice.below(6),
        hosts: 8 + dice.below(20),
        rails: 3 + dice.below(6),
        storage: dice.below(4),
        storage_units: 1 + dice.below(3),
        ..EIGHT_RAILS
    };
    (shape, shape.build().without(20, seed))
}

/// Hosts without any other host of their unit, although no more links lead elsewhere than into the unit.
fn alone((shape, fabric): &(Shape, Fabric)) -> Vec<String> {
    let names = shape.names();
    let found = homes(&names, &first(&cluster(&names), &fabric.wiring()).topology);
    let mut alone = Vec::new();
    for unit in 0..shape.units {
        let hosts: Vec<String> = (0..shape.hosts).map(|host| shape.host(unit, host)).collect();
        let is_alone = |host: &&String| {
            let leaves = || fabric.cables.iter().filter(|cable| cable.host == **host).map(|cable| &cable.leaf);
            let elsewhere = leaves().filter(|leaf| leaf.starts_with("storage")).count();
            let own = leaves().count() - elsewhere;
            let with = hosts.iter().filter(|other| found.get(*other) == found.get(*host)).count();
            own > 0 && own >= elsewhere && with == 1
        };
        alone.extend(hosts.iter().filter(is_alone).cloned());
    }
    alone
}

#[test]
fn in_none_of_a_thousand_fabrics_with_a_fifth_of_their_links_dead_does_a_host_stand_alone() {
    let bad: Vec<(u64, Vec<String>)> =
        (0..1000).map(|seed| (seed, alone(&worn(seed)))).filter(|(_, alone)| !alone.is_empty()).collect();
    assert_eq!(bad, []);
}

/// One live link into its unit and one to a switch that is smaller: storage of its own, or a leaf with few live links.
#[test]
fn a_host_with_one_link_here_and_one_there_goes_where_most_of_its_neighbours_are() {
    let cluster = cluster(&["h1", "h2", "h3", "h4", "h5", "h6"]);
    let odd = "h1: r1 r2 r3\n h2: r1 r2 r3\n h3: r1 r2 r3\n h4: r1 r2 r3\n h5: r1 r2 r3 st\n h6: r1 st";
    let outcome = first(&cluster, &drawn(odd).wiring());
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | r1 |  | h1 h2 h3 h4 h5 h6\n");
    // Where the others say nothing, the smaller switch is home.
    let outcome = first(&cluster, &drawn("h1: a st\n h2: a st\n h3: a st\n h4: b st\n h5: b st\n h6: b st").wiring());
    let expected = "tier 1 leaf-group | a |  | h1 h2 h3\ntier 1 leaf-group | b |  | h4 h5 h6\n";
    assert_eq!(groups(&cluster, &outcome), expected);
    let tied = reports(&cluster, &outcome, "tied-host");
    let sentence = "h1 | host \"h1\" is in group \"a\", with as many links elsewhere: 1 to \"a\", 1 to \"st\"";
    assert_eq!((tied.len(), tied[0].as_str()), (6, sentence));
}
