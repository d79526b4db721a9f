//! Worked examples: labels in, groups out, compared as text.

use crate::Label;
use topoloom_sdk::testing::Cluster;

const TWO: &str = r#"{"networkTopologyTypes": {"Trn2": [
    {"nodeLabel": "ex.io/spine"}, {"nodeLabel": "ex.io/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#;
const THREE: &str = r#"{"networkTopologyTypes": {"t": [
    {"nodeLabel": "zone"}, {"nodeLabel": "spine"}, {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#;

/// Nodes as `name key=value …`.
fn cluster(nodes: &[&str]) -> Cluster {
    nodes.iter().fold(Cluster::new(), |cluster, line| {
        let mut words = line.split(' ');
        let name = words.next().unwrap();
        cluster.node(name, words.map(|word| word.split_once('=').unwrap()))
    })
}

#[track_caller]
fn check(config: &str, nodes: &[&str], expected: &[&str]) {
    let cluster = cluster(nodes);
    let answer = cluster.discover::<Label>(config).unwrap();
    let shown = cluster.show(&answer);
    assert_eq!(shown.lines().collect::<Vec<_>>(), expected, "\n{shown}");
}

#[test]
fn the_example_of_the_specification() {
    let nodes = [
        "m4 ex.io/rack=b1 ex.io/spine=s1",
        "m2 ex.io/rack=a7 ex.io/spine=s1",
        "m1 ex.io/rack=a7 ex.io/spine=s1",
        "m9 ex.io/rack=c3",
        "m8 ex.io/spine=s1",
    ];
    check(
        TWO,
        &nodes,
        &[
            "tier 1 ex.io/rack | Trn2/1/c3 | ex.io/rack=c3 | m9",
            "tier 1 ex.io/rack | Trn2/1/s1/a7 | ex.io/rack=a7 | m1 m2",
            "tier 1 ex.io/rack | Trn2/1/s1/b1 | ex.io/rack=b1 | m4",
            "tier 2 ex.io/spine | Trn2/2/s1 | ex.io/spine=s1 | [Trn2/1/s1/a7 Trn2/1/s1/b1]",
            "! missing-label | m8 | type \"Trn2\": these nodes have an outer label but no \"ex.io/rack\": not placed",
        ],
    );
}

#[test]
fn one_value_under_two_outer_domains_is_two_domains() {
    check(
        TWO,
        &[
            "a ex.io/rack=7 ex.io/spine=x",
            "b ex.io/rack=7 ex.io/spine=x",
            "c ex.io/rack=7 ex.io/spine=y",
            "d ex.io/rack=8 ex.io/spine=y",
            "lost ex.io/rack=7",
            "found ex.io/rack=8",
        ],
        &[
            "tier 1 ex.io/rack | Trn2/1/x/7 | ex.io/rack=7 | a b",
            "tier 1 ex.io/rack | Trn2/1/y/7 | ex.io/rack=7 | c",
            "tier 1 ex.io/rack | Trn2/1/y/8 | ex.io/rack=8 | d found",
            "tier 2 ex.io/spine | Trn2/2/x | ex.io/spine=x | [Trn2/1/x/7]",
            "tier 2 ex.io/spine | Trn2/2/y | ex.io/spine=y | [Trn2/1/y/7 Trn2/1/y/8]",
            "! ambiguous-path | lost | type \"Trn2\": these nodes lack an outer label, and their \"ex.io/rack\" is under \
             several outer domains: not placed",
            "! differs-from-volcano | source | type \"Trn2\": 1 values of \"ex.io/rack\", \"7\" among them, are under more \
             than one outer domain and are separate domains; Volcano would give each two parents",
        ],
    );
}

#[test]
fn a_known_outer_path_is_adopted_level_by_level() {
    check(
        THREE,
        &["a rack=r spine=s zone=z", "b rack=r spine=s", "c rack=r", "d rack=r zone=z", "e rack=q spine=s"],
        &[
            "tier 1 rack | t/1/z/s/q | rack=q | e",
            "tier 1 rack | t/1/z/s/r | rack=r | a b c d",
            "tier 2 spine | t/2/z/s | spine=s | [t/1/z/s/q t/1/z/s/r]",
            "tier 3 zone | t/3/z | zone=z | [t/2/z/s]",
        ],
    );
}

#[test]
fn an_outer_value_that_fits_decides_between_several_paths() {
    check(
        THREE,
        &[
            "a rack=r spine=s zone=z1",
            "b rack=q spine=s zone=z2",
            "c rack=r spine=s", // s is in two zones, but rack r only in z1
            "d rack=n spine=s", // nothing is known about rack n: a root
        ],
        &[
            "tier 1 rack | t/1/n | rack=n | d",
            "tier 1 rack | t/1/z1/s/r | rack=r | a c",
            "tier 1 rack | t/1/z2/s/q | rack=q | b",
            "tier 2 spine | t/2/z1/s | spine=s | [t/1/z1/s/r]",
            "tier 2 spine | t/2/z2/s | spine=s | [t/1/z2/s/q]",
            "tier 3 zone | t/3/z1 | zone=z1 | [t/2/z1/s]",
            "tier 3 zone | t/3/z2 | zone=z2 | [t/2/z2/s]",
            "! differs-from-volcano | source | type \"t\": 1 values of \"spine\", \"s\" among them, are under more than one \
             outer domain and are separate domains; Volcano would give each two parents",
            "! useless-level | source | type \"t\": every domain of \"spine\" has one member: the level adds no information",
            "! useless-level | source | type \"t\": every domain of \"zone\" has one member: the level adds no information",
        ],
    );
}

#[test]
fn a_label_that_no_node_has_is_said_in_both_modes() {
    let types = r#""networkTopologyTypes": {"t": [{"nodeLabel": "spine"}, {"nodeLabel": "rak"}, {"nodeLabel": "kubernetes.io/hostname"}]}"#;
    let absent = "! no-such-label | rak | type \"t\": no Node has this label";
    for (config, more) in [
        (
            format!("{{{types}}}"),
            Some("! missing-label | a b | type \"t\": these nodes have an outer label but no \"rak\": not placed"),
        ),
        (format!(r#"{{{types}, "compat": "volcano"}}"#), None),
    ] {
        let cluster = cluster(&["a rack=r spine=s", "b rack=r spine=s"]);
        let shown = cluster.show(&cluster.discover::<Label>(&config).unwrap());
        assert!(shown.lines().any(|line| line == absent), "{shown}");
        assert!(more.is_none_or(|more| shown.lines().any(|line| line == more)), "{shown}");
        // Without nodes nothing is missing, and a value that counts as missing is a label.
        for nodes in [&[][..], &["a rak=none spine=s"]] {
            let cluster = self::cluster(nodes);
            let shown = cluster.show(&cluster.discover::<Label>(&config).unwrap());
            assert!(!shown.contains("no-such-label"), "{shown}");
        }
    }
}

#[test]
fn values_that_say_nothing_count_as_missing() {
    check(
        r#"{"networkTopologyTypes": {"t": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#,
        &["a rack=r", "b rack=", "c rack=None", "d rack=UNKNOWN", "e rack=r"],
        &[
            "tier 1 rack | t/1/r | rack=r | a e",
            "! differs-from-volcano | b c d | type \"t\": 3 nodes have a value of \"rack\" that counts as missing; Volcano \
             would use it",
        ],
    );
}

#[test]
fn a_global_value_follows_most_of_its_nodes() {
    check(
        r#"{"valueScope": "global", "networkTopologyTypes": {"t": [
            {"nodeLabel": "spine", "name": "pod"}, {"nodeLabel": "leaf"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#,
        &["a leaf=l spine=s", "b leaf=l spine=s", "c leaf=l spine=odd", "d leaf=m spine=odd", "e leaf=l"],
        &[
            "tier 1 leaf | t/1/=l | leaf=l | a b c e",
            "tier 1 leaf | t/1/=m | leaf=m | d",
            "tier 2 pod | t/2/=odd | spine=odd | [t/1/=m]",
            "tier 2 pod | t/2/=s | spine=s | [t/1/=l]",
            "! minority | c | type \"t\": most nodes with the same \"leaf\" are under another outer domain than these nodes, which \
             are placed there too",
            "! useless-level | source | type \"t\": every domain of \"spine\" has one member: the level adds no information",
        ],
    );
}

#[test]
fn the_first_label_that_is_there_wins_and_a_part_of_it_can_be_taken() {
    check(
        r#"{"networkTopologyTypes": {"nvl": [{"nodeLabel": "new/clique", "fallbacks": ["old/clique"],
            "extract": "^([^.]+)[.]", "name": "nvlink"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#,
        &[
            "a new/clique=u1.0",
            "b old/clique=u1.3",
            "c new/clique=none old/clique=u2.1",
            "d new/clique=u2",
            "e old/clique=u2.2",
        ],
        &[
            "tier 1 nvlink | nvl/1/u1 | new/clique=u1 | a b",
            "tier 1 nvlink | nvl/1/u2 | new/clique=u2 | c e",
            "! differs-from-volcano | d | type \"nvl\": 1 nodes have a value of \"new/clique\" that counts as missing; Volcano \
             would use it",
        ],
    );
}

#[test]
fn a_node_belongs_to_the_first_profile_that_matches() {
    check(
        r#"{"networkTopologyTypes": {
                "gb": [{"nodeLabel": "leaf"}, {"nodeLabel": "nvl"}],
                "h": [{"nodeLabel": "leaf"}],
                "rest": [{"nodeLabel": "leaf", "name": "any"}]},
            "profiles": [{"type": "gb", "nodeSelector": {"gpu": "gb200"}}, {"type": "h", "nodeSelector": {"gpu": "h100"}}]}"#,
        &[
            "a gpu=gb200 leaf=x nvl=n",
            "a2 gpu=gb200 leaf=x nvl=n",
            "b gpu=h100 leaf=x nvl=n",
            "b2 gpu=h100 leaf=x",
            "c leaf=x",
            "c2 leaf=x",
        ],
        &[
            // `leaf` is tier 2 of the first type, so tier 1 of the second goes without the name.
            "tier 1 - | h/1/x | leaf=x | b b2",
            "tier 1 any | rest/1/x | leaf=x | c c2",
            "tier 1 nvl | gb/1/x/n | nvl=n | a a2",
            "tier 2 leaf | gb/2/x | leaf=x | [gb/1/x/n]",
            "! differs-from-volcano | source | type \"gb\": the last label \"nvl\" is tier 1 here, Volcano would drop it",
            "! differs-from-volcano | source | type \"h\": the last label \"leaf\" is tier 1 here, Volcano would drop it",
            "! differs-from-volcano | source | type \"rest\": the last label \"leaf\" is tier 1 here, Volcano would drop it",
            "! differs-from-volcano | source | types \"gb\" and \"h\" share the label \"leaf\": each has domains of its own \
             here, Volcano mixes them",
            "! differs-from-volcano | source | types \"gb\" and \"rest\" share the label \"leaf\": each has domains of its \
             own here, Volcano mixes them",
            "! tier-name-taken | source | type \"h\": \"leaf\" is tier 2 already, so tier 1 stays without a name",
        ],
    );
}

#[test]
fn levels_that_tell_nothing_are_left_out_on_request() {
    let nodes =
        ["a zone=z spine=s1 rack=r1 box=1", "b zone=z spine=s1 rack=r1 box=2", "c zone=z spine=s2 rack=r2 box=3"];
    check(
        r#"{"collapse": true, "networkTopologyTypes": {"t": [{"nodeLabel": "zone"}, {"nodeLabel": "spine"},
            {"nodeLabel": "rack"}, {"nodeLabel": "box"}, {"nodeLabel": "kubernetes.io/hostname"}]}}"#,
        &nodes,
        &[
            "tier 1 rack | t/2/z/s1/r1 | rack=r1 | a b",
            "tier 1 rack | t/2/z/s2/r2 | rack=r2 | c",
            "tier 2 zone | t/4/z | zone=z | [t/2/z/s1/r1 t/2/z/s2/r2]",
        ],
    );
}

#[test]
fn volcanos_domains_are_keys_and_values() {
    let config = r#"{"compat": "volcano", "networkTopologyTypes": {"T": [
        {"nodeLabel": "spine"}, {"nodeLabel": "rack"}, {"nodeLabel": "whatever"}]}}"#;
    check(
        config,
        &["a rack=7 spine=x", "b rack=7 spine=x", "c rack=7 spine=y", "d rack=", "e rack=none spine=y", "f spine=x"],
        &[
            "tier 1 rack | rack= | rack= | d",
            "tier 1 rack | rack=7 | rack=7 | a b c",
            "tier 1 rack | rack=none | rack=none | e",
            "tier 2 spine | spine=x | spine=x | [rack=7]",
            "tier 2 spine | spine=y | spine=y | [rack=none]",
            "! two-parents | rack=7 | 1 nodes see it under another outer domain than spine=x, where most of its nodes are",
        ],
    );
}

#[test]
fn a_label_of_two_types_keeps_the_level_of_the_first() {
    check(
        r#"{"compat": "volcano", "networkTopologyTypes": {
            "one": [{"nodeLabel": "spine"}, {"nodeLabel": "rack"}, {"nodeLabel": "h"}],
            "two": [{"nodeLabel": "zone"}, {"nodeLabel": "spine"}, {"nodeLabel": "h"}]}}"#,
        &["a rack=r spine=s zone=z"],
        &[
            "tier 1 rack | rack=r | rack=r | a",
            "tier 2 spine | spine=s | spine=s | [rack=r]",
            "! shared-label | source | \"spine\" is tier 2 of type \"one\"; type \"two\" uses it as tier 1 and ends below it",
        ],
    );
}
