//! What a round takes from the one before.

use super::net::{CONFIG, Net, RoundResult, recorded, set, upstream};
use crate::Ufm;
use serde_json::json;
use std::cell::RefCell;
use std::rc::Rc;
use topoloom_sdk::http::Request;
use topoloom_sdk::testing::{Cluster, Reply};
use topoloom_sdk::{Answer, Credential, Failure, Outcome};

const NODES: [&str; 4] = ["a-0", "a-1", "b-0", "b-1"];
const VERSIONING: &str = "/ufmRest/app/versioning";
const GUIDS: &str = r#"{"endpoint": "ufm", "guidAnnotation": "guids"}"#;

/// A UFM whose counters and fabric a test can change.
#[derive(Clone)]
struct Moving {
    versioning: Rc<RefCell<Reply>>,
    net: Rc<RefCell<Net>>,
    asked: Rc<RefCell<Vec<String>>>,
}

impl Moving {
    fn new() -> Self {
        let moving = Self {
            versioning: Rc::new(RefCell::new(Reply::new(404, ""))),
            net: Rc::new(RefCell::new(Net::units(&["a", "b"], 2, 8))),
            asked: Rc::default(),
        };
        moving.count(1);
        moving
    }

    fn count(&self, number: u64) {
        let body = json!({"ports_version": number, "links_version": 2, "switches_version": 3, "servers_version": 4,
            "alarms_version": number * 1000});
        *self.versioning.borrow_mut() = Reply::new(200, body.to_string());
    }

    fn beside(&self, cluster: Cluster) -> Cluster {
        let Self { versioning, net, asked } = self.clone();
        cluster.endpoint("ufm", Credential::Basic, move |request: &Request| {
            asked.borrow_mut().push(request.path_and_query.clone());
            let list = |list: &[serde_json::Value]| Reply::new(200, json!(list).to_string());
            Ok(match request.path_and_query.as_str() {
                VERSIONING => versioning.borrow().clone(),
                path if path.contains("ports") => list(&net.borrow().ports),
                path if path.contains("links") => list(&net.borrow().links),
                _ => Reply::new(404, ""),
            })
        })
    }

    /// One round, and how many requests it took.
    fn round(&self, nodes: &[&str], config: &str, time: u64, state: &[u8]) -> (Answer, usize) {
        let cluster = nodes.iter().fold(Cluster::new(), |cluster, node| cluster.node(node, []));
        self.asked.borrow_mut().clear();
        let answer = self.beside(cluster).at(time).state(state.to_vec()).discover::<Ufm>(config).unwrap();
        let asked = self.asked.borrow().len();
        (answer, asked)
    }
}

#[test]
fn nothing_moved_is_one_small_request() {
    let ufm = Moving::new();
    let (first, asked) = ufm.round(&NODES, CONFIG, 1, &[]);
    assert_eq!(asked, 3);
    let (second, asked) = ufm.round(&NODES, CONFIG, 2, &first.state);
    assert_eq!((&second.outcome, asked), (&Outcome::Unchanged, 1));
    assert_eq!(second.state, first.state);
    // Rows in another order are the same nodes, and counters of alarms do not matter.
    let mut turned = NODES;
    turned.reverse();
    let (third, asked) = ufm.round(&turned, CONFIG, 3, &second.state);
    assert_eq!((third.outcome, asked), (Outcome::Unchanged, 1));
}

#[test]
fn a_counter_that_moved_fetches_everything() {
    let ufm = Moving::new();
    let (first, _) = ufm.round(&NODES, CONFIG, 1, &[]);
    ufm.count(2);
    ufm.net.borrow_mut().cable("c-0", 0, "leaf-a-0");
    let (second, asked) = ufm.round(&NODES, CONFIG, 2, &first.state);
    assert_eq!(asked, 3);
    // The stranger changes no group, so the answer may even be the same.
    let (third, asked) = ufm.round(&["a-0", "a-1", "b-0", "b-1", "c-0"], CONFIG, 3, &second.state);
    assert_eq!(asked, 1);
    assert_eq!(RoundResult::of(third, &["a-0", "a-1", "b-0", "b-1", "c-0"]).groups(), set(["a-0 a-1 c-0", "b-0 b-1"]));
}

#[test]
fn other_nodes_beside_the_same_fabric_are_placed_without_fetching() {
    let ufm = Moving::new();
    let (first, _) = ufm.round(&NODES[..3], CONFIG, 1, &[]);
    let (second, asked) = ufm.round(&NODES, CONFIG, 2, &first.state);
    assert_eq!(asked, 1);
    assert_eq!(RoundResult::of(second, &NODES).groups(), set(["a-0 a-1", "b-0 b-1"]));
}

#[test]
fn another_list_of_guids_is_seen_without_fetching() {
    let nodes = ["a-0", "a-1", "a-2", "b-0"];
    let ufm = Moving::new();
    *ufm.net.borrow_mut() = Net::units(&["a", "b"], 3, 8);
    for port in &mut ufm.net.borrow_mut().ports {
        for key in ["system_name", "node_description"] {
            if port[key].as_str().is_some_and(|name| name.starts_with("a-1")) {
                port[key] = json!("localhost");
            }
        }
    }
    let cluster = |guids: &str| {
        let cluster = Cluster::new().node("a-0", []).node("a-1", []).annotation("guids", guids);
        ufm.beside(nodes[2..].iter().fold(cluster, |cluster, node| cluster.node(node, [])))
    };
    let first = cluster("").at(1).discover::<Ufm>(GUIDS).unwrap();
    let listed = super::net::guid("a-1/3");
    ufm.asked.borrow_mut().clear();
    let second = cluster(&listed).at(2).state(first.state).discover::<Ufm>(GUIDS).unwrap();
    assert_eq!(*ufm.asked.borrow(), [VERSIONING]);
    assert_eq!(RoundResult::of(second, &nodes).groups(), set(["a-0 a-1 a-2", "b-0"]));
}

#[test]
fn counters_that_are_missing_or_odd_fetch_everything() {
    let counters = r#"{"ports_version": "1", "links_version": 2, "switches_version": 3, "servers_version": 4}"#;
    for reply in [
        Reply::new(404, ""),
        Reply::new(400, ""),
        Reply::new(500, ""),
        Reply::new(200, "{}"),
        Reply::new(200, "<html>"),
        Reply::new(200, counters),
        Reply::new(200, vec![b'['; 200_000]),
    ] {
        let ufm = Moving::new();
        *ufm.versioning.borrow_mut() = reply.clone();
        let (first, _) = ufm.round(&NODES, CONFIG, 1, &[]);
        let (second, asked) = ufm.round(&NODES, CONFIG, 2, &first.state);
        // The lists are the same, so the answer is unchanged; but they had to be read.
        assert_eq!((second.outcome, asked), (Outcome::Unchanged, 3), "{reply:?}");
    }
}

#[test]
fn a_refusal_of_the_counters_fails_the_round() {
    let round = |reply: Reply| {
        let (cluster, _) = recorded(&NODES, move |_| reply.clone(), Credential::Token);
        cluster.discover::<Ufm>(CONFIG).map(|_| ()).unwrap_err()
    };
    assert!(matches!(round(Reply::new(401, "")), Failure::Unauthorized(_)));
    assert!(matches!(round(Reply::new(302, "").header("location", "/login")), Failure::Unauthorized(_)));
    let busy = round(Reply::new(503, "").header("retry-after", "30"));
    let Failure::Upstream(busy) = busy else { panic!("{busy:?}") };
    assert_eq!(busy.retry_after, Some(30_000));
    assert!(upstream(round(Reply::new(302, "").header("location", "http://x/y"))).contains("302 to \"x\""));
}

#[test]
fn a_state_of_another_plugin_costs_a_full_round_and_nothing_more() {
    let ufm = Moving::new();
    let (first, _) = ufm.round(&NODES, CONFIG, 1, &[]);
    for state in [vec![0], vec![255; 1000], first.state[..first.state.len() / 2].to_vec()] {
        let (answer, asked) = ufm.round(&NODES, CONFIG, 2, &state);
        assert_eq!((RoundResult::of(answer, &NODES).groups(), asked), (set(["a-0 a-1", "b-0 b-1"]), 3));
    }
}

#[test]
fn a_fabric_that_never_moves_is_placed_anew_from_time_to_time() {
    let hour = 60 * 60 * 1000;
    let ufm = Moving::new();
    let (first, _) = ufm.round(&NODES, CONFIG, 0, &[]);
    ufm.net.borrow_mut().ports.retain(|port| port["system_name"] != "a-0" && port["peer_node_name"] != "a-0");
    ufm.count(2);
    let (mut last, _) = ufm.round(&NODES, CONFIG, hour, &first.state);
    assert_eq!(RoundResult::of(last.clone(), &NODES).groups(), set(["a-0 a-1", "b-0 b-1"]));
    // Its counters stand still while the grace of the dark host runs out.
    let mut groups = None;
    for half in 3..60 {
        let (next, asked) = ufm.round(&NODES, CONFIG, half * hour / 2, &last.state);
        assert_eq!(asked, 1);
        if matches!(next.outcome, Outcome::Topology(_)) {
            groups = Some((half, RoundResult::of(next.clone(), &NODES).groups()));
        }
        last = next;
    }
    let (half, groups) = groups.unwrap();
    assert_eq!(groups, set(["a-1", "b-0 b-1"]));
    assert!((48..=52).contains(&half), "{half}");
}

#[test]
fn upper_tiers_come_from_links_and_else_from_the_ports_of_switches() {
    let mut net = Net::units(&["a", "b", "c"], 2, 2);
    for rail in 0..2 {
        for unit in ["a", "b"] {
            net.trunk(&format!("leaf-{unit}-{rail}"), &format!("spine-{rail}"));
        }
        net.trunk(&format!("leaf-c-{rail}"), &format!("spine-c-{rail}"));
        for spine in [format!("spine-{rail}"), format!("spine-c-{rail}")] {
            net.trunk(&spine, &format!("core-{rail}"));
        }
    }
    let nodes = ["a-0", "a-1", "b-0", "b-1", "c-0", "c-1"];
    let by_links = net.round(&nodes);
    assert_eq!(by_links.groups(), set(["a-0 a-1", "b-0 b-1", "c-0 c-1"]));
    assert_eq!(by_links.tiers(), [3, 2, 1]);
    let shown = |seen: &RoundResult| net.cluster(nodes).show(&seen.answer);
    // Without the list, and with a list that only knows the cables of hosts.
    let mut by_ports = net.clone();
    by_ports.links.clear();
    assert_eq!(shown(&by_ports.round(&nodes)), shown(&by_links));
    // Without the ports of switches.
    let mut bare = net.clone();
    bare.ports.retain(|port| port["description"] == "Computer IB Port");
    let host_link = json!({"source_guid": super::net::guid("a-0/0"), "destination_guid": super::net::guid("leaf-a-0")});
    bare.links.push(host_link);
    assert_eq!(bare.round(&nodes).tiers(), [3, 2, 1]);
    // A cable that is listed from both ends is one.
    let mut twice = net.clone();
    twice.links.extend(net.links.iter().map(|link| {
        let (left, right) = link["name"].as_str().unwrap().split_once(':').unwrap();
        json!({"name": format!("{right}:{left}"), "source_guid": link["destination_guid"],
            "destination_guid": link["source_guid"]})
    }));
    assert_eq!(shown(&twice.round(&nodes)), shown(&by_links));
    let off = net.cluster(nodes).discover::<Ufm>(r#"{"endpoint": "ufm", "uplinks": "off"}"#).unwrap();
    assert_eq!(RoundResult::of(off, &nodes).tiers(), [3]);
}

#[test]
fn what_works_but_may_surprise_is_reported_every_round() {
    let net = Net::units(&["a"], 2, 2);
    let answer = net.cluster(NODES).discover::<Ufm>(r#"{"endpoint": "ufm", "insecureSkipVerifi": true}"#).unwrap();
    let seen = RoundResult::of(answer, &NODES);
    assert_eq!(seen.report("unknown-key"), Some("\"insecureSkipVerifi\" is not a known key and is ignored"));
}

#[test]
fn the_order_of_records_means_nothing() {
    let mut net = Net::units(&["a", "b"], 3, 3);
    net.trunk("leaf-a-0", "core");
    net.trunk("leaf-b-0", "core");
    let nodes = ["a-0", "a-1", "a-2", "b-0", "b-1", "b-2"];
    let shown = |net: &Net| net.cluster(nodes).show(&net.round(&nodes).answer);
    let straight = shown(&net);
    for turn in 1..net.ports.len() {
        let mut turned = net.clone();
        turned.ports.rotate_left(turn);
        turned.links.reverse();
        if turn % 2 == 0 {
            turned.ports.reverse();
        }
        assert_eq!(shown(&turned), straight);
    }
}

#[test]
fn ports_that_are_excluded_do_not_count_but_their_switch_stays_a_leaf() {
    let mut net = Net::units(&["a", "b"], 2, 1);
    // Storage adapters join both units on one switch with more cables than the compute rail has.
    for host in NODES {
        for rail in 7..9 {
            net.cable(host, rail, "storage");
        }
    }
    net.trunk("leaf-a-0", "storage");
    net.trunk("leaf-b-0", "storage");
    let cluster = net.cluster(NODES);
    for filter in [r#""exclude": "^mlx5_[78]$""#, r#""include": ["HCA-1/1"]"#, r#""exclude": ["^storage"]"#] {
        let config = format!(r#"{{"endpoint": "ufm", "ports": {{{filter}}}}}"#);
        let seen = RoundResult::of(cluster.discover::<Ufm>(&config).unwrap(), &NODES);
        assert_eq!((seen.groups(), seen.tiers()), (set(["a-0 a-1", "b-0 b-1"]), vec![2]), "{filter}");
    }
}
