use crate::fabric::{Dice, EIGHT_RAILS, Fabric, Shape, drawn};
use crate::round::{applied, cluster, first, groups, homes, kept, objects, reports, round};
use topoloom_fabric::{Change, LinkState, Memory, Settings};
use topoloom_sdk::Members;
use topoloom_sdk::testing::Cluster;

const HOUR: u64 = 60 * 60 * 1000;

fn next(cluster: &Cluster, fabric: &Fabric, memory: &Memory) -> topoloom_fabric::Outcome {
    round(cluster, &fabric.wiring(), &Settings::default(), memory)
}

#[test]
fn a_host_with_all_links_down_keeps_its_place_until_the_grace_is_over() {
    let names = ["a1", "a2", "b1", "b2"];
    let at = |time| names.iter().fold(Cluster::new(), |cluster, name| cluster.node(name, [])).at(time);
    let fabric = drawn("a1: l1 l2\n a2: l1 l2\n b1: m1 m2\n b2: m1 m2");
    let healthy = groups(&at(0), &first(&at(0), &fabric.wiring()));
    for dark in [fabric.without_host("a1"), drawn("a1: !l1 !l2\n a2: l1 l2\n b1: m1 m2\n b2: m1 m2")] {
        let memory = kept(&first(&at(HOUR), &fabric.wiring()));
        let outcome = next(&at(2 * HOUR), &dark, &memory);
        assert_eq!(groups(&at(0), &outcome), healthy);
        assert_eq!(
            reports(&at(0), &outcome, "kept-while-down"),
            ["a1 | 1 host with no live link; kept in group \"l1\": a1"]
        );
        // A day after it was last seen, and a little more.
        let outcome = next(&at(25 * HOUR), &dark, &kept(&outcome));
        assert_eq!(groups(&at(0), &outcome), healthy);
        let outcome = next(&at(25 * HOUR + 1), &dark, &kept(&outcome));
        assert_eq!(homes(&names, &outcome.topology).get("a1"), None);
        let dropped = reports(&at(0), &outcome, "dropped-while-down");
        assert_eq!(dropped, ["a1 | 1 host with no live link for more than 86400 s; no longer placed: a1"]);
        let outcome = next(&at(26 * HOUR), &dark, &kept(&outcome));
        assert_eq!(reports(&at(0), &outcome, "dropped-while-down").len(), 0);
        // It comes back.
        let outcome = next(&at(27 * HOUR), &fabric, &kept(&outcome));
        assert_eq!(groups(&at(0), &outcome), healthy);
    }
}

#[test]
fn a_whole_unit_in_the_dark_keeps_its_group_and_its_pod() {
    let shape = Shape { units: 8, pod: 4, spines: 4, cores: 2, ..EIGHT_RAILS };
    let names = shape.names();
    let cluster = cluster(&names);
    let fabric = shape.build();
    let before = first(&cluster, &fabric.wiring());
    let mut dark = fabric.clone();
    dark.cables.retain(|cable| !cable.host.starts_with("gpu-u002"));
    dark.adjacent.retain(|(a, _, _)| !a.starts_with("leaf-u002"));
    let after = next(&cluster, &dark, &kept(&before));
    assert_eq!(groups(&cluster, &after), groups(&cluster, &before));
}

#[test]
fn a_leaf_whose_hosts_are_all_dark_does_not_become_a_core() {
    let mut fabric = drawn("a1: l1\n b1: l2\n c1: l3");
    ["l1", "l2"].iter().for_each(|leaf| fabric.join(leaf, "s1"));
    fabric.join("l3", "s2");
    fabric.join("s1", "x");
    fabric.join("s2", "x");
    let cluster = cluster(&["a1", "b1", "c1"]);
    let before = first(&cluster, &fabric.wiring());
    let after = next(&cluster, &fabric.without_host("a1"), &kept(&before));
    assert_eq!(groups(&cluster, &after), groups(&cluster, &before));
}

#[test]
fn a_host_that_really_moved_is_where_it_is_now() {
    let names = ["a1", "a2", "a3", "b1", "b2", "b3"];
    let cluster = cluster(&names);
    let fabric = drawn("a1: l1 l2\n a2: l1 l2\n a3: l1 l2\n b1: m1 m2\n b2: m1 m2\n b3: m1 m2");
    let memory = kept(&first(&cluster, &fabric.wiring()));
    let mut moved = fabric.without_host("a1");
    ["m1", "m2"].iter().for_each(|leaf| moved.plug("a1", leaf, "p"));
    let outcome = next(&cluster, &moved, &memory);
    assert_eq!(homes(&names, &outcome.topology)["a1"], "m1");
    assert_eq!(reports(&cluster, &outcome, "dead-links"), Vec::<String>::new());
}

#[test]
fn a_replaced_switch_keeps_the_name_even_if_it_was_the_anchor() {
    let shape = Shape { units: 4, ..EIGHT_RAILS };
    let names = shape.names();
    let cluster = cluster(&names);
    let fabric = shape.build();
    let before = first(&cluster, &fabric.wiring());
    let replaced =
        fabric.renamed(str::to_owned, |switch| if switch == "leaf-u001-r0" { "new".into() } else { switch.into() });
    let after = next(&cluster, &replaced, &kept(&before));
    assert_eq!(homes(&names, &after.topology), homes(&names, &before.topology));
    // One after the other, until none of the old ones is left.
    let mut memory = kept(&before);
    let mut fabric = fabric;
    for rail in 0..8 {
        fabric = fabric.renamed(str::to_owned, |switch| {
            if switch == Shape::leaf(2, rail) { format!("fresh-{rail}") } else { switch.into() }
        });
        let outcome = next(&cluster, &fabric, &memory);
        assert_eq!(homes(&names, &outcome.topology), homes(&names, &before.topology), "rail {rail}");
        memory = kept(&outcome);
    }
}

#[test]
fn the_only_switch_of_a_rack_is_replaced_and_the_name_stays() {
    let names = ["a1", "a2", "a3", "b1", "b2"];
    let cluster = cluster(&names);
    let fabric = drawn("a1: l\n a2: l\n a3: l\n b1: m\n b2: m");
    let before = first(&cluster, &fabric.wiring());
    let replaced = fabric.renamed(str::to_owned, |switch| if switch == "l" { "z".into() } else { switch.into() });
    let after = next(&cluster, &replaced, &kept(&before));
    assert_eq!(homes(&names, &after.topology), homes(&names, &before.topology));
}

#[test]
fn the_same_round_again_is_no_change() {
    let shape = Shape { units: 4, pod: 2, spines: 2, cores: 1, ..EIGHT_RAILS };
    let names = shape.names();
    let cluster = cluster(&names);
    let wiring = shape.build().without(10, 1).wiring();
    let before = first(&cluster, &wiring);
    assert_eq!(before.change, Change::Some);
    let again = round(&cluster, &wiring, &Settings::default(), &kept(&before));
    assert_eq!((again.change, &again.topology), (Change::None, &before.topology));
    // The same Nodes in another order are other rows, and the same answer.
    let turned: Vec<&String> = names.iter().rev().collect();
    let turned = crate::round::cluster(&turned);
    assert_eq!(round(&turned, &wiring, &Settings::default(), &kept(&before)).change, Change::None);
    let fewer = crate::round::cluster(&names[1..]);
    assert_eq!(round(&fewer, &wiring, &Settings::default(), &kept(&before)).change, Change::Some);
}

#[test]
fn after_a_restart_groups_keep_the_names_that_the_cluster_knows() {
    let mut fabric = drawn("a1: l1 l2\n a2: l1 l2\n a3: l1 l2\n b1: m1 m2\n b2: m1 m2");
    ["l1", "l2", "m1", "m2"].iter().for_each(|leaf| fabric.join(leaf, "s"));
    let cluster = cluster(&["a1", "a2", "a3", "b1", "b2"]).objects(vec![
        applied("old-top", 2, Members::Groups(vec![2, 1])),
        applied("old-a", 1, Members::Rows(vec![0, 1])),
        applied("old-b", 1, Members::Rows(vec![3, 4])),
    ]);
    let outcome = first(&cluster, &fabric.wiring());
    let expected = "tier 1 leaf-group | old-a |  | a1 a2 a3\n\
                    tier 1 leaf-group | old-b |  | b1 b2\n\
                    tier 2 pod | old-top |  | [old-a old-b]\n";
    assert_eq!(groups(&cluster, &outcome), expected);
    // The memory of that round knows the names too.
    let again = next(&crate::round::cluster(&["a1", "a2", "a3", "b1", "b2"]), &fabric, &kept(&outcome));
    assert_eq!(groups(&cluster, &again), expected);
}

#[test]
fn after_a_restart_a_dark_host_stays_where_the_cluster_has_it() {
    let names = ["a1", "a2", "b1"];
    let with = |time: u64| {
        cluster(&names)
            .at(time)
            .objects(vec![applied("l1", 1, Members::Rows(vec![0, 1])), applied("m1", 1, Members::Rows(vec![2]))])
    };
    for dark in [drawn("a1: l1"), drawn("a1: l1\n a2: !l1\n b1: !m1")] {
        let outcome = first(&with(HOUR), &dark.wiring());
        let expected = "tier 1 leaf-group | l1 |  | a1 a2\ntier 1 leaf-group | m1 |  | b1\n";
        assert_eq!(groups(&with(0), &outcome), expected);
        let outcome = next(&with(25 * HOUR), &dark, &kept(&outcome));
        assert_eq!(groups(&with(0), &outcome), expected);
        let outcome = next(&with(26 * HOUR), &dark, &kept(&outcome));
        assert_eq!(groups(&with(0), &outcome), "tier 1 leaf-group | l1 |  | a1\n");
    }
}

#[test]
fn a_host_under_another_name_is_not_also_kept_under_the_old_one() {
    let cluster = cluster(&["a1", "a2"]);
    let memory = kept(&first(&cluster, &drawn("a1: l1\n a2: l1").wiring()));
    let outcome = next(&cluster, &drawn("a1.fabric: l1\n a2: l1"), &memory);
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l1 |  | a1 a2\n");
    assert_eq!(outcome.topology.diagnostics, []);
}

#[test]
fn links_that_are_down_count_where_the_operator_says_so() {
    let names = ["a1", "a2"];
    let cluster = cluster(&names);
    let mut fabric = drawn("a1: l1\n a2: l1");
    fabric.cables.iter_mut().for_each(|cable| cable.state = LinkState::Down);
    assert_eq!(groups(&cluster, &first(&cluster, &fabric.wiring())), "");
    let settings = Settings { down: topoloom_fabric::Down::Count, ..Settings::default() };
    let outcome = round(&cluster, &fabric.wiring(), &settings, &Memory::default());
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l1 |  | a1 a2\n");
}

#[test]
fn a_split_that_dead_links_made_heals_when_they_are_back() {
    let names = ["a1", "a2", "a3", "a4"];
    let cluster = cluster(&names);
    let broken = drawn("a1: l1\n a2: l1\n a3: l2\n a4: l2");
    let memory = kept(&first(&cluster, &broken.wiring()));
    let whole = drawn("a1: l1 l2\n a2: l1 l2\n a3: l1 l2\n a4: l1 l2");
    let outcome = next(&cluster, &whole, &memory);
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l1 |  | a1 a2 a3 a4\n");
}

#[test]
fn with_memory_no_group_of_any_tier_changes_when_links_between_switches_die() {
    let shape = Shape { units: 12, rails: 4, hosts: 4, pod: 4, spines: 6, cores: 4, storage: 0, storage_units: 0 };
    let cluster = cluster(&shape.names());
    let fabric = shape.build();
    let before = first(&cluster, &fabric.wiring());
    for seed in 0..10 {
        let mut dice = Dice(seed);
        let mut left = fabric.without(30, seed);
        left.adjacent.retain(|_| !dice.percent(40));
        let after = next(&cluster, &left, &kept(&before));
        assert_eq!(groups(&cluster, &after), groups(&cluster, &before), "seed {seed}");
    }
}

#[test]
fn after_a_restart_into_a_broken_fabric_with_new_switches_the_names_are_the_old_ones() {
    let shape = Shape { units: 12, pod: 4, spines: 4, cores: 2, ..EIGHT_RAILS };
    let names = shape.names();
    let before = first(&cluster(&names), &shape.build().wiring());
    let restarted = cluster(&names).objects(objects(&before.topology));
    for seed in 0..5 {
        // Every anchor is another switch now.
        let replaced = |switch: &str| {
            if switch.ends_with("-r0") || switch.ends_with("-00") { format!("new-{switch}") } else { switch.into() }
        };
        let left = shape.build().renamed(str::to_owned, replaced).without(30, seed);
        let after = first(&restarted, &left.wiring());
        assert_eq!(groups(&restarted, &after), groups(&restarted, &before), "seed {seed}");
    }
}

#[test]
fn a_name_that_the_operator_ignores_is_not_kept_from_the_objects() {
    let cluster = cluster(&["a1", "login-1"]).objects(vec![applied("l1", 1, Members::Rows(vec![0, 1]))]);
    let settings = Settings { ignore_hosts: vec![regex_lite::Regex::new("^login-").unwrap()], ..Settings::default() };
    let outcome = round(&cluster, &drawn("a1: l1").wiring(), &settings, &Memory::default());
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l1 |  | a1\n");
}

/// Whole histories: links die and come back, hosts move from unit to unit, cables go wrong and right again.
#[test]
fn after_any_history_a_healthy_fabric_gets_its_usual_groups() {
    let shape = Shape { units: 6, storage: 2, storage_units: 3, pod: 3, spines: 4, cores: 2, ..EIGHT_RAILS };
    let names = shape.names();
    let cluster = cluster(&names);
    for seed in 0..4 {
        let mut dice = Dice(seed);
        let mut whole = shape.build();
        let mut home: Vec<usize> = (0..names.len()).map(|host| host / shape.hosts).collect();
        let mut memory = Memory::default();
        for _ in 0..10 {
            let left = whole.without([0, 20, 40][dice.below(3)], dice.roll());
            memory = kept(&next(&cluster, &left, &memory));
            let host = dice.below(names.len());
            let unit = dice.below(shape.units);
            home[host] = unit;
            whole.cables.retain(|cable| cable.host != names[host]);
            (0..shape.rails).for_each(|rail| whole.plug(&names[host], &Shape::leaf(unit, rail), "moved"));
        }
        // Once all cables were seen, what was before says nothing about who is together.
        let outcome = next(&cluster, &whole, &memory);
        let found = homes(&names, &outcome.topology);
        for (one, unit) in names.iter().zip(&home) {
            for (other, other_unit) in names.iter().zip(&home) {
                assert_eq!(found[one] == found[other], unit == other_unit, "{one} {other} seed {seed}");
            }
        }
    }
}
