use crate::fabric::{EIGHT_RAILS, Shape, drawn};
use crate::round::{cluster, first, kept, reports, round};
use topoloom_fabric::{Guid, Link, Note, Settings, Wiring};
use topoloom_sdk::Subject;

#[test]
fn a_dead_hca_is_named_with_its_port_and_switch() {
    let cluster = cluster(&["a1", "a2"]);
    let mut wiring = drawn("a1: l1 l2\n a2: l1 l2").wiring();
    let host = wiring.host("a1");
    let leaf = wiring.switch("l3", "ib-leaf-3");
    wiring.link(host, leaf, Link::down("mlx5_4").to("1/9/1"));
    let dead = reports(&cluster, &first(&cluster, &wiring), "dead-links");
    assert_eq!(dead, ["a1 | host \"a1\": 1 of 3 links down: switch \"ib-leaf-3\" port 1/9/1 (host port mlx5_4)"]);
}

#[test]
fn a_link_that_is_not_even_listed_any_more_is_missed() {
    let cluster = cluster(&["a1", "a2"]);
    let memory = kept(&first(&cluster, &drawn("a1: l1 l2\n a2: l1 l2").wiring()));
    let outcome = round(&cluster, &drawn("a1: l1\n a2: l1 l2").wiring(), &Settings::default(), &memory);
    let dead = reports(&cluster, &outcome, "dead-links");
    assert_eq!(dead, ["a1 | host \"a1\": 1 of 2 links down: switch \"l2\" (no longer listed)"]);
}

#[test]
fn a_link_that_all_neighbours_have_is_missed_without_a_memory() {
    let cluster = cluster(&["a1", "a2", "a3", "a4", "a5"]);
    let fabric = "a1: l1 l2 l3\n a2: l1 l2 l3\n a3: l1 l2 l3\n a4: l1 l2 l3\n a5: l1 l3";
    let dead = reports(&cluster, &first(&cluster, &drawn(fabric).wiring()), "dead-links");
    assert_eq!(dead, ["a5 | host \"a5\": 1 of 3 links down: switch \"l2\" (reached by 4 of 5 hosts of its group)"]);
    // Half of the hosts without it is how that unit is built.
    let fabric = "a1: l1 l2 l3\n a2: l1 l2 l3\n a3: l1 l2 l3\n a4: l1 l3\n a5: l1 l3";
    assert!(reports(&cluster, &first(&cluster, &drawn(fabric).wiring()), "dead-links").is_empty());
}

#[test]
fn many_reports_of_one_kind_end_in_one_that_speaks_of_the_rest() {
    let shape = Shape { units: 80, ..EIGHT_RAILS };
    let names = shape.names();
    let cluster = cluster(&names);
    let fabric = shape.build();
    let memory = kept(&first(&cluster, &fabric.wiring()));
    let outcome = round(&cluster, &fabric.without(50, 1).wiring(), &Settings::default(), &memory);
    let dead: Vec<_> = outcome.topology.diagnostics.iter().filter(|report| report.code == "dead-links").collect();
    assert_eq!(dead.len(), 1001);
    let Subject::Rows(rows) = &dead[1000].subject else { panic!("{:?}", dead[1000]) };
    assert_eq!(dead[1000].detail, format!("and {} more like these, {} in all", rows.len(), rows.len() + 1000));
    assert!(outcome.topology.diagnostics.len() < 10_000);
    assert!(outcome.topology.diagnostics.iter().all(|report| report.detail.len() <= 1024));
}

#[test]
fn the_last_one_says_how_many_there_are_also_where_they_are_no_nodes() {
    let shape = Shape { units: 60, rails: 1, ..EIGHT_RAILS };
    let cluster = cluster(&shape.names()[..1]);
    let unmatched = reports(&cluster, &first(&cluster, &shape.build().wiring()), "unmatched-host");
    assert_eq!(unmatched.len(), 1001);
    assert_eq!(unmatched[1000], "source | and 199 more like these, 1199 in all");
}

#[test]
fn a_long_sentence_is_cut_where_it_may_be() {
    let cluster = cluster(&["a1"]);
    let mut wiring = drawn("a1: l1").wiring();
    wiring.skip("odd", &"ü".repeat(300), &"ß".repeat(300));
    wiring.skip("line", "of two\nlines", "");
    let settings = Settings { notes: vec![Note { code: "note", text: "é".repeat(2000) }], ..Settings::default() };
    let outcome = round(&cluster, &wiring, &settings, &Default::default());
    assert!(outcome.topology.diagnostics.iter().all(|report| report.detail.len() <= 1024));
    assert_eq!(reports(&cluster, &outcome, "line"), ["source | 1 of two lines"]);
    assert!(reports(&cluster, &outcome, "note")[0].ends_with('…'));
}

#[test]
fn the_order_of_reports_does_not_depend_on_the_order_of_records() {
    let shape = Shape { units: 6, storage: 2, storage_units: 3, ..EIGHT_RAILS };
    let names = shape.names();
    let cluster = cluster(&names);
    let fabric = shape.build().without(20, 4);
    let wanted = first(&cluster, &fabric.wiring()).topology;
    assert!(!wanted.diagnostics.is_empty());
    for seed in 0..5 {
        assert_eq!(first(&cluster, &fabric.shuffled(seed).wiring()).topology, wanted);
    }
}

#[test]
fn where_no_node_has_a_link_it_is_said_where_they_all_went() {
    let cluster = cluster(&["a1", "a2"]);
    let said = |wiring: &Wiring| reports(&cluster, &first(&cluster, wiring), "no-links");
    let start = "source | no Node has a link that counts:";
    assert_eq!(said(&Wiring::new()), [format!("{start} the source lists no usable link of a host")]);
    assert!(said(&drawn("a1: l1").wiring()).is_empty(), "one Node with a link is enough");
    let mut wiring = Wiring::new();
    wiring.leave_out("left out by `ports`", 767);
    wiring.leave_out("left out by `ports`", 1);
    assert_eq!(said(&wiring), [format!("{start} all 768 links are left out by `ports`")]);
    let leaf = wiring.switch("l1", "");
    let [node, login] = ["a1", "login"].map(|name| wiring.host(name));
    wiring.link(node, leaf, Link::down("mlx5_0"));
    wiring.link(login, leaf, Link { count: 3, ..Link::up("mlx5_0") });
    wiring.ignored(Guid(1), leaf, Link::up("mlx5_0"));
    wiring.nameless(Guid(2), leaf, Link::up("mlx5_0"));
    let all = "of 774 links, 768 left out by `ports`, 1 of hosts that `ignoreHosts` leaves out, \
               1 of machines without a name, 1 down, 3 of hosts that are no Nodes";
    assert_eq!(said(&wiring), [format!("{start} {all}")]);
    wiring.link(node, leaf, Link::up("mlx5_1"));
    assert!(said(&wiring).is_empty());
}

#[test]
fn a_cluster_without_nodes_reports_no_missing_node() {
    let cluster = cluster::<&str>(&[]);
    assert!(reports(&cluster, &first(&cluster, &Wiring::new()), "no-links").is_empty());
}
