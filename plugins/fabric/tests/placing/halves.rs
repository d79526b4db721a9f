//! Lists that lost records, before and after a restart: no host moves, and real removals are followed.

use crate::fabric::{EIGHT_RAILS, Fabric, Shape, drawn};
use crate::round::{cluster, first, groups, kept, objects, reports, round};
use topoloom_fabric::{Change, Memory, Outcome, Settings, Tiers};
use topoloom_sdk::testing::Cluster;

const HOUR: u64 = 60 * 60 * 1000;

/// Racks with a single cable per host, pairs of rails, and what large fabrics look like.
const SHAPES: [Shape; 4] = [
    Shape { units: 4, hosts: 2, rails: 1, pod: 2, spines: 2, cores: 2, storage: 0, storage_units: 0 },
    Shape { units: 4, hosts: 4, rails: 2, pod: 2, spines: 2, cores: 1, storage: 0, storage_units: 0 },
    Shape { units: 12, hosts: 4, rails: 4, pod: 4, spines: 6, cores: 4, storage: 0, storage_units: 0 },
    Shape { units: 8, pod: 4, spines: 4, cores: 2, storage: 2, storage_units: 4, ..EIGHT_RAILS },
];

/// The remaining part of a list.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    Whole,
    First,
    Last,
    Nothing,
}

fn part<T: Clone>(list: &[T], part: Part) -> Vec<T> {
    let half = list.len() / 2;
    match part {
        Part::Whole => list.to_vec(),
        Part::First => list[..half].to_vec(),
        Part::Last => list[half..].to_vec(),
        Part::Nothing => Vec::new(),
    }
}

/// Every way to lose an end of one list or of both; the lists as they are, and shuffled.
fn broken(fabric: &Fabric, seeds: u64) -> Vec<(String, Fabric)> {
    use Part::{First, Last, Nothing, Whole};
    let orders = std::iter::once(("as it is".to_owned(), fabric.clone()));
    let orders = orders.chain((0..seeds).map(|seed| (format!("seed {seed}"), fabric.shuffled(seed))));
    let mut all = Vec::new();
    for (order, fabric) in orders {
        for cables in [Whole, First, Last, Nothing] {
            for links in [Whole, First, Last, Nothing] {
                let left = Fabric { cables: part(&fabric.cables, cables), adjacent: part(&fabric.adjacent, links) };
                all.push((format!("{order}: cables {cables:?}, links {links:?}"), left));
            }
        }
    }
    all
}

/// The lines in any order: what hangs on nothing comes last.
fn tree(cluster: &Cluster, outcome: &Outcome) -> Vec<String> {
    let mut lines: Vec<String> = groups(cluster, outcome).lines().map(sorted).collect();
    lines.sort();
    lines
}

fn sorted(line: &str) -> String {
    let mut words: Vec<&str> = line.split(['[', ']', ' ']).filter(|word| !word.is_empty()).collect();
    if let Some(members) = words.get_mut(6..) {
        members.sort_unstable();
    }
    words.join(" ")
}

fn next(cluster: &Cluster, fabric: &Fabric, memory: &Memory) -> Outcome {
    round(cluster, &fabric.wiring(), &Settings::default(), memory)
}

/// A cluster with an active answer.
fn restarted(names: &[String], before: &Outcome) -> Cluster {
    cluster(names).objects(objects(&before.topology))
}

#[test]
fn with_memory_an_empty_or_a_half_list_leaves_the_tree_as_it_was() {
    for shape in SHAPES {
        let (names, fabric) = (shape.names(), shape.build());
        let cluster = cluster(&names);
        let before = first(&cluster, &fabric.wiring());
        let mut memory = kept(&before);
        for (what, left) in broken(&fabric, 4) {
            let after = next(&cluster, &left, &memory);
            assert_eq!(tree(&cluster, &after), tree(&cluster, &before), "{what}, {shape:?}");
            memory = kept(&after);
        }
        let after = next(&cluster, &fabric, &memory);
        assert_eq!(after.topology, before.topology, "{shape:?}");
    }
}

#[test]
fn after_a_restart_an_empty_or_a_half_list_leaves_the_tree_as_it_was() {
    for shape in SHAPES {
        let (names, fabric) = (shape.names(), shape.build());
        let before = first(&cluster(&names), &fabric.wiring());
        let cluster = restarted(&names, &before);
        for (what, left) in broken(&fabric, if names.len() < 20 { 12 } else { 1 }) {
            let after = first(&cluster, &left.wiring());
            assert_eq!(tree(&cluster, &after), tree(&cluster, &before), "{what}, {shape:?}");
            // The same again is the same, the rest of it too, and so is all of it.
            let again = next(&cluster, &left, &kept(&after));
            assert_eq!(tree(&cluster, &again), tree(&cluster, &before), "again {what}, {shape:?}");
            assert_eq!(next(&cluster, &left, &kept(&again)).change, Change::None, "{what}, {shape:?}");
            // A list that looks complete is accepted as complete: nothing shows that a half is missing.
            if after.topology.diagnostics == before.topology.diagnostics {
                continue;
            }
            let mut memory = kept(&again);
            for (other, left) in broken(&fabric.shuffled(99), 0).into_iter().skip(5).step_by(3) {
                let after = next(&cluster, &left, &memory);
                assert_eq!(tree(&cluster, &after), tree(&cluster, &before), "{what}, then {other}, {shape:?}");
                memory = kept(&after);
            }
            let recovered = next(&cluster, &fabric, &memory);
            assert_eq!(tree(&cluster, &recovered), tree(&cluster, &before), "recovered from {what}, {shape:?}");
            assert_eq!(recovered.topology.diagnostics, before.topology.diagnostics, "{what}, {shape:?}");
        }
    }
}

/// The first round after a restart sees only that; a day later nothing has come back.
fn a_day_later(fabric: &Fabric, left: &Fabric, names: &[String]) -> (Vec<String>, Vec<String>) {
    let before = first(&cluster(names), &fabric.wiring());
    let at = |time| restarted(names, &before).at(time);
    let outcome = first(&at(HOUR), &left.wiring());
    assert_eq!(tree(&at(0), &outcome), tree(&at(0), &before));
    let outcome = next(&at(25 * HOUR), left, &kept(&outcome));
    assert_eq!(tree(&at(0), &outcome), tree(&at(0), &before));
    let outcome = next(&at(25 * HOUR + 1), left, &kept(&outcome));
    for code in ["kept-while-down", "kept-uplinks", "kept-while-split"] {
        assert_eq!(reports(&at(0), &outcome, code), Vec::<String>::new());
    }
    (tree(&at(0), &outcome), tree(&at(0), &first(&cluster(names), &left.wiring())))
}

#[test]
fn when_the_grace_is_over_the_answer_follows_the_links() {
    let shape = SHAPES[1];
    let (names, fabric) = (shape.names(), shape.build());
    assert_eq!(a_day_later(&fabric, &Fabric::default(), &names).0, Vec::<String>::new());
    // Both pods, each of its leaves below a spine of its own.
    let mut apart = fabric.clone();
    apart.adjacent.retain(|(leaf, spine, _)| {
        let number = leaf.as_bytes()[8] - b'0';
        !leaf.starts_with("leaf") || spine.ends_with(&format!("-0{}", number % 2))
    });
    let (found, truth) = a_day_later(&fabric, &apart, &names);
    assert_eq!(found.len(), 5, "{found:?}");
    assert_eq!(found, truth);
}

/// People pull cables one by one: a tier without any cable is kept, and the finding says how to end that.
#[test]
fn a_tier_without_any_cable_outlives_the_grace() {
    let shape = SHAPES[1];
    let (names, fabric) = (shape.names(), shape.build());
    let whole = tree(&cluster(&names), &first(&cluster(&names), &fabric.wiring()));
    let no_links = Fabric { adjacent: Vec::new(), ..fabric.clone() };
    let (found, truth) = a_day_later(&fabric, &no_links, &names);
    assert_eq!((&found, truth.len()), (&whole, 4));
    // The core alone, and the pods fell apart on top: what is left of them is below the core.
    let mut apart = fabric.clone();
    apart.adjacent.retain(|(leaf, spine, _)| {
        let number = leaf.as_bytes()[8] - b'0';
        leaf.starts_with("leaf") && spine.ends_with(&format!("-0{}", number % 2))
    });
    let (found, truth) = a_day_later(&fabric, &apart, &names);
    let core = "tier 3 core | core-00 | leaf-u000-r0 leaf-u001-r0 leaf-u002-r0 leaf-u003-r0 |";
    assert_eq!((found.len(), found.last().unwrap().as_str(), truth.len()), (5, core, 4));
    let settings = Settings { max_tier: 1, ..Settings::default() };
    let before = first(&cluster(&names), &fabric.wiring());
    let outcome = round(&cluster(&names), &apart.wiring(), &settings, &kept(&before));
    assert_eq!(tree(&cluster(&names), &outcome), truth);
}

#[test]
fn groups_that_are_kept_are_named() {
    let shape = SHAPES[1];
    let (names, fabric) = (shape.names(), shape.build());
    let before = first(&cluster(&names), &fabric.wiring());
    let mut left = fabric.clone();
    left.adjacent.retain(|(leaf, spine, _)| {
        !leaf.starts_with("leaf-u000")
            && !leaf.starts_with("spine-p01")
            && (spine != "spine-p01-00" || leaf.starts_with("leaf-u002"))
            && (spine != "spine-p01-01" || leaf.starts_with("leaf-u003"))
    });
    let cluster = restarted(&names, &before);
    let outcome = first(&cluster, &left.wiring());
    assert_eq!(
        reports(&cluster, &outcome, "kept-uplinks"),
        [
            "core-00 | 1 group without a link to a switch above; kept in group \"core-00\": spine-p01-00",
            "spine-p00-00 | 1 group without a link to a switch above; kept in group \"spine-p00-00\": leaf-u000-r0",
        ]
    );
    let split = reports(&cluster, &outcome, "kept-while-split");
    assert_eq!(split.len(), 1, "{split:?}");
    assert_eq!(
        split[0],
        "spine-p01-00 | links place 1 group outside of group \"spine-p01-00\", but some links are missing since \
         the restart; kept in it for at most 86400 s: leaf-u003-r0"
    );
    // With memory it is known which links are missing.
    let outcome = next(&cluster, &left, &kept(&before));
    assert_eq!(reports(&cluster, &outcome, "kept-uplinks").len(), 2);
    assert_eq!(reports(&cluster, &outcome, "kept-while-split"), Vec::<String>::new());
}

/// Spines and cores that are removed, with memory and without: their groups have other switches, and nothing is kept.
#[test]
fn a_spine_or_a_core_that_is_really_gone_is_followed_at_once() {
    let shape = SHAPES[2];
    let (names, fabric) = (shape.names(), shape.build());
    let before = first(&cluster(&names), &fabric.wiring());
    let cluster = restarted(&names, &before);
    for gone in [&["spine-p00-00", "spine-p01-03"][..], &["core-00"], &["spine-p02-00", "core-00", "core-01"]] {
        let mut left = fabric.clone();
        left.adjacent.retain(|(a, b, _)| !gone.contains(&a.as_str()) && !gone.contains(&b.as_str()));
        for memory in [Memory::default(), kept(&before)] {
            let outcome = next(&cluster, &left, &memory);
            assert_eq!(tree(&cluster, &outcome), tree(&cluster, &before), "{gone:?}");
            assert_eq!(outcome.topology.diagnostics, [], "{gone:?}");
        }
    }
    // One pod's spines make way for those of another one: its units are over there now, at once.
    let moved = |switch: &str| switch.replace("spine-p01", "spine-p00");
    let left = fabric.renamed(str::to_owned, moved);
    for memory in [Memory::default(), kept(&before)] {
        let outcome = next(&cluster, &left, &memory);
        let shown = tree(&cluster, &outcome);
        assert_eq!(shown.iter().filter(|line| line.starts_with("tier 2")).count(), 2, "{shown:?}");
        assert_eq!(outcome.topology.diagnostics, []);
    }
}

/// After a restart a complete list is accepted against the objects: the configuration may have changed.
#[test]
fn a_unit_that_is_shown_apart_by_a_whole_list_falls_apart_at_once() {
    let one = drawn("a1: l1 s\n a2: l1 s\n b1: l2 s\n b2: l2 s");
    let names = ["a1", "a2", "b1", "b2"].map(str::to_owned);
    let glued = drawn("a1: s\n a2: s\n b1: s\n b2: s");
    let before = first(&cluster(&names), &glued.wiring());
    assert_eq!(before.topology.groups.len(), 1);
    let outcome = first(&restarted(&names, &before), &one.wiring());
    assert_eq!(outcome.topology.groups.len(), 2);
}

#[test]
fn a_tier_that_only_units_further_down_were_in_is_kept_and_found_again() {
    let mut fabric = drawn("a1: l1\n b1: l2");
    [("l1", "s1"), ("l2", "s2"), ("s1", "x1"), ("s2", "x1")].iter().for_each(|(a, b)| fabric.join(a, b));
    let names = ["a1", "b1"].map(str::to_owned);
    let before = first(&cluster(&names), &fabric.wiring());
    // Not what the switch is called: only memory knows it.
    let mut objects = objects(&before.topology);
    objects[2].id = Some("old-core".into());
    let cluster = cluster(&names).objects(objects);
    let wanted = ["tier 1 leaf-group | l1 | a1 |", "tier 1 leaf-group | l2 | b1 |", "tier 3 core | old-core | l1 l2 |"];
    for left in [&[][..], &[0], &[1, 2], &[0, 2], &[0, 1, 2, 3]] {
        let adjacent = left.iter().map(|&link: &usize| fabric.adjacent[link].clone()).collect();
        let left = Fabric { adjacent, ..fabric.clone() };
        let outcome = first(&cluster, &left.wiring());
        assert_eq!(tree(&cluster, &outcome), wanted, "{left:?}");
        let outcome = next(&cluster, &fabric, &kept(&outcome));
        assert_eq!(tree(&cluster, &outcome), wanted, "{left:?}");
    }
}

#[test]
fn the_group_over_everything_keeps_its_tier() {
    let settings = Settings { root: Some("all".into()), ..Settings::default() };
    let shape = Shape { cores: 0, ..SHAPES[1] };
    let (names, fabric) = (shape.names(), shape.build());
    let before = round(&cluster(&names), &fabric.wiring(), &settings, &Memory::default());
    let cluster = restarted(&names, &before);
    assert!(tree(&cluster, &before).iter().any(|line| line.starts_with("tier 3 all | root | ")));
    for (what, left) in broken(&fabric, 4) {
        let after = round(&cluster, &left.wiring(), &settings, &Memory::default());
        assert_eq!(tree(&cluster, &after), tree(&cluster, &before), "{what}");
        let again = round(&cluster, &fabric.wiring(), &settings, &kept(&after));
        assert_eq!(tree(&cluster, &again), tree(&cluster, &before), "{what}");
    }
}

#[test]
fn where_no_upper_tiers_are_wanted_none_is_kept() {
    let settings = Settings { tiers: Tiers::Lowest, ..Settings::default() };
    let shape = SHAPES[1];
    let (names, fabric) = (shape.names(), shape.build());
    let before = first(&cluster(&names), &fabric.wiring());
    let cluster = restarted(&names, &before);
    for memory in [Memory::default(), kept(&before)] {
        let outcome = round(&cluster, &fabric.wiring(), &settings, &memory);
        assert_eq!(outcome.topology.groups.len(), 4);
    }
}
