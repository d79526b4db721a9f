use crate::fabric::{EIGHT_RAILS, Shape, drawn};
use crate::round::{cluster, first, groups, kept, objects, reports, round};
use topoloom_fabric::{Declared, Memory, Reader, Settings, SharedKey};
use topoloom_sdk::json::Value;

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

/// A login host on a spine: by distance alone the spine would be a leaf.
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

/// What is plugged in up there, beside the fabric.
fn with_strangers(few: bool) -> crate::fabric::Fabric {
    let mut fabric = pods();
    fabric.join("border", "x1");
    let hosts = if few { 0 } else { 9 };
    fabric.plug("firewall", "border", "");
    (0..hosts).for_each(|host| fabric.plug(&format!("service-{host}"), "border", ""));
    ["s1", "s2", "s3", "s4"].iter().for_each(|spine| fabric.plug(&format!("ufm-{spine}"), spine, "mlx5_0"));
    fabric.plug("gateway", "x1", "");
    fabric
}

/// By distance from every switch with any host there would be no core: the border leaf is next to it.
#[test]
fn a_border_leaf_on_the_cores_and_a_host_of_the_manager_on_each_spine_take_no_tier_away() {
    let cluster = cluster(&NAMES);
    let plain = groups(&cluster, &first(&cluster, &pods().wiring()));
    let memory = kept(&first(&cluster, &pods().wiring()));
    for few in [true, false] {
        let fabric = with_strangers(few);
        let outcome = first(&cluster, &fabric.wiring());
        assert_eq!(groups(&cluster, &outcome), plain, "{few}");
        let outcome = round(&cluster, &fabric.wiring(), &Settings::default(), &memory);
        assert_eq!(groups(&cluster, &outcome), plain, "{few}");
        assert_eq!(reports(&cluster, &outcome, "lost-tier"), Vec::<String>::new());
    }
}

const HOUR: u64 = 60 * 60 * 1000;

/// A Node on the core and one on each spine: now these are leaves, and nothing is above the racks.
fn outgrown() -> crate::fabric::Fabric {
    let mut fabric = pods();
    for (node, switch) in [("n1", "s1"), ("n2", "s2"), ("n3", "s3"), ("n4", "s4"), ("n5", "x1")] {
        fabric.plug(node, switch, "mlx5_0");
    }
    fabric
}

#[test]
fn a_tier_to_which_no_cable_leads_any_more_is_held_and_found() {
    let names: Vec<&str> = NAMES.iter().copied().chain(["n1", "n2", "n3", "n4", "n5"]).collect();
    let at = |hours: u64| cluster(&names).at(hours * HOUR);
    let is_upper = |line: &&str| line.starts_with("tier 2") || line.starts_with("tier 3");
    let upper = |shown: &str| shown.lines().filter(is_upper).map(str::to_owned).collect::<Vec<_>>();
    let before = first(&at(0), &pods().wiring());
    let plain = upper(&groups(&at(0), &before));
    assert_eq!(plain.len(), 3);
    let mut memory = kept(&before);
    for hours in [1, 30, 60, 900] {
        let outcome = round(&at(hours), &outgrown().wiring(), &Settings::default(), &memory);
        assert_eq!(upper(&groups(&at(hours), &outcome)), plain, "{hours} h");
        let lost = reports(&at(hours), &outcome, "lost-tier");
        let start = "source | no cable leads to tier 2 any more; 2 groups kept unchanged: s1, s3. Perhaps";
        assert!(lost.len() == 2 && lost[0].starts_with(start), "{lost:?}");
        memory = kept(&outcome);
    }
    // After a restart as well: the objects say what was there.
    let restarted = cluster(&names).objects(objects(&before.topology)).at(1000 * HOUR);
    let outcome = first(&restarted, &outgrown().wiring());
    assert_eq!(upper(&groups(&restarted, &outcome)), plain);
    // The operator says how far the switches are, or that there is no such tier.
    let read = |json: &str| Settings { levels: levels(json), ..Settings::default() };
    let settings = read(r#"[{"level": 2, "names": "^s"}, {"level": 3, "switches": ["X1"]}]"#);
    let outcome = round(&at(1), &outgrown().wiring(), &settings, &kept(&before));
    assert_eq!(upper(&groups(&at(1), &outcome)), plain);
    assert_eq!(reports(&at(1), &outcome, "lost-tier"), Vec::<String>::new());
    let settings = Settings { max_tier: 1, ..Settings::default() };
    let outcome = round(&at(901), &outgrown().wiring(), &settings, &memory);
    assert_eq!(upper(&groups(&at(901), &outcome)), Vec::<String>::new());
    assert_eq!(reports(&at(901), &outcome, "lost-tier"), Vec::<String>::new());
}

/// The parsed key `levels`.
fn levels(json: &str) -> Vec<Declared> {
    let mut reader = Reader::new();
    let mut settings = Settings::default();
    assert_eq!(settings.read(&mut reader, "levels", &Value::parse(json).unwrap()), SharedKey::Yes);
    reader.finish().unwrap();
    settings.levels
}

/// The units of two pods below spines, and one whose leaves are plugged into the cores.
#[test]
fn a_unit_directly_below_the_cores_is_in_the_one_tree_over_all() {
    let shape = Shape { units: 4, pod: 2, spines: 4, cores: 4, ..EIGHT_RAILS };
    let mut names = shape.names();
    let mut fabric = shape.build();
    for host in 0..20 {
        let name = format!("near-{host:02}");
        (0..8).for_each(|rail| fabric.plug(&name, &format!("near-r{rail}"), ""));
        names.push(name);
    }
    for rail in 0..8 {
        (0..4).for_each(|core| fabric.adjacent.push((format!("near-r{rail}"), format!("core-{core:02}"), 1)));
    }
    let cluster = cluster(&names);
    // As many cables from each core to the spines as a pod gives it, and more than to the near unit.
    for (_, _, count) in fabric.adjacent.iter_mut().filter(|(a, ..)| a.starts_with("spine")) {
        *count = 4;
    }
    let shown = groups(&cluster, &first(&cluster, &fabric.wiring()));
    let upper: Vec<&str> = shown.lines().filter(|line| !line.starts_with("tier 1")).collect();
    let expected = [
        "tier 2 pod | spine-p00-00 |  | [leaf-u000-r0 leaf-u001-r0]",
        "tier 2 pod | spine-p01-00 |  | [leaf-u002-r0 leaf-u003-r0]",
        "tier 3 core | core-00 |  | [near-r0 spine-p00-00 spine-p01-00]",
    ];
    assert_eq!(upper, expected);
    // Spines that are joined to each other more often than to leaves are not above each other.
    let mut joined = shape.build();
    joined.adjacent.push(("spine-p00-00".into(), "spine-p01-00".into(), 99));
    let names = shape.names();
    let cluster = crate::round::cluster(&names);
    let plain = groups(&cluster, &first(&cluster, &shape.build().wiring()));
    assert_eq!(groups(&cluster, &first(&cluster, &joined.wiring())), plain);
}

/// Every switch of a dragonfly has hosts, and cables alone do not show its groups.
#[test]
fn the_groups_of_a_dragonfly_are_those_that_the_operator_declares() {
    let mut fabric = drawn("a1: g1-r1\n a2: g1-r2\n b1: g2-r1\n b2: g2-r2");
    for (a, b) in [("g1-r1", "g1-r2"), ("g2-r1", "g2-r2"), ("g1-r1", "g2-r1"), ("g1-r2", "g2-r2")] {
        fabric.join(a, b);
    }
    let cluster = cluster(&["a1", "a2", "b1", "b2"]);
    let outcome = first(&cluster, &fabric.wiring());
    assert!(groups(&cluster, &outcome).lines().all(|line| line.starts_with("tier 1")));
    let settings = Settings { levels: levels(r#"{"level": 2, "below": "^(g\\d+)-"}"#), ..Settings::default() };
    let outcome = round(&cluster, &fabric.wiring(), &settings, &Memory::default());
    let shown = groups(&cluster, &outcome);
    let upper: Vec<&str> = shown.lines().filter(|line| !line.starts_with("tier 1")).collect();
    let expected =
        ["tier 2 pod | group:g1 |  | [g1-r1 g1-r2] | said g1", "tier 2 pod | group:g2 |  | [g2-r1 g2-r2] | said g2"];
    assert_eq!(upper, expected);
}
