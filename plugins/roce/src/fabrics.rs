//! What the tests of whole rounds are made of: nodes with entries, bodies, services that answer page by page.

use crate::Roce;
use crate::config::ANNOTATION;
use std::cell::RefCell;
use std::rc::Rc;
use topoloom_sdk::http::Request;
use topoloom_sdk::testing::{Cluster, Reply};
use topoloom_sdk::{Answer, Credential, Failure, Outcome};

/// 2026-03-04T05:06:07Z, when the entries of the tests were made.
pub(crate) const NOW: u64 = 1_772_600_767_000;
pub(crate) const HOUR: u64 = 60 * 60 * 1000;
pub(crate) const DAY: u64 = 24 * HOUR;

/// The chassis id of switch number so and so.
pub(crate) fn mac(number: u32) -> String {
    format!("mac:7c:8c:09:00:{:02x}:{:02x}", number / 256, number % 256)
}

/// A link: interface and switch number.
pub(crate) fn link(interface: &str, switch: u32) -> String {
    format!(r#"{{"if": "{interface}", "switch": {{"name": "leaf{switch}", "chassis": "{}"}}}}"#, mac(switch))
}

/// A link with a switch as it stands in the document.
pub(crate) fn link_to(interface: &str, switch: &str) -> String {
    format!(r#"{{"if": "{interface}", "switch": {switch}}}"#)
}

/// The entry that a node carries, with the fields of an entry.
pub(crate) fn entry(fields: &str) -> String {
    format!(r#"{{"schema": "topoloom.fabric/v1", "observedAt": "2026-03-04T05:06:07Z", {fields}}}"#)
}

/// The entry of a node with these links.
pub(crate) fn linked(links: &[String]) -> String {
    entry(&format!(r#""links": [{}]"#, links.join(",")))
}

/// An entry of a body: a node with rails to these switches.
pub(crate) fn node(name: &str, switches: &[u32]) -> String {
    let links: Vec<String> =
        switches.iter().enumerate().map(|(rail, switch)| link(&format!("rdma{rail}"), *switch)).collect();
    let links = links.join(",");
    format!(r#"{{"node": "{name}", "observedAt": "2026-03-04T05:06:07Z", "links": [{links}]}}"#)
}

/// A body with these nodes, and more keys.
pub(crate) fn body(nodes: &[String], more: &str) -> String {
    format!(r#"{{"schema": "topoloom.fabric/v1", "generation": "g1", "nodes": [{}]{more}}}"#, nodes.join(","))
}

/// A cluster of nodes with annotations, now.
pub(crate) fn annotated(nodes: &[(&str, String)]) -> Cluster {
    let cluster = Cluster::new().at(NOW);
    nodes.iter().fold(cluster, |cluster, (name, value)| cluster.node(name, []).annotation(ANNOTATION, value))
}

/// A cluster of bare nodes, now.
pub(crate) fn nodes(names: &[&str]) -> Cluster {
    names.iter().fold(Cluster::new().at(NOW), |cluster, name| cluster.node(name, []))
}

/// The requests that an endpoint got: path and `If-None-Match`.
pub(crate) type Asked = Rc<RefCell<Vec<(String, Option<String>)>>>;

/// An endpoint that answers with what a function makes of the path and of the number of the request.
pub(crate) fn serve(cluster: Cluster, name: &str, answer: impl Fn(&str, usize) -> Reply + 'static) -> (Cluster, Asked) {
    let asked = Asked::default();
    let seen = Rc::clone(&asked);
    let cluster = cluster.endpoint(name, Credential::Bearer, move |request: &Request| {
        let header = request.headers.iter().find(|(key, _)| key == "if-none-match").map(|(_, value)| value.clone());
        let number = seen.borrow().len();
        seen.borrow_mut().push((request.path_and_query.clone(), header.clone()));
        let reply = answer(&request.path_and_query, number);
        Ok(match header {
            Some(tag) if tag == "same" => Reply::new(304, ""),
            _ => reply,
        })
    });
    (cluster, asked)
}

/// A round of this configuration.
pub(crate) fn round(cluster: &Cluster, config: &str) -> Result<Answer, Failure> {
    cluster.discover::<Roce>(config)
}

/// The members of the groups of tier 1, then `+` for an answer that only adds.
pub(crate) fn groups(cluster: &Cluster, answer: &Answer) -> Vec<String> {
    let Outcome::Topology(topology) = &answer.outcome else { return vec!["unchanged".to_owned()] };
    let shown = cluster.show(answer);
    let mut groups: Vec<String> = shown
        .lines()
        .filter(|line| line.starts_with("tier 1 "))
        .filter_map(|line| line.split(" | ").nth(3).map(str::to_owned))
        .collect();
    groups.sort();
    if topology.coverage == topoloom_sdk::Coverage::AdditionsOnly {
        groups.push("+".to_owned());
    }
    groups
}

/// Members of one round of nodes with annotations.
pub(crate) fn placed(annotated: &[(&str, String)], config: &str) -> Vec<String> {
    let cluster = self::annotated(annotated);
    groups(&cluster, &round(&cluster, config).unwrap())
}

/// The diagnostics of these codes, as `code | who | sentence`.
pub(crate) fn reports(cluster: &Cluster, answer: &Answer, codes: &[&str]) -> Vec<String> {
    let shown = cluster.show(answer);
    let reports = shown.lines().filter_map(|line| line.strip_prefix("! "));
    reports.filter(|line| codes.iter().any(|code| line.starts_with(&format!("{code} |")))).map(str::to_owned).collect()
}
