//! Times a whole round natively over a generated fabric: 2 048 hosts with eight rails, three tiers, 98 304 port objects
//! of about 1.5 kB. Beside it, the same list through `serde_json` with a struct of the same fields.
//!
//! `cargo run --release -p topoloom-plugin-ufm --example round [DIR]`; with DIR the lists are left there.

#![expect(clippy::print_stdout, reason = "prints what it measures")]

use serde::Deserialize;
use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;
use topoloom_plugin_ufm::Ufm;
use topoloom_sdk::testing::{Cluster, Reply};
use topoloom_sdk::{Credential, Outcome};

const HOSTS: u64 = 2_048;
const RAILS: u64 = 8;
const UNIT: u64 = 32;
/// Upper switches that every switch of the tier below has a cable to.
const UP: u64 = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let fabric = Fabric::generate()?;
    let megabytes = |text: &str| text.len() / 1_000_000;
    println!("{} ports, {} MB; links {} MB", fabric.count, megabytes(&fabric.ports), megabytes(&fabric.links));
    if let Some(directory) = std::env::args().nth(1) {
        std::fs::write(format!("{directory}/ports.json"), &fabric.ports)?;
        std::fs::write(format!("{directory}/links.json"), &fabric.links)?;
    }
    for _ in 0..3 {
        let begin = Instant::now();
        let ports: Vec<Port<'_>> = serde_json::from_str(&fabric.ports)?;
        let hosts = ports.iter().filter(|port| port.is_host()).count();
        println!("serde_json, all records kept: {:?}, {hosts} ports of hosts", begin.elapsed());
        let begin = Instant::now();
        let mut elements = topoloom_sdk::json::Elements::new(fabric.ports.as_bytes(), "data");
        let mut count = 0;
        while elements.next()?.is_some() {
            count += 1;
        }
        println!("elements alone: {:?}, {count} records", begin.elapsed());
        let cluster = (0..HOSTS).fold(Cluster::new(), |cluster, host| cluster.node(&name(host), []));
        let (ports, links) = (fabric.ports.clone(), fabric.links.clone());
        let cluster = cluster.endpoint("ufm", Credential::Basic, move |request| {
            Ok(match request.path_and_query.as_str() {
                "/ufmRest/resources/ports?active=true" => Reply::new(200, ports.clone()),
                "/ufmRest/resources/links" => Reply::new(200, links.clone()),
                _ => Reply::new(404, ""),
            })
        });
        let begin = Instant::now();
        let answer = cluster.discover::<Ufm>(r#"{"endpoint": "ufm"}"#).map_err(|failure| format!("{failure:?}"))?;
        let groups = match &answer.outcome {
            Outcome::Topology(topology) => topology.groups.len(),
            Outcome::Unchanged => 0,
        };
        println!("round: {:?}, {groups} groups, state {} bytes", begin.elapsed(), answer.state.len());
    }
    Ok(())
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only reading matters")]
struct Port<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    guid: Cow<'a, str>,
    #[serde(borrow)]
    description: Cow<'a, str>,
    #[serde(borrow)]
    system_name: Cow<'a, str>,
    #[serde(borrow)]
    node_description: Cow<'a, str>,
    #[serde(borrow)]
    dname: Cow<'a, str>,
    #[serde(borrow)]
    physical_state: Cow<'a, str>,
    #[serde(borrow)]
    logical_state: Cow<'a, str>,
    #[serde(borrow)]
    peer: Cow<'a, str>,
    #[serde(borrow)]
    peer_guid: Cow<'a, str>,
    #[serde(borrow)]
    peer_node_guid: Cow<'a, str>,
    #[serde(borrow)]
    peer_node_name: Cow<'a, str>,
    #[serde(borrow)]
    peer_node_description: Cow<'a, str>,
}

impl Port<'_> {
    fn is_host(&self) -> bool {
        self.description.starts_with("Computer")
    }
}

fn name(host: u64) -> String {
    format!("gpu-{host:05}")
}

/// One end of a cable.
struct End {
    guid: u64,
    port: u64,
    system: String,
    description: String,
    is_host: bool,
}

impl End {
    fn of_host(host: u64, rail: u64) -> Self {
        let system = name(host);
        let description = format!("{system} mlx5_{rail}");
        Self { guid: 0xa1b2_0000_0000_0000 + host * RAILS + rail + 1, port: 1, system, description, is_host: true }
    }

    fn of_switch(tier: u64, number: u64, port: u64) -> Self {
        let system = format!("ib-{tier}-{number:04}");
        let description = format!("{system}:{port}");
        Self { guid: 0x5c6d_0000_0000_0000 + (tier << 32) + number + 1, port, system, description, is_host: false }
    }
}

struct Fabric {
    ports: String,
    links: String,
    count: usize,
}

impl Fabric {
    fn generate() -> Result<Self, std::fmt::Error> {
        let mut fabric = Self { ports: "[\n".to_owned(), links: "[".to_owned(), count: 0 };
        let leaves = HOSTS / UNIT * RAILS;
        for host in 0..HOSTS {
            for rail in 0..RAILS {
                let leaf = End::of_switch(1, host / UNIT * RAILS + rail, host % UNIT + 1);
                fabric.cable(&End::of_host(host, rail), &leaf)?;
            }
        }
        // Eight units are a pod; a rail of a pod has the same spines.
        for leaf in 0..leaves {
            for up in 0..UP {
                let (pod, rail) = (leaf / RAILS / 8, leaf % RAILS);
                let spine = (pod * RAILS + rail) * UP + up;
                fabric
                    .cable(&End::of_switch(1, leaf, UNIT + up + 1), &End::of_switch(2, spine, leaf / RAILS % 8 + 1))?;
            }
        }
        let spines = HOSTS / UNIT / 8 * RAILS * UP;
        for spine in 0..spines {
            for up in 0..8 {
                let core = spine % 256 / 8 * 8 + up;
                fabric.cable(&End::of_switch(2, spine, 33 + up), &End::of_switch(3, core, spine / 8 + 1))?;
            }
        }
        fabric.ports.push_str("\n]");
        fabric.links.push(']');
        Ok(fabric)
    }

    fn cable(&mut self, a: &End, b: &End) -> std::fmt::Result {
        self.port(a, b)?;
        self.port(b, a)?;
        let comma = if self.links.len() > 1 { "," } else { "" };
        write!(
            self.links,
            r#"{comma}{{"name":"{:016x}_{}:{:016x}_{}","source_guid":"{:016x}","source_port":"{}","source_port_dname":"1/1/1","source_port_node_description":"{}","destination_guid":"{:016x}","destination_port":"{}","destination_port_dname":"1/1/1","destination_port_node_description":"{}","width":"4x","severity":"Info","capabilities":[],"cable_info":{{}}}}"#,
            a.guid, a.port, b.guid, b.port, a.guid, a.port, a.description, b.guid, b.port, b.description
        )
    }

    fn port(&mut self, own: &End, peer: &End) -> std::fmt::Result {
        if self.count > 0 {
            self.ports.push_str(",\n");
        }
        self.count += 1;
        let (kind, tier, dname) = if own.is_host { ("Computer", 1, "HCA-1/1") } else { ("Switch", 4, "1/9/1") };
        let text = |key: &str, value: &str| format!("        \"{key}\": \"{value}\",\n");
        let number = |key: &str, value: u64| format!("        \"{key}\": {value},\n");
        let (own_guid, peer_guid) = (format!("{:016x}", own.guid), format!("{:016x}", peer.guid));
        self.ports.push_str("    {\n");
        for line in [
            text("name", &format!("{own_guid}_{}", own.port)),
            text("guid", &own_guid),
            text("systemID", &own_guid),
            text("description", &format!("{kind} IB Port")),
            number("number", own.port),
            number("external_number", own.port),
            text("dname", dname),
            text("system_name", &own.system),
            text("node_description", &own.description),
            number("tier", tier),
            text("path", &format!("default / {kind}: {} / NA / {dname}", own.system)),
            text("physical_state", "Link Up"),
            text("logical_state", "Active"),
            text("severity", "Info"),
            text("high_ber_severity", "N/A"),
            text("active_speed", "NDR"),
            text("active_width", "4x"),
            text("enabled_speed", "NDR"),
            text("supported_speed", "SDR, DDR, QDR, FDR, EDR, HDR, NDR"),
            number("mtu", 4096),
            number("lid", own.guid & 0xbfff),
            text("peer", &format!("{peer_guid}_{}", peer.port)),
            text("peer_guid", &peer_guid),
            text("peer_node_guid", &peer_guid),
            text("peer_node_name", &peer.system),
            text("peer_node_description", &peer.description),
            text("peer_port_dname", if peer.is_host { "HCA-1/1" } else { "1/9/1" }),
            number("peer_lid", peer.guid & 0xbfff),
            text("system_ip", "0.0.0.0"),
            text("peer_ip", "0.0.0.0"),
            text("fec_active", "MLNX_RS_271_257"),
            text("logical_port_name", "logical port"),
            "        \"capabilities\": [\n            \"healthy_operations\",\n            \"reset\",\n            \"disable\"\n        ],\n".to_owned(),
            "        \"enabled_speeds\": [\n            \"NDR\"\n        ]\n".to_owned(),
        ] {
            self.ports.push_str(&line);
        }
        write!(self.ports, "    }}")
    }
}
