//! Leaf switches and pods out of what a collector read by SNMP.
//!
//! A collector walks the LLDP-MIB of every switch (`lldpRemTable`) and writes what it found as one document:
//!
//! ```json
//! {"neighbours": [{"local": "leaf-1", "localPort": "Ethernet1", "remote": "m1.example.com", "remotePort": "eth2"}, …]}
//! ```
//!
//! `local` is a switch, `remote` the system name of what is behind its port: a host or another switch. The document is behind
//! a URL, in a ConfigMap or in a file, as the operator says.
//!
//! Nodes with the same leaf switches are a unit (with rails, a node has several). Units whose leaves share a spine, directly or
//! through other leaves, are a pod. Each cable has two ends, and one of them is enough: so a cable that one switch does not see
//! splits no pod, and neither does a switch that the collector cannot read for a moment.
//!
//! LLDP does not say which switch is a spine. Their names do, and the operator says how those begin: what can be guessed from the
//! cables alone would change with a node.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use topoloom_sdk::json::Members;
use topoloom_sdk::prelude::*;

/// Units and pods as switches see their neighbours.
struct Neighbours;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default = "usual_spines")]
    spines: String,
}

fn usual_spines() -> String {
    "spine".to_owned()
}

const SCHEMA: &str = r#"{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "spines": {"description": "How the names of spine switches begin.", "type": "string", "minLength": 1, "default": "spine"}
  }
}"#;

/// The longest name of a switch: names are parts of identities, which have 512 bytes.
const NAME: usize = 253;
const ID: usize = 512;

impl Discoverer for Neighbours {
    type Config = Config;

    fn describe() -> Description {
        let description = Description::new("neighbours", "0.1.0").vendor("Acme").config_schema(SCHEMA);
        description.summary("Units and pods by the LLDP neighbours of switches")
    }

    fn configure(config: &Config) -> Result<Requirements, Vec<Problem>> {
        if config.spines.is_empty() {
            return Err(vec![Problem::new("spines", "must be how the names of spine switches begin, such as spine-")]);
        }
        let endpoint = Endpoint::new("collector", "Reads which switch every node is connected to");
        Ok(Requirements::new().endpoint(endpoint).trigger(Trigger::on_timer()).trigger(Trigger::on_names()))
    }

    fn discover(config: &Config, input: &Input<'_>) -> Result<Answer, Failure> {
        let cables = read(input)?;
        // A collector that reads a tenth of the records wrong is broken, and the fabric is not.
        if cables.odd * 20 > cables.all {
            return Err(Failure::upstream(format!("{} of {} records cannot be read", cables.odd, cables.all)));
        }
        Ok(topology(&cables, &config.spines, input))
    }
}

topoloom_plugin!(Neighbours);

/// What all switches see.
#[derive(Default)]
struct Cables {
    /// The names behind the ports of each switch.
    behind: BTreeMap<String, BTreeSet<String>>,
    all: usize,
    odd: usize,
}

fn read(input: &Input<'_>) -> Result<Cables, Failure> {
    let mut cables = Cables::default();
    let response = input.http.send(&Request::get("collector", ""))?.success()?;
    let mut records = Elements::new(response, "neighbours");
    while let Some(record) = records.next_members(record)? {
        cables.all += 1;
        match record {
            Some((local, remote)) => _ = cables.behind.entry(local).or_default().insert(remote),
            None => cables.odd += 1,
        }
    }
    if !records.found() {
        return Err(Failure::upstream("there is no list of neighbours in the document"));
    }
    Ok(cables)
}

/// Both ends of a cable; `None` where one of them is missing or no name.
fn record(members: &mut Members<'_>) -> Option<(String, String)> {
    let (mut local, mut remote) = (None, None);
    for member in members {
        let (key, value) = member.ok()?;
        match key {
            b"local" => local = value.text().map(Cow::into_owned),
            b"remote" => remote = value.text().map(Cow::into_owned),
            _ => {}
        }
    }
    let is_name = |name: &String| !name.is_empty() && name.len() <= NAME && !name.contains('+');
    Some((local.filter(is_name)?, remote.filter(is_name)?))
}

fn topology(cables: &Cables, spines: &str, input: &Input<'_>) -> Answer {
    let hosts = hosts(cables, input);
    let mut topology = TopologyBuilder::new();
    let (unit_level, pod_level) =
        (topology.level(Level::new(1).named("unit")), topology.level(Level::new(2).named("pod")));
    let mut units: BTreeMap<BTreeSet<&str>, Vec<Row>> = BTreeMap::new();
    for (&row, leaves) in &hosts {
        units.entry(leaves.clone()).or_default().push(row);
    }
    let leaves: BTreeSet<&str> = units.keys().flatten().copied().collect();
    let pods = pods(cables, spines, &leaves);
    let mut in_pod: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (leaves, rows) in units {
        let names = leaves.iter().copied().collect::<Vec<_>>().join("+");
        if names.len() > ID {
            let said = format!("{} leaf switches have names of more than {ID} bytes together", leaves.len());
            topology.diagnose("too-many-leaves", Subject::Rows(rows), said);
            continue;
        }
        let said = leaves.iter().copied().collect::<Vec<_>>().join(" ");
        let unit = topology.group(unit_level, names).description(&said).rows(rows);
        if let Some(pod) = leaves.iter().find_map(|leaf| pods.get(leaf)) {
            in_pod.entry(pod).or_default().push(unit);
        }
    }
    for (spine, units) in in_pod {
        // A unit has the names of its leaves as its identity: a spine alone could have the same.
        topology.group(pod_level, format!("pod+{spine}")).groups(units);
    }
    let absent: Vec<Row> = (0..input.nodes.rows()).filter(|row| !hosts.contains_key(row)).collect();
    if !absent.is_empty() {
        topology.diagnose(
            "no-neighbour",
            Subject::Rows(absent),
            "no switch has a neighbour with the name of this node",
        );
    }
    if cables.odd > 0 {
        let said = format!("{} of {} records have no local and remote name", cables.odd, cables.all);
        topology.diagnose("unusable-record", Subject::Source, said);
    }
    topology.finish().into()
}

/// The leaf switches of each node. A node has its whole system name, or the part of it before the first dot.
fn hosts<'a>(cables: &'a Cables, input: &Input<'_>) -> BTreeMap<Row, BTreeSet<&'a str>> {
    let ends = cables.behind.iter().flat_map(|(local, remotes)| remotes.iter().map(move |remote| (local, remote)));
    let ends: Vec<_> = ends.filter(|(_, remote)| !cables.behind.contains_key(*remote)).collect();
    let whole = input.nodes.find(ends.iter().map(|(_, remote)| remote.as_str()));
    let short = input.nodes.find(ends.iter().map(|(_, remote)| remote.split('.').next().unwrap_or(remote)));
    let mut hosts: BTreeMap<Row, BTreeSet<&str>> = BTreeMap::new();
    for (&(local, _), row) in ends.iter().zip(whole.into_iter().zip(short).map(|(whole, short)| whole.or(short))) {
        if let Some(row) = row {
            hosts.entry(row).or_default().insert(local);
        }
    }
    hosts
}

/// The pod of each leaf that has a spine, by the first of its spines.
fn pods<'a>(cables: &'a Cables, spines: &str, leaves: &BTreeSet<&'a str>) -> BTreeMap<&'a str, &'a str> {
    let mut beside: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (local, remotes) in &cables.behind {
        for remote in remotes {
            for (leaf, spine) in [(local, remote), (remote, local)] {
                if leaves.contains(leaf.as_str()) && spine.starts_with(spines) {
                    beside.entry(leaf).or_default().insert(spine);
                    beside.entry(spine).or_default().insert(leaf);
                }
            }
        }
    }
    let mut pods = BTreeMap::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for &begin in leaves {
        let mut waiting = vec![begin];
        let mut pod: BTreeSet<&str> = BTreeSet::new();
        while let Some(switch) = waiting.pop() {
            if seen.insert(switch) {
                pod.insert(switch);
                waiting.extend(beside.get(switch).into_iter().flatten());
            }
        }
        if let Some(&first) = pod.iter().find(|switch| switch.starts_with(spines)) {
            pods.extend(pod.iter().filter(|switch| leaves.contains(*switch)).map(|leaf| (*leaf, first)));
        }
    }
    pods
}

#[cfg(test)]
mod tests {
    use topoloom_sdk::Credential;
    use topoloom_sdk::testing::{Cluster, Reply};

    use super::*;

    /// A document with these cables.
    fn document(cables: &[(&str, &str)]) -> String {
        let records = cables.iter().map(|(local, remote)| format!(r#"{{"local": "{local}", "remote": "{remote}"}}"#));
        format!(r#"{{"neighbours": [{}]}}"#, records.collect::<Vec<_>>().join(", "))
    }

    fn round(text: String) -> Result<String, Failure> {
        let nodes = Cluster::new().node("m1", []).node("m2", []).node("m3", []).node("m4", []);
        let cluster = nodes.endpoint("collector", Credential::None, move |_| Ok(Reply::new(200, text.clone())));
        cluster.discover::<Neighbours>("{}").map(|answer| cluster.show(&answer))
    }

    const CABLES: [(&str, &str); 11] = [
        ("leaf-1", "m1.example.com"),
        ("leaf-2", "m1"),
        ("leaf-1", "m2"),
        ("leaf-2", "m2"),
        ("leaf-3", "m3"),
        ("leaf-1", "spine-1"),
        ("spine-1", "leaf-2"),
        ("leaf-3", "spine-1"),
        ("leaf-3", "spine-2"),
        // A pair of leaves is no pod by its own cable, and a core makes no pod of all.
        ("leaf-1", "leaf-2"),
        ("spine-1", "core-1"),
    ];

    const TREE: &str = "tier 1 unit | leaf-1+leaf-2 |  | m1 m2 | said leaf-1 leaf-2\n\
                        tier 1 unit | leaf-3 |  | m3 | said leaf-3\n\
                        tier 2 pod | pod+spine-1 |  | [leaf-1+leaf-2 leaf-3]\n\
                        ! no-neighbour | m4 | no switch has a neighbour with the name of this node\n";

    #[test]
    fn nodes_with_the_same_leaves_are_a_unit_and_units_with_a_common_spine_a_pod() {
        assert_eq!(round(document(&CABLES)).unwrap(), TREE);
    }

    #[test]
    fn a_cable_that_is_missing_splits_no_pod() {
        let without: Vec<_> = CABLES.into_iter().filter(|cable| *cable != ("leaf-1", "spine-1")).collect();
        assert_eq!(round(document(&without)).unwrap(), TREE);
    }

    #[test]
    fn a_switch_that_cannot_be_read_changes_no_identity_of_others() {
        let read = |switch: &str| CABLES.into_iter().filter(|(local, _)| *local != switch).collect::<Vec<_>>();
        assert_eq!(round(document(&read("spine-1"))).unwrap(), TREE);
        let without = round(document(&read("leaf-3"))).unwrap();
        assert!(without.contains("tier 2 pod | pod+spine-1 |  | [leaf-1+leaf-2]\n"), "{without}");
    }

    #[test]
    fn spines_are_what_the_operator_says() {
        let cluster = Cluster::new();
        let end = cluster.discover::<Neighbours>(r#"{"spines": ""}"#);
        assert!(matches!(end, Err(Failure::Config(_))), "{end:?}");
    }

    #[test]
    fn half_a_document_is_none() {
        let whole = document(&CABLES);
        for text in [&whole[..whole.len() / 2], "<html></html>", r#"{"neighbors": []}"#, ""] {
            let end = round(text.to_owned());
            assert!(matches!(end, Err(Failure::Upstream(_))), "{text}: {end:?}");
        }
    }
}
