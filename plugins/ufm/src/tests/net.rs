//! A fabric in a few lines, as UFM would list it.

use crate::Ufm;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use topoloom_sdk::http::Request;
use topoloom_sdk::testing::{Cluster, Reply};
use topoloom_sdk::{Answer, Credential, Failure, Members, Outcome, Topology};

pub(super) const CONFIG: &str = r#"{"endpoint": "ufm"}"#;

/// Ports and links.
#[derive(Debug, Clone, Default)]
pub(super) struct Net {
    pub(super) ports: Vec<Value>,
    pub(super) links: Vec<Value>,
}

/// The GUID that everything of this name has.
pub(super) fn guid(name: &str) -> String {
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

impl Net {
    /// Units of hosts: host `n` of unit `a` is `a-n`, on the leaves `leaf-a-0`, `leaf-a-1` and so on, one per rail.
    pub(super) fn units(units: &[&str], hosts: usize, rails: usize) -> Self {
        let mut net = Self::default();
        for unit in units {
            for host in 0..hosts {
                for rail in 0..rails {
                    net.cable(&format!("{unit}-{host}"), rail, &format!("leaf-{unit}-{rail}"));
                }
            }
        }
        net
    }

    /// Plugs a host into a leaf: both ends are listed. Answers the host's.
    pub(super) fn cable(&mut self, host: &str, rail: usize, leaf: &str) -> &mut Value {
        let (own, peer) = (guid(&format!("{host}/{rail}")), guid(leaf));
        let far = self.ports.len() + 1;
        self.ports.push(json!({
            "name": format!("{peer}_{far}"), "guid": peer, "systemID": peer, "description": "Switch IB Port",
            "system_name": leaf, "node_description": format!("{leaf}:{far}"), "tier": 4, "dname": "1/9/1",
            "physical_state": "Link Up", "logical_state": "Active",
            "peer": format!("{own}_1"), "peer_guid": own, "peer_node_guid": own, "peer_node_name": host,
        }));
        self.ports.push(json!({
            "name": format!("{own}_1"), "guid": own, "systemID": guid(host), "description": "Computer IB Port",
            "system_name": host, "node_description": format!("{host} mlx5_{rail}"), "tier": 1,
            "dname": format!("HCA-{}/1", rail + 1), "physical_state": "Link Up", "logical_state": "Active",
            "peer": format!("{peer}_{far}"), "peer_guid": peer, "peer_node_guid": peer, "peer_node_name": leaf,
            "peer_node_description": format!("{leaf}:{far}"), "peer_port_dname": "1/9/1", "mtu": 4096,
        }));
        self.ports.last_mut().unwrap()
    }

    /// Joins two switches: both ports and the link are listed.
    pub(super) fn trunk(&mut self, a: &str, b: &str) {
        for (own, peer) in [(a, b), (b, a)] {
            let number = self.ports.len() + 1;
            self.ports.push(json!({
                "name": format!("{}_{number}", guid(own)), "guid": guid(own), "description": "Switch IB Port",
                "system_name": own, "physical_state": "Link Up", "logical_state": "Active",
                "peer": format!("{}_{number}", guid(peer)), "peer_node_guid": guid(peer), "peer_node_name": peer,
            }));
        }
        let number = self.links.len();
        self.links.push(json!({
            "name": format!("{}_{number}:{}_{number}", guid(a), guid(b)), "source_guid": guid(a),
            "source_port": "33", "destination_guid": format!("0x{}", guid(b)), "cable_info": [],
        }));
    }

    /// The ports of hosts with this name.
    pub(super) fn of_host<'n>(&'n mut self, host: &'n str) -> impl Iterator<Item = &'n mut Value> + 'n {
        self.ports.iter_mut().filter(move |port| port["system_name"] == host)
    }

    /// A cluster of these nodes beside a UFM with this fabric.
    pub(super) fn cluster<'n>(&self, nodes: impl IntoIterator<Item = &'n str>) -> Cluster {
        let (ports, links) = (json!(self.ports).to_string(), json!(self.links).to_string());
        beside(nodes, move |path| match path {
            "resources/ports?active=true" | "resources/ports" => Reply::new(200, ports.clone()),
            "resources/links" => Reply::new(200, links.clone()),
            _ => Reply::new(404, ""),
        })
    }

    /// One round over all hosts that the ports name.
    pub(super) fn round(&self, nodes: &[&str]) -> RoundResult {
        RoundResult::of(self.cluster(nodes.iter().copied()).discover::<Ufm>(CONFIG).unwrap(), nodes)
    }
}

/// A cluster of these nodes beside a UFM; paths come without the prefix.
pub(super) fn beside<'n>(
    nodes: impl IntoIterator<Item = &'n str>,
    answer: impl Fn(&str) -> Reply + 'static,
) -> Cluster {
    let cluster = nodes.into_iter().fold(Cluster::new(), |cluster, node| cluster.node(node, []));
    cluster.endpoint("ufm", Credential::Basic, move |request| {
        Ok(answer(request.path_and_query.strip_prefix("/ufmRest/").expect("the prefix for user and password")))
    })
}

/// Writes down every request.
pub(super) fn recorded(
    nodes: &[&str],
    answer: impl Fn(&Request) -> Reply + 'static,
    credential: Credential,
) -> (Cluster, Rc<RefCell<Vec<String>>>) {
    let asked = Rc::new(RefCell::new(Vec::new()));
    let log = asked.clone();
    let cluster = nodes.iter().fold(Cluster::new(), |cluster, node| cluster.node(node, []));
    let cluster = cluster.endpoint("ufm", credential, move |request| {
        log.borrow_mut().push(request.path_and_query.clone());
        Ok(answer(request))
    });
    (cluster, asked)
}

/// An answer in the words of a test.
#[derive(Debug)]
pub(super) struct RoundResult {
    pub(super) answer: Answer,
    nodes: Vec<String>,
}

impl RoundResult {
    pub(super) fn of(answer: Answer, nodes: &[&str]) -> Self {
        Self { answer, nodes: nodes.iter().map(ToString::to_string).collect() }
    }

    pub(super) fn topology(&self) -> &Topology {
        match &self.answer.outcome {
            Outcome::Topology(topology) => topology,
            Outcome::Unchanged => panic!("unchanged"),
        }
    }

    /// The nodes of each group that has nodes.
    pub(super) fn groups(&self) -> BTreeSet<String> {
        let rows = |members: &Members| match members {
            Members::Rows(rows) => {
                let mut names: Vec<&str> = rows.iter().map(|&row| self.nodes[row as usize].as_str()).collect();
                names.sort_unstable();
                Some(names.join(" "))
            }
            Members::Names(_) | Members::Selector(_) => panic!("only rows are asked for"),
            Members::Groups(_) => None,
        };
        self.topology().groups.iter().filter_map(|group| rows(&group.members)).collect()
    }

    /// How many groups each tier has, lowest first.
    pub(super) fn tiers(&self) -> Vec<usize> {
        let topology = self.topology();
        let tiers = topology.levels.iter().map(|level| level.tier).max().unwrap_or(0);
        let tier = |group: u32| topology.levels[group as usize].tier;
        (1..=tiers).map(|wanted| topology.groups.iter().filter(|g| tier(g.level) == wanted).count()).collect()
    }

    /// The sentence of the first diagnostic with this code.
    pub(super) fn report(&self, code: &str) -> Option<&str> {
        let found = self.topology().diagnostics.iter().find(|report| report.code == code);
        found.map(|report| report.detail.as_str())
    }

    pub(super) fn codes(&self) -> BTreeSet<&str> {
        self.topology().diagnostics.iter().map(|report| report.code.as_str()).collect()
    }
}

/// The message of an upstream failure.
pub(super) fn upstream(failure: Failure) -> String {
    match failure {
        Failure::Upstream(upstream) => upstream.message,
        other => panic!("{other:?}"),
    }
}

/// The groups that a test expects.
pub(super) fn set<const N: usize>(groups: [&str; N]) -> BTreeSet<String> {
    groups.map(str::to_owned).into()
}
