//! Laws that hold for every fabric, also for random ones.

use std::collections::{BTreeMap, BTreeSet};

use crate::fabric::{Cable, Dice, Fabric, Shape};
use crate::round::{cluster, first, groups, homes, kept, objects, round};
use proptest::prelude::*;
use topoloom_fabric::{Change, LinkState, Settings};

/// Fabrics as they are built: units with rails, storage switches with fewer cables than rails, one or two tiers above.
fn shapes() -> impl Strategy<Value = Shape> {
    (2..7_usize, 4..12_usize, 1..9_usize, 0..3_usize, 0..4_usize, 0..3_usize, 2..4_usize).prop_map(
        |(units, hosts, rails, pod, spines, storage, storage_units)| Shape {
            units,
            hosts,
            rails,
            pod,
            spines,
            cores: 2,
            storage: if rails > 2 { storage } else { 0 },
            storage_units,
        },
    )
}

/// Cables without any plan.
fn tangles() -> impl Strategy<Value = Fabric> {
    let cables = prop::collection::vec((0..20_u32, 0..12_u32, any::<bool>(), 0..3_u32), 0..120);
    let adjacent = prop::collection::vec((0..18_u32, 0..18_u32), 0..40);
    (cables, adjacent).prop_map(|(cables, adjacent)| {
        let mut fabric = Fabric::default();
        for (host, leaf, is_up, port) in cables {
            let state = if is_up || host % 3 > 0 { LinkState::Up } else { LinkState::Down };
            let [host, leaf, port] = [format!("h{host:02}"), format!("s{leaf:02}"), format!("p{port}")];
            fabric.cables.push(Cable { host, leaf, port, state });
        }
        adjacent
            .iter()
            .filter(|(a, b)| a != b)
            .for_each(|(a, b)| fabric.join(&format!("s{a:02}"), &format!("s{b:02}")));
        fabric
    })
}

fn hosts(fabric: &Fabric) -> Vec<String> {
    fabric.cables.iter().map(|cable| cable.host.clone()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The sets of Nodes of every tier, without their names.
fn partition(names: &[String], fabric: &Fabric) -> BTreeSet<Vec<String>> {
    let found = homes(names, &first(&cluster(names), &fabric.wiring()).topology);
    let mut sets: BTreeMap<String, Vec<String>> = BTreeMap::new();
    found.into_iter().for_each(|(name, id)| sets.entry(id).or_default().push(name));
    sets.into_values().collect()
}

/// The groups and their members, in any order.
fn sorted(lines: &str) -> BTreeSet<String> {
    let words = |line: &str| {
        let mut words: Vec<&str> = line.split(['[', ']', ' ']).collect();
        words.sort_unstable();
        words.join(" ")
    };
    lines.lines().map(words).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_records_says_nothing(fabric in tangles(), seed in any::<u64>()) {
        let names = hosts(&fabric);
        let cluster = cluster(&names);
        let shuffled = fabric.shuffled(seed);
        prop_assert_eq!(first(&cluster, &fabric.wiring()).topology, first(&cluster, &shuffled.wiring()).topology);
        // The same for what is remembered.
        prop_assert_eq!(first(&cluster, &fabric.wiring()).memory, first(&cluster, &shuffled.wiring()).memory);
    }

    #[test]
    fn a_round_after_a_round_changes_nothing(fabric in tangles()) {
        let names = hosts(&fabric);
        let cluster = cluster(&names);
        let before = first(&cluster, &fabric.wiring());
        let after = round(&cluster, &fabric.wiring(), &Settings::default(), &kept(&before));
        prop_assert_eq!(groups(&cluster, &before), groups(&cluster, &after));
        let third = round(&cluster, &fabric.wiring(), &Settings::default(), &kept(&after));
        prop_assert_eq!(third.change, Change::None);
        prop_assert_eq!(third.memory, after.memory);
    }

    #[test]
    fn every_host_with_a_live_link_has_exactly_one_place_and_every_group_one_parent(fabric in tangles()) {
        let names = hosts(&fabric);
        let topology = first(&cluster(&names), &fabric.wiring()).topology;
        let live: BTreeSet<&String> = fabric.cables.iter().filter(|cable| cable.state == LinkState::Up).map(|cable| &cable.host).collect();
        let found = homes(&names, &topology);
        prop_assert_eq!(found.keys().collect::<BTreeSet<_>>(), live);
        let ids: BTreeSet<&String> = topology.groups.iter().map(|group| &group.id).collect();
        prop_assert_eq!(ids.len(), topology.groups.len());
        prop_assert!(ids.iter().all(|id| (1..=512).contains(&id.len())));
        let mut children = BTreeSet::new();
        for group in &topology.groups {
            let tier = topology.levels[group.level as usize].tier;
            if let topoloom_sdk::Members::Groups(members) = &group.members {
                for &member in members {
                    prop_assert!(children.insert(member), "two parents");
                    prop_assert!(topology.levels[topology.groups[member as usize].level as usize].tier < tier);
                }
            }
        }
    }

    /// With any objects and any links.
    #[test]
    fn after_a_restart_order_says_nothing_and_nothing_oscillates(old in tangles(), fabric in tangles(), seed in any::<u64>()) {
        let mut names = hosts(&old);
        names.extend(hosts(&fabric));
        names.sort();
        names.dedup();
        let applied = objects(&first(&cluster(&names), &old.wiring()).topology);
        let cluster = cluster(&names).objects(applied);
        let before = first(&cluster, &fabric.wiring());
        let shuffled = first(&cluster, &fabric.shuffled(seed).wiring());
        prop_assert_eq!(&before.topology, &shuffled.topology);
        prop_assert_eq!(&before.memory, &shuffled.memory);
        let ids: BTreeSet<&String> = before.topology.groups.iter().map(|group| &group.id).collect();
        prop_assert_eq!(ids.len(), before.topology.groups.len());
        // A tangle that objects say nothing true about is sorted out within a few rounds, and then at rest; a real fabric
        // is at once (`halves`).
        let mut history = vec![before];
        for _ in 0..8 {
            let memory = history.last().map(kept).unwrap_or_default();
            history.push(round(&cluster, &fabric.wiring(), &Settings::default(), &memory));
        }
        let seen: Vec<_> = history.iter().map(|outcome| sorted(&groups(&cluster, outcome))).collect();
        prop_assert_eq!(&seen[6], &seen[7]);
        prop_assert_eq!(&seen[7], &seen[8]);
    }

    #[test]
    fn names_of_hosts_and_switches_say_nothing(shape in shapes(), seed in any::<u64>()) {
        let names = shape.names();
        let fabric = shape.build();
        let mut dice = Dice(seed);
        let mut numbers: Vec<usize> = (0..names.len()).collect();
        dice.shuffle(&mut numbers);
        let new: BTreeMap<&str, String> = names.iter().map(String::as_str).zip(numbers.iter().map(|number| format!("n{number:04}"))).collect();
        let old: BTreeMap<&String, &str> = new.iter().map(|(old, new)| (new, *old)).collect();
        let salt = dice.roll();
        let renamed = fabric.renamed(
            |host| new[host].clone(),
            |switch| format!("{:016x}", switch.bytes().fold(salt, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))),
        );
        let new_names: Vec<String> = new.values().cloned().collect();
        let back: BTreeSet<Vec<String>> = partition(&new_names, &renamed)
            .into_iter()
            .map(|set| {
                let mut set: Vec<String> = set.iter().map(|name| old[name].to_owned()).collect();
                set.sort();
                set
            })
            .collect();
        prop_assert_eq!(back, partition(&names, &fabric));
    }

    #[test]
    fn every_unit_is_a_group_and_shared_storage_ties_none_together(shape in shapes()) {
        let names = shape.names();
        let found = homes(&names, &first(&cluster(&names), &shape.build().wiring()).topology);
        for unit in 0..shape.units {
            for host in 0..shape.hosts {
                prop_assert_eq!(&found[&shape.host(unit, host)], &Shape::id(unit));
            }
        }
    }

    /// Fewer wrong cables at a host than right ones, and at few hosts of a unit.
    #[test]
    fn a_few_wrong_cables_move_no_host(shape in shapes(), seed in any::<u64>(), strays in 1..6_usize) {
        let shape = Shape { rails: shape.rails.max(2), ..shape };
        let names = shape.names();
        let mut fabric = shape.build();
        let healthy = homes(&names, &first(&cluster(&names), &fabric.wiring()).topology);
        let mut dice = Dice(seed);
        let mut touched = BTreeSet::new();
        for _ in 0..strays.min(shape.hosts / 4) {
            let host = shape.host(dice.below(shape.units), dice.below(shape.hosts));
            if touched.insert(host.clone()) {
                fabric.plug(&host, &Shape::leaf(dice.below(shape.units), dice.below(shape.rails)), "wrong");
            }
        }
        prop_assert_eq!(homes(&names, &first(&cluster(&names), &fabric.wiring()).topology), healthy);
    }

    #[test]
    fn with_memory_dead_links_move_no_host_in_any_fabric(fabric in tangles(), percent in 1..100_u64, seed in any::<u64>()) {
        let names = hosts(&fabric);
        let cluster = cluster(&names);
        let before = first(&cluster, &fabric.wiring());
        let left = fabric.without(percent, seed);
        let after = round(&cluster, &left.wiring(), &Settings::default(), &kept(&before));
        prop_assert_eq!(homes(&names, &before.topology), homes(&names, &after.topology));
    }
}
