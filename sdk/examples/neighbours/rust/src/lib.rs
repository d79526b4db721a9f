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
//! A unit is called by its leaves and a pod by its first spine, as they are seen the first time. From then on each keeps the identity
//! of the object that has most of its members: a leaf that the collector cannot read for a moment is missing in the description,
//! and no object is deleted and written under another name. Nodes that differ by that leaf alone are one unit meanwhile.
//!
//! LLDP does not say which switch is a spine. Their names do, and the operator says how those begin: what can be guessed from the
//! cables alone would change with a node.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use topoloom_sdk::GroupRef;
use topoloom_sdk::applied::AppliedGroup;
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

/// A unit or a pod: its identity, and its members.
type Domain<T> = (String, BTreeSet<T>);

fn topology(cables: &Cables, spines: &str, input: &Input<'_>) -> Answer {
    let hosts = hosts(cables, input);
    let mut topology = TopologyBuilder::new();
    let (unit_level, pod_level) =
        (topology.level(Level::new(1).named("unit")), topology.level(Level::new(2).named("pod")));
    let mut by_leaves: BTreeMap<BTreeSet<&str>, BTreeSet<Row>> = BTreeMap::new();
    for (&row, leaves) in &hosts {
        by_leaves.entry(leaves.clone()).or_default().insert(row);
    }
    let leaves: BTreeSet<&str> = by_leaves.keys().flatten().copied().collect();
    let pods = pods(cables, spines, &leaves);
    let objects = input.applied.groups();
    let (mut units, mut switches) = (Vec::new(), Vec::new());
    for (leaves, rows) in by_leaves {
        let names = leaves.iter().copied().collect::<Vec<_>>().join("+");
        if names.len() > ID {
            let said = format!("{} leaf switches have names of more than {ID} bytes together", leaves.len());
            topology.diagnose("too-many-leaves", Subject::Rows(rows.into_iter().collect()), said);
            continue;
        }
        units.push((names, rows));
        switches.push(leaves);
    }
    let mut in_pod: BTreeMap<&str, (Vec<GroupRef>, BTreeSet<String>)> = BTreeMap::new();
    let ids = identities(&units, &known_units(&objects));
    for ((id, (_, rows)), leaves) in ids.into_iter().zip(units).zip(switches) {
        let said = leaves.iter().copied().collect::<Vec<_>>().join(" ");
        let unit = topology.group(unit_level, &id).description(&said).rows(rows.into_iter().collect());
        if let Some(pod) = leaves.iter().find_map(|leaf| pods.get(leaf)) {
            let (units, names) = in_pod.entry(pod).or_default();
            units.push(unit);
            names.insert(id);
        }
    }
    // A unit has the names of its leaves as its identity: a spine alone could have the same.
    let named = in_pod.iter().map(|(spine, (_, names))| (format!("pod+{spine}"), names.clone()));
    let ids = identities(&named.collect::<Vec<_>>(), &known_pods(&objects));
    for (id, (units, _)) in ids.into_iter().zip(in_pod.into_values()) {
        topology.group(pod_level, id).groups(units);
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

/// The units that this source wrote, with their nodes.
fn known_units(objects: &[AppliedGroup]) -> Vec<Domain<Row>> {
    let rows = |members: &topoloom_sdk::Members| match members {
        topoloom_sdk::Members::Rows(rows) => rows.clone(),
        _ => Vec::new(),
    };
    let nodes = |unit: &AppliedGroup| -> BTreeSet<Row> { unit.members.iter().flat_map(rows).collect() };
    let units = objects.iter().filter(|object| object.tier == 1);
    units.filter_map(|unit| Some((unit.id.clone()?, nodes(unit)))).collect()
}

/// The pods that this source wrote, with the identities of their units.
fn known_pods(objects: &[AppliedGroup]) -> Vec<Domain<String>> {
    let positions = |members: &topoloom_sdk::Members| match members {
        topoloom_sdk::Members::Groups(positions) => positions.clone(),
        _ => Vec::new(),
    };
    let unit = |at: u32| objects.get(at as usize)?.id.clone();
    let pods = objects.iter().filter(|object| object.tier == 2);
    let units =
        |pod: &AppliedGroup| -> BTreeSet<String> { pod.members.iter().flat_map(positions).filter_map(unit).collect() };
    pods.filter_map(|pod| Some((pod.id.clone()?, units(pod)))).collect()
}

/// The identity of each domain: its own where there is such an object, otherwise that of the object with most of its members that no
/// other domain has. A domain that shares no member with any of them is new, and has its own.
fn identities<T: Ord>(domains: &[Domain<T>], known: &[Domain<T>]) -> Vec<String> {
    let own: BTreeSet<&str> = domains.iter().map(|(id, _)| id.as_str()).collect();
    let objects: BTreeSet<&str> = known.iter().map(|(id, _)| id.as_str()).collect();
    let free = known.iter().filter(|(id, _)| !own.contains(id.as_str()));
    let places: BTreeMap<&T, &str> =
        free.flat_map(|(id, members)| members.iter().map(move |member| (member, id.as_str()))).collect();
    let mut taken: BTreeSet<&str> = BTreeSet::new();
    let mut ids = Vec::new();
    for (id, members) in domains {
        let mut shared: BTreeMap<&str, usize> = BTreeMap::new();
        if !objects.contains(id.as_str()) {
            for object in members.iter().filter_map(|member| places.get(member)) {
                *shared.entry(object).or_default() += 1;
            }
        }
        let left = shared.into_iter().filter(|(object, _)| !taken.contains(object));
        // Of two with as many members the first.
        match left.min_by_key(|&(_, count)| Reverse(count)) {
            Some((object, _)) => {
                taken.insert(object);
                ids.push(object.to_owned());
            }
            None => ids.push(id.clone()),
        }
    }
    ids
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
        round_after(Vec::new(), text)
    }

    fn round_after(objects: Vec<AppliedGroup>, text: String) -> Result<String, Failure> {
        let nodes = Cluster::new().node("m1", []).node("m2", []).node("m3", []).node("m4", []).objects(objects);
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

    /// The objects of [`TREE`].
    fn objects() -> Vec<AppliedGroup> {
        let object = |tier: u32, id: &str, members: topoloom_sdk::Members| AppliedGroup {
            id: Some(id.to_owned()),
            name: format!("hypernode-{id}"),
            tier,
            tier_name: None,
            labels: Vec::new(),
            members: vec![members],
        };
        vec![
            object(1, "leaf-1+leaf-2", topoloom_sdk::Members::Rows(vec![0, 1])),
            object(1, "leaf-3", topoloom_sdk::Members::Rows(vec![2])),
            object(2, "pod+spine-1", topoloom_sdk::Members::Groups(vec![0, 1])),
        ]
    }

    #[test]
    fn a_switch_that_cannot_be_read_changes_no_identity_of_its_own_nodes() {
        let without = |switch: &str| {
            let seen = CABLES.into_iter().filter(|(local, remote)| *local != switch && *remote != switch);
            document(&seen.collect::<Vec<_>>())
        };
        assert_eq!(round_after(objects(), document(&CABLES)).unwrap(), TREE);
        let half = TREE.replace("said leaf-1 leaf-2", "said leaf-1");
        assert_eq!(round_after(objects(), without("leaf-2")).unwrap(), half);
        let pod = round_after(objects(), without("spine-1")).unwrap();
        assert!(pod.contains("tier 2 pod | pod+spine-1 |  | [leaf-3]\n"), "{pod}");
        // Without an object there is nothing to keep.
        let new = round(without("leaf-2")).unwrap();
        assert!(new.starts_with("tier 1 unit | leaf-1 |  | m1 m2 | said leaf-1\n"), "{new}");
    }

    #[test]
    fn an_identity_has_one_domain() {
        let domain = |id: &str, members: &[u32]| -> Domain<u32> { (id.to_owned(), members.iter().copied().collect()) };
        let known = [domain("a", &[1, 2, 3]), domain("b", &[4, 5])];
        let ids = |domains: &[Domain<u32>]| identities(domains, &known).join(" ");
        assert_eq!(ids(&[domain("x", &[1, 2]), domain("y", &[3, 4]), domain("z", &[9])]), "a b z");
        assert_eq!(ids(&[domain("a", &[1]), domain("x", &[2, 3])]), "a x");
        assert_eq!(ids(&[domain("x", &[1, 4, 5]), domain("y", &[2])]), "b a");
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
