//! Several independent UFMs: one per plane, rail or site.

use super::net::{Net, RoundResult, set};
use crate::Ufm;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use topoloom_sdk::testing::{Cluster, Reply};
use topoloom_sdk::{Credential, Failure, Outcome};

const NODES: [&str; 4] = ["a-0", "a-1", "b-0", "b-1"];
const CONFIG: &str = r#"{"fabrics": [{"endpoint": "one"}, {"endpoint": "two"}]}"#;

struct Planes {
    /// Which requests came, as endpoint and path.
    asked: Rc<RefCell<Vec<String>>>,
    second: Rc<Cell<u64>>,
    cluster: Cluster,
}

/// Two UFMs with these fabrics; the counters of the second can be moved, 0 makes it refuse.
fn planes(nets: [Net; 2]) -> Planes {
    let asked: Rc<RefCell<Vec<String>>> = Rc::default();
    let second = Rc::new(Cell::new(1));
    let cluster = NODES.iter().fold(Cluster::new(), |cluster, node| cluster.node(node, []));
    let cluster = ["ufm", "ufm-2"].into_iter().zip(nets).fold(cluster, |cluster, (name, net)| {
        let (asked, second) = (asked.clone(), second.clone());
        cluster.endpoint(name, Credential::Basic, move |request| {
            let path = request.path_and_query.trim_start_matches("/ufmRest/");
            asked.borrow_mut().push(format!("{name} {path}"));
            let version = if name == "ufm" { 1 } else { second.get() };
            let body = match path {
                _ if version == 0 => return Ok(Reply::new(403, "")),
                "app/versioning" => json!({"ports_version": version, "links_version": 1, "switches_version": 1,
                    "servers_version": 1}),
                path if path.contains("ports") => json!(net.ports),
                _ => json!(net.links),
            };
            Ok(Reply::new(200, body.to_string()))
        })
    });
    Planes { asked, second, cluster }
}

/// One rail each, so that only both together show both.
fn two_rails() -> [Net; 2] {
    let net = Net::units(&["a", "b"], 2, 2);
    [0, 1].map(|rail| {
        let mut plane = net.clone();
        let name = format!("-{rail}");
        let is_on = |port: &serde_json::Value| {
            ["system_name", "peer_node_name"]
                .iter()
                .any(|key| port[key].as_str().is_some_and(|leaf| leaf.starts_with("leaf-") && leaf.ends_with(&name)))
        };
        plane.ports.retain(is_on);
        plane
    })
}

#[test]
fn the_cables_of_independent_fabrics_are_united() {
    let planes = planes(two_rails());
    let seen = RoundResult::of(planes.cluster.discover::<Ufm>(CONFIG).unwrap(), &NODES);
    assert_eq!((seen.groups(), seen.tiers()), (set(["a-0 a-1", "b-0 b-1"]), vec![2]));
    assert_eq!(planes.asked.borrow().len(), 6);
}

#[test]
fn only_the_fabric_that_moved_is_read_again() {
    let mut planes = planes(two_rails());
    let first = planes.cluster.discover::<Ufm>(CONFIG).unwrap();
    planes.cluster = planes.cluster.state(first.state);
    planes.asked.borrow_mut().clear();
    assert_eq!(planes.cluster.discover::<Ufm>(CONFIG).unwrap().outcome, Outcome::Unchanged);
    assert_eq!(*planes.asked.borrow(), ["ufm app/versioning", "ufm-2 app/versioning"]);
    planes.second.set(2);
    planes.asked.borrow_mut().clear();
    planes.cluster.discover::<Ufm>(CONFIG).unwrap();
    assert_eq!(planes.asked.borrow().iter().filter(|asked| asked.contains("ports")).count(), 1);
}

#[test]
fn one_fabric_that_fails_fails_the_round() {
    let planes = planes(two_rails());
    planes.second.set(0);
    let Err(Failure::Unauthorized(message)) = planes.cluster.discover::<Ufm>(CONFIG) else { panic!("half an answer") };
    assert!(message.contains("\"ufm-2\""), "{message}");
}

#[test]
fn switches_that_have_only_a_name_are_others_in_another_fabric() {
    let mut nets = [Net::units(&["a"], 2, 1), Net::units(&["b"], 2, 1)];
    for net in &mut nets {
        net.ports.retain(|port| port["description"] == "Computer IB Port");
        for port in &mut net.ports {
            for key in ["peer", "peer_guid", "peer_node_guid", "peer_node_description"] {
                port[key] = json!("N/A");
            }
            port["peer_node_name"] = json!("switch");
        }
    }
    let seen = RoundResult::of(planes(nets).cluster.discover::<Ufm>(CONFIG).unwrap(), &NODES);
    assert_eq!(seen.groups(), set(["a-0 a-1", "b-0 b-1"]));
}
