//! What is asked, in which order, and what is made of the forms of the answers.

use super::net::{CONFIG, Net, RoundResult, recorded, set, upstream};
use crate::Ufm;
use serde_json::{Value, json};
use topoloom_sdk::http::{Error, Request};
use topoloom_sdk::testing::{Cluster, Reply};
use topoloom_sdk::{Credential, Failure};

const NODES: [&str; 4] = ["a-0", "a-1", "b-0", "b-1"];

fn net() -> Net {
    Net::units(&["a", "b"], 2, 8)
}

fn groups(cluster: &Cluster, config: &str) -> RoundResult {
    RoundResult::of(cluster.discover::<Ufm>(config).unwrap(), &NODES)
}

#[test]
fn a_round_asks_for_versions_ports_and_links() {
    let net = net();
    let reply = move |request: &Request| {
        assert_eq!(request.headers, [("accept".to_owned(), "application/json".to_owned())]);
        match request.path_and_query.as_str() {
            "/ufmRest/resources/ports?active=true" => Reply::new(200, json!(net.ports).to_string()),
            "/ufmRest/resources/links" => Reply::new(200, "[]"),
            _ => Reply::new(404, ""),
        }
    };
    let (cluster, asked) = recorded(&NODES, reply, Credential::Basic);
    groups(&cluster, CONFIG);
    let all = ["/ufmRest/app/versioning", "/ufmRest/resources/links", "/ufmRest/resources/ports?active=true"];
    assert_eq!(*asked.borrow(), all);
    asked.borrow_mut().clear();
    groups(&cluster, r#"{"endpoint": "ufm", "uplinks": "off"}"#);
    assert_eq!(*asked.borrow(), [all[0], all[2]]);
}

#[test]
fn the_prefix_follows_the_credential_unless_the_operator_says_otherwise() {
    for (credential, config, prefix) in [
        (Credential::Token, CONFIG, "/ufmRestV3"),
        (Credential::Basic, CONFIG, "/ufmRest"),
        (Credential::Mtls, CONFIG, "/ufmRest"),
        (Credential::None, CONFIG, "/ufmRest"),
        (Credential::Token, r#"{"endpoint": "ufm", "apiPrefix": "/proxy/ufm/"}"#, "/proxy/ufm"),
        (Credential::Token, r#"{"endpoint": "ufm", "apiPrefix": "/"}"#, ""),
    ] {
        let (cluster, asked) = recorded(&NODES, |_| Reply::new(200, "[]"), credential);
        cluster.discover::<Ufm>(config).unwrap();
        assert_eq!(asked.borrow()[0], format!("{prefix}/app/versioning"));
        assert!(asked.borrow().iter().all(|path| path.starts_with(prefix)));
    }
}

#[test]
fn a_filter_that_is_not_known_is_left_out() {
    let net = net();
    let reply = move |request: &Request| match request.path_and_query.as_str() {
        "/ufmRest/resources/ports" => Reply::new(200, json!(net.ports).to_string()),
        "/ufmRest/resources/links" => Reply::new(200, "[]"),
        path if path.contains("resources") => Reply::new(400, ""),
        _ => Reply::new(404, ""),
    };
    let (cluster, asked) = recorded(&NODES, reply, Credential::Basic);
    assert_eq!(groups(&cluster, CONFIG).groups(), set(["a-0 a-1", "b-0 b-1"]));
    assert_eq!(asked.borrow()[2..], ["/ufmRest/resources/ports?active=true", "/ufmRest/resources/ports"]);
    asked.borrow_mut().clear();
    assert_eq!(groups(&cluster, r#"{"endpoint": "ufm", "pageSize": 500}"#).groups().len(), 2);
    let tried = ["?active=true&page_number=1&rpp=500", "?page_number=1&rpp=500", ""];
    assert_eq!(asked.borrow()[3..], tried.map(|query| format!("/ufmRest/resources/ports{query}")));
}

#[test]
fn a_list_has_an_end() {
    let body = format!("[{}{{}}]", "{},".repeat(1_000_000));
    let reply = move |_: &Request| Reply::new(200, body.clone());
    let (cluster, _) = recorded(&NODES, reply, Credential::Basic);
    let message = upstream(cluster.discover::<Ufm>(CONFIG).map(|_| ()).unwrap_err());
    assert!(message.ends_with("the list has more than 1000000 records"), "{message}");
}

#[test]
fn partial_content_is_no_success() {
    let (cluster, _) = recorded(&NODES, |_| Reply::new(206, "[]"), Credential::Basic);
    let message = upstream(cluster.discover::<Ufm>(CONFIG).map(|_| ()).unwrap_err());
    assert_eq!(message, "GET /ufmRest/app/versioning of the endpoint \"ufm\": status 206");
}

#[test]
fn what_the_host_refuses_or_cannot_reach_keeps_its_kind() {
    let failure = |error: Error| {
        let cluster = Cluster::new().endpoint("ufm", Credential::Basic, move |_| Err(error.clone()));
        cluster.discover::<Ufm>(CONFIG).map(|_| ()).unwrap_err()
    };
    assert_eq!(failure(Error::Denied("no".into())), Failure::Denied("no".into()));
    let message = upstream(failure(Error::Connect("refused".into())));
    assert_eq!(message, "GET /ufmRest/app/versioning of the endpoint \"ufm\": no connection: refused");
}

#[test]
fn each_kind_of_credential_is_refused_in_its_own_words() {
    for (credential, words) in [
        (Credential::None, "the UFM asks for a credential and none is configured"),
        (Credential::Token, "the token is refused: it may be revoked or expired"),
        (Credential::Basic, "user and password are refused"),
        (Credential::Mtls, "the client certificate is refused"),
    ] {
        let (cluster, _) = recorded(&NODES, |_| Reply::new(401, ""), credential);
        let Err(Failure::Unauthorized(message)) = cluster.discover::<Ufm>(CONFIG) else { panic!("{credential:?}") };
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn systems_are_asked_for_only_where_no_port_says_what_it_is() {
    let mut net = net();
    for port in &mut net.ports {
        port["description"] = json!("IB Port");
    }
    let system = |name: &str, kind: &str, guids: Vec<String>| {
        json!({"type": kind, "system_name": name, "name": guids[0], "guid": guids[0],
            "ports": guids.iter().map(|guid| format!("{guid}_1")).collect::<Vec<_>>()})
    };
    let guid = super::net::guid;
    let hosts = NODES.map(|host| system(host, "host", (0..8).map(|rail| guid(&format!("{host}/{rail}"))).collect()));
    let leaves = ["a", "b"].map(|unit| (0..8).map(move |rail| format!("leaf-{unit}-{rail}")));
    let leaves = leaves.into_iter().flatten().map(|leaf| system(&leaf, "switch", vec![guid(&leaf)]));
    let systems: Vec<Value> = hosts.into_iter().chain(leaves).collect();
    let reply = move |request: &Request| match request.path_and_query.as_str() {
        "/ufmRest/resources/ports?active=true" => Reply::new(200, json!(net.ports).to_string()),
        "/ufmRest/resources/systems" => Reply::new(200, json!(systems).to_string()),
        "/ufmRest/resources/links" => Reply::new(200, "[]"),
        _ => Reply::new(404, ""),
    };
    let (cluster, asked) = recorded(&NODES, reply, Credential::Basic);
    assert_eq!(groups(&cluster, CONFIG).groups(), set(["a-0 a-1", "b-0 b-1"]));
    assert!(asked.borrow().contains(&"/ufmRest/resources/systems".to_owned()));
}

#[test]
fn more_systems_than_there_is_room_for_are_a_failure_of_the_ufm() {
    let systems = format!("[{}{{}}]", "{},".repeat(300_000));
    let mut net = net();
    net.ports.iter_mut().for_each(|port| port["description"] = json!("IB Port"));
    let reply = move |request: &Request| match request.path_and_query.as_str() {
        path if path.contains("ports") => Reply::new(200, json!(net.ports).to_string()),
        path if path.contains("systems") => Reply::new(200, systems.clone()),
        _ => Reply::new(404, ""),
    };
    let (cluster, _) = recorded(&NODES, reply, Credential::Basic);
    let message = upstream(cluster.discover::<Ufm>(CONFIG).map(|_| ()).unwrap_err());
    assert_eq!(message, "resources/systems of the endpoint \"ufm\": there are more than 300000 systems");
}

#[test]
fn a_list_of_links_that_fails_fails_the_round_and_one_that_is_not_there_does_not() {
    let round = |status: u16, body: &'static str| {
        let net = net();
        let reply = move |request: &Request| match request.path_and_query.as_str() {
            path if path.contains("ports") => Reply::new(200, json!(net.ports).to_string()),
            path if path.contains("links") => Reply::new(status, body),
            _ => Reply::new(404, ""),
        };
        recorded(&NODES, reply, Credential::Basic).0.discover::<Ufm>(CONFIG).map(|_| ())
    };
    assert_eq!([round(404, ""), round(400, "")], [Ok(()), Ok(())]);
    for (status, body) in [(500, ""), (200, "{}"), (200, "[{"), (200, "<html>")] {
        assert!(upstream(round(status, body).unwrap_err()).contains("resources/links"));
    }
}
