use crate::fabric::{EIGHT_RAILS, Shape, drawn};
use crate::round::{cluster, first, groups, round};
use topoloom_fabric::{Memory, Settings};

/// Four racks of two hosts, two pods, one core.
fn pods() -> crate::fabric::Fabric {
    let mut fabric = drawn("a1: l1\n a2: l1\n b1: l2\n b2: l2\n c1: l3\n c2: l3\n d1: l4\n d2: l4");
    for (leaf, spines) in [("l1", ["s1", "s2"]), ("l2", ["s1", "s2"]), ("l3", ["s3", "s4"]), ("l4", ["s3", "s4"])] {
        spines.iter().for_each(|spine| fabric.join(leaf, spine));
    }
    ["s1", "s2", "s3", "s4"].iter().for_each(|spine| fabric.join(spine, "x1"));
    fabric
}

const NAMES: [&str; 8] = ["a1", "a2", "b1", "b2", "c1", "c2", "d1", "d2"];

#[test]
fn racks_pods_and_a_core_are_three_tiers() {
    let cluster = cluster(&NAMES);
    let outcome = first(&cluster, &pods().wiring());
    let expected = "tier 1 leaf-group | l1 |  | a1 a2\n\
                    tier 1 leaf-group | l2 |  | b1 b2\n\
                    tier 1 leaf-group | l3 |  | c1 c2\n\
                    tier 1 leaf-group | l4 |  | d1 d2\n\
                    tier 2 pod | s1 |  | [l1 l2]\n\
                    tier 2 pod | s3 |  | [l3 l4]\n\
                    tier 3 core | x1 |  | [s1 s3]\n";
    assert_eq!(groups(&cluster, &outcome), expected);
}

#[test]
fn links_between_switches_of_equal_distance_say_nothing() {
    let cluster = cluster(&NAMES);
    let plain = groups(&cluster, &first(&cluster, &pods().wiring()));
    let mut fabric = pods();
    fabric.join("l1", "l3");
    fabric.join("s1", "s3");
    assert_eq!(groups(&cluster, &first(&cluster, &fabric.wiring())), plain);
}

#[test]
fn a_level_that_repeats_the_one_below_is_left_out() {
    let cluster = cluster(&["a1", "b1"]);
    let mut fabric = drawn("a1: l1\n b1: l2");
    fabric.join("l1", "s1");
    fabric.join("l2", "s2");
    fabric.join("s1", "x1");
    fabric.join("s2", "x1");
    let expected = "tier 1 leaf-group | l1 |  | a1\ntier 1 leaf-group | l2 |  | b1\ntier 3 core | x1 |  | [l1 l2]\n";
    assert_eq!(groups(&cluster, &first(&cluster, &fabric.wiring())), expected);
}

#[test]
fn a_group_without_a_way_up_is_a_root_of_its_own() {
    let cluster = cluster(&NAMES);
    let mut fabric = pods();
    fabric.adjacent.retain(|(a, _, _)| a != "l4");
    let shown = groups(&cluster, &first(&cluster, &fabric.wiring()));
    assert!(shown.contains("tier 1 leaf-group | l4 |  | d1 d2\n"), "{shown}");
    assert!(shown.contains("tier 2 pod | s3 |  | [l3]\n"), "{shown}");
    assert!(shown.contains("tier 3 core | x1 |  | [s1 s3]\n"), "{shown}");
}

#[test]
fn without_links_between_switches_there_is_one_tier_and_a_root_if_asked_for() {
    let cluster = cluster(&NAMES);
    let mut fabric = pods();
    fabric.adjacent.clear();
    let shown = groups(&cluster, &first(&cluster, &fabric.wiring()));
    assert_eq!(shown.lines().filter(|line| !line.starts_with("tier 1")).count(), 0, "{shown}");
    let settings = Settings { root: Some("everything".into()), ..Settings::default() };
    let outcome = round(&cluster, &fabric.wiring(), &settings, &Memory::default());
    let shown = groups(&cluster, &outcome);
    assert!(shown.contains("tier 2 everything | root |  | [l1 l2 l3 l4]\n"), "{shown}");
    // A single group is a root already.
    let one = round(&cluster, &drawn("a1: l1").wiring(), &settings, &Memory::default());
    assert_eq!(groups(&cluster, &one), "tier 1 leaf-group | l1 |  | a1\n");
}

/// Somebody's login host hangs on a spine: by distance alone the spine would be a leaf.
#[test]
fn a_declared_level_overrides_the_distance() {
    let cluster = cluster(&NAMES);
    let plain = groups(&cluster, &first(&cluster, &pods().wiring()));
    let mut fabric = pods();
    fabric.plug("login", "s1", "eth0");
    let mut wiring = fabric.wiring();
    let spine = wiring.switch("s1", "");
    wiring.level(spine, 2);
    assert_eq!(groups(&cluster, &first(&cluster, &wiring)), plain);
}

#[test]
fn tiers_have_the_names_that_the_operator_gave() {
    let cluster = cluster(&NAMES);
    let settings = Settings { tier_names: vec!["rack".into(), "row".into()], ..Settings::default() };
    let shown = groups(&cluster, &round(&cluster, &pods().wiring(), &settings, &Memory::default()));
    assert!(
        shown.contains("tier 1 rack |") && shown.contains("tier 2 row |") && shown.contains("tier 3 - |"),
        "{shown}"
    );
}

#[test]
fn rails_and_planes_of_a_large_fabric_are_one_group_per_unit_and_one_per_pod() {
    let shape = Shape { units: 12, pod: 4, spines: 8, cores: 4, storage: 3, storage_units: 4, ..EIGHT_RAILS };
    let names = shape.names();
    let cluster = cluster(&names);
    let outcome = first(&cluster, &shape.build().wiring());
    let tiers: Vec<usize> =
        (0..3).map(|level| outcome.topology.groups.iter().filter(|group| group.level == level).count()).collect();
    assert_eq!(tiers, [12, 3, 1]);
}
