use crate::fabric::drawn;
use crate::round::{cluster, first, groups, reports, round};
use regex_lite::Regex;
use topoloom_fabric::{Guid, Link, Memory, Rewrite, Settings, Wiring};
use topoloom_sdk::testing::Cluster;

fn with(settings: &Settings, cluster: &Cluster, wiring: &Wiring) -> topoloom_fabric::Outcome {
    round(cluster, wiring, settings, &Memory::default())
}

#[test]
fn upper_case_and_full_names_find_their_nodes() {
    let cluster = cluster(&["gpu1", "gpu2", "gpu3.dc1.example", "gpu4"]);
    let outcome = first(&cluster, &drawn("GPU1: l\n gpu2.fabric.example: l\n Gpu3: l\n gpu4: l").wiring());
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l |  | gpu1 gpu2 gpu3.dc1.example gpu4\n");
    assert_eq!(outcome.counts.matched, 4);
}

#[test]
fn a_first_label_must_be_unique_on_both_sides() {
    let cluster = cluster(&["a.x", "a.y", "b.x", "c"]);
    let outcome = first(&cluster, &drawn("a: l\n b.p: l\n b.q: l\n c: l").wiring());
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l |  | c\n");
    let ambiguous = reports(&cluster, &outcome, "ambiguous-host");
    assert_eq!(
        ambiguous,
        [
            "a | host \"a\" could be several Nodes: several Nodes begin with its first label",
            "b.p | host \"b.p\" could be several Nodes: several hosts begin with its first label",
            "b.q | host \"b.q\" could be several Nodes: several hosts begin with its first label",
        ]
    );
    assert_eq!((outcome.counts.matched, outcome.counts.ambiguous), (1, 3));
}

#[test]
fn the_operators_map_comes_first_and_rewriting_last() {
    let cluster = cluster(&["n1", "n2", "n3"]);
    let settings = Settings {
        host_map: vec![("n2".into(), "n1".into()), ("odd".into(), "gone".into())],
        rewrite: vec![Rewrite { regex: Regex::new(r"^ib-(\d+)$").unwrap(), replace: "N$1".into() }],
        ..Settings::default()
    };
    let outcome = with(&settings, &cluster, &drawn("n2: l\n ib-3: l\n odd: l\n ib-9: l").wiring());
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l |  | n1 n3\n");
    assert_eq!(reports(&cluster, &outcome, "unmatched-host").len(), 2);
}

#[test]
fn of_two_hosts_on_one_node_the_one_with_its_name_stays() {
    let cluster = cluster(&["n1", "n2"]);
    let settings = Settings { host_map: vec![("x".into(), "n1".into())], ..Settings::default() };
    let outcome = with(&settings, &cluster, &drawn("n1: l\n x: m\n N2: m\n n2.a: l").wiring());
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l |  | n1\ntier 1 leaf-group | m |  | n2\n");
    let duplicates = reports(&cluster, &outcome, "duplicate-host");
    assert_eq!(duplicates[0], "n1 | host \"x\" is ignored: host \"n1\" matches this Node better");
}

#[test]
fn a_name_that_no_node_has_is_never_sent() {
    let cluster = cluster(&["n1"]);
    let outcome = first(&cluster, &drawn("n1: l\n zürich: l\n n\u{200b}1: l\n under_score: l").wiring());
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l |  | n1\n");
    assert_eq!(outcome.counts.unmatched, 3);
}

fn guids() -> Settings {
    Settings { guid_annotation: Some("guids".into()), ..Settings::default() }
}

#[test]
fn a_node_that_lists_its_guids_is_found_under_any_host_name() {
    let cluster = Cluster::new()
        .node("n1", [])
        .annotation("guids", "0xa1b2c30000aa0172, a1b2c30000aa0173")
        .node("n2", [])
        .annotation("guids", "a1b2c30000aa0180");
    let mut wiring = Wiring::new();
    let host = wiring.host("n2");
    let switch = wiring.switch("l", "");
    // Called like the other Node, as after an exchange of machines.
    wiring.link(host, switch, Link::up("mlx5_0"));
    wiring.guid(host, Guid::parse("a1b2c30000aa0172").unwrap());
    let outcome = with(&guids(), &cluster, &wiring);
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l |  | n1\n");
}

#[test]
fn default_named_hcas_count_only_where_the_guid_map_knows_them() {
    let cluster = Cluster::new().node("n1", []).annotation("guids", "a1b2c30000aa0001 a1b2c30000aa0002").node("n2", []);
    let port = |text: &str| Guid::parse(text).unwrap();
    let mut wiring = drawn("n2: l1").wiring();
    let [l1, l2, l3] = ["l1", "l2", "l3"].map(|leaf| wiring.switch(leaf, ""));
    wiring.nameless(port("a1b2c30000aa0001"), l2, Link::up("mlx5_0"));
    wiring.nameless(port("a1b2c30000aa0002"), l2, Link::up("mlx5_1"));
    wiring.nameless(port("a1b2c30000aa0009"), l1, Link::up("mlx5_0"));
    wiring.nameless(port("a1b2c30000aa0009"), l3, Link::up("mlx5_0"));
    let outcome = with(&guids(), &cluster, &wiring);
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l1 |  | n2\ntier 1 leaf-group | l2 |  | n1\n");
    let unnamed = reports(&cluster, &outcome, "unnamed-host");
    assert_eq!(
        unnamed,
        ["source | 1 port of machines without a name whose GUID no Node lists, for instance a1b2c30000aa0009"]
    );
    // Without the map they match no Node.
    let outcome = first(&cluster, &wiring);
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l1 |  | n2\n");
}

#[test]
fn one_nameless_port_of_a_host_with_a_name_is_that_hosts_port() {
    let cluster = Cluster::new().node("n1", []).annotation("guids", "a1b2c30000aa0001").node("n2", []);
    let mut wiring = drawn("n1: l1\n n2: l2").wiring();
    let l2 = wiring.switch("l2", "");
    wiring.nameless(Guid(0xa1b2_c300_00aa_0001), l2, Link { count: 3, ..Link::up("mlx5_1") });
    // It has most of its links where n2 is, and no other host is on l1.
    let outcome = with(&guids(), &cluster, &wiring);
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l1 |  | n1 n2\n");
}

#[test]
fn guids_that_two_nodes_list_prove_nothing() {
    let cluster = Cluster::new()
        .node("n1", [])
        .annotation("guids", "a1b2c30000aa0001")
        .node("n2", [])
        .annotation("guids", "a1b2c30000aa0001");
    let mut wiring = drawn("x: l1\n n2: l1").wiring();
    let host = wiring.host("x");
    wiring.guid(host, Guid(0xa1b2_c300_00aa_0001));
    let outcome = with(&guids(), &cluster, &wiring);
    assert_eq!(groups(&cluster, &outcome), "tier 1 leaf-group | l1 |  | n2\n");
    assert_eq!(
        reports(&cluster, &outcome, "ambiguous-host"),
        ["x | host \"x\" could be several Nodes: its GUIDs are listed by several Nodes"]
    );
}

#[test]
fn a_group_is_described_by_the_names_of_its_switches() {
    let cluster = cluster(&["a1", "a2", "b1", "b2"]);
    let mut fabric = drawn(
        "a1: l1 l2 l3 l4 l5 l6\n a2: l1 l2 l3 l4 l5 l6\n\
         b1: k1 k2\n b2: k1 k2",
    );
    for leaf in ["l1", "l2", "l3", "l4", "l5", "l6", "k1", "k2"] {
        fabric.join(leaf, "s1");
    }
    let mut wiring = fabric.wiring();
    for (guid, name) in [("l6", "leaf-6"), ("l5", "leaf-5"), ("l1", "leaf-1"), ("l2", "leaf-2"), ("l3", "leaf-3")] {
        wiring.switch(guid, name);
    }
    wiring.switch("s1", "spine-1");
    wiring.switch("k1", "leaf-9");
    // One switch of each lower group has no name yet: nothing is said about them, and what stands at the object stays.
    let shown = groups(&cluster, &first(&cluster, &wiring));
    assert_eq!(
        shown,
        "tier 1 leaf-group | k1 |  | b1 b2\n\
         tier 1 leaf-group | l1 |  | a1 a2\n\
         tier 2 pod | s1 |  | [k1 l1] | said spine-1\n"
    );
    wiring.switch("l4", "leaf-4");
    wiring.switch("k2", "leaf-9");
    let shown = groups(&cluster, &first(&cluster, &wiring));
    assert!(shown.contains("| a1 a2 | said leaf-1, leaf-2, leaf-3, leaf-4 and 2 more\n"), "{shown}");
    // Two switches of one name are not named twice.
    assert!(shown.contains("| b1 b2 | said leaf-9\n"), "{shown}");
}
